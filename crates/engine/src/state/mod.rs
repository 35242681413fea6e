//! The state: everything the ledger knows, changed by events and by nothing else.
//!
//! ```text
//! inputs ──► decide ──► events ──► State::apply ──► state ──► (hash, snapshot, indexes)
//! ```
//!
//! Whoever decides reads the state and makes events; [`State::apply`] takes one event in. So a state can be rebuilt from
//! its journal, and two states made from the same events are equal byte for byte. Anything that can be found out from the
//! state again (queues in order, indexes of nodes, timers) is kept outside of it.

mod ahead;
mod arrays;
mod holds;
mod jobs;
mod nodes;
mod pools;
mod tasks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use landfall_model::{Caps, Digest, JobId, Money, Name, Node, NodeId, PoolId, Price, Tenant, TenantId, Time};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use smallvec::SmallVec;

use crate::array::Array;
use crate::codec;
use crate::dag::{Change, EdgeLock, Graph};
use crate::event::{Event, Hold};
use crate::life::capacity::Capacity;
use crate::quota::{Spending, hours};
use crate::record::{JobRecord, NodeRecord};
use landfall_model::life::Fence;
use landfall_negotiate::Peer;
use landfall_policy::rules::window::median;

pub(crate) use holds::give_back;
pub(crate) use nodes::GIVEN_UP_WINDOW;
pub use pools::{Kept, Measured, PoolState};

/// What a tenant has in all pools together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantState {
    /// The tenant as it was set.
    pub tenant: Tenant,
    /// Node units held, in millionths.
    pub units: u64,
    pub gpus: u64,
    /// CPU that its placed jobs asked for.
    #[serde(default)]
    pub cpu_milli: u64,
    /// Jobs that have not ended.
    pub jobs: u64,
    /// What placed jobs may use up, in GPU-milliseconds.
    pub gpu_ms_promised: u128,
    /// What those used beyond that, as of the last cycle: work without an end is promised a day.
    #[serde(default)]
    pub gpu_ms_beyond: u128,
    /// What placed jobs cost.
    #[serde(default)]
    pub price_promised: Money,
    /// What finished runs used.
    pub spending: Spending,
    /// How long its last bounded jobs ran against how long they might have.
    pub ratios: VecDeque<f64>,
}

/// Jobs whose actual run times are remembered per tenant.
const RATIOS_KEPT: usize = 50;
/// Fewer than these say nothing.
const RATIOS_NEEDED: usize = 5;

impl TenantState {
    fn new(tenant: Tenant) -> Self {
        Self {
            tenant,
            units: 0,
            gpus: 0,
            cpu_milli: 0,
            jobs: 0,
            gpu_ms_promised: 0,
            gpu_ms_beyond: 0,
            price_promised: Money::ZERO,
            spending: Spending::default(),
            ratios: VecDeque::new(),
        }
    }

    fn note_ratio(&mut self, ratio: f64) {
        if self.ratios.len() == RATIOS_KEPT {
            self.ratios.pop_front();
        }
        self.ratios.push_back(ratio);
    }

    /// Median of actual over requested time of its last jobs; 1 while there are too few.
    pub fn likely_factor(&self) -> f64 {
        let enough = self.ratios.len() >= RATIOS_NEEDED;
        median(self.ratios.iter().copied()).filter(|_| enough).unwrap_or(1.0)
    }

    /// What its jobs cost over the budget window, those that are placed included.
    pub fn spent(&self, now: Time) -> Price {
        Price::new(self.tenant.budget.money_used.get() + self.spending.cost(now) + self.price_promised)
    }

    /// What its jobs may still cost, if that is limited.
    pub fn money_left(&self, now: Time) -> Option<Money> {
        Some(self.tenant.budget.money?.get().saturating_sub(self.spent(now).get()))
    }

    /// GPU-hours that are left under the cap of the tenant, if it has one.
    pub fn gpu_hours_left(&self, now: Time) -> Option<f64> {
        let cap = self.tenant.quota.gpu_hours_cap?;
        // What was used before the ledger knew the tenant came with it.
        let used = self.tenant.budget.gpu_hours_used + self.spending.hours(now).0;
        Some(cap - used - hours(self.gpu_ms_promised + self.gpu_ms_beyond))
    }
}

