//! Copies of the texts that a script works on, and how what it did to them lands.

use std::collections::BTreeSet;

use apex_core::buffer::Buffer;
use apex_core::command::File;
use apex_core::edit::Splice;
use apex_core::entry::{Body, BufferKind, Dot};
use apex_core::ids::{BufferId, GroupId, ProposalId, Shard, Version, ViewId};
use apex_core::limits::PROPOSAL_LEN_MAX;
use apex_core::node::rewriting::Rewrite;
use apex_core::proposal::{Change, Landed, Outcome, Refusal};
use apex_core::text::Span;

use super::Script;
use crate::app::App;
use crate::app::motion::Reveal;
use crate::view::is_dirty;

/// A text as a script has it. Its own copy, with what the script did to it, is a [`File`].
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) buffer: BufferId,
    /// The view whose selection is the text's.
    pub(super) view: ViewId,
    /// The version that the splices are of.
    pub(super) base: Version,
    /// What the script has done since.
    pub(super) splices: Vec<Splice>,
    /// The selection then.
    dot: Span,
    pub(super) is_file: bool,
}

/// Changes of texts that other parties lead, on their way there.
#[derive(Debug)]
pub(in crate::app) struct Landing {
    title: String,
    directory: String,
    /// One a change.
    parts: Vec<Part>,
    /// What goes on when they have landed.
    script: Option<Script>,
}

/// A text that is changed elsewhere.
#[derive(Clone, Copy, Debug)]
struct Part {
    buffer: BufferId,
    view: ViewId,
    /// The version that the change is of.
    base: Version,
    /// The selection behind it.
    dot: Span,
}

impl Landing {
    pub(super) fn resume(&mut self, script: Script) {
        self.script = Some(script);
    }
}

impl App {
    /// Returns a draft of each text that has a window, in the order of the windows; of two windows
    /// on one text `body` counts, else the first.
    pub(super) fn drafts(&self, body: Option<ViewId>) -> (Vec<File>, Vec<Draft>) {
        let state = self.node().state();
        let mut seen: BTreeSet<BufferId> = BTreeSet::new();
        let columns = state.layout().map_or(&[][..], |layout| &layout.columns);
        let slots = columns.iter().flat_map(|column| &column.windows);
        let mut views = Vec::new();
        for slot in slots {
            let Some(Body::Buffer(buffer)) = state.window(slot.window).map(|window| window.body)
            else {
                continue;
            };
            if seen.insert(buffer) {
                let here = body.filter(|view| state.buffer_of(*view) == Some(buffer));
                views.push(here.unwrap_or(ViewId::Body(slot.window)));
            }
        }
        let drafts = views.into_iter().filter_map(|view| self.draft(view));
        drafts.unzip()
    }

    fn draft(&self, view: ViewId) -> Option<(File, Draft)> {
        let (id, buffer, shown) = self.text(view)?;
        let base = buffer.version();
        let file = File {
            text: buffer.text().clone(),
            dot: shown.dot,
            name: buffer.name().into(),
            is_modified: is_dirty(buffer),
            is_warned: self.warned.get(&id) == Some(&base.raw()),
        };
        let draft = Draft {
            buffer: id,
            view,
            base,
            splices: Vec::new(),
            dot: shown.dot,
            is_file: buffer.kind() == BufferKind::File,
        };
        Some((file, draft))
    }

    /// Takes the drafts anew, of the texts as they are.
    pub(super) fn refresh(&self, script: &mut Script) {
        for (file, draft) in script.files.iter_mut().zip(&mut script.drafts) {
            // A text that is gone stays as it was; whoever wants to change it will hear of it.
            if let Some(fresh) = self.draft(draft.view) {
                (*file, *draft) = fresh;
            }
        }
    }

    /// Lands what a script has done to its drafts: here where this UI leads the texts; else it is
    /// proposed, and the proposal is returned.
    pub(super) fn land(&mut self, script: &mut Script) -> Result<Option<ProposalId>, String> {
        let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
        for (file, draft) in script.files.iter().zip(&mut script.drafts) {
            if draft.splices.is_empty() && file.dot == draft.dot {
                continue;
            }
            let Draft { buffer, view, .. } = *draft;
            if self.node().leads(Shard::Buffer(buffer)) {
                let splices = std::mem::take(&mut draft.splices);
                here.push(Rewrite {
                    buffer,
                    base: draft.base,
                    splices,
                    dot: Some(Dot { view, at: file.dot }),
                });
            } else if draft.splices.is_empty() {
                self.set_dot(view, file.dot);
            } else {
                let splices = std::mem::take(&mut draft.splices);
                let (base, dot) = (draft.base, file.dot);
                let part = Part {
                    buffer,
                    view,
                    base,
                    dot,
                };
                elsewhere.push((part, splices));
            }
        }
        if here.is_empty() && elsewhere.is_empty() {
            return Ok(None);
        }
        let version = |id: BufferId| self.node().state().buffer(id).map(Buffer::version);
        let is_carried = |part: &Rewrite| version(part.buffer) != Some(part.base);
        script.is_carried |= here.iter().any(is_carried);
        let current = script.current.map(|index| script.drafts[index].view);
        let is_shown = |part: &Rewrite| part.dot.is_some_and(|dot| Some(dot.view) == current);
        let is_shown = here.iter().any(is_shown);
        if !elsewhere.is_empty() {
            return self.propose_landing(script, here, elsewhere).map(Some);
        }
        let group = self.step_of(script);
        self.land_here(script, here, group)?;
        if let Some(view) = current.filter(|_| is_shown) {
            self.show_dot(view);
        }
        self.refresh(script);
        Ok(None)
    }

