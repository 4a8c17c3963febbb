//! The one place of the daemon where time comes in.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use apex_core::ids::Millis;

/// A clock that never goes back, in milliseconds since it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts a clock at 0.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place where time comes in"
    )]
    #[must_use]
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Returns the time.
    #[must_use]
    pub fn now(self) -> Millis {
        let ms = self.start.elapsed().as_millis();
        Millis::new(u64::try_from(ms).unwrap_or(u64::MAX))
    }

    /// Returns the instant at which this clock shows `at`, for timers.
    #[must_use]
    pub fn instant_of(self, at: Millis) -> tokio::time::Instant {
        let far = Duration::from_secs(365 * 24 * 3600);
        (self.start + Duration::from_millis(at.raw()).min(far)).into()
    }
}

/// Returns the wall clock's time in seconds since 1970, for file names and lines of the diary.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place where time comes in"
)]
#[must_use]
pub fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
