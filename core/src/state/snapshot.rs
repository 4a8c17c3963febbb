//! Snapshots: a state as bytes, written and read a piece at a time.
//!
//! 1. The bytes are what serde and postcard make of the version of `apply` and the state; tests
//!    hold them equal. They are cut into parts: what holds the buffers, then each buffer in parts
//!    of its own, and so on. A piece ends wherever its room does, also within a part.
//! 2. A [`Snapshot`] is a clone of the state and a place in it. It keeps no bytes: whoever sends it
//!    takes as many as there is room for, and what is worked on meanwhile is not in it.
//! 3. A [`SnapshotReader`] takes pieces of any size. Texts go into their ropes as they come. It
//!    keeps little more than the longest part, and no length that the bytes claim makes room.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use postcard::ser_flavors::{Flavor, Size};
use rpds::RedBlackTreeMapSync;

use super::{SnapshotError, State};
use crate::buffer::parts::{Part, Reading, Step};
use crate::bytes::Bytes;
use crate::encoding::{Window, take_first};
use crate::entry::APPLY_VERSION;
use crate::ids::{BufferId, TermId};
use crate::limits;

/// One part of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The version, the metalog's part, the layout and how many buffers there are.
    Head,
    Buffer(BufferId, Part),
    /// The windows and how many terminals there are.
    Windows,
    Term(TermId),
    /// The last entries applied.
    Applied,
    End,
}

/// A snapshot on its way out: an iterator over its pieces, of [`limits::PIECE_LEN_MAX`] bytes but
/// for the last.
#[derive(Clone)]
pub struct Snapshot {
    state: State,
    place: Place,
    /// Bytes of the part that are out.
    done: usize,
    /// Bytes that are not out.
    left: u64,
}

impl core::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Snapshot({} bytes left)", self.left)
    }
}

impl Snapshot {
    /// Returns the snapshot of a state. Costs what the state holds beside its texts.
    #[must_use]
    pub fn new(state: State) -> Self {
        let mut left = 0;
        let mut place = Place::Head;
        while place != Place::End {
            left += state.place_len(place);
            place = state.place_after(place);
        }
        Self {
            state,
            place: Place::Head,
            done: 0,
            left,
        }
    }

    /// Returns how many bytes were not taken yet.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Appends the next bytes to `out`: as many as there is room for, or all that are left.
    pub fn write(&mut self, room: usize, out: &mut Vec<u8>) {
        let end = out.len() + room.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let start = out.len();
        while self.place != Place::End && out.len() < end {
            let before = out.len();
            let window = Window::new(self.done, end - before, out);
            if self.state.write_place(self.place, window) {
                self.place = self.state.place_after(self.place);
                self.done = 0;
            } else {
                self.done += out.len() - before;
            }
        }
        self.left -= (out.len() - start) as u64;
    }

    /// Returns how long the next piece is; 0 behind the last.
    #[must_use]
    pub fn piece_len(&self) -> usize {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        left.min(limits::PIECE_LEN_MAX)
    }
}

impl Iterator for Snapshot {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let len = self.piece_len();
        let mut piece = Vec::with_capacity(len);
        self.write(len, &mut piece);
        (len > 0).then(|| Bytes::from(piece))
    }
}

impl State {
    /// Returns the place of the first buffer behind an id, or of what follows them.
    fn buffer_after(&self, id: Bound<BufferId>) -> Place {
        let next = self.buffers.range((id, Bound::Unbounded)).next();
        next.map_or(Place::Windows, |(id, _)| Place::Buffer(*id, Part::Front))
    }

    fn term_after(&self, id: Bound<TermId>) -> Place {
        let next = self.terms.range((id, Bound::Unbounded)).next();
        next.map_or(Place::Applied, |(id, _)| Place::Term(*id))
    }

    fn place_after(&self, place: Place) -> Place {
        match place {
            Place::Head => self.buffer_after(Bound::Unbounded),
            Place::Buffer(id, part) => {
                let buffer = self.buffers.get(&id);
                match buffer.and_then(|buffer| buffer.part_after(part)) {
                    Some(part) => Place::Buffer(id, part),
                    None => self.buffer_after(Bound::Excluded(id)),
                }
            }
            Place::Windows => self.term_after(Bound::Unbounded),
            Place::Term(id) => self.term_after(Bound::Excluded(id)),
            Place::Applied | Place::End => Place::End,
        }
    }

    fn place_len(&self, place: Place) -> u64 {
        match place {
            Place::Buffer(id, part) => self
                .buffers
                .get(&id)
                .map_or(0, |buffer| buffer.part_len(id, part)),
            place => {
                let len = self.encode_place(place, Size::default());
                len.expect("a state always encodes") as u64
            }
        }
    }

    /// Writes a part. Returns whether it is written to its end.
    fn write_place(&self, place: Place, window: Window<'_>) -> bool {
        match place {
            Place::Buffer(id, part) => self
                .buffers
                .get(&id)
                .is_none_or(|buffer| buffer.write_part(id, part, window)),
            place => self.encode_place(place, window).is_ok(),
        }
    }

    fn encode_place<F: Flavor>(&self, place: Place, flavor: F) -> postcard::Result<F::Output> {
        match place {
            Place::Head => {
                let count = self.buffers.size();
                let head = (APPLY_VERSION, &self.meta, &self.layout, count);
                postcard::serialize_with_flavor(&head, flavor)
            }
            Place::Windows => {
                let windows = (&self.windows, self.terms.size());
                postcard::serialize_with_flavor(&windows, flavor)
            }
            Place::Term(id) => match self.terms.get(&id) {
                Some(term) => postcard::serialize_with_flavor(&(id, term), flavor),
                None => flavor.finalize(),
            },
            Place::Applied => postcard::serialize_with_flavor(&self.applied, flavor),
            Place::Buffer(..) | Place::End => flavor.finalize(),
        }
    }
}

