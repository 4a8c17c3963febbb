//! Entries of a log and the operations in them, one enum per kind of shard.
//!
//! Postcard writes enums by index and structs by order: variants and fields are only ever added at
//! the end of an enum, and a shipped operation never changes its meaning; a new meaning is a new
//! operation.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::edit::Splices;
use crate::ids::{
    AttachmentId, BufferId, ColumnId, Epoch, ExecId, GroupId, NoticeId, ProcessId, ProposalId,
    RuleId, Seq, SessionId, Shard, TermId, Version, ViewId, WindowId,
};
use crate::limits;
use crate::text::Span;

/// Version of `apply`: mixed into every state hash, and told in the first frame.
pub const APPLY_VERSION: u32 = 3;

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Position in the shard, from 1, without gaps.
    pub seq: Seq,
    /// Who sequenced it.
    pub attachment: AttachmentId,
    /// Under which fence.
    pub epoch: Epoch,
    /// Whose accepted proposal it is part of, if any.
    pub origin: Option<Origin>,
    /// What it does.
    pub op: Op,
}

/// The proposal behind an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// Who proposed.
    pub author: AttachmentId,
    /// Which of the author's proposals.
    pub id: ProposalId,
}

/// Hash of an entry's bytes and of the chain before it, so that logs compare in constant time.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChainHash(pub [u8; 32]);

impl ChainHash {
    /// Returns the hash after an entry of these bytes.
    #[must_use]
    pub fn extend(self, entry_bytes: &[u8]) -> Self {
        // As the key and not as input: most entries then fit one block of the hash function.
        Self(*blake3::keyed_hash(&self.0, entry_bytes).as_bytes())
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An operation on one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// On the metalog.
    Meta(MetaOp),
    /// On the layout.
    Layout(LayoutOp),
    /// On a buffer.
    Buffer(BufferOp),
    /// On a window.
    Window(WindowOp),
    /// On a terminal.
    Term(TermOp),
}

impl Op {
    /// Returns whether the operation belongs on a shard of this kind.
    #[must_use]
    pub const fn fits(&self, shard: Shard) -> bool {
        matches!(
            (self, shard),
            (Self::Meta(_), Shard::Meta)
                | (Self::Layout(_), Shard::Layout)
                | (Self::Buffer(_), Shard::Buffer(_))
                | (Self::Window(_), Shard::Window(_))
                | (Self::Term(_), Shard::Term(_))
        )
    }

    /// Returns a text of the operation that is longer than it may be in a new entry: what it is,
    /// and the most bytes of it. An entry that is in a log already is applied whatever it holds.
    #[must_use]
    pub fn too_long(&self) -> Option<(&'static str, usize)> {
        let name = |name: &String| (name.len(), "the name", limits::NAME_LEN_MAX);
        let key = |key: &String| (key.len(), "the name of the setting", limits::NAME_LEN_MAX);
        let (len, what, most) = match self {
            Self::Buffer(
                BufferOp::Create { name: text, .. } | BufferOp::Name { name: text, .. },
            ) => name(text),
            Self::Buffer(BufferOp::Annotate { layer, .. }) => name(layer),
            Self::Buffer(BufferOp::Load { text }) => {
                (text.len(), "the text to load", limits::PIECE_LEN_MAX)
            }
            Self::Buffer(BufferOp::Setting { key: text, .. })
            | Self::Window(WindowOp::Setting { key: text, .. })
            | Self::Meta(MetaOp::Setting { key: text, .. }) => key(text),
            Self::Meta(MetaOp::Label(text) | MetaOp::Attach { name: text, .. }) => name(text),
            Self::Meta(MetaOp::Notify { text, .. }) => {
                (text.len(), "the notice", limits::MESSAGE_LEN_MAX)
            }
            _ => return None,
        };
        (len > most).then_some((what, most))
    }
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BufferKind {
    /// A file, or text that may become one.
    File,
    /// A directory listing; its name ends in a slash.
    Directory,
    /// Never modified, never put: `+Errors`, guides, boards of tools.
    Scratch,
    /// A tag of a window, a column or the top row.
    Tag,
}

/// Why a file was written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SaveCause {
    /// The user's Put.
    Put,
    /// A put in a tool's proposal.
    Tool,
    /// Putall.
    PutAll,
    /// The text was read from the file.
    Load,
}

/// What a buffer's text is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The version that was written or read.
    pub version: Version,
    /// Which content that version had: the version at which it first arose.
    pub content: Version,
    /// blake3 of the file's bytes.
    pub digest: [u8; 32],
    /// The file's absolute path.
    pub path: String,
    /// Why.
    pub cause: SaveCause,
}

