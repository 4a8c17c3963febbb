//! Typing, erasing, moving, undoing.

use super::*;

#[test]
fn typing_replaces_the_selection_and_moves_the_cursor() {
    check("|", "type hello", "hello|");
    check("a«b»c", "type X\\nY", "aX\nY|c");
    check("|x", "key Tab", "\t|x");
    check("漢|字", "type é", "漢é|字");
}

#[test]
fn erasing_takes_characters_words_and_lines() {
    check("ab|c", "key Backspace", "a|c");
    check("ab|c", "key Delete", "ab|");
    check("a«bc»d", "key Backspace", "a|d");
    check("|a", "key Backspace", "|a");
    check("one two|", "key Ctrl-W", "one |");
    check("one two |x", "key Ctrl-W", "one |x");
    check("one\ntwo|", "key Ctrl-U", "one\n|");
    check("one\n|two", "key Ctrl-U", "one|two");
    check("ae\u{301}|b", "key Backspace", "a|b");
    check("🇩🇪|", "key Ctrl-H", "|");
}

#[test]
fn motions_go_by_clusters_words_and_visual_rows() {
    check("a|bc", "key Right", "ab|c");
    check("a«bc»d", "key Left", "a|bcd");
    check("a«bc»d", "key Right", "abc|d");
    check("|e\u{301}x", "key Right", "e\u{301}|x");
    check("one two|", "key Ctrl-Left", "one |two");
    check("|one two", "key Ctrl-Right", "one| two");
    check("one\ntw|o", "key Home", "one\n|two");
    check("one\nt|wo", "key End", "one\ntwo|");
    check("abc|\nx\nabcdef", "key Down\nkey Down", "abc\nx\nabc|def");
    check("ab\nc|d", "key Up\nkey Up", "|ab\ncd");
    check("ab\nc|d", "key Down", "ab\ncd|");
    check("a\nb|", "key Ctrl-Home", "|a\nb");
    check("|a\nb", "key Ctrl-End", "a\nb|");
    let row = "0123456789".repeat(16);
    let from = format!("01|{}", &row[2..]);
    let to = format!("{}|{}", &row[..81], &row[81..]);
    check(&from, "key Down", &to);
}

#[test]
fn shift_extends_the_selection_from_where_it_began() {
    check("a|bcd", "key Shift-Right\nkey Shift-Right", "a«bc»d");
    check(
        "a|bcd",
        "key Shift-Right\nkey Shift-Left\nkey Shift-Left",
        "«a»bcd",
    );
    check("one|\ntwo", "key Shift-Down", "one«\ntwo»");
    check("a|b c", "key Alt-A", "«ab c»");
}

#[test]
fn a_line_of_typing_is_one_step_of_undo() {
    check("|", "type hello\\nbye\nkey Ctrl-Z", "hello\n|");
    check("|", "type hello\\nbye\nkey Ctrl-Z\nkey Ctrl-Z", "|");
    check("|", "type ab\nkey Left\ntype c\nkey Ctrl-Z", "a|b");
    check(
        "|",
        "type abc\nkey Backspace\nkey Ctrl-Z\nkey Ctrl-Y",
        "ab|",
    );
}

#[test]
fn escape_selects_what_was_typed_and_then_cuts_it() {
    check("a|b", "type xyz\nkey Esc", "a«xyz»b");
    check("a|b", "type xyz\nkey Esc\nkey Esc", "a|b");
    check("a|b", "key Esc", "a|b");
}

#[test]
fn cut_snarf_and_paste_go_through_the_snarf_buffer() {
    check("a«bc»d", "key Ctrl-X\nkey End\nkey Ctrl-V", "ad«bc»");
    check("a«bc»d", "key Ctrl-C\nkey End\nkey Ctrl-V", "abcd«bc»");
    let mut world = World::new(80, 24);
    world.open("/t/f", "a«b\nc»d");
    world.act(0, "key Ctrl-C");
    assert_eq!(world.uis[0].copied, "b\nc");
}

#[test]
fn a_paste_of_the_terminal_is_one_step_and_keeps_everything() {
    check("a|b", "paste x\\ny\\tz", "ax\ny\tz|b");
    check("a|b", "paste x\\ny\nkey Ctrl-Z", "a|b");
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "");
    let long = "0123456789abcde\n".repeat(200_000);
    world.act(0, &format!("paste {}", long.replace('\n', "\\n")));
    let (_, buffer, _) = world.uis[0].app.text(ViewId::Body(window)).unwrap();
    assert_eq!(buffer.text().to_string(), long);
    world.act(0, "key Ctrl-Z");
    assert_eq!(world.shown(0, ViewId::Body(window)), "|");
    world.check_hashes();
}

#[test]
fn a_modified_file_shows_put_and_undo_in_its_tag() {
    let mut world = World::new(80, 24);
    world.disk.insert("/t/a.txt".into(), "one\n".into());
    world.act(0, "b3 a.txt");
    let window = world.uis[0].app.focus.and_then(ViewId::window).unwrap();
    assert_eq!(world.tag(window), "/t/a.txt Del Snarf | Look ");
    world.act(0, "type x");
    assert_eq!(world.tag(window), "/t/a.txt Del Snarf Undo Put | Look ");
    world.act(0, "key Ctrl-Z");
    assert_eq!(world.tag(window), "/t/a.txt Del Snarf Redo | Look ");
}
