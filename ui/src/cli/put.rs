//! `apex put`: writes a buffer to its file, as the command Put does.

use apex_core::proposal::Change;

use crate::cli::ask::{Asker, Context, Missing, find_buffer};
use crate::cli::error::CliError;
use crate::cli::join::Joined;

/// Writes a buffer to its file, unless somebody edits it at the same moment.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Its id, or its name: absolute, or from the working directory.
    buffer: String,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(context: &Context, arguments: &Arguments) -> Result<(), CliError> {
    let mut asker = Asker::connect(context, Missing::Fail).await?;
    let buffers = asker.buffers(context).await?;
    let buffer = find_buffer(&buffers, &arguments.buffer, context)?;
    let put = Change::Put {
        buffer: buffer.id,
        version: buffer.version,
    };
    let mut joined = Joined::join_with(asker, context, "put").await?;
    joined.propose(vec![put]).await?;
    joined.leave().await
}
