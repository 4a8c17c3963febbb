//! What the user has granted, in `grants.toml`, and the live rights that each import checks.
//!
//! A grant belongs to an id, the sha256 of the component's bytes and the sha256 of what was asked
//! for: a replaced file inherits nothing. A development grant belongs to a path instead, so that a
//! tool may be rebuilt without asking again.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::lock::lock;
use super::manifest::{Cap, Manifest, Want};

/// Longest grants file that is read, in bytes.
const FILE_LEN_MAX: u64 = 4 << 20;

/// The user's grants.
#[derive(Debug)]
pub struct Grants {
    path: PathBuf,
    file: File,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "grant", skip_serializing_if = "Vec::is_empty")]
    grants: Vec<Grant>,
    #[serde(default, rename = "dev", skip_serializing_if = "Vec::is_empty")]
    devs: Vec<Dev>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Grant {
    id: String,
    /// Of the component, in hex.
    sha256: String,
    /// Of what was asked for, in hex.
    wants: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dev {
    path: PathBuf,
}

/// How a component stands with the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Granted by hash.
    Granted,
    /// Granted by path.
    GrantedDev,
    /// Other bytes, or other wishes, of this id were granted.
    Changed,
    /// Nothing was granted.
    Unknown,
}

impl Standing {
    /// Returns whether the component may run.
    #[must_use]
    pub const fn is_granted(self) -> bool {
        matches!(self, Self::Granted | Self::GrantedDev)
    }
}

/// Why grants were not read or written.
#[derive(Debug)]
pub enum GrantsError {
    /// The file cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no file of grants.
    Toml {
        /// The file.
        path: PathBuf,
        /// Where and why.
        message: String,
    },
}

impl fmt::Display for GrantsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Toml { path, message } => write!(
                f,
                "{} is no file of grants ({message}); mend it or move it away, and nothing counts \
                 as granted until then",
                path.display()
            ),
        }
    }
}

impl std::error::Error for GrantsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Toml { .. } => None,
        }
    }
}

impl Grants {
    /// Returns the grants in a file; none when it does not exist.
    ///
    /// # Errors
    /// When it cannot be read or is no file of grants.
    pub fn read(path: &Path) -> Result<Self, GrantsError> {
        Ok(Self {
            path: path.to_owned(),
            file: read(path)?,
        })
    }

    /// Returns grants of nothing, which would be written to this file.
    #[must_use]
    pub fn none(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: File::default(),
        }
    }

    /// Returns how a component at a path stands.
    #[must_use]
    pub fn standing(&self, path: &Path, manifest: &Manifest, sha256: &str) -> Standing {
        let wants = manifest.wants_digest();
        let of_id = || {
            self.file
                .grants
                .iter()
                .filter(|grant| grant.id == manifest.id)
        };
        if of_id().any(|grant| grant.sha256 == sha256 && grant.wants == wants) {
            Standing::Granted
        } else if self.file.devs.iter().any(|dev| is_same(&dev.path, path)) {
            Standing::GrantedDev
        } else if of_id().next().is_some() {
            Standing::Changed
        } else {
            Standing::Unknown
        }
    }

    /// Grants what a manifest asks for to these bytes.
    ///
    /// # Errors
    /// When the file cannot be read or written; nothing is granted then.
    pub fn grant(&mut self, manifest: &Manifest, sha256: &str) -> Result<(), GrantsError> {
        let grant = Grant {
            id: manifest.id.clone(),
            sha256: sha256.to_owned(),
            wants: manifest.wants_digest(),
        };
        self.change(|file| {
            if !file.grants.contains(&grant) {
                file.grants.push(grant);
            }
        })
    }

    /// Grants whatever stands at a path.
    ///
    /// # Errors
    /// When the file cannot be read or written; nothing is granted then.
    pub fn grant_dev(&mut self, path: &Path) -> Result<(), GrantsError> {
        let dev = Dev {
            path: path.to_owned(),
        };
        self.change(|file| {
            if !file.devs.contains(&dev) {
                file.devs.push(dev);
            }
        })
    }

    /// Takes back all grants of an id and those of a path.
    ///
    /// # Errors
    /// When the file cannot be read or written; the grants stand then.
    pub fn revoke(&mut self, id: &str, path: &Path) -> Result<(), GrantsError> {
        self.change(|file| {
            file.grants.retain(|grant| grant.id != id);
            file.devs.retain(|dev| !is_same(&dev.path, path));
        })
    }

    /// Changes the file as it is now, so that what was written by hand meanwhile stays.
    fn change(&mut self, change: impl FnOnce(&mut File)) -> Result<(), GrantsError> {
        let mut file = read(&self.path)?;
        change(&mut file);
        write(&self.path, &file)?;
        self.file = file;
        Ok(())
    }
}

/// Returns whether two paths lead to one file, by their letters or through links.
pub(super) fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    a == b || real(a).is_some_and(|real_a| real(b) == Some(real_a))
}

fn read(path: &Path) -> Result<File, GrantsError> {
    let io = |source| GrantsError::Io {
        path: path.to_owned(),
        source,
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(File::default()),
        Err(error) => return Err(io(error)),
        Ok(metadata) if metadata.len() > FILE_LEN_MAX => {
            return Err(io(io::Error::other("longer than any file of grants")));
        }
        Ok(_) => {}
    }
    let text = fs::read_to_string(path).map_err(io)?;
    toml::from_str(&text).map_err(|error| GrantsError::Toml {
        path: path.to_owned(),
        message: error.message().to_owned(),
    })
}

