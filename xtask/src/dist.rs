//! `cargo xtask dist`: a folder that can be packed and installed.

use crate::ChoreError;
use crate::files;
use crate::guests;
use crate::process::Step;
use crate::say::say;

/// The programs, which look for each other and for `plugins/` in the folder that they are in.
const PROGRAMS: [&str; 2] = ["apex", "apexd"];
/// Texts that go with them.
const TEXTS: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Builds everything and makes `target/dist/apex-VERSION` afresh.
pub(crate) fn run() -> Result<(), ChoreError> {
    let root = files::root();
    build_programs()?;
    let tools = guests::build_bundled()?;
    let dist = files::target()
        .join("dist")
        .join(concat!("apex-", env!("CARGO_PKG_VERSION")));
    files::remove_folder(&dist)?;
    for program in PROGRAMS {
        files::copy(
            &files::target().join("release").join(program),
            &dist.join(program),
        )?;
    }
    for tool in tools {
        for file in [format!("{tool}.wasm"), format!("{tool}.toml")] {
            files::copy(
                &root.join("plugins").join(&file),
                &dist.join("plugins").join(&file),
            )?;
        }
    }
    for text in TEXTS {
        files::copy(&root.join(text), &dist.join(text))?;
    }
    say(&format!(
        "{} is ready; start {}/apex",
        dist.display(),
        dist.display()
    ));
    Ok(())
}

/// Builds `apex` and `apexd`, and the small programs of the tests: for a part of the workspace
/// cargo would choose other features of the same packages, and build them twice.
pub(crate) fn build_programs() -> Result<(), ChoreError> {
    let cargo = Step::new("cargo").words("build --release --workspace --bins");
    cargo
        .folder(&files::root())
        .run()
        .map_err(ChoreError::Process)
}
