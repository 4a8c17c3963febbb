//! What only the host can do: files, commands, tools, sessions. The authority checks who asks.

use alloc::vec::Vec;

use super::{Asker, Authority, HostRequest, Output, refuse};
use crate::ids::{AttachmentId, ConnectionId, RequestId};
use crate::message::{ClientMessage, ErrorCode, ErrorMessage};

impl Authority {
    /// Hands over what only the host can do.
    pub(super) fn host_request(
        &mut self,
        connection: ConnectionId,
        from: AttachmentId,
        message: ClientMessage,
        out: &mut Vec<Output>,
    ) {
        let Some((request, wish)) = wish_of(message) else {
            let words = "a message out of place";
            return refuse(connection, ErrorCode::Protocol, words, out);
        };
        if let HostRequest::Put { buffer, epoch, .. } | HostRequest::Write { buffer, epoch, .. } =
            &wish
            && let Err(error) = self.may_put(from, *buffer, *epoch)
        {
            return self.reply(connection, request, Err(error), out);
        }
        if self.is_watcher(from) {
            let words = "a watching UI changes nothing; take over first";
            let error = ErrorMessage::new(ErrorCode::Denied, words);
            return self.reply(connection, request, Err(error), out);
        }
        let asker = Asker {
            connection: Some(connection),
            attachment: from,
            request,
        };
        out.push(Output::Host(asker, wish));
    }
}

/// Returns what a message wants of the host, and the request to answer.
fn wish_of(message: ClientMessage) -> Option<(RequestId, HostRequest)> {
    Some(match message {
        ClientMessage::FilePut {
            request,
            buffer,
            version,
            epoch,
            path,
            is_forced,
            cause,
        } => {
            let wish = HostRequest::Put {
                buffer,
                version,
                epoch,
                path,
                is_forced,
                cause,
            };
            (request, wish)
        }
        ClientMessage::FileWrite {
            request,
            buffer,
            version,
            epoch,
            at,
            path,
        } => {
            let wish = HostRequest::Write {
                buffer,
                version,
                epoch,
                at,
                path,
            };
            (request, wish)
        }
        ClientMessage::FileGet { request, buffer } => (request, HostRequest::Get(buffer)),
        ClientMessage::FileOpen {
            request,
            directory,
            path,
        } => (request, HostRequest::Open { directory, path }),
        ClientMessage::FileRead {
            request,
            directory,
            path,
        } => (request, HostRequest::Read { directory, path }),
        ClientMessage::Run { request, run } => (request, HostRequest::Run(run)),
        ClientMessage::Pipe { request, pipe } => (request, HostRequest::Pipe(pipe)),
        ClientMessage::Kill { request, process } => (request, HostRequest::Kill(process)),
        ClientMessage::Tool { request, order } => (request, HostRequest::Tool(order)),
        ClientMessage::SessionNew { request, .. }
        | ClientMessage::SessionRename { request, .. }
        | ClientMessage::SessionDelete { request, .. } => (request, HostRequest::Registry(message)),
        _ => return None,
    })
}
