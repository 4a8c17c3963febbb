//! Leading and watching: what the daemon says, whose text a key goes to, and taking over.

use apex_core::buffer::View;
use apex_core::edit::{self, Bias};
use apex_core::entry::{BufferOp, MetaOp, Op};
use apex_core::ids::{AttachmentId, BufferId, SERVER, Shard, ViewId};
use apex_core::log::Record;
use apex_core::message::{ClientMessage, ServerMessage};
use apex_core::node::client::{Client, ClientEvent};

use super::{App, Effect};
use crate::input::{Action, Input};
use crate::view::Status;

/// Most inputs that wait for the lead of a buffer; more are refused aloud.
const HELD_COUNT_MAX: usize = 4096;

/// Something that waits for the lead of a buffer.
#[derive(Clone, Debug)]
pub(super) enum Held {
    /// A key or a paste into the text that has the keyboard.
    Input(Input),
    /// A cut.
    Cut(ViewId),
    /// A paste of the snarf buffer.
    Paste(ViewId),
    /// Undo, or Redo.
    Undo(ViewId, bool),
    /// A command.
    Command {
        /// Where it was executed.
        view: ViewId,
        /// The command.
        command: String,
    },
}

impl App {
    /// Returns whether a view's text may be edited now. If not, says why; where the user leads the
    /// session, asks for the text and keeps `held` until it comes.
    pub(super) fn may_edit(&mut self, view: ViewId, held: impl FnOnce() -> Held) -> bool {
        if self.leads_text(view) {
            return true;
        }
        let Some(buffer) = self.node().state().buffer_of(view) else {
            return false;
        };
        if !self.may_arrange() {
            return false;
        }
        if self.held.len() >= HELD_COUNT_MAX {
            self.complain(&"too many keys wait for this text; wait for its leader");
            return false;
        }
        let is_asked = self.held.iter().any(|(of, _)| *of == buffer);
        self.held.push((buffer, held()));
        if !is_asked {
            let shards = vec![Shard::Buffer(buffer)];
            self.outbox.push(ClientMessage::LeaseRequest {
                shards,
                steal: false,
            });
        }
        let leader = self.leader_of(Shard::Buffer(buffer));
        self.say(format!("asking {} for this text", self.name_of(leader)));
        false
    }

    /// Returns whether windows may be made, moved and closed; says why if not.
    pub(super) fn may_arrange(&mut self) -> bool {
        if !self.client.is_leading() {
            let words = self.watching();
            self.complain(&words);
            return false;
        }
        true
    }

    fn watching(&self) -> String {
        format!(
            "watching, led by {}; press F2 to take over",
            self.name_of(self.client.leader())
        )
    }

    pub(super) fn leader_of(&self, shard: Shard) -> AttachmentId {
        self.node()
            .log()
            .lease(shard)
            .map_or(SERVER, |lease| lease.holder)
    }

    fn name_of(&self, attachment: AttachmentId) -> String {
        if attachment == SERVER {
            return "the daemon".into();
        }
        let attached = self.node().state().meta().attachments.get(&attachment);
        match attached {
            Some(attached) => format!("{attachment} ({})", attached.name),
            None => attachment.to_string(),
        }
    }

    /// Asks for the lead of the session.
    pub(super) fn take_over(&mut self) {
        if self.client.is_leading() {
            return self.say("this UI leads already");
        }
        self.outbox.push(Client::take_over(false));
        self.say(format!(
            "asking {} for the session",
            self.name_of(self.client.leader())
        ));
    }

    /// Returns what the top row says.
    pub(super) fn status(&self) -> Status {
        let alarm = |text: &str| Status {
            text: text.into(),
            is_alarm: true,
        };
        if self.is_lost {
            return alarm("disconnected");
        }
        if !self.note.text.is_empty() {
            return self.note.clone();
        }
        if !self.is_welcome {
            return Status {
                text: "attaching".into(),
                is_alarm: false,
            };
        }
        if !self.client.is_leading() {
            return alarm(&self.watching());
        }
        let focused = self
            .focus
            .and_then(|view| self.node().state().buffer_of(view));
        let leader = focused.map_or(SERVER, |buffer| self.leader_of(Shard::Buffer(buffer)));
        if focused.is_some() && leader != self.node().attachment() {
            let text = format!(
                "this text is led by {}; a key asks for it",
                self.name_of(leader)
            );
            return Status {
                text,
                is_alarm: false,
            };
        }
        let running = &self.node().state().meta().processes;
        let names: Vec<&str> = running
            .values()
            .filter_map(|p| p.command.split_whitespace().next())
            .collect();
        Status {
            text: names.join(" "),
            is_alarm: false,
        }
    }

