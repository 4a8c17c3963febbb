//! What only the host can do, on files in memory. It decides nothing about the session.

use std::collections::BTreeMap;

use apex_core::edit;
use apex_core::entry::{BufferKind, BufferOp, SaveCause, Saved};
use apex_core::ids::{AttachmentId, BufferId, Epoch, ProposalId, Shard, Version};
use apex_core::message::{Answer, ErrorCode, ErrorMessage};
use apex_core::node::authority::{Asker, HostRequest};
use apex_core::proposal::{Change, Outcome};
use apex_core::text::Text;

use super::{Event, World};
use crate::oracle::hold;
use crate::plan::Kind;
use crate::random::Random;

/// How often a put looks again for the version that it names.
const PUT_TRIES_MAX: u32 = 60;
const FENCED: &str = "a file is written under a current fence (16, I17)";
/// Bytes of a file that are read at a time.
const PIECE_LEN: usize = 900;

/// A file that is to be written.
#[derive(Clone, Debug)]
struct Put {
    asker: Asker,
    buffer: BufferId,
    version: Version,
    epoch: Epoch,
    cause: SaveCause,
    tries: u32,
}

/// Something that the host is about to do.
#[derive(Clone, Debug)]
enum Job {
    Put(Put),
    Get(Asker, BufferId),
    /// A file was looked for.
    Found(Vec<Opener>, String),
    /// The next piece of a file.
    Load(BufferId, String),
    /// A command has said something.
    Output(String),
}

/// Who wants a file to be opened.
#[derive(Clone, Copy, Debug)]
enum Opener {
    Asker(Asker),
    Show,
}

/// What a proposal of the daemon was for.
#[derive(Clone, Debug)]
enum Purpose {
    /// Reading a file again.
    Got(Asker, BufferId, String),
    Other,
}

/// The host's own books.
#[derive(Debug)]
pub(super) struct Host {
    files: BTreeMap<String, String>,
    jobs: BTreeMap<u64, Job>,
    last_job: u64,
    loading: BTreeMap<BufferId, Vec<Opener>>,
    purposes: BTreeMap<ProposalId, Purpose>,
    random: Random,
}

impl Host {
    pub(super) fn new(random: &mut Random) -> Self {
        let mut files = BTreeMap::new();
        for i in 0..6 {
            let lines = random.below([3, 40, 200][i % 3]);
            let text: String = (0..lines)
                .map(|line| format!("file {i} line {line}\n"))
                .collect();
            files.insert(format!("/w/f{i}"), text);
        }
        Self {
            files,
            jobs: BTreeMap::new(),
            last_job: 0,
            loading: BTreeMap::new(),
            purposes: BTreeMap::new(),
            random: Random::new(random.next()),
        }
    }
}

impl World {
    fn begin_job(&mut self, job: Job) {
        let after_us = if self.plan.is_on(Kind::SlowDisk) && !self.is_calm {
            self.fire(Kind::SlowDisk);
            let long = self.host.random.percent(10);
            let most = if long { 4_000_000 } else { 40_000 };
            self.host.random.below(most)
        } else {
            300
        };
        self.host.last_job += 1;
        self.host.jobs.insert(self.host.last_job, job);
        self.push(self.now_us + after_us, Event::Job(self.host.last_job));
    }

    pub(super) fn ask_host(&mut self, asker: Asker, request: HostRequest) {
        match request {
            HostRequest::Put {
                buffer,
                version,
                epoch,
                cause,
                ..
            } => {
                let tries = 0;
                let put = Put {
                    asker,
                    buffer,
                    version,
                    epoch,
                    cause,
                    tries,
                };
                self.begin_job(Job::Put(put));
            }
            HostRequest::Get(buffer) => self.begin_job(Job::Get(asker, buffer)),
            HostRequest::Open { directory, path } => {
                let name = if path.starts_with('/') {
                    path
                } else {
                    directory + &path
                };
                self.open(Opener::Asker(asker), name);
            }
            HostRequest::OpenAndShow { path, .. } => self.open(Opener::Show, path),
            HostRequest::Run(run) => {
                self.begin_job(Job::Output(run.command));
                self.answer(asker, Ok(Answer::Done));
            }
            HostRequest::Kill(_)
            | HostRequest::Pipe(_)
            | HostRequest::Read { .. }
            | HostRequest::Write { .. }
            | HostRequest::Tool(_)
            | HostRequest::Query(_)
            | HostRequest::Registry(_) => {
                let error = ErrorMessage::new(ErrorCode::NotFound, "not in this world");
                self.answer(asker, Err(error));
            }
        }
    }

