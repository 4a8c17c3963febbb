//! Peers of the daemon that a test plays itself, on the real socket: [`Raw`] says whatever bytes it
//! is told to, [`Peer`] is an honest party with a replica of its own.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use apex_core::buffer::Buffer;
use apex_core::edit::Splice;
use apex_core::entry::AttachmentKind;
use apex_core::ids::{AttachmentId, BufferId, ProposalId, RequestId, Shard, Version};
use apex_core::log::Record;
use apex_core::message::{
    Answer, ClientMessage, ErrorMessage, Hello, Query, ServerMessage, SessionName, Takeover,
};
use apex_core::node::client::{Client, ClientEvent};
use apex_core::proposal::{Change, Outcome};
use apex_core::state::State;
use apex_core::text::Span;
use apex_core::wire::{Frames, Preamble, PreambleReader, encode_client};

use super::PATIENCE;
use super::home::{Home, text};

/// A connection without manners.
#[derive(Debug)]
pub struct Raw {
    stream: UnixStream,
    preamble: PreambleReader,
    frames: Option<Frames>,
    /// Where a read goes.
    room: Box<[u8]>,
}

impl Raw {
    /// Connects, and says nothing.
    #[must_use]
    pub fn connect(home: &Home) -> Self {
        let stream = UnixStream::connect(home.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            preamble: PreambleReader::default(),
            frames: None,
            room: vec![0; 64 << 10].into(),
        }
    }

    /// Connects and introduces itself as a program of this build.
    #[must_use]
    pub fn greet(home: &Home) -> Self {
        let mut raw = Self::connect(home);
        raw.bytes(&Preamble::new("apex-tests").encode());
        raw
    }

    /// Sends bytes. The daemon may have closed already; what it said then is there to be read.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).ok();
    }

    /// Sends a message.
    pub fn say(&mut self, message: &ClientMessage) {
        self.bytes(&encode_client(message));
    }

    /// Ends what it sends; it still reads.
    pub fn end(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).ok();
    }

    /// Returns the next message of the daemon; none when it closed the connection.
    ///
    /// # Panics
    /// When nothing comes for a long time, or it makes no sense.
    #[track_caller]
    pub fn hear(&mut self) -> Option<ServerMessage> {
        self.listen()
            .unwrap_or_else(|error| panic!("the daemon says nothing: {error}"))
    }

    /// Returns the next message that was read already.
    fn heard(&mut self) -> Option<ServerMessage> {
        self.frames.as_mut()?.next_server().unwrap()
    }

    fn listen(&mut self) -> std::io::Result<Option<ServerMessage>> {
        loop {
            if let Some(message) = self.heard() {
                return Ok(Some(message));
            }
            let len = match self.stream.read(&mut self.room) {
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
                Err(error) => return Err(error),
            };
            match &mut self.frames {
                _ if len == 0 => return Ok(None),
                Some(frames) => frames.push(&self.room[..len]),
                None => {
                    let found = self.preamble.push(&self.room[..len]).unwrap();
                    self.frames = found.map(|(_, _, behind)| Frames::new(behind));
                }
            }
        }
    }

    /// Reads to the end of the connection, and returns the error that the daemon gave for it.
    ///
    /// # Panics
    /// When it gave none.
    #[track_caller]
    pub fn last_error(&mut self) -> ErrorMessage {
        let mut last = None;
        while let Some(message) = self.hear() {
            if let ServerMessage::Error { error, .. } = message {
                last = Some(error);
            }
        }
        last.expect("the daemon closed without an error")
    }
}

/// A party of a session.
#[derive(Debug)]
pub struct Peer {
    raw: Raw,
    client: Client,
    /// Entries of others, as they came.
    pub records: Vec<Arc<Record>>,
    /// Errors that no request asked for.
    pub errors: Vec<ErrorMessage>,
    outcomes: BTreeMap<ProposalId, Outcome>,
    answers: BTreeMap<RequestId, Result<Answer, ErrorMessage>>,
}

impl Peer {
    /// Joins session `main` as a tool that follows, and returns once it has the state.
    #[must_use]
    pub fn follow(home: &Home) -> Self {
        Self::join(home, AttachmentKind::Tool, Takeover::Watch)
    }

    /// Joins session `main`, and returns once it has the state.
    #[must_use]
    pub fn join(home: &Home, kind: AttachmentKind, takeover: Takeover) -> Self {
        let client = Client::new(Hello {
            session: SessionName::Label("main".into()),
            kind,
            name: "test".into(),
            takeover,
            is_follower: true,
            resume: None,
        });
        let mut raw = Raw::greet(home);
        raw.say(&client.hello());
        let mut peer = Self {
            raw,
            client,
            records: Vec::new(),
            errors: Vec::new(),
            outcomes: BTreeMap::new(),
            answers: BTreeMap::new(),
        };
        peer.wait(|peer| peer.client.node().map(drop));
        peer
    }

    /// Takes one message of the daemon, and answers it if it must be.
    ///
    /// # Panics
    /// When the daemon says nothing, or goes.
    #[track_caller]
    fn step(&mut self) {
        let message = self.listen();
        let mut out = Vec::new();
        self.take(message, &mut out);
        self.say_all(&out);
    }

    /// Takes all messages that came in one go, and answers them in one go, as a program does.
    #[track_caller]
    fn step_far(&mut self) {
        let mut next = Some(self.listen());
        let mut out = Vec::new();
        while let Some(message) = next {
            self.take(message, &mut out);
            next = self.raw.heard();
        }
        self.say_all(&out);
    }

