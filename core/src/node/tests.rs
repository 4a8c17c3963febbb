//! Sessions in memory: one authority, any number of clients, streams that the test can hold back.

mod asked;
mod bounds;
mod each;
mod hashing;
mod leading;
mod leases;
mod marks;
mod naming;
mod overtaken;
mod proposing;
mod recovering;
mod rejoining;
mod rewriting;
mod tools;
mod undoing;

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};

use super::authority::{Authority, Genesis, Output};
use super::client::{Client, ClientEvent, ui_hello};
use super::windows::Placement;
use super::*;
use crate::bytes::Bytes;
use crate::entry::{ApplyLimits, AttachmentKind, BufferKind};
use crate::ids::{ConnectionId, Incarnation, Millis, Secret, SessionId, ViewId};
use crate::journal::{Disk, Journal};
use crate::limits;
use crate::message::{
    ClientMessage, ErrorCode, ErrorMessage, Hello, ServerMessage, SessionName, Takeover,
};
use crate::wire::{Frames, encode_client, encode_server};

/// One peer with its two streams.
pub(super) struct Peer {
    pub(super) client: Client,
    connection: ConnectionId,
    to_daemon: VecDeque<ClientMessage>,
    to_client: VecDeque<ServerMessage>,
    pub(super) events: Vec<ClientEvent>,
    /// Messages to the daemon stay on the stream.
    pub(super) is_held: bool,
    /// Messages of the daemon stay on the stream.
    pub(super) is_asleep: bool,
}

impl Peer {
    pub(super) fn node(&mut self) -> &mut Node {
        self.client.node_mut().unwrap()
    }

    pub(super) fn flush(&mut self) {
        let mut out = Vec::new();
        self.client.flush(&mut out);
        self.to_daemon.extend(out);
    }

    pub(super) fn say(&mut self, message: ClientMessage) {
        self.to_daemon.push_back(message);
    }
}

/// An authority with its peers and a clock.
pub(super) struct World {
    pub(super) authority: Authority,
    pub(super) peers: BTreeMap<usize, Peer>,
    pub(super) now: Millis,
    pub(super) host: Vec<Output>,
    /// Whether every change is marked at once, so that each test is one about false alarms.
    pub(super) is_marking: bool,
    /// The daemon's journal; all is kept at once unless `is_slow`.
    pub(super) disk: Disk,
    pub(super) is_slow: bool,
    next: usize,
}

impl World {
    pub(super) fn new() -> Self {
        let genesis = Genesis {
            session: SessionId(uuid::Uuid::from_u128(1)),
            incarnation: Incarnation(uuid::Uuid::from_u128(2)),
            label: String::from("main"),
            limits: ApplyLimits::default(),
        };
        let mut authority = Authority::new(genesis);
        authority
            .node_mut()
            .init_session("/home/", "a\nb/\n")
            .unwrap();
        authority.settle(Millis::default(), &mut Vec::new());
        let mut world = Self {
            authority,
            peers: BTreeMap::new(),
            now: Millis::new(1),
            host: Vec::new(),
            is_marking: true,
            disk: Disk::new(),
            is_slow: false,
            next: 1,
        };
        world.begin_journal();
        world
    }

    /// Begins a journal, or goes on with one after a restart.
    pub(super) fn begin_journal(&mut self) {
        let checkpoint = self.authority.begin_journal();
        self.disk.checkpoint(checkpoint);
        self.keep(usize::MAX);
    }

    /// Writes and syncs some of what the authority handed over.
    pub(super) fn keep(&mut self, count: usize) {
        self.disk.write(count);
        self.disk.sync();
        self.note_kept();
    }

    pub(super) fn note_kept(&mut self) {
        let mut out = Vec::new();
        self.authority.note_kept(self.disk.marks(), &mut out);
        self.deliver(out);
    }

    pub(super) fn join(&mut self, kind: AttachmentKind, takeover: Takeover) -> usize {
        let mut hello = ui_hello(SessionName::Label("main".into()), "test".into(), takeover);
        hello.kind = kind;
        self.join_as(hello)
    }

    pub(super) fn join_as(&mut self, hello: Hello) -> usize {
        let index = self.next;
        self.next += 1;
        let connection = ConnectionId::new(index as u64);
        let client = Client::new(hello);
        let to_daemon = VecDeque::from([client.hello()]);
        let (to_client, events) = (VecDeque::new(), Vec::new());
        let (is_held, is_asleep) = (false, false);
        let peer = Peer {
            client,
            connection,
            to_daemon,
            to_client,
            events,
            is_held,
            is_asleep,
        };
        self.peers.insert(index, peer);
        self.run();
        index
    }

    pub(super) fn ui(&mut self) -> usize {
        self.join(AttachmentKind::Ui, Takeover::Transfer)
    }

    pub(super) fn peer(&mut self, index: usize) -> &mut Peer {
        self.peers.get_mut(&index).unwrap()
    }

