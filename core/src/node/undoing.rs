//! Undo and Redo as a leader does them: over all buffers of a group, saying which could not follow.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::client::Client;
use super::{Node, NodeError};
use crate::buffer::history::Standing;
use crate::canary::{self, Canary};
use crate::entry::BufferOp;
use crate::ids::{BufferId, GroupId, ProposalId, Shard, ViewId};
use crate::message::ClientMessage;
use crate::proposal::Change;

/// Which way a step of undo goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Undo: the latest group is taken back.
    Back,
    /// Redo: what was undone last comes again.
    Forth,
}

/// What an Undo or Redo did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// The group; none when there was nothing to do.
    pub group: Option<GroupId>,
    /// Buffers in which the group was taken back or brought again.
    pub buffers: Vec<BufferId>,
    /// Buffers of the group that could not follow.
    pub diverged: Vec<Diverged>,
    /// Buffers in which the group is next and that other parties lead: to be proposed to them.
    pub elsewhere: Vec<BufferId>,
    /// The proposals to these parties; their outcomes tell whether the buffers followed.
    pub proposed: Vec<(ProposalId, BufferId)>,
}

/// A buffer that could not follow an Undo or Redo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diverged {
    /// Its name.
    pub name: String,
    /// Whether it no longer knows the group; else it was changed since.
    pub is_forgotten: bool,
}

impl core::fmt::Display for Diverged {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let why = if self.is_forgotten {
            "too long ago"
        } else {
            "changed since"
        };
        write!(f, "{} ({why})", self.name)
    }
}

impl Node {
    /// Undoes the latest group of a view's buffer, in every buffer in which it is the latest.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn undo(&mut self, view: ViewId) -> Result<Undone, NodeError> {
        self.step(view, Direction::Back)
    }

    /// Redoes the group undone last in a view's buffer, in every buffer in which it is the last.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn redo(&mut self, view: ViewId) -> Result<Undone, NodeError> {
        self.step(view, Direction::Forth)
    }

    /// Undoes or redoes what is next in a view's buffer, in every buffer in which it is next. Those
    /// that other parties lead are only named.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn step(&mut self, view: ViewId, direction: Direction) -> Result<Undone, NodeError> {
        let id = self.buffer_of(view)?;
        let mut undone = Undone {
            group: self.next_group(id, direction),
            ..Undone::default()
        };
        let Some(group) = undone.group else {
            return Ok(undone);
        };
        let mut members = Vec::new();
        for (id, buffer) in self.state.buffers() {
            let is_forced = canary::is_on(Canary::UndoOfOthers);
            let standing = match direction {
                Direction::Back => buffer.undo_standing(group),
                Direction::Forth => buffer.redo_standing(group),
            };
            match standing {
                Standing::Apart => {}
                Standing::Changed if is_forced && self.leads(Shard::Buffer(id)) => {
                    members.push(id);
                }
                Standing::Next if self.leads(Shard::Buffer(id)) => members.push(id),
                Standing::Next => undone.elsewhere.push(id),
                Standing::Changed | Standing::Forgotten => undone.diverged.push(Diverged {
                    name: buffer.name().to_string(),
                    is_forgotten: standing == Standing::Forgotten,
                }),
            }
        }
        for member in members {
            self.step_group(member, (group, direction), Some(view))?;
            undone.buffers.push(member);
        }
        Ok(undone)
    }

    /// Returns the group that Undo or Redo would step over in a buffer.
    #[must_use]
    pub fn next_group(&self, id: BufferId, direction: Direction) -> Option<GroupId> {
        let buffer = self.state.buffer(id)?;
        match direction {
            Direction::Back => buffer.undo_group(),
            Direction::Forth => buffer.redo_group(),
        }
    }

    /// Steps over a group that is next in a buffer that this node leads. The selection that goes
    /// to what was touched is that of the asking view, else of the first body view.
    pub(super) fn step_group(
        &mut self,
        id: BufferId,
        (group, direction): (GroupId, Direction),
        asking: Option<ViewId>,
    ) -> Result<(), NodeError> {
        let view = self.view_to_move(id, asking);
        let op = match direction {
            Direction::Back => BufferOp::Undo { group, view },
            Direction::Forth => BufferOp::Redo { group, view },
        };
        self.append_buffer(id, op)?;
        Ok(())
    }

    fn view_to_move(&self, buffer: BufferId, asking: Option<ViewId>) -> Option<ViewId> {
        let buffer = self.state.buffer(buffer)?;
        asking
            .filter(|view| buffer.view(*view).is_some())
            .or_else(|| {
                buffer
                    .views()
                    .map(|(view, _)| view)
                    .find(|view| matches!(view, ViewId::Body(_)))
            })
    }
}

impl Client {
    /// Undoes or redoes as [`Node::step`] does, ships it, and proposes the same to the parties that
    /// lead other buffers of the group: one proposal each, as each follows by itself.
    ///
    /// # Errors
    /// As [`Node::append`]; also before the session is joined.
    pub fn step(
        &mut self,
        view: ViewId,
        direction: Direction,
        out: &mut Vec<ClientMessage>,
    ) -> Result<Undone, NodeError> {
        let node = self.node_mut().ok_or(NodeError::Missing("the session"))?;
        let mut undone = node.step(view, direction)?;
        let Some(group) = undone.group else {
            return Ok(undone);
        };
        self.flush(out);
        for buffer in undone.elsewhere.clone() {
            let change = match direction {
                Direction::Back => Change::Undo { buffer, group },
                Direction::Forth => Change::Redo { buffer, group },
            };
            if let Some((id, message)) = self.propose(vec![change]) {
                undone.proposed.push((id, buffer));
                out.push(message);
            }
        }
        Ok(undone)
    }
}
