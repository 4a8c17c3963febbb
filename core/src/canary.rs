//! Known bugs that can be switched on, one at a time, to see whether the simulator finds them.
//!
//! Only under the feature `canaries`, which no program has: without it the question is a constant,
//! and nothing of this is left.

/// A known bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Canary {
    /// The authority does not compare epochs.
    EpochNotCompared = 1,
    /// The authority acknowledges what it has not appended yet.
    AckedEarly,
    /// A leader applies a proposal again that is said again.
    DedupeSkipped,
    /// The authority drops entries before all have them.
    CompactedPastReader,
    /// A client drops entries that were not acknowledged.
    CompactedPastAck,
    /// A client counts its ids from the start after a fresh snapshot.
    CounterReused,
    /// The metalog is published last.
    MetaLast,
    /// The hash depends on where the state lies, as one over a map without order would.
    HashByAddress,
    /// Edits do not move selections.
    ViewsStay,
    /// What a displaced leader typed is dropped.
    TailDropped,
    /// A new holder gets the old fence.
    EpochKept,
    /// An edit of an older version is applied where it was computed.
    StaleApplied,
    /// Undo takes the step on top, whichever that is.
    UndoOfOthers,
    /// A client holds what it shipped to be on its way, also after it was refused.
    ShippedKept,
    /// Who watches leads.
    WatcherLeads,
    /// A file is written under any fence.
    PutUnfenced,
    /// The outcome of a proposal is not passed on.
    AnswerForgotten,
    /// A tool leads without the right to.
    ToolUnasked,
    /// What a party owned stays when it leaves.
    ForgetSkipped,
    /// What a party led stays its own when it leaves.
    HeldByGone,
}

impl Canary {
    /// Every known bug.
    pub const ALL: &[Self] = &[
        Self::EpochNotCompared,
        Self::AckedEarly,
        Self::DedupeSkipped,
        Self::CompactedPastReader,
        Self::CompactedPastAck,
        Self::CounterReused,
        Self::MetaLast,
        Self::HashByAddress,
        Self::ViewsStay,
        Self::TailDropped,
        Self::EpochKept,
        Self::StaleApplied,
        Self::UndoOfOthers,
        Self::ShippedKept,
        Self::WatcherLeads,
        Self::PutUnfenced,
        Self::AnswerForgotten,
        Self::ToolUnasked,
        Self::ForgetSkipped,
        Self::HeldByGone,
    ];
}

/// Returns whether a bug is switched on.
#[cfg(not(feature = "canaries"))]
#[inline]
pub(crate) const fn is_on(_: Canary) -> bool {
    false
}

#[cfg(feature = "canaries")]
static ON: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// Returns whether a bug is switched on.
#[cfg(feature = "canaries")]
pub(crate) fn is_on(canary: Canary) -> bool {
    ON.load(core::sync::atomic::Ordering::Relaxed) == canary as u8
}

/// Switches a bug on, and all others off; for the whole process.
#[cfg(feature = "canaries")]
pub fn switch(canary: Option<Canary>) {
    let raw = canary.map_or(0, |canary| canary as u8);
    ON.store(raw, core::sync::atomic::Ordering::Relaxed);
}
