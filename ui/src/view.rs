//! What the user sees, as a grid of cells: a pure function of the session and a size.
//!
//! It does not know the terminal: roles, not colours; cells, not escape sequences.

use std::collections::BTreeMap;
use std::rc::Rc;

use apex_core::buffer::layer::Note;
use apex_core::buffer::{Buffer, View};
use apex_core::entry::BufferKind;
use apex_core::ids::{BufferId, Seq, Shard, ViewId, WindowId};
use apex_core::state::State;
use apex_core::text::Span;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::layout::wrap::{self, Glyph, Row, Shape, Shown};
use crate::layout::{ColumnSpec, Rect, Screen, Size, WindowSpec, arrange};
use crate::theme::{Mark, Role, Surface, Tone};

pub mod grid;

use grid::Grid;

/// Cells between tab stops where no setting says otherwise; acme's.
pub const TAB_DEFAULT: u16 = 4;
/// Most rows that a tag may take.
const TAG_ROWS_MAX: u16 = 5;

/// A sweep of the second or third button, as far as it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Over which text.
    pub view: ViewId,
    /// What it covers.
    pub at: Span,
    /// [`Mark::Executing`] or [`Mark::Looking`].
    pub mark: Mark,
}

/// What the top row says at its right end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The words.
    pub text: String,
    /// Whether something is wrong.
    pub is_alarm: bool,
}

/// All that the view shows.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The session.
    pub state: &'a State,
    /// Where things are.
    pub screen: &'a Screen,
    /// The selections and origins that are this user's own while somebody else leads.
    pub local: &'a BTreeMap<ViewId, View>,
    /// Which view has the keyboard.
    pub focus: Option<ViewId>,
    /// A sweep in progress.
    pub sweep: Option<Sweep>,
    /// What the top row says.
    pub status: &'a Status,
}

/// Lays the session's windows out.
#[must_use]
pub fn screen(state: &State, size: Size) -> Screen {
    let Some(layout) = state.layout() else {
        return arrange(size, &[], &mut |_, _| 1);
    };
    let columns: Vec<ColumnSpec> = layout
        .columns
        .iter()
        .map(|column| ColumnSpec {
            id: column.id,
            weight: column.weight,
            windows: column
                .windows
                .iter()
                .map(|slot| WindowSpec {
                    id: slot.window,
                    weight: slot.weight,
                })
                .collect(),
        })
        .collect();
    arrange(size, &columns, &mut |view, width| {
        state
            .buffer_of(view)
            .and_then(|id| state.buffer(id))
            .map_or(1, |tag| {
                let shape = Shape {
                    width,
                    tab: TAB_DEFAULT,
                };
                let rows = wrap::rows(tag.text(), 0, shape, TAG_ROWS_MAX.into());
                let filled = rows.iter().filter(|row| !row.glyphs.is_empty()).count();
                u16::try_from(filled).unwrap_or(TAG_ROWS_MAX)
            })
    })
}

/// Returns how the text of a view is laid out.
#[must_use]
pub fn shape(buffer: &Buffer, area: Rect) -> Shape {
    let tab = buffer
        .setting("tab")
        .and_then(|tab| tab.parse().ok())
        .unwrap_or(TAB_DEFAULT);
    Shape {
        width: area.width.max(1),
        tab: tab.clamp(1, 64),
    }
}

/// A grid, and what it was made of, so that the next one is made of what changed.
#[derive(Debug)]
pub struct Frame {
    /// The grid.
    pub grid: Rc<Grid>,
    screen: Screen,
    status: Status,
    painted: Vec<Painted>,
}

/// All that the cells of a text depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    id: ViewId,
    buffer: BufferId,
    /// The last entry of the buffer's shard: every change of it is one.
    seq: Option<Seq>,
    area: Rect,
    surface: Surface,
    view: View,
    has_focus: bool,
    sweep: Option<Sweep>,
}

