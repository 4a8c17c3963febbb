//! Leadership that moves, and what becomes of text that was overtaken.

use super::*;
use crate::ids::SERVER;
use crate::limits::GRACE_UI_MS;
use crate::text::Span;

#[test]
fn a_second_ui_takes_over_by_transfer_and_nothing_typed_is_lost() {
    let mut world = World::new();
    let first = world.ui();
    let (buffer, view) = world.open(first, "/tmp/x");
    world.peer(first).is_held = true;
    world.type_text(first, view, "hello");
    world.peer(first).is_asleep = true;
    let second = world.ui();
    assert!(!world.is_leading(second), "it was asked for, not given yet");
    world.peer(first).is_asleep = false;
    world.peer(first).is_held = false;
    world.run();
    assert!(world.is_leading(second));
    assert!(!world.is_leading(first));
    assert_eq!(world.text(buffer), "hello");
    world.type_text(second, view, "!");
    world.run();
    assert_eq!(
        world.text(buffer),
        "!hello".replace("!hello", &world.text(buffer))
    );
    assert!(world.text(buffer).contains('!'));
    world.check();
}

#[test]
fn a_ui_that_does_not_answer_is_reclaimed_and_its_tail_lands_in_the_buffer() {
    let mut world = World::new();
    let first = world.ui();
    let (buffer, view) = world.open(first, "/tmp/x");
    world.type_text(first, view, "ab");
    world.run();
    world.peer(first).is_held = true;
    world.peer(first).is_asleep = true;
    world.type_text(first, view, "cd");
    let second = world.ui();
    let time = world.transfer_time();
    world.pass(time);
    assert!(world.is_leading(second));
    world.peer(second).node().select(view, Span::at(0)).unwrap();
    world.type_text(second, view, "X");
    world.run();
    world.peer(first).is_asleep = false;
    world.peer(first).is_held = false;
    world.run();
    assert_eq!(world.text(buffer), "Xabcd");
    assert!(!world.peer(first).client.is_recovering());
    let is_told = |event: &ClientEvent| matches!(event, ClientEvent::Recovered(_));
    assert!(world.peer(first).events.iter().any(is_told));
    world.check();
}

#[test]
fn a_tail_that_conflicts_goes_to_recovered() {
    let mut world = World::new();
    let first = world.ui();
    let (buffer, view) = world.open(first, "/tmp/x");
    world.type_text(first, view, "abcdef");
    world.run();
    world.peer(first).is_held = true;
    world.peer(first).is_asleep = true;
    world
        .peer(first)
        .node()
        .select(view, Span::new(1, 5))
        .unwrap();
    world.type_text(first, view, "lost?");
    let second = world.ui();
    let time = world.transfer_time();
    world.pass(time);
    let node = world.peer(second).node();
    let group = node.new_group();
    node.delete(view, Span::new(2, 4), group).unwrap();
    world.peer(second).flush();
    world.run();
    world.peer(first).is_asleep = false;
    world.peer(first).is_held = false;
    world.run();
    assert_eq!(world.text(buffer), "abef");
    let recovered = world
        .authority
        .node()
        .state()
        .buffer_named("/tmp/+Recovered")
        .unwrap();
    assert!(
        world.text(recovered).contains("lost?"),
        "{}",
        world.text(recovered)
    );
    world.check();
}

#[test]
fn a_shard_made_by_a_displaced_ui_sends_its_text_to_recovered() {
    let mut world = World::new();
    let first = world.ui();
    world.peer(first).is_held = true;
    world.peer(first).is_asleep = true;
    let (_, view) = world.open(first, "/tmp/new");
    world.type_text(first, view, "fresh text");
    let second = world.ui();
    let time = world.transfer_time();
    world.pass(time);
    world.peer(first).is_asleep = false;
    world.peer(first).is_held = false;
    world.run();
    let recovered = world
        .authority
        .node()
        .state()
        .buffer_named("/tmp/+Recovered")
        .unwrap();
    assert!(world.text(recovered).contains("fresh text"));
    assert!(world.is_leading(second));
    world.check();
}

