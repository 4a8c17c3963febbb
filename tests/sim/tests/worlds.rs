//! Worlds hold, and the same seed is the same world.

use apex_sim::run::{Choice, run};

/// Oracles that find what is known to be wrong and is being put right: see the README.
const KNOWN: [&str; 6] = [
    "what an author is told is true (I10)",
    "nothing typed is doubled (8, I9)",
    "nothing typed is lost (8, I9)",
    "the session holds together (4, 9)",
    "what was refused is not in a text (I10)",
    "what was begun ends (I26, I29)",
];

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 1..=20 {
        let (one, two) = (
            run(seed, &Choice::default(), false),
            run(seed, &Choice::default(), true),
        );
        assert_eq!(one.trace, two.trace, "seed {seed}");
        assert_eq!(one.failure, two.failure, "seed {seed}");
        assert_ne!(one.trace, run(seed + 1, &Choice::default(), false).trace);
    }
}

#[test]
fn worlds_hold() {
    for seed in 1..=300 {
        let report = run(seed, &Choice::default(), false);
        if let Some(failure) = report.failure {
            assert!(KNOWN.contains(&failure.oracle), "seed {seed}: {failure}");
        }
    }
}
