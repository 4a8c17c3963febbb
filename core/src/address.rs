//! Addresses of texts, as sam has them: `3`, `#12`, `/re/`, `$-2`, `/a/;/b/`, `"name"`.
//!
//! One engine for looking (B3), for the command `Edit`, for the command line and for tools.

pub(crate) mod reader;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::regexp::{Regexp, RegexpError};
use crate::text::{Span, Text};
use reader::Reader;

/// Why an address stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// It is outside the text.
    OutOfRange,
    /// Its second part ends before its first part begins, or is in another file.
    OutOfOrder,
    /// Its parts do not go together.
    Malformed,
    /// A pattern matches nowhere.
    NoMatch,
    /// An empty pattern, and none before it to repeat.
    NoPattern,
    /// A pattern is no regular expression.
    Regexp(RegexpError),
    /// No file, or more than one, matches the pattern of a name.
    Files {
        /// The pattern.
        pattern: String,
        /// How many files it matches.
        count: usize,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange => f.write_str("address out of range"),
            Self::OutOfOrder => f.write_str("addresses out of order"),
            Self::Malformed => f.write_str("bad address"),
            Self::NoMatch => f.write_str("no match for the pattern"),
            Self::NoPattern => f.write_str("no pattern: none was given, and none before"),
            Self::Regexp(error) => error.fmt(f),
            Self::Files { pattern, count: 0 } => write!(f, "no file matches \"{pattern}\""),
            Self::Files { pattern, count } => {
                write!(f, "{count} files match \"{pattern}\": say more of the name")
            }
        }
    }
}

impl core::error::Error for AddressError {}

/// A regular expression as it was written; compiled when it is first used.
#[derive(Debug)]
pub(crate) struct Pattern {
    source: String,
    compiled: Option<Box<Regexp>>,
}

impl Pattern {
    pub(crate) const fn new(source: String) -> Self {
        Self {
            source,
            compiled: None,
        }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn regexp(&mut self) -> Result<&mut Regexp, RegexpError> {
        let compiled = match self.compiled.take() {
            Some(compiled) => compiled,
            None => Box::new(Regexp::new(&self.source)?),
        };
        Ok(self.compiled.insert(compiled))
    }
}

/// One part of an address.
#[derive(Debug)]
enum Part {
    Line(u64),
    Char(u64),
    Forward(Pattern),
    Back(Pattern),
    Dot,
    End,
    Plus,
    Minus,
    File(Pattern),
}

/// Parts that follow each other, each going on from the one before it.
#[derive(Debug)]
pub(crate) struct Chain(Vec<Part>);

impl Chain {
    /// Returns whether it names a file and nothing in it.
    fn is_only_file(&self) -> bool {
        matches!(self.0[..], [Part::File(_)])
    }
}

/// What stands between two chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Comma,
    Semicolon,
}

/// A parsed address.
#[derive(Debug)]
pub(crate) struct Address {
    /// Chains with what follows each: none is the start of the text.
    lefts: Vec<(Option<Chain>, Separator)>,
    /// None, behind a separator, is the end of the text.
    last: Option<Chain>,
}

impl Address {
    pub(crate) fn is_only_file(&self) -> bool {
        self.lefts.is_empty() && self.last.as_ref().is_some_and(Chain::is_only_file)
    }

    pub(crate) fn begins_with_file(&self) -> bool {
        let first = self
            .lefts
            .first()
            .map_or(self.last.as_ref(), |l| l.0.as_ref());
        first.is_some_and(|chain| matches!(chain.0.first(), Some(Part::File(_))))
    }
}

/// Takes an address of one chain; none if none begins here.
pub(crate) fn parse_chain(reader: &mut Reader) -> Result<Option<Chain>, AddressError> {
    let mut parts: Vec<Part> = Vec::new();
    loop {
        let Some(part) = parse_part(reader)? else {
            return Ok((!parts.is_empty()).then_some(Chain(parts)));
        };
        if let Some(before) = parts.last() {
            let is_sign = matches!(before, Part::Plus | Part::Minus);
            match (&part, before) {
                (Part::File(_), _) => return Err(AddressError::Malformed),
                (Part::Dot | Part::End, Part::File(_)) => {}
                (Part::Dot | Part::End, _) => return Err(AddressError::Malformed),
                (Part::Line(_) | Part::Char(_), Part::File(_)) => {}
                (Part::Line(_) | Part::Char(_) | Part::Forward(_) | Part::Back(_), _) => {
                    if !is_sign {
                        parts.push(Part::Plus);
                    }
                }
                (Part::Plus | Part::Minus, _) => {}
            }
        }
        parts.push(part);
    }
}

