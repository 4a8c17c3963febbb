//! Times and what is said of many of them.

use std::time::Instant;

/// Returns the time now; the one clock of the benches.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "benches measure time; nothing else reads it"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Runs `f` and returns what it returns and how many nanoseconds it took.
pub fn timed<T>(f: impl FnOnce() -> T) -> (T, f64) {
    let start = now();
    let value = f();
    (value, start.elapsed().as_secs_f64() * 1e9)
}

/// Many measurements of one thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a measurement.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Adds many measurements.
    pub fn extend(&mut self, values: impl IntoIterator<Item = f64>) {
        self.0.extend(values);
    }

    /// Returns how many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the value that `percent` of the measurements do not exceed; none of none.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let index = (sorted.len() * percent / 100).min(sorted.len().checked_sub(1)?);
        sorted.get(index).copied()
    }

    /// Returns the median; not a number when nothing was measured.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.percentile(50).unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_do_not_depend_on_the_order() {
        let mut samples = Samples::default();
        assert_eq!(samples.percentile(50), None);
        samples.extend((0..100).rev().map(f64::from));
        assert_eq!(samples.count(), 100);
        assert_eq!(samples.percentile(0), Some(0.0));
        assert_eq!(samples.percentile(99), Some(99.0));
        assert_eq!(samples.percentile(100), Some(99.0));
        assert!((samples.median() - 50.0).abs() < f64::EPSILON);
    }
}
