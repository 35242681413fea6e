//! Why jobs that depend on each other are refused.

use landfall_model::JobId;
use serde::{Deserialize, Serialize};

use super::{EDGES_MAX, JOBS_MAX, MUTEX_BYTES_MAX, MUTEX_MAX};

/// Why a submission is refused; nothing of it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum DagError {
    /// No job, or too many.
    #[error("a submission has 1 to {JOBS_MAX} jobs, this one has {count}")]
    JobCount { count: usize },
    /// Two jobs of the submission have one id, or an array has the id of a job.
    #[error("`{job}` is there twice")]
    DuplicateJob { job: JobId },
    /// The elements of an array are not numbered from 0 without gaps.
    #[error("the elements of the array `{array}` must be numbered from 0 without gaps")]
    BadArray { array: JobId },
    /// A job has too many edges.
    #[error("`{job}` has {count} dependencies; at most {EDGES_MAX} are accepted")]
    EdgeCount { job: JobId, count: usize },
    /// A job has too many lock names, or one that is too long.
    #[error("`{job}` may name at most {MUTEX_MAX} locks of 1 to {MUTEX_BYTES_MAX} bytes")]
    Mutex { job: JobId },
    /// An edge is on a job that does not exist.
    #[error("`{job}` depends on `{on}`, which does not exist")]
    UnknownDependency { job: JobId, on: JobId },
    /// The same edge twice.
    #[error("`{job}` depends on `{on}` twice in the same way")]
    DuplicateEdge { job: JobId, on: JobId },
    /// An edge is on a job of another tenant.
    #[error("`{job}` depends on `{on}`, which belongs to another tenant")]
    ForbiddenDependency { job: JobId, on: JobId },
    /// An edge that excludes an array as a whole.
    #[error("`{job}` cannot exclude the array `{on}` by an edge; name a lock in `mutex` of both")]
    MutexOnArray { job: JobId, on: JobId },
    /// An element that was submitted by itself follows an array that was submitted as one.
    #[error("`{job}` cannot follow the array `{on}` element by element; submit both as arrays")]
    OneByOne { job: JobId, on: JobId },
    /// Jobs wait for each other, each named before the one that waits for it, beginning with the lowest id.
    #[error("these jobs wait for each other: {}", members.iter().map(JobId::as_str).collect::<Vec<_>>().join(" → "))]
    Cycle { members: Vec<JobId> },
}

impl DagError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::JobCount { .. } => "job_count",
            Self::DuplicateJob { .. } => "duplicate_job",
            Self::BadArray { .. } => "bad_array",
            Self::EdgeCount { .. } => "edge_count",
            Self::Mutex { .. } => "mutex",
            Self::UnknownDependency { .. } => "unknown_dependency",
            Self::DuplicateEdge { .. } => "duplicate_edge",
            Self::ForbiddenDependency { .. } => "forbidden_dependency",
            Self::MutexOnArray { .. } => "mutex_on_array",
            Self::OneByOne { .. } => "one_by_one",
            Self::Cycle { .. } => "cycle",
        }
    }
}
