//! What tools do: they propose on what they saw, annotate, and lead a text for a time.

use apex_core::buffer::Buffer;
use apex_core::edit::Splice;
use apex_core::entry::{Annotation, AttachmentKind, BufferKind, BufferOp};
use apex_core::ids::{AttachmentId, BufferId, ProposalId, Shard, Version};
use apex_core::message::ClientMessage;
use apex_core::proposal::{Atomicity, Change, Outcome, Refusal};
use apex_core::text::Span;

use super::{Event, World};
use crate::oracle::typed::Parts;
use crate::plan::{Kind, Step};
use crate::process::{Asked, Process};
use crate::random::Random;

/// The text that tools write whole.
pub(super) const BOARD: &str = "/w/+board";
/// How often a tool says a proposal that is answered with `retry`.
const SAID_COUNT_MAX: u32 = 5;
/// How many texts a tool remembers.
const SEEN_COUNT_MAX: usize = 6;

/// A text as a tool sees it.
type Seen = (BufferId, Version, String);

impl World {
    pub(super) fn tool_step(&mut self, step: Step, random: &mut Random) -> bool {
        let Some(id) = self.process_of(step.slot, AttachmentKind::Tool) else {
            return false;
        };
        let mut is_done = false;
        self.with(id, |world, process| {
            if process.frozen_us <= world.now_us {
                is_done = world.tool_act(process, step.kind, random);
            }
        });
        is_done
    }

    fn tool_act(&mut self, process: &mut Process, kind: Kind, random: &mut Random) -> bool {
        let texts = texts(process);
        let Some(seen) = random.pick_one(&texts) else {
            return false;
        };
        match kind {
            Kind::Propose => {
                process.seen.push_back(seen.clone());
                if process.seen.len() > SEEN_COUNT_MAX {
                    process.seen.pop_front();
                }
                self.propose_edits(process, &[seen], Atomicity::All, random)
            }
            Kind::Stale => {
                let older: Vec<Seen> = process.seen.iter().cloned().collect();
                let Some(seen) = random.pick_one(&older) else {
                    return false;
                };
                self.propose_edits(process, &[seen], Atomicity::All, random)
            }
            Kind::Both | Kind::Each => {
                let Some(other) = texts.iter().find(|text| text.0 != seen.0).cloned() else {
                    return false;
                };
                let atomicity = if kind == Kind::Each {
                    Atomicity::Each
                } else {
                    Atomicity::All
                };
                self.propose_edits(process, &[seen, other], atomicity, random)
            }
            Kind::Annotate => self.annotate(process, &seen, random),
            Kind::Board => self.write_board(process, random),
            Kind::Repeat => self.repeat(process, random),
            _ => self.lead(process, &seen, random),
        }
    }

    fn propose_edits(
        &mut self,
        process: &mut Process,
        texts: &[Seen],
        atomicity: Atomicity,
        random: &mut Random,
    ) -> bool {
        let mut changes = Vec::new();
        let mut parts = Parts::new();
        for (index, (buffer, base, text)) in texts.iter().enumerate() {
            let from = self.oracles.typed.count();
            let splices = self.splices_of(process.id, text, random);
            parts.push((index, from, self.oracles.typed.count()));
            let (buffer, base) = (*buffer, *base);
            changes.push(Change::Edit {
                buffer,
                base,
                splices,
            });
        }
        self.propose(process, changes, atomicity, parts)
    }

    /// Makes up an edit of a text: one or two places, each inserting, replacing or deleting.
    fn splices_of(&mut self, process: u64, text: &str, random: &mut Random) -> Vec<Splice> {
        let chars: Vec<char> = text.chars().collect();
        let mut splices = Vec::new();
        let mut from = 0;
        for _ in 0..random.range(1, 3) {
            let q0 = from + random.index(chars.len() - from + 1);
            let mut q1 = q0;
            if random.percent(40) {
                q1 = (q0 + random.index(5)).min(chars.len());
            }
            let gone: String = chars[q0..q1].iter().collect();
            let is_adding = q0 == q1 || random.percent(60);
            let new = if is_adding {
                let count = random.range(1, 4);
                self.oracles.typed.text(process, random, count)
            } else {
                String::new()
            };
            self.oracles.typed.remove(&gone);
            splices.push(Splice::new(Span::new(q0 as u64, q1 as u64), new));
            from = q1 + 1;
            if from > chars.len() {
                break;
            }
        }
        splices
    }

    fn propose(
        &mut self,
        process: &mut Process,
        changes: Vec<Change>,
        atomicity: Atomicity,
        parts: Parts,
    ) -> bool {
        let said = match atomicity {
            Atomicity::All => process.client.propose(changes),
            Atomicity::Each => process.client.propose_each(changes),
        };
        let Some((id, ClientMessage::Propose(proposal))) = said else {
            return false;
        };
        self.oracles.typed.propose((proposal.author, id), parts);
        let asked = Asked {
            proposal: proposal.clone(),
            said_count: 1,
            is_due: false,
            is_repeat: false,
        };
        process.asked.insert(id, asked);
        self.say(process, vec![ClientMessage::Propose(proposal)]);
        true
    }

