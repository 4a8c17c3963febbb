//! Tools that do what no tool should, beside one that works: the built daemon, its screen in a
//! terminal, real components. What became of each is in `apex tools`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails where it stands"
)]

mod beside;
mod files;

use std::fs;
use std::path::PathBuf;

use apex_core::entry::SaveCause;
use apex_tests::harness::{Home, Peer, Pty};
use serde_json::Value;

use super::e2e::{PUT, TIDY, TO_END, assert_bytes, screen, wait_end, wait_saved};

/// A user who writes a file line by line, with `tidy` at work.
struct Writer {
    // In this order: the screen ends before the directories go.
    pty: Pty,
    peer: Peer,
    path: PathBuf,
    lines: String,
    count: usize,
    home: Home,
}

impl Writer {
    /// Returns a writer with an empty file before him.
    fn new() -> Self {
        let home = Home::new();
        home.add_tidy();
        let path = home.file("lines.txt", b"");
        let pty = screen(&home, &path);
        let mut peer = Peer::follow(&home);
        peer.wait_attached(TIDY);
        Self {
            pty,
            peer,
            path,
            lines: String::new(),
            count: 0,
            home,
        }
    }

    /// Types a line with blanks behind it and puts the file. The line shows, is in the log, and is
    /// on disk without its blanks.
    #[track_caller]
    fn write_line(&mut self) {
        self.count += 1;
        let line = format!("line {:04}", self.count);
        self.pty.keys(TO_END);
        self.pty.keys(&format!("{line}  "));
        self.pty.wait_for(&line);
        wait_end(&mut self.peer, &self.path, &format!("{line}  "));
        self.pty.keys(PUT);
        wait_saved(&mut self.peer, &self.path, SaveCause::Tool);
        self.lines.push_str(&line);
        self.lines.push('\n');
        assert_bytes(&fs::read(&self.path).unwrap(), self.lines.as_bytes());
        let (_, buffer) = self.peer.buffer(&self.path).unwrap();
        assert!(*buffer.text() == self.lines.as_str().into());
    }

    /// Whether `tidy` runs as if nothing had happened.
    #[track_caller]
    fn check_tidy(&self) {
        let tool = self.home.tool(TIDY).unwrap();
        assert_eq!((state(&tool), note(&tool)), ("running", ""), "{tool:#}");
        assert_eq!(tool["restarts"], 0, "{tool:#}");
    }

    /// What `apex tools` prints of a tool.
    #[track_caller]
    fn row(&self, name: &str) -> String {
        let table = self.home.ok(&["tools"]);
        let row = table
            .lines()
            .find(|row| row.split_whitespace().next() == Some(name));
        row.unwrap_or_else(|| panic!("{name} is not in\n{table}"))
            .to_owned()
    }
}

/// What a tool is doing.
fn state(tool: &Value) -> &str {
    tool["state"].as_str().unwrap()
}

/// What happened to a tool, and what comes next.
fn note(tool: &Value) -> &str {
    tool["note"].as_str().unwrap()
}
