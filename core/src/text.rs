//! A text: a rope addressed by Unicode code points, and how bytes become text and back.
//!
//! 1. Positions are code points, from 0, because acme's addresses (`#n`) count them.
//! 2. Clones share structure, so that a snapshot costs nanoseconds whatever the size.
//! 3. Bytes are sacred: each byte that is not valid UTF-8 becomes one code point of [`ESCAPES`],
//!    valid input inside that range is escaped byte by byte, and writing reverses it exactly.

mod builder;
pub mod digest;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use memchr::memmem::Finder;
use ropey::Rope;
use ropey::str_utils::char_to_byte_idx;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

pub use self::builder::{NotUtf8, TextBuilder};

/// Longest literal, in bytes, that is looked for by its own searcher; longer ones need a table.
pub(crate) const LITERAL_LEN_MAX: usize = 256;

/// A half-open range of code points.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Span {
    /// Where it begins.
    pub q0: u64,
    /// Where it ends; never before `q0` in a valid span.
    pub q1: u64,
}

impl Span {
    /// Returns the span from `q0` to `q1`.
    #[must_use]
    pub const fn new(q0: u64, q1: u64) -> Self {
        Self { q0, q1 }
    }

    /// Returns the empty span at `q`.
    #[must_use]
    pub const fn at(q: u64) -> Self {
        Self { q0: q, q1: q }
    }

    /// Returns how many code points it covers; 0 when it is reversed.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.q1.saturating_sub(self.q0)
    }

    /// Returns whether it covers nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.q1 <= self.q0
    }

    /// Returns whether it is in order and inside a text of `len` code points.
    #[must_use]
    pub const fn fits(self, len: u64) -> bool {
        self.q0 <= self.q1 && self.q1 <= len
    }

    /// Returns the nearest valid span inside a text of `len` code points.
    #[must_use]
    pub fn clamped(self, len: u64) -> Self {
        let q0 = self.q0.min(len);
        Self {
            q0,
            q1: self.q1.clamp(q0, len.max(q0)),
        }
    }
}

/// First code point of the escapes, less 0x80.
const ESCAPE_BASE: u32 = 0x10_FE00;

/// The code points that stand for single bytes 0x80 to 0xFF.
pub const ESCAPES: RangeInclusive<char> = '\u{10FE80}'..='\u{10FEFF}';

/// Returns the byte that an escape stands for.
#[must_use]
pub fn escaped_byte(c: char) -> Option<u8> {
    let byte = u32::from(c).checked_sub(ESCAPE_BASE)?;
    u8::try_from(byte).ok().filter(|byte| *byte >= 0x80)
}

/// A text. Cloning shares structure and costs nanoseconds.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Text {
    rope: Rope,
    /// Code points, kept beside the rope: it would add them up each time.
    len: u64,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "positions were checked against the length"
)]
const fn index(q: u64) -> usize {
    q as usize
}

