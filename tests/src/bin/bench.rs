//! `cargo xtask bench [NAME...]`: measures, and prints the table.
//!
//! Peers that run in this process, such as a bare rope, have the allocator of apex's programs too.

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use apex_tests::bench;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = bench::NAMES.map(String::from).to_vec();
    }
    for name in names {
        if let Err(error) = bench::run(&name, &mut stdout()) {
            writeln!(stderr(), "bench {name}: {error}").ok();
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
