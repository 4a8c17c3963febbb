//! Parties whose connection ended, and that come back on another one with what they had.

use apex_core::entry::AttachmentKind;
use apex_core::ids::{AttachmentId, ConnectionId};
use apex_core::message::ClientMessage;

use super::{Event, World};
use crate::plan::Kind;
use crate::process::Process;
use crate::random::Random;

/// Parts of a seed that connections draw from, beside those of their streams.
const PART: u64 = 1 << 41;

impl World {
    fn random_of(&self, link: ConnectionId, part: u64) -> Random {
        Random::of(self.plan.seed, PART + link.raw() * 4 + part)
    }

    /// Returns by how much later than it might the daemon hears that a party's side ended: long
    /// after the party came back, now and then.
    pub(super) fn end_delay_us(&self, link: ConnectionId) -> u64 {
        let mut random = self.random_of(link, 0);
        let is_late = self.plan.is_on(Kind::Back) && !self.is_calm && random.percent(30);
        if is_late {
            random.range(100_000, 40_000_000)
        } else {
            0
        }
    }

    /// A party has no connection any more: it comes back soon, or after its grace, or ends.
    pub(super) fn lose_connection(&mut self, id: u64, link: ConnectionId) {
        let mut random = self.random_of(link, 1);
        let is_ending = !self.is_calm && random.percent(15);
        if !self.plan.is_on(Kind::Back) || is_ending {
            return self.end_process(id);
        }
        let pause_us = match random.below(10) {
            0..6 => random.range(1_000, 500_000),
            6..9 => random.range(500_000, 9_000_000),
            _ => random.range(9_000_000, 80_000_000),
        };
        self.oracles.told.forget_requests(id);
        self.with(id, |_, process| {
            process.client.lose_connection();
            process.requests.clear();
        });
        self.push(self.now_us + pause_us, Event::Back(id));
    }

    /// A party comes back. Its new connection breaks as well, now and then, in the middle of what
    /// it gets.
    pub(super) fn come_back(&mut self, id: u64) {
        let Some(process) = self.processes.get(&id) else {
            return;
        };
        let (kind, frozen_us) = (process.kind, process.frozen_us);
        if frozen_us > self.now_us {
            return self.push(frozen_us, Event::Back(id));
        }
        if self.now_us < self.refused_us {
            self.fire(Kind::Refuse);
            return self.push(self.refused_us + 1_000 * id, Event::Back(id));
        }
        self.fire(Kind::Back);
        let link = self.connect(id, kind);
        self.with(id, |world, process| {
            process.link = link;
            let hello = process.client.rejoin();
            world.say(process, vec![hello]);
        });
        let mut random = self.random_of(link, 2);
        if !self.is_calm && random.percent(25) {
            let after_us = random.range(50, 60_000);
            self.push(self.now_us + after_us, Event::Cut(link));
        }
    }

    /// A connection breaks at any byte of what is under way.
    pub(super) fn cut(&mut self, id: ConnectionId) {
        let mut random = self.random_of(id, 3);
        let Some(link) = self.links.get_mut(&id).filter(|link| link.is_client_open) else {
            return;
        };
        let ends = link.cut(self.now_us, &mut random);
        self.push_ends(id, ends);
    }

    /// Both sides of a connection hear of its end: the daemon, and the party.
    pub(super) fn push_ends(&mut self, id: ConnectionId, (up_us, down_us): (u64, u64)) {
        self.push(up_us, Event::UpEnd(id));
        self.push(down_us, Event::DownEnd(id));
    }

    /// A party that was away for too long is somebody else now: whether what it had proposed
    /// happened is not known to it. Typed text may be there twice that was sent while another party
    /// led, or was being recovered.
    pub(super) fn begin_anew(
        &mut self,
        process: &mut Process,
        old: AttachmentId,
        was_recovering: bool,
    ) {
        self.oracles.told.give_up((process.id, old));
        if process.sent.is_some() || was_recovering {
            self.oracles.typed.may_be_twice(process.id);
        }
        process.landed.clear();
        process.asked.clear();
    }

    /// A party goes on where it was. The client says again what it proposed; a tool says again what
    /// it had said more than once.
    pub(super) fn go_on_as_before(&mut self, process: &mut Process) {
        process.wished = None;
        if process.kind == AttachmentKind::Tool {
            let asked = process.asked.values();
            let again = asked.filter(|asked| asked.said_count > 1 && !asked.is_due);
            let again = again.map(|asked| ClientMessage::Propose(asked.proposal.clone()));
            let again = again.collect();
            self.say(process, again);
        }
    }
}
