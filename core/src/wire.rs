//! The bytes of messages: a first frame that never changes, then length-prefixed frames.
//!
//! A frame is `length: u32 LE` (of what follows), `kind: u16 LE`, and a postcard payload. A kind
//! with [`MUST_UNDERSTAND`] set is refused by who does not know it; another unknown kind is
//! skipped. Kinds are never reused; payload enums only grow at the end.

mod typing;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bytes::Bytes;
use crate::entry::{APPLY_VERSION, Entry};
use crate::limits;
use crate::message::{ClientMessage, ServerMessage};

/// What every stream begins with; chosen so that no text or shell noise contains it.
pub const MAGIC: [u8; 8] = *b"\x00apex\x0e\r\n";
/// Lowest protocol version spoken here.
pub const PROTOCOL_MIN: u16 = 1;
/// Highest protocol version spoken here.
pub const PROTOCOL_MAX: u16 = 1;
/// Set in the kind of a frame that must not be skipped.
pub const MUST_UNDERSTAND: u16 = 0x8000;
/// Most bytes of noise (a shell's start-up output) before the magic.
pub const NOISE_LEN_MAX: usize = 64 << 10;

/// Kind of a frame with a [`ClientMessage`].
const KIND_CLIENT: u16 = MUST_UNDERSTAND | 1;
/// Kind of a frame with a [`ServerMessage`].
const KIND_SERVER: u16 = MUST_UNDERSTAND | 2;
/// Number of the variant [`ServerMessage::Snapshot`].
const SNAPSHOT_VARIANT: u32 = 1;
/// Bytes of a frame's length and kind.
const HEADER_LEN: usize = 6;

/// The first frame in each direction: magic, `min: u16`, `max: u16`, `apply: u32`, a build string
/// of at most 255 bytes with its length before it. All numbers are little-endian. Since version 1,
/// for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// Lowest protocol version that the sender speaks.
    pub protocol_min: u16,
    /// Highest protocol version that the sender speaks.
    pub protocol_max: u16,
    /// The sender's version of `apply`.
    pub apply_version: u32,
    /// The sender's build, for people.
    pub build: String,
}

impl Preamble {
    /// Returns the preamble of this build.
    #[must_use]
    pub fn new(build: &str) -> Self {
        Self {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            apply_version: APPLY_VERSION,
            build: build.into(),
        }
    }

    /// Returns its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let build = &self.build.as_bytes()[..self.build.len().min(255)];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.protocol_min.to_le_bytes());
        bytes.extend(self.protocol_max.to_le_bytes());
        bytes.extend(self.apply_version.to_le_bytes());
        bytes.push(u8::try_from(build.len()).unwrap_or(u8::MAX));
        bytes.extend(build);
        bytes
    }

    /// Checks that `self` and a peer can work together.
    ///
    /// # Errors
    /// The two speak no common version, or compute states differently.
    pub fn check(&self, peer: &Self) -> Result<(), WireError> {
        let is_common = self.protocol_min <= peer.protocol_max
            && peer.protocol_min <= self.protocol_max
            && self.apply_version == peer.apply_version;
        if is_common {
            return Ok(());
        }
        Err(WireError::Version {
            ours: self.clone(),
            theirs: peer.clone(),
        })
    }
}

impl fmt::Display for Preamble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (protocol {} to {}, apply {})",
            self.build, self.protocol_min, self.protocol_max, self.apply_version
        )
    }
}

/// What is wrong with the bytes of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// No magic within [`NOISE_LEN_MAX`] bytes; holds the start of what came instead.
    Magic(Vec<u8>),
    /// No common version.
    Version {
        /// Ours.
        ours: Preamble,
        /// The peer's.
        theirs: Preamble,
    },
    /// A frame longer than [`limits::FRAME_LEN_MAX`], or shorter than its header.
    Length(u64),
    /// A kind that must be understood and is not.
    Kind(u16),
    /// A payload that is no message, or has bytes behind it.
    Payload,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic(noise) => write!(
                f,
                "the peer does not speak apex; it said {:?}",
                String::from_utf8_lossy(&noise[..noise.len().min(80)])
            ),
            Self::Version { ours, theirs } => {
                write!(f, "versions differ: this is {ours}, the peer is {theirs}")
            }
            Self::Length(len) => write!(
                f,
                "a frame of {len} bytes; frames have {HEADER_LEN} to {} bytes",
                limits::FRAME_LEN_MAX
            ),
            Self::Kind(kind) => write!(f, "a frame of unknown kind {kind:#06x}"),
            Self::Payload => f.write_str("a frame whose payload is no message"),
        }
    }
}

impl core::error::Error for WireError {}

/// A preamble, the noise before it and the bytes behind it.
pub type Found = (Preamble, Vec<u8>, Vec<u8>);

