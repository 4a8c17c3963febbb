//! What tools may call: the imports of `wit/`, each checked against the live rights.

use std::sync::Arc;

use apex_core::address;
use apex_core::buffer::Buffer;
use apex_core::entry::{Body, BufferKind};
use apex_core::ids::{BufferId, ViewId, WindowId};
use apex_core::regexp::Regexp;
use apex_core::text::{Span, Text};

use super::bindings::wit::types::{BufferInfo, Error, Selection, WindowInfo};
use super::bindings::wit::{self, types};
use super::bindings::{code, error};
use super::changes::{Drafter, check_name};
use super::events;
use super::follow::Patterns;
use super::guest::{Guest, Wish};
use super::limits;
use super::log::visible;
use super::manifest::Cap;

/// Names of what this apex can do beyond version 1.0.0 of the interface: nothing yet.
const FEATURES: [&str; 0] = [];

impl Guest {
    fn check(&self, cap: Cap, subject: &str) -> Result<(), Error> {
        self.identity
            .rights
            .check(cap, subject)
            .map_err(|why| error(code::NOT_GRANTED, why))
    }

    /// Returns a buffer that exists and may be read.
    fn readable(&self, id: u64) -> Result<&Buffer, Error> {
        let missing = || error(code::NOT_FOUND, format!("no buffer {id}"));
        let buffer = self.state.buffer(BufferId::new(id)).ok_or_else(missing)?;
        self.check(Cap::Follow, &format!("buffer:{}", buffer.name()))?;
        Ok(buffer)
    }

    /// Returns what is said of a buffer. How its lines end is found out once for each version.
    fn info(&mut self, id: BufferId, buffer: &Buffer) -> BufferInfo {
        /// Buffers whose line ends are remembered.
        const KNOWN_COUNT_MAX: usize = 256;
        let version = buffer.version();
        let known = self.line_ends.get(&id).filter(|(of, _)| *of == version);
        let line_end = known.map_or_else(|| line_end(buffer.text()), |(_, line_end)| *line_end);
        if self.line_ends.len() >= KNOWN_COUNT_MAX {
            self.line_ends.clear();
        }
        self.line_ends.insert(id, (version, line_end));
        buffer_info(id, buffer, line_end)
    }

    fn window_infos(&self) -> Vec<WindowInfo> {
        let layout = self.state.layout();
        let focused = self.focused();
        let column = |window| {
            let (id, _) = layout?.place(window)?;
            let index = layout?.columns.iter().position(|column| column.id == id)?;
            Some(index as u64 + 1)
        };
        let info = |(id, window): (WindowId, &apex_core::window::Window)| {
            let (body, term) = match window.body {
                Body::Buffer(buffer) => (buffer.raw(), 0),
                Body::Term(term) => (0, term.raw()),
            };
            WindowInfo {
                id: id.raw(),
                tag: window.tag.raw(),
                body,
                term,
                column: column(id).unwrap_or(0),
                focused: focused == Some(id),
            }
        };
        self.state.windows().map(info).collect()
    }

    fn focused(&self) -> Option<WindowId> {
        self.state.layout()?.focus?.window()
    }

    /// Counts the wishes of this call other than proposals.
    fn check_request(&self) -> Result<(), Error> {
        let most = limits::REQUESTS_PER_CALL_MAX;
        let is_request = |wish: &&Wish| !matches!(wish, Wish::Propose { .. });
        if self.wishes.iter().filter(is_request).count() < most {
            return Ok(());
        }
        Err(error(
            code::LIMIT,
            format!("at most {most} such requests in one call"),
        ))
    }
}

/// Returns the text of a span, whose ends must be in it and whose length is limited.
fn read(text: &Text, at: Span) -> Result<String, Error> {
    check_span(text, at)?;
    if at.len() > limits::READ_LEN_MAX {
        return Err(too_long());
    }
    let read = text.slice(at);
    if read.len() as u64 > limits::READ_LEN_MAX {
        Err(too_long())
    } else {
        Ok(read)
    }
}

fn too_long() -> Error {
    let most = limits::READ_LEN_MAX;
    error(
        code::LIMIT,
        format!("more than {most} bytes at once; read it in pieces"),
    )
}

fn check_span(text: &Text, at: Span) -> Result<(), Error> {
    if at.fits(text.len()) {
        return Ok(());
    }
    let message = format!(
        "#{},#{} is outside the text of {} code points",
        at.q0,
        at.q1,
        text.len()
    );
    Err(error(code::OUT_OF_RANGE, message))
}

