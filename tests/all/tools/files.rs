//! What lies in a plugin directory, and what becomes of it: tools come, change and go while the
//! daemon runs, and what is no tool is listed with the reason.

use std::fs;
use std::path::PathBuf;

use apex_core::entry::SaveCause;
use apex_core::ids::AttachmentId;
use apex_tests::harness::home::{Patience, built, text};
use apex_tests::harness::{Home, Peer, Pty};
use serde_json::Value;

use super::super::e2e::{PUT, TIDY, TO_END, assert_bytes, screen, wait_end, wait_saved};
use super::{Writer, note, state};

/// A component that imports a function `today` of an interface that no apex has.
const FOREIGN: &[u8] = b"\0asm\x0d\0\x01\0\
    \x07\x12\x01\x42\x02\x01\x40\0\x01\0\x04\0\x05today\x01\0\
    \x0a\x23\x01\0\x1eexample:weather/forecast@1.0.0\x05\0";

const NO_COMPONENT: &str = "it is no WebAssembly component";

/// A good manifest.
const MANIFEST: &str = "id = \"org.example.test\"\nversion = \"1\"\nsummary = \"A test.\"\n\
    [[want]]\ncap = \"shard.follow\"\nscope = \"buffer:*\"\nreason = \"listens\"\n";

/// The same component in other bytes: an empty custom section stands behind it.
fn other_bytes(component: &[u8], name: u8) -> Vec<u8> {
    [component, &[0, 2, 1, name]].concat()
}

/// A user with a file before him, and no tool yet.
struct User {
    // In this order: the screen ends before the directories go.
    pty: Pty,
    peer: Peer,
    path: PathBuf,
    text: String,
    home: Home,
}

impl User {
    fn new() -> Self {
        let home = Home::new();
        let path = home.file("a.txt", b"");
        Self {
            pty: screen(&home, &path),
            peer: Peer::follow(&home),
            path,
            text: String::new(),
            home,
        }
    }

    /// Types blanks at the end of the file and puts it; on disk they are gone if `tidy` acts.
    #[track_caller]
    fn put_blanks(&mut self, is_tidy: bool) {
        self.pty.keys(TO_END);
        self.pty.keys("x  ");
        wait_end(&mut self.peer, &self.path, "x  ");
        self.pty.keys(PUT);
        let (cause, end) = if is_tidy {
            (SaveCause::Tool, "x\n")
        } else {
            (SaveCause::Put, "x  ")
        };
        wait_saved(&mut self.peer, &self.path, cause);
        self.text.push_str(end);
        assert_bytes(&fs::read(&self.path).unwrap(), self.text.as_bytes());
    }

    /// Grants what lies there now, and waits until it serves in place of the party before. Returns
    /// the party and what the grant said.
    #[track_caller]
    fn grant(&mut self, before: AttachmentId) -> (AttachmentId, String) {
        let said = self.home.ok(&["tool", "grant", TIDY]);
        let tool = self.home.wait_tool(TIDY, |tool| {
            let is_other = attachment(tool).is_some_and(|id| id > before);
            is_other && state(tool) == "running" && note(tool).is_empty()
        });
        wait_detached(&mut self.peer, before);
        (attachment(&tool).unwrap(), said)
    }

    /// Waits until the note of the tool has these words, while the party from before goes on.
    #[track_caller]
    fn wait_note(&self, words: &str, party: AttachmentId) -> Value {
        let tool = self.home.wait_tool(TIDY, |tool| note(tool).contains(words));
        assert_eq!((state(&tool), attachment(&tool)), ("running", Some(party)));
        assert!(
            note(&tool).contains("the version before goes on"),
            "{tool:#}"
        );
        tool
    }
}

/// Waits until a party has left.
#[track_caller]
fn wait_detached(peer: &mut Peer, id: AttachmentId) {
    peer.wait(|peer| {
        let is_there = peer.state().meta().attachments.contains_key(&id);
        (!is_there).then_some(())
    });
}

/// The party that a tool is in the one session.
fn attachment(tool: &Value) -> Option<AttachmentId> {
    let id = tool["attachments"][0]["attachment"].as_u64();
    id.map(AttachmentId::new)
}

