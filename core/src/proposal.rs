//! Changes asked for by somebody who does not lead: accepted whole or refused whole.
//!
//! Edits name the version they were computed on and are carried forward through the edits since.
//! What follows edits (put, open, look) is asked of the daemon after they landed.

mod parts;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize};

pub use self::parts::Parts;
use crate::edit::Splice;
use crate::entry::{Annotation, Origin, Saved};
use crate::ids::{
    AttachmentId, BufferId, ColumnId, GroupId, ProposalId, Version, ViewId, WindowId,
};
use crate::text::Span;

/// What several leaders do with one proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Atomicity {
    /// All or nothing; refused when more than one party leads what it changes.
    #[default]
    All,
    /// Each buffer is decided on for itself, by whoever leads it, and so is what is about no
    /// buffer. An item of the outcome has the refusal of its part.
    Each,
}

/// A change to buffers and windows, asked of whoever leads them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Who asks.
    pub author: AttachmentId,
    /// Increasing per author: a repeated id is not applied twice.
    pub id: ProposalId,
    /// What several leaders do with it.
    pub atomicity: Atomicity,
    /// In order; later edits of a buffer are in positions after the earlier ones.
    pub changes: Vec<Change>,
}

impl Proposal {
    /// Returns what the entries of this proposal carry.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        Origin {
            author: self.author,
            id: self.id,
        }
    }
}

/// One change of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Edits a buffer.
    Edit {
        /// Which.
        buffer: BufferId,
        /// The version that the positions are of; for a second edit of the same buffer in one
        /// proposal: the same version, the positions being those after the first edit.
        base: Version,
        /// Ordered and disjoint.
        splices: Vec<Splice>,
    },
    /// Sets a selection, in positions of the newest version.
    Select {
        /// Of which view.
        view: ViewId,
        /// Where; clamped to the text.
        at: Span,
    },
    /// Shows a buffer in a window, made if it has none, at an address.
    Show {
        /// Which.
        buffer: BufferId,
        /// A line number, `#n` or nothing.
        address: String,
    },
    /// Replaces a layer of the author's annotations.
    Annotate {
        /// Of which buffer.
        buffer: BufferId,
        /// The version that the positions are of.
        base: Version,
        /// Which layer.
        layer: String,
        /// Its spans; none clears it.
        spans: Vec<Annotation>,
    },
    /// Sets the text of a scratch window, found by name or made.
    Board {
        /// Its name.
        name: String,
        /// Its whole text.
        text: String,
        /// Where it is made; the last column if none.
        column: Option<ColumnId>,
    },
    /// Appends to a scratch window (`DIR/+Errors`, `+Recovered`), found by name or made.
    Append {
        /// Its name.
        name: String,
        /// What is appended.
        text: String,
    },
    /// A named segment of a window's tag; an empty text removes it.
    TagSegment {
        /// Which window.
        window: WindowId,
        /// The segment's name.
        name: String,
        /// Its text.
        text: String,
    },
    /// Opens a file or directory and shows it.
    Open {
        /// An absolute path.
        path: String,
        /// A line number, `#n` or nothing.
        address: String,
    },
    /// Puts a buffer, unless others edited it since `version`.
    Put {
        /// Which.
        buffer: BufferId,
        /// The version that the author saw, before this proposal's own edits.
        version: Version,
    },
    /// Reads a buffer's file again, if the buffer is clean.
    GetIfClean(BufferId),
    /// Closes a window whose buffer is clean or shown elsewhere.
    Close(WindowId),
    /// Looks a text up in a window, as B3 does.
    Look {
        /// Where.
        window: WindowId,
        /// What.
        text: String,
    },
    /// The daemon wrote or read a file: what the leader's `Saved` entry says.
    Saved {
        /// Which buffer.
        buffer: BufferId,
        /// What is on disk.
        saved: Saved,
    },
    /// Renames a buffer.
    Name {
        /// Which.
        buffer: BufferId,
        /// Its new name.
        name: String,
    },
    /// Undoes a group, which must be the latest of the buffer: an Undo over several buffers comes
    /// to a buffer that another party leads.
    Undo {
        /// Which buffer.
        buffer: BufferId,
        /// Which group.
        group: GroupId,
    },
    /// Redoes a group, which must be the one undone last in the buffer.
    Redo {
        /// Which buffer.
        buffer: BufferId,
        /// Which group.
        group: GroupId,
    },
}

impl Change {
    /// Returns the buffer whose leader decides; none when the leader of the layout does.
    #[must_use]
    pub const fn buffer(&self) -> Option<BufferId> {
        match self {
            Self::Edit { buffer, .. }
            | Self::Annotate { buffer, .. }
            | Self::Put { buffer, .. }
            | Self::GetIfClean(buffer)
            | Self::Saved { buffer, .. }
            | Self::Name { buffer, .. }
            | Self::Undo { buffer, .. }
            | Self::Redo { buffer, .. } => Some(*buffer),
            Self::Select { .. }
            | Self::Show { .. }
            | Self::Board { .. }
            | Self::Append { .. }
            | Self::TagSegment { .. }
            | Self::Open { .. }
            | Self::Close(_)
            | Self::Look { .. } => None,
        }
    }
}

impl Change {
    /// Returns whether it is done outside the logs, after the edits landed.
    #[must_use]
    pub const fn is_follow_up(&self) -> bool {
        matches!(
            self,
            Self::Put { .. } | Self::GetIfClean(_) | Self::Open { .. } | Self::Look { .. }
        )
    }
}

/// Where one change ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landed {
    /// The buffer it was about or made.
    pub buffer: Option<BufferId>,
    /// That buffer's version afterwards.
    pub version: Version,
    /// The window it was about or made.
    pub window: Option<WindowId>,
    /// Why a change that follows the edits was not carried out; why this part of a proposal was
    /// refused that is decided on for each buffer.
    pub refusal: Option<Refusal>,
}

