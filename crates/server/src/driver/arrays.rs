//! Arrays: many jobs that differ in their index only. The engine keeps one as one record and makes jobs of its elements
//! shortly before they start; here it has one record too, until its last element has ended.

use std::sync::Arc;

use landfall_api::ApiError;
use landfall_api::job::{ArrayView, JobRequest, MoreElements, Submitted};
use landfall_engine::array::{Array, element_id, parse_element_id};
use landfall_engine::record::{JobRecord, JobState};
use landfall_engine::{Answer, Event, Input, State};
use landfall_model::{Indices, Job, JobId};
use landfall_store::{Change, Table};

use super::archive::{ArrayRow, archive_key};
use super::core::{Core, View};
use super::handle::{Caller, Failure};
use super::intake::check_entries;
use super::jobs::{JobMeta, Jobs};
use super::roster::Row;
use super::submit::{invalid, refused_answer};
use super::view::{ms, needs_of};

/// What the elements of an array have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) meta: Arc<JobMeta>,
    pub(super) needs: serde_json::Map<String, serde_json::Value>,
    pub(super) pool: String,
    pub(super) tenant: Option<String>,
    pub(super) submitted_at_ms: u64,
}

impl Shared {
    /// That of an array that the engine knows and that is not over.
    pub(super) fn of_live(state: &State, jobs: &Jobs, array: &str) -> Option<Self> {
        let live = state.folded.get(array)?;
        let meta = jobs.meta(&live.job.id)?;
        Some(Self {
            meta: meta.clone(),
            needs: needs_of(&live.job.spec),
            pool: live.pool.to_string(),
            tenant: live.job.spec.tenant.as_ref().map(ToString::to_string),
            submitted_at_ms: ms(live.job.submitted_at),
        })
    }

    /// The same from its row.
    pub(super) fn of_row(row: &Row) -> Option<Self> {
        Some(Self {
            meta: row.meta.clone()?,
            needs: needs_of(&row.spec),
            pool: row.pool.to_string(),
            tenant: row.tenant().map(ToString::to_string),
            submitted_at_ms: ms(row.since),
        })
    }
}

impl Core {
    /// Keeps what is beside the engine up with an event about an array.
    pub(super) fn follow_array(&mut self, event: &Event) {
        match event {
            Event::Unfolded { array, positions } => {
                let Some(array) = self.engine.state().folded.get(array) else { return };
                let pool = array.pool.clone();
                if !self.is_pull(&pool) {
                    return;
                }
                let elements: Vec<JobId> = positions.iter().map(|position| array.element(position)).collect();
                for element in elements {
                    self.pull.waits(&pool, element);
                }
            }
            Event::ArrayClosed(array) => self.array_may_be_over(array.as_str()),
            Event::FoldedDropped { array, .. } => self.array_may_be_over(array.as_str()),
            _ => {}
        }
    }

    /// Adds elements to an array that is open.
    pub(super) fn extend(
        &mut self,
        caller: &Caller,
        id: &JobId,
        more: MoreElements,
        key: Option<&str>,
    ) -> Result<(Vec<Submitted>, bool), Failure> {
        let key = key.map(|key| self.repeatable(caller, key, &(id, &more))).transpose()?;
        if let Some(before) = key.as_ref().and_then(|key| key.before.clone()) {
            return Ok((before, true));
        }
        let closed = || {
            let error = ApiError::new("array_closed", format!("array `{id}` has ended"));
            Failure::refused(422, error.hint("submit another one"))
        };
        let known = self.jobs.meta(id).cloned().ok_or_else(closed)?;
        let (meta, count) = with_more(&known, more)?;
        let meta = Arc::new(meta);
        // The engine may place them at once, and a start command needs to know what to run.
        self.jobs.insert(id.clone(), meta.clone());
        if let Answer::Refused(refused) = self.step(Input::ExtendArray { array: id.clone(), count }) {
            self.jobs.insert(id.clone(), known);
            return Err(refused_answer(refused));
        }
        self.put(Table::Jobs, id.as_str(), &*meta);
        let added =
            Submitted { id: id.to_string(), count: count.into(), repeated: false, warnings: Vec::new() };
        let added = vec![added];
        self.remember(key, &added);
        Ok((added, false))
    }

    /// Files an array away whose last element has ended.
    pub(super) fn array_may_be_over(&mut self, id: &str) {
        let Some((id, array)) = self.engine.state().folded.get_key_value(id) else { return };
        if !array.is_over() {
            return;
        }
        let id = id.clone();
        let Some(meta) = self.jobs.meta(&id).cloned() else { return };
        let row = ArrayRow {
            ended_at_ms: array.ended_at.map(ms),
            array: array_view(array, &meta, 0),
            meta: (*meta).clone(),
            needs: needs_of(&array.job.spec),
        };
        self.jobs.remove(&id);
        self.batch.changes.push(Change::delete(Table::Jobs, id.as_str()));
        self.put(Table::Archive, archive_key(id.as_str()), &row);
        // Its elements ended before it, so they are forgotten before it.
        self.ended_one(id);
    }
}

