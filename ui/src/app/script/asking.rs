//! What a script needs of the daemon and of the editor: output of commands, files; windows that
//! are opened and closed, files that are written.

use apex_core::address;
use apex_core::buffer::Buffer;
use apex_core::command::{Command, File, Request, Source};
use apex_core::entry::BufferOp;
use apex_core::ids::{RequestId, Shard, ViewId};
use apex_core::message::{Answer, ClientMessage, ErrorMessage, Pipe, PipeInput, PipeOutput};
use apex_core::node::windows::Placement;
use apex_core::proposal::Change;
use apex_core::text::Span;

use super::Script;
use crate::app::App;
use crate::app::files::{Pending, join};

/// Exit codes of `sh` for a command that is no program, or that it did not find.
const NOT_RUN: [i32; 2] = [126, 127];
/// From here on an exit code tells of a signal.
const SIGNALLED: i32 = 128;

/// Names that a command prints, which are then opened.
#[derive(Clone, Debug)]
pub(in crate::app) struct Names {
    directory: String,
    command: String,
    text: String,
    placement: Option<Placement>,
}

impl App {
    /// Returns the variables that tell a command of the shell where it was executed.
    pub(in crate::app) fn environment(&self, body: Option<ViewId>) -> Vec<(String, String)> {
        let Some(window) = body.and_then(ViewId::window) else {
            return Vec::new();
        };
        let text = self.text(ViewId::Body(window));
        let name = text.map_or("", |(_, buffer, _)| buffer.name());
        vec![
            ("winid".to_owned(), window.to_string()),
            ("samfile".to_owned(), name.to_owned()),
        ]
    }

    /// Asks the daemon for the next of what a command needs.
    pub(super) fn ask_source(&mut self, script: &Script) {
        let outcome = script.outcome.as_ref();
        let source = outcome.and_then(|outcome| outcome.sources.get(script.yields.len()));
        let Some(source) = source else { return };
        let directory = script.directory.clone();
        let request = match source {
            Source::Shell { command, input } => {
                let input = input.map(|(file, at)| {
                    let draft = &script.drafts[file];
                    PipeInput {
                        buffer: draft.buffer,
                        version: draft.base,
                        at,
                    }
                });
                let pipe = Pipe {
                    directory,
                    command: command.trim().to_owned(),
                    environment: script.environment.clone(),
                    input,
                    output: PipeOutput::Answer,
                };
                self.send(|request| ClientMessage::Pipe { request, pipe })
            }
            Source::File { name } => {
                let path = name.clone();
                self.send(|request| ClientMessage::FileRead {
                    request,
                    directory,
                    path,
                })
            }
        };
        self.pending.insert(request, Pending::Script(script.number));
    }

    /// Takes an answer for a script.
    pub(in crate::app) fn script_replied(
        &mut self,
        request: RequestId,
        number: u64,
        answer: Result<Answer, ErrorMessage>,
    ) {
        let Some(mut script) = self.scripts.waiting.remove(&number) else {
            return;
        };
        match answer {
            Ok(Answer::Started(_)) => self.wait_on(request, script),
            Ok(Answer::Text(text)) => {
                script.arriving.push_str(&text);
                self.wait_on(request, script);
            }
            Ok(Answer::Exited(code)) if let Some(why) = why_nothing(code, &script.arriving) => {
                let words = format!("{why}; nothing was changed");
                self.fail_script(&script, &words);
            }
            Ok(_) => {
                let text = std::mem::take(&mut script.arriving);
                script.yields.push(text);
                self.go_on(script);
            }
            Err(error) => self.fail_script(&script, &error.message),
        }
    }

    fn wait_on(&mut self, request: RequestId, script: Script) {
        self.pending.insert(request, Pending::Script(script.number));
        self.scripts.waiting.insert(script.number, script);
    }

    /// Does what a command asks of the editor.
    pub(super) fn serve(&mut self, script: &mut Script, request: &Request) -> Result<(), String> {
        let view = |file: &usize| script.drafts[*file].view;
        match request {
            Request::Undo { file, count } => {
                let view = view(file);
                for _ in 0..count.unsigned_abs() {
                    if !self.undo(view, *count > 0) {
                        break;
                    }
                }
                script.group = None;
                Ok(())
            }
            Request::Open { names } => {
                self.open_names(script, names);
                Ok(())
            }
            Request::Switch { file } => {
                let view = view(file);
                self.set_focus(view);
                if let Some(window) = view.window() {
                    self.uncover(window);
                }
                Ok(())
            }
            Request::Close { file } => self.close(view(file)),
            Request::Reload { file, name } => self.reload(script, *file, name),
            Request::Write { file, at, name } => self.write(script, *file, *at, name),
            Request::Name { file, name } => self.rename(script, *file, name),
        }
    }

    fn open_names(&mut self, script: &Script, names: &str) {
        if !self.may_arrange() {
            return;
        }
        let current = script
            .current
            .and_then(|file| script.drafts[file].view.window());
        let placement = current.map(Placement::Below);
        let Some(command) = names.strip_prefix('<') else {
            return self.open_each(&script.directory, names, placement);
        };
        let (directory, command) = (script.directory.clone(), command.trim().to_owned());
        let names = Names {
            directory: directory.clone(),
            command: command.clone(),
            text: String::new(),
            placement,
        };
        let pipe = Pipe {
            directory,
            command,
            environment: script.environment.clone(),
            input: None,
            output: PipeOutput::Answer,
        };
        let request = self.send(|request| ClientMessage::Pipe { request, pipe });
        self.pending.insert(request, Pending::Names(names));
    }

