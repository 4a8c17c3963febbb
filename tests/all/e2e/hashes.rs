//! Equal entries make equal states, whoever computes them; a party that lost an entry is found out.

use std::collections::BTreeMap;

use apex_core::edit::Splice;
use apex_core::entry::{BufferOp, Entry, Op, SaveCause};
use apex_core::ids::{AttachmentId, BufferId, SERVER, Seq, Shard};
use apex_core::message::{Answer, Query, ServerMessage, ShardHash};
use apex_core::state::State;
use apex_core::text::Span;
use apex_core::wire::decode_entry;
use apex_tests::harness::{Home, Peer, Raw};
use serde_json::Value;

use super::{PUT, TIDY, TO_END, screen, source, wait_saved};

/// Returns the figures of a party, as `apex hash` prints them.
fn hash(home: &Home, of: AttachmentId) -> Value {
    let figures = home.json(&["hash", "--attachment", &of.to_string(), "--json"]);
    assert_eq!(figures["attachment"], of.raw());
    figures
}

/// Where each log stands, in some party's figures.
fn seqs(figures: &Value) -> Vec<(&str, u64)> {
    let shards = figures["shards"].as_array().unwrap().iter();
    shards
        .map(|line| {
            (
                line["shard"].as_str().unwrap(),
                line["seq"].as_u64().unwrap(),
            )
        })
        .collect()
}

/// Returns the figures of a party, as the protocol tells them.
fn shards(peer: &mut Peer, of: Option<AttachmentId>) -> Vec<ShardHash> {
    match peer.query(Query::Hash(of)) {
        Ok(Answer::Hashes { shards, .. }) => shards,
        other => panic!("no hashes: {other:?}"),
    }
}

#[test]
fn the_screen_the_daemon_and_the_tool_compute_the_same_state() {
    let home = Home::new();
    let (path, _) = source(&home);
    home.add_tidy();
    let mut pty = screen(&home, &path);
    let mut peer = Peer::follow(&home);
    let tool = peer.wait_attached(TIDY);
    let ui = peer.wait_attached("apex@");
    pty.keys(TO_END);
    pty.keys("hello  ");
    pty.keys(PUT);
    wait_saved(&mut peer, &path, SaveCause::Tool);
    // Asking changes nothing, so parties that have heard all stand where the daemon stands; a party
    // that still had an answer under way is asked again.
    for _ in 0..100 {
        let ours = home.json(&["hash", "--json"]);
        assert_eq!(ours["attachment"], SERVER.raw());
        assert!(seqs(&ours).len() > 8, "{ours}");
        let theirs = [hash(&home, ui), hash(&home, tool)];
        if theirs.iter().any(|figures| seqs(figures) != seqs(&ours)) {
            continue;
        }
        for figures in theirs {
            assert_eq!(figures["shards"], ours["shards"]);
            assert_eq!(figures["state"], ours["state"]);
        }
        let me = peer.attachment();
        assert_eq!(shards(&mut peer, Some(me)), shards(&mut peer, None));
        return;
    }
    panic!("the parties never stand at the same entries");
}

/// A replica that loses what it is told to.
struct Replica {
    state: State,
    seqs: BTreeMap<Shard, Seq>,
}

/// What a replica does with the edit that it is to lose.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    /// Nothing: it keeps all.
    None,
    /// It never sees it.
    Dropped,
    /// It takes it for an entry that changes no text, so that the seqs stay equal.
    Emptied,
}

