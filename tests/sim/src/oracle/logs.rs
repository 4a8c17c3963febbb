//! Logs, leases and readers, as they show on the wire.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apex_core::bytes::Bytes;
use apex_core::entry::{AttachmentKind, ChainHash, MetaOp, Op};
use apex_core::ids::{AttachmentId, ConnectionId, Epoch, SERVER, Shard};
use apex_core::log::Record;
use apex_core::message::{AckMark, Mark, ServerMessage};
use apex_core::wire;

use super::{Failure, hold};

const ORDER: &str = "logs have no gaps (I2, I13)";
const FENCE: &str = "one attachment appends under an epoch (5, I1, I7)";
const REUSE: &str = "ids and epochs are never reused (7, I8)";
const META: &str = "the metalog comes first (9)";
const ACKED: &str = "what is acknowledged stays (6, I5, I6)";
const RIGHTS: &str = "watchers and tools lead what they may (14, I24)";

/// An append, and on which connection it came.
pub(crate) type Append = (ConnectionId, Vec<(Shard, Vec<Bytes>)>);

/// What was published of a shard.
#[derive(Debug, Default)]
struct Published {
    entries: Vec<Bytes>,
    chain: ChainHash,
    epoch: Epoch,
}

/// Who holds a shard.
#[derive(Clone, Copy, Debug)]
struct Lease {
    holder: AttachmentId,
    epoch: Epoch,
    is_released: bool,
}

/// The books.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    shards: BTreeMap<Shard, Published>,
    leases: BTreeMap<Shard, Lease>,
    granted: BTreeMap<(Shard, Epoch), AttachmentId>,
    made: BTreeSet<Shard>,
    ended: BTreeSet<Shard>,
    attached: BTreeMap<AttachmentId, AttachmentKind>,
    last_attached: u64,
    watchers: BTreeSet<AttachmentId>,
    /// Tools that may lead texts.
    allowed: BTreeSet<AttachmentId>,
    readers: BTreeMap<ConnectionId, BTreeMap<Shard, u64>>,
    /// The append that the daemon is working on.
    appending: Option<Append>,
}

impl Logs {
    /// The daemon is about to take an append.
    pub(crate) fn appending(&mut self, append: Option<Append>) {
        self.appending = append;
    }

    /// Says who watches and has not asked to lead.
    pub(crate) fn watches(&mut self, id: AttachmentId, is_watcher: bool) {
        if is_watcher {
            self.watchers.insert(id);
        } else {
            self.watchers.remove(&id);
        }
    }

    /// Says whether a tool may lead texts.
    pub(crate) fn allow(&mut self, id: AttachmentId, is_allowed: bool) {
        if is_allowed {
            self.allowed.insert(id);
        } else {
            self.allowed.remove(&id);
        }
    }

    /// Returns the holder and the epoch of a shard.
    pub(crate) fn lease(&self, shard: Shard) -> Option<(AttachmentId, Epoch)> {
        let lease = self.leases.get(&shard)?;
        Some((lease.holder, lease.epoch))
    }

    /// Returns how many entries of a shard were published.
    pub(crate) fn head(&self, shard: Shard) -> u64 {
        self.shards
            .get(&shard)
            .map_or(0, |log| log.entries.len() as u64)
    }

