//! A screen that dies, or leaves, takes nothing with it.

use std::fs;

use apex_core::edit::Splice;
use apex_core::entry::SaveCause;
use apex_core::ids::{SERVER, Shard, ViewId};
use apex_core::proposal::Change;
use apex_core::text::Span;
use apex_tests::harness::home::text;
use apex_tests::harness::pty::Button;
use apex_tests::harness::{Home, Peer, Pty};

use super::{
    EXIT, TIDY, TO_END, TO_START, UNDO, assert_bytes, screen, source, wait_end, wait_saved,
    wait_window,
};

#[test]
fn after_kill_9_of_the_screen_text_undo_and_views_are_there() {
    let home = Home::new();
    let (path, before) = source(&home);
    let mut pty = screen(&home, &path);
    let mut peer = Peer::follow(&home);
    pty.keys(TO_END);
    pty.keys("one");
    pty.click(Button::B1, pty.wait_for("Del Snarf"));
    pty.click(Button::B1, pty.wait_for("one"));
    pty.keys(TO_END);
    pty.keys(" two");
    wait_end(&mut peer, &path, "}\none two");
    // What was acknowledged is what a kill may not take; the view is the last of it.
    let (_, buffer) = peer.buffer(&path).unwrap();
    let views: Vec<_> = buffer.views().collect();
    let shown = pty.text();
    pty.kill();

    let mut pty = Pty::apex(&home, &[]);
    wait_window(&pty, &path);
    pty.wait_for("one two");
    let (id, buffer) = peer.buffer(&path).unwrap();
    assert_eq!(buffer.views().collect::<Vec<_>>(), views, "{shown}");
    assert!(
        views.iter().any(|(_, view)| view.origin > 0),
        "the window was scrolled: {views:?}"
    );
    // All windows are the new screen's now; the keyboard is where it was.
    peer.wait(|peer| (peer.leader(Shard::Buffer(id)) != Some(SERVER)).then_some(()));
    for expect in ["}\none", "}\n"] {
        pty.keys(UNDO);
        wait_end(&mut peer, &path, expect);
    }
    let now = peer.buffer(&path).unwrap().1.text().to_string();
    assert_bytes(now.as_bytes(), &before);
    // Typing goes on where the cursor was.
    pty.keys("three");
    wait_end(&mut peer, &path, "}\nthree");
}

#[test]
fn after_the_screen_was_closed_commands_and_the_tool_work_and_the_daemon_leads() {
    let home = Home::new();
    home.add_tidy();
    let path = home.file("a.txt", b"one\n");
    let mut pty = screen(&home, &path);
    let mut peer = Peer::follow(&home);
    peer.wait_attached(TIDY);
    pty.keys(TO_START);
    pty.keys("zero  ");
    wait_end(&mut peer, &path, "zero  one\n");
    // The first Exit warns that a file is modified, the second one leaves.
    pty.keys(EXIT);
    pty.wait_for("modified");
    pty.keys(EXIT);
    let (code, last) = pty.end();
    assert_eq!(code, 0, "{last}");
    assert!(last.contains("session main goes on"), "{last}");
    let (id, _) = peer.buffer(&path).unwrap();
    peer.wait(|peer| (peer.leader(Shard::Buffer(id)) == Some(SERVER)).then_some(()));
    peer.wait(|peer| (peer.leader(Shard::Layout) == Some(SERVER)).then_some(()));

    assert_eq!(home.ok(&["cat", "a.txt"]), "zero  one\n");
    peer.edit(&path, Span::new(6, 9), "two  ").unwrap();
    home.ok(&["put", "a.txt"]);
    wait_saved(&mut peer, &path, SaveCause::Tool);
    assert_bytes(&fs::read(&path).unwrap(), b"zero  two\n");
    assert_eq!(home.ok(&["cat", "a.txt"]), "zero  two\n");

    let other = home.file("b.txt", b"b\n");
    let opened = home.ok(&["open", "b.txt"]);
    let id = peer.wait_buffer(&other, |_| true);
    assert_eq!(opened.trim(), id.to_string());
    let tool = peer.wait_attached(TIDY).to_string();
    let of = |arguments: &[&str]| home.json(arguments)["shards"].clone();
    let ours = of(&["hash", "--json"]);
    assert_eq!(of(&["hash", "--attachment", &tool, "--json"]), ours);

    // A screen that comes back shows all of it and leads again.
    let pty = Pty::apex(&home, &[]);
    wait_window(&pty, &path);
    wait_window(&pty, &other);
    pty.wait_for("zero  two");
    peer.wait(|peer| (peer.leader(Shard::Buffer(id)) != Some(SERVER)).then_some(()));
}

#[test]
fn undo_of_one_step_over_two_files_survives_the_screen_that_made_it() {
    let home = Home::new();
    let paths = ["a.txt", "b.txt"].map(|name| home.file(name, b"text\n"));
    let pty = Pty::apex(&home, &paths.each_ref().map(|path| text(path)));
    for path in &paths {
        wait_window(&pty, path);
    }
    let mut peer = Peer::follow(&home);
    // Leases come one by one: a proposal of all or nothing needs both in one hand.
    for path in &paths {
        let (id, _) = peer.buffer(path).unwrap();
        peer.wait(|peer| (peer.leader(Shard::Buffer(id)) != Some(SERVER)).then_some(()));
    }
    let change = |peer: &Peer, path| {
        let (buffer, found) = peer.buffer(path).unwrap();
        let splices = vec![Splice::new(Span::at(0), "new ")];
        Change::Edit {
            buffer,
            base: found.version(),
            splices,
        }
    };
    let changes = paths.each_ref().map(|path| change(&peer, path)).to_vec();
    peer.propose(changes).unwrap();
    for path in &paths {
        wait_end(&mut peer, path, "new text\n");
    }
    pty.kill();
    let mut pty = Pty::apex(&home, &[]);
    pty.wait_for("new text");
    let (_, buffer) = peer.buffer(&paths[1]).unwrap();
    assert!(
        buffer
            .views()
            .any(|(view, _)| matches!(view, ViewId::Body(_)))
    );
    pty.keys(UNDO);
    for path in &paths {
        wait_end(&mut peer, path, "text\n");
        peer.wait_buffer(path, |buffer| *buffer.text() == "text\n".into());
    }
}
