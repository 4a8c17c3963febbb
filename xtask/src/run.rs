//! `cargo xtask run`: apex from this checkout, with its tools, in one step.

use std::ffi::OsString;

use crate::ChoreError;
use crate::dist;
use crate::files;
use crate::guests;
use crate::process::Step;
use crate::say::say;

/// Builds what is needed, grants the bundled tools what they ask for, and becomes `apex`.
///
/// Whichever `apex` comes first starts the daemon, with the plugins of this checkout, if none runs.
pub(crate) fn run(files: &[OsString]) -> Result<(), ChoreError> {
    dist::build_programs()?;
    let tools = guests::build_bundled()?;
    for tool in &tools {
        say(&format!(
            "granting {tool} what its manifest asks for, by the hash just built"
        ));
        if let Err(error) = apex().words("tool grant").arg(tool).run() {
            say(&format!(
                "{tool} has no grant, and so does nothing: {error}. An apexd that ran before this \
                 has plugins of its own; end it and run this again to have those of this checkout"
            ));
        }
    }
    Err(ChoreError::Process(
        files.iter().fold(apex(), Step::arg).replace_us(),
    ))
}

/// The `apex` of this checkout.
fn apex() -> Step {
    let program = files::target().join("release/apex");
    Step::new(program).env("APEX_PLUGINS", files::root().join("plugins"))
}
