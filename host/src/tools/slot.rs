//! One tool's place: the file as it lies there, the version that runs, and how both are told.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use apex_core::ids::SessionId;
use apex_core::message::ToolInfo;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::grants::{Rights, Standing};
use super::loader::Loaded;
use super::log::ToolLog;
use super::manifest::Manifest;
use super::replica::Backlog;
use super::status::{Doing, Status};

/// A tool's place in a plugin directory.
pub(super) struct Slot {
    /// The component's path.
    pub(super) path: PathBuf,
    /// Its name: the file's, without the ending.
    pub(super) name: Arc<str>,
    /// Which directory it is in; the first one wins.
    pub(super) rank: usize,
    /// Its log, which goes on over all versions.
    pub(super) log: Arc<ToolLog>,
    /// What lies there now.
    pub(super) file: FileState,
    /// How many times the file changed; a compilation of an older state is of no use.
    pub(super) generation: u64,
    /// How what lies there stands with the user.
    pub(super) standing: Standing,
    /// What runs, which may be an older version.
    pub(super) running: Option<Running>,
}

/// What lies at a tool's path.
pub(super) enum FileState {
    /// It cannot be a tool, for this reason.
    Invalid {
        /// Why.
        why: String,
        /// Of the component if it could be read.
        sha256: String,
    },
    /// It is being compiled.
    Compiling(Offer),
    /// It can run.
    Ready(Offer, Arc<Loaded>),
}

/// A component with a good manifest: what the user can grant.
#[derive(Clone)]
pub(super) struct Offer {
    /// Of the component, in hex.
    pub(super) sha256: String,
    /// The manifest's text, by which a change is told.
    pub(super) text: String,
    /// The manifest.
    pub(super) manifest: Manifest,
}

impl Offer {
    /// Returns whether it is the same version.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.sha256 == other.sha256 && self.text == other.text
    }
}

/// A version that runs.
pub(super) struct Running {
    /// Which.
    pub(super) offer: Offer,
    /// The component.
    pub(super) loaded: Arc<Loaded>,
    /// What it may do.
    pub(super) rights: Rights,
    /// Its actors.
    pub(super) seats: BTreeMap<SessionId, Seat>,
}

/// One tool's seat in one session.
pub(super) struct Seat {
    /// What it has not been told.
    pub(super) backlog: Arc<Backlog>,
    /// How it does.
    pub(super) status: Arc<Status>,
    /// Tells it to leave.
    pub(super) leave: watch::Sender<bool>,
    /// Its task.
    pub(super) task: JoinHandle<()>,
}

impl Seat {
    /// Tells the actor to leave; returns its task.
    pub(super) fn dismiss(self) -> JoinHandle<()> {
        self.leave.send_replace(true);
        self.task
    }
}

impl Slot {
    /// Returns what could be granted.
    pub(super) const fn offer(&self) -> Option<&Offer> {
        match &self.file {
            FileState::Invalid { .. } => None,
            FileState::Compiling(offer) | FileState::Ready(offer, _) => Some(offer),
        }
    }

    /// Takes the actors of the running version away; returns their tasks by session.
    pub(super) fn dismiss(&mut self) -> BTreeMap<SessionId, JoinHandle<()>> {
        let running = self.running.take();
        let seats = running.map(|running| running.seats).unwrap_or_default();
        seats
            .into_iter()
            .map(|(session, seat)| (session, seat.dismiss()))
            .collect()
    }

    /// Returns the tool as it is listed.
    pub(super) fn info(&self) -> ToolInfo {
        let running = self.running.as_ref();
        let offer = running
            .map(|running| &running.offer)
            .or_else(|| self.offer());
        let (state, note) = self.words();
        let seats = || running.into_iter().flat_map(|running| &running.seats);
        let sum = |of: fn(&Status) -> &AtomicU64| {
            seats()
                .map(|(_, seat)| of(&seat.status).load(Ordering::Relaxed))
                .sum()
        };
        let sha256 = match (&self.file, offer) {
            (_, Some(offer)) => &offer.sha256,
            (FileState::Invalid { sha256, .. }, None) => sha256,
            (_, None) => "",
        };
        ToolInfo {
            name: self.name.to_string(),
            id: offer
                .map(|offer| offer.manifest.id.clone())
                .unwrap_or_default(),
            path: self.path.display().to_string(),
            sha256: sha256.to_owned(),
            state: state.to_owned(),
            note,
            restarts: sum(|status| &status.restarts),
            calls: sum(|status| &status.calls),
            entries: sum(|status| &status.entries),
            memory_len: sum(|status| &*status.memory_len),
            attachments: seats()
                .filter_map(|(session, seat)| {
                    let cursor = seat.status.cursor.load(Ordering::Relaxed);
                    Some((*session, seat.status.attachment()?, cursor))
                })
                .collect(),
        }
    }

    /// Returns the state in one word, and what happened and comes next.
    fn words(&self) -> (&'static str, String) {
        match &self.running {
            Some(running) => {
                let seats = running.seats.values().map(|seat| seat.status.words());
                let worst = seats.max_by_key(|(doing, note)| (*doing, !note.is_empty()));
                let (doing, note) = worst.unwrap_or((Doing::Running, String::new()));
                let notes = [note, self.file_note(running)];
                let notes: Vec<String> =
                    notes.into_iter().filter(|note| !note.is_empty()).collect();
                (doing.word(), notes.join("; "))
            }
            None => match &self.file {
                FileState::Invalid { why, .. } => (
                    "invalid",
                    format!("{why}; it is looked at again when the file changes"),
                ),
                _ if !self.standing.is_granted() => ("waiting", self.ask()),
                FileState::Compiling(_) => ("compiling", "starts when it is compiled".to_owned()),
                FileState::Ready(..) => ("stopped", String::new()),
            },
        }
    }

    /// Returns what is to be said of the file beside the version that runs.
    fn file_note(&self, running: &Running) -> String {
        match &self.file {
            FileState::Invalid { why, .. } => {
                format!("its file has changed and is not taken: {why}; the version before goes on")
            }
            FileState::Compiling(offer) | FileState::Ready(offer, _)
                if !offer.is_same(&running.offer) && !self.standing.is_granted() =>
            {
                format!(
                    "its file has changed; the version before goes on; {}",
                    self.ask()
                )
            }
            FileState::Compiling(_) => "its file has changed and is being compiled".to_owned(),
            FileState::Ready(..) if self.standing == Standing::GrantedDev => {
                format!(
                    "granted for development: whatever lies at {}",
                    self.path.display()
                )
            }
            FileState::Ready(..) => String::new(),
        }
    }

    /// Returns what the tool asks for and how to grant it.
    fn ask(&self) -> String {
        let why = match self.standing {
            Standing::Changed => "what was granted before were other bytes or other rights; ",
            Standing::Granted | Standing::GrantedDev | Standing::Unknown => "",
        };
        let wants = self
            .offer()
            .map(|offer| offer.manifest.wants.as_slice())
            .unwrap_or_default();
        let wants: Vec<String> = wants.iter().map(ToString::to_string).collect();
        let wants = if wants.is_empty() {
            "it asks for no right".to_owned()
        } else {
            format!("it asks for {}", wants.join(", "))
        };
        format!("{why}{wants}; `apex tool grant {}` lets it run", self.name)
    }
}
