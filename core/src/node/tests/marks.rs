//! Replicas that went wrong: found out by hash marks, told once, and equal again.

use super::*;
use crate::edit::Splice;
use crate::limits::{DIVERGED_COUNT_MAX, MARK_COUNT_MIN, MARK_LEN_MAX, MARK_QUIET_MS};
use crate::node::marks::Divergence;
use crate::text::Span;

/// Has a replica lose an edit that is the next entry of a buffer on its stream: the log has it, the
/// state does not.
fn lose_edit(world: &mut World, index: usize, buffer: BufferId) {
    let shard = Shard::Buffer(buffer);
    let peer = world.peer(index);
    let mut lost = None;
    for message in &mut peer.to_client {
        let ServerMessage::Entries(entries) = message else {
            continue;
        };
        let is_edit = |(of, bytes): &(Shard, Bytes)| {
            let entry = wire::decode_entry(bytes).unwrap();
            *of == shard && matches!(entry.op, Op::Buffer(BufferOp::Edit { .. }))
        };
        if let Some(at) = entries.iter().position(is_edit) {
            lost = Some(entries.remove(at).1);
            break;
        }
    }
    let bytes = lost.unwrap();
    let entry = wire::decode_entry(&bytes).unwrap();
    let node = peer.node();
    node.log.append_entry(shard, entry.clone(), bytes).unwrap();
    node.state.apply(shard, &emptied(entry)).unwrap();
}

/// The entry, with an edit that changes nothing.
fn emptied(mut entry: Entry) -> Entry {
    let Op::Buffer(BufferOp::Edit { splices, dot, .. }) = &mut entry.op else {
        panic!("no edit: {entry:?}")
    };
    *dot = None;
    *splices = Splice::new(Span::at(splices[0].at.q0), "").into();
    entry
}

fn divergences(world: &World, index: usize) -> Vec<Divergence> {
    let told = |event: &ClientEvent| match event {
        ClientEvent::Diverged(divergence) => Some(Divergence::clone(divergence)),
        _ => None,
    };
    world.peers[&index].events.iter().filter_map(told).collect()
}

/// What the daemon was told to keep.
fn kept(world: &World) -> Vec<Divergence> {
    let told = |output: &Output| match output {
        Output::Diverged(divergence) => Some(Divergence::clone(divergence)),
        _ => None,
    };
    world.host.iter().filter_map(told).collect()
}

fn pairs() -> (World, usize, usize, BufferId, ViewId) {
    let mut world = World::new();
    world.is_marking = false;
    let ui = world.ui();
    let (buffer, view) = world.open(ui, "/tmp/x");
    world.type_text(ui, view, "abc");
    world.run();
    let watcher = world.join(AttachmentKind::Ui, Takeover::Watch);
    world.peer(ui).node().select(view, Span::at(0)).unwrap();
    world.peer(ui).flush();
    world.run();
    (world, ui, watcher, buffer, view)
}

#[test]
fn a_follower_that_lost_an_edit_is_told_once_and_is_equal_again() {
    let (mut world, ui, watcher, buffer, view) = pairs();
    world.peer(watcher).is_asleep = true;
    world.type_text(ui, view, "d");
    world.run();
    lose_edit(&mut world, watcher, buffer);
    world.peer(watcher).is_asleep = false;
    world.run();
    let len = |world: &mut World| {
        let node = world.peer(watcher).node();
        node.state().buffer(buffer).unwrap().text().len()
    };
    assert_eq!(len(&mut world), 3, "nobody knows yet");
    world.pass(MARK_QUIET_MS);
    assert_eq!(len(&mut world), 4);
    world.check();
    let told = divergences(&world, watcher);
    assert_eq!(told.len(), 1);
    let Divergence {
        ours,
        theirs,
        tail,
        snapshot,
        ..
    } = &told[0];
    assert_eq!(ours.shard, Shard::Buffer(buffer));
    assert_eq!((ours.seq, ours.chain), (theirs.seq, theirs.chain));
    assert_ne!(ours.state, theirs.state);
    assert!(!snapshot.is_empty() && !tail.is_empty());
    let file = told[0].to_file();
    assert!(file.starts_with(b"apex diverged 1\n"));
    let len = snapshot.len() + tail.iter().map(|bytes| bytes.len()).sum::<usize>();
    assert!(file[..file.len() - len].ends_with(b"\n\n"));
    // It goes on, and nothing more is found.
    world.type_text(ui, view, "e");
    world.run();
    world.pass(MARK_QUIET_MS);
    world.check();
    assert_eq!(divergences(&world, watcher).len(), 1);
    assert!(divergences(&world, ui).is_empty() && kept(&world).is_empty());
}

#[test]
fn a_mark_of_entries_to_come_is_compared_when_they_are_there() {
    let (mut world, ui, watcher, buffer, view) = pairs();
    world.peer(watcher).is_asleep = true;
    world.type_text(ui, view, "d");
    world.peer(ui).node().select(view, Span::at(0)).unwrap();
    world.type_text(ui, view, "e");
    world.run();
    lose_edit(&mut world, watcher, buffer);
    world.pass(MARK_QUIET_MS);
    // The mark overtakes the entries on the stream.
    let peer = world.peer(watcher);
    let is_mark = |message: &ServerMessage| matches!(message, ServerMessage::HashMarks(_));
    let at = peer.to_client.iter().position(is_mark).unwrap();
    let mark = peer.to_client.remove(at).unwrap();
    peer.to_client.push_front(mark);
    world.peer(watcher).is_asleep = false;
    world.run();
    assert_eq!(divergences(&world, watcher).len(), 1);
    world.check();
}

