//! A machine of alike processors: the world of batch logs.
//!
//! Jobs come and end at the instants of the log; one of the engine's planners for alike units
//! ([`landfall_engine::counted`]) decides who starts. It sees estimates only, while jobs end at their actual run time.
//!
//! *Order of events* at one instant moves results by up to a tenth, so it is a setting. [`Events::Batch`]: all ends, all
//! arrivals, then one pass; this is how the engine's own cycles work. [`Events::Single`]: one pass after each event,
//! arrivals before ends and ends in the order of starts, as the programs behind published schedules do it.

mod committed;
mod outcome;
mod planning;
mod policy;
mod sequences;
mod simulate;

pub use committed::{Score, committed};
pub use outcome::run_of;
pub use planning::Planning;
pub use policy::{FCFS, LOG_POLICIES, LogPolicy};
pub use sequences::{Sequence, jobs_by_number, one_at_a_time};
pub use simulate::{Progress, Schedule, simulate};

use landfall_model::Millis;

use crate::trace::batch::BatchJob;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Events {
    /// One pass after every event.
    Single,
    /// One pass after all events of an instant.
    #[default]
    Batch,
}

/// What the planner is told about how long a job takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Estimate {
    /// What its user said.
    #[default]
    User,
    /// How long it really takes.
    True,
    /// Twice what its user said.
    Double,
}

impl Estimate {
    /// The time that is told for a job.
    pub fn of(self, job: &BatchJob) -> Millis {
        let secs = match self {
            Self::User => job.estimate,
            Self::True => job.run,
            Self::Double => 2 * job.estimate,
        };
        Millis::secs(secs.max(0) as u64)
    }
}

/// How a machine is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub procs: u32,
    pub planning: Planning,
    pub events: Events,
    /// Passes on a beat from the first arrival on; `None` means after every instant with an event.
    pub cycle: Option<Millis>,
    pub estimate: Estimate,
}
