//! acme's mouse: selections, sweeps, chords, scroll bars and boxes.

use apex_core::ids::{ColumnId, Millis, ViewId, WindowId};
use apex_core::text::{Span, Text};

use super::App;
use super::motion::{is_word, run_at};
use crate::input::{Button, Mouse, MouseKind};
use crate::layout::Target;
use crate::layout::wrap;
use crate::theme::Mark;
use crate::view::Sweep;

/// How far apart the clicks of a double click may be, in milliseconds.
const DOUBLE_CLICK_MS: u64 = 500;

/// What the buttons that are down mean.
#[derive(Clone, Debug, Default)]
pub(super) enum Gesture {
    /// No button is down, or it means nothing any more.
    #[default]
    None,
    /// The first button selects.
    Select {
        /// In which view.
        view: ViewId,
        /// Where it went down; more than a point after a double click.
        anchor: Span,
        /// What the other buttons did meanwhile.
        chord: Chord,
    },
    /// The second or third button sweeps.
    Sweep {
        /// Over which view.
        view: ViewId,
        /// Which button.
        button: Button,
        /// Where it went down.
        from: u64,
        /// Where it is.
        to: u64,
        /// What a 2-1 chord passes.
        argument: Option<String>,
    },
    /// The second button moves a scroll bar.
    Scroll(WindowId),
    /// A button is down on a window's box.
    Window {
        /// Which.
        window: WindowId,
        /// Which button.
        button: Button,
        /// Where it went down.
        from: (u16, u16),
    },
    /// A button is down on a column's box.
    Column {
        /// Which.
        column: ColumnId,
        /// Where it went down.
        from: u16,
    },
    /// A chord called it off; the release means nothing.
    Off(Button),
}

/// What a chord did while the first button was down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chord {
    /// Nothing.
    None,
    /// 1-2 cut.
    Cut,
    /// 1-3 pasted.
    Pasted,
    /// The opposite button took it back.
    TakenBack,
}

/// A click that may become a double click.
#[derive(Clone, Copy, Debug)]
pub(super) struct Click {
    view: ViewId,
    at: u64,
    when: Millis,
}

impl Gesture {
    /// Returns what of it is to be seen.
    pub(super) fn sweep(&self) -> Option<Sweep> {
        let Self::Sweep {
            view,
            button,
            from,
            to,
            ..
        } = self
        else {
            return None;
        };
        let mark = if *button == Button::Second {
            Mark::Executing
        } else {
            Mark::Looking
        };
        Some(Sweep {
            view: *view,
            at: Span::new(*from.min(to), *from.max(to)),
            mark,
        })
    }

    /// Returns which button ends it.
    const fn button(&self) -> Option<Button> {
        match self {
            Self::None => None,
            Self::Select { .. } => Some(Button::First),
            Self::Scroll(_) => Some(Button::Second),
            Self::Column { .. } => Some(Button::First),
            Self::Sweep { button, .. } | Self::Window { button, .. } | Self::Off(button) => {
                Some(*button)
            }
        }
    }
}

impl App {
    /// Takes what the mouse did.
    pub(super) fn mouse(&mut self, mouse: Mouse) {
        let Mouse { x, y, kind } = mouse;
        match kind {
            MouseKind::Wheel(rows) => self.wheel(x, y, rows),
            MouseKind::Drag => self.drag(x, y),
            MouseKind::Up(button) if self.gesture.button() == Some(button) => self.release(x, y),
            MouseKind::Up(_) => {}
            // The terminal may have kept a release from us: the same button down again begins anew.
            MouseKind::Down(button) if self.gesture.button().is_none_or(|held| held == button) => {
                self.press(button, x, y);
            }
            MouseKind::Down(button) => self.chord(button),
        }
    }

    fn wheel(&mut self, x: u16, y: u16, rows: i8) {
        let view = match self.screen.target(x, y) {
            Target::Text(view) => view.window().map_or(view, ViewId::Body),
            Target::Scroll(window) | Target::WindowBox(window) => ViewId::Body(window),
            Target::ColumnBox(_) | Target::Nothing => return,
        };
        self.scroll_rows(view, rows.into());
    }

