//! Dependencies: when a job may enter the queue, and when it never will.
//!
//! A job waits on *edges*. Each is judged once, when the job it is on has ended: it holds, or it can never hold. A job is
//! released when its edges hold (all of them, or any one, as it asked) and cancelled as soon as that has become
//! impossible; the cancelled job is itself an ended job, so one end may cancel a whole chain, and does so in one step,
//! predecessors first.
//!
//! The [`Graph`] holds waiting jobs only. A job without edges, or with all of them judged, is not in it. Edges on an
//! array are counted on the array, not on each of its elements; a `corresponding` edge is tied to its one element when
//! it is submitted. An array that was submitted as one is one entry here, both where it waits and where it is waited for:
//! its ends are counted, its elements are not listed.

mod error;
mod tally;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use landfall_model::{JobId, Name, TenantId};
use serde::{Deserialize, Serialize};

pub use error::DagError;
pub use landfall_model::life::{EdgeKind, Join};
pub use tally::{DagState, DagTally};

/// Most jobs in one submission.
pub const JOBS_MAX: usize = 1000;
/// Most edges of one job.
pub const EDGES_MAX: usize = 100;
/// Most lock names of one job.
pub const MUTEX_MAX: usize = 8;
/// Longest lock name in bytes.
pub const MUTEX_BYTES_MAX: usize = 64;

/// One dependency of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The job or the array depended on.
    pub on: JobId,
    /// What is needed of it.
    #[serde(default)]
    pub kind: EdgeKind,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalState {
    Completed,
    Failed,
    Cancelled,
    /// Cancelled, because a failure that it was there for did not happen.
    Unneeded,
}

/// The place of a job in an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    pub array: JobId,
    /// Which element, from 0.
    pub index: u32,
}

/// A job that is submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    pub id: JobId,
    /// Its place in an array, if it is in one.
    #[serde(default)]
    pub element: Option<Element>,
    /// How many of its edges it needs.
    #[serde(default)]
    pub join: Join,
    /// What it depends on.
    #[serde(default)]
    pub edges: Vec<Edge>,
    /// Lock names it takes.
    #[serde(default)]
    pub mutex: Vec<Name>,
}

/// Jobs that are accepted or refused together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    #[serde(default)]
    pub tenant: Option<TenantId>,
    pub jobs: Vec<NewJob>,
}

/// What is known of a job or an array that was submitted earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// A job, and how it ended, if it has.
    Job { tenant: Option<TenantId>, ended: Option<TerminalState> },
    /// An array, with its elements in order.
    Array { tenant: Option<TenantId>, elements: Vec<JobId> },
    /// An array whose ends are counted without naming its elements: so many are left, and the others amount to this end.
    Counted { tenant: Option<TenantId>, left: u32, ended: TerminalState },
}

/// A lock that two jobs share because of a `mutex` edge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EdgeLock {
    /// The job with the lower id.
    pub first: JobId,
    pub second: JobId,
}

impl EdgeLock {
    /// The lock between two jobs, whichever is named first.
    pub fn between(a: JobId, b: JobId) -> Self {
        let (first, second) = if a <= b { (a, b) } else { (b, a) };
        Self { first, second }
    }

    /// The name of the lock; two long ids are named by their digest.
    pub fn name(&self) -> Name {
        let text = self.to_string();
        Name::new(&text)
            .or_else(|_| Name::new(&format!("edge:{}", blake3::hash(text.as_bytes()).to_hex())))
            .unwrap_or_else(|error| unreachable!("a digest is a name: {error}"))
    }
}

impl fmt::Display for EdgeLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "edge:{}:{}", self.first, self.second)
    }
}

/// Where a job stands after its submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// It enters the queue.
    Released,
    /// It waits for others.
    Waiting,
    /// It can never run (`dependency_unsatisfiable`) because of this edge, which counts for others as this end.
    Cancelled { edge: Edge, as_state: TerminalState },
}

/// What becomes of one submitted job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub job: JobId,
    pub entry: Entry,
    /// Locks it shares; the other job named in each must take it too.
    pub locks: Vec<EdgeLock>,
}

/// What the end of a job does to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It enters the queue.
    Released(JobId),
    /// It can never run (`dependency_unsatisfiable`) because of this edge, which counts for others, and for the state of a
    /// DAG, as this end.
    Cancelled { job: JobId, edge: Edge, as_state: TerminalState },
}

/// On what an open edge is judged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Target {
    Job(JobId),
    Array(JobId),
}

