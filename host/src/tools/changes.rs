//! What a tool proposes, as the core's changes, and what became of it, as the tool hears it.

use std::time::Duration;

use apex_core::buffer::errors_name;
use apex_core::edit::{self, Joined, Splice};
use apex_core::entry::{Annotation, Body, BufferKind};
use apex_core::ids::{BufferId, Version, ViewId, WindowId};
use apex_core::proposal::{Change, Outcome, Refusal};
use apex_core::state::State;
use apex_core::text::Span;
use similar::{Algorithm, DiffOp, TextDiffConfig};

use super::bindings::exports::outcomes::Landed;
use super::bindings::wit::{proposals, types};
use super::bindings::{code, error};
use super::grants::Rights;
use super::limits;
use super::manifest::Cap;

/// Turns the changes of one proposal into the core's, checking rights, places and sizes.
#[derive(Debug)]
pub(super) struct Drafter<'a> {
    /// What the tool sees.
    pub(super) state: &'a State,
    /// What it may do.
    pub(super) rights: &'a Rights,
}

type Drafted = Result<Change, types::Error>;

impl Drafter<'_> {
    /// Returns the changes of a proposal.
    pub(super) fn draft(
        &self,
        changes: Vec<proposals::Change>,
    ) -> Result<Vec<Change>, types::Error> {
        let most = apex_core::limits::CHANGE_COUNT_MAX;
        if changes.is_empty() || changes.len() > most {
            return Err(error(
                code::LIMIT,
                format!("a proposal has 1 to {most} changes"),
            ));
        }
        let mut drafted = Vec::with_capacity(changes.len());
        let mut len = 0;
        for change in changes {
            let change = self.change(change, &drafted)?;
            len += text_len(&change);
            if len > limits::PROPOSAL_LEN_MAX {
                let most = limits::PROPOSAL_LEN_MAX;
                return Err(error(
                    code::LIMIT,
                    format!("a proposal has at most {most} bytes"),
                ));
            }
            drafted.push(change);
        }
        Ok(drafted)
    }

    fn change(&self, change: proposals::Change, before: &[Change]) -> Drafted {
        use proposals::Change as Wish;
        match change {
            Wish::Edit(edit) => self.edit(edit, before),
            Wish::Replace(replacement) => self.replace(&replacement, before),
            Wish::Annotate(layer) => self.annotate(layer),
            Wish::Board(board) => self.board(board),
            Wish::Select((window, at)) => {
                let window = self.window(window)?;
                Ok(Change::Select {
                    view: ViewId::Body(window),
                    at: checked_span(at)?,
                })
            }
            Wish::Show((buffer, address)) => {
                let buffer = self.buffer(Cap::Propose, buffer)?;
                Ok(Change::Show { buffer, address })
            }
            Wish::TagSegment((window, name, text)) => Ok(Change::TagSegment {
                window: self.window(window)?,
                name,
                text,
            }),
            Wish::Open(place) => self.open(&place),
            Wish::Errors((directory, text)) => {
                let name = errors_name(&directory);
                self.check(Cap::Propose, &format!("buffer:{name}"))?;
                Ok(Change::Append { name, text })
            }
            Wish::Put((buffer, version)) => {
                let buffer = self.buffer(Cap::Put, buffer)?;
                Ok(Change::Put {
                    buffer,
                    version: Version::new(version),
                })
            }
            Wish::GetIfClean((buffer, version)) => {
                let buffer = self.buffer(Cap::Get, buffer)?;
                self.current(buffer, version)?;
                Ok(Change::GetIfClean(buffer))
            }
            Wish::Close(window) => Ok(Change::Close(self.window(window)?)),
            Wish::Look((window, text)) => {
                self.check(Cap::Open, &text)?;
                Ok(Change::Look {
                    window: self.window(window)?,
                    text,
                })
            }
            Wish::Other((kind, _)) => Err(error(
                code::UNSUPPORTED,
                format!("this apex knows no change of the kind {kind:?}"),
            )),
        }
    }

    fn check(&self, cap: Cap, subject: &str) -> Result<(), types::Error> {
        self.rights
            .check(cap, subject)
            .map_err(|why| error(code::NOT_GRANTED, why))
    }

    /// Returns a buffer that exists and that the tool may change in this way. Tags are apex's own.
    fn buffer(&self, cap: Cap, id: u64) -> Result<BufferId, types::Error> {
        let buffer = self.state.buffer(BufferId::new(id));
        let buffer = buffer.filter(|buffer| buffer.kind() != BufferKind::Tag);
        let buffer = buffer.ok_or_else(|| error(code::NOT_FOUND, format!("no buffer {id}")))?;
        self.check(cap, &format!("buffer:{}", buffer.name()))?;
        Ok(BufferId::new(id))
    }

    /// Returns a window whose body the tool may change.
    fn window(&self, id: u64) -> Result<WindowId, types::Error> {
        let missing = || error(code::NOT_FOUND, format!("no window {id}"));
        match self
            .state
            .window(WindowId::new(id))
            .ok_or_else(missing)?
            .body
        {
            Body::Buffer(buffer) => self.buffer(Cap::Propose, buffer.raw())?,
            Body::Term(_) => {
                return Err(error(code::UNSUPPORTED, "the window shows a terminal"));
            }
        };
        Ok(WindowId::new(id))
    }

    /// Checks that a version is the one that the tool sees.
    fn current(&self, id: BufferId, version: u64) -> Result<(), types::Error> {
        let now = self
            .state
            .buffer(id)
            .map_or(0, |buffer| buffer.version().raw());
        if now == version {
            return Ok(());
        }
        let message = format!("buffer {id} is at version {now}, not {version}");
        Err(error(
            if version > now {
                code::OUT_OF_RANGE
            } else {
                code::STALE
            },
            message,
        ))
    }

    fn edit(&self, wish: proposals::Edit, before: &[Change]) -> Drafted {
        let buffer = self.buffer(Cap::Propose, wish.buffer)?;
        let splices: Vec<Splice> = wish
            .splices
            .into_iter()
            .map(|splice| Splice::new(Span::new(splice.at.q0, splice.at.q1), splice.text))
            .collect();
        // Positions can be checked here only against the very text that they are of.
        let text = self
            .state
            .buffer(buffer)
            .filter(|text| text.version().raw() == wish.base);
        let is_first = !is_edited(buffer, before);
        let len = text
            .filter(|_| is_first)
            .map_or(u64::MAX, |text| text.text().len());
        edit::check(&splices, len).map_err(|why| match why {
            edit::EditError::TooMany { .. } => error(code::LIMIT, why.to_string()),
            _ => error(code::OUT_OF_RANGE, why.to_string()),
        })?;
        Ok(Change::Edit {
            buffer,
            base: Version::new(wish.base),
            splices,
        })
    }

    fn replace(&self, wish: &proposals::Replacement, before: &[Change]) -> Drafted {
        let buffer = self.buffer(Cap::Propose, wish.buffer)?;
        self.current(buffer, wish.base)?;
        if is_edited(buffer, before) {
            let message = "a replace must be the only change of its buffer's text in a proposal";
            return Err(error(code::UNSUPPORTED, message));
        }
        if wish.text.len() > limits::PROPOSAL_LEN_MAX {
            let most = limits::PROPOSAL_LEN_MAX;
            return Err(error(
                code::LIMIT,
                format!("a replace has at most {most} bytes"),
            ));
        }
        let old = self
            .state
            .buffer(buffer)
            .map(|buffer| buffer.text().to_string());
        let splices = differences(&old.unwrap_or_default(), &wish.text);
        Ok(Change::Edit {
            buffer,
            base: Version::new(wish.base),
            splices,
        })
    }

    fn annotate(&self, wish: proposals::Layer) -> Drafted {
        let buffer = self.buffer(Cap::Propose, wish.buffer)?;
        check_name("a layer's name", &wish.name)?;
        let most = apex_core::limits::ANNOTATION_COUNT_MAX;
        if wish.annotations.len() > most {
            return Err(error(
                code::LIMIT,
                format!("a layer has at most {most} annotations"),
            ));
        }
        let spans = wish
            .annotations
            .into_iter()
            .map(annotation)
            .collect::<Result<_, _>>()?;
        Ok(Change::Annotate {
            buffer,
            base: Version::new(wish.base),
            layer: wish.name,
            spans,
        })
    }

    fn board(&self, wish: proposals::Board) -> Drafted {
        check_name("a board's name", &wish.name)?;
        self.check(Cap::Propose, &format!("buffer:{}", wish.name))?;
        let index = usize::try_from(wish.column)
            .ok()
            .and_then(|column| column.checked_sub(1));
        let column = index.and_then(|index| Some(self.state.layout()?.columns.get(index)?.id));
        Ok(Change::Board {
            name: wish.name,
            text: wish.text,
            column,
        })
    }

    fn open(&self, place: &str) -> Drafted {
        let (path, address) = split_place(place);
        if !path.starts_with('/') {
            return Err(error(
                code::OUT_OF_RANGE,
                "a file is opened by its absolute path",
            ));
        }
        // The path as it is checked is the path as it is opened.
        if path.split('/').any(|part| part == "..") {
            return Err(error(
                code::OUT_OF_RANGE,
                "a path to open has no `..` in it",
            ));
        }
        self.check(Cap::Open, path)?;
        Ok(Change::Open {
            path: path.to_owned(),
            address: address.to_owned(),
        })
    }
}