impl Replica {
    /// Follows a session until an edit inserted `last`, losing the one that inserts `lost`.
    fn follow(home: &Home, loss: Loss, lost: &str, last: &str) -> Self {
        let mut raw = Raw::greet(home);
        let hello = apex_core::node::client::ui_hello(
            apex_core::message::SessionName::Label("main".into()),
            "replica".into(),
            apex_core::message::Takeover::Watch,
        );
        raw.say(&apex_core::message::ClientMessage::Hello(hello));
        let mut snapshot = Vec::new();
        let mut snapshot_len = usize::MAX;
        let mut marks = Vec::new();
        while snapshot.len() < snapshot_len {
            match raw.hear().unwrap() {
                ServerMessage::Welcome(welcome) => {
                    snapshot_len = usize::try_from(welcome.snapshot_len).unwrap();
                    marks = welcome.marks;
                }
                ServerMessage::Snapshot(piece) => snapshot.extend_from_slice(&piece),
                _ => {}
            }
        }
        let mut replica = Self {
            state: State::from_snapshot(&snapshot).unwrap(),
            seqs: marks.iter().map(|mark| (mark.shard, mark.seq)).collect(),
        };
        edit_both(home, lost, last);
        loop {
            let Some(ServerMessage::Entries(entries)) = raw.hear() else {
                continue;
            };
            for (shard, bytes) in entries {
                let entry = decode_entry(&bytes).unwrap();
                let is_last = inserts(&entry, last);
                replica.take(shard, entry, loss, lost);
                if is_last {
                    return replica;
                }
            }
        }
    }

    fn take(&mut self, shard: Shard, mut entry: Entry, loss: Loss, lost: &str) {
        if inserts(&entry, lost) {
            match loss {
                Loss::None => {}
                Loss::Dropped => return,
                Loss::Emptied => {
                    if let Op::Buffer(BufferOp::Edit { splices, .. }) = &mut entry.op {
                        *splices = Splice::new(splices[0].at, "").into();
                    }
                }
            }
        }
        let seq = entry.seq;
        if self.state.apply(shard, &entry).is_ok() {
            self.seqs.insert(shard, seq);
        } else {
            assert!(loss == Loss::Dropped, "an entry was refused: {entry:?}");
        }
    }

    /// Returns the shards in which this replica and the daemon differ.
    fn differing(&self, theirs: &[ShardHash]) -> Vec<Shard> {
        theirs
            .iter()
            // Who asks for the daemon's figures attaches to do so.
            .filter(|figures| figures.shard != Shard::Meta)
            .filter(|figures| {
                self.seqs.get(&figures.shard) != Some(&figures.seq)
                    || self.state.shard_hash(figures.shard) != figures.state
            })
            .map(|figures| figures.shard)
            .collect()
    }
}

fn inserts(entry: &Entry, text: &str) -> bool {
    matches!(&entry.op, Op::Buffer(BufferOp::Edit { splices, .. })
        if splices.iter().any(|splice| splice.text == text))
}

/// Edits the file twice, as a party of its own.
fn edit_both(home: &Home, lost: &str, last: &str) {
    let path = home.files().join("a.txt");
    let mut peer = Peer::follow(home);
    peer.edit(&path, Span::at(0), lost).unwrap();
    peer.edit(&path, Span::at(0), last).unwrap();
}

#[test]
fn a_replica_that_lost_an_entry_differs_from_the_daemon_in_that_shard_alone() {
    for (number, loss) in [Loss::None, Loss::Dropped, Loss::Emptied]
        .into_iter()
        .enumerate()
    {
        let home = Home::new();
        home.file("a.txt", b"text\n");
        let id = home.ok(&["open", "a.txt"]);
        let buffer = Shard::Buffer(BufferId::new(id.trim().parse().unwrap()));
        let (lost, last) = (format!("lost {number}"), format!("last {number}"));
        let replica = Replica::follow(&home, loss, &lost, &last);
        let shards = shards(&mut Peer::follow(&home), None);
        let differing = replica.differing(&shards);
        match loss {
            Loss::None => assert_eq!(differing, []),
            Loss::Dropped | Loss::Emptied => assert_eq!(differing, [buffer]),
        }
        let is_seq_equal = shards.iter().any(|figures| {
            figures.shard == buffer && replica.seqs.get(&buffer) == Some(&figures.seq)
        });
        assert_eq!(is_seq_equal, loss != Loss::Dropped);
    }
}
