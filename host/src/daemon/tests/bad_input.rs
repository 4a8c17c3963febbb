//! What peers send wrong.

use apex_core::bytes::Bytes;
use apex_core::edit::Splice;
use apex_core::entry::{AttachmentKind, BufferOp, Entry, LayoutOp, Op};
use apex_core::ids::{Epoch, RequestId, Seq, Shard};
use apex_core::limits;
use apex_core::message::{ClientMessage, ErrorCode, Query, ServerMessage};
use apex_core::text::Span;
use apex_core::wire::{self, Preamble};

use super::{TestDaemon, test};

/// Sends bytes on a fresh connection, and checks that only that one is refused, and why.
async fn refused(bytes: &[u8], is_greeted: bool, words: &str) {
    let daemon = TestDaemon::start();
    let mut bystander = daemon.ui().await;
    let mut peer = if is_greeted {
        daemon.peer().await
    } else {
        daemon.raw().await
    };
    peer.write(bytes).await;
    let error = peer.refusal().await;
    assert_eq!(error.code, ErrorCode::Protocol);
    assert!(error.message.contains(words), "{error}");
    assert!(bystander.peer.is_served().await);
    assert!(daemon.peer().await.is_served().await);
}

#[test]
fn a_wrong_magic_is_refused_with_what_was_said() {
    let noise = vec![b'x'; wire::NOISE_LEN_MAX + 8];
    test(refused(&noise, false, "xxx"));
    let mut late = b"GET / HTTP/1.1\r\n".to_vec();
    late.extend(Preamble::new("test").encode());
    test(refused(&late, false, "GET / HTTP"));
}

#[test]
fn a_wrong_version_is_refused_and_both_are_named() {
    let theirs = Preamble {
        protocol_min: 900,
        protocol_max: 901,
        ..Preamble::new("other 9")
    };
    test(refused(
        &theirs.encode(),
        false,
        "other 9 (protocol 900 to 901",
    ));
    let theirs = Preamble {
        apply_version: 77,
        ..Preamble::new("other")
    };
    test(refused(&theirs.encode(), false, "apply 77"));
    test(refused(&theirs.encode(), false, "apexd"));
}

#[test]
fn bad_frames_are_refused() {
    let oversized = u32::try_from(limits::FRAME_LEN_MAX).unwrap().to_le_bytes();
    test(refused(
        &[&oversized[..], &[1, 0x80]].concat(),
        true,
        "a frame of 8388612 bytes",
    ));
    test(refused(
        &[2, 0, 0, 0, 0x55, 0x80],
        true,
        "unknown kind 0x8055",
    ));
    test(refused(
        &[6, 0, 0, 0, 1, 0x80, 0xFF, 0xFF, 0xFF, 0xFF],
        true,
        "no message",
    ));
}

#[test]
fn a_message_before_hello_and_a_second_hello_are_refused() {
    let early = ClientMessage::CreateShard(Shard::Layout);
    test(refused(
        &wire::encode_client(&early),
        true,
        "first message must be Hello",
    ));
    test(async {
        let daemon = TestDaemon::start();
        let mut ui = daemon.ui().await;
        let hello = ui.client.hello();
        ui.peer.send(&hello).await;
        assert!(ui.peer.refusal().await.message.contains("second Hello"));
    });
}

#[test]
fn bad_appends_are_refused_by_kind_and_the_leader_goes_on() {
    test(async {
        let daemon = TestDaemon::start();
        let mut ui = daemon.ui().await;
        let node = ui.client.node().unwrap();
        let (buffer, _) = node.state().buffers().next().unwrap();
        let shard = Shard::Buffer(buffer);
        let epoch = node.log().lease(shard).unwrap().epoch;
        let attachment = node.attachment();
        let seq = node.log().mark(shard).unwrap().seq.next();
        let edit = |at: Span| {
            Op::Buffer(BufferOp::Edit {
                splices: Splice::new(at, "x").into(),
                group: None,
                dot: None,
            })
        };
        let good = || edit(Span::at(0));
        let entry = |epoch, seq, op| Entry {
            seq,
            attachment,
            epoch,
            origin: None,
            op,
        };
        let old = Epoch::new(epoch.raw() - 1);
        let ahead = Seq::new(seq.raw() + 5);
        let misfit = Op::Layout(LayoutOp::Focus(None));
        for (entry, code) in [
            (entry(old, seq, good()), ErrorCode::Fenced),
            (entry(epoch, ahead, good()), ErrorCode::WrongSeq),
            (entry(epoch, seq, misfit), ErrorCode::BadOp),
            (
                entry(epoch, seq, edit(Span::new(9, 9_999_999))),
                ErrorCode::BadOp,
            ),
        ] {
            let bytes = wire::encode_entry(&entry);
            ui.peer
                .send(&ClientMessage::Append(vec![(shard, vec![bytes])]))
                .await;
            let Some(ServerMessage::Error { error, shards }) = ui.peer.receive().await else {
                panic!("no error for {entry:?}");
            };
            assert_eq!((error.code, shards), (code, vec![shard]), "{error}");
        }
        let garbage = Bytes::from(vec![0xFF; 9]);
        ui.peer
            .send(&ClientMessage::Append(vec![(shard, vec![garbage])]))
            .await;
        let Some(ServerMessage::Error { error, .. }) = ui.peer.receive().await else {
            panic!("no error for garbage");
        };
        assert_eq!(error.code, ErrorCode::Protocol);
        let bytes = wire::encode_entry(&entry(epoch, seq, good()));
        ui.peer
            .send(&ClientMessage::Append(vec![(shard, vec![bytes])]))
            .await;
        let Some(ServerMessage::Acked(marks)) = ui.peer.receive().await else {
            panic!("the good append was not taken");
        };
        assert_eq!((marks[0].shard, marks[0].received), (shard, seq));
    });
}

#[test]
fn a_tool_cannot_append_or_put() {
    test(async {
        let daemon = TestDaemon::start();
        let mut tool = daemon.join(AttachmentKind::Tool, "main").await;
        let (buffer, found) = tool
            .client
            .node()
            .unwrap()
            .state()
            .buffers()
            .next()
            .unwrap();
        let version = found.version();
        let answer = tool
            .ask(|request| ClientMessage::FilePut {
                request,
                buffer,
                version,
                epoch: Epoch::default(),
                path: Some("/tmp/never-written".into()),
                is_forced: true,
                cause: apex_core::entry::SaveCause::Put,
            })
            .await;
        assert_eq!(answer.unwrap_err().code, ErrorCode::Fenced);
    });
}

#[test]
fn questions_about_what_is_not_there_are_answered() {
    test(async {
        let daemon = TestDaemon::start();
        let mut peer = daemon.peer().await;
        let request = RequestId::new(1);
        let query = Query::Session;
        let ask = ClientMessage::Query {
            request,
            session: None,
            query,
        };
        assert_eq!(peer.ask(ask).await.unwrap_err().code, ErrorCode::NotFound);
        assert_eq!(peer.text("x").await.unwrap_err().code, ErrorCode::NotFound);
        let query = Query::ToolLog("none".into());
        let ask = ClientMessage::Query {
            request,
            session: None,
            query,
        };
        assert!(
            peer.ask(ask)
                .await
                .unwrap_err()
                .message
                .contains("no tools")
        );
    });
}
