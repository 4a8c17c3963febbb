//! What users do at their screens, as the screen program does it.

use apex_core::buffer::Buffer;
use apex_core::entry::{AttachmentKind, Body, BufferKind, SaveCause};
use apex_core::ids::{BufferId, Shard, ViewId, WindowId};
use apex_core::message::{Answer, ClientMessage, Run};
use apex_core::node::Node;
use apex_core::node::client::{Client, ClientEvent, recovery};
use apex_core::node::decide::FollowUp;
use apex_core::node::undoing::Direction;
use apex_core::node::windows::Placement;
use apex_core::proposal::{Change, Outcome, Refusal};
use apex_core::text::Span;

use super::World;
use super::tooling::BOARD;
use crate::oracle::hold;
use crate::oracle::typed::gone;
use crate::plan::{Kind, Step};
use crate::process::{Process, Request, Waiting};
use crate::random::Random;

const MODEL: &str = "a key does what it says (8)";

/// Returns the text of a view's buffer, as a plain string.
fn text_of(node: &Node, buffer: BufferId) -> String {
    let buffer = node.state().buffer(buffer);
    buffer.map_or_else(String::new, |buffer| buffer.text().to_string())
}

fn dot_of(node: &Node, view: ViewId) -> Span {
    node.view(view).map_or(Span::at(0), |view| view.dot)
}

impl World {
    pub(super) fn user_step(&mut self, step: Step, random: &mut Random) -> bool {
        let Some(id) = self.process_of(step.slot, AttachmentKind::Ui) else {
            return false;
        };
        let mut is_done = false;
        self.with(id, |world, process| {
            let is_there = process.client.node().is_some() && process.frozen_us <= world.now_us;
            if is_there {
                is_done = world.act(process, step.kind, random);
            }
        });
        is_done
    }

    fn act(&mut self, process: &mut Process, kind: Kind, random: &mut Random) -> bool {
        let is_asking = matches!(
            kind,
            Kind::TakeOver | Kind::Steal | Kind::Open | Kind::Run | Kind::Put | Kind::Get
        );
        if is_asking && process.client.is_away() {
            return false;
        }
        match kind {
            Kind::TakeOver | Kind::Steal => return self.take_over(process, kind == Kind::Steal),
            Kind::Open => {
                let request = process.client.next_request();
                let (directory, path) = ("/w/".into(), format!("f{}", random.below(7)));
                let message = ClientMessage::FileOpen {
                    request,
                    directory,
                    path,
                };
                process.requests.insert(request, Request::Open);
                self.oracles.told.ask(process.id, request);
                self.say(process, vec![message]);
                return true;
            }
            Kind::Run => {
                let request = process.client.next_request();
                let (input, environment) = (String::new(), Vec::new());
                let command = format!("said {}\n", random.below(100));
                let run = Run {
                    directory: "/w/".into(),
                    command,
                    input,
                    environment,
                };
                process.requests.insert(request, Request::Plain);
                self.oracles.told.ask(process.id, request);
                self.say(process, vec![ClientMessage::Run { request, run }]);
                return true;
            }
            Kind::New => return self.new_window(process),
            _ => {}
        }
        let Some((window, buffer)) = choose(process, random) else {
            return false;
        };
        let view = ViewId::Body(window);
        match kind {
            Kind::Type => {
                let count = random.range(1, 9);
                let text = self.oracles.typed.text(process.id, random, count);
                self.type_text(process, (view, buffer), text)
            }
            Kind::Zerox => self.zerox(process, window, buffer),
            Kind::Close => self.close(process, window, buffer),
            Kind::Put => self.put_file(process, buffer),
            Kind::Get => self.get_file(process, buffer),
            _ => self.edit(process, (view, buffer), kind, random),
        }
    }

    fn take_over(&mut self, process: &mut Process, is_steal: bool) -> bool {
        if process.client.is_leading() {
            return false;
        }
        process.is_watcher = false;
        self.say(process, vec![Client::take_over(is_steal)]);
        true
    }

