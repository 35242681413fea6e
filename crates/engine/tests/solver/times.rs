//! Reservations, backfill and planned times (cases B24 to B26).

use landfall_engine::solver::{MoveCause, Precision, Reason};
use landfall_model::{BackfillOrder, Dispatch, JobSpec, Learn, Millis, Pool, Price, PriceSettings, Time};

use super::support::{Setting, groups, job_id, nodes_of, planned, pool_id, reserved, spec, starts, wait_of};

/// Four nodes, two of them busy for 2 h; `first` wants all four for 1 h.
fn b24(class: u8) -> Setting {
    let mut setting = Setting::new(groups(&[4]));
    setting.run("x", spec(2, 4), &["a1", "a2"], Some(7200));
    setting.wait("first", JobSpec { class, ..spec(4, 1) });
    setting
}

#[test]
fn b24_who_may_overtake() {
    for (hours, starts_now) in [(0, false), (1, true), (2, true), (3, false)] {
        let mut setting = b24(8);
        setting.wait("second", JobSpec { class: 1, ..spec(2, hours) });
        let plan = setting.plan();
        assert_eq!(reserved(&plan, "first"), Some(7200));
        assert_eq!(planned(&plan, "first"), Some(7200));
        assert_eq!(nodes_of(&plan, "second") == "a3 a4", starts_now, "{hours} h");
        if starts_now {
            assert!(starts(&plan)[0].backfill);
        } else {
            let wait = wait_of(&plan, "second");
            assert_eq!(wait.reason, Reason::Reserved);
            assert_eq!(wait.refusals[0].jobs[0].as_str(), "first", "the job in the way is named");
            assert_eq!((wait.position, wait.ahead.as_ref().unwrap().as_str()), (2, "first"));
            assert_eq!(planned(&plan, "second"), Some(10_800), "{hours} h");
        }
    }
}

#[test]
fn b25_what_a_reservation_leaves() {
    let mut setting = Setting::new(groups(&[10]));
    setting.run("x", spec(6, 4), &["a1", "a2", "a3", "a4", "a5", "a6"], Some(7200));
    setting.wait("first", spec(8, 1)).wait("second", spec(2, 1));
    let plan = setting.plan();
    assert_eq!((starts(&plan).len(), reserved(&plan, "first")), (1, Some(7200)));
    let mut setting = Setting::new(groups(&[8]));
    setting.run("x", spec(4, 4), &["a1", "a2", "a3", "a4"], Some(3600));
    setting.wait("first", spec(6, 1)).wait("second", spec(4, 2));
    let plan = setting.plan();
    assert_eq!((starts(&plan).len(), planned(&plan, "second")), (0, Some(7200)));
}

#[test]
fn b26_a_higher_class_is_not_bound() {
    let standing = b24(5).plan().reservations;
    for (class, want) in [(5, None), (6, Some(10_805))] {
        let mut setting = b24(5);
        setting.now = Time::from_secs(5);
        setting.reservations = standing.clone();
        setting.waiting.clear();
        setting.wait("urgent", JobSpec { class, ..spec(2, 3) }).wait("first", spec(4, 1));
        let plan = setting.plan();
        match want {
            None => {
                assert_eq!(planned(&plan, "urgent"), Some(10_800));
                assert_eq!(reserved(&plan, "first"), Some(7200), "the reservation stands");
                assert!(plan.moved.is_empty());
            }
            Some(at) => {
                assert_eq!(nodes_of(&plan, "urgent"), "a3 a4");
                assert_eq!(planned(&plan, "first"), Some(at));
                let moved = &plan.moved[0];
                assert_eq!((moved.cause, moved.to), (MoveCause::HigherClass, Some(Time::from_secs(at))));
            }
        }
    }
}

#[test]
fn a_reservation_moves_only_for_a_cause_that_is_named() {
    let standing = b24(5).plan().reservations;
    let mut setting = b24(5);
    setting.now = Time::from_secs(7205);
    setting.reservations = standing.clone();
    let plan = setting.plan();
    assert_eq!(plan.moved[0].cause, MoveCause::Overrun, "the busy nodes were not given back in time");
    assert_eq!(plan.moved[0].to, Some(Time::from_secs(7230)), "when the kill grace is over");
    let mut setting = b24(5);
    setting.now = Time::from_secs(5);
    setting.nodes[3].state = landfall_model::NodeState::Down;
    setting.reservations = standing;
    let plan = setting.plan();
    assert_eq!((plan.moved[0].cause, plan.moved[0].to), (MoveCause::NodeLost, None));
    assert_eq!(wait_of(&plan, "first").precision, Precision::None);
    assert!(wait_of(&plan, "first").refusals.iter().any(|r| r.reason == Reason::BeyondHorizon));
}