/// Returns whether one of these changes edits a buffer.
fn is_edited(id: BufferId, changes: &[Change]) -> bool {
    changes
        .iter()
        .any(|change| matches!(change, Change::Edit { buffer, .. } if *buffer == id))
}

/// Splits `name:address` where an address of lines or characters stands at the end.
fn split_place(place: &str) -> (&str, &str) {
    let is_address = |text: &str| {
        let digits = text.strip_prefix('#').unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    place
        .rsplit_once(':')
        .filter(|(_, address)| is_address(address))
        .unwrap_or((place, ""))
}

fn annotation(wish: proposals::Annotation) -> Result<Annotation, types::Error> {
    let severity = u8::try_from(wish.severity)
        .ok()
        .filter(|severity| *severity <= 4);
    Ok(Annotation {
        at: checked_span(wish.at)?,
        style: wish.style,
        severity: severity.unwrap_or(0),
        message: wish.message,
    })
}

fn checked_span(at: types::Span) -> Result<Span, types::Error> {
    if at.q0 <= at.q1 {
        return Ok(Span::new(at.q0, at.q1));
    }
    Err(error(
        code::OUT_OF_RANGE,
        format!("the span #{},#{} is reversed", at.q0, at.q1),
    ))
}

/// Checks a name that the user will read.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), types::Error> {
    let most = apex_core::limits::NAME_LEN_MAX;
    if !name.is_empty() && name.len() <= most && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(error(
        code::LIMIT,
        format!("{what} is one line of 1 to {most} bytes"),
    ))
}

