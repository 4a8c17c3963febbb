//! Hash marks on the authority's side: leaders are checked against SERVER's replay of their
//! entries, and what it computed goes to all who follow.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Authority, Output};
use crate::bytes::Bytes;
use crate::ids::{ConnectionId, Millis, Shard};
use crate::limits;
use crate::message::ShardHash;
use crate::node::marks::{Divergence, hash_of};

impl Authority {
    /// Takes what a leader computed of its shards. One that the entries since the last mark do not
    /// pay for is passed over, as is one of entries that were refused.
    pub(super) fn take_marks(
        &mut self,
        connection: ConnectionId,
        marks: Vec<ShardHash>,
        out: &mut Vec<Output>,
    ) {
        let Some(from) = self.attachment_of(connection) else {
            return;
        };
        let (mut same, mut other) = (Vec::new(), Vec::new());
        for theirs in marks {
            let shard = theirs.shard;
            let is_here = self.node.state().applied(shard) == Some(theirs.seq);
            let is_leader = self.node.log().is_held_by(shard, from);
            if !is_here || !is_leader || !self.pace.pays(self.node.state(), shard) {
                continue;
            }
            let Some(ours) = hash_of(&self.node, shard) else {
                continue;
            };
            self.pace.clear(shard);
            if ours == theirs {
                same.push(ours);
                continue;
            }
            if self.diverged.insert(shard) {
                let divergence = self.divergence(ours.clone(), theirs);
                out.push(Output::Diverged(Box::new(divergence)));
            }
            other.push(ours);
        }
        for (except, marks) in [(Some(connection), same), (None, other)] {
            if !marks.is_empty() {
                out.push(Output::Marks { except, marks });
            }
        }
    }

    fn divergence(&self, ours: ShardHash, theirs: ShardHash) -> Divergence {
        Divergence {
            of: self.node.attachment(),
            tail: self.tail(ours.shard),
            snapshot: self.node.state().shard_snapshot(ours.shard),
            ours,
            theirs,
        }
    }

    /// Returns the last entries of a shard.
    fn tail(&self, shard: Shard) -> Vec<Bytes> {
        let head = self.node.log().mark(shard).map_or(0, |mark| mark.seq.raw());
        let after = head.saturating_sub(limits::DIVERGED_TAIL_COUNT_MAX as u64);
        let mut tail: Vec<Bytes> = self
            .node
            .log()
            .after(shard, crate::ids::Seq::new(after))
            .map(|record| record.bytes.clone())
            .collect();
        let mut len = 0;
        let is_within = |bytes: &&Bytes| {
            len += bytes.len();
            len <= limits::DIVERGED_TAIL_LEN_MAX
        };
        let count = tail.iter().rev().take_while(is_within).count();
        tail.split_off(tail.len() - count)
    }

    /// Begins to wait anew: somebody appended.
    pub(super) fn wait_for_quiet(&mut self, now: Millis) {
        if self.followers().next().is_none() {
            // What nobody else computed is in the snapshot of whoever comes.
            self.pace.clear_all();
        }
        let is_clear = self.pace.is_clear();
        self.quiet_at = (!is_clear).then(|| now.after(limits::MARK_QUIET_MS));
    }

    /// Marks what changed, once nobody has appended for a while.
    pub(super) fn mark_quiet(&mut self, now: Millis, out: &mut Vec<Output>) {
        if self.quiet_at.is_some_and(|at| at <= now) {
            self.mark_some(out);
            self.wait_for_quiet(now);
        }
    }

    /// Marks what changed, as far as one moment allows.
    pub(in crate::node) fn mark_some(&mut self, out: &mut Vec<Output>) {
        let marks = self.pace.quiet(&self.node);
        if !marks.is_empty() {
            let except = None;
            out.push(Output::Marks { except, marks });
        }
    }
}
