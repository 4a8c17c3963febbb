//! A user of one test: directories of its own, the built `apex`, and the daemon that it started.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// The directories; gone when dropped, and the daemon with them.
pub(super) struct Home(PathBuf);

/// What a command printed and how it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl Home {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("apex-cli-{}-{number}", std::process::id()));
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        for name in ["run/apex", "state", "data", "config", "cache", "files"] {
            builder.create(path.join(name)).unwrap();
        }
        Self(path)
    }

    /// Where the socket, the lock and the log of the daemon are.
    pub(super) fn runtime(&self) -> PathBuf {
        self.0.join("run/apex")
    }

    /// Writes a file of the user and returns its path.
    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.files().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The directory that commands run in.
    pub(super) fn files(&self) -> PathBuf {
        self.0.join("files")
    }

    /// A command of the built `apex` for this user.
    #[expect(clippy::disallowed_methods, reason = "the one place of these tests")]
    pub(super) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(program("apex"));
        command
            .args(arguments)
            .current_dir(self.files())
            .env_remove("APEX_RUNTIME_DIR")
            .env_remove("APEX_SESSION")
            .env_remove("APEX_PLUGINS")
            .env_remove("APEXD")
            .env("HOME", &self.0)
            .env("XDG_RUNTIME_DIR", self.0.join("run"))
            .env("XDG_STATE_HOME", self.0.join("state"))
            .env("XDG_DATA_HOME", self.0.join("data"))
            .env("XDG_CONFIG_HOME", self.0.join("config"))
            .env("XDG_CACHE_HOME", self.0.join("cache"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(super) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Ended {
        Ended::new(self.command(arguments).output().unwrap())
    }

    /// Runs a command that must work, and returns what it printed.
    #[track_caller]
    pub(super) fn ok<S: AsRef<OsStr>>(&self, arguments: &[S]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.stderr, "");
        ended.text()
    }

    /// Runs a command that must work and print JSON.
    #[track_caller]
    pub(super) fn json<S: AsRef<OsStr>>(&self, arguments: &[S]) -> serde_json::Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(pid) = UnixStream::connect(self.runtime().join("apexd.sock"))
            .ok()
            .and_then(|stream| rustix::net::sockopt::socket_peercred(stream).ok())
            .map(|peer| peer.pid)
            .filter(|pid| pid.as_raw_nonzero().get().unsigned_abs() != std::process::id())
        {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
        fs::remove_dir_all(&self.0).ok();
    }
}

impl Ended {
    pub(super) fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }
}

/// A built program, beside the directory of the test executable.
fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests
        .ancestors()
        .nth(2)
        .map(|target| target.join(name))
        .unwrap();
    assert!(
        program.is_file(),
        "{} is not built; run `cargo xtask test`",
        program.display()
    );
    program
}

/// A path as an argument.
pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
