//! `offer-jitter`: a seeded draw that spreads equal offers.

use crate::params::{ParamInfo, ParamKind, rule};
use crate::score::{hash64, unit};
use crate::term::{Family, Reads, Term, TermInfo};
use crate::view::View;
use landfall_model::Job;
use sha2::{Digest as _, Sha256};

// A seed is no amount: any non-negative number that a file can hold will do.
const SEED: ParamInfo = ParamInfo {
    kind: ParamKind::Whole { min: 0, max: i64::MAX },
    ..ParamInfo::whole("jitter_seed", 0, "", "What the draws start from.")
};

rule! { Term OfferJitter {
    seed: u64 = SEED,
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "offer-jitter",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Draws a number from seed, job, peer and round, to spread equal offers; the same inputs give the same number.",
    params: OfferJitter::PARAMS,
    reads: Reads { identity: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Offer, OfferJitter::build)
};

impl Term for OfferJitter {
    fn score(&self, view: &View<'_>) -> f64 {
        unit(jitter_hash(self.seed, &digest_of(view.job), view.node.id.as_str(), view.job.round))
    }
}

/// The job's digest; a job without one is identified by the hash of its id.
fn digest_of(job: &Job) -> [u8; 32] {
    job.digest.as_ref().map_or_else(|| Sha256::digest(job.id.as_str().as_bytes()).into(), |digest| digest.0)
}

fn jitter_hash(seed: u64, job: &[u8; 32], node: &str, round: u32) -> u64 {
    let length = u32::try_from(node.len()).unwrap_or(u32::MAX);
    hash64(&[&seed.to_be_bytes(), job, &length.to_be_bytes(), node.as_bytes(), &round.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n12_published_draws() {
        let job = [0x11; 32];
        for (round, hash, want) in
            [(1, 0x02ca_8094_01dc_5702, 0.010_902_439), (2, 0x39ef_e493_81d0_1006, 0.226_316_725)]
        {
            assert_eq!(jitter_hash(42, &job, "peer-a", round), hash);
            assert!((unit(hash) - want).abs() < 1e-9);
        }
    }
}
