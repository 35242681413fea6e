//! Makes the solver's question out of the state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_model::{
    Dispatch, Job, JobId, JobSpec, Learn, Millis, NodeId, Pool, PoolId, QueueOrder, TenantId, Time,
};
use landfall_policy::filter::About;
use landfall_policy::view::Pass;
use landfall_policy::{Policy, q};

use super::super::Queue;
use super::census::Census;
use super::queue::{BatchQueue, Class, Held, saving_minutes, staging_given_up};
use crate::engine::Engine;
use crate::habits::{Circle, Habits, Merit, alike};
use crate::ledger::is_idle;
use crate::preempt::Preempted;
use crate::record::{JobRecord, JobState, Phase, Run};
use crate::solver::{
    self, Behind, Cycles, Fleet, Ground, Hold, Lender, Occupant, Plan, Problem, Reason, Share, Slot, Suited,
    TenantRoom, Turn, Waiting,
};
use crate::staging;
use crate::state::{Kept, PoolState, State};
use crate::units::MICRO;
use landfall_model::life::{Breakdown, Points};

/// The waiting jobs of a pool in classes, with their scores of this instant.
struct InClasses<'a> {
    engine: &'a Engine,
    queue: &'a BatchQueue,
    policy: &'a Policy,
    pass: &'a Pass<'a>,
    order: &'a Order,
    staged: bool,
    /// How long jobs run, where that decides who comes first.
    habits: Option<&'a Habits>,
    classes: Vec<(u32, &'a Class)>,
}

/// What a cycle leaves to the next one.
#[derive(Default)]
struct Seen {
    suited: Suited,
    ground: Ground,
}

/// What puts waiting jobs before others.
pub(super) enum Order {
    Score,
    Fifo,
    /// What speaks for jobs that learn from each other.
    Learned(BTreeMap<Circle, Merit>),
}

impl Order {
    /// A waiting job's rank, by its score if that is what decides: smaller is earlier.
    fn rank(&self, now: Time, spec: &JobSpec, queued_at: Time, score: impl FnOnce() -> f64) -> i64 {
        match self {
            Self::Score => -q(score()),
            Self::Fifo => 0,
            // Positive numbers are ordered as their bits are.
            Self::Learned(_) => -(self.merit(now, spec, queued_at).to_bits() as i64),
        }
    }

    fn merit(&self, now: Time, spec: &JobSpec, queued_at: Time) -> f64 {
        let Self::Learned(merits) = self else { return 0.0 };
        let merit = alike(spec).and_then(|circle| merits.get(&circle));
        merit.map_or(0.0, |merit| merit.of(now.as_millis().saturating_sub(queued_at.as_millis())))
    }
}

impl<'a> InClasses<'a> {
    fn staging(&self, class: &Class) -> staging::Gate {
        staging::gate(self.staged, staging::near_fraction(class.model.spec.inputs.as_deref()), class.given_up)
    }

    fn score(&self, class: &Class, queued_at: Time, id: &JobId) -> f64 {
        // One that is alone may be looked at more closely than its class tells.
        match self.engine.state.job(id).filter(|_| class.jobs.len() == 1) {
            Some(record) => self.policy.queue_total(self.pass, &record.job),
            None => self.policy.queue_total(self.pass, &Job { queued_at, ..class.model.clone() }),
        }
    }
}

