//! apex: the terminal user interface and the command line.
//!
//! Read in this order; a module imports only modules above it.

pub mod link;

pub mod layout;

pub mod theme;

pub mod view;

pub mod input;

pub mod app;

pub mod term;

pub mod keep;

pub mod run;

pub mod cli;
