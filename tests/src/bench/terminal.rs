//! A program in a terminal of 80 by 24 cells, with the time at which its output came.
//!
//! A thread does nothing but read and note the time, so that what is measured ends when the
//! output is there and not when somebody got round to look at it.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::BenchError;
use super::stats::now;
use crate::harness::PATIENCE;
use crate::harness::screen::Screen;

/// Cells across.
const WIDTH: u16 = 80;
/// Cells down.
const HEIGHT: u16 = 24;

/// What programs ask a terminal, and the answers; who gets none waits for a time-out.
const ANSWERS: [(&[u8], &str); 4] = [
    (b"\x1b[c", "\x1b[?62;22c"),
    (b"\x1b[>c", "\x1b[>0;276;0c"),
    (b"\x1b[6n", "\x1b[1;1R"),
    (b"\x1b[?u", "\x1b[?0u"),
];

/// A program in a terminal; killed when dropped.
pub struct Terminal {
    // Closing it would hang the terminal up.
    _master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    pieces: Receiver<(Instant, Vec<u8>)>,
    screen: Screen,
    /// What came since keys were pressed.
    answer: Vec<u8>,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.screen.fmt(f)
    }
}

impl Terminal {
    /// Starts a program.
    ///
    /// # Errors
    /// There is no terminal to be had, or no such program.
    pub fn spawn(mut command: CommandBuilder) -> Result<Self, BenchError> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: Box<dyn std::error::Error + Send + Sync>| {
                BenchError::Terminal(format!("{what}: {error}"))
            }
        };
        command.env("TERM", "xterm-256color");
        let size = PtySize {
            rows: HEIGHT,
            cols: WIDTH,
            pixel_width: 640,
            pixel_height: 384,
        };
        let pair = native_pty_system()
            .openpty(size)
            .map_err(|e| failed("no terminal")(e.into()))?;
        let child = pair.slave.spawn_command(command);
        let child = child.map_err(|error| failed("the program does not start")(error.into()))?;
        drop(pair.slave);
        let reader = pair.master.try_clone_reader();
        let mut reader = reader.map_err(|error| failed("no way to read")(error.into()))?;
        let keys = pair.master.take_writer();
        let keys = keys.map_err(|error| failed("no way to write")(error.into()))?;
        let (sender, pieces) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 64 << 10];
            while let Ok(len @ 1..) = reader.read(&mut bytes) {
                let at = now();
                if sender.send((at, bytes[..len].to_vec())).is_err() {
                    return;
                }
            }
        });
        let screen = Screen::new(WIDTH, HEIGHT);
        Ok(Self {
            _master: pair.master,
            keys,
            child,
            pieces,
            screen,
            answer: Vec::new(),
        })
    }

    /// Returns what it shows.
    #[must_use]
    pub const fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Returns what the program wrote since keys were pressed, as far as it was taken.
    #[must_use]
    pub fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// Presses keys, given as what a terminal sends for them.
    ///
    /// # Errors
    /// The program has ended.
    pub fn press(&mut self, keys: &[u8]) -> Result<(), BenchError> {
        self.answer.clear();
        let written = self.keys.write_all(keys).and_then(|()| self.keys.flush());
        written.map_err(|error| BenchError::Terminal(format!("the program has ended: {error}")))
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), BenchError> {
        self.screen.push(piece);
        self.answer.extend_from_slice(piece);
        let asks = |query: &[u8]| piece.windows(query.len()).any(|part| part == query);
        let answers = ANSWERS.iter().filter(|(query, _)| asks(query));
        let answers: String = answers.map(|(_, answer)| *answer).collect();
        if answers.is_empty() {
            Ok(())
        } else {
            self.press(answers.as_bytes())
        }
    }

    /// Takes output until nothing came for some time.
    ///
    /// # Errors
    /// The program has ended.
    pub fn settle(&mut self, silence: Duration) -> Result<(), BenchError> {
        while let Ok((_, piece)) = self.pieces.recv_timeout(silence) {
            self.take(&piece)?;
        }
        Ok(())
    }

    /// Takes output until the screen is so; returns when the piece came that made it so.
    ///
    /// # Errors
    /// The program has ended, or does not come to show it.
    pub fn until(&mut self, is_so: impl Fn(&Screen) -> bool) -> Result<Instant, BenchError> {
        let mut at = now();
        while !is_so(&self.screen) {
            let Ok((came, piece)) = self.pieces.recv_timeout(PATIENCE) else {
                let words = format!("nothing more comes; it shows\n{:?}", self.screen);
                return Err(BenchError::Terminal(words));
            };
            self.take(&piece)?;
            at = came;
        }
        Ok(at)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
