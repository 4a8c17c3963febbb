//! One shard, one daemon and two UIs: what each of them does, one step at a time.
//!
//! The rules are those of `core/src/log.rs`, `core/src/node/authority/leases.rs` and
//! `core/src/node/client.rs`, written again and much smaller. A stream is a queue; what is in it
//! arrives in order, or is lost with its connection.

use std::collections::VecDeque;

use crate::{Bounds, Flaw};

/// A party: 0 is SERVER, 1 and 2 are the UIs.
pub type Party = u8;

/// SERVER.
pub const SERVER: Party = 0;

/// An entry: what was typed, by its number, and who sequenced it under which fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// Who sequenced it.
    pub author: Party,
    /// Under which fence.
    pub epoch: u8,
    /// What was typed.
    pub typed: u8,
    /// Whose proposal it was, and that party's number of it.
    pub origin: Option<(Party, u8)>,
}

/// Who may append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Who.
    pub holder: Party,
    /// Under which fence.
    pub epoch: u8,
    /// Whether the holder gave it back.
    pub is_released: bool,
}

/// What is published to every UI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The entry of this seq.
    Entry(u8),
    /// The metalog says who leads now, behind which entry.
    Grant(Lease, u8),
    /// The metalog says that SERVER took the shard back behind `head`.
    Reclaim {
        /// The new fence.
        epoch: u8,
        /// The last entry that was accepted.
        head: u8,
    },
    /// The metalog says that the holder is asked for the shard.
    Request(Party),
}

/// What goes to a UI.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Down {
    /// Published.
    Event(Event),
    /// Its entries up to this seq were accepted.
    Acked(u8),
    /// Its append was fenced off.
    Fenced,
    /// Its append does not follow.
    WrongSeq,
    /// The state of this moment.
    Snapshot(Vec<Record>, Lease),
    /// A proposal to decide on: whose, its number, what was typed.
    Propose(Party, u8, u8),
    /// How its own proposal ended.
    Outcome(u8, bool),
}

/// What a UI says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Up {
    /// Entries from this seq on.
    Append(u8, Vec<Record>),
    /// Asks for the shard, at once if so.
    Ask(bool),
    /// Gives the shard back behind this seq.
    Release(u8),
    /// Asks for a snapshot.
    Resync,
    /// Asks for a change: its number, what was typed.
    Propose(u8, u8),
    /// How a routed proposal ended: whose, its number, whether it landed.
    Decided(Party, u8, bool),
}

/// A UI with its mirror and its two streams.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ui {
    /// Whether there is a connection.
    pub is_connected: bool,
    /// Who leads, as far as it knows.
    pub lease: Lease,
    /// Its mirror.
    pub log: Vec<Record>,
    /// Last entry that was shipped.
    pub shipped: u8,
    /// Last entry that was acknowledged.
    pub acked: u8,
    /// Whether it waits for a snapshot.
    pub is_resyncing: bool,
    /// What was typed and overtaken, and is not proposed yet.
    pub tails: Vec<u8>,
    /// What was proposed: its number, what was typed.
    pub proposed: Vec<(u8, u8)>,
    /// Proposals made so far.
    pub numbers: u8,
    /// To the daemon.
    pub up: VecDeque<Up>,
    /// From the daemon.
    pub down: VecDeque<Down>,
}

/// What happened, for the properties; no party sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own that a property asks for"
)]
pub struct Past {
    /// How much was typed.
    pub typed: u8,
    /// What the daemon said is accepted: its seq and the entry.
    pub acked: Vec<(u8, Record)>,
    /// Whether a reader was to be sent an entry that is gone.
    pub is_gap: bool,
    /// Whether an entry of another fence than the current one was accepted.
    pub is_stale: bool,
    /// Whether a tail landed.
    pub is_recovered: bool,
    /// Whether a holder gave the shard back when it was asked.
    pub is_released: bool,
    /// How often each thing still may happen.
    pub left: Bounds,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The authority's log, as if nothing were ever compacted.
    pub log: Vec<Record>,
    /// Entries up to this one are compacted.
    pub base: u8,
    /// Who leads.
    pub lease: Lease,
    /// Who is promised the shard.
    pub transfer: Option<Party>,
    /// Proposals that were routed: whose, its number, what was typed, to whom.
    pub routed: Vec<(Party, u8, u8, Party)>,
    /// Proposals that wait for a leader: whose, its number, what was typed.
    pub waiting: Vec<(Party, u8, u8)>,
    /// The UIs 1 and 2.
    pub uis: [Ui; 2],
    /// What happened.
    pub past: Past,
}

