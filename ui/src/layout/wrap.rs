//! Texts in cells: soft wrap by visual row, cell widths, and positions to cells both ways.
//!
//! 1. A row break depends only on the text from the start of its line, so that scrolling down and
//!    up again by the same rows is an exact inverse.
//! 2. A line longer than [`SEGMENT_COUNT`] code points is broken at each multiple of it, so that
//!    a line of a gigabyte costs no more than a page.
//! 3. What a terminal cannot show as it is (controls, raw bytes, lone marks) is spelled out.

use std::rc::Rc;

use apex_core::text::{Text, escaped_byte};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Code points after which a line is broken whatever its width.
pub const SEGMENT_COUNT: u64 = 1 << 14;
/// Most code points that one cluster may have; a longer pile of marks is broken up.
const CLUSTER_COUNT_MAX: u32 = 32;

/// How a text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Cells in a row; at least 1.
    pub width: u16,
    /// Cells between tab stops; at least 1.
    pub tab: u16,
}

/// How a cluster is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// One character, as it is.
    Char(char),
    /// Several code points that make one character.
    Cluster(Rc<str>),
    /// Blanks up to the next tab stop.
    Tab,
    /// The end of the line: no cell.
    Newline,
    /// Something the terminal must not see, spelled out.
    Spelled(Rc<str>),
    /// A byte that is not UTF-8, spelled out.
    Byte(u8),
}

/// One cluster in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glyph {
    /// Where it is in the text.
    pub q: u64,
    /// How many code points it has.
    pub count: u32,
    /// Its first cell in the row.
    pub column: u16,
    /// Its cells; 0 for a newline.
    pub width: u16,
    /// How it is shown.
    pub shown: Shown,
}

/// One visual row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Where it begins in the text.
    pub start: u64,
    /// Where the next row begins; the end of the text for the last.
    pub end: u64,
    /// Its clusters, left to right.
    pub glyphs: Vec<Glyph>,
    /// Whether no row follows.
    pub is_last: bool,
}

impl Row {
    /// Returns whether the position is shown in this row; a row break belongs to the next row.
    #[must_use]
    pub const fn holds(&self, q: u64) -> bool {
        q >= self.start && (q < self.end || self.is_last && q == self.end)
    }

    /// Returns the cell of a position in this row; the cell after its text for the end.
    #[must_use]
    pub fn column_of(&self, q: u64) -> u16 {
        let index = self
            .glyphs
            .partition_point(|glyph| glyph.q + u64::from(glyph.count) <= q);
        match self.glyphs.get(index) {
            Some(glyph) => glyph.column,
            None => self
                .glyphs
                .last()
                .map_or(0, |glyph| glyph.column + glyph.width),
        }
    }

    /// Returns the position nearest to a cell of this row.
    #[must_use]
    pub fn position_at(&self, column: u16) -> u64 {
        for glyph in &self.glyphs {
            if column < glyph.column + glyph.width || glyph.shown == Shown::Newline {
                return glyph.q;
            }
        }
        // Past the text of a wrapped row: its last cluster, because its end is in the next row.
        match self.glyphs.last() {
            Some(last) if !self.is_last => last.q,
            _ => self.end,
        }
    }
}

/// Lays out the rows from `from`, which must begin a row; at most `count`, at least one.
#[must_use]
pub fn rows(text: &Text, from: u64, shape: Shape, count: usize) -> Vec<Row> {
    let mut found = Vec::new();
    for_rows(text, from, shape, count, &mut |row| found.push(row.clone()));
    found
}

/// Shows rows one after another, all in the same memory: what a frame is made of.
pub fn for_rows(text: &Text, from: u64, shape: Shape, count: usize, show: &mut dyn FnMut(&Row)) {
    let mut rows = layout(text, from, shape);
    let mut row = Row::default();
    for _ in 0..count.max(1) {
        rows.fill_row(&mut row);
        show(&row);
        if row.is_last {
            return;
        }
    }
}

/// Returns whether a position is in one of the `count` rows from `from`, and where they end.
#[must_use]
pub fn sight(text: &Text, from: u64, q: u64, shape: Shape, count: usize) -> (bool, u64) {
    let mut rows = layout(text, from, shape);
    rows.keeps_glyphs = false;
    let mut end = from;
    for _ in 0..count {
        let row = rows.next_row();
        if row.holds(q) {
            return (true, row.end);
        }
        end = row.end;
        if row.is_last {
            break;
        }
    }
    (false, end)
}

/// Returns where the visual row that holds `q` begins.
#[must_use]
pub fn row_start(text: &Text, q: u64, shape: Shape) -> u64 {
    let q = q.min(text.len());
    let mut rows = layout(text, segment_start(text, q), shape);
    rows.keeps_glyphs = false;
    loop {
        let row = rows.next_row();
        if row.holds(q) || row.is_last {
            return row.start;
        }
    }
}

