//! What tests of proposals share: a scene, an edit, and what its author hears.

use alloc::vec;

use super::*;
use crate::edit::Splice;
use crate::ids::Version;
use crate::proposal::{Change, Outcome};
use crate::text::Span;

/// A UI that leads "abcdef" and a tool.
pub(super) fn started() -> (World, usize, usize, BufferId, ViewId) {
    let mut world = World::new();
    let ui = world.ui();
    let tool = world.join(AttachmentKind::Tool, Takeover::Watch);
    let (buffer, view) = world.open(ui, "/tmp/x");
    world.type_text(ui, view, "abcdef");
    world.run();
    (world, ui, tool, buffer, view)
}

/// Lets a peer hear and say what waits.
pub(super) fn wake(world: &mut World, index: usize) {
    world.peer(index).is_asleep = false;
    world.peer(index).is_held = false;
    world.run();
}

/// Returns an edit of one span, computed on version `base`.
pub(super) fn edit(buffer: BufferId, base: u64, at: (u64, u64), text: &str) -> Change {
    Change::Edit {
        buffer,
        base: Version::new(base),
        splices: vec![Splice::new(Span::new(at.0, at.1), text)],
    }
}

/// Returns what a party has heard of its proposal.
pub(super) fn outcomes(world: &mut World, index: usize, id: ProposalId) -> Vec<Outcome> {
    let events = world.peer(index).events.iter();
    let of = |event: &ClientEvent| match event {
        ClientEvent::Decided { id: of, outcome } if *of == id => Some(outcome.clone()),
        _ => None,
    };
    events.filter_map(of).collect()
}
