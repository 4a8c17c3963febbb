//! Columns and the windows in them, top to bottom, with relative sizes.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::buffer::OpError;
use crate::entry::LayoutOp;
use crate::ids::{BufferId, ColumnId, ViewId, WindowId};

/// Weight of a column or window that nobody resized.
pub const WEIGHT_DEFAULT: u32 = 1000;

/// A window's place in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Which window.
    pub window: WindowId,
    /// Its height relative to its neighbours; 0 shows the tag alone.
    pub weight: u32,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its id.
    pub id: ColumnId,
    /// The buffer of its tag.
    pub tag: BufferId,
    /// Its width relative to its neighbours.
    pub weight: u32,
    /// Its windows, top to bottom.
    pub windows: Vec<Slot>,
}

/// The layout of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The buffer of the top row.
    pub top: BufferId,
    /// The columns, left to right.
    pub columns: Vec<Column>,
    /// Which view has the keyboard.
    pub focus: Option<ViewId>,
}

impl Layout {
    /// Returns an empty layout, as its Create entry makes it.
    #[must_use]
    pub const fn new(top: BufferId) -> Self {
        Self {
            top,
            columns: Vec::new(),
            focus: None,
        }
    }

    /// Returns a column.
    #[must_use]
    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        self.columns.iter().find(|column| column.id == id)
    }

    /// Returns the column and index of a window.
    #[must_use]
    pub fn place(&self, window: WindowId) -> Option<(ColumnId, usize)> {
        self.columns.iter().find_map(|column| {
            let index = column
                .windows
                .iter()
                .position(|slot| slot.window == window)?;
            Some((column.id, index))
        })
    }

    /// Returns all windows, column by column.
    pub fn windows(&self) -> impl Iterator<Item = WindowId> + '_ {
        self.columns
            .iter()
            .flat_map(|column| column.windows.iter().map(|slot| slot.window))
    }

    /// Applies an operation other than Create.
    ///
    /// # Errors
    /// The operation names what does not exist, or exists already; nothing was changed.
    pub fn apply(&mut self, op: &LayoutOp) -> Result<(), OpError> {
        match op {
            LayoutOp::Create { .. } => Err(OpError::Create),
            LayoutOp::ColumnAdd {
                column,
                tag,
                index,
                weight,
            } => {
                let added = Column {
                    id: *column,
                    tag: *tag,
                    weight: *weight,
                    windows: Vec::new(),
                };
                self.add_column(added, *index)
            }
            LayoutOp::ColumnDel(column) => self.del_column(*column),
            LayoutOp::ColumnMove { column, index } => self.move_column(*column, *index),
            LayoutOp::WindowAdd {
                window,
                column,
                index,
                weight,
            } => {
                if self.place(*window).is_some() {
                    return Err(OpError::Exists("the window"));
                }
                self.add_window(
                    Slot {
                        window: *window,
                        weight: *weight,
                    },
                    *column,
                    *index,
                )
            }
            LayoutOp::WindowDel(window) => self.del_window(*window),
            LayoutOp::WindowMove {
                window,
                column,
                index,
                weight,
            } => {
                if self.column(*column).is_none() {
                    return Err(OpError::Missing("the column"));
                }
                self.del_window(*window)?;
                self.add_window(
                    Slot {
                        window: *window,
                        weight: *weight,
                    },
                    *column,
                    *index,
                )
            }
            LayoutOp::ColumnWeights(weights) => self.weigh_columns(weights),
            LayoutOp::WindowWeights(weights) => self.weigh_windows(weights),
            LayoutOp::Sort { column, windows } => self.sort(*column, windows),
            LayoutOp::Focus(focus) => {
                self.focus = *focus;
                Ok(())
            }
        }
    }

    fn index_of(&self, column: ColumnId) -> Result<usize, OpError> {
        let index = self.columns.iter().position(|other| other.id == column);
        index.ok_or(OpError::Missing("the column"))
    }

    fn add_column(&mut self, column: Column, index: u32) -> Result<(), OpError> {
        if self.column(column.id).is_some() {
            return Err(OpError::Exists("the column"));
        }
        let index = bounded(index, self.columns.len());
        self.columns.insert(index, column);
        Ok(())
    }

    fn del_column(&mut self, column: ColumnId) -> Result<(), OpError> {
        let index = self.index_of(column)?;
        if !self.columns[index].windows.is_empty() {
            return Err(OpError::Exists("a window in the column"));
        }
        self.columns.remove(index);
        Ok(())
    }

    fn move_column(&mut self, column: ColumnId, index: u32) -> Result<(), OpError> {
        let from = self.index_of(column)?;
        let column = self.columns.remove(from);
        let index = bounded(index, self.columns.len());
        self.columns.insert(index, column);
        Ok(())
    }

    fn add_window(&mut self, slot: Slot, column: ColumnId, index: u32) -> Result<(), OpError> {
        let at = self.index_of(column)?;
        let windows = &mut self.columns[at].windows;
        windows.insert(bounded(index, windows.len()), slot);
        Ok(())
    }

    fn del_window(&mut self, window: WindowId) -> Result<(), OpError> {
        let (column, index) = self.place(window).ok_or(OpError::Missing("the window"))?;
        let at = self.index_of(column)?;
        self.columns[at].windows.remove(index);
        Ok(())
    }

    fn weigh_columns(&mut self, weights: &[(ColumnId, u32)]) -> Result<(), OpError> {
        if weights
            .iter()
            .any(|(column, _)| self.column(*column).is_none())
        {
            return Err(OpError::Missing("the column"));
        }
        for column in &mut self.columns {
            let weight = weights.iter().find(|(id, _)| *id == column.id);
            column.weight = weight.map_or(column.weight, |(_, weight)| *weight);
        }
        Ok(())
    }

    fn weigh_windows(&mut self, weights: &[(WindowId, u32)]) -> Result<(), OpError> {
        if weights
            .iter()
            .any(|(window, _)| self.place(*window).is_none())
        {
            return Err(OpError::Missing("the window"));
        }
        for slot in self
            .columns
            .iter_mut()
            .flat_map(|column| &mut column.windows)
        {
            let weight = weights.iter().find(|(id, _)| *id == slot.window);
            slot.weight = weight.map_or(slot.weight, |(_, weight)| *weight);
        }
        Ok(())
    }

    fn sort(&mut self, column: ColumnId, order: &[WindowId]) -> Result<(), OpError> {
        let at = self.index_of(column)?;
        let old = &self.columns[at].windows;
        let mut sorted = Vec::with_capacity(old.len());
        for window in order {
            let slot = old.iter().find(|slot| slot.window == *window);
            let slot = *slot.ok_or(OpError::Missing("the window"))?;
            if sorted.contains(&slot) {
                return Err(OpError::Exists("the window"));
            }
            sorted.push(slot);
        }
        if sorted.len() != old.len() {
            return Err(OpError::Missing("a window in the order"));
        }
        self.columns[at].windows = sorted;
        Ok(())
    }
}

fn bounded(index: u32, len: usize) -> usize {
    usize::try_from(index).map_or(len, |index| index.min(len))
}
