//! The command language of sam: what `Edit` takes, and what tools may use.
//!
//! A command is computed on the texts as they are and changes none. Its outcome says which splices
//! each text needs, which selection it gets, what is to be printed, and what only the host can do:
//! run commands of the shell, undo, open and close files.
//!
//! 1. All addresses of one command refer to the text before it.
//! 2. Its changes must come in order and must not overlap; otherwise it fails and nothing happens.
//! 3. What a shell command prints may be an inserted text. It is not known here: the outcome has a
//!    gap for it, and [`FileOutcome::finish`] fills it in.

mod changes;
mod execute;
mod parse;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::address::{Address, AddressError, Chain, Pattern};
use crate::regexp::RegexpError;
use crate::text::{Span, Text};

pub use changes::FileOutcome;

/// Why a command did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// An address stands for nothing.
    Address(AddressError),
    /// `m` into the range that it moves.
    Overlap,
    /// A change before the end of the one before it.
    OutOfSequence,
    /// `s` replaced nothing.
    NoSubstitution,
    /// What is written is no command.
    Syntax(SyntaxError),
    /// No character that may delimit a pattern or a text.
    BadDelimiter(char),
    /// No command has this name.
    Unknown(char),
    /// No shell command was given, and none before.
    NoShellCommand,
    /// `X` or `Y` inside another.
    Nested,
    /// `D` or `e` of a file that has changes which are in no file; the second time does it.
    FileHasChanges(String),
    /// `w` behind changes of the same command.
    PendingChanges,
    /// There is no text to work on.
    NoFile,
    /// No open file has this name.
    NoSuchFile(String),
}

/// What is wrong with the words of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxError {
    /// Something follows where the line should end.
    NewlineExpected,
    /// The command needs a pattern.
    PatternExpected,
    /// A `}` without its `{`.
    UnmatchedClose,
    /// A `{` without its `}`.
    UnmatchedOpen,
    /// The command takes no address.
    TakesNoAddress,
    /// The command needs an address behind it.
    AddressExpected,
    /// Commands inside each other, deeper than [`crate::limits::COMMAND_DEPTH_MAX`].
    TooDeep,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::Overlap => f.write_str("addresses overlap: m into its own range"),
            Self::OutOfSequence => f.write_str("changes not in sequence: nothing was changed"),
            Self::NoSubstitution => f.write_str("no substitution: the pattern does not match"),
            Self::Syntax(error) => error.fmt(f),
            Self::BadDelimiter(c) => write!(f, "bad delimiter {c:?}: take a punctuation character"),
            Self::Unknown(c) => write!(f, "unknown command {c:?}"),
            Self::NoShellCommand => {
                f.write_str("no shell command: none was given, and none before")
            }
            Self::Nested => f.write_str("X and Y can't be nested"),
            Self::FileHasChanges(name) => {
                write!(
                    f,
                    "{name:?} has changes: put it, or say it again to lose them"
                )
            }
            Self::PendingChanges => f.write_str("w must stand before the changes of its command"),
            Self::NoFile => f.write_str("no current file"),
            Self::NoSuchFile(name) => write!(f, "no open file is named {name:?}"),
        }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NewlineExpected => "newline expected: something follows the command",
            Self::PatternExpected => "pattern expected",
            Self::UnmatchedClose => "unmatched }",
            Self::UnmatchedOpen => "unmatched {",
            Self::TakesNoAddress => "this command takes no address",
            Self::AddressExpected => "an address is needed behind m and t",
            Self::TooDeep => "commands are nested too deep",
        })
    }
}

impl core::error::Error for CommandError {}

impl From<AddressError> for CommandError {
    fn from(error: AddressError) -> Self {
        Self::Address(error)
    }
}

impl From<RegexpError> for CommandError {
    fn from(error: RegexpError) -> Self {
        Self::Address(AddressError::Regexp(error))
    }
}

impl From<SyntaxError> for CommandError {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

/// What commands remember from one to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The pattern that an empty one repeats.
    pub pattern: String,
    /// The shell command that an empty one repeats.
    pub shell: String,
}

/// One text that commands may work on.
#[derive(Clone, Debug)]
pub struct File {
    /// Its text; cloning one is cheap.
    pub text: Text,
    /// Its selection.
    pub dot: Span,
    /// Its name.
    pub name: String,
    /// Whether it has changes that are in no file.
    pub is_modified: bool,
    /// Whether closing it was refused since its last change: the next time is granted.
    pub is_warned: bool,
}

/// A parsed command. It may be run more than once.
#[derive(Debug)]
pub struct Command {
    address: Option<Address>,
    verb: Verb,
}

