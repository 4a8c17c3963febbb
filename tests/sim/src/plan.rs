//! What happens in a world: a list of decisions that its seed makes before the world begins, so
//! that one of them can be left out and the others stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::random::Random;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $word:literal $weight:literal;)*) => {
        /// What can happen; each kind is on or off for a seed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns its word, as the command line takes it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// How often it comes where it is on, beside the others.
            const fn weight(self) -> u64 {
                match self {
                    $(Self::$name => $weight,)*
                }
            }
        }
    };
}

kinds! {
    /// A user types some characters.
    Type "type" 20;
    /// A user erases characters before the cursor.
    Erase "erase" 8;
    /// A user cuts a span.
    Cut "cut" 5;
    /// A user pastes a text over the selection.
    Paste "paste" 4;
    /// A user selects.
    Select "select" 10;
    /// A user undoes.
    Undo "undo" 7;
    /// A user redoes.
    Redo "redo" 8;
    /// A user makes an empty window.
    New "new" 4;
    /// A user opens a file.
    Open "open" 4;
    /// A user puts a file.
    Put "put" 6;
    /// A user gets a file again.
    Get "get" 2;
    /// A user closes a window.
    Close "close" 2;
    /// A user shows a text twice.
    Zerox "zerox" 3;
    /// A user runs a command.
    Run "run" 2;
    /// A UI asks for the session.
    TakeOver "takeover" 4;
    /// A UI takes the session at once.
    Steal "steal" 2;
    /// A UI or a tool leaves.
    Leave "leave" 2;
    /// A UI or a tool joins, where none is.
    Join "join" 4;
    /// A UI joins to watch.
    Watch "watch" 1;
    /// A tool proposes an edit of what it sees.
    Propose "propose" 14;
    /// A tool proposes an edit of a version that it saw before.
    Stale "stale" 4;
    /// A tool annotates.
    Annotate "annotate" 4;
    /// A tool writes a board, or adds to a scratch text.
    Board "board" 2;
    /// A tool proposes edits of several texts, all or none.
    Both "both" 3;
    /// A tool proposes edits of several texts, each for itself.
    Each "each" 2;
    /// A tool says a proposal again that it has made before.
    Repeat "repeat" 3;
    /// A tool asks to lead a text, or types into the one that it leads.
    Lead "lead" 6;
    /// The host lets a tool lead texts, or not.
    Grant "grant" 2;
    /// Another program writes a file.
    Disk "disk" 1;
    /// Messages take their time.
    Delay "fault-delay" 0;
    /// A stream stands still for a while.
    Stall "fault-stall" 5;
    /// A connection breaks, at any byte of what is under way.
    Break "fault-break" 2;
    /// A connection breaks, and one side does not hear of it for long.
    HalfOpen "fault-half-open" 1;
    /// Connections are refused for a while.
    Refuse "fault-refuse" 1;
    /// A reader is so slow that the daemon forgets what it has for him.
    Slow "fault-slow" 2;
    /// A party's process ends without a word.
    Crash "fault-crash" 2;
    /// A party stands still.
    Freeze "fault-freeze" 3;
    /// The daemon's clock jumps ahead.
    Jump "fault-jump" 1;
    /// The daemon's clock is slow or fast.
    Drift "fault-drift" 0;
    /// The file system takes its time.
    SlowDisk "fault-slow-disk" 0;
    /// Bytes arrive in other pieces than they were sent in.
    Split "fault-split" 0;
    /// A party whose connection ended comes back on another one, with what it had.
    Back "fault-back" 0;
}

impl Kind {
    /// Returns whether it is a fault and no act.
    #[must_use]
    pub fn is_fault(self) -> bool {
        self >= Self::Delay
    }

    /// Returns whether it is drawn apart, so that the decisions of a seed are the same without it.
    fn is_apart(self) -> bool {
        self > Self::SlowDisk
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|kind| kind.word() == word);
        found.copied().ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|kind| kind.word()).collect();
            format!("no kind `{word}`; the kinds are {}", words.join(" "))
        })
    }
}

/// One decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) at_us: u64,
    pub(crate) kind: Kind,
    /// Which of the slots that it may be about.
    pub(crate) slot: u64,
    /// What it draws from: its own, so that leaving out another step changes nothing here.
    pub(crate) salt: u64,
}

