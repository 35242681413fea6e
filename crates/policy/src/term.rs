//! The contract of a term: a rule that gives points, with a class, a range and a description.

use serde::Serialize;

use crate::params::{ParamError, ParamInfo, Params};
use crate::verdict::Facts;
use crate::view::View;

/// What a term may do to a total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TermKind {
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

macro_rules! reads {
    ($($(#[$what:meta])* $field:ident,)*) => {
        /// What besides the job's class and the node's state a term looks at. Indexes use this to know when a score can
        /// be kept.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        pub struct Reads { $($(#[$what])* pub $field: bool,)* }

        impl Reads {
            /// Only the job's class and the node's state.
            pub const PAIR: Self = Self { $($field: false,)* };

            #[must_use]
            pub fn and(self, other: Self) -> Self {
                Self { $($field: self.$field || other.$field,)* }
            }
        }
    };
}

reads! {
    /// The clock: the value may rise (never fall) as time passes, though nothing else changes.
    clock,
    /// How long the job has been ready: the value may rise (never fall) as it waits.
    ready_wait,
    /// How long the job has been queued: the value may rise (never fall) as it waits.
    queue_wait,
    /// What the node reported for this job, and how many rounds the job has been pending.
    report,
    /// Who the job is: a draw from its digest.
    identity,
    /// What each job that runs on the node holds, not only how many they are and what they hold together.
    placements,
    /// How many GPUs of each model the nodes have: what they are made of, not what runs there.
    supply,
    /// Other nodes or jobs.
    fleet,
    /// The job's history (lazy).
    history,
    /// The total size of its inputs (lazy).
    inputs_total_bytes,
    /// Its tenant's share of the running work (lazy).
    tenant_work_share,
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
    pub class: TermKind,
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
            class: TermKind::Soft,
            range: (0.0, None),
            unit: "",
            description: "",
            params: &[],
            reads: Reads::PAIR,
            build,
        }
    }
}
