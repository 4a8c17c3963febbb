//! Entries of buffers, windows, layouts and terminals.

use super::*;
use crate::edit::Splice;
use crate::entry::{
    Annotation, Body, BufferKind, BufferOp, Dot, Entry, LayoutOp, MetaOp, Op, Origin, SaveCause,
    Saved, TermLine, TermOp, TermRun, WindowOp,
};
use crate::ids::{
    AttachmentId, BufferId, ColumnId, Epoch, GroupId, ProposalId, Seq, Shard, TermId, Version,
    ViewId, WindowId,
};
use crate::text::Span;
use crate::wire::{decode_entry, encode_entry};

/// Where the number of an operation stands in an entry whose own numbers are small.
pub(super) const PLACE_AT: usize = 5;

/// An entry around an operation, no two numbers the same.
pub(super) fn entry(op: Op) -> Entry {
    Entry {
        seq: Seq::new(9),
        attachment: AttachmentId::new(8),
        epoch: Epoch::new(7),
        origin: None,
        op,
    }
}

/// How an operation of one kind is stored: in an entry.
macro_rules! codec {
    ($kind:ident) => {
        Codec {
            encode: |op| encode_entry(&entry(Op::$kind(op.clone()))).to_vec(),
            decode: |bytes| match decode_entry(bytes).ok()? {
                Entry {
                    op: Op::$kind(op), ..
                } => Some(op),
                _ => None,
            },
            place_at: PLACE_AT,
        }
    };
}
pub(super) use codec;

const LARGE: u64 = 5 << 40 | 77;
pub(super) const WINDOW: WindowId = WindowId::new(LARGE + 1);
pub(super) const BODY: ViewId = ViewId::Body(WINDOW);
const GROUP: GroupId = GroupId::new(LARGE + 2);
const COLUMN: ColumnId = ColumnId::new(LARGE + 3);
const BUFFER: BufferId = BufferId::new(LARGE + 4);

variants!(OPS, Op: Meta Layout Buffer Window Term);
variants!(BUFFER_OPS, BufferOp:
    Create Load Edit Undo Redo Select Origin ViewAdd ViewDel Name Saved Annotate Setting Forget);
variants!(WINDOW_OPS, WindowOp: Create Body Setting);
variants!(LAYOUT_OPS, LayoutOp:
    Create ColumnAdd ColumnDel ColumnMove WindowAdd WindowDel WindowMove ColumnWeights
    WindowWeights Sort Focus);
variants!(TERM_OPS, TermOp:
    Create Resize Rows Scrolled Cursor Modes Title Cwd Prompt Bell Exit);
variants!(BUFFER_KINDS, BufferKind: File Directory Scratch Tag);
variants!(SAVE_CAUSES, SaveCause: Put Tool PutAll Load);
variants!(BODIES, Body: Buffer Term);
variants!(VIEWS, ViewId: Tag Body Column Top);
variants!(SHARDS, Shard: Meta Layout Buffer Window Term);

fn edit(splices: Vec<Splice>, group: Option<GroupId>, dot: Option<Dot>) -> BufferOp {
    BufferOp::Edit {
        splices: splices.into(),
        group,
        dot,
    }
}

