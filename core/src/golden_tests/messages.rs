//! Messages of both directions, in their frames, and the first frame.

use super::ops::entry;
use super::proposals::{landed, proposal};
use super::*;
use crate::bytes::Bytes;
use crate::entry::{AttachmentKind, BufferOp, ChainHash, MetaOp, Op, SaveCause};
use crate::ids::{
    AttachmentId, BufferId, Epoch, Incarnation, NoticeId, ProcessId, ProposalId, RequestId, SERVER,
    Secret, Seq, Shard, Version, ViewId, WindowId,
};
use crate::message::{
    AckMark, Answer, BufferInfo, ClientMessage, ErrorCode, ErrorMessage, Hello, Mark, Pipe,
    PipeInput, PipeOutput, Query, Resume, Resumed, Run, ServerMessage, SessionInfo, SessionName,
    ShardHash, Standing, Takeover, ToolInfo, ToolOrder, Welcome,
};
use crate::proposal::{Atomicity, Refusal};
use crate::text::Span;
use crate::wire::{Frames, Preamble, PreambleReader, encode_client, encode_entry, encode_server};

const BUFFER: BufferId = BufferId::new(3 << 40 | 5);
const SHARD: Shard = Shard::Buffer(BUFFER);
const REQUEST: RequestId = RequestId::new(300);
/// Where the number of a message stands in its frame.
const PLACE_AT: usize = 6;

variants!(CLIENT_MESSAGES, ClientMessage:
    Hello Append Propose Decided CreateShard DeleteShard LeaseRequest LeaseRelease FilePut FileGet
    FileOpen Run Kill SessionNew SessionRename SessionDelete MetaRequest Query Tool HashMark Resync
    Ack Detach Ping HashMarks Pipe FileRead FileWrite);
variants!(SERVER_MESSAGES, ServerMessage:
    Welcome Snapshot Entries Acked Propose ProposeResult Reply HashQuery Error Pong
    HashMarks Resumed);
variants!(STANDINGS, Standing: Snapshot Mismatch);
variants!(SESSION_NAMES, SessionName: Label Id);
variants!(TAKEOVERS, Takeover: Transfer Steal Watch);
variants!(QUERIES, Query: Sessions Session Text Hash Entries Tools ToolLog Status);
variants!(TOOL_ORDERS, ToolOrder: Grant GrantDev Revoke Reload);
variants!(ANSWERS, Answer:
    Done Sessions Session Piece Hashes Entries Tools Lines Opened Started Text Exited);
variants!(PIPE_OUTPUTS, PipeOutput: Answer Errors);
variants!(ERROR_CODES, ErrorCode:
    Protocol Fenced WrongSeq BadOp NotLeader NotFound Exists ChangedOnDisk System Limit Denied
    Retry Withdrawn);

fn mark(seq: u64) -> Mark {
    Mark {
        shard: SHARD,
        seq: Seq::new(seq),
        chain: ChainHash([0xC3; 32]),
    }
}

fn hash(seq: u64) -> ShardHash {
    ShardHash {
        shard: Shard::Window(WindowId::new(seq)),
        seq: Seq::new(seq),
        chain: ChainHash([1; 32]),
        state: [2; 32],
    }
}

fn entry_bytes() -> Vec<Bytes> {
    let text = STRANGE.into();
    let ops = [BufferOp::Load { text }, BufferOp::ViewAdd(ViewId::Top)];
    ops.map(|op| encode_entry(&entry(Op::Buffer(op)))).to_vec()
}

fn error(code: ErrorCode) -> ErrorMessage {
    ErrorMessage::new(code, STRANGE)
}

