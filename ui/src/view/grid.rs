//! A grid of cells, without a terminal.

use std::rc::Rc;

use unicode_width::UnicodeWidthChar;

use crate::layout::{Rect, Size};
use crate::theme::Role;

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The character, or the first of several; NUL in the second half of a wide one.
    pub first: char,
    /// The whole cluster, when it has several code points.
    pub cluster: Option<Rc<str>>,
    /// Its role.
    pub role: Role,
    /// Whether the next cell is its second half.
    pub is_wide: bool,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            first: ' ',
            cluster: None,
            role: Role::default(),
            is_wide: false,
        }
    }
}

/// The cells of a screen, and where the cursor is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// Its size.
    pub size: Size,
    /// Row after row.
    cells: Vec<Cell>,
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
            cells: vec![Cell::default(); count],
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

    fn cell(&mut self, x: u16, y: u16) -> Option<&mut Cell> {
        if x >= self.size.width {
            return None;
        }
        self.cells
            .get_mut(usize::from(y) * usize::from(self.size.width) + usize::from(x))
    }

    /// Blanks a rectangle.
    pub fn fill(&mut self, area: Rect, role: Role) {
        let blank = Cell {
            role,
            ..Cell::default()
        };
        let right = area.right().min(self.size.width);
        for y in area.y..area.bottom().min(self.size.height) {
            let from = usize::from(y) * usize::from(self.size.width);
            if area.x < right {
                self.cells[from + usize::from(area.x)..from + usize::from(right)]
                    .fill(blank.clone());
            }
        }
    }

    /// Sets a character of one or two cells.
    pub fn set(&mut self, at: Rect, first: char, cluster: Option<Rc<str>>, role: Role) {
        let is_wide = at.width > 1;
        if let Some(cell) = self.cell(at.x, at.y) {
            *cell = Cell {
                first,
                cluster,
                role,
                is_wide,
            };
        }
        for x in at.x + 1..at.right() {
            if let Some(cell) = self.cell(x, at.y) {
                *cell = Cell {
                    first: '\0',
                    cluster: None,
                    role,
                    is_wide: false,
                };
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
            self.set(
                Rect {
                    x,
                    y: at.y,
                    width,
                    height: 1,
                },
                c,
                None,
                role,
            );
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
                match &cell.cluster {
                    Some(cluster) => line.push_str(cluster),
                    None if cell.first == '\0' => {}
                    None => line.push(cell.first),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
