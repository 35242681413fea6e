//! The ledger: the only authority over what is placed where.
//!
//! Whoever wants to place a job makes a [`Proposal`]. The ledger checks it against the facts as they are now (not against
//! the age of the snapshot it was made from), all checks at once, and either commits it on all its nodes or refuses it
//! with every reason. A refused proposal leaves nothing behind.

use landfall_model::gpu_table::HardwareTier;
pub use landfall_model::reason::Reason;
use landfall_model::{
    Caps, Dispatch, JobId, JobSpec, Millis, Money, Name, Node, NodeState, Placement, PoolId, TenantId, Time,
};
use landfall_policy::rules::price::Tariff;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::event::{Commit, Grant};
use crate::loans;
use crate::quota;
use crate::record::{JobRecord, JobState, NodeRecord, StartKind};
use crate::state::{Measured, PoolState, State};
use crate::units::{MICRO, node_units};
use landfall_model::life::Breakdown;

/// Older measurements say nothing.
const MEASURED_MAX_AGE: Millis = Millis::secs(60);

/// What somebody asks the ledger to commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    pub job: JobId,
    /// The attempt it was made for.
    pub attempt: u32,
    /// What the job would get, on all its nodes, by node id.
    pub grants: SmallVec<[Grant; 1]>,
    pub kind: StartKind,
    pub why: Breakdown,
}

/// What a proposal counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Node units, in millionths.
    pub units: u64,
    pub gpus: u64,
    /// CPU that was asked for.
    pub cpu_milli: u64,
    /// Watts above idle.
    pub power_w: u64,
    pub price: Option<Money>,
}

impl Proposal {
    pub(crate) fn commit(self, counted: Counted) -> Commit {
        let Self { job, attempt: _, grants, kind, why } = self;
        let Counted { units, gpus, power_w, price, .. } = counted;
        Commit { job, grants, kind, units, gpus, power_w, price, why, ahead: false, task: None, beside: None }
    }
}

impl State {
    /// Checks a proposal and says what it would count for, or every reason against it.
    pub fn check(&self, now: Time, proposal: &Proposal) -> Result<Counted, Vec<Reason>> {
        let mut reasons = Vec::new();
        let record = self.jobs.get(&proposal.job);
        let current = record.filter(|record| {
            record.is_queued() && record.state == JobState::Pending && record.attempt == proposal.attempt
        });
        let Some(record) = current else { return Err(vec![Reason::StaleJob]) };
        self.check_nodes(now, proposal, &mut reasons);
        let counted = self.counted(proposal, record);
        if is_too_dear(&counted, &record.job.spec) {
            reasons.push(Reason::MaxPrice);
        }
        self.check_quota(now, &counted, record, &mut reasons);
        self.check_locks(record, &mut reasons);
        self.check_caps(now, &counted, record, &mut reasons);
        self.check_loans(proposal, record, &mut reasons);
        if reasons.is_empty() { Ok(counted) } else { Err(reasons) }
    }

    fn check_nodes(&self, now: Time, proposal: &Proposal, reasons: &mut Vec<Reason>) {
        let mut in_service = !proposal.grants.is_empty();
        let mut free = true;
        for (position, grant) in proposal.grants.iter().enumerate() {
            let twice = proposal.grants[..position].iter().any(|other| other.node == grant.node);
            let Some((node, record)) = self.node(&grant.node) else {
                in_service = false;
                continue;
            };
            in_service &= self.takes_work(now, node, &proposal.job);
            free &= !twice && self.is_free(node, record, grant, &proposal.job);
        }
        if !in_service {
            reasons.push(Reason::NodeState);
        }
        if !free {
            reasons.push(Reason::NodeTaken);
        }
    }

    /// Whether a node takes new work, as far as its state goes.
    pub(crate) fn takes_work(&self, now: Time, node: &Node, job: &JobId) -> bool {
        let degraded = || self.jobs.get(job).is_some_and(|record| record.job.spec.allow_degraded);
        node.is_open()
            && (node.state == NodeState::Ready || (node.state == NodeState::Degraded && degraded()))
            && node.block.as_ref().is_none_or(|block| block.usable_at(now))
    }

