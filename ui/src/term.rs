//! The terminal: raw mode, what is written to it, and its restoration on every way out.
//!
//! A frame is the difference between two grids, written with one system call.

use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};

use crate::layout::Size;
use crate::theme::{Depth, Role};
use crate::view::grid::{Cell, Content, Grid};

/// Alternate screen; buttons, motion while a button is down, SGR coordinates; bracketed paste;
/// a bar for a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?1000h\x1b[?1002h\x1b[?1006h\x1b[?2004h\x1b[6 q\x1b[2J";
/// All of it back, the cursor shown. The screen is cleared first, because tmux, resized since,
/// would push full rows of it into the scrollback.
const LEAVE: &[u8] = b"\x1b[0m\x1b[2J\x1b[?2004l\x1b[?1006l\x1b[?1002l\x1b[?1000l\x1b[0 q\x1b[?25h\
    \x1b[?1049l";
/// From this length on a frame is wrapped so that the terminal shows it at once.
const SYNCHRONIZED_LEN_MIN: usize = 512;
/// Unchanged cells that are written again rather than jumped over.
const GAP_COUNT_MAX: usize = 4;

/// Whether the terminal is in raw mode and shows the alternate screen.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// The terminal, as long as it is ours; dropping it restores it.
#[derive(Debug)]
pub struct Terminal {
    depth: Depth,
    shown: Rc<Grid>,
    /// Whether the next frame starts from nothing.
    is_stale: bool,
    /// What the terminal writes in since the last frame, if that is certain: most keys write in
    /// what the key before wrote in.
    role: Option<Role>,
    frame: Vec<u8>,
}

impl Terminal {
    /// Takes the terminal; a panic restores it before it is reported.
    ///
    /// # Errors
    /// When standard input or output is no terminal, or it refuses.
    pub fn enter(depth: Depth) -> io::Result<Self> {
        crossterm::terminal::enable_raw_mode()?;
        IS_ENTERED.store(true, Ordering::SeqCst);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
        let terminal = Self {
            depth,
            shown: Rc::default(),
            is_stale: true,
            role: None,
            frame: Vec::with_capacity(8192),
        };
        write_all(ENTER)?;
        Ok(terminal)
    }

    /// Returns the size of the terminal.
    ///
    /// # Errors
    /// When the terminal does not tell.
    pub fn size() -> io::Result<Size> {
        let (width, height) = crossterm::terminal::size()?;
        Ok(Size { width, height })
    }

    /// Makes the next frame a whole one, whatever the terminal shows now.
    pub const fn forget(&mut self) {
        self.is_stale = true;
    }

