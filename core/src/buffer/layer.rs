//! One layer of annotations: what each says, and where each is by now.
//!
//! 1. What an annotation says never changes; where it is changes with each edit. So the two are
//!    kept apart: [`Marks`] move all ends of all spans at once, the notes are shared.
//! 2. An end is known by its rank among all ends. Edits keep order, so which span begins before and
//!    ends behind which other can be asked by ranks, which are worked out once.
//! 3. Encoded it is the list of annotations as they were set, with their present spans: nothing of
//!    the tree shows.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::edit::Splice;
use crate::edit::marks::Marks;
use crate::entry::Annotation;
use crate::text::Span;

/// What an annotation says, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A style name of the theme; empty for none.
    pub style: String,
    /// 0 style only, 1 hint, 2 information, 3 warning, 4 error.
    pub severity: u8,
    /// What it says; may be empty.
    pub message: String,
}

impl From<Annotation> for Note {
    fn from(annotation: Annotation) -> Self {
        Self {
            style: annotation.style,
            severity: annotation.severity,
            message: annotation.message,
        }
    }
}

/// The annotations of one layer. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Layer {
    fixed: Arc<Fixed>,
    marks: Marks,
}

/// What edits do not change.
#[derive(Debug)]
struct Fixed {
    /// In the order in which they were set.
    notes: Vec<Note>,
    /// The ranks of the ends of each.
    ranks: Vec<Ranks>,
    /// Indices of the notes in order of where they begin.
    by_start: Vec<usize>,
    /// A heap over `by_start`: in node `n`, with children `2n` and `2n + 1`, the highest rank of an
    /// end below it. The leaves are the second half; missing ones have 0.
    highest: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Ranks {
    start: usize,
    end: usize,
}

impl Layer {
    /// Returns a layer of these annotations, in any order.
    #[must_use]
    pub fn new(annotations: &[Annotation]) -> Self {
        let spans = annotations.iter().map(|annotation| annotation.at);
        Self::of(annotations.iter().cloned().map(Note::from).collect(), spans)
    }

    fn of(notes: Vec<Note>, spans: impl Iterator<Item = Span>) -> Self {
        // Each end by its position, an end before a start at the same place.
        let mut ends: Vec<(u64, bool, usize)> = spans
            .enumerate()
            .flat_map(|(index, at)| [(at.q0, true, index), (at.q1, false, index)])
            .collect();
        ends.sort_unstable();
        let mut ranks = alloc::vec![Ranks { start: 0, end: 0 }; notes.len()];
        let mut by_start = Vec::with_capacity(notes.len());
        for (rank, (_, is_start, index)) in ends.iter().enumerate() {
            if *is_start {
                ranks[*index].start = rank;
                by_start.push(*index);
            } else {
                ranks[*index].end = rank;
            }
        }
        let positions: Vec<u64> = ends.iter().map(|(q, ..)| *q).collect();
        let highest = heap(by_start.iter().map(|index| ranks[*index].end));
        let fixed = Fixed {
            notes,
            ranks,
            by_start,
            highest,
        };
        Self {
            fixed: Arc::new(fixed),
            marks: Marks::new(&positions),
        }
    }

    /// Returns how many annotations there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.fixed.notes.len()
    }

    /// Returns the annotations in the order in which they were set, with their present spans.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Span, &Note)> {
        let positions = self.marks.positions();
        let notes = self.fixed.notes.iter().zip(&self.fixed.ranks);
        notes.map(move |(note, ranks)| {
            let at = Span::new(positions[ranks.start], positions[ranks.end]);
            (at, note)
        })
    }

    /// Returns the annotations that share text with a span or touch it, in order of where they
    /// begin. Costs the logarithm of all of them for each.
    #[must_use]
    pub fn touching(&self, span: Span) -> Vec<(Span, &Note)> {
        let fixed = &*self.fixed;
        let starts_end = self.marks.rank_behind(span.q1);
        let ends_from = match span.q0.checked_sub(1) {
            Some(before) => self.marks.rank_behind(before),
            None => 0,
        };
        let is_before = |index: &usize| fixed.ranks[*index].start < starts_end;
        let end = fixed.by_start.partition_point(is_before);
        let mut found = Vec::new();
        let mut left = Vec::from([1]);
        while let Some(node) = left.pop() {
            if fixed.highest.get(node).is_none_or(|rank| *rank < ends_from) {
                continue;
            }
            match node.checked_sub(fixed.highest.len() / 2) {
                Some(leaf) if leaf < end => {
                    let index = fixed.by_start[leaf];
                    found.push((self.span(index), &fixed.notes[index]));
                }
                Some(_) => break,
                // The first half of the leaves comes out first.
                None => left.extend([2 * node + 1, 2 * node]),
            }
        }
        found
    }

    fn span(&self, index: usize) -> Span {
        let ranks = self.fixed.ranks[index];
        Span::new(self.marks.at(ranks.start), self.marks.at(ranks.end))
    }

    /// Returns where the last span ends.
    pub(super) fn end(&self) -> u64 {
        self.marks.at(self.marks.count())
    }

    /// Moves the annotations by an edit: checked splices, in positions of the text before it.
    pub fn apply(&mut self, splices: &[Splice]) {
        self.marks.apply(splices);
    }
}

