//! A trapping, a looping and an allocating tool beside `tidy`: each ends its own calls, nobody
//! else's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use apex_tests::harness::Home;
use apex_tests::harness::home::{Patience, built};
use serde_json::Value;

use super::{TIDY, Writer, note, state};

/// The tools, each with the words that say how it ends. A machine that is busy enough does not let
/// the loop have its CPU time before its call has taken too long by the clock.
const BAD: [(&str, &[&str]); 3] = [
    ("trap", &["it trapped: "]),
    (
        "loop",
        &[
            "a call used all of its 500 ms of CPU time",
            "a call had not returned after 1500 ms",
        ],
    ),
    ("alloc", &["it got no more than 32 MiB of memory"]),
];

/// Restarts after which a tool is given up.
const RESTARTS: u64 = 5;

/// The number of the restart that a note announces.
fn announced(note: &str) -> u64 {
    let rest = note.split("(restart ").nth(1).unwrap_or_default();
    let number = rest.split(' ').next().unwrap_or_default();
    number.parse().unwrap_or_else(|_| panic!("{note}"))
}

/// Holds what is said of a bad tool against what must be said; returns the restart that it waits
/// for if it waits.
#[track_caller]
fn check(tool: &Value, ends: &[&str]) -> Option<u64> {
    let (name, note) = (tool["name"].as_str().unwrap(), note(tool));
    let is_told = ends.iter().any(|end| note.contains(end));
    let restarts = tool["restarts"].as_u64().unwrap();
    let memory_len = tool["memory_len"].as_u64().unwrap();
    let memory_len_max = if name == "alloc" { 32 << 20 } else { 64 << 20 };
    assert!(memory_len <= memory_len_max, "{tool:#}");
    match state(tool) {
        "restarting" => {
            let number = announced(note);
            let wait = format!(
                " in {} s (restart {number} of {RESTARTS} within 60 s)",
                1 << (number - 1)
            );
            assert!(is_told, "{tool:#}");
            assert!(
                note.contains("starts again ") && note.ends_with(&wait),
                "{tool:#}"
            );
            // The one is written a moment after the other.
            assert!(restarts == number || restarts + 1 == number, "{tool:#}");
            return Some(number);
        }
        "failed" => {
            let next = format!("a grant or `apex tool reload {name}` starts it again");
            assert!(is_told && note.ends_with(&next), "{tool:#}");
            assert!(
                note.contains("given up after 5 restarts within 60 s"),
                "{tool:#}"
            );
            assert_eq!(restarts, RESTARTS);
        }
        // Before the first end there is nothing to say; behind it what it was stays told.
        "running" if restarts == 0 => {}
        "starting" => {}
        "running" => assert!(is_told && note.contains("it was started again"), "{tool:#}"),
        other => panic!("{other}: {tool:#}"),
    }
    None
}

#[test]
fn tidy_and_typing_go_on_beside_tools_that_trap_loop_and_hoard_until_those_are_given_up() {
    let mut writer = Writer::new();
    for (name, _) in BAD {
        writer.home.add_tool(name);
        writer.peer.wait_attached(name);
    }
    let mut waited: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    let mut is_printed = false;
    loop {
        writer.write_line();
        writer.check_tidy();
        let mut failed = 0;
        for (name, ends) in BAD {
            let tool = writer.home.tool(name).unwrap();
            failed += u32::from(state(&tool) == "failed");
            let number = check(&tool, ends);
            waited.entry(name).or_default().extend(number);
            if number == Some(RESTARTS) && !is_printed {
                // It waits for 16 s: there is time to look at the table as well.
                let row = writer.row(name);
                assert!(row.contains(" restarting  5 "), "{row}");
                assert!(row.ends_with(note(&tool)), "{row}");
                is_printed = true;
            }
        }
        if failed == 3 {
            break;
        }
    }
    for (name, numbers) in &waited {
        assert!(numbers.contains(&RESTARTS), "{name}: {numbers:?}");
    }
    for (name, _) in BAD {
        assert!(writer.row(name).contains(" failed "), "{name}");
    }
    writer.write_line();
    revive(&mut writer);
    writer.write_line();
    writer.check_tidy();
}

/// Starts what was given up again, in each of the ways that `apex tools` names.
fn revive(writer: &mut Writer) {
    let home = &writer.home;
    home.ok(&["tool", "reload", "trap"]);
    home.ok(&["tool", "grant", "loop"]);
    // A new file: other bytes, so that they have to be granted.
    let bytes = built("alloc", "wasm");
    let other = [&bytes[..], &[0, 2, 1, b'x']].concat();
    fs::write(home.plugins().join("alloc.wasm"), other).unwrap();
    let tool = home.wait_tool("alloc", |tool| note(tool).contains("other bytes"));
    assert!(note(&tool).contains("`apex tool grant alloc` lets it run"));
    home.ok(&["tool", "grant", "alloc"]);
    for (name, _) in BAD {
        // Until a new file is compiled the version before may come first.
        let is_new = |tool: &Value| state(tool) == "running" && note(tool).is_empty();
        let tool = home.wait_tool(name, is_new);
        assert_eq!(tool["restarts"], 0, "{tool:#}");
        writer.peer.wait_attached(name);
    }
}

#[test]
fn tidy_and_typing_go_on_while_a_tool_is_in_a_loop() {
    let mut writer = Writer::new();
    // As long as any manifest may ask for.
    let manifest = built("loop", "toml");
    let manifest = String::from_utf8(manifest).unwrap();
    let long = manifest.replace("call-ms = 500", "call-ms = 10000");
    assert_ne!(long, manifest);
    let home = &writer.home;
    home.install("loop");
    fs::write(home.plugins().join("loop.toml"), long).unwrap();
    home.ok(&["tool", "grant", "loop"]);
    writer.peer.wait_attached("loop");
    home.wait_tool("loop", |tool| state(tool) == "running");
    writer.write_line();
    let home = &writer.home;
    wait_log(home, "loop", "loops from here on");
    let calls = home.tool("loop").unwrap()["calls"].clone();
    for _ in 0..10 {
        writer.write_line();
    }
    writer.check_tidy();
    let tool = writer.home.tool("loop").unwrap();
    assert_eq!(
        (state(&tool), &tool["calls"]),
        ("running", &calls),
        "it looped all the while"
    );
    let behind = |tool: &Value| tool["attachments"][0]["cursor"].as_u64().unwrap();
    let tidy = writer.home.tool(TIDY).unwrap();
    assert!(behind(&tidy) > behind(&tool) + 30, "{tidy:#} {tool:#}");
    // And what was to end it does.
    let ends = ["10000 ms of CPU time", "not returned after 30000 ms"];
    let ended = writer
        .home
        .wait_tool("loop", |tool| state(tool) == "restarting");
    assert!(check(&ended, &ends).is_some());
}

/// Asks for the log of a tool until it has a line.
#[track_caller]
fn wait_log(home: &Home, tool: &str, line: &str) {
    let patience = Patience::new();
    loop {
        let log = home.ok(&["tool", "log", tool]);
        if log.lines().any(|found| found == line) {
            return;
        }
        patience.check(|| format!("{line:?} is not in the log of {tool}:\n{log}"));
    }
}
