//! Edits as values: checking, inverting, composing, and carrying positions and edits through them.
//!
//! An edit is a list of splices, all in positions of the text before it, in order and disjoint.
//! Every position that survives an edit (view, mark, proposal) moves by the rules of this module
//! and nowhere else.

pub mod apart;
pub mod marks;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use crate::limits;
use crate::text::{self, Span, Text};

/// One replacement of a span by a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Splice {
    /// What is replaced, in positions of the text before the whole edit.
    pub at: Span,
    /// What stands there afterwards. Cheap to clone.
    pub text: SmolStr,
}

impl Splice {
    /// Returns the splice that replaces `at` by `text`.
    pub fn new(at: Span, text: impl Into<SmolStr>) -> Self {
        Self {
            at,
            text: text.into(),
        }
    }

    /// Returns how many code points it brings.
    #[must_use]
    pub fn count(&self) -> u64 {
        text::count(&self.text)
    }
}

/// The splices of one edit, ordered and disjoint. One alone, as typing makes it, needs no list.
#[derive(Clone)]
pub struct Splices(Few);

#[derive(Clone)]
enum Few {
    One(Splice),
    Many(Vec<Splice>),
}

impl Splices {
    /// Returns them in order.
    #[must_use]
    pub const fn as_slice(&self) -> &[Splice] {
        match &self.0 {
            Few::One(splice) => core::slice::from_ref(splice),
            Few::Many(splices) => splices.as_slice(),
        }
    }
}

impl Deref for Splices {
    type Target = [Splice];

    fn deref(&self) -> &[Splice] {
        self.as_slice()
    }
}

impl From<Splice> for Splices {
    fn from(splice: Splice) -> Self {
        Self(Few::One(splice))
    }
}

impl From<Vec<Splice>> for Splices {
    fn from(mut splices: Vec<Splice>) -> Self {
        match splices.pop() {
            Some(splice) if splices.is_empty() => Self::from(splice),
            last => {
                splices.extend(last);
                Self(Few::Many(splices))
            }
        }
    }
}

impl PartialEq for Splices {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Splices {}

impl fmt::Debug for Splices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<'a> IntoIterator for &'a Splices {
    type Item = &'a Splice;
    type IntoIter = core::slice::Iter<'a, Splice>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Serialize for Splices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Splices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SplicesVisitor;

        impl<'de> Visitor<'de> for SplicesVisitor {
            type Value = Splices;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("splices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Splices, A::Error> {
                let Some(first) = list.next_element()? else {
                    return Ok(Splices(Few::Many(Vec::new())));
                };
                let Some(second) = list.next_element()? else {
                    return Ok(Splices(Few::One(first)));
                };
                let mut splices = Vec::from([first, second]);
                while let Some(splice) = list.next_element()? {
                    splices.push(splice);
                }
                Ok(Splices(Few::Many(splices)))
            }
        }

        deserializer.deserialize_seq(SplicesVisitor)
    }
}

/// Why a list of splices is not an edit of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EditError {
    /// A span is reversed or ends past the text.
    OutOfRange {
        /// The span.
        at: Span,
        /// How many code points the text has.
        len: u64,
    },
    /// A splice begins before the one before it ended.
    OutOfOrder {
        /// The span that comes too late.
        at: Span,
    },
    /// More splices than one edit may have.
    TooMany {
        /// How many there were.
        count: u64,
    },
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { at, len } => {
                write!(
                    f,
                    "#{},#{} is outside the text of {len} code points",
                    at.q0, at.q1
                )
            }
            Self::OutOfOrder { at } => {
                write!(f, "changes not in sequence at #{},#{}", at.q0, at.q1)
            }
            Self::TooMany { count } => {
                write!(
                    f,
                    "{count} changes are more than {} in one edit",
                    limits::SPLICE_COUNT_MAX
                )
            }
        }
    }
}

impl core::error::Error for EditError {}

/// Where a position goes when text is inserted right at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// It stays before the new text, as acme's selections do.
    Left,
    /// It moves behind the new text.
    Right,
}