fn parse_part(reader: &mut Reader) -> Result<Option<Part>, AddressError> {
    let part = match reader.skip_blanks() {
        Some('#') => {
            reader.take();
            Part::Char(reader.number())
        }
        Some('0'..='9') => Part::Line(reader.number()),
        Some(delimiter @ ('/' | '?' | '"')) => {
            reader.take();
            let (pattern, _) = reader.pattern(delimiter)?;
            match delimiter {
                '/' => Part::Forward(pattern),
                '?' => Part::Back(pattern),
                _ => Part::File(pattern),
            }
        }
        Some(c @ ('.' | '$' | '+' | '-')) => {
            reader.take();
            match c {
                '.' => Part::Dot,
                '$' => Part::End,
                '+' => Part::Plus,
                _ => Part::Minus,
            }
        }
        Some(_) | None => return Ok(None),
    };
    Ok(Some(part))
}

/// Takes an address; none if none begins here.
pub(crate) fn parse(reader: &mut Reader) -> Result<Option<Address>, AddressError> {
    let mut lefts = Vec::new();
    loop {
        let chain = parse_chain(reader)?;
        let separator = match reader.skip_blanks() {
            Some(',') => Separator::Comma,
            Some(';') => Separator::Semicolon,
            Some(_) | None => {
                let is_some = chain.is_some() || !lefts.is_empty();
                return Ok(is_some.then_some(Address { lefts, last: chain }));
            }
        };
        if chain.is_none() && !lefts.is_empty() {
            return Err(AddressError::Malformed);
        }
        reader.take();
        lefts.push((chain, separator));
    }
}

/// A place in one of several files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: usize,
    pub(crate) at: Span,
}

/// The files that addresses are looked up in.
pub(crate) trait Files {
    fn text(&self, file: usize) -> &Text;
    fn dot(&self, file: usize) -> Span;
    fn set_dot(&mut self, place: Place);
    /// Returns the one file whose line in the menu matches.
    fn matching(&self, pattern: &mut Pattern) -> Result<usize, AddressError>;
}

/// Returns what an address stands for, seen from a place.
pub(crate) fn evaluate(
    address: &mut Address,
    files: &mut dyn Files,
    mut from: Place,
) -> Result<Place, AddressError> {
    let mut starts = Vec::new();
    for (chain, separator) in &mut address.lefts {
        let left = match chain {
            Some(chain) => evaluate_chain(chain, files, from)?,
            None => Place {
                file: from.file,
                at: Span::at(0),
            },
        };
        if *separator == Separator::Semicolon {
            from = left;
            files.set_dot(left);
        }
        starts.push(left);
    }
    let end = match &mut address.last {
        Some(chain) => evaluate_chain(chain, files, from)?,
        None => Place {
            file: from.file,
            at: Span::at(files.text(from.file).len()),
        },
    };
    let is_in_order = |start: &Place| start.file == end.file && start.at.q0 <= end.at.q1;
    if !starts.iter().all(is_in_order) {
        return Err(AddressError::OutOfOrder);
    }
    let q0 = starts.first().map_or(end.at.q0, |start| start.at.q0);
    Ok(Place {
        file: end.file,
        at: Span::new(q0, end.at.q1),
    })
}

/// In which direction a part goes on from the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    None,
    Plus,
    Minus,
}

