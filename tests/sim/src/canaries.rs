//! Known bugs, switched on one at a time: how many worlds it takes until each is found.

use std::ops::Range;

pub use apex_core::canary::Canary;
use apex_core::canary::switch;

use crate::run::{Choice, Failure, run};

/// Runs worlds until one fails that holds without the bug. Returns how many it took, and what was
/// found. The switch is one for the whole process: nothing else may run meanwhile.
#[must_use]
pub fn find(canary: Canary, seeds: Range<u64>) -> Option<(u64, Failure)> {
    let choice = Choice::default();
    let first = seeds.start;
    for seed in seeds {
        switch(Some(canary));
        let failure = run(seed, &choice, false).failure;
        switch(None);
        let Some(failure) = failure else { continue };
        if run(seed, &choice, false).failure.as_ref() != Some(&failure) {
            return Some((seed - first + 1, failure));
        }
    }
    None
}
