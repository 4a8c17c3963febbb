//! Put, and the tool that acts on it.

use std::fs;

use apex_core::entry::SaveCause;
use apex_tests::harness::home::text;
use apex_tests::harness::pty::Button;
use apex_tests::harness::{Home, Peer, Pty};

use super::{PUT, TIDY, TO_END, assert_bytes, case, execute, screen, source, wait_end, wait_saved};

/// Types `hello  ` on a new line of the real file, puts it, and returns what is on disk.
fn type_and_put(is_tidy: bool, put: impl FnOnce(&mut Pty, &std::path::Path)) -> (Vec<u8>, Vec<u8>) {
    let home = Home::new();
    let (path, before) = source(&home);
    if is_tidy {
        home.add_tidy();
    }
    let mut pty = screen(&home, &path);
    let mut peer = Peer::follow(&home);
    if is_tidy {
        peer.wait_attached(TIDY);
    }
    pty.keys(TO_END);
    pty.keys("hello  ");
    wait_end(&mut peer, &path, "}\nhello  ");
    put(&mut pty, &path);
    let cause = if is_tidy {
        SaveCause::Tool
    } else {
        SaveCause::Put
    };
    wait_saved(&mut peer, &path, cause);
    (before, fs::read(&path).unwrap())
}

#[test]
fn hello_put_by_mouse_is_on_disk_without_its_blanks_and_nothing_else_changed() {
    let (before, after) = type_and_put(true, |pty, path| execute(pty, path, "Put"));
    assert_bytes(&after, &[&before[..], b"hello\n"].concat());
}

#[test]
fn hello_put_by_key_is_on_disk_without_its_blanks_and_nothing_else_changed() {
    let (before, after) = type_and_put(true, |pty, _| pty.keys(PUT));
    assert_bytes(&after, &[&before[..], b"hello\n"].concat());
}

#[test]
fn without_tidy_hello_is_on_disk_as_it_was_typed() {
    let (before, after) = type_and_put(false, |pty, path| execute(pty, path, "Put"));
    assert_bytes(&after, &[&before[..], b"hello  "].concat());
}

#[test]
fn files_of_all_kinds_end_equal_to_their_golden_results() {
    let home = Home::new();
    home.add_tidy();
    let names = ["blanks.txt", "crlf.txt", "invalid.txt", "notes.md"];
    let mut pty = Pty::apex(&home, &[]);
    // It has a screen to open files in.
    pty.wait_for("Del Snarf");
    let mut peer = Peer::follow(&home);
    peer.wait_attached(TIDY);
    for name in names {
        let path = home.file(name, &case(&format!("tidy/{name}.before")));
        home.ok(&["open", name]);
        // Gives it the keyboard. A Put needs no change before it.
        let (x, y) = pty.wait_for(&format!("{} Del", text(&path)));
        pty.click(Button::B1, (x + 1, y + 1));
        pty.keys(PUT);
        wait_saved(&mut peer, &path, SaveCause::Tool);
        assert_bytes(
            &fs::read(&path).unwrap(),
            &case(&format!("tidy/{name}.after")),
        );
    }
}

#[test]
fn a_tool_that_was_taken_out_acts_no_more_and_one_that_is_put_in_does() {
    let home = Home::new();
    home.add_tidy();
    let path = home.file("a.txt", b"one  \n");
    let mut pty = screen(&home, &path);
    let mut peer = Peer::follow(&home);
    let tidy = peer.wait_attached(TIDY);
    fs::remove_file(home.path().join("plugins/tidy.wasm")).unwrap();
    peer.wait(|peer| {
        let is_attached = peer.state().meta().attachments.contains_key(&tidy);
        (!is_attached).then_some(())
    });
    pty.keys(PUT);
    wait_saved(&mut peer, &path, SaveCause::Put);
    assert_bytes(&fs::read(&path).unwrap(), b"one  \n");
    home.add_tidy();
    peer.wait_attached(TIDY);
    pty.keys(PUT);
    wait_saved(&mut peer, &path, SaveCause::Tool);
    assert_bytes(&fs::read(&path).unwrap(), b"one\n");
}

#[test]
fn views_and_undo_are_right_after_tidy() {
    let home = Home::new();
    home.add_tidy();
    let path = home.file("a.txt", b"one  \ntwo\n");
    let mut pty = screen(&home, &path);
    let mut peer = Peer::follow(&home);
    peer.wait_attached(TIDY);
    pty.keys(TO_END);
    pty.keys("x");
    pty.keys(PUT);
    wait_saved(&mut peer, &path, SaveCause::Tool);
    // The cursor stands where it stood in the text: behind the x, before the new line end.
    pty.keys("y");
    peer.wait_buffer(&path, |buffer| *buffer.text() == "one\ntwo\nxy\n".into());
    // One step for the y, one for the tool's, one for the x.
    for expect in ["one\ntwo\nx\n", "one  \ntwo\nx", "one  \ntwo\n"] {
        pty.keys(super::UNDO);
        peer.wait_buffer(&path, |buffer| *buffer.text() == expect.into());
    }
    let modified = &home.json(&["ls", "--json"])[0]["modified"];
    assert_eq!(*modified, serde_json::json!([text(&path)]));
}
