//! The daemon ends between any two steps: what is kept, who comes back, what comes again.

use alloc::vec;

use super::*;
use crate::edit::Splice;
use crate::entry::AttachmentKind::{Tool, Ui};
use crate::ids::{Place, SERVER, Version};
use crate::journal::{Checkpoint, Item, Kept};
use crate::limits::{GRACE_TOOL_MS, GRACE_UI_MS, RESERVED_ATTACHMENT_COUNT, RESERVED_EPOCH_COUNT};
use crate::message::AckMark;
use crate::node::authority::RecoverError;
use crate::proposal::{Change, Refusal};
use crate::text::Span;

/// A UI that leads, one that watches, a tool; a text "ab" that is synced. From here on the disk
/// does nothing by itself.
struct Scene {
    world: World,
    ui: usize,
    watcher: usize,
    tool: usize,
    buffer: BufferId,
    view: ViewId,
}

impl Scene {
    fn new() -> Self {
        let mut world = World::new();
        let ui = world.ui();
        let watcher = world.join(Ui, Takeover::Watch);
        let tool = world.join(Tool, Takeover::Watch);
        let (buffer, view) = world.open(ui, "/tmp/x");
        world.type_text(ui, view, "ab");
        world.run();
        world.is_slow = true;
        Self {
            world,
            ui,
            watcher,
            tool,
            buffer,
            view,
        }
    }

    fn text(&self) -> String {
        self.world.text(self.buffer)
    }

    fn type_text(&mut self, text: &str) {
        self.world.type_text(self.ui, self.view, text);
        self.world.run();
    }

    fn come_back(&mut self) {
        for index in [self.tool, self.watcher, self.ui] {
            self.world.rejoin(index);
        }
        self.world.keep(usize::MAX);
        self.world.run();
        self.world.keep(usize::MAX);
        self.world.run();
    }

    /// Returns what the UI was told of its text since the last call.
    fn acks(&mut self) -> Vec<AckMark> {
        let peer = &self.world.peers[&self.ui];
        let acked = |message: &ServerMessage| match message {
            ServerMessage::Acked(marks) => marks.clone(),
            _ => Vec::new(),
        };
        let marks: Vec<AckMark> = peer.to_client.iter().flat_map(acked).collect();
        self.world.run();
        let shard = Shard::Buffer(self.buffer);
        marks
            .into_iter()
            .filter(|mark| mark.shard == shard)
            .collect()
    }

    fn insert(&self, text: &str) -> Change {
        let state = self.world.authority.node().state();
        let base = state
            .buffer(self.buffer)
            .map(crate::buffer::Buffer::version);
        Change::Edit {
            buffer: self.buffer,
            base: base.unwrap_or_default(),
            splices: vec![Splice::new(Span::at(0), text)],
        }
    }

    fn propose(&mut self, change: Change) -> ProposalId {
        let peer = self.world.peer(self.tool);
        let (id, message) = peer.client.propose(vec![change]).unwrap();
        peer.say(message);
        self.world.run();
        id
    }

    fn outcomes(&self, proposal: ProposalId) -> Vec<crate::proposal::Outcome> {
        let events = self.world.peers[&self.tool].events.iter();
        let decided = events.filter_map(|event| match event {
            ClientEvent::Decided { id, outcome } if *id == proposal => Some(outcome.clone()),
            _ => None,
        });
        decided.collect()
    }
}

/// What the users do, in steps.
const STEPS: [fn(&mut Scene); 9] = [
    |scene| scene.type_text("cd"),
    |scene| {
        let change = scene.insert("1");
        scene.propose(change);
    },
    |scene| {
        let node = scene.world.peer(scene.ui).node();
        let window = node.new_window(scene.buffer, Placement::Active).unwrap();
        node.type_text(ViewId::Body(window), "W", GroupId::new(7))
            .unwrap();
        scene.world.peer(scene.ui).flush();
        scene.world.run();
    },
    |scene| {
        let (buffer, view) = scene.world.open(scene.ui, "/tmp/y");
        scene.world.type_text(scene.ui, view, "why");
        scene.world.run();
        let _ = buffer;
    },
    |scene| {
        scene.world.peer(scene.ui).node().undo(scene.view).unwrap();
        scene.world.peer(scene.ui).flush();
        scene.world.run();
    },
    |scene| {
        let change = Change::Append {
            name: String::from("/tmp/+Errors"),
            text: String::from("oops\n"),
        };
        scene.propose(change);
    },
    |scene| {
        let node = scene.world.peer(scene.ui).node();
        let windows: Vec<WindowId> = node.state().windows_of(scene.buffer).collect();
        node.close_window(windows[1]).unwrap();
        scene.world.peer(scene.ui).flush();
        scene.world.run();
    },
    |scene| scene.type_text("ef"),
    |scene| {
        let change = scene.insert("2");
        scene.propose(change);
    },
];

