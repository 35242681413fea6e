//! A trace on a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_engine::answers::{as_text, dispatch_of};
use landfall_engine::input::Submission as EngineSubmission;
use landfall_engine::{Engine, Input, State};
use landfall_model::{
    Dispatch, Job, JobId, JobSpec, Mib, MilliCpu, Millis, Node, NodeCount, NodeId, Pool, PoolId, Situation,
    TenantId, Time, World,
};
use landfall_policy::spec::PolicySpec;

use super::{Chosen, PolicyKind, Progress, ReplayError};
use crate::cluster::{Arrival, Change, Workload, simulate};
use crate::decisions::Decisions;
use crate::machine::Estimate;
use crate::run::Run;
use crate::trace::batch::BatchJob;
use crate::trace::own::{self, JobOrder, Order, Setting, Submission, Trace};

/// The pool where the cluster names none.
const POOL: &str = "default";

/// When batch pools run their cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cycles {
    /// After every instant at which something happened.
    OnEvents,
    /// On a beat.
    Every(Millis),
    /// As the trace tells; where it does not, on the beat of the pool.
    AsTold,
}

impl Cycles {
    fn set(self, pool: &mut Pool) {
        if pool.dispatch == Dispatch::Batch {
            pool.batch.cycle_on_events = self == Self::OnEvents;
            if let Self::Every(beat) = self {
                pool.batch.cycle_ms = beat;
            }
        }
    }
}

/// A trace and the cluster it runs on: one that is given apart, or the trace's own if it has pools.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The name of the trace, without path.
    pub name: String,
    pub nodes: Vec<Node>,
    /// Who wins between nodes that are otherwise equal.
    pub node_order: Vec<NodeId>,
    /// Pools, tenants, and what else policies read.
    pub world: World,
    pub trace: Trace,
    pub cycles: Cycles,
    /// SHA-256 of the files.
    pub inputs_sha256: BTreeMap<String, String>,
}

