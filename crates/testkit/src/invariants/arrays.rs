//! Arrays: every element is somewhere, and what may start is in the queue.

use std::collections::BTreeMap;

use super::{Found, Violation};
use landfall_engine::Engine;
use landfall_engine::array::WINDOW_LOW;
use landfall_engine::record::JobState;
use landfall_engine::state::State;

/// Every position of an array is folded, has a record, or ended and was forgotten; the array knows how each ended.
pub fn tally_adds_up(state: &State) -> Found {
    const NAME: &str = "tally_adds_up";
    for (id, array) in &state.folded {
        let mut places: BTreeMap<u32, u32> = BTreeMap::new();
        let ended = [&array.completed, &array.failed, &array.cancelled, &array.unneeded];
        for position in array.folded.iter().chain(ended.iter().flat_map(|ended| ended.iter())) {
            *places.entry(position).or_default() += 1;
        }
        let (mut records, mut fresh) = (0, 0);
        for (job, record) in &state.jobs {
            let Some(position) = array.position(job) else { continue };
            records += 1;
            fresh += u32::from(record.attempt == 1 && record.is_queued());
            if !record.state.is_final() {
                *places.entry(position).or_default() += 1;
                continue;
            }
            let known = match record.state {
                JobState::Completed => array.completed.contains(position),
                JobState::Failed => array.failed.contains(position),
                _ => array.cancelled.contains(position) || array.unneeded.contains(position),
            };
            if !known {
                return Violation::err(NAME, format!("{id} does not know how {job} ended"));
            }
        }
        let tally = array.tally();
        let sum = tally.folded + tally.unfolded + tally.completed + tally.failed + tally.cancelled;
        let once = places.len() == tally.total as usize && places.values().all(|count| *count == 1);
        if !once || sum != tally.total || (records, fresh) != (array.records, array.fresh) {
            let detail = format!("{id} has {tally:?}, {records} records, {fresh} fresh: {array:?}");
            return Violation::err(NAME, detail);
        }
        if array.is_over() != array.ended_at.is_some() {
            return Violation::err(NAME, format!("{id} is over since {:?}: {tally:?}", array.ended_at));
        }
    }
    Ok(())
}

/// An array that may start has enough elements in the queue, or all that it has, or its time is about to come.
pub fn windows_are_open(engine: &Engine) -> Found {
    let state = engine.state();
    for (id, array) in state.folded.iter().filter(|(_, array)| array.is_open(engine.now())) {
        let ready = array.after.iter().fold(array.folded.clone(), |ready, other| {
            state.folded.get(other).map_or_else(|| ready.clone(), |other| ready.both(&other.completed))
        });
        let due = engine.next_wake().is_some_and(|wake| wake <= engine.now());
        let limited = array.room() == 0 || array.fails();
        if array.fresh < WINDOW_LOW && !ready.is_empty() && !due && !limited {
            let detail = format!("{id} has {} elements in the queue and {} folded", array.fresh, ready.len());
            return Violation::err("windows_are_open", detail);
        }
    }
    Ok(())
}
