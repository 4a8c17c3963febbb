//! Asking the daemon: requests and their answers on one connection, without joining a session.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use apex_core::ids::RequestId;
use apex_core::message::{
    Answer, BufferInfo, ClientMessage, Query, ServerMessage, SessionInfo, SessionName,
};
use tokio::time::timeout;

use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::link::Link;
use crate::link::runtime::RuntimeDir;
use crate::link::start::{Launch, connect_or_start};

/// How long the daemon may take to answer, in seconds.
pub const ANSWER_SECONDS: u64 = 10;
/// How long the rest of what was sent may take to leave, in seconds.
const LEAVE_SECONDS: u64 = 1;

/// What every command knows.
#[derive(Clone, Debug)]
pub struct Context {
    /// Where the daemon is.
    pub runtime: RuntimeDir,
    /// Label of the session that the command is about.
    pub session: String,
    /// Where relative names start.
    pub directory: PathBuf,
}

impl Context {
    /// Returns the name of the session that the command is about.
    #[must_use]
    pub fn session_name(&self) -> SessionName {
        SessionName::Label(self.session.clone())
    }
}

/// What to do when no daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Start it.
    Start,
    /// Fail: what is asked for cannot be there.
    Fail,
}

/// A connection with requests on it.
#[derive(Debug)]
pub struct Asker {
    link: Link,
    last_request: RequestId,
    aside: VecDeque<ServerMessage>,
}

impl Asker {
    /// Connects.
    ///
    /// # Errors
    /// [`CliError::Link`].
    pub async fn connect(context: &Context, missing: Missing) -> Result<Self, CliError> {
        let link = match missing {
            Missing::Start => connect_or_start(&context.runtime, Launch::of_process).await?,
            Missing::Fail => Link::connect(&context.runtime).await?,
        };
        Ok(Self {
            link,
            last_request: RequestId::default(),
            aside: VecDeque::new(),
        })
    }

    /// Sends a message that has no answer, or whose answer is received with [`Self::receive`].
    ///
    /// # Errors
    /// [`CliError::Link`].
    pub fn send(&mut self, message: &ClientMessage) -> Result<(), CliError> {
        Ok(self.link.send(message)?)
    }

    /// Waits for the next message that is no answer, however long that takes.
    ///
    /// # Errors
    /// [`CliError::Link`].
    pub async fn receive(&mut self) -> Result<ServerMessage, CliError> {
        match self.aside.pop_front() {
            Some(message) => Ok(message),
            None => Ok(self.link.receive().await?),
        }
    }

    /// Returns the next message that came before an answer that was waited for, and is none.
    pub fn set_aside(&mut self) -> Option<ServerMessage> {
        self.aside.pop_front()
    }

    /// Sends the request that `message` makes of an id, and waits for its answer.
    ///
    /// # Errors
    /// [`CliError::Answer`] when the daemon refuses, [`CliError::Silent`] when it says nothing.
    pub async fn ask(
        &mut self,
        what: &'static str,
        message: impl FnOnce(RequestId) -> ClientMessage,
    ) -> Result<Answer, CliError> {
        let request = self.begin(message)?;
        self.answer(what, request).await
    }

    /// Asks something of a session, or of the daemon.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn query(
        &mut self,
        what: &'static str,
        session: Option<SessionName>,
        query: Query,
    ) -> Result<Answer, CliError> {
        self.ask(what, |request| ClientMessage::Query {
            request,
            session,
            query,
        })
        .await
    }

    /// Orders something that has no more to say than that it was done.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn order(
        &mut self,
        what: &'static str,
        message: impl FnOnce(RequestId) -> ClientMessage,
    ) -> Result<Vec<String>, CliError> {
        match self.ask(what, message).await? {
            Answer::Done => Ok(Vec::new()),
            Answer::Lines(lines) => Ok(lines),
            _ => Err(CliError::Unexpected(what)),
        }
    }

    /// Returns the sessions.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn sessions(&mut self) -> Result<Vec<SessionInfo>, CliError> {
        let what = "the question for sessions";
        match self.query(what, None, Query::Sessions).await? {
            Answer::Sessions(sessions) => Ok(sessions),
            _ => Err(CliError::Unexpected(what)),
        }
    }

    /// Fails unless the session of the context exists.
    ///
    /// # Errors
    /// [`CliError::NoSession`], or as [`Self::ask`].
    pub async fn check_session(&mut self, context: &Context) -> Result<(), CliError> {
        let labels: Vec<String> = self
            .sessions()
            .await?
            .into_iter()
            .map(|session| session.label)
            .collect();
        if labels.contains(&context.session) {
            return Ok(());
        }
        Err(CliError::NoSession {
            label: context.session.clone(),
            labels,
        })
    }

    /// Returns the buffers of the context's session.
    ///
    /// # Errors
    /// [`CliError::NoSession`], or as [`Self::ask`].
    pub async fn buffers(&mut self, context: &Context) -> Result<Vec<BufferInfo>, CliError> {
        self.check_session(context).await?;
        let what = "the question for buffers";
        match self
            .query(what, Some(context.session_name()), Query::Session)
            .await?
        {
            Answer::Session { buffers, .. } => Ok(buffers),
            _ => Err(CliError::Unexpected(what)),
        }
    }

    /// Copies the bytes that answer a query to an output; every piece has its own time limit.
    ///
    /// # Errors
    /// As [`Self::ask`], and [`CliError::Output`].
    pub async fn copy(
        &mut self,
        what: &'static str,
        context: &Context,
        query: Query,
        output: &mut Output,
    ) -> Result<(), CliError> {
        let session = Some(context.session_name());
        let take = |bytes: &[u8]| output.bytes(bytes);
        self.pieces(what, (session, query), take).await
    }

    /// Waits for the bytes that answer a query about the session that was joined.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn skip(&mut self, what: &'static str, query: Query) -> Result<(), CliError> {
        self.pieces(what, (None, query), |_| Ok(())).await
    }

    async fn pieces(
        &mut self,
        what: &'static str,
        (session, query): (Option<SessionName>, Query),
        mut take: impl FnMut(&[u8]) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let request = self.begin(|request| ClientMessage::Query {
            request,
            session,
            query,
        })?;
        loop {
            let Answer::Piece { bytes, is_last } = self.answer(what, request).await? else {
                return Err(CliError::Unexpected(what));
            };
            take(&bytes)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Waits until what was sent has left.
    ///
    /// # Errors
    /// [`CliError::Link`] when it cannot leave.
    pub async fn leave(mut self) -> Result<(), CliError> {
        match timeout(Duration::from_secs(LEAVE_SECONDS), self.link.flush()).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(CliError::Silent {
                what: "the last message",
                seconds: LEAVE_SECONDS,
            }),
        }
    }

    fn begin(
        &mut self,
        message: impl FnOnce(RequestId) -> ClientMessage,
    ) -> Result<RequestId, CliError> {
        self.last_request = self.last_request.next();
        self.link.send(&message(self.last_request))?;
        Ok(self.last_request)
    }

    async fn answer(&mut self, what: &'static str, wanted: RequestId) -> Result<Answer, CliError> {
        let answer = async {
            loop {
                match self.link.receive().await? {
                    ServerMessage::Reply { request, answer } if request == wanted => {
                        return answer.map_err(CliError::Answer);
                    }
                    ServerMessage::Error { error, .. } => return Err(CliError::Answer(error)),
                    message => self.aside.push_back(message),
                }
            }
        };
        within(ANSWER_SECONDS, what, answer).await
    }
}