impl Text {
    /// Returns the empty text.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many code points it holds.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many bytes of UTF-8 it holds.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.rope.len_bytes() as u64
    }

    /// Returns how many lines it has: newlines plus one.
    #[must_use]
    pub fn line_count(&self) -> u64 {
        self.rope.len_lines() as u64
    }

    /// Returns the code point at `q`, or none at or past the end.
    #[must_use]
    pub fn char_at(&self, q: u64) -> Option<char> {
        self.rope.get_char(usize::try_from(q).ok()?)
    }

    /// Returns the text of a span; what lies past the end is left out. Costs its length.
    #[must_use]
    pub fn slice(&self, span: Span) -> String {
        let span = span.clamped(self.len());
        String::from(self.rope.slice(index(span.q0)..index(span.q1)))
    }

    /// Returns the text of a span inside the text, as a splice holds it.
    pub(crate) fn piece(&self, span: Span) -> SmolStr {
        if span.is_empty() {
            return SmolStr::default();
        }
        // A slice of a rope measures the way to both of its ends; most pieces are one key's.
        let (chunk, _, start, _) = self.rope.chunk_at_char(index(span.q0));
        let from = char_to_byte_idx(chunk, index(span.q0) - start);
        let rest = &chunk[from..];
        let piece = &rest[..char_to_byte_idx(rest, index(span.len()))];
        if count(piece) == span.len() {
            SmolStr::new(piece)
        } else {
            SmolStr::from(self.slice(span))
        }
    }

    /// Returns the line (from 0) that holds `q`; the last line for what lies past the end.
    #[must_use]
    pub fn line_of(&self, q: u64) -> u64 {
        self.rope.char_to_line(index(q.min(self.len()))) as u64
    }

    /// Returns where line `line` (from 0) begins; the end for lines past the last.
    #[must_use]
    pub fn line_start(&self, line: u64) -> u64 {
        if line >= self.line_count() {
            return self.len();
        }
        self.rope.line_to_char(index(line)) as u64
    }

    /// Returns where the line that starts at or before `q` ends, before its newline.
    #[must_use]
    pub fn line_end(&self, q: u64) -> u64 {
        let next = self.line_of(q) + 1;
        if next >= self.line_count() {
            return self.len();
        }
        self.line_start(next) - 1
    }

    /// Returns the code points from `q` on.
    pub fn chars_from(&self, q: u64) -> impl Iterator<Item = char> + '_ {
        self.rope.chars_at(index(q.min(self.len())))
    }

    /// Returns the code points before `q`, backwards.
    pub fn chars_before(&self, q: u64) -> impl Iterator<Item = char> + '_ {
        self.rope.chars_at(index(q.min(self.len()))).reversed()
    }

    /// Returns its pieces in order, without copying.
    pub fn chunks(&self) -> impl Iterator<Item = &str> {
        self.rope.chunks()
    }

    /// Returns the pieces of a span in order, without copying.
    pub fn chunks_of(&self, span: Span) -> impl Iterator<Item = &str> {
        let span = span.clamped(self.len());
        self.rope.slice(index(span.q0)..index(span.q1)).chunks()
    }

    /// Returns its pieces from `q` on, without copying and without measuring them.
    pub fn chunks_from(&self, q: u64) -> impl Iterator<Item = &str> {
        let q = index(q.min(self.len()));
        let (mut chunks, _, start, _) = self.rope.chunks_at_char(q);
        let first = chunks.next().unwrap_or_default();
        let cut = first
            .char_indices()
            .nth(q - start)
            .map_or(first.len(), |(at, _)| at);
        core::iter::once(&first[cut..]).chain(chunks)
    }

    /// Replaces a span by a text; returns how many code points that has. Costs the logarithm of
    /// the length plus the text.
    ///
    /// # Panics
    /// When the span does not fit; callers check with [`Span::fits`].
    pub fn replace(&mut self, span: Span, text: &str) -> u64 {
        assert!(span.fits(self.len()), "a span outside the text");
        if !span.is_empty() {
            self.rope.remove(index(span.q0)..index(span.q1));
        }
        if !text.is_empty() {
            self.rope.insert(index(span.q0), text);
        }
        let count = count(text);
        self.len = self.len - span.len() + count;
        count
    }

    /// Finds a literal at or after `from`, without wrapping. Linear time, in place.
    #[must_use]
    pub fn find(&self, needle: &str, from: u64) -> Option<Span> {
        let needle = needle.as_bytes();
        if needle.is_empty() {
            return None;
        }
        let (from, end) = (self.byte_of(from), self.len_in_bytes());
        let at = if needle.len() <= LITERAL_LEN_MAX {
            self.find_bytes(&Finder::new(needle), from, end)?
        } else {
            self.find_long(needle, from)?
        };
        Some(self.span_of_bytes(at, at + needle.len()))
    }

    /// Finds a literal of at most [`LITERAL_LEN_MAX`] bytes in a range of bytes; returns where it
    /// begins.
    pub(crate) fn find_bytes(&self, finder: &Finder<'_>, from: usize, to: usize) -> Option<usize> {
        let overlap = finder.needle().len() - 1;
        let mut at = from;
        // The end of what was read, in which a match may begin that ends in the next chunk.
        let mut seam = Vec::new();
        for chunk in self.byte_chunks(from, to) {
            let bytes = chunk.as_bytes();
            if !seam.is_empty() {
                let tail = seam.len();
                seam.extend_from_slice(&bytes[..overlap.min(bytes.len())]);
                if let Some(offset) = finder.find(&seam) {
                    return Some(at - tail + offset);
                }
                seam.truncate(tail);
            }
            if let Some(offset) = finder.find(bytes) {
                return Some(at + offset);
            }
            seam.extend_from_slice(&bytes[bytes.len().saturating_sub(overlap)..]);
            seam.drain(..seam.len().saturating_sub(overlap));
            at += bytes.len();
        }
        None
    }

    /// Finds a literal of any length by the table of Knuth, Morris and Pratt.
    fn find_long(&self, needle: &[u8], from: usize) -> Option<usize> {
        let failure = failure_table(needle);
        let mut matched = 0;
        let mut at = from;
        for chunk in self.byte_chunks(from, self.len_in_bytes()) {
            for byte in chunk.bytes() {
                while matched > 0 && needle[matched] != byte {
                    matched = failure[matched - 1];
                }
                matched += usize::from(needle[matched] == byte);
                at += 1;
                if matched == needle.len() {
                    return Some(at - needle.len());
                }
            }
        }
        None
    }

    /// Returns the byte at which a position stands; the end for what lies past it.
    pub(crate) fn byte_of(&self, q: u64) -> usize {
        if q >= self.len() {
            return self.len_in_bytes();
        }
        self.rope.char_to_byte(index(q))
    }

    /// Returns the span of a range of bytes, both ends between code points.
    pub(crate) fn span_of_bytes(&self, from: usize, to: usize) -> Span {
        let (chunk, start, chars, _) = self.rope.chunk_at_byte(from);
        let (before, behind) = chunk.split_at(from - start);
        let q0 = chars as u64 + count(before);
        let q1 = match behind.get(..to - from) {
            Some(found) => q0 + count(found),
            None => self.rope.byte_to_char(to) as u64,
        };
        Span::new(q0, q1)
    }

    /// Returns how many bytes it has, as an index.
    pub(crate) fn len_in_bytes(&self) -> usize {
        self.rope.len_bytes()
    }

    /// Returns the byte at an index before the end.
    pub(crate) fn byte_at(&self, at: usize) -> u8 {
        self.rope.byte(at)
    }

    /// Returns the pieces of a range of bytes in order; both ends lie between code points.
    pub(crate) fn byte_chunks(&self, from: usize, to: usize) -> impl Iterator<Item = &str> {
        // A slice of the rope finds both of its ends and measures itself: several times the cost
        // of this, which a search pays for each match.
        let (mut chunks, start, ..) = self.rope.chunks_at_byte(from);
        let (mut skip, mut left) = (from - start, to.saturating_sub(from));
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let chunk = &chunks.next()?[core::mem::take(&mut skip)..];
            let chunk = &chunk[..left.min(chunk.len())];
            left -= chunk.len();
            Some(chunk)
        })
    }

    /// Returns the bytes from an index on, in pieces; a code point may be cut at the first.
    pub(crate) fn bytes_from(&self, at: usize) -> impl Iterator<Item = &[u8]> {
        let (mut chunks, start, ..) = self.rope.chunks_at_byte(at);
        let first = chunks.next().unwrap_or_default().as_bytes();
        let rest = chunks.map(str::as_bytes);
        core::iter::once(&first[at - start..]).chain(rest)
    }

    /// Returns the pieces of a range of bytes from its end to its start; both ends lie between code
    /// points.
    pub(crate) fn byte_chunks_back(&self, from: usize, to: usize) -> impl Iterator<Item = &str> {
        let (mut chunks, start, ..) = self.rope.chunks_at_byte(to);
        let mut left = to.saturating_sub(from);
        // The chunk that `to` lies in, up to there; then the chunks before it.
        let mut head = (to > start).then(|| {
            let chunk = chunks.next().unwrap_or_default();
            chunks.prev();
            &chunk[..to - start]
        });
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let chunk = head.take().or_else(|| chunks.prev())?;
            let chunk = &chunk[chunk.len() - left.min(chunk.len())..];
            left -= chunk.len();
            Some(chunk)
        })
    }

    /// Finds the next literal after `dot`, wrapping round, as B3 does; it may be `dot` itself.
    #[must_use]
    pub fn find_wrapping(&self, needle: &str, dot: Span) -> Option<Span> {
        self.find(needle, dot.q1).or_else(|| self.find(needle, 0))
    }

    /// Returns the bytes of a file that holds this text, piece by piece.
    pub fn byte_pieces(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.rope.chunks().map(encode)
    }

    /// Returns whether it holds bytes that were not valid UTF-8.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        // All escapes share their first three bytes but for the last two bits of the third.
        self.rope
            .chunks()
            .any(|chunk| chunk.chars().any(|c| escaped_byte(c).is_some()))
    }
}

