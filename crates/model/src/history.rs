//! What past runs tell about the next one.

use serde::{Deserialize, Serialize};

use crate::{Bytes, Mib, Millis, TenantId, Time, WorkloadId};

/// One finished run, newest first in a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HistoryRow {
    /// Whose run it was.
    pub workload: WorkloadId,
    /// Total size of its inputs, if known.
    #[serde(default)]
    pub input_bytes: Option<Bytes>,
    /// Peak memory, if measured.
    #[serde(default)]
    pub peak_ram_mib: Option<Mib>,
    /// CPU time, if measured.
    #[serde(default)]
    pub cpu_time_ms: Option<Millis>,
    /// Wall time, if measured.
    #[serde(default)]
    pub build_time_ms: Option<Millis>,
    /// Bytes read and written; 0 means not measured.
    #[serde(default)]
    pub disk_bytes: Bytes,
    /// Whether it was killed for memory.
    #[serde(default)]
    pub oom: bool,
    /// When it ended, if known; evals look back one day.
    #[serde(default)]
    pub finished_at_ms: Option<Time>,
    /// Whose it was, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Whether it failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// Newest runs that a duration is predicted from, and how few of them say nothing yet.
const DURATIONS: (usize, usize) = (50, 5);

/// How long nine of ten good runs of a workload took at most, from its rows, newest first; only runs of the same tenant count.
pub fn predicted_duration<'a>(
    rows: impl Iterator<Item = &'a HistoryRow>,
    tenant: Option<&TenantId>,
) -> Option<Millis> {
    let good = rows.filter(|row| !row.failed && !row.oom && row.tenant.as_ref() == tenant);
    let mut took: Vec<Millis> = good.filter_map(|row| row.build_time_ms).take(DURATIONS.0).collect();
    took.sort_unstable();
    let place = (took.len() * 9).div_ceil(10).checked_sub(1)?;
    took.get(place).copied().filter(|_| took.len() >= DURATIONS.1)
}

/// What history predicts for a job; all zero means nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prediction {
    /// Peak memory to expect.
    pub predicted_peak_ram_mib: Mib,
    pub avg_cpu_time_ms: Millis,
    pub build_time_ms: Millis,
    /// Mean bytes read and written.
    pub avg_disk_bytes: Bytes,
    /// Share of runs that were killed for memory, 0 to 1.
    pub oom_rate: f64,
    /// How many runs this rests on.
    pub samples: u64,
}

/// Below this many known peaks the largest one is the prediction.
const PEAKS_FOR_A_PERCENTILE: usize = 20;
/// Newest rows that count.
const HISTORY_ROWS: usize = 200;

/// Bytes in one MiB.
const MIB: u64 = 1 << 20;

impl Prediction {
    /// The size bucket of an input size: the integer logarithm of its MiB.
    pub fn bucket(bytes: Bytes) -> u32 {
        (bytes.get() / MIB).max(1).ilog2()
    }

    /// The neighbouring sizes of a bucket, in bytes, both ends included.
    pub fn bucket_range(bucket: u32) -> (u64, u64) {
        let from = if bucket <= 1 { 0 } else { MIB << (bucket - 1).min(43) };
        (from, (MIB << (bucket + 2).min(43)) - 1)
    }

    /// Predicts from the rows of one workload, newest first; with a known input size only neighbouring sizes count.
    pub fn from_rows<'a>(rows: impl Iterator<Item = &'a HistoryRow>, input: Option<Bytes>) -> Self {
        let range = input.map(|bytes| Self::bucket_range(Self::bucket(bytes)));
        let near = |row: &&HistoryRow| match (range, row.input_bytes) {
            (None, _) => true,
            (Some((from, to)), Some(bytes)) => (from..=to).contains(&bytes.get()),
            (Some(_), None) => false,
        };
        let rows: Vec<&HistoryRow> = rows.filter(near).take(HISTORY_ROWS).collect();
        if rows.is_empty() {
            return Self::default();
        }
        let mean = |values: &mut dyn Iterator<Item = u64>| {
            let (sum, count) =
                values.fold((0u128, 0u128), |(sum, count), value| (sum + u128::from(value), count + 1));
            sum.checked_div(count).unwrap_or(0) as u64
        };
        Self {
            predicted_peak_ram_mib: peak(rows.iter().filter_map(|row| row.peak_ram_mib).collect()),
            avg_cpu_time_ms: Millis::new(mean(
                &mut rows.iter().filter_map(|row| row.cpu_time_ms).map(Millis::get),
            )),
            build_time_ms: Millis::new(mean(
                &mut rows.iter().filter_map(|row| row.build_time_ms).map(Millis::get),
            )),
            avg_disk_bytes: Bytes::new(mean(
                &mut rows.iter().map(|row| row.disk_bytes.get()).filter(|&b| b > 0),
            )),
            oom_rate: rows.iter().filter(|row| row.oom).count() as f64 / rows.len() as f64,
            samples: rows.len() as u64,
        }
    }

    /// Predicts for a project of `eval` jobs: the interpolated 95th percentile of the peaks of the last day.
    pub fn from_eval_peaks(mut peaks: Vec<Mib>) -> Self {
        peaks.sort_unstable();
        let Some(last) = peaks.len().checked_sub(1) else { return Self::default() };
        let position = 0.95 * last as f64;
        let below = position.floor() as usize;
        let above = (below + 1).min(last);
        let (low, high) = (peaks[below].as_f64(), peaks[above].as_f64());
        let value = low + (high - low) * (position - below as f64);
        Self {
            predicted_peak_ram_mib: Mib::new(value.round() as u64),
            samples: peaks.len() as u64,
            ..Self::default()
        }
    }
}

