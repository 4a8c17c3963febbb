//! What the authority hands to a journal, and what it says only once that is kept.
//!
//! 1. Entries are handed over in the order in which they were appended, and go to followers at the
//!    same time. After a loss a follower may have entries that the journal has not: it is cut back
//!    by its snapshot, and who typed them ships them again.
//! 2. Acknowledgements, outcomes and answers promise that something is kept: they are held back
//!    until it is written. Who appended hears again once it is synced, and keeps it until then.
//! 3. Attachments, epochs and SERVER's counters are used only as far as a synced item reserved
//!    them.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Authority, Output};
use crate::ids::{AttachmentId, ConnectionId, Epoch, Incarnation, Place, Seq, Shard};
use crate::journal::{Checkpoint, Item, KeptParty, Marks, Reserved};
use crate::limits;
use crate::log::Record;
use crate::message::{AckMark, Mark, ServerMessage};

/// Appends of one party that are not kept yet.
#[derive(Clone, Debug)]
struct Unkept {
    upto: Place,
    of: AttachmentId,
    /// Their last entries.
    heads: Vec<(Shard, Seq)>,
}

/// The authority's side of a journal.
#[derive(Clone, Debug)]
pub(super) struct Journaling {
    is_on: bool,
    items: Vec<(Place, Item)>,
    last: Place,
    marks: Marks,
    /// What promises that the items up to a place are written.
    held: VecDeque<(Place, Output)>,
    unwritten: VecDeque<Unkept>,
    unsynced: VecDeque<Unkept>,
    /// The first numbers that this run may use, and the first that it may not.
    first: Reserved,
    reserved: Reserved,
    /// Reservations that are not synced.
    asked: VecDeque<(Place, Reserved)>,
    /// One past the highest epoch of any shard.
    next_epoch: Epoch,
}

/// Every number there is.
const ALL: Reserved = Reserved {
    attachment: AttachmentId::new(u64::MAX),
    counter: u64::MAX,
    epoch: Epoch::new(u64::MAX),
};

impl Journaling {
    /// Returns the side of a session that is not kept.
    pub(super) const fn off() -> Self {
        Self {
            is_on: false,
            items: Vec::new(),
            last: Place::new(0),
            marks: Marks {
                written: Place::new(0),
                synced: Place::new(0),
            },
            held: VecDeque::new(),
            unwritten: VecDeque::new(),
            unsynced: VecDeque::new(),
            first: Reserved {
                attachment: AttachmentId::new(1),
                counter: 1,
                epoch: Epoch::new(1),
            },
            reserved: ALL,
            asked: VecDeque::new(),
            next_epoch: Epoch::new(1),
        }
    }

    /// Returns the side of a run that goes on behind what was kept of the one before.
    pub(super) const fn behind(last: Place, first: Reserved) -> Self {
        let mut behind = Self::off();
        behind.last = last;
        behind.first = first;
        behind.next_epoch = first.epoch;
        behind
    }

    /// Returns the first numbers that may not be used yet.
    pub(super) const fn reserved(&self) -> Reserved {
        self.reserved
    }

    /// Returns the epoch of a shard after `epoch`, if it may be used. The first is always 1: who
    /// makes a shard leads it at once, and nobody else makes one of that name.
    pub(super) fn next_epoch(&mut self, epoch: Epoch) -> Option<Epoch> {
        let is_first = epoch == Epoch::default();
        let next = if is_first {
            epoch.next()
        } else {
            epoch.next().max(self.first.epoch)
        };
        if next >= self.reserved.epoch && !is_first {
            return None;
        }
        self.next_epoch = self.next_epoch.max(next.next());
        Some(next)
    }

    fn put(&mut self, item: Item) {
        if self.is_on {
            self.last = self.last.next();
            self.items.push((self.last, item));
        }
    }

    pub(super) fn put_entries(&mut self, records: &[Arc<Record>]) {
        if self.is_on {
            self.put(Item::Entries(records.to_vec()));
        }
    }

    const fn is_written(&self) -> bool {
        !self.is_on || self.last.raw() <= self.marks.written.raw()
    }
}

