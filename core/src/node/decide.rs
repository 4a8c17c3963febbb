//! Deciding on proposals: a leader accepts a proposal whole or refuses it whole.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::recent::CarryError;
use super::undoing::Direction;
use super::windows::Placement;
use super::{Node, NodeError};
use crate::buffer::Buffer;
use crate::buffer::layer::Layer;
use crate::canary::{self, Canary};
use crate::edit::{self, Splice};
use crate::entry::{Annotation, BufferKind, BufferOp, SaveCause};
use crate::ids::{
    AttachmentId, BufferId, GroupId, ProposalId, SERVER, Shard, Version, ViewId, WindowId,
};
use crate::limits;
use crate::proposal::{Atomicity, Change, Landed, Outcome, Parts, Proposal, Refusal};
use crate::text::Span;

/// What the names of attachments begin with that are the user's own commands, not tools.
pub const COMMAND_PREFIX: &str = "apex ";

/// What a leader does after a proposal's edits landed, outside the logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowUp {
    /// Put a buffer's version, as the proposal of a tool.
    Put {
        /// Which buffer.
        buffer: BufferId,
        /// Which version.
        version: Version,
        /// Whether it counts as the user's Put or as a tool's.
        cause: SaveCause,
    },
    /// Read a buffer's file again.
    Get(BufferId),
    /// Open a file and show it at an address.
    Open {
        /// An absolute path.
        path: String,
        /// A line number, `#n` or nothing.
        address: String,
    },
    /// Look a text up in a window.
    Look {
        /// Where.
        window: WindowId,
        /// What.
        text: String,
    },
}

/// The edits of one buffer in a proposal, composed and carried to the newest version.
pub(super) struct Planned {
    pub(super) base: Version,
    pub(super) splices: Vec<Splice>,
}

impl Node {
    /// Decides on a proposal for shards that this node leads: all its edits land as one undo
    /// group, or nothing does. Returns the outcome and what to do afterwards.
    ///
    /// A proposal that was accepted before is not applied again.
    pub fn decide(&mut self, proposal: &Proposal) -> (Outcome, Vec<FollowUp>) {
        if !self.is_attached(proposal.author) {
            // What it owns has gone with it; nobody would forget what comes later.
            let refusal = Refusal::Refused(String::from("who asked for it has left"));
            return (Err(refusal), Vec::new());
        }
        self.done_len = 0;
        let parts = match proposal.atomicity {
            Atomicity::All => BTreeMap::new(),
            Atomicity::Each => self.parts_of(proposal),
        };
        if parts.len() > 1 {
            return self.decide_on_each(proposal, parts);
        }
        match self.decided_before(proposal) {
            Some(outcome) => (outcome, Vec::new()),
            None => self.decide_whole(proposal),
        }
    }

    /// Decides on a proposal buffer by buffer. What is about no buffer comes last: it may show
    /// what the edits made.
    fn decide_on_each(
        &mut self,
        proposal: &Proposal,
        parts: BTreeMap<Shard, Vec<usize>>,
    ) -> (Outcome, Vec<FollowUp>) {
        let mut outcomes = Parts::new(proposal.changes.len());
        let mut after = Vec::new();
        // All are asked before any is carried out: one part can leave the proposal's id in a tag
        // that another part is about.
        let asked: Vec<(Vec<usize>, Proposal, Option<Outcome>)> = parts
            .into_values()
            .rev()
            .map(|at| {
                let part = proposal.part(&at);
                let known = self.decided_before(&part);
                (at, part, known)
            })
            .collect();
        for (at, part, known) in asked {
            let outcome = match known {
                Some(outcome) => outcome,
                None => {
                    let (outcome, more) = self.decide_whole(&part);
                    after.extend(more);
                    outcome
                }
            };
            outcomes.note(&at, self.places_of(&part), outcome);
        }
        (outcomes.outcome(), after)
    }

