//! The model: what the user and the daemon do to it. Here is the `match` only; each arm's work is
//! in the module of its noun.
//!
//! 1. [`App::update`] changes the model and returns what the program has to do.
//! 2. [`App::grid`] shows it, [`App::flush`] then ships what was appended: the user sees a key
//!    before the daemon hears of it.
//! 3. Nothing here waits, reads files or knows the terminal.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::rc::Rc;

use apex_core::buffer::{Buffer, View};
use apex_core::entry::{Body, BufferKind};
use apex_core::ids::{BufferId, GroupId, Millis, ProposalId, RequestId, Shard, ViewId, WindowId};
use apex_core::message::{ClientMessage, Hello, ServerMessage};
use apex_core::node::Node;
use apex_core::node::client::Client;
use apex_core::state::State;
use apex_core::text::Span;

use crate::input::{Action, Input};
use crate::layout::wrap::Shape;
use crate::layout::{Screen, Size};
use crate::view::grid::Grid;
use crate::view::{self, Scene, Status, Sweep};

mod afar;

mod diverged;

mod edit;

mod exec;

mod files;

mod held;

mod leading;

mod look;

mod motion;

mod mouse;

mod notices;

mod open;

mod script;

mod windows;

pub(crate) use files::directory_of;
pub use open::fresh_window;

use files::Pending;
use held::Held;
use motion::Reveal;
use mouse::{Click, Gesture};

/// What happens to the model.
#[derive(Debug)]
pub enum Event {
    /// The user did something.
    Input(Input),
    /// The daemon said something.
    Message(ServerMessage),
    /// The connection ended; says why.
    Lost(String),
    /// What [`Effect::Keep`] wanted kept is in this file, or is not, and why.
    Kept(Result<String, String>),
    /// Whether the file of a probe exists.
    Probed {
        /// The probe's number.
        probe: u64,
        /// The paths of it that exist.
        found: Vec<String>,
    },
}

/// What the program has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put text on the terminal's clipboard.
    Copy(String),
    /// Draw everything, whatever the terminal shows.
    Redraw,
    /// Find out which of these paths exist, and report them as [`Event::Probed`].
    Probe {
        /// Its number.
        probe: u64,
        /// Absolute paths.
        paths: Vec<String>,
    },
    /// Keep bytes for whoever looks for a fault, and report where as [`Event::Kept`].
    Keep {
        /// What they are about, as a part of a file name.
        name: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Leave, with words for the user.
    Leave(String),
}

/// A file that the user named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileArgument {
    /// An absolute path.
    pub path: String,
    /// `12`, `#34`, `3:5` or nothing.
    pub address: String,
}

/// What a UI opens as soon as it leads the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// What the user named on the command line.
    pub files: Vec<FileArgument>,
    /// Where he is, absolute: what a session shows that nobody has used.
    pub directory: Option<String>,
}

/// Typing that is still one step of undo.
#[derive(Clone, Copy, Debug)]
struct Typing {
    view: ViewId,
    group: GroupId,
    /// Where the next character belongs to it.
    at: u64,
}

/// What a quick key left for after its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// Nothing.
    Nothing,
    /// Tags and layout are to follow.
    Settling,
    /// They have followed and are to be shown.
    Showing,
}

