//! Following a session as a command: it proposes, and reads in the logs what became of it.
//!
//! A leader's decision comes before files are read and written, so a command that is about a file
//! is done when the session's logs say so, and has failed when `+Errors` of the file's directory
//! says why. It never looks at a clock for that; a daemon that says nothing at all is given up.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use apex_core::buffer::errors_name;
use apex_core::entry::{BufferKind, BufferOp, Op};
use apex_core::ids::{AttachmentId, BufferId, ProposalId, SERVER, Shard};
use apex_core::log::Record;
use apex_core::message::{Answer, ClientMessage, Query, ServerMessage};
use apex_core::node::Node;
use apex_core::node::client::{Client, ClientEvent};
use apex_core::proposal::{Change, Landed, Outcome, Refusal};

use crate::app::{directory_of, fresh_window};
use crate::cli::ask::{ANSWER_SECONDS, Asker, Context, within};
use crate::cli::error::CliError;
use crate::cli::join::{DECIDE_SECONDS, hello};
use crate::cli::place::absolute;

/// How often a proposal is sent again whose leader was changing.
const TRY_COUNT_MAX: usize = 8;

/// A command that follows a session.
#[derive(Debug)]
pub struct Following {
    asker: Asker,
    client: Client,
    /// Entries that nobody has looked at.
    records: VecDeque<Arc<Record>>,
    /// The proposal that was decided last, and how.
    decided: Option<(ProposalId, Outcome)>,
}

/// What the daemon opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its buffer.
    pub buffer: BufferId,
    /// Whether there is no such file yet.
    pub is_new: bool,
    /// Whether it is being read.
    pub reading: Reading,
}

/// Whether the daemon is reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It is, and `Saved` comes at the end.
    Goes,
    /// It is, or the buffer was made of no file before; its text is told when it is not.
    Unknown,
    /// It is not.
    Done,
}

impl Following {
    /// Joins the context's session under the name `apex COMMAND`. A session that does not exist is
    /// made.
    ///
    /// # Errors
    /// Why the daemon refused.
    pub async fn join(
        mut asker: Asker,
        context: &Context,
        command: &str,
    ) -> Result<Self, CliError> {
        let client = Client::new(hello(context, command, true));
        asker.send(&client.hello())?;
        let mut following = Self {
            asker,
            client,
            records: VecDeque::new(),
            decided: None,
        };
        let welcome = async {
            while following.client.node().is_none() {
                following.step().await?;
            }
            Ok(())
        };
        within(ANSWER_SECONDS, "the hello", welcome).await?;
        Ok(following)
    }

    /// Returns the session as this command knows it.
    ///
    /// # Panics
    /// Never: it has joined.
    #[must_use]
    pub fn node(&self) -> &Node {
        self.client.node().expect("the session was joined")
    }

    /// Proposes changes and waits for where they ended. A leader that was changing is asked again.
    ///
    /// # Errors
    /// [`CliError::Refused`], also when a change that follows the edits was refused.
    ///
    /// # Panics
    /// Never: it has joined.
    pub async fn propose(&mut self, changes: Vec<Change>) -> Result<Vec<Landed>, CliError> {
        let (id, message) = self
            .client
            .propose(changes)
            .expect("the session was joined");
        let mut tries = 0;
        loop {
            tries += 1;
            self.asker.send(&message)?;
            let decided = async {
                loop {
                    match self.decided.take() {
                        Some((decided, outcome)) if decided == id => return Ok(outcome),
                        Some(_) | None => self.step().await?,
                    }
                }
            };
            let outcome = within(DECIDE_SECONDS, "the proposal", decided).await?;
            match outcome {
                // Whoever said so has asked the daemon for a fresh state before, and the daemon
                // waits before it says that a leader is away: nothing spins here.
                Err(Refusal::Retry(_)) if tries < TRY_COUNT_MAX => {}
                outcome => {
                    let landed = outcome?;
                    let refusal = landed.iter().find_map(|landed| landed.refusal.clone());
                    return refusal.map_or(Ok(landed), |refusal| Err(refusal.into()));
                }
            }
        }
    }

    /// Makes the daemon open a file or directory. No window may show it yet.
    ///
    /// # Errors
    /// Why the daemon cannot open it.
    pub async fn open(&mut self, path: &str) -> Result<Opened, CliError> {
        let what = "the order to open";
        let message = |request| ClientMessage::FileOpen {
            request,
            directory: "/".into(),
            path: path.into(),
        };
        let known: BTreeSet<BufferId> = self.node().state().buffers().map(|(id, _)| id).collect();
        let answer = self.asker.ask(what, message).await?;
        self.catch_up()?;
        let Answer::Opened { buffer, is_new } = answer else {
            return Err(CliError::Unexpected(what));
        };
        let found = self.node().state().buffer(buffer);
        let lease = self.node().log().lease(Shard::Buffer(buffer));
        let may_be_read = !is_new
            && found.is_some_and(|b| b.kind() == BufferKind::File && b.saved().is_none())
            && lease.is_some_and(|lease| lease.holder == SERVER);
        let reading = match (may_be_read, known.contains(&buffer)) {
            (false, _) => Reading::Done,
            (true, false) => Reading::Goes,
            (true, true) => Reading::Unknown,
        };
        Ok(Opened {
            buffer,
            is_new,
            reading,
        })
    }