impl Authority {
    /// Begins to hand over what is to be kept. The journal begins with what this returns; until
    /// that is synced nobody can join.
    pub fn begin_journal(&mut self) -> Checkpoint {
        self.journaling.is_on = true;
        self.journaling.last = self.journaling.last.next();
        self.journaling.reserved = Reserved::default();
        let reserved = self.next_reserved();
        self.journaling.asked = VecDeque::from([(self.journaling.last, reserved)]);
        self.checkpoint()
    }

    /// Returns the session as it is, to be kept in place of all items that were handed over.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        let asked = self.journaling.asked.back().map(|(_, reserved)| *reserved);
        let mut incarnations = self.former_runs.clone();
        incarnations.push(self.genesis.incarnation);
        Checkpoint {
            session: self.genesis.session,
            incarnations,
            upto: self.journaling.last,
            reserved: asked.unwrap_or(self.journaling.reserved),
            parties: self.parties.keys().map(|id| self.kept_party(*id)).collect(),
            marks: self.node.log().marks(),
            state: self.node.state().clone(),
        }
    }

    /// Returns the items since the last call, in order: the journal's next.
    pub fn take_items(&mut self) -> Vec<(Place, Item)> {
        core::mem::take(&mut self.journaling.items)
    }

    /// Hears how far the journal has come, and says what was held back for that.
    pub fn note_kept(&mut self, marks: Marks, out: &mut Vec<Output>) {
        let journaling = &mut self.journaling;
        journaling.marks = marks;
        let mut acks: BTreeMap<AttachmentId, BTreeMap<Shard, AckMark>> = BTreeMap::new();
        let mut tell = |unkept: &Unkept, is_synced: bool| {
            let marks = acks.entry(unkept.of).or_default();
            for (shard, seq) in &unkept.heads {
                let mark = marks.entry(*shard).or_insert_with(|| unkept_mark(*shard));
                mark.received = mark.received.max(*seq);
                mark.written = mark.written.max(*seq);
                if is_synced {
                    mark.synced = mark.synced.max(*seq);
                }
            }
        };
        while let Some(unkept) = journaling
            .unwritten
            .pop_front_if(|u| u.upto <= marks.written)
        {
            tell(&unkept, false);
            journaling.unsynced.push_back(unkept);
        }
        while let Some(unkept) = journaling.unsynced.pop_front_if(|u| u.upto <= marks.synced) {
            tell(&unkept, true);
        }
        while let Some((_, reserved)) = journaling.asked.pop_front_if(|a| a.0 <= marks.synced) {
            journaling.reserved = journaling.reserved.max(reserved);
        }
        for (of, marks) in acks {
            let party = self.parties.get(&of);
            if let Some(connection) = party.and_then(|party| party.connection) {
                let marks = marks.into_values().collect();
                out.push(Output::Send(connection, ServerMessage::Acked(marks)));
            }
        }
        while let Some((_, said)) = self.journaling.held.pop_front_if(|h| h.0 <= marks.written) {
            out.push(said);
        }
    }

    /// Says what promises that everything up to now is kept, once it is.
    pub(super) fn promise(
        &mut self,
        said: impl IntoIterator<Item = Output>,
        out: &mut Vec<Output>,
    ) {
        if self.journaling.is_written() && self.journaling.held.is_empty() {
            return out.extend(said);
        }
        let last = self.journaling.last;
        let said = said.into_iter().map(|said| (last, said));
        self.journaling.held.extend(said);
    }

    /// Acknowledges appends, once they are written and once they are synced.
    pub(super) fn acknowledge(
        &mut self,
        (connection, of): (ConnectionId, AttachmentId),
        marks: Vec<AckMark>,
        out: &mut Vec<Output>,
    ) {
        if !self.journaling.is_on {
            return out.push(Output::Send(connection, ServerMessage::Acked(marks)));
        }
        let heads = marks.iter().map(|mark| (mark.shard, mark.received));
        self.journaling.unwritten.push_back(Unkept {
            upto: self.journaling.last,
            of,
            heads: heads.collect(),
        });
        if self.journaling.is_written() {
            // A retry of what is written already.
            self.note_kept(self.journaling.marks, out);
        }
    }

    /// Tells a party that comes back which of its entries arrived: its tail begins behind them,
    /// also where another party has appended since.
    pub(super) fn tell_arrived(
        &self,
        (connection, id): (ConnectionId, AttachmentId),
        marks: &[Mark],
        out: &mut Vec<Output>,
    ) {
        let log = self.node.log();
        let last_own = |mark: &Mark| {
            let own = log.last_of(mark.shard, id)?;
            Some(AckMark {
                received: own,
                ..unkept_mark(mark.shard)
            })
        };
        let marks: Vec<AckMark> = marks.iter().filter_map(last_own).collect();
        if !marks.is_empty() {
            out.push(Output::Send(connection, ServerMessage::Acked(marks)));
        }
    }

    /// Says, ahead of a snapshot, what of a party has arrived and is not kept yet.
    pub(super) fn tell_received(
        &self,
        (connection, id): (ConnectionId, AttachmentId),
        out: &mut Vec<Output>,
    ) {
        let own = self.journaling.unwritten.iter().filter(|u| u.of == id);
        let marks: Vec<AckMark> = own
            .flat_map(|unkept| &unkept.heads)
            .map(|(shard, seq)| AckMark {
                received: *seq,
                ..unkept_mark(*shard)
            })
            .collect();
        if !marks.is_empty() {
            out.push(Output::Send(connection, ServerMessage::Acked(marks)));
        }
    }

    /// Keeps what is to be known of a party beside the metalog.
    pub(super) fn keep_party(&mut self, id: AttachmentId) {
        let party = self.kept_party(id);
        self.journaling.put(Item::Party(party));
    }

    fn kept_party(&self, id: AttachmentId) -> KeptParty {
        let party = &self.parties[&id];
        KeptParty {
            attachment: id,
            secret: party.secret,
            is_watcher: party.is_watcher,
            counter_floor: party.counter_floor,
        }
    }

    /// Returns the id of the next attachment.
    pub(super) fn next_attachment(&self) -> AttachmentId {
        let next = self.node.state().meta().next_attachment();
        next.max(self.journaling.first.attachment)
    }

    /// Returns whether an incarnation is this run, or one whose log this run goes on with.
    pub(super) fn was_run(&self, incarnation: Incarnation) -> bool {
        incarnation == self.genesis.incarnation || self.former_runs.contains(&incarnation)
    }

    fn used(&self) -> Reserved {
        Reserved {
            attachment: self.next_attachment(),
            counter: self.node.counter(),
            epoch: self.journaling.next_epoch,
        }
    }

    fn next_reserved(&self) -> Reserved {
        let used = self.used();
        Reserved {
            attachment: AttachmentId::new(
                used.attachment.raw() + limits::RESERVED_ATTACHMENT_COUNT,
            ),
            counter: used.counter + limits::RESERVED_COUNTER_COUNT,
            epoch: Epoch::new(used.epoch.raw() + limits::RESERVED_EPOCH_COUNT),
        }
    }

    /// Reserves further numbers once half of those that were asked for are used.
    pub(super) fn reserve(&mut self) {
        if !self.journaling.is_on {
            return;
        }
        let asked = self.journaling.asked.back().map(|(_, reserved)| *reserved);
        let asked = asked.unwrap_or(self.journaling.reserved);
        let used = self.used();
        let attachment = used.attachment.raw() + limits::RESERVED_ATTACHMENT_COUNT / 2;
        let counter = used.counter + limits::RESERVED_COUNTER_COUNT / 2;
        let epoch = used.epoch.raw() + limits::RESERVED_EPOCH_COUNT / 2;
        if attachment > asked.attachment.raw()
            || counter > asked.counter
            || epoch > asked.epoch.raw()
        {
            let next = self.next_reserved();
            self.journaling.put(Item::Reserved(next));
            self.journaling
                .asked
                .push_back((self.journaling.last, next));
        }
    }
}

/// Returns the mark of a shard of which nothing is kept.
fn unkept_mark(shard: Shard) -> AckMark {
    AckMark {
        shard,
        received: Seq::default(),
        written: Seq::default(),
        synced: Seq::default(),
    }
}
