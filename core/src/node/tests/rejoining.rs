//! Connections that end, and clients that come back: nothing is lost, nothing is done twice.

use alloc::vec;

use super::asked::outcomes;
use super::*;
use crate::edit::Splice;
use crate::ids::Version;
use crate::limits::GRACE_UI_MS;
use crate::proposal::Change;
use crate::text::Span;

/// A UI that leads "abc".
fn started() -> (World, usize, BufferId, ViewId) {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, view) = world.open(ui, "/tmp/x");
    world.type_text(ui, view, "abc");
    world.run();
    (world, ui, buffer, view)
}

fn welcomes(world: &mut World, index: usize) -> usize {
    let events = world.peer(index).events.iter();
    events.filter(|e| matches!(e, ClientEvent::Welcome)).count()
}

fn edit(buffer: BufferId, base: u64, at: u64, text: &str) -> Change {
    Change::Edit {
        buffer,
        base: Version::new(base),
        splices: vec![Splice::new(Span::at(at), text)],
    }
}

#[test]
fn what_was_typed_before_and_while_away_lands_once_without_a_snapshot() {
    // The append was lost, or it came and its answer was lost; the daemon knows of the end of the
    // old connection, or not yet.
    for (is_heard, is_known) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut world, ui, buffer, view) = started();
        let tool = world.join(AttachmentKind::Tool, Takeover::Watch);
        world.peer(ui).is_asleep = true;
        world.peer(ui).is_held = !is_heard;
        world.type_text(ui, view, "12");
        world.run();
        world.cut(ui, is_known);
        world.type_text(ui, view, "34");
        world.peer(ui).is_asleep = false;
        world.peer(ui).is_held = false;
        world.rejoin(ui);
        assert_eq!(world.text(buffer), "abc1234");
        assert_eq!(welcomes(&mut world, ui), 1, "it goes on with its replica");
        assert_eq!(world.peer(ui).client.unacked_count(), 0);
        assert!(world.is_leading(ui) && world.peers.contains_key(&tool));
        world.check();
        world.type_text(ui, view, "5");
        world.run();
        world.check();
        world.pass(GRACE_UI_MS);
        assert!(world.is_leading(ui));
    }
}

#[test]
fn what_others_did_meanwhile_comes_with_the_answer() {
    let (mut world, ui, buffer, view) = started();
    let watcher = world.join(AttachmentKind::Ui, Takeover::Watch);
    world.cut(watcher, true);
    world.type_text(ui, view, "def");
    let (other, _) = world.open(ui, "/tmp/y");
    world.run();
    world.rejoin(watcher);
    assert_eq!(welcomes(&mut world, watcher), 1);
    let state = world.peer(watcher).node().state().clone();
    assert_eq!(state.buffer(buffer).unwrap().text().len(), 6);
    assert!(state.buffer(other).is_some());
    world.check();
}

#[test]
fn windows_that_were_made_and_closed_are_so_when_the_client_is_back() {
    for is_sent in [false, true] {
        let (mut world, ui, buffer, view) = started();
        if is_sent {
            world.peer(ui).is_held = true;
        } else {
            world.cut(ui, true);
        }
        let (fresh, fresh_view) = world.open(ui, "/tmp/new");
        world.type_text(ui, fresh_view, "new");
        let node = world.peer(ui).node();
        node.close_window(view.window().unwrap()).unwrap();
        world.peer(ui).flush();
        if is_sent {
            world.cut(ui, true);
            world.peer(ui).is_held = false;
        }
        world.rejoin(ui);
        let state = world.authority.node().state();
        assert!(state.buffer(buffer).is_none());
        assert_eq!(world.text(fresh), "new");
        assert_eq!(welcomes(&mut world, ui), 1);
        world.check();
    }
}

#[test]
fn what_another_ui_took_over_meanwhile_stays_with_it_and_the_tail_lands() {
    let (mut world, ui, buffer, view) = started();
    world.cut(ui, true);
    world.type_text(ui, view, "12");
    let second = world.ui();
    world.peer(second).node().select(view, Span::at(0)).unwrap();
    world.type_text(second, view, "X");
    world.run();
    world.rejoin(ui);
    assert!(world.is_leading(second) && !world.is_leading(ui));
    assert_eq!(world.text(buffer), "Xabc12");
    assert!(!world.peer(ui).client.is_recovering());
    world.check();
}

#[test]
fn a_proposal_is_answered_once_over_a_new_connection_of_its_author() {
    // The proposal was lost, or its outcome was.
    for is_heard in [false, true] {
        let (mut world, _, buffer, _) = started();
        let tool = world.join(AttachmentKind::Tool, Takeover::Watch);
        let peer = world.peer(tool);
        let (id, message) = peer.client.propose(vec![edit(buffer, 3, 0, "#")]).unwrap();
        peer.say(message);
        peer.is_asleep = true;
        peer.is_held = !is_heard;
        world.run();
        world.cut(tool, true);
        world.peer(tool).is_asleep = false;
        world.peer(tool).is_held = false;
        world.rejoin(tool);
        let told = outcomes(&mut world, tool, id);
        assert!(matches!(told.as_slice(), [Ok(_)]), "{told:?}");
        assert_eq!(world.text(buffer), "#abc");
        world.check();
    }
}

