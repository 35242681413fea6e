//! How many jobs wait for which reason: counted from a listing, and a few of each kind asked about.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use landfall_api::board::ReasonCount;
use landfall_engine::record::JobState;
use landfall_model::reason::Reason;
use landfall_model::{JobId, JobSpec, PoolId, TenantId, Time};

use super::super::app::App;
use super::super::auth::Principal;
use super::{fresh_for, locked};
use crate::driver::{Failure, Listing, View, roster};

/// Who asks waits for a count that takes no longer than this.
const QUICK: Duration = Duration::from_millis(50);
/// Kinds of waiting jobs that are told apart.
const KINDS_MAX: usize = 4000;
/// Kinds whose reason is asked for, those with most jobs first.
const ASKED_MAX: usize = 48;
/// The driver's time that asking for reasons may take.
const ASKING_MAX: Duration = Duration::from_millis(150);

/// What makes waiting jobs alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    /// A reason that their record says.
    Says(&'static str),
    /// The same needs, known by where they lie in memory; the group keeps them there.
    Needs(usize),
    /// An array that waits as a whole.
    Array(JobId),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    pool: PoolId,
    tenant: Option<TenantId>,
    kind: Kind,
}

#[derive(Debug)]
struct Group {
    jobs: u64,
    example: JobId,
    _needs: Option<Arc<JobSpec>>,
}

/// Jobs of one tenant that wait for one reason in one pool.
#[derive(Debug, Clone)]
struct Waiting {
    pool: String,
    tenant: Option<String>,
    /// Nothing if it was not asked for.
    why: Option<(String, String, String)>,
    jobs: u64,
    example: String,
    never: bool,
}

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) at: Option<Time>,
    waiting: Vec<Waiting>,
    /// Jobs that have nodes, by pool.
    running: BTreeMap<String, u64>,
    made: Option<Instant>,
    took: Duration,
}

#[derive(Default)]
struct Counted {
    groups: HashMap<Key, Group>,
    running: HashMap<PoolId, u64>,
    /// Waiting jobs of kinds that were too many.
    beyond: HashMap<(PoolId, Option<TenantId>), (u64, JobId)>,
}

impl Counted {
    fn wait(&mut self, key: Key, jobs: u64, example: &JobId, needs: Option<&Arc<JobSpec>>) {
        if self.groups.len() >= KINDS_MAX && !self.groups.contains_key(&key) {
            let beyond = self.beyond.entry((key.pool, key.tenant)).or_insert_with(|| (0, example.clone()));
            beyond.0 += jobs;
            return;
        }
        let made = || Group { jobs: 0, example: example.clone(), _needs: needs.cloned() };
        self.groups.entry(key).or_insert_with(made).jobs += jobs;
    }

    fn of(listing: &Listing) -> Self {
        let mut counted = Self::default();
        for ((pool, _, state), number) in &listing.tally {
            if state.is_placed() {
                *counted.running.entry(pool.clone()).or_insert(0) += number;
            }
        }
        for row in listing.rows().filter(|row| row.state == JobState::Pending) {
            let (kind, jobs) = match row.kind {
                roster::Kind::Array(0) | roster::Kind::Idle => continue,
                roster::Kind::Array(waiting) => (Kind::Array(row.id.clone()), waiting.into()),
                roster::Kind::Job if row.held => (Kind::Says(Reason::UserHold.name()), 1),
                roster::Kind::Job if row.follows => (Kind::Says(Reason::Dependency.name()), 1),
                roster::Kind::Job if row.retry_at.is_some_and(|at| at > listing.now) => {
                    (Kind::Says(Reason::NotBefore.name()), 1)
                }
                roster::Kind::Job => (Kind::Needs(Arc::as_ptr(&row.spec) as usize), 1),
            };
            let key = Key { pool: row.pool.clone(), tenant: row.tenant().cloned(), kind };
            counted.wait(key, jobs, &row.id, Some(&row.spec));
        }
        counted
    }
}

fn why(view: &View<'_>, job: &JobId) -> Option<((String, String, String), bool)> {
    let why = view.engine.explain(job)?.reasons.into_iter().next()?;
    let never = view.engine.can_never_start(job).is_some();
    Some(((why.reason.to_string(), why.detail, why.help.to_string()), never))
}

