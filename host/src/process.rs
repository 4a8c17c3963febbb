//! Commands that run outside the editor: started in a process group of their own, read through one
//! pipe for both outputs (so that their order is kept) or through one for each, and killed with all
//! their children.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use apex_core::limits::YIELD_LEN_MAX;
use apex_core::message::Run;
use apex_core::text::{Decoder, Span, Text, encode};
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};

use crate::config::{OUTPUT_LEN_MAX, OUTPUT_PIECE_LEN_MAX};
use crate::{diary, files};

/// Code points of its input that a command is given at once.
const INPUT_PIECE_COUNT: u64 = 16 << 10;

/// Why a command did not start.
#[derive(Debug)]
pub enum ProcessError {
    /// Its directory is not there, or cannot be entered.
    Directory(PathBuf, io::Error),
    /// A name in its environment, or its command, holds a zero byte or an equals sign.
    BadText(String),
    /// The system refused.
    System(io::Error),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path, error) => write!(
                f,
                "cannot run a command in {}: {error}; make the directory or rename the window",
                path.display()
            ),
            Self::BadText(what) => write!(f, "{what} cannot be passed to a command"),
            Self::System(error) => write!(f, "cannot start sh: {error}"),
        }
    }
}

impl std::error::Error for ProcessError {}

/// The processes of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(Pid);

impl Group {
    /// Asks all of them to end.
    pub fn terminate(self) {
        self.signal(Signal::TERM);
    }

    /// Ends all of them.
    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    fn signal(self, signal: Signal) {
        match rustix::process::kill_process_group(self.0, signal) {
            // None of them is left.
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => {
                diary::warning(format_args!(
                    "cannot signal process group {:?}: {error}",
                    self.0
                ));
            }
        }
    }
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its working directory.
    pub directory: String,
    /// The command line, for the shell.
    pub command: String,
    /// Further environment.
    pub environment: Vec<(String, String)>,
    /// What it reads: a part of a text.
    pub input: Option<(Text, Span)>,
    /// Whether what it prints goes to whoever asked, and only its errors to the error window.
    pub is_answered: bool,
}

impl From<Run> for Job {
    fn from(run: Run) -> Self {
        let text = (!run.input.is_empty()).then(|| Text::from(run.input.as_str()));
        Self {
            directory: run.directory,
            command: run.command,
            environment: run.environment,
            input: text.map(|text| {
                let whole = Span::new(0, text.len());
                (text, whole)
            }),
            is_answered: false,
        }
    }
}

/// Where goes what a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the error window.
    Window,
    /// To whoever asked.
    Answer,
}

/// What a running command does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It wrote something.
    Output(Way, String),
    /// It wrote more than is kept; what follows is read and dropped.
    Cut(Way),
    /// It ended, with its exit code or 128 plus the signal.
    Exited(i32),
}

/// A running command.
#[derive(Debug)]
pub struct Running {
    child: Child,
    group: Group,
    streams: [Stream; 2],
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// It ended with this code; what it wrote before is read first.
    Draining(i32),
    /// Its end was told; children that it left may still write.
    Ended,
}

/// One of its outputs.
#[derive(Debug)]
struct Stream {
    way: Way,
    /// None when nobody holds the other end any more.
    pipe: Option<pipe::Receiver>,
    decoder: Decoder,
    kept_len: usize,
}

/// Starts a command with `sh -c`.
///
/// # Errors
/// When its directory is missing or the system refuses.
pub fn start(job: &Job, environment: &[(&str, &str)]) -> Result<Running, ProcessError> {
    let directory = files::path_of(&job.directory);
    if let Err(error) = std::fs::metadata(&directory).and_then(|_| std::fs::read_dir(&directory)) {
        return Err(ProcessError::Directory(directory, error));
    }
    check(job)?;
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(os_string(&job.command))
        .current_dir(&directory)
        .process_group(0);
    // Programs ask this before they colour or page their output.
    command.env("TERM", "dumb");
    command.envs(environment.iter().copied());
    command.envs(
        job.environment
            .iter()
            .map(|(name, value)| (os_string(name), os_string(value))),
    );
    command.stdin(if job.input.is_none() {
        Stdio::null()
    } else {
        Stdio::piped()
    });
    let (window, writer) = Stream::open(Way::Window)?;
    let answer = if job.is_answered {
        let (answer, writer) = Stream::open(Way::Answer)?;
        command.stdout(writer);
        answer
    } else {
        command.stdout(writer.try_clone().map_err(ProcessError::System)?);
        Stream::closed(Way::Answer)
    };
    command.stderr(writer);
    let mut child = command.spawn().map_err(ProcessError::System)?;
    // The command holds the writing ends too; the outputs would never end.
    drop(command);
    let group = child
        .id()
        .and_then(|id| Pid::from_raw(id.cast_signed()))
        .map(Group)
        .ok_or_else(|| ProcessError::System(io::Error::other("it has no id")))?;
    if let (Some(stdin), Some((text, at))) = (child.stdin.take(), &job.input) {
        tokio::spawn(feed(stdin, text.clone(), *at));
    }
    Ok(Running {
        child,
        group,
        streams: [answer, window],
        stage: Stage::Running,
    })
}

