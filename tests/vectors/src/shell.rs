//! Commands of the shell, as cases use them.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::thread;

/// Runs a command of the shell and returns what it prints.
///
/// # Errors
/// When it cannot be started, or prints what is not UTF-8.
pub fn run(command: &str, input: Option<String>) -> io::Result<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "cases of pipes need a shell; this is the one place that starts it"
    )]
    let mut shell = Command::new("sh");
    let mut child = shell
        .arg("-c")
        .arg(command)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    // A command that reads late must not hold up one that prints early.
    let writer = thread::spawn(move || {
        let (Some(mut stdin), Some(input)) = (stdin, input) else {
            return;
        };
        // A command need not read its input.
        let _unread = stdin.write_all(input.as_bytes());
    });
    let mut output = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut output)?;
    }
    child.wait()?;
    if writer.join().is_err() {
        return Err(io::Error::other("the writer of the input panicked"));
    }
    Ok(output)
}