    fn open_each(&mut self, directory: &str, names: &str, placement: Option<Placement>) {
        for name in names.split_whitespace() {
            let (name, address) = address::split(name);
            self.open(directory, name, address, placement);
        }
    }

    /// Takes an answer with names to open.
    pub(in crate::app) fn names_replied(
        &mut self,
        request: RequestId,
        mut names: Names,
        answer: Result<Answer, ErrorMessage>,
    ) {
        match answer {
            Ok(Answer::Text(text)) => names.text.push_str(&text),
            Ok(Answer::Started(_)) => {}
            Ok(_) => {
                let Names {
                    directory,
                    text,
                    placement,
                    ..
                } = &names;
                return self.open_each(directory, text, *placement);
            }
            Err(error) => {
                let words = format!("B <{}: {}", names.command, error.message);
                return self.report_in(&names.directory, &words);
            }
        }
        self.pending.insert(request, Pending::Names(names));
    }

    fn close(&mut self, view: ViewId) -> Result<(), String> {
        let window = view.window().ok_or("no window shows it")?;
        if !self.client.is_leading() {
            return Err("windows are closed by whoever leads the session".into());
        }
        let closed = self.node_mut().close_window(window);
        closed.map_err(|error| error.to_string())?;
        self.focus = self.node().focus_view();
        self.selected = self.selected.filter(|view| view.window() != Some(window));
        Ok(())
    }

    /// Reads a file again; another one comes in place of its text.
    fn reload(&mut self, script: &mut Script, file: usize, name: &str) -> Result<(), String> {
        let own = &script.files[file].name;
        if !name.is_empty() && join(&script.directory, name) != *own {
            let words = format!(",r {name}");
            let memory = &mut self.scripts.memory;
            let read = Command::parse_all(&words, memory).map_err(|error| error.to_string())?;
            script.current = Some(file);
            for command in read.into_iter().rev() {
                script.commands.push_front(command);
            }
            return Ok(());
        }
        if own.is_empty() {
            return Err("no name to read from".into());
        }
        let buffer = script.drafts[file].buffer;
        let request = self.send(|request| ClientMessage::FileGet { request, buffer });
        self.pending.insert(request, Pending::Get(buffer));
        Ok(())
    }

    fn write(&mut self, script: &Script, file: usize, at: Span, name: &str) -> Result<(), String> {
        let (
            File {
                name: own, text, ..
            },
            draft,
        ) = (&script.files[file], &script.drafts[file]);
        let path = join(&script.directory, name);
        let is_own = name.is_empty() || path == *own;
        if at == Span::new(0, text.len()) {
            let path = if is_own { "" } else { &path };
            self.put(draft.view, path, false);
            return Ok(());
        }
        if is_own {
            return Err(format!(
                "w of a part would leave only that part in {own}; w FILE writes it to another"
            ));
        }
        if script.is_carried {
            return Err("the text was changed meanwhile; nothing was written".into());
        }
        let (buffer, version) = (draft.buffer, draft.base);
        let epoch = self.node().log().epoch(Shard::Buffer(buffer));
        let request = self.send(|request| ClientMessage::FileWrite {
            request,
            buffer,
            version,
            epoch,
            at,
            path,
        });
        let directory = script.directory.clone();
        self.pending.insert(request, Pending::Run(directory));
        Ok(())
    }

    fn rename(&mut self, script: &mut Script, file: usize, name: &str) -> Result<(), String> {
        let (id, name) = (script.drafts[file].buffer, join(&script.directory, name));
        if self.node().state().buffer(id).map(Buffer::name) == Some(&name) {
            return Ok(());
        }
        if !self.node().leads(Shard::Buffer(id)) {
            let change = Change::Name { buffer: id, name };
            if let Some((_, message)) = self.client.propose(vec![change]) {
                self.outbox.push(message);
            }
            return Ok(());
        }
        let group = Some(self.step_of(script));
        let op = BufferOp::Name { name, group };
        let renamed = self.node_mut().append_buffer(id, op);
        renamed.map_err(|error| error.to_string())?;
        script.changed.push(id);
        Ok(())
    }
}

/// Returns why the output of a command that ended like this stands for nothing.
fn why_nothing(code: i32, output: &str) -> Option<String> {
    if NOT_RUN.contains(&code) && output.is_empty() {
        return Some("the command could not be run".into());
    }
    (code > SIGNALLED).then(|| format!("the command was ended by signal {}", code - SIGNALLED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_counts_unless_the_command_was_not_run_or_was_killed() {
        for (code, output, is_nothing) in [
            (0, "", false),
            (1, "", false),
            (127, "", true),
            (127, "half", false),
            (126, "", true),
            (128 + 15, "half", true),
        ] {
            assert_eq!(why_nothing(code, output).is_some(), is_nothing, "{code}");
        }
    }
}