/// Returns the names and texts of all buffers that are no tags, and how many windows there are.
fn seen(world: &World) -> (Vec<(String, String)>, usize) {
    let state = world.authority.node().state();
    let texts = state
        .buffers()
        .filter(|(_, buffer)| buffer.kind() != BufferKind::Tag);
    let texts = texts.map(|(_, buffer)| (buffer.name().to_string(), buffer.text().to_string()));
    (texts.collect(), state.windows().count())
}

#[test]
fn whatever_step_the_daemon_ends_after_everybody_comes_back_and_nothing_is_lost_or_doubled() {
    let mut whole = Scene::new();
    STEPS.iter().for_each(|step| step(&mut whole));
    let want = seen(&whole.world);
    assert_eq!(want.0.len(), 4, "{want:?}");
    let mut lost_count = 0;
    // After which step, how many lines are written then, and synced before that step.
    for (after, step) in STEPS.iter().enumerate() {
        let mut written = 0;
        loop {
            let mut scene = Scene::new();
            STEPS[..after].iter().for_each(|step| step(&mut scene));
            scene.world.keep(usize::MAX);
            scene.world.run();
            step(&mut scene);
            let is_all = scene.world.disk.unwritten_count() <= written;
            scene.world.disk.write(written);
            scene.world.note_kept();
            scene.world.run();
            let before = scene.world.authority.node().log().marks();
            // Kill the process, or cut the power with one line more than was synced, or none.
            let lucky = [None, Some(0), Some(1)][(after + written) % 3];
            scene.world.crash(lucky);
            let found = scene.world.authority.node().log();
            let is_lost = |mark: &Mark| found.mark(mark.shard).is_none_or(|m| m.seq < mark.seq);
            lost_count += usize::from(before.iter().any(is_lost));
            scene.come_back();
            scene.world.check();
            STEPS[after + 1..].iter().for_each(|step| step(&mut scene));
            scene.world.keep(usize::MAX);
            scene.world.run();
            let got = seen(&scene.world);
            assert_eq!(got, want, "after {after}, {written} written, {lucky:?}");
            assert!(scene.world.is_leading(scene.ui));
            scene.world.is_slow = false;
            scene.world.check();
            if is_all {
                break;
            }
            written += 1;
        }
    }
    assert!(lost_count > 20, "entries were lost {lost_count} times");
}

#[test]
fn appends_are_acknowledged_when_written_and_again_when_synced_and_shipped_again_until_then() {
    let mut scene = Scene::new();
    scene.type_text("c");
    assert_eq!(scene.acks(), []);
    scene.world.disk.write(usize::MAX);
    scene.world.note_kept();
    let head = scene
        .world
        .authority
        .node()
        .log()
        .mark(Shard::Buffer(scene.buffer))
        .unwrap()
        .seq;
    let none = Seq::default();
    let acks = scene.acks();
    assert_eq!(acks.len(), 1);
    assert_eq!(
        (acks[0].received, acks[0].written, acks[0].synced),
        (head, head, none)
    );
    let kept = |scene: &Scene| {
        let node = scene.world.peers[&scene.ui].client.node().unwrap();
        node.log().after(Shard::Buffer(scene.buffer), none).count()
    };
    assert_ne!(kept(&scene), 0, "it may be lost still");
    scene.world.disk.sync();
    scene.world.note_kept();
    assert_eq!(scene.acks()[0].synced, head);
    assert_eq!(kept(&scene), 0);
}

