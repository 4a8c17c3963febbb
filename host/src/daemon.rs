//! The daemon's own task: it takes connections, knows the sessions by label, and ends cleanly.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use apex_core::ids::{Millis, RequestId, SessionId};
use apex_core::limits;
use apex_core::message::{Answer, ErrorCode, ErrorMessage, SessionInfo, SessionName};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};

use crate::clock::Clock;
use crate::config::{
    CONNECTION_COUNT_MAX, END_WAIT_MS, INFO_WAIT_MS, Paths, SESSION_COUNT_MAX, SOCKET_CHECK_MS,
};
use crate::desk::{Ask, DaemonInput, Desk, SessionDoor};
use crate::link::connection::{self, BUILD};
use crate::link::{Accepted, Listener};
use crate::seam::{Asker, SessionInput, ToolHandle, ToolHostMessage};
use crate::session::{self, Ended, SessionConfig};
use crate::{diary, files};

/// What the daemon is started with.
#[derive(Debug)]
pub struct DaemonConfig {
    /// Where its things are.
    pub paths: Paths,
    /// The way to the tool host.
    pub tools: ToolHandle,
    /// After how long without a connection it ends, if it does.
    pub idle_exit: Option<Duration>,
}

/// A session, as the daemon knows it.
#[derive(Debug)]
struct Entry {
    label: String,
    inputs: mpsc::Sender<SessionInput>,
}

/// What wakes the daemon.
enum Wake {
    Connection(io::Result<Accepted>),
    ConnectionEnded,
    Input(DaemonInput),
    SessionEnded(SessionId, Result<Ended, JoinError>),
    CheckSocket,
    Idle,
    Shutdown,
}

struct Daemon {
    config: DaemonConfig,
    listener: Listener,
    clock: Clock,
    desk: Desk,
    sessions: BTreeMap<SessionId, Entry>,
    session_tasks: JoinSet<(SessionId, Result<Ended, JoinError>)>,
    connections: JoinSet<()>,
    /// Since when nobody is connected.
    idle_since: Option<Millis>,
    next_check: Millis,
}

/// Serves until `shutdown` is done, or until nobody was connected for long enough.
pub async fn run(config: DaemonConfig, listener: Listener, shutdown: impl Future<Output = ()>) {
    let clock = Clock::start();
    let (desk, mut inputs) = Desk::new();
    let mut daemon = Daemon {
        config,
        listener,
        clock,
        desk,
        sessions: BTreeMap::new(),
        session_tasks: JoinSet::new(),
        connections: JoinSet::new(),
        idle_since: Some(clock.now()),
        next_check: clock.now().after(SOCKET_CHECK_MS),
    };
    tokio::pin!(shutdown);
    loop {
        let wake = tokio::select! {
            () = &mut shutdown => Wake::Shutdown,
            wake = daemon.wake(&mut inputs) => wake,
        };
        match wake {
            Wake::Connection(accepted) => daemon.take_connection(accepted).await,
            Wake::ConnectionEnded => {}
            Wake::Input(input) => daemon.take(input).await,
            Wake::SessionEnded(session, ended) => daemon.session_ended(session, ended),
            Wake::CheckSocket => {
                daemon.next_check = clock.now().after(SOCKET_CHECK_MS);
                daemon.listener.renew();
            }
            Wake::Idle => {
                diary::info(format_args!("nobody is connected; ending"));
                break;
            }
            Wake::Shutdown => break,
        }
        daemon.note_idle();
    }
    drop(inputs);
    daemon.end().await;
}

impl Daemon {
    async fn wake(&mut self, inputs: &mut mpsc::Receiver<DaemonInput>) -> Wake {
        let idle_end = self.idle_end();
        let idle_at = self.clock.instant_of(idle_end.unwrap_or_default());
        let check_at = self.clock.instant_of(self.next_check);
        tokio::select! {
            accepted = self.listener.accept() => Wake::Connection(accepted),
            input = inputs.recv() => {
                Wake::Input(input.expect("the daemon holds a sender of its own queue"))
            }
            Some(_) = self.connections.join_next() => Wake::ConnectionEnded,
            Some(Ok((session, ended))) = self.session_tasks.join_next() => {
                Wake::SessionEnded(session, ended)
            }
            () = tokio::time::sleep_until(idle_at), if idle_end.is_some() => Wake::Idle,
            () = tokio::time::sleep_until(check_at) => Wake::CheckSocket,
        }
    }

