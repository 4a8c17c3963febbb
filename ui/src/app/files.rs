//! What the daemon does for windows: files put and read again, commands run and killed.

use apex_core::address;
use apex_core::buffer::{Buffer, errors_name};
use apex_core::command::Command;
use apex_core::entry::{BufferKind, SaveCause};
use apex_core::ids::{BufferId, RequestId, Shard, Version, ViewId, WindowId};
use apex_core::message::{
    Answer, ClientMessage, ErrorCode, ErrorMessage, Pipe, PipeInput, PipeOutput, Run,
};
use apex_core::node::decide::FollowUp;
use apex_core::node::windows::Placement;
use apex_core::proposal::Change;
use apex_core::text::Span;

use super::App;
use super::motion::Reveal;
use super::open::Show;
use super::script::Names;
use crate::view::is_dirty;

/// A request that the daemon has not answered.
#[derive(Clone, Debug)]
pub(super) enum Pending {
    /// A version is written to its file.
    Put(BufferId, Version),
    /// A file is read again.
    Get(BufferId),
    /// A file is opened.
    Open {
        /// Where to go in it.
        address: String,
        /// Where its window goes.
        placement: Option<Placement>,
        /// Whose directory errors go to.
        directory: String,
    },
    /// The user's directory is opened, to stand where this window is.
    Home(WindowId),
    /// A command is run or killed, a part is written; errors go to this directory.
    Run(String),
    /// A script asked for something; its number.
    Script(u64),
    /// A command prints what is to be opened.
    Names(Names),
}

impl App {
    /// Sends a request behind everything that was appended before.
    pub(super) fn send(&mut self, message: impl FnOnce(RequestId) -> ClientMessage) -> RequestId {
        let request = self.client.next_request();
        self.client.flush(&mut self.outbox);
        self.outbox.push(message(request));
        request
    }

    /// Returns the directory of a view, ending in a slash; that of the window used last for
    /// columns and the top row.
    pub(super) fn directory(&self, view: ViewId) -> String {
        let of = |view| self.node().directory_of(view);
        let used = self.last_window.and_then(|window| of(ViewId::Tag(window)));
        let first_directory = || {
            let mut buffers = self.node().state().buffers();
            let found = buffers.find(|(_, buffer)| buffer.kind() == BufferKind::Directory);
            found.map(|(_, buffer)| buffer.name().to_owned())
        };
        of(view)
            .or(used)
            .or_else(first_directory)
            .unwrap_or_else(|| "/".into())
    }

    /// Writes into the `+Errors` of a view's directory.
    pub(super) fn report(&mut self, view: Option<ViewId>, words: &str) {
        let directory = self.directory(view.unwrap_or(ViewId::Top));
        self.report_in(&directory, words);
    }

    pub(super) fn report_in(&mut self, directory: &str, words: &str) {
        let first = words.lines().next().unwrap_or_default().to_owned();
        self.complain(&first);
        if self.client.is_leading() {
            self.print_in(directory, words);
        }
    }

    /// Appends to the `+Errors` of a directory.
    pub(super) fn print_in(&mut self, directory: &str, words: &str) {
        let name = errors_name(directory);
        let text = if words.ends_with('\n') {
            words.to_owned()
        } else {
            format!("{words}\n")
        };
        let appended = if self.client.is_leading() {
            self.node_mut().append_scratch(&name, &text).ok()
        } else {
            None
        };
        match appended {
            Some((_, window)) => {
                self.arrange();
                let view = ViewId::Body(window);
                let end = self.dot(view).q1;
                self.reveal(view, end, Reveal::Near);
            }
            // Somebody else leads that window: it is asked.
            None => {
                if let Some((_, message)) = self.client.propose(vec![Change::Append { name, text }])
                {
                    self.outbox.push(message);
                }
            }
        }
    }

    /// Puts the file of a window; with `is_forced` although it changed on disk.
    pub(super) fn put(&mut self, view: ViewId, argument: &str, is_forced: bool) {
        let Some(window) = self.window_for(view) else {
            return self.say("no window has the keyboard: click into one, or Alt-arrows");
        };
        let body = ViewId::Body(window);
        let Some((id, buffer, _)) = self.text(body) else {
            return;
        };
        let name = buffer.name().to_owned();
        if argument.is_empty() {
            if buffer.kind() != BufferKind::File {
                return self.complain(&"only a file is put; `Put NAME` writes this text to one");
            }
            if name.is_empty() {
                return self.complain(&"no name: F4, type one in front of Del, then Put");
            }
        }
        let word = if is_forced { "Put!" } else { "Put" };
        if !self.may_command(body, format!("{word} {argument}")) {
            return;
        }
        let path = (!argument.is_empty()).then(|| join(&self.directory(body), argument));
        self.put_buffer(id, path, is_forced, SaveCause::Put);
    }

