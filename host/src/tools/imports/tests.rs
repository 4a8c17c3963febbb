use super::*;

fn text() -> Text {
    Text::from("aé漢\n🙂b\r\nlast")
}

#[test]
fn a_read_outside_or_too_long_is_an_error() {
    let short = text();
    assert_eq!(read(&short, Span::new(1, 3)).unwrap(), "é漢");
    assert_eq!(
        read(&short, Span::new(3, 99)).unwrap_err().code,
        code::OUT_OF_RANGE
    );
    assert_eq!(
        read(&short, Span::new(3, 2)).unwrap_err().code,
        code::OUT_OF_RANGE
    );
    let wide = Text::from("漢".repeat(400_000).as_str());
    assert_eq!(
        read(&wide, Span::new(0, 400_000)).unwrap_err().code,
        code::LIMIT
    );
    assert_eq!(read(&wide, Span::new(0, 300_000)).unwrap().len(), 900_000);
    let long = Text::from("a".repeat(1 << 21).as_str());
    assert_eq!(
        read(&long, Span::new(0, (1 << 20) + 1)).unwrap_err().code,
        code::LIMIT
    );
    assert!(read(&long, Span::new(0, 1 << 20)).is_ok());
}

#[test]
fn a_directory_is_what_stands_before_the_last_slash() {
    for (name, expected) in [
        ("/a/b.rs", "/a"),
        ("/b", "/"),
        ("/a/d/", "/a/d"),
        ("", "/"),
        ("+Errors", "/"),
    ] {
        assert_eq!(directory(name), expected, "{name}");
    }
}

#[test]
fn line_ends_are_told_apart() {
    for (text, expected) in [
        ("", 0),
        ("a\nb", 0),
        ("a\r\nb\r\n", 1),
        ("a\r\nb\n", 2),
        ("a\rb", 0),
        ("\n\r\n", 2),
    ] {
        assert_eq!(line_end(&Text::from(text)), expected, "{text:?}");
    }
}

#[test]
fn addresses_lead_where_edit_sees_them_and_others_say_why() {
    let (text, dot) = (text(), Span::new(1, 2));
    let lead = |address: &str| lead(&text, dot, address);
    assert_eq!(lead(".").unwrap(), dot);
    assert_eq!(lead("$").unwrap(), Span::at(12));
    assert_eq!(lead("2").unwrap(), Span::new(4, 8));
    assert_eq!(lead("#3,#5").unwrap(), Span::new(3, 5));
    assert_eq!(lead(",").unwrap(), Span::new(0, 12));
    assert_eq!(lead("9").unwrap_err().code, code::OUT_OF_RANGE);
    assert_eq!(lead("#99").unwrap_err().code, code::OUT_OF_RANGE);
    assert_eq!(lead("#5,#3").unwrap_err().code, code::OUT_OF_RANGE);
    assert_eq!(lead("/[b-z]+/;/./").unwrap().q0, 5);
    for address in ["/x/", "/(/", "k", "", "'"] {
        assert_eq!(
            lead(address).unwrap_err().code,
            code::OUT_OF_RANGE,
            "{address}"
        );
    }
}
