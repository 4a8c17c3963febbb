//! The keyboard's place, and the sizes and places of windows and columns.

use apex_core::buffer::Buffer;
use apex_core::entry::{BufferKind, BufferOp, LayoutOp};
use apex_core::ids::{BufferId, ColumnId, Shard, ViewId, WindowId};
use apex_core::node::NodeError;
use apex_core::text::Span;

use super::App;
use super::files::join;
use crate::input::{Button, Direction};
use crate::layout::FULL_WEIGHT;

/// Weight of one row or column of cells, once the user has arranged them.
const CELL_WEIGHT: u32 = 10;
/// Rows that a window grows by at least, acme's figure.
const GROW_ROWS_MIN: u16 = 5;

impl App {
    /// Gives a view the keyboard.
    pub(super) fn set_focus(&mut self, view: ViewId) {
        if self.focus != Some(view) {
            self.commit_rename();
            self.finding = None;
            // Leaving a text ends a step of undo.
            self.typing = None;
            self.typed_from = None;
            self.anchor = None;
            self.goal = None;
        }
        self.focus = Some(view);
        self.last_window = view.window().or(self.last_window);
        if self.client.is_leading()
            && let Err(error) = self.node_mut().focus(Some(view))
        {
            self.complain(&error);
        }
    }

    /// Returns the view that has the keyboard; if none has it, says how to give it to one.
    pub(super) fn keyboard(&mut self) -> Option<ViewId> {
        if self.focus.is_none() {
            self.say("no text has the keyboard: click into one, or Alt-arrows");
        }
        self.focus
    }

    /// Makes the name in a tag that the user has changed the name of the buffer.
    pub(super) fn commit_rename(&mut self) {
        let renamed = self.node_mut().commit_rename();
        if let Err(error) = renamed.and_then(|()| self.name_absolutely()) {
            self.complain(&error);
        }
    }

    /// Completes names of files that do not say where: they are where the session began.
    fn name_absolutely(&mut self) -> Result<(), NodeError> {
        let node = self.node();
        let is_relative = |buffer: &Buffer| {
            let name = buffer.name();
            buffer.kind() == BufferKind::File && !name.is_empty() && !name.starts_with('/')
        };
        let relative: Vec<(BufferId, String)> = node
            .state()
            .windows()
            .filter_map(|(window, _)| node.state().buffer_of(ViewId::Body(window)))
            .filter(|id| node.leads(Shard::Buffer(*id)))
            .filter_map(|id| Some((id, node.state().buffer(id)?)))
            .filter(|(_, buffer)| is_relative(buffer))
            .map(|(id, buffer)| (id, buffer.name().to_owned()))
            .collect();
        for (id, name) in relative {
            let name = join(&self.directory(ViewId::Top), &name);
            let group = Some(self.node_mut().new_group());
            let op = BufferOp::Name { name, group };
            self.node_mut().append_buffer(id, op)?;
        }
        Ok(())
    }

    /// Returns the window that a view belongs to, else the one that had the keyboard last.
    pub(super) fn window_for(&self, view: ViewId) -> Option<WindowId> {
        let is_here = |window: &WindowId| self.node().state().window(*window).is_some();
        view.window().or(self.last_window).filter(is_here)
    }

    pub(super) fn tag_or_body(&mut self) {
        match self.focus {
            Some(ViewId::Body(window)) => self.focus_tag(window),
            Some(ViewId::Tag(window)) => self.set_focus(ViewId::Body(window)),
            Some(ViewId::Column(_) | ViewId::Top) | None => {
                let first = self
                    .screen
                    .columns
                    .iter()
                    .find_map(|column| column.windows.first());
                if let Some(window) = self
                    .selected
                    .and_then(ViewId::window)
                    .or(first.map(|w| w.id))
                {
                    self.set_focus(ViewId::Body(window));
                }
            }
        }
    }

