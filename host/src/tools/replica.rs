//! The tool host's own replica of a session, and the backlog of each tool that follows it.
//!
//! 1. The replica replays the published records through the core itself: its hash is computed
//!    from nothing that the daemon computed.
//! 2. It cuts what it applied into chunks, each with the state after it, so that a tool that is
//!    slower than its neighbours still reads exactly the state of what it was told.
//! 3. A backlog never makes the replica wait. At its cap everything in it is forgotten, and the
//!    tool goes on from the newest state with a `reset`.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};

use apex_core::entry::ChainHash;
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
    pub told: Vec<Told>,
    /// The state after them.
    pub state: Arc<State>,
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
        Self {
            state: snapshot,
            chains: marks.iter().map(|mark| (mark.shard, mark.chain)).collect(),
            count: 0,
        }
    }

    /// Counts entries on from those that were applied to an earlier replica of the session.
    pub const fn count_from(&mut self, count: u64) {
        self.count = count;
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

    /// Applies records in order and returns them as tools are told of them, in chunks of one batch
    /// at most.
    ///
    /// # Errors
    /// The first record that does not follow from what came before. What came before it is lost to
    /// the tools: the replica must begin again.
    pub fn apply(
        &mut self,
        records: impl IntoIterator<Item: Borrow<Arc<Record>>>,
    ) -> Result<Vec<Arc<Chunk>>, ReplicaError> {
        let mut chunks = Vec::new();
        let (mut told, mut len) = (Vec::new(), 0);
        for record in records {
            let next = self.apply_one(record.borrow())?;
            len += next.bytes_len();
            told.push(next);
            if told.len() == limits::BATCH_COUNT_MAX || len >= limits::BATCH_LEN_MAX {
                chunks.push(self.chunk(std::mem::take(&mut told), std::mem::take(&mut len)));
            }
        }
        if !told.is_empty() {
            chunks.push(self.chunk(told, len));
        }
        Ok(chunks)
    }

    fn chunk(&mut self, told: Vec<Told>, len: usize) -> Arc<Chunk> {
        self.count += told.len() as u64;
        Arc::new(Chunk {
            told,
            state: Arc::new(self.state.clone()),
            upto: self.count,
            len,
        })
    }

    fn apply_one(&mut self, record: &Arc<Record>) -> Result<Told, ReplicaError> {
        let (shard, seq) = (record.shard, record.entry.seq);
        let effect = self.state.apply(shard, &record.entry);
        let effect = effect.map_err(|error| ReplicaError::Apply(shard, seq, error))?;
        let chain = self.chains.entry(shard).or_default();
        *chain = chain.extend(&record.bytes);
        if *chain != record.chain {
            return Err(ReplicaError::Chain(shard, seq));
        }
        let told = Told::new(record, (&effect, &self.state));
        if let Some(gone) = told.gone() {
            self.chains.remove(&gone);
        }
        Ok(told)
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
#[derive(Debug, Default)]
pub struct Backlog {
    inner: Mutex<Waiting>,
    bell: Notify,
    /// Rung once, when the replica is there.
    begun: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    chunks: VecDeque<Arc<Chunk>>,
    count: usize,
    len: usize,
    /// Where it began, once it did.
    start: Option<(Arc<State>, u64)>,
    newest: Option<(Arc<State>, u64)>,
    /// Something was forgotten since the last look.
    is_lost: bool,
    /// Nobody takes anything any more.
    is_closed: bool,
}

/// What comes next for a tool.
#[derive(Clone, Debug)]
pub enum Next {
    /// These entries, and the state after them.
    Entries(Batch),
    /// Entries were forgotten: go on from this state.
    Lost {
        /// The newest state.
        state: Arc<State>,
        /// How many entries came until here.
        upto: u64,
    },
}

/// Entries to tell in one call.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The entries, in order; never empty.
    chunks: Vec<Arc<Chunk>>,
    /// The state after them.
    pub state: Arc<State>,
    /// How many entries came until here.
    pub upto: u64,
}

impl Batch {
    fn new(first: Arc<Chunk>) -> Self {
        Self {
            state: Arc::clone(&first.state),
            upto: first.upto,
            chunks: vec![first],
        }
    }

    /// Returns the entries, in order.
    pub fn told(&self) -> impl Iterator<Item = &Told> {
        self.chunks.iter().flat_map(|chunk| &chunk.told)
    }

    /// Returns how many entries there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.told.len()).sum()
    }
}

impl Backlog {
    /// Begins here, or forgets everything and goes on here: the replica began again.
    pub fn begin(&self, replica: &Replica) {
        let mut waiting = lock(&self.inner);
        let here = (Arc::new(replica.state().clone()), replica.count());
        waiting.newest = Some(here.clone());
        if waiting.start.is_none() {
            waiting.start = Some(here);
        } else {
            waiting.forget();
        }
        drop(waiting);
        self.begun.notify_one();
        self.bell.notify_one();
    }

    /// Waits until it begins; returns the state before its first entry and the count of entries
    /// there. For the one who takes from it.
    pub async fn start(&self) -> (Arc<State>, u64) {
        loop {
            if let Some(start) = lock(&self.inner).start.clone() {
                return start;
            }
            self.begun.notified().await;
        }
    }

    /// Adds chunks. Never waits; at the cap everything that waits is forgotten.
    pub fn push(&self, chunks: &[Arc<Chunk>]) {
        let mut waiting = lock(&self.inner);
        if waiting.start.is_none() || waiting.is_closed {
            return;
        }
        for chunk in chunks {
            waiting.push(chunk);
        }
        drop(waiting);
        self.bell.notify_one();
    }

    /// Takes no more: the tool has left or is given up.
    pub fn close(&self) {
        let mut waiting = lock(&self.inner);
        *waiting = Waiting {
            is_closed: true,
            ..Waiting::default()
        };
    }

    /// Returns whether it takes no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        lock(&self.inner).is_closed
    }

    /// Takes what comes next, at most one batch.
    #[must_use]
    pub fn take(&self) -> Option<Next> {
        let mut waiting = lock(&self.inner);
        if waiting.is_lost {
            waiting.is_lost = false;
            let (state, upto) = waiting.newest.clone()?;
            return Some(Next::Lost { state, upto });
        }
        let first = waiting.pop()?;
        let (mut count, mut len) = (first.told.len(), first.len);
        let mut batch = Batch::new(first);
        while let Some(next) = waiting.chunks.front() {
            count += next.told.len();
            len += next.len;
            if count > limits::BATCH_COUNT_MAX || len > limits::BATCH_LEN_MAX {
                break;
            }
            let Some(next) = waiting.pop() else { break };
            (batch.state, batch.upto) = (Arc::clone(&next.state), next.upto);
            batch.chunks.push(next);
        }
        Some(Next::Entries(batch))
    }

    /// Waits until something is there that was not there at the last call.
    pub async fn wait(&self) {
        self.bell.notified().await;
    }
}

impl Waiting {
    fn push(&mut self, chunk: &Arc<Chunk>) {
        self.newest = Some((Arc::clone(&chunk.state), chunk.upto));
        if self.is_lost {
            return;
        }
        self.count += chunk.told.len();
        self.len += chunk.len;
        if self.count > limits::BACKLOG_COUNT_MAX || self.len > limits::BACKLOG_LEN_MAX {
            self.forget();
        } else {
            self.chunks.push_back(Arc::clone(chunk));
        }
    }

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
