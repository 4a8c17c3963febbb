//! A state that went wrong: this UI computed another one than the daemon, from the same entries. It
//! goes on from the daemon's; what it had is kept, and the user is told once.

use apex_core::entry::MetaOp;
use apex_core::ids::{NoticeId, RequestId};
use apex_core::message::ClientMessage;
use apex_core::node::marks::Divergence;

use super::{App, Effect};

/// The level of the notice: a warning.
const LEVEL: u8 = 2;

impl App {
    pub(super) fn diverged(&mut self, divergence: &Divergence) {
        let name = divergence.ours.shard.to_string().replace('/', "-");
        let bytes = divergence.to_file();
        self.effects.push(Effect::Keep { name, bytes });
    }

    /// Tells the user, and whoever else is in the session; it stays in `+Notices`.
    pub(super) fn diverged_kept(&mut self, place: &Result<String, String>) {
        if std::mem::replace(&mut self.is_diverged, true) {
            return;
        }
        let end = match place {
            Ok(path) => format!("what it had is in {path}"),
            Err(error) => format!("what it had is not kept: {error}"),
        };
        let text = format!(
            "this screen's state went wrong, a fault of apex; it goes on from the daemon's, and \
             {end}"
        );
        // The daemon chooses the id, and says whose it is.
        let op = MetaOp::Notify {
            notice: NoticeId::new(0),
            owner: self.node().attachment(),
            level: LEVEL,
            text,
        };
        // Nobody waits for the answer.
        let request = RequestId::new(0);
        self.outbox.push(ClientMessage::MetaRequest { request, op });
    }
}
