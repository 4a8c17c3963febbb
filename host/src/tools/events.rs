//! What an entry of the log says to a tool.

use std::sync::Arc;

use apex_core::buffer::Effect;
use apex_core::bytes::Bytes;
use apex_core::edit::Splice;
use apex_core::entry::{
    BufferKind, BufferOp, Exec, LayoutOp, MetaOp, Op, SaveCause, TermLine, TermOp,
};
use apex_core::ids::{AttachmentId, BufferId, GroupId, NoticeId, Seq, Shard, ViewId, WindowId};
use apex_core::log::Record;
use apex_core::state::State;
use apex_core::text::Span;

use super::bindings::{Entry, wit::types as wit};

/// One entry as tools are told of it. Shared by all tools of a session.
///
/// An edit is put into the interface's words where a tool is told of it, and not where it is
/// replayed: what one thread makes and another takes apart costs more than making it twice.
#[derive(Clone, Debug)]
pub struct Told {
    shard: Shard,
    seq: Seq,
    author: AttachmentId,
    bytes_len: usize,
    what: What,
}

/// What there is to tell.
#[derive(Clone, Debug)]
enum What {
    /// Typing: all of it lies here, one behind the other, so that the thread of a tool need not
    /// fetch pieces that another one wrote all over the memory.
    Key(Key),
    /// Any other edit, with the record of its splices.
    Edit(Edited, Arc<Record>),
    /// Everything else.
    More(Box<More>),
}

/// An edit of one place by a short text.
#[derive(Clone, Debug)]
struct Key {
    at: Span,
    text: Bytes,
    /// What the interface says of the edit, but for its splice.
    edited: Edited,
}

/// An edit without its splices.
#[derive(Clone, Copy, Debug)]
struct Edited {
    buffer: BufferId,
    /// The version that it led to.
    version: u64,
    group: u64,
    is_undo: bool,
    is_by_proposal: bool,
}

/// What an entry that is no edit says and leads to.
#[derive(Clone, Debug)]
struct More {
    /// What it says, made once for all tools. An Undo has several steps.
    said: Vec<Arc<Entry>>,
    name: Option<String>,
    gone: Option<Shard>,
    exec: Option<Box<Exec>>,
    notice: Option<(AttachmentId, NoticeId)>,
}

impl Told {
    /// Returns what a record says, given what it did to a text and the state right after it.
    #[must_use]
    pub fn new(record: &Arc<Record>, (effect, state): (&Effect, &State)) -> Self {
        let what = match (&record.entry.op, record.shard) {
            (Op::Buffer(BufferOp::Edit { splices, group, .. }), Shard::Buffer(id)) => {
                let edited = Edited::new(id, version(state, id), *group, record);
                match splices.as_slice() {
                    [splice] if splice.text.len() <= Bytes::INLINE_LEN_MAX => What::Key(Key {
                        at: splice.at,
                        text: splice.text.as_bytes().into(),
                        edited,
                    }),
                    _ => What::Edit(edited, Arc::clone(record)),
                }
            }
            _ => What::More(Box::new(More::new(record, (effect, state)))),
        };
        Self {
            shard: record.shard,
            seq: record.entry.seq,
            author: author(record),
            bytes_len: record.bytes.len(),
            what,
        }
    }

    /// Returns its shard.
    #[must_use]
    pub const fn shard(&self) -> Shard {
        self.shard
    }

    /// Returns how many bytes are in it.
    #[must_use]
    pub const fn bytes_len(&self) -> usize {
        self.bytes_len
    }

    fn more(&self) -> Option<&More> {
        match &self.what {
            What::More(more) => Some(more),
            What::Key(_) | What::Edit(..) => None,
        }
    }

    /// Returns the buffer's name, when the entry may have changed it; none also for a tag's.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.more()?.name.as_deref()
    }

    /// Returns the shard that ended with it.
    #[must_use]
    pub fn gone(&self) -> Option<Shard> {
        self.more()?.gone
    }

    /// Returns what was executed, for tools that offer commands.
    #[must_use]
    pub fn exec(&self) -> Option<&Exec> {
        self.more()?.exec.as_deref()
    }

    /// Returns the notice that began with it, and whose it is.
    #[must_use]
    pub fn notice(&self) -> Option<(AttachmentId, NoticeId)> {
        self.more()?.notice
    }

    /// Returns what it says as entries for a tool. `name` is how its shard is written.
    pub(super) fn entries(&self, name: &Arc<str>) -> impl Iterator<Item = Arc<Entry>> {
        let event = match &self.what {
            What::Key(key) => Some(key.event()),
            What::Edit(edited, record) => match &record.entry.op {
                Op::Buffer(BufferOp::Edit { splices, .. }) => Some(edited.event(splices)),
                _ => None,
            },
            What::More(_) => None,
        };
        let edit = event.map(|event| Arc::new(self.entry(name, event)));
        let more = self.more().into_iter();
        let more = more.flat_map(|more| more.said.iter().cloned());
        edit.into_iter().chain(more)
    }

    fn entry(&self, name: &Arc<str>, event: wit::Event) -> Entry {
        entry(name, (self.seq, self.author), event)
    }

    /// Returns a `reset` of the entry's own shard in its place.
    pub(super) fn reset(&self) -> Entry {
        let shard = self.shard.to_string();
        let event = wit::Event::Reset(vec![shard.clone()]);
        self.entry(&shard.into(), event)
    }
}

