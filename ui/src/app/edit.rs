//! Typing, erasing, cutting and pasting, and their steps of undo.

use apex_core::buffer::Buffer;
use apex_core::edit::Splice;
use apex_core::ids::{GroupId, ProposalId, ViewId};
use apex_core::node::undoing::Direction;
use apex_core::proposal::{Outcome, Refusal};
use apex_core::text::Span;

use super::held::Edit;
use super::motion::{self, Reveal};
use super::{App, Effect, Typing};
use crate::input::Erase;

/// Longest text that is offered to the terminal's clipboard, in bytes.
const CLIPBOARD_LEN_MAX: usize = 100_000;

impl App {
    /// Types a character into the text that has the keyboard.
    pub(super) fn insert(&mut self, c: char) {
        if c == '\n' && self.finish_find() {
            return;
        }
        if let Some(view) = self.keyboard() {
            self.type_char(view, c);
        }
    }

    /// Types a character into a view.
    pub(super) fn type_char(&mut self, view: ViewId, c: char) {
        self.type_text(view, c.encode_utf8(&mut [0; 4]), || Edit::Type(c));
    }

    fn type_text(&mut self, view: ViewId, text: &str, edit: impl FnOnce() -> Edit) {
        if self.is_displaced(view) {
            return self.type_afar(view, text);
        }
        if !self.may_edit(view, edit) {
            return;
        }
        let dot = self.dot(view);
        let group = self.typing_group(view, dot);
        if let Err(error) = self.node_mut().type_text(view, text, group) {
            return self.complain(&error);
        }
        let at = self.dot(view).q1;
        // A step of undo ends with the line.
        self.typing = (!text.ends_with('\n')).then_some(Typing { view, group, at });
        self.anchor = None;
        self.selected = Some(view);
        self.reveal(view, at, Reveal::Near);
    }

    /// Returns the group that typing at `dot` goes on with, or a fresh one.
    fn typing_group(&mut self, view: ViewId, dot: Span) -> GroupId {
        let is_here = self
            .typed_from
            .is_some_and(|(of, from)| of == view && from <= dot.q0);
        if !is_here || !dot.is_empty() {
            self.typed_from = Some((view, dot.q0));
        }
        let latest = self.text(view).map(|(_, buffer, _)| buffer.undo_group());
        match self.typing {
            // A step of somebody else in between ends the typing's; tags have no steps.
            Some(typing)
                if typing.view == view
                    && dot == Span::at(typing.at)
                    && (latest == Some(Some(typing.group)) || latest == Some(None)) =>
            {
                typing.group
            }
            _ => self.node_mut().new_group(),
        }
    }

    /// Takes what the terminal pastes.
    pub(super) fn paste_from_terminal(&mut self, text: &str) {
        if let Some(view) = self.keyboard() {
            self.insert_text(view, text);
        }
    }

    /// Types a text into a view: one step of undo of its own.
    pub(super) fn insert_text(&mut self, view: ViewId, text: &str) {
        self.typing = None;
        self.type_text(view, text, || Edit::Insert(text.into()));
        self.typing = None;
    }

    /// Erases in the text that has the keyboard.
    pub(super) fn erase(&mut self, what: Erase) {
        if let Some(view) = self.keyboard() {
            self.erase_in(view, what);
        }
    }

    /// Erases a view's selection, or what the key says.
    pub(super) fn erase_in(&mut self, view: ViewId, what: Erase) {
        if self.is_displaced(view) {
            return self.erase_afar(view, what);
        }
        if !self.may_edit(view, || Edit::Erase(what)) {
            return;
        }
        let dot = self.dot(view);
        let span = if dot.is_empty() {
            self.erased(view, dot.q0, what)
        } else {
            dot
        };
        if span.is_empty() {
            return;
        }
        let group = self.typing_group(view, dot);
        if let Err(error) = self.node_mut().delete(view, span, group) {
            return self.complain(&error);
        }
        self.set_dot(view, Span::at(span.q0));
        self.typing = Some(Typing {
            view,
            group,
            at: span.q0,
        });
        self.typed_from = self
            .typed_from
            .map(|(of, from)| (of, if of == view { from.min(span.q0) } else { from }));
        self.anchor = None;
        self.reveal(view, span.q0, Reveal::Near);
    }

    pub(super) fn erased(&self, view: ViewId, q: u64, what: Erase) -> Span {
        let (Some((_, buffer, _)), Some((shape, _))) = (self.text(view), self.shape(view)) else {
            return Span::at(q);
        };
        let text = buffer.text();
        match what {
            Erase::Char => Span::new(motion::previous(text, q, shape), q),
            Erase::Next => Span::new(q, motion::next(text, q, shape)),
            Erase::Word => Span::new(motion::word_left(text, q), q),
            Erase::Line => {
                let start = text.line_start(text.line_of(q));
                // At the start of a line it joins the line to the one before, as acme does.
                Span::new(
                    if start == q {
                        q.saturating_sub(1)
                    } else {
                        start
                    },
                    q,
                )
            }
        }
    }

