//! The hash of a buffer, at the cost of what changed since the last one.
//!
//! It covers all that an encoded buffer holds. What grows with the text or with the session enters
//! as a digest that can be kept up: the text by [`Pieces`], finished groups of undo by a chain over
//! them. The rest is short and is encoded each time. Nothing kept shows in the hash: it is the same
//! for a buffer that was read from a snapshot.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::Serialize;

use super::history::{Group, Groups};
use super::layer::Layer;
use super::{Buffer, View};
use crate::edit::Splice;
use crate::encoding::hash_of;
use crate::entry::{BufferKind, Saved};
use crate::ids::{AttachmentId, ProposalId, Version, ViewId};
use crate::text::digest::Pieces;

/// Bytes that an annotated span is taken for.
const SPAN_LEN: u64 = 64;

/// What is kept of a buffer between two of its hashes.
#[derive(Clone, Debug)]
pub struct BufferHash {
    /// The version that the pieces are in step with.
    version: Version,
    pieces: Pieces,
    below: Chain,
    undone: Chain,
    /// Bytes of undo at the last hash.
    undo_len: u64,
}

/// What is hashed of a buffer, in its order.
#[derive(Serialize)]
struct Hashed<'a> {
    kind: BufferKind,
    name: &'a str,
    /// Bytes of the text and its digest.
    text: (u64, u64),
    version: Version,
    content: Version,
    clean: Version,
    saved: &'a Option<Saved>,
    views: &'a BTreeMap<ViewId, View>,
    top: Option<&'a Group>,
    below: [u8; 32],
    undone: [u8; 32],
    settings: &'a BTreeMap<String, String>,
    layers: &'a BTreeMap<(AttachmentId, String), Layer>,
    authors: &'a BTreeMap<AttachmentId, ProposalId>,
}

impl BufferHash {
    /// Returns what is kept of a buffer that was not hashed yet: nothing.
    #[must_use]
    pub fn new(buffer: &Buffer) -> Self {
        Self {
            version: buffer.version,
            pieces: Pieces::new(buffer.text.len()),
            below: Chain::default(),
            undone: Chain::default(),
            undo_len: 0,
        }
    }

    /// Returns the version that it knows the text of.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Takes the next version of the text: what these splices made of the last one.
    pub fn note(&mut self, splices: &[Splice]) {
        let (mut removed, mut added) = (0, 0);
        for splice in splices {
            let (len, count) = (splice.at.len(), splice.count());
            let q = splice.at.q0 - removed + added;
            self.pieces.splice(q, len, count);
            removed += len;
            added += count;
        }
        self.version = self.version.next();
    }

    /// Reads about `len` bytes of changed text ahead of the next hash; returns whether that is all.
    /// The buffer is at the version that was noted last.
    pub fn read(&mut self, buffer: &Buffer, len: u64) -> bool {
        self.pieces.read(&buffer.text, len)
    }

    /// Returns about how many bytes the next hash reads.
    #[must_use]
    pub fn cost(&self, buffer: &Buffer) -> u64 {
        let spans = buffer.layers().map(|(_, _, layer)| layer.count() as u64);
        let top = buffer.history.parts().0.map_or(0, Group::len_bytes);
        let undo = buffer.undo_len().abs_diff(self.undo_len).max(top);
        self.pieces.unread_len() + undo + spans.sum::<u64>() * SPAN_LEN
    }

    /// Returns the hash of the buffer, which is at the version that was noted last.
    ///
    /// # Panics
    /// Never: all of the text is read before its digest is asked for.
    pub fn hash(&mut self, buffer: &Buffer) -> [u8; 32] {
        self.pieces.read(&buffer.text, u64::MAX);
        self.undo_len = buffer.undo_len();
        let digest = self.pieces.digest().expect("all of it was read");
        let (top, below, undone) = buffer.history.parts();
        let hashed = Hashed {
            kind: buffer.kind,
            name: &buffer.name,
            text: (buffer.text.len_bytes(), digest.value()),
            version: buffer.version,
            content: buffer.content,
            clean: buffer.clean,
            saved: &buffer.saved,
            views: &buffer.views,
            top,
            below: self.below.over(below),
            undone: self.undone.over(undone),
            settings: &buffer.settings,
            layers: &buffer.layers,
            authors: &buffer.authors,
        };
        hash_of(&hashed)
    }
}

/// Hashes along a stack of groups: with each group, that of all up to it.
#[derive(Clone, Debug, Default)]
struct Chain(Vec<(Arc<Group>, [u8; 32])>);

impl Chain {
    /// Returns the hash over all groups of the stack.
    fn over(&mut self, groups: &Groups) -> [u8; 32] {
        // A group lies on the same groups as long as it lies in the stack, so what is the same at
        // one height is the same below it. Groups forgotten at the bottom change all heights.
        let height = self.0.len().min(groups.len());
        let is_same = |height: &usize| {
            let (known, group) = (self.0.get(height - 1), groups.get(height - 1));
            known
                .zip(group)
                .is_some_and(|((known, _), group)| Arc::ptr_eq(known, group))
        };
        let same = (1..=height).rev().find(is_same).unwrap_or(0);
        self.0.truncate(same);
        for group in (same..groups.len()).filter_map(|index| groups.get(index)) {
            let hash = hash_of(&(self.top(), group));
            self.0.push((group.clone(), hash));
        }
        self.top()
    }

    fn top(&self) -> [u8; 32] {
        self.0.last().map_or([0; 32], |(_, hash)| *hash)
    }
}
