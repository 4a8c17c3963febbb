//! Peers that break the protocol.

use apex_core::entry::{AttachmentKind, BufferOp, Entry, LayoutOp, Op};
use apex_core::ids::{Epoch, Seq, Shard};
use apex_core::limits::FRAME_LEN_MAX;
use apex_core::message::{ClientMessage, ErrorCode, ErrorMessage, ServerMessage, Takeover};
use apex_core::text::Span;
use apex_core::wire::{Preamble, encode_client, encode_entry};
use apex_tests::harness::{Home, Peer, Raw};

/// A session with a file and an honest party in it.
fn session() -> (Home, std::path::PathBuf, Peer) {
    let home = Home::new();
    let path = home.file("a.txt", b"text\n");
    home.ok(&["open", "a.txt"]);
    let mut peer = Peer::follow(&home);
    peer.wait_buffer(&path, |_| true);
    (home, path, peer)
}

/// Whoever keeps to the protocol is served as before.
#[track_caller]
fn check_others(home: &Home, path: &std::path::Path, peer: &mut Peer) {
    peer.edit(path, Span::at(0), "x").unwrap();
    let text = peer.buffer(path).unwrap().1.text().to_string();
    assert_eq!(home.ok(&["cat", "a.txt"]), text);
}

#[test]
fn bytes_that_are_no_protocol_end_their_own_connection_with_a_typed_error() {
    let (home, path, mut peer) = session();
    let mut other_version = Preamble::new("a later build");
    (other_version.protocol_min, other_version.protocol_max) = (7, 9);
    let mut other_apply = Preamble::new("another build");
    other_apply.apply_version = 99;
    let greeted = |bytes: &[u8]| [&Preamble::new("test").encode()[..], bytes].concat();
    let too_long = u32::try_from(FRAME_LEN_MAX + 1).unwrap().to_le_bytes();
    let mut cut = encode_client(&ClientMessage::Ping(1));
    cut[0] -= 1;
    cut.pop();
    for (bytes, words) in [
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(4000),
            "does not speak apex",
        ),
        (b"hello\n".to_vec(), "does not speak apex"),
        (other_version.encode(), "protocol 7 to 9"),
        (other_apply.encode(), "apply 99"),
        (greeted(&[&too_long[..], &[1, 0x80]].concat()), "a frame of"),
        (greeted(&[0xff; 64]), "a frame of"),
        (greeted(&[1, 0, 0, 0, 0, 0]), "a frame of"),
        (greeted(&[4, 0, 0, 0, 1, 0x80, 0xff, 0xff]), "no message"),
        (greeted(&cut), "no message"),
        (greeted(&[2, 0, 0, 0, 0x33, 0x80]), "0x8033"),
        (greeted(&encode_client(&ClientMessage::Resync)), "Hello"),
    ] {
        let mut raw = Raw::connect(&home);
        raw.bytes(&bytes);
        raw.end();
        let error = raw.last_error();
        assert_eq!(error.code, ErrorCode::Protocol, "{error:?}");
        assert!(
            error.message.contains(words),
            "{words:?} is not in {error:?}"
        );
        check_others(&home, &path, &mut peer);
    }
    // A kind that may be skipped is skipped.
    let mut raw = Raw::greet(&home);
    raw.bytes(&[3, 0, 0, 0, 9, 0, 1]);
    raw.say(&ClientMessage::Ping(5));
    assert_eq!(raw.hear(), Some(ServerMessage::Pong(5)));
}

/// Sends an append that the leader's client would never send, and returns the refusal.
fn append(leader: &mut Peer, shard: Shard, change: impl FnOnce(&mut Entry)) -> ErrorMessage {
    let client = leader.client();
    let node = client.node().unwrap();
    let lease = node.log().lease(shard).unwrap();
    let mut entry = Entry {
        seq: node.log().mark(shard).unwrap().seq.next(),
        attachment: node.attachment(),
        epoch: lease.epoch,
        origin: None,
        op: Op::Buffer(BufferOp::Setting {
            key: "tab".into(),
            value: Some("4".into()),
        }),
    };
    change(&mut entry);
    let bytes = encode_entry(&entry);
    let message = ClientMessage::Append(vec![(shard, vec![bytes])]);
    leader.raw().say(&message);
    loop {
        if let Some(ServerMessage::Error { error, shards }) = leader.raw().hear() {
            assert_eq!(shards, [shard]);
            return error;
        }
    }
}

#[test]
fn an_append_that_may_not_be_is_refused_by_its_reason_and_changes_nothing() {
    for (reason, code, words) in [
        ("stale epoch", ErrorCode::Fenced, "fenced"),
        ("wrong seq", ErrorCode::WrongSeq, "must follow"),
        ("other kind", ErrorCode::BadOp, "does not fit"),
        ("no such place", ErrorCode::BadOp, ""),
    ] {
        let (home, path, mut peer) = session();
        let (id, _) = peer.buffer(&path).unwrap();
        let shard = Shard::Buffer(id);
        let mut leader = Peer::join(&home, AttachmentKind::Ui, Takeover::Transfer);
        let me = leader.attachment();
        peer.wait(|peer| (peer.leader(shard) == Some(me)).then_some(()));
        leader.wait(|leader| (leader.leader(shard) == Some(me)).then_some(()));
        let error = append(&mut leader, shard, |entry| match reason {
            "stale epoch" => entry.epoch = Epoch::new(entry.epoch.raw() - 1),
            "wrong seq" => entry.seq = Seq::new(entry.seq.raw() + 5),
            "other kind" => entry.op = Op::Layout(LayoutOp::Focus(None)),
            _ => {
                let splice = apex_core::edit::Splice::new(Span::new(1000, 2000), "x");
                entry.op = Op::Buffer(BufferOp::Edit {
                    splices: splice.into(),
                    group: None,
                    dot: None,
                });
            }
        });
        assert_eq!(error.code, code, "{reason}: {error:?}");
        assert!(error.message.contains(words), "{reason}: {error:?}");
        drop(leader);
        assert_eq!(home.ok(&["cat", "a.txt"]), "text\n", "{reason}");
    }
}
