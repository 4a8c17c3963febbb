//! What the user does, in the program's own words: keys become actions by one table, mice of one
//! button get three.

use std::fmt::Write as _;

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use crate::layout::Size;

pub mod decode;

/// A way to go in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// One character back.
    Left,
    /// One character on.
    Right,
    /// One visual row up.
    Up,
    /// One visual row down.
    Down,
    /// To the start of a word.
    WordLeft,
    /// To the end of a word.
    WordRight,
    /// To the start of the line.
    LineStart,
    /// To the end of the line.
    LineEnd,
    /// A window's height up, less a row.
    PageUp,
    /// A window's height down, less a row.
    PageDown,
    /// To the start of the text.
    Start,
    /// To the end of the text.
    End,
}

/// What an erasing key takes away when nothing is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erase {
    /// The character before the cursor.
    Char,
    /// The word before the cursor.
    Word,
    /// All up to the start of the line.
    Line,
    /// The character after the cursor.
    Next,
}

/// A direction on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards the first column.
    Left,
    /// Towards the last column.
    Right,
    /// Towards the top.
    Up,
    /// Towards the bottom.
    Down,
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Types a character.
    Insert(char),
    /// Moves the cursor.
    Move(Motion),
    /// Moves one end of the selection.
    Extend(Motion),
    /// Erases.
    Erase(Erase),
    /// Selects what was typed, or cuts what is selected.
    Escape,
    /// Selects the whole text.
    SelectAll,
    /// Executes the selection or the word at the cursor (B2).
    Execute,
    /// The same, the text selected last being its argument (2-1 chord).
    ExecuteWithArgument,
    /// Looks up the selection or the word at the cursor (B3).
    Look,
    /// Executes a built-in command in the window that has the keyboard.
    Command(&'static str),
    /// Writes a search into the tag.
    Find,
    /// Gives the keyboard to another window.
    Focus(Direction),
    /// Gives the keyboard to the tag, or back to the body.
    TagOrBody,
    /// Gives the keyboard to the tag of the column.
    ColumnTag,
    /// Gives the keyboard to the top row.
    TopRow,
    /// Makes the window larger (box with B1), as large as possible (B2), alone (B3).
    Grow(Button),
    /// Moves the window.
    MoveWindow(Direction),
    /// Asks for the lead of the session.
    TakeOver,
    /// Shows this table.
    Help,
    /// Draws the screen anew.
    Redraw,
}

/// A key with its modifiers, its action and what the help says of it.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The key.
    pub code: KeyCode,
    /// The modifiers that are down.
    pub modifiers: KeyModifiers,
    /// What it does.
    pub action: Action,
    /// What it is for.
    pub help: &'static str,
}

const fn key(code: KeyCode, action: Action, help: &'static str) -> Binding {
    Binding {
        code,
        modifiers: KeyModifiers::NONE,
        action,
        help,
    }
}

const fn shift(code: KeyCode, action: Action, help: &'static str) -> Binding {
    Binding {
        code,
        modifiers: KeyModifiers::SHIFT,
        action,
        help,
    }
}

const fn ctrl(code: KeyCode, action: Action, help: &'static str) -> Binding {
    Binding {
        code,
        modifiers: KeyModifiers::CONTROL,
        action,
        help,
    }
}

const fn alt(code: KeyCode, action: Action, help: &'static str) -> Binding {
    Binding {
        code,
        modifiers: KeyModifiers::ALT,
        action,
        help,
    }
}

const fn ctrl_shift(code: KeyCode, action: Action, help: &'static str) -> Binding {
    let modifiers = KeyModifiers::CONTROL.union(KeyModifiers::SHIFT);
    Binding {
        code,
        modifiers,
        action,
        help,
    }
}

const fn alt_shift(code: KeyCode, action: Action, help: &'static str) -> Binding {
    let modifiers = KeyModifiers::ALT.union(KeyModifiers::SHIFT);
    Binding {
        code,
        modifiers,
        action,
        help,
    }
}

