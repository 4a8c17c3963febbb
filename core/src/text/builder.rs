//! A text made of pieces as they come, its UTF-8 checked once and its bytes copied once.

use alloc::vec::Vec;

use ropey::RopeBuilder;

use super::{Text, count};

/// Makes a text of pieces of bytes that may be cut anywhere.
#[derive(Clone, Debug, Default)]
pub struct TextBuilder {
    rope: RopeBuilder,
    /// Code points so far.
    len: u64,
    /// The start of a code point that the last piece cut in two; at most 3 bytes.
    cut: Vec<u8>,
}

/// Bytes that are no UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUtf8;

impl TextBuilder {
    /// Appends the next piece.
    ///
    /// # Errors
    /// The bytes are no UTF-8.
    pub fn push(&mut self, mut piece: &[u8]) -> Result<(), NotUtf8> {
        while !self.cut.is_empty() {
            let Some((byte, rest)) = piece.split_first() else {
                return Ok(());
            };
            self.cut.push(*byte);
            piece = rest;
            match core::str::from_utf8(&self.cut) {
                Ok(whole) => {
                    self.len += count(whole);
                    self.rope.append(whole);
                    self.cut.clear();
                }
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(NotUtf8),
            }
        }
        let (whole, cut) = piece.split_at(cut_of(piece));
        self.cut.extend_from_slice(cut);
        let valid = core::str::from_utf8(whole).map_err(|_| NotUtf8)?;
        self.len += count(valid);
        self.rope.append(valid);
        Ok(())
    }

    /// Returns the text of all pieces.
    ///
    /// # Errors
    /// The last piece ended within a code point.
    pub fn finish(self) -> Result<Text, NotUtf8> {
        if !self.cut.is_empty() {
            return Err(NotUtf8);
        }
        Ok(Text {
            rope: self.rope.finish(),
            len: self.len,
        })
    }
}

/// Returns where a code point begins that goes on behind the end; the end when there is none.
fn cut_of(piece: &[u8]) -> usize {
    let end = piece.len();
    let is_lead = |at: &usize| !(0x80..0xC0).contains(&piece[*at]);
    let Some(lead) = (end.saturating_sub(3)..end).rev().find(is_lead) else {
        return end;
    };
    let len = match piece[lead] {
        0..0xC0 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0.. => 4,
    };
    if lead + len > end { lead } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn pieces_cut_anywhere_make_the_text() {
        let source = "aé漢\u{10FEFF}\r\nb".repeat(400);
        let whole = Text::from(source.as_str());
        for size in [1, 2, 3, 5, 7, 1000, 1023, 4096, source.len()] {
            let mut builder = TextBuilder::default();
            for piece in source.as_bytes().chunks(size) {
                builder.push(piece).unwrap();
            }
            let text = builder.finish().unwrap();
            assert_eq!(text, whole, "{size}");
            assert_eq!(text.len(), source.chars().count() as u64);
            assert_eq!(text.to_string(), source);
        }
        assert_eq!(TextBuilder::default().finish(), Ok(Text::new()));
    }

    #[test]
    fn what_is_no_utf8_is_refused_wherever_it_is_cut() {
        let bad: [&[u8]; 6] = [
            b"a\xFFb",
            b"a\xC3",
            b"\xE6\xBC",
            b"\xC3(",
            b"\xF4\x90\x80\x80",
            b"\xED\xA0\x80",
        ];
        for bytes in bad {
            for size in 1..=bytes.len() {
                let mut builder = TextBuilder::default();
                let pushed = bytes.chunks(size).try_for_each(|piece| builder.push(piece));
                let built = pushed.and_then(|()| builder.finish());
                assert_eq!(built, Err(NotUtf8), "{bytes:?} by {size}");
            }
        }
    }
}
