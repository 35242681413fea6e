//! What passes with time: start commands sent again, walltimes, checkpoints, kills, holds, silent nodes.

use landfall_model::{Checkpoint, Dispatch, JobId, Millis, Node, NodeId, NodeState, PoolId, Time};

use crate::effect::{Alert, Effect};
use crate::engine::Engine;
use crate::event::{Event, HoldEnd};
use crate::record::{Cause, JobRecord, JobState, Phase, Run};
use crate::state::{GIVEN_UP_WINDOW, PoolState};
use crate::timers::Timer;

/// A start command without answer goes out again after these times, and is given up after the last. A node that names the attempt
/// has heard of it: it is given up when it was not named for the last of them. While the journal is slow, an answer stands in line
/// behind others, each of which waits to be stored: then the last of them counts from when that was over.
const START_AGAIN: [Millis; 4] = [Millis::secs(1), Millis::secs(2), Millis::secs(5), Millis::secs(10)];

/// When something has to happen to a job by itself.
fn deadline(record: &JobRecord, engine: &Engine) -> Option<Time> {
    let (now, listening_since) = (engine.now, engine.listening_since);
    let Some(run) = &record.run else {
        // Back-off and `not_before`.
        return record.job.retry_at.filter(|at| record.is_queued() && *at > now);
    };
    match record.state {
        JobState::Staging if run.ahead => {
            let at = run.committed_at.max(listening_since) + Engine::asked_back_after(run.sends);
            // After three quarters of an hour nobody asks any more.
            (run.sends < u8::MAX).then_some(at)
        }
        JobState::Staging => Some(engine.start_deadline(record, run)),
        JobState::Running | JobState::Checkpointing => {
            let grows = run.nodes.iter().any(|at| at.phase == Phase::Assigned);
            let start = grows.then(|| engine.start_deadline(record, run));
            let saving = run.saving.as_ref().map(|saving| saving.deadline);
            let notice = run.notice.as_ref().map(|(_, by)| *by).filter(|_| record.state == JobState::Running);
            [run.ends_at, saving, notice, start].into_iter().flatten().min()
        }
        JobState::Stopping => run.stop.as_ref().map(|stop| stop.kill_at),
        _ => None,
    }
}

/// The nodes of a run that have not said that it began.
fn silent_nodes(run: &Run) -> Vec<NodeId> {
    let silent = run.nodes.iter().filter(|at| at.phase == Phase::Assigned);
    silent.map(|at| at.node.clone()).collect()
}

impl Engine {
    pub(crate) fn set_job_timer(&mut self, job: &JobId) {
        let at = self.state.job(job).and_then(|record| {
            let at = deadline(record, self)?;
            Some(if record.run.is_some() { self.due_by(&record.pool, at) } else { at })
        });
        self.timers.set(Timer::Job(job.clone()), at);
        let saves = |record: &&JobRecord| {
            record.state == JobState::Running && record.job.spec.checkpoint == Checkpoint::Auto
        };
        if let Some(pool) = self.state.job(job).filter(saves).map(|record| record.pool.clone()) {
            self.set_save_timer(&pool);
        }
    }

    /// When a start goes out again to the nodes that did not answer, or is given up.
    fn start_deadline(&self, record: &JobRecord, run: &Run) -> Time {
        let again = usize::from(run.sends.max(1) - 1).min(START_AGAIN.len() - 1);
        let last = again == START_AGAIN.len() - 1;
        let since = if last { self.listening_since.max(self.stalled_at) } else { self.listening_since };
        let at = run.grown_at.unwrap_or(run.committed_at).max(since) + START_AGAIN[again];
        self.given_up_at(record).map_or(at, |given_up| at.max(given_up))
    }

