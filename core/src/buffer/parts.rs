//! The encoding of a buffer in parts, so that a long one is written and read a piece at a time.
//!
//! Put together the parts are what serde makes of a [`Buffer`]; a test holds the two equal. The
//! text is a part of its own, and so is each group of undo: together those may be as long.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;

use postcard::ser_flavors::{Flavor, Size};

use super::history::{Group, Groups, History, Lost};
use super::layer::Layer;
use super::{Buffer, View};
use crate::encoding::{Window, take_first};
use crate::entry::{BufferKind, Saved};
use crate::ids::{AttachmentId, BufferId, ProposalId, Version, ViewId};
use crate::text::TextBuilder;

/// One part of a buffer with its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Id, kind, name and the bytes of the text.
    Front,
    /// The text.
    Text,
    /// Versions, views, the newest group of undo and how many lie below it.
    Standing,
    /// One of those, from 0.
    Below(usize),
    /// How many groups are undone.
    UndoneCount,
    /// One of those, from 0.
    Undone(usize),
    /// The rest of the history, settings, annotations and authors.
    Back,
}

impl Part {
    /// Returns the part behind this one, given how many groups there are below and undone; none
    /// behind the last.
    const fn next(self, below: usize, undone: usize) -> Option<Self> {
        Some(match self {
            Self::Front => Self::Text,
            Self::Text => Self::Standing,
            Self::Standing if below > 0 => Self::Below(0),
            Self::Below(index) if index + 1 < below => Self::Below(index + 1),
            Self::Standing | Self::Below(_) => Self::UndoneCount,
            Self::UndoneCount if undone > 0 => Self::Undone(0),
            Self::Undone(index) if index + 1 < undone => Self::Undone(index + 1),
            Self::UndoneCount | Self::Undone(_) => Self::Back,
            Self::Back => return None,
        })
    }
}

impl Buffer {
    /// Returns the part behind another one; none behind the last.
    pub(crate) fn part_after(&self, part: Part) -> Option<Part> {
        let (_, below, undone) = self.history.parts();
        part.next(below.len(), undone.len())
    }

    /// Returns how many bytes a part is encoded in. That of the text costs nothing.
    ///
    /// # Panics
    /// Never: a buffer always encodes.
    pub(crate) fn part_len(&self, id: BufferId, part: Part) -> u64 {
        if part == Part::Text {
            return self.text.len_bytes();
        }
        let len = self.encode_part(id, part, Size::default());
        len.expect("a buffer always encodes") as u64
    }

    /// Writes a part. Returns whether it is written to its end.
    pub(crate) fn write_part(&self, id: BufferId, part: Part, window: Window<'_>) -> bool {
        if part == Part::Text {
            return window.write(|from| self.text.bytes_from(from));
        }
        self.encode_part(id, part, window).is_ok()
    }

    fn encode_part<F: Flavor>(
        &self,
        id: BufferId,
        part: Part,
        flavor: F,
    ) -> postcard::Result<F::Output> {
        let (top, below, undone) = self.history.parts();
        match part {
            Part::Front => {
                let len = self.text.len_bytes();
                postcard::serialize_with_flavor(&(id, self.kind, &self.name, len), flavor)
            }
            Part::Text => flavor.finalize(),
            Part::Standing => {
                let versions = (self.version, self.content, self.clean);
                let standing = (versions, &self.saved, &self.views, top, below.len());
                postcard::serialize_with_flavor(&standing, flavor)
            }
            Part::Below(index) => encode_group(below.get(index), flavor),
            Part::UndoneCount => postcard::serialize_with_flavor(&undone.len(), flavor),
            Part::Undone(index) => encode_group(undone.get(index), flavor),
            Part::Back => {
                let kept = (&self.settings, &self.layers, &self.authors);
                postcard::serialize_with_flavor(&(self.history.lost(), kept), flavor)
            }
        }
    }
}

fn encode_group<F: Flavor>(group: Option<&Arc<Group>>, flavor: F) -> postcard::Result<F::Output> {
    match group {
        Some(group) => postcard::serialize_with_flavor(group, flavor),
        None => flavor.finalize(),
    }
}

/// How far a step of reading came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the end of a part.
    Part,
    /// To the end of the bytes, within a part.
    Short,
    /// To the end of the buffer.
    Whole,
}

