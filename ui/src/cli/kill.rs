//! `apex kill`: ends a session, whose name must be spelled out.

use apex_core::message::ClientMessage;

use crate::cli::ask::{Asker, Context, Missing};
use crate::cli::error::CliError;

/// Ends a session and throws away what is in it, also what is not put.
///
/// Leaving a session with Exit, or closing the terminal, never does that.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Its name, spelled out; --session and $APEX_SESSION do not count here.
    #[arg(value_name = "SESSION")]
    name: String,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(context: &Context, arguments: &Arguments) -> Result<(), CliError> {
    let named = Context {
        session: arguments.name.clone(),
        ..context.clone()
    };
    let mut asker = Asker::connect(&named, Missing::Fail).await?;
    asker.check_session(&named).await?;
    let label = named.session;
    asker
        .order("the order to end", |request| ClientMessage::SessionDelete {
            request,
            label,
        })
        .await
        .map(drop)
}
