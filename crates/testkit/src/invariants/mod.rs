//! What must hold after every step, whatever happened: named checks that simulations, tests and a careful server run.
//!
//! Each check reads an [`Engine`] (or its [`State`]) and adds up afresh what the ledger keeps by adding and removing; it
//! shares no code with what it checks. What can only be seen over time is seen by a [`Watcher`], which is fed every step
//! and follows with a state of its own.

mod arrays;
mod fresh;
mod indexes;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{JobId, MilliGpu, NodeId, NodeState, PoolId, TenantId};

use landfall_engine::Engine;
use landfall_engine::record::{JobRecord, JobState, Phase};
use landfall_engine::state::State;

pub use watcher::Watcher;

/// Something that must never be is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {detail}")]
pub struct Violation {
    /// The name of the check.
    pub name: &'static str,
    pub detail: String,
}

impl Violation {
    pub(crate) fn err(name: &'static str, detail: impl Into<String>) -> Result<(), Self> {
        Err(Self { name, detail: detail.into() })
    }
}

type Found = Result<(), Violation>;

type UnitsByTenant = BTreeMap<Option<TenantId>, u64>;

/// Checks everything that one look at an engine can tell.
pub fn check_all(engine: &Engine) -> Found {
    check_state(engine.state())?;
    check_beside(engine)
}

/// What must hold of what the engine keeps beside its state, which may change without an event.
pub fn check_beside(engine: &Engine) -> Found {
    holds_live(engine)?;
    arrays::windows_are_open(engine)?;
    indexes::queues_match(engine)?;
    indexes::deadlines_have_timers(engine)
}

/// What must hold of the state, which changes by events alone.
fn check_state(state: &State) -> Found {
    no_device_given_twice(state)?;
    use_within_capacity(state)?;
    exclusive_nodes_alone(state)?;
    gang_all_or_nothing(state)?;
    tenant_sums(state)?;
    pool_sums(state)?;
    locks_held_by_placed_jobs(state)?;
    kept_nodes(state)?;
    loans_match(state)?;
    one_state_per_job(state)?;
    none_forgotten(state)?;
    reservations_of_waiting_jobs(state)?;
    positions_of_nodes(state)?;
    arrays::tally_adds_up(state)
}

pub use arrays::{tally_adds_up, windows_are_open};
pub use indexes::{deadlines_have_timers, queues_match};

/// No device is given to two jobs that both think it theirs alone, nor to one alone and another in part.
pub fn no_device_given_twice(state: &State) -> Found {
    const NAME: &str = "no_device_given_twice";
    let holds = fresh::holds_by_node(state);
    for pool in state.pools.values() {
        for node in &pool.nodes {
            for gpu in &node.gpus {
                let placed = node.placements.iter().flat_map(|placement| {
                    placement.devices.iter().map(move |share| (&placement.job, share, false))
                });
                let held = holds.get(&node.id).into_iter().flatten().flat_map(|hold| {
                    hold.placement.devices.iter().map(move |share| (&hold.job, share, true))
                });
                let on: Vec<_> =
                    placed.chain(held).filter(|(_, share, _)| share.index == gpu.index).collect();
                let alone: Vec<_> =
                    on.iter().filter(|(_, share, _)| share.milli == MilliGpu::WHOLE).collect();
                if !alone.is_empty() && on.len() > 1 {
                    return Violation::err(NAME, format!("{} device {}: {on:?}", node.id, gpu.index));
                }
                let holder = alone.iter().find(|(_, _, held)| !held).map(|(job, ..)| *job);
                let hold = alone.iter().find(|(_, _, held)| *held).map(|(job, ..)| *job);
                if gpu.holder.as_ref() != holder || gpu.hold() != hold {
                    let marks = (&gpu.holder, gpu.hold());
                    return Violation::err(
                        NAME,
                        format!("{} device {} is marked {marks:?} but has {on:?}", node.id, gpu.index),
                    );
                }
            }
        }
    }
    Ok(())
}

