//! The daemon's clock: it may be slow, fast, or jump ahead; it never goes back.

use apex_core::ids::Millis;

/// How a clock runs since it was last set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// When it was set, in microseconds of the world.
    from_us: u64,
    /// What it showed then, in microseconds.
    shown_us: u64,
    /// How fast it runs, in thousandths of the world's time.
    rate: u64,
}

impl Clock {
    pub(crate) const fn new(rate: u64) -> Self {
        Self {
            from_us: 0,
            shown_us: 1_000_000,
            rate,
        }
    }

    const fn shown_us(&self, now_us: u64) -> u64 {
        self.shown_us + (now_us - self.from_us) * self.rate / 1000
    }

    /// Returns what it shows.
    pub(crate) const fn at(&self, now_us: u64) -> Millis {
        Millis::new(self.shown_us(now_us) / 1000)
    }

    /// Returns when it will show a time.
    pub(crate) const fn when(&self, time: Millis) -> u64 {
        let ahead = (time.raw() * 1000).saturating_sub(self.shown_us);
        self.from_us + (ahead * 1000).div_ceil(self.rate)
    }

    /// Lets it jump ahead, and run at another rate from now on.
    pub(crate) const fn set(&mut self, now_us: u64, jump_us: u64, rate: u64) {
        *self = Self {
            from_us: now_us,
            shown_us: self.shown_us(now_us) + jump_us,
            rate,
        };
    }

    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_when_it_was_said_to_be() {
        for rate in [700, 999, 1000, 1333] {
            let mut clock = Clock::new(rate);
            clock.set(123_457, 5_000_000, rate);
            for ms in [6_500, 7_000, 9_999] {
                let at = clock.when(Millis::new(ms));
                assert!(clock.at(at) >= Millis::new(ms), "{rate} {ms}");
                assert!(clock.at(at - 2) < Millis::new(ms), "{rate} {ms}");
            }
        }
    }
}
