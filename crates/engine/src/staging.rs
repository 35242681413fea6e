//! Inputs that are brought near before a job starts.
//!
//! Staging begins when a job enters the queue. When the job could start, the part of its inputs that is near decides: it
//! starts, it starts and may stall, or it waits and is overtaken. What nobody knows is not held against a job, and an
//! input that failed too often holds up nothing any more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{Input, JobId, Millis, Name, Warmth};
use landfall_policy::q;
use serde::{Deserialize, Serialize};

/// Failed attempts on one input after which its job no longer waits.
pub const ATTEMPTS_MAX: u8 = 3;
/// The part of storage write bandwidth that staging may use.
pub const BANDWIDTH_SHARE: f64 = 0.3;
/// Bytes per second that staging is planned with.
pub const PLANNED_RATE: f64 = 1e9;

const START_FROM: f64 = 0.95;
const STALL_FROM: f64 = 0.80;

/// The part of a job's inputs that is near; `None` if nothing is declared or no size is known.
#[must_use]
pub fn near_fraction(inputs: Option<&[Input]>) -> Option<f64> {
    let known =
        || inputs.unwrap_or_default().iter().filter_map(|input| Some((input.tier, input.bytes?.get())));
    let all = known().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes));
    let near = known().filter(|(tier, _)| *tier == Warmth::Hot);
    let near = near.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes));
    known().next()?;
    Some(if all == 0 { 1.0 } else { near as f64 / all as f64 })
}

/// Whether a job may start as far as its inputs are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// It may.
    Start,
    /// It may, and will have to wait for some inputs while it runs (`stall_expected`).
    StallExpected,
    /// It may, because staging has failed (`staging_failed`).
    StagingFailed,
    /// It waits (`staging`).
    Wait,
}

/// The gate of a job whose inputs are near to this part. A pool without a stager gates nothing.
#[must_use]
pub fn gate(staging: bool, near: Option<f64>, given_up: bool) -> Gate {
    match near {
        Some(near) if staging && q(near) < q(START_FROM) => match () {
            () if q(near) >= q(STALL_FROM) => Gate::StallExpected,
            () if given_up => Gate::StagingFailed,
            () => Gate::Wait,
        },
        _ => Gate::Start,
    }
}

/// How long staging so many bytes takes, given the write bandwidth of the storage if it is known.
#[must_use]
pub fn planned_time(bytes: u64, storage_bytes_s: Option<f64>) -> Option<Millis> {
    let rate = storage_bytes_s.map_or(PLANNED_RATE, |all| PLANNED_RATE.min(BANDWIDTH_SHARE * all));
    (rate > 0.0).then(|| Millis::new((bytes as f64 / rate * 1000.0).ceil() as u64))
}

/// Jobs whose inputs are staged, in the order in which that happens.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StagingQueue {
    order: BTreeSet<(Reverse<u8>, u64, JobId)>,
    jobs: BTreeMap<JobId, Staged>,
}

/// One job whose inputs are staged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Staged {
    class: u8,
    bytes: u64,
    /// Failed attempts by input; inputs without any are not listed.
    failures: BTreeMap<Name, u8>,
}

impl StagingQueue {
    /// Adds a job that enters the queue with so many known bytes to stage. One that is there already stays as it is.
    pub fn add(&mut self, job: JobId, class: u8, bytes: u64) {
        if self.jobs.contains_key(&job) {
            return;
        }
        self.order.insert((Reverse(class), bytes, job.clone()));
        self.jobs.insert(job, Staged { class, bytes, failures: BTreeMap::new() });
    }

    /// Removes a job that has started or ended.
    pub fn remove(&mut self, job: &JobId) {
        if let Some(staged) = self.jobs.remove(job) {
            self.order.remove(&(Reverse(staged.class), staged.bytes, job.clone()));
        }
    }

    /// All jobs in order: urgent ones first, then small ones.
    pub fn iter(&self) -> impl Iterator<Item = &JobId> {
        self.order.iter().map(|(.., job)| job)
    }

