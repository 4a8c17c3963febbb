//! Golden bytes: every operation, message and snapshot as it was first shipped, kept as test data.
//!
//! 1. A stored log and a peer of another build are read by this code. So bytes that were shipped
//!    once are never encoded otherwise and never mean something else.
//! 2. `tests/data/golden/*.txt` holds a line a value: its name, a colon and its bytes in hex.
//! 3. To add an operation or a message: put its variant into the list that the compiler now finds
//!    incomplete, put a value into the cases beside it, and run
//!    `APEX_GOLDEN=add cargo test -p apex-core golden`. That adds lines and never changes one.
//! 4. A value that holds others spells them out: a list of cases would change it as it grows.
//! 5. A snapshot may change, with `APPLY_VERSION`: its lines are named after the version.

mod fuzz;
mod messages;
mod meta;
mod ops;
mod proposals;
mod snapshots;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{Debug, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A text that no encoding may take for anything else: beyond ASCII, beyond the basic plane, an
/// escaped byte, a NUL and line ends.
const STRANGE: &str = "héllo 漢🙂\u{10FE80}\0\r\n";

/// The variants of an enum.
#[derive(Clone, Copy, Debug)]
struct Variants<T> {
    /// Their names, in order.
    names: &'static [&'static str],
    name_of: fn(&T) -> &'static str,
}

/// Lists the variants of an enum in a `match` that the compiler finds incomplete when one is added.
macro_rules! variants {
    ($list:ident, $enum:ident: $($variant:ident)*) => {
        const $list: Variants<$enum> = Variants {
            names: &[$(stringify!($variant)),*],
            name_of: |value| match value {
                $($enum::$variant { .. } => stringify!($variant),)*
            },
        };
    };
}
use variants;

/// How values become bytes, and back.
#[derive(Clone, Copy, Debug)]
struct Codec<T> {
    encode: fn(&T) -> Vec<u8>,
    decode: fn(&[u8]) -> Option<T>,
    /// At which byte the variant's number stands.
    place_at: usize,
}

impl<T: Serialize + DeserializeOwned> Codec<T> {
    /// What postcard does.
    const PLAIN: Self = Self {
        encode: |value| postcard::to_allocvec(value).unwrap(),
        decode: |bytes| postcard::from_bytes(bytes).ok(),
        place_at: 0,
    };
}

/// One value and how it is stored.
#[derive(Clone, Debug)]
struct Line {
    /// The variant's name and what is special about the value.
    name: String,
    /// What this build makes of it.
    bytes: Vec<u8>,
}

/// A file of golden lines, as it was when the test was built.
#[derive(Clone, Copy, Debug)]
struct File {
    name: &'static str,
    text: &'static str,
}

macro_rules! golden {
    ($name:literal) => {
        File {
            name: $name,
            text: include_str!(concat!("../../../tests/data/golden/", $name)),
        }
    };
}
use golden;

