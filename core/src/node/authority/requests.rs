//! What parties ask of the metalog: settings, notices, rules, executions.

use super::{Authority, floor_boundary};
use crate::entry::MetaOp;
use crate::ids::{AttachmentId, SERVER};
use crate::limits;
use crate::message::{Answer, ErrorCode, ErrorMessage};

impl Authority {
    /// Carries out what a party asks of the metalog.
    pub(super) fn meta_request(
        &mut self,
        from: AttachmentId,
        op: MetaOp,
    ) -> Result<Answer, ErrorMessage> {
        let op = match op {
            MetaOp::Setting { .. } => op,
            MetaOp::Notify {
                level, mut text, ..
            } => {
                text.truncate(floor_boundary(&text, limits::MESSAGE_LEN_MAX));
                let notice = self.node.new_notice();
                // A command leaves at once; what it told the user stays.
                let from = if self.node.is_command(from) {
                    SERVER
                } else {
                    from
                };
                MetaOp::Notify {
                    notice,
                    owner: from,
                    level,
                    text,
                }
            }
            MetaOp::NotifyClear(_) => op,
            MetaOp::RuleAdd {
                window,
                pattern,
                port,
                ..
            } => MetaOp::RuleAdd {
                rule: self.node.new_rule(),
                owner: from,
                window,
                pattern,
                port,
            },
            MetaOp::RuleDel(_) => op,
            MetaOp::Exec(mut exec) => {
                exec.id = self.node.new_exec();
                exec.asked_by = from;
                MetaOp::Exec(exec)
            }
            _ => {
                let words = "only the daemon writes this to the metalog";
                return Err(ErrorMessage::new(ErrorCode::Denied, words));
            }
        };
        match self.node.append_meta(op) {
            Ok(_) => Ok(Answer::Done),
            Err(error) => Err(ErrorMessage::new(
                ErrorCode::BadOp,
                alloc::format!("{error}"),
            )),
        }
    }
}
