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
use crate::canary::{self, Canary};
use crate::ids::{AttachmentId, ConnectionId, Millis, ProposalId, SERVER, Shard};
use crate::limits;
use crate::message::ServerMessage;
use crate::proposal::{Atomicity, Change, Landed, Outcome, Parts, Proposal, Refusal};

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
    /// Whether its entries are in the log; then all of them are.
    pub(super) is_landed: bool,
}

impl Routed {
    /// Returns whether all of it lands or nothing.
    pub(super) fn is_whole(&self) -> bool {
        self.part.proposal.atomicity == Atomicity::All
    }
}

/// What waits for a leader that is away.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    part: Part,
    /// When the author is told to retry; SERVER's own proposals wait until they are decided.
    pub(super) deadline: Option<Millis>,
    /// When its leader may be asked again, which said that it cannot decide now.
    pub(super) again_at: Option<Millis>,
    /// Whether it is in the log, and its author has to be told.
    is_landed: bool,
}

impl Waiting {
    const fn new(part: Part, deadline: Option<Millis>) -> Self {
        Self {
            part,
            deadline,
            again_at: None,
            is_landed: false,
        }
    }
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
    /// It is in the log already.
    Landed,
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
        let part = Part::whole(proposal);
        self.waiting.push_back(Waiting::new(part, None));
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
        if proposal.author == from && self.tell_again((from, id), out) {
            return;
        }
        let refusal = if proposal.author != from {
            Some(Refusal::Refused(String::from(
                "a proposal names its own author",
            )))
        } else if self.is_watcher(from) && !is_recovery(&proposal) {
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
        self.waiting.push_back(Waiting::new(part, deadline));
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
            if waiting.is_landed {
                let landed = self.landed(&waiting.part);
                self.finish(&waiting.part, Ok(landed), out);
                continue;
            }
            let kept = if waiting.again_at.is_some_and(|at| now < at) {
                Some(waiting)
            } else {
                self.route(now, waiting, &held, out)
            };
            if let Some(kept) = kept {
                let Proposal {
                    author, changes, ..
                } = &kept.part.proposal;
                let shards = changes
                    .iter()
                    .flat_map(|change| self.node.shards_of(change));
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
        let Waiting { part, deadline, .. } = waiting;
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
                Route::Nobody => kept = Some(Waiting::new(part, deadline)),
                Route::Missing(shard) => {
                    let refusal = Refusal::NotFound(alloc::format!("{shard}"));
                    self.finish(&part, Err(refusal), out);
                }
                Route::Split => self.finish(&part, Err(Refusal::SplitLeadership), out),
                Route::Landed => {
                    let landed = self.landed(&part);
                    self.finish(&part, Ok(landed), out);
                }
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
        let routed = Routed {
            part,
            deadline,
            is_landed: false,
        };
        self.routed.insert((routed.part.key(), to), routed);
    }

    /// Returns where a proposal goes, and which of its changes, in order.
    fn goals_of(&self, proposal: &Proposal, held: &Held) -> BTreeMap<Route, Vec<usize>> {
        let key = (proposal.author, proposal.id);
        let mut goals: BTreeMap<Route, Vec<usize>> = BTreeMap::new();
        match proposal.atomicity {
            Atomicity::All => {
                let changes = proposal.changes.iter();
                let shards = changes.flat_map(|change| self.node.shards_of(change));
                let route = self.route_of(key, &shards.collect(), held);
                goals.insert(route, (0..proposal.changes.len()).collect());
            }
            Atomicity::Each => {
                for (shard, at) in self.node.parts_of(proposal) {
                    let changes = at.iter().map(|i| &proposal.changes[*i]);
                    let mut shards: BTreeSet<Shard> = changes
                        .flat_map(|change| self.node.shards_of(change))
                        .collect();
                    shards.insert(shard);
                    let route = if self.landing.is_in(key, shard) {
                        Route::Landed
                    } else {
                        self.route_of(key, &shards, held)
                    };
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
    /// proposal, nor on too many, nor on what was refused.
    fn may_ask(&self, key: Key, leader: AttachmentId) -> bool {
        let unanswered = self.unanswered.get(&leader);
        let is_full = unanswered.is_some_and(|all| all.len() >= limits::PROPOSAL_QUEUE_COUNT_MAX);
        !is_full && !self.landing.is_astray(leader) && !self.routed.contains_key(&(key, leader))
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
        let outcome = self.as_landed(part, outcome);
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

    /// Returns how a part ended, as the log has it: what of it landed is not refused, whatever the
    /// leader that was asked last knew of it. Notes what landed.
    fn as_landed(&mut self, part: &Part, outcome: Outcome) -> Outcome {
        let (key, proposal) = (part.key(), &part.proposal);
        if proposal.atomicity == Atomicity::All {
            return outcome;
        }
        let mut parts = Parts::new(proposal.changes.len());
        for (shard, at) in self.node.parts_of(proposal) {
            let places = self.node.places_of(&proposal.part(&at));
            let is_in = self.landing.is_in(key, shard);
            let told = match &outcome {
                Err(_) if is_in => Ok(places.clone()),
                Err(refusal) => Err(refusal.clone()),
                Ok(items) => {
                    let item = |(i, place): (&usize, &Landed)| {
                        let item = items.get(*i).cloned().unwrap_or_default();
                        let is_refused = item.refusal.is_some();
                        if is_in && is_refused && !proposal.changes[*i].is_follow_up() {
                            place.clone()
                        } else {
                            item
                        }
                    };
                    let items: Vec<Landed> = at.iter().zip(&places).map(item).collect();
                    if items.iter().all(|item| item.refusal.is_none()) {
                        self.landing.land(key, shard);
                    }
                    Ok(items)
                }
            };
            parts.note(&at, places, told);
        }
        parts.outcome()
    }

    /// Tells the author how a proposal ended.
    pub(super) fn answer(
        &mut self,
        author: AttachmentId,
        id: ProposalId,
        outcome: Outcome,
        out: &mut Vec<Output>,
    ) {
        let said = if author == SERVER {
            Output::Decided(id, outcome)
        } else {
            let Some(party) = self.parties.get(&author) else {
                return;
            };
            self.landing.tell((author, id), &outcome);
            let Some(connection) = party.connection else {
                return;
            };
            Output::Send(connection, ServerMessage::ProposeResult { id, outcome })
        };
        self.promise([said], out);
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
        let Some(outcome) = self.true_outcome((key, from), &routed, outcome) else {
            let deadline = (author != SERVER).then(|| now.after(limits::PROPOSAL_WAIT_MS));
            return self.wait(routed.part, deadline);
        };
        if author == SERVER && matches!(outcome, Err(Refusal::Retry(_))) {
            let again_at = Some(now.after(limits::PROPOSAL_AGAIN_MS));
            let waiting = Waiting::new(routed.part, None);
            return self.insert_waiting(Waiting {
                again_at,
                ..waiting
            });
        }
        self.settle(now, out);
        if canary::is_on(Canary::AnswerForgotten) {
            return;
        }
        self.finish(&routed.part, outcome, out);
    }

    /// Returns how a proposal ended, as the log has it; none when it was accepted and its entries
    /// were refused.
    fn true_outcome(
        &self,
        (key, from): (Key, AttachmentId),
        routed: &Routed,
        outcome: Outcome,
    ) -> Option<Outcome> {
        let is_whole = routed.part.proposal.atomicity == Atomicity::All;
        match outcome {
            Err(_) if routed.is_landed && is_whole => Some(Ok(self.landed(&routed.part))),
            Ok(_) if !routed.is_landed && self.landing.is_refused(from, key) => None,
            outcome => Some(outcome),
        }
    }

    /// Returns what is known of a part that landed and whose leader did not say more: nothing of
    /// what was to follow outside the logs.
    fn landed(&self, part: &Part) -> Vec<Landed> {
        let mut places = self.node.places_of(&part.proposal);
        for (place, change) in places.iter_mut().zip(&part.proposal.changes) {
            if change.is_follow_up() {
                let words = "the leader has left; it may have been done";
                place.refusal = Some(Refusal::Refused(String::from(words)));
            }
        }
        places
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

    /// Lets a part wait, ahead of what its author proposed later; not of an author that has left.
    fn wait(&mut self, part: Part, deadline: Option<Millis>) {
        self.insert_waiting(Waiting::new(part, deadline));
    }

    fn insert_waiting(&mut self, waiting: Waiting) {
        let (author, id) = waiting.part.key();
        if !self.node.is_attached(author) {
            return;
        }
        let is_later = |waiting: &Waiting| {
            let (of, later) = waiting.part.key();
            of == author && later > id
        };
        let place = self.waiting.iter().position(is_later);
        self.waiting
            .insert(place.unwrap_or(self.waiting.len()), waiting);
    }

    /// Proposals that a leader has not decided on, and about shards that it does not lead any more,
    /// go to whoever leads now. Those whose entries are in the log are decided.
    pub(super) fn reroute(&mut self, now: Millis, former: AttachmentId) {
        self.reroute_those(now, former, Self::is_led);
    }

    /// A leader's connection ended, and with it what it was asked there.
    pub(super) fn reroute_unheard(&mut self, now: Millis, leader: AttachmentId) {
        self.unanswered.remove(&leader);
        self.landing.begin(leader);
        self.reroute_those(now, leader, |_, _, _| false);
    }

    fn reroute_those(
        &mut self,
        now: Millis,
        former: AttachmentId,
        is_kept: fn(&Self, &Part, AttachmentId) -> bool,
    ) {
        let routed = core::mem::take(&mut self.routed);
        for ((key, to), routed) in routed {
            let is_whole = routed.part.proposal.atomicity == Atomicity::All;
            if to != former || is_kept(self, &routed.part, to) {
                self.routed.insert((key, to), routed);
            } else {
                let deadline = (key.0 != SERVER).then(|| now.after(limits::PROPOSAL_WAIT_MS));
                let waiting = Waiting::new(routed.part, deadline);
                self.insert_waiting(Waiting {
                    is_landed: routed.is_landed && is_whole,
                    ..waiting
                });
            }
        }
    }

    /// Returns whether an attachment leads all that a part is about.
    fn is_led(&self, part: &Part, by: AttachmentId) -> bool {
        let changes = part.proposal.changes.iter();
        let mut shards = changes.flat_map(|change| self.node.shards_of(change));
        shards.all(|shard| self.node.log().is_held_by(shard, by))
    }

    /// Drops what an attachment that left had proposed.
    pub(super) fn forget_proposals(&mut self, author: AttachmentId) {
        // What a leader is asked about it may have done, so it is taken.
        self.waiting
            .retain(|waiting| waiting.part.key().0 != author);
        self.landing.forget_author(author);
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
            } else if routed.is_landed && routed.part.proposal.atomicity == Atomicity::All {
                let landed = self.landed(&routed.part);
                self.finish(&routed.part, Ok(landed), out);
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
            if waiting.is_landed {
                self.insert_waiting(waiting);
                continue;
            }
            let refusal = Refusal::Retry(String::from("the leader is away"));
            self.finish(&waiting.part, Err(refusal), out);
        }
    }
}

/// Returns whether a proposal shows what was typed and overtaken, which nobody is refused.
fn is_recovery(proposal: &Proposal) -> bool {
    let is_shown = |change: &Change| match change {
        Change::Append { name, .. } => name.rsplit('/').next() == Some("+Recovered"),
        _ => false,
    };
    proposal.changes.iter().all(is_shown)
}
