//! Rows, widths and positions, on texts that have hurt other editors.

use super::*;

const SHAPE: Shape = Shape { width: 10, tab: 4 };

fn show(text: &Text, from: u64, shape: Shape) -> Vec<String> {
    rows(text, from, shape, 100)
        .iter()
        .map(|row| {
            let mut line = String::new();
            for glyph in &row.glyphs {
                match &glyph.shown {
                    Shown::Char(c) => line.push(*c),
                    Shown::Cluster(text) | Shown::Spelled(text) => line.push_str(text),
                    Shown::Tab => line.extend(std::iter::repeat_n('>', glyph.width.into())),
                    Shown::Newline => line.push('$'),
                    Shown::Byte(byte) => line.push_str(&format!("\\x{byte:02X}")),
                }
            }
            line
        })
        .collect()
}

#[test]
fn rows_break_at_the_width_and_at_newlines() {
    let check = |text: &str, expect: &[&str]| {
        assert_eq!(show(&Text::from(text), 0, SHAPE), expect, "{text:?}");
    };
    check("", &[""]);
    check("ab", &["ab"]);
    check("ab\n", &["ab$", ""]);
    check("0123456789", &["0123456789", ""]);
    check("0123456789\nx", &["0123456789$", "x"]);
    check("0123456789ab", &["0123456789", "ab"]);
    check("a\tb\n\t\t\tx", &["a>>>b$", ">>>>>>>>>>", "x"]);
    check("\0\u{1b}[\u{7f}\u{85}", &["^@^[[^?", "\\u0085"]);
    check(
        "\u{10FEFF}\u{10FE80}ab\u{10FE81}",
        &["\\xFF\\x80ab", "\\x81"],
    );
}

#[test]
fn wide_and_joined_characters_take_their_cells() {
    let check = |text: &str, expect: &[(u32, u16)]| {
        let found = rows(&Text::from(text), 0, SHAPE, 1);
        let found: Vec<_> = found[0].glyphs.iter().map(|g| (g.count, g.width)).collect();
        assert_eq!(found, expect, "{text:?}");
    };
    check("漢字", &[(1, 2), (1, 2)]);
    check("e\u{301}x", &[(2, 1), (1, 1)]);
    check("👩‍👩‍👧x", &[(5, 2), (1, 1)]);
    check("🇩🇪🇫🇷", &[(2, 2), (2, 2)]);
    check("\u{301}", &[(1, 6)]);
    check("é€ß", &[(1, 1), (1, 1), (1, 1)]);
    check("a漢b", &[(1, 1), (1, 2), (1, 1)]);
}

#[test]
fn a_wide_character_that_does_not_fit_goes_to_the_next_row() {
    let text = Text::from("012345678漢字");
    assert_eq!(show(&text, 0, SHAPE), ["012345678", "漢字"]);
    let narrow = Shape { width: 1, tab: 4 };
    assert_eq!(show(&Text::from("漢a"), 0, narrow), ["漢", "a", ""]);
}

#[test]
fn a_pile_of_marks_is_broken_up() {
    let zalgo = format!("a{}", "\u{301}".repeat(100));
    let found = rows(
        &Text::from(zalgo.as_str()),
        0,
        Shape { width: 500, tab: 4 },
        1,
    );
    assert_eq!(found[0].glyphs[0].count, CLUSTER_COUNT_MAX);
    assert_eq!(found[0].end, 101);
}

#[test]
fn positions_and_cells_are_inverse() {
    let text = Text::from("a漢\tb e\u{301}\u{1}\u{10FEFF}0123456789\n\nend");
    for row in rows(&text, 0, SHAPE, 100) {
        for glyph in &row.glyphs {
            assert!(row.holds(glyph.q));
            assert_eq!(row.column_of(glyph.q), glyph.column);
            assert_eq!(row.position_at(glyph.column), glyph.q);
        }
        if row.is_last {
            assert!(row.holds(text.len()));
            assert_eq!(row.position_at(9), text.len());
        }
    }
}

/// plan9port#668: one line of 5,000 code points between 50 short ones.
#[test]
fn scrolling_is_an_exact_inverse_on_long_wrapped_lines() {
    let mut source = "short\n".repeat(25);
    source.push_str(&"0123456789漢\t".repeat(417));
    source.push('\n');
    source.push_str(&"short\n".repeat(25));
    let text = Text::from(source.as_str());
    let mut origin = 0;
    for step in [7, 1, 40, 3, 200, 9] {
        let below = scroll(&text, origin, step, SHAPE);
        if scroll(&text, below, 1, SHAPE) != below {
            assert_eq!(scroll(&text, below, -step, SHAPE), origin, "step {step}");
        }
        origin = below;
    }
    assert_eq!(scroll(&text, 0, i64::MAX - 1, SHAPE), text.len());
    assert_eq!(scroll(&text, text.len(), i64::MIN, SHAPE), 0);
}

#[test]
fn a_huge_line_is_broken_at_its_segments() {
    let text = Text::from("0123456".repeat(10_000).as_str());
    let start = row_start(&text, 50_000, SHAPE);
    assert!(start <= 50_000 && 50_000 - start < 10);
    let below = scroll(&text, start, 5_000, SHAPE);
    assert!(below > start);
    let up = scroll(&text, 3 * SEGMENT_COUNT, -1, SHAPE);
    assert_eq!(scroll(&text, up, 1, SHAPE), 3 * SEGMENT_COUNT);
}

#[test]
fn every_row_start_is_found_from_every_position_of_its_row() {
    let source = "ab\tc漢字e\u{301}f\u{10FEFF}g 🇩🇪 long enough to wrap twice over\n\nx\n";
    let text = Text::from(source);
    for width in 1..20 {
        let shape = Shape { width, tab: 4 };
        for row in rows(&text, 0, shape, 1000) {
            for q in row.start..row.end {
                assert_eq!(row_start(&text, q, shape), row.start, "width {width}, #{q}");
            }
        }
    }
}
