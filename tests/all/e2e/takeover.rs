//! One session, several screens: who leads changes, and nothing that was typed is lost.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use apex_core::entry::{BufferOp, MetaOp, Op};
use apex_core::ids::{AttachmentId, BufferId, Shard};
use apex_core::message::{ClientMessage, ErrorCode, ServerMessage};
use apex_core::wire::decode_entry;
use apex_tests::harness::screen::Screen;
use apex_tests::harness::{Home, Peer, Proxy, Pty, Way};
use rustix::process::Signal;

use super::{TO_END, TO_START, screen, text, wait_end, wait_window};

/// Returns all that the log inserted into a buffer, in order; undo would count again.
fn inserted(peer: &Peer, buffer: BufferId) -> String {
    let mut all = String::new();
    for record in &peer.records {
        if record.shard != Shard::Buffer(buffer) {
            continue;
        }
        if let Op::Buffer(BufferOp::Edit { splices, .. }) = &record.entry.op {
            all.extend(splices.iter().map(|splice| splice.text.as_str()));
        }
    }
    all
}

/// Returns how leases of a buffer went: grants with `true`, reclaims with `false`.
fn leases(peer: &Peer, buffer: BufferId) -> Vec<(bool, AttachmentId)> {
    let shard_of = Shard::Buffer(buffer);
    let records = peer.records.iter();
    records
        .filter_map(|record| match &record.entry.op {
            Op::Meta(MetaOp::LeaseGrant { shard, to, .. }) if *shard == shard_of => {
                Some((true, *to))
            }
            Op::Meta(MetaOp::LeaseReclaim { shard, .. }) if *shard == shard_of => {
                Some((false, AttachmentId::default()))
            }
            _ => None,
        })
        .collect()
}

/// Returns the rows of a window's body, none below its text, without the column of the scroll bar.
fn rows(screen: &Screen, path: &Path) -> Option<Vec<String>> {
    let (_, y) = screen.find(&format!("{} Del", text(path)))?;
    let all = screen.text();
    let body = all.lines().skip(usize::from(y) + 1);
    let mut rows: Vec<String> = body.map(|row| row.chars().skip(1).collect()).collect();
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    Some(rows)
}

/// Which part of a text.
#[derive(Clone, Copy, Debug)]
enum Page {
    First,
    Last,
}

/// Goes to a page of the text by key, and waits until the screen shows it.
#[track_caller]
fn wait_page(pty: &mut Pty, path: &Path, typed: &str, page: Page) {
    pty.keys(match page {
        Page::First => TO_START,
        Page::Last => TO_END,
    });
    let lines: Vec<&str> = typed.lines().map(str::trim_end).collect();
    pty.wait(&format!("the {page:?} page of what was typed"), |screen| {
        let rows = rows(screen, path)?;
        let expect = match page {
            Page::First => lines.get(..rows.len()),
            Page::Last => lines.get(lines.len().checked_sub(rows.len())?..),
        };
        // How far an end stands above the last row is the screen's matter.
        (rows.len() > 1 && rows == expect?).then_some(())
    });
}

#[test]
fn a_second_screen_takes_over_while_the_first_is_typing_and_every_key_is_in_the_log_once() {
    let home = Home::new();
    let path = home.file("a.txt", b"");
    let mut first = screen(&home, &path);
    let mut peer = Peer::follow(&home);
    let buffer = peer.wait_buffer(&path, |_| true);
    let old_leader = peer.leader(Shard::Buffer(buffer));
    let is_taken_over = AtomicBool::new(false);
    let (first, typed) = std::thread::scope(|scope| {
        // Types without a pause, each word once the one before has shown, until a while after the
        // other screen leads; not for ever, if that one never does.
        let typing = scope.spawn(|| {
            let (mut typed, mut words_after) = (String::new(), 0);
            for number in 0..20_000 {
                let word = format!("w{number} ");
                first.keys(&word);
                typed.push_str(&word);
                first.wait_for(word.trim_end());
                if number % 10 == 9 {
                    first.keys("\r");
                    typed.push('\n');
                }
                words_after += u32::from(is_taken_over.load(Ordering::SeqCst));
                if words_after > 50 && !typed.ends_with('\n') {
                    break;
                }
            }
            (first, typed)
        });
        // Not at the end: the typing goes on, and this party may hear of many words at once.
        peer.wait_buffer(&path, |buffer| buffer.text().to_string().contains("w30 "));
        let mut second = Pty::apex(&home, &[]);
        peer.wait(|peer| (peer.leader(Shard::Buffer(buffer)) != old_leader).then_some(()));
        is_taken_over.store(true, Ordering::SeqCst);
        let (mut first, typed) = typing.join().unwrap();
        wait_all(&mut peer, buffer, &typed);
        first.wait_for("watching, led by");
        // Each scrolls for itself, and only to what was typed on it.
        for page in [Page::First, Page::Last] {
            let [one, other] = [&mut first, &mut second];
            wait_page(one, &path, &typed, page);
            wait_page(other, &path, &typed, page);
        }
        (first, typed)
    });
    drop(first);
    let how = leases(&peer, buffer);
    assert!(
        how.iter().all(|(is_grant, _)| *is_grant) && !how.is_empty(),
        "by transfer, nothing was reclaimed: {how:?}"
    );
    assert_eq!(inserted(&peer, buffer), typed);
    let text = peer.state().buffer(buffer).unwrap().text().to_string();
    assert_eq!(text, typed);
}

/// Waits until as much was inserted as was typed.
#[track_caller]
fn wait_all(peer: &mut Peer, buffer: BufferId, typed: &str) {
    peer.wait(|peer| (inserted(peer, buffer).len() >= typed.len()).then_some(()));
}

