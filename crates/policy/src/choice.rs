//! From scores to a choice: floors, tiers, levels and ties as one total order.
//!
//! Every candidate that may be chosen gets a [`Key`]; the smallest key wins. Plain and fast paths build keys with the
//! same function, so they cannot disagree about an order.

use landfall_model::Job;

use crate::params::{ParamError, ParamInfo, ParamKind, Params};
use crate::refusal::Reason;
use crate::score::q;
use crate::spec::Tie;
use crate::term::TermInfo;
use crate::verdict::Level;
use crate::view::View;

/// Whether regions divide candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegionMode {
    /// Three tiers; a later one is looked at only if the earlier ones have nothing.
    Tiered,
    /// One tier; the region only breaks ties.
    Tiebreak,
}

const REGION_MODE: ParamInfo = ParamInfo::word(
    "region_mode",
    "tiebreak",
    &["tiered", "tiebreak"],
    "Whether nodes of a farther region are looked at only when nearer ones have no candidate above too_tight.",
);
const CANDIDATE_LIMIT: ParamInfo = ParamInfo {
    name: "candidate_limit",
    default: crate::params::Default::Word("all"),
    kind: ParamKind::Limit,
    unit: "nodes",
    description: "How many nodes of each region tier are scored, after ordering by warmth, karma, load and id.",
};
const FALLBACK: ParamInfo = ParamInfo::switch(
    "fallback_too_tight",
    true,
    "Whether a node that is too tight is taken when there is no better one.",
);
const DISPATCH_FLOOR: ParamInfo =
    ParamInfo::number("dispatch_floor", f64::NEG_INFINITY, "points", "The lowest total that may be chosen.");
const MIN_SCORE: ParamInfo =
    ParamInfo::number("min_score", f64::NEG_INFINITY, "", "Totals must be above this, not equal to it.");
const TRUNCATE: ParamInfo = ParamInfo::switch(
    "truncate",
    false,
    "Whether the fraction of a total is cut off, as published packing programs do.",
);
const CAP: ParamInfo = ParamInfo::number("cap", f64::INFINITY, "", "The largest total.");
const SEED: ParamInfo = ParamInfo::whole("seed", 0, "", "What random draws start from.");

/// Parameters of every choice.
pub const CHOICE_PARAMS: [ParamInfo; 8] =
    [REGION_MODE, CANDIDATE_LIMIT, FALLBACK, DISPATCH_FLOOR, MIN_SCORE, TRUNCATE, CAP, SEED];

/// The rules that turn totals into a choice.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) region_mode: RegionMode,
    pub(crate) candidate_limit: Option<usize>,
    pub(crate) fallback_too_tight: bool,
    pub(crate) dispatch_floor: f64,
    pub(crate) min_score: f64,
    pub(crate) truncate: bool,
    pub(crate) cap: f64,
    pub(crate) seed: u64,
    pub(crate) node_ties: Vec<Tie>,
    pub(crate) job_ties: Vec<Tie>,
    pub(crate) offer: crate::rules::offer::Terms,
}

impl Choice {
    pub(crate) fn build(
        params: &Params<'_>,
        node_ties: Vec<Tie>,
        job_ties: Vec<Tie>,
    ) -> Result<Self, ParamError> {
        Ok(Self {
            region_mode: match params.word(&REGION_MODE)?.as_str() {
                "tiered" => RegionMode::Tiered,
                _ => RegionMode::Tiebreak,
            },
            candidate_limit: params.limit(&CANDIDATE_LIMIT)?,
            fallback_too_tight: params.switch(&FALLBACK)?,
            dispatch_floor: params.number(&DISPATCH_FLOOR)?,
            min_score: params.number(&MIN_SCORE)?,
            truncate: params.switch(&TRUNCATE)?,
            cap: params.number(&CAP)?,
            seed: params.whole(&SEED)? as u64,
            node_ties,
            job_ties,
            offer: crate::rules::offer::Terms::build(params)?,
        })
    }

    /// Whether a scored candidate may be chosen.
    pub(crate) fn may_choose(&self, scored: &Scored) -> bool {
        self.barred(scored).is_none()
    }

    /// Why a scored candidate may not be chosen.
    pub(crate) fn barred(&self, scored: &Scored) -> Option<Reason> {
        let above_floor =
            self.dispatch_floor == f64::NEG_INFINITY || q(scored.total) >= q(self.dispatch_floor);
        let above_min = self.min_score == f64::NEG_INFINITY || q(scored.total) > q(self.min_score);
        if scored.vetoed {
            Some(Reason::Vetoed)
        } else if !above_floor || !above_min {
            Some(Reason::BelowFloor)
        } else if scored.level == Some(Level::TooTight) && !self.fallback_too_tight {
            Some(Reason::TooTight)
        } else {
            None
        }
    }

