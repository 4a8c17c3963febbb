//! The tool `sink`: where it is, and what it says it has counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use apex_core::edit::Splice;
use apex_core::entry::{BufferOp, Exec, MetaOp};
use apex_core::ids::{AttachmentId, BufferId, ExecId, GroupId, Version, ViewId};
use apex_core::node::Node;
use apex_core::text::Span;

use super::BenchError;

/// Entries of one append, and of one call of the bare component.
pub const BATCH_COUNT: u64 = 64;
/// Proposals that may be undecided at once: enough for the tool to be busy while others are on
/// their way, and fewer than one tool may have.
pub const WINDOW: u64 = 192;

/// Returns where a file of the built tool is.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/guests")
        .join(name)
}

/// Typing: letters, and a newline at the end of each line, which ends a group of undo.
#[derive(Clone, Copy, Debug, Default)]
pub struct Typist {
    count: u64,
    group: Option<GroupId>,
}

impl Typist {
    /// Appends what is typed next to a buffer.
    ///
    /// # Errors
    /// The node does not lead the buffer.
    pub fn key(&mut self, node: &mut Node, buffer: BufferId) -> Result<(), BenchError> {
        /// Keys of a line.
        const LINE_LEN: u64 = 32;
        let end = node.state().buffer(buffer);
        let end = end.map_or(0, |buffer| buffer.text().len());
        let group = *self.group.get_or_insert_with(|| node.new_group());
        self.count += 1;
        let is_end = self.count.is_multiple_of(LINE_LEN);
        if is_end {
            self.group = None;
        }
        let text = if is_end { "\n" } else { "x" };
        let op = BufferOp::Edit {
            splices: Splice::new(Span::at(end), text).into(),
            group: Some(group),
            dot: None,
        };
        node.append_buffer(buffer, op)?;
        Ok(())
    }
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
