//! The tool host: WebAssembly components that follow sessions and propose changes.
//!
//! What it is not: a part of the daemon that anybody waits for. Its guests run on threads of their
//! own, it speaks to sessions as any other peer does, and whatever a tool does is an outcome of
//! that tool.
//! Read in this order; a module imports only modules above it.

pub mod limits;

pub mod follow;

mod lock;

#[cfg(test)]
mod testing;

pub mod log;

pub mod manifest;

pub mod grants;

pub mod clock;

pub mod engine;

mod bindings;

pub mod cache;

pub mod watch;

pub mod events;

mod changes;

pub mod guest;

mod imports;

pub mod loader;

mod instance;

pub mod replica;

mod status;

mod membership;

mod restarts;

mod actor;

mod slot;

mod supervisor;

pub use self::supervisor::ToolHost;

#[cfg(test)]
mod tests;
