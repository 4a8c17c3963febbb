//! Proposals and leaders that are overtaken: each is applied once at most, and nothing is lost.

use alloc::vec;

use super::asked::{edit, outcomes, started, wake};
use super::*;
use crate::ids::Version;
use crate::proposal::{Atomicity, Change, Outcome, Proposal, Refusal};
use crate::text::Span;

fn propose(world: &mut World, index: usize, changes: Vec<Change>) -> ProposalId {
    let peer = world.peer(index);
    let (id, message) = peer.client.propose(changes).unwrap();
    peer.say(message);
    world.run();
    id
}

fn outcome(world: &mut World, index: usize, id: ProposalId) -> Option<Outcome> {
    outcomes(world, index, id).into_iter().next()
}

/// Another UI comes in place of one that does not answer.
fn takeover(world: &mut World, is_steal: bool) -> usize {
    world.peers.values_mut().for_each(|peer| {
        peer.is_asleep |= peer.is_held;
    });
    if is_steal {
        return world.join(AttachmentKind::Ui, Takeover::Steal);
    }
    let second = world.ui();
    let time = world.transfer_time();
    world.pass(time);
    second
}

#[test]
fn a_proposal_in_the_tail_of_a_displaced_leader_lands_once_with_what_was_typed_over_it() {
    for is_steal in [false, true] {
        let (mut world, first, tool, buffer, view) = started();
        world.peer(first).is_held = true;
        world.type_text(first, view, "1");
        let id = propose(&mut world, tool, vec![edit(buffer, 6, (0, 0), "#")]);
        let node = world.peer(first).node();
        assert!(
            node.state().buffer(buffer).unwrap().text().len() == 8,
            "decided"
        );
        world.type_text(first, view, "2");
        let second = takeover(&mut world, is_steal);
        assert!(world.is_leading(second));
        assert!(outcome(&mut world, tool, id).unwrap().is_ok());
        assert_eq!(world.text(buffer), "#abcdef");
        wake(&mut world, first);
        assert_eq!(world.text(buffer), "#abcdef12", "{is_steal}");
        assert!(!world.peer(first).client.is_recovering());
        world.check();
    }
}

#[test]
fn what_was_typed_and_undone_leaves_the_text_of_those_who_took_over_alone() {
    let (mut world, first, _, buffer, view) = started();
    world.peer(first).is_held = true;
    world.type_text(first, view, "1");
    world.peer(first).node().undo(view).unwrap();
    world.peer(first).flush();
    let second = takeover(&mut world, true);
    assert_eq!(
        world.peer(second).node().view(view).unwrap().dot,
        Span::at(6)
    );
    world.type_text(second, view, "#");
    world.run();
    takeover(&mut world, true);
    wake(&mut world, first);
    assert_eq!(world.text(buffer), "abcdef#");
    world.check();
}

#[test]
fn what_is_typed_before_the_snapshot_that_follows_a_reclaim_is_kept_too() {
    let (mut world, first, _, buffer, view) = started();
    world.peer(first).is_held = true;
    world.type_text(first, view, "1");
    let second = takeover(&mut world, true);
    world.receive(first, Client::take_over(true));
    let shard = Shard::Buffer(buffer);
    world.peer(first).is_asleep = false;
    while world.step_client(first) {}
    assert!(world.peer(first).node().leads(shard), "again, over a fork");
    world.receive(second, Client::take_over(true));
    world.type_text(first, view, "2");
    wake(&mut world, first);
    assert_eq!(world.text(buffer), "abcdef12");
    world.check();
}

#[test]
fn what_was_typed_into_a_proposal_that_did_not_land_is_in_recovered() {
    let (mut world, first, tool, buffer, view) = started();
    world.peer(first).is_held = true;
    world.peer(first).node().select(view, Span::at(0)).unwrap();
    world.type_text(first, view, "1");
    propose(&mut world, tool, vec![edit(buffer, 6, (3, 3), "##")]);
    world.peer(first).node().select(view, Span::at(5)).unwrap();
    world.type_text(first, view, "2");
    takeover(&mut world, true);
    wake(&mut world, first);
    assert_eq!(world.text(buffer), "abc##def");
    let state = world.authority.node().state();
    let recovered = state.buffer_named("/tmp/+Recovered").unwrap();
    let want = "typed in /tmp/x and overtaken:\n12\n";
    assert_eq!(world.text(recovered), want, "and nothing of the proposal");
    assert!(!world.peer(first).client.is_recovering());
    world.check();
}

