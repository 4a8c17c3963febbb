//! The model as a user meets it: a text before, what the hands do, a text after. One authority,
//! any number of UIs, a disk in memory; no terminal.

mod editing;
mod files;
mod leading;
mod mouse;
mod screens;
mod windows;

use std::collections::VecDeque;

use apex_core::edit::Splice;
use apex_core::entry::{ApplyLimits, BufferOp, SaveCause, Saved};
use apex_core::ids::{ConnectionId, Incarnation, Secret, SessionId};
use apex_core::message::{Answer, Bytes, ErrorCode, ErrorMessage, SessionName, Takeover};
use apex_core::node::authority::{Asker, Authority, Genesis, HostRequest, Output};
use apex_core::node::client::ui_hello;
use apex_core::node::windows::Placement;
use apex_core::proposal::Change;

use super::*;
use crate::input::{Button, Mouse, MouseKind, action_named};

pub(super) struct Ui {
    pub(super) app: App,
    connection: ConnectionId,
    from_daemon: VecDeque<ServerMessage>,
    pub(super) left: Option<String>,
    pub(super) copied: String,
}

pub(super) struct World {
    pub(super) authority: Authority,
    pub(super) uis: Vec<Ui>,
    now: Millis,
    pub(super) disk: BTreeMap<String, String>,
    pub(super) ran: Vec<(String, String)>,
}

impl World {
    /// A session with one UI of that size that leads, and a directory window.
    pub(super) fn new(width: u16, height: u16) -> Self {
        let genesis = Genesis {
            session: SessionId(uuid::Uuid::from_u128(1)),
            incarnation: Incarnation(uuid::Uuid::from_u128(2)),
            label: "main".into(),
            limits: ApplyLimits::default(),
        };
        let mut authority = Authority::new(genesis);
        authority
            .node_mut()
            .init_session("/t/", "a.txt\nsub/\n")
            .unwrap();
        authority.settle(Millis::new(0), &mut Vec::new());
        let (uis, disk, ran) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut world = Self {
            authority,
            uis,
            now: Millis::new(1000),
            disk,
            ran,
        };
        world.join(width, height, Takeover::Transfer);
        world
    }

    pub(super) fn join(&mut self, width: u16, height: u16, takeover: Takeover) {
        let name = format!("ui{}", self.uis.len() + 1);
        let hello = ui_hello(SessionName::Label("main".into()), name, takeover);
        let connection = ConnectionId::new(self.uis.len() as u64 + 1);
        let app = App::new(hello, Vec::new(), Size { width, height });
        let message = app.hello();
        let (from_daemon, copied) = (VecDeque::new(), String::new());
        self.uis.push(Ui {
            app,
            connection,
            from_daemon,
            left: None,
            copied,
        });
        self.to_daemon(self.uis.len() - 1, message);
        self.run();
    }

    fn to_daemon(&mut self, ui: usize, message: ClientMessage) {
        let connection = self.uis[ui].connection;
        let secret = Secret(uuid::Uuid::from_u128(connection.raw().into()));
        let mut out = Vec::new();
        self.authority
            .receive(self.now, (connection, secret), message, &mut out);
        self.deliver(out);
    }

