//! Makes the solver's question out of the state.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{Dispatch, JobId, Lifecycle, NodeId, NodeState, Pool, PoolId, QueueOrder, Time};
use landfall_policy::filter::About;
use landfall_policy::view::Pass;
use landfall_policy::{Policy, q};

use super::super::Queue;
use super::queue::BatchQueue;
use crate::effect::Refused;
use crate::engine::Engine;
use crate::ledger::is_idle;
use crate::preempt::{Preempted, checkpoint_minutes};
use crate::record::{JobRecord, JobState, Phase, Run};
use crate::solver::{
    self, Behind, Caps, Cycles, Estimates, Fleet, Hold, Lender, Occupant, Plan, Problem, Reason, Share, Slot,
    Suited, TenantRoom, Waiting,
};
use crate::staging;
use crate::units::MICRO;
use landfall_model::life::Breakdown;

impl Engine {
    /// Solves one cycle of a pool on the state as it is.
    pub(crate) fn solve_pool(&mut self, id: &PoolId, estimates: Estimates) -> Option<Plan> {
        let fleet = self.fleet(id)?;
        let known = match &mut self.pools.get_mut(id)?.queue {
            Queue::Batch(queue) => std::mem::take(&mut queue.suited),
            _ => return None,
        };
        let (plan, known) = self.solve_with(id, &fleet, known, estimates)?;
        if let Queue::Batch(queue) = &mut self.pools.get_mut(id)?.queue {
            queue.suited = known;
        }
        Some(plan)
    }

    /// The same for whoever only looks: nothing is kept for the next time.
    pub(crate) fn solve_for_show(&self, id: &PoolId) -> Option<Plan> {
        let known = match &self.pools.get(id)?.queue {
            Queue::Batch(queue) => queue.fleet.clone(),
            _ => return None,
        };
        let fleet = known.or_else(|| self.new_fleet(id).map(Arc::new))?;
        Some(self.solve_with(id, &fleet, Suited::default(), Estimates::All)?.0)
    }

    fn solve_with(
        &self,
        id: &PoolId,
        fleet: &Fleet,
        suited: Suited,
        estimates: Estimates,
    ) -> Option<(Plan, Suited)> {
        let state = self.state.pools.get(id)?;
        let dispatcher = self.pools.get(id)?;
        let Queue::Batch(queue) = &dispatcher.queue else { return None };
        let settings = &state.pool.batch;
        let policy = &dispatcher.policy;
        let mut problem = Problem::new(self.now, settings, &state.pool.loans, policy, &state.world, fleet);
        problem.suited = suited;
        if policy.looks_at() == About::Moment {
            let nodes = (0..).map_while(|slot| fleet.node(slot));
            problem.nodes = nodes.filter_map(|node| self.state.node(node)).map(|(node, _)| node).collect();
        }

        let placed = self.placed_on(id, queue);
        let slots: Vec<Vec<Slot>> = placed.iter().map(|record| slots_of(record, fleet)).collect();
        let never = Preempted::default();
        for (record, slots) in placed.iter().zip(&slots) {
            problem.occupants.extend(self.occupant(record, slots, id, &never));
        }

        let kept: Vec<(&JobId, Vec<Slot>, Time)> = state
            .kept
            .iter()
            .map(|(job, kept)| {
                (job, kept.nodes.iter().filter_map(|node| fleet.slot(node)).collect(), kept.until)
            })
            .collect();
        problem.holds = kept
            .iter()
            .map(|(job, nodes, until)| Hold { job, nodes, until: Some(*until), ready_at: None })
            .collect();

        let idle: Vec<(&PoolId, Vec<Slot>, u32)> = self.lenders(id, fleet);
        problem.lenders =
            idle.iter().map(|(pool, idle, lends)| Lender { pool, idle, lends: *lends }).collect();

        let reservations: Vec<_> = state.reservations.values().cloned().collect();
        problem.reservations = &reservations;
        let pass = Pass::of_parts(self.now, &state.world, &state.nodes, queue.backlog());
        problem.waiting = self.waiting_jobs(id, queue, &pass);
        let jobs: Vec<&JobId> = problem.waiting.iter().map(|waiting| waiting.job).collect();
        let why = |at: usize| self.why(policy, &pass, jobs[at]);
        problem.why = Some(&why);
        problem.tenants = self.tenant_rooms();
        problem.locks = self.state.locks.keys().cloned().collect();
        problem.caps = Caps {
            power_w: settings.power_cap_w.map(|cap| cap.saturating_sub(state.power_drawn(self.now))),
            io_bytes_s: settings.io_cap.map(|cap| cap.get().saturating_sub(state.io_moved(self.now))),
        };
        problem.preemptions_left = state.preempt_budget.room(self.now);
        let beat = Cycles { next: state.next_cycle, every: settings.cycle_ms };
        problem.cycles = (!settings.cycle_on_events).then_some(beat);
        problem.overruns = placed.iter().filter_map(|record| record.run.as_ref()).any(|run| is_overrun(run));
        problem.estimates = estimates;
        #[cfg(feature = "mutations")]
        {
            problem.mutation = self.solver_mutation;
        }
        let plan = solver::solve(&problem);
        Some((plan, problem.suited))
    }

