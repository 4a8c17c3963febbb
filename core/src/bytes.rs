//! Encoded bytes: an entry, a piece of a snapshot or of a file; cheap to clone.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are made once and never changed. Cloning costs nanoseconds.
#[derive(Clone)]
pub struct Bytes(Repr);

#[derive(Clone)]
enum Repr {
    /// Typing makes one entry a key; a piece of the heap for each cost more than its encoding.
    Inline(u8, [u8; Bytes::INLINE_LEN_MAX]),
    Shared(Arc<[u8]>),
}

impl Bytes {
    /// Bytes up to this many lie in the value itself: an entry of typing has about 40.
    pub const INLINE_LEN_MAX: usize = 46;

    /// Returns the first `len` of these bytes; none when there are not so many.
    #[must_use]
    pub(crate) fn inline(len: usize, bytes: &[u8; Self::INLINE_LEN_MAX]) -> Option<Self> {
        let len = u8::try_from(len).ok()?;
        let fits = usize::from(len) <= bytes.len();
        fits.then_some(Self(Repr::Inline(len, *bytes)))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(len, bytes) => &bytes[..usize::from(*len)],
            Repr::Shared(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        let mut inline = [0; Self::INLINE_LEN_MAX];
        match (inline.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(room), Ok(len)) => {
                room.copy_from_slice(bytes);
                Self(Repr::Inline(len, inline))
            }
            _ => Self(Repr::Shared(bytes.into())),
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(bytes.as_slice())
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.len())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;

        impl Visitor<'_> for BytesVisitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes::from(bytes))
            }
        }

        deserializer.deserialize_bytes(BytesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_bytes_come_back() {
        for len in [
            0,
            1,
            Bytes::INLINE_LEN_MAX - 1,
            Bytes::INLINE_LEN_MAX,
            Bytes::INLINE_LEN_MAX + 1,
            9000,
        ] {
            let plain: Vec<u8> = (0..len).map(|i| i.to_le_bytes()[0]).collect();
            let bytes = Bytes::from(plain.as_slice());
            assert_eq!(*bytes, *plain);
            assert_eq!(bytes.clone(), Bytes::from(plain.clone()));
            let encoded = postcard::to_allocvec(&bytes).unwrap();
            assert_eq!(encoded, postcard::to_allocvec(&plain).unwrap());
            assert_eq!(postcard::from_bytes::<Bytes>(&encoded), Ok(bytes));
        }
    }
}
