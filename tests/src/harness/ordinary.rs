//! Tests of what a user may not do, run as one who is not root.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The user `nobody` on every system that has one.
pub const NOBODY: u32 = 65534;

/// Whether root runs the tests, for whom nothing is forbidden.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns whether a test, named in full, shall go on here, under a user for whom rights count.
/// Root lets `nobody` run that one test in a process of its own, and does not go on itself.
///
/// # Panics
/// When the test failed there.
#[must_use]
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a test of this very executable")]
pub fn is_ordinary(test: &str) -> bool {
    if !is_root() {
        return true;
    }
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "as nobody: {said}");
    // Not one by a name that is no longer right.
    assert!(said.contains("1 passed"), "no test {test}: {said}");
    false
}
