//! Proposals that each buffer's leader decides on for itself, over a UI and tools that lead.

use alloc::vec;

use super::*;
use crate::edit::Splice;
use crate::ids::Version;
use crate::limits::{GRACE_TOOL_MS, PROPOSAL_DECIDE_MS, PROPOSAL_WAIT_MS};
use crate::proposal::{Change, Outcome, Proposal, Refusal};
use crate::text::Span;

/// How long the tool of these tests may lead, in milliseconds.
const LEASE_MS: u64 = 100_000;

/// A UI that leads one text, a tool that leads another one, and a tool that proposes. Both texts
/// are "abc" at version 3.
struct Scene {
    world: World,
    ui: usize,
    tool: usize,
    author: usize,
    /// Led by the UI, with its view.
    ours: (BufferId, ViewId),
    /// Led by the tool.
    theirs: (BufferId, ViewId),
}

impl Scene {
    fn new() -> Self {
        let mut world = World::new();
        let ui = world.ui();
        let ours = world.open(ui, "/tmp/ours");
        let theirs = world.open(ui, "/tmp/theirs");
        for (_, view) in [ours, theirs] {
            world.type_text(ui, view, "abc");
        }
        world.run();
        let tool = world.join(AttachmentKind::Tool, Takeover::Watch);
        let me = world.peer(tool).node().attachment();
        let now = world.now;
        world.authority.allow_leases(now, me, Some(LEASE_MS));
        world.peer(tool).say(ClientMessage::LeaseRequest {
            shards: vec![Shard::Buffer(theirs.0)],
            steal: false,
        });
        world.run();
        let author = world.join(AttachmentKind::Tool, Takeover::Watch);
        let scene = Self {
            world,
            ui,
            tool,
            author,
            ours,
            theirs,
        };
        let log = scene.world.authority.node().log();
        assert!(log.is_held_by(Shard::Buffer(theirs.0), me));
        scene
    }

    /// Proposes for each buffer apart.
    fn propose(&mut self, changes: Vec<Change>) -> Proposal {
        let peer = self.world.peer(self.author);
        let (_, message) = peer.client.propose_each(changes).unwrap();
        let ClientMessage::Propose(proposal) = message.clone() else {
            panic!("{message:?}");
        };
        peer.say(message);
        self.world.run();
        proposal
    }

    fn propose_again(&mut self, proposal: &Proposal) {
        let message = ClientMessage::Propose(proposal.clone());
        self.world.peer(self.author).say(message);
        self.world.run();
    }

    /// Returns what the author heard of a proposal, once it heard something.
    fn heard(&self, proposal: &Proposal) -> Vec<Outcome> {
        let events = self.world.peers[&self.author].events.iter();
        events
            .filter_map(|event| match event {
                ClientEvent::Decided { id, outcome } if *id == proposal.id => Some(outcome.clone()),
                _ => None,
            })
            .collect()
    }

    fn texts(&self) -> [String; 2] {
        [self.ours.0, self.theirs.0].map(|id| self.world.text(id))
    }

    fn wake(&mut self, index: usize) {
        self.world.peer(index).is_asleep = false;
        self.world.run();
    }
}

fn insert(buffer: BufferId, text: &str) -> Change {
    let splices = vec![Splice::new(Span::at(0), text)];
    Change::Edit {
        buffer,
        base: Version::new(3),
        splices,
    }
}

fn refusals(outcome: &Outcome) -> Vec<Option<Refusal>> {
    let items = outcome.as_ref().unwrap();
    items.iter().map(|item| item.refusal.clone()).collect()
}

#[test]
fn each_leader_decides_on_its_part_and_the_author_hears_once_in_the_order_of_the_changes() {
    let mut scene = Scene::new();
    let (ours, theirs) = (scene.ours.0, scene.theirs.0);
    let board = Change::Board {
        name: "+Todo".into(),
        text: "one\n".into(),
        column: None,
    };
    let changes = vec![
        insert(theirs, "1"),
        insert(ours, "2"),
        board,
        insert(theirs, "3"),
    ];
    let proposal = scene.propose(changes);
    let heard = scene.heard(&proposal);
    assert_eq!(heard.len(), 1);
    assert_eq!(refusals(&heard[0]), vec![None; 4]);
    let items = heard[0].as_ref().unwrap();
    let about: Vec<_> = items.iter().map(|item| item.buffer).collect();
    let todo = scene.world.authority.node().state().buffer_named("+Todo");
    assert_eq!(about, [Some(theirs), Some(ours), todo, Some(theirs)]);
    assert_eq!(scene.texts(), ["2abc", "31abc"]);
    scene.world.check();
    // One step of undo in each, under one name.
    for (index, view) in [(scene.ui, scene.ours.1), (scene.tool, scene.theirs.1)] {
        scene.world.peer(index).node().undo(view).unwrap();
        scene.world.peer(index).flush();
        scene.world.run();
    }
    assert_eq!(scene.texts(), ["abc", "abc"]);
    scene.world.check();
}

