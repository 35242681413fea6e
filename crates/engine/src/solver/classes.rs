//! Classes of jobs: what all jobs with one spec and one duration have in common, found once per solve.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{JobSpec, NodeState};
use landfall_policy::rules::locality::{self, Picture, locality};
use landfall_policy::rules::suits::misfits;

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
}

/// What jobs of one class have in common.
pub(super) struct Class<'a> {
    pub(super) spec: &'a Arc<JobSpec>,
    /// How long they run.
    pub(super) span: i64,
    pub(super) wish: Wish,
    /// Own kinds they can use.
    pub(super) own: Vec<Seen>,
    /// Kinds of other pools they could borrow.
    pub(super) lent: Vec<Seen>,
    /// The smallest part of a node that one of them uses.
    pub(super) unit: f64,
    /// What was found when one of them could not be placed, while nothing was given back since.
    pub(super) blocked: Option<(u64, Arc<Vec<Refusal>>)>,
    /// No slot is earlier, while nothing was given back since.
    pub(super) floor: Option<(u64, i64)>,
}

/// A span in milliseconds.
pub(super) fn span(duration: Option<landfall_model::Millis>) -> i64 {
    duration.map_or(FOREVER, |d| i64::try_from(d.get()).unwrap_or(FOREVER).max(1))
}

/// The class of every waiting job.
pub(super) fn classes<'a>(p: &Problem<'a>) -> (Vec<Class<'a>>, Vec<usize>) {
    let mut known: BTreeMap<(usize, i64, Option<u64>), usize> = BTreeMap::new();
    let mut classes: Vec<Class<'a>> = Vec::new();
    let of = p.waiting.iter().map(|waiting| {
        // Jobs that share one spec share its place in memory; whether two places hold equal specs does not matter.
        let place = Arc::as_ptr(waiting.spec) as usize;
        let key = (place, span(waiting.duration), waiting.checkpoint_minutes.map(f64::to_bits));
        *known.entry(key).or_insert_with(|| {
            classes.push(Class::new(p, waiting));
            classes.len() - 1
        })
    });
    let of = of.collect();
    (classes, of)
}

impl<'a> Class<'a> {
    fn new(p: &Problem<'a>, waiting: &Waiting<'a>) -> Self {
        let spec = waiting.spec;
        let (mut own, mut lent) = (Vec::new(), Vec::new());
        for (number, kind) in p.fleet.kinds.iter().enumerate() {
            let state = kind.node.state == NodeState::Ready || spec.allow_degraded;
            if !kind.in_service() || !state || !misfits(spec, &kind.node, p.world).is_empty() {
                continue;
            }
            let power = kind.extra_power(spec.power_w);
            let seen = Seen {
                kind: number,
                locality: locality(spec, &kind.node, Picture::Idle).unwrap_or(locality::UNKNOWN),
                power: power.unwrap_or(0),
                power_unknown: power.is_none(),
            };
            if kind.own { own.push(seen) } else { lent.push(seen) }
        }
        let max_span = [spec.max_span, p.settings.max_span].into_iter().flatten().min();
        let unit = if spec.exclusive {
            1.0
        } else {
            let parts = own.iter().map(|seen| open::units(spec, &p.fleet.kinds[seen.kind].node));
            parts.reduce(f64::min).unwrap_or(0.0)
        };
        Self {
            spec,
            span: span(waiting.duration),
            wish: Wish {
                hint: spec.hint.unwrap_or(p.settings.hint),
                least: spec.nodes.min,
                max_span,
                sensitive: spec.sensitive,
                checkpoint: waiting.checkpoint_minutes.map_or(0.0, |minutes| 1.0 / (1.0 + minutes)),
                io: super::overlay::clamp(spec.io_bytes_s.get()),
            },
            own,
            lent,
            unit,
            blocked: None,
            floor: None,
        }
    }

    /// The same class with another duration, and nothing found out yet.
    pub(super) fn lasting(&self, span: i64) -> Self {
        Self {
            spec: self.spec,
            span,
            wish: self.wish,
            own: self.own.clone(),
            lent: self.lent.clone(),
            unit: self.unit,
            blocked: None,
            floor: None,
        }
    }

    /// GPU-hours that so many nodes count.
    pub(super) fn gpu_hours(&self, nodes: u32) -> f64 {
        let ms = if self.span == FOREVER { 86_400_000.0 } else { self.span as f64 };
        f64::from(self.spec.gpu_count) * f64::from(nodes) * ms / 3_600_000.0
    }

    /// Whether its jobs may run on nodes of other pools.
    pub(super) fn may_borrow(&self) -> bool {
        let spec = self.spec;
        let cannot_move = spec.checkpoint == landfall_model::Checkpoint::None && spec.class >= 7;
        !(spec.sensitive || spec.class >= 10 || !spec.preemptible || spec.immediate || cannot_move)
    }
}

/// How many own nodes each filter refuses.
pub(super) fn refused_nodes(p: &Problem<'_>, class: &Class<'_>, now: i64) -> Vec<Refusal> {
    let mut counts: BTreeMap<Reason, f64> = BTreeMap::new();
    for kind in p.fleet.kinds.iter().filter(|kind| kind.own) {
        let nodes = kind.members.len() as f64;
        let mut refuse = |reason: Reason| *counts.entry(reason).or_default() += nodes;
        let degraded = kind.node.state == NodeState::Degraded;
        if degraded && !class.spec.allow_degraded {
            refuse(Reason::Quarantine);
        } else if !degraded && kind.node.state != NodeState::Ready {
            refuse(Reason::NodeState);
        }
        if !in_block(kind, now, now.saturating_add(class.span)) {
            refuse(Reason::BlockEnd);
        }
        for reason in misfits(class.spec, &kind.node, p.world).into_iter().filter_map(Reason::named) {
            refuse(reason);
        }
    }
    let needed = f64::from(class.spec.nodes.min);
    counts.into_iter().map(|(reason, nodes)| Refusal::new(reason, needed, nodes)).collect()
}

/// Whether nodes of a kind are there throughout an interval.
pub(super) fn in_block(kind: &super::fleet::Kind, from: i64, to: i64) -> bool {
    kind.from.is_none_or(|start| start.as_millis() <= from)
        && kind.until.is_none_or(|end| to <= end.as_millis())
        && kind.node.block.as_ref().is_none_or(|b| b.status == landfall_model::BlockStatus::Active)
}
