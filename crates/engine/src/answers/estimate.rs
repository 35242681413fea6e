//! When a job starts, as far as can be told.

use std::borrow::Cow;
use std::collections::BTreeMap;

use landfall_model::answer::{CountsOn, Estimate};
use landfall_model::reason::Reason;
use landfall_model::{Dispatch, JobId, Millis, PoolId, Time};

use super::explain::named;
use super::forecast::Forecast;
use crate::engine::Engine;
use crate::record::{JobRecord, JobState};
use crate::solver::{Plan, Precision, Rests, Step, Wait};

/// Who waits by a plan, and why.
type Waits<'a> = BTreeMap<&'a JobId, &'a Wait>;

/// Estimates of the jobs of one or more pools.
pub type Estimates = BTreeMap<JobId, Estimate>;

impl Engine {
    fn told_by(&self, record: &JobRecord, wait: &Wait) -> Estimate {
        Estimate {
            planned_start: wait.planned_start,
            likely_start: wait.likely_start,
            range: wait.range,
            precision: wait.precision,
            reason: match wait.precision {
                Precision::None => wait.reason.name().into(),
                Precision::Exact => self.said(record, &wait.rests),
                Precision::Coarse => "no sooner than this; only the first jobs are planned one by one".into(),
            },
            counts_on: wait.rests.on.clone(),
        }
    }

    /// What a planned start counts on, in words.
    fn said(&self, record: &JobRecord, rests: &Rests) -> Cow<'static, str> {
        let pool = self.state.pools.get(&record.pool);
        let min_run = pool.map_or(Millis::ZERO, |pool| pool.pool.batch.min_run_ms);
        let has = if rests.jobs.len() == 1 { "it has" } else { "they have" };
        let jobs = named(&rests.jobs);
        let said = |on: &CountsOn| match on {
            CountsOn::Walltimes | CountsOn::Reservation => None,
            CountsOn::RunTimes => Some("running jobs taking as long as those like them did".into()),
            CountsOn::Preemption => {
                Some(format!("{jobs} being stopped for it, which may be once {has} run for {min_run}"))
            }
            CountsOn::Reclaim => Some(format!(
                "{jobs} giving lent nodes back, which may be asked once {has} run for {min_run}"
            )),
            CountsOn::Quota if jobs.is_empty() => Some("quota that comes back".into()),
            CountsOn::Quota => Some(format!("{jobs} giving back quota")),
            CountsOn::Hold => {
                let kept = pool.and_then(|pool| pool.kept.get(&record.job.id));
                let victims = kept.map_or(&[][..], |kept| &kept.victims);
                Some(format!("{} leaving the nodes that are kept for it", named(victims)))
            }
            CountsOn::Dependencies => Some("the jobs it depends on".into()),
        };
        let all: Vec<String> = rests.on.iter().filter_map(said).collect();
        match all.is_empty() {
            true => "planned with the walltimes of all jobs".into(),
            false => format!("counts on {}", all.join(" and on ")).into(),
        }
    }

    /// When a job starts; `None` if there is no such job.
    pub fn estimate(&self, job: &JobId) -> Option<Estimate> {
        let Some(record) = self.state.job(job) else { return self.estimate_array(job) };
        if let Some(known) = self.without_looking_ahead(record) {
            return Some(known);
        }
        let batch = self.state.pools.get(&record.pool)?.pool.dispatch == Dispatch::Batch;
        match batch {
            true => Some(self.planned_by(record, &self.solve_for_show(&record.pool, Some(job))?)),
            false => self.estimates_of(&record.pool).remove(job),
        }
    }

    /// Estimates of all jobs of a pool that wait; elements of arrays that have no record yet are left out.
    pub fn estimates_of(&self, pool: &PoolId) -> Estimates {
        let Some(state) = self.state.pools.get(pool) else { return Estimates::new() };
        let waiting = self.state.jobs.values().filter(|record| {
            record.pool == *pool && matches!(record.state, JobState::Pending | JobState::Suspended)
        });
        match state.pool.dispatch {
            Dispatch::Batch => {
                let plan = self.solve_for_show(pool, None).unwrap_or_default();
                let (waits, starts) = self.told(&plan);
                let of = |record: &JobRecord| self.planned(record, &waits, &starts);
                waiting.map(|record| (record.job.id.clone(), of(record))).collect()
            }
            Dispatch::Push | Dispatch::Pull | Dispatch::Negotiate => {
                let forecast = self.forecast(pool);
                let of = |record: &JobRecord| match self.state.announced.contains_key(&record.job.id) {
                    true => Estimate::none("peers decide when they award it"),
                    false => self.foreseen(record, &forecast),
                };
                waiting.map(|record| (record.job.id.clone(), of(record))).collect()
            }
        }
    }

    /// Estimates of all jobs that wait, in all pools.
    pub fn estimates(&self) -> Estimates {
        self.state.pools.keys().flat_map(|pool| self.estimates_of(pool)).collect()
    }

    /// What can be said without looking ahead: where the job stands decides.
    fn without_looking_ahead(&self, record: &JobRecord) -> Option<Estimate> {
        match (&record.run, record.state) {
            (Some(run), _) => {
                let at = run.started_at.unwrap_or(run.committed_at);
                Some(Estimate::at(at, Precision::Exact, "it has its nodes"))
            }
            (None, state) if state.is_final() => Some(Estimate::none("it has ended")),
            (None, _) if record.user_hold => Some(Estimate::none(Reason::UserHold.name())),
            _ => None,
        }
    }

    fn start_of<'a>(&self, step: &'a Step) -> (&'a JobId, Time) {
        match step {
            Step::Start(start) => (&start.job, self.now),
            Step::Preempt(preempt) => (&preempt.job, preempt.ready_at),
        }
    }

    /// Who waits and who starts by a plan.
    fn told<'a>(&self, plan: &'a Plan) -> (Waits<'a>, BTreeMap<&'a JobId, Time>) {
        let waits = plan.waiting.iter().map(|wait| (&wait.job, wait)).collect();
        (waits, plan.steps.iter().map(|step| self.start_of(step)).collect())
    }

    fn planned_by(&self, record: &JobRecord, plan: &Plan) -> Estimate {
        let (waits, starts) = self.told(plan);
        self.planned(record, &waits, &starts)
    }

    fn planned(&self, record: &JobRecord, waits: &Waits<'_>, starts: &BTreeMap<&JobId, Time>) -> Estimate {
        let id = &record.job.id;
        if let Some(known) = self.without_looking_ahead(record) {
            return known;
        }
        match (starts.get(id), waits.get(id)) {
            (_, Some(wait)) => self.told_by(record, wait),
            (Some(at), None) => Estimate::at(*at, Precision::Exact, "it would start in the next cycle"),
            (None, None) if record.state == JobState::Suspended => Estimate::none("it is suspended"),
            (None, None) => Estimate::none("no cycle has looked at it yet"),
        }
    }

    fn foreseen(&self, record: &JobRecord, forecast: &Forecast) -> Estimate {
        if let Some(known) = self.without_looking_ahead(record) {
            return known;
        }
        match (forecast.starts.get(&record.job.id), forecast.cut_off) {
            (Some(at), _) => {
                Estimate::at(*at, Precision::Exact, "if all jobs run for as long as they are expected to")
            }
            (None, Some(at)) => {
                let reason = "no sooner than this; only the first jobs are followed one by one";
                Estimate::at(at, Precision::Coarse, reason)
            }
            (None, None) => Estimate::none("no expected end of any job makes room for it"),
        }
    }
}
