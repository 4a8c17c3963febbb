//! Editing a text that another UI took over: nobody who types looks first whether somebody has
//! just taken the session. Each step is proposed where the one before ended; what the new leader
//! refuses goes to `+Recovered`, and a UI does not leave before that is known.

use apex_core::buffer::Buffer;
use apex_core::edit::Splice;
use apex_core::entry::{BufferOp, Op};
use apex_core::ids::{BufferId, ProposalId, Shard, ViewId};
use apex_core::log::Record;
use apex_core::message::{ClientMessage, Takeover};
use apex_core::node::client::recovery;
use apex_core::proposal::{Change, Outcome, Refusal};
use apex_core::text::Span;

use super::App;
use super::files::{Pending, directory_of};
use super::held::{HELD_COUNT_MAX, Held};
use crate::input::Erase;

/// One step of editing from afar.
#[derive(Clone, Debug)]
pub(super) enum Afar {
    /// Typing, in place of what is selected.
    Type(String),
    /// Erasing what is selected, else what the key says.
    Erase(Erase),
    /// Showing in `+Recovered` what was typed and met a change.
    Recover(String),
}

impl App {
    /// Returns whether a body's text is led by another UI that took over from this one, or from
    /// which this one is about to: what is typed then is kept by proposing it.
    pub(super) fn is_displaced(&self, view: ViewId) -> bool {
        let is_watcher = matches!(
            self.client.hello(),
            ClientMessage::Hello(hello) if hello.takeover == Takeover::Watch
        );
        let is_foreign = !self.client.is_leading() && !self.leads_text(view);
        // What is typed next stands behind what is under way.
        let is_behind = || self.held.iter().any(|(_, held)| held.is_afar_in(view));
        !is_watcher && matches!(view, ViewId::Body(_)) && (is_foreign || is_behind())
    }

    /// Types into a text that another UI leads.
    pub(super) fn type_afar(&mut self, view: ViewId, text: &str) {
        if let Some(Afar::Type(before)) = self.last_unsent(view) {
            before.push_str(text);
        } else {
            self.hold_afar(view, Afar::Type(text.to_owned()));
        }
        self.propose_afar();
    }

    /// Erases in a text that another UI leads.
    pub(super) fn erase_afar(&mut self, view: ViewId, what: Erase) {
        let is_taken_back = match self.last_unsent(view) {
            Some(Afar::Type(before)) if what == Erase::Char => before.pop().is_some(),
            _ => false,
        };
        if !is_taken_back {
            self.hold_afar(view, Afar::Erase(what));
        }
        self.propose_afar();
    }

    /// Returns the last step of all, if it is where the user is and not under way.
    fn last_unsent(&mut self, in_view: ViewId) -> Option<&mut Afar> {
        let here = self.dot(in_view);
        match self.held.last_mut() {
            Some((
                _,
                Held::Afar {
                    view,
                    at,
                    act,
                    sent: None,
                },
            )) if (*view, *at) == (in_view, here) => Some(act),
            _ => None,
        }
    }

    fn hold_afar(&mut self, view: ViewId, act: Afar) {
        let Some((buffer, _, old)) = self.text(view) else {
            return;
        };
        if self.held.len() >= HELD_COUNT_MAX {
            return self.complain(&"too many keys wait for this text; wait for its leader");
        }
        // The view's own selection is the leader's now.
        self.local.entry(view).or_insert(old);
        let held = Held::afar(view, old.dot, act);
        self.held.push((buffer, held));
    }

