//! The tool host's own replica of a session, and the backlog of each tool that follows it.
//!
//! 1. The replica replays the published records through the core itself: its hash is computed
//!    from nothing that the daemon computed.
//! 2. It cuts what it applied into chunks, each with the state after it, so that a tool that is
//!    slower than its neighbours still reads exactly the state of what it was told.
//! 3. A backlog never makes the replica wait. At its cap everything in it is forgotten, and the
//!    tool goes on from the newest state with a `reset`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};

use apex_core::entry::{ChainHash, MetaOp, Op};
use apex_core::ids::{Seq, Shard};
use apex_core::log::Record;
use apex_core::message::{Mark, ShardHash};
use apex_core::state::{ApplyError, State};
use tokio::sync::Notify;

use super::events::Told;
use super::limits;
use super::lock::lock;

/// A session as the tool host computes it.
#[derive(Debug)]
pub struct Replica {
    state: State,
    chains: BTreeMap<Shard, ChainHash>,
    /// Entries applied since the session came to be known.
    count: u64,
}

/// Some entries and the state right after them.
#[derive(Debug)]
pub struct Chunk {
    /// The entries, in order.
    pub told: Vec<Arc<Told>>,
    /// The state after them.
    pub state: State,
    /// How many entries came until here.
    pub upto: u64,
    len: usize,
}

/// Why a replica cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaError {
    /// An entry does not apply.
    Apply(Shard, Seq, ApplyError),
    /// The chain hash of the record is not the one computed here.
    Chain(Shard, Seq),
}

impl fmt::Display for ReplicaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply(shard, seq, error) => write!(f, "entry {seq} of {shard}: {error}"),
            Self::Chain(shard, seq) => {
                write!(
                    f,
                    "entry {seq} of {shard}: its chain hash is another one here"
                )
            }
        }
    }
}

impl std::error::Error for ReplicaError {}

impl Replica {
    /// Returns a replica that begins with a snapshot.
    #[must_use]
    pub fn new(snapshot: State, marks: &[Mark]) -> Self {
        let chains = marks.iter().map(|mark| (mark.shard, mark.chain)).collect();
        Self {
            state: snapshot,
            chains,
            count: 0,
        }
    }

    /// Begins again with a newer snapshot, the count of entries going on.
    pub fn restart(&mut self, snapshot: State, marks: &[Mark]) {
        *self = Self {
            count: self.count,
            ..Self::new(snapshot, marks)
        };
    }

    /// Returns the state.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns how many entries have been applied.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Applies records in order and returns them as tools are told of them.
    ///
    /// # Errors
    /// The first record that does not follow from what came before. What came before it is lost to
    /// the tools: the replica must begin again.
    pub fn apply(&mut self, records: &[Arc<Record>]) -> Result<Vec<Arc<Chunk>>, ReplicaError> {
        let mut chunks = Vec::with_capacity(records.len().div_ceil(limits::BATCH_COUNT_MAX));
        for records in records.chunks(limits::BATCH_COUNT_MAX) {
            let told = records.iter().map(|record| self.apply_one(record));
            let told = told.collect::<Result<Vec<_>, _>>()?;
            self.count += told.len() as u64;
            let len = told.iter().map(|told| told.len).sum();
            chunks.push(Arc::new(Chunk {
                told,
                state: self.state.clone(),
                upto: self.count,
                len,
            }));
        }
        Ok(chunks)
    }

    fn apply_one(&mut self, record: &Record) -> Result<Arc<Told>, ReplicaError> {
        let (shard, seq) = (record.shard, record.entry.seq);
        let effect = self.state.apply(shard, &record.entry);
        let effect = effect.map_err(|error| ReplicaError::Apply(shard, seq, error))?;
        let chain = self.chains.entry(shard).or_default();
        *chain = chain.extend(&record.bytes.0);
        if *chain != record.chain {
            return Err(ReplicaError::Chain(shard, seq));
        }
        if let Op::Meta(MetaOp::ShardDel(gone)) = &record.entry.op {
            self.chains.remove(gone);
        }
        Ok(Arc::new(Told::new(record, &effect, &self.state)))
    }

