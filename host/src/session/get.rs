//! Reading a file again: the smallest change that makes the buffer equal to it, as a proposal to
//! whoever leads, so that undo and views survive.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use apex_core::edit::{self, Splice};
use apex_core::entry::{BufferKind, SaveCause, Saved};
use apex_core::ids::{BufferId, Version};
use apex_core::limits;
use apex_core::message::{Answer, ErrorCode, ErrorMessage};
use apex_core::node::authority::Asker;
use apex_core::proposal::{Change, Outcome};
use apex_core::text::{Span, Text};

use super::open::{cut, directory_of};
use super::{OnDecided, Session};
use crate::disk::DiskError;
use crate::files::{self, Found, Known, Loaded};
use crate::seam::{Fresh, TaskReport};

/// Most bytes of text in one proposal: with its frame it must pass to the leader, and as an entry
/// come back.
const PROPOSAL_LEN_MAX: usize = limits::APPEND_LEN_MAX / 2;

/// The gets of a session.
#[derive(Debug, Default)]
pub(super) struct Gets {
    running: BTreeMap<u64, Get>,
    last: u64,
}

#[derive(Debug)]
struct Get {
    asker: Asker,
    buffer: BufferId,
    name: String,
    kind: BufferKind,
    /// Changes that are still to be proposed, in positions of the version before each.
    rest: VecDeque<Vec<Splice>>,
    /// The version that the next of them is for.
    base: Version,
    loaded: Option<Loaded>,
    /// Whether somebody edited the buffer in between.
    is_edited: bool,
}

impl Session {
    pub(super) fn get(&mut self, asker: Asker, id: BufferId) {
        let fail = |session: &mut Self, code, words: String| {
            session.get_failed(asker, "/", ErrorMessage::new(code, words));
        };
        let Some(buffer) = self.authority.node().state().buffer(id) else {
            return fail(self, ErrorCode::NotFound, format!("no buffer {id}"));
        };
        let (name, kind, base) = (buffer.name().to_owned(), buffer.kind(), buffer.version());
        let text = buffer.text().clone();
        if !matches!(kind, BufferKind::File | BufferKind::Directory) || !name.starts_with('/') {
            return fail(
                self,
                ErrorCode::BadOp,
                format!("{name} has no file to read"),
            );
        }
        if self.opens.is_loading(id) {
            return fail(
                self,
                ErrorCode::Retry,
                format!("{name} is still being read"),
            );
        }
        self.gets.last += 1;
        let get = self.gets.last;
        let path = files::path_of(&name);
        let rest = VecDeque::new();
        let state = Get {
            asker,
            buffer: id,
            name,
            kind,
            rest,
            base,
            loaded: None,
            is_edited: false,
        };
        self.gets.running.insert(get, state);
        self.spawn_blocking(move || TaskReport::Get {
            get,
            result: compare(&path, &text, base),
        });
    }

    pub(super) fn got(&mut self, id: u64, result: Result<Fresh, DiskError>) {
        let Some(get) = self.gets.running.get_mut(&id) else {
            return;
        };
        match result {
            Err(error) => {
                let (asker, directory) = (get.asker, directory_of(&get.name).to_owned());
                self.gets.running.remove(&id);
                let error = ErrorMessage::new(ErrorCode::System, error.to_string());
                self.get_failed(asker, &directory, error);
            }
            Ok(fresh) => {
                get.base = fresh.base;
                get.loaded = fresh.loaded;
                get.rest = steps(fresh.splices);
                self.get_next(id);
            }
        }
    }

    /// Proposes the next step, or ends the get after the last.
    fn get_next(&mut self, id: u64) {
        let Some(get) = self.gets.running.get_mut(&id) else {
            return;
        };
        match get.rest.pop_front() {
            Some(splices) => {
                let change = Change::Edit {
                    buffer: get.buffer,
                    base: get.base,
                    splices,
                };
                self.propose(vec![change], OnDecided::Get(id));
            }
            None => self.end_get(id),
        }
    }

