//! Selecting, sweeping, chords, scroll bars.

use super::*;

#[test]
fn the_first_button_selects() {
    check("one two three|", "b1 two", "one |two three");
    check("one two three|", "b1 two .. three", "one «two »three");
    check("one two three|", "b1 three .. two", "one «two »three");
    check("one two|", "b1 two\nb1 two", "one «two»");
    check("one two|", "b1 two\nwait 600\nb1 two", "one |two");
    check("a 漢字 b|", "b1 b", "a 漢字 |b");
}

#[test]
fn one_two_cuts_and_one_three_pastes() {
    check(
        "one two|",
        "press1 one\ndrag two\npress2 two\nrelease2 two\nrelease1 two",
        "|two",
    );
    let snarf = "press1 one\ndrag two\npress2 @9,9\npress3 @9,9\nrelease1 @9,9";
    check("one two|", snarf, "«one »two");
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "one two|");
    world.act(0, snarf);
    assert_eq!(world.uis[0].app.snarf, "one ");
    world.act(0, "press1 two\npress3 two\nrelease3 two\nrelease1 two");
    assert_eq!(world.shown(0, ViewId::Body(window)), "one «one »two");
    world.act(0, "press1 two\npress3 two\npress2 two\nrelease1 two");
    assert_eq!(world.shown(0, ViewId::Body(window)), "one one |two");
}

#[test]
fn the_second_button_executes_a_word_a_sweep_or_the_selection() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "make all; date|");
    world.act(0, "b2 date\nb2 make .. ;\nb1 all .. ;\nb2 all");
    let ran: Vec<&str> = world
        .ran
        .iter()
        .map(|(_, command)| command.as_str())
        .collect();
    assert_eq!(ran, ["date", "make all", "all"]);
    assert_eq!(world.ran[0].0, "/t/");
    assert_eq!(world.shown(0, ViewId::Body(window)), "make «all»; date");
}

#[test]
fn a_two_one_chord_passes_the_selection_as_one_argument() {
    let mut world = World::new(80, 24);
    world.open("/t/f", "echo\nit's $HOME|");
    world.act(
        0,
        "b1 it .. HOME\npress2 echo\npress1 echo\nrelease1 echo\nrelease2 echo",
    );
    assert_eq!(
        world.ran,
        [("/t/".to_owned(), "echo 'it'\\''s $'".to_owned())]
    );
}

#[test]
fn another_button_calls_a_sweep_off() {
    let mut world = World::new(80, 24);
    world.open("/t/f", "date|");
    world.act(0, "press2 date\npress3 date\nrelease3 date\nrelease2 date");
    world.act(0, "press3 date\npress1 date\nrelease1 date\nrelease3 date");
    assert_eq!(world.ran, []);
}

#[test]
fn the_third_button_searches_on_and_round() {
    check("foo |bar\nx foo\n", "b3 foo b", "foo bar\nx «foo»\n");
    check(
        "foo |bar\nx foo\n",
        "b3 foo b\nkey F6",
        "«foo» bar\nx foo\n",
    );
    check("a b|", "b3 a", "«a» b");
}

#[test]
fn the_scroll_bar_goes_up_and_down_by_the_same_rows() {
    let mut world = World::new(80, 24);
    let mut text = String::from("|");
    text.push_str(&"0123456789".repeat(500));
    text.push_str(&"\nshort".repeat(60));
    let window = world.open("/t/f", &text);
    let origin = |world: &World| {
        let (_, buffer, view) = world.uis[0].app.text(ViewId::Body(window)).unwrap();
        assert!(view.origin <= buffer.text().len());
        view.origin
    };
    let area = world.uis[0].app.screen.window(window).unwrap().2.body;
    let bar = format!("@{},{}", area.x, area.y + 7);
    world.act(0, &format!("b3 {bar}\nb3 {bar}"));
    assert_eq!(origin(&world), 14 * 79);
    world.act(0, &format!("b1 {bar}"));
    assert_eq!(origin(&world), 7 * 79);
    world.act(0, &format!("b1 {bar}"));
    assert_eq!(origin(&world), 0);
    world.act(0, &format!("b2 @{},{}", area.x, area.y + area.height / 2));
    assert!(origin(&world) > 2000);
    world.act(0, "wheel 3 @20,20\nwheel -3 @20,20");
}

#[test]
fn dragging_below_the_window_scrolls() {
    let mut world = World::new(80, 24);
    let lines: String = (0..100).map(|n| format!("line {n}\n")).collect();
    let window = world.open("/t/f", &format!("|{lines}"));
    let area = world.uis[0].app.screen.window(window).unwrap().2.body;
    let below = format!("drag @5,{}\n", area.bottom()).repeat(5);
    world.act(
        0,
        &format!("press1 line 0\n{below}release1 @5,{}", area.bottom()),
    );
    let (_, _, view) = world.uis[0].app.text(ViewId::Body(window)).unwrap();
    assert_eq!(view.origin, "line 0\n".len() as u64 * 5);
    assert!(view.dot.len() > u64::from(area.height) * 7);
}

#[test]
fn a_click_gives_the_keyboard_and_the_wheel_does_not() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "text|");
    world.act(0, "wheel -3 sub/");
    assert_eq!(world.uis[0].app.focus, Some(ViewId::Body(window)));
    world.act(0, "b1 sub/");
    assert_ne!(world.uis[0].app.focus, Some(ViewId::Body(window)));
    world.check_hashes();
}
