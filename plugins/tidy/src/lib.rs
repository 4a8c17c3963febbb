//! tidy: when the user puts a file, blanks at line ends go and a missing final newline comes.
//!
//! It acts on Put and Putall and on nothing else. What it does to which file is in [`rules`], which
//! knows nothing of apex and is tested on any machine; the `tool` module carries it out and exists
//! only in the component.

pub mod rules;

#[cfg(target_family = "wasm")]
mod tool;