    pub(super) fn get_decided(&mut self, id: u64, outcome: Outcome) {
        let Some(get) = self.gets.running.get_mut(&id) else {
            return;
        };
        match outcome {
            Ok(landed) => {
                let version = landed.first().map_or(get.base, |landed| landed.version);
                get.is_edited |= version != get.base.next();
                get.base = version;
                self.get_next(id);
            }
            Err(refusal) => {
                let (asker, directory) = (get.asker, directory_of(&get.name).to_owned());
                let words = format!("{} was not read again: {refusal}", get.name);
                self.gets.running.remove(&id);
                self.get_failed(
                    asker,
                    &directory,
                    ErrorMessage::new(ErrorCode::Retry, words),
                );
            }
        }
    }

    fn end_get(&mut self, id: u64) {
        let Some(get) = self.gets.running.remove(&id) else {
            return;
        };
        self.answer(get.asker, Ok(Answer::Done));
        let (Some(loaded), BufferKind::File) = (get.loaded, get.kind) else {
            return;
        };
        let known = Known {
            digest: loaded.digest,
            stamp: Some(loaded.stamp),
        };
        self.known.insert(get.buffer, (get.name.clone(), known));
        self.incomplete.remove(&get.buffer);
        let content = self.content_of(get.buffer, get.base, get.is_edited);
        let saved = Saved {
            version: get.base,
            content,
            digest: loaded.digest,
            path: get.name,
            cause: SaveCause::Load,
        };
        let change = Change::Saved {
            buffer: get.buffer,
            saved,
        };
        self.propose(vec![change], OnDecided::Tell("noting a get"));
    }

    /// Returns the content of a version; one that no version has when it was edited in between.
    fn content_of(&self, buffer: BufferId, version: Version, is_edited: bool) -> Version {
        let found = self.authority.node().state().buffer(buffer);
        match found {
            Some(found) if !is_edited && found.version() == version => found.content(),
            // An edit makes the content of its own version.
            Some(_) if !is_edited => version,
            Some(_) | None => Version::new(u64::MAX),
        }
    }

    fn get_failed(&mut self, asker: Asker, directory: &str, error: ErrorMessage) {
        if asker.connection.is_some() {
            return self.answer(asker, Err(error));
        }
        self.tell_error(directory, &error.message);
    }
}

fn compare(path: &std::path::Path, old: &Text, base: Version) -> Result<Fresh, DiskError> {
    let (text, loaded) = match files::find(path)? {
        Found::File(reader) => {
            let (text, loaded) = reader.read_all()?;
            (text, Some(loaded))
        }
        Found::Directory(listing) => (Text::from(listing.as_str()), None),
        Found::New => {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(DiskError::System {
                doing: "read",
                path: path.to_owned(),
                source,
            });
        }
    };
    let splices = edit::difference(old, &text).into_iter().collect();
    Ok(Fresh {
        base,
        splices,
        loaded,
    })
}

/// Cuts a change into proposals of bounded length, each in positions of the text before it.
fn steps(splices: Vec<Splice>) -> VecDeque<Vec<Splice>> {
    let mut steps = VecDeque::new();
    for splice in splices {
        let mut at = splice.at;
        let mut rest = splice.text.as_str();
        loop {
            let piece = cut(rest, PROPOSAL_LEN_MAX);
            rest = &rest[piece.len()..];
            let mut step = Vec::new();
            let mut inner = piece;
            loop {
                let text = cut(inner, limits::PIECE_LEN_MAX);
                inner = &inner[text.len()..];
                step.push(Splice::new(at, text));
                at = Span::at(at.q1);
                if inner.is_empty() {
                    break;
                }
            }
            let count: u64 = piece.chars().count() as u64;
            at = Span::at(step[0].at.q0 + count);
            steps.push_back(step);
            if rest.is_empty() {
                break;
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_change_goes_in_steps_that_make_the_same_text() {
        let new = "é\n".repeat(PROPOSAL_LEN_MAX);
        let mut text = Text::from("head old tail");
        let steps = steps(vec![Splice::new(Span::new(5, 8), new.as_str())]);
        assert!(steps.len() > 1);
        for step in &steps {
            edit::check(step, text.len()).unwrap();
            assert!(
                step.iter()
                    .all(|splice| splice.text.len() <= limits::PIECE_LEN_MAX)
            );
            edit::apply(&mut text, step);
        }
        assert!(text == Text::from(format!("head {new} tail").as_str()));
    }
}
