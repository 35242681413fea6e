//! What a pull pool has lately seen: trailing means over five minutes, an hour and a day, made anew every so often.
//!
//! The rules of a pull policy measure a job against what is usual here. What was seen is stored now and then, summed up over short
//! spans, so that a server that starts again knows what was usual. Until something is seen the means are absent, and the rules
//! fall back to their constants.

use std::collections::{BTreeMap, VecDeque};

use landfall_engine::{Event, Input, State};
use landfall_model::{
    Dispatch, Instance, JobId, JobKind, JobReport, Millis, NodeId, NodeState, PoolId, PullPreset, Time,
    Window,
};

use landfall_store::{Change, Reader, StoreError, Table};
use serde::{Deserialize, Serialize};

use super::core::{Core, unreadable};
use super::jobs::LiveRun;

/// Samples kept per mean; a busy pool forgets the oldest of the day earlier.
const SAMPLES_MAX: usize = 50_000;
const MINUTES_5: Millis = Millis::secs(300);
const HOUR: Millis = Millis::secs(3600);
const DAY: Millis = Millis::secs(86_400);

/// Waits are counted in whole seconds, so a mean below one is none to measure with: a pool that was idle would give whoever waits
/// for a second all the points there are.
const WAIT_SCALE_MIN: f64 = 1.0;

/// What was seen is stored at most this often.
const STORED_EVERY: Millis = Millis::secs(60);

/// Some samples of about one instant: the instant, their sum, and how many they are.
type Sample = (Time, f64, u32);

/// Samples of one figure, oldest first.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
struct Series(VecDeque<Sample>);

