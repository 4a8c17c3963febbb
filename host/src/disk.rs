//! Files on disk: written so that either the old or the new text is there, never a part.
//!
//! A file is written beside its target and renamed over it once its bytes are on the disk. What a
//! rename would silently change is kept where the system allows: symbolic links are followed, mode
//! and owner are copied.

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Access, Mode, OFlags};

/// Most symbolic links that are followed one after the other, as in Linux.
const LINK_COUNT_MAX: usize = 40;
/// Bytes read at once.
const READ_LEN: usize = 256 << 10;

/// Digest of a file's bytes (blake3).
pub type Digest = [u8; 32];

/// What the system says about a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    /// Its length in bytes.
    pub len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A file that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Digest of its bytes.
    pub digest: Digest,
    /// What the system says about it.
    pub stamp: Stamp,
}

/// A file opened for reading.
#[derive(Debug)]
pub enum Source {
    /// A regular file.
    File {
        /// Its bytes.
        file: File,
        /// As it was when it was opened.
        stamp: Stamp,
    },
    /// A directory.
    Directory,
    /// Nothing is there.
    Missing,
}

/// Largest file that is read, in bytes: the text, its copies in screens and tools and the entries
/// on their way must fit a machine, or the daemon ends with everybody's text.
pub const FILE_LEN_MAX: u64 = 2 << 30;

/// Why a file could not be read or written. The file is then as it was.
#[derive(Debug)]
pub enum DiskError {
    /// The system refused.
    System {
        /// What was tried (`read`, `write`).
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// It is neither a file nor a directory.
    Special {
        /// Which.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// It is a directory, and a directory is not written.
    Directory(PathBuf),
    /// Its mode forbids writing.
    ReadOnly(PathBuf),
    /// Its symbolic links go round.
    LinkLoop(PathBuf),
    /// It is longer than [`FILE_LEN_MAX`], or grows past it while it is read.
    TooLarge {
        /// Which.
        path: PathBuf,
        /// Its length in bytes, as far as it was seen.
        len: u64,
    },
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System {
                doing,
                path,
                source,
            } => {
                write!(f, "cannot {doing} {}: {}", path.display(), words(source))?;
                if *doing == "write" {
                    f.write_str("; the file is as it was")
                } else {
                    Ok(())
                }
            }
            Self::Special { path, kind } => {
                write!(
                    f,
                    "{} is {kind}; only files and directories open",
                    path.display()
                )
            }
            Self::Directory(path) => {
                write!(f, "{} is a directory and cannot be written", path.display())
            }
            Self::ReadOnly(path) => write!(
                f,
                "{} is read-only and as it was; allow writing (chmod u+w) or put it elsewhere",
                path.display()
            ),
            Self::LinkLoop(path) => write!(f, "the links of {} go round", path.display()),
            Self::TooLarge { path, len } => write!(
                f,
                "{} has {len} bytes and is not read: texts have at most {FILE_LEN_MAX}; look at \
                 parts of it with a command (head, tail, grep)",
                path.display()
            ),
        }
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            Self::Special { .. }
            | Self::Directory(_)
            | Self::ReadOnly(_)
            | Self::LinkLoop(_)
            | Self::TooLarge { .. } => None,
        }
    }
}

/// Returns the system's words without its number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.to_lowercase()
}

fn system<'a>(doing: &'static str, path: &'a Path) -> impl Fn(io::Error) -> DiskError + 'a {
    move |source| DiskError::System {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// Opens a path for reading, without ever waiting for a device or a fifo.
///
/// # Errors
/// When it cannot be opened, or is neither a file nor a directory.
pub fn open(path: &Path) -> Result<Source, DiskError> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    // Looked at before it is opened: opening a device may already do something.
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Source::Missing),
        Err(error) => return Err(system("read", path)(error)),
        Ok(metadata) => match kind_of(&metadata) {
            Kind::File => {}
            Kind::Directory => return Ok(Source::Directory),
            Kind::Special(kind) => {
                return Err(DiskError::Special {
                    path: path.to_owned(),
                    kind,
                });
            }
        },
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(system("read", path))?;
    let metadata = file.metadata().map_err(system("read", path))?;
    match kind_of(&metadata) {
        Kind::File if metadata.len() > FILE_LEN_MAX => Err(DiskError::TooLarge {
            path: path.to_owned(),
            len: metadata.len(),
        }),
        Kind::File => Ok(Source::File {
            file,
            stamp: Stamp::of(&metadata),
        }),
        Kind::Directory => Ok(Source::Directory),
        Kind::Special(kind) => Err(DiskError::Special {
            path: path.to_owned(),
            kind,
        }),
    }
}

