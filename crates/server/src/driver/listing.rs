//! Long lists of jobs, a page at a time, newest first.

use std::sync::Arc;

use landfall_api::Paged;
use landfall_api::job::JobView;
use landfall_engine::array::Array;
use landfall_engine::record::{JobRecord, JobState};
use landfall_model::answer::Why;
use landfall_model::{JobId, TenantId};
use landfall_store::Table;

use super::archive::archive_key;
use super::arrays::folded_record;
use super::core::View;
use super::jobs::element_of;
use super::view::{job_view, word};

/// Records of the archive that are looked at for one page.
const ARCHIVE_LOOKED_AT_MAX: usize = 20_000;
/// Records of the archive that are read at once.
const ARCHIVE_PAGE: usize = 1000;

/// Reasons looked up for one page.
const REASONS_MAX: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Only these states; `live` and `ended` stand for several. Empty means all.
    pub states: Vec<String>,
    pub pool: Option<String>,
    pub tenant: Option<String>,
    /// Only elements of this array.
    pub array: Option<String>,
    /// Only jobs of this name.
    pub name: Option<String>,
    /// Only jobs whose id begins with this or whose name contains it, in whatever case.
    pub search: Option<String>,
    /// Only jobs on this node.
    pub node: Option<String>,
    /// How many at most.
    pub limit: usize,
    pub cursor: Option<String>,
}

const ENDED: [&str; 3] = ["completed", "failed", "cancelled"];

impl JobFilter {
    fn wants_state(&self, state: &str) -> bool {
        let ended = ENDED.contains(&state);
        self.states.is_empty()
            || self.states.iter().any(|wanted| match wanted.as_str() {
                "live" => !ended,
                "ended" => ended,
                wanted => wanted == state,
            })
    }

    fn wants_ended(&self) -> bool {
        ENDED.iter().any(|state| self.wants_state(state))
    }

    fn wants_record(&self, record: &JobRecord) -> bool {
        let array = || element_of(record.job.id.as_str()).map(|(array, _)| array);
        // Most lists want all states, and the word for each costs more than all the rest.
        (self.states.is_empty() || self.wants_state(&word(&record.state)))
            && self.pool.as_deref().is_none_or(|pool| pool == record.pool.as_str())
            && self
                .tenant
                .as_deref()
                .is_none_or(|wanted| record.job.spec.tenant.as_ref().is_some_and(|t| t.as_str() == wanted))
            && self.array.as_deref().is_none_or(|wanted| array() == Some(wanted))
            && self.node.as_deref().is_none_or(|wanted| {
                record.run.iter().flat_map(|run| &run.nodes).any(|at| at.node.as_str() == wanted)
            })
    }

    /// Whether it wants an array as a whole, whose elements wait and are no jobs yet.
    fn wants_folded(&self, array: &Array) -> bool {
        let tenant = array.job.spec.tenant.as_ref().map(TenantId::as_str);
        self.wants_state("pending")
            && (array.tally().folded > 0 || is_idle(array))
            && self.pool.as_deref().is_none_or(|pool| pool == array.pool.as_str())
            && self.tenant.as_deref().is_none_or(|wanted| tenant == Some(wanted))
            && self.array.is_none()
            && self.node.is_none()
    }

    fn wants_view(&self, view: &JobView) -> bool {
        self.wants_state(&view.state)
            && self.pool.as_deref().is_none_or(|pool| pool == view.pool)
            && self.tenant.as_deref().is_none_or(|wanted| view.tenant.as_deref() == Some(wanted))
            && self.array.as_deref().is_none_or(|wanted| view.array.as_ref().is_some_and(|a| a.id == wanted))
            && self.node.as_deref().is_none_or(|wanted| view.nodes.iter().any(|at| at.node == wanted))
            && self.wants_name(&view.id, view.name.as_deref())
    }

    fn wants_name(&self, id: &str, name: Option<&str>) -> bool {
        let found = |text: &str| {
            id.starts_with(text)
                || name.is_some_and(|name| name.to_lowercase().contains(&text.to_lowercase()))
        };
        self.name.as_deref().is_none_or(|wanted| name == Some(wanted))
            && self.search.as_deref().is_none_or(found)
    }
}

/// Whether an array lives only because it takes more elements.
fn is_idle(array: &Array) -> bool {
    array.open && array.left() == 0
}

