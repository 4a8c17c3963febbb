//! How fast entries come to a Rust tool, and how fast its proposals come back.
//!
//! Everything is real: the built daemon, its tool host, the tool `sink`, and a party on the socket
//! that leads the buffer, appends to it and decides on the proposals. Beside it stands what the
//! component alone costs for the same records.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use apex_core::edit::Splice;
use apex_core::entry::{AttachmentKind, BufferKind, BufferOp, Exec, MetaOp, Op};
use apex_core::ids::{AttachmentId, BufferId, ExecId, ViewId};
use apex_core::message::{ClientMessage, Takeover};
use apex_core::node::Node;
use apex_core::text::Span;

use super::BenchError;
use super::lift::Bare;
use super::stats::{Samples, now};
use super::table::{Table, figure, ratio};
use crate::harness::home::Daemon;
use crate::harness::{Home, Peer};

/// Entries of one append.
const BATCH_COUNT: u64 = 64;
/// Proposals that may be undecided at once: the default of `sink`.
const WINDOW: u64 = 64;

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
    /// An entry through the daemon.
    pub entry: Samples,
    /// A proposal of the bare component.
    pub bare_proposal: Samples,
    /// A proposal through the daemon, decided.
    pub proposal: Samples,
}

/// The daemon with the tool, and a party that leads.
struct Stage {
    peer: Peer,
    buffer: BufferId,
    // In this order: the daemon ends before its directories go.
    _daemon: Daemon,
    _home: Home,
}

fn guest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/guests")
        .join(name)
}

impl Stage {
    fn new() -> Result<Self, BenchError> {
        let home = Home::new();
        for name in ["sink.wasm", "sink.toml"] {
            let (from, to) = (guest(name), home.path().join("plugins").join(name));
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
            _daemon: daemon,
            _home: home,
        })
    }

    /// Appends one typed letter.
    fn edit(&mut self) -> Result<(), BenchError> {
        let buffer = self.buffer;
        let node = node_of(&mut self.peer)?;
        let end = node
            .state()
            .buffer(buffer)
            .map_or(0, |buffer| buffer.text().len());
        let group = Some(node.new_group());
        let splices = vec![Splice::new(Span::at(end), "x")];
        node.append_buffer(
            buffer,
            BufferOp::Edit {
                splices,
                group,
                dot: None,
            },
        )?;
        Ok(())
    }

    fn version(&self) -> u64 {
        let buffer = self.peer.state().buffer(self.buffer);
        buffer.map_or(0, |buffer| buffer.version().raw())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), BenchError> {
        let op = MetaOp::Setting {
            key: key.into(),
            value: Some(value.into()),
        };
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
        self.request(MetaOp::Exec(Box::new(Exec {
            id: ExecId::new(0),
            asked_by: AttachmentId::new(0),
            view: ViewId::Top,
            buffer: self.buffer,
            version,
            at: Span::at(0),
            text: "SinkReport".into(),
            argument: String::new(),
            is_look: false,
        })))?;
        let line = self.peer.wait(|peer| {
            peer.records
                .iter()
                .find_map(|record| match &record.entry.op {
                    Op::Meta(MetaOp::Notify { text, .. }) => text.strip_prefix("sink: "),
                    _ => None,
                })
                .map(str::to_owned)
        });
        let pairs = line
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        Ok(pairs
            .filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)))
            .collect())
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
        expect(&before, &after, "edited", count)?;
        expect(&before, &after, "reset", 0)?;
        Ok(ns / count as f64)
    }

    /// Lets the tool propose; returns nanoseconds per proposal until all have landed.
    fn proposals(&mut self, count: u64) -> Result<f64, BenchError> {
        self.set("tool.sink.buffer", "/bench")?;
        self.set("tool.sink.propose", &count.to_string())?;
        let before = self.report()?;
        let end = self.version() + 1 + count;
        let start = now();
        self.edit()?;
        self.peer.flush();
        let buffer = self.buffer;
        self.peer.wait(|peer| {
            let version = peer.state().buffer(buffer)?.version().raw();
            (version >= end).then_some(())
        });
        let ns = start.elapsed().as_secs_f64() * 1e9;
        // It hears of the last outcomes a little after they landed.
        let mut after = self.report()?;
        while change(&before, &after, "accepted") + change(&before, &after, "refused") < count {
            after = self.report()?;
        }
        expect(&before, &after, "proposed", count)?;
        expect(&before, &after, "accepted", count)?;
        self.set("tool.sink.propose", "0")?;
        Ok(ns / count as f64)
    }
}

fn node_of(peer: &mut Peer) -> Result<&mut Node, BenchError> {
    let node = peer.client().node_mut();
    node.ok_or_else(|| BenchError::Wrong("the party has no state".into()))
}

type Counts = BTreeMap<String, u64>;

/// Returns by how much a count has grown.
fn change(before: &Counts, after: &Counts, key: &str) -> u64 {
    let of = |counts: &Counts| counts.get(key).copied().unwrap_or(0);
    of(after) - of(before)
}

fn expect(before: &Counts, after: &Counts, key: &str, count: u64) -> Result<(), BenchError> {
    let found = change(before, after, key);
    if found == count {
        return Ok(());
    }
    Err(BenchError::Wrong(format!(
        "sink counts {found} {key}, not {count}"
    )))
}

/// Measures the component alone and through the daemon, in turns.
///
/// # Errors
/// The tool was told, or proposed, another number than it should.
pub fn measure(amount: Amount) -> Result<Figures, BenchError> {
    let path = guest("sink.wasm");
    let bytes = fs::read(&path).map_err(|error| BenchError::Read(path, error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| BenchError::Read("a runtime".into(), error))?;
    let mut teller = runtime.block_on(Bare::new(&bytes, None))?;
    let mut proposer = runtime.block_on(Bare::new(&bytes, Some(WINDOW)))?;
    let mut stage = Stage::new()?;
    let mut figures = Figures::default();
    for _ in 0..amount.rounds {
        let batches = amount.entries.div_ceil(BATCH_COUNT);
        figures
            .bare_entry
            .push(runtime.block_on(teller.entries(batches))?);
        figures.entry.push(stage.entries(amount.entries)?);
        let edits = amount.proposals.div_ceil(WINDOW);
        figures
            .bare_proposal
            .push(runtime.block_on(proposer.proposals(edits, WINDOW))?);
        figures.proposal.push(stage.proposals(amount.proposals)?);
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
        "tools: through the daemon, medians of {} rounds of {} entries and {} proposals",
        amount.rounds, amount.entries, amount.proposals
    );
    let columns = ["what", "bare ns", "apex ns", "", "apex per second"];
    let mut table = Table::new(title, &columns);
    for (what, bare, apex) in [
        ("entry to the tool", &figures.bare_entry, &figures.entry),
        (
            "proposal back, decided",
            &figures.bare_proposal,
            &figures.proposal,
        ),
    ] {
        let (bare, apex) = (bare.median(), apex.median());
        let row = [
            figure(bare),
            figure(apex),
            ratio(apex, bare),
            figure(1e9 / apex),
        ];
        table.row([what.to_owned()].into_iter().chain(row));
    }
    table.remark("goal: at most 1.5x; bare is the same component in a store without apex");
    Ok(table)
}