    fn put_buffer(
        &mut self,
        buffer: BufferId,
        path: Option<String>,
        is_forced: bool,
        cause: SaveCause,
    ) {
        let Some(version) = self.node().state().buffer(buffer).map(Buffer::version) else {
            return;
        };
        let epoch = self.node().log().epoch(Shard::Buffer(buffer));
        let request = self.send(|request| ClientMessage::FilePut {
            request,
            buffer,
            version,
            epoch,
            path,
            is_forced,
            cause,
        });
        self.pending.insert(request, Pending::Put(buffer, version));
    }

    /// Puts every modified file that has a name.
    pub(super) fn put_all(&mut self) {
        if !self.may_arrange() {
            return;
        }
        let dirty: Vec<BufferId> = self
            .node()
            .state()
            .buffers()
            .filter(|(id, buffer)| {
                is_dirty(buffer)
                    && !buffer.name().is_empty()
                    && self.node().leads(Shard::Buffer(*id))
            })
            .map(|(id, _)| id)
            .collect();
        let count = dirty.len();
        for buffer in dirty {
            self.put_buffer(buffer, None, false, SaveCause::PutAll);
        }
        self.say(format!("putting {count} files"));
    }

    /// Reads a window's file again; a modified one is warned about once.
    pub(super) fn get_file(&mut self, view: ViewId) {
        let Some(window) = self.window_for(view) else {
            return self.say("no window has the keyboard: click into one, or Alt-arrows");
        };
        let body = ViewId::Body(window);
        if !self.may_command(body, "Get") {
            return;
        }
        let Some((buffer, text, _)) = self.text(body) else {
            return;
        };
        let version = text.version().raw();
        if text.name().is_empty() {
            return self.complain(&"no name: F4, type one in front of Del, then Get");
        }
        if is_dirty(text) && self.warned.get(&buffer) != Some(&version) {
            let words = format!(
                "{} modified; Get again reads the file over it\n",
                text.name()
            );
            self.warned.insert(buffer, version);
            return self.report(Some(body), &words);
        }
        let request = self.send(|request| ClientMessage::FileGet { request, buffer });
        self.pending.insert(request, Pending::Get(buffer));
    }

    /// Runs a command outside the editor. With `|` or `<` before it, its output takes the place of
    /// the selection; with `>` it reads that.
    pub(super) fn run_outside(&mut self, view: ViewId, command: &str, chord: Option<&str>) {
        if !self.may_arrange() {
            return;
        }
        let sign = command.chars().next().filter(|c| "<>|".contains(*c));
        let bare = command.strip_prefix(['<', '>', '|']).unwrap_or(command);
        let mut line = bare.trim_start().to_owned();
        if let Some(argument) = chord {
            line.push_str(" '");
            line.push_str(&argument.replace('\'', "'\\''"));
            line.push('\'');
        }
        let body = self.window_for(view).map(ViewId::Body);
        match sign {
            Some('>') => self.run_reading(view, body, line),
            Some(sign) => {
                let word = line.split_whitespace().next().unwrap_or_default();
                let title = format!("{sign}{word}");
                let command = Command::shell(sign, &line);
                self.start_script(view, &title, command.into_iter().collect());
            }
            None => {
                let run = Run {
                    directory: self.directory(view),
                    command: line,
                    input: String::new(),
                    environment: self.environment(body),
                };
                let directory = run.directory.clone();
                let request = self.send(|request| ClientMessage::Run { request, run });
                self.pending.insert(request, Pending::Run(directory));
            }
        }
    }

    /// Runs a command that reads the selection.
    fn run_reading(&mut self, view: ViewId, body: Option<ViewId>, command: String) {
        let text = body.and_then(|body| self.text(body));
        let input = text.map(|(buffer, text, shown)| PipeInput {
            buffer,
            version: text.version(),
            at: shown.dot,
        });
        let directory = self.directory(view);
        let pipe = Pipe {
            directory: directory.clone(),
            command,
            environment: self.environment(body),
            input,
            output: PipeOutput::Errors,
        };
        let request = self.send(|request| ClientMessage::Pipe { request, pipe });
        self.pending.insert(request, Pending::Run(directory));
    }

    /// Kills the commands of a name; without one, the command started last.
    pub(super) fn kill(&mut self, name: &str) {
        if !self.may_arrange() {
            return;
        }
        let name = name.trim_start_matches(['|', '<', '>']);
        let processes = &self.node().state().meta().processes;
        let is_named = |command: &str| {
            let first = command.split_whitespace().next().unwrap_or_default();
            first.rsplit('/').next() == Some(name)
        };
        let doomed: Vec<_> = if name.is_empty() {
            processes.keys().next_back().copied().into_iter().collect()
        } else {
            processes
                .iter()
                .filter(|(_, p)| is_named(&p.command))
                .map(|(id, _)| *id)
                .collect()
        };
        if doomed.is_empty() {
            return self.say(format!("no command {name} is running"));
        }
        let directory = self.directory(ViewId::Top);
        for process in doomed {
            let request = self.send(|request| ClientMessage::Kill { request, process });
            self.pending
                .insert(request, Pending::Run(directory.clone()));
        }
    }

