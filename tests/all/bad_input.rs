//! What must not be: bytes, messages and files that are wrong. Each is met by words that say what
//! is the matter, on the built programs; nobody else notices, and nothing is lost.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails where it stands"
)]

mod files;
mod rights;
mod wire;