/// The model.
#[derive(Debug)]
pub struct App {
    client: Client,
    now: Millis,
    size: Size,
    /// As the user sees it: what mouse positions mean.
    screen: Screen,
    /// Which view has the keyboard; while leading, the session's focus follows it.
    focus: Option<ViewId>,
    /// The window that had the keyboard last: what the top row and columns act on.
    last_window: Option<WindowId>,
    /// Own selections and origins in texts that somebody else leads.
    local: BTreeMap<ViewId, View>,
    /// The last word to the user; goes at the next input.
    note: Status,
    snarf: String,
    typing: Option<Typing>,
    /// Where the text begins that was typed since the last mouse action or motion.
    typed_from: Option<(ViewId, u64)>,
    /// The end of the selection that stays when Shift moves the other.
    anchor: Option<(ViewId, u64)>,
    /// The cell column that vertical motion keeps to.
    goal: Option<u16>,
    gesture: Gesture,
    last_click: Option<Click>,
    /// The view whose selection was made last: what commands of columns and the top row act on,
    /// and the argument of a 2-1 chord.
    selected: Option<ViewId>,
    /// The modified windows that were warned about, each at a version.
    warned: BTreeMap<BufferId, u64>,
    /// Where the keyboard goes back to after a search in the tag.
    finding: Option<ViewId>,
    pending: BTreeMap<RequestId, Pending>,
    /// Undo and Redo that were proposed to who leads another text of the same group.
    undoing: BTreeMap<ProposalId, BufferId>,
    scripts: script::Scripts,
    /// Keys that wait for the lead of a buffer.
    held: Vec<(BufferId, Held)>,
    probes: BTreeMap<u64, look::Probe>,
    next_probe: u64,
    /// Addresses to show as soon as enough of the text is there.
    shows: Vec<open::Show>,
    /// The version of each scratch window that was last scrolled for.
    followed: BTreeMap<WindowId, u64>,
    opening: Opening,
    /// What was told: what `Notices` lists.
    notices: notices::Notices,
    /// Whether the user knows that this UI's state went wrong.
    is_diverged: bool,
    last_frame: Option<view::Frame>,
    behind: Behind,
    is_welcome: bool,
    is_lost: bool,
    effects: Vec<Effect>,
    /// What is to be said to the daemon, in order.
    outbox: Vec<ClientMessage>,
}

impl App {
    /// Returns the model of a UI that says `hello` and opens files.
    #[must_use]
    pub fn new(hello: Hello, opening: Opening, size: Size) -> Self {
        Self {
            client: Client::new(hello),
            now: Millis::new(0),
            size,
            screen: Screen::default(),
            focus: None,
            last_window: None,
            local: BTreeMap::new(),
            note: Status::default(),
            snarf: String::new(),
            typing: None,
            typed_from: None,
            anchor: None,
            goal: None,
            gesture: Gesture::None,
            last_click: None,
            selected: None,
            warned: BTreeMap::new(),
            finding: None,
            pending: BTreeMap::new(),
            undoing: BTreeMap::new(),
            scripts: script::Scripts::default(),
            held: Vec::new(),
            probes: BTreeMap::new(),
            next_probe: 1,
            shows: Vec::new(),
            followed: BTreeMap::new(),
            opening,
            notices: notices::Notices::default(),
            is_diverged: false,
            last_frame: None,
            behind: Behind::Nothing,
            is_welcome: false,
            is_lost: false,
            effects: Vec::new(),
            outbox: Vec::new(),
        }
    }

    /// Returns the first message to the daemon.
    #[must_use]
    pub fn hello(&self) -> ClientMessage {
        self.client.hello()
    }

    /// Lets something happen, and returns what the program has to do.
    pub fn update(&mut self, now: Millis, event: Event) -> Vec<Effect> {
        self.now = now;
        let is_quick = self.is_quick(&event);
        if !is_quick {
            self.finish();
        }
        match event {
            Event::Input(input) => self.input(input),
            Event::Message(message) => self.receive(message),
            Event::Lost(why) => self.lose(&why),
            Event::Kept(place) => self.diverged_kept(&place),
            Event::Probed { probe, found } => self.probed(probe, &found),
        }
        if is_quick {
            self.behind = Behind::Settling;
        } else {
            self.settle();
        }
        std::mem::take(&mut self.effects)
    }

    /// Returns whether an event is a key into a body: it is shown before anything that follows
    /// from it, tags above all, is brought up to date.
    fn is_quick(&self, event: &Event) -> bool {
        let is_typing = matches!(
            event,
            Event::Input(Input::Action(Action::Insert(_) | Action::Erase(_)))
        );
        is_typing && self.is_welcome && matches!(self.focus, Some(ViewId::Body(_)))
    }