/// Holds the values of an enum: each variant has one and stands at its place, each value becomes
/// the bytes that are stored, and stored bytes become that value.
#[track_caller]
fn check<T: PartialEq + Debug>(
    file: File,
    variants: &Variants<T>,
    codec: &Codec<T>,
    cases: &[(&'static str, T)],
) {
    let mut count = 0;
    for variant in variants.names {
        let of_it = cases
            .iter()
            .filter(|(_, value)| (variants.name_of)(value) == *variant)
            .count();
        assert!(of_it > 0, "{variant} has no golden value");
        count += of_it;
    }
    assert_eq!(count, cases.len());
    let line = |(what, value): &(&str, T)| Line {
        name: [(variants.name_of)(value), what].join(" "),
        bytes: (codec.encode)(value),
    };
    let lines: Vec<Line> = cases.iter().map(line).collect();
    check_lines(file, &lines);
    for ((_, value), line) in cases.iter().zip(&lines) {
        let stored = file.bytes_of(&line.name);
        assert_eq!((codec.decode)(&stored).as_ref(), Some(value));
        let name = (variants.name_of)(value);
        let place = variants.names.iter().position(|other| *other == name);
        let place = place.and_then(|place| u8::try_from(place).ok());
        assert_eq!(place, Some(stored[codec.place_at]), "{}", line.name);
    }
}

/// Holds values that are no enum of ours, by their names alone.
#[track_caller]
fn check_plain<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    file: File,
    cases: &[(&'static str, T)],
) {
    let codec = Codec::<T>::PLAIN;
    let line = |(name, value): &(&str, T)| line(name, &(codec.encode)(value));
    let lines: Vec<Line> = cases.iter().map(line).collect();
    check_lines(file, &lines);
    for (name, value) in cases {
        assert_eq!((codec.decode)(&file.bytes_of(name)).as_ref(), Some(value));
    }
}

/// Holds lines against their file, or adds the missing ones to it when `APEX_GOLDEN` says `add`.
#[track_caller]
fn check_lines(file: File, lines: &[Line]) {
    match std::env::var("APEX_GOLDEN").as_deref() {
        Err(_) => {}
        Ok("add") => return file.add(lines),
        Ok(other) => panic!("APEX_GOLDEN={other}: the only word is add"),
    }
    let wanted = merged(file.text, lines).unwrap_or_else(|wrong| panic!("{}: {wrong}", file.name));
    let missing: Vec<&str> = wanted.lines().skip(file.text.lines().count()).collect();
    let name = file.name;
    assert!(
        missing.is_empty(),
        "{name} lacks the lines of new values; APEX_GOLDEN=add adds them: {missing:?}"
    );
}

impl File {
    /// Returns the stored bytes of a name.
    #[track_caller]
    fn bytes_of(self, name: &str) -> Vec<u8> {
        let stored = stored(self.text).unwrap_or_else(|wrong| panic!("{}: {wrong}", self.name));
        // While lines are added the text of the build does not have them yet.
        let text = stored
            .get(name)
            .map_or_else(|| stored_on_disk(self.name, name), ToString::to_string);
        bytes_of_hex(&text).unwrap_or_else(|| panic!("{name}: no hex"))
    }

    /// Returns all stored bytes, by name.
    fn all(self) -> Vec<(String, Vec<u8>)> {
        let stored = stored(self.text).unwrap_or_else(|wrong| panic!("{}: {wrong}", self.name));
        let bytes = |(name, hex): (&str, &str)| {
            let bytes = bytes_of_hex(hex).unwrap_or_else(|| panic!("{name}: no hex"));
            (name.to_string(), bytes)
        };
        stored.into_iter().map(bytes).collect()
    }

    /// Adds the lines that are missing.
    #[track_caller]
    fn add(self, lines: &[Line]) {
        let path = path_of(self.name);
        let old = std::fs::read_to_string(&path).unwrap();
        let new = merged(&old, lines).unwrap_or_else(|wrong| panic!("{}: {wrong}", self.name));
        std::fs::write(&path, new).unwrap();
    }
}

fn path_of(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/data/golden")
        .join(name)
}

#[track_caller]
fn stored_on_disk(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(path_of(file)).unwrap();
    let stored = stored(&text).unwrap();
    let hex = stored.get(name);
    hex.unwrap_or_else(|| panic!("{file} has no line {name}"))
        .to_string()
}

/// Returns the hex of each name.
fn stored(text: &str) -> Result<BTreeMap<&str, &str>, String> {
    let mut stored = BTreeMap::new();
    for line in text.lines() {
        let (name, hex) = line
            .split_once(": ")
            .ok_or_else(|| format!("no golden line: {line}"))?;
        if stored.insert(name, hex).is_some() {
            return Err(format!("two lines of {name}"));
        }
    }
    Ok(stored)
}

/// Returns a file's text with the lines that it lacks at its end; refuses what would change one.
fn merged(old: &str, lines: &[Line]) -> Result<String, String> {
    let stored = stored(old)?;
    let mut text = String::from(old);
    let mut names = BTreeMap::new();
    for line in lines {
        if names.insert(line.name.as_str(), ()).is_some() {
            return Err(format!("two values of {}", line.name));
        }
        let hex = hex_of(&line.bytes);
        match stored.get(line.name.as_str()) {
            Some(golden) if **golden == *hex => {}
            Some(golden) => {
                let name = &line.name;
                return Err(format!(
                    "{name} was shipped as {golden} and would be {hex} now"
                ));
            }
            None => writeln!(text, "{}: {hex}", line.name).unwrap(),
        }
    }
    match stored.keys().find(|name| !names.contains_key(*name)) {
        Some(name) => Err(format!("{name} was shipped and has no value any more")),
        None => Ok(text),
    }
}

fn hex_of(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(hex, "{byte:02x}").unwrap();
    }
    hex
}

fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = hex.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair[1]).ok();
    digits.chunks(2).map(byte).collect()
}

fn line(name: &str, bytes: &[u8]) -> Line {
    Line {
        name: name.to_string(),
        bytes: bytes.to_vec(),
    }
}

#[test]
fn golden_lines_are_added_and_never_changed() {
    let old = "A: 00ff\nB x: \n";
    let same = [line("A", &[0, 255]), line("B x", &[])];
    assert_eq!(merged(old, &same).as_deref(), Ok(old));
    let more = [same.to_vec(), vec![line("C", &[16])]].concat();
    assert_eq!(
        merged(old, &more).unwrap(),
        "A: 00ff\nB x: \nC: 10\n",
        "a new line goes to the end"
    );
    let changed = [line("A", &[0, 254]), line("B x", &[])];
    assert!(merged(old, &changed).unwrap_err().contains("was shipped"));
    let fewer = [line("A", &[0, 255])];
    assert!(merged(old, &fewer).unwrap_err().contains("no value"));
    let twice = [same.to_vec(), vec![line("A", &[0, 255])]].concat();
    assert!(merged(old, &twice).unwrap_err().contains("two values"));
    assert!(merged("A: 00\nA: 00\n", &[]).is_err());
    assert!(merged("A 00\n", &[]).is_err());
}

#[test]
fn hex_reads_back() {
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(bytes_of_hex(&hex_of(&all)), Some(all));
    assert_eq!(bytes_of_hex("0"), None);
    assert_eq!(bytes_of_hex("0g"), None);
}
