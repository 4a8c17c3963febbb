//! The wasmtime engine, and what one store may use.
//!
//! 1. Epochs advance while a call runs, whatever the runtime does: see [`Clock`].
//! 2. A guest that runs past its slice yields through tokio's queue: wasmtime's own yield wakes
//!    itself into tokio's last-in slot and starves everybody else (wasmtime issue 10667).
//! 3. Memory is counted over all memories of a store and refused, not trapped, at the cap.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::{
    Config, Engine, ResourceLimiter, Store, StoreContextMut, UpdateDeadline, WasmBacktraceDetails,
};

use super::clock::Clock;
use super::limits;
use super::log::ToolLog;

/// The engine of all tools; the epochs stop when it is dropped.
#[derive(Debug)]
pub struct ToolEngine {
    engine: Engine,
    clock: Clock,
}

impl Drop for ToolEngine {
    fn drop(&mut self) {
        self.clock.end();
    }
}

impl ToolEngine {
    /// Returns an engine whose epochs advance while calls run.
    ///
    /// # Errors
    /// When this machine cannot run WebAssembly, or has no thread left.
    pub fn new() -> wasmtime::Result<Self> {
        let engine = Engine::new(&config())?;
        let clock = Clock::start(&engine)?;
        Ok(Self { engine, clock })
    }

    /// Returns the engine.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the clock that must run while a guest does.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Returns what is on and off: everything that no tool needs is off.
fn config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        .max_wasm_stack(limits::WASM_STACK_LEN)
        .async_stack_size(limits::ASYNC_STACK_LEN)
        .wasm_backtrace_details(WasmBacktraceDetails::Enable)
        .wasm_memory64(false)
        .wasm_tail_call(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false);
    config
}

/// What one call may use.
#[derive(Debug)]
pub struct Budget {
    slices_left: u64,
}

/// The guest has used its CPU time; an error of the call, never seen by the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call used all of its CPU time")
    }
}

impl std::error::Error for OverBudget {}

impl Budget {
    /// Returns the budget of a call of so many milliseconds of CPU time.
    #[must_use]
    pub fn of_ms(call_ms: u64) -> Self {
        Self {
            slices_left: call_ms.div_ceil(limits::TICK_MS).max(1),
        }
    }

    /// Takes one slice, and says what comes next.
    fn next_slice(&mut self) -> wasmtime::Result<UpdateDeadline> {
        if self.slices_left == 0 {
            return Err(OverBudget.into());
        }
        self.slices_left -= 1;
        Ok(UpdateDeadline::YieldCustom(
            1,
            Box::pin(tokio::task::yield_now()),
        ))
    }
}

/// What the store of a tool holds for this module.
pub trait Metered: 'static {
    /// Returns the budget of the call that runs.
    fn budget(&mut self) -> &mut Budget;
    /// Returns what counts its memory.
    fn meter(&mut self) -> &mut Meter;
}

/// Sets all limits of a new store; a call still needs a [`Budget`].
pub fn limit_store<T: Metered>(store: &mut Store<T>) {
    store.limiter(|data| data.meter());
    store.set_hostcall_fuel(limits::HOSTCALL_LEN_MAX);
    store.set_max_component_handles(limits::HANDLE_COUNT_MAX);
    // A new store's deadline has passed already; start functions run under one of their own.
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut store: StoreContextMut<'_, T>| {
        store.data_mut().budget().next_slice()
    });
}

/// Counts the memory of a store over all its linear memories, and refuses at the cap.
#[derive(Debug)]
pub struct Meter {
    len: u64,
    len_max: u64,
    /// What the last accepted growth added, in case the operating system refuses it.
    last_growth: u64,
    refused: u64,
    /// The same figure as `len`, for those who list tools.
    shown_len: Arc<AtomicU64>,
    log: Arc<ToolLog>,
}

impl Meter {
    /// Returns a meter with this cap in bytes, which shows its count in `shown_len`.
    #[must_use]
    pub const fn new(len_max: u64, shown_len: Arc<AtomicU64>, log: Arc<ToolLog>) -> Self {
        Self {
            len: 0,
            len_max,
            last_growth: 0,
            refused: 0,
            shown_len,
            log,
        }
    }

