//! Executing (B2): the built-in commands in one table, everything else outside the editor.

use apex_core::entry::{BufferKind, LayoutOp};
use apex_core::ids::{BufferId, ColumnId, Shard, ViewId, WindowId};
use apex_core::node::windows::Placement;
use apex_core::text::{Span, Text};

use super::files::Pending;
use super::motion::{is_word, run_at};
use super::{App, Effect};
use crate::view::is_dirty;

/// Code points under which an unnamed window is closed without a warning.
const UNNAMED_COUNT_MAX: u64 = 100;
/// Rows of the help that are worth reading at once.
const HELP_ROWS_MIN: u16 = 16;
/// Narrowest column that may be divided, in cells.
const COLUMN_WIDTH_MIN: u16 = 20;

/// One execution of a built-in command.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Where it was executed.
    pub(super) view: ViewId,
    /// What follows the command, or what a 2-1 chord passed.
    pub(super) argument: String,
}

type Command = fn(&mut App, &Order);

/// The built-in commands.
const COMMANDS: &[(&str, Command)] = &[
    ("Cut", |app, order| {
        app.on_selection(order, |app, view| app.cut(view, true));
    }),
    ("Del", |app, order| app.del(order, false)),
    ("Delcol", App::delcol),
    ("Delete", |app, order| app.del(order, true)),
    ("Edit", App::edit_command),
    ("Exit", |app, _| app.exit()),
    ("Get", |app, order| app.get_file(order.view)),
    ("Kill", |app, order| app.kill(&order.argument)),
    ("Look", App::look_command),
    ("New", App::new_windows),
    ("Newcol", |app, _| app.newcol()),
    ("Notices", |app, _| app.list_notices()),
    ("Paste", |app, order| app.on_text(order, App::paste)),
    ("Put", |app, order| {
        app.put(order.view, &order.argument, false);
    }),
    ("Put!", |app, order| {
        app.put(order.view, &order.argument, true);
    }),
    ("Putall", |app, _| app.put_all()),
    ("Redo", |app, order| {
        app.on_text(order, |app, view| {
            app.undo(view, false);
        });
    }),
    ("Snarf", |app, order| {
        app.on_selection(order, |app, view| app.cut(view, false));
    }),
    ("Sort", App::sort),
    ("Tab", App::tab),
    ("Undo", |app, order| {
        app.on_text(order, |app, view| {
            app.undo(view, true);
        });
    }),
    ("Zerox", App::zerox),
];

impl App {
    /// Executes the selection or the word at the cursor of the text that has the keyboard.
    pub(super) fn execute_at_focus(&mut self, has_argument: bool) {
        let Some(view) = self.keyboard() else { return };
        let argument = has_argument.then(|| self.selected_text());
        let dot = self.dot(view);
        self.execute(view, dot, argument);
    }

    /// Executes a built-in command for the text that has the keyboard.
    pub(super) fn command_by_key(&mut self, name: &str) {
        let view = self.focus.unwrap_or(ViewId::Top);
        // A key acts on the text it is pressed in, also in a tag.
        match (name, view) {
            ("Cut" | "Snarf", _) if !self.dot(view).is_empty() => self.cut(view, name == "Cut"),
            ("Paste", _) if self.focus.is_some() => self.paste(view),
            _ => self.run_command(view, name, None),
        }
    }

    /// Executes a swept text, or with an empty span what a click there means.
    pub(super) fn execute(&mut self, view: ViewId, span: Span, argument: Option<String>) {
        let Some((_, buffer, old)) = self.text(view) else {
            return;
        };
        let is_in_selection = !old.dot.is_empty() && old.dot.q0 <= span.q0 && span.q0 <= old.dot.q1;
        let span = match span.is_empty() {
            true if is_in_selection => old.dot,
            true => command_at(buffer.text(), span.q0),
            false => span,
        };
        let command = buffer.text().slice(span);
        self.run_command(view, &command, argument);
    }

