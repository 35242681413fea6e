//! All measures of one run.

use std::collections::BTreeMap;

use landfall_model::Time;
use serde::{Serialize, Serializer};

use super::groups::{self, Collector, SizeBand, delivered_ms};
use super::number;
use super::{Deviation, Distribution, Group, Packing, Usage, Window, jain, nearest_rank};
use crate::run::{Counts, Ending, JobRun, Run};

/// Runs shorter than this, in seconds, count as this long in the bounded slowdown.
const SHORT_RUN_S: f64 = 10.0;
/// The reason given for a job without a start whose end says something else.
const NO_REASON: &str = "unknown";

/// How many times longer than its run a job took from queueing to end; at least 1, and runs of less than 10 s count as
/// 10 s, so that tiny jobs do not drown the rest.
pub fn bounded_slowdown(wait_s: f64, run_s: f64) -> f64 {
    ((wait_s + run_s) / run_s.max(SHORT_RUN_S)).max(1.0)
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct GpuHours {
    /// Held for something that was kept.
    #[serde(serialize_with = "number::six")]
    pub delivered: f64,
    /// Held for something that a restart threw away.
    #[serde(serialize_with = "number::six")]
    pub lost: f64,
}

/// How far first estimates of the start were off, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimates {
    /// Jobs that had an estimate and started.
    pub count: u64,
    /// Half were off by at most this.
    #[serde(serialize_with = "number::six")]
    pub median_s: f64,
    /// 95 of 100 were off by at most this.
    #[serde(serialize_with = "number::six")]
    pub p95_s: f64,
}

/// All measures of one run. As JSON: fixed order of keys, six decimals.
#[derive(Debug, Clone, PartialEq)]
pub struct Measures {
    pub trace: String,
    pub policy: String,
    pub seed: Option<u64>,
    /// What is counted as a unit.
    pub unit: &'static str,
    pub jobs: u64,
    pub started: u64,
    /// Jobs that never started, by reason.
    pub never_started: BTreeMap<String, u64>,
    /// Jobs that ran and failed, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Jobs stopped by their walltime.
    pub walltime: u64,
    /// Waits of started jobs in seconds.
    pub wait_s: Option<Distribution>,
    /// Bounded slowdowns of started jobs.
    pub bounded_slowdown: Option<Distribution>,
    /// Share of units in use.
    pub utilisation: Option<f64>,
    /// Share of GPUs in use.
    pub gpu_utilisation: Option<f64>,
    /// From the first submission to the last end, in seconds.
    pub makespan_s: Option<f64>,
    pub gpu_hours: GpuHours,
    /// Jobs that waited no longer than they asked, of those that asked.
    pub qos_compliance: Option<f64>,
    /// Jain's index over tenants with a share.
    pub jain_index: Option<f64>,
    /// The tenant furthest from its share.
    pub share_deviation: Option<Deviation>,
    /// Accuracy of first estimates.
    pub estimates: Option<Estimates>,
    /// Decisions per scheduling pass.
    pub decisions_per_pass: Option<f64>,
    pub counts: Counts,
    /// Packing at the loads reported.
    pub packing: Option<Packing>,
    /// Per tenant, in the order of the run; tenants without jobs too.
    pub tenants: Vec<Group>,
    /// Per class of size, ascending; classes without jobs are left out.
    pub sizes: Vec<Group>,
    pub inputs_sha256: BTreeMap<String, String>,
    /// SHA-256 of the decision log.
    pub decisions_sha256: String,
}

impl Measures {
    /// Of a run, between its first submission and its last end.
    pub fn of(run: &Run) -> Self {
        Self::between(run, None, None)
    }