    /// Returns what this replica computed of each shard, in order.
    #[must_use]
    pub fn hashes(&self) -> Vec<ShardHash> {
        let hash = |(shard, seq)| ShardHash {
            shard,
            seq,
            chain: self.chains.get(&shard).copied().unwrap_or_default(),
            state: self.state.shard_hash(shard),
        };
        self.state.marks().map(hash).collect()
    }
}

/// What waits for one tool in one session.
#[derive(Debug)]
pub struct Backlog {
    inner: Mutex<Waiting>,
    bell: Notify,
}

#[derive(Debug)]
struct Waiting {
    chunks: VecDeque<Arc<Chunk>>,
    count: usize,
    len: usize,
    /// Where it began.
    start: (State, u64),
    newest: (State, u64),
    /// Something was forgotten since the last look.
    is_lost: bool,
}

/// What comes next for a tool.
#[derive(Clone, Debug)]
pub enum Next {
    /// These entries, and the state after them.
    Entries(Batch),
    /// Entries were forgotten: go on from this state.
    Lost {
        /// The newest state.
        state: State,
        /// How many entries came until here.
        upto: u64,
    },
}

/// Entries to tell in one call.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The entries, in order.
    pub told: Vec<Arc<Told>>,
    /// The state after them.
    pub state: State,
    /// How many entries came until here.
    pub upto: u64,
}

impl Backlog {
    /// Returns an empty backlog that begins here.
    #[must_use]
    pub fn new(replica: &Replica) -> Self {
        Self {
            inner: Mutex::new(Waiting {
                chunks: VecDeque::new(),
                count: 0,
                len: 0,
                start: (replica.state().clone(), replica.count()),
                newest: (replica.state().clone(), replica.count()),
                is_lost: false,
            }),
            bell: Notify::new(),
        }
    }

    /// Returns the state before the first entry in it, and the count of entries there.
    #[must_use]
    pub fn start(&self) -> (State, u64) {
        lock(&self.inner).start.clone()
    }

    /// Adds a chunk. Never waits; at the cap everything that waits is forgotten.
    pub fn push(&self, chunk: &Arc<Chunk>) {
        let mut waiting = lock(&self.inner);
        waiting.newest = (chunk.state.clone(), chunk.upto);
        if waiting.is_lost {
            return;
        }
        waiting.count += chunk.told.len();
        waiting.len += chunk.len;
        if waiting.count > limits::BACKLOG_COUNT_MAX || waiting.len > limits::BACKLOG_LEN_MAX {
            waiting.forget();
        } else {
            waiting.chunks.push_back(Arc::clone(chunk));
        }
        drop(waiting);
        self.bell.notify_one();
    }

    /// Forgets everything: the replica began again.
    pub fn lose(&self, replica: &Replica) {
        let mut waiting = lock(&self.inner);
        waiting.newest = (replica.state().clone(), replica.count());
        waiting.forget();
        drop(waiting);
        self.bell.notify_one();
    }

    /// Takes what comes next, at most one batch.
    #[must_use]
    pub fn take(&self) -> Option<Next> {
        let mut waiting = lock(&self.inner);
        if waiting.is_lost {
            waiting.is_lost = false;
            let (state, upto) = waiting.newest.clone();
            return Some(Next::Lost { state, upto });
        }
        let first = waiting.pop()?;
        let mut batch = Batch {
            told: first.told.clone(),
            state: first.state.clone(),
            upto: first.upto,
        };
        let mut len = first.len;
        while let Some(next) = waiting.chunks.front() {
            len += next.len;
            if batch.told.len() + next.told.len() > limits::BATCH_COUNT_MAX
                || len > limits::BATCH_LEN_MAX
            {
                break;
            }
            let Some(next) = waiting.pop() else { break };
            batch.told.extend_from_slice(&next.told);
            (batch.state, batch.upto) = (next.state.clone(), next.upto);
        }
        Some(Next::Entries(batch))
    }

    /// Waits until something is there that was not there at the last call.
    pub async fn wait(&self) {
        self.bell.notified().await;
    }
}

impl Waiting {
    fn forget(&mut self) {
        self.chunks.clear();
        (self.count, self.len) = (0, 0);
        self.is_lost = true;
    }

    fn pop(&mut self) -> Option<Arc<Chunk>> {
        let chunk = self.chunks.pop_front()?;
        self.count -= chunk.told.len();
        self.len -= chunk.len;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests;
