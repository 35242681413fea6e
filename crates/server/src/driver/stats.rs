//! What the driver counts, for the metrics page.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use landfall_engine::Event;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

type Labels = Vec<(&'static str, String)>;

/// How long cycles took, by pool.
#[derive(Debug, Clone)]
pub struct Cycles(pub(crate) Family<Labels, Histogram, fn() -> Histogram>);

impl Default for Cycles {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| {
            Histogram::new([0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
        }))
    }
}

impl Cycles {
    /// Notes how long a step of the engine took, for every pool that had a cycle in it.
    pub(crate) fn note(&self, events: &[Event], took: Duration) {
        for event in events {
            if let Event::Cycled { pool, .. } = event {
                self.0.get_or_create(&vec![("pool", pool.to_string())]).observe(took.as_secs_f64());
            }
        }
    }
}

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
    pub cycles: Cycles,
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
