//! A connection: two streams of bytes, and what the daemon keeps for a reader who is slow.
//!
//! Inside a stream nothing is lost, doubled or swapped. It may be late, stand still, or end at any
//! byte; then what was behind that byte never arrives.

use std::collections::{BTreeSet, VecDeque};

use apex_core::entry::AttachmentKind;
use apex_core::ids::ConnectionId;
use apex_core::wire::Frames;

use crate::plan::{Kind, Plan};
use crate::random::Random;

/// Bytes that a stream carries at a time: what a socket holds.
const SOCKET_LEN: usize = 8 << 10;
/// How many bytes of a frame arrive one by one at most.
const SINGLE_COUNT_MAX: usize = 24;

/// One direction.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// What is under way, in order.
    flying: VecDeque<Vec<u8>>,
    len: usize,
    last_us: u64,
    stalled_us: u64,
    /// Whether what is sent still arrives.
    pub(crate) is_carrying: bool,
    random: Random,
    /// How bytes are divided, if they do not arrive as they were sent.
    splits: Option<Random>,
    /// How many pieces of what is under way wait to arrive with the one behind them.
    held_count: usize,
}

impl Pipe {
    const fn new(random: Random, splits: Option<Random>) -> Self {
        Self {
            flying: VecDeque::new(),
            len: 0,
            last_us: 0,
            stalled_us: 0,
            is_carrying: true,
            random,
            splits,
            held_count: 0,
        }
    }

    /// Sends bytes. Returns when each piece of them arrives, if they do.
    pub(crate) fn send(&mut self, now_us: u64, bytes: &[u8], is_late: bool) -> Vec<u64> {
        if !self.is_carrying {
            return Vec::new();
        }
        let delay = if !is_late {
            50
        } else if self.random.percent(5) {
            self.random.range(1_000, 400_000)
        } else {
            self.random.range(20, 20_000)
        };
        let mut at_us = (now_us + delay).max(self.last_us).max(self.stalled_us);
        self.len += bytes.len();
        let mut times = Vec::new();
        let mut from = 0;
        for to in self.ends_of_pieces(bytes.len()) {
            self.flying.push_back(bytes[from..to].to_vec());
            times.push(at_us);
            self.last_us = at_us;
            from = to;
            at_us += self.splits.as_mut().map_or(0, |splits| splits.below(300));
        }
        times
    }

    /// Returns where each piece of a frame ends: at its end only, if nothing is split.
    fn ends_of_pieces(&mut self, len: usize) -> BTreeSet<usize> {
        let mut ends = BTreeSet::new();
        if let Some(splits) = &mut self.splits {
            if splits.percent(5) {
                ends.extend(1..len.min(SINGLE_COUNT_MAX));
            } else if splits.percent(50) {
                let count = splits.range(1, 4);
                ends.extend((0..count).map(|_| 1 + splits.index(len.max(1))));
            }
        }
        ends.retain(|end| *end < len);
        ends.insert(len);
        ends
    }

    /// Takes what arrives now: nothing, if it is to arrive with what is behind it.
    pub(crate) fn arrive(&mut self) -> Option<Vec<u8>> {
        let is_last = self.flying.len() <= self.held_count + 1;
        if let Some(splits) = &mut self.splits
            && !is_last
            && splits.percent(40)
        {
            self.held_count += 1;
            return None;
        }
        let count = (std::mem::take(&mut self.held_count) + 1).min(self.flying.len());
        if count == 0 {
            return None;
        }
        let bytes: Vec<u8> = self.flying.drain(..count).flatten().collect();
        self.len -= bytes.len();
        Some(bytes)
    }

    pub(crate) fn stall(&mut self, until_us: u64) {
        self.stalled_us = self.stalled_us.max(until_us);
    }

    pub(crate) const fn stalled_us(&self) -> u64 {
        self.stalled_us
    }