    fn annotate(&mut self, process: &mut Process, seen: &Seen, random: &mut Random) -> bool {
        let (buffer, base, text) = seen;
        let len = text.chars().count() as u64;
        let mut spans = Vec::new();
        let mut from = 0;
        for _ in 0..random.below(4) {
            let q0 = from + random.below(len - from + 1);
            let q1 = (q0 + random.below(5)).min(len);
            let (style, severity) = (String::from("s"), 1);
            let message = format!("note {}", random.below(10));
            let at = Span::new(q0, q1);
            spans.push(Annotation {
                at,
                style,
                severity,
                message,
            });
            from = q1;
        }
        let layer = format!("l{}", random.below(2));
        let (buffer, base) = (*buffer, *base);
        let change = Change::Annotate {
            buffer,
            base,
            layer,
            spans,
        };
        self.propose(process, vec![change], Atomicity::All, Parts::new())
    }

    fn write_board(&mut self, process: &mut Process, random: &mut Random) -> bool {
        if random.percent(50) {
            let (name, column) = (String::from(BOARD), None);
            let text = format!("board {}\n", random.below(1000));
            let change = Change::Board { name, text, column };
            return self.propose(process, vec![change], Atomicity::All, Parts::new());
        }
        let from = self.oracles.typed.count();
        let text = self.oracles.typed.text(process.id, random, 3);
        let parts = vec![(0, from, self.oracles.typed.count())];
        let name = String::from("/w/+added");
        let change = Change::Append { name, text };
        self.propose(process, vec![change], Atomicity::All, parts)
    }

    fn repeat(&mut self, process: &mut Process, random: &mut Random) -> bool {
        let Some(proposal) = random.pick_one(&process.landed) else {
            return false;
        };
        let asked = Asked {
            proposal: proposal.clone(),
            said_count: SAID_COUNT_MAX,
            is_due: false,
            is_repeat: true,
        };
        process.asked.insert(proposal.id, asked);
        self.say(process, vec![ClientMessage::Propose(proposal)]);
        true
    }

    /// Types into a text that the tool leads, or asks for one.
    fn lead(&mut self, process: &mut Process, seen: &Seen, random: &mut Random) -> bool {
        let Some(node) = process.client.node_mut() else {
            return false;
        };
        let me = node.attachment();
        let held = node.log().held_by(me).map(|(shard, _)| shard).next();
        let Some(Shard::Buffer(id)) = held else {
            let shards = vec![Shard::Buffer(seen.0)];
            let steal = false;
            self.say(process, vec![ClientMessage::LeaseRequest { shards, steal }]);
            return true;
        };
        let Some(len) = node.state().buffer(id).map(|buffer| buffer.text().len()) else {
            return false;
        };
        let at = Span::at(random.below(len + 1));
        let text = self.oracles.typed.text(process.id, random, 4);
        let group = Some(node.new_group());
        let splices = vec![Splice::new(at, text.as_str())];
        let (dot, group) = (None, group);
        let done = node.append_buffer(
            id,
            BufferOp::Edit {
                splices: splices.into(),
                group,
                dot,
            },
        );
        if done.is_err() {
            self.oracles.typed.untype(&text);
        }
        self.flush_soon(process, 500);
        done.is_ok()
    }

    /// A tool hears how a proposal ended.
    pub(super) fn tool_decided(
        &mut self,
        process: &mut Process,
        key: (AttachmentId, ProposalId),
        outcome: &Outcome,
    ) {
        let Some(asked) = process.asked.get_mut(&key.1) else {
            return;
        };
        let is_again = matches!(outcome, Err(Refusal::Retry(_)));
        if is_again && asked.said_count < SAID_COUNT_MAX {
            asked.is_due = true;
            return self.push(self.now_us + 150_000, Event::Again(process.id));
        }
        let Some(asked) = process.asked.remove(&key.1) else {
            return;
        };
        if asked.is_repeat {
            return;
        }
        match outcome {
            Ok(landed) => {
                let is_landed = |index: usize| {
                    let part = landed.get(index);
                    part.is_none_or(|part| part.refusal.is_none())
                };
                self.oracles.typed.hear(key, is_landed);
                process.landed.push(asked.proposal);
            }
            Err(_) => self.oracles.typed.hear(key, |_| false),
        }
    }

    pub(super) fn ask_again(&mut self, process: &mut Process) {
        if process.client.is_away() {
            return self.push(self.now_us + 150_000, Event::Again(process.id));
        }
        let mut due = Vec::new();
        for asked in process.asked.values_mut().filter(|asked| asked.is_due) {
            asked.is_due = false;
            asked.said_count += 1;
            due.push(ClientMessage::Propose(asked.proposal.clone()));
        }
        self.say(process, due);
    }
}

/// Returns the texts that a tool sees and may edit.
fn texts(process: &Process) -> Vec<Seen> {
    let Some(node) = process.client.node() else {
        return Vec::new();
    };
    let is_text = |kind: BufferKind| matches!(kind, BufferKind::File | BufferKind::Scratch);
    let is_mine = |buffer: &Buffer| is_text(buffer.kind()) && buffer.name() != BOARD;
    let buffers = node.state().buffers().filter(|(_, b)| is_mine(b));
    buffers
        .map(|(id, buffer)| (id, buffer.version(), buffer.text().to_string()))
        .collect()
}
