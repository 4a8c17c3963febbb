//! Replay, refusal, snapshot and hash, over a session written by hand.

use alloc::string::{String, ToString};
use alloc::vec;

use super::*;
use crate::edit::Splice;
use crate::entry::{ApplyLimits, BufferKind, BufferOp, Dot, Entry, LayoutOp, MetaOp, Op, WindowOp};
use crate::ids::{AttachmentId, Epoch, GroupId, SERVER};
use crate::text::Span;

const BODY: BufferId = BufferId::new(2);
const VIEW: ViewId = ViewId::Body(WindowId::new(1));

/// Returns the entry of SERVER that follows in a shard.
pub(super) fn next(state: &State, shard: Shard, op: Op) -> Entry {
    Entry {
        seq: state.applied(shard).unwrap_or_default().next(),
        attachment: SERVER,
        epoch: Epoch::default(),
        origin: None,
        op,
    }
}

/// Appends operations to a state, each with the seq that follows.
struct Script(State);

impl Script {
    fn new() -> Self {
        let mut script = Self(State::new());
        script.run(
            Shard::Meta,
            Op::Meta(MetaOp::Genesis {
                format: 1,
                limits: ApplyLimits::default(),
            }),
        );
        let layout = [
            Shard::Layout,
            Shard::Buffer(BufferId::new(1)),
            Shard::Buffer(BODY),
            Shard::Window(WindowId::new(1)),
        ];
        for shard in layout {
            script.run(Shard::Meta, Op::Meta(MetaOp::ShardNew(shard)));
        }
        script.run(
            Shard::Layout,
            Op::Layout(LayoutOp::Create {
                top: BufferId::new(1),
            }),
        );
        let create = |kind| BufferOp::Create {
            kind,
            name: String::from("/tmp/x"),
        };
        script.run(
            Shard::Buffer(BufferId::new(1)),
            Op::Buffer(create(BufferKind::Tag)),
        );
        script.run(Shard::Buffer(BODY), Op::Buffer(create(BufferKind::File)));
        script.run(
            Shard::Window(WindowId::new(1)),
            Op::Window(WindowOp::Create {
                tag: BufferId::new(1),
                body: Body::Buffer(BODY),
            }),
        );
        script.edit(BufferOp::ViewAdd(VIEW));
        script
    }

    fn entry(&self, shard: Shard, op: Op) -> Entry {
        next(&self.0, shard, op)
    }

    fn run(&mut self, shard: Shard, op: Op) {
        let entry = self.entry(shard, op);
        self.0.apply(shard, &entry).unwrap();
    }

    fn edit(&mut self, op: BufferOp) {
        self.run(Shard::Buffer(BODY), Op::Buffer(op));
    }

    fn insert(&mut self, q: u64, text: &str, group: u64) {
        let splices = vec![Splice::new(Span::at(q), text)];
        self.edit(BufferOp::Edit {
            splices: splices.into(),
            group: Some(GroupId::new(group)),
            dot: None,
        });
    }

    fn buffer(&self) -> &Buffer {
        self.0.buffer(BODY).unwrap()
    }
}

#[test]
fn an_entry_of_another_seq_or_shard_is_refused_and_changes_nothing() {
    let mut script = Script::new();
    script.insert(0, "abc", 1);
    let before = script.0.hash();
    let select = Op::Buffer(BufferOp::Select(Dot {
        view: VIEW,
        at: Span::at(0),
    }));
    let right = script.entry(Shard::Buffer(BODY), select.clone());
    for wrong in [0, right.seq.raw() - 1, right.seq.raw() + 1, u64::MAX] {
        let entry = Entry {
            seq: Seq::new(wrong),
            ..right.clone()
        };
        let error = script.0.apply(Shard::Buffer(BODY), &entry).unwrap_err();
        assert!(matches!(error, ApplyError::WrongSeq { .. }));
    }
    assert_eq!(
        script.0.apply(Shard::Layout, &right),
        Err(ApplyError::DoesNotFit)
    );
    let unknown = Shard::Buffer(BufferId::new(99));
    assert_eq!(
        script.0.apply(unknown, &right),
        Err(ApplyError::UnknownShard)
    );
    for op in [
        BufferOp::Select(Dot {
            view: VIEW,
            at: Span::new(2, 9),
        }),
        BufferOp::Select(Dot {
            view: ViewId::Top,
            at: Span::at(0),
        }),
        BufferOp::Edit {
            splices: Splice::new(Span::new(1, 9), "").into(),
            group: None,
            dot: None,
        },
        BufferOp::Undo {
            group: GroupId::new(7),
            view: None,
        },
        BufferOp::Create {
            kind: BufferKind::File,
            name: String::new(),
        },
        BufferOp::ViewAdd(VIEW),
    ] {
        let entry = script.entry(Shard::Buffer(BODY), Op::Buffer(op));
        assert!(matches!(
            script.0.apply(Shard::Buffer(BODY), &entry),
            Err(ApplyError::Op(_))
        ));
    }
    assert_eq!(script.0.hash(), before);
}

