//! Which nodes a job gets (cases B17 to B23).

use landfall_engine::solver::{Plan, Reason};
use landfall_model::{Caps, JobSpec, NodeCount, NodePower, SetHint};

use super::support::{Setting, groups, name, node, nodes_of, policy, pool_id, spec, starts, wait_of};

fn plan_one(mut setting: Setting, spec: JobSpec) -> Plan {
    setting.wait("j", spec);
    setting.plan()
}

fn tight(sizes: &[usize], nodes: u32) -> String {
    nodes_of(&plan_one(Setting::new(groups(sizes)), spec(nodes, 1)), "j")
}

fn close(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-6, "{got} is not {want}");
}

#[test]
fn b17_tight() {
    assert_eq!(tight(&[8, 8], 4), "a1 a2 a3 a4");
    assert_eq!(tight(&[4, 4, 4], 6), "a1 a2 a3 a4 b1 b2");
    assert_eq!(tight(&[3, 8], 5), "b1 b2 b3 b4 b5");
    assert_eq!(tight(&[8, 5], 5), "b1 b2 b3 b4 b5");
}

#[test]
fn the_last_group_is_the_smallest_that_covers_the_rest_and_near() {
    assert_eq!(tight(&[4, 1, 6, 4], 10), "c1 c2 c3 c4 c5 c6 d1 d2 d3 d4", "d is beside c, a is not");
    assert_eq!(tight(&[5, 2, 6, 3], 8), "b1 b2 c1 c2 c3 c4 c5 c6");
    assert_eq!(tight(&[3, 1, 3, 3, 3], 8), "a1 a2 a3 c1 c2 c3 d1 d2", "near c comes before e");
}

#[test]
fn b18_spread() {
    let wide = JobSpec { hint: Some(SetHint::Spread), ..spec(6, 1) };
    assert_eq!(nodes_of(&plan_one(Setting::new(groups(&[1, 9])), wide.clone()), "j"), "a1 b1 b2 b3 b4 b5");
    assert_eq!(nodes_of(&plan_one(Setting::new(groups(&[3, 1, 9])), wide), "j"), "a1 a2 a3 b1 c1 c2");
}

#[test]
fn any_takes_the_first_in_preference() {
    let any = JobSpec { hint: Some(SetHint::Any), ..spec(3, 1) };
    let mut nodes = groups(&[2, 3]);
    nodes[0].drifted = true;
    assert_eq!(nodes_of(&plan_one(Setting::new(nodes), any), "j"), "a2 b1 b2", "drifted nodes last");
}

fn marked(marks: &[(&str, &str)]) -> Vec<landfall_model::Node> {
    let mark = |&(id, fingerprint): &(&str, &str)| {
        let mut node = node(id);
        node.fingerprint = (fingerprint != "-").then(|| name(fingerprint));
        node
    };
    marks.iter().map(mark).collect()
}

#[test]
fn b19_one_group() {
    let nodes = marked(&[
        ("a1", "Q"),
        ("a2", "Q"),
        ("a3", "Q"),
        ("a4", "Q"),
        ("a5", "P"),
        ("a6", "P"),
        ("a7", "P"),
        ("a8", "P"),
    ]);
    let plan = plan_one(Setting::new(nodes), spec(3, 1));
    assert_eq!(nodes_of(&plan, "j"), "a1 a2 a3", "three of one configuration; between equal sets ids decide");
    close(starts(&plan)[0].value.conformance, 1.0);
    let nodes = marked(&[("a1", "R"), ("a2", "R"), ("a3", "Q"), ("a4", "Q"), ("a5", "P"), ("a6", "P")]);
    let plan = plan_one(Setting::new(nodes), spec(4, 1));
    assert_eq!(nodes_of(&plan, "j"), "a3 a4 a5 a6");
    close(starts(&plan)[0].value.conformance, 0.5);
}

#[test]
fn an_unknown_configuration_is_alone_and_goes_last() {
    let nodes = marked(&[("a1", "-"), ("a2", "-"), ("a3", "-"), ("a4", "P")]);
    let plan = plan_one(Setting::new(nodes), spec(2, 1));
    assert_eq!(nodes_of(&plan, "j"), "a1 a4");
    close(starts(&plan)[0].value.conformance, 0.5);
}

