//! Commands of a session: their output goes to the error window of their directory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apex_core::buffer::errors_name;
use apex_core::edit::Splice;
use apex_core::entry::MetaOp;
use apex_core::ids::ProcessId;
use apex_core::limits::YIELD_LEN_MAX;
use apex_core::message::{Answer, ErrorCode, ErrorMessage, Pipe, PipeInput, PipeOutput};
use apex_core::node::authority::Asker;
use apex_core::proposal::Change;
use apex_core::text::{Span, Text};
use tokio::sync::{Notify, mpsc, oneshot};

use super::{OnDecided, Session};
use crate::config::{KILL_WAIT_MS, OUTPUT_LEN_MAX, PROCESS_COUNT_MAX};
use crate::process::{self, Event, Group, Job, Running, Way};
use crate::seam::{SessionInput, TaskReport};

/// The commands that run, or whose output is still held open.
#[derive(Debug, Default)]
pub(super) struct Commands {
    running: BTreeMap<ProcessId, Command>,
}

#[derive(Debug)]
struct Command {
    group: Group,
    /// The name of the window that its output goes to.
    errors: String,
    command: String,
    kill: Arc<Notify>,
    /// Who waits for what it prints.
    asker: Option<Asker>,
}

impl Commands {
    /// Ends them all, at once.
    pub(super) fn kill_all(&self) {
        for command in self.running.values() {
            command.group.kill();
        }
    }
}

impl Session {
    /// Runs a command for an edit, on a part of a text as whoever asks sees it.
    pub(super) fn pipe(&mut self, asker: Asker, pipe: Pipe) {
        let input = pipe.input.map(|input| self.part(input)).transpose();
        match input {
            Ok(input) => {
                let job = Job {
                    directory: pipe.directory,
                    command: pipe.command,
                    environment: pipe.environment,
                    input,
                    is_answered: pipe.output == PipeOutput::Answer,
                };
                self.run_command(asker, &job);
            }
            Err(error) => self.answer(asker, Err(error)),
        }
    }

    /// Returns a part of a text, where it stands by now.
    fn part(&self, input: PipeInput) -> Result<(Text, Span), ErrorMessage> {
        let PipeInput {
            buffer: id,
            version,
            at,
        } = input;
        let node = self.authority.node();
        let Some(buffer) = node.state().buffer(id) else {
            let words = format!("no buffer {id}");
            return Err(ErrorMessage::new(ErrorCode::NotFound, words));
        };
        let carried = node.carry(id, version, vec![Splice::new(at, "")]);
        let now = match carried.as_deref() {
            Ok([splice]) => splice.at,
            // Nothing is read, wherever that is.
            Ok(_) => Span::at(0),
            Err(_) => {
                let name = buffer.name();
                let words = format!("{name} was changed meanwhile; nothing was done, do it again");
                return Err(ErrorMessage::new(ErrorCode::Retry, words));
            }
        };
        if !now.fits(buffer.text().len()) {
            let words = format!("#{},#{} is outside the text", at.q0, at.q1);
            return Err(ErrorMessage::new(ErrorCode::BadOp, words));
        }
        Ok((buffer.text().clone(), now))
    }

    pub(super) fn run_command(&mut self, asker: Asker, job: &Job) {
        if self.commands.running.len() >= PROCESS_COUNT_MAX {
            let words = format!("{PROCESS_COUNT_MAX} commands run already; kill some");
            return self.answer(asker, Err(ErrorMessage::new(ErrorCode::Limit, words)));
        }
        let label = self.config.label.clone();
        let running = match process::start(job, &[("APEX_SESSION", &label)]) {
            Ok(running) => running,
            Err(error) => {
                let error = ErrorMessage::new(ErrorCode::System, error.to_string());
                return self.answer(asker, Err(error));
            }
        };
        let process = self.authority.node_mut().new_process();
        let (owner, command) = (asker.attachment, job.command.clone());
        self.append_meta(MetaOp::ProcStart {
            process,
            owner,
            command: command.clone(),
        });
        let kill = Arc::new(Notify::new());
        let errors = errors_name(&job.directory);
        let entry = Command {
            group: running.group(),
            errors,
            command,
            kill: kill.clone(),
            asker: job.is_answered.then_some(asker),
        };
        self.commands.running.insert(process, entry);
        self.settle();
        self.answer(asker, Ok(Answer::Started(process)));
        tokio::spawn(attend(process, running, kill, self.inputs.clone()));
    }

