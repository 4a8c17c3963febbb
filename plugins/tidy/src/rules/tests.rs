use super::{Fix, Rules, Scan, Settings, glob, is_listed};

const ALL: Rules = Rules {
    strip_blanks: true,
    end_last_line: true,
    hard_breaks: false,
};
const MARKDOWN: Rules = Rules {
    hard_breaks: true,
    ..ALL
};

fn fixes(rules: Rules, pieces: &[&str]) -> Vec<Fix> {
    let mut scan = Scan::new(rules);
    for piece in pieces {
        scan.feed(piece);
    }
    scan.finish()
}

/// Carries the fixes out, after checking that they are in order and apart.
fn apply(text: &str, fixes: &[Fix]) -> String {
    let chars: Vec<char> = text.chars().collect();
    let place = |q: u64| usize::try_from(q).expect("a test's text is short");
    let mut result = String::new();
    let mut done = 0;
    for (index, fix) in fixes.iter().enumerate() {
        assert!(
            fix.q0 < fix.q1 || !fix.text.is_empty(),
            "{fix:?} changes nothing in {text:?}"
        );
        assert!(
            index == 0 || place(fix.q0) > done,
            "{fixes:?} touch in {text:?}"
        );
        assert!(
            fix.q0 <= fix.q1 && place(fix.q1) <= chars.len(),
            "{fix:?} leaves {text:?}"
        );
        result.extend(&chars[done..place(fix.q0)]);
        result.push_str(fix.text);
        done = place(fix.q1);
    }
    result.extend(&chars[done..]);
    result
}

#[track_caller]
fn check(rules: Rules, text: &str, want: &str) {
    let found = fixes(rules, &[text]);
    assert_eq!(apply(text, &found), want, "from {text:?}");
    assert_eq!(
        fixes(rules, &[want]),
        [],
        "a tidied text has nothing left to do"
    );
}

#[test]
fn blanks_at_line_ends_go() {
    check(ALL, "a  \nb\t\n \t \nc\n", "a\nb\n\nc\n");
    check(ALL, "  a b\tc  \n", "  a b\tc\n");
    check(ALL, "a  ", "a\n");
    check(ALL, "a \u{a0}\n", "a \u{a0}\n");
}

#[test]
fn a_clean_text_has_no_fixes() {
    for text in [
        "",
        "\n",
        "a\n",
        "\n\n\n",
        "a\r\n\r\nb\r\n",
        "  a\n\tb\n",
        "é\u{10ffff}\n",
    ] {
        assert_eq!(fixes(ALL, &[text]), [], "{text:?}");
    }
}

#[test]
fn the_last_line_gets_an_end_once() {
    check(ALL, "a", "a\n");
    check(ALL, "a\nb", "a\nb\n");
    check(ALL, "a\n  ", "a\n");
    check(ALL, "a\r\nb", "a\r\nb\r\n");
    check(ALL, "a\r\nb\nc", "a\r\nb\nc\n");
    check(ALL, "a\nb\r\nc", "a\nb\r\nc\r\n");
}

#[test]
fn an_empty_text_stays_empty() {
    check(ALL, "", "");
    check(ALL, " \t ", "");
}

#[test]
fn the_cr_of_a_line_end_stays_and_the_blanks_before_it_go() {
    check(ALL, "a  \r\n\t\r\nb \r\n", "a\r\n\r\nb\r\n");
    check(ALL, "a \r\nb \t", "a\r\nb\r\n");
}

#[test]
fn a_lone_cr_is_text() {
    check(ALL, "a \rb\n", "a \rb\n");
    check(ALL, "a \r\r\n", "a \r\r\n");
    check(ALL, "a\r \n", "a\r \n");
    check(ALL, "a\r b \n", "a\r b\n");
}

#[test]
fn a_text_that_ends_its_lines_in_lone_crs_is_left_alone() {
    check(ALL, "a\rb \r", "a\rb \r");
    check(ALL, "\r", "\r");
}

#[test]
fn a_last_line_that_ends_in_half_a_line_end_gets_the_other_half() {
    check(ALL, "a\r\nb\r", "a\r\nb\r\n");
    check(ALL, "a\r\n \r", "a\r\n\r\n");
}

#[test]
fn in_markdown_two_spaces_behind_text_stay() {
    check(MARKDOWN, "a  \nb\n", "a  \nb\n");
    check(MARKDOWN, "a  \r\nb\r\n", "a  \r\nb\r\n");
    check(MARKDOWN, "a    \nb \t  \n", "a  \nb  \n");
    check(MARKDOWN, "a \nb\t\nc  \t\nd \t \n", "a\nb\nc\nd\n");
    check(MARKDOWN, "  \n    \n", "\n\n");
    check(MARKDOWN, "a  ", "a  \n");
    check(MARKDOWN, "a    ", "a  \n");
}

