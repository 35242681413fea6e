//! Judges one pair: filters, devices, terms, total, level. The one place where a score is made.
//!
//! The same code runs with a recorder that keeps everything (verdicts) and with one that keeps nothing (indexes), so
//! what decides is what explains.

use std::sync::LazyLock;

use landfall_model::{Job, Mib, MilliCpu, Name, Node, NodeId, PoolId, Time};
use smallvec::SmallVec;

use crate::choice::{Key, Scored};
use crate::policy::{Bound, BoundFilter, Policy};
use crate::refusal::{Finality, Quantity, Reason, Refusal, Wake};
use crate::rules::price::too_dear;
use crate::rules::service;
use crate::score::clamp100;
use crate::term::TermKind;
use crate::verdict::{Fact, Level, Refused, TermScore, Verdict};
use crate::view::{Devices, Pass, View};

/// What became of a pair.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// Refused. `never` means as long as job and node stay what they are, whatever runs there; otherwise `until` is the
    /// instant at which time alone may change that.
    Refused { never: bool, until: Option<Time>, reason: Reason },
    /// Admitted and scored.
    Scored(Scored, Devices),
}

/// What every term and multiplier says of a pair, and whether it vetoes.
type Said = SmallVec<[(f64, bool); 16]>;

/// A job that was judged for a node, with what others like it have in common with it.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    scored: Scored,
    said: Said,
    devices: Devices,
}

/// Who listens while a pair is judged.
trait Record {
    /// Whether all filters are to be asked though one has refused.
    const KEEPS: bool;
    fn refused(&mut self, filter: &'static str, refusal: Refusal);
    fn term(&mut self, score: TermScore);
    fn multiplier(&mut self, score: TermScore);
}

struct Nothing;

impl Record for Nothing {
    const KEEPS: bool = false;
    fn refused(&mut self, _: &'static str, _: Refusal) {}
    fn term(&mut self, _: TermScore) {}
    fn multiplier(&mut self, _: TermScore) {}
}

impl Record for Verdict {
    const KEEPS: bool = true;
    fn refused(&mut self, filter: &'static str, refusal: Refusal) {
        self.refusals.push(Refused { filter: filter.into(), refusal });
    }
    fn term(&mut self, score: TermScore) {
        if score.veto {
            self.vetoes.push(score.term.clone());
        }
        self.terms.push(score);
    }
    fn multiplier(&mut self, score: TermScore) {
        self.multipliers.push(score);
    }
}

/// A pair before devices are chosen.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) pass: &'a Pass<'a>,
    pub(crate) job: &'a Job,
    pub(crate) node: &'a Node,
    pub(crate) ranks_nodes: bool,
}

impl<'a> Pair<'a> {
    /// The pair with the devices chosen for it.
    pub(crate) fn view(&self, filters: &'a [BoundFilter], devices: &'a Devices) -> View<'a> {
        View {
            pass: self.pass,
            filters,
            job: self.job,
            spec: &self.job.spec,
            node: self.node,
            devices,
            ranks_nodes: self.ranks_nodes,
            explains: false,
        }
    }
}

impl Policy {
    /// Judges a pair and keeps nothing but the outcome.
    pub(crate) fn judge(&self, pair: Pair<'_>) -> Outcome {
        self.evaluate(pair, &mut Nothing)
    }

