//! `apex rename`: gives a session another name.

use apex_core::message::ClientMessage;

use crate::cli::ask::{Asker, Context, Missing};
use crate::cli::error::CliError;

/// Gives a session another name.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Its name.
    old: String,
    /// Its new name, which no session has.
    new: String,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`].
pub(super) async fn run(context: &Context, arguments: &Arguments) -> Result<(), CliError> {
    let named = Context {
        session: arguments.old.clone(),
        ..context.clone()
    };
    let mut asker = Asker::connect(&named, Missing::Fail).await?;
    asker.check_session(&named).await?;
    let (label, new_label) = (named.session, arguments.new.clone());
    asker
        .order("the order to rename", |request| {
            ClientMessage::SessionRename {
                request,
                label,
                new_label,
            }
        })
        .await
        .map(drop)
}
