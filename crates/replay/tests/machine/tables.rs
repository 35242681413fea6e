//! Acceptance cases B27 and B29 of batch scheduling.

use landfall_engine::counted::{Corrector, Mode, Rules};
use landfall_model::Millis;
use landfall_replay::machine::{Estimate, Events, Settings, simulate};
use landfall_replay::trace::batch::BatchJob;

/// A job that knows how long it takes.
pub(crate) fn job(number: i64, submit: i64, procs: u64, run: i64) -> BatchJob {
    BatchJob { number, submit, run, procs, estimate: run, user: -1, group: -1, executable: -1, wait: -1 }
}

fn seven() -> Vec<BatchJob> {
    let rows =
        [(0, 2, 200), (20, 3, 100), (30, 1, 40), (40, 3, 100), (50, 2, 120), (50, 1, 120), (50, 1, 80)];
    rows.iter().zip(1..).map(|(&(submit, procs, run), number)| job(number, submit, procs, run)).collect()
}

fn starts(rules: Rules, cycle: Option<Millis>) -> Vec<i64> {
    let settings =
        Settings { procs: 4, planning: rules.into(), events: Events::Batch, cycle, estimate: Estimate::User };
    let schedule = simulate(&seven(), settings, &mut |_| true);
    schedule.started.iter().map(|start| start.map_or(-1, |start| start.as_millis() / 1000)).collect()
}

const fn rules(mode: Mode, ranked: bool) -> Rules {
    Rules::asked(mode, ranked)
}

#[test]
fn b27_starts_of_seven_jobs_in_every_mode() {
    let conservative = Mode::Reserving { depth: None, standing: true };
    let table = [
        (rules(Mode::Strict, false), [0, 200, 200, 300, 400, 400, 400]),
        (rules(Mode::Greedy, false), [0, 290, 30, 390, 170, 50, 70]),
        (rules(Mode::Easy, false), [0, 200, 30, 300, 400, 50, 70]),
        (rules(Mode::Easy, true), [0, 200, 30, 300, 400, 70, 50]),
        (rules(conservative, false), [0, 200, 30, 300, 70, 190, 310]),
        // The walk with promises gives textbook EASY when it promises one job a time.
        (rules(Mode::Reserving { depth: Some(1), standing: true }, false), [0, 200, 30, 300, 400, 50, 70]),
        (rules(Mode::Reserving { depth: Some(1), standing: true }, true), [0, 200, 30, 300, 400, 70, 50]),
    ];
    for (rules, expected) in table {
        assert_eq!(starts(rules, None), expected, "{rules:?}");
    }
}

#[test]
fn b29_a_beat_of_five_seconds_changes_nothing_where_all_times_fall_on_it() {
    let easy = rules(Mode::Easy, false);
    assert_eq!(starts(easy, Some(Millis::secs(5))), starts(easy, None));
    // A beat that times do not fall on delays starts to the next one.
    assert_eq!(starts(easy, Some(Millis::secs(7)))[2], 35);
}

/// Two jobs teach that user 1 needs 15 s. The fourth takes the whole machine and is blocked; the fifth is user 1's, asks
/// for 100 s, is expected to take 15 and takes 40; the sixth asks for 60 s and fits if the fifth is expected to go on.
fn six() -> Vec<BatchJob> {
    let rows = [
        (0, 4, 10, 100, 1),
        (10, 4, 20, 100, 1),
        (30, 2, 50, 50, 2),
        (31, 4, 50, 50, 2),
        (32, 1, 40, 100, 1),
        (50, 1, 60, 60, 3),
    ];
    let made = rows.iter().zip(1..).map(|(&(submit, procs, run, estimate, user), number)| BatchJob {
        estimate,
        user,
        ..job(number, submit, procs, run)
    });
    made.collect()
}

#[test]
fn predictions_and_what_becomes_of_those_that_are_outlived_worked_by_hand() {
    let learned = |corrector| Rules { mode: Mode::Easy, ranked: true, learned: Some(corrector) };
    let table = [
        (rules(Mode::Easy, true), [0, 10, 30, 80, 130, 130]),
        // From 47 s on the fifth is expected until 132 s, so the head waits for that, and the sixth is over by then.
        (learned(Corrector::Asked), [0, 10, 30, 110, 32, 50]),
        // From 47 s on the fifth is expected until 107 s, and the sixth would be in the way.
        (learned(Corrector::Steps), [0, 10, 30, 80, 32, 130]),
    ];
    for (rules, expected) in table {
        for events in [Events::Batch, Events::Single] {
            let settings =
                Settings { procs: 4, planning: rules.into(), events, cycle: None, estimate: Estimate::User };
            let schedule = simulate(&six(), settings, &mut |_| true);
            let starts: Vec<i64> =
                schedule.started.iter().map(|start| start.map_or(-1, |at| at.as_millis() / 1000)).collect();
            assert_eq!(starts, expected, "{rules:?} {events:?}");
        }
    }
}
