//! apexd: keeps sessions, files, commands and tools, and serves them on a socket of its user.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use apex_host::config::{ConfigError, Paths};
use apex_host::daemon::{self, DaemonConfig};
use apex_host::diary::{self, Level};
use apex_host::link::{LinkError, Listener};
use apex_host::seam::{RESTART_WAIT_MS, ToolConfig, ToolHandle};
use apex_host::tools::ToolHost;
use clap::Parser;
use mimalloc::MiMalloc;
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Keeps apex sessions and serves them; `apex` starts it when none runs.
#[derive(Debug, Parser)]
#[command(name = "apexd", version)]
struct Arguments {
    /// A directory of tools; may be given several times, an earlier one wins. Without it: `plugins`
    /// beside this program.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// Stay in the foreground (apexd always does; `apex` puts it into the background).
    #[arg(long)]
    foreground: bool,
    /// Run no tools.
    #[arg(long)]
    no_tools: bool,
    /// End when nobody was connected for this many seconds.
    #[arg(long, value_name = "SECONDS")]
    idle_exit: Option<u64>,
    /// Say more on standard error.
    #[arg(long, short)]
    verbose: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.verbose {
        diary::set_level(Level::Debug);
    }
    match serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            diary::error(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

/// Why apexd does not serve.
#[derive(Debug)]
enum ServeError {
    Config(ConfigError),
    Link(LinkError),
    System(std::io::Error),
}

impl std::fmt::Display for ServeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Link(error) => error.fmt(f),
            Self::System(error) => write!(f, "cannot start: {error}"),
        }
    }
}

impl From<ConfigError> for ServeError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<LinkError> for ServeError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<std::io::Error> for ServeError {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

fn serve(arguments: &Arguments) -> Result<(), ServeError> {
    let uid = rustix::process::geteuid().as_raw();
    let paths = Paths::new(|name| std::env::var_os(name), uid)?;
    raise_file_limit();
    leave_terminal();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("apexd")
        // A session that loads a large file is always ready to run; the default (61 such steps
        // before the sockets are looked at again) would keep everybody else waiting.
        .event_interval(4)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Before the socket, so that a signal is never met by the default action once it is there.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let listener = Listener::bind(&paths)?;
        let tools = start_tools(arguments, &paths);
        announce(&paths)?;
        let shutdown = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            diary::info(format_args!("asked to end"));
        };
        let idle_exit = arguments.idle_exit.map(Duration::from_secs);
        daemon::run(
            DaemonConfig {
                paths,
                tools,
                idle_exit,
            },
            listener,
            shutdown,
        )
        .await;
        Ok(())
    })
}

fn start_tools(arguments: &Arguments, paths: &Paths) -> ToolHandle {
    if arguments.no_tools {
        // Its receiver is gone: whoever asks hears at once that no tools run.
        return ToolHandle::new().0;
    }
    let mut plugin_dirs = arguments.plugins.clone();
    if plugin_dirs.is_empty() {
        let beside = std::env::current_exe()
            .ok()
            .and_then(|path| Some(path.parent()?.join("plugins")));
        plugin_dirs.extend(beside);
    }
    plugin_dirs.push(paths.plugins());
    ToolHost::start(ToolConfig {
        plugin_dirs,
        grants_path: paths.grants(),
        cache_dir: paths.cache_dir.clone(),
        data_dir: paths.data_dir.join("tool"),
        restart_wait_ms: RESTART_WAIT_MS,
    })
}

/// Tells whoever started the daemon that it serves.
fn announce(paths: &Paths) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "ready {}", paths.socket().display())?;
    stdout.flush()?;
    diary::info(format_args!("serving {}", paths.socket().display()));
    Ok(())
}

/// Begins a process session of its own, so that the terminal in which `apex` started the daemon can
/// close. Only here can that be done by safe code. Who leads a process group cannot: a daemon that
/// a shell started by hand, which stays in the foreground.
fn leave_terminal() {
    if let Err(error) = rustix::process::setsid() {
        diary::debug(format_args!("stays in the process session: {error}"));
    }
}

/// Lets the daemon have as many files open as the system allows it.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        diary::debug(format_args!(
            "cannot raise the limit of open files: {error}"
        ));
    }
}