impl<'a, 'b: 'a> solver::Classes<'a> for InClasses<'b> {
    fn count(&self) -> usize {
        self.classes.len()
    }

    fn len(&self, class: usize) -> usize {
        self.classes[class].1.jobs.len()
    }

    fn spec(&self, class: usize) -> &'a Arc<JobSpec> {
        &self.classes[class].1.model.spec
    }

    fn duration(&self, class: usize) -> Option<Millis> {
        let class = self.classes[class].1;
        class.duration.map(|walltime| match self.habits {
            Some(habits) => habits.expect(&class.model.spec, walltime),
            None => walltime,
        })
    }

    fn gate(&self, class: usize) -> Option<Reason> {
        let class = self.classes[class].1;
        if class.opens.is_some_and(|at| at > self.engine.now) {
            return Some(Reason::NotBefore);
        }
        (self.staging(class) == staging::Gate::Wait).then_some(Reason::Staging)
    }

    fn turn(&self, class: usize, place: usize) -> Turn<'a> {
        let class = self.classes[class].1;
        let (queued_at, job) = &class.jobs[place];
        let score = || self.score(class, *queued_at, job);
        let rank = self.order.rank(self.engine.now, &class.model.spec, *queued_at, score);
        Turn { rank, queued_at: *queued_at, job }
    }

    fn job(&self, number: usize, place: usize) -> Waiting<'a> {
        let class = self.classes[number].1;
        let (queued_at, id) = &class.jobs[place];
        let mut waiting = Waiting::new(id, &class.model.spec, 0.0, *queued_at);
        if let Some(record) = self.engine.state.job(id) {
            self.engine.complete(&mut waiting, record, self.queue);
        }
        waiting.flag = self.staging(class).flag();
        waiting.gate = self.gate(number);
        waiting.gate_until = class.opens.filter(|_| waiting.gate == Some(Reason::NotBefore));
        waiting
    }

    fn find(&self, job: &JobId) -> Option<(usize, usize)> {
        let (number, place) = self.queue.find(job)?;
        Some((self.classes.binary_search_by_key(&number, |class| class.0).ok()?, place))
    }
}

impl Engine {
    /// Solves one cycle of a pool on the state as it is: who starts, who is stopped, what is reserved.
    pub(crate) fn solve_pool(&mut self, id: &PoolId, freed_early: bool) -> Option<Plan> {
        let fleet = self.fleet(id)?;
        self.look_at_placed(id, &fleet);
        let (mut seen, mut census) = match &mut self.pools.get_mut(id)?.queue {
            Queue::Batch(queue) => {
                let (suited, ground) = (std::mem::take(&mut queue.suited), std::mem::take(&mut queue.ground));
                (Seen { suited, ground }, queue.census.take())
            }
            _ => return None,
        };
        let nodes = &self.state.pools.get(id)?.nodes;
        let counted = census.get_or_insert_with(|| Census::new(&fleet, nodes));
        counted.refresh(nodes);
        let plan = self.solve_with(id, &fleet, &mut seen, Some(counted), None, freed_early)?;
        #[cfg(feature = "mutations")]
        if self.solver_mutation.is_none() {
            self.compare_walks(id, &plan, freed_early);
        }
        if let Queue::Batch(queue) = &mut self.pools.get_mut(id)?.queue {
            let specs: std::collections::BTreeSet<_> =
                queue.classes().map(|(_, class)| Arc::as_ptr(&class.model.spec)).collect();
            seen.suited.retain(|spec| specs.contains(&Arc::as_ptr(spec)));
            (queue.suited, queue.ground) = (seen.suited, seen.ground);
            queue.census = census;
        }
        Some(plan)
    }

    /// Plans for whoever asks: one waiting job is told why it waits and until when; or each one, looked at by itself. Nothing
    /// is kept for the next time.
    pub(crate) fn solve_for_show(&self, id: &PoolId, asked: Option<&JobId>) -> Option<Plan> {
        self.solve_apart(id, asked, self.state.pools.get(id)?.freed_early)
    }

    fn solve_apart(&self, id: &PoolId, asked: Option<&JobId>, freed_early: bool) -> Option<Plan> {
        let Queue::Batch(queue) = &self.pools.get(id)?.queue else { return None };
        let fleet = queue.fleet.clone().or_else(|| self.new_fleet(id).map(Arc::new))?;
        // What waits for other jobs is planned behind all of them.
        let asked = asked.filter(|job| queue.has(job));
        let mut census = asked.map(|_| Census::new(&fleet, &self.state.pools[id].nodes));
        self.solve_with(id, &fleet, &mut Seen::default(), census.as_mut(), asked, freed_early)
    }