/// Returns the heap over these ranks: the highest below each node, from node 1.
fn heap(leaves: impl ExactSizeIterator<Item = usize>) -> Vec<usize> {
    let room = leaves.len().next_power_of_two();
    let mut heap = alloc::vec![0; room];
    heap.extend(leaves);
    heap.resize(2 * room, 0);
    for node in (1..room).rev() {
        heap[node] = heap[2 * node].max(heap[2 * node + 1]);
    }
    heap
}

/// An annotation as it is encoded: the bytes of an [`Annotation`].
#[derive(Serialize)]
struct Encoded<'a> {
    at: Span,
    style: &'a str,
    severity: u8,
    message: &'a str,
}

impl Serialize for Layer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(at, note)| Encoded {
            at,
            style: &note.style,
            severity: note.severity,
            message: &note.message,
        }))
    }
}

impl<'de> Deserialize<'de> for Layer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let annotations = Vec::<Annotation>::deserialize(deserializer)?;
        let spans: Vec<Span> = annotations.iter().map(|one| one.at).collect();
        if spans.iter().any(|at| at.q0 > at.q1) {
            return Err(D::Error::custom("a reversed span"));
        }
        let notes = annotations.into_iter().map(Note::from).collect();
        Ok(Self::of(notes, spans.into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;
    use crate::edit;

    impl Dice {
        fn span(&mut self, len: u64) -> Span {
            let (one, two) = (self.below(len + 1), self.below(len + 1));
            Span::new(one.min(two), one.max(two))
        }
    }

    fn annotation(at: Span, number: usize) -> Annotation {
        Annotation {
            at,
            style: alloc::format!("style {}", number % 3),
            severity: u8::try_from(number % 5).unwrap(),
            message: alloc::format!("{number}"),
        }
    }

    /// What the layer must be: every span by the slow map.
    fn moved(slow: &mut [Annotation], splices: &[Splice]) {
        for annotation in slow {
            annotation.at = edit::map_span(splices, annotation.at);
        }
    }

    fn check(layer: &Layer, slow: &[Annotation], asked: Span) {
        let spans: Vec<Span> = layer.iter().map(|(at, _)| at).collect();
        let expected: Vec<Span> = slow.iter().map(|annotation| annotation.at).collect();
        assert_eq!(spans, expected);
        let touches = |at: Span| at.q0 <= asked.q1 && asked.q0 <= at.q1;
        let mut near: Vec<&str> = slow
            .iter()
            .filter(|annotation| touches(annotation.at))
            .map(|annotation| annotation.message.as_str())
            .collect();
        let found = layer.touching(asked);
        assert!(found.is_sorted_by_key(|(at, _)| at.q0));
        let mut found: Vec<&str> = found
            .iter()
            .map(|(_, note)| note.message.as_str())
            .collect();
        near.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, near, "{asked:?}");
    }

    #[test]
    fn spans_that_overlap_and_nest_move_as_the_slow_map_moves_each() {
        let mut dice = Dice(3);
        for (count, len) in [(0, 5), (1, 4), (7, 6), (60, 40), (300, 2000), (1100, 900)] {
            let mut len = len;
            let mut slow: Vec<Annotation> = (0..count)
                .map(|number| annotation(dice.span(len), number))
                .collect();
            let mut layer = Layer::new(&slow);
            for _ in 0..60 {
                let asked = dice.span(len);
                check(&layer, &slow, asked);
                let at = match dice.below(4) {
                    0 => Span::at(dice.below(len + 1)),
                    1 => slow.first().map_or(Span::at(0), |annotation| annotation.at),
                    _ => {
                        let q0 = dice.below(len + 1);
                        Span::new(q0, (q0 + dice.below(9)).min(len))
                    }
                };
                let text = usize::try_from(dice.below(3)).unwrap();
                let splices = [Splice::new(at, ["", "x", "several"][text])];
                layer.apply(&splices);
                moved(&mut slow, &splices);
                len = len - at.len() + splices[0].count();
            }
            assert_eq!(
                postcard::to_allocvec(&layer).unwrap(),
                postcard::to_allocvec(&slow).unwrap(),
                "the encoding is that of a plain list"
            );
        }
    }

    #[test]
    fn a_layer_that_went_through_edits_encodes_as_one_set_afresh() {
        let spans = [
            Span::new(0, 4),
            Span::new(2, 9),
            Span::new(2, 3),
            Span::new(9, 9),
        ];
        let slow: Vec<Annotation> = (0..).zip(spans).map(|(i, at)| annotation(at, i)).collect();
        let mut edited = Layer::new(&slow);
        for (at, text) in [
            (Span::new(1, 9), ""),
            (Span::at(1), "abc"),
            (Span::at(0), "é"),
        ] {
            edited.apply(&[Splice::new(at, text)]);
        }
        let bytes = postcard::to_allocvec(&edited).unwrap();
        let fresh: Layer = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(postcard::to_allocvec(&fresh).unwrap(), bytes);
        assert_eq!(
            fresh.touching(Span::new(0, 2)),
            edited.touching(Span::new(0, 2))
        );
        let spans: Vec<Span> = fresh.iter().map(|(at, _)| at).collect();
        let expected = [Span::new(0, 2), Span::at(2), Span::at(2), Span::at(2)];
        assert_eq!(spans, expected);
    }
}
