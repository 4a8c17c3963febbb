//! The queue of what is on its way to one peer, bounded in bytes of entries.
//!
//! 1. Whoever fills it never waits: a slow peer costs memory up to a bound and delays nobody.
//! 2. Only entries may be forgotten, because a snapshot replaces them. At the cap all of them go,
//!    the peer is behind, and once the rest is written its session sends a fresh snapshot.
//! 3. The pieces of a snapshot are made when it is their turn: a queue holds a clone of the state.
//! 4. Answers are bounded by reading no further requests while the queue is over the cap, and long
//!    answers wait for room piece by piece.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apex_core::limits;
use apex_core::message::ServerMessage;
use apex_core::state::snapshot::Snapshot;
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

/// The bytes of a frame: of this peer alone, or encoded once for several. Or many frames that are
/// not made yet.
#[derive(Debug)]
enum FrameBytes {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
    Snapshot(Box<Snapshot>),
}

impl FrameBytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Snapshot(_) => &[],
        }
    }

    /// Returns how many bytes it counts for; a snapshot for its longest piece.
    fn len(&self) -> usize {
        match self {
            Self::Snapshot(_) => limits::PIECE_LEN_MAX,
            bytes => bytes.as_slice().len(),
        }
    }
}

/// What the writer takes out of the queue.
enum Taken {
    Next(Next),
    /// The next piece of this is to be made; then it goes back.
    Snapshot(Box<Snapshot>),
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

    /// Queues the pieces of a snapshot.
    pub fn send_snapshot(&self, snapshot: Snapshot) {
        if snapshot.left() > 0 {
            self.push(Frame {
                bytes: FrameBytes::Snapshot(Box::new(snapshot)),
                is_entries: false,
            });
        }
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
            let taken = self.queue().take(batch);
            let next = match taken {
                Some(Taken::Next(next)) => next,
                Some(Taken::Snapshot(mut snapshot)) => {
                    // Without the lock: the session queues entries meanwhile.
                    let len = snapshot.piece_len();
                    wire::encode_piece(len, batch, |out| snapshot.write(len, out));
                    self.queue().put_back(snapshot);
                    Next::Write
                }
                None => {
                    self.shared.filled.notified().await;
                    continue;
                }
            };
            if next == Next::Write {
                self.shared.drained.notify_waiters();
            }
            return next;
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

    fn take(&mut self, batch: &mut Vec<u8>) -> Option<Taken> {
        while let Some(frame) = self.frames.front()
            && (batch.is_empty() || batch.len() + frame.bytes.len() <= BATCH_LEN)
        {
            let frame = self.frames.pop_front()?;
            let bytes = match frame.bytes {
                FrameBytes::Snapshot(snapshot) => return Some(Taken::Snapshot(snapshot)),
                bytes => bytes,
            };
            batch.extend_from_slice(bytes.as_slice());
            self.len -= bytes.len();
            if frame.is_entries {
                self.entries_len -= bytes.len();
            }
        }
        let next = if !batch.is_empty() {
            Next::Write
        } else if self.ending != Ending::Open {
            self.ending = Ending::Closed;
            Next::Close
        } else if self.standing == Standing::Behind {
            self.standing = Standing::Asked;
            Next::AskSnapshot
        } else {
            return None;
        };
        Some(Taken::Next(next))
    }

    /// Takes back what is left of a snapshot, to the front.
    fn put_back(&mut self, snapshot: Box<Snapshot>) {
        if self.ending == Ending::Closed {
            return;
        }
        let is_left = snapshot.left() > 0;
        let bytes = FrameBytes::Snapshot(snapshot);
        if is_left {
            let is_entries = false;
            self.frames.push_front(Frame { bytes, is_entries });
        } else {
            self.len -= bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::entry::{BufferKind, BufferOp, Entry, MetaOp, Op};
    use apex_core::ids::{BufferId, Epoch, SERVER, Shard};
    use apex_core::state::State;

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

    /// A session with texts of `count` MiB.
    fn session(count: u64) -> State {
        let mut state = State::new();
        let text = "0123456789abcde\n".repeat(1 << 16);
        let shard = Shard::Buffer(BufferId::new(1));
        let first = [
            (Shard::Meta, Op::Meta(MetaOp::ShardNew(shard))),
            (
                shard,
                Op::Buffer(BufferOp::Create {
                    kind: BufferKind::File,
                    name: "/a".into(),
                }),
            ),
        ];
        let load = || (shard, Op::Buffer(BufferOp::Load { text: text.clone() }));
        let loads = (0..count).map(|_| load());
        for (shard, op) in first.into_iter().chain(loads) {
            let entry = Entry {
                seq: state.applied(shard).unwrap().next(),
                attachment: SERVER,
                epoch: Epoch::default(),
                origin: None,
                op,
            };
            state.apply(shard, &entry).unwrap();
        }
        state
    }

    #[test]
    fn three_peers_that_join_a_long_session_cost_a_piece_each() {
        run(async {
            let state = session(100);
            let whole = Snapshot::new(state.clone()).left();
            let outlets = [(); 3].map(|()| Outlet::new());
            for outlet in &outlets {
                outlet.send_snapshot(Snapshot::new(state.clone()));
                outlet.send_entries(&entries(1));
            }
            let mut written = [0; 3];
            let mut queued_max = 0;
            for _ in 0..=whole / limits::PIECE_LEN_MAX as u64 {
                for (outlet, written) in outlets.iter().zip(&mut written) {
                    let mut batch = Vec::new();
                    assert_eq!(outlet.next(&mut batch).await, Next::Write);
                    *written += batch.len() as u64;
                    let queue = outlet.queue();
                    let held = queue.frames.iter().map(|f| f.bytes.as_slice().len());
                    queued_max = queued_max.max(held.sum::<usize>() + batch.capacity());
                    drop(queue);
                }
            }
            assert!(queued_max < limits::PIECE_LEN_MAX + 4096, "{queued_max}");
            for (outlet, written) in outlets.iter().zip(written) {
                assert!((whole..whole + 4096).contains(&written), "{written}");
                let mut batch = Vec::new();
                assert_eq!(outlet.next(&mut batch).await, Next::Write);
                assert_eq!(batch, b"e", "entries come behind it");
                assert_eq!(outlet.queue().len, 0);
            }
        });
    }

    #[test]
    fn a_snapshot_of_a_peer_that_is_gone_is_dropped() {
        run(async {
            let outlet = Outlet::new();
            outlet.send_snapshot(Snapshot::new(session(2)));
            let mut batch = Vec::new();
            assert_eq!(outlet.next(&mut batch).await, Next::Write);
            assert_eq!(outlet.queue().len, limits::PIECE_LEN_MAX);
            outlet.close();
            assert_eq!(outlet.next(&mut batch).await, Next::Write);
            outlet.abort();
            assert_eq!(outlet.next(&mut batch).await, Next::Close);
            assert_eq!(outlet.queue().len, 0);
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
