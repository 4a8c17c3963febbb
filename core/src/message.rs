//! What the parties of a session say to each other; [`crate::wire`] is its bytes.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::entry::{AttachmentKind, ChainHash, MetaOp, SaveCause};
use crate::ids::{
    AttachmentId, BufferId, Epoch, Incarnation, ProcessId, ProposalId, RequestId, Secret, Seq,
    SessionId, Shard, Version,
};
use crate::proposal::{Outcome, Proposal};
use crate::text::Span;

/// Which session a connection means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionName {
    /// By label.
    Label(String),
    /// By identity.
    Id(SessionId),
}

/// How a new UI comes to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Takeover {
    /// Ask the leader, reclaim after [`crate::limits::TRANSFER_MS`].
    Transfer,
    /// Reclaim at once.
    Steal,
    /// Do not lead.
    Watch,
}

/// Where a log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Which log.
    pub shard: Shard,
    /// Its last entry.
    pub seq: Seq,
    /// The chain hash there.
    pub chain: ChainHash,
}

/// What a client knows when it comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Its attachment.
    pub attachment: AttachmentId,
    /// What proves it.
    pub secret: Secret,
    /// The authority's run that it knew.
    pub incarnation: Incarnation,
    /// Where its logs stand.
    pub marks: Vec<Mark>,
}

/// Joins a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Which; a label that does not exist is made.
    pub session: SessionName,
    /// As what.
    pub kind: AttachmentKind,
    /// Its name, for `apex ls` and the metalog.
    pub name: String,
    /// How it comes to lead; a tool asks later, for single buffers.
    pub takeover: Takeover,
    /// Whether it wants the snapshot and the entries.
    pub is_follower: bool,
    /// What it knows from before.
    pub resume: Option<Resume>,
}

/// What may be asked without changing anything, also without joining a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// The sessions: [`Answer::Sessions`].
    Sessions,
    /// Buffers, windows and attachments of a session: [`Answer::Session`].
    Session,
    /// The bytes of a buffer, by id or name: [`Answer::Piece`]s.
    Text(String),
    /// Where each log stands and the state hash, of SERVER or of one attachment:
    /// [`Answer::Hashes`].
    Hash(Option<AttachmentId>),
    /// Entries of a shard from a seq on: [`Answer::Entries`], at most one frame of them.
    Entries {
        /// Which shard.
        shard: Shard,
        /// From which seq.
        from: Seq,
    },
    /// The tools: [`Answer::Tools`].
    Tools,
    /// The newest lines of a tool's log: [`Answer::Lines`].
    ToolLog(String),
    /// The daemon's own figures: [`Answer::Lines`].
    Status,
}

/// What a user may order of tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolOrder {
    /// Grants what the manifest of a tool, by name, asks for, bound to its hash.
    Grant(String),
    /// Grants whatever component stands at a path, shown as such.
    GrantDev(String),
    /// Takes the grants of a tool back.
    Revoke(String),
    /// Starts a tool again, also one that gave up.
    Reload(String),
}

/// A command to run outside the editor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its working directory.
    pub directory: String,
    /// The command line, for the shell.
    pub command: String,
    /// Its standard input.
    pub input: String,
    /// Further environment.
    pub environment: Vec<(String, String)>,
}

/// A command to run for an edit, on a part of a text that the daemon holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// Its working directory.
    pub directory: String,
    /// The command line, for the shell.
    pub command: String,
    /// Further environment.
    pub environment: Vec<(String, String)>,
    /// Its standard input; none is an empty one.
    pub input: Option<PipeInput>,
    /// Where what it prints goes. Its errors go to `DIR/+Errors`.
    pub output: PipeOutput,
}

/// A part of a text, as the input of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeInput {
    /// Of which buffer.
    pub buffer: BufferId,
    /// The version that the positions are of. The daemon may have a newer one in which this part
    /// is untouched; else it refuses with [`ErrorCode::Retry`].
    pub version: Version,
    /// Which part.
    pub at: Span,
}

