//! Filters that a policy adds to the usual ones decide in plans.

use landfall_engine::solver::{Plan, Reason};
use landfall_model::{Approval, JobSpec, Time};

use super::properties::draw;
use super::support::{
    Setting, groups, name, nodes_of, planned, policy, pool_id, reserved, spec, starts, wait_of,
};

/// Four nodes and a policy with one filter more.
fn with(filter: &str) -> Setting {
    let mut setting = Setting::new(groups(&[4]));
    setting.policy = policy("balanced", &[filter]);
    for node in &mut setting.nodes {
        node.runtimes.insert(name("container"));
    }
    setting
}

fn plan(mut setting: Setting, spec: JobSpec) -> Plan {
    setting.wait("j", spec);
    setting.plan()
}

fn reasons(plan: &Plan, job: &str) -> Vec<String> {
    wait_of(plan, job).refusals.iter().map(|refusal| refusal.reason.to_string()).collect()
}

#[test]
fn what_a_node_was_registered_with_tells_kinds_apart() {
    let mut setting = with("runtime");
    setting.nodes[0].runtimes.clear();
    setting.nodes[2].runtimes.clear();
    assert_eq!(nodes_of(&plan(setting, spec(2, 1)), "j"), "a2 a4");

    let mut setting = with("runtime");
    setting.nodes[3].runtimes.insert(name("wasm"));
    setting.run("busy", spec(1, 1), &["a4"], Some(7200));
    let wasm = JobSpec { runtime: name("wasm"), ..spec(1, 1) };
    setting.wait("any", spec(1, 1)).wait("wasm", wasm);
    let plan = setting.plan();
    assert_eq!(nodes_of(&plan, "any"), "a1", "jobs are judged each by its own needs");
    assert_eq!(reserved(&plan, "wasm"), Some(7200), "only the node that has it is waited for");
    assert!(reasons(&plan, "wasm").contains(&"runtime_missing".to_owned()), "{:?}", reasons(&plan, "wasm"));
}

#[test]
fn a_node_that_is_refused_for_a_time_is_planned_from_then_on() {
    let mut setting = with("cooldown");
    for node in &mut setting.nodes[1..] {
        node.cooldown_until = Some(Time::from_secs(600));
    }
    assert_eq!(nodes_of(&plan(setting, spec(1, 1)), "j"), "a1");

    let mut setting = with("cooldown");
    for node in &mut setting.nodes {
        node.cooldown_until = Some(Time::from_secs(600));
    }
    let plan = plan(setting, spec(2, 1));
    assert_eq!((reserved(&plan, "j"), planned(&plan, "j")), (Some(600), Some(600)));
    assert!(reasons(&plan, "j").contains(&"cooling_down".to_owned()));
}

#[test]
fn nobody_plans_on_what_cannot_be_foretold() {
    let mut setting = with("online");
    setting.now = Time::from_secs(100);
    for node in &mut setting.nodes {
        node.heartbeat_at = Some(Time::ZERO);
    }
    let waits = plan(setting, spec(1, 1));
    assert_eq!(reserved(&waits, "j"), None);
    assert_eq!(reasons(&waits, "j"), ["nodes", "offline", "beyond_horizon"], "it may fit one day");

    let mut setting = with("approved");
    setting.nodes[0].approval = Approval::Pending;
    assert_eq!(nodes_of(&plan(setting, spec(1, 1)), "j"), "a2");
}

#[test]
fn what_never_suits_is_told_as_such() {
    let mut setting = with("runtime");
    setting.nodes.iter_mut().for_each(|node| node.runtimes.clear());
    let plan = plan(setting, spec(1, 1));
    assert_eq!(wait_of(&plan, "j").reason, Reason::NeverFits);
    assert!(reasons(&plan, "j").contains(&"runtime_missing".to_owned()));
}

#[test]
fn lent_nodes_are_judged_too() {
    let lender = |filter: &str| {
        let mut setting = with(filter);
        setting.loans.borrow = true;
        setting.run("busy", spec(2, 1), &["a1", "a2"], None);
        for node in &mut setting.nodes[2..] {
            node.pool = Some(pool_id("q"));
        }
        setting.nodes[2].cooldown_until = Some(Time::from_secs(600));
        setting.nodes[2].runtimes.clear();
        setting.lenders.push((pool_id("q"), vec!["a3".into(), "a4".into()], 2));
        setting
    };
    assert_eq!(nodes_of(&plan(lender("pull-ready"), spec(1, 1)), "j"), "a3");
    for filter in ["cooldown", "runtime"] {
        assert_eq!(nodes_of(&plan(lender(filter), spec(1, 1)), "j"), "a4", "{filter}");
    }
}

#[test]
fn work_that_ends_is_known_to_the_plan() {
    let mut setting = with("cpu");
    let busy = setting.nodes[0].cpu_total;
    for node in &mut setting.nodes {
        node.cpu_committed = busy;
    }
    setting.run("busy", spec(4, 1), &["a1", "a2", "a3", "a4"], Some(1800));
    let plan = plan(setting, JobSpec { cpu_milli: busy, ..spec(4, 1) });
    assert_eq!(reserved(&plan, "j"), Some(1800));
}

/// A filter that refuses nobody changes nothing where nodes are alike for it. Where each node is a kind of its own,
/// reservations count on certain nodes, so fewer jobs may go ahead of them; who starts in order stays the same.
#[test]
fn filters_that_refuse_nobody_do_not_change_who_starts() {
    for seed in 0..300 {
        let of = |filters: &[&str]| {
            let mut setting = draw(seed);
            setting.policy = policy("balanced", filters);
            setting.plan()
        };
        let in_order = |plan: &Plan| -> Vec<_> {
            let first = starts(plan).into_iter().filter(|start| !start.backfill);
            first.map(|start| (start.job.clone(), start.nodes.clone())).collect()
        };
        let (usual, registered, each) = (of(&[]), of(&["approved"]), of(&["cooldown"]));
        assert_eq!(registered.steps, usual.steps, "seed {seed}");
        assert_eq!(registered.waiting, usual.waiting, "seed {seed}");
        assert_eq!(in_order(&each), in_order(&usual), "seed {seed}");
    }
}
