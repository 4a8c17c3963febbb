//! What commands print: it goes to the error window of the script's directory.

use std::fmt::Write as _;

use apex_core::command::{File, Outcome, Print, WhereForm};
use apex_core::text::{Span, Text};

use super::Script;
use crate::app::App;

/// Bytes that one command may print.
const PRINT_LEN_MAX: u64 = 1 << 20;

impl App {
    pub(super) fn print(&mut self, script: &Script, outcome: &Outcome) {
        let mut said = String::new();
        let mut is_cut = false;
        for print in &outcome.prints {
            let left = PRINT_LEN_MAX.saturating_sub(said.len() as u64);
            match print {
                Print::Text { file, at } => {
                    let shown = Span::new(at.q0, at.q1.min(at.q0 + left));
                    is_cut |= shown != *at;
                    said += &script.files[*file].text.slice(shown);
                }
                Print::Where { file, at, form } => {
                    said += &place(&script.files[*file], *at, *form);
                }
                Print::Source(index) => {
                    let text = &script.yields[*index];
                    let shown: String = text.chars().take(index_of(left)).collect();
                    is_cut |= shown.len() < text.len();
                    said += &shown;
                }
                Print::Name(file) => said += &menu_line(script, *file),
            }
            if said.len() as u64 >= PRINT_LEN_MAX {
                is_cut = true;
                break;
            }
        }
        if said.is_empty() {
            return;
        }
        if !said.ends_with('\n') {
            said.push('\n');
        }
        if is_cut {
            let _infallible = writeln!(said, "(more than {PRINT_LEN_MAX} bytes are not shown)");
        }
        self.print_in(&script.directory, &said);
    }
}

fn index_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Returns what sam's menu says of a file: whether it is modified, that it is shown, whether it is
/// the current one, and its name.
fn menu_line(script: &Script, file: usize) -> String {
    let File {
        name, is_modified, ..
    } = &script.files[file];
    let modified = if *is_modified { '\'' } else { ' ' };
    let current = if script.current == Some(file) {
        '.'
    } else {
        ' '
    };
    format!("{modified}+{current} {name}\n")
}

/// Returns where a span is, as acme writes it: `name:12,14`, `name:#5,#9` or `name:2+#1,3+#0`.
fn place(file: &File, at: Span, form: WhereForm) -> String {
    let text = &file.text;
    let mut said = String::new();
    if !file.name.is_empty() {
        let _infallible = write!(said, "{}:", file.name);
    }
    let _infallible = match form {
        WhereForm::Positions if at.is_empty() => write!(said, "#{}", at.q0),
        WhereForm::Positions => write!(said, "#{},#{}", at.q0, at.q1),
        WhereForm::Lines => {
            let (first, last) = lines(text, at);
            if first == last {
                write!(said, "{first}")
            } else {
                write!(said, "{first},{last}")
            }
        }
        WhereForm::Columns => {
            let point = |q: u64| {
                let line = text.line_of(q);
                format!("{}+#{}", line + 1, q - text.line_start(line))
            };
            if at.is_empty() {
                write!(said, "{}", point(at.q0))
            } else {
                write!(said, "{},{}", point(at.q0), point(at.q1))
            }
        }
    };
    said.push('\n');
    said
}

/// Returns the first and the last line of a span, from 1.
fn lines(text: &Text, at: Span) -> (u64, u64) {
    let (first, mut last) = (text.line_of(at.q0), text.line_of(at.q1));
    if !at.is_empty() && text.char_at(at.q1 - 1) == Some('\n') {
        last -= 1;
    }
    (first + 1, last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_printed_as_an_address_of_itself() {
        let mut file = File {
            text: Text::from("one\ntwo\nthree\n"),
            dot: Span::at(0),
            name: "/a".into(),
            is_modified: false,
            is_warned: false,
        };
        for (at, lines, positions, columns) in [
            (Span::at(5), "/a:2", "/a:#5", "/a:2+#1"),
            (Span::new(4, 8), "/a:2", "/a:#4,#8", "/a:2+#0,3+#0"),
            (Span::new(1, 6), "/a:1,2", "/a:#1,#6", "/a:1+#1,2+#2"),
        ] {
            let said = |form| place(&file, at, form).trim_end().to_owned();
            assert_eq!(said(WhereForm::Lines), lines);
            assert_eq!(said(WhereForm::Positions), positions);
            assert_eq!(said(WhereForm::Columns), columns);
            for (said, is_exact) in [(lines, false), (positions, true)] {
                let address = said.strip_prefix("/a:").unwrap();
                let found = apex_core::address::resolve(&file.text, address).unwrap();
                assert!(found.q0 <= at.q0 && at.q1 <= found.q1, "{said}");
                assert!(!is_exact || found == at, "{said}");
            }
        }
        file.name.clear();
        assert_eq!(place(&file, Span::at(0), WhereForm::Lines), "1\n");
    }
}
