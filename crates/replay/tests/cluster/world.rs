//! Small clusters and workloads for tests.

use std::sync::Arc;

use landfall_engine::Engine;
use landfall_engine::input::Submission;
use landfall_model::scenario::{self, Format};
use landfall_model::{Job, JobId, JobSpec, Millis, Name, NodeCount, TenantId, Time};
use landfall_replay::cluster::{Arrival, Change, Workload, simulate};
use landfall_replay::decisions::Decisions;
use landfall_replay::run::Run;

/// Cycles after every instant.
pub(crate) const ON_EVENTS: &str = "cycle_on_events = true\n";

/// An engine with so many alike nodes in one batch pool.
pub(crate) fn engine(nodes: usize, batch: &str, tenants: &str) -> Engine {
    let text = format!(
        "[[pools]]\nid = \"p\"\ndispatch = \"batch\"\nheartbeats = false\npolicy = \"balanced\"\n\
         [pools.batch]\n{batch}\n{tenants}\n[[nodes]]\nid = \"n\"\ncount = {nodes}\ncpu_milli = 1000\nram_mib = 1024\n"
    );
    let situation = scenario::parse(&text, Format::Toml).expect("a scenario");
    Engine::from_situation(&situation).expect("an engine")
}

/// A job of the trace, in seconds.
pub(crate) struct Row<'a> {
    pub(crate) id: &'a str,
    pub(crate) submit: i64,
    pub(crate) nodes: u32,
    pub(crate) walltime: u64,
    pub(crate) run: u64,
    pub(crate) user: i64,
    pub(crate) tenant: Option<&'a str>,
    pub(crate) qos_wait: Option<u64>,
}

pub(crate) fn arrival(row: &Row<'_>) -> Arrival {
    let spec = JobSpec {
        user: Name::new(&format!("user{}", row.user)).ok(),
        tenant: row.tenant.map(|tenant| TenantId::new(tenant).expect("an id")),
        nodes: NodeCount { min: row.nodes, max: row.nodes },
        walltime_ms: Millis::secs(row.walltime),
        qos_wait_ms: row.qos_wait.map(Millis::secs),
        ..JobSpec::empty()
    };
    let at = Time::from_secs(row.submit);
    let job = Job::new(JobId::new(row.id).expect("an id"), Arc::new(spec), at);
    Arrival::new(at, Some(Millis::secs(row.run)), Submission::new(job))
}

pub(crate) fn replay(engine: Engine, arrivals: Vec<Arrival>, changes: Vec<(Time, Change)>) -> Run {
    let workload = Workload { arrivals, changes, ..Workload::default() };
    simulate(engine, workload, Decisions::new(None), &mut |_| true).expect("a run")
}

/// When each job first started, in seconds.
pub(crate) fn starts(run: &Run) -> Vec<i64> {
    run.jobs.iter().map(|job| job.started.map_or(-1, |at| at.as_millis() / 1000)).collect()
}
