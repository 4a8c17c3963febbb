//! The rules, explored whole, and each of them broken once.

use stateright::{Checker, Expectation, HasDiscoveries};

use super::*;

const fn bounds(entries: u8, asks: u8, drops: u8, forgets: u8) -> Bounds {
    Bounds {
        entries,
        asks,
        drops,
        forgets,
    }
}

/// Explores the whole of a model whose rules all hold; says what it saw and how many states.
#[track_caller]
fn explore(bounds: Bounds) -> (Vec<&'static str>, usize) {
    let flaw = Flaw::None;
    let model = Leases { bounds, flaw };
    let checker = model.checker().spawn_dfs().join();
    assert!(checker.is_done());
    let mut seen = Vec::new();
    for property in model.properties() {
        let path = checker.discovery(property.name);
        match property.expectation {
            Expectation::Sometimes => seen.extend(path.map(|_| property.name)),
            Expectation::Always | Expectation::Eventually => {
                let path = path.map(stateright::Path::into_actions);
                assert_eq!(path, None, "{} does not hold: {bounds:?}", property.name);
            }
        }
    }
    (seen, checker.unique_state_count())
}

/// Breaks a rule; the checker must find the property that falls with it.
#[track_caller]
fn break_rule(flaw: Flaw, bounds: Bounds, name: &'static str) {
    let model = Leases { bounds, flaw };
    let checker = model.checker();
    let checker = checker.finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let path = checker.discovery(name);
    let found: Vec<&str> = checker.discoveries().into_keys().collect();
    assert!(path.is_some(), "{flaw:?} leads to {found:?} alone");
}

#[test]
fn the_rules_hold_in_every_state_of_four_entries_and_three_epochs() {
    let mut seen = Vec::new();
    let mut counts = Vec::new();
    for bounds in [
        // Typing, transfers, steals and compaction; a slow reader that is told to take a snapshot.
        bounds(4, 1, 0, 1),
        // A connection that drops and comes back, before its grace ends or behind it.
        bounds(3, 1, 1, 0),
        // Both.
        bounds(2, 1, 1, 1),
        // The shard goes away and back: five epochs.
        bounds(3, 2, 0, 0),
    ] {
        let (sometimes, count) = explore(bounds);
        println!("{bounds:?}: {count} states");
        let four = "four entries under three fences are compacted";
        assert_eq!(sometimes.contains(&four), bounds.entries == 4, "{bounds:?}");
        seen.extend(sometimes);
        counts.push(count);
    }
    seen.sort_unstable();
    seen.dedup();
    let all = [
        "a shard is given back",
        "a tail is recovered",
        "all entries land under three leases",
        "four entries under three fences are compacted",
    ];
    assert_eq!(seen, all);
    assert_eq!(counts, [2_538_988, 637_445, 593_463, 1_068_650]);
}

#[test]
fn without_the_compare_of_epochs_a_stale_entry_is_accepted() {
    let stale = "nothing of a stale epoch is accepted";
    break_rule(Flaw::EpochNotCompared, bounds(1, 2, 0, 0), stale);
}

#[test]
fn compaction_past_a_reader_leaves_a_gap() {
    let gap = "no reader meets a gap";
    break_rule(Flaw::CompactionPastReader, bounds(1, 0, 0, 0), gap);
}

#[test]
fn a_reclaim_that_keeps_the_epoch_lets_two_append_under_it() {
    let two = "one party appends under an epoch";
    break_rule(Flaw::EpochKept, bounds(2, 0, 1, 0), two);
}

#[test]
fn an_acknowledgement_before_the_append_is_a_lie() {
    let lost = "what was acknowledged stays";
    break_rule(Flaw::AckBeforeAppend, bounds(1, 1, 0, 0), lost);
}

#[test]
fn a_tail_that_is_dropped_never_lands() {
    let lost = "in the end all that was typed landed";
    break_rule(Flaw::TailDropped, bounds(1, 1, 0, 0), lost);
}

#[test]
fn a_tail_is_also_what_was_typed_between_a_release_and_the_grant_that_followed() {
    let lost = "in the end all that was typed landed";
    break_rule(Flaw::TailAtReclaimAlone, bounds(1, 1, 0, 1), lost);
}

#[test]
fn a_snapshot_as_long_as_the_log_may_hold_other_entries() {
    let lost = "in the end all that was typed landed";
    break_rule(Flaw::TailBySeqAlone, bounds(2, 1, 0, 1), lost);
}