    /// The nodes of a pool and of those that may lend to it, sorted into kinds.
    fn fleet(&mut self, id: &PoolId) -> Option<Arc<Fleet>> {
        if let Queue::Batch(queue) = &self.pools.get(id)?.queue
            && let Some(fleet) = &queue.fleet
        {
            return Some(fleet.clone());
        }
        let fleet = Arc::new(self.new_fleet(id)?);
        if let Queue::Batch(queue) = &mut self.pools.get_mut(id)?.queue {
            queue.fleet = Some(fleet.clone());
        }
        Some(fleet)
    }

    fn new_fleet(&self, id: &PoolId) -> Option<Fleet> {
        let own = self.state.pools.get(id)?;
        let others =
            self.state.pools.iter().filter(|(other, pool)| *other != id && lends(&own.pool, &pool.pool));
        let nodes = own.nodes.iter().chain(others.flat_map(|(_, pool)| &pool.nodes));
        let looks_at = self.pools.get(id)?.policy.looks_at();
        Some(Fleet::new(Some(id), looks_at, nodes))
    }

    /// Jobs that hold nodes the pool plans with: its own jobs, and those of others on nodes it lent.
    fn placed_on(&self, id: &PoolId, queue: &BatchQueue) -> Vec<&JobRecord> {
        let mut jobs: Vec<&JobId> = queue.placed().collect();
        if let Some(state) = self.state.pools.get(id) {
            let lent = state.nodes.iter().filter(|node| node.lent_to.is_some());
            jobs.extend(lent.flat_map(|node| &node.placements).map(|placement| &placement.job));
        }
        jobs.sort_unstable();
        jobs.dedup();
        jobs.into_iter().filter_map(|job| self.state.job(job)).collect()
    }