    /// Runs a command: a built-in one by its first word, else outside.
    pub(super) fn run_command(&mut self, view: ViewId, command: &str, chord: Option<String>) {
        self.typing = None;
        self.commit_rename();
        let command = command.trim();
        let (word, rest) = command
            .split_once([' ', '\t', '\n'])
            .unwrap_or((command, ""));
        if word.is_empty() {
            return;
        }
        match COMMANDS.binary_search_by_key(&word, |(name, _)| name) {
            Ok(index) => {
                let rest = rest.trim();
                let argument = if rest.is_empty() {
                    chord.unwrap_or_default()
                } else {
                    rest.to_owned()
                };
                COMMANDS[index].1(self, &Order { view, argument });
            }
            Err(_) => self.run_outside(view, command, chord.as_deref()),
        }
    }

    /// Acts on the selection that a command means: from a tag the body's, else the tag's own.
    fn on_selection(&mut self, order: &Order, act: impl FnOnce(&mut Self, ViewId)) {
        let body = self.window_for(order.view).map(ViewId::Body);
        let own = Some(order.view);
        let candidates = [body, own, self.selected];
        let found = candidates
            .into_iter()
            .flatten()
            .find(|view| !self.dot(*view).is_empty());
        match found {
            Some(view) => act(self, view),
            None => self.say("nothing is selected"),
        }
    }

    /// Acts on the body of the window that a command means.
    fn on_text(&mut self, order: &Order, act: impl FnOnce(&mut Self, ViewId)) {
        match self.window_for(order.view) {
            Some(window) => act(self, ViewId::Body(window)),
            None => self.say("no window has the keyboard: click into one, or Alt-arrows"),
        }
    }

    fn new_windows(&mut self, order: &Order) {
        if !self.may_arrange() {
            return;
        }
        let placement = self.placement(order.view);
        if order.argument.is_empty() {
            return self.new_window(placement);
        }
        let directory = self.directory(order.view);
        for name in order.argument.split_whitespace() {
            let (name, address) = apex_core::address::split(name);
            self.open(&directory, name, address, Some(placement));
        }
    }

    fn placement(&self, view: ViewId) -> Placement {
        match view {
            ViewId::Column(column) => Placement::Column(column),
            ViewId::Tag(window) | ViewId::Body(window) => Placement::Below(window),
            ViewId::Top => Placement::Active,
        }
    }

    fn new_window(&mut self, placement: Placement) {
        let node = self.node_mut();
        let made = node
            .new_buffer(BufferKind::File, "")
            .and_then(|buffer| node.new_window(buffer, placement));
        match made {
            Ok(window) => {
                self.set_focus(ViewId::Body(window));
                self.uncover(window);
            }
            Err(error) => self.complain(&error),
        }
    }

    fn newcol(&mut self) {
        if !self.may_arrange() {
            return;
        }
        let last = self
            .screen
            .columns
            .last()
            .map_or(u16::MAX, |column| column.area.width);
        if last < COLUMN_WIDTH_MIN {
            return self.complain(&"the last column is too narrow to divide");
        }
        match self.node_mut().new_column() {
            Ok(column) => self.new_window(Placement::Column(column)),
            Err(error) => self.complain(&error),
        }
    }

    fn zerox(&mut self, order: &Order) {
        if !self.may_arrange() {
            return;
        }
        let Some(window) = self.window_for(order.view) else {
            return self.say("no window has the keyboard: click into one, or Alt-arrows");
        };
        let body = ViewId::Body(window);
        let kind = self.text(body).map(|(_, buffer, _)| buffer.kind());
        if kind == Some(BufferKind::Directory) {
            return self.complain(&"a directory is not shown twice");
        }
        if !self.may_command(body, "Zerox") {
            return;
        }
        match self.node_mut().zerox(window) {
            Ok(window) => {
                self.set_focus(ViewId::Body(window));
                self.uncover(window);
            }
            Err(error) => self.complain(&error),
        }
    }

