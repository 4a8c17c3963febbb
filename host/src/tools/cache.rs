//! Compiled components on disk, so that the second start takes milliseconds.
//!
//! 1. An image is native code: whoever can write one can run code in apexd. So each file begins
//!    with a keyed MAC over the rest, and the key is a file that only the user may read.
//! 2. Files are written aside, synced, renamed and never rewritten, and are read into memory, not
//!    mapped: what changes on disk later cannot change running code.
//! 3. Any failure is a miss. An image that does not serve is deleted and compiled again.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use wasmtime::Engine;
use wasmtime::component::Component;

use super::grants::replace_private;
use super::limits;

/// Bytes of the MAC and of its key.
const MAC_LEN: usize = 32;

/// Compiled components on disk.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
    key: Option<[u8; MAC_LEN]>,
}

impl Cache {
    /// Returns the cache in a directory of its own; one that cannot be used misses always.
    #[must_use]
    pub fn open(dir: &Path) -> Self {
        let dir = dir.join("components");
        let key = read_or_make_key(&dir.join("key")).ok();
        Self { dir, key }
    }

    /// Returns the component of these bytes, from disk or compiled. Takes seconds for large ones.
    ///
    /// # Errors
    /// When the bytes are no component that the engine takes.
    pub fn component(
        &self,
        engine: &Engine,
        bytes: &[u8],
        sha256: &str,
    ) -> wasmtime::Result<Component> {
        let path = self
            .dir
            .join(format!("{sha256}-{:016x}.image", compatibility(engine)));
        if let Some(component) = self.load(engine, &path) {
            return Ok(component);
        }
        let component = Component::from_binary(engine, bytes)?;
        if let (Some(key), Ok(image)) = (&self.key, component.serialize()) {
            let mac = mac(key, sha256, &image);
            // A full disk costs time at the next start, nothing else.
            drop(replace_private(&path, &[&mac, &image]));
            self.trim();
        }
        Ok(component)
    }

    fn load(&self, engine: &Engine, path: &Path) -> Option<Component> {
        let key = self.key.as_ref()?;
        let file = read_own(path, limits::CACHE_LEN_MAX).ok()?;
        let sha256 = path.file_name()?.to_str()?.split_once('-')?.0;
        let component = verified(key, sha256, &file).and_then(|image| deserialize(engine, image));
        if component.is_none() {
            // It will be compiled again; if it cannot be deleted it misses again.
            drop(fs::remove_file(path));
        }
        component
    }

    /// Deletes the oldest images beyond the limit.
    fn trim(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return;
        };
        let mut images: Vec<(i64, u64, PathBuf)> = entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "image"))
            .filter_map(|entry| {
                let metadata = entry.metadata().ok()?;
                Some((metadata.mtime(), metadata.len(), entry.path()))
            })
            .collect();
        images.sort();
        let mut len: u64 = images.iter().map(|(_, len, _)| len).sum();
        for (_, image_len, path) in images {
            if len <= limits::CACHE_LEN_MAX {
                return;
            }
            if fs::remove_file(path).is_ok() {
                len -= image_len;
            }
        }
    }
}

/// Returns a number that differs between engines whose images do not fit each other.
fn compatibility(engine: &Engine) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

/// Binds the image to the component it was made of, not only to the key.
fn mac(key: &[u8; MAC_LEN], sha256: &str, image: &[u8]) -> [u8; MAC_LEN] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(sha256.as_bytes()).update(&[0]).update(image);
    *hasher.finalize().as_bytes()
}

/// Returns the image in a file if its MAC is right.
fn verified<'a>(key: &[u8; MAC_LEN], sha256: &str, file: &'a [u8]) -> Option<&'a [u8]> {
    let (found, image) = file.split_first_chunk::<MAC_LEN>()?;
    // blake3's own comparison takes the same time whatever differs.
    let right =
        blake3::Hash::from_bytes(mac(key, sha256, image)) == blake3::Hash::from_bytes(*found);
    right.then_some(image)
}

