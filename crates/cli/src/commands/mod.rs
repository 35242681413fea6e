//! One file per command: arguments, the question, the answer as data.

pub(crate) mod compare;
pub(crate) mod exit_codes;
pub(crate) mod explain;
pub(crate) mod gpu;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod question;
pub(crate) mod rank;
pub(crate) mod replay;
pub(crate) mod scenario;
pub(crate) mod service;
pub(crate) mod trace;
