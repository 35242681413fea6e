//! What the engine wants done outside, and what it answers.

use landfall_model::{JobId, Millis, Name, NodeId, Placement, PoolId, Time};
use serde::{Deserialize, Serialize};

use landfall_capacity::Call;
use landfall_capacity::reactive::ScaleAlert;
use landfall_model::life::Fence;
pub use landfall_model::life::Refused;
use landfall_model::reason::Reason;
use landfall_negotiate as negotiate;

/// Something to be done outside. Every command to a node carries a fence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Start a job on a node with what it holds there, from its checkpoint if it resumes. One that is told ahead begins when
    /// another element of its array ends there.
    Start { fence: Fence, node: NodeId, placement: Box<Placement>, resume: bool, ahead: bool },
    /// Give a job back that was told ahead and has not begun.
    GiveBack { fence: Fence, node: NodeId },
    /// Ask a job to end; kill it after the grace, of which zero means at once.
    Stop { fence: Fence, node: NodeId, grace: Millis },
    /// Ask a job to save its work until the deadline. If it leaves, it ends afterwards and reports once it has.
    Checkpoint { fence: Fence, node: NodeId, deadline: Time, leave: bool },
    /// Tell a job that its nodes will be wanted back.
    Notice { fence: Fence, by: Time },
    /// Look whether a degraded node is well again.
    Probe(NodeId),
    /// Ask a provider of capacity something.
    AskProvider(Box<Call>),
    /// Bring the inputs of a waiting job near, each named by what identifies it.
    Stage { job: JobId, inputs: Vec<Name> },
    /// What the peer of a negotiated pool wants done.
    Peer { pool: PoolId, effect: Box<negotiate::Effect> },
    /// Tell people.
    Alert(Alert),
}

/// Something people should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alert {
    /// The ledger refused a job ten times in a row.
    ProposalStarved(JobId),
    /// Many nodes of a pool failed in a short time; the jobs are the likelier fault, so no more are taken out.
    QuarantinePaused(PoolId),
    /// Many nodes of a pool fell silent at once; so many of them keep their jobs for now.
    RequeueLimited { pool: PoolId, waiting: u64 },
    /// A node's configuration drifted.
    ConformanceDrift(NodeId),
    /// Something is wrong with the scaling of a service.
    Scaling { job: JobId, alert: ScaleAlert },
}

/// The answer to an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Done,
    /// It changed nothing, for the given reason: a copy, an old fence, something that is so already.
    Ignored(std::borrow::Cow<'static, str>),
    /// It was not done.
    Refused(Refused),
    /// A hold was made, or was there already; it is live until it expires.
    Held {
        id: u64,
        expires_at: Time,
    },
    /// A worker gets this job.
    Work(Fence),
    /// A worker gets nothing, for the given reason.
    Nothing(std::borrow::Cow<'static, str>),
    /// The ledger did not commit.
    NotCommitted(Vec<Reason>),
}
