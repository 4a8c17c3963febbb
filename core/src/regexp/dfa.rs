//! The automaton that reads each code point once; its states are built when they are first needed.
//!
//! A state stands between two code points. Whether a `^` or a `$` holds there depends on both, so
//! what the state holds has gone as far as the code point before; the step over the next one first
//! goes through the anchors, then notes whether the pattern matched here, then reads.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use memchr::memmem::Finder;

use super::program::{At, Direction, Op, Program};
use crate::text::Text;

/// How an automaton reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    pub(super) direction: Direction,
    /// Whether a match begins where the reading begins.
    pub(super) is_anchored: bool,
    /// Whether `$` also matches at the end of the text.
    pub(super) is_end_a_line_end: bool,
}

/// Stands between the sets of a state, one set for each place where a match may have begun.
const NEXT_START: At = At::MAX;
/// Most bytes of states before the automaton begins anew.
const CACHE_LEN_MAX: usize = 4 << 20;
/// States that are kept whatever they cost, so that there is room to go on.
const STATE_COUNT_MIN: usize = 8;

/// What is special about a step, in its highest bits; the others say where the row of the next
/// state begins. Most steps have none of these, and the loop that reads looks at nothing else.
const FLAGS: u32 = MATCH | DEAD | IDLE;
/// The pattern matched before the code point.
const MATCH: u32 = 1 << 31;
/// In the next state nothing can match any more.
const DEAD: u32 = 1 << 30;
/// In the next state nothing has begun.
const IDLE: u32 = 1 << 29;
/// A step that has not been computed.
const UNKNOWN: u32 = u32::MAX;

/// What a state holds; equal keys are one state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Whether the anchor that looks back holds here.
    is_behind: bool,
    /// Whether matches may still begin.
    is_searching: bool,
    /// Instructions, the earliest start first, sets parted by [`NEXT_START`].
    threads: Vec<At>,
}

impl Key {
    /// Whether nothing can match any more.
    fn is_dead(&self) -> bool {
        self.threads.is_empty() && !self.is_searching
    }

    /// Whether nothing has begun.
    fn is_idle(&self) -> bool {
        self.threads.is_empty() && self.is_searching
    }
}

pub(super) struct Dfa {
    mode: Mode,
    keys: Vec<Key>,
    ids: BTreeMap<Key, u32>,
    /// Where searches begin, without and with the anchor that looks back.
    starts: [u32; 2],
    /// For each state a row: for each class of code points, and for the end, the step.
    steps: Vec<u32>,
    stride: usize,
    len: usize,
    /// Scratch: in which step an instruction was last seen, and entered for the next state.
    seen: Vec<u64>,
    entered: Vec<u64>,
    step: u64,
}

/// Where the reading stands.
struct Reading {
    /// The row of the state, and whether that is dead or idle.
    state: u32,
    matched: Option<usize>,
}

impl Dfa {
    pub(super) fn new(mode: Mode, program: &Program) -> Self {
        Self {
            mode,
            keys: Vec::new(),
            ids: BTreeMap::new(),
            starts: [UNKNOWN; 2],
            steps: Vec::new(),
            stride: program.class_count() + 1,
            len: 0,
            seen: alloc::vec![0; program.insts.len()],
            entered: alloc::vec![0; program.insts.len()],
            step: 0,
        }
    }

    /// Reads the bytes of a range, in its direction, and returns where the leftmost-longest match
    /// ends. A prefix is a text with which each match begins.
    pub(super) fn run(
        &mut self,
        program: &Program,
        text: &Text,
        (from, to): (usize, usize),
        prefix: Option<&Finder<'_>>,
    ) -> Option<usize> {
        let end = text.len_in_bytes();
        let is_behind = program.has_anchors
            && match self.mode.direction {
                Direction::Forward => from == 0 || text.byte_at(from - 1) == b'\n',
                Direction::Backward if to == end => self.mode.is_end_a_line_end,
                Direction::Backward => text.byte_at(to) == b'\n',
            };
        let mut reading = Reading {
            state: self.start(program, is_behind),
            matched: None,
        };
        match self.mode.direction {
            Direction::Forward => {
                let mut at = from;
                for chunk in text.byte_chunks(from, to) {
                    if !self.read_chunk(program, &mut reading, (chunk, at), prefix) {
                        return reading.matched;
                    }
                    at += chunk.len();
                }
                let class = (to < end).then(|| class_at(program, text, to));
                // A match begins at the end of the range only if the search does.
                if from < to && !self.mode.is_anchored {
                    let mut key = self.keys[self.index_of(reading.state)].clone();
                    key.is_searching = false;
                    reading.state = self.intern(key);
                }
                self.read_end(program, &reading, class, to)
            }
            Direction::Backward => {
                let mut at = to;
                for chunk in text.byte_chunks_back(from, to) {
                    if !self.read_chunk_back(program, &mut reading, chunk, at) {
                        return reading.matched;
                    }
                    at -= chunk.len();
                }
                let class = (from > 0).then(|| class_before(program, text, from));
                self.read_end(program, &reading, class, from)
            }
        }
    }

