//! What the daemon tells whoever looks after it: lines on standard error, with a level.
//!
//! The launcher sends standard error to `apexd.log` in the runtime directory. (The word "log"
//! stays with the logs of sessions.)

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::clock;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Something is broken.
    Error = 0,
    /// Something is not as it should be, and the daemon went on.
    Warning = 1,
    /// Something that is worth knowing happened.
    Info = 2,
    /// For whoever works on apex.
    Debug = 3,
}

/// The highest level that is written.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Sets the highest level that is written.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Writes an error.
pub fn error(line: fmt::Arguments<'_>) {
    write(Level::Error, "error", line);
}

/// Writes a warning.
pub fn warning(line: fmt::Arguments<'_>) {
    write(Level::Warning, "warning", line);
}

/// Writes a line that is worth knowing.
pub fn info(line: fmt::Arguments<'_>) {
    write(Level::Info, "info", line);
}

/// Writes a line for whoever works on apex.
pub fn debug(line: fmt::Arguments<'_>) {
    write(Level::Debug, "debug", line);
}

fn write(level: Level, word: &str, line: fmt::Arguments<'_>) {
    if level as u8 > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    let seconds = clock::unix_seconds();
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let text = format!("{hour:02}:{minute:02}:{second:02}Z {word}: {line}\n");
    // Nobody can be told when standard error is gone.
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}
