//! The planner against schedules worked out plainly, and what every schedule must keep to.

use landfall_engine::counted::{Corrector, Mode, Rules};
use landfall_model::{Millis, Time};
use landfall_replay::machine::{Estimate, Events, Schedule, Settings, simulate};
use landfall_replay::trace::batch::BatchJob;
use proptest::prelude::*;

use crate::naive;

pub(crate) const PROCS: u64 = 16;

/// Workloads with many ties: few sizes, few lengths, few users, arrivals in bursts.
pub(crate) fn workload() -> impl Strategy<Value = Vec<BatchJob>> {
    let row = (0i64..4, 1u64..=PROCS, 1i64..30, 0i64..3, 0i64..3);
    prop::collection::vec(row, 1..60).prop_map(|rows| {
        let mut submit = 0;
        let made = rows.into_iter().zip(1..).map(|((gap, procs, run, over, user), number)| {
            submit += gap * 3;
            let estimate = run + over * 10;
            BatchJob { number, submit, run, procs, estimate, user, group: 0, executable: 0, wait: -1 }
        });
        made.collect()
    })
}

fn replay(jobs: &[BatchJob], mode: Mode, ranked: bool, events: Events) -> Schedule {
    let rules = Rules::asked(mode, ranked);
    let settings = Settings {
        procs: PROCS as u32,
        planning: rules.into(),
        events,
        cycle: None,
        estimate: Estimate::User,
    };
    simulate(jobs, settings, &mut |_| true)
}

pub(crate) fn secs(schedule: &Schedule) -> Vec<i64> {
    schedule.started.iter().map(|start| start.expect("started").as_millis() / 1000).collect()
}

/// Processors in use never exceed the machine, no job starts before it came, and each starts once.
pub(crate) fn keeps_to_the_machine(jobs: &[BatchJob], schedule: &Schedule) -> Result<(), TestCaseError> {
    let starts = secs(schedule);
    prop_assert_eq!(schedule.order.len(), jobs.len());
    let mut changes: Vec<(i64, i64)> = Vec::new();
    for (job, start) in jobs.iter().zip(&starts) {
        prop_assert!(*start >= job.submit);
        changes.push((*start, job.procs as i64));
        changes.push((start + job.run, -(job.procs as i64)));
    }
    // Ends sort before starts of the same instant.
    changes.sort_unstable();
    let mut used = 0;
    for (_, change) in changes {
        used += change;
        prop_assert!(used <= PROCS as i64);
    }
    Ok(())
}

pub(crate) fn nobody_is_late(schedule: &Schedule) -> bool {
    let late = |(promised, started): (&Option<Time>, &Option<Time>)| promised.is_some() && started > promised;
    !schedule.promised.iter().zip(&schedule.started).any(late)
}

const CONSERVATIVE: Mode = Mode::Reserving { depth: None, standing: true };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn easy_is_the_plain_one(jobs in workload(), shortest: bool) {
        let schedule = replay(&jobs, Mode::Easy, shortest, Events::Batch);
        prop_assert_eq!(secs(&schedule), naive::easy(&jobs, PROCS, shortest));
    }

    #[test]
    fn easy_is_the_walk_with_one_promise(jobs in workload(), shortest: bool, standing: bool) {
        let one = Mode::Reserving { depth: Some(1), standing };
        let walked = replay(&jobs, one, shortest, Events::Batch);
        prop_assert_eq!(secs(&replay(&jobs, Mode::Easy, shortest, Events::Batch)), secs(&walked));
    }

    #[test]
    fn no_processor_is_given_twice(jobs in workload(), ranked: bool, single: bool, mode in 0usize..6) {
        let modes = [
            Mode::Strict,
            Mode::Greedy,
            Mode::Easy,
            CONSERVATIVE,
            Mode::Reserving { depth: None, standing: false },
            Mode::Reserving { depth: Some(3), standing: true },
        ];
        let events = if single { Events::Single } else { Events::Batch };
        keeps_to_the_machine(&jobs, &replay(&jobs, modes[mode], ranked, events))?;
    }

    #[test]
    fn nobody_starts_later_than_promised(jobs in workload(), ranked: bool, single: bool, depth in 0u32..4) {
        let mode = match depth {
            0 => CONSERVATIVE,
            1 => Mode::Easy,
            depth => Mode::Reserving { depth: Some(depth), standing: true },
        };
        let events = if single { Events::Single } else { Events::Batch };
        let schedule = replay(&jobs, mode, ranked, events);
        prop_assert_eq!(schedule.moved_later, 0);
        prop_assert!(nobody_is_late(&schedule));
    }

    #[test]
    fn with_predictions_every_job_still_starts_once(
        jobs in workload(), steps: bool, ranked: bool, single: bool, beat in 0u64..9,
    ) {
        let corrector = if steps { Corrector::Steps } else { Corrector::Asked };
        let settings = Settings {
            procs: PROCS as u32,
            planning: Rules { mode: Mode::Easy, ranked, learned: Some(corrector) }.into(),
            events: if single { Events::Single } else { Events::Batch },
            cycle: (beat > 0).then(|| Millis::secs(beat)),
            estimate: Estimate::User,
        };
        keeps_to_the_machine(&jobs, &simulate(&jobs, settings, &mut |_| true))?;
    }

    #[test]
    fn strict_order_is_never_overtaken(jobs in workload()) {
        let starts = secs(&replay(&jobs, Mode::Strict, false, Events::Batch));
        prop_assert!(starts.is_sorted());
    }
}
