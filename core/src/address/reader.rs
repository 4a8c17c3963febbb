//! Reading a command text code point by code point: blanks, numbers, patterns.

use alloc::string::String;
use alloc::vec::Vec;

use super::{AddressError, Pattern};

/// What of a command text is still to be read. Its end reads as a newline.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    chars: Vec<char>,
    at: usize,
    /// The pattern that an empty one repeats.
    pub(crate) last_pattern: String,
}

impl Reader {
    pub(crate) fn new(text: &str, last_pattern: &str) -> Self {
        Self {
            chars: text.chars().collect(),
            at: 0,
            last_pattern: String::from(last_pattern),
        }
    }

    /// Returns whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.chars.len()
    }

    /// Returns what comes next, without taking it.
    pub(crate) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    /// Takes what comes next.
    pub(crate) fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    /// Takes what comes next if it is `c`.
    pub(crate) fn take_if(&mut self, c: char) -> bool {
        let is_next = self.peek() == Some(c);
        self.at += usize::from(is_next);
        is_next
    }

    /// Skips blanks and tabs; returns what comes then.
    pub(crate) fn skip_blanks(&mut self) -> Option<char> {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        self.peek()
    }

    /// Takes a number without sign; 1 when there is none. Numbers too large stay the largest.
    pub(crate) fn number(&mut self) -> u64 {
        let mut number = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            let so_far: u64 = number.unwrap_or(0);
            number = Some(so_far.saturating_mul(10).saturating_add(u64::from(digit)));
            self.at += 1;
        }
        number.unwrap_or(1)
    }

    /// Takes a pattern up to its delimiter, behind the one that began it, or up to the line's end.
    /// Returns also whether its delimiter stood there.
    pub(crate) fn pattern(&mut self, delimiter: char) -> Result<(Pattern, bool), AddressError> {
        let mut source = String::new();
        let mut is_closed = false;
        while let Some(c) = self.peek() {
            if c == '\n' {
                break;
            }
            self.at += 1;
            if c == delimiter {
                is_closed = true;
                break;
            }
            if c != '\\' {
                source.push(c);
                continue;
            }
            match self.peek() {
                Some(next) if next == delimiter => {
                    self.at += 1;
                    source.push(delimiter);
                }
                Some('\\') => {
                    self.at += 1;
                    source.push_str("\\\\");
                }
                Some(_) | None => source.push('\\'),
            }
        }
        if source.is_empty() {
            source.clone_from(&self.last_pattern);
        } else {
            self.last_pattern.clone_from(&source);
        }
        if source.is_empty() {
            return Err(AddressError::NoPattern);
        }
        Ok((Pattern::new(source), is_closed))
    }
}