/// Returns the bytes of text in a change.
fn text_len(change: &Change) -> usize {
    match change {
        Change::Edit { splices, .. } => splices.iter().map(|splice| splice.text.len()).sum(),
        Change::Annotate { spans, .. } => spans
            .iter()
            .map(|span| span.style.len() + span.message.len())
            .sum(),
        Change::Board { text, .. }
        | Change::Append { text, .. }
        | Change::TagSegment { text, .. }
        | Change::Look { text, .. } => text.len(),
        _ => 0,
    }
}

/// Returns the splices that turn one text into another and leave what is equal alone: lines
/// first, then the characters of what replaces what. Two replacements never touch.
pub(super) fn differences(old: &str, new: &str) -> Vec<Splice> {
    let mut config = TextDiffConfig::default();
    config
        .algorithm(Algorithm::Myers)
        .timeout(Duration::from_millis(limits::DIFF_MS));
    let lines = config.diff_lines(old, new);
    let old_at = Offsets::new(lines.iter_old_slices());
    let new_at = Offsets::new(lines.iter_new_slices());
    let mut splices = Joined::default();
    for op in lines.ops() {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let old_part = old_at.bytes(&op.old_range());
        let new_part = new_at.bytes(&op.new_range());
        let start = old_at.chars(op.old_range().start);
        refine(start, &old[old_part], &new[new_part], &config, &mut splices);
    }
    splices.into_splices()
}