#[test]
fn a_fresh_snapshot_does_not_make_a_leader_forget_what_may_be_lost() {
    let mut scene = Scene::new();
    scene.type_text("c");
    scene.world.refuse(scene.ui, Shard::Buffer(scene.buffer));
    scene.world.run();
    scene.type_text("d");
    assert_eq!(scene.text(), "abcd");
    scene.world.crash(Some(0));
    assert_eq!(scene.text(), "ab");
    scene.come_back();
    assert_eq!(scene.text(), "abcd");
    scene.world.check();
}

#[test]
fn an_outcome_is_told_once_it_is_written_and_a_lost_one_is_decided_again() {
    let mut scene = Scene::new();
    let change = scene.insert("1");
    let id = scene.propose(change);
    assert_eq!(scene.text(), "1ab");
    assert_eq!(scene.outcomes(id), []);
    // Its leader is gone for good, and what it had appended with it.
    scene.world.crash(None);
    assert_eq!(scene.text(), "ab");
    scene.world.peers.remove(&scene.ui);
    scene.world.rejoin(scene.tool);
    let new = scene.world.ui();
    scene.world.keep(usize::MAX);
    scene.world.run();
    assert!(scene.world.is_leading(new));
    assert_eq!(scene.text(), "1ab");
    let outcomes = scene.outcomes(id);
    assert!(matches!(outcomes[..], [Ok(_)]), "{outcomes:?}");
}

#[test]
fn no_id_and_no_epoch_that_was_lost_is_given_again() {
    let mut scene = Scene::new();
    let late = scene.world.join(Ui, Takeover::Steal);
    let lost_id = scene.world.peer(late).node().attachment();
    let lease = |scene: &Scene| {
        let log = scene.world.authority.node().log();
        log.lease(Shard::Buffer(scene.buffer)).unwrap()
    };
    let lost = lease(&scene);
    assert_eq!(lost.holder, lost_id);
    let lost_notice = scene.world.authority.node_mut().new_notice();
    let meta_epoch = |scene: &Scene| {
        scene
            .world
            .authority
            .node()
            .log()
            .lease(Shard::Meta)
            .unwrap()
    };
    let pinned = meta_epoch(&scene);
    scene.world.peers.remove(&late);
    scene.world.crash(Some(0));
    let found = lease(&scene);
    assert_eq!(found.holder, scene.world.peer(scene.ui).node().attachment());
    assert!(found.epoch > lost.epoch);
    assert!(meta_epoch(&scene).epoch > pinned.epoch);
    assert!(scene.world.authority.node_mut().new_notice() > lost_notice);
    let next = scene.world.join(Ui, Takeover::Steal);
    assert!(scene.world.peer(next).node().attachment() > lost_id);
    let head = scene
        .world
        .authority
        .node()
        .log()
        .after(Shard::Meta, Seq::default())
        .last();
    assert_eq!(head.unwrap().entry.epoch, meta_epoch(&scene).epoch);
    scene.come_back();
    scene.world.check();
}

#[test]
fn what_is_not_reserved_on_disk_is_not_used() {
    let mut scene = Scene::new();
    let mut joined = 0;
    loop {
        let index = scene.world.join(Tool, Takeover::Watch);
        let peer = scene.world.peers.remove(&index).unwrap();
        let Some(node) = peer.client.node() else {
            let told = |event: &ClientEvent| match event {
                ClientEvent::Error(error) => error.code == ErrorCode::Retry,
                _ => false,
            };
            assert!(peer.events.iter().any(told));
            break;
        };
        let id = node.attachment().raw();
        assert!(id < 2 * RESERVED_ATTACHMENT_COUNT);
        joined += 1;
        assert!(joined < 2 * RESERVED_ATTACHMENT_COUNT);
    }
    scene.world.keep(usize::MAX);
    let index = scene.world.join(Tool, Takeover::Watch);
    assert!(scene.world.peer(index).client.node().is_some());
    // The same of epochs: a text that changes hands too often stays where it is.
    let shard = Shard::Buffer(scene.buffer);
    let epoch = |world: &World| world.authority.node().log().lease(shard).unwrap().epoch;
    let first = epoch(&scene.world).raw();
    for _ in 0..2 * RESERVED_EPOCH_COUNT {
        let index = scene.ui;
        let id = scene.world.peer(index).node().attachment();
        scene.world.authority.grant(shard, id);
    }
    assert!(epoch(&scene.world).raw() <= first + 2 * RESERVED_EPOCH_COUNT);
    let full = epoch(&scene.world);
    scene
        .world
        .authority
        .settle(scene.world.now, &mut Vec::new());
    scene.world.deliver(Vec::new());
    scene.world.keep(usize::MAX);
    let id = scene.world.peer(scene.ui).node().attachment();
    scene.world.authority.grant(shard, id);
    assert!(epoch(&scene.world) > full);
}

