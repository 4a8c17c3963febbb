//! What tools and the daemon tell the user: the newest in the top row until it was read, all of it
//! in the window `+Notices`.
//!
//! A notice leaves the state with whoever gave it, a command at once; what was said stays said, so
//! it is kept here.

use std::collections::BTreeMap;

use apex_core::edit;
use apex_core::entry::{BufferOp, MetaOp};
use apex_core::ids::{AttachmentId, BufferId, NoticeId, SERVER, ViewId};
use apex_core::limits;
use apex_core::node::windows::Placement;
use apex_core::text::{Span, Text};

use super::App;
use super::motion::Reveal;
use crate::view::Status;

/// The window that lists notices.
const NAME: &str = "+Notices";
/// Notices from this level on are alarms; those of level 0 are only listed.
const ALARM_LEVEL: u8 = 2;
/// Cells of the top row that its own text and the hint keep.
const STATUS_REST_WIDTH: u16 = 44;

/// What was told, by its number: the daemon counts them.
#[derive(Debug, Default)]
pub(super) struct Notices {
    told: BTreeMap<NoticeId, Told>,
    /// The newest that was listed.
    seen: Option<NoticeId>,
}

#[derive(Debug)]
struct Told {
    level: u8,
    /// Who.
    by: String,
    text: String,
}

impl Notices {
    fn unseen(&self) -> impl DoubleEndedIterator<Item = &Told> {
        let is_unseen = |id: &NoticeId| self.seen.is_none_or(|seen| *id > seen);
        self.told
            .iter()
            .filter(move |(id, told)| told.level > 0 && is_unseen(id))
            .map(|(_, told)| told)
    }
}

impl App {
    /// Keeps the notices that the session had before this UI came.
    pub(super) fn keep_notices(&mut self) {
        let notices = self.node().state().meta().notices.clone();
        for (id, notice) in notices {
            self.keep_notice(id, (notice.owner, notice.level), notice.text);
        }
    }

    /// Takes an entry of the metalog about a notice.
    pub(super) fn take_notice(&mut self, op: &MetaOp) {
        match op {
            MetaOp::Notify {
                notice,
                owner,
                level,
                text,
            } => {
                self.keep_notice(*notice, (*owner, *level), text.clone());
                self.list_on();
            }
            MetaOp::NotifyClear(notice) => drop(self.notices.told.remove(notice)),
            _ => {}
        }
    }

    fn keep_notice(&mut self, id: NoticeId, (by, level): (AttachmentId, u8), text: String) {
        let by = self.teller(by);
        self.notices
            .told
            .entry(id)
            .or_insert(Told { level, by, text });
        if self.notices.told.len() > limits::NOTICE_COUNT_MAX {
            self.notices.told.pop_first();
        }
    }

    fn teller(&self, id: AttachmentId) -> String {
        if id == SERVER {
            return "apexd".into();
        }
        let attached = self.node().state().meta().attachments.get(&id);
        attached.map_or_else(|| format!("attachment {id}"), |party| party.name.clone())
    }

    /// Returns what a tool says of the place where the cursor is.
    pub(super) fn annotation_status(&self) -> Option<Status> {
        let (_, buffer, view) = self.text(self.focus?)?;
        let q = view.dot.q0;
        let layers = buffer.layers();
        let (_, worst) = layers
            .flat_map(|(_, _, layer)| layer.touching(Span::at(q)))
            .filter(|(_, note)| !note.message.is_empty())
            .max_by_key(|(_, note)| note.severity)?;
        let line = worst.message.lines().next().unwrap_or_default();
        Some(Status {
            text: line.to_owned(),
            is_alarm: false,
        })
    }

    /// Returns what the top row says of the notices that were not listed yet.
    pub(super) fn notice_status(&self) -> Option<Status> {
        let newest = self.notices.unseen().next_back()?;
        let is_alarm = self.notices.unseen().any(|told| told.level >= ALARM_LEVEL);
        let width = usize::from(self.size.width.saturating_sub(STATUS_REST_WIDTH).max(20));
        let line = newest.text.lines().next().unwrap_or_default();
        let mut text: String = line.chars().take(width).collect();
        if text.len() < newest.text.trim_end().len() {
            text.push('…');
        }
        let text = match self.notices.unseen().count() {
            1 => format!("{text} (F3: Notices)"),
            count => format!("{text} (F3: {count} Notices)"),
        };
        Some(Status { text, is_alarm })
    }

    /// The command: lists what was told.
    pub(super) fn list_notices(&mut self) {
        if !self.may_arrange() {
            return;
        }
        if self.notices.told.is_empty() {
            return self.say("no tool has said anything, nor has apexd");
        }
        let made = self
            .node_mut()
            .scratch_window(NAME, Placement::LastColumn)
            .and_then(|(buffer, window)| {
                self.write_notices(buffer)?;
                Ok(window)
            });
        match made {
            Ok(window) => {
                let view = ViewId::Body(window);
                self.uncover(window);
                let end = self.text(view).map_or(0, |(_, b, _)| b.text().len());
                self.set_dot(view, Span::at(end));
                self.reveal(view, end, Reveal::Near);
                self.notices.seen = self.notices.told.keys().next_back().copied();
            }
            Err(error) => self.complain(&error),
        }
    }

    /// Adds what was told to the window that lists it, if there is one.
    fn list_on(&mut self) {
        let listed = self.node().state().buffer_named(NAME);
        let listed = listed.filter(|buffer| self.node().window_of_buffer(*buffer).is_some());
        let Some(buffer) = listed.filter(|_| self.client.is_leading()) else {
            return;
        };
        if let Err(error) = self.write_notices(buffer) {
            self.complain(&error);
        }
    }

    fn write_notices(&mut self, buffer: BufferId) -> Result<(), apex_core::node::NodeError> {
        let mut text = String::new();
        for Told {
            level,
            by,
            text: said,
        } in self.notices.told.values()
        {
            let level = match level {
                0 => "debug",
                1 => "information",
                2 => "warning",
                _ => "error",
            };
            text.push_str(&format!("{by}: {level}: {}\n", said.trim_end()));
        }
        let state = self.node().state();
        let old = state.buffer(buffer).map(|old| old.text().clone());
        let new = Text::from(text.as_str());
        let Some(splice) = edit::difference(&old.unwrap_or_default(), &new) else {
            return Ok(());
        };
        let splices = vec![splice];
        let op = BufferOp::Edit {
            splices: splices.into(),
            group: None,
            dot: None,
        };
        self.node_mut().append_buffer(buffer, op).map(drop)
    }
}