    fn is_free(&self, node: &Node, record: &NodeRecord, grant: &Grant, job: &JobId) -> bool {
        if record.kept_for.as_ref().is_some_and(|other| other != job) {
            return false;
        }
        let exclusive_in_the_way = if grant.placement.exclusive_node {
            !node.placements.is_empty()
                || self.holds.values().any(|hold| hold.node == node.id && hold.job != *job)
        } else {
            node.placements.iter().any(|placement| placement.exclusive_node)
        };
        if exclusive_in_the_way {
            return false;
        }
        let mut kept = self.holds.values().filter(|hold| hold.job == *job && hold.node == node.id).peekable();
        if kept.peek().is_none() {
            return node.fits(&grant.placement).is_ok();
        }
        // What is kept for this job is given back in the same step, so it counts as free.
        let mut open = node.clone();
        kept.for_each(|hold| crate::state::give_back(&mut open, hold));
        open.fits(&grant.placement).is_ok()
    }

    pub(crate) fn counted(&self, proposal: &Proposal, record: &JobRecord) -> Counted {
        let mut counted = Counted::default();
        for grant in &proposal.grants {
            let Some((node, _)) = self.node(&grant.node) else { continue };
            counted.units += node_units(node, &grant.placement);
            // What was asked for counts, as at submission and in the plan, also where the job has the whole node.
            counted.gpus += u64::from(record.job.spec.gpu_count);
            counted.cpu_milli = counted.cpu_milli.saturating_add(record.job.spec.cpu_milli.get());
            counted.power_w += extra_power(record.job.spec.power_w, node);
        }
        counted.price = self.price(proposal, record);
        counted
    }

    /// What a job would cost on its nodes, by the highest tier among them.
    fn price(&self, proposal: &Proposal, record: &JobRecord) -> Option<Money> {
        let tariff = self.tariff(&record.pool)?;
        let tier = |grant: &Grant| {
            let (node, _) = self.node(&grant.node)?;
            let devices: SmallVec<[u16; 8]> =
                grant.placement.devices.iter().map(|share| share.index).collect();
            Some(tariff.tier(node, &devices))
        };
        proposal.grants.iter().filter_map(tier).max().map(|tier| tariff.now(tier))
    }

    /// What jobs of a pool cost now.
    pub(crate) fn tariff(&self, pool: &PoolId) -> Option<Tariff> {
        let state = self.pools.get(pool)?;
        Tariff::of(&state.pool, state.world.surging.contains(pool))
    }

    /// What a job costs at least on the nodes that its pool has, whatever it gets there; `None` if jobs have no price.
    pub(crate) fn least_price(&self, spec: &JobSpec, pool: &PoolId) -> Option<Money> {
        let (state, tariff) = (self.pools.get(pool)?, self.tariff(pool)?);
        let lowest = if spec.gpu_count > 0 { HardwareTier::Entry } else { HardwareTier::CpuOnly };
        let tiers = state.present().filter_map(|node| tariff.highest(spec, node));
        // Most pools have few kinds of nodes, and none is cheaper than this.
        let mut least = None;
        for tier in tiers {
            least = Some(least.map_or(tier, |least| tier.min(least)));
            if least == Some(lowest) {
                break;
            }
        }
        Some(tariff.now(least.unwrap_or(lowest)))
    }

    fn check_quota(&self, now: Time, counted: &Counted, record: &JobRecord, reasons: &mut Vec<Reason>) {
        let Some(tenant) = record.job.spec.tenant.as_ref().and_then(|id| self.tenants.get(id)) else {
            return;
        };
        let kept = self.kept_of(&tenant.tenant.id, Some(&record.job.id));
        reasons.extend(quota::at_commit(tenant, &kept, counted, record.walltime(), now));
    }