const fn span(at: types::Span) -> Span {
    Span::new(at.q0, at.q1)
}

fn buffer_info(id: BufferId, buffer: &Buffer, line_end: u32) -> BufferInfo {
    let text = buffer.text();
    let is_ended = text.is_empty() || text.char_at(text.len() - 1) == Some('\n');
    let marks = [
        (buffer.is_modified(), 1),
        (buffer.kind() == BufferKind::Scratch, 2),
        (buffer.kind() == BufferKind::Directory, 4),
        (buffer.setting("read-only").is_some(), 8),
        (text.is_lossy(), 16),
    ];
    BufferInfo {
        id: id.raw(),
        name: buffer.name().to_owned(),
        directory: directory(buffer.name()).to_owned(),
        version: buffer.version().raw(),
        length: text.len(),
        lines: text.line_count() - u64::from(is_ended),
        line_end,
        marks: marks
            .iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, mark)| mark)
            .sum(),
    }
}

/// Returns the directory of a name: all of it for a directory, `/` for what has none.
pub(super) fn directory(name: &str) -> &str {
    match name.rfind('/') {
        Some(0) | None => "/",
        Some(_) if name.ends_with('/') => name.trim_end_matches('/'),
        Some(at) => &name[..at],
    }
}

/// Returns how the lines of a text end: 0 LF, 1 CRLF, 2 both.
fn line_end(text: &Text) -> u32 {
    let (mut plain, mut after_cr) = (false, false);
    let mut before = 0;
    for chunk in text.chunks() {
        for byte in chunk.bytes() {
            if byte == b'\n' {
                plain |= before != b'\r';
                after_cr |= before == b'\r';
            }
            before = byte;
        }
        if plain && after_cr {
            return 2;
        }
    }
    u32::from(after_cr)
}

impl types::Host for Guest {}

impl wit::session::Host for Guest {
    fn me(&mut self) -> u64 {
        self.identity.me.raw()
    }

    fn label(&mut self) -> String {
        self.state.meta().label.clone()
    }

    fn buffers(&mut self) -> Vec<BufferInfo> {
        let state = Arc::clone(&self.state);
        let mut infos = Vec::new();
        for (id, buffer) in state.buffers() {
            let subject = format!("buffer:{}", buffer.name());
            if buffer.kind() != BufferKind::Tag && self.check(Cap::Follow, &subject).is_ok() {
                infos.push(self.info(id, buffer));
            }
        }
        infos
    }

    fn windows(&mut self) -> Vec<WindowInfo> {
        self.window_infos()
    }

    fn focus(&mut self) -> u64 {
        self.focused().map_or(0, WindowId::raw)
    }

    fn buffer(&mut self, id: u64) -> Result<BufferInfo, Error> {
        self.readable(id)?;
        let state = Arc::clone(&self.state);
        let id = BufferId::new(id);
        let buffer = state.buffer(id).map(|buffer| self.info(id, buffer));
        buffer.ok_or_else(|| error(code::NOT_FOUND, format!("no buffer {id}")))
    }

    fn read(&mut self, id: u64, at: types::Span) -> Result<String, Error> {
        read(self.readable(id)?.text(), span(at))
    }

    fn lines(&mut self, id: u64, first: u64, count: u64) -> Result<Vec<String>, Error> {
        let text = self.readable(id)?.text();
        let start = text.line_start(first);
        let end = text.line_start(first.saturating_add(count));
        let lines = read(text, Span::new(start, end.max(start)))?;
        Ok(lines.split_inclusive('\n').map(str::to_owned).collect())
    }

    fn find(
        &mut self,
        id: u64,
        within: types::Span,
        regexp: String,
        most: u32,
    ) -> Result<Vec<types::Span>, Error> {
        let text = self.readable(id)?.text();
        check_span(text, span(within))?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if most > limits::FIND_COUNT_MAX {
            let message = format!(
                "more than {} matches are asked for at once",
                limits::FIND_COUNT_MAX
            );
            return Err(error(code::LIMIT, message));
        }
        let mut regexp = Regexp::new(&regexp)
            .map_err(|why| error(code::OUT_OF_RANGE, format!("{regexp:?}: {why}")))?;
        let found = regexp.find_all(text, span(within), most);
        Ok(found.into_iter().map(events::span).collect())
    }