    /// Does what quick keys left for later.
    fn finish(&mut self) {
        if self.behind != Behind::Settling {
            return;
        }
        let tag_seq = |app: &Self| {
            let window = app.focus.and_then(ViewId::window)?;
            let state = app.node().state();
            state.applied(Shard::Buffer(state.window(window)?.tag))
        };
        let (before, screen) = (tag_seq(self), self.screen.clone());
        self.settle();
        let is_seen = tag_seq(self) != before || self.screen != screen;
        self.behind = if is_seen {
            Behind::Showing
        } else {
            Behind::Nothing
        };
    }

    /// Returns whether there is more to see than the last frame showed.
    pub const fn take_stale(&mut self) -> bool {
        let is_stale = matches!(self.behind, Behind::Showing);
        if is_stale {
            self.behind = Behind::Nothing;
        }
        is_stale
    }

    fn input(&mut self, input: Input) {
        if let Input::Resize(size) = input {
            self.size = size;
            return;
        }
        self.note = Status::default();
        if !self.is_welcome || self.is_lost {
            return self.input_without_session(&input);
        }
        match input {
            Input::Action(action) => self.act(action),
            Input::Mouse(mouse) => self.mouse(mouse),
            Input::Paste(text) => self.paste_from_terminal(&text),
            Input::Resize(_) => {}
        }
    }

    fn input_without_session(&mut self, input: &Input) {
        if *input == Input::Action(Action::Command("Exit")) {
            self.effects.push(Effect::Leave(String::new()));
        }
    }

    fn act(&mut self, action: Action) {
        let is_typing = matches!(action, Action::Insert(_) | Action::Erase(_));
        if !is_typing {
            self.typing = None;
        }
        if !matches!(action, Action::Move(_) | Action::Extend(_)) {
            self.goal = None;
        }
        match action {
            Action::Insert(c) => self.insert(c),
            Action::Erase(what) => self.erase(what),
            Action::Move(motion) => self.go(motion, false),
            Action::Extend(motion) => self.go(motion, true),
            Action::Escape => self.escape(),
            Action::SelectAll => self.select_all(),
            Action::Execute => self.execute_at_focus(false),
            Action::ExecuteWithArgument => self.execute_at_focus(true),
            Action::Look => self.look_at_focus(),
            Action::Command(name) => self.command_by_key(name),
            Action::Find => self.find(),
            Action::Focus(direction) => self.focus_towards(direction),
            Action::TagOrBody => self.tag_or_body(),
            Action::ColumnTag => self.focus_column_tag(),
            Action::TopRow => self.set_focus(ViewId::Top),
            Action::Grow(button) => self.grow_focused(button),
            Action::MoveWindow(direction) => self.move_focused(direction),
            Action::TakeOver => self.take_over(),
            Action::Help => self.help(),
            Action::Redraw => self.effects.push(Effect::Redraw),
        }
    }

    /// Brings what depends on the session up to date.
    fn settle(&mut self) {
        if !self.is_welcome {
            self.screen = view::screen(&State::new(), self.size);
            return;
        }
        self.recover_gone();
        self.open_arguments();
        self.show_opened();
        if let Err(error) = self.node_mut().refresh_tags() {
            self.complain(&error);
        }
        let node = self.node();
        let is_here = |view: &ViewId| node.state().buffer_of(*view).is_some();
        if !self.focus.as_ref().is_some_and(is_here) {
            self.focus = node.focus_view().filter(is_here);
        }
        self.arrange();
        self.follow_ends();
    }

    /// Lays the screen out again, in the middle of an update that changed it.
    fn arrange(&mut self) {
        self.screen = view::screen(self.node().state(), self.size);
    }

    /// Scrolls the scratch windows whose selection is at the end and whose text grew.
    fn follow_ends(&mut self) {
        let mut grown = Vec::new();
        for (id, window) in self.node().state().windows() {
            let Body::Buffer(body) = window.body else {
                continue;
            };
            let Some(buffer) = self.node().state().buffer(body) else {
                continue;
            };
            let version = buffer.version().raw();
            if buffer.kind() == BufferKind::Scratch && self.followed.get(&id) != Some(&version) {
                grown.push((id, version));
            }
        }
        for (window, version) in grown {
            self.followed.insert(window, version);
            let view = ViewId::Body(window);
            let Some((_, buffer, shown)) = self.text(view) else {
                continue;
            };
            if shown.dot == Span::at(buffer.text().len()) {
                self.reveal(view, shown.dot.q0, Reveal::Near);
            }
        }
    }