/// Returns how many code points a text has. Most texts of edits are one key's or nothing.
pub(crate) fn count(text: &str) -> u64 {
    match text.len() {
        len @ 0..=1 => len as u64,
        _ => text.chars().count() as u64,
    }
}

/// Returns the table of Knuth, Morris and Pratt.
fn failure_table(needle: &[u8]) -> Vec<usize> {
    let mut table = alloc::vec![0; needle.len()];
    let mut matched = 0;
    for i in 1..needle.len() {
        while matched > 0 && needle[matched] != needle[i] {
            matched = table[matched - 1];
        }
        matched += usize::from(needle[matched] == needle[i]);
        table[i] = matched;
    }
    table
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let rope = Rope::from_str(text);
        let len = rope.len_chars() as u64;
        Self { rope, len }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rope.chunks().try_for_each(|chunk| f.write_str(chunk))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} code points)", self.len())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&str>::deserialize(deserializer).map(Self::from)
    }
}

/// Turns the bytes of a file into text, piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// The start of a sequence that the last piece cut in two; at most 3 bytes.
    cut: Vec<u8>,
}

impl Decoder {
    /// Returns the text of the next piece; a sequence that it cuts in two waits for the next one.
    pub fn decode(&mut self, piece: &[u8]) -> String {
        let joined;
        let mut rest = if self.cut.is_empty() {
            piece
        } else {
            self.cut.extend_from_slice(piece);
            joined = core::mem::take(&mut self.cut);
            &joined
        };
        let mut text = String::with_capacity(rest.len());
        loop {
            match core::str::from_utf8(rest) {
                Ok(valid) => {
                    push_valid(&mut text, valid);
                    return text;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    push_valid(&mut text, core::str::from_utf8(valid).unwrap_or_default());
                    let Some(bad) = error.error_len() else {
                        self.cut = after.to_vec();
                        return text;
                    };
                    text.extend(after[..bad].iter().map(|byte| escape(*byte)));
                    rest = &after[bad..];
                }
            }
        }
    }

