//! The rules, as functions of text: each gives its violations as lines for a person to read.
//!
//! They read code as rustfmt leaves it, and nothing else: no parser is needed to see where a
//! function ends when its closing brace stands below its first letter.

use std::collections::{BTreeMap, BTreeSet};

/// The widest line of code.
const COLUMNS_MAX: usize = 100;
/// The longest function, its first and its last line included.
const FUNCTION_LINES_MAX: usize = 70;
/// The longest file.
const FILE_LINES_MAX: usize = 800;

/// The lines that are too wide.
pub(crate) fn wide_lines(path: &str, text: &str) -> Vec<String> {
    numbered(text)
        .map(|(number, line)| (number, line.chars().count()))
        .filter(|(_, columns)| *columns > COLUMNS_MAX)
        .map(|(number, columns)| format!("{path}:{number}: {columns} columns, not {COLUMNS_MAX}"))
        .collect()
}

/// Says when a file is too long.
pub(crate) fn long_file(path: &str, text: &str) -> Vec<String> {
    let count = text.lines().count();
    let is_long = count > FILE_LINES_MAX;
    is_long
        .then(|| format!("{path}: {count} lines, not {FILE_LINES_MAX}"))
        .into_iter()
        .collect()
}

/// The functions that are too long.
pub(crate) fn long_functions(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let count = function_lines(&lines[index..]);
        if count > FUNCTION_LINES_MAX {
            let number = index + 1;
            found.push(format!(
                "{path}:{number}: {name} has {count} lines, not {FUNCTION_LINES_MAX}"
            ));
        }
    }
    found
}

/// Words that say that something is not done, spelled so that this file does not hold them.
pub(crate) fn unfinished(path: &str, text: &str) -> Vec<String> {
    let words = ["TO-DO", "FIX-ME", "XX-X", "unimple-mented!", "to-do!"];
    let words: Vec<String> = words.iter().map(|word| word.replace('-', "")).collect();
    let holds = |line: &str, word: &str| {
        line.match_indices(word)
            .any(|(at, _)| !ends_in_name(&line[..at]))
    };
    let mut found = Vec::new();
    for (number, line) in numbered(text) {
        for word in words.iter().filter(|word| holds(line, word)) {
            found.push(format!("{path}:{number}: {word}"));
        }
    }
    found
}

/// Mentions of folders that a checkout does not have.
pub(crate) fn foreign_folders(path: &str, text: &str) -> Vec<String> {
    let folder = ["sha", "red"].concat();
    let needles = [format!("/work/{folder}"), format!("../{folder}")];
    numbered(text)
        .filter(|(_, line)| needles.iter().any(|needle| line.contains(needle)))
        .map(|(number, _)| format!("{path}:{number}: names a folder outside of the project"))
        .collect()
}

/// The modules that a `lib.rs` or `main.rs` lists, in their order.
pub(crate) fn modules(root: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = line
            .strip_prefix("pub ")
            .or(line.strip_prefix("pub(crate) "))
            .unwrap_or(line);
        rest.strip_prefix("mod ")?
            .strip_suffix(';')
            .map(str::to_owned)
    };
    root.lines().filter_map(name).collect()
}

/// What a module uses that its crate lists below it. `path` is the file's path within `src`, such
/// as `node/decide.rs`.
pub(crate) fn order(order: &[String], path: &str, text: &str) -> Vec<String> {
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let place = |name: &str| order.iter().position(|module| module == name);
    let Some(own) = parts.first().and_then(|name| place(name)) else {
        return Vec::new();
    };
    let code = without_tests_and_comments(text);
    let root = format!("{}::", vec!["super"; parts.len()].join("::"));
    let mut used: BTreeSet<String> = heads(&code, "crate::");
    used.extend(heads(&code, &root));
    let is_below = |name: &&String| place(name).is_some_and(|place| place > own);
    let below = used.iter().filter(is_below);
    below
        .map(|name| format!("{path}: uses {name}, which stands below {}", parts[0]))
        .collect()
}

/// Names that a file may not hold outside of its tests and comments.
pub(crate) fn banned_names(path: &str, text: &str, names: &[&str]) -> Vec<String> {
    let code = without_tests_and_comments(text);
    let holds = |name: &&&str| {
        code.match_indices(**name)
            .any(|(at, _)| !ends_in_name(&code[..at]))
    };
    names
        .iter()
        .filter(holds)
        .map(|name| format!("{path}: may not use {name}"))
        .collect()
}

/// The keys of the tables of dependencies of a `Cargo.toml`, those for tests only excepted.
pub(crate) fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut is_inside = false;
    let mut keys = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            let last = table.rsplit('.').next().unwrap_or(table);
            is_inside = last == "dependencies" || last == "build-dependencies";
            if let Some((_, key)) = table.split_once("dependencies.") {
                keys.insert(key.to_owned());
            }
        } else if is_inside && line.contains('=') && !line.starts_with('#') {
            let key = line.split(['.', '=', ' ']).next().unwrap_or(line);
            keys.insert(key.trim_matches('"').to_owned());
        }
    }
    keys
}