    fn new_window(&mut self, process: &mut Process) -> bool {
        if !process.client.is_leading() {
            return false;
        }
        process.named += 1;
        let name = format!("/w/n{}.{}", process.id, process.named);
        let Some(node) = process.client.node_mut() else {
            return false;
        };
        let made = node.new_buffer(BufferKind::File, &name);
        let made = made.and_then(|buffer| node.new_window(buffer, Placement::Active));
        if let Ok(window) = made {
            process.focus = Some(ViewId::Body(window));
        }
        self.flush_soon(process, 400);
        made.is_ok()
    }

    fn zerox(&mut self, process: &mut Process, window: WindowId, buffer: BufferId) -> bool {
        let is_leading = process.client.is_leading();
        let Some(node) = process.client.node_mut() else {
            return false;
        };
        if !is_leading || !node.leads(Shard::Buffer(buffer)) {
            return false;
        }
        let is_done = node.zerox(window).is_ok();
        self.flush_soon(process, 400);
        is_done
    }

    fn close(&mut self, process: &mut Process, window: WindowId, buffer: BufferId) -> bool {
        let is_leading = process.client.is_leading();
        let is_awaited = process
            .waiting
            .iter()
            .any(|waiting| waiting.buffer == buffer);
        let Some(node) = process.client.node_mut() else {
            return false;
        };
        let Some(tag) = node.state().window(window).map(|window| window.tag) else {
            return false;
        };
        let shards = [
            Shard::Window(window),
            Shard::Buffer(tag),
            Shard::Buffer(buffer),
        ];
        if !is_leading || is_awaited || !shards.iter().all(|shard| node.leads(*shard)) {
            return false;
        }
        let is_last = node.state().windows_of(buffer).nth(1).is_none();
        if is_last {
            self.oracles.typed.remove(&text_of(node, buffer));
        }
        let closed = node.close_window(window);
        self.oracles
            .take(hold(closed.is_ok(), MODEL, || format!("{closed:?}")));
        self.flush_soon(process, 300);
        true
    }

    fn put_file(&mut self, process: &mut Process, buffer: BufferId) -> bool {
        let mut out = Vec::new();
        process.client.flush(&mut out);
        self.say(process, out);
        let Some(node) = process.client.node() else {
            return false;
        };
        let found = node
            .state()
            .buffer(buffer)
            .filter(|b| b.kind() == BufferKind::File);
        let (Some(found), true) = (found, node.leads(Shard::Buffer(buffer))) else {
            return false;
        };
        let version = found.version();
        let epoch = node.log().epoch(Shard::Buffer(buffer));
        let request = process.client.next_request();
        let (path, is_forced, cause) = (None, true, SaveCause::Put);
        let message = ClientMessage::FilePut {
            request,
            buffer,
            version,
            epoch,
            path,
            is_forced,
            cause,
        };
        process.requests.insert(request, Request::Plain);
        self.oracles.told.ask(process.id, request);
        self.say(process, vec![message]);
        true
    }

    fn get_file(&mut self, process: &mut Process, buffer: BufferId) -> bool {
        let request = process.client.next_request();
        process.requests.insert(request, Request::Plain);
        self.oracles.told.ask(process.id, request);
        self.say(process, vec![ClientMessage::FileGet { request, buffer }]);
        true
    }

    /// Types a text into a view: at once where this screen leads, else when it may, or by asking.
    fn type_text(
        &mut self,
        process: &mut Process,
        (view, buffer): (ViewId, BufferId),
        text: String,
    ) -> bool {
        let Some(node) = process.client.node() else {
            self.oracles.typed.untype(&text);
            return false;
        };
        let is_idle = process.waiting.is_empty() && process.sent.is_none();
        if is_idle && node.leads(Shard::Buffer(buffer)) {
            self.type_here(process, (view, buffer), &text);
            return true;
        }
        if process.is_watcher {
            self.oracles.typed.untype(&text);
            return false;
        }
        let name = node
            .state()
            .buffer(buffer)
            .map_or("", |b| b.name())
            .to_owned();
        let is_recovery = false;
        process.waiting.push_back(Waiting {
            view,
            buffer,
            name,
            text,
            is_recovery,
        });
        self.go_on_waiting(process);
        true
    }