/// Finds a peer's preamble in what it sends, past noise.
#[derive(Clone, Debug, Default)]
pub struct PreambleReader {
    bytes: Vec<u8>,
}

impl PreambleReader {
    /// Takes bytes as they come. Returns the preamble, the noise before it and the bytes behind it
    /// once all of it is there.
    ///
    /// # Errors
    /// No magic within the limit.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Found>, WireError> {
        self.bytes.extend_from_slice(bytes);
        // Behind the limit it is not looked for, so that it does not matter how the bytes come.
        let looked_at = self.bytes.len().min(NOISE_LEN_MAX + MAGIC.len());
        let Some(start) = self.bytes[..looked_at]
            .windows(MAGIC.len())
            .position(|window| window == MAGIC)
        else {
            if self.bytes.len() >= NOISE_LEN_MAX + MAGIC.len() {
                return Err(WireError::Magic(core::mem::take(&mut self.bytes)));
            }
            return Ok(None);
        };
        let fields = &self.bytes[start + MAGIC.len()..];
        let [min0, min1, max0, max1, a0, a1, a2, a3, len, rest @ ..] = fields else {
            return Ok(None);
        };
        let Some((build, behind)) = rest.split_at_checked(usize::from(*len)) else {
            return Ok(None);
        };
        let preamble = Preamble {
            protocol_min: u16::from_le_bytes([*min0, *min1]),
            protocol_max: u16::from_le_bytes([*max0, *max1]),
            apply_version: u32::from_le_bytes([*a0, *a1, *a2, *a3]),
            build: String::from_utf8_lossy(build).into_owned(),
        };
        Ok(Some((
            preamble,
            self.bytes[..start].to_vec(),
            behind.to_vec(),
        )))
    }

    /// Returns what came so far, for the message when the peer ends without a magic.
    #[must_use]
    pub fn noise(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns an entry's bytes: what is hashed, sent and stored.
///
/// # Panics
/// Never: an entry always encodes.
#[must_use]
pub fn encode_entry(entry: &Entry) -> Bytes {
    typing::encode(entry).unwrap_or_else(|| encode_any(entry))
}

/// Returns the bytes of an entry that is not typing.
#[inline(never)]
fn encode_any(entry: &Entry) -> Bytes {
    let bytes = postcard::to_allocvec(entry).expect("an entry always encodes");
    Bytes::from(bytes)
}

/// Returns the entry that such bytes hold.
///
/// # Errors
/// [`WireError::Payload`].
pub fn decode_entry(bytes: &[u8]) -> Result<Entry, WireError> {
    match typing::decode(bytes) {
        Some(entry) => Ok(entry),
        None => decode(bytes),
    }
}

/// Returns the whole frame of a client's message.
#[must_use]
pub fn encode_client(message: &ClientMessage) -> Vec<u8> {
    frame(KIND_CLIENT, message)
}

/// Returns the whole frame of the daemon's message.
#[must_use]
pub fn encode_server(message: &ServerMessage) -> Vec<u8> {
    frame(KIND_SERVER, message)
}

/// Appends the whole frame of a piece of a snapshot: `write` appends its `len` bytes where they
/// belong, so that they are copied once.
///
/// # Panics
/// When `write` appends another number of bytes.
pub fn encode_piece(len: usize, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let head = postcard::to_allocvec(&(SNAPSHOT_VARIANT, len)).expect("two numbers always encode");
    let frame_len = u32::try_from(2 + head.len() + len).expect("pieces are bounded");
    out.reserve(HEADER_LEN + head.len() + len);
    out.extend(frame_len.to_le_bytes());
    out.extend(KIND_SERVER.to_le_bytes());
    out.extend(head);
    let end = out.len() + len;
    write(out);
    assert_eq!(out.len(), end, "a piece of another length");
}

fn frame<T: Serialize>(kind: u16, message: &T) -> Vec<u8> {
    let mut bytes = alloc::vec![0; HEADER_LEN];
    bytes[4..].copy_from_slice(&kind.to_le_bytes());
    let mut bytes = postcard::to_extend(message, bytes).expect("a message always encodes");
    let len = u32::try_from(bytes.len() - 4).expect("messages are bounded");
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    bytes
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(WireError::Payload),
    }
}

/// Cuts a stream into frames. After an error the stream is of no further use.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    start: usize,
}

