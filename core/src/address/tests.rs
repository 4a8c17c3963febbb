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
        ("/two/", Some((4, 7))),
        ("/two", Some((4, 7))),
        ("$-/o/", Some((6, 7))),
        ("/t/,/é+/", Some((4, 13))),
        ("x", None),
        ("", None),
        ("/(/", None),
        ("//", None),
        ("99999999999999999999", None),
        ("99999999999999999999:1", None),
        ("1:99999999999999999999", Some((3, 3))),
    ];
    for (address, want) in cases {
        let want = want.map(|(q0, q1)| Span::new(q0, q1));
        assert_eq!(resolve(&text, address), want, "{address}");
    }
}

#[test]
fn addresses_go_on_from_the_selection() {
    let text = "alpha\nbeta foo gamma\nhttps://x.y/z tail\necho one\nlast line\nfin\n";
    let text = Text::from(text);
    let dot = Span::new(10, 13);
    let cases = [
        ("-+;-+", Ok((6, 21))),
        ("/foo/ -+", Ok((6, 21))),
        ("-+-#0", Ok((6, 6))),
        ("-+-#1", Ok((5, 5))),
        ("/echo/+;.", Ok((49, 59))),
        ("/echo/++;.", Ok((59, 63))),
        ("/https/;+-#1", Ok((21, 39))),
        ("-/a/,/t/", Ok((9, 23))),
        ("0/foo/", Ok((11, 14))),
        ("6", Ok((59, 63))),
        ("7", Ok((63, 63))),
        ("8", Err(AddressError::OutOfRange)),
        ("#3,#1", Err(AddressError::OutOfOrder)),
        ("1,0", Ok((0, 0))),
    ];
    for (address, want) in cases {
        let want = want.map(|(q0, q1)| Span::new(q0, q1));
        assert_eq!(resolve_from(&text, dot, address), want, "{address}");
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
        ("a:b:#", ("a:b:#", "")),
        ("a:-1", ("a:-1", "")),
        ("a:+1", ("a:+1", "")),
        ("a:-/re/", ("a", "-/re/")),
        ("a:/#/", ("a", "/#/")),
        (":3", (":3", "")),
        ("a:", ("a:", "")),
        ("a:1,2", ("a", "1,2")),
        ("a.rs:12:", ("a.rs:12:", "")),
        ("a.rs:/fn main/", ("a.rs", "/fn main/")),
        ("a.rs:$-1", ("a.rs", "$-1")),
        ("host:/etc/passwd", ("host:/etc/passwd", "")),
        ("http://example.org", ("http://example.org", "")),
    ] {
        assert_eq!(split(name), want, "{name}");
    }
}

#[test]
fn an_address_in_running_text_ends_before_the_stops() {
    for (text, expect) in [
        ("12: error", "12"),
        ("12:5: error", "12:5"),
        ("12,14 is", "12,14"),
        ("12, then", "12"),
        ("12 34", "12"),
        ("$.", "$"),
        ("/a b/ and/or", "/a b/"),
        ("/usr/x", "/usr/"),
        ("/usr", ""),
        ("?re?,/x y/+-", "?re?,/x y/+-"),
        ("#4,#9)", "#4,#9"),
        ("0;/x/", "0;/x/"),
        ("-/re/", "-/re/"),
        ("", ""),
        ("x", ""),
    ] {
        assert_eq!(head(text), expect, "{text:?}");
    }
}
