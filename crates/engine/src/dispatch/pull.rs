//! Pull: a worker asks for one piece of work, the waiting jobs are ranked for it, the best one is proposed.
//!
//! Jobs of either kind have a queue of their own, because a request asks for one kind. Rounds of rescoring are counted
//! per pool; only jobs that have not yet seen enough rounds differ by them, so a round moves the young jobs and leaves
//! the others alone.

use landfall_model::life::{RUNNERS_UP_KEPT, Task};
use landfall_model::verdict::Direction;
use landfall_model::{
    Job, JobId, JobKind, JobReport, Millis, Name, NodeId, PolicySetting, PoolId, Time, World,
};
use landfall_policy::Policy;
use landfall_policy::index::{BestJob, JobIndex};
use landfall_policy::view::Pass;

use std::collections::BTreeMap;

use super::Queue;
use super::push::proposal;
use crate::effect::Answer;
use crate::engine::Engine;
use crate::event::Event;
use crate::ledger::Proposal;
use crate::life::unknown;
use crate::notes::{self, Note, Told};
use crate::record::JobRecord;
use crate::state::{PoolState, State};

/// The queue of a pull pool.
#[derive(Debug)]
pub(super) struct PullQueue {
    kinds: [KindQueue; 2],
    rounds_that_count: u32,
    /// What was last told about workers for which nothing was chosen.
    told: BTreeMap<(NodeId, usize), Told>,
    /// Jobs of which the nodes of the pool decide what they go out as, and what was decided.
    shifting: BTreeMap<JobId, Option<Task>>,
    /// When all candidates of a question were last told.
    told_all_at: Option<Time>,
}

/// Where workers ask more often than this, only some questions tell all their candidates; the others tell those that are kept
/// with the decision. Each candidate costs a verdict, and nobody reads hundreds a second.
const TOLD_ALL_EVERY: Millis = Millis::new(100);

#[derive(Debug)]
struct KindQueue {
    policy: Policy,
    index: JobIndex,
}

fn position(kind: JobKind) -> usize {
    match kind {
        JobKind::Build => 0,
        JobKind::Eval => 1,
    }
}

impl PullQueue {
    pub(super) fn new(policy: &Policy) -> Option<Self> {
        let of_kind = |kind: &str| {
            let mut spec = policy.spec().clone();
            let mut setting = PolicySetting::default();
            setting.params.insert("request_kind".into(), kind.into());
            // A policy of the pool's own may have no filter for kinds; then its queues hold one kind each anyway.
            let mut with_kind = spec.clone();
            if with_kind.apply(&setting).is_ok() {
                spec = with_kind;
            }
            let policy = Policy::compile(spec).ok()?;
            let index = JobIndex::new(&policy);
            Some(KindQueue { policy, index })
        };
        Some(Self {
            kinds: [of_kind("build")?, of_kind("eval")?],
            rounds_that_count: policy.rescore_rounds(),
            told: BTreeMap::new(),
            shifting: BTreeMap::new(),
            told_all_at: None,
        })
    }

    pub(super) fn has(&self, id: &JobId) -> bool {
        self.kinds.iter().any(|kind| kind.index.get(id).is_some())
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.iter().map(|kind| kind.index.len()).sum()
    }

    pub(super) fn policy(&self, kind: JobKind) -> &Policy {
        &self.kinds[position(kind)].policy
    }

    pub(super) fn evals(&self) -> usize {
        self.kinds[position(JobKind::Eval)].index.len()
    }

    pub(super) fn insert(&mut self, job: Job, world: &World) {
        self.remove(&job.id);
        let job = Job { rescore_count: job.rescore_count.min(self.rounds_that_count), ..job };
        self.kinds[position(job.spec.kind)].index.insert(job, world);
    }

    /// Notes what a job goes out as, if the nodes of the pool decide that.
    pub(super) fn note_task(&mut self, record: &JobRecord, state: &State) {
        if state.depends_on_fleet(record) {
            self.shifting.insert(record.job.id.clone(), state.task(record));
        }
    }

