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

/// What a state is to the loop that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dead,
    Idle,
    Busy,
}

pub(super) struct Dfa {
    mode: Mode,
    keys: Vec<Key>,
    kinds: Vec<Kind>,
    ids: BTreeMap<Key, u32>,
    /// For each state and class of code points, and for the end: the next state, times two, plus
    /// one if the pattern matched before the code point.
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
    state: u32,
    matched: Option<usize>,
}

impl Dfa {
    pub(super) fn new(mode: Mode, program: &Program) -> Self {
        Self {
            mode,
            keys: Vec::new(),
            kinds: Vec::new(),
            ids: BTreeMap::new(),
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
        let is_behind = match self.mode.direction {
            Direction::Forward => from == 0 || text.byte_at(from - 1) == b'\n',
            Direction::Backward if to == end => self.mode.is_end_a_line_end,
            Direction::Backward => text.byte_at(to) == b'\n',
        };
        let key = self.first(program, is_behind);
        let mut reading = Reading {
            state: self.intern(key),
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
                    let mut key = self.keys[reading.state as usize].clone();
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

    fn first(&self, program: &Program, is_behind: bool) -> Key {
        let threads = if self.mode.is_anchored {
            alloc::vec![program.start]
        } else {
            Vec::new()
        };
        Key {
            is_behind,
            is_searching: !self.mode.is_anchored,
            threads,
        }
    }

    /// Reads a chunk that begins at byte `at`; returns whether something may still match.
    fn read_chunk(
        &mut self,
        program: &Program,
        reading: &mut Reading,
        (chunk, at): (&str, usize),
        prefix: Option<&Finder<'_>>,
    ) -> bool {
        let bytes = chunk.as_bytes();
        let mut filter = prefix;
        let mut index = 0;
        while index < bytes.len() {
            if let Some(finder) = filter
                && self.kinds[reading.state as usize] == Kind::Idle
            {
                match finder.find(&bytes[index..]) {
                    Some(offset) => index += offset,
                    None => {
                        // A match may begin here and go on in the next chunk.
                        filter = None;
                        let tail = (bytes.len() + 1).saturating_sub(finder.needle().len());
                        index = chunk.floor_char_boundary(tail).max(index);
                        continue;
                    }
                }
            }
            let byte = bytes[index];
            let (class, len) = if byte < 0x80 {
                (program.class_of_byte(byte), 1)
            } else {
                let c = first_char(&chunk[index..]);
                (program.class_of(c), c.len_utf8())
            };
            let step = self.step_to(program, reading.state, class);
            if step & 1 == 1 {
                reading.matched = Some(at + index);
            }
            reading.state = step >> 1;
            if self.kinds[reading.state as usize] == Kind::Dead {
                return false;
            }
            index += len;
        }
        true
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
        while index > 0 {
            let byte = bytes[index - 1];
            let (class, len) = if byte < 0x80 {
                (program.class_of_byte(byte), 1)
            } else {
                let c = chunk[..index].chars().next_back().unwrap_or_default();
                (program.class_of(c), c.len_utf8())
            };
            let step = self.step_to(program, reading.state, class);
            if step & 1 == 1 {
                reading.matched = Some(start + index);
            }
            reading.state = step >> 1;
            if self.kinds[reading.state as usize] == Kind::Dead {
                return false;
            }
            index -= len;
        }
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
        let step = self.step_to(program, reading.state, class);
        if step & 1 == 1 {
            Some(at)
        } else {
            reading.matched
        }
    }

    #[inline]
    fn step_to(&mut self, program: &Program, state: u32, class: usize) -> u32 {
        let step = self.steps[state as usize * self.stride + class];
        if step == UNKNOWN {
            self.compute(program, state, class)
        } else {
            step
        }
    }

    #[cold]
    fn compute(&mut self, program: &Program, state: u32, class: usize) -> u32 {
        let key = self.keys[state as usize].clone();
        let c = (class + 1 < self.stride)
            .then(|| program.example(class))
            .flatten();
        let (next, is_match) = self.advance(program, &key, c);
        let is_full = self.len > CACHE_LEN_MAX && self.keys.len() > STATE_COUNT_MIN;
        if is_full {
            self.forget();
        }
        let step = self.intern(next) * 2 + u32::from(is_match);
        if !is_full {
            self.steps[state as usize * self.stride + class] = step;
        }
        step
    }

    fn forget(&mut self) {
        self.keys.clear();
        self.kinds.clear();
        self.ids.clear();
        self.steps.clear();
        self.len = 0;
    }

    fn intern(&mut self, key: Key) -> u32 {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let id = u32::try_from(self.keys.len()).expect("the cache holds fewer states");
        self.kinds.push(if key.is_dead() {
            Kind::Dead
        } else if key.is_idle() {
            Kind::Idle
        } else {
            Kind::Busy
        });
        self.len += 4 * self.stride + 8 * key.threads.len() + 128;
        self.steps.resize(self.steps.len() + self.stride, UNKNOWN);
        self.keys.push(key.clone());
        self.ids.insert(key, id);
        id
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
            is_behind: c == Some('\n'),
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