    /// When a start that went out often enough is given up because nobody named it; `None` if that is no question.
    fn given_up_at(&self, record: &JobRecord) -> Option<Time> {
        let sent = |run: &&Run| !run.ahead && usize::from(run.sends) >= START_AGAIN.len();
        let run = record.run.as_deref().filter(sent)?;
        let at = (record.job.id.clone(), record.attempt);
        let silent = run.nodes.iter().filter(|node| node.phase == Phase::Assigned);
        let named = silent.map(|node| {
            let (heard, starts) = self.taken_on.get(&node.node)?;
            starts.contains(&at).then_some(*heard)
        });
        let last_named = named.collect::<Option<Vec<Time>>>()?.into_iter().min()?;
        Some(last_named + START_AGAIN[START_AGAIN.len() - 1])
    }

    pub(crate) fn set_all_timers(&mut self) {
        let jobs: Vec<JobId> = self.state.jobs.keys().cloned().collect();
        jobs.iter().for_each(|job| self.set_job_timer(job));
        let arrays: Vec<JobId> = self.state.folded.keys().cloned().collect();
        arrays.iter().for_each(|array| self.set_array_timer(array));
        let nodes: Vec<NodeId> = self.state.places.keys().cloned().collect();
        nodes.iter().for_each(|node| self.set_node_timer(node));
        for hold in self.state.holds.values() {
            self.timers.set(Timer::Hold(hold.id), Some(hold.expires_at));
        }
        let peers: Vec<PoolId> = self.state.peers.keys().cloned().collect();
        peers.iter().for_each(|pool| self.set_peer_timer(pool));
        for (id, pool) in &self.state.pools {
            for (job, kept) in &pool.kept {
                self.timers.set(Timer::Kept(id.clone(), job.clone()), Some(kept.until));
            }
        }
    }

    /// Deadlines that depend on since when somebody has listened: of placed jobs and of nodes. Others may be due already.
    pub(crate) fn set_listening_timers(&mut self) {
        let placed = self.state.jobs.iter().filter(|(_, record)| record.run.is_some());
        let placed: Vec<JobId> = placed.map(|(id, _)| id.clone()).collect();
        placed.iter().for_each(|job| self.set_job_timer(job));
        let nodes: Vec<NodeId> = self.state.places.keys().cloned().collect();
        nodes.iter().for_each(|node| self.set_node_timer(node));
    }

    /// By when something that was due at an instant happens: later, if nobody listened at that instant.
    pub fn due_by(&self, pool: &PoolId, at: Time) -> Time {
        let pool = self.state.pools.get(pool);
        let out = pool.map_or(Millis::ZERO, |pool| pool.pool.silence.node_unknown_after_ms);
        // What the nodes have to say about a time when nobody listened is heard first.
        if at < self.listening_since { self.listening_since + out } else { at }
    }

    /// Something may be due for a job.
    pub(crate) fn job_due(&mut self, job: &JobId) {
        let Some(record) = self.state.job(job) else { return };
        let now = self.now;
        match (&record.run, record.state) {
            (None, _) => self.retry_due(job),
            (Some(run), JobState::Staging) if run.ahead => self.ahead_due(job),
            (Some(_), JobState::Staging) => self.start_due(job),
            (Some(run), JobState::Running | JobState::Checkpointing) => {
                if run.ends_at.is_some_and(|end| end <= now) {
                    self.stop_job(job, Cause::Walltime);
                } else if let Some(saving) = run.saving.clone().filter(|saving| saving.deadline <= now) {
                    self.give_up_saving(job, saving.leaves);
                } else if let Some((cause, _)) = run.notice.clone().filter(|(_, by)| *by <= now) {
                    self.evict(job, cause);
                } else {
                    self.start_due(job);
                }
            }
            (Some(run), JobState::Stopping) if run.stop.as_ref().is_some_and(|stop| stop.kill_at <= now) => {
                self.stop_on_nodes(job, Millis::ZERO);
                self.all_stopped(job);
            }
            _ => {}
        }
        self.set_job_timer(job);
    }

