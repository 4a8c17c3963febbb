//! Commands out of text: one table says what each takes.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Command, CommandError, Memory, ShellKind, Substitute, SyntaxError, Verb, WhereForm};
use crate::address::reader::Reader;
use crate::address::{self, Pattern};
use crate::limits;

/// Parses commands up to the end of the text.
pub(super) fn parse_all(text: &str, memory: &mut Memory) -> Result<Vec<Command>, CommandError> {
    let mut reader = Reader::new(text, &memory.pattern);
    let mut commands = Vec::new();
    loop {
        match parse(&mut reader, 0)? {
            Parsed::Command(command) => commands.push(command),
            Parsed::Close => return Err(SyntaxError::UnmatchedClose.into()),
            Parsed::End => break,
        }
        if reader.is_at_end() {
            break;
        }
    }
    memory.pattern = reader.last_pattern;
    Ok(commands)
}

/// What was found where a command was looked for.
enum Parsed {
    Command(Command),
    /// The `}` of a group.
    Close,
    End,
}

/// Takes one command. `depth` counts the commands and groups round it.
fn parse(reader: &mut Reader, depth: usize) -> Result<Parsed, CommandError> {
    if depth > limits::COMMAND_DEPTH_MAX {
        return Err(SyntaxError::TooDeep.into());
    }
    let address = address::parse(reader)?;
    let has_address = address.is_some();
    reader.skip_blanks();
    let Some(name) = reader.take() else {
        // The end of the text reads as a newline.
        return Ok(if has_address || depth > 0 {
            Parsed::Command(Command {
                address,
                verb: Verb::Newline,
            })
        } else {
            Parsed::End
        });
    };
    if has_address && "bBDefuXY!".contains(name) {
        return Err(SyntaxError::TakesNoAddress.into());
    }
    let verb = match name {
        '\n' => Verb::Newline,
        '{' => Verb::Group(group(reader, depth)?),
        '}' => {
            at_newline(reader)?;
            return Ok(Parsed::Close);
        }
        'a' => Verb::Append(text(reader)?),
        'i' => Verb::Insert(text(reader)?),
        'c' => Verb::Change(text(reader)?),
        'd' => bare(reader, Verb::Delete)?,
        'p' => bare(reader, Verb::Print)?,
        'm' | 't' => {
            let chain = address::parse_chain(reader)?.ok_or(SyntaxError::AddressExpected)?;
            at_newline(reader)?;
            if name == 'm' {
                Verb::Move(chain)
            } else {
                Verb::Copy(chain)
            }
        }
        's' => Verb::Substitute(Box::new(substitute(reader)?)),
        'x' | 'y' => Verb::Loop {
            pattern: loop_pattern(reader, name == 'x')?,
            is_between: name == 'y',
            body: body(reader, depth, Verb::Print)?,
        },
        'g' | 'v' => Verb::If {
            pattern: delimited(reader)?.0,
            is_negated: name == 'v',
            body: body(reader, depth, Verb::Print)?,
        },
        'X' | 'Y' => Verb::Files {
            pattern: loop_pattern(reader, name == 'X')?,
            is_negated: name == 'Y',
            body: body(reader, depth, Verb::Name(String::new()))?,
        },
        'u' => {
            let sign = if reader.take_if('-') { -1 } else { 1 };
            let count = i64::try_from(reader.number()).unwrap_or(i64::MAX);
            bare(reader, Verb::Undo(sign * count))?
        }
        '=' => position(reader)?,
        _ => {
            return with_token(reader, name).map(|verb| Parsed::Command(Command { address, verb }));
        }
    };
    Ok(Parsed::Command(Command { address, verb }))
}

/// Takes the rest of a command whose argument is the rest of the line, or its first word.
fn with_token(reader: &mut Reader, name: char) -> Result<Verb, CommandError> {
    let shell = |reader: &mut Reader, kind| Verb::Shell {
        kind,
        command: line(reader),
    };
    Ok(match name {
        'b' => Verb::Switch(trimmed(line(reader))),
        'B' => Verb::Open(trimmed(line(reader))),
        'D' => Verb::Close(trimmed(line(reader))),
        '|' => shell(reader, ShellKind::Filter),
        '<' => shell(reader, ShellKind::From),
        '>' => shell(reader, ShellKind::To),
        '!' => shell(reader, ShellKind::Alone),
        'e' => Verb::Edit(word(reader)?),
        'r' => Verb::Read(word(reader)?),
        'w' => Verb::Write(word(reader)?),
        'f' => Verb::Name(word(reader)?),
        _ => return Err(CommandError::Unknown(name)),
    })
}

fn group(reader: &mut Reader, depth: usize) -> Result<Vec<Command>, CommandError> {
    let mut commands = Vec::new();
    loop {
        if reader.skip_blanks() == Some('\n') {
            reader.take();
        }
        if reader.is_at_end() {
            return Err(SyntaxError::UnmatchedOpen.into());
        }
        match parse(reader, depth + 1)? {
            Parsed::Command(command) => commands.push(command),
            Parsed::Close => return Ok(commands),
            Parsed::End => return Err(SyntaxError::UnmatchedOpen.into()),
        }
    }
}

