//! Regular expressions as sam has them: leftmost, then longest, searched in the rope in place.
//!
//! 1. The library that others take offers no leftmost-longest with submatches over a rope.
//! 2. A search costs time linear in the text. A lazily built automaton reads each code point once;
//!    its memory is bounded, and when that is full it begins anew.
//! 3. An automaton's state is a list of sets of instructions, one set for each place where a match
//!    may have begun, the earliest first. So it finds the leftmost match without counting starts.
//!    A second automaton goes back from the end of the match and finds where it began.
//! 4. Submatches are looked for afterwards, inside the match, in the order in which sam does it.

mod dfa;
mod parse;
mod program;
mod submatch;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use memchr::memmem::Finder;

use crate::text::{LITERAL_LEN_MAX, Span, Text};
use dfa::{Dfa, Mode};
use program::{Direction, Program};

/// Why a pattern is no regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegexpError {
    /// A `(` without its `)`.
    UnmatchedOpen,
    /// A `)` without its `(`.
    UnmatchedClose,
    /// A class without its `]`, or with a `-` at its edge.
    BadClass,
    /// An operator without what it is applied to.
    NoOperand(char),
}

impl fmt::Display for RegexpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnmatchedOpen => f.write_str("a ( has no ): write \\( for the character"),
            Self::UnmatchedClose => f.write_str("a ) has no (: write \\) for the character"),
            Self::BadClass => f.write_str(
                "a class [...] does not end, or has a - at its edge: \\[ and \\- are characters",
            ),
            Self::NoOperand(c) => {
                write!(
                    f,
                    "nothing for {c} to apply to: write \\{c} for the character"
                )
            }
        }
    }
}

impl core::error::Error for RegexpError {}

/// Most submatches that a replacement can name.
pub const SUBMATCH_COUNT: usize = 9;

/// What `\1` to `\9` stand for; none where the group took no part.
pub type Submatches = [Option<Span>; SUBMATCH_COUNT];

/// A compiled regular expression with the automata that its searches have built so far.
pub struct Regexp {
    forward: Program,
    backward: Program,
    literal: Option<Literal>,
    /// Finds where the leftmost-longest match ends.
    find_end: Dfa,
    /// Goes back from that end to its start.
    find_start: Dfa,
    /// The same for searches backwards: there `$` also matches at the end of the text.
    find_start_back: Dfa,
    find_end_back: Dfa,
}

/// A text with which each match begins.
struct Literal {
    finder: Finder<'static>,
    /// Whether it is the whole pattern.
    is_all: bool,
}

impl fmt::Debug for Regexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Regexp({} instructions)", self.forward.insts.len())
    }
}

impl Regexp {
    /// Compiles a pattern; see regexp(7) of Plan 9 for what it may hold.
    ///
    /// # Errors
    /// What is wrong with the pattern.
    pub fn new(pattern: &str) -> Result<Self, RegexpError> {
        let parsed = parse::parse(pattern)?;
        let forward = Program::compile(&parsed, Direction::Forward);
        let backward = Program::compile(&parsed, Direction::Backward);
        let literal = parsed
            .literal_prefix()
            .filter(|(text, _)| text.len() <= LITERAL_LEN_MAX)
            .map(|(text, is_all)| Literal {
                finder: Finder::new(text.as_bytes()).into_owned(),
                is_all,
            });
        let mode = |direction, is_anchored, is_end_a_line_end| Mode {
            direction,
            is_anchored,
            is_end_a_line_end,
        };
        Ok(Self {
            find_end: Dfa::new(mode(Direction::Forward, false, false), &forward),
            find_start: Dfa::new(mode(Direction::Backward, true, false), &backward),
            find_start_back: Dfa::new(mode(Direction::Backward, false, true), &backward),
            find_end_back: Dfa::new(mode(Direction::Forward, true, true), &forward),
            forward,
            backward,
            literal,
        })
    }

    /// Finds the leftmost-longest match inside `range`; `^` and `$` look at the text around it.
    pub fn find(&mut self, text: &Text, range: Span) -> Option<Span> {
        let range = range.clamped(text.len());
        let (from, to) = (text.byte_of(range.q0), text.byte_of(range.q1));
        let found = self.find_bytes(text, from, to)?;
        Some(text.span_of_bytes(found.0, found.1))
    }

    fn find_bytes(&mut self, text: &Text, from: usize, to: usize) -> Option<(usize, usize)> {
        if let Some(literal) = &self.literal
            && literal.is_all
        {
            let len = literal.finder.needle().len();
            let at = text.find_bytes(&literal.finder, from, to)?;
            return Some((at, at + len));
        }
        let prefix = self.literal.as_ref().map(|literal| &literal.finder);
        let end = self.find_end.run(&self.forward, text, (from, to), prefix)?;
        let start = self
            .find_start
            .run(&self.backward, text, (from, end), None)
            .unwrap_or(end);
        Some((start, end))
    }

    /// Returns the first `count_max` matches in a range, none overlapping another. An empty match
    /// right behind another one is none.
    #[must_use]
    pub fn find_all(&mut self, text: &Text, range: Span, count_max: usize) -> Vec<Span> {
        let mut all: Vec<Span> = Vec::new();
        let mut q = range.q0;
        while all.len() < count_max
            && q <= range.q1
            && let Some(found) = self.find(text, Span::new(q, range.q1))
        {
            if found.is_empty() && all.last().is_some_and(|last| last.q1 == found.q0) {
                q = found.q0 + 1;
                continue;
            }
            q = found.q1 + u64::from(found.is_empty());
            all.push(found);
        }
        all
    }

    /// Finds the match that ends last at or before `to`, and of those the longest.
    pub fn find_back(&mut self, text: &Text, to: u64) -> Option<Span> {
        let to = text.byte_of(to.min(text.len()));
        let start = self
            .find_start_back
            .run(&self.backward, text, (0, to), None)?;
        let end = self
            .find_end_back
            .run(&self.forward, text, (start, to), None)
            .unwrap_or(start);
        Some(text.span_of_bytes(start, end))
    }

    /// Returns what the groups of a match stand for. `found` is what [`Regexp::find`] returned.
    #[must_use]
    pub fn submatches(&self, text: &Text, found: Span) -> Submatches {
        submatch::submatches(&self.forward, text, found)
    }
}

/// A class of code points, as ranges with both ends inside.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Class {
    ranges: Vec<(char, char)>,
    is_negated: bool,
}

impl Class {
    fn contains(&self, c: char) -> bool {
        let is_in = self.ranges.iter().any(|(a, b)| *a <= c && c <= *b);
        // A negated class never matches a newline.
        if self.is_negated {
            !is_in && c != '\n'
        } else {
            is_in
        }
    }

    fn one(c: char) -> Self {
        Self {
            ranges: alloc::vec![(c, c)],
            is_negated: false,
        }
    }

    /// All but newline: the dot.
    const fn any() -> Self {
        Self {
            ranges: Vec::new(),
            is_negated: true,
        }
    }
}

/// Returns a pattern that matches exactly `text`.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if ".*+?[]()|\\^$".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}