    /// Ends the stream at a byte of what is under way. Returns when its end arrives.
    pub(crate) fn cut(&mut self, now_us: u64, random: &mut Random) -> u64 {
        self.is_carrying = false;
        let mut kept = random.index(self.len + 1);
        for bytes in &mut self.flying {
            let len = bytes.len().min(kept);
            bytes.truncate(len);
            kept -= len;
        }
        self.len = self.flying.iter().map(Vec::len).sum();
        self.last_us.max(now_us + 50).max(self.stalled_us)
    }

    /// Ends the stream behind what is under way. Returns when its end arrives.
    pub(crate) fn end(&mut self, now_us: u64) -> u64 {
        self.is_carrying = false;
        self.last_us.max(now_us + 50).max(self.stalled_us)
    }

    const fn has_room(&self) -> bool {
        self.len < SOCKET_LEN
    }
}

/// Whether a reader has what was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Current,
    /// What was kept for it was forgotten; it is to get a snapshot when it has read the rest.
    Behind,
    Asked,
}

/// What the daemon keeps for one reader, bounded in bytes.
#[derive(Debug)]
pub(crate) struct Outlet {
    frames: VecDeque<(Vec<u8>, bool)>,
    entries_len: usize,
    len_max: usize,
    standing: Standing,
    pub(crate) is_closing: bool,
}

impl Outlet {
    const fn new(len_max: usize) -> Self {
        Self {
            frames: VecDeque::new(),
            entries_len: 0,
            len_max,
            standing: Standing::Current,
            is_closing: false,
        }
    }

    /// Keeps a frame. Returns whether entries were forgotten, because there were too many.
    pub(crate) fn push(&mut self, bytes: Vec<u8>, is_entries: bool) -> bool {
        if self.is_closing || (is_entries && self.standing != Standing::Current) {
            return false;
        }
        if is_entries && self.entries_len + bytes.len() > self.len_max {
            self.frames.retain(|(_, is_entries)| !is_entries);
            self.entries_len = 0;
            self.standing = Standing::Behind;
            return true;
        }
        self.entries_len += if is_entries { bytes.len() } else { 0 };
        self.frames.push_back((bytes, is_entries));
        false
    }

    /// Says that a snapshot follows.
    pub(crate) const fn restart(&mut self) {
        self.standing = Standing::Current;
    }
}

/// What the daemon's writer does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Bytes left; they arrive then, piece by piece, if the stream carries any.
    Sent(Vec<u64>),
    /// There is room for a snapshot.
    AskSnapshot,
    /// All is written and the connection is to be closed.
    Close,
    /// Nothing, or no room.
    Wait,
}

/// A connection of a party.
#[derive(Debug)]
pub(crate) struct Link {
    /// Which process has it.
    pub(crate) process: u64,
    /// What that is.
    pub(crate) kind: AttachmentKind,
    /// From the party to the daemon.
    pub(crate) up: Pipe,
    /// From the daemon to the party.
    pub(crate) down: Pipe,
    pub(crate) daemon_frames: Frames,
    pub(crate) client_frames: Frames,
    pub(crate) outlet: Outlet,
    /// Whether it has had a snapshot: entries before it are in that.
    pub(crate) is_welcomed: bool,
    /// Whether the daemon holds it to be open.
    pub(crate) is_daemon_open: bool,
    /// Whether the party holds it to be open.
    pub(crate) is_client_open: bool,
}

impl Link {
    pub(crate) fn new(id: ConnectionId, process: u64, plan: &Plan, len_max: usize) -> Self {
        let part = id.raw() * 2 + 1000;
        let pipe = |part: u64| {
            let splits = plan.is_on(Kind::Split);
            let splits = splits.then(|| Random::of(plan.seed, part + (1 << 40)));
            Pipe::new(Random::of(plan.seed, part), splits)
        };
        Self {
            process,
            kind: AttachmentKind::Ui,
            up: pipe(part),
            down: pipe(part + 1),
            daemon_frames: Frames::new(Vec::new()),
            client_frames: Frames::new(Vec::new()),
            outlet: Outlet::new(len_max),
            is_welcomed: false,
            is_daemon_open: true,
            is_client_open: true,
        }
    }

