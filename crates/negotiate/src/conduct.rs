//! What a peer has seen others do: promises kept and broken, and what nobody who means well sends.
//!
//! Deeds are counted always. They move trust only if `trust_moves` is set, and then by small steps, at most `trust_reach` away
//! from what somebody wrote into the table; a new entry there starts from zero again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// Something that another peer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// It was awarded a job and brought a result.
    Kept,
    /// It had offered, was awarded and said nothing.
    Silent,
    /// It had offered room, was awarded and had none.
    Overstated,
    /// It ran a job and was not heard of until the lease was lost.
    LeaseLost,
    /// It spoke in another peer's name.
    Forged,
    /// It sent values that make no sense.
    Invalid,
    /// It sent a result of an award that was not its own, or not any more.
    StaleResult,
    /// It offered twice in one round, or said again what was said long ago.
    Repeated,
    /// It awarded one job to two nodes at once.
    ClaimedTwice,
    /// It asked for more than one peer may.
    Flooded,
}

impl Deed {
    pub const ALL: [Self; 10] = [
        Self::Kept,
        Self::Silent,
        Self::Overstated,
        Self::LeaseLost,
        Self::Forged,
        Self::Invalid,
        Self::StaleResult,
        Self::Repeated,
        Self::ClaimedTwice,
        Self::Flooded,
    ];

    /// The stable word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Silent => "silent",
            Self::Overstated => "overstated",
            Self::LeaseLost => "lease_lost",
            Self::Forged => "forged",
            Self::Invalid => "invalid",
            Self::StaleResult => "stale_result",
            Self::Repeated => "repeated",
            Self::ClaimedTwice => "claimed_twice",
            Self::Flooded => "flooded",
        }
    }

    /// Whether trust falls for it. A late result and a message that came twice happen to the best.
    pub const fn is_broken(self) -> bool {
        !matches!(self, Self::Kept | Self::StaleResult | Self::Repeated)
    }

    /// Whether only somebody who means ill, or whose program is broken, does it.
    pub const fn is_abuse(self) -> bool {
        matches!(self, Self::Forged | Self::Invalid | Self::ClaimedTwice | Self::Flooded)
    }
}

/// What is known of one peer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conduct {
    pub deeds: BTreeMap<Deed, u64>,
    /// How far trust has moved, in thousandths.
    pub moved_milli: i64,
}

fn milli(share: f64) -> i64 {
    (share * 1000.0).round() as i64
}

impl Conduct {
    pub(super) fn note(&mut self, deed: Deed, settings: &Settings) {
        *self.deeds.entry(deed).or_default() += 1;
        if !settings.trust_moves {
            return;
        }
        let step = if deed == Deed::Kept {
            milli(settings.trust_gain)
        } else if deed.is_broken() {
            -milli(settings.trust_loss)
        } else {
            0
        };
        let reach = milli(settings.trust_reach);
        self.moved_milli = (self.moved_milli + step).clamp(-reach, reach);
    }

    /// Trust that somebody set, as far as what the peer did has moved it.
    pub(super) fn moves(&self, set: f64, settings: &Settings) -> f64 {
        if !settings.trust_moves || self.moved_milli == 0 {
            return set;
        }
        (set + self.moved_milli as f64 / 1000.0).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_moves_within_bounds_and_only_if_wanted() {
        let settings = Settings { trust_moves: true, ..Settings::default() };
        let mut conduct = Conduct::default();
        conduct.note(Deed::Silent, &settings);
        assert!((conduct.moves(0.5, &settings) - 0.45).abs() < 1e-12);
        (0..100).for_each(|_| conduct.note(Deed::Forged, &settings));
        assert!((conduct.moves(0.5, &settings) - 0.3).abs() < 1e-12, "no farther than the reach");
        assert_eq!(conduct.moves(0.1, &settings), 0.0);
        // However long somebody was good: it takes no longer to fall.
        (0..10_000).for_each(|_| conduct.note(Deed::Kept, &settings));
        assert!((conduct.moves(0.5, &settings) - 0.7).abs() < 1e-12);
        conduct.note(Deed::StaleResult, &settings);
        assert!((conduct.moves(0.5, &settings) - 0.7).abs() < 1e-12);
        let usual = Settings::default();
        let mut other = Conduct::default();
        other.note(Deed::Forged, &usual);
        assert_eq!((other.moves(0.5, &usual), other.deeds[&Deed::Forged]), (0.5, 1));
    }

    #[test]
    fn words_are_those_of_the_wire() {
        for deed in Deed::ALL {
            let written = ciborium::Value::serialized(&deed).unwrap();
            assert_eq!(written.as_text(), Some(deed.as_str()));
        }
    }
}
