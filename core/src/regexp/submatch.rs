//! What the groups of a match stand for.
//!
//! The threads of the program run side by side over the match, and where two come to the same
//! instruction the first one stays: in the order in which sam keeps its threads, so that `\1` to
//! `\9` are what they are there.

use alloc::vec::Vec;

use super::program::{At, Op, Program};
use super::{SUBMATCH_COUNT, Submatches};
use crate::text::{Span, Text};

type Slots = [u64; 2 * SUBMATCH_COUNT];

/// A slot that no thread has come by.
const UNSET: u64 = u64::MAX;

struct Thread {
    at: At,
    slots: Slots,
}

/// The threads at one position.
struct List {
    threads: Vec<Thread>,
    /// For each instruction the step in which it was last put into the list.
    listed: Vec<u64>,
    step: u64,
}

impl List {
    fn new(len: usize) -> Self {
        Self {
            threads: Vec::new(),
            listed: alloc::vec![0; len],
            step: 0,
        }
    }

    fn clear(&mut self, step: u64) {
        self.threads.clear();
        self.step = step;
    }

    fn add(&mut self, at: At, slots: Slots) {
        let listed = &mut self.listed[at as usize];
        if *listed != self.step {
            *listed = self.step;
            self.threads.push(Thread { at, slots });
        }
    }
}

/// What a thread sees at its position.
#[derive(Clone, Copy)]
struct Here {
    position: u64,
    before: Option<char>,
    after: Option<char>,
    is_end: bool,
}

pub(super) fn submatches(program: &Program, text: &Text, found: Span) -> Submatches {
    let len = program.insts.len();
    let (mut now, mut next) = (List::new(len), List::new(len));
    let mut seen = alloc::vec![0; len];
    let mut chars = text.chars_from(found.q0);
    let mut here = Here {
        position: found.q0,
        before: text.chars_before(found.q0).next(),
        after: chars.next(),
        is_end: found.is_empty(),
    };
    now.clear(1);
    now.add(program.start, [UNSET; 2 * SUBMATCH_COUNT]);
    loop {
        let step = here.position - found.q0 + 1;
        next.clear(step + 1);
        if let Some(slots) = run(program, (&mut now, &mut next), &mut seen, here) {
            return named(&slots);
        }
        if here.is_end || next.threads.is_empty() {
            return Submatches::default();
        }
        core::mem::swap(&mut now, &mut next);
        here = Here {
            position: here.position + 1,
            before: here.after,
            after: chars.next(),
            is_end: here.position + 1 == found.q1,
        };
    }
}

/// Runs the threads of one position; returns the slots of the first that matched at the end.
fn run(
    program: &Program,
    (now, next): (&mut List, &mut List),
    seen: &mut [u64],
    here: Here,
) -> Option<Slots> {
    let step = now.step;
    let mut index = 0;
    while index < now.threads.len() {
        let Thread { mut at, mut slots } = now.threads[index];
        index += 1;
        loop {
            // Whoever came here first in this step has done all that can be done from here.
            if seen[at as usize] == step {
                break;
            }
            seen[at as usize] = step;
            let inst = &program.insts[at as usize];
            let goes_on = match &inst.op {
                Op::Set(class) => {
                    if !here.is_end && here.after.is_some_and(|c| class.contains(c)) {
                        next.add(inst.next, slots);
                    }
                    false
                }
                Op::LineStart => here.before.is_none_or(|c| c == '\n'),
                Op::LineEnd => here.after == Some('\n'),
                Op::Split(later) => {
                    now.add(*later, slots);
                    true
                }
                Op::Save(slot) => {
                    slots[*slot] = here.position;
                    true
                }
                Op::Nop => true,
                Op::Match if here.is_end => return Some(slots),
                Op::Match => false,
            };
            if !goes_on {
                break;
            }
            at = inst.next;
        }
    }
    None
}

fn named(slots: &Slots) -> Submatches {
    let mut found = Submatches::default();
    for (index, group) in found.iter_mut().enumerate() {
        let (q0, q1) = (slots[2 * index], slots[2 * index + 1]);
        if q0 != UNSET && q1 != UNSET && q0 <= q1 {
            *group = Some(Span::new(q0, q1));
        }
    }
    found
}
