//! Opening files: the daemon makes the buffer, loads it piece by piece, and gives it to whoever
//! leads. A large file is on screen after its first piece.

use std::collections::BTreeMap;
use std::time::Duration;

use apex_core::entry::{BufferKind, BufferOp, SaveCause, Saved};
use apex_core::ids::{BufferId, Shard, Version};
use apex_core::limits;
use apex_core::message::{Answer, ErrorCode, ErrorMessage};
use apex_core::node::authority::Asker;
use apex_core::proposal::Change;
use tokio::sync::{mpsc, oneshot};

use super::{NO_REQUEST, OnDecided, Session};
use crate::config::{LOAD_LOG_LEN_MAX, LOAD_PACE_MS};
use crate::diary;
use crate::disk::DiskError;
use crate::files::{self, Found, Known, Loaded, Reader};
use crate::seam::{LoadStep, Peer, SessionInput, TaskReport};

/// A content that no version has: a buffer that was edited while it was loading is modified.
const NO_CONTENT: Version = Version::new(u64::MAX);

/// Who wants a file open.
#[derive(Clone, Debug)]
pub(super) enum Opener {
    /// A peer, which hears of the buffer.
    Asker(Asker),
    /// SERVER, which shows it at this address.
    Show(String),
}

/// The files that are being looked at, and the buffers that are being loaded.
#[derive(Debug, Default)]
pub(super) struct Opens {
    /// By absolute name: who waits for it.
    looking: BTreeMap<String, Vec<Opener>>,
    loading: BTreeMap<BufferId, Loading>,
}

#[derive(Debug)]
struct Loading {
    path: String,
    /// Its version after the last piece: another one means that it was edited meanwhile.
    version: Version,
    is_edited: bool,
    /// Bytes of its pieces that the log keeps.
    log_len: usize,
    /// Who has not heard of the buffer yet.
    openers: Vec<Opener>,
}

impl Opens {
    pub(super) fn is_loading(&self, buffer: BufferId) -> bool {
        self.loading.contains_key(&buffer)
    }
}

impl Session {
    pub(super) fn open(&mut self, opener: Opener, directory: &str, path: &str) {
        let name = match files::absolute(directory, path) {
            Ok(name) => name,
            Err(error) => {
                let error = ErrorMessage::new(ErrorCode::NotFound, error.to_string());
                return self.open_failed(&opener, directory, error);
            }
        };
        if let Some(buffer) = self.buffer_of_file(&name) {
            return match self.opens.loading.get_mut(&buffer) {
                Some(loading) if loading.version == Version::default() => {
                    loading.openers.push(opener);
                }
                Some(_) | None => self.opened(opener, buffer, false),
            };
        }
        let waiting = self.opens.looking.entry(name.clone()).or_default();
        waiting.push(opener);
        if waiting.len() == 1 {
            self.spawn_blocking(move || {
                let found = files::find(&files::path_of(&name));
                TaskReport::Found { name, found }
            });
        }
    }

    fn buffer_of_file(&self, name: &str) -> Option<BufferId> {
        let state = self.authority.node().state();
        let is_file = |id: &BufferId| {
            state.buffer(*id).is_some_and(|buffer| {
                matches!(buffer.kind(), BufferKind::File | BufferKind::Directory)
            })
        };
        let directory = format!("{}/", name.trim_end_matches('/'));
        let named = |name: &str| state.buffer_named(name).filter(is_file);
        named(name).or_else(|| named(&directory))
    }

    pub(super) fn found(&mut self, name: &str, found: Result<Found, DiskError>) {
        let openers = self.opens.looking.remove(name).unwrap_or_default();
        let made = match found {
            Err(error) => Err(ErrorMessage::new(ErrorCode::System, error.to_string())),
            Ok(found) => self.make_buffer(name, found, &openers),
        };
        match made {
            // The openers hear of it with the first piece.
            Ok(None) => {}
            Ok(Some((buffer, is_new))) => {
                for opener in openers {
                    self.opened(opener, buffer, is_new);
                }
            }
            Err(error) => {
                let directory = directory_of(name);
                for opener in openers {
                    self.open_failed(&opener, directory, error.clone());
                }
            }
        }
    }

