//! Where everything is on the screen: columns, windows, tags, bodies and scroll bars.
//!
//! Pure functions from weights and a size to rectangles. Nothing here knows texts (see [`wrap`]),
//! the session or the terminal.

use apex_core::ids::{ColumnId, ViewId, WindowId};

pub mod wrap;

/// A window whose weight is under this part of its column's weights is not shown at all.
const HIDDEN_PART: u64 = 1000;

/// The weight that hides the others of a column, when they have 1.
pub const FULL_WEIGHT: u32 = 1_000_000;

/// A size in cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Columns of cells.
    pub width: u16,
    /// Rows of cells.
    pub height: u16,
}

/// A rectangle in cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rect {
    /// Its first column.
    pub x: u16,
    /// Its first row.
    pub y: u16,
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

impl Rect {
    /// Returns whether a cell is inside.
    #[must_use]
    pub const fn contains(self, x: u16, y: u16) -> bool {
        x >= self.x && y >= self.y && x - self.x < self.width && y - self.y < self.height
    }

    /// Returns the first row below it.
    #[must_use]
    pub const fn bottom(self) -> u16 {
        self.y + self.height
    }

    /// Returns the first column right of it.
    #[must_use]
    pub const fn right(self) -> u16 {
        self.x + self.width
    }

    /// Returns the rectangle without its first column.
    #[must_use]
    pub const fn after_first_column(self) -> Self {
        let cut = if self.width > 0 { 1 } else { 0 };
        Self {
            x: self.x + cut,
            width: self.width - cut,
            ..self
        }
    }

    /// Returns its first column.
    #[must_use]
    pub const fn first_column(self) -> Self {
        Self {
            width: if self.width > 0 { 1 } else { 0 },
            ..self
        }
    }
}

/// What a column asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Its id.
    pub id: ColumnId,
    /// Its width, relative to the others'.
    pub weight: u32,
    /// Its windows, top to bottom.
    pub windows: Vec<WindowSpec>,
}

/// What a window asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSpec {
    /// Its id.
    pub id: WindowId,
    /// Its height, relative to the others'; 0 shows the tag alone.
    pub weight: u32,
}

/// The whole screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// Its size.
    pub size: Size,
    /// The top row, box included.
    pub top: Rect,
    /// The columns, left to right.
    pub columns: Vec<ColumnArea>,
}

/// A column on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnArea {
    /// Its id.
    pub id: ColumnId,
    /// All of it.
    pub area: Rect,
    /// Its tag, box included.
    pub tag: Rect,
    /// Its windows, top to bottom; hidden ones have no rows.
    pub windows: Vec<WindowArea>,
}

/// A window on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowArea {
    /// Its id.
    pub id: WindowId,
    /// All of it.
    pub area: Rect,
    /// Its tag, box included.
    pub tag: Rect,
    /// Its body, scroll bar included.
    pub body: Rect,
}

/// What is at a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The text of a tag, a body or the top row.
    Text(ViewId),
    /// The scroll bar of a window's body.
    Scroll(WindowId),
    /// The layout box of a window.
    WindowBox(WindowId),
    /// The layout box of a column.
    ColumnBox(ColumnId),
    /// Nothing.
    Nothing,
}

/// Lays the screen out; `tag_rows` tells how many rows the text of a tag takes at a width.
pub fn arrange(
    size: Size,
    columns: &[ColumnSpec],
    tag_rows: &mut dyn FnMut(ViewId, u16) -> u16,
) -> Screen {
    let top = Rect {
        x: 0,
        y: 0,
        width: size.width,
        height: size.height.min(1),
    };
    let rest = Rect {
        x: 0,
        y: 1,
        width: size.width,
        height: size.height.saturating_sub(1),
    };
    let weights: Vec<u32> = columns.iter().map(|column| column.weight.max(1)).collect();
    let widths = shares(rest.width, &weights);
    let mut x = 0;
    let mut areas = Vec::with_capacity(columns.len());
    for (column, width) in columns.iter().zip(widths) {
        let area = Rect { x, width, ..rest };
        x += width;
        areas.push(arrange_column(area, column, tag_rows));
    }
    Screen {
        size,
        top,
        columns: areas,
    }
}

