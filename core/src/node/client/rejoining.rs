//! Coming back on a new connection: what was said on the old one may not have arrived, and what was
//! answered may not have come.
//!
//! The client tells up to where its logs are those of the daemon: the entries behind are its own.
//! The daemon sends what came since, or a fresh snapshot. Then the client says again what is not
//! confirmed: the same bytes, which the daemon passes over where it has them.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use super::{Client, ClientEvent};
use crate::bytes::Bytes;
use crate::entry::MetaOp;
use crate::ids::{ProposalId, Seq, Shard};
use crate::limits;
use crate::log::MirrorNotice;
use crate::message::{ClientMessage, ErrorCode, Mark, Resume, Resumed, Standing};
use crate::node::Node;
use crate::proposal::{Proposal, Refusal};
use crate::wire;

/// What this client said and was not answered yet.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed {
    made: BTreeSet<Shard>,
    ended: BTreeSet<Shard>,
    /// The shards whose end the metalog told last, in case that the daemon forgets it.
    gone: VecDeque<Shard>,
    asked: BTreeMap<ProposalId, Proposal>,
}

impl Unconfirmed {
    pub(super) const fn new() -> Self {
        Self {
            made: BTreeSet::new(),
            ended: BTreeSet::new(),
            gone: VecDeque::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Notes what goes out.
    pub(super) fn say(&mut self, notice: MirrorNotice) {
        match notice {
            MirrorNotice::Created(shard) => self.made.insert(shard),
            MirrorNotice::Deleted(shard) => self.ended.insert(shard),
        };
    }

    pub(super) fn ask(&mut self, proposal: Proposal) {
        self.asked.insert(proposal.id, proposal);
    }

    pub(super) fn answer(&mut self, id: ProposalId) {
        self.asked.remove(&id);
    }

    /// Notes what the metalog tells.
    pub(super) fn hear(&mut self, op: &MetaOp) {
        match op {
            MetaOp::ShardNew(shard) => {
                self.made.remove(shard);
            }
            MetaOp::ShardDel(shard) => {
                self.made.remove(shard);
                if self.ended.remove(shard) {
                    if self.gone.len() >= limits::ENDED_COUNT_MAX {
                        self.gone.pop_front();
                    }
                    self.gone.push_back(*shard);
                }
            }
            _ => {}
        }
    }

    /// Notes a refusal. Returns whether a shard was to be made or ended by it, so that the replica
    /// is not what the daemon has.
    pub(super) fn refuse(&mut self, code: ErrorCode, shards: &[Shard]) -> bool {
        let [shard] = shards else { return false };
        let (is_made, is_ended) = (self.made.remove(shard), self.ended.remove(shard));
        // What is not there need not be ended.
        is_made || (is_ended && code != ErrorCode::NotFound)
    }

    /// Returns the shards that this client ended last, as to be ended again.
    pub(super) fn gone(&self) -> impl Iterator<Item = MirrorNotice> + '_ {
        self.gone.iter().copied().map(MirrorNotice::Deleted)
    }

    pub(super) fn ended(&self) -> impl Iterator<Item = Shard> + '_ {
        self.ended.iter().copied()
    }

    /// Returns the shards to make and to end, as to be told again.
    pub(super) fn take_notices(&mut self) -> Vec<MirrorNotice> {
        let made = core::mem::take(&mut self.made).into_iter();
        let ended = core::mem::take(&mut self.ended).into_iter();
        let made = made.map(MirrorNotice::Created);
        made.chain(ended.map(MirrorNotice::Deleted)).collect()
    }

    /// A snapshot came: what it has, or has no more, is confirmed. One that was asked for was made
    /// when all was heard.
    pub(super) fn settle(&mut self, fresh: &Node, is_asked_for: bool) {
        let is_there = |shard: &Shard| fresh.log.mark(*shard).is_some();
        self.made.retain(|shard| !is_asked_for && !is_there(shard));
        self.ended.retain(|shard| !is_asked_for && is_there(shard));
    }
}

impl Client {
    /// Notes that the connection is gone: nothing is shipped until the client has come back. The
    /// node leads on meanwhile.
    pub const fn lose_connection(&mut self) {
        self.is_away = true;
    }

