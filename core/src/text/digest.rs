//! A digest of a text that is put together from digests of its pieces.
//!
//! 1. Replicas hold one text in ropes of different chunks, so the digest must not depend on where a
//!    text is cut: it is the value of the polynomial that has the bytes as coefficients, modulo the
//!    prime 2^61 - 1. That of two texts in a row follows from theirs.
//! 2. [`Pieces`] keeps digests of short pieces. Edits mark pieces as stale, and only stale ones are
//!    read again: a digest costs what changed since the last one, not the text.
//! 3. It finds replicas that differ by accident, one in 2^61 of them not. Whoever wants two texts
//!    of one digest can make them; it would gain them nothing.

use alloc::vec::Vec;

use super::{Span, Text, count};

/// The modulus: a prime, by which dividing is adding.
const PRIME: u64 = (1 << 61) - 1;
/// Where the polynomial is taken; any large number does.
const BASE: u64 = 1_478_312_907_641_225_301;
/// Bytes that are added up before the sum is brought below the modulus.
const STRIDE: usize = 32;
/// The powers of the base up to [`STRIDE`].
const POWERS: [u64; STRIDE + 1] = powers();

/// Bytes from which a piece is long enough: reading one again costs as much as finding it.
const PIECE_LEN: usize = 768;
/// Pieces of one block, and the most it may have before it is cut.
const BLOCK_COUNT: usize = 128;

/// What stands for a text, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    value: u64,
    /// The base to the power of the length.
    power: u64,
}

/// Brings a product below the modulus.
#[expect(
    clippy::cast_possible_truncation,
    reason = "both parts are masked or below 2^61"
)]
const fn reduce(value: u128) -> u64 {
    // 2^61 is 1 modulo the prime, so the bits from 61 on are added to those below.
    let folded = (value & PRIME as u128) + (value >> 61);
    let folded = (folded & PRIME as u128) as u64 + (folded >> 61) as u64;
    if folded >= PRIME {
        folded - PRIME
    } else {
        folded
    }
}

const fn times(one: u64, other: u64) -> u64 {
    reduce(one as u128 * other as u128)
}

const fn powers() -> [u64; STRIDE + 1] {
    let mut powers = [1; STRIDE + 1];
    let mut i = 1;
    while i <= STRIDE {
        powers[i] = times(powers[i - 1], BASE);
        i += 1;
    }
    powers
}

impl Digest {
    /// The digest of nothing.
    pub const EMPTY: Self = Self { value: 0, power: 1 };

    /// Returns the digest of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let strides = text.as_bytes().chunks_exact(STRIDE);
        let rest = strides.remainder();
        let (mut value, mut power) = (0, 1);
        for stride in strides {
            value = reduce(u128::from(value) * u128::from(POWERS[STRIDE]) + sum(stride));
            power = times(power, POWERS[STRIDE]);
        }
        let shift = u128::from(POWERS[rest.len()]);
        Self {
            value: reduce(u128::from(value) * shift + sum(rest)),
            power: times(power, POWERS[rest.len()]),
        }
    }

    /// Returns the digest of this text with another one behind it.
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        let shifted = self.value as u128 * next.power as u128;
        Self {
            value: reduce(shifted + next.value as u128),
            power: times(self.power, next.power),
        }
    }

    /// Returns the number that stands for the text, beside its length.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.value
    }
}

/// Returns the polynomial of at most [`STRIDE`] bytes, not yet reduced: below 2^74.
fn sum(bytes: &[u8]) -> u128 {
    let powers = POWERS[..bytes.len()].iter().rev();
    let terms = bytes.iter().zip(powers);
    terms
        .map(|(byte, power)| u128::from(*byte) * u128::from(*power))
        .sum()
}

/// A text in pieces, each with its digest, kept in step with edits.
#[derive(Clone, Debug)]
pub struct Pieces {
    blocks: Vec<Block>,
    /// Where the last edit was: typing goes on there.
    last: Place,
}

/// A run of pieces, so that one is found without walking all of them.
#[derive(Clone, Debug)]
struct Block {
    /// Code points.
    len: u64,
    digest: Digest,
    is_stale: bool,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Code points.
    len: u64,
    digest: Digest,
    is_stale: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    block: usize,
    piece: usize,
    /// Where the piece begins.
    start: u64,
}

impl Piece {
    const fn stale(len: u64) -> Self {
        Self {
            len,
            digest: Digest::EMPTY,
            is_stale: true,
        }
    }
}

impl Block {
    fn stale(pieces: Vec<Piece>) -> Self {
        Self {
            len: pieces.iter().map(|piece| piece.len).sum(),
            digest: Digest::EMPTY,
            is_stale: true,
            pieces,
        }
    }

    /// Changes the length of a piece, which is stale then.
    fn resize(&mut self, piece: usize, removed: u64, added: u64) {
        self.is_stale = true;
        self.len = self.len - removed + added;
        let piece = &mut self.pieces[piece];
        piece.is_stale = true;
        piece.len = piece.len - removed + added;
    }
}

