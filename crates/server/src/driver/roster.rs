//! Jobs at a glance: a short row of each, kept beside the engine, which lists, counts and searches read without the driver.
//!
//! Whoever lists, counts or searches looks at every job there is, and the driver has no time for that: with a million of them it would
//! place nothing for half a second. So it keeps a *roster*:
//!
//! ```text
//! events ──► `note`: which jobs changed ──► `catch_up`: their rows ──► `Listing`: the rows as they stand, shared
//!  driver, some nanoseconds per event        driver, when somebody asks,    any thread, for as long as it likes
//!                                            or when many have changed
//! ```
//!
//! - Rows lie in the order of their jobs in chunks of some hundreds, and chunks are shared: a [`Listing`] is a list of pointers, two
//!   thousand for a million jobs, and takes microseconds. A chunk that changes while a listing has it is copied first, so a listing never
//!   changes, and what nobody looks at is never copied.
//! - Rows are made from the engine's records, not from events: an event only says which job to look at. A job that came and went between
//!   two looks costs one look-up that finds nothing.
//! - A question is answered after the commit of its round, and a listing is taken in a question: it shows what is stored, and everything
//!   that whoever asks was told before.
//! - Numbers by pool, tenant and state are kept as rows change, so nobody walks rows to count them.
//!
//! A row is 88 bytes where a waiting job takes 1.3 kB in all. What ended and left the engine's memory is in the archive, which is read by
//! connections of its own.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_engine::array::Array;
use landfall_engine::record::{JobRecord, JobState};
use landfall_engine::{Event, State};
use landfall_model::{JobId, JobSpec, NodeId, PoolId, TenantId, Time};

use super::jobs::{JobMeta, Jobs, element_of};

/// Rows of a chunk at most.
const CHUNK: usize = 512;
/// Jobs that may have changed before rows follow without being asked for.
const BEHIND_MAX: usize = 4096;

/// What lists and counts know of a job, or of an array whose elements wait as one.
#[derive(Debug, Clone)]
pub struct Row {
    pub id: JobId,
    pub pool: PoolId,
    pub spec: Arc<JobSpec>,
    /// What it runs and who submitted it; elements share that of their array.
    pub meta: Option<Arc<JobMeta>>,
    /// Where it is.
    pub nodes: Option<Arc<[NodeId]>>,
    /// Since when it has its nodes or waits for some; an array, since when it is there.
    pub since: Time,
    /// It does not start before that.
    pub retry_at: Option<Time>,
    /// What it is.
    pub kind: Kind,
    pub state: JobState,
    pub held: bool,
    /// Whether it waits for other jobs.
    pub follows: bool,
}

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Job,
    /// An array of which so many elements are no jobs yet.
    Array(u32),
    /// An array that lives only because it takes more elements.
    Idle,
}

impl PartialEq for Row {
    /// Whether they would be shown alike.
    fn eq(&self, other: &Self) -> bool {
        let same_meta = match (&self.meta, &other.meta) {
            (Some(own), Some(others)) => Arc::ptr_eq(own, others),
            (None, None) => true,
            _ => false,
        };
        same_meta
            && Arc::ptr_eq(&self.spec, &other.spec)
            && (&self.id, &self.pool, &self.nodes) == (&other.id, &other.pool, &other.nodes)
            && (self.since, self.retry_at, self.kind) == (other.since, other.retry_at, other.kind)
            && (self.state, self.held, self.follows) == (other.state, other.held, other.follows)
    }
}

impl Row {
    fn of_record(record: &JobRecord, jobs: &Jobs) -> Self {
        let job = &record.job;
        let nodes = record.run.as_ref().map(|run| run.nodes.iter().map(|at| at.node.clone()).collect());
        Self {
            id: job.id.clone(),
            pool: record.pool.clone(),
            spec: job.spec.clone(),
            meta: jobs.meta(&job.id).cloned(),
            nodes,
            since: record.run.as_ref().map_or(job.queued_at, |run| run.committed_at),
            retry_at: job.retry_at,
            kind: Kind::Job,
            state: record.state,
            held: record.user_hold,
            follows: job.waits_for.is_some(),
        }
    }

