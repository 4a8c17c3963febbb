//! `cargo xtask vectors FILE.jsonl`: runs the cases of a file, and says which failed.

use std::io::{self, Write};
use std::process::ExitCode;
use std::{env, fs};

use apex_vectors::case::Case;

fn main() -> ExitCode {
    let files: Vec<_> = env::args_os().skip(1).collect();
    let mut out = io::stdout().lock();
    if files.is_empty() {
        let _closed = writeln!(out, "usage: vectors FILE.jsonl...");
        return ExitCode::from(2);
    }
    let (mut passed, mut failed) = (0, Vec::new());
    for file in &files {
        let lines = match fs::read_to_string(file) {
            Ok(lines) => lines,
            Err(error) => {
                let _closed = writeln!(out, "{}: {error}", file.display());
                return ExitCode::from(2);
            }
        };
        let lines = lines.split('\n').enumerate();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let case: Case = match serde_json::from_str(line) {
                Ok(case) => case,
                Err(error) => {
                    let number = number + 1;
                    let _closed = writeln!(out, "{}:{number}: no case: {error}", file.display());
                    return ExitCode::from(2);
                }
            };
            match case.check() {
                Ok(()) => passed += 1,
                Err(mismatch) => failed.push((case.id, mismatch)),
            }
        }
    }
    for (id, mismatch) in &failed {
        let _closed = writeln!(out, "{id}: {mismatch}");
    }
    let _closed = writeln!(out, "{passed} passed, {} failed", failed.len());
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
