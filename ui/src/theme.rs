//! What the cells of the screen mean, and the colours for it: acme's palette.
//!
//! The view speaks of roles only. A terminal that cannot show 24 bits gets the nearest of 256
//! colours; with `NO_COLOR` set, roles differ by weight, underline and reverse video.

/// Which part of the screen a cell belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surface {
    /// The text of a body.
    #[default]
    Body,
    /// A tag, a column's tag or the top row.
    Tag,
    /// The tag of the window that has the keyboard.
    TagFocused,
    /// The part of a scroll bar that stands for text out of sight.
    Track,
    /// The part of a scroll bar that stands for the text in sight.
    Thumb,
    /// A layout box.
    Handle,
    /// The layout box of a modified window.
    HandleModified,
    /// What the top row says of the session.
    Status,
    /// What the top row says when something is wrong.
    Alarm,
}

/// What is special about a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    #[default]
    Plain,
    /// It is selected.
    Selected,
    /// It is swept with the second button.
    Executing,
    /// It is swept with the third button.
    Looking,
    /// It spells out something that is not a character.
    Spelled,
    /// A tool has something to say about it.
    Noted(Tone),
}

/// What a tool's annotation is about; the later, the more it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// Prose in a program.
    Comment,
    /// A text in quotes, a number.
    Literal,
    /// A word of the language.
    Keyword,
    /// Something that is looked for.
    Match,
    /// A hint.
    Hint,
    /// Good to know.
    Information,
    /// Something may be wrong.
    Warning,
    /// Something is wrong.
    Error,
}

impl Tone {
    /// Returns what an annotation of a style and a severity is about; the severity decides unless
    /// it is 0, style only. A style that has no colours here is shown plainly.
    #[must_use]
    pub fn of(style: &str, severity: u8) -> Option<Self> {
        Some(match (severity, style) {
            (4, _) => Self::Error,
            (3, _) => Self::Warning,
            (2, _) => Self::Information,
            (1, _) => Self::Hint,
            (_, "comment") => Self::Comment,
            (_, "string" | "number" | "literal") => Self::Literal,
            (_, "keyword") => Self::Keyword,
            (_, "match") => Self::Match,
            (_, "hint") => Self::Hint,
            (_, "information") => Self::Information,
            (_, "warning") => Self::Warning,
            (_, "error") => Self::Error,
            _ => return None,
        })
    }

    /// Returns the colour of the text.
    const fn ink(self, plain: Rgb) -> Rgb {
        match self {
            Self::Comment => OLIVE,
            Self::Literal => GREEN,
            Self::Keyword | Self::Information => BLUE,
            Self::Match | Self::Hint => plain,
            Self::Warning => BROWN,
            Self::Error => RED,
        }
    }

    /// Returns the attributes beside the colours.
    const fn attributes(self) -> &'static str {
        match self {
            Self::Comment | Self::Literal | Self::Match => "",
            Self::Keyword => ";1",
            Self::Hint | Self::Information | Self::Warning => ";4",
            Self::Error => ";1;4",
        }
    }
}

/// The role of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Where it is.
    pub surface: Surface,
    /// What is special about it.
    pub mark: Mark,
}

impl Role {
    /// Returns a role without a mark.
    #[must_use]
    pub const fn plain(surface: Surface) -> Self {
        Self {
            surface,
            mark: Mark::Plain,
        }
    }
}

/// How much colour a terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// None, or none wanted.
    Mono,
    /// The 256 colours of xterm.
    Indexed,
    /// 24 bits.
    True,
}

impl Depth {
    /// Returns the depth that the environment speaks of: `NO_COLOR`, `COLORTERM` and `TERM`.
    #[must_use]
    pub fn of(no_color: Option<&str>, colorterm: Option<&str>, term: Option<&str>) -> Self {
        if no_color.is_some_and(|value| !value.is_empty()) || term == Some("dumb") {
            return Self::Mono;
        }
        let is_true = colorterm.is_some_and(|value| value == "truecolor" || value == "24bit")
            || term.is_some_and(|term| term.contains("direct") || term.contains("kitty"));
        if is_true { Self::True } else { Self::Indexed }
    }
}

/// Red, green and blue.
type Rgb = (u8, u8, u8);

const BLACK: Rgb = (0, 0, 0);
const WHITE: Rgb = (0xff, 0xff, 0xff);
const PALE_YELLOW: Rgb = (0xff, 0xff, 0xea);
const PALE_CYAN: Rgb = (0xea, 0xff, 0xff);
const CYAN: Rgb = (0xc0, 0xf0, 0xff);
const DARK_YELLOW: Rgb = (0xee, 0xee, 0x9e);
const DARK_CYAN: Rgb = (0x9e, 0xee, 0xee);
const OLIVE: Rgb = (0x99, 0x99, 0x4c);
const PURPLE: Rgb = (0x88, 0x88, 0xcc);
const BLUE: Rgb = (0x00, 0x00, 0x99);
const RED: Rgb = (0xaa, 0x00, 0x00);
const GREEN: Rgb = (0x00, 0x66, 0x00);
const BROWN: Rgb = (0x88, 0x44, 0x00);
const ORANGE: Rgb = (0xff, 0xd0, 0x80);

