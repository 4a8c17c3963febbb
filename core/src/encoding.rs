//! Encodings that go elsewhere than into one piece of memory: into a hash.

use alloc::vec::Vec;

use postcard::ser_flavors::Flavor;
use serde::Serialize;

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
