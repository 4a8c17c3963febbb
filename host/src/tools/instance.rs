//! One instance of a tool: a store with its exports, called one at a time under all limits.
//!
//! Any failure but an error that the tool returns means that the instance is done for: there is no
//! way back into a component that trapped, or whose call was dropped.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::timeout;
use wasmtime::component::{Instance as WasmInstance, TypedFunc};
use wasmtime::{Store, WasmBacktrace};

use super::bindings::Entry;
use super::bindings::exports;
use super::bindings::wit::types::{Error, Executed};
use super::clock::{Clock, Running};
use super::engine::{Budget, OverBudget, limit_store};
use super::guest::{Guest, Wish};
use super::limits;
use super::loader::Loaded;
use super::log::visible;

/// Calls one export under the limits of a call.
macro_rules! call {
    ($self:ident, $wall_ms:expr, $export:expr, $method:ident($($argument:expr),*)) => {{
        let wall_ms = $wall_ms;
        let call_ms = $self.call_ms;
        let _running = begin(&$self.clock, &mut $self.store, call_ms);
        let done = {
            let call = pin!($export.$method(&mut $self.store, $($argument),*));
            within(wall_ms, call).await
        };
        ended(done, wall_ms, call_ms, &$self.store)
    }};
}

/// `follower.apply`: it lowers entries from where all tools of a session share them.
type Apply = TypedFunc<(Vec<Arc<Entry>>,), (Result<(), Error>,)>;

/// A tool at work.
pub(super) struct Instance {
    store: Store<Guest>,
    exports: InstanceExports,
    call_ms: u64,
    clock: Clock,
}

struct InstanceExports {
    lifecycle: exports::lifecycle::Guest,
    apply: Option<Apply>,
    outcomes: Option<exports::outcomes::Guest>,
    commands: Option<exports::commands::Guest>,
    alarms: Option<exports::alarms::Guest>,
}

/// Why an instance is done for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It used its CPU time in one call.
    CpuTime {
        /// How much it had, in milliseconds.
        ms: u64,
    },
    /// A call took too long by the clock.
    WallTime {
        /// How much it had, in milliseconds.
        ms: u64,
    },
    /// It trapped after memory was refused to it.
    Memory {
        /// Its cap in MiB.
        mib: u64,
    },
    /// It trapped.
    Trap(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuTime { ms } => write!(
                f,
                "a call used all of its {ms} ms of CPU time (call-ms in the manifest's [limits])"
            ),
            Self::WallTime { ms } => write!(f, "a call had not returned after {ms} ms"),
            Self::Memory { mib } => write!(
                f,
                "it ended itself when it got no more than {mib} MiB of memory (memory-mib in the \
                 manifest's [limits])"
            ),
            Self::Trap(why) => write!(f, "it trapped: {why}"),
        }
    }
}

impl Instance {
    /// Returns a new instance of a tool.
    pub(super) async fn new(loaded: &Loaded, guest: Guest) -> Result<Self, Stop> {
        let call_ms = loaded.manifest.call_ms;
        let mut store = Store::new(loaded.pre.engine(), guest);
        limit_store(&mut store);
        let _running = begin(&loaded.clock, &mut store, call_ms);
        let wall_ms = call_ms * limits::CALL_WALL_FACTOR;
        let made = {
            let call = pin!(loaded.pre.instantiate_async(&mut store));
            within(wall_ms, call).await
        };
        let made = ended(made, wall_ms, call_ms, &store)?;
        let exports = InstanceExports::load(loaded, &mut store, &made);
        let exports = exports.map_err(|error| Stop::Trap(format!("{error:#}")))?;
        Ok(Self {
            store,
            exports,
            call_ms,
            clock: loaded.clock.clone(),
        })
    }

    /// Returns what the call sees and asks for.
    pub(super) fn guest(&mut self) -> &mut Guest {
        self.store.data_mut()
    }

    /// Takes what the tool asked for in the call that has returned.
    pub(super) fn take_wishes(&mut self) -> impl Iterator<Item = Wish> {
        self.store.data_mut().wishes.drain(..)
    }

    /// Returns whether it follows anything.
    pub(super) const fn is_follower(&self) -> bool {
        self.exports.apply.is_some()
    }

    /// Calls `lifecycle.start`.
    pub(super) async fn start(
        &mut self,
        settings: &[(String, String)],
    ) -> Result<Result<exports::lifecycle::Interest, Error>, Stop> {
        call!(
            self,
            self.wall_ms(),
            self.exports.lifecycle,
            call_start(settings)
        )
    }

    /// Calls `lifecycle.stop`, with little time.
    pub(super) async fn stop(&mut self) -> Result<(), Stop> {
        call!(self, limits::STOP_MS, self.exports.lifecycle, call_stop())
    }

    /// Calls `follower.apply`.
    pub(super) async fn apply(
        &mut self,
        batch: Vec<Arc<Entry>>,
    ) -> Result<Result<(), Error>, Stop> {
        let Some(apply) = &self.exports.apply else {
            return Ok(Ok(()));
        };
        let answer = call!(self, self.wall_ms(), apply, call_async((batch,)));
        answer.map(|(answer,)| answer)
    }

