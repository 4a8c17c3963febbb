//! Words to the person at the terminal: what is being done, and why.

/// Says one thing on standard error.
#[expect(clippy::print_stderr, reason = "the one place where xtask speaks")]
pub(crate) fn say(words: &str) {
    eprintln!("xtask: {words}");
}