    /// Of a run, with utilisation taken from and until the instants given.
    pub fn between(run: &Run, from: Option<Time>, to: Option<Time>) -> Self {
        // Packing alone knows no time: everything happens at once, and waits of zero would look like a result.
        let timeless = !run.curve.is_empty() && run.jobs.iter().all(|job| job.run_ms == 0);
        let whole = Window::whole(run).filter(|_| !timeless);
        let window =
            whole.map(|window| Window { from: from.unwrap_or(window.from), to: to.unwrap_or(window.to) });
        let usage = window.map(|window| Usage::within(run, window)).unwrap_or_default();

        let mut all = Tally::new(run.tenants.len());
        for job in &run.jobs {
            let timed = job.wait_ms().filter(|_| !timeless).map(|wait_ms| {
                let wait = wait_ms as f64 / 1000.0;
                (wait, bounded_slowdown(wait, job.run_ms as f64 / 1000.0))
            });
            all.add(job, run.size_of(job), timed);
        }

        let (unit_ms, parts) = (all.jobs.unit_ms(), run.parts());
        let finish = |group: Collector, name: String, share| group.finish(name, parts, unit_ms, share);
        let shares: Vec<(f64, f64)> = all
            .tenants
            .iter()
            .zip(&run.tenants)
            .map(|(group, tenant)| (group.unit_ms(), tenant.share))
            .collect();
        let tenants: Vec<Group> = all
            .tenants
            .into_iter()
            .zip(&run.tenants)
            .map(|(group, tenant)| {
                finish(group, tenant.name.clone(), (tenant.share > 0.0).then_some(tenant.share))
            })
            .collect();
        let jobs = finish(all.jobs, String::new(), None);
        Self {
            trace: run.trace.clone(),
            policy: run.policy.clone(),
            seed: run.seed,
            unit: run.unit,
            jobs: jobs.jobs,
            started: all.started,
            never_started: owned(all.never_started),
            failed: owned(all.failed),
            walltime: all.walltime,
            wait_s: jobs.wait_s,
            bounded_slowdown: jobs.bounded_slowdown,
            utilisation: usage.units(),
            gpu_utilisation: usage.gpus(),
            makespan_s: whole.map(|window| window.length_ms() as f64 / 1000.0),
            gpu_hours: GpuHours { delivered: gpu_hours(all.gpu_delivered), lost: gpu_hours(all.gpu_lost) },
            qos_compliance: (all.qos > 0).then(|| all.qos_met as f64 / all.qos as f64),
            jain_index: jain(&shares),
            share_deviation: groups::deviation(run, &tenants),
            estimates: accuracy(all.off_ms),
            decisions_per_pass: (run.counts.passes > 0)
                .then(|| run.counts.decisions as f64 / run.counts.passes as f64),
            counts: run.counts.clone(),
            packing: Packing::of(&run.curve),
            tenants,
            sizes: all.sizes.into_iter().map(|(class, group)| finish(group, class.name(), None)).collect(),
            inputs_sha256: run.inputs_sha256.clone(),
            decisions_sha256: run.decisions_sha256.clone(),
        }
    }

    /// Reservations that moved later, for whatever cause.
    pub fn reservations_moved(&self) -> u64 {
        self.counts.moved.values().sum()
    }
}

/// Everything that one walk over the jobs adds up.
#[derive(Default)]
struct Tally<'a> {
    jobs: Collector,
    tenants: Vec<Collector>,
    sizes: BTreeMap<SizeBand, Collector>,
    started: u64,
    walltime: u64,
    never_started: BTreeMap<&'a str, u64>,
    failed: BTreeMap<&'a str, u64>,
    gpu_delivered: u128,
    gpu_lost: u128,
    qos: u64,
    qos_met: u64,
    off_ms: Vec<u64>,
}

impl<'a> Tally<'a> {
    fn new(tenants: usize) -> Self {
        Self { tenants: vec![Collector::default(); tenants], ..Self::default() }
    }

    fn add(&mut self, job: &'a JobRun, size: u64, timed: Option<(f64, f64)>) {
        self.jobs.add(job, timed);
        self.sizes.entry(SizeBand::of(size)).or_default().add(job, timed);
        if let Some(tenant) = job.tenant.and_then(|place| self.tenants.get_mut(place as usize)) {
            tenant.add(job, timed);
        }
        self.gpu_delivered += u128::from(job.gpu_milli) * u128::from(delivered_ms(job));
        self.gpu_lost += u128::from(job.gpu_milli) * u128::from(job.lost_ms);
        if let Some(longest) = job.qos_wait_ms {
            self.qos += 1;
            self.qos_met += u64::from(job.wait_ms().is_some_and(|wait| wait <= longest));
        }
        let Some(started) = job.started else {
            let reason = match &job.ending {
                Ending::NeverStarted(reason) | Ending::Failed(reason) => reason,
                Ending::Completed | Ending::Walltime => NO_REASON,
            };
            *self.never_started.entry(reason).or_default() += 1;
            return;
        };
        self.started += 1;
        if let Some(estimate) = job.first_estimate {
            self.off_ms.push(estimate.as_millis().abs_diff(started.as_millis()));
        }
        match &job.ending {
            Ending::Completed => {}
            Ending::Walltime => self.walltime += 1,
            Ending::Failed(reason) | Ending::NeverStarted(reason) => {
                *self.failed.entry(reason).or_default() += 1;
            }
        }
    }
}

fn owned(counts: BTreeMap<&str, u64>) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect()
}

fn gpu_hours(milli_ms: u128) -> f64 {
    milli_ms as f64 / 1000.0 / 3_600_000.0
}

