//! What is written down about each job while the engine decides.

use std::collections::BTreeMap;

use landfall_engine::event::Commit;
use landfall_engine::record::{Cause, JobRecord, JobState, StartKind};
use landfall_engine::{Engine, Estimates, Event, State};
use landfall_model::{Dispatch, JobId, JobSpec, Millis, NodeId, PoolId, TenantId, Time};
use serde::Serialize;

use super::agents::Agents;
use crate::decisions::Decisions;
use crate::run::{Capacity, Counts, Ending, JobRun, NODE_PARTS, Span};

/// Most spans kept for drawings.
const SPANS_MAX: usize = 20_000;

#[derive(Debug, Clone, Default)]
struct Page {
    run_ms: u64,
    walltime_ms: u64,
    units: u64,
    gpu_milli: u64,
    /// Whether it takes a part of a device only.
    shares: bool,
    held: Millis,
    lost: Millis,
    preemptions: u32,
    backfilled: bool,
    first_estimate: Option<Time>,
    /// Since when it holds its nodes, and which.
    open: Option<(Time, Vec<NodeId>)>,
    /// Why it was not accepted.
    refused: Option<Box<str>>,
    queued: Time,
    tenant: Option<TenantId>,
    qos_wait_ms: Option<u64>,
}

#[derive(Serialize)]
struct Decision<'a> {
    at_ms: i64,
    job: &'a JobId,
    kind: StartKind,
    nodes: Vec<&'a NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    terms: Vec<(&'a str, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runner_up: Option<&'a str>,
}

/// Six decimals are enough to tell and few enough to be the same everywhere.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[derive(Debug)]
pub(super) struct Books<'a> {
    pages: BTreeMap<JobId, Page>,
    /// Jobs in the order in which they came.
    order: Vec<JobId>,
    /// Jobs that no cycle has looked at.
    fresh: Vec<JobId>,
    pub(super) counts: Counts,
    capacity: Vec<Capacity>,
    spans: Vec<(JobId, NodeId, Time, Time)>,
    decisions: Decisions<'a>,
}

impl<'a> Books<'a> {
    pub(super) fn new(decisions: Decisions<'a>) -> Self {
        Self {
            pages: BTreeMap::new(),
            order: Vec::new(),
            fresh: Vec::new(),
            counts: Counts::default(),
            capacity: Vec::new(),
            spans: Vec::new(),
            decisions,
        }
    }

    pub(super) fn arrives(&mut self, job: &JobId, spec: &JobSpec, run: Option<Millis>, at: Time) {
        let page = Page {
            run_ms: run.map_or(0, Millis::get),
            walltime_ms: spec.walltime_ms.get(),
            units: u64::from(spec.nodes.min) * NODE_PARTS,
            gpu_milli: spec.gpu_milli_total() * u64::from(spec.nodes.min),
            shares: spec.shares_a_gpu(),
            queued: at,
            tenant: spec.tenant.clone(),
            qos_wait_ms: spec.qos_wait_ms.map(Millis::get),
            ..Page::default()
        };
        self.pages.insert(job.clone(), page);
        self.order.push(job.clone());
        self.fresh.push(job.clone());
    }

    pub(super) fn refused(&mut self, job: &JobId, code: &str) {
        if let Some(page) = self.pages.get_mut(job) {
            page.refused = Some(code.into());
            self.counts.decisions += 1;
        }
    }

    pub(super) fn in_service(&mut self, now: Time, state: &State) {
        let nodes = state.pools.values().flat_map(|pool| &pool.nodes);
        let there = nodes.filter(|node| {
            matches!(node.state, landfall_model::NodeState::Ready | landfall_model::NodeState::Draining)
        });
        let (units, gpu_milli) = there
            .fold((0, 0), |(nodes, gpus), node| (nodes + NODE_PARTS, gpus + node.gpus.len() as u64 * 1000));
        let now = Capacity { from: now, units, gpu_milli };
        match self.capacity.last_mut() {
            Some(last) if (last.units, last.gpu_milli) == (units, gpu_milli) => {}
            Some(last) if last.from == now.from => *last = now,
            _ => self.capacity.push(now),
        }
    }