    /// Returns whether the connection is gone, or the daemon has not answered on the new one yet.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        self.is_away
    }

    /// Returns the hello of a new connection, which ends the old one. The session goes on where it
    /// was when the attachment is there still; else the client joins anew, and what it led and did
    /// not ship is a tail. [`ClientEvent::Resumed`] or [`ClientEvent::Welcome`] follows.
    pub fn rejoin(&mut self) -> ClientMessage {
        self.is_away = true;
        // The daemon says anew what arrived: another run of it may have lost entries.
        self.acked.clear();
        self.overtaken.clear();
        self.lost = None;
        self.incoming = None;
        self.deciding.forget_waiting();
        let mut hello = self.hello.clone();
        let known = self.welcome.as_ref().zip(self.node.as_ref());
        hello.resume = known.map(|(welcome, node)| Resume {
            attachment: welcome.attachment,
            secret: welcome.secret,
            incarnation: welcome.incarnation,
            marks: self.resume_marks(node),
        });
        ClientMessage::Hello(hello)
    }

    /// Returns where the logs stand, without the metalog when the replica went wrong: then it needs
    /// a snapshot. Without any mark, the client would be taken for one without a replica.
    fn resume_marks(&self, node: &Node) -> Vec<Mark> {
        let is_good = |mark: &Mark| !self.is_resyncing || mark.shard != Shard::Meta;
        node.log.bases().into_iter().filter(is_good).collect()
    }

    /// The daemon knows this client; the entries that it lacked have come, or a snapshot will.
    pub(super) fn take_resumed(
        &mut self,
        resumed: Resumed,
        out: &mut Vec<ClientMessage>,
        events: &mut Vec<ClientEvent>,
    ) {
        let Resumed { marks, apart } = resumed;
        if !apart.is_empty() {
            let is_lost = |(_, standing): &(Shard, Standing)| *standing == Standing::Mismatch;
            let lost = apart.into_iter().filter(is_lost);
            self.lost = Some(lost.map(|(shard, _)| shard).collect());
            return;
        }
        let Some(node) = self.node.as_mut().filter(|_| self.is_away) else {
            return;
        };
        self.is_away = false;
        self.shipped.clear();
        let mut notices = self.unconfirmed.take_notices();
        notices.extend(node.log.take_notices());
        let ended = |shard| notices.contains(&MirrorNotice::Deleted(shard));
        let mut is_other = false;
        for mark in &marks {
            if node.log.chain_at(mark.shard, mark.seq) == Some(mark.chain) {
                self.acked.insert(mark.shard, mark.seq);
                self.shipped.insert(mark.shard, mark.seq);
                if !self.has_journal {
                    node.log.compact(mark.shard, mark.seq);
                }
            } else {
                is_other |= !ended(mark.shard);
            }
        }
        let known: BTreeSet<Shard> = marks.into_iter().map(|mark| mark.shard).collect();
        node.log.put_notices(notices, &known);
        node.unshipped = node
            .log
            .shards()
            .filter(|shard| node.leads(*shard))
            .collect();
        if is_other {
            self.resync(out);
        }
        self.flush(out);
        self.ask_again(out);
        self.retry(out);
        self.answer_requests(out);
        events.push(ClientEvent::Resumed);
    }

    /// Notes that an own entry arrived: the daemon sends it back to who comes back, because the
    /// acknowledgement may have been lost with the old connection.
    pub(super) fn confirm(&mut self, shard: Shard, bytes: &Bytes) {
        let Some(node) = self.node.as_ref().filter(|_| self.is_away) else {
            return;
        };
        let Ok(entry) = wire::decode_entry(bytes) else {
            return;
        };
        let before = Seq::new(entry.seq.raw().saturating_sub(1));
        let own = node.log.after(shard, before).next();
        if own.is_some_and(|own| own.entry.seq == entry.seq && own.bytes == *bytes) {
            let acked = self.acked.entry(shard).or_default();
            *acked = (*acked).max(entry.seq);
        }
    }

    /// The attachment is gone, and whether what it proposed happened is not known. Tails are shown.
    pub(super) fn give_up_asked(&mut self, events: &mut Vec<ClientEvent>) {
        for (id, tail) in core::mem::take(&mut self.proposed) {
            self.unconfirmed.answer(id);
            self.tails.push(tail.into_conflict());
        }
        for id in core::mem::take(&mut self.unconfirmed.asked).into_keys() {
            let words = "the connection was gone for too long; look whether it was done";
            let outcome = Err(Refusal::Refused(String::from(words)));
            events.push(ClientEvent::Decided { id, outcome });
        }
    }

    /// Proposes again what was not answered.
    pub(super) fn ask_again(&self, out: &mut Vec<ClientMessage>) {
        let asked = self.unconfirmed.asked.values().cloned();
        out.extend(asked.map(ClientMessage::Propose));
    }
}
