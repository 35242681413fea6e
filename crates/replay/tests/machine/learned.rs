//! The planner that learns: against a plain second version, and what every schedule of it must keep to.

use landfall_engine::counted::learned;
use landfall_model::Millis;
use landfall_replay::machine::{Estimate, Events, Schedule, Settings, simulate};
use landfall_replay::trace::batch::BatchJob;
use proptest::prelude::*;

use crate::against_naive::{PROCS, keeps_to_the_machine, nobody_is_late, secs, workload};
use crate::naive_learned;
use crate::tables::job;

/// Settings for workloads of a few minutes.
fn settings() -> impl Strategy<Value = learned::Settings> {
    let spans = (0u64..60, 1u64..12, 0u64..30, 0u64..90);
    (spans, 0u32..5, 1u16..9).prop_map(|((patience, bound, grace, limit), promises, memory)| {
        let [patience, bound, grace, limit] = [patience, bound, grace, limit].map(Millis::secs);
        learned::Settings { patience, promises, grace, limit, memory, bound }
    })
}

fn on(procs: u64, planning: learned::Settings, events: Events) -> Settings {
    let planning = planning.into();
    Settings { procs: procs as u32, planning, events, cycle: None, estimate: Estimate::User }
}

fn replay(jobs: &[BatchJob], settings: Settings) -> Schedule {
    simulate(jobs, settings, &mut |_| true)
}

fn events(single: bool) -> Events {
    if single { Events::Single } else { Events::Batch }
}

const ESTIMATES: [Estimate; 3] = [Estimate::User, Estimate::True, Estimate::Double];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_schedule_is_the_plain_one(jobs in workload(), learned in settings(), single: bool) {
        let schedule = replay(&jobs, on(PROCS, learned, events(single)));
        let plain = naive_learned::learned(&jobs, PROCS, learned, events(single));
        prop_assert_eq!(secs(&schedule), plain.started);
        let promised: Vec<_> =
            schedule.promised.iter().map(|at| at.map(|at| at.as_millis() / 1000)).collect();
        prop_assert_eq!(promised, plain.promised);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn nobody_starts_later_than_promised(
        jobs in workload(), learned in settings(), single: bool, told in 0usize..3,
    ) {
        let settings = Settings { estimate: ESTIMATES[told], ..on(PROCS, learned, events(single)) };
        let schedule = replay(&jobs, settings);
        keeps_to_the_machine(&jobs, &schedule)?;
        prop_assert_eq!(schedule.moved_later, 0);
        prop_assert!(nobody_is_late(&schedule));
        prop_assert_eq!(replay(&jobs, settings), schedule, "the same again");
    }

    #[test]
    fn every_job_starts_though_passes_come_late(jobs in workload(), learned in settings(), beat in 1u64..20) {
        let cycle = Some(Millis::secs(beat));
        let schedule = replay(&jobs, Settings { cycle, ..on(PROCS, learned, Events::Batch) });
        keeps_to_the_machine(&jobs, &schedule)?;
    }

    #[test]
    fn who_has_waited_long_enough_gets_a_promise(jobs in workload(), learned in settings(), single: bool) {
        let learned = learned::Settings { promises: u32::MAX, ..learned };
        let schedule = replay(&jobs, on(PROCS, learned, events(single)));
        let starts = secs(&schedule);
        let arrivals = jobs.iter().map(|job| job.submit);
        let ends = jobs.iter().zip(&starts).map(|(job, start)| start + job.run);
        let passes: Vec<i64> = arrivals.chain(ends).collect();
        for (at, job) in jobs.iter().enumerate() {
            let impatient = job.submit + learned.patience.get() as i64 / 1000;
            let was_due = passes.iter().any(|pass| (impatient..starts[at]).contains(pass));
            let promised = schedule.promised[at].is_some();
            // Among events of one instant a promise may come just before the start.
            prop_assert!(promised == was_due || (single && promised), "job {}", job.number);
        }
    }

    #[test]
    fn no_more_promises_stand_at_once_than_are_allowed(jobs in workload(), learned in settings()) {
        let schedule = replay(&jobs, on(PROCS, learned, Events::Batch));
        if learned.promises == 0 {
            prop_assert!(schedule.promised.iter().all(Option::is_none));
        }
        // With one promise at a time, holders start in the order in which they came.
        let one = learned::Settings { promises: 1, ..learned };
        let schedule = replay(&jobs, on(PROCS, one, Events::Batch));
        let holders = (0..jobs.len()).filter(|at| schedule.promised[*at].is_some());
        prop_assert!(holders.map(|at| schedule.started[at]).is_sorted());
    }
}

