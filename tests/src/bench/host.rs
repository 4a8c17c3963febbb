//! What a tool costs in the tool host: the real one, fed as a session feeds it, without a daemon.
//!
//! A session's authority stands behind it and leads: it answers what tools ask, and the records are
//! its own. In the timed part it does nothing: the records are made before.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use apex_core::edit::Splice;
use apex_core::entry::{ApplyLimits, BufferKind, MetaOp};
use apex_core::ids::{
    AttachmentId, BufferId, ConnectionId, Incarnation, Millis, ProposalId, Secret, SessionId,
    Version,
};
use apex_core::limits;
use apex_core::log::Record;
use apex_core::message::{ClientMessage, ServerMessage, ToolOrder};
use apex_core::node::authority::{Authority, Genesis, Output};
use apex_core::proposal::{Atomicity, Change, Landed, Proposal};
use apex_core::text::Span;
use apex_host::seam::{
    ConnectionIds, RESTART_WAIT_MS, SessionInput, SessionLink, SessionOpened, SessionRecords,
    SessionSnapshot, ToolConfig, ToolHandle, ToolHostMessage, Wish,
};
use apex_host::tools::ToolHost;
use apex_host::tools::replica::Replica;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::BenchError;
use super::sink::{self, BATCH_COUNT, Counts, Typist, WINDOW, built};

const NOW: Millis = Millis::new(0);
/// Nobody meets another session here.
const NIL: uuid::Uuid = uuid::Uuid::nil();
const SESSION: SessionId = SessionId(NIL);
/// In how many portions entries come; the first is the run-up.
const PORTIONS: u64 = 4;
/// Inputs that are taken in one go.
const INPUT_COUNT_MAX: usize = 256;

/// The tool host with the tool, and the session that it serves.
#[derive(Debug)]
pub struct Host {
    handle: ToolHandle,
    authority: Authority,
    buffer: BufferId,
    typist: Typist,
    inputs: mpsc::Receiver<SessionInput>,
    wished: watch::Receiver<Wish>,
    room: Arc<Semaphore>,
    /// The tool's attachment and the connection to it, once it has joined.
    tool: Option<(AttachmentId, ConnectionId)>,
    /// The tool host has a replica; what was published before is lost on it.
    is_followed: bool,
    /// Proposals that came, by their numbers in order.
    proposed: u64,
    /// Lines that it reported and nobody has read.
    reports: VecDeque<String>,
    dir: PathBuf,
}

impl Drop for Host {
    fn drop(&mut self) {
        let (reply, _ended) = oneshot::channel();
        self.handle.send(ToolHostMessage::Shutdown { reply });
        // What is left behind is in a temporary directory.
        drop(fs::remove_dir_all(&self.dir));
    }
}

impl Host {
    /// Starts the tool host, and returns when the tool has joined.
    ///
    /// # Errors
    /// The tool is not built, or does not start.
    pub async fn new() -> Result<Self, BenchError> {
        let dir = std::env::temp_dir().join(format!("apex-bench-host-{}", std::process::id()));
        let plugins = dir.join("plugins");
        let read = |path: PathBuf| move |error| BenchError::Read(path, error);
        fs::create_dir_all(&plugins).map_err(read(plugins.clone()))?;
        for name in ["sink.toml", "sink.wasm"] {
            fs::copy(built(name), plugins.join(name)).map_err(read(built(name)))?;
        }
        let handle = ToolHost::start(ToolConfig {
            plugin_dirs: vec![plugins],
            grants_path: dir.join("grants.toml"),
            cache_dir: dir.join("cache"),
            data_dir: dir.join("data/tool"),
            restart_wait_ms: RESTART_WAIT_MS,
        });
        let (sender, inputs) = mpsc::channel(INPUT_COUNT_MAX);
        let (link, wished) = SessionLink::new(sender, handle.sender(), ConnectionIds::default());
        let mut authority = Authority::new(Genesis {
            session: SESSION,
            incarnation: Incarnation(NIL),
            label: "main".into(),
            limits: ApplyLimits {
                undo_len: limits::UNDO_LEN_DEFAULT,
                annotation_count: limits::ANNOTATION_COUNT_MAX as u64,
                scrollback_count: limits::SCROLLBACK_COUNT_DEFAULT,
            },
        });
        let buffer = authority
            .node_mut()
            .new_buffer(BufferKind::File, "/bench")?;
        authority.settle(NOW, &mut Vec::new());
        handle.send(ToolHostMessage::SessionOpened(SessionOpened {
            session: SESSION,
            link,
        }));
        let mut host = Self {
            handle,
            authority,
            buffer,
            typist: Typist::default(),
            inputs,
            wished,
            room: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            tool: None,
            is_followed: false,
            proposed: 0,
            reports: VecDeque::new(),
            dir,
        };
        host.grant().await?;
        while host.tool.is_none() || !host.is_followed {
            host.step().await?;
        }
        Ok(host)
    }

