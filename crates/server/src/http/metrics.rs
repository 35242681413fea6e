//! Counters and gauges for Prometheus.
//!
//! Counters follow the committed events, so they count from the start of the process. Gauges are made when somebody asks.
//! `docs/reference/metrics.md` is made from what is served.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use landfall_engine::Event;
use landfall_engine::record::Cause;
use landfall_model::answer::Fared;
use landfall_model::{JobId, Price, Time};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::app::{App, Shared};
use super::placement_metrics::Placement;
use super::problem::Problem;
use super::status::word;
use crate::driver::{Cycles, Happened, Stats};

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// All counters and gauges.
pub(crate) struct Metrics {
    registry: Registry,
    #[cfg_attr(not(test), expect(dead_code, reason = "a test looks for each on the page that is served"))]
    pub(crate) names: Vec<&'static str>,
    requests: Counters,
    request_seconds: Histograms,
    proposals: Counters,
    starts: Counters,
    preemptions: Counters,
    checkpoint_seconds: Histograms,
    requeues: Counters,
    reservations_moved: Counters,
    scale_steps: Counters,
    submitted: Counters,
    ended: Counters,
    node_faults: Counters,
    queue_depth: Gauges,
    loans: Gauges,
    share_used: Gauges,
    spent: Gauges,
    budget: Gauges,
    surging: Gauges,
    run_time_ratio: Gauges,
    nodes: Gauges,
    jobs: Gauges,
    agents: Gauge,
    appends: Counter,
    append_seconds: Counter<f64, AtomicU64>,
    append_failures: Counter,
    journal_events: Counter,
    steps: Counter,
    step_seconds: Counter<f64, AtomicU64>,
    snapshots: Counter,
    commands: Counter,
    in_flight: Gauge,
    alarms: Gauges,
    requeue_limited: Gauges,
    clock_offset: Gauge<f64, AtomicU64>,
    clock_jumps: Counter,
    /// What the peer of this server counts.
    pub(crate) placement: Arc<Placement>,
    /// Jobs that save their work because others need their nodes, and since when.
    saving: Mutex<BTreeMap<JobId, Time>>,
}

fn request_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 16))
}

