//! What others appended while a fresh snapshot was on its way: it is in the snapshot, and told
//! nevertheless, because it moves the selections of whoever waits.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::bytes::Bytes;
use crate::entry::ChainHash;
use crate::ids::{Seq, Shard};
use crate::limits;
use crate::log::Record;
use crate::node::Node;
use crate::wire;

/// Entries that were not applied, bounded in bytes.
#[derive(Debug)]
pub(super) struct Missed {
    entries: Vec<(Shard, Bytes)>,
    len: usize,
}

impl Missed {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            len: 0,
        }
    }

    /// Keeps an entry. Past the limit none is kept: positions then stay where they are.
    pub(super) fn push(&mut self, shard: Shard, bytes: &Bytes) {
        self.len += bytes.len();
        if self.len > limits::MISSED_LEN_MAX {
            self.entries = Vec::new();
        } else {
            self.entries.push((shard, bytes.clone()));
        }
    }

    /// Returns the entries behind those of the old node that the fresh one has, with the chain
    /// hashes that both know.
    pub(super) fn records(self, old: &Node, fresh: &Node) -> Vec<Arc<Record>> {
        let mut chains: BTreeMap<Shard, (Seq, ChainHash)> = BTreeMap::new();
        let mut records = Vec::new();
        for (shard, bytes) in self.entries {
            let Ok(entry) = wire::decode_entry(&bytes) else {
                continue;
            };
            let before = Seq::new(entry.seq.raw().saturating_sub(1));
            let known = chains.get(&shard).filter(|(seq, _)| *seq == before);
            let chain = known.map(|(_, chain)| *chain).or_else(|| {
                let is_first = before == Seq::default();
                let own = old.log().chain_at(shard, before);
                own.or_else(|| is_first.then(ChainHash::default))
            });
            let is_there = fresh.state().applied(shard) >= Some(entry.seq);
            let Some(chain) = chain.filter(|_| is_there) else {
                continue;
            };
            let (seq, chain) = (entry.seq, chain.extend(&bytes));
            chains.insert(shard, (seq, chain));
            records.push(Arc::new(Record {
                shard,
                entry,
                bytes,
                chain,
            }));
        }
        records
    }
}