    /// Selects what was typed; with something selected, cuts it.
    pub(super) fn escape(&mut self) {
        if let Some(back) = self.finding.take() {
            return self.set_focus(back);
        }
        let Some(view) = self.focus else { return };
        let dot = self.dot(view);
        if !dot.is_empty() {
            return self.cut(view, true);
        }
        if let Some((of, from)) = self.typed_from.take()
            && of == view
            && from < dot.q0
        {
            self.set_dot(view, Span::new(from, dot.q0));
            self.selected = Some(view);
        }
    }

    /// Selects the whole text that has the keyboard.
    pub(super) fn select_all(&mut self) {
        let Some(view) = self.focus else { return };
        let len = self
            .text(view)
            .map_or(0, |(_, buffer, _)| buffer.text().len());
        self.set_dot(view, Span::new(0, len));
        self.selected = Some(view);
    }

    /// Takes the selection into the snarf buffer; with `is_cutting` out of the text too.
    pub(super) fn cut(&mut self, view: ViewId, is_cutting: bool) {
        let dot = self.dot(view);
        if dot.is_empty() {
            return;
        }
        let is_displaced = self.is_displaced(view);
        if is_cutting && !is_displaced && !self.may_edit(view, || Edit::Cut) {
            return;
        }
        self.snarf = self
            .text(view)
            .map_or_else(String::new, |(_, b, _)| b.text().slice(dot));
        if self.snarf.len() <= CLIPBOARD_LEN_MAX {
            self.effects.push(Effect::Copy(self.snarf.clone()));
        }
        if is_cutting && is_displaced {
            self.erase_afar(view, Erase::Char);
        } else if is_cutting {
            self.typing = None;
            let group = self.node_mut().new_group();
            self.replace(view, Splice::new(dot, ""), group);
        }
    }

    /// Replaces a view's selection by the snarf buffer, which stays selected.
    pub(super) fn paste(&mut self, view: ViewId) {
        if self.is_displaced(view) && !self.snarf.is_empty() {
            let snarf = self.snarf.clone();
            return self.type_afar(view, &snarf);
        }
        if self.snarf.is_empty() || !self.may_edit(view, || Edit::Paste) {
            return;
        }
        self.typing = None;
        let group = self.node_mut().new_group();
        let splice = Splice::new(self.dot(view), self.snarf.clone());
        self.replace(view, splice, group);
    }

    /// Replaces a span; the new text is selected and in sight.
    fn replace(&mut self, view: ViewId, splice: Splice, group: GroupId) {
        let dot = Span::new(splice.at.q0, splice.at.q0 + splice.count());
        if let Err(error) = self.node_mut().replace(view, splice, dot, group) {
            return self.complain(&error);
        }
        self.set_dot(view, dot);
        self.selected = Some(view);
        self.reveal(view, dot.q0, Reveal::Near);
    }

    /// Undoes or redoes the latest step of a view's text, and of the others it belongs to. Returns
    /// whether there was one.
    pub(super) fn undo(&mut self, view: ViewId, is_undo: bool) -> bool {
        if !self.may_edit(view, || Edit::Undo(is_undo)) {
            return false;
        }
        self.typing = None;
        self.typed_from = None;
        let direction = if is_undo {
            Direction::Back
        } else {
            Direction::Forth
        };
        let undone = match self.client.step(view, direction, &mut self.outbox) {
            Ok(undone) => undone,
            Err(error) => {
                self.complain(&error);
                return false;
            }
        };
        if undone.group.is_none() {
            self.say(if is_undo {
                "nothing to undo"
            } else {
                "nothing to redo"
            });
            return false;
        }
        self.undoing.extend(undone.proposed);
        if !undone.diverged.is_empty() {
            let names: Vec<String> = undone.diverged.iter().map(ToString::to_string).collect();
            self.complain(&format!("not in {}", names.join(", ")));
        }
        let dot = self.dot(view);
        self.reveal(view, dot.q0, Reveal::Quarter);
        true
    }

    /// Takes the decision on an Undo or Redo in a text that another party leads. Returns whether
    /// it was one.
    pub(super) fn undo_decided(&mut self, id: ProposalId, outcome: &Outcome) -> bool {
        let Some(buffer) = self.undoing.remove(&id) else {
            return false;
        };
        if let Err(refusal) = outcome {
            let name = self.node().state().buffer(buffer).map(Buffer::name);
            let why = match refusal {
                Refusal::Diverged { .. } => "changed since".into(),
                other => other.to_string(),
            };
            let words = format!("not in {} ({why})", name.unwrap_or("a closed text"));
            self.complain(&words);
        }
        true
    }
}
