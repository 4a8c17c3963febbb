//! Joining a session as a command: a short-lived attachment that asks for entries of the metalog
//! and leaves.

use apex_core::entry::{AttachmentKind, MetaOp};
use apex_core::ids::AttachmentId;
use apex_core::message::{ClientMessage, Hello, ServerMessage, Takeover};

use crate::cli::ask::{ANSWER_SECONDS, Asker, Context, Missing, within};
use crate::cli::error::CliError;

/// How long a leader and the daemon may take to decide and to write a file, in seconds.
pub const DECIDE_SECONDS: u64 = 30;

/// A command in a session.
#[derive(Debug)]
pub struct Joined {
    asker: Asker,
    attachment: AttachmentId,
}

impl Joined {
    /// Joins the context's session, which must exist, under the name `apex COMMAND`.
    ///
    /// # Errors
    /// [`CliError::NoSession`], or why the daemon refused.
    pub async fn join(context: &Context, command: &str) -> Result<Self, CliError> {
        let mut asker = Asker::connect(context, Missing::Fail).await?;
        asker.check_session(context).await?;
        asker.send(&ClientMessage::Hello(hello(context, command, false)))?;
        let welcome = async {
            loop {
                match asker.receive().await? {
                    ServerMessage::Welcome(welcome) => return Ok(welcome.attachment),
                    ServerMessage::Error { error, .. } => return Err(CliError::Answer(error)),
                    _ => {}
                }
            }
        };
        let attachment = within(ANSWER_SECONDS, "the hello", welcome).await?;
        Ok(Self { asker, attachment })
    }

    /// Asks the metalog for an entry.
    ///
    /// # Errors
    /// Why the daemon refused.
    pub async fn request(&mut self, what: &'static str, op: MetaOp) -> Result<(), CliError> {
        self.asker
            .order(what, |request| ClientMessage::MetaRequest { request, op })
            .await
            .map(drop)
    }

    /// Returns the command's attachment.
    #[must_use]
    pub const fn attachment(&self) -> AttachmentId {
        self.attachment
    }

    /// Leaves the session.
    ///
    /// # Errors
    /// [`CliError::Link`] when the daemon does not hear it.
    pub async fn leave(mut self) -> Result<(), CliError> {
        self.asker.send(&ClientMessage::Detach)?;
        self.asker.leave().await
    }
}

/// Returns what the command `apex COMMAND` says to join the context's session.
#[must_use]
pub fn hello(context: &Context, command: &str, is_follower: bool) -> Hello {
    Hello {
        session: context.session_name(),
        kind: AttachmentKind::Tool,
        name: format!("apex {command}"),
        takeover: Takeover::Watch,
        is_follower,
        resume: None,
    }
}
