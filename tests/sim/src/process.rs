//! A process of a party: a screen or a tool, with the real client in it.

use std::collections::{BTreeMap, VecDeque};

use apex_core::entry::AttachmentKind;
use apex_core::ids::{
    BufferId, ConnectionId, Epoch, GroupId, ProposalId, RequestId, Version, ViewId,
};
use apex_core::message::{Hello, SessionName, Takeover};
use apex_core::node::client::Client;
use apex_core::proposal::Proposal;

/// What a user typed that waits: for the lead of its text, or to be proposed to who has it.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) view: ViewId,
    pub(crate) buffer: BufferId,
    pub(crate) name: String,
    pub(crate) text: String,
    /// Whether it met a change and goes to `+Recovered`.
    pub(crate) is_recovery: bool,
}

/// What an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Something that ends with its answer.
    Plain,
    /// A file that is to be shown.
    Open,
}

/// A proposal that its author waits for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) proposal: Proposal,
    /// How often it was said.
    pub(crate) said_count: u32,
    /// Whether it is to be said again.
    pub(crate) is_due: bool,
    /// Whether it landed before, and is said again nevertheless.
    pub(crate) is_repeat: bool,
}

/// One running process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: u64,
    pub(crate) slot: usize,
    pub(crate) kind: AttachmentKind,
    pub(crate) is_watcher: bool,
    pub(crate) client: Client,
    pub(crate) link: ConnectionId,
    pub(crate) frozen_us: u64,
    pub(crate) is_flushing: bool,
    /// Where the user is.
    pub(crate) focus: Option<ViewId>,
    /// The step of undo that typing goes on with: its view, and where.
    pub(crate) typing: Option<(ViewId, GroupId, u64)>,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) sent: Option<(ProposalId, Waiting)>,
    pub(crate) requests: BTreeMap<RequestId, Request>,
    /// How many windows it has named.
    pub(crate) named: u64,
    /// The text that it asked to lead, and the epoch of its lease then.
    pub(crate) wished: Option<(BufferId, Epoch)>,
    /// A tool's own proposals that were not decided for good.
    pub(crate) asked: BTreeMap<ProposalId, Asked>,
    /// Some that landed.
    pub(crate) landed: Vec<Proposal>,
    /// Texts that a tool saw, to propose on later.
    pub(crate) seen: VecDeque<(BufferId, Version, String)>,
}

impl Process {
    pub(crate) fn new(
        (id, slot): (u64, usize),
        link: ConnectionId,
        kind: AttachmentKind,
        takeover: Takeover,
    ) -> Self {
        let hello = Hello {
            session: SessionName::Label("main".into()),
            kind,
            name: format!("process {id}"),
            takeover,
            is_follower: true,
            resume: None,
        };
        Self {
            id,
            slot,
            kind,
            is_watcher: takeover == Takeover::Watch,
            client: Client::new(hello),
            link,
            frozen_us: 0,
            is_flushing: false,
            focus: None,
            typing: None,
            waiting: VecDeque::new(),
            sent: None,
            requests: BTreeMap::new(),
            named: 0,
            wished: None,
            asked: BTreeMap::new(),
            landed: Vec::new(),
            seen: VecDeque::new(),
        }
    }

    /// Returns whether it may end without losing anything that its user did.
    pub(crate) fn owes_nothing(&self) -> bool {
        self.waiting.is_empty()
            && self.sent.is_none()
            && !self.client.is_recovering()
            && self.client.unacked_count() == 0
            && self.requests.is_empty()
            && self.asked.is_empty()
    }
}
