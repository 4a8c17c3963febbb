//! Files and commands as a peer meets them.

use std::os::unix::fs::PermissionsExt as _;

use apex_core::edit::Splice;
use apex_core::entry::SaveCause;
use apex_core::ids::{BufferId, GroupId, RequestId, Seq, Shard, ViewId};
use apex_core::limits;
use apex_core::message::{
    Answer, ClientMessage, ErrorCode, ErrorMessage, Query, Run, ServerMessage, SessionName,
};
use apex_core::node::windows::Placement;
use apex_core::proposal::Change;
use apex_core::text::Span;

use super::{Party, TestDaemon, test};
use crate::config::OUTLET_LEN_MAX;

async fn put(ui: &mut Party, buffer: BufferId, is_forced: bool) -> Result<Answer, ErrorMessage> {
    let node = ui.node();
    let version = node.state().buffer(buffer).unwrap().version();
    let epoch = node.log().lease(Shard::Buffer(buffer)).unwrap().epoch;
    ui.ask(|request| ClientMessage::FilePut {
        request,
        buffer,
        version,
        epoch,
        path: None,
        is_forced,
        cause: SaveCause::Put,
    })
    .await
}

/// Opens a file in a window of the leading UI, and waits until the UI leads the buffer.
async fn window_on(ui: &mut Party, path: &str) -> (BufferId, ViewId) {
    let (buffer, _) = ui.open(path).await.unwrap();
    ui.until(|ui| ui.client.node().unwrap().leads(Shard::Buffer(buffer)))
        .await;
    let column = ui.node().active_column().unwrap().id;
    let window = ui
        .node()
        .new_window(buffer, Placement::Column(column))
        .unwrap();
    (buffer, ViewId::Body(window))
}

fn type_at(ui: &mut Party, view: ViewId, at: u64, text: &str) {
    let group: GroupId = ui.node().new_group();
    let splice = Splice::new(Span::at(at), text);
    ui.node()
        .replace(view, splice, Span::at(at), group)
        .unwrap();
}

fn is_modified(ui: &Party, buffer: BufferId) -> bool {
    ui.client
        .node()
        .unwrap()
        .state()
        .buffer(buffer)
        .unwrap()
        .is_modified()
}

#[test]
fn a_file_is_opened_edited_and_put_byte_for_byte() {
    test(async {
        let daemon = TestDaemon::start();
        let path = daemon.path("bytes");
        std::fs::write(&path, b"a\r\n\xFF\x00b").unwrap();
        let mut ui = daemon.ui().await;
        let (buffer, view) = window_on(&mut ui, path.to_str().unwrap()).await;
        assert!(!is_modified(&ui, buffer));
        type_at(&mut ui, view, 3, "new ");
        assert!(is_modified(&ui, buffer));
        assert_eq!(put(&mut ui, buffer, false).await, Ok(Answer::Done));
        assert_eq!(std::fs::read(&path).unwrap(), b"a\r\nnew \xFF\x00b");
        ui.until(|ui| !is_modified(ui, buffer)).await;
    });
}

#[test]
fn a_file_that_changed_on_disk_is_not_overwritten_until_it_is_forced() {
    test(async {
        let daemon = TestDaemon::start();
        let path = daemon.path("file");
        std::fs::write(&path, "one\n").unwrap();
        let mut ui = daemon.ui().await;
        let (buffer, view) = window_on(&mut ui, path.to_str().unwrap()).await;
        type_at(&mut ui, view, 0, "mine ");
        std::fs::write(&path, "two\n").unwrap();
        let error = put(&mut ui, buffer, false).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ChangedOnDisk);
        assert!(error.message.contains("Put!"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(put(&mut ui, buffer, true).await, Ok(Answer::Done));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine one\n");
        type_at(&mut ui, view, 0, "still ");
        assert_eq!(put(&mut ui, buffer, false).await, Ok(Answer::Done));
    });
}

#[test]
fn a_new_file_does_not_overwrite_one_that_came_meanwhile() {
    test(async {
        let daemon = TestDaemon::start();
        let path = daemon.path("new");
        let mut ui = daemon.ui().await;
        let (buffer, is_new) = ui.open(path.to_str().unwrap()).await.unwrap();
        assert!(is_new);
        ui.until(|ui| ui.client.node().unwrap().leads(Shard::Buffer(buffer)))
            .await;
        std::fs::write(&path, "theirs").unwrap();
        let error = put(&mut ui, buffer, false).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ChangedOnDisk);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
    });
}

