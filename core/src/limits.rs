//! Every bound of the core, with its unit in its name.
//!
//! Values that change what `apply` computes (undo bytes, scrollback lines) are not here: they are
//! data in the session's `Genesis` entry, so that an old log replays the same for ever. What is
//! here are the defaults written into a new session, and the bounds of messages.

/// Largest frame on a connection, header included.
pub const FRAME_LEN_MAX: usize = 8 << 20;
/// Largest text one load or piece of a snapshot may carry, in bytes of UTF-8. Longer text that is
/// typed or pasted is cut into edits of as much.
pub const PIECE_LEN_MAX: usize = 1 << 20;
/// Most splices in one edit.
pub const SPLICE_COUNT_MAX: usize = 1 << 18;
/// Most bytes of entries in one append.
pub const APPEND_LEN_MAX: usize = 4 << 20;
/// Most bytes of entries that one proposal makes: they are one append, whatever else it brings.
pub const PROPOSAL_LEN_MAX: usize = 3 << 20;
/// Most bytes of one entry, which is never cut: an append has room for it.
pub const ENTRY_LEN_MAX: usize = APPEND_LEN_MAX;
/// Most shards of a session: one frame says where all of them stand, and what they hash to.
pub const SHARD_COUNT_MAX: usize = 80_000;
/// Longest name of a session, buffer, setting or tool, in bytes.
pub const NAME_LEN_MAX: usize = 4096;
/// Longest message that a person reads (notice, refusal, error), in bytes.
pub const MESSAGE_LEN_MAX: usize = 16 << 10;
/// Most changes in one proposal.
pub const CHANGE_COUNT_MAX: usize = 4096;
/// Most notices kept at once; the oldest goes first.
pub const NOTICE_COUNT_MAX: usize = 256;
/// Most executed commands kept in the metalog's state; the oldest goes first.
pub const EXEC_COUNT_MAX: usize = 64;
/// Most annotation spans in one layer.
pub const ANNOTATION_COUNT_MAX: usize = 100_000;
/// Bytes of changes kept per buffer, for carrying proposals forward.
pub const RECENT_LEN_MAX: usize = 4 << 20;
/// Most of those changes. Typing comes to it long before the bytes: what is kept then lies in the
/// second cache, and proposals are made on versions of the last seconds.
pub const RECENT_COUNT_MAX: usize = 16 << 10;
/// Bytes of entries that a client keeps while it waits for a fresh snapshot.
pub const MISSED_LEN_MAX: usize = 4 << 20;
/// Most shards that a client ended and remembers, in case that the daemon forgets it.
pub const ENDED_COUNT_MAX: usize = 1024;

/// Deepest nesting of commands in one text of them: each level takes room on the stack.
pub const COMMAND_DEPTH_MAX: usize = 64;
/// Most bytes that a command prints for an edit, or that a file has which is read into a text.
pub const YIELD_LEN_MAX: usize = 64 << 20;
/// Bytes of one of the steps that a larger edit is cut into.
pub const STEP_LEN_MAX: usize = APPEND_LEN_MAX / 2;
const _: () = assert!(PIECE_LEN_MAX < STEP_LEN_MAX && STEP_LEN_MAX < ENTRY_LEN_MAX);

/// Undo bytes per buffer in a new session.
pub const UNDO_LEN_DEFAULT: u64 = 64 << 20;
/// Scrollback lines per terminal in a new session.
pub const SCROLLBACK_COUNT_DEFAULT: u64 = 10_000;

/// Bytes that the hash of a mark may read: about 2 ms of it, in which a key waits.
pub const MARK_LEN_MAX: u64 = 1 << 19;
/// Fewest entries between two marks of a shard that is worked on.
pub const MARK_COUNT_MIN: u64 = 256;
/// Bytes that a mark may read for each entry before it. With a quarter of the entry's own bytes
/// that is 80 ns of hashing (3.4 ns a byte) for a key that costs 4 us or more: under 2 %.
pub const MARK_EARNED_LEN: u64 = 16;
/// How long a session is quiet before what changed is marked, in milliseconds.
pub const MARK_QUIET_MS: u64 = 1_000;
/// How often a client asks for a fresh snapshot because of one shard, before it gives that up.
pub const DIVERGED_COUNT_MAX: u32 = 3;
/// Most entries that are told with a divergence.
pub const DIVERGED_TAIL_COUNT_MAX: usize = 256;
/// Bytes of entries that are kept for that.
pub const DIVERGED_TAIL_LEN_MAX: usize = 256 << 10;

/// How long a holder may take to answer a lease request, in milliseconds.
pub const TRANSFER_MS: u64 = 500;
/// How long a tool may lead a buffer at a time, in milliseconds.
pub const TOOL_LEASE_MS_MAX: u64 = 600_000;
/// How long a dropped UI keeps its attachment, in milliseconds.
pub const GRACE_UI_MS: u64 = 60_000;
/// How long a dropped tool keeps its attachment, in milliseconds.
pub const GRACE_TOOL_MS: u64 = 10_000;
/// How long a proposal waits for a leader that is away, in milliseconds.
pub const PROPOSAL_WAIT_MS: u64 = 5_000;
/// Most proposals that wait for one leader.
pub const PROPOSAL_QUEUE_COUNT_MAX: usize = 1024;
/// How long a UI may be silent before its proposals are answered with `retry`, in milliseconds.
pub const PROPOSAL_DECIDE_MS: u64 = 5_000;

