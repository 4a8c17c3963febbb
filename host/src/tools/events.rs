//! What an entry of the log says to a tool.

use std::sync::Arc;

use apex_core::buffer::Effect;
use apex_core::edit::Splice;
use apex_core::entry::{
    BufferKind, BufferOp, Exec, LayoutOp, MetaOp, Op, SaveCause, TermLine, TermOp,
};
use apex_core::ids::{AttachmentId, BufferId, NoticeId, Seq, Shard, ViewId, WindowId};
use apex_core::log::Record;
use apex_core::state::State;
use apex_core::text::Span;

use super::bindings::wit::types as wit;

/// One entry as tools are told of it. Shared by all tools of a session.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its shard.
    pub shard: Shard,
    /// Its position there.
    pub seq: Seq,
    /// What it says, made once for all tools; none when it says nothing to tools.
    first: Option<Arc<wit::Entry>>,
    /// More of it: an Undo has several steps.
    rest: Vec<Arc<wit::Entry>>,
    /// The buffer's name, when the entry may have changed it; none also for a tag's.
    pub name: Option<String>,
    /// The shard that ended with it.
    pub gone: Option<Shard>,
    /// What was executed, for tools that offer commands.
    pub exec: Option<Box<Exec>>,
    /// The notice that began with it, and whose it is.
    pub notice: Option<(AttachmentId, NoticeId)>,
    /// Who made it.
    author: u64,
    /// Bytes of text in it.
    pub len: usize,
}

impl Told {
    /// Returns what a record says, given what it did to a text and the state right after it.
    /// `name` is how its shard is written.
    #[must_use]
    pub fn new(record: &Record, name: &str, (effect, state): (&Effect, &State)) -> Self {
        let entry = &record.entry;
        let context = Context {
            record,
            state,
            name,
        };
        let (mut first, mut rest) = (None, Vec::new());
        let mut say = |event| {
            let said = Arc::new(context.entry(event));
            match first {
                None => first = Some(said),
                Some(_) => rest.push(said),
            }
        };
        match (&entry.op, record.shard) {
            (Op::Buffer(op), Shard::Buffer(id)) => {
                buffer_events(id, (op, effect), &context, &mut say);
            }
            (Op::Layout(LayoutOp::Focus(Some(view))), _) => {
                let window = view.window().map(WindowId::raw);
                window.map(wit::Event::Focused).into_iter().for_each(say);
            }
            (Op::Meta(op), _) => meta_event(op, state).into_iter().for_each(say),
            (Op::Term(TermOp::Scrolled(lines)), Shard::Term(id)) => {
                let text = lines.iter().map(line_text).collect();
                say(wit::Event::Term(wit::TermOutput {
                    term: id.raw(),
                    text,
                }));
            }
            _ => {}
        }
        Self {
            shard: record.shard,
            seq: entry.seq,
            first,
            rest,
            name: renamed(&entry.op, record.shard, state),
            gone: match &entry.op {
                Op::Meta(MetaOp::ShardDel(shard)) => Some(*shard),
                _ => None,
            },
            exec: match &entry.op {
                Op::Meta(MetaOp::Exec(exec)) => Some(exec.clone()),
                _ => None,
            },
            notice: match &entry.op {
                Op::Meta(MetaOp::Notify { notice, owner, .. }) => Some((*owner, *notice)),
                _ => None,
            },
            author: context.author(),
            len: record.bytes.len(),
        }
    }

    /// Returns what it says as entries for a tool.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<wit::Entry>> {
        self.first.iter().chain(&self.rest)
    }

    /// Returns a `reset` of the entry's own shard in its place.
    pub(super) fn reset(&self) -> wit::Entry {
        wit::Entry {
            shard: self.shard.to_string(),
            seq: self.seq.raw(),
            author: self.author,
            event: wit::Event::Reset(vec![self.shard.to_string()]),
        }
    }
}

struct Context<'a> {
    record: &'a Record,
    state: &'a State,
    name: &'a str,
}

impl Context<'_> {
    fn entry(&self, event: wit::Event) -> wit::Entry {
        wit::Entry {
            shard: self.name.to_owned(),
            seq: self.record.entry.seq.raw(),
            author: self.author(),
            event,
        }
    }

    fn author(&self) -> u64 {
        let entry = &self.record.entry;
        let origin = entry.origin.map(|origin| origin.author);
        origin.unwrap_or(entry.attachment).raw()
    }
}

/// Returns the new name of a buffer that is no tag, where an entry may have given it one.
fn renamed(op: &Op, shard: Shard, state: &State) -> Option<String> {
    let (Op::Buffer(op), Shard::Buffer(id)) = (op, shard) else {
        return None;
    };
    match op {
        BufferOp::Create { .. }
        | BufferOp::Name { .. }
        | BufferOp::Undo { .. }
        | BufferOp::Redo { .. } => {
            let buffer = state
                .buffer(id)
                .filter(|buffer| buffer.kind() != BufferKind::Tag)?;
            Some(buffer.name().to_owned())
        }
        _ => None,
    }
}

