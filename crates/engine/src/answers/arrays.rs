//! Answers about arrays and about elements that have no record yet.
//!
//! Elements of an array differ in their index only, so the one that comes next answers for all behind it; the answer says
//! so. Where none is in the queue, the array waits as a whole and is asked itself.

use landfall_model::JobId;
use landfall_model::answer::{Estimate, Explanation, Why};
use landfall_model::reason::Reason;

use super::explain::{Waiting, named};
use crate::array::Array;
use crate::dag::TerminalState;
use crate::engine::Engine;
use crate::record::{JobRecord, JobState};
use crate::solver::Precision;

impl Engine {
    /// The array that an id names or lies folded in, and the position asked for; `None` for the array itself.
    fn in_array(&self, id: &JobId) -> Option<(&Array, Option<u32>)> {
        if let Some(array) = self.state.folded.get(id) {
            return Some((array, None));
        }
        self.state.folded_element(id).map(|(array, position)| (array, Some(position)))
    }

    /// The element of an array that is placed next, as far as its place in the array decides.
    fn next_element(&self, array: &Array) -> Option<&JobRecord> {
        self.state.elements_of(array).find(|record| record.is_queued())
    }

    /// Where an array stands: its elements are, for the most part, further or less far.
    fn state_of(&self, array: &Array) -> JobState {
        if array.is_over() {
            return match array.worst() {
                TerminalState::Completed => JobState::Completed,
                TerminalState::Failed => JobState::Failed,
                TerminalState::Cancelled | TerminalState::Unneeded => JobState::Cancelled,
            };
        }
        let placed = self.state.elements_of(array).any(|record| record.state.is_placed());
        if placed { JobState::Running } else { JobState::Pending }
    }

    pub(super) fn explain_array(&self, id: &JobId) -> Option<Explanation> {
        let (array, position) = self.in_array(id)?;
        let mut explanation = match self.next_element(array) {
            Some(next) => {
                let mut explanation = self.explain_record(next)?;
                explanation.stands_for = Some(next.job.id.clone());
                if let (Some(place), Some(position)) = (&mut explanation.queue, position) {
                    // All of its array that wait are ahead of it, but those folded behind it.
                    let ahead = array.folded.before(position);
                    place.position += u64::from(array.fresh.saturating_sub(1)) + u64::from(ahead) + 1;
                    place.of = place.of.max(place.position);
                    place.ahead = position.checked_sub(1).map(|before| array.element(before));
                }
                explanation
            }
            None => {
                let reasons = self.array_gates(array);
                self.explanation(&array.as_record(), Waiting { reasons, ..Waiting::default() })?
            }
        };
        explanation.job = id.clone();
        explanation.state = if position.is_some() { JobState::Pending } else { self.state_of(array) };
        explanation.array = Some(array.tally());
        Some(explanation)
    }

    /// What keeps an array back as a whole.
    fn array_gates(&self, array: &Array) -> Vec<Why> {
        let mut gates = self.gates(&array.as_record());
        if array.folded.is_empty() {
            gates.clear();
        } else if gates.is_empty() && array.room() == 0 {
            let most = array.job.spec.at_once.unwrap_or_default();
            let detail = format!("{most} of its array run, and no more may at once");
            gates.push(Why::new(Reason::ArrayLimit, detail));
        } else if gates.is_empty() && !array.after.is_empty() {
            let detail = format!("the element at its place in {} has not ended", named(&array.after));
            gates.push(Why::new(Reason::Dependency, detail).jobs(array.after.clone()));
        }
        gates
    }

    pub(super) fn estimate_array(&self, id: &JobId) -> Option<Estimate> {
        let (array, position) = self.in_array(id)?;
        if array.is_over() {
            return Some(Estimate::none("it has ended"));
        }
        if let Some(next) = self.next_element(array) {
            let mut estimate = self.estimate(&next.job.id)?;
            if position.is_some() && estimate.precision != Precision::None {
                estimate.precision = Precision::Coarse;
                estimate.reason =
                    format!("no sooner than {}, which is next of its array", next.job.id).into();
            }
            return Some(estimate);
        }
        if array.folded.is_empty() {
            return Some(Estimate::none("all elements have started"));
        }
        let gate = self.array_gates(array).into_iter().next();
        Some(match (array.job.retry_at.filter(|_| array.is_queued()), gate) {
            (Some(at), _) => Estimate::at(at, Precision::Coarse, "not before its time"),
            (None, Some(gate)) => Estimate::none(gate.reason.name()),
            (None, None) => Estimate::none("no element is in the queue"),
        })
    }

    /// The record that answers for an id without one.
    pub(super) fn record_standing_for(&self, id: &JobId) -> Option<JobRecord> {
        let (array, _) = self.in_array(id)?;
        Some(self.next_element(array).cloned().unwrap_or_else(|| array.as_record()))
    }

    /// Folded elements that wait in the pool of a job: how many of those that count, and how many of them are ahead.
    pub(super) fn folded_places<K: Ord>(
        &self,
        record: &JobRecord,
        counts: impl Fn(&JobRecord) -> bool,
        key: impl Fn(&JobRecord) -> K,
    ) -> (u64, u64) {
        let mine = (key(record), &record.job.id);
        let (mut of, mut ahead) = (0, 0);
        for array in
            self.state.folded.values().filter(|array| array.pool == record.pool && array.waiting() > 0)
        {
            let Some(first) = array.folded.first().map(|position| array.record_at(position)) else {
                continue;
            };
            if !counts(&first) {
                continue;
            }
            of += u64::from(array.waiting());
            if (key(&first), &first.job.id) < mine {
                ahead += u64::from(array.waiting());
            }
        }
        (of, ahead)
    }
}
