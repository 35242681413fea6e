//! Short jobs, told ahead: what a node gets before it has room, and whose room it gets.

use landfall_engine::dag::{Edge, EdgeKind};
use landfall_engine::input::{NodeOrder, Report, RunUsage, StartRefusal, Submission};
use landfall_engine::record::JobState;
use landfall_engine::{Answer, Effect, Input};
use landfall_model::{Dispatch, Indices, Mib, MilliCpu, Millis, NodeState, Pool, PriceSettings};

use crate::support::{Cluster, job_id, node_id, pool};

/// A node with two cores, and an array of jobs that take one core each; the first two run.
fn two_cores(ahead: u32, more: &str) -> Cluster {
    two_cores_of(pool(Dispatch::Push, |pool| pool.push.ahead = ahead), "", more)
}

fn two_cores_of(pool: Pool, tenants: &str, more: &str) -> Cluster {
    let nodes = r#"nodes = [{ id = "n", cpu_milli = 2000, ram_mib = "8GiB" }]"#;
    let mut cluster = Cluster::new(pool, &format!("{tenants}\n{nodes}"));
    let job = Cluster::jobs(&format!(r#"jobs = [{{ id = "a", cpu_milli = 1000, ram_mib = 1024{more} }}]"#));
    let submission: Submission = job.into_iter().next().unwrap();
    let input = Input::SubmitArray { submission: Box::new(submission), indices: Indices::range(1, 50, 1) };
    cluster.at(0.0).done(input);
    cluster.start("a.01");
    cluster.start("a.02");
    cluster
}

fn exited() -> Report {
    Report::Exited { code: 0, failure: None, usage: Box::new(RunUsage::default()) }
}

/// What nodes were told in the last step.
fn told(cluster: &Cluster) -> Vec<String> {
    let word = |effect: &Effect| match effect {
        Effect::Start { fence, ahead, .. } => {
            format!("{} {}", if *ahead { "ahead" } else { "start" }, fence.job)
        }
        Effect::GiveBack { fence, .. } => format!("back {}", fence.job),
        Effect::Stop { fence, .. } => format!("stop {}", fence.job),
        other => format!("{other:?}"),
    };
    cluster.effects().iter().map(word).collect()
}

fn cores_held(cluster: &Cluster) -> MilliCpu {
    cluster.engine.state().node(&node_id("n")).unwrap().0.cpu_committed
}

fn state_of_node(cluster: &Cluster) -> NodeState {
    cluster.engine.state().node(&node_id("n")).unwrap().0.state
}

fn is_ahead(cluster: &Cluster, job: &str) -> bool {
    cluster.record(job).run.as_ref().is_some_and(|run| run.ahead)
}

/// The first short end: room goes to the next in the queue as always, and four more are told ahead.
fn with_four_ahead() -> Cluster {
    let mut cluster = two_cores(2, "");
    cluster.at(0.05).exit("a.01", 0);
    assert_eq!(told(&cluster), ["start a.03", "ahead a.04", "ahead a.05", "ahead a.06", "ahead a.07"]);
    assert_eq!(cores_held(&cluster), MilliCpu::cores(2), "what is ahead holds nothing");
    cluster.start("a.03");
    cluster
}

#[test]
fn the_next_one_gets_the_room_of_the_one_that_ended() {
    let mut cluster = with_four_ahead();
    // The node says that the next one began before it says that the last one ended.
    assert_eq!(cluster.report("a.04", "n", Report::Started), Answer::Done);
    assert_eq!((cluster.state("a.04"), is_ahead(&cluster, "a.04")), (JobState::Running, true));
    cluster.report("a.02", "n", exited());
    assert_eq!(told(&cluster), ["ahead a.08"], "nobody else got the room, and one more is told");
    assert!(!is_ahead(&cluster, "a.04"));
    assert_eq!(cores_held(&cluster), MilliCpu::cores(2));
    let (node, record) = cluster.engine.state().node(&node_id("n")).unwrap();
    assert_eq!(node.ram_committed, Mib::gib(2));
    assert_eq!(record.ahead, ["a.05", "a.06", "a.07", "a.08"].map(job_id));
}

#[test]
fn one_that_began_and_ended_before_the_other_is_said_to_have_ended_leaves_no_trace() {
    let mut cluster = with_four_ahead();
    cluster.report("a.04", "n", Report::Started);
    cluster.report("a.05", "n", Report::Started);
    cluster.report("a.04", "n", exited());
    assert_eq!(cluster.state("a.04"), JobState::Completed);
    assert_eq!(cores_held(&cluster), MilliCpu::cores(2), "of those that ended nobody has been told yet");
    cluster.report("a.02", "n", exited());
    assert!(!is_ahead(&cluster, "a.05"), "it has the room of the one before the one before");
    assert_eq!(cores_held(&cluster), MilliCpu::cores(2));
}

#[test]
fn an_end_without_a_beginning_before_it_gives_the_room_to_the_first_that_is_ahead() {
    let mut cluster = with_four_ahead();
    cluster.report("a.02", "n", exited());
    assert_eq!(told(&cluster), ["start a.04", "ahead a.08"]);
    assert_eq!((cluster.state("a.04"), is_ahead(&cluster, "a.04")), (JobState::Staging, false));
    cluster.start("a.04");
}

#[test]
fn what_is_ahead_for_long_is_asked_back_and_goes_to_the_queue_at_once() {
    let mut cluster = with_four_ahead();
    cluster.run_until(1.2);
    assert_eq!(told(&cluster), ["back a.04", "back a.05", "back a.06", "back a.07"]);
    assert!(is_ahead(&cluster, "a.04"), "it may have begun: it is asked for, not taken");
    let attempt = cluster.record("a.04").attempt;
    cluster.report("a.04", "n", Report::Refused(StartRefusal::Returned));
    let record = cluster.record("a.04");
    assert_eq!((record.state, record.attempt, record.requeues), (JobState::Pending, attempt + 1, 0));
    // One that began in the same moment says so, and that counts.
    cluster.report("a.05", "n", Report::Started);
    assert_eq!(cluster.state("a.05"), JobState::Running);
}

#[test]
fn a_node_that_drains_gives_back_and_is_drained_when_nothing_is_left() {
    let mut cluster = with_four_ahead();
    cluster.done(Input::Order { node: node_id("n"), order: NodeOrder::Drain });
    cluster.report("a.02", "n", exited());
    assert_eq!(
        told(&cluster),
        ["back a.04"],
        "no room is given on a node that drains, and nothing more is told"
    );
    cluster.report("a.03", "n", exited());
    for job in ["a.04", "a.05", "a.06", "a.07"] {
        assert_eq!(state_of_node(&cluster), NodeState::Draining);
        cluster.report(job, "n", Report::Refused(StartRefusal::Returned));
    }
    assert_eq!(state_of_node(&cluster), NodeState::Drained);
}

#[test]
fn a_cancelled_one_is_stopped_and_a_lost_node_loses_what_it_was_told() {
    let mut cluster = with_four_ahead();
    cluster.done(Input::Cancel(job_id("a.04")));
    assert_eq!(told(&cluster), ["stop a.04"]);
    cluster.report("a.04", "n", Report::Stopped);
    assert_eq!(cluster.state("a.04"), JobState::Cancelled);
    cluster.done(Input::Order { node: node_id("n"), order: NodeOrder::Leave });
    assert_eq!((cluster.state("a.05"), cluster.record("a.05").attempt), (JobState::Pending, 2));
}

#[test]
fn only_short_jobs_of_arrays_that_are_next_are_told_ahead() {
    let nothing = |mut cluster: Cluster, at: f64, why: &str| {
        cluster.at(at).exit("a.01", 0);
        assert_eq!(told(&cluster), ["start a.03"], "{why}");
    };
    nothing(two_cores(0, ""), 0.05, "it is switched off");
    nothing(two_cores(2, ""), 5.0, "the job took five seconds");
    nothing(two_cores(2, r#", requeue = "never""#), 0.05, "it must not run a second time");
    nothing(two_cores(2, r#", on_disconnect = "stop""#), 0.05, "it must not begin without the server");
}

#[test]
fn a_more_urgent_job_that_waits_comes_first() {
    let mut cluster = two_cores(2, "");
    cluster.submit(r#"jobs = [{ id = "u", priority = 5, cpu_milli = 2000 }]"#);
    cluster.at(0.05).exit("a.01", 0);
    let ahead = told(&cluster).iter().filter(|word| word.starts_with("ahead")).count();
    assert_eq!(ahead, 0, "{:?}", told(&cluster));
}

#[test]
fn nobody_is_told_ahead_what_its_tenant_cannot_pay() {
    for (more, expected) in [
        (r#", tenant = "t""#, vec!["start a.03", "ahead a.04", "ahead a.05"]),
        (", max_price = 1", vec!["start a.03", "ahead a.04", "ahead a.05", "ahead a.06", "ahead a.07"]),
    ] {
        let costs = pool(Dispatch::Push, |pool| {
            pool.push.ahead = 2;
            // Half of it without a GPU.
            pool.price = Some(PriceSettings { base: 2.0, ..PriceSettings::default() });
        });
        let mut cluster = two_cores_of(costs, r#"tenants = [{ id = "t", money = 5 }]"#, more);
        cluster.at(0.05).exit("a.01", 0);
        assert_eq!(told(&cluster), expected, "{more}");
        let spent = cluster.engine.state().tenants["t"].spent(cluster.now).as_f64();
        assert_eq!(spent, if more.contains("tenant") { 5.0 } else { 0.0 }, "{more}");
    }
}

/// The node says what it holds, as a heartbeat does.
fn heartbeat(cluster: &mut Cluster, jobs: &[&str]) {
    let running = jobs.iter().map(|job| cluster.fence(job)).collect();
    cluster.done(Input::Heartbeat { node: node_id("n"), heartbeat: Box::default(), running });
}

#[test]
fn a_node_that_is_not_heard_keeps_what_it_was_told_until_it_counts_as_gone() {
    let mut cluster = with_four_ahead();
    heartbeat(&mut cluster, &["a.02", "a.03", "a.04", "a.05", "a.06", "a.07"]);
    cluster.run_until(25.0);
    assert!(is_ahead(&cluster, "a.04"), "asked back twelve times while nobody could hear it");
    // Its network is there again: it began one, and still has two of the others.
    heartbeat(&mut cluster, &["a.02", "a.03", "a.04", "a.05", "a.06"]);
    assert_eq!(cluster.report("a.04", "n", Report::Started), Answer::Done);
    assert_eq!(cluster.report("a.04", "n", exited()), Answer::Done, "it does not run a second time");
    let attempts = |cluster: &Cluster| ["a.05", "a.07"].map(|job| cluster.record(job).attempt);
    let before = attempts(&cluster);
    cluster.run_until(31.0);
    assert_eq!(attempts(&cluster), [before[0], before[1] + 1], "it does not know the last one");
    cluster.run_until(400.0);
    let (node, state) = cluster.engine.state().node(&node_id("n")).unwrap();
    assert_eq!((node.state, state.ahead.len()), (NodeState::Down, 0));
    assert_eq!(attempts(&cluster)[0], before[0] + 1);
}

#[test]
fn nothing_is_told_to_a_node_that_rests_or_goes_out_of_service_before_the_job_would_end() {
    let ahead = |cluster: &Cluster| told(cluster).iter().filter(|word| word.starts_with("ahead")).count();
    let ends = |cluster: &mut Cluster| {
        cluster.at(0.05).exit("a.01", 0);
        ahead(cluster)
    };
    assert_eq!(ends(&mut two_cores(2, "")), 4);
    let refused = |cluster: &mut Cluster, job: &str| {
        cluster.report(job, "n", Report::Refused(StartRefusal::Failed));
    };
    let mut rests = two_cores(2, "");
    rests.exit("a.02", 0);
    refused(&mut rests, "a.03");
    assert!(rests.engine.state().node(&node_id("n")).unwrap().0.cooldown_until.is_some());
    assert_eq!(ends(&mut rests), 0, "it rests");
    for (walltime, expected) in [(60, 4), (3600, 0)] {
        let mut cluster = two_cores(2, &format!(", walltime_ms = {walltime}000"));
        let at = Some(cluster.now + Millis::secs(1800));
        cluster.done(Input::Maintain { node: node_id("n"), at, why: None });
        assert_eq!(ends(&mut cluster), expected, "walltime {walltime} s, out of service in 1800 s");
    }
}

#[test]
fn what_is_ahead_is_asked_back_when_its_node_goes_or_its_array_is_held() {
    let backs = ["back a.04", "back a.05", "back a.06", "back a.07"];
    let mut cluster = with_four_ahead();
    cluster.done(Input::Order { node: node_id("n"), order: NodeOrder::Drain });
    assert_eq!(told(&cluster), backs);
    let mut cluster = with_four_ahead();
    let at = Some(cluster.now + Millis::secs(60));
    cluster.done(Input::Maintain { node: node_id("n"), at, why: None });
    assert_eq!(told(&cluster), backs);
    let mut cluster = with_four_ahead();
    cluster.done(Input::UserHold { job: job_id("a"), held: true });
    assert_eq!(told(&cluster), backs);
    // One began before it heard that.
    cluster.report("a.04", "n", Report::Started);
    cluster.report("a.02", "n", exited());
    assert!(told(&cluster).is_empty(), "{:?}", told(&cluster));
    cluster.report("a.05", "n", Report::Refused(StartRefusal::Returned));
    cluster.report("a.03", "n", exited());
    assert_eq!((cluster.state("a.05"), cluster.record("a.05").user_hold), (JobState::Pending, true));
    assert_eq!((cluster.state("a.04"), cluster.record("a.04").user_hold), (JobState::Running, false));
    assert!(told(&cluster).is_empty(), "what is held gets no room: {:?}", told(&cluster));
    cluster.done(Input::UserHold { job: job_id("a"), held: false });
    assert_eq!(told(&cluster), ["start a.05"]);
    assert!(!cluster.record("a.06").user_hold);
}

#[test]
fn one_that_was_cancelled_gets_no_room() {
    let mut cluster = with_four_ahead();
    cluster.done(Input::Cancel(job_id("a.04")));
    cluster.report("a.02", "n", exited());
    assert_eq!(told(&cluster), ["start a.05", "ahead a.08"]);
    assert_eq!(cores_held(&cluster), MilliCpu::cores(2));
}

#[test]
fn one_that_is_given_back_gives_its_lock_back() {
    let mut cluster = with_four_ahead();
    let mut other = Cluster::jobs(r#"jobs = [{ id = "b", cpu_milli = 1000, priority = 5 }]"#).remove(0);
    other.edges = vec![Edge { kind: EdgeKind::Mutex, on: job_id("a.07") }];
    cluster.done(Input::Submit(vec![other]));
    assert_eq!(cluster.engine.state().locks.len(), 1, "the one that is placed has it");
    cluster.done(Input::Cancel(job_id("a.07")));
    cluster.report("a.07", "n", Report::Stopped);
    assert!(cluster.engine.state().locks.is_empty());
}
