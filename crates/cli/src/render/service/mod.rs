//! Pages about a running server.

pub(crate) mod decisions;
pub(crate) mod explain;
pub(crate) mod fleet;
pub(crate) mod jobs;
pub(crate) mod nodes;
pub(crate) mod peers;
pub(crate) mod status;
pub(crate) mod workloads;
