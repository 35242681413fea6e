//! A pool that is quickly put together, and asked for a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_engine::preempt::{Preempted, checkpoint_minutes};
use landfall_engine::solver::{
    Cycles, Estimates, Fleet, Hold, Lender, Occupant, Plan, Problem, Reservation, Share, Slot, Start, Step,
    TenantRoom, Wait, Waiting, solve,
};
use landfall_model::{
    BatchSettings, Caps, JobId, JobSpec, Lifecycle, LoanSettings, Mib, MilliCpu, Millis, Name, Node,
    NodeCount, NodeId, PoolId, Time, World,
};
use landfall_policy::spec::FilterUse;
use landfall_policy::{Policy, builtin};

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn job_id(text: &str) -> JobId {
    JobId::new(text).unwrap()
}

pub(crate) fn pool_id(text: &str) -> PoolId {
    PoolId::new(text).unwrap()
}

/// A node of pool `p` called after its group, with configuration P.
pub(crate) fn node(id: &str) -> Node {
    let mut node = Node::new(NodeId::new(id).unwrap(), MilliCpu::cores(8), Mib::gib(8));
    node.pool = Some(pool_id("p"));
    node.group = Some(name(&id[..1]));
    node.fingerprint = Some(name("P"));
    node
}

/// Groups a, b, ... with so many nodes each.
pub(crate) fn groups(sizes: &[usize]) -> Vec<Node> {
    let sized = sizes.iter().zip('a'..);
    sized.flat_map(|(&size, group)| (1..=size).map(move |at| node(&format!("{group}{at}")))).collect()
}

/// A job of so many nodes and hours; 0 hours means without end.
pub(crate) fn spec(nodes: u32, hours: u64) -> JobSpec {
    let lifecycle = if hours == 0 { Lifecycle::Unbounded } else { Lifecycle::Bounded };
    JobSpec {
        nodes: NodeCount { min: nodes, max: nodes },
        walltime_ms: Millis::secs(3600 * hours.max(1)),
        lifecycle,
        ..JobSpec::empty()
    }
}

/// A built-in policy with some filters more.
pub(crate) fn policy(name: &str, filters: &[&str]) -> &'static Policy {
    let mut spec = builtin::spec(name).unwrap().unwrap();
    let filter = |name: &&str| FilterUse { name: (*name).to_owned(), params: BTreeMap::new() };
    spec.filters.extend(filters.iter().map(filter));
    Box::leak(Box::new(Policy::compile(spec).unwrap()))
}

/// The usual policy, read once: thousands of pools ask for it.
pub(crate) fn balanced() -> &'static Policy {
    static BALANCED: std::sync::OnceLock<&'static Policy> = std::sync::OnceLock::new();
    BALANCED.get_or_init(|| policy("balanced", &[]))
}

/// A job that runs.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) job: JobId,
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) nodes: Vec<String>,
    pub(crate) shares: Vec<Share>,
    pub(crate) started: Time,
    pub(crate) ends_at: Option<Time>,
    pub(crate) expected_end: Option<Time>,
    pub(crate) borrower: bool,
}

/// Everything a plan is made from.
pub(crate) struct Setting {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) settings: BatchSettings,
    pub(crate) loans: LoanSettings,
    pub(crate) policy: &'static Policy,
    pub(crate) world: World,
    pub(crate) running: Vec<Run>,
    pub(crate) holds: Vec<(JobId, Vec<String>, Option<Time>)>,
    /// Lender, its idle nodes, how many it lends.
    pub(crate) lenders: Vec<(PoolId, Vec<String>, u32)>,
    pub(crate) waiting: Vec<(JobId, Arc<JobSpec>)>,
    /// How long waiting jobs are expected to run, where that is known.
    pub(crate) expected: BTreeMap<JobId, Millis>,
    pub(crate) reservations: Vec<Reservation>,
    pub(crate) tenants: Vec<TenantRoom>,
    pub(crate) caps: Caps,
    pub(crate) cycles: Option<Cycles>,
    pub(crate) estimates: Estimates,
    pub(crate) spread: Option<(f64, f64)>,
    pub(crate) ignore_reservations: bool,
}

impl Setting {
    pub(crate) fn new(nodes: Vec<Node>) -> Self {
        Self {
            now: Time::ZERO,
            nodes,
            settings: BatchSettings { preemption: false, ..BatchSettings::default() },
            loans: LoanSettings::default(),
            policy: balanced(),
            world: World::default(),
            running: Vec::new(),
            holds: Vec::new(),
            lenders: Vec::new(),
            waiting: Vec::new(),
            expected: BTreeMap::new(),
            reservations: Vec::new(),
            tenants: Vec::new(),
            caps: Caps::default(),
            cycles: None,
            estimates: Estimates::All,
            spread: None,
            ignore_reservations: false,
        }
    }

