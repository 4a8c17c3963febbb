//! `apex notify`: tells the user of a session something.

use apex_core::entry::MetaOp;
use apex_core::ids::NoticeId;

use crate::cli::ask::Context;
use crate::cli::error::CliError;
use crate::cli::join::Joined;

/// Tells whoever uses the session something.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What.
    text: String,
    /// How urgent it is.
    #[arg(long, value_enum, default_value = "information")]
    level: Level,
}

/// How urgent a notice is.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Level {
    /// For whoever looks for it.
    Debug,
    /// Good to know.
    Information,
    /// Something may be wrong.
    Warning,
    /// Something is wrong.
    Error,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(context: &Context, arguments: &Arguments) -> Result<(), CliError> {
    let mut joined = Joined::join(context, "notify").await?;
    let op = MetaOp::Notify {
        notice: NoticeId::default(),
        owner: joined.attachment(),
        level: arguments.level as u8,
        text: arguments.text.clone(),
    };
    joined.request("the notice", op).await?;
    joined.leave().await
}
