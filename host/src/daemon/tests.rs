//! The daemon over its real socket: what peers do wrong ends their own connection and nothing
//! else; files, commands and sessions as a peer meets them.

mod bad_input;
mod files;
mod pipes;
mod sessions;

use std::path::PathBuf;
use std::time::Duration;

use apex_core::entry::AttachmentKind;
use apex_core::ids::{BufferId, RequestId};
use apex_core::message::{
    Answer, ClientMessage, ErrorMessage, Hello, Query, ServerMessage, SessionName, Takeover,
};
use apex_core::node::Node;
use apex_core::node::client::{Client, ClientEvent};
use apex_core::wire::{self, Frames, Preamble, PreambleReader};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{DaemonConfig, run};
use crate::config::Paths;
use crate::disk::testing::TempDir;
use crate::link::Listener;
use crate::seam::ToolHandle;

/// A hang is a failure; nothing waits this long otherwise.
const HANG: Duration = Duration::from_secs(30);

/// A daemon without tools in a directory of its own.
struct TestDaemon {
    dir: TempDir,
    paths: Paths,
    shutdown: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl TestDaemon {
    fn start() -> Self {
        Self::start_with(|_| {})
    }

    fn start_with(prepare: impl FnOnce(&Paths)) -> Self {
        let dir = TempDir::new();
        let home = dir.path().join("home");
        std::fs::create_dir(&home).unwrap();
        std::fs::write(home.join("a file"), "").unwrap();
        let root = dir.path().to_owned();
        let find = |name: &str| match name {
            "HOME" => Some(home.clone().into_os_string()),
            "XDG_CONFIG_HOME" | "XDG_STATE_HOME" | "XDG_RUNTIME_DIR" => {
                Some(root.join(name).into())
            }
            _ => None,
        };
        let paths = Paths::new(find, 0).unwrap();
        prepare(&paths);
        let listener = Listener::bind(&paths).unwrap();
        let (shutdown, asked) = oneshot::channel();
        let config = DaemonConfig {
            paths: paths.clone(),
            tools: ToolHandle::new().0,
            idle_exit: None,
        };
        let task = tokio::spawn(run(config, listener, async { drop(asked.await) }));
        Self {
            dir,
            paths,
            shutdown: Some(shutdown),
            task,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Ends the daemon as SIGTERM does.
    async fn end(mut self) -> TempDir {
        self.shutdown.take().unwrap().send(()).unwrap();
        self.task.await.unwrap();
        self.dir
    }

    async fn raw(&self) -> Peer {
        let stream = UnixStream::connect(self.paths.socket()).await.unwrap();
        let mut peer = Peer {
            stream,
            frames: Frames::default(),
        };
        peer.read_preamble().await;
        peer
    }

    async fn peer(&self) -> Peer {
        let mut peer = self.raw().await;
        peer.write(&Preamble::new("test").encode()).await;
        peer
    }

    async fn join(&self, kind: AttachmentKind, session: &str) -> Party {
        let hello = Hello {
            session: SessionName::Label(session.into()),
            kind,
            name: "test".into(),
            takeover: Takeover::Transfer,
            is_follower: true,
            resume: None,
        };
        let client = Client::new(hello);
        let mut party = Party {
            peer: self.peer().await,
            client,
            replies: Vec::new(),
        };
        let hello = party.client.hello();
        party.peer.send(&hello).await;
        party.until(|party| party.client.node().is_some()).await;
        party
    }

    async fn ui(&self) -> Party {
        self.join(AttachmentKind::Ui, "main").await
    }

    async fn tool(&self) -> Party {
        self.join(AttachmentKind::Tool, "main").await
    }
}

/// The bytes of one connection.
struct Peer {
    stream: UnixStream,
    frames: Frames,
}

impl Peer {
    async fn read_preamble(&mut self) {
        let mut reader = PreambleReader::default();
        let mut byte = [0];
        loop {
            self.stream.read_exact(&mut byte).await.unwrap();
            if let Some((preamble, noise, behind)) = reader.push(&byte).unwrap() {
                assert_eq!((noise, behind), (Vec::new(), Vec::new()));
                assert!(preamble.build.starts_with("apexd"));
                return;
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn send(&mut self, message: &ClientMessage) {
        self.write(&wire::encode_client(message)).await;
    }

    /// Returns the next message but for hash marks, which come whenever it is quiet; none when the
    /// daemon closed the connection.
    async fn receive(&mut self) -> Option<ServerMessage> {
        loop {
            match self.frames.next_server().unwrap() {
                Some(ServerMessage::HashMarks(_)) => continue,
                Some(message) => return Some(message),
                None => {}
            }
            let mut buffer = vec![0; 64 << 10];
            let reading = tokio::time::timeout(HANG, self.stream.read(&mut buffer));
            match reading.await.expect("the daemon answers").unwrap_or(0) {
                0 => return None,
                count => self.frames.push(&buffer[..count]),
            }
        }
    }

    /// Returns the error that the daemon says before it closes the connection.
    async fn refusal(&mut self) -> ErrorMessage {
        let Some(ServerMessage::Error { error, .. }) = self.receive().await else {
            panic!("no error before the close");
        };
        assert_eq!(self.receive().await, None);
        error
    }

    async fn ask(&mut self, message: ClientMessage) -> Result<Answer, ErrorMessage> {
        self.send(&message).await;
        loop {
            if let ServerMessage::Reply { answer, .. } = self.receive().await.unwrap() {
                return answer;
            }
        }
    }

    async fn text(&mut self, buffer: &str) -> Result<String, ErrorMessage> {
        let session = Some(SessionName::Label("main".into()));
        let query = Query::Text(buffer.into());
        let mut answer = self
            .ask(ClientMessage::Query {
                request: RequestId::new(77),
                session,
                query,
            })
            .await?;
        let mut text = Vec::new();
        loop {
            let Answer::Piece { bytes, is_last } = answer else {
                panic!("no piece")
            };
            text.extend_from_slice(&bytes);
            if is_last {
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
            let Some(ServerMessage::Reply { answer: next, .. }) = self.receive().await else {
                panic!("no further piece");
            };
            answer = next?;
        }
    }

    async fn is_served(&mut self) -> bool {
        self.send(&ClientMessage::Ping(7)).await;
        self.receive().await == Some(ServerMessage::Pong(7))
    }
}

/// An attachment: the core's client over a connection.
struct Party {
    peer: Peer,
    client: Client,
    replies: Vec<(RequestId, Result<Answer, ErrorMessage>)>,
}

impl Party {
    fn node(&mut self) -> &mut Node {
        self.client.node_mut().unwrap()
    }

    async fn send(&mut self, message: ClientMessage) {
        let mut out = Vec::new();
        self.client.flush(&mut out);
        out.push(message);
        for message in out {
            self.peer.send(&message).await;
        }
    }

    /// Takes one message and says what is to be said in return.
    async fn step(&mut self) -> Vec<ClientEvent> {
        let message = self.peer.receive().await.expect("the connection stays");
        let mut out = Vec::new();
        let events = self.client.receive(message, &mut out);
        self.client.flush(&mut out);
        for message in out {
            self.peer.send(&message).await;
        }
        for event in &events {
            if let ClientEvent::Reply { request, answer } = event {
                self.replies.push((*request, answer.clone()));
            }
        }
        events
    }

    async fn until(&mut self, mut is_done: impl FnMut(&Self) -> bool) {
        while !is_done(self) {
            self.step().await;
        }
    }

    /// Sends a request and returns its answer.
    async fn ask(
        &mut self,
        message: impl FnOnce(RequestId) -> ClientMessage,
    ) -> Result<Answer, ErrorMessage> {
        let request = self.client.next_request();
        self.send(message(request)).await;
        self.reply(request).await
    }

    /// Returns the next answer to a request.
    async fn reply(&mut self, request: RequestId) -> Result<Answer, ErrorMessage> {
        self.until(|party| party.replies.iter().any(|(of, _)| *of == request))
            .await;
        let at = self
            .replies
            .iter()
            .position(|(of, _)| *of == request)
            .unwrap();
        self.replies.remove(at).1
    }

    async fn open(&mut self, path: &str) -> Result<(BufferId, bool), ErrorMessage> {
        let (directory, path) = ("/".to_owned(), path.to_owned());
        match self
            .ask(|request| ClientMessage::FileOpen {
                request,
                directory,
                path,
            })
            .await?
        {
            Answer::Opened { buffer, is_new } => Ok((buffer, is_new)),
            other => panic!("not opened: {other:?}"),
        }
    }

    fn text_of(&self, buffer: BufferId) -> String {
        let node = self.client.node().unwrap();
        node.state()
            .buffer(buffer)
            .map(|buffer| buffer.text().to_string())
            .unwrap_or_default()
    }
}

fn test<F: Future>(future: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}
