//! What a pull pool computes beside scores: smoothed node signals, back-off, reports, work shares and bundles.

use std::collections::BTreeMap;

use landfall_model::{Bytes, JobReport, Millis, TenantId};

use crate::rules::window::or_else;

/// How much a new sample counts in an [`Ewma`] unless a pool says otherwise.
pub const EWMA_ALPHA: f64 = 0.3;
/// The largest exponent of a back-off: waits stop growing here.
const BACK_OFF_EXPONENT_MAX: u32 = 16;
/// What a build that prefers to stay local weighs in work shares while it has no history.
const LOCAL_WEIGHT: f64 = 0.5;

const BYTES_PER_MIB: f64 = 1_048_576.0;

/// An exponentially weighted mean, absent until the first sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ewma {
    alpha: f64,
    value: Option<f64>,
}

impl Default for Ewma {
    fn default() -> Self {
        Self::new(EWMA_ALPHA)
    }
}

impl Ewma {
    /// A mean in which a new sample has the weight `alpha`, 0 to 1.
    pub const fn new(alpha: f64) -> Self {
        Self { alpha, value: None }
    }

    /// The mean so far.
    pub const fn value(&self) -> Option<f64> {
        self.value
    }

    /// Takes a sample in; what is not a finite number above 0 is ignored.
    pub fn add(&mut self, sample: f64) {
        if sample.is_finite() && sample > 0.0 {
            let old = self.value.unwrap_or(sample);
            self.value = Some(self.alpha * sample + (1.0 - self.alpha) * old);
        }
    }
}

/// The network speed that one transfer shows, in Mbit/s (10^6 bits). A transfer takes at least a microsecond.
pub fn network_mbit_s(transferred: Bytes, elapsed_us: u64) -> f64 {
    // Bits per microsecond are Mbit per second.
    transferred.as_f64() * 8.0 / elapsed_us.max(1) as f64
}

/// The disk speed that one job shows, in MB/s (2^20 bytes); `None` if it used no disk or took no time.
///
/// This understates jobs that mostly compute, but still tells memory, SSD and HDD apart.
pub fn disk_mb_s(read: Bytes, written: Bytes, wall: Millis) -> Option<f64> {
    let bytes = read + written;
    let measured = !bytes.is_zero() && !wall.is_zero();
    measured.then(|| bytes.as_f64() / BYTES_PER_MIB / wall.as_secs_f64())
}

/// The speed score of a core that runs so many iterations of the reference loop per millisecond.
pub fn cpu_core_score(iterations_per_ms: f64) -> u32 {
    // A cast of a float saturates, and the clamp keeps what is no number at the lowest score.
    ((iterations_per_ms / 100.0).round() as u32).clamp(1, 100_000)
}

/// How long a job waits before an attempt: the base doubled with each failed attempt after the first.
pub fn back_off(base: Millis, attempt: u32) -> Millis {
    base * (1 << attempt.saturating_sub(1).min(BACK_OFF_EXPONENT_MAX))
}

/// Whether the back-off of a job is over that failed `age` ago.
pub fn is_due(base: Millis, attempt: u32, age: Millis) -> bool {
    age >= back_off(base, attempt)
}

/// One input that a job requires, as a node finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequiredInput {
    /// Whether the node holds it; `None` if the check failed.
    pub present: Option<bool>,
    /// Its uncompressed size, if known.
    pub bytes: Option<Bytes>,
}

/// What a node reports for a job. A failed check counts as missing, and an unknown size adds nothing.
pub fn report(required: impl IntoIterator<Item = RequiredInput>) -> JobReport {
    let missing = required.into_iter().filter(|input| input.present != Some(true));
    let (inputs, bytes) = missing.fold((0, Bytes::ZERO), |(inputs, bytes), input| {
        (inputs + 1, bytes + input.bytes.unwrap_or(Bytes::ZERO))
    });
    JobReport { missing_inputs: Some(inputs), missing_bytes: Some(bytes.get()) }
}

/// A running build as work shares see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveBuild {
    pub tenant: Option<TenantId>,
    /// Its wall time by its own history; zero without one.
    pub history_build_time: Millis,
    /// Whether it wants a node that holds its inputs.
    pub prefer_local: bool,
}

impl ActiveBuild {
    /// What the build weighs: its own history, or else what is usual, half of that if it prefers to stay local.
    fn weight(&self, usual_build_time_ms: f64) -> f64 {
        if !self.history_build_time.is_zero() {
            return self.history_build_time.as_f64();
        }
        if self.prefer_local { LOCAL_WEIGHT * usual_build_time_ms } else { usual_build_time_ms }
    }
}

/// How the running work divides between tenants.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkShares {
    by_tenant: BTreeMap<TenantId, f64>,
    total: f64,
}

