//! Two UIs on one session: watching, taking over, and typing that waits.

use apex_core::entry::AttachmentKind;
use apex_core::limits::TRANSFER_MS;
use apex_core::node::marks::hash_of;

use super::*;
use crate::input::Erase;

fn two() -> (World, ViewId) {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "text|");
    world.join(80, 24, Takeover::Watch);
    (world, ViewId::Body(window))
}

#[test]
fn a_watching_ui_sees_and_does_not_type() {
    let (mut world, view) = two();
    world.act(0, "type X");
    assert_eq!(
        world.uis[1].app.text(view).unwrap().1.text().to_string(),
        "textX"
    );
    let words = world.status(1);
    assert!(
        words.starts_with("watching, led by 1 (ui1); press F2"),
        "{words}"
    );
    world.act(1, "b1 textX\ntype Y");
    assert_eq!(world.shown(0, view), "textX|");
    world.check_hashes();
}

#[test]
fn a_watching_ui_selects_and_scrolls_for_itself() {
    let (mut world, view) = two();
    world.act(1, "b1 ext .. xt");
    assert_eq!(world.shown(1, view), "t«e»xt");
    assert_eq!(world.shown(0, view), "text|");
    world.act(0, "key Ctrl-Home\ntype AB");
    assert_eq!(world.shown(1, view), "ABt«e»xt", "edits move it");
    world.check_hashes();
}

#[test]
fn taking_over_moves_the_lead_and_nothing_is_lost() {
    let (mut world, view) = two();
    world.act(0, "type 1");
    world.act(1, "key F2");
    world.pass(TRANSFER_MS);
    assert!(world.uis[1].app.client.is_leading());
    assert!(!world.uis[0].app.client.is_leading());
    world.act(1, "b1 text1\ntype 2");
    world.act(0, "type 345");
    assert_eq!(
        world.uis[0].app.text(view).unwrap().1.text().to_string(),
        "2text1345",
        "who is displaced while typing types on, by proposals"
    );
    assert_eq!(world.shown(0, view), "2text1345|");
    assert!(
        world.status(0).starts_with("watching, led by 2 (ui2)"),
        "{}",
        world.status(0)
    );
    world.check_hashes();
}

#[test]
fn a_lost_connection_says_that_the_session_lives_on() {
    let (mut world, _) = two();
    world.update(0, Event::Lost("the daemon closed the connection".into()));
    assert_eq!(world.status(0), "disconnected");
    assert!(world.uis[0].left.as_ref().unwrap().contains("lives on"));
}

/// Two UIs, the second of which has taken over; the first stands at the end of "text".
fn displaced() -> (World, ViewId) {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "text|");
    world.join(80, 24, Takeover::Transfer);
    world.pass(TRANSFER_MS);
    assert!(world.uis[1].app.client.is_leading());
    (world, ViewId::Body(window))
}

#[test]
fn who_is_displaced_erases_cuts_and_pastes_as_he_types() {
    for (script, expect) in [
        ("type abc\nkey Backspace", "textab|"),
        ("key Backspace\ntype x", "tex|x"),
        ("type one two\nkey Ctrl-W\ntype x", "textone x|"),
        ("key Ctrl-U\ntype x", "x|"),
        ("key Home\nkey Delete", "|ext"),
        ("key Shift-Left\nkey Backspace\ntype x", "tex|x"),
        ("key Shift-Left\nkey Ctrl-X\nkey Home\nkey Ctrl-V", "t|tex"),
        ("key Home\nkey Backspace\ntype x", "x|text"),
    ] {
        let expect = expect.replacen("|x", "x|", usize::from(expect == "tex|x"));
        let (mut world, view) = displaced();
        world.act(0, script);
        assert_eq!(world.shown(0, view), expect, "{script}");
        assert!(!world.uis[0].app.is_owing());
        world.check_hashes();
    }
}

/// Types without telling anybody: the messages wait.
fn type_unheard(world: &mut World, ui: usize, text: &str) {
    for c in text.chars() {
        world.update(ui, Event::Input(Input::Action(Action::Insert(c))));
    }
}

#[test]
fn a_ui_that_leaves_waits_until_its_last_typing_is_in_the_buffer() {
    let (mut world, view) = displaced();
    type_unheard(&mut world, 0, "12");
    // The first is under way, the second waits behind it.
    assert!(world.uis[0].app.is_owing());
    assert!(world.uis[0].app.owed().unwrap().ends_with("\n12"));
    world.act(0, "type 3");
    assert!(!world.uis[0].app.is_owing());
    assert_eq!(world.shown(0, view), "text123|");
    assert_eq!(world.uis[0].app.owed(), None);
}

