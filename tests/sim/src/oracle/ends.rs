//! What must hold when faults have stopped and nothing is under way.

use std::collections::BTreeSet;

use apex_core::entry::Body;
use apex_core::ids::{AttachmentId, SERVER, Shard};
use apex_core::message::ShardHash;
use apex_core::state::State;

use super::logs::Logs;
use super::{Failure, hold};

const SAME: &str = "replicas are the same (3, I3, I11, I14, I26)";
const LED: &str = "every shard has a leader who is there (I27)";
const WHOLE: &str = "the session holds together (4, 9)";

/// Checks one party's figures against the daemon's.
pub(crate) fn same(who: u64, own: &[ShardHash], truth: &[ShardHash]) -> Result<(), Failure> {
    let shards = |list: &[ShardHash]| list.iter().map(|mark| mark.shard).collect::<Vec<_>>();
    hold(shards(own) == shards(truth), SAME, || {
        let (own, truth) = (shards(own), shards(truth));
        let extra: Vec<_> = own.iter().filter(|s| !truth.contains(s)).collect();
        let lacking: Vec<_> = truth.iter().filter(|s| !own.contains(s)).collect();
        format!("process {who} has {extra:?} too much and lacks {lacking:?}")
    })?;
    for (own, truth) in own.iter().zip(truth) {
        hold(
            (own.seq, own.chain) == (truth.seq, truth.chain),
            SAME,
            || {
                format!(
                    "process {who} is at {} {} and the daemon at {} ({} and {})",
                    own.shard, own.seq, truth.seq, own.chain, truth.chain
                )
            },
        )?;
        hold(own.state == truth.state, SAME, || {
            format!("process {who} made another {} of {}", own.shard, own.seq)
        })?;
    }
    Ok(())
}

/// Checks that who leads is there: a present UI or tool, or the daemon.
pub(crate) fn led(logs: &Logs, present: &BTreeSet<AttachmentId>) -> Result<(), Failure> {
    for shard in logs.shards().filter(|shard| !shard.is_pinned()) {
        let holder = logs.lease(shard).map(|(holder, _)| holder);
        let is_there = holder.is_some_and(|id| id == SERVER || present.contains(&id));
        hold(is_there, LED, || format!("{shard} is led by {holder:?}"))?;
    }
    Ok(())
}

/// Checks that windows, columns and texts belong together, by plain reading.
pub(crate) fn whole(state: &State) -> Result<(), Failure> {
    let Some(layout) = state.layout() else {
        return Ok(());
    };
    let mut placed = BTreeSet::new();
    for window in layout.windows() {
        hold(state.window(window).is_some(), WHOLE, || {
            format!("window {window} is in a column and not there")
        })?;
        hold(placed.insert(window), WHOLE, || {
            format!("window {window} is placed twice")
        })?;
    }
    for (id, window) in state.windows() {
        hold(placed.contains(&id), WHOLE, || {
            format!("window {id} is in no column")
        })?;
        hold(state.buffer(window.tag).is_some(), WHOLE, || {
            format!("window {id} has no tag")
        })?;
        let is_there = match window.body {
            Body::Buffer(body) => state.buffer(body).is_some(),
            Body::Term(term) => state.term(term).is_some(),
        };
        hold(is_there, WHOLE, || format!("window {id} shows nothing"))?;
    }
    for (id, buffer) in state.buffers() {
        for (owner, layer, _) in buffer.layers() {
            let is_there = state.meta().attachments.contains_key(&owner);
            hold(is_there, WHOLE, || {
                format!("buffer {id} has the layer {layer} of {owner}, who is gone")
            })?;
        }
        hold(
            state
                .applied(Shard::Buffer(id))
                .is_some_and(|seq| seq.raw() > 0),
            WHOLE,
            || format!("buffer {id} has no entry"),
        )?;
    }
    Ok(())
}
