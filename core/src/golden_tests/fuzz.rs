//! Golden bytes, damaged: whoever reads them refuses or goes on, and never panics.
//!
//! 1. Bytes are cut short, claim lengths that nobody has the memory for, lose, gain and change
//!    bytes; the same in each run, from the seed.
//! 2. What can still be read goes where a peer's bytes go: an entry into a state, a proposal into a
//!    leader, messages into a daemon and into a client.
//! 3. A length that was believed would end the test: no machine has room for it.

use super::*;
use crate::dice::Dice;
use crate::entry::{ApplyLimits, Entry, Op};
use crate::ids::{ConnectionId, Epoch, Incarnation, Millis, SERVER, Secret, SessionId};
use crate::message::{ClientMessage, ServerMessage, SessionName, Takeover};
use crate::node::Node;
use crate::node::authority::{Authority, Genesis, Output};
use crate::node::client::{Client, ui_hello};
use crate::proposal::Proposal;
use crate::state::State;
use crate::state::snapshot::SnapshotReader;
use crate::wire::{self, Frames, PreambleReader};

const SEED: u64 = 0x5eed;
/// Random damages of one value.
const ROUND_COUNT: u64 = 60;

impl Dice {
    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }

    fn byte(&mut self) -> u8 {
        let some = [0, 1, 2, 0x7F, 0x80, 0xC3, 0xFF];
        match self.index(3) {
            0 => some[self.index(some.len())],
            _ => self.index(256).to_le_bytes()[0],
        }
    }

    /// Changes, adds and takes away a few bytes.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.index(4) {
            let at = self.index(bytes.len());
            match self.index(4) {
                0 if !bytes.is_empty() => drop(bytes.remove(at)),
                1 => bytes.insert(at, self.byte()),
                2 if !bytes.is_empty() => {
                    let piece: Vec<u8> = bytes[at..].iter().take(self.index(9)).copied().collect();
                    bytes.extend(piece);
                }
                _ if !bytes.is_empty() => bytes[at] = self.byte(),
                _ => {}
            }
        }
    }
}

/// Gives each stored value to `read` in many damaged forms. `head` bytes in front stay.
fn damaged(file: File, head: usize, mut read: impl FnMut(&[u8])) {
    let mut dice = Dice(SEED);
    for (_, whole) in file.all() {
        let head = head.min(whole.len());
        for len in 0..=whole.len() {
            read(&whole[..len]);
        }
        for at in head..whole.len() {
            for claim in [u64::MAX, 1 << 62, 1 << 40, 1 << 33] {
                let claim = postcard::to_allocvec(&claim).unwrap();
                read(&[&whole[..at], &claim, &whole[at + 1..]].concat());
                read(&[&whole[..at], &claim].concat());
            }
        }
        for _ in 0..ROUND_COUNT {
            let mut tail = whole[head..].to_vec();
            dice.damage(&mut tail);
            read(&[&whole[..head], &tail].concat());
        }
    }
}

#[test]
fn damaged_entries_are_refused_or_applied() {
    let state = snapshots::full();
    let mut applied = 0;
    damaged(golden!("entries.txt"), 0, |bytes| {
        let Ok(entry) = wire::decode_entry(bytes) else {
            return;
        };
        let again = wire::decode_entry(&wire::encode_entry(&entry));
        assert_eq!(again.as_ref(), Ok(&entry));
        for (shard, seq) in state.marks() {
            let mut entry = entry.clone();
            entry.seq = seq.next();
            let mut copy = state.clone();
            if entry.op.fits(shard) {
                applied += usize::from(copy.apply(shard, &entry).is_ok());
            }
        }
    });
    assert!(applied > 50, "{applied}");
}

#[test]
fn damaged_operations_are_refused_or_applied() {
    let state = snapshots::full();
    let before = state.to_snapshot();
    let (mut applied, mut refused) = (0, 0);
    let mut apply = |op: Op| {
        for (shard, seq) in state.marks().filter(|(shard, _)| op.fits(*shard)) {
            let entry = Entry {
                seq: seq.next(),
                attachment: SERVER,
                epoch: Epoch::default(),
                origin: None,
                op: op.clone(),
            };
            let mut copy = state.clone();
            match copy.apply(shard, &entry) {
                Ok(_) => applied += 1,
                Err(_) => {
                    refused += 1;
                    assert_eq!(copy.applied(shard), Some(seq));
                }
            }
        }
    };
    damaged(golden!("buffer_ops.txt"), 0, |bytes| {
        if let Ok(op) = postcard::from_bytes(bytes) {
            apply(Op::Buffer(op));
        }
    });
    damaged(golden!("meta_ops.txt"), 0, |bytes| {
        if let Ok(op) = postcard::from_bytes(bytes) {
            apply(Op::Meta(op));
        }
    });
    damaged(golden!("layout_ops.txt"), 0, |bytes| {
        if let Ok(op) = postcard::from_bytes(bytes) {
            apply(Op::Layout(op));
        }
    });
    damaged(golden!("term_ops.txt"), 0, |bytes| {
        if let Ok(op) = postcard::from_bytes(bytes) {
            apply(Op::Term(op));
        }
    });
    assert!(applied > 100 && refused > 100, "{applied} {refused}");
    assert!(
        state.to_snapshot() == before,
        "clones share nothing that changes"
    );
}