    fn deliver(&mut self, mut outputs: Vec<Output>) {
        for (place, item) in self.authority.take_items() {
            self.disk.put(place, item);
        }
        if !self.is_slow {
            self.disk.write(usize::MAX);
            self.disk.sync();
            self.authority.note_kept(self.disk.marks(), &mut outputs);
        }
        for output in outputs {
            match output {
                Output::Send(connection, message) => self.send(connection, &message),
                Output::Publish { except, records } => {
                    let entries: Vec<(Shard, Bytes)> =
                        records.iter().map(|r| (r.shard, r.bytes.clone())).collect();
                    let followers: Vec<_> = self.authority.followers().collect();
                    for connection in followers.into_iter().filter(|c| Some(*c) != except) {
                        self.send(connection, &ServerMessage::Entries(entries.clone()));
                    }
                }
                Output::Welcome(connection, welcome, mut snapshot) => {
                    self.send(connection, &ServerMessage::Welcome(welcome));
                    while let Some(snapshot) = snapshot.as_mut().filter(|all| all.left() > 0) {
                        let mut piece = Vec::new();
                        snapshot.write(100, &mut piece);
                        self.send(connection, &ServerMessage::Snapshot(Bytes::from(piece)));
                    }
                }
                Output::Marks { except, marks } => {
                    let followers: Vec<_> = self.authority.followers().collect();
                    for connection in followers.into_iter().filter(|c| Some(*c) != except) {
                        self.send(connection, &ServerMessage::HashMarks(marks.clone()));
                    }
                }
                other => self.host.push(other),
            }
        }
    }

    fn send(&mut self, connection: ConnectionId, message: &ServerMessage) {
        // Through its bytes, as on a socket.
        let mut frames = Frames::new(encode_server(message));
        let decoded = frames.next_server().unwrap().unwrap();
        assert_eq!(&decoded, message);
        if let Some(peer) = self
            .peers
            .values_mut()
            .find(|peer| peer.connection == connection)
        {
            peer.to_client.push_back(decoded);
        }
    }

    /// Delivers messages until every stream that is not held is empty.
    pub(super) fn run(&mut self) {
        for round in 0.. {
            let mut is_idle = true;
            for index in self.peers.keys().copied().collect::<Vec<_>>() {
                is_idle &= !self.step_daemon(index);
                is_idle &= !self.step_client(index);
            }
            if is_idle {
                return;
            }
            assert!(round < 100_000, "messages lead to messages without end");
        }
    }

    fn step_daemon(&mut self, index: usize) -> bool {
        let peer = self.peers.get_mut(&index).unwrap();
        if peer.is_held {
            return false;
        }
        let Some(message) = peer.to_daemon.pop_front() else {
            return false;
        };
        let decoded = Frames::new(encode_client(&message))
            .next_client()
            .unwrap()
            .unwrap();
        self.receive(index, decoded);
        true
    }

    fn step_client(&mut self, index: usize) -> bool {
        let peer = self.peers.get_mut(&index).unwrap();
        if peer.is_asleep {
            return false;
        }
        let Some(message) = peer.to_client.pop_front() else {
            return false;
        };
        let mut out = Vec::new();
        let events = peer.client.receive(message, &mut out);
        peer.events.extend(events);
        peer.to_daemon.extend(out);
        true
    }

    /// Gives the authority a message of a peer ahead of those on its stream.
    pub(super) fn receive(&mut self, index: usize, message: ClientMessage) {
        let peer = self.peer(index);
        let from = (
            peer.connection,
            Secret(uuid::Uuid::from_u128(index as u128)),
        );
        let mut out = Vec::new();
        self.authority.receive(self.now, from, message, &mut out);
        if self.is_marking {
            self.authority.mark_some(&mut out);
        }
        self.deliver(out);
    }

    /// Lets a peer hear that what it appended to a shard was refused.
    pub(super) fn refuse(&mut self, index: usize, shard: Shard) {
        let error = ErrorMessage::new(ErrorCode::BadOp, "for the test");
        let shards = Vec::from([shard]);
        let peer = self.peer(index);
        let mut out = Vec::new();
        let message = ServerMessage::Error { error, shards };
        let events = peer.client.receive(message, &mut out);
        peer.events.extend(events);
        peer.to_daemon.extend(out);
    }

    /// Lets time pass and delivers what follows.
    pub(super) fn pass(&mut self, ms: u64) {
        self.now = self.now.after(ms);
        let mut out = Vec::new();
        self.authority.tick(self.now, &mut out);
        self.deliver(out);
        self.run();
    }

