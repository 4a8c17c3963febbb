//! What the screen shows, as text, at three sizes. `APEX_BLESS=1` writes what is shown now.

use super::*;

fn check_screen(width: u16, height: u16) {
    let mut world = World::new(width, height);
    let lines: String = (1..=90)
        .map(|n| format!("line {n}: 漢字 and\ta tab\n"))
        .collect();
    world.disk.insert(
        "/t/a.txt".into(),
        format!("{}\n{lines}", "long ".repeat(60)),
    );
    world.act(0, "b3 a.txt\nb2 Newcol");
    world.act(
        0,
        "type unnamed \u{1} \u{10FEFF} e\u{301}\nkey Alt-Left\nkey Alt-Down\ntype X",
    );
    let shown = world.uis[0].app.grid().to_text();
    let path = format!(
        "{}/src/app/tests/{width}x{height}.txt",
        env!("CARGO_MANIFEST_DIR")
    );
    if std::env::var_os("APEX_BLESS").is_some() {
        std::fs::write(&path, &shown).unwrap();
    }
    let expect = std::fs::read_to_string(&path).unwrap();
    assert_eq!(shown, expect, "{shown}");
    assert_eq!(expect.lines().count(), usize::from(height));
}

#[test]
fn a_screen_of_80x24() {
    check_screen(80, 24);
}

#[test]
fn a_screen_of_120x40() {
    check_screen(120, 40);
}

#[test]
fn a_screen_of_200x60() {
    check_screen(200, 60);
}

#[test]
fn the_smallest_screens_do_not_panic() {
    for (width, height) in [(0, 0), (1, 1), (2, 2), (3, 30), (300, 1)] {
        let mut world = World::new(width, height);
        world.act(
            0,
            "key Alt-N\ntype hello\\nthere\nkey Up\nkey PageDown\nkey Alt-F",
        );
        let _grid = world.uis[0].app.grid();
        world.act(
            0,
            "b1 @0,0\nb2 @0,1\nb3 @1,1\npress1 @0,0\ndrag @5,5\nrelease1 @9,9",
        );
        world.check_hashes();
    }
}

#[test]
fn before_the_session_is_there_the_top_row_says_so() {
    let hello = ui_hello(
        SessionName::Label("main".into()),
        "ui".into(),
        Takeover::Transfer,
    );
    let mut app = App::new(
        hello,
        Opening::default(),
        Size {
            width: 40,
            height: 3,
        },
    );
    app.update(
        Millis::new(0),
        Event::Input(Input::Resize(Size {
            width: 40,
            height: 3,
        })),
    );
    assert!(app.grid().to_text().contains("attaching"));
    let left = app.update(
        Millis::new(0),
        Event::Input(Input::Action(Action::Command("Exit"))),
    );
    assert_eq!(left, [Effect::Leave(String::new())]);
}