#[test]
fn a_reservation_that_raised_prices_move_says_so() {
    let mut pool = Pool::new(pool_id("p"), Dispatch::Batch);
    pool.price = Some(PriceSettings { base: 0.1, surge: true, ..PriceSettings::default() });
    let mut setting = b24(5);
    setting.world.pools.insert(pool_id("p"), pool);
    setting.waiting.clear();
    setting.wait("first", JobSpec { max_price: Price::of(0.05), ..spec(4, 1) });
    setting.reservations = setting.plan().reservations;
    assert_eq!(setting.reservations.len(), 1);
    for (surges, cause) in [(false, MoveCause::Overrun), (true, MoveCause::Surge)] {
        setting.now = Time::from_secs(7205);
        setting.world.surging = surges.then(|| pool_id("p")).into_iter().collect();
        let plan = setting.plan();
        assert_eq!(plan.moved[0].cause, cause, "prices raised: {surges}");
        assert_eq!(plan.moved[0].to.is_none(), surges, "nobody knows how long they stay raised");
    }
}

#[test]
fn work_without_end_never_gives_nodes_back() {
    let mut setting = Setting::new(groups(&[2]));
    setting.run("x", spec(2, 0), &["a1", "a2"], None);
    setting.wait("j", spec(1, 1));
    let plan = setting.plan();
    assert_eq!((planned(&plan, "j"), wait_of(&plan, "j").precision), (None, Precision::None));
    assert!(wait_of(&plan, "j").refusals.iter().any(|r| r.reason == Reason::BeyondHorizon));
}

#[test]
fn likely_times_scale_what_runs_and_what_waits() {
    let mut setting = b24(5);
    let room = landfall_engine::solver::TenantRoom::unlimited(None);
    setting.tenants.push(landfall_engine::solver::TenantRoom { likely_factor: 0.75, ..room });
    setting.wait("second", spec(4, 1));
    let plan = setting.plan();
    let likely = |job| wait_of(&plan, job).likely_start.unwrap().as_millis() / 1000;
    // x began 2 h ago with 4 h: at three quarters it has one more hour.
    assert_eq!((planned(&plan, "first"), likely("first")), (Some(7200), 3600));
    assert_eq!((planned(&plan, "second"), likely("second")), (Some(10_800), 3600 + 2700));
}

/// B24 in a pool that learns: `x` is expected to be over after ten minutes.
fn learning(learn: Learn) -> Setting {
    let mut setting = b24(5);
    setting.settings.learn = learn;
    setting.running[0].expected_end = Some(Time::from_secs(600));
    setting
}

#[test]
fn those_expected_to_be_over_first_come_first() {
    for (learn, order, first) in [
        (Learn::Off, BackfillOrder::Queue, "a"),
        (Learn::Off, BackfillOrder::Shortest, "b"),
        (Learn::Order, BackfillOrder::Queue, "c"),
    ] {
        let mut setting = learning(learn);
        setting.settings.backfill_order = order;
        setting.wait("a", JobSpec { walltime_ms: Millis::secs(5000), ..spec(2, 1) });
        setting.wait("b", JobSpec { walltime_ms: Millis::secs(4000), ..spec(2, 1) });
        setting.wait("c", JobSpec { walltime_ms: Millis::secs(6000), ..spec(2, 1) });
        if learn != Learn::Off {
            setting.expected.insert(job_id("c"), Millis::secs(600));
        }
        let plan = setting.plan();
        assert_eq!(nodes_of(&plan, first), "a3 a4", "{learn:?} {order:?}");
        assert_eq!(reserved(&plan, "first"), Some(7200), "nobody's word but x's own is taken for its end");
    }
}

#[test]
fn likely_times_are_those_that_were_learned_within_their_range() {
    let mut setting = learning(Learn::Order);
    setting.spread = Some((0.95, 1.1));
    let wait = &setting.plan().waiting[0];
    let secs = |at: Time| at.as_millis() / 1000;
    // x began 7200 s ago and is expected to take 7800 s, or 7410 to 8580.
    assert_eq!((wait.planned_start.map(secs), wait.likely_start.map(secs)), (Some(7200), Some(600)));
    assert_eq!(wait.range.map(|(early, late)| (secs(early), secs(late))), Some((210, 1380)));
}

#[test]
fn a_promise_made_from_an_expectation_binds_those_behind_it() {
    let mut setting = learning(Learn::Times);
    setting.wait("long", spec(2, 1)).wait("short", JobSpec { walltime_ms: Millis::secs(500), ..spec(2, 1) });
    // Expected to be over in a minute, it may still take its hour, and would be in the way.
    setting.expected.insert(job_id("long"), Millis::secs(60));
    let plan = setting.plan();
    assert_eq!((reserved(&plan, "first"), nodes_of(&plan, "short").as_str()), (Some(600), "a3 a4"));
    assert_eq!(nodes_of(&plan, "long"), "");
}

#[test]
fn who_outlives_an_expectation_counts_with_its_walltime() {
    let mut setting = learning(Learn::Times);
    setting.reservations = setting.plan().reservations;
    setting.now = Time::from_secs(605);
    let plan = setting.plan();
    assert_eq!((plan.moved[0].cause, plan.moved[0].to), (MoveCause::Outlived, Some(Time::from_secs(7200))));
}

#[test]
fn blocks_and_maintenance_end_a_plan() {
    let mut setting = Setting::new(groups(&[2]));
    setting.nodes[0].maintenance_at = Some(Time::from_secs(3600));
    setting.wait("long", spec(1, 2)).wait("short", spec(1, 1));
    let plan = setting.plan();
    assert_eq!((nodes_of(&plan, "long").as_str(), nodes_of(&plan, "short").as_str()), ("a2", "a1"));
}
