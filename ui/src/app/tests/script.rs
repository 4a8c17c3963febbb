//! `Edit`, pipes and addresses, as a user meets them.

use super::*;

/// Opens a window on a text, executes `Edit` with a script, and compares the body.
fn check_edit(before: &str, script: &str, after: &str) {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", before);
    world.edit(0, script);
    let shown = world.shown(0, ViewId::Body(window));
    assert_eq!(shown, after, "{before:?}, {script}");
    world.check_hashes();
}

/// Two windows on files of these texts; the second has the keyboard.
fn two(a: &str, b: &str) -> (World, [ViewId; 2]) {
    let mut world = World::new(80, 40);
    let views = [("/t/a.txt", a), ("/t/b.txt", b)];
    let views = views.map(|(name, text)| ViewId::Body(world.open(name, text)));
    (world, views)
}

fn both(world: &World, views: [ViewId; 2]) -> [String; 2] {
    views.map(|view| {
        let (_, buffer, _) = world.uis[0].app.text(view).unwrap();
        buffer.text().to_string()
    })
}

fn errors(world: &World) -> String {
    world.text_of("/t/+Errors").unwrap_or_default()
}

#[test]
fn edit_changes_the_body_and_selects_what_it_changed() {
    check_edit("|abab\n", ",s/a/x/g", "«xbxb\n»");
    check_edit("a\n|b\nc\n", "/c/d", "a\nb\n|\n");
    check_edit("«one» two", "c/1/", "«1» two");
    check_edit("|one\ntwo\n", "2", "one\n«two\n»");
    check_edit("|one\ntwo\n", "2;/w/", "one\n«tw»o\n");
    check_edit("|", "a/hello/", "«hello»");
    check_edit("|a\nb\n", ",x/^/ i/> /", "> a\n«> »b\n");
}

#[test]
fn each_command_sees_what_the_one_before_left_and_one_undo_takes_all_back() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "|a\nb\n");
    world.edit(0, "1s/a/xx/\n2s/b/y/\n,s/x/z/g");
    let view = ViewId::Body(window);
    assert_eq!(world.shown(0, view), "«zz\ny\n»");
    world.act(0, "key Ctrl-Z");
    assert_eq!(world.shown(0, view).replace(['«', '»', '|'], ""), "a\nb\n");
    world.act(0, "key Ctrl-Y");
    assert_eq!(world.shown(0, view).replace(['«', '»', '|'], ""), "zz\ny\n");
    world.check_hashes();
}

#[test]
fn an_error_in_any_command_leaves_everything_as_it_was_and_says_why() {
    for (script, words) in [
        ("1s/a/x/\n,s/nosuch/y/", "Edit: no substitution"),
        (",x/[ab]/ m0", "Edit: changes not in sequence"),
        ("/nosuch/", "Edit: no match for the pattern"),
        ("99", "Edit: address out of range"),
        ("k", "Edit: unknown command 'k'"),
        ("x/(/ d", "Edit: "),
        ("s/a/x/\nr nosuch", "Edit: no file /t/nosuch"),
        (
            "s/a/x/\n|nosuch",
            "Edit: the command could not be run; nothing was changed",
        ),
        (
            "s/a/x/\n|killed",
            "Edit: the command was ended by signal 15; nothing was",
        ),
    ] {
        let mut world = World::new(80, 24);
        let window = world.open("/t/f", "«a\nb\n»");
        world.edit(0, script);
        let said = errors(&world);
        assert!(said.starts_with(words), "{script}: {said}");
        assert_eq!(said.lines().count(), 1, "{script}: {said}");
        let text = world
            .shown(0, ViewId::Body(window))
            .replace(['«', '»', '|'], "");
        let is_first_landed = script.contains('|');
        let expect = if is_first_landed { "x\nb\n" } else { "a\nb\n" };
        assert_eq!(text, expect, "{script}");
        world.check_hashes();
    }
}

