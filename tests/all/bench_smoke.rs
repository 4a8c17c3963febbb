//! The benches, run as small as they go: what they compute is right. Never a time.

use apex_tests::bench::keys::{self, Program};
use apex_tests::bench::stats::Samples;
use apex_tests::bench::tools::{self, Amount};
use apex_tests::bench::trace::{NAMES, Trace};
use apex_tests::bench::{edit, run};

#[test]
fn the_edit_bench_ends_with_the_text_of_each_trace() {
    for name in NAMES {
        let trace = Trace::read(name).unwrap().cut(2000);
        let mut figures = edit::Figures::default();
        edit::round(&trace, &mut figures).unwrap();
        assert_eq!(figures.leader.count(), 1);
    }
}

#[test]
fn the_edit_bench_finds_a_wrong_text() {
    let mut trace = Trace::read(NAMES[1]).unwrap().cut(200);
    trace.end.push('!');
    let error = edit::round(&trace, &mut edit::Figures::default()).unwrap_err();
    assert!(
        error.to_string().starts_with("the result is wrong: "),
        "{error}"
    );
}

#[test]
fn the_keys_bench_sees_each_letter_painted() {
    let programs = [Program::Cat, Program::Vim, Program::Apex];
    let is_there = |program: &Program| *program != Program::Vim || keys::is_installed("vim");
    for program in programs.into_iter().filter(is_there) {
        let mut samples = Samples::default();
        keys::round(program, 60, &mut samples).unwrap();
        assert_eq!(samples.count(), 60);
    }
}

#[test]
fn the_tools_bench_counts_every_entry_and_proposal() {
    let figures = tools::measure(Amount {
        rounds: 1,
        entries: 256,
        proposals: 128,
    })
    .unwrap();
    assert_eq!(figures.host_entry.count(), 1);
    assert_eq!(figures.host_proposal.count(), 1);
    assert_eq!(figures.entry.count(), 1);
    assert_eq!(figures.proposal.count(), 1);
}

#[test]
fn an_unknown_bench_is_told_with_those_that_are() {
    let error = run("fly", &mut Vec::new()).unwrap_err().to_string();
    let known = "edit, scale, snapshot, regexp, keys, tools";
    assert!(error.ends_with(known), "{error}");
}
