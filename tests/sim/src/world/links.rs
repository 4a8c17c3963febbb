//! Connections: made, carrying bytes, broken.

use apex_core::entry::AttachmentKind;
use apex_core::ids::ConnectionId;
use apex_core::message::{ClientMessage, ServerMessage, Takeover};
use apex_core::node::Node;
use apex_core::wire::encode_client;

use super::{Event, World};
use crate::oracle::{hold, views};
use crate::plan::Kind;
use crate::process::Process;
use crate::stream::{Link, Next};

const WIRE: &str = "what arrives is what was sent (12)";

impl World {
    /// Begins a process in a free slot.
    pub(super) fn start_as(&mut self, slot: usize, kind: AttachmentKind, takeover: Takeover) {
        self.last_process += 1;
        let id = self.last_process;
        let link = self.connect(id, kind);
        let mut process = Process::new((id, slot), link, kind, takeover);
        self.slots[slot] = Some(id);
        let hello = process.client.hello();
        self.say(&mut process, vec![hello]);
        self.processes.insert(id, process);
    }

    pub(super) fn connect(&mut self, process: u64, kind: AttachmentKind) -> ConnectionId {
        self.last_link += 1;
        let id = ConnectionId::new(self.last_link);
        let mut link = Link::new(id, process, &self.plan, self.outlet_len_max);
        link.kind = kind;
        self.links.insert(id, link);
        id
    }

    /// Lets a process say something.
    pub(super) fn say(&mut self, process: &mut Process, messages: Vec<ClientMessage>) {
        for message in messages {
            if let ClientMessage::Propose(proposal) = &message {
                self.oracles.told.propose(process.id, proposal);
            }
            let is_late = self.is_late();
            let bytes = encode_client(&message);
            self.trace.note(self.now_us, &bytes, || {
                format!("process {} says {message:?}", process.id)
            });
            let Some(link) = self.links.get_mut(&process.link) else {
                continue;
            };
            let times = link.up.send(self.now_us, &bytes, is_late);
            self.push_pieces(times, Event::Up(process.link));
        }
    }

    /// Lets each piece of a frame arrive.
    fn push_pieces(&mut self, times: Vec<u64>, event: Event) {
        if times.len() > 1 {
            self.fire(Kind::Split);
        }
        for at_us in times {
            self.push(at_us, event);
        }
    }

    pub(super) fn is_late(&mut self) -> bool {
        let is_late = self.plan.is_on(Kind::Delay) && !self.is_calm;
        if is_late {
            self.fire(Kind::Delay);
        }
        is_late
    }

    /// Ships what a process has made, after a moment.
    pub(super) fn flush_soon(&mut self, process: &mut Process, after_us: u64) {
        if !process.is_flushing {
            process.is_flushing = true;
            self.push(self.now_us + after_us, Event::Flush(process.id));
        }
    }

    pub(super) fn flush(&mut self, id: u64) {
        self.with(id, |world, process| {
            if process.frozen_us > world.now_us {
                return world.push(process.frozen_us, Event::Flush(process.id));
            }
            process.is_flushing = false;
            let mut out = Vec::new();
            process.client.flush(&mut out);
            world.say(process, out);
        });
    }

    pub(super) fn arrive_up(&mut self, id: ConnectionId) {
        if self.daemon_frozen_us > self.now_us {
            return self.push(self.daemon_frozen_us, Event::Up(id));
        }
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let Some(bytes) = link.up.arrive() else {
            return;
        };
        if !link.is_daemon_open {
            return;
        }
        link.daemon_frames.push(&bytes);
        loop {
            let Some(link) = self.links.get_mut(&id) else {
                return;
            };
            match link.daemon_frames.next_client() {
                Ok(None) => return,
                Ok(Some(message)) => self.hear(id, message),
                Err(error) => {
                    let found = hold(false, WIRE, || error.to_string());
                    return self.oracles.take(found);
                }
            }
        }
    }