#[test]
fn a_window_that_a_displaced_leader_made_for_a_proposal_is_made_once() {
    let (mut world, first, tool, _, _) = started();
    world.peer(first).is_held = true;
    let changes = vec![Change::Append {
        name: "/tmp/+Errors".into(),
        text: "oops\n".into(),
    }];
    let id = propose(&mut world, tool, changes);
    takeover(&mut world, true);
    wake(&mut world, first);
    assert!(outcome(&mut world, tool, id).unwrap().is_ok());
    let state = world.authority.node().state();
    let named = |name: &str| state.buffers().filter(|(_, b)| b.name() == name).count();
    assert_eq!(named("/tmp/+Errors"), 1);
    assert_eq!(named("/tmp/+Recovered"), 0);
    let errors = state.buffer_named("/tmp/+Errors").unwrap();
    assert_eq!(world.text(errors), "oops\n");
    assert!(
        state.marks().all(|(_, seq)| seq > Seq::default()),
        "no empty shard"
    );
    world.check();
}

#[test]
fn a_shard_whose_first_entries_did_not_arrive_ends_with_its_leader() {
    let mut world = World::new();
    let first = world.ui();
    world.peer(first).is_held = true;
    let (_, view) = world.open(first, "/tmp/new");
    world.type_text(first, view, "fresh");
    let is_made = |message: &ClientMessage| matches!(message, ClientMessage::CreateShard(_));
    let peer = world.peer(first);
    let made: Vec<_> = peer
        .to_daemon
        .iter()
        .filter(|m| is_made(m))
        .cloned()
        .collect();
    assert_eq!(made.len(), 3, "a text, a tag and a window");
    peer.to_daemon.retain(|message| !is_made(message));
    for message in made {
        world.receive(first, message);
    }
    takeover(&mut world, true);
    let state = world.authority.node().state();
    assert!(state.marks().all(|(_, seq)| seq > Seq::default()));
    wake(&mut world, first);
    let state = world.authority.node().state();
    let recovered = state.buffer_named("/tmp/+Recovered").unwrap();
    assert!(world.text(recovered).contains("fresh"));
    world.check();
}

#[test]
fn a_window_whose_place_did_not_land_is_placed_by_whoever_leads_the_layout() {
    let mut world = World::new();
    let first = world.ui();
    let second = world.join(AttachmentKind::Ui, Takeover::Watch);
    world.peer(first).is_asleep = true;
    // The layout alone is taken while the first UI opens a text.
    world.peer(second).say(ClientMessage::LeaseRequest {
        shards: vec![Shard::Layout],
        steal: true,
    });
    world.run();
    let (buffer, view) = world.open(first, "/tmp/x");
    world.type_text(first, view, "abc");
    wake(&mut world, first);
    let state = world.authority.node().state();
    assert_eq!(world.text(buffer), "abc");
    let window = view.window().unwrap();
    assert!(state.layout().unwrap().place(window).is_some());
    assert!(
        state
            .windows()
            .all(|(id, _)| state.layout().unwrap().place(id).is_some())
    );
    world.check();
}

/// A layer of annotations on "abcdef".
fn layer(buffer: BufferId) -> Change {
    Change::Annotate {
        buffer,
        base: Version::new(6),
        layer: "check".into(),
        spans: vec![crate::entry::Annotation {
            at: Span::new(2, 4),
            style: String::new(),
            severity: 1,
            message: String::from("old"),
        }],
    }
}

#[test]
fn what_a_party_owned_goes_with_it_whenever_its_proposal_is_decided_on() {
    // The leader decides before it hears that the tool has left, after it, or never hears.
    for case in 0..3 {
        let (mut world, first, tool, buffer, _) = started();
        world.peer(first).is_asleep = case == 1;
        world.peer(first).is_held = case == 2;
        propose(&mut world, tool, vec![layer(buffer)]);
        world.peer(first).is_asleep = true;
        world.peer(tool).say(ClientMessage::Detach);
        world.run();
        world.peers.remove(&tool);
        if case == 2 {
            world.peer(first).is_held = false;
            world.run();
            takeover(&mut world, true);
        }
        wake(&mut world, first);
        let state = world.authority.node().state();
        let owners: Vec<_> = state.buffer(buffer).unwrap().owners().collect();
        assert_eq!(owners, [], "{case}");
        world.check();
    }
}