    /// Proposes the next step, or does it where this UI has the lead by now. One at a time: each
    /// stands where the one before ended. What was typed before another UI took over comes first:
    /// until that has landed, this text is no version that the leader knows.
    pub(super) fn propose_afar(&mut self) {
        if self.client.is_recovering() {
            return;
        }
        let is_sent = |held: &Held| matches!(held, Held::Afar { sent: Some(_), .. });
        if self.held.iter().any(|(_, held)| is_sent(held)) {
            return;
        }
        let is_afar = |held: &Held| matches!(held, Held::Afar { .. });
        while let Some(index) = self.held.iter().position(|(_, held)| is_afar(held)) {
            let (buffer, held) = self.held[index].clone();
            let Held::Afar { view, at, act, .. } = held else {
                return;
            };
            if let Afar::Recover(text) = &act {
                let change = self.recovery(buffer, text);
                return self.propose_held(index, change, 0);
            }
            let Some(base) = self.node().state().buffer(buffer).map(Buffer::version) else {
                return;
            };
            if self.leads_text(view) {
                self.held.remove(index);
                self.do_at(view, at, |app| app.do_here(view, at, &act));
                continue;
            }
            let splice = self.splice_of(view, at, &act);
            let at = splice.at.q0;
            if splice.at.is_empty() && splice.text.is_empty() {
                self.held.remove(index);
                continue;
            }
            let splices = vec![splice];
            let change = Change::Edit {
                buffer,
                base,
                splices,
            };
            return self.propose_held(index, change, at);
        }
    }

    fn propose_held(&mut self, index: usize, change: Change, at: u64) {
        if let Some((id, message)) = self.client.propose(vec![change])
            && let Some((_, Held::Afar { sent, .. })) = self.held.get_mut(index)
        {
            *sent = Some((id, at));
            self.outbox.push(message);
        }
    }

    fn recovery(&self, buffer: BufferId, text: &str) -> Change {
        let name = self.node().state().buffer(buffer).map_or("", |b| b.name());
        recovery(directory_of(name), name, text)
    }

    fn splice_of(&self, view: ViewId, dot: Span, act: &Afar) -> Splice {
        match act {
            Afar::Type(text) => Splice::new(dot, text.as_str()),
            Afar::Erase(_) if !dot.is_empty() => Splice::new(dot, ""),
            Afar::Erase(what) => Splice::new(self.erased(view, dot.q0, *what), ""),
            Afar::Recover(_) => Splice::new(Span::at(dot.q0), ""),
        }
    }

    /// Does a step in a text that this UI leads.
    fn do_here(&mut self, view: ViewId, at: Span, act: &Afar) {
        let splice = self.splice_of(view, at, act);
        let group = self.node_mut().new_group();
        let done = match act {
            Afar::Type(text) => self.node_mut().type_text(view, text, group),
            Afar::Recover(_) => Ok(()),
            Afar::Erase(_) if splice.at.is_empty() => Ok(()),
            Afar::Erase(_) => self.node_mut().delete(view, splice.at, group),
        };
        if let Err(error) = done {
            self.complain(&error);
        }
    }

    /// Takes the decision on a step. Returns whether it was one.
    pub(super) fn afar_decided(&mut self, decided: ProposalId, outcome: &Outcome) -> bool {
        let is_it =
            |held: &Held| matches!(held, Held::Afar { sent: Some((id, _)), .. } if *id == decided);
        let Some(index) = self.held.iter().position(|(_, held)| is_it(held)) else {
            return false;
        };
        let (buffer, held) = self.held.remove(index);
        let Held::Afar {
            view,
            at,
            act,
            sent,
        } = held
        else {
            return false;
        };
        let again = |act| (buffer, Held::afar(view, at, act));
        match outcome {
            Ok(_) if matches!(act, Afar::Recover(_)) => {
                self.complain(&"what you typed met a change; it is in +Recovered");
                self.propose_afar();
            }
            Ok(_) => {
                // Decided here, its entry came from nobody else.
                if let Some((_, start)) = sent.filter(|_| self.leads_text(view)) {
                    let count = match &act {
                        Afar::Type(text) => text.chars().count() as u64,
                        Afar::Erase(_) | Afar::Recover(_) => 0,
                    };
                    let end = Span::at(start + count);
                    let is_next = |of, next| of == view && next == at;
                    self.move_held(
                        buffer,
                        |of, next| if is_next(of, next) { end } else { next },
                    );
                    self.set_dot(view, end);
                }
                self.propose_afar();
            }
            // The leader changes; the next word of the daemon is the time to ask again.
            Err(Refusal::Retry(_)) => {
                self.held.insert(index, again(act));
            }
            Err(refusal) => {
                match act {
                    Afar::Type(mut text) => {
                        self.take_typed(index, view, &mut text);
                        self.held.insert(index, again(Afar::Recover(text)));
                    }
                    Afar::Erase(_) => self
                        .complain(&"what you erased was changed meanwhile; look, then erase again"),
                    // Nothing else can be done with it: the text is shown here.
                    Afar::Recover(text) => {
                        self.complain(&format!("not in +Recovered ({refusal}): {text}"));
                    }
                }
                self.propose_afar();
            }
        }
        true
    }

