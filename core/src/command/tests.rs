use alloc::string::ToString;

use super::*;
use crate::edit;

fn file(text: &str) -> File {
    File {
        text: Text::from(text),
        dot: Span::at(0),
        name: String::from("a"),
        is_modified: false,
        is_warned: false,
    }
}

/// Runs the commands of a text one behind the other.
fn run(text: &str, script: &str) -> Result<(String, Span), CommandError> {
    let mut memory = Memory::default();
    let mut files = [file(text)];
    for mut command in Command::parse_all(script, &mut memory)? {
        let outcome = command.run(&files, Some(0), &mut memory)?;
        let (splices, dot) = outcome.files[0].finish(&[]);
        edit::check(&splices, files[0].text.len()).unwrap();
        edit::apply(&mut files[0].text, &splices);
        files[0].dot = dot;
    }
    Ok((files[0].text.to_string(), files[0].dot))
}

#[test]
fn commands_of_one_text_see_what_the_ones_before_left() {
    let (text, dot) = run("a\nb\nc\n", "1d\n1s/b/x&x/\n/c/\n").unwrap();
    assert_eq!((text.as_str(), dot), ("xbx\nc\n", Span::new(4, 5)));
}

#[test]
fn the_text_needs_no_newline_at_its_end() {
    for script in [
        ",s/a/b/g",
        ",x/a/ c/b/",
        ",{\nx/a/ c/b/\n}",
        ",c\nbb\n.",
        ",c\nbb",
    ] {
        let (text, _) = run("aa", script).unwrap();
        assert_eq!(text.trim_end(), "bb", "{script}");
    }
}

#[test]
fn changes_that_overlap_or_come_out_of_order_change_nothing() {
    for script in [
        ",x/b/ m0",
        ",x/b/ {\na/1/\ni/2/\n}",
        "{\n#2d\n#1,#2d\n#0a/x/\n}",
    ] {
        assert_eq!(
            run("abcabc", script),
            Err(CommandError::OutOfSequence),
            "{script}"
        );
    }
    let (text, _) = run("abc", ",x/b/ {\nc/Q/\na/Z/\n}").unwrap();
    assert_eq!(text, "aQZc");
}

#[test]
fn what_is_no_command_is_refused_with_its_reason() {
    let deep = "{".repeat(1000);
    let loops = ",x ".repeat(1000);
    for (script, want) in [
        ("k", CommandError::Unknown('k')),
        ("d x", SyntaxError::NewlineExpected.into()),
        ("}", SyntaxError::UnmatchedClose.into()),
        ("{", SyntaxError::UnmatchedOpen.into()),
        ("{\np\n", SyntaxError::UnmatchedOpen.into()),
        ("x }", SyntaxError::UnmatchedClose.into()),
        ("1u", SyntaxError::TakesNoAddress.into()),
        ("m", SyntaxError::AddressExpected.into()),
        ("g", SyntaxError::PatternExpected.into()),
        ("s", SyntaxError::PatternExpected.into()),
        ("saxay", CommandError::BadDelimiter('a')),
        ("//d", AddressError::NoPattern.into()),
        ("|", CommandError::NoShellCommand),
        ("=x", SyntaxError::NewlineExpected.into()),
        (&deep, SyntaxError::TooDeep.into()),
        (&loops, SyntaxError::TooDeep.into()),
    ] {
        assert_eq!(run("abc", script).unwrap_err(), want, "{script:.20}");
    }
}

#[test]
fn an_empty_pattern_repeats_the_last_one_also_of_the_command_before() {
    let (text, _) = run("abab", "/b/d\n//d\n").unwrap();
    assert_eq!(text, "aa");
}

#[test]
fn shell_commands_are_asked_for_and_their_output_has_its_place() {
    let mut memory = Memory::default();
    let mut commands = Command::parse_all(",x/[a-z]+/ |tr a-z A-Z", &mut memory).unwrap();
    let files = [file("ab cd")];
    let outcome = commands[0].run(&files, Some(0), &mut memory).unwrap();
    let inputs: Vec<_> = outcome
        .sources
        .iter()
        .map(|source| match source {
            Source::Shell { input, .. } => input.unwrap().1,
            Source::File { .. } => Span::at(0),
        })
        .collect();
    assert_eq!(inputs, [Span::new(0, 2), Span::new(3, 5)]);
    let yields = ["AB".to_string(), "longer".to_string()];
    let (splices, dot) = outcome.files[0].finish(&yields);
    let mut text = files[0].text.clone();
    edit::apply(&mut text, &splices);
    assert_eq!(
        (text.to_string().as_str(), dot),
        ("AB longer", Span::new(3, 9))
    );
    assert_eq!(memory.shell, "tr a-z A-Z");
}

#[test]
fn a_file_with_changes_is_closed_the_second_time() {
    let mut memory = Memory::default();
    let mut commands = Command::parse_all("D", &mut memory).unwrap();
    let mut files = [file("x")];
    files[0].is_modified = true;
    let refused = commands[0].run(&files, Some(0), &mut memory);
    let name = String::from("a");
    assert_eq!(refused.unwrap_err(), CommandError::FileHasChanges(name));
    files[0].is_warned = true;
    let outcome = commands[0].run(&files, Some(0), &mut memory).unwrap();
    assert_eq!(outcome.requests, [Request::Close { file: 0 }]);
    assert_eq!(outcome.current, None);
}

#[test]
fn writing_behind_changes_and_loops_in_loops_over_files_are_refused() {
    for (script, want) in [
        (",{\nd\nw\n}", Err(CommandError::PendingChanges)),
        (",{\nw\nd\n}", Ok(())),
        ("X X d", Err(CommandError::Nested)),
        ("X d", Ok(())),
    ] {
        let ran = run("abc", script).map(|_| ());
        assert_eq!(ran, want, "{script}");
    }
}

#[test]
fn a_hundred_thousand_changes_are_one_edit() {
    let text = "<data inType=\"w\" name=\"x\" />\n".repeat(100_000);
    let (text, _) = run(&text, ",x/^[^\"]*\"/d").unwrap();
    assert!(text.starts_with("w\" name=\"x\" />\nw\" "));
}

#[test]
fn a_sign_in_front_of_a_shell_command_is_a_command() {
    let files = [File {
        dot: Span::new(1, 3),
        ..file("abcd")
    }];
    let sources = |sign, words: &str| {
        let mut command = Command::shell(sign, words)?;
        let outcome = command.run(&files, Some(0), &mut Memory::default());
        let outcome = outcome.unwrap();
        Some((outcome.sources.clone(), outcome.files[0].is_change()))
    };
    let source = |input| {
        let command = String::from("a\nb");
        alloc::vec![Source::Shell { command, input }]
    };
    let dot = Some((0, Span::new(1, 3)));
    assert_eq!(sources('|', "a\nb"), Some((source(dot), true)));
    assert_eq!(sources('<', "a\nb"), Some((source(None), true)));
    assert_eq!(sources('>', "a\nb"), Some((source(dot), false)));
    assert_eq!(sources('!', "a\nb"), Some((source(None), false)));
    assert_eq!(sources('?', "a"), None);
}
