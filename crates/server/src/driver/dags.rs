//! DAGs: which jobs and arrays belong together, kept as a record for each of them.

use landfall_api::ApiError;
use landfall_api::job::{ArrayView, DagJob, DagPlace, JobView};
use landfall_model::{JobId, Time};
use landfall_store::{Change, Reader, StoreError, Table};

use super::archive::archive_key;
use super::core::{Core, View, unreadable};
use super::handle::{Caller, Failure};
use super::jobs::element_of;
use super::view::job_view;

/// Records looked at per cleaning.
const CLEANED_AT_ONCE: usize = 1000;
/// Most jobs and arrays of one DAG that are looked at.
pub(crate) const MEMBERS_MAX: usize = 10_000;

/// A job or an array of a DAG.
#[derive(Debug)]
pub struct Member {
    pub job: DagJob,
    pub tenant: Option<String>,
    pub submitted_at_ms: u64,
    /// Its place there; nothing for one that others joined.
    place: Option<DagPlace>,
}

impl Member {
    /// The DAG it belongs to, or that others make by joining it.
    pub fn dag(self) -> String {
        self.place.map_or(self.job.id, |place| place.id)
    }
}

/// Key of a member: those of one DAG lie together, and sort like their ids.
fn key(dag: &str, member: &str) -> String {
    format!("{}/{}", archive_key(dag), archive_key(member))
}

/// The DAG and the member of a key.
pub(crate) fn named(key: &str) -> Option<(&str, &str)> {
    let (dag, member) = key.split_once('/')?;
    let plain = |padded: &'_ str| padded.len() - padded.trim_start_matches('0').len();
    Some((&dag[plain(dag).min(dag.len() - 1)..], &member[plain(member).min(member.len() - 1)..]))
}

impl Core {
    /// Notes that a job or an array is part of a DAG, and that the one it is named after is.
    pub(super) fn joins_dag(&mut self, dag: &str, member: &str) {
        let at = self.now.as_millis();
        for member in [dag, member] {
            self.put(Table::Dags, key(dag, member), &at);
        }
    }

    /// Drops what ended before an instant, and says whether there is more.
    pub(super) fn drop_old_dags(&mut self, since: Time) -> Result<bool, StoreError> {
        let page = self.store.scan(Table::Dags, None, CLEANED_AT_ONCE, false)?;
        let full = page.len() == CLEANED_AT_ONCE;
        let mut dropped = 0;
        for (key, value) in page {
            let at: i64 =
                serde_json::from_slice(&value).map_err(|error| unreadable(Table::Dags, &key, error))?;
            let state = self.engine.state();
            let lives = |member: &str| state.jobs.contains_key(member) || state.folded.contains_key(member);
            // Keys sort by submission, so the oldest come first.
            if at >= since.as_millis() || named(&key).is_some_and(|(_, member)| lives(member)) {
                break;
            }
            dropped += 1;
            self.batch.changes.push(Change::delete(Table::Dags, key));
        }
        Ok(full && dropped == CLEANED_AT_ONCE)
    }
}

/// The members of a DAG by id; none if there is no such DAG.
///
/// # Errors
/// When the journal cannot be read.
pub(crate) fn members(reader: &mut dyn Reader, dag: &str) -> Result<Vec<String>, StoreError> {
    let first = format!("{}/", archive_key(dag));
    let page = reader.scan(Table::Dags, Some(&first), MEMBERS_MAX, false)?;
    let own = page.iter().take_while(|(key, _)| key.starts_with(&first));
    Ok(own.filter_map(|(key, _)| named(key)).map(|(_, member)| member.to_owned()).collect())
}

/// Up to so many DAGs behind one, the newest first.
///
/// # Errors
/// When the journal cannot be read.
pub(crate) fn newest(
    reader: &mut dyn Reader,
    behind: Option<&str>,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let mut found: Vec<String> = Vec::new();
    // What lies before all members of one lies behind it from the newest on.
    let before = |dag: &str| format!("{}/", archive_key(dag));
    let mut after = behind.map(before);
    while found.len() < limit {
        let page = reader.scan(Table::Dags, after.as_deref(), 1, true)?;
        let Some((dag, _)) = page.first().and_then(|(key, _)| named(key)) else { break };
        after = Some(before(dag));
        found.push(dag.to_owned());
    }
    Ok(found)
}

