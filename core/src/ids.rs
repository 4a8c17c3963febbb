//! Ids, counters and the name of a shard.
//!
//! Ids need no coordination: the high 24 bits are the attachment that issued the id, the low 40 a
//! counter of that attachment's node. Attachment, rule and term ids come from the authority.

use core::fmt;
use serde::{Deserialize, Serialize};

use crate::limits;

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        pub struct $name(u64);

        impl $name {
            /// Wraps a raw number, as read from the wire or the command line.
            #[must_use]
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }

            /// Returns the raw number.
            #[must_use]
            pub const fn raw(self) -> u64 {
                self.0
            }

            /// Returns the number that follows this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

number! {
    /// A buffer of a session.
    BufferId;
    /// A window of a session.
    WindowId;
    /// A column of the layout.
    ColumnId;
    /// A terminal of a session.
    TermId;
    /// One party in a session; issued from 1 upwards by the metalog, never reused.
    AttachmentId;
    /// A plumb rule.
    RuleId;
    /// A notice to the user.
    NoticeId;
    /// A process that the daemon started.
    ProcessId;
    /// An executed command or look.
    ExecId;
    /// One step of undo, over any number of buffers.
    GroupId;
    /// A proposal, increasing per author.
    ProposalId;
    /// A request on a connection, increasing per connection; 0 asks for no answer.
    RequestId;
    /// Position of an entry in its shard, from 1; 0 is before the first.
    Seq;
    /// Fence number of a shard; every grant and every reclaim raises it.
    Epoch;
    /// How many edits a buffer has had.
    Version;
    /// Position of an item in a journal, from 1, without gaps; 0 is before the first.
    Place;
    /// Milliseconds of a clock that never goes back; only differences mean anything.
    Millis;
    /// A connection of the daemon, never reused while it runs.
    ConnectionId;
}

/// The daemon itself, where it leads a shard.
pub const SERVER: AttachmentId = AttachmentId(0);

impl Millis {
    /// Returns the time `ms` milliseconds later.
    #[must_use]
    pub const fn after(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl AttachmentId {
    /// Returns the id that counter `counter` of this attachment's node stands for.
    ///
    /// # Panics
    /// When the attachment or the counter is outside its bits: an invariant of the node.
    #[must_use]
    pub const fn prefix(self, counter: u64) -> u64 {
        assert!(self.0 <= limits::ATTACHMENT_MAX);
        assert!(counter < 1 << limits::COUNTER_BITS);
        self.0 << limits::COUNTER_BITS | counter
    }

    /// Returns the attachment that issued an id.
    #[must_use]
    pub const fn issuer_of(id: u64) -> Self {
        Self(id >> limits::COUNTER_BITS)
    }
}

/// A random UUID, minted with a session's log and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub uuid::Uuid);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One run of one authority over a session; a client that meets another one attaches afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub uuid::Uuid);

/// What a client shows to resume its attachment after a dropped connection.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub uuid::Uuid);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// One log and the part of the state that it drives. Order is replay order: Meta first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Shard {
    /// Shards, attachments, leases, rules, settings, notices, processes.
    Meta,
    /// Columns and the windows in them.
    Layout,
    /// One text with its undo history and views.
    Buffer(BufferId),
    /// One window: which tag, which body.
    Window(WindowId),
    /// One terminal.
    Term(TermId),
}

impl Shard {
    /// Returns whether the daemon always leads this shard.
    #[must_use]
    pub const fn is_pinned(self) -> bool {
        matches!(self, Self::Meta | Self::Term(_))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta => f.write_str("meta"),
            Self::Layout => f.write_str("layout"),
            Self::Buffer(id) => write!(f, "buffer/{id}"),
            Self::Window(id) => write!(f, "window/{id}"),
            Self::Term(id) => write!(f, "term/{id}"),
        }
    }
}

impl core::str::FromStr for Shard {
    type Err = ParseShardError;

    fn from_str(text: &str) -> Result<Self, ParseShardError> {
        let (kind, id) = match text.split_once('/') {
            None => (text, None),
            Some((kind, id)) => (kind, Some(id.parse().map_err(|_| ParseShardError)?)),
        };
        match (kind, id) {
            ("meta", None) => Ok(Self::Meta),
            ("layout", None) => Ok(Self::Layout),
            ("buffer", Some(id)) => Ok(Self::Buffer(BufferId(id))),
            ("window", Some(id)) => Ok(Self::Window(WindowId(id))),
            ("term", Some(id)) => Ok(Self::Term(TermId(id))),
            _ => Err(ParseShardError),
        }
    }
}

/// The text names no shard: `meta`, `layout`, `buffer/ID`, `window/ID` or `term/ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseShardError;

impl fmt::Display for ParseShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no shard of that name: use meta, layout, buffer/ID, window/ID or term/ID")
    }
}

impl core::error::Error for ParseShardError {}

/// Which text a view is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ViewId {
    /// The tag of a window.
    Tag(WindowId),
    /// The body of a window.
    Body(WindowId),
    /// The tag of a column.
    Column(ColumnId),
    /// The top row.
    Top,
}

impl ViewId {
    /// Returns the window that the view belongs to, if any.
    #[must_use]
    pub const fn window(self) -> Option<WindowId> {
        match self {
            Self::Tag(window) | Self::Body(window) => Some(window),
            Self::Column(_) | Self::Top => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_shard_name_reads_back() {
        for shard in [
            Shard::Meta,
            Shard::Layout,
            Shard::Buffer(BufferId(7)),
            Shard::Window(WindowId(1 << 40)),
            Shard::Term(TermId(0)),
        ] {
            assert_eq!(shard.to_string().parse(), Ok(shard));
        }
        for bad in ["", "meta/1", "buffer", "buffer/x", "bufer/1", "layout/"] {
            assert_eq!(bad.parse::<Shard>(), Err(ParseShardError), "{bad}");
        }
    }

    #[test]
    fn an_id_tells_its_issuer() {
        let id = AttachmentId(5).prefix(9);
        assert_eq!(AttachmentId::issuer_of(id), AttachmentId(5));
        assert_eq!(SERVER.prefix(9), 9);
    }
}
