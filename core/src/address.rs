//! Addresses in a text: the simple ones that `name:address` uses.

use crate::text::{Span, Text};

/// Returns what an address stands for: a line (`12`), a column of a line in code points (`12:5`),
/// a position (`#34`), a range (`#34,#40`, `3,5`), `$` for the end. None when it is out of range or
/// of no such form.
#[must_use]
pub fn resolve(text: &Text, address: &str) -> Option<Span> {
    if address.is_empty() {
        return None;
    }
    let Some((first, second)) = address.split_once(',') else {
        return simple(text, address);
    };
    let (first, second) = (simple(text, first)?, simple(text, second)?);
    (first.q0 <= second.q1).then(|| Span::new(first.q0, second.q1))
}

fn simple(text: &Text, address: &str) -> Option<Span> {
    if address == "$" {
        return Some(Span::at(text.len()));
    }
    if let Some(position) = address.strip_prefix('#') {
        let q = position.parse().ok().filter(|q| *q <= text.len())?;
        return Some(Span::at(q));
    }
    let Some((line, column)) = address.split_once(':') else {
        return line_span(text, address);
    };
    let line = line_span(text, line)?;
    let column: u64 = column.parse().ok()?;
    let end = text.line_end(line.q0);
    Some(Span::at((line.q0 + column.saturating_sub(1)).min(end)))
}

/// Returns a line, its newline included. Line n + 1 of a text of n lines is the end, as in sam.
fn line_span(text: &Text, line: &str) -> Option<Span> {
    let line: u64 = line.parse().ok()?;
    if line == 0 {
        return Some(Span::at(0));
    }
    if line > text.line_count() {
        return None;
    }
    Some(Span::new(text.line_start(line - 1), text.line_start(line)))
}

/// Splits `NAME:ADDRESS` at the colon before the longest address at its end.
#[must_use]
pub fn split(name: &str) -> (&str, &str) {
    for (at, _) in name.match_indices(':') {
        let address = &name[at + 1..];
        if at > 0 && is_address(address) {
            return (&name[..at], address);
        }
    }
    (name, "")
}

fn is_address(address: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_simple = |text: &str| {
        let (line, column) = text.split_once(':').unwrap_or((text, "1"));
        text == "$"
            || text
                .strip_prefix('#')
                .map_or(is_number(line) && is_number(column), is_number)
    };
    address
        .split_once(',')
        .map_or_else(|| is_simple(address), |(a, b)| is_simple(a) && is_simple(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_mean_what_sam_means() {
        let text = Text::from("one\ntwo\nthréé");
        let cases = [
            ("1", Some((0, 4))),
            ("0", Some((0, 0))),
            ("3", Some((8, 13))),
            ("4", None),
            ("#5", Some((5, 5))),
            ("#14", None),
            ("2:3", Some((6, 6))),
            ("2:99", Some((7, 7))),
            ("1,2", Some((0, 8))),
            ("#4,#2", None),
            ("3,2", Some((8, 8))),
            ("$", Some((13, 13))),
            ("x", None),
            ("", None),
            ("99999999999999999999", None),
        ];
        for (address, want) in cases {
            let want = want.map(|(q0, q1)| Span::new(q0, q1));
            assert_eq!(resolve(&text, address), want, "{address}");
        }
    }

    #[test]
    fn a_name_keeps_colons_that_begin_no_address() {
        for (name, want) in [
            ("a.rs:12", ("a.rs", "12")),
            ("a.rs:12:5", ("a.rs", "12:5")),
            ("c d.txt:3", ("c d.txt", "3")),
            ("a:b", ("a:b", "")),
            ("a:b:#4", ("a:b", "#4")),
            (":3", (":3", "")),
            ("a:", ("a:", "")),
            ("a:1,2", ("a", "1,2")),
            ("a.rs:12:", ("a.rs:12:", "")),
        ] {
            assert_eq!(split(name), want, "{name}");
        }
    }
}