#[test]
fn a_tool_that_is_dropped_in_waits_for_its_grant_acts_and_goes_with_its_file() {
    let mut user = User::new();
    user.home.install(TIDY);
    let tool = user.home.wait_tool(TIDY, |tool| state(tool) == "waiting");
    for words in [
        "it asks for shard.follow buffer:*: ",
        "file.put buffer:*: puts the cleaned text",
        "`apex tool grant tidy` lets it run",
    ] {
        assert!(note(&tool).contains(words), "{tool:#}");
    }
    assert_eq!(attachment(&tool), None);
    user.put_blanks(false);
    let said = user.home.ok(&["tool", "grant", TIDY]);
    assert!(
        said.starts_with("granted to tidy: org.apex.tidy 0.1.0, sha256 "),
        "{said}"
    );
    let party = user.peer.wait_attached(TIDY);
    user.put_blanks(true);

    // Without a manifest it is no tool, but what was granted goes on.
    fs::remove_file(user.home.plugins().join("tidy.toml")).unwrap();
    user.wait_note("it has no manifest; write tidy.toml beside it", party);
    user.put_blanks(true);

    fs::remove_file(user.home.plugins().join("tidy.wasm")).unwrap();
    wait_detached(&mut user.peer, party);
    assert_eq!(user.home.tool(TIDY), None);
    user.put_blanks(false);
}

#[test]
fn a_tool_whose_file_is_replaced_goes_on_as_it_was_until_the_new_one_is_granted() {
    let mut user = User::new();
    user.home.add_tidy();
    let first = user.peer.wait_attached(TIDY);
    user.put_blanks(true);
    let sha256 = |user: &User| user.home.tool(TIDY).unwrap()["sha256"].clone();
    let before = sha256(&user);

    // Other bytes.
    let component = other_bytes(&built(TIDY, "wasm"), b'1');
    fs::write(user.home.plugins().join("tidy.wasm"), component).unwrap();
    let tool = user.wait_note("were other bytes or other rights", first);
    assert_eq!(tool["sha256"], before);
    assert!(note(&tool).ends_with("`apex tool grant tidy` lets it run"));
    user.put_blanks(true);
    let (second, _) = user.grant(first);
    assert_ne!(sha256(&user), before);
    user.put_blanks(true);

    // A manifest that asks for more.
    let manifest = String::from_utf8(built(TIDY, "toml")).unwrap();
    let more = "[[want]]\ncap = \"file.open\"\nscope = \"*\"\nreason = \"looks around\"\n";
    let (rights, limits) = manifest.split_once("[limits]").unwrap();
    let manifest = format!("{rights}{more}[limits]{limits}");
    fs::write(user.home.plugins().join("tidy.toml"), manifest).unwrap();
    user.wait_note("file.open *: looks around", second);
    let (_, said) = user.grant(second);
    assert!(said.contains("file.open *: looks around"), "{said}");
    user.put_blanks(true);
}

