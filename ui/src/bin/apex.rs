//! apex: the terminal user interface, and the command line. What it takes is in `cli.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    apex_ui::cli::main()
}
