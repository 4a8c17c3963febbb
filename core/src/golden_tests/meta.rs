//! Entries of the metalog.

use alloc::boxed::Box;

use super::ops::{BODY, PLACE_AT, WINDOW, codec, entry};
use super::*;
use crate::entry::{ApplyLimits, AttachmentKind, ChainHash, Entry, Exec, MetaOp, Op};
use crate::ids::{
    AttachmentId, BufferId, Epoch, ExecId, NoticeId, ProcessId, RuleId, SERVER, Seq, SessionId,
    Shard, TermId, Version, ViewId,
};
use crate::text::Span;
use crate::wire::{decode_entry, encode_entry};

const BUFFER: Shard = Shard::Buffer(BufferId::new(3 << 40 | 5));

variants!(META_OPS, MetaOp:
    Genesis Identity Label ShardNew ShardDel Attach Detach LeaseGrant LeaseRequest LeaseRelease
    LeaseReclaim LeaseRefuse RuleAdd RuleDel Setting Notify NotifyClear ProcStart ProcExit Exec
    Claim GrantAsked GrantDecided);
variants!(KINDS, AttachmentKind: Ui Tool);

pub(super) fn session() -> SessionId {
    SessionId(uuid::Uuid::from_u128(
        0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210,
    ))
}

fn session_and_parties() -> Vec<(&'static str, MetaOp)> {
    let genesis = |undo_len| MetaOp::Genesis {
        format: 1,
        limits: ApplyLimits {
            undo_len,
            annotation_count: 100_000,
            scrollback_count: 10_000,
        },
    };
    let attach = |id, kind, name: &str| MetaOp::Attach {
        id: AttachmentId::new(id),
        kind,
        name: name.into(),
    };
    let setting = |value: Option<&str>| MetaOp::Setting {
        key: "tool.fmt.é".into(),
        value: value.map(Into::into),
    };
    vec![
        ("with limits", genesis(64 << 20)),
        ("without a bound", genesis(u64::MAX)),
        ("of a session", MetaOp::Identity(session())),
        ("strange", MetaOp::Label(STRANGE.into())),
        ("empty", MetaOp::Label("".into())),
        ("a buffer", MetaOp::ShardNew(BUFFER)),
        ("a terminal", MetaOp::ShardNew(Shard::Term(TermId::new(1)))),
        ("a window", MetaOp::ShardDel(Shard::Window(WINDOW))),
        ("a screen", attach(1, AttachmentKind::Ui, "apex@漢")),
        ("a tool", attach((1 << 24) - 1, AttachmentKind::Tool, "")),
        ("a party", MetaOp::Detach(AttachmentId::new(300))),
        ("set", setting(Some(STRANGE))),
        ("removed", setting(None)),
    ]
}

fn leases() -> Vec<(&'static str, MetaOp)> {
    let by = AttachmentId::new(300);
    let grant = |to, epoch| MetaOp::LeaseGrant {
        shard: Shard::Layout,
        to,
        epoch: Epoch::new(epoch),
        head: Seq::new(9),
        chain: ChainHash([0xA5; 32]),
    };
    let reclaim = MetaOp::LeaseReclaim {
        shard: BUFFER,
        epoch: Epoch::new(u64::MAX),
        head: Seq::new(1 << 40),
        chain: ChainHash::default(),
    };
    let (shard, seq) = (Shard::Window(WINDOW), Seq::new(u64::MAX));
    vec![
        ("to a screen", grant(by, 2)),
        ("to the daemon", grant(SERVER, 1 << 33)),
        ("of a buffer", MetaOp::LeaseRequest { shard: BUFFER, by }),
        ("of a window", MetaOp::LeaseRelease { shard, seq }),
        ("of a buffer", reclaim),
        ("of a window", MetaOp::LeaseRefuse { shard, by }),
    ]
}

fn desk() -> Vec<(&'static str, MetaOp)> {
    let owner = AttachmentId::new(5);
    let rule = |window| MetaOp::RuleAdd {
        rule: RuleId::new(7),
        owner,
        window,
        pattern: "[a-zé]+".into(),
        port: "edit".into(),
    };
    let notify = |level, text: &str| MetaOp::Notify {
        notice: NoticeId::new(5 << 40 | 1),
        owner,
        level,
        text: text.into(),
    };
    let start = MetaOp::ProcStart {
        process: ProcessId::new(300),
        owner,
        command: "echo 漢".into(),
    };
    let exit = |code| MetaOp::ProcExit {
        process: ProcessId::new(300),
        code,
    };
    vec![
        ("for a window", rule(Some(WINDOW))),
        ("for all", rule(None)),
        ("a rule", MetaOp::RuleDel(RuleId::new(u64::MAX))),
        ("an error", notify(3, STRANGE)),
        ("nothing", notify(0, "")),
        ("a notice", MetaOp::NotifyClear(NoticeId::new(128))),
        ("a command", start),
        ("well", exit(0)),
        ("badly", exit(-1)),
    ]
}

fn executions_and_grants() -> Vec<(&'static str, MetaOp)> {
    let exec = |is_look, view, argument: &str| {
        MetaOp::Exec(Box::new(Exec {
            id: ExecId::new(5 << 40 | 3),
            asked_by: AttachmentId::new(5),
            view,
            buffer: BufferId::new(6),
            version: Version::new(300),
            at: Span::new(7, 1 << 40),
            text: STRANGE.into(),
            argument: argument.into(),
            is_look,
        }))
    };
    let claim = MetaOp::Claim {
        exec: ExecId::new(300),
        by: AttachmentId::new(5),
        ms: u32::MAX,
    };
    let asked = |wants| MetaOp::GrantAsked {
        tool: "fmt".into(),
        sha256: [0xFF; 32],
        wants,
    };
    let decided = |is_granted| MetaOp::GrantDecided {
        tool: "é".into(),
        sha256: [1; 32],
        is_granted,
    };
    vec![
        ("a command", exec(false, BODY, "")),
        ("a look", exec(true, ViewId::Top, "argument é")),
        ("for long", claim),
        ("nothing", asked(vec![])),
        ("two", asked(vec!["read *".into(), "run é".into()])),
        ("granted", decided(true)),
        ("refused", decided(false)),
    ]
}

fn meta_ops() -> Vec<(&'static str, MetaOp)> {
    [
        session_and_parties(),
        leases(),
        desk(),
        executions_and_grants(),
    ]
    .concat()
}

#[test]
fn entries_of_the_metalog_keep_their_golden_bytes() {
    check(
        golden!("meta_ops.txt"),
        &META_OPS,
        &codec!(Meta),
        &meta_ops(),
    );
    let kinds = [AttachmentKind::Ui, AttachmentKind::Tool].map(|kind| ("kind", kind));
    check(
        golden!("attachment_kinds.txt"),
        &KINDS,
        &Codec::PLAIN,
        &kinds,
    );
}