/// Checks that splices are in order, disjoint and inside a text of `len` code points.
///
/// # Errors
/// The first splice that breaks a rule.
pub fn check(splices: &[Splice], len: u64) -> Result<(), EditError> {
    if splices.len() > limits::SPLICE_COUNT_MAX {
        return Err(EditError::TooMany {
            count: splices.len() as u64,
        });
    }
    let mut end = 0;
    for splice in splices {
        if !splice.at.fits(len) {
            return Err(EditError::OutOfRange { at: splice.at, len });
        }
        if splice.at.q0 < end {
            return Err(EditError::OutOfOrder { at: splice.at });
        }
        end = splice.at.q1;
    }
    Ok(())
}

/// Applies checked splices and returns those that undo them, in positions of the new text.
///
/// # Panics
/// When the splices were not checked against this text.
pub fn apply(text: &mut Text, splices: &[Splice]) -> Vec<Splice> {
    let mut inverse = Vec::with_capacity(splices.len());
    let mut moved = Shift::default();
    for splice in splices {
        let undo = apply_at(text, moved.forward(splice.at.q0), splice);
        moved.pass(splice.at.len(), undo.at.len());
        inverse.push(undo);
    }
    inverse
}

/// Applies one checked splice and returns the one that undoes it.
///
/// # Panics
/// When the splice was not checked against this text.
pub fn apply_one(text: &mut Text, splice: &Splice) -> Splice {
    apply_at(text, splice.at.q0, splice)
}

/// Applies a splice whose span begins at `q0` by now.
fn apply_at(text: &mut Text, q0: u64, splice: &Splice) -> Splice {
    let at = Span::new(q0, q0 + splice.at.len());
    let old = text.piece(at);
    let count = text.replace(at, &splice.text);
    Splice {
        at: Span::new(q0, q0 + count),
        text: old,
    }
}

/// How far positions behind the splices passed so far have moved.
#[derive(Clone, Copy, Default)]
struct Shift {
    removed: u64,
    added: u64,
}

impl Shift {
    const fn pass(&mut self, removed: u64, added: u64) {
        self.removed += removed;
        self.added += added;
    }

    const fn forward(self, q: u64) -> u64 {
        q - self.removed + self.added
    }

    const fn back(self, q: u64) -> u64 {
        q - self.added + self.removed
    }
}

/// Returns where a position of the old text stands in the new one.
///
/// With [`Bias::Left`] these are the rules of acme's `textdelete` and `textinsert`: a position
/// inside deleted text goes to its start, and an insertion at the position does not move it.
#[must_use]
pub fn map(splices: &[Splice], mut q: u64, bias: Bias) -> u64 {
    if let ([splice], Bias::Left) = (splices, bias) {
        return map_left(splice.at, splice.count(), q);
    }
    let mut moved = Shift::default();
    for splice in splices {
        if splice.at.q0 > q || (splice.at.q0 == q && bias == Bias::Left) {
            break;
        }
        let inside = q < splice.at.q1 || (q == splice.at.q1 && bias == Bias::Left);
        let replaced = !splice.at.is_empty();
        if replaced && inside {
            // Deleted down to the start; there the insertion stands right at it.
            if bias == Bias::Left {
                return moved.forward(splice.at.q0);
            }
            // Behind the insertion, and behind those of splices that follow without a gap.
            q = splice.at.q1;
        }
        moved.pass(splice.at.len(), splice.count());
    }
    moved.forward(q)
}

/// Returns where a position goes by one splice of `count` code points, with [`Bias::Left`]: what
/// typing does to each view.
const fn map_left(at: Span, count: u64, q: u64) -> u64 {
    if q <= at.q0 {
        q
    } else if q <= at.q1 {
        at.q0
    } else {
        q - at.len() + count
    }
}

/// Returns where a span of the old text stands in the new one, both ends with acme's rule.
#[must_use]
pub fn map_span(splices: &[Splice], span: Span) -> Span {
    Span::new(
        map(splices, span.q0, Bias::Left),
        map(splices, span.q1, Bias::Left),
    )
}

/// Returns where a position of the new text stood in the old one. What stands in or behind the text
/// of a splice stood behind what it replaced, so that [`map`] with [`Bias::Right`] brings it behind
/// that text again.
#[must_use]
pub fn map_back(splices: &[Splice], q: u64) -> u64 {
    let mut moved = Shift::default();
    for splice in splices {
        let start = moved.forward(splice.at.q0);
        let count = splice.count();
        if q < start {
            break;
        }
        if q <= start + count {
            return if q == start {
                splice.at.q0
            } else {
                splice.at.q1
            };
        }
        moved.pass(splice.at.len(), count);
    }
    moved.back(q)
}

