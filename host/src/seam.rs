//! The queues between the tasks of the daemon: who says what to whom, and nothing else.
//!
//! What the tool host's side needs to know of it:
//!
//! 1. The tool host is one more peer. Per tool and session it opens a connection through the
//!    session's [`SessionLink`], says `Hello { kind: Tool, is_follower: false }` and then speaks
//!    exactly as a socket peer does; the daemon's answers come back as
//!    [`ToolHostMessage::FromDaemon`].
//! 2. It follows a session through one replica of its own while it has a tool there, and says so by
//!    [`SessionLink::wish`]: then come the snapshot of [`ToolHostMessage::Snapshot`] and the
//!    records of [`ToolHostMessage::Records`]. It is never handed the authority's state again,
//!    except by a second `Snapshot`, which says that it fell behind and that everything it knew
//!    of that session starts afresh. Without tools a text is kept once.
//! 3. Its guests run on their own threads, it itself is a task beside the sessions, which follows
//!    and passes on and waits for nothing. A session never waits for it: the queue towards it takes
//!    any number of messages, and what fills it is bounded by [`RECORD_QUEUE_COUNT_MAX`] per
//!    session (a permit travels with each batch and comes back when the batch is dropped).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use apex_core::edit::Splice;
use apex_core::ids::{BufferId, ConnectionId, ProcessId, RequestId, SessionId, Version};
use apex_core::log::Record;
use apex_core::message::{
    Answer, ClientMessage, ErrorMessage, Mark, Query, ServerMessage, SessionInfo, ToolInfo,
    ToolOrder,
};
use apex_core::state::State;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

use crate::disk::{DiskError, Written};
use crate::files::{Found, GuardError, Loaded};
use crate::outlet::Outlet;
use crate::process::Event;

/// Most records of one session that wait for the tool host; past it they are forgotten and a
/// fresh snapshot is sent when there is room.
pub const RECORD_QUEUE_COUNT_MAX: usize = 1 << 16;
/// What [`ToolConfig::restart_wait_ms`] is unless something else is wanted.
pub const RESTART_WAIT_MS: u64 = 1_000;
/// Most messages that wait for one session; past it whoever sends waits.
pub const SESSION_QUEUE_COUNT_MAX: usize = 1024;

/// What the tool host is started with. Every directory may be missing.
#[derive(Clone, Debug)]
pub struct ToolConfig {
    /// Directories with `x.wasm` and `x.toml`, watched; an earlier one wins over a later one.
    pub plugin_dirs: Vec<PathBuf>,
    /// The user's grants (`$XDG_CONFIG_HOME/apex/grants.toml`), written by the tool host alone.
    pub grants_path: PathBuf,
    /// Where compiled components are kept (`$XDG_CACHE_HOME/apex`).
    pub cache_dir: PathBuf,
    /// Where a tool's own files may live (`$XDG_DATA_HOME/apex/tool`).
    pub data_dir: PathBuf,
    /// First wait before a tool that ended is started again, in milliseconds; it doubles each time.
    pub restart_wait_ms: u64,
}

/// What the daemon says to the tool host.
#[derive(Debug)]
pub enum ToolHostMessage {
    /// A session exists.
    SessionOpened(SessionOpened),
    /// The state that was wished for, or a newer one because the tool host fell behind: then all it
    /// knew starts afresh, connections excepted.
    Snapshot(SessionSnapshot),
    /// New entries of a session, in the order in which they apply to the snapshot.
    Records(SessionRecords),
    /// A session was deleted: its connections are gone.
    SessionClosed {
        /// Which.
        session: SessionId,
    },
    /// An answer or a result for one connection.
    FromDaemon {
        /// In which session.
        session: SessionId,
        /// For which connection.
        connection: ConnectionId,
        /// What.
        message: ServerMessage,
    },
    /// The daemon closed one connection, for the reason that it gives.
    ConnectionClosed {
        /// In which session.
        session: SessionId,
        /// Which.
        connection: ConnectionId,
        /// Why.
        reason: ErrorMessage,
    },
    /// The user orders something.
    Order {
        /// What.
        order: ToolOrder,
        /// Where the answer goes: `Done` or `Lines`.
        reply: oneshot::Sender<Result<Answer, ErrorMessage>>,
    },
    /// Asks for the list of tools.
    List {
        /// Where it goes.
        reply: oneshot::Sender<Vec<ToolInfo>>,
    },
    /// Asks for the newest lines of a tool's log.
    Log {
        /// The tool's name.
        tool: String,
        /// Where they go.
        reply: oneshot::Sender<Result<Vec<String>, ErrorMessage>>,
    },
    /// The daemon ends: tools stop, threads end.
    Shutdown {
        /// Answered when they have.
        reply: oneshot::Sender<()>,
    },
}

/// A session as the tool host meets it.
#[derive(Debug)]
pub struct SessionOpened {
    /// Which.
    pub session: SessionId,
    /// The way in.
    pub link: SessionLink,
}

