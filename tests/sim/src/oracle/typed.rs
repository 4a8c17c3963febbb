//! What was typed, as a plain list of characters, each of which is typed once in a world.
//!
//! 1. A character is in one text at the end, once, unless somebody removed it, or its process
//!    ended before the daemon had it, or its author was told that it was refused.
//! 2. What was refused is in no text.
//! 3. Characters typed one after the other stand in that order.

use std::collections::BTreeMap;

use apex_core::ids::{AttachmentId, GroupId, ProposalId};

use super::{Failure, hold};
use crate::random::Random;

const KEPT: &str = "nothing typed is lost (8, I9)";
const ONCE: &str = "nothing typed is doubled (8, I9)";
const ORDER: &str = "typed text keeps its order (8)";
const UNDO: &str = "undo takes back one step (issue 3, 1)";
const REFUSED: &str = "what was refused is not in a text (I10)";

/// One character.
#[derive(Clone, Debug)]
struct Char {
    process: u64,
    /// Whether the one before it was typed before it, in its place.
    is_next: bool,
    /// How often somebody put it into a text: typing it, and each undo that brought it back.
    put_count: u32,
    /// Whether somebody took it out of a text.
    is_removed: bool,
    due: Due,
    /// Its step of undo, where it is known.
    group: Option<GroupId>,
}

/// Where a character must be at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// In a text.
    There,
    /// Anywhere or nowhere: nobody was told that it is in a text.
    Free,
    /// Nowhere: its author was told that it was refused.
    Nowhere,
}

/// What the changes of a proposal add: the index of the change, and its first character and
/// the one behind its last.
pub(crate) type Parts = Vec<(usize, usize, usize)>;

/// The list.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    chars: Vec<Char>,
    /// What each change of a proposal adds, by the index of the change.
    proposals: BTreeMap<(AttachmentId, ProposalId), Parts>,
}

/// Two ranges of ideographs, of three and of four bytes.
const RANGES: [(u32, usize); 2] = [(0x4E00, 20_000), (0x2_0000, 42_000)];

fn char_of(index: usize) -> char {
    let (start, offset) = if index < RANGES[0].1 {
        (RANGES[0].0, index)
    } else {
        (RANGES[1].0, (index - RANGES[0].1) % RANGES[1].1)
    };
    let code = u32::try_from(offset).map_or(start, |offset| start + offset);
    char::from_u32(code).unwrap_or('\u{4E00}')
}

fn index_of(c: char) -> Option<usize> {
    let code = u32::from(c);
    let mut before = 0;
    for (start, count) in RANGES {
        if code >= start && ((code - start) as usize) < count {
            return Some(before + (code - start) as usize);
        }
        before += count;
    }
    None
}

/// Returns what a text had and another does not have.
pub(crate) fn gone(before: &str, after: &str) -> String {
    before.chars().filter(|c| !after.contains(*c)).collect()
}

impl Typed {
    /// Returns a new character that nobody typed yet, typed by a process.
    pub(crate) fn next(&mut self, process: u64, is_next: bool) -> char {
        let c = char_of(self.chars.len());
        self.chars.push(Char {
            process,
            is_next,
            put_count: 1,
            is_removed: false,
            due: Due::There,
            group: None,
        });
        c
    }

    /// Returns a text of new characters, now and then with a line's end.
    pub(crate) fn text(&mut self, process: u64, random: &mut Random, count: u64) -> String {
        let mut text = String::new();
        for i in 0..count {
            text.push(self.next(process, i > 0));
            if random.percent(8) {
                text.push('\n');
            }
        }
        text
    }

    /// Takes characters back that were made and never typed.
    pub(crate) fn untype(&mut self, text: &str) {
        self.each(text, |c| c.due = Due::Free);
    }

    fn each(&mut self, text: &str, change: impl Fn(&mut Char)) {
        for c in text.chars() {
            if let Some(c) = index_of(c).and_then(|index| self.chars.get_mut(index)) {
                change(c);
            }
        }
    }

    /// Somebody takes these out of a text.
    pub(crate) fn remove(&mut self, text: &str) {
        self.each(text, |c| c.is_removed = true);
    }

    /// Somebody puts these into a text that were typed before.
    pub(crate) fn put_again(&mut self, text: &str) {
        self.each(text, |c| {
            c.put_count += 1;
            c.group = None;
        });
    }

    /// These were put into a text as a step of undo, or it is not known any more as which.
    pub(crate) fn group(&mut self, text: &str, group: Option<GroupId>) {
        self.each(text, |c| c.group = group);
    }

    /// Undo of a step took these away: they are of that step.
    pub(crate) fn undo(&self, gone: &str, group: Option<GroupId>) -> Result<(), Failure> {
        let known = |c: char| index_of(c).and_then(|index| self.chars.get(index)?.group);
        let other = gone
            .chars()
            .find(|c| known(*c).is_some_and(|of| Some(of) != group));
        hold(other.is_none(), UNDO, || {
            format!(
                "{other:?} went with {group:?}, and is of {:?}",
                other.and_then(known)
            )
        })
    }

    /// These may be lost: their author was told so.
    pub(crate) fn excuse(&mut self, text: &str) {
        self.each(text, |c| c.due = Due::Free);
    }

    /// What a process typed and had proposed is proposed again, and may have happened before.
    pub(crate) fn may_be_twice(&mut self, process: u64) {
        for c in self.chars.iter_mut().filter(|c| c.process == process) {
            c.put_count += 1;
        }
    }

