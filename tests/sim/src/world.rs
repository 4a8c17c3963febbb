//! A world: the daemon, its parties and the streams between them, in virtual time.
//!
//! One thread, one heap of events ordered by time and number. The parties run the real nodes; all
//! that they say to each other goes through its bytes.

mod daemon;
mod events;
mod faults;
mod host;
mod links;
mod returning;
mod tooling;
mod users;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use apex_core::entry::{ApplyLimits, AttachmentKind, BufferKind};
use apex_core::ids::{AttachmentId, ConnectionId, Incarnation, SessionId};
use apex_core::message::Takeover;
use apex_core::node::authority::{Authority, Genesis, Output};
use apex_core::node::client::hashes_of;

use self::host::Host;
use crate::clock::Clock;
use crate::oracle::{Failure, Oracles, ends, hold};
use crate::plan::{Kind, Plan};
use crate::process::Process;
use crate::random::Random;
use crate::stream::Link;
use crate::trace::Trace;

/// How long a world may go on after faults have stopped, in microseconds: longer than any grace,
/// lease and deadline one after the other.
const QUIET_US_MAX: u64 = 600_000_000;
/// How many events a world may have: more is a loop.
const EVENT_COUNT_MAX: u64 = 400_000;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A decision of the plan.
    Step(usize),
    /// Bytes arrive at the daemon.
    Up(ConnectionId),
    /// Bytes arrive at a party.
    Down(ConnectionId),
    /// The daemon hears that a connection ended.
    UpEnd(ConnectionId),
    /// A party hears that its connection ended.
    DownEnd(ConnectionId),
    /// A process ships what it has made.
    Flush(u64),
    /// A tool says again what was answered with `retry`.
    Again(u64),
    /// A process begins in a slot.
    Start(usize, bool),
    /// A deadline of the daemon.
    Tick,
    /// A process comes back on a new connection.
    Back(u64),
    /// A connection breaks.
    Cut(ConnectionId),
    /// The host has done something.
    Job(u64),
    /// Faults stop.
    Calm,
}

/// The world of one seed.
#[derive(Debug)]
pub(crate) struct World {
    plan: Plan,
    now_us: u64,
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    last_event: u64,
    trace: Trace,
    oracles: Oracles,
    /// How often each kind came to pass.
    fired: BTreeMap<Kind, u64>,
    is_calm: bool,
    authority: Authority,
    outputs: VecDeque<Output>,
    is_delivering: bool,
    clock: Clock,
    tick_us: Option<u64>,
    daemon_frozen_us: u64,
    host: Host,
    links: BTreeMap<ConnectionId, Link>,
    last_link: u64,
    processes: BTreeMap<u64, Process>,
    last_process: u64,
    /// Which process is in each slot: first the screens, then the tools.
    slots: Vec<Option<u64>>,
    /// The screen that was the last to ask for the session.
    last_wish: Option<u64>,
    refused_us: u64,
    outlet_len_max: usize,
}

/// How a world ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) failure: Option<Failure>,
    pub(crate) fired: BTreeMap<Kind, u64>,
    pub(crate) trace: [u8; 32],
    pub(crate) words: Vec<String>,
    pub(crate) event_count: u64,
    pub(crate) simulated_us: u64,
    pub(crate) step_count: usize,
}

impl World {
    pub(crate) fn new(plan: Plan, is_telling: bool) -> Self {
        let mut random = Random::of(plan.seed, 2);
        let uuid = |random: &mut Random| {
            let bits = u128::from(random.next()) << 64 | u128::from(random.next());
            uuid::Uuid::from_u128(bits)
        };
        let genesis = Genesis {
            session: SessionId(uuid(&mut random)),
            incarnation: Incarnation(uuid(&mut random)),
            label: String::from("main"),
            limits: ApplyLimits::default(),
        };
        let rate = if plan.is_on(Kind::Drift) {
            random.range(700, 1400)
        } else {
            1000
        };
        let slots = vec![None; plan.ui_count + plan.tool_count];
        Self {
            now_us: 0,
            heap: BinaryHeap::new(),
            last_event: 0,
            trace: Trace::new(is_telling),
            oracles: Oracles::default(),
            fired: BTreeMap::from([(Kind::Drift, u64::from(rate != 1000))]),
            is_calm: false,
            authority: Authority::new(genesis),
            outputs: VecDeque::new(),
            is_delivering: false,
            clock: Clock::new(rate),
            tick_us: None,
            daemon_frozen_us: 0,
            host: Host::new(&mut random),
            links: BTreeMap::new(),
            last_link: 0,
            processes: BTreeMap::new(),
            last_process: 0,
            slots,
            last_wish: None,
            refused_us: 0,
            outlet_len_max: random.range(1_500, 6_000).try_into().unwrap_or(3_000),
            plan,
        }
    }

