//! `Edit`: scripts of the command language over the texts of the session.
//!
//! 1. Commands run on drafts: copies of the texts, each of the version that it was taken of. So
//!    the user types on while a command of the shell runs.
//! 2. What only the daemon can get, output of commands and files, is asked for one after another.
//! 3. What was changed lands at the end, or before the daemon does something with the texts: as
//!    one step of undo, carried over what was typed meanwhile; all of it, or with words nothing.

mod asking;
mod drafts;
mod printing;

use std::collections::{BTreeMap, VecDeque};

use apex_core::command::{Command, CommandError, File, Memory, Outcome, Request, Source};
use apex_core::edit;
use apex_core::ids::{BufferId, GroupId, ProposalId, ViewId};
use apex_core::message::{ClientMessage, Takeover};

pub(super) use self::asking::Names;
use self::drafts::{Draft, Landing};
use super::App;
use super::exec::Order;

/// The scripts that have not ended.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    /// Those that wait for the daemon, by number.
    waiting: BTreeMap<u64, Script>,
    /// Changes that were proposed to who leads the texts.
    landing: BTreeMap<ProposalId, Landing>,
    last: u64,
    /// The pattern and the command of the shell that empty ones repeat.
    memory: Memory,
}

/// One execution of `Edit`, or of a command of the shell with `|` or `<` before it.
#[derive(Debug)]
struct Script {
    number: u64,
    /// What its errors begin with.
    title: String,
    /// Where its commands run, and whose `+Errors` gets what they print.
    directory: String,
    environment: Vec<(String, String)>,
    /// Commands that have not run.
    commands: VecDeque<Command>,
    /// What commands see of each text; in the same order as `drafts`.
    files: Vec<File>,
    drafts: Vec<Draft>,
    current: Option<usize>,
    /// The command that waits for what it asked for, and what has come of that.
    outcome: Option<Outcome>,
    yields: Vec<String>,
    arriving: String,
    /// What is asked of the editor behind the changes.
    requests: VecDeque<Request>,
    /// The step of undo, and the texts that it has changed.
    group: Option<GroupId>,
    changed: Vec<BufferId>,
    /// Others changed a text before these changes landed in it.
    is_carried: bool,
}

/// How far a script has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It has ended.
    Done,
    /// It waits for an answer.
    Asking,
    /// It waits for the decision on its changes.
    Landing(ProposalId),
}

impl App {
    /// The command: runs its argument.
    pub(super) fn edit_command(&mut self, order: &Order) {
        if order.argument.is_empty() {
            return self.complain(&"Edit takes commands, as `Edit ,s/old/new/g`");
        }
        let mut memory = self.scripts.memory.clone();
        let commands = Command::parse_all(&order.argument, &mut memory);
        self.scripts.memory = memory;
        match commands {
            Ok(commands) => self.start_script(order.view, "Edit", commands),
            Err(error) => {
                let directory = self.directory(order.view);
                self.report_in(&directory, &format!("Edit: {error}"));
            }
        }
    }

    /// Runs commands on the body of the window that `view` means.
    pub(super) fn start_script(&mut self, view: ViewId, title: &str, commands: Vec<Command>) {
        if !self.may_script() {
            return;
        }
        let body = self.window_for(view).map(ViewId::Body);
        let (files, drafts) = self.drafts(body);
        self.scripts.last += 1;
        let script = Script {
            number: self.scripts.last,
            title: title.into(),
            directory: self.directory(view),
            environment: self.environment(body),
            commands: commands.into(),
            current: drafts.iter().position(|draft| Some(draft.view) == body),
            files,
            drafts,
            outcome: None,
            yields: Vec::new(),
            arriving: String::new(),
            requests: VecDeque::new(),
            group: None,
            changed: Vec::new(),
            is_carried: false,
        };
        self.go_on(script);
    }

