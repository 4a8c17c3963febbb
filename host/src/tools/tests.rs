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
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::ToolHost;
use super::testing::{Script, UNKNOWN_IMPORT};
use crate::seam::{
    ConnectionIds, RESTART_WAIT_MS, SessionInput, SessionLink, SessionOpened, SessionRecords,
    SessionSnapshot, ToolConfig, ToolHandle, ToolHostMessage, Wish,
};

const SESSION: SessionId = SessionId(uuid::Uuid::nil());

/// A tool host, its directories, and one scripted session.
struct Bench {
    dir: PathBuf,
    handle: ToolHandle,
    script: Script,
    inputs: mpsc::Receiver<SessionInput>,
    wished: watch::Receiver<Wish>,
    /// The wish that is being served.
    wish: Wish,
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
        Self::with_restart_wait(RESTART_WAIT_MS).await
    }

    /// Returns one whose tools are started again after this wait.
    async fn with_restart_wait(restart_wait_ms: u64) -> Self {
        let dir = std::env::temp_dir().join(format!("apex-tools-{}", uuid::Uuid::new_v4()));
        fs::create_dir_all(dir.join("plugins")).unwrap();
        let handle = ToolHost::start(ToolConfig {
            plugin_dirs: vec![dir.join("plugins"), dir.join("data/plugins")],
            grants_path: dir.join("config/grants.toml"),
            // Shared by all tests, so that a component is compiled once.
            cache_dir: std::env::temp_dir().join("apex-test-cache"),
            data_dir: dir.join("data/tool"),
            restart_wait_ms,
        });
        let (sender, inputs) = mpsc::channel(64);
        let mut script = Script::new();
        script.buffer(7, "/src/x.rs", "fn a() {}  \nlast");
        script.window(9, 7);
        script.take();
        let (link, wished) = SessionLink::new(sender, handle.sender(), ConnectionIds::default());
        handle.send(ToolHostMessage::SessionOpened(SessionOpened {
            session: SESSION,
            link,
        }));
        Self {
            dir,
            handle,
            script,
            inputs,
            wished,
            wish: None,
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

    /// Serves what the tool host wishes now.
    fn serve(&mut self) {
        self.wish = *self.wished.borrow_and_update();
        if let Some(wish) = self.wish {
            self.handle.send(ToolHostMessage::Snapshot(SessionSnapshot {
                session: SESSION,
                wish,
                snapshot: self.script.state.clone(),
                marks: self.script.marks(),
            }));
        }
    }

    /// Waits until the tool host wishes so, and serves it.
    async fn until_wished(&mut self, wish: Wish) {
        while self.wish != wish {
            tokio::select! {
                changed = self.wished.changed() => {
                    changed.unwrap();
                    self.serve();
                }
                input = self.inputs.recv() => self.take(input.unwrap()),
            }
        }
    }

    /// Waits until so many attachments have left; what a connection says and what is wished come
    /// by two ways, in either order.
    async fn until_left(&mut self, count: usize) {
        while self.detached.len() < count {
            self.step().await;
        }
        assert_eq!(self.detached.len(), count);
    }

    fn publish(&mut self) {
        let records: Arc<[_]> = self.script.take().into();
        if self.wish.is_none() {
            return;
        }
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
        tokio::select! {
            input = self.inputs.recv() => self.take(input.expect("the tool host lives")),
            changed = self.wished.changed() => {
                changed.unwrap();
                self.serve();
            }
        }
    }

    fn take(&mut self, input: SessionInput) {
        if let SessionInput::Messages {
            connection,
            messages,
        } = input
        {
            for message in messages {
                self.hear(connection, message);
            }
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

    async fn log(&self, name: &str) -> Vec<String> {
        let (reply, answer) = oneshot::channel();
        let tool = name.to_owned();
        self.handle.send(ToolHostMessage::Log { tool, reply });
        answer.await.unwrap().unwrap()
    }

    /// Asks a tool for its hashes and checks that they are the session's.
    async fn check_hashes(&mut self) {
        let connection = self.attached.last().unwrap().0;
        self.hash_marks.clear();
        self.say(connection, ServerMessage::HashQuery(RequestId::new(3)));
        while self.hash_marks.is_empty() {
            self.step().await;
        }
        let state = &self.script.state;
        let hashes = &self.hash_marks[0];
        assert_eq!(hashes.len(), state.marks().count());
        for (shard, seq) in state.marks() {
            let hash = hashes.iter().find(|hash| hash.shard == shard).unwrap();
            let expected = (seq, state.shard_hash(shard));
            assert_eq!((hash.seq, hash.state), expected, "{shard}");
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
                self.take(input);
            }
            if self.wished.has_changed().unwrap() {
                self.serve();
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
    bench.check_hashes().await;
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
    bench.until_left(2).await;
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
    bench.until_left(1).await;
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

#[tokio::test]
async fn a_session_is_followed_only_while_a_tool_is_there() {
    let mut bench = Bench::new().await;
    bench.drop_in("tidy");
    bench.until("tidy", |tool| tool.state == "waiting").await;
    assert_eq!(bench.wish, None, "no tool, no second copy of the texts");
    bench.grant("tidy").await;
    assert_eq!(bench.wish, Some(1));
    bench.check_hashes().await;
    let revoked = bench.order(ToolOrder::Revoke("tidy".to_owned())).await;
    revoked.unwrap();
    bench.until_wished(None).await;
    bench.script.edit(7, Span::at(0), "meanwhile\n");
    bench.publish();
    bench.attached.clear();
    bench.grant("tidy").await;
    assert_eq!(bench.wish, Some(2));
    bench.script.edit(7, Span::at(0), "and on\n");
    bench.publish();
    bench.check_hashes().await;
}

#[tokio::test]
async fn a_replica_that_stands_still_says_what_helps_and_that_helps() {
    let mut bench = Bench::new().await;
    bench.drop_in("tidy");
    bench.until("tidy", |tool| tool.state == "waiting").await;
    bench.grant("tidy").await;
    bench.script.edit(7, Span::at(0), "lost on the way\n");
    bench.script.take();
    bench.script.edit(7, Span::at(0), "and another\n");
    bench.publish();
    let tool = bench.until("tidy", |tool| tool.state == "failed").await;
    assert!(tool.note.contains("stands still"), "{}", tool.note);
    let advice = "`apex tool reload tidy` makes a fresh copy";
    assert!(tool.note.contains(advice), "{}", tool.note);
    let reloaded = bench.order(ToolOrder::Reload("tidy".to_owned())).await;
    reloaded.unwrap();
    bench.until_wished(Some(2)).await;
    let is_well = |tool: &ToolInfo| tool.state == "running" && tool.note.is_empty();
    bench.until("tidy", is_well).await;
    bench.check_hashes().await;
    bench.put();
    assert_eq!(bench.proposal().await.1.changes.len(), 2, "it works again");
}

#[tokio::test]
async fn a_tool_that_ends_six_times_is_given_up_and_followed_no_more() {
    let mut bench = Bench::with_restart_wait(1).await;
    bench.drop_in("trap");
    bench.until("trap", |tool| tool.state == "waiting").await;
    bench.grant("trap").await;
    // It ends twice on each put, whose entry is skipped then.
    for restarts in [2, 4] {
        bench.put();
        let is_back = |tool: &ToolInfo| tool.state == "running" && tool.restarts == restarts;
        bench.until("trap", is_back).await;
    }
    bench.put();
    let tool = bench.until("trap", |tool| tool.state == "failed").await;
    assert_eq!(tool.restarts, 5);
    for words in [
        "trapped",
        "given up after 5 restarts within 60 s",
        "`apex tool reload trap`",
    ] {
        assert!(tool.note.contains(words), "{}", tool.note);
    }
    bench.until_wished(None).await;
    assert_eq!(bench.attached.len(), 1, "it was attached once");
    bench.until_left(1).await;
    let reloaded = bench.order(ToolOrder::Reload("trap".to_owned())).await;
    reloaded.unwrap();
    bench.until_wished(Some(2)).await;
    let is_anew = |tool: &ToolInfo| tool.state == "running" && tool.restarts == 0;
    bench.until("trap", is_anew).await;
}

#[tokio::test]
async fn what_is_no_tool_is_listed_with_the_reason_and_looked_at_once() {
    let mut bench = Bench::new().await;
    let good = fs::read(built("trap", "wasm")).unwrap();
    let cases: [(&str, &[u8], &str); 5] = [
        ("empty", b"", "no WebAssembly component"),
        ("module", b"\0asm\x01\0\0\0", "not a component"),
        ("short", &good[..good.len() / 3], "does not compile"),
        (
            "import",
            UNKNOWN_IMPORT,
            "an import that this apex does not have",
        ),
        (
            "export",
            b"\0asm\x0d\0\x01\0",
            "exports no apex:tool/lifecycle",
        ),
    ];
    for (name, bytes, _) in cases {
        fs::copy(built("trap", "toml"), bench.plugin(&format!("{name}.toml"))).unwrap();
        fs::write(bench.plugin(&format!("{name}.wasm")), bytes).unwrap();
    }
    bench.drop_in("tidy");
    for (name, _, why) in cases {
        let tool = bench.until(name, |tool| tool.state == "invalid").await;
        assert!(tool.note.contains(why), "{name}: {}", tool.note);
        let next = "looked at again when the file changes";
        assert!(tool.note.contains(next), "{name}: {}", tool.note);
        let error = bench.order(ToolOrder::Grant(name.to_owned())).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    let tool = bench.until("import", |_| true).await;
    assert!(tool.note.contains("launch"), "{}", tool.note);
    bench.until("tidy", |tool| tool.state == "waiting").await;
    bench.grant("tidy").await;
    // Each list and each order was a look at the directories.
    for (name, ..) in cases {
        let log = bench.log(name).await;
        let refusals = log.iter().filter(|line| line.contains("not taken"));
        assert_eq!(refusals.count(), 1, "{name}: {log:?}");
    }
    assert_eq!(bench.attached.len(), 1, "tidy alone runs");
}
