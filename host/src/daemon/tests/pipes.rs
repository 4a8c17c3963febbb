//! Commands for edits: what they read and print, how they end, what becomes of it meanwhile.

use std::fmt::Write as _;

use apex_core::ids::{BufferId, ProcessId, RequestId, Shard, Version, ViewId};
use apex_core::limits::YIELD_LEN_MAX;
use apex_core::message::{
    Answer, ClientMessage, ErrorCode, ErrorMessage, Pipe, PipeInput, PipeOutput,
};
use apex_core::node::windows::Placement;
use apex_core::text::Span;

use super::{Party, TestDaemon, test};

/// A UI with a text of its own in the directory of the daemon.
async fn with_text(daemon: &TestDaemon, text: &str) -> (Party, BufferId, ViewId) {
    let path = daemon.path("file");
    std::fs::write(&path, text).unwrap();
    let mut ui = daemon.ui().await;
    let (buffer, _) = ui.open(path.to_str().unwrap()).await.unwrap();
    ui.until(|ui| {
        let node = ui.client.node().unwrap();
        node.leads(Shard::Buffer(buffer))
    })
    .await;
    let window = ui.node().new_window(buffer, Placement::Active).unwrap();
    (ui, buffer, ViewId::Body(window))
}

fn pipe(daemon: &TestDaemon, command: &str, input: Option<PipeInput>) -> Pipe {
    Pipe {
        directory: daemon.dir.path().to_str().unwrap().into(),
        command: command.into(),
        environment: vec![("samfile".into(), "/the file".into())],
        input,
        output: PipeOutput::Answer,
    }
}

fn part(ui: &mut Party, buffer: BufferId, at: Span) -> PipeInput {
    let version = ui.node().state().buffer(buffer).unwrap().version();
    PipeInput {
        buffer,
        version,
        at,
    }
}

/// Begins a command, and returns its request and its process.
async fn begin(ui: &mut Party, pipe: Pipe) -> Result<(RequestId, ProcessId), ErrorMessage> {
    let request = ui.client.next_request();
    ui.send(ClientMessage::Pipe { request, pipe }).await;
    match ui.reply(request).await? {
        Answer::Started(process) => Ok((request, process)),
        other => panic!("{other:?}"),
    }
}

/// Returns what a command printed, and its exit code.
async fn end(ui: &mut Party, request: RequestId) -> Result<(String, i32), ErrorMessage> {
    let mut text = String::new();
    loop {
        match ui.reply(request).await? {
            Answer::Text(piece) => text.push_str(&piece),
            Answer::Exited(code) => return Ok((text, code)),
            other => panic!("{other:?}"),
        }
    }
}

async fn run(ui: &mut Party, pipe: Pipe) -> Result<(String, i32), ErrorMessage> {
    let (request, _) = begin(ui, pipe).await?;
    end(ui, request).await
}

fn errors(ui: &Party, daemon: &TestDaemon) -> String {
    let name = format!("{}/+Errors", daemon.dir.path().to_str().unwrap());
    let state = ui.client.node().unwrap().state();
    let id = state.buffer_named(&name);
    id.map(|id| ui.text_of(id)).unwrap_or_default()
}

#[test]
fn a_command_reads_a_part_and_its_output_comes_back_apart_from_its_errors() {
    test(async {
        let daemon = TestDaemon::start();
        let (mut ui, buffer, _) = with_text(&daemon, "x\nc\nb\na\nx\n").await;
        let input = part(&mut ui, buffer, Span::new(2, 8));
        let sorted = run(&mut ui, pipe(&daemon, "sort", Some(input))).await;
        assert_eq!(sorted, Ok(("a\nb\nc\n".into(), 0)));
        let command = "wc -l; echo \"$samfile\" >&2; exit 3";
        let failed = run(&mut ui, pipe(&daemon, command, Some(input)))
            .await
            .unwrap();
        assert_eq!((failed.0.trim(), failed.1), ("3", 3));
        ui.until(|ui| errors(ui, &daemon).contains("exit status 3"))
            .await;
        assert!(errors(&ui, &daemon).starts_with("/the file\n"));
        let nothing = run(&mut ui, pipe(&daemon, "cat; nosuchcommand", None)).await;
        assert_eq!(nothing, Ok((String::new(), 127)));
    });
}

#[test]
fn output_may_be_long_but_not_endless() {
    test(async {
        let daemon = TestDaemon::start();
        let mut line = String::new();
        for number in 0..200_000 {
            let _infallible = writeln!(line, "line {number} é");
        }
        let (mut ui, buffer, _) = with_text(&daemon, &line).await;
        let len = ui.node().state().buffer(buffer).unwrap().text().len();
        let input = part(&mut ui, buffer, Span::new(0, len));
        let copied = run(&mut ui, pipe(&daemon, "cat", Some(input)))
            .await
            .unwrap();
        assert!(copied == (line, 0));
        let endless = run(&mut ui, pipe(&daemon, "yes", None)).await.unwrap_err();
        assert_eq!(endless.code, ErrorCode::Limit);
        assert!(endless.message.contains(&YIELD_LEN_MAX.to_string()));
        ui.until(|ui| errors(ui, &daemon).contains("ended by signal 9"))
            .await;
    });
}

