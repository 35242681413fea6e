//! Ways to dispatch. Each finds a proposal in its own way; the ledger commits or refuses, whoever asks.
//!
//! A [`Dispatcher`] belongs to one pool and keeps what can be found out from the state again: its policy made ready, the
//! queue in order, the index of its nodes. It is told what changed and decides nothing by itself.

mod batch;
mod pull;
mod push;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_model::{
    Dispatch, JobId, JobKind, JobSpec, Node, NodeId, PolicySetting, Pool, PoolId, PullPreset, Time,
};
use landfall_policy::index::NodeIndex;
use landfall_policy::rules::snapshot::Backlog;
use landfall_policy::{Policy, builtin, policy_file};

use crate::answers::misfit;
use crate::effect::{Alert, Effect, Refused};
use crate::engine::Engine;
use crate::event::{Commit, Event};
use crate::ledger::{Proposal, Reason};
use crate::record::{JobRecord, JobState};
use crate::state::State;
use landfall_model::life::Fence;

use batch::BatchQueue;
use pull::PullQueue;
use push::PushQueue;

pub(crate) use batch::against_ever;
pub(crate) use push::proposal;

/// The policy by which a pool that negotiates places what it won, or keeps, on its own machines.
const OWN_MACHINES: &str = "fit";
/// Rejections in a row after which people are told.
const STARVED_AFTER: u32 = 10;

/// What a pool keeps ready.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    policy: Policy,
    /// Why that is not the policy that the pool asks for.
    warning: Option<String>,
    index: NodeIndex,
    /// For each node, its place among those that are otherwise equal.
    tie_ranks: Vec<u32>,
    /// For each tier, the row of the policy that weighs its jobs.
    rows: [Option<usize>; 2],
    queue: Queue,
}

/// What around a pool decides how its policy is made ready.
#[derive(Debug, Clone, Copy)]
struct Around {
    /// Nodes of it will go out of service at a known instant.
    maintained: bool,
    /// It negotiates with other servers.
    has_peer: bool,
}

#[derive(Debug)]
enum Queue {
    Push(PushQueue),
    Pull(Box<PullQueue>),
    Batch(Box<BatchQueue>),
    None,
}

impl Dispatcher {
    /// Refuses a policy file that cannot be used.
    pub(crate) fn check_policy(text: Option<&str>) -> Result<(), Refused> {
        let checked = text.map_or(Ok(()), |text| policy_file::load(text).map(|_| ()));
        checked.map_err(|error| Refused::new("bad_policy", error.to_string(), "correct the policy file"))
    }

    /// The policy of a pool, ready to use. A name that is unknown does not stop the pool, nor does a file that another
    /// version wrote into the journal and this one cannot read; both are told.
    ///
    /// Where there is a peer, the pool's policy judges offers, and what comes to its own machines is placed like any job.
    fn policy_of(pool: &Pool, text: Option<&str>, around: Around) -> (Policy, Option<String>) {
        let (policy, warning) = match text.map(policy_file::load) {
            _ if around.has_peer => builtin::pool_policy(OWN_MACHINES),
            Some(Ok(policy)) => (policy, None),
            Some(Err(error)) => {
                let (policy, _) = builtin::pool_policy(builtin::FALLBACK);
                let instead = builtin::FALLBACK;
                (
                    policy,
                    Some(format!(
                        "its policy file cannot be used ({error}); the pool uses `{instead}` instead"
                    )),
                )
            }
            None => {
                let mut setting = PolicySetting::default();
                if pool.preset == Some(PullPreset::Upstream) {
                    setting.params.insert("preset".into(), "upstream".into());
                }
                // A policy without the rules that it is about has nothing to choose.
                builtin::pool_policy_with(pool.policy_name(), &setting)
                    .unwrap_or_else(|_| builtin::pool_policy(pool.policy_name()))
            }
        };
        let warning = warning.or_else(|| misfit(pool, text));
        let policy = match pool.dispatch {
            Dispatch::Batch => policy.for_planning(),
            Dispatch::Push if around.maintained => policy.heeding_needs().heeding_maintenance(),
            Dispatch::Push => policy.heeding_needs(),
            Dispatch::Negotiate if around.has_peer => policy.heeding_needs(),
            Dispatch::Pull | Dispatch::Negotiate => policy,
        };
        (policy, warning)
    }

