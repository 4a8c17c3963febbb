//! Each limit at its edge: one less and as many are taken, one more is refused whole and in words.

use alloc::format;
use alloc::vec;

use super::*;

use crate::command::{Command, Memory};
use crate::edit::Splice;
use crate::entry::{Annotation, Exec};
use crate::ids::{SERVER, Version};
use crate::proposal::{Atomicity, Change, Proposal};
use crate::text::Span;
use crate::wire::WireError;

/// What a limit is about, the limit, what reaches it with so many, and what more is told.
type Row = (
    &'static str,
    usize,
    fn(&mut Node, BufferId, usize) -> Result<(), String>,
    &'static str,
);

fn told<T, E: ToString>(result: Result<T, E>) -> Result<(), String> {
    result.map(|_| ()).map_err(|error| error.to_string())
}

fn append(node: &mut Node, id: BufferId, op: BufferOp) -> Result<(), String> {
    told(node.append_buffer(id, op))
}

fn edit(splices: Vec<Splice>) -> BufferOp {
    BufferOp::Edit {
        splices: splices.into(),
        group: Some(GroupId::new(1)),
        dot: None,
    }
}

/// An entry of so many bytes.
fn entry_of(node: &mut Node, id: BufferId, len: usize) -> Result<(), String> {
    let of = |text: usize| edit(vec![Splice::new(Span::at(0), "x".repeat(text))]);
    let head = node.log().mark(Shard::Buffer(id)).unwrap();
    let entry = |op| Entry {
        seq: head.seq.next(),
        attachment: SERVER,
        epoch: node.log().lease(Shard::Buffer(id)).unwrap().epoch,
        origin: None,
        op: Op::Buffer(op),
    };
    let rest = wire::encode_entry(&entry(of(len))).len() - len;
    let op = of(len - rest);
    assert_eq!(wire::encode_entry(&entry(op.clone())).len(), len);
    append(node, id, op)
}

fn propose(node: &mut Node, id: BufferId, texts: Vec<String>) -> Result<(), String> {
    let base = node.state.buffer(id).unwrap().version();
    let change = |text: String| Change::Edit {
        buffer: id,
        base,
        splices: vec![Splice::new(Span::at(0), text)],
    };
    let proposal = Proposal {
        author: SERVER,
        id: node.new_proposal(),
        atomicity: Atomicity::All,
        changes: texts.into_iter().map(change).collect(),
    };
    let outcome = node.decide(&proposal).0;
    told(outcome)
}

const ROWS: [Row; 10] = [
    (
        "name of a buffer",
        limits::NAME_LEN_MAX,
        |node, _, n| told(node.new_buffer(BufferKind::File, &"x".repeat(n))),
        "the name: more than 4096",
    ),
    (
        "name in a rename",
        limits::NAME_LEN_MAX,
        |node, id, n| {
            let (name, group) = ("x".repeat(n), None);
            append(node, id, BufferOp::Name { name, group })
        },
        "the name: more than 4096",
    ),
    (
        "name of a setting",
        limits::NAME_LEN_MAX,
        |node, id, n| {
            let (key, value) = ("x".repeat(n), None);
            append(node, id, BufferOp::Setting { key, value })
        },
        "the name of the setting: more than 4096",
    ),
    (
        "label",
        limits::NAME_LEN_MAX,
        |node, _, n| told(node.append_meta(MetaOp::Label("x".repeat(n)))),
        "the name: more than 4096",
    ),
    (
        "notice",
        limits::MESSAGE_LEN_MAX,
        |node, _, n| {
            let notify = MetaOp::Notify {
                notice: NoticeId::new(1),
                owner: SERVER,
                level: 1,
                text: "x".repeat(n),
            };
            told(node.append_meta(notify))
        },
        "the notice: more than 16384",
    ),
    (
        "load",
        limits::PIECE_LEN_MAX,
        |node, id, n| {
            let text = "x".repeat(n);
            append(node, id, BufferOp::Load { text })
        },
        "the text to load: more than 1048576",
    ),
    (
        "entry",
        limits::ENTRY_LEN_MAX,
        entry_of,
        "bytes at once: more than 4194304",
    ),
    (
        "splices",
        limits::SPLICE_COUNT_MAX,
        |node, id, n| append(node, id, edit(vec![Splice::new(Span::at(0), "x"); n])),
        "262145 changes are more than 262144 in one edit",
    ),
    (
        "annotations",
        limits::ANNOTATION_COUNT_MAX,
        |node, id, n| {
            let annotation = Annotation {
                at: Span::at(0),
                style: String::new(),
                severity: 0,
                message: String::new(),
            };
            let annotate = BufferOp::Annotate {
                owner: SERVER,
                layer: "lint".into(),
                spans: vec![annotation; n],
            };
            append(node, id, annotate)
        },
        "annotations in one layer: limit reached",
    ),
    (
        "changes of a proposal",
        limits::CHANGE_COUNT_MAX,
        |node, id, n| propose(node, id, vec!["x".into(); n]),
        "more than 4096 changes",
    ),
];