/// The length of a list as the number of its last item.
fn last<T>(list: &[T]) -> u8 {
    u8::try_from(list.len()).expect("the model is small")
}

impl Ui {
    fn new(lease: Lease) -> Self {
        Self {
            is_connected: true,
            lease,
            log: Vec::new(),
            shipped: 0,
            acked: 0,
            is_resyncing: false,
            tails: Vec::new(),
            proposed: Vec::new(),
            numbers: 0,
            up: VecDeque::new(),
            down: VecDeque::new(),
        }
    }

    /// Whether the UI may append.
    pub fn leads(&self, me: Party) -> bool {
        self.lease.holder == me && !self.lease.is_released
    }

    /// Whether what it typed is still on its way to a new leader.
    pub fn is_recovering(&self) -> bool {
        self.is_resyncing || !self.tails.is_empty() || !self.proposed.is_empty()
    }

    fn flush(&mut self) {
        if self.is_resyncing || self.shipped >= last(&self.log) {
            return;
        }
        let fresh = self.log[usize::from(self.shipped)..].to_vec();
        self.say(Up::Append(self.shipped + 1, fresh));
        self.shipped = last(&self.log);
    }

    fn say(&mut self, message: Up) {
        if self.is_connected {
            self.up.push_back(message);
        }
    }

    fn resync(&mut self) {
        if !self.is_resyncing {
            self.is_resyncing = true;
            self.say(Up::Resync);
        }
    }

    /// Another party leads from `head` on: what this UI appended behind it was not accepted.
    fn give_up(&mut self, me: Party, head: u8, flaw: Flaw) {
        // Out of the mirror, so that a second reclaim finds no more of it.
        let behind = self.log.split_off(self.log.len().min(usize::from(head)));
        let own: Vec<u8> = behind
            .iter()
            .filter(|record| record.author == me)
            .map(|record| record.typed)
            .collect();
        if own.is_empty() {
            self.log.extend(behind);
            return;
        }
        if flaw != Flaw::TailDropped {
            self.keep_tail(own);
        }
        self.resync();
    }

    fn keep_tail(&mut self, typed: impl IntoIterator<Item = u8>) {
        for typed in typed {
            if !self.tails.contains(&typed) {
                self.tails.push(typed);
            }
        }
    }

    fn retry(&mut self) {
        if self.is_resyncing || !self.is_connected {
            return;
        }
        for typed in core::mem::take(&mut self.tails) {
            self.numbers += 1;
            self.proposed.push((self.numbers, typed));
            self.say(Up::Propose(self.numbers, typed));
        }
    }
}

impl World {
    /// Returns the world at its start: UI 1 leads, UI 2 watches.
    pub fn new(left: Bounds) -> Self {
        let lease = Lease {
            holder: 1,
            epoch: 1,
            is_released: false,
        };
        Self {
            log: Vec::new(),
            base: 0,
            lease,
            transfer: None,
            routed: Vec::new(),
            waiting: Vec::new(),
            uis: [Ui::new(lease), Ui::new(lease)],
            past: Past {
                left,
                ..Past::default()
            },
        }
    }

    /// A UI.
    pub fn ui(&self, party: Party) -> &Ui {
        &self.uis[usize::from(party) - 1]
    }

    fn ui_mut(&mut self, party: Party) -> &mut Ui {
        &mut self.uis[usize::from(party) - 1]
    }

    fn tell(&mut self, party: Party, message: Down) {
        let ui = self.ui_mut(party);
        if ui.is_connected {
            ui.down.push_back(message);
        }
    }

    fn publish(&mut self, event: Event, except: Option<Party>) {
        for party in [1, 2] {
            if except != Some(party) {
                self.tell(party, Down::Event(event));
            }
        }
    }

    fn grant(&mut self, to: Party) {
        self.transfer = None;
        let lease = Lease {
            holder: to,
            epoch: self.lease.epoch + 1,
            is_released: false,
        };
        self.lease = lease;
        self.publish(Event::Grant(lease, last(&self.log)), None);
        self.route_waiting();
    }