enum Kind {
    File,
    Directory,
    Special(&'static str),
}

fn kind_of(metadata: &Metadata) -> Kind {
    let kind = metadata.file_type();
    if kind.is_file() {
        Kind::File
    } else if kind.is_dir() {
        Kind::Directory
    } else if kind.is_fifo() {
        Kind::Special("a fifo")
    } else if kind.is_socket() {
        Kind::Special("a socket")
    } else if kind.is_block_device() {
        Kind::Special("a block device")
    } else if kind.is_char_device() {
        Kind::Special("a character device")
    } else {
        Kind::Special("something unknown")
    }
}

/// Reads a file in pieces of at most `len` bytes, handing each to `take` until that says false.
/// Returns the digest of everything read, or none when it was stopped.
///
/// # Errors
/// When the system refuses.
pub fn read_pieces(
    path: &Path,
    file: &mut File,
    len: usize,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<Option<Digest>, DiskError> {
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; len.max(1)];
    let mut total = 0;
    loop {
        let mut filled = 0;
        while filled < piece.len() {
            match file.read(&mut piece[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(system("read", path)(error)),
            }
        }
        if filled == 0 {
            return Ok(Some(*hasher.finalize().as_bytes()));
        }
        total += filled as u64;
        if total > FILE_LEN_MAX {
            let path = path.to_owned();
            return Err(DiskError::TooLarge { path, len: total });
        }
        hasher.update(&piece[..filled]);
        if !take(&piece[..filled]) {
            return Ok(None);
        }
    }
}

/// Returns the stamp of a file, or none when nothing is there.
///
/// # Errors
/// When the system refuses, or it is not a regular file.
pub fn stamp(path: &Path) -> Result<Option<Stamp>, DiskError> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system("write", path)(error)),
    };
    match kind_of(&metadata) {
        Kind::File => Ok(Some(Stamp::of(&metadata))),
        Kind::Directory => Err(DiskError::Directory(path.to_owned())),
        Kind::Special(kind) => Err(DiskError::Special {
            path: path.to_owned(),
            kind,
        }),
    }
}

/// Returns the digest of a file's bytes.
///
/// # Errors
/// When it cannot be read.
///
/// # Panics
/// Never: nothing stops the reading.
pub fn digest(path: &Path) -> Result<Digest, DiskError> {
    let mut file = File::open(path).map_err(system("read", path))?;
    let digest = read_pieces(path, &mut file, READ_LEN, |_| true)?;
    Ok(digest.expect("nothing stopped the reading"))
}

/// Writes a file whole: afterwards it holds exactly these pieces, or, with an error, what it held.
///
/// # Errors
/// When the system refuses, the file is read-only, or it is no regular file.
pub fn write(path: &Path, pieces: impl Iterator<Item = Vec<u8>>) -> Result<Written, DiskError> {
    let target = follow_links(path)?;
    let old = match std::fs::metadata(&target) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(system("write", &target)(error)),
    };
    if let Some(old) = &old {
        check_writable(&target, old)?;
    }
    let temporary = Temporary::new(&target, old.as_ref())?;
    temporary.fill(&target, pieces)
}