/// Every key that does not type. README and Help are made of it; an empty help joins the line
/// before.
pub const BINDINGS: &[Binding] = &[
    key(KeyCode::F(1), Action::Help, "show this table"),
    key(
        KeyCode::F(2),
        Action::TakeOver,
        "take the session over from another UI",
    ),
    key(
        KeyCode::F(3),
        Action::Command("Notices"),
        "Notices: list what tools and apexd said",
    ),
    key(
        KeyCode::F(5),
        Action::Execute,
        "execute the selection, or the word at the cursor (B2)",
    ),
    alt(KeyCode::Enter, Action::Execute, ""),
    alt(KeyCode::Char('e'), Action::Execute, ""),
    key(
        KeyCode::F(6),
        Action::Look,
        "look the selection, or the word at the cursor, up (B3)",
    ),
    alt(KeyCode::Char('l'), Action::Look, ""),
    key(
        KeyCode::F(7),
        Action::ExecuteWithArgument,
        "execute with the last selection (2-1)",
    ),
    ctrl(
        KeyCode::Char('f'),
        Action::Find,
        "search: type, then Enter; again with F6",
    ),
    ctrl(KeyCode::Char('s'), Action::Command("Put"), "Put"),
    ctrl(KeyCode::Char('z'), Action::Command("Undo"), "Undo"),
    ctrl(KeyCode::Char('y'), Action::Command("Redo"), "Redo"),
    alt(KeyCode::Char('z'), Action::Command("Redo"), ""),
    ctrl(KeyCode::Char('x'), Action::Command("Cut"), "Cut"),
    ctrl(KeyCode::Char('c'), Action::Command("Snarf"), "Snarf (copy)"),
    ctrl(KeyCode::Char('v'), Action::Command("Paste"), "Paste"),
    ctrl(KeyCode::Char('q'), Action::Command("Exit"), "Exit"),
    alt(KeyCode::Char('n'), Action::Command("New"), "New window"),
    alt(KeyCode::Char('c'), Action::Command("Newcol"), "New column"),
    alt(
        KeyCode::Char('d'),
        Action::Command("Del"),
        "Del: close the window",
    ),
    alt(
        KeyCode::Char('2'),
        Action::Command("Zerox"),
        "Zerox: a second window on the same text",
    ),
    key(KeyCode::F(4), Action::TagOrBody, "between tag and body"),
    alt(KeyCode::Char('t'), Action::TagOrBody, ""),
    alt(
        KeyCode::Char('k'),
        Action::ColumnTag,
        "to the tag of the column",
    ),
    alt(KeyCode::Char('o'), Action::TopRow, "to the top row"),
    alt(
        KeyCode::Up,
        Action::Focus(Direction::Up),
        "to another window, another column",
    ),
    alt(KeyCode::Down, Action::Focus(Direction::Down), ""),
    alt(KeyCode::Left, Action::Focus(Direction::Left), ""),
    alt(KeyCode::Right, Action::Focus(Direction::Right), ""),
    alt_shift(
        KeyCode::Up,
        Action::MoveWindow(Direction::Up),
        "move the window",
    ),
    alt_shift(KeyCode::Down, Action::MoveWindow(Direction::Down), ""),
    alt_shift(KeyCode::Left, Action::MoveWindow(Direction::Left), ""),
    alt_shift(KeyCode::Right, Action::MoveWindow(Direction::Right), ""),
    alt(
        KeyCode::Char('g'),
        Action::Grow(Button::First),
        "a larger window (box with B1)",
    ),
    alt(
        KeyCode::Char('m'),
        Action::Grow(Button::Second),
        "the largest window (box with B2)",
    ),
    alt(
        KeyCode::Char('f'),
        Action::Grow(Button::Third),
        "the window alone (box with B3)",
    ),
    key(KeyCode::Up, Action::Move(Motion::Up), "move"),
    key(KeyCode::Down, Action::Move(Motion::Down), ""),
    key(KeyCode::Left, Action::Move(Motion::Left), ""),
    key(KeyCode::Right, Action::Move(Motion::Right), ""),
    ctrl(KeyCode::Left, Action::Move(Motion::WordLeft), "by words"),
    ctrl(KeyCode::Right, Action::Move(Motion::WordRight), ""),
    key(
        KeyCode::Home,
        Action::Move(Motion::LineStart),
        "to the start of the line",
    ),
    ctrl(KeyCode::Char('a'), Action::Move(Motion::LineStart), ""),
    key(
        KeyCode::End,
        Action::Move(Motion::LineEnd),
        "to the end of the line",
    ),
    ctrl(KeyCode::Char('e'), Action::Move(Motion::LineEnd), ""),
    key(KeyCode::PageUp, Action::Move(Motion::PageUp), "by windows"),
    key(KeyCode::PageDown, Action::Move(Motion::PageDown), ""),
    ctrl(
        KeyCode::Home,
        Action::Move(Motion::Start),
        "to the start and the end of the text",
    ),
    ctrl(KeyCode::End, Action::Move(Motion::End), ""),
    shift(KeyCode::Up, Action::Extend(Motion::Up), "select"),
    shift(KeyCode::Down, Action::Extend(Motion::Down), ""),
    shift(KeyCode::Left, Action::Extend(Motion::Left), ""),
    shift(KeyCode::Right, Action::Extend(Motion::Right), ""),
    shift(
        KeyCode::Home,
        Action::Extend(Motion::LineStart),
        "select to the ends of the line, by windows",
    ),
    shift(KeyCode::End, Action::Extend(Motion::LineEnd), ""),
    shift(KeyCode::PageUp, Action::Extend(Motion::PageUp), ""),
    shift(KeyCode::PageDown, Action::Extend(Motion::PageDown), ""),
    ctrl_shift(
        KeyCode::Left,
        Action::Extend(Motion::WordLeft),
        "select by words",
    ),
    ctrl_shift(KeyCode::Right, Action::Extend(Motion::WordRight), ""),
    ctrl_shift(
        KeyCode::Home,
        Action::Extend(Motion::Start),
        "select to the ends of the text",
    ),
    ctrl_shift(KeyCode::End, Action::Extend(Motion::End), ""),
    alt(KeyCode::Char('a'), Action::SelectAll, "select all"),
    key(
        KeyCode::Esc,
        Action::Escape,
        "select what was typed; cut what is selected",
    ),
    key(
        KeyCode::Backspace,
        Action::Erase(Erase::Char),
        "erase the character before",
    ),
    ctrl(KeyCode::Char('h'), Action::Erase(Erase::Char), ""),
    shift(KeyCode::Backspace, Action::Erase(Erase::Char), ""),
    ctrl(
        KeyCode::Char('w'),
        Action::Erase(Erase::Word),
        "erase the word before",
    ),
    alt(KeyCode::Backspace, Action::Erase(Erase::Word), ""),
    ctrl(
        KeyCode::Char('u'),
        Action::Erase(Erase::Line),
        "erase to the start of the line",
    ),
    key(
        KeyCode::Delete,
        Action::Erase(Erase::Next),
        "erase the character after",
    ),
    ctrl(KeyCode::Char('l'), Action::Redraw, "draw the screen anew"),
    key(KeyCode::Enter, Action::Insert('\n'), "a new line"),
    shift(KeyCode::Enter, Action::Insert('\n'), ""),
    ctrl(KeyCode::Char('j'), Action::Insert('\n'), ""),
    key(KeyCode::Tab, Action::Insert('\t'), "a tab"),
    ctrl(KeyCode::Char('i'), Action::Insert('\t'), ""),
];