fn buffer_events(
    id: BufferId,
    (op, effect): (&BufferOp, &Effect),
    context: &Context<'_>,
    say: &mut impl FnMut(wit::Event),
) {
    let event = match op {
        BufferOp::Edit { splices, group, .. } => {
            let group = group.map_or(0, apex_core::ids::GroupId::raw);
            let steps = std::slice::from_ref(splices);
            return edits(id, (steps, group, false), context, say);
        }
        BufferOp::Load { text } => {
            let end = context
                .state
                .buffer(id)
                .map_or(0, |buffer| buffer.text().len());
            let at = Span::at(end.saturating_sub(text.chars().count() as u64));
            let steps = [vec![Splice::new(at, text.clone())]];
            return edits(id, (&steps, 0, false), context, say);
        }
        BufferOp::Undo { group, .. } | BufferOp::Redo { group, .. } => {
            let Effect::Steps(steps) = effect else {
                return;
            };
            return edits(id, (steps, group.raw(), true), context, say);
        }
        BufferOp::Name { name, .. } => wit::Event::Named(wit::Named {
            buffer: id.raw(),
            name: name.clone(),
        }),
        BufferOp::Saved(saved) => wit::Event::Saved(wit::Saved {
            buffer: id.raw(),
            version: saved.version.raw(),
            path: saved.path.clone(),
            cause: match saved.cause {
                SaveCause::Put => 0,
                SaveCause::Tool => 1,
                SaveCause::PutAll => 2,
                SaveCause::Load => 3,
            },
        }),
        BufferOp::Select(dot) => {
            return selection(dot.view, dot.at).into_iter().for_each(say);
        }
        BufferOp::ViewAdd(ViewId::Body(window)) => opened(id, window.raw(), true),
        BufferOp::ViewDel(ViewId::Body(window)) => opened(id, window.raw(), false),
        BufferOp::Create { .. }
        | BufferOp::Origin { .. }
        | BufferOp::ViewAdd(_)
        | BufferOp::ViewDel(_)
        | BufferOp::Annotate { .. }
        | BufferOp::Setting { .. }
        | BufferOp::Forget(_) => return,
    };
    say(event);
}

/// Says one event for each version that an entry made.
fn edits(
    id: BufferId,
    (steps, group, undo): (&[Vec<Splice>], u64, bool),
    context: &Context<'_>,
    say: &mut impl FnMut(wit::Event),
) {
    let last = context
        .state
        .buffer(id)
        .map_or(0, |buffer| buffer.version().raw());
    let first = last.saturating_sub(steps.len() as u64);
    let by_proposal = context.record.entry.origin.is_some();
    let edited = |(version, splices): (u64, &Vec<Splice>)| {
        wit::Event::Edited(wit::Edited {
            buffer: id.raw(),
            before: version,
            after: version + 1,
            splices: splices.iter().map(splice).collect(),
            group,
            undo,
            by_proposal,
        })
    };
    (first..).zip(steps).map(edited).for_each(say);
}

fn splice(splice: &Splice) -> wit::Splice {
    wit::Splice {
        at: span(splice.at),
        text: splice.text.clone(),
    }
}

/// Returns a span as tools see it.
pub(super) const fn span(span: Span) -> wit::Span {
    wit::Span {
        q0: span.q0,
        q1: span.q1,
    }
}

fn opened(buffer: BufferId, window: u64, is_open: bool) -> wit::Event {
    wit::Event::Opened(wit::Opened {
        buffer: buffer.raw(),
        window,
        is_open,
    })
}

/// Returns a selection of a window's text; none for the tags of columns and the top row.
fn selection(view: ViewId, at: Span) -> Option<wit::Event> {
    let (window, part) = match view {
        ViewId::Body(window) => (window, 0),
        ViewId::Tag(window) => (window, 1),
        ViewId::Column(_) | ViewId::Top => return None,
    };
    Some(wit::Event::Selected(wit::Selection {
        window: window.raw(),
        part,
        at: span(at),
    }))
}

fn meta_event(op: &MetaOp, state: &State) -> Option<wit::Event> {
    let other = |kind: &str, body: serde_json::Value| {
        Some(wit::Event::Other(wit::Other {
            kind: kind.to_owned(),
            schema: 1,
            body: body.to_string(),
        }))
    };
    match op {
        MetaOp::Setting { key, value } => Some(wit::Event::Setting((
            key.clone(),
            value.clone().unwrap_or_default(),
        ))),
        MetaOp::Exec(exec) => Some(wit::Event::Executed(executed(exec, state))),
        MetaOp::Attach { id, name, .. } => other(
            "attach",
            serde_json::json!({ "id": id.raw(), "name": name }),
        ),
        MetaOp::Detach(id) => other("detach", serde_json::json!({ "id": id.raw() })),
        MetaOp::Label(label) => other("label", serde_json::json!({ "label": label })),
        _ => None,
    }
}

