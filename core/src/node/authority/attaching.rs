//! Who joins and who leaves: hello, welcome, dropped connections, grace.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Authority, Output, Party, Peer, floor_boundary, refuse};
use crate::canary::{self, Canary};
use crate::entry::{AttachmentKind, ChainHash, MetaOp};
use crate::ids::{AttachmentId, ConnectionId, Millis, Secret, Seq, Shard};
use crate::limits;
use crate::message::{
    ErrorCode, Hello, Mark, Resume, Resumed, ServerMessage, Standing, Takeover, Welcome,
};
use crate::state::snapshot::Snapshot;

impl Authority {
    pub(super) fn attach(
        &mut self,
        now: Millis,
        (connection, secret): (ConnectionId, Secret),
        hello: &Hello,
        out: &mut Vec<Output>,
    ) {
        let kind = hello.kind;
        let resumed = self.resumed(hello);
        let attached = resumed.map_or_else(|| self.new_attachment(hello), Ok);
        let id = match attached {
            Ok(id) => id,
            Err((code, words)) => return refuse(connection, code, words, out),
        };
        let (is_follower, connected) = (hello.is_follower, Some(connection));
        let is_watcher = kind == AttachmentKind::Ui && hello.takeover == Takeover::Watch;
        let new = Party {
            kind,
            is_follower,
            is_watcher,
            secret,
            connection: None,
            grace_end: None,
            lease_ms: None,
            counter_floor: 1,
        };
        // Who comes back is what it was: what it led and was not taken meanwhile, it leads.
        let known = self.parties.get(&id).copied();
        let mut party = Party {
            is_follower,
            connection: connected,
            grace_end: None,
            ..known.unwrap_or(new)
        };
        if is_new_process(hello) {
            party.counter_floor += limits::COUNTER_STRIDE;
        }
        if let Some(old) = self
            .parties
            .insert(id, party)
            .and_then(|old| old.connection)
        {
            self.peers.remove(&old);
            out.push(Output::Close(old));
            self.reroute_unheard(now, id);
        }
        let is_watcher = is_watcher && !canary::is_on(Canary::WatcherLeads);
        if kind == AttachmentKind::Ui && !is_watcher && resumed.is_none() {
            self.lead_all(now, id, hello.takeover == Takeover::Steal);
        }
        self.publish(out);
        if resumed.is_none() || is_new_process(hello) {
            self.keep_party(id);
        }
        self.peers.insert(
            connection,
            Peer {
                attachment: id,
                is_follower,
            },
        );
        match hello.resume.as_ref().filter(|_| resumed.is_some()) {
            Some(resume) => self.resume(connection, id, resume, out),
            None => self.welcome(connection, id, out),
        }
        self.route_waiting(now, out);
    }

    fn new_attachment(&mut self, hello: &Hello) -> Result<AttachmentId, (ErrorCode, &'static str)> {
        let (id, kind) = (self.next_attachment(), hello.kind);
        if id >= self.journaling.reserved().attachment {
            return Err((ErrorCode::Retry, "the disk is slow; come again"));
        }
        let mut name = hello.name.clone();
        name.truncate(floor_boundary(&name, limits::NAME_LEN_MAX));
        let attached = self.node.append_meta(MetaOp::Attach { id, kind, name });
        let refusal = (ErrorCode::Limit, "no attachment id is left");
        attached.map(|_| id).map_err(|_| refusal)
    }

    /// Returns the attachment that a hello proves to be its own.
    fn resumed(&self, hello: &Hello) -> Option<AttachmentId> {
        let resume = hello.resume.as_ref()?;
        let party = self.parties.get(&resume.attachment)?;
        let has_ids = party.counter_floor + 2 * limits::COUNTER_STRIDE <= 1 << limits::COUNTER_BITS;
        let is_own = self.was_run(resume.incarnation)
            && party.secret == resume.secret
            && (has_ids || !is_new_process(hello))
            && party.kind == hello.kind;
        is_own.then_some(resume.attachment)
    }

    /// Sends who comes back what it lacks: entries, or a snapshot.
    fn resume(
        &mut self,
        connection: ConnectionId,
        id: AttachmentId,
        resume: &Resume,
        out: &mut Vec<Output>,
    ) {
        let marks = resume.marks.iter().map(|mark| (mark.shard, *mark));
        let marks: BTreeMap<Shard, Mark> = marks.collect();
        let is_follower = self.parties.get(&id).is_some_and(|party| party.is_follower);
        let mut apart = if is_follower {
            self.apart(&marks)
        } else {
            Vec::new()
        };
        if is_follower && resume.incarnation != self.genesis.incarnation {
            // Every shard has another fence than the one under which it appended.
            apart.push((Shard::Layout, Standing::Snapshot));
        }
        let goes_on = apart.is_empty();
        let mut resumed = Resumed {
            marks: Vec::new(),
            apart,
        };
        if goes_on && is_follower {
            self.send_missing(connection, &marks, out);
            resumed.marks = self.node.log().marks();
        }
        if !goes_on {
            self.tell_arrived((connection, id), &resume.marks, out);
        }
        out.push(Output::Send(connection, ServerMessage::Resumed(resumed)));
        if !goes_on {
            self.welcome(connection, id, out);
        }
    }