    fn del(&mut self, order: &Order, is_forced: bool) {
        if !self.may_arrange() {
            return;
        }
        let Some(window) = self.window_for(order.view) else {
            return self.say("no window has the keyboard: click into one, or Alt-arrows");
        };
        let body = ViewId::Body(window);
        let command = if is_forced { "Delete" } else { "Del" };
        if !self.may_command(body, command) {
            return;
        }
        if !is_forced && !self.warn(command, &[window]) {
            return;
        }
        if let Err(error) = self.node_mut().close_window(window) {
            return self.complain(&error);
        }
        self.focus = self.node().focus_view();
        self.selected = self.selected.filter(|view| view.window() != Some(window));
    }

    /// Warns of each window whose text a command would lose, once per version. Returns whether to
    /// go on.
    fn warn(&mut self, command: &str, windows: &[WindowId]) -> bool {
        let mut lost: Vec<(ViewId, BufferId, u64)> = Vec::new();
        for window in windows {
            let view = ViewId::Body(*window);
            let Some((id, buffer, _)) = self.text(view) else {
                continue;
            };
            let is_elsewhere = self
                .node()
                .state()
                .windows_of(id)
                .any(|other| !windows.contains(&other));
            let is_small = buffer.name().is_empty() && buffer.text().len() < UNNAMED_COUNT_MAX;
            if is_dirty(buffer) && !is_elsewhere && !is_small {
                lost.push((view, id, buffer.version().raw()));
            }
        }
        lost.retain(|(_, id, version)| self.warned.get(id) != Some(version));
        for (view, id, version) in &lost {
            self.warned.insert(*id, *version);
            let name = self.text(*view).map_or("", |(_, buffer, _)| buffer.name());
            let name = if name.is_empty() {
                "an unnamed window"
            } else {
                name
            };
            let words = format!("{name} modified; Put keeps it, a second {command} drops it\n");
            self.report(Some(*view), &words);
        }
        lost.is_empty()
    }

    fn delcol(&mut self, order: &Order) {
        if !self.may_arrange() {
            return;
        }
        let Some(column) = self.column_for(order.view) else {
            return;
        };
        let windows: Vec<WindowId> = self
            .screen
            .columns
            .iter()
            .filter(|area| area.id == column)
            .flat_map(|area| area.windows.iter().map(|window| window.id))
            .collect();
        let others = windows
            .iter()
            .filter_map(|window| self.node().state().buffer_of(ViewId::Body(*window)));
        let foreign = others
            .map(Shard::Buffer)
            .find(|shard| !self.node().leads(*shard));
        if let Some(shard) = foreign {
            let leader = self.leader_of(shard);
            return self.complain(&format!(
                "attachment {leader} leads a window of this column"
            ));
        }
        if !self.warn("Delcol", &windows) {
            return;
        }
        if let Err(error) = self.node_mut().close_column(column) {
            return self.complain(&error);
        }
        self.focus = self.node().focus_view();
        self.selected = None;
    }

    fn column_for(&self, view: ViewId) -> Option<ColumnId> {
        match view {
            ViewId::Column(column) => Some(column),
            ViewId::Tag(_) | ViewId::Body(_) | ViewId::Top => {
                let window = self.window_for(view)?;
                self.node()
                    .state()
                    .layout()?
                    .place(window)
                    .map(|(column, _)| column)
            }
        }
    }

    fn sort(&mut self, order: &Order) {
        if !self.may_arrange() {
            return;
        }
        let Some(column) = self.column_for(order.view) else {
            return;
        };
        let state = self.node().state();
        let Some(found) = state.layout().and_then(|layout| layout.column(column)) else {
            return;
        };
        let mut windows: Vec<WindowId> = found.windows.iter().map(|slot| slot.window).collect();
        windows.sort_by_key(|window| {
            let body = state
                .buffer_of(ViewId::Body(*window))
                .and_then(|id| state.buffer(id));
            body.map_or_else(String::new, |buffer| buffer.name().to_owned())
        });
        let op = LayoutOp::Sort { column, windows };
        if let Err(error) = self.node_mut().append_layout(op) {
            self.complain(&error);
        }
    }

