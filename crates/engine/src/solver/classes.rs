//! Classes of jobs: what all jobs with one spec and one duration have in common, found once per solve.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{Job, JobSpec, Money, Node, NodeState};
use landfall_policy::filter::About;
use landfall_policy::refusal::Finality;
use landfall_policy::rules::locality::{self, Picture, locality};
use landfall_policy::rules::price::Tariff;
use landfall_policy::view::Pass;

use super::open;
use super::problem::{Problem, Waiting};
use super::reason::{Reason, Refusal};
use super::sets::Wish;
use super::timeline::FOREVER;

/// A kind as one class of jobs sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) kind: usize,
    pub(super) locality: f64,
    pub(super) power: u64,
    pub(super) power_unknown: bool,
    /// Filters admit them from this instant on.
    pub(super) from: i64,
}

/// Which kinds jobs with one spec can use.
#[derive(Debug, Clone, Default)]
pub(super) struct Usable {
    pub(super) own: Vec<Seen>,
    /// Kinds of other pools that they could borrow.
    pub(super) lent: Vec<Seen>,
    /// Nodes that filters refuse until something happens that nobody can foretell.
    pub(super) put_off: usize,
    /// The smallest part of a node that one of them uses.
    pub(super) unit: f64,
    /// The most that one of them costs.
    pub(super) price: Money,
}

/// What jobs with one spec can use by what they and the nodes are: kept by whoever asks in cycles, until a node, a setting
/// or the policy changes. The spec is held, so its address stays its own.
#[derive(Debug, Clone, Default)]
pub struct Suited(RefCell<KnownUses>);

/// By the spec's place in memory, which the spec kept beside it keeps taken.
type KnownUses = BTreeMap<usize, (Arc<JobSpec>, Arc<Usable>)>;

impl Suited {
    /// Forgets specs that nobody waits with any more.
    pub fn retain(&mut self, waits: impl Fn(&Arc<JobSpec>) -> bool) {
        self.0.get_mut().retain(|_, (spec, _)| waits(spec));
    }

    fn of(&self, p: &Problem<'_>, spec: &Arc<JobSpec>) -> Arc<Usable> {
        let place = Arc::as_ptr(spec) as usize;
        if let Some((_, known)) = self.0.borrow().get(&place) {
            return Arc::clone(known);
        }
        let found = Arc::new(Usable::of(p, spec));
        self.0.borrow_mut().insert(place, (Arc::clone(spec), Arc::clone(&found)));
        found
    }
}

/// A job of a class that is asked about for all.
fn one_of(p: &Problem<'_>, spec: &Arc<JobSpec>) -> Job {
    let id = landfall_model::JobId::new("-").unwrap_or_else(|_| unreachable!("a literal id is valid"));
    Job::new(id, Arc::clone(spec), p.now)
}

fn pass<'p>(p: &Problem<'p>) -> Pass<'p> {
    Pass::of_parts(p.now, p.world, &[], Default::default())
}

impl Usable {
    fn of(p: &Problem<'_>, spec: &Arc<JobSpec>) -> Self {
        let (pass, job) = (pass(p), one_of(p, spec));
        let mut usable = Self::default();
        for (number, kind) in p.fleet.kinds.iter().enumerate() {
            let state = kind.node.state == NodeState::Ready || spec.allow_degraded;
            if !kind.in_service() || !state || !p.policy.suits(&pass, &job, &kind.node) {
                continue;
            }
            let power = kind.extra_power(spec.power_w);
            let seen = Seen {
                kind: number,
                locality: locality(spec, &kind.node, Picture::Idle).unwrap_or(locality::UNKNOWN),
                power: power.unwrap_or(0),
                power_unknown: power.is_none(),
                from: i64::MIN,
            };
            if kind.own { usable.own.push(seen) } else { usable.lent.push(seen) }
        }
        usable.measured(p, spec)
    }

    fn measured(mut self, p: &Problem<'_>, spec: &JobSpec) -> Self {
        let parts = || self.own.iter().map(|seen| open::units(spec, &p.fleet.kinds[seen.kind].node));
        self.unit = if spec.exclusive { 1.0 } else { parts().reduce(f64::min).unwrap_or(0.0) };
        if let Some(tariff) = Tariff::for_job(p.world, spec) {
            let kinds = self.own.iter().chain(&self.lent).map(|seen| &p.fleet.kinds[seen.kind].node);
            let tier = kinds.filter_map(|node| tariff.highest(spec, node)).max();
            self.price = tier.map(|tier| tariff.now(tier)).unwrap_or_default();
        }
        self
    }

    /// What is left of it as the nodes are now.
    fn at_this_moment(&self, p: &Problem<'_>, spec: &Arc<JobSpec>) -> Self {
        let (pass, job) = (pass(p), one_of(p, spec));
        let mut put_off = 0;
        let mut admitted = |seen: &Seen| {
            let from = p.policy.plans_from(&pass, &job, node_of(p, seen.kind)?);
            put_off += usize::from(from == Err(Finality::NotNow));
            Some(Seen { from: from.ok()?.as_millis(), ..*seen })
        };
        let own = self.own.iter().filter_map(&mut admitted).collect();
        let lent = self.lent.iter().filter_map(&mut admitted).collect();
        Self { own, lent, put_off, ..Self::default() }.measured(p, spec)
    }
}

/// The node of a kind that has but one, as it is now.
fn node_of<'p>(p: &Problem<'p>, kind: usize) -> Option<&'p Node> {
    p.nodes.get(*p.fleet.kinds[kind].members.first()? as usize).copied()
}

