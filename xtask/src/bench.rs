//! `cargo xtask bench`: builds what is measured, and measures.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::ChoreError;
use crate::dist;
use crate::files;
use crate::guests;
use crate::process::Step;
use crate::say::say;

/// The benches of `tests/core-bench`, which need neither apex's programs nor its tools.
const OF_CORE: [&str; 4] = ["edit", "scale", "snapshot", "regexp"];

/// Runs the benches of these names, or all of them.
pub(crate) fn run(names: &[OsString]) -> Result<(), ChoreError> {
    let is_of_core = |name: &OsString| OF_CORE.iter().any(|of_core| name == of_core);
    let program = if !names.is_empty() && names.iter().all(is_of_core) {
        Step::new("cargo")
            .words("build --release --package apex-core-bench --bins")
            .folder(&files::root())
            .run()?;
        "core-bench"
    } else {
        dist::build_programs()?;
        guests::build()?;
        "bench"
    };
    let bench = Step::new(files::target().join("release").join(program)).unset("APEX_PEERS");
    let mut bench = names.iter().fold(bench, Step::arg);
    if (names.is_empty() || names.iter().any(|name| name == "edit"))
        && let Some(peers) = build_peers()
    {
        bench = bench.env("APEX_PEERS", peers);
    }
    Ok(bench.folder(&files::root()).run()?)
}

/// Where the replicated text libraries are that apex is measured beside.
pub(crate) fn peers_folder() -> PathBuf {
    files::root().join("tests/peers")
}

/// Builds them, and returns the program; none if that fails, as it does where their crates cannot
/// be fetched: the other figures are good without.
fn build_peers() -> Option<PathBuf> {
    let builds = files::target().join("peers");
    let build = Step::new("cargo")
        .words("build --release --locked --target-dir")
        .arg(&builds)
        .folder(&peers_folder());
    match build.run() {
        Ok(()) => Some(builds.join("release/peers")),
        Err(error) => {
            say(&format!(
                "{error}\nxtask: measuring without the replicated text libraries (diamond-types, \
                 loro, yrs, automerge): their crates could not be fetched or built"
            ));
            None
        }
    }
}
