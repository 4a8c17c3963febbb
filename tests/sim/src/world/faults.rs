//! Faults, and parties that come and go.

use apex_core::entry::AttachmentKind;
use apex_core::message::{ClientMessage, Takeover};

use super::{Event, World};
use crate::plan::{Kind, Step};
use crate::random::Random;

impl World {
    pub(super) fn fault_step(&mut self, step: Step, random: &mut Random) -> bool {
        if self.is_calm {
            return false;
        }
        match step.kind {
            Kind::Freeze => self.freeze(step, random),
            Kind::Jump => {
                let jump_us = random.range(100_000, 30_000_000);
                let rate = self.clock.rate();
                self.clock.set(self.now_us, jump_us, rate);
                self.tick_us = None;
                self.wind();
                true
            }
            Kind::Refuse => {
                self.refused_us = self.now_us + random.range(500_000, 20_000_000);
                false
            }
            _ => self.break_something(step, random),
        }
    }

    fn freeze(&mut self, step: Step, random: &mut Random) -> bool {
        let until_us = self.now_us + random.range(5_000, 3_000_000);
        if step.slot.is_multiple_of(4) {
            self.daemon_frozen_us = self.daemon_frozen_us.max(until_us);
            return true;
        }
        let Some(id) = self.any_process(step.slot / 4) else {
            return false;
        };
        self.with(id, |_, process| {
            process.frozen_us = process.frozen_us.max(until_us);
        });
        true
    }

    fn any_process(&self, slot: u64) -> Option<u64> {
        let at = usize::try_from(slot % self.slots.len() as u64).ok()?;
        self.slots.get(at).copied().flatten()
    }

    /// Does something to a connection.
    fn break_something(&mut self, step: Step, random: &mut Random) -> bool {
        let Some(id) = self.any_process(step.slot) else {
            return false;
        };
        let Some(process) = self.processes.get(&id) else {
            return false;
        };
        let at = process.link;
        let Some(link) = self.links.get_mut(&at) else {
            return false;
        };
        if !link.is_client_open && step.kind != Kind::Crash {
            return false;
        }
        let now_us = self.now_us;
        match step.kind {
            Kind::Stall => {
                let until_us = now_us + random.range(10_000, 3_000_000);
                if random.percent(60) {
                    link.up.stall(until_us);
                }
                if random.percent(60) {
                    link.down.stall(until_us);
                }
                true
            }
            Kind::Slow => {
                let until_us = link.down.stalled_us().max(now_us);
                link.down
                    .stall(until_us + random.range(1_000_000, 20_000_000));
                false
            }
            Kind::Break | Kind::HalfOpen => {
                let (up, down) = link.cut(now_us, random);
                let late_us = if step.kind == Kind::HalfOpen {
                    random.range(500_000, 40_000_000)
                } else {
                    0
                };
                let is_up_late = random.percent(50);
                let (up_late, down_late) = if is_up_late {
                    (late_us, 0)
                } else {
                    (0, late_us)
                };
                self.push_ends(at, (up + up_late, down + down_late));
                true
            }
            Kind::Crash => {
                link.is_client_open = false;
                let up = link.up.cut(now_us, random);
                link.down.is_carrying = false;
                self.push(up, Event::UpEnd(at));
                self.end_process(id);
                true
            }
            _ => false,
        }
    }

    /// A party leaves in good order.
    pub(super) fn leave(&mut self, step: Step) -> bool {
        let Some(id) = self.any_process(step.slot) else {
            return false;
        };
        let process = self.processes.get(&id);
        let owes = process.is_none_or(|p| !p.owes_nothing() || p.client.is_away());
        if owes {
            return false;
        }
        self.with(id, |world, process| {
            world.say(process, vec![ClientMessage::Detach]);
        });
        if let Some(process) = self.processes.remove(&id) {
            self.slots[process.slot] = None;
            self.oracles.told.forget(id);
            // What it had is with the daemon, so nothing of it may be lost.
            if let Some(link) = self.links.get_mut(&process.link) {
                link.is_client_open = false;
                let at_us = link.up.end(self.now_us);
                self.push(at_us, Event::UpEnd(process.link));
            }
        }
        true
    }

    /// A party joins where none is.
    pub(super) fn join(&mut self, step: Step, is_watcher: bool) -> bool {
        let count = if is_watcher {
            self.plan.ui_count
        } else {
            self.slots.len()
        };
        let at = usize::try_from(step.slot % count as u64).unwrap_or(0);
        if self.slots[at].is_some() {
            return false;
        }
        self.push(self.now_us, Event::Start(at, is_watcher));
        true
    }

    pub(super) fn grant(&mut self, step: Step, random: &mut Random) -> bool {
        let Some(id) = self.process_of(step.slot, AttachmentKind::Tool) else {
            return false;
        };
        let tool = self.processes.get(&id).and_then(|p| p.client.node());
        let Some(tool) = tool.map(apex_core::node::Node::attachment) else {
            return false;
        };
        let ms = (!random.percent(25)).then(|| random.range(50, 6_000));
        self.allow(tool, ms);
        true
    }

    /// Faults stop: clocks agree, nobody is refused, and a session of the others has a screen.
    pub(super) fn calm(&mut self) {
        self.is_calm = true;
        self.refused_us = 0;
        self.clock.set(self.now_us, 0, 1000);
        self.tick_us = None;
        self.wind();
        let is_empty = self.slots[..self.plan.ui_count].iter().all(Option::is_none);
        if is_empty && !self.plan.seed.is_multiple_of(3) {
            self.start_as(0, AttachmentKind::Ui, Takeover::Transfer);
        }
    }
}