/// Why a proposal, or one change after its edits, was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// An edit overlaps what was changed since its base.
    Conflict {
        /// In which buffer.
        buffer: BufferId,
        /// Its version now.
        version: Version,
        /// The span of the edit.
        at: Span,
    },
    /// The base is older than what is kept, or newer than what there is.
    Stale {
        /// Of which buffer.
        buffer: BufferId,
        /// Its version now.
        version: Version,
    },
    /// No such buffer, window or view.
    NotFound(String),
    /// A span is outside its text, or out of order.
    OutOfRange(String),
    /// More than one party leads what it changes.
    SplitLeadership,
    /// The leader is away or changing; the same proposal may be sent again.
    Retry(String),
    /// Not allowed to the author.
    NotGranted(String),
    /// Something else, in words for the user.
    Refused(String),
    /// The group is not next in the buffer: it was changed since.
    Diverged {
        /// Which buffer.
        buffer: BufferId,
        /// Its version now.
        version: Version,
    },
    /// More than one buffer, or leader, refuses: what each of them says. For edits: each buffer
    /// whose edit must be computed again, with its version now.
    Several(#[serde(deserialize_with = "not_nested")] Vec<Self>),
}

/// A refusal as it stands among several. Bytes from outside may not nest them: each level would
/// take room on the stack of whoever reads them.
#[derive(Deserialize)]
enum Plain {
    Conflict {
        buffer: BufferId,
        version: Version,
        at: Span,
    },
    Stale {
        buffer: BufferId,
        version: Version,
    },
    NotFound(String),
    OutOfRange(String),
    SplitLeadership,
    Retry(String),
    NotGranted(String),
    Refused(String),
    Diverged {
        buffer: BufferId,
        version: Version,
    },
}

impl From<Plain> for Refusal {
    fn from(plain: Plain) -> Self {
        match plain {
            Plain::Conflict {
                buffer,
                version,
                at,
            } => Self::Conflict {
                buffer,
                version,
                at,
            },
            Plain::Stale { buffer, version } => Self::Stale { buffer, version },
            Plain::NotFound(words) => Self::NotFound(words),
            Plain::OutOfRange(words) => Self::OutOfRange(words),
            Plain::SplitLeadership => Self::SplitLeadership,
            Plain::Retry(words) => Self::Retry(words),
            Plain::NotGranted(words) => Self::NotGranted(words),
            Plain::Refused(words) => Self::Refused(words),
            Plain::Diverged { buffer, version } => Self::Diverged { buffer, version },
        }
    }
}

fn not_nested<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Refusal>, D::Error> {
    let plain = Vec::<Plain>::deserialize(deserializer)?;
    Ok(plain.into_iter().map(Refusal::from).collect())
}

impl Refusal {
    /// Returns what several refusals are together; none of none. What is said twice counts once.
    #[must_use]
    pub fn of_all(refusals: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all: Vec<Self> = Vec::new();
        let flat = refusals.into_iter().flat_map(|refusal| match refusal {
            Self::Several(inside) => inside,
            refusal => vec![refusal],
        });
        for refusal in flat {
            if !all.contains(&refusal) {
                all.push(refusal);
            }
        }
        if all.len() > 1 {
            return Some(Self::Several(all));
        }
        all.pop()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict {
                buffer,
                version,
                at,
            } => write!(
                f,
                "the edit of #{},#{} overlaps a later change of buffer {buffer} (now version \
                 {version}); compute it again",
                at.q0, at.q1
            ),
            Self::Stale { buffer, version } => write!(
                f,
                "computed on a version of buffer {buffer} that is not kept (now version \
                 {version}); read it again"
            ),
            Self::NotFound(what) => write!(f, "{what} does not exist"),
            Self::OutOfRange(what) => write!(f, "out of range: {what}"),
            Self::SplitLeadership => {
                f.write_str("several parties lead what it changes; propose for each")
            }
            Self::Retry(why) => write!(f, "{why}; try again"),
            Self::NotGranted(what) => write!(f, "not granted: {what}"),
            Self::Refused(why) => f.write_str(why),
            Self::Diverged { buffer, version } => {
                write!(
                    f,
                    "buffer {buffer} was changed since (now version {version})"
                )
            }
            Self::Several(all) => {
                for (i, refusal) in all.iter().enumerate() {
                    write!(f, "{}{refusal}", if i == 0 { "" } else { "; also " })?;
                }
                Ok(())
            }
        }
    }
}

/// How a proposal ended: one item a change, in order, or why nothing happened.
pub type Outcome = Result<Vec<Landed>, Refusal>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_inside_refusals_are_no_refusal() {
        let one = Refusal::Several(vec![Refusal::SplitLeadership]);
        let bytes = postcard::to_allocvec(&one).unwrap();
        assert_eq!(postcard::from_bytes::<Refusal>(&bytes), Ok(one.clone()));
        let two = Refusal::Several(vec![one.clone()]);
        let bytes = postcard::to_allocvec(&two).unwrap();
        assert!(postcard::from_bytes::<Refusal>(&bytes).is_err());
        // Ten is the number of the variant, one the length of its list.
        let deep = [10, 1].repeat(4 << 20);
        assert!(postcard::from_bytes::<Refusal>(&deep).is_err());
        let other = Refusal::Retry("later".into());
        let flat = Refusal::of_all([one, Refusal::SplitLeadership, other.clone()]);
        let want = Refusal::Several(vec![Refusal::SplitLeadership, other]);
        assert_eq!(flat, Some(want));
    }
}
