//! The logs of one session: the authority that fences and orders, and the mirror of a client.
//!
//! The same type plays both roles. The authority sequences the metalog itself and owns the lease
//! table. A mirror assigns the numbers that the authority will assign, writes no metalog entries,
//! reports shards that its node makes or ends, and learns leases by replay.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::bytes::Bytes;
use crate::canary::{self, Canary};
use crate::entry::{ChainHash, Entry, MetaOp, Op, Origin};
use crate::ids::{AttachmentId, Epoch, SERVER, Seq, Shard};
use crate::message::Mark;
use crate::meta::{Lease, Meta};

/// An entry with its bytes and the chain hash after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which log.
    pub shard: Shard,
    /// The entry.
    pub entry: Entry,
    /// Its bytes, encoded once.
    pub bytes: Bytes,
    /// The chain hash after it.
    pub chain: ChainHash,
}

/// Which part a log plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Fences and orders.
    Authority,
    /// Sequences ahead of the authority.
    Mirror,
}

/// What a mirror reports to its client: the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorNotice {
    /// The node made a shard.
    Created(Shard),
    /// The node ended a shard.
    Deleted(Shard),
}

/// Why an entry is not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogError {
    /// No such shard.
    UnknownShard(Shard),
    /// A shard of this name exists already.
    ShardExists(Shard),
    /// Another party holds the lease, or it was given back.
    NotLeader {
        /// Which shard.
        shard: Shard,
        /// Who holds it.
        holder: AttachmentId,
    },
    /// The fence is not the current one.
    Fenced {
        /// Which shard.
        shard: Shard,
        /// The current fence.
        current: Epoch,
        /// The entry's.
        found: Epoch,
    },
    /// The seq is not the next one.
    WrongSeq {
        /// Which shard.
        shard: Shard,
        /// The seq that would be right.
        expected: Seq,
        /// The entry's.
        found: Seq,
    },
    /// The operation is of another kind of shard.
    DoesNotFit(Shard),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownShard(shard) => write!(f, "no shard {shard}"),
            Self::ShardExists(shard) => write!(f, "shard {shard} exists already"),
            Self::NotLeader { shard, holder } => {
                write!(f, "{shard} is led by attachment {holder}")
            }
            Self::Fenced {
                shard,
                current,
                found,
            } => {
                write!(
                    f,
                    "fenced: {shard} is at epoch {current}, the append is of epoch {found}"
                )
            }
            Self::WrongSeq {
                shard,
                expected,
                found,
            } => {
                write!(
                    f,
                    "entry {found} of {shard} came where entry {expected} must follow"
                )
            }
            Self::DoesNotFit(shard) => write!(f, "the operation does not fit {shard}"),
        }
    }
}

impl core::error::Error for LogError {}

/// One shard's log.
#[derive(Clone, Debug)]
struct ShardLog {
    lease: Lease,
    /// The entry before the first that is kept, and the chain hash there.
    base: Seq,
    base_chain: ChainHash,
    records: VecDeque<Arc<Record>>,
}

impl ShardLog {
    const fn new(lease: Lease, base: Seq, base_chain: ChainHash) -> Self {
        Self {
            lease,
            base,
            base_chain,
            records: VecDeque::new(),
        }
    }

    fn head(&self) -> Seq {
        self.records
            .back()
            .map_or(self.base, |record| record.entry.seq)
    }

    fn chain(&self) -> ChainHash {
        self.records
            .back()
            .map_or(self.base_chain, |record| record.chain)
    }
}

/// The logs of one session.
#[derive(Clone, Debug)]
pub struct Log {
    role: Role,
    /// The fence of pinned shards; every start of the authority raises it.
    pinned: Epoch,
    shards: BTreeMap<Shard, ShardLog>,
    notices: Vec<MirrorNotice>,
}

impl Log {
    /// Returns the empty logs of a new session.
    #[must_use]
    pub fn authority() -> Self {
        let meta = ShardLog::new(Lease::default(), Seq::default(), ChainHash::default());
        Self {
            role: Role::Authority,
            pinned: Epoch::default(),
            shards: BTreeMap::from([(Shard::Meta, meta)]),
            notices: Vec::new(),
        }
    }

    /// Returns a mirror that continues at these marks, with the leases that the state knows.
    #[must_use]
    pub fn mirror(meta: &Meta, marks: &[Mark]) -> Self {
        let shard_log = |mark: &Mark| {
            let lease = meta.lease(mark.shard).unwrap_or_default();
            (mark.shard, ShardLog::new(lease, mark.seq, mark.chain))
        };
        Self {
            role: Role::Mirror,
            pinned: Epoch::default(),
            shards: marks.iter().map(shard_log).collect(),
            notices: Vec::new(),
        }
    }

