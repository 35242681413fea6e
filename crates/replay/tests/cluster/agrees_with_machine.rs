//! The planner that counts and the whole engine, with its solver and ledger, make the same schedule of alike nodes.

use landfall_engine::counted::{Mode, Rules};
use landfall_replay::machine::{self, Estimate, Events};
use landfall_replay::trace::batch::BatchJob;
use proptest::prelude::*;

use crate::world::{ON_EVENTS, Row, arrival, engine, replay, starts};

const NODES: u64 = 6;

fn workload() -> impl Strategy<Value = Vec<BatchJob>> {
    let row = (0i64..4, 1u64..=NODES, 1i64..20, 0i64..3);
    prop::collection::vec(row, 1..16).prop_map(|rows| {
        let mut submit = 0;
        let made = rows.into_iter().zip(1..).map(|((gap, procs, run, over), number)| {
            submit += gap * 2;
            let estimate = run + over * 7;
            BatchJob { number, submit, run, procs, estimate, user: 0, group: 0, executable: 0, wait: -1 }
        });
        made.collect()
    })
}

fn counted(jobs: &[BatchJob], mode: Mode, ranked: bool) -> Vec<i64> {
    let rules = Rules::asked(mode, ranked);
    let settings = machine::Settings {
        procs: NODES as u32,
        planning: rules.into(),
        events: Events::Batch,
        cycle: None,
        estimate: Estimate::User,
    };
    let schedule = machine::simulate(jobs, settings, &mut |_| true);
    schedule.started.iter().map(|at| at.map_or(-1, |at| at.as_millis() / 1000)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn both_start_every_job_at_the_same_instant(jobs in workload(), mode in 0usize..7) {
        let conservative = |standing| Mode::Reserving { depth: None, standing };
        let (mode, ranked, settings) = [
            (Mode::Strict, false, "backfill = \"strict\""),
            (Mode::Greedy, false, "backfill = \"greedy\""),
            (Mode::Easy, false, "backfill = \"easy\""),
            (Mode::Easy, true, "backfill = \"easy\"\nbackfill_order = \"shortest\""),
            (conservative(true), false, "backfill = \"conservative\""),
            (conservative(false), false, "backfill = \"conservative\"\nreservations = \"rebuild\""),
            (Mode::Reserving { depth: Some(3), standing: true }, false, "backfill = \"easy\"\ndepth = 3"),
        ][mode];
        let ids: Vec<String> = jobs.iter().map(|job| format!("j{:02}", job.number)).collect();
        let arrivals = jobs.iter().zip(&ids).map(|(job, id)| {
            arrival(&Row {
                id,
                submit: job.submit,
                nodes: job.procs as u32,
                walltime: job.estimate as u64,
                run: job.run as u64,
                tenant: None,
                qos_wait: None,
            })
        });
        let settings = format!("order = \"fifo\"\npreemption = false\n{ON_EVENTS}{settings}");
        let run = replay(engine(NODES as usize, &settings, ""), arrivals.collect(), Vec::new());
        prop_assert_eq!(starts(&run), counted(&jobs, mode, ranked), "{}", settings);
    }
}