    pub(super) fn arrive_down(&mut self, id: ConnectionId) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let process = link.process;
        let frozen_us = self.processes.get(&process).map_or(0, |p| p.frozen_us);
        if frozen_us > self.now_us {
            return self.push(frozen_us, Event::Down(id));
        }
        let Some(bytes) = link.down.arrive() else {
            return;
        };
        let is_open = link.is_client_open;
        link.client_frames.push(&bytes);
        self.write(id);
        if !is_open {
            return;
        }
        loop {
            let Some(link) = self.links.get_mut(&id) else {
                return;
            };
            match link.client_frames.next_server() {
                Ok(None) => return,
                Ok(Some(message)) => {
                    let found = self.oracles.logs.receive(id, &message);
                    self.oracles.take(found);
                    self.with(process, |world, process| world.listen(process, message));
                }
                Err(error) => {
                    let found = hold(false, WIRE, || error.to_string());
                    return self.oracles.take(found);
                }
            }
        }
    }

    /// Lets a process take a message.
    fn listen(&mut self, process: &mut Process, message: ServerMessage) {
        let before = match &message {
            ServerMessage::Propose(proposal) => process
                .client
                .node()
                .map(|node| views::corners(node, proposal)),
            _ => None,
        };
        let here = process.focus.zip(process.client.node());
        let here = here.and_then(|(view, node)| node.state().buffer_of(view));
        process.client.keep(here);
        if let ServerMessage::ProposeResult { id, outcome } = &message
            && let Some(node) = process.client.node()
        {
            let found = self.oracles.told.hear((node.attachment(), *id), outcome);
            self.oracles.take(found);
        }
        let mut out = Vec::new();
        let old = process.client.node().map(Node::attachment);
        let was_recovering = process.client.is_recovering();
        let events = process.client.receive(message, &mut out);
        let new = process.client.node().map(Node::attachment);
        if let Some(old) = old.filter(|_| old != new) {
            self.begin_anew(process, old, was_recovering);
        }
        self.say(process, out);
        if let (Some(before), Some(node)) = (before, process.client.node()) {
            let found = views::check(&before, node);
            self.oracles.take(found);
        }
        for event in events {
            self.take_event(process, event);
        }
        if process.kind == AttachmentKind::Ui {
            self.go_on_waiting(process);
        }
    }

    /// Writes what the daemon keeps for a reader, as far as there is room.
    pub(super) fn write(&mut self, id: ConnectionId) {
        loop {
            let is_late = self.plan.is_on(Kind::Delay) && !self.is_calm;
            let Some(link) = self.links.get_mut(&id) else {
                return;
            };
            match link.write(self.now_us, is_late) {
                Next::Sent(times) => self.push_pieces(times, Event::Down(id)),
                Next::AskSnapshot => {
                    let now = self.clock.at(self.now_us);
                    let mut out = Vec::new();
                    self.authority.resync(now, id, &mut out);
                    self.deliver(out);
                }
                Next::Close => {
                    let at_us = link.down.end(self.now_us);
                    link.is_daemon_open = false;
                    return self.push(at_us, Event::DownEnd(id));
                }
                Next::Wait => return,
            }
        }
    }

    /// The daemon hears that a connection ended.
    pub(super) fn end_up(&mut self, id: ConnectionId) {
        if self.daemon_frozen_us > self.now_us {
            return self.push(self.daemon_frozen_us, Event::UpEnd(id));
        }
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if !link.is_daemon_open {
            return;
        }
        link.is_daemon_open = false;
        let now = self.clock.at(self.now_us);
        let mut out = Vec::new();
        self.authority.disconnect(now, id, &mut out);
        self.deliver(out);
    }

    /// A party hears that its connection ended.
    pub(super) fn end_down(&mut self, id: ConnectionId) {
        let Some(link) = self.links.get(&id) else {
            return;
        };
        let process = link.process;
        if !link.is_client_open {
            return;
        }
        let frozen_us = self.processes.get(&process).map_or(0, |p| p.frozen_us);
        if frozen_us > self.now_us {
            return self.push(frozen_us, Event::DownEnd(id));
        }
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.is_client_open = false;
        let at_us = link.up.end(self.now_us) + self.end_delay_us(id);
        self.push(at_us, Event::UpEnd(id));
        if self.processes.get(&process).is_some_and(|p| p.link == id) {
            self.lose_connection(process, id);
        }
    }

    /// Ends a process: what it has not told anybody is lost, and its user knows.
    pub(super) fn end_process(&mut self, id: u64) {
        let Some(process) = self.processes.remove(&id) else {
            return;
        };
        self.slots[process.slot] = None;
        self.oracles.told.forget(id);
        let texts = self.texts();
        self.oracles.typed.end_process(id, &texts);
        if !self.is_calm {
            let at_us = self.now_us + 100_000 + id % 7 * 300_000;
            self.push(at_us, Event::Start(process.slot, false));
        }
    }
}
