//! What the driver counts, for the metrics page.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Stats {
    /// Commits to the journal.
    pub appends: AtomicU64,
    /// Nanoseconds spent in them.
    pub append_nanos: AtomicU64,
    pub append_failures: AtomicU64,
    pub events: AtomicU64,
    /// Inputs given to the engine.
    pub steps: AtomicU64,
    /// Nanoseconds spent in the engine.
    pub step_nanos: AtomicU64,
    pub snapshots: AtomicU64,
    /// Commands sent to agents.
    pub commands: AtomicU64,
}

impl Stats {
    pub(super) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn took(counter: &AtomicU64, time: Duration) {
        Self::add(counter, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}