/// An edge that has not been judged yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Open {
    edge: Edge,
    target: Target,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Waiting {
    join: Join,
    /// Longer than that of every waiting job it depends on, so that sorting by it puts predecessors first.
    depth: u32,
    /// Whether all edges that can never hold are about failures that did not happen.
    unneeded: bool,
    open: Vec<Open>,
}

/// An array that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Watch {
    left: u32,
    failed: bool,
    cancelled: bool,
    unneeded: bool,
}

impl Watch {
    /// An array of which some elements have ended.
    fn of(left: u32, ended: TerminalState) -> Self {
        let mut watch = Self { left, ..Self::default() };
        watch.note(ended, 0);
        watch
    }

    fn note(&mut self, state: TerminalState, count: u32) {
        self.left = self.left.saturating_sub(count);
        match state {
            TerminalState::Completed => {}
            TerminalState::Failed => self.failed = true,
            TerminalState::Cancelled => self.cancelled = true,
            TerminalState::Unneeded => self.unneeded = true,
        }
    }

    /// The end of the whole array, of which parts may be certain before all elements have ended.
    fn state(&self) -> TerminalState {
        match self {
            Self { failed: true, .. } => TerminalState::Failed,
            Self { cancelled: true, .. } => TerminalState::Cancelled,
            Self { unneeded: true, .. } => TerminalState::Unneeded,
            _ => TerminalState::Completed,
        }
    }

    /// An array can no longer complete once one element did not; everything else is known when all have ended.
    fn judge(&self, kind: EdgeKind) -> Option<Judged> {
        let early = matches!(kind, EdgeKind::Success | EdgeKind::Corresponding)
            && self.state() != TerminalState::Completed;
        (self.left == 0 || early).then(|| judge(kind, self.state()))
    }
}

/// What became of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    Holds,
    Never { unneeded: bool },
}

/// Judges an edge on a job that has ended.
fn judge(kind: EdgeKind, state: TerminalState) -> Judged {
    match (kind, state) {
        (EdgeKind::Any | EdgeKind::Mutex, _)
        | (EdgeKind::Success | EdgeKind::Corresponding, TerminalState::Completed)
        | (EdgeKind::Failure, TerminalState::Failed) => Judged::Holds,
        (EdgeKind::Failure, _) => Judged::Never { unneeded: true },
        (EdgeKind::Success | EdgeKind::Corresponding, _) => {
            Judged::Never { unneeded: state == TerminalState::Unneeded }
        }
    }
}

/// All jobs that wait for others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Graph {
    waiting: BTreeMap<JobId, Waiting>,
    /// Who may wait for a job or an array; whoever no longer waits is skipped.
    on_jobs: BTreeMap<JobId, Vec<JobId>>,
    /// Jobs that fewer wait for, until somebody asks.
    #[serde(skip)]
    unawaited: Vec<JobId>,
    on_arrays: BTreeMap<JobId, Vec<JobId>>,
    watches: BTreeMap<JobId, Watch>,
    /// The array of each element that has not ended, of arrays that somebody waits for.
    array_of: BTreeMap<JobId, JobId>,
}

impl Graph {
    /// Accepts jobs that belong together, or refuses them all and stores nothing.
    ///
    /// `known` says what was submitted earlier. The verdicts are in the order of the jobs.
    pub fn submit(
        &mut self,
        submission: &Submission,
        known: impl Fn(&JobId) -> Option<Known>,
    ) -> Result<Vec<Verdict>, DagError> {
        let checked = validate::check(submission, &known, |job| self.depth(job))?;
        let mut verdicts: Vec<Verdict> = Vec::with_capacity(submission.jobs.len());
        let mut step = Step { ends: checked.ended, ..Step::default() };
        for (array, elements) in checked.watched {
            self.watch(array, &elements, &mut step);
        }
        for (array, watch) in checked.counted {
            if watch.left == 0 {
                step.arrays_over.push(array.clone());
            }
            self.watches.entry(array).or_insert(watch);
        }
        for (new, checked) in submission.jobs.iter().zip(checked.jobs) {
            let entry = if checked.open.is_empty() { Entry::Released } else { Entry::Waiting };
            verdicts.push(Verdict { job: new.id.clone(), entry, locks: checked.locks });
            if checked.open.is_empty() {
                continue;
            }
            for open in &checked.open {
                let (map, id) = match &open.target {
                    Target::Job(id) => (&mut self.on_jobs, id),
                    Target::Array(id) => (&mut self.on_arrays, id),
                };
                let successors = map.entry(id.clone()).or_default();
                if successors.last() != Some(&new.id) {
                    successors.push(new.id.clone());
                }
            }
            step.work.insert((checked.depth, new.id.clone()));
            let waiting =
                Waiting { join: new.join, depth: checked.depth, unneeded: true, open: checked.open };
            self.waiting.insert(new.id.clone(), waiting);
        }
        let changes = self.settle(step);
        let at: BTreeMap<JobId, usize> =
            submission.jobs.iter().enumerate().map(|(at, new)| (new.id.clone(), at)).collect();
        for change in changes {
            let (job, entry) = match change {
                Change::Released(job) => (job, Entry::Released),
                Change::Cancelled { job, edge, as_state } => (job, Entry::Cancelled { edge, as_state }),
            };
            if let Some(verdict) = at.get(&job).and_then(|&at| verdicts.get_mut(at)) {
                verdict.entry = entry;
            }
        }
        Ok(verdicts)
    }

