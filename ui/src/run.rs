//! The screen, running: a loop over the terminal, the daemon and signals.
//!
//! A key is decoded, applied, shown and only then told to the daemon. Nothing runs while nothing
//! happens.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use apex_core::ids::Millis;
use apex_core::message::{ClientMessage, Hello, ServerMessage};
use crossterm::event::Event as TerminalEvent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::{App, Effect, Event, Opening};
use crate::input::decode::Decoder;
use crate::input::{Input, Translator};
use crate::keep::keep;
use crate::link::{Link, LinkError};
use crate::term::Terminal;
use crate::theme::Depth;

/// How long the rest of an escape sequence may take, in milliseconds.
const ESCAPE_MS: u64 = 25;
/// How long a key's frame has the processor for its way to the terminal before the daemon is told,
/// in nanoseconds.
const WAY_NS: i64 = 1_000_000;
/// How long leaving waits for the daemon to take the last words, in milliseconds.
const LEAVE_MS: u64 = 2000;
/// Most messages that are taken before the screen is shown again.
const MESSAGE_COUNT_MAX: usize = 256;
/// Bytes of the terminal that are read at once.
const READ_LEN: usize = 16 << 10;

/// Why the screen ended against the user's will.
#[derive(Debug)]
pub enum UiError {
    /// Standard input or output is no terminal.
    NotATerminal,
    /// The terminal does not do what it should.
    Terminal(io::Error),
    /// The connection to the daemon ended; in words for the user.
    Lost(String),
}

