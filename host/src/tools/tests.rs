//! The tool host whole, with the components that `cargo xtask plugins` builds, against a session
//! that is scripted: what tools are told, what they propose, and what becomes of bad ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apex_core::entry::{BufferOp, SaveCause, Saved};
use apex_core::ids::{
    AttachmentId, BufferId, ConnectionId, Incarnation, RequestId, Secret, SessionId, Version,
};
use apex_core::message::{
    Answer, ClientMessage, ErrorMessage, ServerMessage, ToolInfo, ToolOrder, Welcome,
};
use apex_core::proposal::{Change, Landed, Proposal};
use apex_core::text::Span;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::ToolHost;
use super::testing::Script;
use crate::seam::{
    ConnectionIds, SessionInput, SessionLink, SessionOpened, SessionRecords, ToolConfig,
    ToolHandle, ToolHostMessage,
};

const SESSION: SessionId = SessionId(uuid::Uuid::nil());

/// A tool host, its directories, and one scripted session.
struct Bench {
    dir: PathBuf,
    handle: ToolHandle,
    script: Script,
    inputs: mpsc::Receiver<SessionInput>,
    /// Attachments given so far.
    attached: Vec<(ConnectionId, String)>,
    /// Proposals that came and were not taken.
    proposals: Vec<(ConnectionId, Proposal)>,
    detached: Vec<ConnectionId>,
    hash_marks: Vec<Vec<apex_core::message::ShardHash>>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let (reply, _answer) = oneshot::channel();
        self.handle.send(ToolHostMessage::Shutdown { reply });
        drop(fs::remove_dir_all(&self.dir));
    }
}

impl Bench {
    async fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("apex-tools-{}", uuid::Uuid::new_v4()));
        fs::create_dir_all(dir.join("plugins")).unwrap();
        let handle = ToolHost::start(ToolConfig {
            plugin_dirs: vec![dir.join("plugins"), dir.join("data/plugins")],
            grants_path: dir.join("config/grants.toml"),
            // Shared by all tests, so that a component is compiled once.
            cache_dir: std::env::temp_dir().join("apex-test-cache"),
            data_dir: dir.join("data/tool"),
        });
        let (sender, inputs) = mpsc::channel(64);
        let mut script = Script::new();
        script.buffer(7, "/src/x.rs", "fn a() {}  \nlast");
        script.window(9, 7);
        script.take();
        let link = SessionLink {
            inputs: sender,
            back: handle.sender(),
            connections: ConnectionIds::default(),
        };
        handle.send(ToolHostMessage::SessionOpened(SessionOpened {
            session: SESSION,
            incarnation: Incarnation(uuid::Uuid::nil()),
            label: "main".to_owned(),
            snapshot: script.state.clone(),
            marks: script.marks(),
            link,
        }));
        Self {
            dir,
            handle,
            script,
            inputs,
            attached: Vec::new(),
            proposals: Vec::new(),
            detached: Vec::new(),
            hash_marks: Vec::new(),
        }
    }

    fn plugin(&self, file: &str) -> PathBuf {
        self.dir.join("plugins").join(file)
    }

    /// Puts a built tool into the plugin directory, manifest first.
    fn drop_in(&self, name: &str) {
        for end in ["toml", "wasm"] {
            fs::copy(built(name, end), self.plugin(&format!("{name}.{end}"))).unwrap();
        }
    }

    fn publish(&mut self) {
        let records: Arc<[_]> = self.script.take().into();
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let records = SessionRecords {
            session: SESSION,
            records,
            permit,
        };
        self.handle.send(ToolHostMessage::Records(records));
    }

    /// The user puts buffer 7.
    fn put(&mut self) {
        let version = self
            .script
            .state
            .buffer(BufferId::new(7))
            .unwrap()
            .version();
        let saved = Saved {
            version,
            content: version,
            digest: [0; 32],
            path: "/src/x.rs".to_owned(),
            cause: SaveCause::Put,
        };
        self.script.buffer_op(7, BufferOp::Saved(saved));
        self.publish();
    }

    fn say(&self, connection: ConnectionId, message: ServerMessage) {
        self.handle.send(ToolHostMessage::FromDaemon {
            session: SESSION,
            connection,
            message,
        });
    }

    /// Plays the session for one message of a tool.
    async fn step(&mut self) {
        let input = self.inputs.recv().await.expect("the tool host lives");
        if let SessionInput::Message {
            connection,
            message,
        } = input
        {
            self.hear(connection, message);
        }
    }

    fn hear(&mut self, connection: ConnectionId, message: ClientMessage) {
        match message {
            ClientMessage::Hello(hello) => {
                self.attached.push((connection, hello.name));
                let welcome = Welcome {
                    attachment: AttachmentId::new(connection.raw() + 100),
                    secret: Secret(uuid::Uuid::nil()),
                    incarnation: Incarnation(uuid::Uuid::nil()),
                    session: SESSION,
                    label: "main".to_owned(),
                    counter_floor: 1,
                    marks: Vec::new(),
                    snapshot_len: 0,
                };
                self.say(connection, ServerMessage::Welcome(welcome));
            }
            ClientMessage::Propose(proposal) => self.proposals.push((connection, proposal)),
            ClientMessage::Detach => self.detached.push(connection),
            ClientMessage::HashMark { hashes, .. } => self.hash_marks.push(hashes),
            _ => {}
        }
    }

    async fn order(&self, order: ToolOrder) -> Result<Answer, ErrorMessage> {
        let (reply, answer) = oneshot::channel();
        self.handle.send(ToolHostMessage::Order { order, reply });
        answer.await.unwrap()
    }

    async fn grant(&mut self, name: &str) {
        self.order(ToolOrder::Grant(name.to_owned())).await.unwrap();
        while !self.attached.iter().any(|(_, attached)| attached == name) {
            self.step().await;
        }
        self.until(name, |tool| tool.state == "running").await;
    }

    /// Asks for the list until a tool is as it should be; each question is an event of its own.
    async fn until(&mut self, name: &str, is_so: impl Fn(&ToolInfo) -> bool) -> ToolInfo {
        loop {
            let tools = self.handle.list().await;
            if let Some(tool) = tools
                .into_iter()
                .find(|tool| tool.name == name && is_so(tool))
            {
                return tool;
            }
            // What the tools say meanwhile is heard, so that none waits for the session.
            while let Ok(input) = self.inputs.try_recv() {
                if let SessionInput::Message {
                    connection,
                    message,
                } = input
                {
                    self.hear(connection, message);
                }
            }
            tokio::task::yield_now().await;
        }
    }

    async fn proposal(&mut self) -> (ConnectionId, Proposal) {
        while self.proposals.is_empty() {
            self.step().await;
        }
        self.proposals.remove(0)
    }
}