impl View<'_> {
    /// One page of jobs, newest first: those that live and those that ended, in one order.
    pub fn jobs(&mut self, filter: &JobFilter) -> Paged<JobView> {
        let limit = filter.limit.clamp(1, 1000);
        let before = filter.cursor.as_deref().map(archive_key);
        let mut found = self.live_page(filter, before.as_deref(), limit + 1);
        let mut looked_until = None;
        if filter.wants_ended() {
            let (ended, until) = self.ended_page(filter, before, limit + 1);
            found.extend(ended);
            found.sort_unstable_by(|a, b| b.0.cmp(&a.0));
            // Beyond that nobody looked, so this page ends there.
            found.retain(|(key, _)| until.as_ref().is_none_or(|until| key >= until));
            looked_until = until;
        }
        let more = found.len() > limit;
        found.truncate(limit);
        let items: Vec<JobView> = found.into_iter().map(|(_, view)| view).collect();
        let next = items.last().filter(|_| more).map(|view| view.id.clone()).or(looked_until);
        Paged { items, next }
    }

    fn live_page(&mut self, filter: &JobFilter, before: Option<&str>, most: usize) -> Vec<(String, JobView)> {
        let state = self.engine.state();
        // The newest `most` keys, smallest on top so that it can be thrown out.
        let mut newest = std::collections::BTreeSet::<(String, &JobId)>::new();
        let jobs = state.jobs.iter().filter(|(_, record)| !record.state.is_final());
        let jobs = jobs.filter(|(_, record)| filter.wants_record(record)).map(|(id, _)| id);
        let arrays = state.folded.iter().filter(|(_, array)| filter.wants_folded(array)).map(|(id, _)| id);
        for id in jobs.chain(arrays) {
            if (filter.name.is_some() || filter.search.is_some())
                && !filter.wants_name(id.as_str(), self.jobs.meta(id).and_then(|meta| meta.name.as_deref()))
            {
                continue;
            }
            let key = archive_key(id.as_str());
            if before.is_some_and(|before| key.as_str() >= before) {
                continue;
            }
            if newest.len() == most && newest.first().is_some_and(|(smallest, _)| key < *smallest) {
                continue;
            }
            newest.insert((key, id));
            if newest.len() > most {
                newest.pop_first();
            }
        }
        // Jobs with the same needs wait for the same reason, and only so many are asked about.
        let mut reasons: Vec<(&JobRecord, Option<Why>)> = Vec::new();
        let mut views = Vec::with_capacity(newest.len());
        for (key, id) in newest.into_iter().rev() {
            let Some(record) = state.job(id) else {
                if let Some(array) = state.folded.get(id) {
                    views.push((key, self.folded_view(array)));
                }
                continue;
            };
            let mut view = job_view(record, self.jobs, self.jobs.run(id));
            if record.is_queued() && view.reason.is_none() {
                let alike = |(known, _): &&(&JobRecord, Option<Why>)| {
                    known.pool == record.pool && Arc::ptr_eq(&known.job.spec, &record.job.spec)
                };
                let why = match reasons.iter().find(alike) {
                    Some((_, why)) => why.clone(),
                    None if reasons.len() < REASONS_MAX => {
                        let why = self.why_waiting(id);
                        reasons.push((record, why.clone()));
                        why
                    }
                    None => None,
                };
                if let Some(why) = why {
                    (view.reason, view.why) = (Some(why.reason.to_string()), Some(why.detail));
                }
            }
            views.push((key, view));
        }
        views
    }

    /// An array of which elements wait that are no jobs yet.
    fn folded_view(&self, array: &Array) -> JobView {
        let id = &array.job.id;
        let mut view = job_view(&folded_record(array, id, JobState::Pending), self.jobs, None);
        view.elements = Some(array.tally().folded.into());
        if is_idle(array) {
            view.why = Some("it is open, and all it has have ended".to_owned());
        } else if let Some(why) = self.why_waiting(id) {
            (view.reason, view.why) = (Some(why.reason.to_string()), Some(why.detail));
        }
        view
    }

    fn ended_page(
        &mut self,
        filter: &JobFilter,
        mut before: Option<String>,
        most: usize,
    ) -> (Vec<(String, JobView)>, Option<String>) {
        let mut found = Vec::new();
        let mut looked_at = 0;
        while found.len() < most && looked_at < ARCHIVE_LOOKED_AT_MAX {
            let page = self.store.scan(Table::Archive, before.as_deref(), ARCHIVE_PAGE, true);
            let Some(page) = self.noted(page) else { return (found, None) };
            let Some((last, _)) = page.last() else { return (found, None) };
            before = Some(last.clone());
            looked_at += page.len();
            let is_last = page.len() < ARCHIVE_PAGE;
            for (key, bytes) in page {
                let Some(view) = self.listed_row(&key, &bytes) else { continue };
                if filter.wants_view(&view) && found.len() < most {
                    found.push((key, view));
                }
            }
            if is_last {
                return (found, None);
            }
        }
        let full = found.len() >= most;
        (found, before.filter(|_| !full))
    }
}
