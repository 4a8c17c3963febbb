//! Recorded editing sessions, as `tests/data/editing-traces` holds them.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::Deserialize;

use crate::BenchError;

/// The names of the traces.
pub const NAMES: [&str; 3] = ["rustcode", "sveltecomponent", "seph-blog1"];

/// One change: where, how many code points go, and what comes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Patch(pub u64, pub u64, pub String);

/// An editing session that begins with an empty text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What the author called it.
    pub name: String,
    /// Its changes, in order.
    pub patches: Vec<Patch>,
    /// The text at the end.
    pub end: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    start_content: String,
    end_content: String,
    txns: Vec<StoredTxn>,
}

#[derive(Deserialize)]
struct StoredTxn {
    patches: Vec<Patch>,
}

impl Trace {
    /// Returns where a trace of the checkout is.
    #[must_use]
    pub fn path(name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/editing-traces");
        folder.join(name).with_extension("json.gz")
    }

    /// Reads a trace of the checkout.
    ///
    /// # Errors
    /// The file is not there, or holds no trace that begins with an empty text.
    pub fn read(name: &str) -> Result<Self, BenchError> {
        let path = Self::path(name);
        let file = File::open(&path).map_err(|error| BenchError::Read(path.clone(), error))?;
        let stored: Stored = serde_json::from_reader(BufReader::new(GzDecoder::new(file)))
            .map_err(|error| BenchError::Trace(path, error))?;
        if !stored.start_content.is_empty() {
            return Err(BenchError::Wrong(format!("{name} begins with a text")));
        }
        Ok(Self {
            name: name.into(),
            patches: stored
                .txns
                .into_iter()
                .flat_map(|txn| txn.patches)
                .collect(),
            end: stored.end_content,
        })
    }

    /// Returns the session that ends after `count` changes.
    #[must_use]
    pub fn cut(mut self, count: usize) -> Self {
        self.patches.truncate(count);
        let mut text = ropey::Rope::new();
        self.patches.iter().for_each(|patch| patch.apply(&mut text));
        self.end = text.to_string();
        self
    }
}

impl Patch {
    /// Makes the change in a bare rope.
    ///
    /// # Panics
    /// When it does not fit the text.
    pub fn apply(&self, text: &mut ropey::Rope) {
        let at = usize::try_from(self.0).expect("positions of a trace fit");
        let removed = usize::try_from(self.1).expect("positions of a trace fit");
        if removed > 0 {
            text.remove(at..at + removed);
        }
        if !self.2.is_empty() {
            text.insert(at, &self.2);
        }
    }
}
