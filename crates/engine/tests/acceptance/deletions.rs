//! Pools and tenants that are no longer needed.

use landfall_engine::input::NodeOrder;
use landfall_engine::record::JobState;
use landfall_engine::state::State;
use landfall_engine::{Answer, Input};
use landfall_model::{Dispatch, Pool, PoolId, TenantId};

use crate::support::{Cluster, job_id, node_id, pool};

fn pool_id(text: &str) -> PoolId {
    PoolId::new(text).unwrap()
}

/// Pool `p` with node `a` and tenant `lab`, and pool `other` without anything.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(
        pool(Dispatch::Push, |_| {}),
        "now_ms = 0\ntenants = [{ id = 'lab' }]\nnodes = [{ id = 'a', cpu_milli = 2000, ram_mib = '4GiB' }]\n",
    );
    cluster.add_pool(Pool::new(pool_id("other"), Dispatch::Batch), "now_ms = 0\n");
    cluster
}

#[test]
fn what_is_in_use_is_not_deleted() {
    let mut cluster = cluster();
    let lab = TenantId::new("lab").unwrap();
    assert_eq!(cluster.refused(Input::DeletePool(pool_id("none"))), "unknown_pool");
    assert_eq!(cluster.refused(Input::DeleteTenant(TenantId::new("none").unwrap())), "unknown");
    assert_eq!(cluster.refused(Input::DeletePool(pool_id("p"))), "pool_has_nodes");
    cluster.running("j", "now_ms = 0\njobs = [{ id = 'j', cpu_milli = 1000, tenant = 'lab', pool = 'p' }]\n");
    assert_eq!(cluster.refused(Input::DeletePool(pool_id("p"))), "pool_busy");
    assert_eq!(cluster.refused(Input::DeleteTenant(lab.clone())), "tenant_busy");
    cluster.step(Input::Order { node: node_id("a"), order: NodeOrder::Leave });
    // What ran there waits again, for a node that may come.
    assert_eq!(cluster.refused(Input::DeletePool(pool_id("p"))), "pool_busy");
    cluster.done(Input::Cancel(job_id("j")));
    cluster.done(Input::DeletePool(pool_id("other")));
    assert_eq!(cluster.refused(Input::DeletePool(pool_id("p"))), "last_pool");
    cluster.done(Input::DeleteTenant(lab));
}

#[test]
fn what_is_deleted_is_gone_from_the_journal_on() {
    let mut cluster = cluster();
    cluster.running("j", "now_ms = 0\njobs = [{ id = 'j', cpu_milli = 1000, tenant = 'lab', pool = 'p' }]\n");
    cluster.step(Input::Cancel(job_id("j")));
    cluster.step(Input::Order { node: node_id("a"), order: NodeOrder::Leave });
    cluster.run_until(3600.0);
    assert_eq!(cluster.state("j"), JobState::Cancelled);
    cluster.done(Input::DeletePool(pool_id("p")));
    cluster.done(Input::DeleteTenant(TenantId::new("lab").unwrap()));
    let state = cluster.engine.state();
    assert!(state.tenants.is_empty() && state.places.is_empty(), "{:?}", state.places);
    assert!(state.pools.values().all(|pool| pool.world.tenants.is_empty()));
    assert_eq!(cluster.engine.queue_len(&pool_id("p")), None);
    // Its jobs are still known, and nobody trips over where they were.
    assert!(cluster.engine.explain(&job_id("j")).is_none());
    let mut again = State::default();
    for (at, event) in &cluster.events {
        again.apply(*at, event);
    }
    assert_eq!(again, *cluster.engine.state());
    landfall_testkit::invariants::check_all(&cluster.engine).unwrap();
    cluster.run_until(7200.0);
    cluster.done(Input::Forget(job_id("j")));
    // The name is free for a pool of another kind, and so is the node's.
    cluster.done(Input::SetPool { pool: Box::new(Pool::new(pool_id("p"), Dispatch::Batch)), policy: None });
    let node = landfall_model::Node::new(
        node_id("a"),
        landfall_model::MilliCpu::cores(2),
        landfall_model::Mib::gib(4),
    );
    let joined = cluster.step(Input::Join { pool: pool_id("other"), node: Box::new(node), running: None });
    assert!(!matches!(joined, Answer::Refused(_)), "{joined:?}");
}