    fn make_buffer(
        &mut self,
        name: &str,
        found: Found,
        openers: &[Opener],
    ) -> Result<Option<(BufferId, bool)>, ErrorMessage> {
        let refused = |error: apex_core::node::NodeError| {
            ErrorMessage::new(ErrorCode::System, format!("cannot open {name}: {error}"))
        };
        let node = self.authority.node_mut();
        match found {
            Found::New => {
                let buffer = node.new_buffer(BufferKind::File, name).map_err(refused)?;
                self.authority.grant_to_chief(Shard::Buffer(buffer));
                self.settle();
                Ok(Some((buffer, true)))
            }
            Found::Directory(listing) => {
                let name = format!("{}/", name.trim_end_matches('/'));
                let buffer = node
                    .new_buffer(BufferKind::Directory, &name)
                    .map_err(refused)?;
                let mut rest = listing.as_str();
                while !rest.is_empty() {
                    let piece = cut(rest, limits::PIECE_LEN_MAX);
                    rest = &rest[piece.len()..];
                    let op = BufferOp::Load {
                        text: piece.to_owned(),
                    };
                    node.append_buffer(buffer, op).map_err(refused)?;
                }
                self.authority.grant_to_chief(Shard::Buffer(buffer));
                self.settle();
                Ok(Some((buffer, false)))
            }
            Found::File(reader) => {
                let buffer = node.new_buffer(BufferKind::File, name).map_err(refused)?;
                self.authority.begin_load(Shard::Buffer(buffer));
                let loading = Loading {
                    path: name.to_owned(),
                    version: Version::default(),
                    is_edited: false,
                    log_len: 0,
                    openers: openers.to_vec(),
                };
                self.opens.loading.insert(buffer, loading);
                let inputs = self.inputs.clone();
                tokio::task::spawn_blocking(move || read(buffer, reader, &inputs));
                Ok(None)
            }
        }
    }

    pub(super) fn load(&mut self, buffer: BufferId, step: LoadStep) {
        match step {
            LoadStep::Piece { text, permit } => {
                let len = text.len();
                if self.load_piece(buffer, text) {
                    self.settle();
                    self.compact(buffer, len);
                    self.tell_openers(buffer);
                    self.pace(permit);
                }
            }
            LoadStep::End(result) => self.end_load(buffer, result),
        }
    }

    /// Appends a piece; returns false when the buffer is gone, so that reading stops.
    fn load_piece(&mut self, buffer: BufferId, text: String) -> bool {
        let node = self.authority.node_mut();
        let before = node
            .state()
            .buffer(buffer)
            .map(apex_core::buffer::Buffer::version);
        let appended = node.append_buffer(buffer, BufferOp::Load { text });
        let after = node
            .state()
            .buffer(buffer)
            .map(apex_core::buffer::Buffer::version);
        let (Some(before), Some(after), Ok(_)) = (before, after, appended) else {
            self.opens.loading.remove(&buffer);
            self.authority.end_load(Shard::Buffer(buffer));
            return false;
        };
        if let Some(loading) = self.opens.loading.get_mut(&buffer) {
            loading.is_edited |= before != loading.version;
            loading.version = after;
        }
        true
    }

    /// Drops the pieces of a large file from the log, once they are published.
    fn compact(&mut self, buffer: BufferId, len: usize) {
        let Some(loading) = self.opens.loading.get_mut(&buffer) else {
            return;
        };
        loading.log_len += len;
        let shard = Shard::Buffer(buffer);
        if loading.log_len > LOAD_LOG_LEN_MAX
            && let Some(applied) = self.authority.node().state().applied(shard)
        {
            loading.log_len = 0;
            self.authority.node_mut().compact(shard, applied);
        }
    }

    fn tell_openers(&mut self, buffer: BufferId) {
        let loading = self.opens.loading.get_mut(&buffer);
        for opener in loading
            .map(|loading| std::mem::take(&mut loading.openers))
            .unwrap_or_default()
        {
            self.opened(opener, buffer, false);
        }
    }

    /// Lets the next piece come once the followers have room for it, or after a moment: a dead
    /// follower does not keep others from their file.
    fn pace(&self, permit: oneshot::Sender<()>) {
        let outlets: Vec<_> = self
            .peers
            .values()
            .filter(|peer| peer.is_follower)
            .filter_map(|peer| match &peer.asker.peer {
                Peer::Socket(outlet) => Some(outlet.clone()),
                Peer::Tool(_) => None,
            })
            .collect();
        tokio::spawn(async move {
            let pace = Duration::from_millis(LOAD_PACE_MS);
            let all_have_room = async {
                for outlet in outlets {
                    outlet.room().await;
                }
            };
            drop(tokio::time::timeout(pace, all_have_room).await);
            // A reader that has ended needs no permit.
            let _ = permit.send(());
        });
    }

