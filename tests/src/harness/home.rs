//! A user of one test: directories of its own, the built programs, and the daemon that they start.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::PATIENCE;

/// The directories; gone when dropped, and the daemon with them.
#[derive(Debug)]
pub struct Home(PathBuf);

/// What a command printed and how it ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// Returns a user that has nothing yet.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("apex-test-{}-{number}", std::process::id()));
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        for name in [
            "run/apex", "state", "data", "config", "cache", "plugins", "files",
        ] {
            builder.create(path.join(name)).unwrap();
        }
        Self(path)
    }

    /// The directory that everything of this user is in.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where the socket, the lock and the log of the daemon are.
    #[must_use]
    pub fn runtime(&self) -> PathBuf {
        self.0.join("run/apex")
    }

    /// The daemon's socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.runtime().join("apexd.sock")
    }

    /// The directory that commands run in.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        self.0.join("files")
    }

    /// Writes a file of the user and returns its path.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.files().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// What tells the programs that they run for this user.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let below = |name: &str| self.0.join(name);
        vec![
            ("HOME", below("")),
            ("XDG_RUNTIME_DIR", below("run")),
            ("XDG_STATE_HOME", below("state")),
            ("XDG_DATA_HOME", below("data")),
            ("XDG_CONFIG_HOME", below("config")),
            ("XDG_CACHE_HOME", below("cache")),
            // In place of the directory beside the program: no tool but those of the test.
            ("APEX_PLUGINS", below("plugins")),
        ]
    }

    /// Variables of whoever runs the tests that would change what the programs do.
    pub const FOREIGN: [&'static str; 5] = [
        "APEX_RUNTIME_DIR",
        "APEX_SESSION",
        "APEXD",
        "NO_COLOR",
        "COLORTERM",
    ];

    /// A built program, to run for this user.
    #[expect(clippy::disallowed_methods, reason = "the one place of the harness")]
    fn program<S: AsRef<OsStr>>(&self, name: &str, arguments: &[S]) -> Command {
        let mut command = Command::new(program(name));
        for variable in Self::FOREIGN {
            command.env_remove(variable);
        }
        command
            .args(arguments)
            .current_dir(self.files())
            .envs(self.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A command of the built `apex` for this user.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        self.program("apex", arguments)
    }

    /// Runs a command to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ended {
        Ended::new(self.command(arguments).output().unwrap())
    }

    /// Runs a command that must work, and returns what it printed.
    #[track_caller]
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: &[S]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.stderr, "");
        ended.text()
    }

    /// Runs a command that must work and print JSON.
    #[track_caller]
    pub fn json<S: AsRef<OsStr>>(&self, arguments: &[S]) -> serde_json::Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    /// The directory that the daemon watches for tools, as the one beside the program.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.0.join("plugins")
    }

    /// Installs a built tool: the manifest first, so that it is complete when it is seen.
    #[track_caller]
    pub fn install(&self, tool: &str) {
        for end in ["toml", "wasm"] {
            let file = format!("{tool}.{end}");
            fs::write(self.plugins().join(&file), built(tool, end)).unwrap();
        }
    }

    /// Installs a built tool and grants what it asks for.
    #[track_caller]
    pub fn add_tool(&self, tool: &str) {
        self.install(tool);
        self.ok(&["tool", "grant", tool]);
    }

    /// Installs the bundled tool and grants what it asks for.
    #[track_caller]
    pub fn add_tidy(&self) {
        self.add_tool("tidy");
    }

    /// What `apex tools` says of a tool; none when it is not listed.
    #[track_caller]
    pub fn tool(&self, name: &str) -> Option<serde_json::Value> {
        let tools = self.json(&["tools", "--json"]);
        let tools = tools.as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).cloned()
    }

    /// Asks for the tools until one is so, and returns it. Nobody tells of what tools do between
    /// entries, so it is asked for; each answer is as of a look at the directories of its own.
    #[track_caller]
    pub fn wait_tool(
        &self,
        name: &str,
        is_so: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let patience = Patience::new();
        loop {
            let tool = self.tool(name);
            if let Some(tool) = tool.as_ref().filter(|tool| is_so(tool)) {
                return tool.clone();
            }
            patience.check(|| format!("the tool {name} is not as expected: {tool:#?}"));
        }
    }

    /// Starts the daemon in the foreground, as a service manager would, and returns once it
    /// listens.
    pub fn daemon(&self) -> Daemon {
        self.daemon_of(|_| {})
    }

    /// As [`Self::daemon`], in surroundings that `change` makes.
    pub fn daemon_of(&self, change: impl FnOnce(&mut Command)) -> Daemon {
        let plugins = self.plugins();
        let mut command = self.program("apexd", &[OsStr::new("--plugins"), plugins.as_os_str()]);
        let log = fs::File::create(self.runtime().join("apexd.log")).unwrap();
        command.stderr(log);
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "apexd said {line:?}");
        Daemon(child)
    }

    /// What the daemon said on standard error.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.runtime().join("apexd.log")).unwrap_or_default()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let peer = UnixStream::connect(self.socket())
            .ok()
            .and_then(|stream| rustix::net::sockopt::socket_peercred(stream).ok());
        if let Some(peer) = peer
            && peer.pid.as_raw_nonzero().get().unsigned_abs() != std::process::id()
        {
            rustix::process::kill_process(peer.pid, rustix::process::Signal::KILL).ok();
        }
        if std::thread::panicking() {
            use std::io::Write;
            let stderr = std::io::stderr();
            writeln!(stderr.lock(), "---- apexd.log ----\n{}", self.log()).ok();
        }
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A daemon that a test started; killed when dropped.
#[derive(Debug)]
pub struct Daemon(Child);

impl Daemon {
    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Ended {
    /// Returns how a process ended.
    #[must_use]
    pub fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Returns what it printed.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }
}

/// A built program, beside this executable or beside the directory of the test executables.
///
/// # Panics
/// When it is not built.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let mut programs = here.ancestors().skip(1).take(2).map(|at| at.join(name));
    let program = programs.find(|program| program.is_file());
    program.unwrap_or_else(|| panic!("{name} is not built; run `cargo xtask test`"))
}

/// A file of a tool as `cargo xtask plugins` or `cargo xtask test` built it.
///
/// # Panics
/// When it is not built.
#[must_use]
#[track_caller]
pub fn built(tool: &str, end: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let file = format!("{tool}.{end}");
    let mut programs = program("apexd");
    programs.pop();
    let dirs = [
        root.join("plugins"),
        root.join("target/guests"),
        // Where a target folder of another place has them.
        programs.join("../guests"),
    ];
    let found = dirs.iter().find_map(|dir| fs::read(dir.join(&file)).ok());
    found.unwrap_or_else(|| panic!("{file} is not built; run `cargo xtask test`"))
}

/// How long something that is asked for again and again may take before a test has failed.
#[derive(Debug)]
pub struct Patience(Instant);

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
}

impl Patience {
    /// Returns all of it.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "bounds only how long a test that fails takes to say so"
    )]
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// Returns while there is time.
    ///
    /// # Panics
    /// When it has come to its end, with these words.
    #[track_caller]
    pub fn check(&self, why: impl FnOnce() -> String) {
        assert!(self.0.elapsed() < PATIENCE, "{}", why());
    }
}

/// A path as an argument.
#[must_use]
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
