//! As much of an editor as the cases need: open files, undo, printing, the shell.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use apex_core::address::AddressError;
use apex_core::command::{
    Command, CommandError, File, Memory, Outcome, Print, Request, Source, SyntaxError, WhereForm,
};
use apex_core::edit::{self, Splice};
use apex_core::text::{Span, Text};

use crate::shell;

/// Why a command of a script failed.
#[derive(Debug)]
pub enum Failure {
    /// The command itself.
    Command(CommandError),
    /// What came out is no edit of the text.
    Edit(String),
    /// Something outside failed.
    Outside(String),
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        Self::Command(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(error) => error.fmt(f),
            Self::Edit(error) | Self::Outside(error) => error.fmt(f),
        }
    }
}

impl Failure {
    /// Returns the class of the error, in the words of the cases.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Command(error) => class(error),
            Self::Edit(_) | Self::Outside(_) => "none of the classes",
        }
    }
}

fn class(error: &CommandError) -> &'static str {
    match error {
        CommandError::Address(error) => match error {
            AddressError::OutOfRange => "address out of range",
            AddressError::OutOfOrder => "addresses out of order",
            AddressError::Malformed => "bad address",
            AddressError::NoMatch => "no match",
            AddressError::NoPattern => "no previous pattern",
            AddressError::Regexp(_) => "bad regexp",
            AddressError::Files { .. } => "no such file",
        },
        CommandError::Overlap => "addresses overlap",
        CommandError::OutOfSequence => "changes not in sequence",
        CommandError::NoSubstitution => "no substitution",
        CommandError::Syntax(SyntaxError::AddressExpected) => "bad address",
        CommandError::Syntax(_) => "bad syntax",
        CommandError::BadDelimiter(_) => "bad delimiter",
        CommandError::Unknown(_) => "unknown command",
        CommandError::NoShellCommand => "no shell command",
        CommandError::Nested => "nested X or Y",
        CommandError::FileHasChanges(_) => "file has changes",
        CommandError::PendingChanges => "pending changes",
        CommandError::NoFile => "no file",
        CommandError::NoSuchFile(_) => "no such file",
    }
}

/// One step of undo: which command made it, and the file before and after it.
#[derive(Clone, Debug)]
struct Step {
    command: u64,
    before: (Text, Span),
    after: (Text, Span),
}

/// The history of one file.
#[derive(Clone, Debug, Default)]
struct History {
    done: Vec<Step>,
    undone: Vec<Step>,
}

/// Open files and what commands remember.
#[derive(Debug)]
pub struct Editor {
    /// The open files.
    pub files: Vec<File>,
    /// The current one, by index.
    pub current: Option<usize>,
    /// Everything that was printed.
    pub output: String,
    histories: Vec<History>,
    memory: Memory,
    disk: BTreeMap<String, String>,
    command: u64,
}

impl Editor {
    /// Returns an editor without open files, which may open those given.
    #[must_use]
    pub fn new(disk: BTreeMap<String, String>) -> Self {
        Self {
            files: Vec::new(),
            current: None,
            output: String::new(),
            histories: Vec::new(),
            memory: Memory::default(),
            disk,
            command: 0,
        }
    }

    /// Opens a file and makes it the current one.
    pub fn open(&mut self, name: &str, text: &str) {
        self.files.push(File {
            text: Text::from(text),
            dot: Span::at(0),
            name: name.to_owned(),
            is_modified: false,
            is_warned: false,
        });
        self.histories.push(History::default());
        self.current = Some(self.files.len() - 1);
    }

