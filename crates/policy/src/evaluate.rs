//! Judges one pair: filters, devices, terms, total, level. The one place where a score is made.
//!
//! The same code runs with a recorder that keeps everything (verdicts) and with one that keeps nothing (indexes), so
//! what decides is what explains.

use std::sync::LazyLock;

use landfall_model::{Job, Mib, MilliCpu, Name, Node, NodeId, PoolId, Time};
use smallvec::SmallVec;

use crate::choice::Scored;
use crate::filters::batch::state::out_of_service;
use crate::policy::{Bound, BoundFilter, Policy};
use crate::refusal::{Quantity, Reason, Refusal, RefusalClass, Wake};
use crate::score::clamp100;
use crate::term::Class;
use crate::verdict::{Fact, Level, Refused, TermScore, Verdict};
use crate::view::{Devices, Pass, View};

/// What became of a pair.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// Refused. `never` means as long as job and node stay what they are, whatever runs there; otherwise `until` is the
    /// instant at which time alone may change that.
    Refused { never: bool, until: Option<Time> },
    /// Admitted and scored.
    Scored(Scored, Devices),
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
        let candidate = if pair.ranks_nodes { pair.node.id.as_str() } else { pair.job.id.as_str() };
        let mut verdict = Verdict::empty(candidate);
        let outcome = self.evaluate(pair, &mut verdict);
        if let Outcome::Scored(scored, devices) = &outcome {
            verdict.total = Some(scored.total);
            verdict.level = scored.level;
            verdict.barred = self.choice.barred(scored);
            verdict.mode = devices.mode;
            verdict.gpus = devices.indices(pair.node);
            let view = pair.view(&self.filters, devices);
            for bound in self.terms.iter().chain(&self.multipliers) {
                bound.term.explain(&view, &mut verdict.facts);
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
        let no_devices = Devices::default();
        let view = View { explains: R::KEEPS, ..pair.view(&self.filters, &no_devices) };
        let mut refused: Option<Refusal> = None;
        // Pools share nothing by themselves, whatever the policy.
        if let Some(refusal) = other_pool(&view) {
            if R::KEEPS {
                record.refused("pool", refusal.clone());
            }
            refused = Some(refusal);
        }
        // Nor does a node out of service take work, whether or not the policy thought of it.
        if let Some(refusal) = out_of_service(&view).filter(|_| !self.checks_state) {
            if R::KEEPS {
                record.refused("state", refusal.clone());
            }
            refused.get_or_insert(refusal);
        }
        for (info, filter) in &self.filters {
            let Some(refusal) = filter.check(&view) else { continue };
            if R::KEEPS {
                record.refused(info.name, refusal.clone());
            }
            // Whoever keeps nothing wants to know one thing more: whether this can change while node and job stay
            // what they are.
            if refusal.class == RefusalClass::Never {
                refused = Some(refusal);
                if !R::KEEPS {
                    break;
                }
            } else {
                refused.get_or_insert(refusal);
            }
        }
        if let Some(Refusal { class, until_ms, .. }) = refused {
            return Outcome::Refused { never: class == RefusalClass::Never, until: until_ms };
        }
        let devices = self.devices.choose(self, pair);
        let scored = self.score(&pair.view(&self.filters, &devices), record);
        Outcome::Scored(scored, devices)
    }

    /// The total of a pair whose devices are given; device choices compare these.
    pub(crate) fn total_with(&self, pair: Pair<'_>, devices: &Devices) -> f64 {
        self.score(&pair.view(&self.filters, devices), &mut Nothing).total
    }

    fn score<R: Record>(&self, view: &View<'_>, record: &mut R) -> Scored {
        let runtime = view.spec.runtime.as_str();
        let divisor = if self.takes_mean() {
            self.terms.iter().filter(|b| b.info.class == Class::Soft).map(|b| b.weight_for(runtime)).sum()
        } else {
            1.0
        };
        let mut vetoed = false;
        let mut sum = 0.0;
        let mut beside = 0.0;
        let mut raws: SmallVec<[f64; 16]> = SmallVec::new();
        let level_terms = self.level_terms.map_or([usize::MAX; 2], |(fit, speed)| [fit, speed]);
        for (position, bound) in self.terms.iter().enumerate() {
            let weight = bound.weight_for(runtime);
            // A term without weight is only computed where its value is shown or decides the level.
            let idle = weight == 0.0 && !R::KEEPS && !level_terms.contains(&position);
            let raw = if idle { 0.0 } else { bound.term.score(view) };
            debug_assert!(raw.is_finite(), "term {} gave {raw}", bound.info.name);
            let in_mean = self.takes_mean() && bound.info.class == Class::Soft;
            if in_mean || !self.takes_mean() {
                sum += weight * raw;
            } else {
                beside += weight * raw;
            }
            let veto = bound.term.veto(view);
            vetoed |= veto;
            raws.push(raw);
            if R::KEEPS {
                let contribution = weight * raw / if in_mean { divisor } else { 1.0 };
                record.term(TermScore { term: bound.info.name.into(), raw, weight, contribution, veto });
            }
        }
        let mut total = if self.takes_mean() { clamp100(sum / divisor + beside) } else { sum };
        for bound in &self.multipliers {
            let raw = bound.term.score(view);
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
            self.level_terms.map(|(fit, speed)| crate::rules::fit::level(raws[fit], raws[speed], view));
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
