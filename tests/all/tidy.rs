//! The rules of the house that no lint can hold, held against every file of the checkout.

mod rules;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that no rule looks into: what builds make, and data of others.
const FOLDERS_LEFT_OUT: [&str; 3] = ["target", "data", ".git"];
/// Kinds of text files that the rules look at.
const KINDS: [&str; 6] = ["rs", "toml", "wit", "md", "sh", ""];
/// All that core may depend on: it has no clock, no files, no network and no chance.
const CORE_DEPENDENCIES: [&str; 8] = [
    "blake3", "memchr", "postcard", "ropey", "rpds", "serde", "smol_str", "uuid",
];
/// What core may not name: the world outside, and maps whose order differs from run to run.
const CORE_BANNED: [&str; 6] = [
    "std::",
    "HashMap",
    "HashSet",
    "Instant",
    "SystemTime",
    "async",
];

/// One text file of the checkout.
struct Source {
    /// Its path from the root.
    path: String,
    text: String,
}

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("the tests crate is a folder of the checkout")
        .to_path_buf()
}

/// The text files of a folder of the checkout and of all below it, by path.
fn sources(folder: &str) -> Vec<Source> {
    let root = root();
    let mut left = vec![root.join(folder)];
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            if !FOLDERS_LEFT_OUT.contains(&name.as_str()) {
                let entries = fs::read_dir(&path).expect("a folder of the checkout can be listed");
                left.extend(entries.map(|entry| entry.expect("an entry can be read").path()));
            }
            continue;
        }
        let kind = path.extension().unwrap_or_default().to_string_lossy();
        if KINDS.contains(&kind.as_ref()) {
            let relative = path
                .strip_prefix(&root)
                .expect("it was found below the root");
            let path = relative.to_string_lossy().into_owned();
            let text = fs::read_to_string(root.join(&path)).expect("a text file is UTF-8");
            found.push(Source { path, text });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The Rust files among them.
fn code(folder: &str) -> Vec<Source> {
    sources(folder)
        .into_iter()
        .filter(|source| source.path.ends_with(".rs"))
        .collect()
}

/// Holds a rule against files.
#[track_caller]
fn hold(sources: &[Source], rule: impl Fn(&str, &str) -> Vec<String>) {
    assert!(!sources.is_empty(), "there is nothing to look at");
    let found: Vec<String> = sources
        .iter()
        .flat_map(|source| rule(&source.path, &source.text))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn lines_functions_and_files_are_short() {
    let code = code("");
    hold(&code, |path, text| {
        let mut found = rules::wide_lines(path, text);
        found.extend(rules::long_functions(path, text));
        found.extend(rules::long_file(path, text));
        found
    });
}

#[test]
fn nothing_is_left_unfinished() {
    hold(&sources(""), rules::unfinished);
}

#[test]
fn nothing_names_a_folder_outside_of_the_project() {
    hold(&sources(""), rules::foreign_folders);
}

#[test]
fn a_module_uses_only_modules_above_it() {
    for (folder, root) in [
        ("core/src", "lib.rs"),
        ("host/src", "lib.rs"),
        ("ui/src", "lib.rs"),
        ("tests/src", "lib.rs"),
        ("tests/core-bench/src", "lib.rs"),
        ("tests/sim/src", "lib.rs"),
        ("xtask/src", "main.rs"),
    ] {
        let code = code(folder);
        let root = code
            .iter()
            .find(|source| source.path == format!("{folder}/{root}"))
            .unwrap();
        let order = rules::modules(&root.text);
        hold(&code, |path, text| {
            let inside = path
                .strip_prefix(folder)
                .unwrap_or(path)
                .trim_start_matches('/');
            let is_test = inside.ends_with("tests.rs") || inside.contains("tests/");
            if is_test {
                Vec::new()
            } else {
                rules::order(&order, inside, text)
            }
        });
    }
}

#[test]
fn host_and_ui_meet_only_on_the_wire_and_tools_see_only_wit() {
    let (core, host, ui) = ("apex_core", "apex_host", "apex_ui");
    for (folder, banned) in [
        ("core", &[host, ui][..]),
        ("host", &[ui]),
        ("ui", &[host]),
        ("xtask", &[core, host, ui]),
        ("plugins", &[core, host, ui]),
        ("tests/guests", &[core, host, ui]),
    ] {
        let sources = sources(folder);
        let code: Vec<Source> = sources
            .into_iter()
            .filter(|source| source.path.ends_with("rs"))
            .collect();
        hold(&code, |path, text| rules::banned_names(path, text, banned));
        for source in self::sources(folder) {
            if source.path.ends_with("Cargo.toml") {
                let dependencies = rules::dependencies(&source.text);
                for name in banned.iter().map(|name| name.replace('_', "-")) {
                    assert!(!dependencies.contains(&name), "{} has {name}", source.path);
                }
            }
        }
    }
}

#[test]
fn core_depends_on_nothing_but_its_list() {
    let manifest = fs::read_to_string(root().join("core/Cargo.toml")).unwrap();
    let allowed: BTreeSet<String> = CORE_DEPENDENCIES.map(str::to_owned).into();
    assert_eq!(rules::dependencies(&manifest), allowed);
}

#[test]
fn core_is_pure() {
    let code: Vec<Source> = code("core/src")
        .into_iter()
        .filter(|source| !source.path.ends_with("tests.rs"))
        .collect();
    hold(&code, |path, text| {
        rules::banned_names(path, text, &CORE_BANNED)
    });
    let lib = fs::read_to_string(root().join("core/src/lib.rs")).unwrap();
    assert!(
        lib.contains("#![no_std]"),
        "core/src/lib.rs must say #![no_std]"
    );
}

#[test]
fn architecture_md_names_every_source_file_once() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let folders = ["core", "host", "ui", "xtask", "tests"];
    let files = folders
        .iter()
        .flat_map(|folder| code(folder))
        .map(|source| source.path)
        .collect();
    let found = rules::map(&architecture, &files);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
