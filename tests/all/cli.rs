//! The commands of `apex`, run for real: the built programs, a daemon that they start.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::thread;

use apex_core::edit::Splice;
use apex_core::entry::AttachmentKind;
use apex_core::ids::{AttachmentId, BufferId, ProposalId, Version};
use apex_core::message::{ClientMessage, Hello, ServerMessage, SessionName, Takeover};
use apex_core::proposal::{Atomicity, Change, Outcome, Proposal};
use apex_core::text::Span;
use apex_core::wire::Preamble;
use apex_tests::harness::home::text;
use apex_tests::harness::{Ended, Home};
use apex_ui::link::Link;
use apex_ui::link::runtime::{RuntimeDir, Surroundings};

#[test]
fn a_session_is_made_listed_renamed_and_killed_by_its_name() {
    let home = Home::new();
    home.ok(&["new", "one"]);
    let listed = home.json(&["ls", "--json"]);
    assert_eq!(listed[0]["label"], "one");
    assert_eq!(listed[0]["leader"], 0);
    assert_eq!(listed[0]["windows"], 1, "the daemon lays a session out");
    let again = home.run(&["new", "one"]);
    assert_eq!(again.code, Some(1), "{}", again.stderr);
    home.ok(&["rename", "one", "two words"]);
    assert!(home.ok(&["ls"]).starts_with("two words  1 window  "));
    let missing = home.run(&["kill", "one"]);
    assert_eq!(missing.code, Some(3));
    assert!(
        missing.stderr.contains("there are: two words"),
        "{}",
        missing.stderr
    );
    home.ok(&["kill", "two words"]);
    assert_eq!(home.ok(&["ls"]), "");
    assert_eq!(home.json(&["ls", "--json"]), serde_json::json!([]));
}

#[test]
fn programs_that_start_at_once_share_one_daemon() {
    let home = Home::new();
    let names = ["a", "b", "c", "d", "e"];
    let children = names.map(|name| home.command(&["new", name]).spawn().unwrap());
    for child in children {
        let ended = Ended::new(child.wait_with_output().unwrap());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    }
    let listed = home.json(&["ls", "--json"]);
    let mut labels: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["label"].as_str())
        .collect();
    labels.sort_unstable();
    assert_eq!(labels, names.map(Some));
}

#[test]
fn cat_prints_the_bytes_of_a_file_exactly_whatever_they_are() {
    let home = Home::new();
    let every_byte: Vec<u8> = (0..=255).chain(0..=255).collect();
    for (name, bytes) in [
        ("plain", &b"one\ntwo\n"[..]),
        ("no newline", b"one\r\ntwo  "),
        ("empty", b""),
        (
            "utf8",
            "sm\u{f6}rg\u{e5}s \u{1f41f} \u{10ff80}\n".as_bytes(),
        ),
        ("invalid", b"\xff\xfe caf\xe9 \xf0\x9f\x90 \xed\xa0\x80\n"),
        ("every byte", &every_byte),
        ("large", &b"0123456789abcdef\xe9".repeat(200_000)),
    ] {
        home.file(name, bytes);
        let id = home.ok(&["open", name]);
        for buffer in [id.trim(), name, text(&home.files().join(name))] {
            let ended = home.run(&["cat", buffer]);
            assert_eq!(ended.code, Some(0), "{name}: {}", ended.stderr);
            assert!(ended.stdout == bytes, "{name} by {buffer} differs");
        }
    }
}

#[test]
fn open_goes_to_the_address_and_tells_the_buffer() {
    let home = Home::new();
    home.file("a", b"one\ntwo\nthree\n");
    let id = home.ok(&["open", "a:2"]);
    let id = id.trim();
    let log = home.ok(&["log", &format!("buffer/{id}")]);
    assert!(
        log.contains("Span { q0: 4, q1: 8 }") || log.contains("4..8"),
        "{log}"
    );
    let buffers = home.json(&["ls", "--buffers", "--json"]);
    let opened = buffers
        .as_array()
        .unwrap()
        .iter()
        .find(|buffer| buffer["id"].as_u64() == id.parse().ok());
    assert_eq!(opened.unwrap()["name"], text(&home.files().join("a")));
    let again = home.ok(&["open", "a"]);
    assert_eq!(again.trim(), id, "an open file is not opened twice");
}

