//! apex: the terminal user interface, and the command line. What it takes is in `cli.rs`.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    apex_ui::cli::main()
}
