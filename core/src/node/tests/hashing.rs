//! Hashes that are kept up: equal to those worked out afresh, whatever led there.

use super::*;
use crate::dice::Dice;
use crate::edit::Splice;
use crate::entry::{Annotation, Dot};
use crate::proposal::{Atomicity, Change, Proposal};
use crate::text::Span;

const VIEW: ViewId = ViewId::Top;

/// A leader with a text that has a history of at most 4,000 bytes, and a follower of it.
struct Pair {
    leader: Node,
    follower: Node,
    buffer: BufferId,
    dice: Dice,
}

impl Pair {
    fn new() -> Self {
        let mut leader = Node::authority();
        let limits = ApplyLimits {
            undo_len: 4000,
            ..ApplyLimits::default()
        };
        let genesis = MetaOp::Genesis { format: 1, limits };
        leader.append_meta(genesis).unwrap();
        let marks = leader.log().marks();
        let follower = Node::mirror(AttachmentId::new(1), leader.state().clone(), &marks, 1);
        let buffer = leader.new_buffer(BufferKind::File, "/a").unwrap();
        leader
            .append_buffer(buffer, BufferOp::ViewAdd(VIEW))
            .unwrap();
        let mut pair = Self {
            leader,
            follower,
            buffer,
            dice: Dice(11),
        };
        pair.follow();
        pair
    }

    fn shard(&self) -> Shard {
        Shard::Buffer(self.buffer)
    }

    fn follow(&mut self) {
        for shard in [Shard::Meta, self.shard()] {
            let seq = self.follower.state().applied(shard).unwrap_or_default();
            let records: Vec<Arc<Record>> = self.leader.log().after(shard, seq).cloned().collect();
            for record in records {
                self.follower.follow(shard, &record.bytes).unwrap();
            }
        }
    }

    fn act(&mut self) {
        let buffer = self.leader.state().buffer(self.buffer).unwrap();
        let len = buffer.text().len();
        let q0 = self.dice.below(len + 1);
        let at = Span::new(q0, (q0 + self.dice.below(9)).min(len));
        let (undo, redo) = (buffer.undo_group(), buffer.redo_group());
        let view = Some(VIEW);
        let op = match (self.dice.below(12), undo, redo) {
            (0, Some(group), _) => BufferOp::Undo { group, view },
            (1, _, Some(group)) => BufferOp::Redo { group, view },
            (2, ..) => BufferOp::Load {
                text: "loaded\n".repeat(50),
            },
            (3, ..) => BufferOp::Name {
                name: alloc::format!("/{q0}"),
                group: undo,
            },
            (4, ..) => BufferOp::Select(Dot { view: VIEW, at }),
            (5, ..) => BufferOp::Annotate {
                owner: AttachmentId::new(1),
                layer: String::from("check"),
                spans: Vec::from([Annotation {
                    at,
                    style: String::new(),
                    severity: 2,
                    message: String::from("here"),
                }]),
            },
            (6, ..) if self.dice.below(9) == 0 => edit(at, "", None),
            (7, ..) => edit(at, &"long é ".repeat(70), Some(self.leader.new_group())),
            _ => {
                let group = undo.unwrap_or(self.leader.new_group());
                edit(at, "x", Some(group))
            }
        };
        self.leader.append_buffer(self.buffer, op).unwrap();
    }

    /// Proposes two changes of which the second is refused: the first is taken back.
    fn fail(&mut self) {
        let base = self.leader.state().buffer(self.buffer).unwrap().version();
        let change = |at, base| Change::Edit {
            buffer: self.buffer,
            base,
            splices: Vec::from([Splice::new(at, "taken back")]),
        };
        let proposal = Proposal {
            author: AttachmentId::new(1),
            id: ProposalId::new(1),
            atomicity: Atomicity::All,
            changes: Vec::from([
                change(Span::at(0), base),
                change(Span::at(u64::MAX), base.next()),
            ]),
        };
        let before = self.leader.state().shard_hash(self.shard());
        assert!(self.leader.decide(&proposal).0.is_err());
        assert_eq!(self.leader.state().shard_hash(self.shard()), before);
    }
}

fn edit(at: Span, text: &str, group: Option<GroupId>) -> BufferOp {
    let splices = Vec::from([Splice::new(at, text)]);
    BufferOp::Edit {
        splices: splices.into(),
        group,
        dot: None,
    }
}

#[test]
fn a_hash_that_was_kept_up_is_the_one_worked_out_afresh() {
    let mut pair = Pair::new();
    let shard = pair.shard();
    for round in 0..300 {
        for _ in 0..pair.dice.below(20) {
            pair.act();
            if pair.dice.below(30) == 0 {
                pair.fail();
            }
        }
        pair.follow();
        if round % 5 == 0 {
            pair.leader.prepare_hash(shard, 300);
        }
        let fresh = pair.leader.state().shard_hash(shard);
        assert_eq!(pair.leader.shard_hash(shard), fresh, "round {round}");
        // The follower hashes at another rhythm, and its rope has other pieces.
        if pair.dice.below(3) == 0 {
            assert_eq!(pair.follower.shard_hash(shard), fresh, "round {round}");
        }
        if round % 20 == 0 {
            let bytes = pair.leader.state().to_snapshot();
            let read = State::from_snapshot(&bytes).unwrap();
            assert_eq!(read.shard_hash(shard), fresh, "from its snapshot");
            assert_eq!(read.to_snapshot(), bytes);
        }
    }
}

#[test]
fn shards_of_all_kinds_are_hashed_again_when_they_have_new_entries() {
    let mut world = World::new();
    let node = world.authority.node_mut();
    let shards: Vec<Shard> = node.log().shards().collect();
    let hashes = |node: &mut Node| -> Vec<[u8; 32]> {
        let shards = node.log().shards().collect::<Vec<_>>();
        shards
            .into_iter()
            .map(|shard| node.shard_hash(shard))
            .collect()
    };
    let before = hashes(node);
    assert_eq!(hashes(node), before);
    node.focus(Some(ViewId::Top)).unwrap();
    let after = hashes(node);
    for ((shard, before), after) in shards.iter().zip(before).zip(after) {
        assert_eq!(before == after, *shard != Shard::Layout, "{shard}");
        assert_eq!(after, node.state().shard_hash(*shard));
    }
}

#[test]
fn a_hash_costs_what_changed_and_a_long_text_is_read_ahead() {
    let mut pair = Pair::new();
    let shard = pair.shard();
    let text = "x".repeat(100_000);
    let load = BufferOp::Load { text };
    pair.leader.append_buffer(pair.buffer, load).unwrap();
    assert_eq!(pair.leader.hash_cost(shard), 100_000);
    assert!(!pair.leader.prepare_hash(shard, 50_000));
    assert!((40_000..60_000).contains(&pair.leader.hash_cost(shard)));
    assert!(pair.leader.prepare_hash(shard, 100_000));
    assert_eq!(pair.leader.hash_cost(shard), 0);
    pair.leader.shard_hash(shard);
    for q in 0..300 {
        let group = Some(GroupId::new(1));
        let op = edit(Span::at(50_000 + q), "y", group);
        pair.leader.append_buffer(pair.buffer, op).unwrap();
    }
    let cost = pair.leader.hash_cost(shard);
    assert!((300..3000).contains(&cost), "{cost}");
    let fresh = pair.leader.state().shard_hash(shard);
    assert_eq!(pair.leader.shard_hash(shard), fresh);
    assert_eq!(pair.leader.hash_cost(shard), 0, "nothing came since");
}