/// Which part of a seed's decisions is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Kinds that are off.
    pub off: BTreeSet<Kind>,
    /// The indices of the decisions that are kept; all if none are named.
    pub kept: Option<BTreeSet<usize>>,
}

/// All that is decided before a world begins.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) ui_count: usize,
    pub(crate) tool_count: usize,
    pub(crate) kinds: BTreeSet<Kind>,
    pub(crate) steps: Vec<(usize, Step)>,
    /// When faults stop.
    pub(crate) end_us: u64,
}

impl Plan {
    pub(crate) fn new(seed: u64, choice: &Choice) -> Self {
        let (mut random, mut apart) = (Random::of(seed, 1), Random::of(seed, 3));
        let is_calm = random.percent(10);
        let ui_count = 2 + random.index(2);
        let tool_count = random.index(3);
        let mut kinds: BTreeMap<Kind, u64> = BTreeMap::new();
        for kind in Kind::ALL {
            let random = if kind.is_apart() {
                &mut apart
            } else {
                &mut random
            };
            let (is_on, rate) = (random.percent(60), 1 + random.below(4));
            let is_needed = matches!(kind, Kind::Type | Kind::Join);
            if (is_on || is_needed) && !(is_calm && kind.is_fault()) {
                kinds.insert(*kind, kind.weight() * rate);
            }
        }
        let total: u64 = kinds.values().sum();
        let gaps: Vec<u64> = (0..4)
            .map(|i| random.below([40, 30, 10, 2][i]) + 1)
            .collect();
        let count = 30 + random.index(170);
        let mut steps = Vec::with_capacity(count);
        let mut at_us = 100_000;
        for index in 0..count {
            at_us += gap(&mut random, &gaps);
            let drawn = kind_at(&kinds, random.below(total));
            let (slot, salt) = (random.next(), random.next());
            let Some(kind) = drawn else { continue };
            let is_kept = choice
                .kept
                .as_ref()
                .is_none_or(|kept| kept.contains(&index));
            if is_kept && !choice.off.contains(&kind) {
                let step = Step {
                    at_us,
                    kind,
                    slot,
                    salt,
                };
                steps.push((index, step));
            }
        }
        let kinds = kinds
            .into_keys()
            .filter(|kind| !choice.off.contains(kind))
            .collect();
        Self {
            seed,
            ui_count,
            tool_count,
            kinds,
            steps,
            end_us: at_us + 200_000,
        }
    }

    pub(crate) fn is_on(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }
}

/// Returns the time to the next decision: a key, a thought, a pause or a break.
fn gap(random: &mut Random, weights: &[u64]) -> u64 {
    let mut at = random.below(weights.iter().sum());
    for (index, weight) in weights.iter().enumerate() {
        if at < *weight {
            let most = [1_000, 30_000, 700_000, 15_000_000][index.min(3)];
            return random.below(most);
        }
        at -= weight;
    }
    0
}

fn kind_at(kinds: &BTreeMap<Kind, u64>, mut at: u64) -> Option<Kind> {
    for (kind, weight) in kinds {
        if at < *weight {
            return Some(*kind);
        }
        at -= weight;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_decisions_out_leaves_the_others_as_they_are() {
        let whole = Plan::new(3, &Choice::default());
        let kept = BTreeSet::from([2, 5]);
        let choice = Choice {
            kept: Some(kept.clone()),
            ..Choice::default()
        };
        let part = Plan::new(3, &choice);
        let told = |plan: &Plan| -> Vec<(usize, u64, Kind, u64)> {
            let steps = plan.steps.iter().filter(|(index, _)| kept.contains(index));
            steps
                .map(|(index, step)| (*index, step.at_us, step.kind, step.salt))
                .collect()
        };
        assert_eq!(told(&part), told(&whole));
        assert_eq!(part.steps.len(), told(&whole).len());
        assert_eq!(part.end_us, whole.end_us);
    }

    #[test]
    fn a_kind_is_found_by_its_word() {
        for kind in Kind::ALL {
            assert_eq!(kind.word().parse(), Ok(*kind));
        }
        assert!("nothing".parse::<Kind>().is_err());
    }
}
