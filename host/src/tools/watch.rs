//! The plugin directories: which tools lie there, told when they have come to rest.
//!
//! 1. The kernel says that something happened, never what: after every burst of events the
//!    directories are looked at as they are, so that no event can be missed or misread.
//! 2. A file counts once two looks in a row found the same length, time and inode; one that goes
//!    away counts as gone likewise. A slow copy is seen when it is done.
//! 3. Each state of a file is read and told once; a broken file is left until it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, mpsc, watch};

use super::limits;
use super::manifest::hex;

/// What the watch tells.
#[derive(Clone, Debug)]
pub enum Sighting {
    /// A component is new or has changed, or its manifest has.
    Found(Found),
    /// It is no longer there.
    Gone(PathBuf),
    /// Everything that was there when this look was asked for has been told.
    Settled(u64),
}

/// A component at rest.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where.
    pub path: PathBuf,
    /// Which of the directories it is in, the first being 0.
    pub rank: usize,
    /// Its bytes and its manifest, or why they cannot be had.
    pub contents: Result<Contents, String>,
}

/// What stands in a component's file and beside it.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The component.
    pub bytes: Arc<[u8]>,
    /// Of those bytes, in hex.
    pub sha256: String,
    /// The text of the manifest, or why it cannot be had.
    pub manifest: Result<String, String>,
}

/// Tells of everything in the directories, then of every change, until nobody listens.
///
/// `asked` counts the looks that somebody wants at once; each is answered by [`Sighting::Settled`].
pub async fn watch(
    dirs: Vec<PathBuf>,
    mut asked: watch::Receiver<u64>,
    sightings: mpsc::UnboundedSender<Sighting>,
) {
    let bell = Arc::new(Notify::new());
    let mut eyes = Eyes::new(&bell);
    let mut looks = Looks::default();
    let mut look_asked = *asked.borrow_and_update();
    while !sightings.is_closed() {
        let is_complete = eyes.open(&dirs);
        let looked = tokio::task::spawn_blocking({
            let dirs = dirs.clone();
            move || {
                let told = looks.look(&dirs);
                (looks, told)
            }
        });
        let Ok((next_looks, (told, is_at_rest))) = looked.await else {
            return;
        };
        looks = next_looks;
        for sighting in told {
            if sightings.send(sighting).is_err() {
                return;
            }
        }
        if !is_at_rest {
            tokio::time::sleep(Duration::from_millis(limits::STABLE_MS)).await;
            continue;
        }
        if sightings.send(Sighting::Settled(look_asked)).is_err() {
            return;
        }
        // Nobody tells of what a link leads to, or of a directory that is not there yet.
        let is_told_all = is_complete && !looks.has_link;
        tokio::select! {
            () = event(&bell, is_told_all) => {}
            changed = asked.changed() => if changed.is_err() { return },
            () = sightings.closed() => return,
        }
        look_asked = *asked.borrow_and_update();
    }
}

/// Waits for an event and the end of its burst; for a moment only where events may be missed.
async fn event(bell: &Notify, is_told_all: bool) {
    if is_told_all {
        bell.notified().await;
        return quiet(bell).await;
    }
    let poll = Duration::from_millis(limits::POLL_MS);
    if tokio::time::timeout(poll, bell.notified()).await.is_ok() {
        quiet(bell).await;
    }
}

/// Waits until the bell has been silent for a moment, but not for ever.
async fn quiet(bell: &Notify) {
    /// A directory that is written to all the time is looked at this often.
    const BURSTS: u32 = 10;
    let moment = Duration::from_millis(limits::DEBOUNCE_MS);
    for _ in 0..BURSTS {
        if tokio::time::timeout(moment, bell.notified()).await.is_err() {
            return;
        }
    }
}

/// The kernel's events on the directories.
struct Eyes {
    watcher: Option<RecommendedWatcher>,
    /// The directories that are watched, with their inodes.
    open: BTreeMap<PathBuf, (u64, u64)>,
}

