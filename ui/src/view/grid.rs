//! A grid of cells, without a terminal.
//!
//! A cell has eight bytes, because every key compares and replaces a whole grid of them; clusters
//! of several code points, which are rare, stand beside the cells.

use std::rc::Rc;

use unicode_width::UnicodeWidthChar;

use crate::layout::{Rect, Size};
use crate::theme::Role;

/// From here on a cell's number is the index of a cluster, not a character.
const CLUSTERS_FROM: u32 = 1 << 31;

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// A character, NUL for the second half of a wide one, or a cluster.
    number: u32,
    /// Its role.
    pub role: Role,
    /// Whether the next cell is its second half.
    pub is_wide: bool,
}

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A character.
    Char(char),
    /// Several code points that make one character.
    Cluster(&'a str),
    /// The second half of the cell before.
    Half,
}

impl Cell {
    const fn new(c: char, role: Role) -> Self {
        Self {
            number: c as u32,
            role,
            is_wide: false,
        }
    }

    const fn is_cluster(self) -> bool {
        self.number >= CLUSTERS_FROM
    }
}

/// The cells of a screen, and where the cursor is.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Its size.
    pub size: Size,
    /// Row after row.
    cells: Vec<Cell>,
    clusters: Vec<Rc<str>>,
    /// The cursor's cell; none hides it.
    pub cursor: Option<(u16, u16)>,
}

impl Grid {
    /// Returns a blank grid.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let count = usize::from(size.width) * usize::from(size.height);
        Self {
            size,
            cells: vec![Cell::new(' ', Role::default()); count],
            clusters: Vec::new(),
            cursor: None,
        }
    }

    /// Returns the cells of a row; none when there is no such row.
    #[must_use]
    pub fn row(&self, y: u16) -> &[Cell] {
        let width = usize::from(self.size.width);
        let from = usize::from(y) * width;
        self.cells.get(from..from + width).unwrap_or_default()
    }

    /// Returns what a cell of this grid shows.
    #[must_use]
    pub fn content(&self, cell: Cell) -> Content<'_> {
        if cell.is_cluster() {
            let index = (cell.number - CLUSTERS_FROM) as usize;
            return Content::Cluster(self.clusters.get(index).map_or("", |cluster| cluster));
        }
        match char::from_u32(cell.number) {
            None | Some('\0') => Content::Half,
            Some(c) => Content::Char(c),
        }
    }

    /// Returns whether a cell of this grid looks like one of another grid.
    #[must_use]
    pub fn looks_like(&self, cell: Cell, other: &Self, of_other: Cell) -> bool {
        if !cell.is_cluster() {
            return cell == of_other;
        }
        of_other.is_cluster()
            && cell.role == of_other.role
            && cell.is_wide == of_other.is_wide
            && self.content(cell) == other.content(of_other)
    }

    /// Returns whether any cell holds several code points.
    #[must_use]
    pub const fn has_clusters(&self) -> bool {
        !self.clusters.is_empty()
    }

    /// Returns whether a row is certain to look like that of another grid.
    #[must_use]
    pub fn has_same_row(&self, other: &Self, y: u16) -> bool {
        self.clusters.is_empty() && other.clusters.is_empty() && self.row(y) == other.row(y)
    }

    fn cell(&mut self, x: u16, y: u16) -> Option<&mut Cell> {
        if x >= self.size.width {
            return None;
        }
        let index = usize::from(y) * usize::from(self.size.width) + usize::from(x);
        self.cells.get_mut(index)
    }

    /// Blanks a rectangle.
    pub fn fill(&mut self, area: Rect, role: Role) {
        let right = area.right().min(self.size.width);
        for y in area.y..area.bottom().min(self.size.height) {
            let from = usize::from(y) * usize::from(self.size.width);
            if area.x < right {
                self.cells[from + usize::from(area.x)..from + usize::from(right)]
                    .fill(Cell::new(' ', role));
            }
        }
    }

    /// Sets a character of one or two cells.
    pub fn set(&mut self, at: Rect, c: char, role: Role) {
        self.set_number(at, c as u32, role);
    }

    /// Sets a cluster of one or two cells.
    pub fn set_cluster(&mut self, at: Rect, cluster: Rc<str>, role: Role) {
        let index = u32::try_from(self.clusters.len()).unwrap_or(0);
        self.clusters.push(cluster);
        self.set_number(at, CLUSTERS_FROM | index, role);
    }

    fn set_number(&mut self, at: Rect, number: u32, role: Role) {
        let is_wide = at.width > 1;
        if let Some(cell) = self.cell(at.x, at.y) {
            *cell = Cell {
                number,
                role,
                is_wide,
            };
        }
        for x in at.x + 1..at.right() {
            if let Some(cell) = self.cell(x, at.y) {
                *cell = Cell::new('\0', role);
            }
        }
    }

    /// Writes words into a rectangle of one row; what does not fit is left out.
    pub fn words(&mut self, at: Rect, words: &str, role: Role) {
        let mut x = at.x;
        for c in words.chars() {
            let width = c
                .width()
                .and_then(|width| u16::try_from(width).ok())
                .unwrap_or(0);
            if width == 0 || x + width > at.right() || at.height == 0 {
                continue;
            }
            let cell = Rect {
                x,
                y: at.y,
                width,
                height: 1,
            };
            self.set(cell, c, role);
            x += width;
        }
    }

    /// Returns the characters, a line per row, without trailing blanks.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for y in 0..self.size.height {
            let mut line = String::new();
            for cell in self.row(y) {
                match self.content(*cell) {
                    Content::Cluster(cluster) => line.push_str(cluster),
                    Content::Char(c) => line.push(c),
                    Content::Half => {}
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