#[test]
fn a_command_that_never_ends_is_killed_while_typing_goes_on() {
    test(async {
        let daemon = TestDaemon::start();
        let (mut ui, buffer, view) = with_text(&daemon, "one two").await;
        let input = part(&mut ui, buffer, Span::new(0, 3));
        let endless = pipe(&daemon, "cat; echo half; sleep 1000", Some(input));
        let (request, process) = begin(&mut ui, endless).await.unwrap();
        let mut printed = String::new();
        while printed != "onehalf\n" {
            match ui.reply(request).await {
                Ok(Answer::Text(piece)) => printed.push_str(&piece),
                other => panic!("{other:?}"),
            }
        }
        let group = ui.node().new_group();
        ui.node().select(view, Span::at(7)).unwrap();
        ui.node().type_text(view, " three", group).unwrap();
        let answer = ui
            .ask(|request| ClientMessage::Kill { request, process })
            .await;
        assert_eq!(answer, Ok(Answer::Done));
        assert_eq!(end(&mut ui, request).await, Ok((String::new(), 143)));
        assert_eq!(ui.text_of(buffer), "one two three");
    });
}

#[test]
fn a_part_is_found_in_a_newer_version_or_refused_as_changed() {
    test(async {
        let daemon = TestDaemon::start();
        let (mut ui, buffer, view) = with_text(&daemon, "one two").await;
        let input = part(&mut ui, buffer, Span::new(4, 7));
        let group = ui.node().new_group();
        ui.node().select(view, Span::at(0)).unwrap();
        ui.node().type_text(view, "zero ", group).unwrap();
        let two = run(&mut ui, pipe(&daemon, "cat", Some(input))).await;
        assert_eq!(two, Ok(("two".into(), 0)));
        ui.node().select(view, Span::new(10, 11)).unwrap();
        ui.node().type_text(view, "-", group).unwrap();
        for (version, at, code) in [
            (input.version, input.at, ErrorCode::Retry),
            (Version::new(99), input.at, ErrorCode::Retry),
        ] {
            let input = PipeInput {
                version,
                at,
                ..input
            };
            let refused = run(&mut ui, pipe(&daemon, "cat", Some(input))).await;
            assert_eq!(refused.unwrap_err().code, code);
        }
        let past = part(&mut ui, buffer, Span::new(4, 70));
        let refused = run(&mut ui, pipe(&daemon, "cat", Some(past))).await;
        assert_eq!(refused.unwrap_err().code, ErrorCode::BadOp);
    });
}

#[test]
fn what_a_command_prints_may_go_to_the_error_window() {
    test(async {
        let daemon = TestDaemon::start();
        let (mut ui, buffer, _) = with_text(&daemon, "b\na\n").await;
        let input = part(&mut ui, buffer, Span::new(0, 4));
        let mut sort = pipe(&daemon, "sort; echo err >&2", Some(input));
        sort.output = PipeOutput::Errors;
        begin(&mut ui, sort).await.unwrap();
        ui.until(|ui| errors(ui, &daemon) == "a\nb\nerr\n").await;
    });
}

#[test]
fn files_are_read_and_parts_written_without_a_window() {
    test(async {
        let daemon = TestDaemon::start();
        let (mut ui, buffer, _) = with_text(&daemon, "one\ntwo\nthree\n").await;
        std::fs::write(daemon.path("other"), b"\xc3\xa9\xff\n").unwrap();
        let directory = daemon.dir.path().to_str().unwrap().to_owned();
        let read = async |ui: &mut Party, path: &str| {
            let request = ui.client.next_request();
            let (directory, path) = (directory.clone(), path.into());
            ui.send(ClientMessage::FileRead {
                request,
                directory,
                path,
            })
            .await;
            let mut text = String::new();
            loop {
                match ui.reply(request).await {
                    Ok(Answer::Text(piece)) => text.push_str(&piece),
                    Ok(_) => return Ok(text),
                    Err(error) => return Err(error),
                }
            }
        };
        assert_eq!(read(&mut ui, "file").await.unwrap(), "one\ntwo\nthree\n");
        assert!(read(&mut ui, "other").await.unwrap().starts_with('é'));
        assert_eq!(
            read(&mut ui, "none").await.unwrap_err().code,
            ErrorCode::NotFound
        );
        let version = ui.node().state().buffer(buffer).unwrap().version();
        let epoch = ui.node().log().lease(Shard::Buffer(buffer)).unwrap().epoch;
        for (path, code) in [
            ("part", None),
            ("other", Some(ErrorCode::ChangedOnDisk)),
            ("file", Some(ErrorCode::BadOp)),
        ] {
            let path = format!("{directory}/{path}");
            let at = Span::new(4, 8);
            let answer = ui
                .ask(|request| ClientMessage::FileWrite {
                    request,
                    buffer,
                    version,
                    epoch,
                    at,
                    path,
                })
                .await;
            assert_eq!(answer.err().map(|error| error.code), code);
        }
        assert_eq!(
            std::fs::read_to_string(daemon.path("part")).unwrap(),
            "two\n"
        );
    });
}
