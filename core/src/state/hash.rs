//! Hashes of the state, per shard and over all of them, to find replicas that differ.

use alloc::vec::Vec;

use super::State;
use crate::buffer::hash::BufferHash;
use crate::canary::{self, Canary};
use crate::encoding::hash_of;
use crate::ids::{Seq, Shard};

impl State {
    /// Returns the hash of one shard's part, the version of `apply` mixed in. Costs its size; who
    /// asks again and again asks [`crate::node::Node::shard_hash`].
    #[must_use]
    pub fn shard_hash(&self, shard: Shard) -> [u8; 32] {
        match shard {
            Shard::Buffer(id) => match self.buffer(id) {
                Some(buffer) => BufferHash::new(buffer).hash(buffer),
                None => hash_of(&()),
            },
            Shard::Meta | Shard::Layout | Shard::Window(_) | Shard::Term(_) => {
                self.short_hash(shard)
            }
        }
    }

    /// Returns the hash of a shard that is no buffer.
    pub(crate) fn short_hash(&self, shard: Shard) -> [u8; 32] {
        if canary::is_on(Canary::HashByAddress) {
            return [u8::from(core::ptr::from_ref(self).addr() & 64 != 0); 32];
        }
        match shard {
            Shard::Meta => hash_of(&self.meta),
            Shard::Layout => hash_of(&self.layout),
            Shard::Window(id) => hash_of(&self.windows.get(&id)),
            Shard::Term(id) => hash_of(&self.terms.get(&id)),
            Shard::Buffer(_) => hash_of(&()),
        }
    }

    /// Returns the hash over all shards, their applied entries included.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        let parts: Vec<_> = self
            .marks()
            .map(|(shard, seq)| (shard, seq, self.shard_hash(shard)))
            .collect();
        combine(&parts)
    }
}

/// Returns the hash over all shards from the parts: shard, last applied entry and hash, in order.
#[must_use]
pub fn combine(parts: &[(Shard, Seq, [u8; 32])]) -> [u8; 32] {
    hash_of(&parts)
}