    fn end_load(&mut self, buffer: BufferId, result: Result<Loaded, DiskError>) {
        let Some(mut loading) = self.opens.loading.remove(&buffer) else {
            return;
        };
        let node = self.authority.node();
        let found = node
            .state()
            .buffer(buffer)
            .map(|found| (found.version(), found.content()));
        let Some((version, content)) = found else {
            self.answer_texts(buffer);
            return self.authority.end_load(Shard::Buffer(buffer));
        };
        loading.is_edited |= version != loading.version;
        match result {
            Ok(loaded) => {
                let content = if loading.is_edited {
                    NO_CONTENT
                } else {
                    content
                };
                let known = Known {
                    digest: loaded.digest,
                    stamp: Some(loaded.stamp),
                };
                let path = loading.path.clone();
                self.known.insert(buffer, (path.clone(), known));
                let digest = loaded.digest;
                let saved = Saved {
                    version,
                    content,
                    digest,
                    path,
                    cause: SaveCause::Load,
                };
                let op = BufferOp::Saved(saved);
                if let Err(error) = self.authority.node_mut().append_buffer(buffer, op) {
                    diary::error(format_args!("{}: {error}", loading.path));
                }
            }
            Err(error) => {
                self.incomplete.insert(buffer);
                let line = format!(
                    "{error}; the window holds only its first part and will not overwrite it; \
                     Get reads it again"
                );
                self.tell_error(directory_of(&loading.path), &line);
            }
        }
        for opener in std::mem::take(&mut loading.openers) {
            self.opened(opener, buffer, false);
        }
        self.authority.end_load(Shard::Buffer(buffer));
        self.answer_texts(buffer);
        self.settle();
    }

    fn opened(&mut self, opener: Opener, buffer: BufferId, is_new: bool) {
        match opener {
            Opener::Asker(asker) => self.answer(asker, Ok(Answer::Opened { buffer, is_new })),
            Opener::Show(address) => {
                let change = Change::Show { buffer, address };
                self.propose(vec![change], OnDecided::Tell("showing a file"));
            }
        }
    }

    fn open_failed(&mut self, opener: &Opener, directory: &str, error: ErrorMessage) {
        match opener {
            Opener::Asker(asker) if asker.request != NO_REQUEST => self.answer(*asker, Err(error)),
            Opener::Asker(_) | Opener::Show(_) => self.tell_error(directory, &error.message),
        }
    }
}

/// Reads a file on a thread for it, one piece at a time as the session takes them.
fn read(buffer: BufferId, reader: Reader, inputs: &mpsc::Sender<SessionInput>) {
    let report = |step: LoadStep| {
        let report = TaskReport::Load { buffer, step };
        inputs.blocking_send(SessionInput::Task(report)).is_ok()
    };
    let result = reader.read(|text| {
        let (permit, permitted) = oneshot::channel();
        report(LoadStep::Piece { text, permit }) && permitted.blocking_recv().is_ok()
    });
    match result {
        Ok(Some(loaded)) => drop(report(LoadStep::End(Ok(loaded)))),
        // The buffer or the session is gone.
        Ok(None) => {}
        Err(error) => drop(report(LoadStep::End(Err(error)))),
    }
}

/// Returns the directory of an absolute name.
pub(super) fn directory_of(name: &str) -> &str {
    match name.trim_end_matches('/').rsplit_once('/') {
        None | Some(("", _)) => "/",
        Some((directory, _)) => directory,
    }
}

/// Returns the longest start of a text of at most `len` bytes.
pub(super) fn cut(text: &str, len: usize) -> &str {
    let mut end = text.len().min(len);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_name_is_what_stands_before_its_last_part() {
        for (name, expect) in [("/a/b", "/a"), ("/a/b/", "/a"), ("/a", "/"), ("/", "/")] {
            assert_eq!(directory_of(name), expect, "{name}");
        }
    }

    #[test]
    fn a_cut_keeps_code_points_whole() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
    }
}