    pub(super) fn remove(&mut self, id: &JobId) {
        self.shifting.remove(id);
        for kind in &mut self.kinds {
            kind.index.remove(id);
        }
    }

    /// The best job of a kind for a worker, as a proposal.
    fn best(
        &mut self,
        state: &State,
        pool: &PoolId,
        slot: usize,
        kind: JobKind,
        now: Time,
    ) -> Option<Proposal> {
        let pool = state.pools.get(pool)?;
        let node = &pool.nodes[slot];
        let KindQueue { policy, index } = &mut self.kinds[position(kind)];
        let BestJob { job, verdict, runner_up } = index.best(policy, now, &pool.world, &pool.nodes, node)?;
        let runner_up = runner_up.and_then(|job| Name::new(job.as_str()).ok());
        Some(proposal(state.jobs.get(&job)?, node, &verdict, runner_up))
    }

    /// What is looked at for a worker, before anything is committed; nothing if no job of the kind waits.
    fn looked_at(
        &mut self,
        state: &State,
        pool: &PoolId,
        slot: usize,
        kind: JobKind,
        chosen: Option<&JobId>,
        now: Time,
    ) -> Option<Note> {
        let PoolState { pool: settings, world, nodes, .. } = state.pools.get(pool)?;
        let node = &nodes[slot];
        let KindQueue { policy, index } = &self.kinds[position(kind)];
        if index.is_empty() {
            return None;
        }
        let mut most = RUNNERS_UP_KEPT + 1;
        if self.told_all_at.is_none_or(|at| now.since(at) >= TOLD_ALL_EVERY) {
            self.told_all_at = Some(now);
            most = most.max(settings.pull.ring_candidates as usize);
        }
        let (candidates, against) = index.looked_at(policy, now, world, nodes, node, most);
        let mut beside = notes::of_jobs(pool, index.len(), chosen, &candidates, against);
        if let Some(job) = chosen.and_then(|job| index.get(job)) {
            let pass = Pass::of_parts(now, world, nodes, Default::default());
            beside.facts = policy.pair_verdict(&pass, job, node, Direction::JobsForNode).facts;
        }
        let told = self.told.entry((node.id.clone(), position(kind))).or_default();
        let is_news = chosen.is_some() || told.is_news(now, &beside);
        let asked = Some((node.id.clone(), kind));
        Some(Note { job: chosen.cloned(), asked, placed: chosen.is_some(), is_news, beside, candidates })
    }
}

impl Engine {
    /// Answers a worker that asks for one piece of work.
    pub(crate) fn ask(&mut self, node: &NodeId, kind: JobKind) -> Answer {
        let Some((pool, slot)) = self.state.places.get(node).cloned() else {
            return Answer::Refused(unknown("node", node.as_str()));
        };
        let Some(state) = self.state.pools.get(&pool) else { return Answer::Nothing("no_pool".into()) };
        let settings = state.pool.pull.clone();
        if settings.paused {
            return Answer::Nothing("paused".into());
        }
        let at = &state.nodes[slot as usize];
        if !at.takes_work() {
            return Answer::Nothing("draining".into());
        }
        if kind == JobKind::Build && at.placements.len() as u64 >= u64::from(at.max_concurrent) {
            return Answer::Nothing("at_capacity".into());
        }
        self.shift_tasks(&pool);
        // A job that the ledger refuses now steps aside, so that it does not stand in the way of the next best.
        let mut aside: Vec<JobId> = Vec::new();
        let mut answer = Answer::Nothing("no_job".into());
        for _ in 0..settings.propose_attempts {
            let Some(Queue::Pull(queue)) = self.pools.get_mut(&pool).map(|pool| &mut pool.queue) else {
                break;
            };
            let best = queue.best(&self.state, &pool, slot as usize, kind, self.now);
            let chosen = best.as_ref().map(|proposal| &proposal.job);
            let mut note = None;
            if self.notes.is_some() {
                note = queue.looked_at(&self.state, &pool, slot as usize, kind, chosen, self.now);
            }
            if let Some(note) = &mut note {
                note.beside.heard_ms = self.heard_ago(node);
            }
            let Some(proposal) = best else {
                self.notes.iter_mut().for_each(|notes| notes.extend(note.take()));
                break;
            };
            let job = proposal.job.clone();
            match self.propose(proposal) {
                Ok(fence) => {
                    self.notes.iter_mut().for_each(|notes| notes.extend(note.take()));
                    answer = Answer::Work(fence);
                    break;
                }
                Err(_) => {
                    if let Some(dispatcher) = self.pools.get_mut(&pool) {
                        dispatcher.dequeue(&job);
                    }
                    aside.push(job);
                    answer = Answer::Nothing("conflict".into());
                }
            }
        }
        aside.iter().for_each(|job| self.sync_job(job));
        answer
    }

