//! Two UIs on one session: watching, taking over, and typing that waits.

use apex_core::limits::TRANSFER_MS;

use super::*;

fn two() -> (World, ViewId) {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "text|");
    world.join(80, 24, Takeover::Watch);
    (world, ViewId::Body(window))
}

#[test]
fn a_watching_ui_sees_and_does_not_type() {
    let (mut world, view) = two();
    world.act(0, "type X");
    assert_eq!(
        world.uis[1].app.text(view).unwrap().1.text().to_string(),
        "textX"
    );
    let words = world.status(1);
    assert!(
        words.starts_with("watching, led by 1 (ui1); press F2"),
        "{words}"
    );
    world.act(1, "b1 textX\ntype Y");
    assert_eq!(world.shown(0, view), "textX|");
    world.check_hashes();
}

#[test]
fn a_watching_ui_selects_and_scrolls_for_itself() {
    let (mut world, view) = two();
    world.act(1, "b1 ext .. xt");
    assert_eq!(world.shown(1, view), "t«e»xt");
    assert_eq!(world.shown(0, view), "text|");
    world.act(0, "key Ctrl-Home\ntype AB");
    assert_eq!(world.shown(1, view), "ABt«e»xt", "edits move it");
    world.check_hashes();
}

#[test]
fn taking_over_moves_the_lead_and_nothing_is_lost() {
    let (mut world, view) = two();
    world.act(0, "type 1");
    world.act(1, "key F2");
    world.pass(TRANSFER_MS);
    assert!(world.uis[1].app.client.is_leading());
    assert!(!world.uis[0].app.client.is_leading());
    world.act(1, "b1 text1\ntype 2");
    world.act(0, "type 345");
    assert_eq!(
        world.uis[0].app.text(view).unwrap().1.text().to_string(),
        "2text1345",
        "who is displaced while typing types on, by proposals"
    );
    assert_eq!(world.shown(0, view), "2text1345|");
    assert!(
        world.status(0).starts_with("watching, led by 2 (ui2)"),
        "{}",
        world.status(0)
    );
    world.check_hashes();
}

#[test]
fn a_lost_connection_says_that_the_session_lives_on() {
    let (mut world, _) = two();
    world.update(0, Event::Lost("the daemon closed the connection".into()));
    assert_eq!(world.status(0), "disconnected");
    assert!(world.uis[0].left.as_ref().unwrap().contains("lives on"));
}
