//! Putting, opening, looking up, renaming.

use apex_core::limits::TRANSFER_MS;

use super::*;

#[test]
fn put_writes_the_file_and_cleans_the_window() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "|");
    world.act(0, "type hello\nkey Ctrl-S");
    assert_eq!(world.disk["/t/f"], "hello");
    assert!(!world.tag(window).contains("Put"), "{}", world.tag(window));
    assert!(world.uis[0].app.grid().to_text().contains('□'));
    world.check_hashes();
}

#[test]
fn a_file_that_changed_on_disk_is_put_by_force_only() {
    let mut world = World::new(80, 24);
    world.open("/t/f", "|");
    world.disk.insert("/t/f".into(), "other".into());
    world.act(0, "type mine\nkey Ctrl-S");
    assert_eq!(world.disk["/t/f"], "other");
    let words = world.text_of("/t/+Errors").unwrap();
    assert!(
        words.contains("changed on disk") && words.contains("Put!"),
        "{words}"
    );
    world.act(0, "key F4\nkey End\ntype  Put!\nkey F5");
    assert_eq!(world.disk["/t/f"], "mine");
}

#[test]
fn put_without_a_name_says_what_to_do() {
    let mut world = World::new(80, 24);
    world.act(0, "key Alt-N\ntype x\nkey Ctrl-S");
    assert_eq!(
        world.status(0),
        "no name: F4, type one in front of Del, then Put"
    );
    world.act(0, "key F4\ntype /t/new\nkey Ctrl-S");
    assert_eq!(world.disk["/t/new"], "x");
    world.check_hashes();
}

#[test]
fn put_to_another_file_does_not_rename() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "Put g|");
    world.act(0, "b2 Put g .. @60,20");
    assert_eq!(world.disk["/t/g"], "Put g");
    assert!(world.tag(window).contains("/t/f Del Snarf Undo Put"));
}

#[test]
fn look_opens_files_with_addresses_and_finds_open_windows() {
    let mut world = World::new(80, 40);
    world
        .disk
        .insert("/t/src/m.rs".into(), "one\ntwo\nthree\n".into());
    let window = world.open("/t/f", "src/m.rs:2: wrong\nsrc/m.rs:#4\n:1\n|");
    world.act(0, "b3 src/m.rs:2");
    let view = world.uis[0].app.focus.unwrap();
    assert_eq!(world.shown(0, view), "one\n«two\n»three\n");
    world.act(0, "b1 three\nb3 src/m.rs:#4");
    assert_eq!(world.uis[0].app.focus, Some(view));
    assert_eq!(world.shown(0, view), "one\n|two\nthree\n");
    world.act(0, "b3 :1");
    assert_eq!(
        world.shown(0, ViewId::Body(window)).lines().next(),
        Some("«src/m.rs:2: wrong")
    );
    world.check_hashes();
}

#[test]
fn look_takes_names_with_blanks_when_they_are_swept() {
    let mut world = World::new(80, 24);
    world.disk.insert("/t/a b.txt".into(), "here\n".into());
    world.open("/t/f", "a b.txt end|");
    world.act(0, "b3 a b .. end");
    let view = world.uis[0].app.focus.unwrap();
    // The sweep ends with a blank, which no file has: the text itself is found.
    assert_eq!(world.shown(0, view), "«a b.txt »end");
    world.act(0, "press3 a b.txt\ndrag @8,14\nrelease3 @8,14");
    let view = world.uis[0].app.focus.unwrap();
    assert_eq!(world.shown(0, view), "|here\n");
}

#[test]
fn an_address_out_of_range_is_told() {
    let mut world = World::new(80, 24);
    world.disk.insert("/t/m.rs".into(), "one\n".into());
    world.open("/t/f", "m.rs:99|");
    world.act(0, "b3 m.rs:99");
    assert_eq!(world.status(0), "/t/m.rs:99: address out of range");
}

#[test]
fn find_searches_from_the_tag_and_comes_back() {
    check("one two one|", "key Ctrl-F\ntype one\\n", "«one» two one");
    check(
        "one two one|",
        "key Ctrl-F\ntype one\\n\nkey F6",
        "one two «one»",
    );
    check("one two|", "key Ctrl-F\nkey Esc\ntype x", "one twox|");
}

#[test]
fn look_with_a_text_searches_for_it() {
    check("a\nLook b\nb|", "b2 Look b .. @20,15", "a\nLook «b»\nb");
}

