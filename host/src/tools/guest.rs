//! What the store of one instance holds: the call's own view of the session, and its wishes.
//!
//! Nothing leaves during a call. Wishes are collected and carried out when the call has returned,
//! so that a call that traps has asked for nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use apex_core::ids::{AttachmentId, BufferId, ProposalId, Version};
use apex_core::proposal::Change;
use apex_core::state::State;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::bindings::wit::types::Error;
use super::engine::{Budget, Meter, Metered};
use super::follow::Patterns;
use super::grants::Rights;
use super::log::{Printed, ToolLog};

/// What a tool asked for in a call.
#[derive(Debug)]
pub(super) enum Wish {
    /// A proposal.
    Propose {
        /// Its number.
        id: ProposalId,
        /// What.
        changes: Vec<Change>,
    },
    /// A notice.
    Notify {
        /// Its number, given here.
        number: u64,
        /// 0 debug to 3 error.
        level: u8,
        /// What.
        text: String,
    },
    /// Takes a notice back, by the number given here.
    Clear(u64),
    /// Sets one of its own settings.
    Set {
        /// The full key.
        key: String,
        /// The value.
        value: String,
    },
    /// Ends a command.
    Done {
        /// Which execution.
        call: u64,
        /// How it ended.
        outcome: Result<(), Error>,
    },
    /// Follows other patterns.
    Follow(Patterns),
    /// Sets a timer anew.
    Timer {
        /// Its tag.
        tag: u64,
        /// After how many milliseconds.
        after_ms: u64,
    },
    /// Stops a timer.
    Cancel(u64),
}

/// Numbers that go on over the restarts of a tool in one session.
#[derive(Debug, Default)]
pub(super) struct Counters {
    proposals: AtomicU64,
    notices: AtomicU64,
}

impl Counters {
    pub(super) fn next_proposal(&self) -> ProposalId {
        ProposalId::new(self.proposals.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(super) fn next_notice(&self) -> u64 {
        self.notices.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Who a tool is in a session; the same for all of its instances there.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// The tool's name.
    pub(super) tool: Arc<str>,
    /// Its attachment.
    pub(super) me: AttachmentId,
    /// What it may do.
    pub(super) rights: Rights,
    /// Its log.
    pub(super) log: Arc<ToolLog>,
    /// Its numbers.
    pub(super) counters: Arc<Counters>,
}

/// The data of one instance's store.
pub struct Guest {
    wasi: WasiCtx,
    table: ResourceTable,
    budget: Budget,
    meter: Meter,
    /// Who it is.
    pub(super) identity: Identity,
    /// What the call sees.
    pub(super) state: Arc<State>,
    /// What it asked for in this call.
    pub(super) wishes: Vec<Wish>,
    /// Proposals not decided yet, those of this call among them.
    pub(super) undecided: usize,
    /// Timers that run, those of this call among them.
    pub(super) timers: usize,
    /// How the lines of a text end, at which version of it.
    pub(super) line_ends: BTreeMap<BufferId, (Version, u32)>,
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Guest {
    /// Returns the data of a new instance. WASI is there and empty: no files, no environment, no
    /// network; what the tool prints goes to its log.
    pub(super) fn new(identity: Identity, state: Arc<State>, meter: Meter) -> Self {
        let printed = Printed::new(Arc::clone(&identity.log));
        let wasi = WasiCtxBuilder::new()
            .stdout(printed.clone())
            .stderr(printed)
            .build();
        Self {
            wasi,
            table: ResourceTable::new(),
            budget: Budget::of_ms(0),
            meter,
            identity,
            state,
            wishes: Vec::new(),
            undecided: 0,
            timers: 0,
            line_ends: BTreeMap::new(),
        }
    }

    /// Begins a call that may use this much.
    pub(super) fn begin_call(&mut self, budget: Budget) {
        self.budget = budget;
        self.wishes.clear();
        self.identity.log.begin_call();
    }

    /// Returns how often memory was refused, and the cap in bytes.
    pub(super) const fn memory(&self) -> (u64, u64) {
        (self.meter.refused(), self.meter.len_max())
    }
}

impl Metered for Guest {
    fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}
