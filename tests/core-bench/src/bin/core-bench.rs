//! `cargo xtask bench` of what needs only the core: measures, and prints the table.
//!
//! Its allocator is that of apex's programs.

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    for name in std::env::args().skip(1) {
        if let Err(error) = apex_core_bench::run(&name, &mut stdout()) {
            writeln!(stderr(), "bench {name}: {error}").ok();
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