fn check_writable(target: &Path, old: &Metadata) -> Result<(), DiskError> {
    match kind_of(old) {
        Kind::File => {}
        Kind::Directory => return Err(DiskError::Directory(target.to_owned())),
        Kind::Special(kind) => {
            return Err(DiskError::Special {
                path: target.to_owned(),
                kind,
            });
        }
    }
    // The rename needs no right to the file itself, so that a read-only file would be replaced
    // without a word. For root every file is writable; then only the mode tells.
    let is_denied = rustix::fs::access(target, Access::WRITE_OK).is_err();
    if is_denied || old.permissions().mode() & 0o222 == 0 {
        return Err(DiskError::ReadOnly(target.to_owned()));
    }
    Ok(())
}

/// Returns the path at the end of the symbolic links at `path`, which may not exist.
fn follow_links(path: &Path) -> Result<PathBuf, DiskError> {
    let mut target = path.to_owned();
    for _ in 0..LINK_COUNT_MAX {
        match std::fs::read_link(&target) {
            Ok(next) => {
                target.pop();
                target.push(next);
            }
            // Not a link, or nothing there: this is where the file goes.
            Err(_) => return Ok(target),
        }
    }
    Err(DiskError::LinkLoop(path.to_owned()))
}

/// A file beside the target; removed when it is dropped before it took the target's place.
struct Temporary {
    file: File,
    path: PathBuf,
    is_renamed: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            // Nothing more can be done about a file that cannot be removed.
            drop(std::fs::remove_file(&self.path));
        }
    }
}

impl Temporary {
    fn new(target: &Path, old: Option<&Metadata>) -> Result<Self, DiskError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let fail = system("write", target);
        let (Some(dir), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(DiskError::Directory(target.to_owned()));
        };
        let mut temporary_name = OsString::from(".apex-");
        let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
        // A long name would not fit with a prefix; its start is enough to recognise it.
        let name = name.to_string_lossy().chars().take(32).collect::<String>();
        temporary_name.push(format!("{}-{counter}-{name}", std::process::id()));
        let path = dir.join(temporary_name);
        // An old file's text stays hidden until the mode is copied; a new one obeys the umask.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .map_err(&fail)?;
        let temporary = Self {
            file,
            path,
            is_renamed: false,
        };
        if let Some(old) = old {
            temporary.copy_rights(old).map_err(&fail)?;
        }
        Ok(temporary)
    }

    /// Copies owner and mode. Where the system does not allow the owner, the set-id bits go too.
    fn copy_rights(&self, old: &Metadata) -> io::Result<()> {
        let own = self.file.metadata()?;
        let mut mode = old.mode() & 0o7777;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            let owner = std::os::unix::fs::fchown(&self.file, Some(old.uid()), Some(old.gid()));
            let group =
                owner.or_else(|_| std::os::unix::fs::fchown(&self.file, None, Some(old.gid())));
            if group.is_err() {
                mode &= 0o777;
            }
        }
        Ok(rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))?)
    }

    fn fill(
        mut self,
        target: &Path,
        pieces: impl Iterator<Item = Vec<u8>>,
    ) -> Result<Written, DiskError> {
        let fail = system("write", target);
        let mut hasher = blake3::Hasher::new();
        let mut writer = io::BufWriter::with_capacity(READ_LEN, &self.file);
        for piece in pieces {
            hasher.update(&piece);
            writer.write_all(&piece).map_err(&fail)?;
        }
        writer.flush().map_err(&fail)?;
        drop(writer);
        self.file.sync_all().map_err(&fail)?;
        std::fs::rename(&self.path, target).map_err(&fail)?;
        self.is_renamed = true;
        let stamp = Stamp::of(&self.file.metadata().map_err(&fail)?);
        sync_dir(target);
        Ok(Written {
            digest: *hasher.finalize().as_bytes(),
            stamp,
        })
    }
}

/// Makes a rename survive loss of power. Some file systems cannot, and the file is whole either
/// way, so that a failure is told to the diary alone.
fn sync_dir(target: &Path) {
    let Some(dir) = target.parent() else { return };
    if let Err(error) = File::open(dir).and_then(|dir| dir.sync_all()) {
        crate::diary::warning(format_args!("cannot sync {}: {error}", dir.display()));
    }
}