#[test]
fn a_leader_that_comes_back_decides_once_on_what_it_was_asked() {
    // The question was lost, or the answer with its entries.
    for is_heard in [false, true] {
        let (mut world, ui, buffer, _) = started();
        let tool = world.join(AttachmentKind::Tool, Takeover::Watch);
        world.peer(ui).is_asleep = !is_heard;
        world.peer(ui).is_held = true;
        let peer = world.peer(tool);
        let (id, message) = peer.client.propose(vec![edit(buffer, 3, 0, "#")]).unwrap();
        peer.say(message);
        world.run();
        world.cut(ui, true);
        world.peer(ui).is_asleep = false;
        world.peer(ui).is_held = false;
        world.rejoin(ui);
        let told = outcomes(&mut world, tool, id);
        assert!(matches!(told.as_slice(), [Ok(_)]), "{told:?}");
        assert_eq!(world.text(buffer), "#abc");
        assert_eq!(welcomes(&mut world, ui), 1);
        world.check();
    }
}

#[test]
fn who_comes_back_after_its_grace_joins_anew_and_its_tail_lands() {
    let (mut world, ui, buffer, view) = started();
    let old = world.peer(ui).node().attachment();
    world.cut(ui, true);
    world.type_text(ui, view, "12");
    let (_, lost) = world.open(ui, "/tmp/new");
    world.type_text(ui, lost, "new text");
    world.pass(GRACE_UI_MS);
    world.rejoin(ui);
    assert_ne!(world.peer(ui).node().attachment(), old);
    assert!(world.is_leading(ui));
    assert_eq!(world.text(buffer), "abc12");
    let state = world.authority.node().state();
    let recovered = state.buffer_named("/tmp/+Recovered").unwrap();
    assert!(world.text(recovered).contains("new text"));
    assert!(!world.peer(ui).client.is_recovering());
    world.check();
}

#[test]
fn a_session_that_lost_what_it_acknowledged_gets_the_tail_as_recovered() {
    let (mut world, ui, _, view) = started();
    world.cut(ui, true);
    world.type_text(ui, view, "12");
    // The daemon began anew, and made a text where the other one was.
    let other = World::new();
    (world.authority, world.disk) = (other.authority, other.disk);
    world.rejoin(ui);
    let state = world.authority.node().state();
    let recovered = state.buffer_named("/tmp/+Recovered").unwrap();
    assert!(world.text(recovered).contains("12"));
    assert!(world.is_leading(ui));
    world.check();
}

#[test]
fn a_lease_that_was_asked_for_meanwhile_is_given_when_the_client_can() {
    let (mut world, ui, buffer, view) = started();
    world.peer(ui).is_asleep = true;
    let second = world.ui();
    assert!(!world.is_leading(second));
    // The old connection ends, and the daemon has not noticed.
    world.cut(ui, false);
    world.type_text(ui, view, "12");
    world.peer(ui).is_asleep = false;
    world.rejoin(ui);
    assert!(world.is_leading(second), "before the deadline");
    assert_eq!(world.text(buffer), "abc12");
    world.check();
}

#[test]
fn a_process_that_comes_back_without_its_replica_uses_no_id_twice() {
    let (mut world, ui, _, _) = started();
    let welcome = world.peer(ui).client.welcome().unwrap().clone();
    let counter = world.peer(ui).node().counter();
    world.disconnect(ui);
    let mut hello = ui_hello(
        SessionName::Label("main".into()),
        "test".into(),
        Takeover::Transfer,
    );
    hello.resume = Some(crate::message::Resume {
        attachment: welcome.attachment,
        secret: welcome.secret,
        incarnation: welcome.incarnation,
        marks: vec![],
    });
    let back = world.join_as(hello);
    assert_eq!(world.peer(back).node().attachment(), welcome.attachment);
    assert!(world.peer(back).node().counter() > counter);
    assert!(world.is_leading(back));
    world.open(back, "/tmp/z");
    world.check();
}

#[test]
fn a_shard_that_may_not_be_made_or_ended_is_so_in_one_fresh_snapshot() {
    let (mut world, ui, buffer, view) = started();
    // A text taken by another party, whose window is closed before that is heard.
    let second = world.join(AttachmentKind::Ui, Takeover::Watch);
    world.peer(ui).is_asleep = true;
    world.peer(second).say(ClientMessage::LeaseRequest {
        shards: vec![Shard::Buffer(buffer)],
        steal: true,
    });
    world.run();
    let node = world.peer(ui).node();
    node.close_window(view.window().unwrap()).unwrap();
    world.peer(ui).flush();
    world.run();
    world.peer(ui).is_asleep = false;
    world.run();
    assert_eq!(world.text(buffer), "abc");
    assert_eq!(welcomes(&mut world, ui), 2);
    assert!(world.peer(ui).node().state().buffer(buffer).is_some());
    world.type_text(second, ViewId::Body(view.window().unwrap()), "");
    world.check();
}

#[test]
fn shards_that_may_not_be_made_though_the_layout_is_led_are_not_asked_for_again_and_again() {
    let (mut world, ui, _, _) = started();
    world.peer(ui).is_held = true;
    let (_, view) = world.open(ui, "/tmp/new");
    world.type_text(ui, view, "fresh");
    let peer = world.peer(ui);
    let mut refused = Vec::new();
    peer.to_daemon.retain(|message| match message {
        ClientMessage::CreateShard(shard) => {
            refused.push(*shard);
            false
        }
        _ => true,
    });
    assert_eq!(refused.len(), 3);
    for shard in refused {
        let error = ErrorMessage::new(ErrorCode::NotLeader, "for the test");
        let shards = vec![shard];
        peer.to_client
            .push_back(ServerMessage::Error { error, shards });
    }
    world.peer(ui).is_held = false;
    world.run();
    assert_eq!(welcomes(&mut world, ui), 2);
    let state = world.authority.node().state();
    let recovered = state.buffer_named("/tmp/+Recovered").unwrap();
    assert!(world.text(recovered).contains("fresh"));
    assert!(world.is_leading(ui));
    world.check();
}