/// Returns where the row `delta` rows below (or above, if negative) begins; stops at both ends.
#[must_use]
pub fn scroll(text: &Text, from: u64, delta: i64, shape: Shape) -> u64 {
    let from = row_start(text, from, shape);
    if delta >= 0 {
        let mut rows = layout(text, from, shape);
        rows.keeps_glyphs = false;
        let mut start = from;
        for _ in 0..=delta {
            let row = rows.next_row();
            start = row.start;
            if row.is_last {
                break;
            }
        }
        return start;
    }
    let mut wanted = usize::try_from(delta.unsigned_abs()).unwrap_or(usize::MAX);
    let mut at = from;
    while at > 0 {
        let segment = segment_start(text, at - 1);
        let starts = starts_between(text, segment, at, shape);
        if starts.len() >= wanted {
            return starts[starts.len() - wanted];
        }
        wanted -= starts.len();
        at = segment;
    }
    0
}

/// Returns the row starts in `[from, to)`, `from` being one.
fn starts_between(text: &Text, from: u64, to: u64, shape: Shape) -> Vec<u64> {
    let mut rows = layout(text, from, shape);
    rows.keeps_glyphs = false;
    let mut starts = Vec::new();
    loop {
        let row = rows.next_row();
        if row.start >= to {
            return starts;
        }
        starts.push(row.start);
        if row.is_last {
            return starts;
        }
    }
}

/// Returns the latest position at or before `q` at which layout may start.
fn segment_start(text: &Text, q: u64) -> u64 {
    let line = text.line_start(text.line_of(q));
    line + (q - line) / SEGMENT_COUNT * SEGMENT_COUNT
}

/// Code points one after another, read from the pieces of a text: a printable ASCII character
/// costs a look at two bytes.
struct Source<'t, I: Iterator<Item = &'t str>> {
    piece: &'t str,
    at: usize,
    rest: I,
}

impl<'t, I: Iterator<Item = &'t str>> Source<'t, I> {
    /// Returns the next byte, with the piece that it is in at hand.
    fn byte(&mut self) -> Option<u8> {
        loop {
            if let Some(byte) = self.piece.as_bytes().get(self.at) {
                return Some(*byte);
            }
            self.piece = self.rest.next()?;
            self.at = 0;
        }
    }

    fn peek(&mut self) -> Option<char> {
        let byte = self.byte()?;
        if byte.is_ascii() {
            return Some(char::from(byte));
        }
        self.piece[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }
}

/// Lays out row after row.
struct Rows<'t, I: Iterator<Item = &'t str>> {
    source: Source<'t, I>,
    /// Position of the next code point of `source`.
    q: u64,
    /// A cluster that did not fit into the row before.
    held: Option<Glyph>,
    /// Where the next forced break is.
    break_at: u64,
    shape: Shape,
    keeps_glyphs: bool,
}

/// Starts to lay out at a row start.
fn layout(text: &Text, from: u64, shape: Shape) -> Rows<'_, impl Iterator<Item = &str>> {
    let from = from.min(text.len());
    let break_at = segment_start(text, from) + SEGMENT_COUNT;
    let shape = Shape {
        width: shape.width.max(1),
        tab: shape.tab.max(1),
    };
    let rest = text.chunks_from(from);
    let source = Source {
        piece: "",
        at: 0,
        rest,
    };
    Rows {
        source,
        q: from,
        held: None,
        break_at,
        shape,
        keeps_glyphs: true,
    }
}