    fn deliver(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send(to, message) => self.send(to, message),
                Output::Publish { except, records } => {
                    let entries: Vec<_> =
                        records.iter().map(|r| (r.shard, r.bytes.clone())).collect();
                    for to in self.authority.followers().collect::<Vec<_>>() {
                        if Some(to) != except {
                            self.send(to, ServerMessage::Entries(entries.clone()));
                        }
                    }
                }
                Output::Welcome(to, welcome, snapshot) => {
                    self.send(to, ServerMessage::Welcome(welcome));
                    self.send(to, ServerMessage::Snapshot(Bytes(snapshot.into())));
                }
                Output::Host(asker, request) => self.host(asker, request),
                Output::Decided(..) | Output::Close(_) => {}
            }
        }
    }

    fn send(&mut self, to: ConnectionId, message: ServerMessage) {
        if let Some(ui) = self.uis.iter_mut().find(|ui| ui.connection == to) {
            ui.from_daemon.push_back(message);
        }
    }

    /// Does what the daemon's host would do, on the disk in memory.
    fn host(&mut self, asker: Asker, request: HostRequest) {
        let answer = match request {
            HostRequest::Open { directory, path } => {
                Ok(self.host_open(&super::files::join(&directory, &path)))
            }
            HostRequest::Put {
                buffer,
                version,
                path,
                is_forced,
                cause,
                ..
            } => self.host_put(buffer, version, path, is_forced, cause),
            HostRequest::Run(run) => {
                self.ran.push((run.directory, run.command));
                Ok(Answer::Done)
            }
            other => Err(ErrorMessage::new(
                ErrorCode::System,
                format!("no host: {other:?}"),
            )),
        };
        let Some(connection) = asker.connection else {
            return;
        };
        let mut out = Vec::new();
        self.authority.settle(self.now, &mut out);
        self.authority
            .reply(connection, asker.request, answer, &mut out);
        self.deliver(out);
    }

    fn host_open(&mut self, path: &str) -> Answer {
        if let Some(buffer) = self.authority.node().state().buffer_named(path) {
            return Answer::Opened {
                buffer,
                is_new: false,
            };
        }
        let text = self.disk.get(path).cloned();
        let node = self.authority.node_mut();
        let buffer = node.new_buffer(BufferKind::File, path).unwrap();
        if let Some(text) = &text {
            node.append_buffer(buffer, BufferOp::Load { text: text.clone() })
                .unwrap();
        }
        self.authority.grant_to_chief(Shard::Buffer(buffer));
        Answer::Opened {
            buffer,
            is_new: text.is_none(),
        }
    }

    fn host_put(
        &mut self,
        buffer: BufferId,
        version: apex_core::ids::Version,
        path: Option<String>,
        is_forced: bool,
        cause: SaveCause,
    ) -> Result<Answer, ErrorMessage> {
        let state = self.authority.node().state();
        let target = state.buffer(buffer).unwrap();
        assert_eq!(target.version(), version);
        let own = target.name().to_owned();
        let (text, content) = (target.text().to_string(), target.content());
        let file = path.clone().unwrap_or_else(|| own.clone());
        let is_changed = self
            .disk
            .get(&file)
            .is_some_and(|on_disk| on_disk.starts_with("other"));
        if is_changed && !is_forced {
            let words = format!("{file} changed on disk since it was read");
            return Err(ErrorMessage::new(ErrorCode::ChangedOnDisk, words));
        }
        self.disk.insert(file.clone(), text);
        if path.is_none() {
            let saved = Saved {
                version,
                content,
                digest: [0; 32],
                path: file,
                cause,
            };
            let mut out = Vec::new();
            let changes = vec![Change::Saved { buffer, saved }];
            self.authority
                .propose_as_server(self.now, changes, &mut out);
            self.deliver(out);
        }
        Ok(Answer::Done)
    }

    /// Delivers everything until all is quiet.
    pub(super) fn run(&mut self) {
        loop {
            let mut is_quiet = true;
            for ui in 0..self.uis.len() {
                while let Some(message) = self.uis[ui].from_daemon.pop_front() {
                    is_quiet = false;
                    self.update(ui, Event::Message(message));
                }
                for message in self.uis[ui].app.flush() {
                    is_quiet = false;
                    self.to_daemon(ui, message);
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn update(&mut self, ui: usize, event: Event) {
        for effect in self.uis[ui].app.update(self.now, event) {
            match effect {
                Effect::Copy(text) => self.uis[ui].copied = text,
                Effect::Leave(words) => self.uis[ui].left = Some(words),
                Effect::Redraw => {}
                Effect::Probe { probe, paths } => {
                    let exists = |path: &String| self.disk.contains_key(path);
                    let found = paths.into_iter().filter(exists).collect();
                    self.update(ui, Event::Probed { probe, found });
                }
            }
        }
    }

    /// Lets time pass in the daemon.
    pub(super) fn pass(&mut self, ms: u64) {
        self.now = self.now.after(ms);
        let mut out = Vec::new();
        self.authority.tick(self.now, &mut out);
        self.deliver(out);
        self.run();
    }

    /// Opens a window of the first UI on a text with its cursor or selection: `|` or `«»`.
    pub(super) fn open(&mut self, name: &str, source: &str) -> WindowId {
        let app = &mut self.uis[0].app;
        let node = app.node_mut();
        let buffer = node.new_buffer(BufferKind::File, name).unwrap();
        let (text, dot) = marked(source);
        let group = node.new_group();
        let window = node.new_window(buffer, Placement::Active).unwrap();
        let view = ViewId::Body(window);
        if !text.is_empty() {
            let splice = Splice::new(Span::at(0), text);
            node.replace(view, splice, dot, group).unwrap();
        }
        app.set_focus(view);
        app.settle();
        self.run();
        window
    }

    /// Returns a view's text with its cursor or selection.
    pub(super) fn shown(&self, ui: usize, view: ViewId) -> String {
        let (_, buffer, shown) = self.uis[ui].app.text(view).unwrap();
        let mut chars: Vec<char> = buffer.text().to_string().chars().collect();
        let at = |q: u64| usize::try_from(q).unwrap();
        if shown.dot.is_empty() {
            chars.insert(at(shown.dot.q0), '|');
        } else {
            chars.insert(at(shown.dot.q1), '»');
            chars.insert(at(shown.dot.q0), '«');
        }
        chars.into_iter().collect()
    }

    /// Returns a window's tag.
    pub(super) fn tag(&self, window: WindowId) -> String {
        self.uis[0].app.node().tag_text(window).unwrap()
    }

    pub(super) fn status(&self, ui: usize) -> String {
        self.uis[ui].app.status().text
    }

    /// Returns the text of the buffer of a name, in the daemon.
    pub(super) fn text_of(&self, name: &str) -> Option<String> {
        let state = self.authority.node().state();
        state
            .buffer_named(name)
            .map(|id| state.buffer(id).unwrap().text().to_string())
    }

    /// Does what a script says, an action a line: `type TEXT`, `key NAME`, `paste TEXT`,
    /// `b1 TEXT`, `b2 FROM .. TO`, `press2 TEXT`, `drag TEXT`, `release2 TEXT`, `wheel ROWS TEXT`,
    /// `wait MS`. A TEXT of a mouse action is found on the screen, from the bottom up.
    pub(super) fn act(&mut self, ui: usize, script: &str) {
        for line in script
            .lines()
            .map(str::trim_start)
            .filter(|line| !line.is_empty())
        {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.replace("\\n", "\n").replace("\\t", "\t");
            match verb {
                "type" => rest
                    .chars()
                    .for_each(|c| self.input(ui, Input::Action(Action::Insert(c)))),
                "key" => {
                    let action = action_named(&rest).unwrap_or_else(|| panic!("no key {rest}"));
                    self.input(ui, Input::Action(action));
                }
                "paste" => self.input(ui, Input::Paste(rest)),
                "wait" => self.pass(rest.parse().unwrap()),
                "wheel" => {
                    let (rows, text) = rest.split_once(' ').unwrap();
                    self.mouse(ui, MouseKind::Wheel(rows.parse().unwrap()), text);
                }
                "drag" => self.mouse(ui, MouseKind::Drag, &rest),
                _ => self.button(ui, verb, &rest),
            }
        }
    }

    fn button(&mut self, ui: usize, verb: &str, rest: &str) {
        let (what, number) = verb.split_at(verb.len() - 1);
        let button = match number {
            "1" => Button::First,
            "2" => Button::Second,
            "3" => Button::Third,
            _ => panic!("no action {verb}"),
        };
        match what {
            "press" => self.mouse(ui, MouseKind::Down(button), rest),
            "release" => self.mouse(ui, MouseKind::Up(button), rest),
            "b" => {
                let (from, to) = rest.split_once(" .. ").unwrap_or((rest, rest));
                self.mouse(ui, MouseKind::Down(button), from);
                if to != from {
                    self.mouse(ui, MouseKind::Drag, to);
                }
                self.mouse(ui, MouseKind::Up(button), to);
            }
            _ => panic!("no action {verb}"),
        }
    }

    fn input(&mut self, ui: usize, input: Input) {
        self.update(ui, Event::Input(input));
        self.run();
    }

    /// Uses the mouse at the cell where a text begins on the screen, or at `@X,Y`.
    fn mouse(&mut self, ui: usize, kind: MouseKind, place: &str) {
        let (x, y) = match place
            .strip_prefix('@')
            .and_then(|place| place.split_once(','))
        {
            Some((x, y)) => (x.parse().unwrap(), y.parse().unwrap()),
            None => self.find(ui, place),
        };
        self.input(ui, Input::Mouse(Mouse { x, y, kind }));
    }

    fn find(&self, ui: usize, text: &str) -> (u16, u16) {
        let grid = self.uis[ui].app.grid();
        for y in (0..grid.size.height).rev() {
            let row: Vec<char> = grid.row(y).iter().map(|cell| cell.first).collect();
            let wanted: Vec<char> = text.chars().collect();
            if let Some(x) = row
                .windows(wanted.len())
                .position(|window| window == wanted)
            {
                return (u16::try_from(x).unwrap(), y);
            }
        }
        panic!("{text:?} is not on the screen:\n{}", grid.to_text());
    }

    /// Every replica equals the daemon's.
    pub(super) fn check_hashes(&self) {
        for ui in &self.uis {
            let state = ui.app.node().state();
            assert_eq!(state.hash(), self.authority.node().state().hash());
        }
    }
}

fn marked(source: &str) -> (String, Span) {
    let mut text = String::new();
    let mut dot = Span::at(0);
    let mut q = 0;
    for c in source.chars() {
        match c {
            '|' => dot = Span::at(q),
            '«' => dot.q0 = q,
            '»' => dot.q1 = q,
            c => {
                text.push(c);
                q += 1;
            }
        }
    }
    (text, dot)
}

/// Opens a window of 80x24 on a text, does what the script says, and compares the body.
pub(super) fn check(before: &str, script: &str, after: &str) {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", before);
    world.act(0, script);
    assert_eq!(
        world.shown(0, ViewId::Body(window)),
        after,
        "{before:?}, {script}"
    );
    world.check_hashes();
}
