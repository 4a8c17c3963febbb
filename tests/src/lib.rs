//! Helpers of the integration tests.

pub mod harness;

pub mod bench;
