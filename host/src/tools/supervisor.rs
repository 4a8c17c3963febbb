//! The tool host's own task: sessions come and go, files come and go, users order.
//!
//! It never waits for a tool or for a session: what may take time is done by tasks that report
//! back. So whatever one tool does, the replicas follow and every question is answered. It runs
//! where the sessions run; guests are compiled and run on threads of their own.

mod orders;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apex_core::ids::{ConnectionId, RequestId, SessionId};
use apex_core::message::{ClientMessage, ErrorMessage, ServerMessage};
use tokio::runtime::{Handle, Runtime, RuntimeFlavor};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::Instant;

use super::actor::{self, Mail, Part, Registry};
use super::grants::{Grants, Rights, Standing};
use super::limits;
use super::loader::{LoadError, Loaded, Loader};
use super::log::ToolLog;
use super::manifest::Manifest;
use super::replica::{Backlog, Replica};
use super::slot::{FileState, Offer, Running, Seat, Slot};
use super::status::{Doing, Status};
use super::watch::{Contents, Found, Sighting, watch as watch_dirs};
use crate::seam::{
    SessionLink, SessionOpened, SessionRecords, SessionSnapshot, ToolConfig, ToolHandle,
    ToolHostMessage,
};

/// Threads that run guests: a busy one leaves another.
const WORKER_COUNT: usize = 2;
/// Most messages that are taken in one go.
const INBOX_COUNT_MAX: usize = 256;
/// How long tools have to leave when the daemon ends, in milliseconds.
const SHUTDOWN_MS: u64 = 1_000;

/// The tool host, before it is started.
#[derive(Clone, Copy, Debug)]
pub struct ToolHost;

impl ToolHost {
    /// Starts the tool host. Guests run on threads of their own. Where those cannot be had there
    /// are no tools, and the handle answers as it does when the tool host has ended. What the tool
    /// host itself does is a task of the caller's runtime, where sessions run too: records and
    /// outcomes come to a tool over one change of threads, not two.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    pub fn start(config: ToolConfig) -> ToolHandle {
        let (handle, messages) = ToolHandle::new();
        // Without threads the receiver is dropped, which is how an ended host looks.
        if let Ok(workers) = Workers::start() {
            tokio::spawn(supervise(config, messages, workers));
        }
        handle
    }
}