    /// Returns the text of what was still waiting when the file ended.
    #[must_use]
    pub fn finish(self) -> String {
        self.cut.iter().map(|byte| escape(*byte)).collect()
    }
}

fn escape(byte: u8) -> char {
    char::from_u32(ESCAPE_BASE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Appends valid text, escaping what lies in the range of the escapes.
fn push_valid(text: &mut String, valid: &str) {
    // The escapes all begin with this byte; most texts have none of it.
    if !valid.as_bytes().contains(&0xF4) {
        return text.push_str(valid);
    }
    for c in valid.chars() {
        if ESCAPES.contains(&c) {
            let mut bytes = [0; 4];
            text.extend(c.encode_utf8(&mut bytes).bytes().map(escape));
        } else {
            text.push(c);
        }
    }
}

/// Returns the bytes of a file that holds `text`: escapes become the bytes they stand for.
#[must_use]
pub fn encode(text: &str) -> Vec<u8> {
    if !text.as_bytes().contains(&0xF4) {
        return text.as_bytes().to_vec();
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match escaped_byte(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_from_a_position_make_the_rest_of_the_text() {
        let source = "aé漢\u{10FEFF}b\n".repeat(500);
        let text = Text::from(source.as_str());
        for q in [0, 1, 2, 5, 6, 999, 2500, 3000, 9999] {
            let rest: String = text.chunks_from(q).collect();
            assert_eq!(
                rest,
                text.slice(Span::new(q, text.len().max(q))),
                "from #{q}"
            );
        }
    }

    #[test]
    fn a_piece_is_the_text_of_its_span_wherever_the_rope_is_cut() {
        let source = "aé漢\u{10FEFF}b\n".repeat(500);
        let text = Text::from(source.as_str());
        for q in 0..text.len() {
            for len in [0, 1, 2, 5, 24, 900] {
                let span = Span::new(q, q + len).clamped(text.len());
                assert_eq!(text.piece(span), text.slice(span), "{span:?}");
            }
        }
        assert_eq!(text.piece(Span::at(text.len())), "");
    }

    fn round_trip(bytes: &[u8], piece: usize) {
        let mut decoder = Decoder::default();
        let mut text = String::new();
        for part in bytes.chunks(piece) {
            text.push_str(&decoder.decode(part));
        }
        text.push_str(&decoder.finish());
        assert_eq!(encode(&text), bytes);
    }

    #[test]
    fn any_bytes_come_back_whatever_the_pieces() {
        let mut all: Vec<u8> = (0..=255).collect();
        all.extend("é漢🙂\u{10FE80}\u{10FEFF}\u{10FFFF}\r\n".as_bytes());
        all.extend([
            0x61, 0xFF, 0xFE, 0x62, 0x00, 0x63, 0xED, 0xA0, 0x80, 0xF4, 0x8F,
        ]);
        for piece in 1..9 {
            round_trip(&all, piece);
        }
    }

    #[test]
    fn an_invalid_byte_is_one_code_point() {
        let mut decoder = Decoder::default();
        let text = decoder.decode(b"a\xFFb");
        assert_eq!(text.chars().count(), 3);
        assert_eq!(text.chars().nth(1).and_then(escaped_byte), Some(0xFF));
    }

    #[test]
    fn ranges_of_bytes_come_in_pieces_both_ways() {
        let source = "aé漢\u{10FEFF}b\n".repeat(500);
        let text = Text::from(source.as_str());
        let places: Vec<usize> = source.char_indices().map(|(at, _)| at).collect();
        let some = || places.iter().copied().step_by(97).chain([source.len()]);
        for (from, to) in some().flat_map(|from| some().map(move |to| (from, to))) {
            if from > to {
                continue;
            }
            let forth: String = text.byte_chunks(from, to).collect();
            assert_eq!(forth, source[from..to], "{from} to {to}");
            let mut back: Vec<&str> = text.byte_chunks_back(from, to).collect();
            back.reverse();
            assert_eq!(back.concat(), source[from..to], "{from} to {to}");
            let q0 = source[..from].chars().count() as u64;
            let q1 = q0 + source[from..to].chars().count() as u64;
            assert_eq!(text.span_of_bytes(from, to), Span::new(q0, q1));
        }
        let empty = Text::new();
        assert_eq!(empty.byte_chunks(0, 0).next(), None);
        assert_eq!(empty.byte_chunks_back(0, 0).next(), None);
        assert_eq!(empty.span_of_bytes(0, 0), Span::at(0));
    }

    #[test]
    fn a_literal_is_found_over_chunk_borders_and_wraps() {
        let mut long = "aab".repeat(5000);
        long.push_str("aaabé漢");
        let text = Text::from(long.as_str());
        assert_eq!(text.find("aaab", 0), Some(Span::new(15000, 15004)));
        assert_eq!(text.find("é漢", 0), Some(Span::new(15004, 15006)));
        assert_eq!(
            text.find_wrapping("aab", Span::new(15002, 15004)),
            Some(Span::new(0, 3))
        );
        assert_eq!(text.find("", 0), None);
        assert_eq!(text.find("zz", 0), None);
    }

    #[test]
    fn lines_are_counted_by_newline_alone() {
        let text = Text::from("a\r\nb\u{85}\u{2028}c\n");
        assert_eq!(text.line_count(), 3);
        assert_eq!(text.line_start(1), 3);
        assert_eq!(text.line_end(0), 2);
        assert_eq!(text.line_of(99), 2);
        assert_eq!(text.line_start(99), text.len());
    }
}
