//! How long it takes from the press of a key to the cell that shows it.
//!
//! Three programs in one kind of terminal: a raw `cat` (what the machine can do at best), vim
//! without any configuration, and apex with its daemon and the tool `tidy`.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use portable_pty::CommandBuilder;

use super::BenchError;
use super::stats::{Samples, now};
use super::table::{Table, figure, ratio};
use super::terminal::Terminal;
use crate::harness::Home;
use crate::harness::screen::Screen;

/// What is typed: letters that differ from their neighbours.
const LETTERS: [char; 6] = ['o', 'v', 'y', 'z', 'j', 'k'];
/// Letters of a line.
const LINE_LEN: usize = 50;
/// Nothing may come for this long before the next key.
const SILENCE: Duration = Duration::from_millis(10);
/// Nothing may come for this long before the first key: start-up is over.
const START: Duration = Duration::from_millis(700);

/// A program that echoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `cat` on a terminal in raw mode.
    Cat,
    /// `vim -u NONE -N`.
    Vim,
    /// apex with a new file.
    Apex,
}

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::Cat => "cat, raw",
            Self::Vim => "vim -u NONE",
            Self::Apex => "apex",
        }
    }

    /// Starts it in a user's directories.
    fn start(self, home: &Home) -> Result<Terminal, BenchError> {
        let mut command = match self {
            Self::Cat => {
                let mut command = CommandBuilder::new("sh");
                command.args(["-c", "stty raw -echo; printf '> '; exec cat"]);
                command
            }
            Self::Vim => {
                let mut command = CommandBuilder::new("vim");
                command.args(["-u", "NONE", "-N"]);
                command
            }
            Self::Apex => {
                let mut command = CommandBuilder::new(built("apex")?);
                command.arg(home.file("bench.txt", b""));
                command
            }
        };
        command.cwd(home.files());
        for variable in Home::FOREIGN {
            command.env_remove(variable);
        }
        for (name, value) in home.environment() {
            command.env(name, value);
        }
        let mut terminal = Terminal::spawn(command)?;
        terminal.until(|screen| self.is_ready(screen))?;
        terminal.settle(START)?;
        if self == Self::Vim {
            terminal.press(b"i")?;
            terminal.settle(START)?;
        }
        // The first key takes vim's greeting away and changes the tag of apex: it is not counted.
        terminal.press(b"#")?;
        terminal.until(|screen| screen.find("#").is_some())?;
        terminal.settle(START)?;
        Ok(terminal)
    }

    fn is_ready(self, screen: &Screen) -> bool {
        let sign = match self {
            Self::Cat => "> ",
            Self::Vim => "~",
            Self::Apex => "bench.txt Del",
        };
        screen.find(sign).is_some()
    }

    /// What ends a line.
    const fn line_end(self) -> &'static [u8] {
        match self {
            Self::Cat => b"\r\n",
            Self::Vim | Self::Apex => b"\r",
        }
    }
}

/// Returns whether a program is installed.
#[must_use]
pub fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Returns a program that was built beside this one.
fn built(name: &str) -> Result<PathBuf, BenchError> {
    let here = std::env::current_exe().map_err(|error| BenchError::Read(name.into(), error))?;
    let mut folders = here
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(name));
    folders.find(|path| path.is_file()).ok_or_else(|| {
        BenchError::Terminal(format!("{name} is not built; run `cargo xtask bench`"))
    })
}

/// Types `count` letters into a program and adds how long each took to show, in microseconds;
/// returns what it wrote to show the last one.
///
/// # Errors
/// It does not show what was typed.
pub fn round(program: Program, count: usize, samples: &mut Samples) -> Result<Vec<u8>, BenchError> {
    let home = Home::new();
    if program == Program::Apex {
        home.add_tidy();
    }
    let mut terminal = program.start(&home)?;
    let mut line = String::new();
    let mut painted = Vec::new();
    for index in 0..count {
        if line.len() == LINE_LEN {
            terminal.press(program.line_end())?;
            terminal.settle(SILENCE * 5)?;
            line.clear();
        }
        terminal.settle(SILENCE)?;
        let letter = LETTERS[index % LETTERS.len()];
        let shown = |screen: &Screen| screen.text().matches(letter).count();
        let before = shown(terminal.screen());
        let start = now();
        terminal.press(letter.encode_utf8(&mut [0; 4]).as_bytes())?;
        let end = terminal.until(|screen| shown(screen) > before)?;
        terminal.answer().clone_into(&mut painted);
        line.push(letter);
        samples.push(end.saturating_duration_since(start).as_secs_f64() * 1e6);
    }
    if terminal.screen().find(&line).is_none() {
        let words = format!("{} does not show {line}:\n{terminal:?}", program.name());
        return Err(BenchError::Wrong(words));
    }
    Ok(painted)
}

/// Measures the programs in turns.
///
/// # Errors
/// One of them does not show what was typed.
pub fn run(rounds: usize, count: usize) -> Result<Table, BenchError> {
    let mut all = vec![
        (Program::Cat, Samples::default()),
        (Program::Vim, Samples::default()),
        (Program::Apex, Samples::default()),
    ];
    all.retain(|(program, _)| *program != Program::Vim || is_installed("vim"));
    let mut painted = vec![Vec::new(); all.len()];
    for _ in 0..rounds {
        for ((program, samples), painted) in all.iter_mut().zip(&mut painted) {
            *painted = round(*program, count, samples)?;
        }
    }
    let title = format!("keys: µs from key to painted cell, {rounds} rounds of {count} keys");
    let mut table = Table::new(title, &["program", "p50", "p99", "p50 beside vim", "p99"]);
    let vim = all.iter().find(|(program, _)| *program == Program::Vim);
    let vim = vim.map(|(_, samples)| (samples.median(), tail(samples)));
    for (program, samples) in &all {
        let (p50, p99) = (samples.median(), tail(samples));
        let (vim50, vim99) = vim.unwrap_or((f64::NAN, f64::NAN));
        let row = [
            figure(p50),
            figure(p99),
            ratio(p50, vim50),
            ratio(p99, vim99),
        ];
        table.row([program.name().to_owned()].into_iter().chain(row));
    }
    let mut goal = String::from("goal: apex below vim");
    if vim.is_none() {
        write!(goal, "; vim is not installed, so nothing is beside it").ok();
    }
    table.remark(goal);
    for ((program, _), painted) in all.iter().zip(&painted) {
        table.remark(format!(
            "{} painted its last key with {} bytes: {}",
            program.name(),
            painted.len(),
            painted.escape_ascii()
        ));
    }
    Ok(table)
}

fn tail(samples: &Samples) -> f64 {
    samples.percentile(99).unwrap_or(f64::NAN)
}