/// What a node has given away is what its placements and holds add up to, and no more than it has.
pub fn use_within_capacity(state: &State) -> Found {
    const NAME: &str = "use_within_capacity";
    let holds = fresh::holds_by_node(state);
    for pool in state.pools.values() {
        for node in &pool.nodes {
            let sums = fresh::sums_on(node, holds.get(&node.id).map_or(&[][..], Vec::as_slice));
            if (node.cpu_committed.get(), node.ram_committed.get()) != (sums.cpu, sums.ram) {
                return Violation::err(
                    NAME,
                    format!(
                        "{} says {} and {}, adds up to {sums:?}",
                        node.id, node.cpu_committed, node.ram_committed
                    ),
                );
            }
            if sums.cpu > node.cpu_total.get() || sums.ram > node.ram_total.get() {
                return Violation::err(
                    NAME,
                    format!("{} has {} and {}, gave {sums:?}", node.id, node.cpu_total, node.ram_total),
                );
            }
            for gpu in &node.gpus {
                let (vram, milli) = sums.devices.get(&gpu.index).copied().unwrap_or_default();
                if (gpu.vram_committed.get(), gpu.milli_committed.get()) != (vram, milli)
                    || vram > gpu.vram_total().get()
                    || milli > MilliGpu::WHOLE.get()
                {
                    return Violation::err(
                        NAME,
                        format!("{} device {gpu:?} adds up to {vram} MiB, {milli}", node.id),
                    );
                }
            }
            if sums.devices.keys().any(|index| node.gpu(*index).is_none()) {
                return Violation::err(NAME, format!("{} has work on a device it has not", node.id));
            }
        }
    }
    Ok(())
}

/// A job that has a node to itself shares it with nobody.
pub fn exclusive_nodes_alone(state: &State) -> Found {
    for node in state.pools.values().flat_map(|pool| &pool.nodes) {
        if node.placements.len() > 1 && node.placements.iter().any(|placement| placement.exclusive_node) {
            let jobs: Vec<_> = node.placements.iter().map(|placement| &placement.job).collect();
            return Violation::err("exclusive_nodes_alone", format!("{}: {jobs:?}", node.id));
        }
    }
    Ok(())
}

/// A placed job is on exactly the nodes of its run, with a placement on each, or is told ahead there; nothing else is on any
/// node.
pub fn gang_all_or_nothing(state: &State) -> Found {
    const NAME: &str = "gang_all_or_nothing";
    let mut on: BTreeMap<&JobId, BTreeSet<&NodeId>> = BTreeMap::new();
    for node in state.pools.values().flat_map(|pool| &pool.nodes) {
        for placement in &node.placements {
            if !on.entry(&placement.job).or_default().insert(&node.id) {
                return Violation::err(NAME, format!("{} is on {} twice", placement.job, node.id));
            }
        }
    }
    let mut ahead: BTreeMap<&JobId, BTreeSet<&NodeId>> = BTreeMap::new();
    for (node, record) in state.pools.values().flat_map(|pool| pool.nodes.iter().zip(&pool.records)) {
        for job in &record.ahead {
            if !ahead.entry(job).or_default().insert(&node.id) {
                return Violation::err(NAME, format!("{job} is ahead on {} twice", node.id));
            }
        }
    }
    for (id, record) in &state.jobs {
        let is_ahead = record.run.as_ref().is_some_and(|run| run.ahead);
        let (with, without) = if is_ahead { (&mut ahead, &on) } else { (&mut on, &ahead) };
        if without.contains_key(id) {
            return Violation::err(NAME, format!("{id} holds what it should not, ahead: {is_ahead}"));
        }
        let placed = with.remove(id).unwrap_or_default();
        let run: BTreeSet<&NodeId> =
            record.run.iter().flat_map(|run| &run.nodes).map(|at| &at.node).collect();
        let listed = record.run.iter().map(|run| run.nodes.len()).sum::<usize>();
        if record.state.is_placed() != record.run.is_some() || placed != run || listed != run.len() {
            return Violation::err(
                NAME,
                format!("{id} is {:?}, its run has {run:?}, nodes have it on {placed:?}", record.state),
            );
        }
        let wanted = record.job.spec.nodes;
        if record.run.is_some() && !(wanted.min as usize..=wanted.max as usize).contains(&listed) {
            return Violation::err(NAME, format!("{id} wants {wanted:?} nodes and has {listed}"));
        }
    }
    match on.pop_first().or_else(|| ahead.pop_first()) {
        Some((job, nodes)) => Violation::err(NAME, format!("nobody knows {job}, which is on {nodes:?}")),
        None => Ok(()),
    }
}

/// What tenants hold is what their jobs add up to.
pub fn tenant_sums(state: &State) -> Found {
    let mut sums: BTreeMap<&TenantId, fresh::Held> = BTreeMap::new();
    for record in state.jobs.values() {
        if let Some(tenant) = &record.job.spec.tenant {
            sums.entry(tenant).or_default().add(record);
        }
    }
    for array in state.folded.values() {
        if let Some(tenant) = &array.job.spec.tenant {
            sums.entry(tenant).or_default().jobs += array.folded.iter().count() as u64;
        }
    }
    for (id, tenant) in &state.tenants {
        let held = sums.remove(id).unwrap_or_default();
        let kept = fresh::Held {
            units: tenant.units,
            gpus: tenant.gpus,
            cpu_milli: tenant.cpu_milli,
            jobs: tenant.jobs,
            gpu_ms: tenant.gpu_ms_promised,
            price: tenant.price_promised,
        };
        if held != kept {
            return Violation::err(
                "tenant_sums",
                format!("{id} is said to hold {kept:?}, its jobs add up to {held:?}"),
            );
        }
    }
    Ok(())
}