    fn reclaim(&mut self, flaw: Flaw) {
        let (old, rise) = (self.lease.holder, u8::from(flaw != Flaw::EpochKept));
        let epoch = self.lease.epoch + rise;
        self.lease = Lease {
            holder: SERVER,
            epoch,
            is_released: false,
        };
        let head = last(&self.log);
        self.publish(Event::Reclaim { epoch, head }, None);
        self.reroute(old);
    }

    /// Proposals that a party was to decide on go to whoever leads now, or wait.
    fn reroute(&mut self, leader: Party) {
        let gone = self.routed.extract_if(.., |routed| routed.3 == leader);
        let gone = gone.map(|(author, number, typed, _)| (author, number, typed));
        self.waiting.extend(gone);
        self.route_waiting();
    }

    fn route_waiting(&mut self) {
        for (author, number, typed) in core::mem::take(&mut self.waiting) {
            self.route(author, number, typed);
        }
    }

    fn hand_over(&mut self, to: Party, is_steal: bool, flaw: Flaw) {
        let holder = self.lease.holder;
        if holder == to {
            self.transfer = None;
        } else if holder == SERVER {
            self.grant(to);
        } else if is_steal || !self.ui(holder).is_connected {
            self.reclaim(flaw);
            self.grant(to);
        } else {
            self.publish(Event::Request(to), None);
            self.transfer = Some(to);
        }
    }

    /// The deadline of a transfer passes.
    pub fn end_transfer(&mut self, flaw: Flaw) {
        if let Some(to) = self.transfer.take() {
            self.reclaim(flaw);
            self.grant(to);
        }
    }

    /// The grace of a dropped holder ends.
    pub fn end_grace(&mut self, flaw: Flaw) {
        self.reclaim(flaw);
    }

    /// A connection drops with all that is on its way.
    pub fn drop_connection(&mut self, party: Party, flaw: Flaw) {
        let ui = self.ui_mut(party);
        ui.is_connected = false;
        ui.up.clear();
        ui.down.clear();
        // A proposal whose outcome is lost is made again; its number tells whether it landed.
        if self.lease.holder == party {
            self.end_transfer(flaw);
        }
        self.routed.retain(|routed| routed.0 != party);
        self.waiting.retain(|waiting| waiting.0 != party);
        self.reroute(party);
    }

    /// A dropped UI comes back and is sent a snapshot.
    pub fn come_back(&mut self, party: Party) {
        self.ui_mut(party).is_connected = true;
        self.send_snapshot(party);
        let again = self.ui(party).proposed.clone();
        for (number, typed) in again {
            self.ui_mut(party).say(Up::Propose(number, typed));
        }
        self.route_waiting();
    }

    fn send_snapshot(&mut self, party: Party) {
        let snapshot = Down::Snapshot(self.log.clone(), self.lease);
        self.tell(party, snapshot);
    }

    /// A reader is too slow: what was to be published to it is forgotten for a snapshot.
    pub fn forget(&mut self, party: Party) {
        let down = &mut self.ui_mut(party).down;
        down.retain(|message| !matches!(message, Down::Event(_)));
        self.send_snapshot(party);
    }

    /// The last entry that no reader's queue needs.
    pub fn compactable(&self) -> u8 {
        let queued = self.uis.iter().flat_map(|ui| &ui.down);
        let needed = queued.filter_map(|message| match message {
            Down::Event(Event::Entry(seq)) => Some(*seq - 1),
            _ => None,
        });
        needed.min().unwrap_or(last(&self.log))
    }

    /// A UI that leads types.
    pub fn type_key(&mut self, me: Party) {
        self.past.typed += 1;
        let typed = self.past.typed;
        let ui = self.ui_mut(me);
        let epoch = ui.lease.epoch;
        ui.log.push(Record {
            author: me,
            epoch,
            typed,
            origin: None,
        });
    }

    /// SERVER leads and appends of itself.
    pub fn type_as_server(&mut self) {
        self.past.typed += 1;
        self.append_as_server(self.past.typed, None);
    }

    fn append_as_server(&mut self, typed: u8, origin: Option<(Party, u8)>) {
        let epoch = self.lease.epoch;
        self.log.push(Record {
            author: SERVER,
            epoch,
            typed,
            origin,
        });
        self.publish(Event::Entry(last(&self.log)), None);
    }

