//! Exact best candidates without looking at all of them.
//!
//! *Problem.* Given a policy, nodes N and jobs J: for a job, find the node with the smallest key (see `choice`) among those
//! that may be chosen, and the runner-up; for a node, the same over jobs. Exact, no sampling. Between two questions little
//! changes: one placement, one end, some seconds.
//!
//! *Nodes for a job* ([`NodeIndex`]). Jobs of one class see every node alike, so per class the keys of all nodes are kept in order. A
//! change of a node only appends its position to a log; a class catches up with the log when it is next asked and scores
//! just those nodes; a class that is new scores one of all nodes that are alike. As time passes a key may only get worse (leases run out, heartbeats age) except at instants that the
//! refusing filter named; so the first of the order is judged again at the present instant and put back if it got worse. A
//! first that keeps its key is the exact best.
//!
//! *Jobs for a node* ([`JobIndex`]). Jobs of one class, with the same reports and rounds, differ for a policy only in how
//! long they have waited, and points never fall with waiting. So each group is ordered by waiting time, only its head is
//! scored, and among the groups that share the best total the tie is searched inside the run of jobs with that total.
//!
//! Where a policy looks at something that these arguments do not cover, the indexes fall back to the plain scorer, which
//! is also the oracle that the tests compare them with. Neither index decides anything by itself: keys and verdicts come
//! from the same code as in the plain scorer.

mod alike;
mod bits;
mod jobs;
mod nodes;
mod queue;
mod runs;

pub use jobs::{BestJob, JobIndex};
pub use nodes::NodeIndex;
