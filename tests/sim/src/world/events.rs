//! What each event does.

use apex_core::entry::AttachmentKind;
use apex_core::message::Takeover;

use super::{Event, World};
use crate::plan::Kind;
use crate::process::Process;
use crate::random::Random;

impl World {
    pub(super) fn happen(&mut self, event: Event) {
        let told = format_event(event);
        self.trace.note(self.now_us, &told, || format!("{event:?}"));
        match event {
            Event::Step(index) => self.step(index),
            Event::Up(link) => self.arrive_up(link),
            Event::Down(link) => self.arrive_down(link),
            Event::UpEnd(link) => self.end_up(link),
            Event::DownEnd(link) => self.end_down(link),
            Event::Flush(process) => self.flush(process),
            Event::Again(process) => self.with(process, Self::ask_again),
            Event::Start(slot, is_watcher) => self.start(slot, is_watcher),
            Event::Back(process) => self.come_back(process),
            Event::Cut(link) => self.cut(link),
            Event::Tick => self.tick(),
            Event::Job(job) => self.job(job),
            Event::Calm => self.calm(),
        }
    }

    /// Does something to a process, if it is there.
    pub(super) fn with(&mut self, id: u64, act: impl FnOnce(&mut Self, &mut Process)) {
        if let Some(mut process) = self.processes.remove(&id) {
            act(self, &mut process);
            self.processes.insert(id, process);
        }
    }

    /// Carries out a decision.
    fn step(&mut self, index: usize) {
        let (number, step) = self.plan.steps[index];
        let mut random = Random::new(step.salt);
        self.trace.note(self.now_us, &[], || {
            format!("-- step {number}: {} {}", step.kind, step.slot % 100)
        });
        let is_done = match step.kind {
            Kind::Type
            | Kind::Erase
            | Kind::Cut
            | Kind::Paste
            | Kind::Select
            | Kind::Undo
            | Kind::Redo
            | Kind::New
            | Kind::Open
            | Kind::Put
            | Kind::Get
            | Kind::Close
            | Kind::Zerox
            | Kind::Run
            | Kind::TakeOver
            | Kind::Steal => self.user_step(step, &mut random),
            Kind::Propose
            | Kind::Stale
            | Kind::Annotate
            | Kind::Board
            | Kind::Both
            | Kind::Each
            | Kind::Repeat
            | Kind::Lead => self.tool_step(step, &mut random),
            Kind::Leave => self.leave(step),
            Kind::Join => self.join(step, false),
            Kind::Watch => self.join(step, true),
            Kind::Grant => self.grant(step, &mut random),
            Kind::Disk => self.write_file(&mut random),
            _ => self.fault_step(step, &mut random),
        };
        if is_done {
            self.fire(step.kind);
        }
    }

    /// Returns the process in one of the slots of a kind.
    pub(super) fn process_of(&self, slot: u64, kind: AttachmentKind) -> Option<u64> {
        let slots = self.slots_of(kind);
        let len = slots.len() as u64;
        if len == 0 {
            return None;
        }
        let at = usize::try_from(slot % len).ok()?;
        slots.get(at).copied().flatten()
    }

    fn slots_of(&self, kind: AttachmentKind) -> &[Option<u64>] {
        let (uis, tools) = self.slots.split_at(self.plan.ui_count);
        match kind {
            AttachmentKind::Ui => uis,
            AttachmentKind::Tool => tools,
        }
    }

    fn start(&mut self, slot: usize, is_watcher: bool) {
        if self.slots[slot].is_some() {
            return;
        }
        if self.now_us < self.refused_us {
            self.fire(Kind::Refuse);
            let at_us = self.refused_us + 1_000 * (slot as u64 + 1);
            return self.push(at_us, Event::Start(slot, is_watcher));
        }
        let kind = if slot < self.plan.ui_count {
            AttachmentKind::Ui
        } else {
            AttachmentKind::Tool
        };
        let takeover = if is_watcher {
            Takeover::Watch
        } else {
            Takeover::Transfer
        };
        self.start_as(slot, kind, takeover);
    }
}

/// Returns the bytes of an event, for the trace.
fn format_event(event: Event) -> [u8; 17] {
    let (code, a, b) = match event {
        Event::Step(index) => (0, index as u64, 0),
        Event::Up(link) => (1, link.raw(), 0),
        Event::Down(link) => (2, link.raw(), 0),
        Event::UpEnd(link) => (3, link.raw(), 0),
        Event::DownEnd(link) => (4, link.raw(), 0),
        Event::Flush(process) => (5, process, 0),
        Event::Again(process) => (6, process, 0),
        Event::Start(slot, is_watcher) => (7, slot as u64, u64::from(is_watcher)),
        Event::Tick => (8, 0, 0),
        Event::Job(job) => (9, job, 0),
        Event::Calm => (10, 0, 0),
        Event::Back(process) => (11, process, 0),
        Event::Cut(link) => (12, link.raw(), 0),
    };
    let mut bytes = [0; 17];
    bytes[0] = code;
    bytes[1..9].copy_from_slice(&a.to_le_bytes());
    bytes[9..].copy_from_slice(&b.to_le_bytes());
    bytes
}