/// What pools count (units by tenant, watts, storage traffic) is what their jobs add up to.
pub fn pool_sums(state: &State) -> Found {
    const NAME: &str = "pool_sums";
    let mut held: BTreeMap<&PoolId, (UnitsByTenant, u64, u64)> = BTreeMap::new();
    for record in state.jobs.values() {
        let Some(run) = record.run.as_ref().filter(|run| !run.ahead) else { continue };
        let sums = held.entry(&record.pool).or_default();
        if run.units > 0 {
            *sums.0.entry(record.job.spec.tenant.clone()).or_default() += run.units;
        }
        sums.1 += run.power_w;
        sums.2 += record.job.spec.io_bytes_s.get();
        let gpus = fresh::gpus_of(state, record);
        if run.gpus != gpus {
            return Violation::err(NAME, format!("{} counts {} GPUs, not {gpus}", record.job.id, run.gpus));
        }
    }
    for (id, pool) in &state.pools {
        let sums = held.remove(id).unwrap_or_default();
        if (&pool.held, pool.power_w, pool.io_bytes_s) != (&sums.0, sums.1, sums.2) {
            let kept = (&pool.held, pool.power_w, pool.io_bytes_s);
            return Violation::err(NAME, format!("{id} counts {kept:?}, its jobs add up to {sums:?}"));
        }
    }
    Ok(())
}

/// A lock is held exactly while a job that takes it is placed.
pub fn locks_held_by_placed_jobs(state: &State) -> Found {
    let mut wanted = BTreeMap::new();
    for record in state.jobs.values().filter(|record| record.state.is_placed()) {
        for key in fresh::locks_of(state, record) {
            if let Some(other) = wanted.insert(key.clone(), record.job.id.clone()) {
                let detail = format!("{other} and {} are placed and both take {key:?}", record.job.id);
                return Violation::err("locks_held_by_placed_jobs", detail);
            }
        }
    }
    if wanted == state.locks {
        return Ok(());
    }
    Violation::err("locks_held_by_placed_jobs", format!("held are {:?}, not {wanted:?}", state.locks))
}

/// A hold is for a waiting job in its present attempt, or for an award of the pool's peer, on a node that is there, and ends by itself.
pub fn holds_live(engine: &Engine) -> Found {
    let state = engine.state();
    for hold in state.holds.values() {
        let waits = state
            .job(&hold.job)
            .is_some_and(|record| record.state == JobState::Pending && record.attempt == hold.attempt);
        let peer = state.peers.get(&hold.pool);
        let awarded = hold.award.is_some_and(|digest| {
            let hosted = peer.and_then(|peer| peer.host().jobs().get(&digest));
            hosted.is_some_and(|hosted| hosted.stage.fence().is_some())
        });
        let waits = if hold.award.is_some() { awarded } else { waits };
        let there = state.node(&hold.node).is_some_and(|(node, _)| node.state != NodeState::Down);
        let ends = engine.next_wake().is_some_and(|wake| wake <= hold.expires_at.max(engine.now()));
        if !waits || !there || !ends || hold.id >= state.next_hold {
            let detail = format!("{hold:?}: waits {waits}, node there {there}, ends {ends}");
            return Violation::err("holds_live", detail);
        }
    }
    Ok(())
}

/// Nodes kept for a job say so, and no others do.
pub fn kept_nodes(state: &State) -> Found {
    let mut wanted: BTreeMap<&NodeId, &JobId> = BTreeMap::new();
    for (job, kept) in state.pools.values().flat_map(|pool| &pool.kept) {
        for node in &kept.nodes {
            if let Some(other) = wanted.insert(node, job) {
                return Violation::err("kept_nodes", format!("{node} is kept for {other} and {job}"));
            }
        }
    }
    let marked: BTreeMap<&NodeId, &JobId> = state
        .pools
        .values()
        .flat_map(|pool| pool.nodes.iter().zip(&pool.records))
        .filter_map(|(node, record)| record.kept_for.as_ref().map(|job| (&node.id, job)))
        .collect();
    if wanted == marked {
        return Ok(());
    }
    Violation::err("kept_nodes", format!("kept are {wanted:?}, marked {marked:?}"))
}

