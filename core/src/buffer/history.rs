//! A buffer's undo history: groups of steps, bounded in bytes, shared between clones.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use rpds::VectorSync;
use serde::{Deserialize, Serialize};

use crate::edit::Splice;
use crate::entry::ApplyLimits;
use crate::ids::{GroupId, Version};

/// Bytes that a step costs besides its texts.
const STEP_LEN: u64 = 64;

/// What takes one change back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Splices in positions of the text after the change.
    Text(Vec<Splice>),
    /// The name before a rename.
    Name(String),
}

impl Step {
    fn len(&self) -> u64 {
        match self {
            Self::Text(splices) => splices
                .iter()
                .map(|splice| STEP_LEN + splice.text.len() as u64)
                .sum::<u64>(),
            Self::Name(name) => STEP_LEN + name.len() as u64,
        }
    }

    /// Joins typing: two insertions, the second right behind the first.
    fn join(&mut self, next: &Self) -> bool {
        let (Self::Text(last), Self::Text(next)) = (self, next) else {
            return false;
        };
        let ([last], [next]) = (last.as_mut_slice(), next.as_slice()) else {
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

/// Groups that can be undone and, after undoing, redone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    done: VectorSync<Arc<Group>>,
    undone: VectorSync<Arc<Group>>,
    /// Bytes of the groups in `done`.
    len: u64,
}

impl History {
    /// Returns the group that Undo would take back.
    #[must_use]
    pub fn last(&self) -> Option<&Group> {
        self.done.last().map(Arc::as_ref)
    }

    /// Returns the group that Redo would bring back.
    #[must_use]
    pub fn last_undone(&self) -> Option<&Group> {
        self.undone.last().map(Arc::as_ref)
    }

    /// Adds a step to a group; a new change ends Redo.
    pub fn push(
        &mut self,
        group: GroupId,
        step: Step,
        (before, after): (Version, Version),
        limits: &ApplyLimits,
    ) {
        if !self.undone.is_empty() {
            self.undone = VectorSync::default();
        }
        if self.last().is_some_and(|last| last.id == group) {
            self.extend_last(step, after);
        } else {
            let len = step.len();
            self.len += len;
            let group = Group {
                id: group,
                steps: alloc::vec![step],
                content: (before, after),
                len,
            };
            self.done.push_back_mut(Arc::new(group));
        }
        if self.len > limits.undo_len {
            self.forget_oldest(limits.undo_len);
        }
    }

    fn extend_last(&mut self, step: Step, after: Version) {
        let index = self.done.len() - 1;
        let Some(last) = self.done.get_mut(index).map(Arc::make_mut) else {
            return;
        };
        last.content.1 = after;
        if last.steps.last_mut().is_some_and(|last| last.join(&step)) {
            return;
        }
        let len = step.len();
        last.len += len;
        last.steps.push(step);
        self.len += len;
    }

    /// Keeps the newest groups that fill three quarters of the limit, and always the newest one.
    fn forget_oldest(&mut self, limit: u64) {
        let mut kept = Vec::new();
        let mut len = 0;
        for group in self.done.iter().rev() {
            if !kept.is_empty() && len + group.len > limit / 4 * 3 {
                break;
            }
            len += group.len;
            kept.push(group.clone());
        }
        self.done = kept.into_iter().rev().collect();
        self.len = len;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if !self.done.is_empty() || !self.undone.is_empty() {
            *self = Self::default();
        }
    }

    /// Takes the group that Undo takes back.
    pub fn pop(&mut self) -> Option<Arc<Group>> {
        let group = self.done.last().cloned()?;
        self.done.drop_last_mut();
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
        self.len += group.len;
        self.done.push_back_mut(Arc::new(group));
    }
}