#[test]
fn typing_that_meets_a_change_is_in_recovered_before_a_ui_leaves() {
    let (mut world, view) = displaced();
    world.act(0, "key Shift-Left\nkey Shift-Left");
    world.act(1, "key Alt-A");
    type_unheard(&mut world, 0, "mine");
    type_unheard(&mut world, 1, "theirs");
    world.run();
    assert!(!world.uis[0].app.is_owing());
    assert_eq!(world.shown(1, view), "theirs|");
    let recovered = world.text_of("/t/+Recovered").unwrap();
    assert_eq!(recovered, "typed in /t/f and overtaken:\nmine\n");
}

#[test]
fn typing_stands_behind_what_was_typed_before_another_ui_stole_the_text() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "text|ure");
    let view = ViewId::Body(window);
    type_unheard(&mut world, 0, "12");
    world.enter(80, 24, Takeover::Steal);
    while let Some(message) = world.uis[0].from_daemon.pop_front() {
        world.update(0, Event::Message(message));
    }
    // It knows that "12" was overtaken, and waits for the state without it.
    type_unheard(&mut world, 0, "34");
    world.run();
    assert_eq!(world.shown(0, view), "text1234|ure");
    assert_eq!(world.text_of("/t/+Recovered"), None);
    assert!(!world.uis[0].app.is_owing());
    world.act(0, "type 5");
    assert_eq!(world.shown(0, view), "text12345|ure");
    world.check_hashes();
}

/// Lets one UI alone hear and say what there is.
fn run_alone(world: &mut World, ui: usize) {
    while let Some(message) = world.uis[ui].from_daemon.pop_front() {
        world.update(ui, Event::Message(message));
        for message in world.uis[ui].app.flush() {
            world.tell_daemon(ui, message);
        }
    }
}

#[test]
fn typing_stands_where_it_was_although_the_thief_edited_before_the_fresh_state_came() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "text|ure");
    let view = ViewId::Body(window);
    type_unheard(&mut world, 0, "12");
    world.enter(80, 24, Takeover::Steal);
    run_alone(&mut world, 1);
    world.update(
        1,
        Event::Input(Input::Action(action_named("Ctrl-Home").unwrap())),
    );
    type_unheard(&mut world, 1, "AB");
    for message in world.uis[1].app.flush() {
        world.tell_daemon(1, message);
    }
    while let Some(message) = world.uis[0].from_daemon.pop_front() {
        world.update(0, Event::Message(message));
    }
    type_unheard(&mut world, 0, "34");
    world.run();
    assert_eq!(world.shown(0, view), "ABtext1234|ure");
    assert_eq!(world.text_of("/t/+Recovered"), None);
    world.act(0, "type 5");
    assert_eq!(world.shown(0, view), "ABtext12345|ure");
    world.check_hashes();
}

#[test]
fn a_ui_that_leaves_waits_until_its_file_is_written() {
    let mut world = World::new(80, 24);
    world.open("/t/f", "x|");
    world.update(0, Event::Input(Input::Action(Action::Command("Put"))));
    assert!(world.uis[0].app.is_owing());
    assert_eq!(
        world.uis[0].app.owed().unwrap(),
        "/t/f: apexd has not said that it is written"
    );
    world.update(0, Event::Input(Input::Action(Action::Command("Exit"))));
    assert!(
        world.uis[0].left.is_some(),
        "nothing is lost by leaving now"
    );
    world.run();
    assert_eq!(world.disk["/t/f"], "x");
    assert!(!world.uis[0].app.is_owing());
}

#[test]
fn typing_that_waits_stands_behind_what_is_under_way() {
    let mut world = World::new(80, 24);
    // A clean file: the first key has the leader write `Undo` and `Put` into the tag.
    world.disk.insert("/t/g".into(), "text".into());
    world.open("/t/f", "g|");
    world.act(0, "key F6");
    let view = world.uis[0].app.focus.unwrap();
    world.join(80, 24, Takeover::Transfer);
    world.pass(TRANSFER_MS);
    type_unheard(&mut world, 0, "12");
    world.update(0, Event::Input(Input::Action(Action::Erase(Erase::Char))));
    type_unheard(&mut world, 0, "34");
    world.run();
    assert_eq!(world.shown(0, view), "134|text");
    world.check_hashes();
}

