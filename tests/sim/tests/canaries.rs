//! Each known bug is found within a number of worlds.
#![cfg(feature = "canaries")]

use apex_sim::canaries::{Canary, find};

/// Within how many worlds each is found; what needs more than a few hundred is looked for in a long
/// run (`APEX_LONG`), which looks for all of them.
const LIMITS: [(Canary, u64); 20] = [
    (Canary::EpochNotCompared, 3000),
    (Canary::AckedEarly, 3),
    (Canary::DedupeSkipped, 100),
    (Canary::CompactedPastReader, 3),
    (Canary::CompactedPastAck, 60),
    (Canary::CounterReused, 60),
    (Canary::MetaLast, 3),
    (Canary::HashByAddress, 3),
    (Canary::ViewsStay, 30),
    (Canary::TailDropped, 60),
    (Canary::EpochKept, 3),
    (Canary::StaleApplied, 100),
    (Canary::UndoOfOthers, 500),
    (Canary::ShippedKept, 60),
    (Canary::WatcherLeads, 100),
    (Canary::PutUnfenced, 300),
    (Canary::AnswerForgotten, 3),
    (Canary::ToolUnasked, 30),
    (Canary::ForgetSkipped, 1500),
    (Canary::HeldByGone, 60),
];

#[test]
fn every_known_bug_is_found() {
    let names = |list: &[Canary]| list.iter().map(|c| format!("{c:?}")).collect::<Vec<_>>();
    let listed: Vec<Canary> = LIMITS.iter().map(|(canary, _)| *canary).collect();
    assert_eq!(names(&listed), names(Canary::ALL));
    let is_long = std::env::var_os("APEX_LONG").is_some_and(|long| !long.is_empty());
    for (canary, limit) in LIMITS {
        if is_long || limit <= 100 {
            let found = find(canary, 1..1 + limit);
            assert!(
                found.is_some(),
                "{canary:?} was not found in {limit} worlds"
            );
        }
    }
}
