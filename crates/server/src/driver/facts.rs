//! What the engine is told from time to time: which kinds of jobs come to a pool, what its nodes draw and their disks do, what energy
//! costs for as long as anybody says so, and how services do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use landfall_engine::record::{JobRecord, JobState};
use landfall_engine::state::PoolState;
use landfall_engine::{Input, Sample, State};
use landfall_model::{
    Dispatch, JobId, JobSpec, Lifecycle, MilliCpu, MilliGpu, Millis, MixShare, Name, PoolId, Time,
};
use landfall_policy::spec::{TermUse, Weight};
use landfall_policy::{builtin, policy_file};

use super::core::Core;

/// How often pools are told.
const EVERY: Millis = Millis::secs(10);
/// Jobs that the mix is counted over.
const MIX_WINDOW: usize = 10_000;
/// Share of all jobs that the kept kinds make up at least, in percent.
const MIX_KEPT: usize = 95;
/// A price that nobody has confirmed for so long says nothing.
const PRICE_LASTS: Millis = Millis::secs(3600);
/// Terms that look at the mix.
const MIX_TERMS: [&str; 2] = ["fragmentation-gradient", "mix-room"];

/// CPU, GPU share, GPU count and allowed models; memory does not enter.
type Kind = (u64, u64, u32, Vec<Name>);

fn kind_of(spec: &JobSpec) -> Kind {
    (spec.cpu_milli.get(), spec.gpu_milli.get(), spec.gpu_count, spec.gpu_models.clone())
}

#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Kinds of jobs by push pool, oldest first.
    came: BTreeMap<PoolId, VecDeque<Kind>>,
    told_at: Option<Time>,
    /// When the price of energy was last said.
    price_at: Option<Time>,
    /// Services that run, and when each was last sampled.
    services: BTreeMap<JobId, Time>,
}

impl Facts {
    /// What a state knows of jobs that came.
    pub(super) fn of(state: &State) -> Self {
        let mut facts = Self::default();
        let mut jobs: Vec<_> = state.jobs.values().collect();
        jobs.sort_by_key(|record| (record.job.queued_at, record.job.id.clone()));
        for record in jobs {
            facts.came(&record.pool, &record.job.spec, 1);
        }
        let priced = state.pools.values().any(|pool| pool.world.energy_price.is_some());
        facts.price_at = priced.then_some(state.now);
        let services =
            state.jobs.values().filter(|record| is_service(record) && record.state == JobState::Running);
        facts.services = services.map(|record| (record.job.id.clone(), state.now)).collect();
        facts
    }

    /// So many jobs of a kind came to a pool.
    pub(super) fn came(&mut self, pool: &PoolId, spec: &JobSpec, count: u32) {
        let count = (count as usize).min(MIX_WINDOW);
        let kinds = match self.came.get_mut(pool) {
            Some(kinds) => kinds,
            None => self.came.entry(pool.clone()).or_default(),
        };
        let over = (kinds.len() + count).saturating_sub(MIX_WINDOW);
        kinds.drain(..over);
        kinds.extend(std::iter::repeat_n(kind_of(spec), count));
    }

    /// The engine was told how a service does; the next time is an interval later.
    pub(super) fn sampled(&mut self, job: &JobId, now: Time) {
        if let Some(at) = self.services.get_mut(job) {
            *at = now;
        }
    }

    /// Somebody says what energy costs, or that nobody knows.
    pub(super) fn price_said(&mut self, at: Option<Time>) {
        self.price_at = at;
    }

    fn mix(&self, pool: &PoolId) -> Vec<MixShare> {
        self.came.get(pool).map_or_else(Vec::new, mix)
    }
}

fn is_service(record: &JobRecord) -> bool {
    record.job.spec.lifecycle == Lifecycle::Reactive
}

/// Kinds beyond the mix that are kept; they matter where they fit on few nodes.
const RARE_MAX: usize = 64;

/// The shortest list of kinds, most common first, that holds at least 95 % of the jobs; equally common ones come largest first. Some
/// of the rarer ones that ask for GPUs come behind, marked as such.
fn mix(came: &VecDeque<Kind>) -> Vec<MixShare> {
    let mut counts: BTreeMap<&Kind, usize> = BTreeMap::new();
    came.iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
    let mut kinds: Vec<(&Kind, usize)> = counts.into_iter().collect();
    kinds.sort_by_key(|(kind, count)| Reverse((*count, *kind)));
    let mut total = 0;
    let common = kinds.iter().take_while(|(_, count)| {
        let wanted = total * 100 < came.len() * MIX_KEPT;
        total += if wanted { *count } else { 0 };
        wanted
    });
    let common = common.count();
    let rare = kinds.split_off(common).into_iter().filter(|((_, _, gpus, _), _)| *gpus > 0).take(RARE_MAX);
    kinds.extend(rare);
    let class = |(place, ((cpu, milli, gpus, models), count)): (usize, (&Kind, usize))| MixShare {
        share: count as f64 / total as f64,
        gpu_count: *gpus,
        gpu_milli: MilliGpu::new(*milli),
        cpu_milli: MilliCpu::new(*cpu),
        gpu_models: models.clone(),
        rare: place >= common,
    };
    kinds.into_iter().enumerate().map(class).collect()
}

/// Whether the policy of a pool looks at what usually comes.
fn looks_at_mix(pool: &PoolState) -> bool {
    let text = pool.policy.as_deref().or_else(|| builtin::text(pool.pool.policy_name()));
    pool.pool.dispatch == Dispatch::Push
        && text.is_some_and(|text| MIX_TERMS.iter().any(|term| text.contains(term)))
}