/// Counts, unless that was done a moment ago or somebody is at it.
pub(super) async fn count(app: &App) -> Result<(), Failure> {
    let Ok(_counting) = app.looks.counting.try_lock() else { return Ok(()) };
    let known = app.looks.census();
    if known.made.is_some_and(|made| made.elapsed() < fresh_for(known.took)) {
        return Ok(());
    }
    let listing = app.listing().await?;
    let at = listing.now;
    let counted = tokio::task::spawn_blocking(move || Counted::of(&listing)).await;
    let census = explained(app, counted.map_err(|_| Failure::Closing)?, at).await?;
    *locked(&app.looks.census) = Arc::new(census);
    Ok(())
}

async fn explained(app: &App, counted: Counted, at: Time) -> Result<Census, Failure> {
    let mut groups: Vec<(Key, Group)> = counted.groups.into_iter().collect();
    groups.sort_by(|a, b| (b.1.jobs, &a.1.example).cmp(&(a.1.jobs, &b.1.example)));
    let (mut asking, mut asked) = (Duration::ZERO, 0);
    let wanted = app.looks.anybody_looks(app);
    let mut waiting = Vec::with_capacity(groups.len());
    for (key, group) in groups {
        let mut found = None;
        if wanted && asked < ASKED_MAX && asking < ASKING_MAX {
            let job = group.example.clone();
            let question = app.handle.read(move |view| {
                let began = Instant::now();
                (why(view, &job), began.elapsed())
            });
            let (answer, spent) = question.await?;
            (found, asked, asking) = (answer, asked + 1, asking + spent);
        }
        let (why, never) = found.unzip();
        waiting.push(Waiting {
            pool: key.pool.to_string(),
            tenant: key.tenant.map(|tenant| tenant.to_string()),
            why,
            jobs: group.jobs,
            example: group.example.to_string(),
            never: never.unwrap_or(false),
        });
    }
    for ((pool, tenant), (jobs, example)) in counted.beyond {
        let (pool, tenant) = (pool.to_string(), tenant.map(|tenant| tenant.to_string()));
        waiting.push(Waiting { pool, tenant, why: None, jobs, example: example.to_string(), never: false });
    }
    let running = counted.running.into_iter().map(|(pool, jobs)| (pool.to_string(), jobs)).collect();
    // What it would have said is asked for anew as soon as somebody looks.
    let made = (wanted || waiting.is_empty()).then(Instant::now);
    Ok(Census { at: Some(at), waiting, running, made, took: asking })
}

impl Census {
    /// Whether it may be shown while the next one is being taken: reasons were looked for, and looking takes a while.
    pub(super) fn will_do(&self) -> bool {
        self.made.is_some() && self.took > QUICK
    }

    /// Jobs of a pool that have nodes.
    pub(super) fn running(&self, pool: &str) -> u64 {
        self.running.get(pool).copied().unwrap_or(0)
    }

    /// Jobs of a pool that wait, those that are held or wait for others included.
    pub(super) fn waiting(&self, pool: &str) -> u64 {
        self.waiting.iter().filter(|group| group.pool == pool).map(|group| group.jobs).sum()
    }

    /// Why jobs of a pool wait, largest groups first, and how many wait for what was not asked or may not be told.
    pub(super) fn reasons(&self, pool: &str, principal: &Principal) -> (Vec<ReasonCount>, u64) {
        let mut reasons: Vec<ReasonCount> = Vec::new();
        let mut unexplained = 0;
        for group in self.waiting.iter().filter(|group| group.pool == pool) {
            let seen = principal.sees(group.tenant.as_deref());
            let Some((reason, detail, help)) = group.why.as_ref().filter(|_| seen) else {
                unexplained += group.jobs;
                continue;
            };
            match reasons.iter_mut().find(|known| known.reason == *reason && known.detail == *detail) {
                Some(known) => known.jobs += group.jobs,
                None => reasons.push(ReasonCount {
                    reason: reason.clone(),
                    detail: detail.clone(),
                    help: help.clone(),
                    jobs: group.jobs,
                    example: Some(group.example.clone()),
                    never: group.never,
                }),
            }
        }
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.jobs));
        (reasons, unexplained)
    }

    /// Jobs that can never start, as far as that was asked for.
    pub(super) fn never(&self, principal: &Principal) -> u64 {
        let seen = self.waiting.iter().filter(|group| principal.sees(group.tenant.as_deref()));
        seen.filter(|group| group.never).map(|group| group.jobs).sum()
    }
}
