//! What a tool has under way with its session: proposals, requests, notices, settings, commands.
//!
//! It makes the messages; the actor sends them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use apex_core::buffer::errors_name;
use apex_core::entry::{Exec, MetaOp};
use apex_core::ids::{NoticeId, ProposalId, RequestId};
use apex_core::message::ClientMessage;
use apex_core::proposal::{Atomicity, Change, Proposal};
use apex_core::state::State;
use tokio::time::Instant;

use super::super::bindings::wit::types::Error;
use super::super::changes::deeds;
use super::super::events::Told;
use super::super::follow::Patterns;
use super::super::guest::{Identity, Wish};
use super::super::imports::directory;
use super::super::log::visible;

/// Level of a notice that something went wrong, as the core counts.
const WARNING: u8 = 2;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Desk {
    outgoing: Vec<ClientMessage>,
    last_request: RequestId,
    /// Undecided proposals with the deeds in them.
    undecided: BTreeMap<ProposalId, Vec<&'static str>>,
    notices: Notices,
    /// Settings that the tool set; they go when it goes.
    settings: BTreeSet<String>,
    /// Commands still at work, and the directory whose +Errors hears of their end.
    running: BTreeMap<u64, String>,
}

/// Which notice of the tool is which of the session. Both come in the same order: the session's
/// numbers as entries, its consent as replies.
#[derive(Debug, Default)]
struct Notices {
    asked: BTreeMap<RequestId, u64>,
    accepted: VecDeque<u64>,
    entered: VecDeque<NoticeId>,
    known: BTreeMap<u64, NoticeId>,
    /// To be cleared as soon as it is known.
    cleared: BTreeSet<u64>,
}

impl Desk {
    /// Takes the wishes of a call; returns the patterns that it wants to follow from now on.
    pub(super) fn take(
        &mut self,
        wishes: impl Iterator<Item = Wish>,
        identity: &Identity,
        timers: &mut BTreeMap<u64, Instant>,
    ) -> Option<Patterns> {
        let mut patterns = None;
        for wish in wishes {
            match wish {
                Wish::Propose { id, changes } => self.propose(id, changes, identity),
                Wish::Notify {
                    number,
                    level,
                    text,
                } => self.notify(identity, number, level, text),
                Wish::Clear(number) => {
                    self.notices.cleared.insert(number);
                    if self.notices.cleared.len() > apex_core::limits::NOTICE_COUNT_MAX {
                        self.notices.cleared.pop_first();
                    }
                    self.settle_notices();
                }
                Wish::Set { key, value } => {
                    self.settings.insert(key.clone());
                    self.request(MetaOp::Setting {
                        key,
                        value: Some(value),
                    });
                }
                Wish::Done { call, outcome } => {
                    let directory = self.running.remove(&call);
                    if let (Some(directory), Err(error)) = (directory, outcome) {
                        self.report(identity, &directory, &error);
                    }
                }
                Wish::Follow(wanted) => patterns = Some(wanted),
                Wish::Timer { tag, after_ms } => {
                    /// The clock ends somewhere; a year is as good as never.
                    const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
                    let after = Duration::from_millis(after_ms.min(YEAR_MS));
                    timers.insert(tag, Instant::now() + after);
                }
                Wish::Cancel(tag) => {
                    timers.remove(&tag);
                }
            }
        }
        patterns
    }

    /// Returns the messages to send, in order.
    pub(super) fn messages(&mut self) -> Vec<ClientMessage> {
        std::mem::take(&mut self.outgoing)
    }

    /// Returns the messages that take back what the tool set.
    pub(super) fn farewell(&mut self) -> Vec<ClientMessage> {
        for key in std::mem::take(&mut self.settings) {
            self.request(MetaOp::Setting { key, value: None });
        }
        self.messages()
    }

    /// Returns how many proposals are undecided.
    pub(super) fn undecided(&self) -> usize {
        self.undecided.len()
    }

