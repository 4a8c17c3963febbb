//! Where errors of the program `apex` become words, hints and exit codes.

use std::error::Error as _;
use std::fmt;
use std::io;

use apex_core::message::{ErrorCode, ErrorMessage};
use apex_core::proposal::Refusal;

use crate::link::LinkError;
use crate::link::runtime::RuntimeDirError;
use crate::run::UiError;

/// Exit codes, as the help text tells them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  it failed; the message says why
  2  the command line is wrong
  3  no such session, buffer, tool, shard or attachment
  4  refused: a conflict, a file that changed on disk, a missing right
  5  no daemon, or none that this program can talk to";

/// Why a command did not do what it should.
#[derive(Debug)]
pub enum CliError {
    /// The command line makes no sense.
    Usage(String),
    /// There is no connection, or none any more.
    Link(LinkError),
    /// The daemon answered with an error.
    Answer(ErrorMessage),
    /// A leader refused what was proposed.
    Refused(Refusal),
    /// There is no session of that label.
    NoSession {
        /// The label.
        label: String,
        /// The labels that there are.
        labels: Vec<String>,
    },
    /// There is no buffer of that id or name.
    NoBuffer(String),
    /// Several buffers have that name.
    ManyBuffers {
        /// The name.
        name: String,
        /// Their ids.
        ids: Vec<String>,
    },
    /// A file has no such place.
    NoAddress {
        /// Its name.
        name: String,
        /// The address.
        address: String,
        /// How many lines it has.
        line_count: u64,
    },
    /// The daemon did not answer in time.
    Silent {
        /// To what.
        what: &'static str,
        /// How long it had, in seconds.
        seconds: u64,
    },
    /// The daemon answered something else than what was asked.
    Unexpected(&'static str),
    /// The screen ended against the user's will.
    Screen(UiError),
    /// The output cannot be written.
    Output(io::Error),
    /// The system refused something else.
    System(io::Error),
}

impl CliError {
    /// Returns the exit code, as [`EXIT_CODES`] lists them.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            // Whoever read the output has seen enough.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Screen(_)
            | Self::Output(_)
            | Self::System(_)
            | Self::NoAddress { .. }
            | Self::Silent { .. }
            | Self::Unexpected(_) => 1,
            Self::Usage(_) | Self::ManyBuffers { .. } => 2,
            Self::NoSession { .. } | Self::NoBuffer(_) => 3,
            Self::Link(_) => 5,
            Self::Refused(refusal) => match refusal {
                Refusal::NotFound(_) => 3,
                Refusal::Conflict { .. }
                | Refusal::Stale { .. }
                | Refusal::Diverged { .. }
                | Refusal::Several(_)
                | Refusal::NotGranted(_)
                | Refusal::Refused(_) => 4,
                Refusal::OutOfRange(_) | Refusal::SplitLeadership | Refusal::Retry(_) => 1,
            },
            Self::Answer(error) => match error.code {
                ErrorCode::NotFound => 3,
                ErrorCode::ChangedOnDisk | ErrorCode::Denied => 4,
                ErrorCode::Protocol
                | ErrorCode::Fenced
                | ErrorCode::WrongSeq
                | ErrorCode::BadOp
                | ErrorCode::NotLeader
                | ErrorCode::Exists
                | ErrorCode::System
                | ErrorCode::Limit
                | ErrorCode::Retry
                | ErrorCode::Withdrawn => 1,
            },
        }
    }

    /// Returns whether the user has nothing to be told: the reader of the output went away.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns what standard error shows: the message with its causes, then what to do.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = format!("apex: {self}");
        let mut cause = self.source();
        while let Some(error) = cause {
            words.push_str(&format!(": {error}"));
            cause = error.source();
        }
        words.push('\n');
        if let Some(hint) = self.hint() {
            words.push_str(&format!("apex: {hint}\n"));
        }
        words
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Link(error) => error.hint(),
            Self::Usage(_) => Some("`apex --help` tells the commands".into()),
            Self::NoSession { labels, .. } if labels.is_empty() => {
                Some("there is none; make one with `apex new NAME`".into())
            }
            Self::NoSession { labels, .. } => Some(format!("there are: {}", labels.join(", "))),
            Self::NoBuffer(_) => {
                Some("`apex ls --buffers` lists ids and names, `apex open FILE` opens one".into())
            }
            Self::ManyBuffers { ids, .. } => {
                Some(format!("name one by its id: {}", ids.join(", ")))
            }
            Self::Silent { .. } | Self::Unexpected(_) => {
                Some("apexd may hang; look at apexd.log beside its socket".into())
            }
            Self::NoAddress { .. } => {
                Some("an address is a line `12`, line and column `3:5` or a position `#34`".into())
            }
            Self::Answer(_)
            | Self::Refused(_)
            | Self::Screen(_)
            | Self::Output(_)
            | Self::System(_) => None,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(words) => f.write_str(words),
            Self::Link(error) => fmt::Display::fmt(error, f),
            Self::Answer(error) => fmt::Display::fmt(error, f),
            Self::Refused(refusal) => fmt::Display::fmt(refusal, f),
            Self::NoSession { label, .. } => write!(f, "there is no session {label:?}"),
            Self::NoBuffer(name) => write!(f, "there is no buffer {name:?}"),
            Self::ManyBuffers { name, ids } => {
                write!(f, "{} buffers have the name {name:?}", ids.len())
            }
            Self::NoAddress {
                name,
                address,
                line_count,
            } => {
                let lines = if *line_count == 1 { "line" } else { "lines" };
                write!(
                    f,
                    "{name} has no place {address}: it has {line_count} {lines}"
                )
            }
            Self::Silent { what, seconds } => {
                write!(f, "the daemon did not answer {what} within {seconds} s")
            }
            Self::Unexpected(what) => {
                write!(f, "the daemon answered {what} with something else")
            }
            Self::Screen(error) => fmt::Display::fmt(error, f),
            Self::Output(_) => f.write_str("cannot write the output"),
            Self::System(_) => f.write_str("the system refused"),
        }
    }
}