    /// Takes the answer to a request.
    pub(super) fn replied(&mut self, request: RequestId, answer: Result<Answer, ErrorMessage>) {
        let Some(pending) = self.pending.remove(&request) else {
            return;
        };
        match (pending, answer) {
            (
                Pending::Open {
                    address, placement, ..
                },
                Ok(Answer::Opened { buffer, is_new }),
            ) => {
                if is_new {
                    self.say("a new file");
                }
                self.shows.push(Show::new(buffer, address, placement));
            }
            (Pending::Script(number), answer) => self.script_replied(request, number, answer),
            (Pending::Names(names), answer) => self.names_replied(request, names, answer),
            // The session begins where the daemon laid it out.
            (Pending::Home(_), Err(error)) => self.complain(&error.message),
            (Pending::Home(first), Ok(Answer::Opened { buffer, .. })) => {
                self.shows.push(Show::home(buffer, first));
            }
            (_, Ok(_)) => {}
            (Pending::Put(buffer, _) | Pending::Get(buffer), Err(error)) => {
                let name = self
                    .node()
                    .state()
                    .buffer(buffer)
                    .map_or("", |buffer| buffer.name());
                let directory = directory_of(name).to_owned();
                let hint = "Put! in its window writes over it";
                let mut words = error.message;
                if error.code == ErrorCode::ChangedOnDisk && !words.contains("Put!") {
                    words = format!("{words}; {hint}");
                }
                self.report_in(&directory, &words);
            }
            (Pending::Open { directory, .. } | Pending::Run(directory), Err(error)) => {
                self.report_in(&directory, &error.message);
            }
        }
    }

    /// Does what an accepted proposal asks for outside the logs.
    pub(super) fn follow_up(&mut self, follow_up: FollowUp) {
        match follow_up {
            FollowUp::Put {
                buffer,
                version,
                cause,
            } => {
                let now = self.node().state().buffer(buffer).map(Buffer::version);
                // The user typed on: his next Put is a round of its own.
                if now == Some(version) {
                    self.put_buffer(buffer, None, false, cause);
                }
            }
            FollowUp::Get(buffer) => {
                let request = self.send(|request| ClientMessage::FileGet { request, buffer });
                self.pending.insert(request, Pending::Get(buffer));
            }
            FollowUp::Open { path, address } => self.open("/", &path, &address, None),
            FollowUp::Look { window, text } => self.look_text(ViewId::Body(window), &text),
        }
    }

    /// Selects an address in a view, seen from its selection, and shows it.
    pub(super) fn go_to(&mut self, view: ViewId, address: &str) {
        self.go_from(view, self.dot(view), address);
    }

    /// Selects an address in a view, seen from `dot`, and shows it.
    pub(super) fn go_from(&mut self, view: ViewId, dot: Span, address: &str) {
        let Some((_, buffer, _)) = self.text(view) else {
            return;
        };
        match address::resolve_from(buffer.text(), dot, address) {
            Ok(span) => self.select_and_show(view, span),
            Err(error) => {
                let name = buffer.name();
                let words = format!("{name}:{address}: {error}");
                self.complain(&words);
            }
        }
    }

    /// Selects a span, gives its view the keyboard and shows it.
    pub(super) fn select_and_show(&mut self, view: ViewId, span: Span) {
        self.set_focus(view);
        self.set_dot(view, span);
        self.selected = Some(view);
        if let Some(window) = view.window() {
            self.uncover(window);
        }
        self.reveal(view, span.q0, Reveal::Quarter);
    }
}

/// Returns the directory part of a name, ending in a slash.
pub(crate) fn directory_of(name: &str) -> &str {
    name.rfind('/').map_or("/", |slash| &name[..=slash])
}

/// Returns the absolute path of a name in a directory, `.` and `..` resolved in the text.
pub(super) fn join(directory: &str, name: &str) -> String {
    let whole = if name.starts_with('/') {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let slash = if whole.ends_with('/') && !parts.is_empty() {
        "/"
    } else {
        ""
    };
    format!("/{}{slash}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_as_text() {
        for (directory, name, expect) in [
            ("/a/b/", "c", "/a/b/c"),
            ("/a/b/", "../c d", "/a/c d"),
            ("/a/", "/x", "/x"),
            ("/a/", "sub/", "/a/sub/"),
            ("/a/", "./../../..", "/"),
            ("/", ".", "/"),
        ] {
            assert_eq!(join(directory, name), expect);
        }
    }
}