/// Where goes what a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PipeOutput {
    /// Back: [`Answer::Started`], [`Answer::Text`]s, [`Answer::Exited`]. A command that prints more
    /// than [`crate::limits::YIELD_LEN_MAX`] is killed.
    Answer,
    /// To `DIR/+Errors`, between its errors; the answer is [`Answer::Started`].
    Errors,
}

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientMessage {
    /// Joins a session.
    Hello(Hello),
    /// New entries of shards that the client leads; all are accepted or none.
    Append(Vec<(Shard, Vec<Bytes>)>),
    /// Asks the leaders for a change.
    Propose(Proposal),
    /// A leader's decision on a routed proposal.
    Decided {
        /// Whose.
        author: AttachmentId,
        /// Which.
        id: ProposalId,
        /// How it ended.
        outcome: Outcome,
    },
    /// The client made a shard and leads it at epoch 1.
    CreateShard(Shard),
    /// The client ended a shard that it leads.
    DeleteShard(Shard),
    /// Asks for shards; all leasable ones if the list is empty. A tool names texts, which are
    /// never reclaimed for it.
    LeaseRequest {
        /// Which.
        shards: Vec<Shard>,
        /// Whether to reclaim at once.
        steal: bool,
    },
    /// Gives a shard back, its last entry being `seq`.
    LeaseRelease {
        /// Which.
        shard: Shard,
        /// Its last entry.
        seq: Seq,
    },
    /// Writes a buffer's text of a version to its file.
    FilePut {
        /// For the answer.
        request: RequestId,
        /// Which buffer.
        buffer: BufferId,
        /// Which version; the daemon waits until it has it.
        version: Version,
        /// The fence under which the client leads the buffer.
        epoch: Epoch,
        /// Another file than the buffer's own; neither renames nor cleans the buffer.
        path: Option<String>,
        /// Write although the file changed since it was read.
        is_forced: bool,
        /// Why.
        cause: SaveCause,
    },
    /// Reads a buffer's file again; the change comes as a proposal.
    FileGet {
        /// For the answer.
        request: RequestId,
        /// Which buffer.
        buffer: BufferId,
    },
    /// Makes a buffer of a file or directory, or finds the one that is open.
    FileOpen {
        /// For the answer: [`Answer::Opened`].
        request: RequestId,
        /// Directory that a relative path starts from.
        directory: String,
        /// The path.
        path: String,
    },
    /// Runs a command; its output goes to `DIR/+Errors`.
    Run {
        /// For the answer.
        request: RequestId,
        /// What.
        run: Run,
    },
    /// Kills a process and its children.
    Kill {
        /// For the answer.
        request: RequestId,
        /// Which.
        process: ProcessId,
    },
    /// Makes a session.
    SessionNew {
        /// For the answer.
        request: RequestId,
        /// Its label.
        label: String,
    },
    /// Renames a session.
    SessionRename {
        /// For the answer.
        request: RequestId,
        /// Its label.
        label: String,
        /// Its new label.
        new_label: String,
    },
    /// Ends a session and throws its state away.
    SessionDelete {
        /// For the answer.
        request: RequestId,
        /// Its label.
        label: String,
    },
    /// Asks the metalog for an entry: settings, notices, rules, executions.
    MetaRequest {
        /// For the answer.
        request: RequestId,
        /// What; ids in it are chosen by the daemon.
        op: MetaOp,
    },
    /// Asks something.
    Query {
        /// For the answer.
        request: RequestId,
        /// Of which session; of the joined one if none.
        session: Option<SessionName>,
        /// What.
        query: Query,
    },
    /// Orders something of tools.
    Tool {
        /// For the answer.
        request: RequestId,
        /// What.
        order: ToolOrder,
    },
    /// Answers [`ServerMessage::HashQuery`].
    HashMark {
        /// The query's.
        request: RequestId,
        /// The client's own figures.
        hashes: Vec<ShardHash>,
    },
    /// Asks for a fresh snapshot.
    Resync,
    /// How far the client has applied.
    Ack(Vec<(Shard, Seq)>),
    /// Leaves.
    Detach,
    /// Asks for a sign of life.
    Ping(u64),
    /// What the client computed of shards that it leads, where they stand behind the last append.
    HashMarks(Vec<ShardHash>),
    /// Runs a command for an edit.
    Pipe {
        /// For the answers.
        request: RequestId,
        /// What.
        pipe: Pipe,
    },
    /// Reads a file without opening it: [`Answer::Text`]s, then [`Answer::Done`].
    FileRead {
        /// For the answers.
        request: RequestId,
        /// Directory that a relative path starts from.
        directory: String,
        /// The path.
        path: String,
    },
    /// Writes a part of a buffer's text of a version to another file, which must not be there yet.
    FileWrite {
        /// For the answer.
        request: RequestId,
        /// Which buffer.
        buffer: BufferId,
        /// Which version; the daemon waits until it has it.
        version: Version,
        /// The fence under which the client leads the buffer.
        epoch: Epoch,
        /// Which part.
        at: Span,
        /// The file.
        path: String,
    },
}

