//! Leases on the authority's side: grant, request, release, reclaim.

use alloc::vec::Vec;

use super::{Authority, Output};
use crate::entry::{AttachmentKind, MetaOp};
use crate::ids::{AttachmentId, ConnectionId, Epoch, Millis, SERVER, Seq, Shard};
use crate::limits;
use crate::message::{ErrorCode, ErrorMessage, ServerMessage};

/// A lease that a holder was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// Who gets it.
    pub(super) to: AttachmentId,
    /// When it is reclaimed.
    pub(super) deadline: Millis,
}

impl Authority {
    /// Makes a UI the leader of everything that can be leased.
    pub(super) fn lead_all(&mut self, now: Millis, to: AttachmentId, is_steal: bool) {
        self.chief = Some(to);
        let shards: Vec<Shard> = self
            .node
            .state()
            .meta()
            .leases()
            .map(|(shard, _)| shard)
            .collect();
        for shard in shards.into_iter().filter(|shard| !shard.is_pinned()) {
            self.hand_over(now, shard, to, is_steal);
        }
    }

    /// Grants a shard that SERVER or nobody present holds; asks a present holder for it.
    fn hand_over(&mut self, now: Millis, shard: Shard, to: AttachmentId, is_steal: bool) {
        let Some(lease) = self.node.log().lease(shard) else {
            return;
        };
        if self.loading.contains(&shard) {
            // Whoever is the chief at its end gets it.
            return;
        }
        if lease.holder == to && lease.released.is_none() {
            self.transfers.remove(&shard);
            return;
        }
        if lease.holder == SERVER {
            return self.grant(shard, to);
        }
        let holder = self.parties.get(&lease.holder);
        let is_present = holder.is_some_and(|party| party.connection.is_some());
        if is_steal || !is_present {
            self.reclaim(shard);
            return self.grant(shard, to);
        }
        self.ask_for(now, shard, to);
    }

    /// Asks the holder of a shard to give it to another party.
    pub(super) fn ask_for(&mut self, now: Millis, shard: Shard, to: AttachmentId) {
        let deadline = now.after(limits::TRANSFER_MS);
        if self
            .node
            .append_meta(MetaOp::LeaseRequest { shard, by: to })
            .is_ok()
        {
            self.transfers.insert(shard, Transfer { to, deadline });
        }
    }

    /// Returns whether an attachment still holds leases that another UI was promised.
    pub(super) fn is_giving_way(&self, id: AttachmentId) -> bool {
        let holds = |shard: &Shard| self.node.log().is_held_by(*shard, id);
        self.transfers.keys().any(holds)
    }

    pub(super) fn grant(&mut self, shard: Shard, to: AttachmentId) {
        self.transfers.remove(&shard);
        let Some((mark, epoch)) = self.next_fence(shard) else {
            return;
        };
        let (head, chain) = (mark.seq, mark.chain);
        let granted = self.node.append_meta(MetaOp::LeaseGrant {
            shard,
            to,
            epoch,
            head,
            chain,
        });
        debug_assert!(
            granted.is_ok(),
            "a known shard is granted to a known attachment"
        );
    }

    /// Takes a shard back to SERVER, under a new fence.
    pub(super) fn reclaim(&mut self, shard: Shard) {
        let Some((mark, epoch)) = self.next_fence(shard) else {
            return;
        };
        let (head, chain) = (mark.seq, mark.chain);
        let op = MetaOp::LeaseReclaim {
            shard,
            epoch,
            head,
            chain,
        };
        let reclaimed = self.node.append_meta(op);
        debug_assert!(reclaimed.is_ok(), "a known shard is reclaimed");
        if let Shard::Buffer(id) = shard {
            self.node.touched.insert(id);
        }
    }

    fn next_fence(&self, shard: Shard) -> Option<(crate::message::Mark, Epoch)> {
        let mark = self.node.log().mark(shard)?;
        Some((mark, self.node.log().lease(shard)?.epoch.next()))
    }