    /// Takes one step of the daemon's writer.
    pub(crate) fn write(&mut self, now_us: u64, is_late: bool) -> Next {
        if !self.is_daemon_open {
            return Next::Wait;
        }
        if self.outlet.frames.is_empty() {
            if self.outlet.is_closing {
                return Next::Close;
            }
            if self.outlet.standing == Standing::Behind {
                self.outlet.standing = Standing::Asked;
                return Next::AskSnapshot;
            }
            return Next::Wait;
        }
        if !self.down.has_room() && self.down.is_carrying {
            return Next::Wait;
        }
        let Some((bytes, is_entries)) = self.outlet.frames.pop_front() else {
            return Next::Wait;
        };
        if is_entries {
            self.outlet.entries_len -= bytes.len();
        }
        Next::Sent(self.down.send(now_us, &bytes, is_late))
    }

    /// Ends both directions, each at any byte of what is under way. Returns when either end is
    /// heard: the daemon's, and the party's.
    pub(crate) fn cut(&mut self, now_us: u64, random: &mut Random) -> (u64, u64) {
        (self.up.cut(now_us, random), self.down.cut(now_us, random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Choice;

    fn link() -> Link {
        let plan = Plan::new(9, &Choice::default());
        let mut link = Link::new(ConnectionId::new(1), 1, &plan, 10);
        (link.up.splits, link.down.splits) = (None, None);
        link
    }

    #[test]
    fn bytes_arrive_in_other_pieces_and_in_order() {
        let mut link = link();
        link.up.splits = Some(Random::new(3));
        let mut times = Vec::new();
        for i in 0..80_u8 {
            times.extend(link.up.send(0, &[i, i, i, i + 100], true));
        }
        assert!(times.is_sorted());
        let pieces: Vec<Vec<u8>> = times.iter().filter_map(|_| link.up.arrive()).collect();
        let sent: Vec<u8> = (0..80).flat_map(|i| [i, i, i, i + 100]).collect();
        assert_eq!(pieces.concat(), sent);
        assert!(pieces.iter().any(|piece| piece.len() == 1));
        assert!(pieces.iter().any(|piece| piece.len() > 8));
        assert_eq!(link.up.len, 0);
    }

    #[test]
    fn a_stream_keeps_its_order_and_ends_at_a_byte() {
        let mut link = link();
        let mut last = 0;
        for i in 0..50_u8 {
            let at = link.up.send(u64::from(i), &[i; 3], true);
            assert!(at.len() == 1 && at[0] >= last);
            last = at[0];
        }
        let end = link.up.cut(60, &mut Random::new(5));
        assert!(end >= last);
        assert!(link.up.send(61, &[1], true).is_empty());
        let mut arrived = Vec::new();
        while let Some(bytes) = link.up.arrive() {
            arrived.extend(bytes);
        }
        let sent: Vec<u8> = (0..50).flat_map(|i| [i; 3]).collect();
        assert!(arrived.len() < sent.len());
        assert_eq!(arrived, sent[..arrived.len()]);
    }

    #[test]
    fn a_slow_reader_loses_its_entries_and_gets_a_snapshot() {
        let mut link = link();
        link.down.len = SOCKET_LEN;
        assert!(!link.outlet.push(vec![0; 9], true));
        assert!(!link.outlet.push(vec![1; 5], false));
        assert!(link.outlet.push(vec![2; 9], true));
        assert!(!link.outlet.push(vec![3; 9], true));
        assert_eq!(link.write(0, false), Next::Wait);
        link.down.len = 0;
        assert!(matches!(link.write(0, false), Next::Sent(times) if times.len() == 1));
        assert_eq!(link.down.arrive(), Some(vec![1; 5]));
        assert_eq!(link.write(0, false), Next::AskSnapshot);
        assert_eq!(link.write(0, false), Next::Wait);
        link.outlet.restart();
        assert!(!link.outlet.push(vec![4; 9], true));
        assert!(matches!(link.write(0, false), Next::Sent(times) if times.len() == 1));
    }
}
