//! What the ledger keeps of an array.

pub use landfall_model::life::ArrayTally;
use landfall_model::{Indices, Job, JobId, PoolId, Time};
use serde::{Deserialize, Serialize};

use super::id::{digits, element_id, parse_element_id};
use super::{ELEMENTS_MAX, OPEN_MAX, Ranges};
use crate::dag::TerminalState;
use crate::record::JobRecord;

/// The indices of an array, and how long the ids of its elements are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    #[serde(flatten)]
    pub indices: Indices,
    /// The index that ids have room for, where the last one is not known yet: all ids of an array have one length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids_to: Option<u32>,
}

impl Shape {
    /// Checks the indices of an array; the error says what is wrong.
    pub fn new(indices: Indices) -> Result<Self, String> {
        let Indices { first, last, step, .. } = indices;
        if step == 0 {
            return Err("the step of an array is 1 or more".to_owned());
        }
        if first > last {
            return Err(format!("an array goes upwards, and {first} is above {last}"));
        }
        let count = indices.count();
        if count > u64::from(ELEMENTS_MAX) {
            return Err(format!("an array has at most {ELEMENTS_MAX} elements, this one has {count}"));
        }
        Ok(Self { indices, ids_to: None })
    }

    /// The shape of an array that may get more elements.
    pub fn open(self) -> Result<Self, String> {
        let Indices { first, last, step, ref list } = self.indices;
        if list.is_some() {
            return Err("an open array needs a range of indices: nobody knows how a list goes on".to_owned());
        }
        let beyond = (OPEN_MAX - 1).checked_mul(step).and_then(|beyond| first.checked_add(beyond));
        match beyond {
            Some(most) if last <= most => Ok(Self { ids_to: Some(most), ..self }),
            _ => {
                Err(format!("an open array has at most {OPEN_MAX} elements, with indices below {}", u32::MAX))
            }
        }
    }

    /// The index whose digits say how long ids are.
    pub fn longest(&self) -> u32 {
        self.ids_to.unwrap_or(self.indices.last)
    }

    /// The last index after so many more elements, if there is room for them.
    pub fn extended(&self, count: u32) -> Option<u32> {
        let last = self.index(self.total() - 1).checked_add(count.checked_mul(self.indices.step)?)?;
        (last <= self.longest()).then_some(last)
    }

    pub fn total(&self) -> u32 {
        // Checked when it was made: no array has more.
        u32::try_from(self.indices.count()).unwrap_or(ELEMENTS_MAX)
    }

    pub fn index(&self, position: u32) -> u32 {
        self.indices.index(position)
    }

    /// The position of an index, if there is one.
    pub fn position(&self, index: u32) -> Option<u32> {
        self.indices.position(index)
    }
}

/// One array and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// What its elements have in common; the id is the array's.
    pub job: Job,
    /// The pool it was submitted to.
    pub pool: PoolId,
    pub shape: Shape,
    /// Whether somebody keeps it from starting.
    pub user_hold: bool,
    /// Rounds of its pool when it was queued.
    pub round_base: i64,
    /// Positions without a record yet.
    pub folded: Ranges,
    /// Elements that wait for their first start and may be placed.
    pub fresh: u32,
    /// Elements that have a record.
    pub records: u32,
    /// Positions that ended well.
    pub completed: Ranges,
    /// Positions that ended badly.
    pub failed: Ranges,
    /// Positions that were taken back.
    pub cancelled: Ranges,
    /// Positions that were there for a failure that did not happen.
    pub unneeded: Ranges,
    /// Arrays of which the element at the same position has to complete first.
    pub after: Vec<JobId>,
    /// Arrays that follow this one element by element.
    pub followers: Vec<JobId>,
    /// When its last element ended.
    pub ended_at: Option<Time>,
    /// Whether it takes more elements.
    #[serde(default)]
    pub open: bool,
}

impl Array {
    /// An array of which no element has a record.
    pub(crate) fn new(job: Job, pool: PoolId, shape: Shape, user_hold: bool, round_base: i64) -> Self {
        let (total, open) = (shape.total(), shape.ids_to.is_some());
        Self {
            job,
            pool,
            shape,
            user_hold,
            round_base,
            folded: Ranges::new(0, total),
            fresh: 0,
            records: 0,
            completed: Ranges::default(),
            failed: Ranges::default(),
            cancelled: Ranges::default(),
            unneeded: Ranges::default(),
            after: Vec::new(),
            followers: Vec::new(),
            ended_at: None,
            open,
        }
    }