impl std::error::Error for CliError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link(error) => error.source(),
            Self::Screen(error) => error.source(),
            Self::Output(source) | Self::System(source) => Some(source),
            Self::Usage(_)
            | Self::Answer(_)
            | Self::Refused(_)
            | Self::NoSession { .. }
            | Self::NoBuffer(_)
            | Self::ManyBuffers { .. }
            | Self::NoAddress { .. }
            | Self::Silent { .. }
            | Self::Unexpected(_) => None,
        }
    }
}

impl From<LinkError> for CliError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<RuntimeDirError> for CliError {
    fn from(error: RuntimeDirError) -> Self {
        Self::Link(LinkError::RuntimeDir(error))
    }
}

impl From<Refusal> for CliError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_with_its_cause_and_what_to_do() {
        let error = CliError::from(RuntimeDirError::Io {
            path: "/x".into(),
            source: io::ErrorKind::PermissionDenied.into(),
        });
        assert_eq!(
            error.words(),
            "apex: cannot use the runtime directory /x: permission denied\n\
             apex: set APEX_RUNTIME_DIR to a directory of your own with a short path\n"
        );
        assert_eq!(error.exit_code(), 5);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let error = CliError::Output(io::ErrorKind::BrokenPipe.into());
        assert!(error.is_quiet());
        assert_eq!(error.exit_code(), 0);
        let error = CliError::Output(io::ErrorKind::StorageFull.into());
        assert!(!error.is_quiet());
        assert_eq!(error.exit_code(), 1);
    }

    #[test]
    fn a_missing_session_names_those_that_exist() {
        let error = CliError::NoSession {
            label: "b".into(),
            labels: vec!["a".into(), "main".into()],
        };
        assert_eq!(
            error.words(),
            "apex: there is no session \"b\"\napex: there are: a, main\n"
        );
        assert_eq!(error.exit_code(), 3);
    }
}