impl Pieces {
    /// Returns the pieces of a text of `len` code points, none of it read yet.
    #[must_use]
    pub fn new(len: u64) -> Self {
        let all = Vec::from([Piece::stale(len)]);
        Self {
            blocks: Vec::from([Block::stale(all)]),
            last: Place::default(),
        }
    }

    /// Notes that `removed` code points at `q` gave way to `added` others.
    pub fn splice(&mut self, q: u64, removed: u64, added: u64) {
        let last = self.last;
        let end = last.start + self.blocks[last.block].pieces[last.piece].len;
        if last.start <= q && q + removed <= end {
            return self.blocks[last.block].resize(last.piece, removed, added);
        }
        let mut place = self.find(q);
        self.last = place;
        let (mut left, mut at) = (removed, q - place.start);
        self.blocks[place.block].resize(place.piece, 0, added);
        at += added;
        loop {
            let block = &mut self.blocks[place.block];
            let taken = left.min(block.pieces[place.piece].len - at);
            if taken > 0 {
                block.resize(place.piece, taken, 0);
            }
            left -= taken;
            if left == 0 {
                return;
            }
            at = 0;
            place.piece += 1;
            if place.piece == block.pieces.len() {
                (place.block, place.piece) = (place.block + 1, 0);
            }
        }
    }

    /// Returns the first piece that ends at or behind `q`, which lies in the text.
    fn find(&self, q: u64) -> Place {
        let (mut start, mut block) = (0, 0);
        while start + self.blocks[block].len < q {
            start += self.blocks[block].len;
            block += 1;
        }
        let (pieces, mut piece) = (&self.blocks[block].pieces, 0);
        while start + pieces[piece].len < q {
            start += pieces[piece].len;
            piece += 1;
        }
        Place {
            block,
            piece,
            start,
        }
    }

    /// Reads stale pieces again, about `len` bytes of them at most; returns whether none is left.
    /// `text` is the text after the edits that were noted.
    pub fn read(&mut self, text: &Text, len: u64) -> bool {
        let mut left = usize::try_from(len).unwrap_or(usize::MAX);
        let (mut start, mut index) = (0, 0);
        while index < self.blocks.len() {
            let block_len = self.blocks[index].len;
            if self.blocks[index].is_stale {
                if left == 0 {
                    return false;
                }
                self.last = Place::default();
                let pieces = fresh(&self.blocks[index].pieces, start, text, &mut left);
                index += self.put(index, &pieces);
            } else {
                index += 1;
            }
            start += block_len;
        }
        self.blocks.iter().all(|block| !block.is_stale)
    }

    /// Returns how many code points are left to read.
    #[must_use]
    pub fn unread_len(&self) -> u64 {
        let stale = self.blocks.iter().filter(|block| block.is_stale);
        let pieces = stale.flat_map(|block| &block.pieces);
        pieces
            .filter(|piece| piece.is_stale)
            .map(|piece| piece.len)
            .sum()
    }

    /// Puts pieces in the place of a block; returns how many blocks they make.
    fn put(&mut self, index: usize, pieces: &[Piece]) -> usize {
        if pieces.is_empty() && self.blocks.len() > 1 {
            self.blocks.remove(index);
            return 0;
        }
        let size = if pieces.len() > 2 * BLOCK_COUNT {
            BLOCK_COUNT
        } else {
            pieces.len().max(1)
        };
        let mut blocks: Vec<Block> = pieces
            .chunks(size)
            .map(|part| Block::stale(part.to_vec()))
            .collect();
        if blocks.is_empty() {
            blocks.push(Block::stale(Vec::from([Piece::stale(0)])));
        }
        for block in &mut blocks {
            block.is_stale = block
                .pieces
                .iter()
                .any(|piece| piece.is_stale && piece.len > 0);
            let digests = block.pieces.iter().map(|piece| piece.digest);
            block.digest = digests.fold(Digest::EMPTY, Digest::then);
        }
        let count = blocks.len();
        self.blocks.splice(index..=index, blocks);
        count
    }

    /// Returns the digest of the text, once none of it is left to read.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        let is_read = self.blocks.iter().all(|block| !block.is_stale);
        let digests = self.blocks.iter().map(|block| block.digest);
        is_read.then(|| digests.fold(Digest::EMPTY, Digest::then))
    }
}

/// Returns pieces with the stale ones read again, as far as `left` bytes go.
fn fresh(pieces: &[Piece], start: u64, text: &Text, left: &mut usize) -> Vec<Piece> {
    let mut out = Vec::with_capacity(pieces.len() + 2);
    let mut q = start;
    for piece in pieces {
        let span = Span::new(q, q + piece.len);
        q = span.q1;
        if !piece.is_stale {
            out.push(*piece);
        } else if *left == 0 {
            out.push(Piece::stale(piece.len));
        } else if !span.is_empty() {
            read_span(span, text, left, &mut out);
        }
    }
    out
}

