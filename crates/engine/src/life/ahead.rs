//! Short jobs, told ahead.
//!
//! Between the end of one short job and the start of the next lie a report, a write to the journal and a command: more time
//! than the job took. So a node that runs short elements of an array is told a few more of them before there is room, and begins
//! the next one by itself when one ends:
//!
//! ```text
//!             an element ends soon after it began, the rest of its array is next in the queue and no node is free
//!  Pending ─────────────────────────────────────────────────────────────────► Staging, ahead
//!     ▲   given back: the others did not end in time, or the node drains           │      │
//!     └────────────────────────────────────────────────────────────────────────────┘      │ Started, then the end of another:
//!                                                                                         ▼ it has that one's room
//!                                                                                       Running
//! ```
//!
//! - What is ahead holds nothing. A node says that the next one began *before* it says that the last one ended, so the room
//!   goes from one to the other in one step and nobody else gets it in between.
//! - An end that no beginning came before leaves room: the first of those ahead gets it, and the node is told to begin it.
//! - What is ahead is never taken away by force: it may have begun. The node is asked to give it back, and does if it can.
//! - Only elements that hold no devices and no locks, on one node; that may run a second time if a node is lost; and that may begin
//!   without the server.

use std::sync::Arc;

use landfall_model::{JobId, JobSpec, Lifecycle, Millis, NodeId, NodeState, OnDisconnect, Placement};

use crate::array::parse_element_id;
use crate::effect::Effect;
use crate::engine::Engine;
use crate::event::{Back, Commit, Event, Grant};
use crate::ledger::{Counted, Proposal, is_too_dear};
use crate::quota;
use crate::record::{Cause, JobRecord, JobState, Phase, Run, StartKind};
use landfall_model::life::Breakdown;

/// Jobs that take no longer are worth telling ahead.
const SHORT: Millis = Millis::new(250);
/// After how long what is ahead is asked back, and how often before it may count as lost; from then on it is asked back seldom.
const PATIENCE: Millis = Millis::secs(1);
const PATIENCE_TIMES: u8 = 10;
const SELDOM: Millis = Millis::secs(10);
/// Work that a node is told ahead for each job that runs there, at least one job.
const WORK_AHEAD: Millis = Millis::new(100);
/// Most that one node is told ahead.
const AHEAD_MAX: usize = 128;

/// An element of an array that ended soon after it began.
#[derive(Debug)]
pub(crate) struct ShortRun {
    job: JobId,
    node: NodeId,
    ran: Millis,
    why: Breakdown,
}

/// Whether a job may be told ahead, as far as the job itself is concerned.
fn may_be_ahead(spec: &JobSpec) -> bool {
    spec.gpu_count == 0
        && spec.nodes.min == 1
        && spec.nodes.max == 1
        && spec.mutex.is_empty()
        && spec.lifecycle == Lifecycle::Bounded
        && spec.on_disconnect != OnDisconnect::Stop
        && !spec.runs_once()
}

impl Engine {
    /// When what is ahead is asked back.
    pub(super) fn asked_back_after(sends: u8) -> Millis {
        let seldom = sends.saturating_sub(PATIENCE_TIMES);
        let often = PATIENCE.get() * u64::from(sends.max(1) - seldom);
        Millis::new(often + SELDOM.get() * u64::from(seldom))
    }

    /// An element ends; if it ran for a short time only, more of its array are told ahead once everything has its place.
    pub(super) fn note_short_run(&mut self, id: &JobId, node: &NodeId) {
        let Some(record) = self.state.job(id) else { return };
        let Some(run) = &record.run else { return };
        let ran = run.started_at.map_or(Millis::ZERO, |at| self.now.since(at));
        if ran <= SHORT && may_be_ahead(&record.job.spec) && parse_element_id(id).is_some() {
            let why = run.why.clone();
            self.short_runs.push(ShortRun { job: id.clone(), node: node.clone(), ran, why });
        }
    }

    /// Somebody ended on a node, and nobody began in its place: the first of those ahead gets the room.
    pub(super) fn start_ahead(&mut self, node: &NodeId) {
        let Some((at, _)) = self.state.node(node) else { return };
        let assigned = |run: &Run| run.nodes.iter().any(|at| at.phase == Phase::Assigned);
        let waits = |record: &JobRecord| {
            let staging = record.state == JobState::Staging && !record.user_hold;
            staging && record.run.as_deref().is_some_and(assigned)
        };
        let Some(next) = self.state.first_ahead(node, waits) else { return };
        let id = next.job.id.clone();
        if self.state.takes_work(self.now, at, &id) {
            self.emit(Event::TookRoom(id.clone()));
            self.send_start(&id);
        } else {
            self.ask_back(&id);
        }
    }

    /// Tells nodes that ran short elements of arrays what to begin next.
    pub(crate) fn tell_ahead(&mut self) {
        for short in std::mem::take(&mut self.short_runs) {
            self.top_up(&short);
        }
    }

