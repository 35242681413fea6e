//! Reservations that stand: what happens in a calm pool never moves one to a later time.

use landfall_engine::solver::{Cycles, MoveCause, Plan, Share, Step};
use landfall_model::{Caps, JobSpec, Mib, MilliCpu, Millis, NodeCount, NodePower, Time};

use super::support::{Setting, groups, nodes_of, reserved, spec};

fn preempts(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| matches!(step, Step::Preempt(_)))
}

#[test]
fn what_comes_after_a_reservation_is_planned_from_the_cycle_that_starts_it() {
    let cycles = |next| Some(Cycles { next: Time::from_secs(next), every: Millis::secs(5) });
    let mut setting = Setting::new(groups(&[1]));
    setting.settings.depth = 2;
    setting.cycles = cycles(5);
    setting.run("x", spec(1, 4), &["a1"], Some(7));
    setting.wait("first", spec(1, 1)).wait("second", spec(1, 1));
    let plan = setting.plan();
    assert_eq!((reserved(&plan, "first"), reserved(&plan, "second")), (Some(7), Some(3610)));

    setting.reservations = plan.reservations;
    setting.running.clear();
    (setting.now, setting.cycles) = (Time::from_secs(10), cycles(15));
    let plan = setting.plan();
    assert_eq!((nodes_of(&plan, "first").as_str(), reserved(&plan, "second")), ("a1", Some(3610)));
    assert!(plan.moved.is_empty(), "{:?}", plan.moved);
}

#[test]
fn a_job_whose_time_has_come_does_not_grow_into_what_is_kept_for_others() {
    let mut setting = Setting::new(groups(&[3]));
    setting.settings.depth = 2;
    setting.run("x", spec(3, 4), &["a1", "a2", "a3"], Some(10));
    setting.wait("range", JobSpec { nodes: NodeCount { min: 1, max: 3 }, ..spec(1, 1) });
    setting.wait("pair", spec(2, 1));
    let plan = setting.plan();
    assert_eq!((reserved(&plan, "range"), reserved(&plan, "pair")), (Some(10), Some(10)));

    setting.reservations = plan.reservations;
    setting.running.clear();
    setting.now = Time::from_secs(10);
    let plan = setting.plan();
    assert_eq!((nodes_of(&plan, "range").as_str(), nodes_of(&plan, "pair").as_str()), ("a1", "a2 a3"));
}

#[test]
fn a_reservation_keeps_its_nodes_when_a_cap_rules_out_every_set_that_looks_better() {
    // Group a would need 1400 W, group b 600 W; of two groups of one size the first is looked at.
    let mut setting = Setting::new(groups(&[2, 2]));
    for node in &mut setting.nodes {
        let busy_w = if node.id.as_str().starts_with('a') { 800 } else { 400 };
        node.power = Some(NodePower { idle_w: 100, busy_w });
    }
    setting.caps = Caps { power_w: Some(1000), io_bytes_s: None };
    let frugal = JobSpec { power_w: Some(100), ..spec(2, 4) };
    setting.run("x", frugal.clone(), &["b1", "b2"], Some(7200));
    setting.run("y", frugal, &["a1", "a2"], Some(36_000));
    setting.wait("job", spec(2, 1));
    let plan = setting.plan();
    assert_eq!(reserved(&plan, "job"), Some(7200));

    setting.reservations = plan.reservations;
    setting.now = Time::from_secs(60);
    setting.running.pop();
    let plan = setting.plan();
    assert_eq!(reserved(&plan, "job"), Some(7200), "{:?}", plan.moved);

    setting.reservations = plan.reservations;
    setting.now = Time::from_secs(7200);
    setting.running.clear();
    assert_eq!(nodes_of(&setting.plan(), "job"), "b1 b2");
}

#[test]
fn nodes_kept_for_a_job_until_its_victims_are_gone_are_no_node_of_a_reservation() {
    // The victim ends after 5 h 5 min, and `first` is to follow. Work of 5 h in its place would end in time if it could
    // start at once, but the victim may take a quarter of an hour to leave.
    for (hours, granted) in [(5, false), (4, true)] {
        let mut setting = Setting::new(groups(&[2]));
        setting.settings.preemption = true;
        setting.run("victim", JobSpec { class: 1, ..spec(1, 8) }, &["a1"], Some(18_300));
        setting.run("other", spec(1, 4), &["a2"], Some(7200));
        setting.wait("first", JobSpec { may_preempt: false, ..spec(2, 1) });
        setting.wait("second", spec(1, hours));
        let plan = setting.plan();
        assert_eq!(reserved(&plan, "first"), Some(18_300), "{hours} h");
        assert_eq!(preempts(&plan), granted, "{hours} h");
    }
}

#[test]
fn jobs_that_are_to_share_a_node_still_do_when_it_falls_empty() {
    let part = |cores| JobSpec { exclusive: false, cpu_milli: MilliCpu::cores(cores), ..spec(1, 1) };
    let mut setting = Setting::new(groups(&[1]));
    setting.settings.depth = 3;
    for (job, cores, end) in [("x", 6, 7200), ("y", 1, 20_000)] {
        setting.run(job, part(cores), &["a1"], Some(end));
        let share = Share { cpu: MilliCpu::cores(cores), ram: Mib::ZERO, devices: Vec::new() };
        setting.running.last_mut().unwrap().shares = vec![share];
    }
    setting.wait("first", part(3)).wait("second", part(3));
    let plan = setting.plan();
    assert_eq!((reserved(&plan, "first"), reserved(&plan, "second")), (Some(7200), Some(7200)));

    // Both end early, and somebody who will be gone in time has the node to himself.
    setting.reservations = plan.reservations;
    setting.running.clear();
    setting.now = Time::from_secs(60);
    setting.run("alone", spec(1, 1), &["a1"], Some(3660));
    let plan = setting.plan();
    assert_eq!((reserved(&plan, "first"), reserved(&plan, "second")), (Some(3660), Some(7200)));
    assert!(plan.moved.is_empty(), "{:?}", plan.moved);
}

#[test]
fn a_job_for_which_others_give_way_gets_no_place_that_begins_now_and_is_not_taken() {
    // `short` was to start at 40 on all nodes and `long` at 90, but x stays longer than it may.
    let mut setting = Setting::new(groups(&[3]));
    setting.settings.depth = 2;
    setting.run("x", spec(1, 4), &["a1"], Some(40));
    setting.wait("short", JobSpec { walltime_ms: Millis::secs(50), ..spec(3, 1) });
    setting.wait("long", spec(2, 1));
    setting.now = Time::from_secs(30);
    let plan = setting.plan();
    assert_eq!((reserved(&plan, "short"), reserved(&plan, "long")), (Some(40), Some(90)));

    setting.reservations = plan.reservations;
    setting.now = Time::from_secs(50);
    setting.waiting.reverse();
    let plan = setting.plan();
    assert_eq!(reserved(&plan, "long"), Some(90));
    assert_eq!(plan.moved.iter().map(|moved| moved.cause).collect::<Vec<_>>(), [MoveCause::Overrun]);
}