#[test]
fn one_command_over_files_is_one_undo_from_any_of_them() {
    let (mut world, views) = two("|foo a\n", "|b foo foo\n");
    world.edit(0, "X/\\.txt$/ ,x/foo/ c/bar/");
    assert_eq!(both(&world, views), ["bar a\n", "b bar bar\n"]);
    world.act(0, "key Ctrl-Z");
    assert_eq!(both(&world, views), ["foo a\n", "b foo foo\n"]);
    world.act(0, "key Ctrl-Y");
    assert_eq!(both(&world, views), ["bar a\n", "b bar bar\n"]);
    world.uis[0].app.set_focus(views[0]);
    world.act(0, "key Ctrl-Z");
    assert_eq!(both(&world, views), ["foo a\n", "b foo foo\n"]);
    // In one it fails: nothing happens in the other.
    world.edit(0, "X/txt/ /foo foo/d");
    assert_eq!(both(&world, views), ["foo a\n", "b foo foo\n"]);
    assert!(errors(&world).contains("no match"));
    world.check_hashes();
}

#[test]
fn y_takes_the_other_files_and_x_alone_lists_them() {
    let (mut world, views) = two("|foo\n", "|foo\n");
    world.edit(0, "Y/a.txt|\\+Errors|\\/$/ ,s/foo/bar/");
    assert_eq!(both(&world, views), ["foo\n", "bar\n"]);
    world.edit(0, "X/txt/");
    assert_eq!(errors(&world), "'+  /t/a.txt\n'+. /t/b.txt\n");
}

#[test]
fn an_undo_that_a_changed_text_cannot_follow_names_it() {
    let (mut world, views) = two("|one\n", "|one\n");
    world.edit(0, "X/txt/ ,s/one/two/");
    world.uis[0].app.set_focus(views[0]);
    world.act(0, "key Ctrl-End\ntype x");
    world.uis[0].app.set_focus(views[1]);
    world.act(0, "key Ctrl-Z");
    assert_eq!(both(&world, views), ["two\nx", "one\n"]);
    assert_eq!(world.status(0), "not in /t/a.txt (changed since)");
    world.check_hashes();
}

#[test]
fn leaving_a_text_ends_its_step_of_undo() {
    let (mut world, views) = two("|", "|");
    world.act(0, "type one");
    world.uis[0].app.set_focus(views[0]);
    world.uis[0].app.set_focus(views[1]);
    world.act(0, "type two\nkey Ctrl-Z");
    assert_eq!(world.shown(0, views[1]), "one|");
}

#[test]
fn pipes_replace_what_they_read() {
    check_edit("|b\nc\na\n", ",|sort", "«a\nb\nc\n»");
    check_edit("x«abc»y", "|upper", "x«ABC»y");
    let source = "|lee, bruce\nchan, jackie\n";
    let script = ", x/[a-z]+/ -#0+/./ | upper";
    let mut world = World::new(80, 24);
    let view = ViewId::Body(world.open("/t/f", source));
    world.edit(0, script);
    let shown = world.shown(0, view).replace(['«', '»', '|'], "");
    assert_eq!(shown, "Lee, Bruce\nChan, Jackie\n");
    let inputs: Vec<_> = world
        .piped
        .iter()
        .map(|(_, input)| input.as_str())
        .collect();
    assert_eq!(inputs, ["l", "b", "c", "j"]);
    world.act(0, "key Ctrl-Z");
    let shown = world.shown(0, view).replace(['«', '»', '|'], "");
    assert_eq!(shown, &source[1..]);
    world.check_hashes();
}

#[test]
fn pipes_over_files_are_one_undo() {
    let (mut world, views) = two("|2\n1\n", "|4\n3\n");
    world.edit(0, "X/txt/ ,|sort");
    assert_eq!(both(&world, views), ["1\n2\n", "3\n4\n"]);
    world.act(0, "key Ctrl-Z");
    assert_eq!(both(&world, views), ["2\n1\n", "4\n3\n"]);
    world.check_hashes();
}

#[test]
fn a_pipe_behind_a_change_reads_what_the_change_left() {
    let mut world = World::new(80, 24);
    let view = ViewId::Body(world.open("/t/f", "|b\na\n"));
    world.edit(0, "$a/0\\n/\n,|sort\n1s/0/00/");
    let text = |world: &World| world.shown(0, view).replace(['«', '»', '|'], "");
    assert_eq!(text(&world), "00\na\nb\n");
    world.act(0, "key Ctrl-Z");
    assert_eq!(text(&world), "b\na\n");
    world.check_hashes();
}

