//! The connection to the daemon, the only socket of this crate.
//!
//! 1. No task and no channel: whoever waits for a message reads the socket in place, so that a
//!    message costs one wake-up and one read, and a key press is on its way when `send` returns.
//! 2. What the socket does not take at once is kept here, in order, and goes out while somebody
//!    receives. A daemon that reads nothing is an error at [`OUT_LEN_MAX`], not endless memory.
//! 3. A peer that hangs up may have said why. So a failed write is not reported by `send`: what
//!    the peer sent before is received first, and then the end.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apex_core::message::{ClientMessage, ServerMessage};
use apex_core::wire::{self, Frames, Preamble, PreambleReader, WireError};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use runtime::{RuntimeDir, RuntimeDirError};
use start::StartError;

pub mod runtime;

pub mod start;

#[cfg(test)]
pub(crate) mod scratch;

/// How long connecting and the exchange of preambles may take together, in milliseconds.
pub const CONNECT_MS: u64 = 1_000;
/// Bytes that may wait for the daemon to read them.
pub const OUT_LEN_MAX: usize = 64 << 20;
/// Bytes read at once: what a Unix socket holds by default.
const READ_LEN: usize = 208 << 10;
/// How long to wait when the daemon's queue of connections is full, in milliseconds.
const BACKLOG_POLL_MS: u64 = 10;

/// A connection to a daemon that speaks our protocol.
pub struct Link {
    stream: UnixStream,
    peer: Preamble,
    frames: Frames,
    chunk: Box<[u8]>,
    out: VecDeque<u8>,
    write_error: Option<io::Error>,
}

impl Link {
    /// Connects to the daemon of a runtime directory and checks that both sides understand each
    /// other; all of it within [`CONNECT_MS`].
    ///
    /// # Errors
    /// [`LinkError::NoDaemon`] when none runs; otherwise why there is no connection.
    pub async fn connect(dir: &RuntimeDir) -> Result<Self, LinkError> {
        let socket = dir.socket();
        if !dir.check()? {
            return Err(LinkError::NoDaemon { socket });
        }
        let open = async {
            let stream = connect_stream(&socket).await?;
            Self::open(stream, &socket).await
        };
        match timeout(Duration::from_millis(CONNECT_MS), open).await {
            Ok(result) => result,
            Err(_) => Err(LinkError::Silent { socket }),
        }
    }

    async fn open(stream: UnixStream, socket: &Path) -> Result<Self, LinkError> {
        let ours = Preamble::new(concat!("apex ", env!("CARGO_PKG_VERSION")));
        let mut link = Self {
            stream,
            peer: ours.clone(),
            frames: Frames::default(),
            chunk: vec![0; READ_LEN].into_boxed_slice(),
            out: ours.encode().into(),
            write_error: None,
        };
        let mut reader = PreambleReader::default();
        let no_apexd = || LinkError::NotApexd {
            socket: socket.into(),
        };
        loop {
            match link.try_read()? {
                Some(0) => return Err(no_apexd()),
                Some(len) => {
                    let found = reader.push(&link.chunk[..len]).map_err(|_| no_apexd())?;
                    if let Some((theirs, _, behind)) = found {
                        link.peer = theirs;
                        link.frames = Frames::new(behind);
                        break;
                    }
                }
                None => link.wait().await?,
            }
        }
        if ours.check(&link.peer).is_err() {
            return Err(LinkError::Mismatch {
                ours,
                theirs: link.peer,
            });
        }
        link.flush().await?;
        Ok(link)
    }

    /// Returns what the daemon said of itself.
    #[must_use]
    pub const fn peer(&self) -> &Preamble {
        &self.peer
    }

    /// Waits for the next message, and writes what waits to be written meanwhile. Nothing is lost
    /// when the future is dropped before it is done.
    ///
    /// # Errors
    /// [`LinkError::Closed`] at the end, [`LinkError::Io`] and [`LinkError::Wire`] when the
    /// connection is of no use any more.
    pub async fn receive(&mut self) -> Result<ServerMessage, LinkError> {
        loop {
            if let Some(message) = self.try_receive()? {
                return Ok(message);
            }
            self.wait().await?;
        }
    }

