//! One attachment's side of the protocol, sans-io: a node over a mirror, and what it says.
//!
//! 1. The node leads ahead of the daemon; [`Client::flush`] ships what it appended.
//! 2. A lease that is asked for is given back behind the last entry: nothing is lost.
//! 3. A lease that was reclaimed leaves a tail that did not arrive. The state cannot go back, so
//!    the client asks for a fresh snapshot, and the tail is proposed to the new leader; what
//!    conflicts goes to `+Recovered`. Nothing typed is dropped.
//! 4. A connection that ended is followed by another one, on which the client comes back.

mod deciding;
mod missed;
mod rejoining;
mod tails;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::deciding::Deciding;
use self::missed::Missed;
use self::rejoining::Unconfirmed;
pub use self::tails::recovery;
use self::tails::{Tail, has_own, keep_unsafe};
use super::Node;
use super::decide::FollowUp;
use super::marks::{Checker, Divergence, Pace, Verdict};
use crate::bytes::Bytes;
use crate::canary::{self, Canary};
use crate::edit::Splice;
use crate::entry::{AttachmentKind, ChainHash, MetaOp, Op};
use crate::ids::{AttachmentId, BufferId, ProposalId, RequestId, SERVER, Seq, Shard};
use crate::limits;
use crate::log::{MirrorNotice, Record};
use crate::message::{
    AckMark, Answer, ClientMessage, ErrorCode, ErrorMessage, Hello, Query, ServerMessage,
    SessionName, ShardHash, Welcome,
};
use crate::proposal::{Atomicity, Change, Outcome, Proposal};
use crate::state::State;
use crate::state::snapshot::SnapshotReader;

/// What happened that the owner of a client acts on.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    /// The node is there, or was replaced by a fresh one.
    Welcome,
    /// Entries of others were applied, or are in the snapshot that came in place of them.
    Entries(Vec<Arc<Record>>),
    /// A request was answered.
    Reply {
        /// Which.
        request: RequestId,
        /// How.
        answer: Result<Answer, ErrorMessage>,
    },
    /// A proposal of this client ended.
    Decided {
        /// Which.
        id: ProposalId,
        /// How.
        outcome: Outcome,
    },
    /// What was typed into a buffer is not in the fresh state, and on its way to the new leader:
    /// positions of the old text go back over this edit, by [`crate::edit::map_back`]. What the
    /// new leader did since comes as entries behind this, then [`Self::Welcome`].
    Overtaken {
        /// Which buffer.
        buffer: BufferId,
        /// What was typed, in positions of the text before it.
        splices: Vec<Splice>,
    },
    /// Leases came or went.
    LeadershipChanged,
    /// Typed text that was overtaken by another leader was found again: in the buffer or in
    /// `+Recovered`, as the words say.
    Recovered(String),
    /// A proposal that this client accepted asks for something outside the logs.
    FollowUp(FollowUp),
    /// The daemon complains.
    Error(ErrorMessage),
    /// The client came back on a new connection and goes on with its replica. Requests that were
    /// not answered before are not answered any more; proposals are. When the replica is a fresh
    /// one, this is a [`Self::Welcome`] instead.
    Resumed,
    /// The replica differs from the daemon's: keep this. A fresh snapshot was asked for; told once
    /// for each shard.
    Diverged(Box<Divergence>),
}