/// A selection that an operation sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dot {
    /// Of which view.
    pub view: ViewId,
    /// In positions after the operation.
    pub at: Span,
}

/// One annotated span of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// Where; edits move it as they move views.
    pub at: Span,
    /// A style name of the theme; empty for none.
    pub style: String,
    /// 0 style only, 1 hint, 2 information, 3 warning, 4 error.
    pub severity: u8,
    /// What it says; may be empty.
    pub message: String,
}

/// Operations on a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BufferOp {
    /// First entry of the shard.
    Create {
        /// What it is for.
        kind: BufferKind,
        /// Its name: an absolute path, or empty.
        name: String,
    },
    /// Appends text read from the file. No undo, no view moves, the buffer stays clean.
    Load {
        /// At most [`limits::PIECE_LEN_MAX`] bytes.
        text: String,
    },
    /// Changes the text, as part of an undo group.
    Edit {
        /// Ordered, disjoint, in positions of the version before.
        splices: Splices,
        /// Its step of undo; `None` is not undoable (tags, `+Errors`).
        group: Option<GroupId>,
        /// The selection of the view that typed, if any.
        dot: Option<Dot>,
    },
    /// Undoes the latest group, which must be `group`.
    Undo {
        /// The group on top of the history.
        group: GroupId,
        /// Which view's selection goes to what was touched last.
        view: Option<ViewId>,
    },
    /// Redoes the group undone last, which must be `group`.
    Redo {
        /// The group on top of the undone ones.
        group: GroupId,
        /// Which view's selection goes to what was touched last.
        view: Option<ViewId>,
    },
    /// Sets a view's selection.
    Select(Dot),
    /// Sets the position at which a view's first visible line begins.
    Origin {
        /// The view.
        view: ViewId,
        /// The position.
        at: u64,
    },
    /// Adds a view with an empty selection at the start.
    ViewAdd(ViewId),
    /// Removes a view.
    ViewDel(ViewId),
    /// Renames the buffer; a step of undo of its own group.
    Name {
        /// The new name.
        name: String,
        /// Its step of undo.
        group: Option<GroupId>,
    },
    /// The file on disk holds this version.
    Saved(Saved),
    /// Replaces one owner's layer of annotations; an empty list removes it.
    Annotate {
        /// Whose; gone when it detaches.
        owner: AttachmentId,
        /// Which of the owner's layers.
        layer: String,
        /// In order of `q0`.
        spans: Vec<Annotation>,
    },
    /// Sets or, with `None`, removes a setting of the buffer (`tab`, `indent`, `read-only`).
    Setting {
        /// Its key.
        key: String,
        /// Its value.
        value: Option<String>,
    },
    /// Drops what an attachment that left owned here: annotations, proposal ids. An entry of the
    /// buffer, not an effect of Detach, because two shards have no common order.
    Forget(AttachmentId),
}

/// What a window shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// A text.
    Buffer(BufferId),
    /// A terminal.
    Term(TermId),
}

/// Operations on a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WindowOp {
    /// First entry of the shard.
    Create {
        /// The buffer of its tag.
        tag: BufferId,
        /// What it shows.
        body: Body,
    },
    /// Shows something else.
    Body(Body),
    /// Sets or, with `None`, removes a setting of the window (`owner`, `scroll`).
    Setting {
        /// Its key.
        key: String,
        /// Its value.
        value: Option<String>,
    },
}