    /// A UI ships what it appended.
    pub fn ship(&mut self, me: Party) {
        self.ui_mut(me).flush();
    }

    /// A UI asks for the shard.
    pub fn ask(&mut self, me: Party, is_steal: bool) {
        self.ui_mut(me).say(Up::Ask(is_steal));
    }

    /// The daemon takes the next message of a UI.
    pub fn receive(&mut self, from: Party, flaw: Flaw) {
        let Some(message) = self.ui_mut(from).up.pop_front() else {
            return;
        };
        match message {
            Up::Append(first, records) => self.accept(from, first, &records, flaw),
            Up::Ask(is_steal) => self.hand_over(from, is_steal, flaw),
            Up::Release(seq) => self.release(from, seq, flaw),
            Up::Resync => self.send_snapshot(from),
            Up::Propose(number, typed) => self.route(from, number, typed),
            Up::Decided(author, number, is_landed) => {
                let is_it = |routed: &(Party, u8, u8, Party)| {
                    (routed.0, routed.1, routed.3) == (author, number, from)
                };
                if self.routed.iter().any(is_it) {
                    self.routed.retain(|routed| !is_it(routed));
                    self.tell(author, Down::Outcome(number, is_landed));
                }
            }
        }
    }

    /// All of an append, or nothing.
    fn accept(&mut self, from: Party, first: u8, records: &[Record], flaw: Flaw) {
        if flaw == Flaw::AckBeforeAppend {
            self.acknowledge(from, first, records);
        }
        let mut fresh = Vec::new();
        for (seq, record) in (first..).zip(records) {
            let here = self.log.get(usize::from(seq) - 1);
            if seq > self.base && here == Some(record) {
                continue;
            }
            let is_current = record.epoch == self.lease.epoch || flaw == Flaw::EpochNotCompared;
            let is_held = self.lease.holder == from && !self.lease.is_released;
            if !is_current || !is_held {
                return self.tell(from, Down::Fenced);
            }
            if seq != last(&self.log) + last(&fresh) + 1 {
                return self.tell(from, Down::WrongSeq);
            }
            fresh.push(*record);
        }
        for record in fresh {
            self.past.is_stale |= record.epoch != self.lease.epoch;
            self.log.push(record);
            self.publish(Event::Entry(last(&self.log)), Some(from));
        }
        if flaw != Flaw::AckBeforeAppend {
            self.acknowledge(from, first, records);
        }
    }

    fn release(&mut self, from: Party, seq: u8, flaw: Flaw) {
        if self.lease.holder != from || self.lease.is_released || seq != last(&self.log) {
            return;
        }
        self.lease.is_released = true;
        self.past.is_released = true;
        match self.transfer {
            Some(to) if to != from => self.grant(to),
            _ => self.reclaim(flaw),
        }
        self.reroute(from);
    }

    fn route(&mut self, author: Party, number: u8, typed: u8) {
        let origin = Some((author, number));
        let leader = self.lease.holder;
        if self.log.iter().any(|record| record.origin == origin) {
            self.tell(author, Down::Outcome(number, true));
        } else if leader == SERVER {
            self.append_as_server(typed, origin);
            self.tell(author, Down::Outcome(number, true));
        } else if self.ui(leader).is_connected {
            self.routed.push((author, number, typed, leader));
            self.tell(leader, Down::Propose(author, number, typed));
        } else {
            self.waiting.push((author, number, typed));
        }
    }

    /// A UI takes the next message of the daemon.
    pub fn deliver(&mut self, me: Party, flaw: Flaw) {
        let Some(message) = self.ui_mut(me).down.pop_front() else {
            return;
        };
        match message {
            Down::Event(event) => self.follow(me, event, flaw),
            Down::Acked(seq) => {
                let ui = self.ui_mut(me);
                ui.acked = ui.acked.max(seq);
            }
            Down::Fenced => {
                let ui = self.ui_mut(me);
                if ui.leads(me) {
                    ui.shipped = ui.acked;
                }
                ui.flush();
            }
            Down::WrongSeq => self.ui_mut(me).resync(),
            Down::Snapshot(log, lease) => self.ui_mut(me).take_snapshot(me, log, lease, flaw),
            Down::Propose(author, number, typed) => {
                self.ui_mut(me).decide(me, (author, number), typed);
            }
            Down::Outcome(number, is_landed) => self.take_outcome(me, number, is_landed),
        }
    }

