//! Starting other programs. Nothing else in xtask does.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::say::say;

/// A program with its arguments, not yet started.
#[derive(Debug)]
pub(crate) struct Step {
    command: Command,
    line: String,
}

/// Why a program did not do its work.
#[derive(Debug)]
pub(crate) enum ProcessError {
    /// It could not be started.
    Start { line: String, source: io::Error },
    /// It ended with an error, which it has told by itself.
    Failed { line: String, status: ExitStatus },
    /// Its output is not text.
    NotText { line: String },
}

impl Step {
    /// Names the program.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where xtask starts programs"
    )]
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let line = program.as_ref().to_string_lossy().into_owned();
        Self {
            command: Command::new(program),
            line,
        }
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.line.push(' ');
        self.line.push_str(&arg.as_ref().to_string_lossy());
        self.command.arg(arg);
        self
    }

    /// Adds the words of a line as arguments.
    pub(crate) fn words(self, line: &str) -> Self {
        line.split_whitespace().fold(self, Self::arg)
    }

    /// Runs it in this folder.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Sets a variable of its environment.
    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Keeps a variable of ours from it.
    pub(crate) fn unset(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    /// Runs it to its end, saying so. It speaks and reads at our terminal.
    pub(crate) fn run(mut self) -> Result<(), ProcessError> {
        say(&self.line);
        let status = self.command.status();
        self.judge(status)
    }

    /// Whether it runs and ends well; what it says goes nowhere.
    pub(crate) fn succeeds(mut self) -> bool {
        let quiet = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }

    /// What it prints on standard output, without blanks around it.
    pub(crate) fn output(mut self) -> Result<String, ProcessError> {
        let output = match self
            .command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
        {
            Ok(output) => output,
            Err(source) => {
                return Err(ProcessError::Start {
                    line: self.line,
                    source,
                });
            }
        };
        if !output.status.success() {
            return Err(ProcessError::Failed {
                line: self.line,
                status: output.status,
            });
        }
        match String::from_utf8(output.stdout) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(_) => Err(ProcessError::NotText { line: self.line }),
        }
    }

    /// Becomes it. Returns only if that fails.
    pub(crate) fn replace_us(mut self) -> ProcessError {
        let source = self.command.exec();
        ProcessError::Start {
            line: self.line,
            source,
        }
    }

    fn judge(self, status: io::Result<ExitStatus>) -> Result<(), ProcessError> {
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(ProcessError::Failed {
                line: self.line,
                status,
            }),
            Err(source) => Err(ProcessError::Start {
                line: self.line,
                source,
            }),
        }
    }
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { line, source } => write!(f, "cannot start `{line}`: {source}"),
            Self::Failed { line, status } => write!(f, "`{line}` failed ({status}); see above"),
            Self::NotText { line } => write!(f, "`{line}` printed something that is not text"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_comes_without_blanks_around_it() {
        let step = Step::new("sh").words("-c").arg("echo ' a b '");
        assert_eq!(step.output().unwrap(), "a b");
    }

    #[test]
    fn a_failure_names_the_line_and_how_it_ended() {
        let error = Step::new("sh")
            .words("-c")
            .arg("exit 3")
            .run()
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("`sh -c exit 3` failed (exit status: 3)"),
            "{error}"
        );
        let error = Step::new("/no/such/program")
            .arg("x")
            .run()
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("cannot start `/no/such/program x`: "),
            "{error}"
        );
        assert!(!Step::new("/no/such/program").succeeds());
        assert!(!Step::new("false").succeeds() && Step::new("true").succeeds());
    }

    #[test]
    fn folder_and_environment_are_those_that_were_given() {
        let step = Step::new("sh")
            .words("-c")
            .arg("pwd; echo $A; echo ${HOME-none}");
        let step = step.folder(Path::new("/")).env("A", "b").unset("HOME");
        assert_eq!(step.output().unwrap(), "/\nb\nnone");
    }
}
