//! Proposals: routed, carried forward, whole or not at all, once.

use alloc::vec;

use super::asked::{edit, outcomes, started};
use super::*;
use crate::entry::SaveCause;
use crate::ids::{SERVER, Version};
use crate::proposal::{Change, Outcome, Refusal};
use crate::text::Span;

fn propose(world: &mut World, index: usize, changes: Vec<Change>) -> ProposalId {
    let peer = world.peer(index);
    let (id, message) = peer.client.propose(changes).unwrap();
    peer.say(message);
    id
}

fn outcome(world: &mut World, index: usize, id: ProposalId) -> Option<Outcome> {
    world.run();
    outcomes(world, index, id).into_iter().next()
}

#[test]
fn a_proposal_is_carried_over_what_the_user_typed_meanwhile() {
    let (mut world, ui, tool, buffer, view) = started();
    let id = propose(&mut world, tool, vec![edit(buffer, 6, (3, 6), "DEF")]);
    world.peer(ui).node().select(view, Span::at(0)).unwrap();
    world.type_text(ui, view, "12");
    let landed = outcome(&mut world, tool, id).unwrap().unwrap();
    assert_eq!(world.text(buffer), "12abcDEF");
    assert_eq!(landed[0].version, Version::new(9));
    world.peer(ui).node().undo(view).unwrap();
    world.peer(ui).flush();
    world.run();
    assert_eq!(world.text(buffer), "12abcdef", "one proposal is one undo");
    world.check();
}

#[test]
fn an_overlap_is_a_conflict_and_nothing_of_the_proposal_happens() {
    let (mut world, ui, tool, buffer, view) = started();
    let (other, _) = world.open(ui, "/tmp/y");
    world.peer(ui).node().select(view, Span::new(2, 4)).unwrap();
    world.type_text(ui, view, "!");
    world.run();
    let before = world.authority.node().state().hash();
    let changes = vec![
        edit(other, 0, (0, 0), "new"),
        Change::Append {
            name: "/tmp/+Errors".into(),
            text: "x".into(),
        },
        edit(buffer, 6, (3, 6), "DEF"),
    ];
    let id = propose(&mut world, tool, changes);
    let refusal = outcome(&mut world, tool, id).unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::Conflict { .. }), "{refusal:?}");
    assert_eq!(world.authority.node().state().hash(), before);
    world.check();
    world.type_text(ui, view, "?");
    world.run();
    world.check();
}

#[test]
fn server_decides_when_no_ui_is_attached() {
    let mut world = World::new();
    let tool = world.join(AttachmentKind::Tool, Takeover::Watch);
    let changes = vec![Change::Board {
        name: "+Todo".into(),
        text: "one\n".into(),
        column: None,
    }];
    let id = propose(&mut world, tool, changes);
    let landed = outcome(&mut world, tool, id).unwrap().unwrap();
    assert_eq!(world.text(landed[0].buffer.unwrap()), "one\n");
    assert!(landed[0].window.is_some());
    world.check();
}

/// Changes, and whether a refusal is the right one.
type Case = (Vec<Change>, fn(&Refusal) -> bool);

#[test]
fn bad_proposals_are_refused_with_what_is_wrong() {
    let (mut world, _, tool, buffer, _) = started();
    let missing = BufferId::new(99);
    let cases: Vec<Case> = vec![
        (vec![edit(buffer, 6, (4, 9), "")], |r| {
            matches!(r, Refusal::OutOfRange(_) | Refusal::Refused(_))
        }),
        (vec![edit(buffer, 6, (4, 3), "")], |r| {
            matches!(r, Refusal::OutOfRange(_))
        }),
        (vec![edit(buffer, 7, (0, 0), "")], |r| {
            matches!(r, Refusal::Stale { .. })
        }),
        (vec![edit(missing, 0, (0, 0), "")], |r| {
            matches!(r, Refusal::NotFound(_))
        }),
        (vec![Change::Close(WindowId::new(99))], |r| {
            matches!(r, Refusal::NotFound(_))
        }),
    ];
    let before = world.authority.node().state().hash();
    for (changes, is_right) in cases {
        let id = propose(&mut world, tool, changes.clone());
        let refusal = outcome(&mut world, tool, id).unwrap().unwrap_err();
        assert!(is_right(&refusal), "{changes:?}: {refusal:?}");
        assert_eq!(world.authority.node().state().hash(), before, "{changes:?}");
        world.check();
    }
}

#[test]
fn a_put_after_the_edits_names_the_version_they_made_and_is_skipped_when_the_user_typed_on() {
    let (mut world, ui, tool, buffer, view) = started();
    let put = |version| Change::Put {
        buffer,
        version: Version::new(version),
    };
    let id = propose(
        &mut world,
        tool,
        vec![edit(buffer, 6, (6, 6), "\n"), put(6)],
    );
    outcome(&mut world, tool, id).unwrap().unwrap();
    let follow_up = world.peer(ui).events.iter().any(|event| {
        matches!(
            event,
            ClientEvent::FollowUp(decide::FollowUp::Put { version, cause: SaveCause::Tool, .. })
                if *version == Version::new(7)
        )
    });
    assert!(follow_up);
    world.type_text(ui, view, "z");
    world.run();
    let id = propose(&mut world, tool, vec![edit(buffer, 7, (0, 0), "#"), put(7)]);
    let landed = outcome(&mut world, tool, id).unwrap().unwrap();
    assert!(matches!(landed[1].refusal, Some(Refusal::Stale { .. })));
    world.check();
}