    /// Runs the world to its end.
    pub(crate) fn run(mut self) -> End {
        self.begin();
        let mut found = self.go_on(u64::MAX);
        if found.is_ok() && self.oracles.failure.is_none() {
            found = self.audience();
        }
        self.oracles.take(found);
        End {
            failure: self.oracles.failure.take(),
            fired: self.fired,
            trace: self.trace.hash(),
            event_count: self.trace.count(),
            words: self.trace.take_words(),
            simulated_us: self.now_us,
            step_count: self.plan.steps.len(),
        }
    }

    fn begin(&mut self) {
        // The first entries of an empty session apply.
        let laid_out = self.authority.node_mut().init_session("/w/", "f0\nf1\n");
        let is_laid_out = laid_out.is_ok();
        self.oracles.take(hold(is_laid_out, "a session begins", || {
            format!("{laid_out:?}")
        }));
        self.settle();
        for slot in 0..self.slots.len() {
            self.push(slot as u64 * 700, Event::Start(slot, false));
        }
        for index in 0..self.plan.steps.len() {
            self.push(self.plan.steps[index].1.at_us, Event::Step(index));
        }
        self.push(self.plan.end_us, Event::Calm);
    }

    fn push(&mut self, at_us: u64, event: Event) {
        self.last_event += 1;
        self.heap.push(Reverse((at_us, self.last_event, event)));
    }

    fn fire(&mut self, kind: Kind) {
        *self.fired.entry(kind).or_default() += 1;
    }

    /// Lets things happen until nothing is under way.
    fn go_on(&mut self, until_us: u64) -> Result<(), Failure> {
        const QUIET: &str = "what was begun ends (I26, I29)";
        while let Some(Reverse((at_us, _, event))) = self.heap.pop() {
            self.now_us = self.now_us.max(at_us);
            self.happen(event);
            if self.oracles.failure.is_some() {
                return Ok(());
            }
            let limit_us = self.plan.end_us + QUIET_US_MAX;
            hold(self.now_us < limit_us.min(until_us), QUIET, || {
                format!("{event:?} is still to come after all that time")
            })?;
            hold(self.trace.count() < EVENT_COUNT_MAX, QUIET, || {
                format!("{event:?}, and no end of events")
            })?;
        }
        Ok(())
    }

    /// Returns the daemon's texts but tags, by name.
    fn texts(&self) -> Vec<(String, String)> {
        let buffers = self.authority.node().state().buffers();
        let texts = buffers.filter(|(_, buffer)| buffer.kind() != BufferKind::Tag);
        texts
            .map(|(id, buffer)| (format!("{id} {}", buffer.name()), buffer.text().to_string()))
            .collect()
    }

    /// Nothing is under way: a last watcher joins, and all is looked at.
    fn audience(&mut self) -> Result<(), Failure> {
        let slot = self.slots.len();
        self.slots.push(None);
        self.start_as(slot, AttachmentKind::Ui, Takeover::Watch);
        self.plan.end_us = self.now_us;
        self.go_on(u64::MAX)?;
        if self.oracles.failure.is_some() {
            return Ok(());
        }
        self.oracles.told.end()?;
        self.check_parties()?;
        let texts = self.texts();
        self.oracles.typed.end(&texts)?;
        ends::whole(self.authority.node().state())
    }

    fn check_parties(&self) -> Result<(), Failure> {
        const LEADS: &str = "who asks for the session gets it (I27)";
        const OWED: &str = "nobody waits for ever (I28, I29)";
        let truth = hashes_of(self.authority.node());
        let mut present = BTreeSet::<AttachmentId>::new();
        for process in self.processes.values() {
            let Some(node) = process.client.node() else {
                hold(false, OWED, || {
                    format!("process {} has no session", process.id)
                })?;
                continue;
            };
            present.insert(node.attachment());
            ends::same(process.id, &hashes_of(node), &truth)?;
            hold(process.owes_nothing(), OWED, || {
                format!(
                    "process {}: {} wait, {:?} sent, recovering: {}, {} unacknowledged, {} asked",
                    process.id,
                    process.waiting.len(),
                    process.sent,
                    process.client.is_recovering(),
                    process.client.unacked_count(),
                    process.requests.len() + process.asked.len(),
                )
            })?;
        }
        let wish = self.last_wish.and_then(|id| self.processes.get(&id));
        hold(
            wish.is_none_or(|process| process.client.is_leading()),
            LEADS,
            || format!("process {:?} asked for the session last", self.last_wish),
        )?;
        for mark in &truth {
            let head = self.oracles.logs.head(mark.shard);
            hold(head == mark.seq.raw(), OWED, || {
                format!("{} {} is not published", mark.shard, mark.seq)
            })?;
        }
        ends::led(&self.oracles.logs, &present)
    }
}
