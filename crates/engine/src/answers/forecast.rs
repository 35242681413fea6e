//! The near future of a push or pull pool: a copy of the engine runs on in virtual time.
//!
//! Time goes from one expected end to the next. What ends gives its nodes back, whatever waits is dispatched by the same
//! code as ever, and what starts will end after the span it is expected to take. Nodes stay as they are: none falls
//! silent and none joins.
//!
//! ```text
//!   ends: (t1, a) (t1, b) (t4, c) …      at t1: end a and b ─► dispatch ─► d starts, ends at t1 + its span
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use landfall_model::{Dispatch, JobId, JobSpec, Millis, PoolId, Time};

use crate::engine::Engine;
use crate::event::Event;
use crate::record::{Cause, JobRecord, JobState, Phase};
use crate::state::State;

/// Starts that are followed one by one; beyond, times are lower bounds.
const STARTS_MAX: usize = 1000;
/// Instants that are looked at.
const INSTANTS_MAX: usize = 5000;
/// A node that was heard within this span is taken to be heard all the time.
const HEARD_WITHIN: Millis = Millis::secs(30);
/// Requests that workers make in all.
const REQUESTS_MAX: u32 = 50_000;

/// When the waiting jobs of a pool would start.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Forecast {
    pub(super) starts: BTreeMap<JobId, Time>,
    /// The last instant that was worked out, if the work was cut off there: no other job starts before it.
    pub(super) cut_off: Option<Time>,
}

impl Engine {
    /// When the waiting jobs of a push or pull pool would start if everything runs for as long as expected.
    pub(super) fn forecast(&self, pool: &PoolId) -> Forecast {
        let Some(state) = self.state.pools.get(pool) else { return Forecast::default() };
        let dispatch = state.pool.dispatch;
        if dispatch == Dispatch::Batch {
            return Forecast::default();
        }
        let mut copy = self.clone();
        copy.now = self.now;
        copy.hear_everybody();
        let spans = Spans::of(&self.state, pool);
        let mut future =
            Future { ends: BinaryHeap::new(), forecast: Forecast::default(), requests: REQUESTS_MAX, spans };
        for record in copy.state.jobs.values() {
            let end = end_of(record, &future.spans, copy.now);
            future.ends.extend(end.map(|at| Reverse((at, record.job.id.clone()))));
            let opens = record.job.retry_at.filter(|at| record.is_queued() && *at > copy.now);
            future.ends.extend(opens.map(|at| Reverse((at, record.job.id.clone()))));
        }
        for array in copy.state.folded.values().filter(|array| array.is_queued()) {
            let opens = array.job.retry_at.filter(|at| *at > copy.now);
            future.ends.extend(opens.map(|at| Reverse((at, array.job.id.clone()))));
        }
        future.run(&mut copy, pool, dispatch);
        future.forecast
    }

    /// Nodes that are heard now are taken to stay so; silent ones stay silent.
    fn hear_everybody(&mut self) {
        let since = self.now - HEARD_WITHIN;
        for node in self.state.pools.values_mut().flat_map(|pool| &mut pool.nodes) {
            node.heartbeat_at = node.heartbeat_at.filter(|at| *at < since);
        }
    }

    /// Says for all nodes of a committed job that it runs.
    pub(super) fn start_at_once(&mut self, job: &JobId) {
        let nodes: Vec<_> = self
            .state
            .job(job)
            .and_then(|record| record.run.as_ref())
            .map_or_else(Vec::new, |run| run.nodes.iter().map(|at| at.node.clone()).collect());
        for node in nodes {
            self.emit(Event::Reported { job: job.clone(), node, phase: Phase::Started, exit: None });
        }
        self.emit(Event::Started(job.clone()));
    }
}

/// When a placed job is expected to leave its nodes. One that has outlived what was expected of it is taken to need as long again as it has had:
/// those that it was compared with were of another kind.
fn end_of(record: &JobRecord, spans: &Spans, now: Time) -> Option<Time> {
    let run = record.run.as_ref()?;
    if let Some(stop) = &run.stop {
        return Some(stop.kill_at.max(now));
    }
    let started = run.started_at.unwrap_or(now);
    let expected = Some(started + spans.span(&record.job.spec)).filter(|end| *end > now);
    let expected = expected.unwrap_or(now + now.since(started));
    Some(run.ends_at.unwrap_or(expected).max(now))
}

/// How long jobs of a pool take: those that ended tell about those that need the same, and, where nobody says anything, about all.
struct Spans {
    alike: BTreeMap<Arc<JobSpec>, Millis>,
    all: Option<Millis>,
}

