//! Undo over several buffers: the cases of edwood#383, and who leads what.

use alloc::vec;

use super::*;
use crate::entry::{SaveCause, Saved};
use crate::node::undoing::{Direction, Undone};
use crate::proposal::Refusal;
use crate::text::Span;

/// What the user does in one step of a case.
#[derive(Clone, Copy, Debug)]
enum Do {
    /// One command appends to both texts.
    Both(&'static str),
    /// Appends to the first text alone.
    A(&'static str),
    /// Renames the first text.
    Name(&'static str),
    /// Undo in the first text, and in the second.
    UndoA,
    UndoB,
    /// Redo in the first text, and in the second.
    RedoA,
    RedoB,
}

/// The step, the name of the first text, both texts, and whose names are reported.
type Row = (
    Do,
    &'static str,
    (&'static str, &'static str),
    &'static [&'static str],
);

/// `a` and `b` are edited together (1), then `a` alone (2).
const BRANCHED: [Row; 2] = [
    (Do::Both("1"), "a", ("1", "1"), &[]),
    (Do::A("2"), "a", ("12", "1"), &[]),
];

/// Undo in `b` goes alone, then `a` twice.
const REJOINED: [Row; 4] = [
    (Do::UndoB, "a", ("12", ""), &["a"]),
    (Do::UndoA, "a", ("1", ""), &[]),
    (Do::UndoB, "a", ("1", ""), &[]),
    (Do::UndoA, "a", ("", ""), &[]),
];

#[rustfmt::skip]
fn cases() -> Vec<(&'static str, Vec<Row>)> {
    let rejoined = [&BRANCHED[..], &REJOINED[..]].concat();
    let with = |rows: &[Row], more: &[Row]| [rows, more].concat();
    vec![
        ("from either of both", vec![
            (Do::Both("1"), "a", ("1", "1"), &[]),
            (Do::UndoA, "a", ("", ""), &[]),
            (Do::RedoB, "a", ("1", "1"), &[]),
            (Do::UndoB, "a", ("", ""), &[]),
            (Do::RedoA, "a", ("1", "1"), &[]),
        ]),
        ("branched, undo in a", with(&BRANCHED, &[
            (Do::UndoA, "a", ("1", "1"), &[]),
            (Do::UndoA, "a", ("", ""), &[]),
        ])),
        ("rejoined, redo in a", with(&rejoined, &[
            (Do::RedoA, "a", ("1", "1"), &[]),
            (Do::RedoA, "a", ("12", "1"), &[]),
        ])),
        ("rejoined, redo in b", with(&rejoined, &[
            (Do::RedoB, "a", ("1", "1"), &[]),
            (Do::RedoB, "a", ("1", "1"), &[]),
            (Do::RedoA, "a", ("12", "1"), &[]),
        ])),
        ("redo before it is joined again", with(&BRANCHED, &[
            (Do::UndoB, "a", ("12", ""), &["a"]),
            (Do::RedoB, "a", ("12", "1"), &[]),
        ])),
        ("redo after another edit", vec![
            (Do::Both("1"), "a", ("1", "1"), &[]),
            (Do::UndoA, "a", ("", ""), &[]),
            (Do::A("2"), "a", ("2", ""), &[]),
            (Do::RedoB, "a", ("2", "1"), &["a"]),
        ]),
        ("a rename is one step", vec![
            (Do::Name("c"), "c", ("", ""), &[]),
            (Do::Both("2"), "c", ("2", "2"), &[]),
            (Do::UndoB, "c", ("", ""), &[]),
            (Do::UndoA, "a", ("", ""), &[]),
            (Do::RedoA, "c", ("", ""), &[]),
            (Do::UndoA, "a", ("", ""), &[]),
            (Do::RedoA, "c", ("", ""), &[]),
            (Do::RedoB, "c", ("2", "2"), &[]),
        ]),
    ]
}

#[test]
fn undo_over_buffers_ends_as_edwood_383_lists_it_and_names_who_cannot_follow() {
    for (case, rows) in cases() {
        let mut world = World::new();
        let ui = world.ui();
        let (a, view_a) = world.open(ui, "a");
        let (b, view_b) = world.open(ui, "b");
        for (row, (act, name, texts, reported)) in rows.into_iter().enumerate() {
            let node = world.peer(ui).node();
            let group = node.new_group();
            let undone = match act {
                Do::Both(text) => {
                    node.type_text(view_a, text, group).unwrap();
                    node.type_text(view_b, text, group).unwrap();
                    Undone::default()
                }
                Do::A(text) => {
                    node.select(view_a, Span::at(u64::MAX)).unwrap();
                    node.type_text(view_a, text, group).unwrap();
                    Undone::default()
                }
                Do::Name(name) => {
                    let (name, group) = (name.into(), Some(group));
                    node.append_buffer(a, BufferOp::Name { name, group })
                        .unwrap();
                    Undone::default()
                }
                Do::UndoA => node.undo(view_a).unwrap(),
                Do::UndoB => node.undo(view_b).unwrap(),
                Do::RedoA => node.redo(view_a).unwrap(),
                Do::RedoB => node.redo(view_b).unwrap(),
            };
            world.peer(ui).flush();
            world.run();
            let at = alloc::format!("{case}, row {row}: {act:?}");
            assert_eq!((&*world.text(a), &*world.text(b)), texts, "{at}");
            let state = world.authority.node().state();
            assert_eq!(state.buffer(a).unwrap().name(), name, "{at}");
            let diverged: Vec<_> = undone.diverged.iter().map(|d| d.name.as_str()).collect();
            assert_eq!(diverged, reported, "{at}");
            world.check();
        }
    }
}

/// Two UIs: the first leads all but the buffer `b`, and both texts have a step in common.
fn shared() -> (World, [usize; 2], [BufferId; 2], [ViewId; 2]) {
    let mut world = World::new();
    let first = world.ui();
    let (a, view_a) = world.open(first, "a");
    let (b, view_b) = world.open(first, "b");
    let node = world.peer(first).node();
    let group = node.new_group();
    node.type_text(view_a, "1", group).unwrap();
    node.type_text(view_b, "1", group).unwrap();
    world.peer(first).flush();
    let second = world.join(AttachmentKind::Ui, Takeover::Watch);
    let shards = vec![Shard::Buffer(b)];
    let steal = false;
    world
        .peer(second)
        .say(ClientMessage::LeaseRequest { shards, steal });
    world.run();
    assert!(world.peer(second).node().leads(Shard::Buffer(b)));
    (world, [first, second], [a, b], [view_a, view_b])
}

fn step(world: &mut World, ui: usize, view: ViewId, direction: Direction) -> Undone {
    let peer = world.peer(ui);
    let mut out = Vec::new();
    let undone = peer.client.step(view, direction, &mut out).unwrap();
    peer.to_daemon.extend(out);
    undone
}

#[test]
fn a_member_that_another_party_leads_follows_by_a_proposal() {
    let (mut world, [first, _], [a, b], [view, _]) = shared();
    for (direction, text) in [(Direction::Back, ""), (Direction::Forth, "1")] {
        let undone = step(&mut world, first, view, direction);
        assert_eq!(
            (undone.buffers.clone(), undone.elsewhere.clone()),
            (vec![a], vec![b])
        );
        world.run();
        assert_eq!((&*world.text(a), &*world.text(b)), (text, text));
        let id = undone.proposed[0].0;
        let is_done = |event: &ClientEvent| match event {
            ClientEvent::Decided { id: of, outcome } => outcome.is_ok() && *of == id,
            _ => false,
        };
        assert!(world.peer(first).events.iter().any(is_done));
        world.check();
    }
}

#[test]
fn a_member_led_elsewhere_that_was_changed_meanwhile_is_refused_by_name() {
    let (mut world, [first, second], [a, b], [view_a, view_b]) = shared();
    world.peer(second).is_held = true;
    world.type_text(second, view_b, "2");
    let undone = step(&mut world, first, view_a, Direction::Back);
    assert_eq!(undone.proposed.len(), 1);
    world.run();
    world.peer(second).is_held = false;
    world.run();
    let id = undone.proposed[0].0;
    let refusal = world
        .peer(first)
        .events
        .iter()
        .find_map(|event| match event {
            ClientEvent::Decided { id: of, outcome } if *of == id => outcome.clone().err(),
            _ => None,
        });
    assert!(
        matches!(refusal, Some(Refusal::Diverged { buffer, .. }) if buffer == b),
        "{refusal:?}"
    );
    assert_eq!(world.text(a), "");
    assert!(world.text(b).contains('2') && world.text(b).contains('1'));
    // By now the change has come: it is told at once.
    step(&mut world, first, view_a, Direction::Forth);
    let undone = step(&mut world, first, view_a, Direction::Back);
    assert_eq!(undone.diverged[0].name, "b");
    world.run();
    world.check();
}

#[test]
fn undo_is_kept_over_put_get_rename_takeover_and_a_fresh_replica() {
    let mut world = World::new();
    let first = world.ui();
    let (buffer, view) = world.open(first, "/tmp/x");
    world.type_text(first, view, "one ");
    let node = world.peer(first).node();
    let (version, content) = {
        let known = node.state().buffer(buffer).unwrap();
        (known.version(), known.content())
    };
    // Put, rename, and the edit of a Get.
    let saved = BufferOp::Saved(Saved {
        version,
        content,
        digest: [0; 32],
        path: "/tmp/x".into(),
        cause: SaveCause::Put,
    });
    let group = Some(node.new_group());
    let name = "/tmp/y".into();
    node.append_buffer(buffer, saved).unwrap();
    node.append_buffer(buffer, BufferOp::Name { name, group })
        .unwrap();
    world.peer(first).flush();
    world.run();
    let base = version.next();
    let splices = vec![crate::edit::Splice::new(Span::new(0, 3), "ONE")];
    let edit = crate::proposal::Change::Edit {
        buffer,
        base,
        splices,
    };
    let mut out = Vec::new();
    world
        .authority
        .propose_as_server(world.now, vec![edit], &mut out);
    world.deliver(out);
    world.run();
    assert_eq!(world.text(buffer), "ONE ");
    // Another UI starts from a snapshot and takes over.
    let second = world.ui();
    assert!(world.is_leading(second));
    let known = |world: &World| {
        let state = world.authority.node().state();
        let buffer = state.buffer(buffer).unwrap();
        let name = String::from(buffer.name());
        (buffer.text().to_string(), name, buffer.is_modified())
    };
    let rows = [
        ("one ", "/tmp/y", true),
        ("one ", "/tmp/x", false),
        ("", "/tmp/x", true),
    ];
    for (text, name, is_modified) in rows {
        step(&mut world, second, view, Direction::Back);
        world.run();
        assert_eq!(known(&world), (text.into(), name.into(), is_modified));
    }
    for (text, name, is_modified) in [rows[1], rows[0], ("ONE ", "/tmp/y", true)] {
        step(&mut world, second, view, Direction::Forth);
        world.run();
        assert_eq!(known(&world), (text.into(), name.into(), is_modified));
    }
    world.check();
}