    /// Sends a start again that nobody answered, or gives it up.
    fn start_due(&mut self, job: &JobId) {
        let Some((record, run)) =
            self.state.job(job).and_then(|record| Some((record, record.run.as_deref()?)))
        else {
            return;
        };
        let silent = silent_nodes(run);
        if silent.is_empty() || self.start_deadline(record, run) > self.now {
            return;
        }
        if usize::from(run.sends) < START_AGAIN.len() {
            self.send_start(job);
            self.emit(Event::StartSent(job.clone()));
            return;
        }
        silent.iter().for_each(|node| self.fault(node, true));
        match self.is_in(job, JobState::Staging) {
            true => self.not_started(job, true),
            false => self.grown_in_vain(job, &silent),
        }
    }

    /// Tells the nodes of a job that have not answered to start it.
    pub(crate) fn send_start(&mut self, job: &JobId) {
        let Some(record) = self.state.job(job) else { return };
        let fence = self.state.fence(record);
        let (_, resume) = record.resumes();
        for node in record.run.as_deref().map_or_else(Vec::new, silent_nodes) {
            let placement = self
                .state
                .node(&node)
                .and_then(|(node, _)| node.placements.iter().find(|placement| placement.job == *job))
                .cloned();
            if let Some(placement) = placement {
                let (fence, placement) = (fence.clone(), Box::new(placement));
                self.want(Effect::Start { fence, node, placement, resume, ahead: false });
            }
        }
    }

    pub(crate) fn hold_due(&mut self, id: u64) {
        #[cfg(feature = "mutations")]
        if self.fault == Some(crate::mutation::Fault::LeakedHold) {
            return;
        }
        if self.state.holds.get(&id).is_some_and(|hold| hold.expires_at <= self.now) {
            self.emit(Event::HoldEnded { id, why: HoldEnd::Expired });
        }
    }

    pub(crate) fn kept_due(&mut self, pool: &PoolId, job: &JobId) {
        let kept = self.state.pools.get(pool).and_then(|pool| pool.kept.get(job));
        if kept.is_some_and(|kept| kept.until <= self.now) {
            self.emit(Event::NodesFreed(job.clone()));
        }
    }

    pub(crate) fn set_node_timer(&mut self, node: &NodeId) {
        let at = self.node_deadline(node);
        self.timers.set(Timer::Node(node.clone()), at);
    }

    pub(crate) fn set_node_timers(&mut self, pool: &PoolId) {
        let nodes = self.state.pools.get(pool).map_or(&[][..], |pool| pool.nodes.as_slice());
        let nodes: Vec<NodeId> = nodes.iter().map(|node| node.id.clone()).collect();
        nodes.iter().for_each(|node| self.set_node_timer(node));
    }

    /// When a node has been silent since: when it was last heard, or when somebody began to listen.
    fn silent_since(&self, id: &NodeId) -> Option<Time> {
        #[cfg(feature = "mutations")]
        if self.fault == Some(crate::mutation::Fault::SilenceFromBefore) {
            return self.heard_at(id);
        }
        self.heard_at(id).map(|at| at.max(self.listening_since))
    }

    fn node_deadline(&self, id: &NodeId) -> Option<Time> {
        let (node, record) = self.state.node(id)?;
        let (pool, _) = self.state.places.get(id)?;
        let pool = self.state.pools.get(pool)?;
        let since = self.silent_since(id)?;
        let silent = match node.state {
            _ if !pool.pool.heartbeats => None,
            NodeState::Ready | NodeState::Degraded | NodeState::Draining => {
                Some(since + pool.pool.silence.node_unknown_after_ms)
            }
            NodeState::Unknown => {
                let held = self.held_back_until(node, pool).unwrap_or(since);
                self.down_after(id).map(|after| (since + after).max(held))
            }
            NodeState::Booting | NodeState::Drained | NodeState::Down => None,
        };
        let beyond = silent.map(|at| at + Millis::new(1));
        let works = matches!(node.state, NodeState::Ready | NodeState::Degraded);
        let maintenance = node.maintenance_at.filter(|_| works);
        let probe = record.probe_at.filter(|_| node.state == NodeState::Degraded);
        [beyond, probe, maintenance].into_iter().flatten().min()
    }

