//! One terminal: screen rows, scrollback and what the program said of itself.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::buffer::OpError;
use crate::entry::{ApplyLimits, TermLine, TermOp};

/// Most rows or columns of a terminal.
const SIZE_MAX: u16 = 4096;

/// A terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// Columns.
    pub columns: u16,
    /// The rows of the screen, top to bottom.
    pub rows: Vec<TermLine>,
    /// Lines that scrolled off, oldest first, bounded.
    pub scrollback: VecDeque<TermLine>,
    /// Absolute number of the first line kept in the scrollback.
    pub first_line: u64,
    /// Row and column of the cursor, and whether it shows.
    pub cursor: (u16, u16, bool),
    /// Mode bits.
    pub modes: u64,
    /// The command it runs.
    pub command: String,
    /// Its title.
    pub title: String,
    /// Its working directory.
    pub cwd: String,
    /// Absolute lines at which prompts stand, oldest first.
    pub prompts: Vec<u64>,
    /// How often it rang.
    pub bells: u64,
    /// The exit code, once the process ended.
    pub exit: Option<i32>,
}

impl Term {
    /// Returns an empty terminal, as its Create entry makes it.
    ///
    /// # Errors
    /// A size of nothing or beyond the limit.
    pub fn new(columns: u16, rows: u16, command: String) -> Result<Self, OpError> {
        check_size(columns, rows)?;
        Ok(Self {
            columns,
            rows: alloc::vec![TermLine::default(); usize::from(rows)],
            scrollback: VecDeque::new(),
            first_line: 0,
            cursor: (0, 0, true),
            modes: 0,
            command,
            title: String::new(),
            cwd: String::new(),
            prompts: Vec::new(),
            bells: 0,
            exit: None,
        })
    }

    /// Applies an operation other than Create.
    ///
    /// # Errors
    /// The operation does not fit the screen; nothing was changed.
    pub fn apply(&mut self, op: &TermOp, limits: &ApplyLimits) -> Result<(), OpError> {
        match op {
            TermOp::Create { .. } => return Err(OpError::Create),
            TermOp::Resize { columns, rows } => {
                check_size(*columns, *rows)?;
                self.columns = *columns;
                self.rows.resize(usize::from(*rows), TermLine::default());
            }
            TermOp::Rows { first, lines } => self.replace_rows(usize::from(*first), lines)?,
            TermOp::Scrolled(lines) => self.scroll(lines, limits),
            TermOp::Cursor {
                row,
                column,
                is_visible,
            } => {
                self.cursor = (*row, *column, *is_visible);
            }
            TermOp::Modes(modes) => self.modes = *modes,
            TermOp::Title(title) => self.title.clone_from(title),
            TermOp::Cwd(cwd) => self.cwd.clone_from(cwd),
            TermOp::Prompt(line) => self.prompts.push(*line),
            TermOp::Bell => self.bells += 1,
            TermOp::Exit { code } => self.exit = Some(*code),
        }
        Ok(())
    }

    fn replace_rows(&mut self, first: usize, lines: &[TermLine]) -> Result<(), OpError> {
        let rows = self
            .rows
            .get_mut(first..first + lines.len())
            .ok_or(OpError::OutOfRange)?;
        rows.clone_from_slice(lines);
        Ok(())
    }

    fn scroll(&mut self, lines: &[TermLine], limits: &ApplyLimits) {
        self.scrollback.extend(lines.iter().cloned());
        let most = usize::try_from(limits.scrollback_count).unwrap_or(usize::MAX);
        let gone = self.scrollback.len().saturating_sub(most);
        self.scrollback.drain(..gone);
        self.first_line += gone as u64;
        self.prompts.retain(|line| *line >= self.first_line);
    }
}

fn check_size(columns: u16, rows: u16) -> Result<(), OpError> {
    let is_fine = (1..=SIZE_MAX).contains(&columns) && (1..=SIZE_MAX).contains(&rows);
    if is_fine {
        Ok(())
    } else {
        Err(OpError::Limit("terminal size"))
    }
}
