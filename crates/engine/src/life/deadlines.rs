//! What passes with time: start commands sent again, walltimes, checkpoints, kills, holds, silent nodes.

use landfall_model::{Dispatch, JobId, Millis, NodeId, NodeState, PoolId, Time};

use crate::effect::Effect;
use crate::engine::Engine;
use crate::event::{Event, HoldEnd};
use crate::record::{Cause, JobRecord, JobState, Phase};
use crate::timers::Timer;

/// A start command without answer goes out again after these times, and is given up after the last.
const START_AGAIN: [Millis; 4] = [Millis::secs(1), Millis::secs(2), Millis::secs(5), Millis::secs(10)];
/// A node is unknown after so much silence.
const UNKNOWN_AFTER: Millis = Millis::secs(30);
/// A node is down after so much silence.
const DOWN_AFTER: Millis = Millis::secs(120);
/// A node with a sensitive job is given longer.
const DOWN_AFTER_SENSITIVE: Millis = Millis::secs(600);

/// When something has to happen to a job by itself.
fn deadline(record: &JobRecord, now: Time) -> Option<Time> {
    let Some(run) = &record.run else {
        // Back-off and `not_before`.
        return record.job.retry_at.filter(|at| record.is_queued() && *at > now);
    };
    match record.state {
        JobState::Staging => {
            let again = usize::from(run.sends.max(1) - 1).min(START_AGAIN.len() - 1);
            Some(run.committed_at + START_AGAIN[again])
        }
        JobState::Running | JobState::Checkpointing => {
            let saving = run.saving.as_ref().map(|saving| saving.deadline);
            let notice = run.notice.as_ref().map(|(_, by)| *by).filter(|_| record.state == JobState::Running);
            [run.ends_at, saving, notice].into_iter().flatten().min()
        }
        JobState::Stopping => run.stop.as_ref().map(|stop| stop.kill_at),
        _ => None,
    }
}

impl Engine {
    pub(crate) fn set_job_timer(&mut self, job: &JobId) {
        let at = self.state.job(job).and_then(|record| deadline(record, self.now));
        self.timers.set(Timer::Job(job.clone()), at);
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

    /// Something may be due for a job.
    pub(crate) fn job_due(&mut self, job: &JobId) {
        let Some(record) = self.state.job(job) else { return };
        let now = self.now;
        match (&record.run, record.state) {
            (None, _) => self.retry_due(job),
            (Some(run), JobState::Staging) => {
                if usize::from(run.sends) < START_AGAIN.len() {
                    self.send_start(job);
                    self.emit(Event::StartSent(job.clone()));
                } else {
                    let silent: Vec<NodeId> = run
                        .nodes
                        .iter()
                        .filter(|at| at.phase == Phase::Assigned)
                        .map(|at| at.node.clone())
                        .collect();
                    silent.iter().for_each(|node| self.fault(node, true));
                    self.not_started(job);
                }
            }
            (Some(run), JobState::Running | JobState::Checkpointing) => {
                if run.ends_at.is_some_and(|end| end <= now) {
                    self.stop_job(job, Cause::Walltime);
                } else if let Some(saving) = run.saving.clone().filter(|saving| saving.deadline <= now) {
                    self.give_up_saving(job, saving.leaves);
                } else if let Some((cause, _)) = run.notice.clone().filter(|(_, by)| *by <= now) {
                    self.evict(job, cause);
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

    /// Tells the nodes of a job that have not answered to start it.
    pub(crate) fn send_start(&mut self, job: &JobId) {
        let Some(record) = self.state.job(job) else { return };
        let fence = self.state.fence(record);
        let resume = record.past.as_ref().is_some_and(|past| past.resumes);
        let silent: Vec<NodeId> = record
            .run
            .iter()
            .flat_map(|run| &run.nodes)
            .filter(|at| at.phase == Phase::Assigned)
            .map(|at| at.node.clone())
            .collect();
        for node in silent {
            let placement = self
                .state
                .node(&node)
                .and_then(|(node, _)| node.placements.iter().find(|placement| placement.job == *job))
                .cloned();
            if let Some(placement) = placement {
                let (fence, placement) = (fence.clone(), Box::new(placement));
                self.want(Effect::Start { fence, node, placement, resume });
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

    fn node_deadline(&self, id: &NodeId) -> Option<Time> {
        let (node, record) = self.state.node(id)?;
        let (pool, _) = self.state.places.get(id)?;
        let reports = self.state.pools.get(pool)?.pool.heartbeats;
        let silent = match node.state {
            _ if !reports => None,
            NodeState::Ready | NodeState::Degraded | NodeState::Draining => {
                Some(record.heard_at + UNKNOWN_AFTER)
            }
            NodeState::Unknown => self.down_after(id).map(|after| record.heard_at + after),
            NodeState::Booting | NodeState::Drained | NodeState::Down => None,
        };
        let beyond = silent.map(|at| at + Millis::new(1));
        [beyond, record.probe_at].into_iter().flatten().min()
    }

    /// How long a node may be silent before it counts as gone; `None` means for ever.
    fn down_after(&self, id: &NodeId) -> Option<Millis> {
        let (node, _) = self.state.node(id)?;
        let (pool, _) = self.state.places.get(id)?;
        let settings = &self.state.pools.get(pool)?.pool;
        if settings.dispatch == Dispatch::Pull {
            return Some(settings.pull.liveness_timeout_ms).filter(|timeout| !timeout.is_zero());
        }
        let sensitive = node
            .placements
            .iter()
            .any(|placement| self.state.job(&placement.job).is_some_and(|record| record.job.spec.sensitive));
        Some(if sensitive { DOWN_AFTER_SENSITIVE } else { DOWN_AFTER })
    }

    pub(crate) fn node_due(&mut self, id: &NodeId) {
        let Some((node, record)) = self.state.node(id) else { return };
        let reports = self.state.places.get(id).and_then(|(pool, _)| self.state.pools.get(pool));
        let silence = match reports {
            Some(pool) if !pool.pool.heartbeats => Millis::ZERO,
            _ => self.now.since(record.heard_at),
        };
        let state = node.state;
        let probe = record.probe_at.is_some_and(|at| at <= self.now);
        match state {
            NodeState::Ready | NodeState::Degraded | NodeState::Draining if silence > UNKNOWN_AFTER => {
                self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Unknown });
            }
            NodeState::Unknown if self.down_after(id).is_some_and(|after| silence > after) => {
                self.node_down(id);
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
}
