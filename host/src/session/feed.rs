//! The tool host's replica of a session: its snapshot, then its records, bounded in number, while
//! the tool host wishes for them.

use std::sync::Arc;

use apex_core::ids::SessionId;
use apex_core::log::Record;
use apex_core::node::authority::Authority;
use tokio::sync::{Semaphore, watch};

use super::Wake;
use crate::seam::{
    RECORD_QUEUE_COUNT_MAX, SessionLink, SessionOpened, SessionRecords, SessionSnapshot,
    ToolHandle, ToolHostMessage, Wish,
};

/// What a session sends to the tool host.
#[derive(Debug)]
pub(super) struct Feed {
    id: SessionId,
    tools: ToolHandle,
    // It also keeps `wished` open.
    link: SessionLink,
    wished: watch::Receiver<Wish>,
    /// The wish that is being served.
    wish: Wish,
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
    pub(super) fn new(
        id: SessionId,
        tools: ToolHandle,
        (link, wished): (SessionLink, watch::Receiver<Wish>),
    ) -> Self {
        let room = Arc::new(Semaphore::new(RECORD_QUEUE_COUNT_MAX));
        Self {
            id,
            tools,
            link,
            wished,
            wish: None,
            room,
            is_behind: false,
        }
    }

    /// Tells the tool host that the session is there.
    pub(super) fn announce(&self) {
        self.tools
            .send(ToolHostMessage::SessionOpened(SessionOpened {
                session: self.id,
                link: self.link.clone(),
            }));
    }

    /// Waits until the tool host wishes for something else, or a tool host that fell behind has
    /// taken everything that waits.
    pub(super) async fn wake(&mut self) -> Wake {
        let is_behind = self.is_behind;
        let room = self.room.clone();
        tokio::select! {
            // The sender is in `link`, so this does not fail.
            _ = self.wished.changed() => Wake::FeedWish,
            _ = room.acquire_many(ALL), if is_behind => Wake::FeedRoom,
        }
    }

    /// Serves the newest wish.
    pub(super) fn serve(&mut self, authority: &Authority) {
        self.wish = *self.wished.borrow_and_update();
        self.is_behind = false;
        self.open(authority);
    }

    /// Sends the whole state, if it is wished for.
    pub(super) fn open(&mut self, authority: &Authority) {
        let Some(wish) = self.wish else { return };
        self.is_behind = false;
        self.tools.send(ToolHostMessage::Snapshot(SessionSnapshot {
            session: self.id,
            wish,
            snapshot: authority.node().state().clone(),
            marks: authority.node().log().marks(),
        }));
    }

    /// Sends records, or forgets them when too many wait.
    pub(super) fn publish(&mut self, records: Vec<Arc<Record>>) {
        if self.wish.is_none() || self.is_behind {
            return;
        }
        let count = u32::try_from(records.len()).unwrap_or(ALL).min(ALL);
        match self.room.clone().try_acquire_many_owned(count) {
            Ok(permit) => self.tools.send(ToolHostMessage::Records(SessionRecords {
                session: self.id,
                records: records.into(),
                permit,
            })),
            Err(_) => self.is_behind = true,
        }
    }

    pub(super) fn close(&self) {
        self.tools
            .send(ToolHostMessage::SessionClosed { session: self.id });
    }
}