/// What jobs of one class have in common.
pub(super) struct Class<'a> {
    pub(super) spec: &'a Arc<JobSpec>,
    /// How long they run.
    pub(super) span: i64,
    /// How long they count for where the shortest comes first.
    pub(super) likely: i64,
    pub(super) wish: Wish,
    pub(super) usable: Arc<Usable>,
    /// What was found when one of them could not be placed, while nothing was given back since.
    pub(super) blocked: Option<(u64, Arc<Vec<Refusal>>)>,
    /// No slot is earlier, while nothing was given back since.
    pub(super) floor: Option<(u64, i64)>,
}

pub(super) fn span(duration: Option<landfall_model::Millis>) -> i64 {
    duration.map_or(FOREVER, |d| i64::try_from(d.get()).unwrap_or(FOREVER).max(1))
}

/// Tells classes apart: spec, duration, and how long one checkpoint takes. Jobs that share one spec share its place in
/// memory; whether two places hold equal specs does not matter.
pub(super) type ClassKey = (usize, i64, Option<u64>);

pub(super) fn key(waiting: &Waiting<'_>) -> ClassKey {
    let place = Arc::as_ptr(waiting.spec) as usize;
    (place, span(waiting.duration), waiting.checkpoint_minutes.map(f64::to_bits))
}

impl<'a> Class<'a> {
    pub(super) fn new(p: &Problem<'a>, waiting: &Waiting<'a>) -> Self {
        let spec = waiting.spec;
        let mut usable = p.suited.of(p, spec);
        if p.policy.looks_at() == About::Moment {
            usable = Arc::new(usable.at_this_moment(p, spec));
        }
        let max_span = [spec.max_span, p.settings.max_span].into_iter().flatten().min();
        Self {
            spec,
            span: span(waiting.duration),
            likely: span(waiting.expected.or(waiting.duration)),
            wish: Wish {
                hint: spec.hint.unwrap_or(p.settings.hint),
                least: spec.nodes.min,
                max_span,
                sensitive: spec.sensitive,
                checkpoint: waiting.checkpoint_minutes.map_or(0.0, |minutes| 1.0 / (1.0 + minutes)),
                io: super::overlay::clamp(spec.io_bytes_s.get()),
            },
            usable,
            blocked: None,
            floor: None,
        }
    }

    /// The same class with another duration, and nothing found out yet.
    pub(super) fn lasting(&self, span: i64) -> Self {
        Self {
            spec: self.spec,
            span,
            likely: self.likely,
            wish: self.wish,
            usable: Arc::clone(&self.usable),
            blocked: None,
            floor: None,
        }
    }

    /// GPU-hours that so many nodes count.
    pub(super) fn gpu_hours(&self, nodes: u32) -> f64 {
        let ms = if self.span == FOREVER { 86_400_000.0 } else { self.span as f64 };
        f64::from(self.spec.gpu_count) * f64::from(nodes) * ms / 3_600_000.0
    }
}

/// How many own nodes each filter refuses.
pub(super) fn refused_nodes(p: &Problem<'_>, class: &Class<'_>, now: i64) -> Vec<Refusal> {
    let mut counts: BTreeMap<Reason, f64> = BTreeMap::new();
    let (pass, job) = (pass(p), one_of(p, class.spec));
    for (number, kind) in p.fleet.kinds.iter().enumerate().filter(|(_, kind)| kind.own) {
        for reason in against_kind(p, (&pass, &job), class, number, now) {
            *counts.entry(reason).or_default() += kind.members.len() as f64;
        }
    }
    let needed = f64::from(class.spec.nodes.min);
    counts.into_iter().map(|(reason, nodes)| Refusal::new(reason, needed, nodes)).collect()
}

/// All that filters say against a kind.
fn against_kind(
    p: &Problem<'_>,
    (pass, job): (&Pass<'_>, &Job),
    class: &Class<'_>,
    number: usize,
    now: i64,
) -> Vec<Reason> {
    let kind = &p.fleet.kinds[number];
    let degraded = kind.node.state == NodeState::Degraded;
    let mut against = Vec::new();
    if degraded && !class.spec.allow_degraded {
        against.push(Reason::Quarantine);
    } else if !degraded && kind.node.state != NodeState::Ready {
        against.push(Reason::NodeState);
    }
    if !in_block(kind, now, now.saturating_add(class.span)) {
        against.push(Reason::BlockEnd);
    }
    against.extend(p.policy.misfits(pass, job, &kind.node, &[About::Make, About::Registration]));
    if p.policy.looks_at() == About::Moment
        && let Some(node) = node_of(p, number)
    {
        against.extend(p.policy.misfits(pass, job, node, &[About::Moment]));
    }
    against
}

/// What stands first against the own nodes of each kind, if anything does.
pub(super) fn first_against(p: &Problem<'_>, class: &Class<'_>, now: i64) -> Vec<(usize, Option<Reason>)> {
    let (pass, job) = (pass(p), one_of(p, class.spec));
    let own = p.fleet.kinds.iter().enumerate().filter(|(_, kind)| kind.own);
    own.map(|(number, _)| (number, against_kind(p, (&pass, &job), class, number, now).first().copied()))
        .collect()
}

/// Whether nodes of a kind are there throughout an interval.
pub(super) fn in_block(kind: &super::fleet::Kind, from: i64, to: i64) -> bool {
    kind.from.is_none_or(|start| start.as_millis() <= from)
        && kind.until.is_none_or(|end| to <= end.as_millis())
        && kind.node.block.as_ref().is_none_or(|b| b.status == landfall_model::BlockStatus::Active)
}