/// Everything the ledger knows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// The instant of the last event.
    pub now: Time,
    /// Which start of the server this is.
    pub epoch: u32,
    /// Number of events so far: the version that snapshots name.
    pub version: u64,
    pub pools: BTreeMap<PoolId, PoolState>,
    pub tenants: BTreeMap<TenantId, TenantState>,
    pub jobs: BTreeMap<JobId, Box<JobRecord>>,
    /// Pool and position of each node.
    pub places: BTreeMap<NodeId, (PoolId, u32)>,
    /// Live holds by number.
    pub holds: BTreeMap<u64, Hold>,
    /// Number of the next hold.
    pub next_hold: u64,
    /// Who has which lock, by tenant and name.
    pub locks: BTreeMap<(Option<TenantId>, Name), JobId>,
    /// What all pools together may draw and move.
    #[serde(default)]
    pub caps: Caps,
    pub graph: Graph,
    /// Locks that jobs share because of a `mutex` edge.
    pub edge_locks: BTreeMap<JobId, Vec<EdgeLock>>,
    /// What is kept for buying capacity.
    pub capacity: Option<Box<Capacity>>,
    /// Peers of negotiated pools.
    pub peers: BTreeMap<PoolId, Peer>,
    /// Arrays whose elements were submitted one by one, and those elements in order.
    pub arrays: BTreeMap<JobId, Vec<JobId>>,
    /// Arrays that were submitted as one; their elements are jobs once they are about to start.
    #[serde(default)]
    pub folded: BTreeMap<JobId, Box<Array>>,
    /// Jobs that peers place among themselves, and what they call them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub announced: BTreeMap<JobId, Digest>,
}

/// What an event touched, for whoever keeps indexes.
#[derive(Debug, Default)]
pub struct Touched {
    /// Jobs whose record changed.
    pub jobs: SmallVec<[JobId; 2]>,
    /// Whether one of them may have been in a queue before, or be in one now.
    pub queues: bool,
    /// Arrays whose record changed, or what they follow; some may be named twice.
    pub arrays: SmallVec<[JobId; 1]>,
    /// Nodes on which something was placed or ended.
    pub loads: SmallVec<[(PoolId, u32); 2]>,
    /// Nodes that changed themselves.
    pub nodes: SmallVec<[(PoolId, u32); 2]>,
    /// Nodes that were only heard.
    pub heard: SmallVec<[(PoolId, u32); 1]>,
    /// Pools in which something else changed that policies read.
    pub worlds: BTreeSet<PoolId>,
    /// Pools that were set.
    pub pools: BTreeSet<PoolId>,
    /// What follows for jobs that wait for others.
    pub changes: Vec<Change>,
    /// What a peer wants done.
    pub peer: Vec<landfall_negotiate::Effect>,
}

impl Touched {
    fn job(&mut self, id: JobId, queues: bool) {
        self.jobs.push(id);
        self.queues |= queues;
    }
}