fn texts() -> Vec<(&'static str, BufferOp)> {
    let create = |kind, name: &str| BufferOp::Create {
        kind,
        name: name.into(),
    };
    let load = |text: &str| BufferOp::Load { text: text.into() };
    let key = Splice::new(Span::at(300), "x");
    let strange = Splice::new(Span::new(300, u64::MAX), STRANGE);
    let erased = Splice::new(Span::new(1, 2), "");
    let dot = |view, q0, q1| Dot {
        view,
        at: Span::new(q0, q1),
    };
    let typed = dot(BODY, 301, 301);
    vec![
        ("file", create(BufferKind::File, "/tmp/é漢")),
        ("directory", create(BufferKind::Directory, "/tmp/")),
        ("scratch", create(BufferKind::Scratch, "/tmp/+Errors")),
        ("tag", create(BufferKind::Tag, "")),
        ("empty", load("")),
        ("strange", load(STRANGE)),
        ("typed", edit(vec![key.clone()], Some(GROUP), Some(typed))),
        ("of no group", edit(vec![key.clone()], None, None)),
        (
            "of nothing",
            edit(vec![], None, Some(dot(ViewId::Top, 0, 0))),
        ),
        ("strange", edit(vec![strange.clone()], Some(GROUP), None)),
        (
            "of three",
            edit(
                vec![erased, key, strange],
                Some(GroupId::new(u64::MAX)),
                Some(dot(ViewId::Column(COLUMN), 0, u64::MAX)),
            ),
        ),
        (
            "in a tag",
            edit(
                vec![Splice::new(Span::at(0), "y".repeat(25))],
                None,
                Some(dot(ViewId::Tag(WINDOW), 25, 25)),
            ),
        ),
    ]
}

fn undo_and_views() -> Vec<(&'static str, BufferOp)> {
    let (group, view) = (GROUP, Some(BODY));
    let dot = Dot {
        view: BODY,
        at: Span::new(1, 1 << 33),
    };
    vec![
        ("in a view", BufferOp::Undo { group, view }),
        ("in none", BufferOp::Undo { group, view: None }),
        ("in a view", BufferOp::Redo { group, view }),
        ("in none", BufferOp::Redo { group, view: None }),
        ("a span", BufferOp::Select(dot)),
        (
            "a position",
            BufferOp::Origin {
                view: BODY,
                at: 128,
            },
        ),
        ("a tag", BufferOp::ViewAdd(ViewId::Tag(WINDOW))),
        ("the top row", BufferOp::ViewAdd(ViewId::Top)),
        ("a body", BufferOp::ViewDel(BODY)),
        ("a column", BufferOp::ViewDel(ViewId::Column(COLUMN))),
    ]
}

fn names_and_layers() -> Vec<(&'static str, BufferOp)> {
    let name = |name: &str, group| BufferOp::Name {
        name: name.into(),
        group,
    };
    let setting = |value: Option<&str>| BufferOp::Setting {
        key: "tab".into(),
        value: value.map(Into::into),
    };
    let saved = |cause, byte| {
        BufferOp::Saved(Saved {
            version: Version::new(u64::MAX),
            content: Version::new(2),
            digest: [byte; 32],
            path: "/tmp/é漢".into(),
            cause,
        })
    };
    let annotate = |spans| BufferOp::Annotate {
        owner: AttachmentId::new(5),
        layer: "lint".into(),
        spans,
    };
    let span = |severity, style: &str, message: &str| Annotation {
        at: Span::new(u64::from(severity), 9),
        style: style.into(),
        severity,
        message: message.into(),
    };
    vec![
        ("of a group", name("/tmp/é漢", Some(GROUP))),
        ("of no group", name("", None)),
        ("put", saved(SaveCause::Put, 0)),
        ("by a tool", saved(SaveCause::Tool, 1)),
        ("with all", saved(SaveCause::PutAll, 0x7F)),
        ("read", saved(SaveCause::Load, 0xFF)),
        ("nothing", annotate(vec![])),
        (
            "two spans",
            annotate(vec![span(0, "", ""), span(4, "red", STRANGE)]),
        ),
        ("set", setting(Some("8"))),
        ("removed", setting(None)),
        ("an attachment", BufferOp::Forget(AttachmentId::new(300))),
    ]
}

fn buffer_ops() -> Vec<(&'static str, BufferOp)> {
    [texts(), undo_and_views(), names_and_layers()].concat()
}

