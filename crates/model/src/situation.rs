//! A situation: everything a decision may look at, at one instant.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Block, BlockId, HistoryRow, Instance, Job, JobId, JobSpec, MilliCpu, MilliGpu, Name, Node, NodeId, Pool,
    PoolId, Prediction, Provider, Tenant, TenantId, Time, WorkloadId,
};

/// What one node would have to fetch for one job, as that node reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobReport {
    /// Inputs it does not hold, if reported.
    pub missing_inputs: Option<u64>,
    /// Their size in bytes, if reported.
    pub missing_bytes: Option<u64>,
}

impl JobReport {
    /// All is there. This goes without asking for a job that has no inputs.
    pub const NOTHING: Self = Self { missing_inputs: Some(0), missing_bytes: Some(0) };
}

/// One class of the expected job mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixShare {
    /// Its share of the mix; shares are normalised to sum to 1.
    pub share: f64,
    #[serde(default)]
    pub gpu_count: u32,
    /// Compute asked of each GPU.
    #[serde(default = "whole")]
    pub gpu_milli: MilliGpu,
    #[serde(default)]
    pub cpu_milli: MilliCpu,
    /// GPU models that will do; empty means any.
    #[serde(default)]
    pub gpu_models: Vec<Name>,
    /// Too rare to be part of the mix. It counts only where it fits on few nodes, which are then spared for it; its share is
    /// on the scale of the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rare: bool,
}

fn whole() -> MilliGpu {
    MilliGpu::WHOLE
}

/// Which policy to use, and what to change in it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySetting {
    pub name: Option<Name>,
    pub params: BTreeMap<String, toml::Value>,
    /// Weights to change, by term.
    pub weights: BTreeMap<String, f64>,
    /// Terms to turn on or off.
    pub enabled: BTreeMap<String, bool>,
}

/// All of a situation that is neither node nor job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct World {
    pub pools: BTreeMap<PoolId, Pool>,
    pub tenants: BTreeMap<TenantId, Tenant>,
    pub blocks: BTreeMap<BlockId, Arc<Block>>,
    /// Providers, sorted by name.
    pub providers: Vec<Provider>,
    pub workloads: BTreeMap<WorkloadId, Arc<JobSpec>>,
    /// Finished runs by workload, newest first.
    pub history: BTreeMap<WorkloadId, VecDeque<HistoryRow>>,
    /// Predictions given outright, which stand before the history rows.
    pub predictions: BTreeMap<WorkloadId, Prediction>,
    /// What a pull pool has lately seen.
    pub instance: Instance,
    /// The expected job mix; shares sum to 1.
    pub mix: Vec<MixShare>,
    /// Neighbours of each region, nearest first.
    pub regions: BTreeMap<Name, Vec<Name>>,
    /// What nodes would have to fetch, by job and node.
    pub reports: BTreeMap<JobId, BTreeMap<NodeId, JobReport>>,
    /// Energy price, 0 (cheap) to 1 (dear), if fresh.
    pub energy_price: Option<f64>,
    /// Pools whose jobs cost more now, because many wait.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub surging: BTreeSet<PoolId>,
    /// GPU-hours waiting and running, if given outright.
    pub backlog: Option<(f64, f64)>,
    /// Which policy to use.
    pub policy: PolicySetting,
    /// The text of a policy file for each pool that has one of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<PoolId, Arc<str>>,
    /// Who wins between nodes that are otherwise equal: those named here come first, in this order; then by id.
    pub node_order: Vec<NodeId>,
}

/// Why parts do not make a situation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SituationError {
    /// Two nodes with one id.
    #[error("two nodes are called `{0}`")]
    NodeTwice(NodeId),
    /// Two jobs with one id.
    #[error("two jobs are called `{0}`")]
    JobTwice(JobId),
    /// The order of nodes names no such node.
    #[error("node_order names `{0}`, which is no node")]
    UnknownNode(NodeId),
}

/// Everything a decision may look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    pub now: Time,
    nodes: Vec<Node>,
    jobs: Vec<Job>,
    tie_ranks: Vec<u32>,
    pub world: World,
}

impl Situation {
    /// Puts a situation together: nodes and jobs are sorted by id, and each id may occur once.
    ///
    /// `node_order` decides between nodes that are otherwise equal: those it names come first, in its order.
    pub fn new(
        now: Time,
        mut nodes: Vec<Node>,
        mut jobs: Vec<Job>,
        node_order: &[NodeId],
        mut world: World,
    ) -> Result<Self, SituationError> {
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(SituationError::NodeTwice(pair[0].id.clone()));
        }
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        if let Some(pair) = jobs.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(SituationError::JobTwice(pair[0].id.clone()));
        }
        let mut tie_ranks: Vec<u32> = Vec::with_capacity(nodes.len());
        if node_order.is_empty() {
            tie_ranks.extend(0..nodes.len() as u32);
        } else {
            let unnamed = node_order.len() as u32;
            tie_ranks.extend((0..nodes.len() as u32).map(|slot| unnamed + slot));
            for (rank, id) in node_order.iter().enumerate() {
                let slot = nodes
                    .binary_search_by(|node| node.id.cmp(id))
                    .map_err(|_| SituationError::UnknownNode(id.clone()))?;
                tie_ranks[slot] = rank as u32;
            }
        }
        world.node_order = node_order.to_vec();
        Ok(Self { now, nodes, jobs, tie_ranks, world })
    }

    /// Nodes, sorted by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Nodes for changing what is on them; their order and ids must stay.
    pub fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// Jobs, sorted by id.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// For each node, its place among nodes that are otherwise equal; lower wins.
    pub fn tie_ranks(&self) -> &[u32] {
        &self.tie_ranks
    }

    /// The job with this id.
    pub fn job(&self, id: &str) -> Option<&Job> {
        let slot = self.jobs.binary_search_by(|job| job.id.as_str().cmp(id)).ok()?;
        Some(&self.jobs[slot])
    }

    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<&Node> {
        let slot = self.nodes.binary_search_by(|node| node.id.as_str().cmp(id)).ok()?;
        Some(&self.nodes[slot])
    }
}

impl World {
    /// What a node reports for a job.
    pub fn report(&self, job: &JobId, node: &NodeId) -> Option<JobReport> {
        self.reports.get(job)?.get(node).copied()
    }
}
