//! The state of a session: a value that any party computes by replaying the logs.
//!
//! 1. Children sit behind `Arc` in persistent maps: a clone costs the same with ten shards and
//!    with ten thousand, and a snapshot is a clone.
//! 2. [`State::apply`] is the only writer. It is total, deterministic, and refuses with a value.
//! 3. Which windows concern a buffer is kept beside them, so that a key costs the same with any
//!    number of windows. It is no part of the state: it follows from the windows.
//! 4. A shard is known once it has an applied seq, be it 0: the metalog's ShardNew gives it one,
//!    or a leader that makes the shard ahead of the metalog.

mod apply;
mod hash;
pub mod snapshot;

use alloc::sync::Arc;
use alloc::vec::Vec;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};
use serde::Serialize;

pub use self::apply::ApplyError;
pub use self::hash::combine;
use self::snapshot::{Snapshot, SnapshotReader};
use crate::buffer::Buffer;
use crate::entry::{APPLY_VERSION, Body};
use crate::ids::{BufferId, Seq, Shard, TermId, ViewId, WindowId};
use crate::layout::Layout;
use crate::meta::Meta;
use crate::term::Term;
use crate::window::Window;

/// The state of a session. Cloning shares everything and costs nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    meta: Arc<Meta>,
    layout: Option<Arc<Layout>>,
    buffers: RedBlackTreeMapSync<BufferId, Arc<Buffer>>,
    windows: RedBlackTreeMapSync<WindowId, Arc<Window>>,
    terms: RedBlackTreeMapSync<TermId, Arc<Term>>,
    applied: RedBlackTreeMapSync<Shard, Seq>,
    /// Each window with its tag and with the buffer of its body.
    #[serde(skip)]
    shown: RedBlackTreeSetSync<(BufferId, WindowId)>,
}

/// Bytes that are no snapshot of this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// Made by another version of `apply`.
    Version(u32),
    /// Not an encoded state.
    Bytes,
}

impl core::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Version(version) => {
                write!(
                    f,
                    "a snapshot of apply version {version}, this is {APPLY_VERSION}"
                )
            }
            Self::Bytes => f.write_str("damaged snapshot"),
        }
    }
}

impl core::error::Error for SnapshotError {}

impl State {
    /// Returns the empty state, before the first entry.
    #[must_use]
    pub fn new() -> Self {
        let mut state = Self::default();
        state.applied.insert_mut(Shard::Meta, Seq::default());
        state
    }

    /// Returns a buffer.
    #[must_use]
    pub fn buffer(&self, id: BufferId) -> Option<&Buffer> {
        self.buffers.get(&id).map(Arc::as_ref)
    }

    /// Returns the buffers, in order of id.
    pub fn buffers(&self) -> impl Iterator<Item = (BufferId, &Buffer)> {
        self.buffers
            .iter()
            .map(|(id, buffer)| (*id, buffer.as_ref()))
    }

    /// Returns a window.
    #[must_use]
    pub fn window(&self, id: WindowId) -> Option<&Window> {
        self.windows.get(&id).map(Arc::as_ref)
    }

    /// Returns the windows, in order of id.
    pub fn windows(&self) -> impl Iterator<Item = (WindowId, &Window)> {
        self.windows
            .iter()
            .map(|(id, window)| (*id, window.as_ref()))
    }

