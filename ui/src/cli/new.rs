//! `apex new`: makes a session, which the daemon lays out, on the working directory.

use apex_core::message::ClientMessage;

use crate::cli::ask::{Asker, Context, Missing};
use crate::cli::error::CliError;
use crate::cli::follow::Following;

/// Makes a session that shows the working directory; no screen is needed.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Its name, which no session has yet.
    name: String,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(context: &Context, arguments: &Arguments) -> Result<(), CliError> {
    let mut asker = Asker::connect(context, Missing::Start).await?;
    let label = arguments.name.clone();
    asker
        .order("the order for a session", |request| {
            ClientMessage::SessionNew { request, label }
        })
        .await?;
    let context = Context {
        session: arguments.name.clone(),
        ..context.clone()
    };
    let mut following = Following::join(asker, &context, "new").await?;
    following.begin_in(&context).await?;
    following.leave().await
}
