//! What must not grow with a session: a clone with its text, an edit with the annotations of the
//! text, an entry with the number of shards.
//!
//! An entry goes all the way: a key of a UI that leads, its append to the daemon, which fences and
//! publishes it, and a second UI that follows; with tags, acknowledgements and hash marks.

use std::collections::VecDeque;
use std::hint::black_box;

use apex_core::edit::Splice;
use apex_core::entry::{Annotation, ApplyLimits, BufferKind, BufferOp};
use apex_core::ids::{
    AttachmentId, BufferId, ConnectionId, GroupId, Incarnation, Millis, Secret, SessionId, ViewId,
};
use apex_core::limits;
use apex_core::message::{ClientMessage, ServerMessage, SessionName, Takeover};
use apex_core::node::Node;
use apex_core::node::authority::{Authority, Genesis, Output};
use apex_core::node::client::{Client, ui_hello};
use apex_core::node::windows::Placement;
use apex_core::state::State;
use apex_core::text::Span;
use uuid::Uuid;

use crate::BenchError;
use crate::session;
use crate::snapshot;
use crate::stats::{Samples, timed};
use crate::table::{Table, figure, ratio};

/// Buffers of the session that is cloned.
const BUFFER_COUNT: usize = 1000;
/// Numbers of shards; the first is what the others are measured beside.
const SHARD_COUNTS: [usize; 4] = [10, 100, 1000, 10_000];
/// Numbers of annotations; the first is what the other is measured beside.
const ANNOTATION_COUNTS: [usize; 2] = [0, limits::ANNOTATION_COUNT_MAX];

/// An authority with a UI that leads and one that watches, and nothing between them.
#[derive(Debug)]
pub struct Session {
    authority: Authority,
    /// The leader first.
    clients: [Client; 2],
    now: Millis,
    /// Where the leader types.
    view: ViewId,
    group: GroupId,
}

impl Session {
    /// Returns a session of about `shards` shards.
    ///
    /// # Errors
    /// The core refuses it.
    pub fn new(shards: usize) -> Result<Self, BenchError> {
        let genesis = Genesis {
            session: SessionId(Uuid::from_u128(1)),
            incarnation: Incarnation(Uuid::from_u128(2)),
            label: "bench".into(),
            limits: ApplyLimits::default(),
        };
        let mut authority = Authority::new(genesis);
        let window = authority.node_mut().init_session("/bench/", "")?;
        let hello = |takeover| {
            let name = SessionName::Label("bench".into());
            Client::new(ui_hello(name, "bench".into(), takeover))
        };
        let mut session = Self {
            authority,
            clients: [hello(Takeover::Transfer), hello(Takeover::Watch)],
            now: Millis::new(1),
            view: ViewId::Body(window),
            group: GroupId::new(0),
        };
        for index in 0..2 {
            let hello = session.clients[index].hello();
            session.say(index, hello);
        }
        // Each file has a text, a tag and a window.
        while session.shard_count() + 3 <= shards {
            let name = format!("/bench/{}", session.shard_count());
            session.open(&name)?;
        }
        let node = session.leader()?;
        session.group = node.new_group();
        Ok(session)
    }

