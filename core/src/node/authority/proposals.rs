//! Routing proposals to whoever leads, and bringing the outcomes back.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Authority, Output};
use crate::ids::{AttachmentId, ConnectionId, Millis, ProposalId, SERVER, Shard};
use crate::limits;
use crate::message::ServerMessage;
use crate::proposal::{Atomicity, Change, Outcome, Proposal, Refusal};

/// A proposal that a leader is deciding on.
#[derive(Clone, Debug)]
pub(super) struct Routed {
    proposal: Proposal,
    to: AttachmentId,
    pub(super) deadline: Millis,
}

/// A proposal whose leader is away.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) proposal: Proposal,
    /// When the author is told to retry; SERVER's own proposals wait until they are decided.
    pub(super) deadline: Option<Millis>,
}

/// Where a proposal goes.
enum Route {
    /// This connection's attachment leads.
    Leader(AttachmentId, ConnectionId),
    /// SERVER leads.
    Server,
    /// The leader is away, or leases are moving.
    Nobody,
    /// Nothing can be done.
    Refuse(Refusal),
}

impl Authority {
    /// Proposes changes as SERVER: what the host found out or was asked for. They wait for a leader
    /// that is away, however long.
    pub fn propose_as_server(
        &mut self,
        now: Millis,
        changes: Vec<Change>,
        out: &mut Vec<Output>,
    ) -> ProposalId {
        let id = self.node.new_proposal();
        let proposal = Proposal {
            author: SERVER,
            id,
            atomicity: Atomicity::All,
            changes,
        };
        self.waiting.push_back(Waiting {
            proposal,
            deadline: None,
        });
        self.settle(now, out);
        id
    }

    pub(super) fn propose(
        &mut self,
        now: Millis,
        from: AttachmentId,
        proposal: Proposal,
        out: &mut Vec<Output>,
    ) {
        let id = proposal.id;
        let refusal = if proposal.author != from {
            Some(Refusal::Refused(String::from(
                "a proposal names its own author",
            )))
        } else if self.is_watcher(from) {
            Some(Refusal::NotGranted(String::from(
                "a watching UI changes nothing",
            )))
        } else if self.waiting.len() >= limits::PROPOSAL_QUEUE_COUNT_MAX {
            Some(Refusal::Retry(String::from("too many proposals wait")))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return self.answer(from, id, Err(refusal), out);
        }
        let deadline = Some(now.after(limits::PROPOSAL_WAIT_MS));
        self.waiting.push_back(Waiting { proposal, deadline });
        self.settle(now, out);
    }

