//! Properties of measures on random input.

use proptest::collection::vec;
use proptest::prelude::*;

use super::samples::{job, machine};
use super::*;
use crate::run::TenantRun;

/// Jobs as (queued, wait, run, units), started where a machine of the size given has room, so that the run is valid.
fn schedule(units: u64, wishes: &[(i64, i64, i64, u64)]) -> crate::run::Run {
    let mut jobs: Vec<crate::run::JobRun> = Vec::new();
    for (place, &(queued, wait, run, size)) in wishes.iter().enumerate() {
        let size = size.min(units);
        let mut start = queued + wait;
        // One job of a time: begin when everything before is over, or at once if there is room beside all of them.
        let all: u64 = jobs.iter().map(|job| job.units).sum();
        if all + size > units {
            let last = jobs.iter().filter_map(|job| job.ended).max().map_or(0, |end| end.as_millis() / 1000);
            start = start.max(last);
        }
        jobs.push(job(&format!("j{place}"), queued, size, start, run));
    }
    machine(units, jobs)
}

proptest! {
    #[test]
    fn percentiles_agree_with_a_sorted_list(values in vec(0.0..1e9f64, 1..400)) {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let naive = |p: f64| sorted[((p / 100.0 * sorted.len() as f64 - 1e-9).ceil() as usize).max(1) - 1];
        let found = Distribution::of(&mut values.clone()).unwrap();
        prop_assert_eq!((found.p50, found.p95, found.p99), (naive(50.0), naive(95.0), naive(99.0)));
        prop_assert_eq!(found.max, sorted[sorted.len() - 1]);
        prop_assert_eq!(found.mean, values.iter().sum::<f64>() / values.len() as f64);
    }

    #[test]
    fn jain_is_between_one_of_k_and_one(tenants in vec((0.0..1e6f64, 0.01..1.0f64), 1..12)) {
        prop_assume!(tenants.iter().any(|(delivered, _)| *delivered > 0.0));
        let found = jain(&tenants).unwrap();
        prop_assert!(found <= 1.0 + 1e-9 && found >= 1.0 / tenants.len() as f64 - 1e-9, "{}", found);
    }

    #[test]
    fn a_valid_run_uses_no_more_than_there_is(
        units in 1..64u64,
        wishes in vec((0..1000i64, 0..500i64, 1..500i64, 1..64u64), 1..40),
        (from, length) in (0..1000i64, 1..1000i64),
    ) {
        let run = schedule(units, &wishes);
        let whole = Measures::of(&run).utilisation.unwrap();
        prop_assert!((0.0..=1.0).contains(&whole), "{}", whole);
        let time = landfall_model::Time::from_secs;
        let part = Measures::between(&run, Some(time(from)), Some(time(from + length))).utilisation.unwrap();
        prop_assert!((0.0..=1.0).contains(&part), "{}", part);
    }

    #[test]
    fn parts_add_up_to_the_whole(wishes in vec((0..1000i64, 0..500i64, 1..500i64, 1..64u64), 1..40)) {
        let mut run = schedule(64, &wishes);
        run.tenants = (0..3).map(|i| TenantRun { name: format!("t{i}"), share: 0.25 }).collect();
        for (place, job) in run.jobs.iter_mut().enumerate() {
            job.tenant = Some(place as u32 % 3);
        }
        let found = Measures::of(&run);
        for groups in [&found.tenants, &found.sizes] {
            prop_assert_eq!(groups.iter().map(|group| group.jobs).sum::<u64>(), found.jobs);
            let parts: f64 = groups.iter().filter_map(|group| group.part).sum();
            prop_assert!((parts - 1.0).abs() < 1e-9);
        }
        let largest = found.share_deviation.unwrap().value;
        prop_assert!(found.tenants.iter().all(|group| group.off_share().unwrap().abs() <= largest + 1e-9));
    }

    #[test]
    fn slowdown_is_at_least_one_and_grows_with_the_wait(wait in 0.0..1e6f64, more in 0.0..1e6f64, run in 0.0..1e6f64) {
        let found = bounded_slowdown(wait, run);
        prop_assert!(found >= 1.0 && bounded_slowdown(wait + more, run) >= found);
    }
}