    /// What whole nodes count for that are kept for jobs of a tenant, but for one.
    pub(crate) fn kept_of(&self, tenant: &TenantId, but: Option<&JobId>) -> Counted {
        let kept = self.pools.values().flat_map(|pool| &pool.kept).filter(|(job, _)| Some(*job) != but);
        let kept = kept.filter_map(|(job, kept)| Some((&self.job(job)?.job.spec, kept.nodes.len() as u64)));
        let theirs = kept.filter(|(spec, _)| spec.tenant.as_ref() == Some(tenant));
        theirs.fold(Counted::default(), |mut all, (spec, nodes)| {
            all.units += nodes * MICRO;
            all.gpus += nodes * u64::from(spec.gpu_count);
            all.cpu_milli += spec.cpu_milli.get().saturating_mul(nodes);
            all
        })
    }

    fn check_locks(&self, record: &JobRecord, reasons: &mut Vec<Reason>) {
        if !self.lock_holders(record).is_empty() {
            reasons.push(Reason::Mutex);
        }
    }

    /// The other jobs that have a lock which the job needs, each with the name of the lock.
    pub(crate) fn lock_holders(&self, record: &JobRecord) -> Vec<(Name, JobId)> {
        let spec = &record.job.spec;
        let own = spec.mutex.iter().map(|name| (spec.tenant.clone(), name.clone()));
        let edges = self.edge_locks_of(&record.job.id).into_iter().map(|name| (None, name));
        own.chain(edges)
            .filter_map(|key| {
                let holder = self.locks.get(&key).filter(|holder| **holder != record.job.id)?;
                Some((key.1, holder.clone()))
            })
            .collect()
    }

    fn check_caps(&self, now: Time, counted: &Counted, record: &JobRecord, reasons: &mut Vec<Reason>) {
        let Some(pool) = self.pools.get(&record.pool) else { return };
        if pool.pool.dispatch != Dispatch::Batch {
            return;
        }
        let (left, io) = (self.caps_left(pool, now), record.job.spec.io_bytes_s.get());
        if counted.power_w > 0 && left.power_w.is_some_and(|left| counted.power_w > left) {
            reasons.push(Reason::Power);
        }
        if io > 0 && left.io_bytes_s.is_some_and(|left| io > left) {
            reasons.push(Reason::Io);
        }
    }

    /// What a batch pool may still draw and move: its own caps and those of the cluster both hold.
    pub fn caps_left(&self, pool: &PoolState, now: Time) -> Caps {
        let left = |own: Option<u64>, common: Option<u64>, used: fn(&PoolState, Time) -> u64| {
            let own = own.map(|cap| cap.saturating_sub(used(pool, now)));
            let all = || self.pools.values().map(|pool| used(pool, now)).sum();
            own.into_iter().chain(common.map(|cap| cap.saturating_sub(all()))).min()
        };
        let settings = &pool.pool.batch;
        Caps {
            power_w: left(settings.power_cap_w, self.caps.power_w, PoolState::power_drawn),
            io_bytes_s: left(settings.io_cap.map(|cap| cap.get()), self.caps.io_bytes_s, PoolState::io_moved),
        }
    }

    fn check_loans(&self, proposal: &Proposal, record: &JobRecord, reasons: &mut Vec<Reason>) {
        let mut asked: Vec<(&PoolId, u64)> = Vec::new();
        for grant in &proposal.grants {
            let home = self.places.get(&grant.node).map(|(pool, _)| pool);
            match (&grant.lender, home) {
                (None, Some(home)) if *home == record.pool => {}
                (Some(lender), Some(home)) if lender == home && *home != record.pool => {
                    match asked.iter_mut().find(|(pool, _)| *pool == lender) {
                        Some((_, count)) => *count += 1,
                        None => asked.push((lender, 1)),
                    }
                }
                _ => {
                    reasons.push(Reason::Loan);
                    return;
                }
            }
        }
        let borrows = self.pools.get(&record.pool).is_some_and(|pool| pool.pool.loans.borrow);
        let granted = |&(lender, count): &(&PoolId, u64)| {
            self.pools.get(lender).is_some_and(|pool| count <= self.lendable(pool))
        };
        let allowed = borrows && loans::may_borrow(&record.job.spec).is_ok() && asked.iter().all(granted);
        if !asked.is_empty() && !allowed {
            reasons.push(Reason::Loan);
        }
    }