fn system(error: rustix::io::Errno) -> ProcessError {
    ProcessError::System(error.into())
}

fn check(job: &Job) -> Result<(), ProcessError> {
    if job.command.contains('\0') {
        return Err(ProcessError::BadText("a command with a zero byte".into()));
    }
    for (name, value) in &job.environment {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(ProcessError::BadText(format!("the variable {name:?}")));
        }
    }
    Ok(())
}

fn os_string(text: &str) -> std::ffi::OsString {
    files::path_of(text).into_os_string()
}

/// Writes a command's input. A command that reads none of it is no error.
async fn feed(mut stdin: ChildStdin, text: Text, at: Span) {
    let mut from = at.q0;
    while from < at.q1 {
        let to = at.q1.min(from + INPUT_PIECE_COUNT);
        let piece = encode(&text.slice(Span::new(from, to)));
        from = to;
        if let Err(error) = stdin.write_all(&piece).await {
            if error.kind() != io::ErrorKind::BrokenPipe {
                diary::warning(format_args!("cannot write to a command: {error}"));
            }
            return;
        }
    }
}

impl Running {
    /// Returns its processes.
    #[must_use]
    pub const fn group(&self) -> Group {
        self.group
    }

    /// Waits for what happens next; none when it has ended and nobody holds its outputs any more.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let event = match self.stage {
                Stage::Running => self.step().await,
                Stage::Draining(code) => Some(self.drain(code)),
                Stage::Ended if self.streams.iter().all(|s| s.pipe.is_none()) => return None,
                Stage::Ended => {
                    let [answer, window] = &self.streams;
                    let index = tokio::select! {
                        biased;
                        () = answer.readable() => 0,
                        () = window.readable() => 1,
                    };
                    self.streams[index].read().await
                }
            };
            if event.is_some() {
                return event;
            }
        }
    }

    async fn step(&mut self) -> Option<Event> {
        let [answer, window] = &self.streams;
        let index = tokio::select! {
            biased;
            () = answer.readable() => 0,
            () = window.readable() => 1,
            status = self.child.wait() => {
                self.stage = Stage::Draining(exit_code(&status));
                return None;
            }
        };
        self.streams[index].read().await
    }

    /// Reads what is in the pipes now, and then tells the end.
    fn drain(&mut self, code: i32) -> Event {
        for stream in &mut self.streams {
            if let Some(event) = stream.drain() {
                return event;
            }
        }
        self.stage = Stage::Ended;
        Event::Exited(code)
    }
}

impl Stream {
    /// Returns a stream and the end that a command writes to.
    fn open(way: Way) -> Result<(Self, OwnedFd), ProcessError> {
        let (reader, writer) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(system)?;
        rustix::io::ioctl_fionbio(&reader, true).map_err(system)?;
        let pipe = pipe::Receiver::from_owned_fd(reader).map_err(ProcessError::System)?;
        let mut stream = Self::closed(way);
        stream.pipe = Some(pipe);
        Ok((stream, writer))
    }

    fn closed(way: Way) -> Self {
        Self {
            way,
            pipe: None,
            decoder: Decoder::default(),
            kept_len: 0,
        }
    }

    const fn len_max(&self) -> usize {
        match self.way {
            Way::Window => OUTPUT_LEN_MAX,
            Way::Answer => YIELD_LEN_MAX,
        }
    }

    /// Waits until there is something to read, or its end.
    async fn readable(&self) {
        match &self.pipe {
            Some(pipe) => drop(pipe.readable().await),
            None => std::future::pending().await,
        }
    }

    async fn read(&mut self) -> Option<Event> {
        let pipe = self.pipe.as_mut()?;
        let mut bytes = vec![0; OUTPUT_PIECE_LEN_MAX];
        match pipe.read(&mut bytes).await {
            Ok(0) | Err(_) => self.end(),
            Ok(count) => self.keep(&bytes[..count]),
        }
    }

    /// Reads until there is something to tell, or nothing more in the pipe.
    fn drain(&mut self) -> Option<Event> {
        let mut bytes = vec![0; OUTPUT_PIECE_LEN_MAX];
        loop {
            let pipe = self.pipe.as_ref()?;
            // Not by the runtime, which may not have noticed yet that something is there.
            let event = match rustix::io::read(pipe, &mut bytes) {
                Ok(0) => return self.end(),
                Ok(count) => self.keep(&bytes[..count]),
                Err(_) => return None,
            };
            if event.is_some() {
                return event;
            }
        }
    }