    fn new(pool: &Pool, text: Option<&str>, around: Around) -> Option<Self> {
        let (policy, warning) = Self::policy_of(pool, text, around);
        let queue = match pool.dispatch {
            Dispatch::Push => Queue::Push(PushQueue::default()),
            Dispatch::Pull => Queue::Pull(Box::new(PullQueue::new(&policy)?)),
            Dispatch::Batch => Queue::Batch(Box::new(BatchQueue::new(&policy))),
            Dispatch::Negotiate if around.has_peer => Queue::Push(PushQueue::default()),
            Dispatch::Negotiate => Queue::None,
        };
        let (index, tie_ranks) = (NodeIndex::new(0), Vec::new());
        Some(Self { policy, warning, index, tie_ranks, rows: [None; 2], queue })
    }

    /// Makes the index anew if nodes have joined since it was made.
    fn take_in(&mut self, nodes: &[Node], order: &[NodeId]) {
        if self.tie_ranks.len() == nodes.len() {
            return;
        }
        self.tie_ranks = tie_ranks(nodes, order);
        self.index = NodeIndex::new(nodes.len());
    }

    /// The policy in force; in a pull pool the one for jobs of a kind.
    pub(crate) fn policy(&self, kind: JobKind) -> &Policy {
        match &self.queue {
            Queue::Pull(queue) => queue.policy(kind),
            _ => &self.policy,
        }
    }

    /// Why that is not the policy that the pool asks for.
    pub(crate) fn policy_warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// What the waiting jobs add up to, where the policy looks at that.
    pub(crate) fn backlog(&self) -> Backlog {
        match &self.queue {
            Queue::Batch(queue) => queue.backlog(),
            _ => Backlog::default(),
        }
    }

    /// Whether the jobs of a class were looked at in a push pool and the ledger refused them.
    pub(crate) fn ledger_refused(&self, spec: &Arc<JobSpec>) -> bool {
        matches!(&self.queue, Queue::Push(queue) if queue.ledger_refused(spec))
    }

    pub(crate) fn node_changed(&mut self, slot: usize) {
        if slot < self.tie_ranks.len() {
            self.index.node_changed(slot);
        }
        self.wake();
    }

    /// A node came, went or changed, here or in a pool that may lend.
    pub(crate) fn fleet_changed(&mut self) {
        if let Queue::Batch(queue) = &mut self.queue {
            queue.nodes_changed();
        }
    }

    pub(crate) fn node_heard(&mut self, slot: usize) {
        // Only a policy that looks at the clock can tell a heartbeat from silence.
        if self.policy.reads_clock() && slot < self.tie_ranks.len() {
            self.index.node_changed(slot);
        }
    }

    pub(crate) fn load_changed(&mut self, slot: usize, freed: bool) {
        if let Queue::Batch(queue) = &mut self.queue {
            queue.node_touched(slot);
        }
        if slot < self.tie_ranks.len() {
            self.index.load_changed(slot);
        }
        if freed {
            self.wake();
        }
    }

    pub(crate) fn ledger_changed(&mut self) {
        if let Queue::Push(queue) = &mut self.queue {
            queue.ledger_changed();
        }
    }

    pub(crate) fn world_changed(&mut self, event: &Event) {
        if !matches!(event, Event::History { .. } | Event::WorkShare { .. }) || self.policy.reads().history {
            self.index.world_changed();
        }
        if matches!(event, Event::Surge { .. }) {
            // Which nodes a job may use depends on what it costs there.
            self.fleet_changed();
        }
        self.wake();
    }

    fn wake(&mut self) {
        if let Queue::Push(queue) = &mut self.queue {
            queue.wake();
        }
    }

    pub(crate) fn is_woken(&self) -> bool {
        matches!(&self.queue, Queue::Push(queue) if queue.is_woken())
    }

    pub(crate) fn has_queued(&self) -> bool {
        match &self.queue {
            Queue::Batch(queue) => !queue.is_empty(),
            _ => self.queued() > 0,
        }
    }

