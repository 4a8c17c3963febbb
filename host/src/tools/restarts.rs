//! When a tool that ended is started again, and when it is given up.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::limits;

/// The restarts of one tool in one session.
#[derive(Debug)]
pub(super) struct Restarts {
    /// When they were, within the last window.
    at: VecDeque<Instant>,
    first_wait: Duration,
}

/// What comes next for a tool that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is started again after a wait.
    Wait {
        /// Which restart within the window, from 1.
        nth: usize,
        /// How long it waits.
        wait: Duration,
    },
    /// It is not started any more.
    GiveUp,
}

/// The time in which restarts are counted.
pub(super) const WINDOW: Duration = Duration::from_millis(limits::RESTART_WINDOW_MS);

impl Restarts {
    /// Returns that there were none.
    pub(super) const fn new(first_wait_ms: u64) -> Self {
        Self {
            at: VecDeque::new(),
            first_wait: Duration::from_millis(first_wait_ms),
        }
    }

    /// Returns what comes next for a tool that ended now, and counts a restart as made now.
    pub(super) fn next(&mut self, now: Instant) -> Verdict {
        let is_old = |at: &Instant| now.duration_since(*at) > WINDOW;
        while self.at.front().is_some_and(is_old) {
            self.at.pop_front();
        }
        let count = self.at.len();
        if count >= limits::RESTART_COUNT_MAX {
            return Verdict::GiveUp;
        }
        self.at.push_back(now);
        Verdict::Wait {
            nth: count + 1,
            wait: self.first_wait * (1 << count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the waits in seconds of a tool that ends at these seconds; 0 where it is given up.
    fn check(ends: &[u64]) -> Vec<u64> {
        let start = Instant::now();
        let mut restarts = Restarts::new(1_000);
        let verdict = |second: &u64| match restarts.next(start + Duration::from_secs(*second)) {
            Verdict::Wait { wait, .. } => wait.as_secs(),
            Verdict::GiveUp => 0,
        };
        ends.iter().map(verdict).collect()
    }

    #[test]
    fn the_wait_doubles_and_the_sixth_end_within_the_window_is_the_last() {
        assert_eq!(check(&[0, 1, 3, 7, 15, 31]), [1, 2, 4, 8, 16, 0]);
        assert_eq!(check(&[0, 0, 0, 0, 0, 60]), [1, 2, 4, 8, 16, 0]);
    }

    #[test]
    fn ends_before_the_window_count_no_more() {
        assert_eq!(check(&[0, 1, 3, 7, 15, 61]), [1, 2, 4, 8, 16, 16]);
        assert_eq!(check(&[0, 1, 3, 7, 15, 99]), [1, 2, 4, 8, 16, 1]);
        assert_eq!(check(&[0, 61, 122, 183, 244, 305, 366]), [1; 7]);
    }
}
