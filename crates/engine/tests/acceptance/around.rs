//! What surrounds dispatch: capacity from providers, services that scale, staging, loans, preemption, peers.

use landfall_capacity::provider::{DeliveryStatus, ProviderApi, RequestId, StatusRequest};
use landfall_capacity::reactive::Sample;
use landfall_capacity::{AutoscaleSettings, BlockEvent, Call, Description};
use landfall_engine::input::{Report, StartRefusal, Submission};
use landfall_engine::record::{Cause, JobState};
use landfall_engine::{Answer, Effect, Event, Input};
use landfall_model::reason::Reason;
use landfall_model::{
    BlockId, BlockStatus, Dispatch, Gpu, Mib, MilliCpu, Millis, Money, Name, Node, NodeId, Pool, PoolId, Time,
};
use landfall_negotiate as negotiate;
use landfall_testkit::provider::{Behaviour, SimulatedProvider};

use crate::support::{Cluster, job_id, node_id, pool};

/// A pool that leases its nodes from simulated providers.
struct Leasing {
    cluster: Cluster,
    providers: Vec<SimulatedProvider>,
    bought: Vec<(BlockId, usize, u32)>,
    polls: u64,
}

impl Leasing {
    fn new() -> Self {
        let settings = pool(Dispatch::Push, |pool| pool.policy = Some(Name::new("bin-pack").unwrap()));
        let mut cluster = Cluster::new(settings, "");
        let descriptions = Description::defaults();
        let of_price =
            |description: &Description| Behaviour::reliable(description.clone(), Money::new(2_000_000), 64);
        let providers =
            descriptions.iter().map(|description| SimulatedProvider::new(of_price(description))).collect();
        let settings = Box::new(AutoscaleSettings { fast_warm_gpus: 0, ..AutoscaleSettings::default() });
        cluster.done(Input::SetAutoscale { settings, providers: descriptions });
        Self { cluster, providers, bought: Vec::new(), polls: 0 }
    }

    /// Carries out what the engine wants of providers, and tells it what they say.
    fn serve(&mut self) {
        let effects = self.cluster.effects().to_vec();
        for effect in effects {
            let Effect::AskProvider(call) = effect else { continue };
            let now = self.cluster.now;
            match *call {
                Call::Quote(request) => {
                    let answer = self.of(&request.provider).quote(&request, now);
                    self.cluster.step(Input::Quoted { provider: request.provider, answer });
                    self.serve();
                }
                Call::Provision(request) => {
                    let answer = self.of(&request.provider).provision(&request, now);
                    let at = self.position(&request.provider);
                    let new =
                        answer.iter().flatten().map(|delivery| (delivery.block.clone(), at, delivery.gpus));
                    self.bought.extend(new.collect::<Vec<_>>());
                    self.cluster.step(Input::Provisioned { request: request.id, answer: Some(answer) });
                    self.serve();
                }
                Call::Withdraw { provider, request } => {
                    self.of(&provider).terminate(&request, now).unwrap();
                    if let landfall_capacity::provider::Termination::Block(block) = request.what {
                        self.cluster.step(Input::BlockChanged { block, event: BlockEvent::Gone });
                    }
                }
            }
        }
    }

    fn position(&self, provider: &Name) -> usize {
        self.providers.iter().position(|known| known.describe().name() == provider).unwrap()
    }

    fn of(&mut self, provider: &Name) -> &mut SimulatedProvider {
        let at = self.position(provider);
        &mut self.providers[at]
    }

    /// Looks which blocks are ready; their nodes join.
    fn poll(&mut self) {
        let now = self.cluster.now;
        for (block, provider, gpus) in self.bought.clone() {
            self.polls += 1;
            let id = RequestId { scope: Name::new("test").unwrap(), number: self.polls };
            let request = StatusRequest { id, blocks: vec![block.clone()] };
            let status = self.providers[provider].status(&request, now).unwrap();
            let joined =
                self.cluster.engine.state().places.contains_key(&NodeId::new(block.as_str()).unwrap());
            if status == [DeliveryStatus::Ready] && !joined {
                self.cluster.step(Input::BlockChanged { block: block.clone(), event: BlockEvent::Ready });
                let known =
                    self.cluster.engine.state().pools.values().next().unwrap().world.blocks[&block].clone();
                let mut node =
                    Node::new(NodeId::new(block.as_str()).unwrap(), MilliCpu::cores(64), Mib::gib(512));
                node.gpus = (0..gpus as u16).map(|index| Gpu::new(index, None, Some(Mib::gib(80)))).collect();
                node.block = Some(known);
                let pool = PoolId::new("p").unwrap();
                self.cluster.done(Input::Join { pool, node: Box::new(node), running: None });
            }
        }
    }

