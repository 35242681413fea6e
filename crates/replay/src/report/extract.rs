//! All that a report needs of a run, small even for a long run.

use super::distribution::Spread;
use super::gantt::Gantt;
use super::timeline::Timeline;
use crate::measures::{Measures, bounded_slowdown};
use crate::run::{CurvePoint, Run};

/// All that a report needs of a run: its measures and its drawings' data, at most some hundred points each.
#[derive(Debug, Clone, PartialEq)]
pub struct Extract {
    pub measures: Measures,
    pub(super) timeline: Option<Timeline>,
    pub(super) waits: Option<Spread>,
    pub(super) slowdowns: Option<Spread>,
    pub(super) gantt: Option<Gantt>,
    pub(super) curve: Vec<CurvePoint>,
}

impl Extract {
    pub fn of(run: &Run) -> Self {
        let measures = Measures::of(run);
        let timed = measures.wait_s.is_some();
        let started = || {
            run.jobs.iter().filter(|_| timed).filter_map(|job| Some((job.wait_ms()? as f64 / 1000.0, job)))
        };
        let waits: Vec<f64> = started().map(|(wait, _)| wait).collect();
        let slowdowns =
            started().map(|(wait, job)| bounded_slowdown(wait, job.run_ms as f64 / 1000.0)).collect();
        Self {
            measures,
            timeline: if timed { Timeline::of(run) } else { None },
            waits: Spread::of(waits),
            slowdowns: Spread::of(slowdowns),
            gantt: Gantt::of(run),
            curve: run.curve.clone(),
        }
    }

    /// The run in a few words: its policy, and its seed if it has one.
    pub(super) fn name(&self) -> String {
        match self.measures.seed {
            None => self.measures.policy.clone(),
            Some(seed) => format!("{}, seed {seed}", self.measures.policy),
        }
    }
}
