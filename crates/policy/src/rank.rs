//! The plain scorer: judges every candidate and sorts. Obviously right, and the oracle for the indexes.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{Job, MilliGpu, Name, Node, Situation, Time};

use crate::choice::{Key, RegionMode, Scored};
use crate::evaluate::{Outcome, Pair, is_wide_enough};
use crate::policy::Policy;
use crate::refusal::Reason;
use crate::rules::capacity;
use crate::score::{draw, hash64, q};
use crate::terms::fit::speed;
use crate::verdict::{Decision, Direction, Fact, Margin, Ranking, ReasonCount, Verdict};
use crate::view::Pass;

/// The chosen candidate of a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// Its position among the nodes or jobs.
    pub slot: usize,
    /// Why it was chosen, without the facts that the points rest on.
    pub verdict: Verdict,
    /// The next best, if there is one.
    pub runner_up: Option<usize>,
}

/// What was looked at for a decision beside the one that is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Looked {
    /// Positions of the next best, best first.
    pub runners_up: Vec<usize>,
    /// What stands first against those that may not be chosen.
    pub against: BTreeMap<Reason, u32>,
}

/// What could open a node that may not be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Nothing that runs on the node or passes in time.
    ToThisClass,
    /// The passing of an instant, or a change of what runs there.
    Until(Time),
    /// A change of what runs there.
    ForNow,
}

struct Judged {
    verdict: Verdict,
    key: Option<Key>,
    may_choose: bool,
    wide_enough: bool,
}

impl Policy {
    pub fn rank_nodes(&self, situation: &Situation, job: &Job) -> Ranking {
        self.rank_nodes_in(&Pass::new(situation), situation.tie_ranks(), job)
    }

    /// Ranks all nodes of a pass for a job; `tie_ranks` has the place of each node among nodes that are otherwise equal.
    pub fn rank_nodes_in(&self, pass: &Pass<'_>, tie_ranks: &[u32], job: &Job) -> Ranking {
        let this = self.in_force(pass.nodes(), job.spec.tier);
        let skipped = self.left_out(pass, job);
        let judged = pass
            .nodes()
            .iter()
            .zip(tie_ranks)
            .enumerate()
            .filter(|(slot, _)| !skipped.contains(slot))
            .map(|(_, (node, &rank))| this.judged(Pair { pass, job, node, ranks_nodes: true }, rank))
            .collect();
        let skipped = skipped.len() as u64;
        this.ranking(pass, Direction::NodesForJob, job.id.as_str(), judged, skipped, || {
            capacity::decide(this, pass, job)
        })
    }

    /// What the policy says about one pair.
    pub fn pair_verdict(&self, pass: &Pass<'_>, job: &Job, node: &Node, direction: Direction) -> Verdict {
        let ranks_nodes = direction == Direction::NodesForJob;
        let this = if ranks_nodes { self.in_force(pass.nodes(), job.spec.tier) } else { self };
        this.explain(Pair { pass, job, node, ranks_nodes }).1
    }

    /// How fast a job should be on a node before what was learned of the node is counted in, if the policy judges speed and a good
    /// run tells how right it is. One on a shared GPU does not, nor one of work that has no name.
    pub fn raw_speed(&self, pass: &Pass<'_>, job: &Job, node: &Node) -> Option<f64> {
        let spec = &job.spec;
        let tells = spec.workload.is_some() || spec.runs_with("llmcpp");
        let shares = spec.is_gpu_job() && spec.gpu_milli < MilliGpu::WHOLE;
        if !tells || shares || !self.term_weights().any(|(info, _)| info.name == speed::INFO.name) {
            return None;
        }
        match self.pair_verdict(pass, job, node, Direction::NodesForJob).facts.get("estimate_raw") {
            Some(Fact::Number(raw)) => Some(*raw).filter(|raw| raw.is_finite() && *raw > 0.0),
            _ => None,
        }
    }

    pub fn rank_jobs(&self, situation: &Situation, node: &Node) -> Ranking {
        let pass = Pass::new(situation);
        let judged = (0u32..)
            .zip(situation.jobs())
            .map(|(rank, job)| self.judged(Pair { pass: &pass, job, node, ranks_nodes: false }, rank))
            .collect();
        self.ranking(&pass, Direction::JobsForNode, node.id.as_str(), judged, 0, || Decision::Wait {
            reason: Reason::NoJob,
            detail: "no waiting job may run here now".into(),
        })
    }