    /// The row of a job or an array, if the engine knows one of that name.
    fn of(id: &JobId, state: &State, jobs: &Jobs) -> Option<Self> {
        if let Some(record) = state.job(id) {
            return Some(Self::of_record(record, jobs));
        }
        let array = state.folded.get(id)?;
        Some(Self {
            id: id.clone(),
            pool: array.pool.clone(),
            spec: array.job.spec.clone(),
            meta: jobs.meta(id).cloned(),
            nodes: None,
            since: array.job.submitted_at,
            retry_at: None,
            kind: if is_idle(array) { Kind::Idle } else { Kind::Array(array.tally().folded) },
            state: JobState::Pending,
            held: array.user_hold,
            follows: array.job.waits_for.is_some(),
        })
    }

    pub fn tenant(&self) -> Option<&TenantId> {
        self.spec.tenant.as_ref()
    }

    pub fn name(&self) -> Option<&str> {
        self.meta.as_ref()?.name.as_deref()
    }

    fn counted(&self) -> Option<(PoolId, Option<TenantId>, JobState)> {
        (self.kind == Kind::Job).then(|| (self.pool.clone(), self.tenant().cloned(), self.state))
    }
}

/// Whether an array lives only because it takes more elements.
pub(super) fn is_idle(array: &Array) -> bool {
    array.open && array.left() == 0
}

/// Where a job stands in the order of all: by number, elements behind their array. That of the archive's keys.
fn place_of(id: &str) -> (u64, u64) {
    let (array, element) = element_of(id).map_or((id, 0), |(array, index)| (array, u64::from(index) + 1));
    // Every job of a server has a number; others would come last, in the order of their names.
    (array.parse().unwrap_or(u64::MAX), element)
}

pub(super) fn order(one: &str, other: &str) -> Ordering {
    place_of(one).cmp(&place_of(other)).then_with(|| one.cmp(other))
}

#[derive(Debug, Clone, Default)]
struct Chunk {
    rows: Vec<Row>,
    /// A bit for each state that one of them may have.
    states: u16,
}

pub(super) fn bit(state: JobState) -> u16 {
    1 << state as u16
}

impl Chunk {
    fn of(rows: Vec<Row>) -> Self {
        let states = rows.iter().fold(0, |bits, row| bits | bit(row.state));
        Self { rows, states }
    }
}

/// Numbers of jobs by pool, tenant and state.
pub type Tally = BTreeMap<(PoolId, Option<TenantId>, JobState), u64>;

/// The rows of all jobs that the engine knows.
#[derive(Debug, Default)]
pub(super) struct Roster {
    chunks: Vec<Arc<Chunk>>,
    tally: Tally,
    /// Jobs and arrays that changed since rows were last made; some may be named twice.
    changed: Vec<JobId>,
}

/// The rows as they stood at an instant.
#[derive(Debug, Clone)]
pub struct Listing {
    chunks: Vec<Arc<Chunk>>,
    pub tally: Tally,
    pub now: Time,
}

impl Roster {
    pub(super) fn of(state: &State, jobs: &Jobs) -> Self {
        let records = state.jobs.values().map(|record| Row::of_record(record, jobs));
        let arrays = state.folded.keys().filter_map(|id| Row::of(id, state, jobs));
        let mut rows: Vec<Row> = records.chain(arrays).collect();
        rows.sort_by_cached_key(|row| (place_of(row.id.as_str()), row.id.clone()));
        let mut roster = Self::default();
        for counted in rows.iter().filter_map(Row::counted) {
            *roster.tally.entry(counted).or_insert(0) += 1;
        }
        let mut rows = rows.into_iter();
        loop {
            let chunk: Vec<Row> = rows.by_ref().take(CHUNK / 2).collect();
            if chunk.is_empty() {
                return roster;
            }
            roster.chunks.push(Arc::new(Chunk::of(chunk)));
        }
    }

    /// Keeps in mind which jobs an event changed.
    pub(super) fn note(&mut self, event: &Event, state: &State) {
        let job = match event {
            Event::Submitted { job, .. } | Event::ArraySubmitted { job, .. } => &job.id,
            Event::Unfolded { array, positions } => {
                if let Some(known) = state.folded.get(array) {
                    self.changed.extend(positions.iter().map(|position| known.element(position)));
                }
                array
            }
            Event::Committed(commit) => &commit.job,
            Event::Ended { job, .. } => {
                // The last element of an open array leaves it idle.
                let array = element_of(job.as_str()).and_then(|(array, _)| JobId::new(array).ok());
                self.changed.extend(array.filter(|id| state.folded.get(id).is_some_and(|array| array.open)));
                job
            }
            Event::FoldedDropped { array: job, .. }
            | Event::Eligible(job)
            | Event::Started(job)
            | Event::TookRoom(job)
            | Event::Saved(job)
            | Event::SaveFailed(job)
            | Event::Rejected(job)
            | Event::Forgotten(job)
            | Event::UserHold { job, .. }
            | Event::WalltimeSet { job, .. }
            | Event::Saving { job, .. }
            | Event::Stopping { job, .. }
            | Event::Suspended { job, .. }
            | Event::Requeued { job, .. }
            | Event::ArrayExtended { array: job, .. }
            | Event::ArrayClosed(job)
            | Event::Staged { job, .. }
            | Event::Resized { job, .. } => job,
            _ => return,
        };
        self.changed.push(job.clone());
    }

