//! How one tool does in one session, for those who list tools.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use apex_core::ids::AttachmentId;

use super::lock::lock;

/// What a tool is doing in a session. Later ones are more worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doing {
    /// It serves.
    Running,
    /// It joins the session, or its first call runs.
    Starting,
    /// It failed and waits for its next start.
    Restarting,
    /// It was given up.
    Failed,
}

impl Doing {
    /// Returns its word in a list of tools.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Starting => "starting",
            Self::Restarting => "restarting",
            Self::Failed => "failed",
        }
    }
}

/// The figures of a tool in a session, written by its actor.
#[derive(Debug)]
pub(super) struct Status {
    words: Mutex<(Doing, String)>,
    /// Its attachment; 0 before it has one.
    attachment: AtomicU64,
    /// Starts after a failure.
    pub(super) restarts: AtomicU64,
    /// Calls into it.
    pub(super) calls: AtomicU64,
    /// Entries handed to it.
    pub(super) entries: AtomicU64,
    /// How many entries of the session are behind it.
    pub(super) cursor: AtomicU64,
    /// Bytes of its linear memories.
    pub(super) memory_len: Arc<AtomicU64>,
}

impl Status {
    pub(super) fn new() -> Self {
        Self {
            words: Mutex::new((Doing::Starting, String::new())),
            attachment: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            cursor: AtomicU64::new(0),
            memory_len: Arc::default(),
        }
    }

    /// Says what it is doing and what comes next.
    pub(super) fn say(&self, doing: Doing, note: impl Into<String>) {
        *lock(&self.words) = (doing, note.into());
    }

    pub(super) fn words(&self) -> (Doing, String) {
        lock(&self.words).clone()
    }

    pub(super) fn attach(&self, id: AttachmentId) {
        self.attachment.store(id.raw(), Ordering::Relaxed);
    }

    pub(super) fn attachment(&self) -> Option<AttachmentId> {
        let id = self.attachment.load(Ordering::Relaxed);
        (id != 0).then(|| AttachmentId::new(id))
    }
}
