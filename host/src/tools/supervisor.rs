//! The tool host's own task: sessions come and go, files come and go, users order.
//!
//! It never waits for a tool or for a session: what may take time is done by tasks that report
//! back. So whatever one tool does, the replicas follow and every question is answered.

mod orders;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apex_core::ids::{ConnectionId, RequestId, SessionId};
use apex_core::message::{ClientMessage, ErrorMessage, ServerMessage};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::actor::{self, Mail, Part, Registry};
use super::grants::{Grants, Rights, Standing};
use super::loader::{LoadError, Loaded, Loader};
use super::log::ToolLog;
use super::manifest::Manifest;
use super::replica::{Backlog, Replica};
use super::slot::{FileState, Offer, Running, Seat, Slot};
use super::status::{Doing, Status};
use super::watch::{Contents, Found, Sighting, watch as watch_dirs};
use crate::seam::{
    SessionLink, SessionOpened, SessionRecords, ToolConfig, ToolHandle, ToolHostMessage,
};

/// Threads that run guests: a busy one leaves another.
const WORKER_COUNT: usize = 2;
/// How long tools have to leave when the daemon ends, in milliseconds.
const SHUTDOWN_MS: u64 = 1_000;

/// The tool host, before it is started.
#[derive(Clone, Copy, Debug)]
pub struct ToolHost;

impl ToolHost {
    /// Starts the tool host on threads of its own. Where they cannot be had there are no tools,
    /// and the handle answers as it does when the tool host has ended.
    #[must_use]
    pub fn start(config: ToolConfig) -> ToolHandle {
        let (handle, messages) = ToolHandle::new();
        let thread = std::thread::Builder::new().name("apex-tools".to_owned());
        // Without the thread the receiver is dropped, which is how an ended host looks.
        drop(thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(WORKER_COUNT)
                .thread_name("apex-tool")
                .enable_all()
                .build();
            if let Ok(runtime) = runtime {
                runtime.block_on(supervise(config, messages));
                // A compilation cannot be interrupted; it is not waited for.
                runtime.shutdown_background();
            }
        }));
        handle
    }
}

/// A session as the tool host knows it.
struct Session {
    replica: Replica,
    link: SessionLink,
    /// Why its replica cannot go on, until a fresh snapshot comes.
    broken: Option<String>,
}

/// A compilation that has ended.
struct LoadEnd {
    path: PathBuf,
    generation: u64,
    result: Result<Arc<Loaded>, LoadError>,
}

struct Supervisor {
    config: ToolConfig,
    loader: Result<Arc<Loader>, String>,
    loads: mpsc::UnboundedSender<LoadEnd>,
    slots: BTreeMap<PathBuf, Slot>,
    sessions: BTreeMap<SessionId, Session>,
    registry: Registry,
    /// Asks for a look at the directories.
    asked: watch::Sender<u64>,
    /// Questions that wait for that look, and until when at most.
    waiting: Vec<(u64, Instant, ToolHostMessage)>,
}

/// Runs the tool host until it is shut down or nobody is left to speak to it.
async fn supervise(config: ToolConfig, mut messages: mpsc::UnboundedReceiver<ToolHostMessage>) {
    make_user_dirs(&config);
    let (sightings_sender, mut sightings) = mpsc::unbounded_channel();
    let (loads, mut load_ends) = mpsc::unbounded_channel();
    let (asked, asked_receiver) = watch::channel(0);
    let dirs = config.plugin_dirs.clone();
    tokio::spawn(watch_dirs(dirs, asked_receiver, sightings_sender));
    let loader = Loader::new(&config.cache_dir);
    let mut supervisor = Supervisor {
        config,
        loader: loader.map(Arc::new).map_err(|error| error.to_string()),
        loads,
        slots: BTreeMap::new(),
        sessions: BTreeMap::new(),
        registry: Registry::default(),
        asked,
        waiting: Vec::new(),
    };
    loop {
        let deadline = supervisor
            .waiting
            .iter()
            .map(|(_, deadline, _)| *deadline)
            .min();
        tokio::select! {
            message = messages.recv() => match message {
                None => return supervisor.shut_down().await,
                Some(ToolHostMessage::Shutdown { reply }) => {
                    supervisor.shut_down().await;
                    // Whoever asked may have stopped waiting.
                    let _ = reply.send(());
                    return;
                }
                Some(message) => supervisor.take(message),
            },
            Some(sighting) = sightings.recv() => supervisor.see(sighting),
            Some(end) = load_ends.recv() => supervisor.loaded(end),
            () = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            } => supervisor.answer_waiting(u64::MAX),
        }
    }
}

