//! `apex cat`: the bytes of a buffer, as they would be written to its file.

use apex_core::message::Query;

use crate::cli::ask::{Asker, Context, Missing, find_buffer};
use crate::cli::error::CliError;
use crate::cli::output::Output;

/// Prints a buffer's bytes, exactly.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Its id, or its name: absolute, or from the working directory.
    buffer: String,
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
    let mut asker = Asker::connect(context, Missing::Fail).await?;
    let buffers = asker.buffers(context).await?;
    let buffer = find_buffer(&buffers, &arguments.buffer, context)?;
    let query = Query::Text(buffer.id.to_string());
    asker
        .copy("the question for a text", context, query, output)
        .await
}