#[test]
fn a_proposal_that_was_rerouted_is_applied_once() {
    let (mut world, first, tool, buffer, _) = started();
    world.peer(first).is_asleep = true;
    let id = propose(&mut world, tool, vec![edit(buffer, 6, (0, 0), "#")]);
    assert!(outcome(&mut world, tool, id).is_none());
    world.peer(first).is_asleep = false;
    world.peer(first).is_held = true;
    world.run();
    let second = world.ui();
    world.peer(first).is_held = false;
    world.run();
    let time = world.transfer_time();
    world.pass(time);
    assert!(world.is_leading(second));
    assert!(outcome(&mut world, tool, id).unwrap().is_ok());
    assert_eq!(world.text(buffer), "#abcdef");
    world.check();
}

#[test]
fn what_waits_for_a_leader_that_is_away_is_decided_by_the_ui_that_comes() {
    let (mut world, first, tool, buffer, _) = started();
    world.disconnect(first);
    let id = propose(&mut world, tool, vec![edit(buffer, 6, (0, 0), "#")]);
    assert!(outcome(&mut world, tool, id).is_none(), "it waits");
    let second = world.ui();
    assert!(world.is_leading(second));
    let landed = outcome(&mut world, tool, id).unwrap();
    assert!(landed.is_ok(), "{landed:?}");
    assert_eq!(world.text(buffer), "#abcdef");
    world.check();
}

#[test]
fn what_waits_for_a_transfer_is_decided_by_who_gets_the_lease() {
    let (mut world, first, tool, buffer, _) = started();
    world.peer(first).is_asleep = true;
    let second = world.ui();
    let id = propose(&mut world, tool, vec![edit(buffer, 6, (0, 0), "#")]);
    assert!(outcome(&mut world, tool, id).is_none(), "it waits");
    world.peer(first).is_asleep = false;
    world.run();
    assert!(world.is_leading(second));
    let landed = outcome(&mut world, tool, id).unwrap();
    assert!(landed.is_ok(), "{landed:?}");
    assert_eq!(world.text(buffer), "#abcdef");
    world.check();
}

#[test]
fn an_author_is_told_to_retry_when_the_leader_stays_away_and_server_waits() {
    let (mut world, first, tool, buffer, _) = started();
    world.disconnect(first);
    let id = propose(&mut world, tool, vec![edit(buffer, 6, (0, 0), "#")]);
    assert!(outcome(&mut world, tool, id).is_none());
    let changes = vec![edit(buffer, 6, (6, 6), "!")];
    let mut out = Vec::new();
    let own = world
        .authority
        .propose_as_server(world.now, changes, &mut out);
    world.pass(limits::PROPOSAL_WAIT_MS);
    let refusal = outcome(&mut world, tool, id).unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::Retry(_)));
    world.pass(limits::GRACE_UI_MS);
    assert_eq!(world.text(buffer), "abcdef!");
    let is_decided = |output: &Output| matches!(output, Output::Decided(id, Ok(_)) if *id == own);
    assert!(world.host.iter().any(is_decided));
    world.check();
}

#[test]
fn a_proposal_with_another_authors_name_is_refused() {
    let (mut world, _, tool, buffer, _) = started();
    let id = ProposalId::new(77);
    let proposal = crate::proposal::Proposal {
        author: SERVER,
        id,
        atomicity: crate::proposal::Atomicity::All,
        changes: vec![edit(buffer, 6, (0, 0), "#")],
    };
    world.peer(tool).say(ClientMessage::Propose(proposal));
    assert!(outcome(&mut world, tool, id).unwrap().is_err());
    assert_eq!(world.text(buffer), "abcdef");
}

#[test]
fn annotations_of_an_older_text_are_carried_or_refused() {
    let (mut world, ui, tool, buffer, view) = started();
    world.peer(ui).node().select(view, Span::at(0)).unwrap();
    world.type_text(ui, view, "xx");
    world.run();
    for (at, expected) in [
        (Span::new(2, 4), Some(Span::new(4, 6))),
        (Span::new(0, 6), Some(Span::new(0, 8))),
        (Span::new(2, u64::MAX), None),
        (Span::new(4, 2), None),
    ] {
        let annotation = crate::entry::Annotation {
            at,
            style: String::new(),
            severity: 1,
            message: String::from("old"),
        };
        let layer = Change::Annotate {
            buffer,
            base: Version::new(6),
            layer: "check".into(),
            spans: vec![annotation],
        };
        let id = propose(&mut world, tool, vec![layer]);
        world.run();
        let outcome = outcome(&mut world, tool, id).unwrap();
        assert_eq!(outcome.is_ok(), expected.is_some(), "{at:?}");
        let state = world.authority.node().state();
        let mut layers = state.buffer(buffer).unwrap().layers();
        let now = layers.find_map(|(_, _, layer)| layer.iter().next().map(|(at, _)| at));
        assert_eq!(now.filter(|_| expected.is_some()), expected);
    }
    world.check();
}

