//! One text with its name, views, undo history and annotations.
//!
//! Views live here, not with their windows, because an edit moves them: selection and edit need
//! one order. Undo lives here so that it survives the UI that made it.

pub mod hash;
pub mod history;
pub mod layer;
pub(crate) mod parts;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use self::history::{Group, History, Standing, Step};
use self::layer::Layer;
use crate::canary::{self, Canary};
use crate::edit::{self, Splice};
use crate::entry::{Annotation, ApplyLimits, BufferKind, BufferOp, Dot, Origin, Saved};
use crate::ids::{AttachmentId, GroupId, ProposalId, Version, ViewId};
use crate::text::{Span, Text};

/// Why an operation does not apply to the state it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpError {
    /// The shard already has its first entry, or does not have it yet.
    Create,
    /// An edit does not fit the text.
    Edit(edit::EditError),
    /// A span or position is outside the text.
    OutOfRange,
    /// It names something that does not exist; says what.
    Missing(&'static str),
    /// It names something that exists already; says what.
    Exists(&'static str),
    /// A limit was reached; says which.
    Limit(&'static str),
}

impl core::fmt::Display for OpError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Create => f.write_str("a shard has exactly one Create, and it comes first"),
            Self::Edit(error) => error.fmt(f),
            Self::OutOfRange => f.write_str("a position is outside the text"),
            Self::Missing(what) => write!(f, "{what} does not exist"),
            Self::Exists(what) => write!(f, "{what} exists already"),
            Self::Limit(what) => write!(f, "{what}: limit reached"),
        }
    }
}

impl core::error::Error for OpError {}

/// Returns the name of the window that complaints and output about a directory go to, as in acme;
/// the directory may end in a slash or not.
#[must_use]
pub fn errors_name(directory: &str) -> String {
    alloc::format!("{}/+Errors", directory.trim_end_matches('/'))
}

/// One text's selection and the position at which its first visible line begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// What is selected.
    pub dot: Span,
    /// Where the first visible line begins.
    pub origin: u64,
}

/// What an operation did to the text, one list of splices for each version it made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nothing to the text.
    #[default]
    None,
    /// The splices of the entry itself.
    Edited,
    /// A text of this many code points was appended.
    Loaded(u64),
    /// These splices, one version each.
    Steps(Vec<Vec<Splice>>),
}

/// A buffer. Cloning is cheap: text and history share structure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Buffer {
    kind: BufferKind,
    name: String,
    text: Text,
    version: Version,
    /// The version at which the present content first arose; undo goes back to older ones.
    content: Version,
    /// The content that the file has.
    clean: Version,
    saved: Option<Saved>,
    views: BTreeMap<ViewId, View>,
    history: History,
    settings: BTreeMap<String, String>,
    layers: BTreeMap<(AttachmentId, String), Layer>,
    /// Highest accepted proposal of each live author.
    authors: BTreeMap<AttachmentId, ProposalId>,
}

impl Buffer {
    /// Returns an empty buffer, as its Create entry makes it.
    #[must_use]
    pub fn new(kind: BufferKind, name: String) -> Self {
        Self {
            kind,
            name,
            text: Text::new(),
            version: Version::default(),
            content: Version::default(),
            clean: Version::default(),
            saved: None,
            views: BTreeMap::new(),
            history: History::default(),
            settings: BTreeMap::new(),
            layers: BTreeMap::new(),
            authors: BTreeMap::new(),
        }
    }

    /// Returns what it is for.
    #[must_use]
    pub const fn kind(&self) -> BufferKind {
        self.kind
    }

    /// Returns its name: an absolute path, a scratch name, or nothing.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its text.
    #[must_use]
    pub const fn text(&self) -> &Text {
        &self.text
    }

    /// Returns how many changes it has had.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns the version at which the present content first arose.
    #[must_use]
    pub const fn content(&self) -> Version {
        self.content
    }

    /// Returns whether a file's text differs from what is on disk; never for other kinds.
    #[must_use]
    pub fn is_modified(&self) -> bool {
        self.kind == BufferKind::File && self.content != self.clean
    }

    /// Returns what was last written to or read from its file.
    #[must_use]
    pub const fn saved(&self) -> Option<&Saved> {
        self.saved.as_ref()
    }

