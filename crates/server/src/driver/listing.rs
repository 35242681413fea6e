//! Long lists of jobs, a page at a time, newest first: found in a [`Listing`] and in the archive, on whatever thread; only what the page
//! shows of jobs that live is taken from the driver.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use landfall_api::Paged;
use landfall_api::job::JobView;
use landfall_engine::record::{JobRecord, JobState};
use landfall_model::answer::Why;
use landfall_model::{JobId, JobSpec, PoolId};
use landfall_store::{Reader, StoreError, Table};

use super::archive::{Ended, archive_key};
use super::arrays::{Shared, folded_record};
use super::core::View;
use super::jobs::{JobMeta, LiveRun, element_of};
use super::roster::{Kind, Listing, Row, Tally, bit, is_idle};
use super::view::{job_view, word};

/// Records of the archive that are looked at for one page.
const ARCHIVE_LOOKED_AT_MAX: usize = 20_000;
/// Records of the archive that are read at once.
const ARCHIVE_PAGE: usize = 1000;

/// Reasons looked up for one page.
const REASONS_MAX: usize = 16;
/// Reasons that are kept for the next page.
const WHYS_MAX: usize = 1024;
/// A reason that took the driver so long to find holds for so many times that.
const SHARE_OF_DRIVER: u32 = 50;