#[test]
fn a_proposal_is_one_append_and_too_large_a_one_is_refused() {
    let (mut world, first, tool, buffer, view) = started();
    let views: Vec<_> = (0..4)
        .map(|i| world.open(first, &alloc::format!("/tmp/{i}")))
        .collect();
    let text = "x".repeat(900 << 10);
    let changes = |count: usize| -> Vec<Change> {
        let some = views.iter().take(count);
        some.map(|(buffer, _)| edit(*buffer, 0, (0, 0), &text))
            .collect()
    };
    let before = world.authority.node().state().hash();
    let id = propose(&mut world, tool, changes(4));
    let refusal = outcome(&mut world, tool, id).unwrap().unwrap_err();
    assert!(refusal.to_string().contains("3 MiB"), "{refusal}");
    assert_eq!(world.authority.node().state().hash(), before);
    world.check();
    // What the user typed and was not shipped is in an append of its own.
    world.peer(first).is_held = true;
    let node = world.peer(first).node();
    let group = node.new_group();
    node.type_text(view, &text, group).unwrap();
    node.type_text(view, &text, group).unwrap();
    let id = propose(&mut world, tool, changes(3));
    let of_it = |message: &&ClientMessage| match message {
        ClientMessage::Append(appends) => appends
            .iter()
            .any(|(shard, _)| *shard == Shard::Buffer(views[0].0)),
        _ => false,
    };
    let peer = world.peer(first);
    let appends: Vec<_> = peer.to_daemon.iter().filter(of_it).collect();
    let [ClientMessage::Append(append)] = appends.as_slice() else {
        panic!("{} appends", appends.len());
    };
    for (shard, _) in &views[..3] {
        assert!(append.iter().any(|(of, _)| of == &Shard::Buffer(*shard)));
    }
    assert!(
        append
            .iter()
            .all(|(shard, _)| *shard != Shard::Buffer(buffer))
    );
    wake(&mut world, first);
    assert!(outcome(&mut world, tool, id).unwrap().is_ok());
    world.check();
}

/// Says a proposal again, with the same id.
fn propose_again(world: &mut World, index: usize, id: ProposalId, changes: Vec<Change>) {
    let author = world.peer(index).node().attachment();
    let proposal = Proposal {
        author,
        id,
        atomicity: Atomicity::All,
        changes,
    };
    world.peer(index).events.clear();
    world.peer(index).say(ClientMessage::Propose(proposal));
    world.run();
}

#[test]
fn who_was_told_to_try_again_does_not_find_it_done_and_may_try_again() {
    for is_decided in [false, true] {
        let (mut world, first, tool, buffer, view) = started();
        world.peer(first).is_held = true;
        world.peer(first).is_asleep = !is_decided;
        let id = propose(&mut world, tool, vec![edit(buffer, 6, (0, 0), "#")]);
        world.peer(first).is_asleep = true;
        world.type_text(first, view, "1");
        world.pass(limits::PROPOSAL_DECIDE_MS);
        let told = outcome(&mut world, tool, id).unwrap().unwrap_err();
        assert!(matches!(told, Refusal::Retry(_)), "{told:?}");
        wake(&mut world, first);
        assert_eq!(world.text(buffer), "abcdef1", "as it was told");
        assert!(world.is_leading(first));
        world.check();
        // The leader began anew, and knows no older version.
        let changes = vec![edit(buffer, 7, (0, 0), "#")];
        propose_again(&mut world, tool, id, changes.clone());
        assert!(outcome(&mut world, tool, id).unwrap().is_ok());
        assert_eq!(world.text(buffer), "#abcdef1");
        // Once more, as after a lost answer: it is not applied again, and told the same.
        propose_again(&mut world, tool, id, changes);
        assert!(outcome(&mut world, tool, id).unwrap().is_ok());
        assert_eq!(world.text(buffer), "#abcdef1");
        world.check();
    }
}

