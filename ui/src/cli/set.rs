//! `apex set`: settings of a session.

use apex_core::entry::MetaOp;

use crate::cli::ask::Context;
use crate::cli::error::CliError;
use crate::cli::join::Joined;

/// Sets a setting of the session, or removes it when no value is given.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Which; those of a tool begin with `tool.NAME.` and stay when the tool goes.
    key: String,
    /// Its value.
    value: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(context: &Context, arguments: &Arguments) -> Result<(), CliError> {
    if arguments.key.is_empty() {
        return Err(CliError::Usage("a setting has a key".into()));
    }
    let mut joined = Joined::join(context, "set").await?;
    let op = MetaOp::Setting {
        key: arguments.key.clone(),
        value: arguments.value.clone(),
    };
    joined.request("the setting", op).await?;
    joined.leave().await
}
