//! The small world, whole: every pair and triple of small edits of a short text.
//!
//! The models know nothing of positions that shift. A text is a row of characters with an identity
//! each; a position is the character beside it, and goes to the next one when that is deleted; the
//! merge of several edits is read off the old text, place by place.

use super::*;

/// A character and its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tagged {
    id: u64,
    letter: char,
}

/// A position, as the character that it stands beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// Right behind this character; at the start if none.
    Behind(Option<u64>),
    /// Right before this character; at the end if none.
    Before(Option<u64>),
}

/// A text of characters with identities, and positions in it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    row: Vec<Tagged>,
    next_id: u64,
    anchors: Vec<Anchor>,
}

impl Row {
    pub(crate) fn new(text: &str) -> Self {
        let mut row = Self {
            row: Vec::new(),
            next_id: 0,
            anchors: Vec::new(),
        };
        for (at, letter) in text.chars().enumerate() {
            row.insert(at, letter);
        }
        row
    }

    pub(crate) fn text(&self) -> String {
        self.row.iter().map(|tagged| tagged.letter).collect()
    }

    pub(crate) fn len(&self) -> u64 {
        self.row.len() as u64
    }

    fn insert(&mut self, at: usize, letter: char) {
        let id = self.next_id;
        self.next_id += 1;
        self.row.insert(at, Tagged { id, letter });
    }

    fn id_at(&self, at: Option<usize>) -> Option<u64> {
        Some(self.row.get(at?)?.id)
    }

    fn remove(&mut self, at: usize) {
        let gone = Some(self.row.remove(at).id);
        let (left, right) = (self.id_at(at.checked_sub(1)), self.id_at(Some(at)));
        for anchor in &mut self.anchors {
            match anchor {
                Anchor::Behind(id) if *id == gone => *id = left,
                Anchor::Before(id) if *id == gone => *id = right,
                Anchor::Behind(_) | Anchor::Before(_) => {}
            }
        }
    }

    /// Remembers a position; returns its number.
    pub(crate) fn anchor(&mut self, q: u64, bias: Bias) -> usize {
        let q = usize::try_from(q).unwrap();
        self.anchors.push(match bias {
            Bias::Left => Anchor::Behind(self.id_at(q.checked_sub(1))),
            Bias::Right => Anchor::Before(self.id_at(Some(q))),
        });
        self.anchors.len() - 1
    }

    /// Returns where a remembered position stands now.
    pub(crate) fn position(&self, number: usize) -> u64 {
        let place = |id| self.row.iter().position(|tagged| tagged.id == id).unwrap() as u64;
        match self.anchors[number] {
            Anchor::Behind(id) => id.map_or(0, |id| place(id) + 1),
            Anchor::Before(id) => id.map_or(self.len(), place),
        }
    }

    /// Deletes and inserts character by character, as acme does it, from the first splice on.
    pub(crate) fn apply(&mut self, edit: &[Splice]) {
        let old = self.row.clone();
        for splice in edit {
            let [q0, q1] = [splice.at.q0, splice.at.q1].map(|q| usize::try_from(q).unwrap());
            // What stood behind the splice stands there still.
            let behind = old.get(q1).map(|tagged| tagged.id);
            let place = |row: &Self| {
                let found = row.row.iter().position(|tagged| Some(tagged.id) == behind);
                found.unwrap_or(row.row.len())
            };
            for _ in q0..q1 {
                let last = place(self) - 1;
                self.remove(last);
            }
            for letter in splice.text.chars() {
                let end = place(self);
                self.insert(end, letter);
            }
        }
    }
}

/// Returns whether two edits of one text touch the same characters, or one inserts inside of what
/// the other replaces.
fn is_conflict(one: &[Splice], other: &[Splice]) -> bool {
    let takes = |splice: &Splice, at: u64| splice.at.q0 <= at && at < splice.at.q1;
    let inside =
        |a: &Splice, b: &Splice| a.at.q0 == a.at.q1 && b.at.q0 < a.at.q0 && a.at.q0 < b.at.q1;
    one.iter().any(|a| {
        other.iter().any(|b| {
            let is_common = (0..=9).any(|at| takes(a, at) && takes(b, at));
            is_common || inside(a, b) || inside(b, a)
        })
    })
}

/// Returns what edits of one text make of it, in log order, read off place by place: what was
/// inserted before a character, then what stands instead of it, or the character.
fn merged(text: &str, edits: &[&[Splice]]) -> String {
    let mut out = String::new();
    for (at, letter) in text.chars().map(Some).chain([None]).enumerate() {
        let at = at as u64;
        let splices = || edits.iter().flat_map(|edit| edit.iter());
        for splice in splices().filter(|splice| splice.at == Span::at(at)) {
            out.push_str(&splice.text);
        }
        let is_taken = |splice: &&Splice| splice.at.q0 <= at && at < splice.at.q1;
        match splices().find(is_taken) {
            Some(splice) if splice.at.q0 == at => out.push_str(&splice.text),
            Some(_) => {}
            None => out.extend(letter),
        }
    }
    out
}