    /// Returns what is decided on apart when a proposal says so: the places of the changes of each
    /// buffer, and of those that are the layout's leader's.
    #[must_use]
    pub fn parts_of(&self, proposal: &Proposal) -> BTreeMap<Shard, Vec<usize>> {
        let named: BTreeSet<BufferId> =
            proposal.changes.iter().filter_map(Change::buffer).collect();
        let mut parts: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
        for (i, change) in proposal.changes.iter().enumerate() {
            // A text that is meant by its name and by its id is one text.
            let marked = self.marked_by(change).filter(|id| named.contains(id));
            let shard = marked.map_or_else(|| self.shard_of(change), Shard::Buffer);
            parts.entry(shard).or_default().push(i);
        }
        parts
    }

    /// Returns the shard whose leader decides on a change: the one that it is appended to, as far
    /// as it is there.
    #[must_use]
    pub fn shard_of(&self, change: &Change) -> Shard {
        let shown = |name: &str| {
            let buffer = self.state.buffer_named(name)?;
            self.window_of_buffer(buffer).map(|_| buffer)
        };
        let buffer = match change {
            Change::Select { view, .. } => self.state.buffer_of(*view),
            Change::Board { name, .. } | Change::Append { name, .. } => shown(name),
            Change::TagSegment { window, .. } if self.state.window(*window).is_some() => {
                return Shard::Window(*window);
            }
            change => change.buffer(),
        };
        buffer.map_or(Shard::Layout, Shard::Buffer)
    }

    /// Returns the shards that one party must lead to carry out a change.
    #[must_use]
    pub fn shards_of(&self, change: &Change) -> Vec<Shard> {
        let mut shards = vec![self.shard_of(change)];
        if let Change::Close(id) = change
            && let Some(window) = self.state.window(*id)
        {
            shards.extend([Shard::Window(*id), Shard::Buffer(window.tag)]);
            let body = self.state.buffer_of(ViewId::Body(*id));
            shards.extend(body.map(Shard::Buffer));
        }
        shards
    }

    /// Returns what the changes of a proposal are about, as it is now.
    #[must_use]
    pub fn places_of(&self, proposal: &Proposal) -> Vec<Landed> {
        let place = |change: &Change| self.landed(change.buffer(), None);
        proposal.changes.iter().map(place).collect()
    }

    fn decide_whole(&mut self, proposal: &Proposal) -> (Outcome, Vec<FollowUp>) {
        // The way back. A lone edit needs none, as it is checked before it is applied and nothing
        // comes after it; while a clone of the state lives, an edit copies all that it touches.
        let is_lone_edit = matches!(proposal.changes.as_slice(), [Change::Edit { .. }]);
        let before = (!is_lone_edit).then(|| self.state.clone());
        let len_before = self.done_len;
        self.origin = Some(proposal.origin());
        self.done = Some(Vec::new());
        let decided = self.carry_out(proposal);
        if decided.is_ok() {
            // A tag that stays as it was is no reason to refuse.
            let _ = self.refresh_tags().is_ok();
        }
        self.origin = None;
        let done = self.done.take().unwrap_or_default();
        match decided {
            Ok((landed, after)) => (Ok(landed), after),
            Err(refusal) => {
                if let Some(before) = before {
                    self.take_back(before, &done);
                }
                self.done_len = len_before;
                (Err(refusal), Vec::new())
            }
        }
    }

    /// Returns how a proposal ended, as the buffers know: one that left its id left all of it,
    /// because a leader accepts whole. One that is older than what a buffer accepted of its author
    /// since was not accepted, or it was and its author was told.
    fn decided_before(&self, proposal: &Proposal) -> Option<Outcome> {
        if canary::is_on(Canary::DedupeSkipped) {
            return None;
        }
        let accepted = |id: BufferId| self.state.buffer(id)?.accepted(proposal.author);
        let marked = proposal.changes.iter().filter_map(|c| self.marked_by(c));
        let known: Vec<ProposalId> = marked.filter_map(accepted).collect();
        if known.contains(&proposal.id) {
            return Some(Ok(self.places_of(proposal)));
        }
        let words = "a later proposal of the same author came first; propose it anew";
        let is_late = known.iter().any(|known| *known > proposal.id);
        is_late.then(|| Err(Refusal::Refused(String::from(words))))
    }