fn arrange_column(
    area: Rect,
    column: &ColumnSpec,
    tag_rows: &mut dyn FnMut(ViewId, u16) -> u16,
) -> ColumnArea {
    let tag = Rect {
        height: area.height.min(1),
        ..area
    };
    let weights: Vec<u32> = column.windows.iter().map(|window| window.weight).collect();
    let heights = heights(area.height.saturating_sub(1), &weights);
    let mut y = tag.bottom();
    let mut windows = Vec::with_capacity(column.windows.len());
    for (window, height) in column.windows.iter().zip(heights) {
        let whole = Rect { y, height, ..area };
        y += height;
        let wanted = if height > 2 {
            tag_rows(ViewId::Tag(window.id), area.width.saturating_sub(1)).max(1)
        } else {
            1
        };
        let tag = Rect {
            height: wanted.min(height),
            ..whole
        };
        let body = Rect {
            y: tag.bottom(),
            height: height - tag.height,
            ..whole
        };
        windows.push(WindowArea {
            id: window.id,
            area: whole,
            tag,
            body,
        });
    }
    ColumnArea {
        id: column.id,
        area,
        tag,
        windows,
    }
}

/// Returns the heights of a column's windows.
///
/// Tags come first: each window that is not hidden has at least one row as long as there are
/// rows. Windows of weight 0 have one row; the others share the rest.
#[must_use]
pub fn heights(rows: u16, weights: &[u32]) -> Vec<u16> {
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let is_hidden = |weight: u32| weight > 0 && u64::from(weight) * HIDDEN_PART < sum;
    let mut heights = vec![0; weights.len()];
    let mut left = rows;
    for (height, weight) in heights.iter_mut().zip(weights) {
        if !is_hidden(*weight) && left > 0 {
            *height = 1;
            left -= 1;
        }
    }
    let bodied: Vec<usize> = (0..weights.len())
        .filter(|i| heights[*i] > 0 && weights[*i] > 0)
        .collect();
    if bodied.is_empty() {
        if let Some(last) = heights.iter().rposition(|height| *height > 0) {
            heights[last] += left;
        }
        return heights;
    }
    // Weights are whole heights, so the row of the tag counts in the share.
    let count = u16::try_from(bodied.len()).unwrap_or(u16::MAX);
    let chosen: Vec<u32> = bodied.iter().map(|i| weights[*i]).collect();
    let whole = shares(left + count, &chosen);
    let mut owed = 0;
    for (i, share) in bodied.iter().zip(&whole) {
        heights[*i] = (*share).max(1);
        owed += heights[*i] - *share;
    }
    // Windows that were given a row more than their share take it from the tallest.
    while owed > 0 {
        let Some(tallest) = bodied.iter().copied().max_by_key(|i| heights[*i]) else {
            break;
        };
        heights[tallest] -= 1;
        owed -= 1;
    }
    heights
}

/// Divides `total` in proportion to the weights, none of which may be 0; the sum is exact.
fn shares(total: u16, weights: &[u32]) -> Vec<u16> {
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let mut before = 0;
    let mut upto = 0_u64;
    weights
        .iter()
        .map(|weight| {
            upto += u64::from(*weight);
            // Rounding the borders, not the shares, keeps the sum exact.
            let border = (u64::from(total) * upto * 2 + sum) / (sum * 2).max(1);
            let border = u16::try_from(border).unwrap_or(total);
            let share = border - before;
            before = border;
            share
        })
        .collect()
}

impl Screen {
    /// Returns what is at a cell.
    #[must_use]
    pub fn target(&self, x: u16, y: u16) -> Target {
        if self.top.contains(x, y) {
            return Target::Text(ViewId::Top);
        }
        let Some(column) = self
            .columns
            .iter()
            .find(|column| column.area.contains(x, y))
        else {
            return Target::Nothing;
        };
        if column.tag.contains(x, y) {
            return if x == column.tag.x {
                Target::ColumnBox(column.id)
            } else {
                Target::Text(ViewId::Column(column.id))
            };
        }
        let Some(window) = column
            .windows
            .iter()
            .find(|window| window.area.contains(x, y))
        else {
            return Target::Nothing;
        };
        match (window.tag.contains(x, y), x == window.area.x) {
            (true, true) if y == window.tag.y => Target::WindowBox(window.id),
            (true, _) => Target::Text(ViewId::Tag(window.id)),
            (false, true) => Target::Scroll(window.id),
            (false, false) => Target::Text(ViewId::Body(window.id)),
        }
    }

