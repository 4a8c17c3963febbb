//! Changing several texts at once, as the commands of `Edit` do: one step of undo, or nothing.

use alloc::string::String;
use alloc::vec::Vec;

use super::Node;
use super::decide::{Planned, refused};
use crate::edit::{self, Splice};
use crate::entry::{BufferKind, BufferOp, Dot};
use crate::ids::{BufferId, GroupId, Shard, Version};
use crate::proposal::Refusal;

/// What changes in one text, as it was computed on one of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Which text.
    pub buffer: BufferId,
    /// The version that the positions are of.
    pub base: Version,
    /// Ordered and disjoint; any number of any length.
    pub splices: Vec<Splice>,
    /// A selection behind the change; it is set only if nobody has changed the text since.
    pub dot: Option<Dot>,
}

impl Node {
    /// Changes texts that this node leads as one step of undo, each carried over what happened
    /// since its base. A large change goes in several entries.
    ///
    /// # Errors
    /// What each text has against it; then nothing was changed.
    pub fn rewrite(&mut self, parts: Vec<Rewrite>, group: GroupId) -> Result<(), Refusal> {
        let mut carried = Vec::new();
        let mut refusals = Vec::new();
        for part in parts {
            match self.carried_part(part) {
                Ok(part) => carried.push(part),
                Err(refusal) => refusals.push(refusal),
            }
        }
        if let Some(refusal) = Refusal::of_all(refusals) {
            return Err(refusal);
        }
        for (id, splices, dot) in carried {
            let buffer = self.state.buffer(id);
            let kind = buffer.map(crate::buffer::Buffer::kind);
            let group = (kind != Some(BufferKind::Tag)).then_some(group);
            let mut steps = edit::steps(splices).into_iter().peekable();
            while let Some(splices) = steps.next() {
                let dot = if steps.peek().is_some() { None } else { dot };
                let op = match (splices.is_empty(), dot) {
                    (true, None) => continue,
                    (true, Some(dot)) => BufferOp::Select(dot),
                    (false, dot) => BufferOp::Edit {
                        splices: splices.into(),
                        group,
                        dot,
                    },
                };
                self.append_buffer(id, op).map_err(refused)?;
            }
        }
        Ok(())
    }

    fn carried_part(&self, part: Rewrite) -> Result<(BufferId, Vec<Splice>, Option<Dot>), Refusal> {
        let id = part.buffer;
        if !self.leads(Shard::Buffer(id)) {
            return Err(Refusal::Retry(String::from("the leader is changing")));
        }
        let (base, splices) = (part.base, part.splices);
        let splices = self.carried(id, Planned { base, splices })?;
        let buffer = self.state.buffer(id);
        let is_newest = buffer.is_some_and(|buffer| buffer.version() == base);
        let is_shown = |dot: &Dot| buffer.is_some_and(|buffer| buffer.view(dot.view).is_some());
        let dot = part.dot.filter(|dot| is_newest && is_shown(dot));
        Ok((id, splices, dot))
    }
}
