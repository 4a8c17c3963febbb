//! Recorded editing sessions, as apex's folder `tests/data/editing-traces` holds them.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use flate2::read::GzDecoder;
use serde::Deserialize;

/// One change: where, how many code points go, and what comes.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Patch(pub(crate) u32, pub(crate) u32, pub(crate) String);

/// An editing session that begins with an empty text. No text in it has a code point of more than
/// 16 bits, so that counts of code points and of UTF-16 are one.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) patches: Vec<Patch>,
    pub(crate) end: String,
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
    pub(crate) fn read(path: &str) -> Result<Self, Box<dyn Error>> {
        let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
        let stored: Stored = serde_json::from_reader(BufReader::new(GzDecoder::new(file)))?;
        let patches: Vec<Patch> = stored
            .txns
            .into_iter()
            .flat_map(|txn| txn.patches)
            .collect();
        let is_wide = |patch: &Patch| patch.2.chars().any(|c| c.len_utf16() > 1);
        if !stored.start_content.is_empty() || patches.iter().any(is_wide) {
            return Err(format!("{path}: begins with a text, or has wide code points").into());
        }
        Ok(Self {
            patches,
            end: stored.end_content,
        })
    }

    /// The session that ends after `count` changes, its end computed without any library.
    pub(crate) fn cut(mut self, count: usize) -> Self {
        if count < self.patches.len() {
            self.patches.truncate(count);
            let mut text: Vec<char> = Vec::new();
            for Patch(at, removed, inserted) in &self.patches {
                let (at, removed) = (*at as usize, *removed as usize);
                text.splice(at..at + removed, inserted.chars());
            }
            self.end = text.into_iter().collect();
        }
        self
    }
}
