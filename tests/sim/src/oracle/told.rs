//! Requests and proposals: each is answered, and what its author is told is true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apex_core::entry::{BufferOp, Op};
use apex_core::ids::{AttachmentId, BufferId, ProposalId, RequestId, Shard};
use apex_core::log::Record;
use apex_core::proposal::{Change, Outcome, Proposal, Refusal};

use super::{Failure, hold};

const TRUE: &str = "what an author is told is true (I10)";
const ONCE: &str = "a proposal is applied at most once (I6)";
const ANSWERED: &str = "every request is answered (I28)";

/// What an author knows of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// Nothing yet.
    None,
    /// It landed.
    Landed,
    /// It was refused, for good.
    Refused,
    /// It did not land, and may be said again.
    Again,
}

/// One proposal.
#[derive(Debug)]
struct Asked {
    /// The process that waits for the answer.
    process: u64,
    /// The texts that it adds something to, by the index of the change.
    adds: Vec<(usize, BufferId)>,
    word: Word,
    /// Whether it is said again although its author knows that it landed.
    is_repeat: bool,
    landed: BTreeMap<BufferId, u64>,
}

/// The books.
#[derive(Debug, Default)]
pub(crate) struct Told {
    asked: BTreeMap<(AttachmentId, ProposalId), Asked>,
    requests: BTreeSet<(u64, RequestId)>,
}

impl Told {
    /// A party proposes, or says a proposal again.
    pub(crate) fn propose(&mut self, process: u64, proposal: &Proposal) {
        let adds = proposal.changes.iter().enumerate();
        let adds = adds.filter_map(|(index, change)| match change {
            Change::Edit {
                buffer, splices, ..
            } if splices.iter().any(|splice| !splice.text.is_empty()) => Some((index, *buffer)),
            _ => None,
        });
        let adds: Vec<_> = adds.collect();
        let key = (proposal.author, proposal.id);
        let asked = self.asked.entry(key).or_insert(Asked {
            process,
            adds,
            word: Word::None,
            is_repeat: false,
            landed: BTreeMap::new(),
        });
        asked.process = process;
        asked.is_repeat |= asked.word == Word::Landed;
        asked.word = Word::None;
    }

    /// Entries are published.
    pub(crate) fn publish(&mut self, records: &[Arc<Record>]) -> Result<(), Failure> {
        for record in records {
            let (Some(origin), Shard::Buffer(id)) = (record.entry.origin, record.shard) else {
                continue;
            };
            if !matches!(record.entry.op, Op::Buffer(BufferOp::Edit { .. })) {
                continue;
            }
            let key = (origin.author, origin.id);
            let Some(asked) = self.asked.get_mut(&key) else {
                continue;
            };
            if !asked.adds.iter().any(|(_, buffer)| *buffer == id) {
                continue;
            }
            let count = asked.landed.entry(id).or_default();
            *count += 1;
            let told = || format!("{} of {} in buffer {id}", origin.id, origin.author);
            hold(*count == 1, ONCE, || format!("{} is twice", told()))?;
            let is_refused = matches!(asked.word, Word::Refused | Word::Again);
            let is_refused = is_refused && !asked.is_repeat;
            hold(!is_refused, TRUE, || {
                format!("{} lands after its author heard {:?}", told(), asked.word)
            })?;
        }
        Ok(())
    }

    /// A party hears how its proposal ended.
    pub(crate) fn hear(
        &mut self,
        (author, id): (AttachmentId, ProposalId),
        outcome: &Outcome,
    ) -> Result<(), Failure> {
        let Some(asked) = self.asked.get_mut(&(author, id)) else {
            return Ok(());
        };
        asked.word = match outcome {
            Ok(_) => Word::Landed,
            Err(Refusal::Retry(_)) => Word::Again,
            Err(_) => Word::Refused,
        };
        for (index, buffer) in &asked.adds {
            let is_there = asked.landed.contains_key(buffer);
            let told = || format!("{id} of {author} in buffer {buffer}");
            match outcome {
                Ok(landed) => {
                    let part = landed.get(*index).and_then(|part| part.refusal.as_ref());
                    hold(is_there == part.is_none(), TRUE, || {
                        format!("{} is told to be in ({part:?}): {is_there}", told())
                    })?;
                }
                Err(refusal) => hold(!is_there || asked.is_repeat, TRUE, || {
                    format!("{} is refused ({refusal}) and in the log", told())
                })?,
            }
        }
        Ok(())
    }

    /// A party asks for something.
    pub(crate) fn ask(&mut self, process: u64, request: RequestId) {
        self.requests.insert((process, request));
    }

    /// A party gets an answer.
    pub(crate) fn answer(&mut self, process: u64, request: RequestId) {
        self.requests.remove(&(process, request));
    }

    /// A process lost its connection: nothing answers what it asked.
    pub(crate) fn forget_requests(&mut self, process: u64) {
        self.requests.retain(|(of, _)| *of != process);
    }

    /// A process is another attachment now: what it proposed before is not answered any more.
    pub(crate) fn give_up(&mut self, (process, old): (u64, AttachmentId)) {
        for ((author, _), asked) in &mut self.asked {
            if *author == old && asked.process == process && asked.word == Word::None {
                asked.process = 0;
            }
        }
    }

    /// A process ended: nothing answers it any more.
    pub(crate) fn forget(&mut self, process: u64) {
        self.forget_requests(process);
        for asked in self.asked.values_mut() {
            if asked.process == process && asked.word == Word::None {
                asked.process = 0;
            }
        }
    }

    /// Nothing is under way any more.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        let open = self.requests.first();
        hold(open.is_none(), ANSWERED, || {
            format!("(process, request) {open:?}")
        })?;
        let is_open = |asked: &Asked| asked.word == Word::None && asked.process != 0;
        let open = self.asked.iter().find(|(_, asked)| is_open(asked));
        hold(open.is_none(), ANSWERED, || format!("{open:?}"))
    }
}
