//! Gates, modes, preemption, reclaim, holds and shared nodes.

use landfall_engine::solver::{Preempt, Reason, Share, Step, TenantRoom};
use landfall_model::{
    Backfill, BatchSettings, Checkpoint, DeviceShare, Gpu, JobSpec, Mib, MilliCpu, MilliGpu, Time,
};

use super::support::{
    Setting, groups, job_id, name, nodes_of, planned, pool_id, reserved, spec, starts, wait_of,
};

fn preempts(plan: &landfall_engine::solver::Plan) -> Vec<&Preempt> {
    let found = plan.steps.iter().filter_map(|step| if let Step::Preempt(p) = step { Some(p) } else { None });
    found.collect()
}

fn victims(preempt: &Preempt) -> Vec<&str> {
    preempt.victims.iter().map(|job| job.as_str()).collect()
}

fn low(nodes: u32) -> JobSpec {
    JobSpec { class: 2, checkpoint: Checkpoint::Auto, ..spec(nodes, 8) }
}

#[test]
fn b31_fewest_victims() {
    let mut setting = Setting::new(groups(&[8]));
    setting.settings.preemption = true;
    for (at, pair) in [["a1", "a2"], ["a3", "a4"], ["a5", "a6"], ["a7", "a8"]].iter().enumerate() {
        setting.run(&format!("v{at}"), low(2), pair, Some(21_600));
    }
    setting.wait("j", JobSpec { class: 7, checkpoint: Checkpoint::Auto, ..spec(6, 1) });
    let plan = setting.plan();
    assert_eq!(victims(preempts(&plan)[0]), ["v0", "v1", "v2"]);
    assert_eq!(preempts(&plan)[0].ready_at, Time::from_secs(300), "the longest checkpoint");
    assert_eq!((wait_of(&plan, "j").reason, planned(&plan, "j")), (Reason::Preempting, Some(300)));
    setting.running.pop();
    assert_eq!(victims(preempts(&setting.plan())[0]), ["v0", "v1"], "two nodes are free");
    assert_eq!(preempts(&setting.plan())[0].nodes.len(), 6, "free ones are held as well");
    setting.settings.max_victims = 1;
    assert!(preempts(&setting.plan()).is_empty());
    setting.settings.max_victims = 3;
    setting.settings.preemption = false;
    assert!(preempts(&setting.plan()).is_empty());
}

#[test]
fn held_nodes_serve_nobody_else_and_start_their_job() {
    let mut setting = Setting::new(groups(&[3]));
    setting.holds.push((job_id("j"), vec!["a1".into(), "a2".into()], Some(Time::from_secs(940))));
    setting.run("v", low(1), &["a1"], Some(21_600));
    setting.wait("other", spec(2, 1)).wait("j", spec(2, 1)).wait("small", spec(1, 1));
    let plan = setting.plan();
    assert_eq!(wait_of(&plan, "other").reason, Reason::Held);
    assert_eq!(wait_of(&plan, "j").reason, Reason::Preempting);
    assert_eq!(nodes_of(&plan, "small"), "a3");
    setting.running.clear();
    assert_eq!(nodes_of(&setting.plan(), "j"), "a1 a2");
}

#[test]
fn lent_nodes_come_back_for_a_home_job() {
    let mut setting = Setting::new(groups(&[4]));
    setting.run("guest", JobSpec { class: 9, ..low(2) }, &["a1", "a2"], Some(21_600));
    setting.running[0].borrower = true;
    setting.wait("home", JobSpec { class: 3, ..spec(4, 1) });
    let plan = setting.plan();
    let reclaim = preempts(&plan)[0];
    assert!(reclaim.reclaim);
    assert_eq!((victims(reclaim), reclaim.shrinks.len()), (vec!["guest"], 0), "class does not matter");
    // One that can shrink gives back what it does not need.
    let mut resizable = JobSpec { class: 9, resizable: true, ..low(2) };
    resizable.nodes.min = 1;
    setting.running[0].spec = resizable.into();
    setting.waiting.clear();
    setting.wait("home", JobSpec { class: 3, ..spec(3, 1) });
    let plan = setting.plan();
    let reclaim = preempts(&plan)[0];
    assert!(reclaim.victims.is_empty());
    assert_eq!(reclaim.shrinks[0].nodes[0].as_str(), "a2", "the highest id goes first");
    setting.waiting.clear();
    setting.wait("home", JobSpec { class: 3, ..spec(4, 1) });
    assert!(preempts(&setting.plan()).is_empty(), "not below its fewest");
}