    /// Takes note that a proposal was decided; returns the deeds in it, or none if it is unknown.
    pub(super) fn decided(&mut self, id: ProposalId) -> Option<Vec<&'static str>> {
        self.undecided.remove(&id)
    }

    /// Takes note of an entry, the first time that it is told.
    pub(super) fn note(&mut self, told: &Told, identity: &Identity) {
        if let Some((owner, notice)) = told.notice()
            && owner == identity.me
        {
            self.notices.entered.push_back(notice);
            self.settle_notices();
        }
    }

    /// Takes note of the answer to a request.
    pub(super) fn replied(&mut self, request: RequestId, is_accepted: bool) {
        if let Some(number) = self.notices.asked.remove(&request)
            && is_accepted
        {
            self.notices.accepted.push_back(number);
            self.settle_notices();
        }
    }

    /// Tells the user that the tool could not do its work.
    pub(super) fn tell_user(&mut self, identity: &Identity, message: &str) {
        let number = identity.counters.next_notice();
        self.notify(
            identity,
            number,
            WARNING,
            format!("{}: {message}", identity.tool),
        );
    }

    /// Notes a command that goes on after its call.
    pub(super) fn leave_running(&mut self, call: u64, exec: &Exec, state: &State) {
        /// Commands that never end are forgotten, oldest first.
        const RUNNING_COUNT_MAX: usize = 1024;
        if self.running.len() >= RUNNING_COUNT_MAX {
            self.running.pop_first();
        }
        self.running.insert(call, directory_of(exec, state));
    }

    /// Tells of a command that failed where it was executed.
    pub(super) fn command_failed(
        &mut self,
        identity: &Identity,
        exec: &Exec,
        state: &State,
        error: &Error,
    ) {
        self.report(identity, &directory_of(exec, state), error);
    }

    fn report(&mut self, identity: &Identity, directory: &str, error: &Error) {
        let message = visible(&error.message, apex_core::limits::MESSAGE_LEN_MAX / 2);
        let name = errors_name(directory);
        let text = format!("{}: {message}\n", identity.tool);
        // Not the tool's own wish, so that no right of the tool is needed.
        let id = identity.counters.next_proposal();
        self.send_proposal(id, vec![Change::Append { name, text }], identity);
    }

    fn propose(&mut self, id: ProposalId, changes: Vec<Change>, identity: &Identity) {
        // The grant may have been taken back since the call: it is looked at again.
        if identity.rights.is_revoked() {
            return;
        }
        self.undecided.insert(id, deeds(&changes));
        self.send_proposal(id, changes, identity);
    }

    fn send_proposal(&mut self, id: ProposalId, changes: Vec<Change>, identity: &Identity) {
        let author = identity.me;
        let atomicity = Atomicity::All;
        self.outgoing.push(ClientMessage::Propose(Proposal {
            author,
            id,
            atomicity,
            changes,
        }));
    }

    fn notify(&mut self, identity: &Identity, number: u64, level: u8, text: String) {
        // The session gives its own number.
        let notice = NoticeId::default();
        let request = self.request(MetaOp::Notify {
            notice,
            owner: identity.me,
            level,
            text,
        });
        self.notices.asked.insert(request, number);
    }

    fn request(&mut self, op: MetaOp) -> RequestId {
        self.last_request = self.last_request.next();
        let request = self.last_request;
        self.outgoing
            .push(ClientMessage::MetaRequest { request, op });
        request
    }

    /// Pairs what was accepted with what was entered, and clears what is to be cleared.
    fn settle_notices(&mut self) {
        let notices = &mut self.notices;
        while !notices.accepted.is_empty() && !notices.entered.is_empty() {
            if let (Some(number), Some(notice)) =
                (notices.accepted.pop_front(), notices.entered.pop_front())
            {
                notices.known.insert(number, notice);
            }
        }
        if notices.known.len() > apex_core::limits::NOTICE_COUNT_MAX {
            notices.known.pop_first();
        }
        let known = notices.known.clone();
        let ready: Vec<u64> = notices
            .cleared
            .iter()
            .filter(|number| known.contains_key(number))
            .copied()
            .collect();
        for number in ready {
            self.notices.cleared.remove(&number);
            if let Some(notice) = self.notices.known.remove(&number) {
                self.request(MetaOp::NotifyClear(notice));
            }
        }
    }
}

fn directory_of(exec: &Exec, state: &State) -> String {
    let name = state
        .buffer(exec.buffer)
        .map_or("/", |buffer| buffer.name());
    directory(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_are_decided_once_and_in_any_order() {
        let mut desk = Desk::default();
        for number in 1..=3 {
            let deeds = vec!["put"; usize::try_from(number).unwrap()];
            desk.undecided.insert(ProposalId::new(number), deeds);
        }
        let mut decided = |number| {
            desk.decided(ProposalId::new(number))
                .map(|deeds| deeds.len())
        };
        assert_eq!(
            [2, 2, 1, 3, 3].map(&mut decided),
            [Some(2), None, Some(1), Some(3), None]
        );
        assert_eq!(desk.undecided(), 0);
    }
}