    /// Returns whether texts may be changed from here, if only by proposals; says why if not.
    fn may_script(&mut self) -> bool {
        let is_watcher = matches!(
            self.client.hello(),
            ClientMessage::Hello(hello) if hello.takeover == Takeover::Watch
        );
        // A UI that was overtaken goes on by proposals; one that came to watch only does not.
        !is_watcher || self.may_arrange()
    }

    /// Lets a script go on, as far as it can.
    fn go_on(&mut self, mut script: Script) {
        match self.advance(&mut script) {
            Ok(Progress::Done) => {}
            Ok(Progress::Asking) => {
                self.scripts.waiting.insert(script.number, script);
            }
            Ok(Progress::Landing(id)) => {
                if let Some(landing) = self.scripts.landing.get_mut(&id) {
                    landing.resume(script);
                }
            }
            Err(words) => self.fail_script(&script, &words),
        }
    }

    fn fail_script(&mut self, script: &Script, words: &str) {
        let Script {
            title, directory, ..
        } = script;
        self.report_in(directory, &format!("{title}: {words}"));
    }

    fn advance(&mut self, script: &mut Script) -> Result<Progress, String> {
        loop {
            let is_asking = script.is_asking();
            let is_at_end = script.outcome.is_none() && script.commands.is_empty();
            let is_over = is_at_end && script.requests.is_empty();
            // The daemon works on texts as they are.
            let is_time = !script.requests.is_empty() || script.is_piping_changes() || is_over;
            if is_time
                && let Some(id) = self.land(script)?
                && !is_over
            {
                return Ok(Progress::Landing(id));
            }
            if let Some(request) = script.requests.pop_front() {
                self.serve(script, &request)?;
                if script.requests.is_empty() {
                    self.refresh(script);
                }
            } else if is_asking {
                self.ask_source(script);
                return Ok(Progress::Asking);
            } else if let Some(outcome) = script.outcome.take() {
                self.absorb(script, outcome);
            } else if let Some(mut command) = script.commands.pop_front() {
                let memory = &mut self.scripts.memory;
                let run = command.run(&script.files, script.current, memory);
                script.outcome = Some(run.map_err(|error| self.command_failed(script, &error))?);
                script.yields.clear();
            } else {
                return Ok(Progress::Done);
            }
        }
    }

    /// Returns the words for a command that did nothing. What it warned of, it does the second
    /// time.
    fn command_failed(&mut self, script: &Script, error: &CommandError) -> String {
        if let CommandError::FileHasChanges(name) = error
            && let Some(index) = script.files.iter().position(|file| file.name == *name)
        {
            let draft = &script.drafts[index];
            self.warned.insert(draft.buffer, draft.base.raw());
        }
        error.to_string()
    }

    /// Takes what a command does into the drafts, and prints what it prints.
    fn absorb(&mut self, script: &mut Script, outcome: Outcome) {
        self.print(script, &outcome);
        for (index, change) in outcome.files.iter().enumerate() {
            let (splices, dot) = change.finish(&script.yields);
            let (file, draft) = (&mut script.files[index], &mut script.drafts[index]);
            file.dot = dot;
            if splices.is_empty() {
                continue;
            }
            edit::apply(&mut file.text, &splices);
            (file.is_modified, file.is_warned) = (draft.is_file, false);
            draft.splices = if draft.splices.is_empty() {
                splices
            } else {
                edit::compose(&draft.splices, &splices)
            };
        }
        script.current = outcome.current;
        script.requests = outcome.requests.into();
    }
}

impl Script {
    /// Returns whether a command of the shell is to read what the script has changed.
    fn is_piping_changes(&self) -> bool {
        let outcome = self.outcome.as_ref();
        let source = outcome.and_then(|outcome| outcome.sources.get(self.yields.len()));
        match source {
            Some(Source::Shell { input, .. }) => {
                input.is_some_and(|(file, _)| !self.drafts[file].splices.is_empty())
            }
            Some(Source::File { .. }) | None => false,
        }
    }

    /// Returns whether its command needs something that has not come.
    fn is_asking(&self) -> bool {
        let sources = self.outcome.as_ref().map_or(0, |o| o.sources.len());
        self.yields.len() < sources
    }
}
