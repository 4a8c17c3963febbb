//! Snapshots and hashes of a state that has something in every part.
//!
//! Both belong to a version of `apply`: who changes what `apply` computes, or how a state is
//! encoded, raises `APPLY_VERSION` and adds lines. The older lines stay: such a snapshot is refused
//! by its version and never misread.

use alloc::boxed::Box;

use super::ops::entry;
use super::*;
use crate::edit::Splice;
use crate::entry::{
    APPLY_VERSION, Annotation, ApplyLimits, AttachmentKind, Body, BufferKind, BufferOp, ChainHash,
    Dot, Entry, Exec, LayoutOp, MetaOp, Op, Origin, SaveCause, Saved, TermLine, TermOp, TermRun,
    WindowOp,
};
use crate::ids::{
    AttachmentId, BufferId, ColumnId, Epoch, ExecId, GroupId, NoticeId, ProcessId, ProposalId,
    RuleId, Seq, Shard, TermId, Version, ViewId, WindowId,
};
use crate::state::{SnapshotError, State};
use crate::text::Span;

const TAG: BufferId = BufferId::new(1);
const TEXT: BufferId = BufferId::new(2);
const WINDOW: WindowId = WindowId::new(3);
const COLUMN: ColumnId = ColumnId::new(4);
const TERM: TermId = TermId::new(5);
const BODY: ViewId = ViewId::Body(WINDOW);

fn run(state: &mut State, shard: Shard, op: Op) {
    let entry = Entry {
        seq: state.applied(shard).unwrap_or_default().next(),
        ..entry(op)
    };
    state.apply(shard, &entry).unwrap();
}

fn begin(state: &mut State) {
    let limits = ApplyLimits {
        undo_len: 1000,
        annotation_count: 10,
        scrollback_count: 1,
    };
    let mut meta = |op| run(state, Shard::Meta, Op::Meta(op));
    meta(MetaOp::Genesis { format: 1, limits });
    meta(MetaOp::Identity(meta::session()));
    for id in [5, 300] {
        meta(MetaOp::Attach {
            id: AttachmentId::new(id),
            kind: AttachmentKind::Ui,
            name: STRANGE.into(),
        });
    }
    let shards = [
        Shard::Layout,
        Shard::Buffer(TAG),
        Shard::Buffer(TEXT),
        Shard::Window(WINDOW),
        Shard::Term(TERM),
    ];
    for shard in shards {
        meta(MetaOp::ShardNew(shard));
    }
    meta(MetaOp::LeaseGrant {
        shard: Shard::Buffer(TEXT),
        to: AttachmentId::new(5),
        epoch: Epoch::new(2),
        head: Seq::new(0),
        chain: ChainHash::default(),
    });
    meta(MetaOp::LeaseRequest {
        shard: Shard::Buffer(TEXT),
        by: AttachmentId::new(300),
    });
}

fn fill_desk(state: &mut State) {
    let mut meta = |op| run(state, Shard::Meta, Op::Meta(op));
    let owner = AttachmentId::new(5);
    meta(MetaOp::Label(STRANGE.into()));
    meta(MetaOp::RuleAdd {
        rule: RuleId::new(7),
        owner,
        window: Some(WINDOW),
        pattern: "[a-zé]+".into(),
        port: "edit".into(),
    });
    meta(MetaOp::Setting {
        key: "font".into(),
        value: Some("é".into()),
    });
    meta(MetaOp::Notify {
        notice: NoticeId::new(300),
        owner,
        level: 3,
        text: STRANGE.into(),
    });
    meta(MetaOp::ProcStart {
        process: ProcessId::new(1),
        owner,
        command: "date".into(),
    });
    let exec = ExecId::new(300);
    meta(MetaOp::Exec(Box::new(Exec {
        id: exec,
        asked_by: owner,
        view: BODY,
        buffer: TEXT,
        version: Version::new(1),
        at: Span::new(0, 1),
        text: STRANGE.into(),
        argument: "x".into(),
        is_look: true,
    })));
    let (by, ms) = (owner, 300);
    meta(MetaOp::Claim { exec, by, ms });
    let (tool, sha256) = (String::from("fmt"), [3; 32]);
    meta(MetaOp::GrantAsked {
        tool: tool.clone(),
        sha256,
        wants: vec!["edit *".into()],
    });
    meta(MetaOp::GrantDecided {
        tool,
        sha256,
        is_granted: true,
    });
}

