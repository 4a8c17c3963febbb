//! `apex open`: shows a file in a session without being a screen.

use std::ffi::OsString;

use apex_core::proposal::Change;

use crate::cli::ask::{Context, Missing};
use crate::cli::error::CliError;
use crate::cli::join::Joined;
use crate::cli::output::Output;
use crate::cli::place::Place;

/// Opens files or directories in a session and shows them there; prints the ids of their buffers.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What, and where in it: FILE, FILE:LINE, FILE:LINE:COLUMN or FILE:#POSITION.
    #[arg(value_name = "FILE[:ADDR]", required = true)]
    files: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(
    context: &Context,
    arguments: &Arguments,
    output: &mut Output,
) -> Result<(), CliError> {
    let places: Vec<Place> = arguments
        .files
        .iter()
        .map(|file| Place::parse(file, &context.directory))
        .collect::<Result<_, _>>()?;
    let mut joined = Joined::join(context, "open", Missing::Start).await?;
    for Place { path, address } in places {
        let buffer = joined.open(path).await?;
        joined
            .propose(vec![Change::Show { buffer, address }])
            .await?;
        output.line(buffer)?;
    }
    joined.leave().await
}