    pub(crate) fn wait(&mut self, id: &str, spec: JobSpec) -> &mut Self {
        self.waiting.push((job_id(id), Arc::new(spec)));
        self
    }

    /// A job runs on nodes until some seconds from the epoch.
    pub(crate) fn run(&mut self, id: &str, spec: JobSpec, nodes: &[&str], ends_at: Option<i64>) -> &mut Self {
        self.running.push(Run {
            job: job_id(id),
            spec: Arc::new(spec),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            shares: Vec::new(),
            started: Time::from_secs(-7200),
            ends_at: ends_at.map(Time::from_secs),
            expected_end: None,
            borrower: false,
        });
        self
    }

    pub(crate) fn plan(&self) -> Plan {
        let pool = pool_id("p");
        let fleet = Fleet::new(Some(&pool), self.policy.looks_at(), &self.nodes);
        let slot = |id: &String| fleet.slot(&NodeId::new(id).unwrap()).unwrap();
        let slots = |ids: &Vec<String>| -> Vec<Slot> { ids.iter().map(slot).collect() };
        let runs: Vec<Vec<Slot>> = self.running.iter().map(|run| slots(&run.nodes)).collect();
        let held: Vec<Vec<Slot>> = self.holds.iter().map(|hold| slots(&hold.1)).collect();
        let idle: Vec<Vec<Slot>> = self.lenders.iter().map(|lender| slots(&lender.1)).collect();
        let never = Preempted::default();
        let mut problem =
            Problem::new(self.now, &self.settings, &self.loans, self.policy, &self.world, &fleet);
        problem.nodes = self.nodes.iter().collect();
        problem.nodes.sort_by(|a, b| a.id.cmp(&b.id));
        problem.occupants = self
            .running
            .iter()
            .zip(&runs)
            .map(|(run, nodes)| Occupant {
                job: &run.job,
                spec: &run.spec,
                nodes,
                shares: &run.shares,
                started: run.started,
                ends_at: run.ends_at,
                expected_end: run.expected_end,
                running: true,
                borrower: run.borrower,
                checkpoint_minutes: checkpoint_minutes(
                    run.spec.checkpoint,
                    run.spec.checkpoint_minutes,
                    None,
                ),
                over_share: false,
                preempted: &never,
            })
            .collect();
        problem.holds = (self.holds.iter().zip(&held))
            .map(|((job, _, until), nodes)| Hold { job, nodes, until: *until, ready_at: None })
            .collect();
        problem.lenders = (self.lenders.iter().zip(&idle))
            .map(|((pool, _, lends), idle)| Lender { pool, idle, lends: *lends })
            .collect();
        let expected = |job: &JobId| self.expected.get(job).copied();
        problem.waiting = (self.waiting.iter())
            .map(|(job, spec)| Waiting {
                expected: expected(job),
                ..Waiting::new(job, spec, 0.0, Time::ZERO)
            })
            .collect();
        problem.reservations = &self.reservations;
        problem.tenants = self.tenants.clone();
        problem.caps = self.caps;
        problem.cycles = self.cycles;
        problem.estimates = self.estimates;
        problem.spread = self.spread;
        #[cfg(feature = "mutations")]
        if self.ignore_reservations {
            problem.mutation = Some(landfall_engine::solver::Mutation::BackfillIgnoresReservation);
        }
        assert!(cfg!(feature = "mutations") || !self.ignore_reservations);
        solve(&problem)
    }
}

pub(crate) fn starts(plan: &Plan) -> Vec<&Start> {
    let mut found = Vec::new();
    for step in &plan.steps {
        if let Step::Start(start) = step {
            found.push(start);
        }
    }
    found
}

/// The nodes that a job starts on, as one line.
pub(crate) fn nodes_of(plan: &Plan, job: &str) -> String {
    let start = starts(plan).into_iter().find(|start| start.job.as_str() == job);
    start.map_or_else(String::new, |s| s.nodes.iter().map(NodeId::as_str).collect::<Vec<_>>().join(" "))
}

pub(crate) fn wait_of<'p>(plan: &'p Plan, job: &str) -> &'p Wait {
    plan.waiting.iter().find(|wait| wait.job.as_str() == job).unwrap()
}

/// When a waiting job is planned, in seconds.
pub(crate) fn planned(plan: &Plan, job: &str) -> Option<i64> {
    wait_of(plan, job).planned_start.map(|at| at.as_millis() / 1000)
}

pub(crate) fn reserved(plan: &Plan, job: &str) -> Option<i64> {
    let found = plan.reservations.iter().find(|reservation| reservation.job.as_str() == job)?;
    Some(found.start.as_millis() / 1000)
}
