//! What connections and sessions ask of the daemon, which knows the sessions and the tool host.

use apex_core::ids::RequestId;
use apex_core::message::{ErrorCode, ErrorMessage, Query, SessionName, ToolOrder};
use tokio::sync::{mpsc, oneshot};

use crate::seam::{Asker, ConnectionIds, SessionInput};

/// Most questions that wait for the daemon; past it whoever asks waits.
pub const DESK_QUEUE_COUNT_MAX: usize = 256;

/// A session's queue, as given to a connection that joins it.
#[derive(Clone, Debug)]
pub struct SessionDoor {
    /// Which session.
    pub session: apex_core::ids::SessionId,
    /// Its queue.
    pub inputs: mpsc::Sender<SessionInput>,
}

/// What the daemon hears.
#[derive(Debug)]
pub enum DaemonInput {
    /// Finds a session, or makes it when its label is new and `is_made`.
    Find {
        /// Which.
        name: SessionName,
        /// Whether a new label makes a session.
        is_made: bool,
        /// The way in.
        reply: oneshot::Sender<Result<SessionDoor, ErrorMessage>>,
    },
    /// Something that is not about one session.
    Ask {
        /// Who asks.
        asker: Asker,
        /// For the answer.
        request: RequestId,
        /// What.
        ask: Ask,
    },
}

/// A question or an order that is not about one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The list of sessions.
    Sessions,
    /// The list of tools.
    Tools,
    /// A tool's log.
    ToolLog(String),
    /// The daemon's own figures.
    Status,
    /// Makes a session of this label.
    SessionNew(String),
    /// Renames a session.
    SessionRename {
        /// Its label.
        label: String,
        /// Its new label.
        new_label: String,
    },
    /// Ends a session.
    SessionDelete(String),
    /// An order about tools.
    Tool(ToolOrder),
}

impl Ask {
    /// Returns the question that a query puts to the daemon; none when it is about a session.
    #[must_use]
    pub fn from_query(query: &Query) -> Option<Self> {
        match query {
            Query::Sessions => Some(Self::Sessions),
            Query::Tools => Some(Self::Tools),
            Query::ToolLog(tool) => Some(Self::ToolLog(tool.clone())),
            Query::Status => Some(Self::Status),
            Query::Session | Query::Text(_) | Query::Hash(_) | Query::Entries { .. } => None,
        }
    }
}

/// The way to the daemon. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Desk {
    inputs: mpsc::Sender<DaemonInput>,
    /// Where connection ids come from.
    pub connections: ConnectionIds,
}

impl Desk {
    /// Returns the desk, and the receiver that the daemon reads.
    #[must_use]
    pub fn new() -> (Self, mpsc::Receiver<DaemonInput>) {
        let (inputs, receiver) = mpsc::channel(DESK_QUEUE_COUNT_MAX);
        (
            Self {
                inputs,
                connections: ConnectionIds::default(),
            },
            receiver,
        )
    }

    /// Finds a session, or makes it when its label is new and `is_made`.
    ///
    /// # Errors
    /// When there is none, or the daemon ends.
    pub async fn find(
        &self,
        name: SessionName,
        is_made: bool,
    ) -> Result<SessionDoor, ErrorMessage> {
        let (reply, answer) = oneshot::channel();
        self.send(DaemonInput::Find {
            name,
            is_made,
            reply,
        })
        .await;
        answer.await.unwrap_or_else(|_| Err(ending()))
    }

    /// Asks something; the answer goes to the asker.
    pub async fn ask(&self, asker: Asker, request: RequestId, ask: Ask) {
        self.send(DaemonInput::Ask {
            asker,
            request,
            ask,
        })
        .await;
    }

    async fn send(&self, input: DaemonInput) {
        if let Err(mpsc::error::SendError(DaemonInput::Ask { asker, request, .. })) =
            self.inputs.send(input).await
        {
            asker.reply(request, Err(ending()));
        }
    }
}

fn ending() -> ErrorMessage {
    ErrorMessage::new(
        ErrorCode::Retry,
        "the daemon is ending; start it again with apex",
    )
}
