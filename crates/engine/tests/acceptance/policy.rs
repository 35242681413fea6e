//! The policy decides, in every way to dispatch; and a policy that is unknown does not stop a pool.

use std::sync::Arc;

use landfall_engine::record::JobState;
use landfall_engine::{Engine, Input};
use landfall_model::{Dispatch, JobKind, JobReport, Name, PoolId};
use landfall_policy::spec::FilterUse;
use landfall_policy::{builtin, policy_file};

use crate::support::{Cluster, job_id, node_id, pool};

/// A built-in policy as a file, with one filter more.
fn file(policy: &str, filter: Option<&str>) -> Arc<str> {
    let mut spec = builtin::spec(policy).unwrap().unwrap();
    spec.filters.extend(filter.map(|name| FilterUse { name: name.to_owned(), params: Default::default() }));
    policy_file::text(&spec).unwrap().into()
}

/// Two nodes of which the first would be taken, and is odd in some way; one job.
fn placed(dispatch: Dispatch, policy: &str, odd: &str, filter: Option<&str>) -> Cluster {
    let alike = r#"cpu_milli = 8000, ram_mib = 8000"#;
    let nodes = format!(r#"nodes = [{{ id = "a", {alike}, {odd} }}, {{ id = "b", {alike} }}]"#);
    let mut cluster = Cluster::new(pool(dispatch, |_| {}), &nodes);
    let policy = Some(file(policy, filter));
    cluster.done(Input::SetPool { pool: Box::new(pool(dispatch, |_| {})), policy });
    cluster.at(0.0).submit(r#"jobs = [{ id = "j", cpu_milli = 1000 }]"#);
    // Long enough for a cycle, and too short for a node to be at fault for not answering.
    cluster.run_until(1.0);
    if dispatch == Dispatch::Pull {
        for node in ["a", "b"] {
            let report = Some(JobReport { missing_inputs: Some(0), missing_bytes: Some(0) });
            cluster.done(Input::Fetches { node: node_id(node), entries: vec![(job_id("j"), report)] });
            cluster.step(Input::Ask { node: node_id(node), kind: JobKind::Build });
        }
    }
    cluster
}

#[test]
fn one_filter_more_decides_in_push_pull_and_batch() {
    let modes = [(Dispatch::Push, "bin-pack"), (Dispatch::Pull, "simple"), (Dispatch::Batch, "balanced")];
    let filters = [
        ("approved", "not_approved", r#"approval = "pending""#),
        ("cooldown", "cooling_down", "cooldown_until_ms = 99000"),
        ("pull-tenant", "tenant", r#"tenants = ["t"]"#),
    ];
    for (dispatch, policy) in modes {
        for (filter, reason, odd) in filters {
            // Tenants are among the usual filters of pull pools.
            if (filter, dispatch) == ("pull-tenant", Dispatch::Pull) {
                continue;
            }
            let cluster = placed(dispatch, policy, odd, None);
            assert_eq!(cluster.nodes_of("j"), ["a"], "{dispatch:?} without {filter}");
            let cluster = placed(dispatch, policy, odd, Some(filter));
            assert_eq!(cluster.nodes_of("j"), ["b"], "{dispatch:?} with {filter}");
            let told = cluster.engine.why_not(&job_id("j"), &node_id("a")).unwrap();
            let against = told.verdict.refusals.iter().find(|refused| refused.filter == filter);
            assert_eq!(against.map(|refused| refused.refusal.reason.name()), Some(reason), "{dispatch:?}");
        }
    }
}

#[test]
fn a_node_that_is_kept_from_work_is_in_nobodys_way() {
    let modes = [
        (Dispatch::Push, "bin-pack"),
        (Dispatch::Push, "first-fit"),
        (Dispatch::Push, "fit"),
        (Dispatch::Pull, "simple"),
        (Dispatch::Batch, "balanced"),
        (Dispatch::Batch, "first-fit"),
    ];
    for (dispatch, policy) in modes {
        for odd in ["accepting = false", r#"approval = "suspended""#] {
            let cluster = placed(dispatch, policy, odd, None);
            assert_eq!(cluster.nodes_of("j"), ["b"], "{dispatch:?} under {policy}, a has {odd}");
        }
    }
}

#[test]
fn a_job_that_a_filter_keeps_from_every_node_says_so() {
    let mut cluster =
        Cluster::new(pool(Dispatch::Batch, |_| {}), r#"nodes = [{ id = "a", approval = "pending" }]"#);
    let policy = Some(file("balanced", Some("approved")));
    cluster.done(Input::SetPool { pool: Box::new(pool(Dispatch::Batch, |_| {})), policy });
    cluster.submit(r#"jobs = [{ id = "j" }]"#);
    cluster.run_until(10.0);
    assert_eq!(cluster.state("j"), JobState::Pending);
    let told = cluster.engine.explain(&job_id("j")).unwrap();
    assert!(told.reasons.iter().any(|why| why.reason.name() == "not_approved"), "{:?}", told.reasons);
}

#[test]
fn a_batch_start_keeps_what_decided_it() {
    let nodes = r#"nodes = [{ id = "a", count = 3, fingerprint = "P" }]"#;
    let mut cluster = Cluster::new(pool(Dispatch::Batch, |_| {}), nodes);
    cluster.at(0.0).submit(r#"jobs = [{ id = "j", nodes = 2, class = 7 }]"#);
    cluster.run_until(10.0);
    let why = &cluster.record("j").run.as_ref().unwrap().why;
    let of_queue: f64 = why.terms.iter().map(|points| points.points).take(9).sum();
    assert!((why.total.unwrap() - of_queue).abs() < 1e-9, "{why:?}");
    let set: Vec<_> = why.terms.iter().filter(|points| points.term.starts_with("set")).collect();
    assert_eq!(set.len(), 3, "{why:?}");
    assert!(set.iter().all(|points| points.raw > 0.0), "{why:?}");
}

#[test]
fn an_unknown_policy_gives_way_to_the_usual_one_with_a_warning() {
    let id = PoolId::new("p").unwrap();
    for dispatch in [Dispatch::Push, Dispatch::Pull, Dispatch::Batch] {
        let named = pool(dispatch, |pool| pool.policy = Some(Name::new("balancd").unwrap()));
        let nodes = r#"nodes = [{ id = "w", cpu_milli = 8000, ram_mib = 8000 }]"#;
        let mut cluster = Cluster::new(named, nodes);
        let told = |engine: &Engine| {
            let (name, warning) = engine.policy_in_force(&id).unwrap();
            assert_eq!(name, "resource-aware", "{dispatch:?}");
            let warning = warning.unwrap();
            assert!(warning.contains("`balancd`") && warning.contains("`balanced`"), "{warning}");
        };
        told(&cluster.engine);
        // So does one that a journal names.
        told(&Engine::of(cluster.engine.state().clone()));
        cluster.at(0.0).submit(r#"jobs = [{ id = "j", cpu_milli = 1000 }]"#);
        cluster.run_until(10.0);
        if dispatch != Dispatch::Pull {
            assert_eq!(cluster.nodes_of("j"), ["w"], "{dispatch:?}");
        }
        cluster.done(Input::SetPool { pool: Box::new(pool(dispatch, |_| {})), policy: None });
        assert_eq!(cluster.engine.policy_in_force(&id).unwrap().1, None);
    }
}

#[test]
fn a_policy_file_with_mistakes_is_refused_but_one_in_a_journal_is_not_in_the_way() {
    let mut cluster = Cluster::new(pool(Dispatch::Batch, |_| {}), "");
    let wrong: Arc<str> = "name = 'x'\ndescription = 'y'\nfilters = [{ name = 'of-tomorrow' }]".into();
    let input = Input::SetPool { pool: Box::new(pool(Dispatch::Batch, |_| {})), policy: Some(wrong.clone()) };
    assert_eq!(cluster.refused(input), "bad_policy");
    let mut state = cluster.engine.state().clone();
    let id = PoolId::new("p").unwrap();
    state.pools.get_mut(&id).unwrap().policy = Some(wrong);
    let engine = Engine::of(state);
    let (name, warning) = engine.policy_in_force(&id).unwrap();
    assert_eq!(name, "resource-aware");
    assert!(warning.unwrap().contains("of-tomorrow"), "{warning:?}");
}