impl fmt::Display for UiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotATerminal => f.write_str(
                "the screen needs a terminal; `apex open`, `apex cat` and `apex ls` do not",
            ),
            Self::Terminal(error) => write!(f, "the terminal failed: {error}"),
            Self::Lost(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for UiError {}

impl From<io::Error> for UiError {
    fn from(error: io::Error) -> Self {
        Self::Terminal(error)
    }
}

/// Shows a session until the user leaves it. The terminal is as before afterwards; returns words
/// of farewell.
///
/// # Errors
/// [`UiError`]: why it ended otherwise.
pub async fn run_ui(link: Link, hello: Hello, opening: Opening) -> Result<String, UiError> {
    let stdin = rustix::stdio::stdin();
    if !rustix::termios::isatty(stdin) || !rustix::termios::isatty(rustix::stdio::stdout()) {
        return Err(UiError::NotATerminal);
    }
    let mut terminal = Terminal::enter(depth())?;
    let app = App::new(hello, opening, Terminal::size()?);
    let mut screen = Running {
        app,
        link,
        bytes: vec![0; READ_LEN].into(),
        decoder: Decoder::default(),
        translator: Translator::default(),
        is_changed: true,
        farewell: None,
    };
    screen.run(stdin, &mut terminal).await
}

fn depth() -> Depth {
    let variable = |name| std::env::var(name).ok();
    let (no_color, colorterm, term) = (
        variable("NO_COLOR"),
        variable("COLORTERM"),
        variable("TERM"),
    );
    Depth::of(no_color.as_deref(), colorterm.as_deref(), term.as_deref())
}

fn now() -> Millis {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Millis::new(seconds * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000)
}

fn wall_seconds() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

/// What woke the loop.
enum Woken {
    Keys,
    Escape,
    Resized,
    Message(Result<ServerMessage, LinkError>),
    Ended,
}

struct Running {
    app: App,
    link: Link,
    /// What was read from the terminal last, and room for [`READ_LEN`] bytes.
    bytes: Box<[u8]>,
    decoder: Decoder,
    translator: Translator,
    /// Whether something happened since the last frame.
    is_changed: bool,
    /// Set once the user leaves: how it ended.
    farewell: Option<String>,
}

impl Running {
    async fn run(
        &mut self,
        stdin: BorrowedFd<'static>,
        terminal: &mut Terminal,
    ) -> Result<String, UiError> {
        #[expect(
            deprecated,
            reason = "standard input stays open; what replaces it is unsafe"
        )]
        let input = AsyncFd::with_interest(stdin, Interest::READABLE)?;
        let mut resized = signal(SignalKind::window_change())?;
        let mut ended = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::interrupt())?,
        ];
        self.send_now(&[self.app.hello()])?;
        self.app
            .update(now(), Event::Input(Input::Resize(Terminal::size()?)));
        terminal.show(self.app.frame())?;
        loop {
            let [terminated, hung_up, interrupted] = &mut ended;
            let woken = tokio::select! {
                biased;
                ready = input.readable() => {
                    let mut ready = ready?;
                    if !has_input(stdin)? {
                        ready.clear_ready();
                        continue;
                    }
                    Woken::Keys
                }
                message = self.link.receive() => Woken::Message(message),
                _ = resized.recv() => Woken::Resized,
                _ = terminated.recv() => Woken::Ended,
                _ = hung_up.recv() => Woken::Ended,
                _ = interrupted.recv() => Woken::Ended,
                () = tokio::time::sleep(Duration::from_millis(ESCAPE_MS)),
                    if self.decoder.is_waiting() => Woken::Escape,
            };
            let is_key = matches!(woken, Woken::Keys);
            self.act(woken, stdin, terminal)?;
            if let Some(words) = self.farewell.take() {
                return self.leave(words).await;
            }
            self.show(terminal)?;
            if is_key {
                pause(stdin)?;
            }
            self.tell()?;
            if is_key {
                // A flood of keys does not keep the daemon waiting: without the yield the runtime
                // would not look at the socket, and the loop would not hear of what is there.
                tokio::task::yield_now().await;
                self.take_messages(terminal)?;
            }
            if self.app.take_stale() || self.is_changed {
                self.is_changed = true;
                self.show(terminal)?;
                self.tell()?;
            }
        }
    }

    /// Shows what changed.
    fn show(&mut self, terminal: &mut Terminal) -> Result<(), UiError> {
        if std::mem::take(&mut self.is_changed) {
            terminal.show(self.app.frame())?;
        }
        Ok(())
    }

    /// Tells the daemon what is new.
    fn tell(&mut self) -> Result<(), UiError> {
        let messages = self.app.flush();
        self.send_now(&messages)
    }

    fn act(
        &mut self,
        woken: Woken,
        stdin: BorrowedFd<'_>,
        terminal: &mut Terminal,
    ) -> Result<(), UiError> {
        match woken {
            Woken::Keys => {
                let len = match rustix::io::read(stdin, &mut *self.bytes) {
                    Ok(len) => len,
                    Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return Ok(()),
                    // The terminal is gone; the session is not.
                    Err(rustix::io::Errno::IO) => 0,
                    Err(error) => return Err(UiError::Terminal(error.into())),
                };
                if len == 0 {
                    self.farewell = Some(String::new());
                    return Ok(());
                }
                let mut events = Vec::new();
                self.decoder.push(&self.bytes[..len], &mut events);
                self.take_events(events, terminal)
            }
            Woken::Escape => {
                let mut events = Vec::new();
                self.decoder.flush(&mut events);
                self.take_events(events, terminal)
            }
            Woken::Resized => {
                terminal.forget();
                self.update(Event::Input(Input::Resize(Terminal::size()?)), terminal)
            }
            Woken::Message(Ok(message)) => {
                self.update(Event::Message(message), terminal)?;
                self.take_messages(terminal)
            }
            Woken::Message(Err(error)) => self.lose(&error, terminal),
            Woken::Ended => {
                self.farewell = Some(String::new());
                Ok(())
            }
        }
    }

    fn take_events(
        &mut self,
        events: Vec<TerminalEvent>,
        terminal: &mut Terminal,
    ) -> Result<(), UiError> {
        for event in events {
            if let Some(input) = self.translator.input(event) {
                self.update(Event::Input(input), terminal)?;
            }
        }
        Ok(())
    }

    /// Takes what the daemon has said already, so that one frame shows it all.
    fn take_messages(&mut self, terminal: &mut Terminal) -> Result<(), UiError> {
        for _ in 0..MESSAGE_COUNT_MAX {
            match self.link.try_receive() {
                Ok(Some(message)) => self.update(Event::Message(message), terminal)?,
                Ok(None) => return Ok(()),
                Err(error) => return self.lose(&error, terminal),
            }
        }
        Ok(())
    }

    fn lose(&mut self, error: &LinkError, terminal: &mut Terminal) -> Result<(), UiError> {
        self.update(Event::Lost(error.to_string()), terminal)
    }

    fn update(&mut self, event: Event, terminal: &mut Terminal) -> Result<(), UiError> {
        let is_lost = matches!(event, Event::Lost(_));
        // Acknowledgements come with every key and change nothing on the screen.
        self.is_changed |= !matches!(event, Event::Message(ServerMessage::Acked(_)));
        for effect in self.app.update(now(), event) {
            match effect {
                Effect::Copy(text) => terminal.copy(&text)?,
                Effect::Redraw => terminal.forget(),
                Effect::Probe { probe, paths } => {
                    let exists = |path: &String| Path::new(path).symlink_metadata().is_ok();
                    let found = paths.into_iter().filter(exists).collect();
                    self.update(Event::Probed { probe, found }, terminal)?;
                }
                Effect::Keep { name, bytes } => {
                    let kept = keep(wall_seconds(), &name, &bytes);
                    let place = kept.map(|path| path.display().to_string());
                    let place = place.map_err(|error| error.to_string());
                    self.update(Event::Kept(place), terminal)?;
                }
                Effect::Leave(words) if is_lost => return Err(UiError::Lost(words)),
                Effect::Leave(words) => self.farewell = Some(words),
            }
        }
        Ok(())
    }

    fn send_now(&mut self, messages: &[ClientMessage]) -> Result<(), UiError> {
        for message in messages {
            self.link
                .send(message)
                .map_err(|error| UiError::Lost(error.to_string()))?;
        }
        Ok(())
    }

    /// Says the last words to the daemon, once it is known what became of the ones before.
    async fn leave(&mut self, words: String) -> Result<String, UiError> {
        let deadline = tokio::time::Instant::now() + Duration::from_millis(LEAVE_MS);
        let settled = tokio::time::timeout_at(deadline, self.settle()).await;
        if let Ok(Err(error)) = settled {
            return Err(error);
        }
        let complaint = self.app.complaint();
        let owed = self.app.owed();
        let messages = self.app.leave();
        self.send_now(&messages)?;
        // A daemon that takes nothing more keeps what it has; the rest was acknowledged or is told
        // in the error.
        match tokio::time::timeout_at(deadline, self.link.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(UiError::Lost(error.to_string())),
            Err(_) => {
                let words = "the daemon does not take the last changes".to_owned();
                let words = [Some(words), owed].into_iter().flatten();
                return Err(UiError::Lost(words.collect::<Vec<_>>().join("\n")));
            }
        }
        match owed.or(complaint) {
            Some(wrong) => Err(UiError::Lost(format!("{wrong}\n{words}").trim_end().into())),
            None => Ok(words),
        }
    }

    /// Listens until nothing that the user did is on its way.
    async fn settle(&mut self) -> Result<(), UiError> {
        self.app.hush();
        while self.app.is_owing() {
            let messages = self.app.flush();
            self.send_now(&messages)?;
            let message = self
                .link
                .receive()
                .await
                .map_err(|error| UiError::Lost(error.to_string()))?;
            self.app.update(now(), Event::Message(message));
        }
        Ok(())
    }
}

fn has_input(stdin: BorrowedFd<'_>) -> io::Result<bool> {
    wait_for_input(stdin, 0)
}

/// Sleeps until the frame just written had time to get to the terminal, or the next key is there.
///
/// A thread of the kernel carries it, often on our processor. It would wait until we sleep, and the
/// daemon, woken by us, would come before it: several times what the key itself took. A yield does
/// not do: the scheduler may well give the processor back to us.
fn pause(stdin: BorrowedFd<'_>) -> io::Result<()> {
    wait_for_input(stdin, WAY_NS).map(|_| ())
}

/// Waits for input for less than a second; returns whether there may be some.
fn wait_for_input(stdin: BorrowedFd<'_>, nanoseconds: i64) -> io::Result<bool> {
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    };
    match poll(&mut fds, Some(&time)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
