//! An attachment's state and logs: it leads what it holds and follows the rest.
//!
//! The daemon, a UI, the tool host, the simulator and the tests drive this same code. What a
//! leader appends is applied at once; what a follower receives is applied in order. Further files:
//! editing, windows, tags and proposals as any leader does them, then the two protocol parties.

pub mod authority;
pub mod client;
pub mod decide;
pub mod editing;
pub mod hashes;
pub mod marks;
pub mod recent;
pub mod rewriting;
pub mod tags;
pub mod undoing;
pub mod windows;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use self::hashes::Hashed;
use self::recent::Recent;
use crate::buffer::hash::BufferHash;
use crate::bytes::Bytes;
use crate::canary::{self, Canary};
use crate::entry::{BufferKind, BufferOp, Entry, LayoutOp, MetaOp, Op, Origin, WindowOp};
use crate::ids::{
    AttachmentId, BufferId, ColumnId, Epoch, ExecId, GroupId, NoticeId, ProcessId, ProposalId,
    RuleId, Seq, Shard, WindowId,
};
use crate::limits;
use crate::log::{Log, LogError, Record, Role};
use crate::message::Mark;
use crate::state::{ApplyError, State};
use crate::wire;

/// Why a node does not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeError {
    /// The log refused it.
    Log(LogError),
    /// The state refused it.
    Apply(Shard, ApplyError),
    /// Bytes that are no entry.
    Bytes,
    /// No such view, window, column or buffer; says which.
    Missing(&'static str),
    /// More than the entries of one proposal may be.
    TooLong,
    /// Entries of a proposal that their leader is not asked about.
    Withdrawn,
    /// More of something than there may be: of what, and the most of it.
    Limit(&'static str, usize),
}

impl From<LogError> for NodeError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::Apply(shard, error) => write!(f, "{shard}: {error}"),
            Self::Bytes => f.write_str("bytes that are no entry"),
            Self::Missing(what) => write!(f, "{what} does not exist"),
            Self::Withdrawn => f.write_str("entries of a proposal that was withdrawn"),
            Self::Limit(what, most) => write!(f, "{what}: more than {most}"),
            Self::TooLong => {
                let most = limits::PROPOSAL_LEN_MAX >> 20;
                write!(f, "more than {most} MiB at once; ask for less at a time")
            }
        }
    }
}

impl core::error::Error for NodeError {}

/// An attachment's state and logs.
#[derive(Clone, Debug)]
pub struct Node {
    attachment: AttachmentId,
    state: State,
    log: Log,
    next_counter: u64,
    /// Recent changes of each buffer, for carrying proposals forward.
    recent: BTreeMap<BufferId, Recent>,
    /// Buffers changed since the tags were last refreshed.
    touched: BTreeSet<BufferId>,
    /// Shards appended to by this node since they were last shipped.
    unshipped: BTreeSet<Shard>,
    /// The window whose tag the user is editing the name of.
    renaming: Option<WindowId>,
    /// Names that were typed in tags which another party leads by now.
    overtaken_names: Vec<(BufferId, String)>,
    /// The proposal whose entries are being appended.
    origin: Option<Origin>,
    /// What was done for the proposal being decided on, for taking it back.
    done: Option<Vec<Done>>,
    /// Bytes of the entries that were appended for it.
    done_len: usize,
    /// Whether the layout and the windows may not be of one piece.
    is_unmended: bool,
    /// The last hash of each shard that was asked for one, and what the next one builds on.
    hashes: BTreeMap<Shard, Hashed>,
    buffer_hashes: BTreeMap<BufferId, BufferHash>,
}

/// One thing done for a proposal.
#[derive(Clone, Copy, Debug)]
enum Done {
    /// An entry was appended.
    Appended(Shard),
    /// A shard was made.
    Created(Shard),
}

impl Node {
    /// Returns the node of a new session's authority.
    #[must_use]
    pub fn authority() -> Self {
        Self::new(crate::ids::SERVER, State::new(), Log::authority(), 1)
    }

    /// Returns a client's node that continues at a snapshot.
    #[must_use]
    pub fn mirror(attachment: AttachmentId, state: State, marks: &[Mark], counter: u64) -> Self {
        let log = Log::mirror(state.meta(), marks);
        let is_reused = canary::is_on(Canary::CounterReused);
        let counter = if is_reused { 1 } else { counter };
        Self::new(attachment, state, log, counter)
    }

