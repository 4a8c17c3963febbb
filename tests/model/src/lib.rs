//! A model of leases, fences, takeover and compaction: two UIs, one daemon, explored whole.
//!
//! It shares no code with apex, so that a mistake in a rule cannot hide in its check. Each
//! [`Flaw`] breaks one rule; the checker must find what that leads to, or it would not find it in
//! the rules either.

use stateright::{Model, Property};

use crate::world::{Party, SERVER, World};

pub mod world;

#[cfg(test)]
mod tests;

/// How often each thing may still happen. Compaction may at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Entries typed, by UIs and by SERVER.
    pub entries: u8,
    /// Requests for the shard; each makes at most two epochs.
    pub asks: u8,
    /// Connections that drop.
    pub drops: u8,
    /// Readers that are told to take a snapshot.
    pub forgets: u8,
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// None.
    None,
    /// The append does not compare the epoch.
    EpochNotCompared,
    /// Compaction does not ask the readers.
    CompactionPastReader,
    /// A reclaim does not raise the epoch.
    EpochKept,
    /// An append is acknowledged before it is checked.
    AckBeforeAppend,
    /// A displaced UI does not keep its tail.
    TailDropped,
    /// A UI looks for its tail when the daemon takes the shard back, not when another gets it.
    TailAtReclaimAlone,
    /// A snapshot is compared by its length alone, not by what is in it.
    TailBySeqAlone,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Leases {
    /// How often each thing may happen.
    pub bounds: Bounds,
    /// Which rule is broken.
    pub flaw: Flaw,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A UI that leads types.
    Type(Party),
    /// SERVER leads and appends.
    TypeAsServer,
    /// A UI ships what it appended.
    Ship(Party),
    /// A UI asks for the shard, at once if so.
    Ask(Party, bool),
    /// The daemon takes the next message of a UI.
    Receive(Party),
    /// A UI takes the next message of the daemon.
    Deliver(Party),
    /// The deadline of a transfer passes.
    EndTransfer,
    /// A connection drops.
    Drop(Party),
    /// The grace of a dropped holder ends.
    EndGrace,
    /// A dropped UI comes back.
    ComeBack(Party),
    /// A reader is told to take a snapshot.
    Forget(Party),
    /// The daemon compacts as far as it may.
    Compact,
}

impl Leases {
    fn compactable(&self, world: &World) -> u8 {
        if self.flaw == Flaw::CompactionPastReader {
            u8::try_from(world.log.len()).unwrap_or(u8::MAX)
        } else {
            world.compactable()
        }
    }
}