/// A node is on loan exactly while a job of another pool is on it.
pub fn loans_match(state: &State) -> Found {
    for (home, pool) in &state.pools {
        for node in &pool.nodes {
            let mut borrowers = node.placements.iter().filter_map(|placement| state.job(&placement.job));
            let borrower = borrowers.find(|record| record.pool != *home);
            if node.lent_to.as_ref() != borrower.map(|record| &record.pool) {
                let by = borrower.map(|record| &record.job.id);
                return Violation::err(
                    "loans_match",
                    format!("{} is lent to {:?}, used by {by:?}", node.id, node.lent_to),
                );
            }
            let said = borrower.and_then(|record| record.run.as_ref()).and_then(|run| {
                run.nodes.iter().find(|at| at.node == node.id).map(|at| at.lender.as_ref() == Some(home))
            });
            if said == Some(false) {
                return Violation::err(
                    "loans_match",
                    format!("the run on {} does not name its lender", node.id),
                );
            }
        }
    }
    Ok(())
}

/// What belongs to one state of a job is there in that state and in no other.
pub fn one_state_per_job(state: &State) -> Found {
    for (id, record) in &state.jobs {
        if let Some(wrong) = contradiction(record) {
            return Violation::err("one_state_per_job", format!("{id} is {:?} but {wrong}", record.state));
        }
    }
    Ok(())
}

fn contradiction(record: &JobRecord) -> Option<&'static str> {
    let run = record.run.as_ref();
    let stop = run.is_some_and(|run| run.stop.is_some());
    let leaves = run.is_some_and(|run| run.saving.as_ref().is_some_and(|saving| saving.leaves.is_some()));
    let suspended = record.past.as_ref().is_some_and(|past| past.suspended.is_some());
    let started = run
        .is_some_and(|run| run.started_at.is_some() && run.nodes.iter().all(|at| at.phase > Phase::Assigned));
    let state = record.state;
    [
        (record.ended.is_some() != state.is_final(), "its end is not what it should be"),
        (stop != (state == JobState::Stopping), "a stop is under way, or should be"),
        (state == JobState::Checkpointing && !leaves, "it does not save to leave"),
        (leaves && !matches!(state, JobState::Checkpointing | JobState::Stopping), "it saves to leave"),
        (suspended != (state == JobState::Suspended), "it is suspended, or should be"),
        (matches!(state, JobState::Running | JobState::Checkpointing) && !started, "it has not started"),
        (state == JobState::Staging && run.is_some_and(|run| run.started_at.is_some()), "it has started"),
        (record.user_hold && state.is_final(), "somebody keeps it"),
        (record.attempt == 0, "it has no attempt"),
    ]
    .into_iter()
    .find_map(|(wrong, what)| wrong.then_some(what))
}

/// Whoever waits for others is known to the graph, which will wake it; whoever does not is not.
pub fn none_forgotten(state: &State) -> Found {
    for (id, record) in &state.jobs {
        let waits = record.state == JobState::Pending && record.job.waits_for.is_some();
        let array = state.element_of(id).map(|(array, _)| &array.job.id);
        let known = state.graph.open_edges(array.unwrap_or(id)).is_some();
        if array.is_some() && !waits {
            continue;
        }
        if waits != known {
            let detail =
                format!("{id} is {:?}, waits for others: {waits}, the graph knows it: {known}", record.state);
            return Violation::err("none_forgotten", detail);
        }
    }
    for (id, array) in &state.folded {
        let waits = array.job.waits_for.is_some() && !array.is_over();
        if waits != state.graph.open_edges(id).is_some() {
            return Violation::err("none_forgotten", format!("array {id} waits for others: {waits}"));
        }
    }
    Ok(())
}

/// Time is reserved for waiting jobs of the pool, and for nobody else.
pub fn reservations_of_waiting_jobs(state: &State) -> Found {
    for (id, pool) in &state.pools {
        for (job, reservation) in &pool.reservations {
            let waits =
                state.job(job).is_some_and(|record| record.state == JobState::Pending && record.pool == *id);
            if !waits || reservation.job != *job {
                return Violation::err("reservations_of_waiting_jobs", format!("{reservation:?} in {id}"));
            }
        }
    }
    Ok(())
}

/// Every node is where the list of places says, with a record beside it.
pub fn positions_of_nodes(state: &State) -> Found {
    let mut count = 0;
    for (id, pool) in &state.pools {
        if pool.nodes.len() != pool.records.len() {
            return Violation::err("positions_of_nodes", format!("{id} has as many records as nodes"));
        }
        for (slot, node) in (0u32..).zip(&pool.nodes) {
            count += 1;
            if state.places.get(&node.id) != Some(&(id.clone(), slot)) || node.pool.as_ref() != Some(id) {
                return Violation::err("positions_of_nodes", format!("{} is at {slot} of {id}", node.id));
            }
        }
    }
    if count == state.places.len() {
        return Ok(());
    }
    Violation::err("positions_of_nodes", format!("{count} nodes at {} places", state.places.len()))
}
