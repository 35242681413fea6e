//! How events change nodes.

use landfall_model::{JobId, JobReport, Millis, Name, Node, NodeId, NodeState, PoolId, Time};
use landfall_policy::rules::node_record::{cooldown, corrected, same_hardware};

use super::{State, Touched};
use crate::heartbeat::Heartbeat;
use crate::record::NodeRecord;

/// How far back nodes that were given up count.
pub(crate) const GIVEN_UP_WINDOW: Millis = Millis::secs(60);
/// How often a degraded node is probed.
const PROBE_EVERY: Millis = Millis::secs(300);

impl State {
    pub(super) fn node_joined(&mut self, pool: &PoolId, node: &Node, touched: &mut Touched) {
        let at = self.now;
        if let Some((home, slot, state)) = self.node_mut(&node.id) {
            // What runs there, its record and its place stay; what it is comes from the new report.
            let known = &mut state.nodes[slot as usize];
            let mut next = node.clone();
            next.pool = Some(home.clone());
            next.lent_to.clone_from(&known.lent_to);
            next.karma = known.karma;
            // What was learned about other hardware tells nothing about this.
            if same_hardware(known, &next) {
                next.corrections.clone_from(&known.corrections);
            }
            next.acknowledged.clone_from(&known.acknowledged);
            if next.fingerprint.is_none() {
                next.fingerprint.clone_from(&known.fingerprint);
            }
            note_fingerprint(&mut next, state.pool.baseline.as_ref());
            next.cooldown_until = known.cooldown_until;
            next.maintenance_at = next.maintenance_at.or(known.maintenance_at);
            next.heartbeat_at = state.pool.heartbeats.then_some(at);
            next.state = known.state;
            let carried = next.carry_over(known);
            debug_assert!(carried.is_ok(), "jobs that no longer fit left before");
            *known = next;
            let record = &mut state.records[slot as usize];
            (record.heard_at, record.load_at) = (at, at);
            touched.nodes.push((home.clone(), slot));
            return;
        }
        let Some(state) = self.pools.get_mut(pool) else { return };
        let slot = state.nodes.len() as u32;
        let mut node = node.clone();
        node.pool = Some(pool.clone());
        node.heartbeat_at = state.pool.heartbeats.then_some(at);
        note_fingerprint(&mut node, state.pool.baseline.as_ref());
        if let Some(block) = &node.block {
            state.world.blocks.entry(block.id.clone()).or_insert_with(|| block.clone());
        }
        self.places.insert(node.id.clone(), (pool.clone(), slot));
        // It counts once its state says so.
        let joins_as = std::mem::replace(&mut node.state, NodeState::Booting);
        state.nodes.push(node);
        state.move_node(at, slot as usize, joins_as);
        state.records.push(NodeRecord::new(at));
        state.refresh_usage(at);
        touched.nodes.push((pool.clone(), slot));
    }

    /// Another server took over: nobody has heard anything of the nodes since the last event.
    pub(super) fn out_of_touch(&mut self, since: Time, touched: &mut Touched) {
        for (id, pool) in self.pools.iter_mut().filter(|(_, pool)| pool.pool.heartbeats) {
            for (slot, node) in (0..).zip(&mut pool.nodes) {
                node.heartbeat_at.get_or_insert(since);
                touched.heard.push((id.clone(), slot));
            }
        }
    }

    pub(super) fn heard(&mut self, id: &NodeId, heartbeat: &Heartbeat, touched: &mut Touched) {
        let at = self.now;
        let Some((pool, slot, state)) = self.node_mut(id) else { return };
        let record = &mut state.records[slot as usize];
        record.heard_at = at;
        if heartbeat.ram_used.is_some() || heartbeat.metrics.is_some() || !heartbeat.vram_used.is_empty() {
            record.load_at = at;
        }
        let node = &mut state.nodes[slot as usize];
        // From now on it is in touch for as long as its state says so.
        node.heartbeat_at = None;
        if heartbeat.is_bare() {
            touched.heard.push((pool.clone(), slot));
            return;
        }
        heartbeat.write_to(node, state.pool.baseline.as_ref());
        touched.nodes.push((pool.clone(), slot));
    }

    pub(super) fn node_moved(&mut self, id: &NodeId, to: NodeState, touched: &mut Touched) {
        let at = self.now;
        let Some((pool, slot, state)) = self.node_mut(id) else { return };
        let node = &state.nodes[slot as usize];
        if node.state == NodeState::Unknown && to == NodeState::Down && !node.placements.is_empty() {
            state.given_up.retain(|then| at.since(*then) < GIVEN_UP_WINDOW);
            state.given_up.push_back(at);
        }
        state.move_node(at, slot as usize, to);
        let record = &mut state.records[slot as usize];
        record.since = at;
        record.drains = match to {
            NodeState::Draining | NodeState::Drained => true,
            // Silence does not undo what an operator asked for.
            NodeState::Unknown | NodeState::Down => record.drains,
            NodeState::Booting | NodeState::Ready | NodeState::Degraded => false,
        };
        record.probe_at = match to {
            NodeState::Degraded => Some(at + PROBE_EVERY),
            // Silence makes nobody well.
            NodeState::Unknown => record.probe_at,
            _ => None,
        };
        touched.nodes.push((pool.clone(), slot));
        state.refresh_usage(at);
    }