impl Cluster {
    /// Nodes in one pool, and jobs for them.
    pub(super) fn of_nodes(
        name: &str,
        nodes: Vec<Node>,
        submissions: Vec<Submission>,
        cycle: Option<Millis>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            nodes,
            node_order: Vec::new(),
            world: World::default(),
            trace: Trace { submissions, ..Trace::default() },
            cycles: cycle.map_or(Cycles::OnEvents, Cycles::Every),
            inputs_sha256: BTreeMap::new(),
        }
    }

    /// Whether it says which pools there are and how they decide.
    pub fn has_pools(&self) -> bool {
        !self.world.pools.is_empty() || self.trace.has_pools()
    }

    pub(super) fn run(
        &self,
        policy: &Chosen,
        decisions: Decisions<'_>,
        progress: Progress<'_>,
    ) -> Result<Run, ReplayError> {
        let spec = match &policy.what {
            PolicyKind::Spec(spec) => Some(&**spec),
            PolicyKind::Own => None,
            PolicyKind::Log(_) => {
                let why = "it is for logs of alike processors; a cluster needs a policy that scores";
                return Err(ReplayError::Policy { policy: policy.name.clone(), why: why.into() });
            }
        };
        let (engine, workload) = match self.trace.has_pools() {
            true => self.as_told(spec, policy)?,
            false => (self.given_apart(spec)?, self.workload()?),
        };
        let run = simulate(engine, workload, decisions, progress)?;
        Ok(Run { trace: self.name.clone(), inputs_sha256: self.inputs_sha256.clone(), ..run })
    }

    /// An engine with the pools and nodes of a cluster that is given apart.
    fn given_apart(&self, spec: Option<&PolicySpec>) -> Result<Engine, ReplayError> {
        let subject = |message: String| ReplayError::Subject(message);
        let mut world = self.world.clone();
        if world.pools.is_empty() {
            let id = PoolId::new(POOL).map_err(|error| subject(error.to_string()))?;
            world
                .pools
                .insert(id.clone(), Pool::new(id, spec.and_then(dispatch_of).unwrap_or(Dispatch::Batch)));
        }
        for pool in world.pools.values_mut() {
            // Nobody is there to report.
            pool.heartbeats = false;
            self.cycles.set(pool);
        }
        let situation = Situation::new(self.first(), self.nodes.clone(), Vec::new(), &self.node_order, world)
            .map_err(|error| subject(error.to_string()))?;
        Engine::from_situation_with(&situation, spec)
            .map_err(|refused| subject(format!("{}; {}", refused.message, refused.hint)))
    }

    /// When the trace begins.
    fn first(&self) -> Time {
        let trace = &self.trace;
        let settings = trace.settings.iter().filter_map(|(at, _)| *at);
        let times = settings
            .chain(trace.joins.iter().map(|(at, _)| *at))
            .chain(trace.submissions.iter().map(|submission| submission.at))
            .chain(trace.changes.iter().map(|change| change.at));
        times.min().unwrap_or(Time::ZERO)
    }

    /// An engine without anything, and a workload that brings pools, tenants and nodes at their instants. A policy that is given
    /// stands before those of the pools, in every pool that dispatches as it is made for.
    fn as_told(&self, spec: Option<&PolicySpec>, policy: &Chosen) -> Result<(Engine, Workload), ReplayError> {
        let first = self.first();
        let state = State { now: first, ..State::default() };
        let text = spec
            .map(as_text)
            .transpose()
            .map_err(|refused| ReplayError::Policy { policy: policy.name.clone(), why: refused.message })?;
        let dispatch = spec.and_then(dispatch_of);
        let mut used = spec.is_none();
        let mut settings = Vec::with_capacity(self.trace.settings.len() + self.trace.nodes.len());
        for (at, setting) in &self.trace.settings {
            let input = match setting {
                Setting::Pool { pool, policy } => {
                    let mut pool = pool.clone();
                    pool.heartbeats = false;
                    self.cycles.set(&mut pool);
                    let suits = dispatch == Some(pool.dispatch);
                    used |= suits;
                    Input::SetPool { pool, policy: text.clone().filter(|_| suits).or_else(|| policy.clone()) }
                }
                Setting::Tenant(tenant) => Input::SetTenant(tenant.clone()),
                Setting::Block(block) => Input::SetBlock(block.clone()),
            };
            settings.push((at.unwrap_or(first), input));
        }
        if !used {
            let why = "no pool of the trace dispatches in the way that it is made for";
            return Err(ReplayError::Policy { policy: policy.name.clone(), why: why.into() });
        }
        let nodes = self.trace.nodes.iter().map(|node| (first, node));
        for (at, node) in nodes.chain(self.trace.joins.iter().map(|(at, node)| (*at, node))) {
            settings.push((at, self.join(node)?));
        }
        let mut workload = self.workload()?;
        workload.settings = settings;
        // Under another policy, or another beat, cycles would not have come when they came.
        if spec.is_none() && self.cycles == Cycles::AsTold {
            workload.cycles = self.trace.cycles.clone();
        }
        Ok((Engine::of(state), workload))
    }

    fn join(&self, node: &Node) -> Result<Input, ReplayError> {
        let pools = self.trace.settings.iter().filter_map(|(_, setting)| match setting {
            Setting::Pool { pool, .. } => Some(&pool.id),
            _ => None,
        });
        let pool = node.pool.as_ref().or_else(|| pools.into_iter().next()).cloned();
        let Some(pool) = pool else {
            return Err(ReplayError::Subject(format!("there is no pool for node `{}`", node.id)));
        };
        Ok(Input::Join { pool, node: Box::new(node.clone()), running: None })
    }

    fn workload(&self) -> Result<Workload, ReplayError> {
        let jobs: BTreeSet<&str> = self.trace.submissions.iter().map(|one| one.job.id.as_str()).collect();
        for submission in &self.trace.submissions {
            // An element of an array is known by its array.
            let known = |on: &JobId| {
                let array = on.as_str().rsplit_once('.').map(|(array, _)| array);
                jobs.contains(on.as_str()) || array.is_some_and(|array| jobs.contains(array))
            };
            if let Some(edge) = submission.after.iter().find(|edge| !known(&edge.on)) {
                let message =
                    format!("job `{}` waits for `{}`, which is not in the trace", submission.job.id, edge.on);
                return Err(ReplayError::Subject(message));
            }
        }
        let arrivals = self.trace.submissions.iter().map(|submission| Arrival {
            runs: submission.runs.clone(),
            array: submission.array.clone(),
            with: submission.with.clone(),
            ..Arrival::new(
                submission.at,
                None,
                EngineSubmission {
                    edges: submission.after.clone(),
                    join: submission.join,
                    user_hold: submission.held,
                    not_before: submission.not_before,
                    ..EngineSubmission::new(submission.job.clone())
                },
            )
        });
        let order = |JobOrder { at, job, to }: &JobOrder| {
            let job = job.clone();
            let input = match to {
                Order::Cancel => Input::Cancel(job),
                Order::Hold => Input::UserHold { job, held: true },
                Order::Release => Input::UserHold { job, held: false },
                Order::Walltime(walltime) => Input::SetWalltime { job, walltime: *walltime },
            };
            (*at, input)
        };
        Ok(Workload {
            arrivals: arrivals.collect(),
            changes: self.changes()?,
            elements: self.trace.elements.clone(),
            orders: self.trace.orders.iter().map(order).collect(),
            ..Workload::default()
        })
    }

    fn changes(&self) -> Result<Vec<(Time, Change)>, ReplayError> {
        let given = self.nodes.iter().map(|node| (&node.id, node));
        let nodes: BTreeMap<&NodeId, &Node> = self.trace.latest_nodes().into_iter().chain(given).collect();
        let change = |change: &own::NodeChange| {
            let Some(node) = nodes.get(&change.node).copied() else {
                let message =
                    format!("the trace changes node `{}`, which is not in the cluster", change.node);
                return Err(ReplayError::Subject(message));
            };
            let to = match &change.to {
                own::Change::Down => Change::Down(node.id.clone()),
                own::Change::Drain | own::Change::Out => Change::Drain(node.id.clone()),
                own::Change::Up => Change::Up(Box::new(node.clone())),
                own::Change::Says(heartbeat) => Change::Says(node.id.clone(), heartbeat.clone()),
            };
            Ok((change.at, to))
        };
        self.trace.changes.iter().map(change).collect()
    }
}