    /// How many nodes a pool lends now.
    pub fn lendable(&self, pool: &PoolState) -> u64 {
        let (mut home, mut lent, mut idle) = (0, 0, 0);
        for (node, record) in pool.nodes.iter().zip(&pool.records) {
            home += u64::from(!node.has_left());
            lent += u64::from(node.lent_to.is_some());
            idle += u64::from(is_idle(node, record));
        }
        let reserved: u64 = pool.reservations.values().map(|reservation| reservation.node_count()).sum();
        loans::lendable(&pool.pool.loans, home, idle.saturating_sub(reserved), lent)
    }
}

/// Whether a placement costs more than the job may.
pub(crate) fn is_too_dear(counted: &Counted, spec: &JobSpec) -> bool {
    counted.price.zip(spec.max_price).is_some_and(|(price, most)| price > most.get())
}

/// Whether a node is in service with nothing on it and kept for nobody.
pub fn is_idle(node: &Node, record: &NodeRecord) -> bool {
    node.state == NodeState::Ready
        && node.placements.is_empty()
        && node.cpu_committed.is_zero()
        && node.ram_committed.is_zero()
        && !node.has_holds()
        && record.kept_for.is_none()
}

/// Watts that a job adds to what the node draws when idle; `None` if nothing is known. Whoever plans counts like the
/// ledger, or plans would not come true.
pub fn known_extra_power(asked: Option<u64>, node: &Node) -> Option<u64> {
    match (asked, node.power) {
        (Some(asked), power) => Some(asked.saturating_sub(power.map_or(0, |power| power.idle_w))),
        (None, Some(power)) => Some(power.busy_w.saturating_sub(power.idle_w)),
        (None, None) => None,
    }
}

/// The same, with 0 for what is not known.
pub fn extra_power(asked: Option<u64>, node: &Node) -> u64 {
    known_extra_power(asked, node).unwrap_or(0)
}

/// What a job gets of a node: these devices, or all of it.
pub(crate) fn placement(record: &JobRecord, node: &Node, devices: &[u16]) -> Placement {
    match record.job.spec.exclusive {
        true => whole_node(record, node),
        false => Placement::of(record.job.id.clone(), &record.job.spec, devices),
    }
}

/// The whole of a node for a job that takes it alone, on the given devices.
pub fn whole_node(record: &JobRecord, node: &Node) -> Placement {
    let spec = &record.job.spec;
    let devices: Vec<u16> = node.gpus.iter().map(|gpu| gpu.index).collect();
    let mut placement = Placement::of(record.job.id.clone(), spec, &devices);
    placement.exclusive_node = true;
    placement.devices.iter_mut().for_each(|share| share.milli = landfall_model::MilliGpu::WHOLE);
    placement
}

impl PoolState {
    /// Watts drawn: all nodes idle and what placed jobs add, or what was measured lately if that is more.
    pub fn power_drawn(&self, now: Time) -> u64 {
        let idle = self.nodes.iter().filter(|node| node.state != NodeState::Down);
        let sum = idle.filter_map(|node| node.power).map(|power| power.idle_w).sum::<u64>() + self.power_w;
        sum.max(self.measured_lately(now).and_then(|measured| measured.power_w).unwrap_or(0))
    }

    /// Bytes per second that placed jobs move, or what was measured lately if that is more.
    pub fn io_moved(&self, now: Time) -> u64 {
        self.io_bytes_s.max(self.measured_lately(now).and_then(|measured| measured.io_bytes_s).unwrap_or(0))
    }

    fn measured_lately(&self, now: Time) -> Option<Measured> {
        self.measured.filter(|measured| now.since(measured.at) <= MEASURED_MAX_AGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::{Mib, MilliCpu, NodeId, NodePower};

    #[test]
    fn what_a_job_says_it_draws_counts_on_a_node_that_says_nothing() {
        let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::cores(1), Mib::gib(1));
        assert_eq!((extra_power(Some(500), &node), known_extra_power(None, &node)), (500, None));
        node.power = Some(NodePower { idle_w: 100, busy_w: 400 });
        assert_eq!([Some(500), Some(50), None].map(|asked| extra_power(asked, &node)), [400, 0, 300]);
    }
}