    /// The daemon ends: its process, or with the power, after which the first `lucky` lines that
    /// were only written are there nevertheless. Another run of it goes on.
    pub(super) fn crash(&mut self, lucky: Option<usize>) {
        match lucky {
            None => self.disk.kill(),
            Some(lucky) => self.disk.cut_power(lucky),
        }
        for peer in self.peers.values_mut() {
            self.next += 1;
            peer.connection = ConnectionId::new(1000 + self.next as u64);
            peer.client.lose_connection();
            peer.to_daemon.clear();
            peer.to_client.clear();
        }
        self.next += 1;
        let run = Incarnation(uuid::Uuid::from_u128(1000 + self.next as u128));
        let kept = self.disk.kept().unwrap();
        self.authority = Authority::recover(kept, run, self.now).unwrap();
        self.begin_journal();
    }

    pub(super) fn disconnect(&mut self, index: usize) {
        let connection = self.peers.remove(&index).unwrap().connection;
        let mut out = Vec::new();
        self.authority.disconnect(self.now, connection, &mut out);
        self.deliver(out);
        self.run();
    }

    /// Ends a peer's connection with all that is on its streams; the daemon notices, or not yet.
    pub(super) fn cut(&mut self, index: usize, is_known: bool) {
        self.next += 1;
        let fresh = ConnectionId::new(1000 + self.next as u64);
        let peer = self.peer(index);
        let old = core::mem::replace(&mut peer.connection, fresh);
        peer.client.lose_connection();
        peer.to_daemon.clear();
        peer.to_client.clear();
        if is_known {
            let mut out = Vec::new();
            self.authority.disconnect(self.now, old, &mut out);
            self.deliver(out);
            self.run();
        }
    }

    /// Lets a peer come back on a new connection.
    pub(super) fn rejoin(&mut self, index: usize) {
        let peer = self.peer(index);
        peer.to_daemon.clear();
        let hello = peer.client.rejoin();
        peer.say(hello);
        self.run();
    }

    /// Makes a file buffer with a window, led by a peer.
    pub(super) fn open(&mut self, index: usize, name: &str) -> (BufferId, ViewId) {
        let peer = self.peer(index);
        let node = peer.node();
        let buffer = node.new_buffer(BufferKind::File, name).unwrap();
        let window = node.new_window(buffer, Placement::Active).unwrap();
        peer.flush();
        self.run();
        (buffer, ViewId::Body(window))
    }

    pub(super) fn type_text(&mut self, index: usize, view: ViewId, text: &str) {
        let peer = self.peer(index);
        let node = peer.node();
        let group = node.new_group();
        for c in text.chars() {
            node.type_text(view, &c.to_string(), group).unwrap();
        }
        node.refresh_tags().unwrap();
        peer.flush();
    }

    /// Checks that every replica that is awake equals the daemon's, and a replay of its log.
    pub(super) fn check(&self) {
        let truth = self.authority.node();
        if truth.log().floor(Shard::Meta) == Some(Seq::new(1)) {
            let mut replay = State::new();
            for shard in truth.log().shards() {
                for record in truth.log().after(shard, Seq::default()) {
                    if shard == Shard::Meta || replay.applied(shard).is_some() {
                        replay.apply(shard, &record.entry).unwrap();
                    }
                }
            }
            assert_eq!(replay.hash(), truth.state().hash(), "replay equals live");
        }
        if !self.is_slow {
            self.check_kept();
        }
        if self.is_marking {
            let is_alarm = |event: &ClientEvent| matches!(event, ClientEvent::Diverged(_));
            let mut events = self.peers.values().flat_map(|peer| &peer.events);
            assert!(!events.any(is_alarm), "a false alarm");
            let is_alarm = |output: &Output| matches!(output, Output::Diverged(_));
            assert!(!self.host.iter().any(is_alarm), "a false alarm");
        }
        for peer in self
            .peers
            .values()
            .filter(|peer| !peer.is_asleep && !peer.is_held)
        {
            let Some(node) = peer.client.node() else {
                continue;
            };
            assert_eq!(node.log().marks(), truth.log().marks());
            assert_eq!(node.state().hash(), truth.state().hash());
        }
    }

    /// Checks that a restart would find all that there is: the shards that are not the metalog.
    fn check_kept(&self) {
        let run = Incarnation(uuid::Uuid::from_u128(99));
        let found = Authority::recover(self.disk.kept().unwrap(), run, self.now).unwrap();
        let (truth, found) = (self.authority.node(), found.node());
        let shards = truth.log().shards().filter(|shard| *shard != Shard::Meta);
        for shard in shards {
            assert_eq!(found.log().mark(shard), truth.log().mark(shard));
            let hash = |node: &Node| node.state().shard_hash(shard);
            assert_eq!(hash(found), hash(truth), "{shard}");
        }
    }

    pub(super) fn text(&self, buffer: BufferId) -> String {
        self.authority
            .node()
            .state()
            .buffer(buffer)
            .unwrap()
            .text()
            .to_string()
    }

    pub(super) fn is_leading(&mut self, index: usize) -> bool {
        self.peer(index).client.is_leading()
    }

    pub(super) fn transfer_time(&self) -> u64 {
        limits::TRANSFER_MS
    }
}
