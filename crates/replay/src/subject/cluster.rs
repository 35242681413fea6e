//! A trace on a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_engine::Engine;
use landfall_engine::answers::dispatch_of;
use landfall_engine::dag::Join;
use landfall_engine::input::Submission as EngineSubmission;
use landfall_model::{
    Dispatch, Job, JobId, JobSpec, Mib, MilliCpu, Millis, Node, NodeCount, NodeId, Pool, PoolId, Situation,
    TenantId, Time, World,
};

use super::{Chosen, PolicyKind, Progress, ReplayError};
use crate::cluster::{Arrival, Change, Workload, simulate};
use crate::decisions::Decisions;
use crate::machine::Estimate;
use crate::run::Run;
use crate::trace::batch::BatchJob;
use crate::trace::own::{self, Submission, Trace};

/// The pool where the cluster names none.
const POOL: &str = "default";

/// A trace and the cluster it runs on.
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
    /// The beat of batch pools; without one, cycles follow events.
    pub beat: Option<Millis>,
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
            beat: cycle,
            inputs_sha256: BTreeMap::new(),
        }
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
            if pool.dispatch == Dispatch::Batch {
                pool.batch.cycle_on_events = self.beat.is_none();
                pool.batch.cycle_ms = self.beat.unwrap_or(pool.batch.cycle_ms);
            }
        }
        let first = self.trace.submissions.iter().map(|submission| submission.at);
        let first =
            first.chain(self.trace.changes.iter().map(|change| change.at)).min().unwrap_or(Time::ZERO);
        let situation = Situation::new(first, self.nodes.clone(), Vec::new(), &self.node_order, world)
            .map_err(|error| subject(error.to_string()))?;
        let engine = Engine::from_situation_with(&situation, spec)
            .map_err(|refused| subject(format!("{}; {}", refused.message, refused.hint)))?;
        let run = simulate(engine, self.workload()?, decisions, progress)?;
        Ok(Run { trace: self.name.clone(), inputs_sha256: self.inputs_sha256.clone(), ..run })
    }

    fn workload(&self) -> Result<Workload, ReplayError> {
        let jobs: BTreeSet<&JobId> = self.trace.submissions.iter().map(|one| &one.job.id).collect();
        for submission in &self.trace.submissions {
            if let Some(edge) = submission.after.iter().find(|edge| !jobs.contains(&edge.on)) {
                let message =
                    format!("job `{}` waits for `{}`, which is not in the trace", submission.job.id, edge.on);
                return Err(ReplayError::Subject(message));
            }
        }
        let arrivals = self.trace.submissions.iter().map(|submission| Arrival {
            at: submission.at,
            run: submission.run,
            submission: EngineSubmission {
                edges: submission.after.clone(),
                join: submission.join,
                ..EngineSubmission::new(submission.job.clone())
            },
        });
        let nodes: BTreeMap<&NodeId, &Node> = self.nodes.iter().map(|node| (&node.id, node)).collect();
        let change = |change: &own::NodeChange| {
            let Some(node) = nodes.get(&change.node).copied() else {
                let message =
                    format!("the trace changes node `{}`, which is not in the cluster", change.node);
                return Err(ReplayError::Subject(message));
            };
            let to = match change.to {
                own::Change::Down => Change::Down(node.id.clone()),
                own::Change::Drain => Change::Drain(node.id.clone()),
                own::Change::Up => Change::Up(Box::new(node.clone())),
            };
            Ok((change.at, to))
        };
        let changes: Result<Vec<_>, _> = self.trace.changes.iter().map(change).collect();
        Ok(Workload { arrivals: arrivals.collect(), changes: changes? })
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
        Ok(Submission {
            at,
            run: Some(Millis::secs(job.run.max(0) as u64)),
            job: Job::new(id, Arc::new(spec), at),
            after: Vec::new(),
            join: Join::All,
        })
    };
    let submissions: Result<Vec<Submission>, ReplayError> = jobs.iter().enumerate().map(submission).collect();
    Ok((nodes?, submissions?))
}
