//! Encodings that go elsewhere than into one piece of memory: into a hash, or a piece at a time.

use alloc::vec::Vec;

use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize};

use crate::entry::APPLY_VERSION;

/// Bytes gathered before the hash function sees them.
const GATHERED_LEN: usize = 16 << 10;

/// Feeds an encoding to blake3 instead of to memory.
struct HashFlavor {
    hasher: blake3::Hasher,
    gathered: Vec<u8>,
}

impl HashFlavor {
    fn new() -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&APPLY_VERSION.to_le_bytes());
        Self {
            hasher,
            gathered: Vec::new(),
        }
    }

    fn pass_on(&mut self) {
        self.hasher.update(&self.gathered);
        self.gathered.clear();
    }
}

impl Flavor for HashFlavor {
    type Output = [u8; 32];

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.gathered.push(byte);
        if self.gathered.len() >= GATHERED_LEN {
            self.pass_on();
        }
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        if bytes.len() >= GATHERED_LEN {
            self.pass_on();
            self.hasher.update(bytes);
        } else {
            self.gathered.extend_from_slice(bytes);
            if self.gathered.len() >= GATHERED_LEN {
                self.pass_on();
            }
        }
        Ok(())
    }

    fn finalize(mut self) -> postcard::Result<[u8; 32]> {
        self.pass_on();
        Ok(*self.hasher.finalize().as_bytes())
    }
}

/// Returns the hash of a value's encoding, the version of `apply` mixed in.
///
/// # Panics
/// Never: what is hashed always encodes.
#[must_use]
pub fn hash_of<T: Serialize>(value: &T) -> [u8; 32] {
    postcard::serialize_with_flavor(value, HashFlavor::new()).expect("a state always encodes")
}

/// Where an encoding is written: a part of it, from a byte on and as far as there is room.
#[derive(Debug)]
pub struct Window<'a> {
    /// Bytes of the encoding that went elsewhere before.
    skip: usize,
    room: usize,
    out: &'a mut Vec<u8>,
}

impl<'a> Window<'a> {
    /// Returns a window that appends to `out` at most `room` bytes, from byte `skip` on.
    pub const fn new(skip: usize, room: usize, out: &'a mut Vec<u8>) -> Self {
        Self { skip, room, out }
    }

    /// Writes bytes as they are; `from` returns those from a byte on, in pieces. Returns whether
    /// all of them are written.
    pub fn write<'b, I>(mut self, from: impl FnOnce(usize) -> I) -> bool
    where
        I: Iterator<Item = &'b [u8]>,
    {
        let skip = core::mem::take(&mut self.skip);
        from(skip).all(|piece| self.try_extend(piece).is_ok())
    }
}

impl Flavor for Window<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        let bytes = &bytes[skipped..];
        let len = bytes.len().min(self.room);
        self.room -= len;
        self.out.extend_from_slice(&bytes[..len]);
        if len < bytes.len() {
            return Err(postcard::Error::SerializeBufferFull);
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Takes the value that bytes begin with; takes nothing when they end within it.
///
/// # Errors
/// The bytes are no such value.
pub fn take_first<'a, T: Deserialize<'a>>(bytes: &mut &'a [u8]) -> postcard::Result<Option<T>> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, rest)) => {
            *bytes = rest;
            Ok(Some(value))
        }
        Err(postcard::Error::DeserializeUnexpectedEnd) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_on_an_encoding_make_the_whole() {
        let value = (7_u8, "é and more", alloc::vec![300_u64; 5], Some(true));
        let whole = postcard::to_allocvec(&value).unwrap();
        for room in 1..=whole.len() + 1 {
            let mut out = Vec::new();
            let mut is_done = false;
            while !is_done {
                let skip = out.len();
                let window = Window::new(skip, room, &mut out);
                is_done = postcard::serialize_with_flavor(&value, window).is_ok();
                assert_eq!(is_done, out.len() == whole.len(), "room {room}");
            }
            assert_eq!(out, whole);
            let mut out = Vec::new();
            while !Window::new(out.len(), room, &mut out).write(|from| whole[from..].chunks(3)) {}
            assert_eq!(out, whole);
        }
    }

    #[test]
    fn a_value_that_is_not_all_there_is_told_from_a_wrong_one() {
        let bytes = postcard::to_allocvec(&("text", 1_u8)).unwrap();
        for len in 0..bytes.len() {
            let mut left = &bytes[..len];
            assert_eq!(take_first::<(&str, u8)>(&mut left), Ok(None));
            assert_eq!(left.len(), len);
        }
        let mut left = bytes.as_slice();
        assert_eq!(take_first(&mut left), Ok(Some(("text", 1_u8))));
        assert!(left.is_empty());
        assert!(take_first::<Option<u8>>(&mut &[9][..]).is_err());
    }
}