/// A state, from which the tool host replays.
#[derive(Debug)]
pub struct SessionSnapshot {
    /// Of which session.
    pub session: SessionId,
    /// Which wish it answers; an answer to an older wish is void.
    pub wish: u64,
    /// The whole state: the start of the tool host's own replica.
    pub snapshot: State,
    /// Where the logs stand that the snapshot covers.
    pub marks: Vec<Mark>,
}

/// A batch of records on their way to the tool host.
#[derive(Debug)]
pub struct SessionRecords {
    /// Of which session.
    pub session: SessionId,
    /// In order, Meta before what it announces.
    pub records: Arc<[Arc<Record>]>,
    /// Room in the queue: comes back when this is dropped.
    pub permit: OwnedSemaphorePermit,
}

/// What a session hears.
#[derive(Debug)]
pub enum SessionInput {
    /// A connection begins; answers go where `peer` says.
    Connect {
        /// Which.
        connection: ConnectionId,
        /// The way back.
        peer: Peer,
    },
    /// Messages of a connection: what came in one go is handed over in one go.
    Messages {
        /// Which.
        connection: ConnectionId,
        /// What, in order; bounded by what one read of a socket, or one round of calls, gives.
        messages: Vec<ClientMessage>,
    },
    /// A connection ended without a word.
    Disconnect {
        /// Which.
        connection: ConnectionId,
    },
    /// A connection that fell behind has room for a snapshot.
    Room {
        /// Which.
        connection: ConnectionId,
    },
    /// A question of somebody who need not have joined.
    Query {
        /// Who asks.
        asker: Asker,
        /// For the answer.
        request: RequestId,
        /// What.
        query: Query,
    },
    /// The daemon asks what `apex ls` shows.
    Info {
        /// Where it goes.
        reply: oneshot::Sender<SessionInfo>,
    },
    /// The daemon renames the session.
    Rename {
        /// Its new label.
        label: String,
    },
    /// The daemon ends the session.
    End {
        /// What its peers are told.
        reason: ErrorMessage,
        /// Where modified texts are written; thrown away when none.
        rescue_dir: Option<PathBuf>,
        /// Answered with the files that were written.
        reply: oneshot::Sender<Vec<PathBuf>>,
    },
    /// A task of the session reports.
    Task(TaskReport),
}

/// What the tasks of a session report to it.
#[derive(Debug)]
pub enum TaskReport {
    /// Looking at a path ended; a piece of its text, or its end, came.
    Load {
        /// The buffer that is being loaded.
        buffer: BufferId,
        /// What came.
        step: LoadStep,
    },
    /// A file was looked at for [`ClientMessage::FileOpen`].
    Found {
        /// The absolute name.
        name: String,
        /// What is there.
        found: Result<Found, DiskError>,
    },
    /// A put ended.
    Put {
        /// Which of the session's puts.
        put: u64,
        /// How.
        result: Result<Written, PutError>,
    },
    /// A file was read again and compared.
    Get {
        /// Which of the session's gets.
        get: u64,
        /// How.
        result: Result<Fresh, DiskError>,
    },
    /// A command did something.
    Process {
        /// Which.
        process: ProcessId,
        /// What; none when nothing more will come.
        event: Option<Event>,
        /// Used when the next event may come; dropped, nothing more is read.
        permit: oneshot::Sender<()>,
    },
}

/// A step of loading a file.
#[derive(Debug)]
pub enum LoadStep {
    /// The next piece of the text.
    Piece {
        /// The piece.
        text: String,
        /// Used when the next piece may come; dropped, nothing more is read.
        permit: oneshot::Sender<()>,
    },
    /// The end.
    End(Result<Loaded, DiskError>),
}

/// Why a put failed.
#[derive(Debug)]
pub enum PutError {
    /// It would overwrite what somebody else wrote.
    Guard(GuardError),
    /// The system refused.
    Disk(DiskError),
}

/// A file that was read again, compared with its buffer.
#[derive(Debug)]
pub struct Fresh {
    /// The version that it was compared with.
    pub base: Version,
    /// The smallest change that makes the buffer equal to the file.
    pub splices: Vec<Splice>,
    /// What was read; none of a directory.
    pub loaded: Option<Loaded>,
}

/// The way back from a session to a peer.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A peer of the tool host.
    Tool(mpsc::UnboundedSender<ToolHostMessage>),
    /// A peer behind a socket.
    Socket(Outlet),
}

/// Who asked, and the way back.
#[derive(Clone, Debug)]
pub struct Asker {
    /// In which session; the nil id outside any.
    pub session: SessionId,
    /// On which connection.
    pub connection: ConnectionId,
    /// The way back.
    pub peer: Peer,
}

impl Asker {
    /// Sends a message; a peer that is gone needs none.
    pub fn send(&self, message: ServerMessage) {
        match &self.peer {
            Peer::Tool(back) => drop(back.send(ToolHostMessage::FromDaemon {
                session: self.session,
                connection: self.connection,
                message,
            })),
            Peer::Socket(outlet) => outlet.send(&message),
        }
    }

