//! A proposal whose parts are decided on apart: what became of each, told as one outcome.

use alloc::vec;
use alloc::vec::Vec;

use super::{Landed, Outcome, Proposal, Refusal};
use crate::ids::BufferId;

impl Proposal {
    /// Returns the proposal of some of its changes, named by their places, which are in order.
    #[must_use]
    pub fn part(&self, at: &[usize]) -> Self {
        Self {
            author: self.author,
            id: self.id,
            atomicity: self.atomicity,
            changes: at.iter().map(|i| self.changes[*i].clone()).collect(),
        }
    }
}

/// The outcomes of a proposal's parts, as they come.
#[derive(Clone, Debug)]
pub struct Parts {
    /// By place in the whole proposal.
    items: Vec<Option<Landed>>,
    refusals: Vec<Refusal>,
    has_landed: bool,
}

impl Parts {
    /// Returns the parts of a proposal of `count` changes, none of them decided on.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            items: vec![None; count],
            refusals: Vec::new(),
            has_landed: false,
        }
    }

    /// Notes how one part ended: the changes at `at`, about `places` as they are now.
    pub fn note(&mut self, at: &[usize], places: Vec<Landed>, outcome: Outcome) {
        let (landed, refusal) = match outcome {
            Ok(landed) => (landed, None),
            Err(refusal) => (Vec::new(), Some(refusal)),
        };
        self.has_landed |= refusal.is_none();
        // Another party's outcome may be shorter than what it was asked.
        let missing = places.into_iter().skip(landed.len()).map(|mut place| {
            place.refusal = refusal.as_ref().map(|refusal| about(refusal, place.buffer));
            place
        });
        let landed: Vec<Landed> = landed.into_iter().chain(missing).collect();
        for (i, landed) in at.iter().zip(landed) {
            self.items[*i] = Some(landed);
        }
        self.refusals.extend(refusal);
    }

    /// Returns whether every change is decided on.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.items.iter().all(Option::is_some)
    }

    /// Returns how the proposal ended: one item a change, those of refused parts with the refusal;
    /// a refusal when no part landed.
    ///
    /// # Errors
    /// What all parts were refused for.
    pub fn outcome(self) -> Outcome {
        match Refusal::of_all(self.refusals) {
            Some(refusal) if !self.has_landed => Err(refusal),
            _ => Ok(self
                .items
                .into_iter()
                .map(Option::unwrap_or_default)
                .collect()),
        }
    }
}

/// Returns what a refusal of several buffers says of one of them; all of it, if nothing.
fn about(refusal: &Refusal, buffer: Option<BufferId>) -> Refusal {
    let Refusal::Several(all) = refusal else {
        return refusal.clone();
    };
    let is_about = |refusal: &&Refusal| match refusal {
        Refusal::Conflict { buffer: of, .. }
        | Refusal::Stale { buffer: of, .. }
        | Refusal::Diverged { buffer: of, .. } => Some(*of) == buffer,
        Refusal::NotFound(_)
        | Refusal::OutOfRange(_)
        | Refusal::SplitLeadership
        | Refusal::Retry(_)
        | Refusal::NotGranted(_)
        | Refusal::Refused(_)
        | Refusal::Several(_) => false,
    };
    let found = Refusal::of_all(all.iter().filter(is_about).cloned());
    found.unwrap_or_else(|| refusal.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Version;

    fn place(buffer: u64, version: u64) -> Landed {
        Landed {
            buffer: Some(BufferId::new(buffer)),
            version: Version::new(version),
            ..Landed::default()
        }
    }

    fn stale(buffer: u64) -> Refusal {
        Refusal::Stale {
            buffer: BufferId::new(buffer),
            version: Version::new(9),
        }
    }

    #[test]
    fn items_are_in_the_order_of_the_changes_and_name_their_own_refusal() {
        let mut parts = Parts::new(4);
        let both = Refusal::Several(vec![stale(1), stale(2)]);
        parts.note(&[0, 2], vec![place(1, 9), place(2, 9)], Err(both));
        assert!(!parts.is_complete());
        let landed = vec![place(3, 4), place(3, 4)];
        parts.note(&[1, 3], vec![place(3, 3); 2], Ok(landed));
        assert!(parts.is_complete());
        let items = parts.outcome().unwrap();
        let buffers: Vec<u64> = items
            .iter()
            .map(|item| item.buffer.unwrap().raw())
            .collect();
        assert_eq!(buffers, [1, 3, 2, 3]);
        assert_eq!(items[0].refusal, Some(stale(1)));
        assert_eq!(items[1], place(3, 4));
        assert_eq!(items[2].refusal, Some(stale(2)));
    }

    #[test]
    fn a_proposal_of_which_nothing_landed_is_refused() {
        let mut parts = Parts::new(2);
        parts.note(&[0], vec![place(1, 9)], Err(stale(1)));
        parts.note(&[1], vec![place(2, 9)], Err(stale(2)));
        let both = Refusal::Several(vec![stale(1), stale(2)]);
        assert_eq!(parts.outcome(), Err(both));
    }

    #[test]
    fn an_outcome_that_is_too_short_or_too_long_decides_on_its_own_changes_only() {
        let mut parts = Parts::new(3);
        parts.note(&[0, 1], vec![place(1, 9), place(2, 9)], Ok(Vec::new()));
        parts.note(&[2], vec![place(3, 9)], Ok(vec![place(4, 1); 5]));
        assert!(parts.is_complete());
        let want = vec![place(1, 9), place(2, 9), place(4, 1)];
        assert_eq!(parts.outcome(), Ok(want));
    }
}
