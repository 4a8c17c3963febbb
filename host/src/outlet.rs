//! The queue of what is on its way to one peer, bounded in bytes of entries.
//!
//! 1. Whoever fills it never waits: a slow peer costs memory up to a bound and delays nobody.
//! 2. Only entries may be forgotten, because a snapshot replaces them. At the cap all of them go,
//!    the peer is behind, and once the rest is written its session sends a fresh snapshot.
//! 3. Answers are bounded by reading no further requests while the queue is over the cap, and long
//!    answers wait for room piece by piece.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apex_core::message::ServerMessage;
use apex_core::wire;
use tokio::sync::Notify;

use crate::config::OUTLET_LEN_MAX;

/// Bytes that are written at once, unless a single frame is larger.
const BATCH_LEN: usize = 256 << 10;

/// The way to one peer behind a socket. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Outlet {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something is there to write, or the queue closed.
    filled: Notify,
    /// The queue is below the cap again, or closed.
    drained: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Frame>,
    /// Bytes of all frames.
    len: usize,
    /// Bytes of those frames that are entries.
    entries_len: usize,
    standing: Standing,
    ending: Ending,
}

#[derive(Debug)]
struct Frame {
    bytes: FrameBytes,
    is_entries: bool,
}

/// The bytes of a frame: of this peer alone, or encoded once for several.
#[derive(Debug)]
enum FrameBytes {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl std::ops::Deref for FrameBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// How the peer stands towards the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// It got all of them.
    #[default]
    Current,
    /// Some were forgotten; new ones are not queued.
    Behind,
    /// Its session was told that there is room for a snapshot.
    Asked,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ending {
    #[default]
    Open,
    /// Closes once the queue is empty.
    Draining,
    Closed,
}

/// What the writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It writes the batch.
    Write,
    /// It tells the session that there is room for a snapshot.
    AskSnapshot,
    /// It closes the connection.
    Close,
}

impl Outlet {
    /// Returns an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic elsewhere leaves the queue whole: each step below is.
        self.shared
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message that is never forgotten.
    pub fn send(&self, message: &ServerMessage) {
        self.push(Frame {
            bytes: FrameBytes::Own(wire::encode_server(message)),
            is_entries: false,
        });
    }

    /// Queues bytes that are never forgotten: the preamble.
    pub fn send_bytes(&self, bytes: Vec<u8>) {
        self.push(Frame {
            bytes: FrameBytes::Own(bytes),
            is_entries: false,
        });
    }

    /// Queues a frame of entries, encoded once for all followers.
    pub fn send_entries(&self, frame: &Arc<[u8]>) {
        self.push(Frame {
            bytes: FrameBytes::Shared(frame.clone()),
            is_entries: true,
        });
    }

    fn push(&self, frame: Frame) {
        let mut queue = self.queue();
        if queue.ending != Ending::Open {
            return;
        }
        if frame.is_entries {
            if queue.standing != Standing::Current {
                return;
            }
            if queue.entries_len + frame.bytes.len() > OUTLET_LEN_MAX {
                queue.forget_entries();
                drop(queue);
                self.shared.filled.notify_one();
                return;
            }
            queue.entries_len += frame.bytes.len();
        }
        queue.len += frame.bytes.len();
        queue.frames.push_back(frame);
        drop(queue);
        self.shared.filled.notify_one();
    }

    /// Says that a fresh snapshot follows: entries after this call are queued again.
    pub fn resume_entries(&self) {
        self.queue().standing = Standing::Current;
    }

    /// Closes the connection once everything queued is written.
    pub fn close(&self) {
        let mut queue = self.queue();
        if queue.ending == Ending::Open {
            queue.ending = Ending::Draining;
        }
        drop(queue);
        self.wake_all();
    }

    /// Closes the queue at once: the peer is gone.
    pub fn abort(&self) {
        let mut queue = self.queue();
        queue.frames.clear();
        (queue.len, queue.entries_len) = (0, 0);
        queue.ending = Ending::Closed;
        drop(queue);
        self.wake_all();
    }

    fn wake_all(&self) {
        self.shared.filled.notify_one();
        self.shared.drained.notify_waiters();
    }