#[test]
fn a_name_in_the_tag_renames_when_the_keyboard_leaves_it() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "x|");
    world.act(0, "key F4\nkey Ctrl-Home\nkey Right\ntype u\nkey F4");
    assert!(
        world.tag(window).starts_with("/ut/f Del Snarf Undo"),
        "{}",
        world.tag(window)
    );
    assert!(world.text_of("/ut/f").is_some());
    world.act(0, "key Ctrl-Z");
    assert!(
        world.tag(window).starts_with("/t/f Del"),
        "{}",
        world.tag(window)
    );
}

#[test]
fn unknown_words_run_outside() {
    let mut world = World::new(80, 24);
    world.open("/t/f", "make -k|");
    world.act(0, "key Alt-A\nkey F5");
    assert_eq!(world.ran, [("/t/".into(), "make -k".into())]);
    assert!(world.text_of("/t/+Errors").is_none());
}

#[test]
fn files_of_the_command_line_are_shown_at_their_address() {
    let mut world = World::new(80, 24);
    world.disk.insert("/t/m.rs".into(), "one\ntwo\n".into());
    let file = FileArgument {
        path: "/t/m.rs".into(),
        address: "2".into(),
    };
    world.uis[0].app.opening.files.push(file);
    world.pass(1);
    world.act(0, "key Ctrl-L");
    let view = world.uis[0].app.focus.unwrap();
    assert_eq!(world.shown(0, view), "one\n«two\n»");
}

/// A file of ten lines, of which the first five are there when it is opened.
fn half_read() -> (World, WindowId) {
    let mut world = World::new(80, 40);
    let text: String = (0..10).map(|line| format!("line {line}\n")).collect();
    world.disk.insert("/t/big".into(), text);
    let window = world.open("/t/f", "big:8|");
    world.is_slow = true;
    world.act(0, "key F6");
    (world, window)
}

#[test]
fn a_file_is_shown_while_it_is_read_and_its_address_when_it_was() {
    let (mut world, _) = half_read();
    let view = world.uis[0].app.focus.unwrap();
    assert!(world.shown(0, view).ends_with("line 4\n"), "the first half");
    assert!(world.shown(0, view).starts_with('|'));
    assert_eq!(
        world.status(0),
        "this file is being read; what you type waits for its end"
    );
    world.read_on();
    assert!(world.shown(0, view).contains("line 6\n«line 7\n»line 8"));
    assert_eq!(world.uis[0].app.focus, Some(view));
    world.check_hashes();
}

#[test]
fn a_file_that_was_read_leaves_the_keyboard_where_the_user_went_meanwhile() {
    let (mut world, window) = half_read();
    let big = world.uis[0].app.focus.unwrap();
    world.act(0, "b1 big:8");
    world.read_on();
    assert!(world.shown(0, big).contains("«line 7\n»"));
    assert_eq!(world.uis[0].app.focus, Some(ViewId::Body(window)));
    world.act(0, "type x");
    assert_eq!(world.shown(0, ViewId::Body(window)), "x|big:8");
    world.check_hashes();
}

#[test]
fn where_the_user_looks_and_types_in_a_file_that_is_read_stays() {
    let mut world = World::new(80, 40);
    world
        .disk
        .insert("/t/big".into(), "one\ntwo\nthree\nfour\n".into());
    world.open("/t/f", "big|");
    world.is_slow = true;
    world.act(0, "key F6");
    let view = world.uis[0].app.focus.unwrap();
    world.act(0, "key Down\ntype x");
    assert_eq!(world.shown(0, view), "one\n|two\nt");
    world.read_on();
    assert_eq!(world.shown(0, view), "one\nx|two\nthree\nfour\n");
    world.check_hashes();
}

/// A file of which half is there, in a tall screen below the text `f big` that names it. Returns
/// the windows of both, its own first.
fn reading(text: &str) -> (World, [WindowId; 2]) {
    let mut world = World::new(80, 60);
    world.disk.insert("/t/big".into(), text.into());
    let other = world.open("/t/f", "f big|");
    world.is_slow = true;
    world.act(0, "key F6");
    let window = world.uis[0].app.focus.and_then(ViewId::window).unwrap();
    (world, [window, other])
}

/// A file of four lines, of which one and a half are there; then `script`, then the rest. Returns
/// what its window shows then, and the world.
fn done_while_read(script: &str) -> (World, String) {
    let (mut world, [window, _]) = reading("one\ntwo\nthree\nfour\n");
    let view = ViewId::Body(window);
    world.act(0, script);
    assert_eq!(world.shown(0, view).replace('|', ""), "one\ntwo\nt");
    world.read_on();
    world.check_hashes();
    let shown = world.shown(0, view);
    (world, shown)
}

