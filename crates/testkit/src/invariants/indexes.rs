//! What the engine keeps beside its state: queues and timers.

use landfall_model::{Checkpoint, Dispatch, NodeState};

use super::{Found, Violation};
use landfall_engine::Engine;
use landfall_engine::Timer;
use landfall_engine::record::JobState;

/// A job is in the queue of its pool exactly while it may be placed.
pub fn queues_match(engine: &Engine) -> Found {
    const NAME: &str = "queues_match";
    let state = engine.state();
    let mut queued = 0;
    for (id, record) in &state.jobs {
        if record.state.is_final() && !state.pools.contains_key(&record.pool) {
            // A pool can be deleted once its jobs have ended.
            continue;
        }
        let Some(pool) = state.pools.get(&record.pool).filter(|_| engine.queue_len(&record.pool).is_some())
        else {
            return Violation::err(NAME, format!("{id} is in pool {}, which does not dispatch", record.pool));
        };
        let there = engine.is_queued(id);
        queued += usize::from(there);
        let mut wanted = record.is_queued();
        if pool.pool.dispatch == Dispatch::Push {
            // Whoever places it from outside, or its own time, keeps it out.
            wanted &= !state.holds.values().any(|hold| hold.job == *id);
            if let Some(at) = record.job.retry_at.filter(|_| wanted) {
                wanted = at <= engine.now();
                if wanted != there && engine.next_wake().is_some_and(|wake| wake <= at.max(engine.now())) {
                    continue;
                }
            }
        }
        if wanted != there {
            let detail =
                format!("{id} is {:?}, belongs in the queue: {wanted}, is there: {there}", record.state);
            return Violation::err(NAME, detail);
        }
    }
    let all: usize = state.pools.keys().filter_map(|pool| engine.queue_len(pool)).sum();
    if all == queued {
        return Ok(());
    }
    Violation::err(NAME, format!("queues have {all} jobs, {queued} of them known"))
}

/// Whatever has to happen by itself has a timer that is not too late.
pub fn deadlines_have_timers(engine: &Engine) -> Found {
    const NAME: &str = "deadlines_have_timers";
    let state = engine.state();
    let late = |timer: Timer, by: Option<landfall_model::Time>| match (engine.deadline(&timer), by) {
        (None, _) => true,
        (Some(set), by) => by.is_some_and(|by| set > by),
    };
    for (id, record) in &state.jobs {
        let run = record.run.as_ref();
        let by = match record.state {
            JobState::Stopping => run.and_then(|run| run.stop.as_ref()).map(|stop| stop.kill_at),
            JobState::Checkpointing => run.and_then(|run| run.saving.as_ref()).map(|saving| saving.deadline),
            JobState::Running => run.and_then(|run| run.ends_at),
            _ => None,
        };
        let by = by.map(|by| engine.due_by(&record.pool, by));
        let saves = record.state == JobState::Running && record.job.spec.checkpoint == Checkpoint::Auto;
        let batch = state.pools.get(&record.pool).is_some_and(|pool| pool.pool.dispatch == Dispatch::Batch);
        if saves && batch && late(Timer::Saves(record.pool.clone()), None) {
            return Violation::err(NAME, format!("{id} is not asked to save its work"));
        }
        let needs = matches!(record.state, JobState::Staging | JobState::Stopping | JobState::Checkpointing);
        if (needs || by.is_some()) && late(Timer::Job(id.clone()), by) {
            return Violation::err(NAME, format!("{id} is {:?} until {by:?} without a timer", record.state));
        }
    }
    for (id, array) in &state.folded {
        let at = array.job.retry_at.filter(|at| array.is_queued() && *at > engine.now());
        if at.is_some() && late(Timer::Array(id.clone()), at) {
            return Violation::err(NAME, format!("array {id} waits until {at:?} without a timer"));
        }
    }
    for (id, hold) in &state.holds {
        if late(Timer::Hold(*id), Some(hold.expires_at)) {
            return Violation::err(NAME, format!("hold {id} does not end"));
        }
    }
    for (id, pool) in &state.pools {
        for (job, kept) in &pool.kept {
            if late(Timer::Kept(id.clone(), job.clone()), Some(kept.until)) {
                return Violation::err(NAME, format!("nodes are kept for {job} without end"));
            }
        }
        for node in &pool.nodes {
            let silent = matches!(node.state, NodeState::Ready | NodeState::Degraded | NodeState::Draining)
                || (node.state == NodeState::Unknown
                    && !(pool.pool.dispatch == Dispatch::Pull
                        && pool.pool.pull.liveness_timeout_ms.is_zero()));
            if silent && pool.pool.heartbeats && late(Timer::Node(node.id.clone()), None) {
                return Violation::err(NAME, format!("{} may be silent for ever", node.id));
            }
        }
        let waits = engine.queue_len(id).is_some_and(|queued| queued > 0);
        if waits
            && pool.pool.dispatch != Dispatch::Negotiate
            && engine.next_wake().is_none_or(|wake| wake > pool.next_cycle.max(engine.now()))
        {
            return Violation::err(NAME, format!("jobs wait in {id}, and no cycle is due"));
        }
    }
    Ok(())
}
