//! The text of tags: the editor's part on the left is rewritten, the user's part is left alone.
//!
//! A window's tag is `NAME Del Snarf [Undo] [Redo] [Put|Get] |` and what the user wrote behind the
//! bar (acme's `wind.c`). The name is what the user may edit on the left: it renames the buffer.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::recent::ChangeOf;
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

    /// Returns where the bar stood before each of the last changes of a window's tag, which are in
    /// order. Empty for other texts, and for a tag without one.
    pub(super) fn bars_before(&self, tag: BufferId, changes: &[ChangeOf<'_>]) -> Vec<u64> {
        let mut windows = self.state.windows_with(tag);
        let is_tag = |id| {
            self.state
                .window(id)
                .is_some_and(|window| window.tag == tag)
        };
        let window = windows.find(|id| is_tag(*id));
        let text = window.and_then(|window| self.tag_text(window));
        let Some(bar) = text.and_then(|text| text.chars().position(|c| c == '|')) else {
            return Vec::new();
        };
        let back = |bar: &mut u64, (_, splices): &ChangeOf<'_>| {
            *bar = edit::map_back(splices, *bar);
            Some(*bar)
        };
        let mut bars: Vec<u64> = changes.iter().rev().scan(bar as u64, back).collect();
        bars.reverse();
        bars
    }

    /// The lead of a shard went to another party, or to the daemon. If it has the tag in which the
    /// user is editing a name, or the text of that name, what he has typed is kept for who leads by
    /// now: that party rewrites the tag.
    pub(super) fn leave_name(&mut self, shard: Shard) {
        let Some((window, body)) = self.renamed() else {
            return;
        };
        let tag = self.state.window(window).map(|window| window.tag);
        let is_it = |id: BufferId| shard == Shard::Buffer(id);
        if (is_it(body) || tag.is_some_and(is_it)) && !self.leads(shard) {
            let name = self.name_in_hand();
            self.overtaken_names.extend(name);
            self.renaming = None;
        }
    }

    /// Returns the window whose name the user is editing, and its text.
    fn renamed(&self) -> Option<(WindowId, BufferId)> {
        let window = self.renaming?;
        self.body_buffer(window).map(|(body, _)| (window, body))
    }

    /// Returns the text whose name the user is editing, and the name as it reads now.
    fn name_in_hand(&self) -> Option<(BufferId, String)> {
        let (window, body) = self.renamed()?;
        Some((body, tag_name(&self.tag_text(window)?).to_string()))
    }

    /// Takes the names that were typed in tags which another party leads by now.
    pub(super) fn take_overtaken_names(&mut self) -> Vec<(BufferId, String)> {
        core::mem::take(&mut self.overtaken_names)
    }

    /// A fresh node goes on with the name that the user was editing at the old one, if it leads all
    /// that takes. Returns the names that are to be proposed to who leads.
    pub(super) fn take_renaming(&mut self, old: &Self) -> Vec<(BufferId, String)> {
        let mut names = old.overtaken_names.clone();
        let Some((window, body)) = old.renamed() else {
            return names;
        };
        let tag = self.state.window(window).map(|window| window.tag);
        if self.leads(Shard::Buffer(body)) && tag.is_some_and(|tag| self.leads(Shard::Buffer(tag)))
        {
            self.renaming = Some(window);
        } else {
            names.extend(old.name_in_hand());
        }
        names
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
