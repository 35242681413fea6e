//! The deterministic engine: one ledger, four ways to dispatch, the whole life of a job.
#![forbid(unsafe_code)]

pub mod negotiate;
