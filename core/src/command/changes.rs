//! The changes of one command to one text, as they are made, and the edit that they come to.

use alloc::string::String;
use alloc::vec::Vec;

use super::CommandError;
use crate::edit::Splice;
use crate::text::{Span, count};

/// A piece of inserted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// What a source yields, by index.
    Source(usize),
}

/// One step of the changes, in positions of the text before the command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Delete(Span),
    Insert(u64, Piece),
}

/// A selection that is known by positions of the text before, and how many steps stand before each
/// of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) at: Span,
    pub(super) start_step: usize,
    pub(super) end_step: usize,
}

/// What a command does to one text.
#[derive(Clone, Debug)]
pub struct FileOutcome {
    steps: Vec<Step>,
    /// No change may come before this position any more.
    mark: u64,
    /// The selection if nothing changes, and as addresses see it.
    pub(super) dot: Span,
    pending: Option<Pending>,
    /// The selection as it was when the first change was made.
    first_dot: Option<Span>,
}

impl FileOutcome {
    pub(super) const fn new(dot: Span) -> Self {
        Self {
            steps: Vec::new(),
            mark: 0,
            dot,
            pending: None,
            first_dot: None,
        }
    }

    /// Returns whether the text changes.
    #[must_use]
    pub fn is_change(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Returns the selection at which the first change was made: where it is after an undo.
    #[must_use]
    pub const fn dot_before(&self) -> Option<Span> {
        self.first_dot
    }

    /// How many steps there are: the number of the next one.
    pub(super) fn step(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn delete(&mut self, at: Span) -> Result<(), CommandError> {
        if at.is_empty() {
            return Ok(());
        }
        self.pass(at.q0, at.q1)?;
        self.steps.push(Step::Delete(at));
        Ok(())
    }

    pub(super) fn insert(&mut self, q: u64, piece: Piece) -> Result<(), CommandError> {
        if piece == Piece::Text(String::new()) {
            return Ok(());
        }
        self.pass(q, q)?;
        self.steps.push(Step::Insert(q, piece));
        Ok(())
    }

    fn pass(&mut self, from: u64, to: u64) -> Result<(), CommandError> {
        if from < self.mark {
            return Err(CommandError::OutOfSequence);
        }
        self.mark = to;
        self.first_dot.get_or_insert(self.dot);
        Ok(())
    }

    /// Sets the selection that the changes since step `start_step` leave.
    pub(super) fn select(&mut self, at: Span, start_step: usize) {
        self.pending = Some(Pending {
            at,
            start_step,
            end_step: self.steps.len(),
        });
    }

    /// Takes the selection together: nothing is left of what was deleted.
    pub(super) fn collapse(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.end_step = pending.start_step;
        }
    }

    /// Returns the edit and the selection after it, once it is known what each source yields.
    ///
    /// # Panics
    /// When fewer texts are given than the outcome has sources.
    #[must_use]
    pub fn finish(&self, yields: &[String]) -> (Vec<Splice>, Span) {
        let mut changes: Vec<(Span, String)> = Vec::new();
        // How far the text behind each step has grown and shrunk.
        let mut moved = alloc::vec![(0, 0)];
        for step in &self.steps {
            let (mut added, mut removed) = moved.last().copied().unwrap_or_default();
            match step {
                Step::Delete(at) => {
                    removed += at.len();
                    changes.push((*at, String::new()));
                }
                Step::Insert(q, piece) => {
                    let text = match piece {
                        Piece::Text(text) => text,
                        Piece::Source(index) => &yields[*index],
                    };
                    added += count(text);
                    match changes.last_mut() {
                        Some((at, brought)) if at.q1 == *q => brought.push_str(text),
                        _ => changes.push((Span::at(*q), text.clone())),
                    }
                }
            }
            moved.push((added, removed));
        }
        let changes = changes.into_iter();
        let splices: Vec<Splice> = changes.map(|(at, text)| Splice::new(at, text)).collect();
        let dot = self.pending.map_or(self.dot, |pending| {
            let (start, end) = (moved[pending.start_step], moved[pending.end_step]);
            let q0 = run_start(&splices, pending.at.q0);
            let len = pending.at.len() + (end.0 - start.0) - (end.1 - start.1);
            Span::new(q0, q0 + len)
        });
        (splices, dot)
    }
}

/// Returns where a position of the old text stands in the new one. At the edge of changed text, or
/// inside it, that is where the changed text begins; changes without text between them are one.
fn run_start(splices: &[Splice], q: u64) -> u64 {
    let (mut added, mut removed) = (0, 0);
    let mut splices = splices.iter().peekable();
    while let Some(first) = splices.next_if(|splice| splice.at.q0 <= q) {
        let start = first.at.q0 + added - removed;
        let mut end = first.at.q1;
        added += first.count();
        removed += first.at.len();
        while let Some(next) = splices.next_if(|splice| splice.at.q0 == end) {
            end = next.at.q1;
            added += next.count();
            removed += next.at.len();
        }
        if q <= end {
            return start;
        }
    }
    q + added - removed
}
