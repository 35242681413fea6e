//! How much one author may say: a bucket of tokens that fills again.

use std::collections::BTreeMap;
use std::time::Instant;

use libp2p::PeerId;

/// Messages that may come at once.
const BURST: f64 = 500.0;
/// Messages a second in the long run; a peer that announces, offers and renews stays far below.
const PER_SECOND: f64 = 100.0;
/// Authors remembered.
const AUTHORS_MAX: usize = 10_000;

/// What each author may still say.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    buckets: BTreeMap<PeerId, (f64, Instant)>,
}

impl Rates {
    /// Whether one more message of an author is within bounds.
    pub(crate) fn admits(&mut self, author: PeerId, now: Instant) -> bool {
        if self.buckets.len() >= AUTHORS_MAX {
            let full = |(left, at): &(f64, Instant)| refilled(*left, *at, now) < BURST;
            self.buckets.retain(|_, bucket| full(bucket));
        }
        let (left, at) = self.buckets.entry(author).or_insert((BURST, now));
        *left = refilled(*left, *at, now);
        *at = now;
        let admitted = *left >= 1.0;
        if admitted {
            *left -= 1.0;
        }
        admitted
    }
}

fn refilled(left: f64, at: Instant, now: Instant) -> f64 {
    (left + now.saturating_duration_since(at).as_secs_f64() * PER_SECOND).min(BURST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_flood_is_cut_off_and_time_heals() {
        let (mut rates, author, start) = (Rates::default(), PeerId::random(), Instant::now());
        let admitted = (0..1000).filter(|_| rates.admits(author, start)).count();
        assert_eq!(admitted, 500);
        assert!(rates.admits(PeerId::random(), start), "others are not touched");
        let later = start + Duration::from_secs(1);
        assert_eq!((0..1000).filter(|_| rates.admits(author, later)).count(), 100);
    }
}