/// What is kept of an array with more elements, and how many come.
fn with_more(known: &JobMeta, more: MoreElements) -> Result<(JobMeta, u32), Failure> {
    let given = u32::try_from(more.entries.len()).unwrap_or(u32::MAX);
    match (known.entries.is_empty(), given) {
        (true, 1..) => {
            let message = "the elements of this array have no entries";
            return Err(invalid("entries", message, "say how many come"));
        }
        (false, 0) => {
            let message = "the elements of this array have entries";
            return Err(invalid("entries", message, "give one for each element that comes"));
        }
        (false, given) if more.count > 0 && more.count != given => {
            let message = format!("there are {given} entries for {} elements", more.count);
            return Err(invalid("entries", message, "give one for each, or leave the count out"));
        }
        _ => {}
    }
    let count = given.max(more.count);
    let range = known.array.clone().filter(|indices| indices.list.is_none());
    let range = range.ok_or_else(|| invalid("", "it takes no more elements", "submit another array"))?;
    let last = u32::try_from(range.count() - 1).ok().and_then(|last| last.checked_add(count));
    let last = last.and_then(|last| last.checked_mul(range.step)?.checked_add(range.first));
    let last = last.ok_or_else(|| invalid("count", "indices would become too large", "add fewer"))?;
    let mut request = JobRequest {
        run: (*known.run).clone(),
        array: Some(Indices { last, ..range }),
        entries: known.entries.iter().cloned().chain(more.entries).collect(),
        ..JobRequest::default()
    };
    check_entries(&mut request, "")?;
    let meta = JobMeta { array: request.array, entries: Arc::new(request.entries), ..known.clone() };
    Ok((meta, count))
}

/// How an array that lives is shown.
fn array_view(array: &Array, meta: &JobMeta, running: u64) -> ArrayView {
    let tally = array.tally();
    ArrayView {
        id: array.job.id.to_string(),
        name: meta.name.clone(),
        command: meta.run.command.clone(),
        pool: array.pool.to_string(),
        tenant: array.job.spec.tenant.as_ref().map(ToString::to_string),
        range: array.shape.indices.clone(),
        submitted_at_ms: ms(array.job.submitted_at),
        total: tally.total.into(),
        pending: u64::from(tally.folded + tally.unfolded).saturating_sub(running),
        running,
        completed: tally.completed.into(),
        failed: tally.failed.into(),
        cancelled: tally.cancelled.into(),
        why: None,
        open: array.open,
        ids_to: array.shape.ids_to,
    }
}

/// The record that a folded element would have.
pub(super) fn folded_record(array: &Array, id: &JobId, state: JobState) -> JobRecord {
    let job = Job { id: id.clone(), ..array.job.clone() };
    JobRecord { state, ..JobRecord::new(job, array.pool.clone(), array.user_hold, array.round_base) }
}

impl View<'_> {
    pub fn array(&mut self, text: &str) -> Option<ArrayView> {
        let state = self.engine.state();
        if let Some(array) = state.folded.get(text)
            && let Some(meta) = self.jobs.meta(&array.job.id)
        {
            let (first, last) = array.bounds();
            let records = state.jobs.range(first..=last);
            let running = records.filter(|(_, record)| record.state.is_placed()).count() as u64;
            let mut view = array_view(array, meta, running);
            if running == 0 && view.pending > 0 {
                view.why = self.why_waiting(&array.job.id).map(|why| why.detail);
            }
            return Some(view);
        }
        self.of_ended(|ended| ended.array(text)).map(|row| row.array)
    }

    /// A job, an array or an element of one, as it could be submitted again.
    ///
    /// # Errors
    /// When another version wrote something into it that this one does not know.
    pub fn as_submitted(&mut self, text: &str) -> Result<Option<JobRequest>, Failure> {
        let array = match self.array(text) {
            Some(array) => self.of_ended(|ended| ended.shared_by(text)).map(|shared| (shared, array.range)),
            None => None,
        };
        let (name, needs, run, array, entries) = match array {
            Some((shared, range)) => {
                let JobMeta { name, run, entries, .. } = (*shared.meta).clone();
                (name, shared.needs.clone(), (*run).clone(), Some(range), (*entries).clone())
            }
            None => {
                let Some(job) = self.exact(text).and_then(|id| self.job(&id)) else { return Ok(None) };
                let element = job.array.as_ref().map(|at| Indices::one(at.index));
                let entry = job.array.and_then(|at| at.entry);
                (job.name, job.needs, job.run, element, entry.into_iter().collect())
            }
        };
        let needs = serde_json::from_value(serde_json::Value::Object(needs)).map_err(|error| {
            let message = format!("what `{text}` needs cannot be asked for here: {error}");
            Failure::refused(422, ApiError::new("unreadable_needs", message).hint("submit it anew"))
        })?;
        Ok(Some(JobRequest { name, needs, run, array, entries, ..JobRequest::default() }))
    }

    /// The id of an element as the engine writes it, whatever zeros a person put before the index.
    pub fn exact(&mut self, text: &str) -> Option<JobId> {
        let id = JobId::new(text).ok()?;
        let Some((array, index)) = parse_element_id(&id) else { return Some(id) };
        let array = JobId::new(array).ok()?;
        let last = match self.engine.state().folded.get(&array) {
            Some(known) => known.shape.longest(),
            None => {
                let array = self.of_ended(|ended| ended.array(array.as_str()))?.array;
                array.ids_to.unwrap_or(array.range.last)
            }
        };
        element_id(&array, index, last).ok()
    }
}