    fn answer(&mut self, asker: Asker, answer: Result<Answer, ErrorMessage>) {
        if let Some(connection) = asker.connection {
            let mut out = Vec::new();
            self.authority
                .reply(connection, asker.request, answer, &mut out);
            self.deliver(out);
        }
    }

    fn propose_as_server(&mut self, changes: Vec<Change>, purpose: Purpose) {
        let now = self.clock.at(self.now_us);
        let mut out = Vec::new();
        let id = self.authority.propose_as_server(now, changes, &mut out);
        self.host.purposes.insert(id, purpose);
        self.deliver(out);
    }

    pub(super) fn job(&mut self, id: u64) {
        match self.host.jobs.remove(&id) {
            None => {}
            Some(Job::Put(put)) => self.put(put),
            Some(Job::Get(asker, buffer)) => self.get(asker, buffer),
            Some(Job::Found(openers, name)) => self.found(openers, &name),
            Some(Job::Load(buffer, rest)) => self.load(buffer, &rest),
            Some(Job::Output(text)) => {
                let name = String::from("/w/+Errors");
                let change = Change::Append { name, text };
                self.propose_as_server(vec![change], Purpose::Other);
            }
        }
    }

    fn put(&mut self, mut put: Put) {
        let fail = |code, words: &str| Err(ErrorMessage::new(code, words));
        let Some(buffer) = self.authority.node().state().buffer(put.buffer) else {
            return self.answer(put.asker, fail(ErrorCode::NotFound, "no such buffer"));
        };
        let is_late = put.tries >= PUT_TRIES_MAX;
        if buffer.version() < put.version && !is_late {
            put.tries += 1;
            return self.begin_job(Job::Put(put));
        }
        if buffer.version() != put.version || self.host.loading.contains_key(&put.buffer) {
            return self.answer(put.asker, fail(ErrorCode::Retry, "changed; put again"));
        }
        let may = self
            .authority
            .may_put(put.asker.attachment, put.buffer, put.epoch);
        if let Err(error) = may {
            return self.answer(put.asker, Err(error));
        }
        let lease = self.oracles.logs.lease(Shard::Buffer(put.buffer));
        let found = hold(
            lease == Some((put.asker.attachment, put.epoch)),
            FENCED,
            || format!("{put:?}, and the lease is {lease:?}"),
        );
        self.oracles.take(found);
        let (text, path, content) = (
            buffer.text().to_string(),
            buffer.name().to_owned(),
            buffer.content(),
        );
        let digest = *blake3::hash(text.as_bytes()).as_bytes();
        self.host.files.insert(path.clone(), text);
        self.answer(put.asker, Ok(Answer::Done));
        let (buffer, version, cause) = (put.buffer, put.version, put.cause);
        let saved = Saved {
            version,
            content,
            digest,
            path,
            cause,
        };
        self.propose_as_server(vec![Change::Saved { buffer, saved }], Purpose::Other);
    }

    fn get(&mut self, asker: Asker, id: BufferId) {
        let fail = |code, words: &str| Err(ErrorMessage::new(code, words));
        let Some(buffer) = self.authority.node().state().buffer(id) else {
            return self.answer(asker, fail(ErrorCode::NotFound, "no such buffer"));
        };
        let path = buffer.name().to_owned();
        let Some(text) = self.host.files.get(&path).cloned() else {
            return self.answer(asker, fail(ErrorCode::System, "no such file"));
        };
        if self.host.loading.contains_key(&id) {
            return self.answer(asker, fail(ErrorCode::Retry, "still being read"));
        }
        let (old, base) = (buffer.text().clone(), buffer.version());
        let Some(splice) = edit::difference(&old, &Text::from(text.as_str())) else {
            return self.answer(asker, Ok(Answer::Done));
        };
        self.oracles.typed.turn(&old.to_string(), &text);
        let splices = vec![splice];
        let change = Change::Edit {
            buffer: id,
            base,
            splices,
        };
        self.propose_as_server(vec![change], Purpose::Got(asker, id, text));
    }