    /// Whether so much has changed that rows should follow.
    pub(super) fn is_far_behind(&self) -> bool {
        self.changed.len() > BEHIND_MAX
    }

    /// Makes the rows of what changed anew.
    pub(super) fn catch_up(&mut self, state: &State, jobs: &Jobs) {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        for id in &changed {
            match Row::of(id, state, jobs) {
                Some(row) => self.put(row),
                None => self.remove(id, state),
            }
        }
        changed.clear();
        // Its room is used again.
        self.changed = changed;
    }

    /// The chunk in which a job is or would be, and its place there.
    fn find(&self, id: &str) -> (usize, Result<usize, usize>) {
        let before = |chunk: &Arc<Chunk>| {
            chunk.rows.last().is_some_and(|last| order(last.id.as_str(), id) == Ordering::Less)
        };
        let chunk = self.chunks.partition_point(before).min(self.chunks.len().saturating_sub(1));
        let place = self
            .chunks
            .get(chunk)
            .map_or(Err(0), |chunk| chunk.rows.binary_search_by(|row| order(row.id.as_str(), id)));
        (chunk, place)
    }

    fn put(&mut self, row: Row) {
        if self.chunks.is_empty() {
            self.chunks.push(Arc::default());
        }
        let (at, place) = self.find(row.id.as_str());
        if let Ok(place) = place
            && self.chunks[at].rows[place] == row
        {
            return;
        }
        if let Some(counted) = row.counted() {
            *self.tally.entry(counted).or_insert(0) += 1;
        }
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        chunk.states |= bit(row.state);
        match place {
            Ok(place) => {
                let before = std::mem::replace(&mut chunk.rows[place], row);
                self.uncount(&before);
            }
            Err(place) => {
                chunk.rows.insert(place, row);
                if chunk.rows.len() > CHUNK {
                    // New jobs come at the end, where a full chunk is left as it is.
                    let half = if place == CHUNK { CHUNK } else { CHUNK / 2 };
                    let behind = chunk.rows.split_off(half);
                    *chunk = Chunk::of(std::mem::take(&mut chunk.rows));
                    self.chunks.insert(at + 1, Arc::new(Chunk::of(behind)));
                }
            }
        }
    }

    /// Removes a job, or an array with all its elements that are gone.
    fn remove(&mut self, id: &JobId, state: &State) {
        let (at, place) = self.find(id.as_str());
        if let Ok(place) = place {
            self.take(at, place);
        }
        if element_of(id.as_str()).is_some() {
            return;
        }
        loop {
            let (at, place) = self.find(id.as_str());
            let next = place.unwrap_or_else(|place| place);
            let next = self.chunks.get(at).and_then(|chunk| match chunk.rows.get(next) {
                Some(row) => Some((at, next, row)),
                None => Some((at + 1, 0, self.chunks.get(at + 1)?.rows.first()?)),
            });
            let is_of =
                |row: &Row| element_of(row.id.as_str()).is_some_and(|(array, _)| array == id.as_str());
            match next {
                Some((at, place, row)) if is_of(row) && state.job(&row.id).is_none() => self.take(at, place),
                _ => return,
            }
        }
    }

    fn take(&mut self, at: usize, place: usize) {
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        let row = chunk.rows.remove(place);
        if chunk.rows.is_empty() {
            self.chunks.remove(at);
        } else if chunk.rows.len() < chunk.rows.capacity() / 4 {
            chunk.rows.shrink_to(CHUNK / 4);
        }
        self.uncount(&row);
    }

    fn uncount(&mut self, row: &Row) {
        let Some(counted) = row.counted() else { return };
        if let Some(number) = self.tally.get_mut(&counted) {
            *number -= 1;
            if *number == 0 {
                self.tally.remove(&counted);
            }
        }
    }

