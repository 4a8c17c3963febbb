//! Why a bench has no figures.

use std::fmt;
use std::path::PathBuf;

use apex_core::node::NodeError;

/// Why a bench has no figures.
#[derive(Debug)]
pub enum BenchError {
    /// A file cannot be read.
    Read(PathBuf, std::io::Error),
    /// A bench that needs only the core.
    Core(apex_core_bench::BenchError),
    /// The core refused what a bench did.
    Node(NodeError),
    /// A component does not do what it should.
    Component(wasmtime::Error),
    /// A terminal or a program cannot be had.
    Terminal(String),
    /// What was computed is not what it must be.
    Wrong(String),
}

impl From<apex_core_bench::BenchError> for BenchError {
    fn from(error: apex_core_bench::BenchError) -> Self {
        Self::Core(error)
    }
}

impl From<NodeError> for BenchError {
    fn from(error: NodeError) -> Self {
        Self::Node(error)
    }
}

impl From<wasmtime::Error> for BenchError {
    fn from(error: wasmtime::Error) -> Self {
        Self::Component(error)
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Core(error) => error.fmt(f),
            Self::Node(error) => error.fmt(f),
            Self::Component(error) => write!(f, "the component failed: {error:#}"),
            Self::Terminal(what) => f.write_str(what),
            Self::Wrong(what) => write!(f, "the result is wrong: {what}"),
        }
    }
}

impl std::error::Error for BenchError {}