    /// How long a node may be silent before it counts as gone; `None` means for ever.
    fn down_after(&self, id: &NodeId) -> Option<Millis> {
        let (node, _) = self.state.node(id)?;
        let (pool, _) = self.state.places.get(id)?;
        let settings = &self.state.pools.get(pool)?.pool;
        if settings.dispatch != Dispatch::Pull && node.placements.is_empty() {
            return Some(settings.silence.node_down_after_ms);
        }
        let sensitive = node
            .placements
            .iter()
            .any(|placement| self.state.job(&placement.job).is_some_and(|record| record.job.spec.sensitive));
        settings.given_up_after(sensitive)
    }

    /// Until when a silent node keeps its jobs because enough of its pool were given up within the last minute.
    fn held_back_until(&self, node: &Node, pool: &PoolState) -> Option<Time> {
        let limit = pool.pool.silence.requeues_per_minute(pool.nodes.len())?;
        let latest = pool.given_up.iter().rev().nth(limit - 1)?;
        Some(*latest + GIVEN_UP_WINDOW).filter(|until| *until > self.now && !node.placements.is_empty())
    }

    pub(crate) fn node_due(&mut self, id: &NodeId) {
        let Some((node, record)) = self.state.node(id) else { return };
        let Some((pool_id, _)) = self.state.places.get(id).cloned() else { return };
        let Some(pool) = self.state.pools.get(&pool_id) else { return };
        let silence = match self.silent_since(id) {
            Some(since) if pool.pool.heartbeats => self.now.since(since),
            _ => Millis::ZERO,
        };
        let state = node.state;
        let probe = record.probe_at.is_some_and(|at| at <= self.now);
        let maintenance = node.maintenance_at.is_some_and(|at| at <= self.now);
        match state {
            NodeState::Ready | NodeState::Degraded | NodeState::Draining
                if silence > pool.pool.silence.node_unknown_after_ms =>
            {
                self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Unknown });
            }
            NodeState::Unknown if self.down_after(id).is_some_and(|after| silence > after) => {
                if self.held_back_until(node, pool).is_none() {
                    let worked = !node.placements.is_empty();
                    self.node_down(id);
                    if worked {
                        self.fault(id, false);
                    }
                } else if !pool.requeue_limited {
                    let waiting = self.overdue(&pool_id);
                    self.want(Effect::Alert(Alert::RequeueLimited { pool: pool_id.clone(), waiting }));
                    self.emit(Event::RequeueLimited { pool: pool_id, waiting });
                }
            }
            NodeState::Ready | NodeState::Degraded if maintenance => {
                self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Draining });
                self.drained_if_empty(id);
            }
            NodeState::Degraded if probe => {
                self.want(Effect::Probe(id.clone()));
                // Asked again later, should no answer come.
                self.emit(Event::Probed { node: id.clone(), good: false });
            }
            _ => {}
        }
        self.set_node_timer(id);
    }

    /// Nodes of a pool that were silent for so long that they would be given up, if there were fewer of them.
    pub fn overdue(&self, pool: &PoolId) -> u64 {
        let Some(pool) = self.state.pools.get(pool) else { return 0 };
        let overdue = |node: &&Node| {
            let since = self.silent_since(&node.id).filter(|_| node.state == NodeState::Unknown);
            let after = self.down_after(&node.id).filter(|_| !node.placements.is_empty());
            since.zip(after).is_some_and(|(since, after)| self.now.since(since) > after)
        };
        pool.nodes.iter().filter(overdue).count() as u64
    }

    /// The last node that waited to be given up is back or gone.
    pub(crate) fn requeue_limit_may_end(&mut self, of: &NodeId) {
        let Some((pool, _)) = self.state.places.get(of) else { return };
        if self.state.pools.get(pool).is_some_and(|pool| pool.requeue_limited) && self.overdue(pool) == 0 {
            self.emit(Event::RequeueLimited { pool: pool.clone(), waiting: 0 });
        }
    }
}