impl Role {
    /// Returns foreground and background.
    const fn colours(self) -> (Rgb, Rgb) {
        let (ink, ground, selected) = match self.surface {
            Surface::Body => (BLACK, PALE_YELLOW, DARK_YELLOW),
            Surface::Tag => (BLACK, PALE_CYAN, DARK_CYAN),
            Surface::TagFocused => (BLACK, CYAN, DARK_CYAN),
            Surface::Track => (OLIVE, OLIVE, OLIVE),
            Surface::Thumb => (PALE_YELLOW, OLIVE, OLIVE),
            Surface::Handle => (PALE_CYAN, PURPLE, PURPLE),
            Surface::HandleModified => (BLUE, PURPLE, PURPLE),
            Surface::Status => (BLUE, PALE_CYAN, DARK_CYAN),
            Surface::Alarm => (WHITE, RED, RED),
        };
        match self.mark {
            Mark::Plain => (ink, ground),
            Mark::Noted(Tone::Match) => (ink, ORANGE),
            Mark::Noted(tone) => (tone.ink(ink), ground),
            Mark::Selected => (ink, selected),
            Mark::Executing => (WHITE, RED),
            Mark::Looking => (WHITE, GREEN),
            Mark::Spelled => (PURPLE, ground),
        }
    }

    /// Returns the attributes that stand for the role where there is no colour.
    const fn attributes(self) -> &'static str {
        match (self.mark, self.surface) {
            (Mark::Selected, _) => ";7",
            (Mark::Executing, _) => ";1;7",
            (Mark::Looking, _) => ";4;7",
            (Mark::Spelled, _) => ";2",
            (Mark::Noted(Tone::Comment), _) => ";2",
            (Mark::Noted(Tone::Literal), _) => "",
            (Mark::Noted(Tone::Match), _) => ";1",
            (Mark::Noted(tone), _) => tone.attributes(),
            (Mark::Plain, Surface::Tag | Surface::Status) => ";4",
            (Mark::Plain, Surface::TagFocused) => ";1;4",
            (Mark::Plain, Surface::Alarm) => ";1;7",
            (Mark::Plain, Surface::Handle | Surface::HandleModified) => ";1",
            (Mark::Plain, Surface::Body | Surface::Track | Surface::Thumb) => "",
        }
    }

    /// Returns the parameters of the escape sequence that sets this role, all others off.
    #[must_use]
    pub fn parameters(self, depth: Depth) -> String {
        let ((fr, fg, fb), (br, bg, bb)) = self.colours();
        let more = match self.mark {
            Mark::Noted(tone) => tone.attributes(),
            Mark::Plain | Mark::Selected | Mark::Executing | Mark::Looking | Mark::Spelled => "",
        };
        match depth {
            Depth::Mono => format!("0{}", self.attributes()),
            Depth::Indexed => format!(
                "0;38;5;{};48;5;{}{more}",
                nearest((fr, fg, fb)),
                nearest((br, bg, bb))
            ),
            Depth::True => {
                format!("0;38;2;{fr};{fg};{fb};48;2;{br};{bg};{bb}{more}")
            }
        }
    }
}

/// Returns the nearest colour of xterm's cube of 216, or of its 24 greys.
fn nearest(rgb: Rgb) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let step = |value: u8| {
        (0_u8..6)
            .min_by_key(|i| STEPS[usize::from(*i)].abs_diff(value))
            .unwrap_or_default()
    };
    let (r, g, b) = (step(rgb.0), step(rgb.1), step(rgb.2));
    16 + 36 * r + 6 * g + b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides_the_depth() {
        assert_eq!(
            Depth::of(None, Some("truecolor"), Some("xterm-256color")),
            Depth::True
        );
        assert_eq!(
            Depth::of(None, None, Some("xterm-256color")),
            Depth::Indexed
        );
        assert_eq!(
            Depth::of(Some("1"), Some("truecolor"), Some("xterm")),
            Depth::Mono
        );
        assert_eq!(Depth::of(Some(""), Some("24bit"), None), Depth::True);
        assert_eq!(Depth::of(None, None, Some("dumb")), Depth::Mono);
    }

    #[test]
    fn a_role_becomes_parameters_of_each_depth() {
        let body = Role::plain(Surface::Body);
        assert_eq!(
            body.parameters(Depth::True),
            "0;38;2;0;0;0;48;2;255;255;234"
        );
        assert_eq!(body.parameters(Depth::Indexed), "0;38;5;16;48;5;230");
        assert_eq!(body.parameters(Depth::Mono), "0");
        let selected = Role {
            surface: Surface::Tag,
            mark: Mark::Selected,
        };
        assert_eq!(selected.parameters(Depth::Mono), "0;7");
    }

    #[test]
    fn annotations_of_different_kinds_look_different_at_every_depth() {
        let kinds = [
            ("comment", 0),
            ("match", 0),
            ("keyword", 0),
            ("error", 0),
            ("", 3),
            ("", 1),
        ];
        let look = |style, severity, depth| {
            let role = Role {
                surface: Surface::Body,
                mark: Tone::of(style, severity).map_or(Mark::Plain, Mark::Noted),
            };
            role.parameters(depth)
        };
        for depth in [Depth::True, Depth::Indexed] {
            let looks = kinds.map(|(style, severity)| look(style, severity, depth));
            let plain = look("unheard of", 0, depth);
            let mut all: Vec<_> = looks.into_iter().chain([plain]).collect();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), kinds.len() + 1, "{depth:?}: {all:?}");
        }
        for depth in [Depth::True, Depth::Indexed, Depth::Mono] {
            let plain = Role::plain(Surface::Body).parameters(depth);
            assert_eq!(look("unheard of", 0, depth), plain);
            assert_eq!(look("unheard of", 9, depth), plain);
            let error = look("error", 0, depth);
            assert_eq!(look("comment", 4, depth), error, "the severity decides");
        }
        assert_eq!(look("error", 0, Depth::Mono), "0;1;4");
    }
}
