//! The runtime directory: where the daemon's socket, lock and log are.
//!
//! It must be ours alone. What stands at the path is looked at without following a link, because
//! anybody can put something at a name below `/tmp`; a directory that others may enter is refused
//! instead of repaired, since whatever is in it already may not be ours.

use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

/// Longest socket path that Linux takes, in bytes, less the final zero.
const SOCKET_PATH_LEN_MAX: usize = 107;

/// What the directory is found by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// `$APEX_RUNTIME_DIR`: the directory itself.
    pub apex_runtime_dir: Option<OsString>,
    /// `$XDG_RUNTIME_DIR`: its parent.
    pub xdg_runtime_dir: Option<OsString>,
    /// The user whose directory it must be.
    pub uid: u32,
}

impl Surroundings {
    /// Returns those of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self {
            apex_runtime_dir: env::var_os("APEX_RUNTIME_DIR"),
            xdg_runtime_dir: env::var_os("XDG_RUNTIME_DIR"),
            uid: rustix::process::geteuid().as_raw(),
        }
    }
}

/// A runtime directory, by its absolute path; it need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeDir {
    path: PathBuf,
    uid: u32,
}

impl RuntimeDir {
    /// Returns the directory that these surroundings lead to: `$APEX_RUNTIME_DIR`, else
    /// `$XDG_RUNTIME_DIR/apex`, else `/tmp/apex-UID`. An empty variable counts as unset, and so
    /// does a relative `$XDG_RUNTIME_DIR`, as its specification asks.
    ///
    /// # Errors
    /// [`RuntimeDirError::TooLong`] when no socket could have such a path, and
    /// [`RuntimeDirError::Io`] when a relative path finds no working directory.
    pub fn find(surroundings: &Surroundings) -> Result<Self, RuntimeDirError> {
        let given = |value: &Option<OsString>| {
            value
                .as_ref()
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let path = given(&surroundings.apex_runtime_dir)
            .or_else(|| {
                given(&surroundings.xdg_runtime_dir)
                    .filter(|path| path.is_absolute())
                    .map(|path| path.join("apex"))
            })
            .unwrap_or_else(|| PathBuf::from(format!("/tmp/apex-{}", surroundings.uid)));
        let path = std::path::absolute(&path).map_err(|source| RuntimeDirError::Io {
            path: path.clone(),
            source,
        })?;
        let dir = Self {
            path,
            uid: surroundings.uid,
        };
        if dir.socket().as_os_str().as_bytes().len() > SOCKET_PATH_LEN_MAX {
            return Err(RuntimeDirError::TooLong { path: dir.path });
        }
        Ok(dir)
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the daemon's socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path.join("apexd.sock")
    }

    /// Returns the path of the file that the running daemon holds locked.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.path.join("apexd.lock")
    }

    /// Returns the path of the daemon's log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path.join("apexd.log")
    }

    /// Returns whether the directory exists, having checked that it is ours alone.
    ///
    /// # Errors
    /// [`RuntimeDirError`]: what is wrong with what stands at the path.
    pub fn check(&self) -> Result<bool, RuntimeDirError> {
        let path = || self.path.clone();
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => {
                return Err(RuntimeDirError::Io {
                    path: path(),
                    source,
                });
            }
        };
        if !metadata.is_dir() {
            return Err(RuntimeDirError::NotADirectory { path: path() });
        }
        check_owner(&metadata, self.uid, &self.path)?;
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(RuntimeDirError::Open { path: path(), mode });
        }
        Ok(true)
    }

    /// Makes the directory, with mode 0700, unless it exists; checks it in any case.
    ///
    /// # Errors
    /// [`RuntimeDirError`]: why it cannot be made, or what is wrong with what stands there.
    pub fn make(&self) -> Result<(), RuntimeDirError> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path);
        match (self.check(), made) {
            (Ok(true), _) => Ok(()),
            (Err(error), _) => Err(error),
            (Ok(false), Err(source)) => Err(RuntimeDirError::Io {
                path: self.path.clone(),
                source,
            }),
            (Ok(false), Ok(())) => Err(RuntimeDirError::Io {
                path: self.path.clone(),
                source: io::ErrorKind::NotFound.into(),
            }),
        }
    }
}

fn check_owner(metadata: &Metadata, uid: u32, path: &Path) -> Result<(), RuntimeDirError> {
    if metadata.uid() == uid {
        return Ok(());
    }
    Err(RuntimeDirError::Foreign {
        path: path.to_path_buf(),
        owner: metadata.uid(),
    })
}

/// Why a runtime directory cannot be used.
#[derive(Debug)]
pub enum RuntimeDirError {
    /// Its socket would have a longer path than sockets may have.
    TooLong {
        /// The directory.
        path: PathBuf,
    },
    /// Something else stands there, perhaps a symbolic link.
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// It belongs to another user.
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The other user.
        owner: u32,
    },
    /// Others may enter it.
    Open {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The operating system refused.
    Io {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl RuntimeDirError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let own = "set APEX_RUNTIME_DIR to a directory of your own with a short path";
        match self {
            Self::Open { .. } => {
                format!("{own}, or give this one the mode 0700 if nobody else uses it")
            }
            Self::TooLong { .. }
            | Self::NotADirectory { .. }
            | Self::Foreign { .. }
            | Self::Io { .. } => own.into(),
        }
    }
}