/// A screen behind a proxy, leading a file, with `typed` on the screen and not at the daemon; then
/// stopped, and another screen in its place.
struct Stopped {
    home: Home,
    path: std::path::PathBuf,
    proxy: Proxy,
    stopped: Pty,
    leading: Pty,
    peer: Peer,
    buffer: BufferId,
}

fn stop_with_unacknowledged(before: &str, to: &str, typed: &str) -> Stopped {
    let home = Home::new();
    let path = home.file("a.txt", before.as_bytes());
    let daemon = home.daemon();
    // It lives as long as the home, which ends it.
    std::mem::forget(daemon);
    let proxy = Proxy::new(&home);
    let mut stopped = Pty::apex_of(&home, &[text(&path)], |command| {
        command.env("APEX_RUNTIME_DIR", proxy.runtime());
    });
    wait_window(&stopped, &path);
    let mut peer = Peer::follow(&home);
    let buffer = peer.wait_buffer(&path, |_| true);
    stopped.keys(to);
    stopped.keys("first ");
    peer.wait_buffer(&path, |buffer| buffer.text().to_string().contains("first "));
    proxy.hold(Way::Up);
    stopped.keys(typed);
    // They are on the screen and on their way.
    stopped.wait_for(&format!("first {}", typed.trim_end()));
    proxy.wait("what was typed", |passed| {
        let mut all = String::new();
        for message in &passed.up {
            if let ClientMessage::Append(shards) = message {
                all.extend(shards.iter().flat_map(|(_, entries)| entries).map(|bytes| {
                    match decode_entry(bytes).unwrap().op {
                        Op::Buffer(BufferOp::Edit { splices, .. }) => {
                            splices.iter().map(|splice| splice.text.as_str()).collect()
                        }
                        _ => String::new(),
                    }
                }));
            }
        }
        all.contains(typed).then_some(())
    });
    let old_leader = peer.leader(Shard::Buffer(buffer));
    stopped.signal(Signal::STOP);
    let leading = Pty::apex(&home, &[]);
    wait_window(&leading, &path);
    peer.wait(|peer| (peer.leader(Shard::Buffer(buffer)) != old_leader).then_some(()));
    let how = leases(&peer, buffer);
    assert!(
        how.iter().any(|(is_grant, _)| !is_grant),
        "it was reclaimed: {how:?}"
    );
    let text = peer.state().buffer(buffer).unwrap().text().to_string();
    assert!(!text.contains(typed), "it had not arrived: {text:?}");
    Stopped {
        home,
        path,
        proxy,
        stopped,
        leading,
        peer,
        buffer,
    }
}

impl Stopped {
    /// Lets the stopped screen go on, and what it had said arrive; waits for the refusal.
    fn go_on(&mut self) {
        self.stopped.signal(Signal::CONT);
        self.proxy.release(Way::Up);
        let shard = Shard::Buffer(self.buffer);
        let words = self
            .proxy
            .wait("the refusal of the stale append", |passed| {
                passed.down.iter().find_map(|message| match message {
                    ServerMessage::Error { error, shards } if shards.contains(&shard) => {
                        assert_eq!(error.code, ErrorCode::Fenced);
                        Some(error.message.clone())
                    }
                    _ => None,
                })
            });
        assert!(
            words.contains("fenced") && words.contains("epoch"),
            "{words}"
        );
    }
}

#[test]
fn what_a_stopped_screen_had_typed_is_in_the_text_once_it_goes_on() {
    let mut all = stop_with_unacknowledged("one\n", TO_START, "second ");
    // Elsewhere in the text the new leader goes on typing.
    all.leading.keys(TO_END);
    all.leading.keys("third");
    wait_end(&mut all.peer, &all.path, "third");
    all.go_on();
    let path = all.path.clone();
    all.peer.wait_buffer(&path, |buffer| {
        *buffer.text() == "first second one\nthird".into()
    });
    all.stopped.wait_for("first second one");
    all.leading.wait_for("first second one");
    assert_eq!(inserted(&all.peer, all.buffer), "first thirdsecond ");
    all.stopped
        .wait_for("before another UI took over is in the buffer");
    // Both go on: the one leads, the other watches and can take over again.
    all.stopped.keys("\x1bOQ");
    let buffer = all.buffer;
    let leader = all.peer.leader(Shard::Buffer(buffer));
    all.peer
        .wait(|peer| (peer.leader(Shard::Buffer(buffer)) != leader).then_some(()));
    all.leading.wait_for("watching, led by");
    drop(all.home);
}

#[test]
fn what_conflicts_with_the_new_leader_is_in_recovered() {
    let mut all = stop_with_unacknowledged("one\n", TO_START, "second ");
    // The new leader replaces the text around the place where the lost characters belong.
    all.leading.keys("\x1ba");
    all.leading.keys("all new");
    let path = all.path.clone();
    all.peer
        .wait_buffer(&path, |buffer| *buffer.text() == "all new".into());
    all.go_on();
    let recovered = all.home.files().join("+Recovered");
    all.peer.wait(|peer| {
        let in_text = peer.buffer(&path)?.1.text().to_string();
        let aside = peer.buffer(&recovered);
        let aside = aside
            .map(|(_, buffer)| buffer.text().to_string())
            .unwrap_or_default();
        let count = in_text.matches("second ").count() + aside.matches("second ").count();
        (count == 1).then_some(())
    });
    let kept = all.peer.buffer(&path).unwrap().1.text().to_string();
    assert!(kept.contains("all new"), "{kept}");
    all.leading.wait_for("second");
}
