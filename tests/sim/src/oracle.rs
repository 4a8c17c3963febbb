//! Who watches a world: what passes on the streams, what is published, what the users did.
//!
//! No oracle calls `apply`, `map`, the log or the authority: texts are plain strings to it, and it
//! keeps its own books of logs and leases.

pub(crate) mod ends;
pub(crate) mod logs;
pub(crate) mod told;
pub(crate) mod typed;
pub(crate) mod views;

use std::fmt;

use self::logs::Logs;
use self::told::Told;
use self::typed::Typed;

/// What an oracle found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which oracle, with the invariant that it watches.
    pub oracle: &'static str,
    /// What it saw.
    pub words: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.words)
    }
}

/// All oracles of a world, and what the first of them found.
#[derive(Debug, Default)]
pub(crate) struct Oracles {
    pub(crate) logs: Logs,
    pub(crate) told: Told,
    pub(crate) typed: Typed,
    pub(crate) failure: Option<Failure>,
}

impl Oracles {
    /// Keeps what an oracle found, if it is the first.
    pub(crate) fn take(&mut self, found: Result<(), Failure>) {
        if let Err(failure) = found
            && self.failure.is_none()
        {
            self.failure = Some(failure);
        }
    }
}

/// Fails if a claim does not hold.
pub(crate) fn hold(
    claim: bool,
    oracle: &'static str,
    words: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if claim {
        return Ok(());
    }
    let words = words();
    Err(Failure { oracle, words })
}