    fn tab(&mut self, order: &Order) {
        let Some(window) = self.window_for(order.view) else {
            return;
        };
        let view = ViewId::Body(window);
        let Some((buffer, _, _)) = self.text(view) else {
            return;
        };
        let is_width = |text: &str| {
            text.parse()
                .is_ok_and(|width: u16| (1..=64).contains(&width))
        };
        if !is_width(&order.argument) {
            return self.complain(&"Tab takes the cells of a tab, 1 to 64");
        }
        if !self.may_command(view, format!("Tab {}", order.argument)) {
            return;
        }
        let set = self
            .node_mut()
            .set_buffer(buffer, "tab", Some(&order.argument));
        if let Err(error) = set {
            self.complain(&error);
        }
    }

    fn exit(&mut self) {
        let state = self.node().state();
        let mut fresh = Vec::new();
        let mut names = Vec::new();
        for (id, buffer) in state.buffers() {
            let version = buffer.version().raw();
            // What is being put is waited for on the way out.
            let is_put = self.pending.values().any(|pending| {
                matches!(pending, Pending::Put(of, at) if *of == id && at.raw() == version)
            });
            if is_dirty(buffer) && !is_put && self.warned.get(&id) != Some(&version) {
                fresh.push((id, version));
                let name = buffer.name();
                names.push(
                    if name.is_empty() {
                        "an unnamed window"
                    } else {
                        name
                    }
                    .to_owned(),
                );
            }
        }
        if self.client.is_leading() && !fresh.is_empty() {
            self.warned.extend(fresh);
            let names = names.join(", ");
            return self.complain(&format!(
                "modified: {names}; Exit again leaves, the session keeps it"
            ));
        }
        let label = &self.node().state().meta().label;
        let words = format!("session {label} goes on; `apex --session {label}` shows it again");
        self.effects.push(Effect::Leave(words));
    }

    /// Shows the key table in a window of its own, which gets the keyboard so that it scrolls.
    pub(super) fn help(&mut self) {
        if !self.may_arrange() {
            return;
        }
        let name = "+Keys";
        let known = self.node().state().buffer_named(name);
        let made = match known.and_then(|buffer| self.node().window_of_buffer(buffer)) {
            Some(window) => Ok(window),
            None => self
                .node_mut()
                .append_scratch(name, &crate::input::help())
                .map(|(_, window)| window),
        };
        match made {
            Ok(window) => {
                let view = ViewId::Body(window);
                self.set_focus(view);
                self.set_dot(view, Span::at(0));
                self.uncover_rows(window, HELP_ROWS_MIN);
                self.reveal(view, 0, super::motion::Reveal::Near);
            }
            Err(error) => self.complain(&error),
        }
    }
}

/// Returns what a click on a command means: the longest run of file-name characters, `<`, `>` and
/// `|`, not across a colon.
fn command_at(text: &Text, q: u64) -> Span {
    run_at(text, q, |c| is_word(c) || ".-+/@<>|!".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_in_order() {
        assert!(COMMANDS.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn a_click_on_a_command_takes_its_word() {
        for (source, expect) in [
            ("a De|l Snarf", "Del"),
            ("| Del", ""),
            ("x Put!| y", "Put!"),
            ("host:ls|/bin", "ls/bin"),
            ("say |sort|x", "|sort|x"),
        ] {
            let at = source.find('|').unwrap();
            let text = Text::from(format!("{}{}", &source[..at], &source[at + 1..]).as_str());
            let found = text.slice(command_at(&text, at as u64));
            assert_eq!(
                found,
                expect.replacen('|', "", usize::from(expect.starts_with('|')))
            );
        }
    }
}
