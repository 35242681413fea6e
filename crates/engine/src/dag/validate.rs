//! Checks a submission before anything of it is stored, and ties each edge to what it will be judged on.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{JobId, TenantId};

use super::{
    DagError, EDGES_MAX, EdgeKind, EdgeLock, JOBS_MAX, Known, MUTEX_BYTES_MAX, MUTEX_MAX, NewJob, Open,
    Submission, Target, TerminalState, Watch,
};

/// A submission without fault.
pub(super) struct Checked {
    /// One entry per job, in the order of the submission.
    pub(super) jobs: Vec<CheckedJob>,
    /// Arrays that edges are on, with their elements.
    pub(super) watched: BTreeMap<JobId, Vec<JobId>>,
    /// Arrays that edges are on and whose ends are counted.
    pub(super) counted: BTreeMap<JobId, Watch>,
    /// Earlier jobs that edges look at and that have ended.
    pub(super) ended: BTreeMap<JobId, TerminalState>,
}

/// A job without fault.
#[derive(Default)]
pub(super) struct CheckedJob {
    pub(super) open: Vec<Open>,
    pub(super) locks: Vec<EdgeLock>,
    pub(super) depth: u32,
}

/// What an edge is on: a job, or an array with its elements.
enum On {
    Job { ended: Option<TerminalState> },
    Array { elements: Vec<JobId> },
    Counted(Watch),
}