#[test]
fn a_recovery_that_ends_before_its_checkpoint_is_synced_is_done_again() {
    let mut scene = Scene::new();
    scene.type_text("cd");
    scene.world.disk.write(usize::MAX);
    scene.world.disk.kill();
    let kept = scene.world.disk.kept().unwrap();
    let run = |n: u128| Incarnation(uuid::Uuid::from_u128(n));
    let now = scene.world.now;
    let recover = |kept: &Kept, n| Authority::recover(kept.clone(), run(n), now).unwrap();
    let mut first = recover(&kept, 50);
    let hash = |authority: &Authority| authority.node().state().hash();
    assert_eq!(hash(&first), hash(&recover(&kept, 51)), "the same again");
    // And of what it made of it: nothing but new fences.
    let checkpoint = first.begin_journal();
    let again = Kept {
        checkpoint,
        items: Vec::new(),
    };
    let second = recover(&again, 52);
    for shard in first
        .node()
        .log()
        .shards()
        .filter(|shard| *shard != Shard::Meta)
    {
        let hash = |of: &Authority| of.node().state().shard_hash(shard);
        assert_eq!(hash(&first), hash(&second), "{shard}");
        let lease = |of: &Authority| of.node().log().lease(shard).unwrap();
        assert_eq!(lease(&first).holder, lease(&second).holder);
        assert!(lease(&first).epoch < lease(&second).epoch);
    }
    // The disk has the old checkpoint still when the power fails before the new one is synced.
    scene.world.crash(None);
    scene.world.crash(Some(0));
    scene.come_back();
    assert_eq!(scene.text(), "abcd");
    scene.world.check();
}

#[test]
fn a_checkpoint_stands_for_what_was_before_it() {
    let mut scene = Scene::new();
    scene.type_text("cd");
    let checkpoint = scene.world.authority.checkpoint();
    scene.world.disk.checkpoint(checkpoint);
    scene.type_text("ef");
    scene.world.keep(usize::MAX);
    let kept = scene.world.disk.kept().unwrap();
    let text = |checkpoint: &Checkpoint| {
        let buffer = checkpoint.state.buffer(scene.buffer).unwrap();
        buffer.text().to_string()
    };
    assert_eq!(text(&kept.checkpoint), "abcd");
    assert_eq!(kept.items.len(), 1, "{:?}", kept.items);
    scene.world.crash(Some(0));
    assert_eq!(scene.text(), "abcdef");
    scene.come_back();
    scene.world.check();
}

#[test]
fn who_does_not_come_back_leaves_after_its_grace_and_who_is_not_known_at_once() {
    let mut scene = Scene::new();
    let parties = |scene: &Scene| {
        scene
            .world
            .authority
            .node()
            .state()
            .meta()
            .attachments
            .len()
    };
    let stranger = scene.world.join(Tool, Takeover::Watch);
    scene.world.peers.remove(&stranger);
    // Its attachment is written, and what proves it is not.
    scene.world.disk.write(1);
    assert_eq!(parties(&scene), 4);
    scene.world.crash(None);
    assert_eq!(parties(&scene), 3);
    assert_eq!(
        scene.world.authority.chief(),
        Some(scene.world.peer(scene.ui).node().attachment())
    );
    for gone in [scene.ui, scene.tool] {
        scene.world.peers.remove(&gone);
    }
    scene.world.rejoin(scene.watcher);
    scene.world.pass(GRACE_TOOL_MS);
    assert_eq!(parties(&scene), 2);
    scene.world.pass(GRACE_UI_MS);
    assert_eq!(parties(&scene), 1);
    assert!(scene.world.authority.node().leads(Shard::Layout));
    // The watcher takes over, and is no watcher after the next restart.
    let watcher = scene.watcher;
    scene.world.peer(watcher).say(Client::take_over(false));
    scene.world.run();
    scene.world.keep(usize::MAX);
    scene.world.crash(Some(0));
    scene.world.rejoin(watcher);
    assert!(scene.world.is_leading(watcher));
    let me = scene.world.peer(watcher).node().attachment();
    assert!(!scene.world.authority.is_watcher(me));
    scene.world.check();
}

