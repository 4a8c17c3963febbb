//! The main job, end to end: the built daemon, its screen in a terminal, the bundled tool, real
//! files. Nothing is a stand-in, and nothing waits for time.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails where it stands"
)]

mod close;
mod hashes;
mod put;
mod takeover;

use std::fs;
use std::path::{Path, PathBuf};

use apex_core::buffer::Buffer;
use apex_core::entry::SaveCause;
use apex_core::ids::BufferId;
use apex_tests::harness::home::text;
use apex_tests::harness::pty::Button;
use apex_tests::harness::{Home, Peer, Pty};

/// What the bundled tool attaches as.
pub(super) const TIDY: &str = "tidy";
/// Ctrl-End, Ctrl-Home, Ctrl-S, Ctrl-Z, Ctrl-Q as a terminal sends them.
pub(super) const TO_END: &str = "\x1b[1;5F";
const TO_START: &str = "\x1b[1;5H";
pub(super) const PUT: &str = "\x13";
const UNDO: &str = "\x1a";
const EXIT: &str = "\x11";

/// A file of the project's cases.
fn case(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("cases")
        .join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A copy of a real source file of some thousand lines that is clean already.
fn source(home: &Home) -> (PathBuf, Vec<u8>) {
    let bytes = case("source/rope.rs.txt");
    assert!(bytes.iter().filter(|byte| **byte == b'\n').count() >= 2000);
    (home.file("rope.rs", &bytes), bytes)
}

/// The screen with a file in it, once its first window shows it and it has the keyboard.
pub(super) fn screen(home: &Home, path: &Path) -> Pty {
    let pty = Pty::apex(home, &[text(path)]);
    wait_window(&pty, path);
    pty
}

/// Waits until a window shows a file.
#[track_caller]
fn wait_window(pty: &Pty, path: &Path) {
    pty.wait_for(&format!("{} Del", text(path)));
}

/// Executes a word of a file's tag with the second button.
#[track_caller]
pub(super) fn execute(pty: &mut Pty, path: &Path, word: &str) {
    let (name, word) = (format!("{} Del", text(path)), format!(" {word} "));
    let cell = pty.wait(&format!("{word:?} in the tag of {name}"), |screen| {
        let (x, y) = screen.find(&name)?;
        let row = screen.row(y.into()) + " ";
        let before = row.chars().count() - row.chars().skip(x.into()).count();
        let tag: String = row.chars().skip(before).collect();
        let at = before + tag[..tag.find(&word)?].chars().count();
        Some((u16::try_from(at + 1).ok()?, y))
    });
    pty.click(Button::B2, cell);
}

/// Waits until the newest version of a file's text is on disk, written for that cause.
#[track_caller]
pub(super) fn wait_saved(peer: &mut Peer, path: &Path, cause: SaveCause) -> BufferId {
    peer.wait_buffer(path, |buffer| is_saved(buffer, cause))
}

fn is_saved(buffer: &Buffer, cause: SaveCause) -> bool {
    buffer
        .saved()
        .is_some_and(|saved| saved.cause == cause && saved.version == buffer.version())
}

/// Waits until the text of a file's buffer ends so.
#[track_caller]
pub(super) fn wait_end(peer: &mut Peer, path: &Path, end: &str) {
    peer.wait_buffer(path, |buffer| buffer.text().to_string().ends_with(end));
}

/// Whether two files are equal; says where they are not, and never prints all of them.
#[track_caller]
pub(super) fn assert_bytes(found: &[u8], expect: &[u8]) {
    if found != expect {
        let at = found.iter().zip(expect).take_while(|(a, b)| a == b).count();
        let part = |bytes: &[u8]| {
            let end = bytes.len().min(at + 40);
            String::from_utf8_lossy(&bytes[at.saturating_sub(20)..end]).into_owned()
        };
        panic!(
            "{} bytes, not {}; they differ from byte {at} on: {:?}, not {:?}",
            found.len(),
            expect.len(),
            part(found),
            part(expect)
        );
    }
}