/// Returns whether two edits insert at one point, so that only the log says whose text is first.
fn is_tie(one: &[Splice], other: &[Splice]) -> bool {
    let inserts = |splice: &Splice, at| splice.at == Span::at(at) && !splice.text.is_empty();
    one.iter()
        .any(|a| inserts(a, a.at.q0) && other.iter().any(|b| inserts(b, a.at.q0)))
}

/// Returns an edit whose insertions stand as far right as what `first` deleted lets them slide:
/// where only that stood between two insertions, nobody can tell which one was before the other.
fn slid(edit: &[Splice], first: &[Splice]) -> Vec<Splice> {
    let brings = |at: u64| {
        first
            .iter()
            .any(|f| f.at == Span::at(at) && !f.text.is_empty())
    };
    let mut edit = edit.to_vec();
    for splice in edit.iter_mut().filter(|splice| splice.at.is_empty()) {
        let mut is_sliding = true;
        while is_sliding {
            let deleted = first.iter().find(|f| {
                f.at.q0 == splice.at.q0 && !f.at.is_empty() && f.text.is_empty() && !brings(f.at.q1)
            });
            is_sliding = deleted.is_some();
            splice.at = deleted.map_or(splice.at, |deleted| Span::at(deleted.at.q1));
        }
    }
    edit
}

/// Every edit of one to three splices.
fn edits_of_three(len: u64, letters: &[&str]) -> Vec<Vec<Splice>> {
    let mut all = edits(len, letters);
    let single = splices(len, letters);
    let pairs: Vec<Vec<Splice>> = all.iter().filter(|edit| edit.len() == 2).cloned().collect();
    for pair in pairs {
        for third in single.iter().filter(|third| third.at.q0 >= pair[1].at.q1) {
            all.push([&pair[..], core::slice::from_ref(third)].concat());
        }
    }
    all
}

