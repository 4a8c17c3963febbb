//! The daemon's side of one session, sans-io: who is attached, who leads, whom to ask.
//!
//! It holds SERVER's node over the authority log. It fences and publishes appends, moves leases
//! with deadlines, routes proposals to whoever leads, and leads itself when nobody else does.
//! What needs files, processes or tools it hands to the host as an [`Output::Host`].

mod attaching;
mod hosting;
mod journaling;
mod landing;
mod leases;
mod marks;
mod proposals;
mod queries;
mod recovery;
mod requests;
mod shards;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::journaling::Journaling;
use self::landing::Landing;
use self::leases::Transfer;
use self::proposals::{Key, Routed, Waiting};
pub use self::recovery::RecoverError;
use super::decide::FollowUp;
use super::marks::{Divergence, Pace};
use super::{Node, NodeError};
use crate::bytes::Bytes;
use crate::canary::{self, Canary};
use crate::entry::{ApplyLimits, AttachmentKind, MetaOp, SaveCause};
use crate::ids::{
    AttachmentId, BufferId, ConnectionId, Epoch, Incarnation, Millis, ProcessId, ProposalId,
    RequestId, SERVER, Secret, Seq, SessionId, Shard, Version,
};
use crate::log::{LogError, Record};
use crate::message::{
    AckMark, Answer, ClientMessage, ErrorCode, ErrorMessage, Pipe, Query, Run, ServerMessage,
    SessionName, ShardHash, ToolOrder, Welcome,
};
use crate::proposal::{Outcome, Parts};
use crate::state::snapshot::Snapshot;
use crate::text::Span;

/// Format of the logs that this version writes.
pub const FORMAT: u32 = 1;

/// What a session begins with.
#[derive(Clone, Debug)]
pub struct Genesis {
    /// Its identity, fresh and random.
    pub session: SessionId,
    /// This run of the authority, fresh and random.
    pub incarnation: Incarnation,
    /// Its label.
    pub label: String,
    /// What `apply` obeys.
    pub limits: ApplyLimits,
}

/// What the host is to do.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send a message to one connection.
    Send(ConnectionId, ServerMessage),
    /// Send entries to every following connection but one; those of Meta come first.
    Publish {
        /// The connection that has them already.
        except: Option<ConnectionId>,
        /// The entries.
        records: Vec<Arc<Record>>,
    },
    /// Send a welcome and behind it, if the peer follows, the pieces of a snapshot of this moment;
    /// they are made as they are taken.
    Welcome(ConnectionId, Welcome, Option<Snapshot>),
    /// Do something outside the logs, and answer with [`Authority::reply`].
    Host(Asker, HostRequest),
    /// Send what SERVER computed to every following connection but one, as a
    /// [`ServerMessage::HashMarks`] that may be forgotten like entries.
    Marks {
        /// The connection that has computed the same.
        except: Option<ConnectionId>,
        /// What was computed.
        marks: Vec<ShardHash>,
    },
    /// A leader computed something else of its own entries: keep this. The leader, told what
    /// SERVER computed, asks for a fresh snapshot and tells its user.
    Diverged(Box<Divergence>),
    /// A proposal of SERVER ended.
    Decided(ProposalId, Outcome),
    /// Close a connection.
    Close(ConnectionId),
}

/// Who asked the host for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The connection that waits for the answer; none when SERVER leads and asks itself.
    pub connection: Option<ConnectionId>,
    /// Whose wish it is.
    pub attachment: AttachmentId,
    /// The request to answer.
    pub request: RequestId,
}

