//! Leadership that moves, and what becomes of text that was overtaken.

use super::asked::wake;
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

/// A UI that has typed "cd" behind "ab" when another one steals the session, and hears of nothing.
fn overtaken() -> (World, usize, usize, BufferId, ViewId) {
    let mut world = World::new();
    let first = world.ui();
    let (buffer, view) = world.open(first, "/tmp/x");
    world.type_text(first, view, "ab");
    world.run();
    world.peer(first).is_held = true;
    world.peer(first).is_asleep = true;
    world.type_text(first, view, "cd");
    let second = world.join(AttachmentKind::Ui, Takeover::Steal);
    (world, first, second, buffer, view)
}

#[test]
fn a_tail_that_fits_is_appended_again_under_the_new_lease() {
    let (mut world, first, second, buffer, view) = overtaken();
    world.peer(second).say(ClientMessage::Detach);
    world.run();
    world.peers.remove(&second);
    // The lease comes back, and nobody has appended since.
    world.receive(first, Client::take_over(false));
    wake(&mut world, first);
    assert_eq!(world.text(buffer), "abcd");
    assert!(world.is_leading(first) && !world.peer(first).client.is_recovering());
    let log = world.authority.node().log();
    let shard = Shard::Buffer(buffer);
    let typed = log.after(shard, Seq::default()).filter(|record| {
        matches!(
            &record.entry.op,
            Op::Buffer(BufferOp::Edit { group: Some(_), .. })
        ) && record.entry.origin.is_none()
    });
    let epochs: Vec<u64> = typed.map(|record| record.entry.epoch.raw()).collect();
    assert_eq!(epochs[..2], [1, 1], "{epochs:?}");
    assert_eq!(epochs[2..], [log.lease(shard).unwrap().epoch.raw(); 2]);
    // It is one step of undo still, and no proposal.
    world.peer(first).node().undo(view).unwrap();
    world.peer(first).flush();
    world.run();
    assert_eq!(world.text(buffer), "ab");
    world.check();
}

#[test]
fn a_tail_whose_lease_came_back_after_another_leader_typed_is_proposed() {
    let (mut world, first, second, buffer, view) = overtaken();
    world.peer(second).node().select(view, Span::at(0)).unwrap();
    world.type_text(second, view, "X");
    world.run();
    world.peer(second).say(ClientMessage::Detach);
    world.run();
    world.peers.remove(&second);
    world.receive(first, Client::take_over(false));
    wake(&mut world, first);
    assert_eq!(world.text(buffer), "Xabcd");
    assert!(!world.peer(first).client.is_recovering());
    world.check();
}

#[test]
fn a_tail_is_found_although_the_reclaim_was_forgotten_with_the_queue() {
    let (mut world, first, second, buffer, view) = overtaken();
    world.peer(second).node().select(view, Span::at(0)).unwrap();
    world.type_text(second, view, "WXYZ");
    world.run();
    // A peer that falls behind gets a snapshot in place of entries; answers stay.
    let is_kept = |message: &ServerMessage| !matches!(message, ServerMessage::Entries(_));
    world.peer(first).to_client.retain(is_kept);
    world.receive(first, ClientMessage::Resync);
    wake(&mut world, first);
    assert_eq!(world.text(buffer), "WXYZabcd");
    world.check();
}

#[test]
fn what_the_new_leader_did_before_the_snapshot_is_told_to_who_waits_for_it() {
    let (mut world, first, second, buffer, view) = overtaken();
    world.peer(second).node().select(view, Span::at(0)).unwrap();
    world.type_text(second, view, "XY");
    world.run();
    wake(&mut world, first);
    assert_eq!(world.text(buffer), "XYabcd");
    let shard = Shard::Buffer(buffer);
    let mut at = 4;
    let mut chains = Vec::new();
    for event in &world.peers[&first].events {
        match event {
            ClientEvent::Overtaken { splices, .. } => at = crate::edit::map_back(splices, at),
            ClientEvent::Entries(records) => {
                for record in records.iter().filter(|record| record.shard == shard) {
                    chains.push((record.entry.seq, record.chain));
                    if let Op::Buffer(BufferOp::Edit { splices, .. }) = &record.entry.op {
                        at = crate::edit::map(splices, at, crate::edit::Bias::Right);
                    }
                }
            }
            _ => {}
        }
    }
    assert_eq!(at, 6, "behind what was typed, where it is by now");
    let log = world.authority.node().log();
    assert!(chains.len() > 3);
    for (seq, chain) in chains {
        assert_eq!(log.chain_at(shard, seq), Some(chain));
    }
}