    /// Types where this screen leads, key by key, and checks each against a plain list.
    fn type_here(&mut self, process: &mut Process, (view, buffer): (ViewId, BufferId), text: &str) {
        let Some(node) = process.client.node_mut() else {
            return;
        };
        for key in text.chars() {
            let dot = dot_of(node, view);
            let is_going_on = process.typing.filter(|(of, group, at)| {
                let latest = node.state().buffer(buffer).and_then(Buffer::undo_group);
                *of == view && dot == Span::at(*at) && latest == Some(*group)
            });
            let group = is_going_on.map_or_else(|| node.new_group(), |(_, group, _)| group);
            let mut model: Vec<char> = text_of(node, buffer).chars().collect();
            let (q0, q1) = (index(dot.q0), index(dot.q1));
            let gone: String = model.splice(q0..q1, [key]).collect();
            self.oracles.typed.remove(&gone);
            let mut utf8 = [0; 4];
            let key_text = key.encode_utf8(&mut utf8);
            let done = node.type_text(view, key_text, group);
            self.oracles.typed.group(key_text, Some(group));
            let is_same = model.iter().copied().eq(text_of(node, buffer).chars());
            self.oracles.take(hold(done.is_ok() && is_same, MODEL, || {
                format!("{key} in buffer {buffer}: {done:?}, as the model: {is_same}")
            }));
            process.typing = (key != '\n').then(|| (view, group, dot_of(node, view).q1));
        }
        process.focus = Some(view);
        // What another leads is refreshed by him.
        let _ = node.refresh_tags().is_ok();
        self.flush_soon(process, 700);
    }

    fn edit(
        &mut self,
        process: &mut Process,
        (view, buffer): (ViewId, BufferId),
        kind: Kind,
        random: &mut Random,
    ) -> bool {
        let is_idle = process.waiting.is_empty() && process.sent.is_none();
        let Some(node) = process.client.node_mut() else {
            return false;
        };
        if !is_idle || !node.leads(Shard::Buffer(buffer)) {
            return false;
        }
        process.focus = Some(view);
        if matches!(kind, Kind::Undo | Kind::Redo) {
            let is_undo = kind == Kind::Undo;
            return self.undo(process, view, is_undo);
        }
        let before = text_of(node, buffer);
        let mut model: Vec<char> = before.chars().collect();
        let len = model.len() as u64;
        let dot = dot_of(node, view);
        let at = random.below(len + 1);
        let span = Span::new(at, (at + random.below(6)).min(len));
        let mut pasted = String::new();
        let (done, span) = match kind {
            Kind::Erase => {
                let back = dot.q0.saturating_sub(random.range(1, 4));
                let span = if dot.is_empty() {
                    Span::new(back, dot.q0)
                } else {
                    dot
                };
                let group = node.new_group();
                (node.delete(view, span, group), span)
            }
            Kind::Cut => {
                let group = node.new_group();
                let done = node.select(view, span);
                (done.and_then(|()| node.delete(view, span, group)), span)
            }
            Kind::Paste => {
                pasted = self.oracles.typed.text(process.id, random, 5);
                let group = node.new_group();
                self.oracles.typed.group(&pasted, Some(group));
                (node.paste(view, &pasted, group), dot)
            }
            _ => (node.select(view, span), Span::at(0)),
        };
        let gone: String = model
            .splice(index(span.q0)..index(span.q1), pasted.chars())
            .collect();
        self.oracles.typed.remove(&gone);
        let is_same = model.iter().copied().eq(text_of(node, buffer).chars());
        self.oracles.take(hold(done.is_ok() && is_same, MODEL, || {
            format!("{kind} in buffer {buffer}: {done:?}, as the model: {is_same}")
        }));
        process.typing = None;
        let _ = node.refresh_tags().is_ok();
        self.flush_soon(process, 700);
        true
    }

