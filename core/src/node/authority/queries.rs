//! What may be asked of a session, also without joining it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Asker, Authority, HostRequest, Output};
use crate::bytes::Bytes;
use crate::entry::{AttachmentKind, BufferKind};
use crate::ids::{AttachmentId, BufferId, ConnectionId, RequestId, SERVER, Seq, Shard};
use crate::limits;
use crate::message::{
    Answer, BufferInfo, ErrorCode, ErrorMessage, Query, ServerMessage, SessionInfo, ShardHash,
};
use crate::node::client::hashes_of;
use crate::state::combine;

impl Authority {
    /// Answers a query, now or once another attachment has answered.
    pub fn query(
        &mut self,
        connection: ConnectionId,
        request: RequestId,
        query: Query,
        out: &mut Vec<Output>,
    ) {
        let answer = match query {
            Query::Session => Ok(self.session_answer()),
            Query::Text(name) => match self.text(connection, request, &name, out) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Query::Hash(None | Some(SERVER)) => Ok(hashes(SERVER, hashes_of(&self.node))),
            Query::Hash(Some(of)) => match self.ask_hashes(connection, request, of, out) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Query::Entries { shard, from } => self.entries(shard, from),
            Query::Sessions | Query::Tools | Query::ToolLog(_) | Query::Status => {
                let attachment = self.attachment_of(connection).unwrap_or(SERVER);
                let asker = Asker {
                    connection: Some(connection),
                    attachment,
                    request,
                };
                return out.push(Output::Host(asker, HostRequest::Query(query)));
            }
        };
        self.reply(connection, request, answer, out);
    }

    /// Returns the session, as listed.
    #[must_use]
    pub fn info(&self) -> SessionInfo {
        let meta = self.node.state().meta();
        let leader = self
            .node
            .log()
            .lease(Shard::Layout)
            .map_or(SERVER, |lease| lease.holder);
        let attachments = meta
            .attachments
            .iter()
            .map(|(id, party)| (*id, party.kind, party.name.clone(), *id == leader))
            .collect::<Vec<(AttachmentId, AttachmentKind, String, bool)>>();
        let modified = self
            .node
            .state()
            .buffers()
            .filter(|(_, buffer)| buffer.is_modified())
            .map(|(_, buffer)| buffer.name().to_string())
            .collect();
        SessionInfo {
            id: self.session(),
            label: meta.label.clone(),
            attachments,
            windows: self.node.state().windows().count() as u64,
            modified,
        }
    }

    fn session_answer(&self) -> Answer {
        let buffers = self
            .node
            .state()
            .buffers()
            .map(|(id, buffer)| BufferInfo {
                id,
                name: buffer.name().to_string(),
                version: buffer.version(),
                len: buffer.text().len(),
                is_modified: buffer.is_modified(),
                leader: self
                    .node
                    .log()
                    .lease(Shard::Buffer(id))
                    .unwrap_or_default()
                    .holder,
            })
            .collect();
        Answer::Session {
            info: self.info(),
            buffers,
        }
    }

    /// Returns the buffer that a name or an id means.
    ///
    /// # Errors
    /// No such buffer.
    pub fn buffer_called(&self, name: &str) -> Result<BufferId, ErrorMessage> {
        let state = self.node.state();
        let by_id = || {
            name.parse()
                .ok()
                .map(BufferId::new)
                .filter(|id| state.buffer(*id).is_some())
        };
        let by_end = || {
            let end = alloc::format!("/{name}");
            let is_it = |(_, buffer): &(BufferId, &crate::buffer::Buffer)| {
                buffer.kind() != BufferKind::Tag && buffer.name().ends_with(&end)
            };
            let mut found = state.buffers().filter(is_it).map(|(id, _)| id);
            found.next().filter(|_| found.next().is_none())
        };
        state
            .buffer_named(name)
            .or_else(by_id)
            .or_else(by_end)
            .ok_or_else(|| {
                let words = alloc::format!("no buffer {name}; `apex ls --buffers` lists them");
                ErrorMessage::new(ErrorCode::NotFound, words)
            })
    }

    fn text(
        &self,
        connection: ConnectionId,
        request: RequestId,
        name: &str,
        out: &mut Vec<Output>,
    ) -> Result<(), ErrorMessage> {
        let id = self.buffer_called(name)?;
        let text = self
            .node
            .state()
            .buffer(id)
            .map(|buffer| buffer.text().clone());
        let mut piece = Vec::new();
        for bytes in text.unwrap_or_default().byte_pieces() {
            if piece.len() + bytes.len() > limits::PIECE_LEN_MAX {
                let bytes = Bytes::from(core::mem::take(&mut piece));
                self.reply(
                    connection,
                    request,
                    Ok(Answer::Piece {
                        bytes,
                        is_last: false,
                    }),
                    out,
                );
            }
            piece.extend(bytes);
        }
        let bytes = Bytes::from(piece);
        self.reply(
            connection,
            request,
            Ok(Answer::Piece {
                bytes,
                is_last: true,
            }),
            out,
        );
        Ok(())
    }

    fn entries(&self, shard: Shard, from: Seq) -> Result<Answer, ErrorMessage> {
        let (Some(mark), Some(floor)) = (self.node.log().mark(shard), self.node.log().floor(shard))
        else {
            let words = alloc::format!("no shard {shard} in this session");
            return Err(ErrorMessage::new(ErrorCode::NotFound, words));
        };
        let before = Seq::new(from.raw().saturating_sub(1));
        let mut len = 0;
        let entries = self
            .node
            .log()
            .after(shard, before)
            .map(|record| record.bytes.clone())
            .take_while(|bytes| {
                let is_first = len == 0;
                len += bytes.len() + 8;
                is_first || len <= limits::APPEND_LEN_MAX
            })
            .collect();
        Ok(Answer::Entries {
            entries,
            floor,
            head: mark.seq,
        })
    }

    fn ask_hashes(
        &mut self,
        connection: ConnectionId,
        request: RequestId,
        of: AttachmentId,
        out: &mut Vec<Output>,
    ) -> Result<(), ErrorMessage> {
        let party = self.parties.get(&of).and_then(|party| party.connection);
        let Some(asked) = party else {
            let words = alloc::format!("attachment {of} is not connected; `apex ls` lists them");
            return Err(ErrorMessage::new(ErrorCode::NotFound, words));
        };
        self.last_request = self.last_request.next();
        self.hash_queries
            .insert(self.last_request, (of, connection, request));
        out.push(Output::Send(
            asked,
            ServerMessage::HashQuery(self.last_request),
        ));
        Ok(())
    }

    pub(super) fn hash_mark(
        &mut self,
        from: AttachmentId,
        request: RequestId,
        marks: Vec<ShardHash>,
        out: &mut Vec<Output>,
    ) {
        let Some((of, connection, asked)) = self.hash_queries.get(&request).copied() else {
            return;
        };
        if of == from {
            self.hash_queries.remove(&request);
            self.reply(connection, asked, Ok(hashes(of, marks)), out);
        }
    }
}

fn hashes(of: AttachmentId, shards: Vec<ShardHash>) -> Answer {
    let parts: Vec<_> = shards
        .iter()
        .map(|hash| (hash.shard, hash.seq, hash.state))
        .collect();
    Answer::Hashes {
        of,
        state: combine(&parts),
        shards,
    }
}
