//! The tail of a displaced leader: what it appended that did not arrive, and what becomes of it.
//!
//! Entries of proposals are no part of it. The daemon has whoever leads by now decide on them, so
//! they would come twice; what was typed over them is carried back to the text without them. Nor
//! is the editor's part of a tag, which whoever leads by now writes. A name that was given to a
//! text is: it is proposed beside what was typed.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::{Client, ClientEvent, first_of};
use crate::buffer::Buffer;
use crate::canary::{self, Canary};
use crate::edit::Splice;
use crate::edit::apart::Apart;
use crate::entry::{BufferKind, BufferOp, Entry, Op, Origin};
use crate::ids::{BufferId, ProposalId, Seq, Shard, Version, ViewId};
use crate::log::{MirrorNotice, Record};
use crate::message::{ClientMessage, Mark};
use crate::node::Node;
use crate::proposal::{Change, Outcome, Refusal};

/// Typed text that did not arrive before another leader took over.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    buffer: BufferId,
    name: String,
    /// The edit and its base, or none when it can only be shown.
    edit: Option<(Version, Vec<Splice>)>,
    /// What was typed, for `+Recovered`; of a name, the name.
    text: String,
    /// Whether it is the name that the buffer was to have.
    is_name: bool,
    /// Whether the text goes to `+Recovered` next.
    is_conflict: bool,
    /// Whether the owner knows that it is not in the state.
    is_told: bool,
    /// How often it was put off.
    tried_count: u32,
}

/// How often a tail that is put off is proposed again at once.
const TRIED_COUNT: u32 = 8;

impl Tail {
    /// Returns the name that a buffer was to have, to be proposed to who leads it now.
    fn of_name(node: &Node, (buffer, name): (BufferId, String)) -> Option<Self> {
        let old = node.state.buffer(buffer).map(Buffer::name);
        let old = old.filter(|old| *old != name)?;
        Some(Self {
            buffer,
            name: String::from(old),
            edit: None,
            text: name,
            is_name: true,
            is_conflict: false,
            is_told: true,
            tried_count: 0,
        })
    }

    /// Returns whether it was gathered from this buffer for the snapshot that is on its way.
    fn is_untold_of(&self, buffer: BufferId) -> bool {
        !self.is_told && self.buffer == buffer
    }

    /// Returns the change that brings it to who leads.
    fn change(&self) -> Change {
        let buffer = self.buffer;
        match &self.edit {
            _ if self.is_conflict => {
                let directory = self.name.rfind('/').map_or("", |at| &self.name[..=at]);
                recovery(directory, &self.name, &self.text)
            }
            None => Change::Name {
                buffer,
                name: self.text.clone(),
            },
            Some((base, splices)) => Change::Edit {
                buffer,
                base: *base,
                splices: splices.clone(),
            },
        }
    }

    /// Returns the words that tell where it is.
    fn words(&self) -> String {
        let Self { name, text, .. } = self;
        if self.is_name && !self.is_conflict {
            return alloc::format!(
                "{text}, typed as the name of {name} before another UI took over, is its name"
            );
        }
        let place = if self.is_conflict {
            "+Recovered"
        } else {
            "the buffer"
        };
        alloc::format!("text typed in {name} before another UI took over is in {place}")
    }

    /// Returns it as one that is only shown.
    pub(super) fn into_conflict(self) -> Self {
        Self {
            is_conflict: true,
            ..self
        }
    }
}

impl Client {
    /// Keeps what the old node appended and the fresh snapshot does not have. Where the log is as
    /// it was and this node leads, it is appended again: byte for byte under the same fence, anew
    /// under another one. All else is a tail. `is_same` says that the daemon has not lost anything
    /// that it acknowledged.
    pub(super) fn gather_tails(&mut self, old: &Node, fresh: &mut Node, is_same: bool) {
        let is_same_party = old.attachment() == fresh.attachment();
        let shards: Vec<Shard> = old.log().shards().collect();
        for shard in shards {
            let mark = fresh.log().mark(shard);
            let is_whole =
                mark.is_some_and(|mark| old.log().chain_at(shard, mark.seq) == Some(mark.chain));
            let accepted = match mark {
                Some(mark) if is_whole => mark.seq,
                // Another party appended since: what was acknowledged arrived, and nothing else,
                // because acknowledgements are never forgotten and come before a snapshot.
                Some(_) => self.arrived(old, shard),
                None => self.overtaken.get(&shard).copied().unwrap_or_default(),
            };
            if !has_own(old, shard, accepted) {
                continue;
            }
            let landed = if is_whole && is_same_party && fresh.leads(shard) {
                // What was on its way when a snapshot came that nobody asked for arrives still.
                let is_under_way =
                    !self.is_resyncing && old.log.epoch(shard) == fresh.log.epoch(shard);
                append_again(old, fresh, (shard, accepted), is_under_way)
            } else {
                accepted
            };
            end_empty(fresh, shard);
            let Shard::Buffer(id) = shard else { continue };
            let is_known = is_whole || (is_same && !self.has_lost(shard));
            let has_tail = has_own(old, shard, landed);
            let tail = has_tail.then(|| tail_of(old, id, landed, mark.is_some() && is_known));
            self.keep_tail(id, tail.flatten());
            let name = (has_tail && is_named(old, id, landed)).then(|| old.state.buffer(id));
            let name = name.flatten().map(|old| (id, String::from(old.name())));
            let tail = name.and_then(|name| Tail::of_name(fresh, name));
            self.tails.extend(tail);
        }
        let names = fresh.take_renaming(old).into_iter();
        let tails = names.filter_map(|name| Tail::of_name(fresh, name));
        self.tails.extend(tails);
    }