    /// The key of a node among the nodes ranked for a job. `rank` is the node's place among equals.
    pub(crate) fn node_key(&self, view: &View<'_>, scored: &Scored, rank: u32) -> Key {
        let tier = if self.region_mode == RegionMode::Tiered { view.region_tier() } else { 0 };
        if scored.level == Some(Level::TooTight) {
            // Only the fallback looks at these; it asks for good service and little load, not for points.
            return Key {
                group: 4 + tier,
                primary: descending(view.node.karma),
                ties: [view.node.active(), 0],
                rank,
            };
        }
        let mut ties = [0u64; 2];
        let mut slots = TieSlots { ties: &mut ties, next: 0 };
        for tie in &self.node_ties {
            match tie {
                Tie::Region => slots.push(u64::from(view.region_rank()), 16),
                Tie::Warm => slots.push(u64::from(!view.is_warm()), 1),
                Tie::Karma => slots.push(karma_word(view.node.karma), 32),
                Tie::Cost => slots.push(self.offer.cost(view.node), 64),
                Tie::StartDelay => slots.push(self.offer.start_delay_ms(view.node), 64),
                Tie::QueueTime => {}
            }
        }
        Key { group: tier, primary: descending(q(scored.total)), ties, rank }
    }

    /// The key of a job among the jobs ranked for a node. `rank` is the job's place by id.
    pub(crate) fn job_key(&self, job: &Job, scored: &Scored, rank: u32) -> Key {
        let mut ties = [0u64; 2];
        if self.job_ties.contains(&Tie::QueueTime) {
            ties[0] = ascending(job.queued_at.as_millis());
        }
        let group = u8::from(scored.level == Some(Level::TooTight)) * 4;
        Key { group, primary: descending(q(scored.total)), ties, rank }
    }
}

/// The outcome of scoring one admitted pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scored {
    pub(crate) total: f64,
    pub(crate) vetoed: bool,
    pub(crate) level: Option<Level>,
}

/// A candidate's place in the total order; smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Region tier, after all tiers those that are too tight.
    pub(crate) group: u8,
    pub(crate) primary: u64,
    pub(crate) ties: [u64; 2],
    pub(crate) rank: u32,
}

/// Packs tie-breaks into two words in order, most significant first.
struct TieSlots<'a> {
    ties: &'a mut [u64; 2],
    next: u32,
}

impl TieSlots<'_> {
    /// Adds a value of so many bits; a value that does not fit the rest of a word starts the next one.
    fn push(&mut self, value: u64, bits: u32) {
        if self.next / 64 != (self.next + bits - 1) / 64 {
            self.next = (self.next / 64 + 1) * 64;
        }
        let Some(word) = self.ties.get_mut((self.next / 64) as usize) else { return };
        let shift = 64 - self.next % 64 - bits;
        *word |= value.min(u64::MAX >> (64 - bits)) << shift;
        self.next += bits;
    }
}

/// Karma as a word in which more is smaller; beyond 32 bits it is as good as it gets.
fn karma_word(karma: i64) -> u64 {
    let karma = karma.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
    (i64::from(i32::MAX) - karma) as u64
}

/// Maps integers so that a larger one gives a smaller word.
fn descending(value: i64) -> u64 {
    !ascending(value)
}

/// Maps integers to words in the same order.
fn ascending(value: i64) -> u64 {
    (value as u64) ^ (1 << 63)
}

/// The position of a term in a policy's list.
pub(crate) fn position(infos: &[&TermInfo], name: &str) -> Option<usize> {
    infos.iter().position(|info| info.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_the_order_of_integers() {
        let values = [i64::MIN, -5, 0, 7, i64::MAX];
        assert!(values.map(ascending).is_sorted());
        assert!(values.map(descending).iter().rev().is_sorted());
    }

    #[test]
    fn ties_are_packed_in_order() {
        let packed = |values: &[(u64, u32)]| {
            let mut ties = [0; 2];
            let mut slots = TieSlots { ties: &mut ties, next: 0 };
            values.iter().for_each(|&(value, bits)| slots.push(value, bits));
            ties
        };
        assert!(packed(&[(0, 16), (1, 1), (9, 47)]) < packed(&[(1, 16), (0, 1), (0, 47)]));
        assert!(packed(&[(1, 16), (0, 1), (9, 47)]) < packed(&[(1, 16), (1, 1), (0, 47)]));
        assert!(packed(&[(5, 64), (9, 64)]) < packed(&[(5, 64), (10, 64)]));
        assert!(packed(&[(70_000, 16)]) <= packed(&[(65_535, 16)]), "too large a value saturates");
    }
}
