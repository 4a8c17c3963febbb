//! Making a failing world smaller: fewer decisions and fewer kinds, with the same failure.

use std::collections::BTreeSet;

use crate::plan::{Choice, Kind, Plan};
use crate::run::run;

/// Returns the least part of a seed's decisions that this finds to fail as the whole does: leaving
/// out any one of them more lets the world hold, or fail otherwise.
#[must_use]
pub fn shrink(seed: u64, choice: &Choice) -> Option<(Choice, &'static str)> {
    let oracle = run(seed, choice, false).failure?.oracle;
    let fails = |choice: &Choice| {
        let failure = run(seed, choice, false).failure;
        failure.is_some_and(|failure| failure.oracle == oracle)
    };
    let mut best = choice.clone();
    let kinds = Plan::new(seed, choice).kinds;
    for kind in Kind::ALL.iter().filter(|kind| kinds.contains(kind)) {
        let mut less = best.clone();
        if less.off.insert(*kind) && fails(&less) {
            best = less;
        }
    }
    let plan = Plan::new(seed, &best);
    let mut kept: Vec<usize> = plan.steps.iter().map(|(index, _)| *index).collect();
    let with = |kept: &[usize]| Choice {
        off: best.off.clone(),
        kept: Some(kept.iter().copied().collect::<BTreeSet<usize>>()),
    };
    let mut len = kept.len().div_ceil(2).max(1);
    loop {
        let mut is_smaller = false;
        let mut from = 0;
        while from < kept.len() {
            let mut less = kept.clone();
            less.drain(from..(from + len).min(kept.len()));
            if fails(&with(&less)) {
                kept = less;
                is_smaller = true;
            } else {
                from += len;
            }
        }
        if len == 1 && !is_smaller {
            return Some((with(&kept), oracle));
        }
        if !is_smaller {
            len = len.div_ceil(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_that_holds_has_nothing_to_shrink() {
        let choice = Choice {
            kept: Some(BTreeSet::new()),
            ..Choice::default()
        };
        assert_eq!(shrink(1, &choice), None);
    }
}