    /// Returns what is appended but not shipped, as messages.
    pub fn flush(&mut self) -> Vec<ClientMessage> {
        self.finish();
        self.client.flush(&mut self.outbox);
        std::mem::take(&mut self.outbox)
    }

    /// Forgets what was said last, so that [`Self::complaint`] is about what comes.
    pub fn hush(&mut self) {
        // Without a session, what was said last is why.
        if self.is_welcome {
            self.note = Status::default();
        }
    }

    /// Returns what went wrong last, if it did.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let note = &self.note;
        (note.is_alarm && !note.text.is_empty()).then(|| note.text.clone())
    }

    /// Returns the last messages to the daemon: all that was appended, and that the user left.
    pub fn leave(&mut self) -> Vec<ClientMessage> {
        let mut messages = self.flush();
        messages.push(ClientMessage::Detach);
        messages
    }

    /// Returns what the user sees, all made anew.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.with_scene(view::view)
    }

    /// Returns what the user sees; what did not change since the last frame is taken from it.
    pub fn frame(&mut self) -> Rc<Grid> {
        let last = self.last_frame.take();
        let frame = self.with_scene(|scene| view::next_frame(scene, last.as_ref()));
        let grid = frame.grid.clone();
        self.last_frame = Some(frame);
        grid
    }

    fn with_scene<T>(&self, show: impl FnOnce(&Scene<'_>) -> T) -> T {
        let empty = (!self.is_welcome).then(State::new);
        show(&Scene {
            state: empty.as_ref().unwrap_or_else(|| self.node().state()),
            screen: &self.screen,
            local: &self.local,
            focus: self.focus,
            sweep: self.sweep(),
            status: &self.status(),
        })
    }

    fn sweep(&self) -> Option<Sweep> {
        self.gesture.sweep()
    }

    fn node(&self) -> &Node {
        self.client
            .node()
            .expect("nothing asks for the node before the welcome")
    }

    fn node_mut(&mut self) -> &mut Node {
        self.client
            .node_mut()
            .expect("nothing asks for the node before the welcome")
    }

    /// Returns the protocol's side of the model.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the buffer of a view, its id, and the view's selection and origin.
    fn text(&self, id: ViewId) -> Option<(BufferId, &Buffer, View)> {
        let buffer_id = self.node().state().buffer_of(id)?;
        let buffer = self.node().state().buffer(buffer_id)?;
        let len = buffer.text().len();
        let view = match self.local.get(&id) {
            Some(local) => View {
                dot: local.dot.clamped(len),
                origin: local.origin.min(len),
            },
            None => buffer.view(id).unwrap_or_default(),
        };
        Some((buffer_id, buffer, view))
    }

    fn dot(&self, id: ViewId) -> Span {
        self.text(id)
            .map_or(Span::default(), |(_, _, view)| view.dot)
    }

    fn leads_text(&self, id: ViewId) -> bool {
        let buffer = self.node().state().buffer_of(id);
        buffer.is_some_and(|buffer| self.node().leads(Shard::Buffer(buffer)))
    }

    /// Returns how a view's text is laid out, and how many rows it has.
    fn shape(&self, id: ViewId) -> Option<(Shape, u16)> {
        let area = self.screen.text_area(id)?;
        let (_, buffer, _) = self.text(id)?;
        Some((view::shape(buffer, area), area.height))
    }

    /// Tells the user that something went wrong.
    fn complain(&mut self, error: &impl Display) {
        self.note = Status {
            text: error.to_string(),
            is_alarm: true,
        };
    }

    /// Tells the user something.
    fn say(&mut self, text: impl Into<String>) {
        self.note = Status {
            text: text.into(),
            is_alarm: false,
        };
    }
}

#[cfg(test)]
mod tests;