/// Checks everything. `depth` is that of a job which waits already, 0 for any other.
pub(super) fn check(
    submission: &Submission,
    known: &impl Fn(&JobId) -> Option<Known>,
    depth: impl Fn(&JobId) -> u32,
) -> Result<Checked, DagError> {
    let jobs = &submission.jobs;
    check_sizes(jobs)?;
    let arrays = arrays(jobs)?;
    let own: BTreeSet<&JobId> = jobs.iter().map(|job| &job.id).collect();
    let tenant = submission.tenant.as_ref();
    let find = |job: &NewJob, on: &JobId| -> Result<On, DagError> {
        if own.contains(on) {
            return Ok(On::Job { ended: None });
        }
        if let Some(elements) = arrays.get(on) {
            return Ok(On::Array { elements: elements.iter().map(|&id| id.clone()).collect() });
        }
        let unknown = || DagError::UnknownDependency { job: job.id.clone(), on: on.clone() };
        let allowed = |owner: Option<TenantId>| {
            let forbidden = || DagError::ForbiddenDependency { job: job.id.clone(), on: on.clone() };
            (owner.as_ref() == tenant).then_some(()).ok_or_else(forbidden)
        };
        match known(on).ok_or_else(unknown)? {
            Known::Job { tenant, ended } => allowed(tenant).map(|()| On::Job { ended }),
            Known::Array { tenant, elements } => allowed(tenant).map(|()| On::Array { elements }),
            Known::Counted { tenant, left, ended } => {
                allowed(tenant).map(|()| On::Counted(Watch::of(left, ended)))
            }
        }
    };
    let ended_earlier = |job: &JobId| match known(job) {
        Some(Known::Job { ended, .. }) if !own.contains(job) => ended,
        _ => None,
    };

    let mut checked = Checked {
        jobs: Vec::new(),
        watched: BTreeMap::new(),
        counted: BTreeMap::new(),
        ended: BTreeMap::new(),
    };
    let mut locks = BTreeSet::new();
    for job in jobs {
        let mut done = CheckedJob::default();
        let mut seen = BTreeSet::new();
        for edge in &job.edges {
            let duplicate = || DagError::DuplicateEdge { job: job.id.clone(), on: edge.on.clone() };
            if edge.on == job.id {
                return Err(DagError::Cycle { members: vec![job.id.clone()] });
            }
            if !seen.insert((&edge.on, edge.kind)) {
                return Err(duplicate());
            }
            let on = find(job, &edge.on)?;
            match (on, edge.kind) {
                (On::Job { ended }, EdgeKind::Mutex) => {
                    let lock = EdgeLock::between(job.id.clone(), edge.on.clone());
                    if !locks.insert(lock.clone()) {
                        return Err(duplicate());
                    }
                    if ended.is_none() {
                        done.locks.push(lock);
                    }
                }
                (On::Counted(_), EdgeKind::Mutex) => {
                    return Err(DagError::MutexOnArray { job: job.id.clone(), on: edge.on.clone() });
                }
                (On::Counted(_), EdgeKind::Corresponding) if job.element.is_some() => {
                    return Err(DagError::OneByOne { job: job.id.clone(), on: edge.on.clone() });
                }
                (On::Counted(watch), _) => {
                    checked.counted.insert(edge.on.clone(), watch);
                    done.open.push(Open { edge: edge.clone(), target: Target::Array(edge.on.clone()) });
                }
                // Each element shares a lock of its own with the job, so that the elements do not exclude each other.
                (On::Array { elements }, EdgeKind::Mutex) => {
                    let others =
                        elements.into_iter().filter(|id| *id != job.id && ended_earlier(id).is_none());
                    done.locks.extend(others.map(|id| EdgeLock::between(job.id.clone(), id)));
                }
                (On::Job { ended }, _) => {
                    if let Some(state) = ended {
                        checked.ended.insert(edge.on.clone(), state);
                    }
                    done.open.push(Open { edge: edge.clone(), target: Target::Job(edge.on.clone()) });
                }
                (On::Array { elements }, EdgeKind::Corresponding) if job.element.is_some() => {
                    let index = job.element.as_ref().map_or(0, |element| element.index as usize);
                    // Beyond the end of the array there is nothing to wait for.
                    if let Some(id) = elements.get(index) {
                        if let Some(state) = ended_earlier(id) {
                            checked.ended.insert(id.clone(), state);
                        }
                        done.open.push(Open { edge: edge.clone(), target: Target::Job(id.clone()) });
                    }
                }
                // A single job has no index, so a `corresponding` edge of its needs the whole array.
                (On::Array { elements }, _) => {
                    for id in &elements {
                        if let Some(state) = ended_earlier(id) {
                            checked.ended.insert(id.clone(), state);
                        }
                    }
                    checked.watched.insert(edge.on.clone(), elements);
                    done.open.push(Open { edge: edge.clone(), target: Target::Array(edge.on.clone()) });
                }
            }
        }
        checked.jobs.push(done);
    }
    rank(jobs, &mut checked, depth)?;
    // An edge beyond the end of an array holds from the start, and one may be all that a job asks for.
    for (job, done) in jobs.iter().zip(&mut checked.jobs) {
        let free = job.edges.iter().filter(|edge| edge.kind != EdgeKind::Mutex).count() > done.open.len();
        if free && job.join == super::Join::Any {
            done.open.clear();
        }
    }
    Ok(checked)
}

fn check_sizes(jobs: &[NewJob]) -> Result<(), DagError> {
    if jobs.is_empty() || jobs.len() > JOBS_MAX {
        return Err(DagError::JobCount { count: jobs.len() });
    }
    for job in jobs {
        if job.edges.len() > EDGES_MAX {
            return Err(DagError::EdgeCount { job: job.id.clone(), count: job.edges.len() });
        }
        let too_long = |name: &landfall_model::Name| name.as_str().len() > MUTEX_BYTES_MAX;
        if job.mutex.len() > MUTEX_MAX || job.mutex.iter().any(too_long) {
            return Err(DagError::Mutex { job: job.id.clone() });
        }
    }
    Ok(())
}