/// What only the host can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// Write a buffer's text to a file, once the version is there.
    Put {
        /// Which buffer.
        buffer: BufferId,
        /// Which version.
        version: Version,
        /// The fence of whoever asked; checked again with [`Authority::may_put`].
        epoch: Epoch,
        /// Another file than the buffer's own.
        path: Option<String>,
        /// Write although the file changed.
        is_forced: bool,
        /// Why.
        cause: SaveCause,
    },
    /// Read a buffer's file again and propose the change.
    Get(BufferId),
    /// Make a buffer of a file, or find it; reply [`Answer::Opened`].
    Open {
        /// Directory that a relative path starts from.
        directory: String,
        /// The path.
        path: String,
    },
    /// Open a file and show it: SERVER leads and decides where.
    OpenAndShow {
        /// An absolute path.
        path: String,
        /// Where in it.
        address: String,
    },
    /// Run a command.
    Run(Run),
    /// Run a command for an edit.
    Pipe(Pipe),
    /// Read a file: [`Answer::Text`]s, then [`Answer::Done`].
    Read {
        /// Directory that a relative path starts from.
        directory: String,
        /// The path.
        path: String,
    },
    /// Write a part of a buffer's text to another file, once the version is there.
    Write {
        /// Which buffer.
        buffer: BufferId,
        /// Which version.
        version: Version,
        /// The fence of whoever asked; checked again with [`Authority::may_put`].
        epoch: Epoch,
        /// Which part.
        at: Span,
        /// The file.
        path: String,
    },
    /// Kill a process.
    Kill(ProcessId),
    /// Order something of tools.
    Tool(ToolOrder),
    /// Answer what the host knows: tools, their logs, status.
    Query(Query),
    /// Make, rename or end a session, or list them: a message for the registry.
    Registry(ClientMessage),
}

/// A connection of an attachment.
#[derive(Clone, Copy, Debug)]
struct Peer {
    attachment: AttachmentId,
    is_follower: bool,
}

/// An attachment, connected or in its grace.
#[derive(Clone, Copy, Debug)]
struct Party {
    kind: AttachmentKind,
    is_follower: bool,
    is_watcher: bool,
    secret: Secret,
    connection: Option<ConnectionId>,
    grace_end: Option<Millis>,
    /// How long it may lead a buffer, in milliseconds, if it is a tool that may.
    lease_ms: Option<u64>,
    /// The first counter that its process may use for ids.
    counter_floor: u64,
}

/// The daemon's side of one session.
#[derive(Debug)]
pub struct Authority {
    node: Node,
    genesis: Genesis,
    peers: BTreeMap<ConnectionId, Peer>,
    parties: BTreeMap<AttachmentId, Party>,
    /// The UI that leads what can be leased.
    chief: Option<AttachmentId>,
    transfers: BTreeMap<Shard, Transfer>,
    /// What tools lead, and until when.
    tool_leases: BTreeMap<Shard, Millis>,
    /// Shards into which the host loads files: SERVER keeps them meanwhile.
    loading: BTreeSet<Shard>,
    routed: BTreeMap<(Key, AttachmentId), Routed>,
    waiting: VecDeque<Waiting>,
    /// Proposals whose parts are decided on apart.
    gathered: BTreeMap<Key, Parts>,
    /// Per leader, how often it was asked about a proposal on its connection and has not answered.
    unanswered: BTreeMap<AttachmentId, BTreeMap<Key, u32>>,
    landing: Landing,
    published: BTreeMap<Shard, Seq>,
    /// Hash queries under way: who is asked, for whom.
    hash_queries: BTreeMap<RequestId, (AttachmentId, ConnectionId, RequestId)>,
    last_request: RequestId,
    pace: Pace,
    /// When the session has been quiet for long enough to mark what changed.
    quiet_at: Option<Millis>,
    /// Shards of which a divergence was told.
    diverged: BTreeSet<Shard>,
    journaling: Journaling,
    /// Earlier runs whose log this one goes on with, oldest first.
    former_runs: Vec<Incarnation>,
}

impl Authority {
    /// Returns the authority of a new session: genesis, identity and label are in its log.
    ///
    /// # Panics
    /// Never: the first entries of an empty log apply.
    #[must_use]
    pub fn new(genesis: Genesis) -> Self {
        let mut node = Node::authority();
        let first = [
            MetaOp::Genesis {
                format: FORMAT,
                limits: genesis.limits,
            },
            MetaOp::Identity(genesis.session),
            MetaOp::Label(genesis.label.clone()),
        ];
        for op in first {
            node.append_meta(op)
                .expect("the first entries of an empty log apply");
        }
        Self::with(node, genesis)
    }

    const fn with(node: Node, genesis: Genesis) -> Self {
        Self {
            node,
            genesis,
            peers: BTreeMap::new(),
            parties: BTreeMap::new(),
            chief: None,
            transfers: BTreeMap::new(),
            tool_leases: BTreeMap::new(),
            loading: BTreeSet::new(),
            routed: BTreeMap::new(),
            waiting: VecDeque::new(),
            gathered: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            landing: Landing::new(),
            published: BTreeMap::new(),
            hash_queries: BTreeMap::new(),
            last_request: RequestId::new(0),
            pace: Pace::new(),
            quiet_at: None,
            diverged: BTreeSet::new(),
            journaling: Journaling::off(),
            former_runs: Vec::new(),
        }
    }

