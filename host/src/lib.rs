//! apex-host.
