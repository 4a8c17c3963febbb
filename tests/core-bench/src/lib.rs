//! The benches that need the core and nothing else, so that they are built in a moment.
//!
//! `tests/src/bench.rs` says how figures are made; its own benches need the programs.
//!
//! Read in this order; a module imports only modules above it.

pub mod error;

pub mod stats;

pub mod table;

pub mod trace;

pub mod peer;

pub mod edit;

pub mod session;

pub mod snapshot;

pub mod regexp;

pub mod scale;

use std::io::Write;

pub use self::error::BenchError;

/// The benches, in the order in which they run.
pub const NAMES: [&str; 4] = ["edit", "scale", "snapshot", "regexp"];

/// Runs a bench and writes its table.
///
/// # Errors
/// A result is wrong, something is not built, or there is no such bench.
pub fn run(name: &str, out: &mut impl Write) -> Result<(), BenchError> {
    let table = match name {
        "edit" => edit::run(15)?,
        "scale" => scale::run(15)?,
        "snapshot" => snapshot::run(15)?,
        "regexp" => regexp::run(7)?,
        _ => {
            let words = format!("there is no bench `{name}`; there are {}", NAMES.join(", "));
            return Err(BenchError::Wrong(words));
        }
    };
    // Who closed the output wants no table.
    writeln!(out, "{table}").ok();
    Ok(())
}