fn checkpoint_buckets() -> Histogram {
    Histogram::new([1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0])
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new(cycles: &Cycles) -> Self {
        let mut registry = Registry::with_prefix("landfall");
        macro_rules! register {
            ($($field:ident = $value:expr, $name:literal, $help:literal;)*) => {
                $(let $field = $value; registry.register($name, $help, $field.clone());)*
                let mut names = vec![$($name,)*];
                let duration = "cycle_duration_seconds";
                registry.register(duration, "time that a cycle of a pool took", cycles.0.clone());
                names.push(duration);
                let (placement, of_peers) = Placement::new(&mut registry);
                names.extend(of_peers);
                let placement = Arc::new(placement);
                Self { $($field,)* placement, registry, names, saving: Mutex::default() }
            };
        }
        register! {
            queue_depth = Gauges::default(), "queue_depth", "jobs that wait";
            proposals = Counters::default(), "proposals",
                "proposals to the ledger: `committed`, or `rejected` after the dispatcher had chosen";
            starts = Counters::default(), "starts", "placements committed: `start`, `backfill`, `preempt`";
            preemptions = Counters::default(), "preemptions",
                "jobs told to leave their nodes: `preempted`, `reclaimed`";
            checkpoint_seconds = Histograms::new_with_constructor(checkpoint_buckets),
                "preemption_checkpoint_seconds", "time that such jobs took to save their work";
            requeues = Counters::default(), "requeues", "jobs that went back to the queue";
            reservations_moved = Counters::default(), "reservations_moved", "reservations moved to a later time";
            loans = Gauges::default(), "loans", "nodes lent to other pools";
            scale_steps = Counters::default(), "scale_steps", "services that gained (`up`) or lost (`down`) nodes";
            share_used = Gauges::default(), "share_used", "share of a pool that a tenant holds";
            spent = Gauges::default(), "tenant_spent",
                "what the jobs of a tenant cost in the last 90 days, those that are placed included";
            budget = Gauges::default(), "tenant_budget", "what they may cost, where that is limited";
            surging = Gauges::default(), "surging", "1 while jobs of a pool cost more because many wait; pools with `price.surge`";
            run_time_ratio = Gauges::default(), "run_time_ratio",
                "how long the last jobs ran over how long they were expected to: one in ten `low`er, `middle`, one in ten `high`er";
            submitted = Counters::default(), "jobs_submitted", "jobs accepted";
            ended = Counters::default(), "jobs_ended", "jobs that ended";
            jobs = Gauges::default(), "jobs", "jobs in memory by state; ended ones leave memory after a while";
            nodes = Gauges::default(), "nodes", "nodes by state";
            agents = Gauge::default(), "agents_connected", "agents with an open line for commands";
            node_faults = Counters::default(), "node_faults", "faults of nodes: `start`, `other`";
            alarms = Gauges::default(), "alarms", "what people should look at, by `kind`; `seen` if somebody has acknowledged it";
            requeue_limited = Gauges::default(), "requeue_limited_nodes",
                "silent nodes that keep their jobs for now because many fell silent at once";
            clock_offset = Gauge::default(), "clock_offset_seconds",
                "how far the wall clock is ahead of the server's time, which follows slowly";
            clock_jumps = Counter::default(), "clock_jumps", "jumps of the wall clock by a second or more";
            commands = Counter::default(), "commands", "commands sent to agents";
            requests = Counters::default(), "http_requests",
                "requests answered; `route` is the pattern, `none` if there is no such route";
            request_seconds = Histograms::new_with_constructor(request_buckets), "http_request_seconds",
                "time until the head of an answer";
            in_flight = Gauge::default(), "http_requests_in_flight", "requests that are being answered";
            appends = Counter::default(), "journal_appends", "commits to the journal";
            append_seconds = Counter::default(), "journal_append_seconds",
                "time spent in commits; divided by their number it is the time of one";
            append_failures = Counter::default(), "journal_append_failures",
                "commits that failed; anything above zero needs a look at the disk";
            journal_events = Counter::default(), "journal_events", "events stored";
            snapshots = Counter::default(), "snapshots", "snapshots made";
            steps = Counter::default(), "engine_steps", "inputs given to the engine";
            step_seconds = Counter::default(), "engine_step_seconds", "time spent in the engine";
        }
    }

    /// Counts what happened.
    pub(crate) fn follow(&self, batch: &[Happened], pool_of: &dyn Fn(&JobId) -> String) {
        let pool = |job: &JobId| ("pool", pool_of(job));
        for happened in batch {
            match &happened.event {
                Event::Submitted { pool, .. } => {
                    self.submitted.get_or_create(&vec![("pool", pool.to_string())]).inc();
                }
                Event::Committed(commit) => {
                    let pool = pool(&commit.job);
                    let labels =
                        vec![pool.clone(), ("result", "committed".into()), ("reason", String::new())];
                    self.proposals.get_or_create(&labels).inc();
                    self.starts.get_or_create(&vec![pool, ("kind", word(&commit.kind))]).inc();
                }
                Event::Rejected(job) => {
                    let labels = vec![pool(job), ("result", "rejected".into()), ("reason", "ledger".into())];
                    self.proposals.get_or_create(&labels).inc();
                }
                Event::Stopping { job, cause, .. } if makes_room(cause) => {
                    self.preemptions.get_or_create(&vec![pool(job), ("reason", word(cause))]).inc();
                }
                Event::Saving { job, leaves: Some(cause), .. } if makes_room(cause) => {
                    self.preemptions.get_or_create(&vec![pool(job), ("reason", word(cause))]).inc();
                    self.saving().insert(job.clone(), happened.at);
                }
                Event::Suspended { job, .. } => {
                    if let Some(since) = self.saving().remove(job) {
                        let took = happened.at.since(since).as_secs_f64();
                        self.checkpoint_seconds.get_or_create(&vec![pool(job)]).observe(took);
                    }
                }
                Event::Requeued { job, back } => {
                    self.saving().remove(job);
                    self.requeues.get_or_create(&vec![pool(job), ("cause", word(&back.cause))]).inc();
                }
                Event::Reserved { pool, moved: Some(cause), .. } => {
                    let labels = vec![("pool", pool.to_string()), ("cause", word(cause))];
                    self.reservations_moved.get_or_create(&labels).inc();
                }
                Event::Resized { job, gained, .. } => {
                    let direction = if gained.is_empty() { "down" } else { "up" };
                    let labels = vec![pool(job), ("direction", direction.into()), ("result", "done".into())];
                    self.scale_steps.get_or_create(&labels).inc();
                }
                Event::Ended { job, state, cause } => {
                    self.saving().remove(job);
                    let labels = vec![pool(job), ("state", word(state)), ("cause", word(cause))];
                    self.ended.get_or_create(&labels).inc();
                }
                Event::NodeFault { start, .. } => {
                    let kind = if *start { "start" } else { "other" };
                    self.node_faults.get_or_create(&vec![("kind", kind.to_owned())]).inc();
                }
                _ => {}
            }
        }
    }

    /// How expectations of run times fared in a pool.
    pub(crate) fn tell_fared(&self, pool: &str, fared: &Fared) {
        for (part, value) in [("low", fared.low), ("middle", fared.middle), ("high", fared.high)] {
            let labels = vec![("pool", pool.to_owned()), ("part", part.to_owned())];
            self.run_time_ratio.get_or_create(&labels).set(value);
        }
    }

    fn saving(&self) -> std::sync::MutexGuard<'_, BTreeMap<JobId, Time>> {
        self.saving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_stats(&self, stats: &Stats) {
        let set = |counter: &Counter, value: &AtomicU64| {
            counter.inner().store(Stats::get(value), Ordering::Relaxed);
        };
        set(&self.appends, &stats.appends);
        set(&self.append_failures, &stats.append_failures);
        set(&self.journal_events, &stats.events);
        set(&self.steps, &stats.steps);
        set(&self.snapshots, &stats.snapshots);
        set(&self.commands, &stats.commands);
        let seconds = |counter: &Counter<f64, AtomicU64>, nanos: &AtomicU64| {
            let seconds = Stats::get(nanos) as f64 / 1e9;
            counter.inner().store(seconds.to_bits(), Ordering::Relaxed);
        };
        seconds(&self.append_seconds, &stats.append_nanos);
        seconds(&self.step_seconds, &stats.step_nanos);
    }
}

