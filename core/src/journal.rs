//! What outlives the daemon: what an authority hands to a journal, and what it wants back.
//!
//! 1. A journal begins with a [`Checkpoint`] and goes on with numbered [`Item`]s. What is kept is a
//!    checkpoint and the items behind it up to some place: never one without all before it.
//! 2. The authority does no I/O and waits for nothing: whoever drives it takes its items, gives
//!    them to a [`Journal`], and tells it how far they have come. Entries go to followers
//!    meanwhile; what promises that something is kept is said when it is.
//! 3. Numbers that may never be used twice are reserved ahead of their use, so that a journal that
//!    lost its last items still knows which are free.
//!
//! How bytes lie in files, and what a damaged file means, is the business of each journal.

mod disk;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub use self::disk::{Disk, NothingKept};
use crate::ids::{AttachmentId, Epoch, Incarnation, Place, Secret, SessionId};
use crate::log::Record;
use crate::message::Mark;
use crate::state::State;

/// Something to keep, in one piece.
#[derive(Clone, Debug)]
pub enum Item {
    /// Entries that were appended in one step, those of Meta first; at least one.
    Entries(Vec<Arc<Record>>),
    /// An attachment that may come back, as it is by now.
    Party(KeptParty),
    /// Numbers that may be used from now on.
    Reserved(Reserved),
}

/// What is to be known of an attachment beside the metalog: the metalog is for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptParty {
    /// Which.
    pub attachment: AttachmentId,
    /// What it shows to resume.
    pub secret: Secret,
    /// Whether it watches only.
    pub is_watcher: bool,
    /// The first counter that its process may use for ids.
    pub counter_floor: u64,
}

/// The first numbers that were never used, nor will be before a later item says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// First attachment.
    pub attachment: AttachmentId,
    /// First counter of SERVER's ids.
    pub counter: u64,
    /// First epoch, of any shard.
    pub epoch: Epoch,
}

impl Reserved {
    /// Returns the larger of both, number by number.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            attachment: self.attachment.max(other.attachment),
            counter: self.counter.max(other.counter),
            epoch: self.epoch.max(other.epoch),
        }
    }
}

/// A session as a value, in place of all items before it.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Its identity.
    pub session: SessionId,
    /// The runs of its authority that a client may come back to, oldest first; the last is the one
    /// that made this.
    pub incarnations: Vec<Incarnation>,
    /// The last item that it stands for.
    pub upto: Place,
    /// Which numbers are free.
    pub reserved: Reserved,
    /// Who may come back.
    pub parties: Vec<KeptParty>,
    /// Where the logs stand.
    pub marks: Vec<Mark>,
    /// The state there: a clone, which is encoded by whoever writes it.
    pub state: State,
}

/// How far items are kept; the items up to and including these places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// What survives the end of the daemon's process, however it comes.
    pub written: Place,
    /// What survives loss of power; never behind `written`.
    pub synced: Place,
}

/// What a journal has after a restart.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The newest whole checkpoint.
    pub checkpoint: Checkpoint,
    /// The items behind it, in order and without gaps, as far as they are there.
    pub items: Vec<(Place, Item)>,
}

/// Where an authority's items go. Nothing here waits: how far it has come is asked for.
pub trait Journal {
    /// Why it gives nothing back.
    type Error: core::error::Error;

    /// Begins, or goes on, with a checkpoint. It counts as an item: until it is synced, what was
    /// there before stays, and afterwards the items up to its place may be dropped.
    fn checkpoint(&mut self, checkpoint: Checkpoint);

    /// Takes the next item.
    fn put(&mut self, place: Place, item: Item);

    /// Returns how far it has come. Once it failed, marks do not move.
    fn marks(&self) -> Marks;

    /// Returns what is there, as after a restart.
    ///
    /// # Errors
    /// There is nothing, or it is damaged otherwise than an interrupted write damages it.
    fn kept(&self) -> Result<Kept, Self::Error>;
}
