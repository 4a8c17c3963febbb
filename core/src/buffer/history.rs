//! A buffer's undo history: groups of steps, bounded in bytes, shared between clones.
//!
//! 1. Groups go whole, the oldest first. The newest one stays, however large it is.
//! 2. What is undone holds text that was in the buffer before, so it needs no bound of its own.
//! 3. Of groups that are gone the ids stay for a while: who undoes one in another buffer is told
//!    that this one cannot follow.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use rpds::{RedBlackTreeSetSync, VectorSync};
use serde::{Deserialize, Serialize};

use crate::edit::Splice;
use crate::entry::ApplyLimits;
use crate::ids::{AttachmentId, GroupId, Version};

/// Bytes that a step costs besides its texts.
const STEP_LEN: u64 = 64;
/// Ids of lost groups that any history keeps.
const LOST_COUNT_MIN: usize = 16;
/// Bytes of the limit for which one more such id is kept.
const LOST_SHARE_LEN: u64 = 4096;

/// How a history stands to a group that is undone, or redone, in another buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has no part in the group, or has done it already.
    Apart,
    /// The group is next: it follows.
    Next,
    /// It was changed since, so that the group is not next, or cannot be redone any more.
    Changed,
    /// It dropped the group, which can be undone no more.
    Forgotten,
}

/// What takes one change back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// One splice, in positions of the text after the change: what typing leaves.
    Splice(Splice),
    /// Splices in positions of the text after the change.
    Splices(Vec<Splice>),
    /// The name before a rename.
    Name(String),
}

impl Step {
    /// Returns what takes the text back; nothing for a rename.
    #[must_use]
    pub fn splices(&self) -> &[Splice] {
        match self {
            Self::Splice(splice) => core::slice::from_ref(splice),
            Self::Splices(splices) => splices,
            Self::Name(_) => &[],
        }
    }

    fn len(&self) -> u64 {
        if let Self::Name(name) = self {
            return STEP_LEN + name.len() as u64;
        }
        let lens = self.splices().iter().map(|splice| splice.text.len() as u64);
        lens.map(|len| STEP_LEN + len).sum()
    }

    /// Joins typing: two insertions, the second right behind the first.
    fn join(&mut self, next: &Self) -> bool {
        let (Self::Splice(last), Self::Splice(next)) = (self, next) else {
            return false;
        };
        let is_typing = last.text.is_empty() && next.text.is_empty() && last.at.q1 == next.at.q0;
        if is_typing {
            last.at.q1 = next.at.q1;
        }
        is_typing
    }
}

/// One step of undo in one buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    id: GroupId,
    steps: Vec<Step>,
    /// The content before and after.
    content: (Version, Version),
    len: u64,
}

impl Group {
    /// Returns its id, shared by the groups of other buffers that one command made.
    #[must_use]
    pub const fn id(&self) -> GroupId {
        self.id
    }

    /// Returns what takes it back, in the order in which the changes were made.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the content before and after.
    #[must_use]
    pub const fn content(&self) -> (Version, Version) {
        self.content
    }

    /// Returns about how many bytes it holds.
    pub(super) const fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Returns the group that takes back what taking back this one did.
    #[must_use]
    pub fn inverted(&self, steps: Vec<Step>) -> Self {
        let len = steps.iter().map(Step::len).sum();
        Self {
            id: self.id,
            steps,
            content: self.content,
            len,
        }
    }
}

/// Finished groups, shared between clones.
pub(super) type Groups = VectorSync<Arc<Group>>;
/// The newest group, those below it, and those undone, each list oldest first.
pub(super) type Parts = (Option<Arc<Group>>, Groups, Groups);
/// What a history keeps beside its groups: bytes that can be undone, and ids that are lost.
pub(super) type Lost = (
    u64,
    RedBlackTreeSetSync<GroupId>,
    RedBlackTreeSetSync<GroupId>,
);

/// Groups that can be undone and, after undoing, redone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// The newest group that can be undone. It stands apart because typing extends it: a way down
    /// the vector at each key would cost more than the rest of the step.
    top: Option<Arc<Group>>,
    /// The groups below it; empty when there is none.
    below: VectorSync<Arc<Group>>,
    undone: VectorSync<Arc<Group>>,
    /// Bytes of the groups that can be undone.
    len: u64,
    /// Newest ids of groups that stand in the text and cannot be undone any more.
    forgotten: RedBlackTreeSetSync<GroupId>,
    /// Newest ids of groups that were undone and cannot be redone any more.
    abandoned: RedBlackTreeSetSync<GroupId>,
}

impl History {
    /// Returns the bytes of the groups that can be undone.
    #[must_use]
    pub const fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Returns the newest group, those below it, and those undone, each list oldest first.
    pub(super) fn parts(&self) -> (Option<&Group>, &Groups, &Groups) {
        (self.top.as_deref(), &self.below, &self.undone)
    }

    /// Returns a history of its parts.
    pub(super) fn of((top, below, undone): Parts, (len, forgotten, abandoned): Lost) -> Self {
        Self {
            top,
            below,
            undone,
            len,
            forgotten,
            abandoned,
        }
    }

    /// Returns what it keeps beside its groups.
    pub(super) fn lost(&self) -> Lost {
        let (forgotten, abandoned) = (self.forgotten.clone(), self.abandoned.clone());
        (self.len, forgotten, abandoned)
    }

    /// Returns the group that Undo would take back.
    #[must_use]
    pub fn last(&self) -> Option<&Group> {
        self.top.as_deref()
    }

    /// Returns the group that Redo would bring back.
    #[must_use]
    pub fn last_undone(&self) -> Option<&Group> {
        self.undone.last().map(Arc::as_ref)
    }

