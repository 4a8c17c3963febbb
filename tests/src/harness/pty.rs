//! The built `apex` in a terminal: keys and a mouse go in, a screen comes out.

use std::io::{Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use super::PATIENCE;
use super::home::{Home, program};
use super::screen::Screen;

/// Cells across.
pub const WIDTH: u16 = 110;
/// Cells down.
pub const HEIGHT: u16 = 40;

/// A button of the mouse, as terminals number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// Selects.
    B1,
    /// Executes.
    B2,
    /// Looks.
    B3,
}

/// What has come out so far.
struct Shown {
    screen: Screen,
    is_ended: bool,
}

/// `apex` in a terminal; killed when dropped.
pub struct Pty {
    // Closing it would hang the terminal up.
    _terminal: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    shown: Arc<(Mutex<Shown>, Condvar)>,
}

impl std::fmt::Debug for Pty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.lock().screen)
    }
}

impl Pty {
    /// Starts `apex` with these arguments.
    #[must_use]
    pub fn apex(home: &Home, arguments: &[&str]) -> Self {
        Self::apex_of(home, arguments, |_| {})
    }

    /// As [`Self::apex`], in surroundings that `change` makes.
    pub fn apex_of(
        home: &Home,
        arguments: &[&str],
        change: impl FnOnce(&mut CommandBuilder),
    ) -> Self {
        let mut command = CommandBuilder::new(program("apex"));
        command.args(arguments);
        command.cwd(home.files());
        for variable in Home::FOREIGN {
            command.env_remove(variable);
        }
        for (name, value) in home.environment() {
            command.env(name, value);
        }
        command.env("TERM", "xterm-256color");
        change(&mut command);
        Self::spawn(command)
    }

    fn spawn(command: CommandBuilder) -> Self {
        let size = PtySize {
            rows: HEIGHT,
            cols: WIDTH,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        // With the last copy of it the end of the program is the end of what it writes.
        drop(pair.slave);
        let shown = Shown {
            screen: Screen::new(WIDTH, HEIGHT),
            is_ended: false,
        };
        let shown = Arc::new((Mutex::new(shown), Condvar::new()));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let writes = shown.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 16 << 10];
            loop {
                let len = reader.read(&mut bytes).unwrap_or(0);
                let mut shown = writes.0.lock().unwrap();
                shown.screen.push(&bytes[..len]);
                shown.is_ended = len == 0;
                writes.1.notify_all();
                if len == 0 {
                    return;
                }
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Self {
            _terminal: pair.master,
            keys,
            child,
            shown,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.0.lock().unwrap()
    }

    /// Presses keys, given as what a terminal sends for them.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Presses and releases a button over a cell.
    pub fn click(&mut self, button: Button, (x, y): (u16, u16)) {
        let (button, x, y) = (button as u8, x + 1, y + 1);
        self.keys(&format!("\x1b[<{button};{x};{y}M\x1b[<{button};{x};{y}m"));
    }

    /// Waits until the screen shows something, and returns what `look` found in it.
    #[track_caller]
    pub fn wait<T>(&self, what: &str, mut look: impl FnMut(&Screen) -> Option<T>) -> T {
        let mut found = None;
        let (shown, timed_out) = self
            .shown
            .1
            .wait_timeout_while(self.lock(), PATIENCE, |shown| {
                found = look(&shown.screen);
                found.is_none() && !shown.is_ended
            })
            .unwrap();
        found.unwrap_or_else(|| {
            let how = if timed_out.timed_out() {
                "did not show"
            } else {
                "ended before it showed"
            };
            let screen = format!("{:?}", shown.screen);
            // Whoever reads the terminal needs it to the end.
            drop(shown);
            panic!("apex {how} {what}; it shows\n{screen}")
        })
    }

    /// Waits until a text stands in one row, and returns where.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> (u16, u16) {
        self.wait(&format!("{text:?}"), |screen| screen.find(text))
    }

    /// Waits until a text does not stand in any row.
    #[track_caller]
    pub fn wait_gone(&self, text: &str) {
        let what = format!("a screen without {text:?}");
        self.wait(&what, |screen| screen.find(text).is_none().then_some(()));
    }

    /// Returns what the screen shows now.
    #[must_use]
    pub fn text(&self) -> String {
        self.lock().screen.text()
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = self
            .child
            .process_id()
            .and_then(|id| i32::try_from(id).ok());
        kill_process(pid.and_then(Pid::from_raw).unwrap(), signal).unwrap();
    }

    /// Ends the program so that it can do nothing about it.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Waits until the program has ended, and returns its exit code and the last screen.
    #[track_caller]
    pub fn end(mut self) -> (u32, String) {
        let (shown, timed_out) = self
            .shown
            .1
            .wait_timeout_while(self.lock(), PATIENCE, |shown| !shown.is_ended)
            .unwrap();
        let text = shown.screen.text();
        drop(shown);
        assert!(!timed_out.timed_out(), "apex goes on:\n{text}");
        (self.child.wait().unwrap().exit_code(), text)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            self.child.wait().ok();
        }
    }
}
