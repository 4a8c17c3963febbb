//! Files as texts: names and paths, directories as listings, reading in pieces, and the guard
//! against overwriting what somebody else wrote.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use apex_core::limits;
use apex_core::text::{Decoder, Text, encode};

use crate::config::HASH_ALWAYS_LEN_MAX;
use crate::disk::{self, Digest, DiskError, Source, Stamp};

/// Bytes of a file that become one piece: each may become four bytes of UTF-8, when none is valid.
const PIECE_BYTES_LEN: usize = limits::PIECE_LEN_MAX / 4;

/// Returns the path that a name means. Escapes in a name stand for bytes that are not UTF-8.
#[must_use]
pub fn path_of(name: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(encode(name)))
}

/// Returns the name of a path.
#[must_use]
pub fn name_of(path: &Path) -> String {
    decode(path.as_os_str().as_bytes())
}

fn decode(bytes: &[u8]) -> String {
    let mut decoder = Decoder::default();
    let mut text = decoder.decode(bytes);
    text.push_str(&decoder.finish());
    text
}

/// Why a name is no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It is empty.
    Empty,
    /// It holds a zero byte.
    Zero,
    /// It is relative, and so is the directory it should start from.
    Relative(String),
    /// It is longer than a name may be.
    TooLong,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no file name; name the window first"),
            Self::Zero => f.write_str("a file name cannot hold a zero byte"),
            Self::Relative(name) => write!(f, "{name} is relative to no directory"),
            Self::TooLong => {
                write!(f, "a file name has at most {} bytes", limits::NAME_LEN_MAX)
            }
        }
    }
}

impl std::error::Error for NameError {}

/// Returns the absolute name of `name`, seen from `directory`, without `.`, `..` and doubled
/// slashes. Purely textual, as in acme: what `..` means does not depend on symbolic links.
///
/// # Errors
/// When the result would be no absolute path.
pub fn absolute(directory: &str, name: &str) -> Result<String, NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.contains('\0') || directory.contains('\0') {
        return Err(NameError::Zero);
    }
    let joined = if name.starts_with('/') {
        name.to_owned()
    } else if directory.starts_with('/') {
        format!("{directory}/{name}")
    } else {
        return Err(NameError::Relative(name.to_owned()));
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let name = format!("/{}", parts.join("/"));
    if name.len() > limits::NAME_LEN_MAX {
        Err(NameError::TooLong)
    } else {
        Ok(name)
    }
}

/// What is at a path.
#[derive(Debug)]
pub enum Found {
    /// A file; its text comes in pieces.
    File(Reader),
    /// A directory: one name a line, sorted by code point, directories with a slash at the end.
    Directory(String),
    /// Nothing: a file that a Put would make.
    New,
}

/// Looks what is at a path.
///
/// # Errors
/// When it cannot be read, or is neither a file nor a directory.
pub fn find(path: &Path) -> Result<Found, DiskError> {
    match disk::open(path)? {
        Source::File { file, stamp } => Ok(Found::File(Reader {
            path: path.to_owned(),
            file,
            stamp,
        })),
        Source::Directory => Ok(Found::Directory(listing(path)?)),
        Source::Missing => Ok(Found::New),
    }
}

fn listing(path: &Path) -> Result<String, DiskError> {
    let fail = |source| DiskError::System {
        doing: "read",
        path: path.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let mut name = decode(entry.file_name().as_bytes());
        // Follows links, as a click on the name will.
        if std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir()) {
            name.push('/');
        }
        name.push('\n');
        names.push(name);
    }
    names.sort_unstable();
    Ok(names.concat())
}

/// A file that is being read.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: std::fs::File,
    stamp: Stamp,
}

/// A file that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Digest of its bytes.
    pub digest: Digest,
    /// What the system said about it before it was read.
    pub stamp: Stamp,
}

impl Reader {
    /// Hands the text to `take` in pieces of at most [`limits::PIECE_LEN_MAX`] bytes, until that
    /// says false; returns none then.
    ///
    /// # Errors
    /// When the system refuses; pieces may have been handed over by then.
    pub fn read(
        mut self,
        mut take: impl FnMut(String) -> bool,
    ) -> Result<Option<Loaded>, DiskError> {
        let mut decoder = Decoder::default();
        let mut is_wanted = true;
        let digest = disk::read_pieces(&self.path, &mut self.file, PIECE_BYTES_LEN, |bytes| {
            let text = decoder.decode(bytes);
            is_wanted = text.is_empty() || take(text);
            is_wanted
        })?;
        let rest = decoder.finish();
        if is_wanted && !rest.is_empty() {
            is_wanted = take(rest);
        }
        Ok(digest.filter(|_| is_wanted).map(|digest| Loaded {
            digest,
            stamp: self.stamp,
        }))
    }

    /// Reads the whole text.
    ///
    /// # Errors
    /// When the system refuses.
    ///
    /// # Panics
    /// Never: nothing stops the reading.
    pub fn read_all(self) -> Result<(Text, Loaded), DiskError> {
        let mut text = Text::new();
        let loaded = self.read(|piece| {
            let end = apex_core::text::Span::at(text.len());
            text.replace(end, &piece);
            true
        })?;
        Ok((text, loaded.expect("nothing stopped the reading")))
    }
}

/// What is known of the file that a buffer was read from or written to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Digest of its bytes.
    pub digest: Digest,
    /// What the system said about it, when this daemon read or wrote it itself.
    pub stamp: Option<Stamp>,
}