    /// Returns the buffer in which a change leaves its proposal's id.
    fn marked_by(&self, change: &Change) -> Option<BufferId> {
        match change {
            Change::Board { name, .. } | Change::Append { name, .. } => {
                self.state.buffer_named(name)
            }
            Change::Put { .. } | Change::GetIfClean(_) => None,
            change => change.buffer(),
        }
    }

    fn landed(&self, buffer: Option<BufferId>, window: Option<WindowId>) -> Landed {
        let version = buffer
            .and_then(|id| self.state.buffer(id))
            .map(Buffer::version);
        Landed {
            buffer,
            version: version.unwrap_or_default(),
            window,
            refusal: None,
        }
    }

    fn carry_out(&mut self, proposal: &Proposal) -> Result<(Vec<Landed>, Vec<FollowUp>), Refusal> {
        if proposal.changes.len() > limits::CHANGE_COUNT_MAX {
            let most = limits::CHANGE_COUNT_MAX;
            return Err(Refusal::Refused(alloc::format!("more than {most} changes")));
        }
        let versions = self.versions_before(proposal);
        let group = self.group_of(proposal);
        self.land_edits(proposal, group)?;
        let mut landed = Vec::new();
        let mut after = Vec::new();
        // What closes a window cannot be taken back, so it comes last.
        let (closing, staying): (Vec<_>, Vec<_>) =
            (0..proposal.changes.len()).partition(|i| is_closing(&proposal.changes[*i]));
        landed.resize(proposal.changes.len(), Landed::default());
        for i in &closing {
            self.check_close(&proposal.changes[*i])?;
        }
        for i in staying.into_iter().chain(closing) {
            let change = &proposal.changes[i];
            landed[i] = self.land((proposal.author, group), change, &versions, &mut after)?;
        }
        Ok((landed, after))
    }

    fn versions_before(&self, proposal: &Proposal) -> BTreeMap<BufferId, Version> {
        let buffers = proposal.changes.iter().filter_map(Change::buffer);
        buffers
            .filter_map(|id| Some((id, self.state.buffer(id)?.version())))
            .collect()
    }

    /// Returns the step of undo of a proposal: the same whoever decides on which part of it.
    fn group_of(&mut self, proposal: &Proposal) -> GroupId {
        let id = proposal.id.raw();
        if AttachmentId::issuer_of(id) == proposal.author {
            // Ids of one attachment are of one counter, so no other group is called so.
            GroupId::new(id)
        } else {
            self.new_group()
        }
    }

    /// Composes the edits of each buffer, carries them forward and appends them as one group.
    fn land_edits(&mut self, proposal: &Proposal, group: GroupId) -> Result<(), Refusal> {
        let mut planned: BTreeMap<BufferId, Planned> = BTreeMap::new();
        for change in &proposal.changes {
            let Change::Edit {
                buffer,
                base,
                splices,
            } = change
            else {
                continue;
            };
            edit::check(splices, u64::MAX)
                .map_err(|error| Refusal::OutOfRange(error.to_string()))?;
            match planned.get_mut(buffer) {
                Some(plan) if plan.base == *base => {
                    plan.splices = edit::compose(&plan.splices, splices);
                }
                Some(_) => return Err(self.stale(*buffer)),
                None => {
                    let plan = Planned {
                        base: *base,
                        splices: splices.clone(),
                    };
                    planned.insert(*buffer, plan);
                }
            }
        }
        let mut carried = Vec::new();
        let mut refusals = Vec::new();
        for (id, plan) in planned {
            match self.carried(id, plan) {
                Ok(splices) => carried.push((id, splices)),
                Err(refusal) => refusals.push(refusal),
            }
        }
        if let Some(refusal) = Refusal::of_all(refusals) {
            return Err(refusal);
        }
        for (id, splices) in carried {
            if splices.is_empty() {
                continue;
            }
            let kind = self.state.buffer(id).map(Buffer::kind);
            let group = (kind != Some(BufferKind::Tag)).then_some(group);
            let op = BufferOp::Edit {
                splices: splices.into(),
                group,
                dot: None,
            };
            self.append_buffer(id, op).map_err(refused)?;
        }
        Ok(())
    }