impl Model for Leases {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let left = world.past.left;
        for party in [1, 2] {
            let ui = world.ui(party);
            if left.entries > 0 && ui.leads(party) && !ui.is_recovering() {
                actions.push(Action::Type(party));
            }
            if !ui.is_connected {
                actions.push(Action::ComeBack(party));
                if world.lease.holder == party {
                    actions.push(Action::EndGrace);
                }
                continue;
            }
            if !ui.is_resyncing && usize::from(ui.shipped) < ui.log.len() {
                actions.push(Action::Ship(party));
            }
            if left.asks > 0 {
                actions.extend([Action::Ask(party, false), Action::Ask(party, true)]);
            }
            if !ui.up.is_empty() {
                actions.push(Action::Receive(party));
            }
            if !ui.down.is_empty() {
                actions.push(Action::Deliver(party));
            }
            if left.drops > 0 {
                actions.push(Action::Drop(party));
            }
            if left.forgets > 0 {
                actions.push(Action::Forget(party));
            }
        }
        if world.lease.holder == SERVER && left.entries > 0 {
            actions.push(Action::TypeAsServer);
        }
        if world.transfer.is_some() {
            actions.push(Action::EndTransfer);
        }
        if self.compactable(world) > world.base {
            actions.push(Action::Compact);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut world = world.clone();
        let flaw = self.flaw;
        match action {
            Action::Type(party) => {
                world.past.left.entries -= 1;
                world.type_key(party);
            }
            Action::TypeAsServer => {
                world.past.left.entries -= 1;
                world.type_as_server();
            }
            Action::Ship(party) => world.ship(party),
            Action::Ask(party, is_steal) => {
                world.past.left.asks -= 1;
                world.ask(party, is_steal);
            }
            Action::Receive(party) => world.receive(party, flaw),
            Action::Deliver(party) => world.deliver(party, flaw),
            Action::EndTransfer => world.end_transfer(flaw),
            Action::Drop(party) => {
                world.past.left.drops -= 1;
                world.drop_connection(party, flaw);
            }
            Action::EndGrace => world.end_grace(flaw),
            Action::ComeBack(party) => world.come_back(party),
            Action::Forget(party) => {
                world.past.left.forgets -= 1;
                world.forget(party);
            }
            Action::Compact => world.base = self.compactable(&world),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one party appends under an epoch", |_, world: &World| {
                is_exclusive(world)
            }),
            Property::always("what was acknowledged stays", |_, world: &World| {
                is_acknowledged_kept(world)
            }),
            Property::always("epochs never fall", |_, world: &World| {
                let epochs = world.log.iter().map(|record| record.epoch);
                epochs.chain([world.lease.epoch]).is_sorted()
            }),
            Property::always(
                "nothing of a stale epoch is accepted",
                |_, world: &World| !world.past.is_stale,
            ),
            Property::always("no reader meets a gap", |_, world: &World| {
                !world.past.is_gap
            }),
            Property::always(
                "a replica differs in its own tail alone",
                |_, world: &World| [1, 2].into_iter().all(|party| is_replica(world, party)),
            ),
            Property::always(
                "in the end all that was typed landed",
                |_, world: &World| !is_at_rest(world) || is_landed(world),
            ),
            Property::sometimes("a tail is recovered", |_, world: &World| {
                is_at_rest(world) && world.past.is_recovered
            }),
            Property::sometimes("a shard is given back", |_, world: &World| {
                world.past.is_released && world.lease.holder != SERVER
            }),
            Property::sometimes("all entries land under three leases", |_, world: &World| {
                let mut epochs: Vec<u8> = world.log.iter().map(|record| record.epoch).collect();
                epochs.dedup();
                is_at_rest(world) && world.past.left.entries == 0 && epochs.len() >= 3
            }),
            Property::sometimes(
                "four entries under three fences are compacted",
                |_, world: &World| {
                    let is_all = world.past.typed == 4 && world.base >= 4;
                    is_at_rest(world) && is_all && world.lease.epoch == 3
                },
            ),
        ]
    }
}

fn is_exclusive(world: &World) -> bool {
    world.log.iter().enumerate().all(|(at, one)| {
        let later = world.log[at..].iter();
        later
            .filter(|other| other.epoch == one.epoch)
            .all(|other| other.author == one.author)
    })
}

fn is_acknowledged_kept(world: &World) -> bool {
    let is_kept = |(seq, record): &(u8, _)| world.log.get(usize::from(*seq) - 1) == Some(record);
    world.past.acked.iter().all(is_kept)
}

fn is_landed(world: &World) -> bool {
    let is_in_log = |typed| world.log.iter().any(|record| record.typed == typed);
    (1..=world.past.typed).all(is_in_log)
}

/// Whether a UI's log is the daemon's up to entries of its own.
fn is_replica(world: &World, party: Party) -> bool {
    let ui = world.ui(party);
    let same = ui.log.iter().zip(&world.log).take_while(|(a, b)| a == b);
    let tail = ui.log.iter().skip(same.count());
    tail.clone().all(|record| record.author == party)
}

/// Whether nothing is on its way, and nobody has anything to say.
fn is_at_rest(world: &World) -> bool {
    world.transfer.is_none()
        && world.waiting.is_empty()
        && world.uis.iter().all(|ui| {
            ui.is_connected
                && ui.up.is_empty()
                && ui.down.is_empty()
                && !ui.is_recovering()
                && usize::from(ui.shipped) == ui.log.len()
        })
}