/// What is wrong with the map in ARCHITECTURE.md: a line of the map begins, after a list or table
/// mark, with the path of a file in backticks. Each of `files` has one such line, and every path
/// anywhere in the text exists.
pub(crate) fn map(architecture: &str, files: &BTreeSet<String>) -> Vec<String> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (number, line) in numbered(architecture) {
        let start = line.trim_start_matches([' ', '-', '*', '|']);
        let first = start
            .strip_prefix('`')
            .and_then(|rest| rest.split('`').next());
        if let Some(path) = first.filter(|path| is_source(path)) {
            *lines.entry(path).or_default() += 1;
        }
        let named = line
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|path| is_source(path));
        for path in named.filter(|path| !files.contains(*path)) {
            found.push(format!("ARCHITECTURE.md:{number}: there is no {path}"));
        }
    }
    for file in files {
        match lines.get(file.as_str()).copied().unwrap_or(0) {
            0 => found.push(format!("ARCHITECTURE.md: {file} has no line in the map")),
            1 => {}
            count => found.push(format!(
                "ARCHITECTURE.md: {file} has {count} lines in the map"
            )),
        }
    }
    found
}

/// Whether this is written like the path of a source file of the workspace.
fn is_source(path: &str) -> bool {
    let roots = ["core/", "host/", "ui/", "xtask/", "tests/"];
    path.ends_with(".rs")
        && !path.contains([' ', '*', '<'])
        && roots.iter().any(|root| path.starts_with(root))
}

/// The name of the function that begins on this line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if rest.starts_with("pub(") {
        rest = rest.split_once(") ")?.1;
    }
    for word in [
        "pub ",
        "default ",
        "const ",
        "async ",
        "unsafe ",
        "extern \"C\" ",
    ] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(['(', '<']).next()
}

/// How many lines the function has that begins on the first of these.
fn function_lines(lines: &[&str]) -> usize {
    let indent = lines[0].len() - lines[0].trim_start().len();
    for (index, line) in lines.iter().enumerate() {
        let is_level = line.len() - line.trim_start().len() == indent;
        let trimmed = line.trim_end();
        let is_whole = is_level && (trimmed.ends_with(';') || trimmed.ends_with('}'));
        if is_whole && (index == 0 || trimmed.trim_start().starts_with(['}', ')'])) {
            return index + 1;
        }
    }
    lines.len()
}

/// The code of a file, up to its tests, without comments.
fn without_tests_and_comments(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines() {
        if line.trim() == "#[cfg(test)]" {
            break;
        }
        let line = line.trim_start();
        let end = if line.starts_with("//") {
            0
        } else {
            line.find(" //").unwrap_or(line.len())
        };
        code.push_str(&line[..end]);
        code.push('\n');
    }
    code
}

/// The first names behind a path's start, in `start::a`, `start::{a, b::c}` and nested over lines.
fn heads(code: &str, start: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(start) {
        if ends_in_name(&code[..at]) || code[..at].ends_with("::") {
            continue;
        }
        let rest = &code[at + start.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group_heads(group)),
            None => names.extend(leading_name(rest)),
        }
    }
    names
}

/// The first names of the members of a group, whose opening brace has been read.
fn group_heads(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut is_start = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            c if is_start && !c.is_whitespace() => {
                names.extend(leading_name(&group[at..]));
                is_start = false;
            }
            _ => {}
        }
    }
    names
}

