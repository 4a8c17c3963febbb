//! Where motions lead, and scrolling: by visual rows, with exact inverses.

use apex_core::buffer::View;
use apex_core::ids::{Shard, ViewId};
use apex_core::text::{Span, Text};

use super::App;
use crate::input::Motion;
use crate::layout::wrap::{self, Shape};

/// How a position is brought into sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reveal {
    /// With as little scrolling as possible, when it is near.
    Near,
    /// A quarter down the window.
    Quarter,
}

impl App {
    /// Moves the cursor, or with `is_extending` one end of the selection.
    pub(super) fn go(&mut self, motion: Motion, is_extending: bool) {
        let Some(view) = self.keyboard() else { return };
        self.typed_from = None;
        let dot = self.dot(view);
        let anchor = match self.anchor {
            Some((of, anchor)) if of == view && (anchor == dot.q0 || anchor == dot.q1) => anchor,
            _ => dot.q0,
        };
        let head = if anchor == dot.q0 { dot.q1 } else { dot.q0 };
        let collapsed = match motion {
            _ if is_extending || dot.is_empty() => None,
            Motion::Left => Some(dot.q0),
            Motion::Right => Some(dot.q1),
            _ => None,
        };
        if motion == Motion::PageUp || motion == Motion::PageDown {
            self.scroll_page(view, motion == Motion::PageDown);
        }
        let Some(to) = collapsed.or_else(|| self.target(view, head, motion)) else {
            return;
        };
        if is_extending {
            self.anchor = Some((view, anchor));
            self.set_dot(view, Span::new(anchor.min(to), anchor.max(to)));
        } else {
            self.anchor = None;
            self.set_dot(view, Span::at(to));
        }
        self.selected = Some(view);
        self.reveal(view, to, Reveal::Near);
    }

    fn scroll_page(&mut self, view: ViewId, is_down: bool) {
        let Some((_, height)) = self.shape(view) else {
            return;
        };
        let rows = i64::from(height.saturating_sub(1).max(1));
        self.scroll_rows(view, if is_down { rows } else { -rows });
    }

    /// Returns where a motion from `head` leads; remembers the cell column of vertical ones.
    fn target(&mut self, view: ViewId, head: u64, motion: Motion) -> Option<u64> {
        let (shape, height) = self.shape(view)?;
        let rows = match motion {
            Motion::Up => -1,
            Motion::Down => 1,
            Motion::PageUp => -i64::from(height.saturating_sub(1).max(1)),
            Motion::PageDown => i64::from(height.saturating_sub(1).max(1)),
            _ => {
                self.goal = None;
                let (_, buffer, _) = self.text(view)?;
                return Some(horizontal(buffer.text(), head, motion, shape));
            }
        };
        let goal = self.goal;
        let (_, buffer, _) = self.text(view)?;
        let text = buffer.text();
        let start = wrap::row_start(text, head, shape);
        let column = goal.unwrap_or_else(|| wrap::rows(text, start, shape, 1)[0].column_of(head));
        let to = wrap::scroll(text, start, rows, shape);
        let found = if to == start {
            if rows < 0 { 0 } else { text.len() }
        } else {
            wrap::rows(text, to, shape, 1)[0].position_at(column)
        };
        self.goal = Some(column);
        Some(found)
    }

    /// Sets a view's selection: in the log where this UI leads, else its own.
    pub(super) fn set_dot(&mut self, view: ViewId, dot: Span) {
        if self.leads_text(view) {
            self.local.remove(&view);
            if let Err(error) = self.node_mut().select(view, dot) {
                self.complain(&error);
            }
        } else if let Some((_, buffer, old)) = self.text(view) {
            let dot = dot.clamped(buffer.text().len());
            self.local.insert(view, View { dot, ..old });
        }
    }

    pub(super) fn set_origin(&mut self, view: ViewId, origin: u64) {
        let Some((buffer, _, old)) = self.text(view) else {
            return;
        };
        if old.origin == origin {
            return;
        }
        if self.node().leads(Shard::Buffer(buffer)) {
            if let Err(error) = self.node_mut().set_origin(view, origin) {
                self.complain(&error);
            }
        } else {
            self.local.insert(view, View { origin, ..old });
        }
    }

    /// Scrolls by visual rows, down if positive.
    pub(super) fn scroll_rows(&mut self, view: ViewId, rows: i64) {
        let Some((shape, _)) = self.shape(view) else {
            return;
        };
        let Some((_, buffer, old)) = self.text(view) else {
            return;
        };
        let origin = wrap::scroll(buffer.text(), old.origin, rows, shape);
        self.set_origin(view, origin);
    }

