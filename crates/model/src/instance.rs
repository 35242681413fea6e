//! What a pull pool has lately seen: trailing means and live counts.

use serde::{Deserialize, Serialize};

/// Trailing means over five minutes, one hour and one day. A measured 0 is a value; absence is not.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Window {
    /// Mean over five minutes.
    pub m5: Option<f64>,
    /// Mean over one hour.
    pub h1: Option<f64>,
    /// Mean over one day.
    pub h24: Option<f64>,
}

impl Window {
    /// The same with no mean below a floor; what is absent stays absent.
    #[must_use]
    pub fn at_least(self, floor: f64) -> Self {
        let floored = |mean: Option<f64>| mean.map(|mean| mean.max(floor));
        Self { m5: floored(self.m5), h1: floored(self.h1), h24: floored(self.h24) }
    }
}

/// The instance context of a pull pool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Instance {
    /// The winner's missing inputs at dispatch.
    pub missing_inputs: Window,
    /// The winner's missing MiB at dispatch.
    pub missing_mib: Window,
    /// The winner's dependency count at dispatch.
    pub dependency_count: Window,
    /// Seconds from ready to dispatch.
    pub wait_secs: Window,
    /// CPU time per job in ms.
    pub cpu_time_ms: Window,
    /// Share of jobs killed for memory.
    pub oom_rate: Window,
    /// Peak network use per job in Mbit/s.
    pub network_mbit_s: Window,
    /// Bytes read and written per job.
    pub disk_bytes: Window,
    /// Wall time per job in ms.
    pub build_time_ms: Window,
    /// Peak memory per job in MiB (shown, not scored).
    pub peak_ram_mib: Window,
    /// Mean CPU use in percent (shown, not scored).
    pub avg_cpu_pct: Window,
    /// Input bytes per job (shown, not scored).
    pub input_bytes: Window,
    /// Jobs finished in the last day (shown, not scored).
    pub completed: u64,
    pub active_builds: u64,
    pub pending_builds: u64,
    pub total_nodes: u64,
    /// Connected nodes without any job, draining ones included.
    pub idle_nodes: u64,
    /// Free slots over all active nodes.
    pub spare_slots: u64,
}

impl Window {
    /// All the numbers of the window.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        [self.m5, self.h1, self.h24].into_iter().flatten()
    }
}

impl Instance {
    /// All windows with their names.
    pub fn windows(&self) -> [(&'static str, &Window); 12] {
        [
            ("missing_inputs", &self.missing_inputs),
            ("missing_mib", &self.missing_mib),
            ("dependency_count", &self.dependency_count),
            ("wait_secs", &self.wait_secs),
            ("cpu_time_ms", &self.cpu_time_ms),
            ("oom_rate", &self.oom_rate),
            ("network_mbit_s", &self.network_mbit_s),
            ("disk_bytes", &self.disk_bytes),
            ("build_time_ms", &self.build_time_ms),
            ("peak_ram_mib", &self.peak_ram_mib),
            ("avg_cpu_pct", &self.avg_cpu_pct),
            ("input_bytes", &self.input_bytes),
        ]
    }
}
