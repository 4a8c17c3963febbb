//! A UI that leads, others that follow.

use alloc::vec;

use super::*;
use crate::text::Span;

#[test]
fn a_new_session_is_laid_out_before_any_ui_exists() {
    let world = World::new();
    world.check();
    let state = world.authority.node().state();
    let layout = state.layout().unwrap();
    let window = layout.windows().next().unwrap();
    assert_eq!(
        world.authority.node().tag_text(window).unwrap(),
        "/home/ Del Snarf Get | Look "
    );
    assert_eq!(layout.focus, Some(ViewId::Body(window)));
    assert_eq!(state.meta().label, "main");
}

#[test]
fn a_ui_types_without_waiting_and_followers_end_equal() {
    let mut world = World::new();
    let ui = world.ui();
    let tool = world.join(AttachmentKind::Tool, Takeover::Watch);
    let (buffer, view) = world.open(ui, "/tmp/x");
    world.peer(ui).is_held = true;
    world.type_text(ui, view, "héllo");
    let node = world.peer(ui).node();
    assert_eq!(
        node.state().buffer(buffer).unwrap().text().to_string(),
        "héllo"
    );
    assert_eq!(node.view(view).unwrap().dot, Span::at(5));
    assert_eq!(world.text(buffer), "");
    world.peer(ui).is_held = false;
    world.run();
    assert_eq!(world.text(buffer), "héllo");
    assert_eq!(world.peer(ui).client.unacked_count(), 0);
    let _ = tool;
    world.check();
}

#[test]
fn tags_say_what_can_be_done() {
    let mut world = World::new();
    let ui = world.ui();
    let (_, view) = world.open(ui, "/tmp/x");
    let window = view.window().unwrap();
    let tag = |world: &mut World| world.peer(ui).node().tag_text(window).unwrap();
    assert_eq!(tag(&mut world), "/tmp/x Del Snarf | Look ");
    world.type_text(ui, view, "a");
    assert_eq!(tag(&mut world), "/tmp/x Del Snarf Undo Put | Look ");
    let peer = world.peer(ui);
    peer.node().undo(view).unwrap();
    peer.node().refresh_tags().unwrap();
    peer.flush();
    assert_eq!(tag(&mut world), "/tmp/x Del Snarf Redo | Look ");
    world.run();
    world.check();
}

#[test]
fn editing_the_name_in_a_tag_renames_the_buffer_and_undo_takes_it_back() {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, view) = world.open(ui, "/tmp/x");
    let tag = ViewId::Tag(view.window().unwrap());
    let node = world.peer(ui).node();
    let group = node.new_group();
    node.select(tag, Span::at(6)).unwrap();
    node.type_text(tag, "yz w", group).unwrap();
    node.refresh_tags().unwrap();
    assert!(
        node.tag_text(tag.window().unwrap())
            .unwrap()
            .starts_with("/tmp/xyz w Del")
    );
    node.commit_rename().unwrap();
    node.refresh_tags().unwrap();
    assert_eq!(node.state().buffer(buffer).unwrap().name(), "/tmp/xyz w");
    assert!(node.state().buffer(buffer).unwrap().is_modified());
    node.undo(view).unwrap();
    node.refresh_tags().unwrap();
    assert_eq!(
        node.tag_text(tag.window().unwrap()).unwrap(),
        "/tmp/x Del Snarf Redo | Look "
    );
    world.peer(ui).flush();
    world.run();
    world.check();
}

#[test]
fn windows_zerox_and_close_and_the_buffer_goes_with_the_last() {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, view) = world.open(ui, "/tmp/x");
    world.type_text(ui, view, "abc");
    let node = world.peer(ui).node();
    let second = node.zerox(view.window().unwrap()).unwrap();
    node.select(ViewId::Body(second), Span::new(0, 1)).unwrap();
    assert_eq!(
        node.view(view).unwrap().dot,
        Span::at(3),
        "views are independent"
    );
    node.close_window(view.window().unwrap()).unwrap();
    assert!(node.state().buffer(buffer).is_some());
    node.close_window(second).unwrap();
    assert!(node.state().buffer(buffer).is_none());
    world.peer(ui).flush();
    world.run();
    world.check();
}

#[test]
fn columns_come_and_go_with_their_windows() {
    let mut world = World::new();
    let ui = world.ui();
    let node = world.peer(ui).node();
    let column = node.new_column().unwrap();
    let buffer = node.new_buffer(BufferKind::File, "").unwrap();
    node.new_window(buffer, Placement::Column(column)).unwrap();
    node.append_scratch("/tmp/+Errors", "one\n").unwrap();
    node.append_scratch("/tmp/+Errors", "two\n").unwrap();
    let errors = node.state().buffer_named("/tmp/+Errors").unwrap();
    assert_eq!(
        node.state().buffer(errors).unwrap().text().to_string(),
        "one\ntwo\n"
    );
    node.close_column(column).unwrap();
    assert_eq!(node.state().layout().unwrap().columns.len(), 1);
    world.peer(ui).flush();
    world.run();
    world.check();
}