#[test]
fn all_over_several_leaders_is_refused_and_changes_nothing() {
    let mut scene = Scene::new();
    let changes = vec![insert(scene.ours.0, "1"), insert(scene.theirs.0, "2")];
    let peer = scene.world.peer(scene.author);
    let (_, message) = peer.client.propose(changes).unwrap();
    let ClientMessage::Propose(proposal) = message.clone() else {
        panic!("{message:?}");
    };
    peer.say(message);
    scene.world.run();
    assert_eq!(scene.heard(&proposal), [Err(Refusal::SplitLeadership)]);
    assert_eq!(scene.texts(), ["abc", "abc"]);
}

#[test]
fn a_part_that_conflicts_leaves_the_others_and_none_left_is_a_refusal() {
    let mut scene = Scene::new();
    let (ours, theirs) = (scene.ours.0, scene.theirs.0);
    let cut = |buffer| Change::Edit {
        buffer,
        base: Version::new(3),
        splices: vec![Splice::new(Span::new(1, 3), "")],
    };
    let view = scene.theirs.1;
    let tool = scene.tool;
    scene
        .world
        .peer(tool)
        .node()
        .select(view, Span::at(2))
        .unwrap();
    scene.world.type_text(tool, view, "!");
    scene.world.run();
    let proposal = scene.propose(vec![cut(theirs), cut(ours)]);
    let heard = scene.heard(&proposal);
    let is_conflict = |refusal: &Option<Refusal>| match refusal {
        Some(Refusal::Conflict { buffer, .. }) => *buffer == theirs,
        _ => false,
    };
    let told = refusals(&heard[0]);
    assert!(is_conflict(&told[0]) && told[1].is_none(), "{told:?}");
    assert_eq!(scene.texts(), ["a", "ab!c"]);
    let missing = BufferId::new(99);
    let proposal = scene.propose(vec![cut(theirs), cut(ours), cut(missing)]);
    let Err(Refusal::Several(all)) = &scene.heard(&proposal)[0] else {
        panic!("{:?}", scene.heard(&proposal));
    };
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(scene.texts(), ["a", "ab!c"]);
    scene.world.check();
}

#[test]
fn one_leader_of_several_buffers_decides_on_each_too() {
    let mut scene = Scene::new();
    let ui = scene.ui;
    let (third, view) = scene.world.open(ui, "/tmp/third");
    scene.world.type_text(ui, view, "xyz");
    scene.world.run();
    let stale = Change::Edit {
        buffer: third,
        base: Version::new(77),
        splices: vec![Splice::new(Span::at(0), "no")],
    };
    let proposal = scene.propose(vec![stale, insert(scene.ours.0, "1")]);
    let told = refusals(&scene.heard(&proposal)[0]);
    assert!(matches!(told[0], Some(Refusal::Stale { .. })), "{told:?}");
    assert_eq!(told[1], None);
    assert_eq!(scene.texts()[0], "1abc");
    assert_eq!(scene.world.text(third), "xyz");
    scene.world.check();
}

#[test]
fn a_part_whose_leader_stays_away_is_told_to_retry_and_what_landed_is_not_applied_again() {
    let mut scene = Scene::new();
    let tool = scene.tool;
    scene.world.disconnect(tool);
    let proposal = scene.propose(vec![insert(scene.theirs.0, "1"), insert(scene.ours.0, "2")]);
    assert_eq!(scene.heard(&proposal), []);
    assert_eq!(scene.texts(), ["2abc", "abc"]);
    // Sent again before it was answered.
    let other = scene.propose(vec![insert(scene.theirs.0, "3")]);
    scene.propose_again(&proposal);
    scene.propose_again(&other);
    scene.world.pass(PROPOSAL_WAIT_MS);
    assert_eq!(scene.heard(&other).len(), 1);
    let heard = scene.heard(&proposal);
    assert_eq!(heard.len(), 1);
    let told = refusals(&heard[0]);
    assert!(matches!(told[0], Some(Refusal::Retry(_))), "{told:?}");
    assert_eq!(told[1], None);
    // The tool is gone for good, and the UI leads both.
    scene.world.pass(GRACE_TOOL_MS);
    scene.propose_again(&proposal);
    let heard = scene.heard(&proposal);
    assert_eq!(heard.len(), 2);
    assert_eq!(refusals(&heard[1]), vec![None; 2]);
    assert_eq!(scene.texts(), ["2abc", "1abc"]);
    scene.world.check();
}