    fn top_up(&mut self, short: &ShortRun) {
        let Some(record) = self.state.job(&short.job) else { return };
        let (pool, spec) = (record.pool.clone(), record.job.spec.clone());
        let Some((array, _)) = parse_element_id(&short.job) else { return };
        let each = self.state.pools.get(&pool).map_or(0, |state| state.pool.push.ahead as usize);
        // What ran for less than an instant counts as that.
        let each = each.min((WORK_AHEAD.get() / short.ran.get().max(1)).max(1) as usize);
        let Some((node, at)) = self.state.node(&short.node) else { return };
        let siblings = node.placements.iter().filter(|placement| is_element_of(&placement.job, array));
        let most = siblings.count().saturating_mul(each).min(AHEAD_MAX);
        let wanted = most.saturating_sub(at.ahead.len());
        let rests = node.cooldown_until > Some(self.now);
        let goes = node.maintenance_at.is_some_and(|at| self.now + spec.walltime_ms > at);
        let free = at.kept_for.is_none() && !node.has_holds() && !rests && !goes;
        if wanted == 0 || !free || !self.state.takes_work(self.now, node, &short.job) {
            return;
        }
        // The last ones of an array are spread over all nodes.
        for job in self.next_of_array(&pool, &spec, array, wanted, 2 * most) {
            let placement = Placement::of(job.clone(), &spec, &[]);
            let grant = Grant { node: short.node.clone(), placement: placement.clone(), lender: None };
            let Some(record) = self.state.job(&job) else { continue };
            let proposal = Proposal {
                job: job.clone(),
                attempt: record.attempt,
                grants: [grant].into_iter().collect(),
                kind: StartKind::Start,
                why: short.why.clone(),
            };
            let tenant = spec.tenant.as_ref().and_then(|id| self.state.tenants.get(id));
            let counted = self.state.counted(&proposal, record);
            // It adds nothing to what its tenant holds but its price, and one that holds too much already gets no more.
            let adds = Counted { price: counted.price, ..Counted::default() };
            let none = Counted::default();
            let over = |tenant| !quota::at_commit(tenant, &none, &adds, None, self.now).is_empty();
            if tenant.is_some_and(over) || is_too_dear(&counted, &spec) {
                return;
            }
            let fence = self.state.fence(record);
            let commit = Commit { ahead: true, ..proposal.commit(counted) };
            self.emit(Event::Committed(Box::new(commit)));
            let resume = self.state.job(&job).is_some_and(|record| record.resumes().1);
            let (node, placement) = (short.node.clone(), Box::new(placement));
            self.want(Effect::Start { fence, node, placement, resume, ahead: true });
        }
    }

    /// So many waiting elements of an array, if it is next in the queue and no node has room for it.
    fn next_of_array(
        &self,
        pool: &landfall_model::PoolId,
        spec: &Arc<JobSpec>,
        array: &str,
        wanted: usize,
        spared: usize,
    ) -> Vec<JobId> {
        let Some(class) = self.pools.get(pool).and_then(|dispatcher| dispatcher.next_in_line(spec)) else {
            return Vec::new();
        };
        let wanted = wanted.min(class.len().saturating_sub(spared));
        let locked = |job: &JobId| !self.state.edge_locks_of(job).is_empty();
        let jobs = class.iter().map(|(_, job)| job).take(wanted);
        jobs.filter(|job| is_element_of(job, array) && !locked(job)).cloned().collect()
    }

    /// What is ahead for too long is asked back; what its node does not answer for, and does not name when it is heard, is lost.
    /// A node that is not heard may hold it and begin it: that ends with the silence, or with the node.
    pub(super) fn ahead_due(&mut self, job: &JobId) {
        let Some(record) = self.state.job(job) else { return };
        let Some(run) = record.run.as_deref() else { return };
        let asked_at =
            run.committed_at.max(self.listening_since) + Self::asked_back_after(run.sends.saturating_sub(1));
        let is_lost = run.nodes.iter().all(|at| {
            let named = self.taken_on.get(&at.node);
            let named = named.is_some_and(|(_, starts)| starts.contains(&(job.clone(), record.attempt)));
            !named && self.heard_at(&at.node) > Some(asked_at)
        });
        if run.sends >= PATIENCE_TIMES && is_lost {
            self.stop_on_nodes(job, Millis::ZERO);
            let back = Back { cause: Cause::OfferRejected, retry_at: None, counts: false, failed: false };
            self.back_or_fail(job, back);
            return;
        }
        self.ask_back(job);
        self.emit(Event::StartSent(job.clone()));
    }

    /// A node that goes out of service is asked for all that it was told ahead.
    pub(crate) fn ask_back_where_it_goes(&mut self, node: &NodeId) {
        let Some((node, at)) = self.state.node(node) else { return };
        if node.state == NodeState::Draining || node.maintenance_at.is_some() {
            at.ahead.clone().iter().for_each(|job| self.ask_back(job));
        }
    }

    /// Whether nobody has said that it began.
    pub(super) fn is_ahead(&self, job: &JobId) -> bool {
        self.is_in(job, JobState::Staging) && self.run_of(job).is_some_and(|run| run.ahead)
    }

    pub(super) fn ask_back(&mut self, job: &JobId) {
        let Some(fence) = self.fence_of(job) else { return };
        let nodes = self
            .run_of(job)
            .map_or_else(Vec::new, |run| run.nodes.iter().map(|at| at.node.clone()).collect());
        for node in nodes {
            self.want(Effect::GiveBack { fence: fence.clone(), node });
        }
    }
}

fn is_element_of(job: &JobId, array: &str) -> bool {
    parse_element_id(job).is_some_and(|(of, _)| of == array)
}