/// How long the daemon waits with a proposal of its own that a leader could not decide on, in
/// milliseconds.
pub const PROPOSAL_AGAIN_MS: u64 = 50;
/// Most outcomes that are kept of one author, for one that asks again.
pub const TOLD_COUNT_MAX: usize = 256;
/// Attachments that are reserved ahead in a journal. Those of a run that are not used are lost.
pub const RESERVED_ATTACHMENT_COUNT: u64 = 64;
/// Counters of SERVER's ids that are reserved ahead: more than a disk can be slow for.
pub const RESERVED_COUNTER_COUNT: u64 = 1 << 24;
/// Epochs that are reserved ahead, for all shards. Few, because each entry carries its epoch.
pub const RESERVED_EPOCH_COUNT: u64 = 1 << 12;
/// Most runs of a session's authority that a client may come back from.
pub const INCARNATION_COUNT_MAX: usize = 64;

/// Bits of an id that count within one attachment.
pub const COUNTER_BITS: u32 = 40;
/// Counters that one process of an attachment may use: the next one begins behind them.
pub const COUNTER_STRIDE: u64 = 1 << 32;
/// Largest attachment id: what the bits above the counter can hold.
pub const ATTACHMENT_MAX: u64 = (1 << (64 - COUNTER_BITS)) - 1;

/// Most bytes that a shard takes in such a frame: its name, a seq, two hashes.
const SHARD_HASH_LEN_MAX: usize = 11 + 10 + 32 + 32;
/// Fewest bytes of a splice and of an annotation in a text of 128 MiB, so that as many as there may
/// be fit into an entry: positions, lengths and single bytes.
const SPLICE_LEN_MIN: usize = 2 * 4 + 2;
const ANNOTATION_LEN_MIN: usize = 2 * 4 + 3;

// What is cut into pieces fits into what carries the pieces.
const _: () = assert!(PIECE_LEN_MAX * 2 <= APPEND_LEN_MAX);
const _: () = assert!(PROPOSAL_LEN_MAX + PIECE_LEN_MAX <= APPEND_LEN_MAX);
const _: () = assert!(PIECE_LEN_MAX < ENTRY_LEN_MAX && ENTRY_LEN_MAX <= APPEND_LEN_MAX);
const _: () = assert!(APPEND_LEN_MAX * 2 <= FRAME_LEN_MAX);
const _: () = assert!(FRAME_LEN_MAX <= u32::MAX as usize);
const _: () = assert!(SHARD_COUNT_MAX * SHARD_HASH_LEN_MAX + PIECE_LEN_MAX <= FRAME_LEN_MAX);
const _: () = assert!(SPLICE_COUNT_MAX * SPLICE_LEN_MIN <= ENTRY_LEN_MAX);
const _: () = assert!(ANNOTATION_COUNT_MAX * ANNOTATION_LEN_MIN <= ENTRY_LEN_MAX);
// Words name things.
const _: () = assert!(NAME_LEN_MAX * 2 <= MESSAGE_LEN_MAX && MESSAGE_LEN_MAX < PIECE_LEN_MAX);
// What is kept has room for one of what is kept.
const _: () = assert!(NOTICE_COUNT_MAX * MESSAGE_LEN_MAX <= ENTRY_LEN_MAX);
const _: () = assert!(RECENT_LEN_MAX >= ENTRY_LEN_MAX && MISSED_LEN_MAX >= ENTRY_LEN_MAX);
const _: () = assert!(UNDO_LEN_DEFAULT >= ENTRY_LEN_MAX as u64);
const _: () = assert!(DIVERGED_TAIL_LEN_MAX < APPEND_LEN_MAX && DIVERGED_TAIL_COUNT_MAX > 0);
// The first mark that entries pay for may be taken.
const _: () = assert!(MARK_COUNT_MIN * MARK_EARNED_LEN <= MARK_LEN_MAX);
const _: () = assert!(COUNTER_STRIDE < 1 << COUNTER_BITS && COUNTER_BITS < 64);
// Who waits for somebody gives up later than that somebody.
const _: () = assert!(TRANSFER_MS < PROPOSAL_WAIT_MS && TRANSFER_MS < PROPOSAL_DECIDE_MS);
const _: () = assert!(TRANSFER_MS < TOOL_LEASE_MS_MAX && MARK_QUIET_MS < GRACE_TOOL_MS);
const _: () = assert!(PROPOSAL_WAIT_MS < GRACE_TOOL_MS && PROPOSAL_DECIDE_MS < GRACE_TOOL_MS);
const _: () = assert!(GRACE_TOOL_MS <= GRACE_UI_MS && GRACE_UI_MS <= TOOL_LEASE_MS_MAX);
const _: () = assert!(RESERVED_COUNTER_COUNT < 1 << (COUNTER_BITS - 8));
const _: () = assert!(RESERVED_ATTACHMENT_COUNT < ATTACHMENT_MAX >> 8);
