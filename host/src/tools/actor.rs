//! One tool in one session: one attachment, one instance at a time, one call at a time.
//!
//! 1. The instance may end at any call; the actor goes on. It starts a fresh one behind the last
//!    batch that was answered and tells the batch that ended it once more, then never again.
//! 2. Each call sees one state: that after the last entry that the tool was told.
//! 3. What a tool asked for leaves when its call has returned, together with what the calls right
//!    behind it ask for when they are short. Nothing waits for a call that is not there yet.

mod desk;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use apex_core::entry::{AttachmentKind, Exec};
use apex_core::ids::{ConnectionId, ProposalId, SessionId};
use apex_core::message::{ClientMessage, Hello, ServerMessage, SessionName, Takeover};
use apex_core::proposal::Outcome;
use apex_core::state::State;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use self::desk::Desk;
use super::bindings::{Entry, wit::types::Error};
use super::changes;
use super::engine::Meter;
use super::events;
use super::grants::Rights;
use super::guest::{Guest, Identity};
use super::imports::followable;
use super::instance::{Instance, Stop};
use super::limits;
use super::loader::Loaded;
use super::log::{ToolLog, visible};
use super::membership::{Membership, reset};
use super::replica::{Backlog, Batch, Next};
use super::restarts::{Restarts, Verdict, WINDOW};
use super::status::{Doing, Status};
use crate::seam::{SessionGone, SessionLink};

/// What an actor is made of.
pub(super) struct Part {
    /// The tool's name.
    pub(super) name: Arc<str>,
    /// The tool.
    pub(super) loaded: Arc<Loaded>,
    /// What it may do.
    pub(super) rights: Rights,
    /// Its log.
    pub(super) log: Arc<ToolLog>,
    /// The session.
    pub(super) session: SessionId,
    /// The way into it.
    pub(super) link: SessionLink,
    /// What it has not been told.
    pub(super) backlog: Arc<Backlog>,
    /// Where its figures go.
    pub(super) status: Arc<Status>,
    /// Where to register a connection, so that answers find their way.
    pub(super) registry: Registry,
    /// First wait before it is started again, in milliseconds.
    pub(super) restart_wait_ms: u64,
    /// True when it is to leave.
    pub(super) leave: watch::Receiver<bool>,
}

/// Which mailbox the answers for a connection go to.
#[derive(Clone, Debug, Default)]
pub(super) struct Registry(
    Arc<std::sync::Mutex<BTreeMap<ConnectionId, mpsc::UnboundedSender<Vec<Mail>>>>>,
);

impl Registry {
    /// Passes mail on, in order; mail for nobody is dropped.
    pub(super) fn post(&self, mails: Vec<(ConnectionId, Vec<Mail>)>) {
        let mailboxes = super::lock::lock(&self.0);
        for (connection, mails) in mails {
            if let Some(mailbox) = mailboxes.get(&connection) {
                // An actor that has ended reads nothing any more.
                drop(mailbox.send(mails));
            }
        }
    }

    fn add(&self, connection: ConnectionId, mailbox: mpsc::UnboundedSender<Vec<Mail>>) {
        super::lock::lock(&self.0).insert(connection, mailbox);
    }

    fn remove(&self, connection: ConnectionId) {
        super::lock::lock(&self.0).remove(&connection);
    }
}

/// What comes from the daemon for one connection.
#[derive(Debug)]
pub(super) enum Mail {
    /// A message.
    Message(ServerMessage),
    /// The daemon closed the connection, for this reason.
    Closed(String),
}

/// Why an actor ends.
#[derive(Debug)]
enum End {
    /// It was told to leave.
    Left,
    /// The session is gone.
    Gone,
    /// The tool is given up.
    Failed(String),
    /// The instance is done for; another one may follow.
    Stopped(Stop),
}

impl From<SessionGone> for End {
    fn from(SessionGone: SessionGone) -> Self {
        Self::Gone
    }
}

