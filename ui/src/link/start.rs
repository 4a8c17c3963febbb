//! Starting the daemon when none runs.
//!
//! 1. Several programs may start one at the same time: the lock that `apexd` takes decides. The
//!    daemon that does not get it ends, and who started it connects to the other one.
//! 2. The daemon outlives who started it, so it gets no terminal: no standard input, a log file for
//!    what it has to say, and a session of its own, which it makes itself: only the new process
//!    can, and between fork and exec there is no safe code.
//! 3. It says `ready SOCKET` on standard output when the socket listens, so that nobody polls for
//!    that; only the loser of the race does, since the winner reports to somebody else.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{env, fmt};

use rustix::fs::{FlockOperation, flock};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::link::runtime::RuntimeDir;
use crate::link::{Link, LinkError};

/// How long a daemon may take to listen. It compiles no tool before that.
const READY_MS: u64 = 10_000;
/// How long the loser of a race waits for the winner to listen.
const WINNER_MS: u64 = 5_000;
/// How often it looks.
const WINNER_POLL_MS: u64 = 20;
/// Most lines of the log that an error shows, and most bytes of it that are looked at.
const LOG_LINE_COUNT_MAX: usize = 10;
const LOG_TAIL_LEN_MAX: u64 = 16 << 10;

/// How a daemon is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program, by an absolute path.
    pub program: PathBuf,
    /// Further directories of tools.
    pub plugins: Vec<PathBuf>,
}

impl Launch {
    /// Returns how this process starts one: `$APEXD`, else `apexd` beside the running program,
    /// with the directories of `$APEX_PLUGINS`, which colons separate.
    ///
    /// # Errors
    /// [`StartError::NoProgram`] when no such file exists.
    pub fn of_process() -> Result<Self, StartError> {
        let program = match env::var_os("APEXD").filter(|path| !path.is_empty()) {
            Some(path) => std::path::absolute(path).map_err(StartError::Surroundings)?,
            None => env::current_exe()
                .map_err(StartError::Surroundings)?
                .with_file_name("apexd"),
        };
        if !program.is_file() {
            return Err(StartError::NoProgram { program });
        }
        let plugins = env::var_os("APEX_PLUGINS")
            .iter()
            .flat_map(env::split_paths)
            .filter(|path| !path.as_os_str().is_empty())
            .map(std::path::absolute)
            .collect::<Result<_, _>>()
            .map_err(StartError::Surroundings)?;
        Ok(Self { program, plugins })
    }
}

/// Connects to the daemon of a runtime directory, starting it if none runs.
///
/// # Errors
/// [`LinkError`]: why there is no connection; what the daemon said if it did not come up.
pub async fn connect_or_start(
    dir: &RuntimeDir,
    launch: impl FnOnce() -> Result<Launch, StartError>,
) -> Result<Link, LinkError> {
    match Link::connect(dir).await {
        Err(LinkError::NoDaemon { .. }) => {}
        result => return result,
    }
    dir.make()?;
    let launch = launch()?;
    let log = Log::open(dir)?;
    let mut child = spawn(dir, &launch, &log)?;
    if wait_until_ready(&mut child)
        .await
        .map_err(|()| log.error(dir, None))?
    {
        return Link::connect(dir).await;
    }
    // Without a `ready` it has closed its output: it ended, or it is about to.
    let status = child.wait().await.ok();
    connect_to_winner(dir)
        .await?
        .ok_or_else(|| log.error(dir, status).into())
}

/// The daemon's log, and where its newest run begins in it.
struct Log {
    path: PathBuf,
    file: File,
    start: u64,
}

impl Log {
    fn open(dir: &RuntimeDir) -> Result<Self, StartError> {
        let path = dir.log();
        let open = || {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(&path)?;
            let start = file.metadata()?.len();
            Ok((file, start))
        };
        match open() {
            Ok((file, start)) => Ok(Self { path, file, start }),
            Err(source) => Err(StartError::Log { path, source }),
        }
    }

    fn error(&self, dir: &RuntimeDir, status: Option<ExitStatus>) -> StartError {
        let lines = self.newest_lines().unwrap_or_default();
        let log = self.path.clone();
        match status {
            Some(status) => StartError::Ended { status, lines, log },
            None => StartError::NotReady {
                socket: dir.socket(),
                lines,
                log,
            },
        }
    }

    fn newest_lines(&self) -> io::Result<Vec<String>> {
        let mut file = File::open(&self.path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(
            self.start.max(len.saturating_sub(LOG_TAIL_LEN_MAX)),
        ))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_LEN_MAX).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let skipped = lines.len().saturating_sub(LOG_LINE_COUNT_MAX);
        Ok(lines[skipped..].iter().map(ToString::to_string).collect())
    }
}

fn spawn(dir: &RuntimeDir, launch: &Launch, log: &Log) -> Result<Child, StartError> {
    let failed = |source| StartError::Spawn {
        program: launch.program.clone(),
        source,
    };
    let mut command = Command::new(&launch.program);
    for plugins in &launch.plugins {
        command.arg("--plugins").arg(plugins);
    }
    command
        // It must not keep a mount busy, and relative paths would mean nothing to it.
        .current_dir("/")
        .env("APEX_RUNTIME_DIR", dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.file.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)
}

/// Returns whether the daemon said that it is ready before it closed its output; an error when it
/// did neither in time.
async fn wait_until_ready(child: &mut Child) -> Result<bool, ()> {
    let stdout = child.stdout.take().expect("its output is a pipe");
    let mut lines = BufReader::new(stdout).lines();
    let ready = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if line.starts_with("ready ") {
                return true;
            }
        }
        false
    };
    timeout(Duration::from_millis(READY_MS), ready)
        .await
        .map_err(drop)
}