fn accuracy(mut off_ms: Vec<u64>) -> Option<Estimates> {
    let count = off_ms.len();
    off_ms.sort_unstable();
    let at = |percent| Some(off_ms[nearest_rank(percent, count)?] as f64 / 1000.0);
    Some(Estimates { count: count as u64, median_s: at(50)?, p95_s: at(95)? })
}

/// Measures as they are written: the figures most asked for first, by themselves; then everything in groups.
#[derive(Serialize)]
struct Document<'a> {
    trace: &'a str,
    policy: &'a str,
    seed: Option<u64>,
    unit: &'static str,
    jobs: u64,
    started: u64,
    never_started: u64,
    #[serde(serialize_with = "number::six_or_null")]
    mean_bounded_slowdown: Option<f64>,
    #[serde(serialize_with = "number::six_or_null")]
    mean_wait_s: Option<f64>,
    #[serde(serialize_with = "number::six_or_null")]
    max_wait_s: Option<f64>,
    #[serde(serialize_with = "number::six_or_null")]
    utilisation: Option<f64>,
    #[serde(serialize_with = "number::six_or_null")]
    gpu_utilisation: Option<f64>,
    #[serde(serialize_with = "number::six_or_null")]
    makespan_s: Option<f64>,
    #[serde(flatten)]
    packing: Option<PackingDocument<'a>>,
    wait_s: Option<Distribution>,
    bounded_slowdown: Option<Distribution>,
    gpu_hours: GpuHours,
    #[serde(serialize_with = "number::six_or_null")]
    qos_compliance: Option<f64>,
    #[serde(serialize_with = "number::six_or_null")]
    jain_index: Option<f64>,
    share_deviation: &'a Option<Deviation>,
    estimates: Option<Estimates>,
    #[serde(serialize_with = "number::six_or_null")]
    decisions_per_pass: Option<f64>,
    counts: CountsDocument<'a>,
    walltime: u64,
    never_started_by_reason: &'a BTreeMap<String, u64>,
    failed_by_reason: &'a BTreeMap<String, u64>,
    tenants: &'a [Group],
    sizes: &'a [Group],
    inputs_sha256: &'a BTreeMap<String, String>,
    decisions_sha256: &'a str,
}

#[derive(Serialize)]
struct PackingDocument<'a> {
    #[serde(serialize_with = "number::six_by_load")]
    allocation_percent_at: &'a BTreeMap<u32, f64>,
    #[serde(serialize_with = "number::six_by_load")]
    fragmentation_ratio_percent_at: &'a BTreeMap<u32, f64>,
    #[serde(serialize_with = "number::six_by_load")]
    fragmentation_percent_at: &'a BTreeMap<u32, f64>,
}

#[derive(Serialize)]
struct CountsDocument<'a> {
    starts: u64,
    backfills: u64,
    preemptions: u64,
    requeues: u64,
    rejected: u64,
    loans: u64,
    reservations_moved: &'a BTreeMap<String, u64>,
    passes: u64,
    decisions: u64,
}

impl Serialize for Measures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let counts = &self.counts;
        Document {
            trace: &self.trace,
            policy: &self.policy,
            seed: self.seed,
            unit: self.unit,
            jobs: self.jobs,
            started: self.started,
            never_started: self.never_started.values().sum(),
            mean_bounded_slowdown: self.bounded_slowdown.map(|found| found.mean),
            mean_wait_s: self.wait_s.map(|found| found.mean),
            max_wait_s: self.wait_s.map(|found| found.max),
            utilisation: self.utilisation,
            gpu_utilisation: self.gpu_utilisation,
            makespan_s: self.makespan_s,
            packing: self.packing.as_ref().map(|packing| PackingDocument {
                allocation_percent_at: &packing.allocation,
                fragmentation_ratio_percent_at: &packing.fragmentation_ratio,
                fragmentation_percent_at: &packing.fragmentation,
            }),
            wait_s: self.wait_s,
            bounded_slowdown: self.bounded_slowdown,
            gpu_hours: self.gpu_hours,
            qos_compliance: self.qos_compliance,
            jain_index: self.jain_index,
            share_deviation: &self.share_deviation,
            estimates: self.estimates,
            decisions_per_pass: self.decisions_per_pass,
            counts: CountsDocument {
                starts: counts.starts,
                backfills: counts.backfills,
                preemptions: counts.preemptions,
                requeues: counts.requeues,
                rejected: counts.rejected,
                loans: counts.loans,
                reservations_moved: &counts.moved,
                passes: counts.passes,
                decisions: counts.decisions,
            },
            walltime: self.walltime,
            never_started_by_reason: &self.never_started,
            failed_by_reason: &self.failed,
            tenants: &self.tenants,
            sizes: &self.sizes,
            inputs_sha256: &self.inputs_sha256,
            decisions_sha256: &self.decisions_sha256,
        }
        .serialize(to)
    }
}
