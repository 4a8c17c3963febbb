//! Proposals, and how they end.

use super::ops::{BODY, WINDOW};
use super::*;
use crate::edit::Splice;
use crate::entry::{Annotation, SaveCause, Saved};
use crate::ids::{
    AttachmentId, BufferId, ColumnId, GroupId, ProposalId, Version, ViewId, WindowId,
};
use crate::proposal::{Atomicity, Change, Landed, Outcome, Proposal, Refusal};
use crate::text::Span;

const BUFFER: BufferId = BufferId::new(3 << 40 | 5);
const GROUP: GroupId = GroupId::new(7 << 40 | 1);
const VERSION: Version = Version::new(300);

variants!(ATOMICITIES, Atomicity: All Each);
variants!(CHANGES, Change:
    Edit Select Show Annotate Board Append TagSegment Open Put GetIfClean Close Look Saved Name
    Undo Redo);
variants!(REFUSALS, Refusal:
    Conflict Stale NotFound OutOfRange SplitLeadership Retry NotGranted Refused
    Diverged Several);

fn changes_of_texts() -> Vec<(&'static str, Change)> {
    let edit = |splices| Change::Edit {
        buffer: BUFFER,
        base: VERSION,
        splices,
    };
    let splices = vec![
        Splice::new(Span::new(0, 1), ""),
        Splice::new(Span::new(300, u64::MAX), STRANGE),
    ];
    let annotate = |spans| Change::Annotate {
        buffer: BUFFER,
        base: Version::new(u64::MAX),
        layer: "é".into(),
        spans,
    };
    let annotation = Annotation {
        at: Span::new(1, 300),
        style: "red".into(),
        severity: 255,
        message: STRANGE.into(),
    };
    vec![
        ("two splices", edit(splices)),
        ("nothing", edit(vec![])),
        ("a layer", annotate(vec![annotation])),
        ("no layer", annotate(vec![])),
    ]
}

fn changes_of_files() -> Vec<(&'static str, Change)> {
    let saved = Saved {
        version: VERSION,
        content: Version::new(2),
        digest: [0xEE; 32],
        path: "/tmp/漢".into(),
        cause: SaveCause::PutAll,
    };
    vec![
        (
            "a text",
            Change::Put {
                buffer: BUFFER,
                version: VERSION,
            },
        ),
        ("a text", Change::GetIfClean(BUFFER)),
        (
            "a text",
            Change::Saved {
                buffer: BUFFER,
                saved,
            },
        ),
        (
            "a group",
            Change::Undo {
                buffer: BUFFER,
                group: GROUP,
            },
        ),
        (
            "a group",
            Change::Redo {
                buffer: BUFFER,
                group: GROUP,
            },
        ),
        (
            "strange",
            Change::Name {
                buffer: BUFFER,
                name: STRANGE.into(),
            },
        ),
    ]
}

fn changes_of_windows() -> Vec<(&'static str, Change)> {
    let select = |view, q0, q1| Change::Select {
        view,
        at: Span::new(q0, q1),
    };
    let show = |address: &str| Change::Show {
        buffer: BUFFER,
        address: address.into(),
    };
    let board = |column| Change::Board {
        name: "/tmp/+Board".into(),
        text: STRANGE.into(),
        column,
    };
    let append = Change::Append {
        name: "/tmp/+Errors".into(),
        text: STRANGE.into(),
    };
    let segment = |text: &str| Change::TagSegment {
        window: WINDOW,
        name: "lint".into(),
        text: text.into(),
    };
    let open = Change::Open {
        path: "/tmp/é".into(),
        address: "#12".into(),
    };
    let look = Change::Look {
        window: WindowId::new(1),
        text: STRANGE.into(),
    };
    vec![
        ("a span", select(BODY, 1, 1 << 40)),
        ("in the top row", select(ViewId::Top, 0, 0)),
        ("a line", show("12")),
        ("nowhere", show("")),
        ("in a column", board(Some(ColumnId::new(128)))),
        ("anywhere", board(None)),
        ("strange", append),
        ("a text", segment("2 wrong")),
        ("nothing", segment("")),
        ("a file", open),
        ("a window", Change::Close(WINDOW)),
        ("strange", look),
    ]
}

fn changes() -> Vec<(&'static str, Change)> {
    [changes_of_texts(), changes_of_files(), changes_of_windows()].concat()
}

fn refusals() -> Vec<(&'static str, Refusal)> {
    let conflict = Refusal::Conflict {
        buffer: BUFFER,
        version: VERSION,
        at: Span::new(1, 300),
    };
    let diverged = Refusal::Diverged {
        buffer: BUFFER,
        version: Version::new(0),
    };
    let several = Refusal::Several(vec![conflict.clone(), Refusal::SplitLeadership]);
    let stale = Refusal::Stale {
        buffer: BUFFER,
        version: Version::new(u64::MAX),
    };
    vec![
        ("a text", diverged),
        ("two", several),
        ("of a span", conflict),
        ("of a version", stale),
        ("strange", Refusal::NotFound(STRANGE.into())),
        ("in words", Refusal::OutOfRange("#3".into())),
        ("of parties", Refusal::SplitLeadership),
        ("in words", Refusal::Retry("".into())),
        ("in words", Refusal::NotGranted("edit".into())),
        ("in words", Refusal::Refused("no".into())),
    ]
}

/// An edit as a tool proposes it.
pub(super) fn proposal(atomicity: Atomicity) -> Proposal {
    let edit = Change::Edit {
        buffer: BUFFER,
        base: VERSION,
        splices: vec![Splice::new(Span::new(1, 300), STRANGE)],
    };
    Proposal {
        author: AttachmentId::new(300),
        id: ProposalId::new(300 << 40 | 9),
        atomicity,
        changes: vec![edit, Change::Close(WINDOW)],
    }
}

/// How a proposal ended well, for two changes.
pub(super) fn landed() -> Outcome {
    let whole = Landed {
        buffer: Some(BUFFER),
        version: VERSION,
        window: Some(WINDOW),
        refusal: Some(Refusal::Retry(STRANGE.into())),
    };
    Ok(vec![Landed::default(), whole])
}

#[test]
fn proposals_keep_their_golden_bytes() {
    check(golden!("changes.txt"), &CHANGES, &Codec::PLAIN, &changes());
    let atomicities = [Atomicity::All, Atomicity::Each].map(|value| ("value", value));
    check(
        golden!("atomicities.txt"),
        &ATOMICITIES,
        &Codec::PLAIN,
        &atomicities,
    );
    let empty = Proposal {
        changes: vec![],
        ..proposal(Atomicity::Each)
    };
    let cases = [("whole", proposal(Atomicity::All)), ("empty", empty)];
    check_plain(golden!("proposals.txt"), &cases);
}

#[test]
fn outcomes_keep_their_golden_bytes() {
    check(
        golden!("refusals.txt"),
        &REFUSALS,
        &Codec::PLAIN,
        &refusals(),
    );
    let refused: Outcome = Err(Refusal::SplitLeadership);
    let cases = [
        ("two landed", landed()),
        ("nothing landed", Ok(vec![])),
        ("refused", refused),
    ];
    check_plain(golden!("outcomes.txt"), &cases);
}
