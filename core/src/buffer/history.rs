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
    /// The newest group that can be undone. It stands apart because typing extends it: a way down
    /// the vector at each key would cost more than the rest of the step.
    top: Option<Arc<Group>>,
    /// The groups below it; empty when there is none.
    below: VectorSync<Arc<Group>>,
    undone: VectorSync<Arc<Group>>,
    /// Bytes of the groups that can be undone.
    len: u64,
}

impl History {
    /// Returns the bytes of the groups that can be undone.
    #[must_use]
    pub const fn len_bytes(&self) -> u64 {
        self.len
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
            self.forget_oldest(limits.undo_len);
        }
    }

    fn push_group(&mut self, group: Arc<Group>) {
        self.len += group.len;
        if let Some(top) = self.top.replace(group) {
            self.below.push_back_mut(top);
        }
    }

    /// Keeps the newest groups that fill three quarters of the limit, and always the newest one.
    fn forget_oldest(&mut self, limit: u64) {
        let mut kept = Vec::new();
        let mut len = self.top.as_ref().map_or(0, |top| top.len);
        for group in self.below.iter().rev() {
            if len + group.len > limit / 4 * 3 {
                break;
            }
            len += group.len;
            kept.push(group.clone());
        }
        self.below = kept.into_iter().rev().collect();
        self.len = len;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if self.top.is_some() || !self.undone.is_empty() {
            *self = Self::default();
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