    /// Returns the next message if it is there already, as far as the runtime has looked at the
    /// socket: a loop that never waits must yield before.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn try_receive(&mut self) -> Result<Option<ServerMessage>, LinkError> {
        loop {
            if let Some(message) = self.frames.next_server()? {
                return Ok(Some(message));
            }
            match self.try_read()? {
                Some(0) => return Err(LinkError::Closed(self.write_error.take())),
                Some(len) => self.frames.push(&self.chunk[..len]),
                None => return Ok(None),
            }
        }
    }

    /// Sends a message: at once as far as the socket takes it, the rest while somebody receives
    /// or flushes. A connection that ended is reported by [`Self::receive`].
    ///
    /// # Errors
    /// [`LinkError::Stalled`] when the daemon has not read for [`OUT_LEN_MAX`] bytes.
    pub fn send(&mut self, message: &ClientMessage) -> Result<(), LinkError> {
        if self.write_error.is_some() {
            return Ok(());
        }
        if self.out.len() > OUT_LEN_MAX {
            return Err(LinkError::Stalled {
                len: self.out.len(),
            });
        }
        let bytes = wire::encode_client(message);
        let mut rest = bytes.as_slice();
        while self.out.is_empty() && !rest.is_empty() {
            match self.stream.try_write(rest) {
                Ok(len) => rest = &rest[len..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.write_error = Some(error);
                    return Ok(());
                }
            }
        }
        self.out.extend(rest);
        self.write_queued();
        Ok(())
    }

    /// Waits until everything sent is with the system, or the connection has ended.
    ///
    /// # Errors
    /// [`LinkError::Io`] when the system cannot wait for the socket.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        while !self.out.is_empty() {
            self.stream.writable().await.map_err(LinkError::Io)?;
            self.write_queued();
        }
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), LinkError> {
        let interest = if self.out.is_empty() {
            Interest::READABLE
        } else {
            Interest::READABLE | Interest::WRITABLE
        };
        let ready = self.stream.ready(interest).await.map_err(LinkError::Io)?;
        if ready.is_writable() {
            self.write_queued();
        }
        Ok(())
    }

    fn write_queued(&mut self) {
        while !self.out.is_empty() {
            match self.stream.try_write(self.out.as_slices().0) {
                Ok(len) => drop(self.out.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.out.clear();
                    self.write_error = Some(error);
                }
            }
        }
    }

    /// Reads what is there into the chunk and returns its length; 0 is the end.
    fn try_read(&mut self) -> Result<Option<usize>, LinkError> {
        match self.stream.try_read(&mut self.chunk) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // A peer that ends with our bytes unread resets the connection; it is its end.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(Some(0)),
            Err(error) => Err(LinkError::Io(error)),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("peer", &self.peer)
            .field("out_len", &self.out.len())
            .finish_non_exhaustive()
    }
}

async fn connect_stream(socket: &Path) -> Result<UnixStream, LinkError> {
    loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => return Ok(stream),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    return Err(LinkError::NoDaemon {
                        socket: socket.into(),
                    });
                }
                // Its queue of connections is full: it is busy, or it hangs.
                io::ErrorKind::WouldBlock => sleep(Duration::from_millis(BACKLOG_POLL_MS)).await,
                _ => {
                    return Err(LinkError::Connect {
                        socket: socket.into(),
                        source: error,
                    });
                }
            },
        }
    }
}

/// Why there is no connection, or none any more.
#[derive(Debug)]
pub enum LinkError {
    /// The runtime directory cannot be used.
    RuntimeDir(RuntimeDirError),
    /// No daemon listens.
    NoDaemon {
        /// Where.
        socket: PathBuf,
    },
    /// No daemon runs, and none could be started.
    Start(StartError),
    /// The system refused the connection.
    Connect {
        /// To where.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something listens but does not say who it is.
    Silent {
        /// Where.
        socket: PathBuf,
    },
    /// Something listens that is no `apexd`.
    NotApexd {
        /// Where.
        socket: PathBuf,
    },
    /// The daemon is of another version.
    Mismatch {
        /// What this program speaks.
        ours: Preamble,
        /// What the daemon speaks.
        theirs: Preamble,
    },
    /// The daemon closed the connection; with the error of a write that failed before, if any.
    Closed(Option<io::Error>),
    /// The system ended the connection.
    Io(io::Error),
    /// The daemon sent bytes that are no message.
    Wire(WireError),
    /// The daemon does not read.
    Stalled {
        /// How many bytes wait for it.
        len: usize,
    },
}

impl LinkError {
    /// Returns what the user can do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::RuntimeDir(error) => Some(error.hint()),
            Self::Start(error) => Some(error.hint()),
            Self::NoDaemon { .. } => {
                Some("start one with `apex`, or with `apex new NAME` without a screen".into())
            }
            Self::Mismatch { .. } => Some(
                "put what is modified, end the old apexd with the program it belongs to, and try \
                 again"
                    .into(),
            ),
            Self::Silent { .. } | Self::Stalled { .. } => {
                Some("apexd may be stopped or hang; look at apexd.log beside its socket".into())
            }
            Self::NotApexd { socket } => Some(format!(
                "end what listens there, then remove {}",
                socket.display()
            )),
            Self::Closed(_) | Self::Wire(_) => {
                Some("look at apexd.log beside its socket for the reason".into())
            }
            Self::Connect { .. } | Self::Io(_) => None,
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RuntimeDir(error) => fmt::Display::fmt(error, f),
            Self::Start(error) => fmt::Display::fmt(error, f),
            Self::NoDaemon { socket } => {
                write!(
                    f,
                    "no daemon runs (nothing listens at {})",
                    socket.display()
                )
            }
            Self::Connect { socket, .. } => write!(f, "cannot connect to {}", socket.display()),
            Self::Silent { socket } => write!(
                f,
                "the daemon at {} did not say who it is within {CONNECT_MS} ms",
                socket.display()
            ),
            Self::NotApexd { socket } => {
                write!(f, "what listens at {} is not apexd", socket.display())
            }
            Self::Mismatch { ours, theirs } => {
                write!(
                    f,
                    "versions differ: the running daemon is {theirs}, this program is {ours}"
                )
            }
            Self::Closed(_) => f.write_str("the daemon closed the connection"),
            Self::Io(_) => f.write_str("the connection to the daemon failed"),
            Self::Wire(_) => f.write_str("the daemon sent bytes that are no message"),
            Self::Stalled { len } => {
                write!(f, "the daemon does not read; {len} bytes wait for it")
            }
        }
    }
}

