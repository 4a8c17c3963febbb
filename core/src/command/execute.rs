//! Running a command over texts that it leaves alone: what it does is written down.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::changes::{FileOutcome, Piece};
use super::{
    Command, CommandError, File, Memory, Outcome, Print, Request, ShellKind, Source, Substitute,
    Verb,
};
use crate::address::{self, Address, AddressError, Chain, Files, Pattern, Place};
use crate::regexp::Submatches;
use crate::text::{Span, Text};

/// A command under way.
struct Run<'a> {
    files: &'a [File],
    outcome: Outcome,
    memory: &'a mut Memory,
    /// How many loops are round what runs.
    loop_depth: usize,
    is_in_files: bool,
}

impl Files for Run<'_> {
    fn text(&self, file: usize) -> &Text {
        &self.files[file].text
    }

    fn dot(&self, file: usize) -> Span {
        self.outcome.files[file].dot
    }

    fn set_dot(&mut self, place: Place) {
        self.outcome.files[place.file].dot = place.at;
    }

    fn matching(&self, pattern: &mut Pattern) -> Result<usize, AddressError> {
        let mut found = Vec::new();
        for file in 0..self.files.len() {
            if self.matches(file, pattern)? {
                found.push(file);
            }
        }
        match found[..] {
            [file] => Ok(file),
            _ => Err(AddressError::Files {
                pattern: String::from(pattern.source()),
                count: found.len(),
            }),
        }
    }
}

pub(super) fn run(
    command: &mut Command,
    files: &[File],
    current: Option<usize>,
    memory: &mut Memory,
) -> Result<Outcome, CommandError> {
    let outcome = Outcome {
        files: files
            .iter()
            .map(|file| FileOutcome::new(file.dot.clamped(file.text.len())))
            .collect(),
        prints: Vec::new(),
        sources: Vec::new(),
        requests: Vec::new(),
        current,
    };
    let mut run = Run {
        files,
        outcome,
        memory,
        loop_depth: 0,
        is_in_files: false,
    };
    run.execute(command, current)?;
    Ok(run.outcome)
}