/// A text in a grid.
#[derive(Clone, Copy, Debug)]
struct Painted {
    key: Key,
    /// What is in sight.
    shown: Span,
    cursor: Option<(u16, u16)>,
}

/// Returns the grid.
#[must_use]
pub fn view(scene: &Scene<'_>) -> Grid {
    Rc::unwrap_or_clone(next_frame(scene, None).grid)
}

/// Returns the grid, leaving texts as they are in the last frame where they did not change.
#[must_use]
pub fn next_frame(scene: &Scene<'_>, last: Option<&Frame>) -> Frame {
    // Clusters are numbered per grid, so cells with clusters are not taken over.
    let last = last.filter(|last| {
        let is_alike = last.screen == *scene.screen && last.status == *scene.status;
        is_alike && !last.grid.has_clusters()
    });
    let mut grid = match last {
        Some(last) => Grid::clone(&last.grid),
        None => Grid::new(scene.screen.size),
    };
    grid.cursor = None;
    let mut painter = Painter {
        grid,
        scene,
        last,
        painted: Vec::with_capacity(16),
    };
    painter.top();
    for column in &scene.screen.columns {
        let tag = column.tag;
        painter.handle(tag, '▓', Surface::Handle);
        painter.text(
            ViewId::Column(column.id),
            tag.after_first_column(),
            Surface::Tag,
        );
        for window in &column.windows {
            if window.area.height > 0 {
                painter.window(window.id, window.tag, window.body);
            }
        }
        let below = column
            .windows
            .iter()
            .map(|w| w.area.bottom())
            .max()
            .unwrap_or(tag.bottom());
        let height = column.area.bottom().saturating_sub(below);
        let empty = Rect {
            y: below,
            height,
            ..column.area
        };
        painter.grid.fill(empty, Role::plain(Surface::Body));
    }
    Frame {
        grid: Rc::new(painter.grid),
        screen: scene.screen.clone(),
        status: scene.status.clone(),
        painted: painter.painted,
    }
}

struct Painter<'a> {
    grid: Grid,
    scene: &'a Scene<'a>,
    /// The frame that the grid began as: one of the same layout and status.
    last: Option<&'a Frame>,
    painted: Vec<Painted>,
}