/// The threads that run guests and compile them.
struct Workers {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl Workers {
    fn start() -> std::io::Result<Self> {
        let build = || {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(WORKER_COUNT)
                .thread_name("apex-tool")
                .enable_all()
                .build()
        };
        // On a thread of its own: tokio panics when the machine has no thread left for a worker.
        let built = std::thread::Builder::new().spawn(build)?.join();
        let no_threads = |_| std::io::Error::other("no threads for tools");
        let runtime = built.map_err(no_threads)??;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // A compilation cannot be interrupted; it is not waited for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A session as the tool host knows it.
struct Session {
    link: SessionLink,
    /// The newest wish for a snapshot of it.
    wish: u64,
    /// Entries that replicas of it have applied.
    count: u64,
    following: Following,
}

/// How the tool host follows a session. Only with tools in it: a replica is a second copy of every
/// text.
enum Following {
    /// It has no tool there.
    Not,
    /// A snapshot is on its way.
    Wished,
    /// It follows.
    Replica(Box<Replica>),
    /// An entry did not apply to the replica. A tool that is seated begins it anew.
    Broken,
}

impl Session {
    /// Asks for a fresh snapshot.
    fn wish(&mut self) {
        self.wish += 1;
        self.following = Following::Wished;
        self.link.wish(Some(self.wish));
    }
}

/// What came in one go and is not told yet.
#[derive(Default)]
struct Came {
    /// Of one session.
    records: Vec<SessionRecords>,
    mails: Vec<(ConnectionId, Vec<Mail>)>,
}

impl Came {
    fn session(&self) -> Option<SessionId> {
        self.records.first().map(|records| records.session)
    }

    fn mail(&mut self, connection: ConnectionId, mail: Mail) {
        match self.mails.last_mut() {
            Some((to, mails)) if *to == connection => mails.push(mail),
            _ => self.mails.push((connection, vec![mail])),
        }
    }

    fn count(&self) -> usize {
        self.records.iter().map(|some| some.records.len()).sum()
    }
}

/// Returns the seats in a session whose tool is there.
fn seats_in(
    slots: &BTreeMap<PathBuf, Slot>,
    session: SessionId,
) -> impl Iterator<Item = (&Slot, &Seat)> {
    slots.values().filter_map(move |slot| {
        let seat = slot.running.as_ref()?.seats.get(&session)?;
        (!seat.backlog.is_closed()).then_some((slot, seat))
    })
}

/// A compilation that has ended.
struct LoadEnd {
    path: PathBuf,
    generation: u64,
    result: Result<Arc<Loaded>, LoadError>,
}

struct Supervisor {
    config: ToolConfig,
    workers: Workers,
    loader: Result<Arc<Loader>, String>,
    loads: mpsc::UnboundedSender<LoadEnd>,
    /// Told by an actor that ends, of which session it was.
    ends: mpsc::UnboundedSender<SessionId>,
    slots: BTreeMap<PathBuf, Slot>,
    sessions: BTreeMap<SessionId, Session>,
    registry: Registry,
    /// Asks for a look at the directories.
    asked: watch::Sender<u64>,
    /// Questions that wait for that look, and until when at most.
    waiting: Vec<(u64, Instant, ToolHostMessage)>,
}

/// Runs the tool host until it is shut down or nobody is left to speak to it.
async fn supervise(
    config: ToolConfig,
    mut messages: mpsc::UnboundedReceiver<ToolHostMessage>,
    workers: Workers,
) {
    let (sightings_sender, mut sightings) = mpsc::unbounded_channel();
    let (loads, mut load_ends) = mpsc::unbounded_channel();
    let (ends, mut actor_ends) = mpsc::unbounded_channel();
    let (asked, asked_receiver) = watch::channel(0);
    let dirs = config.plugin_dirs.clone();
    let watching = watch_dirs(dirs, asked_receiver, sightings_sender);
    let loader = at_leisure(|| {
        make_user_dirs(&config);
        Loader::new(&config.cache_dir)
    });
    workers.handle.spawn(watching);
    let mut supervisor = Supervisor {
        config,
        workers,
        loader: loader.map(Arc::new).map_err(|error| error.to_string()),
        loads,
        ends,
        slots: BTreeMap::new(),
        sessions: BTreeMap::new(),
        registry: Registry::default(),
        asked,
        waiting: Vec::new(),
    };
    let mut inbox = Vec::new();
    loop {
        let deadline = supervisor
            .waiting
            .iter()
            .map(|(_, deadline, _)| *deadline)
            .min();
        tokio::select! {
            count = messages.recv_many(&mut inbox, INBOX_COUNT_MAX) => {
                let reply = supervisor.take_all(inbox.drain(..));
                if count == 0 || reply.is_some() {
                    supervisor.shut_down().await;
                    // Whoever asked may have stopped waiting.
                    reply.map(|reply| reply.send(()));
                    return;
                }
            }
            Some(session) = actor_ends.recv() => supervisor.unfollow(session),
            Some(sighting) = sightings.recv() => at_leisure(|| supervisor.see(sighting)),
            Some(end) = load_ends.recv() => at_leisure(|| supervisor.loaded(end)),
            () = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            } => at_leisure(|| supervisor.answer_waiting(u64::MAX)),
        }
    }
}

/// Does what may wait for a disk, where that keeps no session waiting.
fn at_leisure<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(work),
        // There is no other thread to go on meanwhile.
        _ => work(),
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
    /// Takes messages in order, but records of one session together, and mail behind the records
    /// that came with it. Returns whom to tell when the tool host has ended, if it is to.
    fn take_all(
        &mut self,
        messages: impl Iterator<Item = ToolHostMessage>,
    ) -> Option<oneshot::Sender<()>> {
        let mut came = Came::default();
        for message in messages {
            match message {
                ToolHostMessage::Records(records) => {
                    // Tools work on one batch while the next one is replayed.
                    let is_full = came.count() >= limits::BATCH_COUNT_MAX / 2;
                    if is_full || came.session() != Some(records.session) {
                        self.tell(std::mem::take(&mut came));
                    }
                    came.records.push(records);
                }
                ToolHostMessage::FromDaemon {
                    session,
                    connection,
                    message: ServerMessage::HashQuery(request),
                } => {
                    self.tell(std::mem::take(&mut came));
                    self.tell_hashes(session, connection, request);
                }
                ToolHostMessage::FromDaemon {
                    connection,
                    message,
                    ..
                } => came.mail(connection, Mail::Message(message)),
                ToolHostMessage::ConnectionClosed {
                    connection, reason, ..
                } => came.mail(connection, Mail::Closed(reason.message)),
                ToolHostMessage::Shutdown { reply } => {
                    self.tell(came);
                    return Some(reply);
                }
                other => {
                    self.tell(std::mem::take(&mut came));
                    self.take(other);
                }
            }
        }
        self.tell(came);
        None
    }