    /// Notes a failed attempt on an input; the answer is whether it may be tried again.
    pub fn failed(&mut self, job: &JobId, input: &Name) -> bool {
        let Some(staged) = self.jobs.get_mut(job) else { return false };
        let failures = staged.failures.entry(input.clone()).or_default();
        *failures = failures.saturating_add(1);
        *failures < ATTEMPTS_MAX
    }

    /// Whether an input of the job failed too often.
    #[must_use]
    pub fn given_up(&self, job: &JobId) -> bool {
        let tried_out = |staged: &Staged| staged.failures.values().any(|&count| count >= ATTEMPTS_MAX);
        self.jobs.get(job).is_some_and(tried_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::Bytes;

    #[test]
    fn b46_the_gate_of_a_staging_pool() {
        let gates = [Some(0.79), Some(0.80), Some(0.95), None].map(|near| gate(true, near, false));
        assert_eq!(gates, [Gate::Wait, Gate::StallExpected, Gate::Start, Gate::Start]);
        assert_eq!(gate(false, Some(0.0), false), Gate::Start, "no stager, no gate");
        assert_eq!(gate(true, Some(0.79), true), Gate::StagingFailed);
        assert_eq!(gate(true, Some(0.94), true), Gate::StallExpected);
        assert_eq!(gate(true, Some(0.1 * 9.5), false), Gate::Start, "compared in billionths");
    }

    #[test]
    fn only_known_sizes_count() {
        let input = |bytes: Option<u64>, tier| Input {
            digest: Name::new("d").unwrap(),
            bytes: bytes.map(Bytes::new),
            tier,
        };
        let (hot, cold) = (Warmth::Hot, Warmth::Cold);
        assert_eq!(near_fraction(None), None);
        assert_eq!(near_fraction(Some(&[])), None);
        assert_eq!(near_fraction(Some(&[input(None, hot)])), None);
        assert_eq!(near_fraction(Some(&[input(Some(0), cold)])), Some(1.0));
        let mixed = [input(Some(3), hot), input(Some(1), cold), input(None, cold)];
        assert_eq!(near_fraction(Some(&mixed)), Some(0.75));
    }

    #[test]
    fn urgent_then_small_then_by_id() {
        let id = |text: &str| JobId::new(text).unwrap();
        let mut queue = StagingQueue::default();
        for (job, class, bytes) in [("a", 1, 1), ("d", 5, 9), ("c", 5, 2), ("b", 5, 2)] {
            queue.add(id(job), class, bytes);
        }
        queue.add(id("a"), 9, 9);
        assert_eq!(queue.iter().map(JobId::as_str).collect::<Vec<_>>(), ["b", "c", "d", "a"]);
        ["a", "b", "c", "d", "e"].iter().for_each(|job| queue.remove(&id(job)));
        assert_eq!(queue, StagingQueue::default());
    }

    #[test]
    fn three_attempts_on_one_input() {
        let (job, [x, y]) = (JobId::new("j").unwrap(), ["x", "y"].map(|name| Name::new(name).unwrap()));
        let mut queue = StagingQueue::default();
        queue.add(job.clone(), 5, 1);
        assert!([&x, &y, &x, &y].into_iter().all(|input| queue.failed(&job, input)));
        assert!(!queue.given_up(&job), "twice each");
        assert!(!queue.failed(&job, &x));
        assert!(queue.given_up(&job));
    }

    #[test]
    fn staging_leaves_most_of_the_storage_alone() {
        assert_eq!(planned_time(2_000_000_000, None), Some(Millis::secs(2)));
        assert_eq!(planned_time(3_000_000_000, Some(1e9)), Some(Millis::secs(10)));
        assert_eq!(planned_time(1_000_000_000, Some(1e12)), Some(Millis::secs(1)));
        assert_eq!(planned_time(1, Some(0.0)), None);
    }
}
