//! The planner that counts and the whole engine, with its solver and ledger, make the same schedule of alike nodes.

use landfall_engine::counted::{Mode, Rules, learned};
use landfall_model::Millis;
use landfall_replay::machine::{self, Estimate, Events, Planning};
use landfall_replay::trace::batch::BatchJob;
use proptest::prelude::*;

use crate::world::{ON_EVENTS, Row, arrival, engine, replay, starts};

const NODES: u64 = 6;

fn workload() -> impl Strategy<Value = Vec<BatchJob>> {
    let row = (0i64..4, 1u64..=NODES, 1i64..20, 0i64..3, 0i64..3);
    prop::collection::vec(row, 1..16).prop_map(|rows| {
        let mut submit = 0;
        let made = rows.into_iter().zip(1..).map(|((gap, procs, run, over, user), number)| {
            submit += gap * 2;
            let estimate = run + over * 7;
            BatchJob { number, submit, run, procs, estimate, user, group: 0, executable: 0, wait: -1 }
        });
        made.collect()
    })
}

/// When each job starts in a batch pool with these settings.
fn live(jobs: &[BatchJob], settings: &str) -> Vec<i64> {
    let ids: Vec<String> = jobs.iter().map(|job| format!("j{:02}", job.number)).collect();
    let arrivals = jobs.iter().zip(&ids).map(|(job, id)| {
        arrival(&Row {
            id,
            submit: job.submit,
            nodes: job.procs as u32,
            walltime: job.estimate as u64,
            run: job.run as u64,
            user: job.user,
            tenant: None,
            qos_wait: None,
        })
    });
    let settings = format!("preemption = false\n{ON_EVENTS}{settings}");
    starts(&replay(engine(NODES as usize, &settings, ""), arrivals.collect(), Vec::new()))
}

fn counted(jobs: &[BatchJob], planning: Planning) -> Vec<i64> {
    let settings = machine::Settings {
        procs: NODES as u32,
        planning,
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
        let settings = format!("order = \"fifo\"\n{settings}");
        let counted = counted(&jobs, Rules::asked(mode, ranked).into());
        prop_assert_eq!(live(&jobs, &settings), counted, "{}", settings);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// What `landfall-batch` does with a log is what a pool does that is told so.
    #[test]
    fn both_learn_and_promise_the_same(
        jobs in workload(), spans in (0u64..60, 0u64..30, 0u64..90), promises in 1u32..4,
    ) {
        let [patience, grace, limit] = [spans.0, spans.1, spans.2].map(Millis::secs);
        let settings = format!(
            "order = \"learned\"\nbackfill = \"promises\"\ndepth = {promises}\npromise_after_ms = {}\n\
             promise_grace_ms = {}\npromise_limit_ms = {}\n",
            patience.get(), grace.get(), limit.get()
        );
        let learned = learned::Settings { patience, promises, grace, limit, ..learned::Settings::USUAL };
        let counted = counted(&jobs, learned.into());
        // Of ends at one instant logs tell first who started first, clusters by id; what is learned depends on it.
        let mut ends: Vec<_> = jobs.iter().zip(&counted).map(|(job, start)| (job.user, start + job.run)).collect();
        ends.sort_unstable();
        prop_assume!(ends.windows(2).all(|pair| pair[0] != pair[1]));
        prop_assert_eq!(live(&jobs, &settings), counted, "{}", settings);
    }
}