    /// The best node for a job, by looking at every node: the oracle of [`crate::index::NodeIndex`].
    pub fn best_node(&self, pass: &Pass<'_>, tie_ranks: &[u32], job: &Job) -> Option<Best> {
        let skipped = self.left_out(pass, job);
        let pair = |slot: usize| Pair { pass, job, node: &pass.nodes()[slot], ranks_nodes: true };
        let slots = (0..pass.nodes().len()).filter(|slot| !skipped.contains(slot));
        if self.picks_uniformly() {
            let may_take = |slot: &usize| self.node_key(pair(*slot), tie_ranks[*slot]).is_ok();
            let admitted: Vec<usize> = slots.filter(may_take).collect();
            let slot = *admitted.get(draw(self.draw_for(job), admitted.len()))?;
            return Some(Best { slot, verdict: self.verdict(pair(slot)).1, runner_up: None });
        }
        let keys = slots.filter_map(|slot| Some((self.node_key(pair(slot), tie_ranks[slot]).ok()?, slot)));
        self.best_of(keys, pair)
    }

    /// What stands beside the best node for a job, by looking at every node: the oracle of [`crate::index::NodeIndex`].
    pub fn looked_at(&self, pass: &Pass<'_>, tie_ranks: &[u32], job: &Job, most: usize) -> Looked {
        let skipped = self.left_out(pass, job);
        let mut looked = Looked::default();
        let mut keys = Vec::new();
        for slot in (0..pass.nodes().len()).filter(|slot| !skipped.contains(slot)) {
            let pair = Pair { pass, job, node: &pass.nodes()[slot], ranks_nodes: true };
            match self.node_key(pair, tie_ranks[slot]) {
                Ok(key) => keys.push((key, slot)),
                Err((_, reason)) => *looked.against.entry(reason).or_default() += 1,
            }
        }
        if !self.picks_uniformly() {
            keys.sort_unstable();
            looked.runners_up = keys.into_iter().skip(1).take(most).map(|(_, slot)| slot).collect();
        }
        looked
    }

    /// The best job for a node, by looking at every job: the oracle of [`crate::index::JobIndex`].
    pub fn best_job(&self, pass: &Pass<'_>, jobs: &[Job], node: &Node) -> Option<Best> {
        let pair = |slot: usize| Pair { pass, job: &jobs[slot], node, ranks_nodes: false };
        let keys = (0..jobs.len()).filter_map(|slot| Some((self.job_key(pair(slot), slot as u32)?, slot)));
        self.best_of(keys, pair)
    }