/// Directories for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::{AtomicU64, Ordering, Path, PathBuf};

    /// A directory that goes with the value.
    pub(crate) struct TempDir(PathBuf);

    impl TempDir {
        pub(crate) fn new() -> Self {
            static COUNTER: AtomicU64 = AtomicU64::new(0);
            let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
            let name = format!("apex-host-test-{}-{counter}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for TempDir {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::TempDir;
    use super::*;
    use std::os::unix::fs::symlink;

    fn pieces(text: &str) -> impl Iterator<Item = Vec<u8>> {
        text.as_bytes()
            .chunks(3)
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn names(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_written_file_holds_the_text_and_nothing_is_left_beside_it() {
        let dir = TempDir::new();
        let path = dir.path().join("a");
        let written = write(&path, pieces("hello world\n")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"hello world\n");
        assert_eq!(written.digest, *blake3::hash(b"hello world\n").as_bytes());
        assert_eq!(digest(&path).unwrap(), written.digest);
        assert_eq!(stamp(&path).unwrap(), Some(written.stamp));
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn mode_and_links_survive_a_write() {
        let dir = TempDir::new();
        let path = dir.path().join("script");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).unwrap();
        let link = dir.path().join("link");
        symlink("script", &link).unwrap();
        write(&link, pieces("new")).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o751);
    }

    #[test]
    fn a_file_that_no_memory_holds_is_refused_before_it_is_read() {
        let dir = TempDir::new();
        let path = dir.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(FILE_LEN_MAX).unwrap();
        assert!(matches!(open(&path), Ok(Source::File { .. })));
        file.set_len(FILE_LEN_MAX + 1).unwrap();
        let error = open(&path).unwrap_err();
        assert!(matches!(error, DiskError::TooLarge { len, .. } if len == FILE_LEN_MAX + 1));
        assert!(error.to_string().contains("2147483649 bytes"), "{error}");
    }

    #[test]
    fn a_dangling_link_gets_its_target_and_a_loop_is_refused() {
        let dir = TempDir::new();
        symlink("target", dir.path().join("link")).unwrap();
        write(&dir.path().join("link"), pieces("x")).unwrap();
        assert_eq!(std::fs::read(dir.path().join("target")).unwrap(), b"x");
        symlink("b", dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        let error = write(&dir.path().join("a"), pieces("x")).unwrap_err();
        assert!(matches!(error, DiskError::LinkLoop(_)), "{error}");
    }

    #[test]
    fn a_full_disk_leaves_the_old_file_and_nothing_beside_it() {
        let dir = TempDir::new();
        let path = dir.path().join("a");
        std::fs::write(&path, "old").unwrap();
        let mut temporary = Temporary::new(&path, None).unwrap();
        temporary.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = temporary.fill(&path, pieces("new")).unwrap_err();
        assert!(
            error.to_string().contains("no space left on device"),
            "{error}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn read_only_files_directories_and_devices_are_refused() {
        let dir = TempDir::new();
        let path = dir.path().join("a");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
        assert!(matches!(
            write(&path, pieces("new")),
            Err(DiskError::ReadOnly(_))
        ));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert!(matches!(
            write(dir.path(), pieces("x")),
            Err(DiskError::Directory(_))
        ));
        assert!(matches!(
            write(Path::new("/dev/null"), pieces("x")),
            Err(DiskError::Special { .. })
        ));
        let missing = dir.path().join("no/such");
        assert!(
            write(&missing, pieces("x"))
                .unwrap_err()
                .to_string()
                .contains("no such file")
        );
    }

    #[test]
    fn what_is_no_file_is_told_apart_without_waiting() {
        let dir = TempDir::new();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(open(&fifo).unwrap_err().to_string().contains("a fifo"));
        assert!(
            open(Path::new("/dev/null"))
                .unwrap_err()
                .to_string()
                .contains("character device")
        );
        assert!(matches!(open(dir.path()), Ok(Source::Directory)));
        assert!(matches!(
            open(&dir.path().join("none")),
            Ok(Source::Missing)
        ));
    }
}
