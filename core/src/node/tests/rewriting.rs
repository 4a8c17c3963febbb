//! Several texts changed at once: whole or not at all, one step of undo.

use alloc::vec;

use super::*;
use crate::edit::Splice;
use crate::entry::Dot;
use crate::node::rewriting::Rewrite;
use crate::proposal::Refusal;
use crate::text::Span;

/// A UI that leads two texts with a window each.
fn two_texts() -> (World, usize, [(BufferId, ViewId); 2]) {
    let mut world = World::new();
    let ui = world.ui();
    world.run();
    let node = world.peer(ui).node();
    let texts = ["one", "two"].map(|text| {
        let buffer = node.new_buffer(BufferKind::File, text).unwrap();
        let window = node.new_window(buffer, Placement::Active).unwrap();
        let view = ViewId::Body(window);
        let group = node.new_group();
        node.type_text(view, text, group).unwrap();
        (buffer, view)
    });
    world.run();
    (world, ui, texts)
}

fn text(node: &Node, buffer: BufferId) -> String {
    node.state().buffer(buffer).unwrap().text().to_string()
}

fn part(node: &Node, buffer: BufferId, splices: Vec<Splice>) -> Rewrite {
    let base = node.state().buffer(buffer).unwrap().version();
    Rewrite {
        buffer,
        base,
        splices,
        dot: None,
    }
}

#[test]
fn texts_change_together_and_one_undo_takes_it_back() {
    let (mut world, ui, [(a, view), (b, _)]) = two_texts();
    let node = world.peer(ui).node();
    let mut first = part(node, a, vec![Splice::new(Span::new(0, 1), "O")]);
    let at = Span::new(0, 3);
    first.dot = Some(Dot { view, at });
    let second = part(node, b, vec![Splice::new(Span::at(3), "!")]);
    let group = node.new_group();
    node.rewrite(vec![first, second], group).unwrap();
    assert_eq!(node.view(view).unwrap().dot, at);
    assert_eq!(
        (text(node, a), text(node, b)),
        ("One".into(), "two!".into())
    );
    node.undo(view).unwrap();
    assert_eq!((text(node, a), text(node, b)), ("one".into(), "two".into()));
    world.peer(ui).flush();
    world.run();
    world.check();
}

#[test]
fn a_text_that_cannot_follow_keeps_all_of_them_as_they_are() {
    let (mut world, ui, [(a, view), (b, _)]) = two_texts();
    let node = world.peer(ui).node();
    let first = part(node, a, vec![Splice::new(Span::new(0, 3), "ONE")]);
    let second = part(node, b, vec![Splice::new(Span::at(0), "x")]);
    let group = node.new_group();
    node.replace(view, Splice::new(Span::at(1), "-"), Span::at(2), group)
        .unwrap();
    let group = node.new_group();
    let refused = node
        .rewrite(vec![first, second.clone()], group)
        .unwrap_err();
    assert!(matches!(refused, Refusal::Conflict { buffer, .. } if buffer == a));
    assert_eq!(
        (text(node, a), text(node, b)),
        ("o-ne".into(), "two".into())
    );
    // What was typed elsewhere in the text is no hindrance.
    let mut third = second;
    third.buffer = a;
    third.dot = Some(Dot {
        view,
        at: Span::at(0),
    });
    third.base = node.state().buffer(a).unwrap().version();
    node.replace(view, Splice::new(Span::at(4), "."), Span::at(5), group)
        .unwrap();
    let group = node.new_group();
    node.rewrite(vec![third], group).unwrap();
    assert_eq!(text(node, a), "xo-ne.");
    assert_eq!(node.view(view).unwrap().dot, Span::at(6));
    world.peer(ui).flush();
    world.run();
    world.check();
}

#[test]
fn a_change_of_any_length_goes_in_entries_that_fit_and_is_one_step() {
    let (mut world, ui, [(a, view), _]) = two_texts();
    let long = "0123456\n".repeat(limits::APPEND_LEN_MAX / 4);
    let node = world.peer(ui).node();
    let change = part(node, a, vec![Splice::new(Span::at(1), long.as_str())]);
    let group = node.new_group();
    node.rewrite(vec![change], group).unwrap();
    world.peer(ui).flush();
    world.run();
    assert_eq!(text(world.peer(ui).node(), a), alloc::format!("o{long}ne"));
    let node = world.peer(ui).node();
    node.undo(view).unwrap();
    assert_eq!(text(node, a), "one");
    world.peer(ui).flush();
    world.run();
    world.check();
}
