//! A session: the one task that owns its authority and everything the daemon keeps for it.
//!
//! The task takes inputs one by one and never waits in between: files, commands and long answers
//! are tasks of their own that report back. A panic is caught here: the session ends, its texts are
//! rescued, and no other session notices.

mod diverged;
mod feed;
mod get;
mod merge;
mod open;
mod put;
mod query;
mod read;
mod rescue;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use apex_core::buffer::errors_name;
use apex_core::bytes::Bytes;
use apex_core::entry::{ApplyLimits, MetaOp, SaveCause};
use apex_core::ids::{
    BufferId, ConnectionId, Incarnation, Millis, ProposalId, RequestId, SERVER, Secret, SessionId,
};
use apex_core::limits;
use apex_core::log::Record;
use apex_core::message::{Answer, ClientMessage, ErrorCode, ErrorMessage, ServerMessage, Welcome};
use apex_core::node::authority::{self, Authority, Genesis, HostRequest, Output};
use apex_core::proposal::{Change, Outcome};
use apex_core::state::snapshot::Snapshot;
use apex_core::wire;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::feed::Feed;
use crate::clock::Clock;
use crate::desk::{Ask, Desk, SessionDoor};
use crate::files::{self, Found, Known};
use crate::seam::{
    Asker, Peer, SESSION_QUEUE_COUNT_MAX, SessionInput, SessionLink, TaskReport, ToolHandle,
};
use crate::{config, diary};

/// What a session is made with.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Its label.
    pub label: String,
    /// The directory of its first window.
    pub directory: String,
    /// The user's settings file.
    pub settings_path: PathBuf,
    /// Where its texts go when it ends by a panic.
    pub rescue_dir: PathBuf,
    /// Where it is kept what a replica that went wrong computed.
    pub diverged_dir: PathBuf,
    /// The daemon's clock.
    pub clock: Clock,
    /// The way to the daemon.
    pub desk: Desk,
    /// The way to the tool host.
    pub tools: ToolHandle,
}

/// How a session ended.
#[derive(Debug)]
pub struct Ended {
    /// Which.
    pub session: SessionId,
    /// What its panic said, if it had one, and where its texts are.
    pub panic: Option<(String, Vec<PathBuf>)>,
}

/// A peer of the session.
#[derive(Debug)]
struct PeerState {
    asker: Asker,
    /// What its Hello asked for.
    is_follower: bool,
    /// Whether it has its snapshot, so that entries make sense to it.
    is_welcomed: bool,
}

/// Why the task stops.
struct Stop {
    reason: ErrorMessage,
    rescue_dir: Option<PathBuf>,
    reply: Option<oneshot::Sender<Vec<PathBuf>>>,
    panic: Option<String>,
}

/// What wakes the task.
enum Wake {
    Input(SessionInput),
    Deadline,
    FeedRoom,
    FeedWish,
}