/// Returns what a chain stands for, seen from a place.
pub(crate) fn evaluate_chain(
    chain: &mut Chain,
    files: &mut dyn Files,
    from: Place,
) -> Result<Place, AddressError> {
    let mut here = from;
    let mut sign = Sign::None;
    let count = chain.0.len();
    for index in 0..count {
        // A sign that nothing follows, or another sign, is one line.
        let is_alone = matches!(
            chain.0.get(index + 1),
            None | Some(Part::Plus | Part::Minus)
        );
        let text = files.text(here.file);
        match &mut chain.0[index] {
            Part::Line(number) => here.at = line(text, *number, here.at, sign)?,
            Part::Char(number) => here.at = position(text, *number, here.at, sign)?,
            Part::Dot => here.at = files.dot(here.file),
            Part::End => here.at = Span::at(text.len()),
            Part::Forward(pattern) => here.at = search(text, pattern, here.at, sign)?,
            Part::Back(pattern) => {
                let sign = match sign {
                    Sign::None | Sign::Plus => Sign::Minus,
                    Sign::Minus => Sign::Plus,
                };
                here.at = search(text, pattern, here.at, sign)?;
            }
            Part::File(pattern) => {
                here.file = files.matching(pattern)?;
                here.at = files.dot(here.file);
            }
            Part::Plus => {
                sign = Sign::Plus;
                if is_alone {
                    here.at = line(text, 1, here.at, sign)?;
                }
            }
            Part::Minus => {
                sign = Sign::Minus;
                if is_alone {
                    here.at = line(text, 1, here.at, sign)?;
                }
            }
        }
    }
    Ok(here)
}

/// Searches from a span on, or back from it, and round; an empty match right there is passed over.
fn search(
    text: &Text,
    pattern: &mut Pattern,
    from: Span,
    sign: Sign,
) -> Result<Span, AddressError> {
    let regexp = pattern.regexp().map_err(AddressError::Regexp)?;
    let len = text.len();
    let found = if sign == Sign::Minus {
        let mut back = |q| {
            regexp
                .find_back(text, q)
                .or_else(|| regexp.find_back(text, len))
        };
        match back(from.q0) {
            // An empty text has no other place to go on from.
            Some(at) if at == Span::at(from.q0) && len == 0 => None,
            Some(at) if at == Span::at(from.q0) => back(from.q0.checked_sub(1).unwrap_or(len)),
            found => found,
        }
    } else {
        let whole = Span::new(0, len);
        let mut on = |q| {
            regexp
                .find(text, Span::new(q, len))
                .or_else(|| regexp.find(text, whole))
        };
        match on(from.q1) {
            Some(at) if at == Span::at(from.q1) => on(if from.q1 == len { 0 } else { from.q1 + 1 }),
            found => found,
        }
    };
    found.ok_or(AddressError::NoMatch)
}

/// Returns the position `number` code points from a span, or from the start.
fn position(text: &Text, number: u64, from: Span, sign: Sign) -> Result<Span, AddressError> {
    let q = match sign {
        Sign::None => Some(number),
        Sign::Plus => from.q1.checked_add(number),
        Sign::Minus => from.q0.checked_sub(number),
    };
    q.filter(|q| *q <= text.len())
        .map(Span::at)
        .ok_or(AddressError::OutOfRange)
}

/// Returns a line, its newline included, counted from a span or from the start. Line n + 1 of a
/// text of n lines is the empty string at its end; line 0 forwards is the rest of the line that the
/// span ends in, backwards what stands before it in the line that it begins in.
pub(crate) fn line_from(
    text: &Text,
    number: u64,
    from: Span,
    is_back: bool,
) -> Result<Span, AddressError> {
    let sign = if is_back { Sign::Minus } else { Sign::Plus };
    line(text, number, from, sign)
}

fn line(text: &Text, number: u64, from: Span, sign: Sign) -> Result<Span, AddressError> {
    let start_of = |line: u64| {
        (line < text.line_count())
            .then(|| text.line_start(line))
            .ok_or(AddressError::OutOfRange)
    };
    if sign == Sign::Minus {
        let here = text.line_of(from.q0);
        if number == 0 {
            return Ok(Span::new(text.line_start(here), from.q0));
        }
        let end_line = (here + 1)
            .checked_sub(number)
            .ok_or(AddressError::OutOfRange)?;
        let start = text.line_start(end_line.saturating_sub(1));
        return Ok(Span::new(start, text.line_start(end_line)));
    }
    let is_counted_from_start = sign == Sign::None || from.q1 == 0;
    let is_at_line_start = is_counted_from_start || text.char_at(from.q1 - 1) == Some('\n');
    let here = if is_counted_from_start {
        0
    } else {
        text.line_of(from.q1)
    };
    if number == 0 {
        if is_at_line_start {
            let q = if is_counted_from_start { 0 } else { from.q1 };
            return Ok(Span::at(q));
        }
        return Ok(Span::new(from.q1, text.line_start(here + 1)));
    }
    let first = here
        .checked_add(number - u64::from(is_at_line_start))
        .ok_or(AddressError::OutOfRange)?;
    Ok(Span::new(start_of(first)?, text.line_start(first + 1)))
}