    /// Routes the proposals that wait, in order, as far as their leaders are there.
    pub(super) fn route_waiting(&mut self, now: Millis, out: &mut Vec<Output>) {
        for _ in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.pop_front() else {
                return;
            };
            match self.route_of(&waiting.proposal) {
                Route::Nobody => self.waiting.push_back(waiting),
                Route::Refuse(refusal) => {
                    let Proposal { author, id, .. } = waiting.proposal;
                    self.answer(author, id, Err(refusal), out);
                }
                Route::Server => self.decide_here(&waiting.proposal, out),
                Route::Leader(to, connection) => {
                    let proposal = waiting.proposal;
                    let message = ServerMessage::Propose(proposal.clone());
                    out.push(Output::Send(connection, message));
                    let deadline = now.after(limits::PROPOSAL_DECIDE_MS);
                    let key = (proposal.author, proposal.id);
                    self.routed.insert(
                        key,
                        Routed {
                            proposal,
                            to,
                            deadline,
                        },
                    );
                }
            }
        }
    }

    fn route_of(&self, proposal: &Proposal) -> Route {
        let shard_of = |change: &Change| change.buffer().map_or(Shard::Layout, Shard::Buffer);
        let shards: BTreeSet<Shard> = proposal.changes.iter().map(shard_of).collect();
        let mut leaders = BTreeSet::new();
        for shard in shards {
            let Some(lease) = self.node.log().lease(shard) else {
                return Route::Refuse(Refusal::NotFound(alloc::format!("{shard}")));
            };
            if lease.released.is_some() || self.is_moving(shard) {
                return Route::Nobody;
            }
            leaders.insert(lease.holder);
        }
        let mut leaders = leaders.into_iter();
        let leader = leaders.next().unwrap_or(SERVER);
        if leaders.next().is_some() {
            return Route::Refuse(Refusal::SplitLeadership);
        }
        if leader == SERVER {
            return Route::Server;
        }
        let party = self.parties.get(&leader);
        match party.and_then(|party| party.connection) {
            Some(connection) => Route::Leader(leader, connection),
            None => Route::Nobody,
        }
    }

    fn decide_here(&mut self, proposal: &Proposal, out: &mut Vec<Output>) {
        let (outcome, after) = self.node.decide(proposal);
        let follow_ups: Vec<Output> = after
            .into_iter()
            .filter_map(|after| self.host_follow_up(after))
            .collect();
        // The entries go out before the outcome, so that the author has them when it hears of it.
        self.publish(out);
        self.answer(proposal.author, proposal.id, outcome, out);
        out.extend(follow_ups);
    }

    /// Tells the author how a proposal ended.
    fn answer(
        &self,
        author: AttachmentId,
        id: ProposalId,
        outcome: Outcome,
        out: &mut Vec<Output>,
    ) {
        if author == SERVER {
            return out.push(Output::Decided(id, outcome));
        }
        let party = self.parties.get(&author);
        if let Some(connection) = party.and_then(|party| party.connection) {
            out.push(Output::Send(
                connection,
                ServerMessage::ProposeResult { id, outcome },
            ));
        }
    }

    /// A leader decided.
    pub(super) fn decided(
        &mut self,
        now: Millis,
        from: AttachmentId,
        (author, id, outcome): (AttachmentId, ProposalId, Outcome),
        out: &mut Vec<Output>,
    ) {
        let key = (author, id);
        if self.routed.get(&key).is_none_or(|routed| routed.to != from) {
            // Late: it went to another leader meanwhile, who knows whether it was applied.
            return;
        }
        let Some(routed) = self.routed.remove(&key) else {
            return;
        };
        if key.0 == SERVER && matches!(outcome, Err(Refusal::Retry(_))) {
            self.waiting.push_back(Waiting {
                proposal: routed.proposal,
                deadline: None,
            });
            return;
        }
        self.settle(now, out);
        self.answer(key.0, key.1, outcome, out);
    }

    /// Proposals that a former leader has not decided on go to whoever leads now. The buffers know
    /// which of them it had applied.
    pub(super) fn reroute(&mut self, now: Millis, former: AttachmentId) {
        let (back, kept) = core::mem::take(&mut self.routed)
            .into_iter()
            .partition(|(_, r)| r.to == former);
        let back: alloc::collections::BTreeMap<_, Routed> = back;
        self.routed = kept;
        for ((author, _), routed) in back {
            let deadline = (author != SERVER).then(|| now.after(limits::PROPOSAL_WAIT_MS));
            self.waiting.push_back(Waiting {
                proposal: routed.proposal,
                deadline,
            });
        }
    }

    /// Tells authors whose leader did not come back, or does not answer, to retry.
    pub(super) fn end_proposals(&mut self, now: Millis, out: &mut Vec<Output>) {
        let late: Vec<_> = self
            .routed
            .iter()
            .filter(|(_, routed)| routed.deadline <= now)
            .map(|(key, _)| *key)
            .collect();
        for key in late {
            let Some(routed) = self.routed.remove(&key) else {
                continue;
            };
            if key.0 == SERVER {
                let deadline = now.after(limits::PROPOSAL_DECIDE_MS);
                self.routed.insert(key, Routed { deadline, ..routed });
            } else {
                let refusal = Refusal::Retry(String::from("the leading UI does not answer"));
                self.answer(key.0, key.1, Err(refusal), out);
            }
        }
        let is_late = |waiting: &Waiting| waiting.deadline.is_some_and(|end| end <= now);
        let (late, kept): (Vec<_>, Vec<_>) = core::mem::take(&mut self.waiting)
            .into_iter()
            .partition(is_late);
        self.waiting = kept.into();
        for waiting in late {
            let refusal = Refusal::Retry(String::from("the leader is away"));
            self.answer(
                waiting.proposal.author,
                waiting.proposal.id,
                Err(refusal),
                out,
            );
        }
    }
}