impl Series {
    fn add(&mut self, at: Time, value: f64) {
        if self.0.len() == SAMPLES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((at, value, 1));
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(_, _, count)| u64::from(*count)).sum()
    }

    /// The same in few samples: those of a span are one, and spans are longer the longer ago they are.
    fn summed_up(&self, now: Time) -> Self {
        let span_of = |at: Time| {
            let long = match now.since(at) {
                ago if ago <= MINUTES_5 => 10_000,
                ago if ago <= HOUR => 60_000,
                _ => 900_000,
            };
            (long, at.as_millis().div_euclid(long))
        };
        let mut few: VecDeque<Sample> = VecDeque::new();
        for &(at, sum, count) in &self.0 {
            match few.back_mut().filter(|last| span_of(last.0) == span_of(at)) {
                Some(last) => *last = (at, last.1 + sum, last.2 + count),
                None => few.push_back((at, sum, count)),
            }
        }
        Self(few)
    }

    fn add_known(&mut self, at: Time, value: Option<u64>) {
        if let Some(value) = value {
            self.add(at, value as f64);
        }
    }

    fn window(&mut self, now: Time) -> Window {
        while self.0.front().is_some_and(|(at, _, _)| now.since(*at) > DAY) {
            self.0.pop_front();
        }
        let mean = |span: Millis| {
            let within = self.0.iter().rev().take_while(|(at, _, _)| now.since(*at) <= span);
            let (count, sum) = within.fold((0u32, 0.0), |(count, all), (_, sum, of)| (count + of, all + sum));
            (count > 0).then(|| sum / f64::from(count))
        };
        Window { m5: mean(MINUTES_5), h1: mean(HOUR), h24: mean(DAY) }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Seen {
    missing_inputs: Series,
    missing_mib: Series,
    dependency_count: Series,
    wait_secs: Series,
    cpu_time_ms: Series,
    oom_rate: Series,
    network_mbit_s: Series,
    disk_bytes: Series,
    build_time_ms: Series,
    peak_ram_mib: Series,
    avg_cpu_pct: Series,
    input_bytes: Series,
    completed: Series,
    /// When the means were last made.
    #[serde(skip)]
    made_at: Option<Time>,
    /// When all this was last stored.
    #[serde(skip)]
    stored_at: Option<Time>,
}

/// Under which key what a pool has seen is stored.
fn key(pool: &PoolId) -> String {
    format!("instance/{pool}")
}

impl Seen {
    fn all(&mut self) -> [&mut Series; 13] {
        let Self { missing_inputs, missing_mib, dependency_count, wait_secs, cpu_time_ms, oom_rate, .. } =
            self;
        let Self { build_time_ms, peak_ram_mib, avg_cpu_pct, input_bytes, completed, .. } = self;
        let Self { network_mbit_s, disk_bytes, .. } = self;
        [
            missing_inputs,
            missing_mib,
            dependency_count,
            wait_secs,
            cpu_time_ms,
            oom_rate,
            network_mbit_s,
            disk_bytes,
            build_time_ms,
            peak_ram_mib,
            avg_cpu_pct,
            input_bytes,
            completed,
        ]
    }
}

/// What all pull pools have seen.
#[derive(Debug, Default)]
pub(super) struct Instances {
    pools: BTreeMap<PoolId, Seen>,
    /// What nodes said they would have to fetch for jobs that wait.
    reports: BTreeMap<JobId, BTreeMap<NodeId, JobReport>>,
}

impl Instances {
    /// What pull pools had seen when that was last stored.
    pub(super) fn load(store: &mut dyn Reader, state: &State) -> Result<Self, StoreError> {
        let mut pools = BTreeMap::new();
        for pool in state.pools.values().filter(|pool| pool.pool.dispatch == Dispatch::Pull) {
            let (id, key) = (&pool.pool.id, key(&pool.pool.id));
            if let Some(bytes) = store.get(Table::Meta, &key)? {
                let seen: Seen =
                    serde_json::from_slice(&bytes).map_err(|error| unreadable(Table::Meta, &key, error))?;
                pools.insert(id.clone(), seen);
            }
        }
        Ok(Self { pools, reports: BTreeMap::new() })
    }

    /// What a node said that it would have to fetch for a job, until that is known to have been placed.
    pub(super) fn report(&self, job: &JobId, node: &NodeId) -> Option<JobReport> {
        self.reports.get(job)?.get(node).copied()
    }
}

impl Core {
    /// Takes in what an event says about a pull pool.
    pub(super) fn note_instance(&mut self, event: &Event) {
        match event {
            Event::Fetches { job, node, report: Some(report) } => {
                self.instances.reports.entry(job.clone()).or_default().insert(node.clone(), *report);
            }
            Event::Committed(commit) => {
                let reports = self.instances.reports.remove(&commit.job).unwrap_or_default();
                let state = self.engine.state();
                let Some(record) = state.job(&commit.job).filter(|record| self.is_pull(&record.pool)) else {
                    return;
                };
                let (pool, spec, now) = (record.pool.clone(), record.job.spec.clone(), self.now);
                // What the rule counts that this mean is for.
                let preset = state.pool(&pool).and_then(|pool| pool.pool.preset);
                let counted = match preset.unwrap_or_default() {
                    PullPreset::Documented => spec.dependents.max(state.graph.dependents(&commit.job)),
                    PullPreset::Upstream => spec.direct_inputs,
                };
                let waited = now.since(record.job.ready_at).get() / 1000;
                let report = commit.grants.first().and_then(|grant| reports.get(&grant.node)).copied();
                let seen = self.instances.pools.entry(pool).or_default();
                if let Some(report) = report {
                    seen.missing_inputs.add_known(now, report.missing_inputs);
                    if let Some(bytes) = report.missing_bytes {
                        seen.missing_mib.add(now, bytes as f64 / f64::from(1 << 20));
                    }
                }
                seen.dependency_count.add(now, counted as f64);
                seen.input_bytes.add_known(now, spec.inputs_total_bytes().map(landfall_model::Bytes::get));
                if spec.kind == JobKind::Build {
                    seen.wait_secs.add(now, waited as f64);
                }
            }
            Event::Forgotten(job) => {
                self.instances.reports.remove(job);
            }
            Event::PoolDeleted(pool) if self.instances.pools.remove(pool).is_some() => {
                self.batch.changes.push(Change::delete(Table::Meta, key(pool)));
            }
            _ => {}
        }
    }

    /// Takes in how a job of a pull pool ended.
    pub(super) fn note_end(&mut self, job: &JobId, run: Option<&LiveRun>) {
        self.instances.reports.remove(job);
        let state = self.engine.state();
        let Some(record) = state.job(job).filter(|record| self.is_pull(&record.pool)) else { return };
        let is_build = record.job.spec.kind == JobKind::Build;
        let started = record.past.as_deref().and_then(|past| past.first_started_at);
        let (pool, now) = (record.pool.clone(), self.now);
        let Some(usage) = run.and_then(|run| run.usage) else { return };
        let seen = self.instances.pools.entry(pool).or_default();
        seen.cpu_time_ms.add_known(now, usage.cpu_time_ms);
        seen.oom_rate.add(now, if usage.oom { 1.0 } else { 0.0 });
        seen.disk_bytes.add_known(now, usage.disk_bytes);
        if let Some(bytes) = usage.network_bytes_s {
            seen.network_mbit_s.add(now, bytes as f64 * 8.0 / 1e6);
        }
        seen.peak_ram_mib.add_known(now, usage.peak_ram_mib);
        seen.completed.add(now, 1.0);
        // An agent that does not say how long the run took is of an older version.
        let ran = usage.wall_ms.or(started.map(|started| now.since(started).get()));
        seen.build_time_ms.add_known(now, ran.filter(|_| is_build));
        if let Some((cpu, ran)) = usage.cpu_time_ms.zip(ran.filter(|ran| *ran > 0)) {
            seen.avg_cpu_pct.add(now, cpu as f64 * 100.0 / ran as f64);
        }
    }

    /// Makes the means of pull pools anew where it is time.
    pub(super) fn refresh_instances(&mut self) {
        let now = self.now;
        let due: Vec<PoolId> = self
            .engine
            .state()
            .pools
            .iter()
            .filter(|(_, pool)| pool.pool.dispatch == Dispatch::Pull && !pool.nodes.is_empty())
            .filter(|(id, pool)| {
                let made = self.instances.pools.get(*id).and_then(|seen| seen.made_at);
                made.is_none_or(|made| now.since(made) >= pool.pool.pull.instance_metrics_interval_ms)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for pool in due {
            let instance = self.instance(&pool, now);
            let known = self.engine.state().pool(&pool).map(|state| &state.world.instance);
            if known != Some(&instance) {
                self.step(Input::SetInstance { pool: pool.clone(), instance: Box::new(instance) });
                self.store_seen(&pool);
            }
        }
    }

    /// Stores what a pool has seen, summed up, if that was last done a while ago.
    fn store_seen(&mut self, pool: &PoolId) {
        let now = self.now;
        let Some(seen) = self.instances.pools.get_mut(pool) else { return };
        if seen.completed.0.is_empty() && seen.dependency_count.0.is_empty() {
            return;
        }
        if seen.stored_at.is_some_and(|at| now.since(at) < STORED_EVERY) {
            return;
        }
        let mut few = Seen::default();
        for (few, all) in few.all().into_iter().zip(seen.all()) {
            *few = all.summed_up(now);
        }
        seen.stored_at = Some(now);
        self.put(Table::Meta, key(pool), &few);
    }

    fn instance(&mut self, pool: &PoolId, now: Time) -> Instance {
        let seen = self.instances.pools.entry(pool.clone()).or_default();
        seen.made_at = Some(now);
        let mut instance = Instance {
            missing_inputs: seen.missing_inputs.window(now),
            missing_mib: seen.missing_mib.window(now),
            dependency_count: seen.dependency_count.window(now),
            wait_secs: seen.wait_secs.window(now).at_least(WAIT_SCALE_MIN),
            cpu_time_ms: seen.cpu_time_ms.window(now),
            oom_rate: seen.oom_rate.window(now),
            network_mbit_s: seen.network_mbit_s.window(now),
            disk_bytes: seen.disk_bytes.window(now),
            build_time_ms: seen.build_time_ms.window(now),
            peak_ram_mib: seen.peak_ram_mib.window(now),
            avg_cpu_pct: seen.avg_cpu_pct.window(now),
            input_bytes: seen.input_bytes.window(now),
            ..Instance::default()
        };
        seen.completed.window(now);
        instance.completed = seen.completed.count();
        instance.pending_builds = self.engine.builds_waiting_in(pool) as u64;
        let all = self.engine.state();
        let Some(state) = all.pool(pool) else { return instance };
        let is_build =
            |job: &JobId| all.job(job).is_some_and(|record| record.job.spec.kind == JobKind::Build);
        for node in &state.nodes {
            let there = matches!(node.state, NodeState::Ready | NodeState::Draining | NodeState::Drained);
            let assigned = node.placements.len() as u64;
            instance.total_nodes += u64::from(there);
            instance.idle_nodes += u64::from(there && assigned == 0);
            let builds = node.placements.iter().filter(|placement| is_build(&placement.job));
            instance.active_builds += builds.count() as u64;
            if node.state == NodeState::Ready {
                instance.spare_slots += u64::from(node.max_concurrent).saturating_sub(assigned);
            }
        }
        instance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_cover_their_spans_and_absence_is_not_zero() {
        let at = |secs: i64| Time::from_secs(secs);
        let mut series = Series::default();
        assert_eq!(series.window(at(0)), Window::default());
        for (secs, value) in [(0, 100.0), (3000, 20.0), (3500, 0.0)] {
            series.add(at(secs), value);
        }
        let window = series.window(at(3600));
        assert_eq!((window.m5, window.h1, window.h24), (Some(0.0), Some(40.0), Some(40.0)));
        let window = series.window(at(3601));
        assert_eq!((window.h1, window.h24), (Some(10.0), Some(40.0)));
        assert_eq!(series.window(at(200_000)), Window::default());
    }
}