/// Adds the differences of two short texts, character by character; of long ones, whole.
fn refine(start: u64, old: &str, new: &str, config: &TextDiffConfig, splices: &mut Joined) {
    /// Longer replacements are not worth the time, nor any clearer.
    const REFINED_LEN_MAX: usize = 16 << 10;
    if old.is_empty() || new.is_empty() || old.len() + new.len() > REFINED_LEN_MAX {
        let at = Span::new(start, start + old.chars().count() as u64);
        return splices.push(at, new);
    }
    let chars = config.diff_chars(old, new);
    let new_at = Offsets::new(chars.iter_new_slices());
    for op in chars.ops() {
        if !matches!(op, DiffOp::Equal { .. }) {
            let (from, to) = (op.old_range().start as u64, op.old_range().end as u64);
            let at = Span::new(start + from, start + to);
            splices.push(at, &new[new_at.bytes(&op.new_range())]);
        }
    }
}

/// Where each piece of a text begins, in bytes and in code points.
struct Offsets(Vec<(usize, u64)>);

impl Offsets {
    fn new<'a, I: Iterator<Item = &'a str>>(pieces: I) -> Self {
        let mut at = (0, 0);
        let mut offsets = vec![at];
        for piece in pieces {
            at = (at.0 + piece.len(), at.1 + piece.chars().count() as u64);
            offsets.push(at);
        }
        Self(offsets)
    }

    fn bytes(&self, pieces: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        self.0[pieces.start].0..self.0[pieces.end].0
    }

    fn chars(&self, piece: usize) -> u64 {
        self.0[piece].1
    }
}

/// Returns an outcome as the tool hears it: a deed that went wrong after the edits is an error.
pub(super) fn decided(
    outcome: Outcome,
    changes: &[&'static str],
) -> Result<Vec<Landed>, types::Error> {
    let landed = outcome.map_err(|why| refusal(&why))?;
    for (i, item) in landed.iter().enumerate() {
        if let Some(why) = &item.refusal {
            let deed = changes.get(i).copied().unwrap_or("a deed");
            let why = refusal(why);
            let message = format!("{deed}: {}; the edits stand", why.message);
            return Err(types::Error { message, ..why });
        }
    }
    let item = |landed: apex_core::proposal::Landed| Landed {
        buffer: landed.buffer.map_or(0, BufferId::raw),
        version: landed.version.raw(),
        window: landed.window.map_or(0, WindowId::raw),
    };
    Ok(landed.into_iter().map(item).collect())
}

/// Returns the words for changes, for the error of a deed that went wrong; none where all are
/// edits, which stand once they are accepted.
pub(super) fn deeds(changes: &[Change]) -> Vec<&'static str> {
    if changes
        .iter()
        .all(|change| matches!(change, Change::Edit { .. }))
    {
        return Vec::new();
    }
    changes.iter().map(deed).collect()
}

const fn deed(change: &Change) -> &'static str {
    match change {
        Change::Edit { .. } => "edit",
        Change::Select { .. } => "select",
        Change::Show { .. } => "show",
        Change::Annotate { .. } => "annotate",
        Change::Board { .. } => "board",
        Change::Append { .. } => "errors",
        Change::TagSegment { .. } => "tag-segment",
        Change::Open { .. } => "open",
        Change::Put { .. } => "put",
        Change::GetIfClean(_) => "get-if-clean",
        Change::Close(_) => "close",
        Change::Look { .. } => "look",
        Change::Saved { .. } => "saved",
        Change::Name { .. } => "name",
        Change::Undo { .. } => "undo",
        Change::Redo { .. } => "redo",
    }
}

fn refusal(why: &Refusal) -> types::Error {
    let code = match why {
        Refusal::Conflict { .. } | Refusal::Diverged { .. } | Refusal::Several(_) => code::CONFLICT,
        Refusal::Stale { .. } => code::STALE,
        Refusal::NotFound(_) => code::NOT_FOUND,
        Refusal::OutOfRange(_) => code::OUT_OF_RANGE,
        Refusal::SplitLeadership => code::SPLIT,
        Refusal::Retry(_) => code::RETRY,
        Refusal::NotGranted(_) => code::NOT_GRANTED,
        Refusal::Refused(_) => code::REFUSED,
    };
    error(code, why.to_string())
}

#[cfg(test)]
mod tests;