impl Eyes {
    fn new(bell: &Arc<Notify>) -> Self {
        let bell = Arc::clone(bell);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| is_change(event.kind)) {
                bell.notify_one();
            }
        });
        Self {
            watcher: watcher.ok(),
            open: BTreeMap::new(),
        }
    }

    /// Watches each directory that is there; says whether all are watched.
    fn open(&mut self, dirs: &[PathBuf]) -> bool {
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        let mut is_complete = true;
        for dir in dirs {
            let inode = fs::metadata(dir)
                .ok()
                .map(|found| (found.dev(), found.ino()));
            if inode.is_some() && self.open.get(dir) == inode.as_ref() {
                continue;
            }
            if self.open.remove(dir).is_some() {
                // The directory that was watched is gone, and its watch with it.
                drop(watcher.unwatch(dir));
            }
            match inode {
                Some(inode) if watcher.watch(dir, RecursiveMode::NonRecursive).is_ok() => {
                    self.open.insert(dir.clone(), inode);
                }
                _ => is_complete = false,
            }
        }
        is_complete
    }
}

/// Returns whether an event says that something changed; our own reading does not.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: (u64, u64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            len: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            inode: (found.dev(), found.ino()),
        })
    }
}

/// A component and its manifest, as a look finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    rank: usize,
    component: Option<Stamp>,
    manifest: Option<Stamp>,
}

/// All looks so far.
#[derive(Debug, Default)]
struct Looks {
    last: BTreeMap<PathBuf, Pair>,
    told: BTreeMap<PathBuf, Pair>,
    has_link: bool,
}

impl Looks {
    /// Looks at the directories; returns what is to be told and whether everything is at rest.
    fn look(&mut self, dirs: &[PathBuf]) -> (Vec<Sighting>, bool) {
        self.has_link = false;
        let mut now = BTreeMap::new();
        for (rank, dir) in dirs.iter().enumerate() {
            self.look_at(dir, rank, &mut now);
        }
        let mut is_at_rest = now == self.last;
        let mut sightings = Vec::new();
        for (path, pair) in &now {
            if self.last.get(path) != Some(pair) || self.told.get(path) == Some(pair) {
                continue;
            }
            let contents = read(path);
            if self.pair(path, pair.rank) == *pair {
                self.told.insert(path.clone(), *pair);
                let found = Found {
                    path: path.clone(),
                    rank: pair.rank,
                    contents,
                };
                sightings.push(Sighting::Found(found));
            } else {
                is_at_rest = false;
            }
        }
        let is_gone = |path: &&PathBuf| !now.contains_key(*path) && !self.last.contains_key(*path);
        let gone: BTreeSet<PathBuf> = self.told.keys().filter(is_gone).cloned().collect();
        self.told.retain(|path, _| !gone.contains(path));
        sightings.extend(gone.into_iter().map(Sighting::Gone));
        self.last = now;
        (sightings, is_at_rest)
    }

    fn look_at(&mut self, dir: &Path, rank: usize, now: &mut BTreeMap<PathBuf, Pair>) {
        let Ok(entries) = fs::read_dir(dir) else {
            return;
        };
        let paths = entries.flatten().map(|entry| entry.path());
        for path in paths.filter(|path| is_component(path)) {
            if now.len() >= limits::TOOL_COUNT_MAX {
                return;
            }
            let pair = self.pair(&path, rank);
            now.entry(path).or_insert(pair);
        }
    }

    fn pair(&mut self, path: &Path, rank: usize) -> Pair {
        let manifest = path.with_extension("toml");
        let is_link = |path| fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        self.has_link |= is_link(path) || is_link(&manifest);
        Pair {
            rank,
            component: Stamp::of(path),
            manifest: Stamp::of(&manifest),
        }
    }
}

/// Returns whether a path is a tool's: `NAME.wasm` with a name that can be written in a command.
fn is_component(path: &Path) -> bool {
    let is_wasm = path.extension().is_some_and(|end| end == "wasm");
    let name = path.file_stem().and_then(|name| name.to_str());
    is_wasm
        && name.is_some_and(|name| !name.starts_with('.') && !name.chars().any(char::is_control))
}

/// Reads a component and its manifest.
fn read(path: &Path) -> Result<Contents, String> {
    let bytes = read_regular(path, limits::COMPONENT_LEN_MAX)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    let sha256 = hex(&Sha256::digest(&bytes));
    let manifest_path = path.with_extension("toml");
    let manifest = read_regular(&manifest_path, limits::MANIFEST_LEN_MAX)
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!(
                "it has no manifest; write {} beside it",
                manifest_path.file_name().unwrap_or_default().display()
            ),
            _ => format!("its manifest cannot be read: {error}"),
        })
        .and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| "its manifest is not UTF-8".to_owned())
        });
    Ok(Contents {
        bytes: bytes.into(),
        sha256,
        manifest,
    })
}