    pub(super) fn carried(&self, id: BufferId, plan: Planned) -> Result<Vec<Splice>, Refusal> {
        let buffer = self.state.buffer(id).ok_or_else(|| missing_buffer(id))?;
        if canary::is_on(Canary::StaleApplied) {
            return Ok(plan.splices);
        }
        self.carry(id, plan.base, plan.splices)
            .map_err(|error| match error {
                CarryError::Stale => self.stale(id),
                CarryError::Conflict(overlap) => Refusal::Conflict {
                    buffer: id,
                    version: buffer.version(),
                    at: overlap.at,
                },
            })
    }

    fn stale(&self, id: BufferId) -> Refusal {
        let version = self
            .state
            .buffer(id)
            .map(Buffer::version)
            .unwrap_or_default();
        Refusal::Stale {
            buffer: id,
            version,
        }
    }

    /// Carries out one change; edits have landed before.
    fn land(
        &mut self,
        (author, group): (AttachmentId, GroupId),
        change: &Change,
        versions: &BTreeMap<BufferId, Version>,
        after: &mut Vec<FollowUp>,
    ) -> Result<Landed, Refusal> {
        match change {
            Change::Edit { buffer, .. } => Ok(self.landed(Some(*buffer), None)),
            Change::Select { view, at } => {
                self.select(*view, *at).map_err(refused)?;
                Ok(self.landed(self.state.buffer_of(*view), view.window()))
            }
            Change::Show { buffer, address } => self.show(*buffer, address),
            Change::Annotate {
                buffer,
                base,
                layer,
                spans,
            } => self.annotate(author, *buffer, (*base, layer), spans),
            Change::Board { name, text, column } => {
                let placement = column.map_or(Placement::LastColumn, Placement::Column);
                self.board(name, text, placement)
            }
            Change::Append { name, text } => {
                let (buffer, window) = self.append_scratch(name, text).map_err(refused)?;
                Ok(self.landed(Some(buffer), Some(window)))
            }
            Change::TagSegment { window, name, text } => {
                let key = alloc::format!("segment.{author}.{name}");
                let value = (!text.is_empty()).then(|| text.clone());
                let op = crate::entry::WindowOp::Setting { key, value };
                self.append_window(*window, op).map_err(refused)?;
                Ok(self.landed(None, Some(*window)))
            }
            Change::Close(window) => self.close(*window),
            Change::Saved { buffer, saved } => {
                self.append_buffer(*buffer, BufferOp::Saved(saved.clone()))
                    .map_err(refused)?;
                Ok(self.landed(Some(*buffer), None))
            }
            Change::Name { buffer, name } => {
                let op = BufferOp::Name {
                    name: name.clone(),
                    group: Some(group),
                };
                self.append_buffer(*buffer, op).map_err(refused)?;
                Ok(self.landed(Some(*buffer), None))
            }
            Change::Undo { buffer, group } => self.step_alone(*buffer, *group, Direction::Back),
            Change::Redo { buffer, group } => self.step_alone(*buffer, *group, Direction::Forth),
            Change::Put { .. }
            | Change::GetIfClean(_)
            | Change::Open { .. }
            | Change::Look { .. } => self.follow_up(author, change, versions, after),
        }
    }

    /// Steps over a group in one buffer: others of the group follow by proposals of their own.
    fn step_alone(
        &mut self,
        id: BufferId,
        group: GroupId,
        direction: Direction,
    ) -> Result<Landed, Refusal> {
        let buffer = self.state.buffer(id).ok_or_else(|| missing_buffer(id))?;
        if self.next_group(id, direction) != Some(group) {
            return Err(Refusal::Diverged {
                buffer: id,
                version: buffer.version(),
            });
        }
        self.step_group(id, (group, direction), None)
            .map_err(refused)?;
        Ok(self.landed(Some(id), None))
    }

