//! How much of what there was to use was used, between the first submission and the last end or in a window of choice.

use landfall_model::Time;

use crate::run::{JobRun, Run};

/// The time that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: Time,
    pub to: Time,
}

impl Window {
    /// From the first submission to the last end of a job that ran; nothing if none did.
    pub fn whole(run: &Run) -> Option<Self> {
        let from = run.jobs.iter().map(|job| job.queued).min()?;
        let to = run.jobs.iter().filter(|job| job.started.is_some()).filter_map(|job| job.ended).max()?;
        Some(Self { from, to })
    }

    pub fn length_ms(self) -> u64 {
        self.to.since(self.from).get()
    }

    fn overlap_ms(self, from: Time, to: Time) -> u64 {
        to.min(self.to).since(from.max(self.from)).get()
    }

    /// How long the job held its units within the window. A job that was stopped in between is taken to have held
    /// them evenly from its first start to its end, because a run does not keep every stop.
    fn held_ms(self, job: &JobRun) -> u128 {
        let Some(started) = job.started else { return 0 };
        let ended = job.ended.unwrap_or(self.to);
        let stay = ended.since(started).get();
        let held = job.held_ms.min(stay);
        let inside = self.overlap_ms(started, ended);
        if inside == stay || stay == 0 {
            return u128::from(held);
        }
        u128::from(held) * u128::from(inside) / u128::from(stay)
    }
}

/// Busy and available time of units and GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Units held, times milliseconds.
    pub busy_unit_ms: u128,
    /// Units in service, times milliseconds.
    pub available_unit_ms: u128,
    /// Thousandths of GPUs held, times milliseconds.
    pub busy_gpu_milli_ms: u128,
    /// Thousandths of GPUs in service, times milliseconds.
    pub available_gpu_milli_ms: u128,
}

impl Usage {
    pub fn within(run: &Run, window: Window) -> Self {
        let mut usage = Self::default();
        for job in &run.jobs {
            let held = window.held_ms(job);
            usage.busy_unit_ms += u128::from(job.units) * held;
            usage.busy_gpu_milli_ms += u128::from(job.gpu_milli) * held;
        }
        for (place, capacity) in run.capacity.iter().enumerate() {
            let until = run.capacity.get(place + 1).map_or(window.to, |next| next.from);
            let length = u128::from(window.overlap_ms(capacity.from, until));
            usage.available_unit_ms += u128::from(capacity.units) * length;
            usage.available_gpu_milli_ms += u128::from(capacity.gpu_milli) * length;
        }
        usage
    }

    /// Share of the units in use; nothing if there were none.
    pub fn units(&self) -> Option<f64> {
        share(self.busy_unit_ms, self.available_unit_ms)
    }

    /// Share of the GPUs in use; nothing if there were none.
    pub fn gpus(&self) -> Option<f64> {
        share(self.busy_gpu_milli_ms, self.available_gpu_milli_ms)
    }
}

fn share(busy: u128, available: u128) -> Option<f64> {
    (available > 0).then(|| busy as f64 / available as f64)
}