    fn press(&mut self, button: Button, x: u16, y: u16) {
        self.typing = None;
        self.goal = None;
        self.gesture = Gesture::None;
        match (self.screen.target(x, y), button) {
            (Target::Text(view), Button::First) => self.press_text(view, x, y),
            (Target::Text(view), Button::Second | Button::Third) => {
                let at = self.position(view, x, y);
                self.gesture = Gesture::Sweep {
                    view,
                    button,
                    from: at,
                    to: at,
                    argument: None,
                };
            }
            (Target::Scroll(window), _) => self.press_scroll(window, button, y),
            (Target::WindowBox(window), _) => {
                self.gesture = Gesture::Window {
                    window,
                    button,
                    from: (x, y),
                };
            }
            (Target::ColumnBox(column), Button::First) => {
                self.gesture = Gesture::Column { column, from: x };
            }
            (Target::ColumnBox(_) | Target::Nothing, _) => self.gesture = Gesture::Off(button),
        }
    }

    fn press_text(&mut self, view: ViewId, x: u16, y: u16) {
        let at = self.position(view, x, y);
        let last = self.last_click.take();
        let is_second = last.is_some_and(|click| {
            let waited = self.now.raw().saturating_sub(click.when.raw());
            click.view == view && click.at == at && waited < DOUBLE_CLICK_MS
        }) && self.dot(view) == Span::at(at);
        self.set_focus(view);
        self.typed_from = None;
        self.anchor = None;
        self.selected = Some(view);
        let anchor = match self.text(view) {
            Some((_, buffer, _)) if is_second => double_click(buffer.text(), at),
            _ => Span::at(at),
        };
        if !is_second {
            self.last_click = Some(Click {
                view,
                at,
                when: self.now,
            });
        }
        self.set_dot(view, anchor);
        self.gesture = Gesture::Select {
            view,
            anchor,
            chord: Chord::None,
        };
    }

    fn press_scroll(&mut self, window: WindowId, button: Button, y: u16) {
        let view = ViewId::Body(window);
        let Some(area) = self.screen.text_area(view) else {
            return;
        };
        let rows = i64::from(y.saturating_sub(area.y)).max(1);
        match button {
            Button::First => self.scroll_rows(view, -rows),
            Button::Third => self.scroll_rows(view, rows),
            Button::Second => {
                self.scroll_to_part(view, y.saturating_sub(area.y).into(), area.height.into());
                self.gesture = Gesture::Scroll(window);
                return;
            }
        }
        self.gesture = Gesture::Off(button);
    }

    fn drag(&mut self, x: u16, y: u16) {
        match self.gesture {
            Gesture::Select {
                view,
                anchor,
                chord: Chord::None,
            } => {
                self.scroll_at_edge(view, y);
                let at = self.position(view, x, y);
                self.set_dot(view, Span::new(anchor.q0.min(at), anchor.q1.max(at)));
            }
            Gesture::Sweep { view, .. } => {
                let at = self.position(view, x, y);
                if let Gesture::Sweep { to, .. } = &mut self.gesture {
                    *to = at;
                }
            }
            Gesture::Scroll(window) => {
                let view = ViewId::Body(window);
                let Some(area) = self.screen.text_area(view) else {
                    return;
                };
                let row = y.saturating_sub(area.y).min(area.height);
                self.scroll_to_part(view, row.into(), area.height.into());
            }
            Gesture::None
            | Gesture::Select { .. }
            | Gesture::Window { .. }
            | Gesture::Column { .. }
            | Gesture::Off(_) => {}
        }
    }

    fn scroll_at_edge(&mut self, view: ViewId, y: u16) {
        let Some(area) = self.screen.text_area(view) else {
            return;
        };
        if y < area.y {
            self.scroll_rows(view, -1);
        } else if y >= area.bottom() {
            self.scroll_rows(view, 1);
        }
    }

    fn release(&mut self, x: u16, y: u16) {
        match std::mem::take(&mut self.gesture) {
            Gesture::Sweep {
                view,
                button,
                from,
                to,
                argument,
            } => {
                let span = Span::new(from.min(to), from.max(to));
                if button == Button::Second {
                    self.execute(view, span, argument);
                } else {
                    self.look(view, span);
                }
            }
            Gesture::Window {
                window,
                button,
                from,
            } => {
                if from == (x, y) {
                    self.grow(window, button);
                } else {
                    self.drop_window(window, x, y);
                }
            }
            Gesture::Column { column, from } => {
                if from != x {
                    self.drop_column(column, x);
                }
            }
            Gesture::None | Gesture::Select { .. } | Gesture::Scroll(_) | Gesture::Off(_) => {}
        }
    }

