//! Room for jobs that their node was told ahead ([`crate::life::ahead`]): they hold nothing, and get the room of one that ends.

use landfall_model::{JobId, Money, NodeId, NodeState, Placement};
use smallvec::SmallVec;

use super::{State, Touched};
use crate::array::parse_element_id;
use crate::event::Grant;
use crate::record::{JobRecord, Phase, Run};

impl State {
    /// Whether a node has room now for a job that it was told ahead.
    pub(crate) fn has_room(&self, id: &NodeId, record: &JobRecord) -> bool {
        let spec = &record.job.spec;
        self.node(id).is_some_and(|(node, _)| {
            spec.cpu_milli <= node.cpu_free()
                && spec.ram_mib <= node.ram_free()
                && !node.placements.iter().any(|placement| placement.exclusive_node)
        })
    }

    /// The first of those told ahead to a node that is wanted and has room there.
    pub(crate) fn first_ahead(
        &self,
        node: &NodeId,
        wanted: impl Fn(&JobRecord) -> bool,
    ) -> Option<&JobRecord> {
        let mut full = None;
        for job in &self.node(node)?.1.ahead {
            // Elements of an array ask for the same, so where one has no room, the hundred behind it need not be looked up.
            let array = parse_element_id(job).map(|(array, _)| array);
            if array.is_some() && array == full {
                continue;
            }
            let Some(record) = self.job(job) else { continue };
            if !self.has_room(node, record) {
                full = array;
            } else if wanted(record) {
                return Some(record);
            }
        }
        None
    }

    pub(super) fn tell_ahead(&mut self, id: &JobId, grants: &[Grant]) {
        for grant in grants {
            if let Some((_, slot, state)) = self.node_mut(&grant.node) {
                state.records[slot as usize].ahead.push(id.clone());
            }
        }
    }

    /// Gives a job that was told ahead its room.
    pub(super) fn take_room(&mut self, id: &JobId, touched: &mut Touched) {
        let at = self.now;
        let Some(record) = self.jobs.get_mut(id) else { return };
        let placement = Placement::of(id.clone(), &record.job.spec, &[]);
        let Some(run) = record.run.as_mut().filter(|run| run.ahead) else { return };
        (run.ahead, run.committed_at, run.sends) = (false, at, 1);
        let counts = [run.units, run.gpus, run.power_w];
        let grant = |at: &crate::record::RunNode| Grant {
            node: at.node.clone(),
            placement: placement.clone(),
            lender: None,
        };
        let grants: SmallVec<[Grant; 1]> = run.nodes.iter().map(grant).collect();
        for grant in &grants {
            self.no_longer_ahead(id, &grant.node);
        }
        self.hold(id, &grants, counts, touched);
        touched.jobs.push(id.clone());
    }

    /// A job leaves that was told ahead and holds nothing.
    pub(super) fn leave_ahead(&mut self, id: &JobId, run: &Run, price: Money, touched: &mut Touched) {
        let tenant = self.jobs.get(id).and_then(|record| record.job.spec.tenant.clone());
        self.spend(tenant.as_ref(), run, 0, price);
        for at in &run.nodes {
            self.no_longer_ahead(id, &at.node);
            // It held nothing, so nothing came free; but a node that is leaving waits for it as well.
            if let Some((pool, slot)) = self.places.get(&at.node)
                && self.pools[pool].nodes[*slot as usize].state != NodeState::Ready
            {
                touched.loads.push((pool.clone(), *slot));
            }
        }
    }

    /// The room that became free on a node goes to those that began there in place of others.
    pub(super) fn pass_room_on(&mut self, id: &NodeId, touched: &mut Touched) {
        let began = |record: &JobRecord| {
            record.run.as_ref().is_some_and(|run| run.nodes.iter().all(|at| at.phase > Phase::Assigned))
        };
        while let Some(next) = self.first_ahead(id, began).map(|record| record.job.id.clone()) {
            self.take_room(&next, touched);
        }
    }

    fn no_longer_ahead(&mut self, id: &JobId, node: &NodeId) {
        if let Some((_, slot, state)) = self.node_mut(node) {
            state.records[slot as usize].ahead.retain(|job| job != id);
        }
    }
}