    fn run(&mut self, secs: u64) {
        let end = self.cluster.now + Millis::secs(secs);
        while self.cluster.now < end {
            self.cluster.now = self.cluster.now + Millis::secs(5);
            self.cluster.heartbeats();
            self.cluster.tick();
            self.serve();
            self.poll();
        }
    }
}

#[test]
fn waiting_jobs_bring_capacity_and_idle_capacity_goes_back() {
    let mut leasing = Leasing::new();
    let text = r#"jobs = [{ id = "j", gpu_count = 2, vram_mib = "40GiB", cpu_milli = 1000, expected_duration_ms = "10min" }]"#;
    leasing.cluster.at(0.0).submit(text);
    leasing.run(60);
    assert_eq!(leasing.bought.len(), 1, "one purchase for one need");
    assert_eq!(leasing.bought[0].2, 3, "half more than is needed, from the exact provider");
    assert_eq!(leasing.cluster.state("j"), JobState::Pending);
    for _ in 0..18 {
        if leasing.cluster.state("j") == JobState::Pending {
            leasing.run(5);
        }
    }
    assert_eq!(leasing.cluster.state("j"), JobState::Staging, "placed as soon as the block is there");
    leasing.cluster.start("j");
    leasing.run(300);
    assert_eq!(leasing.bought.len(), 1, "never bought twice");
    leasing.cluster.exit("j", 0);
    leasing.run(250);
    let block = leasing.bought[0].0.clone();
    let status = |leasing: &Leasing| {
        leasing.cluster.engine.state().pools.values().next().unwrap().world.blocks[&block].status
    };
    assert_eq!(status(&leasing), BlockStatus::Active, "idle for less than its cool-down");
    leasing.run(500);
    assert_eq!(status(&leasing), BlockStatus::Sold);
    assert_eq!(leasing.providers.iter().map(SimulatedProvider::leased_gpus).sum::<u64>(), 0);
}