/// Returns where a built tool's file is.
fn built(name: &str, end: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let dirs = [
        root.join("plugins"),
        root.join("target/guests"),
        root.join("plugins").join(name),
    ];
    let paths = dirs.map(|dir| dir.join(format!("{name}.{end}")));
    let found = paths.iter().find(|path| path.exists());
    found
        .unwrap_or_else(|| panic!("no {name}.{end}: run `cargo xtask plugins` first"))
        .clone()
}

#[tokio::test]
async fn a_tool_waits_for_its_grant_and_then_answers_a_put_by_a_proposal() {
    let mut bench = Bench::new().await;
    bench.drop_in("tidy");
    let tool = bench.until("tidy", |tool| tool.state == "waiting").await;
    assert!(
        tool.note.contains("shard.propose buffer:*"),
        "{}",
        tool.note
    );
    assert!(tool.note.contains("apex tool grant tidy"), "{}", tool.note);
    assert!(bench.attached.is_empty(), "nothing runs without a grant");
    bench.grant("tidy").await;
    bench.put();
    let (connection, proposal) = bench.proposal().await;
    let base = bench
        .script
        .state
        .buffer(BufferId::new(7))
        .unwrap()
        .version();
    let [
        Change::Edit {
            base: of, splices, ..
        },
        Change::Put { .. },
    ] = proposal.changes.as_slice()
    else {
        panic!("{proposal:?}")
    };
    assert_eq!(*of, base);
    assert_eq!(splices[0].at, Span::new(9, 11));
    assert_eq!(
        (splices[1].at, splices[1].text.as_str()),
        (Span::at(16), "\n")
    );
    let landed = Landed {
        version: Version::new(9),
        ..Landed::default()
    };
    let outcome = Ok(vec![landed.clone(), landed]);
    let calls = bench.until("tidy", |tool| tool.entries >= 2).await.calls;
    bench.say(
        connection,
        ServerMessage::ProposeResult {
            id: proposal.id,
            outcome,
        },
    );
    bench.until("tidy", |tool| tool.calls > calls).await;
    let list = bench.handle.list().await;
    assert_eq!(
        list[0].attachments[0].1,
        AttachmentId::new(connection.raw() + 100)
    );
}

#[tokio::test]
async fn a_tool_reports_the_hash_of_the_tool_hosts_own_replica() {
    let mut bench = Bench::new().await;
    bench.drop_in("tidy");
    bench.until("tidy", |tool| tool.state == "waiting").await;
    bench.grant("tidy").await;
    bench.script.edit(7, Span::at(0), "// é\n");
    bench.publish();
    let connection = bench.attached[0].0;
    bench.say(connection, ServerMessage::HashQuery(RequestId::new(3)));
    while bench.hash_marks.is_empty() {
        bench.step().await;
    }
    let state = &bench.script.state;
    for (shard, seq) in state.marks() {
        let hash = bench.hash_marks[0]
            .iter()
            .find(|hash| hash.shard == shard)
            .unwrap();
        assert_eq!(
            (hash.seq, hash.state),
            (seq, state.shard_hash(shard)),
            "{shard}"
        );
    }
}