#[test]
fn positions_stay_beside_their_characters() {
    let mut cases = 0;
    for edit in edits_of_three(3, &["", "x", "yz"]) {
        for bias in [Bias::Left, Bias::Right] {
            let mut row = Row::new("abc");
            let anchors: Vec<usize> = (0..=3).map(|q| row.anchor(q, bias)).collect();
            row.apply(&edit);
            assert_eq!(applied("abc", &edit), row.text(), "{edit:?}");
            for (q, anchor) in (0..=3).zip(anchors) {
                let want = row.position(anchor);
                assert_eq!(map(&edit, q, bias), want, "{edit:?} at {q}, {bias:?}");
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 20_904);
}

/// Returns where the positions of a text stand behind edits that follow one another, by [`map`] as
/// by the characters.
fn places(text: &str, edits: &[&[Splice]], bias: Bias) -> Vec<u64> {
    let mut row = Row::new(text);
    let anchors: Vec<usize> = (0..=row.len()).map(|q| row.anchor(q, bias)).collect();
    for edit in edits {
        row.apply(edit);
    }
    let place = |(q, anchor)| {
        let mapped = edits.iter().fold(q, |q, edit| map(edit, q, bias));
        assert_eq!(mapped, row.position(anchor), "{edits:?} at {q}, {bias:?}");
        mapped
    };
    (0..).zip(anchors).map(place).collect()
}

#[test]
fn positions_over_carried_pairs_converge_where_their_character_stays() {
    let (mut converged, mut in_gap) = (0, 0);
    for first in &edits(3, &["", "x"]) {
        for second in &edits(3, &["", "Q"]) {
            let pair = carry(second.clone(), first).and_then(|over| {
                let back = carry(first.clone(), second)?;
                Ok((over, back))
            });
            let Ok((over, back)) = pair else { continue };
            let both = |bias| {
                let one = places("abc", &[first, &over], bias);
                (one, places("abc", &[second, &back], bias))
            };
            let [(left, other_left), (right, other_right)] = [Bias::Left, Bias::Right].map(both);
            if is_tie(first, second) {
                continue;
            }
            let splices = || first.iter().chain(second);
            let is_there = |at: &usize| {
                !splices().any(|splice| (splice.at.q0..splice.at.q1).contains(&(*at as u64)))
            };
            for q in 0..=3 {
                // The characters that stay on both sides; between them, the log decides.
                let from = (0..q).rev().find(is_there).map_or(0, |at| left[at + 1]);
                let to = (q..3).find(is_there).map_or(right[3], |at| right[at]);
                let stays = [q == 0 || is_there(&(q - 1)), q == 3 || is_there(&q)];
                let found = [(left[q], other_left[q]), (right[q], other_right[q])];
                for ((one, other), stays) in found.into_iter().zip(stays) {
                    let gap = from..=to;
                    let context = || alloc::format!("{q} over {first:?} and {second:?}");
                    assert!(gap.contains(&one) && gap.contains(&other), "{}", context());
                    assert!(one == other || !stays, "{}", context());
                    converged += usize::from(one == other);
                    in_gap += usize::from(one != other);
                }
            }
        }
    }
    assert_eq!((converged, in_gap), (93_624, 10_552));
}

#[test]
fn every_pair_of_edits_converges_and_the_log_decides_ties() {
    let (mut carried, mut refused, mut tied) = (0, 0, 0);
    let all = edits(3, &["", "x"]);
    let other: Vec<Vec<Splice>> = edits(3, &["", "Q"]);
    for first in &all {
        let middle = applied("abc", first);
        for second in &other {
            let over = carry(second.clone(), first);
            assert_eq!(
                over.is_err(),
                is_conflict(first, second),
                "{second:?} over {first:?}"
            );
            let back = carry(first.clone(), second);
            assert_eq!(over.is_err(), back.is_err(), "{second:?} and {first:?}");
            let (Ok(over), Ok(back)) = (over, back) else {
                refused += 1;
                continue;
            };
            let end = applied(&middle, &over);
            let context = || alloc::format!("{second:?} over {first:?}");
            assert_eq!(end, merged("abc", &[first, second]), "{}", context());
            let other_end = applied(&applied("abc", second), &back);
            if is_tie(first, second) {
                tied += 1;
                assert_eq!(other_end, merged("abc", &[second, first]), "{}", context());
            } else {
                assert_eq!(end, other_end, "{}", context());
            }
            carried += 1;
        }
    }
    assert_eq!((carried, refused, tied), (14_280, 11_320, 1_258));
}

#[test]
fn every_triple_of_edits_ends_as_the_log_orders_it() {
    let (mut carried, mut refused, mut brought_together, mut positions) = (0, 0, 0, 0);
    let [first, second, third] = ["x", "Q", "_"].map(|letter| edits(2, &["", letter]));
    for a in &first {
        let after_a = applied("ab", a);
        for b in &second {
            let Ok(b_over_a) = carry(b.clone(), a) else {
                refused += third.len();
                continue;
            };
            let after_b = applied(&after_a, &b_over_a);
            for c in &third {
                let over = carry(c.clone(), a).and_then(|c| carry(c, &b_over_a));
                let conflict = is_conflict(a, c) || is_conflict(b, c);
                assert_eq!(over.is_err(), conflict, "{c:?} over {a:?} and {b:?}");
                let Ok(over) = over else {
                    refused += 1;
                    continue;
                };
                let end = applied(&after_b, &over);
                let want = merged("ab", &[a, &slid(b, a), &slid(c, a)]);
                assert_eq!(end, want, "{c:?} over {a:?} and {b:?}");
                for bias in [Bias::Left, Bias::Right] {
                    positions += places("ab", &[a, &b_over_a, &over], bias).len();
                }
                brought_together += usize::from(want != merged("ab", &[a, b, c]));
                carried += 1;
            }
        }
    }
    assert_eq!(
        (carried, refused, brought_together, positions),
        (156_360, 216_888, 1_600, 938_160)
    );
}

#[test]
fn composing_three_edits_does_not_depend_on_the_brackets() {
    let mut cases = 0;
    for a in edits(2, &["", "x"]) {
        let after_a = applied("ab", &a);
        for b in splices(after_a.chars().count() as u64, &["", "Q"]) {
            let b = [b];
            let after_b = applied(&after_a, &b);
            let a_b = compose(&a, &b);
            for c in edits(after_b.chars().count() as u64, &["", "_"]) {
                let end = applied(&after_b, &c);
                let left = compose(&a_b, &c);
                let right = compose(&a, &compose(&b, &c));
                assert_eq!(applied("ab", &left), end, "{a:?} {b:?} {c:?}");
                assert_eq!(applied("ab", &right), end, "{a:?} {b:?} {c:?}");
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 128_960);
}

#[test]
fn inverses_undo_and_redo_and_undo_pairs_backwards() {
    let mut cases = 0;
    for a in edits(3, &["", "x"]) {
        let mut text = Text::from("abc");
        let undo_a = apply(&mut text, &a);
        let after_a = text.to_string();
        let redo_a = apply(&mut text, &undo_a);
        assert_eq!(text.to_string(), "abc", "{a:?}");
        assert_eq!(applied("abc", &redo_a), after_a, "{a:?}");
        assert_eq!(applied("abc", &compose(&a, &undo_a)), "abc", "{a:?}");
        for b in splices(after_a.chars().count() as u64, &["", "yz"]) {
            let mut text = Text::from(after_a.as_str());
            let undo_b = apply(&mut text, core::slice::from_ref(&b));
            let both = compose(&undo_b, &undo_a);
            assert_eq!(applied(&text.to_string(), &both), "abc", "{a:?} then {b:?}");
            cases += 1;
        }
    }
    assert_eq!(cases, 3_098);
}
