//! Deciding on proposals that the daemon routed here: each once, though it may ask twice.
//!
//! 1. What comes while a fresh snapshot is on its way is decided on when it is there.
//! 2. What was decided is answered again in the same way, as long as the replica has what was
//!    done. Parts of one proposal have one name; of them the buffers know what was done.
//! 3. Entries of a proposal are alone in their append, so that they land whole or not at all.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Client, ClientEvent};
use crate::ids::{AttachmentId, ProposalId};
use crate::message::ClientMessage;
use crate::proposal::{Atomicity, Outcome, Proposal, Refusal};

/// How many outcomes are kept at least, and half as many as at most.
const DECIDED_COUNT: usize = 256;

type Key = (AttachmentId, ProposalId);

/// What waits to be decided on, and what was decided.
#[derive(Debug)]
pub(super) struct Deciding {
    waiting: Vec<Proposal>,
    newest: BTreeMap<Key, Outcome>,
    older: BTreeMap<Key, Outcome>,
}

impl Deciding {
    pub(super) const fn new() -> Self {
        Self {
            waiting: Vec::new(),
            newest: BTreeMap::new(),
            older: BTreeMap::new(),
        }
    }

    /// Forgets what waits: the daemon asks again on a new connection.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Forgets what was decided: a fresh replica need not have it.
    pub(super) fn forget_decided(&mut self) {
        self.newest.clear();
        self.older.clear();
    }

    fn outcome(&self, proposal: &Proposal) -> Option<&Outcome> {
        let key = (proposal.author, proposal.id);
        let known = self.newest.get(&key).or_else(|| self.older.get(&key));
        known.filter(|_| proposal.atomicity == Atomicity::All)
    }

    fn note(&mut self, proposal: &Proposal, outcome: &Outcome) {
        let is_final = !matches!(outcome, Err(Refusal::Retry(_)));
        if is_final && proposal.atomicity == Atomicity::All {
            if self.newest.len() >= DECIDED_COUNT {
                self.older = core::mem::take(&mut self.newest);
            }
            let key = (proposal.author, proposal.id);
            self.newest.insert(key, outcome.clone());
        }
    }
}

impl Client {
    pub(super) fn take_proposal(
        &mut self,
        proposal: Proposal,
        out: &mut Vec<ClientMessage>,
        events: &mut Vec<ClientEvent>,
    ) {
        if self.is_resyncing || self.node.is_none() {
            // The daemon bounds how many it asks about before they are answered.
            self.deciding.waiting.push(proposal);
        } else {
            self.decide(&proposal, out, events);
        }
    }

    /// Decides on what came while a snapshot was on its way.
    pub(super) fn decide_waiting(
        &mut self,
        out: &mut Vec<ClientMessage>,
        events: &mut Vec<ClientEvent>,
    ) {
        for proposal in core::mem::take(&mut self.deciding.waiting) {
            self.decide(&proposal, out, events);
        }
    }

    fn decide(
        &mut self,
        proposal: &Proposal,
        out: &mut Vec<ClientMessage>,
        events: &mut Vec<ClientEvent>,
    ) {
        let (author, id) = (proposal.author, proposal.id);
        self.flush(out);
        let known = self.deciding.outcome(proposal).cloned();
        let outcome = match (known, &mut self.node) {
            (Some(outcome), _) => outcome,
            (None, Some(node)) => {
                let (outcome, after) = node.decide(proposal);
                self.deciding.note(proposal, &outcome);
                self.flush(out);
                events.extend(after.into_iter().map(ClientEvent::FollowUp));
                outcome
            }
            (None, None) => return,
        };
        out.push(ClientMessage::Decided {
            author,
            id,
            outcome,
        });
    }
}
