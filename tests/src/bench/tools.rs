//! How fast entries come to a Rust tool, and how fast its proposals come back.
//!
//! Everything is real: the built daemon, its tool host, the tool `sink`, and a party on the socket
//! that leads the buffer, appends to it and decides on the proposals. Beside it stand what the
//! component alone costs for the same records, and what the tool host alone costs.

use std::fs;

use apex_core::entry::{AttachmentKind, BufferKind, MetaOp, Op};
use apex_core::ids::{BufferId, ExecId};
use apex_core::message::{ClientMessage, Takeover};
use apex_core::node::Node;

use super::BenchError;
use super::host::Host;
use super::lift::Bare;
use super::sink::{self, BATCH_COUNT, Counts, Typist, WINDOW, built};
use super::stats::{Samples, now};
use super::table::{Table, figure, ratio};
use crate::harness::home::Daemon;
use crate::harness::{Home, Peer};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Rounds.
    pub rounds: usize,
    /// Entries of a round; fewer than the tool host keeps for one tool.
    pub entries: u64,
    /// Proposals of a round.
    pub proposals: u64,
}

/// Nanoseconds per record.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// An entry into the bare component.
    pub bare_entry: Samples,
    /// An entry replayed by the tool host's replica, no tool to tell.
    pub replay: Samples,
    /// An entry through the tool host.
    pub host_entry: Samples,
    /// An entry through the daemon.
    pub entry: Samples,
    /// A proposal of the bare component.
    pub bare_proposal: Samples,
    /// A proposal through the tool host.
    pub host_proposal: Samples,
    /// A proposal through the daemon, decided.
    pub proposal: Samples,
}

/// The daemon with the tool, and a party that leads.
struct Stage {
    peer: Peer,
    buffer: BufferId,
    typist: Typist,
    // In this order: the daemon ends before its directories go.
    _daemon: Daemon,
    _home: Home,
}

impl Stage {
    fn new() -> Result<Self, BenchError> {
        let home = Home::new();
        for name in ["sink.wasm", "sink.toml"] {
            let (from, to) = (built(name), home.path().join("plugins").join(name));
            fs::copy(&from, to).map_err(|error| BenchError::Read(from, error))?;
        }
        let daemon = home.daemon();
        home.ok(&["new", "main"]);
        home.ok(&["tool", "grant", "sink"]);
        let mut peer = Peer::join(&home, AttachmentKind::Ui, Takeover::Transfer);
        peer.wait_attached("sink");
        let node = node_of(&mut peer)?;
        let buffer = node.new_buffer(BufferKind::File, "/bench")?;
        peer.flush();
        Ok(Self {
            peer,
            buffer,
            typist: Typist::default(),
            _daemon: daemon,
            _home: home,
        })
    }

    /// Appends one key.
    fn edit(&mut self) -> Result<(), BenchError> {
        self.typist.key(node_of(&mut self.peer)?, self.buffer)
    }

    fn version(&self) -> u64 {
        let buffer = self.peer.state().buffer(self.buffer);
        buffer.map_or(0, |buffer| buffer.version().raw())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), BenchError> {
        let op = sink::setting(key, value);
        self.request(op)
    }

    fn request(&mut self, op: MetaOp) -> Result<(), BenchError> {
        let answer = self
            .peer
            .ask(|request| ClientMessage::MetaRequest { request, op });
        answer
            .map(drop)
            .map_err(|error| BenchError::Wrong(error.message))
    }

    /// Asks the tool what it has counted, once it was told everything up to now.
    fn report(&mut self) -> Result<Counts, BenchError> {
        self.peer.records.clear();
        let buffer = self.peer.state().buffer(self.buffer);
        let version = buffer
            .map(apex_core::buffer::Buffer::version)
            .unwrap_or_default();
        self.request(sink::question(ExecId::new(0), self.buffer, version))?;
        let line = self.peer.wait_far(|peer| {
            peer.records
                .iter()
                .find_map(|record| match &record.entry.op {
                    Op::Meta(MetaOp::Notify { text, .. }) => text.strip_prefix("sink: "),
                    _ => None,
                })
                .map(str::to_owned)
        });
        Ok(Counts::parse(&line))
    }

    /// Appends entries until the tool has been told all; returns nanoseconds per entry.
    fn entries(&mut self, count: u64) -> Result<f64, BenchError> {
        let before = self.report()?;
        let start = now();
        for index in 0..count {
            self.edit()?;
            if index % BATCH_COUNT == BATCH_COUNT - 1 {
                self.peer.flush();
            }
        }
        self.peer.flush();
        let after = self.report()?;
        let ns = start.elapsed().as_secs_f64() * 1e9;
        after.expect(&before, "edited", count)?;
        after.expect(&before, "reset", 0)?;
        Ok(ns / count as f64)
    }

