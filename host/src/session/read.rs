//! Reading a file for an edit, without opening it.

use apex_core::limits::YIELD_LEN_MAX;
use apex_core::message::{Answer, ErrorCode, ErrorMessage};
use apex_core::node::authority::Asker;

use super::Session;
use crate::files::{self, Found};

/// Pieces that are read ahead of what was sent.
const PIECE_QUEUE_COUNT_MAX: usize = 4;

/// What is sent of a file.
type Piece = Result<String, ErrorMessage>;

impl Session {
    pub(super) fn read(&mut self, asker: Asker, directory: &str, path: &str) {
        let path = match files::absolute(directory, path) {
            Ok(path) => files::path_of(&path),
            Err(error) => {
                let error = ErrorMessage::new(ErrorCode::NotFound, error.to_string());
                return self.answer(asker, Err(error));
            }
        };
        let connection = asker.connection;
        let peer = connection.and_then(|connection| self.peers.get(&connection));
        let Some(peer) = peer.map(|peer| peer.asker.clone()) else {
            return;
        };
        // A full queue holds up the reading.
        let (pieces, mut queue) = tokio::sync::mpsc::channel::<Piece>(PIECE_QUEUE_COUNT_MAX);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = read_pieces(&path, |piece| pieces.blocking_send(Ok(piece)).is_ok())
            {
                // Who asked may have gone.
                drop(pieces.blocking_send(Err(error)));
            }
        });
        tokio::spawn(async move {
            let request = asker.request;
            while let Some(piece) = queue.recv().await {
                peer.room().await;
                let is_error = piece.is_err();
                peer.reply(request, piece.map(Answer::Text));
                if is_error || peer.is_gone() {
                    return;
                }
            }
            peer.reply(request, Ok(Answer::Done));
        });
    }
}

/// Hands a file or a listing to `take` in pieces, until that says false.
fn read_pieces(
    path: &std::path::Path,
    mut take: impl FnMut(String) -> bool,
) -> Result<(), ErrorMessage> {
    let system =
        |error: crate::disk::DiskError| ErrorMessage::new(ErrorCode::System, error.to_string());
    match files::find(path).map_err(system)? {
        Found::New => {
            let words = format!("no file {}", path.display());
            Err(ErrorMessage::new(ErrorCode::NotFound, words))
        }
        Found::Directory(listing) => {
            take(listing);
            Ok(())
        }
        Found::File(reader) => {
            let mut len = 0;
            let read = reader.read(|piece| {
                len += piece.len();
                len <= YIELD_LEN_MAX && take(piece)
            });
            read.map_err(system)?;
            if len > YIELD_LEN_MAX {
                let words = format!("{} has more than {YIELD_LEN_MAX} bytes", path.display());
                return Err(ErrorMessage::new(ErrorCode::Limit, words));
            }
            Ok(())
        }
    }
}