    /// Notes what the host is asked for; it does not undo the edits when it cannot be done.
    fn follow_up(
        &self,
        author: AttachmentId,
        change: &Change,
        versions: &BTreeMap<BufferId, Version>,
        after: &mut Vec<FollowUp>,
    ) -> Result<Landed, Refusal> {
        let mut landed = self.landed(change.buffer(), None);
        match change {
            Change::Put { buffer, version } => {
                let target = self
                    .state
                    .buffer(*buffer)
                    .ok_or_else(|| missing_buffer(*buffer))?;
                if versions.get(buffer) == Some(version) {
                    let (buffer, version, cause) =
                        (*buffer, target.version(), self.cause_of(author));
                    after.push(FollowUp::Put {
                        buffer,
                        version,
                        cause,
                    });
                } else {
                    landed.refusal = Some(self.stale(*buffer));
                }
            }
            Change::GetIfClean(buffer) => {
                let target = self
                    .state
                    .buffer(*buffer)
                    .ok_or_else(|| missing_buffer(*buffer))?;
                if target.is_modified() {
                    landed.refusal = Some(Refusal::Refused(String::from("the buffer is modified")));
                } else {
                    after.push(FollowUp::Get(*buffer));
                }
            }
            Change::Open { path, address } => {
                let (path, address) = (path.clone(), address.clone());
                after.push(FollowUp::Open { path, address });
            }
            Change::Look { window, text } => {
                after.push(FollowUp::Look {
                    window: *window,
                    text: text.clone(),
                });
            }
            _ => {}
        }
        Ok(landed)
    }

    /// Returns whether an attachment is one of the user's own commands, not a tool.
    #[must_use]
    pub fn is_command(&self, attachment: AttachmentId) -> bool {
        let party = self.state.meta().attachments.get(&attachment);
        party.is_some_and(|party| party.name.starts_with(COMMAND_PREFIX))
    }

    /// Returns why a put of an author is: of a tool, or of the user's own command.
    fn cause_of(&self, author: AttachmentId) -> SaveCause {
        if self.is_command(author) {
            SaveCause::Put
        } else {
            SaveCause::Tool
        }
    }

    /// Shows a buffer at an address, in a new window if it has none.
    ///
    /// # Errors
    /// No such buffer, or not led by this node.
    pub fn show(&mut self, buffer: BufferId, address: &str) -> Result<Landed, Refusal> {
        let window = match self.window_of_buffer(buffer) {
            Some(window) => window,
            None => self
                .new_window(buffer, Placement::Active)
                .map_err(refused)?,
        };
        let view = ViewId::Body(window);
        let text = self
            .state
            .buffer(buffer)
            .map(|buffer| buffer.text().clone());
        let span = text.and_then(|text| crate::address::resolve(&text, address));
        self.focus(Some(view)).map_err(refused)?;
        let mut landed = self.landed(Some(buffer), Some(window));
        if !address.is_empty() && !self.leads(Shard::Buffer(buffer)) {
            let words = String::from("the file is still being read, so nothing is selected");
            landed.refusal = Some(Refusal::Retry(words));
        } else if let Some(span) = span {
            self.select(view, span).map_err(refused)?;
        } else if !address.is_empty() {
            landed.refusal = Some(Refusal::OutOfRange(alloc::format!("address {address}")));
        }
        Ok(landed)
    }

    fn annotate(
        &mut self,
        author: AttachmentId,
        id: BufferId,
        (base, layer): (Version, &str),
        spans: &[Annotation],
    ) -> Result<Landed, Refusal> {
        let changes = self.changes_since(id, base).ok_or_else(|| self.stale(id))?;
        let mut carried = spans.to_vec();
        if !changes.is_empty() {
            // No text since the base was longer than this.
            let removed = changes.iter().flat_map(|splices| splices.iter());
            let removed: u64 = removed.map(|splice| splice.at.len()).sum();
            let len = removed
                + self
                    .state
                    .buffer(id)
                    .map_or(0, |buffer| buffer.text().len());
            if let Some(wrong) = spans.iter().find(|annotation| !annotation.at.fits(len)) {
                let Span { q0, q1 } = wrong.at;
                return Err(Refusal::OutOfRange(alloc::format!("#{q0},#{q1}")));
            }
            let mut layer = Layer::new(spans);
            changes.iter().for_each(|splices| layer.apply(splices));
            for (annotation, (at, _)) in carried.iter_mut().zip(layer.iter()) {
                annotation.at = at;
            }
        }
        let op = BufferOp::Annotate {
            owner: author,
            layer: layer.into(),
            spans: carried,
        };
        self.append_buffer(id, op).map_err(refused)?;
        Ok(self.landed(Some(id), None))
    }

