//! What tools and the daemon say.

use apex_core::entry::Annotation;

use super::*;
use crate::theme::{Mark, Tone};

#[test]
fn the_newest_notice_stands_in_the_top_row_until_notices_lists_it() {
    let mut world = World::new(100, 24);
    let window = world.open("/t/f", "|");
    world.notify(0, "for whoever looks for it");
    assert_eq!(world.status(0), "");
    world.notify(1, "one\nand more");
    assert_eq!(world.status(0), "one… (F3: Notices)");
    world.notify(2, "two");
    world.act(0, "type x");
    assert_eq!(world.status(0), "two (F3: 2 Notices)", "typing goes on");
    assert!(world.uis[0].app.status().is_alarm);
    world.act(0, "key F3");
    assert_eq!(world.status(0), "");
    assert_eq!(
        world.text_of("+Notices").unwrap(),
        "apexd: debug: for whoever looks for it\napexd: information: one\nand more\napexd: \
         warning: two\n"
    );
    world.act(0, "type y");
    assert_eq!(
        world.shown(0, ViewId::Body(window)),
        "xy|",
        "the keyboard stays"
    );
    world.check_hashes();
}

#[test]
fn the_window_of_notices_goes_on_and_is_made_again_when_it_was_closed() {
    let mut world = World::new(100, 40);
    world.open("/t/f", "|");
    world.act(0, "key F3");
    assert_eq!(world.status(0), "no tool has said anything, nor has apexd");
    world.notify(1, "one");
    world.act(0, "key F3");
    world.notify(3, "two");
    assert!(
        world
            .text_of("+Notices")
            .unwrap()
            .ends_with("apexd: error: two\n")
    );
    assert_eq!(world.status(0), "two (F3: Notices)", "it was not read yet");
    world.act(0, "b1 +Notices\nkey Alt-D");
    assert!(world.text_of("+Notices").is_none());
    world.act(0, "key F3");
    assert!(
        world
            .text_of("+Notices")
            .unwrap()
            .starts_with("apexd: information: one\n")
    );
    world.check_hashes();
}

#[test]
fn a_ui_that_comes_later_has_the_notices_of_before() {
    let mut world = World::new(100, 24);
    world.notify(1, "early");
    world.join(100, 24, Takeover::Watch);
    world.act(1, "key F2");
    world.pass(apex_core::limits::TRANSFER_MS);
    assert_eq!(world.status(1), "early (F3: Notices)");
}

#[test]
fn what_a_tool_says_of_a_place_is_read_with_the_cursor_there() {
    let mut world = World::new(100, 24);
    let window = world.open("/t/f", "one |two three");
    let (buffer, found, _) = world.uis[0].app.text(ViewId::Body(window)).unwrap();
    let base = found.version();
    let note = |q0, q1, severity, message: &str| Annotation {
        at: Span::new(q0, q1),
        style: "match".into(),
        severity,
        message: message.into(),
    };
    let spans = vec![
        note(4, 7, 1, "a hint"),
        note(4, 5, 4, "no such name\nat all"),
        note(9, 10, 0, ""),
    ];
    let layer = "lint".into();
    world.propose(vec![Change::Annotate {
        buffer,
        base,
        layer,
        spans,
    }]);
    assert_eq!(world.status(0), "no such name");
    world.act(0, "key Right\nkey Right");
    assert_eq!(world.status(0), "a hint");
    world.act(0, "key End\nkey Left");
    assert_eq!(world.status(0), "");
    let marks: Vec<_> = {
        let app = &world.uis[0].app;
        let (x, y) = world.find(0, "one two three");
        let grid = app.grid();
        let row = grid.row(y);
        row[usize::from(x)..]
            .iter()
            .take(13)
            .map(|cell| cell.role.mark)
            .collect()
    };
    assert_eq!(marks[0], Mark::Plain);
    assert_eq!(marks[4], Mark::Noted(Tone::Error));
    assert_eq!(marks[5], Mark::Noted(Tone::Hint));
    assert_eq!(marks[9], Mark::Noted(Tone::Match));
}
