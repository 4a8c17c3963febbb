//! Writing files: the text of the version that was named, past the guard, under the fence of
//! whoever asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use apex_core::entry::{BufferKind, SaveCause, Saved};
use apex_core::ids::{BufferId, Epoch, Millis, Version};
use apex_core::message::{Answer, ErrorCode, ErrorMessage};
use apex_core::node::authority::Asker;
use apex_core::proposal::Change;
use apex_core::text::{Span, Text};

use super::open::directory_of;
use super::{OnDecided, Session};
use crate::config::PUT_WAIT_MS;
use crate::disk::{self, Written};
use crate::files::{self, GuardError, Known};
use crate::seam::{PutError, TaskReport};

/// What is to be written.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) buffer: BufferId,
    pub(super) version: Version,
    pub(super) epoch: Epoch,
    pub(super) path: Option<String>,
    /// What of the text; all of it if none.
    pub(super) part: Option<Span>,
    pub(super) is_forced: bool,
    pub(super) cause: SaveCause,
}

/// The puts of a session. Those of one buffer go one after the other.
#[derive(Debug, Default)]
pub(super) struct Puts {
    /// Those that wait for their version.
    early: Vec<(Asker, Wish, Millis)>,
    /// Those that wait for another put of their buffer.
    queue: VecDeque<Put>,
    running: BTreeMap<u64, Put>,
    last: u64,
}

/// A put whose text is there.
#[derive(Debug)]
struct Put {
    asker: Asker,
    wish: Wish,
    text: Text,
    content: Version,
    /// Absolute.
    path: String,
    /// Whether it is the buffer's own file.
    is_own: bool,
}

impl Puts {
    /// Returns whether a put waits for its version, or for another put.
    pub(super) fn is_waiting(&self) -> bool {
        !self.early.is_empty() || !self.queue.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Millis> {
        self.early.iter().map(|(_, _, deadline)| *deadline).min()
    }
}

impl Session {
    pub(super) fn put(&mut self, asker: Asker, wish: Wish) {
        if self.is_early(&wish) {
            let deadline = self.now().after(PUT_WAIT_MS);
            return self.puts.early.push((asker, wish, deadline));
        }
        match self.prepare(asker, wish.clone()) {
            Ok(put) => self.puts.queue.push_back(put),
            Err(error) => self.put_failed(asker, wish.buffer, error),
        }
    }

    pub(super) fn end_late_puts(&mut self, now: Millis) {
        let early = std::mem::take(&mut self.puts.early);
        for (asker, wish, deadline) in early {
            if deadline > now {
                self.puts.early.push((asker, wish, deadline));
                continue;
            }
            let words = "not written: the version to put did not arrive; put again";
            let error = ErrorMessage::new(ErrorCode::Retry, words);
            self.put_failed(asker, wish.buffer, error);
        }
    }

    /// Starts the puts whose version is there and whose buffer is not being written.
    pub(super) fn start_puts(&mut self) {
        if self.puts.early.is_empty() && self.puts.queue.is_empty() {
            return;
        }
        for (asker, wish, deadline) in std::mem::take(&mut self.puts.early) {
            if self.is_early(&wish) {
                self.puts.early.push((asker, wish, deadline));
            } else {
                self.put(asker, wish);
            }
        }
        let mut busy: BTreeSet<BufferId> = self
            .puts
            .running
            .values()
            .map(|put| put.wish.buffer)
            .collect();
        for put in std::mem::take(&mut self.puts.queue) {
            if busy.insert(put.wish.buffer) {
                self.start_put(put);
            } else {
                self.puts.queue.push_back(put);
            }
        }
    }

    /// Returns whether the version to put is still on its way.
    fn is_early(&self, wish: &Wish) -> bool {
        let buffer = self.authority.node().state().buffer(wish.buffer);
        buffer.is_some_and(|buffer| buffer.version() < wish.version)
    }

