//! Windows and columns as a leader makes, places and closes them.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::tags::{COLUMN_TAG, TOP_TAG};
use super::{Node, NodeError};
use crate::edit::Splice;
use crate::entry::{Body, BufferKind, BufferOp, LayoutOp, WindowOp};
use crate::ids::{BufferId, ColumnId, Shard, ViewId, WindowId};
use crate::layout::{Column, WEIGHT_DEFAULT};
use crate::text::Span;

/// Where a new window goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Into the column that has the focus, splitting its largest window.
    #[default]
    Active,
    /// Into the last column, as `+Errors` goes.
    LastColumn,
    /// Below a window, splitting it.
    Below(WindowId),
    /// At the end of a column.
    Column(ColumnId),
}

/// The place of a new window, and what the window it splits keeps.
#[derive(Clone, Copy)]
struct Place {
    column: ColumnId,
    index: u32,
    weight: u32,
    split: Option<(WindowId, u32)>,
}

impl Node {
    /// Lays a new session out: top row, one column, and a directory window.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn init_session(&mut self, directory: &str, listing: &str) -> Result<WindowId, NodeError> {
        self.create_shard(Shard::Layout)?;
        let top = self.new_tag(ViewId::Top, TOP_TAG)?;
        self.append_layout(LayoutOp::Create { top })?;
        let column = self.new_column()?;
        let body = self.new_buffer(BufferKind::Directory, directory)?;
        self.append_buffer(
            body,
            BufferOp::Load {
                text: listing.into(),
            },
        )?;
        let window = self.new_window(body, Placement::Column(column))?;
        self.focus(Some(ViewId::Body(window)))?;
        self.refresh_tags()?;
        Ok(window)
    }

    /// Makes the buffer of a tag, with its view.
    fn new_tag(&mut self, view: ViewId, text: &str) -> Result<BufferId, NodeError> {
        let tag = self.new_buffer(BufferKind::Tag, "")?;
        self.append_buffer(tag, BufferOp::ViewAdd(view))?;
        if !text.is_empty() {
            let splices = vec![Splice::new(Span::at(0), text)];
            self.append_buffer(
                tag,
                BufferOp::Edit {
                    splices: splices.into(),
                    group: None,
                    dot: None,
                },
            )?;
        }
        Ok(tag)
    }

    /// Adds a column at the right, taking two fifths of the last one, and returns it.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn new_column(&mut self) -> Result<ColumnId, NodeError> {
        let id = self.new_column_id();
        let last = self.state.layout().and_then(|layout| layout.columns.last());
        let (old, weight) = match last {
            Some(last) => {
                let taken = last.weight / 5 * 2;
                (Some((last.id, last.weight - taken)), taken.max(1))
            }
            None => (None, WEIGHT_DEFAULT),
        };
        let tag = self.new_tag(ViewId::Column(id), COLUMN_TAG)?;
        let index = u32::MAX;
        self.append_layout(LayoutOp::ColumnAdd {
            column: id,
            tag,
            index,
            weight,
        })?;
        if let Some(old) = old {
            self.append_layout(LayoutOp::ColumnWeights(vec![old]))?;
        }
        Ok(id)
    }

    /// Removes a column with all its windows. Does not ask whether they are clean.
    ///
    /// # Errors
    /// No such column, or as [`Node::append`].
    pub fn close_column(&mut self, id: ColumnId) -> Result<(), NodeError> {
        let layout = self
            .state
            .layout()
            .ok_or(NodeError::Missing("the layout"))?;
        let column = layout.column(id).ok_or(NodeError::Missing("the column"))?;
        let (tag, weight) = (column.tag, column.weight);
        let windows: Vec<WindowId> = column.windows.iter().map(|slot| slot.window).collect();
        let index = layout
            .columns
            .iter()
            .position(|column| column.id == id)
            .unwrap_or(0);
        let heir = if index > 0 { index - 1 } else { 1 };
        let heir = layout
            .columns
            .get(heir)
            .map(|heir| (heir.id, heir.weight + weight));
        for window in windows {
            self.close_window(window)?;
        }
        self.append_layout(LayoutOp::ColumnDel(id))?;
        if let Some(heir) = heir {
            self.append_layout(LayoutOp::ColumnWeights(vec![heir]))?;
        }
        if self.focus_view() == Some(ViewId::Column(id)) {
            self.focus(None)?;
        }
        self.delete_shard(Shard::Buffer(tag))
    }

    /// Returns which view has the keyboard.
    #[must_use]
    pub fn focus_view(&self) -> Option<ViewId> {
        self.state.layout().and_then(|layout| layout.focus)
    }

    /// Gives a view the keyboard.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn focus(&mut self, view: Option<ViewId>) -> Result<(), NodeError> {
        if self.focus_view() != view {
            self.append_layout(LayoutOp::Focus(view))?;
        }
        Ok(())
    }

    /// Shows a buffer in a new window. The focus stays where it is.
    ///
    /// # Errors
    /// No such buffer or column, or as [`Node::append`].
    pub fn new_window(
        &mut self,
        body: BufferId,
        placement: Placement,
    ) -> Result<WindowId, NodeError> {
        if self.state.buffer(body).is_none() {
            return Err(NodeError::Missing("the buffer"));
        }
        let place = self.place_for(placement)?;
        let id = WindowId::new(self.alloc());
        let tag = self.new_tag(ViewId::Tag(id), "")?;
        self.create_shard(Shard::Window(id))?;
        self.append_window(
            id,
            WindowOp::Create {
                tag,
                body: Body::Buffer(body),
            },
        )?;
        // A buffer that the daemon still loads gets its view with its lease.
        if self.leads(Shard::Buffer(body)) {
            self.append_buffer(body, BufferOp::ViewAdd(ViewId::Body(id)))?;
        }
        self.place(id, &place)?;
        self.refresh_tags()?;
        Ok(id)
    }

    /// Adds the views that windows on the buffers of this node still lack.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn add_missing_views(&mut self) -> Result<(), NodeError> {
        let lacks = |body: BufferId, view: ViewId| {
            self.leads(Shard::Buffer(body))
                && self
                    .state
                    .buffer(body)
                    .is_some_and(|buffer| buffer.view(view).is_none())
        };
        let missing: Vec<(BufferId, ViewId)> = self
            .state
            .windows()
            .filter_map(|(id, window)| match window.body {
                Body::Buffer(body) => Some((body, ViewId::Body(id))),
                Body::Term(_) => None,
            })
            .filter(|(body, view)| lacks(*body, *view))
            .collect();
        for (body, view) in missing {
            self.append_buffer(body, BufferOp::ViewAdd(view))?;
        }
        Ok(())
    }

    /// Mends what a leader left half done that lost the layout while it made or closed windows:
    /// those in no column are placed, those without a text or a tag, and places and tags without a
    /// window, go. Returns whether there was anything.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn mend_layout(&mut self) -> Result<bool, NodeError> {
        if !self.is_unmended || !self.leads(Shard::Layout) {
            return Ok(false);
        }
        self.is_unmended = false;
        let Some(layout) = self.state.layout() else {
            return Ok(false);
        };
        let placed: BTreeSet<WindowId> = layout.windows().collect();
        let all: BTreeSet<WindowId> = self.state.windows().map(|(id, _)| id).collect();
        let is_half = |id: &WindowId| {
            let window = self.state.window(*id);
            window.is_some_and(|window| {
                self.state.buffer(window.tag).is_none() || !self.has_text(window.body)
            })
        };
        let half: BTreeSet<WindowId> = all.iter().copied().filter(is_half).collect();
        let gone: Vec<WindowId> = placed
            .iter()
            .copied()
            .filter(|id| !all.contains(id) || half.contains(id))
            .collect();
        let unplaced: Vec<WindowId> = all
            .difference(&placed)
            .copied()
            .filter(|id| !half.contains(id))
            .collect();
        for window in &gone {
            self.append_layout(LayoutOp::WindowDel(*window))?;
            if self.focus_view().and_then(ViewId::window) == Some(*window) {
                self.focus(None)?;
            }
        }
        for window in &unplaced {
            let place = self.place_for(Placement::LastColumn)?;
            self.place(*window, &place)?;
        }
        let mut ended: Vec<Shard> = half.into_iter().map(Shard::Window).collect();
        ended.extend(self.loose_tags().into_iter().map(Shard::Buffer));
        // What is on its way here, by its leader's end or as a lease, is ended when it has come.
        self.is_unmended = ended.iter().any(|shard| !self.leads(*shard));
        ended.retain(|shard| self.leads(*shard));
        for shard in &ended {
            let text = match shard {
                Shard::Window(id) => self.state.buffer_of(ViewId::Body(*id)),
                _ => None,
            };
            self.delete_shard(*shard)?;
            // A text whose last window went without it is shown again.
            if let Some(text) = text.filter(|text| self.state.buffer(*text).is_some())
                && self.window_of_buffer(text).is_none()
            {
                self.new_window(text, Placement::LastColumn)?;
            }
        }
        Ok(!(gone.is_empty() && unplaced.is_empty() && ended.is_empty()))
    }

    fn has_text(&self, body: Body) -> bool {
        match body {
            Body::Buffer(body) => self.state.buffer(body).is_some(),
            Body::Term(_) => true,
        }
    }

    /// Returns the tags of nothing that is there with a text.
    fn loose_tags(&self) -> Vec<BufferId> {
        let layout = self.state.layout();
        let columns = layout.into_iter().flat_map(|layout| &layout.columns);
        let mut tags: BTreeSet<BufferId> = columns.map(|column| column.tag).collect();
        tags.extend(layout.map(|layout| layout.top));
        let windows = self.state.windows();
        let windows = windows.filter(|(_, window)| self.has_text(window.body));
        tags.extend(windows.map(|(_, window)| window.tag));
        let all = self.state.buffers();
        let all = all.filter(|(_, buffer)| buffer.kind() == BufferKind::Tag);
        all.map(|(id, _)| id)
            .filter(|id| !tags.contains(id))
            .collect()
    }

    fn place(&mut self, window: WindowId, place: &Place) -> Result<(), NodeError> {
        let Place {
            column,
            index,
            weight,
            split,
        } = *place;
        self.append_layout(LayoutOp::WindowAdd {
            window,
            column,
            index,
            weight,
        })?;
        if let Some(split) = split {
            self.append_layout(LayoutOp::WindowWeights(vec![split]))?;
        }
        Ok(())
    }

    /// Returns column, index and weight of a new window, and what the window it splits keeps.
    fn place_for(&mut self, placement: Placement) -> Result<Place, NodeError> {
        if self
            .state
            .layout()
            .is_some_and(|layout| layout.columns.is_empty())
        {
            self.new_column()?;
        }
        let layout = self
            .state
            .layout()
            .ok_or(NodeError::Missing("the layout"))?;
        let missing = NodeError::Missing("the column");
        let column = match placement {
            Placement::Active => self.active_column(),
            Placement::LastColumn => layout.columns.last(),
            Placement::Below(window) => layout
                .place(window)
                .and_then(|(column, _)| layout.column(column)),
            Placement::Column(column) => layout.column(column),
        };
        let column = column.ok_or(missing)?;
        let split = match placement {
            Placement::Below(window) => column.windows.iter().position(|s| s.window == window),
            _ => (0..column.windows.len()).max_by_key(|i| (column.windows[*i].weight, *i)),
        };
        let Some(split) = split else {
            let (index, weight) = (0, WEIGHT_DEFAULT);
            return Ok(Place {
                column: column.id,
                index,
                weight,
                split: None,
            });
        };
        let slot = column.windows[split];
        let taken = slot.weight / 2;
        let index = u32::try_from(split + 1).unwrap_or(u32::MAX);
        let split = Some((slot.window, slot.weight - taken));
        Ok(Place {
            column: column.id,
            index,
            weight: taken,
            split,
        })
    }

    /// Returns the column that has the focus, else the last one.
    #[must_use]
    pub fn active_column(&self) -> Option<&Column> {
        let layout = self.state.layout()?;
        let focused = match layout.focus? {
            ViewId::Column(column) => Some(column),
            view => view
                .window()
                .and_then(|window| layout.place(window))
                .map(|(id, _)| id),
        };
        focused
            .and_then(|id| layout.column(id))
            .or_else(|| layout.columns.last())
    }

    /// Shows a window's buffer in a second window below it, with a view of its own.
    ///
    /// # Errors
    /// No such window, a terminal, or as [`Node::append`].
    pub fn zerox(&mut self, window: WindowId) -> Result<WindowId, NodeError> {
        let old = ViewId::Body(window);
        let body = self.buffer_of(old)?;
        let view = self.view(old)?;
        let id = self.new_window(body, Placement::Below(window))?;
        self.select(ViewId::Body(id), view.dot)?;
        self.set_origin(ViewId::Body(id), view.origin)?;
        Ok(id)
    }

    /// Closes a window, and its buffer when no other window shows it. Does not ask whether it is
    /// clean.
    ///
    /// # Errors
    /// No such window, or as [`Node::append`].
    pub fn close_window(&mut self, window: WindowId) -> Result<(), NodeError> {
        let closed = self
            .state
            .window(window)
            .ok_or(NodeError::Missing("the window"))?;
        let (tag, body) = (closed.tag, closed.body);
        let layout = self
            .state
            .layout()
            .ok_or(NodeError::Missing("the layout"))?;
        let heir = layout.place(window).and_then(|(column, index)| {
            let windows = &layout.column(column)?.windows;
            let heir = if index > 0 {
                windows.get(index - 1)
            } else {
                windows.get(1)
            }?;
            Some((heir.window, heir.weight + windows[index].weight))
        });
        let is_placed = layout.place(window).is_some();
        let had_focus = self.focus_view().and_then(ViewId::window) == Some(window);
        if is_placed {
            self.append_layout(LayoutOp::WindowDel(window))?;
        }
        if let Some(heir) = heir {
            self.append_layout(LayoutOp::WindowWeights(vec![heir]))?;
        }
        if had_focus {
            self.focus(heir.map(|(window, _)| ViewId::Body(window)))?;
        }
        if let Body::Buffer(body) = body {
            self.leave_buffer(body, window)?;
        }
        if self.renaming == Some(window) {
            self.renaming = None;
        }
        self.delete_shard(Shard::Window(window))?;
        self.delete_shard(Shard::Buffer(tag))
    }

    fn leave_buffer(&mut self, body: BufferId, window: WindowId) -> Result<(), NodeError> {
        let is_shared = self.state.windows_of(body).any(|other| other != window);
        if is_shared {
            self.append_buffer(body, BufferOp::ViewDel(ViewId::Body(window)))?;
            return Ok(());
        }
        self.delete_shard(Shard::Buffer(body))
    }

    /// Returns the window that shows a buffer: the focused one if it does, else the first.
    #[must_use]
    pub fn window_of_buffer(&self, buffer: BufferId) -> Option<WindowId> {
        let focused = self.focus_view().and_then(ViewId::window);
        let mut windows = self.state.windows_of(buffer);
        let first = windows.next()?;
        Some(
            windows
                .find(|window| Some(*window) == focused)
                .unwrap_or(first),
        )
    }

    /// Returns the scratch window of a name, made in the last column if there is none.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn scratch_window(
        &mut self,
        name: &str,
        placement: Placement,
    ) -> Result<(BufferId, WindowId), NodeError> {
        let buffer = match self.state.buffer_named(name) {
            Some(buffer) => buffer,
            None => self.new_buffer(BufferKind::Scratch, name)?,
        };
        let window = match self.window_of_buffer(buffer) {
            Some(window) => window,
            None => self.new_window(buffer, placement)?,
        };
        Ok((buffer, window))
    }

    /// Appends to a scratch window (`DIR/+Errors`, `DIR/+Recovered`), made if there is none. Views
    /// that stood at the end follow the new text.
    ///
    /// # Errors
    /// As [`Node::append`].
    pub fn append_scratch(
        &mut self,
        name: &str,
        text: &str,
    ) -> Result<(BufferId, WindowId), NodeError> {
        let (id, window) = self.scratch_window(name, Placement::LastColumn)?;
        let buffer = self
            .state
            .buffer(id)
            .ok_or(NodeError::Missing("the buffer"))?;
        let end = buffer.text().len();
        let followers: Vec<ViewId> = buffer
            .views()
            .filter(|(_, view)| view.dot == Span::at(end))
            .map(|(view, _)| view)
            .collect();
        let splices = vec![Splice::new(Span::at(end), text)];
        self.append_buffer(
            id,
            BufferOp::Edit {
                splices: splices.into(),
                group: None,
                dot: None,
            },
        )?;
        for view in followers {
            self.select(view, Span::at(u64::MAX))?;
        }
        Ok((id, window))
    }

    /// Returns the directory that a window's name stands for, ending in a slash; purely textual.
    #[must_use]
    pub fn directory_of(&self, view: ViewId) -> Option<String> {
        let window = view.window()?;
        let tag = self.tag_text(window)?;
        let name = match self.state.buffer_of(ViewId::Body(window)) {
            Some(body) if self.renaming != Some(window) => {
                self.state.buffer(body)?.name().to_string()
            }
            _ => super::tags::tag_name(&tag).to_string(),
        };
        name.rfind('/').map(|slash| name[..=slash].to_string())
    }
}
