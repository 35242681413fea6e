//! Push: a job arrives, nodes are ranked for it, the best one is proposed.
//!
//! *Order.* Priority descending, submission ascending, id ascending. Jobs of one class (equal specs) see every node alike,
//! so the queue keeps classes, and a class that was refused stands for all its jobs: it is looked at again when
//! something happened that could help it (a placement or a hold ended, a node changed, a quota or lock was given back),
//! and on every timer cycle. Nothing polls.
//!
//! A job with a live hold is being placed by somebody else and is left alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_model::{Discipline, Job, JobId, JobSpec, Name, Node, PoolId, Tier, Time};
use landfall_policy::index::NodeIndex;
use landfall_policy::rules::snapshot::Backlog;
use landfall_policy::verdict::Verdict;
use landfall_policy::view::{Devices, Pass};

use super::{Dispatcher, Queue};
use crate::engine::Engine;
use crate::event::Grant;
use crate::ledger::{Proposal, Reason};
use crate::notes::{self, Note, Told};
use crate::record::{JobRecord, StartKind};
use crate::specs::address_of;
use crate::state::PoolState;
use landfall_model::life::{Beside, Breakdown, RUNNERS_UP_KEPT};

/// Waiting jobs of one class.
#[derive(Debug)]
struct Class {
    spec: Arc<JobSpec>,
    jobs: BTreeSet<(Time, JobId)>,
    /// Why the class was refused, if nothing has happened since.
    refused: Option<Refusal>,
    /// What was last told about nobody being chosen for it.
    told: Told,
}

/// What refused a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// No node.
    Nodes,
    /// The ledger: quota or lock.
    Ledger,
}

/// The queue of a push pool.
#[derive(Debug, Default)]
pub(super) struct PushQueue {
    /// Classes by the address of their spec.
    classes: BTreeMap<usize, Class>,
    /// The specs of the classes.
    specs: BTreeSet<Arc<JobSpec>>,
    by_id: BTreeMap<JobId, (Arc<JobSpec>, Time)>,
    woken: bool,
    /// Where the last pass stopped because it had looked at enough.
    stopped: Option<Turn>,
}

/// A class in the order in which it is looked at.
type Turn = (Reverse<i32>, Time, JobId, Arc<JobSpec>);

impl PushQueue {
    pub(super) fn insert(&mut self, job: &Job, held: bool, now: Time) {
        let waits = !held && job.retry_at.is_none_or(|at| at <= now);
        let known =
            self.by_id.get(&job.id).is_some_and(|(spec, at)| *spec == job.spec && *at == job.submitted_at);
        if known && waits {
            // Nothing changed that could help it, so what is known of its class stays known.
            return;
        }
        self.remove(&job.id);
        if !waits {
            return;
        }
        // Equal specs share one allocation, so that a million jobs of a class have one.
        let spec = self.known(&job.spec).unwrap_or(&job.spec).clone();
        let class = self.classes.entry(address_of(&spec)).or_insert_with(|| {
            self.specs.insert(spec.clone());
            Class { spec: spec.clone(), jobs: BTreeSet::new(), refused: None, told: Told::default() }
        });
        class.jobs.insert((job.submitted_at, job.id.clone()));
        // One more job of a class that was refused cannot fit either.
        self.woken |= class.refused.is_none();
        self.by_id.insert(job.id.clone(), (spec, job.submitted_at));
    }

    pub(super) fn remove(&mut self, id: &JobId) {
        let Some((spec, at)) = self.by_id.remove(id) else { return };
        let Some(class) = self.classes.get_mut(&address_of(&spec)) else { return };
        class.jobs.remove(&(at, id.clone()));
        if class.jobs.is_empty() {
            self.classes.remove(&address_of(&spec));
            self.specs.remove(&spec);
        }
    }

    /// The spec of the class of jobs like this one. One that is a class's own need not be compared with others.
    fn known<'a>(&'a self, spec: &'a Arc<JobSpec>) -> Option<&'a Arc<JobSpec>> {
        if self.classes.contains_key(&address_of(spec)) { Some(spec) } else { self.specs.get(spec) }
    }

    fn class(&self, spec: &Arc<JobSpec>) -> Option<&Class> {
        self.classes.get(&address_of(self.known(spec)?))
    }

