//! What an edit costs beside the same edit of a bare rope.
//!
//! - `ropey`: the bare rope in a process with the system's allocator, as most programs have it.
//! - The bare rope in this process, with the allocator of apex's programs.
//! - `leader`: an edit as a UI makes it, with a view whose selection follows and an undo group:
//!   entry, encoding, chain hash, fenced append, apply. Acknowledged entries are dropped.
//! - `follower`: the same entries decoded, checked, appended and applied.
//! - `accept`: the same entries accepted by the daemon's node, one an append as typing sends
//!   them, and many an append.
//! - Replicated text libraries, each edit by itself and with what other replicas are sent.

use std::hint::black_box;
use std::iter;
use std::path::Path;

use apex_core::buffer::Buffer;
use apex_core::bytes::Bytes;
use apex_core::edit::Splice;
use apex_core::entry::{ApplyLimits, AttachmentKind, BufferKind, BufferOp, ChainHash, Dot, MetaOp};
use apex_core::ids::{AttachmentId, BufferId, Epoch, GroupId, Seq, Shard, ViewId, WindowId};
use apex_core::node::Node;
use apex_core::text::Span;
use ropey::Rope;

use crate::BenchError;
use crate::peer::{self, LIBRARIES, Mode};
use crate::stats::{Samples, timed};
use crate::table::{Table, figure, ratio};
use crate::trace::{self, Patch, Trace};

/// Entries after which an acknowledgement lets the leader drop them.
const ACK_COUNT: usize = 64;
/// Entries of one append of a busy leader.
const BATCH_COUNT: usize = 64;

/// Rounds that the libraries take part in: each replays more than once a round, and some are slow.
const PEER_ROUNDS: usize = 3;
/// A library that takes longer for one trace is asked for it once: ten minutes are no bench.
const REPLAY_NS_MAX: f64 = 2e9;
/// What is said below the table.
const REMARKS: [&str; 3] = [
    "ropey: a process of its own, with the system's allocator; goal for leader: 3x of it at most",
    "leader: encoding, chain hash, fenced append, apply, undo and a view that follows are inside",
    "text, hashes and undo are checked in each round",
];
/// What is said of the libraries.
const PEER_REMARKS: [&str; 4] = [
    "libraries: each in a process of its own, with apex's allocator, the whole trace, an edit is a",
    "transaction, in 3 rounds, or in one where a replay takes 2 s; edit + encode makes the bytes",
    "for the other replicas; texts are checked; no library keeps undo or selections;",
    "goal: leader ahead of loro, yrs and automerge",
];

/// Nanoseconds per edit of one trace.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// A bare rope with the system's allocator.
    pub system_rope: Samples,
    /// A bare rope with the allocator of this process.
    pub rope: Samples,
    /// The leader.
    pub leader: Samples,
    /// A follower.
    pub follower: Samples,
    /// The authority, one entry an append.
    pub single: Samples,
    /// The authority, `BATCH_COUNT` entries an append.
    pub batch: Samples,
    /// Each library in each mode; empty when they are left out.
    pub libraries: Vec<(&'static str, Mode, Samples)>,
}

impl Figures {
    /// Lets each library replay a trace, and adds its times.
    fn add_libraries(&mut self, peers: &Path, trace: &Trace) -> Result<(), BenchError> {
        if self.libraries.is_empty() {
            let all = LIBRARIES
                .iter()
                .flat_map(|name| Mode::ALL.map(|mode| (*name, mode)));
            let empty = all.map(|(name, mode)| (name, mode, Samples::default()));
            self.libraries.extend(empty);
        }
        for (name, mode, samples) in &mut self.libraries {
            // The first time there is no median, which no comparison finds long.
            let is_slow = samples.median() * trace.patches.len() as f64 > REPLAY_NS_MAX;
            if !is_slow {
                samples.push(peer::library(peers, name, *mode, &trace.name)?.median());
            }
        }
        Ok(())
    }

    /// What each party is called, and its median.
    fn rows(&self) -> Vec<(String, f64)> {
        let own = [
            ("ropey", &self.system_rope),
            ("ropey, apex's allocator", &self.rope),
            ("apex leader", &self.leader),
            ("apex follower", &self.follower),
            ("apex accept, 1 an append", &self.single),
            ("apex accept, 64 an append", &self.batch),
        ];
        let own = own.map(|(name, samples)| (name.to_owned(), samples.median()));
        let libraries = self.libraries.iter().map(|(name, mode, samples)| {
            let name = match mode {
                Mode::Edit => format!("{name}, edit"),
                Mode::Encode => format!("{name}, edit + encode"),
            };
            (name, samples.median())
        });
        own.into_iter().chain(libraries).collect()
    }
}

/// The parties of one session with one buffer, before the first edit.
#[derive(Clone, Debug)]
struct Cast {
    leader: Node,
    follower: Node,
    authority: Node,
    buffer: BufferId,
    view: ViewId,
}