    /// Takes another button while one is down.
    fn chord(&mut self, button: Button) {
        match (&mut self.gesture, button) {
            (Gesture::Select { view, chord, .. }, Button::Second | Button::Third) => {
                let (view, before) = (*view, *chord);
                let is_cut = button == Button::Second;
                *chord = match before {
                    Chord::None if is_cut => Chord::Cut,
                    Chord::None => Chord::Pasted,
                    Chord::Cut | Chord::Pasted | Chord::TakenBack => Chord::TakenBack,
                };
                match before {
                    Chord::None if is_cut => self.cut(view, true),
                    Chord::None => self.paste(view),
                    Chord::Cut if !is_cut => {
                        self.undo(view, true);
                    }
                    Chord::Pasted if is_cut => {
                        self.undo(view, true);
                    }
                    Chord::Cut | Chord::Pasted | Chord::TakenBack => {}
                }
            }
            (
                Gesture::Sweep {
                    button: Button::Second,
                    argument,
                    ..
                },
                Button::First,
            ) if argument.is_none() => {
                let text = self.selected_text();
                if let Gesture::Sweep { argument, .. } = &mut self.gesture {
                    *argument = Some(text);
                }
            }
            (Gesture::Sweep { button: held, .. }, _) => {
                let held = *held;
                self.gesture = Gesture::Off(held);
            }
            (
                Gesture::None
                | Gesture::Select { .. }
                | Gesture::Scroll(_)
                | Gesture::Window { .. }
                | Gesture::Column { .. }
                | Gesture::Off(_),
                _,
            ) => {}
        }
    }

    /// Returns the text that was selected last, anywhere.
    pub(super) fn selected_text(&self) -> String {
        let selected = self.selected.and_then(|view| self.text(view));
        selected.map_or_else(String::new, |(_, buffer, view)| {
            buffer.text().slice(view.dot)
        })
    }

    /// Returns the position of a view's text that is nearest to a cell.
    fn position(&self, view: ViewId, x: u16, y: u16) -> u64 {
        let (Some((_, buffer, old)), Some((shape, height))) = (self.text(view), self.shape(view))
        else {
            return 0;
        };
        let Some(area) = self.screen.text_area(view) else {
            return 0;
        };
        let text = buffer.text();
        let origin = wrap::row_start(text, old.origin, shape);
        if y < area.y {
            return origin;
        }
        let rows = wrap::rows(text, origin, shape, height.max(1).into());
        let index = usize::from(y - area.y);
        match rows.get(index) {
            Some(row) => row.position_at(x.saturating_sub(area.x)),
            None => rows.last().map_or(origin, |row| row.end),
        }
    }
}

/// Returns what a double click selects: between brackets, a line, between quotes, or a word.
fn double_click(text: &Text, q: u64) -> Span {
    const PAIRS: [(char, char); 9] = [
        ('{', '}'),
        ('[', ']'),
        ('(', ')'),
        ('<', '>'),
        ('«', '»'),
        ('\n', '\n'),
        ('\'', '\''),
        ('"', '"'),
        ('`', '`'),
    ];
    let before = text.chars_before(q).next().unwrap_or('\n');
    let after = text.char_at(q).unwrap_or('\n');
    for (open, close) in PAIRS {
        if before == open
            && let Some(distance) = matching(text.chars_from(q), open, close)
        {
            let end = q + distance;
            // A line takes its newline along.
            let newline = u64::from(close == '\n' && end < text.len());
            return Span::new(q, end + newline);
        }
        if after == close
            && let Some(distance) = matching(text.chars_before(q), close, open)
        {
            return Span::new(q - distance, q + u64::from(close == '\n' && q < text.len()));
        }
    }
    run_at(text, q, is_word)
}

/// Returns how many characters lie before the one that matches `open`; the ends of the text count
/// as newlines.
fn matching(chars: impl Iterator<Item = char>, open: char, close: char) -> Option<u64> {
    let mut depth = 1_u32;
    let mut distance = 0;
    for c in chars {
        if c == close {
            depth -= 1;
            if depth == 0 {
                return Some(distance);
            }
        } else if c == open {
            depth += 1;
        }
        distance += 1;
    }
    (close == '\n').then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_click_selects_as_acme_does() {
        let check = |source: &str, expect: &str| {
            let q = source.chars().position(|c| c == '|').unwrap() as u64;
            let text = Text::from(source.replace('|', "").as_str());
            assert_eq!(text.slice(double_click(&text, q)), expect, "{source:?}");
        };
        check("one tw|o three", "two");
        check("f(|a, (b), c)", "a, (b), c");
        check("f(a, (b), c|)", "a, (b), c");
        check("|first\nsecond\n", "first\n");
        check("first\n|second", "second");
        check("first|\nsecond\n", "first\n");
        check("a\n|\nb", "\n");
        check("say \"|hello there\"", "hello there");
        check("a {| b", "");
        check("x = |'y z'", "");
        check("漢|字 x", "漢字");
        check("|", "");
    }
}
