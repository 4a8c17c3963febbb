//! What one party did to a text, without what another did in between.
//!
//! Two texts are followed: the one in which all changes are, and the one in which only the kept
//! ones are. What is kept is carried from the first to the second; where it touches what is left,
//! the two cannot be told apart, and only what was typed is known.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Splice, Tie, carry, carry_with, compose};
use crate::text::{Span, count};

/// Stands for code points of which only the number matters; no character.
const FILLER: char = '\u{FDD0}';

/// Changes of one text, some kept and some left.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    /// What is kept, as one edit of the first text; none when it touches what is left.
    kept: Option<Vec<Splice>>,
    /// Leads from the text with all changes to the one with those kept.
    back: Vec<Splice>,
    /// All changes as one edit of the first text, fillers in place of text that is left.
    all: Vec<Splice>,
}

impl Apart {
    /// Returns no changes.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            kept: Some(Vec::new()),
            back: Vec::new(),
            all: Vec::new(),
        }
    }

    /// Adds a change that is kept, in positions of the text with all changes.
    pub fn keep(&mut self, splices: &[Splice]) {
        self.all = compose(&self.all, splices);
        let Some(kept) = self.kept.take() else { return };
        let carried = carry_with(splices.to_vec(), &self.back, Tie::Stay);
        let back = carry(core::mem::take(&mut self.back), splices);
        if let (Ok(carried), Ok(back)) = (carried, back) {
            self.kept = Some(compose(&kept, &carried));
            self.back = back;
        }
    }

    /// Adds a change that is left, in positions of the text with all changes.
    pub fn leave(&mut self, splices: &[Splice]) {
        let blank = |splice: &Splice| Splice::new(splice.at, filler(splice.count()));
        let blank: Vec<Splice> = splices.iter().map(blank).collect();
        self.all = compose(&self.all, &blank);
        self.back = compose(&inverse(splices), &self.back);
    }

    /// Returns what is kept, as one edit of the text before all changes; none when it touches what
    /// is left.
    #[must_use]
    pub fn edit(&self) -> Option<&[Splice]> {
        self.kept.as_deref()
    }

    /// Returns the text that the kept changes brought and that is there still.
    #[must_use]
    pub fn typed(&self) -> String {
        let texts = self.all.iter().flat_map(|splice| splice.text.chars());
        texts.filter(|c| *c != FILLER).collect()
    }
}

/// Returns an edit with the spans and lengths of the one that undoes `splices`.
fn inverse(splices: &[Splice]) -> Vec<Splice> {
    let mut moved = super::Shift::default();
    let undo = |splice: &Splice| {
        let q0 = moved.forward(splice.at.q0);
        moved.pass(splice.at.len(), splice.count());
        let at = Span::new(q0, q0 + count(&splice.text));
        Splice::new(at, filler(splice.at.len()))
    };
    splices.iter().map(undo).collect()
}

fn filler(count: u64) -> String {
    (0..count).map(|_| FILLER).collect()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::edit::apply;
    use crate::text::Text;

    /// Every way in which one party deletes or types at two places of a text, and another does in
    /// between: what is kept makes the text that it makes alone, or touches what is left.
    #[test]
    fn what_is_kept_does_the_same_without_what_is_left() {
        let mut told_apart = 0;
        let spans = |len: u64| (0..=len).flat_map(move |a| (a..=len).map(move |b| Span::new(a, b)));
        let (first, last) = ("1", "2");
        for left_at in spans(3) {
            for left_text in ["", "XY"] {
                let left = [Splice::new(left_at, left_text)];
                let mut middle = Text::from("abc");
                apply(&mut middle, &left);
                for one in spans(middle.len()) {
                    let one = [Splice::new(one, first)];
                    let mut later = middle.clone();
                    apply(&mut later, &one);
                    for two in spans(later.len()) {
                        let two = [Splice::new(two, last)];
                        let mut apart = Apart::new();
                        apart.leave(&left);
                        apart.keep(&one);
                        apart.keep(&two);
                        told_apart += u32::from(check(&apart, &later, &two));
                    }
                }
            }
        }
        assert!(told_apart > 1000, "{told_apart}");
    }

    /// Checks one case. Returns whether it was told apart.
    fn check(apart: &Apart, later: &Text, two: &[Splice]) -> bool {
        let mut all = later.clone();
        apply(&mut all, two);
        // Small letters are the text before, capitals are left, digits are kept.
        let is_typed = |c: &char| c.is_ascii_digit();
        let all: String = all.chars_from(0).collect();
        let typed: String = all.chars().filter(is_typed).collect();
        assert_eq!(apart.typed(), typed);
        let Some(edit) = apart.edit() else {
            return false;
        };
        let mut alone = Text::from("abc");
        apply(&mut alone, edit);
        let alone: String = alone.chars_from(0).collect();
        // All that is in both, in the same order.
        let both = |c: &char| is_typed(c) || (all.contains(*c) && alone.contains(*c));
        let (one, other): (String, String) = (
            all.chars().filter(both).collect(),
            alone.chars().filter(both).collect(),
        );
        assert_eq!(one, other, "{apart:?}");
        assert!(!alone.contains('X'));
        true
    }

    #[test]
    fn a_text_that_was_left_and_is_touched_is_told_by_what_was_typed() {
        let mut apart = Apart::new();
        apart.keep(&[Splice::new(Span::at(0), "ab")]);
        apart.leave(&[Splice::new(Span::at(1), "XY")]);
        apart.keep(&[Splice::new(Span::at(2), "c")]);
        apart.keep(&[Splice::new(Span::new(0, 1), "")]);
        assert_eq!(apart.edit(), None);
        assert_eq!(apart.typed(), "cb");
        let mut whole = Apart::new();
        whole.leave(&[Splice::new(Span::at(0), "XY")]);
        whole.keep(&[Splice::new(Span::at(2), "c")]);
        assert_eq!(
            whole.edit(),
            Some(vec![Splice::new(Span::at(0), "c")].as_slice())
        );
    }
}