    /// The daemon says that the entries of an append are accepted.
    fn acknowledge(&mut self, to: Party, first: u8, records: &[Record]) {
        self.past
            .acked
            .extend((first..).zip(records.iter().copied()));
        self.past.acked.sort_unstable();
        self.past.acked.dedup();
        self.tell(to, Down::Acked(first - 1 + last(records)));
    }

    fn take_outcome(&mut self, me: Party, number: u8, is_landed: bool) {
        let ui = self.ui_mut(me);
        let Some(at) = ui.proposed.iter().position(|(other, _)| *other == number) else {
            return;
        };
        let (_, typed) = ui.proposed.remove(at);
        if is_landed {
            self.past.is_recovered = true;
        } else {
            ui.tails.push(typed);
        }
        self.ui_mut(me).retry();
    }

    fn follow(&mut self, me: Party, event: Event, flaw: Flaw) {
        if let Event::Entry(seq) = event {
            self.past.is_gap |= seq <= self.base;
            let record = self.log[usize::from(seq) - 1];
            let ui = self.ui_mut(me);
            let next = last(&ui.log) + 1;
            if !ui.is_resyncing && seq == next {
                ui.log.push(record);
                ui.shipped = ui.shipped.max(seq);
                ui.retry();
            } else if !ui.is_resyncing && seq > next {
                ui.resync();
            }
            return;
        }
        let ui = self.ui_mut(me);
        match event {
            Event::Entry(_) => {}
            Event::Grant(lease, head) => {
                ui.lease = lease;
                if lease.holder == me {
                    ui.shipped = last(&ui.log);
                    ui.acked = ui.shipped;
                } else if flaw != Flaw::TailAtReclaimAlone {
                    ui.give_up(me, head, flaw);
                }
            }
            Event::Reclaim { epoch, head } => {
                ui.lease = Lease {
                    holder: SERVER,
                    epoch,
                    is_released: false,
                };
                ui.give_up(me, head, flaw);
            }
            Event::Request(by) if by != me && ui.leads(me) => {
                ui.flush();
                if !ui.is_resyncing {
                    ui.lease.is_released = true;
                    ui.say(Up::Release(last(&ui.log)));
                }
            }
            Event::Request(_) => {}
        }
        ui.retry();
    }
}

impl Ui {
    /// Takes the state of another moment: what is its own and not in there goes again where the
    /// lease is the same, and is a tail where it is not.
    fn take_snapshot(&mut self, me: Party, log: Vec<Record>, lease: Lease, flaw: Flaw) {
        let len = log.len();
        let is_mine = lease.holder == me && !lease.is_released;
        let own = |record: &&Record| record.author == me && !log.contains(record);
        let again: Vec<Record> = if flaw == Flaw::TailBySeqAlone {
            self.log.iter().skip(len).filter(own).copied().collect()
        } else {
            self.log.iter().filter(own).copied().collect()
        };
        let was_resyncing = core::mem::take(&mut self.is_resyncing);
        let is_same = is_mine && again.iter().all(|record| record.epoch == lease.epoch);
        let is_at_end = self.log.iter().take(len).eq(log.iter());
        self.log = log;
        if was_resyncing || !is_same {
            self.shipped = last(&self.log);
        } else {
            self.shipped = self.shipped.max(last(&self.log));
        }
        self.acked = last(&self.log);
        if is_same && is_at_end {
            self.log.extend(again);
            // What was on its way when the connection ended did not arrive.
            self.shipped = self.acked;
        } else {
            self.keep_tail(again.iter().map(|record| record.typed));
            self.shipped = last(&self.log);
        }
        self.lease = lease;
        self.retry();
        self.flush();
    }

    fn decide(&mut self, me: Party, (author, number): (Party, u8), typed: u8) {
        let origin = Some((author, number));
        let is_ready = self.leads(me) && !self.is_resyncing;
        if is_ready && !self.log.iter().any(|record| record.origin == origin) {
            let epoch = self.lease.epoch;
            self.log.push(Record {
                author: me,
                epoch,
                typed,
                origin,
            });
            self.flush();
        }
        self.say(Up::Decided(author, number, is_ready));
    }
}