#[test]
fn damaged_snapshots_are_refused_or_read_alike_whatever_the_pieces() {
    let mut read = 0;
    damaged(golden!("snapshots.txt"), 1, |bytes| {
        let whole = State::from_snapshot(bytes);
        let mut reader = SnapshotReader::new();
        let pushed = bytes.chunks(7).try_for_each(|piece| reader.push(piece));
        let pieces = pushed.and_then(|()| reader.finish());
        match (whole, pieces) {
            (Ok(whole), Ok(pieces)) => {
                read += 1;
                assert!(whole.to_snapshot() == pieces.to_snapshot());
            }
            (Err(whole), Err(pieces)) => assert_eq!(whole, pieces),
            (whole, pieces) => panic!("{} and {}", whole.is_ok(), pieces.is_ok()),
        }
    });
    assert!(read > 10, "{read}");
}

/// A daemon with a UI that leads.
fn pair() -> (Authority, Client) {
    let genesis = Genesis {
        session: SessionId(uuid::Uuid::from_u128(1)),
        incarnation: Incarnation(uuid::Uuid::from_u128(2)),
        label: "main".into(),
        limits: ApplyLimits::default(),
    };
    let mut authority = Authority::new(genesis);
    authority.node_mut().init_session("/", "").unwrap();
    let name = SessionName::Label("main".into());
    let mut client = Client::new(ui_hello(name, "ui".into(), Takeover::Transfer));
    let mut out = Vec::new();
    say(&mut authority, client.hello(), &mut out);
    for output in out {
        match output {
            Output::Send(_, message) => drop(client.receive(message, &mut Vec::new())),
            Output::Welcome(_, welcome, snapshot) => {
                let welcome = ServerMessage::Welcome(welcome);
                client.receive(welcome, &mut Vec::new());
                for piece in snapshot.into_iter().flatten() {
                    let piece = ServerMessage::Snapshot(piece);
                    client.receive(piece, &mut Vec::new());
                }
            }
            _ => {}
        }
    }
    assert!(client.node().is_some());
    (authority, client)
}

fn say(authority: &mut Authority, message: ClientMessage, out: &mut Vec<Output>) {
    let from = (ConnectionId::new(1), Secret(uuid::Uuid::from_u128(3)));
    authority.receive(Millis::new(1), from, message, out);
}

#[test]
fn damaged_messages_of_a_client_end_nothing() {
    let (mut authority, _) = pair();
    let mut taken = 0;
    damaged(golden!("client_messages.txt"), 6, |bytes| {
        if let Ok(Some(message)) = Frames::new(bytes.to_vec()).next_client() {
            taken += 1;
            say(&mut authority, message, &mut Vec::new());
            if taken % 500 == 0 {
                authority = pair().0;
            }
        }
    });
    assert!(taken > 100, "{taken}");
}

#[test]
fn damaged_messages_of_the_daemon_end_nothing() {
    let (_, mut client) = pair();
    let mut taken = 0;
    damaged(golden!("server_messages.txt"), 6, |bytes| {
        if let Ok(Some(message)) = Frames::new(bytes.to_vec()).next_server() {
            taken += 1;
            client.receive(message, &mut Vec::new());
            if taken % 50 == 0 {
                client = pair().1;
            }
        }
    });
    assert!(taken > 100, "{taken}");
}

#[test]
fn damaged_proposals_are_decided_whole() {
    let mut taken = 0;
    let (authority, _) = pair();
    damaged(golden!("proposals.txt"), 0, |bytes| {
        if let Ok(proposal) = postcard::from_bytes::<Proposal>(bytes) {
            taken += 1;
            let mut node: Node = authority.node().clone();
            let before = node.log().marks();
            if node.decide(&proposal).0.is_err() {
                assert_eq!(node.log().marks(), before);
            }
        }
    });
    assert!(taken > 50, "{taken}");
}

#[test]
fn damaged_preambles_are_refused_or_waited_for() {
    damaged(golden!("preambles.txt"), 0, |bytes| {
        let mut reader = PreambleReader::default();
        let whole = reader.push(bytes);
        let mut reader = PreambleReader::default();
        let pieces = bytes.chunks(3).try_fold(None, |found, piece| match found {
            Some(found) => Ok(Some(found)),
            None => reader.push(piece),
        });
        let found = |found: &Option<wire::Found>| found.as_ref().map(|found| found.0.clone());
        assert_eq!(
            whole.as_ref().ok().map(found),
            pieces.as_ref().ok().map(found)
        );
    });
}

#[test]
fn damage_is_the_same_in_each_run() {
    let run = || {
        let mut all = Vec::new();
        damaged(golden!("shards.txt"), 0, |bytes| all.push(bytes.to_vec()));
        all
    };
    assert_eq!(run(), run());
}