/// Why a put is refused unless it is forced.
#[derive(Debug)]
pub enum GuardError {
    /// The file holds something else than what was read or written last.
    Changed {
        /// Which.
        path: PathBuf,
        /// Its length in bytes when it was read or written, if that is known.
        old_len: Option<u64>,
        /// Its length in bytes now.
        len: u64,
    },
    /// The file exists and was never read into the buffer.
    Exists(PathBuf),
    /// It could not be looked at.
    Disk(DiskError),
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { path, old_len, len } => {
                write!(f, "{} changed on disk since it was read (", path.display())?;
                match old_len {
                    Some(old_len) if old_len != len => write!(f, "{old_len} bytes then, ")?,
                    Some(_) | None => f.write_str("its bytes differ, ")?,
                }
                write!(
                    f,
                    "{len} bytes now) and was not written; Get reads it, Put! overwrites it"
                )
            }
            Self::Exists(path) => write!(
                f,
                "{} exists already, was not read into this window and was not written; \
                 Put! overwrites it",
                path.display()
            ),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GuardError {}

/// Checks that writing to `path` overwrites nothing but what is `known`. Costs reading the file.
///
/// # Errors
/// What stands in the way.
pub fn guard(path: &Path, known: Option<&Known>) -> Result<(), GuardError> {
    let Some(now) = disk::stamp(path).map_err(GuardError::Disk)? else {
        // A file that somebody removed has nothing left to lose.
        return Ok(());
    };
    let Some(known) = known else {
        return Err(GuardError::Exists(path.to_owned()));
    };
    // Two writes within one tick of the file system's clock leave the same stamp, so that it is
    // trusted only where hashing would be felt.
    if now.len > HASH_ALWAYS_LEN_MAX && known.stamp == Some(now) {
        return Ok(());
    }
    if disk::digest(path).map_err(GuardError::Disk)? == known.digest {
        return Ok(());
    }
    let old_len = known.stamp.map(|stamp| stamp.len);
    Err(GuardError::Changed {
        path: path.to_owned(),
        old_len,
        len: now.len,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::testing::TempDir;

    #[test]
    fn a_name_becomes_absolute_by_its_text_alone() {
        for (directory, name, expect) in [
            ("/a/b", "c", Ok("/a/b/c")),
            ("/a/b/", "../c/./d//e", Ok("/a/c/d/e")),
            ("/a", "/x/../y/", Ok("/y")),
            ("/", "../..", Ok("/")),
            ("a", "b", Err(NameError::Relative("b".into()))),
            ("/a", "", Err(NameError::Empty)),
            ("/a", "b\0", Err(NameError::Zero)),
        ] {
            assert_eq!(
                absolute(directory, name),
                expect.map(str::to_owned),
                "{directory} {name}"
            );
        }
        assert_eq!(
            absolute("/", &"x".repeat(limits::NAME_LEN_MAX)),
            Err(NameError::TooLong)
        );
    }

    #[test]
    fn a_name_that_is_not_utf8_comes_back() {
        let path = PathBuf::from(OsString::from_vec(b"/a/\xFFb\xC3".to_vec()));
        assert_eq!(path_of(&name_of(&path)), path);
    }

    #[test]
    fn a_directory_is_a_sorted_list() {
        let dir = TempDir::new();
        for name in ["b", "Z", "a b", ".x"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::os::unix::fs::symlink("d", dir.path().join("link")).unwrap();
        let Found::Directory(text) = find(dir.path()).unwrap() else {
            panic!("no directory")
        };
        assert_eq!(text, ".x\nZ\na b\nb\nd/\nlink/\n");
    }

    #[test]
    fn a_file_is_read_in_pieces_and_byte_for_byte() {
        let dir = TempDir::new();
        let path = dir.path().join("a");
        let mut bytes = "é漢🙂\r\n".repeat(100_000).into_bytes();
        bytes.extend([0xFF, 0x00, 0xC3]);
        std::fs::write(&path, &bytes).unwrap();
        let Found::File(reader) = find(&path).unwrap() else {
            panic!("no file")
        };
        let mut count = 0;
        let mut read = Vec::new();
        let loaded = reader.read(|piece| {
            assert!(piece.len() <= limits::PIECE_LEN_MAX);
            count += 1;
            read.extend(encode(&piece));
            true
        });
        assert_eq!(
            loaded.unwrap().unwrap().digest,
            *blake3::hash(&bytes).as_bytes()
        );
        assert_eq!(read, bytes);
        assert!(count > 1);
        let Found::File(reader) = find(&path).unwrap() else {
            panic!("no file")
        };
        assert_eq!(reader.read(|_| false).unwrap(), None);
    }

    #[test]
    fn the_guard_sees_another_text_of_the_same_length_and_time() {
        let dir = TempDir::new();
        let path = dir.path().join("a");
        guard(&path, None).unwrap();
        let written = disk::write(&path, std::iter::once(b"one\n".to_vec())).unwrap();
        assert!(matches!(guard(&path, None), Err(GuardError::Exists(_))));
        let known = Known {
            digest: written.digest,
            stamp: Some(written.stamp),
        };
        guard(&path, Some(&known)).unwrap();

        let times = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::fs::write(&path, "two\n").unwrap();
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(times)
            .unwrap();
        let error = guard(&path, Some(&known)).unwrap_err();
        assert!(error.to_string().contains("Put! overwrites"), "{error}");

        std::fs::write(&path, "one\n").unwrap();
        guard(&path, Some(&known)).unwrap();
        std::fs::write(&path, "three\n").unwrap();
        let error = guard(&path, Some(&known)).unwrap_err();
        assert!(
            error.to_string().contains("4 bytes then, 6 bytes now"),
            "{error}"
        );
        std::fs::remove_file(&path).unwrap();
        guard(&path, Some(&known)).unwrap();
    }
}