    pub(super) fn maintenance(
        &mut self,
        id: &NodeId,
        at: Option<Time>,
        why: Option<&String>,
        touched: &mut Touched,
    ) {
        let Some((pool, slot, state)) = self.node_mut(id) else { return };
        state.records[slot as usize].why = why.cloned();
        let node = &mut state.nodes[slot as usize];
        if node.maintenance_at != at {
            node.maintenance_at = at;
            // Whether its policy has to look at such instants at all depends on its nodes.
            touched.pools.insert(pool.clone());
        }
        touched.nodes.push((pool.clone(), slot));
    }

    pub(super) fn node_fault(&mut self, id: &NodeId, start: bool, wrong: bool, touched: &mut Touched) {
        let at = self.now;
        let Some((pool, slot, state)) = self.node_mut(id) else { return };
        let record = &mut state.records[slot as usize];
        record.faults += 1;
        record.start_failures += u32::from(start);
        record.karma = if wrong { record.karma.proven_wrong() } else { record.karma.faulted() };
        let node = &mut state.nodes[slot as usize];
        node.karma = record.karma.karma;
        node.cooldown_until = Some(at + cooldown(record.faults));
        touched.nodes.push((pool.clone(), slot));
    }

    pub(super) fn node_served(
        &mut self,
        id: &NodeId,
        job: &JobId,
        ran: Millis,
        [speed_ratio, work]: [Option<f64>; 2],
        touched: &mut Touched,
    ) {
        let Some(spec) = self.jobs.get(job).map(|record| record.job.spec.clone()) else { return };
        let Some((pool, slot, state)) = self.node_mut(id) else { return };
        state.work.extend(spec.workload.clone().zip(work));
        let record = &mut state.records[slot as usize];
        record.faults = 0;
        record.karma = record.karma.served(ran);
        let node = &mut state.nodes[slot as usize];
        node.karma = record.karma.karma;
        node.cache.extend(spec.workload.clone());
        if let Some(ratio) = speed_ratio {
            let known = node.correction(&spec.runtime);
            node.corrections.insert(spec.runtime.clone(), corrected(known, ratio));
        }
        touched.nodes.push((pool.clone(), slot));
    }

    pub(super) fn probed(&mut self, id: &NodeId, good: bool, touched: &mut Touched) {
        let at = self.now;
        let Some((pool, slot, state)) = self.node_mut(id) else { return };
        let record = &mut state.records[slot as usize];
        if good {
            record.start_failures /= 2;
        }
        record.probe_at = (!good).then(|| at + PROBE_EVERY);
        touched.nodes.push((pool.clone(), slot));
    }

    /// A node that left keeps its position, so that indexes stay right; it is down and has nothing.
    pub(super) fn node_left(&mut self, id: &NodeId, touched: &mut Touched) {
        self.node_moved(id, NodeState::Down, touched);
        let Some((pool, slot, state)) = self.node_mut(id) else { return };
        let node = &mut state.nodes[slot as usize];
        let mut gone = Node::new(node.id.clone(), landfall_model::MilliCpu::ZERO, landfall_model::Mib::ZERO);
        gone.pool = Some(pool.clone());
        gone.state = NodeState::Down;
        gone.accepting = false;
        *node = gone;
        state.records[slot as usize].drains = false;
        state.records[slot as usize].why = None;
        let pool = pool.clone();
        for reports in state.world.reports.values_mut() {
            reports.remove(id);
        }
        state.world.reports.retain(|_, reports| !reports.is_empty());
        touched.nodes.push((pool, slot));
    }

    pub(super) fn fetches(
        &mut self,
        job: &JobId,
        node: &NodeId,
        report: Option<JobReport>,
        touched: &mut Touched,
    ) {
        let Some((pool, _)) = self.places.get(node) else { return };
        let Some(state) = self.pools.get_mut(pool) else { return };
        let of_job = state.world.reports.entry(job.clone()).or_default();
        match report {
            Some(report) => {
                of_job.insert(node.clone(), report);
            }
            None => {
                of_job.remove(node);
            }
        }
        if of_job.is_empty() {
            state.world.reports.remove(job);
        }
        touched.job(job.clone(), true);
    }
}

/// A node that joins is right as it is, unless something else is known to be right.
fn note_fingerprint(node: &mut Node, baseline: Option<&Name>) {
    if node.fingerprint.is_none() {
        return;
    }
    if node.acknowledged.is_none() {
        node.acknowledged.clone_from(&node.fingerprint);
    }
    node.drifted |= crate::heartbeat::drifts(node, baseline, node.fingerprint.as_ref());
}