#[test]
fn pack_b32_a_hopeless_job_is_no_demand() {
    let mut leasing = Leasing::new();
    leasing.cluster.at(0.0).submit(r#"jobs = [{ id = "j", gpu_count = 10, vram_mib = "40GiB" }]"#);
    leasing.run(300);
    assert!(leasing.bought.is_empty());
}

fn batch(change: impl FnOnce(&mut Pool), scenario: &str) -> Cluster {
    Cluster::new(pool(Dispatch::Batch, change), scenario)
}

#[test]
fn b35_a_service_grows_and_shrinks_by_one_node_at_a_time() {
    let grown = |value: f64, start: u32, until: i64| {
        let mut cluster = batch(|_| {}, r#"nodes = [{ id = "n", count = 9 }]"#);
        let text = format!(
            r#"jobs = [{{ id = "s", lifecycle = "reactive", nodes = {{ min = {start}, max = 9 }}, scale_target_milli = 100000 }}]"#
        );
        cluster.running("s", &text);
        let mut moves = Vec::new();
        let mut nodes = cluster.nodes_of("s").len();
        for at in (0..=until).step_by(60) {
            cluster.keep_alive(at as f64);
            cluster.done(Input::Metric { job: job_id("s"), sample: Sample { value: Some(value), queue: 0 } });
            for node in cluster.nodes_of("s") {
                cluster.report("s", &node, Report::Started);
            }
            let now = cluster.nodes_of("s").len();
            if now != nodes {
                moves.push((at, now as i64 - nodes as i64));
            }
            nodes = now;
        }
        moves
    };
    assert_eq!(grown(120.0, 1, 360), [(120, 1), (300, 1)]);
    assert_eq!(grown(100.0, 1, 600), []);
}

#[test]
fn a_service_grows_as_its_job_may_be_placed() {
    let grown = |nodes: &str, asks: &str, other: &str| {
        let mut cluster = batch(|pool| pool.heartbeats = false, nodes);
        let job = format!(
            r#"jobs = [{{ id = "s", lifecycle = "reactive", nodes = {{ min = 1, max = 9 }}, scale_target_milli = 100000, {asks} }}]"#
        );
        cluster.running("s", &job);
        if !other.is_empty() {
            cluster.submit(&format!(
                r#"jobs = [{{ id = "o", walltime_ms = "9h", exclusive = false, {other} }}]"#
            ));
            cluster.run_until(5.0);
            cluster.start("o");
        }
        for at in [0.0, 60.0, 120.0] {
            cluster.run_until(10.0 + at);
            let sample = Sample { value: Some(120.0), queue: 0 };
            cluster.done(Input::Metric { job: job_id("s"), sample });
        }
        let state = cluster.engine.state();
        let whole = |node: &String| {
            let (node, _) = state.node(&node_id(node)).unwrap();
            node.placements.iter().any(|placement| placement.exclusive_node)
        };
        cluster.nodes_of("s").into_iter().map(|node| (whole(&node), node)).collect::<Vec<_>>()
    };
    let groups = r#"nodes = [{ id = "a", group = "a" }, { id = "b", group = "b" }]"#;
    let on =
        |whole: bool, nodes: &[&str]| nodes.iter().map(|node| (whole, node.to_string())).collect::<Vec<_>>();
    assert_eq!(grown(groups, "", ""), on(true, &["a", "b"]));
    assert_eq!(grown(groups, "max_span = 1", ""), on(true, &["a"]), "a step is checked like a start");
    let sizes = r#"nodes = [{ id = "a", cpu_milli = 8000 }, { id = "b", cpu_milli = 16000 }]"#;
    let shares = "exclusive = false, cpu_milli = 2000";
    assert_eq!(grown(sizes, shares, ""), on(false, &["a", "b"]));
    assert_eq!(grown(sizes, shares, "cpu_milli = 14000"), on(false, &["a", "b"]), "beside others");
    assert_eq!(grown(sizes, shares, "cpu_milli = 15000"), on(false, &["a"]), "they left too little");
    assert_eq!(grown(sizes, "cpu_milli = 2000", "cpu_milli = 14000"), on(true, &["a"]));
    let tenant = |most: f64| format!("tenants = [{{ id = \"t\", max_nodes = {most} }}]\n{sizes}");
    let shares = "exclusive = false, cpu_milli = 2000, tenant = \"t\"";
    assert_eq!(grown(&tenant(0.375), shares, ""), on(false, &["a", "b"]), "a quarter and an eighth");
    assert_eq!(grown(&tenant(0.374), shares, ""), on(false, &["a"]));
}

/// A service on one node that was just given a second one.
fn growing() -> Cluster {
    let mut cluster = batch(|_| {}, r#"nodes = [{ id = "n", count = 3 }]"#);
    let text = r#"jobs = [{ id = "s", lifecycle = "reactive", nodes = { min = 1, max = 9 }, scale_target_milli = 100000 }]"#;
    cluster.running("s", text);
    for at in [0.0, 60.0, 120.0] {
        cluster.keep_alive(at);
        cluster.done(Input::Metric { job: job_id("s"), sample: Sample { value: Some(120.0), queue: 0 } });
    }
    assert_eq!(cluster.nodes_of("s"), ["n-0", "n-1"]);
    cluster
}

#[test]
fn a_node_that_a_service_cannot_have_costs_it_only_the_step() {
    for (refusal, faults) in [
        (StartRefusal::Draining, 0),
        (StartRefusal::AtCapacity, 0),
        (StartRefusal::Malformed, 0),
        (StartRefusal::Unsupported, 1),
        (StartRefusal::Failed, 1),
    ] {
        let mut cluster = growing();
        assert_eq!(cluster.report("s", "n-1", Report::Refused(refusal)), Answer::Done);
        assert_eq!((cluster.state("s"), cluster.nodes_of("s")), (JobState::Running, vec!["n-0".to_owned()]));
        let (node, record) = cluster.engine.state().node(&node_id("n-1")).unwrap();
        assert_eq!((node.placements.len(), record.start_failures), (0, faults), "{refusal:?}");
    }
}

#[test]
fn a_start_that_a_service_grows_by_goes_out_again_and_is_given_up() {
    let starts = |cluster: &Cluster| {
        let to = |effect: &Effect| match effect {
            Effect::Start { node, .. } => Some(node.to_string()),
            _ => None,
        };
        cluster.effects().iter().filter_map(to).collect::<Vec<_>>()
    };
    let mut cluster = growing();
    assert_eq!(
        cluster.report("s", "n-1", Report::Refused(StartRefusal::Busy)),
        Answer::Ignored("busy".into())
    );
    for at in [121.0, 122.0, 125.0] {
        cluster.at(at).tick();
        assert_eq!(starts(&cluster), ["n-1"], "at {at}");
    }
    let mut heard = growing();
    heard.at(121.0).tick();
    heard.report("s", "n-1", Report::Started);
    heard.keep_alive(180.0);
    assert_eq!(heard.nodes_of("s").len(), 2, "the second time it was heard");
    cluster.at(130.0).tick();
    assert_eq!((cluster.state("s"), cluster.nodes_of("s")), (JobState::Running, vec!["n-0".to_owned()]));
}

#[test]
fn a_service_shrinks_to_its_fewest_nodes() {
    let mut cluster = batch(|_| {}, r#"nodes = [{ id = "n", count = 5 }]"#);
    let text = r#"jobs = [{ id = "s", lifecycle = "reactive", nodes = { min = 1, max = 9 }, scale_target_milli = 100000 }]"#;
    cluster.running("s", text);
    let mut counts = Vec::new();
    for at in (0..=3600).step_by(60) {
        cluster.keep_alive(f64::from(at));
        let value = if at < 700 { 120.0 } else { 40.0 };
        cluster.done(Input::Metric { job: job_id("s"), sample: Sample { value: Some(value), queue: 0 } });
        for node in cluster.nodes_of("s") {
            cluster.report("s", &node, Report::Started);
        }
        counts.push(cluster.nodes_of("s").len());
    }
    assert_eq!(counts.iter().max(), Some(&5), "all there are: {counts:?}");
    assert!(counts.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 1), "{counts:?}");
    assert_eq!(counts.last(), Some(&1), "{counts:?}");
    assert!(cluster.effects().iter().all(|effect| !matches!(effect, Effect::Start { .. })));
}

#[test]
fn b46_the_staging_gate() {
    let started = |near: u64, declared: bool| {
        let mut cluster = batch(|pool| pool.batch.staging = true, r#"nodes = [{ id = "n" }]"#);
        let inputs = format!(
            r#", inputs = [{{ digest = "hot", bytes = {near}, tier = "hot" }}, {{ digest = "far", bytes = {} }}]"#,
            100 - near
        );
        let inputs = if declared { inputs.as_str() } else { "" };
        cluster.at(0.0).submit(&format!(r#"jobs = [{{ id = "j"{inputs} }}]"#));
        cluster.run_until(0.0);
        cluster
    };
    assert_eq!(started(79, true).state("j"), JobState::Pending);
    let flags = |cluster: &Cluster| {
        let terms = &cluster.record("j").run.as_ref().unwrap().why.terms;
        let is_flag = |term: &&str| ["stall_expected", "staging_failed"].contains(term);
        terms.iter().map(|points| &*points.term).filter(is_flag).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(flags(&started(80, true)), ["stall_expected"]);
    assert!(flags(&started(95, true)).is_empty());
    assert_eq!(started(0, false).state("j"), JobState::Staging);
    let mut cluster = started(10, true);
    let far = Name::new("far").unwrap();
    cluster.done(Input::Staged { job: job_id("j"), digest: far.clone(), near: true });
    cluster.run_until(5.0);
    assert_eq!(cluster.state("j"), JobState::Staging, "its inputs came near");
    let mut cluster = started(10, true);
    for _ in 0..3 {
        cluster.done(Input::Staged { job: job_id("j"), digest: far.clone(), near: false });
    }
    cluster.run_until(5.0);
    assert_eq!(flags(&cluster), ["staging_failed"], "after three failures it starts anyway");
}

#[test]
fn urgent_work_stops_less_urgent_work_and_gets_its_nodes() {
    let mut cluster = batch(|_| {}, r#"nodes = [{ id = "n", count = 2 }]"#);
    cluster.running(
        "low",
        r#"jobs = [{ id = "low", nodes = 2, class = 2, checkpoint = "auto", walltime_ms = "10h" }]"#,
    );
    cluster.keep_alive(660.0);
    cluster.submit(r#"jobs = [{ id = "high", nodes = 2, class = 8 }]"#);
    cluster.submit(
        r#"jobs = [{ id = "thief", nodes = 1, class = 5, may_preempt = false, walltime_ms = "1min" }]"#,
    );
    cluster.keep_alive(665.0);
    assert_eq!(cluster.state("low"), JobState::Checkpointing);
    assert_eq!(cluster.state("high"), JobState::Pending);
    cluster.keep_alive(680.0);
    for node in cluster.nodes_of("low") {
        cluster.report("low", &node, Report::Checkpointed);
    }
    assert_eq!(cluster.state("high"), JobState::Staging, "as soon as all victims are gone");
    assert_eq!(cluster.state("thief"), JobState::Pending, "freed nodes are kept for the preemptor");
    assert_eq!(cluster.state("low"), JobState::Suspended);
    cluster.start("high");
    cluster.keep_alive(690.0);
    assert_eq!(cluster.state("low"), JobState::Pending, "eligible again from the next cycle");
    assert_eq!(cluster.record("low").requeues, 0, "a preemption does not count");
    cluster.done(Input::Cancel(job_id("thief")));
    cluster.exit("high", 0);
    cluster.keep_alive(695.0);
    cluster.start("low");
    let run = cluster.record("low").run.as_ref().unwrap();
    let left = run.ends_at.unwrap().since(run.started_at.unwrap());
    assert!(left < Millis::secs(36_000) && left > Millis::secs(35_000), "goes on with what was left: {left}");
}

#[test]
fn a_job_without_checkpoint_is_stopped_and_starts_over() {
    let mut cluster = batch(|_| {}, r#"nodes = [{ id = "n" }]"#);
    cluster.running("low", r#"jobs = [{ id = "low", class = 2, walltime_ms = "10h" }]"#);
    cluster.keep_alive(700.0);
    cluster.submit(r#"jobs = [{ id = "high", class = 8 }]"#);
    cluster.keep_alive(705.0);
    assert_eq!(cluster.state("low"), JobState::Stopping);
    cluster.keep_alive(740.0);
    assert_eq!(cluster.state("low"), JobState::Pending);
    assert_eq!(cluster.state("high"), JobState::Staging);
}

#[test]
fn a_job_that_others_make_room_for_gets_the_devices_it_may_have() {
    let links = "links = [{ from = 1, to = 3, gb_s = 900 }]";
    for (gpus, asks, want) in [
        (
            r#"gpus = [{ model = "t4" }, { model = "a100" }]"#,
            r#"gpu_count = 1, gpu_models = ["a100"]"#,
            vec![1],
        ),
        (&format!(r#"gpus = [{{ count = 4, model = "a100" }}], {links}"#), "gpu_count = 2", vec![1, 3]),
    ] {
        let mut cluster = batch(|_| {}, &format!(r#"nodes = [{{ id = "n", {gpus} }}]"#));
        cluster.running("low", r#"jobs = [{ id = "low", class = 1, walltime_ms = "10h" }]"#);
        cluster.keep_alive(700.0);
        cluster.submit(&format!(r#"jobs = [{{ id = "high", class = 9, exclusive = false, {asks} }}]"#));
        cluster.keep_alive(740.0);
        assert_eq!(cluster.state("high"), JobState::Staging, "{asks}");
        assert_eq!(cluster.devices_of("high"), want, "{asks}");
    }
}

#[test]
fn work_that_shares_nodes_is_stopped_for_more_urgent_work() {
    let node = r#"nodes = [{ id = "n", cpu_milli = 8000 }]"#;
    let job = |id: &str, more: &str| {
        format!(r#"jobs = [{{ id = "{id}", class = 1, exclusive = false, walltime_ms = "10h", {more} }}]"#)
    };
    for (asks, stopped) in [
        ("class = 9", ["low", "same"].as_slice()),
        ("class = 9, exclusive = false, cpu_milli = 6000", &["low"]),
        ("class = 9, exclusive = false, cpu_milli = 8000", &["low", "same"]),
        ("class = 1", &[]),
    ] {
        let mut cluster = batch(|_| {}, node);
        cluster.running("low", &job("low", "cpu_milli = 2000"));
        cluster.keep_alive(10.0);
        cluster.submit(&job("same", "cpu_milli = 1000, class = 2").replacen("class = 1, ", "", 1));
        cluster.keep_alive(20.0);
        cluster.start("same");
        cluster.keep_alive(700.0);
        cluster.submit(&format!(r#"jobs = [{{ id = "high", {asks} }}]"#));
        cluster.keep_alive(705.0);
        let stops = |cluster: &Cluster| {
            let stops = |job: &&str| cluster.state(job) == JobState::Stopping;
            ["low", "same"].into_iter().filter(stops).collect::<Vec<_>>()
        };
        assert_eq!(stops(&cluster), stopped, "{asks}");
        // What is free meanwhile is kept for the one that waits for it.
        cluster.submit(&job("thief", "cpu_milli = 1000, may_preempt = false"));
        cluster.keep_alive(720.0);
        assert_eq!(cluster.state("thief"), JobState::Pending, "{asks}");
        cluster.keep_alive(745.0);
        let started = cluster.state("high") == JobState::Staging;
        assert_eq!(started, !stopped.is_empty(), "{asks}");
        let rejected = cluster.events.iter().any(|(_, event)| matches!(event, Event::Rejected(_)));
        assert!(!rejected, "{asks}");
    }
}

#[test]
fn nodes_that_are_kept_for_a_job_count_for_its_tenant() {
    let nodes = r#"
        tenants = [{ id = "t", max_nodes = 2.0 }]
        nodes = [{ id = "n", count = 3 }]"#;
    let mut cluster = batch(|_| {}, nodes);
    let low = r#"jobs = [{ id = "low", nodes = 2, class = 2, checkpoint = "auto", walltime_ms = "10h" }]"#;
    cluster.running("low", low);
    cluster.submit(r#"jobs = [{ id = "other", nodes = 1, class = 2, walltime_ms = "665s" }]"#);
    cluster.keep_alive(5.0);
    cluster.start("other");
    cluster.keep_alive(660.0);
    cluster.submit(r#"jobs = [{ id = "high", tenant = "t", nodes = 2, class = 8 }]"#);
    cluster.keep_alive(665.0);
    assert_eq!(cluster.state("low"), JobState::Checkpointing);
    cluster.submit(
        r#"jobs = [{ id = "more", tenant = "t", class = 8, may_preempt = false, walltime_ms = "1min" }]"#,
    );
    cluster.exit("other", 0);
    cluster.keep_alive(675.0);
    assert_eq!(cluster.state("more"), JobState::Pending, "two nodes are kept for its tenant already");
    let why = cluster.engine.explain(&job_id("more")).unwrap().reasons;
    assert!(why.iter().any(|why| why.reason == Reason::QuotaNodes), "{why:?}");
    for node in cluster.nodes_of("low") {
        cluster.report("low", &node, Report::Checkpointed);
    }
    assert_eq!(cluster.state("high"), JobState::Staging, "its own nodes do not stand against it");
    assert!(!cluster.events.iter().any(|(_, event)| matches!(event, Event::Rejected(_))));
}

pub(crate) fn two_pools() -> Cluster {
    let mut cluster = Cluster::new(
        pool(Dispatch::Batch, |pool| pool.loans.lend_max_fraction = 0.5),
        r#"nodes = [{ id = "a", count = 4 }]"#,
    );
    let mut other = Pool::new(PoolId::new("q").unwrap(), Dispatch::Batch);
    other.loans.lend_max_fraction = 0.5;
    cluster.add_pool(other, r#"nodes = [{ id = "b", count = 4 }]"#);
    cluster
}

pub(crate) fn submit_to(cluster: &mut Cluster, pool: &str, text: &str) {
    for mut submission in Cluster::jobs(text) {
        submission.pool = PoolId::new(pool).ok();
        cluster.done(Input::Submit(vec![submission]));
    }
}

#[test]
fn nodes_are_lent_and_come_back() {
    let mut cluster = two_pools();
    submit_to(
        cluster.at(0.0),
        "p",
        r#"jobs = [{ id = "wide", nodes = 6, class = 3, checkpoint = "manual", walltime_ms = "10h" }]"#,
    );
    cluster.run_until(0.0);
    assert_eq!(cluster.nodes_of("wide"), ["a-0", "a-1", "a-2", "a-3", "b-0", "b-1"]);
    let lent = |cluster: &Cluster| {
        cluster
            .engine
            .state()
            .pools
            .values()
            .flat_map(|pool| &pool.nodes)
            .filter(|node| node.lent_to.is_some())
            .count()
    };
    assert_eq!(lent(&cluster), 2);
    cluster.start("wide");
    cluster.keep_alive(700.0);
    // Their home wants them back: notice, then a checkpoint, then they are home.
    submit_to(&mut cluster, "q", r#"jobs = [{ id = "home", nodes = 4, class = 3 }]"#);
    cluster.keep_alive(706.0);
    assert_eq!(cluster.state("wide"), JobState::Running, "it has time to end by itself");
    cluster.keep_alive(770.0);
    assert_eq!(cluster.state("wide"), JobState::Checkpointing);
    for node in cluster.nodes_of("wide") {
        cluster.report("wide", &node, Report::Checkpointed);
    }
    assert_eq!(lent(&cluster), 0);
    assert_eq!(cluster.nodes_of("home"), ["b-0", "b-1", "b-2", "b-3"]);
    cluster.keep_alive(775.0);
    assert_eq!((cluster.state("wide"), cluster.record("wide").attempt), (JobState::Pending, 2));
    assert_eq!(cluster.record("wide").requeues, 0, "what others want back costs it no retry");
}

#[test]
fn b44_two_pools_want_the_same_node_in_one_instant() {
    // Both may borrow the only free nodes; the pool with the lower id goes first.
    let mut cluster = two_pools();
    let mut third = Pool::new(PoolId::new("r").unwrap(), Dispatch::Batch);
    third.loans.lend_max_fraction = 0.5;
    cluster.add_pool(third, r#"nodes = [{ id = "c", count = 2 }]"#);
    submit_to(
        cluster.at(0.0),
        "p",
        r#"jobs = [{ id = "x", nodes = 5, checkpoint = "manual", walltime_ms = "1h" }]"#,
    );
    submit_to(
        &mut cluster,
        "q",
        r#"jobs = [{ id = "y", nodes = 5, checkpoint = "manual", walltime_ms = "1h" }]"#,
    );
    cluster.run_until(0.0);
    let (x, y) = (cluster.state("x"), cluster.state("y"));
    assert!(matches!((x, y), (JobState::Staging, JobState::Pending)), "{x:?} {y:?}");
    let queued = cluster.record("y").job.queued_at;
    cluster.start("x");
    cluster.exit("x", 0);
    cluster.run_until(5.0);
    assert_eq!(cluster.state("y"), JobState::Staging, "tried in the next cycle");
    assert_eq!(cluster.record("y").job.queued_at, queued);
}

#[test]
fn immediate_jobs_start_at_once_or_not_at_all() {
    let mut cluster = batch(|_| {}, r#"nodes = [{ id = "n" }]"#);
    cluster.running("a", r#"jobs = [{ id = "a" }]"#);
    cluster.submit(r#"jobs = [{ id = "now", immediate = true }]"#);
    cluster.run_until(5.0);
    assert_eq!(cluster.state("now"), JobState::Cancelled);
    assert_eq!(cluster.record("now").ended.as_ref().unwrap().0, Cause::ImmediateUnavailable);
}

#[test]
fn a_running_job_saves_its_work_when_that_is_worth_it() {
    let mut cluster = batch(|_| {}, r#"nodes = [{ id = "n", gpus = [{ count = 4 }] }]"#);
    cluster.running("j", r#"jobs = [{ id = "j", gpu_count = 4, checkpoint = "auto", walltime_ms = "10h" }]"#);
    // The cycle asks; nothing waits, so only the longest interval counts.
    submit_to(&mut cluster, "p", r#"jobs = [{ id = "next", gpu_count = 4, walltime_ms = "10h" }]"#);
    let mut asked_at = None;
    while asked_at.is_none() && cluster.now.as_millis() < 22_000_000 {
        let at = cluster.now.as_millis() as f64 / 1000.0 + 5.0;
        cluster.run_until(at);
        if cluster.effects().iter().any(|effect| matches!(effect, Effect::Checkpoint { leave: false, .. })) {
            asked_at = Some(cluster.now.as_millis() / 1000);
        }
        cluster.heartbeats();
    }
    // Cost: 8 s of storage path, 8 s of 4 GPUs, 1.6 for the space; value: t · 4 · 0.001 + 60 · backlog.
    assert_eq!(asked_at, Some(300), "as soon as it may: the queue is as long as what runs");
    cluster.report("j", "n", Report::Checkpointed);
    assert_eq!(cluster.state("j"), JobState::Running);
}

#[test]
fn only_jobs_that_wait_for_its_nodes_make_a_job_save_its_work() {
    let asked_at = |waits: &str, opens: Option<i64>| {
        let settings = |pool: &mut Pool| {
            (pool.heartbeats, pool.batch.checkpoint.loss_probability) = (false, 0.0);
        };
        let nodes = r#"nodes = [{ id = "a", cpu_milli = 8000 }, { id = "g", cpu_milli = 1000, gpus = [{ count = 1 }] }]"#;
        let mut cluster = batch(settings, nodes);
        let text =
            r#"jobs = [{ id = "j", cpu_milli = 2000, class = 2, checkpoint = "auto", walltime_ms = "10h" }]"#;
        cluster.running("j", text);
        assert_eq!(cluster.nodes_of("j"), ["a"]);
        cluster.submit(r#"jobs = [{ id = "busy", class = 9, gpu_count = 1, walltime_ms = "10h" }]"#);
        cluster.run_until(5.0);
        cluster.start("busy");
        let jobs = Cluster::jobs(&format!(r#"jobs = [{{ id = "w", may_preempt = false, {waits} }}]"#));
        let not_before = opens.map(Time::from_secs);
        for submission in jobs {
            cluster.done(Input::Submit(vec![Submission { not_before, ..submission }]));
        }
        cluster.run_until(900.0);
        let saving = cluster.events.iter().find(|(_, event)| matches!(event, Event::Saving { .. }));
        saving.map(|(at, _)| at.as_millis() / 1000)
    };
    let (brief, long) = (r#"walltime_ms = "1min""#, r#"walltime_ms = "10h""#);
    for (waits, opens, want) in [
        (format!("class = 9, cpu_milli = 2000, {brief}"), None, Some(300)),
        (format!("class = 9, cpu_milli = 2000, {brief}"), Some(610), Some(630)),
        (format!("class = 9, gpu_count = 1, {brief}"), None, None),
        // As many GPU-hours wait as run.
        (format!("class = 2, gpu_count = 1, {long}"), None, Some(300)),
        (format!("class = 2, gpu_count = 1, {long}"), Some(610), Some(630)),
    ] {
        assert_eq!(asked_at(&waits, opens), want, "{waits}, from {opens:?}");
    }
}

#[test]
fn a_running_job_saves_its_work_also_where_nothing_waits() {
    let settings = |pool: &mut Pool| {
        (pool.heartbeats, pool.batch.checkpoint.loss_probability) = (false, 0.0);
    };
    let mut cluster = batch(settings, r#"nodes = [{ id = "n", gpus = [{ count = 4 }] }]"#);
    let text = r#"jobs = [{ id = "j", gpu_count = 4, checkpoint = "auto", walltime_ms = "10h" }]"#;
    cluster.at(10.0).submit(text);
    cluster.run_until(12.0);
    cluster.start("j");
    cluster.run_until(6.0 * 3600.0 + 11.0);
    let asked = |cluster: &Cluster| {
        let saving = cluster.events.iter().find(|(_, event)| matches!(event, Event::Saving { .. }));
        saving.map(|(at, _)| at.as_millis() / 1000)
    };
    assert_eq!(asked(&cluster), None, "nothing waits, so only the longest interval counts");
    let cycles = |cluster: &Cluster| {
        cluster.events.iter().filter(|(_, event)| matches!(event, Event::Cycled { .. })).count()
    };
    let before = cycles(&cluster);
    cluster.run_until(6.0 * 3600.0 + 60.0);
    assert_eq!(
        (asked(&cluster), cycles(&cluster)),
        (Some(6 * 3600 + 30), before),
        "on the beat, without a cycle"
    );
    cluster.report("j", "n", Report::Checkpointed);
    cluster.exit("j", 0);
    cluster.run_until(6.0 * 3600.0 + 90.0);
    assert_eq!(cluster.engine.next_wake(), None, "nobody is left to be asked");
}

#[test]
fn the_peer_of_a_negotiated_pool_lives_in_the_engine() {
    let mut cluster = Cluster::new(pool(Dispatch::Negotiate, |_| {}), "");
    let id = PoolId::new("p").unwrap();
    let settings = Box::new(negotiate::Settings::default());
    let told = Input::Peer { pool: id.clone(), input: Box::new(negotiate::Input::Trust(Default::default())) };
    assert_eq!(cluster.refused(told), "no_peer");
    cluster.done(Input::SetPeer { pool: id.clone(), id: node_id("peer-x"), settings });
    let submission = negotiate::Submission::new(node_id("peer-x"), 1);
    let submit = negotiate::Input::Submit(Box::new(submission));
    cluster.at(0.0).done(Input::Peer { pool: id.clone(), input: Box::new(submit) });
    let asks = |cluster: &Cluster| {
        let broadcast = |effect: &&Effect| matches!(effect, Effect::Peer { effect, .. } if matches!(**effect, negotiate::Effect::Broadcast { .. }));
        cluster.effects().iter().filter(broadcast).count()
    };
    assert!(asks(&cluster) > 0, "{:?}", cluster.effects());
    cluster.run_until(60.0);
    let peer = &cluster.engine.state().peers[&id];
    let job = peer.jobs().values().next().unwrap();
    assert!(
        matches!(job.progress.state, negotiate::JobState::Failed { .. }),
        "nobody is there: {:?}",
        job.progress.state
    );
    // The journal holds what the peer was told, so it can be rebuilt.
    let mut rebuilt = landfall_engine::State::default();
    for (at, event) in &cluster.events {
        rebuilt.apply(*at, event);
    }
    assert_eq!(rebuilt.hash(), cluster.engine.state().hash());
}

#[test]
fn every_acceptance_run_can_be_rebuilt_from_its_events() {
    let mut cluster = two_pools();
    submit_to(cluster.at(0.0), "p", r#"jobs = [{ id = "x", nodes = 5, walltime_ms = "1h" }]"#);
    cluster.run_until(0.0);
    cluster.start("x");
    submit_to(&mut cluster, "p", r#"jobs = [{ id = "y", nodes = 4 }]"#);
    cluster.keep_alive(100.0);
    cluster.done(Input::Cancel(job_id("x")));
    cluster.keep_alive(200.0);
    let mut rebuilt = landfall_engine::State::default();
    for (at, event) in &cluster.events {
        rebuilt.apply(*at, event);
    }
    assert_eq!(rebuilt, *cluster.engine.state());
}
