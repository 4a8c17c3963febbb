//! What the end-to-end tests stand on: built programs, real sockets, real terminals.
//!
//! 1. Nothing here sleeps. Each wait is for bytes; [`PATIENCE`] only bounds how long a test that
//!    fails takes to say so.
//! 2. What a part started ends with it.
//!
//! Read in this order; a module imports only modules above it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    reason = "a test that cannot go on fails where it stands; everything here panics for that alone"
)]

use std::time::Duration;

pub mod home;

pub mod ordinary;

pub mod screen;

pub mod pty;

pub mod proxy;

pub mod peer;

pub use home::{Ended, Home};
pub use peer::{Peer, Raw};
pub use proxy::{Proxy, Way};
pub use pty::Pty;

/// How long nothing may happen before a test has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);