impl Cast {
    fn new() -> Result<Self, BenchError> {
        let mut authority = Node::authority();
        let limits = ApplyLimits::default();
        let (me, other) = (AttachmentId::new(1), AttachmentId::new(2));
        let attach = |id| MetaOp::Attach {
            id,
            kind: AttachmentKind::Ui,
            name: "bench".into(),
        };
        for op in [
            MetaOp::Genesis { format: 1, limits },
            attach(me),
            attach(other),
        ] {
            authority.append_meta(op)?;
        }
        let marks = authority.log().marks();
        let mirror = |id| Node::mirror(id, authority.state().clone(), &marks, 1);
        let (mut leader, mut follower) = (mirror(me), mirror(other));
        let buffer = leader.new_buffer(BufferKind::File, "/bench")?;
        let view = ViewId::Body(WindowId::new(me.prefix(2)));
        leader.append_buffer(buffer, BufferOp::ViewAdd(view))?;
        let shard = Shard::Buffer(buffer);
        let (epoch, chain) = (Epoch::new(1), ChainHash::default());
        let grant = MetaOp::LeaseGrant {
            shard,
            to: me,
            epoch,
            head: Seq::new(0),
            chain,
        };
        for op in [MetaOp::ShardNew(shard), grant] {
            let record = authority.append_meta(op)?;
            leader.follow(Shard::Meta, &record.bytes)?;
            follower.follow(Shard::Meta, &record.bytes)?;
        }
        let first = leader.log().after(shard, Seq::new(0));
        let first: Vec<Bytes> = first.map(|record| record.bytes.clone()).collect();
        for bytes in &first {
            follower.follow(shard, bytes)?;
        }
        authority.accept(me, &[(shard, first)])?;
        Ok(Self {
            leader,
            follower,
            authority,
            buffer,
            view,
        })
    }

    /// Appends a trace as a UI does, and hands out the bytes of each entry.
    fn lead(&mut self, patches: &[Patch], mut ship: impl FnMut(&Bytes)) -> Result<(), BenchError> {
        let mut typing = Typing {
            at: u64::MAX,
            group: GroupId::new(0),
        };
        for (index, patch) in patches.iter().enumerate() {
            let op = typing.edit(&mut self.leader, self.view, patch);
            let record = self.leader.append_buffer(self.buffer, op)?;
            ship(&record.bytes);
            if index % ACK_COUNT == 0 {
                self.leader
                    .compact(Shard::Buffer(self.buffer), record.entry.seq);
            }
        }
        Ok(())
    }

    fn follow(&mut self, entries: &[Bytes]) -> Result<(), BenchError> {
        let shard = Shard::Buffer(self.buffer);
        for bytes in entries {
            if let Some(record) = self.follower.follow(shard, bytes)? {
                self.follower.compact(shard, record.entry.seq);
            }
        }
        Ok(())
    }

    fn accept(&mut self, appends: &[[(Shard, Vec<Bytes>); 1]]) -> Result<(), BenchError> {
        for append in appends {
            black_box(self.authority.accept(self.leader.attachment(), append)?);
        }
        Ok(())
    }

    /// Checks that all parties have the text, and that undo takes all of it back.
    fn check(mut self, trace: &Trace) -> Result<(), BenchError> {
        let shard = Shard::Buffer(self.buffer);
        let hash = self.leader.state().shard_hash(shard);
        for node in [&self.leader, &self.follower, &self.authority] {
            let text = node
                .state()
                .buffer(self.buffer)
                .map(|buffer| buffer.text().to_string());
            let is_same = node.state().shard_hash(shard) == hash
                && node.log().mark(shard) == self.leader.log().mark(shard);
            if text.as_deref() != Some(&trace.end) || !is_same {
                let party = node.attachment();
                let words = format!("{}: attachment {party} has another text", trace.name);
                return Err(BenchError::Wrong(words));
            }
        }
        let group = |node: &Node, id| node.state().buffer(id).and_then(Buffer::undo_group);
        while let Some(group) = group(&self.leader, self.buffer) {
            self.leader
                .append_buffer(self.buffer, BufferOp::Undo { group, view: None })?;
        }
        let text = self
            .leader
            .state()
            .buffer(self.buffer)
            .map(|buffer| buffer.text().len());
        if text != Some(0) {
            return Err(BenchError::Wrong(format!(
                "{}: undo leaves a text",
                trace.name
            )));
        }
        Ok(())
    }
}

/// Where the last edit ended, and its step of undo.
struct Typing {
    at: u64,
    group: GroupId,
}