    pub(crate) fn has(&self, job: &JobId) -> bool {
        match &self.queue {
            Queue::Push(queue) => queue.has(job),
            Queue::Pull(queue) => queue.has(job),
            Queue::Batch(queue) => queue.has(job),
            Queue::None => false,
        }
    }

    pub(crate) fn queued(&self) -> usize {
        match &self.queue {
            Queue::Push(queue) => queue.len(),
            Queue::Pull(queue) => queue.len(),
            Queue::Batch(queue) => queue.len(),
            Queue::None => 0,
        }
    }

    /// Evals in the queue of a pull pool.
    pub(crate) fn queued_evals(&self) -> usize {
        if let Queue::Pull(queue) = &self.queue { queue.evals() } else { 0 }
    }

    /// The waiting jobs of a class of a push pool, if no node has room for it and it is next.
    pub(crate) fn next_in_line(&self, spec: &Arc<JobSpec>) -> Option<&BTreeSet<(Time, JobId)>> {
        match &self.queue {
            Queue::Push(queue) => queue.next_in_line(spec),
            _ => None,
        }
    }

    /// Whether a job waits to go back to the queue at the next cycle.
    pub(crate) fn has_suspended(&self) -> bool {
        matches!(&self.queue, Queue::Batch(queue) if queue.has_suspended())
    }

    /// Puts a waiting job into the queue, or puts it there anew.
    pub(crate) fn enqueue(&mut self, record: &JobRecord, state: &State, held: bool, now: Time) {
        match &mut self.queue {
            Queue::Push(queue) => queue.insert(&record.job, held, now),
            Queue::Pull(queue) => {
                queue.insert(state.job_for_workers(record), &state.pools[&record.pool].world);
                queue.note_task(record, state);
            }
            Queue::Batch(queue) => queue.insert(record, state.edge_locks.contains_key(&record.job.id), now),
            Queue::None => {}
        }
    }

    /// Whether a job with a live hold is left to whoever made the hold.
    pub(crate) fn heeds_holds(&self) -> bool {
        matches!(self.queue, Queue::Push(_))
    }

    pub(crate) fn dequeue(&mut self, job: &JobId) {
        match &mut self.queue {
            Queue::Push(queue) => queue.remove(job),
            Queue::Pull(queue) => queue.remove(job),
            Queue::Batch(queue) => queue.remove(job),
            Queue::None => {}
        }
    }

    /// Notes where a job stands beside the queue.
    pub(crate) fn note(&mut self, record: &JobRecord) {
        if let Queue::Batch(queue) = &mut self.queue {
            queue.note(record);
        }
    }

    /// Counts the elements of an array that wait without a record.
    pub(crate) fn count_folded(&mut self, array: &JobId, job: &landfall_model::Job, count: u32) {
        if let Queue::Batch(queue) = &mut self.queue {
            queue.count_folded(array, job, count);
        }
    }

    /// Forgets an array that is no longer known.
    pub(crate) fn forget_folded(&mut self, array: &JobId) {
        if let Queue::Batch(queue) = &mut self.queue {
            queue.forget_folded(array);
        }
    }

    /// Forgets a job that is no longer known, and whether it may be in a queue.
    pub(crate) fn forget(&mut self, job: &JobId, queues: bool) {
        match &mut self.queue {
            Queue::Batch(queue) => queue.forget(job),
            _ if queues => self.dequeue(job),
            _ => {}
        }
    }
}

/// For each node, its place among nodes that are otherwise equal: those that the order names first, then by id.
pub(crate) fn tie_ranks(nodes: &[Node], order: &[NodeId]) -> Vec<u32> {
    let named: BTreeMap<&NodeId, usize> = order.iter().enumerate().map(|(place, id)| (id, place)).collect();
    let place = |slot: u32| {
        let id = &nodes[slot as usize].id;
        (named.get(id).copied().unwrap_or(usize::MAX), id)
    };
    let mut ranked: Vec<u32> = (0..nodes.len() as u32).collect();
    ranked.sort_unstable_by_key(|slot| place(*slot));
    let mut ranks = vec![0; nodes.len()];
    for (rank, slot) in (0u32..).zip(ranked) {
        ranks[slot as usize] = rank;
    }
    ranks
}