    /// Returns the shards that are there.
    pub(crate) fn shards(&self) -> impl Iterator<Item = Shard> + '_ {
        self.shards
            .keys()
            .copied()
            .filter(|shard| !self.ended.contains(shard))
    }

    /// Takes what the daemon publishes.
    pub(crate) fn publish(&mut self, records: &[Arc<Record>]) -> Result<(), Failure> {
        for record in records {
            self.publish_one(record)?;
        }
        Ok(())
    }

    fn publish_one(&mut self, record: &Record) -> Result<(), Failure> {
        let (shard, entry) = (record.shard, &record.entry);
        let told = || format!("{shard} {} by {}", entry.seq, entry.attachment);
        let is_known = shard == Shard::Meta || self.made.contains(&shard);
        hold(is_known && !self.ended.contains(&shard), META, || {
            format!("{} is published outside of its shard's life", told())
        })?;
        let log = self.shards.entry(shard).or_default();
        let head = log.entries.len() as u64;
        hold(entry.seq.raw() == head + 1, ORDER, || {
            format!("{} is published after entry {head}", told())
        })?;
        hold(entry.epoch >= log.epoch, FENCE, || {
            format!("{} falls behind epoch {}", told(), log.epoch)
        })?;
        log.chain = log.chain.extend(&record.bytes);
        hold(log.chain == record.chain, ORDER, || {
            format!("{} has another chain hash", told())
        })?;
        log.epoch = entry.epoch;
        log.entries.push(record.bytes.clone());
        self.check_fence(record)?;
        match &entry.op {
            Op::Meta(op) => self.note(op),
            _ => Ok(()),
        }
    }

    fn check_fence(&self, record: &Record) -> Result<(), Failure> {
        let (shard, entry) = (record.shard, &record.entry);
        let told = || {
            format!(
                "{shard} {} by {} under {}",
                entry.seq, entry.attachment, entry.epoch
            )
        };
        if shard.is_pinned() {
            return hold(entry.attachment == SERVER, FENCE, told);
        }
        let granted = self.granted.get(&(shard, entry.epoch));
        hold(granted == Some(&entry.attachment), FENCE, || {
            format!("{}, which {granted:?} was granted", told())
        })?;
        if entry.attachment == SERVER {
            return Ok(());
        }
        let lease = self.leases.get(&shard);
        let is_current = lease.is_some_and(|lease| {
            lease.holder == entry.attachment && lease.epoch == entry.epoch && !lease.is_released
        });
        hold(is_current, FENCE, || format!("{}, now {lease:?}", told()))
    }

    fn note(&mut self, op: &MetaOp) -> Result<(), Failure> {
        match op {
            MetaOp::ShardNew(shard) => {
                hold(self.made.insert(*shard), REUSE, || {
                    format!("{shard} is made a second time")
                })?;
                self.lend(*shard, SERVER, Epoch::new(0))
            }
            MetaOp::ShardDel(shard) => {
                self.ended.insert(*shard);
                self.leases.remove(shard);
                Ok(())
            }
            MetaOp::Attach { id, kind, .. } => {
                let is_new = id.raw() > self.last_attached;
                self.last_attached = self.last_attached.max(id.raw());
                self.attached.insert(*id, *kind);
                hold(is_new, REUSE, || format!("attachment {id} again"))
            }
            MetaOp::Detach(id) => {
                self.attached.remove(id);
                Ok(())
            }
            MetaOp::LeaseGrant {
                shard, to, epoch, ..
            } => {
                self.check_rights(*shard, *to)?;
                self.lend(*shard, *to, *epoch)
            }
            MetaOp::LeaseReclaim { shard, epoch, .. } => self.lend(*shard, SERVER, *epoch),
            MetaOp::LeaseRelease { shard, .. } => {
                if let Some(lease) = self.leases.get_mut(shard) {
                    lease.is_released = true;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_rights(&self, shard: Shard, to: AttachmentId) -> Result<(), Failure> {
        let kind = self.attached.get(&to);
        hold(kind.is_some(), RIGHTS, || {
            format!("{shard} is granted to {to}, which is not there")
        })?;
        hold(!self.watchers.contains(&to), RIGHTS, || {
            format!("{shard} is granted to {to}, which watches")
        })?;
        let is_text = matches!(shard, Shard::Buffer(_)) && self.allowed.contains(&to);
        hold(
            is_text || kind != Some(&AttachmentKind::Tool),
            RIGHTS,
            || format!("{shard} is granted to the tool {to}"),
        )
    }

    fn lend(&mut self, shard: Shard, holder: AttachmentId, epoch: Epoch) -> Result<(), Failure> {
        let old = self.leases.get(&shard).map(|lease| lease.epoch);
        let is_new = old.is_none_or(|old| epoch > old);
        let lease = Lease {
            holder,
            epoch,
            is_released: false,
        };
        self.leases.insert(shard, lease);
        let is_first = self.granted.insert((shard, epoch), holder).is_none();
        hold(is_new && is_first, REUSE, || {
            format!("{shard} gets epoch {epoch} after {old:?}")
        })
    }

    /// Takes an acknowledgement as the daemon makes it.
    pub(crate) fn ack(&self, to: ConnectionId, marks: &[AckMark]) -> Result<(), Failure> {
        let Some((from, appends)) = &self.appending else {
            return Ok(());
        };
        if *from != to {
            return Ok(());
        }
        for (shard, entries) in appends {
            let received = marks.iter().filter(|mark| mark.shard == *shard);
            let Some(received) = received.map(|mark| mark.received.raw()).max() else {
                continue;
            };
            for bytes in entries {
                let Ok(entry) = wire::decode_entry(bytes) else {
                    continue;
                };
                let seq = entry.seq.raw();
                let kept = usize::try_from(seq).ok().and_then(|seq| {
                    let log = self.shards.get(shard)?;
                    log.entries.get(seq.checked_sub(1)?)
                });
                hold(seq > received || kept == Some(bytes), ACKED, || {
                    format!("{shard} {seq} of {from} is acknowledged and not in the log so")
                })?;
            }
        }
        Ok(())
    }

    /// A party comes back on a connection, and has the logs up to these marks.
    pub(crate) fn resume(&mut self, at: ConnectionId, marks: &[Mark]) {
        let mut known: BTreeMap<Shard, u64> = marks
            .iter()
            .map(|mark| (mark.shard, mark.seq.raw()))
            .collect();
        // The metalog that it has tells of shards of which it has nothing.
        let told = known.get(&Shard::Meta).copied().unwrap_or_default();
        let told = usize::try_from(told).unwrap_or(usize::MAX);
        let meta = self.shards.get(&Shard::Meta);
        for bytes in meta.iter().flat_map(|log| &log.entries).take(told) {
            match wire::decode_entry(bytes).map(|entry| entry.op) {
                Ok(Op::Meta(MetaOp::ShardNew(shard))) => {
                    known.entry(shard).or_insert(0);
                }
                Ok(Op::Meta(MetaOp::ShardDel(shard))) => {
                    known.remove(&shard);
                }
                _ => {}
            }
        }
        self.readers.insert(at, known);
    }

    /// Takes what a party receives.
    pub(crate) fn receive(
        &mut self,
        at: ConnectionId,
        message: &ServerMessage,
    ) -> Result<(), Failure> {
        match message {
            ServerMessage::Welcome(welcome) => {
                let marks = welcome.marks.iter();
                let known = marks.map(|mark| (mark.shard, mark.seq.raw())).collect();
                self.readers.insert(at, known);
                Ok(())
            }
            ServerMessage::Resumed(resumed) => {
                let reader = self.readers.entry(at).or_default();
                for mark in &resumed.marks {
                    let known = reader.entry(mark.shard).or_default();
                    *known = (*known).max(mark.seq.raw());
                }
                Ok(())
            }
            ServerMessage::Acked(marks) => {
                let reader = self.readers.entry(at).or_default();
                for mark in marks {
                    let known = reader.entry(mark.shard).or_default();
                    *known = (*known).max(mark.received.raw());
                }
                Ok(())
            }
            ServerMessage::Entries(entries) => {
                for (shard, bytes) in entries {
                    self.read(at, *shard, bytes)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn read(&mut self, at: ConnectionId, shard: Shard, bytes: &Bytes) -> Result<(), Failure> {
        let entry = wire::decode_entry(bytes);
        let entry = entry.map_err(|error| Failure {
            oracle: ORDER,
            words: format!("{shard}: {error}"),
        })?;
        let seq = entry.seq.raw();
        let reader = self.readers.entry(at).or_default();
        let known = reader.get(&shard).copied();
        hold(known.is_some(), META, || {
            format!("connection {at} hears of {shard} {seq} before its shard")
        })?;
        let known = known.unwrap_or_default();
        hold(seq <= known + 1, ORDER, || {
            format!("connection {at} hears of {shard} {seq} after {known}")
        })?;
        reader.insert(shard, known.max(seq));
        match &entry.op {
            Op::Meta(MetaOp::ShardNew(shard)) => {
                reader.entry(*shard).or_insert(0);
            }
            Op::Meta(MetaOp::ShardDel(shard)) => {
                reader.remove(shard);
            }
            _ => {}
        }
        let published = usize::try_from(seq).ok().and_then(|seq| {
            let log = self.shards.get(&shard)?;
            log.entries.get(seq.checked_sub(1)?)
        });
        hold(published == Some(bytes), ORDER, || {
            format!("connection {at} hears of another {shard} {seq} than was published")
        })
    }
}
