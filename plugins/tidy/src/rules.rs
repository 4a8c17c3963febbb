//! What is to be changed in a text, and in which files.
//!
//! 1. Spaces and tabs at the end of a line go. The CR of a CRLF stays, and the blanks before it go;
//!    a CR anywhere else is text like any other, and blanks right behind such a one stay, as it
//!    would become half of a line end without them. Nothing here ever takes out a CR.
//! 2. In Markdown two spaces behind text are a hard line break: those two stay, and what stands
//!    before them in the same run of blanks goes.
//! 3. A text whose last line does not end gets the line end of the line before it, or LF if it is
//!    the only line. An empty text stays empty, also when it became empty by rule 1, and a text
//!    that ends its lines in lone CRs is left as it is.
//!
//! A [`Scan`] takes the text in pieces of any size, so that the longest file costs no more memory
//! than its changes.

/// Where the text begins, in code points, to where it ends, and what comes in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The first code point that goes.
    pub q0: u64,
    /// The first behind those that go; equal to `q0` where something only comes.
    pub q1: u64,
    /// What comes; empty where something only goes.
    pub text: &'static str,
}

/// The settings of the tool, as the user wrote them: file name patterns, parted by commas or
/// blanks.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Files to leave alone altogether.
    pub off: String,
    /// Files whose trailing blanks stay.
    pub keep_blanks: String,
    /// Files whose end stays as it is.
    pub keep_eof: String,
}

/// What to do to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Strip blanks at line ends.
    pub strip_blanks: bool,
    /// Add a missing final newline.
    pub end_last_line: bool,
    /// Two spaces behind text mean something.
    pub hard_breaks: bool,
}

impl Rules {
    /// The rules for the file of that path.
    #[must_use]
    pub fn of(path: &str, settings: &Settings) -> Self {
        let on = !is_listed(&settings.off, path);
        Self {
            strip_blanks: on && !is_listed(&settings.keep_blanks, path),
            end_last_line: on && !is_listed(&settings.keep_eof, path),
            hard_breaks: is_markdown(path),
        }
    }

    /// Whether there is anything to do at all.
    #[must_use]
    pub fn are_off(&self) -> bool {
        !self.strip_blanks && !self.end_last_line
    }
}

/// Finds the fixes of a text that is fed to it piece by piece.
#[derive(Debug)]
pub struct Scan {
    rules: Rules,
    fixes: Vec<Fix>,
    /// Code points seen.
    at: u64,
    line: Line,
    /// The end of the last line that had one.
    line_end: Option<&'static str>,
}

/// What is known of the line that is being read.
#[derive(Debug, Default)]
struct Line {
    /// Something other than blanks stands before the blanks.
    has_text: bool,
    /// How many blanks have come since the last text.
    blanks: u64,
    /// How many of them, counted from the last, are spaces.
    spaces: u64,
    /// A CR came last, which may be half of a line end.
    cr: bool,
    /// The blanks stand right behind a CR that is text.
    follows_cr: bool,
}