    /// Runs one command with all its lines.
    ///
    /// # Errors
    /// Why it did nothing.
    pub fn run(&mut self, text: &str) -> Result<(), Failure> {
        let text = if text.is_empty() { "\n" } else { text };
        let commands = Command::parse_all(text, &mut self.memory)?;
        for mut command in commands {
            self.command += 1;
            let outcome = command.run(&self.files, self.current, &mut self.memory)?;
            let is_selecting = is_selecting(text);
            self.carry_out(&outcome, is_selecting)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, outcome: &Outcome, is_selecting: bool) -> Result<(), Failure> {
        let yields = self.yields(outcome)?;
        if !is_selecting {
            self.print(outcome, &yields);
        }
        for (index, change) in outcome.files.iter().enumerate() {
            let (splices, dot) = change.finish(&yields);
            let file = &mut self.files[index];
            let before = (file.text.clone(), change.dot_before().unwrap_or(file.dot));
            edit::check(&splices, file.text.len()).map_err(|e| Failure::Edit(e.to_string()))?;
            edit::apply(&mut file.text, &splices);
            file.dot = dot;
            if change.is_change() && splices != [] as [Splice; 0] {
                file.is_modified = true;
                file.is_warned = false;
                let history = &mut self.histories[index];
                history.undone.clear();
                history.done.push(Step {
                    command: self.command,
                    before,
                    after: (file.text.clone(), dot),
                });
            }
        }
        self.current = outcome.current;
        for request in &outcome.requests {
            self.serve(request)?;
        }
        Ok(())
    }

    fn yields(&self, outcome: &Outcome) -> Result<Vec<String>, Failure> {
        let outside = |error: std::io::Error| Failure::Outside(error.to_string());
        let sources = outcome.sources.iter();
        sources
            .map(|source| match source {
                Source::Shell { command, input } => {
                    let input = input.map(|(file, at)| self.files[file].text.slice(at));
                    shell::run(command, input).map_err(outside)
                }
                Source::File { name } => self
                    .disk
                    .get(name)
                    .cloned()
                    .ok_or_else(|| Failure::Outside(format!("no file {name}"))),
            })
            .collect()
    }

    fn print(&mut self, outcome: &Outcome, yields: &[String]) {
        for print in &outcome.prints {
            match print {
                Print::Text { file, at } => self.output += &self.files[*file].text.slice(*at),
                Print::Where { file, at, form } => {
                    let said = place(&self.files[*file].text, *at, *form);
                    self.output += &said;
                }
                Print::Source(index) => self.output += &yields[*index],
                // sam prints its menu line on another stream.
                Print::Name(_) => {}
            }
        }
    }

    fn serve(&mut self, request: &Request) -> Result<(), Failure> {
        match request {
            Request::Undo { file, count } => {
                for _ in 0..count.unsigned_abs() {
                    if !self.undo(*file, *count > 0) {
                        break;
                    }
                }
            }
            Request::Open { names } => {
                for name in names.split([' ', '\t']).filter(|name| !name.is_empty()) {
                    let text = self.disk.get(name).cloned().unwrap_or_default();
                    self.open(name, &text);
                }
            }
            Request::Switch { file } => self.current = Some(*file),
            Request::Close { file } => {
                self.files.remove(*file);
                self.histories.remove(*file);
                self.current = self.current.filter(|current| current != file);
            }
            Request::Reload { .. } | Request::Write { .. } | Request::Name { .. } => {
                return Err(Failure::Outside(format!("no case has {request:?}")));
            }
        }
        Ok(())
    }

    /// Undoes or redoes the last step of a file, in every file that the same command changed.
    fn undo(&mut self, file: usize, is_undo: bool) -> bool {
        let steps = |history: &History| {
            let last = if is_undo {
                history.done.last()
            } else {
                history.undone.last()
            };
            last.map(|step| step.command)
        };
        let Some(command) = steps(&self.histories[file]) else {
            return false;
        };
        for (file, history) in self.files.iter_mut().zip(&mut self.histories) {
            if steps(history) != Some(command) {
                continue;
            }
            let (from, to) = if is_undo {
                (&mut history.done, &mut history.undone)
            } else {
                (&mut history.undone, &mut history.done)
            };
            let Some(step) = from.pop() else { continue };
            let now = if is_undo { &step.before } else { &step.after };
            (file.text, file.dot) = now.clone();
            file.is_modified = true;
            to.push(step);
        }
        true
    }
}

/// Returns whether a command is a bare address: a windowed editor selects and prints nothing.
fn is_selecting(text: &str) -> bool {
    let bare = text.trim_matches([' ', '\t', '\n']);
    bare.is_empty()
}

/// Says where a span is, in the form of sam.
fn place(text: &Text, at: Span, form: WhereForm) -> String {
    let mut said = String::new();
    let first = text.line_of(at.q0) + 1;
    let mut last = text.line_of(at.q1) + 1;
    if !at.is_empty() && text.char_at(at.q1 - 1) == Some('\n') {
        last -= 1;
    }
    if form != WhereForm::Positions {
        let _infallible = write!(said, "{first}");
        if last != first {
            let _infallible = write!(said, ",{last}");
        }
        said.push_str("; ");
    }
    let _infallible = write!(said, "#{}", at.q0);
    if !at.is_empty() {
        let _infallible = write!(said, ",#{}", at.q1);
    }
    said.push('\n');
    said
}