/// Whether what energy costs counts in a pool.
pub(super) fn reads_price(pool: &PoolState) -> bool {
    let spec = match &pool.policy {
        Some(text) => policy_file::parse(text).ok(),
        None => builtin::spec(pool.pool.policy_name()).and_then(Result::ok),
    };
    let counts = |term: &TermUse| term.name == "energy" && term.enabled && term.weight != Weight::Number(0.0);
    spec.is_some_and(|spec| spec.terms.iter().any(counts))
}

impl Core {
    /// Tells pools what has changed around them, if it is time.
    pub(super) fn refresh_facts(&mut self) {
        let now = self.now;
        if self.facts.told_at.is_some_and(|told| now.since(told) < EVERY) {
            return;
        }
        self.facts.told_at = Some(now);
        let mut news = Vec::new();
        for (id, pool) in &self.engine.state().pools {
            if looks_at_mix(pool) {
                let mix = self.facts.mix(id);
                if mix != pool.world.mix {
                    news.push(Input::SetMix { pool: id.clone(), mix });
                }
            }
            news.extend(self.measured(id, pool));
        }
        if self.facts.price_at.is_some_and(|at| now.since(at) > PRICE_LASTS) {
            self.facts.price_said(None);
            news.push(Input::EnergyPrice(None));
            self.alert_stale_price();
        }
        for input in news {
            self.step(input);
        }
        self.look_after_alarms();
    }

    /// A job began that may be a service.
    pub(super) fn service_started(&mut self, job: &JobId) {
        if self.engine.state().job(job).is_some_and(is_service) {
            self.facts.services.insert(job.clone(), self.now);
        }
    }

    /// Tells the engine how services do whose time has come.
    pub(super) fn sample_services(&mut self) {
        if self.facts.services.is_empty() {
            return;
        }
        let (now, state) = (self.now, self.engine.state());
        let mut due = Vec::new();
        self.facts.services.retain(|job, at| {
            let record = state.job(job).filter(|record| record.state == JobState::Running);
            let interval =
                record.and_then(|record| Some(state.pool(&record.pool)?.pool.batch.scale_interval_ms));
            if interval.is_some_and(|interval| now.since(*at) >= interval) {
                *at = now;
                due.push(job.clone());
            }
            interval.is_some()
        });
        for job in due {
            if let Some(sample) = self.sample_of(&job) {
                self.step(Input::Metric { job, sample });
            }
        }
    }

    /// What the nodes of a service say: the mean of its metric, or of how busy they are if it has no target; and what waits in all.
    fn sample_of(&self, job: &JobId) -> Option<Sample> {
        let record = self.engine.state().job(job)?;
        let nodes = record.run.iter().flat_map(|run| &run.nodes);
        let beats = || nodes.clone().filter_map(|at| Some(&self.nodes.facts(&at.node)?.heartbeat));
        let told = || beats().flat_map(|beat| &beat.metrics).filter(|metric| metric.job == job.as_str());
        let values: Vec<f64> = match record.job.spec.scale_target_milli {
            Some(_) => told().filter_map(|metric| metric.value).collect(),
            None => beats().filter_map(|beat| beat.cpu_usage_pct).map(|percent| percent / 100.0).collect(),
        };
        let value = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        Some(Sample { value, queue: told().map(|metric| metric.queue).fold(0, u64::saturating_add) })
    }

    /// What the nodes of a pool draw and their disks do together, as far as they tell.
    fn measured(&self, id: &PoolId, pool: &PoolState) -> Option<Input> {
        // Nothing but a cap makes use of it.
        let (own, common) = (&pool.pool.batch, self.engine.state().caps);
        let power = own.power_cap_w.or(common.power_w);
        if power.is_none() && own.io_cap.is_none() && common.io_bytes_s.is_none() {
            return None;
        }
        let beats = || pool.present().filter_map(|node| Some(&self.nodes.facts(&node.id)?.heartbeat));
        let watts = beats().filter_map(|beat| beat.power_w).reduce(|a, b| a + b);
        let io_bytes_s = beats().filter_map(|beat| beat.io_bytes_s).reduce(u64::saturating_add);
        if watts.is_none() && io_bytes_s.is_none() {
            return None;
        }
        let power_w = watts.map(|watts| watts.round() as u64);
        Some(Input::Measure { pool: id.clone(), power_w, io_bytes_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_what_most_jobs_are() {
        let kind = |cpu: u64| (cpu, 1000, 1, Vec::new());
        assert!(mix(&VecDeque::new()).is_empty());
        let mut came: VecDeque<Kind> = std::iter::repeat_n(kind(8000), 50).collect();
        came.extend(std::iter::repeat_n(kind(4000), 46));
        came.extend((0..4).map(kind));
        let classes = mix(&came);
        let of = |rare: bool| {
            let some = classes.iter().filter(move |class| class.rare == rare);
            some.map(|class| (class.cpu_milli.get(), class.share)).collect::<Vec<_>>()
        };
        assert_eq!(of(false), [(8000, 50.0 / 96.0), (4000, 46.0 / 96.0)], "rare kinds are no part of it");
        assert_eq!(of(true), [3, 2, 1, 0].map(|cpu| (cpu, 1.0 / 96.0)), "and are known all the same");
    }

    #[test]
    fn only_the_last_jobs_count() {
        let pool = PoolId::new("p").unwrap();
        let spec = |cpu: u64| JobSpec { cpu_milli: MilliCpu::new(cpu), ..JobSpec::default() };
        let mut facts = Facts::default();
        facts.came(&pool, &spec(1000), 5);
        facts.came(&pool, &spec(2000), 20_000);
        let mix = facts.mix(&pool);
        assert_eq!((mix.len(), mix[0].cpu_milli.get(), mix[0].share), (1, 2000, 1.0));
    }
}