#[test]
fn one_undo_covers_the_buffers_of_one_command_and_reports_what_cannot_follow() {
    let mut world = World::new();
    let ui = world.ui();
    let (a, view_a) = world.open(ui, "/tmp/a");
    let (b, view_b) = world.open(ui, "/tmp/b");
    let node = world.peer(ui).node();
    let group = node.new_group();
    node.type_text(view_a, "1", group).unwrap();
    node.type_text(view_b, "1", group).unwrap();
    let group = node.new_group();
    node.type_text(view_a, "2", group).unwrap();
    let undone = node.undo(view_b).unwrap();
    assert_eq!(undone.buffers, [b], "a was changed since");
    let undone = node.undo(view_a).unwrap();
    assert_eq!(undone.buffers, [a]);
    let undone = node.undo(view_a).unwrap();
    assert_eq!(undone.buffers, [a]);
    let undone = node.redo(view_b).unwrap();
    assert_eq!(undone.buffers, [a, b]);
    world.peer(ui).flush();
    world.run();
    assert_eq!(
        (world.text(a), world.text(b)),
        (String::from("1"), String::from("1"))
    );
    world.check();
}

#[test]
fn bad_appends_are_refused_by_kind_and_leave_the_log_alone() {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, view) = world.open(ui, "/tmp/x");
    let shard = Shard::Buffer(buffer);
    let node = world.peer(ui).node();
    let me = node.attachment();
    let (head, epoch) = (
        node.log().mark(shard).unwrap().seq,
        node.log().lease(shard).unwrap().epoch,
    );
    let op = |op: BufferOp| Op::Buffer(op);
    let good = op(BufferOp::Select(crate::entry::Dot {
        view,
        at: Span::at(0),
    }));
    let bad = op(BufferOp::Select(crate::entry::Dot {
        view,
        at: Span::at(99),
    }));
    let entry = |seq: u64, epoch, op| Entry {
        seq: Seq::new(seq),
        attachment: me,
        epoch,
        origin: None,
        op,
    };
    let next = head.raw() + 1;
    let cases: Vec<(Entry, ErrorCode)> = vec![
        (entry(next, epoch.next(), good.clone()), ErrorCode::Fenced),
        (entry(next, Epoch::new(0), good.clone()), ErrorCode::Fenced),
        (entry(next + 1, epoch, good.clone()), ErrorCode::WrongSeq),
        (entry(0, epoch, good.clone()), ErrorCode::WrongSeq),
        (entry(next, epoch, bad), ErrorCode::BadOp),
        (
            entry(next, epoch, Op::Layout(LayoutOp::Focus(None))),
            ErrorCode::BadOp,
        ),
        (
            Entry {
                attachment: crate::ids::SERVER,
                ..entry(next, epoch, good)
            },
            ErrorCode::NotLeader,
        ),
    ];
    let before = world.authority.node().state().hash();
    for (entry, code) in cases {
        let bytes = wire::encode_entry(&entry);
        let append = ClientMessage::Append(vec![(shard, vec![bytes])]);
        let from = (world.peer(ui).connection, Secret(uuid::Uuid::from_u128(9)));
        let mut out = Vec::new();
        world.authority.receive(world.now, from, append, &mut out);
        let refused = out.iter().any(|output| {
            matches!(
                output,
                Output::Send(_, ServerMessage::Error { error, .. }) if error.code == code
            )
        });
        assert!(refused, "{entry:?}: {out:?}");
        assert_eq!(world.authority.node().state().hash(), before);
    }
    world.check();
}

#[test]
fn an_append_of_garbage_is_a_protocol_error() {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, _) = world.open(ui, "/tmp/x");
    let shard = Shard::Buffer(buffer);
    let garbage = ClientMessage::Append(vec![(shard, vec![Bytes::from([0xFF; 9].as_slice())])]);
    let from = (world.peer(ui).connection, Secret(uuid::Uuid::from_u128(9)));
    let mut out = Vec::new();
    world.authority.receive(world.now, from, garbage, &mut out);
    assert!(matches!(
        &out[..],
        [Output::Send(_, ServerMessage::Error { error, .. })]
            if error.code == ErrorCode::Protocol
    ));
    world.check();
}