/// One text, for addresses that stand alone.
struct Alone<'a> {
    text: &'a Text,
    dot: Span,
}

impl Files for Alone<'_> {
    fn text(&self, _: usize) -> &Text {
        self.text
    }

    fn dot(&self, _: usize) -> Span {
        self.dot
    }

    fn set_dot(&mut self, place: Place) {
        self.dot = place.at;
    }

    fn matching(&self, pattern: &mut Pattern) -> Result<usize, AddressError> {
        Err(AddressError::Files {
            pattern: String::from(pattern.source()),
            count: 0,
        })
    }
}

/// Returns what an address stands for in a text whose selection is `dot`. Besides sam's addresses
/// it may be a line and a column in code points, from 1 (`12:5`), as compilers print them.
///
/// # Errors
/// Why it stands for nothing.
pub fn resolve_from(text: &Text, dot: Span, address: &str) -> Result<Span, AddressError> {
    if let Some((line_number, column)) = line_and_column(address) {
        let at = line(text, line_number, Span::at(0), Sign::None)?;
        let end = text.line_end(at.q0);
        let q = at.q0.saturating_add(column.saturating_sub(1)).min(end);
        return Ok(Span::at(q));
    }
    let mut reader = Reader::new(address, "");
    let parsed = parse(&mut reader)?;
    if reader.skip_blanks().is_some() {
        return Err(AddressError::Malformed);
    }
    let mut parsed = parsed.ok_or(AddressError::Malformed)?;
    let from = Place { file: 0, at: dot };
    evaluate(&mut parsed, &mut Alone { text, dot }, from).map(|place| place.at)
}

/// Returns what an address stands for in a text, seen from its start; none if for nothing.
#[must_use]
pub fn resolve(text: &Text, address: &str) -> Option<Span> {
    resolve_from(text, Span::at(0), address).ok()
}

fn line_and_column(address: &str) -> Option<(u64, u64)> {
    let (line, column) = address.split_once(':')?;
    let number = |text: &str| -> Option<u64> {
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    Some((number(line)?, number(column)?))
}

/// Splits `NAME:ADDRESS` at the colon before the longest address at its end.
#[must_use]
pub fn split(name: &str) -> (&str, &str) {
    for (at, _) in name.match_indices(':') {
        let address = &name[at + 1..];
        // What is told from where one stands says nothing of a text that is not there yet, unless
        // it is a pattern.
        let is_relative = address.starts_with(['+', '-']) && !address.contains(['/', '?']);
        if at > 0 && is_address(address) && !is_relative {
            return (&name[..at], address);
        }
    }
    (name, "")
}

/// Returns the longest head of a text that is an address as it stands in running text: without
/// blanks but in its patterns, and without the stops behind it. It may be empty.
#[must_use]
pub fn head(text: &str) -> &str {
    let mut end = 0;
    let mut pattern = None;
    for (at, c) in text.char_indices() {
        match pattern {
            Some(delimiter) if c == delimiter => pattern = None,
            Some(_) => continue,
            None if "/?".contains(c) => {
                pattern = Some(c);
                continue;
            }
            None if !c.is_ascii_digit() && !"#$.,;+-:".contains(c) => break,
            None => {}
        }
        if !",.:".contains(c) && is_address(&text[..=at]) {
            end = at + 1;
        }
    }
    &text[..end]
}

/// Returns whether a text is an address and nothing else; its patterns must be closed, so that
/// `host:/a/file` is none.
#[must_use]
pub fn is_address(address: &str) -> bool {
    if line_and_column(address).is_some() {
        return true;
    }
    let mut reader = Reader::new(address, "");
    let Ok(Some(parsed)) = parse(&mut reader) else {
        return false;
    };
    let count = address.chars().filter(|c| "/?".contains(*c)).count();
    // A `#` without its number is one for sam, and part of a name here.
    let is_whole = count.is_multiple_of(2) && !address.ends_with('#');
    reader.is_at_end() && !parsed.begins_with_file() && is_whole
}