    async fn grant(&self) -> Result<(), BenchError> {
        let (reply, answer) = oneshot::channel();
        let order = ToolOrder::Grant("sink".into());
        self.handle.send(ToolHostMessage::Order { order, reply });
        match answer.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(BenchError::Wrong(error.message)),
            Err(_) => Err(BenchError::Wrong("the tool host has ended".into())),
        }
    }

    /// Plays the session for what the tool host says next.
    async fn step(&mut self) -> Result<(), BenchError> {
        let input = tokio::select! {
            input = self.inputs.recv() => input,
            changed = self.wished.changed() => {
                changed.map_err(|_| BenchError::Wrong("the tool host has ended".into()))?;
                return self.open().await;
            }
        };
        match input {
            Some(SessionInput::Messages {
                connection,
                messages,
            }) => messages
                .into_iter()
                .for_each(|message| self.hear(connection, message)),
            Some(_) => {}
            None => return Err(BenchError::Wrong("the tool host has ended".into())),
        }
        Ok(())
    }

    /// Answers the wish for a snapshot.
    ///
    /// # Errors
    /// The tool host follows the session no more.
    async fn open(&mut self) -> Result<(), BenchError> {
        let Some(wish) = *self.wished.borrow_and_update() else {
            let (reply, lines) = oneshot::channel();
            let tool = "sink".to_owned();
            self.handle.send(ToolHostMessage::Log { tool, reply });
            let lines = lines.await.ok().and_then(Result::ok).unwrap_or_default();
            return Err(BenchError::Wrong(format!(
                "the tool host follows no more; its log: {}",
                lines.join(" / ")
            )));
        };
        self.is_followed = true;
        self.handle.send(ToolHostMessage::Snapshot(SessionSnapshot {
            session: SESSION,
            wish,
            snapshot: self.authority.node().state().clone(),
            marks: self.authority.node().log().marks(),
        }));
        Ok(())
    }

    fn hear(&mut self, connection: ConnectionId, message: ClientMessage) {
        match &message {
            ClientMessage::Propose(_) => {
                self.proposed += 1;
                return;
            }
            // Not made an entry: the records that are published next were made before.
            ClientMessage::MetaRequest {
                op: MetaOp::Notify { text, .. },
                ..
            } if let Some(counts) = text.strip_prefix("sink: ") => {
                self.reports.push_back(counts.to_owned());
                return;
            }
            _ => {}
        }
        let mut out = Vec::new();
        let secret = Secret(NIL);
        self.authority
            .receive(NOW, (connection, secret), message, &mut out);
        for output in out {
            self.deliver(output);
        }
    }

    fn deliver(&mut self, output: Output) {
        match output {
            Output::Send(connection, message) => self.say(connection, message),
            Output::Publish { records, .. } => self.publish(records),
            Output::Welcome(connection, welcome, _) => {
                self.tool = Some((welcome.attachment, connection));
                self.say(connection, ServerMessage::Welcome(welcome));
            }
            // A tool compares no hashes.
            Output::Marks { .. } | Output::Diverged(_) => {}
            Output::Host(..) | Output::Decided(..) | Output::Close(_) => {}
        }
    }

    fn say(&self, connection: ConnectionId, message: ServerMessage) {
        self.handle.send(ToolHostMessage::FromDaemon {
            session: SESSION,
            connection,
            message,
        });
    }

    fn publish(&self, records: impl Into<Arc<[Arc<Record>]>>) {
        // The room is never used up.
        let Ok(permit) = self.room.clone().try_acquire_owned() else {
            return;
        };
        self.handle.send(ToolHostMessage::Records(SessionRecords {
            session: SESSION,
            records: records.into(),
            permit,
        }));
    }

    /// Returns the records that were appended and not published.
    fn appended(&mut self) -> Vec<Arc<Record>> {
        let mut out = Vec::new();
        self.authority.settle(NOW, &mut out);
        let records = out.into_iter().filter_map(|output| match output {
            Output::Publish { records, .. } => Some(records),
            _ => None,
        });
        records.flatten().collect()
    }

    fn version(&self) -> Version {
        let buffer = self.authority.node().state().buffer(self.buffer);
        buffer
            .map(apex_core::buffer::Buffer::version)
            .unwrap_or_default()
    }

    /// Appends one key.
    fn edit(&mut self) -> Result<(), BenchError> {
        self.typist.key(self.authority.node_mut(), self.buffer)
    }

    /// Appends typing; returns their records, not published.
    fn edits(&mut self, count: u64) -> Result<Vec<Arc<Record>>, BenchError> {
        for _ in 0..count {
            self.edit()?;
        }
        Ok(self.appended())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), BenchError> {
        self.authority
            .node_mut()
            .append_meta(sink::setting(key, value))?;
        let records = self.appended();
        self.publish(records);
        Ok(())
    }

    /// Appends that the user asks the tool what it has counted.
    fn ask(&mut self) -> Result<Vec<Arc<Record>>, BenchError> {
        let version = self.version();
        let id = self.authority.node_mut().new_exec();
        self.authority
            .node_mut()
            .append_meta(sink::question(id, self.buffer, version))?;
        Ok(self.appended())
    }

    async fn answer(&mut self) -> Result<Counts, BenchError> {
        loop {
            if let Some(line) = self.reports.pop_front() {
                return Ok(Counts::parse(&line));
            }
            self.step().await?;
        }
    }

    /// Asks the tool what it has counted, once it was told everything up to now.
    async fn report(&mut self) -> Result<Counts, BenchError> {
        let records = self.ask()?;
        self.publish(records);
        self.answer().await
    }

    /// Hands entries over until the tool has been told all; returns nanoseconds per entry. It is
    /// asked for its counts after each portion, and two portions are ahead of what it has
    /// answered: enough to do, and never more than is kept for it. The first portion is the
    /// run-up: threads that have slept find their processors, and nobody counts the time.
    ///
    /// # Errors
    /// It was told another number of entries.
    pub async fn entries(&mut self, count: u64) -> Result<f64, BenchError> {
        const AHEAD_COUNT: usize = 2;
        let before = self.report().await?;
        let portion_count = count.div_ceil(PORTIONS);
        let mut portions = VecDeque::new();
        let mut made = 0;
        while made < count {
            let edits = self.edits(portion_count.min(count - made))?;
            made += edits.len() as u64;
            let mut batches: Vec<Arc<[Arc<Record>]>> = batches(&edits).map(Arc::from).collect();
            batches.push(self.ask()?.into());
            portions.push_back(batches);
        }
        let (mut after, mut asked) = (before.clone(), 0);
        let mut start = None;
        while asked > 0 || !portions.is_empty() {
            while asked <= AHEAD_COUNT
                && let Some(portion) = portions.pop_front()
            {
                portion.into_iter().for_each(|batch| self.publish(batch));
                asked += 1;
            }
            after = self.answer().await?;
            asked -= 1;
            start.get_or_insert_with(super::stats::now);
        }
        let ns = start.map_or(0.0, |start| start.elapsed().as_secs_f64() * 1e9);
        after.expect(&before, "edited", count)?;
        after.expect(&before, "reset", 0)?;
        Ok(ns / (count - portion_count) as f64)
    }

    /// Replays entries as the tool host does, with no tool to tell; returns nanoseconds per entry.
    ///
    /// # Errors
    /// An entry did not apply.
    pub fn replay(&mut self, count: u64) -> Result<f64, BenchError> {
        let node = self.authority.node();
        let mut replica = Replica::new(node.state().clone(), &node.log().marks());
        let records = self.edits(count)?;
        let start = super::stats::now();
        for batch in batches(&records) {
            let chunks = replica.apply(batch);
            drop(chunks.map_err(|error| BenchError::Wrong(error.to_string()))?);
        }
        let ns = start.elapsed().as_secs_f64() * 1e9;
        // The tool follows the same log.
        self.publish(records);
        Ok(ns / count as f64)
    }

    /// Appends the edits that the next proposals will ask for, as if they had been accepted.
    fn land(&mut self, count: u64) -> Result<Vec<Arc<Record>>, BenchError> {
        let Some((author, _)) = self.tool else {
            return Err(BenchError::Wrong("the tool has not joined".into()));
        };
        for number in 1..=count {
            let change = Change::Edit {
                buffer: self.buffer,
                base: self.version(),
                splices: vec![Splice::new(Span::at(0), ".")],
            };
            let proposal = Proposal {
                author,
                id: ProposalId::new(self.proposed + number),
                atomicity: Atomicity::All,
                changes: vec![change],
            };
            let (outcome, _) = self.authority.node_mut().decide(&proposal);
            outcome.map_err(|refusal| BenchError::Wrong(refusal.to_string()))?;
        }
        Ok(self.appended())
    }

    /// Lets the tool propose, and tells it of the edits and outcomes; returns nanoseconds per
    /// proposal until the last one is taken.
    ///
    /// # Errors
    /// It made another number of proposals.
    pub async fn proposals(&mut self, count: u64) -> Result<f64, BenchError> {
        self.set("tool.sink.buffer", "/bench")?;
        self.set("tool.sink.window", &WINDOW.to_string())?;
        self.set("tool.sink.propose", &count.to_string())?;
        let before = self.report().await?;
        let first = self.proposed;
        self.edit()?;
        let edit = self.appended();
        let version = self.version().raw();
        let landed = self.land(count)?;
        let mut told = 0;
        // When counting begins and after how many: behind the run-up, as with entries. A few may
        // come in one go, with no run-up to tell apart.
        let (mut start, mut first_told) = (super::stats::now(), 0);
        self.publish(edit);
        while told < count {
            if first_told == 0 && told >= count.div_ceil(PORTIONS) {
                (start, first_told) = (super::stats::now(), told);
            }
            self.step().await?;
            while let Ok(input) = self.inputs.try_recv() {
                if let SessionInput::Messages {
                    connection,
                    messages,
                } = input
                {
                    messages
                        .into_iter()
                        .for_each(|message| self.hear(connection, message));
                }
            }
            let made = (self.proposed - first).min(count);
            self.decide(first, &landed, (told, made, version));
            told = made;
        }
        let ns = start.elapsed().as_secs_f64() * 1e9;
        let mut after = self.report().await?;
        while after.decided_since(&before) < count {
            after = self.report().await?;
        }
        after.expect(&before, "proposed", count)?;
        after.expect(&before, "accepted", count)?;
        self.set("tool.sink.propose", "0")?;
        Ok(ns / (count - first_told) as f64)
    }

    /// Publishes the edits of proposals and tells their outcomes.
    fn decide(&self, first: u64, landed: &[Arc<Record>], (told, made, version): (u64, u64, u64)) {
        let Some((_, connection)) = self.tool else {
            return;
        };
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        if let Some(records) = landed.get(index(told)..index(made))
            && !records.is_empty()
        {
            self.publish(records);
        }
        for number in told + 1..=made {
            let landed = Landed {
                buffer: Some(self.buffer),
                version: Version::new(version + number),
                ..Landed::default()
            };
            self.say(
                connection,
                ServerMessage::ProposeResult {
                    id: ProposalId::new(first + number),
                    outcome: Ok(vec![landed]),
                },
            );
        }
    }
}

fn batches(records: &[Arc<Record>]) -> impl Iterator<Item = &[Arc<Record>]> {
    records.chunks(usize::try_from(BATCH_COUNT).unwrap_or(usize::MAX))
}
