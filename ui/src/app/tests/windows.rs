//! Windows and columns: made, closed, grown, moved.

use super::*;

fn windows(world: &World) -> Vec<Vec<(String, u16)>> {
    let app = &world.uis[0].app;
    app.screen
        .columns
        .iter()
        .map(|column| {
            column
                .windows
                .iter()
                .map(|w| {
                    (
                        app.text(ViewId::Body(w.id)).unwrap().1.name().to_owned(),
                        w.area.height,
                    )
                })
                .collect()
        })
        .collect()
}

fn names(world: &World) -> Vec<Vec<String>> {
    windows(world)
        .into_iter()
        .map(|c| c.into_iter().map(|(name, _)| name).collect())
        .collect()
}

#[test]
fn new_newcol_and_zerox_make_windows() {
    let mut world = World::new(80, 24);
    world.act(0, "b2 Newcol");
    assert_eq!(names(&world), [vec!["/t/"], vec![""]]);
    world.act(0, "type hello\nkey Alt-N");
    assert_eq!(names(&world), [vec!["/t/"], vec!["", ""]]);
    world.act(0, "type x\nkey Alt-2\ntype y");
    assert_eq!(names(&world)[1].len(), 3);
    let state = world.authority.node().state();
    let twice = state
        .buffers()
        .filter(|(_, b)| b.text().to_string() == "xy")
        .count();
    assert_eq!(twice, 1, "both windows show one text");
    world.check_hashes();
}

#[test]
fn a_zerox_keeps_a_selection_of_its_own() {
    let mut world = World::new(80, 40);
    let window = world.open("/t/f", "ab|");
    world.act(0, "key Alt-2\nkey Ctrl-Home\ntype X");
    assert_eq!(world.shown(0, ViewId::Body(window)), "Xab|");
    let other = world.uis[0].app.focus.unwrap();
    assert_eq!(world.shown(0, other), "X|ab");
}

#[test]
fn del_warns_once_of_a_modified_file() {
    let mut world = World::new(80, 24);
    world.open("/t/f", "|");
    world.act(0, "type x\nkey Alt-D");
    assert_eq!(names(&world), [vec!["/t/", "/t/f", "/t/+Errors"]]);
    assert_eq!(
        world.text_of("/t/+Errors").unwrap(),
        "/t/f modified; Put keeps it, a second Del drops it\n"
    );
    world.act(0, "b1 x\ntype y\nkey Alt-D");
    assert_eq!(names(&world)[0].len(), 3, "an edit arms the warning again");
    world.act(0, "key Alt-D");
    assert_eq!(names(&world), [vec!["/t/", "/t/+Errors"]]);
    world.check_hashes();
}

#[test]
fn del_of_clean_unnamed_and_doubled_windows_does_not_warn() {
    let mut world = World::new(80, 24);
    world.act(0, "key Alt-N\ntype short\nkey Alt-D");
    assert_eq!(names(&world), [vec!["/t/"]]);
    world.open("/t/f", "|");
    world.act(0, "type x\nkey Alt-2\nkey Alt-D");
    assert_eq!(names(&world), [vec!["/t/", "/t/f"]]);
    world.check_hashes();
}

#[test]
fn exit_warns_once_and_leaves() {
    let mut world = World::new(80, 24);
    world.open("/t/f", "|");
    world.act(0, "type x\nkey Ctrl-Q");
    assert!(world.uis[0].left.is_none());
    assert!(world.status(0).contains("/t/f"), "{}", world.status(0));
    world.act(0, "key Ctrl-Q");
    assert!(world.uis[0].left.as_ref().unwrap().contains("session main"));
}

#[test]
fn delcol_and_sort_act_on_their_column() {
    let mut world = World::new(80, 40);
    world.open("/t/b", "|");
    world.open("/t/a", "|");
    world.act(0, "b2 Sort");
    assert_eq!(names(&world), [vec!["/t/", "/t/a", "/t/b"]]);
    world.act(0, "b2 Newcol\nb2 Delcol");
    assert_eq!(names(&world), [vec![String::new()]]);
    world.check_hashes();
}