#[test]
fn what_is_done_to_a_file_that_is_read_is_done_where_the_user_was_then() {
    for (script, expect) in [
        // The keyboard goes on to another window.
        ("key Down\ntype x\nb1 f big", "one\nx|two\nthree\nfour\n"),
        ("paste pq\nkey Down", "pqone\n|two\nthree\nfour\n"),
        // The selection goes on in the same text.
        ("type ab\nkey Down", "abone\n|two\nthree\nfour\n"),
        (
            "key Down\ntype ab\nkey Up\ntype cd",
            "cd|one\nabtwo\nthree\nfour\n",
        ),
        (
            "type ab\nkey Down\ntype cd\nkey Up\ntype ef",
            "abef|one\ncdtwo\nthree\nfour\n",
        ),
        (
            "key Down\ntype abc\nkey Left\nkey Backspace\nkey Down",
            "on\nabctwo|\nthree\nfour\n",
        ),
        (
            "key Shift-Down\nkey Ctrl-X\nkey Down",
            "two\n|three\nfour\n",
        ),
        (
            "key Down\ntype a\nkey Ctrl-Z\ntype b",
            "one\nb|two\nthree\nfour\n",
        ),
    ] {
        let (_, shown) = done_while_read(script);
        assert_eq!(shown, expect, "{script}");
    }
}

#[test]
fn what_was_typed_into_a_file_that_is_read_goes_nowhere_else() {
    let (world, shown) = done_while_read("type xyz\nb1 f big\ntype !");
    assert_eq!(shown, "xyz|one\ntwo\nthree\nfour\n");
    let here = world.uis[0].app.focus.unwrap();
    assert!(
        world.shown(0, here).contains("!|"),
        "{}",
        world.shown(0, here)
    );
    assert!(
        !world.shown(0, here).contains("xyz"),
        "{}",
        world.shown(0, here)
    );
}

#[test]
fn a_command_about_a_file_that_is_read_is_about_no_other_when_it_was() {
    let (mut world, both) = reading("one\ntwo\n");
    world.act(0, "key Alt-O\nkey End\ntype Del\nkey F5\nb1 f big");
    let windows = |world: &World| {
        let state = world.uis[0].app.node().state();
        both.map(|window| state.window(window).is_some())
    };
    assert_eq!(windows(&world), [true, true]);
    world.read_on();
    assert_eq!(windows(&world), [false, true]);
    world.check_hashes();
}

#[test]
fn what_was_typed_into_a_window_that_closes_when_its_file_was_read_is_recovered() {
    let (mut world, [window, _]) = reading("one\ntwo\n");
    world.act(0, "key Alt-D\ntype cd\npaste ef\nkey Backspace");
    world.read_on();
    world.act(0, "key Ctrl-L");
    assert!(world.uis[0].app.node().state().window(window).is_none());
    let recovered = world.text_of("/+Recovered").unwrap();
    assert!(recovered.contains("cdef"), "{recovered}");
    assert!(!world.uis[0].app.is_owing());
    world.check_hashes();
}

#[test]
fn what_was_typed_into_a_window_that_closes_while_its_text_stays_is_recovered() {
    let (mut world, _) = reading("one\ntwo\n");
    world.act(0, "key Alt-2\nkey Alt-D\ntype cd");
    world.act(0, "b1 f big\ntype x");
    let here = world.uis[0].app.focus;
    world.read_on();
    world.act(0, "type y");
    assert_eq!(
        world.uis[0].app.focus, here,
        "the keyboard stays where the user went"
    );
    assert!(world.shown(0, here.unwrap()).contains("xy|"));
    assert_eq!(world.text_of("/t/big").unwrap(), "one\ntwo\n");
    let recovered = world.text_of("/t/+Recovered").unwrap();
    assert!(recovered.contains("cd"), "{recovered}");
    world.check_hashes();
}

#[test]
fn what_was_typed_while_a_file_was_read_lands_when_another_ui_took_over_meanwhile() {
    let (mut world, _) = half_read();
    let view = world.uis[0].app.focus.unwrap();
    world.act(0, "type ab");
    world.enter(80, 24, Takeover::Transfer);
    world.act(0, "type cd");
    world.read_on();
    world.pass(1);
    assert!(
        world.shown(0, view).starts_with("abcd"),
        "{}",
        world.shown(0, view)
    );
    world.check_hashes();
}

#[test]
fn what_a_command_shows_gets_the_keyboard_and_is_in_sight() {
    let mut world = World::new(80, 24);
    let text: String = (0..100).map(|line| format!("line {line}\n")).collect();
    let shown = world.open("/t/long", &text);
    world.open("/t/f", "here|");
    let view = ViewId::Body(shown);
    let (buffer, ..) = world.uis[0].app.text(view).unwrap();
    let address = "51".into();
    world.propose(vec![Change::Show { buffer, address }]);
    assert_eq!(world.uis[0].app.focus, Some(view));
    assert!(world.uis[0].app.grid().to_text().contains("line 50"));
    world.act(0, "type x");
    assert!(world.shown(0, view).contains("line 49\nx|line 51"));
    world.check_hashes();
}