    /// Shows a grid.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn show(&mut self, grid: Rc<Grid>) -> io::Result<()> {
        self.frame.clear();
        if self.is_stale || self.shown.size != grid.size {
            self.shown = Rc::default();
            self.frame.extend_from_slice(b"\x1b[0m\x1b[2J");
            self.role = None;
            self.is_stale = false;
        }
        let mut pen = Pen {
            grids: (&self.shown, &grid),
            depth: self.depth,
            at: None,
            role: self.role,
            frame: &mut self.frame,
        };
        pen.difference();
        self.role = pen.role;
        self.shown = grid;
        if self.frame.is_empty() {
            return Ok(());
        }
        if self.frame.len() >= SYNCHRONIZED_LEN_MIN {
            self.frame.splice(0..0, *b"\x1b[?2026h");
            self.frame.extend_from_slice(b"\x1b[?2026l");
        }
        write_all(&self.frame)
    }

    /// Puts text on the clipboard of the terminal's user (OSC 52).
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn copy(&self, text: &str) -> io::Result<()> {
        let mut sequence = b"\x1b]52;c;".to_vec();
        encode_base64(text.as_bytes(), &mut sequence);
        sequence.push(0x07);
        write_all(&sequence)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back as it was; does nothing when it is not ours.
pub fn restore() {
    if IS_ENTERED.swap(false, Ordering::SeqCst) {
        // The way out goes on, whatever a terminal that may be gone says.
        let _written = write_all(LEAVE);
        let _raw = crossterm::terminal::disable_raw_mode();
    }
}

fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    let out = rustix::stdio::stdout();
    while !bytes.is_empty() {
        match rustix::io::write(out, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => bytes = &bytes[len..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                // Somebody made our terminal non-blocking; wait for room.
                let _ready = poll(&mut [PollFd::new(&out, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

struct Pen<'a> {
    /// What the terminal shows, and what it is to show.
    grids: (&'a Grid, &'a Grid),
    depth: Depth,
    /// Where the terminal's cursor is, if that is certain.
    at: Option<(u16, u16)>,
    role: Option<Role>,
    frame: &'a mut Vec<u8>,
}

impl Pen<'_> {
    /// Appends what turns a terminal that shows the one grid into one that shows the other.
    fn difference(&mut self) {
        let (old, new) = self.grids;
        let is_moved = old.cursor != new.cursor;
        let start = self.frame.len();
        for y in 0..new.size.height {
            self.row(y);
        }
        if self.frame.len() == start && !is_moved {
            return;
        }
        match new.cursor {
            Some((x, y)) => {
                self.jump(x, y);
                if old.cursor.is_none() {
                    self.frame.extend_from_slice(b"\x1b[?25h");
                }
            }
            None if old.cursor.is_some() || old.size != new.size => {
                self.frame.extend_from_slice(b"\x1b[?25l");
            }
            None => {}
        }
    }

    fn row(&mut self, y: u16) {
        let (old_grid, new_grid) = self.grids;
        if new_grid.has_same_row(old_grid, y) {
            return;
        }
        let (old, new) = (old_grid.row(y), new_grid.row(y));
        let is_same = |x: usize| {
            old.get(x)
                .is_some_and(|cell| new_grid.looks_like(new[x], old_grid, *cell))
        };
        let mut x = 0;
        while x < new.len() {
            if is_same(x) {
                x += 1;
                continue;
            }
            // A change in the second half of a wide character starts at its first half.
            let is_half = new_grid.content(new[x]) == Content::Half;
            let from = if is_half { x.saturating_sub(1) } else { x };
            let mut to = x + 1;
            let mut same = 0;
            while to + same < new.len() && same <= GAP_COUNT_MAX {
                if is_same(to + same) {
                    same += 1;
                } else {
                    to += same + 1;
                    same = 0;
                }
            }
            for (cell, column) in new[from..to].iter().zip(from..to) {
                self.cell(*cell, u16::try_from(column).unwrap_or(u16::MAX), y);
            }
            x = to;
        }
    }

    fn cell(&mut self, cell: Cell, x: u16, y: u16) {
        let content = self.grids.1.content(cell);
        if content == Content::Half {
            return;
        }
        self.jump(x, y);
        if self.role != Some(cell.role) {
            self.role = Some(cell.role);
            self.frame.extend_from_slice(b"\x1b[");
            self.frame
                .extend_from_slice(cell.role.parameters(self.depth).as_bytes());
            self.frame.push(b'm');
        }
        // Terminals disagree on the width of anything but plain narrow characters.
        let is_certain = match content {
            Content::Cluster(cluster) => {
                self.frame.extend_from_slice(cluster.as_bytes());
                false
            }
            Content::Char(c) => {
                self.frame
                    .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                !cell.is_wide
            }
            Content::Half => false,
        };
        self.at = is_certain.then_some((x + 1, y));
    }

    fn jump(&mut self, x: u16, y: u16) {
        if self.at != Some((x, y)) {
            self.frame.extend_from_slice(b"\x1b[");
            self.number(y + 1);
            self.frame.push(b';');
            self.number(x + 1);
            self.frame.push(b'H');
            self.at = Some((x, y));
        }
    }

    fn number(&mut self, number: u16) {
        if number >= 10 {
            self.number(number / 10);
        }
        let digit = u8::try_from(number % 10).expect("a digit is below 10");
        self.frame.push(b'0' + digit);
    }
}

fn encode_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let value = group
            .iter()
            .fold(0_u32, |value, byte| value << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for i in 0..4 {
            let digit = (value >> (18 - 6 * i)) & 63;
            out.push(if i <= group.len() {
                DIGITS[digit as usize]
            } else {
                b'='
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Rect;
    use crate::theme::Surface;

    fn grid(words: &str, cursor: Option<(u16, u16)>) -> Grid {
        let mut grid = Grid::new(Size {
            width: 12,
            height: 1,
        });
        let row = Rect {
            x: 0,
            y: 0,
            width: 12,
            height: 1,
        };
        grid.words(row, words, Role::plain(Surface::Body));
        grid.cursor = cursor;
        grid
    }

    fn check(old: &Grid, new: &Grid, expect: &str) {
        check_in(None, old, new, expect);
    }

    /// Checks the frame for a terminal that writes in a role.
    fn check_in(role: Option<Role>, old: &Grid, new: &Grid, expect: &str) {
        let mut frame = Vec::new();
        let mut pen = Pen {
            grids: (old, new),
            depth: Depth::Mono,
            at: None,
            role,
            frame: &mut frame,
        };
        pen.difference();
        assert_eq!(String::from_utf8_lossy(&frame).replace('\x1b', "^"), expect);
    }

    #[test]
    fn a_frame_holds_only_what_changed() {
        let old = grid("hello", Some((5, 0)));
        check(&old, &old, "");
        check(&old, &grid("hello!", Some((6, 0))), "^[1;6H^[0m!");
        check(&old, &grid("hello", Some((0, 0))), "^[1;1H");
        check(&old, &grid("hello", None), "^[?25l");
        check(&old, &grid("hexlx", Some((5, 0))), "^[1;3H^[0mxlx");
        check(&old, &grid("hell漢x", Some((7, 0))), "^[1;5H^[0m漢^[1;7Hx");
    }

    #[test]
    fn a_frame_names_colours_only_where_they_change() {
        let (old, new) = (grid("hello", Some((5, 0))), grid("hello!", Some((6, 0))));
        let body = Role::plain(Surface::Body);
        check_in(Some(body), &old, &new, "^[1;6H!");
        let tag = Role::plain(Surface::Tag);
        check_in(Some(tag), &old, &new, "^[1;6H^[0m!");
    }

    #[test]
    fn clipboard_text_is_base64() {
        for (text, expect) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj")] {
            let mut out = Vec::new();
            encode_base64(text.as_bytes(), &mut out);
            assert_eq!(out, expect.as_bytes());
        }
    }
}