#[test]
fn each_limit_is_taken_and_one_more_is_refused_whole_and_in_words() {
    for (what, limit, reach, words) in ROWS {
        let mut node = Node::authority();
        let id = node.new_buffer(BufferKind::File, "/a").unwrap();
        node.append_buffer(
            id,
            BufferOp::Load {
                text: "text".into(),
            },
        )
        .unwrap();
        for n in [limit - 1, limit] {
            assert_eq!(reach(&mut node, id, n), Ok(()), "{what}: {n} of {limit}");
        }
        let before = (node.state.hash(), node.log.marks());
        let refused = reach(&mut node, id, limit + 1).unwrap_err();
        assert!(refused.contains(words), "{what}: {refused}");
        assert!((node.state.hash(), node.log.marks()) == before, "{what}");
        assert_eq!(
            reach(&mut node, id, 1 + usize::from(what == "entry") * 99),
            Ok(())
        );
    }
}

#[test]
fn a_proposal_of_more_bytes_than_it_may_have_is_refused_whole() {
    let mut node = Node::authority();
    let id = node.new_buffer(BufferKind::File, "/a").unwrap();
    let half = limits::PROPOSAL_LEN_MAX / 2;
    let of = |len: usize| vec!["x".repeat(half), "x".repeat(len)];
    propose(&mut node, id, of(half - 100)).unwrap();
    let before = (node.state.hash(), node.log.marks());
    let refused = propose(&mut node, id, of(half + 1)).unwrap_err();
    assert!(refused.contains("more than 3 MiB at once"), "{refused}");
    assert!((node.state.hash(), node.log.marks()) == before);
}

#[test]
fn a_session_has_so_many_shards_and_no_more() {
    let mut node = Node::authority();
    while node.state.shard_count() < limits::SHARD_COUNT_MAX as u64 {
        let id = BufferId::new(node.alloc());
        node.create_shard(Shard::Buffer(id)).unwrap();
    }
    let before = node.log.marks();
    let refused = node.new_buffer(BufferKind::File, "/a").unwrap_err();
    assert_eq!(refused.to_string(), "texts and windows: more than 80000");
    assert!(node.log.marks() == before);
    assert_eq!(node.state.shard_count(), limits::SHARD_COUNT_MAX as u64);
}

#[test]
fn what_is_kept_of_notices_and_commands_is_bounded_and_the_oldest_goes() {
    let mut node = Node::authority();
    for number in 1..=limits::NOTICE_COUNT_MAX + 1 {
        let notify = MetaOp::Notify {
            notice: NoticeId::new(number as u64),
            owner: SERVER,
            level: 1,
            text: String::new(),
        };
        node.append_meta(notify).unwrap();
        let known = &node.state.meta().notices;
        assert_eq!(known.len(), number.min(limits::NOTICE_COUNT_MAX));
    }
    assert!(!node.state.meta().notices.contains_key(&NoticeId::new(1)));
    for number in 1..=limits::EXEC_COUNT_MAX + 1 {
        let exec = Exec {
            id: ExecId::new(number as u64),
            asked_by: SERVER,
            view: ViewId::Top,
            buffer: BufferId::new(1),
            version: Version::new(1),
            at: Span::at(0),
            text: String::new(),
            argument: String::new(),
            is_look: false,
        };
        node.append_meta(MetaOp::Exec(exec.into())).unwrap();
        let known = &node.state.meta().execs;
        assert_eq!(known.len(), number.min(limits::EXEC_COUNT_MAX));
    }
    assert_eq!(node.state.meta().execs[0].id, ExecId::new(2));
}