impl Painter<'_> {
    fn top(&mut self) {
        let area = self.scene.screen.top;
        self.grid
            .fill(area.first_column(), Role::plain(Surface::Tag));
        self.text(ViewId::Top, area.after_first_column(), Surface::Tag);
        let status = self.scene.status;
        if status.text.is_empty() || area.height == 0 {
            return;
        }
        let surface = if status.is_alarm {
            Surface::Alarm
        } else {
            Surface::Status
        };
        let words = format!(" {} ", status.text);
        let width = u16::try_from(words.width())
            .unwrap_or(area.width)
            .min(area.width);
        let at = Rect {
            x: area.right() - width,
            width,
            ..area
        };
        self.grid.words(at, &words, Role::plain(surface));
    }

    fn window(&mut self, id: WindowId, tag: Rect, body: Rect) {
        let has_focus = self.scene.focus.and_then(ViewId::window) == Some(id);
        let surface = if has_focus {
            Surface::TagFocused
        } else {
            Surface::Tag
        };
        let is_dirty = self
            .buffer(ViewId::Body(id))
            .is_some_and(|(_, b)| is_dirty(b));
        self.grid.fill(tag.first_column(), Role::plain(surface));
        if is_dirty {
            self.handle(tag, '■', Surface::HandleModified);
        } else {
            self.handle(tag, '□', Surface::Handle);
        }
        self.text(ViewId::Tag(id), tag.after_first_column(), surface);
        if body.height > 0 {
            let shown = self.text(ViewId::Body(id), body.after_first_column(), Surface::Body);
            self.scroll_bar(id, body.first_column(), shown);
        }
    }

    fn handle(&mut self, tag: Rect, shape: char, surface: Surface) {
        let at = Rect {
            height: tag.height.min(1),
            ..tag.first_column()
        };
        self.grid
            .words(at, shape.encode_utf8(&mut [0; 4]), Role::plain(surface));
    }

    fn buffer(&self, view: ViewId) -> Option<(BufferId, &'_ Buffer)> {
        let id = self.scene.state.buffer_of(view)?;
        Some((id, self.scene.state.buffer(id)?))
    }

    /// Shows a view's text; returns the span that is in sight.
    fn text(&mut self, id: ViewId, area: Rect, surface: Surface) -> Span {
        let state = self.scene.state;
        let Some((buffer_id, buffer)) = state
            .buffer_of(id)
            .and_then(|buffer| Some((buffer, state.buffer(buffer)?)))
        else {
            self.grid.fill(area, Role::plain(surface));
            return Span::default();
        };
        let key = Key {
            id,
            buffer: buffer_id,
            seq: state.applied(Shard::Buffer(buffer_id)),
            area,
            surface,
            view: view_of(self.scene, buffer, id),
            has_focus: self.scene.focus == Some(id),
            sweep: self.scene.sweep.filter(|sweep| sweep.view == id),
        };
        let same = self
            .last
            .and_then(|last| last.painted.iter().find(|painted| painted.key == key));
        let painted = match same {
            Some(painted) => *painted,
            None => self.paint(buffer, key),
        };
        self.grid.cursor = painted.cursor.or(self.grid.cursor);
        self.painted.push(painted);
        painted.shown
    }

    fn paint(&mut self, buffer: &Buffer, key: Key) -> Painted {
        let Key {
            area,
            surface,
            view,
            ..
        } = key;
        self.grid.fill(area, Role::plain(surface));
        let shape = shape(buffer, area);
        let origin = wrap::row_start(buffer.text(), view.origin, shape);
        let mut inks = Inks::new(&key);
        let has_cursor = key.has_focus && view.dot.is_empty();
        let (mut end, mut y, mut cursor) = (origin, area.y, None);
        let grid = &mut self.grid;
        let count = usize::from(area.height);
        wrap::for_rows(buffer.text(), origin, shape, count, &mut |row| {
            if y >= area.bottom() {
                return;
            }
            inks.note(buffer, Span::new(end, row.end));
            end = row.end;
            show_row(
                grid,
                Rect {
                    y,
                    height: 1,
                    ..area
                },
                row,
                surface,
                &inks,
            );
            if has_cursor && row.holds(view.dot.q0) {
                let column = row.column_of(view.dot.q0).min(area.width.saturating_sub(1));
                cursor = Some((area.x + column, y));
            }
            y += 1;
        });
        Painted {
            key,
            shown: Span::new(origin, end),
            cursor,
        }
    }

    fn scroll_bar(&mut self, id: WindowId, bar: Rect, shown: Span) {
        let len = self
            .buffer(ViewId::Body(id))
            .map_or(0, |(_, buffer)| buffer.text().len());
        let height = u64::from(bar.height);
        let from = (shown.q0 * height).checked_div(len).unwrap_or(0);
        let to = if len == 0 {
            height
        } else {
            (shown.q1 * height).div_ceil(len).max(from + 1)
        };
        for (row, y) in (0_u64..).zip(bar.y..bar.bottom()) {
            let is_thumb = row >= from && row < to;
            let (shape, surface) = if is_thumb {
                ('█', Surface::Thumb)
            } else {
                ('│', Surface::Track)
            };
            let at = Rect {
                y,
                height: 1,
                ..bar
            };
            if bar.width > 0 {
                self.grid.set(at, shape, Role::plain(surface));
            }
        }
    }
}

/// Returns whether a window on this buffer shows that it is modified.
#[must_use]
pub fn is_dirty(buffer: &Buffer) -> bool {
    buffer.kind() == BufferKind::File && buffer.is_modified()
}

