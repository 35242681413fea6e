//! Commands about a running server. One file per command, or per noun where the commands are small.

pub(crate) mod agent;
pub(crate) mod backup;
pub(crate) mod certificate;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod helpers;
pub(crate) mod hollow;
pub(crate) mod jobs;
pub(crate) mod listing;
pub(crate) mod logs;
pub(crate) mod nodes;
pub(crate) mod plan;
pub(crate) mod pools;
pub(crate) mod restore;
pub(crate) mod server;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod steer;
pub(crate) mod submit;
pub(crate) mod tenants;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod workloads;
