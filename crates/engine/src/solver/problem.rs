//! Everything the solver looks at, as plain data. The engine makes one for every cycle of a pool.

use std::cell::RefCell;
use std::sync::Arc;

use landfall_model::{
    BatchSettings, Caps, DeviceShare, JobId, JobSpec, Learn, LoanSettings, Mib, MilliCpu, Millis, Money,
    Node, PoolId, TenantId, Time, World,
};
use landfall_policy::Policy;

use super::bits::Bits;
use super::classes::Suited;
use super::fleet::{Fleet, Slot};
use super::ground::Ground;
use super::plan::Reservation;
use super::reason::Reason;
use crate::preempt::Preempted;
use landfall_model::life::Breakdown;
use landfall_model::verdict::Facts;

/// How a span becomes points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TopologyFormula {
    /// 1 − span / groups.
    #[default]
    Published,
    /// 1 for one group, 0 for all.
    Normalised,
}

/// What a policy says about sets of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SetWeights {
    /// Weight of few groups and close nodes (w4).
    pub topology: f64,
    /// Weight of equal configurations (w9).
    pub conformance: f64,
    /// How a span becomes points.
    pub formula: TopologyFormula,
}

impl SetWeights {
    /// The weights that a policy gives to its terms `topology` and `conformance`; 0 for a term it does not have.
    pub fn of(policy: &Policy) -> Self {
        let weight = |name| policy.term_weights().find(|(info, _)| info.name == name).map_or(0.0, |(_, w)| w);
        let spec = policy.spec();
        let own = spec.terms.iter().find(|term| term.name == "topology").map(|term| &term.params);
        let word = own.into_iter().chain([&spec.params]).find_map(|params| params.get("topology_formula"));
        let normalised = word.and_then(|word| word.as_str()) == Some("normalised");
        Self {
            topology: weight("topology"),
            conformance: weight("conformance"),
            formula: if normalised { TopologyFormula::Normalised } else { TopologyFormula::Published },
        }
    }
}

/// What a job holds of one node that it shares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    pub cpu: MilliCpu,
    pub ram: Mib,
    pub devices: Vec<DeviceShare>,
}

/// A job that holds nodes: of this pool, or of another pool on nodes that this one lent.
#[derive(Debug, Clone)]
pub struct Occupant<'a> {
    pub job: &'a JobId,
    pub spec: &'a JobSpec,
    pub nodes: &'a [Slot],
    /// What it holds of each, in the order of `nodes`; empty if it has them to itself.
    pub shares: &'a [Share],
    pub started: Time,
    /// When its walltime is over; `None` for work without end.
    pub ends_at: Option<Time>,
    /// When jobs like it would be over, if that is known; looked at where the pool plans with it.
    pub expected_end: Option<Time>,
    /// Whether it is Running, and so may be stopped for others.
    pub running: bool,
    /// Whether it is a job of another pool, on nodes that this pool lent.
    pub borrower: bool,
    /// Minutes one of its checkpoints takes; `None` if it cannot save.
    pub checkpoint_minutes: Option<f64>,
    /// Whether its tenant may burst and is above its share.
    pub over_share: bool,
    pub preempted: &'a Preempted,
}

/// Nodes kept for a job.
#[derive(Debug, Clone)]
pub struct Hold<'a> {
    pub job: &'a JobId,
    /// The nodes, whether or not others are still on them.
    pub nodes: &'a [Slot],
    pub until: Option<Time>,
    /// When the job is expected to start on them, if known.
    pub ready_at: Option<Time>,
}

/// Nodes that another pool would lend now.
#[derive(Debug, Clone)]
pub struct Lender<'a> {
    pub pool: &'a PoolId,
    /// Its idle nodes: free, not held, in no reservation of its own.
    pub idle: &'a [Slot],
    pub lends: u32,
}

/// A job that must end before another is eligible.
#[derive(Debug, Clone)]
pub struct Behind<'a> {
    /// The jobs waited for.
    pub jobs: Vec<&'a JobId>,
    /// Whether one of them is enough.
    pub any: bool,
}

#[derive(Debug, Clone)]
pub struct Waiting<'a> {
    pub job: &'a JobId,
    /// What it asks for. Jobs that share one spec are looked at once where they can be.
    pub spec: &'a Arc<JobSpec>,
    pub score: f64,
    /// When it became eligible.
    pub queued_at: Time,
    /// How long it may run, the rest of its walltime after a resume; `None` means without end.
    pub duration: Option<Millis>,
    /// How long jobs like it run, where the pool learns that.
    pub expected: Option<Millis>,
    /// Minutes one of its checkpoints takes; `None` if it cannot save.
    pub checkpoint_minutes: Option<f64>,
    /// A reason found by the engine for which it cannot be placed in this cycle: `dependency`, `user_hold`,
    /// `not_before`, `staging`.
    pub gate: Option<Reason>,
    pub gate_until: Option<Time>,
    /// What must end before it is eligible.
    pub behind: Option<Behind<'a>>,
    /// Why the ledger refused its last proposal.
    pub rejected: Option<Reason>,
    /// Locks that it shares with single other jobs.
    pub edge_locks: Vec<landfall_model::Name>,
    /// What people are told about its inputs if it starts.
    pub flag: Option<&'static str>,
}