    fn selection_of(&mut self, window: u64, part: u32) -> Result<Selection, Error> {
        let missing = || {
            error(
                code::NOT_FOUND,
                format!("window {window} has no part {part}"),
            )
        };
        let view = match part {
            0 => ViewId::Body(WindowId::new(window)),
            1 => ViewId::Tag(WindowId::new(window)),
            _ => return Err(missing()),
        };
        let buffer = self.state.buffer_of(view).ok_or_else(missing)?;
        let dot = self
            .readable(buffer.raw())?
            .view(view)
            .ok_or_else(missing)?
            .dot;
        Ok(Selection {
            window,
            part,
            at: events::span(dot),
        })
    }

    fn address(
        &mut self,
        id: u64,
        dot: types::Span,
        address: String,
    ) -> Result<types::Span, Error> {
        let text = self.readable(id)?.text();
        check_span(text, span(dot))?;
        lead(text, span(dot), &address).map(events::span)
    }

    fn file_digest(&mut self, id: u64) -> Result<String, Error> {
        let saved = self.readable(id)?.saved();
        Ok(saved.map_or_else(String::new, |saved| super::manifest::hex(&saved.digest)))
    }

    fn follow(&mut self, patterns: Vec<String>) -> Result<(), Error> {
        let patterns = followable(&patterns, self)?;
        self.wishes.retain(|wish| !matches!(wish, Wish::Follow(_)));
        self.wishes.push(Wish::Follow(patterns));
        Ok(())
    }

    fn features(&mut self) -> Vec<String> {
        FEATURES.map(str::to_owned).to_vec()
    }
}

/// Returns patterns that are some and are granted.
pub(super) fn followable(patterns: &[String], guest: &Guest) -> Result<Patterns, Error> {
    let patterns = Patterns::parse(patterns).map_err(|why| error(code::OUT_OF_RANGE, why))?;
    for text in patterns.texts() {
        // A pattern is within a grant when the grant's glob matches it letter by letter; each shard
        // is checked again by its own name.
        guest.check(Cap::Follow, &text)?;
    }
    Ok(patterns)
}

/// Returns where an address leads to, as the editor's own engine sees it.
fn lead(text: &Text, dot: Span, address: &str) -> Result<Span, Error> {
    address::resolve_from(text, dot, address)
        .map_err(|why| error(code::OUT_OF_RANGE, format!("{address:?}: {why}")))
}

impl wit::positions::Host for Guest {
    fn to_line_column(
        &mut self,
        id: u64,
        q: u64,
        unit: u32,
    ) -> Result<wit::positions::LineColumn, Error> {
        let text = self.readable(id)?.text();
        check_span(text, Span::at(q))?;
        let line = text.line_of(q);
        let before = Span::new(text.line_start(line), q);
        let width = width(unit)?;
        let chunks = text.chunks_of(before);
        let column = chunks
            .map(|chunk| chunk.chars().map(width).sum::<u64>())
            .sum();
        Ok(wit::positions::LineColumn { line, column })
    }

    fn from_line_column(
        &mut self,
        id: u64,
        at: wit::positions::LineColumn,
        unit: u32,
    ) -> Result<u64, Error> {
        let text = self.readable(id)?.text();
        let width = width(unit)?;
        let out = || {
            let message = format!("the text has no line {} column {}", at.line, at.column);
            error(code::OUT_OF_RANGE, message)
        };
        if at.line >= text.line_count() {
            return Err(out());
        }
        let start = text.line_start(at.line);
        let end = text.line_end(start);
        let (mut q, mut column) = (start, 0);
        for c in text.chars_from(start) {
            if column >= at.column || q >= end {
                break;
            }
            column += width(c);
            // A column within a code point gives the start of it.
            if column > at.column {
                return Ok(q);
            }
            q += 1;
        }
        if column == at.column {
            Ok(q)
        } else {
            Err(out())
        }
    }
}

/// Returns how much of a column a code point takes in a unit.
fn width(unit: u32) -> Result<fn(char) -> u64, Error> {
    match unit {
        0 => Ok(|_| 1),
        1 => Ok(|c| c.len_utf8() as u64),
        2 => Ok(|c| c.len_utf16() as u64),
        _ => Err(error(code::UNSUPPORTED, format!("there is no unit {unit}"))),
    }
}