#[test]
fn what_a_tool_led_goes_to_the_ui_and_processes_are_gone() {
    let mut scene = Scene::new();
    let shard = Shard::Buffer(scene.buffer);
    let tool = scene.world.peer(scene.tool).node().attachment();
    let now = scene.world.now;
    scene.world.authority.allow_leases(now, tool, Some(1000));
    let shards = vec![shard];
    let message = ClientMessage::LeaseRequest {
        shards,
        steal: false,
    };
    scene.world.peer(scene.tool).say(message);
    scene.world.run();
    let node = scene.world.authority.node_mut();
    assert!(node.log().is_held_by(shard, tool));
    let process = node.new_process();
    let start = MetaOp::ProcStart {
        process,
        owner: SERVER,
        command: String::from("sleep"),
    };
    node.append_meta(start).unwrap();
    scene.world.pass(1);
    scene.world.keep(usize::MAX);
    scene.world.crash(Some(0));
    let node = scene.world.authority.node();
    assert!(node.state().meta().processes.is_empty());
    let ui = scene.world.peers[&scene.ui]
        .client
        .node()
        .unwrap()
        .attachment();
    assert!(node.log().is_held_by(shard, ui));
    scene.come_back();
    scene.type_text("c");
    assert_eq!(scene.text(), "abc");
    scene.world.check();
}

#[test]
fn damage_is_told_and_nothing_is_guessed() {
    let mut scene = Scene::new();
    for text in ["c", "d", "e"] {
        scene.type_text(text);
    }
    scene.world.disk.write(usize::MAX);
    let kept = scene.world.disk.kept().unwrap();
    let (first, _) = kept.items[0];
    let run = Incarnation(uuid::Uuid::from_u128(50));
    let error = |damage: &dyn Fn(&mut Kept)| {
        let mut kept = kept.clone();
        damage(&mut kept);
        Authority::recover(kept, run, Millis::new(1)).err()
    };
    assert_eq!(error(&|_| ()), None);
    let gap = error(&|kept| drop(kept.items.remove(1)));
    assert_eq!(gap, Some(RecoverError::Gap(Place::new(first.raw() + 2))));
    let records = |kept: &mut Kept, damage: &dyn Fn(&mut Record)| {
        let Item::Entries(records) = &mut kept.items[0].1 else {
            panic!("typing is entries");
        };
        damage(Arc::make_mut(&mut records[0]));
    };
    let chain = error(&|kept| records(kept, &|record| record.chain = Default::default()));
    assert!(
        matches!(chain, Some(RecoverError::Chain(place, ..)) if place == first),
        "{chain:?}"
    );
    let bytes = error(&|kept| records(kept, &|record| record.bytes = Bytes::from(&[9][..])));
    assert_eq!(bytes, Some(RecoverError::Entry(first, NodeError::Bytes)));
    let shard = Shard::Buffer(BufferId::new(77));
    let unknown = error(&|kept| records(kept, &|record| record.shard = shard));
    assert!(
        matches!(unknown, Some(RecoverError::Entry(..))),
        "{unknown:?}"
    );
    let none = error(&|kept| kept.checkpoint.incarnations.clear());
    assert_eq!(none, Some(RecoverError::NoRun));
}