#[test]
fn typing_goes_on_while_a_command_runs_and_its_output_is_carried_over_it() {
    let mut world = World::new(80, 24);
    let view = ViewId::Body(world.open("/t/f", "one two|"));
    world.edit(0, "1,1x/one/ |slow");
    world.act(0, "key Home\ntype >> \nkey End\ntype !");
    assert_eq!(world.shown(0, view), ">> one two!|");
    world.end_slow();
    assert_eq!(world.shown(0, view), ">> ONE two!|");
    world.act(0, "key Ctrl-Z");
    assert_eq!(
        world.shown(0, view).replace(['«', '»', '|'], ""),
        ">> one two!"
    );
    world.check_hashes();
}

#[test]
fn output_for_a_place_that_was_changed_meanwhile_is_refused_with_words() {
    let mut world = World::new(80, 24);
    let view = ViewId::Body(world.open("/t/f", "one «two» three"));
    world.edit(0, "|slow");
    world.act(0, "key Backspace\ntype 2");
    world.end_slow();
    assert_eq!(world.shown(0, view), "one 2| three");
    let said = errors(&world);
    assert_eq!(
        said,
        "Edit: /t/f was changed meanwhile; nothing was done, do it again\n"
    );
    world.check_hashes();
}

#[test]
fn the_mouse_pipes_too() {
    let mut world = World::new(80, 24);
    let view = ViewId::Body(world.open("/t/f", "|"));
    world.act(0, "paste b\\na\\nend |sort <names >upper |nosuch");
    world.act(0, "press1 b\ndrag end\nrelease1 end\nb2 |sort");
    assert!(
        world.shown(0, view).starts_with("«a\nb\n»end |sort"),
        "{}",
        world.shown(0, view)
    );
    world.act(0, "b2 >upper");
    assert_eq!(world.piped[1], ("upper".into(), "a\nb\n".into()));
    world.act(0, "b2 |nosuch");
    assert_eq!(
        world.status(0),
        "|nosuch: the command could not be run; nothing was changed"
    );
    world.act(0, "b2 <names");
    assert!(
        world
            .shown(0, view)
            .starts_with("«b.txt:2\nc.txt\n»end |sort")
    );
    world.check_hashes();
}

#[test]
fn what_commands_print_goes_to_the_error_window() {
    let mut world = World::new(80, 40);
    world.open("/t/f", "|one\ntwo\nthree");
    world.edit(0, "2p");
    world.edit(0, ",=");
    world.edit(0, "/three/=#");
    world.edit(0, "/wo/=+");
    world.edit(0, "/ee/p");
    world.edit(0, "f");
    world.edit(0, "1>upper");
    assert_eq!(
        errors(&world),
        "two\n/t/f:1,3\n/t/f:#8,#13\n/t/f:2+#1,2+#3\nee\n'+. /t/f\nONE\n"
    );
}

#[test]
fn files_are_read_written_and_renamed() {
    let mut world = World::new(80, 40);
    world.disk.insert("/t/in".into(), "new\n".into());
    let window = world.open("/t/f", "|one\ntwo\n");
    let view = ViewId::Body(window);
    world.edit(0, "$r in");
    assert_eq!(world.shown(0, view), "one\ntwo\n«new\n»");
    world.act(0, "key Ctrl-Z");
    world.edit(0, "2w part");
    assert_eq!(errors(&world), "");
    assert_eq!(world.disk["/t/part"], "two\n");
    world.edit(0, "1w");
    assert!(errors(&world).contains("w of a part would leave only that part in /t/f"));
    world.edit(0, ",s/one/1/\nw");
    assert_eq!(world.disk["/t/f"], "1\ntwo\n");
    world.edit(0, "w copy");
    assert_eq!(world.disk["/t/copy"], "1\ntwo\n");
    world.edit(0, "f g");
    assert!(
        world.tag(window).starts_with("/t/g Del"),
        "{}",
        world.tag(window)
    );
    world.edit(0, "e in");
    assert!(errors(&world).contains("has changes"), "{}", errors(&world));
    world.edit(0, "e in");
    assert_eq!(world.shown(0, view), "«new\n»");
    world.edit(0, "u 1\nu");
    world.check_hashes();
}