    /// Returns the shards whose logs cannot go on where a client's stand. What the client knows and
    /// the session does not, the metalog tells of, or the client made it.
    fn apart(&self, marks: &BTreeMap<Shard, Mark>) -> Vec<(Shard, Standing)> {
        let log = self.node.log();
        let standing = |shard: Shard| {
            let is_new = Mark {
                shard,
                seq: Seq::default(),
                chain: ChainHash::default(),
            };
            let mark = marks.get(&shard).unwrap_or(&is_new);
            let chain = log.chain_at(shard, mark.seq);
            let is_kept = log
                .floor(shard)
                .is_some_and(|floor| mark.seq.next() >= floor);
            match chain {
                Some(chain) if chain == mark.chain => None,
                None if !is_kept => Some((shard, Standing::Snapshot)),
                _ => Some((shard, Standing::Mismatch)),
            }
        };
        if !marks.contains_key(&Shard::Meta) {
            return Vec::from([(Shard::Meta, Standing::Snapshot)]);
        }
        log.shards().filter_map(standing).collect()
    }

    /// Sends the entries behind a client's, Meta first.
    fn send_missing(
        &self,
        connection: ConnectionId,
        marks: &BTreeMap<Shard, Mark>,
        out: &mut Vec<Output>,
    ) {
        let log = self.node.log();
        let (mut entries, mut len) = (Vec::new(), 0);
        for shard in log.shards() {
            let after = marks.get(&shard).map_or_else(Seq::default, |mark| mark.seq);
            for record in log.after(shard, after) {
                if len + record.bytes.len() > limits::APPEND_LEN_MAX && len > 0 {
                    let part = core::mem::take(&mut entries);
                    out.push(Output::Send(connection, ServerMessage::Entries(part)));
                    len = 0;
                }
                len += record.bytes.len();
                entries.push((shard, record.bytes.clone()));
            }
        }
        if !entries.is_empty() {
            out.push(Output::Send(connection, ServerMessage::Entries(entries)));
        }
    }

    pub(super) fn welcome(
        &mut self,
        connection: ConnectionId,
        id: AttachmentId,
        out: &mut Vec<Output>,
    ) {
        self.tell_received((connection, id), out);
        let Some(party) = self.parties.get(&id) else {
            return;
        };
        let snapshot = party
            .is_follower
            .then(|| Snapshot::new(self.node.state().clone()));
        let welcome = Welcome {
            attachment: id,
            secret: party.secret,
            incarnation: self.genesis.incarnation,
            session: self.genesis.session,
            label: self.node.state().meta().label.clone(),
            counter_floor: party.counter_floor,
            marks: if party.is_follower {
                self.node.log().marks()
            } else {
                Vec::new()
            },
            snapshot_len: snapshot.as_ref().map_or(0, Snapshot::left),
        };
        out.push(Output::Welcome(connection, welcome, snapshot));
    }

    /// Sends a connection a fresh snapshot: its queue overflowed.
    pub fn resync(&mut self, now: Millis, connection: ConnectionId, out: &mut Vec<Output>) {
        self.settle(now, out);
        if let Some(peer) = self.peers.get(&connection).copied() {
            self.welcome(connection, peer.attachment, out);
        }
    }

    /// A connection ended. Its attachment stays for its grace.
    pub fn disconnect(&mut self, now: Millis, connection: ConnectionId, out: &mut Vec<Output>) {
        let Some(peer) = self.peers.remove(&connection) else {
            return;
        };
        if let Some(party) = self.parties.get_mut(&peer.attachment) {
            party.connection = None;
            party.grace_end = Some(now.after(grace_ms(party.kind)));
        }
        self.give_up_waiting_for(now, peer.attachment);
        self.reroute_unheard(now, peer.attachment);
        self.settle(now, out);
    }

    /// An attachment leaves: what it led goes to SERVER, what it owned goes.
    pub(super) fn detach(&mut self, now: Millis, id: AttachmentId) {
        let Some(party) = self.parties.remove(&id) else {
            return;
        };
        if let Some(connection) = party.connection {
            self.peers.remove(&connection);
        }
        if self.chief == Some(id) {
            self.chief = None;
        }
        self.transfers.retain(|_, transfer| transfer.to != id);
        let held: Vec<Shard> = self.shards_of(id);
        for shard in held {
            if !canary::is_on(Canary::HeldByGone) {
                self.pass_on(now, shard);
            }
        }
        // Only attachments of this session are parties, so both apply.
        let _ = self.node.append_meta(MetaOp::Detach(id)).is_ok();
        if !canary::is_on(Canary::ForgetSkipped) {
            let _ = self.node.forget(id).is_ok();
        }
        self.node.touched = self.node.state().buffers().map(|(id, _)| id).collect();
        self.forget_proposals(id);
        self.reroute_unheard(now, id);
    }
}

/// Returns whether a hello is of a party that knows its attachment and nothing of its logs: of a
/// process that does not know which ids were used.
fn is_new_process(hello: &Hello) -> bool {
    let resume = hello.resume.as_ref();
    resume.is_some_and(|resume| resume.marks.is_empty())
}

/// Returns how long an attachment stays without a connection, in milliseconds.
pub(super) const fn grace_ms(kind: AttachmentKind) -> u64 {
    match kind {
        AttachmentKind::Ui => limits::GRACE_UI_MS,
        AttachmentKind::Tool => limits::GRACE_TOOL_MS,
    }
}