#[test]
fn a_connection_that_drops_takes_nothing_with_it() {
    let mut scene = Scene::new();
    scene.world.is_slow = false;
    let (ui, tool) = (scene.ui, scene.tool);
    // Typing, a window that is closed and one that is made, all on their way.
    scene.world.peer(ui).is_held = true;
    scene.type_text("cd");
    let node = scene.world.peer(ui).node();
    let windows: Vec<WindowId> = node.state().windows().map(|(id, _)| id).collect();
    node.close_window(windows[0]).unwrap();
    scene.world.peer(ui).flush();
    let (_, view) = scene.world.open(ui, "/tmp/y");
    scene.world.type_text(ui, view, "why");
    let id = scene.propose(scene.insert("1"));
    scene.world.cut(ui, true);
    scene.world.peer(ui).is_held = false;
    scene.world.rejoin(ui);
    assert_eq!(scene.text(), "1abcd");
    assert!(
        matches!(scene.outcomes(id)[..], [Ok(_)]),
        "{:?}",
        scene.outcomes(id)
    );
    assert_eq!(seen(&scene.world).1, 2);
    assert!(
        seen(&scene.world)
            .0
            .contains(&("/tmp/y".into(), "why".into()))
    );
    scene.world.check();
    // An outcome that was on its way: asked again, told once more, applied once.
    scene.world.peer(tool).is_asleep = true;
    let id = scene.propose(scene.insert("2"));
    scene.world.cut(tool, true);
    scene.world.peer(tool).is_asleep = false;
    scene.world.rejoin(tool);
    assert!(
        matches!(scene.outcomes(id)[..], [Ok(_)]),
        "{:?}",
        scene.outcomes(id)
    );
    assert_eq!(scene.text(), "21abcd");
    scene.world.check();
}

#[test]
fn entries_that_arrived_unacknowledged_are_no_tail_after_somebody_took_over() {
    for is_restarted in [false, true] {
        let mut scene = Scene::new();
        scene.world.is_slow = false;
        let ui = scene.ui;
        scene.world.peer(ui).is_asleep = true;
        scene.type_text("cd");
        if is_restarted {
            scene.world.crash(None);
        } else {
            scene.world.cut(ui, true);
        }
        scene.world.peer(ui).is_asleep = false;
        let second = scene.world.join(Ui, Takeover::Steal);
        scene.world.type_text(second, scene.view, "X");
        scene.world.run();
        scene.world.rejoin(ui);
        for index in [scene.watcher, scene.tool]
            .into_iter()
            .filter(|_| is_restarted)
        {
            scene.world.rejoin(index);
        }
        assert!(!scene.world.peer(ui).client.is_recovering());
        let text = scene.text();
        let state = scene.world.authority.node().state();
        assert!(state.buffer_named("/tmp/+Recovered").is_none());
        assert_eq!(text.matches("cd").count(), 1, "{text}");
        assert_eq!(text.len(), 5, "{text}");
        scene.world.check();
    }
}

#[test]
fn who_was_lost_attaches_anew_and_brings_what_it_typed() {
    let mut scene = Scene::new();
    let late = scene.world.join(Ui, Takeover::Steal);
    let (lost, view) = (scene.world.peer(late).node().attachment(), scene.view);
    scene.world.type_text(late, view, "cd");
    scene.world.run();
    let id = {
        let peer = scene.world.peer(late);
        let (id, message) = peer.client.propose(vec![scene_close()]).unwrap();
        peer.is_held = true;
        peer.say(message);
        id
    };
    scene.world.crash(Some(0));
    assert_eq!(scene.text(), "ab");
    scene.world.peer(late).is_held = false;
    scene.world.rejoin(late);
    scene.come_back();
    assert_ne!(scene.world.peer(late).node().attachment(), lost);
    let text = scene.text();
    assert!(text.contains("cd") && text.len() == 4, "{text}");
    let told = scene.world.peers[&late]
        .events
        .iter()
        .any(|event| match event {
            ClientEvent::Decided { id: of, outcome } => {
                *of == id && matches!(outcome, Err(Refusal::Refused(_)))
            }
            _ => false,
        });
    assert!(told);
    scene.world.check();
}

fn scene_close() -> Change {
    Change::Put {
        buffer: BufferId::new(1),
        version: Version::new(0),
    }
}