    /// Somebody turned a text into another one: undo, or reading a file again.
    pub(crate) fn turn(&mut self, before: &str, after: &str) {
        let gone = gone(before, after);
        let come: String = after.chars().filter(|c| !before.contains(*c)).collect();
        self.remove(&gone);
        self.put_again(&come);
    }

    /// A process ended: what it typed and the daemon does not have may be lost.
    pub(crate) fn end_process(&mut self, process: u64, texts: &[(String, String)]) {
        let mut is_there = vec![false; self.chars.len()];
        for index in texts
            .iter()
            .flat_map(|(_, text)| text.chars())
            .filter_map(index_of)
        {
            if let Some(there) = is_there.get_mut(index) {
                *there = true;
            }
        }
        for (c, is_there) in self.chars.iter_mut().zip(is_there) {
            if c.process == process && !is_there {
                c.due = Due::Free;
            }
        }
    }

    /// Nothing is under way any more, and these are the texts, by name.
    pub(crate) fn end(&self, texts: &[(String, String)]) -> Result<(), Failure> {
        let mut found: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.chars.len()];
        for (text_index, (_, text)) in texts.iter().enumerate() {
            for (at, c) in text.chars().enumerate() {
                if let Some(found) = index_of(c).and_then(|index| found.get_mut(index)) {
                    found.push((text_index, at));
                }
            }
        }
        for (index, c) in self.chars.iter().enumerate() {
            let places = &found[index];
            let told = || {
                let names = places.iter().map(|(text, at)| (&texts[*text].0, at));
                let names: Vec<_> = names.collect();
                format!("{} of process {}: {names:?}", char_of(index), c.process)
            };
            let count = places.len();
            hold(count <= c.put_count as usize, ONCE, told)?;
            hold(c.due != Due::Nowhere || count == 0, REFUSED, told)?;
            let is_due = c.due == Due::There && !c.is_removed;
            hold(count > 0 || !is_due, KEPT, told)?;
            let before = index.checked_sub(1).map(|before| &found[before]);
            if let (true, Some([before]), [here]) =
                (c.is_next, before.map(Vec::as_slice), places.as_slice())
            {
                let is_apart = before.0 != here.0;
                hold(is_apart || before.1 < here.1, ORDER, || {
                    format!("{} stands before the one typed before it", told())
                })?;
            }
        }
        Ok(())
    }

    /// Returns how many characters were typed.
    pub(crate) fn count(&self) -> usize {
        self.chars.len()
    }

    /// A change of a tool's proposal adds what was typed from an index on. Until its author hears
    /// how it ended, it may be in a text or not.
    pub(crate) fn propose(&mut self, key: (AttachmentId, ProposalId), parts: Parts) {
        for (_, from, to) in &parts {
            for c in &mut self.chars[*from..*to] {
                c.due = Due::Free;
                c.group = Some(GroupId::new(key.1.raw()));
            }
        }
        self.proposals.insert(key, parts);
    }

    /// A tool hears how each change of its proposal ended.
    pub(crate) fn hear(
        &mut self,
        key: (AttachmentId, ProposalId),
        is_landed: impl Fn(usize) -> bool,
    ) {
        for (index, from, to) in self.proposals.get(&key).into_iter().flatten() {
            for c in &mut self.chars[*from..*to] {
                let is_landed = is_landed(*index);
                c.due = if is_landed { Due::There } else { Due::Nowhere };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(count: u64) -> (Typed, String) {
        let mut typed = Typed::default();
        let text = typed.text(1, &mut Random::new(1), count);
        (typed, text)
    }

    fn end(typed: &Typed, text: &str) -> Option<&'static str> {
        let found = typed.end(&[("a".into(), text.into())]);
        found.err().map(|failure| failure.oracle)
    }

    #[test]
    fn every_character_is_told_apart() {
        for index in [0, 19_999, 20_000, 61_999] {
            assert_eq!(index_of(char_of(index)), Some(index));
        }
        assert_eq!(index_of('a'), None);
    }

    #[test]
    fn lost_doubled_swapped_and_refused_characters_are_found() {
        let (mut typed, text) = typed(3);
        let text: String = text.chars().filter(|c| *c != '\n').collect();
        assert_eq!(end(&typed, &text), None);
        let short: String = text.chars().skip(1).collect();
        assert_eq!(end(&typed, &short), Some(KEPT));
        assert_eq!(end(&typed, &format!("{text}{short}")), Some(ONCE));
        let swapped: String = text.chars().rev().collect();
        assert_eq!(end(&typed, &swapped), Some(ORDER));
        let first: String = text.chars().take(1).collect();
        typed.remove(&first);
        assert_eq!(end(&typed, &short), None);
        let key = (AttachmentId::new(1), ProposalId::new(1));
        typed.propose(key, vec![(0, 1, 2)]);
        assert_eq!(end(&typed, ""), Some(KEPT));
        let last: String = text.chars().skip(2).collect();
        assert_eq!(end(&typed, &last), None);
        typed.hear(key, |index| index > 0);
        assert_eq!(end(&typed, &last), None);
        assert_eq!(end(&typed, &short), Some(REFUSED));
    }

    #[test]
    fn who_ends_loses_what_the_daemon_does_not_have_and_nothing_else() {
        let (mut typed, text) = typed(2);
        let first: String = text.chars().take(1).collect();
        typed.end_process(1, &[("a".into(), first.clone())]);
        assert_eq!(end(&typed, &first), None);
        assert_eq!(end(&typed, ""), Some(KEPT));
    }
}