    fn best_of<'a>(
        &self,
        keys: impl Iterator<Item = (Key, usize)>,
        pair: impl Fn(usize) -> Pair<'a>,
    ) -> Option<Best> {
        let mut best: Option<(Key, usize)> = None;
        let mut second: Option<(Key, usize)> = None;
        for candidate in keys {
            if best.is_none_or(|best| candidate < best) {
                second = best.replace(candidate);
            } else if second.is_none_or(|second| candidate < second) {
                second = Some(candidate);
            }
        }
        let (_, slot) = best?;
        Some(Best { slot, verdict: self.verdict(pair(slot)).1, runner_up: second.map(|(_, slot)| slot) })
    }

    /// The key of a node that may be chosen; otherwise what could change that, and what stands against it first.
    pub(crate) fn node_key(&self, pair: Pair<'_>, rank: u32) -> Result<Key, (Closed, Reason)> {
        match self.judge(pair) {
            Outcome::Refused { never: true, reason, .. } => Err((Closed::ToThisClass, reason)),
            Outcome::Refused { until: Some(until), reason, .. } => Err((Closed::Until(until), reason)),
            Outcome::Refused { reason, .. } => Err((Closed::ForNow, reason)),
            Outcome::Scored(scored, devices) if self.choice.may_choose(&scored) => {
                Ok(self.choice.node_key(&pair.view(&self.filters, &devices), &scored, rank))
            }
            Outcome::Scored(scored, _) => {
                Err((Closed::ForNow, self.choice.barred(&scored).unwrap_or(Reason::BelowFloor)))
            }
        }
    }

    /// What the policy says about one pair, without the facts it rests on.
    pub fn pair_points(&self, pass: &Pass<'_>, job: &Job, node: &Node, direction: Direction) -> Verdict {
        let ranks_nodes = direction == Direction::NodesForJob;
        self.verdict(Pair { pass, job, node, ranks_nodes }).1
    }

    /// The key of a job that may be chosen.
    pub(crate) fn job_key(&self, pair: Pair<'_>, rank: u32) -> Option<Key> {
        match self.judge(pair) {
            Outcome::Scored(scored, _) if self.choice.may_choose(&scored) => {
                Some(self.choice.job_key(pair.job, &scored, rank))
            }
            _ => None,
        }
    }

    /// The random word of a job under this policy.
    pub(crate) fn draw_for(&self, job: &Job) -> u64 {
        hash64(&[&self.choice.seed.to_be_bytes(), job.id.as_str().as_bytes()])
    }

    /// The positions of the nodes that a candidate limit leaves out.
    fn left_out(&self, pass: &Pass<'_>, job: &Job) -> BTreeSet<usize> {
        let Some(limit) = self.choice.candidate_limit else { return BTreeSet::new() };
        let nodes = pass.nodes();
        let no_devices = crate::view::Devices::default();
        let tiered = self.choice.region_mode == RegionMode::Tiered;
        let mut by_tier: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for (slot, node) in nodes.iter().enumerate() {
            let pair = Pair { pass, job, node, ranks_nodes: true };
            // A refused node keeps its reasons and takes nobody's place.
            if matches!(self.judge(pair), Outcome::Scored(..)) {
                let tier = if tiered { pair.view(&self.filters, &no_devices).region_tier() } else { 0 };
                by_tier.entry(tier).or_default().push(slot);
            }
        }
        let mut skipped = BTreeSet::new();
        for slots in by_tier.values_mut() {
            slots.sort_by_key(|&slot| {
                let node = &nodes[slot];
                let view = Pair { pass, job, node, ranks_nodes: true }.view(&self.filters, &no_devices);
                (!view.is_warm(), std::cmp::Reverse(node.karma), node.active(), &node.id)
            });
            skipped.extend(slots.iter().skip(limit));
        }
        skipped
    }

    fn judged(&self, pair: Pair<'_>, rank: u32) -> Judged {
        let (outcome, verdict) = self.explain(pair);
        match outcome {
            Outcome::Refused { .. } => Judged { verdict, key: None, may_choose: false, wide_enough: false },
            Outcome::Scored(scored, devices) => {
                let key = if pair.ranks_nodes {
                    self.choice.node_key(&pair.view(&self.filters, &devices), &scored, rank)
                } else {
                    self.choice.job_key(pair.job, &scored, rank)
                };
                let Scored { level, .. } = scored;
                Judged {
                    verdict,
                    key: Some(key),
                    may_choose: self.choice.may_choose(&scored),
                    wide_enough: is_wide_enough(level),
                }
            }
        }
    }

    fn ranking(
        &self,
        pass: &Pass<'_>,
        direction: Direction,
        subject: &str,
        mut judged: Vec<Judged>,
        candidates_skipped: u64,
        otherwise: impl FnOnce() -> Decision,
    ) -> Ranking {
        judged.sort_by(|a, b| {
            let refused = |j: &Judged| j.key.is_none();
            (refused(a), a.key, &a.verdict.candidate).cmp(&(refused(b), b.key, &b.verdict.candidate))
        });
        let mut order = judged.iter().filter(|j| j.may_choose);
        let (winner, runner_up) = if self.picks_uniformly() {
            (self.drawn(subject, &judged, direction), None)
        } else {
            (order.next(), order.next())
        };
        let decision = match winner {
            Some(winner) => Decision::ExistingNode { winner: winner.verdict.candidate.clone() },
            None => match why_none(&judged, self) {
                Some(decision) => decision,
                None => otherwise(),
            },
        };
        Ranking {
            policy: self.name().to_owned(),
            direction,
            subject: Name::new(subject).unwrap_or_else(|_| unreachable!("every id is a name")),
            now_ms: pass.now,
            decision,
            winner: winner.map(|winner| winner.verdict.candidate.clone()),
            margin: winner.zip(runner_up).map(|(winner, other)| margin(winner, other)),
            fallback: winner.is_some_and(|winner| !winner.wide_enough),
            reasons: reasons(&judged),
            candidates: judged.into_iter().map(|judged| judged.verdict).collect(),
            candidates_skipped,
            lazy: pass.lazy_counts(),
        }
    }

    /// The candidate that a uniform pick draws, counted in id order.
    fn drawn<'j>(&self, subject: &str, judged: &'j [Judged], direction: Direction) -> Option<&'j Judged> {
        let mut admitted: Vec<&Judged> = judged.iter().filter(|j| j.may_choose).collect();
        admitted.sort_by(|a, b| a.verdict.candidate.cmp(&b.verdict.candidate));
        let hash = match direction {
            Direction::NodesForJob => hash64(&[&self.choice.seed.to_be_bytes(), subject.as_bytes()]),
            // Jobs are not drawn: the queue's order stands.
            Direction::JobsForNode => return judged.iter().find(|j| j.may_choose),
        };
        admitted.get(draw(hash, admitted.len())).copied()
    }
}

