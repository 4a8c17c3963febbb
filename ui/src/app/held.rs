//! What the user does to a text that this UI does not lead, or not yet: it waits, and is then done
//! where he did it, wherever his selection and the keyboard are by then.

use apex_core::edit::{self, Bias};
use apex_core::ids::{BufferId, ProposalId, Shard, ViewId};
use apex_core::text::Span;

use super::App;
use super::afar::Afar;
use crate::input::Erase;

/// Most steps that wait for the lead of a buffer; more are refused aloud.
pub(super) const HELD_COUNT_MAX: usize = 4096;

/// A step of editing in a text that this UI is to lead.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    /// A typed character.
    Type(char),
    /// What the terminal pasted.
    Insert(String),
    /// Erasing what is selected, else what the key says.
    Erase(Erase),
    /// A cut.
    Cut,
    /// A paste of the snarf buffer.
    Paste,
    /// Undo, or Redo.
    Undo(bool),
}

/// Something that waits for the lead of a buffer.
#[derive(Clone, Debug)]
pub(super) enum Held {
    /// An edit.
    Edit {
        /// Where.
        view: ViewId,
        /// What was selected; moves with the edits of others.
        at: Span,
        /// What.
        edit: Edit,
    },
    /// A command.
    Command {
        /// What it is about.
        view: ViewId,
        /// The command.
        command: String,
    },
    /// Editing a text that another UI took over: proposed, one step after the other.
    Afar {
        /// Where.
        view: ViewId,
        /// What was selected; moves with the edits of others.
        at: Span,
        /// What.
        act: Afar,
        /// The proposal that is under way with it, and where it edits.
        sent: Option<(ProposalId, u64)>,
    },
}

impl Held {
    /// Returns a step that is to be proposed.
    pub(super) const fn afar(view: ViewId, at: Span, act: Afar) -> Self {
        Self::Afar {
            view,
            at,
            act,
            sent: None,
        }
    }

    pub(super) fn is_afar_in(&self, in_view: ViewId) -> bool {
        matches!(self, Self::Afar { view, .. } if *view == in_view)
    }

    const fn view(&self) -> ViewId {
        match self {
            Self::Edit { view, .. } | Self::Command { view, .. } | Self::Afar { view, .. } => *view,
        }
    }

    fn is_in(&self, in_view: ViewId) -> bool {
        matches!(self, Self::Edit { view, .. } | Self::Afar { view, .. } if *view == in_view)
    }

    /// Returns the view that it edits, and where.
    const fn place(&mut self) -> Option<(ViewId, &mut Span)> {
        match self {
            Self::Edit { view, at, .. } | Self::Afar { view, at, .. } => Some((*view, at)),
            Self::Command { .. } => None,
        }
    }

    /// Returns the text that would be lost with it.
    pub(super) fn typed(&self) -> Option<String> {
        match self {
            Self::Edit {
                edit: Edit::Type(c),
                ..
            } => Some(c.to_string()),
            Self::Edit {
                edit: Edit::Insert(text),
                ..
            }
            | Self::Afar {
                act: Afar::Type(text) | Afar::Recover(text),
                ..
            } => Some(text.clone()),
            Self::Edit { .. } | Self::Command { .. } | Self::Afar { .. } => None,
        }
    }
}

impl App {
    /// Returns whether a view's text may be edited now. If not, says why; where the user leads the
    /// session, asks for the text and keeps `edit` until it comes.
    pub(super) fn may_edit(&mut self, view: ViewId, edit: impl FnOnce() -> Edit) -> bool {
        let Some((_, _, here)) = self.text(view) else {
            return false;
        };
        let held = || Held::Edit {
            view,
            at: here.dot,
            edit: edit(),
        };
        let may = self.may_change(view, held);
        if !may && self.held.last().is_some_and(|(_, held)| held.is_in(view)) {
            // The view's own selection is the leader's until then.
            self.local.entry(view).or_insert(here);
        }
        may
    }

    /// As [`Self::may_edit`], for a command about a view.
    pub(super) fn may_command(&mut self, view: ViewId, command: impl Into<String>) -> bool {
        self.may_change(view, || Held::Command {
            view,
            command: command.into(),
        })
    }

    /// Does what has waited for a buffer that this UI leads by now.
    pub(super) fn do_held(&mut self) {
        let is_ready = |app: &Self, (buffer, held): &(BufferId, Held)| {
            // What waits for a window that is gone is recovered.
            !matches!(held, Held::Afar { .. })
                && app.node().leads(Shard::Buffer(*buffer))
                && app.text(held.view()).is_some()
        };
        while let Some(index) = self.held.iter().position(|held| is_ready(self, held)) {
            match self.held.remove(index).1 {
                Held::Edit { view, at, edit } => self.do_at(view, at, |app| app.edit(view, edit)),
                Held::Command { view, command } => {
                    let before = self.focus.filter(|focus| focus.window() != view.window());
                    self.run_command(view, &command, None);
                    // Whoever went on to another window meanwhile keeps the keyboard there.
                    if let Some(before) = before.filter(|view| self.text(*view).is_some()) {
                        self.set_focus(before);
                    }
                }
                Held::Afar { .. } => {}
            }
        }
    }

