//! Hash marks: what one party computed of a shard at an entry, for the others to compare.
//!
//! 1. A hash costs what the shard holds, so a mark is taken when the entries since the last one pay
//!    for it; and once a session is quiet, of what changed. A shard that is too large has none.
//! 2. The daemon's replica is the reference: it replays the log, which is the truth. Its leader is
//!    checked against it like everybody else.
//! 3. Marks compare states of the same entries. A leader that was overtaken and does not know it
//!    yet has other entries: that is no divergence.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::Node;
use crate::bytes::Bytes;
use crate::ids::{AttachmentId, Shard};
use crate::limits;
use crate::log::Record;
use crate::message::ShardHash;
use crate::state::State;

/// Bytes that an object of a shard is taken for: a span of annotations, a lease, a window.
const OBJECT_LEN: u64 = 64;

/// Two parties that computed different states of the same entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Whose replica `ours` and the snapshot are of.
    pub of: AttachmentId,
    /// What this party computed.
    pub ours: ShardHash,
    /// What the other party computed.
    pub theirs: ShardHash,
    /// The shard's part of this party's state, by [`State::shard_snapshot`].
    pub snapshot: Vec<u8>,
    /// The last entries up to there that are kept, in order; at most
    /// [`limits::DIVERGED_TAIL_COUNT_MAX`].
    pub tail: Vec<Bytes>,
}

impl Divergence {
    /// Returns it as the bytes of a file: lines for people, an empty line, then the snapshot and
    /// the entries of the tail, each with the lengths that the lines give.
    #[must_use]
    pub fn to_file(&self) -> Vec<u8> {
        let mut head = String::from("apex diverged 1\n");
        let apply = crate::entry::APPLY_VERSION;
        let lens: Vec<_> = self.tail.iter().map(|bytes| bytes.len()).collect();
        // Writing to a string does not fail.
        let _ = write!(
            head,
            "apply {apply}\nshard {}\nseq {}\nattachment {}\n",
            self.ours.shard, self.ours.seq, self.of
        );
        for (whose, hash) in [("ours", &self.ours), ("theirs", &self.theirs)] {
            let _ = write!(head, "{whose} chain {} state ", hash.chain);
            for byte in hash.state {
                let _ = write!(head, "{byte:02x}");
            }
            head.push('\n');
        }
        let _ = write!(head, "snapshot {}\ntail {lens:?}\n\n", self.snapshot.len());
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.snapshot);
        self.tail
            .iter()
            .for_each(|tail| bytes.extend_from_slice(tail));
        bytes
    }
}

/// Returns what a node computed of a shard, where its log stands.
#[must_use]
pub fn hash_of(node: &Node, shard: Shard) -> Option<ShardHash> {
    let mark = node.log().mark(shard)?;
    Some(ShardHash {
        shard,
        seq: mark.seq,
        chain: mark.chain,
        state: node.state().shard_hash(shard),
    })
}

/// Returns about how many bytes a hash of a shard reads.
fn weight(state: &State, shard: Shard) -> u64 {
    match shard {
        Shard::Buffer(id) => state.buffer(id).map_or(0, |buffer| {
            let spans = buffer.layers().map(|(_, _, spans)| spans.count() as u64);
            buffer.text().len_bytes() + buffer.undo_len() + spans.sum::<u64>() * OBJECT_LEN
        }),
        Shard::Meta | Shard::Layout => state.shard_count() * OBJECT_LEN,
        Shard::Window(_) => OBJECT_LEN,
        // Its screen and its scrollback are not counted anywhere.
        Shard::Term(_) => limits::MARK_LEN_MAX,
    }
}

/// What was appended to a shard since its last mark.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    count: u64,
    len: u64,
}

/// When marks are taken.
#[derive(Debug, Default)]
pub(super) struct Pace {
    work: BTreeMap<Shard, Work>,
}

impl Pace {
    pub(super) const fn new() -> Self {
        Self {
            work: BTreeMap::new(),
        }
    }

    /// Counts an entry.
    pub(super) fn note(&mut self, shard: Shard, len: usize) {
        let work = self.work.entry(shard).or_default();
        work.count += 1;
        work.len += len as u64;
    }

    /// Forgets what led to a mark.
    pub(super) fn clear(&mut self, shard: Shard) {
        self.work.remove(&shard);
    }

    pub(super) fn clear_all(&mut self) {
        self.work.clear();
    }

    pub(super) fn is_clear(&self) -> bool {
        self.work.is_empty()
    }

    /// Returns whether the entries of a shard since its last mark pay for one.
    pub(super) fn pays(&self, state: &State, shard: Shard) -> bool {
        let Some(work) = self.work.get(&shard) else {
            return false;
        };
        let earned = work.count * limits::MARK_EARNED_LEN + work.len / 4;
        work.count >= limits::MARK_COUNT_MIN
            && earned >= weight(state, shard)
            && weight(state, shard) <= limits::MARK_LEN_MAX
    }