/// If some candidate was scored and none may be chosen, says why.
fn why_none(judged: &[Judged], policy: &Policy) -> Option<Decision> {
    let scored: Vec<&Judged> = judged.iter().filter(|j| j.key.is_some()).collect();
    let best = scored.first()?;
    let (reason, detail) = if scored.iter().all(|j| !j.wide_enough) {
        (
            Reason::AllTooTight,
            "every admitted candidate is too tight, and fallback_too_tight is off".to_owned(),
        )
    } else if scored.iter().all(|j| !j.verdict.vetoes.is_empty()) {
        (
            Reason::Vetoed,
            format!("every admitted candidate is vetoed, the best by {}", best.verdict.vetoes.join(", ")),
        )
    } else {
        let total = best.verdict.total.unwrap_or_default();
        let choice = &policy.choice;
        if choice.dispatch_floor == f64::NEG_INFINITY {
            (
                Reason::MinScore,
                format!("the best total {total:.3} is not above min_score {}", choice.min_score),
            )
        } else {
            (
                Reason::BelowFloor,
                format!("the best total {total:.3} is below the floor {}", choice.dispatch_floor),
            )
        }
    };
    Some(Decision::Wait { reason, detail })
}

fn margin(winner: &Judged, other: &Judged) -> Margin {
    let total = |judged: &Judged| judged.verdict.total.unwrap_or_default();
    let (a, b) = (&winner.verdict, &other.verdict);
    let lead = total(winner) - total(other);
    let deciding = a
        .terms
        .iter()
        .zip(&b.terms)
        .map(|(a, b)| (a.contribution - b.contribution, &a.term))
        .filter(|(difference, _)| q(*difference) > 0)
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)));
    let decided_by = match (winner.key, other.key) {
        (Some(a), Some(b)) if winner.wide_enough != other.wide_enough || a.group / 4 != b.group / 4 => {
            Some("level".into())
        }
        (Some(a), Some(b)) if a.group != b.group => Some("region tier".into()),
        (Some(a), Some(b)) if a.primary == b.primary && a.ties != b.ties => Some("tie-break".into()),
        (Some(a), Some(b)) if a.primary == b.primary => Some("order".into()),
        _ => None,
    };
    Margin {
        runner_up: b.candidate.clone(),
        lead,
        deciding_term: deciding.map(|(_, term)| term.clone()),
        decided_by,
    }
}

fn reasons(judged: &[Judged]) -> Vec<ReasonCount> {
    let mut counts: BTreeMap<Reason, (u64, u64)> = BTreeMap::new();
    for judged in judged {
        let mut reasons: Vec<_> =
            judged.verdict.refusals.iter().map(|refused| refused.refusal.reason).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for reason in &reasons {
            let count = counts.entry(*reason).or_default();
            count.0 += 1;
            count.1 += u64::from(reasons.len() == 1);
        }
    }
    let mut counts: Vec<_> = counts
        .into_iter()
        .map(|(reason, (candidates, alone))| ReasonCount { reason, candidates, alone })
        .collect();
    counts.sort_by_key(|count| (std::cmp::Reverse(count.candidates), count.reason.name()));
    counts
}