    /// Keeps what was typed behind `from` into a text that another party leads: it may be closed
    /// before the fresh snapshot is there.
    pub(super) fn gather_tail(&mut self, shard: Shard, from: Seq) {
        let (Shard::Buffer(id), Some(node)) = (shard, &self.node) else {
            return;
        };
        let tail = tail_of(node, id, from, true);
        self.keep_tail(id, tail);
    }

    /// Keeps a text's tail for the fresh snapshot in place of what was gathered before: since then
    /// more was typed, or all of it arrived.
    fn keep_tail(&mut self, id: BufferId, tail: Option<Tail>) {
        self.tails.retain(|tail| !tail.is_untold_of(id));
        self.tails.extend(tail);
    }

    /// Makes the shards of the old node again that the daemon had not heard of when it made the
    /// fresh snapshot, and ends those that it had not heard the end of. A shard that the metalog
    /// announced and that is gone was ended by somebody else; one that was refused, or made for a
    /// proposal that did not arrive, is not made again: its text is a tail.
    pub(super) fn make_again(&mut self, old: &mut Node, fresh: &mut Node) {
        let known: BTreeSet<Shard> = fresh.log.shards().collect();
        let is_asked_for = self.is_resyncing;
        let mut notices = Vec::new();
        if self.is_away {
            notices = self.unconfirmed.take_notices();
        }
        // Shards that it does not know by now were not ended, but never made.
        let is_meta_lost = self.has_lost(Shard::Meta);
        if is_meta_lost {
            notices.extend(self.unconfirmed.gone());
        }
        notices.extend(old.log.take_notices());
        if fresh.leads(Shard::Layout) && old.attachment() == fresh.attachment() {
            // What it was told to make before it was asked, and did not, it refused.
            let is_told = |shard| !is_meta_lost && !notices.contains(&MirrorNotice::Created(shard));
            let is_refused = |shard| is_asked_for && (is_told(shard) || is_of_proposal(old, shard));
            let is_new = |shard: &Shard| {
                old.leads(*shard)
                    && (is_meta_lost || old.state.meta().lease(*shard).is_none())
                    && !known.contains(shard)
                    && !is_refused(*shard)
            };
            let shards: Vec<Shard> = old.log.shards().filter(is_new).collect();
            for shard in shards {
                // It is not there, so this does not fail.
                let _ = fresh.create_shard(shard).is_ok();
                if is_meta_lost && !notices.contains(&MirrorNotice::Created(shard)) {
                    notices.push(MirrorNotice::Created(shard));
                }
            }
        }
        let told = self.unconfirmed.ended().filter(|_| !is_asked_for);
        let untold = notices.iter().filter_map(|notice| match notice {
            MirrorNotice::Deleted(shard) => Some(*shard),
            MirrorNotice::Created(_) => None,
        });
        for shard in told.chain(untold) {
            // What another party leads by now, or nobody knows, stays as it is.
            let _ = fresh.delete_shard(shard).is_ok();
        }
        fresh.log.put_notices(notices, &known);
    }

    /// Returns whether the daemon lost entries of a shard that it had acknowledged.
    fn has_lost(&self, shard: Shard) -> bool {
        let lost = self.lost.as_ref();
        lost.is_some_and(|lost| lost.contains(&shard))
    }

    /// Returns the last own entry of a shard that is known to have arrived.
    fn arrived(&self, old: &Node, shard: Shard) -> Seq {
        let acked = self.acked.get(&shard).max(self.overtaken.get(&shard));
        let acked = acked.copied().unwrap_or_default();
        acked.max(first_of(old, shard))
    }

