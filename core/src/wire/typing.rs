//! The bytes of typing, written and read by hand.
//!
//! An entry of one short splice goes straight into the bytes that postcard would make of it, and
//! comes straight out of them; any other entry is left to postcard. Tests hold the two equal.

use crate::bytes::Bytes;
use crate::edit::Splice;
use crate::entry::{BufferOp, Dot, Entry, Op};
use crate::ids::{AttachmentId, ColumnId, Epoch, GroupId, Seq, ViewId, WindowId};
use crate::text::Span;

/// Room for an entry of typing; a power of two, so that an index is kept inside by a mask.
const SHORT_LEN: usize = 128;
/// No origin; the operation is of a buffer; it is an edit; it has one splice.
const SHORT_KIND: [u8; 4] = [0, 2, 2, 1];
/// Bytes that a number of less than 57 bits takes at most, and that are written for each.
const NUMBER_LEN: usize = 8;
/// Longest text that an entry of typing brings. Nine numbers of at most ten bytes and eight single
/// bytes stand beside it.
const SHORT_TEXT_MAX: usize = 24;

/// Returns the bytes of an entry of typing; none for any other.
#[inline]
pub(super) fn encode(entry: &Entry) -> Option<Bytes> {
    let mut short = Short::new();
    short.entry(entry).then(|| short.finish())
}

/// Returns the entry of typing that these bytes hold; none when they hold any other, or none.
pub(super) fn decode(bytes: &[u8]) -> Option<Entry> {
    ShortReader { bytes }.entry()
}

/// What postcard makes of an entry of typing, written in one pass.
///
/// Postcard itself hands over each number through a buffer of its own, which took a sixth of an
/// edit. A test holds the two equal.
struct Short {
    bytes: [u8; SHORT_LEN + NUMBER_LEN],
    len: usize,
}

impl Short {
    const fn new() -> Self {
        Self {
            bytes: [0; SHORT_LEN + NUMBER_LEN],
            len: 0,
        }
    }

