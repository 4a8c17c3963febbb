//! The clock of epochs: it interrupts guests, and stands still while none runs.
//!
//! It is an OS thread, so that a busy runtime cannot stop it. It goes on for a while after a call,
//! because most calls come in bursts and waking a thread for each would cost more than the call.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use wasmtime::{Engine, EngineWeak};

use super::limits;
use super::lock::lock;

/// The clock of one engine; clones are the same clock.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    calls: Mutex<Calls>,
    /// Told when a clock that stands still must go on, or end.
    changed: Condvar,
}

/// What keeps the clock going.
#[derive(Debug, Default)]
struct Calls {
    /// Calls that run now.
    running: u64,
    /// Ticks since one ran.
    idle_ticks: u64,
    is_ended: bool,
}

impl Calls {
    const fn is_still(&self) -> bool {
        self.running == 0 && self.idle_ticks >= limits::IDLE_TICK_COUNT
    }

    /// Counts one more call; returns whether the clock stood still.
    const fn begin(&mut self) -> bool {
        let was_still = self.is_still();
        self.running += 1;
        self.idle_ticks = 0;
        was_still
    }

    const fn end(&mut self) {
        self.running -= 1;
    }

    const fn tick(&mut self) {
        if self.running == 0 {
            self.idle_ticks += 1;
        }
    }
}

/// A call that may run; dropping it ends it for the clock.
#[derive(Debug)]
#[must_use = "without it nothing interrupts a guest"]
pub struct Running(Clock);

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.0.0.calls).end();
    }
}

impl Clock {
    /// Starts the clock of an engine.
    ///
    /// # Errors
    /// The machine has no thread left.
    pub(super) fn start(engine: &Engine) -> std::io::Result<Self> {
        let clock = Self(Arc::default());
        let (shared, weak) = (Arc::clone(&clock.0), engine.weak());
        std::thread::Builder::new()
            .name("apex-epochs".to_owned())
            .spawn(move || shared.run(&weak))?;
        Ok(clock)
    }

    /// Keeps the clock going until what is returned is dropped.
    pub fn run(&self) -> Running {
        if lock(&self.0.calls).begin() {
            self.0.changed.notify_one();
        }
        Running(self.clone())
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        lock(&self.0.calls).is_ended = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn run(&self, engine: &EngineWeak) {
        let tick = Duration::from_millis(limits::TICK_MS);
        loop {
            let is_still = |calls: &mut Calls| calls.is_still() && !calls.is_ended;
            let calls = self.changed.wait_while(lock(&self.calls), is_still);
            let calls = calls.unwrap_or_else(PoisonError::into_inner);
            let ticked = self
                .changed
                .wait_timeout_while(calls, tick, |calls| !calls.is_ended);
            let (mut calls, _) = ticked.unwrap_or_else(PoisonError::into_inner);
            if calls.is_ended {
                return;
            }
            calls.tick();
            drop(calls);
            let Some(engine) = engine.upgrade() else {
                return;
            };
            engine.increment_epoch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_a_while_after_the_last_call() {
        let mut calls = Calls::default();
        assert!(!calls.begin(), "it begins as if a call had just ended");
        for _ in 0..2 * limits::IDLE_TICK_COUNT {
            calls.tick();
        }
        assert!(!calls.is_still(), "a long call is interrupted to its end");
        assert!(!calls.begin(), "nobody need be woken");
        calls.end();
        calls.end();
        for _ in 0..limits::IDLE_TICK_COUNT {
            assert!(!calls.is_still());
            calls.tick();
        }
        assert!(calls.is_still());
        assert!(calls.begin(), "the next call wakes it");
        assert!(!calls.is_still());
    }
}