    /// Judges a pair and keeps everything.
    pub(crate) fn explain(&self, pair: Pair<'_>) -> (Outcome, Verdict) {
        let (outcome, mut verdict) = self.verdict(pair);
        if let Outcome::Scored(_, devices) = &outcome {
            let view = pair.view(&self.filters, devices);
            for bound in self.terms.iter().chain(&self.multipliers) {
                bound.term.explain(&view, &mut verdict.facts);
            }
            if let Some(row) = self.in_row {
                verdict.facts.note("weights_row", Fact::Count(row as u64 + 1));
            }
            if let (Some(slice), Some(gpu)) = (pair.job.spec.slice(), view.gpus().next()) {
                if let Some(start) = gpu.slice_start(slice.compute) {
                    verdict.facts.note("slice_start", Fact::Count(u64::from(start)));
                }
                let vram = gpu.slices.as_ref().and_then(|_| gpu.slice_vram(slice.compute));
                let vram = vram.unwrap_or(gpu.vram_total()).get();
                verdict.facts.note("slice_vram_mib", Fact::Count(vram));
            }
            if pair.ranks_nodes && pair.job.spec.region.is_some() {
                verdict.region_tier = Some(view.region_tier());
                verdict.facts.note("region_rank", Fact::Count(u64::from(view.region_rank())));
            }
            if pair.ranks_nodes && self.level_terms.is_some() {
                verdict.facts.note("karma", Fact::Number(pair.node.karma as f64));
                verdict.facts.note("warm", Fact::Flag(view.is_warm()));
            }
        }
        (outcome, verdict)
    }

    /// Judges a pair and keeps what was decided, without the facts it rests on.
    pub(crate) fn verdict(&self, pair: Pair<'_>) -> (Outcome, Verdict) {
        let candidate = if pair.ranks_nodes { pair.node.id.as_str() } else { pair.job.id.as_str() };
        let mut verdict = Verdict::empty(candidate);
        let outcome = self.evaluate(pair, &mut verdict);
        if let Outcome::Scored(scored, devices) = &outcome {
            verdict.total = Some(scored.total);
            verdict.level = scored.level;
            verdict.barred = self.choice.barred(scored);
            verdict.mode = devices.mode;
            verdict.gpus = devices.indices(pair.node);
        }
        (outcome, verdict)
    }

    /// The total of a waiting job as the queue orders it, before any node is chosen.
    pub fn queue_total(&self, pass: &Pass<'_>, job: &Job) -> f64 {
        self.on_queue(pass, job, |view| self.score(view, &mut Nothing).total)
    }

