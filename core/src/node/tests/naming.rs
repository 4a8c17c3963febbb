//! Tags whose leader is overtaken: what was typed in them is kept, and names that were given.

use super::asked::{started, wake};
use super::*;
use crate::text::Span;

/// A UI that leads "abcdef" as `/tmp/x`; what it says is held back.
fn scene() -> (World, usize, BufferId, WindowId) {
    let (mut world, first, _, buffer, view) = started();
    world.peer(first).is_held = true;
    (world, first, buffer, view.window().unwrap())
}

fn tag(world: &World, window: WindowId) -> String {
    world.authority.node().tag_text(window).unwrap()
}

/// Types behind a text's end.
fn append(world: &mut World, index: usize, view: ViewId, text: &str) {
    let node = world.peer(index).node();
    node.select(view, Span::at(u64::MAX)).unwrap();
    world.type_text(index, view, text);
}

/// Puts another name into a tag, without leaving it.
fn retype_name(world: &mut World, index: usize, window: WindowId, name: &str) {
    let tag = ViewId::Tag(window);
    let node = world.peer(index).node();
    let old = tags::tag_name(&node.tag_text(window).unwrap())
        .chars()
        .count();
    node.select(tag, Span::new(0, old as u64)).unwrap();
    world.type_text(index, tag, name);
}

fn name(world: &World, buffer: BufferId) -> String {
    let node = world.authority.node();
    node.state().buffer(buffer).unwrap().name().into()
}

fn recovered(world: &World) -> Option<String> {
    let state = world.authority.node().state();
    let buffer = state.buffer_named("/tmp/+Recovered")?;
    Some(world.text(buffer))
}

#[test]
fn what_was_typed_in_a_tag_and_overtaken_lands_in_the_tag() {
    let (mut world, first, _, window) = scene();
    append(&mut world, first, ViewId::Tag(window), "one");
    // The editor's part changes on both sides.
    let body = ViewId::Body(window);
    append(&mut world, first, body, "1");
    world.peer(first).node().undo(body).unwrap();
    world.peer(first).node().refresh_tags().unwrap();
    append(&mut world, first, ViewId::Tag(window), "two");
    append(&mut world, first, ViewId::Top, "three");
    let second = world.join(AttachmentKind::Ui, Takeover::Steal);
    append(&mut world, second, body, "#");
    wake(&mut world, first);
    let want = "/tmp/x Del Snarf Undo Put | Look onetwo";
    assert_eq!(tag(&world, window), want);
    let top = world.authority.node().state().layout().unwrap().top;
    assert!(world.text(top).ends_with("three"));
    assert_eq!(recovered(&world), None);
    world.check();
}

#[test]
fn what_was_typed_in_the_tag_of_a_window_that_is_gone_is_in_recovered() {
    let (mut world, first, _, window) = scene();
    append(&mut world, first, ViewId::Tag(window), "one");
    let second = world.join(AttachmentKind::Ui, Takeover::Steal);
    world.peer(second).node().close_window(window).unwrap();
    world.peer(second).flush();
    wake(&mut world, first);
    let want = "typed in /tmp/x and overtaken:\none\n";
    assert_eq!(recovered(&world).as_deref(), Some(want));
    world.check();
}

#[test]
fn a_tag_that_only_the_editor_has_written_leaves_nothing() {
    let (mut world, first, buffer, window) = scene();
    append(&mut world, first, ViewId::Body(window), "1");
    world.join(AttachmentKind::Ui, Takeover::Steal);
    wake(&mut world, first);
    assert_eq!(world.text(buffer), "abcdef1");
    assert_eq!(recovered(&world), None);
    world.check();
}

#[test]
fn a_name_that_was_given_and_overtaken_is_given() {
    let (mut world, first, buffer, window) = scene();
    retype_name(&mut world, first, window, "/tmp/new");
    world.peer(first).node().commit_rename().unwrap();
    world.peer(first).flush();
    let second = world.join(AttachmentKind::Ui, Takeover::Steal);
    append(&mut world, second, ViewId::Body(window), "#");
    wake(&mut world, first);
    assert_eq!(name(&world, buffer), "/tmp/new");
    assert!(tag(&world, window).starts_with("/tmp/new Del"));
    assert_eq!(recovered(&world), None);
    world.check();
}

#[test]
fn a_name_that_the_user_was_typing_when_another_took_over_is_given() {
    // What was typed has arrived, or not; the other has asked, or not.
    for (is_held, takeover) in [
        (true, Takeover::Steal),
        (false, Takeover::Steal),
        (false, Takeover::Transfer),
    ] {
        let (mut world, first, buffer, window) = scene();
        world.peer(first).is_held = is_held;
        retype_name(&mut world, first, window, "/tmp/new");
        world.run();
        assert_eq!(name(&world, buffer), "/tmp/x", "not given yet");
        let second = world.join(AttachmentKind::Ui, takeover);
        append(&mut world, second, ViewId::Body(window), "#");
        wake(&mut world, first);
        world.peer(first).node().commit_rename().unwrap();
        assert_eq!(name(&world, buffer), "/tmp/new", "{takeover:?}");
        assert!(tag(&world, window).starts_with("/tmp/new Del"));
        assert_eq!(recovered(&world), None);
        world.check();
    }
}

#[test]
fn a_name_that_is_being_typed_stays_with_whoever_leads_the_tag_over_a_fresh_snapshot() {
    let (mut world, first, buffer, window) = scene();
    world.peer(first).is_held = false;
    retype_name(&mut world, first, window, "/tmp/new");
    world.run();
    world.receive(first, ClientMessage::Resync);
    world.run();
    append(&mut world, first, ViewId::Body(window), "1");
    assert!(tag(&world, window).starts_with("/tmp/new Del"));
    world.peer(first).node().commit_rename().unwrap();
    world.peer(first).flush();
    world.run();
    assert_eq!(name(&world, buffer), "/tmp/new");
    world.check();
}
