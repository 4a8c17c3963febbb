//! The log of one tool: a ring of its newest lines, its own and the host's about it.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};

use super::limits;
use super::lock::lock;

/// The newest lines about a tool, at most [`limits::LOG_COUNT_MAX`].
#[derive(Debug, Default)]
pub struct ToolLog {
    inner: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<String>,
    /// Lines of the tool since the call began, dropped ones included.
    in_call: usize,
}

/// The names of the levels of `desk.log`.
const LEVELS: [&str; 5] = ["trace", "debug", "info", "warning", "error"];

impl ToolLog {
    /// Returns an empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line of the host about the tool.
    pub fn push_host(&self, line: &str) {
        lock(&self.inner).push(&format!("apex: {line}"));
    }

    /// Adds a line of the tool; a level that is not known counts as an error.
    pub fn push_tool(&self, level: u32, text: &str) {
        let level = usize::try_from(level)
            .ok()
            .and_then(|level| LEVELS.get(level));
        let level = level.unwrap_or(&"error");
        lock(&self.inner).push_limited(&format!("{level}: {text}"));
    }

    /// Adds what the tool printed.
    fn push_printed(&self, text: &str) {
        lock(&self.inner).push_limited(text);
    }

    /// Begins the count of lines anew: a call begins.
    pub fn begin_call(&self) {
        let mut ring = lock(&self.inner);
        let dropped = ring.in_call.saturating_sub(limits::LOG_PER_CALL_MAX);
        ring.in_call = 0;
        if dropped > 0 {
            ring.push(&format!(
                "apex: {dropped} more lines of one call were dropped; the most is {}",
                limits::LOG_PER_CALL_MAX
            ));
        }
    }

    /// Returns the lines, oldest first.
    #[must_use]
    pub fn newest(&self) -> Vec<String> {
        lock(&self.inner).lines.iter().cloned().collect()
    }
}

impl Ring {
    fn push_limited(&mut self, line: &str) {
        self.in_call += 1;
        if self.in_call <= limits::LOG_PER_CALL_MAX {
            self.push(line);
        }
    }

    /// Adds a line, cut to its longest length, with control characters made visible.
    fn push(&mut self, line: &str) {
        if self.lines.len() >= limits::LOG_COUNT_MAX {
            self.lines.pop_front();
        }
        self.lines
            .push_back(visible(line, limits::LOG_LINE_LEN_MAX));
    }
}

/// Returns a text as one line that no terminal misreads, cut after so many bytes.
#[must_use]
pub fn visible(text: &str, len_max: usize) -> String {
    let mut line = String::with_capacity(text.len().min(len_max));
    for c in text.trim_end().chars() {
        if line.len() >= len_max {
            line.push('…');
            break;
        }
        match c {
            '\n' => line.push_str(" / "),
            '\t' => line.push(' '),
            c if c.is_control() => line.push(char::REPLACEMENT_CHARACTER),
            c => line.push(c),
        }
    }
    line
}

/// Standard output and standard error of a tool: each line that it prints is a line of its log.
#[derive(Clone, Debug)]
pub struct Printed {
    log: Arc<ToolLog>,
    /// A line that has not ended.
    open: Arc<Mutex<Vec<u8>>>,
}

impl Printed {
    /// Returns a stream into a log.
    #[must_use]
    pub fn new(log: Arc<ToolLog>) -> Self {
        Self {
            log,
            open: Arc::default(),
        }
    }

    fn take(&self, bytes: &[u8]) {
        let mut open = lock(&self.open);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            open.extend_from_slice(piece);
            if piece.ends_with(b"\n") || open.len() >= limits::LOG_LINE_LEN_MAX {
                self.log.push_printed(&String::from_utf8_lossy(&open));
                open.clear();
            }
        }
    }
}

impl IsTerminal for Printed {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Printed {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for Printed {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_thinned_and_counted() {
        let log = ToolLog::new();
        for i in 0..limits::LOG_PER_CALL_MAX + 5 {
            log.push_tool(2, &format!("line {i}"));
        }
        assert_eq!(log.newest().len(), limits::LOG_PER_CALL_MAX);
        log.begin_call();
        assert!(log.newest().last().unwrap().contains("5 more lines"));
        log.push_tool(9, "next call");
        assert_eq!(log.newest().last().unwrap(), "error: next call");
    }

    #[test]
    fn the_oldest_lines_go_first() {
        let log = ToolLog::new();
        for i in 0..=limits::LOG_COUNT_MAX {
            log.push_host(&i.to_string());
        }
        assert_eq!(log.newest().len(), limits::LOG_COUNT_MAX);
        assert_eq!(log.newest()[0], "apex: 1");
    }

    #[test]
    fn a_line_cannot_move_the_cursor_or_be_endless() {
        assert_eq!(visible("a\x1b[2J\nb\n", 100), "a\u{fffd}[2J / b");
        assert_eq!(visible("ééé", 3), "éé…");
    }

    #[test]
    fn what_is_printed_becomes_lines() {
        let log = Arc::new(ToolLog::new());
        let printed = Printed::new(Arc::clone(&log));
        printed.take(b"one\ntw");
        printed.take(b"o\nthree");
        assert_eq!(log.newest(), ["one", "two"]);
    }
}
