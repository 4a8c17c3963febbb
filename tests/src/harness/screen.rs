//! What a terminal shows: as much of one as the screen of apex, and a shell's output, need.

use vte::{Params, Parser, Perform};

/// The cells of a terminal, and what it was told.
pub struct Screen {
    cells: Cells,
    parser: Parser,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

#[derive(Debug)]
struct Cells {
    width: usize,
    rows: Vec<Vec<char>>,
    x: usize,
    y: usize,
    /// Whether the alternate screen shows.
    is_alternate: bool,
    is_cursor_shown: bool,
}

impl Screen {
    /// Returns an empty screen.
    #[must_use]
    pub fn new(width: u16, height: u16) -> Self {
        let (width, height) = (usize::from(width), usize::from(height));
        Self {
            cells: Cells {
                width,
                rows: vec![vec![' '; width]; height],
                x: 0,
                y: 0,
                is_alternate: false,
                is_cursor_shown: true,
            },
            parser: Parser::new(),
        }
    }

    /// Takes what a program wrote.
    pub fn push(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.cells, bytes);
    }

    /// Returns a row, without the blanks at its end.
    #[must_use]
    pub fn row(&self, y: usize) -> String {
        let row: String = self.cells.rows[y].iter().collect();
        row.trim_end().to_owned()
    }

    /// Returns all rows, each with a line end.
    #[must_use]
    pub fn text(&self) -> String {
        let row = |y| self.row(y) + "\n";
        (0..self.cells.rows.len()).map(row).collect()
    }

    /// Returns the column and the row where a text begins that stands in one row.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<(u16, u16)> {
        self.find_from(text, 0)
    }

    /// Returns the column and the row where a text begins, in row `from` or below.
    #[must_use]
    pub fn find_from(&self, text: &str, from: u16) -> Option<(u16, u16)> {
        let wanted: Vec<char> = text.chars().collect();
        let rows = self.cells.rows.iter().enumerate();
        rows.skip(from.into()).find_map(|(y, row)| {
            let x = row.windows(wanted.len()).position(|part| part == wanted)?;
            Some((u16::try_from(x).ok()?, u16::try_from(y).ok()?))
        })
    }

    /// Returns where the cursor is, if it shows.
    #[must_use]
    pub fn cursor(&self) -> Option<(usize, usize)> {
        self.cells
            .is_cursor_shown
            .then_some((self.cells.x, self.cells.y))
    }

    /// Returns whether a program has the screen for itself.
    #[must_use]
    pub const fn is_alternate(&self) -> bool {
        self.cells.is_alternate
    }
}

impl Cells {
    fn clear(&mut self) {
        for row in &mut self.rows {
            row.fill(' ');
        }
    }

    fn line_feed(&mut self) {
        if self.y + 1 < self.rows.len() {
            self.y += 1;
        } else {
            self.rows.remove(0);
            self.rows.push(vec![' '; self.width]);
        }
    }
}

impl Perform for Cells {
    fn print(&mut self, c: char) {
        if self.x == self.width {
            self.x = 0;
            self.line_feed();
        }
        self.rows[self.y][self.x] = c;
        self.x += 1;
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => self.x = 0,
            b'\n' => self.line_feed(),
            0x08 => self.x = self.x.saturating_sub(1),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _: bool, action: char) {
        let values: Vec<u16> = params.iter().map(|param| param[0]).collect();
        let value = |index: usize| usize::from(values.get(index).copied().unwrap_or(0));
        match (intermediates, action) {
            ([], 'H') => {
                self.y = value(0).clamp(1, self.rows.len()) - 1;
                self.x = value(1).clamp(1, self.width) - 1;
            }
            ([], 'J') if value(0) == 2 => self.clear(),
            ([], 'K') => {
                let (y, from) = (self.y, self.x.min(self.width));
                self.rows[y][from..].fill(' ');
            }
            (b"?", 'h' | 'l') => {
                let is_on = action == 'h';
                for mode in values {
                    match mode {
                        25 => self.is_cursor_shown = is_on,
                        1049 => {
                            self.is_alternate = is_on;
                            self.clear();
                            (self.x, self.y) = (0, 0);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_shows_what_was_written_where_it_was_written() {
        let mut screen = Screen::new(6, 3);
        screen.push(b"\x1b[?1049h\x1b[2J\x1b[2;3Hab\x1b[1;1Hwrapped");
        assert_eq!(screen.text(), "wrappe\nd ab\n\n");
        assert_eq!(screen.find("ab"), Some((2, 1)));
        assert!(screen.is_alternate());
        screen.push(b"\x1b[?25l\r\nlast\r\nline\r\nend");
        assert_eq!(screen.cursor(), None);
        assert_eq!(screen.text(), "last\nline\nend\n");
    }
}