/// Makes the user's plugin directory, so that there is a place to drop a tool; no other.
fn make_user_dirs(config: &ToolConfig) {
    let Some(own) = config.data_dir.parent() else {
        return;
    };
    for dir in config.plugin_dirs.iter().filter(|dir| dir.starts_with(own)) {
        // Where it cannot be made there is nothing to watch either, and tools lie elsewhere.
        drop(fs::create_dir_all(dir));
    }
}

impl Supervisor {
    fn take(&mut self, message: ToolHostMessage) {
        match message {
            ToolHostMessage::SessionOpened(opened) => self.open(opened),
            ToolHostMessage::Records(records) => self.follow(&records),
            ToolHostMessage::SessionClosed { session } => self.close(session),
            ToolHostMessage::FromDaemon {
                session,
                connection,
                message: ServerMessage::HashQuery(request),
            } => self.tell_hashes(session, connection, request),
            ToolHostMessage::FromDaemon {
                connection,
                message,
                ..
            } => {
                self.registry.post(connection, Mail::Message(message));
            }
            ToolHostMessage::ConnectionClosed {
                connection, reason, ..
            } => {
                self.registry.post(connection, Mail::Closed(reason.message));
            }
            ToolHostMessage::Order { .. }
            | ToolHostMessage::List { .. }
            | ToolHostMessage::Log { .. } => self.wait_for_look(message),
            ToolHostMessage::Shutdown { .. } => {}
        }
    }

    /// A session is there, or begins afresh because its records were too many.
    fn open(&mut self, opened: SessionOpened) {
        let SessionOpened {
            session,
            snapshot,
            marks,
            link,
            ..
        } = opened;
        if let Some(known) = self.sessions.get_mut(&session) {
            known.replica.restart(snapshot, &marks);
            known.link = link;
            known.broken = None;
            let seats = self.slots.values().filter_map(|slot| slot.running.as_ref());
            for seat in seats.filter_map(|running| running.seats.get(&session)) {
                seat.backlog.lose(&known.replica);
            }
            return;
        }
        let replica = Replica::new(snapshot, &marks);
        self.sessions.insert(
            session,
            Session {
                replica,
                link,
                broken: None,
            },
        );
        let paths: Vec<PathBuf> = self.slots.keys().cloned().collect();
        for path in paths {
            self.seat(&path, session, None);
        }
    }

    /// Follows a session, and tells its tools.
    fn follow(&mut self, records: &SessionRecords) {
        let Some(session) = self.sessions.get_mut(&records.session) else {
            return;
        };
        if session.broken.is_some() {
            return;
        }
        let chunks = session.replica.apply(&records.records);
        let seats = self.slots.values().filter_map(|slot| slot.running.as_ref());
        let seats = seats.filter_map(|running| running.seats.get(&records.session));
        match chunks {
            Ok(chunks) => {
                for seat in seats {
                    chunks.iter().for_each(|chunk| seat.backlog.push(chunk));
                }
            }
            Err(error) => {
                let why = format!(
                    "the tool host's replica of the session stands still ({error}); attach it \
                     anew with `apex tool reload`"
                );
                for seat in seats {
                    seat.status.say(Doing::Failed, why.clone());
                }
                session.broken = Some(why);
            }
        }
    }

    fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        for slot in self.slots.values_mut() {
            let seats = slot.running.as_mut().map(|running| &mut running.seats);
            if let Some(seat) = seats.and_then(|seats| seats.remove(&session)) {
                // It has nobody to say goodbye to.
                seat.dismiss().abort();
            }
        }
    }

    /// Answers for a tool with what the replica computed.
    fn tell_hashes(&self, session: SessionId, connection: ConnectionId, request: RequestId) {
        let Some(session) = self.sessions.get(&session) else {
            return;
        };
        let hashes = session.replica.hashes();
        let link = session.link.clone();
        tokio::spawn(async move {
            // A session that has ended asks no more.
            let _ = link
                .send(connection, ClientMessage::HashMark { request, hashes })
                .await;
        });
    }

    fn see(&mut self, sighting: Sighting) {
        match sighting {
            Sighting::Found(found) => self.found(found),
            Sighting::Gone(path) => {
                if let Some(mut slot) = self.slots.remove(&path) {
                    drop(slot.dismiss());
                    self.consider_name(&slot.name);
                }
            }
            Sighting::Settled(asked) => self.answer_waiting(asked),
        }
    }

    /// A tool's file is new or has changed.
    fn found(&mut self, found: Found) {
        let Found {
            path,
            rank,
            contents,
        } = found;
        let name: Arc<str> = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into();
        let slot = self.slots.entry(path.clone()).or_insert_with(|| Slot {
            path: path.clone(),
            name: Arc::clone(&name),
            rank,
            log: Arc::new(ToolLog::new()),
            file: FileState::Invalid {
                why: String::new(),
                sha256: String::new(),
            },
            generation: 0,
            standing: Standing::Unknown,
            running: None,
        });
        slot.rank = rank;
        let offer = match offer(&contents) {
            Ok(offer) => offer,
            Err(why) => {
                let sha256 = contents.map(|contents| contents.sha256).unwrap_or_default();
                return self.refuse(&path, why, sha256);
            }
        };
        if slot.offer().is_some_and(|known| known.is_same(&offer)) {
            return;
        }
        slot.generation += 1;
        for clamp in &offer.manifest.clamped {
            slot.log.push_host(clamp);
        }
        if let Some(running) = &slot.running
            && running.offer.is_same(&offer)
        {
            // The file is again what runs.
            slot.file = FileState::Ready(offer, Arc::clone(&running.loaded));
            return self.consider_name(&name);
        }
        let bytes = contents.map(|contents| contents.bytes).unwrap_or_default();
        self.load(&path, bytes, offer);
        self.consider_name(&name);
    }

    /// A tool's file cannot be taken.
    fn refuse(&mut self, path: &PathBuf, why: String, sha256: String) {
        let Some(slot) = self.slots.get_mut(path) else {
            return;
        };
        slot.generation += 1;
        slot.log.push_host(&format!("the file is not taken: {why}"));
        slot.file = FileState::Invalid { why, sha256 };
        let name = Arc::clone(&slot.name);
        self.consider_name(&name);
    }

    /// Compiles a tool on a thread where that may take its time.
    fn load(&mut self, path: &PathBuf, bytes: Arc<[u8]>, offer: Offer) {
        let loader = match &self.loader {
            Ok(loader) => Arc::clone(loader),
            Err(why) => {
                let why = why.clone();
                return self.refuse(path, why, offer.sha256);
            }
        };
        let Some(slot) = self.slots.get_mut(path) else {
            return;
        };
        slot.file = FileState::Compiling(offer.clone());
        let (path, generation, loads) = (path.clone(), slot.generation, self.loads.clone());
        tokio::spawn(async move {
            // The semaphore is never closed; were it, compiling at once would still be right.
            let permit = loader.permits().acquire_owned().await;
            let load = tokio::task::spawn_blocking(move || {
                loader
                    .load(&bytes, &offer.sha256, offer.manifest)
                    .map(Arc::new)
            });
            let result = match load.await {
                Ok(result) => result,
                Err(error) => Err(LoadError::Engine(format!("its compilation ended: {error}"))),
            };
            drop(permit);
            // Nobody waits for it once the tool host ends.
            drop(loads.send(LoadEnd {
                path,
                generation,
                result,
            }));
        });
    }

    fn loaded(&mut self, end: LoadEnd) {
        let Some(slot) = self.slots.get_mut(&end.path) else {
            return;
        };
        if slot.generation != end.generation {
            return;
        }
        let FileState::Compiling(offer) = &slot.file else {
            return;
        };
        match end.result {
            Ok(loaded) => {
                slot.file = FileState::Ready(offer.clone(), loaded);
                let name = Arc::clone(&slot.name);
                self.consider_name(&name);
            }
            Err(error) => {
                let sha256 = offer.sha256.clone();
                self.refuse(&end.path, error.to_string(), sha256);
            }
        }
    }

    /// Looks at all tools of a name: which may run, and whether it does.
    fn consider_name(&mut self, name: &str) {
        let of_name = self.slots.values().filter(|slot| &*slot.name == name);
        let mut paths: Vec<(usize, PathBuf)> =
            of_name.map(|slot| (slot.rank, slot.path.clone())).collect();
        paths.sort();
        let grants = Grants::read(&self.config.grants_path);
        let mut paths = paths.into_iter().map(|(_, path)| path);
        let Some(first) = paths.next() else { return };
        for path in paths {
            let why = format!("another tool of this name comes first: {}", first.display());
            if let Some(slot) = self.slots.get_mut(&path) {
                drop(slot.dismiss());
                let sha256 = slot
                    .offer()
                    .map(|offer| offer.sha256.clone())
                    .unwrap_or_default();
                slot.file = FileState::Invalid { why, sha256 };
                slot.generation += 1;
            }
        }
        let Some(slot) = self.slots.get_mut(&first) else {
            return;
        };
        let standing = match (&grants, slot.offer()) {
            (Ok(grants), Some(offer)) => grants.standing(&first, &offer.manifest, &offer.sha256),
            (Err(error), _) => {
                slot.log.push_host(&error.to_string());
                Standing::Unknown
            }
            (Ok(_), None) => Standing::Unknown,
        };
        slot.standing = standing;
        if let FileState::Ready(offer, loaded) = &slot.file
            && standing.is_granted()
            && !slot
                .running
                .as_ref()
                .is_some_and(|running| running.offer.is_same(offer))
        {
            let (offer, loaded) = (offer.clone(), Arc::clone(loaded));
            self.activate(&first, offer, loaded);
        }
    }

    /// Lets a version run in all sessions, in place of the one before.
    fn activate(&mut self, path: &PathBuf, offer: Offer, loaded: Arc<Loaded>) {
        let Some(slot) = self.slots.get_mut(path) else {
            return;
        };
        let mut before = slot.dismiss();
        let manifest = &offer.manifest;
        slot.log.push_host(&format!(
            "starts {} {} (sha256 {})",
            manifest.id, manifest.version, offer.sha256
        ));
        let rights = Rights::granted(manifest);
        slot.running = Some(Running {
            offer,
            loaded,
            rights,
            seats: BTreeMap::new(),
        });
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.seat(path, session, before.remove(&session));
        }
    }

    /// Gives a running tool its seat in a session, behind the one who sat there.
    fn seat(&mut self, path: &PathBuf, id: SessionId, before: Option<JoinHandle<()>>) {
        let Some(slot) = self.slots.get_mut(path) else {
            return;
        };
        let Some(running) = &mut slot.running else {
            return;
        };
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let backlog = Arc::new(Backlog::new(&session.replica));
        let status = Arc::new(Status::new());
        let (leave, leave_receiver) = watch::channel(false);
        let part = Part {
            name: Arc::clone(&slot.name),
            loaded: Arc::clone(&running.loaded),
            rights: running.rights.clone(),
            log: Arc::clone(&slot.log),
            session: id,
            link: session.link.clone(),
            backlog: Arc::clone(&backlog),
            status: Arc::clone(&status),
            registry: self.registry.clone(),
            leave: leave_receiver,
        };
        let task = tokio::spawn(async move {
            if let Some(before) = before {
                // However it ended, its seat is free now.
                drop(before.await);
            }
            actor::run(part).await;
        });
        running.seats.insert(
            id,
            Seat {
                backlog,
                status,
                leave,
                task,
            },
        );
    }

    /// Lets a question wait until the directories have been looked at.
    fn wait_for_look(&mut self, message: ToolHostMessage) {
        /// Directories that are written to all the time are not waited for any longer, in ms.
        const LOOK_MS: u64 = 3_000;
        let mut number = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            number = *asked;
        });
        let deadline = Instant::now() + Duration::from_millis(LOOK_MS);
        self.waiting.push((number, deadline, message));
    }

    fn answer_waiting(&mut self, asked: u64) {
        let now = Instant::now();
        let (ready, waiting) =
            std::mem::take(&mut self.waiting)
                .into_iter()
                .partition(|(number, deadline, _)| {
                    *number <= asked.min(u64::MAX - 1) || *deadline <= now
                });
        self.waiting = waiting;
        for (_, _, message) in ready {
            self.answer(message);
        }
    }

    /// Lets all tools leave, but not for ever.
    async fn shut_down(&mut self) {
        let tasks: Vec<JoinHandle<()>> = self
            .slots
            .values_mut()
            .flat_map(|slot| slot.dismiss().into_values())
            .collect();
        let all = async {
            for task in tasks {
                // However it ended, it has.
                drop(task.await);
            }
        };
        // What has not left by then is dropped with the runtime.
        drop(tokio::time::timeout(Duration::from_millis(SHUTDOWN_MS), all).await);
    }
}

/// Returns what a file offers, or why it is no tool.
fn offer(contents: &Result<Contents, String>) -> Result<Offer, String> {
    let contents = contents.as_ref().map_err(Clone::clone)?;
    let text = contents.manifest.clone()?;
    let manifest = Manifest::parse(&text).map_err(|error| format!("its manifest: {error}"))?;
    Ok(Offer {
        sha256: contents.sha256.clone(),
        text,
        manifest,
    })
}

/// Returns an error for the peer.
fn refusal(code: apex_core::message::ErrorCode, message: impl Into<String>) -> ErrorMessage {
    ErrorMessage::new(code, message)
}