impl WorkShares {
    /// Adds up the active builds; `build_time_ms` is the mean wall time of the last hour, if measured.
    pub fn of<'a>(builds: impl IntoIterator<Item = &'a ActiveBuild>, build_time_ms: Option<f64>) -> Self {
        let usual = or_else(build_time_ms.filter(|mean| mean.is_finite()), 0.0).max(0.0);
        let mut shares = Self::default();
        for build in builds {
            let weight = build.weight(usual);
            shares.total += weight;
            if let Some(tenant) = &build.tenant {
                *shares.by_tenant.entry(tenant.clone()).or_default() += weight;
            }
        }
        shares
    }

    /// A tenant's share, 0 to 1; `None` while nothing that weighs anything runs.
    pub fn share(&self, tenant: &TenantId) -> Option<f64> {
        let weight = self.by_tenant.get(tenant).copied().unwrap_or(0.0);
        // Sums in another order may differ in the last bit, and a share above 1 would be nonsense.
        (self.total > 0.0).then(|| (weight / self.total).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smoothed(samples: &[f64]) -> Option<f64> {
        let mut mean = Ewma::default();
        samples.iter().for_each(|&sample| mean.add(sample));
        mean.value()
    }

    #[test]
    fn p38_ewma() {
        assert_eq!(smoothed(&[]), None);
        assert_eq!(smoothed(&[100.0]), Some(100.0));
        assert!((smoothed(&[100.0, 200.0]).unwrap() - 130.0).abs() < 1e-9);
        assert_eq!(smoothed(&[100.0, 0.0, -5.0, f64::NAN, f64::INFINITY]), Some(100.0));
        assert_eq!(smoothed(&[f64::NAN, 0.0]), None);
    }

    #[test]
    fn p39_samples() {
        assert_eq!(network_mbit_s(Bytes::new(125_000_000), 2_000_000), 500.0);
        assert_eq!(disk_mb_s(Bytes::new(1 << 30), Bytes::new(1 << 30), Millis::secs(40)), Some(51.2));
    }

    #[test]
    fn samples_without_time_or_bytes() {
        assert_eq!(network_mbit_s(Bytes::new(1), 0), 8.0);
        assert_eq!(network_mbit_s(Bytes::ZERO, 5), 0.0, "which the mean then ignores");
        assert_eq!(disk_mb_s(Bytes::ZERO, Bytes::ZERO, Millis::secs(1)), None);
        assert_eq!(disk_mb_s(Bytes::new(1), Bytes::ZERO, Millis::ZERO), None);
        assert_eq!(disk_mb_s(Bytes::new(1 << 20), Bytes::ZERO, Millis::secs(1)), Some(1.0));
    }

    #[test]
    fn core_scores_stay_within_bounds() {
        assert_eq!(cpu_core_score(150_000.0), 1500);
        assert_eq!(cpu_core_score(150_050.0), 1501, "half away from zero");
        assert_eq!([0.0, -1.0, f64::NAN].map(cpu_core_score), [1, 1, 1]);
        assert_eq!([1e12, f64::INFINITY].map(cpu_core_score), [100_000, 100_000]);
    }

    #[test]
    fn p41_back_off() {
        let due = |attempt, secs| is_due(Millis::secs(30), attempt, Millis::secs(secs));
        assert_eq!((due(1, 29), due(1, 30)), (false, true));
        assert_eq!((due(2, 59), due(2, 60)), (false, true));
    }

    #[test]
    fn back_off_stops_growing() {
        let longest = back_off(Millis::secs(30), 17);
        assert_eq!(longest, Millis::secs(30 << 16));
        assert_eq!(back_off(Millis::secs(30), u32::MAX), longest);
        assert_eq!(back_off(Millis::secs(30), 0), Millis::secs(30));
        assert_eq!(back_off(Millis::new(u64::MAX), 9), Millis::new(u64::MAX), "no overflow");
    }

    #[test]
    fn p40_node_report() {
        let input = |present, bytes: Option<u64>| RequiredInput { present, bytes: bytes.map(Bytes::new) };
        let reported = |inputs: &[RequiredInput]| {
            let report = report(inputs.iter().copied());
            (report.missing_inputs, report.missing_bytes)
        };
        let inputs = [input(Some(true), Some(7)), input(Some(false), Some(200)), input(Some(false), None)];
        assert_eq!(reported(&inputs), (Some(2), Some(200)));
        assert_eq!(reported(&[]), (Some(0), Some(0)));
        assert_eq!(reported(&[input(None, Some(5))]), (Some(1), Some(5)), "a failed check counts as missing");
    }

    fn active(tenant: &str, history_ms: u64, prefer_local: bool) -> ActiveBuild {
        let tenant = TenantId::new(tenant).ok();
        ActiveBuild { tenant, history_build_time: Millis::new(history_ms), prefer_local }
    }

    fn share(builds: &[ActiveBuild], build_time_ms: Option<f64>, tenant: &str) -> Option<f64> {
        WorkShares::of(builds, build_time_ms).share(&TenantId::new(tenant).unwrap())
    }

    #[test]
    fn shares_weigh_builds_by_history() {
        let builds = [active("a", 3000, true), active("b", 1000, false)];
        assert_eq!(
            share(&builds, Some(9e9), "a"),
            Some(0.75),
            "the half weight is not for builds with history"
        );
        assert_eq!(share(&builds, None, "b"), Some(0.25));
        assert_eq!(share(&builds, None, "c"), Some(0.0), "a tenant without work has none of it");
    }

    #[test]
    fn without_history_the_usual_time_stands_in() {
        let builds = [active("a", 0, true), active("b", 0, false), active("", 0, true)];
        assert_eq!(share(&builds, Some(1000.0), "a"), Some(0.25));
        assert_eq!(share(&builds, Some(1000.0), "b"), Some(0.5));
    }

    #[test]
    fn nothing_that_weighs_leaves_the_share_unknown() {
        assert_eq!(share(&[], Some(1000.0), "a"), None);
        assert_eq!(share(&[active("a", 0, false)], None, "a"), None);
        assert_eq!(share(&[active("a", 0, false)], Some(0.0), "a"), None);
        assert_eq!(share(&[active("a", 0, false)], Some(f64::NAN), "a"), None);
    }
}