    /// Gives a tag the keyboard: behind its text, where commands are typed, unless the user has
    /// been in it; where there is no name yet, in front of it, where the name is typed.
    fn focus_tag(&mut self, window: WindowId) {
        let tag = ViewId::Tag(window);
        self.set_focus(tag);
        let body = self.text(ViewId::Body(window));
        let is_named = body.is_none_or(|(_, body, _)| !body.name().is_empty());
        if is_named && self.dot(tag) == Span::at(0) {
            let end = self.text(tag).map_or(0, |(_, tag, _)| tag.text().len());
            self.set_dot(tag, Span::at(end));
        }
    }

    pub(super) fn focus_column_tag(&mut self) {
        let (column, _) = self.place_of_focus();
        if let Some(column) = self.screen.columns.get(column) {
            self.set_focus(ViewId::Column(column.id));
        }
    }

    /// Returns the column and the row where the keyboard is.
    fn place_of_focus(&self) -> (usize, u16) {
        match self.focus {
            Some(ViewId::Tag(id) | ViewId::Body(id)) => self
                .screen
                .window(id)
                .map_or((0, 0), |(c, _, area)| (c, area.area.y)),
            Some(ViewId::Column(id)) => (
                self.screen
                    .columns
                    .iter()
                    .position(|c| c.id == id)
                    .unwrap_or(0),
                0,
            ),
            Some(ViewId::Top) | None => (0, 0),
        }
    }

    pub(super) fn focus_towards(&mut self, direction: Direction) {
        let (column, row) = self.place_of_focus();
        let columns = &self.screen.columns;
        if columns.is_empty() {
            return;
        }
        let count = columns.len();
        let (column, is_next) = match direction {
            Direction::Left => ((column + count - 1) % count, false),
            Direction::Right => ((column + 1) % count, false),
            Direction::Up | Direction::Down => (column, true),
        };
        let windows = &columns[column].windows;
        if windows.is_empty() {
            let id = columns[column].id;
            return self.set_focus(ViewId::Column(id));
        }
        let here = windows
            .iter()
            .rposition(|window| window.area.y <= row)
            .unwrap_or(0);
        let is_in_window = self.focus.and_then(ViewId::window).is_some();
        let index = match direction {
            Direction::Down if is_next && is_in_window => (here + 1) % windows.len(),
            Direction::Up if is_next => (here + windows.len() - 1) % windows.len(),
            _ => here,
        };
        let window = windows[index].id;
        self.set_focus(ViewId::Body(window));
        self.uncover(window);
    }

    /// Makes sure that some of a window's body is in sight.
    pub(super) fn uncover(&mut self, window: WindowId) {
        self.uncover_rows(window, 1);
    }

    /// Makes sure that so many rows of a window's body are in sight, as far as the column allows.
    pub(super) fn uncover_rows(&mut self, window: WindowId, rows: u16) {
        self.arrange();
        let height = |app: &Self| {
            app.screen
                .window(window)
                .map(|(_, _, area)| area.body.height)
        };
        while self.client.is_leading()
            && let Some(before) = height(self).filter(|height| *height < rows)
        {
            self.grow(window, Button::First);
            self.arrange();
            if height(self) <= Some(before) {
                return;
            }
        }
    }

    pub(super) fn grow_focused(&mut self, button: Button) {
        match self.focus.and_then(|view| self.window_for(view)) {
            Some(window) => self.grow(window, button),
            None => self.say("no window has the keyboard: click into one, or Alt-arrows"),
        }
    }

    /// Makes a window larger (first button), as large as the tags of the others allow (second),
    /// or the only one in sight (third).
    pub(super) fn grow(&mut self, window: WindowId, button: Button) {
        if !self.may_arrange() {
            return;
        }
        let Some((column, index, _)) = self.screen.window(window) else {
            return;
        };
        let column = &self.screen.columns[column];
        let mut rows: Vec<u16> = column.windows.iter().map(|w| w.area.height).collect();
        let ids: Vec<WindowId> = column.windows.iter().map(|w| w.id).collect();
        let weights: Vec<u32> = match button {
            Button::First => {
                if let Some(tallest) = uncover_tags(&mut rows) {
                    rows[tallest] = rows[tallest].max(1);
                }
                take_rows(&mut rows, index);
                rows.iter().map(|rows| weight(*rows)).collect()
            }
            Button::Second => (0..rows.len()).map(|i| u32::from(i == index)).collect(),
            Button::Third => (0..rows.len())
                .map(|i| if i == index { FULL_WEIGHT } else { 1 })
                .collect(),
        };
        self.weigh(ids.into_iter().zip(weights).collect());
    }

