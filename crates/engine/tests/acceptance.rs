//! Acceptance cases of the specs, through the engine as a server would drive it.

#[path = "acceptance/support.rs"]
mod support;

#[path = "acceptance/ahead.rs"]
mod ahead;
#[path = "acceptance/around.rs"]
mod around;
#[path = "acceptance/array_properties.rs"]
mod array_properties;
#[path = "acceptance/arrays.rs"]
mod arrays;
#[path = "acceptance/awards.rs"]
mod awards;
#[path = "acceptance/caps.rs"]
mod caps;
#[path = "acceptance/checkpoints.rs"]
mod checkpoints;
#[path = "acceptance/dag.rs"]
mod dag;
#[path = "acceptance/decisions.rs"]
mod decisions;
#[path = "acceptance/deletions.rs"]
mod deletions;
#[path = "acceptance/estimates.rs"]
mod estimates;
#[path = "acceptance/jobs.rs"]
mod jobs;
#[path = "acceptance/nodes.rs"]
mod nodes;
#[path = "acceptance/policy.rs"]
mod policy;
#[path = "acceptance/preempt.rs"]
mod preempt;
#[path = "acceptance/prices.rs"]
mod prices;
#[path = "acceptance/pull.rs"]
mod pull;
#[path = "acceptance/push.rs"]
mod push;