/// Operations on the layout. Weights are relative heights or widths; only their ratios count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayoutOp {
    /// First entry of the shard.
    Create {
        /// The buffer of the top row.
        top: BufferId,
    },
    /// Adds a column.
    ColumnAdd {
        /// Its id.
        column: ColumnId,
        /// The buffer of its tag.
        tag: BufferId,
        /// Its index, from 0; past the end is the end.
        index: u32,
        /// Its width.
        weight: u32,
    },
    /// Removes a column that has no windows.
    ColumnDel(ColumnId),
    /// Moves a column to an index.
    ColumnMove {
        /// Which.
        column: ColumnId,
        /// Its index afterwards.
        index: u32,
    },
    /// Puts a window into a column.
    WindowAdd {
        /// Which; it is in no column yet.
        window: WindowId,
        /// Where.
        column: ColumnId,
        /// Its index, from 0; past the end is the end.
        index: u32,
        /// Its height.
        weight: u32,
    },
    /// Takes a window out of its column.
    WindowDel(WindowId),
    /// Moves a window to an index of a column.
    WindowMove {
        /// Which.
        window: WindowId,
        /// To where.
        column: ColumnId,
        /// Its index afterwards.
        index: u32,
        /// Its height.
        weight: u32,
    },
    /// Sets widths of columns.
    ColumnWeights(Vec<(ColumnId, u32)>),
    /// Sets heights of windows; 0 shows the tag alone.
    WindowWeights(Vec<(WindowId, u32)>),
    /// Sorts the windows of a column into this order; it names each of them once.
    Sort {
        /// Which.
        column: ColumnId,
        /// The order.
        windows: Vec<WindowId>,
    },
    /// Says which view has the keyboard.
    Focus(Option<ViewId>),
}

/// One cell run of a terminal line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermRun {
    /// Its text; wide characters take two cells.
    pub text: String,
    /// Foreground, background and attributes, packed as the terminal issue defines.
    pub style: u64,
}

/// One line of a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermLine {
    /// Its runs, left to right.
    pub runs: Vec<TermRun>,
    /// Whether it continues on the next line.
    pub is_wrapped: bool,
}

/// Operations on a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TermOp {
    /// First entry of the shard.
    Create {
        /// Columns.
        columns: u16,
        /// Rows.
        rows: u16,
        /// The command it runs.
        command: String,
    },
    /// Sets its size.
    Resize {
        /// Columns.
        columns: u16,
        /// Rows.
        rows: u16,
    },
    /// Replaces rows of the screen.
    Rows {
        /// The first, from 0.
        first: u16,
        /// The new lines.
        lines: Vec<TermLine>,
    },
    /// Lines that scrolled off the top, oldest first.
    Scrolled(Vec<TermLine>),
    /// Where the cursor is.
    Cursor {
        /// Row, from 0.
        row: u16,
        /// Column, from 0.
        column: u16,
        /// Whether it shows.
        is_visible: bool,
    },
    /// Sets the mode bits, as the terminal issue defines.
    Modes(u64),
    /// Sets the title.
    Title(String),
    /// Sets the working directory.
    Cwd(String),
    /// Marks a prompt at an absolute line.
    Prompt(u64),
    /// Rings.
    Bell,
    /// The process ended.
    Exit {
        /// Its exit code, or 128 plus the signal.
        code: i32,
    },
}

/// What a party is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AttachmentKind {
    /// A user interface; it may lead.
    Ui,
    /// A tool or a command; it proposes.
    Tool,
}

/// Limits that `apply` obeys, written once into a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyLimits {
    /// Undo bytes per buffer.
    pub undo_len: u64,
    /// Annotation spans per layer.
    pub annotation_count: u64,
    /// Scrollback lines per terminal.
    pub scrollback_count: u64,
}

/// What was executed or looked up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Its id.
    pub id: ExecId,
    /// Who asked.
    pub asked_by: AttachmentId,
    /// In which view.
    pub view: ViewId,
    /// In which buffer, at which version; readers wait for that version.
    pub buffer: BufferId,
    /// The version.
    pub version: Version,
    /// Where.
    pub at: Span,
    /// What.
    pub text: String,
    /// The argument of a chord, or empty.
    pub argument: String,
    /// Whether it is a look (B3), not a command (B2).
    pub is_look: bool,
}

