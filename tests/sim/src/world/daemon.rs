//! The daemon: the real authority, and what its outputs lead to.

use std::collections::BTreeSet;

use apex_core::bytes::Bytes;
use apex_core::entry::AttachmentKind;
use apex_core::ids::{ConnectionId, Secret, Shard};
use apex_core::message::{ClientMessage, Hello, ServerMessage, Takeover, Welcome};
use apex_core::node::authority::Output;
use apex_core::wire::encode_server;

use super::{Event, World};
use crate::oracle::hold;
use crate::plan::Kind;

/// Bytes of a snapshot in one message; small, so that snapshots break in the middle.
const PIECE_LEN: usize = 700;

impl World {
    /// Lets the daemon take a message.
    pub(super) fn hear(&mut self, id: ConnectionId, message: ClientMessage) {
        let is_watching = matches!(
            &message,
            ClientMessage::Hello(Hello {
                takeover: Takeover::Watch,
                ..
            })
        );
        let resume = match &message {
            ClientMessage::Hello(hello) => hello.resume.clone(),
            _ => None,
        };
        let last_wish = self.last_wish;
        let known = self.authority.attachment_of(id);
        match &message {
            ClientMessage::Append(appends) => {
                self.oracles.logs.appending(Some((id, appends.clone())));
            }
            ClientMessage::LeaseRequest { .. } => {
                if let Some(known) = known {
                    self.oracles.logs.watches(known, false);
                }
            }
            _ => {}
        }
        self.note_wish(id, &message);
        let secret = Secret(uuid::Uuid::from_u128(u128::from(id.raw()) + 77));
        let now = self.clock.at(self.now_us);
        let mut out = Vec::new();
        self.authority.receive(now, (id, secret), message, &mut out);
        let known = self.authority.attachment_of(id);
        if let Some(resume) = resume.filter(|resume| Some(resume.attachment) == known) {
            // Who comes back is what it was, whatever it says.
            self.last_wish = last_wish;
            self.oracles.logs.resume(id, &resume.marks);
        } else if is_watching && let Some(watcher) = known {
            self.oracles.logs.watches(watcher, true);
        }
        self.deliver(out);
        self.oracles.logs.appending(None);
    }

    /// Notes which screen was the last to ask for the session: in the end it has it.
    fn note_wish(&mut self, id: ConnectionId, message: &ClientMessage) {
        let Some(link) = self
            .links
            .get(&id)
            .filter(|link| link.kind == AttachmentKind::Ui)
        else {
            return;
        };
        let is_wish = match message {
            ClientMessage::Hello(hello) => hello.takeover != Takeover::Watch,
            ClientMessage::LeaseRequest { shards, .. } => shards.is_empty(),
            _ => false,
        };
        if is_wish {
            self.last_wish = Some(link.process);
        } else if matches!(message, ClientMessage::Hello(_)) {
            // Who comes to watch does not wish any more.
            self.last_wish = self.last_wish.filter(|process| *process != link.process);
        }
    }

    /// Publishes what the daemon made itself.
    pub(super) fn settle(&mut self) {
        let now = self.clock.at(self.now_us);
        let mut out = Vec::new();
        self.authority.settle(now, &mut out);
        self.deliver(out);
    }

    pub(super) fn tick(&mut self) {
        self.tick_us = None;
        if self.daemon_frozen_us > self.now_us {
            self.tick_us = Some(self.daemon_frozen_us);
            return self.push(self.daemon_frozen_us, Event::Tick);
        }
        let now = self.clock.at(self.now_us);
        let mut out = Vec::new();
        self.authority.tick(now, &mut out);
        self.deliver(out);
    }

    pub(super) fn wind(&mut self) {
        let Some(deadline) = self.authority.next_deadline() else {
            return;
        };
        let at_us = self.clock.when(deadline).max(self.now_us + 100);
        if self.tick_us.is_none_or(|tick_us| at_us < tick_us) {
            self.tick_us = Some(at_us);
            self.push(at_us, Event::Tick);
        }
    }

