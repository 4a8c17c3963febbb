//! A journal in memory, with a power switch: for tests and for the simulator.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use super::{Checkpoint, Item, Journal, Kept, Marks};
use crate::ids::Place;

/// One thing that was handed over.
#[derive(Clone, Debug)]
enum Line {
    Checkpoint(Box<Checkpoint>),
    Item(Place, Item),
}

impl Line {
    fn place(&self) -> Place {
        match self {
            Self::Checkpoint(checkpoint) => checkpoint.upto,
            Self::Item(place, _) => *place,
        }
    }
}

/// A journal whose owner says when something is written and synced, and when the daemon or the
/// power fails. Lines go through three hands: handed over, written, synced.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    lines: VecDeque<Line>,
    /// How many of the lines are written, and how many synced.
    written: usize,
    synced: usize,
    marks: Marks,
}

impl Disk {
    /// Returns an empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many lines were handed over and not written yet.
    #[must_use]
    pub fn unwritten_count(&self) -> usize {
        self.lines.len() - self.written
    }

    /// Returns how many lines were written and not synced yet.
    #[must_use]
    pub const fn unsynced_count(&self) -> usize {
        self.written - self.synced
    }

    /// Writes the next `count` lines, or as many as there are.
    pub fn write(&mut self, count: usize) {
        self.written = self.lines.len().min(self.written.saturating_add(count));
        self.note_marks();
    }

    /// Syncs what is written; what a synced checkpoint stands for is dropped.
    pub fn sync(&mut self) {
        self.synced = self.written;
        self.note_marks();
        let is_checkpoint = |line: &Line| matches!(line, Line::Checkpoint(_));
        let synced = self.lines.iter().take(self.synced);
        let newest = synced.clone().rposition(is_checkpoint).unwrap_or(0);
        self.lines.drain(..newest);
        self.written -= newest;
        self.synced -= newest;
    }

    /// The daemon's process ends: what is written stays.
    pub fn kill(&mut self) {
        self.lines.truncate(self.written);
    }

    /// Power fails: what is synced stays, and of what was written beyond that the first `lucky`
    /// lines.
    pub fn cut_power(&mut self, lucky: usize) {
        let kept = self.written.min(self.synced.saturating_add(lucky));
        self.lines.truncate(kept);
        (self.written, self.synced) = (kept, kept);
    }

    fn note_marks(&mut self) {
        let place = |count: usize| count.checked_sub(1).map(|last| self.lines[last].place());
        let (written, synced) = (place(self.written), place(self.synced));
        self.marks.written = written.unwrap_or(self.marks.written);
        self.marks.synced = synced.unwrap_or(self.marks.synced);
    }
}

impl Journal for Disk {
    type Error = NothingKept;

    fn checkpoint(&mut self, checkpoint: Checkpoint) {
        self.lines.push_back(Line::Checkpoint(Box::new(checkpoint)));
    }

    fn put(&mut self, place: Place, item: Item) {
        self.lines.push_back(Line::Item(place, item));
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    fn kept(&self) -> Result<Kept, NothingKept> {
        let written = || self.lines.iter().take(self.written);
        let checkpoint = written().rev().find_map(|line| match line {
            Line::Checkpoint(checkpoint) => Some(Checkpoint::clone(checkpoint)),
            Line::Item(..) => None,
        });
        let checkpoint = checkpoint.ok_or(NothingKept)?;
        let behind = |line: &Line| match line {
            Line::Item(place, item) if *place > checkpoint.upto => Some((*place, item.clone())),
            Line::Item(..) | Line::Checkpoint(_) => None,
        };
        let items: Vec<_> = written().filter_map(behind).collect();
        Ok(Kept { checkpoint, items })
    }
}

/// No checkpoint was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NothingKept;

impl fmt::Display for NothingKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no checkpoint was written")
    }
}

impl core::error::Error for NothingKept {}