    fn land_here(
        &mut self,
        script: &mut Script,
        parts: Vec<Rewrite>,
        group: GroupId,
    ) -> Result<(), String> {
        let is_change = |part: &&Rewrite| !part.splices.is_empty();
        let changed: Vec<BufferId> = parts.iter().filter(is_change).map(|p| p.buffer).collect();
        let done = self.node_mut().rewrite(parts, group);
        done.map_err(|refusal| self.words_of(&refusal))?;
        script.changed.extend(changed);
        Ok(())
    }

    /// Proposes changes of texts that others lead; those of texts led here are of the same step.
    fn propose_landing(
        &mut self,
        script: &mut Script,
        here: Vec<Rewrite>,
        elsewhere: Vec<(Part, Vec<Splice>)>,
    ) -> Result<ProposalId, String> {
        let mut parts = Vec::new();
        let mut changes = Vec::new();
        let mut len = 0;
        for (part, splices) in elsewhere {
            let Part { buffer, base, .. } = part;
            len += splices.iter().map(|s| s.text.len() + 16).sum::<usize>();
            parts.push(part);
            changes.push(Change::Edit {
                buffer,
                base,
                splices,
            });
        }
        if len > PROPOSAL_LEN_MAX {
            return Err("too large a change for a text that another party leads".into());
        }
        let proposed = self.client.propose_each(changes);
        let (id, message) = proposed.ok_or("there is no session")?;
        let group = GroupId::new(id.raw());
        self.land_here(script, here, group)?;
        self.client.flush(&mut self.outbox);
        self.outbox.push(message);
        let landing = Landing {
            title: script.title.clone(),
            directory: script.directory.clone(),
            parts,
            script: None,
        };
        self.scripts.landing.insert(id, landing);
        Ok(id)
    }

    /// Takes the decision on changes of texts that others lead. Returns whether it was one.
    pub(in crate::app) fn script_decided(&mut self, id: ProposalId, outcome: &Outcome) -> bool {
        let Some(mut landing) = self.scripts.landing.remove(&id) else {
            return false;
        };
        let mut refused = Vec::new();
        match outcome {
            Err(refusal) => refused.push(self.words_of(refusal)),
            Ok(landed) => {
                for (part, landed) in landing.parts.iter().zip(landed) {
                    let Landed {
                        version, refusal, ..
                    } = landed;
                    match refusal {
                        Some(refusal) => refused.push(self.words_of(refusal)),
                        // Nobody else has changed the text: the selection stands where it should.
                        None if *version == part.base.next() => self.set_dot(part.view, part.dot),
                        None => {}
                    }
                }
            }
        }
        if !refused.is_empty() {
            let Landing {
                title, directory, ..
            } = &landing;
            self.report_in(directory, &format!("{title}: {}", refused.join("; ")));
        } else if let Some(mut script) = landing.script.take() {
            self.refresh(&mut script);
            self.go_on(script);
        }
        true
    }

    /// Returns the step of undo that a script goes on with: its own, unless others have made steps
    /// of theirs meanwhile.
    pub(super) fn step_of(&mut self, script: &mut Script) -> GroupId {
        let is_latest = |group: GroupId| {
            script.changed.iter().all(|id| {
                let buffer = self.node().state().buffer(*id);
                buffer.and_then(Buffer::undo_group) == Some(group)
            })
        };
        let group = script.group.filter(|group| is_latest(*group));
        let group = group.unwrap_or_else(|| {
            script.changed.clear();
            self.node_mut().new_group()
        });
        script.group = Some(group);
        group
    }

    /// Returns what a refusal means to the user.
    fn words_of(&self, refusal: &Refusal) -> String {
        match refusal {
            Refusal::Conflict { buffer, .. } | Refusal::Stale { buffer, .. } => {
                let name = self.node().state().buffer(*buffer).map_or("", Buffer::name);
                let name = if name.is_empty() { "the text" } else { name };
                format!("{name} was changed meanwhile; nothing was done, do it again")
            }
            Refusal::Several(all) => {
                let words: Vec<String> = all.iter().map(|one| self.words_of(one)).collect();
                words.join("; ")
            }
            other => other.to_string(),
        }
    }

    /// Scrolls to a selection of which nothing is in sight.
    fn show_dot(&mut self, view: ViewId) {
        let Some((_, _, shown)) = self.text(view) else {
            return;
        };
        self.selected = Some(view);
        let dot = shown.dot;
        if !(dot.q0 <= shown.origin && shown.origin < dot.q1) {
            self.reveal(view, dot.q0, Reveal::Quarter);
        }
    }
}
