//! The catalogue of measures: name, unit, which way is better, and where to find it. Comparisons and tables go by it.

use std::collections::BTreeMap;

use super::number::{grouped, with_decimals};
use super::{Distribution, Measures, Packing};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
    /// Neither: it tells how a policy works, not how well.
    Neither,
}

/// What a measure is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    /// A part of a whole, from 0 to 1.
    Part,
    Percent,
    /// Times: a ratio that may be above 1.
    Times,
    Count,
    GpuHours,
}

impl Better {
    /// The word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Neither => "neither",
        }
    }
}

impl Unit {
    /// The word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Part => "part",
            Self::Percent => "percent",
            Self::Times => "times",
            Self::Count => "count",
            Self::GpuHours => "gpu_hours",
        }
    }

    /// The sign written after a value.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Part | Self::Percent => "%",
            Self::Times | Self::Count => "",
            Self::GpuHours => "GPU-h",
        }
    }

    /// The value for people, without the sign; parts of a whole become per cent.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Part => with_decimals(value * 100.0, 2),
            Self::Percent => with_decimals(value, 2),
            Self::Seconds if value.abs() < 100.0 && value != libm::trunc(value) => with_decimals(value, 2),
            Self::Seconds => {
                with_decimals(value, usize::from(value.abs() < 10_000.0 && value != libm::trunc(value)))
            }
            Self::Times | Self::Count | Self::GpuHours => grouped(value),
        }
    }
}

#[derive(Debug)]
pub struct Measure {
    /// Its name for programs.
    pub key: &'static str,
    /// Its name for people.
    pub title: &'static str,
    pub unit: Unit,
    pub better: Better,
    get: Get,
}

#[derive(Debug)]
enum Get {
    Plain(fn(&Measures) -> Option<f64>),
    Wait(fn(&Distribution) -> f64),
    Slowdown(fn(&Distribution) -> f64),
    Load(fn(&Packing) -> &BTreeMap<u32, f64>, u32),
}

impl Measure {
    /// Its value for a run; nothing where the run has none.
    pub fn of(&self, run: &Measures) -> Option<f64> {
        match self.get {
            Get::Plain(get) => get(run),
            Get::Wait(get) => run.wait_s.as_ref().map(get),
            Get::Slowdown(get) => run.bounded_slowdown.as_ref().map(get),
            Get::Load(get, load) => get(run.packing.as_ref()?).get(&load).copied(),
        }
    }

    pub fn named(key: &str) -> Option<&'static Self> {
        CATALOGUE.iter().find(|measure| measure.key == key)
    }

    const fn plain(
        key: &'static str,
        title: &'static str,
        unit: Unit,
        better: Better,
        get: fn(&Measures) -> Option<f64>,
    ) -> Self {
        Self { key, title, unit, better, get: Get::Plain(get) }
    }

    const fn wait(key: &'static str, title: &'static str, get: fn(&Distribution) -> f64) -> Self {
        Self { key, title, unit: Unit::Seconds, better: Better::Lower, get: Get::Wait(get) }
    }

    const fn slowdown(key: &'static str, title: &'static str, get: fn(&Distribution) -> f64) -> Self {
        Self { key, title, unit: Unit::Times, better: Better::Lower, get: Get::Slowdown(get) }
    }

    const fn allocation(key: &'static str, title: &'static str, load: u32) -> Self {
        let get = Get::Load(|packing| &packing.allocation, load);
        Self { key, title, unit: Unit::Percent, better: Better::Higher, get }
    }

    const fn ratio(key: &'static str, title: &'static str, load: u32) -> Self {
        let get = Get::Load(|packing| &packing.fragmentation_ratio, load);
        Self { key, title, unit: Unit::Percent, better: Better::Lower, get }
    }

    const fn amount(key: &'static str, title: &'static str, load: u32) -> Self {
        let get = Get::Load(|packing| &packing.fragmentation, load);
        Self { key, title, unit: Unit::Percent, better: Better::Lower, get }
    }
}

use Better::{Higher, Lower, Neither};
use Unit::{Count, GpuHours, Part, Seconds, Times};