/// What one party computed of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardHash {
    /// Which shard.
    pub shard: Shard,
    /// Its last entry applied.
    pub seq: Seq,
    /// The chain hash there.
    pub chain: ChainHash,
    /// blake3 of the shard's part of the state.
    pub state: [u8; 32],
}

/// Starts a client off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The client's attachment.
    pub attachment: AttachmentId,
    /// What it shows to resume.
    pub secret: Secret,
    /// The authority's run.
    pub incarnation: Incarnation,
    /// The session.
    pub session: SessionId,
    /// Its label.
    pub label: String,
    /// First counter that the client may use for ids.
    pub counter_floor: u64,
    /// Where the logs stand that the snapshot covers.
    pub marks: Vec<Mark>,
    /// Bytes of the snapshot that follows in pieces; 0 when the client does not follow.
    pub snapshot_len: u64,
}

/// Where the daemon stands when a client comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Where its logs stand, all of them: what of the client's own entries arrived is up to there.
    /// Empty when a snapshot follows.
    pub marks: Vec<Mark>,
    /// The shards that cannot go on where the client's stand; with one of them the whole session
    /// follows as a Welcome.
    pub apart: Vec<(Shard, Standing)>,
}

/// Why a shard cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// The entries that the client lacks are not kept.
    Snapshot,
    /// The daemon has other entries, or fewer, than the client was told of.
    Mismatch,
}

/// How far the daemon has a shard's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckMark {
    /// Which shard.
    pub shard: Shard,
    /// Last entry in the daemon's memory.
    pub received: Seq,
    /// Last entry that survives kill -9 of the daemon; 0 while there is no journal.
    pub written: Seq,
    /// Last entry that survives loss of power; 0 while there is no journal.
    pub synced: Seq,
}

/// A session, as listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Its identity.
    pub id: SessionId,
    /// Its label.
    pub label: String,
    /// Who is attached: id, kind, name, and whether it leads the layout.
    pub attachments: Vec<(AttachmentId, AttachmentKind, String, bool)>,
    /// How many windows.
    pub windows: u64,
    /// Names of the buffers that differ from their files.
    pub modified: Vec<String>,
}

/// A buffer, as listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferInfo {
    /// Its id.
    pub id: BufferId,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// Code points.
    pub len: u64,
    /// Whether it differs from its file.
    pub is_modified: bool,
    /// Who leads it.
    pub leader: AttachmentId,
}