fn joining_and_appending() -> Vec<(&'static str, ClientMessage)> {
    let resume = Resume {
        attachment: AttachmentId::new(3),
        secret: Secret(uuid::Uuid::from_u128(7)),
        incarnation: Incarnation(uuid::Uuid::from_u128(u128::MAX)),
        marks: vec![mark(0), mark(u64::MAX)],
    };
    let hello = |session, kind, takeover, is_follower, resume| {
        let name = "apex@漢".into();
        ClientMessage::Hello(Hello {
            session,
            kind,
            name,
            takeover,
            is_follower,
            resume,
        })
    };
    let label = SessionName::Label("default".into());
    let id = SessionName::Id(meta::session());
    let (ui, tool) = (AttachmentKind::Ui, AttachmentKind::Tool);
    let lease = |shards, steal| ClientMessage::LeaseRequest { shards, steal };
    let release = ClientMessage::LeaseRelease {
        shard: SHARD,
        seq: Seq::new(1 << 40),
    };
    vec![
        ("first", hello(label, ui, Takeover::Transfer, true, None)),
        (
            "again",
            hello(id.clone(), ui, Takeover::Steal, true, Some(resume)),
        ),
        ("of a tool", hello(id, tool, Takeover::Watch, false, None)),
        ("nothing", ClientMessage::Append(vec![])),
        (
            "two shards",
            ClientMessage::Append(vec![
                (SHARD, entry_bytes()),
                (Shard::Layout, vec![Bytes::from(&[][..])]),
            ]),
        ),
        ("a shard", ClientMessage::CreateShard(SHARD)),
        ("a shard", ClientMessage::DeleteShard(Shard::Layout)),
        ("all", lease(vec![], false)),
        ("two by force", lease(vec![SHARD, Shard::Layout], true)),
        ("a shard", release),
        ("nothing", ClientMessage::Ack(vec![])),
        (
            "two",
            ClientMessage::Ack(vec![(SHARD, Seq::new(1)), (Shard::Meta, Seq::new(300))]),
        ),
        ("fresh", ClientMessage::Resync),
        ("at once", ClientMessage::Detach),
        ("a number", ClientMessage::Ping(u64::MAX)),
        (
            "two",
            ClientMessage::HashMarks(vec![hash(1), hash(u64::MAX)]),
        ),
    ]
}

fn proposing_and_hashes() -> Vec<(&'static str, ClientMessage)> {
    let decided = |outcome| ClientMessage::Decided {
        author: AttachmentId::new(3),
        id: ProposalId::new(3 << 40 | 9),
        outcome,
    };
    let mark = |hashes| ClientMessage::HashMark {
        request: REQUEST,
        hashes,
    };
    vec![
        (
            "all changes",
            ClientMessage::Propose(proposal(Atomicity::All)),
        ),
        ("each", ClientMessage::Propose(proposal(Atomicity::Each))),
        ("well", decided(landed())),
        ("refused", decided(Err(Refusal::SplitLeadership))),
        ("two shards", mark(vec![hash(1), hash(300)])),
        ("nothing", mark(vec![])),
    ]
}

fn editing_by_commands() -> Vec<(&'static str, ClientMessage)> {
    let request = REQUEST;
    let pipe = |input, output| ClientMessage::Pipe {
        request,
        pipe: Pipe {
            directory: "/tmp".into(),
            command: "sort -u".into(),
            environment: vec![("winid".into(), "1".into())],
            input,
            output,
        },
    };
    let input = PipeInput {
        buffer: BUFFER,
        version: Version::new(300),
        at: Span::new(1, 1 << 33),
    };
    let read = ClientMessage::FileRead {
        request,
        directory: "/tmp/".into(),
        path: "é".into(),
    };
    let write = ClientMessage::FileWrite {
        request,
        buffer: BUFFER,
        version: Version::new(300),
        epoch: Epoch::new(4),
        at: Span::new(2, 300),
        path: "/tmp/é".into(),
    };
    vec![
        ("without input", pipe(None, PipeOutput::Errors)),
        ("of a part", pipe(Some(input), PipeOutput::Answer)),
        ("a file", read),
        ("a part", write),
    ]
}