    fn weigh(&mut self, weights: Vec<(WindowId, u32)>) {
        self.arrange_by(LayoutOp::WindowWeights(weights));
    }

    fn arrange_by(&mut self, op: LayoutOp) {
        let appended: Result<_, NodeError> = self.node_mut().append_layout(op);
        if let Err(error) = appended {
            self.complain(&error);
        }
        self.arrange();
    }

    /// Moves a window to where its box was dropped.
    pub(super) fn drop_window(&mut self, window: WindowId, x: u16, y: u16) {
        if !self.may_arrange() {
            return;
        }
        let Some(target) = self
            .screen
            .columns
            .iter()
            .find(|c| x >= c.area.x && x < c.area.right())
        else {
            return;
        };
        let column = target.id;
        let y = y.clamp(target.tag.bottom(), target.area.bottom().max(1) - 1);
        let mut places: Vec<(WindowId, u16, u16)> = target
            .windows
            .iter()
            .map(|w| (w.id, w.area.y, w.area.height))
            .collect();
        if let Some(index) = places.iter().position(|(id, _, _)| *id == window) {
            let (_, top, height) = places.remove(index);
            match index.checked_sub(1) {
                Some(above) => places[above].2 += height,
                None => {
                    if let Some(next) = places.first_mut() {
                        next.1 = top;
                        next.2 += height;
                    }
                }
            }
        }
        self.leave_rows_to_neighbour(window, column);
        let index = places.iter().rposition(|(_, top, _)| *top <= y);
        let (index, rows) = match index {
            Some(index) => {
                let (_, top, height) = &mut places[index];
                let upper = (y - *top).max(1);
                let lower = height.saturating_sub(upper).max(1);
                *height = upper;
                (index + 1, lower)
            }
            None => (0, target_height(&places)),
        };
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let lower = weight(rows).max(CELL_WEIGHT);
        self.arrange_by(LayoutOp::WindowMove {
            window,
            column,
            index,
            weight: lower,
        });
        let mut weights: Vec<_> = places
            .iter()
            .map(|(id, _, rows)| (*id, weight(*rows)))
            .collect();
        weights.push((window, lower));
        self.weigh(weights);
        self.set_focus(ViewId::Body(window));
    }