/// What is read next.
#[derive(Debug)]
enum Next {
    Version,
    Head,
    Buffer(alloc::boxed::Box<Reading>),
    Windows,
    Term,
    Applied,
    End,
}

/// A snapshot on its way in.
#[derive(Debug)]
pub struct SnapshotReader {
    state: State,
    next: Next,
    /// Buffers or terminals that are to come.
    count_left: usize,
    /// Bytes that are not enough for the next part.
    kept: Vec<u8>,
    /// With how many of them the part is tried again: a long one not at each piece.
    enough_len: usize,
    /// What was wrong with the bytes so far.
    error: Option<SnapshotError>,
}

impl Default for SnapshotReader {
    fn default() -> Self {
        Self::new()
    }
}

impl SnapshotReader {
    /// Returns a reader that has read nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State {
                applied: RedBlackTreeMapSync::new_sync(),
                ..State::default()
            },
            next: Next::Version,
            count_left: 0,
            kept: Vec::new(),
            enough_len: 0,
            error: None,
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// The bytes are damaged, or of another version of `apply`; [`Self::finish`] says so too.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let pushed = match &self.error {
            Some(error) => Err(error.clone()),
            None => self.take(bytes),
        };
        self.error = pushed.clone().err();
        pushed
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        if self.kept.is_empty() {
            let rest = self.read(bytes)?;
            self.keep(&bytes[bytes.len() - rest..]);
            return Ok(());
        }
        self.kept.extend_from_slice(bytes);
        if self.kept.len() < self.enough_len {
            return Ok(());
        }
        self.read_kept()
    }

    fn read_kept(&mut self) -> Result<(), SnapshotError> {
        let kept = core::mem::take(&mut self.kept);
        let rest = self.read(&kept)?;
        self.keep(&kept[kept.len() - rest..]);
        Ok(())
    }

    fn keep(&mut self, rest: &[u8]) {
        self.kept.extend_from_slice(rest);
        self.enough_len = 2 * rest.len();
    }

    /// Returns the state, once all bytes were taken.
    ///
    /// # Errors
    /// The bytes are damaged, of another version of `apply`, or not all there.
    pub fn finish(mut self) -> Result<State, SnapshotError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if !self.kept.is_empty() {
            self.read_kept()?;
        }
        match self.next {
            Next::End if self.kept.is_empty() => Ok(self.state),
            _ => Err(SnapshotError::Bytes),
        }
    }

    /// Reads as far as the bytes go; returns how many are left.
    fn read(&mut self, mut bytes: &[u8]) -> Result<usize, SnapshotError> {
        while self.read_part(&mut bytes)? {}
        Ok(bytes.len())
    }

    /// Reads one part. Returns whether the bytes went to its end.
    fn read_part(&mut self, bytes: &mut &[u8]) -> Result<bool, SnapshotError> {
        match &mut self.next {
            Next::Version => match take_first(bytes)? {
                None => return Ok(false),
                Some(APPLY_VERSION) => self.next = Next::Head,
                Some(version) => return Err(SnapshotError::Version(version)),
            },
            Next::Head => {
                let Some((meta, layout, count)) = take_first(bytes)? else {
                    return Ok(false);
                };
                (self.state.meta, self.state.layout) = (meta, layout);
                self.begin_buffer(count);
            }
            Next::Buffer(reading) => match reading.step(bytes)? {
                Step::Part => {}
                Step::Short => return Ok(false),
                Step::Whole => self.end_buffer()?,
            },
            Next::Windows => {
                let Some((windows, count)) = take_first(bytes)? else {
                    return Ok(false);
                };
                self.state.set_windows(windows);
                self.begin_term(count);
            }
            Next::Term => {
                let Some((id, term)) = take_first(bytes)? else {
                    return Ok(false);
                };
                self.state.terms.insert_mut(id, term);
                self.begin_term(self.count_left - 1);
            }
            Next::Applied => {
                let Some(applied) = take_first(bytes)? else {
                    return Ok(false);
                };
                self.state.applied = applied;
                self.next = Next::End;
            }
            Next::End if bytes.is_empty() => return Ok(false),
            Next::End => return Err(SnapshotError::Bytes),
        }
        Ok(true)
    }

    fn begin_buffer(&mut self, count: usize) {
        self.count_left = count;
        self.next = match count {
            0 => Next::Windows,
            _ => Next::Buffer(alloc::boxed::Box::new(Reading::new())),
        };
    }

    fn end_buffer(&mut self) -> Result<(), SnapshotError> {
        if let Next::Buffer(reading) = core::mem::replace(&mut self.next, Next::End) {
            let (id, buffer) = reading.finish();
            if !buffer.is_sound() {
                return Err(SnapshotError::Bytes);
            }
            self.state.buffers.insert_mut(id, Arc::new(buffer));
        }
        self.begin_buffer(self.count_left - 1);
        Ok(())
    }

    fn begin_term(&mut self, count: usize) {
        self.count_left = count;
        self.next = if count > 0 { Next::Term } else { Next::Applied };
    }
}

impl From<postcard::Error> for SnapshotError {
    fn from(_: postcard::Error) -> Self {
        Self::Bytes
    }
}

#[cfg(test)]
mod tests;
