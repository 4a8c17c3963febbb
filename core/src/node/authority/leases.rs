//! Leases on the authority's side: grant, request, release, reclaim.
//!
//! 1. A user who takes over waits for the holder until one deadline, which nobody can put off.
//! 2. A tool leads single buffers, for a limited time, when its grant allows it. It asks and never
//!    takes: what the holder has not given at the deadline is refused.

use alloc::vec::Vec;

use super::{Authority, Output};
use crate::canary::{self, Canary};
use crate::entry::{AttachmentKind, BufferKind, MetaOp};
use crate::ids::{AttachmentId, ConnectionId, Epoch, Millis, SERVER, Seq, Shard};
use crate::limits;
use crate::message::{ErrorCode, ErrorMessage, ServerMessage};

/// A lease that a holder was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// Who gets it.
    pub(super) to: AttachmentId,
    /// When it is reclaimed, or refused.
    pub(super) deadline: Millis,
    /// Whether it is a wish of a tool, which is refused then.
    pub(super) is_wish: bool,
}

impl Authority {
    /// Makes a UI the leader of everything that can be leased, but for what a tool leads: that
    /// the user takes back text by text.
    pub(super) fn lead_all(&mut self, now: Millis, to: AttachmentId, is_steal: bool) {
        self.chief = Some(to);
        let shards: Vec<Shard> = self
            .node
            .state()
            .meta()
            .leases()
            .map(|(shard, _)| shard)
            .collect();
        let is_tools = |shard: &Shard| {
            let lease = self.node.log().lease(*shard).unwrap_or_default();
            self.tool_leases.contains_key(shard) && self.is_present(lease.holder)
        };
        let shards: Vec<Shard> = shards
            .into_iter()
            .filter(|shard| !shard.is_pinned() && !is_tools(shard))
            .collect();
        for shard in shards {
            self.hand_over(now, shard, to, is_steal);
        }
    }

    fn is_present(&self, id: AttachmentId) -> bool {
        let party = self.parties.get(&id);
        party.is_some_and(|party| party.connection.is_some())
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
        self.refuse_wish(shard);
        if lease.holder == SERVER {
            return self.grant(shard, to);
        }
        if is_steal || !self.is_present(lease.holder) {
            self.reclaim(shard);
            self.grant(shard, to);
            return self.reroute(now, lease.holder);
        }
        self.ask_for(now, shard, to);
    }

    /// Asks the holder of a shard to give it to a UI. Asking again does not put off the deadline.
    pub(super) fn ask_for(&mut self, now: Millis, shard: Shard, to: AttachmentId) {
        let asked = self.transfers.get(&shard).copied();
        if asked.is_some_and(|asked| asked.to == to) {
            return;
        }
        let until = now.after(limits::TRANSFER_MS);
        let deadline = asked.map_or(until, |asked| asked.deadline.min(until));
        self.ask_until(shard, (to, deadline), false);
    }

    fn ask_until(&mut self, shard: Shard, (to, deadline): (AttachmentId, Millis), is_wish: bool) {
        let transfer = Transfer {
            to,
            deadline,
            is_wish,
        };
        let request = MetaOp::LeaseRequest { shard, by: to };
        if self.node.append_meta(request).is_ok() {
            self.transfers.insert(shard, transfer);
        }
    }

    /// Refuses a shard to the tool that waits for it.
    fn refuse_wish(&mut self, shard: Shard) {
        if let Some(wish) = self.transfers.get(&shard).copied()
            && wish.is_wish
        {
            self.transfers.remove(&shard);
            let refusal = MetaOp::LeaseRefuse { shard, by: wish.to };
            let refused = self.node.append_meta(refusal);
            debug_assert!(refused.is_ok(), "the shard is known, and so is who asked");
        }
    }

    /// Returns whether a shard is about to go to another leader.
    pub(super) fn is_moving(&self, shard: Shard) -> bool {
        self.transfers
            .get(&shard)
            .is_some_and(|transfer| !transfer.is_wish)
    }