    /// Looks again at jobs of which the nodes of the pool decide what they go out as.
    fn shift_tasks(&mut self, pool: &PoolId) {
        let Some(Queue::Pull(queue)) = self.pools.get(pool).map(|pool| &pool.queue) else { return };
        let task = |id: &JobId| self.state.job(id).and_then(|record| self.state.task(record));
        let shifted = queue.shifting.iter().filter(|(id, was)| task(id) != **was);
        let shifted: Vec<JobId> = shifted.map(|(id, _)| id.clone()).collect();
        for job in shifted {
            // What was said of a look elsewhere, which reads nothing, does not hold for the work itself.
            let world = self.state.pools.get(pool).map(|pool| &pool.world);
            let said = world.and_then(|world| world.reports.get(&job)).into_iter().flatten();
            let nodes: Vec<NodeId> = said.map(|(node, _)| node.clone()).collect();
            for node in nodes {
                self.emit(Event::Fetches { job: job.clone(), node, report: None });
            }
            self.sync_job(&job);
        }
    }

    /// Sees to it every so many rounds that the queue of a pull pool holds the jobs that are ready, and no others.
    pub(crate) fn reconcile(&mut self, pool: &PoolId) {
        let (Some(state), Some(dispatcher)) = (self.state.pools.get(pool), self.pools.get(pool)) else {
            return;
        };
        let due = |every: u32| every > 0 && state.rounds.is_multiple_of(u64::from(every));
        if due(state.pool.pull.deep_reconcile_ticks) {
            self.set_up(pool);
        } else if due(state.pool.pull.reconcile_ticks) {
            let of_pool = self.state.jobs.iter().filter(|(_, record)| record.pool == *pool);
            let astray = of_pool.filter(|(id, record)| record.is_queued() != dispatcher.has(id));
            let astray: Vec<JobId> = astray.map(|(id, _)| id.clone()).collect();
            astray.iter().for_each(|job| self.sync_job(job));
        }
    }

    /// Takes in what a worker would have to fetch.
    pub(crate) fn fetches(&mut self, node: &NodeId, entries: Vec<(JobId, Option<JobReport>)>) -> Answer {
        if !self.state.places.contains_key(node) {
            return Answer::Refused(unknown("node", node.as_str()));
        }
        for (job, report) in entries {
            // A job that no longer waits needs no report.
            if self.state.job(&job).is_some_and(JobRecord::is_queued) {
                self.emit(Event::Fetches { job, node: node.clone(), report });
            }
        }
        Answer::Done
    }

    /// Brings the young jobs of a pool up to the present round.
    pub(crate) fn round_passed(&mut self, pool: &PoolId) {
        let Some(Queue::Pull(queue)) = self.pools.get(pool).map(|dispatcher| &dispatcher.queue) else {
            return;
        };
        let mut young: Vec<JobId> = queue.kinds.iter().flat_map(|kind| kind.index.young()).cloned().collect();
        young.sort_unstable();
        young.iter().for_each(|job| self.sync_job(job));
    }
}