    /// Takes the text of the version, which must be the present one.
    fn prepare(&self, asker: Asker, wish: Wish) -> Result<Put, ErrorMessage> {
        let fail = |code, words: String| Err(ErrorMessage::new(code, words));
        let Some(buffer) = self.authority.node().state().buffer(wish.buffer) else {
            return fail(ErrorCode::NotFound, format!("no buffer {}", wish.buffer));
        };
        if buffer.version() != wish.version {
            let words = format!(
                "not written: {} changed while it was put; put again",
                buffer.name()
            );
            return fail(ErrorCode::Retry, words);
        }
        let kind = buffer.kind();
        if kind == BufferKind::Tag || (kind != BufferKind::File && wish.path.is_none()) {
            let words = format!("{} is no file; Put NAME writes it to one", buffer.name());
            return fail(ErrorCode::BadOp, words);
        }
        let name = buffer.name();
        let target = wish.path.as_deref().unwrap_or(name);
        let path = files::absolute(directory_of(name), target)
            .map_err(|error| ErrorMessage::new(ErrorCode::NotFound, error.to_string()))?;
        let is_own = path == name;
        if self.opens.is_loading(wish.buffer) {
            let words = format!("{name} is still being read; put again when it is");
            return fail(ErrorCode::Retry, words);
        }
        if is_own && self.incomplete.contains(&wish.buffer) {
            let words = format!(
                "{name} could not be read to its end and was not written; Get reads it again, Put \
                 NAME writes this part elsewhere"
            );
            return fail(ErrorCode::Denied, words);
        }
        let (whole, content) = (buffer.text(), buffer.content());
        let text = match wish.part {
            None => whole.clone(),
            Some(_) if is_own => {
                let words = format!("not written: only that part would be left in {name}");
                return fail(ErrorCode::BadOp, words);
            }
            Some(at) if at.fits(whole.len()) => Text::from(whole.slice(at).as_str()),
            Some(at) => {
                let words = format!("not written: #{},#{} is outside the text", at.q0, at.q1);
                return fail(ErrorCode::BadOp, words);
            }
        };
        Ok(Put {
            asker,
            wish,
            text,
            content,
            path,
            is_own,
        })
    }

    fn start_put(&mut self, put: Put) {
        let wish = &put.wish;
        // Checked again: the lease may have moved while another put was written.
        let may = self
            .authority
            .may_put(put.asker.attachment, wish.buffer, wish.epoch);
        if let Err(error) = may {
            return self.put_failed(put.asker, wish.buffer, error);
        }
        let known = if put.is_own {
            self.known_of(wish.buffer, &put.path)
        } else {
            None
        };
        let (text, is_forced) = (put.text.clone(), wish.is_forced);
        let path = files::path_of(&put.path);
        self.puts.last += 1;
        let id = self.puts.last;
        self.puts.running.insert(id, put);
        self.spawn_blocking(move || {
            let guarded = if is_forced {
                Ok(())
            } else {
                files::guard(&path, known.as_ref())
            };
            let result = guarded
                .map_err(PutError::Guard)
                .and_then(|()| disk::write(&path, text.byte_pieces()).map_err(PutError::Disk));
            TaskReport::Put { put: id, result }
        });
    }

    /// Returns what is known of a buffer's own file.
    fn known_of(&self, buffer: BufferId, path: &str) -> Option<Known> {
        let here = self
            .known
            .get(&buffer)
            .filter(|(of, _)| of == path)
            .map(|(_, known)| *known);
        here.or_else(|| {
            let saved = self.authority.node().state().buffer(buffer)?.saved()?;
            (saved.path == path).then_some(Known {
                digest: saved.digest,
                stamp: None,
            })
        })
    }

    pub(super) fn put_done(&mut self, id: u64, result: Result<Written, PutError>) {
        let Some(put) = self.puts.running.remove(&id) else {
            return;
        };
        let buffer = put.wish.buffer;
        let written = match result {
            Ok(written) => written,
            Err(PutError::Guard(error)) => {
                let code = match error {
                    GuardError::Changed { .. } | GuardError::Exists(_) => ErrorCode::ChangedOnDisk,
                    GuardError::Disk(_) => ErrorCode::System,
                };
                let error = ErrorMessage::new(code, error.to_string());
                return self.put_failed(put.asker, buffer, error);
            }
            Err(PutError::Disk(error)) => {
                let error = ErrorMessage::new(ErrorCode::System, error.to_string());
                return self.put_failed(put.asker, buffer, error);
            }
        };
        self.answer(put.asker, Ok(Answer::Done));
        if !put.is_own {
            return;
        }
        let known = Known {
            digest: written.digest,
            stamp: Some(written.stamp),
        };
        self.known.insert(buffer, (put.path.clone(), known));
        let saved = Saved {
            version: put.wish.version,
            content: put.content,
            digest: written.digest,
            path: put.path,
            cause: put.wish.cause,
        };
        self.propose(
            vec![Change::Saved { buffer, saved }],
            OnDecided::Tell("noting a put"),
        );
    }

    fn put_failed(&mut self, asker: Asker, buffer: BufferId, error: ErrorMessage) {
        if asker.connection.is_some() {
            return self.answer(asker, Err(error));
        }
        let name = self
            .authority
            .node()
            .state()
            .buffer(buffer)
            .map(|b| b.name().to_owned());
        let name = name.unwrap_or_default();
        self.tell_error(directory_of(&name), &error.message);
    }
}