    /// A test build walks each queue in classes and job by job, and holds the two against each other; so it does with
    /// what one of the jobs is told.
    #[cfg(feature = "mutations")]
    fn compare_walks(&self, id: &PoolId, plan: &Plan, freed_early: bool) {
        // Arrays of thousands in every cycle would take tests minutes.
        let short = self.pools.get(id).is_some_and(|pool| pool.queued() <= 300);
        let Some(mut told) = short.then(|| self.solve_apart(id, None, freed_early)).flatten() else { return };
        let waiting = std::mem::take(&mut told.waiting);
        told.looked.clone_from(&plan.looked);
        assert_eq!(*plan, told, "classes are walked as single jobs are");
        let some = usize::try_from(self.now.as_millis()).unwrap_or(0) % waiting.len().max(1);
        let asked = waiting.get(some).filter(|wait| !plan.again && wait.reason != Reason::Dependency);
        if let Some(wait) = asked {
            let alone = self.solve_apart(id, Some(&wait.job), freed_early).unwrap_or_default();
            assert_eq!(alone.waiting.first(), Some(wait), "a job is told the same among all and alone");
        }
    }

    /// Looks at the placed jobs that have changed.
    fn look_at_placed(&mut self, id: &PoolId, fleet: &Fleet) {
        let Some(Queue::Batch(queue)) = self.pools.get(id).map(|pool| &pool.queue) else { return };
        let changed = queue.placed().filter(|(_, held)| held.is_none());
        let records = changed.filter_map(|(job, _)| self.state.job(job));
        let found: Vec<(JobId, Held)> =
            records.filter_map(|record| Some((record.job.id.clone(), self.held(record, fleet)?))).collect();
        if let Some(Queue::Batch(queue)) = self.pools.get_mut(id).map(|pool| &mut pool.queue) {
            found.into_iter().for_each(|(job, held)| queue.keep(&job, held));
        }
    }