    fn edit(&mut self, view: ViewId, edit: Edit) {
        match edit {
            Edit::Type(c) => self.type_char(view, c),
            Edit::Insert(text) => self.insert_text(view, &text),
            Edit::Erase(what) => self.erase_in(view, what),
            Edit::Cut => self.cut(view, true),
            Edit::Paste => self.paste(view),
            Edit::Undo(is_undo) => {
                self.undo(view, is_undo);
            }
        }
    }

    /// Does a step that has waited, in a text that this UI leads. Who has not moved since goes on
    /// behind it.
    pub(super) fn do_at(&mut self, view: ViewId, at: Span, act: impl FnOnce(&mut Self)) {
        let Some((buffer, text, shown)) = self.text(view) else {
            return;
        };
        let (base, here, selected) = (text.version(), shown.dot, self.selected);
        let (typed_from, anchor) = (self.typed_from, self.anchor);
        self.set_dot(view, at);
        act(self);
        let end = self.dot(view);
        let changes: Vec<_> = self
            .node()
            .changes_since(buffer, base)
            .map_or_else(Vec::new, |changes| {
                changes.into_iter().map(<[_]>::to_vec).collect()
            });
        let moved = |of: ViewId, span: Span| {
            if of == view && span == at {
                return end;
            }
            changes.iter().fold(span, |span, splices| {
                let q0 = edit::map(splices, span.q0, Bias::Right);
                let bias = if span.is_empty() {
                    Bias::Right
                } else {
                    Bias::Left
                };
                Span::new(q0, edit::map(splices, span.q1, bias).max(q0))
            })
        };
        let moved_origin = |q| {
            let step = |q, splices: &Vec<_>| edit::map(splices, q, Bias::Left);
            changes.iter().fold(q, step)
        };
        self.move_local(buffer, moved, moved_origin);
        self.set_dot(view, moved(view, here));
        if self.focus != Some(view) {
            self.selected = selected;
        }
        if self.focus != Some(view) || here != at {
            // Who has gone on sees and does what he did.
            (self.typed_from, self.anchor) = (typed_from, anchor);
            self.set_origin(view, moved_origin(shown.origin));
        }
    }

    /// Goes on by proposals with what waits for a text that another UI has taken over meanwhile.
    pub(super) fn hold_displaced(&mut self) {
        for index in 0..self.held.len() {
            let (_, Held::Edit { view, at, edit }) = &self.held[index] else {
                continue;
            };
            let (view, at) = (*view, *at);
            let act = match edit {
                Edit::Type(c) => Afar::Type(c.to_string()),
                Edit::Insert(text) => Afar::Type(text.clone()),
                Edit::Erase(what) => Afar::Erase(*what),
                Edit::Cut | Edit::Paste | Edit::Undo(_) => continue,
            };
            if self.is_displaced(view) {
                self.held[index].1 = Held::afar(view, at, act);
            }
        }
    }

    /// Lets nothing wait for a text that is gone: what was typed into it goes to `+Recovered`.
    pub(super) fn recover_gone(&mut self) {
        let is_gone = |app: &Self, held: &Held| {
            let is_recovery = matches!(
                held,
                Held::Afar { sent: Some(_), .. }
                    | Held::Afar {
                        act: Afar::Recover(_),
                        ..
                    }
            );
            !is_recovery && app.text(held.view()).is_none()
        };
        if !self.held.iter().any(|(_, held)| is_gone(self, held)) {
            return;
        }
        for (buffer, held) in std::mem::take(&mut self.held) {
            if !is_gone(self, &held) {
                self.held.push((buffer, held));
                continue;
            }
            let (view, typed) = (held.view(), held.typed().unwrap_or_default());
            match self.held.last_mut() {
                Some((
                    of,
                    Held::Afar {
                        act: Afar::Recover(text),
                        sent: None,
                        ..
                    },
                )) if *of == buffer => text.push_str(&typed),
                _ if typed.is_empty() => {}
                _ => {
                    let recovery = Held::afar(view, Span::at(0), Afar::Recover(typed));
                    self.held.push((buffer, recovery));
                }
            }
        }
        self.propose_afar();
    }

    /// Moves the places of what waits for a buffer.
    pub(super) fn move_held(&mut self, buffer: BufferId, moved: impl Fn(ViewId, Span) -> Span) {
        for (_, held) in self.held.iter_mut().filter(|(of, _)| *of == buffer) {
            if let Some((view, at)) = held.place() {
                *at = moved(view, *at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_knows_its_text() {
        let (view, at) = (ViewId::Top, Span::at(0));
        let edit = |edit| Held::Edit { view, at, edit };
        let afar = |act| Held::afar(view, at, act);
        for (held, typed) in [
            (edit(Edit::Type('x')), Some("x")),
            (edit(Edit::Insert("two".into())), Some("two")),
            (edit(Edit::Cut), None),
            (edit(Edit::Undo(true)), None),
            (afar(Afar::Type("three".into())), Some("three")),
            (afar(Afar::Erase(Erase::Char)), None),
        ] {
            assert_eq!(held.typed().as_deref(), typed, "{held:?}");
        }
    }
}