    /// Returns a window's place, with the index of its column and its own index in it.
    #[must_use]
    pub fn window(&self, id: WindowId) -> Option<(usize, usize, WindowArea)> {
        self.columns.iter().enumerate().find_map(|(c, column)| {
            let w = column.windows.iter().position(|window| window.id == id)?;
            Some((c, w, column.windows[w]))
        })
    }

    /// Returns the cells that show the text of a view; none when it is not in the layout.
    #[must_use]
    pub fn text_area(&self, view: ViewId) -> Option<Rect> {
        let with_margin = match view {
            ViewId::Top => self.top,
            ViewId::Column(id) => self.columns.iter().find(|column| column.id == id)?.tag,
            ViewId::Tag(id) => self.window(id)?.2.tag,
            ViewId::Body(id) => self.window(id)?.2.body,
        };
        Some(with_margin.after_first_column())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(id: u64, weight: u32, windows: &[(u64, u32)]) -> ColumnSpec {
        let windows = windows
            .iter()
            .map(|(id, weight)| WindowSpec {
                id: WindowId::new(*id),
                weight: *weight,
            })
            .collect();
        ColumnSpec {
            id: ColumnId::new(id),
            weight,
            windows,
        }
    }

    fn check(size: (u16, u16), columns: &[ColumnSpec], expect: &[(u16, &[u16])]) {
        let size = Size {
            width: size.0,
            height: size.1,
        };
        let screen = arrange(size, columns, &mut |_, _| 1);
        let found: Vec<(u16, Vec<u16>)> = screen
            .columns
            .iter()
            .map(|column| {
                (
                    column.area.width,
                    column.windows.iter().map(|w| w.area.height).collect(),
                )
            })
            .collect();
        let expect: Vec<(u16, Vec<u16>)> = expect
            .iter()
            .map(|(width, heights)| (*width, heights.to_vec()))
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn widths_and_heights_follow_the_weights_and_fill_the_screen() {
        check((80, 24), &[], &[]);
        check((80, 24), &[column(1, 1, &[])], &[(80, &[])]);
        check((80, 24), &[column(1, 1, &[(1, 1)])], &[(80, &[22])]);
        check(
            (81, 24),
            &[
                column(1, 1, &[(1, 1), (2, 1)]),
                column(2, 2, &[(3, 1), (4, 3)]),
            ],
            &[(27, &[11, 11]), (54, &[6, 16])],
        );
    }

    #[test]
    fn tags_are_kept_before_bodies_when_rows_are_short() {
        check(
            (80, 5),
            &[column(1, 1, &[(1, 9), (2, 1), (3, 1)])],
            &[(80, &[1, 1, 1])],
        );
        check(
            (80, 4),
            &[column(1, 1, &[(1, 9), (2, 1), (3, 1)])],
            &[(80, &[1, 1, 0])],
        );
        check(
            (80, 12),
            &[column(1, 1, &[(1, 20), (2, 1), (3, 0)])],
            &[(80, &[8, 1, 1])],
        );
        check((0, 0), &[column(1, 1, &[(1, 1)])], &[(0, &[0])]);
    }

    #[test]
    fn a_window_of_full_weight_hides_the_others() {
        let full = [(1, 1), (2, FULL_WEIGHT), (3, 1)];
        check((80, 24), &[column(1, 1, &full)], &[(80, &[0, 22, 0])]);
    }

    #[test]
    fn every_cell_has_one_target() {
        let size = Size {
            width: 40,
            height: 12,
        };
        let columns = [column(1, 1, &[(1, 1), (2, 1)]), column(2, 1, &[(3, 1)])];
        let screen = arrange(size, &columns, &mut |_, _| 2);
        let window = WindowId::new(2);
        assert_eq!(screen.target(5, 0), Target::Text(ViewId::Top));
        assert_eq!(screen.target(0, 1), Target::ColumnBox(ColumnId::new(1)));
        assert_eq!(
            screen.target(21, 1),
            Target::Text(ViewId::Column(ColumnId::new(2)))
        );
        assert_eq!(screen.target(0, 7), Target::WindowBox(window));
        assert_eq!(screen.target(0, 8), Target::Text(ViewId::Tag(window)));
        assert_eq!(screen.target(0, 9), Target::Scroll(window));
        assert_eq!(screen.target(1, 9), Target::Text(ViewId::Body(window)));
        assert_eq!(screen.target(40, 9), Target::Nothing);
    }
}
