//! Recent changes of each buffer, so that edits of an older version are carried forward.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Node;
use crate::buffer::Effect;
use crate::edit::{self, Overlap, Splice, Splices};
use crate::entry::{BufferOp, MetaOp, Op, WindowOp};
use crate::ids::{BufferId, Seq, Shard, Version};
use crate::limits;
use crate::log::Record;

/// Returns about how many bytes the splices that made one version of the next take.
fn len(change: &[Splice]) -> usize {
    let texts = change.iter().map(|splice| splice.text.len());
    size_of::<(Seq, Splices)>() + size_of_val(change) + texts.sum::<usize>()
}

/// The entry that a change is of, and what it did.
pub type ChangeOf<'a> = (Seq, &'a [Splice]);

/// The changes of one buffer since `floor`, bounded in bytes.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    floor: Version,
    /// Highest seq of a change that was dropped.
    dropped: Seq,
    /// The splices that made each version of the one before it.
    changes: VecDeque<(Seq, Splices)>,
    len: usize,
}

impl Recent {
    fn restart(&mut self, version: Version) {
        *self = Self {
            floor: version,
            ..Self::default()
        };
    }

    /// Returns whether every change of entries after `after` is still here.
    fn is_whole_after(&self, after: Seq) -> bool {
        self.dropped <= after
    }

    fn push(&mut self, seq: Seq, change: Splices) {
        self.len += len(&change);
        // Before the new one comes, so that the list, which grows by doubling, ends at the limit.
        while (self.len > limits::RECENT_LEN_MAX || self.changes.len() >= limits::RECENT_COUNT_MAX)
            && let Some((seq, old)) = self.changes.pop_front()
        {
            self.len -= len(&old);
            self.dropped = seq;
            self.floor = self.floor.next();
        }
        self.changes.push_back((seq, change));
    }
}

/// Why an edit cannot be carried to the newest version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarryError {
    /// The base is not kept any more, or does not exist yet.
    Stale,
    /// It overlaps a later change.
    Conflict(Overlap),
}

impl Node {
    /// Keeps what a record did to a text, and which tags it concerns.
    pub(super) fn note(&mut self, record: &Arc<Record>, effect: Effect) {
        let op = match &record.entry.op {
            Op::Buffer(op) => op,
            Op::Window(WindowOp::Create { .. }) | Op::Meta(MetaOp::ShardDel(_)) => {
                self.is_unmended = true;
                return;
            }
            Op::Meta(MetaOp::LeaseGrant { shard, .. }) => {
                self.is_unmended = true;
                return self.leave_name(*shard);
            }
            Op::Meta(MetaOp::LeaseReclaim { shard, .. }) => return self.leave_name(*shard),
            _ => return,
        };
        let Shard::Buffer(id) = record.shard else {
            return;
        };
        let seq = record.entry.seq;
        if !matches!(op, BufferOp::Select(_) | BufferOp::Origin { .. }) {
            // At each key it is there already.
            if !self.touched.contains(&id) {
                self.touched.insert(id);
            }
        }
        match effect {
            Effect::None => {}
            Effect::Edited => {
                if let BufferOp::Edit { splices, .. } = op {
                    self.remember(id, seq, 1, splices.clone());
                }
            }
            Effect::Loaded(_) => {
                let version = self
                    .state
                    .buffer(id)
                    .map_or(Version::default(), super::super::buffer::Buffer::version);
                let recent = self.recent.entry(id).or_default();
                recent.restart(version);
                recent.dropped = seq;
            }
            Effect::Steps(steps) => {
                let mut left = steps.len() as u64;
                for splices in steps {
                    self.remember(id, seq, left, splices.into());
                    left -= 1;
                }
            }
        }
    }

    /// Remembers one change; `left` counts it and those of the same entry that follow.
    fn remember(&mut self, id: BufferId, seq: Seq, left: u64, change: Splices) {
        if let Some(recent) = self.recent.get_mut(&id) {
            return recent.push(seq, change);
        }
        let state = &self.state;
        let recent = self.recent.entry(id).or_insert_with(|| {
            let version = state.buffer(id).map_or(0, |buffer| buffer.version().raw());
            Recent {
                floor: Version::new(version.saturating_sub(left)),
                ..Recent::default()
            }
        });
        recent.push(seq, change);
    }

    /// Learns what entries changed that the state has already, in order and without gaps up to the
    /// last entry of each shard: of a node that continues at a snapshot. What an undo did, they do
    /// not say; what came before that stays unknown.
    pub(super) fn learn(&mut self, records: &[Arc<Record>]) {
        let mut edits: BTreeMap<BufferId, (Seq, Vec<&Arc<Record>>)> = BTreeMap::new();
        for record in records {
            let (Shard::Buffer(id), Op::Buffer(op)) = (record.shard, &record.entry.op) else {
                continue;
            };
            let (last, edits) = edits.entry(id).or_default();
            if record.entry.seq != last.next() || is_opaque(op) {
                edits.clear();
            }
            *last = record.entry.seq;
            if matches!(op, BufferOp::Edit { .. }) {
                edits.push(record);
            }
        }
        for (id, (last, edits)) in edits {
            if self.state.applied(Shard::Buffer(id)) != Some(last) {
                continue;
            }
            for (index, record) in edits.iter().enumerate() {
                let left = (edits.len() - index) as u64;
                if let Op::Buffer(BufferOp::Edit { splices, .. }) = &record.entry.op {
                    self.remember(id, record.entry.seq, left, splices.clone());
                }
            }
        }
    }

