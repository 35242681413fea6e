//! What is particular to the planner alone: jobs that outlive their durations, and who counts as overtaking.

use landfall_model::{Millis, Time};

use super::super::planner::{Start, Ticket};
use super::{Ask, Planner, Settings};

fn planner() -> Planner {
    Planner::new(4, Settings { patience: Millis::secs(50), grace: Millis::ZERO, ..Settings::default() })
}

fn submit(planner: &mut Planner, at: i64, units: u32, secs: u64) -> Option<Ticket> {
    planner.submit(Time::from_secs(at), Ask { units, duration: Millis::secs(secs), user: 1 })
}

fn pass(planner: &mut Planner, at: i64) -> Vec<(Ticket, bool)> {
    let mut starts = Vec::new();
    planner.pass(Time::from_secs(at), &mut starts);
    starts.into_iter().map(|Start { ticket, backfill }| (ticket, backfill)).collect()
}

fn promises(planner: &Planner) -> Vec<(Ticket, i64)> {
    planner.promises().map(|(ticket, at)| (ticket, at.as_millis() / 1000)).collect()
}

#[test]
fn what_can_never_fit_is_not_taken_in() {
    let mut planner = planner();
    assert_eq!(submit(&mut planner, 0, 5, 10), None);
    assert_eq!(submit(&mut planner, 0, 0, 10), None);
    assert!(planner.is_idle());
    assert_eq!(submit(&mut planner, 0, 4, 10), Some(0));
    assert!(!planner.is_idle());
}

#[test]
fn who_starts_while_an_older_one_waits_has_overtaken() {
    let mut planner = planner();
    for (units, secs) in [(3, 100), (4, 100), (1, 10)] {
        submit(&mut planner, 0, units, secs);
    }
    // The narrow jobs are cheap; of the two only the last came after one that is left waiting.
    assert_eq!(pass(&mut planner, 0), [(2, true), (0, false)]);
    assert_eq!(planner.free(), 0);
}

#[test]
fn a_promise_moves_earlier_with_an_early_end_and_later_only_if_a_job_outlives_its_duration() {
    let mut planner = planner();
    submit(&mut planner, 0, 2, 100);
    submit(&mut planner, 0, 2, 200);
    assert_eq!(pass(&mut planner, 0), [(0, false), (1, false)]);
    submit(&mut planner, 1, 3, 100);
    assert_eq!(pass(&mut planner, 1), []);
    assert_eq!(promises(&planner), [], "it has not waited long enough");
    submit(&mut planner, 60, 4, 10);
    assert_eq!(pass(&mut planner, 60), []);
    assert_eq!(promises(&planner), [(2, 200)]);
    planner.end(Time::from_secs(110), 0);
    assert_eq!(pass(&mut planner, 110), []);
    assert_eq!(promises(&planner), [(2, 200), (3, 300)]);
    // The second job does not end when its time is over; both who wait for it move, and nobody is lost.
    assert_eq!(pass(&mut planner, 205), []);
    assert_eq!(promises(&planner), [(2, 205), (3, 305)]);
    assert_eq!(planner.moved_later(), 2);
    planner.end(Time::from_secs(210), 1);
    assert_eq!(pass(&mut planner, 210), [(2, false)]);
    planner.end(Time::from_secs(215), 2);
    assert_eq!(pass(&mut planner, 215), [(3, false)]);
    assert!(planner.is_idle());
}

#[test]
fn jobs_without_a_promise_take_only_what_holders_leave() {
    let mut planner = planner();
    submit(&mut planner, 0, 2, 100);
    submit(&mut planner, 0, 3, 100);
    pass(&mut planner, 0);
    pass(&mut planner, 50);
    assert_eq!(promises(&planner), [(1, 100)]);
    // Two are free now, one beside the holder from 100 s on.
    for (units, secs) in [(2, 51), (1, 500), (1, 51), (1, 50)] {
        submit(&mut planner, 50, units, secs);
    }
    let mut started: Vec<Ticket> = pass(&mut planner, 50).into_iter().map(|(ticket, _)| ticket).collect();
    started.sort_unstable();
    assert_eq!(started, [4, 5]);
    assert_eq!(promises(&planner), [(1, 100)]);
}

#[test]
fn the_longest_durations_do_no_harm() {
    let mut planner = Planner::new(4, Settings { patience: Millis::ZERO, ..Settings::default() });
    let forever = Millis::new(u64::MAX);
    for units in [3, 2, 4] {
        planner.submit(Time::ZERO, Ask { units, duration: forever, user: i64::MIN });
        pass(&mut planner, 1);
    }
    planner.end(Time::from_secs(2), 0);
    assert_eq!(pass(&mut planner, 2), [(1, false)]);
    planner.end(Time::from_secs(3), 1);
    assert_eq!(pass(&mut planner, 3), [(2, false)]);
}

#[test]
fn a_pool_promises_by_default_what_logs_are_replayed_with() {
    let (pool, log) = (landfall_model::BatchSettings::default(), Settings::USUAL);
    assert_eq!(
        (pool.promise_after_ms, pool.promise_grace_ms, pool.promise_limit_ms),
        (log.patience, log.grace, log.limit)
    );
}