impl wit::proposals::Host for Guest {
    fn propose(&mut self, changes: Vec<wit::proposals::Change>) -> Result<u64, Error> {
        let in_call = self
            .wishes
            .iter()
            .filter(|wish| matches!(wish, Wish::Propose { .. }));
        if in_call.count() >= limits::PROPOSALS_PER_CALL_MAX {
            let most = limits::PROPOSALS_PER_CALL_MAX;
            return Err(error(
                code::LIMIT,
                format!("at most {most} proposals in one call"),
            ));
        }
        if self.undecided >= limits::UNDECIDED_COUNT_MAX {
            let most = limits::UNDECIDED_COUNT_MAX;
            let message = format!("{most} proposals are undecided; wait for outcomes");
            return Err(Error {
                retry: true,
                ..error(code::LIMIT, message)
            });
        }
        let drafter = Drafter {
            state: &self.state,
            rights: &self.identity.rights,
        };
        let changes = drafter.draft(changes)?;
        let id = self.identity.counters.next_proposal();
        self.undecided += 1;
        self.wishes.push(Wish::Propose { id, changes });
        Ok(id.raw())
    }
}

impl wit::desk::Host for Guest {
    fn log(&mut self, level: u32, text: String) {
        self.identity.log.push_tool(level, &text);
    }

    fn notify(&mut self, level: u32, text: String) -> Result<u64, Error> {
        self.check(Cap::Notify, "")?;
        self.check_request()?;
        let number = self.identity.counters.next_notice();
        // The tool's five levels are the core's four: trace and debug are one.
        let level = u8::try_from(level.saturating_sub(1).min(3)).unwrap_or(3);
        let text = visible(&text, apex_core::limits::MESSAGE_LEN_MAX / 2);
        self.wishes.push(Wish::Notify {
            number,
            level,
            text,
        });
        Ok(number)
    }

    fn clear(&mut self, notice: u64) {
        if self.check_request().is_ok() {
            self.wishes.push(Wish::Clear(notice));
        }
    }

    fn setting(&mut self, key: String) -> Option<String> {
        self.state.meta().settings.get(&key).cloned()
    }

    fn set(&mut self, key: String, value: String) -> Result<(), Error> {
        let own = format!("tool.{}.", self.identity.tool);
        if !key.starts_with(&own) {
            let message = format!("a tool sets only its own settings, {own}…");
            return Err(error(code::NOT_GRANTED, message));
        }
        check_name("a setting's key", &key)?;
        if value.len() > apex_core::limits::MESSAGE_LEN_MAX {
            return Err(error(code::LIMIT, "the value is too long"));
        }
        self.check_request()?;
        self.wishes.push(Wish::Set { key, value });
        Ok(())
    }

    fn add_rule(&mut self, _: u64, _: String, _: String) -> Result<u64, Error> {
        Err(error(code::UNSUPPORTED, "this apex has no plumbing rules"))
    }

    fn remove_rule(&mut self, _rule: u64) {}

    fn done(&mut self, call: u64, outcome: Result<(), Error>) {
        if self.check_request().is_ok() {
            self.wishes.push(Wish::Done { call, outcome });
        }
    }
}

impl wit::timers::Host for Guest {
    fn set(&mut self, after_ms: u64, tag: u64) -> Result<(), Error> {
        if self.timers >= limits::TIMER_COUNT_MAX {
            let most = limits::TIMER_COUNT_MAX;
            return Err(error(code::LIMIT, format!("at most {most} timers at once")));
        }
        self.timers += 1;
        self.wishes.push(Wish::Timer { tag, after_ms });
        Ok(())
    }

    fn cancel(&mut self, tag: u64) {
        if self.check_request().is_ok() {
            self.wishes.push(Wish::Cancel(tag));
        }
    }
}

/// Programs and terminals are nothing that a manifest can ask for here.
fn unsupported<T>(what: &str) -> Result<T, Error> {
    Err(error(
        code::UNSUPPORTED,
        format!("this apex gives tools no {what}"),
    ))
}

impl wit::process::Host for Guest {
    fn start(&mut self, _: Vec<String>, _: String, _: Vec<(String, String)>) -> Result<u64, Error> {
        unsupported("programs")
    }

    fn write(&mut self, _: u64, _: Vec<u8>) -> Result<u64, Error> {
        unsupported("programs")
    }

    fn close_stdin(&mut self, _: u64) {}

    fn kill(&mut self, _: u64) {}
}

impl wit::terminal::Host for Guest {
    fn read(&mut self, _: u64, _: u32) -> Result<String, Error> {
        unsupported("terminals")
    }

    fn send(&mut self, _: u64, _: Vec<u8>) -> Result<(), Error> {
        unsupported("terminals")
    }
}

#[cfg(test)]
mod tests;