    /// Makes a mirror of what an authority left behind the authority's own log, which leads the
    /// pinned shards under this fence.
    pub fn become_authority(&mut self, pinned: Epoch) {
        (self.role, self.pinned) = (Role::Authority, pinned);
        let shards = self
            .shards
            .iter_mut()
            .filter(|(shard, _)| shard.is_pinned());
        shards.for_each(|(_, log)| log.lease.epoch = pinned);
    }

    /// Keeps the records of another log of the same shard that this one begins behind, if that is
    /// where they end. Returns whether it did.
    pub fn keep_records(&mut self, shard: Shard, old: &Self) -> bool {
        let Some(log) = self.shards.get_mut(&shard) else {
            return false;
        };
        let Some(before) = old.shards.get(&shard).filter(|_| log.records.is_empty()) else {
            return false;
        };
        if log.base < before.base || old.chain_at(shard, log.base) != Some(log.base_chain) {
            return false;
        }
        let is_within = |record: &&Arc<Record>| record.entry.seq <= log.base;
        log.records = before
            .records
            .iter()
            .take_while(is_within)
            .cloned()
            .collect();
        (log.base, log.base_chain) = (before.base, before.base_chain);
        true
    }

    /// Returns which part it plays.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns who leads a shard.
    #[must_use]
    pub fn lease(&self, shard: Shard) -> Option<Lease> {
        self.shards.get(&shard).map(|log| log.lease)
    }

    /// Returns the fence of a shard; that of no grant when the shard is not known.
    #[must_use]
    pub fn epoch(&self, shard: Shard) -> Epoch {
        self.lease(shard).unwrap_or_default().epoch
    }

    /// Returns whether an attachment may append to a shard now.
    #[must_use]
    pub fn is_held_by(&self, shard: Shard, attachment: AttachmentId) -> bool {
        self.lease(shard)
            .is_some_and(|lease| is_held(lease, attachment))
    }

