//! apex: the terminal user interface and the command line.
//!
//! Read in this order; a module imports only modules above it.

pub mod layout;