    /// Asks about a job of a queue, whatever the node.
    pub(crate) fn on_queue<T>(&self, pass: &Pass<'_>, job: &Job, ask: impl FnOnce(&View<'_>) -> T) -> T {
        let (node, devices) = (no_node(), Devices::default());
        ask(&Pair { pass, job, node, ranks_nodes: false }.view(&self.filters, &devices))
    }

    /// The same with the points of each term, without the facts they rest on.
    pub fn queue_points(&self, pass: &Pass<'_>, job: &Job) -> Verdict {
        self.on_queue(pass, job, |view| {
            let mut verdict = Verdict::empty(job.id.as_str());
            verdict.total = Some(self.score(view, &mut verdict).total);
            verdict
        })
    }

    /// The same with everything that speaks for it.
    pub fn queue_verdict(&self, pass: &Pass<'_>, job: &Job) -> Verdict {
        let mut verdict = self.queue_points(pass, job);
        self.on_queue(pass, job, |view| {
            for bound in self.terms.iter().chain(&self.multipliers) {
                bound.term.explain(view, &mut verdict.facts);
            }
        });
        verdict
    }

    /// Whether time alone may change what the policy says of a pair.
    pub fn reads_clock(&self) -> bool {
        self.reads().clock || self.filters.iter().any(|(info, _)| info.clock)
    }

    fn evaluate<R: Record>(&self, pair: Pair<'_>, record: &mut R) -> Outcome {
        if pair.node.holds_for(&pair.job.id) {
            let open = pair.node.without_holds_of(&pair.job.id);
            return self.evaluate_open(Pair { node: &open, ..pair }, record);
        }
        self.evaluate_open(pair, record)
    }

    /// Judges a pair on whose node nothing is kept for the job.
    fn evaluate_open<R: Record>(&self, pair: Pair<'_>, record: &mut R) -> Outcome {
        match self.admit(pair, record) {
            Ok(devices) => {
                let scored = self.score(&pair.view(&self.filters, &devices), record);
                Outcome::Scored(scored, devices)
            }
            Err(refused) => refused,
        }
    }

    /// The devices that an admitted job would get.
    fn admit<R: Record>(&self, pair: Pair<'_>, record: &mut R) -> Result<Devices, Outcome> {
        let no_devices = Devices::default();
        let view = View { explains: R::KEEPS, ..pair.view(&self.filters, &no_devices) };
        // What is said for people is moved on at once: most pairs of a full fleet are refused, and a refusal is large.
        let mut refused: Option<(Finality, Option<Time>, Reason)> = None;
        let mut against = |name: &'static str, refusal: Refusal, rules: bool| {
            let said = (refusal.class, refusal.until_ms, refusal.reason);
            if R::KEEPS {
                record.refused(name, refusal);
            }
            if rules {
                refused = Some(said);
            } else {
                refused.get_or_insert(said);
            }
        };
        // Pools share nothing by themselves, whatever the policy.
        if let Some(refusal) = other_pool(&view) {
            against("pool", refusal, true);
        }
        // Nor does a node that takes no work, whether or not the policy thought of it.
        for demand in service::demands() {
            if let Some(refusal) = demand.against(&view) {
                against(demand.name, refusal, false);
            }
        }
        // Nor may anything cost more than it may.
        if let Some(refusal) = too_dear(&view) {
            let never = refusal.class == Finality::Never;
            against("max-price", refusal, never);
        }
        for (info, filter) in &self.filters {
            let Some(refusal) = filter.check(&view) else { continue };
            // Whoever keeps nothing wants to know one thing more: whether this can change while node and job stay
            // what they are.
            let never = refusal.class == Finality::Never;
            against(info.name, refusal, never);
            if never && !R::KEEPS {
                break;
            }
        }
        if let Some((class, until, reason)) = refused {
            return Err(Outcome::Refused { never: class == Finality::Never, until, reason });
        }
        Ok(self.devices.choose(self, pair))
    }

    /// Judges a job for a node that keeps nothing for it, so that others can be judged by it; the reason if a filter refuses
    /// it.
    pub(crate) fn judge_first(&self, pair: Pair<'_>) -> Result<Judged, Reason> {
        let devices = self.admit(pair, &mut Nothing).map_err(|refused| match refused {
            Outcome::Refused { reason, .. } => reason,
            Outcome::Scored(..) => Reason::NoEligibleNode,
        })?;
        let view = pair.view(&self.filters, &devices);
        let said = self.said(&view, false);
        let scored = self.total(&view, &said, &mut Nothing);
        Ok(Judged { scored, said, devices })
    }

    /// Why the job that was judged may not be chosen, though every filter admits it.
    pub(crate) fn first_barred(&self, judged: &Judged) -> Option<Reason> {
        self.choice.barred(&judged.scored)
    }

    /// The key of the job that was judged, if it may be chosen.
    pub(crate) fn first_key(&self, job: &Job, judged: &Judged) -> Option<Key> {
        self.choice.may_choose(&judged.scored).then(|| self.choice.job_key(job, &judged.scored, 0))
    }

    /// The key of a job that differs from the one judged in nothing but how long it has waited.
    pub(crate) fn key_after(&self, pair: Pair<'_>, judged: &Judged) -> Option<Key> {
        let view = pair.view(&self.filters, &judged.devices);
        let mut said = judged.said.clone();
        for (position, (bound, said)) in self.terms.iter().chain(&self.multipliers).zip(&mut said).enumerate()
        {
            if bound.info.reads.ready_wait || bound.info.reads.queue_wait {
                *said = self.asked(position, bound, &view, false);
            }
        }
        let scored = self.total(&view, &said, &mut Nothing);
        self.choice.may_choose(&scored).then(|| self.choice.job_key(pair.job, &scored, 0))
    }

    /// The total of a pair whose devices are given; device choices compare these.
    pub(crate) fn total_with(&self, pair: Pair<'_>, devices: &Devices) -> f64 {
        self.score(&pair.view(&self.filters, devices), &mut Nothing).total
    }

    fn score<R: Record>(&self, view: &View<'_>, record: &mut R) -> Scored {
        self.total(view, &self.said(view, R::KEEPS), record)
    }

    fn said(&self, view: &View<'_>, shown: bool) -> Said {
        let bounds = self.terms.iter().chain(&self.multipliers).enumerate();
        bounds.map(|(position, bound)| self.asked(position, bound, view, shown)).collect()
    }

    fn asked(&self, position: usize, bound: &Bound, view: &View<'_>, shown: bool) -> (f64, bool) {
        if position >= self.terms.len() {
            return (bound.term.score(view), false);
        }
        // A term without weight is only computed where its value is shown or decides the level.
        let idle = !shown
            && bound.weight_for(view.spec.runtime.as_str()) == 0.0
            && !self.level_terms.is_some_and(|(fit, speed)| position == fit || position == speed);
        (if idle { 0.0 } else { bound.term.score(view) }, bound.term.veto(view))
    }

    /// What comes of what all terms and multipliers say.
    fn total<R: Record>(&self, view: &View<'_>, said: &[(f64, bool)], record: &mut R) -> Scored {
        let runtime = view.spec.runtime.as_str();
        let divisor = if self.takes_mean() {
            self.terms.iter().filter(|b| b.info.class == TermKind::Soft).map(|b| b.weight_for(runtime)).sum()
        } else {
            1.0
        };
        let mut vetoed = false;
        let mut sum = 0.0;
        let mut beside = 0.0;
        for (bound, &(raw, veto)) in self.terms.iter().zip(said) {
            let weight = bound.weight_for(runtime);
            debug_assert!(raw.is_finite(), "term {} gave {raw}", bound.info.name);
            let in_mean = self.takes_mean() && bound.info.class == TermKind::Soft;
            if in_mean || !self.takes_mean() {
                sum += weight * raw;
            } else {
                beside += weight * raw;
            }
            vetoed |= veto;
            if R::KEEPS {
                let contribution = weight * raw / if in_mean { divisor } else { 1.0 };
                record.term(TermScore { term: bound.info.name.into(), raw, weight, contribution, veto });
            }
        }
        let mut total = if self.takes_mean() { clamp100(sum / divisor + beside) } else { sum };
        for (bound, &(raw, _)) in self.multipliers.iter().zip(&said[self.terms.len()..]) {
            total *= raw;
            if R::KEEPS {
                record.multiplier(multiplier_score(bound, raw));
            }
        }
        total = total.min(self.choice.cap);
        if self.choice.truncate {
            total = total.trunc();
        }
        let level =
            self.level_terms.map(|(fit, speed)| crate::rules::fit::level(said[fit].0, said[speed].0, view));
        Scored { total, vetoed, level }
    }
}