/// What the help says before and behind the keys.
const HELP_HEAD: &str = "\
Any word can be executed (B2, F5) or looked up (B3, F6): put the cursor on it,
or select what is meant. Commands stand in the tag, the line over each text.
To give another one: F4, type it, Esc (selects what was typed), F5.

";
const HELP_TAIL: &str = "
Mouse: left selects, middle (or Ctrl and left) executes, right (or Alt and
left) looks up. While left is down, middle cuts and right pastes. The box at
the left of a tag grows its window, and moves it when dragged.

Commands: Cut Del Delcol Delete Exit Get Kill Look New Newcol Notices Paste
Put Put! Putall Redo Snarf Sort Tab Undo Zerox. Any other word runs in the
shell; its output comes to +Errors. In a shell, `apex --help` tells the rest.
";
/// Cells that the names of keys take in the help.
const HELP_NAMES_WIDTH: usize = 21;

/// Returns the key table for people, a line each.
#[must_use]
pub fn help() -> String {
    let mut text = HELP_HEAD.to_owned();
    let mut rest = BINDINGS;
    while let [first, behind @ ..] = rest {
        let more = behind
            .iter()
            .take_while(|next| next.help.is_empty())
            .count();
        let (group, behind) = rest.split_at(1 + more);
        rest = behind;
        // Writing to a string does not fail.
        let names = names(group);
        let _written = writeln!(text, "{names:HELP_NAMES_WIDTH$} {}", first.help);
    }
    text + HELP_TAIL
}