    /// Says which edits are not in the fresh state.
    pub(super) fn tell_tails(&mut self, events: &mut Vec<ClientEvent>) {
        for tail in self.tails.iter_mut().filter(|tail| !tail.is_told) {
            tail.is_told = true;
            if let Some((_, splices)) = &tail.edit {
                events.push(ClientEvent::Overtaken {
                    buffer: tail.buffer,
                    splices: splices.clone(),
                });
            }
        }
    }

    pub(super) fn take_outcome(
        &mut self,
        id: ProposalId,
        outcome: Outcome,
        out: &mut Vec<ClientMessage>,
        events: &mut Vec<ClientEvent>,
    ) {
        let Some(mut tail) = self.proposed.remove(&id) else {
            return events.push(ClientEvent::Decided { id, outcome });
        };
        match outcome {
            Ok(_) => events.push(ClientEvent::Recovered(tail.words())),
            Err(refusal) => {
                let is_again = matches!(refusal, Refusal::Retry(_));
                // What cannot even be shown now waits for what comes, so as not to go in circles.
                let is_stuck = tail.tried_count >= TRIED_COUNT || (tail.is_conflict && !is_again);
                tail.is_conflict |= !is_again;
                tail.tried_count += u32::from(is_again);
                self.tails.push(tail);
                if !is_stuck {
                    self.retry(out);
                }
            }
        }
    }

    /// Proposes the tails that wait.
    pub fn retry(&mut self, out: &mut Vec<ClientMessage>) {
        let Some(node) = self.node.as_mut().filter(|_| !self.is_resyncing) else {
            return;
        };
        let names = node.take_overtaken_names().into_iter();
        let names = names.filter_map(|name| Tail::of_name(node, name));
        self.tails.extend(names);
        for mut tail in core::mem::take(&mut self.tails) {
            tail.is_conflict |= tail.edit.is_none() && !tail.is_name;
            let change = tail.change();
            if let Some((id, message)) = self.propose(vec![change]) {
                self.proposed.insert(id, tail);
                out.push(message);
            }
        }
    }

    /// Returns whether typed text is, or may be, still on its way to a new leader. Until then the
    /// state lacks it, or has what no other party has.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.is_resyncing || !self.tails.is_empty() || !self.proposed.is_empty()
    }

    /// Returns whether a proposal brings back what was typed before another UI took over.
    #[must_use]
    pub fn is_recovery(&self, origin: Origin) -> bool {
        let is_mine = |node: &Node| node.attachment() == origin.author;
        self.node.as_ref().is_some_and(is_mine) && self.proposed.contains_key(&origin.id)
    }
}

/// Keeps the records that a fresh node's snapshot has and that may still be lost with the daemon,
/// where the node leads. Returns how far they arrived.
pub(super) fn keep_unsafe(old: &Node, fresh: &mut Node) -> Vec<(Shard, Seq)> {
    let marks = fresh.log.marks().into_iter();
    let led: Vec<_> = marks.filter(|mark| fresh.leads(mark.shard)).collect();
    let mut is_kept = |mark: &Mark| fresh.log.keep_records(mark.shard, &old.log);
    let kept = led.into_iter().filter(|mark| is_kept(mark));
    kept.map(|mark| (mark.shard, mark.seq)).collect()
}

/// Returns whether a node appended to a shard behind `after`.
pub(super) fn has_own(node: &Node, shard: Shard, after: Seq) -> bool {
    let me = node.attachment();
    node.log()
        .after(shard, after)
        .any(|record| record.entry.attachment == me)
}

/// Returns whether a shard that a node made was made for a proposal.
fn is_of_proposal(node: &Node, shard: Shard) -> bool {
    let first = node.log().after(shard, Seq::default()).next();
    first.is_some_and(|record| record.entry.origin.is_some())
}

/// Appends the records of the old node behind `accepted` to the fresh one, which leads the shard:
/// up to the first of a proposal, unless they are under way. Returns the last of the old records
/// that is there by now.
fn append_again(
    old: &Node,
    fresh: &mut Node,
    (shard, accepted): (Shard, Seq),
    is_under_way: bool,
) -> Seq {
    let mut landed = accepted;
    for record in old.log().after(shard, accepted) {
        if record.entry.origin.is_some() && !is_under_way {
            break;
        }
        let is_there = if record.entry.epoch == fresh.log.epoch(shard) {
            let is_followed = matches!(fresh.follow(shard, &record.bytes), Ok(Some(_)));
            if is_followed {
                fresh.unshipped.insert(shard);
            }
            is_followed
        } else {
            fresh.append(shard, record.entry.op.clone()).is_ok()
        };
        if !is_there {
            break;
        }
        landed = record.entry.seq;
    }
    landed
}

