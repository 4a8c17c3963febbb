//! What is kept for whoever looks for a fault: a file each, for the user alone, not without end.

use std::env;
use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions, read_dir};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Most files in the directory.
const FILE_COUNT_MAX: usize = 16;

/// Keeps bytes in a file of the directory that the process's surroundings lead to, and returns its
/// path: `$XDG_STATE_HOME/apex/diverged`, else `~/.local/state/apex/diverged`. `seconds` is the
/// time, since 1970.
///
/// # Errors
/// There is no home, there are enough files, or the system refuses.
pub fn keep(seconds: i64, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let dir = dir(env::var_os("XDG_STATE_HOME"), env::var_os("HOME"))
        .ok_or_else(|| io::Error::other("HOME is not an absolute path"))?;
    write(&dir, &format!("{seconds}-apex-{name}"), bytes)
}

fn dir(state_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|p| p.is_absolute());
    let state = absolute(state_home).or_else(|| Some(absolute(home)?.join(".local/state")));
    Some(state?.join("apex/diverged"))
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    if read_dir(dir)?.count() >= FILE_COUNT_MAX {
        let words = format!("{} holds enough of them already", dir.display());
        return Err(io::Error::other(words));
    }
    let path = dir.join(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(&path)?.write_all(bytes)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::link::scratch::Scratch;

    #[test]
    fn the_directory_is_found_as_the_daemon_finds_it() {
        let some = |path: &str| Some(OsString::from(path));
        for (state, home, expect) in [
            (some("/s"), some("/h"), some("/s/apex/diverged")),
            (some("s"), some("/h"), some("/h/.local/state/apex/diverged")),
            (None, some("/h"), some("/h/.local/state/apex/diverged")),
            (None, some("h"), None),
            (None, None, None),
        ] {
            assert_eq!(dir(state, home), expect.map(PathBuf::from));
        }
    }

    #[test]
    fn files_are_for_the_user_alone_never_overwritten_and_bounded_in_number() {
        let scratch = Scratch::new();
        let dir = scratch.path().join("state/diverged");
        for number in 0..FILE_COUNT_MAX {
            let path = write(&dir, &number.to_string(), b"what").unwrap();
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(&dir)), (0o600, 0o700));
            assert_eq!(std::fs::read(path).unwrap(), b"what");
            if number == 0 {
                write(&dir, "0", b"other").unwrap_err();
            }
        }
        write(&dir, "one more", b"").unwrap_err();
    }
}