    /// Carries out what the daemon wants, one after the other: what one of them leads to comes
    /// behind those that are there.
    pub(super) fn deliver(&mut self, out: Vec<Output>) {
        self.outputs.extend(out);
        if self.is_delivering {
            return;
        }
        self.is_delivering = true;
        let mut written = BTreeSet::new();
        while let Some(output) = self.outputs.pop_front() {
            self.deliver_one(output, &mut written);
        }
        self.is_delivering = false;
        for id in written {
            self.write(id);
        }
        self.wind();
    }

    fn deliver_one(&mut self, output: Output, written: &mut BTreeSet<ConnectionId>) {
        match output {
            Output::Send(id, message) => {
                if let ServerMessage::Acked(marks) = &message {
                    let found = self.oracles.logs.ack(id, marks);
                    self.oracles.take(found);
                }
                if let ServerMessage::Resumed(resumed) = &message
                    && resumed.apart.is_empty()
                    && let Some(link) = self.links.get_mut(&id)
                {
                    link.is_welcomed = true;
                }
                self.send(id, &message, false, written);
            }
            Output::Publish { except, records } => {
                let found = self.oracles.logs.publish(&records);
                self.oracles.take(found);
                let found = self.oracles.told.publish(&records);
                self.oracles.take(found);
                let entries: Vec<(Shard, Bytes)> =
                    records.iter().map(|r| (r.shard, r.bytes.clone())).collect();
                self.send_all(except, &ServerMessage::Entries(entries), written);
            }
            Output::Welcome(id, welcome, snapshot) => {
                let snapshot: Vec<Bytes> = snapshot.into_iter().flatten().collect();
                self.welcome(id, welcome, &snapshot, written);
            }
            Output::Marks { except, marks } => {
                self.send_all(except, &ServerMessage::HashMarks(marks), written);
            }
            Output::Diverged(divergence) => {
                let found = hold(false, "equal entries make equal states (I14)", || {
                    format!("a leader made another state: {divergence:?}")
                });
                self.oracles.take(found);
            }
            Output::Host(asker, request) => self.ask_host(asker, request),
            Output::Decided(id, outcome) => self.host_decided(id, &outcome),
            Output::Close(id) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.outlet.is_closing = true;
                    written.insert(id);
                }
            }
        }
    }

    fn send(
        &mut self,
        id: ConnectionId,
        message: &ServerMessage,
        is_entries: bool,
        written: &mut BTreeSet<ConnectionId>,
    ) {
        let bytes = encode_server(message);
        self.trace.note(self.now_us, &bytes, || {
            format!("daemon to {id}: {message:?}")
        });
        self.queue(id, bytes, is_entries);
        written.insert(id);
    }

    fn send_all(
        &mut self,
        except: Option<ConnectionId>,
        message: &ServerMessage,
        written: &mut BTreeSet<ConnectionId>,
    ) {
        let bytes = encode_server(message);
        self.trace.note(self.now_us, &bytes, || {
            format!("daemon to all but {except:?}: {message:?}")
        });
        let followers: Vec<ConnectionId> = self.authority.followers().collect();
        let is_welcomed = |id: &ConnectionId| self.links.get(id).is_some_and(|l| l.is_welcomed);
        let is_one = |id: &ConnectionId| Some(*id) != except && is_welcomed(id);
        let readers: Vec<ConnectionId> = followers.into_iter().filter(is_one).collect();
        for id in readers {
            self.queue(id, bytes.clone(), true);
            written.insert(id);
        }
    }

    fn queue(&mut self, id: ConnectionId, bytes: Vec<u8>, is_entries: bool) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if link.is_daemon_open && link.outlet.push(bytes, is_entries) {
            self.trace
                .note(self.now_us, &[], || format!("{id} is too slow"));
            self.fire(Kind::Slow);
        }
    }

    fn welcome(
        &mut self,
        id: ConnectionId,
        welcome: Welcome,
        snapshot: &[Bytes],
        written: &mut BTreeSet<ConnectionId>,
    ) {
        if let Some(link) = self.links.get_mut(&id) {
            link.outlet.restart();
            link.is_welcomed = true;
        }
        self.send(id, &ServerMessage::Welcome(welcome), false, written);
        for piece in snapshot.iter().flat_map(|piece| piece.chunks(PIECE_LEN)) {
            let piece = ServerMessage::Snapshot(Bytes::from(piece));
            self.send(id, &piece, false, written);
        }
    }
}