    /// Returns how many shards there are.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        usize::try_from(self.authority.node().state().shard_count()).unwrap_or(usize::MAX)
    }

    fn leader(&mut self) -> Result<&mut Node, BenchError> {
        let node = self.clients[0].node_mut();
        node.ok_or_else(|| BenchError::Wrong("no snapshot came".into()))
    }

    fn open(&mut self, name: &str) -> Result<(), BenchError> {
        let node = self.leader()?;
        let buffer = node.new_buffer(BufferKind::File, name)?;
        let window = node.new_window(buffer, Placement::Active)?;
        self.view = ViewId::Body(window);
        self.flush();
        Ok(())
    }

    /// Types keys, each of which goes all the way before the next; then the session is quiet.
    ///
    /// # Errors
    /// The core refuses a key.
    pub fn type_keys(&mut self, count: usize) -> Result<(), BenchError> {
        let (view, group) = (self.view, self.group);
        for _ in 0..count {
            let node = self.leader()?;
            node.type_text(view, "x", group)?;
            node.refresh_tags()?;
            self.flush();
        }
        self.now = self.now.after(limits::MARK_QUIET_MS);
        let mut out = Vec::new();
        self.authority.tick(self.now, &mut out);
        self.deliver(out.into());
        Ok(())
    }

    fn flush(&mut self) {
        let mut messages = Vec::new();
        self.clients[0].flush(&mut messages);
        for message in messages {
            self.say(0, message);
        }
    }

    fn say(&mut self, index: usize, message: ClientMessage) {
        let mut out = Vec::new();
        self.hear(index, message, &mut out);
        self.deliver(out.into());
    }

    fn hear(&mut self, index: usize, message: ClientMessage, out: &mut Vec<Output>) {
        let connection = ConnectionId::new(index as u64);
        let secret = Secret(Uuid::from_u128(index as u128));
        let from = (connection, secret);
        self.authority.receive(self.now, from, message, out);
    }

    /// Carries out what the authority wants, and what that leads to.
    fn deliver(&mut self, mut outputs: VecDeque<Output>) {
        while let Some(output) = outputs.pop_front() {
            let mut out = Vec::new();
            match output {
                Output::Send(to, message) => self.tell(to, message, &mut out),
                Output::Publish { except, records } => {
                    let entries = records.iter().map(|r| (r.shard, r.bytes.clone()));
                    let message = ServerMessage::Entries(entries.collect());
                    self.tell_all(except, &message, &mut out);
                }
                Output::Welcome(to, welcome, snapshot) => {
                    self.tell(to, ServerMessage::Welcome(welcome), &mut out);
                    for piece in snapshot.into_iter().flatten() {
                        self.tell(to, ServerMessage::Snapshot(piece), &mut out);
                    }
                }
                Output::Marks { except, marks } => {
                    self.tell_all(except, &ServerMessage::HashMarks(marks), &mut out);
                }
                _ => {}
            }
            outputs.extend(out);
        }
    }

    fn tell_all(
        &mut self,
        except: Option<ConnectionId>,
        message: &ServerMessage,
        out: &mut Vec<Output>,
    ) {
        let followers: Vec<_> = self.authority.followers().collect();
        for to in followers.into_iter().filter(|to| Some(*to) != except) {
            self.tell(to, message.clone(), out);
        }
    }

    fn tell(&mut self, to: ConnectionId, message: ServerMessage, out: &mut Vec<Output>) {
        let index = usize::from(to != ConnectionId::new(0));
        let mut said = Vec::new();
        black_box(self.clients[index].receive(message, &mut said));
        for message in said {
            self.hear(index, message, out);
        }
    }

    /// Checks that both UIs have what the daemon has.
    ///
    /// # Errors
    /// They have not.
    pub fn check(&self) -> Result<(), BenchError> {
        let truth = self.authority.node();
        for client in &self.clients {
            let node = client.node();
            let is_same = node.is_some_and(|node| {
                node.log().marks() == truth.log().marks()
                    && node.state().hash() == truth.state().hash()
            });
            if !is_same {
                return Err(BenchError::Wrong("replicas differ".into()));
            }
        }
        Ok(())
    }
}

/// A text with annotations that SERVER edits.
#[derive(Debug)]
pub struct Annotated {
    node: Node,
    buffer: BufferId,
    dice: u64,
}

impl Annotated {
    /// Returns a text of `len` bytes with `count` annotations.
    ///
    /// # Errors
    /// The text is not there, or the core refuses it.
    pub fn new(len: usize, count: usize) -> Result<Self, BenchError> {
        let mut node = Node::authority();
        let buffer = node.new_buffer(BufferKind::File, "/bench")?;
        for text in session::pieces(&session::text(len)?) {
            let text = text.into();
            node.append_buffer(buffer, BufferOp::Load { text })?;
        }
        let text_len = node.state().buffer(buffer).map_or(0, |b| b.text().len());
        let step = text_len / (count as u64 + 1);
        let annotation = |number: u64| Annotation {
            at: Span::new(number * step, number * step + step / 2),
            style: "warning".into(),
            severity: 3,
            message: String::new(),
        };
        if count > 0 {
            let spans = (0..count as u64).map(annotation).collect();
            let annotate = BufferOp::Annotate {
                owner: AttachmentId::new(1),
                layer: "lint".into(),
                spans,
            };
            node.append_buffer(buffer, annotate)?;
        }
        let dice = 1;
        Ok(Self { node, buffer, dice })
    }

