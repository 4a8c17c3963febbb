//! `apex open`: shows a file in a session without being a screen.

use std::ffi::OsString;

use apex_core::ids::BufferId;
use apex_core::proposal::Change;

use crate::cli::ask::{Context, Missing};
use crate::cli::error::CliError;
use crate::cli::follow::{Following, Reading};
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
    let mut following = Following::join(context, "open", Missing::Start).await?;
    following.begin_in(context).await?;
    for place in &places {
        let buffer = open(&mut following, place).await?;
        output.line(buffer)?;
    }
    following.leave().await
}

/// Shows a file as soon as something of it is there, and where to look in it once it was read.
async fn open(following: &mut Following, place: &Place) -> Result<BufferId, CliError> {
    let Place { path, address } = place;
    let opened = following.open(path).await?;
    let buffer = opened.buffer;
    let show = |address: &str| {
        let address = address.into();
        vec![Change::Show { buffer, address }]
    };
    if address.is_empty() || opened.reading != Reading::Done {
        following.propose(show("")).await?;
    }
    following.read_to_end(opened, path).await?;
    if !address.is_empty() {
        following.propose(show(address)).await?;
    }
    Ok(buffer)
}