impl<'a> Waiting<'a> {
    /// An eligible job that has not run yet.
    pub fn new(job: &'a JobId, spec: &'a Arc<JobSpec>, score: f64, queued_at: Time) -> Self {
        let bounded = spec.lifecycle == landfall_model::Lifecycle::Bounded;
        Self {
            job,
            spec,
            score,
            queued_at,
            duration: bounded.then_some(spec.walltime_ms),
            expected: None,
            checkpoint_minutes: crate::preempt::checkpoint_minutes(
                spec.checkpoint,
                spec.checkpoint_minutes,
                None,
            ),
            gate: None,
            gate_until: None,
            behind: None,
            rejected: None,
            edge_locks: Vec::new(),
            flag: None,
        }
    }
}

/// What a tenant may still take, and how long its jobs really run.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantRoom {
    /// The tenant; `None` for jobs without one.
    pub tenant: Option<TenantId>,
    pub node_units: f64,
    pub gpus: Option<u64>,
    pub cpu_milli: Option<u64>,
    pub gpu_hours: Option<f64>,
    /// What its jobs may still cost, if that is limited.
    pub money: Option<Money>,
    /// Median of actual over requested time of its last jobs.
    pub likely_factor: f64,
}

impl TenantRoom {
    /// A tenant without limits whose jobs run as long as they may.
    pub fn unlimited(tenant: Option<TenantId>) -> Self {
        Self {
            tenant,
            node_units: f64::INFINITY,
            gpus: None,
            cpu_milli: None,
            gpu_hours: None,
            money: None,
            likely_factor: 1.0,
        }
    }
}

/// The beat of a pool's cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycles {
    pub next: Time,
    pub every: Millis,
}

/// What speaks for a waiting job: asked when it starts, so that what decided is what is told.
pub type Why<'a> = &'a dyn Fn(&JobId) -> Breakdown;

/// What the points of a job rest on.
pub type Rest<'a> = &'a dyn Fn(&JobId) -> Facts;

/// Where a job stands in the order of its pool: earlier is smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn<'a> {
    /// Its score turned round, or 0 where the queue time decides.
    pub rank: i64,
    pub queued_at: Time,
    pub job: &'a JobId,
}

/// Waiting jobs sorted into classes. Jobs of one class differ in nothing but id and queue time, and their order among
/// themselves is that of their queue times, whatever the clock says: so the next job of all is the first of some class.
pub trait Classes<'a> {
    fn count(&self) -> usize;

    /// How many jobs of a class wait.
    fn len(&self, class: usize) -> usize;

    /// What the jobs of a class ask for.
    fn spec(&self, class: usize) -> &'a Arc<JobSpec>;

    /// How long they may run, or are expected to run where the pool learns that; `None` means without end.
    fn duration(&self, class: usize) -> Option<Millis>;

    /// What keeps all jobs of a class from being placed.
    fn gate(&self, class: usize) -> Option<Reason>;

    /// Where the job at a place of its class stands among all.
    fn turn(&self, class: usize, place: usize) -> Turn<'a>;

    fn job(&self, class: usize, place: usize) -> Waiting<'a>;

    /// Class and place of a job.
    fn find(&self, job: &JobId) -> Option<(usize, usize)>;
}

/// Which planned times are worked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Estimates {
    /// Every waiting job gets one.
    #[default]
    All,
    /// None; for callers that do not show them.
    Skip,
}