impl Run<'_> {
    fn changes(&mut self, file: usize) -> &mut FileOutcome {
        &mut self.outcome.files[file]
    }

    /// Returns whether a pattern matches a file's line in the menu: whether it is modified, that it
    /// has a window, whether it is the current one, and its name.
    fn matches(&self, file: usize, pattern: &mut Pattern) -> Result<bool, AddressError> {
        let regexp = pattern.regexp().map_err(AddressError::Regexp)?;
        let modified = if self.files[file].is_modified {
            '\''
        } else {
            ' '
        };
        let current = if self.outcome.current == Some(file) {
            '.'
        } else {
            ' '
        };
        let line = format!("{modified}+{current} {}\n", self.files[file].name);
        let line = Text::from(line.as_str());
        Ok(regexp.find(&line, Span::new(0, line.len())).is_some())
    }

    fn execute(&mut self, command: &mut Command, file: Option<usize>) -> Result<(), CommandError> {
        let Command { address, verb } = command;
        match verb {
            Verb::Switch(_) | Verb::Open(_) | Verb::Close(_) | Verb::Files { .. } => {
                return self.among_files(verb, file);
            }
            Verb::Shell {
                kind: ShellKind::Alone,
                command,
            } => {
                let source = self.shell(command, None)?;
                self.outcome.prints.push(Print::Source(source));
                return Ok(());
            }
            _ => {}
        }
        let place = self.place(address.as_mut(), file, verb)?;
        self.outcome.current = Some(place.file);
        self.at(verb, place, address.is_some())
    }

    /// Returns the place that a command works on.
    fn place(
        &mut self,
        address: Option<&mut Address>,
        file: Option<usize>,
        verb: &Verb,
    ) -> Result<Place, CommandError> {
        let whole = |run: &Self, file: usize| Place {
            file,
            at: Span::new(0, run.files[file].text.len()),
        };
        let is_whole_by_default = matches!(verb, Verb::Write(_));
        let Some(address) = address else {
            let file = file.ok_or(CommandError::NoFile)?;
            let at = self.outcome.files[file].dot;
            return Ok(if is_whole_by_default {
                whole(self, file)
            } else {
                Place { file, at }
            });
        };
        let from = match file {
            Some(file) => Place {
                file,
                at: self.outcome.files[file].dot,
            },
            None if address.begins_with_file() => Place {
                file: 0,
                at: Span::at(0),
            },
            None => return Err(CommandError::NoFile),
        };
        if self.files.is_empty() {
            return Err(CommandError::NoFile);
        }
        let place = address::evaluate(address, self, from)?;
        if is_whole_by_default && address.is_only_file() {
            return Ok(whole(self, place.file));
        }
        Ok(place)
    }

    fn at(&mut self, verb: &mut Verb, place: Place, is_given: bool) -> Result<(), CommandError> {
        let Place { file, at } = place;
        match verb {
            Verb::Newline => {
                let at = if is_given { at } else { self.next_line(place)? };
                self.changes(file).dot = at;
                Ok(())
            }
            Verb::Append(text) => self.insert(file, at.q1, text),
            Verb::Insert(text) => self.insert(file, at.q0, text),
            Verb::Change(text) => {
                self.changes(file).delete(at)?;
                self.insert(file, at.q1, text)
            }
            Verb::Delete => {
                let step = self.changes(file).step();
                self.changes(file).delete(at)?;
                self.changes(file).select(Span::at(at.q0), step);
                // Both ends stand before what is gone.
                self.changes(file).collapse();
                Ok(())
            }
            Verb::Move(to) => self.move_to(to, place),
            Verb::Copy(to) => {
                let to = self.destination(to, file)?;
                self.copy_to(to, place)
            }
            Verb::Print => {
                self.changes(file).dot = at;
                self.outcome.prints.push(Print::Text { file, at });
                Ok(())
            }
            Verb::Where(form) => {
                let form = *form;
                self.outcome.prints.push(Print::Where { file, at, form });
                Ok(())
            }
            Verb::Substitute(substitute) => self.substitute(substitute, place),
            Verb::Loop { .. } => self.repeat(verb, place),
            Verb::If {
                pattern,
                is_negated,
                body,
            } => {
                let found = pattern.regexp()?.find(&self.files[file].text, at);
                if found.is_some() == *is_negated {
                    return Ok(());
                }
                self.changes(file).dot = at;
                self.execute(body, Some(file))
            }
            Verb::Group(commands) => {
                for command in commands {
                    self.changes(file).dot = at;
                    self.execute(command, Some(file))?;
                }
                Ok(())
            }
            Verb::Shell { kind, command } => self.pipe(*kind, command, place),
            Verb::Undo(_) | Verb::Edit(_) | Verb::Read(_) | Verb::Write(_) | Verb::Name(_) => {
                self.ask(verb, place)
            }
            Verb::Switch(_) | Verb::Open(_) | Verb::Close(_) | Verb::Files { .. } => Ok(()),
        }
    }

    /// A bare newline selects whole lines, and when they are selected the line behind them.
    fn next_line(&self, place: Place) -> Result<Span, AddressError> {
        let text = &self.files[place.file].text;
        let start = address::line_from(text, 0, place.at, true)?.q0;
        let end = address::line_from(text, 0, place.at, false)?.q1;
        let lines = Span::new(start, end.max(start));
        if lines == place.at {
            return address::line_from(text, 1, place.at, false);
        }
        Ok(lines)
    }

    fn insert(&mut self, file: usize, q: u64, text: &str) -> Result<(), CommandError> {
        let changes = self.changes(file);
        let step = changes.step();
        changes.insert(q, Piece::Text(String::from(text)))?;
        changes.select(Span::at(q), step);
        Ok(())
    }

    fn destination(&mut self, to: &mut Chain, file: usize) -> Result<Place, CommandError> {
        let at = self.outcome.files[file].dot;
        Ok(address::evaluate_chain(to, self, Place { file, at })?)
    }

    fn copy_to(&mut self, to: Place, place: Place) -> Result<(), CommandError> {
        let text = self.files[place.file].text.slice(place.at);
        self.insert(to.file, to.at.q1, &text)
    }

    fn move_to(&mut self, to: &mut Chain, place: Place) -> Result<(), CommandError> {
        let to = self.destination(to, place.file)?;
        if to.file != place.file || place.at.q1 <= to.at.q1 {
            self.changes(place.file).delete(place.at)?;
            self.copy_to(to, place)
        } else if place.at.q0 >= to.at.q1 {
            self.copy_to(to, place)?;
            self.changes(place.file).delete(place.at)
        } else {
            Err(CommandError::Overlap)
        }
    }

    fn substitute(&mut self, s: &mut Substitute, place: Place) -> Result<(), CommandError> {
        let Place { file, at } = place;
        let first_step = self.changes(file).step();
        let text = &self.files[file].text;
        let regexp = s.pattern.regexp()?;
        let has_submatches = names_submatch(&s.replacement);
        let mut left = s.number;
        let mut last_end = None;
        let mut q = at.q0;
        let mut is_done = false;
        while q <= at.q1
            && let Some(found) = regexp.find(text, Span::new(q, at.q1))
        {
            if found.is_empty() && last_end == Some(found.q0) {
                q += 1;
                continue;
            }
            q = found.q1 + u64::from(found.is_empty());
            last_end = Some(found.q1);
            left = left.saturating_sub(1);
            if left > 0 {
                continue;
            }
            let groups = if has_submatches {
                regexp.submatches(text, found)
            } else {
                Submatches::default()
            };
            let replacement = replaced(text, &s.replacement, found, &groups);
            let changes = &mut self.outcome.files[file];
            changes.delete(found)?;
            changes.insert(found.q1, Piece::Text(replacement))?;
            is_done = true;
            if !s.is_global {
                break;
            }
        }
        if !is_done && self.loop_depth == 0 {
            return Err(CommandError::NoSubstitution);
        }
        self.changes(file).select(at, first_step);
        Ok(())
    }

    fn repeat(&mut self, verb: &mut Verb, place: Place) -> Result<(), CommandError> {
        let Verb::Loop {
            pattern,
            is_between,
            body,
        } = verb
        else {
            return Ok(());
        };
        self.loop_depth += 1;
        match pattern {
            Some(pattern) if *is_between => self.repeat_between(pattern, body, place)?,
            Some(pattern) => self.repeat_matches(pattern, body, place)?,
            None => self.repeat_lines(body, place)?,
        }
        self.loop_depth -= 1;
        Ok(())
    }

    fn step_in(&mut self, body: &mut Command, file: usize, at: Span) -> Result<(), CommandError> {
        self.changes(file).dot = at;
        self.execute(body, Some(file))
    }

    fn repeat_matches(
        &mut self,
        pattern: &mut Pattern,
        body: &mut Command,
        Place { file, at }: Place,
    ) -> Result<(), CommandError> {
        let text = &self.files[file].text;
        let mut last_end = None;
        let mut q = at.q0;
        while q <= at.q1
            && let Some(found) = pattern.regexp()?.find(text, Span::new(q, at.q1))
        {
            if found.is_empty() && last_end == Some(found.q0) {
                q += 1;
                continue;
            }
            q = found.q1 + u64::from(found.is_empty());
            last_end = Some(found.q1);
            self.step_in(body, file, found)?;
        }
        Ok(())
    }

    fn repeat_between(
        &mut self,
        pattern: &mut Pattern,
        body: &mut Command,
        Place { file, at }: Place,
    ) -> Result<(), CommandError> {
        let text = &self.files[file].text;
        let mut start = at.q0;
        let mut q = at.q0;
        while q <= at.q1 {
            let Some(found) = pattern.regexp()?.find(text, Span::new(q, at.q1)) else {
                return self.step_in(body, file, Span::new(start, at.q1));
            };
            if found.is_empty() && start == found.q0 {
                q += 1;
                continue;
            }
            q = found.q1 + u64::from(found.is_empty());
            self.step_in(body, file, Span::new(start, found.q0))?;
            start = found.q1;
        }
        Ok(())
    }

    fn repeat_lines(
        &mut self,
        body: &mut Command,
        Place { file, at }: Place,
    ) -> Result<(), CommandError> {
        let text = &self.files[file].text;
        let mut q = at.q0;
        while q < at.q1 {
            let end = text.line_start(text.line_of(q) + 1).min(at.q1);
            self.step_in(body, file, Span::new(q, end))?;
            q = end;
        }
        Ok(())
    }

    /// Notes a shell command; an empty one repeats the last.
    fn shell(
        &mut self,
        command: &str,
        input: Option<(usize, Span)>,
    ) -> Result<usize, CommandError> {
        if !command.is_empty() {
            self.memory.shell = String::from(command);
        }
        if self.memory.shell.is_empty() {
            return Err(CommandError::NoShellCommand);
        }
        let command = self.memory.shell.clone();
        self.outcome.sources.push(Source::Shell { command, input });
        Ok(self.outcome.sources.len() - 1)
    }

    fn pipe(&mut self, kind: ShellKind, command: &str, place: Place) -> Result<(), CommandError> {
        let input = match kind {
            ShellKind::Filter | ShellKind::To => Some((place.file, place.at)),
            ShellKind::From | ShellKind::Alone => None,
        };
        let source = self.shell(command, input)?;
        match kind {
            ShellKind::Filter | ShellKind::From => self.replace_by(source, place),
            ShellKind::To | ShellKind::Alone => {
                self.outcome.prints.push(Print::Source(source));
                Ok(())
            }
        }
    }

    fn replace_by(&mut self, source: usize, place: Place) -> Result<(), CommandError> {
        let changes = self.changes(place.file);
        changes.delete(place.at)?;
        let step = changes.step();
        changes.insert(place.at.q1, Piece::Source(source))?;
        changes.select(Span::at(place.at.q1), step);
        Ok(())
    }

    /// Notes what the host does to the file itself.
    fn ask(&mut self, verb: &Verb, place: Place) -> Result<(), CommandError> {
        let Place { file, at } = place;
        let request = match verb {
            Verb::Undo(count) => Request::Undo {
                file,
                count: *count,
            },
            Verb::Read(name) => {
                let name = if name.is_empty() {
                    self.files[file].name.clone()
                } else {
                    name.clone()
                };
                self.outcome.sources.push(Source::File { name });
                return self.replace_by(self.outcome.sources.len() - 1, place);
            }
            Verb::Edit(name) => {
                self.may_close(file)?;
                let name = name.clone();
                Request::Reload { file, name }
            }
            Verb::Write(name) => {
                if self.outcome.files[file].is_change() {
                    return Err(CommandError::PendingChanges);
                }
                let name = name.clone();
                Request::Write { file, at, name }
            }
            Verb::Name(name) if name.is_empty() => {
                self.outcome.prints.push(Print::Name(file));
                return Ok(());
            }
            Verb::Name(name) => {
                let name = name.clone();
                Request::Name { file, name }
            }
            _ => return Ok(()),
        };
        self.outcome.requests.push(request);
        Ok(())
    }

    fn may_close(&self, file: usize) -> Result<(), CommandError> {
        let File {
            is_modified,
            is_warned,
            name,
            ..
        } = &self.files[file];
        if *is_modified && !*is_warned {
            return Err(CommandError::FileHasChanges(name.clone()));
        }
        Ok(())
    }

    fn named(&self, name: &str) -> Result<usize, CommandError> {
        let found = self.files.iter().position(|file| file.name == name);
        found.ok_or_else(|| CommandError::NoSuchFile(String::from(name)))
    }

    /// Runs a command that is about files and not about a place.
    fn among_files(&mut self, verb: &mut Verb, file: Option<usize>) -> Result<(), CommandError> {
        match verb {
            Verb::Files {
                pattern,
                is_negated,
                body,
            } => self.over_files(pattern.as_mut(), *is_negated, body),
            Verb::Open(names) => {
                let names = names.clone();
                self.outcome.requests.push(Request::Open { names });
                Ok(())
            }
            Verb::Switch(name) => {
                let file = self.named(name)?;
                self.outcome.current = Some(file);
                self.outcome.requests.push(Request::Switch { file });
                Ok(())
            }
            Verb::Close(names) => {
                let mut closed = Vec::new();
                for name in names.split([' ', '\t']).filter(|name| !name.is_empty()) {
                    closed.push(self.named(name)?);
                }
                if names.is_empty() {
                    closed.push(file.ok_or(CommandError::NoFile)?);
                }
                for file in closed {
                    self.may_close(file)?;
                    self.outcome.requests.push(Request::Close { file });
                    if self.outcome.current == Some(file) {
                        self.outcome.current = None;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn over_files(
        &mut self,
        mut pattern: Option<&mut Pattern>,
        is_negated: bool,
        body: &mut Command,
    ) -> Result<(), CommandError> {
        if self.is_in_files {
            return Err(CommandError::Nested);
        }
        self.is_in_files = true;
        self.loop_depth += 1;
        let current = self.outcome.current;
        for file in 0..self.files.len() {
            let is_match = match &mut pattern {
                Some(pattern) => self.matches(file, pattern)? != is_negated,
                None => true,
            };
            if is_match {
                self.execute(body, Some(file))?;
            }
        }
        self.outcome.current = current.filter(|file| !self.is_closed(*file));
        self.loop_depth -= 1;
        self.is_in_files = false;
        Ok(())
    }

    fn is_closed(&self, file: usize) -> bool {
        let close = Request::Close { file };
        self.outcome.requests.contains(&close)
    }
}

/// Returns whether a replacement names a group.
fn names_submatch(replacement: &str) -> bool {
    let mut chars = replacement.chars();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next().is_some_and(|c| ('1'..='9').contains(&c)) {
            return true;
        }
    }
    false
}

/// Returns what a match is replaced by.
fn replaced(text: &Text, replacement: &str, found: Span, groups: &Submatches) -> String {
    let mut result = String::with_capacity(replacement.len());
    let mut chars = replacement.chars();
    while let Some(c) = chars.next() {
        match c {
            '&' => result.push_str(&text.slice(found)),
            '\\' => match chars.next() {
                Some(c @ '1'..='9') => {
                    let number = c as usize - '1' as usize;
                    if let Some(group) = groups[number] {
                        result.push_str(&text.slice(group));
                    }
                }
                Some(c) => result.push(c),
                None => result.push('\\'),
            },
            c => result.push(c),
        }
    }
    result
}