    fn undo(&mut self, process: &mut Process, view: ViewId, is_undo: bool) -> bool {
        let Some(node) = process.client.node() else {
            return false;
        };
        let texts = |node: &Node| -> Vec<(BufferId, String)> {
            let buffers = node.state().buffers();
            buffers
                .map(|(id, buffer)| (id, buffer.text().to_string()))
                .collect()
        };
        let before = texts(node);
        let direction = if is_undo {
            Direction::Back
        } else {
            Direction::Forth
        };
        let mut out = Vec::new();
        let undone = process.client.step(view, direction, &mut out);
        let Some(node) = process.client.node_mut() else {
            return false;
        };
        for (id, old) in &before {
            let new = text_of(node, *id);
            if *old != new {
                let group = undone.as_ref().ok().and_then(|undone| undone.group);
                let gone = if is_undo {
                    gone(old, &new)
                } else {
                    String::new()
                };
                let found = self.oracles.typed.undo(&gone, group);
                self.oracles.take(found);
                self.oracles.typed.turn(old, &new);
            }
        }
        for id in undone.iter().flat_map(|undone| &undone.elsewhere) {
            // Who leads it decides what goes, and what comes back.
            let text = text_of(node, *id);
            self.oracles.typed.remove(&text);
            self.oracles.typed.put_again(&text);
        }
        let _ = node.refresh_tags().is_ok();
        process.typing = None;
        self.say(process, out);
        self.flush_soon(process, 700);
        undone.is_ok_and(|undone| undone.group.is_some())
    }

    /// Goes on with what waits: typed where this screen leads by now, else asked for or proposed.
    pub(super) fn go_on_waiting(&mut self, process: &mut Process) {
        while process.sent.is_none() && !process.client.is_recovering() {
            let (Some(next), Some(node)) =
                (process.waiting.front().cloned(), process.client.node())
            else {
                return;
            };
            let shard = Shard::Buffer(next.buffer);
            let shown = node.state().buffer_of(next.view);
            let change = if next.is_recovery || shown != Some(next.buffer) {
                recovery("/w/", &next.name, &next.text)
            } else if node.leads(shard) {
                process.waiting.pop_front();
                self.type_here(process, (next.view, next.buffer), &next.text);
                continue;
            } else if process.client.is_leading() {
                return self.ask_for(process, next.buffer);
            } else {
                let at = Span::at(dot_of(node, next.view).q1);
                let base = node.state().buffer(next.buffer).map(Buffer::version);
                let splices = vec![apex_core::edit::Splice::new(at, next.text.as_str())];
                let base = base.unwrap_or_default();
                Change::Edit {
                    buffer: next.buffer,
                    base,
                    splices,
                }
            };
            let Some((id, message)) = process.client.propose(vec![change]) else {
                return;
            };
            process.waiting.pop_front();
            process.sent = Some((id, next));
            self.say(process, vec![message]);
        }
    }

    /// Asks for a text that a tool or the daemon leads.
    fn ask_for(&mut self, process: &mut Process, buffer: BufferId) {
        let shard = Shard::Buffer(buffer);
        let lease = process
            .client
            .node()
            .and_then(|node| node.log().lease(shard));
        let wish = (buffer, lease.unwrap_or_default().epoch);
        if process.wished != Some(wish) {
            process.wished = Some(wish);
            let (shards, steal) = (vec![shard], false);
            self.say(process, vec![ClientMessage::LeaseRequest { shards, steal }]);
        }
    }