impl Engine {
    /// Makes what a pool keeps ready anew; one that is gone needs nothing.
    pub(crate) fn set_up(&mut self, id: &PoolId) {
        let Some(state) = self.state.pools.get(id) else {
            self.pools.remove(id);
            return;
        };
        let around = Around {
            maintained: state.nodes.iter().any(|node| node.maintenance_at.is_some()),
            has_peer: self.state.peers.contains_key(id),
        };
        let Some(dispatcher) = Dispatcher::new(&state.pool, state.policy.as_deref(), around) else {
            return;
        };
        self.pools.insert(id.clone(), dispatcher);
        let jobs: Vec<JobId> = self
            .state
            .jobs
            .values()
            .filter(|record| record.pool == *id && !record.state.is_final())
            .map(|record| record.job.id.clone())
            .collect();
        for job in jobs {
            self.sync_job(&job);
        }
        let of_pool = self.state.folded.values().filter(|array| array.pool == *id);
        let arrays: Vec<JobId> = of_pool.map(|array| array.job.id.clone()).collect();
        arrays.iter().for_each(|array| self.sync_array(array));
    }

    /// Sends a proposal to the ledger; if it is committed, the nodes are told to start.
    pub(crate) fn propose(&mut self, proposal: Proposal) -> Result<Fence, Vec<Reason>> {
        let job = proposal.job.clone();
        let checked = self.state.check(self.now, &proposal);
        #[cfg(feature = "mutations")]
        let checked = self.mutated(&proposal, checked);
        match checked {
            Ok(counted) => {
                let task = self.state.job(&job).and_then(|record| self.state.task(record));
                let commit = Commit { task, ..proposal.commit(counted) };
                #[cfg(feature = "mutations")]
                if self.fault == Some(crate::mutation::Fault::AwardPlaced) {
                    self.emit(Event::Committed(Box::new(commit.clone())));
                }
                self.emit(Event::Committed(Box::new(commit)));
                self.send_start(&job);
                let fence = self.fence_of(&job).unwrap_or_else(|| unreachable!("a committed job is there"));
                Ok(fence)
            }
            Err(reasons) => {
                if self.is_in(&job, JobState::Pending) {
                    self.emit(Event::Rejected(job.clone()));
                    if self.state.job(&job).is_some_and(|record| record.past().rejections == STARVED_AFTER) {
                        self.want(Effect::Alert(Alert::ProposalStarved(job)));
                    }
                }
                Err(reasons)
            }
        }
    }

    /// Runs the cycle or tick of a pool that is due.
    pub(crate) fn cycle(&mut self, id: &PoolId) {
        let Some(state) = self.state.pools.get(id) else { return };
        let (every, dispatch) = match state.pool.dispatch {
            // Without a peer there is nothing in the queue of a pool that negotiates.
            Dispatch::Push | Dispatch::Negotiate => (state.pool.push.retry_interval_ms, Dispatch::Push),
            Dispatch::Pull => (state.pool.pull.tick_ms, Dispatch::Pull),
            Dispatch::Batch => (state.pool.batch.cycle_ms, Dispatch::Batch),
        };
        // The next tick stays on the beat of the first.
        let missed = self.now.since(state.next_cycle).get() / every.get().max(1);
        let beat = landfall_model::Millis::new(every.get().saturating_mul(missed + 1));
        let due = state.next_cycle <= self.now;
        let next = if due { state.next_cycle + beat } else { state.next_cycle };
        let freed_early = state.freed_early;
        self.emit(Event::Cycled { pool: id.clone(), next });
        match dispatch {
            Dispatch::Push | Dispatch::Negotiate => self.push_pass(id, true),
            Dispatch::Pull => {
                self.emit(Event::Round(id.clone()));
                self.reconcile(id);
            }
            Dispatch::Batch => self.batch_cycle(id, freed_early),
        }
    }

    /// The retry time of a waiting job has come.
    pub(crate) fn retry_due(&mut self, job: &JobId) {
        self.sync_job(job);
    }
}
