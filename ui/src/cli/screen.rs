//! `apex` without a command: a session in the terminal.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use apex_core::entry::AttachmentKind;
use apex_core::message::{Hello, Takeover};

use crate::app::{FileArgument, Opening};
use crate::cli::ask::Context;
use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::cli::place::{Place, absolute};
use crate::link::start::{Launch, connect_or_start};
use crate::run::{UiError, run_ui};

/// Opens the context's session, and files in it, until the user leaves.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(
    context: &Context,
    takeover: Takeover,
    files: &[OsString],
    output: &mut Output,
) -> Result<(), CliError> {
    // Before the daemon starts and the screen is taken: a mistake is told where it was made.
    let files = files
        .iter()
        .map(|file| {
            let Place { path, address } = Place::parse(file, &context.directory)?;
            Ok(FileArgument { path, address })
        })
        .collect::<Result<_, CliError>>()?;
    let directory = Some(absolute(".", &context.directory)?);
    let opening = Opening { files, directory };
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(CliError::Screen(UiError::NotATerminal));
    }
    let link = connect_or_start(&context.runtime, Launch::of_process).await?;
    let hello = Hello {
        session: context.session_name(),
        kind: AttachmentKind::Ui,
        name: name(),
        takeover,
        is_follower: true,
        resume: None,
    };
    let farewell = run_ui(link, hello, opening)
        .await
        .map_err(CliError::Screen)?;
    if farewell.is_empty() {
        Ok(())
    } else {
        output.line(farewell)
    }
}

/// Returns what other parties see of this screen: the program, the machine and the terminal, as
/// far as the system tells them.
fn name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let terminal = std::fs::read_link("/proc/self/fd/0").unwrap_or_default();
    let terminal = terminal.strip_prefix("/dev").unwrap_or(&terminal).display();
    format!("apex@{}:{terminal}", host.trim())
}