/// Returns a view's selection and origin: the user's own ones while watching.
#[must_use]
pub fn view_of(scene: &Scene<'_>, buffer: &Buffer, id: ViewId) -> View {
    let len = buffer.text().len();
    match scene.local.get(&id) {
        Some(local) => View {
            dot: local.dot.clamped(len),
            origin: local.origin.min(len),
        },
        None => buffer.view(id).unwrap_or_default(),
    }
}

/// Which marks the glyphs of one text get.
struct Inks {
    dot: Span,
    sweep: Option<Sweep>,
    /// The annotations of the row that is being painted: a layer may have very many.
    notes: Vec<(Span, Tone)>,
}

impl Inks {
    const fn new(key: &Key) -> Self {
        Self {
            dot: key.view.dot,
            sweep: key.sweep,
            notes: Vec::new(),
        }
    }

    /// Turns to the row that shows this span.
    fn note(&mut self, buffer: &Buffer, row: Span) {
        self.notes.clear();
        for (_, _, layer) in buffer.layers() {
            let toned =
                |(at, note): (Span, &Note)| Some((at, Tone::of(&note.style, note.severity)?));
            self.notes
                .extend(layer.touching(row).into_iter().filter_map(toned));
        }
    }

    fn mark(&self, glyph: &Glyph) -> Mark {
        let covers = |span: Span| {
            !span.is_empty() && glyph.q < span.q1 && span.q0 < glyph.q + u64::from(glyph.count)
        };
        if let Some(sweep) = self.sweep.filter(|sweep| covers(sweep.at)) {
            return sweep.mark;
        }
        if covers(self.dot) {
            return Mark::Selected;
        }
        let tones = self.notes.iter().filter(|(at, _)| covers(*at));
        if let Some(tone) = tones.map(|(_, tone)| *tone).max() {
            return Mark::Noted(tone);
        }
        match glyph.shown {
            Shown::Spelled(_) | Shown::Byte(_) => Mark::Spelled,
            Shown::Char(_) | Shown::Cluster(_) | Shown::Tab | Shown::Newline => Mark::Plain,
        }
    }

    /// Returns the mark of the cells after a row's text.
    fn filler(&self, row: &Row) -> Mark {
        match row.glyphs.last() {
            Some(last) if last.shown == Shown::Newline => match self.mark(last) {
                Mark::Noted(_) => Mark::Plain,
                mark => mark,
            },
            _ => Mark::Plain,
        }
    }
}

fn show_row(grid: &mut Grid, place: Rect, row: &Row, surface: Surface, inks: &Inks) {
    for glyph in &row.glyphs {
        let mark = inks.mark(glyph);
        put(
            grid,
            place.x + glyph.column,
            place.y,
            glyph,
            Role { surface, mark },
        );
    }
    let filler = inks.filler(row);
    if filler != Mark::Plain {
        // A selected newline shows as the rest of its row.
        let from = row.glyphs.last().map_or(0, |glyph| glyph.column);
        let rest = Rect {
            x: place.x + from,
            width: place.width - from,
            ..place
        };
        grid.fill(
            rest,
            Role {
                surface,
                mark: filler,
            },
        );
    }
}

fn put(grid: &mut Grid, x: u16, y: u16, glyph: &Glyph, role: Role) {
    let at = Rect {
        x,
        y,
        width: glyph.width,
        height: 1,
    };
    match &glyph.shown {
        // A wide character in a column of one cell would push the next column aside.
        Shown::Char(c) if !c.is_ascii() && c.width().unwrap_or(1) > usize::from(glyph.width) => {
            grid.words(at, "?", role);
        }
        Shown::Char(c) => grid.set(at, *c, role),
        Shown::Cluster(cluster) => grid.set_cluster(at, cluster.clone(), role),
        Shown::Tab => grid.fill(at, role),
        Shown::Newline => {}
        Shown::Spelled(text) => grid.words(at, text, role),
        Shown::Byte(byte) => grid.words(at, &format!("\\x{byte:02X}"), role),
    }
}
