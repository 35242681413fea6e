//! The contract of a term: a rule that gives points, with a class, a range and a description.

use serde::Serialize;

use crate::params::{ParamError, ParamInfo, Params};
use crate::verdict::Facts;
use crate::view::View;

/// What a term may do to a total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Adds points, never takes any.
    Soft,
    /// Takes points or vetoes.
    Disqualifier,
    /// Both.
    Mixed,
    /// Multiplies the sum of all others.
    Multiplier,
}

/// The family a term comes from; terms of one family are meant to be summed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// How well a node would run a job, 0 to 100.
    Fit,
    /// How well nodes are filled.
    BinPack,
    /// Which job a worker should pull.
    Pull,
    /// Which job of a queue comes first.
    Batch,
    /// Which peer's offer is best.
    Offer,
    /// Packing policies of published benchmarks.
    Packing,
}

/// What besides the job's class and the node's state a term looks at. Indexes use this to know when a score can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Reads {
    /// The clock: the value may rise (never fall) as time passes, though nothing else changes.
    pub clock: bool,
    /// How long the job has been ready: the value may rise (never fall) as it waits.
    pub ready_wait: bool,
    /// How long the job has been queued: the value may rise (never fall) as it waits.
    pub queue_wait: bool,
    /// What the node reported for this job, and how many rounds the job has been pending.
    pub report: bool,
    /// Who the job is: a draw from its digest.
    pub identity: bool,
    /// How many GPUs of each model the nodes have: what they are made of, not what runs there.
    pub supply: bool,
    /// Other nodes or jobs.
    pub fleet: bool,
    /// The job's history (lazy).
    pub history: bool,
    /// The total size of its inputs (lazy).
    pub inputs_total_bytes: bool,
    /// Its tenant's share of the running work (lazy).
    pub tenant_work_share: bool,
}

impl Reads {
    /// Only the job's class and the node's state.
    pub const PAIR: Self = Self {
        clock: false,
        ready_wait: false,
        queue_wait: false,
        report: false,
        identity: false,
        supply: false,
        fleet: false,
        history: false,
        inputs_total_bytes: false,
        tenant_work_share: false,
    };

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            clock: self.clock || other.clock,
            ready_wait: self.ready_wait || other.ready_wait,
            queue_wait: self.queue_wait || other.queue_wait,
            report: self.report || other.report,
            identity: self.identity || other.identity,
            supply: self.supply || other.supply,
            fleet: self.fleet || other.fleet,
            history: self.history || other.history,
            inputs_total_bytes: self.inputs_total_bytes || other.inputs_total_bytes,
            tenant_work_share: self.tenant_work_share || other.tenant_work_share,
        }
    }
}

/// A rule that gives points.
pub trait Term: Send + Sync {
    /// The points for a pair: finite, within the range of [`TermInfo`].
    fn score(&self, view: &View<'_>) -> f64;

    /// Whether the pair must not be chosen, whatever its total.
    fn veto(&self, _view: &View<'_>) -> bool {
        false
    }

    /// What the points rest on, for people.
    fn explain(&self, _view: &View<'_>, _facts: &mut Facts) {}
}

impl<F: Fn(&View<'_>) -> f64 + Send + Sync> Term for F {
    fn score(&self, view: &View<'_>) -> f64 {
        self(view)
    }
}

/// What the catalogue says about a term.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TermInfo {
    /// Its name: public and persisted, never changed.
    pub name: &'static str,
    /// The family it belongs to.
    pub family: Family,
    /// What it may do to a total.
    pub class: Class,
    /// Smallest and largest value with default parameters; `None` is unbounded.
    pub range: (f64, Option<f64>),
    /// The unit of the value.
    pub unit: &'static str,
    /// One sentence for people.
    pub description: &'static str,
    pub params: &'static [ParamInfo],
    /// What it looks at.
    pub reads: Reads,
    #[serde(skip)]
    pub build: fn(&Params<'_>) -> Result<Box<dyn Term>, ParamError>,
}

impl TermInfo {
    /// What most terms of a family have in common: they are soft and look only at the pair. Each says the rest.
    pub(crate) const fn of(
        family: Family,
        build: fn(&Params<'_>) -> Result<Box<dyn Term>, ParamError>,
    ) -> Self {
        Self {
            name: "",
            family,
            class: Class::Soft,
            range: (0.0, None),
            unit: "",
            description: "",
            params: &[],
            reads: Reads::PAIR,
            build,
        }
    }
}