#[tokio::test]
async fn a_trapping_a_looping_and_a_hoarding_tool_leave_their_neighbour_alone() {
    let mut bench = Bench::new().await;
    for name in ["tidy", "trap", "loop", "alloc"] {
        bench.drop_in(name);
        bench.until(name, |tool| tool.state == "waiting").await;
        bench.grant(name).await;
    }
    bench.put();
    let (_, proposal) = bench.proposal().await;
    assert_eq!(proposal.changes.len(), 2, "tidy works beside them");
    // Each of them waits before its two restarts, in its own time.
    let mut waiting = std::collections::BTreeMap::new();
    while waiting.len() < 3 {
        let tools = bench.handle.list().await;
        let waits = tools.into_iter().filter(|tool| tool.state == "restarting");
        waiting.extend(waits.map(|tool| (tool.name, tool.note)));
    }
    for (name, what) in [
        ("trap", "trapped"),
        ("loop", "CPU time"),
        ("alloc", "32 MiB"),
    ] {
        let note = &waiting[name];
        assert!(
            note.contains(what) && note.contains("starts again"),
            "{name}: {note}"
        );
        let is_over = |tool: &ToolInfo| tool.state == "running" && tool.note.contains("skipped");
        let tool = bench.until(name, is_over).await;
        assert_eq!(tool.restarts, 2, "{name}: {}", tool.note);
        assert!(tool.note.contains(what), "{name}: {}", tool.note);
    }
    assert_eq!(bench.until("tidy", |_| true).await.restarts, 0);
}

#[tokio::test]
async fn a_replaced_file_waits_and_a_broken_one_is_listed_while_the_old_one_runs() {
    let mut bench = Bench::new().await;
    bench.drop_in("tidy");
    bench.until("tidy", |tool| tool.state == "waiting").await;
    bench.grant("tidy").await;
    let good = fs::read(built("tidy", "wasm")).unwrap();
    let path = bench.plugin("tidy.wasm");
    fs::write(&path, b"garbage").unwrap();
    let is_kept = |tool: &ToolInfo| tool.state == "running" && tool.note.contains("not taken");
    let tool = bench.until("tidy", is_kept).await;
    assert!(
        tool.note.contains("no WebAssembly component"),
        "{}",
        tool.note
    );
    fs::write(&path, &good[..good.len() / 2]).unwrap();
    bench
        .until("tidy", |tool| tool.note.contains("does not compile"))
        .await;
    fs::write(&path, &good).unwrap();
    bench
        .until("tidy", |tool| {
            tool.state == "running" && tool.note.is_empty()
        })
        .await;
    assert_eq!(bench.attached.len(), 1, "the same bytes start nothing");
    // The same component with an empty custom section behind it: other bytes.
    fs::write(&path, [good.as_slice(), &[0, 2, 1, b'x']].concat()).unwrap();
    let tool = bench
        .until("tidy", |tool| tool.note.contains("other bytes"))
        .await;
    assert_eq!(tool.state, "running");
    bench
        .order(ToolOrder::Grant("tidy".to_owned()))
        .await
        .unwrap();
    bench
        .until("tidy", |tool| {
            tool.state == "running" && tool.note.is_empty()
        })
        .await;
    while bench.attached.len() < 2 || bench.detached.is_empty() {
        bench.step().await;
    }
    fs::remove_file(&path).unwrap();
    while bench.detached.len() < 2 {
        bench.step().await;
    }
    assert!(bench.handle.list().await.is_empty());
}

#[tokio::test]
async fn a_revoked_tool_leaves_and_waits() {
    let mut bench = Bench::new().await;
    bench.drop_in("tidy");
    bench.until("tidy", |tool| tool.state == "waiting").await;
    bench.grant("tidy").await;
    bench
        .order(ToolOrder::Revoke("tidy".to_owned()))
        .await
        .unwrap();
    while bench.detached.is_empty() {
        bench.step().await;
    }
    bench.until("tidy", |tool| tool.state == "waiting").await;
    let error = bench
        .order(ToolOrder::Reload("tidy".to_owned()))
        .await
        .unwrap_err();
    assert!(error.message.contains("apex tool grant tidy"), "{error}");
    let error = bench
        .order(ToolOrder::Grant("tydi".to_owned()))
        .await
        .unwrap_err();
    assert!(error.message.contains("there are tidy"), "{error}");
}
