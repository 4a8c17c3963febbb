//! Programs that apex is measured beside, each in a process of its own.
//!
//! - `rope`: a bare rope with the system's allocator, as most programs have it.
//! - `grep`: the system's own.
//! - `peers`: replicated text libraries with apex's allocator. It is a workspace of its own,
//!   `tests/peers`, and may not be there: `APEX_PEERS` says where it is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::BenchError;
use crate::stats::Samples;
use crate::trace::Trace;

/// The libraries that `peers` knows.
pub const LIBRARIES: [&str; 4] = ["diamond-types", "loro", "yrs", "automerge"];

/// What a library does with each edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing else.
    Edit,
    /// It also makes the bytes that other replicas are sent.
    Encode,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Edit, Self::Encode];

    /// Returns how `peers` calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Encode => "encode",
        }
    }
}

/// Returns where `peers` is; none where it was not built.
#[must_use]
pub fn peers() -> Option<PathBuf> {
    std::env::var_os("APEX_PEERS").map(PathBuf::from)
}

/// Replays a trace on a bare rope; returns nanoseconds per edit.
///
/// # Errors
/// The program `rope` is not built, or fails.
pub fn rope(name: &str) -> Result<f64, BenchError> {
    let times = measure(&program("rope")?, &[name.as_ref()])?;
    Ok(times.median())
}

/// Replays a trace with a library; returns nanoseconds per edit of one or more replays.
///
/// # Errors
/// The program fails, and so it does when the text is wrong.
pub fn library(
    peers: &Path,
    library: &str,
    mode: Mode,
    trace: &str,
) -> Result<Samples, BenchError> {
    let path = Trace::path(trace);
    let mode = mode.name().as_ref();
    measure(peers, &[library.as_ref(), mode, path.as_os_str()])
}

/// Returns how many lines of a file match, by the system's grep.
///
/// # Errors
/// There is no grep, or it fails.
pub fn grep(locale: &str, pattern: &str, file: &Path) -> Result<u64, BenchError> {
    let path = Path::new("grep");
    let args = ["-c", "-a", "-E", "-e", pattern];
    let ended = run(program_in(path, locale).args(args).arg(file), path)?;
    let words = String::from_utf8_lossy(&ended.stdout);
    words.trim().parse().map_err(|_| {
        let why = String::from_utf8_lossy(&ended.stderr);
        BenchError::Wrong(format!("grep {args:?}: {words}{why}"))
    })
}

#[expect(clippy::disallowed_methods, reason = "peers are programs")]
fn program_in(path: &Path, locale: &str) -> Command {
    let mut command = Command::new(path);
    command.env("LC_ALL", locale);
    command
}

fn run(command: &mut Command, path: &Path) -> Result<Output, BenchError> {
    let ended = command.output();
    ended.map_err(|error| BenchError::Read(path.into(), error))
}

/// Runs a program that prints times.
fn measure(path: &Path, args: &[&OsStr]) -> Result<Samples, BenchError> {
    let ended = run(program_in(path, "C").args(args), path)?;
    let words = String::from_utf8_lossy(&ended.stdout);
    let times: Result<Vec<f64>, _> = words.lines().map(str::parse).collect();
    let mut samples = Samples::default();
    samples.extend(times.unwrap_or_default());
    if ended.status.success() && samples.count() > 0 {
        return Ok(samples);
    }
    let why = String::from_utf8_lossy(&ended.stderr);
    let what = format!("{} {args:?}: {words}{why}", path.display());
    Err(BenchError::Wrong(what))
}

/// A built program, beside this executable or beside the directory of the test executables.
fn program(name: &str) -> Result<PathBuf, BenchError> {
    let here = std::env::current_exe().map_err(|error| BenchError::Read(name.into(), error))?;
    let mut programs = here.ancestors().skip(1).take(2).map(|at| at.join(name));
    let program = programs.find(|program| program.is_file());
    program.ok_or_else(|| {
        let error = std::io::Error::other("not built; run `cargo xtask bench`");
        BenchError::Read(name.into(), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_or_prints_no_times_is_an_error_with_what_it_said() {
        let sh = |script: &str| measure(Path::new("sh"), &["-c".as_ref(), script.as_ref()]);
        assert_eq!(sh("echo 3; echo 1.5; echo 2").unwrap().median(), 2.0);
        for script in [
            "echo 3; echo why >&2; exit 1",
            "echo 3; echo why",
            "echo why >&2",
        ] {
            let error = sh(script).unwrap_err().to_string();
            assert!(error.contains("why"), "{error}");
        }
    }
}