    pub(super) fn has(&self, id: &JobId) -> bool {
        self.by_id.contains_key(id)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Something changed that may help a class that no node could take.
    pub(super) fn wake(&mut self) {
        self.forget(Refusal::Nodes);
    }

    /// Something changed that may help a class that the ledger refused.
    pub(super) fn ledger_changed(&mut self) {
        self.forget(Refusal::Ledger);
    }

    fn forget(&mut self, refusal: Refusal) {
        for class in self.classes.values_mut().filter(|class| class.refused == Some(refusal)) {
            class.refused = None;
            self.woken = true;
        }
    }

    fn refuse(&mut self, spec: &Arc<JobSpec>, refusal: Refusal) {
        let address = self.known(spec).map(address_of);
        if let Some(class) = address.and_then(|address| self.classes.get_mut(&address)) {
            class.refused = Some(refusal);
        }
    }

    /// Whether the ledger refused a class when it was last looked at.
    pub(super) fn ledger_refused(&self, spec: &Arc<JobSpec>) -> bool {
        self.class(spec).is_some_and(|class| class.refused == Some(Refusal::Ledger))
    }

    pub(super) fn is_woken(&self) -> bool {
        self.woken
    }

    /// Classes to look at; on a timer cycle all of them.
    fn turns(&mut self, all: bool) -> BTreeSet<Turn> {
        self.woken = false;
        if all {
            self.classes.values_mut().for_each(|class| class.refused = None);
        }
        self.classes.values().filter(|class| class.refused.is_none()).filter_map(turn).collect()
    }

    /// Tiers in which a refused job lets nobody pass, and since whose turn.
    fn next_turn(&self, spec: &Arc<JobSpec>) -> Option<Turn> {
        self.class(spec).and_then(turn)
    }
}

/// With more classes than this waiting, what is next is not looked for.
const LINE_CLASSES_MAX: usize = 64;

impl PushQueue {
    /// The waiting jobs of a class, if no node has room for it and none of another class comes before its first.
    pub(super) fn next_in_line(&self, spec: &Arc<JobSpec>) -> Option<&BTreeSet<(Time, JobId)>> {
        fn place(class: &Class) -> Option<(Reverse<i32>, Time, &JobId)> {
            class.jobs.first().map(|(at, id)| (Reverse(class.spec.priority), *at, id))
        }
        let class = self.class(spec).filter(|class| class.refused == Some(Refusal::Nodes))?;
        let ours = place(class)?;
        let first = self.classes.len() <= LINE_CLASSES_MAX
            && self.classes.values().filter_map(place).all(|other| ours <= other);
        first.then_some(&class.jobs)
    }
}

fn turn(class: &Class) -> Option<Turn> {
    let (at, id) = class.jobs.first()?.clone();
    Some((Reverse(class.spec.priority), at, id, class.spec.clone()))
}

/// What became of the head of a class.
enum Tried {
    Placed,
    Refused(Refusal),
}

impl Dispatcher {
    /// Looks which weights are in force, where the policy lets them follow the state of the cluster. An index has the points of one
    /// policy, so it is made anew when another row is in force.
    fn weigh(&mut self, nodes: &[Node]) {
        let rows = [Tier::Fast, Tier::Flex].map(|tier| self.policy.row(nodes, tier));
        if rows != self.rows {
            self.rows = rows;
            self.index = NodeIndex::new(self.tie_ranks.len());
            self.wake();
        }
    }

    /// The row of the policy that weighs jobs of a tier.
    fn row(&self, tier: Tier) -> Option<usize> {
        self.rows[usize::from(tier == Tier::Flex)]
    }

    /// The best node of the pool for a job, as a proposal, and its position.
    fn best_node(&mut self, state: &PoolState, record: &JobRecord, now: Time) -> Option<(Proposal, usize)> {
        self.take_in(&state.nodes, &state.world.node_order);
        let pass = Pass::of_parts(now, &state.world, &state.nodes, Backlog::default());
        let policy = self.policy.in_row(self.row(record.job.spec.tier));
        let best = self.index.best(policy, &pass, &self.tie_ranks, &record.job)?;
        let runner_up = best.runner_up.and_then(|slot| Name::new(state.nodes[slot].id.as_str()).ok());
        let node = &state.nodes[best.slot];
        let mut proposal = proposal(record, node, &best.verdict, runner_up);
        // What goes on from a checkpoint does not show how long all of it takes.
        let resumes = record.past.as_ref().is_some_and(|past| past.resumes);
        proposal.why.raw_speed = policy.raw_speed(&pass, &record.job, node).filter(|_| !resumes);
        Some((proposal, best.slot))
    }
}

impl Dispatcher {
    /// What was looked at for a job when a node was chosen for it, or none.
    fn looked_at(
        &mut self,
        state: &PoolState,
        record: &JobRecord,
        chosen: Option<usize>,
        now: Time,
    ) -> Beside {
        let pass = Pass::of_parts(now, &state.world, &state.nodes, Backlog::default());
        let most = if chosen.is_some() { RUNNERS_UP_KEPT } else { 0 };
        let policy = self.policy.in_row(self.row(record.job.spec.tier));
        let looked = self.index.looked_at(policy, &pass, &self.tie_ranks, &record.job, most);
        let chosen = chosen.map(|slot| &state.nodes[slot]);
        notes::of_nodes(policy, &pass, record, chosen, &looked)
    }