    /// Returns the shards that an attachment may append to.
    pub fn held_by(&self, attachment: AttachmentId) -> impl Iterator<Item = (Shard, Epoch)> + '_ {
        self.shards
            .iter()
            .filter(move |(_, log)| is_held(log.lease, attachment))
            .map(|(shard, log)| (*shard, log.lease.epoch))
    }

    /// Returns the shards, Meta first.
    pub fn shards(&self) -> impl Iterator<Item = Shard> + '_ {
        self.shards.keys().copied()
    }

    /// Returns where a shard's log stands.
    #[must_use]
    pub fn mark(&self, shard: Shard) -> Option<Mark> {
        let log = self.shards.get(&shard)?;
        Some(Mark {
            shard,
            seq: log.head(),
            chain: log.chain(),
        })
    }

    /// Returns where every log stands, Meta first.
    #[must_use]
    pub fn marks(&self) -> Vec<Mark> {
        self.shards
            .keys()
            .filter_map(|shard| self.mark(*shard))
            .collect()
    }

    /// Returns where every log stands before the first entry that is kept, Meta first: a mirror
    /// keeps what the authority has not acknowledged.
    #[must_use]
    pub fn bases(&self) -> Vec<Mark> {
        let base = |(shard, log): (&Shard, &ShardLog)| Mark {
            shard: *shard,
            seq: log.base,
            chain: log.base_chain,
        };
        self.shards.iter().map(base).collect()
    }

    /// Returns the first entry of a shard that is still kept; one past the head when none is.
    #[must_use]
    pub fn floor(&self, shard: Shard) -> Option<Seq> {
        self.shards.get(&shard).map(|log| log.base.next())
    }

    /// Returns the chain hash of a shard after entry `seq`; none when that entry is not kept, or
    /// not there yet.
    #[must_use]
    pub fn chain_at(&self, shard: Shard, seq: Seq) -> Option<ChainHash> {
        let log = self.shards.get(&shard)?;
        if seq == log.base {
            return Some(log.base_chain);
        }
        let passed = seq.raw().checked_sub(log.base.raw() + 1)?;
        let record = log.records.get(usize::try_from(passed).ok()?)?;
        Some(record.chain)
    }

    /// Returns the kept entries of a shard after `after`, in order.
    pub fn after(&self, shard: Shard, after: Seq) -> impl Iterator<Item = &Arc<Record>> {
        let log = self.shards.get(&shard);
        let passed = log.map_or(0, |log| after.raw().saturating_sub(log.base.raw()));
        let passed = usize::try_from(passed).unwrap_or(usize::MAX);
        log.into_iter()
            .flat_map(move |log| log.records.iter().skip(passed))
    }

    /// Returns the last entry of a party that a shard keeps.
    #[must_use]
    pub fn last_of(&self, shard: Shard, attachment: AttachmentId) -> Option<Seq> {
        let records = self.shards.get(&shard)?.records.iter().rev();
        let mut own = records.filter(|record| record.entry.attachment == attachment);
        own.next().map(|record| record.entry.seq)
    }

    /// Appends an operation of a party that holds the lease and encodes it, once.
    ///
    /// # Errors
    /// The party does not hold the lease, or the operation does not fit; nothing was appended.
    pub fn append(
        &mut self,
        shard: Shard,
        attachment: AttachmentId,
        origin: Option<Origin>,
        op: Op,
    ) -> Result<Arc<Record>, LogError> {
        let log = self
            .shards
            .get_mut(&shard)
            .ok_or(LogError::UnknownShard(shard))?;
        if !is_held(log.lease, attachment) || (shard == Shard::Meta && self.role == Role::Mirror) {
            return Err(LogError::NotLeader {
                shard,
                holder: log.lease.holder,
            });
        }
        if !op.fits(shard) {
            return Err(LogError::DoesNotFit(shard));
        }
        let (seq, epoch) = (log.head().next(), log.lease.epoch);
        let entry = Entry {
            seq,
            attachment,
            epoch,
            origin,
            op,
        };
        let bytes = crate::wire::encode_entry(&entry);
        Ok(push(log, shard, entry, bytes))
    }

    /// Checks an entry that another party sequenced; `ahead` entries of the shard, checked before
    /// it, are not appended yet.
    ///
    /// # Errors
    /// The entry is fenced, out of place or does not fit.
    pub fn check(&self, shard: Shard, entry: &Entry, ahead: u64) -> Result<(), LogError> {
        let log = self
            .shards
            .get(&shard)
            .ok_or(LogError::UnknownShard(shard))?;
        if self.role == Role::Authority {
            if entry.epoch != log.lease.epoch && !canary::is_on(Canary::EpochNotCompared) {
                let (current, found) = (log.lease.epoch, entry.epoch);
                return Err(LogError::Fenced {
                    shard,
                    current,
                    found,
                });
            }
            if !is_held(log.lease, entry.attachment) {
                return Err(LogError::NotLeader {
                    shard,
                    holder: log.lease.holder,
                });
            }
        }
        let expected = Seq::new(log.head().raw() + ahead + 1);
        if entry.seq != expected {
            return Err(LogError::WrongSeq {
                shard,
                expected,
                found: entry.seq,
            });
        }
        if entry.op.fits(shard) {
            Ok(())
        } else {
            Err(LogError::DoesNotFit(shard))
        }
    }

    /// Appends an entry that another party sequenced, with its own bytes.
    ///
    /// # Errors
    /// As [`Self::check`]; nothing was appended.
    pub fn append_entry(
        &mut self,
        shard: Shard,
        entry: Entry,
        bytes: Bytes,
    ) -> Result<Arc<Record>, LogError> {
        self.check(shard, &entry, 0)?;
        if let (Op::Meta(op), Role::Mirror) = (&entry.op, self.role) {
            self.note_meta(op);
        }
        let log = self
            .shards
            .get_mut(&shard)
            .ok_or(LogError::UnknownShard(shard))?;
        Ok(push(log, shard, entry, bytes))
    }

    /// Takes back the last record of a shard: its operation turned out not to apply.
    pub fn take_back(&mut self, shard: Shard) -> Option<Arc<Record>> {
        self.shards.get_mut(&shard)?.records.pop_back()
    }

    /// Takes back a shard that was made and that nobody was told of.
    pub fn uncreate_shard(&mut self, shard: Shard) {
        self.shards.remove(&shard);
        self.notices
            .retain(|notice| *notice != MirrorNotice::Created(shard));
    }

    /// Keeps the lease table in step with a metalog entry.
    pub fn note_meta(&mut self, op: &MetaOp) {
        match op {
            MetaOp::ShardNew(shard) => {
                let epoch = if shard.is_pinned() {
                    self.pinned
                } else {
                    Epoch::default()
                };
                let lease = Lease {
                    epoch,
                    ..Lease::default()
                };
                let new = || ShardLog::new(lease, Seq::default(), ChainHash::default());
                self.shards.entry(*shard).or_insert_with(new);
            }
            MetaOp::ShardDel(shard) => {
                self.shards.remove(shard);
            }
            MetaOp::LeaseGrant {
                shard, to, epoch, ..
            } => {
                let lease = Lease {
                    holder: *to,
                    epoch: *epoch,
                    pending: None,
                    released: None,
                };
                self.set_lease(*shard, |old| *old = lease);
            }
            MetaOp::LeaseReclaim { shard, epoch, .. } => {
                let (holder, epoch) = (SERVER, *epoch);
                self.set_lease(*shard, |old| {
                    *old = Lease {
                        holder,
                        epoch,
                        pending: old.pending,
                        released: None,
                    };
                });
            }
            MetaOp::LeaseRequest { shard, by } => {
                self.set_lease(*shard, |lease| lease.pending = Some(*by));
            }
            MetaOp::LeaseRelease { shard, seq } => {
                self.set_lease(*shard, |lease| lease.released = Some(*seq));
            }
            MetaOp::LeaseRefuse { shard, .. } => {
                self.set_lease(*shard, |lease| lease.pending = None);
            }
            _ => {}
        }
    }

    fn set_lease(&mut self, shard: Shard, change: impl FnOnce(&mut Lease)) {
        if let Some(log) = self.shards.get_mut(&shard) {
            change(&mut log.lease);
        }
    }

    /// Makes a shard ahead of the metalog, with the grant that the authority will make.
    ///
    /// # Errors
    /// The shard exists.
    pub fn assume_shard(&mut self, shard: Shard, creator: AttachmentId) -> Result<(), LogError> {
        if self.shards.contains_key(&shard) {
            return Err(LogError::ShardExists(shard));
        }
        let epoch = Epoch::default().next();
        let lease = Lease {
            holder: creator,
            epoch,
            pending: None,
            released: None,
        };
        self.shards.insert(
            shard,
            ShardLog::new(lease, Seq::default(), ChainHash::default()),
        );
        self.notices.push(MirrorNotice::Created(shard));
        Ok(())
    }

    /// Ends a shard ahead of the metalog.
    pub fn drop_shard(&mut self, shard: Shard) {
        if self.shards.remove(&shard).is_some() {
            self.notices.push(MirrorNotice::Deleted(shard));
        }
    }

    /// Marks a shard as given back, ahead of the metalog: nothing more is appended to it.
    pub fn release(&mut self, shard: Shard, seq: Seq) {
        self.set_lease(shard, |lease| lease.released = Some(seq));
    }

    /// Returns what the node made and ended since the last call.
    pub fn take_notices(&mut self) -> Vec<MirrorNotice> {
        core::mem::take(&mut self.notices)
    }

    /// Has these reported, in place of what was to be: as far as the daemon, which knows of the
    /// shards `known`, need hear of them.
    pub fn put_notices(&mut self, notices: Vec<MirrorNotice>, known: &BTreeSet<Shard>) {
        let is_news = |notice: &MirrorNotice| match *notice {
            MirrorNotice::Created(shard) => {
                self.shards.contains_key(&shard) && !known.contains(&shard)
            }
            MirrorNotice::Deleted(shard) => {
                !self.shards.contains_key(&shard) && known.contains(&shard)
            }
        };
        self.notices = notices.into_iter().filter(is_news).collect();
    }

    /// Drops the entries of a shard up to and including `upto`.
    pub fn compact(&mut self, shard: Shard, upto: Seq) {
        let is_early = self.role == Role::Mirror && canary::is_on(Canary::CompactedPastAck);
        let upto = if is_early { Seq::new(u64::MAX) } else { upto };
        let Some(log) = self.shards.get_mut(&shard) else {
            return;
        };
        while let Some(record) = log.records.front()
            && record.entry.seq <= upto
        {
            log.base = record.entry.seq;
            log.base_chain = record.chain;
            log.records.pop_front();
        }
    }
}

fn is_held(lease: Lease, attachment: AttachmentId) -> bool {
    lease.holder == attachment && lease.released.is_none()
}

#[inline]
fn push(log: &mut ShardLog, shard: Shard, entry: Entry, bytes: Bytes) -> Arc<Record> {
    let chain = log.chain().extend(&bytes);
    let record = Arc::new(Record {
        shard,
        entry,
        bytes,
        chain,
    });
    log.records.push_back(record.clone());
    record
}