    /// Scrolls so that the part `numerator / denominator` of the text is at the top.
    pub(super) fn scroll_to_part(&mut self, view: ViewId, numerator: u64, denominator: u64) {
        let Some((shape, _)) = self.shape(view) else {
            return;
        };
        let Some((_, buffer, _)) = self.text(view) else {
            return;
        };
        let len = u128::from(buffer.text().len());
        let at = len * u128::from(numerator) / u128::from(denominator.max(1));
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        let origin = wrap::row_start(buffer.text(), at, shape);
        self.set_origin(view, origin);
    }

    /// Scrolls so that a position is in sight; does nothing when it is.
    pub(super) fn reveal(&mut self, view: ViewId, q: u64, how: Reveal) {
        let Some((shape, height)) = self.shape(view) else {
            return;
        };
        let Some((_, buffer, old)) = self.text(view) else {
            return;
        };
        let text = buffer.text();
        let height = i64::from(height.max(1));
        let origin = wrap::row_start(text, old.origin, shape);
        let count = usize::try_from(height).unwrap_or(1);
        let (is_in_sight, end) = wrap::sight(text, origin, q, shape, count);
        if is_in_sight {
            return;
        }
        let row = wrap::row_start(text, q, shape);
        let near = if how == Reveal::Quarter {
            None
        } else if row < origin {
            // One window up at most.
            (wrap::scroll(text, origin, -height, shape) <= row).then_some(row)
        } else {
            let below = wrap::scroll(text, row, 1 - height, shape);
            (below <= end).then_some(below)
        };
        let quarter = || wrap::scroll(text, row, -(height / 4), shape);
        let origin = near.unwrap_or_else(quarter);
        self.set_origin(view, origin);
    }
}

fn horizontal(text: &Text, q: u64, motion: Motion, shape: Shape) -> u64 {
    match motion {
        Motion::Left => previous(text, q, shape),
        Motion::Right => next(text, q, shape),
        Motion::WordLeft => word_left(text, q),
        Motion::WordRight => word_right(text, q),
        Motion::LineStart => text.line_start(text.line_of(q)),
        Motion::LineEnd => text.line_end(q),
        Motion::Start => 0,
        Motion::End => text.len(),
        Motion::Up | Motion::Down | Motion::PageUp | Motion::PageDown => q,
    }
}

/// Returns the start of the cluster before `q`.
pub(super) fn previous(text: &Text, q: u64, shape: Shape) -> u64 {
    let Some(before) = q.checked_sub(1) else {
        return 0;
    };
    let row = &wrap::rows(text, wrap::row_start(text, before, shape), shape, 1)[0];
    row.glyphs
        .iter()
        .rfind(|glyph| glyph.q < q)
        .map_or(before, |glyph| glyph.q)
}

/// Returns the end of the cluster at `q`.
pub(super) fn next(text: &Text, q: u64, shape: Shape) -> u64 {
    let row = &wrap::rows(text, wrap::row_start(text, q, shape), shape, 1)[0];
    let glyph = row
        .glyphs
        .iter()
        .find(|glyph| glyph.q + u64::from(glyph.count) > q);
    glyph
        .map_or(q, |glyph| glyph.q + u64::from(glyph.count))
        .min(text.len())
}

/// Returns whether a character is part of a word, as acme sees it.
pub(super) fn is_word(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric() || c > '\u{a0}'
}

/// Returns the start of the word before `q`.
pub(super) fn word_left(text: &Text, q: u64) -> u64 {
    let blanks = count(text.chars_before(q).take_while(|c| !is_word(*c)));
    q - blanks - count(text.chars_before(q - blanks).take_while(|c| is_word(*c)))
}

fn word_right(text: &Text, q: u64) -> u64 {
    let blanks = count(text.chars_from(q).take_while(|c| !is_word(*c)));
    q + blanks + count(text.chars_from(q + blanks).take_while(|c| is_word(*c)))
}

/// Returns the longest run round `q` of characters that belong together.
pub(super) fn run_at(text: &Text, q: u64, is_part: impl Fn(char) -> bool) -> Span {
    let left = count(text.chars_before(q).take_while(|c| is_part(*c)));
    let right = count(text.chars_from(q).take_while(|c| is_part(*c)));
    Span::new(q - left, q + right)
}

fn count(chars: impl Iterator<Item = char>) -> u64 {
    chars.count() as u64
}
