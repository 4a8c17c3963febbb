//! Numbers for tests that look random and are the same in each run.

/// A linear congruential generator, with Knuth's multiplier for MMIX.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Returns a number below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end.max(1)
    }
}