/// A tool, as listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// Name of its file, without the ending.
    pub name: String,
    /// The id its manifest gives; empty when it could not be read.
    pub id: String,
    /// The component's path.
    pub path: String,
    /// sha256 of the component, in hex; empty when it could not be read.
    pub sha256: String,
    /// One word: `running`, `starting`, `compiling`, `waiting` (for a grant), `restarting`,
    /// `stopped`, `failed`, `invalid`.
    pub state: String,
    /// What happened and what will happen next, in words.
    pub note: String,
    /// Starts after a failure.
    pub restarts: u64,
    /// Calls made into it.
    pub calls: u64,
    /// Entries handed to it.
    pub entries: u64,
    /// Bytes of linear memory that it holds.
    pub memory_len: u64,
    /// Per session: its attachment there and its cursor in entries.
    pub attachments: Vec<(SessionId, AttachmentId, u64)>,
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It was done.
    Done,
    /// The sessions.
    Sessions(Vec<SessionInfo>),
    /// One session.
    Session {
        /// The session.
        info: SessionInfo,
        /// Its buffers, tags included.
        buffers: Vec<BufferInfo>,
    },
    /// A piece of bytes; more follow under the same request until `is_last`.
    Piece {
        /// The bytes.
        bytes: Bytes,
        /// Whether nothing follows.
        is_last: bool,
    },
    /// Figures per shard, and the hash over all of them.
    Hashes {
        /// Who computed them.
        of: AttachmentId,
        /// Per shard, in order.
        shards: Vec<ShardHash>,
        /// The combined hash.
        state: [u8; 32],
    },
    /// Entries, and the seq of the shard's last one.
    Entries {
        /// In order.
        entries: Vec<Bytes>,
        /// First seq that is still kept.
        floor: Seq,
        /// Last seq.
        head: Seq,
    },
    /// The tools.
    Tools(Vec<ToolInfo>),
    /// Lines for a person.
    Lines(Vec<String>),
    /// A file's buffer.
    Opened {
        /// The buffer.
        buffer: BufferId,
        /// Whether the file does not exist yet.
        is_new: bool,
    },
    /// A process began.
    Started(ProcessId),
    /// A piece of a text; more follow under the same request.
    Text(String),
    /// A process ended, with its exit code or 128 plus the signal.
    Exited(i32),
}

/// What went wrong, as a code that programs act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorCode {
    /// Bytes that are no message, or a message out of place.
    Protocol,
    /// The append names a fence that is not the current one.
    Fenced,
    /// The append's seq is not the next one.
    WrongSeq,
    /// The operation does not fit the shard, or cannot be applied to it.
    BadOp,
    /// The client does not lead the shard.
    NotLeader,
    /// No such session, shard, buffer, tool or file.
    NotFound,
    /// It exists already.
    Exists,
    /// The file changed on disk since it was read or written.
    ChangedOnDisk,
    /// The operating system refused.
    System,
    /// A limit was reached.
    Limit,
    /// Not allowed.
    Denied,
    /// The same request may succeed later.
    Retry,
    /// The append has entries of a proposal that the leader was not asked about, or not any more:
    /// its author may have been told that it did not happen.
    Withdrawn,
}

/// An error for the peer: what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorMessage {
    /// What a program acts on.
    pub code: ErrorCode,
    /// What a person reads.
    pub message: String,
}

impl ErrorMessage {
    /// Returns an error with these words.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl fmt::Display for ErrorMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for ErrorMessage {}

/// What the daemon says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServerMessage {
    /// Answers Hello, and Resync; a snapshot follows.
    Welcome(Welcome),
    /// A piece of the snapshot, in order.
    Snapshot(Bytes),
    /// New entries, those of Meta first.
    Entries(Vec<(Shard, Bytes)>),
    /// How far the client's own entries have come.
    Acked(Vec<AckMark>),
    /// A proposal to decide on.
    Propose(Proposal),
    /// How the client's own proposal ended.
    ProposeResult {
        /// Which.
        id: ProposalId,
        /// How.
        outcome: Outcome,
    },
    /// Answers a request.
    Reply {
        /// Which.
        request: RequestId,
        /// The answer or what went wrong.
        answer: Result<Answer, ErrorMessage>,
    },
    /// Asks for the client's own hashes.
    HashQuery(RequestId),
    /// Something went wrong that no request asked for; for an append: which shards it named.
    Error {
        /// What.
        error: ErrorMessage,
        /// The shards of the refused append.
        shards: Vec<Shard>,
    },
    /// Answers Ping.
    Pong(u64),
    /// What the daemon computed of shards, for the replicas that stand at the same entries.
    HashMarks(Vec<ShardHash>),
    /// Answers a Hello that comes back: behind the entries that the client lacked, or before a
    /// Welcome.
    Resumed(Resumed),
}