/// All measures that are one number, in the order in which tables list them.
pub static CATALOGUE: [Measure; 41] = [
    Measure::slowdown("mean_bounded_slowdown", "Bounded slowdown, mean", |found| found.mean),
    Measure::slowdown("p50_bounded_slowdown", "Bounded slowdown, median", |found| found.p50),
    Measure::slowdown("p95_bounded_slowdown", "Bounded slowdown, 95th percentile", |found| found.p95),
    Measure::slowdown("p99_bounded_slowdown", "Bounded slowdown, 99th percentile", |found| found.p99),
    Measure::slowdown("max_bounded_slowdown", "Bounded slowdown, largest", |found| found.max),
    Measure::wait("mean_wait_s", "Wait, mean", |found| found.mean),
    Measure::wait("p50_wait_s", "Wait, median", |found| found.p50),
    Measure::wait("p95_wait_s", "Wait, 95th percentile", |found| found.p95),
    Measure::wait("p99_wait_s", "Wait, 99th percentile", |found| found.p99),
    Measure::wait("max_wait_s", "Wait, longest", |found| found.max),
    Measure::plain("utilisation", "Utilisation", Part, Higher, |run| run.utilisation),
    Measure::plain("gpu_utilisation", "Utilisation of GPUs", Part, Higher, |run| run.gpu_utilisation),
    Measure::plain("makespan_s", "Makespan", Seconds, Lower, |run| run.makespan_s),
    Measure::allocation("allocation_percent_at_50", "GPU allocated at 50 % asked for", 50),
    Measure::allocation("allocation_percent_at_80", "GPU allocated at 80 % asked for", 80),
    Measure::allocation("allocation_percent_at_90", "GPU allocated at 90 % asked for", 90),
    Measure::allocation("allocation_percent_at_100", "GPU allocated at 100 % asked for", 100),
    Measure::allocation("allocation_percent_at_130", "GPU allocated at 130 % asked for", 130),
    Measure::ratio("fragmentation_ratio_percent_at_50", "Fragmented part of free GPU at 50 %", 50),
    Measure::ratio("fragmentation_ratio_percent_at_80", "Fragmented part of free GPU at 80 %", 80),
    Measure::ratio("fragmentation_ratio_percent_at_90", "Fragmented part of free GPU at 90 %", 90),
    Measure::ratio("fragmentation_ratio_percent_at_100", "Fragmented part of free GPU at 100 %", 100),
    Measure::amount("fragmentation_percent_at_90", "Fragmented GPU at 90 %", 90),
    Measure::amount("fragmentation_percent_at_100", "Fragmented GPU at 100 %", 100),
    Measure::plain("gpu_hours_delivered", "GPU-hours delivered", GpuHours, Neither, |run| {
        (run.gpu_hours.delivered > 0.0).then_some(run.gpu_hours.delivered)
    }),
    Measure::plain("gpu_hours_lost", "GPU-hours lost to restarts", GpuHours, Lower, |run| {
        (run.gpu_hours.delivered > 0.0).then_some(run.gpu_hours.lost)
    }),
    Measure::plain("qos_compliance", "Jobs that waited no longer than asked", Part, Higher, |run| {
        run.qos_compliance
    }),
    Measure::plain("jain_index", "Jain index of tenants", Times, Higher, |run| run.jain_index),
    Measure::plain("share_deviation", "Largest deviation from a share", Part, Lower, |run| {
        run.share_deviation.as_ref().map(|found| found.value)
    }),
    Measure::plain("estimate_median_s", "First estimate off by, median", Seconds, Lower, |run| {
        run.estimates.map(|found| found.median_s)
    }),
    Measure::plain("estimate_p95_s", "First estimate off by, 95th percentile", Seconds, Lower, |run| {
        run.estimates.map(|found| found.p95_s)
    }),
    Measure::plain("started", "Jobs started", Count, Higher, |run| Some(run.started as f64)),
    Measure::plain("never_started", "Jobs never started", Count, Lower, |run| {
        Some(run.never_started.values().sum::<u64>() as f64)
    }),
    Measure::plain("walltime", "Jobs stopped by their walltime", Count, Neither, |run| {
        Some(run.walltime as f64)
    }),
    Measure::plain("backfills", "Backfills", Count, Neither, |run| Some(run.counts.backfills as f64)),
    Measure::plain("preemptions", "Preemptions", Count, Lower, |run| Some(run.counts.preemptions as f64)),
    Measure::plain("requeues", "Requeues", Count, Lower, |run| Some(run.counts.requeues as f64)),
    Measure::plain("rejected", "Proposals refused", Count, Lower, |run| Some(run.counts.rejected as f64)),
    Measure::plain("loans", "Nodes lent", Count, Neither, |run| Some(run.counts.loans as f64)),
    Measure::plain("reservations_moved", "Reservations moved later", Count, Lower, |run| {
        Some(run.reservations_moved() as f64)
    }),
    Measure::plain("decisions_per_pass", "Decisions per pass", Times, Neither, |run| run.decisions_per_pass),
];