#[test]
fn b20_groups_against_configurations() {
    let nodes = || marked(&[("a1", "X"), ("a2", "X"), ("a3", "Y"), ("a4", "Y"), ("b1", "X"), ("b2", "X")]);
    let with = |name: &str, spec: JobSpec| {
        let mut setting = Setting::new(nodes());
        setting.policy = policy(name, &[]);
        plan_one(setting, spec)
    };
    let plan = with("hpc-batch", spec(4, 1));
    assert_eq!(nodes_of(&plan, "j"), "a1 a2 a3 a4");
    close(starts(&plan)[0].value.value, 0.125);
    close(starts(&plan)[0].runner_up.unwrap().value, 0.1225);
    let plan = with("service", spec(4, 1));
    assert_eq!(nodes_of(&plan, "j"), "a1 a2 b1 b2");
    close(starts(&plan)[0].value.value, 0.3075);
    close(starts(&plan)[0].runner_up.unwrap().value, 0.175);
    let sensitive = |nodes| JobSpec { sensitive: true, class: 10, preemptible: false, ..spec(nodes, 1) };
    assert_eq!(nodes_of(&with("hpc-batch", sensitive(4)), "j"), "a1 a2 b1 b2");
    let plan = with("hpc-batch", sensitive(5));
    assert_eq!((wait_of(&plan, "j").reason, plan.steps.len()), (Reason::Fingerprint, 0));
}

#[test]
fn b21_range() {
    let range = |min, max| JobSpec { nodes: NodeCount { min, max }, ..spec(1, 1) };
    assert_eq!(nodes_of(&plan_one(Setting::new(groups(&[4, 6])), range(3, 8)), "j"), "b1 b2 b3 b4 b5 b6");
    assert_eq!(nodes_of(&plan_one(Setting::new(groups(&[4, 6])), range(3, 5)), "j"), "b1 b2 b3 b4 b5");
    let mut setting = Setting::new(groups(&[4, 6]));
    let room = landfall_engine::solver::TenantRoom::unlimited(None);
    setting.tenants.push(landfall_engine::solver::TenantRoom { node_units: 4.5, ..room });
    assert_eq!(nodes_of(&plan_one(setting, range(3, 8)), "j"), "a1 a2 a3 a4", "no more than the quota");
}

#[test]
fn b22_power() {
    let with = |nodes: u32, headroom: u64| {
        let mut setting = Setting::new(groups(&[4]));
        for (node, extra) in setting.nodes.iter_mut().zip([700, 700, 300, 300]) {
            node.power = Some(NodePower { idle_w: 100, busy_w: 100 + extra });
        }
        setting.caps = Caps { power_w: Some(headroom), io_bytes_s: None };
        plan_one(setting, spec(nodes, 1))
    };
    assert_eq!(nodes_of(&with(2, 1000), "j"), "a3 a4");
    let plan = with(3, 1200);
    let wait = wait_of(&plan, "j");
    assert_eq!((wait.reason, wait.refusals[0].needed), (Reason::Power, 1300.0));
    assert_eq!(nodes_of(&with(3, 1300), "j"), "a1 a3 a4");
}

#[test]
fn b23_borrowing() {
    let mut setting = Setting::new(groups(&[2, 0, 0, 0]));
    for id in ["c1", "d1", "e1"] {
        setting.nodes.push(node(id));
    }
    for id in ["b1", "b2", "b3"] {
        let mut lent = node(id);
        lent.pool = Some(pool_id("q"));
        setting.nodes.push(lent);
    }
    setting.run("x", spec(3, 9), &["c1", "d1", "e1"], Some(9000));
    setting.policy = policy("hpc-batch", &[]);
    setting.lenders.push((pool_id("q"), ["b1", "b2", "b3"].map(str::to_owned).to_vec(), 3));
    setting.wait("j", spec(3, 1));
    let plan = setting.plan();
    assert_eq!(nodes_of(&plan, "j"), "a1 a2 b1");
    let start = starts(&plan)[0];
    close(start.value.value, 0.141_667);
    close(start.runner_up.unwrap().value, 0.101_25);
    assert_eq!((start.loans.len(), start.loans[0].nodes.len(), start.value.borrowed), (1, 1, 1));
    setting.lenders[0].2 = 0;
    assert!(setting.plan().steps.is_empty(), "nothing is lent");
    setting.lenders[0].2 = 3;
    for change in [
        |spec: &mut JobSpec| spec.class = 10,
        |spec: &mut JobSpec| spec.class = 7,
        |spec: &mut JobSpec| spec.preemptible = false,
        |spec: &mut JobSpec| spec.immediate = true,
    ] {
        let mut other = spec(3, 1);
        change(&mut other);
        setting.waiting.clear();
        setting.wait("j", other);
        assert!(setting.plan().steps.is_empty(), "such jobs do not borrow");
    }
}

#[test]
fn limits_on_groups_are_hard() {
    let narrow = JobSpec { max_span: Some(1), ..spec(5, 1) };
    let plan = plan_one(Setting::new(groups(&[4, 4])), narrow);
    let wait = wait_of(&plan, "j");
    assert_eq!((wait.reason, wait.refusals[0].needed, wait.refusals[0].found), (Reason::Span, 2.0, 1.0));
}