/// States of jobs that may still change.
const LIVE: [JobState; 6] = [
    JobState::Pending,
    JobState::Staging,
    JobState::Running,
    JobState::Checkpointing,
    JobState::Stopping,
    JobState::Suspended,
];

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

    /// The states of live jobs that it wants, as bits.
    fn live_states(&self) -> u16 {
        let wanted = LIVE.into_iter().filter(|state| self.wants_state(&word(state)));
        wanted.fold(0, |bits, state| bits | bit(state))
    }

    fn wants_row(&self, row: &Row) -> bool {
        let array = || element_of(row.id.as_str()).map(|(array, _)| array);
        let on = |wanted: &str| {
            row.nodes.iter().flat_map(|nodes| nodes.iter()).any(|node| node.as_str() == wanted)
        };
        // Of an array that waits as a whole, only the whole is shown.
        (row.kind == Kind::Job || (row.kind != Kind::Array(0) && self.array.is_none() && self.node.is_none()))
            && self.pool.as_deref().is_none_or(|pool| pool == row.pool.as_str())
            && self.tenant.as_deref().is_none_or(|wanted| row.tenant().is_some_and(|t| t.as_str() == wanted))
            && self.array.as_deref().is_none_or(|wanted| array() == Some(wanted))
            && self.node.as_deref().is_none_or(on)
            && self.wants_name(row.id.as_str(), row.name())
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

/// What was found for a page, newest first: its key, and what is to be shown.
#[derive(Debug)]
pub struct Found {
    items: Vec<(String, Item)>,
    next: Option<String>,
}

#[derive(Debug)]
enum Item {
    /// The driver has to be asked about it.
    Live(JobId),
    Ended(Box<JobView>),
}

/// An ended job with its key.
type Keyed = (String, JobView);

/// What the driver has about a live job.
#[derive(Debug)]
pub struct Taken {
    record: JobRecord,
    meta: Option<Arc<JobMeta>>,
    run: Option<LiveRun>,
    /// Elements of an array that are no jobs yet.
    elements: Option<u64>,
    why: Option<Why>,
    /// Whether it is an open array of which everything has ended.
    idle: bool,
}

impl Taken {
    /// The job as it is shown. Making that costs more than taking, so it is not the driver who does.
    pub fn shown(self) -> JobView {
        let mut view = job_view(&self.record, self.meta.as_deref(), self.run.as_ref());
        view.elements = self.elements;
        if self.idle {
            view.why = Some("it is open, and all it has have ended".to_owned());
        }
        if let Some(why) = self.why {
            (view.reason, view.why) = (Some(why.reason.to_string()), Some(why.detail));
        }
        view
    }
}

impl Listing {
    /// Finds one page of jobs, newest first: those that live and those that ended, in one order.
    ///
    /// # Errors
    /// When a record of the archive cannot be read.
    pub fn find(&self, filter: &JobFilter, archive: &mut dyn Reader) -> Result<Found, StoreError> {
        let limit = filter.limit.clamp(1, 1000);
        let before = filter.cursor.as_deref();
        let live = self.newest(filter.live_states(), before).filter(|row| filter.wants_row(row));
        let live = live.take(limit + 1).map(|row| (archive_key(row.id.as_str()), Item::Live(row.id.clone())));
        let mut items: BTreeMap<Reverse<String>, Item> =
            live.map(|(key, item)| (Reverse(key), item)).collect();
        let mut looked_until = None;
        if filter.wants_ended() {
            let (ended, until) = self.find_ended(filter, before.map(archive_key), limit + 1, archive)?;
            // What ended since the listing was taken is in both.
            items.extend(ended.into_iter().map(|(key, view)| (Reverse(key), Item::Ended(Box::new(view)))));
            // Beyond that nobody looked, so this page ends there.
            items.retain(|key, _| until.as_ref().is_none_or(|until| key.0 >= *until));
            looked_until = until;
        }
        let more = items.len() > limit;
        let items: Vec<_> = items.into_iter().take(limit).map(|(key, item)| (key.0, item)).collect();
        let id = |(_, item): &(String, Item)| match item {
            Item::Live(id) => id.to_string(),
            Item::Ended(view) => view.id.clone(),
        };
        let next = items.last().filter(|_| more).map(id).or(looked_until);
        Ok(Found { items, next })
    }

    fn find_ended(
        &self,
        filter: &JobFilter,
        mut before: Option<String>,
        most: usize,
        archive: &mut dyn Reader,
    ) -> Result<(Vec<Keyed>, Option<String>), StoreError> {
        let mut found = Vec::new();
        let mut looked_at = 0;
        let mut shared = BTreeMap::new();
        let live = |array: &str| Shared::of_row(self.row(array)?);
        let mut ended = Ended { reader: archive, live: &live, shared: &mut shared };
        while found.len() < most && looked_at < ARCHIVE_LOOKED_AT_MAX {
            let page = ended.reader.scan(Table::Archive, before.as_deref(), ARCHIVE_PAGE, true)?;
            let Some((last, _)) = page.last() else { return Ok((found, None)) };
            before = Some(last.clone());
            looked_at += page.len();
            let is_last = page.len() < ARCHIVE_PAGE;
            for (key, bytes) in page {
                // What nobody wants need not be read.
                if found.len() == most {
                    break;
                }
                let view = ended.listed(&key, &bytes)?;
                found.extend(view.filter(|view| filter.wants_view(view)).map(|view| (key, view)));
            }
            if is_last {
                return Ok((found, None));
            }
        }
        let full = found.len() >= most;
        Ok((found, before.filter(|_| !full)))
    }

    /// Ended jobs behind a key of the archive, oldest first, and where to go on.
    ///
    /// # Errors
    /// When a record of the archive cannot be read.
    pub fn ended(
        &self,
        after: Option<&str>,
        limit: usize,
        archive: &mut dyn Reader,
    ) -> Result<(Vec<JobView>, Option<String>), StoreError> {
        let live = |array: &str| Shared::of_row(self.row(array)?);
        Ended { reader: archive, live: &live, shared: &mut BTreeMap::new() }.page(after, limit)
    }
}

impl Found {
    /// The jobs about which the driver has to be asked.
    pub fn live(&self) -> Vec<JobId> {
        let live = self.items.iter().filter_map(|(_, item)| match item {
            Item::Live(id) => Some(id.clone()),
            Item::Ended(_) => None,
        });
        live.collect()
    }

    /// The page, with what the driver had about those that live. Some may have ended meanwhile, or be no longer what was asked for.
    pub fn shown(
        self,
        filter: &JobFilter,
        taken: Vec<Result<Taken, Option<Box<JobView>>>>,
    ) -> Paged<JobView> {
        let mut taken = taken.into_iter();
        let views = self.items.into_iter().filter_map(|(_, item)| match item {
            Item::Ended(view) => Some(*view),
            Item::Live(_) => match taken.next()? {
                Ok(taken) => Some(taken.shown()),
                Err(ended) => ended.map(|ended| *ended),
            }
            .filter(|view| filter.wants_view(view)),
        });
        Paged { items: views.collect(), next: self.next }
    }
}

/// Why jobs of a kind wait, as it was found a moment ago. Many who look at long lists may cost the driver only so much of its time.
#[derive(Debug, Default)]
pub(super) struct Whys(HashMap<(PoolId, usize), Known>);

#[derive(Debug)]
struct Known {
    /// The needs by whose address they are known; kept here so that nothing else gets it.
    _needs: Arc<JobSpec>,
    why: Option<Why>,
    /// Holds until the clock says this.
    until: Instant,
}

impl View<'_> {
    /// The rows of all jobs as they stand, for whoever looks at many.
    pub fn listing(&mut self) -> Listing {
        self.roster.catch_up(self.engine.state(), self.jobs);
        self.roster.listing(self.now)
    }

    /// Numbers of jobs by pool, tenant and state.
    pub fn tally(&mut self) -> &Tally {
        self.roster.catch_up(self.engine.state(), self.jobs);
        self.roster.tally()
    }

    /// One page of jobs, found and shown by whoever has the view.
    pub fn jobs(&mut self, filter: &JobFilter) -> Paged<JobView> {
        let found = self.listing().find(filter, &mut **self.store);
        let Some(found) = self.noted(found) else { return Paged { items: Vec::new(), next: None } };
        let taken = self.take(&found.live());
        found.shown(filter, taken)
    }

    /// What there is about jobs that lived a moment ago; an ended one as it is shown.
    pub fn take(&mut self, ids: &[JobId]) -> Vec<Result<Taken, Option<Box<JobView>>>> {
        let mut asked = 0;
        ids.iter()
            .map(|id| self.take_one(id, &mut asked).ok_or_else(|| self.archived(id.as_str()).map(Box::new)))
            .collect()
    }

    fn take_one(&mut self, id: &JobId, asked: &mut usize) -> Option<Taken> {
        let (state, meta) = (self.engine.state(), self.jobs.meta(id).cloned());
        let Some(record) = state.job(id) else {
            let array = state.folded.get(id)?;
            let elements = Some(array.tally().folded.into());
            let record = folded_record(array, id, JobState::Pending);
            if is_idle(array) {
                return Some(Taken { record, meta, run: None, elements, why: None, idle: true });
            }
            // What keeps this one back says nothing of others with the same needs.
            let why = match array.is_open(self.now) && array.after.is_empty() {
                true => self.why_alike(id, &array.pool, &array.job.spec, asked),
                false if *asked < REASONS_MAX => {
                    *asked += 1;
                    self.why_waiting(id)
                }
                false => None,
            };
            return Some(Taken { record, meta, run: None, elements, why, idle: false });
        };
        if record.state.is_final() {
            return None;
        }
        let why = match record.is_queued() && record.job.retry_at.is_none() {
            true => self.why_alike(id, &record.pool, &record.job.spec, asked),
            false => None,
        };
        let run = self.jobs.run(id).cloned();
        Some(Taken { record: record.clone(), meta, run, elements: None, why, idle: false })
    }

    /// Why a job waits. Jobs with the same needs wait for the same reason, and only so many are asked about.
    pub(crate) fn why_alike(
        &mut self,
        id: &JobId,
        pool: &PoolId,
        spec: &Arc<JobSpec>,
        asked: &mut usize,
    ) -> Option<Why> {
        let key = (pool.clone(), Arc::as_ptr(spec) as usize);
        let began = Instant::now();
        if let Some(known) = self.whys.0.get(&key).filter(|known| known.until > began) {
            return known.why.clone();
        }
        if *asked == REASONS_MAX {
            return None;
        }
        *asked += 1;
        let why = self.why_waiting(id);
        let took = began.elapsed();
        if self.whys.0.len() >= WHYS_MAX {
            self.whys.0.clear();
        }
        let known = Known { _needs: spec.clone(), why: why.clone(), until: began + took * SHARE_OF_DRIVER };
        self.whys.0.insert(key, known);
        why
    }
}