    pub(super) fn settle(&mut self) {
        let now = self.now();
        self.authority.settle(now, &mut self.out);
    }

    pub(super) fn kill(&self, process: ProcessId) -> Result<Answer, ErrorMessage> {
        let Some(command) = self.commands.running.get(&process) else {
            let words = format!("no process {process} runs");
            return Err(ErrorMessage::new(ErrorCode::NotFound, words));
        };
        command.kill.notify_one();
        Ok(Answer::Done)
    }

    pub(super) fn process_event(
        &mut self,
        process: ProcessId,
        event: Option<Event>,
        permit: oneshot::Sender<()>,
    ) {
        let Some(command) = self.commands.running.get_mut(&process) else {
            return;
        };
        let (errors, name) = (command.errors.clone(), command.command.clone());
        let text = match event {
            None => {
                self.commands.running.remove(&process);
                return;
            }
            Some(Event::Output(Way::Window, text)) => Some(text),
            Some(Event::Output(Way::Answer, text)) => {
                let asker = command.asker;
                return self.answer_piece(asker, text, permit);
            }
            Some(Event::Cut(Way::Window)) => Some(format!(
                "\n{name}: what it writes past {OUTPUT_LEN_MAX} bytes is not kept\n"
            )),
            Some(Event::Cut(Way::Answer)) => {
                command.group.kill();
                if let Some(asker) = command.asker.take() {
                    let words = format!("{name} prints more than {YIELD_LEN_MAX} bytes");
                    self.answer(asker, Err(ErrorMessage::new(ErrorCode::Limit, words)));
                }
                None
            }
            Some(Event::Exited(code)) => {
                let asker = command.asker.take();
                self.append_meta(MetaOp::ProcExit { process, code });
                self.settle();
                if let Some(asker) = asker {
                    self.answer(asker, Ok(Answer::Exited(code)));
                }
                status_line(&name, code)
            }
        };
        match text {
            Some(text) => {
                let change = Change::Append { name: errors, text };
                self.propose(vec![change], OnDecided::Release(permit));
            }
            // The command goes on.
            None => drop(permit.send(())),
        }
    }

    /// Answers a piece of what a command prints. It goes on when whoever asked has room for more;
    /// what nobody waits for is dropped.
    fn answer_piece(&mut self, asker: Option<Asker>, text: String, permit: oneshot::Sender<()>) {
        if let Some(asker) = asker {
            self.answer(asker, Ok(Answer::Text(text)));
        }
        let connection = asker.and_then(|asker| asker.connection);
        let peer = connection.and_then(|connection| self.peers.get(&connection));
        let peer = peer.map(|peer| peer.asker.clone());
        tokio::spawn(async move {
            if let Some(peer) = peer {
                peer.room().await;
            }
            // The session may have ended.
            let _ = permit.send(());
        });
    }
}

/// Returns what is printed of an exit code; nothing for success.
fn status_line(command: &str, code: i32) -> Option<String> {
    let first_line = command.lines().next().unwrap_or_default();
    match code {
        0 => None,
        129..=192 => Some(format!("{first_line}: ended by signal {}\n", code - 128)),
        code => Some(format!("{first_line}: exit status {code}\n")),
    }
}

/// Reads a command to its end, one event at a time as the session takes them.
async fn attend(
    process: ProcessId,
    mut running: Running,
    kill: Arc<Notify>,
    inputs: mpsc::Sender<SessionInput>,
) {
    let group = running.group();
    let killing = async {
        kill.notified().await;
        group.terminate();
        tokio::time::sleep(Duration::from_millis(KILL_WAIT_MS)).await;
        group.kill();
        std::future::pending::<()>().await;
    };
    let reading = async {
        loop {
            let event = running.next().await;
            let is_last = event.is_none();
            let (permit, permitted) = oneshot::channel();
            let report = TaskReport::Process {
                process,
                event,
                permit,
            };
            let sent = inputs.send(SessionInput::Task(report)).await;
            if is_last || sent.is_err() || permitted.await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = killing => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_told_when_it_is_no_success() {
        assert_eq!(status_line("true", 0), None);
        assert_eq!(status_line("a\nb", 3).unwrap(), "a: exit status 3\n");
        assert_eq!(status_line("a", 137).unwrap(), "a: ended by signal 9\n");
    }
}