impl Spans {
    fn of(state: &State, pool: &PoolId) -> Self {
        let mut sums: BTreeMap<&Arc<JobSpec>, (u64, u64)> = BTreeMap::new();
        let mut sum = (0, 0);
        for record in state.jobs.values().filter(|record| record.pool == *pool) {
            let Some((Cause::Exit(_), ended)) = record.ended.as_deref().map(|ended| (&ended.0, ended.1))
            else {
                continue;
            };
            let Some(began) = record.past.as_ref().and_then(|past| past.first_started_at) else { continue };
            let took = ended.since(began).get();
            let of_alike = sums.entry(&record.job.spec).or_default();
            for (total, number) in [of_alike, &mut sum] {
                (*total, *number) = (total.saturating_add(took), *number + 1);
            }
        }
        let mean = |(total, number): (u64, u64)| (number > 0).then(|| Millis::new(total / number));
        let alike = sums.into_iter().filter_map(|(spec, sum)| Some((spec.clone(), mean(sum)?)));
        Self { alike: alike.collect(), all: mean(sum) }
    }

    fn span(&self, spec: &Arc<JobSpec>) -> Millis {
        let usual = JobSpec::empty().expected_duration_ms;
        let said = spec.expected_duration_ms;
        // Who says nothing is taken for one of many.
        let unsaid = self.all.filter(|_| said == usual);
        self.alike.get(spec).copied().or(unsaid).unwrap_or(said)
    }
}

struct Future {
    spans: Spans,
    /// What happens next: a job ends, or its time has come.
    ends: BinaryHeap<Reverse<(Time, JobId)>>,
    forecast: Forecast,
    requests: u32,
}

impl Future {
    fn run(&mut self, engine: &mut Engine, pool: &PoolId, dispatch: Dispatch) {
        engine.take_events();
        for _ in 0..INSTANTS_MAX {
            self.dispatch(engine, pool, dispatch);
            if self.forecast.starts.len() >= STARTS_MAX || self.requests == 0 {
                self.forecast.cut_off = Some(engine.now);
                return;
            }
            let waits = engine.pools.get(pool).is_some_and(|pool| pool.has_queued());
            let later = || {
                engine.state.folded.values().any(|array| array.pool == *pool && array.is_queued())
                    || engine.state.jobs.values().any(|record| {
                        record.pool == *pool && record.state == JobState::Pending && !record.user_hold
                    })
            };
            if !(waits || later()) || !self.advance(engine, pool, dispatch) {
                return;
            }
        }
        self.forecast.cut_off = Some(engine.now);
    }

    fn dispatch(&mut self, engine: &mut Engine, pool: &PoolId, dispatch: Dispatch) {
        match dispatch {
            Dispatch::Pull => self.requests = engine.idle_workers_ask(pool, self.requests),
            _ => engine.settle(),
        }
        let events = engine.take_events();
        for job in Engine::committed_among(&events) {
            engine.start_at_once(&job);
            self.forecast.starts.entry(job.clone()).or_insert(engine.now);
            let record = engine.state.job(&job);
            let span = record.map_or(Millis::ZERO, |record| self.spans.span(&record.job.spec));
            // Time has to pass, whatever is expected.
            self.ends.push(Reverse((engine.now + span.max(Millis::new(1)), job)));
        }
        engine.take_events();
    }

    /// Goes on to the next instant at which something ends; `false` if nothing will.
    fn advance(&mut self, engine: &mut Engine, pool: &PoolId, dispatch: Dispatch) -> bool {
        let Some(Reverse((next, _))) = self.ends.peek().cloned() else { return false };
        let before = engine.now;
        engine.now = engine.now.max(next);
        if dispatch == Dispatch::Pull {
            self.rounds_pass(engine, pool, before);
        }
        while let Some(Reverse((_, job))) = self.ends.peek().filter(|Reverse((at, _))| *at <= next).cloned() {
            self.ends.pop();
            engine.tend_array(&job);
            let Some(record) = engine.state.job(&job) else { continue };
            if record.state.is_placed() {
                let (state, cause) = (JobState::Completed, Cause::Exit(0));
                engine.emit(Event::Ended { job, state, cause });
            } else {
                engine.sync_job(&job);
            }
        }
        true
    }

    /// Rounds of rescoring that pass meanwhile; more than count are not told apart.
    fn rounds_pass(&self, engine: &mut Engine, pool: &PoolId, before: Time) {
        const ROUNDS_THAT_COUNT: u64 = 16;
        let Some(state) = engine.state.pools.get(pool) else { return };
        let tick = state.pool.pull.tick_ms.get().max(1);
        for _ in 0..(engine.now.since(before).get() / tick).min(ROUNDS_THAT_COUNT) {
            engine.emit(Event::Round(pool.clone()));
        }
    }
}
