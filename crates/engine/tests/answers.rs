//! Answers to people: explain, why-not, estimate, plan, and an engine made from a scenario.

use landfall_engine::answers::Change;
use landfall_engine::input::{Input, Submission};
use landfall_engine::record::JobState;
use landfall_engine::solver::Precision;
use landfall_engine::{Engine, Event};
use landfall_model::answer::Explanation;
use landfall_model::reason::Reason;
use landfall_model::scenario::{Format, parse};
use landfall_model::{Dispatch, Indices, Job, JobId, Node, NodeId, PoolId, Situation, TenantId, Time};

fn situation(text: &str) -> Situation {
    parse(text, Format::Toml).unwrap_or_else(|error| panic!("{error}"))
}

fn engine(text: &str) -> Engine {
    Engine::from_situation(&situation(text)).unwrap_or_else(|refused| panic!("{refused}"))
}

fn settled(text: &str) -> Engine {
    engine(text).after_this_instant()
}

fn job(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

fn node(id: &str) -> NodeId {
    NodeId::new(id).unwrap()
}

#[track_caller]
fn explained(engine: &Engine, id: &str) -> Explanation {
    engine.explain(&job(id)).unwrap_or_else(|| panic!("no job {id}"))
}

fn reasons(explanation: &Explanation) -> Vec<&str> {
    explanation.reasons.iter().map(|why| why.reason.name()).collect()
}

fn nodes_of(engine: &Engine, id: &str) -> Vec<String> {
    let placed = explained(engine, id).placed;
    placed.map_or_else(Vec::new, |placed| placed.nodes.iter().map(|at| at.node.to_string()).collect())
}

/// Minutes after the clock of the scenario.
fn minutes(time: Option<Time>) -> u64 {
    time.expect("a time").since(Time::from_millis(1000)).get() / 60_000
}

/// Two nodes of four GPUs; `old` holds all of `b` for one hour, `half` half of `a` for two.
const PUSH: &str = r#"
now_ms = 1000
[[pools]]
id = "lab"
policy = "bin-pack"
[[tenants]]
id = "t"
max_gpus = 4
[[nodes]]
id = "a"
pool = "lab"
cpu_milli = "32 cores"
ram_mib = "64GiB"
[[nodes.gpus]]
count = 4
vram_mib = "80GiB"
[[nodes.placements]]
job = "half"
gpus = [0, 1]
vram_mib = "80GiB"
expected_duration_ms = "2h"
[[nodes]]
id = "b"
pool = "lab"
cpu_milli = "32 cores"
ram_mib = "64GiB"
[[nodes.gpus]]
count = 4
vram_mib = "80GiB"
[[nodes.placements]]
job = "old"
gpus = [0, 1, 2, 3]
vram_mib = "80GiB"
expected_duration_ms = "1h"
"#;

fn wants(id: &str, gpus: u32, more: &str) -> String {
    format!(
        "[[jobs]]\nid = \"{id}\"\npool = \"lab\"\ncpu_milli = 1000\ngpu_count = {gpus}\nvram_mib = \"60GiB\"\n\
         expected_duration_ms = \"30min\"\n{more}\n"
    )
}

fn push_with(jobs: &[String]) -> String {
    format!("{PUSH}{}", jobs.concat())
}

/// A job for a pool like [`PUSH`].
fn one(id: &str, gpus: u32, more: &str) -> Job {
    situation(&push_with(&[wants(id, gpus, more)])).job(id).unwrap().clone()
}

fn submit(job: Job) -> Change {
    Change::Submit(vec![Submission::new(job)])
}

#[test]
fn an_array_is_planned_whole() {
    let engine = settled(PUSH);
    let plan = |first, last| {
        let submission = Box::new(Submission::new(one("sweep", 1, "")));
        engine.plan(Change::SubmitArray { submission, indices: Indices::range(first, last, 1) })
    };
    let planned = plan(1, 1000);
    let starts: Vec<&str> = planned.starts.iter().map(|start| start.job.as_str()).collect();
    assert_eq!(starts, ["sweep.0001", "sweep.0002"], "two devices are free");
    let waiting: Vec<&str> = planned.waiting.iter().map(|waiting| waiting.job.as_str()).collect();
    assert_eq!((waiting, planned.waiting_total), (vec!["sweep"], 998));
    assert!(planned.waiting[0].estimate.is_some());
    assert_eq!(plan(5, 1).refused.unwrap().code, "bad_array");
}

#[test]
fn what_a_scenario_says_is_placed_runs() {
    let engine = engine(PUSH);
    let half = explained(&engine, "half");
    assert_eq!((half.state, half.reason), (JobState::Running, None));
    let placed = half.placed.unwrap();
    assert_eq!((placed.nodes[0].node.as_str(), &placed.nodes[0].gpus[..]), ("a", &[0, 1][..]));
    assert_eq!(placed.started_at, Some(Time::from_millis(1000)));
    assert_eq!(engine.state().now, Time::from_millis(1000));
    let (at, _) = engine.state().node(&node("a")).unwrap();
    assert_eq!(at.gpus.iter().filter(|gpu| gpu.holder.is_some()).count(), 2, "devices are held once");
    assert_eq!(at.pool, Some(PoolId::new("lab").unwrap()));
}

#[test]
fn waiting_jobs_keep_the_times_they_came_with() {
    let times = "submitted_at_ms = 10\nqueued_at_ms = 20\nready_at_ms = 30\nrescore_count = 3";
    let engine = engine(&push_with(&[wants("j", 8, times)]));
    let record = engine.state().job(&job("j")).unwrap();
    let times = [record.job.submitted_at, record.job.queued_at, record.job.ready_at];
    assert_eq!(times.map(Time::as_millis), [10, 20, 30]);
    assert_eq!(engine.state().rounds(record), 3);
}

#[test]
fn nothing_is_decided_before_the_first_step() {
    let mut engine = engine(&push_with(&[wants("j", 2, "")]));
    assert_eq!(explained(&engine, "j").state, JobState::Pending);
    assert_eq!(explained(&engine, "j").reason.map(Reason::name), Some("next_look"));
    let outcome = engine.step(Time::from_millis(1000), Input::Tick);
    assert!(outcome.events.iter().any(|event| matches!(event, Event::Committed(_))));
    assert_eq!(nodes_of(&engine, "j"), ["a"]);
}

#[test]
fn a_placed_job_says_why_there() {
    let engine = settled(&push_with(&[wants("j", 2, "")]));
    let placed = explained(&engine, "j").placed.unwrap();
    assert!(placed.why.total.is_some());
    assert!(placed.why.terms.iter().any(|points| points.term == "gpu-utilisation"));
    assert_eq!((placed.fence.job.as_str(), placed.fence.attempt), ("j", 1));
}

#[test]
fn refusals_of_all_nodes_are_grouped_and_a_decision_is_made() {
    let engine = settled(&push_with(&[wants("j", 4, "")]));
    let j = explained(&engine, "j");
    assert_eq!((j.state, j.reason.map(Reason::name)), (JobState::Pending, Some("no_capacity_now")));
    let gpu = j.nodes.iter().find(|reason| reason.reason == Reason::Gpu).unwrap();
    assert_eq!((gpu.nodes, gpu.alone, gpu.may_pass), (2, 2, true));
    assert!(!gpu.remedy.is_empty());
    assert!(reasons(&j).contains(&"gpu"));
    let decision = serde_json::to_value(&j.decision).unwrap();
    assert_eq!(decision["kind"], "REQUEST_MORE_CAPACITY");
    assert!(!j.help.is_empty());
}

#[test]
fn what_no_node_could_ever_hold_is_unsatisfiable() {
    let engine = settled(&push_with(&[wants("j", 16, "")]));
    let j = explained(&engine, "j");
    assert_eq!(j.reason.map(Reason::name), Some("unsatisfiable"));
    assert!(j.reasons[0].detail.contains("needs 16 GPUs"), "{}", j.reasons[0].detail);
    assert_eq!(engine.estimate(&job("j")).unwrap().precision, Precision::None);
}

#[test]
fn the_queue_of_a_push_pool_is_by_priority_then_submission_then_id() {
    let engine = settled(&push_with(&[
        wants("a-late", 4, "submitted_at_ms = 500"),
        wants("b-early", 4, "submitted_at_ms = 400"),
        wants("c-urgent", 4, "priority = 9\nsubmitted_at_ms = 900"),
        wants("d-early", 4, "submitted_at_ms = 400"),
    ]));
    let place = |id: &str| {
        let queue = explained(&engine, id).queue.unwrap();
        (queue.position, queue.of, queue.ahead.map(|job| job.to_string()))
    };
    assert_eq!(place("c-urgent"), (1, 4, None));
    assert_eq!(place("b-early"), (2, 4, Some("c-urgent".into())));
    assert_eq!(place("d-early"), (3, 4, Some("b-early".into())));
    assert_eq!(place("a-late"), (4, 4, Some("d-early".into())));
}

#[test]
fn every_gate_is_named_with_what_is_in_the_way() {
    let jobs = [wants("after", 1, "waits_for = \"old\""), wants("later", 1, "retry_at_ms = 61000")];
    let mut engine = settled(&push_with(&jobs));
    let after = explained(&engine, "after");
    assert_eq!(after.reason.map(Reason::name), Some("dependency"));
    assert_eq!(after.reasons[0].jobs, [job("old")]);
    assert_eq!(after.queue, None, "what waits for others is not in the queue yet");

    let later = explained(&engine, "later");
    assert_eq!(later.reason.map(Reason::name), Some("not_before"));
    assert_eq!(later.reasons[0].until, Some(Time::from_millis(61_000)));

    engine.step(Time::from_millis(1000), Input::UserHold { job: job("later"), held: true });
    let held = explained(&engine, "later");
    assert_eq!(&reasons(&held)[..2], ["user_hold", "not_before"], "all gates are there");
    assert_eq!(engine.estimate(&job("later")).unwrap().planned_start, None);
}

#[test]
fn a_quota_names_the_tenant_and_what_it_holds() {
    let used = wants("first", 1, "tenant = \"t\"\nsubmitted_at_ms = 1");
    let text = push_with(&[used, wants("q", 1, "tenant = \"t\"")]).replace("max_gpus = 4", "max_gpus = 1");
    let q = explained(&settled(&text), "q");
    assert_eq!(q.reason.map(Reason::name), Some("quota_gpus"));
    assert!(q.reasons[0].detail.contains("tenant t holds 1 of 1 GPUs"), "{}", q.reasons[0].detail);
}

#[test]
fn a_lock_names_its_holder() {
    let lock = |id: &str| wants(id, 1, "mutex = [\"db\"]");
    let engine = settled(&push_with(&[lock("first"), lock("second")]));
    assert_eq!(explained(&engine, "first").state, JobState::Staging);
    let second = explained(&engine, "second");
    assert_eq!(second.reason.map(Reason::name), Some("mutex"));
    assert_eq!(second.reasons[0].jobs, [job("first")]);
    assert!(second.reasons[0].detail.contains("db"));
}

#[test]
fn a_live_hold_says_who_places_it() {
    let mut engine = engine(&push_with(&[wants("j", 2, "retry_at_ms = 2000")]));
    let (job, node) = (job("j"), node("a"));
    let input = Input::Hold { job, node, gpus: vec![2, 3], lifetime: None, fence: None };
    engine.step(Time::from_millis(1000), input);
    assert!(reasons(&explained(&engine, "j")).contains(&"held"));
}

#[test]
fn strict_order_names_the_job_that_is_not_passed() {
    let jobs = [wants("wide", 4, "submitted_at_ms = 1"), wants("small", 1, "submitted_at_ms = 2")];
    let strict = "policy = \"bin-pack\"\npush = { queue_discipline = \"strict\" }";
    let engine = settled(&push_with(&jobs).replace("policy = \"bin-pack\"", strict));
    let small = explained(&engine, "small");
    assert_eq!(small.reason.map(Reason::name), Some("strict_order"));
    assert_eq!(small.reasons[0].jobs, [job("wide")]);
    assert_eq!(nodes_of(&settled(&push_with(&jobs)), "small"), ["a"], "without strict order it passes");
}

#[test]
fn one_pair_is_judged_by_policy_and_ledger() {
    let engine = settled(&push_with(&[wants("j", 4, "")]));
    let b = engine.why_not(&job("j"), &node("b")).unwrap();
    assert!(!b.verdict.is_admitted() && !b.placed_here);
    assert_eq!(b.occupants, [job("old")]);
    assert!(engine.why_not(&job("old"), &node("b")).unwrap().placed_here);
    assert!(engine.why_not(&job("j"), &node("nowhere")).is_none());
}

#[test]
fn estimates_follow_the_expected_ends_in_queue_order() {
    let engine = settled(&push_with(&[
        wants("one", 4, "submitted_at_ms = 1"),
        wants("two", 4, "submitted_at_ms = 2"),
        wants("three", 4, "submitted_at_ms = 3"),
    ]));
    let start = |id: &str| {
        let estimate = engine.estimate(&job(id)).unwrap();
        assert_eq!(estimate.precision, Precision::Exact);
        minutes(estimate.planned_start)
    };
    // `old` ends after 60 min; `one` takes its node for 30 min, then `two`; `half` ends at 120 min.
    assert_eq!([start("one"), start("two"), start("three")], [60, 90, 120]);
    assert_eq!(minutes(engine.estimate(&job("old")).unwrap().planned_start), 0, "it runs");
}

#[test]
fn estimates_wait_for_dependencies_and_times() {
    let jobs = [wants("after", 1, "waits_for = \"old\""), wants("later", 1, "retry_at_ms = 61000")];
    let engine = settled(&push_with(&jobs));
    let start = |id: &str| minutes(engine.estimate(&job(id)).unwrap().planned_start);
    assert_eq!([start("after"), start("later")], [60, 1]);
}

#[test]
fn beyond_the_first_thousand_estimates_are_lower_bounds() {
    let engine = settled(&push_with(&[wants("j", 4, "count = 1100")]));
    let estimates = engine.estimates();
    let (first, last) = (&estimates[&job("j-0000")], &estimates[&job("j-1099")]);
    assert_eq!((first.precision, last.precision), (Precision::Exact, Precision::Coarse));
    assert!(last.planned_start > first.planned_start);
    let exact = estimates.values().filter(|estimate| estimate.precision == Precision::Exact).count();
    assert!((1000..1010).contains(&exact), "{exact}");
}

#[test]
fn asking_changes_nothing() {
    let engine = settled(&push_with(&[wants("one", 4, ""), wants("small", 1, "retry_at_ms = 5000")]));
    let hash = engine.state().hash();
    let _ = engine.explain(&job("one"));
    let _ = engine.why_not(&job("one"), &node("a"));
    let _ = engine.estimates();
    let tenant = landfall_model::Tenant::new(TenantId::new("t").unwrap());
    let pool = engine.state().pools[&PoolId::new("lab").unwrap()].pool.clone();
    for change in [
        Change::Nothing,
        submit(one("new", 2, "")),
        Change::Cancel(job("old")),
        Change::NodesLost(vec![node("b")]),
        Change::SetTenant(Box::new(tenant)),
        Change::SetPool { pool: Box::new(pool), policy: None },
    ] {
        let _ = engine.plan(change);
        assert_eq!(engine.state().hash(), hash);
    }
}

#[test]
fn a_submission_shows_what_starts_and_what_waits() {
    let engine = engine(PUSH);
    let small = engine.plan(submit(one("small", 2, "")));
    assert_eq!((small.refused, small.starts.len()), (None, 1));
    let at = &small.starts[0].nodes[0];
    assert_eq!((at.node.as_str(), &at.gpus[..]), ("a", &[2, 3][..]));
    assert!(small.starts[0].why.total.is_some());

    let wide = engine.plan(submit(one("wide", 4, "")));
    assert!(wide.starts.is_empty());
    assert_eq!(wide.waiting[0].explanation.reason.map(Reason::name), Some("no_capacity_now"));
    assert_eq!(minutes(wide.waiting[0].estimate.as_ref().unwrap().planned_start), 60);
}

#[test]
fn a_submission_that_is_refused_says_why() {
    let answer = engine(PUSH).plan(submit(one("gang", 1, "nodes = 2")));
    let refused = answer.refused.unwrap();
    assert_eq!(refused.code, "gang_unsupported");
    assert!(answer.starts.is_empty() && !refused.hint.is_empty());
}

#[test]
fn an_urgent_job_moves_the_estimates_of_others() {
    let engine = engine(&push_with(&[wants("one", 4, "")]));
    let answer = engine.plan(submit(one("urgent", 4, "priority = 5")));
    let moved: Vec<_> = answer.moved.iter().map(|moved| moved.job.as_str()).collect();
    assert_eq!(moved, ["one"]);
    let times = [&answer.moved[0].before, &answer.moved[0].after];
    assert_eq!(times.map(|estimate| minutes(estimate.planned_start)), [60, 90]);
}

#[test]
fn a_lost_node_stops_what_ran_there_and_an_added_one_starts_what_waits() {
    let engine = engine(&push_with(&[wants("one", 4, "")]));
    let lost = engine.plan(Change::NodesLost(vec![node("b")]));
    assert_eq!(lost.stopped.iter().map(|stopped| stopped.job.as_str()).collect::<Vec<_>>(), ["old"]);
    assert_eq!(lost.stopped[0].state, JobState::Pending, "it waits for nodes again");
    assert!(lost.waiting.iter().any(|waiting| waiting.job == job("old")));
    assert_eq!(engine.plan(Change::NodesLost(vec![node("x")])).refused.unwrap().code, "unknown_node");

    let mut new: Node = situation(PUSH).node("a").unwrap().clone();
    new.remove(&job("half"));
    new.id = node("c");
    let added = engine.plan(Change::NodesAdded(vec![new.clone()]));
    assert_eq!((added.starts[0].job.as_str(), added.starts[0].nodes[0].node.as_str()), ("one", "c"));
    new.id = node("a");
    assert_eq!(engine.plan(Change::NodesAdded(vec![new])).refused.unwrap().code, "duplicate_node");
}

#[test]
fn a_cancelled_job_makes_room() {
    let engine = engine(&push_with(&[wants("one", 4, "submitted_at_ms = 1"), wants("two", 4, "")]));
    let answer = engine.plan(Change::Cancel(job("one")));
    assert_eq!(answer.stopped[0].state, JobState::Cancelled);
    assert_eq!(answer.moved.iter().map(|moved| moved.job.as_str()).collect::<Vec<_>>(), ["two"]);
}

#[test]
fn a_raised_quota_starts_what_it_held_back() {
    let text = push_with(&[wants("q", 2, "tenant = \"t\"")]).replace("max_gpus = 4", "max_gpus = 1");
    let engine = engine(&text);
    let mut tenant = situation(&text).world.tenants[&TenantId::new("t").unwrap()].clone();
    tenant.quota.max_gpus = Some(8);
    let answer = engine.plan(Change::SetTenant(Box::new(tenant)));
    assert_eq!(answer.starts.iter().map(|start| start.job.as_str()).collect::<Vec<_>>(), ["q"]);
}

/// One worker of one build at a time, which runs `busy`.
const PULL: &str = r#"
now_ms = 60000
[[pools]]
id = "ci"
dispatch = "pull"
policy = "resource-aware"
[[nodes]]
id = "w1"
pool = "ci"
cpu_milli = "8 cores"
ram_mib = "16GiB"
architectures = ["x86_64-linux"]
fetch = true
max_concurrent = 1
[[nodes.placements]]
job = "busy"
expected_duration_ms = "10min"
[[jobs]]
id = "build"
pool = "ci"
architecture = "x86_64-linux"
ready_at_ms = 0
queued_at_ms = 0
rescore_count = 8
[[jobs]]
id = "mac"
pool = "ci"
architecture = "aarch64-darwin"
ready_at_ms = 1000
"#;

#[test]
fn a_job_of_a_pull_pool_says_the_best_of_what_workers_say() {
    let engine = settled(PULL);
    let build = explained(&engine, "build");
    assert_eq!(build.reason.map(Reason::name), Some("at_capacity"));
    assert_eq!(build.reasons[0].jobs, [job("busy")]);
    assert_eq!(build.queue.as_ref().map(|queue| (queue.position, queue.of)), Some((1, 2)));

    let mac = explained(&engine, "mac");
    assert_eq!(mac.reason.map(Reason::name), Some("no_eligible_node"));
    assert!(reasons(&mac).len() > 1, "what the worker says follows: {:?}", reasons(&mac));
    assert_eq!(mac.queue.unwrap().ahead, Some(job("build")));

    let free = settled(&PULL.replace("max_concurrent = 1", "max_concurrent = 2"));
    assert_eq!(nodes_of(&free, "build"), ["w1"], "an idle worker asks");
}

#[test]
fn a_job_below_the_floor_says_by_how_much_and_where() {
    let idle = PULL.replace("max_concurrent = 1", "max_concurrent = 2");
    let build = explained(&settled(&format!("{idle}[policy.params]\ndispatch_floor = 100000.0\n")), "build");
    assert_eq!(build.reason.map(Reason::name), Some("below_floor"));
    assert_eq!(build.reasons[0].needed, Some(100_000.0));
    assert!(build.reasons[0].detail.contains("worker w1"), "{}", build.reasons[0].detail);
}

#[test]
fn a_paused_pool_says_so_first() {
    let paused = "policy = \"resource-aware\"\npull = { paused = true }";
    let text = PULL.replace("policy = \"resource-aware\"", paused);
    assert_eq!(explained(&settled(&text), "build").reason.map(Reason::name), Some("paused"));
}

#[test]
fn a_pull_estimate_is_the_end_of_the_running_build() {
    let engine = settled(PULL);
    let build = engine.estimate(&job("build")).unwrap();
    assert_eq!(build.planned_start, Some(Time::from_secs(660)));
    assert_eq!(engine.estimate(&job("mac")).unwrap().precision, Precision::None);
}

#[test]
fn pools_that_nobody_described_dispatch_as_their_policy_is_made_for() {
    let of = |text: &str| {
        let engine = engine(text);
        let pools = engine.state().pools.values();
        pools.map(|pool| (pool.pool.id.to_string(), pool.pool.dispatch)).collect::<Vec<_>>()
    };
    let plain = "[[nodes]]\nid = \"n\"\ncpu_milli = 1000\n";
    assert_eq!(of(plain), [("default".to_owned(), Dispatch::Push)]);
    for (name, dispatch) in [
        ("fit", Dispatch::Push),
        ("bin-pack", Dispatch::Push),
        ("fgd", Dispatch::Push),
        ("gpu-packing", Dispatch::Push),
        ("simple", Dispatch::Pull),
        ("resource-aware", Dispatch::Pull),
        ("balanced", Dispatch::Batch),
        ("interactive", Dispatch::Batch),
        ("offer-standard", Dispatch::Negotiate),
    ] {
        let text = format!("{plain}[policy]\nname = \"{name}\"\n");
        assert_eq!(of(&text), [("default".to_owned(), dispatch)], "{name}");
    }
    let gang = format!("{plain}[[jobs]]\nid = \"g\"\nnodes = 4\n");
    assert_eq!(of(&gang), [("default".to_owned(), Dispatch::Batch)]);
    let mixed = format!("{plain}[[nodes]]\nid = \"m\"\npool = \"x\"\n[[nodes]]\nid = \"o\"\npool = \"y\"\n");
    assert_eq!(of(&mixed).len(), 3, "nodes without pool are in one of their own");
}

#[test]
fn a_situation_that_cannot_be_run_is_refused_with_a_hint() {
    let refused = |text: &str| {
        let refused = Engine::from_situation(&situation(text)).map(|_| ()).unwrap_err();
        assert!(!refused.hint.is_empty());
        refused.code.to_string()
    };
    assert_eq!(refused("[[pools]]\nid = \"a\"\n[[pools]]\nid = \"b\"\n[[jobs]]\nid = \"j\"\n"), "no_pool");
    assert_eq!(refused("[[pools]]\nid = \"a\"\n[[jobs]]\nid = \"j\"\nnodes = 2\n"), "gang_unsupported");
    assert_eq!(refused("[[nodes]]\nid = \"n\"\n[policy.weights]\nnonsense = 1.0\n"), "bad_policy");
}

#[test]
fn changes_to_the_policy_of_a_scenario_are_in_force() {
    let text = "[[nodes]]\nid = \"n\"\ncpu_milli = 1000\n[policy.weights]\nspeed = 0.125\n";
    let engine = engine(text);
    let pool = engine.state().pools.values().next().unwrap();
    assert!(pool.policy.as_ref().unwrap().contains("0.125"));
}

/// Four nodes; `long` has two of them for two hours. `wide` needs three, `short` and `hog` one.
const BATCH: &str = r#"
now_ms = 1000
[[pools]]
id = "hpc"
dispatch = "batch"
policy = "balanced"
batch = { order = "fifo" }
[[nodes]]
id = "n"
count = 4
pool = "hpc"
cpu_milli = "32 cores"
ram_mib = "64GiB"
[[jobs]]
id = "wide"
pool = "hpc"
nodes = 3
walltime_ms = "1h"
class = 8
may_preempt = false
submitted_at_ms = 0
[[jobs]]
id = "short"
pool = "hpc"
nodes = 1
walltime_ms = "30min"
[[jobs]]
id = "hog"
pool = "hpc"
nodes = 2
walltime_ms = "5h"
"#;

/// The same with `long` on the first two nodes.
fn batch() -> String {
    let placed = |id: &str| {
        format!(
            "[[nodes]]\nid = \"{id}\"\npool = \"hpc\"\ncpu_milli = \"32 cores\"\nram_mib = \"64GiB\"\n\
             placements = [{{ job = \"long\", exclusive = true, walltime_ms = \"2h\" }}]\n"
        )
    };
    let two = BATCH.replace("count = 4", "count = 2").replace("id = \"n\"", "id = \"free\"");
    let at = two.find("[[jobs]]").unwrap();
    format!("{}{}{}{}", &two[..at], placed("n-0"), placed("n-1"), &two[at..])
}

#[test]
fn a_gang_that_is_placed_becomes_one_running_job() {
    let engine = engine(&batch());
    assert_eq!(nodes_of(&engine, "long"), ["n-0", "n-1"]);
    let placed = explained(&engine, "long").placed.unwrap();
    assert_eq!(minutes(placed.ends_at), 120);
}

#[test]
fn a_blocked_gang_has_a_reservation_and_a_short_job_is_backfilled() {
    let engine = settled(&batch());
    let wide = explained(&engine, "wide");
    assert_eq!((wide.state, wide.dispatch), (JobState::Pending, Dispatch::Batch));
    assert!(wide.reason.is_some() && !wide.help.is_empty(), "{wide:?}");
    assert_eq!(wide.queue.as_ref().map(|queue| queue.position), Some(1));
    let estimate = engine.estimate(&job("wide")).unwrap();
    assert_eq!((minutes(estimate.planned_start), estimate.precision), (120, Precision::Exact));

    assert_eq!(
        explained(&engine, "short").placed.unwrap().kind,
        landfall_engine::record::StartKind::Backfill
    );
    let hog = explained(&engine, "hog");
    assert_eq!(hog.state, JobState::Pending, "it would delay `wide`");
    assert_eq!(hog.queue.unwrap().ahead, Some(job("wide")));
}

#[test]
fn a_batch_job_is_explained_before_its_first_cycle_too() {
    let engine = engine(&batch());
    assert_eq!(explained(&engine, "short").reason.map(Reason::name), Some("next_cycle"));
    assert_eq!(explained(&engine, "wide").queue.map(|queue| queue.position), Some(1));
    let hash = engine.state().hash();
    assert_eq!(minutes(engine.estimate(&job("wide")).unwrap().planned_start), 120);
    assert_eq!(engine.state().hash(), hash);
}

#[test]
fn a_lost_node_moves_a_reservation() {
    let engine = engine(&batch());
    let answer = engine.plan(Change::NodesLost(vec![node("free-1")]));
    let wide = answer.moved.iter().find(|moved| moved.job == job("wide"));
    assert!(wide.is_none_or(|wide| wide.after.planned_start >= wide.before.planned_start), "{wide:?}");
    let new = |id: &str| {
        let mut new = situation(&batch()).node("free-0").unwrap().clone();
        new.id = node(id);
        new
    };
    let added = engine.plan(Change::NodesAdded(vec![new("free-2"), new("free-3")]));
    assert!(added.starts.iter().any(|start| start.job == job("wide")), "{added:?}");
}

#[test]
fn a_batch_job_that_could_never_run_is_refused() {
    let job = situation(&batch().replace("nodes = 3", "nodes = 9")).job("wide").unwrap().clone();
    let without = batch().replace("id = \"wide\"", "id = \"other\"");
    let answer = engine(&without).plan(submit(job));
    assert_eq!(answer.refused.unwrap().code, "never_fits");
}

#[test]
fn silence_before_the_instant_of_the_scenario_counts() {
    let text = PUSH.replacen("id = \"a\"", "id = \"a\"\nheartbeat_age_ms = \"10min\"", 1);
    let engine = engine(&text);
    let (a, record) = engine.state().node(&node("a")).unwrap();
    let heard = Time::from_millis(1000 - 600_000);
    assert_eq!((a.heartbeat_at, record.heard_at), (Some(heard), heard));
    assert_eq!(engine.state().now, Time::from_millis(1000));
}

#[test]
fn a_placed_job_that_is_listed_too_keeps_its_tenant() {
    let text = push_with(&[wants("old", 4, "tenant = \"t\"")]);
    let engine = settled(&text);
    assert_eq!(explained(&engine, "old").state, JobState::Running);
    assert_eq!(engine.state().tenants[&TenantId::new("t").unwrap()].gpus, 4);
    let more = engine.plan(submit(one("more", 2, "tenant = \"t\"")));
    assert_eq!(more.waiting[0].explanation.reason.map(Reason::name), Some("quota_gpus"));
}

#[test]
fn a_node_that_left_is_not_counted_among_those_that_refuse() {
    let engine = engine(&push_with(&[wants("one", 4, "")]));
    let lost = engine.plan(Change::NodesLost(vec![node("b")]));
    let one = lost.waiting.iter().find(|waiting| waiting.job == job("one")).unwrap();
    assert_eq!(one.explanation.nodes.iter().map(|reason| reason.nodes).max(), Some(1));
}
