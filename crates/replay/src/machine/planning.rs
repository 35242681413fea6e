//! The planners that can decide for a machine, behind one face.

use landfall_engine::counted::{self, Rules, Start, Ticket, learned};
use landfall_model::{Millis, Time};

use crate::trace::batch::BatchJob;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planning {
    /// The line and what may overtake in it.
    Rules(Rules),
    /// What users' jobs took before, with promises to those who wait long.
    Learned(learned::Settings),
}

impl From<Rules> for Planning {
    fn from(rules: Rules) -> Self {
        Self::Rules(rules)
    }
}

impl From<learned::Settings> for Planning {
    fn from(settings: learned::Settings) -> Self {
        Self::Learned(settings)
    }
}

pub(super) enum Planner {
    Rules(Box<counted::Planner>),
    Learned(Box<learned::Planner>),
}

impl Planner {
    pub(super) fn new(procs: u32, planning: Planning) -> Self {
        match planning {
            Planning::Rules(rules) => Self::Rules(Box::new(counted::Planner::new(procs, rules))),
            Planning::Learned(settings) => Self::Learned(Box::new(learned::Planner::new(procs, settings))),
        }
    }

    pub(super) fn free(&self) -> u32 {
        match self {
            Self::Rules(planner) => planner.free(),
            Self::Learned(planner) => planner.free(),
        }
    }

    /// Takes a job in that is said to take so long.
    pub(super) fn submit(&mut self, job: &BatchJob, units: u32, duration: Millis) -> Option<Ticket> {
        match self {
            Self::Rules(planner) => planner.submit(counted::Ask { units, duration, user: job.user }),
            Self::Learned(planner) => {
                let ask = learned::Ask { units, duration, user: job.user };
                planner.submit(Time::from_secs(job.submit), ask)
            }
        }
    }

    pub(super) fn end(&mut self, at: Time, ticket: Ticket) {
        match self {
            Self::Rules(planner) => planner.end(at, ticket),
            Self::Learned(planner) => planner.end(at, ticket),
        }
    }

    pub(super) fn release_due(&mut self, now: Time, ends: impl Fn(Ticket) -> bool) {
        match self {
            Self::Rules(planner) => planner.release_due(now, ends),
            Self::Learned(planner) => planner.release_due(now),
        }
    }

    pub(super) fn pass(&mut self, now: Time, starts: &mut Vec<Start>) {
        match self {
            Self::Rules(planner) => planner.pass(now, starts),
            Self::Learned(planner) => planner.pass(now, starts),
        }
    }

    /// Tells of every promise as of the last pass.
    pub(super) fn each_promise(&self, mut told: impl FnMut(Ticket, Time)) {
        match self {
            Self::Rules(planner) => {
                planner.promise().into_iter().chain(planner.promises()).for_each(|(job, at)| told(job, at));
            }
            Self::Learned(planner) => planner.promises().for_each(|(job, at)| told(job, at)),
        }
    }

    pub(super) fn moved_later(&self) -> u64 {
        match self {
            Self::Rules(planner) => planner.moved_later(),
            Self::Learned(planner) => planner.moved_later(),
        }
    }
}