impl std::error::Error for LinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::RuntimeDir(error) => error.source(),
            Self::Start(error) => error.source(),
            Self::Connect { source, .. } | Self::Io(source) => Some(source),
            Self::Closed(source) => source.as_ref().map(|source| source as _),
            Self::Wire(source) => Some(source),
            Self::NoDaemon { .. }
            | Self::Silent { .. }
            | Self::NotApexd { .. }
            | Self::Mismatch { .. }
            | Self::Stalled { .. } => None,
        }
    }
}

impl From<RuntimeDirError> for LinkError {
    fn from(error: RuntimeDirError) -> Self {
        Self::RuntimeDir(error)
    }
}

impl From<StartError> for LinkError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl From<WireError> for LinkError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

#[cfg(test)]
mod tests {
    use super::runtime::Surroundings;
    use super::scratch::Scratch;
    use super::*;
    use apex_core::ids::RequestId;
    use apex_core::message::Query;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    /// A runtime directory with a socket in it, for a peer that is no daemon.
    struct Fake {
        dir: RuntimeDir,
        listener: UnixListener,
        _scratch: Scratch,
    }

    impl Fake {
        fn new() -> Self {
            let scratch = Scratch::new();
            let dir = RuntimeDir::find(&Surroundings {
                apex_runtime_dir: Some(scratch.path().into()),
                xdg_runtime_dir: None,
                uid: rustix::process::geteuid().as_raw(),
            })
            .unwrap();
            let listener = UnixListener::bind(dir.socket()).unwrap();
            Self {
                dir,
                listener,
                _scratch: scratch,
            }
        }

        /// Connects to a peer that says `greeting` and stays.
        async fn connect(&self, greeting: &[u8]) -> (Result<Link, LinkError>, UnixStream) {
            let accept = async {
                let (mut stream, _) = self.listener.accept().await.unwrap();
                stream.write_all(greeting).await.unwrap();
                stream
            };
            tokio::join!(Link::connect(&self.dir), accept)
        }
    }

    fn theirs() -> Preamble {
        Preamble::new("apexd test")
    }

    #[tokio::test]
    async fn a_peer_of_another_version_is_refused_naming_both() {
        let fake = Fake::new();
        for other in [
            Preamble {
                protocol_min: 8,
                protocol_max: 9,
                ..theirs()
            },
            Preamble {
                apply_version: 77,
                ..theirs()
            },
        ] {
            let (result, _stream) = fake.connect(&other.encode()).await;
            let error = result.unwrap_err();
            assert!(matches!(error, LinkError::Mismatch { .. }), "{error}");
            let words = error.to_string();
            assert!(words.contains(&other.to_string()), "{words}");
            assert!(words.contains(&Preamble::new("").to_string()), "{words}");
        }
    }

    #[tokio::test]
    async fn a_peer_that_is_no_apexd_is_refused() {
        let fake = Fake::new();
        let noise = vec![b'x'; wire::NOISE_LEN_MAX + 100];
        let (result, _stream) = fake.connect(&noise).await;
        assert!(
            matches!(result, Err(LinkError::NotApexd { .. })),
            "{result:?}"
        );
        let accept = async { drop(fake.listener.accept().await.unwrap()) };
        let (result, ()) = tokio::join!(Link::connect(&fake.dir), accept);
        assert!(
            matches!(result, Err(LinkError::NotApexd { .. })),
            "{result:?}"
        );
    }

