//! Which entries of proposals are taken, and what authors were told.
//!
//! 1. Entries of a proposal are taken from the leader that is asked about it, once. An author that
//!    was told to try again must not find its proposal done later, so any other append with them
//!    is refused; its leader then begins anew with a fresh snapshot.
//! 2. A leader says what it accepted before its entries arrive. Whether they did, the log knows:
//!    what was refused here is decided on again.
//! 3. An author that asks again, because the answer was lost, is told the same.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::proposals::Key;
use super::{Authority, Output};
use crate::bytes::Bytes;
use crate::canary::{self, Canary};
use crate::entry::Origin;
use crate::ids::{AttachmentId, ProposalId, SERVER, Shard};
use crate::limits;
use crate::log::Record;
use crate::node::NodeError;
use crate::proposal::{Outcome, Refusal};
use crate::wire;

/// What is known of proposals beside where they are.
#[derive(Debug, Default)]
pub(super) struct Landing {
    /// Proposals whose entries were refused, by leader, until it begins anew.
    refused: BTreeMap<AttachmentId, BTreeSet<Key>>,
    /// The newest outcomes, by author.
    told: BTreeMap<AttachmentId, BTreeMap<ProposalId, Outcome>>,
    /// Where parts of the newest proposals are in the log that are decided on apart, by author.
    parts: BTreeMap<AttachmentId, BTreeMap<ProposalId, BTreeSet<Shard>>>,
}

impl Landing {
    pub(super) const fn new() -> Self {
        Self {
            refused: BTreeMap::new(),
            told: BTreeMap::new(),
            parts: BTreeMap::new(),
        }
    }

    /// Remembers what an author is told for good.
    pub(super) fn tell(&mut self, (author, id): Key, outcome: &Outcome) {
        if author == SERVER || is_for_now(outcome) {
            return;
        }
        let told = self.told.entry(author).or_default();
        told.insert(id, outcome.clone());
        if told.len() > limits::TOLD_COUNT_MAX {
            told.pop_first();
        }
    }

    pub(super) fn told(&self, (author, id): Key) -> Option<&Outcome> {
        let told = self.told.get(&author)?.get(&id);
        told.filter(|_| !canary::is_on(Canary::DedupeSkipped))
    }

    pub(super) fn forget_author(&mut self, author: AttachmentId) {
        self.told.remove(&author);
        self.parts.remove(&author);
    }

    /// Remembers that a part is in the log: a leader that is asked again need not know.
    pub(super) fn land(&mut self, (author, id): Key, shard: Shard) {
        let landed = self.parts.entry(author).or_default();
        landed.entry(id).or_default().insert(shard);
        if landed.len() > limits::TOLD_COUNT_MAX {
            landed.pop_first();
        }
    }

    pub(super) fn is_in(&self, (author, id): Key, shard: Shard) -> bool {
        let landed = self.parts.get(&author).and_then(|landed| landed.get(&id));
        landed.is_some_and(|landed| landed.contains(&shard))
    }

    /// Returns whether a leader's entries of a proposal were refused.
    pub(super) fn is_refused(&self, leader: AttachmentId, key: Key) -> bool {
        let refused = self.refused.get(&leader);
        refused.is_some_and(|refused| refused.contains(&key))
    }

    /// Returns whether a leader stands on entries that were refused.
    pub(super) fn is_astray(&self, leader: AttachmentId) -> bool {
        self.refused.contains_key(&leader)
    }

    /// A leader begins anew: what it says from now on, it says without what was refused.
    pub(super) fn begin(&mut self, leader: AttachmentId) {
        self.refused.remove(&leader);
    }
}

impl Authority {
    /// Takes entries of a leader, as far as it is asked about the proposals that they are of.
    pub(super) fn take(
        &mut self,
        from: AttachmentId,
        appends: &[(Shard, Vec<Bytes>)],
    ) -> Result<Vec<alloc::sync::Arc<Record>>, NodeError> {
        let routed = &self.routed;
        let may_land = |origin: Origin| {
            let routed = routed.get(&((origin.author, origin.id), from));
            routed.is_some_and(|routed| !routed.is_landed)
        };
        let taken = self.node.accept_of(from, appends, may_land);
        match &taken {
            Ok(records) => {
                for record in records {
                    if let Some(origin) = record.entry.origin
                        && let Some(routed) =
                            self.routed.get_mut(&((origin.author, origin.id), from))
                    {
                        routed.is_landed = true;
                        if !routed.is_whole() {
                            self.landing.land((origin.author, origin.id), record.shard);
                        }
                    }
                }
            }
            Err(_) => {
                let entries = appends.iter().flat_map(|(_, entries)| entries);
                let entries = entries.filter_map(|bytes| wire::decode_entry(bytes).ok());
                for origin in entries.filter_map(|entry| entry.origin) {
                    let refused = self.landing.refused.entry(from).or_default();
                    refused.insert((origin.author, origin.id));
                }
            }
        }
        taken
    }

    /// Tells an author that asks again what it was told. Returns whether there is anything to tell.
    pub(super) fn tell_again(&mut self, key: Key, out: &mut Vec<Output>) -> bool {
        let Some(outcome) = self.landing.told(key).cloned() else {
            return false;
        };
        self.answer(key.0, key.1, outcome, out);
        true
    }
}

/// Returns whether an author may ask again for what was put off.
fn is_for_now(outcome: &Outcome) -> bool {
    let is_retry = |refusal: &Refusal| match refusal {
        Refusal::Retry(_) => true,
        Refusal::Several(all) => all.iter().any(|one| matches!(one, Refusal::Retry(_))),
        _ => false,
    };
    match outcome {
        Ok(landed) => landed
            .iter()
            .filter_map(|l| l.refusal.as_ref())
            .any(is_retry),
        Err(refusal) => is_retry(refusal),
    }
}