fn window_ops() -> Vec<(&'static str, WindowOp)> {
    let create = |body| WindowOp::Create { tag: BUFFER, body };
    let setting = |value: Option<&str>| WindowOp::Setting {
        key: "owner".into(),
        value: value.map(Into::into),
    };
    vec![
        ("of a text", create(Body::Buffer(BufferId::new(1)))),
        ("of a terminal", create(Body::Term(TermId::new(2)))),
        ("a text", WindowOp::Body(Body::Buffer(BUFFER))),
        ("a terminal", WindowOp::Body(Body::Term(TermId::new(300)))),
        ("set", setting(Some(STRANGE))),
        ("removed", setting(None)),
    ]
}

fn layout_ops() -> Vec<(&'static str, LayoutOp)> {
    let (window, column) = (WINDOW, COLUMN);
    let add = |index, weight| LayoutOp::WindowAdd {
        window,
        column,
        index,
        weight,
    };
    let column_add = LayoutOp::ColumnAdd {
        column,
        tag: BUFFER,
        index: 1,
        weight: 1000,
    };
    let window_move = LayoutOp::WindowMove {
        window,
        column,
        index: 2,
        weight: 0,
    };
    let sort = |windows| LayoutOp::Sort { column, windows };
    vec![
        ("a top row", LayoutOp::Create { top: BUFFER }),
        ("a column", column_add),
        ("a column", LayoutOp::ColumnDel(COLUMN)),
        ("a column", LayoutOp::ColumnMove { column, index: 300 }),
        ("a window", add(0, 1)),
        ("past the end", add(u32::MAX, u32::MAX)),
        ("a window", LayoutOp::WindowDel(WINDOW)),
        ("a window", window_move),
        ("none", LayoutOp::ColumnWeights(vec![])),
        (
            "two",
            LayoutOp::ColumnWeights(vec![(ColumnId::new(1), 0), (column, u32::MAX)]),
        ),
        ("none", LayoutOp::WindowWeights(vec![])),
        (
            "two",
            LayoutOp::WindowWeights(vec![(WindowId::new(1), 0), (window, 999)]),
        ),
        ("nothing", sort(vec![])),
        ("two", sort(vec![window, WindowId::new(1)])),
        ("a body", LayoutOp::Focus(Some(BODY))),
        ("nowhere", LayoutOp::Focus(None)),
    ]
}

fn term_ops() -> Vec<(&'static str, TermOp)> {
    let run = |text: &str, style| TermRun {
        text: text.into(),
        style,
    };
    let lines = vec![
        TermLine::default(),
        TermLine {
            runs: vec![run("$ ", 0), run(STRANGE, u64::MAX)],
            is_wrapped: true,
        },
    ];
    let rows = |first, lines| TermOp::Rows { first, lines };
    let cursor = |row, column, is_visible| TermOp::Cursor {
        row,
        column,
        is_visible,
    };
    let create = TermOp::Create {
        columns: 80,
        rows: 24,
        command: "rc -é".into(),
    };
    let resize = TermOp::Resize {
        columns: u16::MAX,
        rows: 1,
    };
    vec![
        ("a shell", create),
        ("wide", resize),
        ("two", rows(300, lines.clone())),
        ("none", rows(0, vec![])),
        ("two", TermOp::Scrolled(lines)),
        ("none", TermOp::Scrolled(vec![])),
        ("shown", cursor(23, 79, true)),
        ("hidden", cursor(0, u16::MAX, false)),
        ("all", TermOp::Modes(u64::MAX)),
        ("strange", TermOp::Title(STRANGE.into())),
        ("a directory", TermOp::Cwd("/tmp/é漢".into())),
        ("a line", TermOp::Prompt(1 << 35)),
        ("once", TermOp::Bell),
        ("of a signal", TermOp::Exit { code: 137 }),
        ("below nothing", TermOp::Exit { code: i32::MIN }),
    ]
}

#[test]
fn entries_of_buffers_keep_their_golden_bytes() {
    check(
        golden!("buffer_ops.txt"),
        &BUFFER_OPS,
        &codec!(Buffer),
        &buffer_ops(),
    );
}

#[test]
fn entries_of_windows_keep_their_golden_bytes() {
    check(
        golden!("window_ops.txt"),
        &WINDOW_OPS,
        &codec!(Window),
        &window_ops(),
    );
}