#[test]
fn annotations_move_with_edits_and_go_with_their_owner() {
    let (mut world, ui, tool, buffer, view) = started();
    let annotation = crate::entry::Annotation {
        at: Span::new(2, 4),
        style: String::from("error"),
        severity: 4,
        message: String::from("bad"),
    };
    let layer = Change::Annotate {
        buffer,
        base: Version::new(6),
        layer: "check".into(),
        spans: vec![annotation],
    };
    propose(&mut world, tool, vec![layer]);
    world.run();
    world.peer(ui).node().select(view, Span::at(0)).unwrap();
    world.type_text(ui, view, "xx");
    world.run();
    let spans = |world: &World| -> Vec<Span> {
        let state = world.authority.node().state();
        let layers = state.buffer(buffer).unwrap().layers();
        layers
            .flat_map(|(_, _, layer)| layer.iter().map(|(at, _)| at))
            .collect()
    };
    assert_eq!(spans(&world), [Span::new(4, 6)]);
    world.peer(tool).say(ClientMessage::Detach);
    world.run();
    assert_eq!(spans(&world), []);
    world.peers.remove(&tool);
    world.check();
}

#[test]
fn what_a_command_told_the_user_stays_and_what_a_tool_told_goes_with_it() {
    let mut world = World::new();
    let notify = |text: &str| ClientMessage::MetaRequest {
        request: crate::ids::RequestId::new(1),
        op: MetaOp::Notify {
            notice: NoticeId::new(0),
            owner: SERVER,
            level: 1,
            text: text.into(),
        },
    };
    for name in ["apex notify", "tidy"] {
        let mut hello = ui_hello(
            SessionName::Label("main".into()),
            name.into(),
            Takeover::Watch,
        );
        hello.kind = AttachmentKind::Tool;
        let peer = world.join_as(hello);
        world.peer(peer).say(notify(name));
        world.run();
        world.peer(peer).say(ClientMessage::Detach);
        world.run();
        world.peers.remove(&peer);
    }
    let notices = world.authority.node().state().meta().notices.values();
    let texts: Vec<_> = notices.map(|notice| notice.text.clone()).collect();
    assert_eq!(texts, ["apex notify"]);
}

#[test]
fn every_buffer_that_conflicts_is_named_with_the_version_to_try_again_on() {
    let (mut world, ui, tool, buffer, view) = started();
    let (other, other_view) = world.open(ui, "/tmp/y");
    world.type_text(ui, other_view, "abcdef");
    let (third, _) = world.open(ui, "/tmp/z");
    for view in [view, other_view] {
        world.peer(ui).node().select(view, Span::new(2, 4)).unwrap();
        world.type_text(ui, view, "!");
    }
    world.run();
    let changes = |base| {
        vec![
            edit(buffer, base, (1, 2), "B"),
            edit(buffer, base, (1, 3), "BC"),
            edit(third, 0, (0, 0), "z"),
            edit(other, base, (1, 3), "BC"),
        ]
    };
    let id = propose(&mut world, tool, changes(6));
    let refusal = outcome(&mut world, tool, id).unwrap().unwrap_err();
    let Refusal::Several(all) = refusal else {
        panic!("{refusal:?}");
    };
    let named: Vec<_> = all
        .iter()
        .map(|refusal| match refusal {
            Refusal::Conflict {
                buffer, version, ..
            } => (*buffer, version.raw()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(named, [(buffer, 7), (other, 7)]);
    assert_eq!(world.text(third), "");
    let id = propose(&mut world, tool, changes(named[0].1));
    assert!(outcome(&mut world, tool, id).unwrap().is_ok());
    assert_eq!(world.text(other), "aBCef");
    world.check();
}

#[test]
fn what_was_appended_and_not_told_of_is_appended_once_over_a_takeover() {
    let (mut world, first, tool, _, _) = started();
    let append = |text: &str| Change::Append {
        name: "/tmp/+Errors".into(),
        text: text.into(),
    };
    let id = propose(&mut world, tool, vec![append("x\n")]);
    world.run();
    assert!(outcome(&mut world, tool, id).unwrap().is_ok());
    // The same words again, as after a lost answer, to another leader.
    let second = world.ui();
    assert!(!world.is_leading(first) && world.is_leading(second));
    let author = world.peer(tool).node().attachment();
    let proposal = crate::proposal::Proposal {
        author,
        id,
        atomicity: crate::proposal::Atomicity::All,
        changes: vec![append("x\n")],
    };
    world.peer(tool).say(ClientMessage::Propose(proposal));
    world.run();
    let errors = world.authority.node().state().buffer_named("/tmp/+Errors");
    assert_eq!(world.text(errors.unwrap()), "x\n");
    world.check();
}
