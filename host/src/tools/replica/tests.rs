use apex_core::ids::BufferId;
use apex_core::text::Span;

use super::super::testing::Script;
use super::*;

fn text(state: &State) -> String {
    state.buffer(BufferId::new(7)).unwrap().text().to_string()
}

fn entries(next: Option<Next>) -> Batch {
    match next {
        Some(Next::Entries(batch)) => batch,
        other => panic!("{other:?}"),
    }
}

/// Returns a session with buffer 7 and a replica of it.
fn session() -> (Script, Replica) {
    let mut script = Script::new();
    script.buffer(7, "/a", "");
    let mut replica = Replica::new(State::new(), &[]);
    replica.apply(script.take()).unwrap();
    (script, replica)
}

fn begun(replica: &Replica) -> Backlog {
    let backlog = Backlog::default();
    backlog.begin(replica);
    backlog
}

#[test]
fn a_replica_computes_the_hash_of_the_session_by_itself() {
    let (mut script, mut replica) = session();
    script.edit(7, Span::at(0), "héllo");
    let last = Arc::clone(script.records.last().unwrap());
    replica.apply(script.take()).unwrap();
    let shard = Shard::Buffer(BufferId::new(7));
    let hash = replica
        .hashes()
        .into_iter()
        .find(|hash| hash.shard == shard)
        .unwrap();
    assert_eq!(hash.state, script.state.shard_hash(shard));
    assert_eq!((hash.seq, hash.chain), (last.entry.seq, last.chain));
}

#[test]
fn a_dropped_entry_is_found_out() {
    let (mut script, mut replica) = session();
    script.edit(7, Span::at(0), "a");
    script.edit(7, Span::at(1), "b");
    let records = script.take();
    let error = replica.apply(&records[1..]).unwrap_err();
    assert!(
        matches!(
            error,
            ReplicaError::Apply(_, _, ApplyError::WrongSeq { .. })
        ),
        "{error}"
    );
}

#[test]
fn a_record_of_another_lineage_is_found_out() {
    let (mut script, mut replica) = session();
    script.edit(7, Span::at(0), "a");
    let mut record = (*script.take()[0]).clone();
    record.chain.0[0] ^= 1;
    let error = replica.apply(&[Arc::new(record)]).unwrap_err();
    assert!(matches!(error, ReplicaError::Chain(..)), "{error}");
}

#[test]
fn a_batch_reads_the_state_after_its_last_entry_and_no_later_one() {
    let (mut script, mut replica) = session();
    let backlog = begun(&replica);
    for i in 0..limits::BATCH_COUNT_MAX + 10 {
        script.edit(7, Span::at(0), &format!("{}", i % 10));
    }
    backlog.push(&replica.apply(script.take()).unwrap());
    let first = entries(backlog.take());
    assert_eq!(first.count(), limits::BATCH_COUNT_MAX);
    assert_eq!(text(&first.state).len(), limits::BATCH_COUNT_MAX);
    let second = entries(backlog.take());
    assert_eq!(second.count(), 10);
    assert_eq!(text(&second.state).len(), limits::BATCH_COUNT_MAX + 10);
    assert_eq!(second.upto, first.upto + 10);
    assert!(backlog.take().is_none());
}

#[test]
fn small_chunks_become_one_batch() {
    let (mut script, mut replica) = session();
    let backlog = begun(&replica);
    for _ in 0..5 {
        script.edit(7, Span::at(0), "x");
        backlog.push(&replica.apply(script.take()).unwrap());
    }
    let batch = entries(backlog.take());
    assert_eq!((batch.count(), text(&batch.state).as_str()), (5, "xxxxx"));
}

#[test]
fn a_backlog_at_its_cap_is_forgotten_for_the_newest_state() {
    let (mut script, mut replica) = session();
    let backlog = begun(&replica);
    let long = "x".repeat(1 << 19);
    let count = limits::BACKLOG_LEN_MAX / long.len() + 2;
    for _ in 0..count {
        script.edit(7, Span::at(0), &long);
        backlog.push(&replica.apply(script.take()).unwrap());
    }
    let Some(Next::Lost { state, upto }) = backlog.take() else {
        panic!("nothing was lost")
    };
    assert_eq!(
        text(&state).len(),
        count * long.len(),
        "the newest state, not that of the loss"
    );
    assert_eq!(upto, replica.count());
    script.edit(7, Span::at(0), "y");
    backlog.push(&replica.apply(script.take()).unwrap());
    assert_eq!(
        entries(backlog.take()).count(),
        1,
        "it goes on after the loss"
    );
}

#[test]
fn a_replica_that_begins_again_makes_its_tools_begin_again() {
    let (script, mut replica) = session();
    let backlog = begun(&replica);
    let count = replica.count();
    let mut fresh = Replica::new(script.state, &[]);
    fresh.count_from(count);
    replica = fresh;
    backlog.begin(&replica);
    let Some(Next::Lost { upto, .. }) = backlog.take() else {
        panic!("nothing was lost")
    };
    assert_eq!(upto, count);
}

#[test]
fn a_batch_of_long_entries_is_cut_by_its_length() {
    let (mut script, mut replica) = session();
    let backlog = begun(&replica);
    let long = "x".repeat(limits::BATCH_LEN_MAX / 2);
    for _ in 0..5 {
        script.edit(7, Span::at(0), &long);
    }
    backlog.push(&replica.apply(script.take()).unwrap());
    let counts = [(); 3].map(|()| entries(backlog.take()).count());
    assert_eq!(counts, [2, 2, 1]);
    assert!(backlog.take().is_none());
}

#[test]
fn a_closed_backlog_keeps_nothing() {
    let (mut script, mut replica) = session();
    let backlog = begun(&replica);
    script.edit(7, Span::at(0), "x");
    let chunks = replica.apply(script.take()).unwrap();
    backlog.push(&chunks);
    backlog.close();
    backlog.push(&chunks);
    assert!(backlog.is_closed() && backlog.take().is_none());
    assert_eq!(Arc::strong_count(&chunks[0]), 1);
}