impl View<'_> {
    /// The DAG that somebody wants a job to join, by its id or that of one of its jobs.
    pub(super) fn dag_joined(&mut self, caller: &Caller, named: &str, path: &str) -> Result<String, Failure> {
        let own = |tenant: Option<&str>| caller.tenant.is_none() || tenant == caller.tenant.as_deref();
        let found = self.member(named).filter(|member| own(member.tenant.as_deref()));
        let Some(member) = found else {
            let error =
                ApiError::new("unknown_dag", format!("there is no DAG `{named}`, and no job of that id"));
            let hint = "give the id of a DAG, or of a job or an array that it is made of";
            return Err(Failure::refused(422, error.hint(hint).field(format!("{path}dag"))));
        };
        Ok(member.dag())
    }

    /// A job or an array as a DAG shows it.
    pub fn member(&mut self, text: &str) -> Option<Member> {
        // What an element belongs to is what its array belongs to.
        let text = element_of(text).map_or(text, |(array, _)| array);
        let id = self.exact(text)?;
        let state = self.engine.state();
        let meta = self.jobs.meta(&id).map(|meta| &**meta);
        if let Some(record) = state.job(&id).filter(|record| !record.state.is_final()) {
            let view = job_view(record, meta, self.jobs.run(&id));
            return Some(self.of_job(view));
        }
        if let Some(array) = self.array(text) {
            let place =
                self.of_ended(|ended| ended.shared_by(text)).and_then(|shared| shared.meta.dag.clone());
            return Some(self.of_array(array, place));
        }
        let view = self.archived(text)?;
        Some(self.of_job(view))
    }

    fn waits_for(&self, id: &str) -> Vec<String> {
        let id = JobId::new(id).ok();
        let open = id.as_ref().and_then(|id| self.engine.state().graph.open_edges(id));
        open.into_iter().flat_map(|(_, edges)| edges).map(|edge| edge.on.to_string()).collect()
    }

    fn of_job(&self, job: JobView) -> Member {
        let place = job.dag.clone();
        let shown = DagJob {
            key: place.as_ref().and_then(|place| place.key.clone()),
            depends_on: place.as_ref().map(|place| place.depends_on.clone()).unwrap_or_default(),
            waits_for: self.waits_for(&job.id),
            id: job.id,
            name: job.name,
            state: job.state,
            reason: job.reason,
            exit_code: job.exit_code,
            elements: None,
            started_at_ms: job.started_at_ms,
            ended_at_ms: job.ended_at_ms,
        };
        Member { job: shown, tenant: job.tenant, submitted_at_ms: job.submitted_at_ms, place }
    }

    fn of_array(&self, array: ArrayView, place: Option<DagPlace>) -> Member {
        let state = match &array {
            _ if !array.is_over() && array.pending == array.total => "pending",
            _ if !array.is_over() => "running",
            ArrayView { failed: 1.., .. } => "failed",
            ArrayView { cancelled: 1.., .. } => "cancelled",
            _ => "completed",
        };
        let shown = DagJob {
            key: place.as_ref().and_then(|place| place.key.clone()),
            depends_on: place.as_ref().map(|place| place.depends_on.clone()).unwrap_or_default(),
            waits_for: self.waits_for(&array.id),
            id: array.id,
            name: array.name,
            state: state.into(),
            elements: Some(array.total),
            ..DagJob::default()
        };
        Member { job: shown, tenant: array.tenant, submitted_at_ms: array.submitted_at_ms, place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_the_dag_and_its_member_and_sort_like_their_ids() {
        for (dag, member) in [("7", "7"), ("7", "10"), ("12", "100"), ("0", "0")] {
            assert_eq!(named(&key(dag, member)), Some((dag, member)));
        }
        assert!(key("7", "10") > key("7", "9") && key("10", "10") > key("9", "99"));
    }
}
