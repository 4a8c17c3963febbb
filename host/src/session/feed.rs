//! The tool host's replica of a session: its snapshot, then its records, bounded in number.

use std::sync::Arc;

use apex_core::ids::{Incarnation, SessionId};
use apex_core::log::Record;
use apex_core::node::authority::Authority;
use tokio::sync::Semaphore;

use crate::seam::{
    RECORD_QUEUE_COUNT_MAX, SessionLink, SessionOpened, SessionRecords, ToolHandle, ToolHostMessage,
};

/// What a session sends to the tool host.
#[derive(Debug)]
pub(super) struct Feed {
    id: (SessionId, Incarnation),
    tools: ToolHandle,
    link: SessionLink,
    /// One permit for each record that may wait.
    room: Arc<Semaphore>,
    is_behind: bool,
}

/// All permits at once.
const ALL: u32 = {
    assert!(RECORD_QUEUE_COUNT_MAX <= u32::MAX as usize);
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    let all = RECORD_QUEUE_COUNT_MAX as u32;
    all
};

impl Feed {
    pub(super) fn new(id: (SessionId, Incarnation), tools: ToolHandle, link: SessionLink) -> Self {
        let room = Arc::new(Semaphore::new(RECORD_QUEUE_COUNT_MAX));
        Self {
            id,
            tools,
            link,
            room,
            is_behind: false,
        }
    }

    /// Returns whether records were forgotten since the last snapshot.
    pub(super) const fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Waits until the tool host has taken everything that waits.
    pub(super) async fn room(&self) {
        drop(self.room.acquire_many(ALL).await);
    }

    /// Sends the whole state.
    pub(super) fn open(&mut self, authority: &Authority) {
        self.is_behind = false;
        let (session, incarnation) = self.id;
        let state = authority.node().state();
        self.tools
            .send(ToolHostMessage::SessionOpened(SessionOpened {
                session,
                incarnation,
                label: state.meta().label.clone(),
                snapshot: state.clone(),
                marks: authority.node().log().marks(),
                link: self.link.clone(),
            }));
    }

    /// Sends records, or forgets them when too many wait.
    pub(super) fn publish(&mut self, records: Vec<Arc<Record>>) {
        if self.is_behind {
            return;
        }
        let count = u32::try_from(records.len()).unwrap_or(ALL).min(ALL);
        match self.room.clone().try_acquire_many_owned(count) {
            Ok(permit) => self.tools.send(ToolHostMessage::Records(SessionRecords {
                session: self.id.0,
                records: records.into(),
                permit,
            })),
            Err(_) => self.is_behind = true,
        }
    }

    pub(super) fn close(&self) {
        self.tools
            .send(ToolHostMessage::SessionClosed { session: self.id.0 });
    }
}
