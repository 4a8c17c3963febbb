//! The tool `sink`: where it is, and what it says it has counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use apex_core::entry::{Exec, MetaOp};
use apex_core::ids::{AttachmentId, BufferId, ExecId, Version, ViewId};
use apex_core::text::Span;

use super::BenchError;

/// Entries of one append, and of one call of the bare component.
pub const BATCH_COUNT: u64 = 64;
/// Proposals that may be undecided at once: the tool's default.
pub const WINDOW: u64 = 64;

/// Returns where a file of the built tool is.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/guests")
        .join(name)
}

/// Returns the order that makes it report, from a user in a buffer at this version.
#[must_use]
pub fn question(id: ExecId, buffer: BufferId, version: Version) -> MetaOp {
    MetaOp::Exec(Box::new(Exec {
        id,
        asked_by: AttachmentId::new(0),
        view: ViewId::Top,
        buffer,
        version,
        at: Span::at(0),
        text: "SinkReport".into(),
        argument: String::new(),
        is_look: false,
    }))
}

/// Returns the order that sets one of its settings.
#[must_use]
pub fn setting(key: &str, value: &str) -> MetaOp {
    MetaOp::Setting {
        key: key.into(),
        value: Some(value.into()),
    }
}

/// What it has counted.
#[derive(Clone, Debug, Default)]
pub struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// Returns the counts in its report.
    #[must_use]
    pub fn parse(report: &str) -> Self {
        let pairs = report.split_whitespace();
        let pairs = pairs.filter_map(|pair| pair.split_once('='));
        Self(
            pairs
                .filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)))
                .collect(),
        )
    }

    fn of(&self, key: &str) -> u64 {
        self.0.get(key).copied().unwrap_or(0)
    }

    /// Returns how many proposals it heard the end of since then.
    #[must_use]
    pub fn decided_since(&self, before: &Self) -> u64 {
        let decided = |counts: &Self| counts.of("accepted") + counts.of("refused");
        decided(self) - decided(before)
    }

    /// Checks by how much a count has grown.
    ///
    /// # Errors
    /// By another number.
    pub fn expect(&self, before: &Self, key: &str, count: u64) -> Result<(), BenchError> {
        let found = self.of(key) - before.of(key);
        if found == count {
            return Ok(());
        }
        Err(BenchError::Wrong(format!(
            "sink counts {found} {key}, not {count}"
        )))
    }
}