#[test]
fn reclaim_and_grant_say_where_the_log_stands() {
    let (mut world, _, second, buffer, view) = overtaken();
    world.type_text(second, view, "more");
    world.run();
    let _ = world.join(AttachmentKind::Ui, Takeover::Transfer);
    let log = world.authority.node().log();
    let shard = Shard::Buffer(buffer);
    let mut changes = 0;
    for record in log.after(Shard::Meta, Seq::default()) {
        if let Op::Meta(
            MetaOp::LeaseGrant {
                shard: of,
                head,
                chain,
                epoch,
                ..
            }
            | MetaOp::LeaseReclaim {
                shard: of,
                head,
                chain,
                epoch,
            },
        ) = &record.entry.op
            && *of == shard
        {
            assert_eq!(log.chain_at(shard, *head), Some(*chain));
            let behind = log.after(shard, *head);
            assert!(behind.take(1).all(|record| record.entry.epoch >= *epoch));
            changes += 1;
        }
    }
    assert_eq!(changes, 4, "made, reclaimed, granted, granted");
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

#[test]
fn asking_again_does_not_put_off_the_deadline_and_another_ui_waits_no_longer() {
    let mut world = World::new();
    let first = world.ui();
    world.peer(first).is_asleep = true;
    let second = world.ui();
    let time = world.transfer_time();
    world.pass(time / 2);
    world.peer(second).say(Client::take_over(false));
    world.run();
    let third = world.ui();
    world.pass(time - time / 2);
    assert!(world.is_leading(third));
    assert!(!world.is_leading(second));
    wake(&mut world, first);
    world.check();
}

#[test]
fn a_takeover_waits_no_longer_when_the_connection_of_who_was_asked_drops() {
    let mut world = World::new();
    let first = world.ui();
    let (buffer, view) = world.open(first, "/tmp/x");
    world.peer(first).is_asleep = true;
    let second = world.ui();
    assert!(!world.is_leading(second), "it was asked for");
    world.disconnect(first);
    assert!(world.is_leading(second), "nobody waits for a grace");
    let attachments = &world.authority.node().state().meta().attachments;
    assert_eq!(attachments.len(), 2, "the first is attached for its grace");
    world.type_text(second, view, "x");
    world.run();
    assert_eq!(world.text(buffer), "x");
    world.check();
}

/// The hello of a peer that comes back, as it joined or with another wish.
fn hello_again(world: &mut World, index: usize, takeover: Takeover) -> Hello {
    let welcome = world.peer(index).client.welcome().unwrap().clone();
    let mut hello = ui_hello(SessionName::Label("main".into()), "test".into(), takeover);
    hello.resume = Some(crate::message::Resume {
        attachment: welcome.attachment,
        secret: welcome.secret,
        incarnation: welcome.incarnation,
        marks: alloc::vec![],
    });
    hello
}

#[test]
fn who_comes_back_within_its_grace_leads_unless_somebody_took_over() {
    for is_taken in [false, true] {
        let mut world = World::new();
        let first = world.ui();
        let id = world.peer(first).node().attachment();
        let hello = hello_again(&mut world, first, Takeover::Steal);
        world.disconnect(first);
        let second = is_taken.then(|| world.ui());
        let back = world.join_as(hello);
        assert_eq!(world.peer(back).node().attachment(), id);
        assert_eq!(world.is_leading(back), !is_taken);
        assert!(second.is_none_or(|second| world.is_leading(second)));
        world.pass(GRACE_UI_MS);
        assert_eq!(world.is_leading(back), !is_taken, "it is not detached");
        world.check();
    }
}

#[test]
fn who_comes_back_is_what_it_was() {
    let mut world = World::new();
    let first = world.ui();
    let (buffer, view) = world.open(first, "/tmp/x");
    let second = world.join(AttachmentKind::Ui, Takeover::Watch);
    // Another UI takes one text only; the first one stays the chief, and does not take it back.
    world.peer(second).say(ClientMessage::LeaseRequest {
        shards: alloc::vec![Shard::Buffer(buffer)],
        steal: false,
    });
    world.run();
    let hello = hello_again(&mut world, first, Takeover::Steal);
    world.disconnect(first);
    let first = world.join_as(hello);
    assert!(world.is_leading(first));
    assert!(world.peer(second).node().leads(Shard::Buffer(buffer)));
    // A displaced one watches still when it comes back, also when nobody leads by then.
    world.peer(second).say(Client::take_over(true));
    world.run();
    let hello = hello_again(&mut world, first, Takeover::Transfer);
    world.disconnect(first);
    // A watcher that took over is no watcher when it comes back.
    let again = hello_again(&mut world, second, Takeover::Watch);
    world.disconnect(second);
    let second = world.join_as(again);
    assert!(world.is_leading(second));
    world.type_text(second, view, "x");
    let proposal = world.peer(second).client.propose(alloc::vec![]).unwrap().1;
    world.peer(second).say(proposal);
    world.run();
    let is_refused = |event: &ClientEvent| {
        matches!(
            event,
            ClientEvent::Decided {
                outcome: Err(_),
                ..
            }
        )
    };
    assert!(!world.peer(second).events.iter().any(is_refused));
    world.peer(second).say(ClientMessage::Detach);
    world.run();
    world.peers.remove(&second);
    let first = world.join_as(hello);
    assert!(!world.is_leading(first));
    world.peer(first).say(Client::take_over(false));
    world.run();
    assert!(world.is_leading(first));
    assert_eq!(world.text(buffer), "x");
    world.check();
}