#[test]
fn a_session_that_is_made_shows_the_working_directory() {
    let home = Home::new();
    home.file("a", b"one\n");
    home.ok(&["new", "one"]);
    home.ok(&["--session", "two", "open", "a"]);
    for (session, windows) in [("one", 1), ("two", 2)] {
        let buffers = home.json(&["--session", session, "ls", "--buffers", "--json"]);
        let names: Vec<_> = buffers
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|buffer| buffer["name"].as_str())
            .filter(|name| name.ends_with('/'))
            .map(str::to_owned)
            .collect();
        assert_eq!(names, [format!("{}/", text(&home.files()))], "{session}");
        let listed = home.json(&["ls", "--json"]);
        let of = listed.as_array().unwrap().iter();
        let found = of.clone().find(|found| found["label"] == session).unwrap();
        assert_eq!(found["windows"], windows, "{session}");
    }
}

#[test]
fn open_and_put_fail_when_the_file_cannot_be_shown_there_or_written() {
    let home = Home::new();
    let path = home.file("a", b"one\n");
    let beyond = home.run(&["open", "a:5"]);
    assert_eq!(beyond.code, Some(1), "{}", beyond.stderr);
    assert!(
        beyond.stderr.contains("no place 5: it has 1 line\n"),
        "{}",
        beyond.stderr
    );
    let special = home.run(&["open", "/dev/null"]);
    assert_eq!(special.code, Some(1), "{}", special.stderr);
    let id = home.ok(&["open", "a"]);
    let buffer = BufferId::new(id.trim().parse().unwrap());
    edit(&home, buffer, Splice::new(Span::at(0), "zero\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let refused = home.run(&["put", "a"]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("read-only"), "{}", refused.stderr);
    assert_eq!(fs::read(&path).unwrap(), b"one\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    home.ok(&["put", "a"]);
    assert_eq!(fs::read(&path).unwrap(), b"zero\none\n");
}

#[test]
fn put_writes_what_was_edited_and_never_over_what_changed_on_disk() {
    let home = Home::new();
    let path = home.file("a", b"one\n");
    let id = home.ok(&["open", "a"]);
    let buffer = BufferId::new(id.trim().parse().unwrap());
    edit(&home, buffer, Splice::new(Span::at(0), "zero\n"));
    assert_eq!(
        home.json(&["ls", "--json"])[0]["modified"],
        serde_json::json!([text(&path)])
    );
    assert_eq!(fs::read(&path).unwrap(), b"one\n");
    home.ok(&["put", "a"]);
    assert_eq!(fs::read(&path).unwrap(), b"zero\none\n");
    assert_eq!(
        home.json(&["ls", "--json"])[0]["modified"],
        serde_json::json!([])
    );

    edit(&home, buffer, Splice::new(Span::at(0), "mine\n"));
    fs::write(&path, b"theirs\n").unwrap();
    let refused = home.run(&["put", "a"]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("changed"), "{}", refused.stderr);
    assert_eq!(fs::read(&path).unwrap(), b"theirs\n");
    assert_eq!(home.run(&["cat", "a"]).stdout, b"mine\nzero\none\n");
}

#[test]
fn a_follower_prints_entries_as_they_come_and_computes_the_same_hashes_as_the_daemon() {
    let home = Home::new();
    home.file("a", b"one\n");
    let id = home.ok(&["open", "a"]);
    let id = id.trim();
    let shard = format!("buffer/{id}");
    let mut child = home
        .command(&["log", &shard, "--follow", "--json"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let mut seq = 0;
    let mut check = |entry: &serde_json::Value| {
        seq += 1;
        assert_eq!(
            (&entry["shard"], &entry["seq"]),
            (&shard.as_str().into(), &seq.into())
        );
    };
    let first = next();
    check(&first);
    assert_eq!(first["op"]["Buffer"]["Create"]["kind"], "File");
    edit(
        &home,
        BufferId::new(id.parse().unwrap()),
        Splice::new(Span::at(4), "two\n"),
    );
    loop {
        let entry = next();
        check(&entry);
        if !entry["op"]["Buffer"]["Edit"].is_null() {
            break;
        }
    }
    let follower = follower(&home);
    let theirs = home.json(&["hash", "--attachment", &follower.to_string(), "--json"]);
    assert_eq!(theirs["attachment"], follower);
    let ours = home.json(&["hash", "--json"]);
    assert_eq!(ours["attachment"], 0);
    assert!(ours["shards"].as_array().unwrap().len() >= 4, "{ours}");
    assert_eq!(theirs["shards"], ours["shards"]);
    assert_eq!(theirs["state"], ours["state"]);
    edit(
        &home,
        BufferId::new(id.parse().unwrap()),
        Splice::new(Span::at(0), "x"),
    );
    assert_ne!(home.json(&["hash", "--json"])["state"], ours["state"]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn settings_and_notices_are_entries_of_the_metalog() {
    let home = Home::new();
    home.ok(&["new", "main"]);
    home.ok(&["set", "tool.tidy.off", "*.md"]);
    home.ok(&["notify", "the tea is\nready", "--level", "warning"]);
    home.ok(&["set", "tool.tidy.off"]);
    let log = home.ok(&["log", "meta"]);
    for entry in [
        r#"Setting { key: "tool.tidy.off", value: Some("*.md") }"#,
        r#"text: "the tea is\nready" }"#,
        r#"Setting { key: "tool.tidy.off", value: None }"#,
    ] {
        assert!(log.contains(entry), "{entry} is not in\n{log}");
    }
}

#[test]
fn a_session_that_does_not_exist_is_never_made_by_a_command_that_needs_it() {
    let home = Home::new();
    home.ok(&["new", "main"]);
    for arguments in [
        &["cat", "a"][..],
        &["put", "a"],
        &["hash"],
        &["log", "meta"],
        &["notify", "x"],
        &["set", "key", "value"],
        &["ls", "--buffers"],
    ] {
        let ended = home.run(&[&["--session", "typo"], arguments].concat());
        assert_eq!(ended.code, Some(3), "{arguments:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("\"typo\""),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
    assert_eq!(home.json(&["ls", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_done_says_why_and_what_to_do() {
    let home = Home::new();
    let no_daemon = home.run(&["ls"]);
    assert_eq!(no_daemon.code, Some(5));
    assert!(
        no_daemon.stderr.contains("no daemon runs"),
        "{}",
        no_daemon.stderr
    );
    home.ok(&["new", "main"]);
    for (arguments, code, words) in [
        (&["cat", "nothing"][..], 3, "there is no buffer \"nothing\""),
        (&["log", "buffer/123456"], 3, "123456"),
        (&["hash", "--attachment", "4711"], 3, "4711"),
        (&["tool", "reload", "nothing"], 3, "nothing"),
        (&["tool", "log", "nothing"], 3, "nothing"),
        (&["log", "bufer/1"], 2, "buffer/ID"),
        (&["kill"], 2, "SESSION"),
        (&["--watch", "ls"], 2, "screen"),
        (&["--session", "", "hash"], 2, "empty"),
        (&["new", ""], 1, ""),
    ] {
        let ended = home.run(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(words),
            "{arguments:?}: {}",
            ended.stderr
        );
        assert_eq!(ended.stdout, b"", "{arguments:?}");
    }
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let ended = home.run(&[std::ffi::OsStr::new("open"), name]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("not UTF-8"), "{}", ended.stderr);
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_command_quietly() {
    let home = Home::new();
    home.file("large", &b"a line of text\n".repeat(100_000));
    home.ok(&["open", "large"]);
    let mut child = home.command(&["cat", "large"]).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let ended = Ended::new(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn without_tools_the_list_is_empty() {
    let home = Home::new();
    assert_eq!(home.json(&["tools", "--json"]), serde_json::json!([]));
    assert!(home.ok(&["tools"]).starts_with("NAME"));
}

#[test]
fn a_daemon_of_another_version_or_without_a_word_is_told_within_a_second() {
    let home = Home::new();
    let listener = UnixListener::bind(home.socket()).unwrap();
    let theirs = Preamble {
        apply_version: 4711,
        ..Preamble::new("apexd 99.0")
    };
    let greeting = theirs.encode();
    let peer = thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        first.write_all(&greeting).unwrap();
        // The second one hears nothing, and stays until its end.
        let (mut second, _) = listener.accept().unwrap();
        second.read_to_end(&mut Vec::new()).unwrap();
    });
    let other = home.run(&["ls"]);
    assert_eq!(other.code, Some(5));
    assert!(other.stderr.contains("apexd 99.0"), "{}", other.stderr);
    assert!(other.stderr.contains("apply 4711"), "{}", other.stderr);
    let silent = home.run(&["ls"]);
    assert_eq!(silent.code, Some(5));
    assert!(
        silent.stderr.contains("within 1000 ms"),
        "{}",
        silent.stderr
    );
    peer.join().unwrap();
}

/// Returns the attachment of the one command that follows.
fn follower(home: &Home) -> u64 {
    let listed = home.json(&["ls", "--json"]);
    let attachments = listed[0]["attachments"].as_array().unwrap();
    let follower = attachments
        .iter()
        .find(|attachment| attachment["name"] == "apex log");
    follower.unwrap()["id"].as_u64().unwrap()
}

/// Edits a buffer's newest version, as a tool does.
fn edit(home: &Home, buffer: BufferId, splice: Splice) {
    let buffers = home.json(&["ls", "--buffers", "--json"]);
    let info = buffers
        .as_array()
        .unwrap()
        .iter()
        .find(|info| info["id"] == buffer.raw());
    let base = Version::new(info.unwrap()["version"].as_u64().unwrap());
    let change = Change::Edit {
        buffer,
        base,
        splices: vec![splice],
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(propose(home, change)).unwrap();
}

async fn propose(home: &Home, change: Change) -> Outcome {
    let dir = RuntimeDir::find(&Surroundings {
        apex_runtime_dir: Some(home.runtime().into()),
        xdg_runtime_dir: None,
        uid: rustix::process::geteuid().as_raw(),
    });
    let mut link = Link::connect(&dir.unwrap()).await.unwrap();
    link.send(&ClientMessage::Hello(Hello {
        session: SessionName::Label("main".into()),
        kind: AttachmentKind::Tool,
        name: "test".into(),
        takeover: Takeover::Watch,
        is_follower: false,
        resume: None,
    }))
    .unwrap();
    let author: AttachmentId = loop {
        if let ServerMessage::Welcome(welcome) = link.receive().await.unwrap() {
            break welcome.attachment;
        }
    };
    let id = ProposalId::new(1);
    let proposal = Proposal {
        author,
        id,
        atomicity: Atomicity::All,
        changes: vec![change],
    };
    link.send(&ClientMessage::Propose(proposal)).unwrap();
    let outcome = loop {
        if let ServerMessage::ProposeResult { outcome, .. } = link.receive().await.unwrap() {
            break outcome;
        }
    };
    // Both in one order: with the second answered, or the end told, the first was heard.
    link.send(&ClientMessage::Detach).unwrap();
    link.send(&ClientMessage::Ping(1)).unwrap();
    while !matches!(link.receive().await, Ok(ServerMessage::Pong(1)) | Err(_)) {}
    outcome
}
