//! `cargo xtask run`: apex from this checkout, with its tools, in one step.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

use crate::ChoreError;
use crate::dist;
use crate::files;
use crate::guests;
use crate::process::Step;
use crate::say::say;

/// How often, and how long each time, a daemon that has just been started is waited for.
const WAIT_COUNT: usize = 500;
const WAIT: Duration = Duration::from_millis(20);

/// Why there is no daemon.
#[derive(Debug)]
pub(crate) enum DaemonError {
    /// It ended before it listened.
    Ended(ExitStatus),
    /// It runs and does not listen.
    Silent,
}

/// Builds what is needed, sees to a daemon and to the grants of the bundled tools, and becomes
/// `apex`.
pub(crate) fn run(files: &[OsString]) -> Result<(), ChoreError> {
    dist::build_programs()?;
    let tools = guests::build_bundled()?;
    ensure_daemon()?;
    for tool in &tools {
        say(&format!(
            "granting {tool} what its manifest asks for, by the hash just built"
        ));
        if let Err(error) = Step::new(program("apex"))
            .words("tool grant")
            .arg(tool)
            .run()
        {
            say(&format!("{tool} stays without its grant: {error}"));
        }
    }
    let apex = files.iter().fold(Step::new(program("apex")), Step::arg);
    Err(ChoreError::Process(apex.replace_us()))
}

/// Starts `apexd` with the plugins of this checkout unless one runs.
fn ensure_daemon() -> Result<(), ChoreError> {
    if listens() {
        say("apexd runs already, and goes on with the plugins that it was started with");
        return Ok(());
    }
    let plugins = files::root().join("plugins");
    let apexd = Step::new(program("apexd"))
        .arg("--plugins")
        .arg(plugins)
        .start()?;
    wait_for(apexd).map_err(ChoreError::Daemon)
}

/// Waits until the daemon takes connections. It may go into the background by itself.
fn wait_for(mut apexd: Child) -> Result<(), DaemonError> {
    let (_keep, nothing) = mpsc::channel::<()>();
    for _ in 0..WAIT_COUNT {
        if listens() {
            return Ok(());
        }
        if let Ok(Some(status)) = apexd.try_wait()
            && !status.success()
        {
            return Err(DaemonError::Ended(status));
        }
        // Nothing is ever sent, so this is a pause.
        let _pause = nothing.recv_timeout(WAIT);
    }
    Err(DaemonError::Silent)
}

fn listens() -> bool {
    UnixStream::connect(runtime_folder().join("apexd.sock")).is_ok()
}

/// Where the daemon's socket, lock and log are.
fn runtime_folder() -> PathBuf {
    let given = |key| {
        env::var_os(key)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    given("APEX_RUNTIME_DIR")
        .or_else(|| given("XDG_RUNTIME_DIR").map(|folder| folder.join("apex")))
        .unwrap_or_else(|| {
            let id = Step::new("id").arg("-u").output().unwrap_or_default();
            PathBuf::from(format!("/tmp/apex-{id}"))
        })
}

fn program(name: &str) -> PathBuf {
    files::target().join("release").join(name)
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = runtime_folder().join("apexd.log");
        let log = log.display();
        match self {
            Self::Ended(status) => write!(f, "apexd ended ({status}); {log} says why"),
            Self::Silent => write!(f, "apexd runs but takes no connections; see {log}"),
        }
    }
}