    fn occupant<'a>(
        &'a self,
        record: &'a JobRecord,
        slots: &'a [Slot],
        pool: &PoolId,
        never: &'a Preempted,
    ) -> Option<Occupant<'a>> {
        let run = record.run.as_ref()?;
        let spec = &*record.job.spec;
        let share = |node| {
            let (node, _) = self.state.node(node)?;
            let placement = node.placements.iter().find(|placement| placement.job == record.job.id)?;
            let devices = placement.devices.clone();
            Some(Share { cpu: placement.cpu, ram: placement.ram, devices })
        };
        let shares = if spec.exclusive {
            Vec::new()
        } else {
            run.nodes.iter().filter_map(|at| share(&at.node)).collect()
        };
        // A job that is being started will run for its whole walltime; one that is stopping is gone after the grace.
        let started = run.started_at.unwrap_or(self.now);
        let bounded = spec.lifecycle == Lifecycle::Bounded;
        let left = record.past.as_ref().and_then(|past| past.walltime_left).unwrap_or(spec.walltime_ms);
        let ends_at = match &run.stop {
            Some(stop) => Some(stop.kill_at),
            None => run.ends_at.or_else(|| bounded.then(|| started + left)),
        };
        let tenant =
            spec.tenant.as_ref().and_then(|id| self.state.pools.get(&record.pool)?.world.tenants.get(id));
        let measured = record.past.as_ref().and_then(|past| past.checkpoint_took);
        Some(Occupant {
            job: &record.job.id,
            spec,
            nodes: slots,
            shares,
            started,
            ends_at,
            running: record.state == JobState::Running
                && run.notice.is_none()
                && run.nodes.iter().all(|at| at.phase == Phase::Started),
            borrower: record.pool != *pool,
            checkpoint_minutes: checkpoint_minutes(spec.checkpoint, spec.checkpoint_minutes, measured),
            over_share: tenant.is_some_and(|tenant| tenant.burst > 1.0 && tenant.usage > tenant.share),
            preempted: record.past.as_ref().map_or(never, |past| &past.preempted),
        })
    }

    /// Whether a job of a batch pool may run on nodes of another one.
    pub(crate) fn may_borrow(&self, record: &JobRecord, from: &PoolId) -> bool {
        let pools = self.state.pools.get(&record.pool).zip(self.state.pools.get(from));
        pools
            .is_some_and(|(own, other)| lends(&own.pool, &other.pool) && own.pool.dispatch == Dispatch::Batch)
            && crate::loans::may_borrow(&record.job.spec).is_ok()
    }

    /// What other pools would lend, by pool id.
    fn lenders(&self, id: &PoolId, fleet: &Fleet) -> Vec<(&PoolId, Vec<Slot>, u32)> {
        let Some(own) = self.state.pools.get(id) else { return Vec::new() };
        let others =
            self.state.pools.iter().filter(|(other, pool)| *other != id && lends(&own.pool, &pool.pool));
        others
            .map(|(other, pool)| {
                let idle =
                    pool.nodes.iter().zip(&pool.records).filter(|(node, record)| is_idle(node, record));
                let slots = idle.filter_map(|(node, _)| fleet.slot(&node.id)).collect();
                (other, slots, u32::try_from(self.state.lendable(pool)).unwrap_or(u32::MAX))
            })
            .collect()
    }

    /// Waiting jobs in job order: those that may be placed, then those behind others.
    fn waiting_jobs<'a>(&'a self, id: &PoolId, queue: &'a BatchQueue, pass: &Pass<'_>) -> Vec<Waiting<'a>> {
        let (Some(state), Some(dispatcher)) = (self.state.pools.get(id), self.pools.get(id)) else {
            return Vec::new();
        };
        let records = queue.waiting().filter_map(|job| self.state.job(job));
        let mut waiting: Vec<Waiting<'a>> = records
            .map(|record| {
                let score = dispatcher.policy.queue_total(pass, &record.job);
                let mut waiting = self.waiting_job(record, score, queue);
                let staging = self.staging_gate(record);
                waiting.flag = staging.flag();
                if let Some(at) = record.job.retry_at.filter(|at| *at > self.now) {
                    (waiting.gate, waiting.gate_until) = (Some(Reason::NotBefore), Some(at));
                } else if staging == staging::Gate::Wait {
                    waiting.gate = Some(Reason::Staging);
                }
                waiting
            })
            .collect();
        match state.pool.batch.order {
            QueueOrder::Score => {
                waiting.sort_by_cached_key(|job| (std::cmp::Reverse(q(job.score)), job.queued_at, job.job));
            }
            QueueOrder::Fifo => waiting.sort_by_key(|job| (job.queued_at, job.job)),
        }
        let behind = queue.behind().filter_map(|job| self.state.job(job)).map(|record| {
            let mut waiting = self.waiting_job(record, 0.0, queue);
            waiting.gate = Some(Reason::Dependency);
            waiting.behind = self.state.graph.open_edges(&record.job.id).map(|(join, edges)| Behind {
                jobs: edges.map(|edge| &edge.on).collect(),
                any: join == crate::dag::Join::Any,
            });
            waiting
        });
        waiting.extend(behind);
        waiting
    }

    fn waiting_job<'a>(&'a self, record: &'a JobRecord, score: f64, queue: &'a BatchQueue) -> Waiting<'a> {
        let spec = &record.job.spec;
        let mut waiting = Waiting::new(&record.job.id, spec, score, record.job.queued_at);
        if let Some(past) = &record.past {
            waiting.duration = waiting.duration.map(|whole| past.walltime_left.unwrap_or(whole));
            let measured = past.checkpoint_took;
            waiting.checkpoint_minutes =
                checkpoint_minutes(spec.checkpoint, spec.checkpoint_minutes, measured);
        }
        waiting.rejected = queue.rejected.get(&record.job.id).copied();
        waiting
    }

    /// Whether a job may start as far as its inputs are concerned.
    pub(crate) fn staging_gate(&self, record: &JobRecord) -> staging::Gate {
        let staged = self.state.pools.get(&record.pool).is_some_and(|pool| pool.pool.batch.staging);
        let failures = record.past.as_ref().map(|past| &past.staging_failures);
        let given_up =
            failures.is_some_and(|failures| failures.values().any(|count| *count >= staging::ATTEMPTS_MAX));
        staging::gate(staged, staging::near_fraction(record.job.spec.inputs.as_deref()), given_up)
    }

    /// What speaks for a waiting job.
    pub(super) fn why(&self, policy: &Policy, pass: &Pass<'_>, job: &JobId) -> Breakdown {
        let verdict = self.state.job(job).map(|record| policy.queue_verdict(pass, &record.job));
        verdict.map_or_else(Breakdown::default, |verdict| Breakdown::of(&verdict, None))
    }

    /// Whether filters let a job have an idle node now.
    pub(crate) fn admits_idle(&self, record: &JobRecord, node: &landfall_model::Node) -> bool {
        let pool = self.state.pools.get(&record.pool).zip(self.pools.get(&record.pool));
        let Some((state, dispatcher)) = pool else { return false };
        let pass = Pass::of_parts(self.now, &state.world, &[], Default::default());
        dispatcher.policy.admits_idle(&pass, &record.job, node)
    }

    /// Whether filters about the moment let a job have a node that was kept for it.
    pub(super) fn admits_kept(&self, record: &JobRecord, node: &NodeId) -> bool {
        let pool = self.state.pools.get(&record.pool).zip(self.pools.get(&record.pool));
        let (Some((state, dispatcher)), Some((node, _))) = (pool, self.state.node(node)) else {
            return false;
        };
        let pass = Pass::of_parts(self.now, &state.world, &[], Default::default());
        dispatcher.policy.plans_from(&pass, &record.job, node) == Ok(self.now)
    }

    fn tenant_rooms(&self) -> Vec<TenantRoom> {
        let rooms = self.state.tenants.iter().map(|(id, tenant)| {
            let quota = &tenant.tenant.quota;
            TenantRoom {
                tenant: Some(id.clone()),
                node_units: quota.max_nodes - tenant.units as f64 / MICRO as f64,
                gpus: quota.max_gpus.map(|most| most.saturating_sub(tenant.gpus)),
                gpu_hours: tenant.gpu_hours_left(self.now),
                likely_factor: tenant.likely_factor(),
            }
        });
        rooms.collect()
    }

    /// Hours waiting over hours running, 0 to 1.
    pub(super) fn backlog_of(&self, id: &PoolId) -> f64 {
        let (Some(state), Some(dispatcher)) = (self.state.pools.get(id), self.pools.get(id)) else {
            return 0.0;
        };
        let Queue::Batch(queue) = &dispatcher.queue else { return 0.0 };
        let pass = Pass::of_parts(self.now, &state.world, &state.nodes, queue.backlog());
        let pressure = pass.pressure();
        match (pressure.queued > 0.0, pressure.running > 0.0) {
            (_, true) => (pressure.queued / pressure.running).min(1.0),
            (queued, false) => f64::from(u8::from(queued)),
        }
    }

    /// Refuses a job that not even all nodes of its pool, idle, and the most that others could lend would satisfy.
    pub(crate) fn could_ever_fit(&mut self, job: &landfall_model::Job, id: &PoolId) -> Result<(), Refused> {
        let spec = &job.spec;
        let Some(Queue::Batch(queue)) = self.pools.get_mut(id).map(|pool| &mut pool.queue) else {
            return Ok(());
        };
        let known = queue.fits.get(spec).copied();
        let fits = match known {
            Some(fits) => fits,
            None => {
                let fits = could_ever_fit(self, job, id);
                if let Some(Queue::Batch(queue)) = self.pools.get_mut(id).map(|pool| &mut pool.queue) {
                    queue.fits.insert(spec.clone(), fits);
                }
                fits
            }
        };
        if fits {
            return Ok(());
        }
        let message = format!("not even all nodes of pool `{id}`, idle, could run job `{}`", job.id);
        Err(Refused::new("never_fits", message, "ask for less, or set wait_for_capacity = true"))
    }
}

