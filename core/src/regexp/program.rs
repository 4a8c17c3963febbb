//! A pattern as a program of instructions, for either direction, and its classes of code points.

use alloc::vec::Vec;

use super::parse::{Item, Parsed};
use super::{Class, SUBMATCH_COUNT};

/// Which way a program reads the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From lower positions to higher ones.
    Forward,
    /// From higher positions to lower ones.
    Backward,
}

/// Index of an instruction.
pub(super) type At = u32;

/// One instruction. It goes on at `next` unless it says otherwise.
#[derive(Debug)]
pub(super) enum Op {
    /// Reads one code point of a class.
    Set(Class),
    /// Goes on at a line's start.
    LineStart,
    /// Goes on at a line's end.
    LineEnd,
    /// Goes on at `next` and then, after all else that is waiting, here.
    Split(At),
    /// Notes the position in a slot: two for each group, its start and its end.
    Save(usize),
    /// Goes on.
    Nop,
    /// The pattern matched.
    Match,
}

/// An instruction and the one behind it.
#[derive(Debug)]
pub(super) struct Inst {
    pub(super) op: Op,
    pub(super) next: At,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) insts: Vec<Inst>,
    pub(super) start: At,
    /// Whether there is a `^` or a `$`.
    pub(super) has_anchors: bool,
    /// Where each class of code points begins, from the lowest; code points of one class are alike
    /// to every instruction. The newline is a class of its own.
    bounds: Vec<u32>,
    /// The classes of ASCII.
    ascii: [u32; 128],
}

/// A part of a program with an open end.
struct Part {
    first: At,
    last: At,
}

struct Builder {
    insts: Vec<Inst>,
    parts: Vec<Part>,
    direction: Direction,
}

impl Program {
    pub(super) fn compile(parsed: &Parsed, direction: Direction) -> Self {
        let mut builder = Builder {
            insts: Vec::new(),
            parts: Vec::new(),
            direction,
        };
        for item in &parsed.items {
            builder.add(item);
        }
        let whole = builder.pop();
        let end = builder.inst(Op::Match);
        builder.patch(whole.last, end);
        let bounds = bounds(&parsed.items);
        let mut program = Self {
            insts: builder.insts,
            start: whole.first,
            has_anchors: parsed.items.iter().any(is_anchor),
            bounds,
            ascii: [0; 128],
        };
        for byte in 0..128_u8 {
            program.ascii[usize::from(byte)] = program.search_class(char::from(byte));
        }
        program
    }

    /// Returns how many classes of code points there are.
    pub(super) fn class_count(&self) -> usize {
        self.bounds.len()
    }

    /// Returns the class of an ASCII byte.
    #[inline]
    pub(super) fn class_of_byte(&self, byte: u8) -> usize {
        self.ascii[usize::from(byte & 0x7F)] as usize
    }

    /// Returns the class of a code point.
    pub(super) fn class_of(&self, c: char) -> usize {
        if c.is_ascii() {
            self.ascii[c as usize] as usize
        } else {
            self.search_class(c) as usize
        }
    }

    fn search_class(&self, c: char) -> u32 {
        let index = self.bounds.partition_point(|bound| *bound <= u32::from(c));
        u32::try_from(index - 1).unwrap_or(u32::MAX)
    }

    /// Returns a code point of a class.
    pub(super) fn example(&self, class: usize) -> Option<char> {
        let first = self.bounds[class];
        // A class may begin in the gap that the surrogates leave.
        char::from_u32(first).or_else(|| char::from_u32(0xE000))
    }
}

impl Builder {
    fn inst(&mut self, op: Op) -> At {
        let at = At::try_from(self.insts.len()).expect("a pattern shorter than 4 GiB");
        self.insts.push(Inst { op, next: at });
        at
    }

    fn patch(&mut self, last: At, next: At) {
        self.insts[last as usize].next = next;
    }

    fn pop(&mut self) -> Part {
        self.parts
            .pop()
            .expect("the parser gives every operator what it needs")
    }

    fn one(&mut self, op: Op) {
        let at = self.inst(op);
        self.parts.push(Part {
            first: at,
            last: at,
        });
    }

    fn add(&mut self, item: &Item) {
        match item {
            Item::Set(class) => self.one(Op::Set(class.clone())),
            Item::LineStart => self.one(Op::LineStart),
            Item::LineEnd => self.one(Op::LineEnd),
            Item::Cat => self.cat(),
            Item::Or => self.or(),
            Item::Star => {
                let body = self.pop();
                let split = self.inst(Op::Split(body.first));
                self.patch(body.last, split);
                self.parts.push(Part {
                    first: split,
                    last: split,
                });
            }
            Item::Plus => {
                let body = self.pop();
                let split = self.inst(Op::Split(body.first));
                self.patch(body.last, split);
                self.parts.push(Part {
                    first: body.first,
                    last: split,
                });
            }
            Item::Quest => {
                let body = self.pop();
                let end = self.inst(Op::Nop);
                let split = self.inst(Op::Split(body.first));
                self.patch(split, end);
                self.patch(body.last, end);
                self.parts.push(Part {
                    first: split,
                    last: end,
                });
            }
            Item::Group(number) => self.group(*number),
        }
    }

    fn cat(&mut self) {
        let (second, first) = (self.pop(), self.pop());
        let (first, second) = match self.direction {
            Direction::Forward => (first, second),
            Direction::Backward => (second, first),
        };
        self.patch(first.last, second.first);
        self.parts.push(Part {
            first: first.first,
            last: second.last,
        });
    }

    fn or(&mut self) {
        let (second, first) = (self.pop(), self.pop());
        let end = self.inst(Op::Nop);
        self.patch(first.last, end);
        self.patch(second.last, end);
        // sam looks at the second one first.
        let split = self.inst(Op::Split(first.first));
        self.patch(split, second.first);
        self.parts.push(Part {
            first: split,
            last: end,
        });
    }

    /// Only forwards is it asked what groups stand for, and only for the first ones.
    fn group(&mut self, number: usize) {
        if number > SUBMATCH_COUNT || self.direction == Direction::Backward {
            return;
        }
        let body = self.pop();
        let open = self.inst(Op::Save(2 * (number - 1)));
        let close = self.inst(Op::Save(2 * (number - 1) + 1));
        self.patch(open, body.first);
        self.patch(body.last, close);
        self.parts.push(Part {
            first: open,
            last: close,
        });
    }
}

const fn is_anchor(item: &Item) -> bool {
    matches!(item, Item::LineStart | Item::LineEnd)
}

/// Returns where classes of code points begin, in order, the first one at 0.
fn bounds(items: &[Item]) -> Vec<u32> {
    let newline = u32::from('\n');
    let mut bounds = alloc::vec![0, newline, newline + 1];
    for item in items {
        if let Item::Set(class) = item {
            for (first, last) in &class.ranges {
                bounds.extend([u32::from(*first), u32::from(*last) + 1]);
            }
        }
    }
    bounds.sort_unstable();
    bounds.dedup();
    bounds.retain(|bound| *bound <= u32::from(char::MAX));
    bounds
}
