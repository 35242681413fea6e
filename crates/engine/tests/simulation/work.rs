//! Random jobs of all kinds.

use std::sync::Arc;

use landfall_engine::dag::{Edge, EdgeKind, Element, Join};
use landfall_engine::input::Submission;
use landfall_model::{
    Bytes, Checkpoint, Dispatch, Job, JobId, JobKind, JobSpec, Lifecycle, Mib, MilliCpu, MilliGpu, Millis,
    NodeCount, Pool, Requeue, TenantId, Time, WorkloadId,
};

use crate::fleet::name;
use landfall_testkit::Rng;

/// What a job asks for.
pub(crate) fn spec(rng: &mut Rng, pool: &Pool, tenants: u64) -> JobSpec {
    let mut spec = JobSpec::empty();
    spec.pool = Some(pool.id.clone());
    spec.tenant = rng.chance(80).then(|| TenantId::new(&format!("t{}", rng.below(tenants + 1))).unwrap());
    spec.workload = rng.chance(30).then(|| WorkloadId::new(&format!("w{}", rng.below(3))).unwrap());
    spec.user = rng.chance(60).then(|| name(&format!("u{}", rng.below(3))));
    spec.cpu_milli = MilliCpu::new(rng.within(1, 12) * 500);
    spec.ram_mib = Mib::gib(rng.within(1, 12));
    match rng.below(6) {
        0 | 1 => {
            (spec.gpu_count, spec.gpu_milli) = (1, MilliGpu::new(rng.within(1, 9) * 100));
            spec.vram_mib = Mib::gib(rng.within(1, 12));
        }
        2 => (spec.gpu_count, spec.vram_mib) = (rng.within(1, 3) as u32, Mib::gib(rng.within(1, 24))),
        _ => {}
    }
    spec.priority = rng.below(3) as i32;
    spec.expected_duration_ms = Millis::secs(rng.within(5, 300));
    spec.walltime_ms = Millis::secs(rng.within(5, 150));
    spec.class = rng.below(11) as u8;
    spec.checkpoint = rng.pick(&[Checkpoint::None, Checkpoint::Auto, Checkpoint::Manual]).unwrap();
    spec.requeue = rng.pick(&[Requeue::Never, Requeue::OnLoss, Requeue::OnLoss, Requeue::Always]).unwrap();
    spec.max_requeue = rng.below(4) as u32;
    spec.exclusive = rng.chance(if pool.dispatch == Dispatch::Batch { 50 } else { 5 });
    spec.allow_degraded = rng.chance(20);
    spec.preemptible = rng.chance(80);
    spec.may_preempt = rng.chance(80);
    if rng.chance(15) {
        spec.mutex = vec![name(&format!("m{}", rng.below(2)))];
    }
    match pool.dispatch {
        Dispatch::Batch => batch(rng, &mut spec),
        Dispatch::Pull => {
            spec.kind = if rng.chance(25) { JobKind::Eval } else { JobKind::Build };
            spec.fetchable = rng.chance(20);
        }
        _ => {}
    }
    // From a copy: what it may cost leaves all other draws as they are.
    let mut beside = rng.clone();
    spec.max_price =
        beside.chance(15).then(|| landfall_model::Price::of(beside.within(1, 4) as f64 / 2.0)).flatten();
    spec
}

fn batch(rng: &mut Rng, spec: &mut JobSpec) {
    if rng.chance(40) {
        let min = rng.within(1, 3) as u32;
        spec.nodes = NodeCount { min, max: min + rng.below(3) as u32 };
        spec.resizable = rng.chance(50);
    }
    spec.wait_for_capacity = rng.chance(20);
    spec.immediate = rng.chance(8);
    spec.flexible = rng.chance(20);
    if rng.chance(10) {
        (spec.sensitive, spec.class, spec.exclusive, spec.preemptible) = (true, 10, true, false);
    }
    if rng.chance(10) {
        spec.lifecycle = rng.pick(&[Lifecycle::Unbounded, Lifecycle::Reactive]).unwrap();
    }
    spec.power_w = rng.chance(30).then(|| rng.within(1, 8) * 100);
    spec.io_bytes_s = Bytes::new(if rng.chance(20) { rng.within(1, 20) * 100 } else { 0 });
}

/// One job, with all that may go with a submission.
pub(crate) fn one(rng: &mut Rng, id: String, pool: &Pool, tenants: u64, now: Time) -> Submission {
    let spec = Arc::new(spec(rng, pool, tenants));
    let mut submission = Submission::new(Job::new(JobId::new(&id).unwrap(), spec, now));
    submission.user_hold = rng.chance(8);
    submission.not_before = rng.chance(10).then(|| now + Millis::secs(rng.within(0, 60)));
    submission
}

/// Several jobs that wait for each other, or an array, all of one tenant.
pub(crate) fn several(rng: &mut Rng, first: u64, pool: &Pool, tenants: u64, now: Time) -> Vec<Submission> {
    let count = rng.within(2, 5);
    let mut base = spec(rng, pool, tenants);
    base.nodes = NodeCount::default();
    let base = Arc::new(base);
    let array = rng.chance(40).then(|| JobId::new(&format!("a{first}")).unwrap());
    let mut all: Vec<Submission> = Vec::new();
    for position in 0..count {
        let id = JobId::new(&format!("j{}", first + position)).unwrap();
        let mut submission = Submission::new(Job::new(id, base.clone(), now));
        if let Some(array) = &array {
            submission.element = Some(Element { array: array.clone(), index: position as u32 });
        } else if position > 0 {
            let kinds =
                [EdgeKind::Success, EdgeKind::Success, EdgeKind::Failure, EdgeKind::Any, EdgeKind::Mutex];
            for _ in 0..rng.within(1, 2) {
                let on = all[rng.below(position) as usize].job.id.clone();
                if !submission.edges.iter().any(|edge| edge.on == on) {
                    submission.edges.push(Edge { on, kind: rng.pick(&kinds).unwrap() });
                }
            }
            submission.join = if rng.chance(30) { Join::Any } else { Join::All };
        }
        all.push(submission);
    }
    all
}