/// Operations on the metalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetaOp {
    /// First entry of a session.
    Genesis {
        /// Format of the log.
        format: u32,
        /// What `apply` obeys.
        limits: ApplyLimits,
    },
    /// Second entry of a session.
    Identity(SessionId),
    /// Sets the session's label.
    Label(String),
    /// A shard begins, led by SERVER at epoch 0 unless a grant follows.
    ShardNew(Shard),
    /// A shard ends.
    ShardDel(Shard),
    /// A party joins.
    Attach {
        /// Its id.
        id: AttachmentId,
        /// What it is.
        kind: AttachmentKind,
        /// Its name: a tool's id, or the program and host of a UI.
        name: String,
    },
    /// A party leaves; what it owned goes.
    Detach(AttachmentId),
    /// A shard gets a leader.
    LeaseGrant {
        /// Which.
        shard: Shard,
        /// Who.
        to: AttachmentId,
        /// Its new fence.
        epoch: Epoch,
        /// The shard's last entry then.
        head: Seq,
        /// The chain hash there.
        chain: ChainHash,
    },
    /// Somebody asks the holder for a shard.
    LeaseRequest {
        /// Which.
        shard: Shard,
        /// Who.
        by: AttachmentId,
    },
    /// The holder gave it back.
    LeaseRelease {
        /// Which.
        shard: Shard,
        /// Its last entry.
        seq: Seq,
    },
    /// The daemon took it back.
    LeaseReclaim {
        /// Which.
        shard: Shard,
        /// The new fence, held by SERVER.
        epoch: Epoch,
        /// The shard's last entry then: later ones of the old holder were not accepted.
        head: Seq,
        /// The chain hash there.
        chain: ChainHash,
    },
    /// A request was refused.
    LeaseRefuse {
        /// Which.
        shard: Shard,
        /// Whose.
        by: AttachmentId,
    },
    /// A plumb rule.
    RuleAdd {
        /// Its id.
        rule: RuleId,
        /// Whose; gone when it detaches.
        owner: AttachmentId,
        /// The window it is for, or all.
        window: Option<WindowId>,
        /// What it matches.
        pattern: String,
        /// The port that matches go to.
        port: String,
    },
    /// Removes a plumb rule.
    RuleDel(RuleId),
    /// Sets or, with `None`, removes a setting of the session.
    Setting {
        /// Its key; `tool.NAME.KEY` for a tool.
        key: String,
        /// Its value.
        value: Option<String>,
    },
    /// Tells the user something.
    Notify {
        /// Its id.
        notice: NoticeId,
        /// Whose; gone when it detaches.
        owner: AttachmentId,
        /// 0 debug, 1 information, 2 warning, 3 error.
        level: u8,
        /// What.
        text: String,
    },
    /// Takes a notice back.
    NotifyClear(NoticeId),
    /// A process began.
    ProcStart {
        /// Its id.
        process: ProcessId,
        /// Who asked.
        owner: AttachmentId,
        /// The command.
        command: String,
    },
    /// A process ended.
    ProcExit {
        /// Which.
        process: ProcessId,
        /// Its exit code, or 128 plus the signal.
        code: i32,
    },
    /// Something was executed or looked up.
    Exec(Box<Exec>),
    /// A tool takes an execution for a time.
    Claim {
        /// Which.
        exec: ExecId,
        /// Who.
        by: AttachmentId,
        /// For how long, in milliseconds.
        ms: u32,
    },
    /// A tool asks for rights.
    GrantAsked {
        /// The tool's id.
        tool: String,
        /// sha256 of the component.
        sha256: [u8; 32],
        /// What it asks for, one line each.
        wants: Vec<String>,
    },
    /// The user decided.
    GrantDecided {
        /// The tool's id.
        tool: String,
        /// sha256 of the component.
        sha256: [u8; 32],
        /// Granted or refused.
        is_granted: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_fits_only_shards_of_its_kind() {
        let shards = [
            Shard::Meta,
            Shard::Layout,
            Shard::Buffer(BufferId::new(1)),
            Shard::Window(WindowId::new(1)),
            Shard::Term(TermId::new(1)),
        ];
        let ops = [
            Op::Meta(MetaOp::NotifyClear(NoticeId::new(1))),
            Op::Layout(LayoutOp::Focus(None)),
            Op::Buffer(BufferOp::ViewAdd(ViewId::Top)),
            Op::Window(WindowOp::Body(Body::Buffer(BufferId::new(1)))),
            Op::Term(TermOp::Bell),
        ];
        for (i, op) in ops.iter().enumerate() {
            for (j, shard) in shards.iter().enumerate() {
                assert_eq!(op.fits(*shard), i == j, "{op:?} on {shard}");
            }
        }
    }

    #[test]
    fn a_chain_depends_on_every_entry_and_their_order() {
        let start = ChainHash::default();
        let ab = start.extend(b"a").extend(b"b");
        assert_ne!(ab, start.extend(b"b").extend(b"a"));
        assert_ne!(ab, start.extend(b"ab"));
    }
}
