//! The life of nodes: join, heartbeat, silence, drain, faults, quarantine, return.

use landfall_model::{
    Approval, Dispatch, JobId, JobKind, Mib, Millis, Node, NodeId, NodeState, PoolId, TenantId, Time,
};

use super::{refused, unknown};
use crate::effect::{Alert, Answer, Effect, Refused};
use crate::engine::Engine;
use crate::event::{Back, Event, HoldEnd};
use crate::heartbeat::Heartbeat;
use crate::input::NodeOrder;
use crate::record::{Cause, JobState, NodeRecord, Phase};
use landfall_model::life::Fence;

/// Starts that may fail before a node is taken out.
const START_FAILURES_MAX: u32 = 5;
/// If more than this part of a pool is taken out within [`QUARANTINE_WINDOW`], the jobs are the likelier fault.
const QUARANTINE_PART: (usize, usize) = (3, 10);
/// How far back nodes that were taken out are counted.
const QUARANTINE_WINDOW: Millis = Millis::secs(600);

impl Engine {
    pub(crate) fn join(&mut self, pool: PoolId, mut node: Box<Node>, running: Option<Vec<Fence>>) -> Answer {
        if !self.state.pools.contains_key(&pool) {
            return Answer::Refused(unknown("pool", pool.as_str()));
        }
        if let Some((home, _)) = self.state.places.get(&node.id).filter(|(home, _)| *home != pool) {
            let message = format!("node `{}` belongs to pool `{home}`", node.id);
            return Answer::Refused(Refused::new("other_pool", message, "take it out of that pool first"));
        }
        // What runs there is the ledger's business, not the node's.
        node.placements.clear();
        node.cpu_committed = landfall_model::MilliCpu::ZERO;
        node.ram_committed = landfall_model::Mib::ZERO;
        for gpu in &mut node.gpus {
            (gpu.vram_committed, gpu.milli_committed) = Default::default();
            gpu.holder = None;
        }
        let id = node.id.clone();
        let indices: Vec<u16> = node.gpus.iter().map(|gpu| gpu.index).collect();
        for index in indices {
            // A device that is there can be opened.
            let _ = node.hold_device(index, None);
        }
        self.drop_what_no_longer_fits(&node);
        let (known, drifted) = self.state.node(&id).map(|(node, _)| (node.state, node.drifted)).unzip();
        self.heard.insert(id.clone(), self.now);
        self.emit(Event::NodeJoined { pool, node });
        match known {
            None | Some(NodeState::Booting) => {
                self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Ready });
            }
            Some(NodeState::Down) => self.back_in_service(&id, NodeState::Ready),
            Some(NodeState::Unknown) => self.back_from_silence(&id),
            Some(NodeState::Ready | NodeState::Degraded | NodeState::Draining | NodeState::Drained) => {}
        }
        if drifted == Some(false) && self.state.node(&id).is_some_and(|(node, _)| node.drifted) {
            self.drifted(&id);
        }
        if let Some(running) = running {
            self.compare_running(&id, &running, true);
        }
        // A block that was bought begins to count with the first node of it that is heard.
        let block =
            self.state.node(&id).and_then(|(node, _)| node.block.as_ref()).map(|block| block.id.clone());
        if let Some(block) = block {
            self.block_changed(&block, landfall_capacity::BlockEvent::Heartbeat);
        }
        Answer::Done
    }

    /// Jobs and holds that the node as it is now has no room for are lost there.
    fn drop_what_no_longer_fits(&mut self, node: &Node) {
        // Holds leave before jobs, the newest first.
        while let Some((known, _)) = self.state.node(&node.id) {
            let newest =
                self.state.holds.values().rev().find(|hold| hold.node == node.id).map(|hold| hold.id);
            let short = known.cpu_committed > node.cpu_total
                || known.ram_committed > node.ram_total
                || known.gpus.iter().any(|gpu| {
                    let room = node.gpu(gpu.index).map_or(Mib::ZERO, landfall_model::Gpu::vram_total);
                    let used = gpu.is_closed() || !gpu.milli_committed.is_zero();
                    gpu.vram_committed > room || (used && node.gpu(gpu.index).is_none())
                });
            let Some(id) = newest.filter(|_| short) else { break };
            self.emit(Event::HoldEnded { id, why: HoldEnd::NodeGone });
        }
        loop {
            let Some((known, _)) = self.state.node(&node.id) else { return };
            let Err(job) = node.clone().carry_over(known) else { break };
            if let Some(fence) = self.fence_of(&job) {
                self.want(Effect::Stop { fence, node: node.id.clone(), grace: Millis::ZERO });
            }
            self.lost_on(&job, &node.id);
        }
    }

    pub(crate) fn heartbeat(&mut self, id: &NodeId, heartbeat: &Heartbeat, running: &[Fence]) -> Answer {
        let Some((node, record)) = self.state.node(id) else {
            return Answer::Refused(unknown("node", id.as_str()));
        };
        if !heartbeat.is_finite() {
            let message = format!("a heartbeat of node `{id}` has a number that is none");
            return Answer::Refused(Refused::new("not_finite", message, "leave out what is not known"));
        }
        if node.state == NodeState::Down {
            // It has to say what it is before it may serve again.
            return refused(
                "rejoin",
                format!("node `{id}` counts as gone"),
                "let it join again with a full report",
            );
        }
        let (state, drifted) = (node.state, node.drifted);
        let full = (!heartbeat.is_bare()).then_some(());
        let home = self.state.places.get(id).map(|(pool, _)| pool);
        let baseline = home.and_then(|pool| self.state.pools.get(pool)?.pool.baseline.as_ref());
        let policy = home.and_then(|pool| self.pools.get(pool)).map(|pool| pool.policy(JobKind::Build));
        let news = heartbeat.news(node, baseline, self.now.since(record.load_at), policy);
        self.heard.insert(id.clone(), self.now);
        if let Some(news) = news {
            self.emit(Event::Heard { node: id.clone(), heartbeat: Box::new(news) });
        }
        match state {
            NodeState::Unknown => self.back_from_silence(id),
            NodeState::Booting if full.is_some() => {
                self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Ready });
            }
            _ => {}
        }
        if !drifted && self.state.node(id).is_some_and(|(node, _)| node.drifted) {
            self.drifted(id);
        }
        self.compare_running(id, running, false);
        Answer::Done
    }

    /// A silent node is heard again: it is what it was before.
    fn back_from_silence(&mut self, id: &NodeId) {
        let probed = self.state.node(id).is_some_and(|(_, record)| record.probe_at.is_some());
        self.back_in_service(id, if probed { NodeState::Degraded } else { NodeState::Ready });
    }

    /// A node is there again; what an operator asked of it before still holds.
    fn back_in_service(&mut self, id: &NodeId, to: NodeState) {
        let drains = self.state.node(id).is_some_and(|(_, record)| record.drains);
        let to = if drains { NodeState::Draining } else { to };
        self.emit(Event::NodeMoved { node: id.clone(), to });
        self.drained_if_empty(id);
        self.requeue_limit_may_end(id);
    }

    /// A node's configuration is no longer what it should be; sensitive work leaves it alone from now on.
    fn drifted(&mut self, id: &NodeId) {
        self.want(Effect::Alert(Alert::ConformanceDrift(id.clone())));
        let sensitive = self
            .jobs_on(id)
            .iter()
            .any(|job| self.state.job(job).is_some_and(|record| record.job.spec.sensitive));
        if sensitive {
            self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Draining });
        }
    }

    /// Stops what the node runs under old fences; if it named all it runs, what it should run and does not is lost.
    fn compare_running(&mut self, id: &NodeId, running: &[Fence], complete: bool) {
        let mut taken_on = Vec::new();
        for fence in running {
            let run = self.run_of(&fence.job).filter(|_| self.is_current(fence));
            let phase = run.and_then(|run| run.nodes.iter().find(|at| at.node == *id)).map(|at| at.phase);
            match phase {
                None => {
                    self.want(Effect::Stop { fence: fence.clone(), node: id.clone(), grace: Millis::ZERO });
                }
                // What it says about the start is on its way, or lost and said again.
                Some(Phase::Assigned) => taken_on.push((fence.job.clone(), fence.attempt)),
                Some(_) => {}
            }
        }
        if taken_on.is_empty() {
            self.taken_on.remove(id);
        } else {
            self.taken_on.insert(id.clone(), (self.now, taken_on));
        }
        if !complete {
            return;
        }
        for job in self.jobs_on(id) {
            let there = running.iter().any(|fence| fence.job == job && self.is_current(fence));
            // Where it ended, or saved its part in order to leave, nobody expects it.
            let expected = self.run_of(&job).is_some_and(|run| {
                let leaves = run.saving.as_ref().is_some_and(|saving| saving.leaves.is_some());
                run.nodes.iter().filter(|at| at.node == *id).any(|at| match at.phase {
                    Phase::Started => true,
                    Phase::Checkpointed => !leaves,
                    Phase::Assigned | Phase::Ended => false,
                })
            });
            let assigned = self.is_in(&job, JobState::Staging)
                && self.run_of(&job).is_some_and(|run| {
                    run.nodes.iter().any(|at| at.node == *id && at.phase == Phase::Assigned)
                });
            if expected && !there {
                self.lost_on(&job, id);
            } else if assigned && !there {
                // Whether the command or its answer is still on its way, nobody can tell: a new attempt can.
                self.stop_on_nodes(&job, Millis::ZERO);
                let back = Back { cause: Cause::NotStarted, retry_at: None, counts: false, failed: false };
                self.back_or_fail(&job, back);
            }
        }
    }

    /// Jobs placed on a node, and those it was told ahead, by id.
    pub(crate) fn jobs_on(&self, id: &NodeId) -> Vec<JobId> {
        let Some((node, record)) = self.state.node(id) else { return Vec::new() };
        let placed = node.placements.iter().map(|placement| &placement.job);
        let mut jobs: Vec<JobId> = placed.chain(&record.ahead).cloned().collect();
        jobs.sort_unstable();
        jobs
    }

    pub(crate) fn order(&mut self, id: &NodeId, order: NodeOrder) -> Answer {
        let Some((node, _)) = self.state.node(id) else {
            return Answer::Refused(unknown("node", id.as_str()));
        };
        let (state, drifted) = (node.state, node.drifted);
        if order == NodeOrder::Return && drifted {
            // Whoever takes it back has looked at it.
            let acknowledged = Heartbeat { acknowledged: true, ..Heartbeat::default() };
            self.emit(Event::Heard { node: id.clone(), heartbeat: Box::new(acknowledged) });
        }
        let is_noted =
            |(node, record): (&Node, &NodeRecord)| node.maintenance_at.is_some() || record.why.is_some();
        let noted = self.state.node(id).is_some_and(is_noted);
        if order == NodeOrder::Return && noted {
            self.emit(Event::Maintenance { node: id.clone(), at: None, why: None });
        }
        match (order, state) {
            (NodeOrder::Drain, NodeState::Draining | NodeState::Drained) => {
                Answer::Ignored("draining".into())
            }
            (NodeOrder::Drain, NodeState::Down) => Answer::Ignored("down".into()),
            (NodeOrder::Drain, _) => {
                self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Draining });
                self.drained_if_empty(id);
                Answer::Done
            }
            (NodeOrder::Return, NodeState::Draining | NodeState::Drained | NodeState::Degraded) => {
                if self.state.node(id).is_some_and(|(node, _)| node.approval != Approval::Approved) {
                    let message = format!("node `{id}` is not approved");
                    return Answer::Refused(Refused::new("not_approved", message, "approve it first"));
                }
                self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Ready });
                Answer::Done
            }
            (NodeOrder::Return, _) if drifted || noted => Answer::Done,
            (NodeOrder::Return, _) => Answer::Ignored("in_service".into()),
            (NodeOrder::Leave, _) => {
                self.node_down(id);
                self.emit(Event::NodeLeft(id.clone()));
                self.heard.remove(id);
                self.taken_on.remove(id);
                Answer::Done
            }
        }
    }

    pub(crate) fn maintain(&mut self, id: NodeId, at: Option<Time>, why: Option<String>) -> Answer {
        let Some((node, record)) = self.state.node(&id) else {
            return Answer::Refused(unknown("node", id.as_str()));
        };
        if (node.maintenance_at, &record.why) == (at, &why) {
            return Answer::Ignored("so already".into());
        }
        self.emit(Event::Maintenance { node: id.clone(), at, why });
        // An instant that has come counts at once.
        self.node_due(&id);
        Answer::Done
    }

    /// A draining node without work is drained.
    pub(crate) fn drained_if_empty(&mut self, id: &NodeId) {
        let empty = self.state.node(id).is_some_and(|(node, record)| {
            node.state == NodeState::Draining && node.placements.is_empty() && record.ahead.is_empty()
        });
        if empty {
            self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Drained });
        }
    }

    /// A node is gone, and with it what ran or was kept there.
    pub(crate) fn node_down(&mut self, id: &NodeId) {
        self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Down });
        self.requeue_limit_may_end(id);
        let holds: Vec<u64> =
            self.state.holds.values().filter(|hold| hold.node == *id).map(|hold| hold.id).collect();
        for hold in holds {
            self.emit(Event::HoldEnded { id: hold, why: HoldEnd::NodeGone });
        }
        for job in self.jobs_on(id) {
            self.lost_on(&job, id);
        }
        let kept: Vec<JobId> = self
            .state
            .pools
            .values()
            .flat_map(|pool| &pool.kept)
            .filter(|(_, kept)| kept.nodes.contains(id))
            .map(|(job, _)| job.clone())
            .collect();
        for job in kept {
            self.emit(Event::NodesFreed(job));
        }
        let reports: Vec<JobId> =
            match self.state.places.get(id).and_then(|(pool, _)| self.state.pools.get(pool)) {
                Some(pool) => {
                    let of_node = pool.world.reports.iter().filter(|(_, reports)| reports.contains_key(id));
                    of_node.map(|(job, _)| job.clone()).collect()
                }
                None => Vec::new(),
            };
        for job in reports {
            self.emit(Event::Fetches { job, node: id.clone(), report: None });
        }
    }

    /// A node did wrong; too often, and it is taken out until a probe finds it well.
    pub(crate) fn fault(&mut self, id: &NodeId, start: bool) {
        // What else it loses while it rests is the same mishap.
        if !start && self.state.node(id).is_some_and(|(node, _)| node.cooldown_until > Some(self.now)) {
            return;
        }
        self.emit(Event::NodeFault { node: id.clone(), start, wrong_result: false });
        let Some((node, record)) = self.state.node(id) else { return };
        if !start || node.state != NodeState::Ready || record.start_failures < START_FAILURES_MAX {
            return;
        }
        let Some((pool, _)) = self.state.places.get(id).cloned() else { return };
        if self.quarantine_is_paused(&pool) {
            self.want(Effect::Alert(Alert::QuarantinePaused(pool)));
        } else {
            self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Degraded });
        }
    }

    /// Whether so many nodes were taken out lately that the jobs are the likelier fault.
    fn quarantine_is_paused(&self, pool: &PoolId) -> bool {
        let Some(pool) = self.state.pools.get(pool) else { return false };
        let lately = pool.nodes.iter().zip(&pool.records).filter(|(node, record)| {
            node.state == NodeState::Degraded && self.now.since(record.since) < QUARANTINE_WINDOW
        });
        let all = pool.present().count();
        (lately.count() + 1) * QUARANTINE_PART.1 > all * QUARANTINE_PART.0 && all > QUARANTINE_PART.0
    }

    pub(crate) fn probe(&mut self, id: &NodeId, good: bool) -> Answer {
        let Some((node, _)) = self.state.node(id) else {
            return Answer::Refused(unknown("node", id.as_str()));
        };
        let state = node.state;
        match (state, good) {
            (NodeState::Degraded, true) => {
                self.emit(Event::Probed { node: id.clone(), good });
                self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Ready });
                Answer::Done
            }
            (NodeState::Degraded, false) => {
                self.emit(Event::Probed { node: id.clone(), good });
                Answer::Done
            }
            (NodeState::Ready, false) => {
                self.emit(Event::NodeMoved { node: id.clone(), to: NodeState::Degraded });
                Answer::Done
            }
            _ => Answer::Ignored("as_it_was".into()),
        }
    }

    pub(crate) fn revoke_tenant(&mut self, id: &NodeId, tenant: &TenantId) -> Answer {
        let Some((node, _)) = self.state.node(id) else {
            return Answer::Refused(unknown("node", id.as_str()));
        };
        let mut next = node.clone();
        let Some((pool, _)) = self.state.places.get(id).cloned() else { return Answer::Done };
        next.tenants.remove(tenant);
        let pull = self.state.pools.get(&pool).is_some_and(|pool| pool.pool.dispatch == Dispatch::Pull);
        if !pull {
            let message = format!("node `{id}` is in a pool that has no tenant registrations");
            return refused("not_pull", message, "only workers of pull pools serve tenants");
        }
        self.emit(Event::NodeJoined { pool, node: Box::new(next) });
        for job in self.jobs_on(id) {
            let theirs =
                self.state.job(&job).is_some_and(|record| record.job.spec.tenant.as_ref() == Some(tenant));
            if theirs {
                self.stop_on_nodes(&job, Millis::ZERO);
                // It goes back once it is gone there, so that it never runs twice; whoever stops it already knows where it goes.
                if !self.is_in(&job, JobState::Stopping) {
                    let kill_at = self.now + self.kill_grace(&job);
                    self.emit(Event::Stopping { job, cause: Cause::TenantRevoked, kill_at });
                }
            }
        }
        Answer::Done
    }
}
