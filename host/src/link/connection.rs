//! One connection: its first frame, then its messages, each handed to whom it concerns.
//!
//! What a peer does wrong ends its own connection, after an error that says what it was.

use std::time::Duration;

use apex_core::ids::{ConnectionId, RequestId, SessionId};
use apex_core::message::{
    ClientMessage, ErrorCode, ErrorMessage, Hello, Query, ServerMessage, SessionName,
};
use apex_core::wire::{Frames, Preamble, PreambleReader, WireError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::config::{HANDSHAKE_TIMEOUT_MS, READ_LEN};
use crate::desk::{Ask, Desk, SessionDoor};
use crate::diary;
use crate::outlet::{Next, Outlet};
use crate::seam::{Asker, Peer, SessionInput};

/// What this build calls itself in the first frame.
pub const BUILD: &str = concat!("apexd ", env!("CARGO_PKG_VERSION"));

const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(HANDSHAKE_TIMEOUT_MS);

/// Why a connection ends.
enum End {
    /// The peer left.
    Gone,
    /// The peer is told this.
    Refused(ErrorMessage),
}

impl From<WireError> for End {
    fn from(error: WireError) -> Self {
        Self::Refused(ErrorMessage::new(ErrorCode::Protocol, error.to_string()))
    }
}

fn protocol(message: &str) -> End {
    End::Refused(ErrorMessage::new(ErrorCode::Protocol, message))
}

/// Tells a peer why it is not served, and ends the connection.
pub async fn refuse(stream: UnixStream, error: ErrorMessage) {
    let outlet = Outlet::new();
    outlet.send_bytes(Preamble::new(BUILD).encode());
    outlet.send(&ServerMessage::Error {
        error,
        shards: Vec::new(),
    });
    outlet.close();
    let (_, writer) = stream.into_split();
    let asked = Notify::new();
    drop(timeout(HANDSHAKE_TIMEOUT, write(writer, outlet, &asked)).await);
}

/// Serves a connection to its end.
pub async fn serve(stream: UnixStream, desk: Desk) {
    let id = desk.connections.next();
    let outlet = Outlet::new();
    outlet.send_bytes(Preamble::new(BUILD).encode());
    let (reader, writer) = stream.into_split();
    let asked = Notify::new();
    let mut connection = Connection {
        id,
        desk,
        outlet: outlet.clone(),
        reader,
        frames: Frames::default(),
        joined: None,
    };
    let writing = write(writer, outlet.clone(), &asked);
    tokio::pin!(writing);
    let end = tokio::select! {
        end = connection.run(&asked) => end,
        () = &mut writing => End::Gone,
    };
    connection.leave().await;
    match end {
        End::Gone => outlet.abort(),
        End::Refused(error) => {
            diary::info(format_args!("connection {id} ends: {error}"));
            outlet.send(&ServerMessage::Error {
                error,
                shards: Vec::new(),
            });
            outlet.close();
            // A peer that does not read its last words is left alone.
            drop(timeout(HANDSHAKE_TIMEOUT, writing).await);
        }
    }
}

/// Writes what the outlet holds until it closes or the peer is gone.
async fn write(mut writer: OwnedWriteHalf, outlet: Outlet, asked: &Notify) {
    let mut batch = Vec::new();
    loop {
        match outlet.next(&mut batch).await {
            Next::Write => {
                if writer.write_all(&batch).await.is_err() {
                    return outlet.abort();
                }
            }
            Next::AskSnapshot => asked.notify_one(),
            Next::Close => {
                drop(writer.shutdown().await);
                return;
            }
        }
        // One large frame must not hold its memory for the life of the connection.
        batch.shrink_to(READ_LEN);
    }
}

struct Connection {
    id: ConnectionId,
    desk: Desk,
    outlet: Outlet,
    reader: OwnedReadHalf,
    frames: Frames,
    joined: Option<SessionDoor>,
}

impl Connection {
    async fn run(&mut self, asked: &Notify) -> End {
        match timeout(HANDSHAKE_TIMEOUT, self.greet()).await {
            Ok(Ok(())) => {}
            Ok(Err(end)) => return end,
            Err(_) => return protocol("no first frame came in time; is this an apex program?"),
        }
        let mut buffer = vec![0; READ_LEN];
        loop {
            // At first what came behind the peer's first frame: a peer that waits for an answer
            // sends nothing that would wake this connection again.
            if let Err(end) = self.take_messages().await {
                return end;
            }
            tokio::select! {
                count = self.reader.read(&mut buffer) => match count {
                    Ok(0) | Err(_) => return End::Gone,
                    Ok(count) => self.frames.push(&buffer[..count]),
                },
                () = asked.notified() => self.tell_room().await,
            }
        }
    }

    /// Reads the peer's first frame.
    async fn greet(&mut self) -> Result<(), End> {
        let mut reader = PreambleReader::default();
        let mut buffer = vec![0; READ_LEN];
        loop {
            let count = self.reader.read(&mut buffer).await.unwrap_or(0);
            if count == 0 {
                return Err(match reader.noise() {
                    [] => End::Gone,
                    noise => WireError::Magic(noise.to_vec()).into(),
                });
            }
            if let Some((preamble, noise, behind)) = reader.push(&buffer[..count])? {
                // Noise comes from shells between two programs; on the socket nobody else speaks.
                if !noise.is_empty() {
                    return Err(WireError::Magic(noise).into());
                }
                Preamble::new(BUILD).check(&preamble)?;
                self.frames = Frames::new(behind);
                return Ok(());
            }
        }
    }

    /// Takes what was read. Messages for the session go to it together, as they came.
    async fn take_messages(&mut self) -> Result<(), End> {
        let mut batch = Vec::new();
        loop {
            let next = self.frames.next_client();
            match next {
                Ok(Some(message)) if self.joined.is_some() && is_for_session(&message) => {
                    batch.push(message);
                    continue;
                }
                _ => self.pass_on(std::mem::take(&mut batch)).await?,
            }
            let Some(message) = next? else { return Ok(()) };
            self.take(message).await?;
            // A peer that asks and does not read is not listened to meanwhile.
            self.outlet.room().await;
        }
    }

    async fn take(&mut self, message: ClientMessage) -> Result<(), End> {
        match message {
            ClientMessage::Ping(number) => self.outlet.send(&ServerMessage::Pong(number)),
            ClientMessage::Query {
                request,
                session,
                query,
            } => {
                self.query(request, session, query).await;
            }
            ClientMessage::SessionNew { request, label } => {
                self.ask(request, Ask::SessionNew(label)).await;
            }
            ClientMessage::SessionRename {
                request,
                label,
                new_label,
            } => {
                self.ask(request, Ask::SessionRename { label, new_label })
                    .await;
            }
            ClientMessage::SessionDelete { request, label } => {
                self.ask(request, Ask::SessionDelete(label)).await;
            }
            ClientMessage::Tool { request, order } => self.ask(request, Ask::Tool(order)).await,
            ClientMessage::Hello(_) if self.joined.is_some() => {
                return Err(protocol("a second Hello; open another connection"));
            }
            ClientMessage::Hello(hello) => {
                self.join(hello).await?;
            }
            ClientMessage::Detach if self.joined.is_none() => return Err(End::Gone),
            message => self.pass_on(vec![message]).await?,
        }
        Ok(())
    }

    fn asker(&self) -> Asker {
        let session = self.joined.as_ref().map_or_else(nil, |door| door.session);
        Asker {
            session,
            connection: self.id,
            peer: Peer::Socket(self.outlet.clone()),
        }
    }

    async fn ask(&self, request: RequestId, ask: Ask) {
        self.desk.ask(self.asker(), request, ask).await;
    }

    async fn query(&self, request: RequestId, session: Option<SessionName>, query: Query) {
        if let Some(ask) = Ask::from_query(&query) {
            return self.ask(request, ask).await;
        }
        let asker = self.asker();
        let door = match (session, &self.joined) {
            (None, Some(door)) => Ok(door.clone()),
            (None, None) => Err(ErrorMessage::new(
                ErrorCode::NotFound,
                "the question names no session, and none was joined",
            )),
            (Some(name), _) => self.desk.find(name, false).await,
        };
        match door {
            Err(error) => asker.reply(request, Err(error)),
            Ok(door) => {
                let input = SessionInput::Query {
                    asker: asker.clone(),
                    request,
                    query,
                };
                if let Err(mpsc::error::SendError(_)) = door.inputs.send(input).await {
                    asker.reply(request, Err(ended()));
                }
            }
        }
    }

    async fn join(&mut self, hello: Hello) -> Result<(), End> {
        let door = self
            .desk
            .find(hello.session.clone(), true)
            .await
            .map_err(End::Refused)?;
        let connection = self.id;
        let peer = Peer::Socket(self.outlet.clone());
        for input in [
            SessionInput::Connect { connection, peer },
            SessionInput::Messages {
                connection,
                messages: vec![ClientMessage::Hello(hello)],
            },
        ] {
            door.inputs
                .send(input)
                .await
                .map_err(|_| End::Refused(ended()))?;
        }
        self.joined = Some(door);
        Ok(())
    }

    async fn pass_on(&self, messages: Vec<ClientMessage>) -> Result<(), End> {
        if messages.is_empty() {
            return Ok(());
        }
        let Some(door) = &self.joined else {
            return Err(protocol("the first message must be Hello, or a question"));
        };
        let input = SessionInput::Messages {
            connection: self.id,
            messages,
        };
        // A session that has ended has told this peer why, and closed the outlet.
        let sent = door.inputs.send(input).await;
        sent.map_err(|_| End::Refused(ended()))?;
        self.outlet.room().await;
        Ok(())
    }

    async fn tell_room(&self) {
        if let Some(door) = &self.joined {
            drop(
                door.inputs
                    .send(SessionInput::Room {
                        connection: self.id,
                    })
                    .await,
            );
        }
    }

    async fn leave(&mut self) {
        if let Some(door) = self.joined.take() {
            drop(
                door.inputs
                    .send(SessionInput::Disconnect {
                        connection: self.id,
                    })
                    .await,
            );
        }
    }
}

/// Returns whether a message of a peer that has joined is the session's alone to answer.
const fn is_for_session(message: &ClientMessage) -> bool {
    matches!(
        message,
        ClientMessage::Append(_)
            | ClientMessage::Propose(_)
            | ClientMessage::Decided { .. }
            | ClientMessage::Ack(_)
            | ClientMessage::CreateShard(_)
            | ClientMessage::DeleteShard(_)
            | ClientMessage::MetaRequest { .. }
            | ClientMessage::HashMark { .. }
            | ClientMessage::HashMarks(_)
    )
}

const fn nil() -> SessionId {
    SessionId(uuid::Uuid::nil())
}

fn ended() -> ErrorMessage {
    ErrorMessage::new(ErrorCode::NotFound, "the session has ended")
}