/// Returns the names of keys of one meaning: modifiers that they share once.
fn names(group: &[Binding]) -> String {
    let mut names = String::new();
    let mut last = None;
    for binding in group {
        let prefix = prefix(binding.modifiers);
        if last == Some(binding.modifiers) && !prefix.is_empty() {
            names.push('/');
        } else {
            names.push_str(if names.is_empty() { "" } else { " " });
            names.push_str(&prefix);
        }
        last = Some(binding.modifiers);
        names.push_str(&key_name(binding.code));
    }
    names
        .replace("Up/Down/Left/Right", "arrows")
        .replace("Up Down Left Right", "arrows")
}

fn prefix(modifiers: KeyModifiers) -> String {
    let words = [
        (KeyModifiers::CONTROL, "Ctrl-"),
        (KeyModifiers::ALT, "Alt-"),
        (KeyModifiers::SHIFT, "Shift-"),
    ];
    let down = words
        .into_iter()
        .filter(|(modifier, _)| modifiers.contains(*modifier));
    down.map(|(_, word)| word).collect()
}

fn key_name(code: KeyCode) -> String {
    match code {
        KeyCode::Char(c) => c.to_uppercase().collect(),
        KeyCode::F(number) => format!("F{number}"),
        code => format!("{code:?}"),
    }
}

/// Returns the action of a key by its name in the table.
#[cfg(test)]
pub(crate) fn action_named(wanted: &str) -> Option<Action> {
    BINDINGS
        .iter()
        .find(|binding| prefix(binding.modifiers) + &key_name(binding.code) == wanted)
        .map(|binding| binding.action)
}

/// Returns what a key does, if anything.
#[must_use]
pub fn action(event: KeyEvent) -> Option<Action> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let mut modifiers =
        event.modifiers & (KeyModifiers::SHIFT | KeyModifiers::CONTROL | KeyModifiers::ALT);
    let mut code = event.code;
    if let KeyCode::Char(c) = code {
        // Whether a terminal reports Shift beside a letter differs; the letter says it already.
        modifiers.remove(KeyModifiers::SHIFT);
        if modifiers.is_empty() {
            return Some(Action::Insert(c));
        }
        code = KeyCode::Char(c.to_ascii_lowercase());
    }
    let found = BINDINGS
        .iter()
        .find(|b| b.code == code && b.modifiers == modifiers);
    found.map(|binding| binding.action)
}

/// A mouse button of acme's three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// Selects.
    First,
    /// Executes.
    Second,
    /// Looks.
    Third,
}

/// What a mouse did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseKind {
    /// A button went down.
    Down(Button),
    /// A button came up.
    Up(Button),
    /// The mouse moved while a button was down.
    Drag,
    /// The wheel turned: rows, downwards positive.
    Wheel(i8),
}

/// What a mouse did, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mouse {
    /// Column of cells.
    pub x: u16,
    /// Row of cells.
    pub y: u16,
    /// What.
    pub kind: MouseKind,
}

/// Something the user did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Pressed a key that means something.
    Action(Action),
    /// Used the mouse.
    Mouse(Mouse),
    /// Pasted from the terminal.
    Paste(String),
    /// Changed the size of the terminal.
    Resize(Size),
}

/// Turns what the terminal reports into inputs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Translator {
    /// What the first button stands for since it went down with a modifier.
    stands_for: Option<Button>,
}

impl Translator {
    /// Returns what an event means, if anything.
    pub fn input(&mut self, event: Event) -> Option<Input> {
        match event {
            Event::Key(key) => action(key).map(Input::Action),
            Event::Mouse(mouse) => self.mouse(mouse).map(Input::Mouse),
            Event::Paste(text) => {
                Some(Input::Paste(text.replace("\r\n", "\n").replace('\r', "\n")))
            }
            Event::Resize(width, height) => Some(Input::Resize(Size { width, height })),
            Event::FocusGained | Event::FocusLost => None,
        }
    }