    /// Whether it is news that nobody is chosen for jobs of a class, for these reasons.
    fn is_news(&mut self, spec: &Arc<JobSpec>, now: Time, beside: &Beside) -> bool {
        let Queue::Push(queue) = &mut self.queue else { return false };
        let address = queue.known(spec).map(address_of);
        let class = address.and_then(|address| queue.classes.get_mut(&address));
        class.is_some_and(|class| class.told.is_news(now, beside))
    }
}

impl Engine {
    /// The best node of a push pool for a job that nobody has submitted, and what it would have there.
    pub(crate) fn best_place(&mut self, pool: &PoolId, job: &Job) -> Option<Grant> {
        let (state, dispatcher) = (self.state.pools.get(pool)?, self.pools.get_mut(pool)?);
        dispatcher.take_in(&state.nodes, &state.world.node_order);
        let pass = Pass::of_parts(self.now, &state.world, &state.nodes, Backlog::default());
        let best = dispatcher.policy.best_node(&pass, &dispatcher.tie_ranks, job)?;
        Some(granted(job, &state.nodes[best.slot], &best.verdict))
    }

    /// Places a job before any other that waits in its push pool, if it can be placed now.
    pub(crate) fn place_first(&mut self, pool: &PoolId, job: &JobId) {
        let attempts = self.state.pools.get(pool).map_or(1, |state| state.pool.push.propose_attempts);
        self.push_one(pool, job, attempts);
    }

    /// Places what can be placed, in order.
    pub(crate) fn push_pass(&mut self, id: &PoolId, timer: bool) {
        let Some(state) = self.state.pools.get(id) else { return };
        let settings = state.pool.push.clone();
        self.pools.get_mut(id).into_iter().for_each(|pool| pool.weigh(&state.nodes));
        let Some(Queue::Push(queue)) = self.pools.get_mut(id).map(|pool| &mut pool.queue) else { return };
        let strict = settings.queue_discipline == Discipline::Strict;
        // Under strict order a class that was refused before still blocks, so all are looked at in order.
        let mut turns = queue.turns(timer || strict);
        // Where a pass looks at so many only, the next one goes on there, so that nobody is never looked at.
        let mut wrapped = BTreeSet::new();
        if let Some(stopped) = queue.stopped.take().filter(|_| !strict) {
            wrapped = turns;
            turns = wrapped.split_off(&stopped);
        }
        let mut blocked: BTreeSet<Tier> = BTreeSet::new();
        let mut left = settings.cycle_limit.unwrap_or(u32::MAX);
        while let Some(turn) = turns.pop_first().or_else(|| wrapped.pop_first()) {
            let (_, _, job, spec) = turn.clone();
            if strict && blocked.contains(&spec.tier) {
                continue;
            }
            if left == 0 {
                if let Some(Queue::Push(queue)) = self.pools.get_mut(id).map(|pool| &mut pool.queue) {
                    queue.stopped = Some(turn);
                }
                break;
            }
            left -= 1;
            let tried = self.push_one(id, &job, settings.propose_attempts);
            let Some(Queue::Push(queue)) = self.pools.get_mut(id).map(|pool| &mut pool.queue) else { return };
            match tried {
                Tried::Placed => turns.extend(queue.next_turn(&spec)),
                Tried::Refused(refusal) => {
                    queue.refuse(&spec, refusal);
                    if strict && !self.is_unsatisfiable(id, &job) {
                        blocked.insert(spec.tier);
                    } else if strict {
                        // It lets others pass, also where a cycle looks at so many only.
                        left = left.saturating_add(1);
                    }
                }
            }
        }
    }

