//! `cargo xtask test`: all that must hold before a change goes in.

use std::ffi::OsString;
use std::path::Path;

use crate::ChoreError;
use crate::bench;
use crate::dist;
use crate::files;
use crate::guests;
use crate::process::Step;
use crate::say::say;

/// Runs every check, the quick ones first, and stops at the first that fails. A long run gives the
/// tests that take their time from `APEX_LONG` all they want.
pub(crate) fn run(is_long: bool) -> Result<(), ChoreError> {
    let root = files::root();
    need_component("rustfmt", "fmt")?;
    need_component("clippy", "clippy")?;
    let cargo = |words| Step::new("cargo").words(words).folder(&root);

    part("format");
    cargo("fmt --all --check").run()?;
    let mut folders = guests::folders()?;
    folders.push(bench::peers_folder());
    for folder in folders {
        Step::new("cargo")
            .words("fmt --all --check")
            .folder(&folder)
            .run()?;
    }
    part("tools");
    guests::build()?;
    part("lints");
    cargo("clippy --workspace --all-targets --release -- -D warnings").run()?;
    part("documentation");
    cargo("doc --no-deps --workspace --release")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    part("rules of the bundled tools");
    for folder in guests::folders()? {
        if folder.join("src").is_dir() {
            test_natively(&folder)?;
        }
    }
    part("tests");
    // The tests run the programs themselves, which `cargo test` would not build for them.
    dist::build_programs()?;
    let tests = cargo("test --workspace --release");
    if is_long {
        tests.env("APEX_LONG", "1")
    } else {
        tests
    }
    .run()?;
    part("bugs that the simulator must find");
    let canaries = "test --release --package apex-sim --features canaries --test canaries";
    cargo(canaries)
        .env("APEX_LONG", if is_long { "1" } else { "" })
        .run()?;
    say("every check passed");
    Ok(())
}

/// Runs files of cases for the Edit command language.
pub(crate) fn vectors(files: &[OsString]) -> Result<(), ChoreError> {
    let cargo = Step::new("cargo").words("run --release --quiet --package apex-vectors --");
    Ok(files.iter().fold(cargo, Step::arg).run()?)
}

/// Runs worlds of the simulator.
pub(crate) fn sim(words: &[OsString]) -> Result<(), ChoreError> {
    let is_canaries = words.iter().any(|word| word == "--canaries");
    let features = if is_canaries {
        "--features canaries --"
    } else {
        "--"
    };
    let cargo = Step::new("cargo").words("run --release --quiet --package apex-sim");
    let cargo = cargo.words(features);
    Ok(words.iter().fold(cargo, Step::arg).run()?)
}

/// The tests of a bundled tool that need no apex.
fn test_natively(folder: &Path) -> Result<(), ChoreError> {
    let target = files::target().join("guests-native");
    let tests = Step::new("cargo")
        .words("test --release --target-dir")
        .arg(target);
    tests.folder(folder).run().map_err(ChoreError::Process)
}

/// Makes sure of a part of the Rust toolchain.
fn need_component(name: &str, command: &str) -> Result<(), ChoreError> {
    if !Step::new("cargo").arg(command).arg("--version").succeeds() {
        say(&format!("{name} is missing: letting rustup add it"));
        Step::new("rustup").words("component add").arg(name).run()?;
    }
    Ok(())
}

fn part(name: &str) {
    say(&format!("---- {name} ----"));
}