    fn idle_end(&self) -> Option<Millis> {
        let wait_ms = u64::try_from(self.config.idle_exit?.as_millis()).unwrap_or(u64::MAX);
        self.idle_since.map(|since| since.after(wait_ms))
    }

    fn note_idle(&mut self) {
        if !self.connections.is_empty() {
            self.idle_since = None;
        } else if self.idle_since.is_none() {
            self.idle_since = Some(self.clock.now());
        }
    }

    async fn take_connection(&mut self, accepted: io::Result<Accepted>) {
        match accepted {
            Ok(Accepted::Peer(stream)) if self.connections.len() < CONNECTION_COUNT_MAX => {
                self.connections
                    .spawn(connection::serve(stream, self.desk.clone()));
            }
            Ok(Accepted::Peer(stream)) => {
                let words = format!("{CONNECTION_COUNT_MAX} connections are open already");
                let error = ErrorMessage::new(ErrorCode::Limit, words);
                tokio::spawn(connection::refuse(stream, error));
            }
            Ok(Accepted::Stranger(stream, uid)) => {
                diary::warning(format_args!("user {uid} was refused"));
                let words = "this apexd serves another user; start your own with apex";
                let error = ErrorMessage::new(ErrorCode::Denied, words);
                tokio::spawn(connection::refuse(stream, error));
            }
            Err(error) => {
                diary::error(format_args!("cannot take a connection: {error}"));
                // Out of file descriptors, say: trying at once would spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    async fn take(&mut self, input: DaemonInput) {
        match input {
            // Who asked may have gone.
            DaemonInput::Find {
                name,
                is_made,
                reply,
            } => {
                drop(reply.send(self.find(name, is_made)));
            }
            DaemonInput::Ask {
                asker,
                request,
                ask,
            } => self.answer(asker, request, ask).await,
        }
    }

    fn find(&mut self, name: SessionName, is_made: bool) -> Result<SessionDoor, ErrorMessage> {
        let found = match &name {
            SessionName::Id(id) => self.sessions.get_key_value(id),
            SessionName::Label(label) => self.labelled(label),
        };
        match (found, name) {
            (Some((id, entry)), _) => Ok(SessionDoor {
                session: *id,
                inputs: entry.inputs.clone(),
            }),
            (None, SessionName::Label(label)) if is_made => self.make(label),
            (None, SessionName::Label(label)) => Err(no_session(&label)),
            (None, SessionName::Id(id)) => Err(no_session(&id.to_string())),
        }
    }

    fn labelled(&self, label: &str) -> Option<(&SessionId, &Entry)> {
        self.sessions.iter().find(|(_, entry)| entry.label == label)
    }

    fn make(&mut self, label: String) -> Result<SessionDoor, ErrorMessage> {
        check_label(&label)?;
        if self.sessions.len() >= SESSION_COUNT_MAX {
            let words = format!("{SESSION_COUNT_MAX} sessions exist already; end some");
            return Err(ErrorMessage::new(ErrorCode::Limit, words));
        }
        let paths = &self.config.paths;
        let (door, task) = session::start(SessionConfig {
            label: label.clone(),
            directory: files::name_of(&paths.home_dir),
            settings_path: paths.settings(),
            rescue_dir: paths.rescued(),
            diverged_dir: paths.diverged(),
            clock: self.clock,
            desk: self.desk.clone(),
            tools: self.config.tools.clone(),
        });
        diary::info(format_args!("session {label} is {}", door.session));
        self.sessions.insert(
            door.session,
            Entry {
                label,
                inputs: door.inputs.clone(),
            },
        );
        let session = door.session;
        self.session_tasks
            .spawn(async move { (session, task.await) });
        Ok(door)
    }

    fn session_ended(&mut self, session: SessionId, ended: Result<Ended, JoinError>) {
        let label = self
            .sessions
            .remove(&session)
            .map_or_else(String::new, |entry| entry.label);
        match ended {
            Ok(Ended { panic: None, .. }) => diary::info(format_args!("session {session} ended")),
            Ok(Ended {
                panic: Some((words, files)),
                ..
            }) => diary::error(format_args!(
                "session {label} ({session}) failed: {words}; {} texts were rescued",
                files.len()
            )),
            Err(error) => {
                diary::error(format_args!(
                    "session {label} ({session}) failed at its end: {error}"
                ));
            }
        }
    }

    async fn answer(&mut self, asker: Asker, request: RequestId, ask: Ask) {
        let done = match ask {
            Ask::Sessions => {
                let inputs = self
                    .sessions
                    .values()
                    .map(|entry| entry.inputs.clone())
                    .collect();
                tokio::spawn(list_sessions(inputs, asker, request));
                return;
            }
            Ask::Tools | Ask::ToolLog(_) | Ask::Tool(_) => {
                tokio::spawn(ask_tools(self.config.tools.clone(), asker, request, ask));
                return;
            }
            Ask::Status => Ok(Answer::Lines(self.status())),
            Ask::SessionNew(label) => match self.labelled(&label) {
                Some(_) => Err(ErrorMessage::new(
                    ErrorCode::Exists,
                    format!("a session {label} exists already; apex -s {label} joins it"),
                )),
                None => self.make(label).map(|_| Answer::Done),
            },
            Ask::SessionRename { label, new_label } => self.rename(&label, new_label).await,
            Ask::SessionDelete(label) => match self.labelled(&label).map(|(id, _)| *id) {
                Some(id) => {
                    self.delete(id, asker, request);
                    return;
                }
                None => Err(no_session(&label)),
            },
        };
        asker.reply(request, done);
    }

    async fn rename(&mut self, label: &str, new_label: String) -> Result<Answer, ErrorMessage> {
        check_label(&new_label)?;
        if self.labelled(label).is_none() {
            return Err(no_session(label));
        }
        if self.labelled(&new_label).is_some() {
            let words = format!("a session {new_label} exists already; choose another label");
            return Err(ErrorMessage::new(ErrorCode::Exists, words));
        }
        let entry = self
            .sessions
            .values_mut()
            .find(|entry| entry.label == label);
        let entry = entry.ok_or_else(|| no_session(label))?;
        entry.label.clone_from(&new_label);
        // A session that has ended is removed by its own report.
        drop(
            entry
                .inputs
                .send(SessionInput::Rename { label: new_label })
                .await,
        );
        Ok(Answer::Done)
    }

    /// Ends a session; its label is free at once, the answer comes when it has ended.
    fn delete(&mut self, id: SessionId, asker: Asker, request: RequestId) {
        let Some(entry) = self.sessions.remove(&id) else {
            return;
        };
        tokio::spawn(async move {
            let words = format!("the session {} was ended", entry.label);
            let reason = ErrorMessage::new(ErrorCode::NotFound, words);
            let (reply, ended) = oneshot::channel();
            let input = SessionInput::End {
                reason,
                rescue_dir: None,
                reply,
            };
            if entry.inputs.send(input).await.is_ok() {
                // An error here means that it ended by itself meanwhile.
                drop(ended.await);
            }
            asker.reply(request, Ok(Answer::Done));
        });
    }

    fn status(&self) -> Vec<String> {
        let seconds = self.clock.now().raw() / 1000;
        vec![
            format!("build {BUILD}"),
            format!("process {}", std::process::id()),
            format!("socket {}", self.config.paths.socket().display()),
            format!("uptime {seconds} s"),
            format!("sessions {}", self.sessions.len()),
            format!("connections {}", self.connections.len()),
        ]
    }

    /// Ends everything: texts are rescued, tools and commands stopped, peers told.
    async fn end(mut self) {
        let reason = ErrorMessage::new(
            ErrorCode::Retry,
            format!(
                "the daemon ended; texts that were not put are in {}",
                self.config.paths.rescued().display()
            ),
        );
        let mut ends = JoinSet::new();
        for entry in self.sessions.into_values() {
            let (reply, ended) = oneshot::channel();
            let rescue_dir = Some(self.config.paths.rescued());
            let input = SessionInput::End {
                reason: reason.clone(),
                rescue_dir,
                reply,
            };
            ends.spawn(async move {
                let sent = entry.inputs.send(input).await.is_ok();
                let files = if sent {
                    ended.await.unwrap_or_default()
                } else {
                    Vec::new()
                };
                (entry.label, files)
            });
        }
        let wait = Duration::from_millis(END_WAIT_MS);
        let ending = async {
            while let Some(ended) = ends.join_next().await {
                if let Ok((label, files)) = ended {
                    diary::info(format_args!(
                        "session {label}: {} texts rescued",
                        files.len()
                    ));
                }
            }
            let (reply, stopped) = oneshot::channel();
            self.config.tools.send(ToolHostMessage::Shutdown { reply });
            // Without a tool host there is nobody to answer.
            drop(stopped.await);
            while self.session_tasks.join_next().await.is_some() {}
        };
        if tokio::time::timeout(wait, ending).await.is_err() {
            diary::error(format_args!("not everything ended within {END_WAIT_MS} ms"));
        }
        self.listener.close();
        // Those that never joined wait for nothing any more; those that did are writing last words.
        let leaving = async { while self.connections.join_next().await.is_some() {} };
        drop(tokio::time::timeout(Duration::from_millis(LAST_WORDS_MS), leaving).await);
    }
}

/// How long peers have to take their last words when the daemon ends, in milliseconds.
const LAST_WORDS_MS: u64 = 500;

fn no_session(name: &str) -> ErrorMessage {
    let words = format!("no session {name}; apex ls lists them, apex new {name} makes it");
    ErrorMessage::new(ErrorCode::NotFound, words)
}

fn check_label(label: &str) -> Result<(), ErrorMessage> {
    let is_good = !label.is_empty()
        && label.len() <= limits::NAME_LEN_MAX
        && !label.chars().any(char::is_control);
    if is_good {
        return Ok(());
    }
    let words = "a session's label is a line of text, and not empty";
    Err(ErrorMessage::new(ErrorCode::BadOp, words))
}

/// Asks all sessions what they are, and sends the list, in order of label.
async fn list_sessions(
    sessions: Vec<mpsc::Sender<SessionInput>>,
    asker: Asker,
    request: RequestId,
) {
    let mut asks = JoinSet::new();
    for inputs in sessions {
        asks.spawn(async move {
            let (reply, info) = oneshot::channel();
            inputs.send(SessionInput::Info { reply }).await.ok()?;
            let wait = Duration::from_millis(INFO_WAIT_MS);
            tokio::time::timeout(wait, info).await.ok()?.ok()
        });
    }
    let mut infos: Vec<SessionInfo> = Vec::new();
    while let Some(info) = asks.join_next().await {
        infos.extend(info.ok().flatten());
    }
    infos.sort_by(|a, b| a.label.cmp(&b.label));
    asker.reply(request, Ok(Answer::Sessions(infos)));
}

async fn ask_tools(tools: ToolHandle, asker: Asker, request: RequestId, ask: Ask) {
    let (reply, answer) = oneshot::channel();
    let answer = match ask {
        Ask::ToolLog(tool) => {
            let (reply, lines) = oneshot::channel();
            tools.send(ToolHostMessage::Log { tool, reply });
            lines
                .await
                .unwrap_or_else(|_| Err(no_tools()))
                .map(Answer::Lines)
        }
        Ask::Tool(order) => {
            tools.send(ToolHostMessage::Order { order, reply });
            answer.await.unwrap_or_else(|_| Err(no_tools()))
        }
        Ask::Tools
        | Ask::Sessions
        | Ask::Status
        | Ask::SessionNew(_)
        | Ask::SessionRename { .. }
        | Ask::SessionDelete(_) => Ok(Answer::Tools(tools.list().await)),
    };
    asker.reply(request, answer);
}

fn no_tools() -> ErrorMessage {
    ErrorMessage::new(
        ErrorCode::NotFound,
        "no tools run here; start apexd without --no-tools",
    )
}

#[cfg(test)]
mod tests;