/// A wide job behind an endless stream of narrow ones, two of which always run.
fn wide_among_narrow() -> Vec<BatchJob> {
    let mut jobs = vec![job(1, 0, 2, 10), job(2, 1, 4, 100)];
    jobs.extend((1..200).map(|at| job(at + 2, at * 5, 2, 10)));
    jobs
}

#[test]
fn a_wide_job_starves_without_a_promise_and_not_with_one() {
    let jobs = wide_among_narrow();
    let patience = Millis::secs(60);
    let start = |promises| {
        let learned =
            learned::Settings { patience, promises, grace: Millis::ZERO, ..learned::Settings::default() };
        let schedule = replay(&jobs, on(4, learned, Events::Batch));
        (secs(&schedule)[1], schedule.promised[1].map(|at| at.as_millis() / 1000))
    };
    assert_eq!(start(0), (1005, None));
    // It has waited for 61 s when the pass at 65 s sees it; the newest narrow job holds until 75 s.
    assert_eq!(start(5), (75, Some(75)));
}

#[test]
fn short_jobs_go_before_a_holder_while_grace_is_given() {
    // The wide job is promised the time at which the first one ends, and with grace a time 20 s later; a job of 30 s
    // that ends by then goes first.
    let jobs = [job(1, 0, 2, 100), job(2, 1, 4, 100), job(3, 70, 4, 500), job(4, 90, 2, 30)];
    let start = |grace, limit| {
        let [grace, limit, patience] = [grace, limit, 60].map(Millis::secs);
        let learned =
            learned::Settings { patience, promises: 1, grace, limit, ..learned::Settings::default() };
        let schedule = replay(&jobs, on(4, learned, Events::Batch));
        (secs(&schedule), schedule.promised[1].map(|at| at.as_millis() / 1000))
    };
    assert_eq!(start(0, 1000), (vec![0, 100, 230, 200], Some(100)));
    assert_eq!(start(20, 1000), (vec![0, 120, 220, 90], Some(120)));
    assert_eq!(start(20, 60), (vec![0, 100, 230, 200], Some(100)), "who has waited long enough gives none");
}

#[test]
fn the_first_of_many_alike_goes_first_so_that_the_others_are_known() {
    // A stranger's ten jobs ask for as much as the one before them and take next to nothing.
    let asks = |number, submit, run, user| BatchJob { estimate: 1000, user, ..job(number, submit, 4, run) };
    let mut jobs = vec![asks(1, 0, 100, 1), asks(2, 1, 1000, 2)];
    jobs.extend((0..10).map(|at| asks(3 + at, 2, 1, 3)));
    let starts = secs(&replay(&jobs, on(4, learned::Settings::default(), Events::Batch)));
    assert_eq!(starts[1..4], [110, 100, 101]);
}

#[test]
fn short_jobs_go_first_once_their_user_is_known_for_them() {
    // Both users ask for 1000 s. The first one's jobs take a tenth of that, as the planner sees five times.
    let asks = |number, submit, run, user| BatchJob { estimate: 1000, user, ..job(number, submit, 4, run) };
    let mut jobs: Vec<BatchJob> = (0..5).map(|at| asks(at + 1, at * 100, 100, 1)).collect();
    jobs.extend([asks(6, 450, 1000, 2), asks(7, 450, 100, 1)]);
    let schedule = replay(&jobs, on(4, learned::Settings::default(), Events::Batch));
    assert_eq!(secs(&schedule)[5..], [600, 500]);
}