/// What the part `Standing` holds.
type Standing = (
    (Version, Version, Version),
    Option<Saved>,
    BTreeMap<ViewId, View>,
    Option<Arc<Group>>,
    usize,
);

/// What the part `Back` holds behind the history.
type Kept = (
    BTreeMap<String, String>,
    BTreeMap<(AttachmentId, String), Layer>,
    BTreeMap<AttachmentId, ProposalId>,
);

/// A buffer that is read part by part. What the bytes say of lengths allocates nothing: only bytes
/// that are there do.
#[derive(Debug)]
pub(crate) struct Reading {
    part: Part,
    id: BufferId,
    buffer: Buffer,
    text: TextBuilder,
    /// Bytes of the text that are to come.
    text_left: u64,
    top: Option<Arc<Group>>,
    below: Groups,
    undone: Groups,
    /// How many groups are to lie below and undone.
    below_count: usize,
    undone_count: usize,
}

impl Reading {
    /// Returns a buffer of which nothing is read.
    pub(crate) fn new() -> Self {
        Self {
            part: Part::Front,
            id: BufferId::default(),
            buffer: Buffer::new(BufferKind::Scratch, String::new()),
            text: TextBuilder::default(),
            text_left: 0,
            top: None,
            below: Groups::new_sync(),
            undone: Groups::new_sync(),
            below_count: 0,
            undone_count: 0,
        }
    }

    /// Reads as far as the end of the part or of the bytes, which are moved behind what was read.
    ///
    /// # Errors
    /// The bytes are no such part.
    pub(crate) fn step(&mut self, bytes: &mut &[u8]) -> postcard::Result<Step> {
        if !self.read_part(bytes)? {
            return Ok(Step::Short);
        }
        match self.part.next(self.below_count, self.undone_count) {
            Some(next) => {
                self.part = next;
                Ok(Step::Part)
            }
            None => Ok(Step::Whole),
        }
    }

    fn read_part(&mut self, bytes: &mut &[u8]) -> postcard::Result<bool> {
        match self.part {
            Part::Front => {
                let Some((id, kind, name, len)) = take_first(bytes)? else {
                    return Ok(false);
                };
                (self.id, self.text_left) = (id, len);
                self.buffer = Buffer::new(kind, name);
            }
            Part::Text => return self.read_text(bytes),
            Part::Standing => {
                let Some(standing) = take_first(bytes)? else {
                    return Ok(false);
                };
                self.stand(standing);
            }
            Part::Below(_) | Part::Undone(_) => {
                let Some(group) = take_first(bytes)? else {
                    return Ok(false);
                };
                let groups = match self.part {
                    Part::Below(_) => &mut self.below,
                    _ => &mut self.undone,
                };
                groups.push_back_mut(group);
            }
            Part::UndoneCount => {
                let Some(count) = take_first(bytes)? else {
                    return Ok(false);
                };
                self.undone_count = count;
            }
            Part::Back => {
                let Some((lost, kept)) = take_first::<(Lost, Kept)>(bytes)? else {
                    return Ok(false);
                };
                let (below, undone) = (self.below.clone(), self.undone.clone());
                self.buffer.history = History::of((self.top.take(), below, undone), lost);
                let buffer = &mut self.buffer;
                (buffer.settings, buffer.layers, buffer.authors) = kept;
            }
        }
        Ok(true)
    }

    fn read_text(&mut self, bytes: &mut &[u8]) -> postcard::Result<bool> {
        let left = usize::try_from(self.text_left).unwrap_or(usize::MAX);
        let (piece, rest) = bytes.split_at(left.min(bytes.len()));
        *bytes = rest;
        self.text_left -= piece.len() as u64;
        let bad = |_| postcard::Error::DeserializeBadUtf8;
        self.text.push(piece).map_err(bad)?;
        if self.text_left > 0 {
            return Ok(false);
        }
        self.buffer.text = core::mem::take(&mut self.text).finish().map_err(bad)?;
        Ok(true)
    }

    fn stand(&mut self, standing: Standing) {
        let (versions, saved, views, top, below_count) = standing;
        let buffer = &mut self.buffer;
        (buffer.version, buffer.content, buffer.clean) = versions;
        (buffer.saved, buffer.views) = (saved, views);
        (self.top, self.below_count) = (top, below_count);
    }

    /// Returns the buffer, once it is whole.
    pub(crate) fn finish(self) -> (BufferId, Buffer) {
        (self.id, self.buffer)
    }
}