/// A machine as nodes of so many processors each, and the jobs of a log as gangs on them.
pub(super) fn nodes_and_jobs(
    jobs: &[BatchJob],
    procs: u64,
    per_node: u64,
    estimate: Estimate,
) -> Result<(Vec<Node>, Vec<Submission>), ReplayError> {
    let named = |error: landfall_model::IdError| ReplayError::Subject(error.to_string());
    let per_node = per_node.max(1);
    let node = |number: u64| {
        let id = NodeId::new(&format!("n{number:06}")).map_err(named)?;
        Ok(Node::new(id, MilliCpu::new(per_node * 1000), Mib::new(1024)))
    };
    let nodes: Result<Vec<Node>, ReplayError> = (0..procs.div_ceil(per_node)).map(node).collect();
    // Ids sort as jobs came, so that those of one instant keep the order of the log.
    let submission = |(place, job): (usize, &BatchJob)| {
        let count = u32::try_from(job.procs.div_ceil(per_node)).unwrap_or(u32::MAX);
        let spec = JobSpec {
            tenant: Some(TenantId::new(&format!("user {}", job.user)).map_err(named)?),
            nodes: NodeCount { min: count, max: count },
            walltime_ms: estimate.of(job),
            ..JobSpec::empty()
        };
        let at = Time::from_secs(job.submit);
        let id = JobId::new(&format!("{place:07}-{}", job.number)).map_err(named)?;
        let run = Some(Millis::secs(job.run.max(0) as u64));
        Ok(Submission::new(at, run, Job::new(id, Arc::new(spec), at)))
    };
    let submissions: Result<Vec<Submission>, ReplayError> = jobs.iter().enumerate().map(submission).collect();
    Ok((nodes?, submissions?))
}