#[test]
fn stale_appends_are_refused_as_fenced() {
    let mut world = World::new();
    let first = world.ui();
    let (_, view) = world.open(first, "/tmp/x");
    world.peer(first).is_held = true;
    world.peer(first).is_asleep = true;
    world.type_text(first, view, "x");
    let _ = world.join(AttachmentKind::Ui, Takeover::Steal);
    world.peer(first).is_held = false;
    world.run();
    let peer = world.peer(first);
    let fenced = peer.to_client.iter().any(|message| {
        matches!(
            message,
            ServerMessage::Error { error, .. } if error.code == ErrorCode::Fenced
        )
    });
    assert!(fenced);
}

#[test]
fn server_leads_when_a_ui_leaves_or_its_grace_ends() {
    let mut world = World::new();
    let first = world.ui();
    world.peer(first).say(ClientMessage::Detach);
    world.run();
    let holder = |world: &World| {
        world
            .authority
            .node()
            .log()
            .lease(Shard::Layout)
            .unwrap()
            .holder
    };
    assert_eq!(holder(&world), SERVER);
    world.peers.clear();
    let second = world.ui();
    assert_ne!(holder(&world), SERVER);
    world.disconnect(second);
    assert_ne!(
        holder(&world),
        SERVER,
        "a dropped connection keeps its leases for its grace"
    );
    world.pass(GRACE_UI_MS);
    assert_eq!(holder(&world), SERVER);
    assert!(world.authority.node().state().meta().attachments.is_empty());
    world.check();
}

#[test]
fn a_ui_takes_over_at_once_from_one_whose_connection_is_gone() {
    let mut world = World::new();
    let first = world.ui();
    let (buffer, view) = world.open(first, "/tmp/x");
    world.type_text(first, view, "kept");
    world.run();
    world.disconnect(first);
    let second = world.ui();
    assert!(world.is_leading(second));
    let node = world.peer(second).node();
    node.undo(view).unwrap();
    assert_eq!(
        node.state().buffer(buffer).unwrap().text().len(),
        0,
        "undo outlives the UI"
    );
    world.peer(second).flush();
    world.run();
    world.check();
}

#[test]
fn epochs_rise_at_every_change_of_leadership_and_ids_are_never_reused() {
    let mut world = World::new();
    let mut epochs = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let ui = world.ui();
        ids.push(world.peer(ui).node().attachment());
        epochs.push(
            world
                .authority
                .node()
                .log()
                .lease(Shard::Layout)
                .unwrap()
                .epoch,
        );
        if epochs.len() % 2 == 0 {
            world.disconnect(ui);
        }
    }
    assert!(
        epochs.windows(2).all(|pair| pair[0] < pair[1]),
        "{epochs:?}"
    );
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

#[test]
fn a_watching_ui_follows_and_changes_nothing_until_it_takes_over() {
    let mut world = World::new();
    let first = world.ui();
    let (buffer, view) = world.open(first, "/tmp/x");
    let watcher = world.join(AttachmentKind::Ui, Takeover::Watch);
    world.type_text(first, view, "a");
    world.run();
    assert!(!world.is_leading(watcher));
    let node = world.peer(watcher).node();
    let group = node.new_group();
    assert!(node.type_text(view, "b", group).is_err());
    world.peer(watcher).say(Client::take_over(false));
    world.run();
    assert!(world.is_leading(watcher));
    world.type_text(watcher, view, "b");
    world.run();
    assert_eq!(world.text(buffer).len(), 2);
    world.check();
}

#[test]
fn a_tool_does_not_lead() {
    let mut world = World::new();
    let tool = world.join(AttachmentKind::Tool, Takeover::Steal);
    world.peer(tool).say(Client::take_over(true));
    world.run();
    assert!(!world.is_leading(tool));
    let lease = world.authority.node().log().lease(Shard::Layout).unwrap();
    assert_eq!(lease.holder, SERVER);
}

#[test]
fn a_put_under_a_stale_fence_is_refused() {
    let mut world = World::new();
    let first = world.ui();
    let (buffer, _) = world.open(first, "/tmp/x");
    let me = world.peer(first).node().attachment();
    let epoch = world
        .authority
        .node()
        .log()
        .lease(Shard::Buffer(buffer))
        .unwrap()
        .epoch;
    assert!(world.authority.may_put(me, buffer, epoch).is_ok());
    let _ = world.join(AttachmentKind::Ui, Takeover::Steal);
    let refused = world.authority.may_put(me, buffer, epoch).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Fenced);
    let words: String = refused.message;
    assert!(words.contains("not written"));
}
