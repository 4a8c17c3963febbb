//! Shards that clients make and end.

use alloc::vec::Vec;

use super::{Authority, Output};
use crate::entry::MetaOp;
use crate::ids::{AttachmentId, ConnectionId, Millis, Shard};
use crate::message::{ErrorCode, ErrorMessage, ServerMessage};

impl Authority {
    pub(super) fn create_shard(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        shard: Shard,
        out: &mut Vec<Output>,
    ) {
        let Some(from) = self.attachment_of(connection) else {
            return;
        };
        let refusal = if shard.is_pinned() || shard == Shard::Layout {
            Some((ErrorCode::Denied, "only the daemon makes this shard"))
        } else if self.chief != Some(from) && !self.is_giving_way(from) {
            Some((ErrorCode::NotLeader, "another UI leads; take over first"))
        } else if !is_issued_by(shard, from) {
            Some((ErrorCode::BadOp, "the id is not one of this attachment's"))
        } else if self.node.check_shard_count().is_err() {
            let words = "the session has as many texts and windows as it may; close some";
            Some((ErrorCode::Limit, words))
        } else if self.node.append_meta(MetaOp::ShardNew(shard)).is_err() {
            Some((ErrorCode::Exists, "the shard exists"))
        } else {
            None
        };
        match refusal {
            Some((code, words)) => {
                let error = ErrorMessage::new(code, words);
                let shards = Vec::from([shard]);
                out.push(Output::Send(
                    connection,
                    ServerMessage::Error { error, shards },
                ));
            }
            None => {
                self.grant(shard, from);
                if let Some(chief) = self.chief.filter(|chief| *chief != from) {
                    self.ask_for(now, shard, chief);
                }
            }
        }
    }

    pub(super) fn delete_shard(
        &mut self,
        connection: ConnectionId,
        shard: Shard,
        out: &mut Vec<Output>,
    ) {
        let Some(from) = self.attachment_of(connection) else {
            return;
        };
        let log = self.node.log();
        if shard.is_pinned() || shard == Shard::Layout || !log.is_held_by(shard, from) {
            let error = if log.lease(shard).is_none() {
                ErrorMessage::new(ErrorCode::NotFound, "no such shard")
            } else {
                ErrorMessage::new(ErrorCode::NotLeader, "only its leader ends a shard")
            };
            let shards = Vec::from([shard]);
            return out.push(Output::Send(
                connection,
                ServerMessage::Error { error, shards },
            ));
        }
        self.end_shard(shard);
    }

    pub(super) fn end_shard(&mut self, shard: Shard) {
        if self.node.append_meta(MetaOp::ShardDel(shard)).is_ok() {
            self.published.remove(&shard);
            self.transfers.remove(&shard);
            self.tool_leases.remove(&shard);
            self.pace.clear(shard);
            self.node.forget_shard(shard);
        }
    }
}

fn is_issued_by(shard: Shard, from: AttachmentId) -> bool {
    let id = match shard {
        Shard::Buffer(id) => id.raw(),
        Shard::Window(id) => id.raw(),
        Shard::Meta | Shard::Layout | Shard::Term(_) => return false,
    };
    AttachmentId::issuer_of(id) == from
}