impl State {
    /// Takes one event in and says what it touched.
    ///
    /// An event names only what exists: events come from deciding on this state, or from the journal of one.
    pub fn apply(&mut self, at: Time, event: &Event) -> Touched {
        let before = self.now;
        self.now = before.max(at);
        self.version += 1;
        let mut touched = Touched::default();
        match event {
            Event::Epoch(epoch) => {
                self.epoch = *epoch;
                self.out_of_touch(before, &mut touched);
            }
            Event::ClockJumped { .. } | Event::Undecided(_) => {}
            Event::PoolSet { pool, policy } => self.set_pool(pool, policy.clone(), &mut touched),
            Event::TenantSet(tenant) => self.set_tenant(tenant, &mut touched),
            Event::ProvidersSet(providers) => {
                for (id, pool) in &mut self.pools {
                    pool.world.providers.clone_from(providers);
                    touched.worlds.insert(id.clone());
                }
            }
            Event::Measured { pool, power_w, io_bytes_s } => {
                let at = self.now;
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.measured = Some(pools::Measured { at, power_w: *power_w, io_bytes_s: *io_bytes_s });
                }
            }
            Event::CapsSet(caps) => self.caps = *caps,
            Event::PoolDeleted(pool) => self.delete_pool(pool, &mut touched),
            Event::TenantDeleted(tenant) => self.delete_tenant(tenant, &mut touched),
            Event::MixSet { pool, mix } => {
                self.in_world(pool, &mut touched, |world| world.mix.clone_from(mix));
            }
            Event::EnergyPrice(price) => {
                for (id, pool) in &mut self.pools {
                    pool.world.energy_price = *price;
                    touched.worlds.insert(id.clone());
                }
            }
            Event::InstanceSet { pool, instance } => {
                self.in_world(pool, &mut touched, |world| world.instance = (**instance).clone());
            }
            Event::WorldSet { pool, world } => {
                self.in_world(pool, &mut touched, |known| known.clone_from(world));
            }
            Event::BlockSet(block) => self.set_block(block, &mut touched),
            Event::History { pool, row } => self.in_world(pool, &mut touched, |world| {
                let rows = world.history.entry(row.workload.clone()).or_default();
                rows.push_front((**row).clone());
                rows.truncate(pools::HISTORY_ROWS_KEPT);
            }),
            Event::WorkShare { pool, tenant, share } => self.in_world(pool, &mut touched, |world| {
                if let Some(tenant) = world.tenants.get_mut(tenant) {
                    tenant.work_share = *share;
                }
            }),
            Event::Round(pool) => {
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.rounds += 1;
                }
            }
            Event::Surge { pool, on, next } => {
                if let Some(state) = self.pools.get_mut(pool) {
                    state.surge_next = *next;
                    let surging = &mut state.world.surging;
                    let changed = if *on { surging.insert(pool.clone()) } else { surging.remove(pool) };
                    if changed {
                        touched.worlds.insert(pool.clone());
                    }
                }
            }
            Event::Cycled { pool, next } => self.cycled(pool, *next),
            Event::NodeJoined { pool, node } => self.node_joined(pool, node, &mut touched),
            Event::Heard { node, heartbeat } => self.heard(node, heartbeat, &mut touched),
            Event::NodeMoved { node, to } => self.node_moved(node, *to, &mut touched),
            Event::RequeueLimited { pool, waiting } => {
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.requeue_limited = *waiting > 0;
                }
            }
            Event::NodeFault { node, start, wrong_result } => {
                self.node_fault(node, *start, *wrong_result, &mut touched);
            }
            Event::NodeServed { node, job, ran, speed_ratio, work } => {
                self.node_served(node, job, *ran, [*speed_ratio, *work], &mut touched);
            }
            Event::Probed { node, good } => self.probed(node, *good, &mut touched),
            Event::Maintenance { node, at, why } => self.maintenance(node, *at, why.as_ref(), &mut touched),
            Event::NodeLeft(node) => self.node_left(node, &mut touched),
            Event::Fetches { job, node, report } => self.fetches(job, node, *report, &mut touched),
            Event::HoldMade(hold) => self.hold_made(hold, &mut touched),
            Event::HoldEnded { id, .. } => self.hold_ended(*id, &mut touched),
            Event::NodesKept { job, nodes, until, victims } => {
                self.nodes_kept(job, nodes, *until, victims, &mut touched);
            }
            Event::NodesFreed(job) => self.nodes_freed(job, &mut touched),
            Event::Reserved { pool, reservation, .. } => {
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.reservations.insert(reservation.job.clone(), (**reservation).clone());
                }
            }
            Event::Unreserved { pool, job } => {
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.reservations.remove(job);
                }
            }
            Event::CapacitySet(capacity) => self.capacity = Some(capacity.clone()),
            Event::PeerSet { pool, peer } => {
                // The first one changes how the pool dispatches.
                if self.peers.insert(pool.clone(), (**peer).clone()).is_none() {
                    touched.pools.insert(pool.clone());
                }
            }
            Event::Announced { job, digest } => {
                self.announced.insert(job.clone(), *digest);
            }
            Event::PeerTold { pool, input } => {
                let at = self.now;
                if let Some(peer) = self.peers.get_mut(pool) {
                    touched.peer = peer.step(at, (**input).clone());
                }
            }
            about_a_job => self.apply_to_job(about_a_job, &mut touched),
        }
        touched
    }

    /// A digest of everything in the state.
    pub fn hash(&self) -> [u8; 32] {
        struct Feed(Sha256);
        impl std::io::Write for Feed {
            fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
                self.0.update(data);
                Ok(data.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut feed = Feed(Sha256::new());
        match codec::write_state(&mut feed, self) {
            Ok(()) => feed.0.finalize().into(),
            Err(error) => unreachable!("every part of the state can be written: {error}"),
        }
    }

    pub fn job(&self, id: &JobId) -> Option<&JobRecord> {
        self.jobs.get(id).map(|record| &**record)
    }

    pub fn pool(&self, id: &PoolId) -> Option<&PoolState> {
        self.pools.get(id)
    }

    /// The node of that id, and what the ledger keeps of it.
    pub fn node(&self, id: &NodeId) -> Option<(&Node, &NodeRecord)> {
        let (pool, slot) = self.places.get(id)?;
        let pool = self.pools.get(pool)?;
        Some((&pool.nodes[*slot as usize], &pool.records[*slot as usize]))
    }

    /// The fence under which the job is now.
    pub fn fence(&self, record: &JobRecord) -> Fence {
        Fence { job: record.job.id.clone(), attempt: record.attempt, epoch: self.epoch }
    }

    /// Timer rounds that a job of a pull pool has been pending.
    pub fn rounds(&self, record: &JobRecord) -> u32 {
        if !record.is_queued() {
            return record.job.rescore_count;
        }
        let rounds = self.pools.get(&record.pool).map_or(0, |pool| pool.rounds as i64);
        u32::try_from(rounds.saturating_sub(record.round_base)).unwrap_or(0)
    }

    fn in_world(
        &mut self,
        pool: &PoolId,
        touched: &mut Touched,
        change: impl FnOnce(&mut landfall_model::World),
    ) {
        if let Some(state) = self.pools.get_mut(pool) {
            change(&mut state.world);
            touched.worlds.insert(pool.clone());
        }
    }

    fn node_mut(&mut self, id: &NodeId) -> Option<(&PoolId, u32, &mut PoolState)> {
        let (pool, slot) = self.places.get(id)?;
        let state = self.pools.get_mut(pool)?;
        Some((pool, *slot, state))
    }
}