#[test]
fn quotas_are_kept_up_inside_the_walk() {
    let mut setting = Setting::new(groups(&[8]));
    setting.tenants.push(TenantRoom { node_units: 5.0, ..TenantRoom::unlimited(None) });
    setting.wait("a", spec(3, 1)).wait("b", spec(3, 1)).wait("c", spec(2, 1));
    let plan = setting.plan();
    assert_eq!(starts(&plan).iter().map(|s| s.job.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    let wait = wait_of(&plan, "b");
    assert_eq!((wait.reason, wait.refusals[0].found), (Reason::QuotaNodes, 2.0));
    assert!(!starts(&plan)[1].backfill, "a gated job is no blocked one");
    assert_eq!((reserved(&plan, "b"), planned(&plan, "b")), (None, Some(3600)));
}

#[test]
fn gpu_hours_and_locks_gate() {
    let mut setting = Setting::new(groups(&[8]));
    for node in &mut setting.nodes {
        node.gpus = (0..4).map(|index| Gpu::new(index, None, None)).collect();
    }
    setting.tenants.push(TenantRoom { gpu_hours: Some(40.0), gpus: Some(24), ..TenantRoom::unlimited(None) });
    let gpu = |nodes, hours| JobSpec { gpu_count: 4, ..spec(nodes, hours) };
    setting
        .wait("hours", gpu(1, 11))
        .wait("unbounded", gpu(1, 0))
        .wait("gpus", gpu(7, 1))
        .wait("fits", gpu(6, 1));
    let mut locked = spec(1, 1);
    locked.mutex = vec![name("lock")];
    setting.wait("first", locked.clone()).wait("second", locked);
    let plan = setting.plan();
    let reason = |job| wait_of(&plan, job).reason;
    assert_eq!(
        [reason("hours"), reason("unbounded"), reason("gpus")],
        [Reason::GpuHours, Reason::GpuHours, Reason::QuotaGpus]
    );
    assert_eq!((nodes_of(&plan, "first").is_empty(), reason("second")), (false, Reason::Mutex));
}

#[test]
fn modes_and_limits() {
    let blocked = |settings: BatchSettings| {
        let mut setting = Setting::new(groups(&[4]));
        setting.settings = BatchSettings { preemption: false, ..settings };
        setting.run("x", spec(2, 4), &["a1", "a2"], Some(7200));
        setting.wait("a", spec(4, 1)).wait("b", spec(4, 1)).wait("c", spec(3, 1)).wait("d", spec(1, 1));
        setting.plan()
    };
    let plan = blocked(BatchSettings { backfill: Backfill::Strict, ..BatchSettings::default() });
    assert_eq!((plan.steps.len(), plan.reservations.len()), (0, 0));
    assert_eq!(wait_of(&plan, "d").reason, Reason::StrictOrder);
    assert_eq!(planned(&plan, "d"), Some(14_400), "not before the job ahead");
    let plan = blocked(BatchSettings { backfill: Backfill::Greedy, ..BatchSettings::default() });
    assert_eq!((nodes_of(&plan, "d").as_str(), plan.reservations.len()), ("a3", 0));
    let plan = blocked(BatchSettings { depth: 2, ..BatchSettings::default() });
    assert_eq!(
        (reserved(&plan, "a"), reserved(&plan, "b"), reserved(&plan, "c")),
        (Some(7200), Some(10_800), None)
    );
    let plan = blocked(BatchSettings { backfill: Backfill::Conservative, ..BatchSettings::default() });
    assert_eq!(reserved(&plan, "c"), Some(14_400));
    let limit =
        BatchSettings { backfill: Backfill::Conservative, reservations_max: 2, ..BatchSettings::default() };
    assert_eq!(blocked(limit).reservations.len(), 2);
    let plan = blocked(BatchSettings { scan_max: 2, ..BatchSettings::default() });
    assert_eq!((wait_of(&plan, "c").reason, plan.steps.len()), (Reason::ScanMax, 0));
    let soon = BatchSettings { horizon_ms: landfall_model::Millis::secs(3600), ..BatchSettings::default() };
    let plan = blocked(soon);
    assert!(plan.reservations.is_empty());
    assert!(wait_of(&plan, "a").refusals.iter().any(|r| r.reason == Reason::BeyondHorizon));
}

#[test]
fn shared_jobs_fit_beside_each_other() {
    let mut setting = Setting::new(groups(&[2]));
    for node in &mut setting.nodes {
        node.gpus = (0..2).map(|index| Gpu::new(index, None, Some(Mib::gib(80)))).collect();
    }
    let shared = |cpu, gpus, hours| JobSpec {
        exclusive: false,
        cpu_milli: MilliCpu::cores(cpu),
        gpu_count: gpus,
        ..spec(1, hours)
    };
    setting.run("x", shared(4, 1, 1), &["a1"], Some(3600));
    setting.running[0].shares = vec![Share {
        cpu: MilliCpu::cores(4),
        ram: Mib::ZERO,
        devices: vec![DeviceShare::new(0, Mib::ZERO, MilliGpu::WHOLE)],
    }];
    setting.wait("beside", shared(4, 1, 1)).wait("full", shared(1, 0, 1)).wait("whole", spec(1, 1));
    let plan = setting.plan();
    assert_eq!(nodes_of(&plan, "beside"), "a1");
    assert_eq!(starts(&plan)[0].devices, [[1]], "the device that is left");
    assert_eq!(nodes_of(&plan, "full"), "a2", "no CPU is left beside the others");
    assert_eq!((starts(&plan).len(), planned(&plan, "whole")), (2, Some(3600)));
    // Fractions of one device, and no more than there is.
    let part = |milli| JobSpec { gpu_milli: MilliGpu::new(milli), ..shared(0, 1, 1) };
    setting.waiting.clear();
    for (at, milli) in [600, 600, 400, 500].into_iter().enumerate() {
        setting.wait(&format!("p{at}"), part(milli));
    }
    let plan = setting.plan();
    let at = |job: usize| (starts(&plan)[job].nodes[0].as_str(), starts(&plan)[job].devices[0][0]);
    assert_eq!([at(0), at(1), at(2), at(3)], [("a1", 1), ("a2", 0), ("a1", 1), ("a2", 1)]);
}

#[test]
fn a_shared_job_does_not_delay_a_reservation_of_its_node() {
    let shared = |hours| JobSpec { exclusive: false, cpu_milli: MilliCpu::cores(1), ..spec(1, hours) };
    let mut setting = Setting::new(groups(&[1]));
    setting.run("x", shared(1), &["a1"], Some(3600));
    setting.running[0].shares = vec![Share { cpu: MilliCpu::cores(1), ram: Mib::ZERO, devices: Vec::new() }];
    setting.wait("whole", spec(1, 1)).wait("long", shared(2)).wait("short", shared(1));
    let plan = setting.plan();
    assert_eq!(reserved(&plan, "whole"), Some(3600));
    assert_eq!((nodes_of(&plan, "long").as_str(), nodes_of(&plan, "short").as_str()), ("", "a1"));
}

#[test]
fn degraded_nodes_are_for_those_who_ask_and_lenders_come_in_order() {
    let mut setting = Setting::new(groups(&[1]));
    setting.nodes[0].state = landfall_model::NodeState::Degraded;
    setting.wait("no", spec(1, 1)).wait("yes", JobSpec { allow_degraded: true, ..spec(1, 1) });
    let plan = setting.plan();
    assert_eq!((nodes_of(&plan, "yes").as_str(), starts(&plan).len()), ("a1", 1));
    let mut setting = Setting::new(groups(&[1, 1, 1]));
    for (at, pool) in [(1, "q"), (2, "r")] {
        setting.nodes[at].pool = Some(pool_id(pool));
    }
    setting.lenders = vec![(pool_id("q"), vec!["b1".into()], 1), (pool_id("r"), vec!["c1".into()], 1)];
    setting.wait("one", spec(2, 1)).wait("two", spec(1, 1)).wait("three", spec(1, 1));
    let plan = setting.plan();
    let lender = |job: usize| starts(&plan)[job].loans[0].lender.as_str();
    assert_eq!((lender(0), lender(1), starts(&plan).len()), ("q", "r", 2));
}

#[test]
fn a_drifted_configuration_is_told_as_such_and_not_as_never() {
    let mut setting = Setting::new(groups(&[2]));
    setting.nodes.iter_mut().for_each(|node| node.drifted = true);
    let sensitive = |nodes| JobSpec { sensitive: true, class: 10, ..spec(nodes, 1) };
    setting.wait("two", sensitive(2)).wait("three", sensitive(3));
    let plan = setting.plan();
    assert_eq!(wait_of(&plan, "two").reason, Reason::Fingerprint);
    assert_eq!(wait_of(&plan, "three").reason, Reason::NeverFits, "there are but two nodes");
}

#[test]
fn a_pool_says_how_long_work_is_left_alone() {
    let mut setting = Setting::new(groups(&[1]));
    setting.settings.preemption = true;
    setting.run("low", JobSpec { class: 1, ..spec(1, 9) }, &["a1"], Some(30_000));
    setting.running[0].started = Time::from_secs(-300);
    setting.wait("high", JobSpec { class: 9, ..spec(1, 1) });
    assert!(preempts(&setting.plan()).is_empty(), "ten minutes unless the pool says otherwise");
    setting.settings.min_run_ms = landfall_model::Millis::secs(120);
    assert_eq!(victims(preempts(&setting.plan())[0]), ["low"]);
}

#[test]
fn immediate_jobs_that_miss_are_named() {
    let mut setting = Setting::new(groups(&[1]));
    setting.wait("now", JobSpec { immediate: true, ..spec(1, 1) });
    setting.wait("late", JobSpec { immediate: true, ..spec(1, 1) });
    let plan = setting.plan();
    assert_eq!(starts(&plan).len(), 1);
    assert_eq!(plan.missed, [job_id("late")]);
}