    /// Moves what was typed blindly behind a step, from `index` on, to the end of its text.
    fn take_typed(&mut self, index: usize, in_view: ViewId, text: &mut String) {
        while let Some((
            _,
            Held::Afar {
                view,
                act: Afar::Type(next),
                ..
            },
        )) = self.held.get(index)
            && *view == in_view
        {
            text.push_str(next);
            self.held.remove(index);
        }
    }

    /// Returns the view whose step an entry is, where it was made, and where it ended.
    pub(super) fn afar_in(&self, record: &Record) -> Option<(ViewId, Span, u64)> {
        let Op::Buffer(BufferOp::Edit { splices, .. }) = &record.entry.op else {
            return None;
        };
        let origin = record.entry.origin?;
        if origin.author != self.node().attachment() {
            return None;
        }
        let splice = splices.first()?;
        self.held.iter().find_map(|(of, held)| match held {
            // The same proposal may have its leader rewrite the tag.
            Held::Afar {
                view,
                at,
                sent: Some((id, _)),
                ..
            } if *id == origin.id && record.shard == Shard::Buffer(*of) => {
                let end = splice.at.q0 + splice.text.chars().count() as u64;
                Some((*view, *at, end))
            }
            _ => None,
        })
    }

    /// The leader of a text keeps it: what was typed meanwhile is shown where it can be read.
    pub(super) fn refused(&mut self, buffer: BufferId) {
        let (refused, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|(of, _)| *of == buffer);
        self.held = kept;
        let typed: String = refused
            .iter()
            .filter_map(|(_, held)| held.typed())
            .collect();
        let leader = self.name_of(self.leader_of(Shard::Buffer(buffer)));
        if typed.is_empty() {
            return self.complain(&format!("{leader} keeps this text"));
        }
        let name = self.node().state().buffer(buffer).map_or("", |b| b.name());
        let directory = directory_of(name);
        let target = format!("{directory}+Recovered");
        let text = format!("typed in {name}, which {leader} keeps:\n{typed}\n");
        if let Err(error) = self.node_mut().append_scratch(&target, &text) {
            return self.complain(&error);
        }
        self.complain(&format!(
            "{leader} keeps this text; what you typed is in +Recovered"
        ));
    }

    /// Returns whether something that the user did is on its way to somebody who has not said yet
    /// what became of it: typing into another's text, and files that are put.
    #[must_use]
    pub fn is_owing(&self) -> bool {
        let is_put = |pending: &Pending| matches!(pending, Pending::Put(..));
        let is_here = self.is_welcome && !self.is_lost;
        is_here
            && (!self.held.is_empty()
                || self.client.is_recovering()
                || self.pending.values().any(is_put))
    }

    /// Returns what is on its way still, in words for the user: it is shown nowhere else.
    #[must_use]
    pub fn owed(&self) -> Option<String> {
        let typed: String = self
            .held
            .iter()
            .filter_map(|(_, held)| held.typed())
            .collect();
        let mut words = Vec::new();
        if !typed.is_empty() {
            words.push(format!("typed, and taken by nobody yet:\n{typed}"));
        }
        if self.client.is_recovering() {
            words.push("what you typed before another UI took over is not back yet".into());
        }
        for pending in self.pending.values() {
            if let Pending::Put(buffer, _) = pending {
                let buffer = self.node().state().buffer(*buffer);
                let name = buffer.map_or("a file", |buffer| buffer.name());
                words.push(format!("{name}: apexd has not said that it is written"));
            }
        }
        (!words.is_empty()).then(|| words.join("\n"))
    }
}