    /// Lets the tool propose; returns nanoseconds per proposal until all have landed.
    fn proposals(&mut self, count: u64) -> Result<f64, BenchError> {
        self.set("tool.sink.buffer", "/bench")?;
        self.set("tool.sink.window", &WINDOW.to_string())?;
        self.set("tool.sink.propose", &count.to_string())?;
        let before = self.report()?;
        let end = self.version() + 1 + count;
        let start = now();
        self.edit()?;
        self.peer.flush();
        let buffer = self.buffer;
        self.peer.wait_far(|peer| {
            let version = peer.state().buffer(buffer)?.version().raw();
            (version >= end).then_some(())
        });
        let ns = start.elapsed().as_secs_f64() * 1e9;
        // It hears of the last outcomes a little after they landed.
        let mut after = self.report()?;
        while after.decided_since(&before) < count {
            after = self.report()?;
        }
        after.expect(&before, "proposed", count)?;
        after.expect(&before, "accepted", count)?;
        self.set("tool.sink.propose", "0")?;
        Ok(ns / count as f64)
    }
}

fn node_of(peer: &mut Peer) -> Result<&mut Node, BenchError> {
    let node = peer.client().node_mut();
    node.ok_or_else(|| BenchError::Wrong("the party has no state".into()))
}

/// Measures the component alone, in the tool host and through the daemon, in turns.
///
/// # Errors
/// The tool was told, or proposed, another number than it should.
pub fn measure(amount: Amount) -> Result<Figures, BenchError> {
    let path = built("sink.wasm");
    let bytes = fs::read(&path).map_err(|error| BenchError::Read(path, error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| BenchError::Read("a runtime".into(), error))?;
    let mut bare = runtime.block_on(Bare::new(&bytes))?;
    let mut host = runtime.block_on(Host::new())?;
    let mut figures = Figures::default();
    let (entries, proposals) = (amount.entries, amount.proposals);
    let mut stage = Stage::new()?;
    for _ in 0..amount.rounds {
        let batches = entries.div_ceil(BATCH_COUNT);
        let ns = runtime.block_on(bare.entries(batches))?;
        figures.bare_entry.push(ns);
        figures.replay.push(host.replay(entries)?);
        let ns = runtime.block_on(host.entries(entries))?;
        figures.host_entry.push(ns);
        figures.entry.push(stage.entries(entries)?);
        let ns = runtime.block_on(bare.proposals(proposals))?;
        figures.bare_proposal.push(ns);
        let ns = runtime.block_on(host.proposals(proposals))?;
        figures.host_proposal.push(ns);
        figures.proposal.push(stage.proposals(proposals)?);
    }
    Ok(figures)
}

/// Measures, and returns the table.
///
/// # Errors
/// As [`measure`].
pub fn run(amount: Amount) -> Result<Table, BenchError> {
    let figures = measure(amount)?;
    let title = format!(
        "tools: medians of {} rounds of {} entries and {} proposals, {WINDOW} of them undecided",
        amount.rounds, amount.entries, amount.proposals
    );
    let columns = ["what", "bare ns", "apex ns", "", "apex per second"];
    let mut table = Table::new(title, &columns);
    let (entry, proposal) = (figures.bare_entry.median(), figures.bare_proposal.median());
    let replay = figures.replay.median();
    let (host_entry, host_proposal) = (figures.host_entry.median(), figures.host_proposal.median());
    for (what, bare, apex) in [
        ("replica alone: entry", entry, replay),
        ("tool host: entry", entry, host_entry),
        ("tool host: proposal", proposal, host_proposal),
        ("through the daemon: entry", entry, figures.entry.median()),
        (
            "through the daemon: proposal",
            proposal,
            figures.proposal.median(),
        ),
    ] {
        let row = [
            figure(bare),
            figure(apex),
            ratio(apex, bare),
            figure(1e9 / apex),
        ];
        table.row([what.to_owned()].into_iter().chain(row));
    }
    table.remark("goal: at most 1.5x; bare is the same component with the same calls in a store");
    table.remark("without apex. A proposal: made, its edit told as an entry, its outcome told.");
    table.remark(
        "Replica: the tool host's own copy of the session, which is what lets it vouch for",
    );
    table.remark("the hash of what its tools saw; one for all tools of a session.");
    table.remark("It replays beside the session while the tool is told of what came before.");
    table.remark("Tool host: records as a leader encoded them, replayed by the replica with the");
    table.remark(
        "chain hash, converted, told; proposals checked, taken at the host's outbound end.",
    );
    table.remark("A first quarter is the run-up and is not counted.");
    table.remark("Daemon: also the leader's own edit or decision and its encoding, two sockets,");
    table.remark("the fenced append, routing, and the way back.");
    Ok(table)
}