/// Two edits of one version touch the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The span of the edit that cannot be carried.
    pub at: Span,
}

/// Carries `splices` over `later`, an edit of the same version that came first in the log.
///
/// Two inserts at one point keep log order, an insert at the edge of a deletion survives, and a
/// replacement that overlaps a change is a conflict.
///
/// # Errors
/// The first splice that overlaps.
pub fn carry(splices: Vec<Splice>, later: &[Splice]) -> Result<Vec<Splice>, Overlap> {
    carry_with(splices, later, Tie::Move)
}

/// Where an insert goes that meets another one at the same point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    /// Before the other.
    Stay,
    /// Behind the other.
    Move,
}

fn carry_with(
    mut splices: Vec<Splice>,
    later: &[Splice],
    tie: Tie,
) -> Result<Vec<Splice>, Overlap> {
    let mut moved = Shift::default();
    let mut rest = later.iter().peekable();
    for splice in &mut splices {
        let at = splice.at;
        let stays = |other: Span| tie == Tie::Stay && other.is_empty() && other == at;
        while let Some(other) = rest.next_if(|o| is_before(o.at, at) && !stays(o.at)) {
            moved.pass(other.at.len(), other.count());
        }
        if rest.peek().is_some_and(|other| overlaps(other.at, at)) {
            return Err(Overlap { at });
        }
        splice.at = Span::new(moved.forward(at.q0), moved.forward(at.q1));
    }
    Ok(splices)
}

/// Returns whether `other` lies wholly before `at`, so that `at` moves by it.
fn is_before(other: Span, at: Span) -> bool {
    if other.is_empty() {
        return other.q0 <= at.q0;
    }
    other.q1 <= at.q0
}

/// Returns whether two spans share text, or one is a point strictly inside the other.
fn overlaps(one: Span, other: Span) -> bool {
    let is_inside = |point: Span, span: Span| span.q0 < point.q0 && point.q0 < span.q1;
    match (one.is_empty(), other.is_empty()) {
        (true, true) => false,
        (true, false) => is_inside(one, other),
        (false, true) => is_inside(other, one),
        (false, false) => one.q0.max(other.q0) < one.q1.min(other.q1),
    }
}

/// Returns one edit that does what `first` and then `second` do.
///
/// `second` is in positions of the text after `first`; the result in those of the text before.
#[must_use]
pub fn compose(first: &[Splice], second: &[Splice]) -> Vec<Splice> {
    Composer::new(first).run(second)
}

/// One piece of the text between the two edits: kept text, or text that `first` brought.
struct Composer<'a> {
    first: core::slice::Iter<'a, Splice>,
    /// The splice of `first` whose text is being passed, and how much of it is left.
    open: Option<(Span, Vec<char>)>,
    /// Position in the old text and in the middle text.
    old: u64,
    middle: u64,
    out: Joined,
}

impl<'a> Composer<'a> {
    fn new(first: &'a [Splice]) -> Self {
        Self {
            first: first.iter(),
            open: None,
            old: 0,
            middle: 0,
            out: Joined::default(),
        }
    }

    fn run(mut self, second: &[Splice]) -> Vec<Splice> {
        for splice in second {
            self.pass(splice.at.q0, true);
            self.out.push(Span::at(self.old), &splice.text);
            self.pass(splice.at.q1, false);
        }
        self.pass(u64::MAX, true);
        self.out.into_splices()
    }

    /// Passes the middle text up to `to`, keeping it or dropping it.
    fn pass(&mut self, to: u64, keep: bool) {
        loop {
            if let Some((_, chars)) = &mut self.open {
                let count = chars
                    .len()
                    .min(usize::try_from(to - self.middle).unwrap_or(usize::MAX));
                let text: String = chars.drain(..count).collect();
                let is_done = chars.is_empty();
                self.middle += count as u64;
                if keep {
                    self.out.push(Span::at(self.old), &text);
                }
                if !is_done {
                    return;
                }
                self.open = None;
            }
            let next = self.first.as_slice().first();
            let kept = next.map_or(u64::MAX, |splice| splice.at.q0 - self.old);
            let step = kept.min(to - self.middle);
            if step > 0 && !keep {
                self.out
                    .push(Span::new(self.old, self.old.saturating_add(step)), "");
            }
            self.old = self.old.saturating_add(step);
            self.middle = self.middle.saturating_add(step);
            let Some(splice) = next else { return };
            if step < kept || (self.middle == to && !keep) {
                return;
            }
            self.first.next();
            self.out.push(splice.at, "");
            self.old = splice.at.q1;
            self.open = Some((splice.at, splice.text.chars().collect()));
        }
    }
}