    /// Takes the marks of those of these shards whose entries pay for one.
    pub(super) fn due(
        &mut self,
        node: &Node,
        shards: impl IntoIterator<Item = Shard>,
    ) -> Vec<ShardHash> {
        let mut marks = Vec::new();
        for shard in shards {
            if self.pays(node.state(), shard) {
                self.clear(shard);
                marks.extend(hash_of(node, shard));
            }
        }
        marks
    }

    /// Takes the marks of what changed, as far as one moment allows; call again for the rest.
    pub(super) fn quiet(&mut self, node: &Node) -> Vec<ShardHash> {
        let mut marks = Vec::new();
        let mut len = 0;
        while len < limits::MARK_LEN_MAX
            && let Some((shard, _)) = self.work.pop_first()
        {
            let weight = weight(node.state(), shard);
            if weight <= limits::MARK_LEN_MAX {
                len += weight.max(OBJECT_LEN);
                marks.extend(hash_of(node, shard));
            }
        }
        marks
    }
}

/// How the marks of others are checked by a client.
#[derive(Debug, Default)]
pub(super) struct Checker {
    /// Marks of entries that are not here yet: the newest of each shard.
    waiting: BTreeMap<Shard, ShardHash>,
    /// What this client, leading, told of each shard last.
    told: BTreeMap<Shard, ShardHash>,
    /// How often each shard diverged.
    diverged: BTreeMap<Shard, u32>,
    /// The last entries of others.
    tail: VecDeque<(Shard, Bytes)>,
    tail_len: usize,
}

impl Checker {
    pub(super) const fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            told: BTreeMap::new(),
            diverged: BTreeMap::new(),
            tail: VecDeque::new(),
            tail_len: 0,
        }
    }

    /// Remembers what this client told of shards that it leads.
    pub(super) fn tell(&mut self, marks: &[ShardHash]) {
        for mark in marks {
            self.told.insert(mark.shard, mark.clone());
        }
    }

    /// Remembers an entry of others. Returns the mark that waited for it.
    pub(super) fn follow(&mut self, record: &Record) -> Option<ShardHash> {
        self.tail_len += record.bytes.len();
        self.tail.push_back((record.shard, record.bytes.clone()));
        while (self.tail.len() > limits::DIVERGED_TAIL_COUNT_MAX
            || self.tail_len > limits::DIVERGED_TAIL_LEN_MAX)
            && let Some((_, bytes)) = self.tail.pop_front()
        {
            self.tail_len -= bytes.len();
        }
        let mark = self.waiting.get(&record.shard)?;
        if mark.seq > record.entry.seq {
            return None;
        }
        let mark = self.waiting.remove(&record.shard);
        mark.filter(|mark| mark.seq == record.entry.seq)
    }

    /// Compares a mark of the daemon with the replica, now or once the replica is there; one that
    /// the replica has passed only with what was told of that entry. `is_settled` says whether the
    /// replica has no entries of its own up to there that the daemon may have refused.
    pub(super) fn check(
        &mut self,
        node: &Node,
        theirs: ShardHash,
        is_settled: bool,
    ) -> Option<Verdict> {
        let shard = theirs.shard;
        let seq = node.state().applied(shard)?;
        if self.is_given_up(shard) {
            return None;
        }
        if seq < theirs.seq {
            self.waiting.insert(shard, theirs);
            return None;
        }
        let ours = if seq == theirs.seq {
            let chain = node.log().mark(shard)?.chain;
            if chain != theirs.chain && !is_settled {
                return None;
            }
            hash_of(node, shard)?
        } else {
            let told = self.told.get(&shard);
            told.filter(|told| told.seq == theirs.seq && told.chain == theirs.chain)?
                .clone()
        };
        if ours == theirs {
            return None;
        }
        let count = self.diverged.entry(shard).or_default();
        *count += 1;
        let is_first = *count == 1;
        let tail = self.tail.iter().filter(|(of, _)| *of == shard);
        let divergence = Divergence {
            of: node.attachment(),
            ours,
            theirs,
            snapshot: node.state().shard_snapshot(shard),
            tail: tail.map(|(_, bytes)| bytes.clone()).collect(),
        };
        Some(Verdict(is_first.then(|| Box::new(divergence))))
    }

    /// Returns whether fresh snapshots did not help: the shard is not checked any more.
    fn is_given_up(&self, shard: Shard) -> bool {
        let count = self.diverged.get(&shard).copied();
        count.is_some_and(|count| count >= limits::DIVERGED_COUNT_MAX)
    }

    /// Goes on at a fresh snapshot.
    pub(super) fn restart(&mut self, state: &State) {
        self.waiting
            .retain(|shard, mark| state.applied(*shard).is_some_and(|seq| seq < mark.seq));
        self.told.clear();
        self.tail.clear();
        self.tail_len = 0;
    }
}

/// A replica that needs a fresh snapshot, and what to tell of it, the first time.
#[derive(Debug)]
pub(super) struct Verdict(pub(super) Option<Box<Divergence>>);
