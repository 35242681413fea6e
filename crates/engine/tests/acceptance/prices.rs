//! What jobs cost: surges, limits of a job, budgets of tenants.

use landfall_engine::Input;
use landfall_engine::input::NodeOrder;
use landfall_engine::record::JobState;
use landfall_model::reason::Reason;
use landfall_model::{Dispatch, Money, Pool, Price, PriceSettings, Tenant, TenantId};

use crate::support::{Cluster, job_id, node_id, pool};

/// A node on which one job costs half of the base price.
const NODE: &str =
    r#"nodes = [{ id = "n", cpu_milli = 1000, ram_mib = "8GiB", supported_runtimes = ["process"] }]"#;

fn costs(dispatch: Dispatch, change: impl Fn(&mut PriceSettings)) -> Pool {
    let mut price = PriceSettings { base: 0.10, ..PriceSettings::default() };
    change(&mut price);
    pool(dispatch, |pool| {
        pool.price = Some(price);
        pool.heartbeats = false;
    })
}

fn job(id: &str, more: &str) -> String {
    format!(r#"jobs = [{{ id = "{id}", runtime = "process", cpu_milli = 1000, exclusive = false{more} }}]"#)
}

impl Cluster {
    fn price(&self, job: &str) -> Option<u64> {
        self.record(job).past().price.map(Money::get)
    }

    fn spent(&self) -> f64 {
        self.engine.state().tenants["t"].spent(self.now).as_f64()
    }

    fn why(&self, job: &str) -> (Reason, String) {
        let explained = self.engine.explain(&job_id(job)).unwrap();
        let why = explained.reasons.iter().find(|why| Some(why.reason) == explained.reason).unwrap();
        (why.reason, why.detail.clone())
    }

    fn budget(&mut self, amount: f64) {
        let mut tenant = Tenant::new(TenantId::new("t").unwrap());
        tenant.budget.money = Price::of(amount);
        self.done(Input::SetTenant(Box::new(tenant)));
    }
}

#[test]
fn jobs_cost_more_while_more_than_twice_as_many_wait_as_there_are_nodes() {
    for (surge, raised) in [(false, 50_000), (true, 62_500)] {
        let mut cluster = Cluster::new(costs(Dispatch::Push, |price| price.surge = surge), NODE);
        cluster.at(0.0);
        ["a", "b", "c", "d"].iter().for_each(|id| cluster.submit(&job(id, "")));
        cluster.run_until(1.0);
        assert_eq!(cluster.price("a"), Some(50_000), "nobody waited when it was placed");
        cluster.start("a");
        cluster.exit("a", 0);
        assert_eq!(cluster.price("b"), Some(raised), "three waited for one node");
        cluster.start("b");
        // Two wait for one node: that is not more than twice as many. It is seen at the next look.
        cluster.run_until(29.0);
        let surging = |cluster: &Cluster| !cluster.engine.state().pools["p"].world.surging.is_empty();
        assert_eq!(surging(&cluster), surge);
        cluster.run_until(30.0);
        assert!(!surging(&cluster));
        cluster.exit("b", 0);
        assert_eq!(
            (cluster.price("a"), cluster.price("b")),
            (Some(50_000), Some(raised)),
            "what was paid stays"
        );
        assert_eq!(cluster.price("c"), Some(50_000));
        let mut rebuilt = landfall_engine::State::default();
        cluster.events.iter().for_each(|(at, event)| drop(rebuilt.apply(*at, event)));
        assert_eq!(rebuilt.pools["p"].world, cluster.engine.state().pools["p"].world);
    }
}

#[test]
fn a_job_waits_while_it_would_cost_more_than_it_may() {
    for dispatch in [Dispatch::Push, Dispatch::Batch] {
        let nodes = NODE.replace(
            "[{",
            "[{ id = \"m\", cpu_milli = 1000, ram_mib = \"8GiB\", supported_runtimes = [\"process\"] }, {",
        );
        let mut cluster = Cluster::new(costs(dispatch, |price| price.surge = true), &nodes);
        cluster.at(0.0);
        for id in ["a", "b", "c", "d", "e", "f", "g"] {
            cluster.submit(&job(id, ""));
        }
        cluster.submit(&job("x", ", max_price = 0.05"));
        cluster.run_until(1.0);
        let placed = |cluster: &Cluster| -> Vec<&str> {
            let all = ["a", "b", "c", "d", "e", "f", "g", "x"];
            all.into_iter().filter(|id| cluster.state(id) != JobState::Pending).collect()
        };
        assert_eq!(placed(&cluster), ["a", "b"], "{dispatch:?}");
        ["c", "d", "e", "f", "g"].iter().for_each(|id| cluster.done(Input::Cancel(job_id(id))));
        cluster.start("b");
        cluster.start("a");
        cluster.exit("a", 0);
        cluster.run_until(29.0);
        assert_eq!(cluster.state("x"), JobState::Pending, "{dispatch:?}: it costs a quarter more now");
        let explained = cluster.engine.explain(&job_id("x")).unwrap();
        let why = explained.reasons.iter().find(|why| why.reason == Reason::MaxPrice).unwrap();
        assert!(why.detail.starts_with("may cost 0.05 at most; "), "{why:?}");
        assert!(
            explained.help.iter().any(|help| help.contains("it costs 0.05 then")),
            "{:?}",
            explained.help
        );
        cluster.run_until(39.0);
        assert_ne!(cluster.state("x"), JobState::Pending, "{dispatch:?}: few wait");
        assert_eq!(cluster.price("x"), Some(50_000));
    }
}

#[test]
fn what_can_never_be_cheap_enough_is_told_at_submission() {
    let dear = || Cluster::jobs(&job("x", ", max_price = 0.01"));
    let mut cluster = Cluster::new(costs(Dispatch::Batch, |_| {}), NODE);
    assert_eq!(cluster.refused(Input::Submit(dear())), "never_fits");
    let cluster = Cluster::new(costs(Dispatch::Push, |_| {}), NODE);
    let never = cluster.engine.never(&dear()[0].job, &landfall_model::PoolId::new("p").unwrap()).unwrap();
    assert_eq!(never.detail, "may cost 0.01 at most; the only node costs more than it may");
    // A surge passes: that is no reason to refuse anything.
    let mut cluster = Cluster::new(costs(Dispatch::Batch, |price| price.surge = true), NODE);
    cluster.at(0.0);
    ["a", "b", "c", "d", "e"].iter().for_each(|id| cluster.submit(&job(id, "")));
    cluster.run_until(1.0);
    assert!(!cluster.engine.state().pools["p"].world.surging.is_empty());
    cluster.submit(&job("x", ", max_price = 0.05"));
}

#[test]
fn a_budget_refuses_what_it_does_not_reach_for() {
    for dispatch in [Dispatch::Push, Dispatch::Batch] {
        let nodes = NODE.replace("cpu_milli = 1000", "cpu_milli = 8000");
        let mut cluster = Cluster::new(costs(dispatch, |_| {}), &nodes);
        let of_tenant = |id: &str| job(id, r#", tenant = "t""#);
        cluster.at(0.0).budget(0.12);
        cluster.submit(&of_tenant("a"));
        cluster.submit(&of_tenant("b"));
        cluster.run_until(1.0);
        cluster.start("a");
        cluster.start("b");
        assert_eq!(cluster.spent(), 0.1, "{dispatch:?}: what is placed counts");
        let refused = cluster.engine.step(cluster.now, Input::Submit(Cluster::jobs(&of_tenant("c")))).answer;
        let landfall_engine::Answer::Refused(refused) = refused else { panic!("{refused:?}") };
        assert_eq!(
            (refused.code.as_ref(), refused.message.as_str()),
            (
                "budget",
                "tenant `t` has spent 0.1 of its budget of 0.12 in the last 90 days, and this job costs 0.05 at least"
            )
        );
        assert!(refused.hint.contains("tenants set t --budget"), "{}", refused.hint);
        // One that was accepted before waits, and is told.
        cluster.budget(0.15);
        let held = Cluster::jobs(&of_tenant("c")).into_iter().map(|mut submission| {
            submission.user_hold = true;
            submission
        });
        cluster.done(Input::Submit(held.collect()));
        cluster.budget(0.12);
        cluster.done(Input::UserHold { job: job_id("c"), held: false });
        cluster.run_until(20.0);
        let (reason, detail) = cluster.why("c");
        assert_eq!(reason, Reason::Budget, "{dispatch:?}");
        assert!(detail.contains("has spent 0.1 of its budget of 0.12"), "{detail}");
        // A run that comes to its end has cost its price; one that the cluster takes back costs nothing.
        cluster.exit("a", 1);
        cluster.run_until(40.0);
        assert_eq!((cluster.spent(), cluster.state("c")), (0.1, JobState::Pending), "{dispatch:?}");
        cluster.done(Input::Order { node: node_id("n"), order: NodeOrder::Leave });
        assert_eq!(
            (cluster.spent(), cluster.price("b")),
            (0.05, None),
            "{dispatch:?}: it runs again and pays then"
        );
        cluster.budget(0.2);
        let node = landfall_model::scenario::parse(&nodes, landfall_model::scenario::Format::Toml).unwrap();
        let node = Box::new(node.nodes()[0].clone());
        let pool = landfall_model::PoolId::new("p").unwrap();
        cluster.done(Input::Join { pool, node, running: None });
        for secs in 40..100 {
            cluster.run_until(f64::from(secs));
            let placed = ["b", "c"].into_iter().filter(|id| cluster.state(id) == JobState::Staging);
            placed.collect::<Vec<_>>().into_iter().for_each(|id| cluster.start(id));
        }
        for id in ["b", "c"] {
            assert_eq!(
                (cluster.state(id), cluster.price(id)),
                (JobState::Running, Some(50_000)),
                "{dispatch:?}"
            );
        }
        // After 90 days nothing of it counts, but what is still placed.
        cluster.at(91.0 * 86_400.0);
        assert_eq!(cluster.spent(), 0.1, "{dispatch:?}");
    }
}
