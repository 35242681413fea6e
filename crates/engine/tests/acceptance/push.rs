//! Push: order, holds, wake-ups (bin-packing.md §7, §8).

use landfall_engine::input::NodeOrder;
use landfall_engine::record::JobState;
use landfall_engine::{Answer, Effect, Input};
use landfall_model::{Discipline, Dispatch, Millis, Name};

use crate::support::{Cluster, job_id, node_id, pool};

const NODE: &str = r#"
blocks = [{ id = "b", provider = "sfcompute", gpus_per_node = 8, vram_mib_per_gpu = "80GiB", cpu_milli_per_node = 64000, ram_mib_per_node = "512GiB" }]
nodes = [{ id = "n1", block = "b" }]"#;

fn packing(nodes: &str) -> Cluster {
    Cluster::new(pool(Dispatch::Push, |pool| pool.policy = Some(Name::new("bin-pack").unwrap())), nodes)
}

fn gpus(id: &str, count: u32) -> String {
    format!(
        r#"jobs = [{{ id = "{id}", gpu_count = {count}, vram_mib = "40GiB", cpu_milli = 1000, ram_mib = 1024 }}]"#
    )
}

#[test]
fn b22_priority_then_submission_then_id() {
    let mut cluster = packing("");
    for (id, priority, at) in [("c", 0, 1.0), ("a", 0, 1.0), ("d", 5, 2.0), ("b", 5, 3.0)] {
        cluster
            .at(at)
            .submit(&format!(r#"jobs = [{{ id = "{id}", priority = {priority}, gpu_count = 1 }}]"#));
    }
    // A node appears on which one fits at a time; each ends at once.
    cluster.at(10.0);
    let order: Vec<String> = {
        let node = r#"nodes = [{ id = "n", gpus = [{ count = 1, vram_mib = 100 }] }]"#;
        let situation =
            landfall_model::scenario::parse(node, landfall_model::scenario::Format::Toml).unwrap();
        let input = Input::Join {
            pool: landfall_model::PoolId::new("p").unwrap(),
            node: Box::new(situation.nodes()[0].clone()),
            running: None,
        };
        cluster.done(input);
        let mut order = Vec::new();
        for _ in 0..4 {
            let next =
                ["a", "b", "c", "d"].into_iter().find(|job| cluster.state(job) == JobState::Staging).unwrap();
            order.push(next.to_owned());
            cluster.start(next);
            cluster.exit(next, 0);
        }
        order
    };
    assert_eq!(order, ["d", "b", "a", "c"]);
}

#[test]
fn b23_a_hold_keeps_devices_until_its_time_is_over() {
    let mut cluster = packing(NODE);
    // Jobs that nobody places by themselves: they are held by their owner's placer.
    cluster.at(0.0).submit(&gpus("a", 8));
    cluster.start("a");
    cluster.submit(&gpus("x", 2));
    cluster.submit(&gpus("y", 2));
    cluster.exit("a", 0);
    // The exit let the loop place x and y by itself; take two more that the loop has not seen.
    for job in ["x", "y"] {
        assert_eq!(cluster.state(job), JobState::Staging);
    }
    let reserve = |job: &str, gpus: &[u16], secs: Option<u64>| Input::Hold {
        job: job_id(job),
        node: node_id("n1"),
        gpus: gpus.to_vec(),
        lifetime: secs.map(Millis::secs),
        fence: None,
    };
    let mut cluster = packing(NODE);
    for job in ["x", "y"] {
        let mut submissions = Cluster::jobs(&gpus(job, 2));
        submissions[0].user_hold = true;
        cluster.at(0.0).done(Input::Submit(submissions));
    }
    assert_eq!(cluster.refused(reserve("x", &[0, 1], None)), "stale", "a job that somebody keeps back");
    // Full for a moment, so that both jobs wait while the placer works.
    cluster.submit(&gpus("big", 8));
    for job in ["x", "y"] {
        cluster.done(Input::UserHold { job: job_id(job), held: false });
    }
    cluster.start("big");
    let held = |answer: Answer| matches!(answer, Answer::Held { .. });
    assert_eq!(cluster.refused(reserve("x", &[0, 1], None)), "occupied");
    assert!(!held(cluster.step(reserve("x", &[0, 1], Some(90_000)))), "too long a life");
    assert_eq!(cluster.state("x"), JobState::Pending);
}

#[test]
fn b23_two_jobs_and_one_device() {
    // The placer is outside: the pool's own loop is kept from both jobs by a tenant without quota.
    let tenants = r#"tenants = [{ id = "t", max_nodes = 0.0 }]"#;
    let mut cluster = packing(&format!("{tenants}\n{NODE}"));
    for job in ["x", "y"] {
        let text = format!(
            r#"jobs = [{{ id = "{job}", tenant = "t", exclusive = false, gpu_count = 2, vram_mib = "40GiB" }}]"#
        );
        cluster.at(0.0).submit(&text);
        assert_eq!(cluster.state(job), JobState::Pending);
    }
    let reserve = |job: &str, gpus: [u16; 2]| Input::Hold {
        job: job_id(job),
        node: node_id("n1"),
        gpus: gpus.to_vec(),
        lifetime: None,
        fence: None,
    };
    assert!(matches!(cluster.step(reserve("x", [0, 1])), Answer::Held { id: 0, .. }));
    assert!(matches!(cluster.step(reserve("x", [0, 1])), Answer::Held { id: 0, .. }), "the same hold again");
    assert_eq!(cluster.refused(reserve("x", [2, 3])), "held", "one live hold per job");
    cluster.keep_alive(299.999);
    assert_eq!(cluster.refused(reserve("y", [1, 2])), "held");
    cluster.run_until(300.0);
    cluster.tick();
    assert!(matches!(cluster.step(reserve("y", [1, 2])), Answer::Held { .. }));
}

#[test]
fn b24_refused_reservations_change_nothing() {
    let mut cluster = packing(NODE);
    cluster.at(0.0).submit(&gpus("a", 1));
    cluster.start("a");
    let tenants = landfall_model::scenario::parse(
        r#"tenants = [{ id = "t", max_nodes = 0.0 }]"#,
        landfall_model::scenario::Format::Toml,
    )
    .unwrap();
    for tenant in tenants.world.tenants.values() {
        cluster.done(Input::SetTenant(Box::new(tenant.clone())));
    }
    cluster.submit(r#"jobs = [{ id = "x", tenant = "t", exclusive = false, gpu_count = 1 }]"#);
    let reserve = |job: &str, node: &str, gpus: &[u16], secs: u64| Input::Hold {
        job: job_id(job),
        node: node_id(node),
        gpus: gpus.to_vec(),
        lifetime: Some(Millis::secs(secs)),
        fence: None,
    };
    let before = cluster.engine.state().hash();
    assert_eq!(cluster.refused(reserve("x", "nowhere", &[0], 10)), "unknown_node");
    assert_eq!(cluster.refused(reserve("nobody", "n1", &[0], 10)), "unknown_job");
    assert_eq!(cluster.refused(reserve("x", "n1", &[8], 10)), "bad_index");
    assert_eq!(cluster.refused(reserve("x", "n1", &[1, 1], 10)), "bad_index");
    assert_eq!(cluster.refused(reserve("x", "n1", &[1, 2], 10)), "bad_count");
    assert_eq!(cluster.refused(reserve("x", "n1", &[1], 86_401)), "bad_lifetime");
    assert_eq!(cluster.refused(reserve("x", "n1", &[0], 10)), "occupied");
    assert_eq!(cluster.refused(reserve("a", "n1", &[1], 10)), "stale", "a running job needs no hold");
    assert_eq!(cluster.step(Input::Release(99)), Answer::Done, "giving back what is not there is no mistake");
    assert_eq!(cluster.engine.state().hash(), before);
}

#[test]
fn b25_an_end_places_the_job_that_waited_for_it() {
    let mut cluster = packing(NODE);
    cluster.at(0.0).submit(&gpus("a", 8));
    cluster.start("a");
    cluster.at(1.0).submit(&gpus("q", 8));
    assert_eq!(cluster.state("q"), JobState::Pending);
    cluster.at(2.5).exit("a", 0);
    assert_eq!(cluster.state("q"), JobState::Staging, "by that event, before any timer");
    assert!(
        cluster
            .effects()
            .iter()
            .any(|effect| matches!(effect, Effect::Start { fence, .. } if fence.job.as_str() == "q"))
    );
    assert_eq!(cluster.devices_of("q"), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_hold_becomes_the_placement_in_one_step() {
    let tenants = r#"tenants = [{ id = "t", max_nodes = 1.0 }]"#;
    let mut cluster = packing(&format!("{tenants}\n{NODE}"));
    let all = r#"jobs = [{ id = "all", tenant = "t", exclusive = false, gpu_count = 8 }]"#;
    cluster.at(0.0).submit(all);
    cluster.start("all");
    cluster.submit(r#"jobs = [{ id = "x", tenant = "t", exclusive = false, gpu_count = 2, vram_mib = "1GiB", cpu_milli = 500 }]"#);
    cluster.exit("all", 0);
    assert_eq!(cluster.state("x"), JobState::Staging);
    let mut other = packing(&format!("tenants = [{{ id = \"t\", max_nodes = 0.0 }}]\n{NODE}"));
    other.at(0.0).submit(r#"jobs = [{ id = "x", tenant = "t", exclusive = false, gpu_count = 2, vram_mib = "1GiB", cpu_milli = 500 }]"#);
    let reserve =
        Input::Hold { job: job_id("x"), node: node_id("n1"), gpus: vec![6, 7], lifetime: None, fence: None };
    let Answer::Held { id, .. } = other.step(reserve) else { panic!() };
    assert!(matches!(other.step(Input::Place(id)), Answer::NotCommitted(_)), "over its quota");
    let roomy = landfall_model::scenario::parse(
        r#"tenants = [{ id = "t", max_nodes = 5.0 }]"#,
        landfall_model::scenario::Format::Toml,
    )
    .unwrap();
    let tenant = roomy.world.tenants.values().next().unwrap().clone();
    other.done(Input::SetTenant(Box::new(tenant)));
    assert!(matches!(other.step(Input::Place(id)), Answer::Work(_)));
    assert_eq!(other.devices_of("x"), [6, 7]);
    assert!(other.engine.state().holds.is_empty());
    let (node, _) = other.engine.state().node(&node_id("n1")).unwrap();
    assert_eq!((node.cpu_committed.get(), node.has_holds()), (500, false));
}

#[test]
fn a_strict_queue_lets_nobody_of_the_tier_pass() {
    let strict = |discipline| {
        let settings = pool(Dispatch::Push, |pool| {
            pool.policy = Some(Name::new("bin-pack").unwrap());
            pool.push.queue_discipline = discipline;
        });
        let mut cluster = Cluster::new(settings, NODE);
        cluster.at(0.0).submit(&gpus("a", 4));
        cluster.at(1.0).submit(&gpus("wide", 8));
        cluster.at(2.0).submit(&gpus("small", 2));
        cluster.at(3.0).submit(&gpus("never", 10));
        (cluster.state("wide"), cluster.state("small"))
    };
    assert_eq!(strict(Discipline::BestEffort), (JobState::Pending, JobState::Staging));
    assert_eq!(strict(Discipline::Strict), (JobState::Pending, JobState::Pending));
}

#[test]
fn a_gang_needs_a_batch_pool() {
    let mut cluster = packing(NODE);
    let gang = Cluster::jobs(r#"jobs = [{ id = "g", nodes = 2 }]"#);
    assert_eq!(cluster.refused(Input::Submit(gang)), "gang_unsupported");
}

#[test]
fn cancelling_a_waiting_job_gives_its_hold_back() {
    let mut cluster = packing(&format!("tenants = [{{ id = \"t\", max_nodes = 0.0 }}]\n{NODE}"));
    cluster.at(0.0).submit(r#"jobs = [{ id = "x", tenant = "t", exclusive = false, gpu_count = 1 }]"#);
    let reserve =
        Input::Hold { job: job_id("x"), node: node_id("n1"), gpus: vec![0], lifetime: None, fence: None };
    assert!(matches!(cluster.step(reserve), Answer::Held { .. }));
    cluster.done(Input::Cancel(job_id("x")));
    assert_eq!(cluster.state("x"), JobState::Cancelled);
    assert!(cluster.engine.state().holds.is_empty());
    let (node, _) = cluster.engine.state().node(&node_id("n1")).unwrap();
    assert!(!node.has_holds());
}

#[test]
fn f44_a_placed_job_has_the_price_of_its_hardware() {
    use landfall_model::{PriceBasis, PriceSettings};
    let nodes = r#"nodes = [{ id = "n", cpu_milli = 8000, ram_mib = "32GiB", supported_runtimes = ["wasm"], gpus = [{ model = "NVIDIA H100 80GB HBM3", vram_mib = "80GiB" }] }]"#;
    let cases =
        [(Some(PriceBasis::Placement), Some(50_000)), (Some(PriceBasis::Node), Some(200_000)), (None, None)];
    for (basis, expected) in cases {
        let price = basis.map(|basis| PriceSettings { base: 0.10, basis, ..PriceSettings::default() });
        let mut cluster = Cluster::new(pool(Dispatch::Push, |pool| pool.price = price), nodes);
        cluster.submit(r#"jobs = [{ id = "j", runtime = "wasm", ram_mib = 512 }]"#);
        let known = |state: &landfall_engine::State| {
            let record = state.job(&job_id("j")).unwrap();
            assert!(record.run.is_some(), "placed");
            record.past().price.map(landfall_model::Money::get)
        };
        assert_eq!(known(cluster.engine.state()), expected, "{basis:?}");
        let mut rebuilt = landfall_engine::State::default();
        cluster.events.iter().for_each(|(at, event)| drop(rebuilt.apply(*at, event)));
        assert_eq!(known(&rebuilt), expected, "{basis:?} from the journal");
    }
}

fn fit(nodes: &str) -> Cluster {
    Cluster::new(pool(Dispatch::Push, |pool| pool.policy = Some(Name::new("fit").unwrap())), nodes)
}

#[test]
fn f40_good_runs_of_a_workload_tell_how_fast_nodes_are() {
    let gpu = "gpus = [{ count = 1, vram_mib = '8GiB' }]";
    let mut cluster = fit(&format!(
        "nodes = [{{ id = 'a', cpu_milli = 2000, {gpu} }}, {{ id = 'b', cpu_milli = 4000, {gpu} }}]"
    ));
    let mut number = 0;
    let mut run = |cluster: &mut Cluster, node: &str, secs: f64, needs: &str| {
        number += 1;
        let other = node_id(if node == "a" { "b" } else { "a" });
        cluster.done(Input::Order { node: other.clone(), order: NodeOrder::Drain });
        let job = format!("j{number}");
        cluster.submit(&format!("jobs = [{{ id = '{job}', workload = 'w', cpu_milli = 1000{needs} }}]"));
        assert_eq!(cluster.nodes_of(&job), [node]);
        cluster.start(&job);
        let now = cluster.now.as_millis() as f64 / 1000.0;
        cluster.keep_alive(now + secs);
        cluster.exit(&job, 0);
        cluster.done(Input::Order { node: other, order: NodeOrder::Return });
        let state = cluster.engine.state();
        let learned = ["a", "b"].map(|node| {
            let known = state.node(&node_id(node)).unwrap().0.correction(&Name::new("container").unwrap());
            (format!("{:.4}", known.factor), known.samples)
        });
        let work = state.pools.values().next().unwrap().work.values().next().copied();
        (learned.map(|(factor, samples)| format!("{factor} of {samples}")), work)
    };
    for (node, secs, a, b, work) in [
        ("a", 100.0, "1.0000 of 1", "1.0000 of 0", 5000.0),
        ("b", 80.0, "1.0000 of 1", "0.9250 of 1", 5600.0),
        ("a", 125.0, "0.9792 of 2", "0.9250 of 1", 5730.0),
        // Too short to tell.
        ("a", 4.9, "0.9792 of 2", "0.9250 of 1", 5730.0),
    ] {
        let (learned, known) = run(&mut cluster, node, secs, "");
        assert_eq!(learned, [a, b], "{node} {secs}");
        assert!((known.unwrap() - work).abs() < 1e-6, "{known:?}");
    }
    // On part of a GPU nobody can tell either.
    let shared = ", gpu_count = 1, vram_mib = 100, gpu_milli = 500";
    assert_eq!(run(&mut cluster, "a", 50.0, shared).0, ["0.9792 of 2", "0.9250 of 1"]);
}

#[test]
fn what_a_model_should_reach_is_kept_as_it_was_when_it_was_placed() {
    let needs = "runtime = 'llmcpp', gpu_count = 1, offload = 'allow'";
    for (node, vram, gpu_milli, expected) in [
        ("", "8GiB", 1000, Some(5.892_857)),
        (", gpus = [{ count = 1, model = 'RTX 3060', vram_mib = '12GiB' }]", "24GiB", 1000, Some(5.892_857)),
        (", gpus = [{ count = 1, model = 'RTX 4060', vram_mib = '8GiB' }]", "8GiB", 1000, Some(26.714_286)),
        (", gpus = [{ count = 1, model = 'RTX 4060', vram_mib = '8GiB' }]", "8GiB", 500, None),
    ] {
        let mut cluster = fit(&format!(
            "nodes = [{{ id = 'n', ram_mib = '32GiB', cpu_milli = 8000{node}, supported_runtimes = ['llmcpp'] }}]"
        ));
        cluster.submit(&format!(
            "jobs = [{{ id = 'j', {needs}, vram_mib = '{vram}', gpu_milli = {gpu_milli} }}]"
        ));
        let raw = cluster.record("j").run.as_ref().unwrap().why.raw_speed;
        assert_eq!(raw.is_some(), expected.is_some(), "{raw:?}");
        assert!((raw.unwrap_or_default() - expected.unwrap_or_default()).abs() < 1e-6, "{raw:?}");
    }
}