    fn solve_with(
        &self,
        id: &PoolId,
        fleet: &Fleet,
        seen: &mut Seen,
        census: Option<&mut Census>,
        asked: Option<&JobId>,
        freed_early: bool,
    ) -> Option<Plan> {
        let state = self.state.pools.get(id)?;
        let dispatcher = self.pools.get(id)?;
        let Queue::Batch(queue) = &dispatcher.queue else { return None };
        let settings = &state.pool.batch;
        let policy = &dispatcher.policy;
        let mut problem = Problem::new(self.now, settings, &state.pool.loans, policy, &state.world, fleet);
        problem.suited = std::mem::take(&mut seen.suited);
        problem.ground = std::mem::take(&mut seen.ground).into();
        // Only whoever asks is told a range.
        let fared = (asked.is_some() || census.is_none()).then(|| state.habits.fared()).flatten();
        problem.spread = fared.map(|fared| (fared.low, fared.high));
        if policy.looks_at() == About::Moment {
            let nodes = (0..).map_while(|slot| fleet.node(slot));
            problem.nodes = nodes.filter_map(|node| self.state.node(node)).map(|(node, _)| node).collect();
        }

        // Those that somebody else looked at already, and those that have to be looked at now.
        let borrowers = self.borrowers(id);
        let unseen: Vec<(&JobRecord, Held)> = (queue.placed().filter(|(_, held)| held.is_none()))
            .filter_map(|(job, _)| self.state.job(job))
            .chain(borrowers.iter().copied())
            .filter_map(|record| Some((record, self.held(record, fleet)?)))
            .collect();
        let all_known = unseen.is_empty();
        let looked_at = queue.placed().filter_map(|(job, held)| Some((job, held?, false)));
        let unseen = unseen.iter().map(|(record, held)| (&record.job.id, held, record.pool != *id));
        let over_share = over_share(&self.state);
        let mut overruns = false;
        problem.occupants.reserve(queue.placed().len() + borrowers.len());
        problem.occupants.extend(looked_at.chain(unseen).map(|(job, held, borrower)| {
            overruns |= held.overruns;
            let pool = if borrower { self.state.job(job).map(|record| &record.pool) } else { Some(id) };
            Occupant {
                job,
                spec: &held.spec,
                nodes: &held.slots,
                shares: &held.shares,
                started: held.started.unwrap_or(self.now),
                ends_at: held.ends_at.or_else(|| Some(held.started.unwrap_or(self.now) + held.left?)),
                expected_end: held.expected.map(|span| held.started.unwrap_or(self.now) + span),
                running: held.running,
                borrower,
                checkpoint_minutes: held.checkpoint_minutes,
                over_share: !over_share.is_empty()
                    && pool.zip(held.spec.tenant.as_ref()).is_some_and(|of| over_share.contains(&of)),
                preempted: &held.preempted,
            }
        }));
        problem.overruns = overruns;
        // Those that were looked at before come in order.
        if !all_known {
            problem.occupants.sort_by(|a, b| a.job.cmp(b.job));
        }

        let slots = |kept: &Kept| kept.nodes.iter().filter_map(|node| fleet.slot(node)).collect();
        let kept: Vec<(&JobId, Vec<Slot>, &Kept)> =
            state.kept.iter().map(|(job, kept)| (job, slots(kept), kept)).collect();
        problem.holds = kept
            .iter()
            .map(|(job, nodes, kept)| {
                let ready_at = self.vacated_at(job, kept);
                Hold { job, nodes, until: Some(kept.until), ready_at }
            })
            .collect();

        let idle: Vec<(&PoolId, Vec<Slot>, u32)> = self.lenders(id, fleet);
        problem.lenders =
            idle.iter().map(|(pool, idle, lends)| Lender { pool, idle, lends: *lends }).collect();

        let reservations: Vec<_> = state.reservations.values().cloned().collect();
        problem.reservations = &reservations;
        let pass = Pass::of_parts(self.now, &state.world, &state.nodes, queue.backlog());
        let order = self.order_of(state, queue);
        let classes = InClasses {
            engine: self,
            queue,
            policy,
            pass: &pass,
            order: &order,
            staged: settings.staging,
            habits: (settings.learn != Learn::Off).then_some(&state.habits),
            classes: queue.classes().collect(),
        };
        match census {
            Some(census) => {
                census.tell(&pass, policy, fleet, queue.classes().map(|(_, class)| &class.model));
                problem.classes = Some(&classes);
                problem.asked = asked;
            }
            None => problem.waiting = self.waiting_jobs(id, queue, &pass, &order),
        }
        let why = |job: &JobId| self.why(policy, &pass, job, &order);
        problem.why = Some(&why);
        let rest = |job: &JobId| {
            let record = self.state.job(job);
            record.map(|record| policy.queue_verdict(&pass, &record.job).facts).unwrap_or_default()
        };
        // Whoever asks keeps nothing.
        problem.rest =
            (self.notes.is_some() && asked.is_none() && problem.classes.is_some()).then_some(&rest);
        problem.tenants = self.tenant_rooms();
        problem.locks = self.state.locks.keys().cloned().collect();
        problem.caps = self.state.caps_left(state, self.now);
        problem.preemptions_left = state.preempt_budget.room(self.now);
        problem.freed_early = freed_early;
        let beat = Cycles { next: state.next_cycle, every: settings.cycle_ms };
        problem.cycles = (!settings.cycle_on_events).then_some(beat);
        #[cfg(feature = "mutations")]
        {
            problem.mutation = self.solver_mutation;
        }
        let plan = solver::solve(&problem);
        *seen = Seen { suited: problem.suited, ground: problem.ground.into_inner() };
        Some(plan)
    }