#[test]
fn what_a_peer_appends_is_held_to_the_same_limits() {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, _) = world.open(ui, "/a");
    let shard = Shard::Buffer(buffer);
    let truth = |world: &World| world.authority.node().log().mark(shard).unwrap();
    let attachment = world.peer(ui).node().attachment();
    let epoch = world.authority.node().log().lease(shard).unwrap().epoch;
    let entry = |seq: Seq, op| {
        let entry = Entry {
            seq,
            attachment,
            epoch,
            origin: None,
            op: Op::Buffer(op),
        };
        wire::encode_entry(&entry)
    };
    let text = |len: usize| edit(vec![Splice::new(Span::at(0), "x".repeat(len))]);
    let name = |len: usize| BufferOp::Name {
        name: "x".repeat(len),
        group: None,
    };
    let half = limits::APPEND_LEN_MAX / 2;
    for (ops, words) in [
        (vec![name(limits::NAME_LEN_MAX + 1)], "the name: more than"),
        (
            vec![text(limits::ENTRY_LEN_MAX)],
            "bytes at once: more than",
        ),
        (
            vec![text(half), text(half)],
            "bytes in one append: more than",
        ),
        (vec![name(limits::NAME_LEN_MAX)], ""),
    ] {
        let before = truth(&world);
        let seqs = (before.seq.raw() + 1..).map(Seq::new);
        let entries: Vec<_> = seqs.zip(ops).map(|(seq, op)| entry(seq, op)).collect();
        let node = world.authority.node_mut();
        let accepted = node.accept(attachment, &[(shard, entries)]);
        match accepted {
            Ok(_) => assert_eq!(words, ""),
            Err(error) => {
                let error = error.to_string();
                assert!(!words.is_empty() && error.starts_with(words), "{error}");
                assert_eq!(truth(&world), before);
            }
        }
    }
}

#[test]
fn a_pasted_text_of_any_length_arrives_and_is_one_step_of_undo() {
    let mut world = World::new();
    let (ui, other) = (world.ui(), world.join(AttachmentKind::Ui, Takeover::Watch));
    let (buffer, view) = world.open(ui, "/a");
    world.is_marking = false;
    let text = "é漢\n".repeat(limits::ENTRY_LEN_MAX / 5);
    assert!(text.len() > limits::ENTRY_LEN_MAX);
    let node = world.peer(ui).node();
    let group = node.new_group();
    node.type_text(view, "old", group).unwrap();
    node.select(view, Span::new(0, 3)).unwrap();
    let group = node.new_group();
    node.paste(view, &text, group).unwrap();
    assert_eq!(
        node.view(view).unwrap().dot,
        Span::new(0, text.chars().count() as u64)
    );
    let peer = world.peer(ui);
    let mut out = Vec::new();
    peer.client.flush(&mut out);
    for message in &out {
        assert!(encode_client(message).len() <= limits::FRAME_LEN_MAX);
    }
    peer.to_daemon.extend(out);
    world.run();
    assert!(world.text(buffer) == text);
    let there = world.peer(other).node().state().buffer(buffer).unwrap();
    assert!(there.text().to_string() == text);
    let node = world.peer(ui).node();
    node.append_buffer(buffer, BufferOp::Undo { group, view: None })
        .unwrap();
    assert_eq!(
        node.state().buffer(buffer).unwrap().text().to_string(),
        "old"
    );
}

#[test]
fn frames_and_noise_have_their_limits() {
    let frame = |whole: usize| {
        let len = u32::try_from(whole - 4).unwrap();
        let mut frames = Frames::new(len.to_le_bytes().to_vec());
        frames.push(&[9, 0]);
        frames.next_client()
    };
    assert_eq!(frame(limits::FRAME_LEN_MAX - 1), Ok(None));
    assert_eq!(frame(limits::FRAME_LEN_MAX), Ok(None));
    let len = limits::FRAME_LEN_MAX + 1;
    assert_eq!(frame(len), Err(WireError::Length(len as u64)));
    for (noise, is_taken) in [
        (wire::NOISE_LEN_MAX - 1, true),
        (wire::NOISE_LEN_MAX, true),
        (wire::NOISE_LEN_MAX + 1, false),
    ] {
        let mut reader = wire::PreambleReader::default();
        let mut stream = vec![b'x'; noise];
        stream.extend(wire::Preamble::new("b").encode());
        let found = stream
            .chunks(997)
            .try_fold(None, |found, piece| match found {
                Some(found) => Ok(Some(found)),
                None => reader.push(piece),
            });
        assert_eq!(
            found.is_ok_and(|found| found.is_some()),
            is_taken,
            "{noise}"
        );
    }
}

#[test]
fn commands_nest_so_deep_and_no_deeper() {
    for (depth, is_taken) in [
        (limits::COMMAND_DEPTH_MAX - 1, true),
        (limits::COMMAND_DEPTH_MAX, true),
        (limits::COMMAND_DEPTH_MAX + 1, false),
        (100_000, false),
    ] {
        let text = format!("{}p\n{}", "{\n".repeat(depth), "}\n".repeat(depth));
        let parsed = Command::parse_all(&text, &mut Memory::default());
        assert_eq!(parsed.is_ok(), is_taken, "{depth}");
    }
}
