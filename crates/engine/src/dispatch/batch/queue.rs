//! What a batch pool keeps ready between cycles.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use landfall_model::{Job, JobId, JobSpec, Lifecycle, Millis, Time};
use landfall_policy::Policy;
use landfall_policy::rules::snapshot::Backlog;

use super::census::Census;
use crate::notes::Told;
use crate::preempt::{Preempted, checkpoint_minutes};
use crate::record::{JobRecord, JobState};
use crate::solver::{Fleet, Ground, Share, Slot, Suited};
use crate::staging;

/// Waiting jobs that differ in nothing but id and queue time, as far as order and planning are concerned.
#[derive(Debug)]
pub(super) struct Class {
    /// A job like them.
    pub(super) model: Job,
    /// How long they may run, the rest of their walltime after a resume; `None` means without end.
    pub(super) duration: Option<Millis>,
    /// Not before this instant.
    pub(super) opens: Option<Time>,
    /// Whether an input failed too often to be waited for.
    pub(super) given_up: bool,
    /// In their order among themselves.
    pub(super) jobs: VecDeque<(Time, JobId)>,
    /// What was last told about nobody of it being started.
    told: Told,
    key: Key,
}

/// Tells classes apart. A spec is known by its place in memory, which the class keeps taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    spec: usize,
    duration: Option<Millis>,
    checkpoint: Option<u64>,
    opens: Option<Time>,
    given_up: bool,
    /// A job that shares a lock with another one is a class of its own, and where the policy looks at more than the wait
    /// every job is.
    alone: Option<JobId>,
}

/// A job on its nodes, as planning looks at it; what depends on the clock is worked out when it is asked.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) spec: Arc<JobSpec>,
    pub(super) slots: Vec<Slot>,
    pub(super) shares: Vec<Share>,
    pub(super) started: Option<Time>,
    /// When its nodes are free again, if that is an instant.
    pub(super) ends_at: Option<Time>,
    /// How long it will run once it has started, if it has an end.
    pub(super) left: Option<Millis>,
    /// How long it was expected to run when it was placed.
    pub(super) expected: Option<Millis>,
    pub(super) running: bool,
    /// Whether it was told to stop too late to leave by the end of its time.
    pub(super) overruns: bool,
    pub(super) checkpoint_minutes: Option<f64>,
    pub(super) preempted: Preempted,
}

/// Minutes one of its checkpoints takes; `None` if it cannot save.
pub(super) fn saving_minutes(record: &JobRecord) -> Option<f64> {
    let spec = &record.job.spec;
    let measured = record.past.as_ref().and_then(|past| past.checkpoint_took);
    checkpoint_minutes(spec.checkpoint, spec.checkpoint_minutes, measured)
}

/// Whether an input of a job failed too often to be waited for.
pub(super) fn staging_given_up(record: &JobRecord) -> bool {
    let mut failures = record.past.iter().flat_map(|past| past.staging_failures.values());
    failures.any(|count| *count >= staging::ATTEMPTS_MAX)
}

/// The queue of a batch pool.
#[derive(Debug, Default)]
pub(crate) struct BatchQueue {
    /// Jobs that may be placed, sorted into classes; numbers are never given twice.
    classes: BTreeMap<u32, Class>,
    numbers: BTreeMap<Key, u32>,
    next_number: u32,
    /// Class and queue time of each of these jobs.
    places: BTreeMap<JobId, (u32, Time)>,
    /// Whether jobs of a class keep their order whatever the clock says.
    in_order: bool,
    /// Jobs that wait for others.
    pub(super) behind: BTreeSet<JobId>,
    /// Jobs that hold nodes, with what planning looks at; `None` where that has changed.
    placed: BTreeMap<JobId, Option<Box<Held>>>,
    /// Placed jobs that scale, and those that save their work by themselves.
    pub(super) scaling: BTreeSet<JobId>,
    pub(super) saving: BTreeSet<JobId>,
    /// Jobs that come back at the next cycle.
    pub(super) suspended: BTreeSet<JobId>,
    backlog: Backlog,
    /// Elements of arrays that wait without a record: how many, one of them, and what they add up to.
    folded: BTreeMap<JobId, (u64, Job, Backlog)>,
    /// The nodes sorted into kinds, until a node changes.
    pub(super) fleet: Option<Arc<Fleet>>,
    /// What its nodes add up to, until one comes, goes or becomes another kind.
    pub(super) census: Option<Census>,
    /// Who can use which kinds of them, until a node or a setting changes.
    pub(super) suited: Suited,
    /// What placed jobs leave free of them, until a node changes.
    pub(super) ground: Ground,
    /// Whether a class of jobs could ever fit, until a node changes.
    pub(super) fits: BTreeMap<Arc<JobSpec>, bool>,
    /// Why the ledger refused a job in the last cycle.
    pub(super) rejected: BTreeMap<JobId, landfall_model::reason::Reason>,
}