/// The arrays of a submission, each with its elements in order.
fn arrays(jobs: &[NewJob]) -> Result<BTreeMap<&JobId, Vec<&JobId>>, DagError> {
    let mut ids = BTreeSet::new();
    let mut indexed: BTreeMap<&JobId, BTreeMap<u32, &JobId>> = BTreeMap::new();
    for job in jobs {
        if !ids.insert(&job.id) {
            return Err(DagError::DuplicateJob { job: job.id.clone() });
        }
        if let Some(element) = &job.element
            && indexed.entry(&element.array).or_default().insert(element.index, &job.id).is_some()
        {
            return Err(DagError::BadArray { array: element.array.clone() });
        }
    }
    let mut arrays = BTreeMap::new();
    for (array, elements) in indexed {
        if ids.contains(array) {
            return Err(DagError::DuplicateJob { job: array.clone() });
        }
        if elements.keys().enumerate().any(|(at, &index)| at != index as usize) {
            return Err(DagError::BadArray { array: array.clone() });
        }
        arrays.insert(array, elements.into_values().collect());
    }
    Ok(arrays)
}

/// Gives each job its depth, or finds a cycle. An array stands between its elements and those who wait for it.
fn rank(jobs: &[NewJob], checked: &mut Checked, depth: impl Fn(&JobId) -> u32) -> Result<(), DagError> {
    let index: BTreeMap<&JobId, usize> = jobs.iter().enumerate().map(|(at, job)| (&job.id, at)).collect();
    let arrays: BTreeMap<&JobId, usize> =
        checked.watched.keys().enumerate().map(|(at, array)| (array, jobs.len() + at)).collect();
    let count = jobs.len() + arrays.len();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut depths = vec![0_u32; count];
    for (at, done) in checked.jobs.iter().enumerate() {
        for open in &done.open {
            let vertex = match &open.target {
                Target::Job(id) => index.get(id),
                Target::Array(id) => arrays.get(id),
            };
            match (vertex, &open.target) {
                (Some(&vertex), _) => before[at].push(vertex),
                (None, Target::Job(id) | Target::Array(id)) => {
                    depths[at] = depths[at].max(depth(id).saturating_add(1));
                }
            }
        }
        depths[at] = depths[at].max(u32::from(!done.open.is_empty()));
    }
    for (at, elements) in (jobs.len()..).zip(checked.watched.values()) {
        for id in elements {
            match index.get(id) {
                Some(&vertex) => before[at].push(vertex),
                None => depths[at] = depths[at].max(depth(id)),
            }
        }
    }

    let mut after: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut left: Vec<usize> = before.iter().map(Vec::len).collect();
    for (at, all) in before.iter().enumerate() {
        all.iter().for_each(|&vertex| after[vertex].push(at));
    }
    let mut ready: Vec<usize> = (0..count).filter(|&at| left[at] == 0).collect();
    let mut done = 0;
    while let Some(at) = ready.pop() {
        done += 1;
        for &next in &after[at] {
            depths[next] = depths[next].max(depths[at].saturating_add(1));
            left[next] -= 1;
            if left[next] == 0 {
                ready.push(next);
            }
        }
    }
    if done < count {
        return Err(DagError::Cycle { members: cycle(jobs, &before, &left) });
    }
    for (job, depth) in checked.jobs.iter_mut().zip(depths) {
        job.depth = depth;
    }
    Ok(())
}

/// One cycle among the vertices that could not be ordered, each job before the one that waits for it.
fn cycle(jobs: &[NewJob], before: &[Vec<usize>], left: &[usize]) -> Vec<JobId> {
    let stuck = |at: &usize| left[*at] > 0;
    let Some(mut at) = (0..left.len()).find(stuck) else { return Vec::new() };
    // Everybody who is stuck waits for somebody who is stuck, so this walk must come back to where it has been.
    let mut path: Vec<usize> = Vec::new();
    while !path.contains(&at) {
        path.push(at);
        let Some(&next) = before[at].iter().find(|next| stuck(next)) else { break };
        at = next;
    }
    let from = path.iter().position(|&seen| seen == at).unwrap_or(0);
    let mut members: Vec<JobId> =
        path[from..].iter().rev().filter_map(|&at| jobs.get(at)).map(|job| job.id.clone()).collect();
    let lowest = members.iter().enumerate().min_by_key(|(_, id)| *id).map_or(0, |(at, _)| at);
    members.rotate_left(lowest);
    members
}
