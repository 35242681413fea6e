//! How the driver takes time, and what it tells the engine about it.

use std::sync::Arc;
use std::time::Duration;

use landfall_engine::Input;
use landfall_model::{Millis, Time};
use landfall_store::{Store, StoreError, Table};

use super::core::Core;
use crate::clock::{Anchor, Clock};

/// Rounds are a second apart at most. After a longer pause (a machine that slept, a process that was stopped, a disk that hung)
/// nobody can be blamed for not having been heard. Where less silence means something, a shorter pause is enough.
const DEAF_AFTER: Duration = Duration::from_secs(5);
/// After a pause that is shorter, what nodes answer may stand in line behind others that wait for the disk.
const STALLED_AFTER: Duration = Duration::from_millis(1200);
/// What ties engine time to the machine is stored anew when it moved by so much.
const ANCHOR_MOVED_MS: u64 = 1000;
/// Key of what ties engine time to the machine.
const ANCHOR: &str = "clock";

/// Makes the clock of a server, from the last stored instant and what ties engine time to the machine.
pub(super) type StartClock<'a> = &'a dyn Fn(Time, Option<&Anchor>) -> Clock;

pub(super) struct Timekeeper {
    pub(super) clock: Arc<Clock>,
    /// What ties engine time to the machine, as it is stored.
    anchor: Option<Anchor>,
    /// Ticks of the clock when the last round began.
    listened_at: Duration,
    /// After which pause nobody can be blamed.
    deaf_after: Duration,
    /// What the engine has not been told yet.
    news: Vec<Input>,
}

impl Timekeeper {
    /// Goes on behind the last stored instant.
    pub(super) fn start(
        store: &mut dyn Store,
        stored: Time,
        clock: StartClock<'_>,
    ) -> Result<Self, StoreError> {
        let anchor = store.get(Table::Meta, ANCHOR)?;
        let anchor = anchor.and_then(|text| serde_json::from_slice(&text).ok());
        let clock = clock(stored, anchor.as_ref());
        if clock.standing().rests {
            tracing::warn!(
                "the clock of this machine is more than a day later than the last event of the journal; if the server was not \
                 away that long, set the clock right: old jobs are not erased before a day has passed"
            );
        }
        let mut keeper = Self {
            clock: Arc::new(clock),
            anchor,
            listened_at: Duration::ZERO,
            deaf_after: DEAF_AFTER,
            news: Vec::new(),
        };
        keeper.round();
        // The server that takes over listens from then on.
        keeper.news.retain(|news| !matches!(news, Input::Listen | Input::Stalled));
        Ok(keeper)
    }

    /// Ticks of the clock when the present round began.
    pub(super) fn ticks(&self) -> Duration {
        self.listened_at
    }

    /// Somewhere so much silence means something.
    pub(super) fn shortest_silence(&mut self, silence: Option<Millis>) {
        let half = silence.map_or(DEAF_AFTER, |silence| Duration::from_millis(silence.get() / 2));
        self.deaf_after = half.clamp(STALLED_AFTER, DEAF_AFTER);
    }

    /// The instant of a round that begins.
    pub(super) fn round(&mut self) -> Time {
        let (now, ticks, jumps) = self.clock.round();
        let away = ticks.saturating_sub(std::mem::replace(&mut self.listened_at, ticks));
        if away > self.deaf_after {
            self.news.push(Input::Listen);
        } else if away > STALLED_AFTER {
            self.news.push(Input::Stalled);
        }
        for jump in jumps {
            tracing::warn!(
                by_ms = jump.by_ms,
                ahead_ms = jump.ahead_ms,
                "the wall clock jumped; the server's time goes on as before and follows by six seconds a minute"
            );
            self.news.push(Input::ClockJumped { by_ms: jump.by_ms, ahead_ms: jump.ahead_ms });
        }
        now
    }

    /// Memory is what is stored again: what was heard of nodes is gone, so their silence counts from the next round.
    pub(super) fn forgot_who_spoke(&mut self) {
        self.news.push(Input::Listen);
        self.anchor = None;
    }
}

impl Core {
    pub(super) fn clock(&self) -> Arc<Clock> {
        self.time.clock.clone()
    }

    /// Tells the engine what happened to time.
    pub(super) fn tell_time(&mut self) {
        for input in std::mem::take(&mut self.time.news) {
            self.step(input);
        }
    }

    /// Stores what ties engine time to the machine, if that moved.
    pub(super) fn keep_anchor(&mut self) {
        let anchor = self.time.clock.anchor();
        let moved = self.time.anchor.as_ref().is_none_or(|known| {
            let Anchor { boot, zero_ms, rests_until_ms } = known;
            (boot, rests_until_ms) != (&anchor.boot, &anchor.rests_until_ms)
                || zero_ms.abs_diff(anchor.zero_ms) >= ANCHOR_MOVED_MS
        });
        if moved {
            self.put(Table::Meta, ANCHOR, &anchor);
            self.time.anchor = Some(anchor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Reading;

    #[test]
    fn a_pause_that_is_long_for_a_pool_is_one_in_which_nobody_listened() {
        for (silence, pause_ms, expected) in [
            (None, 4900, Input::Stalled),
            (None, 5100, Input::Listen),
            (Some(1000), 1300, Input::Listen),
            (Some(4000), 1900, Input::Stalled),
            (Some(4000), 2100, Input::Listen),
            (Some(30_000), 4200, Input::Stalled),
        ] {
            let mut ms = [0, 0, 0, pause_ms].into_iter();
            let source = move || {
                let ticks = Duration::from_millis(ms.next().unwrap_or(pause_ms));
                Reading { ticks, wall: ticks.as_nanos() as i128 }
            };
            let clock = Clock::with("boot".into(), Box::new(source), Time::ZERO, None);
            let (clock, anchor) = (Arc::new(clock), None);
            let mut keeper = Timekeeper {
                clock,
                anchor,
                listened_at: Duration::ZERO,
                deaf_after: DEAF_AFTER,
                news: Vec::new(),
            };
            keeper.shortest_silence(silence.map(Millis::new));
            for _ in 0..4 {
                keeper.round();
            }
            assert_eq!(keeper.news, [expected], "{silence:?} {pause_ms}");
        }
    }
}
