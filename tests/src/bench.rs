//! The benches: apex beside what people would use instead, in one run.
//!
//! 1. A figure is a median of many runs; peer and apex take turns, so that drift meets both.
//! 2. Every bench checks what it computed. A fast wrong answer is an error, not a figure.
//! 3. Each has a tiny run in the tests that asserts its outputs and never its times.
//!
//! Those that need only the core are a package of their own, `tests/core-bench`.
//!
//! Read in this order; a module imports only modules above it.

pub mod error;

pub mod terminal;

pub mod keys;

pub mod sink;

pub mod lift;

pub mod host;

pub mod tools;

use std::io::Write;

pub use apex_core_bench::{edit, stats, table, trace};

pub use self::error::BenchError;

/// The benches, in the order in which they run.
pub const NAMES: [&str; 6] = ["edit", "scale", "snapshot", "regexp", "keys", "tools"];

/// Runs a bench and writes its table.
///
/// # Errors
/// A result is wrong, something is not built, or there is no such bench.
pub fn run(name: &str, out: &mut impl Write) -> Result<(), BenchError> {
    if apex_core_bench::NAMES.contains(&name) {
        return Ok(apex_core_bench::run(name, out)?);
    }
    let table = match name {
        "keys" => keys::run(5, 200)?,
        "tools" => tools::run(tools::Amount {
            rounds: 9,
            entries: 8192,
            proposals: 4096,
        })?,
        _ => {
            let words = format!("there is no bench `{name}`; there are {}", NAMES.join(", "));
            return Err(BenchError::Wrong(words));
        }
    };
    // Who closed the output wants no table.
    writeln!(out, "{table}").ok();
    Ok(())
}