    /// Takes a message of the daemon.
    pub(super) fn receive(&mut self, message: ServerMessage) {
        let events = self.client.receive(message, &mut self.outbox);
        for event in events {
            match event {
                ClientEvent::Welcome => self.welcome(),
                ClientEvent::Entries(records) => self.follow(&records),
                ClientEvent::Reply { request, answer } => self.replied(request, answer),
                ClientEvent::Decided { outcome, .. } => {
                    if let Err(refusal) = outcome {
                        self.complain(&refusal);
                    }
                }
                ClientEvent::LeadershipChanged => self.leadership_changed(),
                ClientEvent::Recovered(words) => self.say(words),
                ClientEvent::FollowUp(follow_up) => self.follow_up(follow_up),
                ClientEvent::Error(error) => self.complain(&error),
            }
        }
    }

    fn welcome(&mut self) {
        if !self.is_welcome {
            self.is_welcome = true;
            self.focus = self.node().focus_view();
            self.last_window = self.focus.and_then(ViewId::window);
        }
        self.typing = None;
        self.leadership_changed();
    }

    fn leadership_changed(&mut self) {
        let node = self.client.node();
        self.local.retain(|view, _| {
            let buffer = node.and_then(|node| Some((node, node.state().buffer_of(*view)?)));
            buffer.is_some_and(|(node, buffer)| !node.leads(Shard::Buffer(buffer)))
        });
        let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|(buffer, _)| self.node().leads(Shard::Buffer(*buffer)));
        self.held = waiting;
        for (_, held) in ready {
            self.replay(held);
        }
    }

    fn replay(&mut self, held: Held) {
        match held {
            Held::Input(Input::Action(action)) => self.act(action),
            Held::Input(Input::Paste(text)) => self.paste_from_terminal(&text),
            Held::Input(Input::Mouse(_) | Input::Resize(_)) => {}
            Held::Cut(view) => self.cut(view, true),
            Held::Paste(view) => self.paste(view),
            Held::Undo(view, is_undo) => self.undo(view, is_undo),
            Held::Command { view, command } => self.run_command(view, &command, None),
        }
    }

    /// Takes entries of others: own selections move with their edits.
    fn follow(&mut self, records: &[std::sync::Arc<Record>]) {
        for record in records {
            match (&record.entry.op, record.shard) {
                (Op::Buffer(BufferOp::Edit { splices, .. }), Shard::Buffer(buffer)) => {
                    let Some(node) = self.client.node() else {
                        return;
                    };
                    for (view, local) in &mut self.local {
                        if node.state().buffer_of(*view) == Some(buffer) {
                            *local = View {
                                dot: edit::map_span(splices, local.dot),
                                origin: edit::map(splices, local.origin, Bias::Left),
                            };
                        }
                    }
                }
                (
                    Op::Meta(MetaOp::LeaseRefuse {
                        shard: Shard::Buffer(buffer),
                        by,
                    }),
                    _,
                ) if *by == self.node().attachment() => {
                    self.refused(*buffer);
                }
                _ => {}
            }
        }
    }

    /// The leader of a text keeps it: what was typed meanwhile is shown where it can be read.
    fn refused(&mut self, buffer: BufferId) {
        let (refused, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|(of, _)| *of == buffer);
        self.held = kept;
        let mut typed = String::new();
        for (_, held) in refused {
            match held {
                Held::Input(Input::Action(Action::Insert(c))) => typed.push(c),
                Held::Input(Input::Paste(text)) => typed.push_str(&text),
                Held::Input(_)
                | Held::Cut(_)
                | Held::Paste(_)
                | Held::Undo(..)
                | Held::Command { .. } => {}
            }
        }
        let leader = self.name_of(self.leader_of(Shard::Buffer(buffer)));
        if typed.is_empty() {
            return self.complain(&format!("{leader} keeps this text"));
        }
        let name = self.node().state().buffer(buffer).map_or("", |b| b.name());
        let directory = name.rfind('/').map_or("", |slash| &name[..=slash]);
        let target = format!("{directory}+Recovered");
        let text = format!("typed in {name}, which {leader} keeps:\n{typed}\n");
        if let Err(error) = self.node_mut().append_scratch(&target, &text) {
            return self.complain(&error);
        }
        self.complain(&format!(
            "{leader} keeps this text; what you typed is in +Recovered"
        ));
    }

    /// The connection ended.
    pub(super) fn lose(&mut self, why: &str) {
        self.is_lost = true;
        let words = if self.is_welcome {
            format!(
                "disconnected: {why}\nThe session lives on in the daemon as long as that runs; \
                 `apex` shows it again."
            )
        } else {
            format!("disconnected before the session was there: {why}")
        };
        self.effects.push(Effect::Leave(words));
    }
}