    /// Returns SERVER's node.
    #[must_use]
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// Returns SERVER's node, to append where SERVER leads; then call [`Self::settle`].
    pub const fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// Returns the session's identity.
    #[must_use]
    pub const fn session(&self) -> SessionId {
        self.genesis.session
    }

    /// Returns the attachment of a connection.
    #[must_use]
    pub fn attachment_of(&self, connection: ConnectionId) -> Option<AttachmentId> {
        self.peers.get(&connection).map(|peer| peer.attachment)
    }

    /// Returns the connections that follow the session.
    pub fn followers(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.peers
            .iter()
            .filter(|(_, peer)| peer.is_follower)
            .map(|(connection, _)| *connection)
    }

    /// Returns the UI that leads what can be leased.
    #[must_use]
    pub const fn chief(&self) -> Option<AttachmentId> {
        self.chief
    }

    /// Returns whether an attachment is one of a watching, read-only UI.
    #[must_use]
    pub fn is_watcher(&self, attachment: AttachmentId) -> bool {
        self.parties
            .get(&attachment)
            .is_some_and(|party| party.is_watcher)
    }

    /// Takes a message of a connection. `secret` is fresh and random; a hello uses it.
    pub fn receive(
        &mut self,
        now: Millis,
        (connection, secret): (ConnectionId, Secret),
        message: ClientMessage,
        out: &mut Vec<Output>,
    ) {
        match (message, self.peers.get(&connection).copied()) {
            (ClientMessage::Hello(hello), None) => {
                self.attach(now, (connection, secret), &hello, out);
            }
            (ClientMessage::Hello(_), Some(_)) => {
                refuse(connection, ErrorCode::Protocol, "a second hello", out);
            }
            (ClientMessage::Query { request, query, .. }, _) => {
                self.query(connection, request, query, out);
            }
            (ClientMessage::Ping(n), _) => {
                out.push(Output::Send(connection, ServerMessage::Pong(n)));
            }
            (message, Some(peer)) => self.receive_from(now, (connection, peer), message, out),
            (_, None) => refuse(connection, ErrorCode::Protocol, "say hello first", out),
        }
        self.settle(now, out);
    }

    fn receive_from(
        &mut self,
        now: Millis,
        (connection, peer): (ConnectionId, Peer),
        message: ClientMessage,
        out: &mut Vec<Output>,
    ) {
        let from = peer.attachment;
        match message {
            ClientMessage::Append(appends) => self.append(now, connection, &appends, out),
            ClientMessage::Propose(proposal) => self.propose(now, from, proposal, out),
            ClientMessage::Decided {
                author,
                id,
                outcome,
            } => {
                self.decided(now, from, (author, id, outcome), out);
            }
            ClientMessage::CreateShard(shard) => self.create_shard(now, connection, shard, out),
            ClientMessage::DeleteShard(shard) => self.delete_shard(connection, shard, out),
            ClientMessage::LeaseRequest { shards, steal } => {
                self.request_leases(now, connection, (shards, steal), out);
            }
            ClientMessage::LeaseRelease { shard, seq } => self.release(now, from, shard, seq),
            ClientMessage::HashMark { request, hashes } => {
                self.hash_mark(from, request, hashes, out);
            }
            ClientMessage::Resync => {
                self.landing.begin(from);
                self.welcome(connection, from, out);
            }
            ClientMessage::Detach => {
                self.detach(now, from);
                out.push(Output::Close(connection));
            }
            ClientMessage::MetaRequest { request, op } => {
                let answer = self.meta_request(from, op);
                self.publish(out);
                let mut said = Vec::new();
                self.reply(connection, request, answer, &mut said);
                self.promise(said, out);
            }
            ClientMessage::Ack(_) => {}
            ClientMessage::HashMarks(marks) => self.take_marks(connection, marks, out),
            other => self.host_request(connection, from, other, out),
        }
    }

    /// Answers a request.
    pub fn reply(
        &self,
        connection: ConnectionId,
        request: RequestId,
        answer: Result<Answer, ErrorMessage>,
        out: &mut Vec<Output>,
    ) {
        if request != RequestId::new(0) {
            out.push(Output::Send(
                connection,
                ServerMessage::Reply { request, answer },
            ));
        }
    }