#[expect(
    unsafe_code,
    reason = "wasmtime cannot check that an image is its own; the MAC does"
)]
fn deserialize(engine: &Engine, image: &[u8]) -> Option<Component> {
    // SAFETY: the bytes were made by `Component::serialize` of this user's apexd: `verified` has
    // checked them against a MAC whose key only this user can read. They are in memory that nobody
    // else writes to. Images of other versions and settings are refused by wasmtime itself.
    unsafe { Component::deserialize(engine, image) }.ok()
}

/// Reads a file that belongs to this user and that nobody else may write to.
fn read_own(path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(no_follow)
        .open(path)?;
    let metadata = file.metadata()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    if !metadata.is_file() || !is_own || metadata.mode() & 0o077 != 0 || metadata.len() > len_max {
        return Err(io::Error::other("not a private file of this user"));
    }
    let mut bytes = Vec::new();
    file.take(len_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_or_make_key(path: &Path) -> io::Result<[u8; MAC_LEN]> {
    if let Ok(bytes) = read_own(path, MAC_LEN as u64)
        && let Ok(key) = bytes.try_into()
    {
        return Ok(key);
    }
    let mut key = [0; MAC_LEN];
    let (front, back) = key.split_at_mut(MAC_LEN / 2);
    // 122 random bits each, from the operating system.
    front.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    back.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    replace_private(path, &[&key])?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::super::engine::ToolEngine;
    use super::*;

    /// The smallest component: its header.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    struct Dir(PathBuf);

    impl Dir {
        fn new() -> Self {
            let dir = std::env::temp_dir().join(format!("apex-cache-{}", uuid::Uuid::new_v4()));
            fs::create_dir(&dir).unwrap();
            Self(dir)
        }

        fn image(&self) -> PathBuf {
            let images = fs::read_dir(self.0.join("components")).unwrap().flatten();
            let mut images = images.map(|entry| entry.path());
            images
                .find(|path| path.extension().is_some_and(|end| end == "image"))
                .unwrap()
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn a_second_start_takes_the_image_and_any_changed_byte_is_a_miss() {
        let dir = Dir::new();
        let engine = ToolEngine::new().unwrap();
        Cache::open(&dir.0)
            .component(engine.engine(), EMPTY, "aa")
            .unwrap();
        let image = dir.image();
        let cache = Cache::open(&dir.0);
        assert!(cache.load(engine.engine(), &image).is_some());
        let good = fs::read(&image).unwrap();
        for at in [0, MAC_LEN, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            replace_private(&image, &[&bad]).unwrap();
            assert!(cache.load(engine.engine(), &image).is_none(), "byte {at}");
            assert!(!image.exists(), "a bad image is deleted");
        }
        replace_private(&image, &[&good[..good.len() - 1]]).unwrap();
        assert!(
            cache.load(engine.engine(), &image).is_none(),
            "a truncated image"
        );
        cache.component(engine.engine(), EMPTY, "aa").unwrap();
        assert!(cache.load(engine.engine(), &image).is_some());
    }

    #[test]
    fn an_image_of_another_component_or_key_is_a_miss() {
        let dir = Dir::new();
        let engine = ToolEngine::new().unwrap();
        let cache = Cache::open(&dir.0);
        cache.component(engine.engine(), EMPTY, "aa").unwrap();
        let image = dir.image();
        let bytes = fs::read(&image).unwrap();
        let other = image.with_file_name("bb-0000000000000000.image");
        replace_private(&other, &[&bytes]).unwrap();
        assert!(cache.load(engine.engine(), &other).is_none());
        fs::remove_file(dir.0.join("components/key")).unwrap();
        assert!(Cache::open(&dir.0).load(engine.engine(), &image).is_none());
    }

    #[test]
    fn a_cache_that_cannot_be_written_compiles() {
        let engine = ToolEngine::new().unwrap();
        let cache = Cache::open(Path::new("/dev/null/cache"));
        assert!(cache.component(engine.engine(), EMPTY, "aa").is_ok());
        assert!(
            cache
                .component(engine.engine(), b"\0asm\x0d\0\x01\0\xff", "bb")
                .is_err()
        );
    }
}