fn peak(mut peaks: Vec<Mib>) -> Mib {
    peaks.sort_unstable();
    match peaks.len() {
        0 => Mib::ZERO,
        n if n < PEAKS_FOR_A_PERCENTILE => peaks[n - 1],
        n => peaks[(0.95 * (n - 1) as f64).round() as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(peak: Option<u64>, cpu: Option<u64>, oom: bool) -> HistoryRow {
        HistoryRow {
            workload: WorkloadId::new("w").unwrap(),
            input_bytes: None,
            peak_ram_mib: peak.map(Mib::new),
            cpu_time_ms: cpu.map(Millis::new),
            build_time_ms: None,
            disk_bytes: Bytes::ZERO,
            oom,
            finished_at_ms: None,
            tenant: None,
            failed: false,
        }
    }

    #[test]
    fn durations_are_those_of_nine_in_ten_good_runs_of_the_tenant() {
        let run =
            |secs: u64| HistoryRow { build_time_ms: Some(Millis::secs(secs)), ..row(None, None, false) };
        let of = |rows: &[HistoryRow]| predicted_duration(rows.iter(), None).map(|took| took.get() / 1000);
        let rows: Vec<HistoryRow> = (1..=10).map(run).collect();
        assert_eq!((of(&rows[..4]), of(&rows[..5]), of(&rows)), (None, Some(5), Some(9)));
        let others = rows.iter().map(|row| HistoryRow { tenant: TenantId::new("t").ok(), ..row.clone() });
        assert_eq!(of(&others.collect::<Vec<_>>()), None);
        let failed = rows.iter().map(|row| HistoryRow { failed: true, ..row.clone() });
        assert_eq!(of(&failed.collect::<Vec<_>>()), None);
        let long: Vec<HistoryRow> = (0..60).map(|place| run(if place < 50 { 7 } else { 900 })).collect();
        assert_eq!(of(&long), Some(7), "only the last fifty count");
    }

    #[test]
    fn p35_bucket_of_four_mib() {
        let bucket = Prediction::bucket(Bytes::new(4 << 20));
        assert_eq!(bucket, 2);
        assert_eq!(Prediction::bucket_range(bucket), (2_097_152, 16_777_215));
        assert_eq!(Prediction::bucket_range(Prediction::bucket(Bytes::ZERO)).0, 0);
        assert!(Prediction::bucket_range(Prediction::bucket(Bytes::new(u64::MAX))).1 > 0);
    }

    #[test]
    fn p36_rows_with_gaps() {
        let rows =
            [row(Some(100), Some(1000), false), row(Some(300), Some(3000), true), row(None, None, false)];
        let got = Prediction::from_rows(rows.iter(), None);
        assert_eq!(
            (got.samples, got.predicted_peak_ram_mib.get(), got.avg_cpu_time_ms.get()),
            (3, 300, 2000)
        );
        assert!((got.oom_rate - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(Prediction::from_rows([].iter(), None), Prediction::default());
    }

    #[test]
    fn p37_eval_peaks_interpolate() {
        let got = Prediction::from_eval_peaks([1000, 2000, 3000, 4000, 5000].map(Mib::new).to_vec());
        assert_eq!((got.predicted_peak_ram_mib.get(), got.samples), (4800, 5));
        assert_eq!(Prediction::from_eval_peaks(Vec::new()), Prediction::default());
    }

    #[test]
    fn twenty_peaks_give_a_percentile() {
        let rows: Vec<_> = (1..=20).map(|peak| row(Some(peak), None, false)).collect();
        assert_eq!(Prediction::from_rows(rows.iter(), None).predicted_peak_ram_mib.get(), 19);
        assert_eq!(Prediction::from_rows(rows[..19].iter(), None).predicted_peak_ram_mib.get(), 19);
    }

    #[test]
    fn only_neighbouring_sizes_count() {
        let mut near = row(Some(10), None, false);
        near.input_bytes = Some(Bytes::new(3 << 20));
        let mut far = row(Some(9999), None, false);
        far.input_bytes = Some(Bytes::new(1 << 40));
        let rows = [near, far, row(Some(5000), None, false)];
        let got = Prediction::from_rows(rows.iter(), Some(Bytes::new(4 << 20)));
        assert_eq!((got.samples, got.predicted_peak_ram_mib.get()), (1, 10));
    }
}
