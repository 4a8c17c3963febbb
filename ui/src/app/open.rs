//! Opening files, and showing what was opened: at once as far as it was read, at its address as
//! soon as it was read to its end.

use apex_core::entry::BufferKind;
use apex_core::ids::{BufferId, SERVER, Shard, ViewId, WindowId};
use apex_core::message::ClientMessage;
use apex_core::node::Node;
use apex_core::node::windows::Placement;
use apex_core::proposal::{Change, Proposal};

use super::App;
use super::files::Pending;
use super::motion::Reveal;

/// Rows that a text gets which is opened or shown, where the column has them.
const ROWS_MIN: u16 = 5;

/// A buffer to show as soon as it is there, and where to go in it as soon as it was read.
#[derive(Clone, Debug)]
pub(super) struct Show {
    buffer: BufferId,
    address: String,
    placement: Option<Placement>,
    /// The window that shows what was read so far; the address waits for the rest.
    window: Option<WindowId>,
    /// The window of a fresh session that it stands in for.
    instead_of: Option<WindowId>,
}

impl Show {
    pub(super) const fn new(
        buffer: BufferId,
        address: String,
        placement: Option<Placement>,
    ) -> Self {
        Self {
            buffer,
            address,
            placement,
            window: None,
            instead_of: None,
        }
    }

    /// The user's directory, to stand where the first window of a fresh session is.
    pub(super) const fn home(buffer: BufferId, first: WindowId) -> Self {
        let mut show = Self::new(buffer, String::new(), Some(Placement::Below(first)));
        show.instead_of = Some(first);
        show
    }
}

impl App {
    /// Opens a file or directory, and shows it.
    pub(super) fn open(
        &mut self,
        directory: &str,
        path: &str,
        address: &str,
        placement: Option<Placement>,
    ) {
        let request = self.send(|request| ClientMessage::FileOpen {
            request,
            directory: directory.into(),
            path: path.into(),
        });
        let (address, directory) = (address.into(), directory.into());
        self.pending.insert(
            request,
            Pending::Open {
                address,
                placement,
                directory,
            },
        );
    }

    /// Opens what the command line named, as soon as there is a session to show it in. In one that
    /// nobody has used, the user's directory comes first.
    pub(super) fn open_arguments(&mut self) {
        if !self.client.is_leading() {
            return;
        }
        if let Some(directory) = self.opening.directory.take()
            && let Some(first) = fresh_window(self.node(), &directory)
        {
            let request = self.send(|request| ClientMessage::FileOpen {
                request,
                directory: "/".into(),
                path: directory,
            });
            self.pending.insert(request, Pending::Home(first));
        }
        let is_asked = |pending: &Pending| matches!(pending, Pending::Home(_));
        if self.pending.values().any(is_asked)
            || self.shows.iter().any(|show| show.instead_of.is_some())
        {
            return;
        }
        for file in std::mem::take(&mut self.opening.files) {
            self.open("/", &file.path, &file.address, None);
        }
    }

    /// Shows the buffers that were opened, as far as they are there.
    pub(super) fn show_opened(&mut self) {
        for show in std::mem::take(&mut self.shows) {
            let is_here = self.node().state().buffer(show.buffer).is_some();
            match show.window {
                Some(window) => self.go_when_read(show, window),
                None if !is_here => self.shows.push(show),
                None if self.client.is_leading() => self.show(show),
                None => {
                    let words = "the session was taken over before the file was there; it is open";
                    self.say(words);
                }
            }
        }
    }

    /// Shows a buffer. One that the daemon still reads is shown as far as it is there.
    fn show(&mut self, show: Show) {
        if show.instead_of.is_some() && !self.is_directory(show.buffer) {
            return self.forget_home(show.buffer);
        }
        let known = self.node().window_of_buffer(show.buffer);
        let window = match known {
            Some(window) => Ok(window),
            None => {
                let placement = show.placement.unwrap_or_default();
                self.node_mut().new_window(show.buffer, placement)
            }
        };
        match window {
            Ok(window) => {
                self.set_focus(ViewId::Body(window));
                if let Some(first) = show.instead_of.filter(|first| *first != window)
                    && let Err(error) = self.node_mut().close_window(first)
                {
                    self.complain(&error);
                }
                self.uncover_rows(window, ROWS_MIN);
                self.go_when_read(show, window);
            }
            Err(error) => self.complain(&error),
        }
    }

    fn is_directory(&self, buffer: BufferId) -> bool {
        let buffer = self.node().state().buffer(buffer);
        buffer.is_some_and(|buffer| buffer.kind() == BufferKind::Directory)
    }

    /// The daemon, on another machine say, has no such directory.
    fn forget_home(&mut self, buffer: BufferId) {
        let name = self.node().state().buffer(buffer).map_or("", |b| b.name());
        let words = format!("the daemon has no directory {name}; open one that it has");
        self.complain(&words);
        let is_shown = self.node().window_of_buffer(buffer).is_some();
        if !is_shown && let Err(error) = self.node_mut().delete_shard(Shard::Buffer(buffer)) {
            self.complain(&error);
        }
    }

    /// Goes to the address of a file, or waits for the lease that comes when it was read.
    fn go_when_read(&mut self, show: Show, window: WindowId) {
        let view = ViewId::Body(window);
        if show.address.is_empty() || self.node().state().window(window).is_none() {
            return;
        }
        if !self.leads_text(view) {
            let window = Some(window);
            return self.shows.push(Show { window, ..show });
        }
        // Whoever went on to another window meanwhile keeps the keyboard there.
        let elsewhere = self.focus.filter(|focus| *focus != view);
        self.go_to(view, &show.address);
        if let Some(elsewhere) = elsewhere {
            self.set_focus(elsewhere);
        }
    }

    /// Gives the keyboard to what an accepted proposal has shown, and shows where its selection is.
    pub(super) fn shown_by_proposal(&mut self, proposal: &Proposal) {
        for change in &proposal.changes {
            let Change::Show { buffer, .. } = change else {
                continue;
            };
            let is_leading = self.client.is_leading();
            let Some(window) = self.node().window_of_buffer(*buffer).filter(|_| is_leading) else {
                continue;
            };
            let view = ViewId::Body(window);
            self.set_focus(view);
            self.selected = Some(view);
            self.uncover_rows(window, ROWS_MIN);
            self.reveal(view, self.dot(view).q0, Reveal::Quarter);
        }
    }
}

/// Returns the window of a session that nobody has used before `node`, on a directory that is
/// not `directory`.
#[must_use]
pub fn fresh_window(node: &Node, directory: &str) -> Option<WindowId> {
    // Attachments are numbered from 1 and never again.
    let is_first = node.attachment() == SERVER.next();
    let mut windows = node.state().windows().map(|(id, _)| id);
    let (Some(only), None, true) = (windows.next(), windows.next(), is_first) else {
        return None;
    };
    let buffer = node.state().buffer_of(ViewId::Body(only))?;
    let buffer = node.state().buffer(buffer)?;
    let is_other = buffer.name().trim_end_matches('/') != directory.trim_end_matches('/');
    (buffer.kind() == BufferKind::Directory && is_other).then_some(only)
}