fn makes_room(cause: &Cause) -> bool {
    matches!(cause, Cause::Preempted | Cause::Reclaimed)
}

/// Counts a request for as long as it lives, however it ends.
struct InFlight(Gauge);

impl InFlight {
    fn begin(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Measures every request.
pub(crate) async fn measure(State(app): Shared, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let began = Instant::now();
    let _in_flight = InFlight::begin(&app.metrics.in_flight);
    let response = next.run(request).await;
    tracing::debug!(route, status = response.status().as_u16(), "answered");
    let labels = vec![("route", route.clone()), ("status", response.status().as_u16().to_string())];
    app.metrics.requests.get_or_create(&labels).inc();
    let seconds = began.elapsed().as_secs_f64();
    app.metrics.request_seconds.get_or_create(&vec![("route", route)]).observe(seconds);
    response
}

struct Gauged {
    queue: Vec<(String, f64)>,
    loans: Vec<(String, f64)>,
    limited: Vec<(String, f64)>,
    shares: Vec<(String, String, f64)>,
    spent: Vec<(String, f64, Option<f64>)>,
    surging: Vec<(String, f64)>,
    fared: Vec<(String, Fared)>,
    nodes: BTreeMap<String, u64>,
    jobs: BTreeMap<String, u64>,
    /// By kind, and whether somebody has seen them.
    alarms: BTreeMap<(String, bool), u64>,
}

pub(crate) async fn page(app: &App) -> Result<String, Problem> {
    let gauged = app.handle.read(|view| {
        let state = view.engine.state();
        let mut gauged = Gauged {
            queue: Vec::new(),
            loans: Vec::new(),
            limited: Vec::new(),
            shares: Vec::new(),
            spent: Vec::new(),
            surging: Vec::new(),
            fared: Vec::new(),
            nodes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            alarms: BTreeMap::new(),
        };
        for alarm in view.alarms {
            *gauged.alarms.entry((alarm.kind.clone(), alarm.acknowledged_by.is_some())).or_insert(0) += 1;
        }
        for (id, pool) in &state.pools {
            gauged.queue.push((id.to_string(), view.engine.waiting_in(id) as f64));
            let lent = pool.nodes.iter().filter(|node| node.lent_to.is_some()).count();
            gauged.loans.push((id.to_string(), lent as f64));
            let limited = if pool.requeue_limited { view.engine.overdue(id) } else { 0 };
            gauged.limited.push((id.to_string(), limited as f64));
            gauged.fared.extend(pool.habits.fared().map(|fared| (id.to_string(), fared)));
            for (tenant, of) in &pool.world.tenants {
                gauged.shares.push((id.to_string(), tenant.to_string(), of.usage));
            }
            if pool.pool.price.is_some_and(|price| price.surge) {
                let surging = u8::from(pool.world.surging.contains(id));
                gauged.surging.push((id.to_string(), f64::from(surging)));
            }
            for node in pool.present() {
                *gauged.nodes.entry(word(&node.state)).or_insert(0) += 1;
            }
        }
        for (id, tenant) in &state.tenants {
            let budget = tenant.tenant.budget.money.map(Price::as_f64);
            gauged.spent.push((id.to_string(), tenant.spent(view.now).as_f64(), budget));
        }
        let mut states: BTreeMap<_, u64> = BTreeMap::new();
        for ((_, _, state), number) in view.tally() {
            *states.entry(*state).or_insert(0) += number;
        }
        gauged.jobs = states.into_iter().map(|(state, count)| (word(&state), count)).collect();
        gauged
    });
    let gauged = gauged.await?;
    let metrics = &app.metrics;
    let set = |family: &Gauges, labels: Labels, value: f64| family.get_or_create(&labels).set(value);
    let (of_pools, of_all) = (
        [&metrics.queue_depth, &metrics.loans, &metrics.requeue_limited, &metrics.surging],
        [
            &metrics.share_used,
            &metrics.spent,
            &metrics.budget,
            &metrics.nodes,
            &metrics.jobs,
            &metrics.alarms,
        ],
    );
    of_pools.into_iter().chain(of_all).for_each(|family| {
        family.clear();
    });
    for (pool, fared) in gauged.fared {
        metrics.tell_fared(&pool, &fared);
    }
    for (pool, value) in gauged.queue {
        set(&metrics.queue_depth, vec![("pool", pool)], value);
    }
    for (pool, value) in gauged.loans {
        set(&metrics.loans, vec![("pool", pool)], value);
    }
    for (pool, value) in gauged.limited {
        set(&metrics.requeue_limited, vec![("pool", pool)], value);
    }
    for (pool, tenant, value) in gauged.shares {
        set(&metrics.share_used, vec![("pool", pool), ("tenant", tenant)], value);
    }
    for (tenant, spent, budget) in gauged.spent {
        let labels = vec![("tenant", tenant)];
        set(&metrics.spent, labels.clone(), spent);
        if let Some(budget) = budget {
            set(&metrics.budget, labels, budget);
        }
    }
    for (pool, value) in gauged.surging {
        set(&metrics.surging, vec![("pool", pool)], value);
    }
    for ((kind, seen), count) in gauged.alarms {
        set(&metrics.alarms, vec![("kind", kind), ("seen", seen.to_string())], count as f64);
    }
    for (state, count) in gauged.nodes {
        set(&metrics.nodes, vec![("state", state)], count as f64);
    }
    for (state, count) in gauged.jobs {
        set(&metrics.jobs, vec![("state", state)], count as f64);
    }
    metrics.agents.set(i64::try_from(app.handle.connections().count()).unwrap_or(i64::MAX));
    let standing = app.handle.clock().standing();
    metrics.clock_offset.set(standing.ahead_ms as f64 / 1000.0);
    metrics.clock_jumps.inner().store(standing.jumps, Ordering::Relaxed);
    metrics.take_stats(&app.stats);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &metrics.registry).unwrap_or_default();
    Ok(text)
}