fn leading_name(text: &str) -> Option<String> {
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

fn ends_in_name(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_name)
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The lines of a text, numbered from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_wide_line_is_found_by_its_code_points() {
        let fits = "é".repeat(COLUMNS_MAX);
        assert_eq!(wide_lines("a.rs", &fits), names(&[]));
        assert_eq!(wide_lines("a.rs", &format!("\n{fits}é")).len(), 1);
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(long_file("a.rs", &"\n".repeat(FILE_LINES_MAX)), names(&[]));
        assert_eq!(long_file("a.rs", &"\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
    }

    #[test]
    fn a_long_function_is_found_and_its_neighbours_are_not() {
        let body = |count: usize| "        x();\n".repeat(count);
        let function = |head: &str, lines: usize| {
            let inside = lines - 2;
            format!("    {head} {{\n{}    }}\n", body(inside))
        };
        let text = [
            "impl A {\n    fn short() {}\n    fn head(\n        a: u8,\n    ) -> u8;\n".to_owned(),
            function("pub(crate) async fn fits()", FUNCTION_LINES_MAX),
            function("pub const fn long<T>()", FUNCTION_LINES_MAX + 1),
            "}\n".to_owned(),
        ]
        .concat();
        let found = long_functions("a.rs", &text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(": long has 71 lines"), "{found:?}");
    }

    #[test]
    fn a_function_with_its_arguments_on_lines_of_their_own_is_counted_to_its_last_brace() {
        let lines = [
            "fn a(",
            "    b: u8,",
            ") -> u8 {",
            "    b",
            "}",
            "",
            "fn c() {}",
        ];
        assert_eq!(function_lines(&lines), 5);
        let lines = ["fn a<T>()", "where", "    T: B,", "{", "    b;", "}"];
        assert_eq!(function_lines(&lines), 6);
        assert_eq!(function_lines(&["fn a();", "fn b() {", "}"]), 1);
    }

    #[test]
    fn unfinished_work_is_found() {
        let word = ["TO", "DO"].concat();
        assert_eq!(unfinished("a.rs", &format!("// {word}: later")).len(), 1);
        assert_eq!(
            unfinished("a.rs", &format!("let x = {}!();", word.to_lowercase())).len(),
            1
        );
        assert_eq!(
            unfinished("a.rs", &format!("A{word} and {}", word.to_lowercase())).len(),
            0
        );
    }

    #[test]
    fn a_folder_outside_is_found() {
        let folder = ["sha", "red"].concat();
        assert_eq!(
            foreign_folders("a.md", &format!("see ../{folder}/x")).len(),
            1
        );
        assert_eq!(
            foreign_folders("a.md", &format!("see /work/{folder}/x")).len(),
            1
        );
        assert_eq!(
            foreign_folders("a.md", &format!("a {folder} thing")).len(),
            0
        );
    }

    #[test]
    fn modules_are_read_in_order() {
        let text = "//! A.\n\npub mod b;\nmod a;\npub(crate) mod c;\nmod inline {\n}\n";
        assert_eq!(modules(text), ["b", "a", "c"]);
    }

    #[test]
    fn a_use_of_a_module_below_is_found_in_every_form() {
        let list = names(&["ids", "text", "edit"]);
        let check = |path: &str, text: &str| order(&list, path, text).len();
        assert_eq!(
            check("text.rs", "use crate::ids::Id;\nuse crate::text::Text;"),
            0
        );
        assert_eq!(check("text.rs", "use crate::edit::Edit;"), 1);
        assert_eq!(
            check(
                "text.rs",
                "use crate::{\n    ids::{A, edit},\n    edit::E,\n};"
            ),
            1
        );
        assert_eq!(check("text.rs", "use crate::{ids::{A, edit}};"), 0);
        assert_eq!(check("text.rs", "fn f() -> crate::edit::Edit {}"), 1);
        assert_eq!(check("text.rs", "use super::edit::Edit;"), 1);
        assert_eq!(check("text/rope.rs", "use super::super::edit::Edit;"), 1);
        assert_eq!(check("text/rope.rs", "use super::edit;"), 0);
        assert_eq!(
            check(
                "text.rs",
                "/// See [`crate::edit`].\nfn f() {} // crate::edit"
            ),
            0
        );
        assert_eq!(
            check("text.rs", "#[cfg(test)]\nmod tests { use crate::edit::E; }"),
            0
        );
        assert_eq!(check("lib.rs", "use crate::edit::Edit;"), 0);
    }

    #[test]
    fn a_banned_name_is_found_outside_of_comments_and_tests() {
        let check = |text: &str| banned_names("a.rs", text, &["std::", "HashMap"]).len();
        assert_eq!(check("use std::fmt;\nlet a: HashMap<A, B>;"), 2);
        assert_eq!(
            check("// HashMap\nuse my_std::fmt;\n#[cfg(test)]\nuse std::fmt;"),
            0
        );
    }

    #[test]
    fn dependencies_are_read_from_every_table() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\n# b = 1\nc.workspace = true\n\
                        d-e = { version = \"1\" }\n[dependencies.f]\nversion = \"1\"\n\
                        [target.'cfg(unix)'.dependencies]\ng = \"1\"\n\
                        [dev-dependencies]\nh = \"1\"\n";
        let keys: Vec<String> = dependencies(manifest).into_iter().collect();
        assert_eq!(keys, ["c", "d-e", "f", "g"]);
    }

    #[test]
    fn the_map_names_each_file_once_and_no_other() {
        let files: BTreeSet<String> = names(&["core/src/a.rs", "ui/src/b.rs"])
            .into_iter()
            .collect();
        let whole = "- `core/src/a.rs`: A.\n| `ui/src/b.rs` | B |\nRead `core/src/a.rs` first.\n";
        assert_eq!(map(whole, &files), names(&[]));
        assert_eq!(map("- `core/src/a.rs`\n", &files).len(), 1);
        assert_eq!(map(&format!("{whole}- `ui/src/b.rs`\n"), &files).len(), 1);
        assert_eq!(
            map(&format!("{whole}see `host/src/c.rs`\n"), &files).len(),
            1
        );
        assert_eq!(map("", &files).len(), 2);
    }
}