    /// Returns the state in which a search begins.
    fn start(&mut self, program: &Program, is_behind: bool) -> u32 {
        let known = self.starts[usize::from(is_behind)];
        if known != UNKNOWN {
            return known;
        }
        let threads = if self.mode.is_anchored {
            alloc::vec![program.start]
        } else {
            Vec::new()
        };
        let state = self.intern(Key {
            is_behind,
            is_searching: !self.mode.is_anchored,
            threads,
        });
        self.starts[usize::from(is_behind)] = state;
        state
    }

    /// Reads a chunk that begins at byte `at`; returns whether something may still match.
    fn read_chunk(
        &mut self,
        program: &Program,
        reading: &mut Reading,
        (chunk, at): (&str, usize),
        mut prefix: Option<&Finder<'_>>,
    ) -> bool {
        let bytes = chunk.as_bytes();
        let mut index = 0;
        while index < bytes.len() {
            if reading.state & IDLE != 0 {
                index = self.skip(program, reading.state, (chunk, index), &mut prefix);
            }
            let mut row = reading.state & !FLAGS;
            while let Some(byte) = bytes.get(index).filter(|byte| **byte < 0x80) {
                let step = self.steps[row as usize + program.class_of_byte(*byte)];
                if step & FLAGS != 0 {
                    break;
                }
                row = step;
                index += 1;
            }
            if index == bytes.len() {
                // An idle state that was not left keeps its flag.
                if row != reading.state & !FLAGS {
                    reading.state = row;
                }
                return true;
            }
            let (class, len) = if bytes[index] < 0x80 {
                (program.class_of_byte(bytes[index]), 1)
            } else {
                let c = first_char(&chunk[index..]);
                (program.class_of(c), c.len_utf8())
            };
            let step = self.step_to(program, row, class);
            if step & MATCH != 0 {
                reading.matched = Some(at + index);
            }
            reading.state = step & !MATCH;
            if step & DEAD != 0 {
                return false;
            }
            index += len;
        }
        true
    }

    /// Returns the first byte of a chunk, from `index` on, that may lead out of an idle state. A
    /// prefix that is not in the chunk is not looked for again.
    fn skip(
        &self,
        program: &Program,
        state: u32,
        (chunk, index): (&str, usize),
        prefix: &mut Option<&Finder<'_>>,
    ) -> usize {
        let bytes = &chunk.as_bytes()[index..];
        if let Some(finder) = *prefix {
            if let Some(offset) = finder.find(bytes) {
                return index + offset;
            }
            // A match may begin here and go on in the next chunk.
            *prefix = None;
            let tail = (chunk.len() + 1).saturating_sub(finder.needle().len());
            return chunk.floor_char_boundary(tail).max(index);
        }
        let row = (state & !FLAGS) as usize;
        let row = &self.steps[row..row + self.stride];
        let stays = |byte: &u8| *byte < 0x80 && row[program.class_of_byte(*byte)] == state;
        index + bytes.iter().take_while(|byte| stays(byte)).count()
    }

    /// Reads a chunk that ends at byte `at`, backwards.
    fn read_chunk_back(
        &mut self,
        program: &Program,
        reading: &mut Reading,
        chunk: &str,
        at: usize,
    ) -> bool {
        let bytes = chunk.as_bytes();
        let start = at - bytes.len();
        let mut index = bytes.len();
        let mut row = reading.state & !FLAGS;
        while let Some(byte) = bytes[..index].last() {
            let (class, len) = if *byte < 0x80 {
                (program.class_of_byte(*byte), 1)
            } else {
                let c = chunk[..index].chars().next_back().unwrap_or_default();
                (program.class_of(c), c.len_utf8())
            };
            let mut step = self.steps[row as usize + class];
            if step & FLAGS != 0 {
                step = self.step_to(program, row, class);
                if step & MATCH != 0 {
                    reading.matched = Some(start + index);
                }
                if step & DEAD != 0 {
                    return false;
                }
            }
            row = step & !FLAGS;
            index -= len;
        }
        reading.state = row;
        true
    }

    /// Looks at the code point behind the range, or at the end of the text, without reading on.
    fn read_end(
        &mut self,
        program: &Program,
        reading: &Reading,
        class: Option<usize>,
        at: usize,
    ) -> Option<usize> {
        let class = class.unwrap_or(self.stride - 1);
        let step = self.step_to(program, reading.state & !FLAGS, class);
        if step & MATCH != 0 {
            Some(at)
        } else {
            reading.matched
        }
    }

    fn index_of(&self, state: u32) -> usize {
        (state & !FLAGS) as usize / self.stride
    }

    #[inline]
    fn step_to(&mut self, program: &Program, row: u32, class: usize) -> u32 {
        let step = self.steps[row as usize + class];
        if step == UNKNOWN {
            self.compute(program, row, class)
        } else {
            step
        }
    }