impl BatchQueue {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self { in_order: policy.keeps_queue_order(), ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.behind.is_empty()
    }

    pub(crate) fn has(&self, id: &JobId) -> bool {
        self.places.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn insert(&mut self, record: &JobRecord, locked: bool, now: Time) {
        let job = &record.job;
        self.remove(&job.id);
        let key = Key {
            spec: Arc::as_ptr(&job.spec) as usize,
            duration: record.walltime(),
            checkpoint: saving_minutes(record).map(f64::to_bits),
            opens: job.retry_at.filter(|at| *at > now),
            given_up: staging_given_up(record),
            alone: (locked || !self.in_order).then(|| job.id.clone()),
        };
        let next = self.next_number;
        let number = *self.numbers.entry(key.clone()).or_insert(next);
        self.next_number += u32::from(number == next);
        let class = self.classes.entry(number).or_insert_with(|| Class {
            model: job.clone(),
            duration: key.duration,
            opens: key.opens,
            given_up: key.given_up,
            jobs: VecDeque::new(),
            told: Told::default(),
            key,
        });
        let entry = (job.queued_at, job.id.clone());
        let place = class.jobs.partition_point(|other| *other < entry);
        class.jobs.insert(place, entry);
        self.places.insert(job.id.clone(), (number, job.queued_at));
        // It comes here once more when its time has come, and counts from then on.
        if class.opens.is_none() {
            self.backlog.add(job);
        }
    }

    pub(crate) fn remove(&mut self, id: &JobId) {
        self.behind.remove(id);
        let Some((number, queued_at)) = self.places.remove(id) else { return };
        let Some(class) = self.classes.get_mut(&number) else { return };
        if let Ok(place) = class.jobs.binary_search_by(|(at, job)| (at, job).cmp(&(&queued_at, id))) {
            class.jobs.remove(place);
        }
        if class.opens.is_none() {
            self.backlog.remove(&class.model);
        }
        if class.jobs.is_empty()
            && let Some(class) = self.classes.remove(&number)
        {
            self.numbers.remove(&class.key);
        }
    }

    /// The classes of waiting jobs with their numbers.
    pub(super) fn classes(&self) -> impl Iterator<Item = (u32, &Class)> + Clone {
        self.classes.iter().map(|(number, class)| (*number, class))
    }

    /// The class of a waiting job, and its place there.
    pub(super) fn find(&self, job: &JobId) -> Option<(u32, usize)> {
        let (number, queued_at) = self.places.get(job)?;
        let jobs = &self.classes.get(number)?.jobs;
        Some((*number, jobs.binary_search_by(|(at, id)| (at, id).cmp(&(queued_at, job))).ok()?))
    }

    /// What was last told about the class of a waiting job.
    pub(super) fn told(&mut self, job: &JobId) -> Option<&mut Told> {
        let (number, _) = self.places.get(job)?;
        self.classes.get_mut(number).map(|class| &mut class.told)
    }

    /// Counts the elements of an array that wait without a record.
    pub(crate) fn count_folded(&mut self, array: &JobId, job: &landfall_model::Job, count: u32) {
        self.forget_folded(array);
        if count == 0 {
            return;
        }
        let one = Backlog::of(std::slice::from_ref(job));
        let all = Backlog {
            gpu_ms: one.gpu_ms.saturating_mul(count.into()),
            node_ms: one.node_ms.saturating_mul(count.into()),
        };
        self.backlog.gpu_ms = self.backlog.gpu_ms.saturating_add(all.gpu_ms);
        self.backlog.node_ms = self.backlog.node_ms.saturating_add(all.node_ms);
        self.folded.insert(array.clone(), (count.into(), job.clone(), all));
    }

    /// Forgets an array that is no longer known.
    pub(crate) fn forget_folded(&mut self, array: &JobId) {
        let Some((_, _, all)) = self.folded.remove(array) else { return };
        self.backlog.gpu_ms = self.backlog.gpu_ms.saturating_sub(all.gpu_ms);
        self.backlog.node_ms = self.backlog.node_ms.saturating_sub(all.node_ms);
    }

    /// Notes where a job stands that is not in the queue.
    pub(crate) fn note(&mut self, record: &JobRecord) {
        let id = &record.job.id;
        let put = |set: &mut BTreeSet<JobId>, there: bool| {
            if there {
                set.insert(id.clone());
            } else {
                set.remove(id);
            }
        };
        let (spec, placed) = (&record.job.spec, record.state.is_placed());
        put(&mut self.scaling, placed && spec.lifecycle == Lifecycle::Reactive);
        put(&mut self.saving, placed && spec.checkpoint == landfall_model::Checkpoint::Auto);
        put(&mut self.behind, record.state == JobState::Pending && record.job.waits_for.is_some());
        let comes_back = record.state == JobState::Suspended
            && record.past.as_ref().and_then(|past| past.suspended.as_ref()).is_some_and(|cause| {
                matches!(cause, crate::record::Cause::Preempted | crate::record::Cause::Reclaimed)
            });
        put(&mut self.suspended, comes_back);
        if placed {
            self.placed.insert(id.clone(), None);
        } else {
            self.placed.remove(id);
        }
        if record.state != JobState::Pending {
            self.rejected.remove(id);
        }
    }

    pub(crate) fn forget(&mut self, id: &JobId) {
        self.remove(id);
        self.placed.remove(id);
        self.scaling.remove(id);
        self.saving.remove(id);
        self.suspended.remove(id);
        self.rejected.remove(id);
    }

    /// A node came, went or changed.
    pub(crate) fn nodes_changed(&mut self) {
        self.fleet = None;
        self.census = None;
        self.placed.values_mut().for_each(|held| *held = None);
        self.suited = Suited::default();
        self.ground = Ground::default();
        self.fits.clear();
    }

    pub(crate) fn has_suspended(&self) -> bool {
        !self.suspended.is_empty()
    }

    /// Jobs that hold nodes, with what planning looks at.
    pub(super) fn placed(&self) -> impl ExactSizeIterator<Item = (&JobId, Option<&Held>)> {
        self.placed.iter().map(|(job, held)| (job, held.as_deref()))
    }

    /// Keeps what planning looks at for a job that holds nodes.
    pub(super) fn keep(&mut self, job: &JobId, held: Held) {
        self.placed.insert(job.clone(), Some(Box::new(held)));
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &JobId> {
        self.places.keys()
    }

    pub(crate) fn node_touched(&mut self, node: usize) {
        if let Some(census) = &mut self.census {
            census.touch(node);
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// How many jobs wait that are more urgent and could use some nodes.
    pub(super) fn waiting_above(&self, class: u8, uses: impl Fn(&Job) -> bool) -> u64 {
        let records = self.classes.values().filter(|class| class.opens.is_none());
        let records = records.map(|class| (class.jobs.len() as u64, &class.model));
        let all = records.chain(self.folded.values().map(|(count, job, _)| (*count, job)));
        all.filter(|(_, job)| job.spec.class > class && uses(job)).map(|(count, _)| count).sum()
    }
}