/// One attachment's side of the protocol.
#[derive(Debug)]
pub struct Client {
    hello: Hello,
    node: Option<Node>,
    /// A snapshot on its way in, and how many of its bytes are to come.
    incoming: Option<(Welcome, SnapshotReader, u64)>,
    shipped: BTreeMap<Shard, Seq>,
    acked: BTreeMap<Shard, Seq>,
    /// Whether the daemon has a journal, as far as it is known.
    has_journal: bool,
    last_request: RequestId,
    is_resyncing: bool,
    /// Whether nothing is shipped, because there is no connection, or no answer on it yet.
    is_away: bool,
    /// Shards of which the daemon has other entries than it acknowledged; it said so when this
    /// client came back, and a snapshot follows.
    lost: Option<BTreeSet<Shard>>,
    unconfirmed: Unconfirmed,
    deciding: Deciding,
    /// The last entries before those that a reclaim left behind, until the fresh snapshot is there.
    overtaken: BTreeMap<Shard, Seq>,
    /// Tails that wait for the fresh snapshot, or for another try.
    tails: Vec<Tail>,
    /// Tails that were proposed.
    proposed: BTreeMap<ProposalId, Tail>,
    welcome: Option<Welcome>,
    /// What others appended while a fresh snapshot was on its way.
    missed: Missed,
    /// The buffer that no tool gets.
    kept: Option<BufferId>,
    pace: Pace,
    checker: Checker,
}

impl Client {
    /// Returns a client that will say this hello.
    #[must_use]
    pub const fn new(hello: Hello) -> Self {
        Self {
            hello,
            node: None,
            incoming: None,
            shipped: BTreeMap::new(),
            acked: BTreeMap::new(),
            has_journal: false,
            last_request: RequestId::new(0),
            is_resyncing: false,
            is_away: false,
            lost: None,
            unconfirmed: Unconfirmed::new(),
            deciding: Deciding::new(),
            overtaken: BTreeMap::new(),
            tails: Vec::new(),
            proposed: BTreeMap::new(),
            welcome: None,
            missed: Missed::new(),
            kept: None,
            pace: Pace::new(),
            checker: Checker::new(),
        }
    }

    /// Returns the message that joins the session.
    #[must_use]
    pub fn hello(&self) -> ClientMessage {
        ClientMessage::Hello(self.hello.clone())
    }

    /// Returns what the daemon said at the last snapshot.
    #[must_use]
    pub const fn welcome(&self) -> Option<&Welcome> {
        self.welcome.as_ref()
    }

    /// Returns the node, once the snapshot is there.
    #[must_use]
    pub const fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Returns the node, to lead with it. Ship what was appended with [`Self::flush`].
    pub const fn node_mut(&mut self) -> Option<&mut Node> {
        self.node.as_mut()
    }

