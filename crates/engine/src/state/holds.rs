//! How events keep things for jobs, and give them free again.

use landfall_model::{JobId, MilliGpu, Node, NodeId, Time};

use super::{Kept, State, Touched};
use crate::event::Hold;

impl State {
    pub(super) fn hold_made(&mut self, hold: &Hold, touched: &mut Touched) {
        self.next_hold = self.next_hold.max(hold.id + 1);
        if let Some((pool, slot, state)) = self.node_mut(&hold.node) {
            keep(&mut state.nodes[slot as usize], hold);
            touched.loads.push((pool.clone(), slot));
        }
        self.holds.insert(hold.id, hold.clone());
        touched.job(hold.job.clone(), true);
    }

    pub(super) fn hold_ended(&mut self, id: u64, touched: &mut Touched) {
        let Some(hold) = self.holds.remove(&id) else { return };
        let vacated = self.now;
        if let Some((pool, slot, state)) = self.node_mut(&hold.node) {
            give_back(&mut state.nodes[slot as usize], &hold);
            state.records[slot as usize].vacated_at = Some(vacated);
            touched.loads.push((pool.clone(), slot));
        }
        touched.job(hold.job, true);
    }

    pub(super) fn nodes_kept(
        &mut self,
        job: &JobId,
        nodes: &[NodeId],
        until: Time,
        victims: &[JobId],
        touched: &mut Touched,
    ) {
        let at = self.now;
        for id in nodes {
            if let Some((pool, slot, state)) = self.node_mut(id) {
                state.records[slot as usize].kept_for = Some(job.clone());
                touched.loads.push((pool.clone(), slot));
            }
        }
        let pool = self.jobs.get(job).map(|record| record.pool.clone());
        if let Some(state) = pool.and_then(|pool| self.pools.get_mut(&pool)) {
            let kept = Kept { nodes: nodes.to_vec(), until, victims: victims.to_vec() };
            state.kept.insert(job.clone(), kept);
            state.preempt_budget.spend(victims.len() as u32, at);
        }
        touched.job(job.clone(), true);
    }

    pub(super) fn nodes_freed(&mut self, job: &JobId, touched: &mut Touched) {
        let pool = self.jobs.get(job).map(|record| record.pool.clone());
        let kept = pool.and_then(|pool| self.pools.get_mut(&pool)).and_then(|state| state.kept.remove(job));
        for id in kept.into_iter().flat_map(|kept| kept.nodes) {
            if let Some((pool, slot, state)) = self.node_mut(&id) {
                state.records[slot as usize].kept_for = None;
                touched.loads.push((pool.clone(), slot));
            }
        }
    }
}

/// Takes what a hold keeps out of what the node has to give.
fn keep(node: &mut Node, hold: &Hold) {
    node.cpu_committed += hold.placement.cpu;
    node.ram_committed += hold.placement.ram;
    for share in &hold.placement.devices {
        if share.milli == MilliGpu::WHOLE {
            let held = node.hold_device(share.index, Some(hold.job.clone()));
            debug_assert!(held.is_ok(), "the ledger checked the device");
        }
        if let Some(gpu) = node.gpus.iter_mut().find(|gpu| gpu.index == share.index) {
            gpu.vram_committed += share.vram;
            gpu.milli_committed += share.milli;
        }
    }
}

/// Gives what a hold keeps back to the node.
pub(crate) fn give_back(node: &mut Node, hold: &Hold) {
    node.cpu_committed = node.cpu_committed.saturating_sub(hold.placement.cpu);
    node.ram_committed = node.ram_committed.saturating_sub(hold.placement.ram);
    for share in &hold.placement.devices {
        if share.milli == MilliGpu::WHOLE {
            let freed = node.hold_device(share.index, None);
            debug_assert!(freed.is_ok(), "the device was held");
        }
        if let Some(gpu) = node.gpus.iter_mut().find(|gpu| gpu.index == share.index) {
            gpu.vram_committed = gpu.vram_committed.saturating_sub(share.vram);
            gpu.milli_committed = gpu.milli_committed.saturating_sub(share.milli);
        }
    }
}