    /// Answers a request; request 0 wants no answer.
    pub fn reply(&self, request: RequestId, answer: Result<Answer, ErrorMessage>) {
        if request != RequestId::default() {
            self.send(ServerMessage::Reply { request, answer });
        }
    }

    /// Waits until a long answer may go on.
    pub async fn room(&self) {
        if let Peer::Socket(outlet) = &self.peer {
            outlet.room().await;
        }
    }

    /// Returns whether nobody is there any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match &self.peer {
            Peer::Tool(back) => back.is_closed(),
            Peer::Socket(outlet) => outlet.is_closed(),
        }
    }

    /// Tells a peer why its connection ends, and ends it.
    pub fn close(&self, reason: ErrorMessage) {
        match &self.peer {
            Peer::Tool(back) => drop(back.send(ToolHostMessage::ConnectionClosed {
                session: self.session,
                connection: self.connection,
                reason,
            })),
            Peer::Socket(outlet) => {
                outlet.send(&ServerMessage::Error {
                    error: reason,
                    shards: Vec::new(),
                });
                outlet.close();
            }
        }
    }
}

/// The tool host's way into one session. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SessionLink {
    /// The session's queue.
    pub(crate) inputs: mpsc::Sender<SessionInput>,
    /// The tool host's own queue, for the way back.
    pub(crate) back: mpsc::UnboundedSender<ToolHostMessage>,
    /// Where connection ids come from.
    pub(crate) connections: ConnectionIds,
    /// What the tool host wishes to follow.
    wish: watch::Sender<Wish>,
}

/// Whether the tool host follows a session: the number of its wish, counted from 1, or none.
pub type Wish = Option<u64>;

/// The session has ended; `SessionClosed` follows or came already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionGone;

impl SessionLink {
    /// Returns a way into the session that reads these queues, and where it learns what the tool
    /// host wishes.
    #[must_use]
    pub fn new(
        inputs: mpsc::Sender<SessionInput>,
        back: mpsc::UnboundedSender<ToolHostMessage>,
        connections: ConnectionIds,
    ) -> (Self, watch::Receiver<Wish>) {
        let (wish, wished) = watch::channel(None);
        let link = Self {
            inputs,
            back,
            connections,
            wish,
        };
        (link, wished)
    }

    /// Wishes for a snapshot and the records behind it, or for nothing more. Only the newest wish
    /// counts.
    pub fn wish(&self, wish: Wish) {
        self.wish.send_replace(wish);
    }

    /// Opens a connection; the next message on it is a `Hello`.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn connect(&self) -> Result<ConnectionId, SessionGone> {
        let connection = self.connections.next();
        let peer = Peer::Tool(self.back.clone());
        self.put(SessionInput::Connect { connection, peer }).await?;
        Ok(connection)
    }

    /// Sends messages, waiting while the session's queue is full.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn send(
        &self,
        connection: ConnectionId,
        messages: Vec<ClientMessage>,
    ) -> Result<(), SessionGone> {
        self.put(SessionInput::Messages {
            connection,
            messages,
        })
        .await
    }

    /// Drops a connection without a `Detach`: its attachment stays for the grace time.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn disconnect(&self, connection: ConnectionId) -> Result<(), SessionGone> {
        self.put(SessionInput::Disconnect { connection }).await
    }

    async fn put(&self, input: SessionInput) -> Result<(), SessionGone> {
        self.inputs.send(input).await.map_err(|_| SessionGone)
    }
}

/// Issues connection ids, from 1 upwards, never twice while the daemon runs.
#[derive(Clone, Debug, Default)]
pub struct ConnectionIds(Arc<AtomicU64>);

impl ConnectionIds {
    /// Returns a new one.
    #[must_use]
    pub fn next(&self) -> ConnectionId {
        ConnectionId::new(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// The daemon's way to the tool host: `tools::ToolHost::start(ToolConfig) -> ToolHandle` makes it.
/// Sending never waits and does nothing once the tool host has ended.
#[derive(Clone, Debug)]
pub struct ToolHandle {
    sender: mpsc::UnboundedSender<ToolHostMessage>,
}

impl ToolHandle {
    /// Returns the handle, and the receiver that the tool host reads.
    #[must_use]
    pub fn new() -> (Self, mpsc::UnboundedReceiver<ToolHostMessage>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender }, receiver)
    }

    /// Sends one message.
    pub fn send(&self, message: ToolHostMessage) {
        // A tool host that has ended needs to hear nothing any more.
        drop(self.sender.send(message));
    }

    /// Returns the queue itself, for the way back of connections.
    #[must_use]
    pub fn sender(&self) -> mpsc::UnboundedSender<ToolHostMessage> {
        self.sender.clone()
    }

    /// Returns the list of tools; empty when there is no tool host.
    pub async fn list(&self) -> Vec<ToolInfo> {
        let (reply, answer) = oneshot::channel();
        self.send(ToolHostMessage::List { reply });
        answer.await.unwrap_or_default()
    }
}