    /// Decides one job and proposes; if the ledger refuses, decides anew on the new state.
    fn push_one(&mut self, pool: &PoolId, job: &JobId, attempts: u32) -> Tried {
        for _ in 0..attempts {
            let (Some(record), Some(state), Some(dispatcher)) =
                (self.state.jobs.get(job), self.state.pools.get(pool), self.pools.get_mut(pool))
            else {
                return Tried::Refused(Refusal::Nodes);
            };
            let best = dispatcher.best_node(state, record, self.now);
            let slot = best.as_ref().map(|(_, slot)| *slot);
            let mut note = None;
            if self.notes.is_some() {
                let mut beside = dispatcher.looked_at(state, record, slot, self.now);
                let placed = slot.is_some();
                let is_news = placed || dispatcher.is_news(&record.job.spec, self.now, &beside);
                beside.heard_ms = slot.and_then(|slot| self.heard_ago(&state.nodes[slot].id));
                let (job, candidates) = (Some(job.clone()), Vec::new());
                note = Some(Note { job, asked: None, placed, is_news, beside, candidates });
            }
            let Some((proposal, _)) = best else {
                self.notes.iter_mut().for_each(|notes| notes.extend(note.take().filter(|note| note.is_news)));
                return Tried::Refused(Refusal::Nodes);
            };
            match self.propose(proposal) {
                Ok(_) => {
                    self.notes.iter_mut().for_each(|notes| notes.extend(note.take()));
                    return Tried::Placed;
                }
                Err(reasons) if reasons.iter().any(|reason| is_lasting(*reason)) => {
                    return Tried::Refused(Refusal::Ledger);
                }
                Err(_) => {}
            }
        }
        Tried::Refused(Refusal::Ledger)
    }

    /// Waiting jobs of push pools, each with whether it asks for capacity: ready, within its quota, and not hopeless.
    pub(crate) fn demand(&self) -> Vec<(Arc<JobSpec>, bool)> {
        let mut all = Vec::new();
        for (id, dispatcher) in &self.pools {
            let Queue::Push(queue) = &dispatcher.queue else { continue };
            for class in queue.specs.iter().filter_map(|spec| queue.class(spec)) {
                let (Some((_, job)), spec) = (class.jobs.first(), &class.spec) else { continue };
                let is_demand = class.refused != Some(Refusal::Ledger) && !self.is_unsatisfiable(id, job);
                all.extend(std::iter::repeat_n((spec.clone(), is_demand), class.jobs.len()));
            }
        }
        all
    }

    /// Whether no node, as it is or as a provider could deliver it, would ever do.
    pub(crate) fn is_unsatisfiable(&self, pool: &PoolId, job: &JobId) -> bool {
        let (Some(record), Some(state), Some(dispatcher)) =
            (self.state.jobs.get(job), self.state.pools.get(pool), self.pools.get(pool))
        else {
            return false;
        };
        let pass = Pass::of_parts(self.now, &state.world, &state.nodes, Backlog::default());
        dispatcher.policy.is_unsatisfiable(&pass, &record.job)
    }
}

/// What is proposed for a job on the node that a verdict admits.
pub(crate) fn proposal(
    record: &JobRecord,
    node: &Node,
    verdict: &Verdict,
    runner_up: Option<Name>,
) -> Proposal {
    Proposal {
        job: record.job.id.clone(),
        attempt: record.attempt,
        grants: [granted(&record.job, node, verdict)].into_iter().collect(),
        kind: StartKind::Start,
        why: Breakdown::of(verdict, runner_up),
    }
}

/// What a job would have of the node that a verdict admits.
fn granted(job: &Job, node: &Node, verdict: &Verdict) -> Grant {
    let chosen = verdict
        .gpus
        .iter()
        .filter_map(|index| node.gpus.iter().position(|gpu| gpu.index == *index))
        .map(|position| position as u16)
        .collect();
    let placement = Devices { mode: verdict.mode, chosen }.placement(job, node);
    Grant { node: node.id.clone(), placement, lender: None }
}

/// Whether deciding anew in the same step could not help.
fn is_lasting(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::StaleJob
            | Reason::QuotaNodes
            | Reason::QuotaGpus
            | Reason::QuotaCpus
            | Reason::GpuHours
            | Reason::Budget
            | Reason::Mutex
    )
}
