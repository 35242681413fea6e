//! The same measures for a part of the jobs: those of one tenant, or of one size.

use serde::Serialize;

use super::number;
use super::{Deviation, Distribution};
use crate::run::{JobRun, Run};

/// Classes of size by units held: 1, 2–4, 5–16, 17–64, and so on, four times as wide each. Jobs of clusters and
/// supercomputers spread over several powers of two, and powers of four keep the list short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeBand(u32);

impl SizeBand {
    /// The class of a job that holds so many units.
    pub fn of(units: u64) -> Self {
        // The number of times four goes into units - 1, rounded up.
        Self((u64::BITS - units.saturating_sub(1).leading_zeros()).div_ceil(2))
    }

    /// Its smallest and largest size.
    pub fn range(self) -> (u64, u64) {
        let most = |class: u32| 1_u64.checked_shl(2 * class).unwrap_or(u64::MAX);
        (self.0.checked_sub(1).map_or(0, most).saturating_add(1), most(self.0))
    }

    /// Its name: `1` or `5–16`.
    pub fn name(self) -> String {
        match self.range() {
            (least, most) if least == most => least.to_string(),
            (least, most) => format!("{least}–{most}"),
        }
    }
}

/// Measures of a part of the jobs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The tenant, or the class of size.
    pub name: String,
    pub jobs: u64,
    pub started: u64,
    pub wait_s: Option<Distribution>,
    pub bounded_slowdown: Option<Distribution>,
    /// Unit-hours delivered, without what restarts made worthless.
    #[serde(serialize_with = "number::six")]
    pub unit_hours: f64,
    /// The part of all unit-hours delivered.
    #[serde(serialize_with = "number::six_or_null")]
    pub part: Option<f64>,
    /// Target share, for a tenant that has one.
    #[serde(serialize_with = "number::six_or_null", skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// Collects the jobs of one group.
#[derive(Debug, Clone, Default)]
pub(super) struct Collector {
    jobs: u64,
    waits: Vec<f64>,
    slowdowns: Vec<f64>,
    unit_ms: u128,
}

impl Collector {
    /// Adds a job; `timed` is its wait in seconds and its bounded slowdown, if it started.
    pub(super) fn add(&mut self, job: &JobRun, timed: Option<(f64, f64)>) {
        self.jobs += 1;
        self.unit_ms += u128::from(job.units) * u128::from(delivered_ms(job));
        if let Some((wait, slowdown)) = timed {
            self.waits.push(wait);
            self.slowdowns.push(slowdown);
        }
    }

    pub(super) fn unit_ms(&self) -> f64 {
        self.unit_ms as f64
    }

    pub(super) fn finish(mut self, name: String, parts: u64, all_unit_ms: f64, share: Option<f64>) -> Group {
        Group {
            name,
            jobs: self.jobs,
            started: self.waits.len() as u64,
            unit_hours: self.unit_ms() / parts as f64 / 3_600_000.0,
            part: (all_unit_ms > 0.0).then(|| self.unit_ms() / all_unit_ms),
            wait_s: Distribution::of(&mut self.waits),
            bounded_slowdown: Distribution::of(&mut self.slowdowns),
            share,
        }
    }
}

/// How long a job held its units for something that was kept.
pub(super) fn delivered_ms(job: &JobRun) -> u64 {
    job.held_ms.saturating_sub(job.lost_ms)
}

/// The largest deviation of what tenants got from their shares. Without any share there is nothing to deviate from.
pub(super) fn deviation(run: &Run, tenants: &[Group]) -> Option<Deviation> {
    if !run.tenants.iter().any(|tenant| tenant.share > 0.0) {
        return None;
    }
    Deviation::largest(tenants.iter().filter_map(|group| Some((group.name.as_str(), group.off_share()?))))
}

impl Group {
    /// What it got beyond its share of everything delivered; a tenant without a share has one of 0.
    pub fn off_share(&self) -> Option<f64> {
        Some(self.part? - self.share.unwrap_or(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_powers_of_four() {
        for (units, name) in [
            (0, "1"),
            (1, "1"),
            (2, "2–4"),
            (4, "2–4"),
            (5, "5–16"),
            (16, "5–16"),
            (17, "17–64"),
            (80_640, "65537–262144"),
        ] {
            assert_eq!(SizeBand::of(units).name(), name, "{units}");
        }
        assert_eq!(SizeBand::of(u64::MAX).range(), ((1 << 62) + 1, u64::MAX));
        for units in 1..5000 {
            let (least, most) = SizeBand::of(units).range();
            assert!(least <= units && units <= most, "{units}");
        }
    }
}
