//! Inputs that are brought near before a job starts.
//!
//! Staging begins when a job enters the queue. When the job could start, the part of its inputs that is near decides: it
//! starts, it starts and may stall, or it waits and is overtaken. What nobody knows is not held against a job, and an
//! input that failed too often holds up nothing any more.

use landfall_model::{Input, Warmth};
use landfall_policy::q;
use serde::{Deserialize, Serialize};

/// Failed attempts on one input after which its job no longer waits.
pub const ATTEMPTS_MAX: u32 = 3;

const START_FROM: f64 = 0.95;
const STALL_FROM: f64 = 0.80;

/// The part of a job's inputs that is near; `None` if nothing is declared or no size is known.
pub fn near_fraction(inputs: Option<&[Input]>) -> Option<f64> {
    let known =
        || inputs.unwrap_or_default().iter().filter_map(|input| Some((input.tier, input.bytes?.get())));
    let all = known().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes));
    let near = known().filter(|(tier, _)| *tier == Warmth::Hot);
    let near = near.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes));
    known().next()?;
    Some(if all == 0 { 1.0 } else { near as f64 / all as f64 })
}

/// Whether a job may start as far as its inputs are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    Start,
    /// It may, and will have to wait for some inputs while it runs (`stall_expected`).
    StallExpected,
    /// It may, because staging has failed (`staging_failed`).
    StagingFailed,
    /// It waits (`staging`).
    Wait,
}

impl Gate {
    /// What people should know about a start, if anything.
    pub fn flag(self) -> Option<&'static str> {
        match self {
            Self::StallExpected => Some("stall_expected"),
            Self::StagingFailed => Some("staging_failed"),
            Self::Start | Self::Wait => None,
        }
    }
}

/// The gate of a job whose inputs are near to this part. A pool without a stager gates nothing.
pub fn gate(staging: bool, near: Option<f64>, given_up: bool) -> Gate {
    match near {
        Some(near) if staging && q(near) < q(START_FROM) => match () {
            () if q(near) >= q(STALL_FROM) => Gate::StallExpected,
            () if given_up => Gate::StagingFailed,
            () => Gate::Wait,
        },
        _ => Gate::Start,
    }
}
