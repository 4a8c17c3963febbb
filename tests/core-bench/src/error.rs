//! Why a bench has no figures.

use std::fmt;
use std::path::PathBuf;

use apex_core::node::NodeError;

/// Why a bench has no figures.
#[derive(Debug)]
pub enum BenchError {
    /// A file cannot be read, or a program not be started.
    Read(PathBuf, std::io::Error),
    /// A file is no trace.
    Trace(PathBuf, serde_json::Error),
    /// The core refused what a bench did.
    Node(NodeError),
    /// What was computed is not what it must be.
    Wrong(String),
}

impl From<NodeError> for BenchError {
    fn from(error: NodeError) -> Self {
        Self::Node(error)
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Trace(path, error) => write!(f, "{} is no trace: {error}", path.display()),
            Self::Node(error) => error.fmt(f),
            Self::Wrong(what) => write!(f, "the result is wrong: {what}"),
        }
    }
}

impl std::error::Error for BenchError {}
