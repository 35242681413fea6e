//! What is now, as a situation: the way back from [`Engine::from_situation`].
//!
//! Answers from it are those of the engine, as far as a situation can hold what they depend on. Jobs that run are given the rest of
//! their walltime as their walltime, because in a situation they begin just now. What somebody holds back waits for a name that never
//! comes. Not told: what a pool learned about run times, devices that others keep, ends of jobs, whose names nobody waits for.

use std::sync::Arc;

use landfall_model::{
    Job, JobSpec, Learn, Lifecycle, Millis, Name, Node, NodeState, PoolId, Price, Situation, Time, World,
};

use crate::effect::Refused;
use crate::engine::Engine;
use crate::record::{JobRecord, JobState};
use crate::state::PoolState;

/// Elements of one array that are told one by one.
const ELEMENTS_MAX: u32 = 1000;

/// A situation, and what of it could not be told, for people.
#[derive(Debug)]
pub struct Exported {
    pub situation: Situation,
    pub left_out: Vec<String>,
}

impl Engine {
    /// What is now, or what is now in one pool.
    ///
    /// # Errors
    /// If there is no such pool.
    pub fn export(&self, only: Option<&PoolId>) -> Result<Exported, Refused> {
        let state = &self.state;
        if let Some(pool) = only.filter(|pool| !state.pools.contains_key(*pool)) {
            return Err(crate::life::unknown("pool", pool.as_str()));
        }
        let is_meant = |pool: &PoolId| only.is_none_or(|only| only == pool);
        let pools: Vec<&PoolState> = state.pools.values().filter(|pool| is_meant(&pool.pool.id)).collect();
        let mut left_out = Vec::new();
        let mut nodes: Vec<Node> = Vec::new();
        for pool in &pools {
            nodes.extend(pool.present().map(|node| self.as_heard(node)));
            if pool.pool.batch.learn != Learn::Off && pool.habits.fared().is_some() {
                left_out.push(format!("what pool {} learned about run times", pool.pool.id));
            }
        }
        let mut jobs = Vec::new();
        let records = state.jobs.values().filter(|record| is_meant(&record.pool) && !record.state.is_final());
        jobs.extend(records.map(|record| self.as_it_stands(record)));
        for array in state.folded.values().filter(|array| is_meant(&array.pool) && !array.is_over()) {
            let all = array.folded.len();
            for position in array.folded.iter().take(ELEMENTS_MAX as usize) {
                let job = Job { id: array.element(position), ..array.job.clone() };
                jobs.push(in_pool(job, &array.pool, array.user_hold.then_some("held"), None));
            }
            if all > ELEMENTS_MAX {
                left_out.push(format!("{} waiting elements of array {}", all - ELEMENTS_MAX, array.job.id));
            }
        }
        let mut world = world_of(&pools);
        for (id, tenant) in &mut world.tenants {
            if let Some(known) = state.tenants.get(id) {
                // What runs is told as jobs that begin just now, and pays then.
                let placed = known.price_promised;
                tenant.budget.money_used = Price::new(known.spent(self.now).get().saturating_sub(placed));
            }
        }
        let situation = Situation::new(self.now, nodes, jobs, &[], world);
        let situation = situation
            .map_err(|error| Refused::new("not_exported", error.to_string(), "please report this"))?;
        Ok(Exported { situation, left_out })
    }

    fn as_heard(&self, node: &Node) -> Node {
        let mut node = node.clone();
        // A heartbeat that changes nothing is not stored; whoever is in service was heard.
        let is_silent = matches!(node.state, NodeState::Unknown | NodeState::Down);
        node.heartbeat_at = if is_silent { self.heard_at(&node.id) } else { Some(self.now) };
        node
    }

    fn as_it_stands(&self, record: &JobRecord) -> Job {
        let mut job = record.job.clone();
        job.rescore_count = self.state.rounds(record);
        let kept = match record.state {
            JobState::Suspended => Some("suspended"),
            _ if record.user_hold => Some("held"),
            _ => None,
        };
        let run = record.run.as_ref().filter(|run| !run.ahead);
        let left = run.and_then(|run| run.ends_at).map(|end: Time| end.since(self.now));
        in_pool(job, &record.pool, kept, left.or(record.walltime()))
    }
}

/// A job that names its pool, what keeps it, and how long it may run.
fn in_pool(mut job: Job, pool: &PoolId, kept: Option<&str>, walltime: Option<Millis>) -> Job {
    if let Some(kept) = kept.and_then(|kept| Name::new(kept).ok()) {
        job.waits_for.get_or_insert(kept);
    }
    let walltime = walltime.unwrap_or(job.spec.walltime_ms).max(Millis::new(1));
    let is_bounded = job.spec.lifecycle == Lifecycle::Bounded;
    if job.spec.pool.as_ref() != Some(pool) || (is_bounded && walltime != job.spec.walltime_ms) {
        let mut spec: JobSpec = (*job.spec).clone();
        spec.pool = Some(pool.clone());
        if is_bounded {
            spec.walltime_ms = walltime;
        }
        job.spec = Arc::new(spec);
    }
    job
}

/// What the policies of these pools read. A situation has one of each, where pools have their own: the first that says something counts.
fn world_of(pools: &[&PoolState]) -> World {
    let Some(first) = pools.first() else { return World::default() };
    let mut world = first.world.clone();
    world.pools.clear();
    for state in pools {
        let (id, own) = (&state.pool.id, &state.world);
        world.pools.insert(id.clone(), state.pool.clone());
        world.policies.extend(state.policy.clone().map(|text| (id.clone(), text)));
        world.reports.extend(own.reports.clone());
        world.surging.extend(own.surging.iter().cloned());
        for (workload, rows) in &own.history {
            world.history.entry(workload.clone()).or_insert_with(|| rows.clone());
        }
        if world.mix.is_empty() {
            world.mix.clone_from(&own.mix);
        }
        if world.instance == Default::default() {
            world.instance.clone_from(&own.instance);
        }
    }
    world
}