    const fn new(attachment: AttachmentId, state: State, log: Log, next_counter: u64) -> Self {
        Self {
            attachment,
            state,
            log,
            next_counter,
            recent: BTreeMap::new(),
            touched: BTreeSet::new(),
            unshipped: BTreeSet::new(),
            renaming: None,
            overtaken_names: Vec::new(),
            origin: None,
            done: None,
            done_len: 0,
            is_unmended: true,
            hashes: BTreeMap::new(),
            buffer_hashes: BTreeMap::new(),
        }
    }

    /// Returns whose node it is.
    #[must_use]
    pub const fn attachment(&self) -> AttachmentId {
        self.attachment
    }

    /// Returns the state, all appended and received entries applied.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns the logs.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Returns whether this node may append to a shard now.
    #[must_use]
    pub fn leads(&self, shard: Shard) -> bool {
        self.log.is_held_by(shard, self.attachment)
    }

    /// Returns the next counter of this node's ids.
    #[must_use]
    pub const fn counter(&self) -> u64 {
        self.next_counter
    }

    fn alloc(&mut self) -> u64 {
        let id = self.attachment.prefix(self.next_counter);
        self.next_counter += 1;
        id
    }

    /// Returns a fresh undo group.
    pub fn new_group(&mut self) -> GroupId {
        GroupId::new(self.alloc())
    }

    /// Returns a fresh proposal id, higher than all before.
    pub fn new_proposal(&mut self) -> ProposalId {
        ProposalId::new(self.alloc())
    }

    /// Returns a fresh notice id.
    pub fn new_notice(&mut self) -> NoticeId {
        NoticeId::new(self.alloc())
    }

    /// Returns a fresh process id.
    pub fn new_process(&mut self) -> ProcessId {
        ProcessId::new(self.alloc())
    }

    /// Returns a fresh plumb rule's id.
    pub fn new_rule(&mut self) -> RuleId {
        RuleId::new(self.alloc())
    }

    /// Returns a fresh execution id.
    pub fn new_exec(&mut self) -> ExecId {
        ExecId::new(self.alloc())
    }

    fn new_column_id(&mut self) -> ColumnId {
        ColumnId::new(self.alloc())
    }

    /// Appends an operation to a shard that this node leads, and applies it.
    ///
    /// # Errors
    /// The node does not lead the shard, or the operation does not apply; nothing was changed.
    pub fn append(&mut self, shard: Shard, op: Op) -> Result<Arc<Record>, NodeError> {
        check_text(&op)?;
        let record = self.log.append(shard, self.attachment, self.origin, op)?;
        if let Err(error) = check_len(&record.bytes) {
            self.log.take_back(shard);
            return Err(error);
        }
        if self.done.is_some() {
            self.done_len += record.bytes.len();
            if self.done_len > limits::PROPOSAL_LEN_MAX {
                self.log.take_back(shard);
                return Err(NodeError::TooLong);
            }
        }
        match self.state.apply(shard, &record.entry) {
            Ok(effect) => {
                if let Op::Meta(op) = &record.entry.op {
                    self.log.note_meta(op);
                }
                if !self.unshipped.contains(&shard) {
                    self.unshipped.insert(shard);
                }
                self.note(&record, effect);
                self.log_done(Done::Appended(shard));
                Ok(record)
            }
            Err(error) => {
                self.log.take_back(shard);
                Err(NodeError::Apply(shard, error))
            }
        }
    }

