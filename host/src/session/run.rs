//! Commands of a session: their output goes to the error window of their directory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apex_core::buffer::errors_name;
use apex_core::entry::MetaOp;
use apex_core::ids::ProcessId;
use apex_core::message::{Answer, ErrorCode, ErrorMessage, Run};
use apex_core::node::authority::Asker;
use apex_core::proposal::Change;
use tokio::sync::{Notify, mpsc, oneshot};

use super::{OnDecided, Session};
use crate::config::{KILL_WAIT_MS, OUTPUT_LEN_MAX, PROCESS_COUNT_MAX};
use crate::process::{self, Event, Group, Running};
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
    pub(super) fn run_command(&mut self, asker: Asker, run: &Run) {
        if self.commands.running.len() >= PROCESS_COUNT_MAX {
            let words = format!("{PROCESS_COUNT_MAX} commands run already; kill some");
            return self.answer(asker, Err(ErrorMessage::new(ErrorCode::Limit, words)));
        }
        let label = self.config.label.clone();
        let running = match process::start(run, &[("APEX_SESSION", &label)]) {
            Ok(running) => running,
            Err(error) => {
                let error = ErrorMessage::new(ErrorCode::System, error.to_string());
                return self.answer(asker, Err(error));
            }
        };
        let process = self.authority.node_mut().new_process();
        let (owner, command) = (asker.attachment, run.command.clone());
        self.append_meta(MetaOp::ProcStart {
            process,
            owner,
            command: command.clone(),
        });
        let kill = Arc::new(Notify::new());
        let errors = errors_name(&run.directory);
        let entry = Command {
            group: running.group(),
            errors,
            command,
            kill: kill.clone(),
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
        let Some(command) = self.commands.running.get(&process) else {
            return;
        };
        let (errors, name) = (command.errors.clone(), command.command.clone());
        let text = match event {
            None => {
                self.commands.running.remove(&process);
                return;
            }
            Some(Event::Output(text)) => Some(text),
            Some(Event::Cut) => Some(format!(
                "\n{name}: what it writes past {OUTPUT_LEN_MAX} bytes is not kept\n"
            )),
            Some(Event::Exited(code)) => {
                self.append_meta(MetaOp::ProcExit { process, code });
                self.settle();
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
