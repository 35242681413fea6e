//! Jobs that ended: what is kept of them on disk.
//!
//! A job has a record of its own. An array has one for what its elements share, and each element a short one: a million
//! of them should cost no more than what differs between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_api::job::{ArrayView, JobView, OnNode, UsageView};
use landfall_model::{JobId, Time};
use landfall_store::{Change, Reader, StoreError, Table};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::arrays::Shared;
use super::core::{Core, View, unreadable};
use super::jobs::{JobMeta, element_of};
use super::view::{Own, job_view, version_of};

/// Records looked at per cleaning.
const CLEANED_AT_ONCE: usize = 10_000;

/// Key of an ended job: numbers are padded so that keys sort like jobs.
pub(crate) fn archive_key(id: &str) -> String {
    match element_of(id) {
        Some((array, index)) => format!("{array:0>12}.{index:010}"),
        None => format!("{id:0>12}"),
    }
}

/// What is kept of an array: what its elements share, and how they ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ArrayRow {
    #[serde(default)]
    pub(super) ended_at_ms: Option<u64>,
    pub(super) array: ArrayView,
    pub(super) meta: JobMeta,
    pub(super) needs: Map<String, Value>,
}

/// What is kept of an element: what it does not share with its array. A list, because names would outweigh it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ElementRow(
    /// Its id.
    String,
    /// Its state.
    String,
    Option<String>,
    u32,
    Option<u64>,
    Option<u64>,
    Option<i32>,
    Vec<OnNode>,
    Option<UsageView>,
    /// Where what it left is kept.
    #[serde(default)]
    Option<String>,
    /// What it cost.
    #[serde(default)]
    Option<f64>,
);

/// What is found under a key.
#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Job(Box<JobView>),
    Element(Box<ElementRow>),
    Array(Box<ArrayRow>),
}

impl Core {
    /// Keeps what is to be shown of a job that ended just now.
    pub(super) fn archive(&mut self, id: &JobId) {
        let run = self.jobs.end_run(id);
        self.note_end(id, run.as_ref());
        let Some(record) = self.engine.state().job(id) else { return };
        let key = archive_key(id.as_str());
        let Some((array, _)) = element_of(id.as_str()) else {
            let view = job_view(record, self.jobs.meta(id).map(|meta| &**meta), run.as_ref());
            self.jobs.remove(id);
            self.batch.changes.push(Change::delete(Table::Jobs, id.as_str()));
            self.put(Table::Archive, key, &view);
            return;
        };
        // What it shares with its array is not looked at: there may be a million of them.
        let own = Own::of(record, run.as_ref());
        let row = ElementRow(
            id.to_string(),
            own.state,
            own.reason,
            record.attempt,
            own.started_at_ms,
            own.ended_at_ms,
            own.exit_code,
            run.as_ref().map(|run| run.nodes.clone()).unwrap_or_default(),
            own.usage,
            run.as_ref().and_then(|run| run.files.clone()),
            own.price,
        );
        self.put(Table::Archive, key, &row);
        self.array_may_be_over(array);
    }

    /// Drops what ended before an instant.
    /// Says whether there is more.
    pub(super) fn drop_old_archive(&mut self, since: Time) -> Result<bool, StoreError> {
        // Keys sort by submission, so the oldest come first; one that is too young ends the search.
        let page = self.store.scan(Table::Archive, None, CLEANED_AT_ONCE, false)?;
        let mut changes = Vec::new();
        for (key, value) in page {
            let ended_at_ms = match read(&key, &value)? {
                Row::Job(view) => view.ended_at_ms,
                Row::Element(row) => row.5,
                // It ended with its last element, so all of them are too old as well.
                Row::Array(row) => row.ended_at_ms,
            };
            if !is_before(ended_at_ms, since) {
                break;
            }
            changes.push(Change::delete(Table::Archive, key));
        }
        let more = changes.len() == CLEANED_AT_ONCE;
        self.batch.changes.extend(changes);
        Ok(more)
    }

    /// Drops answers to submissions that nobody will repeat any more; says where to go on.
    pub(super) fn drop_old_answers(
        &mut self,
        after: Option<String>,
        since: Time,
    ) -> Result<Option<String>, StoreError> {
        let page = self.store.scan(Table::Idempotency, after.as_deref(), CLEANED_AT_ONCE, false)?;
        let last = page.last().filter(|_| page.len() == CLEANED_AT_ONCE).map(|(key, _)| key.clone());
        for (key, value) in page {
            let kept = serde_json::from_slice::<Value>(&value)
                .map_err(|error| unreadable(Table::Idempotency, &key, error))?;
            if kept["at_ms"].as_i64().is_none_or(|at| at < since.as_millis()) {
                self.batch.changes.push(Change::delete(Table::Idempotency, key));
            }
        }
        Ok(last)
    }
}

/// A record of the archive.
fn read<T: serde::de::DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| unreadable(Table::Archive, key, error))
}

fn is_before(ms: Option<u64>, since: Time) -> bool {
    ms.is_none_or(|ms| i64::try_from(ms).unwrap_or(i64::MAX) < since.as_millis())
}

/// Reads records of jobs that ended, on the driver's thread or elsewhere.
pub(super) struct Ended<'a> {
    pub(super) reader: &'a mut dyn Reader,
    /// What the elements of an array share that still lives.
    pub(super) live: &'a dyn Fn(&str) -> Option<Shared>,
    /// What elements of arrays share, as far as it was looked up.
    pub(super) shared: &'a mut BTreeMap<String, Arc<Shared>>,
}

