//! How old a word of the server is.
//!
//! Commands may wait on a broken line and arrive together when it is mended. Their age cannot be read from the clock of this
//! machine, but it has a bound: an answer that names the server's time was written after its question was asked here, so the
//! server's time since then is at most what the answer said and what has passed since the question. The server's time may
//! run faster than ours by a tenth while it follows a wall clock that was set.

use std::time::{Duration, Instant};

/// What the server's clock shows at most.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServerClock {
    /// When a question was asked here, and the server's time in its answer.
    known: Option<(Instant, i64)>,
}

impl ServerClock {
    /// The server answered, perhaps another one than before.
    pub(crate) fn set(&mut self, asked: Instant, server_time_ms: Option<i64>) {
        self.known = server_time_ms.map(|ms| (asked, ms));
    }

    /// The same server answered once more: of the two bounds the closer one is kept.
    pub(crate) fn see(&mut self, asked: Instant, server_time_ms: Option<i64>) {
        let closer = server_time_ms.zip(self.at_most(asked)).is_none_or(|(new, old)| new <= old);
        if closer {
            self.set(asked, server_time_ms);
        }
    }

    fn at_most(&self, now: Instant) -> Option<i64> {
        let (asked, ms) = self.known?;
        let passed = now.saturating_duration_since(asked);
        let fast = passed + passed / 10;
        Some(ms.saturating_add(i64::try_from(fast.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long ago the server said something at this time of its clock, at most; `None` if it never told the time.
    pub(crate) fn age_at_most(&self, said_ms: i64, now: Instant) -> Option<Duration> {
        let age = self.at_most(now)?.saturating_sub(said_ms);
        Some(Duration::from_millis(u64::try_from(age).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_never_less_than_it_is() {
        let t = |ms: u64| Duration::from_millis(ms);
        let start = Instant::now();
        let mut clock = ServerClock::default();
        assert_eq!(clock.age_at_most(0, start), None, "the server never told the time");
        // Asked at 0, answered at 1,000,300 of the server, which came here at 500.
        clock.set(start, Some(1_000_300));
        assert_eq!(clock.age_at_most(1_000_300, start + t(500)), Some(t(550)));
        assert_eq!(clock.age_at_most(2_000_000, start), Some(t(0)), "nothing was said in the future");
        // A slow answer says less than what is known; a quick one says more.
        clock.see(start + t(10_000), Some(1_014_000));
        assert_eq!(clock.age_at_most(1_010_000, start + t(10_000)), Some(t(1300)));
        clock.see(start + t(20_000), Some(1_020_310));
        assert_eq!(clock.age_at_most(1_020_310, start + t(20_000)), Some(t(0)));
        // Another server may have another time.
        clock.set(start + t(20_000), Some(5));
        assert_eq!(clock.age_at_most(5, start + t(21_000)), Some(t(1100)));
    }
}