    /// Forgets the changes that an entry made: it was taken back.
    pub(super) fn forget_change(&mut self, id: BufferId, seq: Seq) {
        let Some(recent) = self.recent.get_mut(&id) else {
            return;
        };
        while recent.changes.back().is_some_and(|(of, _)| *of == seq)
            && let Some((_, change)) = recent.changes.pop_back()
        {
            recent.len -= len(&change);
        }
    }

    /// Returns what the entries after `after` did to a buffer's text, in order, each with the seq
    /// of its entry, and the version before them. None when not all of it is kept.
    #[must_use]
    pub fn changes_after(&self, id: BufferId, after: Seq) -> Option<(Version, Vec<ChangeOf<'_>>)> {
        let version = self.state.buffer(id)?.version();
        let Some(recent) = self.recent.get(&id) else {
            return Some((version, Vec::new()));
        };
        if !recent.is_whole_after(after) {
            return None;
        }
        let tail: Vec<ChangeOf<'_>> = recent
            .changes
            .iter()
            .filter(|(seq, _)| *seq > after)
            .map(|(seq, change)| (*seq, change.as_slice()))
            .collect();
        Some((Version::new(version.raw() - tail.len() as u64), tail))
    }

    /// Returns the changes that made the newest version of `base`, in order; none when the base is
    /// not kept or does not exist.
    #[must_use]
    pub fn changes_since(&self, id: BufferId, base: Version) -> Option<Vec<&[Splice]>> {
        let version = self.state.buffer(id)?.version();
        if base == version {
            return Some(Vec::new());
        }
        let recent = self.recent.get(&id)?;
        if base < recent.floor || base > version {
            return None;
        }
        let passed = usize::try_from(base.raw() - recent.floor.raw()).ok()?;
        Some(
            recent
                .changes
                .iter()
                .skip(passed)
                .map(|(_, change)| change.as_slice())
                .collect(),
        )
    }

    /// Carries splices from version `base` to the newest one.
    ///
    /// # Errors
    /// The base is not kept, or a later change overlaps.
    pub fn carry(
        &self,
        id: BufferId,
        base: Version,
        splices: Vec<Splice>,
    ) -> Result<Vec<Splice>, CarryError> {
        let changes = self.changes_since(id, base).ok_or(CarryError::Stale)?;
        let mut changes = changes.into_iter();
        changes
            .try_fold(splices, edit::carry)
            .map_err(CarryError::Conflict)
    }
}

/// Returns whether an operation makes versions and does not say of itself what changes in them.
const fn is_opaque(op: &BufferOp) -> bool {
    match op {
        BufferOp::Create { .. }
        | BufferOp::Load { .. }
        | BufferOp::Undo { .. }
        | BufferOp::Redo { .. }
        | BufferOp::Name { .. } => true,
        BufferOp::Edit { .. }
        | BufferOp::Select(_)
        | BufferOp::Origin { .. }
        | BufferOp::ViewAdd(_)
        | BufferOp::ViewDel(_)
        | BufferOp::Saved(_)
        | BufferOp::Annotate { .. }
        | BufferOp::Setting { .. }
        | BufferOp::Forget(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Span;

    /// Pushes a change of so many bytes and checks what is known of all.
    fn check(recent: &mut Recent, number: u64, text_len: usize) {
        let splice = Splice::new(Span::at(0), "x".repeat(text_len));
        recent.push(Seq::new(number), splice.into());
        let lens = recent.changes.iter().map(|(_, change)| len(change));
        assert_eq!(recent.len, lens.sum());
        let count = recent.changes.len() as u64;
        assert_eq!(recent.floor.raw() + count, number);
        assert_eq!(recent.dropped.raw() + count, number);
        assert!(!recent.is_whole_after(Seq::new(number - count - 1)) || count == number);
        assert!(recent.is_whole_after(Seq::new(number - count)));
    }

    #[test]
    fn old_changes_go_when_there_are_too_many_or_too_long_ones() {
        let mut recent = Recent::default();
        let most = limits::RECENT_COUNT_MAX as u64;
        for number in 1..=most {
            recent.push(Seq::new(number), Splice::new(Span::at(0), "x").into());
        }
        assert_eq!(
            recent.floor,
            Version::default(),
            "at the limit all are kept"
        );
        check(&mut recent, most + 1, 1);
        assert_eq!(recent.changes.len() as u64, most, "past it the oldest goes");
        for number in most + 2..most + 9 {
            check(&mut recent, number, limits::RECENT_LEN_MAX / 3);
        }
        assert_eq!(recent.changes.len(), 2);
        check(&mut recent, most + 9, limits::RECENT_LEN_MAX);
        assert_eq!(recent.changes.len(), 1, "the newest stays, however long");
        check(&mut recent, most + 10, 1);
        assert_eq!(recent.changes.len(), 1);
    }
}
