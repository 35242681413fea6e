//! A stretch of a journal begins with what was there: pools, tenants, blocks, nodes, and the jobs that had not ended.

use landfall_engine::array::{Array, Shape};
use landfall_engine::record::{JobRecord, JobState};
use landfall_engine::{Event, State, dag};
use landfall_model::{Mib, MilliCpu, Node, NodeState, Time};

use super::Recorder;

/// Arrays of which elements wait that do not follow each other.
const TORN: &str = "waiting elements of arrays of which some were taken out: left out";
/// Jobs that ran when the stretch began.
const UNDER_WAY: &str =
    "jobs that ran when the stretch began: they begin with it, and run for as long as they still did";

impl Recorder {
    /// Begins with a state instead of an empty cluster.
    pub fn begin_with(&mut self, state: &State, at: Time) {
        for pool in state.pools.values() {
            let (set, policy) = (Box::new(pool.pool.clone()), pool.policy.clone());
            self.take(0, at, Event::PoolSet { pool: set, policy });
        }
        for tenant in state.tenants.values() {
            self.take(0, at, Event::TenantSet(Box::new(tenant.tenant.clone())));
        }
        // Every pool knows all blocks.
        for block in state.pools.values().next().into_iter().flat_map(|pool| pool.world.blocks.values()) {
            self.take(0, at, Event::BlockSet(block.clone()));
        }
        for (id, pool) in &state.pools {
            for node in pool.present() {
                self.take(0, at, Event::NodeJoined { pool: id.clone(), node: Box::new(empty(node)) });
                if node.state != NodeState::Ready {
                    self.take(0, at, Event::NodeMoved { node: node.id.clone(), to: node.state });
                }
            }
        }
        // In the order in which they came, so that who came first is still first.
        let live = state.jobs.values().filter(|record| !record.state.is_final());
        let mut live: Vec<&JobRecord> = live.map(|record| &**record).collect();
        live.sort_by(|a, b| (a.job.queued_at, &a.job.id).cmp(&(b.job.queued_at, &b.job.id)));
        for record in &live {
            let (job, pool, user_hold) =
                (Box::new(record.job.clone()), record.pool.clone(), record.user_hold);
            self.take(0, at, Event::Submitted { job, pool, user_hold });
        }
        for array in state.folded.values().filter(|array| !array.folded.is_empty()) {
            self.begin_array(array, at);
        }
        for record in live {
            let id = &record.job.id;
            if let Some((join, edges)) = state.graph.open_edges(id) {
                let edges = edges.cloned().collect();
                let job = dag::NewJob { id: id.clone(), element: None, join, edges, mutex: Vec::new() };
                let tenant = record.job.spec.tenant.clone();
                self.take(0, at, Event::Linked(Box::new(dag::Submission { tenant, jobs: vec![job] })));
            }
            if record.state.is_placed() && record.state != JobState::Staging {
                if self.knows_job(id.as_str()) {
                    self.leave_out(UNDER_WAY);
                }
                self.take(0, at, Event::Started(id.clone()));
            }
        }
    }

    /// The elements of an array that were no jobs yet.
    fn begin_array(&mut self, array: &Array, at: Time) {
        let [(from, to)] = *array.folded.parts() else { return self.leave_out(TORN) };
        if to != array.shape.total() {
            return self.leave_out(TORN);
        }
        let shape = Shape { indices: array.shape.indices.rest(from), ids_to: array.shape.ids_to };
        self.take(
            0,
            at,
            Event::ArraySubmitted {
                job: Box::new(array.job.clone()),
                pool: array.pool.clone(),
                user_hold: array.user_hold,
                shape,
                after: array.after.clone(),
            },
        );
    }
}

/// A node without what is on it.
fn empty(node: &Node) -> Node {
    let mut node = node.clone();
    node.placements.clear();
    (node.cpu_committed, node.ram_committed) = (MilliCpu::ZERO, Mib::ZERO);
    for gpu in &mut node.gpus {
        (gpu.vram_committed, gpu.milli_committed) = Default::default();
        gpu.holder = None;
    }
    node
}