fn files_and_commands() -> Vec<(&'static str, ClientMessage)> {
    let request = REQUEST;
    let put = |path: Option<&str>, is_forced| ClientMessage::FilePut {
        request,
        buffer: BUFFER,
        version: Version::new(300),
        epoch: Epoch::new(4),
        path: path.map(Into::into),
        is_forced,
        cause: SaveCause::Put,
    };
    let open = ClientMessage::FileOpen {
        request,
        directory: "/tmp/".into(),
        path: "é漢".into(),
    };
    let run = |environment: &[(&str, &str)]| ClientMessage::Run {
        request,
        run: Run {
            directory: "/tmp".into(),
            command: "wc -l".into(),
            input: STRANGE.into(),
            environment: environment
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        },
    };
    let get = ClientMessage::FileGet {
        request,
        buffer: BUFFER,
    };
    let kill = ClientMessage::Kill {
        request: RequestId::new(0),
        process: ProcessId::new(300),
    };
    vec![
        ("its own file", put(None, false)),
        ("another file", put(Some("/tmp/漢"), true)),
        ("a text", get),
        ("a file", open),
        ("plain", run(&[])),
        ("with an environment", run(&[("winid", "1"), ("é", "")])),
        ("a process", kill),
    ]
}

fn sessions_and_requests() -> Vec<(&'static str, ClientMessage)> {
    let (request, label) = (REQUEST, String::from("é"));
    let new = ClientMessage::SessionNew {
        request,
        label: label.clone(),
    };
    let rename = ClientMessage::SessionRename {
        request,
        label: label.clone(),
        new_label: "b".into(),
    };
    let meta = ClientMessage::MetaRequest {
        request,
        op: MetaOp::NotifyClear(NoticeId::new(9)),
    };
    let query = |session, query| ClientMessage::Query {
        request,
        session,
        query,
    };
    let id = SessionName::Id(meta::session());
    let order = ToolOrder::Grant("fmt".into());
    vec![
        ("of a label", new),
        ("of a label", rename),
        (
            "of a label",
            ClientMessage::SessionDelete { request, label },
        ),
        ("an entry", meta),
        ("of the joined one", query(None, Query::Session)),
        ("of another", query(Some(id), Query::Text("/tmp/é".into()))),
        ("a grant", ClientMessage::Tool { request, order }),
    ]
}

pub(super) fn client_messages() -> Vec<(&'static str, ClientMessage)> {
    [
        joining_and_appending(),
        proposing_and_hashes(),
        files_and_commands(),
        editing_by_commands(),
        sessions_and_requests(),
    ]
    .concat()
}

pub(super) fn server_messages() -> Vec<(&'static str, ServerMessage)> {
    let welcome = |snapshot_len, marks| {
        ServerMessage::Welcome(Welcome {
            attachment: AttachmentId::new(3),
            secret: Secret(uuid::Uuid::from_u128(7)),
            incarnation: Incarnation(uuid::Uuid::from_u128(8)),
            session: meta::session(),
            label: "é".into(),
            counter_floor: 1 << 39,
            marks,
            snapshot_len,
        })
    };
    let ack = AckMark {
        shard: SHARD,
        received: Seq::new(300),
        written: Seq::new(200),
        synced: Seq::new(100),
    };
    let result = ServerMessage::ProposeResult {
        id: ProposalId::new(9),
        outcome: landed(),
    };
    let reply = |answer| ServerMessage::Reply {
        request: REQUEST,
        answer,
    };
    let refused = |shards| ServerMessage::Error {
        error: error(ErrorCode::Fenced),
        shards,
    };
    let entries = entry_bytes().into_iter().map(|bytes| (SHARD, bytes));
    let mut messages = vec![
        ("of a follower", welcome(1 << 33, vec![mark(1), mark(300)])),
        ("of no follower", welcome(0, vec![])),
        (
            "a piece",
            ServerMessage::Snapshot(Bytes::from(&[0, 255][..])),
        ),
        ("nothing", ServerMessage::Snapshot(Bytes::from(&[][..]))),
        ("many", ServerMessage::Entries(entries.collect())),
        ("none", ServerMessage::Entries(vec![])),
        ("one", ServerMessage::Acked(vec![ack])),
        ("none", ServerMessage::Acked(vec![])),
        ("an edit", ServerMessage::Propose(proposal(Atomicity::All))),
        ("well", result),
        ("done", reply(Ok(Answer::Done))),
        ("an error", reply(Err(error(ErrorCode::Limit)))),
        ("a request", ServerMessage::HashQuery(REQUEST)),
        ("of an append", refused(vec![SHARD, Shard::Layout])),
        ("of nothing", refused(vec![])),
        ("a number", ServerMessage::Pong(u64::MAX)),
        ("none", ServerMessage::HashMarks(vec![])),
        (
            "two",
            ServerMessage::HashMarks(vec![hash(1), hash(u64::MAX)]),
        ),
    ];
    messages.extend(coming_back());
    messages
}