    /// Returns whether nothing more is taken.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue().ending != Ending::Open
    }

    /// Waits until the queue is below its cap, or closed.
    pub async fn room(&self) {
        loop {
            let notified = self.shared.drained.notified();
            tokio::pin!(notified);
            // Registered before the check, so that a wake-up in between is not lost.
            notified.as_mut().enable();
            let (len, ending) = {
                let queue = self.queue();
                (queue.len, queue.ending)
            };
            if len < OUTLET_LEN_MAX || ending == Ending::Closed {
                return;
            }
            notified.await;
        }
    }

    /// Waits for the next step of the one writer; what is to be written is put into `batch`.
    pub async fn next(&self, batch: &mut Vec<u8>) -> Next {
        batch.clear();
        loop {
            if let Some(next) = self.queue().take(batch) {
                if next == Next::Write {
                    self.shared.drained.notify_waiters();
                }
                return next;
            }
            self.shared.filled.notified().await;
        }
    }
}

impl Queue {
    fn forget_entries(&mut self) {
        self.frames.retain(|frame| !frame.is_entries);
        self.len -= self.entries_len;
        self.entries_len = 0;
        self.standing = Standing::Behind;
    }

    fn take(&mut self, batch: &mut Vec<u8>) -> Option<Next> {
        while let Some(frame) = self.frames.front()
            && (batch.is_empty() || batch.len() + frame.bytes.len() <= BATCH_LEN)
        {
            batch.extend_from_slice(&frame.bytes);
            self.len -= frame.bytes.len();
            if frame.is_entries {
                self.entries_len -= frame.bytes.len();
            }
            self.frames.pop_front();
        }
        if !batch.is_empty() {
            return Some(Next::Write);
        }
        if self.ending != Ending::Open {
            self.ending = Ending::Closed;
            return Some(Next::Close);
        }
        if self.standing == Standing::Behind {
            self.standing = Standing::Asked;
            return Some(Next::AskSnapshot);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    fn entries(len: usize) -> Arc<[u8]> {
        vec![b'e'; len].into()
    }

    #[test]
    fn frames_leave_in_order_and_small_ones_together() {
        run(async {
            let outlet = Outlet::new();
            outlet.send_bytes(b"a".to_vec());
            outlet.send_entries(&entries(1));
            outlet.send_bytes(b"b".to_vec());
            let mut batch = Vec::new();
            assert_eq!(outlet.next(&mut batch).await, Next::Write);
            assert_eq!(batch, b"aeb");
            outlet.close();
            outlet.send_bytes(b"late".to_vec());
            assert_eq!(outlet.next(&mut batch).await, Next::Close);
            assert!(outlet.is_closed());
        });
    }

    #[test]
    fn at_the_cap_entries_are_forgotten_and_answers_stay() {
        run(async {
            let outlet = Outlet::new();
            outlet.send_bytes(b"answer".to_vec());
            outlet.send_entries(&entries(OUTLET_LEN_MAX));
            outlet.send_entries(&entries(1));
            outlet.send_entries(&entries(1));
            let mut batch = Vec::new();
            assert_eq!(outlet.next(&mut batch).await, Next::Write);
            assert_eq!(batch, b"answer");
            assert_eq!(outlet.next(&mut batch).await, Next::AskSnapshot);
            outlet.send_entries(&entries(1));
            outlet.resume_entries();
            outlet.send_bytes(b"snapshot".to_vec());
            outlet.send_entries(&entries(1));
            assert_eq!(outlet.next(&mut batch).await, Next::Write);
            assert_eq!(batch, b"snapshote");
        });
    }

    #[test]
    fn who_waits_for_room_goes_on_when_it_is_there_or_the_peer_is_gone() {
        run(async {
            let outlet = Outlet::new();
            outlet.room().await;
            outlet.send_bytes(vec![0; OUTLET_LEN_MAX]);
            let writer = async {
                let mut batch = Vec::new();
                outlet.next(&mut batch).await
            };
            assert_eq!(tokio::join!(outlet.room(), writer).1, Next::Write);
            outlet.send_bytes(vec![0; OUTLET_LEN_MAX]);
            tokio::join!(outlet.room(), async { outlet.abort() });
        });
    }
}