impl fmt::Display for RuntimeDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { path } => write!(
                f,
                "the runtime directory {} has too long a path for a socket in it (at most \
                 {SOCKET_PATH_LEN_MAX} bytes with the socket's name)",
                path.display()
            ),
            Self::NotADirectory { path } => write!(
                f,
                "the runtime directory {} is no directory (a symbolic link is not followed)",
                path.display()
            ),
            Self::Foreign { path, owner } => write!(
                f,
                "the runtime directory {} belongs to user {owner}, not to you",
                path.display()
            ),
            Self::Open { path, mode } => write!(
                f,
                "the runtime directory {} is open to others (mode {mode:04o} instead of 0700)",
                path.display()
            ),
            Self::Io { path, .. } => {
                write!(f, "cannot use the runtime directory {}", path.display())
            }
        }
    }
}

impl std::error::Error for RuntimeDirError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::TooLong { .. }
            | Self::NotADirectory { .. }
            | Self::Foreign { .. }
            | Self::Open { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::scratch::Scratch;
    use std::os::unix::fs::symlink;

    fn surroundings(apex: &str, xdg: &str) -> Surroundings {
        let some = |text: &str| (text != "unset").then(|| text.into());
        Surroundings {
            apex_runtime_dir: some(apex),
            xdg_runtime_dir: some(xdg),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    #[test]
    fn the_directory_is_found_by_the_first_variable_that_says_something() {
        let uid = rustix::process::geteuid().as_raw();
        let fallback = format!("/tmp/apex-{uid}");
        for (apex, xdg, path) in [
            ("/run/mine", "/run/user/7", "/run/mine"),
            ("unset", "/run/user/7", "/run/user/7/apex"),
            ("", "/run/user/7", "/run/user/7/apex"),
            ("unset", "unset", &fallback),
            ("", "", &fallback),
            ("unset", "relative", &fallback),
        ] {
            let dir = RuntimeDir::find(&surroundings(apex, xdg)).unwrap();
            assert_eq!(dir.path(), Path::new(path), "{apex:?} {xdg:?}");
        }
    }

    #[test]
    fn a_relative_directory_is_made_absolute_from_where_we_are() {
        let dir = RuntimeDir::find(&surroundings("here", "unset")).unwrap();
        assert_eq!(dir.path(), env::current_dir().unwrap().join("here"));
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused_before_anything_else() {
        let long = format!("/tmp/{}", "x".repeat(SOCKET_PATH_LEN_MAX));
        let error = RuntimeDir::find(&surroundings(&long, "unset")).unwrap_err();
        assert!(matches!(error, RuntimeDirError::TooLong { .. }), "{error}");
        assert!(error.hint().contains("APEX_RUNTIME_DIR"));
    }

    fn at(path: &Path) -> RuntimeDir {
        RuntimeDir {
            path: path.to_path_buf(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    #[test]
    fn a_missing_directory_is_made_closed_and_passes_its_own_check() {
        let scratch = Scratch::new();
        let dir = at(&scratch.path().join("a/b"));
        assert!(!dir.check().unwrap());
        dir.make().unwrap();
        assert!(dir.check().unwrap());
        let mode = fs::metadata(dir.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        dir.make().unwrap();
    }

    #[test]
    fn a_directory_open_to_others_is_refused_and_stays_as_it_is() {
        let scratch = Scratch::new();
        for mode in [0o701, 0o710, 0o750, 0o1777] {
            fs::set_permissions(scratch.path(), fs::Permissions::from_mode(mode)).unwrap();
            let error = at(scratch.path()).make().unwrap_err();
            assert!(
                matches!(error, RuntimeDirError::Open { mode: found, .. } if found == mode),
                "{mode:o}: {error}"
            );
            let now = fs::metadata(scratch.path()).unwrap().permissions().mode();
            assert_eq!(now & 0o7777, mode);
        }
    }

    #[test]
    fn a_link_and_a_file_in_its_place_are_refused() {
        let scratch = Scratch::new();
        let (link, file) = (scratch.path().join("link"), scratch.path().join("file"));
        symlink(scratch.path(), &link).unwrap();
        fs::write(&file, "").unwrap();
        for path in [link, file] {
            let error = at(&path).make().unwrap_err();
            assert!(
                matches!(error, RuntimeDirError::NotADirectory { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let scratch = Scratch::new();
        let uid = rustix::process::geteuid().as_raw();
        let dir = RuntimeDir {
            path: scratch.path().to_path_buf(),
            uid: uid + 1,
        };
        let error = dir.check().unwrap_err();
        assert!(
            matches!(error, RuntimeDirError::Foreign { owner, .. } if owner == uid),
            "{error}"
        );
    }
}