    /// Returns the layout, once it was made.
    #[must_use]
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_deref()
    }

    /// Returns a terminal.
    #[must_use]
    pub fn term(&self, id: TermId) -> Option<&Term> {
        self.terms.get(&id).map(Arc::as_ref)
    }

    /// Returns the metalog's part.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the last entry applied to a shard; none for a shard that is not known.
    #[must_use]
    pub fn applied(&self, shard: Shard) -> Option<Seq> {
        self.applied.get(&shard).copied()
    }

    /// Returns the known shards and their last applied entries, Meta first.
    pub fn marks(&self) -> impl Iterator<Item = (Shard, Seq)> + '_ {
        self.applied.iter().map(|(shard, seq)| (*shard, *seq))
    }

    /// Returns the buffer that a view shows.
    #[must_use]
    pub fn buffer_of(&self, view: ViewId) -> Option<BufferId> {
        match view {
            ViewId::Top => Some(self.layout()?.top),
            ViewId::Column(column) => Some(self.layout()?.column(column)?.tag),
            ViewId::Tag(window) => Some(self.window(window)?.tag),
            ViewId::Body(window) => match self.window(window)?.body {
                Body::Buffer(buffer) => Some(buffer),
                Body::Term(_) => None,
            },
        }
    }

    /// Returns the buffer of a name.
    #[must_use]
    pub fn buffer_named(&self, name: &str) -> Option<BufferId> {
        let is_named = |(_, buffer): &(BufferId, &Buffer)| {
            buffer.kind() != crate::entry::BufferKind::Tag && buffer.name() == name
        };
        self.buffers().find(is_named).map(|(id, _)| id)
    }

    /// Returns the windows that show a buffer in their body, in order of id. Costs their number.
    pub fn windows_of(&self, buffer: BufferId) -> impl Iterator<Item = WindowId> + '_ {
        let body = Body::Buffer(buffer);
        let is_body = move |id: &WindowId| self.window(*id).is_some_and(|it| it.body == body);
        self.windows_with(buffer).filter(is_body)
    }

    /// Returns the windows that have a buffer as their body or as their tag, in order of id. Costs
    /// their number.
    pub fn windows_with(&self, buffer: BufferId) -> impl Iterator<Item = WindowId> + '_ {
        let all = (buffer, WindowId::new(0))..=(buffer, WindowId::new(u64::MAX));
        self.shown.range(all).map(|(_, window)| *window)
    }

    fn set_windows(&mut self, windows: RedBlackTreeMapSync<WindowId, Arc<Window>>) {
        self.windows = windows;
        let ids: Vec<WindowId> = self.windows.keys().copied().collect();
        ids.into_iter().for_each(|id| self.note_window(id, true));
    }

    /// Keeps in step with a window that came or goes.
    fn note_window(&mut self, id: WindowId, is_there: bool) {
        let Some(window) = self.windows.get(&id) else {
            return;
        };
        let body = match window.body {
            Body::Buffer(body) => Some(body),
            Body::Term(_) => None,
        };
        for buffer in [Some(window.tag), body].into_iter().flatten() {
            if is_there {
                self.shown.insert_mut((buffer, id));
            } else {
                self.shown.remove_mut(&(buffer, id));
            }
        }
    }

    /// Makes a shard known ahead of its ShardNew, as the leader that creates it does.
    pub fn assume_shard(&mut self, shard: Shard) {
        if !self.applied.contains_key(&shard) {
            self.applied.insert_mut(shard, Seq::default());
        }
    }

    /// Drops a shard's part, as its leader does ahead of its ShardDel.
    pub fn drop_shard(&mut self, shard: Shard) {
        match shard {
            Shard::Meta => return,
            Shard::Layout => self.layout = None,
            Shard::Buffer(id) => drop_key(&mut self.buffers, &id),
            Shard::Window(id) => {
                self.note_window(id, false);
                drop_key(&mut self.windows, &id);
            }
            Shard::Term(id) => drop_key(&mut self.terms, &id),
        }
        drop_key(&mut self.applied, &shard);
    }

    /// Returns how many shards are known.
    #[must_use]
    pub fn shard_count(&self) -> u64 {
        self.applied.size() as u64
    }

    /// Returns one shard's part as bytes, for people who look for a fault.
    ///
    /// # Panics
    /// Never: a state always encodes.
    #[must_use]
    pub fn shard_snapshot(&self, shard: Shard) -> Vec<u8> {
        let bytes = match shard {
            Shard::Meta => postcard::to_allocvec(&self.meta),
            Shard::Layout => postcard::to_allocvec(&self.layout),
            Shard::Buffer(id) => postcard::to_allocvec(&self.buffers.get(&id)),
            Shard::Window(id) => postcard::to_allocvec(&self.windows.get(&id)),
            Shard::Term(id) => postcard::to_allocvec(&self.terms.get(&id)),
        };
        bytes.expect("a state always encodes")
    }

    /// Returns the state as bytes, all at once: [`Snapshot`] writes the same in pieces.
    #[must_use]
    pub fn to_snapshot(&self) -> Vec<u8> {
        let mut snapshot = Snapshot::new(self.clone());
        let len = usize::try_from(snapshot.left()).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(len);
        snapshot.write(len, &mut bytes);
        bytes
    }

    /// Returns the state that such bytes hold: [`SnapshotReader`] reads the same in pieces.
    ///
    /// # Errors
    /// The bytes are damaged, or of another version of `apply`.
    pub fn from_snapshot(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let mut reader = SnapshotReader::new();
        reader.push(bytes)?;
        reader.finish()
    }
}

fn drop_key<K: Ord, V>(map: &mut RedBlackTreeMapSync<K, V>, key: &K) {
    if map.contains_key(key) {
        map.remove_mut(key);
    }
}

#[cfg(test)]
mod tests;