#[test]
fn a_part_that_waits_lands_when_its_lease_goes_to_somebody_who_is_there() {
    let mut scene = Scene::new();
    let (ui, tool) = (scene.ui, scene.tool);
    scene.world.disconnect(tool);
    let proposal = scene.propose(vec![insert(scene.theirs.0, "1"), insert(scene.ours.0, "2")]);
    scene.world.peer(ui).say(ClientMessage::LeaseRequest {
        shards: vec![Shard::Buffer(scene.theirs.0)],
        steal: false,
    });
    scene.world.run();
    let heard = scene.heard(&proposal);
    assert_eq!(heard.len(), 1);
    assert_eq!(refusals(&heard[0]), vec![None; 2]);
    assert_eq!(scene.texts(), ["2abc", "1abc"]);
    scene.world.check();
}

#[test]
fn parts_that_come_to_one_leader_one_by_one_are_told_apart() {
    let mut scene = Scene::new();
    let (ui, tool) = (scene.ui, scene.tool);
    scene.world.peer(ui).is_asleep = true;
    scene.world.peer(tool).is_asleep = true;
    let proposal = scene.propose(vec![insert(scene.theirs.0, "1"), insert(scene.ours.0, "2")]);
    // The tool loses its right to lead; its part comes to the UI, which has not decided yet.
    let now = scene.world.now;
    let me = scene.world.peer(tool).node().attachment();
    scene.world.authority.allow_leases(now, me, None);
    scene.world.pass(1);
    // What is proposed next does not get there before it.
    let next = scene.propose(vec![insert(scene.theirs.0, "3")]);
    scene.wake(ui);
    for (proposal, count) in [(proposal, 2), (next, 1)] {
        let heard = scene.heard(&proposal);
        assert_eq!(heard.len(), 1);
        assert_eq!(refusals(&heard[0]), vec![None; count]);
    }
    assert_eq!(scene.texts(), ["2abc", "13abc"]);
    scene.wake(tool);
    assert_eq!(scene.texts(), ["2abc", "13abc"]);
    scene.world.check();
}

#[test]
fn a_takeover_between_the_parts_brings_them_to_the_new_leader_once() {
    let mut scene = Scene::new();
    let ui = scene.ui;
    scene.world.peer(ui).is_asleep = true;
    let proposal = scene.propose(vec![insert(scene.theirs.0, "1"), insert(scene.ours.0, "2")]);
    assert_eq!(scene.texts(), ["abc", "1abc"]);
    let second = scene.world.ui();
    let time = scene.world.transfer_time();
    scene.world.pass(time);
    assert!(scene.world.is_leading(second));
    let heard = scene.heard(&proposal);
    assert_eq!(refusals(&heard[0]), vec![None; 2]);
    assert_eq!(scene.texts(), ["2abc", "1abc"]);
    scene.wake(ui);
    assert_eq!(scene.heard(&proposal).len(), 1);
    assert_eq!(scene.texts(), ["2abc", "1abc"]);
    scene.world.check();
}

#[test]
fn what_waits_is_not_overtaken_by_what_the_same_author_proposes_later() {
    let mut scene = Scene::new();
    let (ours, theirs) = (scene.ours.0, scene.theirs.0);
    let ui = scene.ui;
    scene.world.peer(ui).is_asleep = true;
    let first = scene.propose(vec![insert(ours, "1")]);
    // While the session moves, the second waits and the first is with a leader that sleeps.
    let second_ui = scene.world.ui();
    let second = scene.propose(vec![insert(ours, "2"), insert(theirs, "x")]);
    let third = scene.propose(vec![insert(theirs, "y")]);
    assert_eq!(scene.texts()[1], "xyabc", "another text waits for nobody");
    let time = scene.world.transfer_time();
    scene.world.pass(time);
    assert!(scene.world.is_leading(second_ui));
    assert_eq!(scene.texts(), ["12abc", "xyabc"]);
    for proposal in [first, second, third] {
        let heard = scene.heard(&proposal);
        assert!(refusals(&heard[0]).iter().all(Option::is_none));
    }
    scene.wake(ui);
    assert_eq!(scene.texts(), ["12abc", "xyabc"]);
    scene.world.check();
}

