//! Workloads: named templates of jobs, who could run them, and what a node could run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::JobRequest;

/// A workload as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkloadView {
    /// Its name.
    pub id: String,
    /// What jobs made from it start with.
    pub template: JobRequest,
    /// Changes whenever the template does; the `ETag` is made from it.
    pub version: String,
}

/// Which nodes could run a workload now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Availability {
    /// The workload.
    pub workload: String,
    /// Nodes that pass all filters with a level above `too_tight`.
    pub ready: u64,
    /// Level of the node that would be chosen.
    #[serde(default)]
    pub best_level: Option<String>,
    /// Its score.
    #[serde(default)]
    pub best_score: Option<f64>,
    /// Tokens per second it is expected to reach (`llmcpp` only).
    #[serde(default)]
    pub estimated_throughput: Option<f64>,
    /// How many nodes that pass the filters are on each level.
    pub levels: BTreeMap<String, u64>,
    /// How many nodes each reason stands against; a node counts under each of its reasons.
    pub filtered: BTreeMap<String, u64>,
}

/// What a node could run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeWorkloads {
    /// The node.
    pub node: String,
    /// Whether it takes work now, as far as the node itself is concerned.
    pub dispatchable: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Workloads it could run, best first.
    pub workloads: Vec<NodeWorkload>,
}

/// A workload that a node could run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeWorkload {
    /// The workload.
    pub workload: String,
    /// How well it suits.
    pub level: String,
    /// The score.
    pub composite: f64,
    /// Points for speed.
    pub speed: f64,
    /// Points for fit.
    pub fit: f64,
    /// Points for headroom.
    pub headroom: f64,
    /// Tokens per second it is expected to reach (`llmcpp` only).
    #[serde(default)]
    pub estimate: Option<f64>,
}
