//! How events change arrays, and what happens to an array when one of its elements changes.

use landfall_model::{Job, JobId, PoolId};

use super::jobs::{queue_from, terminal_state};
use super::{State, Touched};
use crate::array::{Array, Ranges, Shape, parse_element_id};
use crate::dag::TerminalState;
use crate::record::{Cause, JobRecord, JobState};

/// Whether a job waits for its first start and may be placed: these are the window of an array.
pub(super) fn is_fresh(record: &JobRecord) -> bool {
    record.attempt == 1 && record.is_queued()
}

impl State {
    /// The array that a job belongs to and its position there, whether it has a record or not.
    pub fn element_of(&self, id: &JobId) -> Option<(&Array, u32)> {
        if self.folded.is_empty() {
            return None;
        }
        let (array, _) = parse_element_id(id)?;
        let array = self.folded.get(array)?;
        array.position(id).map(|position| (&**array, position))
    }

    /// The array of which a job is a folded element, and its position there.
    pub fn folded_element(&self, id: &JobId) -> Option<(&Array, u32)> {
        self.element_of(id).filter(|(array, position)| array.folded.contains(*position))
    }

    /// The elements of an array that have a record, in order.
    pub fn elements_of(&self, array: &Array) -> impl Iterator<Item = &JobRecord> {
        let (first, last) = array.bounds();
        let records = self.jobs.range(first..=last).map(|(_, record)| &**record);
        records.filter(|record| array.position(&record.job.id).is_some())
    }

    /// Folded positions of an array that may be unfolded as far as other arrays are concerned, at most so many.
    pub(crate) fn ready_positions(&self, array: &Array, most: u32) -> Ranges {
        if array.after.is_empty() {
            return array.folded.head(most);
        }
        let mut ready = array.folded.clone();
        for earlier in array.after.iter().filter_map(|id| self.folded.get(id)) {
            ready = ready.both(&earlier.completed);
        }
        ready.head(most)
    }

    /// Folded positions of an array that can never start, and the array which they wait for in vain.
    pub(crate) fn doomed_positions(&self, array: &Array) -> Option<(Ranges, JobId, TerminalState)> {
        let earlier = array.after.iter().filter_map(|id| self.folded.get(id));
        let mut found = earlier.flat_map(|earlier| {
            let ends = [
                (&earlier.failed, TerminalState::Failed),
                (&earlier.cancelled, TerminalState::Cancelled),
                (&earlier.unneeded, TerminalState::Unneeded),
            ];
            ends.map(|(ended, state)| (array.folded.both(ended), earlier.job.id.clone(), state))
        });
        found.find(|(positions, ..)| !positions.is_empty())
    }

    pub(super) fn array_submitted(
        &mut self,
        job: &Job,
        pool: &PoolId,
        user_hold: bool,
        shape: Shape,
        after: &[JobId],
        touched: &mut Touched,
    ) {
        let rounds = self.pools.get(pool).map_or(0, |pool| pool.rounds as i64);
        if let Some(tenant) = job.spec.tenant.as_ref().and_then(|id| self.tenants.get_mut(id)) {
            tenant.jobs += u64::from(shape.total());
        }
        let base = rounds - i64::from(job.rescore_count);
        let mut array = Array::new(job.clone(), pool.clone(), shape, user_hold, base);
        for id in after {
            if let Some(earlier) = self.folded.get_mut(id) {
                earlier.followers.push(job.id.clone());
                array.after.push(id.clone());
            }
        }
        touched.arrays.push(job.id.clone());
        self.folded.insert(job.id.clone(), Box::new(array));
    }

    pub(super) fn array_extended(&mut self, id: &JobId, last: u32, touched: &mut Touched) {
        let Some(array) = self.folded.get_mut(id) else { return };
        let before = array.shape.total();
        array.shape.indices.last = last;
        let now = array.shape.total();
        array.folded.insert(before, now);
        if let Some(tenant) = array.job.spec.tenant.as_ref().and_then(|id| self.tenants.get_mut(id)) {
            tenant.jobs += u64::from(now - before);
        }
        touched.arrays.push(id.clone());
    }

    pub(super) fn array_closed(&mut self, id: &JobId, touched: &mut Touched) {
        let at = self.now;
        let Some(array) = self.folded.get_mut(id) else { return };
        array.open = false;
        touched.arrays.push(id.clone());
        if array.is_over() {
            array.ended_at = Some(at);
            touched.changes.extend(self.graph.ended(id, array.worst()));
            self.note_unawaited(touched);
        }
    }

    pub(super) fn unfolded(&mut self, id: &JobId, positions: &Ranges, touched: &mut Touched) {
        let at = self.now;
        let Some(array) = self.folded.get_mut(id) else { return };
        array.folded.subtract(positions);
        array.records += positions.len();
        for position in positions.iter() {
            let mut record = array.record_at(position);
            if !array.after.is_empty() {
                // What it waited for is over about now; how long it waited for the window is not known.
                queue_from(&mut record.job, at);
            }
            array.fresh += u32::from(is_fresh(&record));
            touched.job(record.job.id.clone(), true);
            self.jobs.insert(record.job.id.clone(), Box::new(record));
        }
        touched.arrays.push(id.clone());
    }