#[test]
fn windows_are_opened_and_closed() {
    let mut world = World::new(80, 60);
    world.disk.insert("/t/b.txt".into(), "1\n2\n".into());
    world.disk.insert("/t/c.txt".into(), "c\n".into());
    world.disk.insert("/t/d.txt".into(), "d\n".into());
    world.open("/t/f", "|");
    world.edit(0, "B <names");
    assert!(world.text_of("/t/b.txt").is_some() && world.text_of("/t/c.txt").is_some());
    world.edit(0, "B d.txt");
    let view = world.uis[0].app.focus.unwrap();
    assert_eq!(world.shown(0, view), "|d\n");
    world.edit(0, "b /t/b.txt");
    let view = world.uis[0].app.focus.unwrap();
    assert_eq!(world.shown(0, view), "1\n«2\n»");
    world.edit(0, "X/[cd].txt/ D");
    let is_shown = |world: &World, name: &str| {
        let node = world.authority.node();
        let buffer = node.state().buffer_named(name);
        buffer.is_some_and(|buffer| node.window_of_buffer(buffer).is_some())
    };
    assert!(is_shown(&world, "/t/b.txt"));
    assert!(!is_shown(&world, "/t/c.txt") && !is_shown(&world, "/t/d.txt"));
    world.edit(0, "s/1/x/\n");
    world.act(0, "type y");
    world.edit(0, "D /t/b.txt");
    assert!(errors(&world).contains("has changes"));
    world.edit(0, "D /t/b.txt");
    assert!(!is_shown(&world, "/t/b.txt"));
    world.check_hashes();
}

#[test]
fn a_text_that_another_ui_leads_is_changed_by_a_proposal_of_the_version_seen() {
    let mut world = World::new(80, 24);
    let view = ViewId::Body(world.open("/t/f", "|one\ntwo\n"));
    world.join(80, 24, Takeover::Steal);
    world.run();
    assert!(!world.uis[0].app.client.is_leading());
    world.uis[0].app.focus = Some(view);
    world.edit(0, ",s/o/0/g\n2|upper");
    let text = world.text_of("/t/f").unwrap();
    assert_eq!(text, "0ne\nTW0\n");
    assert_eq!(world.shown(0, view), "0ne\n«TW0\n»");
    world.check_hashes();
    world.join(80, 24, Takeover::Watch);
    world.uis[2].app.focus = Some(view);
    world.edit(2, ",d");
    assert_eq!(world.text_of("/t/f").unwrap(), "0ne\nTW0\n");
    assert!(
        world.status(2).starts_with("watching"),
        "{}",
        world.status(2)
    );
}

#[test]
fn addresses_are_looked_up_as_edit_sees_them() {
    let mut world = World::new(80, 40);
    let text = "alpha\nbeta foo gamma\necho one\n";
    world.disk.insert("/t/x.txt".into(), text.into());
    let body = "x.txt:/foo gam/ x.txt:$ x.txt:2;/o/ x.txt:?a?\nx.txt:/nosuch/ :1,2 :99 .";
    let window = world.open("/t/f", &format!("|{body}"));
    world.act(0, "b3 x.txt:/foo gam/");
    let view = world.uis[0].app.focus.unwrap();
    let shown = |world: &World| world.shown(0, view);
    assert_eq!(shown(&world), "alpha\nbeta «foo gam»ma\necho one\n");
    world.act(0, "b3 x.txt:$ ");
    assert_eq!(shown(&world), format!("{text}|"));
    world.act(0, "b3 x.txt:2;/o/ ");
    assert_eq!(shown(&world), "alpha\n«beta foo gamma\necho» one\n");
    world.act(0, "b3 x.txt:?a?");
    assert_eq!(shown(&world), "alph«a»\nbeta foo gamma\necho one\n");
    world.act(0, "b3 x.txt:/nosuch/");
    assert_eq!(
        world.status(0),
        "/t/x.txt:/nosuch/: no match for the pattern"
    );
    world.act(0, "b3 :1,2 ");
    let own = ViewId::Body(window);
    assert_eq!(world.shown(0, own), format!("«{body}»"));
    world.act(0, "b1 x.txt:2\nb3 :99 .");
    assert_eq!(world.status(0), "/t/f:99: address out of range");
    world.check_hashes();
}