/// Has a leader append what its state does not take.
fn append_badly(world: &mut World, index: usize, buffer: BufferId, text: &str) {
    let shard = Shard::Buffer(buffer);
    let node = world.peer(index).node();
    let group = Some(node.new_group());
    let op = Op::Buffer(BufferOp::Edit {
        splices: Splice::new(Span::at(0), text).into(),
        group,
        dot: None,
    });
    let me = node.attachment();
    let record = node.log.append(shard, me, None, op).unwrap();
    node.state
        .apply(shard, &emptied(record.entry.clone()))
        .unwrap();
    node.unshipped.insert(shard);
    world.peer(index).flush();
}

#[test]
fn a_leader_that_went_wrong_takes_what_it_sent_from_the_daemon_and_loses_no_typing() {
    let (mut world, ui, watcher, buffer, view) = pairs();
    append_badly(&mut world, ui, buffer, "##");
    world.run();
    let line = "x".repeat(64);
    let count = usize::try_from(MARK_COUNT_MIN).unwrap() * 2;
    for _ in 0..count / 64 {
        world.type_text(ui, view, &line);
        world.run();
    }
    // Nobody is quiet: the leader's own mark found it out.
    assert_eq!(kept(&world).len(), 1);
    assert_eq!(kept(&world)[0].tail.len(), 256);
    assert_eq!(divergences(&world, ui).len(), 1);
    assert_eq!(divergences(&world, ui)[0].theirs, kept(&world)[0].ours);
    assert!(divergences(&world, watcher).is_empty());
    let text = world.text(buffer);
    assert!(text.contains("##"), "the log is the truth");
    assert_eq!(text.matches('x').count(), count);
    world.check();
    world.pass(MARK_QUIET_MS);
    world.check();
    assert_eq!((kept(&world).len(), divergences(&world, ui).len()), (1, 1));
}

#[test]
fn what_a_leader_types_while_it_is_found_out_is_kept() {
    let (mut world, ui, _, buffer, view) = pairs();
    append_badly(&mut world, ui, buffer, "#");
    world.run();
    // The quiet mark finds it out; the user goes on while the fresh snapshot is on its way.
    world.peer(ui).is_held = true;
    world.pass(MARK_QUIET_MS);
    assert_eq!(divergences(&world, ui).len(), 1);
    world.type_text(ui, view, "typed");
    world.peer(ui).is_held = false;
    world.run();
    assert!(world.text(buffer).contains("typed"));
    assert!(!world.peer(ui).client.is_recovering());
    world.check();
}

#[test]
fn a_leader_that_was_overtaken_and_does_not_know_it_has_not_diverged() {
    let (mut world, first, _, buffer, view) = pairs();
    world.pass(MARK_QUIET_MS);
    world.is_marking = true;
    world.peer(first).is_held = true;
    world.peer(first).is_asleep = true;
    world.type_text(first, view, "1");
    let second = world.join(AttachmentKind::Ui, Takeover::Steal);
    world.type_text(second, view, "2");
    world.run();
    world.pass(MARK_QUIET_MS);
    // Its queue was forgotten: it hears the mark before the snapshot that tells of the reclaim.
    let is_kept = |message: &ServerMessage| !matches!(message, ServerMessage::Entries(_));
    world.peer(first).to_client.retain(is_kept);
    world.receive(first, ClientMessage::Resync);
    world.peer(first).is_asleep = false;
    world.peer(first).is_held = false;
    world.run();
    assert_eq!(world.text(buffer).len(), 5);
    assert!(divergences(&world, first).is_empty());
    world.check();
}

#[test]
fn a_replica_that_goes_wrong_again_and_again_is_given_up_aloud_once() {
    let (mut world, ui, watcher, buffer, view) = pairs();
    let mut resyncs = 0;
    for _ in 0..2 * DIVERGED_COUNT_MAX {
        world.peer(ui).node().select(view, Span::at(0)).unwrap();
        world.peer(ui).flush();
        world.run();
        world.peer(watcher).is_asleep = true;
        world.type_text(ui, view, "d");
        world.run();
        lose_edit(&mut world, watcher, buffer);
        world.peer(watcher).is_asleep = false;
        world.pass(MARK_QUIET_MS);
        let truth = world.authority.node().state().hash();
        resyncs += u32::from(world.peer(watcher).node().state().hash() == truth);
    }
    assert_eq!(resyncs, DIVERGED_COUNT_MAX);
    assert_eq!(divergences(&world, watcher).len(), 1);
}

#[test]
fn marks_are_paid_for_by_entries_and_a_huge_text_has_none() {
    let (mut world, ui, _, _, view) = pairs();
    world.pass(MARK_QUIET_MS);
    assert_eq!(world.authority.next_deadline(), None, "one mark, then rest");
    let count = |world: &mut World| {
        let peer = world.peer(ui);
        let is_mark = |message: &&ClientMessage| matches!(message, ClientMessage::HashMarks(_));
        let count = peer.to_daemon.iter().filter(is_mark).count();
        world.run();
        count
    };
    let mut marks = 0;
    let line = "x".repeat(64);
    for _ in 0..4 * MARK_COUNT_MIN / 64 {
        world.type_text(ui, view, &line);
        marks += count(&mut world);
    }
    assert!((1..=4).contains(&marks), "{marks}");
    let huge = "x".repeat(usize::try_from(MARK_LEN_MAX).unwrap());
    let node = world.peer(ui).node();
    let group = node.new_group();
    let splice = Splice::new(Span::at(0), huge);
    node.replace(view, splice, Span::at(0), group).unwrap();
    world.peer(ui).flush();
    world.run();
    for _ in 0..2 * MARK_COUNT_MIN {
        world.type_text(ui, view, "y");
        assert_eq!(count(&mut world), 0);
    }
    world.pass(MARK_QUIET_MS);
    assert_eq!(world.authority.next_deadline(), None);
    world.check();
}