impl From<Stop> for End {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

/// A batch that an instance ended on, to be told once more.
struct Suspect {
    batch: Batch,
    is_retold: bool,
}

/// What an actor waited for.
enum Wake {
    Leave,
    Mail(Option<Vec<Mail>>),
    Entries,
    Timer(u64),
}

struct Actor {
    part: Part,
    connection: ConnectionId,
    mailbox: mpsc::UnboundedReceiver<Vec<Mail>>,
    identity: Identity,
    desk: Desk,
    /// Mail that was taken from the mailbox and not looked at.
    mails: VecDeque<Mail>,
    /// The state after the last batch that was answered.
    seen: Arc<State>,
    suspect: Option<Suspect>,
    restarts: Restarts,
    /// What happened last, for the note of a running tool.
    history: String,
}

/// What an instance works with while it lives.
struct Life {
    instance: Instance,
    membership: Membership,
    commands: Vec<String>,
    /// Timers by tag.
    timers: BTreeMap<u64, Instant>,
    /// Commands that wait for the text that they name.
    execs: VecDeque<Exec>,
}

/// Runs a tool in a session until it leaves.
pub(super) async fn run(part: Part) {
    let status = Arc::clone(&part.status);
    let mut leave = part.leave.clone();
    let joined = tokio::select! {
        joined = Actor::join(part) => joined,
        _ = leave.wait_for(|leave| *leave) => return,
    };
    let mut actor = match joined {
        Ok(actor) => actor,
        Err(End::Failed(why)) => return status.say(Doing::Failed, why),
        Err(_) => return,
    };
    let end = tokio::select! {
        end = actor.work() => end,
        // Between calls the work ends by itself; a call gets this long.
        () = async {
            // The sender is dropped only by somebody who wants it to leave as well.
            drop(leave.wait_for(|leave| *leave).await);
            sleep(Duration::from_millis(limits::STOP_MS)).await;
        } => End::Left,
    };
    actor.leave(end).await;
}

impl Actor {
    /// Attaches to the session.
    async fn join(part: Part) -> Result<Self, End> {
        part.status.say(Doing::Starting, "joins the session");
        let connection = part.link.connect().await?;
        let (sender, mut mailbox) = mpsc::unbounded_channel();
        part.registry.add(connection, sender);
        let hello = Hello {
            session: SessionName::Id(part.session),
            kind: AttachmentKind::Tool,
            name: part.name.to_string(),
            takeover: Takeover::Watch,
            is_follower: false,
            resume: None,
        };
        part.link
            .send(connection, vec![ClientMessage::Hello(hello)])
            .await?;
        let mut mails = VecDeque::new();
        let me = loop {
            match mails.pop_front() {
                Some(Mail::Message(ServerMessage::Welcome(welcome))) => break welcome.attachment,
                Some(Mail::Message(ServerMessage::Error { error, .. })) => {
                    return Err(End::Failed(format!("the session refused it: {error}")));
                }
                Some(Mail::Message(_)) => {}
                Some(Mail::Closed(why)) => {
                    return Err(End::Failed(format!("the session refused it: {why}")));
                }
                None => mails.extend(mailbox.recv().await.ok_or(End::Gone)?),
            }
        };
        part.status.attach(me);
        let identity = Identity {
            tool: Arc::clone(&part.name),
            me,
            rights: part.rights.clone(),
            log: Arc::clone(&part.log),
            counters: Arc::default(),
        };
        let (seen, cursor) = part.backlog.start().await;
        let restarts = Restarts::new(part.restart_wait_ms);
        part.status.cursor.store(cursor, Ordering::Relaxed);
        Ok(Self {
            part,
            connection,
            mailbox,
            identity,
            desk: Desk::default(),
            mails,
            seen,
            suspect: None,
            restarts,
            history: String::new(),
        })
    }

    /// Keeps instances going until the tool leaves or is given up.
    async fn work(&mut self) -> End {
        loop {
            match self.live().await {
                Err(End::Stopped(stop)) => {
                    // What the calls before the last one asked for stands.
                    if let Err(end) = self.send_desk().await {
                        return end;
                    }
                    if let Err(end) = self.recover(&stop).await {
                        return end;
                    }
                }
                Err(end) => return end,
                Ok(()) => return End::Left,
            }
        }
    }

    /// Detaches; what the tool set goes with it.
    async fn leave(&mut self, end: End) {
        self.part.registry.remove(self.connection);
        if let End::Failed(why) = &end {
            self.part.log.push_host(why);
            self.part.status.say(Doing::Failed, why.clone());
        }
        if matches!(end, End::Gone) {
            return;
        }
        let mut farewell = self.desk.farewell();
        farewell.push(ClientMessage::Detach);
        // When the session is gone, so is the attachment.
        let _ = self.part.link.send(self.connection, farewell).await;
    }