#[test]
fn later_proposals_wait_behind_the_part_that_waits() {
    let mut scene = Scene::new();
    let (ours, theirs) = (scene.ours.0, scene.theirs.0);
    let tool = scene.tool;
    scene.world.disconnect(tool);
    let first = scene.propose(vec![insert(theirs, "1"), insert(ours, "x")]);
    let second = scene.propose(vec![insert(theirs, "2")]);
    let third = scene.propose(vec![insert(ours, "y"), insert(theirs, "3")]);
    assert_eq!(scene.texts(), ["xyabc", "abc"]);
    let ui = scene.ui;
    scene.world.peer(ui).say(ClientMessage::LeaseRequest {
        shards: vec![Shard::Buffer(theirs)],
        steal: false,
    });
    scene.world.run();
    assert_eq!(scene.texts(), ["xyabc", "123abc"]);
    for proposal in [first, second, third] {
        let heard = scene.heard(&proposal);
        assert!(refusals(&heard[0]).iter().all(Option::is_none));
    }
    scene.world.check();
}

#[test]
fn an_author_that_leaves_between_the_parts_leaves_nothing_that_waits() {
    let mut scene = Scene::new();
    let (tool, author) = (scene.tool, scene.author);
    scene.world.disconnect(tool);
    scene.propose(vec![insert(scene.theirs.0, "1"), insert(scene.ours.0, "2")]);
    scene.world.peer(author).say(ClientMessage::Detach);
    scene.world.run();
    scene.world.peers.remove(&author);
    scene.world.pass(PROPOSAL_WAIT_MS + GRACE_TOOL_MS);
    assert_eq!(scene.texts(), ["2abc", "abc"]);
    scene.world.check();
}

#[test]
fn the_last_answer_of_a_leader_that_was_asked_twice_counts() {
    let mut scene = Scene::new();
    let (ui, author) = (scene.ui, scene.author);
    let ViewId::Body(window) = scene.ours.1 else {
        panic!("a body");
    };
    scene.world.peer(ui).is_asleep = true;
    let proposal = scene.propose(vec![Change::Close(window)]);
    scene.world.pass(PROPOSAL_DECIDE_MS);
    let heard = scene.heard(&proposal);
    assert!(matches!(heard[..], [Err(Refusal::Retry(_))]), "{heard:?}");
    scene.propose_again(&proposal);
    // The text is modified when the UI decides for the first time, and not when it does again.
    let is_asked = |message: &ServerMessage| matches!(message, ServerMessage::Propose(_));
    while scene
        .world
        .peer(ui)
        .to_client
        .iter()
        .filter(|m| is_asked(m))
        .count()
        > 1
    {
        scene.world.peer(ui).is_asleep = false;
        scene.world.step_client(ui);
        scene.world.peer(ui).is_asleep = true;
    }
    scene.world.peer(ui).node().undo(scene.ours.1).unwrap();
    scene.world.peer(ui).flush();
    scene.wake(ui);
    scene.world.peer(author).flush();
    let heard = scene.heard(&proposal);
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[1].is_ok(), "{heard:?}");
    let state = scene.world.authority.node().state();
    assert!(state.window(window).is_none());
    scene.world.check();
}

#[test]
fn a_part_in_the_log_is_told_as_done_whatever_its_leader_says_of_it_when_asked_again() {
    let mut scene = Scene::new();
    let (ours, theirs) = (scene.ours.0, scene.theirs.0);
    let ui = scene.ui;
    scene.world.peer(ui).is_asleep = true;
    let first = scene.propose(vec![insert(ours, "1"), insert(theirs, "1")]);
    scene.world.pass(PROPOSAL_DECIDE_MS);
    // The leader is asked about the first, about a later one, and about the first again.
    let later = scene.propose(vec![insert(ours, "2")]);
    scene.propose_again(&first);
    scene.world.peer(ui).is_asleep = false;
    scene.world.run();
    let told = scene.heard(&first);
    let all_done = |outcome: &Outcome| {
        outcome
            .as_ref()
            .is_ok_and(|landed| landed.iter().all(|item| item.refusal.is_none()))
    };
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(!all_done(&told[0]) && all_done(&told[1]), "{told:?}");
    assert!(scene.heard(&later).iter().all(all_done));
    let texts = (scene.world.text(ours), scene.world.text(theirs));
    assert_eq!(texts, ("12abc".into(), "1abc".into()));
    scene.world.check();
}