/// Replacements in order, joined where they touch.
#[derive(Clone, Debug, Default)]
pub struct Joined(Vec<(Span, String)>);

impl Joined {
    /// Appends a replacement, joined to the last one where they touch.
    pub fn push(&mut self, at: Span, text: &str) {
        if at.is_empty() && text.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some((last, brought)) if last.q1 == at.q0 => {
                last.q1 = at.q1;
                brought.push_str(text);
            }
            _ => self.0.push((at, text.into())),
        }
    }

    /// Returns them as an edit.
    #[must_use]
    pub fn into_splices(self) -> Vec<Splice> {
        let joined = self.0.into_iter();
        joined.map(|(at, text)| Splice::new(at, text)).collect()
    }
}

/// Cuts an edit into steps that make the same text one after the other, each in positions of the
/// text before it. Each has at most [`limits::SPLICE_COUNT_MAX`] splices of at most
/// [`limits::PIECE_LEN_MAX`] bytes, and weighs at most [`limits::STEP_LEN_MAX`].
#[must_use]
pub fn steps(splices: Vec<Splice>) -> Vec<Vec<Splice>> {
    let is_short = |splice: &Splice| splice.text.len() <= limits::PIECE_LEN_MAX;
    let whole: usize = splices.iter().map(|splice| weight(&splice.text)).sum();
    if whole <= limits::STEP_LEN_MAX
        && splices.len() <= limits::SPLICE_COUNT_MAX
        && splices.iter().all(is_short)
    {
        return alloc::vec![splices];
    }
    let (mut steps, mut step, mut len) = (Vec::new(), Vec::new(), 0);
    // How far the steps before this one, and all pieces so far, move what follows.
    let (mut before, mut moved) = (Shift::default(), Shift::default());
    for splice in splices {
        let mut at = splice.at;
        let mut rest = splice.text.as_str();
        loop {
            let piece = head_of(rest, limits::PIECE_LEN_MAX);
            rest = &rest[piece.len()..];
            let is_full = len + weight(piece) > limits::STEP_LEN_MAX;
            if !step.is_empty() && (is_full || step.len() == limits::SPLICE_COUNT_MAX) {
                steps.push(core::mem::take(&mut step));
                (before, len) = (moved, 0);
            }
            let here = Span::new(before.forward(at.q0), before.forward(at.q1));
            step.push(Splice::new(here, piece));
            len += weight(piece);
            moved.pass(at.len(), text::count(piece));
            at = Span::at(at.q1);
            if rest.is_empty() {
                break;
            }
        }
    }
    steps.push(step);
    steps
}

/// Returns the bytes that a splice takes in an entry, or a little more.
const fn weight(text: &str) -> usize {
    text.len() + 16
}

/// Returns the longest head of a text of at most `len_max` bytes.
fn head_of(text: &str, len_max: usize) -> &str {
    let mut end = text.len().min(len_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the smallest single splice that turns `old` into `new`; none when they are equal.
#[must_use]
pub fn difference(old: &Text, new: &Text) -> Option<Splice> {
    let (old_len, new_len) = (old.len(), new.len());
    let same = |a: &mut dyn Iterator<Item = char>, b: &mut dyn Iterator<Item = char>| {
        a.zip(b).take_while(|(a, b)| a == b).count() as u64
    };
    let head = same(&mut old.chars_from(0), &mut new.chars_from(0));
    if head == old_len && head == new_len {
        return None;
    }
    let tail = same(
        &mut old.chars_before(old_len),
        &mut new.chars_before(new_len),
    );
    let tail = tail.min(old_len.min(new_len) - head);
    let text = new.slice(Span::new(head, new_len - tail));
    Some(Splice::new(Span::new(head, old_len - tail), text))
}

#[cfg(test)]
mod tests;