#[test]
fn either_half_can_be_kept() {
    let blanks = Rules {
        end_last_line: false,
        ..ALL
    };
    check(blanks, "a \nb ", "a\nb");
    let end = Rules {
        strip_blanks: false,
        ..ALL
    };
    check(end, "a \nb ", "a \nb \n");
    check(end, "a\n ", "a\n \n");
    check(end, " ", " \n");
}

#[test]
fn positions_count_code_points_and_trailing_text_is_replaced_in_one_fix() {
    assert_eq!(
        fixes(ALL, &["\u{10f780}é  \nx  "]),
        [
            Fix {
                q0: 2,
                q1: 4,
                text: ""
            },
            Fix {
                q0: 6,
                q1: 8,
                text: "\n"
            }
        ]
    );
}

#[test]
fn the_pieces_do_not_matter() {
    let alphabet = ['a', ' ', '\t', '\r', '\n'];
    for number in 0..5_usize.pow(6) {
        let digit = |at: u32| alphabet[number / 5_usize.pow(at) % 5];
        let text: String = (0..6).map(digit).collect();
        for rules in [ALL, MARKDOWN] {
            let whole = fixes(rules, &[&text]);
            for cut in 1..6 {
                assert_eq!(
                    whole,
                    fixes(rules, &[&text[..cut], &text[cut..]]),
                    "{text:?} at {cut}"
                );
            }
        }
    }
}

#[test]
fn every_short_text_keeps_its_crs_and_its_words_and_is_tidy_after_one_round() {
    let alphabet = ['a', ' ', '\t', '\r', '\n'];
    for number in 0..5_usize.pow(7) {
        let digit = |at: u32| alphabet[number / 5_usize.pow(at) % 5];
        let text: String = (0..7).map(digit).collect();
        let found = fixes(ALL, &[&text]);
        let after = apply(&text, &found);
        let rest = |text: &str, c: char| text.matches(c).count();
        assert_eq!(rest(&text, 'a'), rest(&after, 'a'), "{text:?}");
        assert!(rest(&text, '\r') <= rest(&after, '\r'), "{text:?}");
        assert_eq!(fixes(ALL, &[&after]), [], "{text:?} becomes {after:?}");
    }
}

#[test]
fn patterns_match_names() {
    for (pattern, name, want) in [
        ("*.md", "a.md", true),
        ("*.md", "a.md.txt", false),
        ("*", "", true),
        ("", "", true),
        ("", "a", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("*a*b*", "xxaxxbxx", true),
        ("*a*b*", "xxbxxaxx", false),
        ("/src/*.c", "/src/deep/x.c", true),
        ("[a-c]x", "bx", true),
        ("[a-c]x", "dx", false),
        ("[!a-c]x", "dx", true),
        ("[!a-c]x", "ax", false),
        ("[]]", "]", true),
        ("[-a]", "-", true),
        ("[a", "[a", true),
        ("[a", "a", false),
        ("é*", "école", true),
        ("**", "anything", true),
    ] {
        assert_eq!(glob(pattern, name), want, "{pattern:?} and {name:?}");
    }
}

#[test]
fn lists_are_parted_by_commas_and_blanks_and_match_base_name_and_path() {
    let list = " *.diff,*.patch\n/tmp/*  ,Makefile";
    for path in ["/a/b.diff", "b.patch", "/tmp/x/y", "/deep/Makefile"] {
        assert!(is_listed(list, path), "{path}");
    }
    for path in ["/a/b.c", "/home/tmp/x", "Makefile.am"] {
        assert!(!is_listed(list, path), "{path}");
    }
    assert!(!is_listed("", "/a/b"));
    assert!(!is_listed(" , ", ""));
}

#[test]
fn settings_switch_each_half_and_the_whole() {
    let settings = Settings {
        off: "*.diff".to_owned(),
        keep_blanks: "*.c".to_owned(),
        keep_eof: "*.txt".to_owned(),
    };
    assert!(Rules::of("/a/x.diff", &settings).are_off());
    assert_eq!(
        Rules::of("/a/x.c", &settings),
        Rules {
            strip_blanks: false,
            ..ALL
        }
    );
    assert_eq!(
        Rules::of("/a/x.txt", &settings),
        Rules {
            end_last_line: false,
            ..ALL
        }
    );
    assert_eq!(Rules::of("/a/x.rs", &settings), ALL);
    assert_eq!(Rules::of("/a/README.MD", &settings), MARKDOWN);
    assert_eq!(Rules::of("/a/x.markdown", &Settings::default()), MARKDOWN);
    assert_eq!(Rules::of("/a.md/x", &Settings::default()), ALL);
}
