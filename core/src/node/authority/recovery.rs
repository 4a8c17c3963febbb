//! An authority that goes on where another run of it was ended: by a kill, or by a loss of power.
//!
//! 1. What was kept is replayed; an entry that is not what was handed over is a typed error.
//! 2. Every shard gets a fence above all that were reserved: what a party appended that was lost
//!    comes again under the new one or not at all.
//! 3. Who can prove who it is may come back within its grace, and a UI goes on leading what it led.
//!    Leases of tools, whose time nobody measured, go to the UI that leads, as do texts that were
//!    about to change hands. Processes are gone.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use super::attaching::grace_ms;
use super::journaling::Journaling;
use super::{Authority, Genesis, Party};
use crate::entry::{AttachmentKind, MetaOp, Op};
use crate::ids::{AttachmentId, Epoch, Incarnation, Millis, Place, SERVER, Secret, Seq, Shard};
use crate::journal::{Checkpoint, Item, Kept, KeptParty, Reserved};
use crate::limits;
use crate::log::Record;
use crate::node::{Node, NodeError};

/// The exit code of a process that was left behind: as if it had been killed.
const LOST_PROCESS_CODE: i32 = 128 + 9;

/// Why what a journal gave back is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoverError {
    /// An item is missing: this one came where the one after `Place` must follow.
    Gap(Place),
    /// An entry in an item does not apply.
    Entry(Place, NodeError),
    /// An entry in an item is not the one that was handed over: its chain hash is another one.
    Chain(Place, Shard, Seq),
    /// The checkpoint has no run of an authority.
    NoRun,
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap(place) => write!(f, "item {place} of the journal does not follow"),
            Self::Entry(place, error) => write!(f, "item {place} of the journal: {error}"),
            Self::Chain(place, shard, seq) => write!(
                f,
                "item {place} of the journal: entry {seq} of {shard} has another chain hash"
            ),
            Self::NoRun => f.write_str("the checkpoint names no run of the session"),
        }
    }
}

impl core::error::Error for RecoverError {}

/// What a replay comes to.
struct Replayed {
    node: Node,
    last: Place,
    reserved: Reserved,
    parties: BTreeMap<AttachmentId, KeptParty>,
}

impl Authority {
    /// Returns the authority of a session that was kept, in a new run; `incarnation` is fresh and
    /// random. Before anybody joins, [`Self::begin_journal`] is called and its checkpoint synced.
    ///
    /// # Errors
    /// What was kept is damaged; nothing is guessed.
    pub fn recover(
        kept: Kept,
        incarnation: Incarnation,
        now: Millis,
    ) -> Result<Self, RecoverError> {
        let Kept { checkpoint, items } = kept;
        let mut former = checkpoint.incarnations.clone();
        if former.is_empty() {
            return Err(RecoverError::NoRun);
        }
        let surplus = former.len().saturating_sub(limits::INCARNATION_COUNT_MAX);
        former.drain(..surplus);
        let session = checkpoint.session;
        let replayed = replay(checkpoint, items)?;
        let meta = replayed.node.state().meta();
        let genesis = Genesis {
            session,
            incarnation,
            label: meta.label.clone(),
            limits: meta.limits,
        };
        let mut authority = Self::with(replayed.node, genesis);
        authority.former_runs = former;
        authority.journaling = Journaling::behind(replayed.last, replayed.reserved);
        authority.take_up(now, &replayed.parties);
        authority.fence_all(replayed.reserved.epoch);
        authority.end_processes();
        let touched = authority.node.state().buffers().map(|(id, _)| id).collect();
        authority.node.touched = touched;
        // Tags are refreshed; nobody follows yet.
        authority.publish(&mut Vec::new());
        Ok(authority)
    }