    /// Says what is wrong with a submission, if anything; nothing is stored.
    pub fn check(
        &self,
        submission: &Submission,
        known: impl Fn(&JobId) -> Option<Known>,
    ) -> Result<(), DagError> {
        validate::check(submission, &known, |job| self.depth(job)).map(|_| ())
    }

    /// Notes that a job has ended for good, and says what follows, predecessors first.
    pub fn ended(&mut self, job: &JobId, state: TerminalState) -> Vec<Change> {
        self.waits_no_more(job);
        let mut step = Step { ends: BTreeMap::from([(job.clone(), state)]), ..Step::default() };
        self.spread(job, state, &mut step);
        self.settle(step)
    }

    /// Notes that so many elements of an array whose ends are counted have ended, and says what follows.
    pub fn counted_ended(&mut self, array: &JobId, state: TerminalState, count: u32) -> Vec<Change> {
        let Some(watch) = self.watches.get_mut(array) else { return Vec::new() };
        watch.note(state, count);
        let mut step = Step::default();
        if watch.left == 0 {
            step.arrays_over.push(array.clone());
        }
        for successor in self.on_arrays.get(array).into_iter().flatten() {
            if let Some(waiting) = self.waiting.get(successor) {
                step.work.insert((waiting.depth, successor.clone()));
            }
        }
        self.settle(step)
    }

    fn waits_no_more(&mut self, job: &JobId) {
        let open = self.waiting.remove(job).into_iter().flat_map(|waiting| waiting.open);
        self.unawaited.extend(open.filter_map(|open| match open.target {
            Target::Job(on) => Some(on),
            Target::Array(_) => None,
        }));
    }

