//! Hashes of the state, per shard and over all of them, to find replicas that differ.

use alloc::vec::Vec;

use postcard::ser_flavors::Flavor;
use serde::Serialize;

use super::State;
use crate::entry::APPLY_VERSION;
use crate::ids::{Seq, Shard};

/// Bytes gathered before the hash function sees them.
const GATHERED_LEN: usize = 16 << 10;

/// Feeds an encoding to blake3 instead of to memory.
struct HashFlavor {
    hasher: blake3::Hasher,
    gathered: Vec<u8>,
}

impl HashFlavor {
    fn new() -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&APPLY_VERSION.to_le_bytes());
        Self {
            hasher,
            gathered: Vec::with_capacity(GATHERED_LEN),
        }
    }

    fn pass_on(&mut self) {
        self.hasher.update(&self.gathered);
        self.gathered.clear();
    }
}

impl Flavor for HashFlavor {
    type Output = [u8; 32];

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.gathered.push(byte);
        if self.gathered.len() >= GATHERED_LEN {
            self.pass_on();
        }
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        if bytes.len() >= GATHERED_LEN {
            self.pass_on();
            self.hasher.update(bytes);
        } else {
            self.gathered.extend_from_slice(bytes);
            if self.gathered.len() >= GATHERED_LEN {
                self.pass_on();
            }
        }
        Ok(())
    }

    fn finalize(mut self) -> postcard::Result<[u8; 32]> {
        self.pass_on();
        Ok(*self.hasher.finalize().as_bytes())
    }
}

fn hash_of<T: Serialize>(value: &T) -> [u8; 32] {
    postcard::serialize_with_flavor(value, HashFlavor::new()).expect("a state always encodes")
}

impl State {
    /// Returns the hash of one shard's part, the version of `apply` mixed in. Costs its size.
    #[must_use]
    pub fn shard_hash(&self, shard: Shard) -> [u8; 32] {
        match shard {
            Shard::Meta => hash_of(&self.meta),
            Shard::Layout => hash_of(&self.layout),
            Shard::Buffer(id) => hash_of(&self.buffers.get(&id)),
            Shard::Window(id) => hash_of(&self.windows.get(&id)),
            Shard::Term(id) => hash_of(&self.terms.get(&id)),
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
