//! Something to replay, read once and ready to run under any policy and seed, from as many threads as there are.
//!
//! | subject | from | simulator |
//! |---|---|---|
//! | [`Log`] | a batch log and a number of processors | [`machine`](crate::machine); for weight profiles [`cluster`](crate::cluster) |
//! | [`Pods`] | GPU pods and nodes without time | [`packing`](crate::packing) |
//! | [`Cluster`] | a trace and a cluster file | [`cluster`](crate::cluster) |

mod cluster;
mod log;
mod pods;

pub use cluster::{Cluster, Cycles};
pub use log::{Log, SequenceMeans};
pub use pods::Pods;

use landfall_policy::spec::PolicySpec;

use crate::decisions::Decisions;
use crate::machine::LogPolicy;
use crate::run::Run;

/// Why something cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("policy `{policy}` cannot be used here: {why}")]
    Policy { policy: String, why: String },
    /// The subject makes no sense.
    #[error("{0}")]
    Subject(String),
    #[error("the decisions cannot be written: {0}")]
    Decisions(#[from] std::io::Error),
}

/// A policy under the name that reports show.
#[derive(Debug, Clone)]
pub struct Chosen {
    pub name: String,
    pub what: PolicyKind,
    /// SHA-256 of its file, if it came from one.
    pub sha256: Option<String>,
}

#[derive(Debug, Clone)]
pub enum PolicyKind {
    /// One that orders a line of jobs for alike processors.
    Log(LogPolicy),
    /// One that scores nodes or jobs.
    Spec(Box<PolicySpec>),
    /// Whatever the pools of a cluster say themselves.
    Own,
}

/// How far a replay is: called with what was done so far; `false` stops it.
pub type Progress<'a> = &'a mut dyn FnMut(usize) -> bool;

/// The parameter of policies that draw.
const SEED: &str = "seed";

/// What is replayed.
///
/// ```
/// use landfall_replay::decisions::Decisions;
/// use landfall_replay::machine::{Estimate, Events, LogPolicy};
/// use landfall_replay::measures::Measures;
/// use landfall_replay::subject::{Chosen, Log, PolicyKind, Subject};
/// use landfall_replay::trace::{batch, swf};
///
/// // Two jobs of 60 s that each need the whole machine, submitted at once.
/// let log = "1 0 -1 60 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1\n2 0 -1 60 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1\n";
/// let log = swf::Log::read(log.as_bytes())?;
/// let subject = Subject::Log(Log {
///     name: "two".into(),
///     jobs: batch::Kept::of(&log, 4).jobs,
///     procs: 4,
///     procs_per_node: 1,
///     events: Events::Batch,
///     cycle: None,
///     estimate: Estimate::User,
///     inputs_sha256: Default::default(),
/// });
/// let easy = LogPolicy::named("easy").ok_or("there is no such policy")?;
/// let easy = Chosen { name: "easy".into(), what: PolicyKind::Log(easy), sha256: None };
/// let run = subject.run(&easy, 0, Decisions::new(None), &mut |_| true)?;
/// let waits = Measures::of(&run).wait_s.ok_or("nothing started")?;
/// assert_eq!(waits.mean, 30.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum Subject {
    Log(Log),
    Pods(Pods),
    Cluster(Box<Cluster>),
}

impl Subject {
    /// How much there is to do, in the unit of [`Progress`].
    pub fn size(&self, seed: u64) -> usize {
        match self {
            Self::Log(log) => log.jobs.len(),
            Self::Pods(pods) => pods.sequence(seed).map_or(pods.pods.len(), |sequence| sequence.pods.len()),
            Self::Cluster(cluster) => cluster.trace.submissions.len(),
        }
    }

    /// The name of the trace, without path.
    pub fn name(&self) -> &str {
        match self {
            Self::Log(log) => &log.name,
            Self::Pods(pods) => &pods.name,
            Self::Cluster(cluster) => &cluster.name,
        }
    }

    /// Whether a seed makes a difference: to the order of pods, or to a policy that draws.
    pub fn draws(&self, policy: &Chosen) -> bool {
        matches!(self, Self::Pods(_))
            || matches!(&policy.what, PolicyKind::Spec(spec) if spec.params.contains_key(SEED))
    }

    pub fn run(
        &self,
        policy: &Chosen,
        seed: u64,
        decisions: Decisions<'_>,
        progress: Progress<'_>,
    ) -> Result<Run, ReplayError> {
        let mut seeded = policy.clone();
        if let PolicyKind::Spec(spec) = &mut seeded.what
            && spec.params.contains_key(SEED)
        {
            spec.params.insert(SEED.into(), i64::try_from(seed).unwrap_or(i64::MAX).into());
        }
        let policy = &seeded;
        let mut run = match self {
            Self::Log(log) => log.run(policy, decisions, progress)?,
            Self::Pods(pods) => pods.run(policy, seed, decisions, progress)?,
            Self::Cluster(cluster) => cluster.run(policy, decisions, progress)?,
        };
        run.policy.clone_from(&policy.name);
        run.seed = self.draws(policy).then_some(seed);
        run.inputs_sha256.extend(policy.sha256.iter().map(|sha256| ("policy".to_owned(), sha256.clone())));
        Ok(run)
    }
}