fn coming_back() -> [(&'static str, ServerMessage); 2] {
    [
        (
            "goes on",
            ServerMessage::Resumed(Resumed {
                marks: vec![mark(0), mark(u64::MAX)],
                apart: vec![],
            }),
        ),
        (
            "not",
            ServerMessage::Resumed(Resumed {
                marks: vec![],
                apart: vec![
                    (SHARD, Standing::Mismatch),
                    (Shard::Meta, Standing::Snapshot),
                ],
            }),
        ),
    ]
}

fn queries() -> Vec<(&'static str, Query)> {
    let entries = Query::Entries {
        shard: SHARD,
        from: Seq::new(300),
    };
    vec![
        ("all", Query::Sessions),
        ("one", Query::Session),
        ("of a name", Query::Text("/tmp/é".into())),
        ("of the daemon", Query::Hash(Some(SERVER))),
        ("of anybody", Query::Hash(None)),
        ("from a seq", entries),
        ("all", Query::Tools),
        ("of a tool", Query::ToolLog("fmt".into())),
        ("now", Query::Status),
    ]
}

fn session_info() -> SessionInfo {
    let id = AttachmentId::new(3);
    SessionInfo {
        id: meta::session(),
        label: "é".into(),
        attachments: vec![
            (id, AttachmentKind::Ui, "apex".into(), true),
            (SERVER, AttachmentKind::Tool, "".into(), false),
        ],
        windows: 300,
        modified: vec!["/tmp/漢".into()],
    }
}

fn tool_info() -> ToolInfo {
    ToolInfo {
        name: "fmt".into(),
        id: "apex.fmt".into(),
        path: "/tmp/fmt.wasm".into(),
        sha256: "00ff".into(),
        state: "running".into(),
        note: STRANGE.into(),
        restarts: 1,
        calls: 300,
        entries: 1 << 40,
        memory_len: u64::MAX,
        attachments: vec![(meta::session(), AttachmentId::new(4), 5)],
    }
}

fn answers() -> Vec<(&'static str, Answer)> {
    let buffer = BufferInfo {
        id: BUFFER,
        name: "/tmp/é".into(),
        version: Version::new(300),
        len: 1 << 40,
        is_modified: true,
        leader: AttachmentId::new(3),
    };
    let session = Answer::Session {
        info: session_info(),
        buffers: vec![buffer],
    };
    let piece = Answer::Piece {
        bytes: Bytes::from(STRANGE.as_bytes()),
        is_last: true,
    };
    let hashes = Answer::Hashes {
        of: SERVER,
        shards: vec![hash(9)],
        state: [0xEE; 32],
    };
    let entries = Answer::Entries {
        entries: entry_bytes(),
        floor: Seq::new(1),
        head: Seq::new(300),
    };
    let opened = Answer::Opened {
        buffer: BUFFER,
        is_new: false,
    };
    vec![
        ("well", Answer::Done),
        ("one", Answer::Sessions(vec![session_info()])),
        ("none", Answer::Sessions(vec![])),
        ("whole", session),
        ("the last", piece),
        ("of the daemon", hashes),
        ("many", entries),
        ("one", Answer::Tools(vec![tool_info()])),
        ("two", Answer::Lines(vec!["".into(), STRANGE.into()])),
        ("a file", opened),
        ("a process", Answer::Started(ProcessId::new(300))),
        ("a piece", Answer::Text(STRANGE.into())),
        ("by a signal", Answer::Exited(137)),
    ]
}

#[test]
fn messages_of_clients_keep_their_golden_bytes() {
    let codec = Codec {
        encode: encode_client,
        decode: |bytes| Frames::new(bytes.to_vec()).next_client().ok()?,
        place_at: PLACE_AT,
    };
    let file = golden!("client_messages.txt");
    check(file, &CLIENT_MESSAGES, &codec, &client_messages());
}

#[test]
fn messages_of_the_daemon_keep_their_golden_bytes() {
    let codec = Codec {
        encode: encode_server,
        decode: |bytes| Frames::new(bytes.to_vec()).next_server().ok()?,
        place_at: PLACE_AT,
    };
    let file = golden!("server_messages.txt");
    check(file, &SERVER_MESSAGES, &codec, &server_messages());
}

#[test]
fn where_output_goes_keeps_its_golden_bytes() {
    let outputs = [
        ("back", PipeOutput::Answer),
        ("to the window", PipeOutput::Errors),
    ];
    check(
        golden!("pipe_outputs.txt"),
        &PIPE_OUTPUTS,
        &Codec::PLAIN,
        &outputs,
    );
}

#[test]
fn what_messages_hold_keeps_its_golden_bytes() {
    let names = [
        ("of a session", SessionName::Label(STRANGE.into())),
        ("of a session", SessionName::Id(meta::session())),
    ];
    check(
        golden!("session_names.txt"),
        &SESSION_NAMES,
        &Codec::PLAIN,
        &names,
    );
    let standings = [Standing::Snapshot, Standing::Mismatch];
    let standings = standings.map(|standing| ("standing", standing));
    check(
        golden!("standings.txt"),
        &STANDINGS,
        &Codec::PLAIN,
        &standings,
    );
    let takeovers = [Takeover::Transfer, Takeover::Steal, Takeover::Watch];
    let takeovers = takeovers.map(|way| ("way", way));
    check(
        golden!("takeovers.txt"),
        &TAKEOVERS,
        &Codec::PLAIN,
        &takeovers,
    );
    check(golden!("queries.txt"), &QUERIES, &Codec::PLAIN, &queries());
    let orders = [
        ("a name", ToolOrder::Grant("fmt".into())),
        ("a path", ToolOrder::GrantDev("/tmp/é.wasm".into())),
        ("a name", ToolOrder::Revoke("".into())),
        ("a name", ToolOrder::Reload("fmt".into())),
    ];
    check(
        golden!("tool_orders.txt"),
        &TOOL_ORDERS,
        &Codec::PLAIN,
        &orders,
    );
    check(golden!("answers.txt"), &ANSWERS, &Codec::PLAIN, &answers());
    let codes = [
        ErrorCode::Protocol,
        ErrorCode::Fenced,
        ErrorCode::WrongSeq,
        ErrorCode::BadOp,
        ErrorCode::NotLeader,
        ErrorCode::NotFound,
        ErrorCode::Exists,
        ErrorCode::ChangedOnDisk,
        ErrorCode::System,
        ErrorCode::Limit,
        ErrorCode::Denied,
        ErrorCode::Retry,
        ErrorCode::Withdrawn,
    ];
    let codes = codes.map(|code| ("code", code));
    check(
        golden!("error_codes.txt"),
        &ERROR_CODES,
        &Codec::PLAIN,
        &codes,
    );
}

#[test]
fn the_first_frame_keeps_its_golden_bytes() {
    let preamble = |protocol_max, apply_version, build: &str| Preamble {
        protocol_min: 1,
        protocol_max,
        apply_version,
        build: build.into(),
    };
    let cases = [
        ("of version one", preamble(1, 2, "apex 0.1.0")),
        ("of large numbers", preamble(u16::MAX, u32::MAX, "é漢🙂")),
        ("of no build", preamble(2, 0, "")),
        ("of a long build", preamble(1, 2, &"b".repeat(255))),
    ];
    let lines: Vec<Line> = cases
        .iter()
        .map(|(what, preamble)| line(what, &preamble.encode()))
        .collect();
    let file = golden!("preambles.txt");
    check_lines(file, &lines);
    for (what, preamble) in &cases {
        let read = PreambleReader::default().push(&file.bytes_of(what));
        assert_eq!(read, Ok(Some((preamble.clone(), vec![], vec![]))));
    }
}