#[test]
fn a_batch_with_one_bad_entry_is_refused_whole_and_a_retry_is_not_applied_twice() {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, view) = world.open(ui, "/tmp/x");
    world.peer(ui).is_held = true;
    world.type_text(ui, view, "ab");
    let held: Vec<ClientMessage> = world.peer(ui).to_daemon.iter().cloned().collect();
    let [ClientMessage::Append(appends)] = &held[..] else {
        panic!("one append: {held:?}")
    };
    let from = (world.peer(ui).connection, Secret(uuid::Uuid::from_u128(9)));
    let mut broken = appends.clone();
    let last = broken.last_mut().unwrap().1.last_mut().unwrap();
    let mut entry = wire::decode_entry(last).unwrap();
    entry.op = Op::Buffer(BufferOp::ViewDel(ViewId::Top));
    *last = wire::encode_entry(&entry);
    let before = world.authority.node().state().hash();
    world.authority.receive(
        world.now,
        from,
        ClientMessage::Append(broken),
        &mut Vec::new(),
    );
    assert_eq!(world.authority.node().state().hash(), before);
    for _ in 0..3 {
        world
            .authority
            .receive(world.now, from, held[0].clone(), &mut Vec::new());
        assert_eq!(world.text(buffer), "ab");
    }
    world.peer(ui).is_held = false;
    world.run();
    world.check();
}

/// Checks a window that is made while its buffer loads; `is_forgotten` is whether the daemon
/// forgets what it queued, so that the lease comes in a snapshot.
fn check_window_on_a_loading_buffer(is_forgotten: bool) {
    let mut world = World::new();
    let ui = world.ui();
    let server = world.authority.node_mut();
    let buffer = server.new_buffer(BufferKind::File, "/tmp/big").unwrap();
    server
        .append_buffer(
            buffer,
            BufferOp::Load {
                text: "one\n".into(),
            },
        )
        .unwrap();
    world.pass(1);
    let node = world.peer(ui).node();
    assert!(!node.leads(Shard::Buffer(buffer)));
    let window = node.new_window(buffer, Placement::Active).unwrap();
    world.peer(ui).flush();
    world.run();
    world.peer(ui).is_asleep = is_forgotten;
    world.authority.grant_to_chief(Shard::Buffer(buffer));
    world.pass(1);
    if is_forgotten {
        world.peer(ui).to_client.clear();
        world.peer(ui).is_asleep = false;
        send_snapshot(&mut world, ui);
    }
    let view = ViewId::Body(window);
    assert!(
        world
            .peer(ui)
            .node()
            .state()
            .buffer(buffer)
            .unwrap()
            .view(view)
            .is_some()
    );
    world.type_text(ui, view, "xy");
    world.run();
    assert_eq!(world.text(buffer), "xyone\n");
    world.check();
}

#[test]
fn a_window_on_a_buffer_that_still_loads_gets_its_view_with_the_lease() {
    check_window_on_a_loading_buffer(false);
}

#[test]
fn a_window_on_a_buffer_that_still_loads_gets_its_view_with_a_lease_in_a_snapshot() {
    check_window_on_a_loading_buffer(true);
}

/// A UI whose queue the daemon forgot: it gets a snapshot that it did not ask for.
fn send_snapshot(world: &mut World, index: usize) {
    world.receive(index, ClientMessage::Resync);
    world.run();
}

#[test]
fn a_snapshot_made_before_the_daemon_heard_of_a_window_does_not_take_it_away() {
    let mut world = World::new();
    let first = world.ui();
    world.peer(first).is_held = true;
    let (buffer, view) = world.open(first, "/tmp/new");
    world.type_text(first, view, "on its way");
    send_snapshot(&mut world, first);
    let node = world.peer(first).node();
    assert_eq!(
        node.state().buffer(buffer).unwrap().text().to_string(),
        "on its way"
    );
    assert!(node.leads(Shard::Buffer(buffer)) && node.buffer_of(view) == Ok(buffer));
    world.type_text(first, view, ", and more");
    world.peer(first).is_held = false;
    world.run();
    assert_eq!(world.text(buffer), "on its way, and more");
    assert_eq!(world.peer(first).client.unacked_count(), 0);
    let errors = &world.peer(first).events;
    let is_error = |event: &ClientEvent| matches!(event, ClientEvent::Error(_));
    assert!(!errors.iter().any(is_error), "{errors:?}");
    world.check();
}

#[test]
fn what_is_made_and_closed_while_a_snapshot_is_awaited_is_told_afterwards() {
    let mut world = World::new();
    let first = world.ui();
    let (old, old_view) = world.open(first, "/tmp/old");
    world.peer(first).is_asleep = true;
    // An append that does not fit makes the client ask for a snapshot.
    world.refuse(first, Shard::Buffer(old));
    let (buffer, view) = world.open(first, "/tmp/new");
    world.type_text(first, view, "made meanwhile");
    let ViewId::Body(window) = old_view else {
        unreachable!("a body")
    };
    world.peer(first).node().close_window(window).unwrap();
    world.peer(first).flush();
    world.peer(first).is_asleep = false;
    world.run();
    assert_eq!(world.text(buffer), "made meanwhile");
    let state = world.authority.node().state();
    assert!(state.buffer(old).is_none() && state.window(window).is_none());
    world.check();
}