#[test]
fn what_was_put_off_is_not_said_to_be_done_because_a_later_one_was() {
    let (mut world, first, tool, buffer, _) = started();
    world.peer(first).is_asleep = true;
    let id = propose(&mut world, tool, vec![edit(buffer, 6, (0, 0), "1")]);
    world.pass(limits::PROPOSAL_DECIDE_MS);
    wake(&mut world, first);
    let later = propose(&mut world, tool, vec![edit(buffer, 6, (0, 0), "2")]);
    assert!(outcome(&mut world, tool, later).unwrap().is_ok());
    propose_again(&mut world, tool, id, vec![edit(buffer, 6, (0, 0), "1")]);
    assert!(outcome(&mut world, tool, id).unwrap().is_err());
    assert_eq!(world.text(buffer), "2abcdef");
    world.check();
}

#[test]
fn what_is_in_the_log_is_told_as_done_though_its_leader_left_before_it_said_so() {
    let (mut world, first, tool, _, _) = started();
    let (_, view) = world.open(first, "/tmp/y");
    let window = view.window().unwrap();
    world.peer(first).is_held = true;
    let id = propose(&mut world, tool, vec![Change::Close(window)]);
    let is_append = |message: &ClientMessage| matches!(message, ClientMessage::Append(_));
    let messages: Vec<_> = world.peer(first).to_daemon.iter().cloned().collect();
    messages
        .into_iter()
        .filter(is_append)
        .for_each(|message| world.receive(first, message));
    takeover(&mut world, true);
    assert!(outcome(&mut world, tool, id).unwrap().is_ok());
    world.check();
}

#[test]
fn what_was_refused_to_its_author_is_not_in_the_log() {
    let (mut world, first, tool, buffer, _) = started();
    let (other, _) = world.open(first, "/tmp/y");
    let second = world.join(AttachmentKind::Ui, Takeover::Watch);
    world.peer(first).is_held = true;
    let changes = vec![edit(buffer, 6, (0, 0), "#"), edit(other, 0, (0, 0), "#")];
    let id = propose(&mut world, tool, changes);
    world.peer(first).is_asleep = true;
    world.peer(second).say(ClientMessage::LeaseRequest {
        shards: vec![Shard::Buffer(other)],
        steal: true,
    });
    world.run();
    wake(&mut world, first);
    let told = outcome(&mut world, tool, id).unwrap();
    assert_eq!(told, Err(Refusal::SplitLeadership));
    assert_eq!(
        (world.text(buffer), world.text(other)),
        ("abcdef".into(), String::new())
    );
    assert!(!world.peer(first).client.is_recovering());
    world.check();
}

#[test]
fn the_daemon_waits_with_what_a_leader_cannot_decide_now() {
    let (mut world, first, _, buffer, _) = started();
    world.peer(first).is_asleep = true;
    let mut out = Vec::new();
    let changes = vec![edit(buffer, 6, (6, 6), "!")];
    let id = world
        .authority
        .propose_as_server(world.now, changes, &mut out);
    world.deliver(out);
    let asked = |world: &mut World| {
        let messages = world.peer(first).to_client.iter();
        messages
            .filter(|m| matches!(m, ServerMessage::Propose(_)))
            .count()
    };
    let author = crate::ids::SERVER;
    for count in 1..4 {
        assert_eq!(asked(&mut world), count);
        let outcome = Err(Refusal::Retry("not now".into()));
        world.receive(
            first,
            ClientMessage::Decided {
                author,
                id,
                outcome,
            },
        );
        assert_eq!(asked(&mut world), count, "it is not asked at once");
        let next = world.authority.next_deadline().unwrap();
        assert!(next <= world.now.after(limits::PROPOSAL_AGAIN_MS));
        world.pass(limits::PROPOSAL_AGAIN_MS);
    }
    wake(&mut world, first);
    assert_eq!(world.text(buffer), "abcdef!");
    world.check();
}