/// A question to the solver.
#[derive(Clone)]
pub struct Problem<'a> {
    pub now: Time,
    pub settings: &'a BatchSettings,
    pub loans: &'a LoanSettings,
    /// Its policy, whose filters say which jobs and nodes go together.
    pub policy: &'a Policy,
    /// What its policy says about sets of nodes.
    pub weights: SetWeights,
    /// Pools with their baselines, and whatever else filters look at.
    pub world: &'a World,
    /// Its nodes, and those of pools that may lend.
    pub fleet: &'a Fleet,
    /// The nodes of the fleet as they are now, in its order. Only needed where filters look at the moment.
    pub nodes: Vec<&'a Node>,
    /// What is known from earlier cycles about who can use which kinds.
    pub suited: Suited,
    /// What occupants left free in the last cycle.
    pub ground: RefCell<Ground>,
    pub occupants: Vec<Occupant<'a>>,
    pub holds: Vec<Hold<'a>>,
    /// Who would lend, in the order of pool ids.
    pub lenders: Vec<Lender<'a>>,
    /// Reservations that stand from the last cycle.
    pub reservations: &'a [Reservation],
    /// Waiting jobs in job order. Each is looked at and told why it waits.
    pub waiting: Vec<Waiting<'a>>,
    /// The same jobs in classes, instead of `waiting`: who starts, who is stopped and what is reserved comes out the same,
    /// at a cost that follows the number of classes; nobody is told why he waits but the one asked about.
    pub classes: Option<&'a dyn Classes<'a>>,
    /// A job that somebody asks about.
    pub asked: Option<&'a JobId>,
    /// What each tenant may still take; a tenant that is not listed has no limits.
    pub tenants: Vec<TenantRoom>,
    pub locks: Vec<(Option<TenantId>, landfall_model::Name)>,
    /// What is left under the caps of pool and cluster, whichever is less.
    pub caps: Caps,
    /// How many more jobs may be stopped for others in this hour.
    pub preemptions_left: u32,
    /// When cycles come: a job whose time falls between two starts with the later one, and so ends later. `None` if jobs
    /// start at any instant.
    pub cycles: Option<Cycles>,
    /// Whether somebody was told to stop at the end of its time and has not left.
    pub overruns: bool,
    /// Whether nodes came back before they were expected, so that who was promised a time may have an earlier one.
    pub freed_early: bool,
    /// What speaks for a job that starts.
    pub why: Option<Why<'a>>,
    /// What its points rest on, if somebody keeps what a cycle looked at.
    pub rest: Option<Rest<'a>>,
    /// Which planned times are worked out.
    pub estimates: Estimates,
    /// Between which parts of what was expected eight of ten jobs ran, if that is known.
    pub spread: Option<(f64, f64)>,
    /// A fault planted to see whether tests notice it.
    #[cfg(feature = "mutations")]
    pub mutation: Option<Mutation>,
}

/// Faults that can be planted.
#[cfg(feature = "mutations")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// The walk treats reservations as not binding.
    BackfillIgnoresReservation,
}

impl<'a> Problem<'a> {
    /// A pool in which nothing runs and nothing waits.
    pub fn new(
        now: Time,
        settings: &'a BatchSettings,
        loans: &'a LoanSettings,
        policy: &'a Policy,
        world: &'a World,
        fleet: &'a Fleet,
    ) -> Self {
        Self {
            now,
            settings,
            loans,
            policy,
            weights: SetWeights::of(policy),
            world,
            fleet,
            nodes: Vec::new(),
            suited: Suited::default(),
            ground: RefCell::default(),
            occupants: Vec::new(),
            holds: Vec::new(),
            lenders: Vec::new(),
            reservations: &[],
            waiting: Vec::new(),
            classes: None,
            asked: None,
            tenants: Vec::new(),
            locks: Vec::new(),
            caps: Caps::default(),
            preemptions_left: crate::preempt::PREEMPTIONS_PER_HOUR,
            cycles: None,
            overruns: false,
            freed_early: false,
            why: None,
            rest: None,
            estimates: Estimates::All,
            spread: None,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    /// When an occupant's time is over: as jobs like it would be where the pool plans so, its walltime once it outlives that.
    pub(super) fn end_of(&self, occupant: &Occupant<'_>) -> Option<i64> {
        let expected =
            occupant.expected_end.filter(|end| self.settings.learn == Learn::Times && *end > self.now);
        [expected, occupant.ends_at].into_iter().flatten().min().map(Time::as_millis)
    }

    /// Whether a node is one of the pool's own.
    pub(super) fn is_own(&self, slot: Slot) -> bool {
        self.fleet.place(slot).is_some_and(|(kind, _)| self.fleet.kinds[kind].own)
    }

    /// The slots that are kept for somebody.
    pub(super) fn held(&self) -> Bits {
        let mut held = Bits::empty(self.fleet.len());
        self.holds.iter().flat_map(|hold| hold.nodes).for_each(|&slot| {
            held.set(slot as usize, true);
        });
        held
    }

    /// How long nodes are kept for a job that has work stopped for it.
    pub(super) fn kept_for(&self) -> Millis {
        crate::preempt::kept_for(self.settings.cycle_ms)
    }

    /// Whether reservations bind the jobs that come after.
    pub(super) fn reservations_bind(&self) -> bool {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::BackfillIgnoresReservation) {
            return false;
        }
        true
    }
}