    fn take(&mut self, message: ToolHostMessage) {
        match message {
            ToolHostMessage::SessionOpened(opened) => self.open(opened),
            ToolHostMessage::Snapshot(snapshot) => self.begin(snapshot),
            ToolHostMessage::SessionClosed { session } => self.close(session),
            ToolHostMessage::Order { .. }
            | ToolHostMessage::List { .. }
            | ToolHostMessage::Log { .. } => self.wait_for_look(message),
            ToolHostMessage::Records(_)
            | ToolHostMessage::FromDaemon { .. }
            | ToolHostMessage::ConnectionClosed { .. }
            | ToolHostMessage::Shutdown { .. } => {}
        }
    }

    /// A session is there.
    fn open(&mut self, opened: SessionOpened) {
        let session = opened.session;
        self.sessions.insert(
            session,
            Session {
                link: opened.link,
                wish: 0,
                count: 0,
                following: Following::Not,
            },
        );
        let paths: Vec<PathBuf> = self.slots.keys().cloned().collect();
        for path in paths {
            self.seat(&path, session, None);
        }
    }

    /// The state of a session is there: its replica begins, or begins afresh.
    fn begin(&mut self, opened: SessionSnapshot) {
        let SessionSnapshot {
            session,
            wish,
            snapshot,
            marks,
        } = opened;
        let Some(known) = self.sessions.get_mut(&session) else {
            return;
        };
        if wish != known.wish || matches!(known.following, Following::Not) {
            return;
        }
        let mut replica = Replica::new(snapshot, &marks);
        replica.count_from(known.count);
        for (_, seat) in seats_in(&self.slots, session) {
            seat.backlog.begin(&replica);
            if seat.status.words().0 == Doing::Failed {
                let note = "began again from the session's present state";
                seat.status.say(Doing::Running, note);
            }
        }
        known.following = Following::Replica(Box::new(replica));
    }

    /// Follows a session and tells its tools, then hands out the mail.
    fn tell(&mut self, came: Came) {
        if let Some(session) = came.session() {
            self.follow(session, &came.records);
        }
        if !came.mails.is_empty() {
            self.registry.post(came.mails);
        }
    }

    fn follow(&mut self, session: SessionId, records: &[SessionRecords]) {
        let Some(known) = self.sessions.get_mut(&session) else {
            return;
        };
        let Following::Replica(replica) = &mut known.following else {
            return;
        };
        match replica.apply(records.iter().flat_map(|some| some.records.iter())) {
            Ok(chunks) => {
                known.count = replica.count();
                for (_, seat) in seats_in(&self.slots, session) {
                    seat.backlog.push(&chunks);
                }
            }
            Err(error) => {
                known.following = Following::Broken;
                known.link.wish(None);
                for (slot, seat) in seats_in(&self.slots, session) {
                    let why = format!(
                        "the tool host's copy of the session stands still ({error}), so it hears \
                         nothing more of it; `apex tool reload {}` makes a fresh copy",
                        slot.name
                    );
                    slot.log.push_host(&why);
                    seat.status.say(Doing::Failed, why);
                }
            }
        }
    }

    /// Follows a session no more once no tool is left in it.
    fn unfollow(&mut self, session: SessionId) {
        if seats_in(&self.slots, session).next().is_some() {
            return;
        }
        if let Some(known) = self.sessions.get_mut(&session) {
            known.following = Following::Not;
            known.link.wish(None);
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
        let Following::Replica(replica) = &session.following else {
            return;
        };
        let hashes = at_leisure(|| replica.hashes());
        let link = session.link.clone();
        tokio::spawn(async move {
            // A session that has ended asks no more.
            let _ = link
                .send(
                    connection,
                    vec![ClientMessage::HashMark { request, hashes }],
                )
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
        self.workers.handle.spawn(async move {
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
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let backlog = Arc::new(Backlog::default());
        match &session.following {
            Following::Replica(replica) => backlog.begin(replica),
            Following::Wished => {}
            Following::Not | Following::Broken => session.wish(),
        }
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
            restart_wait_ms: self.config.restart_wait_ms,
            leave: leave_receiver,
        };
        let ends = self.ends.clone();
        let task = self.workers.handle.spawn(async move {
            if let Some(before) = before {
                // However it ended, its seat is free now.
                drop(before.await);
            }
            let backlog = Arc::clone(&part.backlog);
            actor::run(part).await;
            backlog.close();
            // The tool host may have ended.
            let _ = ends.send(id);
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

#[cfg(test)]
mod tests;
