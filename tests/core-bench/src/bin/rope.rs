//! Replays a recorded editing session on a bare rope, with the allocator of the system.
//!
//! `cargo xtask bench edit` runs it beside its own process, whose allocator is that of apex.

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use apex_core_bench::BenchError;
use apex_core_bench::edit;
use apex_core_bench::trace::Trace;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    match measure(&name) {
        Ok(ns) => {
            writeln!(stdout(), "{ns}").ok();
            ExitCode::SUCCESS
        }
        Err(error) => {
            writeln!(stderr(), "rope {name}: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

/// Returns nanoseconds per edit of a session.
fn measure(name: &str) -> Result<f64, BenchError> {
    edit::bare(&Trace::read(name)?)
}
