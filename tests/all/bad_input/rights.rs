//! Rights that are missing, and files that other names or other users share. Root has every right,
//! so that most of this runs as somebody else.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use apex_core::entry::SaveCause;
use apex_core::message::ErrorCode;
use apex_tests::harness::home::text;
use apex_tests::harness::ordinary::{NOBODY, is_ordinary, is_root};
use apex_tests::harness::pty::Button;
use apex_tests::harness::{Ended, Home, Peer, Pty, Raw};

use super::files::{PUT, check_kept, open, type_at_end, wait_errors};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Puts what was refused before, once the user has seen to it.
#[track_caller]
fn put_again(pty: &mut Pty, peer: &mut Peer, path: &Path, expect: &[u8]) {
    pty.click(Button::B1, pty.wait_for("more"));
    pty.keys(PUT);
    peer.wait_buffer(path, |buffer| {
        buffer
            .saved()
            .is_some_and(|saved| saved.cause == SaveCause::Put)
    });
    assert_eq!(fs::read(path).unwrap(), expect);
}

#[test]
fn a_read_only_file_is_refused_and_put_once_it_may_be() {
    if !is_ordinary("bad_input::rights::a_read_only_file_is_refused_and_put_once_it_may_be") {
        return;
    }
    let home = Home::new();
    let path = home.file("a.txt", b"one\n");
    set_mode(&path, 0o400);
    let (mut pty, mut peer) = open(&home, &path);
    type_at_end(&mut pty, &mut peer, &path, "more");
    pty.keys(PUT);
    wait_errors(&mut peer, &home, &["a.txt is read-only", "chmod u+w"]);
    check_kept(&peer, &path, b"one\n");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o400);
    set_mode(&path, 0o600);
    put_again(&mut pty, &mut peer, &path, b"one\nmore");
}

#[test]
fn a_file_in_a_closed_directory_is_refused_and_put_once_it_may_be() {
    if !is_ordinary(
        "bad_input::rights::a_file_in_a_closed_directory_is_refused_and_put_once_it_may_be",
    ) {
        return;
    }
    let home = Home::new();
    let path = home.file("a.txt", b"one\n");
    set_mode(&home.files(), 0o500);
    let (mut pty, mut peer) = open(&home, &path);
    type_at_end(&mut pty, &mut peer, &path, "more");
    pty.keys(PUT);
    wait_errors(
        &mut peer,
        &home,
        &["a.txt", "permission denied", "as it was"],
    );
    check_kept(&peer, &path, b"one\n");
    set_mode(&home.files(), 0o700);
    put_again(&mut pty, &mut peer, &path, b"one\nmore");
}

#[test]
fn what_may_not_be_read_is_refused_by_name_and_nothing_opens() {
    if !is_ordinary("bad_input::rights::what_may_not_be_read_is_refused_by_name_and_nothing_opens")
    {
        return;
    }
    let home = Home::new();
    let path = home.file("secret.txt", b"one\n");
    set_mode(&path, 0o200);
    let dir = home.files().join("closed");
    fs::create_dir(&dir).unwrap();
    set_mode(&dir, 0o300);
    for name in ["secret.txt", "closed"] {
        let ended = home.run(&["open", name]);
        assert_ne!(ended.code, Some(0), "{name}");
        let is_told = ended.stderr.contains(name) && ended.stderr.contains("permission denied");
        assert!(is_told, "{}", ended.stderr);
    }
    // A screen that is to show it starts all the same, and says why it does not.
    let pty = Pty::apex(&home, &[text(&path)]);
    pty.wait_for("permission denied");
    let names = home.ok(&["ls", "--buffers"]);
    assert!(!names.contains("secret.txt"), "{names}");
    set_mode(&dir, 0o700);
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_never_overwritten_with_a_part_of_it() {
    let home = Home::new();
    home.ok(&["new", "main"]);
    // A regular file that the system lets nobody read from its beginning.
    let path = Path::new("/proc/self/mem");
    let opened = home.run(&["open", text(path)]);
    assert_eq!(opened.code, Some(4), "{}", opened.stderr);
    assert!(
        opened.stderr.contains("holds only its first part"),
        "{}",
        opened.stderr
    );
    let mut peer = Peer::follow(&home);
    let errors = Path::new("/proc/self/+Errors");
    let wait = |peer: &mut Peer, words: &str| {
        peer.wait_buffer(errors, |buffer| buffer.text().to_string().contains(words));
    };
    wait(&mut peer, "cannot read /proc/self/mem: input/output error");
    wait(&mut peer, "holds only its first part");
    let ended = home.run(&["put", text(path)]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    for words in [
        "could not be read to its end",
        "was not written",
        "Get reads it again",
    ] {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[test]
fn a_put_through_a_symbolic_link_writes_the_file_and_keeps_the_link() {
    let home = Home::new();
    let path = home.file("a.txt", b"one\n");
    let link = home.files().join("link.txt");
    symlink("a.txt", &link).unwrap();
    let (mut pty, mut peer) = open(&home, &link);
    type_at_end(&mut pty, &mut peer, &link, "more");
    put_again(&mut pty, &mut peer, &link, b"one\nmore");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("a.txt"));
    assert_eq!(fs::read(&path).unwrap(), b"one\nmore");
}

/// What is written takes the place of the name, as after every rename. The other name keeps the old
/// text, so that nothing is lost; that the two part is not told.
#[test]
fn a_put_of_a_file_of_two_names_writes_the_name_that_it_was_given() {
    let home = Home::new();
    let (one, other) = (home.file("a.txt", b"one\n"), home.files().join("b.txt"));
    fs::hard_link(&one, &other).unwrap();
    let (mut pty, mut peer) = open(&home, &one);
    type_at_end(&mut pty, &mut peer, &one, "more");
    put_again(&mut pty, &mut peer, &one, b"one\nmore");
    assert_eq!(fs::read(&other).unwrap(), b"one\n");
}

#[test]
fn another_user_is_refused_by_the_daemon_whatever_the_directory_lets_through() {
    if !is_root() {
        // Only root gets past the mode of somebody else's directory.
        return;
    }
    let home = Home::new();
    for path in [
        "", "run", "run/apex", "state", "data", "config", "cache", "plugins", "files",
    ] {
        chown(home.path().join(path), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let _daemon = home.daemon_of(|command| {
        command.uid(NOBODY).gid(NOBODY);
    });
    let mut own = home.command(&["new", "main"]);
    let ended = Ended::new(own.uid(NOBODY).gid(NOBODY).output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);

    let error = Raw::greet(&home).last_error();
    assert_eq!(error.code, ErrorCode::Denied, "{error:?}");
    assert!(error.message.contains("another user"), "{error:?}");
    let ended = home.run(&["ls"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(ended.stderr.contains("user"), "{}", ended.stderr);
}
