//! The manifest of a tool: `NAME.toml` beside `NAME.wasm`, written by its author.
//!
//! It asks; the user grants. Keys and rights that are not known are errors, so that a typing
//! mistake never passes for a smaller wish.

use std::fmt;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::follow::glob;
use super::limits;

/// What a tool says about itself and asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Who it is, as a reverse domain name: `org.apex.tidy`.
    pub id: String,
    /// Its version, for people.
    pub version: String,
    /// What it does, in one line.
    pub summary: String,
    /// The rights it asks for.
    pub wants: Vec<Want>,
    /// Most bytes of memory, clamped to the ceiling.
    pub memory_len: u64,
    /// CPU time of one call in milliseconds, clamped to the ceiling.
    pub call_ms: u64,
    /// What was clamped, one line each.
    pub clamped: Vec<String>,
}

/// One right that a tool asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Which.
    pub cap: Cap,
    /// On what: `buffer:GLOB` for most, a path glob for `file.open`, empty for `notify`.
    pub scope: String,
    /// Why, for the user.
    pub reason: String,
    /// Whether the tool works without it.
    pub is_optional: bool,
}

/// A kind of right. Each import checks one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cap {
    /// Hears of shards and reads them.
    Follow,
    /// Proposes edits, annotations, selections and boards.
    Propose,
    /// Writes buffers to their files.
    Put,
    /// Reads the files of clean buffers again.
    Get,
    /// Opens files, and looks texts up as B3 does.
    Open,
    /// Tells the user things.
    Notify,
}

/// All rights with their names in a manifest, and what their scope is.
const CAPS: [(Cap, &str, Scope); 6] = [
    (Cap::Follow, "shard.follow", Scope::Shard),
    (Cap::Propose, "shard.propose", Scope::Buffer),
    (Cap::Put, "file.put", Scope::Buffer),
    (Cap::Get, "file.get", Scope::Buffer),
    (Cap::Open, "file.open", Scope::Path),
    (Cap::Notify, "notify", Scope::None),
];

/// What the scope of a right may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Shard,
    Buffer,
    Path,
    None,
}

impl Cap {
    /// Returns its name in a manifest.
    #[must_use]
    pub fn name(self) -> &'static str {
        CAPS.iter()
            .find(|(cap, ..)| *cap == self)
            .map_or("", |(_, name, _)| name)
    }

    fn scope(self) -> Scope {
        CAPS.iter()
            .find(|(cap, ..)| *cap == self)
            .map_or(Scope::None, |(.., scope)| *scope)
    }

    fn parse(name: &str) -> Result<Self, ManifestError> {
        let found = CAPS
            .iter()
            .find(|(_, known, _)| *known == name)
            .map(|(cap, ..)| *cap);
        found.ok_or_else(|| ManifestError::UnknownCap(name.to_owned()))
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cap.name())?;
        if !self.scope.is_empty() {
            write!(f, " {}", self.scope)?;
        }
        if self.is_optional {
            f.write_str(" (optional)")?;
        }
        if self.reason.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.reason)
        }
    }
}

impl Want {
    /// Returns whether this right covers a subject: `buffer:NAME`, `meta`, a path, or nothing.
    #[must_use]
    pub fn covers(&self, cap: Cap, subject: &str) -> bool {
        self.cap == cap && (self.cap == Cap::Notify || glob(&self.scope, subject))
    }
}