    /// Returns how often memory was refused.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the cap in bytes.
    #[must_use]
    pub const fn len_max(&self) -> u64 {
        self.len_max
    }

    fn grow(&mut self, growth: u64) -> bool {
        let len = self.len.saturating_add(growth);
        if len > self.len_max {
            if self.refused == 0 {
                self.log.push_host(&format!(
                    "memory refused: {growth} bytes more than the {} it has would pass its cap of \
                     {} MiB; `memory-mib` under [limits] in its manifest asks for more",
                    self.len,
                    self.len_max >> 20
                ));
            }
            self.refused += 1;
            return false;
        }
        self.last_growth = growth;
        self.len = len;
        self.shown_len.store(len, Ordering::Relaxed);
        true
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.shown_len.store(0, Ordering::Relaxed);
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.grow(desired.saturating_sub(current) as u64))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.len = self
            .len
            .saturating_sub(std::mem::take(&mut self.last_growth));
        self.shown_len.store(self.len, Ordering::Relaxed);
        Ok(())
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= limits::TABLE_LEN_MAX)
    }

    fn instances(&self) -> usize {
        limits::INSTANCE_COUNT_MAX
    }

    fn tables(&self) -> usize {
        limits::TABLE_COUNT_MAX
    }

    fn memories(&self) -> usize {
        limits::MEMORY_COUNT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(len_max: u64) -> (Meter, Arc<AtomicU64>, Arc<ToolLog>) {
        let shown = Arc::new(AtomicU64::new(0));
        let log = Arc::new(ToolLog::new());
        (
            Meter::new(len_max, Arc::clone(&shown), Arc::clone(&log)),
            shown,
            log,
        )
    }

    #[test]
    fn memory_is_counted_over_all_memories_and_refused_at_the_cap() {
        let (mut meter, shown, log) = meter(3 << 16);
        assert!(meter.memory_growing(0, 2 << 16, None).unwrap());
        assert!(meter.memory_growing(0, 1 << 16, None).unwrap());
        assert!(!meter.memory_growing(1 << 16, 2 << 16, None).unwrap());
        assert!(!meter.memory_growing(1 << 16, 2 << 16, None).unwrap());
        assert_eq!(meter.refused(), 2);
        assert_eq!(shown.load(Ordering::Relaxed), 3 << 16);
        assert_eq!(log.newest().len(), 1, "one line, however often it asks");
        drop(meter);
        assert_eq!(shown.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn memory_that_the_system_refuses_is_not_counted() {
        let (mut meter, shown, _) = meter(4 << 16);
        assert!(meter.memory_growing(0, 3 << 16, None).unwrap());
        meter
            .memory_grow_failed(wasmtime::Error::msg("no memory"))
            .unwrap();
        assert_eq!(shown.load(Ordering::Relaxed), 0);
        assert!(meter.memory_growing(0, 4 << 16, None).unwrap());
    }

    #[test]
    fn a_budget_yields_and_then_interrupts() {
        let mut budget = Budget::of_ms(2 * limits::TICK_MS);
        for _ in 0..2 {
            assert!(matches!(
                budget.next_slice(),
                Ok(UpdateDeadline::YieldCustom(1, _))
            ));
        }
        let error = budget.next_slice().err().unwrap();
        assert!(error.is::<OverBudget>());
    }

    #[test]
    fn the_epoch_advances_while_a_call_runs() {
        let engine = ToolEngine::new().unwrap();
        let _running = engine.clock().run();
        // A module that loops for ever ends only if the epochs advance.
        let module = wasmtime::Module::new(engine.engine(), LOOP).unwrap();
        let mut store = Store::new(engine.engine(), ());
        store.set_epoch_deadline(1);
        let error = wasmtime::Instance::new(&mut store, &module, &[])
            .err()
            .unwrap();
        assert_eq!(error.downcast_ref(), Some(&wasmtime::Trap::Interrupt));
    }

    /// `(module (func (loop (br 0))) (start 0))`.
    const LOOP: &[u8] = &[
        0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x04, 0x01, 0x60, 0x00, 0x00, 0x03,
        0x02, 0x01, 0x00, 0x08, 0x01, 0x00, 0x0a, 0x09, 0x01, 0x07, 0x00, 0x03, 0x40, 0x0c, 0x00,
        0x0b, 0x0b,
    ];
}
