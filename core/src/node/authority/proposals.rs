//! Routing proposals to whoever leads, and bringing the outcomes back.
//!
//! 1. Proposals of one author that share a shard are decided on in the order of their ids: what
//!    waits is not overtaken.
//! 2. A proposal `Each` goes in parts to the leaders of its buffers; a part whose leader is away
//!    waits alone. The author is answered once, when every part is decided on.
//! 3. A leader can be asked twice about the same part, when leases moved meanwhile: its last answer
//!    counts, because it knows of all before.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::{Authority, Output};
use crate::ids::{AttachmentId, ConnectionId, Millis, ProposalId, SERVER, Shard};
use crate::limits;
use crate::message::ServerMessage;
use crate::proposal::{Atomicity, Change, Outcome, Parts, Proposal, Refusal};

/// A proposal's name: whose, and which.
pub(super) type Key = (AttachmentId, ProposalId);

/// A proposal, or those of its changes that are decided on together.
#[derive(Clone, Debug)]
pub(super) struct Part {
    proposal: Proposal,
    /// The places of its changes in the whole; none when it is the whole.
    at: Option<Vec<usize>>,
}

impl Part {
    const fn whole(proposal: Proposal) -> Self {
        Self { proposal, at: None }
    }

    const fn key(&self) -> Key {
        (self.proposal.author, self.proposal.id)
    }

    /// Returns the part of some of its changes.
    fn part(&self, at: &[usize]) -> Self {
        let whole = |i: &usize| self.at.as_ref().map_or(*i, |places| places[*i]);
        Self {
            proposal: self.proposal.part(at),
            at: Some(at.iter().map(whole).collect()),
        }
    }
}

/// What a leader is deciding on.
#[derive(Clone, Debug)]
pub(super) struct Routed {
    part: Part,
    pub(super) deadline: Millis,
}

/// What waits for a leader that is away.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    part: Part,
    /// When the author is told to retry; SERVER's own proposals wait until they are decided.
    pub(super) deadline: Option<Millis>,
}

/// Where a proposal goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Route {
    /// This connection's attachment leads.
    Leader(AttachmentId, ConnectionId),
    /// SERVER leads.
    Server,
    /// The leader is away, leases are moving, or an earlier proposal of the author waits.
    Nobody,
    /// A shard is not there.
    Missing(Shard),
    /// More than one party leads.
    Split,
}

