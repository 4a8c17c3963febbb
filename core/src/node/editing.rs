//! Editing as a leader does it: typing, replacing, selecting.

use alloc::string::String;

use super::{Node, NodeError};
use crate::buffer::View;
use crate::edit::Splice;
use crate::entry::{BufferKind, BufferOp, Dot};
use crate::ids::{BufferId, GroupId, ViewId};
use crate::limits;
use crate::text::Span;

impl Node {
    /// Returns the buffer that a view shows.
    ///
    /// # Errors
    /// No such view.
    pub fn buffer_of(&self, view: ViewId) -> Result<BufferId, NodeError> {
        self.state
            .buffer_of(view)
            .ok_or(NodeError::Missing("the view"))
    }

    /// Returns a view's selection and origin; at the start for a view that was not added.
    ///
    /// # Errors
    /// No such view.
    pub fn view(&self, view: ViewId) -> Result<View, NodeError> {
        let id = self.buffer_of(view)?;
        let buffer = self
            .state
            .buffer(id)
            .ok_or(NodeError::Missing("the buffer"))?;
        Ok(buffer.view(view).unwrap_or_default())
    }

    /// Replaces a span of a view's text and selects `dot` in it afterwards.
    ///
    /// Tags are not part of undo; in them `group` is ignored.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn replace(
        &mut self,
        view: ViewId,
        splice: Splice,
        dot: Span,
        group: GroupId,
    ) -> Result<(), NodeError> {
        let id = self.buffer_of(view)?;
        let buffer = self
            .state
            .buffer(id)
            .ok_or(NodeError::Missing("the buffer"))?;
        let group = (buffer.kind() != BufferKind::Tag).then_some(group);
        let dot = buffer.view(view).map(|_| Dot { view, at: dot });
        let last = self.replace_but_last(id, splice, group)?;
        let edit = BufferOp::Edit {
            splices: last.into(),
            group,
            dot,
        };
        self.append_buffer(id, edit)?;
        self.note_rename(view);
        Ok(())
    }

    /// Cuts a text that is longer than one edit brings, and appends all pieces but the last, which
    /// it returns. They are one step of undo.
    fn replace_but_last(
        &mut self,
        id: BufferId,
        mut splice: Splice,
        group: Option<GroupId>,
    ) -> Result<Splice, NodeError> {
        while splice.text.len() > limits::PIECE_LEN_MAX {
            let end = splice.text.floor_char_boundary(limits::PIECE_LEN_MAX);
            let (piece, rest) = splice.text.split_at(end);
            let first = Splice::new(splice.at, piece);
            splice = Splice::new(Span::at(splice.at.q0 + first.count()), rest);
            let (splices, dot) = (first.into(), None);
            let edit = BufferOp::Edit {
                splices,
                group,
                dot,
            };
            self.append_buffer(id, edit)?;
        }
        Ok(splice)
    }

    /// Replaces a view's selection by typed text and puts the cursor behind it.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn type_text(&mut self, view: ViewId, text: &str, group: GroupId) -> Result<(), NodeError> {
        let at = self.view(view)?.dot;
        let splice = Splice::new(at, text);
        let end = at.q0 + splice.count();
        self.replace(view, splice, Span::at(end), group)
    }

    /// Replaces a view's selection by text that stays selected, as Paste does.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn paste(&mut self, view: ViewId, text: &str, group: GroupId) -> Result<(), NodeError> {
        let at = self.view(view)?.dot;
        let splice = Splice::new(at, text);
        let dot = Span::new(at.q0, at.q0 + splice.count());
        self.replace(view, splice, dot, group)
    }

    /// Deletes a span of a view's text.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn delete(&mut self, view: ViewId, span: Span, group: GroupId) -> Result<(), NodeError> {
        if span.is_empty() {
            return Ok(());
        }
        self.replace(view, Splice::new(span, ""), Span::at(span.q0), group)
    }

    /// Sets a view's selection, clamped to the text. Nothing is appended when it is so already.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn select(&mut self, view: ViewId, span: Span) -> Result<(), NodeError> {
        let id = self.buffer_of(view)?;
        let buffer = self
            .state
            .buffer(id)
            .ok_or(NodeError::Missing("the buffer"))?;
        let at = span.clamped(buffer.text().len());
        if buffer.view(view).is_some_and(|view| view.dot == at) {
            return Ok(());
        }
        self.append_buffer(id, BufferOp::Select(Dot { view, at }))?;
        Ok(())
    }

    /// Sets where a view's first visible line begins, clamped to the text.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn set_origin(&mut self, view: ViewId, at: u64) -> Result<(), NodeError> {
        let id = self.buffer_of(view)?;
        let buffer = self
            .state
            .buffer(id)
            .ok_or(NodeError::Missing("the buffer"))?;
        let at = at.min(buffer.text().len());
        if buffer.view(view).is_some_and(|view| view.origin == at) {
            return Ok(());
        }
        self.append_buffer(id, BufferOp::Origin { view, at })?;
        Ok(())
    }

    /// Returns the selected text of a view.
    ///
    /// # Errors
    /// No such view.
    pub fn selected(&self, view: ViewId) -> Result<String, NodeError> {
        let id = self.buffer_of(view)?;
        let buffer = self
            .state
            .buffer(id)
            .ok_or(NodeError::Missing("the buffer"))?;
        Ok(buffer
            .view(view)
            .map_or_else(String::new, |view| buffer.text().slice(view.dot)))
    }

    /// Sets a setting of a buffer.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn set_buffer(
        &mut self,
        id: BufferId,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), NodeError> {
        let op = BufferOp::Setting {
            key: key.into(),
            value: value.map(String::from),
        };
        self.append_buffer(id, op)?;
        Ok(())
    }
}
