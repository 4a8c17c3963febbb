//! A simulator of apex: one seed is one world of a daemon, two or three screens and up to two
//! tools, all of them the real nodes, in virtual time and over streams that have faults.
//!
//! The README beside this crate says what is watched, and by whom.

mod random;

mod plan;

mod trace;

mod clock;

mod stream;

mod oracle;

mod process;

mod world;

pub mod run;

pub mod shrink;

pub mod cases;

#[cfg(feature = "canaries")]
pub mod canaries;