    #[cold]
    fn compute(&mut self, program: &Program, row: u32, class: usize) -> u32 {
        let key = self.keys[self.index_of(row)].clone();
        let c = (class + 1 < self.stride)
            .then(|| program.example(class))
            .flatten();
        let (next, is_match) = self.advance(program, &key, c);
        let is_full = self.len > CACHE_LEN_MAX && self.keys.len() > STATE_COUNT_MIN;
        if is_full {
            self.forget();
        }
        let step = self.intern(next) | if is_match { MATCH } else { 0 };
        if !is_full {
            self.steps[row as usize + class] = step;
        }
        step
    }

    fn forget(&mut self) {
        self.keys.clear();
        self.ids.clear();
        self.starts = [UNKNOWN; 2];
        self.steps.clear();
        self.len = 0;
    }

    /// Returns the row of a state, and whether it is dead or idle.
    fn intern(&mut self, key: Key) -> u32 {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let row = u32::try_from(self.steps.len()).expect("the cache holds fewer states");
        assert!(row & FLAGS == 0, "the cache holds fewer states");
        let kind = if key.is_dead() {
            DEAD
        } else if key.is_idle() {
            IDLE
        } else {
            0
        };
        self.len += 4 * self.stride + 8 * key.threads.len() + 128;
        self.steps.resize(self.steps.len() + self.stride, UNKNOWN);
        self.keys.push(key.clone());
        self.ids.insert(key, row | kind);
        row | kind
    }

    /// Returns the state behind a code point, or behind the end, and whether the pattern matched
    /// before it.
    fn advance(&mut self, program: &Program, key: &Key, c: Option<char>) -> (Key, bool) {
        self.step += 1;
        let is_forward = self.mode.direction == Direction::Forward;
        let is_ahead = match c {
            Some(c) => c == '\n',
            None => !is_forward || self.mode.is_end_a_line_end,
        };
        let (is_line_start, is_line_end) = if is_forward {
            (key.is_behind, is_ahead)
        } else {
            (is_ahead, key.is_behind)
        };
        let here = Here {
            c,
            is_line_start,
            is_line_end,
        };
        let mut threads = Vec::new();
        let mut is_match = false;
        let starts = key.threads.split(|at| *at == NEXT_START);
        let fresh = [program.start];
        let fresh = key.is_searching.then_some(&fresh[..]);
        for set in starts.filter(|set| !set.is_empty()).chain(fresh) {
            let (next, matched) = self.follow(program, set, here);
            if !next.is_empty() {
                if !threads.is_empty() {
                    threads.push(NEXT_START);
                }
                threads.extend(next);
            }
            if matched {
                // What begins later cannot win any more.
                is_match = true;
                break;
            }
        }
        let next = Key {
            is_behind: program.has_anchors && c == Some('\n'),
            is_searching: key.is_searching && !is_match,
            threads,
        };
        (next, is_match)
    }

    /// Returns the instructions behind a code point of the threads of one start, in order of
    /// number, and whether one of the threads matched before it.
    fn follow(&mut self, program: &Program, set: &[At], here: Here) -> (Vec<At>, bool) {
        let mut waiting = set.to_vec();
        let mut next = Vec::new();
        let mut is_match = false;
        while let Some(at) = waiting.pop() {
            if self.seen[at as usize] == self.step {
                continue;
            }
            self.seen[at as usize] = self.step;
            let inst = &program.insts[at as usize];
            let goes_on = match &inst.op {
                Op::Set(class) => {
                    let entered = &mut self.entered[inst.next as usize];
                    if *entered != self.step && here.c.is_some_and(|c| class.contains(c)) {
                        *entered = self.step;
                        next.push(inst.next);
                    }
                    false
                }
                Op::LineStart => here.is_line_start,
                Op::LineEnd => here.is_line_end,
                Op::Split(later) => {
                    waiting.push(*later);
                    true
                }
                Op::Save(_) | Op::Nop => true,
                Op::Match => {
                    is_match = true;
                    false
                }
            };
            if goes_on {
                waiting.push(inst.next);
            }
        }
        next.sort_unstable();
        (next, is_match)
    }
}

/// What stands round the place where the threads are.
#[derive(Clone, Copy)]
struct Here {
    c: Option<char>,
    is_line_start: bool,
    is_line_end: bool,
}

fn first_char(text: &str) -> char {
    text.chars().next().unwrap_or_default()
}

fn class_at(program: &Program, text: &Text, byte: usize) -> usize {
    let c = text.byte_chunks(byte, text.len_in_bytes()).next();
    program.class_of(first_char(c.unwrap_or_default()))
}

fn class_before(program: &Program, text: &Text, byte: usize) -> usize {
    let chunk = text.byte_chunks_back(0, byte).next().unwrap_or_default();
    program.class_of(chunk.chars().next_back().unwrap_or_default())
}
