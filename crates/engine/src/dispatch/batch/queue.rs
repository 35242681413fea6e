//! What a batch pool keeps ready between cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_model::{JobId, JobSpec, Time};
use landfall_policy::rules::snapshot::Backlog;

use crate::record::{JobRecord, JobState};
use crate::solver::{Fleet, Suited, Wait};

/// The queue of a batch pool.
#[derive(Debug, Default)]
pub(crate) struct BatchQueue {
    /// Jobs that may be placed, by queue time.
    waiting: BTreeMap<JobId, Time>,
    /// Jobs that wait for others.
    behind: BTreeSet<JobId>,
    /// Jobs that hold nodes.
    placed: BTreeSet<JobId>,
    /// Jobs that come back at the next cycle.
    suspended: BTreeSet<JobId>,
    /// Waiting jobs of each class.
    classes: [u64; 11],
    backlog: Backlog,
    entries: BTreeMap<JobId, landfall_model::Job>,
    /// Elements of arrays that wait without a record: how many, of which class, and what they add up to.
    folded: BTreeMap<JobId, (u64, usize, Backlog)>,
    /// The nodes sorted into kinds, until a node changes.
    pub(super) fleet: Option<Arc<Fleet>>,
    /// Who can use which kinds of them, until a node or a setting changes.
    pub(super) suited: Suited,
    /// Whether a class of jobs could ever fit, until a node changes.
    pub(super) fits: BTreeMap<Arc<JobSpec>, bool>,
    /// Why each job still waits, as of the last cycle.
    pub(crate) waits: BTreeMap<JobId, Wait>,
    /// Why the ledger refused a job in the last cycle.
    pub(super) rejected: BTreeMap<JobId, landfall_model::reason::Reason>,
}

impl BatchQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.behind.is_empty()
    }

    pub(crate) fn has(&self, id: &JobId) -> bool {
        self.waiting.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn insert(&mut self, record: &JobRecord) {
        let id = &record.job.id;
        self.remove(id);
        self.waiting.insert(id.clone(), record.job.queued_at);
        self.classes[usize::from(record.job.spec.class.min(10))] += 1;
        self.backlog.add(&record.job);
        self.entries.insert(id.clone(), record.job.clone());
    }

    pub(crate) fn remove(&mut self, id: &JobId) {
        if self.waiting.remove(id).is_some()
            && let Some(job) = self.entries.remove(id)
        {
            self.backlog.remove(&job);
            let class = &mut self.classes[usize::from(job.spec.class.min(10))];
            *class = class.saturating_sub(1);
        }
        self.behind.remove(id);
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
        let class = usize::from(job.spec.class.min(10));
        self.backlog.gpu_ms = self.backlog.gpu_ms.saturating_add(all.gpu_ms);
        self.backlog.node_ms = self.backlog.node_ms.saturating_add(all.node_ms);
        self.classes[class] += u64::from(count);
        self.folded.insert(array.clone(), (count.into(), class, all));
    }

    /// Forgets an array that is no longer known.
    pub(crate) fn forget_folded(&mut self, array: &JobId) {
        let Some((count, class, all)) = self.folded.remove(array) else { return };
        self.backlog.gpu_ms = self.backlog.gpu_ms.saturating_sub(all.gpu_ms);
        self.backlog.node_ms = self.backlog.node_ms.saturating_sub(all.node_ms);
        self.classes[class] = self.classes[class].saturating_sub(count);
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
        put(&mut self.placed, record.state.is_placed());
        put(&mut self.behind, record.state == JobState::Pending && record.job.waits_for.is_some());
        let comes_back = record.state == JobState::Suspended
            && record.past.as_ref().and_then(|past| past.suspended.as_ref()).is_some_and(|cause| {
                matches!(cause, crate::record::Cause::Preempted | crate::record::Cause::Reclaimed)
            });
        put(&mut self.suspended, comes_back);
        if record.state != JobState::Pending {
            self.waits.remove(id);
            self.rejected.remove(id);
        }
    }

    /// Forgets a job that is no longer known.
    pub(crate) fn forget(&mut self, id: &JobId) {
        self.remove(id);
        self.placed.remove(id);
        self.suspended.remove(id);
        self.waits.remove(id);
        self.rejected.remove(id);
    }

    /// A node came, went or changed.
    pub(crate) fn nodes_changed(&mut self) {
        self.fleet = None;
        self.suited = Suited::default();
        self.fits.clear();
    }

    pub(crate) fn has_suspended(&self) -> bool {
        !self.suspended.is_empty()
    }

    pub(super) fn suspended(&self) -> impl Iterator<Item = &JobId> {
        self.suspended.iter()
    }

    pub(super) fn placed(&self) -> impl Iterator<Item = &JobId> {
        self.placed.iter()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &JobId> {
        self.waiting.keys()
    }

    pub(super) fn behind(&self) -> impl Iterator<Item = &JobId> {
        self.behind.iter()
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Waiting jobs of a higher class.
    pub(super) fn waiting_above(&self, class: u8) -> u64 {
        self.classes.iter().skip(usize::from(class) + 1).sum()
    }
}