    fn end(&mut self) -> Option<Event> {
        self.pipe = None;
        let rest = std::mem::take(&mut self.decoder).finish();
        let is_kept = !rest.is_empty() && self.kept_len < self.len_max();
        is_kept.then_some(Event::Output(self.way, rest))
    }

    fn keep(&mut self, bytes: &[u8]) -> Option<Event> {
        if self.kept_len >= self.len_max() {
            return None;
        }
        self.kept_len += bytes.len();
        if self.kept_len >= self.len_max() {
            return Some(Event::Cut(self.way));
        }
        Some(self.decoder.decode(bytes))
            .filter(|text| !text.is_empty())
            .map(|text| Event::Output(self.way, text))
    }
}

fn exit_code(status: &io::Result<ExitStatus>) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    let Ok(status) = status else { return -1 };
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::testing::TempDir;

    fn events(job: impl Into<Job>) -> Vec<Event> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut running = start(&job.into(), &[("APEX_SESSION", "main")]).unwrap();
            let mut events: Vec<Event> = Vec::new();
            while let Some(event) = running.next().await {
                match (events.last_mut(), event) {
                    (Some(Event::Output(way, text)), Event::Output(of, more)) if *way == of => {
                        text.push_str(&more);
                    }
                    (_, event) => events.push(event),
                }
            }
            events
        })
    }

    fn command(command: &str) -> Run {
        Run {
            directory: "/".into(),
            command: command.into(),
            input: String::new(),
            environment: Vec::new(),
        }
    }

    fn output(text: &str) -> Event {
        Event::Output(Way::Window, text.into())
    }

    #[test]
    fn both_outputs_come_in_order_and_then_the_exit_code() {
        let run = command("echo a; echo b >&2; echo c; exit 3");
        assert_eq!(events(run), [output("a\nb\nc\n"), Event::Exited(3)]);
        assert_eq!(events(command("true")), [Event::Exited(0)]);
        assert_eq!(events(command("kill -9 $$")), [Event::Exited(137)]);
    }

    #[test]
    fn a_command_has_its_input_directory_and_environment() {
        let dir = TempDir::new();
        let run = Run {
            directory: files::name_of(dir.path()),
            command: "pwd; cat; echo $samfile $APEX_SESSION".into(),
            input: "in\u{10FEFF}\n".into(),
            environment: vec![("samfile".into(), "/x y".into())],
        };
        let expect = format!("{}\nin\u{10FEFF}\n/x y main\n", dir.path().display());
        assert_eq!(events(run), [output(&expect), Event::Exited(0)]);
    }

    #[test]
    fn an_answer_comes_apart_from_the_errors() {
        let text = Text::from("3\n1\n2\nrest");
        let job = |command: &str, input| Job {
            directory: "/".into(),
            command: command.into(),
            environment: Vec::new(),
            input,
            is_answered: true,
        };
        let answer = |text: &str| Event::Output(Way::Answer, text.into());
        let sorting = job("sort", Some((text.clone(), Span::new(0, 6))));
        assert_eq!(events(sorting), [answer("1\n2\n3\n"), Event::Exited(0)]);
        let telling = job("cat >&2; exit 4", Some((text, Span::new(6, 10))));
        assert_eq!(events(telling), [output("rest"), Event::Exited(4)]);
        let both = events(job("echo a; sleep 0.2; echo b >&2", None));
        assert_eq!(both, [answer("a\n"), output("b\n"), Event::Exited(0)]);
        // Longer than what pipes hold, and the command prints before it has read all of it.
        let long = Text::from("0123456789abcde\n".repeat(40_000).as_str());
        let whole = Span::new(0, long.len());
        let copied = events(job("cat", Some((long.clone(), whole))));
        assert_eq!(copied, [answer(&long.to_string()), Event::Exited(0)]);
        let unread = events(job("echo a", Some((long, whole))));
        assert_eq!(unread, [answer("a\n"), Event::Exited(0)]);
    }

    #[test]
    fn endless_output_is_cut_and_the_command_can_be_killed_with_its_children() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut running = start(&command("yes & sleep 1000; wait").into(), &[]).unwrap();
            let mut is_cut = false;
            while let Some(event) = running.next().await {
                match event {
                    Event::Cut(_) => {
                        is_cut = true;
                        running.group().kill();
                    }
                    Event::Exited(code) => assert_eq!(code, 137),
                    Event::Output(..) => assert!(!is_cut),
                }
            }
            assert!(is_cut);
        });
    }

    #[test]
    fn what_cannot_be_started_says_why() {
        let missing = Run {
            directory: "/no/such".into(),
            ..command("true")
        };
        let error = start(&missing.into(), &[]).unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
        let bad = Run {
            environment: vec![("a=b".into(), String::new())],
            ..command("true")
        };
        assert!(matches!(
            start(&bad.into(), &[]),
            Err(ProcessError::BadText(_))
        ));
    }
}