    /// Waits until the daemon has read a file.
    ///
    /// # Errors
    /// [`CliError::Refused`] with the words of `+Errors` when it could not.
    pub async fn read_to_end(&mut self, opened: Opened, name: &str) -> Result<(), CliError> {
        if opened.reading == Reading::Unknown {
            self.wait_for_text(opened.buffer).await?;
        }
        let is_saved = |following: &Self| {
            let buffer = following.node().state().buffer(opened.buffer);
            buffer.is_none_or(|buffer| buffer.saved().is_some())
        };
        while opened.reading == Reading::Goes && !is_saved(self) {
            if let Some(failure) = self.failure(name) {
                return Err(failure);
            }
            within(DECIDE_SECONDS, "the order to open", self.step()).await?;
        }
        self.failure(name).map_or(Ok(()), Err)
    }

    async fn wait_for_text(&mut self, buffer: BufferId) -> Result<(), CliError> {
        let what = "the question for the text";
        let query = Query::Text(buffer.to_string());
        self.asker.skip(what, query).await?;
        self.catch_up()
    }

    /// Waits for the next entry of the session, at most as long as a leader may take.
    ///
    /// # Errors
    /// [`CliError::Silent`] when none comes, or as [`Asker::receive`].
    pub async fn record(&mut self, what: &'static str) -> Result<Arc<Record>, CliError> {
        let next = async {
            loop {
                match self.records.pop_front() {
                    Some(record) => return Ok(record),
                    None => self.step().await?,
                }
            }
        };
        within(DECIDE_SECONDS, what, next).await
    }

    /// Returns what the entries that nobody has looked at say of a failure.
    fn failure(&mut self, name: &str) -> Option<CliError> {
        let records: Vec<_> = self.records.drain(..).collect();
        let words = records
            .iter()
            .find_map(|record| self.complaint(record, name));
        words.map(|words| Refusal::Refused(words).into())
    }

    /// Shows the user's working directory in a session that nobody has used, in place of the
    /// directory that the daemon laid it out with. Where the daemon has no such directory, that
    /// one stays.
    ///
    /// # Errors
    /// As [`Self::propose`].
    pub async fn begin_in(&mut self, context: &Context) -> Result<(), CliError> {
        let directory = absolute(".", &context.directory)?;
        let Some(first) = fresh_window(self.node(), &directory) else {
            return Ok(());
        };
        // What the daemon says against it is said against the directory, not the session.
        let Ok(opened) = self.open(&directory).await else {
            return Ok(());
        };
        let (buffer, address) = (opened.buffer, String::new());
        let landed = self.propose(vec![Change::Show { buffer, address }]).await?;
        let is_directory = self
            .node()
            .state()
            .buffer(buffer)
            .is_some_and(|found| found.kind() == BufferKind::Directory);
        let shown = landed.first().and_then(|landed| landed.window);
        let closed = if is_directory { Some(first) } else { shown };
        if let Some(closed) = closed {
            self.propose(vec![Change::Close(closed)]).await?;
        }
        Ok(())
    }

    /// Returns what an entry adds about a file to `+Errors` of its directory.
    #[must_use]
    pub fn complaint(&self, record: &Record, name: &str) -> Option<String> {
        let Shard::Buffer(id) = record.shard else {
            return None;
        };
        let Op::Buffer(BufferOp::Edit { splices, .. }) = &record.entry.op else {
            return None;
        };
        if self.node().state().buffer(id)?.name() != errors_about(name) {
            return None;
        }
        let words: String = splices.iter().map(|splice| splice.text.as_str()).collect();
        // Output of commands comes there too.
        let is_about = words.contains(name) || words.contains("not written");
        is_about.then(|| words.trim().to_owned())
    }

    /// Takes what came behind an answer.
    fn catch_up(&mut self) -> Result<(), CliError> {
        while let Some(message) = self.asker.set_aside() {
            self.take(message)?;
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<(), CliError> {
        let message = self.asker.receive().await?;
        self.take(message)
    }

    fn take(&mut self, message: ServerMessage) -> Result<(), CliError> {
        let mut answers = Vec::new();
        let events = self.client.receive(message, &mut answers);
        answers
            .iter()
            .try_for_each(|answer| self.asker.send(answer))?;
        for event in events {
            match event {
                ClientEvent::Entries(records) => self.records.extend(records),
                ClientEvent::Decided { id, outcome } => self.decided = Some((id, outcome)),
                ClientEvent::Error(error) => return Err(CliError::Answer(error)),
                ClientEvent::Welcome
                | ClientEvent::Reply { .. }
                | ClientEvent::LeadershipChanged
                | ClientEvent::Overtaken { .. }
                | ClientEvent::Resumed
                | ClientEvent::Recovered(_)
                | ClientEvent::Diverged(_)
                | ClientEvent::FollowUp(_) => {}
            }
        }
        Ok(())
    }

    /// Returns the command's attachment.
    #[must_use]
    pub fn attachment(&self) -> AttachmentId {
        self.node().attachment()
    }

    /// Leaves the session.
    ///
    /// # Errors
    /// [`CliError::Link`] when the daemon does not hear it.
    pub async fn leave(mut self) -> Result<(), CliError> {
        self.asker.send(&ClientMessage::Detach)?;
        self.asker.leave().await
    }
}

/// Returns the name of the window that messages about a file go to.
fn errors_about(name: &str) -> String {
    let name = name.strip_suffix('/').unwrap_or(name);
    errors_name(directory_of(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_a_file_are_looked_for_in_its_directory() {
        for (name, expect) in [
            ("/a/b", "/a/+Errors"),
            ("/a", "/+Errors"),
            ("/a/b/", "/a/+Errors"),
            ("", "/+Errors"),
        ] {
            assert_eq!(errors_about(name), expect, "{name}");
        }
    }
}