    #[tokio::test]
    async fn a_peer_that_says_nothing_or_half_is_given_up_in_time() {
        let (silent, half) = (Fake::new(), Fake::new());
        let whole = theirs().encode();
        let connections =
            tokio::join!(silent.connect(&[]), half.connect(&whole[..whole.len() - 1]));
        for result in [connections.0.0, connections.1.0] {
            assert!(
                matches!(result, Err(LinkError::Silent { .. })),
                "{result:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_socket_that_nobody_listens_at_means_that_no_daemon_runs() {
        let Fake {
            dir,
            listener,
            _scratch,
        } = Fake::new();
        drop(listener);
        let refused = Link::connect(&dir).await;
        assert!(
            matches!(refused, Err(LinkError::NoDaemon { .. })),
            "{refused:?}"
        );
        std::fs::remove_file(dir.socket()).unwrap();
        let missing = Link::connect(&dir).await;
        assert!(
            matches!(missing, Err(LinkError::NoDaemon { .. })),
            "{missing:?}"
        );
    }

    #[tokio::test]
    async fn messages_behind_the_preamble_and_in_pieces_arrive_in_order() {
        let fake = Fake::new();
        let mut greeting = theirs().encode();
        greeting.extend(wire::encode_server(&ServerMessage::Pong(1)));
        let second = wire::encode_server(&ServerMessage::Pong(2));
        greeting.extend(&second[..5]);
        let (link, mut stream) = fake.connect(&greeting).await;
        let mut link = link.unwrap();
        assert_eq!(link.peer(), &theirs());
        assert_eq!(link.receive().await.unwrap(), ServerMessage::Pong(1));
        assert_eq!(link.try_receive().unwrap(), None);
        stream.write_all(&second[5..]).await.unwrap();
        drop(stream);
        assert_eq!(link.receive().await.unwrap(), ServerMessage::Pong(2));
        assert!(matches!(link.receive().await, Err(LinkError::Closed(None))));
    }

    #[tokio::test]
    async fn what_the_socket_does_not_take_goes_out_in_order_while_receiving() {
        let fake = Fake::new();
        let (link, mut stream) = fake.connect(&theirs().encode()).await;
        let mut link = link.unwrap();
        let text = |byte: char| ClientMessage::Query {
            request: RequestId::new(1),
            session: None,
            query: Query::Text(byte.to_string().repeat(1 << 20)),
        };
        let sent = [text('a'), text('b'), ClientMessage::Ping(3)];
        for message in &sent {
            link.send(message).unwrap();
        }
        assert!(!link.out.is_empty());
        let read = async {
            let mut skipped = vec![
                0;
                Preamble::new(concat!("apex ", env!("CARGO_PKG_VERSION")))
                    .encode()
                    .len()
            ];
            stream.read_exact(&mut skipped).await.unwrap();
            let mut frames = Frames::default();
            let mut chunk = vec![0; 64 << 10];
            let mut got = Vec::new();
            while got.len() < sent.len() {
                let len = stream.read(&mut chunk).await.unwrap();
                frames.push(&chunk[..len]);
                while let Some(message) = frames.next_client().unwrap() {
                    got.push(message);
                }
            }
            stream
                .write_all(&wire::encode_server(&ServerMessage::Pong(3)))
                .await
                .unwrap();
            got
        };
        let (answer, got) = tokio::join!(link.receive(), read);
        assert_eq!(answer.unwrap(), ServerMessage::Pong(3));
        assert_eq!(got, sent);
        assert!(link.out.is_empty());
    }

    #[tokio::test]
    async fn a_peer_that_hangs_up_is_heard_out_before_the_end_is_told() {
        let fake = Fake::new();
        let (link, mut stream) = fake.connect(&theirs().encode()).await;
        let mut link = link.unwrap();
        stream
            .write_all(&wire::encode_server(&ServerMessage::Pong(9)))
            .await
            .unwrap();
        drop(stream);
        for number in 0..3 {
            link.send(&ClientMessage::Ping(number)).unwrap();
        }
        assert_eq!(link.receive().await.unwrap(), ServerMessage::Pong(9));
        assert!(matches!(link.receive().await, Err(LinkError::Closed(_))));
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_an_error_and_not_endless_memory() {
        let fake = Fake::new();
        let (link, _stream) = fake.connect(&theirs().encode()).await;
        let mut link = link.unwrap();
        let message = ClientMessage::Query {
            request: RequestId::new(1),
            session: None,
            query: Query::Text("x".repeat(4 << 20)),
        };
        let refused = (0..=OUT_LEN_MAX >> 22).find_map(|_| link.send(&message).err());
        assert!(refused.is_none(), "{refused:?}");
        let error = link.send(&message).unwrap_err();
        assert!(matches!(error, LinkError::Stalled { .. }), "{error}");
    }
}