/// Whether all nodes of the pool, idle, and the most that others could lend would do.
pub(crate) fn could_ever_fit(engine: &Engine, job: &landfall_model::Job, id: &PoolId) -> bool {
    let (state, spec) = (engine.state(), &job.spec);
    let Some((own, dispatcher)) = state.pools.get(id).zip(engine.pools.get(id)) else { return false };
    let eligible = |pool: &crate::state::PoolState| -> u64 {
        // As if in service and idle: what a node is decides, not how it is today.
        let mut nodes = pool.nodes.clone();
        nodes.retain(|node| !(node.state == NodeState::Down && node.cpu_total.is_zero() && !node.accepting));
        for node in &mut nodes {
            node.state = NodeState::Ready;
        }
        let pass = Pass::of_parts(state.now, &own.world, &nodes, Default::default());
        nodes.iter().filter(|node| dispatcher.policy.is_eligible(&pass, job, node)).count() as u64
    };
    let mut nodes = eligible(own);
    if crate::loans::may_borrow(spec).is_ok() {
        for (other, pool) in &state.pools {
            if other != id && lends(&own.pool, &pool.pool) {
                let most = crate::loans::lendable(&pool.pool.loans, pool.nodes.len() as u64, u64::MAX, 0);
                nodes += eligible(pool).min(most);
            }
        }
    }
    nodes >= u64::from(spec.nodes.min)
}

/// Whether a run was told to stop too late to leave by the end of its time.
fn is_overrun(run: &Run) -> bool {
    match (&run.stop, run.ends_at) {
        (Some(stop), Some(end)) => stop.kill_at > end,
        _ => false,
    }
}

/// Whether the first pool may borrow from the second.
fn lends(own: &Pool, other: &Pool) -> bool {
    own.loans.borrow && other.loans.lend && other.dispatch == Dispatch::Batch
}

fn slots_of(record: &JobRecord, fleet: &Fleet) -> Vec<Slot> {
    record.run.iter().flat_map(|run| &run.nodes).filter_map(|at| fleet.slot(&at.node)).collect()
}

pub(super) fn by_job(waits: Vec<solver::Wait>) -> BTreeMap<JobId, solver::Wait> {
    waits.into_iter().map(|wait| (wait.job.clone(), wait)).collect()
}