    fn board(&mut self, name: &str, text: &str, placement: Placement) -> Result<Landed, Refusal> {
        let (id, window) = self.scratch_window(name, placement).map_err(refused)?;
        let old = self
            .state
            .buffer(id)
            .map(|buffer| buffer.text().clone())
            .unwrap_or_default();
        if let Some(splice) = edit::difference(&old, &text.into()) {
            let op = BufferOp::Edit {
                splices: splice.into(),
                group: None,
                dot: None,
            };
            self.append_buffer(id, op).map_err(refused)?;
        }
        Ok(self.landed(Some(id), Some(window)))
    }

    /// Checks that a window can be closed without taking anything back.
    fn check_close(&self, change: &Change) -> Result<(), Refusal> {
        let Change::Close(window) = change else {
            return Ok(());
        };
        let known = self.state.window(*window);
        let tag = known
            .ok_or_else(|| Refusal::NotFound(alloc::format!("window {window}")))?
            .tag;
        let body = self.state.buffer_of(ViewId::Body(*window));
        let is_shared = body.is_some_and(|body| self.state.windows_of(body).nth(1).is_some());
        let is_modified = body
            .and_then(|body| self.state.buffer(body))
            .is_some_and(Buffer::is_modified);
        if is_modified && !is_shared {
            return Err(Refusal::Refused(String::from(
                "the window's buffer is modified",
            )));
        }
        let shards = [Shard::Layout, Shard::Window(*window), Shard::Buffer(tag)];
        let is_led = |shard: &Shard| self.leads(*shard);
        if !shards.iter().all(is_led) || body.is_some_and(|id| !self.leads(Shard::Buffer(id))) {
            return Err(Refusal::Retry(String::from("the leader is changing")));
        }
        Ok(())
    }

    fn close(&mut self, window: WindowId) -> Result<Landed, Refusal> {
        let body = self.state.buffer_of(ViewId::Body(window));
        self.close_window(window).map_err(refused)?;
        Ok(self.landed(body, None))
    }

    /// Drops what an attachment that left owned in the buffers that this node leads.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn forget(&mut self, attachment: AttachmentId) -> Result<(), NodeError> {
        let owned: Vec<BufferId> = self
            .state
            .buffers()
            .filter(|(_, buffer)| buffer.is_owned_by(attachment))
            .map(|(id, _)| id)
            .filter(|id| self.leads(Shard::Buffer(*id)))
            .collect();
        for id in owned {
            self.append_buffer(id, BufferOp::Forget(attachment))?;
        }
        Ok(())
    }

    /// Drops from a buffer what attachments owned that left while another party led it, or led it
    /// and had not heard of that.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn forget_gone(&mut self, id: BufferId) -> Result<(), NodeError> {
        let Some(buffer) = self.state.buffer(id) else {
            return Ok(());
        };
        let gone: BTreeSet<AttachmentId> = buffer
            .owners()
            .filter(|owner| !self.is_attached(*owner))
            .collect();
        for attachment in gone {
            self.append_buffer(id, BufferOp::Forget(attachment))?;
        }
        Ok(())
    }

    /// Returns whether an attachment is in the session; SERVER always is.
    #[must_use]
    pub fn is_attached(&self, id: AttachmentId) -> bool {
        id == SERVER || self.state.meta().attachments.contains_key(&id)
    }
}

fn is_closing(change: &Change) -> bool {
    matches!(change, Change::Close(_))
}

fn missing_buffer(id: BufferId) -> Refusal {
    Refusal::NotFound(alloc::format!("buffer {id}"))
}

/// Turns what a node refused into what the author is told.
pub(super) fn refused(error: NodeError) -> Refusal {
    match error {
        NodeError::Missing(what) => Refusal::NotFound(what.into()),
        NodeError::Log(crate::log::LogError::NotLeader { .. }) => {
            Refusal::Retry(String::from("the leader is changing"))
        }
        NodeError::Apply(_, crate::state::ApplyError::Op(error)) => {
            Refusal::OutOfRange(error.to_string())
        }
        other => Refusal::Refused(other.to_string()),
    }
}