#[test]
fn a_selection_is_decided_on_by_whoever_leads_the_text() {
    let (mut world, ui, tool, buffer, view) = started();
    let leader = world.join(AttachmentKind::Tool, Takeover::Watch);
    let id = world.peer(leader).node().attachment();
    let now = world.now;
    world.authority.allow_leases(now, id, Some(60_000));
    world.peer(leader).say(ClientMessage::LeaseRequest {
        shards: vec![Shard::Buffer(buffer)],
        steal: false,
    });
    world.run();
    assert!(world.peer(leader).node().leads(Shard::Buffer(buffer)) && world.is_leading(ui));
    let select = Change::Select {
        view,
        at: Span::new(1, 3),
    };
    let both = vec![select.clone(), edit(buffer, 6, (6, 6), "!")];
    for changes in [vec![select], both] {
        let id = propose(&mut world, tool, changes);
        let told = outcome(&mut world, tool, id).unwrap();
        assert!(told.is_ok(), "{told:?}");
    }
    assert_eq!(
        world.peer(ui).node().view(view).unwrap().dot,
        Span::new(1, 3)
    );
    assert_eq!(world.text(buffer), "abcdef!");
    world.check();
}

#[test]
fn a_watcher_may_show_what_was_overtaken_and_nothing_else() {
    let (mut world, _, _, _, _) = started();
    let watcher = world.join(AttachmentKind::Ui, Takeover::Watch);
    for (name, may) in [("/tmp/+Recovered", true), ("/tmp/+Errors", false)] {
        let append = Change::Append {
            name: name.into(),
            text: "typed".into(),
        };
        let id = propose(&mut world, watcher, vec![append]);
        let told = outcome(&mut world, watcher, id).unwrap();
        assert_eq!(told.is_ok(), may, "{told:?}");
    }
    world.check();
}

#[test]
fn a_close_that_lands_half_is_mended_by_whoever_leads_the_layout() {
    // What arrives: the end of the text, the ends of text and window, or those without the layout.
    for (is_layout, ends) in [(true, 1), (true, 2), (false, 1), (false, 2), (false, 3)] {
        let (mut world, first, _, buffer, view) = started();
        world.peer(first).is_held = true;
        let node = world.peer(first).node();
        node.close_window(view.window().unwrap()).unwrap();
        world.peer(first).flush();
        let messages: Vec<_> = world.peer(first).to_daemon.iter().cloned().collect();
        let is_end = |message: &&ClientMessage| matches!(message, ClientMessage::DeleteShard(_));
        let some = messages.iter().filter(is_end).take(ends).cloned();
        let layout = messages
            .iter()
            .filter(|message| !is_end(message) && is_layout)
            .cloned();
        let arriving: Vec<_> = layout.chain(some).collect();
        for message in arriving {
            world.receive(first, message);
        }
        takeover(&mut world, true);
        wake(&mut world, first);
        let state = world.authority.node().state();
        let layout = state.layout().unwrap();
        assert!(state.buffer(buffer).is_none());
        assert_eq!(state.windows().count(), 1, "{is_layout} {ends}");
        assert!(layout.windows().all(|id| state.window(id).is_some()));
        let tags = state
            .buffers()
            .filter(|(_, b)| b.kind() == BufferKind::Tag)
            .count();
        assert_eq!(tags, 3, "of the top row, a column and a window");
        world.check();
    }
}

#[test]
fn a_window_that_lost_its_tag_is_made_anew_when_its_text_is_there() {
    for has_text in [false, true] {
        let (mut world, first, _, buffer, view) = started();
        let tag = world
            .peer(first)
            .node()
            .buffer_of(ViewId::Tag(view.window().unwrap()))
            .unwrap();
        world.peer(first).is_held = true;
        world.receive(first, ClientMessage::DeleteShard(Shard::Buffer(tag)));
        if !has_text {
            world.receive(first, ClientMessage::DeleteShard(Shard::Buffer(buffer)));
        }
        takeover(&mut world, true);
        wake(&mut world, first);
        let state = world.authority.node().state();
        assert_eq!(state.windows().count(), 1 + usize::from(has_text));
        assert!(
            state
                .windows()
                .all(|(_, window)| state.buffer(window.tag).is_some())
        );
        assert_eq!(state.windows_of(buffer).count(), usize::from(has_text));
        world.check();
    }
}
