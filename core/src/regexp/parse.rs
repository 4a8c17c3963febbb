//! Patterns as lists of items in postfix order: a stack machine can build them, however deep
//! their groups are nested.

use alloc::string::String;
use alloc::vec::Vec;
use core::iter::Peekable;
use core::str::Chars;

use super::{Class, RegexpError};

/// One step of building a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// One code point out of a class.
    Set(Class),
    /// `^`.
    LineStart,
    /// `$`.
    LineEnd,
    /// The two above it, one behind the other.
    Cat,
    /// One of the two above it.
    Or,
    /// The one above it, any number of times.
    Star,
    /// The one above it, at least once.
    Plus,
    /// The one above it, or nothing.
    Quest,
    /// The one above it is the group of this number, from 1.
    Group(usize),
}

/// A pattern that was understood.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) items: Vec<Item>,
}

/// What waits for its right side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Open(usize),
    Or,
    Cat,
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    items: Vec<Item>,
    waiting: Vec<Waiting>,
    group_count: usize,
    open_count: usize,
    /// Whether something stands right before, so that what follows is joined to it.
    has_left: bool,
}

/// Parses a pattern.
pub(super) fn parse(pattern: &str) -> Result<Parsed, RegexpError> {
    let mut parser = Parser {
        rest: pattern.chars().peekable(),
        items: Vec::new(),
        waiting: Vec::new(),
        group_count: 0,
        open_count: 0,
        has_left: false,
    };
    while let Some(c) = parser.rest.next() {
        parser.take(c)?;
    }
    if !parser.has_left {
        return Err(RegexpError::NoOperand(match parser.waiting.last() {
            Some(Waiting::Open(_)) => '(',
            _ => '|',
        }));
    }
    parser.reduce();
    if parser.waiting.is_empty() {
        Ok(Parsed {
            items: parser.items,
        })
    } else {
        Err(RegexpError::UnmatchedOpen)
    }
}

impl Parser<'_> {
    fn take(&mut self, c: char) -> Result<(), RegexpError> {
        match c {
            '*' => self.repeat(Item::Star, c),
            '+' => self.repeat(Item::Plus, c),
            '?' => self.repeat(Item::Quest, c),
            '|' => {
                self.need_left(c)?;
                self.reduce();
                self.waiting.push(Waiting::Or);
                self.has_left = false;
                Ok(())
            }
            '(' => {
                self.join();
                self.group_count += 1;
                self.open_count += 1;
                self.waiting.push(Waiting::Open(self.group_count));
                self.has_left = false;
                Ok(())
            }
            ')' => self.close(),
            '.' => self.operand(Item::Set(Class::any())),
            '^' => self.operand(Item::LineStart),
            '$' => self.operand(Item::LineEnd),
            '[' => {
                let class = self.class()?;
                self.operand(Item::Set(class))
            }
            '\\' => {
                let c = match self.rest.next() {
                    Some('n') => '\n',
                    Some(c) => c,
                    None => '\\',
                };
                self.operand(Item::Set(Class::one(c)))
            }
            c => self.operand(Item::Set(Class::one(c))),
        }
    }

    fn operand(&mut self, item: Item) -> Result<(), RegexpError> {
        self.join();
        self.items.push(item);
        self.has_left = true;
        Ok(())
    }

    fn repeat(&mut self, item: Item, c: char) -> Result<(), RegexpError> {
        self.need_left(c)?;
        self.items.push(item);
        Ok(())
    }

    fn need_left(&self, c: char) -> Result<(), RegexpError> {
        if self.has_left {
            Ok(())
        } else {
            Err(RegexpError::NoOperand(c))
        }
    }

    /// Joins what comes next to what stands before it. What was joined before is one by now: to the
    /// left first, as sam does it.
    fn join(&mut self) {
        if !self.has_left {
            return;
        }
        if self.waiting.last() == Some(&Waiting::Cat) {
            self.items.push(Item::Cat);
        } else {
            self.waiting.push(Waiting::Cat);
        }
    }

    /// Ends all that waits inside the innermost open group.
    fn reduce(&mut self) {
        while let Some(waiting) = self.waiting.last() {
            let item = match waiting {
                Waiting::Cat => Item::Cat,
                Waiting::Or => Item::Or,
                Waiting::Open(_) => return,
            };
            self.items.push(item);
            self.waiting.pop();
        }
    }

    fn close(&mut self) -> Result<(), RegexpError> {
        if self.open_count == 0 {
            return Err(RegexpError::UnmatchedClose);
        }
        self.need_left(')')?;
        self.reduce();
        if let Some(Waiting::Open(number)) = self.waiting.pop() {
            self.items.push(Item::Group(number));
            self.open_count -= 1;
        }
        Ok(())
    }

    /// Reads a class, behind its `[`.
    fn class(&mut self) -> Result<Class, RegexpError> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        let mut ranges = Vec::new();
        loop {
            let (first, is_quoted) = self.class_char()?;
            if !is_quoted && first == ']' {
                return Ok(Class { ranges, is_negated });
            }
            if !is_quoted && first == '-' {
                return Err(RegexpError::BadClass);
            }
            if self.rest.next_if_eq(&'-').is_some() {
                let (last, is_quoted) = self.class_char()?;
                if !is_quoted && last == ']' {
                    return Err(RegexpError::BadClass);
                }
                ranges.push((first, last));
            } else {
                ranges.push((first, first));
            }
        }
    }

    fn class_char(&mut self) -> Result<(char, bool), RegexpError> {
        match self.rest.next().ok_or(RegexpError::BadClass)? {
            '\\' => match self.rest.next().ok_or(RegexpError::BadClass)? {
                'n' => Ok(('\n', true)),
                c => Ok((c, true)),
            },
            c => Ok((c, false)),
        }
    }
}

impl Parsed {
    /// Returns the text with which each match begins, if it has one, and whether it is all.
    pub(super) fn literal_prefix(&self) -> Option<(String, bool)> {
        if !self.begins_alike() {
            return None;
        }
        let mut prefix = String::from(single(self.items.first()?)?);
        let mut at = 1;
        while let [set, Item::Cat, ..] = &self.items[at..]
            && let Some(c) = single(set)
        {
            prefix.push(c);
            at += 2;
        }
        Some((prefix, at == self.items.len()))
    }

    /// Returns whether each match begins with the first item: it is no alternative, and never left
    /// out.
    fn begins_alike(&self) -> bool {
        // How many operands wait; the lowest one holds the first item.
        let mut count = 0;
        for item in &self.items {
            match item {
                Item::Set(_) | Item::LineStart | Item::LineEnd => count += 1,
                Item::Or if count == 2 => return false,
                Item::Cat | Item::Or => count -= 1,
                Item::Star | Item::Quest if count == 1 => return false,
                Item::Star | Item::Quest | Item::Plus | Item::Group(_) => {}
            }
        }
        true
    }
}

/// Returns the one code point of a set that holds no more.
fn single(item: &Item) -> Option<char> {
    match item {
        Item::Set(class) if !class.is_negated => match class.ranges[..] {
            [(a, b)] if a == b => Some(a),
            _ => None,
        },
        _ => None,
    }
}