    /// Returns how it stands to undoing a group. Costs the groups made since that one.
    #[must_use]
    pub fn undo_standing(&self, group: GroupId) -> Standing {
        if self.last().is_some_and(|top| top.id == group) {
            Standing::Next
        } else if has(ids(&self.below).rev(), group, |id| id < group) {
            Standing::Changed
        } else if self.forgotten.contains(&group) {
            Standing::Forgotten
        } else {
            Standing::Apart
        }
    }

    /// Returns how it stands to redoing a group. Costs the groups undone since that one.
    #[must_use]
    pub fn redo_standing(&self, group: GroupId) -> Standing {
        if self.last_undone().is_some_and(|last| last.id == group) {
            Standing::Next
        } else if self.abandoned.contains(&group)
            || has(ids(&self.undone).rev(), group, |id| id > group)
        {
            Standing::Changed
        } else {
            Standing::Apart
        }
    }

    /// Adds a step to a group; a new change ends Redo.
    pub fn push(
        &mut self,
        group: GroupId,
        step: Step,
        (before, after): (Version, Version),
        limits: &ApplyLimits,
    ) {
        self.end_redo(limits);
        match &mut self.top {
            Some(top) if top.id == group => {
                self.len += extend(Arc::make_mut(top), step, after);
            }
            _ => {
                let len = step.len();
                self.push_group(Arc::new(Group {
                    id: group,
                    steps: alloc::vec![step],
                    content: (before, after),
                    len,
                }));
            }
        }
        if self.len > limits.undo_len {
            self.forget_oldest(limits);
        }
    }

    fn push_group(&mut self, group: Arc<Group>) {
        self.len += group.len;
        if let Some(top) = self.top.replace(group) {
            self.below.push_back_mut(top);
        }
    }

    #[inline]
    fn end_redo(&mut self, limits: &ApplyLimits) {
        if self.undone.is_empty() {
            return;
        }
        // The first of them is the newest.
        let undone = core::mem::take(&mut self.undone);
        lose(&mut self.abandoned, ids(&undone), limits);
    }

    /// Keeps the newest groups that fill three quarters of the limit, and always the newest one.
    fn forget_oldest(&mut self, limits: &ApplyLimits) {
        let mut kept = Vec::new();
        let mut len = self.top.as_ref().map_or(0, |top| top.len);
        for group in self.below.iter().rev() {
            if len + group.len > limits.undo_len / 4 * 3 {
                break;
            }
            len += group.len;
            kept.push(group.clone());
        }
        let gone = ids(&self.below).rev().skip(kept.len());
        lose(&mut self.forgotten, gone, limits);
        self.below = kept.into_iter().rev().collect();
        self.len = len;
    }

    /// Forgets everything that could be undone or redone.
    pub fn clear(&mut self, limits: &ApplyLimits) {
        self.end_redo(limits);
        if let Some(top) = self.top.take() {
            let below = core::mem::take(&mut self.below);
            let gone = core::iter::once(top.id).chain(ids(&below).rev());
            lose(&mut self.forgotten, gone, limits);
            self.len = 0;
        }
    }

    /// Takes the group that Undo takes back.
    pub fn pop(&mut self) -> Option<Arc<Group>> {
        let group = self.top.take()?;
        self.top = self.below.last().cloned();
        self.below.drop_last_mut();
        self.len -= group.len;
        Some(group)
    }

    /// Takes the group that Redo brings back.
    pub fn pop_undone(&mut self) -> Option<Arc<Group>> {
        let group = self.undone.last().cloned()?;
        self.undone.drop_last_mut();
        Some(group)
    }

    /// Adds what an undo took back.
    pub fn push_undone(&mut self, group: Group) {
        self.undone.push_back_mut(Arc::new(group));
    }

    /// Adds what a redo brought back.
    pub fn push_redone(&mut self, group: Group) {
        self.push_group(Arc::new(group));
    }
}

/// Adds a step to a group; returns by how many bytes that grew it.
fn extend(group: &mut Group, step: Step, after: Version) -> u64 {
    group.content.1 = after;
    if group.steps.last_mut().is_some_and(|last| last.join(&step)) {
        return 0;
    }
    let len = step.len();
    group.len += len;
    group.steps.push(step);
    len
}

/// Returns the ids of groups, in their order.
fn ids(groups: &VectorSync<Arc<Group>>) -> impl DoubleEndedIterator<Item = GroupId> {
    groups.iter().map(|group| group.id)
}

/// Returns whether a group is among some, looked through from the nearest on. A party counts its
/// groups upwards, so the search ends at one of the same party that is beyond.
fn has(
    mut groups: impl Iterator<Item = GroupId>,
    group: GroupId,
    is_beyond: impl Fn(GroupId) -> bool,
) -> bool {
    let party = AttachmentId::issuer_of(group.raw());
    let is_end = |id: GroupId| AttachmentId::issuer_of(id.raw()) == party && is_beyond(id);
    groups.find(|id| *id == group || is_end(*id)) == Some(group)
}

/// Keeps the ids of groups that are gone, given from the newest on, as far as there is room.
fn lose(
    lost: &mut RedBlackTreeSetSync<GroupId>,
    gone: impl Iterator<Item = GroupId>,
    limits: &ApplyLimits,
) {
    let share = usize::try_from(limits.undo_len / LOST_SHARE_LEN).unwrap_or(usize::MAX);
    let most = LOST_COUNT_MIN.saturating_add(share);
    for id in gone.take(most) {
        lost.insert_mut(id);
    }
    // The smallest id is of the party that came first, and of its first groups.
    while lost.size() > most
        && let Some(oldest) = lost.first().copied()
    {
        lost.remove_mut(&oldest);
    }
}

#[cfg(test)]
mod tests;
