//! Acceptance cases of the specs, through the engine as a server would drive it.

#[path = "acceptance/support.rs"]
mod support;

#[path = "acceptance/around.rs"]
mod around;
#[path = "acceptance/jobs.rs"]
mod jobs;
#[path = "acceptance/nodes.rs"]
mod nodes;
#[path = "acceptance/pull.rs"]
mod pull;
#[path = "acceptance/push.rs"]
mod push;