    pub(super) fn shards_of(&self, id: AttachmentId) -> Vec<Shard> {
        let is_held = |shard: &Shard| {
            self.node
                .log()
                .lease(*shard)
                .is_some_and(|lease| lease.holder == id)
        };
        self.node.log().shards().filter(is_held).collect()
    }

    /// Keeps a shard that SERVER made with SERVER while the host loads a file into it.
    pub fn begin_load(&mut self, shard: Shard) {
        self.loading.insert(shard);
    }

    /// Grants a shard that is loaded to the UI that leads, if there is one.
    pub fn end_load(&mut self, shard: Shard) {
        self.loading.remove(&shard);
        self.grant_to_chief(shard);
    }

    /// Grants a shard that SERVER made to the UI that leads, if there is one.
    pub fn grant_to_chief(&mut self, shard: Shard) {
        if let Some(chief) = self.chief
            && self.node.log().is_held_by(shard, SERVER)
        {
            self.grant(shard, chief);
        }
    }

    pub(super) fn request_leases(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        (shards, is_steal): (Vec<Shard>, bool),
        out: &mut Vec<Output>,
    ) {
        let Some(from) = self.attachment_of(connection) else {
            return;
        };
        let party = self
            .parties
            .get_mut(&from)
            .filter(|party| party.kind == AttachmentKind::Ui);
        let Some(party) = party else {
            let words = "a tool does not lead; propose instead";
            let error = ErrorMessage::new(ErrorCode::Denied, words);
            return out.push(Output::Send(
                connection,
                ServerMessage::Error { error, shards },
            ));
        };
        party.is_watcher = false;
        if shards.is_empty() {
            return self.lead_all(now, from, is_steal);
        }
        for shard in shards.into_iter().filter(|shard| !shard.is_pinned()) {
            self.hand_over(now, shard, from, is_steal);
        }
    }

    /// A holder gave a shard back behind its last entry.
    pub(super) fn release(&mut self, now: Millis, from: AttachmentId, shard: Shard, seq: Seq) {
        let head = self.node.log().mark(shard).map(|mark| mark.seq);
        if !self.node.log().is_held_by(shard, from) || head != Some(seq) {
            // Reclaimed meanwhile, or entries are missing: the deadline decides.
            return;
        }
        if self
            .node
            .append_meta(MetaOp::LeaseRelease { shard, seq })
            .is_err()
        {
            return;
        }
        match self
            .transfers
            .get(&shard)
            .map(|transfer| transfer.to)
            .or(self.chief)
        {
            Some(to) if to != from && self.parties.contains_key(&to) => self.grant(shard, to),
            _ => self.reclaim(shard),
        }
        self.reroute(now, from);
    }

    /// Reclaims what was not given back in time.
    pub(super) fn end_transfers(&mut self, now: Millis) {
        let ended: Vec<(Shard, AttachmentId)> = self
            .transfers
            .iter()
            .filter(|(_, transfer)| transfer.deadline <= now)
            .map(|(shard, transfer)| (*shard, transfer.to))
            .collect();
        for (shard, to) in ended {
            let holder = self.node.log().lease(shard).map(|lease| lease.holder);
            self.transfers.remove(&shard);
            self.reclaim(shard);
            self.grant(shard, to);
            if let Some(holder) = holder {
                self.reroute(now, holder);
            }
        }
    }

    /// A party is gone: leases that it was asked for are reclaimed at once.
    pub(super) fn give_up_waiting_for(&mut self, id: AttachmentId) {
        let asked: Vec<(Shard, AttachmentId)> = self
            .transfers
            .iter()
            .filter(|(shard, _)| {
                self.node
                    .log()
                    .lease(**shard)
                    .is_some_and(|lease| lease.holder == id)
            })
            .map(|(shard, transfer)| (*shard, transfer.to))
            .collect();
        for (shard, to) in asked {
            self.reclaim(shard);
            self.grant(shard, to);
        }
    }
}
