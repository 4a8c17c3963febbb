//! The text of tags: the editor's part on the left is rewritten, the user's part is left alone.
//!
//! A window's tag is `NAME Del Snarf [Undo] [Redo] [Put|Get] |` and what the user wrote behind the
//! bar (acme's `wind.c`). The name is what the user may edit on the left: it renames the buffer.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};

use super::{Node, NodeError};
use crate::buffer::Buffer;
use crate::edit::{self, Splice};
use crate::entry::{Body, BufferKind, BufferOp};
use crate::ids::{BufferId, Shard, ViewId, WindowId};
use crate::text::{Span, Text};

/// What ends the name in a tag.
const NAME_END: &str = " Del Snarf";
/// What a new window's tag has behind the bar.
const USER_PART: &str = " Look ";
/// The tag of a new column.
pub(super) const COLUMN_TAG: &str = "New Cut Paste Snarf Sort Zerox Delcol ";
/// The tag of the top row.
pub(super) const TOP_TAG: &str = "Newcol Kill Putall Exit ";

/// Returns the name that a tag's text holds: up to ` Del Snarf` if that precedes the bar, else up
/// to the first blank, so that blanks in names survive.
#[must_use]
pub fn tag_name(tag: &str) -> &str {
    let left = tag.split_once('|').map_or(tag, |(left, _)| left);
    match left.find(NAME_END) {
        Some(end) => &left[..end],
        None => left.split([' ', '\t', '\n']).next().unwrap_or_default(),
    }
}

/// Returns the editor's part of a tag, the bar included.
fn left_part(name: &str, buffer: &Buffer) -> String {
    let mut left = String::from(name) + NAME_END;
    let words = [
        (buffer.undo_group().is_some(), " Undo"),
        (buffer.redo_group().is_some(), " Redo"),
        (
            buffer.kind() == BufferKind::File && !name.is_empty() && buffer.is_modified(),
            " Put",
        ),
        (buffer.kind() == BufferKind::Directory, " Get"),
    ];
    for (is_shown, word) in words {
        if is_shown {
            left.push_str(word);
        }
    }
    left + " |"
}

impl Node {
    /// Returns the text of a window's tag.
    #[must_use]
    pub fn tag_text(&self, window: WindowId) -> Option<String> {
        let tag = self.state.window(window)?.tag;
        self.state.buffer(tag).map(|tag| tag.text().to_string())
    }

    /// Notes that the user is editing the name in a tag, so that it is not rewritten meanwhile.
    pub(super) fn note_rename(&mut self, view: ViewId) {
        let ViewId::Tag(window) = view else { return };
        let Some(tag) = self.tag_text(window) else {
            return;
        };
        if self
            .body_buffer(window)
            .is_some_and(|(_, body)| body.name() != tag_name(&tag))
        {
            self.renaming = Some(window);
        }
    }

    fn body_buffer(&self, window: WindowId) -> Option<(BufferId, &Buffer)> {
        let Body::Buffer(id) = self.state.window(window)?.body else {
            return None;
        };
        Some((id, self.state.buffer(id)?))
    }

    /// Returns the window whose name the user is editing.
    #[must_use]
    pub const fn renaming(&self) -> Option<WindowId> {
        self.renaming
    }

    /// Renames the buffer of the tag that the user was editing, as its name now reads.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn commit_rename(&mut self) -> Result<(), NodeError> {
        let Some(window) = self.renaming.take() else {
            return Ok(());
        };
        let Some(tag) = self.tag_text(window) else {
            return Ok(());
        };
        let Some((id, buffer)) = self.body_buffer(window) else {
            return Ok(());
        };
        let name = tag_name(&tag).to_string();
        if buffer.name() == name || buffer.kind() == BufferKind::Tag {
            return Ok(());
        }
        let group = Some(self.new_group());
        self.append_buffer(id, BufferOp::Name { name, group })?;
        Ok(())
    }

    /// Rewrites the editor's part of the tags whose buffers changed since the last call. A tag
    /// that another party leads is left to that party.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn refresh_tags(&mut self) -> Result<(), NodeError> {
        let touched = core::mem::take(&mut self.touched);
        if touched.is_empty() {
            return Ok(());
        }
        let windows = touched.iter().flat_map(|id| self.state.windows_with(*id));
        let windows: BTreeSet<WindowId> = windows.collect();
        for window in windows {
            self.refresh_tag(window)?;
        }
        self.touched.clear();
        Ok(())
    }

    fn refresh_tag(&mut self, window: WindowId) -> Result<(), NodeError> {
        let Some(tag) = self.state.window(window).map(|window| window.tag) else {
            return Ok(());
        };
        let (Some(text), Some((_, body))) = (self.tag_text(window), self.body_buffer(window))
        else {
            return Ok(());
        };
        let is_renaming = self.renaming == Some(window);
        let name = if is_renaming {
            tag_name(&text)
        } else {
            body.name()
        };
        let wanted = left_part(name, body);
        let splice = match text.split_once('|') {
            Some((left, _)) => {
                let old = String::from(left) + "|";
                if old == wanted {
                    return Ok(());
                }
                edit::difference(&Text::from(old.as_str()), &Text::from(wanted.as_str()))
            }
            None => {
                let len = text.chars().count() as u64;
                Some(Splice::new(Span::new(0, len), wanted + USER_PART))
            }
        };
        if !self.leads(Shard::Buffer(tag)) {
            return Ok(());
        }
        if let Some(splice) = splice {
            let op = BufferOp::Edit {
                splices: splice.into(),
                group: None,
                dot: None,
            };
            self.append_buffer(tag, op)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::tag_name;

    #[test]
    fn a_tags_name_ends_where_acme_ends_it() {
        for (tag, name) in [
            ("/a/b Del Snarf | Look ", "/a/b"),
            ("/a b/c d Del Snarf Undo | Look ", "/a b/c d"),
            ("/a b | Del Snarf", "/a"),
            ("x", "x"),
            ("", ""),
            (" Del Snarf |", ""),
            ("a\tb", "a"),
        ] {
            assert_eq!(tag_name(tag), name, "{tag}");
        }
    }
}
