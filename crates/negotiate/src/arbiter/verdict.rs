//! The explained state of a job: every offer with its terms, status and reason, and the declines by reason.

use std::collections::BTreeMap;

use landfall_model::{Digest, NodeId};
use serde::{Deserialize, Serialize};

use super::{JobState, OfferRecord};
use crate::message::Fence;
use crate::reason::Reason;
use crate::{Peer, TaskResult};

/// The explained state of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub job: Digest,
    pub state: JobState,
    pub round: u32,
    pub fence: Fence,
    pub winner: Option<NodeId>,
    pub price: Option<u64>,
    /// Offers of the rounds that are kept, each with its round, best first within a round.
    pub offers: Vec<(u32, OfferRecord)>,
    /// Declines of the rounds that are kept, counted by reason.
    pub declines: BTreeMap<Reason, u64>,
    /// What it came to.
    pub result: Option<TaskResult>,
    /// What is due for it.
    pub charge: Option<u64>,
}

impl Peer {
    /// The explained state of a job of this arbiter.
    pub fn verdict(&self, job: &Digest) -> Option<Verdict> {
        let known = self.jobs.get(job)?;
        let progress = &known.progress;
        let mut offers = Vec::new();
        let mut declines: BTreeMap<Reason, u64> = BTreeMap::new();
        for round in &progress.rounds {
            let mut ranked: Vec<&OfferRecord> = round.offers.iter().collect();
            ranked.sort_by(|a, b| rank(a).cmp(&rank(b)));
            offers.extend(ranked.into_iter().map(|offer| (round.round, offer.clone())));
            for reason in round.declines.values().flatten() {
                *declines.entry(*reason).or_default() += 1;
            }
        }
        Some(Verdict {
            job: *job,
            state: progress.state,
            round: progress.round,
            fence: self.fence_of(job)?,
            winner: progress.award.as_ref().map(|award| award.node.clone()),
            price: progress.award.as_ref().map(|award| award.price),
            offers,
            declines,
            result: progress.result.clone(),
            charge: progress.charge,
        })
    }
}

/// Score descending, cost, delay, id.
fn rank(offer: &OfferRecord) -> (std::cmp::Reverse<i64>, u64, u64, &NodeId) {
    let score = offer.score.map_or(i64::MIN, landfall_policy::q);
    (std::cmp::Reverse(score), offer.cost, offer.start_delay_ms, &offer.node)
}