    pub(super) fn take_event(&mut self, process: &mut Process, event: ClientEvent) {
        match event {
            ClientEvent::Welcome => {
                self.go_on_as_before(process);
                process.typing = None;
                process.focus = process.client.node().and_then(Node::focus_view);
            }
            ClientEvent::Resumed => self.go_on_as_before(process),
            ClientEvent::Reply { request, answer } => {
                self.oracles.told.answer(process.id, request);
                let asked = process.requests.remove(&request);
                if let (Some(Request::Open), Ok(Answer::Opened { buffer, .. })) = (asked, answer) {
                    self.show(process, buffer);
                }
            }
            ClientEvent::Decided { id, outcome } => {
                let Some(author) = process.client.node().map(Node::attachment) else {
                    return;
                };
                if process.kind == AttachmentKind::Tool {
                    self.tool_decided(process, (author, id), &outcome);
                } else {
                    self.typed_decided(process, id, &outcome);
                }
            }
            ClientEvent::FollowUp(FollowUp::Put { buffer, .. }) => {
                self.put_file(process, buffer);
            }
            ClientEvent::FollowUp(FollowUp::Get(buffer)) => {
                self.get_file(process, buffer);
            }
            ClientEvent::Diverged(divergence) => {
                let found = hold(false, "equal entries make equal states (I14)", || {
                    format!("process {}: {divergence:?}", process.id)
                });
                self.oracles.take(found);
            }
            ClientEvent::Error(error) => {
                let id = process.id;
                self.trace
                    .note(self.now_us, &[], || format!("process {id} hears: {error}"));
            }
            ClientEvent::Overtaken { splices, .. } => {
                for splice in splices {
                    self.oracles.typed.group(&splice.text, None);
                }
            }
            ClientEvent::Entries(_)
            | ClientEvent::LeadershipChanged
            | ClientEvent::Recovered(_)
            | ClientEvent::FollowUp(_) => {}
        }
    }

    fn show(&mut self, process: &mut Process, buffer: BufferId) {
        if !process.client.is_leading() {
            return;
        }
        if let Some(node) = process.client.node_mut()
            && node.state().buffer(buffer).is_some()
            && let Ok(landed) = node.show(buffer, "")
        {
            process.focus = landed.window.map(ViewId::Body);
        }
        self.flush_soon(process, 200);
    }

    fn typed_decided(
        &mut self,
        process: &mut Process,
        id: apex_core::ids::ProposalId,
        outcome: &Outcome,
    ) {
        if process.sent.as_ref().is_none_or(|(sent, _)| *sent != id) {
            return;
        }
        let Some((_, mut waiting)) = process.sent.take() else {
            return;
        };
        match outcome {
            Ok(_) => {}
            Err(Refusal::Retry(_)) => process.waiting.push_front(waiting),
            // Its user reads it on his screen, and that it is nowhere else.
            Err(_) if waiting.is_recovery => self.oracles.typed.excuse(&waiting.text),
            Err(_) => {
                waiting.is_recovery = true;
                process.waiting.push_front(waiting);
            }
        }
    }
}

/// Returns the window that the user works in: mostly where he was.
fn choose(process: &Process, random: &mut Random) -> Option<(WindowId, BufferId)> {
    let node = process.client.node()?;
    let windows: Vec<(WindowId, BufferId)> = node
        .state()
        .windows()
        .filter_map(|(id, window)| match window.body {
            Body::Buffer(body) => Some((id, body)),
            Body::Term(_) => None,
        })
        // A board is its tool's: what is typed there goes with the next one.
        .filter(|(_, body)| {
            let buffer = node.state().buffer(*body);
            buffer.is_some_and(|buffer| buffer.name() != BOARD)
        })
        .collect();
    let here = process.focus.and_then(ViewId::window);
    let here = windows.iter().find(|(id, _)| Some(*id) == here).copied();
    here.filter(|_| random.percent(70))
        .or_else(|| random.pick(&windows))
}

fn index(q: u64) -> usize {
    usize::try_from(q).unwrap_or(usize::MAX)
}