/// Reads a regular file of at most so many bytes, without waiting on anything else.
fn read_regular(path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(no_wait)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if found.len() > len_max {
        return Err(io::Error::other(format!(
            "it is longer than {len_max} bytes"
        )));
    }
    let mut bytes = Vec::new();
    file.take(len_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > len_max {
        return Err(io::Error::other(format!(
            "it is longer than {len_max} bytes"
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dir(PathBuf);

    impl Dir {
        fn new() -> Self {
            let dir = std::env::temp_dir().join(format!("apex-watch-{}", uuid::Uuid::new_v4()));
            fs::create_dir(&dir).unwrap();
            Self(dir)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    /// Looks until everything is at rest, and returns all that was told.
    fn settle(looks: &mut Looks, dir: &Dir) -> Vec<Sighting> {
        let mut all = Vec::new();
        for _ in 0..9 {
            let (told, is_at_rest) = looks.look(std::slice::from_ref(&dir.0));
            all.extend(told);
            if is_at_rest {
                return all;
            }
        }
        panic!("never at rest");
    }

    #[test]
    fn a_file_counts_when_two_looks_agree() {
        let dir = Dir::new();
        let mut looks = Looks::default();
        assert!(settle(&mut looks, &dir).is_empty());
        let path = dir.write("t.wasm", "half");
        assert!(looks.look(std::slice::from_ref(&dir.0)).0.is_empty());
        dir.write("t.wasm", "half and the rest");
        assert!(
            looks.look(std::slice::from_ref(&dir.0)).0.is_empty(),
            "it still grows"
        );
        let told = settle(&mut looks, &dir);
        let [Sighting::Found(found)] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert_eq!(found.path, path);
        let contents = found.contents.as_ref().unwrap();
        assert_eq!(&*contents.bytes, b"half and the rest");
        assert!(contents.manifest.as_ref().unwrap_err().contains("t.toml"));
    }

    #[test]
    fn each_state_is_told_once() {
        let dir = Dir::new();
        let mut looks = Looks::default();
        dir.write("t.wasm", "x");
        dir.write("t.toml", "y");
        dir.write("other.txt", "z");
        dir.write(".apex-temp.wasm", "z");
        assert_eq!(settle(&mut looks, &dir).len(), 1);
        assert!(settle(&mut looks, &dir).is_empty());
        dir.write("t.toml", "another manifest");
        assert_eq!(settle(&mut looks, &dir).len(), 1);
        fs::remove_file(dir.0.join("t.wasm")).unwrap();
        let told = settle(&mut looks, &dir);
        assert!(told.is_empty() || matches!(told.as_slice(), [Sighting::Gone(_)]));
        let told = [told, settle(&mut looks, &dir)].concat();
        assert!(matches!(told.as_slice(), [Sighting::Gone(_)]), "{told:?}");
        assert!(settle(&mut looks, &dir).is_empty());
    }

    #[test]
    fn what_is_no_file_is_told_with_the_reason() {
        let dir = Dir::new();
        let mut looks = Looks::default();
        fs::create_dir(dir.0.join("d.wasm")).unwrap();
        std::os::unix::fs::symlink("/nowhere", dir.0.join("l.wasm")).unwrap();
        let told = settle(&mut looks, &dir);
        assert_eq!(told.len(), 2);
        for sighting in told {
            let Sighting::Found(found) = sighting else {
                panic!()
            };
            assert!(found.contents.unwrap_err().contains("cannot be read"));
        }
        assert!(looks.has_link);
    }

    #[tokio::test]
    async fn a_dropped_file_is_told_by_the_kernel() {
        let dir = Dir::new();
        let (sender, mut sightings) = mpsc::unbounded_channel();
        let (asked, asked_receiver) = watch::channel(0);
        let task = tokio::spawn(watch(vec![dir.0.clone()], asked_receiver, sender));
        assert!(matches!(sightings.recv().await, Some(Sighting::Settled(0))));
        let path = dir.write("t.wasm", "x");
        let Some(Sighting::Found(found)) = sightings.recv().await else {
            panic!()
        };
        assert_eq!(found.path, path);
        assert!(matches!(sightings.recv().await, Some(Sighting::Settled(0))));
        fs::remove_file(&path).unwrap();
        assert!(matches!(sightings.recv().await, Some(Sighting::Gone(gone)) if gone == path));
        asked.send(1).unwrap();
        while !matches!(sightings.recv().await, Some(Sighting::Settled(1))) {}
        drop(sightings);
        task.await.unwrap();
    }
}