impl Frames {
    /// Returns a decoder that begins with these bytes.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, start: 0 }
    }

    /// Takes bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > limits::FRAME_LEN_MAX {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next message of a client, if all of it is there.
    ///
    /// # Errors
    /// The bytes are no such message.
    pub fn next_client(&mut self) -> Result<Option<ClientMessage>, WireError> {
        self.next(KIND_CLIENT)
    }

    /// Returns the next message of the daemon, if all of it is there.
    ///
    /// # Errors
    /// The bytes are no such message.
    pub fn next_server(&mut self) -> Result<Option<ServerMessage>, WireError> {
        self.next(KIND_SERVER)
    }

    fn next<T: DeserializeOwned>(&mut self, wanted: u16) -> Result<Option<T>, WireError> {
        loop {
            let rest = &self.bytes[self.start..];
            let Some((len, _)) = rest.split_first_chunk::<4>() else {
                return Ok(None);
            };
            let len = u32::from_le_bytes(*len);
            let whole = len as usize + 4;
            if !(HEADER_LEN..=limits::FRAME_LEN_MAX).contains(&whole) {
                return Err(WireError::Length(u64::from(len) + 4));
            }
            if rest.len() < whole {
                return Ok(None);
            }
            let kind = u16::from_le_bytes([rest[4], rest[5]]);
            self.start += whole;
            if kind == wanted {
                return decode(&rest[HEADER_LEN..whole]).map(Some);
            }
            if kind & MUST_UNDERSTAND != 0 {
                return Err(WireError::Kind(kind));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::ids::Shard;
    use alloc::vec;

    #[test]
    fn a_preamble_is_found_past_noise_byte_by_byte() {
        let preamble = Preamble::new("apex 0.1.0");
        let mut stream = b"Last login: \xFF\r\n\x00ape".to_vec();
        let noise = stream.clone();
        stream.extend(preamble.encode());
        stream.extend(b"rest");
        let mut reader = PreambleReader::default();
        let mut found = None;
        for (i, byte) in stream.iter().enumerate() {
            found = reader.push(&[*byte]).unwrap();
            if found.is_some() {
                assert_eq!(i, stream.len() - 5);
                break;
            }
        }
        assert_eq!(found, Some((preamble, noise, vec![])));
    }

    #[test]
    fn endless_noise_is_refused_with_what_was_said() {
        let mut reader = PreambleReader::default();
        let mut refused = None;
        for _ in 0..=NOISE_LEN_MAX / 1000 + 1 {
            if let Err(error) = reader.push(&[b'x'; 1000]) {
                refused = Some(error);
                break;
            }
        }
        assert!(matches!(refused, Some(WireError::Magic(_))));
    }

    #[test]
    fn the_first_frame_never_changes() {
        let bytes = Preamble {
            protocol_min: 1,
            protocol_max: 2,
            apply_version: 3,
            build: "b".into(),
        };
        assert_eq!(
            bytes.encode(),
            b"\x00apex\x0e\r\n\x01\x00\x02\x00\x03\x00\x00\x00\x01b"
        );
    }

    #[test]
    fn versions_without_overlap_are_refused_by_name() {
        let ours = Preamble::new("ours");
        let mut theirs = Preamble {
            protocol_min: 2,
            protocol_max: 9,
            ..Preamble::new("theirs")
        };
        let error = ours.check(&theirs).unwrap_err();
        assert!(alloc::format!("{error}").contains("theirs"));
        theirs = Preamble {
            apply_version: 99,
            ..Preamble::new("theirs")
        };
        assert!(ours.check(&theirs).is_err());
        assert!(ours.check(&Preamble::new("theirs")).is_ok());
    }

    #[test]
    fn frames_come_whole_whatever_the_pieces() {
        let first = ClientMessage::CreateShard(Shard::Layout);
        let second = ClientMessage::Ping(7);
        let mut stream = encode_client(&first);
        stream.extend([3, 0, 0, 0, 9, 0, 1]);
        stream.extend(encode_client(&second));
        for piece in 1..stream.len() {
            let mut frames = Frames::default();
            let mut got = Vec::new();
            for bytes in stream.chunks(piece) {
                frames.push(bytes);
                while let Some(message) = frames.next_client().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, [first.clone(), second.clone()]);
        }
    }

    #[test]
    fn bad_frames_are_refused() {
        let refused = |bytes: &[u8]| Frames::new(bytes.to_vec()).next_client().unwrap_err();
        assert!(matches!(refused(&[0xFF; 8]), WireError::Length(_)));
        assert!(matches!(refused(&[1, 0, 0, 0, 0]), WireError::Length(_)));
        assert_eq!(refused(&[2, 0, 0, 0, 7, 0x80]), WireError::Kind(0x8007));
        assert_eq!(
            refused(&[4, 0, 0, 0, 1, 0x80, 0xFF, 0xFF]),
            WireError::Payload
        );
        let mut long = encode_client(&ClientMessage::Detach);
        long[0] += 1;
        long.push(0);
        assert_eq!(refused(&long), WireError::Payload);
    }

    #[test]
    fn a_piece_in_its_frame_is_the_message() {
        for len in [1, 127, 128, 70_000] {
            let piece = vec![7; len];
            let mut framed = b"before".to_vec();
            encode_piece(len, &mut framed, |out| out.extend_from_slice(&piece));
            let message = ServerMessage::Snapshot(Bytes::from(piece));
            assert_eq!(framed[6..], encode_server(&message));
        }
    }
}