    /// Takes one event in; agents learn what it means for their work.
    pub(super) fn note(&mut self, now: Time, event: &Event, engine: &Engine, agents: &mut Agents) {
        match event {
            Event::Committed(commit) => self.committed(now, commit),
            Event::Started(job) => {
                if let Some(record) = engine.state().job(job)
                    && let Some(run) = &record.run
                {
                    let nodes = run.nodes.iter().map(|at| at.node.clone()).collect();
                    agents.started(job, record.attempt, nodes, now);
                }
            }
            Event::Saved(job) => agents.saved(job, now),
            Event::Suspended { job, cause } => {
                agents.saved(job, now);
                self.leaves(now, job, agents, matches!(cause, Cause::Preempted | Cause::Reclaimed));
            }
            Event::Requeued { job, back } => {
                self.counts.requeues += 1;
                self.leaves(now, job, agents, matches!(back.cause, Cause::Preempted | Cause::Reclaimed));
            }
            Event::Ended { job, state, cause } => {
                // What a job did until its walltime was delivered; only starting over makes work worthless.
                let worthless = *state != JobState::Completed && *cause != Cause::Walltime;
                self.closes(now, job, agents, worthless);
            }
            Event::Rejected(_) => self.counts.rejected += 1,
            Event::Reserved { moved: Some(cause), .. } => {
                let name = serde_json::to_value(cause).ok();
                let name = name.as_ref().and_then(|name| name.as_str()).unwrap_or("other");
                *self.counts.moved.entry(name.to_owned()).or_default() += 1;
            }
            Event::Cycled { .. } => self.counts.passes += 1,
            Event::NodeMoved { .. } | Event::NodeJoined { .. } | Event::NodeLeft(_) => {
                self.in_service(now, engine.state());
            }
            _ => {}
        }
    }

    /// Jobs that came since the last cycle are told when they are expected to start.
    pub(super) fn first_estimates(&mut self, engine: &Engine) {
        let fresh = std::mem::take(&mut self.fresh);
        let mut pools: BTreeMap<PoolId, Estimates> = BTreeMap::new();
        for job in fresh {
            let Some(record) = engine.state().job(&job).filter(|record| record.state == JobState::Pending)
            else {
                continue;
            };
            let Some(page) = self.pages.get_mut(&job) else { continue };
            let pool = &record.pool;
            if engine.state().pools.get(pool).is_none_or(|pool| pool.pool.dispatch != Dispatch::Batch) {
                continue;
            }
            let estimates = pools.entry(pool.clone()).or_insert_with(|| engine.estimates_of(pool));
            page.first_estimate = estimates.get(&job).and_then(|estimate| estimate.planned_start);
            if page.first_estimate.is_none() {
                self.fresh.push(job);
            }
        }
    }

    fn committed(&mut self, now: Time, commit: &Commit) {
        self.counts.starts += 1;
        self.counts.decisions += 1;
        self.counts.backfills += u64::from(commit.kind == StartKind::Backfill);
        self.counts.loans += commit.grants.iter().filter(|grant| grant.lender.is_some()).count() as u64;
        let terms = commit.why.terms.iter().map(|term| (&*term.term, rounded(term.raw))).collect();
        self.decisions.note(&Decision {
            at_ms: now.as_millis(),
            job: &commit.job,
            kind: commit.kind,
            nodes: commit.grants.iter().map(|grant| &grant.node).collect(),
            total: commit.why.total.map(rounded),
            terms,
            runner_up: commit.why.runner_up.as_ref().map(landfall_model::Name::as_str),
        });
        let Some(page) = self.pages.get_mut(&commit.job) else { return };
        page.units = commit.units * NODE_PARTS / landfall_engine::units::MICRO;
        // The ledger counts a share of a device as one of its users; what is held is the share.
        if !page.shares {
            page.gpu_milli = commit.gpus * 1000;
        }
        page.backfilled |= commit.kind == StartKind::Backfill && page.held.is_zero();
        page.open = Some((now, commit.grants.iter().map(|grant| grant.node.clone()).collect()));
    }

    fn leaves(&mut self, now: Time, job: &JobId, agents: &mut Agents, preempted: bool) {
        if self.closes(now, job, agents, true) && preempted {
            self.counts.preemptions += 1;
            if let Some(page) = self.pages.get_mut(job) {
                page.preemptions += 1;
            }
        }
    }

    /// A job gives its nodes back; whether it had any.
    fn closes(&mut self, now: Time, job: &JobId, agents: &mut Agents, worthless: bool) -> bool {
        let unsaved = agents.stopped(job, now);
        let Some(page) = self.pages.get_mut(job) else { return false };
        let Some((since, nodes)) = page.open.take() else { return false };
        page.held += now.since(since);
        if worthless {
            page.lost += unsaved;
        }
        let room = SPANS_MAX.saturating_sub(self.spans.len());
        self.spans.extend(nodes.into_iter().take(room).map(|node| (job.clone(), node, since, now)));
        true
    }