/// Reads a span and appends its pieces; what `left` does not reach is a stale one.
fn read_span(span: Span, text: &Text, left: &mut usize, out: &mut Vec<Piece>) {
    let mut piece = Piece {
        len: 0,
        digest: Digest::EMPTY,
        is_stale: false,
    };
    let (mut unread, mut piece_len) = (span.len(), 0);
    for chunk in text.chunks_of(span) {
        if *left == 0 {
            break;
        }
        *left = left.saturating_sub(chunk.len());
        let chars = count(chunk);
        unread -= chars;
        piece.len += chars;
        piece.digest = piece.digest.then(Digest::of(chunk));
        piece_len += chunk.len();
        if piece_len >= PIECE_LEN {
            out.push(piece);
            (piece.len, piece.digest, piece_len) = (0, Digest::EMPTY, 0);
        }
    }
    if piece.len > 0 {
        out.push(piece);
    }
    if unread > 0 {
        out.push(Piece::stale(unread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;
    use alloc::string::{String, ToString};

    /// The polynomial, as its definition says.
    fn slow(text: &str) -> u64 {
        text.bytes().fold(0, |value, byte| {
            reduce(u128::from(value) * u128::from(BASE) + u128::from(byte))
        })
    }

    #[test]
    fn a_digest_is_the_polynomial_wherever_the_text_is_cut() {
        let text = "a text of é漢🙂 and \0 bytes, long enough for some strides ".repeat(3);
        for (cut, _) in text.char_indices() {
            let (head, tail) = text.split_at(cut);
            assert_eq!(Digest::of(head).value(), slow(head));
            assert_eq!(Digest::of(head).then(Digest::of(tail)), Digest::of(&text));
        }
        assert_eq!(Digest::of(""), Digest::EMPTY);
        let seen: Vec<Digest> = ["ab", "ba", "a", "\0a", "a\0"].map(Digest::of).into();
        for (i, digest) in seen.iter().enumerate() {
            assert!(!seen[..i].contains(digest), "{i}");
        }
    }

    #[test]
    fn numbers_at_the_modulus_are_brought_below_it() {
        for (value, expected) in [
            (u128::from(PRIME), 0),
            (u128::from(PRIME) + 1, 1),
            (u128::from(PRIME) * u128::from(PRIME), 0),
            ((1 << 122) - 1, 0),
            (u128::from(u64::MAX), 7),
        ] {
            assert_eq!(reduce(value), expected, "{value}");
        }
    }

    #[test]
    fn pieces_that_edits_went_through_digest_as_the_whole_text() {
        let mut dice = Dice(5);
        let mut below = |end: u64| dice.below(end);
        let texts = ["", "x", "é漢 ", &"a longer one\n".repeat(300)];
        let mut text = Text::from("first\n".repeat(9000).as_str());
        let mut pieces = Pieces::new(text.len());
        for round in 0..400 {
            for _ in 0..below(9) {
                let q0 = below(text.len() + 1);
                let reach = if below(8) == 0 { 30_000 } else { 9 };
                let at = Span::new(q0, (q0 + below(reach)).min(text.len()));
                let new = texts[usize::try_from(below(4)).unwrap()];
                pieces.splice(q0, at.len(), text.replace(at, new));
            }
            if round % 7 == 0 {
                pieces.read(&text, 1000);
            } else {
                assert!(pieces.read(&text, u64::MAX));
                let whole: String = text.to_string();
                assert_eq!(pieces.digest(), Some(Digest::of(&whole)), "round {round}");
            }
        }
    }

    #[test]
    fn a_long_text_is_read_a_little_at_a_time() {
        let text = Text::from("0123456789".repeat(100_000).as_str());
        let mut pieces = Pieces::new(text.len());
        let mut turns = 1;
        assert_eq!(pieces.digest(), None);
        while !pieces.read(&text, 10_000) {
            turns += 1;
        }
        assert!((90..=100).contains(&turns), "{turns}");
        assert_eq!(pieces.digest(), Some(Digest::of(&text.to_string())));
        pieces.splice(500_000, 1, 1);
        assert_eq!(pieces.digest(), None);
        assert!(pieces.read(&text, 1), "one short piece is stale");
        assert_eq!(pieces.digest(), Some(Digest::of(&text.to_string())));
    }

    #[test]
    fn an_empty_text_has_the_digest_of_nothing_and_grows_from_it() {
        let mut text = Text::new();
        let mut pieces = Pieces::new(0);
        for (at, new) in [
            (Span::at(0), ""),
            (Span::at(0), "ab"),
            (Span::new(0, 2), ""),
        ] {
            pieces.splice(at.q0, at.len(), text.replace(at, new));
            assert!(pieces.read(&text, u64::MAX));
            assert_eq!(pieces.digest(), Some(Digest::of(&text.to_string())));
        }
    }
}
