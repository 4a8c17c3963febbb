//! Chance that can be repeated: splitmix64, one stream for each component.

/// A stream of numbers that its seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a stream of its own for a part: what others draw does not change it.
    pub(crate) const fn of(seed: u64, part: u64) -> Self {
        let mut random = Self(seed ^ part.wrapping_mul(0xA076_1D64_78BD_642F));
        Self(random.next())
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which is at least 1.
    pub(crate) const fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Returns an index of a list of `len`, which has an item at least.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Returns a number from `low` up to but not `high`.
    pub(crate) const fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// Returns true that many times in a hundred.
    pub(crate) const fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    /// Returns one of several, if there is any.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        Some(from[self.index(from.len())])
    }

    /// Returns a copy of one of several, if there is any.
    pub(crate) fn pick_one<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        Some(from[self.index(from.len())].clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_its_seeds_and_no_other_is() {
        let (mut a, mut b) = (Random::of(7, 1), Random::of(7, 1));
        let (mut c, mut d) = (Random::of(7, 2), Random::of(8, 1));
        let first = a.next();
        assert_eq!(first, b.next());
        assert_ne!(first, c.next());
        assert_ne!(first, d.next());
        assert!((0..100).all(|_| (3..5).contains(&a.range(3, 5))));
    }
}
