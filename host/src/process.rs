//! Commands that run outside the editor: started in a process group of their own, read through one
//! pipe for both outputs (so that their order is kept), and killed with all their children.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use apex_core::message::Run;
use apex_core::text::{Decoder, encode};
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};

use crate::config::{OUTPUT_LEN_MAX, OUTPUT_PIECE_LEN_MAX};
use crate::{diary, files};

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

/// What a running command does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It wrote something.
    Output(String),
    /// It wrote more than is kept; what follows is read and dropped.
    Cut,
    /// It ended, with its exit code or 128 plus the signal.
    Exited(i32),
}

/// A running command.
#[derive(Debug)]
pub struct Running {
    child: Child,
    group: Group,
    output: Option<pipe::Receiver>,
    decoder: Decoder,
    kept_len: usize,
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

/// Starts a command with `sh -c`.
///
/// # Errors
/// When its directory is missing or the system refuses.
pub fn start(run: &Run, environment: &[(&str, &str)]) -> Result<Running, ProcessError> {
    let directory = files::path_of(&run.directory);
    if let Err(error) = std::fs::metadata(&directory).and_then(|_| std::fs::read_dir(&directory)) {
        return Err(ProcessError::Directory(directory, error));
    }
    check(run)?;
    let (reader, writer) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(system)?;
    rustix::io::ioctl_fionbio(&reader, true).map_err(system)?;
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(os_string(&run.command))
        .current_dir(&directory)
        .process_group(0);
    // Programs ask this before they colour or page their output.
    command.env("TERM", "dumb");
    command.envs(environment.iter().copied());
    command.envs(
        run.environment
            .iter()
            .map(|(name, value)| (os_string(name), os_string(value))),
    );
    command.stdin(if run.input.is_empty() {
        Stdio::null()
    } else {
        Stdio::piped()
    });
    command.stdout(writer.try_clone().map_err(ProcessError::System)?);
    command.stderr(writer);
    let mut child = command.spawn().map_err(ProcessError::System)?;
    // The command holds the writing end too; the output would never end.
    drop(command);
    let group = child
        .id()
        .and_then(|id| Pid::from_raw(id.cast_signed()))
        .map(Group)
        .ok_or_else(|| ProcessError::System(io::Error::other("it has no id")))?;
    if let Some(stdin) = child.stdin.take() {
        tokio::spawn(feed(stdin, encode(&run.input)));
    }
    let output = pipe::Receiver::from_owned_fd(reader).map_err(ProcessError::System)?;
    Ok(Running {
        child,
        group,
        output: Some(output),
        decoder: Decoder::default(),
        kept_len: 0,
        stage: Stage::Running,
    })
}

fn system(error: rustix::io::Errno) -> ProcessError {
    ProcessError::System(error.into())
}

fn check(run: &Run) -> Result<(), ProcessError> {
    if run.command.contains('\0') {
        return Err(ProcessError::BadText("a command with a zero byte".into()));
    }
    for (name, value) in &run.environment {
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
async fn feed(mut stdin: ChildStdin, input: Vec<u8>) {
    if let Err(error) = stdin.write_all(&input).await
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        diary::warning(format_args!("cannot write to a command: {error}"));
    }
}

impl Running {
    /// Returns its processes.
    #[must_use]
    pub const fn group(&self) -> Group {
        self.group
    }

    /// Waits for what happens next; none when it has ended and nobody holds its output any more.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let event = match self.stage {
                Stage::Running => self.step().await,
                Stage::Draining(code) => self.drain(code),
                Stage::Ended if self.output.is_none() => return None,
                Stage::Ended => self.read().await,
            };
            if event.is_some() {
                return event;
            }
        }
    }

    async fn step(&mut self) -> Option<Event> {
        if self.output.is_none() {
            let code = exit_code(&self.child.wait().await);
            self.stage = Stage::Draining(code);
            return None;
        }
        let Some(output) = &self.output else {
            return None;
        };
        tokio::select! {
            biased;
            _ = output.readable() => {}
            status = self.child.wait() => {
                self.stage = Stage::Draining(exit_code(&status));
                return None;
            }
        }
        self.read().await
    }

    async fn read(&mut self) -> Option<Event> {
        let output = self.output.as_mut()?;
        let mut bytes = vec![0; OUTPUT_PIECE_LEN_MAX];
        match output.read(&mut bytes).await {
            Ok(0) | Err(_) => self.end_output(),
            Ok(count) => self.keep(&bytes[..count]),
        }
    }

    /// Reads what is in the pipe now, and then tells the end.
    fn drain(&mut self, code: i32) -> Option<Event> {
        let mut bytes = vec![0; OUTPUT_PIECE_LEN_MAX];
        // Not by the runtime, which may not have noticed yet that something is there.
        match self
            .output
            .as_ref()
            .map(|output| rustix::io::read(output, &mut bytes))
        {
            Some(Ok(count)) if count > 0 => self.keep(&bytes[..count]),
            Some(Ok(_)) => self.end_output(),
            Some(Err(_)) | None => {
                self.stage = Stage::Ended;
                Some(Event::Exited(code))
            }
        }
    }

    fn end_output(&mut self) -> Option<Event> {
        self.output = None;
        let rest = std::mem::take(&mut self.decoder).finish();
        (!rest.is_empty() && self.kept_len < OUTPUT_LEN_MAX).then_some(Event::Output(rest))
    }

    fn keep(&mut self, bytes: &[u8]) -> Option<Event> {
        if self.kept_len >= OUTPUT_LEN_MAX {
            return None;
        }
        self.kept_len += bytes.len();
        if self.kept_len >= OUTPUT_LEN_MAX {
            return Some(Event::Cut);
        }
        Some(self.decoder.decode(bytes))
            .filter(|text| !text.is_empty())
            .map(Event::Output)
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

    fn events(run: &Run) -> Vec<Event> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut running = start(run, &[("APEX_SESSION", "main")]).unwrap();
            let mut events: Vec<Event> = Vec::new();
            while let Some(event) = running.next().await {
                match (events.last_mut(), event) {
                    (Some(Event::Output(text)), Event::Output(more)) => text.push_str(&more),
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
        Event::Output(text.into())
    }

    #[test]
    fn both_outputs_come_in_order_and_then_the_exit_code() {
        let run = command("echo a; echo b >&2; echo c; exit 3");
        assert_eq!(events(&run), [output("a\nb\nc\n"), Event::Exited(3)]);
        assert_eq!(events(&command("true")), [Event::Exited(0)]);
        assert_eq!(events(&command("kill -9 $$")), [Event::Exited(137)]);
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
        assert_eq!(events(&run), [Event::Output(expect), Event::Exited(0)]);
    }

    #[test]
    fn endless_output_is_cut_and_the_command_can_be_killed_with_its_children() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut running = start(&command("yes & sleep 1000; wait"), &[]).unwrap();
            let mut is_cut = false;
            while let Some(event) = running.next().await {
                match event {
                    Event::Cut => {
                        is_cut = true;
                        running.group().kill();
                    }
                    Event::Exited(code) => assert_eq!(code, 137),
                    Event::Output(_) => assert!(!is_cut),
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
        let error = start(&missing, &[]).unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
        let bad = Run {
            environment: vec![("a=b".into(), String::new())],
            ..command("true")
        };
        assert!(matches!(start(&bad, &[]), Err(ProcessError::BadText(_))));
    }
}
