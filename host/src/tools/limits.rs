//! Every bound of the tool host, with its unit in its name.
//!
//! What a manifest asks for is clamped to the ceilings here: a tool can only ask for less.

/// How often the epoch advances, in milliseconds: the longest slice of a busy guest.
pub const TICK_MS: u64 = 5;
/// Ticks without a call after which the clock of epochs stands still: one second.
pub const IDLE_TICK_COUNT: u64 = 1_000 / TICK_MS;
/// Stack of a guest, in bytes. JavaScript engines and parsers need this much.
pub const WASM_STACK_LEN: usize = 1 << 20;
/// Stack of a call, in bytes; what is above the guest's own part is for host functions.
pub const ASYNC_STACK_LEN: usize = 4 << 20;

/// Memory of a tool that does not ask, in MiB, over all its memories.
pub const MEMORY_MIB_DEFAULT: u64 = 64;
/// Most memory that a manifest may ask for, in MiB.
pub const MEMORY_MIB_MAX: u64 = 256;
/// CPU time of one call of a tool that does not ask, in milliseconds.
pub const CALL_MS_DEFAULT: u64 = 2_000;
/// Most CPU time of one call that a manifest may ask for, in milliseconds.
pub const CALL_MS_MAX: u64 = 10_000;
/// Wall-clock time of one call, as a multiple of its CPU time: a busy machine is not the tool's
/// fault, and a wait in a host function uses no CPU.
pub const CALL_WALL_FACTOR: u64 = 3;
/// Wall-clock time for `lifecycle.stop`, in milliseconds.
pub const STOP_MS: u64 = 100;

/// Bytes that a guest may hand over in one host call.
pub const HOSTCALL_LEN_MAX: usize = 4 << 20;
/// Resource handles of one instance.
pub const HANDLE_COUNT_MAX: usize = 4096;
/// Core instances of one store.
pub const INSTANCE_COUNT_MAX: usize = 64;
/// Tables of one store.
pub const TABLE_COUNT_MAX: usize = 64;
/// Elements of one table.
pub const TABLE_LEN_MAX: usize = 100_000;
/// Memories of one store.
pub const MEMORY_COUNT_MAX: usize = 8;

/// Longest component, in bytes: compiling has no limit of its own.
pub const COMPONENT_LEN_MAX: u64 = 64 << 20;
/// Longest manifest, in bytes.
pub const MANIFEST_LEN_MAX: u64 = 64 << 10;
/// Most rights that one manifest may ask for.
pub const WANT_COUNT_MAX: usize = 64;
/// Longest string in a manifest, in bytes.
pub const MANIFEST_STRING_LEN_MAX: usize = 1024;
/// Most compiled images kept on disk, in bytes.
pub const CACHE_LEN_MAX: u64 = 1 << 30;

/// Most entries in one batch.
pub const BATCH_COUNT_MAX: usize = 256;
/// Most text in one batch, in bytes; the first entry comes whatever its length.
pub const BATCH_LEN_MAX: usize = 2 << 20;
/// Most entries that wait for one tool before they are dropped for a `reset`.
pub const BACKLOG_COUNT_MAX: usize = 16_384;
/// Most text that waits for one tool before it is dropped for a `reset`, in bytes.
pub const BACKLOG_LEN_MAX: usize = 16 << 20;
/// Most outcomes and answers that a tool is told of in one go.
pub const MAIL_COUNT_MAX: usize = 256;
/// What short calls ask for leaves together when they take no longer than this, in microseconds.
///
/// Each sending wakes a session, which costs as much as telling some outcomes: with 50 a tool that
/// proposes without end made a tenth fewer (2026-12-02, medians of four runs each).
pub const SEND_US: u64 = 150;
/// Most matches of a regular expression that a tool may ask for at once.
pub const FIND_COUNT_MAX: usize = 1 << 16;
/// Most patterns that a tool may follow.
pub const PATTERN_COUNT_MAX: usize = 64;

/// Longest text that one read gives, in bytes of UTF-8 and in code points.
pub const READ_LEN_MAX: u64 = 1 << 20;
/// Most undecided proposals of one tool in one session.
pub const UNDECIDED_COUNT_MAX: usize = 256;
/// Most bytes of text in one proposal.
pub const PROPOSAL_LEN_MAX: usize = 4 << 20;
/// Most proposals in one call.
pub const PROPOSALS_PER_CALL_MAX: usize = 256;
/// How long finding the differences of a `replace` may take, in milliseconds; what is left is
/// replaced as one piece.
pub const DIFF_MS: u64 = 200;
/// Most notices, settings and rules that one call may ask for.
pub const REQUESTS_PER_CALL_MAX: usize = 32;
/// Most timers of one instance.
pub const TIMER_COUNT_MAX: usize = 64;

/// Lines kept of a tool's log.
pub const LOG_COUNT_MAX: usize = 1000;
/// Longest line of a tool's log, in bytes.
pub const LOG_LINE_LEN_MAX: usize = 2048;
/// Lines that one call may log; the rest are counted.
pub const LOG_PER_CALL_MAX: usize = 100;

/// Restarts within [`RESTART_WINDOW_MS`] after which a tool is given up.
pub const RESTART_COUNT_MAX: usize = 5;
/// The time in which restarts are counted, in milliseconds.
pub const RESTART_WINDOW_MS: u64 = 60_000;

/// How long a plugin directory must be quiet before it is read, in milliseconds.
pub const DEBOUNCE_MS: u64 = 200;
/// Between two looks at a file that must not differ, in milliseconds.
pub const STABLE_MS: u64 = 100;
/// Between two looks at a directory that cannot be watched, in milliseconds.
pub const POLL_MS: u64 = 2_000;
/// Most tools in all directories together.
pub const TOOL_COUNT_MAX: usize = 256;

const _: () = assert!(TICK_MS < CALL_MS_DEFAULT && CALL_MS_DEFAULT <= CALL_MS_MAX);
const _: () = assert!(MEMORY_MIB_DEFAULT <= MEMORY_MIB_MAX);
const _: () = assert!(WASM_STACK_LEN < ASYNC_STACK_LEN);
const _: () = assert!(BATCH_COUNT_MAX <= BACKLOG_COUNT_MAX && BATCH_LEN_MAX <= BACKLOG_LEN_MAX);