impl Scan {
    /// A scan that has seen nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            fixes: Vec::new(),
            at: 0,
            line: Line::default(),
            line_end: None,
        }
    }

    /// Takes the next piece of the text.
    pub fn feed(&mut self, piece: &str) {
        for c in piece.chars() {
            match c {
                '\n' => self.end_line(),
                '\r' => {
                    self.settle_cr();
                    self.line.cr = true;
                }
                ' ' | '\t' => {
                    self.settle_cr();
                    self.line.blanks += 1;
                    self.line.spaces = if c == ' ' { self.line.spaces + 1 } else { 0 };
                }
                _ => {
                    self.line = Line {
                        has_text: true,
                        ..Line::default()
                    }
                }
            }
            self.at += 1;
        }
    }

    /// How many fixes have been found so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.fixes.len()
    }

    /// The fixes of the text as it was fed, in ascending order, none touching another.
    #[must_use]
    pub fn finish(mut self) -> Vec<Fix> {
        if !self.line.cr {
            self.end_text();
        } else if self.line_end.is_some() && self.rules.end_last_line {
            // The CR is half of a line end already.
            self.strip(self.at - 1);
            self.come_at_end("\n");
        }
        self.fixes
    }

    /// The text has ended, not in a CR.
    fn end_text(&mut self) {
        let kept = self.strip(self.at);
        let is_ended = !self.line.has_text && kept == 0;
        if self.rules.end_last_line && !is_ended {
            self.come_at_end(self.line_end.unwrap_or("\n"));
        }
    }

    /// Lets this text come at the end, together with what goes there.
    fn come_at_end(&mut self, text: &'static str) {
        let end = self.at;
        match self.fixes.last_mut() {
            Some(last) if last.q1 == end => last.text = text,
            _ => self.fixes.push(Fix {
                q0: end,
                q1: end,
                text,
            }),
        }
    }

    /// A line feed has come.
    fn end_line(&mut self) {
        let (end, line_end) = if self.line.cr {
            (self.at - 1, "\r\n")
        } else {
            (self.at, "\n")
        };
        self.strip(end);
        self.line_end = Some(line_end);
        self.line = Line::default();
    }

    /// A CR before this was not half of a line end, so it was text.
    fn settle_cr(&mut self) {
        if self.line.cr {
            self.line = Line {
                has_text: true,
                follows_cr: true,
                ..Line::default()
            };
        }
    }

    /// Strips the blanks that end at `end`, and says how many stay.
    fn strip(&mut self, end: u64) -> u64 {
        let Line {
            has_text,
            blanks,
            spaces,
            follows_cr,
            ..
        } = self.line;
        if !self.rules.strip_blanks || follows_cr {
            return blanks;
        }
        let is_break = self.rules.hard_breaks && has_text && spaces >= 2;
        let kept = if is_break { 2 } else { 0 };
        if blanks > kept {
            self.fixes.push(Fix {
                q0: end - blanks,
                q1: end - kept,
                text: "",
            });
        }
        kept
    }
}

/// Whether the file of that path is Markdown.
fn is_markdown(path: &str) -> bool {
    let name = base_name(path).to_lowercase();
    name.ends_with(".md") || name.ends_with(".markdown")
}

/// What stands behind the last slash.
fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether one of the patterns matches the file's name or its whole path.
fn is_listed(patterns: &str, path: &str) -> bool {
    patterns
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|pattern| !pattern.is_empty())
        .any(|pattern| glob(pattern, base_name(path)) || glob(pattern, path))
}

/// Whether a pattern matches the whole of a name. `*` stands for any run of characters, slashes
/// too, `?` for one, `[a-z]` for one of those, `[!a-z]` for one that is none of them; a `[` that is
/// not closed stands for itself.
fn glob(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // The last star, and how much of the name it stood for when the rest was tried last.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
        } else if let Some(next) = one(&pattern, p, name[n]) {
            p = next;
            n += 1;
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            p = at + 1;
            n = taken + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// Where the pattern goes on if the element at `p` matches `c`.
fn one(pattern: &[char], p: usize, c: char) -> Option<usize> {
    match *pattern.get(p)? {
        '?' => Some(p + 1),
        '[' => match class(&pattern[p + 1..], c) {
            Some((true, len)) => Some(p + 1 + len),
            Some((false, _)) => None,
            None => (c == '[').then_some(p + 1),
        },
        same => (same == c).then_some(p + 1),
    }
}

/// Whether the class that begins here holds `c`, and how long it is with its bracket; `None` if
/// nothing closes it.
fn class(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let is_negated = pattern.first() == Some(&'!');
    let start = usize::from(is_negated);
    // A bracket right at the start is a member.
    let len = pattern.iter().skip(start + 1).position(|&c| c == ']')? + start + 1;
    let members = &pattern[start..len];
    let mut is_member = false;
    let mut at = 0;
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == '-' {
            is_member |= (members[at]..=members[at + 2]).contains(&c);
            at += 3;
        } else {
            is_member |= members[at] == c;
            at += 1;
        }
    }
    Some((is_member != is_negated, len + 1))
}

#[cfg(test)]
mod tests;
