//! Searching a long text beside `grep -c`, which counts the lines that match.
//!
//! Both count the same lines of the same text: apex in its rope, a search going on behind the line
//! of the last match; grep in a file that the system keeps in memory, its start included.

use std::path::PathBuf;

use apex_core::regexp::Regexp;
use apex_core::text::{Span, Text};

use crate::BenchError;
use crate::peer;
use crate::session;
use crate::stats::{Samples, timed};
use crate::table::{Table, figure, ratio};

/// What is looked for, in the syntax that sam and `grep -E` share.
pub const PATTERNS: [(&str, &str); 8] = [
    ("literal", "self"),
    ("rare literal", "part 77"),
    ("literal that is not there", "zzyzx"),
    ("class", "[A-Z][a-z]+[A-Z]"),
    ("alternation", "struct|impl|return"),
    (".*x", ".*x"),
    ("lines", "^ *let .*;$"),
    ("pattern that is not there", "q[0-9]+[a-z]z"),
];

/// Locales of grep: bytes, and code points as apex has them.
const LOCALES: [&str; 2] = ["C", "C.UTF-8"];

/// The times of one pattern.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Apex.
    pub apex: Samples,
    /// grep, by locale.
    pub grep: [Samples; LOCALES.len()],
    /// How many lines match.
    pub count: u64,
}

/// A text in a rope and in a file of the same bytes, which goes with it.
#[derive(Debug)]
pub struct Haystack {
    text: Text,
    path: PathBuf,
}

impl Drop for Haystack {
    fn drop(&mut self) {
        // A file that is gone already is no trouble.
        drop(std::fs::remove_file(&self.path));
    }
}

impl Haystack {
    /// Returns a text of at least `len` bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(len: usize, name: &str) -> Result<Self, BenchError> {
        let text = session::text(len)?;
        let path = std::env::temp_dir().join(format!("apex-bench-{}-{name}", std::process::id()));
        std::fs::write(&path, &text).map_err(|error| BenchError::Read(path.clone(), error))?;
        let text = Text::from(text.as_str());
        Ok(Self { text, path })
    }

    /// Returns how many lines match.
    fn count(&self, regexp: &mut Regexp) -> u64 {
        let (mut q, mut count) = (0, 0);
        let end = self.text.len();
        while q < end
            && let Some(found) = regexp.find(&self.text, Span::new(q, end))
        {
            // What matches at the very end, behind the last newline, is in no line.
            if found.q0 == end {
                break;
            }
            count += 1;
            q = self.text.line_end(found.q0) + 1;
        }
        count
    }
}

/// Searches once with each program, and adds the times.
///
/// # Errors
/// The counts differ, or grep is not there.
pub fn round(haystack: &Haystack, pattern: &str, figures: &mut Figures) -> Result<(), BenchError> {
    let regexp = Regexp::new(pattern);
    let mut regexp = regexp.map_err(|error| BenchError::Wrong(error.to_string()))?;
    let (count, ns) = timed(|| haystack.count(&mut regexp));
    figures.apex.push(ns);
    figures.count = count;
    for (locale, samples) in LOCALES.iter().zip(&mut figures.grep) {
        let (by_grep, ns) = timed(|| peer::grep(locale, pattern, &haystack.path));
        samples.push(ns);
        let by_grep = by_grep?;
        if by_grep != count {
            let words = format!("{pattern}: {count} lines, and {by_grep} by grep");
            return Err(BenchError::Wrong(words));
        }
    }
    Ok(())
}

/// Measures all patterns.
///
/// # Errors
/// A result is wrong.
pub fn run(rounds: usize) -> Result<Table, BenchError> {
    let haystack = Haystack::new(100_000_000, "regexp")?;
    let mut all = vec![Figures::default(); PATTERNS.len()];
    for _ in 0..rounds {
        for ((_, pattern), figures) in PATTERNS.iter().zip(&mut all) {
            round(&haystack, pattern, figures)?;
        }
    }
    let title = format!("regexp: MB/s over 100 MB, medians of {rounds} rounds");
    let columns = [
        "",
        "lines",
        "apex",
        "grep C",
        "/grep",
        "grep UTF-8",
        "/grep",
    ];
    let mut table = Table::new(title, &columns);
    let len = haystack.text.len_bytes() as f64;
    for ((name, pattern), figures) in PATTERNS.iter().zip(&all) {
        let speed = |samples: &Samples| len * 1e3 / samples.median();
        let apex = speed(&figures.apex);
        let [bytes, chars] = figures.grep.each_ref().map(speed);
        table.row([
            format!("{name}: {pattern}"),
            figures.count.to_string(),
            figure(apex),
            figure(bytes),
            ratio(apex, bytes),
            figure(chars),
            ratio(apex, chars),
        ]);
    }
    table.remark("each counts the lines that match; grep -c -E reads a file that is in memory");
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_regexp_bench_counts_what_grep_counts() {
        let haystack = Haystack::new(200_000, "test").unwrap();
        for (name, pattern) in PATTERNS {
            let mut figures = Figures::default();
            round(&haystack, pattern, &mut figures).unwrap();
            assert_eq!(figures.apex.count(), 1);
            let is_there = !name.contains("not there") && !name.contains("rare");
            assert_eq!(figures.count > 0, is_there, "{pattern}");
        }
    }
}
