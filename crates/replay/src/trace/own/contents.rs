//! What is in a trace besides its jobs, in numbers.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{Node, NodeId, PoolId};
use serde::Serialize;

use super::{Change, Setting, Trace};

/// One pool of a trace, as it was set last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolContents {
    pub id: PoolId,
    /// `push`, `pull`, `batch` or `negotiate`.
    pub dispatch: landfall_model::Dispatch,
    pub policy: String,
    /// Whether the trace has the text of its policy.
    pub policy_file: bool,
    pub nodes: u64,
    pub jobs: u64,
}

/// What is in a trace besides its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Contents {
    pub pools: Vec<PoolContents>,
    pub tenants: u64,
    pub blocks: u64,
    /// Groups that its nodes are in.
    pub groups: u64,
    /// Fingerprints that its nodes have.
    pub fingerprints: u64,
    /// Times that a node joined or told everything about itself anew, after the beginning.
    pub joins: u64,
    /// Times that a node said something new about itself.
    pub facts: u64,
    /// Jobs and arrays that wait for others.
    pub dependencies: u64,
    pub arrays: u64,
    /// Elements of these arrays.
    pub elements: u64,
    /// What people wanted of jobs: cancelled, held, released, given another walltime.
    pub orders: u64,
    /// Cycles whose instants are known.
    pub cycles: u64,
}

impl Contents {
    pub fn of(trace: &Trace) -> Self {
        let mut contents = Self { pools: pools(trace), ..Self::default() };
        let (mut tenants, mut blocks) = (BTreeSet::new(), BTreeSet::new());
        for (_, setting) in &trace.settings {
            match setting {
                Setting::Tenant(tenant) => drop(tenants.insert(&tenant.id)),
                Setting::Block(block) => drop(blocks.insert(&block.id)),
                Setting::Pool { .. } => {}
            }
        }
        (contents.tenants, contents.blocks) = (tenants.len() as u64, blocks.len() as u64);
        let nodes = || trace.all_nodes();
        contents.groups =
            nodes().filter_map(|node| node.group.as_ref()).collect::<BTreeSet<_>>().len() as u64;
        let prints = nodes().filter_map(|node| node.fingerprint.as_ref()).collect::<BTreeSet<_>>();
        contents.fingerprints = prints.len() as u64;
        contents.joins = trace.joins.len() as u64;
        contents.facts = trace.changes.iter().filter(|one| matches!(one.to, Change::Says(_))).count() as u64;
        for submission in &trace.submissions {
            contents.dependencies += u64::from(!submission.after.is_empty());
            if let Some(shape) = &submission.array {
                contents.arrays += 1;
                contents.elements += u64::from(shape.total());
            }
        }
        contents.orders = trace.orders.len() as u64;
        contents.cycles = trace.cycles.values().map(|times| times.len() as u64).sum();
        contents
    }
}

impl Trace {
    /// Every node, as often as it told everything about itself.
    pub fn all_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().chain(self.joins.iter().map(|(_, node)| node))
    }

    /// Every node as it told about itself last.
    pub fn latest_nodes(&self) -> BTreeMap<&NodeId, &Node> {
        self.all_nodes().map(|node| (&node.id, node)).collect()
    }
}

fn pools(trace: &Trace) -> Vec<PoolContents> {
    let mut found: BTreeMap<&PoolId, PoolContents> = BTreeMap::new();
    for (_, setting) in &trace.settings {
        let Setting::Pool { pool, policy } = setting else { continue };
        let one = PoolContents {
            id: pool.id.clone(),
            dispatch: pool.dispatch,
            policy: pool.policy_name().to_owned(),
            policy_file: policy.is_some(),
            nodes: 0,
            jobs: 0,
        };
        found.insert(&pool.id, one);
    }
    let only = (found.len() == 1).then(|| found.keys().next().copied()).flatten();
    let named = |pool: Option<&'_ PoolId>| pool.or(only).cloned();
    for node in trace.latest_nodes().into_values() {
        if let Some(pool) = named(node.pool.as_ref()).and_then(|pool| found.get_mut(&pool)) {
            pool.nodes += 1;
        }
    }
    for submission in &trace.submissions {
        if let Some(pool) = named(submission.job.spec.pool.as_ref()).and_then(|pool| found.get_mut(&pool)) {
            pool.jobs += submission.array.as_ref().map_or(1, |shape| u64::from(shape.total()));
        }
    }
    found.into_values().collect()
}