    /// Says whether a tool may lead buffers, and for how long at a time, in milliseconds. What it
    /// leads when it may not any more goes at once.
    pub fn allow_leases(&mut self, now: Millis, tool: AttachmentId, ms: Option<u64>) {
        let Some(party) = self.parties.get_mut(&tool) else {
            return;
        };
        if party.kind != AttachmentKind::Tool {
            return;
        }
        party.lease_ms = ms.map(|ms| ms.min(limits::TOOL_LEASE_MS_MAX));
        if ms.is_some() {
            return;
        }
        let wished = |(_, transfer): &(&Shard, &Transfer)| transfer.is_wish && transfer.to == tool;
        let wishes: Vec<Shard> = self
            .transfers
            .iter()
            .filter(wished)
            .map(|(shard, _)| *shard)
            .collect();
        for shard in wishes {
            self.refuse_wish(shard);
        }
        for shard in self.shards_of(tool) {
            self.pass_on(now, shard);
        }
        self.reroute(now, tool);
    }

    /// Takes a shard from its holder and gives it to whoever waits for it, else to the UI that
    /// leads, else to nobody.
    pub(super) fn pass_on(&mut self, now: Millis, shard: Shard) {
        let waiting = self.transfers.get(&shard).map(|transfer| transfer.to);
        self.reclaim(shard);
        match waiting.filter(|to| self.parties.contains_key(to)) {
            Some(to) => self.hand(now, shard, to),
            None => self.grant_to_chief(shard),
        }
    }

    /// Grants a shard; to a tool, for a limited time.
    fn hand(&mut self, now: Millis, shard: Shard, to: AttachmentId) {
        let Some(party) = self.parties.get(&to) else {
            return;
        };
        match (party.kind, party.lease_ms.or_else(unasked)) {
            (AttachmentKind::Ui, _) => self.grant(shard, to),
            (AttachmentKind::Tool, Some(ms)) => {
                self.grant(shard, to);
                self.tool_leases.insert(shard, now.after(ms));
            }
            (AttachmentKind::Tool, None) => {
                self.refuse_wish(shard);
                self.grant_to_chief(shard);
            }
        }
    }

    /// Returns whether an attachment still holds leases that another UI was promised.
    pub(super) fn is_giving_way(&self, id: AttachmentId) -> bool {
        let holds = |shard: &Shard| self.node.log().is_held_by(*shard, id);
        let mut shards = self.transfers.keys();
        shards.any(|shard| self.is_moving(*shard) && holds(shard))
    }