impl Key {
    fn event(&self) -> wit::Event {
        let splice = wit::Splice {
            at: span(self.at),
            // It was a text before.
            text: String::from_utf8_lossy(&self.text).into_owned(),
        };
        self.edited.replacing(vec![splice])
    }
}

impl Edited {
    fn new(buffer: BufferId, version: u64, group: Option<GroupId>, record: &Record) -> Self {
        Self {
            buffer,
            version,
            group: group.map_or(0, GroupId::raw),
            is_undo: false,
            is_by_proposal: record.entry.origin.is_some(),
        }
    }

    /// Returns it as an event with these splices.
    fn event(self, splices: &[Splice]) -> wit::Event {
        self.replacing(splices.iter().map(splice).collect())
    }

    fn replacing(self, splices: Vec<wit::Splice>) -> wit::Event {
        wit::Event::Edited(wit::Edited {
            buffer: self.buffer.raw(),
            before: self.version.saturating_sub(1),
            after: self.version,
            splices,
            group: self.group,
            undo: self.is_undo,
            by_proposal: self.is_by_proposal,
        })
    }
}

impl More {
    fn new(record: &Record, (effect, state): (&Effect, &State)) -> Self {
        let op = &record.entry.op;
        let name: Arc<str> = record.shard.to_string().into();
        let mut said = Vec::new();
        let mut say = |event| {
            let from = (record.entry.seq, author(record));
            said.push(Arc::new(entry(&name, from, event)));
        };
        match (op, record.shard) {
            (Op::Buffer(op), Shard::Buffer(id)) => {
                buffer_events(id, (op, effect), (record, state), &mut say);
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
            said,
            name: renamed(op, record.shard, state),
            gone: match op {
                Op::Meta(MetaOp::ShardDel(shard)) => Some(*shard),
                _ => None,
            },
            exec: match op {
                Op::Meta(MetaOp::Exec(exec)) => Some(exec.clone()),
                _ => None,
            },
            notice: match op {
                Op::Meta(MetaOp::Notify { notice, owner, .. }) => Some((*owner, *notice)),
                _ => None,
            },
        }
    }
}

fn entry(name: &Arc<str>, (seq, author): (Seq, AttachmentId), event: wit::Event) -> Entry {
    Entry {
        shard: Arc::clone(name),
        seq: seq.raw(),
        author: author.raw(),
        event,
    }
}

/// Returns who wanted an entry.
fn author(record: &Record) -> AttachmentId {
    let entry = &record.entry;
    entry
        .origin
        .map_or(entry.attachment, |origin| origin.author)
}

fn version(state: &State, id: BufferId) -> u64 {
    state.buffer(id).map_or(0, |buffer| buffer.version().raw())
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
    context: (&Record, &State),
    say: &mut impl FnMut(wit::Event),
) {
    let event = match op {
        BufferOp::Load { text } => {
            let buffer = context.1.buffer(id);
            let end = buffer.map_or(0, |buffer| buffer.text().len());
            let at = Span::at(end.saturating_sub(text.chars().count() as u64));
            let steps = [vec![Splice::new(at, text.clone())]];
            return edits(id, (&steps, None, false), context, say);
        }
        BufferOp::Undo { group, .. } | BufferOp::Redo { group, .. } => {
            let Effect::Steps(steps) = effect else {
                return;
            };
            return edits(id, (steps, Some(*group), true), context, say);
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
        BufferOp::Edit { .. }
        | BufferOp::Create { .. }
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
    (steps, group, is_undo): (&[Vec<Splice>], Option<GroupId>, bool),
    (record, state): (&Record, &State),
    say: &mut impl FnMut(wit::Event),
) {
    let first = version(state, id).saturating_sub(steps.len() as u64) + 1;
    for (version, splices) in (first..).zip(steps) {
        let edited = Edited {
            is_undo,
            ..Edited::new(id, version, group, record)
        };
        say(edited.event(splices));
    }
}

fn splice(splice: &Splice) -> wit::Splice {
    wit::Splice {
        at: span(splice.at),
        text: splice.text.to_string(),
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
    use apex_core::ids::Version;

    use super::super::replica::Replica;
    use super::super::testing::Script;
    use super::*;

    /// Returns what the last records say, by the replica that tools are told by.
    fn told(script: &mut Script, replica: &mut Replica) -> Vec<wit::Event> {
        let chunks = replica.apply(script.take()).unwrap();
        let told = chunks.iter().flat_map(|chunk| &chunk.told);
        let name: Arc<str> = "buffer/7".into();
        let said = told.flat_map(|told| told.entries(&name));
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