    pub(super) fn host_decided(&mut self, id: ProposalId, outcome: &Outcome) {
        let Some(Purpose::Got(asker, buffer, text)) = self.host.purposes.remove(&id) else {
            return;
        };
        match outcome {
            Err(refusal) => {
                let error = ErrorMessage::new(ErrorCode::Retry, refusal.to_string());
                self.answer(asker, Err(error));
            }
            Ok(landed) => {
                self.answer(asker, Ok(Answer::Done));
                let found = self.authority.node().state().buffer(buffer);
                let Some(found) = found else { return };
                let is_whole = found.text().to_string() == text;
                let version = landed.first().map_or(found.version(), |part| part.version);
                let content = if is_whole {
                    found.content()
                } else {
                    Version::new(u64::MAX)
                };
                let (path, cause) = (found.name().to_owned(), SaveCause::Load);
                let digest = *blake3::hash(text.as_bytes()).as_bytes();
                let saved = Saved {
                    version,
                    content,
                    digest,
                    path,
                    cause,
                };
                let change = Change::Saved { buffer, saved };
                self.propose_as_server(vec![change], Purpose::Other);
            }
        }
    }

    fn open(&mut self, opener: Opener, name: String) {
        if let Some(buffer) = self.authority.node().state().buffer_named(&name) {
            return match self.host.loading.get_mut(&buffer) {
                Some(openers) => openers.push(opener),
                None => self.opened(opener, buffer),
            };
        }
        let looking = self.host.jobs.values_mut().find_map(|job| match job {
            Job::Found(openers, of) if *of == name => Some(openers),
            _ => None,
        });
        match looking {
            Some(openers) => openers.push(opener),
            None => self.begin_job(Job::Found(vec![opener], name)),
        }
    }

    fn opened(&mut self, opener: Opener, buffer: BufferId) {
        match opener {
            Opener::Asker(asker) => {
                let is_new = false;
                self.answer(asker, Ok(Answer::Opened { buffer, is_new }));
            }
            Opener::Show => {
                let address = String::new();
                self.propose_as_server(vec![Change::Show { buffer, address }], Purpose::Other);
            }
        }
    }

    fn found(&mut self, openers: Vec<Opener>, name: &str) {
        if self.authority.node().state().buffer_named(name).is_some() {
            return openers
                .into_iter()
                .for_each(|opener| self.open(opener, name.to_owned()));
        }
        let made = self.authority.node_mut().new_buffer(BufferKind::File, name);
        let Ok(buffer) = made else {
            let error = ErrorMessage::new(ErrorCode::System, "no buffer can be made");
            for opener in openers {
                if let Opener::Asker(asker) = opener {
                    self.answer(asker, Err(error.clone()));
                }
            }
            return;
        };
        match self.host.files.get(name).cloned() {
            Some(text) => {
                self.authority.begin_load(Shard::Buffer(buffer));
                self.oracles.typed.put_again(&text);
                self.host.loading.insert(buffer, openers);
                self.settle();
                self.begin_job(Job::Load(buffer, text));
            }
            None => {
                self.authority.grant_to_chief(Shard::Buffer(buffer));
                self.settle();
                for opener in openers {
                    self.opened(opener, buffer);
                }
            }
        }
    }

    fn load(&mut self, buffer: BufferId, rest: &str) {
        let shard = Shard::Buffer(buffer);
        let mut len = rest.len().min(PIECE_LEN);
        while !rest.is_char_boundary(len) {
            len -= 1;
        }
        let (piece, rest) = rest.split_at(len);
        let node = self.authority.node_mut();
        let text = piece.to_owned();
        let is_there = node.append_buffer(buffer, BufferOp::Load { text }).is_ok();
        if is_there && !rest.is_empty() {
            self.settle();
            return self.begin_job(Job::Load(buffer, rest.to_owned()));
        }
        let openers = self.host.loading.remove(&buffer).unwrap_or_default();
        for opener in openers {
            self.opened(opener, buffer);
        }
        self.authority.end_load(shard);
        self.settle();
    }

    /// Another program writes a file.
    pub(super) fn write_file(&mut self, random: &mut Random) -> bool {
        let name = format!("/w/f{}", random.below(6));
        let lines = random.below(20);
        let text = (0..lines).map(|line| format!("again {line} {}\n", random.below(9)));
        let text = text.collect();
        self.host.files.insert(name, text);
        true
    }

    /// Lets a tool lead texts, or not.
    pub(super) fn allow(&mut self, tool: AttachmentId, ms: Option<u64>) {
        let now = self.clock.at(self.now_us);
        self.oracles.logs.allow(tool, ms.is_some());
        self.authority.allow_leases(now, tool, ms);
        self.settle();
    }
}