    fn append(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        appends: &[(Shard, Vec<Bytes>)],
        out: &mut Vec<Output>,
    ) {
        let Some(from) = self.attachment_of(connection) else {
            return;
        };
        self.settle(now, out);
        if canary::is_on(Canary::AckedEarly) {
            out.push(acked_early(connection, appends));
        }
        match self.take(from, appends) {
            Ok(records) => {
                for record in &records {
                    self.published.insert(record.shard, record.entry.seq);
                    self.pace.note(record.shard, record.bytes.len());
                }
                self.wait_for_quiet(now);
                self.send_out(Some(connection), records, out);
                let marks = appends
                    .iter()
                    .filter_map(|(shard, _)| self.ack(*shard))
                    .collect();
                self.acknowledge((connection, from), marks, out);
            }
            Err(error) => {
                let shards = appends.iter().map(|(shard, _)| *shard).collect();
                let error = ErrorMessage::new(code_of(&error), alloc::format!("{error}"));
                out.push(Output::Send(
                    connection,
                    ServerMessage::Error { error, shards },
                ));
            }
        }
    }

    fn ack(&self, shard: Shard) -> Option<AckMark> {
        let received = self.node.log().mark(shard)?.seq;
        Some(AckMark {
            shard,
            received,
            written: Seq::default(),
            synced: Seq::default(),
        })
    }

    /// Publishes what SERVER appended since the last call, Meta first, then routes the proposals
    /// that wait: who leads by now must know that before it hears of them.
    pub fn settle(&mut self, now: Millis, out: &mut Vec<Output>) {
        self.publish(out);
        if !self.waiting.is_empty() {
            self.route_waiting(now, out);
            self.publish(out);
        }
        if self.quiet_at.is_none() {
            self.wait_for_quiet(now);
        }
    }

    fn publish(&mut self, out: &mut Vec<Output>) {
        // A refusal means that another party leads the tag and refreshes it.
        let _ = self.node.refresh_tags().is_ok();
        // Only while SERVER leads the layout, so a refusal cannot be.
        let _ = self.node.mend_layout().is_ok();
        let shards = core::mem::take(&mut self.node.unshipped);
        let mut records = Vec::new();
        for shard in shards {
            if canary::is_on(Canary::CompactedPastReader) && shard == Shard::Layout {
                self.node.log.compact(shard, Seq::new(u64::MAX));
            }
            let published = self.published.get(&shard).copied().unwrap_or_default();
            records.extend(self.node.log().after(shard, published).cloned());
            if let Some(mark) = self.node.log().mark(shard) {
                self.published.insert(shard, mark.seq);
            }
        }
        if canary::is_on(Canary::MetaLast) {
            records.sort_by_key(|record| core::cmp::Reverse(record.shard));
        }
        for record in &records {
            self.pace.note(record.shard, record.bytes.len());
        }
        self.send_out(None, records, out);
        self.reserve();
    }

    /// Hands records to the journal and to the followers: neither waits for the other.
    fn send_out(
        &mut self,
        except: Option<ConnectionId>,
        records: Vec<Arc<Record>>,
        out: &mut Vec<Output>,
    ) {
        if !records.is_empty() {
            self.journaling.put_entries(&records);
            out.push(Output::Publish { except, records });
        }
    }