/// Writes the file for its user alone, whole or not at all.
fn write(path: &Path, file: &File) -> Result<(), GrantsError> {
    let io = |source| GrantsError::Io {
        path: path.to_owned(),
        source,
    };
    let text = toml::to_string(file).map_err(|error| GrantsError::Toml {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    let head = "# What the user granted to tools. Written by apex; see `apex tool grant`.\n\n";
    replace_private(path, &[head.as_bytes(), text.as_bytes()]).map_err(io)
}

/// Replaces a file by these bytes with mode 0600, whole or not at all; makes its directory.
pub(super) fn replace_private(path: &Path, pieces: &[&[u8]]) -> io::Result<()> {
    let dir = path
        .parent()
        .ok_or_else(|| io::Error::other("the path has no directory"))?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    let temp = dir.join(format!(".apex-{}", uuid::Uuid::new_v4()));
    let written = (|| {
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temp)?;
        pieces.iter().try_for_each(|piece| file.write_all(piece))?;
        file.sync_all()?;
        fs::rename(&temp, path)?;
        fs::File::open(dir)?.sync_all()
    })();
    if written.is_err() {
        // The first error is the one to tell.
        drop(fs::remove_file(&temp));
    }
    written
}

/// The rights of a running tool: looked at by each import, taken back while it runs.
#[derive(Clone, Debug)]
pub struct Rights {
    live: Arc<Mutex<Option<Vec<Want>>>>,
}

impl Rights {
    /// Returns rights to all that a manifest asks for.
    #[must_use]
    pub fn granted(manifest: &Manifest) -> Self {
        Self {
            live: Arc::new(Mutex::new(Some(manifest.wants.clone()))),
        }
    }

    /// Takes all rights back, for everybody who holds them.
    pub fn revoke(&self) {
        *lock(&self.live) = None;
    }

    /// Returns whether they were taken back.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        lock(&self.live).is_none()
    }

    /// Checks one right on a subject: `buffer:NAME`, `meta`, `layout`, a path, or nothing.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn check(&self, cap: Cap, subject: &str) -> Result<(), String> {
        match lock(&self.live).as_deref() {
            None => Err("the user has taken the grant back".to_owned()),
            Some(wants) if wants.iter().any(|want| want.covers(cap, subject)) => Ok(()),
            Some(_) => {
                let on = if subject.is_empty() {
                    String::new()
                } else {
                    format!(" on {subject}")
                };
                Err(format!("the manifest asks for no right {}{on}", cap.name()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn manifest(scope: &str) -> Manifest {
        Manifest::parse(&format!(
            "id = \"org.apex.t\"\nversion = \"1\"\nsummary = \"s\"\n\
             [[want]]\ncap = \"shard.propose\"\nscope = \"{scope}\"\n"
        ))
        .unwrap()
    }

    struct Dir(PathBuf);

    impl Dir {
        fn new() -> Self {
            let dir = std::env::temp_dir().join(format!("apex-grants-{}", uuid::Uuid::new_v4()));
            fs::create_dir(&dir).unwrap();
            Self(dir)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn a_grant_is_bound_to_bytes_and_wishes_and_survives_a_restart() {
        let dir = Dir::new();
        let file = dir.0.join("config/grants.toml");
        let tool = Path::new("/plugins/t.wasm");
        let asked = manifest("buffer:/a/*");
        let mut grants = Grants::read(&file).unwrap();
        assert_eq!(grants.standing(tool, &asked, "aa"), Standing::Unknown);
        grants.grant(&asked, "aa").unwrap();
        let grants = Grants::read(&file).unwrap();
        assert_eq!(grants.standing(tool, &asked, "aa"), Standing::Granted);
        assert_eq!(grants.standing(tool, &asked, "bb"), Standing::Changed);
        assert_eq!(
            grants.standing(tool, &manifest("buffer:*"), "aa"),
            Standing::Changed
        );
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn a_development_grant_is_bound_to_a_path() {
        let dir = Dir::new();
        let mut grants = Grants::read(&dir.0.join("grants.toml")).unwrap();
        let tool = Path::new("/work/t.wasm");
        grants.grant_dev(tool).unwrap();
        let asked = manifest("buffer:*");
        assert_eq!(grants.standing(tool, &asked, "any"), Standing::GrantedDev);
        assert_eq!(
            grants.standing(Path::new("/x/t.wasm"), &asked, "any"),
            Standing::Unknown
        );
        grants.revoke("org.apex.t", tool).unwrap();
        assert_eq!(grants.standing(tool, &asked, "any"), Standing::Unknown);
    }

    #[test]
    fn a_broken_file_grants_nothing_and_is_not_overwritten() {
        let dir = Dir::new();
        let file = dir.0.join("grants.toml");
        let mut grants = Grants::none(&file);
        fs::write(&file, "not = [toml").unwrap();
        assert!(matches!(Grants::read(&file), Err(GrantsError::Toml { .. })));
        assert!(grants.grant(&manifest("buffer:*"), "aa").is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "not = [toml");
        assert_eq!(
            grants.standing(Path::new("/t.wasm"), &manifest("buffer:*"), "aa"),
            Standing::Unknown
        );
    }

    #[test]
    fn a_revoked_right_ends_for_everybody_who_holds_it() {
        let rights = Rights::granted(&manifest("buffer:/a/*"));
        let held = rights.clone();
        assert_eq!(held.check(Cap::Propose, "buffer:/a/x"), Ok(()));
        assert!(
            held.check(Cap::Propose, "buffer:/b/x")
                .unwrap_err()
                .contains("shard.propose")
        );
        assert!(held.check(Cap::Put, "buffer:/a/x").is_err());
        rights.revoke();
        assert!(
            held.check(Cap::Propose, "buffer:/a/x")
                .unwrap_err()
                .contains("taken")
        );
    }
}