    /// Makes edits of one code point all over the text.
    ///
    /// # Errors
    /// The core refuses one.
    pub fn edit(&mut self, count: usize) -> Result<(), BenchError> {
        for number in 0..count {
            let buffer = self.node.state().buffer(self.buffer);
            let len = buffer.map_or(0, |buffer| buffer.text().len());
            self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005);
            self.dice = self.dice.wrapping_add(1_442_695_040_888_963_407);
            let q = (self.dice >> 20) % len.max(1);
            // As many go as come, so that the text keeps its length.
            let span = Span::new(q, q + (number as u64 % 2));
            let text = if number % 2 == 0 { "x" } else { "" };
            let edit = BufferOp::Edit {
                splices: Splice::new(span, text).into(),
                group: Some(GroupId::new(self.dice)),
                dot: None,
            };
            self.node.append_buffer(self.buffer, edit)?;
        }
        Ok(())
    }
}

/// Nanoseconds of each.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// A clone and its end.
    pub clone: Samples,
    /// An edit, by `ANNOTATION_COUNTS`.
    pub edit: [Samples; ANNOTATION_COUNTS.len()],
    /// An entry, by `SHARD_COUNTS`.
    pub entry: [Samples; SHARD_COUNTS.len()],
}

/// Clones a state many times, and adds what one clone took.
fn clone(state: &State, samples: &mut Samples) {
    const COUNT: usize = 1000;
    let ((), ns) = timed(|| {
        for _ in 0..COUNT {
            drop(black_box(black_box(state).clone()));
        }
    });
    samples.push(ns / COUNT as f64);
}

/// Measures everything.
///
/// # Errors
/// A result is wrong.
pub fn run(rounds: usize) -> Result<Table, BenchError> {
    const KEY_COUNT: usize = 2000;
    let mut figures = Figures::default();
    let state = snapshot::state(100_000_000, BUFFER_COUNT)?;
    (0..rounds).for_each(|_| clone(&state, &mut figures.clone));
    drop(state);
    let mut texts = Vec::new();
    for count in ANNOTATION_COUNTS {
        texts.push(Annotated::new(5_000_000, count)?);
    }
    let mut sessions = Vec::new();
    for count in SHARD_COUNTS {
        sessions.push(Session::new(count)?);
    }
    for _ in 0..rounds {
        for (text, samples) in texts.iter_mut().zip(&mut figures.edit) {
            let (edited, ns) = timed(|| text.edit(KEY_COUNT));
            edited?;
            samples.push(ns / KEY_COUNT as f64);
        }
        for (session, samples) in sessions.iter_mut().zip(&mut figures.entry) {
            let (typed, ns) = timed(|| session.type_keys(KEY_COUNT));
            typed?;
            samples.push(ns / KEY_COUNT as f64);
        }
    }
    for session in &sessions {
        session.check()?;
    }
    Ok(table(rounds, &figures))
}

fn table(rounds: usize, figures: &Figures) -> Table {
    let title = format!("scale: ns, medians of {rounds} rounds");
    let mut table = Table::new(title, &["", "ns", "/ first"]);
    let name = format!("clone of 100 MB in {BUFFER_COUNT} buffers");
    table.row([name, figure(figures.clone.median()), String::new()]);
    let edits = ANNOTATION_COUNTS.map(|count| format!("edit of 5 MB, {count} annotations"));
    let entries = SHARD_COUNTS.map(|count| format!("entry all the way, {count} shards"));
    let groups = [
        (&edits[..], &figures.edit[..]),
        (&entries[..], &figures.entry[..]),
    ];
    for (names, all) in groups {
        let first = all.first().map_or(f64::NAN, Samples::median);
        for (name, samples) in names.iter().zip(all) {
            let ns = samples.median();
            table.row([name.clone(), figure(ns), ratio(ns, first)]);
        }
    }
    table.remark(
        "goals: a clone under 50,000 ns; an entry costs the same with any number of shards",
    );
    table.remark(
        "all the way: leader, daemon and a follower, with tags, acknowledgements and marks",
    );
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_bench_types_into_one_of_many_windows() {
        let mut session = Session::new(40).unwrap();
        assert!((38..=40).contains(&session.shard_count()));
        session.type_keys(300).unwrap();
        session.check().unwrap();
        let node = session.authority.node();
        let text = node.buffer_of(session.view).unwrap();
        assert_eq!(node.state().buffer(text).unwrap().text().len(), 300);
    }

    #[test]
    fn the_scale_bench_edits_all_over_an_annotated_text() {
        let mut text = Annotated::new(20_000, 50).unwrap();
        let before = text.node.state().hash();
        text.edit(20).unwrap();
        assert_ne!(text.node.state().hash(), before);
        let buffer = text.node.state().buffer(text.buffer).unwrap();
        assert_eq!(buffer.layers().next().unwrap().2.count(), 50);
    }
}
