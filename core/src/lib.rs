//! The replicated model of apex: pure, deterministic, without clock, I/O, threads or randomness.
//!
//! Read in this order; a module imports only modules above it.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(test)]
mod dice;

pub mod limits;

pub mod canary;

pub mod ids;

pub mod bytes;

pub mod text;

pub mod edit;

pub mod regexp;

pub mod address;

pub mod command;

pub mod entry;

pub mod proposal;

pub mod message;

pub mod wire;

pub mod encoding;

pub mod buffer;

pub mod window;

pub mod layout;

pub mod term;

pub mod meta;

pub mod state;

pub mod log;

pub mod journal;

pub mod node;

#[cfg(test)]
mod golden_tests;
