//! Running worlds: one, or many, and what is said of them.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};

pub use crate::oracle::Failure;
use crate::plan::Plan;
pub use crate::plan::{Choice, Kind};
use crate::world::World;

/// What came of a world.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// What an oracle found, if any did.
    pub failure: Option<Failure>,
    /// How often each kind came to pass.
    pub fired: BTreeMap<Kind, u64>,
    /// The hash of all that happened.
    pub trace: [u8; 32],
    /// All that happened, if that was asked for.
    pub words: Vec<String>,
    /// How many things happened.
    pub event_count: u64,
    /// How long it took in its own time, in microseconds.
    pub simulated_us: u64,
    /// How many decisions were carried out.
    pub step_count: usize,
}

/// Runs the world of a seed, or the part of it that was chosen. A panic is a failure like others.
#[must_use]
pub fn run(seed: u64, choice: &Choice, is_telling: bool) -> Report {
    let plan = Plan::new(seed, choice);
    let ran = panic::catch_unwind(AssertUnwindSafe(|| World::new(plan, is_telling).run()));
    match ran {
        Ok(end) => Report {
            seed,
            failure: end.failure,
            fired: end.fired,
            trace: end.trace,
            words: end.words,
            event_count: end.event_count,
            simulated_us: end.simulated_us,
            step_count: end.step_count,
        },
        Err(panic) => {
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&s| s.to_owned()));
            let failure = Failure {
                oracle: "nothing panics (12)",
                words: words.unwrap_or_default(),
            };
            Report {
                seed,
                failure: Some(failure),
                fired: BTreeMap::new(),
                trace: [0; 32],
                words: Vec::new(),
                event_count: 0,
                simulated_us: 0,
                step_count: 0,
            }
        }
    }
}