/// The shards of proposals that wait, by author.
type Held = BTreeSet<(AttachmentId, Shard)>;

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
            part: Part::whole(proposal),
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
        if self.is_under_way((from, id)) {
            // Sent again before it was decided on: one answer is enough.
            return;
        }
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
        let part = Part::whole(proposal);
        self.waiting.push_back(Waiting { part, deadline });
        self.settle(now, out);
    }

    fn is_under_way(&self, key: Key) -> bool {
        let asked = (key, SERVER)..=(key, AttachmentId::new(u64::MAX));
        self.gathered.contains_key(&key)
            || self.routed.range(asked).next().is_some()
            || self.waiting.iter().any(|waiting| waiting.part.key() == key)
    }

    /// Routes the proposals that wait, in order, as far as their leaders are there.
    pub(super) fn route_waiting(&mut self, now: Millis, out: &mut Vec<Output>) {
        let mut held = Held::new();
        for _ in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.pop_front() else {
                return;
            };
            if let Some(kept) = self.route(now, waiting, &held, out) {
                let Proposal {
                    author, changes, ..
                } = &kept.part.proposal;
                let shards = changes.iter().map(|change| self.node.shard_of(change));
                held.extend(shards.map(|shard| (*author, shard)));
                self.waiting.push_back(kept);
            }
        }
    }

    /// Sends a proposal to whoever leads, in parts to several. Returns what has to wait.
    fn route(
        &mut self,
        now: Millis,
        waiting: Waiting,
        held: &Held,
        out: &mut Vec<Output>,
    ) -> Option<Waiting> {
        let Waiting { part, deadline } = waiting;
        let goals = self.goals_of(&part.proposal, held);
        let is_split = goals.len() > 1;
        if is_split && part.at.is_none() {
            let parts = Parts::new(part.proposal.changes.len());
            self.gathered.insert(part.key(), parts);
        }
        let mut kept = None;
        for (route, at) in goals {
            let part = if is_split {
                part.part(&at)
            } else {
                part.clone()
            };
            match route {
                Route::Leader(to, connection) => self.ask(now, part, (to, connection), out),
                Route::Server => self.decide_here(&part, out),
                Route::Nobody => kept = Some(Waiting { part, deadline }),
                Route::Missing(shard) => {
                    let refusal = Refusal::NotFound(alloc::format!("{shard}"));
                    self.finish(&part, Err(refusal), out);
                }
                Route::Split => self.finish(&part, Err(Refusal::SplitLeadership), out),
            }
        }
        kept
    }

    fn ask(
        &mut self,
        now: Millis,
        part: Part,
        (to, connection): (AttachmentId, ConnectionId),
        out: &mut Vec<Output>,
    ) {
        let message = ServerMessage::Propose(part.proposal.clone());
        out.push(Output::Send(connection, message));
        let unanswered = self.unanswered.entry(to).or_default();
        *unanswered.entry(part.key()).or_default() += 1;
        let deadline = now.after(limits::PROPOSAL_DECIDE_MS);
        self.routed
            .insert((part.key(), to), Routed { part, deadline });
    }

    /// Returns where a proposal goes, and which of its changes, in order.
    fn goals_of(&self, proposal: &Proposal, held: &Held) -> BTreeMap<Route, Vec<usize>> {
        let key = (proposal.author, proposal.id);
        let mut goals: BTreeMap<Route, Vec<usize>> = BTreeMap::new();
        match proposal.atomicity {
            Atomicity::All => {
                let shards = proposal
                    .changes
                    .iter()
                    .map(|change| self.node.shard_of(change));
                let route = self.route_of(key, &shards.collect(), held);
                goals.insert(route, (0..proposal.changes.len()).collect());
            }
            Atomicity::Each => {
                for (shard, at) in self.node.parts_of(proposal) {
                    let route = self.route_of(key, &BTreeSet::from([shard]), held);
                    goals.entry(route).or_default().extend(at);
                }
                goals.values_mut().for_each(|at| at.sort_unstable());
            }
        }
        goals
    }

    fn route_of(&self, key: Key, shards: &BTreeSet<Shard>, held: &Held) -> Route {
        let mut leaders = BTreeSet::new();
        for shard in shards {
            let Some(lease) = self.node.log().lease(*shard) else {
                return Route::Missing(*shard);
            };
            let is_held = held.contains(&(key.0, *shard));
            if is_held || lease.released.is_some() || self.is_moving(*shard) {
                return Route::Nobody;
            }
            leaders.insert(lease.holder);
        }
        let mut leaders = leaders.into_iter();
        let leader = leaders.next().unwrap_or(SERVER);
        if leaders.next().is_some() {
            return Route::Split;
        }
        if leader == SERVER {
            return Route::Server;
        }
        let party = self.parties.get(&leader);
        match party.and_then(|party| party.connection) {
            Some(connection) if self.may_ask(key, leader) => Route::Leader(leader, connection),
            _ => Route::Nobody,
        }
    }

    /// Returns whether a leader can be asked now: it is not deciding on another part of the same
    /// proposal, nor on too many.
    fn may_ask(&self, key: Key, leader: AttachmentId) -> bool {
        let unanswered = self.unanswered.get(&leader);
        let is_full = unanswered.is_some_and(|all| all.len() >= limits::PROPOSAL_QUEUE_COUNT_MAX);
        !is_full && !self.routed.contains_key(&(key, leader))
    }

    fn decide_here(&mut self, part: &Part, out: &mut Vec<Output>) {
        let (outcome, after) = self.node.decide(&part.proposal);
        let follow_ups: Vec<Output> = after
            .into_iter()
            .filter_map(|after| self.host_follow_up(after))
            .collect();
        // The entries go out before the outcome, so that the author has them when it hears of it.
        self.publish(out);
        self.finish(part, outcome, out);
        out.extend(follow_ups);
    }

    /// Notes how a part ended; tells the author once nothing more is to be decided.
    fn finish(&mut self, part: &Part, outcome: Outcome, out: &mut Vec<Output>) {
        let (author, id) = part.key();
        let Some(at) = &part.at else {
            return self.answer(author, id, outcome, out);
        };
        let places = self.node.places_of(&part.proposal);
        let Some(parts) = self.gathered.get_mut(&part.key()) else {
            return;
        };
        parts.note(at, places, outcome);
        if parts.is_complete()
            && let Some(parts) = self.gathered.remove(&part.key())
        {
            self.answer(author, id, parts.outcome(), out);
        }
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
        if !self.is_last_answer(key, from) {
            return;
        }
        let Some(routed) = self.routed.remove(&(key, from)) else {
            // Late: it went to another leader meanwhile, who knows whether it was applied.
            return;
        };
        if author == SERVER && matches!(outcome, Err(Refusal::Retry(_))) {
            return self.wait(routed.part, None);
        }
        self.settle(now, out);
        self.finish(&routed.part, outcome, out);
    }

    /// Counts an answer of a leader. Returns whether it has answered all that it was asked about
    /// this proposal.
    fn is_last_answer(&mut self, key: Key, from: AttachmentId) -> bool {
        let Some(unanswered) = self.unanswered.get_mut(&from) else {
            return false;
        };
        let Some(count) = unanswered.get_mut(&key) else {
            return false;
        };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            unanswered.remove(&key);
        }
        is_last
    }

    /// Lets a part wait, ahead of what its author proposed later.
    fn wait(&mut self, part: Part, deadline: Option<Millis>) {
        let (author, id) = part.key();
        let is_later = |waiting: &Waiting| {
            let (of, later) = waiting.part.key();
            of == author && later > id
        };
        let place = self.waiting.iter().position(is_later);
        let waiting = Waiting { part, deadline };
        self.waiting
            .insert(place.unwrap_or(self.waiting.len()), waiting);
    }

    /// Proposals that a former leader has not decided on go to whoever leads now. The buffers know
    /// which of them it had applied.
    pub(super) fn reroute(&mut self, now: Millis, former: AttachmentId) {
        let (back, kept) = core::mem::take(&mut self.routed)
            .into_iter()
            .partition(|((_, to), _)| *to == former);
        let back: BTreeMap<_, Routed> = back;
        self.routed = kept;
        for (((author, _), _), routed) in back {
            let deadline = (author != SERVER).then(|| now.after(limits::PROPOSAL_WAIT_MS));
            self.wait(routed.part, deadline);
        }
    }

    /// A leader's connection ended, and with it what it was asked there.
    pub(super) fn reroute_unheard(&mut self, now: Millis, leader: AttachmentId) {
        self.unanswered.remove(&leader);
        self.reroute(now, leader);
    }

    /// Drops what an attachment that left had proposed.
    pub(super) fn forget_proposals(&mut self, author: AttachmentId) {
        self.routed.retain(|((of, _), _), _| *of != author);
        self.waiting
            .retain(|waiting| waiting.part.key().0 != author);
        self.gathered.retain(|(of, _), _| *of != author);
    }

    /// Tells authors whose leader did not come back, or does not answer, to retry.
    pub(super) fn end_proposals(&mut self, now: Millis, out: &mut Vec<Output>) {
        let late: Vec<_> = self
            .routed
            .iter()
            .filter(|(_, routed)| routed.deadline <= now)
            .map(|(asked, _)| *asked)
            .collect();
        for asked in late {
            let Some(routed) = self.routed.remove(&asked) else {
                continue;
            };
            if routed.part.key().0 == SERVER {
                let deadline = now.after(limits::PROPOSAL_DECIDE_MS);
                self.routed.insert(asked, Routed { deadline, ..routed });
            } else {
                let refusal = Refusal::Retry(String::from("the leading UI does not answer"));
                self.finish(&routed.part, Err(refusal), out);
            }
        }
        let is_late = |waiting: &Waiting| waiting.deadline.is_some_and(|end| end <= now);
        let (late, kept): (Vec<_>, Vec<_>) = core::mem::take(&mut self.waiting)
            .into_iter()
            .partition(is_late);
        self.waiting = kept.into();
        for waiting in late {
            let refusal = Refusal::Retry(String::from("the leader is away"));
            self.finish(&waiting.part, Err(refusal), out);
        }
    }
}