/// Connects to the daemon that holds the lock, if one does, as soon as it listens.
async fn connect_to_winner(dir: &RuntimeDir) -> Result<Option<Link>, LinkError> {
    let poll = async {
        loop {
            // In this order: a daemon that took the lock and listened in between is found.
            let is_locked = is_locked(&dir.lock());
            match Link::connect(dir).await {
                Err(LinkError::NoDaemon { .. }) if is_locked => {}
                Err(LinkError::NoDaemon { .. }) => return Ok(None),
                result => return result.map(Some),
            }
            sleep(Duration::from_millis(WINNER_POLL_MS)).await;
        }
    };
    timeout(Duration::from_millis(WINNER_MS), poll)
        .await
        .unwrap_or(Ok(None))
}

/// Returns whether a daemon holds the lock. Taking it shared for a moment is the only way to know.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// Why the daemon could not be started.
#[derive(Debug)]
pub enum StartError {
    /// The program is not where it should be.
    NoProgram {
        /// Where it was looked for.
        program: PathBuf,
    },
    /// The system does not say which program this is, or from where it runs.
    Surroundings(io::Error),
    /// Its log cannot be written.
    Log {
        /// The log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system did not start it.
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It ended, and no other one runs.
    Ended {
        /// How.
        status: ExitStatus,
        /// Its last words.
        lines: Vec<String>,
        /// The file that has all of them.
        log: PathBuf,
    },
    /// It runs but does not listen in time.
    NotReady {
        /// Where it should.
        socket: PathBuf,
        /// Its last words.
        lines: Vec<String>,
        /// The file that has all of them.
        log: PathBuf,
    },
}

impl StartError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoProgram { .. } | Self::Spawn { .. } => {
                "install apexd beside apex, or name it in APEXD".into()
            }
            Self::Surroundings(_) => "name the daemon's program in APEXD".into(),
            Self::Log { .. } => "make room and access there, or set APEX_RUNTIME_DIR".into(),
            Self::Ended { log, .. } | Self::NotReady { log, .. } => {
                format!("all of its log: {}", log.display())
            }
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lines, what) = match self {
            Self::NoProgram { program } => {
                return write!(
                    f,
                    "no daemon runs, and {} does not exist",
                    program.display()
                );
            }
            Self::Surroundings(_) => return f.write_str("cannot find the daemon's program"),
            Self::Log { path, .. } => {
                return write!(f, "cannot write the daemon's log {}", path.display());
            }
            Self::Spawn { program, .. } => {
                return write!(f, "cannot start the daemon {}", program.display());
            }
            Self::Ended { status, lines, .. } => (lines, format!("the daemon ended ({status})")),
            Self::NotReady { socket, lines, .. } => (
                lines,
                format!("the daemon does not listen at {}", socket.display()),
            ),
        };
        f.write_str(&what)?;
        if lines.is_empty() {
            return f.write_str(" without a word");
        }
        f.write_str("; it said:")?;
        lines.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Surroundings(source) | Self::Log { source, .. } | Self::Spawn { source, .. } => {
                Some(source)
            }
            Self::NoProgram { .. } | Self::Ended { .. } | Self::NotReady { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::runtime::Surroundings;
    use crate::link::scratch::Scratch;
    use std::os::unix::fs::PermissionsExt;

    fn runtime(scratch: &Scratch) -> RuntimeDir {
        RuntimeDir::find(&Surroundings {
            apex_runtime_dir: Some(scratch.path().into()),
            xdg_runtime_dir: None,
            uid: rustix::process::geteuid().as_raw(),
        })
        .unwrap()
    }

    fn script(scratch: &Scratch, text: &str) -> Launch {
        let program = scratch.path().join("daemon");
        std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
        Launch {
            program,
            plugins: vec!["/a/b".into(), "/c".into()],
        }
    }

    #[tokio::test]
    async fn a_daemon_that_ends_is_reported_with_its_last_words_and_only_those_of_this_run() {
        let scratch = Scratch::new();
        let dir = runtime(&scratch);
        std::fs::write(dir.log(), "an earlier run\n").unwrap();
        let launch = script(
            &scratch,
            "echo \"args: $*\" >&2; echo the disk is full >&2; exit 3",
        );
        let error = connect_or_start(&dir, || Ok(launch)).await.unwrap_err();
        let LinkError::Start(StartError::Ended { status, lines, .. }) = error else {
            unreachable!("{error}")
        };
        assert_eq!(status.code(), Some(3));
        assert_eq!(
            lines,
            ["args: --plugins /a/b --plugins /c", "the disk is full"]
        );
    }

    #[tokio::test]
    async fn a_missing_program_is_named_with_what_to_do() {
        let scratch = Scratch::new();
        let dir = runtime(&scratch);
        let program = scratch.path().join("none");
        let launch = Launch {
            program: program.clone(),
            plugins: Vec::new(),
        };
        let error = connect_or_start(&dir, || Ok(launch)).await.unwrap_err();
        let LinkError::Start(error @ StartError::Spawn { .. }) = error else {
            unreachable!("{error}")
        };
        assert!(
            error.to_string().contains(program.to_str().unwrap()),
            "{error}"
        );
        assert!(error.hint().contains("APEXD"));
    }

    #[tokio::test]
    async fn the_loser_of_a_race_reports_the_end_once_nobody_holds_the_lock() {
        let scratch = Scratch::new();
        let dir = runtime(&scratch);
        std::fs::write(dir.lock(), "").unwrap();
        assert!(!is_locked(&dir.lock()));
        let holder = File::open(dir.lock()).unwrap();
        flock(&holder, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(is_locked(&dir.lock()));
        drop(holder);
        assert!(connect_to_winner(&dir).await.unwrap().is_none());
    }
}
