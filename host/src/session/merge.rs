//! What a step of the session says, in fewer pieces.
//!
//! 1. Entries of one source that follow each other become one publication, so that followers and
//!    the tool host are told once, and one acknowledgement stands for all before it.
//! 2. Merging moves entries and acknowledgements ahead of proposals and outcomes, never behind
//!    them: whoever hears of an outcome has the entries that it speaks of.
//! 3. Anything else is a wall. A snapshot, above all: entries ahead of it would be in it twice,
//!    or in it never.

use apex_core::ids::ConnectionId;
use apex_core::message::{AckMark, ClientMessage, ServerMessage};
use apex_core::node::authority::Output;

/// Returns whether what a message leads to may be carried out together with what the next one
/// leads to.
pub(super) const fn is_batched(message: &ClientMessage) -> bool {
    matches!(
        message,
        ClientMessage::Append(_)
            | ClientMessage::Propose(_)
            | ClientMessage::Decided { .. }
            | ClientMessage::Ack(_)
    )
}

/// Returns whether an output is carried out before anything else is taken: a put of a version, say,
/// before the next edit makes another one.
pub(super) const fn is_wall(output: &Output) -> bool {
    match output {
        Output::Publish { .. } => false,
        Output::Send(_, message) => !matches!(
            message,
            ServerMessage::Acked(_)
                | ServerMessage::Propose(_)
                | ServerMessage::ProposeResult { .. }
        ),
        Output::Welcome(..)
        | Output::Marks { .. }
        | Output::Diverged(_)
        | Output::Host(..)
        | Output::Decided(..)
        | Output::Close(_) => true,
    }
}

/// Merges publications and acknowledgements where nobody can tell.
pub(super) fn merged(out: Vec<Output>) -> Vec<Output> {
    let mut merged: Vec<Output> = Vec::with_capacity(out.len());
    // Where the last publication and the last acknowledgement are that more may join.
    let mut published = None;
    let mut acked = None;
    for output in out {
        let index = merged.len();
        match output {
            Output::Publish { except, records } => {
                if let Some(Output::Publish {
                    except: before,
                    records: all,
                }) = published.and_then(|at: usize| merged.get_mut(at))
                    && *before == except
                {
                    all.extend(records);
                } else {
                    published = Some(index);
                    merged.push(Output::Publish { except, records });
                }
            }
            Output::Send(connection, ServerMessage::Acked(marks)) => {
                if let Some(all) = acks_of(connection, acked, &mut merged) {
                    marks.into_iter().for_each(|mark| join(all, mark));
                } else {
                    acked = Some(index);
                    merged.push(Output::Send(connection, ServerMessage::Acked(marks)));
                }
            }
            Output::Send(_, ServerMessage::Propose(_) | ServerMessage::ProposeResult { .. }) => {
                merged.push(output);
            }
            _ => {
                (published, acked) = (None, None);
                merged.push(output);
            }
        }
    }
    merged
}

fn acks_of(
    connection: ConnectionId,
    acked: Option<usize>,
    merged: &mut [Output],
) -> Option<&mut Vec<AckMark>> {
    match merged.get_mut(acked?)? {
        Output::Send(to, ServerMessage::Acked(marks)) if *to == connection => Some(marks),
        _ => None,
    }
}

/// Adds a mark, in the place of an older one of its shard.
fn join(marks: &mut Vec<AckMark>, mark: AckMark) {
    match marks.iter_mut().find(|known| known.shard == mark.shard) {
        Some(known) => *known = mark,
        None => marks.push(mark),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apex_core::bytes::Bytes;
    use apex_core::entry::{ChainHash, Entry, MetaOp, Op};
    use apex_core::ids::{Epoch, ProposalId, SERVER, Seq, Shard};
    use apex_core::log::Record;

    use super::*;

    fn publish(except: u64, seq: u64) -> Output {
        let entry = Entry {
            seq: Seq::new(seq),
            attachment: SERVER,
            epoch: Epoch::default(),
            origin: None,
            op: Op::Meta(MetaOp::Label("main".into())),
        };
        let record = Record {
            shard: Shard::Meta,
            entry,
            bytes: Bytes::from(Vec::new()),
            chain: ChainHash::default(),
        };
        Output::Publish {
            except: Some(ConnectionId::new(except)),
            records: vec![Arc::new(record)],
        }
    }

    fn ack(connection: u64, seq: u64) -> Output {
        let mark = AckMark {
            shard: Shard::Layout,
            received: Seq::new(seq),
            written: Seq::default(),
            synced: Seq::default(),
        };
        send(connection, ServerMessage::Acked(vec![mark]))
    }

    fn send(connection: u64, message: ServerMessage) -> Output {
        Output::Send(ConnectionId::new(connection), message)
    }

    fn outcome(id: u64) -> Output {
        let (id, outcome) = (ProposalId::new(id), Ok(Vec::new()));
        send(9, ServerMessage::ProposeResult { id, outcome })
    }

    /// Returns what comes out, in short: publications with their seqs, acknowledgements with the
    /// last seq.
    fn check(out: Vec<Output>) -> Vec<String> {
        let short = |output| match output {
            Output::Publish { except, records } => {
                let seqs: Vec<u64> = records.iter().map(|r| r.entry.seq.raw()).collect();
                format!("p{} {seqs:?}", except.map_or(0, ConnectionId::raw))
            }
            Output::Send(to, ServerMessage::Acked(marks)) => {
                let seqs: Vec<u64> = marks.iter().map(|mark| mark.received.raw()).collect();
                format!("a{} {seqs:?}", to.raw())
            }
            Output::Send(_, ServerMessage::ProposeResult { id, .. }) => format!("o{}", id.raw()),
            _ => "wall".to_owned(),
        };
        merged(out).into_iter().map(short).collect()
    }

    #[test]
    fn entries_come_together_and_before_the_outcomes_that_speak_of_them() {
        let out = vec![
            publish(1, 1),
            ack(1, 1),
            outcome(1),
            publish(1, 2),
            ack(1, 2),
            outcome(2),
        ];
        assert_eq!(check(out), ["p1 [1, 2]", "a1 [2]", "o1", "o2"]);
    }

    #[test]
    fn entries_of_two_sources_stay_in_order() {
        let out = vec![publish(1, 1), publish(2, 2), publish(1, 3), publish(1, 4)];
        assert_eq!(check(out), ["p1 [1]", "p2 [2]", "p1 [3, 4]"]);
    }

    #[test]
    fn acknowledgements_of_two_connections_stay_apart() {
        let out = vec![ack(1, 1), ack(2, 1), ack(2, 2), ack(1, 2)];
        assert_eq!(check(out), ["a1 [1]", "a2 [2]", "a1 [2]"]);
    }

    #[test]
    fn nothing_passes_what_may_be_a_snapshot() {
        let out = vec![
            publish(1, 1),
            ack(1, 1),
            Output::Close(ConnectionId::new(3)),
            publish(1, 2),
            ack(1, 2),
        ];
        assert_eq!(check(out), ["p1 [1]", "a1 [1]", "wall", "p1 [2]", "a1 [2]"]);
    }
}
