//! The interface of `wit/` as Rust, and the error codes that it documents.

use std::sync::Arc;

use wasmtime::component::{ComponentType, Lower};

mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "full-tool",
        // No import waits for anything: what takes time leaves when the call has returned.
        exports: { default: async },
    });
}

pub(super) use generated::FullTool;
pub(super) use generated::apex::tool as wit;
pub(super) use generated::exports::apex::tool as exports;

use wit::types::{Error, Event};

/// The interface's `entry`, as it is only ever told: the name of its shard is written once and
/// shared by all entries of the shard.
#[derive(Clone, Debug, ComponentType, Lower)]
#[component(record)]
pub(super) struct Entry {
    pub(super) shard: Arc<str>,
    pub(super) seq: u64,
    pub(super) author: u64,
    pub(super) event: Event,
}

/// The codes of [`Error`], as `wit/types.wit` documents them.
pub(super) mod code {
    pub(in super::super) const NOT_GRANTED: u32 = 1;
    pub(in super::super) const NOT_FOUND: u32 = 3;
    pub(in super::super) const OUT_OF_RANGE: u32 = 4;
    pub(in super::super) const STALE: u32 = 5;
    pub(in super::super) const LIMIT: u32 = 6;
    pub(in super::super) const UNSUPPORTED: u32 = 7;
    pub(in super::super) const CONFLICT: u32 = 8;
    pub(in super::super) const SPLIT: u32 = 9;
    pub(in super::super) const REFUSED: u32 = 10;
    pub(in super::super) const RETRY: u32 = 12;
}

/// Returns an error of this code.
pub(super) fn error(code: u32, message: impl Into<String>) -> Error {
    let retry = matches!(code, code::STALE | code::CONFLICT | code::RETRY);
    Error {
        code,
        message: message.into(),
        retry,
    }
}