    fn mouse(&mut self, event: MouseEvent) -> Option<Mouse> {
        let kind = match event.kind {
            MouseEventKind::Down(MouseButton::Left) => {
                self.stands_for = if event.modifiers.contains(KeyModifiers::CONTROL) {
                    Some(Button::Second)
                } else if event.modifiers.contains(KeyModifiers::ALT) {
                    Some(Button::Third)
                } else {
                    None
                };
                MouseKind::Down(self.stands_for.unwrap_or(Button::First))
            }
            MouseEventKind::Down(button) => MouseKind::Down(plain(button)),
            MouseEventKind::Up(MouseButton::Left) => {
                MouseKind::Up(self.stands_for.take().unwrap_or(Button::First))
            }
            MouseEventKind::Up(button) => MouseKind::Up(plain(button)),
            MouseEventKind::Drag(_) => MouseKind::Drag,
            MouseEventKind::ScrollUp => MouseKind::Wheel(-3),
            MouseEventKind::ScrollDown => MouseKind::Wheel(3),
            MouseEventKind::Moved | MouseEventKind::ScrollLeft | MouseEventKind::ScrollRight => {
                return None;
            }
        };
        Some(Mouse {
            x: event.column,
            y: event.row,
            kind,
        })
    }
}

const fn plain(button: MouseButton) -> Button {
    match button {
        MouseButton::Left => Button::First,
        MouseButton::Middle => Button::Second,
        MouseButton::Right => Button::Third,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_bound_twice() {
        for (i, one) in BINDINGS.iter().enumerate() {
            for other in &BINDINGS[i + 1..] {
                let is_same = one.code == other.code && one.modifiers == other.modifiers;
                assert!(!is_same, "{} is bound twice", names(&[*one]));
            }
        }
    }

    #[test]
    fn characters_type_and_chords_act() {
        let press = |code, modifiers| action(KeyEvent::new(code, modifiers));
        assert_eq!(
            press(KeyCode::Char('A'), KeyModifiers::SHIFT),
            Some(Action::Insert('A'))
        );
        assert_eq!(
            press(KeyCode::Char('漢'), KeyModifiers::NONE),
            Some(Action::Insert('漢'))
        );
        let put = Some(Action::Command("Put"));
        assert_eq!(press(KeyCode::Char('s'), KeyModifiers::CONTROL), put);
        assert_eq!(
            press(KeyCode::Enter, KeyModifiers::ALT),
            Some(Action::Execute)
        );
        assert_eq!(press(KeyCode::F(12), KeyModifiers::NONE), None);
    }

    #[test]
    fn a_mouse_of_one_button_has_three() {
        let mut translator = Translator::default();
        let mut mouse = |kind, modifiers| {
            let event = MouseEvent {
                kind,
                column: 1,
                row: 2,
                modifiers,
            };
            translator.mouse(event).map(|mouse| mouse.kind)
        };
        let down = MouseEventKind::Down(MouseButton::Left);
        let up = MouseEventKind::Up(MouseButton::Left);
        let second = Button::Second;
        assert_eq!(
            mouse(down, KeyModifiers::CONTROL),
            Some(MouseKind::Down(second))
        );
        assert_eq!(mouse(up, KeyModifiers::NONE), Some(MouseKind::Up(second)));
        assert_eq!(
            mouse(down, KeyModifiers::ALT),
            Some(MouseKind::Down(Button::Third))
        );
        assert_eq!(
            mouse(up, KeyModifiers::ALT),
            Some(MouseKind::Up(Button::Third))
        );
        assert_eq!(
            mouse(down, KeyModifiers::NONE),
            Some(MouseKind::Down(Button::First))
        );
    }

    #[test]
    fn the_help_names_every_key() {
        let help = help();
        for line in [
            "Ctrl-S                Put\n",
            "F5 Alt-Enter/E        execute the selection, or the word at the cursor (B2)\n",
            "Alt-arrows            to another window, another column\n",
            "arrows                move\n",
            "Shift-arrows          select\n",
            "Backspace Ctrl-H Shift-Backspace erase the character before\n",
        ] {
            assert!(help.contains(line), "{line}: {help}");
        }
        for binding in BINDINGS {
            assert!(help.contains(&key_name(binding.code)) || help.contains("arrows"));
        }
        assert!(help.lines().all(|line| line.len() < 80), "{help}");
    }
}
