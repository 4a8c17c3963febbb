//! Tools that lead a text for a time: they ask and never take.

use alloc::vec;

use super::*;
use crate::ids::SERVER;
use crate::limits::{GRACE_TOOL_MS, TOOL_LEASE_MS_MAX, TRANSFER_MS};
use crate::text::Span;

/// How long the tool of these tests may lead, in milliseconds.
const LEASE_MS: u64 = 10_000;

fn ask(world: &mut World, index: usize, buffer: BufferId) {
    world.peer(index).say(ClientMessage::LeaseRequest {
        shards: vec![Shard::Buffer(buffer)],
        steal: true,
    });
    world.run();
}

fn holder(world: &World, buffer: BufferId) -> AttachmentId {
    let lease = world.authority.node().log().lease(Shard::Buffer(buffer));
    lease.unwrap().holder
}

fn id(world: &mut World, index: usize) -> AttachmentId {
    world.peer(index).node().attachment()
}

/// A tool that may lead.
fn tool(world: &mut World) -> usize {
    let tool = world.join(AttachmentKind::Tool, Takeover::Watch);
    let id = id(world, tool);
    let now = world.now;
    world.authority.allow_leases(now, id, Some(LEASE_MS));
    tool
}

/// A UI that has written "abc", and a tool that leads the text by now.
fn led() -> (World, usize, usize, BufferId, ViewId) {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, view) = world.open(ui, "/tmp/x");
    world.type_text(ui, view, "abc");
    world.run();
    let tool = tool(&mut world);
    ask(&mut world, tool, buffer);
    let me = id(&mut world, tool);
    assert_eq!(holder(&world, buffer), me);
    (world, ui, tool, buffer, view)
}

fn is_refused(world: &World, by: AttachmentId) -> bool {
    let log = world.authority.node().log();
    log.after(Shard::Meta, Seq::default()).any(|record| {
        matches!(&record.entry.op, Op::Meta(MetaOp::LeaseRefuse { by: of, .. }) if *of == by)
    })
}

#[test]
fn a_tool_that_was_not_granted_it_does_not_lead() {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, _) = world.open(ui, "/tmp/x");
    let tool = world.join(AttachmentKind::Tool, Takeover::Steal);
    world.peer(tool).say(Client::take_over(true));
    ask(&mut world, tool, buffer);
    let me = id(&mut world, ui);
    assert_eq!(holder(&world, buffer), me);
    assert!(!world.is_leading(tool));
    let is_denied = |event: &&ClientEvent| match event {
        ClientEvent::Error(error) => error.code == ErrorCode::Denied,
        _ => false,
    };
    let events = &world.peers[&tool].events;
    // Those that name no shard reach the owner.
    assert_eq!(events.iter().filter(is_denied).count(), 1);
}

#[test]
fn a_tool_leads_a_text_that_its_leader_gives_and_the_user_takes_back() {
    let (mut world, ui, tool, buffer, view) = led();
    world.type_text(tool, view, "output ");
    world.run();
    assert_eq!(world.text(buffer).len(), 10);
    world.check();
    assert!(world.is_leading(ui), "the session is the user's");
    // What his first key there says.
    ask(&mut world, ui, buffer);
    let me = id(&mut world, ui);
    assert_eq!(holder(&world, buffer), me);
    world.type_text(ui, view, "!");
    world.run();
    assert_eq!(world.text(buffer).len(), 11);
    world.check();
}

#[test]
fn a_tool_that_does_not_answer_keeps_a_user_waiting_for_the_deadline_and_no_longer() {
    let (mut world, ui, tool, buffer, view) = led();
    world.peer(tool).is_held = true;
    world.type_text(tool, view, "late");
    world.peer(tool).is_asleep = true;
    ask(&mut world, ui, buffer);
    world.pass(TRANSFER_MS);
    let me = id(&mut world, ui);
    assert_eq!(holder(&world, buffer), me);
    world.type_text(ui, view, "!");
    world.run();
    world.peer(tool).is_asleep = false;
    world.peer(tool).is_held = false;
    world.run();
    assert!(
        world.text(buffer).contains("late"),
        "tools lose nothing either"
    );
    world.check();
}

#[test]
fn a_wish_is_refused_at_the_deadline_and_never_taken_from_a_ui() {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, view) = world.open(ui, "/tmp/x");
    let tool = tool(&mut world);
    let (user, me) = (id(&mut world, ui), id(&mut world, tool));
    world.peer(ui).client.keep(Some(buffer));
    ask(&mut world, tool, buffer);
    world.type_text(ui, view, "typed meanwhile");
    world.run();
    world.pass(TRANSFER_MS - 1);
    assert!(!is_refused(&world, me));
    world.pass(1);
    assert!(is_refused(&world, me));
    let lease = world
        .authority
        .node()
        .log()
        .lease(Shard::Buffer(buffer))
        .unwrap();
    assert_eq!((lease.holder, lease.pending), (user, None));
    world.pass(limits::MARK_QUIET_MS);
    assert_eq!(world.authority.next_deadline(), None);
    world.check();
    // Nor from one whose connection dropped: it is attached.
    world.disconnect(ui);
    ask(&mut world, tool, buffer);
    world.pass(TRANSFER_MS);
    assert_eq!(holder(&world, buffer), user);
    world.check();
}