    /// Acts on deadlines that have passed.
    pub fn tick(&mut self, now: Millis, out: &mut Vec<Output>) {
        self.end_leases(now);
        let ended: Vec<AttachmentId> = self
            .parties
            .iter()
            .filter(|(_, party)| party.grace_end.is_some_and(|end| end <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in ended {
            self.detach(now, id);
        }
        self.end_proposals(now, out);
        self.settle(now, out);
        self.mark_quiet(now, out);
    }

    /// Returns when [`Self::tick`] is needed next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        let transfers = self.transfers.values().map(|transfer| transfer.deadline);
        let graces = self.parties.values().filter_map(|party| party.grace_end);
        let routed = self.routed.values().map(|routed| routed.deadline);
        let ends = |waiting: &Waiting| [waiting.deadline, waiting.again_at];
        let waiting = self.waiting.iter().flat_map(ends).flatten();
        let tools = self.tool_leases.values().copied();
        let leases = transfers.chain(tools);
        let ends = leases.chain(graces).chain(routed).chain(waiting);
        ends.chain(self.quiet_at).min()
    }

    /// Checks that an attachment may write a buffer's file: it leads it, under this fence.
    ///
    /// # Errors
    /// The fence is stale, or another party leads.
    pub fn may_put(
        &self,
        asker: AttachmentId,
        buffer: BufferId,
        epoch: Epoch,
    ) -> Result<(), ErrorMessage> {
        let Some(lease) = self.node.log().lease(Shard::Buffer(buffer)) else {
            let words = alloc::format!("no buffer {buffer}");
            return Err(ErrorMessage::new(ErrorCode::NotFound, words));
        };
        let is_current = lease.holder == asker && lease.epoch == epoch;
        if is_current || canary::is_on(Canary::PutUnfenced) {
            return Ok(());
        }
        let words = alloc::format!(
            "not written: attachment {} leads the buffer now (epoch {}, the put is of {epoch})",
            lease.holder,
            lease.epoch
        );
        Err(ErrorMessage::new(ErrorCode::Fenced, words))
    }

    /// Returns what SERVER's own follow-ups ask of the host.
    fn host_follow_up(&self, after: FollowUp) -> Option<Output> {
        let request = match after {
            FollowUp::Put {
                buffer,
                version,
                cause,
            } => {
                let epoch = self.node.log().lease(Shard::Buffer(buffer))?.epoch;
                let (path, is_forced) = (None, false);
                HostRequest::Put {
                    buffer,
                    version,
                    epoch,
                    path,
                    is_forced,
                    cause,
                }
            }
            FollowUp::Get(buffer) => HostRequest::Get(buffer),
            FollowUp::Open { path, address } => HostRequest::OpenAndShow { path, address },
            // A look is the user's; with no UI there is nobody to show it to.
            FollowUp::Look { .. } => return None,
        };
        let asker = Asker {
            connection: None,
            attachment: SERVER,
            request: RequestId::new(0),
        };
        Some(Output::Host(asker, request))
    }
}

/// Returns the acknowledgement of entries that nobody has looked at.
fn acked_early(connection: ConnectionId, appends: &[(Shard, Vec<Bytes>)]) -> Output {
    let mark = |(shard, entries): &(Shard, Vec<Bytes>)| {
        let last = crate::wire::decode_entry(entries.last()?).ok()?;
        Some(AckMark {
            shard: *shard,
            received: last.seq,
            written: Seq::default(),
            synced: Seq::default(),
        })
    };
    let marks = appends.iter().filter_map(mark).collect();
    Output::Send(connection, ServerMessage::Acked(marks))
}

fn refuse(connection: ConnectionId, code: ErrorCode, words: &str, out: &mut Vec<Output>) {
    let error = ErrorMessage::new(code, words);
    let shards = Vec::new();
    out.push(Output::Send(
        connection,
        ServerMessage::Error { error, shards },
    ));
}

/// Returns what a program is told of a node's error.
const fn code_of(error: &NodeError) -> ErrorCode {
    match error {
        NodeError::Bytes => ErrorCode::Protocol,
        NodeError::Missing(_) | NodeError::Log(LogError::UnknownShard(_)) => ErrorCode::NotFound,
        NodeError::TooLong | NodeError::Limit(..) => ErrorCode::Limit,
        NodeError::Withdrawn => ErrorCode::Withdrawn,
        NodeError::Log(LogError::ShardExists(_)) => ErrorCode::Exists,
        NodeError::Log(LogError::NotLeader { .. }) => ErrorCode::NotLeader,
        NodeError::Log(LogError::Fenced { .. }) => ErrorCode::Fenced,
        NodeError::Log(LogError::WrongSeq { .. }) => ErrorCode::WrongSeq,
        NodeError::Log(LogError::DoesNotFit(_)) | NodeError::Apply(..) => ErrorCode::BadOp,
    }
}

/// Returns the largest char boundary of a text at or below `len`.
fn floor_boundary(text: &str, len: usize) -> usize {
    if text.len() <= len {
        return text.len();
    }
    (0..=len)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// Returns whether a session name means this session.
#[must_use]
pub fn is_named(authority: &Authority, name: &SessionName) -> bool {
    match name {
        SessionName::Id(id) => *id == authority.session(),
        SessionName::Label(label) => authority.node.state().meta().label == *label,
    }
}