/// Returns what was executed, for `commands.run` and as an event.
pub(super) fn executed(exec: &Exec, state: &State) -> wit::Executed {
    let window = exec.view.window();
    let body = window.map(ViewId::Body);
    let dot = body.and_then(|view| Some(state.buffer(state.buffer_of(view)?)?.view(view)?.dot));
    wit::Executed {
        call: exec.id.raw(),
        asked_by: exec.asked_by.raw(),
        window: window.map_or(0, WindowId::raw),
        buffer: exec.buffer.raw(),
        version: exec.version.raw(),
        at: span(exec.at),
        text: exec.text.clone(),
        body_selection: span(dot.unwrap_or_default()),
        argument: exec.argument.clone(),
        argument_address: String::new(),
    }
}

/// Returns a terminal's line as text with its line feed; a wrapped line goes on in the next.
pub(super) fn line_text(line: &TermLine) -> String {
    let mut text: String = line.runs.iter().map(|run| run.text.as_str()).collect();
    if !line.is_wrapped {
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use apex_core::entry::Saved;
    use apex_core::ids::{GroupId, Version};

    use super::super::replica::Replica;
    use super::super::testing::Script;
    use super::*;

    /// Returns what the last records say, by the replica that tools are told by.
    fn told(script: &mut Script, replica: &mut Replica) -> Vec<wit::Event> {
        let chunks = replica.apply(script.take()).unwrap();
        let told = chunks.iter().flat_map(|chunk| &chunk.told);
        let said = told.flat_map(Told::entries);
        said.map(|entry| entry.event.clone()).collect()
    }

    fn session() -> (Script, Replica) {
        let mut script = Script::new();
        script.buffer(7, "/a", "one\n");
        let mut replica = Replica::new(State::new(), &[]);
        told(&mut script, &mut replica);
        (script, replica)
    }

    #[test]
    fn an_edit_names_its_versions_and_an_undo_each_step() {
        let (mut script, mut replica) = session();
        script.edit(7, Span::new(0, 1), "T");
        let events = told(&mut script, &mut replica);
        let [wit::Event::Edited(edited)] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!((edited.before, edited.after), (1, 2));
        assert_eq!(
            (edited.splices[0].at.q1, edited.splices[0].text.as_str()),
            (1, "T")
        );
        assert!(!edited.undo && !edited.by_proposal);
        script.buffer_op(
            7,
            BufferOp::Undo {
                group: GroupId::new(2),
                view: None,
            },
        );
        let events = told(&mut script, &mut replica);
        let [wit::Event::Edited(undone)] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!((undone.before, undone.after, undone.undo), (2, 3, true));
        assert_eq!(undone.splices[0].text, "o");
    }

    #[test]
    fn a_loaded_piece_is_an_insertion_at_the_end() {
        let (mut script, mut replica) = session();
        script.buffer_op(
            7,
            BufferOp::Load {
                text: "two\n".to_owned(),
            },
        );
        let events = told(&mut script, &mut replica);
        let [wit::Event::Edited(loaded)] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!((loaded.splices[0].at.q0, loaded.splices[0].at.q1), (4, 4));
    }

    #[test]
    fn a_put_is_told_with_its_cause() {
        let (mut script, mut replica) = session();
        for (cause, expected) in [
            (SaveCause::Put, 0),
            (SaveCause::Tool, 1),
            (SaveCause::PutAll, 2),
            (SaveCause::Load, 3),
        ] {
            script.buffer_op(
                7,
                BufferOp::Saved(Saved {
                    version: Version::new(1),
                    content: Version::new(1),
                    digest: [0; 32],
                    path: "/a".to_owned(),
                    cause,
                }),
            );
            let events = told(&mut script, &mut replica);
            let [wit::Event::Saved(saved)] = events.as_slice() else {
                panic!("{events:?}")
            };
            assert_eq!((saved.cause, saved.version), (expected, 1));
        }
    }

    #[test]
    fn windows_come_into_a_buffer_and_the_focus_moves() {
        let (mut script, mut replica) = session();
        script.window(9, 7);
        script.focus(9);
        script.buffer_op(7, BufferOp::ViewDel(ViewId::Body(WindowId::new(9))));
        let events = told(&mut script, &mut replica);
        let [
            wit::Event::Opened(come),
            wit::Event::Focused(9),
            wit::Event::Opened(gone),
        ] = events.as_slice()
        else {
            panic!("{events:?}")
        };
        assert!(come.is_open && !gone.is_open && come.buffer == 7 && come.window == 9);
    }
}