    /// Returns a view.
    #[must_use]
    pub fn view(&self, view: ViewId) -> Option<View> {
        self.views.get(&view).copied()
    }

    /// Returns all views, in order.
    pub fn views(&self) -> impl Iterator<Item = (ViewId, View)> + '_ {
        self.views.iter().map(|(id, view)| (*id, *view))
    }

    /// Returns about how many bytes the undo history holds.
    #[must_use]
    pub const fn undo_len(&self) -> u64 {
        self.history.len_bytes()
    }

    /// Returns the group that Undo would undo.
    #[must_use]
    pub fn undo_group(&self) -> Option<GroupId> {
        self.history.last().map(Group::id)
    }

    /// Returns the group that Redo would redo.
    #[must_use]
    pub fn redo_group(&self) -> Option<GroupId> {
        self.history.last_undone().map(Group::id)
    }

    /// Returns how it stands to undoing a group that was made in several buffers.
    #[must_use]
    pub fn undo_standing(&self, group: GroupId) -> Standing {
        self.history.undo_standing(group)
    }

    /// Returns how it stands to redoing a group that was undone in several buffers.
    #[must_use]
    pub fn redo_standing(&self, group: GroupId) -> Standing {
        self.history.redo_standing(group)
    }

    /// Returns a setting of the buffer.
    #[must_use]
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// Returns the annotation layers: owner, name and annotations.
    pub fn layers(&self) -> impl Iterator<Item = (AttachmentId, &str, &Layer)> {
        self.layers
            .iter()
            .map(|((owner, name), layer)| (*owner, name.as_str(), layer))
    }

    /// Returns the highest proposal of an author that was accepted here.
    #[must_use]
    pub fn accepted(&self, author: AttachmentId) -> Option<ProposalId> {
        self.authors.get(&author).copied()
    }

    /// Applies an operation other than Create.
    ///
    /// # Errors
    /// The operation does not fit; nothing was changed.
    pub fn apply(
        &mut self,
        op: &BufferOp,
        origin: Option<Origin>,
        limits: &ApplyLimits,
    ) -> Result<Effect, OpError> {
        let effect = if let BufferOp::Edit {
            splices,
            group,
            dot,
        } = op
        {
            self.edit(splices, *group, *dot, limits)?;
            Effect::Edited
        } else {
            self.apply_other(op, limits)?
        };
        if let Some(origin) = origin {
            let highest = self.authors.entry(origin.author).or_default();
            *highest = (*highest).max(origin.id);
        }
        Ok(effect)
    }

    /// Applies an operation that is no edit: out of the way of typing.
    #[inline(never)]
    fn apply_other(&mut self, op: &BufferOp, limits: &ApplyLimits) -> Result<Effect, OpError> {
        Ok(match op {
            BufferOp::Create { .. } | BufferOp::Edit { .. } => return Err(OpError::Create),
            BufferOp::Load { text } => self.load(text),
            BufferOp::Undo { group, view } => self.undo(*group, *view)?,
            BufferOp::Redo { group, view } => self.redo(*group, *view)?,
            BufferOp::Select(dot) => self.select(*dot)?,
            BufferOp::Origin { view, at } => self.set_origin(*view, *at)?,
            BufferOp::ViewAdd(view) => self.add_view(*view)?,
            BufferOp::ViewDel(view) => self.del_view(*view)?,
            BufferOp::Name { name, group } => self.rename(name, *group, limits),
            BufferOp::Saved(saved) => self.save(saved)?,
            BufferOp::Annotate {
                owner,
                layer,
                spans,
            } => self.annotate(*owner, layer, spans, limits)?,
            BufferOp::Setting { key, value } => {
                set(&mut self.settings, key, value.as_ref());
                Effect::None
            }
            BufferOp::Forget(attachment) => {
                self.layers.retain(|(owner, _), _| owner != attachment);
                self.authors.remove(attachment);
                Effect::None
            }
        })
    }

    /// Returns whether all that it keeps of positions lies in its text, as `apply` leaves it.
    #[must_use]
    pub(crate) fn is_sound(&self) -> bool {
        let len = self.text.len();
        let fits = |view: &View| view.dot.fits(len) && view.origin <= len;
        self.views.values().all(fits) && self.layers.values().all(|layer| layer.end() <= len)
    }

    /// Returns whether it keeps anything of an attachment.
    #[must_use]
    pub fn is_owned_by(&self, attachment: AttachmentId) -> bool {
        self.authors.contains_key(&attachment)
            || self.layers.keys().any(|(owner, _)| *owner == attachment)
    }

    /// Returns the attachments of which it keeps something, some more than once.
    pub fn owners(&self) -> impl Iterator<Item = AttachmentId> + '_ {
        let layers = self.layers.keys().map(|(owner, _)| *owner);
        self.authors.keys().copied().chain(layers)
    }

    fn load(&mut self, text: &str) -> Effect {
        let is_clean = self.content == self.clean;
        let end = self.text.len();
        self.text.replace(Span::at(end), text);
        self.version = self.version.next();
        self.content = self.version;
        if is_clean {
            self.clean = self.content;
        }
        Effect::Loaded(self.text.len() - end)
    }

    fn edit(
        &mut self,
        splices: &[Splice],
        group: Option<GroupId>,
        dot: Option<Dot>,
        limits: &ApplyLimits,
    ) -> Result<(), OpError> {
        edit::check(splices, self.text.len()).map_err(OpError::Edit)?;
        if let Some(dot) = dot {
            self.check_dot(dot, new_len(self.text.len(), splices))?;
        }
        let before = self.content;
        let is_behind = matches!(splices, [splice] if splice.at == Span::at(self.text.len()));
        let inverse = self.change(splices, dot);
        self.content = self.version;
        match group {
            Some(group) => {
                self.history
                    .push(group, inverse, (before, self.content), limits);
            }
            // Behind all that older steps are about: they fit still.
            None if is_behind => {}
            // What cannot be undone must not leave older steps that no longer fit.
            None => self.history.clear(limits),
        }
        Ok(())
    }

    fn check_dot(&self, dot: Dot, len: u64) -> Result<(), OpError> {
        if !self.views.contains_key(&dot.view) {
            return Err(OpError::Missing("the view"));
        }
        if dot.at.fits(len) {
            Ok(())
        } else {
            Err(OpError::OutOfRange)
        }
    }

    /// Changes the text and moves everything that edits move; the one place that does. `dot` is
    /// what the edit itself selects.
    fn change(&mut self, splices: &[Splice], dot: Option<Dot>) -> Step {
        let inverse = match splices {
            [splice] => Step::Splice(edit::apply_one(&mut self.text, splice)),
            splices => Step::Splices(edit::apply(&mut self.text, splices)),
        };
        for (id, view) in &mut self.views {
            let selected = dot.filter(|dot| dot.view == *id);
            let stays = canary::is_on(Canary::ViewsStay).then(|| view.dot.clamped(self.text.len()));
            view.dot = match (selected, stays) {
                (Some(dot), _) => dot.at,
                (None, Some(stays)) => stays,
                (None, None) => edit::map_span(splices, view.dot),
            };
            view.origin = edit::map(splices, view.origin, edit::Bias::Left);
        }
        for layer in self.layers.values_mut() {
            layer.apply(splices);
        }
        self.version = self.version.next();
        inverse
    }

    fn undo(&mut self, group: GroupId, view: Option<ViewId>) -> Result<Effect, OpError> {
        if self.undo_group() != Some(group) && !canary::is_on(Canary::UndoOfOthers) {
            return Err(OpError::Missing("the undo group on top"));
        }
        let group = self
            .history
            .pop()
            .ok_or(OpError::Missing("the undo group on top"))?;
        let (before, after) = group.content();
        let is_known = self.content == after;
        let (steps, effect) = self.take_back(&group, view);
        // What was changed since without a step is in the text still: that content is a new one.
        self.content = if is_known { before } else { self.version };
        self.history.push_undone(group.inverted(steps));
        Ok(effect)
    }

    fn redo(&mut self, group: GroupId, view: Option<ViewId>) -> Result<Effect, OpError> {
        if self.redo_group() != Some(group) {
            return Err(OpError::Missing("the redo group on top"));
        }
        let group = self
            .history
            .pop_undone()
            .ok_or(OpError::Missing("the redo group on top"))?;
        let (before, after) = group.content();
        let is_known = self.content == before;
        let (steps, effect) = self.take_back(&group, view);
        self.content = if is_known { after } else { self.version };
        self.history.push_redone(group.inverted(steps));
        Ok(effect)
    }

    /// Applies a group's steps from the last to the first; returns the steps that go back.
    fn take_back(&mut self, group: &Group, view: Option<ViewId>) -> (Vec<Step>, Effect) {
        let mut steps = Vec::with_capacity(group.steps().len());
        let mut changes = Vec::new();
        for step in group.steps().iter().rev() {
            if let Step::Name(name) = step {
                let old = core::mem::replace(&mut self.name, name.clone());
                self.version = self.version.next();
                steps.push(Step::Name(old));
            } else {
                steps.push(self.change(step.splices(), None));
            }
            changes.push(step.splices().to_vec());
        }
        let touched = changes.iter().rev().find_map(|splices| splices.first());
        if let Some(splice) = touched
            && let Some(view) = view.and_then(|view| self.views.get_mut(&view))
        {
            view.dot = Span::new(splice.at.q0, splice.at.q0 + splice.count());
        }
        (steps, Effect::Steps(changes))
    }

    fn select(&mut self, dot: Dot) -> Result<Effect, OpError> {
        self.check_dot(dot, self.text.len())?;
        let view = self
            .views
            .get_mut(&dot.view)
            .ok_or(OpError::Missing("the view"))?;
        view.dot = dot.at;
        Ok(Effect::None)
    }

    fn set_origin(&mut self, view: ViewId, at: u64) -> Result<Effect, OpError> {
        if at > self.text.len() {
            return Err(OpError::OutOfRange);
        }
        let view = self
            .views
            .get_mut(&view)
            .ok_or(OpError::Missing("the view"))?;
        view.origin = at;
        Ok(Effect::None)
    }

    fn add_view(&mut self, view: ViewId) -> Result<Effect, OpError> {
        if self.views.contains_key(&view) {
            return Err(OpError::Exists("the view"));
        }
        self.views.insert(view, View::default());
        Ok(Effect::None)
    }

    fn del_view(&mut self, view: ViewId) -> Result<Effect, OpError> {
        self.views
            .remove(&view)
            .map(|_| Effect::None)
            .ok_or(OpError::Missing("the view"))
    }

    fn rename(&mut self, name: &str, group: Option<GroupId>, limits: &ApplyLimits) -> Effect {
        let old = core::mem::replace(&mut self.name, name.into());
        let before = self.content;
        self.version = self.version.next();
        self.content = self.version;
        if let Some(group) = group {
            self.history
                .push(group, Step::Name(old), (before, self.content), limits);
        }
        Effect::Steps(alloc::vec![Vec::new()])
    }

    fn save(&mut self, saved: &Saved) -> Result<Effect, OpError> {
        if saved.version > self.version {
            return Err(OpError::Missing("the saved version"));
        }
        if saved.path == self.name {
            self.clean = saved.content;
            self.saved = Some(saved.clone());
        }
        Ok(Effect::None)
    }

    fn annotate(
        &mut self,
        owner: AttachmentId,
        layer: &str,
        spans: &[Annotation],
        limits: &ApplyLimits,
    ) -> Result<Effect, OpError> {
        if spans.len() as u64 > limits.annotation_count {
            return Err(OpError::Limit("annotations in one layer"));
        }
        if spans
            .iter()
            .any(|annotation| !annotation.at.fits(self.text.len()))
        {
            return Err(OpError::OutOfRange);
        }
        let key = (owner, String::from(layer));
        if spans.is_empty() {
            self.layers.remove(&key);
        } else {
            self.layers.insert(key, Layer::new(spans));
        }
        Ok(Effect::None)
    }
}

/// Sets or removes one setting.
pub(crate) fn set(settings: &mut BTreeMap<String, String>, key: &str, value: Option<&String>) {
    match value {
        Some(value) => settings.insert(key.into(), value.clone()),
        None => settings.remove(key),
    };
}

/// Returns the length of a text of `len` code points after checked splices.
fn new_len(len: u64, splices: &[Splice]) -> u64 {
    splices
        .iter()
        .fold(len, |len, splice| len - splice.at.len() + splice.count())
}

#[cfg(test)]
mod tests;
