//! Selections stay between the characters that they stood between.

use apex_core::ids::ViewId;
use apex_core::node::Node;
use apex_core::proposal::{Change, Proposal};

use super::{Failure, hold};

const MOVED: &str = "edits move views (3, I14)";

/// Where a view's selection begins: between which two characters that are typed once.
#[derive(Clone, Debug)]
pub(crate) struct Corner {
    view: ViewId,
    left: Option<char>,
    right: Option<char>,
}

/// Returns where all selections of a replica begin. What a proposal puts in is no landmark: it may
/// be what it takes away. A text whose step it undoes or redoes is left out: its windows select
/// what comes and goes, as in acme.
pub(crate) fn corners(node: &Node, proposal: &Proposal) -> Vec<Corner> {
    let added: String = proposal
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Edit { splices, .. } => Some(splices),
            _ => None,
        })
        .flatten()
        .map(|splice| splice.text.as_str())
        .collect();
    let mut corners = Vec::new();
    let is_stepped = |id| {
        let of = |change: &Change| match change {
            Change::Undo { buffer, .. } | Change::Redo { buffer, .. } => *buffer == id,
            _ => false,
        };
        proposal.changes.iter().any(of)
    };
    let buffers = node.state().buffers();
    for (_, buffer) in buffers.filter(|(id, _)| !is_stepped(*id)) {
        let text = buffer.text();
        let is_own = |c: &char| u32::from(*c) >= 0x4E00 && !added.contains(*c);
        for (view, at) in buffer.views() {
            let q0 = at.dot.q0;
            let left = q0.checked_sub(1).and_then(|q| text.char_at(q));
            let right = text.char_at(q0);
            let (left, right) = (left.filter(is_own), right.filter(is_own));
            if left.is_some() || right.is_some() {
                corners.push(Corner { view, left, right });
            }
        }
    }
    corners
}

/// Checks that edits of others left each selection between its two characters.
pub(crate) fn check(before: &[Corner], node: &Node) -> Result<(), Failure> {
    for corner in before {
        let Some(id) = node.state().buffer_of(corner.view) else {
            continue;
        };
        let Some(buffer) = node.state().buffer(id) else {
            continue;
        };
        let Some(view) = buffer.view(corner.view) else {
            continue;
        };
        let text = buffer.text().to_string();
        let place = |of: Option<char>| {
            // A doubled character is another oracle's.
            let mut found = text.chars().enumerate().filter(|(_, c)| Some(*c) == of);
            let only = found.next().filter(|_| found.next().is_none());
            only.map(|(at, _)| at as u64)
        };
        let (left, right) = (place(corner.left), place(corner.right));
        let q0 = view.dot.q0;
        let is_behind = left.is_none_or(|left| left < q0);
        let is_before = right.is_none_or(|right| right >= q0);
        hold(is_behind && is_before, MOVED, || {
            format!("{corner:?} is at {q0}, between {left:?} and {right:?}")
        })?;
    }
    Ok(())
}
