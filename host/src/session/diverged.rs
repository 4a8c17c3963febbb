//! What a leader and the daemon computed differently, kept for whoever looks for the fault.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use apex_core::node::marks::Divergence;

use super::Session;
use crate::config::DIVERGED_FILE_COUNT_MAX;
use crate::{clock, diary};

impl Session {
    /// Keeps a divergence, on a thread for it.
    pub(super) fn keep_divergence(&self, divergence: Box<Divergence>) {
        let dir = self.config.diverged_dir.clone();
        let label = self.config.label.clone();
        tokio::task::spawn_blocking(move || {
            let shard = divergence.ours.shard;
            match write(&dir, &divergence) {
                Ok(path) => diary::error(format_args!(
                    "{label}: the leader of {shard} computed another state than apexd; what \
                     apexd computed is in {}",
                    path.display()
                )),
                Err(error) => diary::error(format_args!(
                    "{label}: the leader of {shard} computed another state than apexd; it is not \
                     kept in {}: {error}",
                    dir.display()
                )),
            }
        });
    }
}

/// Writes a divergence into a directory, for its user alone.
///
/// # Errors
/// The directory holds as many as it may, or the system refuses.
fn write(dir: &Path, divergence: &Divergence) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    if std::fs::read_dir(dir)?.count() >= DIVERGED_FILE_COUNT_MAX {
        return Err(io::Error::other("there are enough of them already"));
    }
    let shard = divergence.ours.shard.to_string().replace('/', "-");
    let path = dir.join(format!("{}-apexd-{shard}", clock::unix_seconds()));
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    file.write_all(&divergence.to_file())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use apex_core::entry::ChainHash;
    use apex_core::ids::{BufferId, SERVER, Seq, Shard};
    use apex_core::message::ShardHash;

    use super::*;
    use crate::disk::testing::TempDir;

    #[test]
    fn divergences_are_kept_for_the_user_alone_and_not_without_end() {
        let dir = TempDir::new();
        let dir = dir.path().join("state/diverged");
        for id in 0..=DIVERGED_FILE_COUNT_MAX as u64 {
            let ours = ShardHash {
                shard: Shard::Buffer(BufferId::new(id)),
                seq: Seq::new(3),
                chain: ChainHash::default(),
                state: [1; 32],
            };
            let divergence = Divergence {
                of: SERVER,
                theirs: ours.clone(),
                ours,
                snapshot: vec![7; 9],
                tail: Vec::new(),
            };
            let written = write(&dir, &divergence);
            if id == DIVERGED_FILE_COUNT_MAX as u64 {
                written.unwrap_err();
                continue;
            }
            let path = written.unwrap();
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(&dir)), (0o600, 0o700));
            assert_eq!(std::fs::read(path).unwrap(), divergence.to_file());
        }
    }
}