    pub(super) fn folded_dropped(
        &mut self,
        id: &JobId,
        positions: &Ranges,
        cause: &Cause,
        touched: &mut Touched,
    ) {
        let Some(array) = self.folded.get_mut(id) else { return };
        array.folded.subtract(positions);
        let tenant = array.job.spec.tenant.clone();
        if let Some(tenant) = tenant.and_then(|tenant| self.tenants.get_mut(&tenant)) {
            tenant.jobs = tenant.jobs.saturating_sub(u64::from(positions.len()));
        }
        let state = terminal_state(JobState::Cancelled, cause).unwrap_or(TerminalState::Cancelled);
        // Few folded elements, if any, are waited for by name.
        let Some(array) = self.folded.get(id) else { return };
        let (first, last) = array.bounds();
        let is_dropped = |id: &JobId| array.position(id).is_some_and(|at| positions.contains(at));
        let awaited: Vec<JobId> =
            self.graph.awaited_between(&first, &last).filter(|id| is_dropped(id)).cloned().collect();
        for element in awaited {
            touched.changes.extend(self.graph.ended(&element, state));
        }
        self.note_unawaited(touched);
        self.elements_ended(id, positions, state, touched);
    }

    /// An element with a record changed in a way that may matter to its array.
    pub(super) fn note_fresh(&mut self, id: &JobId, fresh: bool, touched: &mut Touched) {
        let Some(array) = self.element_of(id).map(|(array, _)| array.job.id.clone()) else { return };
        if let Some(known) = self.folded.get_mut(&array) {
            known.fresh = if fresh { known.fresh + 1 } else { known.fresh.saturating_sub(1) };
            touched.arrays.push(array);
        }
    }

    /// An element with a record ended.
    pub(super) fn element_ended(&mut self, id: &JobId, state: TerminalState, touched: &mut Touched) {
        let Some((array, position)) = self.element_of(id) else { return };
        let array = array.job.id.clone();
        self.elements_ended(&array, &Ranges::one(position), state, touched);
    }

    fn elements_ended(
        &mut self,
        id: &JobId,
        positions: &Ranges,
        state: TerminalState,
        touched: &mut Touched,
    ) {
        let at = self.now;
        let Some(array) = self.folded.get_mut(id) else { return };
        array.note_end(positions, state, at);
        touched.arrays.push(id.clone());
        touched.arrays.extend(array.followers.iter().cloned());
        touched.changes.extend(self.graph.counted_ended(id, state, positions.len()));
        if array.is_over() {
            // One that still waited for others no longer does.
            touched.changes.extend(self.graph.ended(id, array.worst()));
        }
        self.note_unawaited(touched);
    }

    /// What an array waited for is over.
    pub(super) fn array_eligible(&mut self, id: &JobId, touched: &mut Touched) {
        let at = self.now;
        let Some(array) = self.folded.get_mut(id) else { return };
        let rounds = self.pools.get(&array.pool).map_or(0, |pool| pool.rounds as i64);
        array.job.waits_for = None;
        queue_from(&mut array.job, at);
        array.round_base = rounds;
        touched.arrays.push(id.clone());
        // Elements that somebody named have a record already.
        let named: Vec<JobId> = self.folded.get(id).map_or_else(Vec::new, |array| {
            let waits = |record: &&JobRecord| record.job.waits_for.is_some() && !record.state.is_final();
            self.elements_of(array).filter(waits).map(|record| record.job.id.clone()).collect()
        });
        for element in named {
            self.in_job(&element, touched, |record| {
                record.job.waits_for = None;
                queue_from(&mut record.job, at);
                record.round_base = rounds;
            });
        }
    }

    /// Forgets an array with what is left of its elements.
    pub(super) fn array_forgotten(&mut self, id: &JobId, touched: &mut Touched) {
        let Some(array) = self.folded.get(id) else { return };
        let known: Vec<JobId> = self.elements_of(array).map(|record| record.job.id.clone()).collect();
        let after = array.after.clone();
        let (first, last) = array.bounds();
        let locks = self.edge_locks.range(first..=last).map(|(element, _)| element);
        let locks: Vec<JobId> = locks.filter(|id| array.position(id).is_some()).cloned().collect();
        for element in locks {
            self.edge_locks.remove(&element);
        }
        for element in known {
            self.jobs.remove(&element);
            touched.job(element, true);
        }
        for earlier in after {
            if let Some(earlier) = self.folded.get_mut(&earlier) {
                earlier.followers.retain(|follower| follower != id);
            }
        }
        self.folded.remove(id);
        touched.arrays.push(id.clone());
    }

    /// An element's record was forgotten; how it ended stays known.
    pub(super) fn element_forgotten(&mut self, id: &JobId) {
        let Some(array) = self.element_of(id).map(|(array, _)| array.job.id.clone()) else { return };
        if let Some(array) = self.folded.get_mut(&array) {
            array.records = array.records.saturating_sub(1);
        }
    }

    /// Makes equal specs share one allocation, as they do before a state is written and read again.
    pub fn share_specs(&mut self) {
        use std::collections::BTreeSet;
        use std::sync::Arc;
        let mut known: BTreeSet<Arc<landfall_model::JobSpec>> = BTreeSet::new();
        let mut shared: BTreeSet<usize> = BTreeSet::new();
        let of_arrays = self.folded.values_mut().map(|array| &mut array.job);
        let of_jobs = self.jobs.values_mut().map(|record| &mut record.job);
        for job in of_arrays.chain(of_jobs) {
            if shared.contains(&(Arc::as_ptr(&job.spec) as usize)) {
                continue;
            }
            match known.get(&job.spec) {
                Some(spec) => job.spec = spec.clone(),
                None => {
                    known.insert(job.spec.clone());
                    shared.insert(Arc::as_ptr(&job.spec) as usize);
                }
            }
        }
    }
}