/// What is done when a proposal of the host is decided.
#[derive(Debug)]
enum OnDecided {
    /// Nothing but a line in the diary when it was refused.
    Tell(&'static str),
    /// A command may go on writing.
    Release(oneshot::Sender<()>),
    /// The text of a file was proposed for this get.
    Get(u64),
}

/// The task's own data.
pub(crate) struct Session {
    authority: Authority,
    config: SessionConfig,
    /// For tasks that report back.
    inputs: mpsc::Sender<SessionInput>,
    peers: BTreeMap<ConnectionId, PeerState>,
    questions: query::Questions,
    decisions: BTreeMap<ProposalId, OnDecided>,
    feed: Feed,
    /// What is known of the file of each buffer, and of which file.
    known: BTreeMap<BufferId, (String, Known)>,
    /// Buffers whose file could not be read to its end.
    incomplete: BTreeSet<BufferId>,
    opens: open::Opens,
    puts: put::Puts,
    gets: get::Gets,
    commands: run::Commands,
    out: Vec<Output>,
    /// The last step took as much as one may.
    is_full: bool,
}

/// Starts a session's task.
#[must_use]
pub fn start(config: SessionConfig) -> (SessionDoor, JoinHandle<Ended>) {
    let (inputs, receiver) = mpsc::channel(SESSION_QUEUE_COUNT_MAX);
    let session = SessionId(uuid::Uuid::new_v4());
    let incarnation = Incarnation(uuid::Uuid::new_v4());
    let limits = ApplyLimits {
        undo_len: limits::UNDO_LEN_DEFAULT,
        annotation_count: limits::ANNOTATION_COUNT_MAX as u64,
        scrollback_count: limits::SCROLLBACK_COUNT_DEFAULT,
    };
    let genesis = Genesis {
        session,
        incarnation,
        label: config.label.clone(),
        limits,
    };
    let link = SessionLink::new(
        inputs.clone(),
        config.tools.sender(),
        config.desk.connections.clone(),
    );
    let feed = Feed::new(session, config.tools.clone(), link);
    let door = SessionDoor {
        session,
        inputs: inputs.clone(),
    };
    let state = Session {
        authority: Authority::new(genesis),
        config,
        inputs,
        peers: BTreeMap::new(),
        questions: query::Questions::default(),
        decisions: BTreeMap::new(),
        feed,
        known: BTreeMap::new(),
        incomplete: BTreeSet::new(),
        opens: open::Opens::default(),
        puts: put::Puts::default(),
        gets: get::Gets::default(),
        commands: run::Commands::default(),
        out: Vec::new(),
        is_full: false,
    };
    (door, tokio::spawn(state.run(receiver)))
}

impl Session {
    async fn run(mut self, mut inputs: mpsc::Receiver<SessionInput>) -> Ended {
        self.lay_out().await;
        loop {
            let deadline = self
                .next_deadline()
                .map(|at| self.config.clock.instant_of(at));
            let far = self.config.clock.instant_of(Millis::new(u64::MAX));
            let wake = tokio::select! {
                input = inputs.recv() => Wake::Input(
                    input.expect("the session holds a sender of its own queue"),
                ),
                () = tokio::time::sleep_until(deadline.unwrap_or(far)), if deadline.is_some() => {
                    Wake::Deadline
                }
                wake = self.feed.wake() => wake,
            };
            let stepped =
                std::panic::catch_unwind(AssertUnwindSafe(|| self.step(wake, &mut inputs)));
            let stop = match stepped {
                Ok(None) => {
                    if std::mem::take(&mut self.is_full) {
                        // What was said is written before more is taken.
                        tokio::task::yield_now().await;
                    }
                    continue;
                }
                Ok(Some(stop)) => stop,
                Err(panic) => self.stop_of(panic.as_ref()),
            };
            return self.end(stop).await;
        }
    }

    /// Makes the first layout and tells the tool host of the session.
    async fn lay_out(&mut self) {
        let directory = self.config.directory.clone();
        let settings_path = self.config.settings_path.clone();
        let path = files::path_of(&directory);
        let reading = move || (files::find(&path), config::read_settings(&settings_path));
        let read = tokio::task::spawn_blocking(reading).await;
        let (found, settings) = read.expect("reading a directory and a file does not panic");
        let mut notices = Vec::new();
        let listing = match found {
            Ok(Found::Directory(listing)) => listing,
            Ok(Found::File(_) | Found::New) => {
                notices.push(format!("{directory} is no directory"));
                String::new()
            }
            Err(error) => {
                notices.push(error.to_string());
                String::new()
            }
        };
        let slash = if directory.ends_with('/') { "" } else { "/" };
        let first = open::cut(&listing, limits::PIECE_LEN_MAX);
        let name = format!("{directory}{slash}");
        if let Err(error) = self.authority.node_mut().init_session(&name, first) {
            diary::error(format_args!(
                "cannot lay out {}: {error}",
                self.config.label
            ));
        }
        match settings {
            Ok(settings) => {
                for (key, value) in settings {
                    self.append_meta(MetaOp::Setting {
                        key,
                        value: Some(value),
                    });
                }
            }
            Err(error) => notices.push(format!("no settings are used: {error}")),
        }
        for text in notices {
            self.notify(2, text);
        }
        self.settle();
        // Nobody follows yet: the first snapshot will hold all of it.
        self.out.clear();
        self.feed.announce();
    }

