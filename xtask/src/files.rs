//! The checkout and its files.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Why a file could not be read or written.
#[derive(Debug)]
pub(crate) struct FileError {
    deed: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The root folder of this checkout.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Where builds go: `target`, unless cargo was told of another place.
pub(crate) fn target() -> PathBuf {
    let given = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let given = given.map(|folder| std::path::absolute(&folder).unwrap_or(folder));
    given.unwrap_or_else(|| root().join("target"))
}

/// Reads a file as text; the empty text if there is none.
pub(crate) fn read_or_empty(path: &Path) -> Result<String, FileError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|source| failed("read", path, source)),
    }
}

/// Writes a file so that no reader ever sees a part of it, and only if that changes it: a running
/// daemon would take a new file for a new tool. Tells whether it was written.
pub(crate) fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|source| failed("make the folder", folder, source))?;
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    fs::write(&new, bytes).map_err(|source| failed("write", &new, source))?;
    fs::rename(&new, path).map_err(|source| failed("replace", path, source))?;
    Ok(true)
}

/// Copies a file to a place as `write_if_changed` does.
pub(crate) fn install(from: &Path, to: &Path) -> Result<bool, FileError> {
    let bytes = fs::read(from).map_err(|source| failed("read", from, source))?;
    write_if_changed(to, &bytes)
}

/// Copies a program, with its right to be run.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), FileError> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).map_err(|source| failed("make the folder", folder, source))?;
    fs::copy(from, to)
        .map(drop)
        .map_err(|source| failed("copy", from, source))
}

/// Removes a folder with all that is in it, if there is one.
pub(crate) fn remove_folder(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => Ok(()),
    }
}

/// What is in a folder, by name.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = fs::read_dir(folder).map_err(|source| failed("list", folder, source))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(
            entry
                .map_err(|source| failed("list", folder, source))?
                .path(),
        );
    }
    paths.sort();
    Ok(paths)
}

/// One line for each file below these folders: its path, length and time of change. Folders that
/// builds write to are left out, and so are files whose names begin with a full stop.
pub(crate) fn fingerprint(folders: &[&Path]) -> Result<String, FileError> {
    let mut lines = String::new();
    let mut left: Vec<PathBuf> = folders
        .iter()
        .rev()
        .map(|folder| folder.to_path_buf())
        .collect();
    while let Some(path) = left.pop() {
        let meta = fs::metadata(&path).map_err(|source| failed("look at", &path, source))?;
        if meta.is_dir() {
            let inside = list(&path)?.into_iter().filter(|path| !is_left_out(path));
            left.extend(inside.rev());
            continue;
        }
        let changed = meta
            .modified()
            .map_err(|source| failed("look at", &path, source))?;
        let nanos = changed
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |age| age.as_nanos());
        lines.push_str(&format!("{} {} {nanos}\n", path.display(), meta.len()));
    }
    Ok(lines)
}

fn is_left_out(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name == "target" || name.as_encoded_bytes()[0] == b'.')
}

fn failed(deed: &'static str, path: &Path, source: io::Error) -> FileError {
    FileError {
        deed,
        path: path.to_path_buf(),
        source,
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot {} {}: {}",
            self.deed,
            self.path.display(),
            self.source
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder of this test's own.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        remove_folder(&folder).unwrap();
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_is_written_only_if_that_changes_it() {
        let folder = folder("write");
        let file = folder.join("deep/a.wasm");
        assert!(write_if_changed(&file, b"1").unwrap());
        assert!(!write_if_changed(&file, b"1").unwrap());
        assert!(write_if_changed(&file, b"2").unwrap());
        assert_eq!(fs::read(&file).unwrap(), b"2");
        assert_eq!(
            list(&folder.join("deep")).unwrap(),
            [file],
            "nothing is left beside it"
        );
        remove_folder(&folder).unwrap();
    }

    #[test]
    fn the_fingerprint_sees_new_and_changed_files_and_not_what_builds_make() {
        let folder = folder("print");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::create_dir_all(folder.join("target")).unwrap();
        fs::write(folder.join("src/a.rs"), "a").unwrap();
        let first = fingerprint(&[&folder]).unwrap();
        fs::write(folder.join("target/x"), "x").unwrap();
        fs::write(folder.join(".a.swp"), "x").unwrap();
        assert_eq!(fingerprint(&[&folder]).unwrap(), first);
        fs::write(folder.join("src/a.rs"), "ab").unwrap();
        let second = fingerprint(&[&folder]).unwrap();
        assert_ne!(second, first);
        fs::write(folder.join("src/b.rs"), "").unwrap();
        assert_ne!(fingerprint(&[&folder]).unwrap(), second);
        remove_folder(&folder).unwrap();
    }

    #[test]
    fn a_missing_file_reads_as_empty_and_a_missing_folder_is_an_error_that_names_it() {
        let folder = folder("missing");
        assert_eq!(read_or_empty(&folder.join("a")).unwrap(), "");
        let error = list(&folder.join("b")).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot list ") && error.contains("/b: "),
            "{error}"
        );
        remove_folder(&folder).unwrap();
    }
}