    /// Runs one instance from its start until it ends.
    async fn live(&mut self) -> Result<(), End> {
        let mut life = self.start().await?;
        let note = std::mem::take(&mut self.history);
        self.part.status.say(Doing::Running, note);
        loop {
            self.tell(&mut life).await?;
            self.send_desk().await?;
            match self.next_wake(&life.timers).await {
                Wake::Leave => {
                    // Nothing may depend on it, so nothing is made of its failure.
                    drop(life.instance.stop().await);
                    return Ok(());
                }
                Wake::Mail(mails) => self.take_mails(&mut life, mails).await?,
                Wake::Entries => {}
                Wake::Timer(tag) => {
                    life.timers.remove(&tag);
                    self.enter(&mut life);
                    life.instance.fired(tag).await?;
                    self.carry_out(&mut life).await?;
                }
            }
        }
    }

    /// Waits for what is to be done next.
    async fn next_wake(&mut self, timers: &BTreeMap<u64, Instant>) -> Wake {
        let timer = timers.iter().map(|(tag, at)| (*at, *tag)).min();
        let fires = async {
            match timer {
                Some((at, tag)) => {
                    sleep_until(at).await;
                    tag
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.part.leave.wait_for(|leave| *leave) => Wake::Leave,
            mails = self.mailbox.recv() => Wake::Mail(mails),
            () = self.part.backlog.wait() => Wake::Entries,
            tag = fires => Wake::Timer(tag),
        }
    }

    /// Makes an instance and gives it its start and its first `reset`.
    async fn start(&mut self) -> Result<Life, End> {
        let name = &self.part.name;
        let len_max = self.part.loaded.manifest.memory_len;
        let memory_len = Arc::clone(&self.part.status.memory_len);
        let meter = Meter::new(len_max, memory_len, Arc::clone(&self.part.log));
        let guest = Guest::new(self.identity.clone(), Arc::clone(&self.seen), meter);
        let own = format!("tool.{name}.");
        let settings = self.seen.meta().settings.iter();
        let settings: Vec<(String, String)> = settings
            .filter(|(key, _)| key.starts_with(&own))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        self.count_call();
        let mut instance = Instance::new(&self.part.loaded, guest).await?;
        let refused = |error: &Error| {
            End::Failed(format!(
                "its start failed: {}; a new file, a grant or `apex tool reload {}` starts it",
                visible(&error.message, 500),
                self.part.name
            ))
        };
        let interest = instance
            .start(&settings)
            .await?
            .map_err(|error| refused(&error))?;
        let patterns = followable(&interest.follow, instance.guest());
        let patterns = patterns.map_err(|error| refused(&error))?;
        let membership = Membership::new(patterns, self.part.rights.clone(), &self.seen);
        let commands = instance
            .list_commands()
            .await?
            .into_iter()
            .map(|one| one.name)
            .collect();
        let timers = BTreeMap::new();
        let mut life = Life {
            instance,
            membership,
            commands,
            timers,
            execs: VecDeque::new(),
        };
        self.carry_out(&mut life).await?;
        self.tell_reset(&mut life).await?;
        Ok(life)
    }

    /// Tells the instance to read all that it follows anew.
    async fn tell_reset(&mut self, life: &mut Life) -> Result<(), End> {
        let Some(entry) = reset(life.membership.shards(), &self.seen) else {
            return Ok(());
        };
        self.apply(life, vec![Arc::new(entry)]).await
    }

    /// Tells the instance everything that waits, batch by batch.
    async fn tell(&mut self, life: &mut Life) -> Result<(), End> {
        loop {
            if let Some(suspect) = &mut self.suspect {
                if suspect.is_retold {
                    self.skip_suspect();
                    continue;
                }
                suspect.is_retold = true;
                let batch = suspect.batch.clone();
                self.tell_batch(life, &batch).await?;
                self.send_desk().await?;
            } else {
                match self.part.backlog.take() {
                    None => return Ok(()),
                    Some(Next::Entries(batch)) => {
                        batch
                            .told()
                            .for_each(|told| self.desk.note(told, &self.identity));
                        let suspect = Suspect {
                            batch: batch.clone(),
                            is_retold: false,
                        };
                        self.suspect = Some(suspect);
                        self.tell_batch(life, &batch).await?;
                        self.send_desk().await?;
                    }
                    Some(Next::Lost { state, upto }) => {
                        self.part
                            .log
                            .push_host("it was too slow: entries were replaced by a reset");
                        self.move_on(state, upto);
                        life.membership.renew(&self.seen);
                        self.tell_reset(life).await?;
                    }
                }
            }
            if *self.part.leave.borrow() {
                return Ok(());
            }
        }
    }

    async fn tell_batch(&mut self, life: &mut Life, batch: &Batch) -> Result<(), End> {
        let before = Arc::clone(&self.seen);
        let mut entries = Vec::with_capacity(batch.count());
        for told in batch.told() {
            life.membership.tell(told, &mut entries);
            life.execs.extend(told.exec().cloned());
        }
        // The state moves with the call, and back if the instance ends in it.
        self.seen = Arc::clone(&batch.state);
        let applied = self.apply(life, entries).await;
        if applied.is_err() {
            self.seen = before;
            return applied;
        }
        self.suspect = None;
        self.part.status.cursor.store(batch.upto, Ordering::Relaxed);
        self.run_commands(life).await
    }

    /// Calls `follower.apply` unless there is nothing to tell.
    async fn apply(&mut self, life: &mut Life, entries: Vec<Arc<Entry>>) -> Result<(), End> {
        if entries.is_empty() || !life.instance.is_follower() {
            return Ok(());
        }
        self.enter(life);
        let count = entries.len() as u64;
        let answer = life.instance.apply(entries).await?;
        self.part.status.entries.fetch_add(count, Ordering::Relaxed);
        if let Err(error) = answer {
            let message = visible(&error.message, 500);
            self.part
                .log
                .push_host(&format!("it could not take a batch: {message}"));
            self.desk.tell_user(&self.identity, &message);
        }
        self.carry_out(life).await
    }

    fn skip_suspect(&mut self) {
        let Some(Suspect { batch, .. }) = self.suspect.take() else {
            return;
        };
        let note = format!(
            "skipped entries {} to {}, on which it ended twice",
            batch.upto.saturating_sub(batch.count() as u64) + 1,
            batch.upto
        );
        self.part.log.push_host(&note);
        let history = self.part.status.words().1;
        self.part
            .status
            .say(Doing::Running, format!("{history}; {note}"));
        self.move_on(batch.state, batch.upto);
    }

    fn move_on(&mut self, state: Arc<State>, upto: u64) {
        self.seen = state;
        self.part.status.cursor.store(upto, Ordering::Relaxed);
    }

    /// Prepares a call: what it sees and how much is under way.
    fn enter(&self, life: &mut Life) {
        self.count_call();
        let guest = life.instance.guest();
        guest.state = Arc::clone(&self.seen);
        guest.undecided = self.desk.undecided();
        guest.timers = life.timers.len();
    }

    fn count_call(&self) {
        self.part.status.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the mail that woke the actor and what came with it.
    async fn take_mails(&mut self, life: &mut Life, mails: Option<Vec<Mail>>) -> Result<(), End> {
        self.mails.extend(mails.ok_or(End::Gone)?);
        while self.mails.len() < limits::MAIL_COUNT_MAX
            && let Ok(mails) = self.mailbox.try_recv()
        {
            self.mails.extend(mails);
        }
        // Entries that came before an outcome are told before it.
        self.tell(life).await?;
        let mut sent = Instant::now();
        while let Some(mail) = self.mails.pop_front() {
            match mail {
                Mail::Message(ServerMessage::ProposeResult { id, outcome }) => {
                    self.decide(life, id, outcome).await?;
                }
                mail => self.take_mail(mail)?,
            }
            if sent.elapsed() > Duration::from_micros(limits::SEND_US) {
                self.send_desk().await?;
                sent = Instant::now();
            }
        }
        Ok(())
    }

    /// Takes note of mail that needs no call.
    fn take_mail(&mut self, mail: Mail) -> Result<(), End> {
        match &mail {
            Mail::Message(ServerMessage::Reply {
                answer: Err(error), ..
            }) => {
                let words = format!("a request was refused: {error}");
                self.part.log.push_host(&words);
            }
            Mail::Message(ServerMessage::Error { error, .. }) => {
                let words = format!("the session says: {error}");
                self.part.log.push_host(&words);
            }
            Mail::Message(_) | Mail::Closed(_) => {}
        }
        self.miss(mail)
    }

    /// Tells what became of a proposal.
    async fn decide(
        &mut self,
        life: &mut Life,
        id: ProposalId,
        outcome: Outcome,
    ) -> Result<(), End> {
        let Some(deeds) = self.desk.decided(id) else {
            return Ok(());
        };
        self.enter(life);
        let outcome = changes::decided(outcome, &deeds);
        life.instance.decided(id.raw(), outcome.as_deref()).await?;
        self.carry_out(life).await
    }

    /// Runs the commands whose text has come as far as they name it.
    async fn run_commands(&mut self, life: &mut Life) -> Result<(), End> {
        while let Some(exec) = life.execs.front() {
            let version = self
                .seen
                .buffer(exec.buffer)
                .map(apex_core::buffer::Buffer::version);
            if version.is_some_and(|version| version < exec.version) {
                return Ok(());
            }
            let Some(exec) = life.execs.pop_front() else {
                return Ok(());
            };
            let word = exec
                .text
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned();
            if exec.is_look || !life.commands.contains(&word) {
                continue;
            }
            self.enter(life);
            let executed = events::executed(&exec, &self.seen);
            let answer = life.instance.run(&word, &executed).await?;
            match answer {
                Ok(true) => {}
                Ok(false) => self.desk.leave_running(exec.id.raw(), &exec, &self.seen),
                Err(error) => self
                    .desk
                    .command_failed(&self.identity, &exec, &self.seen, &error),
            }
            self.carry_out(life).await?;
        }
        Ok(())
    }

    /// Takes note of what the call that returned asked for; it leaves with [`Self::send_desk`].
    async fn carry_out(&mut self, life: &mut Life) -> Result<(), End> {
        let wishes = life.instance.take_wishes();
        let patterns = self.desk.take(wishes, &self.identity, &mut life.timers);
        if let Some(patterns) = patterns {
            let came = life.membership.change(patterns, &self.seen);
            if let Some(entry) = reset(came.into_iter(), &self.seen) {
                return Box::pin(self.apply(life, vec![Arc::new(entry)])).await;
            }
        }
        Ok(())
    }

    async fn send_desk(&mut self) -> Result<(), End> {
        let messages = self.desk.messages();
        if !messages.is_empty() {
            self.part.link.send(self.connection, messages).await?;
        }
        Ok(())
    }

    /// Waits before the next instance, or gives the tool up.
    async fn recover(&mut self, stop: &Stop) -> Result<(), End> {
        let most = limits::RESTART_COUNT_MAX;
        self.part.log.push_host(&stop.to_string());
        let Verdict::Wait { nth, wait } = self.restarts.next(Instant::now()) else {
            return Err(End::Failed(format!(
                "{stop}; given up after {most} restarts within {} s: a new file, a grant or \
                 `apex tool reload {}` starts it again",
                WINDOW.as_secs(),
                self.part.name
            )));
        };
        let batch = match &self.suspect {
            Some(suspect) if suspect.is_retold => " behind the entries on which it ended twice",
            Some(_) => " with the same entries once more",
            None => "",
        };
        let next = format!(
            "starts again{batch} in {} s (restart {nth} of {most} within {} s)",
            wait.as_secs(),
            WINDOW.as_secs()
        );
        self.part
            .status
            .say(Doing::Restarting, format!("{stop}; {next}"));
        self.history = format!("{stop}; it was started again{batch} (restart {nth} of {most})");
        self.part.status.restarts.fetch_add(1, Ordering::Relaxed);
        self.rest(wait).await
    }

    /// Waits while nothing runs; what is decided meanwhile is told to nobody.
    async fn rest(&mut self, wait: Duration) -> Result<(), End> {
        let until = Instant::now() + wait;
        for mail in std::mem::take(&mut self.mails) {
            self.miss(mail)?;
        }
        loop {
            let mails = tokio::select! {
                biased;
                _ = self.part.leave.wait_for(|leave| *leave) => return Err(End::Left),
                mails = self.mailbox.recv() => mails.ok_or(End::Gone)?,
                () = sleep_until(until) => return Ok(()),
            };
            for mail in mails {
                self.miss(mail)?;
            }
        }
    }

    /// Takes note of mail that needs no call, or that came while nothing runs.
    fn miss(&mut self, mail: Mail) -> Result<(), End> {
        match mail {
            Mail::Closed(why) => {
                let note = format!("the session closed its connection: {why}");
                return Err(End::Failed(note));
            }
            Mail::Message(ServerMessage::ProposeResult { id, .. }) => {
                drop(self.desk.decided(id));
            }
            Mail::Message(ServerMessage::Reply { request, answer }) => {
                self.desk.replied(request, answer.is_ok());
            }
            Mail::Message(_) => {}
        }
        Ok(())
    }
}