/// Waits at most so many seconds for the answer to `what`.
///
/// # Errors
/// [`CliError::Silent`] then; otherwise what `answer` says.
pub async fn within<T>(
    seconds: u64,
    what: &'static str,
    answer: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    match timeout(Duration::from_secs(seconds), answer).await {
        Ok(result) => result,
        Err(_) => Err(CliError::Silent { what, seconds }),
    }
}

/// Returns the buffer that a person means: by id, by its name, or by a name from `context`'s
/// directory.
///
/// # Errors
/// [`CliError::NoBuffer`], and [`CliError::ManyBuffers`] where a name is not enough.
pub fn find_buffer<'a>(
    buffers: &'a [BufferInfo],
    wanted: &str,
    context: &Context,
) -> Result<&'a BufferInfo, CliError> {
    let by_id = buffers
        .iter()
        .find(|buffer| buffer.id.to_string() == wanted);
    if let Some(buffer) = by_id {
        return Ok(buffer);
    }
    let path = crate::cli::place::absolute(wanted, &context.directory)?;
    for name in [wanted, &path] {
        let found: Vec<_> = buffers
            .iter()
            .filter(|buffer| is_named(buffer, name))
            .collect();
        match found.as_slice() {
            [] => {}
            [buffer] => return Ok(buffer),
            several => {
                return Err(CliError::ManyBuffers {
                    name: name.into(),
                    ids: several.iter().map(|buffer| buffer.id.to_string()).collect(),
                });
            }
        }
    }
    Err(CliError::NoBuffer(wanted.into()))
}

/// Names of directories end in a slash, which nobody types.
fn is_named(buffer: &BufferInfo, name: &str) -> bool {
    !name.is_empty() && (buffer.name == name || buffer.name.strip_suffix('/') == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::runtime::Surroundings;
    use apex_core::ids::{BufferId, SERVER, Version};

    fn buffer(id: u64, name: &str) -> BufferInfo {
        BufferInfo {
            id: BufferId::new(id),
            name: name.into(),
            version: Version::new(1),
            len: 0,
            is_modified: false,
            leader: SERVER,
        }
    }

    #[test]
    fn a_buffer_is_found_by_id_then_name_then_name_from_here() {
        let context = Context {
            runtime: RuntimeDir::find(&Surroundings::default()).unwrap(),
            session: "main".into(),
            directory: "/src".into(),
        };
        let buffers = [
            buffer(1, "/src/a"),
            buffer(2, "/src/d/"),
            buffer(3, "+Recovered"),
            buffer(4, "/src/twice"),
            buffer(5, "/src/twice"),
            buffer(6, ""),
        ];
        for (wanted, id) in [
            ("1", 1),
            ("/src/a", 1),
            ("a", 1),
            ("./a", 1),
            ("d", 2),
            ("d/", 2),
            ("+Recovered", 3),
        ] {
            let found = find_buffer(&buffers, wanted, &context).unwrap();
            assert_eq!(found.id, BufferId::new(id), "{wanted}");
        }
        let many = find_buffer(&buffers, "twice", &context).unwrap_err();
        assert_eq!(
            many.words(),
            "apex: 2 buffers have the name \"/src/twice\"\napex: name one by its id: 4, 5\n"
        );
        for wanted in ["b", "9", ""] {
            let error = find_buffer(&buffers, wanted, &context).unwrap_err();
            assert!(matches!(error, CliError::NoBuffer(_)), "{wanted}: {error}");
        }
    }
}