fn begin(directory: &str, files: &[&str]) -> World {
    let mut world = World::new(80, 24);
    world.disk.insert("/here/".into(), "mine\n".into());
    world.disk.insert("/here/mine".into(), "text\n".into());
    let file = |path: &&str| FileArgument {
        path: (*path).into(),
        address: String::new(),
    };
    world.uis[0].app.opening = Opening {
        files: files.iter().map(file).collect(),
        directory: Some(directory.into()),
    };
    world.act(0, "key Ctrl-L");
    world
}

#[test]
fn a_session_that_nobody_has_used_begins_in_the_directory_of_the_user() {
    let world = begin("/here", &[]);
    let state = world.authority.node().state();
    assert_eq!(state.windows().count(), 1);
    let view = world.uis[0].app.focus.unwrap();
    assert_eq!(world.shown(0, view), "|mine\n");
    assert_eq!(world.uis[0].app.directory(view), "/here/");
    assert!(world.text_of("/t/").is_none(), "it stands where that stood");
    world.check_hashes();
}

#[test]
fn files_of_the_command_line_come_behind_the_directory_of_the_user() {
    let world = begin("/here", &["/here/mine"]);
    let view = world.uis[0].app.focus.unwrap();
    assert_eq!(world.shown(0, view), "|text\n");
    assert_eq!(world.authority.node().state().windows().count(), 2);
    assert!(world.text_of("/here/").is_some() && world.text_of("/t/").is_none());
    world.check_hashes();
}

#[test]
fn a_directory_that_the_daemon_does_not_have_changes_nothing() {
    for directory in ["/t", "/nowhere"] {
        let world = begin(directory, &[]);
        assert_eq!(world.text_of("/t/").as_deref(), Some("a.txt\nsub/\n"));
        let state = world.authority.node().state();
        assert_eq!(state.windows().count(), 1);
        assert!(state.buffer_named("/nowhere").is_none());
        world.check_hashes();
    }
}

#[test]
fn a_session_that_somebody_has_used_stays_as_it_is() {
    let mut world = World::new(80, 24);
    world.disk.insert("/here/".into(), "mine\n".into());
    world.join(80, 24, Takeover::Transfer);
    world.uis[1].app.opening.directory = Some("/here".into());
    world.pass(TRANSFER_MS);
    world.act(1, "key Ctrl-L");
    assert!(world.uis[1].app.client.is_leading());
    assert!(world.text_of("/here/").is_none());
}

#[test]
fn f4_goes_where_commands_are_typed_and_back() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "|");
    world.act(0, "key F4\ntype  Put g\nkey Esc\nkey F5\nkey F4\ntype x");
    assert!(world.disk.contains_key("/t/g"));
    assert!(
        world.tag(window).ends_with("| Look  Put g"),
        "{}",
        world.tag(window)
    );
    assert_eq!(world.shown(0, ViewId::Body(window)), "x|");
}

#[test]
fn a_name_without_a_directory_is_where_the_session_began() {
    let mut world = World::new(80, 24);
    world.act(0, "key Alt-N\ntype x\nkey F4\ntype notes\nkey Ctrl-S");
    assert_eq!(world.disk["/t/notes"], "x");
    let window = world.uis[0].app.focus.and_then(ViewId::window).unwrap();
    assert!(
        world.tag(window).starts_with("/t/notes Del"),
        "{}",
        world.tag(window)
    );
    assert!(!world.tag(window).contains("Put"));
    world.check_hashes();
}

#[test]
fn a_command_shows_a_file_while_it_is_read_and_then_where_it_was_asked_to() {
    let mut world = World::new(80, 40);
    let text: String = (0..10).map(|line| format!("line {line}\n")).collect();
    world.disk.insert("/t/big".into(), text);
    world.open("/t/f", "|");
    world.is_slow = true;
    let Answer::Opened { buffer, .. } = world.host_open("/t/big") else {
        panic!("it opens");
    };
    let show = |address: &str| {
        let address = address.into();
        vec![Change::Show { buffer, address }]
    };
    world.propose(show(""));
    let view = world.uis[0].app.focus.unwrap();
    assert!(world.shown(0, view).starts_with("|line 0\n"));
    world.read_on();
    world.propose(show("8"));
    assert_eq!(world.uis[0].app.focus, Some(view));
    assert!(world.shown(0, view).contains("line 6\n«line 7\n»line 8"));
    assert_eq!(world.authority.node().state().windows_of(buffer).count(), 1);
    world.check_hashes();
}