    /// In the column that a window leaves for another, its neighbour takes its rows.
    fn leave_rows_to_neighbour(&mut self, window: WindowId, target: ColumnId) {
        let Some((column, index, area)) = self.screen.window(window) else {
            return;
        };
        let column = &self.screen.columns[column];
        let heir = if index > 0 { index - 1 } else { 1 };
        if column.id == target || column.windows.len() < 2 {
            return;
        }
        let weights = column
            .windows
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != index)
            .map(|(i, w)| {
                let taken = if i == heir { area.area.height } else { 0 };
                (w.id, weight(w.area.height + taken))
            })
            .collect();
        self.weigh(weights);
    }

    /// Moves a column to where its box was dropped.
    pub(super) fn drop_column(&mut self, column: ColumnId, x: u16) {
        if !self.may_arrange() {
            return;
        }
        let mut places: Vec<(ColumnId, u16, u16)> = self
            .screen
            .columns
            .iter()
            .map(|c| (c.id, c.area.x, c.area.width))
            .collect();
        let Some(index) = places.iter().position(|(id, _, _)| *id == column) else {
            return;
        };
        if places.len() < 2 {
            return;
        }
        let (_, left, width) = places.remove(index);
        match index.checked_sub(1) {
            Some(before) => places[before].2 += width,
            None => {
                places[0].1 = left;
                places[0].2 += width;
            }
        }
        let target = places
            .iter()
            .rposition(|(_, left, _)| *left <= x)
            .unwrap_or(0);
        let (_, left, width) = &mut places[target];
        let before = x.saturating_sub(*left).max(2);
        let rest = width.saturating_sub(before).max(2);
        *width = before;
        let index = u32::try_from(target + 1).unwrap_or(u32::MAX);
        self.arrange_by(LayoutOp::ColumnMove { column, index });
        let mut weights: Vec<_> = places
            .iter()
            .map(|(id, _, width)| (*id, u32::from(*width).max(1) * CELL_WEIGHT))
            .collect();
        weights.push((column, u32::from(rest) * CELL_WEIGHT));
        self.arrange_by(LayoutOp::ColumnWeights(weights));
    }

    /// Moves the window that has the keyboard past its neighbour, or into the next column.
    pub(super) fn move_focused(&mut self, direction: Direction) {
        let Some(window) = self.focus.and_then(ViewId::window) else {
            return self.say("no window has the keyboard: click into one, or Alt-arrows");
        };
        if !self.may_arrange() {
            return;
        }
        let Some((column, index, area)) = self.screen.window(window) else {
            return;
        };
        let columns = &self.screen.columns;
        let to = match direction {
            Direction::Up if index > 0 => Some((column, index - 1)),
            Direction::Down if index + 1 < columns[column].windows.len() => {
                Some((column, index + 1))
            }
            Direction::Left if column > 0 => Some((column - 1, columns[column - 1].windows.len())),
            Direction::Right if column + 1 < columns.len() => {
                Some((column + 1, columns[column + 1].windows.len()))
            }
            Direction::Up | Direction::Down | Direction::Left | Direction::Right => None,
        };
        let Some((column, index)) = to else {
            return self.say("nothing there to move to");
        };
        let column = columns[column].id;
        self.leave_rows_to_neighbour(window, column);
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let weight = weight(area.area.height).max(CELL_WEIGHT);
        self.arrange_by(LayoutOp::WindowMove {
            window,
            column,
            index,
            weight,
        });
    }
}

/// Returns the weight of a window of so many rows; a tag alone stays a tag alone.
fn weight(rows: u16) -> u32 {
    if rows <= 1 {
        0
    } else {
        u32::from(rows) * CELL_WEIGHT
    }
}

fn target_height(places: &[(WindowId, u16, u16)]) -> u16 {
    places
        .iter()
        .map(|(_, _, height)| *height)
        .max()
        .unwrap_or(10)
        .max(2)
        / 2
}

/// Gives each hidden window a row, from the tallest; returns which that is.
fn uncover_tags(rows: &mut [u16]) -> Option<usize> {
    let tallest = (0..rows.len()).max_by_key(|i| rows[*i])?;
    for i in 0..rows.len() {
        if rows[i] == 0 && rows[tallest] > 1 {
            rows[i] = 1;
            rows[tallest] -= 1;
        }
    }
    Some(tallest)
}

/// Takes rows from the neighbours of `index`, nearest first; tags stay.
fn take_rows(rows: &mut [u16], index: usize) {
    let mut wanted = GROW_ROWS_MIN.max(rows[index] / 2);
    for distance in 1..rows.len() {
        for neighbour in [index.checked_add(distance), index.checked_sub(distance)] {
            let Some(neighbour) = neighbour.filter(|i| *i < rows.len()) else {
                continue;
            };
            let taken = wanted.min(rows[neighbour].saturating_sub(1));
            rows[neighbour] -= taken;
            rows[index] += taken;
            wanted -= taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_by_half_at_the_cost_of_its_neighbours() {
        let check = |rows: &[u16], index, expect: &[u16]| {
            let mut rows = rows.to_vec();
            let _tallest = uncover_tags(&mut rows);
            take_rows(&mut rows, index);
            assert_eq!(rows, expect);
        };
        check(&[10, 10], 0, &[15, 5]);
        check(&[20, 3, 10], 0, &[30, 1, 2]);
        check(&[10, 1, 10], 1, &[10, 6, 5]);
        check(&[22, 0, 0], 1, &[15, 6, 1]);
        check(&[5], 0, &[5]);
    }
}