#[test]
fn boxes_grow_windows() {
    let mut world = World::new(80, 25);
    let window = world.open("/t/f", "|");
    let handle = |world: &World| {
        let tag = world.uis[0].app.screen.window(window).unwrap().2.tag;
        format!("@{},{}", tag.x, tag.y)
    };
    assert_eq!(
        windows(&world)[0],
        [("/t/".into(), 12), ("/t/f".into(), 11)]
    );
    world.act(0, &format!("b1 {}", handle(&world)));
    assert_eq!(windows(&world)[0], [("/t/".into(), 7), ("/t/f".into(), 16)]);
    world.act(0, &format!("b2 {}", handle(&world)));
    assert_eq!(windows(&world)[0], [("/t/".into(), 1), ("/t/f".into(), 22)]);
    world.act(0, &format!("b3 {}", handle(&world)));
    assert_eq!(windows(&world)[0], [("/t/".into(), 0), ("/t/f".into(), 23)]);
    world.act(0, &format!("b1 {}", handle(&world)));
    assert_eq!(windows(&world)[0], [("/t/".into(), 1), ("/t/f".into(), 22)]);
}

#[test]
fn windows_are_dragged_within_and_across_columns() {
    let mut world = World::new(80, 25);
    let window = world.open("/t/f", "|");
    let handle = |world: &World| {
        let tag = world.uis[0].app.screen.window(window).unwrap().2.tag;
        format!("@{},{}", tag.x, tag.y)
    };
    let from = handle(&world);
    world.act(0, &format!("press1 {from}\nrelease1 @0,20"));
    assert_eq!(windows(&world)[0], [("/t/".into(), 18), ("/t/f".into(), 5)]);
    let from = handle(&world);
    world.act(0, &format!("press1 {from}\nrelease1 @0,6"));
    assert_eq!(windows(&world)[0], [("/t/".into(), 4), ("/t/f".into(), 19)]);
    world.act(0, "b2 Newcol");
    let from = handle(&world);
    world.act(0, &format!("press1 {from}\nrelease1 @60,12"));
    assert_eq!(names(&world), [vec!["/t/"], vec!["", "/t/f"]]);
    assert_eq!(windows(&world)[0], [("/t/".into(), 23)]);
    world.act(0, "key Alt-Shift-Up");
    assert_eq!(names(&world), [vec!["/t/"], vec!["/t/f", ""]]);
    world.act(0, "key Alt-Shift-Left");
    assert_eq!(names(&world), [vec!["/t/", "/t/f"], vec![""]]);
    world.check_hashes();
}

#[test]
fn columns_are_dragged() {
    let mut world = World::new(100, 25);
    world.act(0, "b2 Newcol");
    let widths = |world: &World| -> Vec<u16> {
        world.uis[0]
            .app
            .screen
            .columns
            .iter()
            .map(|column| column.area.width)
            .collect()
    };
    assert_eq!(widths(&world), [60, 40]);
    world.act(0, "press1 @60,1\nrelease1 @30,1");
    assert_eq!(widths(&world), [30, 70]);
    assert_eq!(names(&world), [vec!["/t/"], vec![""]]);
    world.act(0, "press1 @0,1\nrelease1 @80,1");
    assert_eq!(names(&world), [vec![""], vec!["/t/"]]);
}

#[test]
fn the_keyboard_reaches_every_window() {
    let mut world = World::new(80, 40);
    let first = world.uis[0].app.screen.columns[0].windows[0].id;
    let window = world.open("/t/f", "|");
    world.act(0, "b2 Newcol");
    let other = world.uis[0].app.focus.unwrap();
    let focus = |world: &World| world.uis[0].app.focus.unwrap();
    world.act(0, "key Alt-Left");
    assert_eq!(focus(&world), ViewId::Body(first));
    world.act(0, "key Alt-Down");
    assert_eq!(focus(&world), ViewId::Body(window));
    world.act(0, "key F4");
    assert_eq!(focus(&world), ViewId::Tag(window));
    world.act(0, "key F4\nkey Alt-Right");
    assert_eq!(focus(&world), other);
    world.act(0, "key Alt-K");
    assert!(matches!(focus(&world), ViewId::Column(_)));
    world.act(0, "key Alt-O");
    assert_eq!(focus(&world), ViewId::Top);
}

#[test]
fn f1_shows_the_keys() {
    let mut world = World::new(80, 40);
    world.act(0, "key F1");
    assert!(world.text_of("+Keys").unwrap().contains("Ctrl-S"));
}
