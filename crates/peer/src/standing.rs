//! How others stand with this peer: bad messages cost standing, time gives it back, and below a line nobody is listened to.

use std::collections::BTreeMap;
use std::time::Instant;

use libp2p::PeerId;

/// Below this nothing is taken in, on topics (where gossipsub minds it) and on direct streams.
pub(crate) const IGNORED_BELOW: f64 = -80.0;
/// The least: however much somebody sends, it is listened to again after some minutes of peace.
const LEAST: f64 = -500.0;
/// Half of what was lost is back after so many seconds.
const HALF_LIFE_S: f64 = 60.0;
/// What is nearer to nothing than this is forgotten.
const NOTHING: f64 = 0.05;
/// Peers remembered.
const PEERS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Standings {
    lost: BTreeMap<PeerId, (f64, Instant)>,
}

fn now_of(lost: f64, at: Instant, now: Instant) -> f64 {
    lost * 0.5_f64.powf(now.saturating_duration_since(at).as_secs_f64() / HALF_LIFE_S)
}

impl Standings {
    /// Takes some standing from a peer.
    pub(crate) fn fall(&mut self, peer: PeerId, by: f64, now: Instant) {
        if self.lost.len() >= PEERS_MAX && !self.lost.contains_key(&peer) {
            return;
        }
        let before = self.of(&peer, now);
        self.lost.insert(peer, ((before - by).max(LEAST), now));
    }

    /// How a peer stands: 0, or less.
    pub(crate) fn of(&self, peer: &PeerId, now: Instant) -> f64 {
        self.lost.get(peer).map_or(0.0, |(lost, at)| now_of(*lost, *at, now))
    }

    /// Everybody who has lost some, and how much of it still counts; those who have it back are told once more and forgotten.
    pub(crate) fn all(&mut self, now: Instant) -> Vec<(PeerId, f64)> {
        let all: Vec<(PeerId, f64)> =
            self.lost.iter().map(|(peer, (lost, at))| (*peer, now_of(*lost, *at, now))).collect();
        self.lost.retain(|_, (lost, at)| now_of(*lost, *at, now) < -NOTHING);
        all.into_iter().map(|(peer, score)| (peer, if score < -NOTHING { score } else { 0.0 })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_falls_and_comes_back() {
        let (mut standings, peer, start) = (Standings::default(), PeerId::random(), Instant::now());
        (0..9).for_each(|_| standings.fall(peer, 10.0, start));
        assert!(standings.of(&peer, start) < IGNORED_BELOW);
        assert_eq!(standings.of(&PeerId::random(), start), 0.0);
        let later = start + Duration::from_secs(60);
        assert!((standings.of(&peer, later) + 45.0).abs() < 1e-9);
        (0..10_000).for_each(|_| standings.fall(peer, 10.0, later));
        assert!(standings.of(&peer, later + Duration::from_secs(180)) > IGNORED_BELOW);
        let much_later = later + Duration::from_secs(3600);
        assert_eq!(standings.all(much_later), [(peer, 0.0)]);
        assert_eq!(standings.all(much_later), []);
    }
}