#[test]
fn a_put_under_a_stale_epoch_is_refused() {
    test(async {
        let daemon = TestDaemon::start();
        let path = daemon.path("file");
        std::fs::write(&path, "one").unwrap();
        let mut ui = daemon.ui().await;
        let (buffer, view) = window_on(&mut ui, path.to_str().unwrap()).await;
        type_at(&mut ui, view, 0, "x");
        let version = ui.node().state().buffer(buffer).unwrap().version();
        let epoch = ui.node().log().lease(Shard::Buffer(buffer)).unwrap().epoch;
        let mut second = daemon.ui().await;
        let leads = |party: &Party| party.client.node().unwrap().leads(Shard::Buffer(buffer));
        while leads(&ui) {
            ui.step().await;
        }
        second.until(leads).await;
        let answer = ui
            .ask(|request| ClientMessage::FilePut {
                request,
                buffer,
                version,
                epoch,
                path: None,
                is_forced: true,
                cause: SaveCause::Put,
            })
            .await;
        assert_eq!(answer.unwrap_err().code, ErrorCode::Fenced);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    });
}

#[test]
fn what_cannot_be_opened_or_written_says_why() {
    test(async {
        let daemon = TestDaemon::start();
        let path = daemon.path("locked");
        std::fs::write(&path, "one").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
        let mut ui = daemon.ui().await;
        let (buffer, view) = window_on(&mut ui, path.to_str().unwrap()).await;
        type_at(&mut ui, view, 0, "x");
        let error = put(&mut ui, buffer, false).await.unwrap_err();
        assert!(error.message.contains("read-only"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        let error = ui.open("/dev/null").await.unwrap_err();
        assert!(error.message.contains("character device"), "{error}");
        let error = ui.open("").await.unwrap_err();
        assert!(error.message.contains("no file name"), "{error}");
    });
}

#[test]
fn a_directory_is_a_listing_and_opens_once() {
    test(async {
        let daemon = TestDaemon::start();
        std::fs::create_dir_all(daemon.path("d/sub")).unwrap();
        std::fs::write(daemon.path("d/z"), "").unwrap();
        let mut ui = daemon.ui().await;
        let name = daemon.path("d");
        let (buffer, _) = ui.open(name.to_str().unwrap()).await.unwrap();
        assert_eq!(ui.text_of(buffer), "sub/\nz\n");
        let found = ui.node().state().buffer(buffer).unwrap().name().to_owned();
        assert_eq!(found, format!("{}/", name.display()));
        assert_eq!(ui.open(&found).await.unwrap(), (buffer, false));
        assert_eq!(
            ui.open(&format!("{found}../d/.")).await.unwrap(),
            (buffer, false)
        );
    });
}

#[test]
fn a_large_file_is_there_after_its_first_piece_and_whole_at_the_end() {
    test(async {
        let daemon = TestDaemon::start();
        let line = "0123456789 abcdefghijklmnopqrstuvwxyz é\n";
        let text = line.repeat(20 * limits::PIECE_LEN_MAX / line.len());
        let path = daemon.path("large");
        std::fs::write(&path, &text).unwrap();
        let mut ui = daemon.ui().await;
        let (buffer, _) = ui.open(path.to_str().unwrap()).await.unwrap();
        let len = ui.text_of(buffer).len();
        assert!(len > 0 && len < text.len(), "{len}");
        ui.until(|ui| ui.client.node().unwrap().leads(Shard::Buffer(buffer)))
            .await;
        assert!(ui.text_of(buffer) == text);
        assert!(!is_modified(&ui, buffer));
        assert!(
            daemon
                .peer()
                .await
                .text(path.to_str().unwrap())
                .await
                .unwrap()
                == text
        );
        // The log has let go of its first pieces; whoever comes later lacks nothing.
        let late = daemon.tool().await;
        assert!(late.text_of(buffer) == text);
        let query = Query::Entries {
            shard: Shard::Buffer(buffer),
            from: Seq::new(1),
        };
        let session = Some(SessionName::Label("main".into()));
        let request = RequestId::new(4);
        let ask = ClientMessage::Query {
            request,
            session,
            query,
        };
        let Ok(Answer::Entries {
            floor: kept, head, ..
        }) = daemon.peer().await.ask(ask).await
        else {
            panic!("no entries");
        };
        assert!(Seq::new(1) < kept && kept < head, "{kept}");
    });
}

#[test]
fn get_brings_the_file_back_as_one_step_of_undo() {
    test(async {
        let daemon = TestDaemon::start();
        let path = daemon.path("file");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let mut ui = daemon.ui().await;
        let (buffer, view) = window_on(&mut ui, path.to_str().unwrap()).await;
        std::fs::write(&path, "one\n2\nthree\n").unwrap();
        let answer = ui
            .ask(|request| ClientMessage::FileGet { request, buffer })
            .await;
        assert_eq!(answer, Ok(Answer::Done));
        ui.until(|ui| !is_modified(ui, buffer)).await;
        assert_eq!(ui.text_of(buffer), "one\n2\nthree\n");
        ui.node().undo(view).unwrap();
        assert_eq!(ui.text_of(buffer), "one\ntwo\n");
        std::fs::remove_file(&path).unwrap();
        let answer = ui
            .ask(|request| ClientMessage::FileGet { request, buffer })
            .await;
        assert!(answer.unwrap_err().message.contains("cannot read"));
    });
}

#[test]
fn a_command_writes_to_the_error_window_and_can_be_killed() {
    test(async {
        let daemon = TestDaemon::start();
        let mut tool = daemon.tool().await;
        let directory = daemon.dir.path().to_str().unwrap().to_owned();
        let run = |command: &str| Run {
            directory: directory.clone(),
            command: command.into(),
            input: String::new(),
            environment: Vec::new(),
        };
        let first = run("echo out; echo err >&2; exit 3");
        let answer = tool
            .ask(|request| ClientMessage::Run {
                request,
                run: first,
            })
            .await;
        assert!(matches!(answer, Ok(Answer::Started(_))), "{answer:?}");
        let name = format!("{directory}/+Errors");
        let errors = |tool: &Party| {
            let state = tool.client.node().unwrap().state();
            let id = state.buffer_named(&name);
            id.map(|id| tool.text_of(id)).unwrap_or_default()
        };
        tool.until(|tool| errors(tool).ends_with("exit status 3\n"))
            .await;
        assert!(errors(&tool).starts_with("out\nerr\n"));

        let second = run("echo begin; sleep 1000 & sleep 1000");
        let answer = tool
            .ask(|request| ClientMessage::Run {
                request,
                run: second,
            })
            .await;
        let Ok(Answer::Started(process)) = answer else {
            panic!("{answer:?}")
        };
        tool.until(|tool| errors(tool).ends_with("begin\n")).await;
        let answer = tool
            .ask(|request| ClientMessage::Kill { request, process })
            .await;
        assert_eq!(answer, Ok(Answer::Done));
        tool.until(|tool| errors(tool).ends_with("ended by signal 15\n"))
            .await;
        let missing = Run {
            directory: "/no/such".into(),
            ..run("true")
        };
        let answer = tool
            .ask(|request| ClientMessage::Run {
                request,
                run: missing,
            })
            .await;
        assert!(answer.unwrap_err().message.contains("/no/such"));
    });
}

#[test]
fn with_no_ui_a_tool_opens_edits_and_puts_through_the_daemon() {
    test(async {
        let daemon = TestDaemon::start();
        let path = daemon.path("file");
        std::fs::write(&path, "a  \n").unwrap();
        let mut tool = daemon.tool().await;
        let (buffer, _) = tool.open(path.to_str().unwrap()).await.unwrap();
        let has_saved = |tool: &Party| {
            tool.client
                .node()
                .unwrap()
                .state()
                .buffer(buffer)
                .is_some_and(|b| b.saved().is_some())
        };
        tool.until(has_saved).await;
        let base = tool.node().state().buffer(buffer).unwrap().version();
        let splices = vec![Splice::new(Span::new(1, 3), "")];
        let changes = vec![
            Change::Edit {
                buffer,
                base,
                splices,
            },
            Change::Put {
                buffer,
                version: base,
            },
        ];
        let (_, propose) = tool.client.propose(changes).unwrap();
        tool.send(propose).await;
        let is_put = |tool: &Party| {
            let found = tool.client.node().unwrap().state().buffer(buffer).unwrap();
            found
                .saved()
                .is_some_and(|saved| saved.cause == SaveCause::Tool)
        };
        tool.until(is_put).await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\n");
        assert!(!is_modified(&tool, buffer));

        // What cannot be put is told in the error window, because nobody waits for an answer.
        std::fs::write(&path, "theirs\n").unwrap();
        let base = tool.node().state().buffer(buffer).unwrap().version();
        let changes = vec![Change::Put {
            buffer,
            version: base,
        }];
        let (_, propose) = tool.client.propose(changes).unwrap();
        tool.send(propose).await;
        let name = format!("{}/+Errors", daemon.dir.path().display());
        let is_told = |tool: &Party| {
            let id = tool.client.node().unwrap().state().buffer_named(&name);
            id.is_some_and(|id| tool.text_of(id).contains("changed on disk"))
        };
        tool.until(is_told).await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs\n");
    });
}

#[test]
fn a_follower_that_does_not_read_gets_a_fresh_snapshot_and_delays_nobody() {
    test(async {
        let daemon = TestDaemon::start();
        let mut slow = daemon.tool().await;
        let mut ui = daemon.ui().await;
        let path = daemon.path("new");
        let (buffer, view) = window_on(&mut ui, path.to_str().unwrap()).await;
        let piece = "x".repeat(limits::PIECE_LEN_MAX / 2);
        let count = 6 * OUTLET_LEN_MAX / piece.len();
        for _ in 0..count {
            type_at(&mut ui, view, 0, &piece);
            ui.send(ClientMessage::Ping(1)).await;
            ui.until(|ui| ui.client.unacked_count() == 0).await;
        }
        let len = ui.text_of(buffer).len();
        let mut welcomes = 0;
        while slow.text_of(buffer).len() != len {
            let message = slow.peer.receive().await.unwrap();
            welcomes += usize::from(matches!(message, ServerMessage::Welcome(_)));
            let mut out = Vec::new();
            slow.client.receive(message, &mut out);
            assert!(out.is_empty(), "a gap was seen");
        }
        assert_eq!(welcomes, 1);
    });
}