    /// Closes the books. Spans are given only if all were kept.
    pub(super) fn close(mut self, engine: &Engine) -> std::io::Result<Closed> {
        let state = engine.state();
        // What still runs held its nodes until the end.
        for page in self.pages.values_mut() {
            if let Some((since, _)) = page.open.take() {
                page.held += state.now.since(since);
            }
        }
        let mut tenants: Vec<TenantId> = state.tenants.keys().cloned().collect();
        tenants.extend(self.pages.values().filter_map(|page| page.tenant.clone()));
        tenants.sort();
        tenants.dedup();
        let nodes: Vec<NodeId> = state.places.keys().cloned().collect();
        let number: BTreeMap<&JobId, u32> = self.order.iter().zip(0..).collect();
        let jobs = self.order.iter().map(|id| {
            let page = &self.pages[id];
            let tenant = page.tenant.as_ref().and_then(|tenant| tenants.binary_search(tenant).ok());
            job_run(id, page, tenant.map(|at| at as u32), state.job(id), engine)
        });
        let jobs = jobs.collect();
        let complete = self.spans.len() < SPANS_MAX;
        let spans = self.spans.iter().filter(|_| complete).filter_map(|(job, node, from, until)| {
            let node = nodes.binary_search(node).ok()? as u32;
            Some(Span { job: *number.get(job)?, node, from: *from, until: *until })
        });
        let spans = spans.collect();
        let decisions_sha256 = self.decisions.finish()?;
        Ok(Closed {
            jobs,
            tenants,
            nodes,
            spans,
            capacity: self.capacity,
            counts: self.counts,
            decisions_sha256,
        })
    }
}

/// Books that nobody writes in any more.
#[derive(Debug)]
pub(super) struct Closed {
    pub(super) jobs: Vec<JobRun>,
    pub(super) tenants: Vec<TenantId>,
    pub(super) nodes: Vec<NodeId>,
    pub(super) spans: Vec<Span>,
    pub(super) capacity: Vec<Capacity>,
    pub(super) counts: Counts,
    pub(super) decisions_sha256: String,
}

fn job_run(
    id: &JobId,
    page: &Page,
    tenant: Option<u32>,
    record: Option<&JobRecord>,
    engine: &Engine,
) -> JobRun {
    let first = |record: &JobRecord| {
        let now = record.run.as_ref().and_then(|run| run.started_at);
        record.past.as_ref().and_then(|past| past.first_started_at).or(now)
    };
    let started = record.and_then(first);
    let ended = record.and_then(|record| record.ended.as_deref()).map(|(_, at)| *at);
    let ending = match record.map(|record| (record.state, record.ended.as_deref())) {
        None => Ending::NeverStarted(page.refused.clone().unwrap_or_else(|| "refused".into())),
        Some((JobState::Completed, _)) => Ending::Completed,
        Some((_, Some((Cause::Walltime, _)))) => Ending::Walltime,
        Some((_, Some((cause, _)))) if started.is_some() => Ending::Failed(name_of(cause).into()),
        Some((_, Some((cause, _)))) => Ending::NeverStarted(name_of(cause).into()),
        Some(_) if started.is_some() => Ending::Failed("unfinished".into()),
        Some(_) => {
            let reason = engine.explain(id).and_then(|explanation| explanation.reason);
            Ending::NeverStarted(reason.map_or("waiting", |reason| reason.name()).into())
        }
    };
    JobRun {
        job: id.clone(),
        tenant,
        units: page.units,
        gpu_milli: page.gpu_milli,
        queued: record.map_or(page.queued, |record| record.job.queued_at),
        started,
        ended,
        run_ms: match ending {
            Ending::Walltime => page.run_ms.min(page.walltime_ms),
            _ => page.run_ms,
        },
        held_ms: page.held.get(),
        lost_ms: page.lost.get(),
        first_estimate: page.first_estimate,
        qos_wait_ms: page.qos_wait_ms,
        backfilled: page.backfilled,
        preemptions: page.preemptions,
        ending,
    }
}

/// The name of a cause as the journal writes it.
fn name_of(cause: &Cause) -> String {
    match serde_json::to_value(cause) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(serde_json::Value::Object(map)) => map.keys().next().cloned().unwrap_or_default(),
        _ => "ended".to_owned(),
    }
}
