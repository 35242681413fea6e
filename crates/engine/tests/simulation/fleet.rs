//! Random pools, tenants and machines.

use landfall_model::{
    Backfill, Bytes, Discipline, Dispatch, Gpu, Learn, Mib, MilliCpu, Millis, Name, Node, NodeId, NodePower,
    Pool, PoolId, PreemptRule, Price, QueueOrder, Tenant, TenantId, Usage,
};

use landfall_testkit::Rng;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Pools of a world: one to three, of any kind; batch pools come in pairs that lend to each other.
pub(crate) fn pools(rng: &mut Rng, batch: bool) -> Vec<Pool> {
    let kinds: &[Dispatch] = match rng.below(6) {
        _ if batch => &[Dispatch::Batch],
        0 => &[Dispatch::Push],
        1 => &[Dispatch::Pull],
        2 => &[Dispatch::Batch],
        3 => &[Dispatch::Push, Dispatch::Pull],
        4 => &[Dispatch::Batch, Dispatch::Batch],
        _ => &[Dispatch::Push, Dispatch::Pull, Dispatch::Batch, Dispatch::Batch],
    };
    let mut pools = Vec::new();
    for (position, dispatch) in kinds.iter().enumerate() {
        let mut pool = Pool::new(PoolId::new(&format!("p{position}")).unwrap(), *dispatch);
        settings(rng, &mut pool);
        pools.push(pool);
    }
    pools
}

/// Settings of a pool that may change at any time.
pub(crate) fn settings(rng: &mut Rng, pool: &mut Pool) {
    let policies: &[&str] = match pool.dispatch {
        Dispatch::Push => &["fit", "fit", "bin-pack", "first-fit", "best-fit", "gpu-packing", "dot-product"],
        Dispatch::Pull => &["resource-aware", "simple"],
        _ => &["balanced", "hpc-batch", "ml-training", "interactive"],
    };
    pool.policy = rng.pick(policies).map(name);
    let push = &mut pool.push;
    push.queue_discipline = if rng.chance(30) { Discipline::Strict } else { Discipline::BestEffort };
    push.cycle_limit = rng.chance(15).then_some(2);
    push.hold_ms = Millis::secs(rng.within(2, 120));
    pool.pull.retry_base_ms = Millis::secs(rng.within(1, 20));
    pool.pull.liveness_timeout_ms = Millis::secs(if rng.chance(80) { rng.within(40, 120) } else { 0 });
    pool.pull.paused = rng.chance(5);
    let batch = &mut pool.batch;
    let modes =
        [Backfill::Easy, Backfill::Conservative, Backfill::Strict, Backfill::Greedy, Backfill::Promises];
    batch.backfill = rng.pick(&modes).unwrap();
    batch.promise_after_ms = Millis::secs(rng.within(0, 300));
    batch.promise_grace_ms = Millis::secs(rng.within(0, 120));
    batch.promise_limit_ms = Millis::secs(rng.within(0, 900));
    batch.order = rng.pick(&[QueueOrder::Fifo, QueueOrder::Score, QueueOrder::Learned]).unwrap();
    batch.depth = rng.within(1, 3) as u32;
    batch.preemption = rng.chance(70);
    batch.preempt_rule = if rng.chance(50) { PreemptRule::Below } else { PreemptRule::Bands };
    batch.kill_grace_ms = Millis::secs(rng.within(1, 30));
    batch.power_cap_w = rng.chance(20).then(|| rng.within(500, 4000));
    batch.io_cap = rng.chance(20).then(|| Bytes::new(rng.within(1000, 4000)));
    batch.usage = if rng.chance(20) { Usage::Decayed } else { Usage::Instant };
    pool.loans.lend_max_fraction = rng.within(0, 10) as f64 / 10.0;
    pool.loans.lend = rng.chance(85);
    pool.loans.borrow = rng.chance(85);
    pool.loans.return_grace_ms = Millis::secs(rng.within(0, 2) * 20);
    pool.batch.learn = rng.pick(&[Learn::Off, Learn::Order, Learn::Times]).unwrap();
    // From a copy: whether anything costs anything leaves all other draws as they are.
    let mut beside = rng.clone();
    pool.price = beside.chance(40).then(|| landfall_model::PriceSettings {
        base: 1.0,
        // In batch pools a surge moves reservations; these worlds have none there.
        surge: pool.dispatch != Dispatch::Batch && beside.chance(60),
        ..landfall_model::PriceSettings::default()
    });
}

/// A tenant with limits that may be tight.
pub(crate) fn tenant(rng: &mut Rng, position: u64) -> Tenant {
    let mut tenant = Tenant::new(TenantId::new(&format!("t{position}")).unwrap());
    tenant.share = rng.within(0, 10) as f64 / 10.0;
    tenant.burst = 1.0 + rng.below(2) as f64;
    tenant.quota.max_nodes = rng.chance(50).then(|| rng.within(1, 6) as f64 / 2.0);
    tenant.quota.max_cpu_milli = rng.chance(20).then(|| MilliCpu::cores(rng.within(2, 20)));
    tenant.quota.max_gpus = rng.chance(30).then(|| rng.within(1, 6));
    tenant.quota.max_jobs = rng.chance(20).then(|| rng.within(2, 12));
    tenant.quota.gpu_hours_cap = rng.chance(10).then(|| rng.within(1, 20) as f64 / 20.0);
    tenant.budget.gpu_hours = rng.chance(20).then_some(10.0);
    let mut beside = rng.clone();
    tenant.budget.money = beside.chance(20).then(|| Price::of(beside.within(1, 20) as f64)).flatten();
    tenant
}

pub(crate) fn node(rng: &mut Rng, id: &str) -> Node {
    let mut node = Node::new(
        NodeId::new(id).unwrap(),
        MilliCpu::cores(rng.within(2, 8) * 2),
        Mib::gib(rng.within(1, 8) * 8),
    );
    let vram = Mib::gib(rng.pick(&[16, 24, 80]).unwrap());
    let count = rng.pick(&[0, 0, 1, 2, 4]).unwrap();
    node.gpus = (0..count).map(|index| Gpu::new(index, None, Some(vram))).collect();
    node.runtimes.insert(name("container"));
    node.max_concurrent = rng.within(1, 4) as u32;
    node.group = Some(name(&format!("rack{}", rng.below(3))));
    node.fingerprint = rng.chance(80).then(|| name("as-built"));
    node.power = rng.chance(60).then(|| NodePower { idle_w: 100, busy_w: 100 + rng.within(1, 9) * 100 });
    node
}