#[test]
fn entries_of_the_layout_keep_their_golden_bytes() {
    check(
        golden!("layout_ops.txt"),
        &LAYOUT_OPS,
        &codec!(Layout),
        &layout_ops(),
    );
}

#[test]
fn entries_of_terminals_keep_their_golden_bytes() {
    check(
        golden!("term_ops.txt"),
        &TERM_OPS,
        &codec!(Term),
        &term_ops(),
    );
}

#[test]
fn entries_keep_their_golden_bytes_whatever_their_numbers() {
    let origin = |author, id| Origin {
        author: AttachmentId::new(author),
        id: ProposalId::new(id),
    };
    let numbered = |number, origin, op| Entry {
        seq: Seq::new(number),
        attachment: AttachmentId::new(number / 2),
        epoch: Epoch::new(number / 3),
        origin,
        op,
    };
    let label = MetaOp::Label(STRANGE.into());
    let typed = edit(vec![Splice::new(Span::at(300), STRANGE)], Some(GROUP), None);
    let cases = [
        ("first", numbered(1, None, Op::Meta(label))),
        (
            "small",
            numbered(3, None, Op::Layout(LayoutOp::Focus(None))),
        ),
        (
            "of a proposal",
            numbered(300, Some(origin(5, 6 << 40)), Op::Buffer(typed)),
        ),
        (
            "of the daemon's proposal",
            numbered(
                1 << 20,
                Some(origin(0, 0)),
                Op::Window(WindowOp::Body(Body::Buffer(BUFFER))),
            ),
        ),
        (
            "largest",
            numbered(
                u64::MAX,
                Some(origin(u64::MAX, u64::MAX)),
                Op::Term(TermOp::Bell),
            ),
        ),
    ];
    let lines: Vec<Line> = cases
        .iter()
        .map(|(what, entry)| line(what, &encode_entry(entry)))
        .collect();
    check_lines(golden!("entries.txt"), &lines);
    let file = golden!("entries.txt");
    for (index, (what, entry)) in cases.iter().enumerate() {
        assert_eq!(decode_entry(&file.bytes_of(what)).as_ref(), Ok(entry));
        assert_eq!((OPS.name_of)(&entry.op), OPS.names[index]);
    }
}

#[test]
fn what_operations_hold_keeps_its_golden_bytes() {
    let kinds = [
        BufferKind::File,
        BufferKind::Directory,
        BufferKind::Scratch,
        BufferKind::Tag,
    ];
    let kinds = kinds.map(|kind| ("kind", kind));
    check(
        golden!("buffer_kinds.txt"),
        &BUFFER_KINDS,
        &Codec::PLAIN,
        &kinds,
    );
    let causes = [
        SaveCause::Put,
        SaveCause::Tool,
        SaveCause::PutAll,
        SaveCause::Load,
    ];
    let causes = causes.map(|cause| ("cause", cause));
    check(
        golden!("save_causes.txt"),
        &SAVE_CAUSES,
        &Codec::PLAIN,
        &causes,
    );
    let bodies = [Body::Buffer(BUFFER), Body::Term(TermId::new(2))];
    let bodies = bodies.map(|body| ("body", body));
    check(golden!("bodies.txt"), &BODIES, &Codec::PLAIN, &bodies);
    let views = [
        ViewId::Tag(WINDOW),
        BODY,
        ViewId::Column(COLUMN),
        ViewId::Top,
    ];
    let views = views.map(|view| ("view", view));
    check(golden!("views.txt"), &VIEWS, &Codec::PLAIN, &views);
    let shards = [
        Shard::Meta,
        Shard::Layout,
        Shard::Buffer(BUFFER),
        Shard::Window(WINDOW),
        Shard::Term(TermId::new(u64::MAX)),
    ];
    let shards = shards.map(|shard| ("shard", shard));
    check(golden!("shards.txt"), &SHARDS, &Codec::PLAIN, &shards);
}
