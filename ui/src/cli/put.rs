//! `apex put`: writes a buffer to its file, as the command Put does.
//!
//! The leader's decision comes before the file is written, so the command follows the session: it
//! is done when the buffer's log says `Saved`, and has failed when `+Errors` of the file's
//! directory says why.

use apex_core::entry::{BufferOp, Op};
use apex_core::ids::Shard;
use apex_core::log::Record;
use apex_core::message::BufferInfo;
use apex_core::proposal::{Change, Refusal};

use crate::cli::ask::{Asker, Context, Missing, find_buffer};
use crate::cli::error::CliError;
use crate::cli::follow::Following;

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
    let info = find_buffer(&buffers, &arguments.buffer, context)?;
    let mut following = Following::join(asker, context, "put").await?;
    let written = put(&mut following, info).await;
    let left = following.leave().await;
    written.and(left)
}

async fn put(following: &mut Following, info: &BufferInfo) -> Result<(), CliError> {
    let (buffer, version) = (info.id, info.version);
    following
        .propose(vec![Change::Put { buffer, version }])
        .await?;
    loop {
        let record = following.record("the put").await?;
        if is_saved(&record, info) {
            return Ok(());
        }
        if let Some(words) = following.complaint(&record, &info.name) {
            return Err(Refusal::Refused(words).into());
        }
    }
}

fn is_saved(record: &Record, info: &BufferInfo) -> bool {
    matches!(
        &record.entry.op,
        Op::Buffer(BufferOp::Saved(saved))
            if record.shard == Shard::Buffer(info.id) && saved.version >= info.version
    )
}