    /// Appends to the metalog; only the authority can.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_meta(&mut self, op: MetaOp) -> Result<Arc<Record>, NodeError> {
        self.append(Shard::Meta, Op::Meta(op))
    }

    /// Appends to a buffer.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_buffer(&mut self, id: BufferId, op: BufferOp) -> Result<Arc<Record>, NodeError> {
        self.append(Shard::Buffer(id), Op::Buffer(op))
    }

    /// Appends to the layout.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_layout(&mut self, op: LayoutOp) -> Result<Arc<Record>, NodeError> {
        self.append(Shard::Layout, Op::Layout(op))
    }

    /// Appends to a window.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_window(&mut self, id: WindowId, op: WindowOp) -> Result<Arc<Record>, NodeError> {
        self.append(Shard::Window(id), Op::Window(op))
    }

    /// Makes a shard that this node leads.
    ///
    /// # Errors
    /// The shard exists.
    pub fn create_shard(&mut self, shard: Shard) -> Result<(), NodeError> {
        self.check_shard_count()?;
        match self.log.role() {
            Role::Authority => {
                self.append_meta(MetaOp::ShardNew(shard))?;
            }
            Role::Mirror => {
                self.log.assume_shard(shard, self.attachment)?;
                self.state.assume_shard(shard);
            }
        }
        self.log_done(Done::Created(shard));
        Ok(())
    }

    /// Checks that there may be one more shard.
    fn check_shard_count(&self) -> Result<(), NodeError> {
        let most = limits::SHARD_COUNT_MAX;
        if self.state.shard_count() < most as u64 {
            return Ok(());
        }
        Err(NodeError::Limit("texts and windows", most))
    }

    fn log_done(&mut self, done: Done) {
        if let Some(list) = &mut self.done {
            list.push(done);
        }
    }

    /// Takes back what was done for a proposal; none of it was shipped or published yet.
    fn take_back(&mut self, before: State, done: &[Done]) {
        for done in done.iter().rev() {
            match done {
                Done::Appended(shard) => {
                    let record = self.log.take_back(*shard);
                    if let (Shard::Buffer(id), Some(record)) = (*shard, record) {
                        self.forget_change(id, record.entry.seq);
                    }
                }
                Done::Created(shard) => self.log.uncreate_shard(*shard),
            }
        }
        self.state = before;
    }

    /// Ends a shard that this node leads.
    ///
    /// # Errors
    /// The node does not lead the shard.
    pub fn delete_shard(&mut self, shard: Shard) -> Result<(), NodeError> {
        if !self.leads(shard) {
            let holder = self.log.lease(shard).unwrap_or_default().holder;
            return Err(NodeError::Log(LogError::NotLeader { shard, holder }));
        }
        match self.log.role() {
            Role::Authority => {
                self.append_meta(MetaOp::ShardDel(shard))?;
            }
            Role::Mirror => {
                self.log.drop_shard(shard);
                self.state.drop_shard(shard);
            }
        }
        self.unshipped.remove(&shard);
        self.forget_shard(shard);
        Ok(())
    }

    /// Drops what is kept beside the state of a shard that ended.
    fn forget_shard(&mut self, shard: Shard) {
        self.forget_hash(shard);
        if let Shard::Buffer(id) = shard {
            self.recent.remove(&id);
            self.touched.remove(&id);
        }
    }

    /// Makes an empty buffer that this node leads.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn new_buffer(&mut self, kind: BufferKind, name: &str) -> Result<BufferId, NodeError> {
        let name = name.into();
        let create = BufferOp::Create { kind, name };
        // Before the shard is made: refused is refused whole.
        check_text(&Op::Buffer(create.clone()))?;
        let id = BufferId::new(self.alloc());
        self.create_shard(Shard::Buffer(id))?;
        self.append_buffer(id, create)?;
        Ok(id)
    }

    /// Follows an entry that another party sequenced. Returns nothing for an entry that is here
    /// already, or of a shard that ended.
    ///
    /// # Errors
    /// The entry is damaged, out of place or does not apply: the replica needs a fresh snapshot.
    pub fn follow(
        &mut self,
        shard: Shard,
        bytes: &Bytes,
    ) -> Result<Option<Arc<Record>>, NodeError> {
        let entry = wire::decode_entry(bytes).map_err(|_| NodeError::Bytes)?;
        let Some(applied) = self.state.applied(shard) else {
            return Ok(None);
        };
        if entry.seq <= applied {
            return Ok(None);
        }
        let record = self.log.append_entry(shard, entry, bytes.clone())?;
        self.replay(&record)?;
        Ok(Some(record))
    }

    /// Applies a record that is in the log already.
    fn replay(&mut self, record: &Arc<Record>) -> Result<(), NodeError> {
        let effect = self
            .state
            .apply(record.shard, &record.entry)
            .map_err(|error| {
                self.log.take_back(record.shard);
                NodeError::Apply(record.shard, error)
            })?;
        self.note(record, effect);
        Ok(())
    }

    /// Accepts entries that another leader sequenced: all of them, or none.
    ///
    /// Entries that are here already, byte for byte, are a retry and are passed over.
    ///
    /// # Errors
    /// The first entry that is fenced, out of place or does not apply; nothing was changed.
    pub fn accept(
        &mut self,
        from: AttachmentId,
        appends: &[(Shard, Vec<Bytes>)],
    ) -> Result<Vec<Arc<Record>>, NodeError> {
        self.accept_of(from, appends, |_| true)
    }

    /// Accepts entries as [`Self::accept`] does, those of proposals only when they may land.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn accept_of(
        &mut self,
        from: AttachmentId,
        appends: &[(Shard, Vec<Bytes>)],
        may_land: impl Fn(Origin) -> bool,
    ) -> Result<Vec<Arc<Record>>, NodeError> {
        let mut fresh = Vec::new();
        let mut len = 0;
        for (shard, entries) in appends {
            let mut ahead = 0;
            for bytes in entries {
                let entry = wire::decode_entry(bytes).map_err(|_| NodeError::Bytes)?;
                len += bytes.len();
                check_len(bytes)?;
                check_text(&entry.op)?;
                if shard.is_pinned() || entry.attachment != from {
                    let holder = self.log.lease(*shard).unwrap_or_default().holder;
                    return Err(LogError::NotLeader {
                        shard: *shard,
                        holder,
                    }
                    .into());
                }
                if self.is_here(*shard, entry.seq, bytes) {
                    continue;
                }
                self.log.check(*shard, &entry, ahead)?;
                if entry.origin.is_some_and(|origin| !may_land(origin)) {
                    return Err(NodeError::Withdrawn);
                }
                ahead += 1;
                fresh.push((*shard, entry, bytes.clone()));
            }
        }
        if len > limits::APPEND_LEN_MAX {
            return Err(NodeError::Limit(
                "bytes in one append",
                limits::APPEND_LEN_MAX,
            ));
        }
        self.append_all(fresh)
    }

    fn is_here(&self, shard: Shard, seq: Seq, bytes: &Bytes) -> bool {
        let before = Seq::new(seq.raw().saturating_sub(1));
        let record = self.log.after(shard, before).next();
        record.is_some_and(|record| record.entry.seq == seq && record.bytes == *bytes)
    }

    fn append_all(
        &mut self,
        fresh: Vec<(Shard, Entry, Bytes)>,
    ) -> Result<Vec<Arc<Record>>, NodeError> {
        // A clone of the state costs nanoseconds; it is the way back when an operation of the
        // batch does not apply. A single entry needs none: apply refuses whole.
        let before = (fresh.len() > 1).then(|| self.state.clone());
        let mut records = Vec::with_capacity(fresh.len());
        let mut effects = Vec::with_capacity(fresh.len());
        for (shard, entry, bytes) in fresh {
            let appended = self
                .log
                .append_entry(shard, entry, bytes)
                .map_err(NodeError::from);
            let applied = appended.and_then(|record| {
                let effect = self.state.apply(shard, &record.entry);
                records.push(record);
                effect.map_err(|error| NodeError::Apply(shard, error))
            });
            match applied {
                Ok(effect) => effects.push(effect),
                Err(error) => {
                    for record in &records {
                        self.log.take_back(record.shard);
                    }
                    self.state = before.unwrap_or_else(|| self.state.clone());
                    return Err(error);
                }
            }
        }
        for (record, effect) in records.iter().zip(effects) {
            self.note(record, effect);
        }
        Ok(records)
    }

    /// Gives a shard back: nothing more is appended to it. Returns its last entry.
    pub fn release_lease(&mut self, shard: Shard) -> Option<Seq> {
        if !self.leads(shard) || shard.is_pinned() {
            return None;
        }
        let seq = self.log.mark(shard)?.seq;
        self.log.release(shard, seq);
        Some(seq)
    }

    /// Makes the node of an authority, which goes on behind what it has replayed: with ids from
    /// this counter, and under this fence where SERVER always leads.
    fn begin_run(&mut self, counter: u64, pinned: Epoch) {
        self.next_counter = counter;
        self.log.become_authority(pinned);
    }

    /// Drops the entries of a shard up to and including `upto`; the state keeps what they did.
    pub fn compact(&mut self, shard: Shard, upto: Seq) {
        self.log.compact(shard, upto);
    }
}

fn check_text(op: &Op) -> Result<(), NodeError> {
    match op.too_long() {
        Some((what, most)) => Err(NodeError::Limit(what, most)),
        None => Ok(()),
    }
}

fn check_len(bytes: &Bytes) -> Result<(), NodeError> {
    if bytes.len() <= limits::ENTRY_LEN_MAX {
        return Ok(());
    }
    Err(NodeError::Limit("bytes at once", limits::ENTRY_LEN_MAX))
}

#[cfg(test)]
mod tests;