/// Why a manifest is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestError {
    /// It is no TOML of the right shape.
    Toml(String),
    /// The id is not a reverse domain name.
    Id(String),
    /// It asks for a right that does not exist.
    UnknownCap(String),
    /// The scope does not fit the right.
    Scope {
        /// The right.
        cap: &'static str,
        /// The scope it came with.
        scope: String,
        /// What it takes.
        expected: &'static str,
    },
    /// A string is too long or has control characters in it.
    Text(&'static str),
    /// More rights than one manifest may ask for.
    TooMany,
    /// A limit of zero.
    Zero(&'static str),
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toml(error) => f.write_str(error),
            Self::Id(id) => write!(
                f,
                "id {id:?} is no reverse domain name: use lower-case letters, digits and `-`, \
                 with at least one dot, such as \"org.example.sort\""
            ),
            Self::UnknownCap(cap) => {
                write!(f, "there is no right {cap:?}; those that exist are ")?;
                for (i, (_, name, _)) in CAPS.iter().enumerate() {
                    write!(f, "{}{name}", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::Scope {
                cap,
                scope,
                expected,
            } => {
                write!(f, "scope {scope:?} does not fit {cap}: use {expected}")
            }
            Self::Text(what) => write!(
                f,
                "{what} must be one line of at most {} bytes",
                limits::MANIFEST_STRING_LEN_MAX
            ),
            Self::TooMany => write!(f, "more than {} [[want]] items", limits::WANT_COUNT_MAX),
            Self::Zero(what) => write!(f, "{what} must be at least 1"),
        }
    }
}

impl std::error::Error for ManifestError {}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    id: String,
    version: String,
    summary: String,
    #[serde(default)]
    want: Vec<FileWant>,
    #[serde(default)]
    limits: FileLimits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileWant {
    cap: String,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    optional: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileLimits {
    memory_mib: Option<u64>,
    call_ms: Option<u64>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// What is wrong and what to write instead.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let file: File = toml::from_str(text)
            .map_err(|error| ManifestError::Toml(error.to_string().trim_end().to_owned()))?;
        check_id(&file.id)?;
        check_text("version", &file.version)?;
        check_text("summary", &file.summary)?;
        if file.want.len() > limits::WANT_COUNT_MAX {
            return Err(ManifestError::TooMany);
        }
        let wants = file.want.into_iter().map(want).collect::<Result<_, _>>()?;
        let mut clamped = Vec::new();
        let memory_mib = clamp(
            ("memory-mib", file.limits.memory_mib),
            (limits::MEMORY_MIB_DEFAULT, limits::MEMORY_MIB_MAX),
            &mut clamped,
        )?;
        let call_ms = clamp(
            ("call-ms", file.limits.call_ms),
            (limits::CALL_MS_DEFAULT, limits::CALL_MS_MAX),
            &mut clamped,
        )?;
        Ok(Self {
            id: file.id,
            version: file.version,
            summary: file.summary,
            wants,
            memory_len: memory_mib << 20,
            call_ms,
            clamped,
        })
    }

    /// Returns the sha256 of what it asks for, whatever its order and its reasons.
    #[must_use]
    pub fn wants_digest(&self) -> String {
        let mut lines: Vec<String> = self
            .wants
            .iter()
            .map(|want| format!("{} {}\n", want.cap.name(), want.scope))
            .collect();
        lines.sort();
        lines.dedup();
        hex(&Sha256::digest(lines.concat()))
    }
}

/// Returns bytes in lower-case hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn want(file: FileWant) -> Result<Want, ManifestError> {
    let cap = Cap::parse(&file.cap)?;
    check_text("scope", &file.scope)?;
    check_text("reason", &file.reason)?;
    let (fits, expected) = match cap.scope() {
        Scope::Shard => (
            matches!(file.scope.as_str(), "meta" | "layout")
                || file.scope.starts_with("buffer:")
                || file.scope.starts_with("term:"),
            "\"meta\", \"layout\", \"buffer:GLOB\" or \"term:GLOB\"",
        ),
        Scope::Buffer => (file.scope.starts_with("buffer:"), "\"buffer:GLOB\""),
        Scope::Path => (
            file.scope.starts_with('/') || file.scope.starts_with('*'),
            "a glob of absolute paths such as \"/home/*\", or \"*\"",
        ),
        Scope::None => (file.scope.is_empty(), "no scope"),
    };
    if !fits {
        return Err(ManifestError::Scope {
            cap: cap.name(),
            scope: file.scope,
            expected,
        });
    }
    Ok(Want {
        cap,
        scope: file.scope,
        reason: file.reason,
        is_optional: file.optional,
    })
}

/// Returns the limit that applies, and notes when it is less than what was asked for.
fn clamp(
    (key, asked): (&'static str, Option<u64>),
    (default, ceiling): (u64, u64),
    clamped: &mut Vec<String>,
) -> Result<u64, ManifestError> {
    match asked {
        None => Ok(default),
        Some(0) => Err(ManifestError::Zero(key)),
        Some(asked) if asked > ceiling => {
            clamped.push(format!(
                "{key} = {asked} is more than apex gives; it is {ceiling} here"
            ));
            Ok(ceiling)
        }
        Some(asked) => Ok(asked),
    }
}

fn check_id(id: &str) -> Result<(), ManifestError> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    if id.len() <= 255 && id.contains('.') && id.split('.').all(is_label) {
        Ok(())
    } else {
        Err(ManifestError::Id(super::log::visible(id, 255)))
    }
}

fn check_text(what: &'static str, text: &str) -> Result<(), ManifestError> {
    if text.len() <= limits::MANIFEST_STRING_LEN_MAX && !text.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(ManifestError::Text(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "id = \"org.apex.t\"\nversion = \"1\"\nsummary = \"s\"\n";

    fn error(rest: &str) -> String {
        Manifest::parse(&format!("{HEAD}{rest}"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_manifest_without_wishes_has_the_default_limits() {
        let manifest = Manifest::parse(HEAD).unwrap();
        assert_eq!(manifest.memory_len, limits::MEMORY_MIB_DEFAULT << 20);
        assert_eq!(manifest.call_ms, limits::CALL_MS_DEFAULT);
        assert!(manifest.wants.is_empty() && manifest.clamped.is_empty());
    }

    #[test]
    fn an_unknown_right_is_refused_and_the_known_ones_are_named() {
        let error = error("[[want]]\ncap = \"fs.write\"\n");
        assert!(error.contains("\"fs.write\""), "{error}");
        assert!(
            CAPS.iter().all(|(_, name, _)| error.contains(name)),
            "{error}"
        );
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(error("[limits]\nmemory = 3\n").contains("memory"));
        assert!(error("wants = []\n").contains("wants"));
        assert!(error("[[want]]\ncap = \"notify\"\nwhy = \"x\"\n").contains("why"));
    }

    #[test]
    fn limits_are_clamped_and_the_clamp_is_named() {
        let text = format!("{HEAD}[limits]\nmemory-mib = 100000\ncall-ms = 5\n");
        let manifest = Manifest::parse(&text).unwrap();
        assert_eq!(manifest.memory_len, limits::MEMORY_MIB_MAX << 20);
        assert_eq!(manifest.call_ms, 5);
        assert_eq!(manifest.clamped.len(), 1);
        assert!(manifest.clamped[0].contains("memory-mib = 100000"));
        assert!(error("[limits]\ncall-ms = 0\n").contains("at least 1"));
    }

    #[test]
    fn a_scope_must_fit_its_right() {
        for (cap, scope) in [
            ("shard.propose", "*"),
            ("file.open", "buffer:*"),
            ("notify", "x"),
            ("file.put", ""),
        ] {
            let text = format!("[[want]]\ncap = \"{cap}\"\nscope = \"{scope}\"\n");
            assert!(error(&text).contains(cap), "{cap} {scope}");
        }
    }

    #[test]
    fn an_id_is_a_reverse_domain_name() {
        for bad in ["tidy", "Org.apex", "a..b", "", "a.b c", "a.é"] {
            let text = format!("id = \"{bad}\"\nversion = \"1\"\nsummary = \"\"\n");
            assert!(
                matches!(Manifest::parse(&text), Err(ManifestError::Id(_))),
                "{bad}"
            );
        }
    }

    #[test]
    fn the_digest_of_wishes_ignores_reasons_and_order_but_no_wish() {
        let want = |cap: &str, scope: &str, reason: &str| {
            format!("[[want]]\ncap = \"{cap}\"\nscope = \"{scope}\"\nreason = \"{reason}\"\n")
        };
        let (a, b) = (
            want("file.put", "buffer:*", "x"),
            want("shard.follow", "meta", "y"),
        );
        let digest = |rest: &str| {
            Manifest::parse(&format!("{HEAD}{rest}"))
                .unwrap()
                .wants_digest()
        };
        let both = digest(&format!("{a}{b}"));
        assert_eq!(
            both,
            digest(&format!("{}{}", want("shard.follow", "meta", "z"), a))
        );
        assert_ne!(both, digest(&a));
        assert_ne!(
            both,
            digest(&format!("{}{b}", want("file.put", "buffer:/*", "x")))
        );
    }

    #[test]
    fn a_right_covers_what_its_glob_matches_and_nothing_of_another_kind() {
        let want = Want {
            cap: Cap::Put,
            scope: "buffer:/src/*.rs".to_owned(),
            reason: String::new(),
            is_optional: false,
        };
        assert!(want.covers(Cap::Put, "buffer:/src/a/b.rs"));
        assert!(!want.covers(Cap::Put, "buffer:/etc/b.rs"));
        assert!(!want.covers(Cap::Propose, "buffer:/src/a.rs"));
    }
}