#[test]
fn a_snapshot_and_the_tail_equal_the_live_state() {
    let mut live = Script::new();
    live.insert(0, "héllo\n", 1);
    let mut copy = Script(State::from_snapshot(&live.0.to_snapshot()).unwrap());
    assert_eq!(copy.0.hash(), live.0.hash());
    for script in [&mut live, &mut copy] {
        script.insert(6, "wörld", 2);
        script.edit(BufferOp::Undo {
            group: GroupId::new(2),
            view: Some(VIEW),
        });
        script.edit(BufferOp::Redo {
            group: GroupId::new(2),
            view: None,
        });
    }
    assert_eq!(copy.0.hash(), live.0.hash());
    assert_eq!(live.buffer().text().to_string(), "héllo\nwörld");
    assert_eq!(State::from_snapshot(b"").unwrap_err(), SnapshotError::Bytes);
    assert_eq!(
        State::from_snapshot(&[9]).unwrap_err(),
        SnapshotError::Version(9)
    );
    let mut long = live.0.to_snapshot();
    long.push(0);
    assert_eq!(
        State::from_snapshot(&long).unwrap_err(),
        SnapshotError::Bytes
    );
}

#[test]
fn a_clone_does_not_see_later_entries() {
    let mut script = Script::new();
    script.insert(0, "abc", 1);
    let clone = script.0.clone();
    let before = clone.hash();
    script.insert(0, "x", 2);
    assert_eq!(clone.hash(), before);
    assert_ne!(script.0.hash(), before);
}

#[test]
fn the_hash_tells_every_part_apart() {
    let mut script = Script::new();
    let mut seen = vec![script.0.hash()];
    script.insert(0, "abc", 1);
    seen.push(script.0.hash());
    script.edit(BufferOp::Select(Dot {
        view: VIEW,
        at: Span::new(0, 1),
    }));
    seen.push(script.0.hash());
    script.edit(BufferOp::Origin { view: VIEW, at: 1 });
    seen.push(script.0.hash());
    script.run(Shard::Layout, Op::Layout(LayoutOp::Focus(Some(VIEW))));
    seen.push(script.0.hash());
    let op = MetaOp::Setting {
        key: String::from("k"),
        value: Some(String::from("v")),
    };
    script.run(Shard::Meta, Op::Meta(op));
    seen.push(script.0.hash());
    for (i, hash) in seen.iter().enumerate() {
        assert!(!seen[..i].contains(hash), "{i}");
    }
}

#[test]
fn undoing_back_to_the_saved_text_makes_the_buffer_clean() {
    let mut script = Script::new();
    script.insert(0, "a", 1);
    let (version, content) = (script.buffer().version(), script.buffer().content());
    let saved = crate::entry::Saved {
        version,
        content,
        digest: [0; 32],
        path: String::from("/tmp/x"),
        cause: crate::entry::SaveCause::Put,
    };
    script.insert(1, "b", 2);
    script.edit(BufferOp::Saved(saved));
    assert!(
        script.buffer().is_modified(),
        "typed on while the file was written"
    );
    script.edit(BufferOp::Undo {
        group: GroupId::new(2),
        view: None,
    });
    assert!(!script.buffer().is_modified());
    script.edit(BufferOp::Redo {
        group: GroupId::new(2),
        view: None,
    });
    assert!(script.buffer().is_modified());
    script.edit(BufferOp::Undo {
        group: GroupId::new(2),
        view: None,
    });
    script.edit(BufferOp::Undo {
        group: GroupId::new(1),
        view: None,
    });
    assert!(script.buffer().is_modified());
}

#[test]
fn undo_takes_back_groups_and_a_new_edit_ends_redo() {
    let mut script = Script::new();
    for (q, text, group) in [
        (0, "ab", 1),
        (2, "c", 1),
        (0, "X", 2),
        (4, "Y", 2),
        (1, "Z", 3),
    ] {
        script.insert(q, text, group);
    }
    let text = |script: &Script| script.buffer().text().to_string();
    assert_eq!(text(&script), "XZabcY");
    let undo = |group| BufferOp::Undo {
        group: GroupId::new(group),
        view: Some(VIEW),
    };
    script.edit(undo(3));
    script.edit(undo(2));
    assert_eq!(text(&script), "abc");
    script.edit(BufferOp::Redo {
        group: GroupId::new(2),
        view: None,
    });
    assert_eq!(text(&script), "XabcY");
    script.insert(0, "!", 4);
    assert_eq!(script.buffer().redo_group(), None);
    script.edit(undo(4));
    script.edit(undo(2));
    script.edit(undo(1));
    assert_eq!(text(&script), "");
    assert_eq!(script.buffer().undo_group(), None);
}