impl Typing {
    /// Returns a change as a UI makes it: typing and erasing at the cursor go on with the group.
    fn edit(&mut self, node: &mut Node, view: ViewId, patch: &Patch) -> BufferOp {
        let Patch(at, removed, text) = patch;
        let span = Span::new(*at, at + removed);
        if span.q0 != self.at && span.q1 != self.at {
            self.group = node.new_group();
        }
        let splice = Splice::new(span, text.as_str());
        let end = at + splice.count();
        // A step of undo ends with the line.
        self.at = if text.ends_with('\n') { u64::MAX } else { end };
        let dot = Some(Dot {
            view,
            at: Span::at(end),
        });
        BufferOp::Edit {
            splices: splice.into(),
            group: Some(self.group),
            dot,
        }
    }
}

/// Replays a trace on a bare rope; returns nanoseconds per edit.
///
/// # Errors
/// The text is wrong.
pub fn bare(trace: &Trace) -> Result<f64, BenchError> {
    let (text, ns) = timed(|| {
        let mut text = Rope::new();
        trace
            .patches
            .iter()
            .for_each(|patch| patch.apply(&mut text));
        text
    });
    if text != trace.end.as_str() {
        return Err(BenchError::Wrong(format!("{}: the bare rope", trace.name)));
    }
    Ok(ns / trace.patches.len() as f64)
}

/// Replays a trace once through everything and adds the times.
///
/// # Errors
/// A result is wrong.
pub fn round(trace: &Trace, figures: &mut Figures) -> Result<(), BenchError> {
    let count = trace.patches.len() as f64;
    figures.rope.push(bare(trace)?);
    let mut cast = Cast::new()?;
    // A UI does not keep what it has shipped: the bytes for the others are made beforehand.
    let mut entries = Vec::with_capacity(trace.patches.len());
    cast.clone()
        .lead(&trace.patches, |bytes| entries.push(bytes.clone()))?;
    let ship = |bytes: &Bytes| {
        black_box(bytes);
    };
    let (led, leader) = timed(|| cast.lead(&trace.patches, ship));
    led?;
    figures.leader.push(leader / count);
    let (followed, follower) = timed(|| cast.follow(&entries));
    followed?;
    figures.follower.push(follower / count);
    let shard = Shard::Buffer(cast.buffer);
    let in_appends_of = |size| -> Vec<_> {
        let pieces = entries.chunks(size);
        pieces.map(|piece| [(shard, piece.to_vec())]).collect()
    };
    let (mut fresh, appends) = (cast.clone(), in_appends_of(BATCH_COUNT));
    let (accepted, batch) = timed(|| fresh.accept(&appends));
    accepted?;
    drop(fresh);
    figures.batch.push(batch / count);
    let appends = in_appends_of(1);
    let (accepted, single) = timed(|| cast.accept(&appends));
    accepted?;
    figures.single.push(single / count);
    cast.check(trace)
}

/// Measures all traces.
///
/// # Errors
/// A result is wrong, or a trace is not there.
pub fn run(rounds: usize) -> Result<Table, BenchError> {
    let peers = peer::peers();
    let mut traces = Vec::new();
    for name in trace::NAMES {
        let trace = Trace::read(name)?;
        let mut figures = Figures::default();
        for number in 0..rounds {
            figures.system_rope.push(peer::rope(name)?);
            round(&trace, &mut figures)?;
            if let Some(path) = peers.as_deref().filter(|_| number < PEER_ROUNDS) {
                figures.add_libraries(path, &trace)?;
            }
        }
        traces.push((trace, figures));
    }
    let title = format!("edit: ns per edit, medians of {rounds} rounds");
    Ok(table(&title, &traces, peers.is_some()))
}

/// The figures of all traces: a row a party, for each trace its time and its ratios.
fn table(title: &str, traces: &[(Trace, Figures)], has_peers: bool) -> Table {
    let mut columns = vec![""];
    let names = traces.iter().map(|(trace, _)| trace.name.as_str());
    columns.extend(names.flat_map(|name| [name, "/ropey", "/leader"]));
    let mut table = Table::new(title, &columns);
    let counts = traces.iter().map(|(trace, _)| trace.patches.len());
    let counts = counts.flat_map(|count| [count.to_string(), String::new(), String::new()]);
    table.row(iter::once("edits".to_owned()).chain(counts));
    let rows = traces.first().map_or(Vec::new(), |(_, first)| first.rows());
    for (index, (name, _)) in rows.iter().enumerate() {
        let mut row = vec![name.clone()];
        for (_, figures) in traces {
            let median = figures.rows().get(index).map_or(f64::NAN, |row| row.1);
            row.push(figure(median));
            row.push(ratio(median, figures.system_rope.median()));
            row.push(ratio(median, figures.leader.median()));
        }
        table.row(row);
    }
    for remark in REMARKS {
        table.remark(remark);
    }
    if has_peers {
        PEER_REMARKS.iter().for_each(|remark| table.remark(*remark));
    } else {
        table.remark("the replicated text libraries are left out: their crates were not built");
    }
    table
}