fn fill_text(state: &mut State) {
    let mut buffer = |op| run(state, Shard::Buffer(TEXT), Op::Buffer(op));
    let edit = |q0, q1, text: &str, group| BufferOp::Edit {
        splices: Splice::new(Span::new(q0, q1), text).into(),
        group: Some(GroupId::new(group)),
        dot: None,
    };
    buffer(BufferOp::Create {
        kind: BufferKind::File,
        name: "/tmp/a".into(),
    });
    buffer(BufferOp::Load {
        text: STRANGE.into(),
    });
    for view in [BODY, ViewId::Top] {
        buffer(BufferOp::ViewAdd(view));
    }
    buffer(edit(0, 0, "x", 1));
    buffer(edit(1, 1, "y", 1));
    let name = BufferOp::Name {
        name: "/tmp/é".into(),
        group: Some(GroupId::new(1)),
    };
    buffer(name);
    buffer(edit(2, 4, "漢字", 2));
    buffer(edit(0, 1, "", 1 << 40));
    buffer(BufferOp::Undo {
        group: GroupId::new(1 << 40),
        view: Some(BODY),
    });
    buffer(BufferOp::Select(Dot {
        view: ViewId::Top,
        at: Span::new(1, 9),
    }));
    buffer(BufferOp::Origin { view: BODY, at: 3 });
    buffer(BufferOp::Saved(Saved {
        version: Version::new(2),
        content: Version::new(2),
        digest: [0xAB; 32],
        path: "/tmp/é".into(),
        cause: SaveCause::Put,
    }));
    buffer(BufferOp::Setting {
        key: "tab".into(),
        value: Some("8".into()),
    });
    let annotation = Annotation {
        at: Span::new(1, 5),
        style: "red".into(),
        severity: 4,
        message: STRANGE.into(),
    };
    let annotate = BufferOp::Annotate {
        owner: AttachmentId::new(5),
        layer: "lint".into(),
        spans: vec![annotation],
    };
    let entry = Entry {
        seq: state.applied(Shard::Buffer(TEXT)).unwrap().next(),
        origin: Some(Origin {
            author: AttachmentId::new(5),
            id: ProposalId::new(300),
        }),
        ..entry(Op::Buffer(annotate))
    };
    state.apply(Shard::Buffer(TEXT), &entry).unwrap();
}

fn fill_windows(state: &mut State) {
    let create = BufferOp::Create {
        kind: BufferKind::Tag,
        name: "".into(),
    };
    run(state, Shard::Buffer(TAG), Op::Buffer(create));
    let (tag, body) = (TAG, Body::Buffer(TEXT));
    let setting = WindowOp::Setting {
        key: "scroll".into(),
        value: Some(STRANGE.into()),
    };
    for op in [WindowOp::Create { tag, body }, setting] {
        run(state, Shard::Window(WINDOW), Op::Window(op));
    }
    let column_add = LayoutOp::ColumnAdd {
        column: COLUMN,
        tag: TAG,
        index: 0,
        weight: 1000,
    };
    let window_add = LayoutOp::WindowAdd {
        window: WINDOW,
        column: COLUMN,
        index: 0,
        weight: 7,
    };
    let focus = LayoutOp::Focus(Some(BODY));
    for op in [LayoutOp::Create { top: TAG }, column_add, window_add, focus] {
        run(state, Shard::Layout, Op::Layout(op));
    }
    let row = TermLine {
        runs: vec![TermRun {
            text: STRANGE.into(),
            style: 1 << 40,
        }],
        is_wrapped: true,
    };
    let create = TermOp::Create {
        columns: 80,
        rows: 2,
        command: "rc".into(),
    };
    let rows = TermOp::Rows {
        first: 1,
        lines: vec![row.clone()],
    };
    let scrolled = TermOp::Scrolled(vec![TermLine::default(), row]);
    let last = [TermOp::Prompt(1), TermOp::Bell, TermOp::Exit { code: -1 }];
    for op in [create, rows, scrolled].into_iter().chain(last) {
        run(state, Shard::Term(TERM), Op::Term(op));
    }
}

/// A state that has something in every part.
pub(super) fn full() -> State {
    let mut state = State::new();
    begin(&mut state);
    fill_desk(&mut state);
    fill_text(&mut state);
    fill_windows(&mut state);
    state
}

#[test]
fn snapshots_and_hashes_change_only_with_the_version_of_apply() {
    let file = golden!("snapshots.txt");
    let mut lines = Vec::new();
    for (what, state) in [("empty", State::new()), ("full", full())] {
        let name = |part: &str| format!("v{APPLY_VERSION} {part} {what}");
        lines.push(line(&name("snapshot"), &state.to_snapshot()));
        lines.push(line(&name("hash"), &state.hash()));
    }
    let is_present = |name: &str| name.starts_with(&format!("v{APPLY_VERSION} "));
    let older = file.all();
    let older = older.iter().filter(|(name, _)| !is_present(name));
    lines.extend(older.clone().map(|(name, bytes)| line(name, bytes)));
    check_lines(file, &lines);
    for (what, state) in [("empty", State::new()), ("full", full())] {
        let stored = file.bytes_of(&format!("v{APPLY_VERSION} snapshot {what}"));
        let read = State::from_snapshot(&stored).unwrap();
        let hash = file.bytes_of(&format!("v{APPLY_VERSION} hash {what}"));
        assert_eq!(read.hash().as_slice(), hash, "{what}");
        assert_eq!(read.hash(), state.hash(), "{what}");
    }
    for (name, bytes) in older.filter(|(name, _)| name.contains("snapshot")) {
        let refused = State::from_snapshot(bytes).unwrap_err();
        assert!(matches!(refused, SnapshotError::Version(_)), "{name}");
    }
}

#[test]
fn the_full_state_has_something_in_every_part() {
    let state = full();
    let meta = state.meta();
    let buffer = state.buffer(TEXT).unwrap();
    let counts = [
        meta.attachments.len(),
        meta.rules.len(),
        meta.settings.len(),
        meta.notices.len(),
        meta.processes.len(),
        meta.execs.len(),
        meta.claims.len(),
        meta.grants.len(),
        meta.leases().count(),
        state.buffers().count(),
        state.windows().count(),
        buffer.views().count(),
        buffer.layers().count(),
        state.window(WINDOW).unwrap().settings().count(),
        state.layout().unwrap().columns.len(),
        state.term(TERM).unwrap().scrollback.len(),
    ];
    assert!(!counts.contains(&0), "{counts:?}");
    assert!(buffer.undo_group().is_some() && buffer.redo_group().is_some());
    assert!(buffer.saved().is_some() && buffer.is_modified());
}