    /// Jobs that fewer wait for since this was last asked.
    pub(crate) fn take_unawaited(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.unawaited)
    }

    /// How many jobs wait for this one.
    pub fn dependents(&self, job: &JobId) -> u64 {
        let waits = |successor: &&JobId| {
            let waiting = self.waiting.get(*successor);
            waiting.is_some_and(|it| it.open.iter().any(|open| open.target == Target::Job(job.clone())))
        };
        self.on_jobs.get(job).map_or(0, |successors| successors.iter().filter(waits).count() as u64)
    }

    /// Jobs and arrays that wait for this job or array.
    pub fn awaiting<'a>(&'a self, job: &'a JobId) -> impl Iterator<Item = &'a JobId> {
        let waits = move |id: &&JobId| {
            let waiting = self.waiting.get(*id);
            waiting.is_some_and(|it| it.open.iter().any(|open| open.edge.on == *job))
        };
        [self.on_jobs.get(job), self.on_arrays.get(job)].into_iter().flatten().flatten().filter(waits)
    }

    /// Jobs between two ids that somebody waits for.
    pub(crate) fn awaited_between(&self, first: &JobId, last: &JobId) -> impl Iterator<Item = &JobId> {
        self.on_jobs.range::<JobId, _>(first..=last).map(|(id, _)| id)
    }

    /// The edges a job still waits for, if it waits.
    pub fn open_edges<'a>(&'a self, job: &JobId) -> Option<(Join, impl Iterator<Item = &'a Edge> + use<'a>)> {
        self.waiting.get(job).map(|waiting| (waiting.join, waiting.open.iter().map(|open| &open.edge)))
    }

    /// How many jobs wait for others.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no job waits for others.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn depth(&self, job: &JobId) -> u32 {
        self.waiting.get(job).map_or(0, |waiting| waiting.depth)
    }

    /// Starts counting the ends of an array, unless it is being counted.
    fn watch(&mut self, array: JobId, elements: &[JobId], step: &mut Step) {
        if self.watches.contains_key(&array) {
            return;
        }
        let mut watch = Watch { left: u32::try_from(elements.len()).unwrap_or(u32::MAX), ..Watch::default() };
        for element in elements {
            match step.ends.get(element) {
                Some(&state) => watch.note(state, 1),
                None => {
                    self.array_of.insert(element.clone(), array.clone());
                }
            }
        }
        if watch.left == 0 {
            step.arrays_over.push(array.clone());
        }
        self.watches.insert(array, watch);
    }

    /// Puts everybody who waits for this job, or for its array, on the list of jobs to look at.
    fn spread(&mut self, job: &JobId, state: TerminalState, step: &mut Step) {
        let of_array = self.array_of.remove(job).and_then(|array| {
            let watch = self.watches.get_mut(&array)?;
            watch.note(state, 1);
            let successors = self.on_arrays.get(&array);
            if watch.left == 0 {
                step.arrays_over.push(array);
            }
            successors
        });
        let of_job = self.on_jobs.get(job);
        // An array that is counted may itself wait; if it never will run, neither will its elements.
        let as_array = self.watches.get_mut(job).and_then(|watch| {
            watch.note(state, u32::MAX);
            step.arrays_over.push(job.clone());
            self.on_arrays.get(job)
        });
        for successor in of_array.into_iter().chain(of_job).chain(as_array).flatten() {
            if let Some(waiting) = self.waiting.get(successor) {
                step.work.insert((waiting.depth, successor.clone()));
            }
        }
    }

    /// Judges the edges of all jobs on the list, and of those that fall with them, then forgets what has ended: it will
    /// not end again.
    fn settle(&mut self, mut step: Step) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some((_, job)) = step.work.pop_first() {
            let Some(waiting) = self.waiting.get_mut(&job) else { continue };
            let Some(fate) = look(waiting, &step.ends, &self.watches) else { continue };
            self.waits_no_more(&job);
            match fate {
                Fate::Released => changes.push(Change::Released(job)),
                Fate::Cancelled { edge, as_state } => {
                    step.ends.insert(job.clone(), as_state);
                    self.spread(&job, as_state, &mut step);
                    changes.push(Change::Cancelled { job, edge, as_state });
                }
            }
        }
        for job in step.ends.keys() {
            self.on_jobs.remove(job);
        }
        // Of what has ended nobody wants to know.
        self.unawaited.retain(|job| self.on_jobs.contains_key(job));
        for array in &step.arrays_over {
            self.watches.remove(array);
            self.on_arrays.remove(array);
        }
        changes
    }
}

/// What one step works on.
#[derive(Default)]
struct Step {
    /// What has ended, now or before.
    ends: BTreeMap<JobId, TerminalState>,
    /// Arrays of which all elements have ended.
    arrays_over: Vec<JobId>,
    /// Jobs to look at, predecessors first.
    work: BTreeSet<(u32, JobId)>,
}

enum Fate {
    Released,
    Cancelled { edge: Edge, as_state: TerminalState },
}

/// Judges the open edges of one job; `None` if it goes on waiting.
fn look(
    waiting: &mut Waiting,
    ends: &BTreeMap<JobId, TerminalState>,
    watches: &BTreeMap<JobId, Watch>,
) -> Option<Fate> {
    let mut at = 0;
    while let Some(open) = waiting.open.get(at) {
        let judged = match &open.target {
            Target::Job(job) => ends.get(job).map(|&state| judge(open.edge.kind, state)),
            Target::Array(array) => watches.get(array).and_then(|watch| watch.judge(open.edge.kind)),
        };
        let Some(judged) = judged else {
            at += 1;
            continue;
        };
        let edge = waiting.open.remove(at).edge;
        match (judged, waiting.join) {
            (Judged::Holds, Join::Any) => return Some(Fate::Released),
            (Judged::Holds, Join::All) if waiting.open.is_empty() => return Some(Fate::Released),
            (Judged::Holds, Join::All) => {}
            (Judged::Never { unneeded }, join) => {
                waiting.unneeded &= unneeded;
                if join == Join::All || waiting.open.is_empty() {
                    let as_state =
                        if waiting.unneeded { TerminalState::Unneeded } else { TerminalState::Cancelled };
                    return Some(Fate::Cancelled { edge, as_state });
                }
            }
        }
    }
    None
}
