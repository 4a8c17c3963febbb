//! The daemon of apex: sessions, files, commands and tools behind one socket.
//!
//! Read in this order; a module imports only modules above it.

pub mod clock;

pub mod diary;

pub mod disk;

pub mod config;

pub mod files;

pub mod process;

pub mod outlet;

pub mod seam;

pub mod desk;

pub mod session;

pub mod link;

pub mod tools;

pub mod daemon;