impl<'t, I: Iterator<Item = &'t str>> Rows<'t, I> {
    /// Returns where the next cluster is.
    fn at(&self) -> u64 {
        self.held.as_ref().map_or(self.q, |glyph| glyph.q)
    }

    fn next_row(&mut self) -> Row {
        let mut row = Row::default();
        self.fill_row(&mut row);
        row
    }

    /// Lays out the next row into the memory of another.
    fn fill_row(&mut self, row: &mut Row) {
        let start = self.at();
        if start == self.break_at {
            self.break_at += SEGMENT_COUNT;
        }
        row.start = start;
        row.is_last = false;
        row.glyphs.clear();
        let mut column = 0;
        while self.at() != self.break_at {
            if self.held.is_none() && self.take_ascii(row, &mut column) {
                continue;
            }
            let is_full = column >= self.shape.width;
            if self.held.is_none() {
                let Some(first) = self.source.peek() else {
                    // A full last row has a row after it, where typing goes on.
                    row.is_last = !is_full;
                    break;
                };
                if is_full && first != '\n' {
                    break;
                }
            }
            let room = self.shape.width - column;
            let Some(mut glyph) = self.held.take().or_else(|| self.next_glyph(column)) else {
                break;
            };
            if glyph.width > room && column > 0 {
                self.held = Some(glyph);
                break;
            }
            glyph.column = column;
            glyph.width = glyph.width.min(room);
            column += glyph.width;
            let is_newline = glyph.shown == Shown::Newline;
            if self.keeps_glyphs {
                row.glyphs.push(glyph);
            }
            if is_newline {
                break;
            }
        }
        row.end = self.at();
    }

    /// Takes printable ASCII characters that stand alone, up to the end of the row, of the segment
    /// or of the piece. Returns whether there were any.
    fn take_ascii(&mut self, row: &mut Row, column: &mut u16) -> bool {
        if self.source.byte().is_none() {
            return false;
        }
        let room = usize::from(self.shape.width - *column);
        let room = room.min(usize::try_from(self.break_at - self.q).unwrap_or(usize::MAX));
        let bytes = &self.source.piece.as_bytes()[self.source.at..];
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~');
        let run = bytes
            .iter()
            .take(room)
            .take_while(|byte| is_plain(byte))
            .count();
        // What follows the last one may join it.
        let is_certain = bytes.get(run).is_some_and(u8::is_ascii);
        let count = if is_certain {
            run
        } else {
            run.saturating_sub(1)
        };
        if self.keeps_glyphs {
            let places = (self.q..).zip(*column..);
            row.glyphs.extend(
                bytes[..count]
                    .iter()
                    .zip(places)
                    .map(|(byte, (q, column))| Glyph {
                        q,
                        count: 1,
                        column,
                        width: 1,
                        shown: Shown::Char(char::from(*byte)),
                    }),
            );
        }
        *column += u16::try_from(count).unwrap_or(0);
        self.q += count as u64;
        self.source.at += count;
        count > 0
    }

    /// Takes the next cluster, as if it stood at a column.
    fn next_glyph(&mut self, column: u16) -> Option<Glyph> {
        let q = self.q;
        let first = self.source.next()?;
        self.q += 1;
        let (width, shown) = match first {
            ' '..='~' if self.source.peek().is_none_or(|next| next.is_ascii()) => {
                (1, Shown::Char(first))
            }
            '\n' => {
                self.break_at = self.q + SEGMENT_COUNT;
                (0, Shown::Newline)
            }
            '\t' => {
                let tab = self.shape.tab;
                (
                    (tab - column % tab).min(self.shape.width - column),
                    Shown::Tab,
                )
            }
            _ => match spell(first) {
                Some(spelled) => spelled,
                None => return Some(self.gather(first, q)),
            },
        };
        Some(Glyph {
            q,
            count: 1,
            column,
            width,
            shown,
        })
    }

    /// Gathers the code points that join `first`, which was taken already.
    fn gather(&mut self, first: char, q: u64) -> Glyph {
        let mut cluster = String::from(first);
        let mut count = 1;
        while let Some(next) = self.source.peek() {
            let is_cut = count >= CLUSTER_COUNT_MAX || self.q >= self.break_at;
            if is_cut || next.is_ascii() || escaped_byte(next).is_some() {
                break;
            }
            let len = cluster.len();
            cluster.push(next);
            if cluster
                .graphemes(true)
                .next()
                .is_some_and(|joined| joined.len() <= len)
            {
                cluster.truncate(len);
                break;
            }
            let _next = self.source.next();
            self.q += 1;
            count += 1;
        }
        let width = u16::try_from(cluster.width()).unwrap_or(2).clamp(1, 2);
        let shown = if count == 1 {
            Shown::Char(first)
        } else {
            Shown::Cluster(Rc::from(cluster))
        };
        Glyph {
            q,
            count,
            column: 0,
            width,
            shown,
        }
    }
}

/// Returns the form of a code point that a terminal must not or cannot show as it is.
fn spell(c: char) -> Option<(u16, Shown)> {
    if let Some(byte) = escaped_byte(c) {
        return Some((4, Shown::Byte(byte)));
    }
    let spelled = match c {
        '\0'..='\u{1f}' => format!("^{}", char::from_u32(u32::from(c) ^ 0x40).unwrap_or('?')),
        '\u{7f}' => String::from("^?"),
        _ => match c.width() {
            None | Some(0) => format!("\\u{:04x}", u32::from(c)),
            Some(_) => return None,
        },
    };
    Some((
        u16::try_from(spelled.len()).unwrap_or(2),
        Shown::Spelled(Rc::from(spelled)),
    ))
}

#[cfg(test)]
mod tests;