    pub fn element(&self, position: u32) -> JobId {
        element_id(&self.job.id, self.shape.index(position), self.shape.longest())
            .unwrap_or_else(|error| unreachable!("the longest id was checked when it was submitted: {error}"))
    }

    /// The ids of its first and its last element; all others lie between them.
    pub fn bounds(&self) -> (JobId, JobId) {
        (self.element(0), self.element(self.shape.total() - 1))
    }

    /// The position of an element, if the id is one.
    pub fn position(&self, id: &JobId) -> Option<u32> {
        let (array, index) = parse_element_id(id)?;
        let written = id.as_str().len() == array.len() + 1 + digits(self.shape.longest());
        if array != self.job.id.as_str() || !written {
            return None;
        }
        self.shape.position(index)
    }

    /// How many elements are where.
    pub fn tally(&self) -> ArrayTally {
        let cancelled = self.cancelled.len() + self.unneeded.len();
        let ended = self.completed.len() + self.failed.len() + cancelled;
        ArrayTally {
            total: self.shape.total(),
            folded: self.folded.len(),
            unfolded: self.shape.total() - self.folded.len() - ended,
            completed: self.completed.len(),
            failed: self.failed.len(),
            cancelled,
        }
    }

    /// Elements that have not ended.
    pub fn left(&self) -> u32 {
        let tally = self.tally();
        tally.folded + tally.unfolded
    }

    /// How many more elements may be on their way, where only so many run at once.
    pub fn room(&self) -> u32 {
        let most = self.job.spec.at_once.unwrap_or(u32::MAX);
        most.saturating_sub(self.tally().unfolded)
    }

    /// Whether more elements failed than may, and others have not ended.
    pub fn fails(&self) -> bool {
        self.job.spec.max_fails.is_some_and(|most| self.failed.len() > most) && !self.is_over()
    }

    /// Whether all elements have ended, and no more come.
    pub fn is_over(&self) -> bool {
        self.left() == 0 && !self.open
    }

    /// Whether its folded elements wait for nothing but their time and their turn.
    pub fn is_queued(&self) -> bool {
        self.job.waits_for.is_none() && !self.user_hold && !self.folded.is_empty()
    }

    /// Whether elements may be unfolded.
    pub fn is_open(&self, now: Time) -> bool {
        self.is_queued() && self.job.retry_at.is_none_or(|at| at <= now)
    }

    /// Folded elements that wait in the queue of their pool; those of an array that follows another are not counted.
    pub fn waiting(&self) -> u32 {
        if self.is_queued() && self.after.is_empty() { self.folded.len() } else { 0 }
    }

    /// How an element ended, if it has.
    pub fn end_of(&self, position: u32) -> Option<TerminalState> {
        let ends = [
            (&self.completed, TerminalState::Completed),
            (&self.failed, TerminalState::Failed),
            (&self.cancelled, TerminalState::Cancelled),
            (&self.unneeded, TerminalState::Unneeded),
        ];
        ends.into_iter().find(|(positions, _)| positions.contains(position)).map(|(_, state)| state)
    }

    /// What the elements that have ended amount to: the worst of them.
    pub fn worst(&self) -> TerminalState {
        match self {
            Self { failed, .. } if !failed.is_empty() => TerminalState::Failed,
            Self { cancelled, .. } if !cancelled.is_empty() => TerminalState::Cancelled,
            Self { unneeded, .. } if !unneeded.is_empty() => TerminalState::Unneeded,
            _ => TerminalState::Completed,
        }
    }

    /// Notes that elements have ended.
    pub(crate) fn note_end(&mut self, positions: &Ranges, state: TerminalState, at: Time) {
        let ended = match state {
            TerminalState::Completed => &mut self.completed,
            TerminalState::Failed => &mut self.failed,
            TerminalState::Cancelled => &mut self.cancelled,
            TerminalState::Unneeded => &mut self.unneeded,
        };
        ended.extend(positions);
        if self.is_over() {
            self.ended_at = Some(at);
        }
    }

    /// The record of an element as it is before anything happened to it.
    pub(crate) fn record_at(&self, position: u32) -> JobRecord {
        self.record_as(self.element(position))
    }

    /// The array as if it were one job.
    pub(crate) fn as_record(&self) -> JobRecord {
        self.record_as(self.job.id.clone())
    }

    fn record_as(&self, id: JobId) -> JobRecord {
        let job = Job { id, ..self.job.clone() };
        JobRecord::new(job, self.pool.clone(), self.user_hold, self.round_base)
    }
}