/// Ends a shard that was made for what did not land.
fn end_empty(fresh: &mut Node, shard: Shard) {
    let is_empty = fresh.state.applied(shard) == Some(Seq::default());
    if is_empty && !shard.is_pinned() && fresh.leads(shard) {
        // It is led, so this does not fail.
        let _ = fresh.delete_shard(shard).is_ok();
    }
}

/// Returns what an old node typed into a buffer behind `accepted`.
fn tail_of(node: &Node, id: BufferId, accepted: Seq, is_known: bool) -> Option<Tail> {
    let buffer = node.state.buffer(id)?;
    let mut records = node.log().after(Shard::Buffer(id), accepted);
    let is_typed = |record: &Arc<Record>| !is_of_editor(buffer.kind(), &record.entry);
    if canary::is_on(Canary::TailDropped) || !records.any(is_typed) {
        return None;
    }
    let name = String::from(shown_name(node, (id, buffer)));
    let (edit, text) = match typed_after(node, id, accepted) {
        Some((base, typed)) => {
            let edit = typed.edit().map(|splices| (base, splices.to_vec()));
            (edit, typed.typed())
        }
        None => (
            None,
            buffer.text().slice(crate::text::Span::new(0, u64::MAX)),
        ),
    };
    let edit = edit.filter(|_| is_known);
    let is_nothing = edit.as_ref().is_none_or(|(_, splices)| splices.is_empty());
    (!is_nothing || !text.is_empty()).then_some(Tail {
        buffer: id,
        name,
        edit,
        text,
        is_name: false,
        is_conflict: false,
        is_told: false,
        tried_count: 0,
    })
}

/// Returns the name that tells a user where a text is: of a tag, that of its window's body.
fn shown_name<'a>(node: &'a Node, (id, buffer): (BufferId, &'a Buffer)) -> &'a str {
    let mut windows = node.state.windows_with(id);
    let is_tag = buffer.kind() == BufferKind::Tag;
    let window = windows.next().filter(|_| is_tag);
    let body = window.and_then(|window| node.state.buffer_of(ViewId::Body(window)));
    let body = body.and_then(|body| node.state.buffer(body));
    body.unwrap_or(buffer).name()
}

/// Returns whether an entry is the editor's own: its part of a tag, which nobody typed.
const fn is_of_editor(kind: BufferKind, entry: &Entry) -> bool {
    let is_shown = matches!(&entry.op, Op::Buffer(BufferOp::Edit { dot: Some(_), .. }));
    matches!(kind, BufferKind::Tag) && !is_shown
}

/// Returns whether a node gave a buffer a name behind `after`.
fn is_named(node: &Node, id: BufferId, after: Seq) -> bool {
    let mut records = node.log().after(Shard::Buffer(id), after);
    records.any(|record| {
        let is_name = matches!(&record.entry.op, Op::Buffer(BufferOp::Name { .. }));
        is_name && record.entry.origin.is_none()
    })
}

/// Returns what a node typed into a buffer behind `after`, apart from what it did for proposals and
/// as the editor, and the version before that. None when it does not know.
fn typed_after(node: &Node, id: BufferId, after: Seq) -> Option<(Version, Apart)> {
    let (base, changes) = node.changes_after(id, after)?;
    let kind = node.state.buffer(id)?.kind();
    let mut bars = node.bars_before(id, &changes).into_iter();
    let mut records = node.log().after(Shard::Buffer(id), after).peekable();
    let mut typed = Apart::new();
    for (seq, splices) in changes {
        while records.next_if(|record| record.entry.seq < seq).is_some() {}
        let entry = &records.peek()?.entry;
        let bar = bars.next();
        // What is written in front of the bar, the editor writes anew.
        let is_in_front = bar.is_some_and(|bar| splices.iter().all(|s| s.at.q0 <= bar));
        if entry.origin.is_some() || is_in_front || is_of_editor(kind, entry) {
            typed.leave(splices);
        } else {
            typed.keep(splices);
        }
    }
    Some((base, typed))
}

/// Returns the change that shows text in `+Recovered` of a directory, which ends in a slash: it was
/// typed in the buffer `name` and met somebody else's change.
#[must_use]
pub fn recovery(directory: &str, name: &str, text: &str) -> Change {
    Change::Append {
        name: alloc::format!("{directory}+Recovered"),
        text: alloc::format!("typed in {name} and overtaken:\n{text}\n"),
    }
}
