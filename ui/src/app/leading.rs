//! Leading and watching: what the daemon says, whose text a key goes to, and taking over.

use apex_core::buffer::View;
use apex_core::edit::{self, Bias};
use apex_core::entry::{BufferOp, MetaOp, Op};
use apex_core::ids::{AttachmentId, BufferId, SERVER, Shard, ViewId};
use apex_core::log::Record;
use apex_core::message::{ClientMessage, ErrorCode, ErrorMessage, ServerMessage};
use apex_core::node::client::{Client, ClientEvent};
use apex_core::proposal::Proposal;
use apex_core::text::Span;

use super::held::{HELD_COUNT_MAX, Held};
use super::motion::Reveal;
use super::{App, Effect};
use crate::view::Status;

impl App {
    /// Returns whether a view's text may be changed now. If not, says why; where the user leads the
    /// session, asks for the text and keeps `held` until it comes.
    pub(super) fn may_change(&mut self, view: ViewId, held: impl FnOnce() -> Held) -> bool {
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
        if leader == SERVER {
            self.say("this file is being read; what you do to it waits for its end");
        } else {
            self.say(format!("asking {} for this text", self.name_of(leader)));
        }
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

    pub(super) fn name_of(&self, attachment: AttachmentId) -> String {
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
            let text = if leader == SERVER {
                "this file is being read; what you type waits for its end".into()
            } else {
                let leader = self.name_of(leader);
                format!("this text is led by {leader}; a key asks for it")
            };
            return Status {
                text,
                is_alarm: false,
            };
        }
        if let Some(status) = self.annotation_status().or_else(|| self.notice_status()) {
            return status;
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
        let proposal = match &message {
            ServerMessage::Propose(proposal) => Some(proposal.clone()),
            _ => None,
        };
        let node = self.client.node();
        let here = self.focus.zip(node);
        let here = here.and_then(|(view, node)| node.state().buffer_of(view));
        self.client.keep(here);
        let events = self.client.receive(message, &mut self.outbox);
        if let Some(proposal) = proposal.filter(|proposal| self.has_accepted(proposal)) {
            self.shown_by_proposal(&proposal);
        }
        for event in events {
            match event {
                ClientEvent::Welcome => self.welcome(),
                ClientEvent::Entries(records) => self.follow(&records),
                ClientEvent::Reply { request, answer } => self.replied(request, answer),
                ClientEvent::Decided { id, outcome } => {
                    if !self.afar_decided(id, &outcome)
                        && !self.undo_decided(id, &outcome)
                        && !self.script_decided(id, &outcome)
                        && let Err(refusal) = outcome
                    {
                        self.complain(&refusal);
                    }
                }
                ClientEvent::Overtaken { buffer, splices } => {
                    let back = |q| edit::map_back(&splices, q);
                    self.move_local(buffer, |_, dot| Span::new(back(dot.q0), back(dot.q1)), back);
                }
                ClientEvent::LeadershipChanged => self.leadership_changed(),
                ClientEvent::Resumed => self.leadership_changed(),
                ClientEvent::Recovered(words) => self.say(words),
                ClientEvent::Diverged(divergence) => self.diverged(&divergence),
                ClientEvent::FollowUp(follow_up) => self.follow_up(follow_up),
                ClientEvent::Error(error) if !self.is_welcome => self.turned_away(&error),
                ClientEvent::Error(error) => self.complain(&error),
            }
        }
        // Behind the entries: they move the places of what waits.
        if self.client.node().is_some() {
            self.propose_afar();
        }
    }

    /// Returns whether this UI has just accepted a proposal.
    fn has_accepted(&self, proposal: &Proposal) -> bool {
        let is_it = |message: &ClientMessage| {
            matches!(
                message,
                ClientMessage::Decided { author, id, outcome: Ok(_) }
                    if *author == proposal.author && *id == proposal.id
            )
        };
        self.outbox.iter().any(is_it)
    }

    /// There will be no session: the user hears why in his shell.
    fn turned_away(&mut self, error: &ErrorMessage) {
        let mut words = error.message.clone();
        if error.code == ErrorCode::Protocol {
            words.push_str(
                "\napexd and apex may be of different builds: put what is modified with the apex \
                 that belongs to this apexd, end apexd, and try again",
            );
        }
        self.complain(&words);
        self.effects.push(Effect::Leave(String::new()));
    }

    fn welcome(&mut self) {
        if !self.is_welcome {
            self.is_welcome = true;
            self.focus = self.node().focus_view();
            self.last_window = self.focus.and_then(ViewId::window);
        }
        self.typing = None;
        self.keep_notices();
        self.leadership_changed();
    }

    fn leadership_changed(&mut self) {
        if self.note.text.starts_with("asking ") {
            // It told of the transfer, which has come.
            self.note = Status::default();
        }
        // Who is displaced goes on where he was, not where the new leader clicks.
        if let Some(view) = self.focus
            && self.is_displaced(view)
            && let Some((_, _, old)) = self.text(view)
        {
            self.local.entry(view).or_insert(old);
        }
        self.keep_places();
        self.hold_displaced();
        self.do_held();
        let node = self.client.node();
        let held = &self.held;
        self.local.retain(|view, _| {
            if held.iter().any(|(_, held)| held.is_afar_in(*view)) {
                return true;
            }
            let buffer = node.and_then(|node| Some((node, node.state().buffer_of(*view)?)));
            buffer.is_some_and(|(node, buffer)| !node.leads(Shard::Buffer(buffer)))
        });
        self.propose_afar();
    }

    /// Where the user looked while a file was read is where its window goes on: the view that came
    /// with the lease is a fresh one.
    fn keep_places(&mut self) {
        let is_fresh = |view: ViewId| {
            let buffer = self.node().state().buffer_of(view)?;
            let buffer = self.node().state().buffer(buffer)?;
            buffer.view(view).filter(|fresh| *fresh == View::default())
        };
        let own: Vec<(ViewId, View)> = self
            .local
            .iter()
            .filter(|(view, _)| self.leads_text(**view) && is_fresh(**view).is_some())
            .map(|(view, local)| (*view, *local))
            .collect();
        for (view, local) in own {
            let node = self.node_mut();
            let kept = node
                .select(view, local.dot)
                .and_then(|()| node.set_origin(view, local.origin));
            if let Err(error) = kept {
                self.complain(&error);
            }
        }
    }

    /// Takes entries of others: own selections move with their edits.
    fn follow(&mut self, records: &[std::sync::Arc<Record>]) {
        for record in records {
            match (&record.entry.op, record.shard) {
                (Op::Buffer(BufferOp::Edit { splices, .. }), Shard::Buffer(buffer)) => {
                    let typed = self.afar_in(record);
                    let goes_on = typed
                        .filter(|(view, at, _)| self.dot(*view) == *at)
                        .map(|(view, _, end)| (view, end));
                    let origin = record.entry.origin;
                    // What comes back was typed by this user: he goes on behind it.
                    let is_back = origin.is_some_and(|origin| self.client.is_recovery(origin));
                    let bias = if is_back { Bias::Right } else { Bias::Left };
                    let moved = |view, dot: Span| match typed {
                        // Who has not moved since goes on behind it.
                        Some((of, at, end)) if (of, at) == (view, dot) => Span::at(end),
                        _ => Span::new(
                            edit::map(splices, dot.q0, bias),
                            edit::map(splices, dot.q1, bias),
                        ),
                    };
                    self.move_local(buffer, moved, |q| edit::map(splices, q, Bias::Left));
                    if let Some((view, end)) = goes_on {
                        self.set_dot(view, Span::at(end));
                        self.reveal(view, end, Reveal::Near);
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
                (Op::Meta(op), _) => self.take_notice(op),
                _ => {}
            }
        }
    }

    /// Moves the local selections and origins of a buffer's views, and what waits for it.
    pub(super) fn move_local(
        &mut self,
        buffer: BufferId,
        dot: impl Fn(ViewId, Span) -> Span,
        origin: impl Fn(u64) -> u64,
    ) {
        self.move_held(buffer, &dot);
        let Some(node) = self.client.node() else {
            return;
        };
        for (view, local) in &mut self.local {
            if node.state().buffer_of(*view) == Some(buffer) {
                *local = View {
                    dot: dot(*view, local.dot),
                    origin: origin(local.origin),
                };
            }
        }
    }

    /// The connection ended.
    pub(super) fn lose(&mut self, why: &str) {
        self.is_lost = true;
        let mut words = if self.is_welcome {
            format!(
                "disconnected: {why}\nThe session lives on in the daemon as long as that runs; \
                 `apex` shows it again."
            )
        } else {
            format!("disconnected before the session was there: {why}")
        };
        if let Some(owed) = self.owed() {
            words = format!("{words}\n{owed}");
        }
        self.effects.push(Effect::Leave(words));
    }
}
