//! Jobs that ended: what is kept of them on disk.

use landfall_api::job::{ArrayView, JobView};
use landfall_model::{JobId, Time};
use landfall_store::{Change, StoreError, Table};
use serde_json::Map;

use super::core::{Core, View};
use super::jobs::element_of;
use super::view::{job_view, version_of};

/// Records looked at per cleaning.
const CLEANED_AT_ONCE: usize = 10_000;

/// Key of an ended job: numbers are padded so that keys sort like jobs.
pub(super) fn archive_key(id: &str) -> String {
    match element_of(id) {
        Some((array, index)) => format!("{array:0>12}.{index:010}"),
        None => format!("{id:0>12}"),
    }
}

impl Core {
    /// Keeps what is to be shown of a job that ended just now.
    pub(super) fn archive(&mut self, id: &JobId) {
        let run = self.jobs.end_run(id);
        let Some(record) = self.engine.state().job(id) else { return };
        let mut view = job_view(record, &self.jobs, run.as_ref());
        if view.array.is_some() {
            // What all elements have in common is kept once, with the array.
            (view.needs, view.run) = (Map::new(), Default::default());
        } else {
            self.jobs.remove(id);
            self.batch.changes.push(Change::delete(Table::Jobs, id.as_str()));
        }
        self.put(Table::Archive, archive_key(id.as_str()), &view);
    }

    /// Drops what ended before an instant.
    pub(super) fn drop_old_archive(&mut self, since: Time) -> Result<(), StoreError> {
        // Keys sort by submission, so the oldest come first; one that is too young ends the search.
        let page = self.store.scan(Table::Archive, None, CLEANED_AT_ONCE, false)?;
        let old = page.into_iter().take_while(|(_, value)| {
            let view = serde_json::from_slice::<serde_json::Value>(value).unwrap_or_default();
            let ended = view.get("ended_at_ms").and_then(serde_json::Value::as_i64);
            ended.is_none_or(|ended| ended < since.as_millis())
        });
        let changes: Vec<Change> = old.map(|(key, _)| Change::delete(Table::Archive, key)).collect();
        self.batch.changes.extend(changes);
        Ok(())
    }
}

impl View<'_> {
    /// An ended job as it is shown.
    pub fn archived(&mut self, text: &str) -> Option<JobView> {
        let bytes = self.store.get(Table::Archive, &archive_key(text)).ok()??;
        let view = serde_json::from_slice::<JobView>(&bytes).ok()?;
        Some(self.completed(view))
    }

    /// An element with what it has in common with its array.
    pub(super) fn completed(&mut self, mut view: JobView) -> JobView {
        let Some(element) = &view.array else { return view };
        let Ok(array) = JobId::new(&element.id) else { return view };
        if let Some(meta) = self.jobs.meta(&array) {
            view.run = (*meta.run).clone();
        }
        view.version = version_of(&view);
        view
    }

    /// An array all of whose elements ended, as it is shown.
    pub(super) fn archived_array(&mut self, text: &str) -> Option<ArrayView> {
        let bytes = self.store.get(Table::Archive, &archive_key(text)).ok()??;
        serde_json::from_slice(&bytes).ok()
    }
}
