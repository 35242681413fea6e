//! Whether a job could ever start in its pool: on all its nodes, idle, and the most that other pools lend.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::reason::Reason;
use landfall_model::{Job, Name, Node, NodeState, PoolId};
use landfall_policy::view::Pass;

use super::super::Queue;
use super::view::lends;
use crate::effect::Refused;
use crate::engine::Engine;
use crate::ledger::extra_power;
use crate::loans::{lendable, may_borrow};
use crate::state::PoolState;

impl Engine {
    /// Refuses a job that could never start.
    pub(crate) fn could_ever_fit(&mut self, job: &Job, id: &PoolId) -> Result<(), Refused> {
        let Some(Queue::Batch(queue)) = self.pools.get(id).map(|pool| &pool.queue) else { return Ok(()) };
        let known = queue.fits.get(&job.spec).copied();
        let fits = known.unwrap_or_else(|| against_ever(self, job, id).is_empty());
        if let Some(Queue::Batch(queue)) = self.pools.get_mut(id).map(|pool| &mut pool.queue)
            && known.is_none()
        {
            queue.fits.insert(job.spec.clone(), fits);
        }
        if fits {
            return Ok(());
        }
        let why = self.never(job, id).map_or("it has no nodes".to_owned(), |why| why.detail);
        let message = format!("not even all nodes of pool `{id}`, idle, could run job `{}`: {why}", job.id);
        Err(Refused::new("never_fits", message, "ask for less, or set wait_for_capacity = true"))
    }
}

/// What stands against a job even then; nothing if it could start.
pub(crate) fn against_ever(engine: &Engine, job: &Job, id: &PoolId) -> Vec<Reason> {
    let (state, spec) = (engine.state(), &job.spec);
    let Some((own, dispatcher)) = state.pools.get(id).zip(engine.pools.get(id)) else {
        return vec![Reason::Nodes];
    };
    let eligible = |pool: &PoolState| -> Vec<Node> {
        // As if in service and idle: what a node is decides, not how it is today.
        let mut nodes: Vec<_> = pool.present().cloned().collect();
        for node in &mut nodes {
            // A window passes, and whoever drifted is brought back to what it was.
            if node.drifted && node.acknowledged.is_some() {
                node.fingerprint.clone_from(&node.acknowledged);
            }
            (node.state, node.drifted, node.maintenance_at) = (NodeState::Ready, false, None);
        }
        let pass = Pass::of_parts(state.now, &own.world, &nodes, Default::default());
        nodes.iter().filter(|node| dispatcher.policy.is_eligible(&pass, job, node)).cloned().collect()
    };
    let mut nodes = eligible(own);
    let mut count = nodes.len() as u64;
    let others = state.pools.iter().filter(|(other, pool)| *other != id && lends(&own.pool, &pool.pool));
    for (_, pool) in others.filter(|_| may_borrow(spec).is_ok()) {
        let lent = eligible(pool);
        let most = lendable(&pool.pool.loans, pool.present().count() as u64, u64::MAX, 0);
        count += most.min(lent.len() as u64);
        nodes.extend(lent);
    }
    let needed = spec.nodes.min as usize;
    let mut against = Vec::new();
    if count < needed as u64 {
        against.push(Reason::Nodes);
    }
    let grouped = own.present().any(|node| node.group.is_some());
    let groups = [spec.max_span, own.pool.batch.max_span].into_iter().flatten().min();
    // The most nodes in as few groups as it may span, of one configuration where that must be.
    let together = |alike: Option<&Name>, groups: Option<u32>| {
        let mut sizes: BTreeMap<_, usize> = BTreeMap::new();
        for node in nodes.iter().filter(|node| alike.is_none() || node.fingerprint.as_ref() == alike) {
            let alone = (grouped && node.group.is_none()).then_some(&node.id);
            *sizes.entry((&node.group, alone)).or_default() += 1;
        }
        let mut sizes: Vec<usize> = sizes.into_values().collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.iter().take(groups.map_or(usize::MAX, |most| most as usize)).sum::<usize>() >= needed
    };
    let prints: BTreeSet<Option<&Name>> = match spec.sensitive {
        true => nodes.iter().map(|node| node.fingerprint.as_ref()).collect(),
        false => [None].into(),
    };
    if against.is_empty() && !prints.iter().any(|print| together(*print, groups)) {
        let spans = prints.iter().any(|print| together(*print, None));
        against.push(if spans { Reason::Span } else { Reason::Fingerprint });
    }
    let mut watts: Vec<u64> = nodes.iter().map(|node| extra_power(spec.power_w, node)).collect();
    watts.sort_unstable();
    let watts = watts.iter().take(needed).fold(0, |sum: u64, watts| sum.saturating_add(*watts));
    let settings = &own.pool.batch;
    let over = |asked: u64, idle: u64, cap: Option<u64>| {
        asked > 0 && cap.is_some_and(|cap| idle.saturating_add(asked) > cap)
    };
    let common = state.pools.values().map(idle_power).sum();
    if over(watts, idle_power(own), settings.power_cap_w) || over(watts, common, state.caps.power_w) {
        against.push(Reason::Power);
    }
    let io = spec.io_bytes_s.get();
    if over(io, 0, settings.io_cap.map(|cap| cap.get())) || over(io, 0, state.caps.io_bytes_s) {
        against.push(Reason::Io);
    }
    against
}

/// Watts that all nodes of a pool draw when idle.
fn idle_power(pool: &PoolState) -> u64 {
    pool.present().filter_map(|node| node.power).map(|power| power.idle_w).sum()
}