/// What is no tool.
struct Bad {
    name: &'static str,
    component: Vec<u8>,
    manifest: Option<String>,
    /// Words of the reason and of what to do.
    words: [&'static str; 2],
}

fn bad_ones() -> Vec<Bad> {
    let good = built("trap", "wasm");
    let half = &good[..good.len() / 2];
    // Bytes that are no tool, beside a good manifest.
    let components: [(_, &[u8], _); 5] = [
        ("empty", b"", [NO_COMPONENT, ""]),
        ("text", b"#!/bin/sh\n", [NO_COMPONENT, ""]),
        (
            "core",
            b"\0asm\x01\0\0\0",
            ["a core WebAssembly module", "build it for wasm32-wasip2"],
        ),
        ("truncated", half, ["it does not compile", ""]),
        (
            "foreign",
            FOREIGN,
            [
                "example:weather/forecast@1.0.0",
                "build it against this apex's wit/",
            ],
        ),
    ];
    let components = components.map(|(name, component, words)| Bad {
        name,
        component: component.to_vec(),
        manifest: Some(MANIFEST.to_owned()),
        words,
    });
    // Manifests that are none, beside a good component.
    let with = |more: &str| Some(format!("{MANIFEST}{more}"));
    let unknown_right = "[[want]]\ncap = \"everything\"\n";
    let nameless = MANIFEST.replace("org.example.test", "test");
    let manifests = [
        (
            "bare",
            None,
            ["it has no manifest", "write bare.toml beside it"],
        ),
        (
            "broken",
            with("[[want"),
            ["its manifest: ", "expected `]]`"],
        ),
        (
            "misspelt",
            with("[limit]\n"),
            ["unknown field `limit`", "expected one of"],
        ),
        (
            "greedy",
            with(unknown_right),
            ["no right \"everything\"", "those that exist are "],
        ),
        (
            "nameless",
            Some(nameless),
            ["no reverse domain name", "\"org.example.sort\""],
        ),
    ];
    let manifests = manifests.map(|(name, manifest, words)| Bad {
        name,
        component: good.clone(),
        manifest,
        words,
    });
    components.into_iter().chain(manifests).collect()
}

#[test]
fn what_is_no_tool_is_listed_with_the_reason_and_what_to_do_and_left_until_it_changes() {
    let mut writer = Writer::new();
    let plugins = writer.home.plugins();
    let bad_ones = bad_ones();
    for bad in &bad_ones {
        if let Some(manifest) = &bad.manifest {
            fs::write(plugins.join(bad.name).with_extension("toml"), manifest).unwrap();
        }
        fs::write(
            plugins.join(bad.name).with_extension("wasm"),
            &bad.component,
        )
        .unwrap();
    }
    bad_ones.iter().for_each(|bad| check_bad(&writer, bad));
    // Each question was a look at the directory; each file was taken up once.
    writer.write_line();
    writer.check_tidy();
    for bad in &bad_ones {
        let log = writer.home.ok(&["tool", "log", bad.name]);
        let is_refusal = |line: &&str| line.contains("the file is not taken");
        assert_eq!(log.lines().filter(is_refusal).count(), 1, "{log}");
    }
    repair(&writer.home);
    for bad in &bad_ones {
        fs::remove_file(plugins.join(bad.name).with_extension("wasm")).unwrap();
    }
    let patience = Patience::new();
    while writer
        .home
        .json(&["tools", "--json"])
        .as_array()
        .unwrap()
        .len()
        > 1
    {
        patience.check(|| writer.home.ok(&["tools"]));
    }
    writer.write_line();
    writer.check_tidy();
}

#[track_caller]
fn check_bad(writer: &Writer, bad: &Bad) {
    let (home, name, [why, remedy]) = (&writer.home, bad.name, bad.words);
    let tool = home.wait_tool(name, |tool| state(tool) == "invalid");
    let said = note(&tool);
    assert!(said.contains(why) && said.contains(remedy), "{tool:#}");
    let next = "; it is looked at again when the file changes";
    assert!(said.ends_with(next), "{tool:#}");
    assert_eq!((&tool["calls"], attachment(&tool)), (&0.into(), None));
    let row = writer.row(name);
    assert!(
        row.contains(" invalid ") && row.contains(why) && row.ends_with(next),
        "{row}"
    );
    for order in ["grant", "reload"] {
        let ended = home.run(&["tool", order, name]);
        assert_ne!(ended.code, Some(0), "{order} {name}");
        assert!(
            ended.stderr.contains(why),
            "{order} {name}: {}",
            ended.stderr
        );
    }
}

/// Makes tools of some of them.
#[track_caller]
fn repair(home: &Home) {
    let plugins = home.plugins();
    fs::write(plugins.join("truncated.wasm"), built("trap", "wasm")).unwrap();
    fs::write(plugins.join("bare.toml"), MANIFEST).unwrap();
    fs::write(plugins.join("misspelt.toml"), MANIFEST).unwrap();
    for name in ["truncated", "bare", "misspelt"] {
        let tool = home.wait_tool(name, |tool| state(tool) == "waiting");
        assert!(
            note(&tool).contains("it asks for shard.follow buffer:*: listens;"),
            "{tool:#}"
        );
        assert!(note(&tool).ends_with(&format!("`apex tool grant {name}` lets it run")));
    }
}

#[test]
fn of_a_component_that_is_replaced_while_it_is_loaded_only_the_last_state_counts() {
    let mut writer = Writer::new();
    let home = &writer.home;
    let component = home.plugins().join("many.wasm");
    let text_file = |text: &str| fs::write(&component, text).unwrap();
    text_file("no component");
    fs::write(home.plugins().join("many.toml"), MANIFEST).unwrap();
    home.wait_tool("many", |tool| state(tool) == "invalid");
    home.ok(&["tool", "grant", "--dev", text(&component)]);
    let good = built("trap", "wasm");
    let mut starts = 0;
    for round in b'a'..b'f' {
        // Bytes that were not compiled before, and take their time.
        fs::write(&component, other_bytes(&good, round)).unwrap();
        let tool = home.wait_tool("many", |tool| {
            !note(tool).is_empty() && !note(tool).contains("no WebAssembly")
        });
        starts += u32::from(state(&tool) != "compiling");
        text_file("replaced");
        home.wait_tool("many", |tool| {
            note(tool).contains("no WebAssembly component")
        });
    }
    assert!(starts < 5, "none was ever seen while it was compiled");
    // One good state after the other, the last one for good.
    for round in b'f'..b'k' {
        fs::write(&component, other_bytes(&good, round)).unwrap();
        home.tool("many");
    }
    fs::write(home.plugins().join("twin.wasm"), other_bytes(&good, b'j')).unwrap();
    let twin = home.wait_tool("twin", |_| true);
    let tool = home.wait_tool("many", |tool| {
        state(tool) == "running" && tool["sha256"] == twin["sha256"]
    });
    writer.peer.wait(|peer| {
        let all = &peer.state().meta().attachments;
        let mut all = all.iter().filter(|(_, party)| party.name == "many");
        let one = all.next()?;
        (all.next().is_none() && Some(*one.0) == attachment(&tool)).then_some(())
    });
    writer.write_line();
    writer.check_tidy();
}
