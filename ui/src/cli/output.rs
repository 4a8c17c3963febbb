//! The one writer of standard output, and the one of standard error.

use std::fmt;
use std::io::{self, BufWriter, Stdout, Write};

use serde::Serialize;

use crate::cli::error::CliError;

/// Standard output, buffered; whoever shows something as it comes flushes.
#[derive(Debug)]
pub struct Output<W: Write = Stdout> {
    writer: BufWriter<W>,
}

impl Output {
    /// Returns standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self::new(io::stdout())
    }
}

impl<W: Write> Output<W> {
    /// Returns an output into `writer`.
    pub fn new(writer: W) -> Self {
        Self {
            writer: BufWriter::new(writer),
        }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub fn line(&mut self, text: impl fmt::Display) -> Result<(), CliError> {
        writeln!(self.writer, "{text}").map_err(CliError::Output)
    }

    /// Writes text that brings its own line ends.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.writer.write_all(bytes).map_err(CliError::Output)
    }

    /// Writes a value as indented JSON.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer_pretty(&mut self.writer, value).map_err(output_error)?;
        self.bytes(b"\n")
    }

    /// Writes a value as one line of JSON.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer(&mut self.writer, value).map_err(output_error)?;
        self.bytes(b"\n")
    }

    /// Hands everything written to the system.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub fn flush(&mut self) -> Result<(), CliError> {
        self.writer.flush().map_err(CliError::Output)
    }
}

fn output_error(error: serde_json::Error) -> CliError {
    CliError::Output(error.into())
}

/// Writes to standard error. Where that fails there is nobody left to tell.
pub fn complain(words: &str) {
    io::stderr().lock().write_all(words.as_bytes()).ok();
}

/// Returns rows as lines of aligned columns, two blanks apart; the last column is as it is.
#[must_use]
pub fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        let rows = [["a", "bcd", ""], ["äöü", "b", "x"]].map(|row| row.map(String::from));
        assert_eq!(table(&rows), "a    bcd\näöü  b    x\n");
        assert_eq!(table::<2>(&[]), "");
    }

    #[test]
    fn a_full_disk_is_an_error_at_the_latest_when_flushing() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut output = Output::new(Full);
        output.line("kept for a while").unwrap();
        assert!(matches!(output.flush(), Err(CliError::Output(_))));
    }
}
