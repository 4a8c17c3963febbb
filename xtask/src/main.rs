//! The project's own chores: building the tools, running apex from the checkout, testing,
//! measuring, packing.
//!
//! It depends on nothing but the standard library, so that it starts at once. It installs what a
//! chore needs and says what it does; everything that it starts is shown before.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

mod say;

mod process;

mod files;

mod toolchain;

mod guests;

mod dist;

mod run;

mod bench;

mod checks;

use files::FileError;
use guests::GuestError;
use process::ProcessError;
use say::say;

/// The chores, as `help` shows them.
const CHORES: &str = "the chores are
  run [FILE[:ADDR]...]   build apex and its tools, start apexd if none runs, open the files
  test [--long]          all checks: format, lints, tests, documentation
  vectors FILE.jsonl...  run cases of the Edit command language, and name those that fail
  sim [--seeds N] [--from S] [--seed S] [--tell] [--off KIND] [--only KIND] [--shrink] [--canaries]
                         run worlds of the simulator, and show those that fail
  bench [NAME...]        measure, and print the table
  plugins                build the tools in plugins/ and those that tests use
  dist                   make target/dist/apex-VERSION, ready to be installed";

/// Why a chore was not done.
#[derive(Debug)]
enum ChoreError {
    /// There is no such chore, or it takes no such argument.
    Words(String),
    /// Another program failed.
    Process(ProcessError),
    /// A file could not be read or written.
    File(FileError),
    /// The tools were not built.
    Guest(GuestError),
}

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    match chore(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn chore(args: &[OsString]) -> Result<(), ChoreError> {
    let (name, rest) = match args {
        [] => ("help".into(), args),
        [name, rest @ ..] => (name.to_string_lossy(), rest),
    };
    match (&*name, rest) {
        ("run", files) => run::run(files),
        ("test", []) => checks::run(false),
        ("test", [long]) if long == "--long" => checks::run(true),
        ("vectors", files @ [_, ..]) => checks::vectors(files),
        ("sim", words) => checks::sim(words),
        ("bench", names) => bench::run(names),
        ("plugins", []) => Ok(guests::build().map(drop)?),
        ("dist", []) => dist::run(),
        ("help" | "--help" | "-h", _) => {
            say(CHORES);
            Ok(())
        }
        ("test" | "plugins" | "dist", [extra, ..]) => Err(ChoreError::Words(format!(
            "`{name}` takes no `{}`",
            extra.display()
        ))),
        _ => Err(ChoreError::Words(format!("there is no chore `{name}`"))),
    }
}

impl From<ProcessError> for ChoreError {
    fn from(error: ProcessError) -> Self {
        Self::Process(error)
    }
}

impl From<FileError> for ChoreError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<GuestError> for ChoreError {
    fn from(error: GuestError) -> Self {
        Self::Guest(error)
    }
}

impl fmt::Display for ChoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => write!(f, "{words}; {CHORES}"),
            Self::Process(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::Guest(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> String {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        chore(&args).expect_err("these are no chores").to_string()
    }

    #[test]
    fn what_is_no_chore_is_told_with_those_that_are() {
        assert!(words("fly").starts_with("there is no chore `fly`; the chores are\n  run "));
        assert!(words("test --short").starts_with("`test` takes no `--short`; "));
        assert!(words("plugins tidy").starts_with("`plugins` takes no `tidy`; "));
    }
}