impl Ended<'_> {
    /// An ended job as it is shown.
    pub(super) fn job(&mut self, id: &str) -> Result<Option<JobView>, StoreError> {
        let key = archive_key(id);
        let Some(bytes) = self.reader.get(Table::Archive, &key)? else { return Ok(None) };
        self.of_row(read(&key, &bytes)?)
    }

    /// An ended job from its record; arrays have records too, which are no jobs.
    fn of_row(&mut self, row: Row) -> Result<Option<JobView>, StoreError> {
        let row = match row {
            Row::Job(view) => return Ok(Some(*view)),
            Row::Array(_) => return Ok(None),
            Row::Element(row) => *row,
        };
        let Some((array, index)) = element_of(&row.0) else { return Ok(None) };
        let (array, index) = (array.to_owned(), index);
        let Some(shared) = self.shared_by(&array)? else { return Ok(None) };
        let mut view = JobView {
            name: shared.meta.name.clone(),
            array: Some(shared.meta.element(&array, index)),
            elements: None,
            pool: shared.pool.clone(),
            tenant: shared.tenant.clone(),
            submitter: shared.meta.submitter.clone(),
            needs: shared.needs.clone(),
            run: (*shared.meta.run).clone(),
            held: false,
            waits_for: None,
            dag: None,
            submitted_at_ms: shared.submitted_at_ms,
            id: row.0,
            state: row.1,
            reason: row.2,
            why: None,
            attempt: row.3,
            started_at_ms: row.4,
            ended_at_ms: row.5,
            exit_code: row.6,
            nodes: row.7,
            usage: row.8,
            price: row.10,
            files: row.9,
            note: None,
            version: String::new(),
        };
        view.version = version_of(&view);
        Ok(Some(view))
    }

    /// What is shared by the elements of an array, wherever it is kept.
    pub(super) fn shared_by(&mut self, array: &str) -> Result<Option<Arc<Shared>>, StoreError> {
        if let Some(known) = self.shared.get(array) {
            return Ok(Some(known.clone()));
        }
        let shared = match (self.live)(array) {
            Some(shared) => shared,
            None => {
                let Some(row) = self.array(array)? else { return Ok(None) };
                let (pool, tenant) = (row.array.pool, row.array.tenant);
                let submitted_at_ms = row.array.submitted_at_ms;
                Shared { meta: Arc::new(row.meta), needs: row.needs, pool, tenant, submitted_at_ms }
            }
        };
        let shared = Arc::new(shared);
        self.shared.insert(array.to_owned(), shared.clone());
        Ok(Some(shared))
    }

    /// What is kept of an array all of whose elements ended.
    pub(super) fn array(&mut self, id: &str) -> Result<Option<ArrayRow>, StoreError> {
        let key = archive_key(id);
        let Some(bytes) = self.reader.get(Table::Archive, &key)? else { return Ok(None) };
        Ok(match read(&key, &bytes)? {
            Row::Array(row) => Some(*row),
            Row::Job(_) | Row::Element(_) => None,
        })
    }

    /// Ended jobs behind a key, and where to go on.
    pub(super) fn page(
        &mut self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<JobView>, Option<String>), StoreError> {
        let page = self.reader.scan(Table::Archive, after, limit, false)?;
        let next = page.last().filter(|_| page.len() == limit).map(|(key, _)| key.clone());
        let mut jobs = Vec::with_capacity(page.len());
        for (key, bytes) in page {
            jobs.extend(self.of_row(read(&key, &bytes)?)?);
        }
        Ok((jobs, next))
    }

    /// What a list shows of a record: a job, or an array whose elements were taken back before they became jobs.
    pub(super) fn listed(&mut self, key: &str, bytes: &[u8]) -> Result<Option<JobView>, StoreError> {
        let row = match read(key, bytes)? {
            Row::Array(row) => *row,
            other => return self.of_row(other),
        };
        if row.array.cancelled == 0 {
            return Ok(None);
        }
        let mut view = JobView {
            id: row.array.id,
            name: row.array.name,
            array: None,
            elements: Some(row.array.cancelled),
            state: "cancelled".into(),
            reason: None,
            why: None,
            pool: row.array.pool,
            tenant: row.array.tenant,
            submitter: row.meta.submitter.clone(),
            needs: row.needs,
            run: (*row.meta.run).clone(),
            attempt: 1,
            held: false,
            waits_for: None,
            dag: None,
            submitted_at_ms: row.array.submitted_at_ms,
            started_at_ms: None,
            ended_at_ms: row.ended_at_ms,
            nodes: Vec::new(),
            exit_code: None,
            usage: None,
            price: None,
            files: None,
            note: None,
            version: String::new(),
        };
        view.version = version_of(&view);
        Ok(Some(view))
    }
}

impl View<'_> {
    /// Reads something of what ended.
    pub(super) fn of_ended<T>(
        &mut self,
        question: impl FnOnce(&mut Ended<'_>) -> Result<Option<T>, StoreError>,
    ) -> Option<T> {
        let (state, jobs) = (self.engine.state(), self.jobs);
        let live = |array: &str| Shared::of_live(state, jobs, array);
        let mut ended = Ended { reader: &mut **self.store, live: &live, shared: &mut self.shared };
        let read = question(&mut ended);
        self.noted(read)?
    }

    /// An ended job as it is shown.
    pub fn archived(&mut self, text: &str) -> Option<JobView> {
        self.of_ended(|ended| ended.job(text))
    }
}