#[test]
fn proposals_reach_the_leader_while_a_tool_waits_for_its_answer() {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, _) = world.open(ui, "/tmp/x");
    let tool = tool(&mut world);
    world.peer(ui).client.keep(Some(buffer));
    ask(&mut world, tool, buffer);
    let change = crate::proposal::Change::Edit {
        buffer,
        base: crate::ids::Version::default(),
        splices: vec![crate::edit::Splice::new(Span::at(0), "proposed")],
    };
    let (_, message) = world.peer(tool).client.propose(vec![change]).unwrap();
    world.peer(tool).say(message);
    world.run();
    assert_eq!(world.text(buffer), "proposed");
    world.check();
}

#[test]
fn a_user_who_takes_over_goes_before_a_tool_that_waits() {
    let mut world = World::new();
    let ui = world.ui();
    let (buffer, _) = world.open(ui, "/tmp/x");
    let tool = tool(&mut world);
    world.peer(ui).is_asleep = true;
    ask(&mut world, tool, buffer);
    let second = world.ui();
    let (other, me) = (id(&mut world, second), id(&mut world, tool));
    assert!(is_refused(&world, me));
    ask(&mut world, tool, buffer);
    world.pass(TRANSFER_MS);
    assert_eq!(holder(&world, buffer), other);
    world.peer(ui).is_asleep = false;
    world.run();
    world.check();
}

#[test]
fn what_a_tool_leads_goes_to_the_user_when_its_time_is_over_it_leaves_or_loses_its_right() {
    for end in 0..4 {
        let (mut world, ui, tool, buffer, _) = led();
        let (user, me) = (id(&mut world, ui), id(&mut world, tool));
        match end {
            0 => {
                world.pass(LEASE_MS / 2);
                ask(&mut world, tool, buffer);
                world.pass(LEASE_MS - 1);
                assert_eq!(holder(&world, buffer), me, "asked again, it goes on");
                world.pass(1);
            }
            1 => {
                world.peer(tool).say(ClientMessage::Detach);
                world.run();
                world.peers.remove(&tool);
            }
            2 => {
                world.disconnect(tool);
                assert_eq!(holder(&world, buffer), me, "it may come back");
                world.pass(GRACE_TOOL_MS);
            }
            _ => {
                let now = world.now;
                world.authority.allow_leases(now, me, None);
                world.pass(0);
            }
        }
        assert_eq!(holder(&world, buffer), user, "{end}");
        world.check();
    }
}

#[test]
fn a_ui_that_takes_the_session_over_leaves_a_tool_its_text() {
    let (mut world, _, tool, buffer, view) = led();
    let second = world.join(AttachmentKind::Ui, Takeover::Steal);
    assert!(world.is_leading(second));
    let me = id(&mut world, tool);
    assert_eq!(holder(&world, buffer), me);
    world.type_text(tool, view, "on and on");
    world.run();
    world.pass(LEASE_MS);
    let user = id(&mut world, second);
    assert_eq!(holder(&world, buffer), user);
    world.check();
}

#[test]
fn a_tool_leads_at_once_what_nobody_leads_and_only_texts_for_a_bounded_time() {
    let mut world = World::new();
    let tool = tool(&mut world);
    let me = id(&mut world, tool);
    let state = world.authority.node().state();
    let window = state.layout().unwrap().windows().next().unwrap();
    let (tag, body) = (
        state.window(window).unwrap().tag,
        state.buffer_of(ViewId::Body(window)).unwrap(),
    );
    ask(&mut world, tool, tag);
    world.peer(tool).say(Client::take_over(true));
    world.run();
    assert_eq!(holder(&world, tag), SERVER);
    assert!(!world.is_leading(tool));
    let now = world.now;
    world.authority.allow_leases(now, me, Some(u64::MAX));
    ask(&mut world, tool, body);
    assert_eq!(holder(&world, body), me);
    world.pass(limits::MARK_QUIET_MS);
    assert_eq!(
        world.authority.next_deadline(),
        Some(now.after(TOOL_LEASE_MS_MAX))
    );
    world.pass(TOOL_LEASE_MS_MAX);
    assert_eq!(holder(&world, body), SERVER);
    world.check();
}