#[test]
fn what_was_typed_behind_a_put_is_warned_about() {
    let mut world = World::new(80, 24);
    world.open("/t/f", "x|");
    world.update(0, Event::Input(Input::Action(Action::Command("Put"))));
    type_unheard(&mut world, 0, "y");
    world.update(0, Event::Input(Input::Action(Action::Command("Exit"))));
    assert_eq!(world.uis[0].left, None);
    assert_eq!(
        world.status(0),
        "modified: /t/f; Exit again leaves, the session keeps it"
    );
}

#[test]
fn a_ui_that_is_turned_away_leaves_and_says_why() {
    let hello = ui_hello(
        SessionName::Label("main".into()),
        "ui".into(),
        Takeover::Transfer,
    );
    let size = Size {
        width: 80,
        height: 24,
    };
    let mut app = App::new(hello, Opening::default(), size);
    let error = ErrorMessage::new(ErrorCode::Limit, "there are too many sessions; end some");
    let shards = Vec::new();
    let told = Event::Message(ServerMessage::Error { error, shards });
    let effects = app.update(Millis::new(1), told);
    assert_eq!(effects, [Effect::Leave(String::new())]);
    app.hush();
    assert_eq!(
        app.complaint().as_deref(),
        Some("there are too many sessions; end some")
    );
}

/// A tool that may lead for a second, and asks for a text. It answers nothing.
fn ask_as_tool(world: &mut World, buffer: BufferId) {
    let mut hello = ui_hello(
        SessionName::Label("main".into()),
        "repl".into(),
        Takeover::Watch,
    );
    hello.kind = AttachmentKind::Tool;
    let shards = vec![Shard::Buffer(buffer)];
    let steal = false;
    let wish = ClientMessage::LeaseRequest { shards, steal };
    let from = (ConnectionId::new(99), Secret(uuid::Uuid::from_u128(99)));
    for message in [ClientMessage::Hello(hello), wish] {
        let mut out = Vec::new();
        world.authority.receive(world.now, from, message, &mut out);
        world.deliver(out);
        let me = world.authority.attachment_of(from.0).unwrap();
        world.authority.allow_leases(world.now, me, Some(1000));
    }
    world.run();
}

#[test]
fn the_first_key_in_a_text_that_a_tool_leads_takes_it_back() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "text|");
    let view = ViewId::Body(window);
    let buffer = world.uis[0].app.text(view).unwrap().0;
    world.open("/t/g", "|");
    ask_as_tool(&mut world, buffer);
    assert!(!world.uis[0].app.leads_text(view), "he was elsewhere");
    world.act(0, "b1 text");
    assert!(
        world.status(0).ends_with("(repl); a key asks for it"),
        "{}",
        world.status(0)
    );
    world.act(0, "key End\ntype 12");
    assert_eq!(world.shown(0, view), "text|");
    world.pass(TRANSFER_MS);
    assert!(world.uis[0].app.leads_text(view));
    assert_eq!(world.shown(0, view), "text12|");
    world.check_hashes();
}

#[test]
fn a_tool_does_not_get_the_text_that_the_user_is_in() {
    let mut world = World::new(80, 24);
    let window = world.open("/t/f", "text|");
    let view = ViewId::Body(window);
    let buffer = world.uis[0].app.text(view).unwrap().0;
    ask_as_tool(&mut world, buffer);
    world.act(0, "type 1");
    world.pass(TRANSFER_MS);
    world.act(0, "type 2");
    assert_eq!(world.shown(0, view), "text12|");
    assert!(world.uis[0].app.leads_text(view));
    world.check_hashes();
}

#[test]
fn a_state_that_went_wrong_is_kept_made_anew_and_told_once() {
    let (mut world, view) = two();
    let buffer = world.uis[1].app.text(view).unwrap().0;
    let shard = Shard::Buffer(buffer);
    let wrong = |world: &World| {
        let mut mark = hash_of(world.authority.node(), shard).unwrap();
        mark.state = [9; 32];
        ServerMessage::HashMarks(vec![mark])
    };
    for _ in 0..2 {
        let mark = wrong(&world);
        world.update(1, Event::Message(mark));
        world.run();
    }
    let names: Vec<&str> = world.kept.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [shard.to_string().replace('/', "-")]);
    let notices = &world.authority.node().state().meta().notices;
    let texts: Vec<&str> = notices.values().map(|n| n.text.as_str()).collect();
    assert_eq!(texts.len(), 1);
    assert!(texts[0].ends_with(&format!("what it had is in /state/{}", names[0])));
    assert!(
        world.status(0).contains("went wrong"),
        "{}",
        world.status(0)
    );
    world.act(0, "type still here");
    assert_eq!(world.shown(0, view), "textstill here|");
    world.check_hashes();
}