    pub(in crate::node) fn grant(&mut self, shard: Shard, to: AttachmentId) {
        self.transfers.remove(&shard);
        self.tool_leases.remove(&shard);
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

    /// Takes a shard back to SERVER, under a new fence. One without entries ends: what should fill
    /// it is of the old fence.
    pub(super) fn reclaim(&mut self, shard: Shard) {
        self.tool_leases.remove(&shard);
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
        if head == Seq::default() {
            self.end_shard(shard);
        } else if let Shard::Buffer(id) = shard {
            self.node.touched.insert(id);
            let forgotten = self.node.forget_gone(id);
            debug_assert!(forgotten.is_ok(), "SERVER leads it");
        } else if shard == Shard::Layout {
            self.node.is_unmended = true;
        }
    }

    /// Returns where a shard stands and its next epoch; none for a shard that is not there, or
    /// while that epoch is not reserved: nobody could know after a loss of power that it was used.
    fn next_fence(&mut self, shard: Shard) -> Option<(crate::message::Mark, Epoch)> {
        let mark = self.node.log().mark(shard)?;
        let epoch = self.node.log().lease(shard)?.epoch;
        if canary::is_on(Canary::EpochKept) {
            return Some((mark, epoch));
        }
        Some((mark, self.journaling.next_epoch(epoch)?))
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
        let Some(party) = self.parties.get_mut(&from) else {
            return;
        };
        if party.kind == AttachmentKind::Tool {
            if let Err(error) = self.request_as_tool(now, from, &shards) {
                let error = ServerMessage::Error { error, shards };
                out.push(Output::Send(connection, error));
            }
            return;
        }
        if core::mem::take(&mut party.is_watcher) {
            self.keep_party(from);
        }
        if shards.is_empty() {
            return self.lead_all(now, from, is_steal);
        }
        for shard in shards.into_iter().filter(|shard| !shard.is_pinned()) {
            self.hand_over(now, shard, from, is_steal);
        }
    }

    /// A tool asks for buffers. What SERVER leads it gets at once; any other holder is asked, and
    /// may keep it. A tool that asks for what it leads already goes on leading for its time.
    ///
    /// # Errors
    /// The tool may not lead, or not these; nothing was done.
    fn request_as_tool(
        &mut self,
        now: Millis,
        from: AttachmentId,
        shards: &[Shard],
    ) -> Result<(), ErrorMessage> {
        let allowed = self.parties.get(&from).and_then(|party| party.lease_ms);
        let allowed = allowed.or_else(unasked);
        let Some(ms) = allowed else {
            let words = "this tool was not granted the right to lead; propose instead";
            return Err(ErrorMessage::new(ErrorCode::Denied, words));
        };
        let is_text = |shard: &Shard| match shard {
            Shard::Buffer(id) => {
                let buffer = self.node.state().buffer(*id);
                buffer.is_some_and(|buffer| buffer.kind() != BufferKind::Tag)
            }
            Shard::Meta | Shard::Layout | Shard::Window(_) | Shard::Term(_) => false,
        };
        if shards.is_empty() || !shards.iter().all(is_text) {
            let words = "a tool leads texts that are there, each by its name, and nothing else";
            return Err(ErrorMessage::new(ErrorCode::Denied, words));
        }
        let is_taken = |shard: &Shard| self.loading.contains(shard) || self.is_moving(*shard);
        if shards.iter().any(is_taken) {
            let words = "the text is being read, or about to go to a user; ask later";
            return Err(ErrorMessage::new(ErrorCode::Retry, words));
        }
        for shard in shards {
            let lease = self.node.log().lease(*shard).unwrap_or_default();
            if lease.holder == from && lease.released.is_none() {
                self.tool_leases.insert(*shard, now.after(ms));
            } else if lease.holder == SERVER {
                self.hand(now, *shard, from);
            } else {
                self.refuse_wish(*shard);
                let deadline = now.after(limits::TRANSFER_MS);
                self.ask_until(*shard, (from, deadline), true);
            }
        }
        Ok(())
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
            Some(to) if to != from && self.parties.contains_key(&to) => self.hand(now, shard, to),
            _ => {
                // A wish that it answered too late.
                self.reclaim(shard);
                self.grant_to_chief(shard);
            }
        }
        self.reroute(now, from);
    }

    /// Reclaims what was not given to a user in time, refuses what was not given to a tool, and
    /// takes back what a tool has led long enough.
    pub(super) fn end_leases(&mut self, now: Millis) {
        let late = |(_, transfer): &(&Shard, &Transfer)| transfer.deadline <= now;
        let asked: Vec<(Shard, Transfer)> = self
            .transfers
            .iter()
            .filter(late)
            .map(|(shard, transfer)| (*shard, *transfer))
            .collect();
        for (shard, transfer) in asked {
            if transfer.is_wish {
                self.refuse_wish(shard);
            } else {
                self.take_from_holder(now, shard);
            }
        }
        let over = |(_, end): &(&Shard, &Millis)| **end <= now;
        let over: Vec<Shard> = self
            .tool_leases
            .iter()
            .filter(over)
            .map(|(shard, _)| *shard)
            .collect();
        for shard in over {
            self.take_from_holder(now, shard);
        }
    }

    fn take_from_holder(&mut self, now: Millis, shard: Shard) {
        let holder = self.node.log().lease(shard).unwrap_or_default().holder;
        self.pass_on(now, shard);
        self.reroute(now, holder);
    }

    /// A party is gone: what users asked it for is reclaimed at once.
    pub(super) fn give_up_waiting_for(&mut self, now: Millis, id: AttachmentId) {
        let asked: Vec<Shard> = self.transfers.keys().copied().collect();
        for shard in asked {
            let holder = self.node.log().lease(shard).unwrap_or_default().holder;
            if holder == id && self.is_moving(shard) {
                self.pass_on(now, shard);
            }
        }
    }
}

/// Returns how long a tool leads that has no right to.
fn unasked() -> Option<u64> {
    canary::is_on(Canary::ToolUnasked).then_some(1_000)
}