    /// Writes an entry of one splice with a short text; nothing of any other, and says so.
    #[inline]
    fn entry(&mut self, entry: &Entry) -> bool {
        let Op::Buffer(BufferOp::Edit {
            splices,
            group,
            dot,
        }) = &entry.op
        else {
            return false;
        };
        let [splice] = splices.as_slice() else {
            return false;
        };
        if splice.text.len() > SHORT_TEXT_MAX || entry.origin.is_some() {
            return false;
        }
        self.number(entry.seq.raw());
        self.number(entry.attachment.raw());
        self.number(entry.epoch.raw());
        SHORT_KIND.into_iter().for_each(|byte| self.byte(byte));
        self.span(splice.at);
        self.number(splice.text.len() as u64);
        splice.text.bytes().for_each(|byte| self.byte(byte));
        self.byte(u8::from(group.is_some()));
        if let Some(group) = group {
            self.number(group.raw());
        }
        self.byte(u8::from(dot.is_some()));
        if let Some(dot) = dot {
            self.view(dot.view);
            self.span(dot.at);
        }
        true
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.len % SHORT_LEN] = byte;
        self.len += 1;
    }

    /// Writes seven bits a byte, the lowest first; the highest bit says that more follow.
    #[inline]
    fn number(&mut self, mut number: u64) {
        if number < 0x80 {
            return self.byte(number.to_le_bytes()[0]);
        }
        if number >> 21 == 0 {
            // Two bytes or three: a position of most texts.
            let is_long = u64::from(number >= 0x4000);
            let low = number & 0x7F | (number & 0x3F80) << 1 | (number & 0x1F_C000) << 2;
            let [one, two, three, ..] = (low | 0x80 | is_long << 15).to_le_bytes();
            let at = self.len % SHORT_LEN;
            self.bytes[at..at + 3].copy_from_slice(&[one, two, three]);
            self.len += if is_long == 1 { 3 } else { 2 };
            return;
        }
        if number >> 56 == 0 {
            // All bytes at once, and zeros behind them: a loop takes a wrong turn at its end.
            let len = (u64::BITS - number.leading_zeros()).div_ceil(7);
            let marks = 0x8080_8080_8080_8080 >> (u64::BITS + 8 - 8 * len);
            let at = self.len % SHORT_LEN;
            let bytes = (spread(number) | marks).to_le_bytes();
            self.bytes[at..at + NUMBER_LEN].copy_from_slice(&bytes);
            self.len += len as usize;
            return;
        }
        while number >= 0x80 {
            self.byte(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.byte(number.to_le_bytes()[0]);
    }

    #[inline]
    fn span(&mut self, span: Span) {
        self.number(span.q0);
        self.number(span.q1);
    }

    fn view(&mut self, view: ViewId) {
        let (kind, id) = match view {
            ViewId::Tag(window) => (0, window.raw()),
            ViewId::Body(window) => (1, window.raw()),
            ViewId::Column(column) => (2, column.raw()),
            ViewId::Top => return self.byte(3),
        };
        self.byte(kind);
        self.number(id);
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the bytes, which lie in the value where there is room.
    #[inline]
    fn finish(&self) -> Bytes {
        self.bytes
            .first_chunk()
            .and_then(|start| Bytes::inline(self.len, start))
            .unwrap_or_else(|| Bytes::from(self.as_bytes()))
    }
}

/// Reads what [`Short`] writes, and nothing else: what is left over, postcard reads or refuses.
struct ShortReader<'a> {
    bytes: &'a [u8],
}

impl<'a> ShortReader<'a> {
    /// Returns the entry of typing that the bytes hold; none when they hold any other, or none.
    fn entry(mut self) -> Option<Entry> {
        let (seq, attachment, epoch) = (self.number()?, self.number()?, self.number()?);
        if self.take(4)? != SHORT_KIND {
            return None;
        }
        let at = self.span()?;
        let len = usize::try_from(self.number()?).ok()?;
        let text = core::str::from_utf8(self.take(len)?).ok()?;
        let splices = Splice::new(at, text).into();
        let group = if self.flag()? {
            Some(GroupId::new(self.number()?))
        } else {
            None
        };
        let dot = if self.flag()? {
            let (view, at) = (self.view()?, self.span()?);
            Some(Dot { view, at })
        } else {
            None
        };
        self.bytes.is_empty().then_some(Entry {
            seq: Seq::new(seq),
            attachment: AttachmentId::new(attachment),
            epoch: Epoch::new(epoch),
            origin: None,
            op: Op::Buffer(BufferOp::Edit {
                splices,
                group,
                dot,
            }),
        })
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Returns a number of at most eight bytes; longer ones are for postcard.
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..8 {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << (7 * place);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn span(&mut self) -> Option<Span> {
        let (q0, q1) = (self.number()?, self.number()?);
        Some(Span::new(q0, q1))
    }

    fn view(&mut self) -> Option<ViewId> {
        match self.byte()? {
            0 => Some(ViewId::Tag(WindowId::new(self.number()?))),
            1 => Some(ViewId::Body(WindowId::new(self.number()?))),
            2 => Some(ViewId::Column(ColumnId::new(self.number()?))),
            3 => Some(ViewId::Top),
            _ => None,
        }
    }
}

/// Puts each seven bits of a number of less than 57 bits into a byte, the lowest first.
const fn spread(number: u64) -> u64 {
    let number = number & 0x0FFF_FFFF | (number & 0x00FF_FFFF_F000_0000) << 4;
    let number = number & 0x0000_3FFF_0000_3FFF | (number & 0x0FFF_C000_0FFF_C000) << 2;
    number & 0x007F_007F_007F_007F | (number & 0x3F80_3F80_3F80_3F80) << 1
}

#[cfg(test)]
mod tests {
    use super::super::{decode, decode_entry, encode_entry};
    use super::*;
    use crate::entry::Origin;
    use crate::ids::ProposalId;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn damaged_entries_of_typing_are_read_as_postcard_reads_them() {
        let window = WindowId::new(1 << 40 | 2);
        let views = [ViewId::Body(window), ViewId::Tag(window), ViewId::Top];
        let (at, group) = (Span::new(300, 301), Some(GroupId::new(1 << 40 | 9)));
        for view in views.map(Some).into_iter().chain([None]) {
            let entry = Entry {
                seq: Seq::new(1000),
                attachment: AttachmentId::new(1),
                epoch: Epoch::new(1),
                origin: None,
                op: Op::Buffer(BufferOp::Edit {
                    splices: Splice::new(at, "é漢").into(),
                    group,
                    dot: view.map(|view| Dot { view, at }),
                }),
            };
            let mut bytes = encode_entry(&entry).to_vec();
            bytes.push(0);
            for len in 0..=bytes.len() {
                assert_eq!(decode_entry(&bytes[..len]), decode(&bytes[..len]), "{len}");
            }
            bytes.pop();
            for index in 0..bytes.len() {
                for byte in 0..=u8::MAX {
                    let mut bytes = bytes.clone();
                    bytes[index] = byte;
                    assert_eq!(decode_entry(&bytes), decode(&bytes), "{index} {byte}");
                }
            }
        }
    }

    #[test]
    fn entries_of_typing_are_written_as_postcard_writes_them() {
        let steps = (1..10).map(|bytes| 1_u64 << (7 * bytes));
        let around = steps.flat_map(|step| [step - 8, step - 1, step]);
        let numbers = around.chain([0, 1, 1 << 40, u64::MAX]);
        let views = |number: u64| {
            let id = number.wrapping_add(8);
            let window = WindowId::new(id);
            [
                ViewId::Tag(window),
                ViewId::Body(window),
                ViewId::Column(ColumnId::new(id)),
                ViewId::Top,
            ]
        };
        let author = AttachmentId::new(3);
        let proposal = Origin {
            author,
            id: ProposalId::new(4),
        };
        let mut entries = Vec::new();
        for number in numbers {
            for text in ["", "x", "\n", "é漢", &"y".repeat(24), &"z".repeat(25)] {
                for dot in views(number).map(Some).into_iter().chain([None]) {
                    // No two fields hold the same number, so that none can stand for another.
                    let other = |k| number.wrapping_add(k);
                    let at = Span::new(other(3), other(4));
                    let splice = Splice::new(at, text);
                    let group = (number != 1).then_some(GroupId::new(other(5)));
                    let at = Span::new(other(6), other(7));
                    let dot = dot.map(|view| Dot { view, at });
                    for splices in [vec![], vec![splice.clone()], vec![splice.clone(); 2]] {
                        entries.push((
                            BufferOp::Edit {
                                splices: splices.into(),
                                group,
                                dot,
                            },
                            number,
                        ));
                    }
                }
            }
        }
        entries.push((BufferOp::Load { text: "x".into() }, 7));
        for (op, number) in entries {
            for origin in [None, Some(proposal)] {
                let op = Op::Buffer(op.clone());
                let entry = Entry {
                    seq: Seq::new(number),
                    attachment: AttachmentId::new(number.wrapping_add(1)),
                    epoch: Epoch::new(number.wrapping_add(2)),
                    origin,
                    op,
                };
                assert_eq!(
                    *encode_entry(&entry),
                    *postcard::to_allocvec(&entry).unwrap()
                );
                assert_eq!(decode_entry(&encode_entry(&entry)), Ok(entry));
            }
        }
    }
}