    /// The nodes of a pool and of those that may lend to it, sorted into kinds.
    pub(crate) fn fleet(&mut self, id: &PoolId) -> Option<Arc<Fleet>> {
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

    /// Jobs of other pools on nodes that this one lent.
    fn borrowers(&self, id: &PoolId) -> Vec<&JobRecord> {
        let Some(state) = self.state.pools.get(id).filter(|_| self.state.pools.len() > 1) else {
            return Vec::new();
        };
        let lent = state.nodes.iter().filter(|node| node.lent_to.is_some());
        let mut jobs: Vec<&JobId> =
            lent.flat_map(|node| &node.placements).map(|placement| &placement.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let records = jobs.into_iter().filter_map(|job| self.state.job(job));
        records.filter(|record| record.pool != *id).collect()
    }

    /// A placed job as planning looks at it.
    fn held(&self, record: &JobRecord, fleet: &Fleet) -> Option<Held> {
        let run = record.run.as_ref()?;
        let spec = &record.job.spec;
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
        Some(Held {
            spec: Arc::clone(spec),
            slots: slots_of(record, fleet),
            shares,
            started: run.started_at,
            // A job that is being started will run for its whole walltime; one that is stopping is gone after the grace.
            ends_at: run.stop.as_ref().map(|stop| stop.kill_at).or(run.ends_at),
            left: record.walltime(),
            expected: run.expected.filter(|_| run.stop.is_none() && run.notice.is_none()),
            running: record.state == JobState::Running
                && run.notice.is_none()
                && run.nodes.iter().all(|at| at.phase == Phase::Started),
            overruns: is_overrun(run),
            checkpoint_minutes: saving_minutes(record),
            preempted: record.past.as_ref().map_or_else(Preempted::default, |past| past.preempted.clone()),
        })
    }

    /// When the last of those who have to leave the nodes kept for a job is expected to have done so.
    fn vacated_at(&self, job: &JobId, kept: &Kept) -> Option<Time> {
        let alone = self.state.job(job).is_none_or(|record| record.job.spec.exclusive);
        let nodes = kept.nodes.iter().filter_map(|node| self.state.node(node));
        let runs = nodes.flat_map(|(node, _)| &node.placements);
        let runs = runs.filter(|placement| alone || kept.victims.contains(&placement.job));
        runs.filter_map(|placement| self.leaves_at(self.state.job(&placement.job)?)).max()
    }

    /// When a job that is to leave its nodes is expected to have done so: a stop ends with the kill, a checkpoint after the
    /// time that it usually takes, or when it is given up.
    fn leaves_at(&self, record: &JobRecord) -> Option<Time> {
        let run = record.run.as_ref()?;
        let grace = self.kill_grace(&record.job.id);
        let saves = saving_minutes(record).map(|minutes| Millis::new((minutes * 60_000.0).round() as u64));
        if let Some(stop) = &run.stop {
            return Some(stop.kill_at);
        }
        let leaves = match (run.saving.as_ref().filter(|saving| saving.leaves.is_some()), &run.notice) {
            (Some(saving), _) => {
                let saved = saving.asked_at + saves.unwrap_or_default();
                if saved > self.now { saved.min(saving.deadline) } else { saving.deadline + grace }
            }
            (None, Some((_, by))) => *by + saves.unwrap_or(grace),
            (None, None) => self.now + grace,
        };
        Some(run.ends_at.map_or(leaves, |end| end.min(leaves)))
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
    fn waiting_jobs<'a>(
        &'a self,
        id: &PoolId,
        queue: &'a BatchQueue,
        pass: &Pass<'_>,
        order: &Order,
    ) -> Vec<Waiting<'a>> {
        let Some(dispatcher) = self.pools.get(id) else { return Vec::new() };
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
        let rank = |job: &Waiting<'_>| order.rank(self.now, job.spec, job.queued_at, || job.score);
        waiting.sort_by_cached_key(|job| (rank(job), job.queued_at, job.job));
        let behind = queue.behind.iter().filter_map(|job| self.state.job(job)).map(|record| {
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
        let mut waiting = Waiting::new(&record.job.id, &record.job.spec, score, record.job.queued_at);
        self.complete(&mut waiting, record, queue);
        waiting
    }

    /// Adds what earlier runs and cycles left behind.
    fn complete(&self, waiting: &mut Waiting<'_>, record: &JobRecord, queue: &BatchQueue) {
        waiting.duration = record.walltime();
        let learns = self.state.pools.get(&record.pool).filter(|pool| pool.pool.batch.learn != Learn::Off);
        waiting.expected =
            learns.and_then(|pool| Some(pool.habits.expect(&record.job.spec, waiting.duration?)));
        waiting.checkpoint_minutes = saving_minutes(record);
        waiting.rejected = queue.rejected.get(&record.job.id).copied();
        waiting.edge_locks = self.state.edge_locks_of(&record.job.id);
    }

    /// Whether a job may start as far as its inputs are concerned.
    pub(crate) fn staging_gate(&self, record: &JobRecord) -> staging::Gate {
        let staged = self.state.pools.get(&record.pool).is_some_and(|pool| pool.pool.batch.staging);
        let near = staging::near_fraction(record.job.spec.inputs.as_deref());
        staging::gate(staged, near, staging_given_up(record))
    }

    /// What puts the jobs of a queue before others, as of now.
    pub(super) fn order_of(&self, pool: &PoolState, queue: &BatchQueue) -> Order {
        match pool.pool.batch.order {
            QueueOrder::Score => return Order::Score,
            QueueOrder::Fifo => return Order::Fifo,
            QueueOrder::Learned => {}
        }
        let mut merits: BTreeMap<Circle, Merit> = BTreeMap::new();
        for (_, class) in queue.classes() {
            let spec = &class.model.spec;
            let Some(circle) = alike(spec) else { continue };
            let merit = merits.entry(circle).or_insert_with(|| Merit {
                expected: pool.habits.bounded(spec),
                pupils: 0,
                nodes: spec.nodes.min,
            });
            merit.pupils = merit.pupils.saturating_add(class.jobs.len() as u32);
        }
        // The first of them that runs tells the others what they take, so one is enough.
        let running: BTreeMap<_, &JobSpec> = (queue.placed().filter_map(|(job, _)| self.state.job(job)))
            .map(|record| (Arc::as_ptr(&record.job.spec), &*record.job.spec))
            .collect();
        for merit in running.values().filter_map(|spec| alike(spec)).collect::<BTreeSet<_>>() {
            if let Some(merit) = merits.get_mut(&merit) {
                merit.pupils = 1;
            }
        }
        Order::Learned(merits)
    }

    /// What speaks for a waiting job.
    pub(super) fn why(&self, policy: &Policy, pass: &Pass<'_>, job: &JobId, order: &Order) -> Breakdown {
        let Some(record) = self.state.job(job) else { return Breakdown::default() };
        let Order::Learned(merits) = order else {
            return Breakdown::of(&policy.queue_points(pass, &record.job), None);
        };
        let (spec, queued_at) = (&record.job.spec, record.job.queued_at);
        let total = order.merit(self.now, spec, queued_at);
        let mut terms = Vec::new();
        if let Some(merit) = alike(spec).and_then(|circle| merits.get(&circle)) {
            let told = [
                ("expected run in seconds", merit.expected.run as f64),
                ("alike that wait for the first", f64::from(merit.pupils)),
                ("slowdown per node-second", total),
            ];
            terms.extend(told.map(|(term, raw)| Points { term: term.into(), raw, points: 0.0 }));
        }
        Breakdown { total: Some(total), terms, ..Breakdown::default() }
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
            let (quota, kept) = (&tenant.tenant.quota, self.state.kept_of(id, None));
            let (units, cpu) = (tenant.units + kept.units, tenant.cpu_milli + kept.cpu_milli);
            TenantRoom {
                tenant: Some(id.clone()),
                node_units: quota.max_nodes.unwrap_or(f64::INFINITY) - units as f64 / MICRO as f64,
                gpus: quota.max_gpus.map(|most| most.saturating_sub(tenant.gpus + kept.gpus)),
                cpu_milli: quota.max_cpu_milli.map(|most| most.get().saturating_sub(cpu)),
                gpu_hours: tenant.gpu_hours_left(self.now),
                money: tenant.money_left(self.now),
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
}

/// Whether a run was told to stop too late to leave by the end of its time.
fn is_overrun(run: &Run) -> bool {
    match (&run.stop, run.ends_at) {
        (Some(stop), Some(end)) => stop.kill_at > end,
        _ => false,
    }
}

/// Whether the first pool may borrow from the second.
pub(super) fn lends(own: &Pool, other: &Pool) -> bool {
    own.loans.borrow && other.loans.lend && other.dispatch == Dispatch::Batch
}

fn slots_of(record: &JobRecord, fleet: &Fleet) -> Vec<Slot> {
    record.run.iter().flat_map(|run| &run.nodes).filter_map(|at| fleet.slot(&at.node)).collect()
}

/// Tenants that may burst and are above their share, with the pool.
fn over_share(state: &State) -> BTreeSet<(&PoolId, &TenantId)> {
    let tenants = state
        .pools
        .iter()
        .flat_map(|(pool, of)| of.world.tenants.iter().map(move |(tenant, share)| ((pool, tenant), share)));
    tenants
        .filter(|(_, tenant)| tenant.burst > 1.0 && tenant.usage > tenant.share)
        .map(|(of, _)| of)
        .collect()
}