    /// Returns whether this client leads the layout, and so the session's windows.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        !self.is_resyncing
            && self
                .node
                .as_ref()
                .is_some_and(|node| node.leads(Shard::Layout))
    }

    /// Returns who leads the layout.
    #[must_use]
    pub fn leader(&self) -> AttachmentId {
        let lease = self
            .node
            .as_ref()
            .and_then(|node| node.log().lease(Shard::Layout));
        lease.map_or(SERVER, |lease| lease.holder)
    }

    /// Says which buffer the user is in: tools that ask for it do not get it.
    pub const fn keep(&mut self, buffer: Option<BufferId>) {
        self.kept = buffer;
    }

    /// Returns a fresh request id.
    pub const fn next_request(&mut self) -> RequestId {
        self.last_request = self.last_request.next();
        self.last_request
    }

    /// Returns the message that asks for all shards; at once if `steal`.
    #[must_use]
    pub const fn take_over(steal: bool) -> ClientMessage {
        ClientMessage::LeaseRequest {
            shards: Vec::new(),
            steal,
        }
    }

    /// Returns the message that proposes changes, all or nothing, and the proposal's id.
    pub fn propose(&mut self, changes: Vec<Change>) -> Option<(ProposalId, ClientMessage)> {
        self.propose_as(Atomicity::All, changes)
    }

    /// Returns the message that proposes changes for each buffer apart, and the proposal's id.
    pub fn propose_each(&mut self, changes: Vec<Change>) -> Option<(ProposalId, ClientMessage)> {
        self.propose_as(Atomicity::Each, changes)
    }

    fn propose_as(
        &mut self,
        atomicity: Atomicity,
        changes: Vec<Change>,
    ) -> Option<(ProposalId, ClientMessage)> {
        let node = self.node.as_mut()?;
        let (author, id) = (node.attachment(), node.new_proposal());
        let proposal = Proposal {
            author,
            id,
            atomicity,
            changes,
        };
        self.unconfirmed.ask(proposal.clone());
        Some((id, ClientMessage::Propose(proposal)))
    }

    /// Returns how many entries the daemon has not acknowledged.
    #[must_use]
    pub fn unacked_count(&self) -> u64 {
        let Some(node) = &self.node else { return 0 };
        let count = |(shard, _): (Shard, _)| {
            let head = node.log().mark(shard).map_or(0, |mark| mark.seq.raw());
            head.saturating_sub(self.acked_of(shard).raw())
        };
        node.log().held_by(node.attachment()).map(count).sum()
    }

    /// Returns the last acknowledged entry of a shard that this client leads.
    fn acked_of(&self, shard: Shard) -> Seq {
        let acked = self.acked.get(&shard).copied();
        let first = || Some(first_of(self.node.as_ref()?, shard));
        acked.or_else(first).unwrap_or_default()
    }

    /// Ships what the node made and appended since the last call.
    pub fn flush(&mut self, out: &mut Vec<ClientMessage>) {
        if self.is_resyncing || self.is_away {
            return;
        }
        let Some(node) = &mut self.node else { return };
        let unshipped = core::mem::take(&mut node.unshipped);
        let notices = node.log.take_notices();
        for notice in &notices {
            self.unconfirmed.say(*notice);
            if let MirrorNotice::Created(shard) = notice {
                out.push(ClientMessage::CreateShard(*shard));
            }
        }
        let mut appends = Vec::new();
        let mut len = 0;
        for shard in unshipped {
            let shipped = self.shipped.get(&shard).copied();
            let after = shipped.unwrap_or_else(|| first_of(node, shard));
            let mut entries = Vec::new();
            for record in node.log.after(shard, after) {
                if len + record.bytes.len() > limits::APPEND_LEN_MAX && len > 0 {
                    if !entries.is_empty() {
                        appends.push((shard, core::mem::take(&mut entries)));
                    }
                    out.push(ClientMessage::Append(core::mem::take(&mut appends)));
                    len = 0;
                }
                len += record.bytes.len();
                self.pace.note(shard, record.bytes.len());
                self.shipped.insert(shard, record.entry.seq);
                entries.push(record.bytes.clone());
            }
            if !entries.is_empty() {
                appends.push((shard, entries));
            }
        }
        if !appends.is_empty() {
            let shards: Vec<Shard> = appends.iter().map(|(shard, _)| *shard).collect();
            out.push(ClientMessage::Append(appends));
            let marks = self.pace.due(node, shards);
            if !marks.is_empty() {
                self.checker.tell(&marks);
                out.push(ClientMessage::HashMarks(marks));
            }
        }
        for notice in notices {
            if let MirrorNotice::Deleted(shard) = notice {
                self.shipped.remove(&shard);
                self.acked.remove(&shard);
                self.pace.clear(shard);
                out.push(ClientMessage::DeleteShard(shard));
            }
        }
    }

    /// Takes a message of the daemon; appends what is to be said in return.
    pub fn receive(
        &mut self,
        message: ServerMessage,
        out: &mut Vec<ClientMessage>,
    ) -> Vec<ClientEvent> {
        let mut events = Vec::new();
        match message {
            ServerMessage::Welcome(welcome) => self.begin_snapshot(welcome, out, &mut events),
            ServerMessage::Snapshot(piece) => self.take_piece(&piece, out, &mut events),
            ServerMessage::Entries(entries) => self.take_entries(&entries, out, &mut events),
            ServerMessage::Acked(marks) => {
                for mark in marks {
                    self.take_ack(mark);
                }
            }
            ServerMessage::Propose(proposal) => self.take_proposal(proposal, out, &mut events),
            ServerMessage::ProposeResult { id, outcome } => {
                self.unconfirmed.answer(id);
                self.take_outcome(id, outcome, out, &mut events);
            }
            ServerMessage::Reply { request, answer } => {
                events.push(ClientEvent::Reply { request, answer });
            }
            ServerMessage::HashQuery(request) => {
                let hashes = self.node.as_ref().map_or_else(Vec::new, hashes_of);
                out.push(ClientMessage::HashMark { request, hashes });
            }
            ServerMessage::Error { error, shards } => {
                self.take_error(error, &shards, out, &mut events);
            }
            ServerMessage::Pong(_) => {}
            ServerMessage::Resumed(resumed) => self.take_resumed(resumed, out, &mut events),
            ServerMessage::HashMarks(marks) => {
                for mark in marks {
                    self.pace.clear(mark.shard);
                    self.check(mark, out, &mut events);
                }
            }
        }
        events
    }

    fn begin_snapshot(
        &mut self,
        welcome: Welcome,
        out: &mut Vec<ClientMessage>,
        events: &mut Vec<ClientEvent>,
    ) {
        // On a new connection nothing is under way.
        self.is_resyncing |= self.is_away && self.node.is_some();
        let len = welcome.snapshot_len;
        self.incoming = Some((welcome, SnapshotReader::new(), len));
        if len == 0 {
            self.end_snapshot(out, events);
        }
    }

    fn take_piece(
        &mut self,
        piece: &Bytes,
        out: &mut Vec<ClientMessage>,
        events: &mut Vec<ClientEvent>,
    ) {
        let Some((_, reader, left)) = &mut self.incoming else {
            return;
        };
        *left = left.saturating_sub(piece.len() as u64);
        let is_last = *left == 0;
        if reader.push(piece).is_err() || is_last {
            self.end_snapshot(out, events);
        }
    }

    fn end_snapshot(&mut self, out: &mut Vec<ClientMessage>, events: &mut Vec<ClientEvent>) {
        let Some((welcome, reader, _)) = self.incoming.take() else {
            return;
        };
        let state = match welcome.snapshot_len {
            0 => Ok(State::new()),
            _ => reader.finish(),
        };
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                let error = ErrorMessage::new(ErrorCode::Protocol, alloc::format!("{error}"));
                return events.push(ClientEvent::Error(error));
            }
        };
        let counter = self
            .node
            .as_ref()
            .map_or(1, Node::counter)
            .max(welcome.counter_floor);
        let mut node = Node::mirror(welcome.attachment, state, &welcome.marks, counter);
        let missed = core::mem::replace(&mut self.missed, Missed::new());
        // Another run of the daemon that knows this client has said which shards lost something.
        let is_known = self.lost.is_some();
        let is_same = self.welcome.as_ref().is_some_and(|old| {
            old.session == welcome.session && (is_known || old.incarnation == welcome.incarnation)
        });
        let mut unsafe_marks = Vec::new();
        if let Some(mut old) = self.node.take() {
            unsafe_marks = keep_unsafe(&old, &mut node);
            let records = missed.records(&old, &node);
            node.learn(&records);
            self.make_again(&mut old, &mut node);
            self.keep_shipped(&old, &node);
            self.gather_tails(&old, &mut node, is_same);
            if old.attachment() != node.attachment() {
                self.give_up_asked(events);
            }
            // Positions of the old text go back over the tails, then forward over what was missed.
            self.tell_tails(events);
            if !records.is_empty() {
                events.push(ClientEvent::Entries(records));
            }
        }
        self.pace.clear_all();
        self.checker.restart(&node.state);
        self.unconfirmed.settle(&node, self.is_resyncing);
        self.deciding.forget_decided();
        self.lost = None;
        self.overtaken.clear();
        node.touched = node.state.buffers().map(|(id, _)| id).collect();
        self.node = Some(node);
        self.welcome = Some(welcome);
        self.is_resyncing = false;
        let was_away = core::mem::take(&mut self.is_away);
        self.acked = unsafe_marks.iter().copied().collect();
        for (shard, seq) in unsafe_marks {
            self.shipped.entry(shard).or_insert(seq);
        }
        self.begin_leading();
        events.push(ClientEvent::Welcome);
        self.flush(out);
        if was_away {
            self.ask_again(out);
        }
        self.retry(out);
        self.answer_requests(out);
        self.decide_waiting(out, events);
    }

    /// Gives back what this client was asked for while it could not answer.
    fn answer_requests(&mut self, out: &mut Vec<ClientMessage>) {
        let Some(node) = &self.node else { return };
        let me = node.attachment();
        let asked = node.log().held_by(me).filter_map(|(shard, _)| {
            let by = node.log().lease(shard)?.pending.filter(|by| *by != me)?;
            Some((shard, by))
        });
        for (shard, by) in asked.collect::<Vec<_>>() {
            self.give(shard, by, out);
        }
    }

    /// Gives a shard back that a party asked for, behind its last entry. Returns whether it did.
    fn give(&mut self, shard: Shard, by: AttachmentId, out: &mut Vec<ClientMessage>) -> bool {
        if self.keeps(shard, by) || self.is_resyncing || self.is_away {
            return false;
        }
        self.flush(out);
        let released = self
            .node
            .as_mut()
            .and_then(|node| node.release_lease(shard));
        if let Some(seq) = released {
            out.push(ClientMessage::LeaseRelease { shard, seq });
        }
        released.is_some()
    }

    /// Forgets what was shipped where it goes again. What a snapshot that nobody asked for does not
    /// have yet is on its way and arrives; what made this client ask for one was refused.
    fn keep_shipped(&mut self, old: &Node, fresh: &Node) {
        if canary::is_on(Canary::ShippedKept) {
            return;
        }
        let is_resyncing = self.is_resyncing;
        self.shipped.retain(|shard, _| {
            !is_resyncing && fresh.leads(*shard) && old.log.epoch(*shard) == fresh.log.epoch(*shard)
        });
    }

    fn take_entries(
        &mut self,
        entries: &[(Shard, Bytes)],
        out: &mut Vec<ClientMessage>,
        events: &mut Vec<ClientEvent>,
    ) {
        let mut records = Vec::with_capacity(entries.len());
        let mut is_leadership = false;
        for (shard, bytes) in entries {
            self.confirm(*shard, bytes);
            let Some(node) = &mut self.node else { return };
            if self.is_resyncing && *shard != Shard::Meta {
                self.missed.push(*shard, bytes);
                continue;
            }
            match node.follow(*shard, bytes) {
                Ok(None) => {}
                Ok(Some(record)) => {
                    if let Op::Meta(op) = &record.entry.op {
                        is_leadership |= self.take_meta(op, out);
                    } else {
                        let seq = record.entry.seq;
                        node.log.compact(*shard, seq);
                        // What the daemon appended before it granted the shard may come behind.
                        if let Some(acked) = self.acked.get_mut(shard) {
                            *acked = (*acked).max(seq);
                        }
                    }
                    if let Some(mark) = self.checker.follow(&record) {
                        self.check(mark, out, events);
                    }
                    records.push(record);
                }
                Err(error) => {
                    let error = ErrorMessage::new(ErrorCode::Protocol, alloc::format!("{error}"));
                    events.push(ClientEvent::Error(error));
                    self.resync(out);
                }
            }
        }
        if let Some(node) = &mut self.node {
            let head = node.log.mark(Shard::Meta).map(|mark| mark.seq);
            node.log.compact(Shard::Meta, head.unwrap_or_default());
        }
        if !records.is_empty() {
            events.push(ClientEvent::Entries(records));
        }
        if is_leadership {
            self.begin_leading();
            events.push(ClientEvent::LeadershipChanged);
        }
        if self.mend_layout() || is_leadership {
            self.flush(out);
        }
        self.retry(out);
    }

    /// Compares what the daemon computed of a shard with what this client did.
    fn check(
        &mut self,
        mark: ShardHash,
        out: &mut Vec<ClientMessage>,
        events: &mut Vec<ClientEvent>,
    ) {
        let Some(node) = self.node.as_ref().filter(|_| !self.is_resyncing) else {
            return;
        };
        let is_settled = !has_own(node, mark.shard, self.acked_of(mark.shard));
        if let Some(Verdict(divergence)) = self.checker.check(node, mark, is_settled) {
            events.extend(divergence.map(ClientEvent::Diverged));
            self.resync(out);
        }
    }

    /// Does what falls to a leader, when leases have come in entries or in a snapshot: views for
    /// windows, and an end to what attachments owned that left.
    fn begin_leading(&mut self) {
        if let Some(node) = self.node.as_mut().filter(|_| !self.is_resyncing) {
            let shards: Vec<Shard> = node.log.held_by(node.attachment).map(|(s, _)| s).collect();
            for shard in shards {
                if let Shard::Buffer(id) = shard {
                    // It is led, so this does not fail.
                    let _ = node.forget_gone(id).is_ok();
                }
            }
            // Only buffers that this node leads get views, so a refusal cannot be.
            let _ = node.add_missing_views().is_ok();
            node.is_unmended = true;
        }
        self.mend_layout();
    }

    /// Returns whether there was anything to mend.
    fn mend_layout(&mut self) -> bool {
        let node = self.node.as_mut().filter(|_| !self.is_resyncing);
        // Only with a layout that this node leads, so a refusal cannot be.
        node.is_some_and(|node| node.mend_layout() == Ok(true))
    }

    /// Acts on a metalog entry. Returns whether leases came or went.
    fn take_meta(&mut self, op: &MetaOp, out: &mut Vec<ClientMessage>) -> bool {
        let Some(node) = &mut self.node else {
            return false;
        };
        let me = node.attachment();
        self.unconfirmed.hear(op);
        match op {
            MetaOp::LeaseGrant { shard, to, .. } => {
                if *to == me
                    && let Shard::Buffer(id) = shard
                {
                    node.touched.insert(*id);
                }
                let head = node
                    .log
                    .mark(*shard)
                    .map_or_else(Seq::default, |mark| mark.seq);
                // Entries that were overtaken are no place to go on from.
                if *to == me
                    && !self.is_resyncing
                    && node
                        .state
                        .meta()
                        .lease(*shard)
                        .is_some_and(|l| l.epoch.raw() > 1)
                {
                    self.shipped.insert(*shard, head);
                    self.acked.insert(*shard, head);
                }
                true
            }
            MetaOp::LeaseRequest { shard, by } if *by != me && node.leads(*shard) => {
                self.give(*shard, *by, out)
            }
            MetaOp::LeaseReclaim {
                shard, head, chain, ..
            } => {
                self.take_reclaim(*shard, (*head, *chain), out);
                true
            }
            MetaOp::Detach(id) => {
                // A refusal means that another party leads the buffer and forgets in it.
                let _ = node.forget(*id).is_ok();
                self.flush(out);
                false
            }
            _ => false,
        }
    }

    /// Returns whether a request is left unanswered: a tool does not get the text that the user is
    /// in. The deadline refuses it.
    fn keeps(&self, shard: Shard, by: AttachmentId) -> bool {
        let party = |node: &Node| node.state().meta().attachments.get(&by).map(|by| by.kind);
        let kind = self.node.as_ref().and_then(party);
        kind == Some(AttachmentKind::Tool) && self.kept.map(Shard::Buffer) == Some(shard)
    }

    /// A shard went to the daemon at `head`: entries of ours behind it were not accepted. Where the
    /// entry at `head` is somebody else's, it went before, at a place that is known by then.
    fn take_reclaim(
        &mut self,
        shard: Shard,
        (head, chain): (Seq, ChainHash),
        out: &mut Vec<ClientMessage>,
    ) {
        let Some(node) = &self.node else { return };
        let is_other = node
            .log
            .chain_at(shard, head)
            .is_some_and(|own| own != chain);
        let is_lost = has_own(node, shard, head);
        if is_lost && !is_other {
            self.overtaken.entry(shard).or_insert(head);
        }
        if let Some(from) = self.overtaken.get(&shard) {
            self.gather_tail(shard, *from);
        }
        if is_lost || is_other {
            self.resync(out);
        }
    }

    fn resync(&mut self, out: &mut Vec<ClientMessage>) {
        if !self.is_resyncing {
            self.is_resyncing = true;
            out.push(ClientMessage::Resync);
        }
    }

    /// Keeps its own entries until they survive a loss of power, where the daemon has a journal.
    fn take_ack(&mut self, mark: AckMark) {
        let Some(node) = &mut self.node else { return };
        self.has_journal |= mark.written > Seq::default();
        let acked = self.acked.entry(mark.shard).or_default();
        *acked = (*acked).max(mark.received);
        let safe = if self.has_journal {
            mark.synced
        } else {
            *acked
        };
        node.log.compact(mark.shard, safe);
    }

    fn take_error(
        &mut self,
        error: ErrorMessage,
        shards: &[Shard],
        out: &mut Vec<ClientMessage>,
        events: &mut Vec<ClientEvent>,
    ) {
        let is_append = !shards.is_empty();
        if self.unconfirmed.refuse(error.code, shards) {
            self.resync(out);
        }
        match error.code {
            // The reclaim came before this on the same stream; what we still lead goes again.
            ErrorCode::Fenced | ErrorCode::NotLeader if is_append => {
                self.ship_again(shards, out);
            }
            ErrorCode::WrongSeq | ErrorCode::BadOp | ErrorCode::NotFound | ErrorCode::Withdrawn
                if is_append =>
            {
                self.resync(out);
            }
            _ => {}
        }
        if !is_append || error.code == ErrorCode::BadOp {
            events.push(ClientEvent::Error(error));
        }
    }

    fn ship_again(&mut self, shards: &[Shard], out: &mut Vec<ClientMessage>) {
        let leads = |shard: &Shard| self.node.as_ref().is_some_and(|node| node.leads(*shard));
        if !shards.iter().any(leads) {
            return self.resync(out);
        }
        for shard in shards {
            let acked = self.acked_of(*shard);
            let Some(node) = &mut self.node else { return };
            if node.leads(*shard) {
                node.unshipped.insert(*shard);
                self.shipped.insert(*shard, acked);
            }
        }
        self.flush(out);
    }
}

/// Returns the seq before the first own entry of a shard: a shard that the node made begins at 0.
fn first_of(node: &Node, shard: Shard) -> Seq {
    Seq::new(node.log.floor(shard).map_or(0, |floor| floor.raw() - 1))
}

/// Returns a node's own figures, per shard.
#[must_use]
pub fn hashes_of(node: &Node) -> Vec<ShardHash> {
    node.log()
        .marks()
        .into_iter()
        .map(|mark| ShardHash {
            shard: mark.shard,
            seq: mark.seq,
            chain: mark.chain,
            state: node.state().shard_hash(mark.shard),
        })
        .collect()
}

/// Returns the hello of a UI.
#[must_use]
pub const fn ui_hello(
    session: SessionName,
    name: String,
    takeover: crate::message::Takeover,
) -> Hello {
    Hello {
        session,
        kind: AttachmentKind::Ui,
        name,
        takeover,
        is_follower: true,
        resume: None,
    }
}

/// Returns the query of a party's hashes.
#[must_use]
pub const fn hash_query(request: RequestId, of: Option<AttachmentId>) -> ClientMessage {
    ClientMessage::Query {
        request,
        session: None,
        query: Query::Hash(of),
    }
}
