//! Questions about a session, also of those who have not joined it.

use std::collections::BTreeMap;

use apex_core::bytes::Bytes;
use apex_core::ids::{BufferId, ConnectionId, Millis, RequestId};
use apex_core::limits;
use apex_core::message::{Answer, ErrorCode, ErrorMessage, Query};
use apex_core::text::Text;

use super::Session;
use crate::config::HASH_QUERY_MS;
use crate::seam::Asker;

/// Questions that wait for their answer: who asked, and until when.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: BTreeMap<(ConnectionId, RequestId), (Asker, Millis)>,
    /// Texts that are asked for while they are loaded: a part would look like the whole.
    texts: Vec<(BufferId, Asker, RequestId)>,
}

impl Questions {
    fn add(&mut self, asker: Asker, request: RequestId, deadline: Millis) {
        self.waiting
            .insert((asker.connection, request), (asker, deadline));
    }

    /// Returns who asked, and forgets the question.
    pub(super) fn take(&mut self, connection: ConnectionId, request: RequestId) -> Option<Asker> {
        self.waiting
            .remove(&(connection, request))
            .map(|(asker, _)| asker)
    }

    pub(super) fn next_deadline(&self) -> Option<Millis> {
        self.waiting.values().map(|(_, deadline)| *deadline).min()
    }

    /// Answers the questions that nobody answered in time.
    pub(super) fn end_late(&mut self, now: Millis) {
        self.waiting.retain(|(_, request), (asker, deadline)| {
            if *deadline > now {
                return true;
            }
            let words = "the attachment did not answer in time; ask again";
            asker.reply(*request, Err(ErrorMessage::new(ErrorCode::Retry, words)));
            false
        });
    }
}

impl Session {
    pub(super) fn query(&mut self, asker: Asker, request: RequestId, query: Query) {
        if let Query::Text(name) = &query {
            return match self.authority.buffer_called(name) {
                Err(error) => asker.reply(request, Err(error)),
                Ok(id) if self.opens.is_loading(id) => {
                    self.questions.texts.push((id, asker, request));
                }
                Ok(id) => self.answer_text(id, asker, request),
            };
        }
        let connection = asker.connection;
        let deadline = self.now().after(HASH_QUERY_MS);
        self.questions.add(asker, request, deadline);
        self.authority
            .query(connection, request, query, &mut self.out);
    }
}

impl Session {
    fn answer_text(&self, id: BufferId, asker: Asker, request: RequestId) {
        let buffer = self.authority.node().state().buffer(id);
        let text = buffer
            .map(|buffer| buffer.text().clone())
            .unwrap_or_default();
        tokio::spawn(send_text(asker, request, text));
    }

    /// Answers those who asked for a text before it was loaded.
    pub(super) fn answer_texts(&mut self, loaded: BufferId) {
        let (ready, waiting) = std::mem::take(&mut self.questions.texts)
            .into_iter()
            .partition(|(id, ..)| *id == loaded);
        self.questions.texts = waiting;
        let ready: Vec<_> = ready;
        for (id, asker, request) in ready {
            self.answer_text(id, asker, request);
        }
    }
}

/// Sends a text in pieces, as the peer takes them.
async fn send_text(asker: Asker, request: RequestId, text: Text) {
    let mut piece = Vec::new();
    for bytes in text.byte_pieces() {
        if piece.len() + bytes.len() > limits::PIECE_LEN_MAX {
            asker.room().await;
            if asker.is_gone() {
                return;
            }
            let bytes = Bytes::from(std::mem::take(&mut piece));
            asker.reply(
                request,
                Ok(Answer::Piece {
                    bytes,
                    is_last: false,
                }),
            );
        }
        piece.extend(bytes);
    }
    asker.reply(
        request,
        Ok(Answer::Piece {
            bytes: Bytes::from(piece),
            is_last: true,
        }),
    );
}