#[test]
fn history_is_bounded_in_bytes_and_keeps_the_newest_group() {
    let mut script = Script::new();
    let limits = ApplyLimits {
        undo_len: 1000,
        ..ApplyLimits::default()
    };
    let mut buffer = script.buffer().clone();
    for group in 1..=100 {
        let splices = vec![Splice::new(Span::at(0), "x".repeat(50))];
        let edit = BufferOp::Edit {
            splices: splices.into(),
            group: Some(GroupId::new(group)),
            dot: None,
        };
        buffer.apply(&edit, None, &limits).unwrap();
        let cut = BufferOp::Edit {
            splices: Splice::new(Span::new(0, 50), "").into(),
            group: Some(GroupId::new(group)),
            dot: None,
        };
        buffer.apply(&cut, None, &limits).unwrap();
    }
    let mut count = 0;
    while let Some(group) = buffer.undo_group() {
        buffer
            .apply(&BufferOp::Undo { group, view: None }, None, &limits)
            .unwrap();
        count += 1;
    }
    assert!((1..=6).contains(&count), "{count}");
    script.insert(0, "", 1);
}

#[test]
fn a_deleted_shard_is_unknown_and_its_part_is_gone() {
    let mut script = Script::new();
    script.run(Shard::Meta, Op::Meta(MetaOp::ShardDel(Shard::Buffer(BODY))));
    assert!(script.0.buffer(BODY).is_none());
    let entry = script.entry(Shard::Buffer(BODY), Op::Buffer(BufferOp::ViewDel(VIEW)));
    assert_eq!(
        script.0.apply(Shard::Buffer(BODY), &entry),
        Err(ApplyError::UnknownShard)
    );
}

#[test]
fn what_a_party_set_goes_with_it_and_epochs_only_rise() {
    let mut script = Script::new();
    let id = AttachmentId::new(1);
    let attach = MetaOp::Attach {
        id,
        kind: crate::entry::AttachmentKind::Tool,
        name: String::new(),
    };
    script.run(Shard::Meta, Op::Meta(attach.clone()));
    let notify = MetaOp::Notify {
        notice: crate::ids::NoticeId::new(1),
        owner: id,
        level: 1,
        text: String::from("hi"),
    };
    script.run(Shard::Meta, Op::Meta(notify));
    let grant = |epoch| MetaOp::LeaseGrant {
        shard: Shard::Layout,
        to: id,
        epoch: Epoch::new(epoch),
        head: Seq::default(),
        chain: crate::entry::ChainHash::default(),
    };
    script.run(Shard::Meta, Op::Meta(grant(1)));
    let again = script.entry(Shard::Meta, Op::Meta(grant(1)));
    assert!(script.0.apply(Shard::Meta, &again).is_err());
    script.run(Shard::Meta, Op::Meta(MetaOp::Detach(id)));
    assert!(script.0.meta().notices.is_empty());
    let reused = script.entry(Shard::Meta, Op::Meta(attach));
    assert!(
        script.0.apply(Shard::Meta, &reused).is_err(),
        "an attachment id is never reused"
    );
}

#[test]
fn the_windows_of_a_buffer_are_those_that_show_it() {
    let mut script = Script::new();
    let check = |state: &State| {
        for buffer in 0..9 {
            let buffer = BufferId::new(buffer);
            let shows = |window: &Window| window.body == Body::Buffer(buffer);
            let all: Vec<_> = state.windows().collect();
            let of: Vec<_> = all
                .iter()
                .filter(|(_, w)| shows(w))
                .map(|(id, _)| *id)
                .collect();
            assert_eq!(state.windows_of(buffer).collect::<Vec<_>>(), of);
            let has = |window: &Window| shows(window) || window.tag == buffer;
            let with: Vec<_> = all
                .iter()
                .filter(|(_, w)| has(w))
                .map(|(id, _)| *id)
                .collect();
            assert_eq!(state.windows_with(buffer).collect::<Vec<_>>(), with);
        }
    };
    check(&script.0);
    let (other, shard) = (BufferId::new(7), Shard::Window(WindowId::new(5)));
    script.run(Shard::Meta, Op::Meta(MetaOp::ShardNew(shard)));
    let (tag, body) = (other, Body::Buffer(BODY));
    let ops = [
        WindowOp::Create { tag, body },
        WindowOp::Body(Body::Buffer(other)),
        WindowOp::Body(Body::Term(TermId::new(1))),
        WindowOp::Body(body),
    ];
    for op in ops {
        script.run(shard, Op::Window(op));
        check(&script.0);
        check(&State::from_snapshot(&script.0.to_snapshot()).unwrap());
    }
    assert_eq!(script.0.windows_of(BODY).count(), 2);
    script.run(Shard::Meta, Op::Meta(MetaOp::ShardDel(shard)));
    check(&script.0);
    assert_eq!(script.0.windows_with(other).count(), 0);
}