    /// Tells the user something.
    fn notify(&mut self, level: u8, text: String) {
        let notice = self.authority.node_mut().new_notice();
        self.append_meta(MetaOp::Notify {
            notice,
            owner: SERVER,
            level,
            text,
        });
    }

    fn append_meta(&mut self, op: MetaOp) {
        if let Err(error) = self.authority.node_mut().append_meta(op) {
            diary::error(format_args!("the metalog refused an entry: {error}"));
        }
    }

    fn now(&self) -> Millis {
        self.config.clock.now()
    }

    fn next_deadline(&self) -> Option<Millis> {
        let deadlines = [
            self.authority.next_deadline(),
            self.questions.next_deadline(),
            self.puts.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Takes what woke the task and what has come since, and carries out what follows from all of
    /// it together: what waits anyway is published, sent and written in one go, and nothing waits.
    fn step(&mut self, wake: Wake, inputs: &mut mpsc::Receiver<SessionInput>) -> Option<Stop> {
        let mut next = match wake {
            Wake::Input(input) => Some(input),
            Wake::Deadline => {
                let now = self.now();
                self.authority.tick(now, &mut self.out);
                self.questions.end_late(now);
                self.end_late_puts(now);
                None
            }
            Wake::FeedRoom => {
                self.feed.open(&self.authority);
                None
            }
            Wake::FeedWish => {
                self.feed.serve(&self.authority);
                None
            }
        };
        let mut count = 0;
        while let Some(input) = next.take() {
            let may_go_on = if let SessionInput::Messages { messages, .. } = &input {
                count += messages.len();
                count < STEP_MESSAGE_COUNT_MAX
            } else {
                // What came before it is carried out before it; what comes behind it is a step of
                // its own.
                self.carry_out();
                false
            };
            if let Some(stop) = self.take(input) {
                return Some(stop);
            }
            if may_go_on {
                next = inputs.try_recv().ok();
            }
        }
        self.carry_out();
        self.is_full = count >= STEP_MESSAGE_COUNT_MAX;
        None
    }

    /// Carries out what the inputs up to now led to.
    fn carry_out(&mut self) {
        self.deliver();
        self.start_puts();
        self.deliver();
    }

    fn take(&mut self, input: SessionInput) -> Option<Stop> {
        let now = self.now();
        match input {
            SessionInput::Connect { connection, peer } => self.connect(connection, peer),
            SessionInput::Messages {
                connection,
                messages,
            } => {
                for message in messages {
                    self.take_message(connection, message);
                }
            }
            SessionInput::Disconnect { connection } => {
                self.authority.disconnect(now, connection, &mut self.out);
                self.peers.remove(&connection);
            }
            SessionInput::Room { connection } => {
                self.authority.resync(now, connection, &mut self.out);
            }
            SessionInput::Query {
                asker,
                request,
                query,
            } => self.query(asker, request, query),
            // Who asked may have gone.
            SessionInput::Info { reply } => drop(reply.send(self.authority.info())),
            SessionInput::Rename { label } => {
                self.config.label.clone_from(&label);
                self.append_meta(MetaOp::Label(label));
                self.authority.settle(now, &mut self.out);
            }
            SessionInput::End {
                reason,
                rescue_dir,
                reply,
            } => {
                return Some(Stop {
                    reason,
                    rescue_dir,
                    reply: Some(reply),
                    panic: None,
                });
            }
            SessionInput::Task(report) => self.take_report(report),
        }
        None
    }

    fn connect(&mut self, connection: ConnectionId, peer: Peer) {
        let asker = Asker {
            session: self.authority.session(),
            connection,
            peer,
        };
        let state = PeerState {
            asker,
            is_follower: false,
            is_welcomed: false,
        };
        self.peers.insert(connection, state);
    }

    fn take_message(&mut self, connection: ConnectionId, message: ClientMessage) {
        // A put takes the text of a version while it is the newest one.
        let is_batched = merge::is_batched(&message) && !self.puts.is_waiting();
        if !is_batched {
            self.carry_out();
        }
        let before = self.out.len();
        self.hear(connection, message);
        if !is_batched || self.out[before..].iter().any(merge::is_wall) {
            self.carry_out();
        }
    }

    fn hear(&mut self, connection: ConnectionId, message: ClientMessage) {
        let Some(peer) = self.peers.get_mut(&connection) else {
            // It was closed; what it said on the way is void.
            return;
        };
        let mut secret = Secret(uuid::Uuid::nil());
        match message {
            ClientMessage::Hello(ref hello) if !peer.is_welcomed => {
                peer.is_follower = hello.is_follower;
                secret = Secret(uuid::Uuid::new_v4());
            }
            ClientMessage::Query { request, query, .. } => {
                let asker = peer.asker.clone();
                return self.query(asker, request, query);
            }
            _ => {}
        }
        let now = self.now();
        self.authority
            .receive(now, (connection, secret), message, &mut self.out);
    }

    fn take_report(&mut self, report: TaskReport) {
        match report {
            TaskReport::Found { name, found } => self.found(&name, found),
            TaskReport::Load { buffer, step } => self.load(buffer, step),
            TaskReport::Put { put, result } => self.put_done(put, result),
            TaskReport::Get { get, result } => self.got(get, result),
            TaskReport::Process {
                process,
                event,
                permit,
            } => {
                self.process_event(process, event, permit);
            }
        }
    }

    /// Carries out what the authority wants done, until it wants nothing more.
    fn deliver(&mut self) {
        while !self.out.is_empty() {
            for output in merge::merged(std::mem::take(&mut self.out)) {
                self.deliver_one(output);
            }
        }
    }

    fn deliver_one(&mut self, output: Output) {
        match output {
            Output::Send(connection, message) => self.send(connection, message),
            Output::Publish { except, records } => self.publish(except, records),
            Output::Welcome(connection, welcome, snapshot) => {
                self.welcome(connection, welcome, snapshot);
            }
            Output::Marks { except, marks } => {
                tell(&self.followers(except), &ServerMessage::HashMarks(marks));
            }
            Output::Diverged(divergence) => self.keep_divergence(divergence),
            Output::Host(asker, request) => self.host(asker, request),
            Output::Decided(id, outcome) => self.decided(id, outcome),
            Output::Close(connection) => {
                if let Some(peer) = self.peers.remove(&connection) {
                    match &peer.asker.peer {
                        Peer::Socket(outlet) => outlet.close(),
                        Peer::Tool(_) => peer.asker.close(ErrorMessage::new(
                            ErrorCode::NotFound,
                            "the attachment left, or came back on another connection",
                        )),
                    }
                }
            }
        }
    }

    fn send(&mut self, connection: ConnectionId, message: ServerMessage) {
        if let ServerMessage::Reply { request, .. } = &message
            && let Some(asker) = self.questions.take(connection, *request)
        {
            return asker.send(message);
        }
        if let Some(peer) = self.peers.get(&connection) {
            peer.asker.send(message);
        }
    }

    fn welcome(&mut self, connection: ConnectionId, welcome: Welcome, snapshot: Option<Snapshot>) {
        let Some(peer) = self.peers.get_mut(&connection) else {
            return;
        };
        peer.is_welcomed = true;
        peer.asker.send(ServerMessage::Welcome(welcome));
        let snapshot = snapshot.into_iter();
        match &peer.asker.peer {
            Peer::Socket(outlet) => {
                outlet.resume_entries();
                snapshot.for_each(|snapshot| outlet.send_snapshot(snapshot));
            }
            Peer::Tool(_) => {
                let pieces = snapshot.flatten().map(ServerMessage::Snapshot);
                pieces.for_each(|piece| peer.asker.send(piece));
            }
        }
    }

    fn publish(&mut self, except: Option<ConnectionId>, records: Vec<Arc<Record>>) {
        let followers = self.followers(except);
        if !followers.is_empty() {
            for entries in batches(&records) {
                tell(&followers, &ServerMessage::Entries(entries));
            }
        }
        self.feed.publish(records);
    }

    /// Returns the peers that follow and have their snapshot, but one.
    fn followers(&self, except: Option<ConnectionId>) -> Vec<&Asker> {
        let is_follower = |(connection, peer): &(&ConnectionId, &PeerState)| {
            peer.is_follower && peer.is_welcomed && except != Some(**connection)
        };
        let followers = self.peers.iter().filter(is_follower);
        followers.map(|(_, peer)| &peer.asker).collect()
    }

    /// Does what only the host can do.
    fn host(&mut self, asker: authority::Asker, request: HostRequest) {
        match request {
            HostRequest::Put {
                buffer,
                version,
                epoch,
                path,
                is_forced,
                cause,
            } => {
                let wish = put::Wish {
                    buffer,
                    version,
                    epoch,
                    path,
                    part: None,
                    is_forced,
                    cause,
                };
                self.put(asker, wish);
            }
            HostRequest::Get(buffer) => self.get(asker, buffer),
            HostRequest::Open { directory, path } => {
                self.open(open::Opener::Asker(asker), &directory, &path);
            }
            HostRequest::OpenAndShow { path, address } => {
                self.open(open::Opener::Show(address), "/", &path);
            }
            HostRequest::Run(run) => self.run_command(asker, &run.into()),
            HostRequest::Pipe(pipe) => self.pipe(asker, pipe),
            HostRequest::Read { directory, path } => self.read(asker, &directory, &path),
            HostRequest::Write {
                buffer,
                version,
                epoch,
                at,
                path,
            } => {
                let wish = put::Wish {
                    buffer,
                    version,
                    epoch,
                    path: Some(path),
                    part: Some(at),
                    is_forced: false,
                    cause: SaveCause::Put,
                };
                self.put(asker, wish);
            }
            HostRequest::Kill(process) => {
                let answer = self.kill(process);
                self.answer(asker, answer);
            }
            HostRequest::Tool(order) => self.ask_desk(asker, Ask::Tool(order)),
            HostRequest::Query(query) => match Ask::from_query(&query) {
                Some(ask) => self.ask_desk(asker, ask),
                None => diary::error(format_args!("the authority did not answer {query:?}")),
            },
            HostRequest::Registry(message) => match ask_of(message) {
                Some(ask) => self.ask_desk(asker, ask),
                None => diary::error(format_args!("a message out of place reached the registry")),
            },
        }
    }

    /// Passes a question on to the daemon, which answers the peer itself.
    fn ask_desk(&self, asker: authority::Asker, ask: Ask) {
        let peer = asker
            .connection
            .and_then(|connection| self.peers.get(&connection));
        let Some(peer) = peer else { return };
        let (desk, who) = (self.config.desk.clone(), peer.asker.clone());
        tokio::spawn(async move { desk.ask(who, asker.request, ask).await });
    }

    /// Answers whoever asked. What SERVER asked for itself and could not have is told in the
    /// error window by whoever calls this.
    fn answer(&mut self, asker: authority::Asker, answer: Result<Answer, ErrorMessage>) {
        if let Some(connection) = asker.connection {
            self.authority
                .reply(connection, asker.request, answer, &mut self.out);
        }
    }

    /// Proposes as SERVER: to the leading UI, or to itself.
    fn propose(&mut self, changes: Vec<Change>, then: OnDecided) {
        let now = self.now();
        let id = self
            .authority
            .propose_as_server(now, changes, &mut self.out);
        self.decisions.insert(id, then);
    }

    /// Appends a line to the error window of a directory.
    fn tell_error(&mut self, directory: &str, line: &str) {
        let text = format!("{line}\n");
        let change = Change::Append {
            name: errors_name(directory),
            text,
        };
        self.propose(vec![change], OnDecided::Tell("an error message"));
    }

    fn decided(&mut self, id: ProposalId, outcome: Outcome) {
        match (self.decisions.remove(&id), outcome) {
            (Some(OnDecided::Get(get)), outcome) => self.get_decided(get, outcome),
            // Sent so that the command goes on; dropped, it would stop.
            (Some(OnDecided::Release(permit)), Ok(_)) => drop(permit.send(())),
            (Some(OnDecided::Release(permit)), Err(refusal)) => {
                diary::warning(format_args!("a command's output was refused: {refusal}"));
                let _ = permit.send(());
            }
            (Some(OnDecided::Tell(what)), Err(refusal)) => {
                diary::warning(format_args!("{what} was refused: {refusal}"));
            }
            (Some(OnDecided::Tell(_)) | None, _) => {}
        }
    }

    /// Runs blocking work on a thread for it, and sends what it reports back to this session.
    fn spawn_blocking(&self, work: impl FnOnce() -> TaskReport + Send + 'static) {
        let inputs = self.inputs.clone();
        tokio::task::spawn_blocking(move || {
            // A session that has ended needs no report.
            drop(inputs.blocking_send(SessionInput::Task(work())));
        });
    }

    fn stop_of(&self, panic: &(dyn std::any::Any + Send)) -> Stop {
        let words = panic
            .downcast_ref::<&str>()
            .map(|words| (*words).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without words".into());
        let rescue_dir = self.config.rescue_dir.clone();
        let message = format!(
            "the session failed ({words}); its modified texts are in {}; start it again with apex",
            rescue_dir.display()
        );
        Stop {
            reason: ErrorMessage::new(ErrorCode::System, message),
            rescue_dir: Some(rescue_dir),
            reply: None,
            panic: Some(words),
        }
    }

    async fn end(mut self, stop: Stop) -> Ended {
        let session = self.authority.session();
        self.commands.kill_all();
        let mut written = Vec::new();
        if let Some(dir) = &stop.rescue_dir {
            let texts = rescue::texts(self.authority.node().state());
            let dir = rescue::dir(dir, &self.config.label);
            let writing = tokio::task::spawn_blocking(move || rescue::write(&dir, &texts));
            written = writing.await.unwrap_or_default();
        }
        for (_, peer) in std::mem::take(&mut self.peers) {
            peer.asker.close(stop.reason.clone());
        }
        self.feed.close();
        if let Some(reply) = stop.reply {
            // The daemon may have stopped waiting.
            drop(reply.send(written.clone()));
        }
        Ended {
            session,
            panic: stop.panic.map(|words| (words, written)),
        }
    }
}

/// Tells followers what a snapshot may come in place of; it is encoded once.
fn tell(followers: &[&Asker], message: &ServerMessage) {
    let frame: Arc<[u8]> = wire::encode_server(message).into();
    for follower in followers {
        match &follower.peer {
            Peer::Socket(outlet) => outlet.send_entries(&frame),
            Peer::Tool(_) => follower.send(message.clone()),
        }
    }
}

/// Returns a registry message as a question to the daemon.
fn ask_of(message: ClientMessage) -> Option<Ask> {
    match message {
        ClientMessage::SessionNew { label, .. } => Some(Ask::SessionNew(label)),
        ClientMessage::SessionRename {
            label, new_label, ..
        } => Some(Ask::SessionRename { label, new_label }),
        ClientMessage::SessionDelete { label, .. } => Some(Ask::SessionDelete(label)),
        _ => None,
    }
}

/// Cuts records into what fits a frame, in order.
fn batches(records: &[Arc<Record>]) -> Vec<Vec<(apex_core::ids::Shard, Bytes)>> {
    let mut batches = Vec::new();
    let mut batch = Vec::new();
    let mut len = 0;
    for record in records {
        let bytes = record.bytes.clone();
        if len + bytes.len() > limits::APPEND_LEN_MAX && !batch.is_empty() {
            batches.push(std::mem::take(&mut batch));
            len = 0;
        }
        len += bytes.len();
        batch.push((record.shard, bytes));
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

/// Messages after which a step takes no further input.
const STEP_MESSAGE_COUNT_MAX: usize = 256;

/// The request that wants no answer.
const NO_REQUEST: RequestId = RequestId::new(0);