/// Takes the command that another one repeats; `otherwise` when the line ends.
fn body(reader: &mut Reader, depth: usize, otherwise: Verb) -> Result<Box<Command>, CommandError> {
    if matches!(reader.skip_blanks(), None | Some('\n')) {
        reader.take();
        return Ok(Box::new(Command {
            address: None,
            verb: otherwise,
        }));
    }
    match parse(reader, depth + 1)? {
        Parsed::Command(command) => Ok(Box::new(command)),
        Parsed::Close => Err(SyntaxError::UnmatchedClose.into()),
        Parsed::End => Err(SyntaxError::NewlineExpected.into()),
    }
}

fn bare(reader: &mut Reader, verb: Verb) -> Result<Verb, CommandError> {
    at_newline(reader)?;
    Ok(verb)
}

fn at_newline(reader: &mut Reader) -> Result<(), SyntaxError> {
    match reader.skip_blanks() {
        None | Some('\n') => {
            reader.take();
            Ok(())
        }
        Some(_) => Err(SyntaxError::NewlineExpected),
    }
}

/// Takes a delimiter, which may be no letter, digit, backslash or newline.
fn delimiter(reader: &mut Reader) -> Result<char, CommandError> {
    match reader.take() {
        Some(c) if c == '\\' || c.is_ascii_alphanumeric() => Err(CommandError::BadDelimiter(c)),
        Some(c) => Ok(c),
        None => Err(CommandError::BadDelimiter('\n')),
    }
}

fn delimited(reader: &mut Reader) -> Result<(Pattern, char), CommandError> {
    if matches!(reader.skip_blanks(), None | Some('\n')) {
        return Err(SyntaxError::PatternExpected.into());
    }
    let delimiter = delimiter(reader)?;
    Ok((reader.pattern(delimiter)?.0, delimiter))
}

/// Takes the pattern of a loop; only `x` and `X` may do without.
fn loop_pattern(reader: &mut Reader, is_optional: bool) -> Result<Option<Pattern>, CommandError> {
    if is_optional && matches!(reader.peek(), None | Some(' ' | '\t' | '\n')) {
        return Ok(None);
    }
    Ok(Some(delimited(reader)?.0))
}

fn substitute(reader: &mut Reader) -> Result<Substitute, CommandError> {
    let number = reader.number();
    let (pattern, delimiter) = delimited(reader)?;
    let replacement = escaped(reader, delimiter, true);
    let is_global = reader.take_if(delimiter) && reader.take_if('g');
    at_newline(reader)?;
    Ok(Substitute {
        pattern,
        replacement,
        number,
        is_global,
    })
}

/// Takes a text up to its delimiter or the line's end, and leaves that. A replacement keeps its
/// escapes, but for `\n` and the delimiter.
fn escaped(reader: &mut Reader, delimiter: char, is_replacement: bool) -> String {
    let mut text = String::new();
    while let Some(c) = reader.peek() {
        if c == delimiter || c == '\n' {
            break;
        }
        reader.take();
        if c != '\\' {
            text.push(c);
            continue;
        }
        match reader.peek() {
            None | Some('\n') => text.push('\\'),
            Some('n') => {
                reader.take();
                text.push('\n');
            }
            Some(next) => {
                reader.take();
                if next != delimiter && (is_replacement || next != '\\') {
                    text.push('\\');
                }
                text.push(next);
            }
        }
    }
    text
}

/// Takes the text of `a`, `c` or `i`: delimited, or lines up to one that is a dot.
fn text(reader: &mut Reader) -> Result<String, CommandError> {
    if reader.skip_blanks().is_some_and(|c| c != '\n') {
        let delimiter = delimiter(reader)?;
        let text = escaped(reader, delimiter, false);
        reader.take_if(delimiter);
        at_newline(reader)?;
        return Ok(text);
    }
    reader.take();
    let mut text = String::new();
    while !reader.is_at_end() {
        let line = line(reader);
        if line == "." {
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// Takes the rest of the line and its newline.
fn line(reader: &mut Reader) -> String {
    let mut line = String::new();
    while let Some(c) = reader.take() {
        if c == '\n' {
            break;
        }
        line.push(c);
    }
    line
}

/// Takes a word; the line must end behind it.
fn word(reader: &mut Reader) -> Result<String, CommandError> {
    let mut word = String::new();
    reader.skip_blanks();
    while let Some(c) = reader.peek() {
        if matches!(c, ' ' | '\t' | '\n') {
            break;
        }
        reader.take();
        word.push(c);
    }
    at_newline(reader)?;
    Ok(word)
}

fn trimmed(line: String) -> String {
    let trimmed = line.trim_matches([' ', '\t']);
    if trimmed.len() == line.len() {
        line
    } else {
        String::from(trimmed)
    }
}

fn position(reader: &mut Reader) -> Result<Verb, CommandError> {
    let form = match line(reader).as_str() {
        "" => WhereForm::Lines,
        "#" => WhereForm::Positions,
        "+" => WhereForm::Columns,
        _ => return Err(SyntaxError::NewlineExpected.into()),
    };
    Ok(Verb::Where(form))
}