/// Stands for the nodes that are not chosen yet while a queue is ordered.
fn no_node() -> &'static Node {
    static NO_NODE: LazyLock<Node> = LazyLock::new(|| {
        let id = NodeId::new("-").unwrap_or_else(|_| unreachable!("a literal id is valid"));
        Node::new(id, MilliCpu::ZERO, Mib::ZERO)
    });
    &NO_NODE
}

/// Refuses a node of another pool than the job's, if both name one.
fn other_pool(view: &View<'_>) -> Option<Refusal> {
    let (Some(wanted), Some(found)) = (&view.spec.pool, &view.node.pool) else { return None };
    if wanted == found || view.pass.lender.as_ref() == Some(found) {
        return None;
    }
    let name = |pool: &PoolId| Quantity::Names(Name::new(pool.as_str()).into_iter().collect());
    let refusal = Refusal::never(Reason::OtherPool, name(wanted), name(found), Wake::JobChanged);
    Some(refusal.remedy("submit the job to the pool of this node"))
}

fn multiplier_score(bound: &Bound, raw: f64) -> TermScore {
    TermScore { term: bound.info.name.into(), raw, weight: 1.0, contribution: raw, veto: false }
}

/// Whether a level is above `too_tight`; without levels everything is.
pub(crate) fn is_wide_enough(level: Option<Level>) -> bool {
    level != Some(Level::TooTight)
}