    /// Whether it is what would be made of everything anew.
    #[cfg(feature = "simulation")]
    pub(super) fn is_right(&self, state: &State, jobs: &Jobs) -> bool {
        let anew = Self::of(state, jobs);
        let (own, anew) = (self.listing(state.now), anew.listing(state.now));
        own.rows().eq(anew.rows()) && own.tally == anew.tally
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(super) fn listing(&self, now: Time) -> Listing {
        Listing { chunks: self.chunks.clone(), tally: self.tally.clone(), now }
    }
}

impl Listing {
    /// All rows, oldest first.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.chunks.iter().flat_map(|chunk| &chunk.rows)
    }

    /// Rows in one of some states, newest first, from before an id on.
    pub(super) fn newest<'a>(
        &'a self,
        states: u16,
        before: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Row> {
        let earlier = move |row: &Row| before.is_none_or(|id| order(row.id.as_str(), id) == Ordering::Less);
        let chunks = match before {
            None => &self.chunks[..],
            Some(_) => {
                let begins = |chunk: &Arc<Chunk>| chunk.rows.first().is_some_and(&earlier);
                &self.chunks[..self.chunks.partition_point(begins)]
            }
        };
        let chunks = chunks.iter().rev().filter(move |chunk| chunk.states & states != 0);
        let rows = chunks.flat_map(|chunk| chunk.rows.iter().rev());
        rows.filter(move |row| states & bit(row.state) != 0 && earlier(row))
    }

    /// The row of a job or an array.
    pub fn row(&self, id: &str) -> Option<&Row> {
        let before = |chunk: &Arc<Chunk>| {
            chunk.rows.last().is_some_and(|last| order(last.id.as_str(), id) == Ordering::Less)
        };
        let rows = &self.chunks.get(self.chunks.partition_point(before))?.rows;
        let place = rows.binary_search_by(|row| order(row.id.as_str(), id)).ok()?;
        rows.get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, state: JobState) -> Row {
        Row {
            id: JobId::new(id).unwrap(),
            pool: PoolId::new("p").unwrap(),
            spec: Arc::default(),
            meta: None,
            nodes: None,
            since: Time::ZERO,
            retry_at: None,
            kind: Kind::Job,
            state,
            held: false,
            follows: false,
        }
    }

    #[test]
    fn rows_stay_in_order_however_they_come_and_go() {
        let mut roster = Roster::default();
        let state = State::default();
        let mut known = std::collections::BTreeSet::new();
        // A walk through all residues: in no order, each once.
        for step in 0..6000_u64 {
            let number = step * 3769 % 6000;
            roster.put(row(&number.to_string(), JobState::Pending));
            known.insert(number);
            let gone = step * 1811 % 6000;
            if step % 3 == 0 && known.remove(&gone) {
                roster.remove(&JobId::new(&gone.to_string()).unwrap(), &state);
            }
        }
        let listing = roster.listing(Time::ZERO);
        let ids: Vec<u64> = listing.rows().map(|row| row.id.as_str().parse().unwrap()).collect();
        assert_eq!(ids, known.iter().copied().collect::<Vec<_>>());
        assert_eq!(listing.tally.values().sum::<u64>(), known.len() as u64);
        assert!(roster.chunks.len() > 4 && roster.chunks.iter().all(|chunk| chunk.rows.len() <= CHUNK));
        let before: Vec<u64> = known.range(..3000).rev().copied().collect();
        let newest = listing.newest(bit(JobState::Pending), Some("3000"));
        assert_eq!(newest.map(|row| row.id.as_str().parse().unwrap()).collect::<Vec<u64>>(), before);
        assert_eq!(listing.newest(bit(JobState::Running), None).count(), 0);
    }

    #[test]
    fn a_listing_stays_as_it_was_and_an_array_goes_with_its_elements() {
        let mut roster = Roster::default();
        for id in ["12", "12.1", "12.2", "13"] {
            roster.put(row(id, JobState::Completed));
        }
        let before = roster.listing(Time::ZERO);
        roster.put(row("13", JobState::Running));
        roster.remove(&JobId::new("12").unwrap(), &State::default());
        let states = |listing: &Listing| listing.rows().map(|row| row.state).collect::<Vec<_>>();
        assert_eq!(states(&before), [JobState::Completed; 4]);
        assert_eq!(states(&roster.listing(Time::ZERO)), [JobState::Running]);
        assert!(before.row("12.2").is_some() && before.row("14").is_none() && before.row("12.3").is_none());
        let counted: Vec<_> =
            roster.tally().iter().map(|((_, _, state), number)| (*state, *number)).collect();
        assert_eq!(counted, [(JobState::Running, 1)]);
    }
}
