//! Hashes of the state at the cost of what changed, so that checking replicas can stay on.
//!
//! 1. A shard without new entries is not hashed again.
//! 2. A buffer is hashed from what is kept of its last hash, and the changes that the node keeps
//!    anyway, to carry proposals: typing itself pays nothing.
//! 3. Some things are read again although little of them changed: annotations, a long group of
//!    undo, the metalog of many shards. [`Node::hash_cost`] counts them, for whoever says when to
//!    hash.

use super::Node;
use crate::buffer::Buffer;
use crate::buffer::hash::BufferHash;
use crate::ids::{BufferId, Seq, Shard};

/// Bytes that an object of a shard is taken for: a lease, a window in the layout.
const OBJECT_LEN: u64 = 64;
/// Bytes that a terminal is taken for: its scrollback is not counted anywhere.
const TERM_LEN: u64 = 1 << 20;

impl Node {
    /// Returns the hash of a shard as [`crate::state::State::shard_hash`] does, at the cost of what
    /// changed since this was asked last.
    pub fn shard_hash(&mut self, shard: Shard) -> [u8; 32] {
        let seq = self.state.applied(shard).unwrap_or_default();
        if let Some((_, hash)) = self.hashes.get(&shard).filter(|(known, _)| *known == seq) {
            return *hash;
        }
        let hash = match shard {
            Shard::Buffer(id) => {
                let hashed = self.keep_up(id, BufferHash::hash);
                hashed.unwrap_or_else(|| self.state.short_hash(shard))
            }
            Shard::Meta | Shard::Layout | Shard::Window(_) | Shard::Term(_) => {
                self.state.short_hash(shard)
            }
        };
        self.hashes.insert(shard, (seq, hash));
        hash
    }

    /// Returns about how many bytes the next hash of a shard reads. Costs the entries since it was
    /// hashed or asked for.
    pub fn hash_cost(&mut self, shard: Shard) -> u64 {
        let seq = self.state.applied(shard).unwrap_or_default();
        if self
            .hashes
            .get(&shard)
            .is_some_and(|(known, _)| *known == seq)
        {
            return 0;
        }
        let cost = |known: &mut BufferHash, buffer: &Buffer| known.cost(buffer);
        match shard {
            Shard::Buffer(id) => self.keep_up(id, cost).unwrap_or(0),
            Shard::Meta | Shard::Layout => self.state.shard_count() * OBJECT_LEN,
            Shard::Window(_) => OBJECT_LEN,
            Shard::Term(_) => TERM_LEN,
        }
    }

    /// Reads about `len` bytes of a shard ahead of its next hash, for a quiet moment: the first
    /// hash of a long text reads all of it. Returns whether nothing is left to read.
    pub fn prepare_hash(&mut self, shard: Shard, len: u64) -> bool {
        let Shard::Buffer(id) = shard else {
            return true;
        };
        let read = |known: &mut BufferHash, buffer: &Buffer| known.read(buffer, len);
        self.keep_up(id, read).unwrap_or(true)
    }

    /// Brings what is kept of a buffer in step with its text, and does something with both; none
    /// when there is no such buffer.
    fn keep_up<T>(
        &mut self,
        id: BufferId,
        act: impl FnOnce(&mut BufferHash, &Buffer) -> T,
    ) -> Option<T> {
        let kept = self.buffer_hashes.remove(&id);
        let buffer = self.state.buffer(id)?;
        let changes = |known: &BufferHash| self.changes_since(id, known.version());
        let mut known = match kept.and_then(|known| Some((changes(&known)?, known))) {
            Some((changes, mut known)) => {
                changes.into_iter().for_each(|splices| known.note(splices));
                known
            }
            None => BufferHash::new(buffer),
        };
        let acted = act(&mut known, buffer);
        self.buffer_hashes.insert(id, known);
        Some(acted)
    }

    /// Forgets the hashes of a shard that ended.
    pub(super) fn forget_hash(&mut self, shard: Shard) {
        self.hashes.remove(&shard);
        if let Shard::Buffer(id) = shard {
            self.buffer_hashes.remove(&id);
        }
    }
}

/// The last hash of a shard, and the entry at which it was.
pub(super) type Hashed = (Seq, [u8; 32]);
