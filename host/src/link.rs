//! The socket: binding it so that one daemon serves, and taking connections from its own user.

pub mod connection;

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::process::umask;
use tokio::net::{UnixListener, UnixStream};

use crate::config::Paths;
use crate::diary;

/// Why the daemon cannot serve.
#[derive(Debug)]
pub enum LinkError {
    /// Another daemon does; its process id, if it can be read.
    Serving {
        /// Whose socket.
        socket: PathBuf,
        /// Its process.
        pid: String,
    },
    /// The runtime directory is not safe to use; says why.
    Directory(PathBuf, String),
    /// The system refused.
    System(PathBuf, io::Error),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serving { socket, pid } => {
                write!(
                    f,
                    "apexd (process {pid}) serves {} already",
                    socket.display()
                )
            }
            Self::Directory(path, why) => write!(
                f,
                "{} {why}; make it a directory of your own (chmod 700), or set APEX_RUNTIME_DIR",
                path.display()
            ),
            Self::System(path, error) => write!(f, "cannot use {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for LinkError {}

/// The bound socket, and the lock that says so.
#[derive(Debug)]
pub struct Listener {
    paths: Paths,
    listener: UnixListener,
    /// Held as long as the daemon serves.
    lock: File,
    uid: u32,
}

/// A connection that was taken, or refused because of who it is.
#[derive(Debug)]
pub enum Accepted {
    /// A peer of our own user.
    Peer(UnixStream),
    /// Another user's, who is told so.
    Stranger(UnixStream, u32),
}

impl Listener {
    /// Takes the lock and binds the socket.
    ///
    /// # Errors
    /// Another daemon serves, the directory is not safe, or the system refuses.
    pub fn bind(paths: &Paths) -> Result<Self, LinkError> {
        let uid = rustix::process::geteuid().as_raw();
        prepare_dir(&paths.runtime_dir, uid)?;
        let lock = take_lock(paths)?;
        let listener = bind_socket(&paths.socket())?;
        Ok(Self {
            paths: paths.clone(),
            listener,
            lock,
            uid,
        })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// The system refuses (no file descriptors left, say); the next call may succeed.
    pub async fn accept(&self) -> io::Result<Accepted> {
        let (stream, _) = self.listener.accept().await?;
        let uid = stream.peer_cred()?.uid();
        if uid == self.uid {
            Ok(Accepted::Peer(stream))
        } else {
            Ok(Accepted::Stranger(stream, uid))
        }
    }

    /// Binds again when something removed the socket, and renews the times of socket and lock, so
    /// that cleaners of old files leave them alone.
    pub fn renew(&mut self) {
        let socket = self.paths.socket();
        if std::fs::symlink_metadata(&socket).is_err() {
            match prepare_dir(&self.paths.runtime_dir, self.uid).and_then(|()| bind_socket(&socket))
            {
                Ok(listener) => {
                    self.listener = listener;
                    diary::warning(format_args!("{} was removed and is back", socket.display()));
                }
                Err(error) => diary::error(format_args!("the socket was removed: {error}")),
            }
        }
        let now = rustix::fs::Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        };
        let now = rustix::fs::Timestamps {
            last_access: now,
            last_modification: now,
        };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        if rustix::fs::utimensat(rustix::fs::CWD, &socket, &now, flags).is_err()
            || rustix::fs::futimens(&self.lock, &now).is_err()
        {
            diary::debug(format_args!(
                "cannot renew the times of {}",
                socket.display()
            ));
        }
    }

    /// Removes the socket; the lock goes with the process.
    pub fn close(self) {
        drop(std::fs::remove_file(self.paths.socket()));
    }
}

/// Makes the runtime directory, or checks that nobody else can get at it.
fn prepare_dir(dir: &Path, uid: u32) -> Result<(), LinkError> {
    let fail = |error| LinkError::System(dir.to_owned(), error);
    if let Some(parent) = dir.parent() {
        std::fs::create_dir_all(parent).map_err(fail)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(fail(error)),
        Ok(()) | Err(_) => {}
    }
    // Not followed: a link here would be somebody's trick.
    let metadata = std::fs::symlink_metadata(dir).map_err(fail)?;
    let refuse = |why: &str| Err(LinkError::Directory(dir.to_owned(), why.to_owned()));
    if !metadata.is_dir() {
        return refuse("is no directory");
    }
    if metadata.uid() != uid {
        return refuse("belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 {
        return refuse("can be written by other users");
    }
    // Others could look but not change anything so far; from here on they cannot look either.
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(dir, private).map_err(fail)
}

fn take_lock(paths: &Paths) -> Result<File, LinkError> {
    let path = paths.lock();
    let fail = |error| LinkError::System(path.clone(), error);
    loop {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let mut file = options.open(&path).map_err(fail)?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            drop(file.read_to_string(&mut pid));
            let pid = if pid.is_empty() {
                "unknown".to_owned()
            } else {
                pid.trim().to_owned()
            };
            return Err(LinkError::Serving {
                socket: paths.socket(),
                pid,
            });
        }
        // Whoever removed the file meanwhile would let another daemon lock a new one.
        let ours = file.metadata().map_err(fail)?;
        if std::fs::symlink_metadata(&path).is_ok_and(|now| now.ino() == ours.ino()) {
            file.set_len(0).map_err(fail)?;
            file.rewind().map_err(fail)?;
            file.write_all(std::process::id().to_string().as_bytes())
                .map_err(fail)?;
            return Ok(file);
        }
    }
}

/// Binds the socket; called with the lock held, so that one left behind is nobody's.
fn bind_socket(socket: &Path) -> Result<UnixListener, LinkError> {
    let fail = |error| LinkError::System(socket.to_owned(), error);
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
        Ok(()) | Err(_) => {}
    }
    // Before the bind, so that there is no moment at which others may connect. The mask is the
    // process's: a directory that another thread makes meanwhile must stay usable.
    let mask = umask(rustix::fs::Mode::from_raw_mode(0o077));
    let bound = std::os::unix::net::UnixListener::bind(socket);
    umask(mask);
    let listener = bound.map_err(fail)?;
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(socket, private).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    UnixListener::from_std(listener).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::testing::TempDir;

    fn paths(dir: &TempDir) -> Paths {
        let home = dir.path().to_owned();
        let find =
            |name: &str| (name == "HOME" || name == "XDG_RUNTIME_DIR").then(|| home.clone().into());
        Paths::new(find, 0).unwrap()
    }

    fn run<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn one_daemon_serves_and_the_second_says_who() {
        run(async {
            let dir = TempDir::new();
            let paths = paths(&dir);
            let first = Listener::bind(&paths).unwrap();
            let error = Listener::bind(&paths).unwrap_err();
            assert!(
                error.to_string().contains(&std::process::id().to_string()),
                "{error}"
            );
            let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
            assert_eq!(mode(&paths.runtime_dir), 0o700);
            assert_eq!(mode(&paths.socket()), 0o600);
            drop(first);
            // The socket that was left behind is nobody's.
            assert!(paths.socket().exists());
            Listener::bind(&paths).unwrap().close();
            assert!(!paths.socket().exists());
        });
    }

    #[test]
    fn a_runtime_directory_that_others_can_change_is_refused() {
        let dir = TempDir::new();
        let paths = paths(&dir);
        std::fs::create_dir(&paths.runtime_dir).unwrap();
        let chmod = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&paths.runtime_dir, mode).unwrap();
        };
        chmod(0o775);
        let error = run(async { Listener::bind(&paths).unwrap_err() });
        assert!(
            error.to_string().contains("written by other users"),
            "{error}"
        );
        chmod(0o755);
        run(async { Listener::bind(&paths).unwrap().close() });
        assert_eq!(
            std::fs::metadata(&paths.runtime_dir).unwrap().mode() & 0o777,
            0o700
        );
        std::fs::remove_dir_all(&paths.runtime_dir).unwrap();
        std::os::unix::fs::symlink(dir.path(), &paths.runtime_dir).unwrap();
        let error = run(async { Listener::bind(&paths).unwrap_err() });
        assert!(error.to_string().contains("no directory"), "{error}");
    }

    #[test]
    fn a_socket_that_was_removed_comes_back() {
        run(async {
            let dir = TempDir::new();
            let paths = paths(&dir);
            let mut listener = Listener::bind(&paths).unwrap();
            std::fs::remove_file(paths.socket()).unwrap();
            listener.renew();
            let connect = UnixStream::connect(paths.socket());
            let (accepted, connected) = tokio::join!(listener.accept(), connect);
            assert!(matches!(accepted.unwrap(), Accepted::Peer(_)));
            connected.unwrap();
        });
    }
}