    /// Lets those come back who were there; who cannot prove who it is has left.
    fn take_up(&mut self, now: Millis, kept: &BTreeMap<AttachmentId, KeptParty>) {
        let attached: Vec<(AttachmentId, AttachmentKind)> = {
            let attachments = &self.node.state().meta().attachments;
            attachments
                .iter()
                .map(|(id, party)| (*id, party.kind))
                .collect()
        };
        for (id, kind) in &attached {
            let kept = kept.get(id);
            let party = Party {
                kind: *kind,
                is_follower: false,
                is_watcher: kept.is_some_and(|kept| kept.is_watcher),
                secret: kept.map_or(Secret(uuid::Uuid::nil()), |kept| kept.secret),
                connection: None,
                grace_end: Some(now.after(grace_ms(*kind))),
                lease_ms: None,
                // A process of it may have begun without being kept.
                counter_floor: kept.map_or(1, |kept| kept.counter_floor) + limits::COUNTER_STRIDE,
            };
            self.parties.insert(*id, party);
        }
        let lease = self.node.log().lease(Shard::Layout).unwrap_or_default();
        let leads = |party: &Party| party.kind == AttachmentKind::Ui && !party.is_watcher;
        self.chief = Some(lease.holder).filter(|id| self.parties.get(id).is_some_and(leads));
        for (id, _) in attached {
            if !kept.contains_key(&id) {
                self.detach(now, id);
            }
        }
    }

    /// Gives every shard that can be leased a new fence, at the entry where it stands.
    fn fence_all(&mut self, epoch: Epoch) {
        let shards: Vec<Shard> = self
            .node
            .state()
            .meta()
            .leases()
            .filter(|(shard, lease)| !shard.is_pinned() && lease.epoch < epoch)
            .map(|(shard, _)| shard)
            .collect();
        for shard in shards {
            let lease = self.node.log().lease(shard).unwrap_or_default();
            let party = self.parties.get(&lease.holder);
            let is_ui = party.is_some_and(|party| party.kind == AttachmentKind::Ui);
            if is_ui && lease.released.is_none() {
                self.grant(shard, lease.holder);
            } else if let Some(chief) = self.chief {
                self.grant(shard, chief);
            } else {
                self.reclaim(shard);
            }
        }
    }

    fn end_processes(&mut self) {
        let processes = self.node.state().meta().processes.keys();
        let ended: Vec<MetaOp> = processes
            .map(|process| MetaOp::ProcExit {
                process: *process,
                code: LOST_PROCESS_CODE,
            })
            .collect();
        for op in ended {
            let noted = self.node.append_meta(op);
            debug_assert!(noted.is_ok(), "the end of a process always applies");
        }
    }
}

/// Replays what was kept: the node is SERVER's, and leads the pinned shards under a new fence.
fn replay(checkpoint: Checkpoint, items: Vec<(Place, Item)>) -> Result<Replayed, RecoverError> {
    let mut node = Node::mirror(SERVER, checkpoint.state, &checkpoint.marks, 1);
    let mut last = checkpoint.upto;
    let mut reserved = checkpoint.reserved;
    let parties = checkpoint.parties.into_iter();
    let mut parties: BTreeMap<AttachmentId, KeptParty> =
        parties.map(|party| (party.attachment, party)).collect();
    for (place, item) in items {
        if place != last.next() {
            return Err(RecoverError::Gap(place));
        }
        last = place;
        match item {
            Item::Entries(records) => {
                for record in &records {
                    replay_one(&mut node, place, record)?;
                }
            }
            Item::Party(party) => {
                parties.insert(party.attachment, party);
            }
            Item::Reserved(more) => reserved = reserved.max(more),
        }
    }
    node.begin_run(reserved.counter, reserved.epoch);
    Ok(Replayed {
        node,
        last,
        reserved,
        parties,
    })
}

/// Replays one record; one that the checkpoint has already is passed over.
fn replay_one(node: &mut Node, place: Place, record: &Record) -> Result<(), RecoverError> {
    let (shard, seq) = (record.shard, record.entry.seq);
    let in_item = |error| RecoverError::Entry(place, error);
    let unknown = NodeError::Log(crate::log::LogError::UnknownShard(shard));
    node.state()
        .applied(shard)
        .ok_or_else(|| in_item(unknown))?;
    let followed = node.follow(shard, &record.bytes).map_err(in_item)?;
    let Some(followed) = followed else {
        return Ok(());
    };
    if followed.chain != record.chain {
        return Err(RecoverError::Chain(place, shard, seq));
    }
    if let Op::Meta(MetaOp::ShardDel(shard)) = &followed.entry.op {
        node.forget_shard(*shard);
    }
    Ok(())
}