    /// Calls `outcomes.decided`.
    pub(super) async fn decided(
        &mut self,
        id: u64,
        outcome: Result<&[exports::outcomes::Landed], &Error>,
    ) -> Result<(), Stop> {
        let Some(outcomes) = &self.exports.outcomes else {
            return Ok(());
        };
        call!(self, self.wall_ms(), outcomes, call_decided(id, outcome))
    }

    /// Calls `commands.list-commands`; a tool without commands has none.
    pub(super) async fn list_commands(&mut self) -> Result<Vec<exports::commands::Command>, Stop> {
        let Some(commands) = &self.exports.commands else {
            return Ok(Vec::new());
        };
        call!(self, self.wall_ms(), commands, call_list_commands())
    }

    /// Calls `commands.run`.
    pub(super) async fn run(
        &mut self,
        name: &str,
        executed: &Executed,
    ) -> Result<Result<bool, Error>, Stop> {
        let Some(commands) = &self.exports.commands else {
            return Ok(Ok(true));
        };
        call!(self, self.wall_ms(), commands, call_run(name, executed))
    }

    /// Calls `alarms.fired`.
    pub(super) async fn fired(&mut self, tag: u64) -> Result<(), Stop> {
        let Some(alarms) = &self.exports.alarms else {
            return Ok(());
        };
        call!(self, self.wall_ms(), alarms, call_fired(tag))
    }

    const fn wall_ms(&self) -> u64 {
        self.call_ms * limits::CALL_WALL_FACTOR
    }
}

/// Waits for a call, but not longer than this. Most calls are over when they are first looked at:
/// only the others need a timer, and their time begins with it.
async fn within<F: Future>(wall_ms: u64, mut call: Pin<&mut F>) -> Result<F::Output, Elapsed> {
    let first = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
    match first {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => timeout(Duration::from_millis(wall_ms), call).await,
    }
}

/// Gives a call its CPU time; it is interrupted as long as what is returned lives.
fn begin(clock: &Clock, store: &mut Store<Guest>, call_ms: u64) -> Running {
    store.data_mut().begin_call(Budget::of_ms(call_ms));
    // Epochs may have gone on while it did not run.
    store.set_epoch_deadline(1);
    clock.run()
}

impl InstanceExports {
    fn load(
        loaded: &Loaded,
        store: &mut Store<Guest>,
        made: &WasmInstance,
    ) -> wasmtime::Result<Self> {
        let exports = &loaded.exports;
        macro_rules! optional {
            ($name:ident) => {
                exports
                    .$name
                    .as_ref()
                    .map(|found| found.load(&mut *store, made))
                    .transpose()?
            };
        }
        Ok(Self {
            lifecycle: exports.lifecycle.load(&mut *store, made)?,
            apply: match &exports.apply {
                Some(index) => Some(made.get_typed_func(&mut *store, index)?),
                None => None,
            },
            outcomes: optional!(outcomes),
            commands: optional!(commands),
            alarms: optional!(alarms),
        })
    }
}

/// Returns what a call gave, or why the instance is done for.
fn ended<R>(
    done: Result<wasmtime::Result<R>, Elapsed>,
    wall_ms: u64,
    call_ms: u64,
    store: &Store<Guest>,
) -> Result<R, Stop> {
    let error = match done {
        Ok(Ok(result)) => return Ok(result),
        Ok(Err(error)) => error,
        Err(_) => return Err(Stop::WallTime { ms: wall_ms }),
    };
    let (refused, len_max) = store.data().memory();
    Err(if error.is::<OverBudget>() {
        Stop::CpuTime { ms: call_ms }
    } else if refused > 0 {
        Stop::Memory { mib: len_max >> 20 }
    } else {
        Stop::Trap(trap_words(&error))
    })
}

/// Returns the reason of a trap and the innermost functions, on one line.
fn trap_words(error: &wasmtime::Error) -> String {
    /// Frames of the panic machinery come first; what a person wants is in the first few.
    const FRAME_COUNT_MAX: usize = 8;
    let mut words = error.root_cause().to_string();
    if let Some(trace) = error.downcast_ref::<WasmBacktrace>() {
        let names = trace.frames().iter().filter_map(|frame| frame.func_name());
        let names: Vec<String> = names
            .map(without_hash)
            .filter(|name| !is_panic_machinery(name))
            .take(FRAME_COUNT_MAX)
            .collect();
        if !names.is_empty() {
            words = format!("{words} in {}", names.join(" < "));
        }
    }
    visible(&words, 500)
}

/// Returns the name without its hash.
fn without_hash(name: &str) -> String {
    name.split("::h").next().unwrap_or(name).to_owned()
}

fn is_panic_machinery(name: &str) -> bool {
    ["panic", "abort", "rust_", "__rust", "unreachable"]
        .iter()
        .any(|part| name.contains(part))
}