    #[track_caller]
    fn listen(&mut self) -> ServerMessage {
        match self.raw.listen() {
            Ok(message) => message.expect("the daemon keeps the connection"),
            Err(error) => panic!("the daemon says nothing: {error}; {}", self.describe()),
        }
    }

    fn take(&mut self, message: ServerMessage, out: &mut Vec<ClientMessage>) {
        for event in self.client.receive(message, out) {
            match event {
                ClientEvent::Entries(records) => self.records.extend(records),
                ClientEvent::Reply { request, answer } => {
                    self.answers.insert(request, answer);
                }
                ClientEvent::Decided { id, outcome } => {
                    self.outcomes.insert(id, outcome);
                }
                ClientEvent::Error(error) => self.errors.push(error),
                ClientEvent::Diverged(divergence) => panic!("a state went wrong: {divergence:?}"),
                ClientEvent::Welcome
                | ClientEvent::LeadershipChanged
                | ClientEvent::Overtaken { .. }
                | ClientEvent::Resumed
                | ClientEvent::Recovered(_)
                | ClientEvent::FollowUp(_) => {}
            }
        }
    }

    fn say_all(&mut self, out: &[ClientMessage]) {
        let bytes: Vec<u8> = out.iter().flat_map(encode_client).collect();
        self.raw.bytes(&bytes);
    }

    /// Says what a test that waits in vain has before it.
    fn describe(&self) -> String {
        let Some(node) = self.client.node() else {
            return "no snapshot came".into();
        };
        let all = node.state().buffers().map(|(id, buffer)| {
            let text = buffer.text();
            let end = text.slice(Span::new(text.len().saturating_sub(200), text.len()));
            let (name, version, saved) = (buffer.name(), buffer.version(), buffer.saved());
            let cause = saved.map(|saved| (saved.cause, saved.version));
            format!("\n{id} {name:?} version {version} saved {cause:?}: {end:?}")
        });
        all.collect()
    }

    /// Follows until `look` finds something.
    #[track_caller]
    pub fn wait<T>(&mut self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            self.step();
        }
    }

    /// Follows until `look` finds something, which it does only after all that came in one go.
    #[track_caller]
    pub fn wait_far<T>(&mut self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            self.step_far();
        }
    }

    /// Its own replica.
    ///
    /// # Panics
    /// Before it has one.
    #[must_use]
    pub fn state(&self) -> &State {
        self.client.node().expect("it has joined").state()
    }

    /// Its attachment.
    ///
    /// # Panics
    /// Before it has joined.
    #[must_use]
    pub fn attachment(&self) -> AttachmentId {
        self.client.node().expect("it has joined").attachment()
    }

    /// The client, to lead with.
    pub const fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The connection, to say what no client would.
    pub const fn raw(&mut self) -> &mut Raw {
        &mut self.raw
    }

    /// Ships what was appended to the node.
    pub fn flush(&mut self) {
        let mut out = Vec::new();
        self.client.flush(&mut out);
        self.say_all(&out);
    }

    /// Returns the buffer of a file.
    #[must_use]
    pub fn buffer(&self, path: &Path) -> Option<(BufferId, &Buffer)> {
        let id = self.state().buffer_named(text(path))?;
        Some((id, self.state().buffer(id)?))
    }

    /// Waits until the buffer of a file is so, and returns its id.
    #[track_caller]
    pub fn wait_buffer(&mut self, path: &Path, is_so: impl Fn(&Buffer) -> bool) -> BufferId {
        self.wait(|peer| {
            let (id, buffer) = peer.buffer(path)?;
            is_so(buffer).then_some(id)
        })
    }

    /// Returns who leads a shard, as far as this party has heard.
    #[must_use]
    pub fn leader(&self, shard: Shard) -> Option<AttachmentId> {
        self.state().meta().lease(shard).map(|lease| lease.holder)
    }

    /// Waits until a party of that name attached, and returns its id.
    #[track_caller]
    pub fn wait_attached(&mut self, name: &str) -> AttachmentId {
        self.wait(|peer| {
            let mut all = peer.state().meta().attachments.iter();
            all.find(|(_, party)| party.name.starts_with(name))
                .map(|(id, _)| *id)
        })
    }

    /// Proposes a change and waits for the decision.
    #[track_caller]
    pub fn propose(&mut self, changes: Vec<Change>) -> Outcome {
        let (id, message) = self.client.propose(changes).expect("it has joined");
        self.raw.say(&message);
        self.wait(|peer| peer.outcomes.get(&id).cloned())
    }

    /// Proposes an edit of a buffer's newest version.
    #[track_caller]
    pub fn edit(&mut self, path: &Path, at: Span, new: &str) -> Outcome {
        let (buffer, base) = {
            let (id, buffer) = self.buffer(path).expect("it is open");
            (id, buffer.version())
        };
        let splices = vec![Splice::new(at, new)];
        self.propose(vec![Change::Edit {
            buffer,
            base,
            splices,
        }])
    }

    /// Sends a request and waits for its answer.
    #[track_caller]
    pub fn ask(
        &mut self,
        message: impl FnOnce(RequestId) -> ClientMessage,
    ) -> Result<Answer, ErrorMessage> {
        let request = self.client.next_request();
        self.raw.say(&message(request));
        self.wait(|peer| peer.answers.get(&request).cloned())
    }

    /// Asks a question of the session.
    #[track_caller]
    pub fn query(&mut self, query: Query) -> Result<Answer, ErrorMessage> {
        self.ask(|request| ClientMessage::Query {
            request,
            session: None,
            query,
        })
    }

    /// Returns the version of a file's buffer.
    #[must_use]
    pub fn version(&self, path: &Path) -> Option<Version> {
        self.buffer(path).map(|(_, buffer)| buffer.version())
    }
}