/// What a command does to the place that its address stands for.
#[derive(Debug)]
enum Verb {
    /// A bare address, or nothing at all.
    Newline,
    Append(String),
    Insert(String),
    Change(String),
    Delete,
    Move(Chain),
    Copy(Chain),
    Print,
    /// `=`, or `=#` when only positions count, or `=+` for lines and columns.
    Where(WhereForm),
    Substitute(Box<Substitute>),
    /// `x` and `y`; without a pattern by lines.
    Loop {
        pattern: Option<Pattern>,
        is_between: bool,
        body: Box<Command>,
    },
    /// `g` and `v`.
    If {
        pattern: Pattern,
        is_negated: bool,
        body: Box<Command>,
    },
    /// `X` and `Y`; without a pattern all files.
    Files {
        pattern: Option<Pattern>,
        is_negated: bool,
        body: Box<Command>,
    },
    Group(Vec<Command>),
    /// Undoes steps, or with a negative number redoes them.
    Undo(i64),
    Switch(String),
    Open(String),
    Close(String),
    Shell {
        kind: ShellKind,
        command: String,
    },
    Edit(String),
    Read(String),
    Write(String),
    Name(String),
}

/// What `s` replaces by what.
#[derive(Debug)]
struct Substitute {
    pattern: Pattern,
    replacement: String,
    /// The first match that is replaced, from 1.
    number: u64,
    is_global: bool,
}

/// How `=` says where the selection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhereForm {
    /// By lines.
    Lines,
    /// By positions.
    Positions,
    /// By lines and columns.
    Columns,
}

/// What a shell command gets and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShellKind {
    /// `|`: its input is the place, its output replaces it.
    Filter,
    /// `<`: its output replaces the place.
    From,
    /// `>`: its input is the place.
    To,
    /// `!`: neither.
    Alone,
}

/// Something that a command prints, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Print {
    /// A part of a text.
    Text {
        /// Of which file, by index.
        file: usize,
        /// What.
        at: Span,
    },
    /// Where a part of a text is.
    Where {
        /// In which file, by index.
        file: usize,
        /// What.
        at: Span,
        /// How to say it.
        form: WhereForm,
    },
    /// What a source yields, by index into [`Outcome::sources`].
    Source(usize),
    /// The name of a file, by index.
    Name(usize),
}

/// A text that only the host can get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// What a shell command prints.
    Shell {
        /// The command, in the words of the user.
        command: String,
        /// What it reads: a file, by index, and which part of it.
        input: Option<(usize, Span)>,
    },
    /// The contents of a file.
    File {
        /// Its name, as it was written.
        name: String,
    },
}

/// Something that only the host can do, after the changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Undo steps of a file; a negative number redoes.
    Undo {
        /// Which file, by index.
        file: usize,
        /// How many steps.
        count: i64,
    },
    /// Open files.
    Open {
        /// Their names, blanks between them; with a `<` at the start the command that prints them.
        names: String,
    },
    /// Make a file the current one.
    Switch {
        /// Which, by index.
        file: usize,
    },
    /// Close a file.
    Close {
        /// Which, by index.
        file: usize,
    },
    /// Read a file again, or another one in its place.
    Reload {
        /// Which, by index.
        file: usize,
        /// The name; empty for its own.
        name: String,
    },
    /// Write a part of a text to a file.
    Write {
        /// Which, by index.
        file: usize,
        /// Which part.
        at: Span,
        /// The name; empty for its own.
        name: String,
    },
    /// Give a file another name; empty to say its name.
    Name {
        /// Which, by index.
        file: usize,
        /// The name.
        name: String,
    },
}

/// What is to be done for a command.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// For each file what changes in it.
    pub files: Vec<FileOutcome>,
    /// What is printed, in order.
    pub prints: Vec<Print>,
    /// Texts that the host has to get, in order; their indices stand in changes and prints.
    pub sources: Vec<Source>,
    /// What the host has to do after the changes, in order.
    pub requests: Vec<Request>,
    /// The current file afterwards, by index.
    pub current: Option<usize>,
}

impl Command {
    /// Parses a text of commands, one behind the other. Each is to be run on the texts that the
    /// one before it left.
    ///
    /// # Errors
    /// What is wrong with the text; then `memory` is as it was.
    pub fn parse_all(text: &str, memory: &mut Memory) -> Result<Vec<Self>, CommandError> {
        parse::parse_all(text, memory)
    }

    /// Returns the command that `|`, `<`, `>` or `!` in front of a shell command is; none for
    /// another sign. The shell command may have more than one line.
    #[must_use]
    pub fn shell(sign: char, command: &str) -> Option<Self> {
        let kind = match sign {
            '|' => ShellKind::Filter,
            '<' => ShellKind::From,
            '>' => ShellKind::To,
            '!' => ShellKind::Alone,
            _ => return None,
        };
        let command = String::from(command);
        let (address, verb) = (None, Verb::Shell { kind, command });
        Some(Self { address, verb })
    }

    /// Computes what the command does to files, of which `current` is the current one, by index.
    ///
    /// # Errors
    /// Why it does nothing.
    pub fn run(
        &mut self,
        files: &[File],
        current: Option<usize>,
        memory: &mut Memory,
    ) -> Result<Outcome, CommandError> {
        execute::run(self, files, current, memory)
    }
}
