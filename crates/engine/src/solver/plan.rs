//! What the solver answers: what to propose, what is reserved, and why the rest waits.

use std::collections::BTreeMap;

use landfall_model::answer::CountsOn;
pub use landfall_model::life::Precision;
use landfall_model::{JobId, NodeId, PoolId, Time};
use serde::{Deserialize, Serialize};

use super::fleet::{KindKey, Slot};
use super::reason::{Reason, Refusal};
use landfall_model::life::{Breakdown, Points};
use landfall_model::verdict::Facts;

/// Future time kept for a waiting job. It names no node: nodes are counted by kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub job: JobId,
    pub start: Time,
    /// When it would end; `None` means never.
    pub end: Option<Time>,
    pub kinds: Vec<(KindKey, u32)>,
    /// Nodes of which a part is kept, because the job shares them with others.
    pub shared: Vec<NodeId>,
    /// How many nodes there were of each kind when it was planned: fewer later on means that one was lost.
    #[serde(default)]
    pub of: Vec<u32>,
    /// The devices meant on each shared node.
    #[serde(default)]
    pub devices: Vec<Vec<u16>>,
}

/// Why a reservation moved to a later time or was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveCause {
    /// A node it counted on was lost, drained or changed.
    NodeLost,
    /// A cap on power or storage traffic became lower.
    CapLowered,
    /// A job runs past its walltime, inside the kill grace.
    Overrun,
    /// The job's own quota or lock.
    Quota,
    /// The job's own gate: staging, hold, dependency.
    Gate,
    /// A job of strictly higher class took what it needs.
    HigherClass,
    /// A job runs for longer than those like it did.
    Outlived,
    /// Prices are raised beyond what the job may cost.
    Surge,
    /// Work began later than it was told to, and so ends later than was expected.
    Late,
}

/// A reservation that moved to a later time or was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub job: JobId,
    /// When it would have started.
    pub from: Time,
    /// When it would start now; `None` if it has no reservation any more.
    pub to: Option<Time>,
    pub cause: MoveCause,
}

/// What a set of nodes is worth.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SetValue {
    pub value: f64,
    /// How few groups and how close (f4 of the set).
    pub topology: f64,
    /// How alike (f9 of the set).
    pub conformance: f64,
    pub span: u32,
    pub fingerprints: u32,
    pub borrowed: u32,
    /// Watts drawn beyond what the nodes draw when idle.
    pub extra_power_w: u64,
}

impl SetValue {
    /// Adds what the set is worth to what speaks for a start, and what people are told about it.
    pub(crate) fn tell(&self, why: &mut Breakdown, flag: Option<&'static str>) {
        let of_set =
            [("set", self.value), ("set topology", self.topology), ("set conformance", self.conformance)];
        let all = of_set.into_iter().chain(flag.map(|flag| (flag, 1.0)));
        why.terms.extend(all.map(|(term, raw)| Points { term: term.into(), raw, points: 0.0 }));
    }
}

/// Nodes borrowed for one start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loan {
    pub lender: PoolId,
    pub nodes: Vec<NodeId>,
}

/// A proposal to start a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub job: JobId,
    /// Whether it overtakes a job that waits.
    pub backfill: bool,
    pub nodes: Vec<NodeId>,
    /// The same nodes as places in the fleet.
    pub slots: Vec<Slot>,
    /// The devices it gets on each node, in the order of `nodes`; empty for a job that has its nodes to itself.
    pub devices: Vec<Vec<u16>>,
    pub loans: Vec<Loan>,
    pub value: SetValue,
    /// What the next best set would have been worth.
    pub runner_up: Option<SetValue>,
    pub node_units: f64,
    /// Whether a node's power is unknown and counted as nothing.
    pub power_unknown: bool,
    /// What put it in front of the others, and what its set is worth.
    pub why: Breakdown,
}

/// A borrower that gives nodes back and goes on with the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shrink {
    pub job: JobId,
    pub nodes: Vec<NodeId>,
}

/// A proposal to stop work for a job and to hold its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preempt {
    pub job: JobId,
    /// Whether lent nodes are asked back, rather than less urgent work stopped.
    pub reclaim: bool,
    pub victims: Vec<JobId>,
    /// Who gives nodes back and goes on.
    pub shrinks: Vec<Shrink>,
    /// The nodes to hold, free ones included.
    pub nodes: Vec<NodeId>,
    /// The same nodes as places in the fleet.
    pub slots: Vec<Slot>,
    pub cost: f64,
    pub ready_at: Time,
    pub value: SetValue,
    pub node_units: f64,
}

/// One proposal of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Start(Start),
    /// Stop work for a job.
    Preempt(Preempt),
}

/// Why a job still waits, and until when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    pub job: JobId,
    pub reason: Reason,
    /// All that stands against it, the primary reason first.
    pub refusals: Vec<Refusal>,
    /// Its place among the jobs that still wait, from 1.
    pub position: u32,
    /// The waiting job directly ahead of it.
    pub ahead: Option<JobId>,
    pub planned_start: Option<Time>,
    /// When it starts if jobs run as long as they usually do.
    pub likely_start: Option<Time>,
    /// The earliest and the latest that is likely.
    pub range: Option<(Time, Time)>,
    /// How good these times are.
    pub precision: Precision,
    /// What the planned start counts on.
    pub rests: Rests,
}

/// What a planned start counts on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rests {
    pub on: Vec<CountsOn>,
    /// Those who are stopped for the job or asked to give nodes back, or the one that gives back quota last.
    pub jobs: Vec<JobId>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// Proposals in walk order.
    pub steps: Vec<Step>,
    /// Reservations that stand after the walk, by start and job.
    pub reservations: Vec<Reservation>,
    /// Reservations that moved to a later time or were given up.
    pub moved: Vec<Moved>,
    /// Jobs that were to start at once or not at all, and do not, in job order.
    pub missed: Vec<JobId>,
    /// Whether the walk ended with somebody who had been promised a time, and another one at this instant goes on.
    pub again: bool,
    /// The jobs that still wait, in job order; empty where jobs were given in classes.
    pub waiting: Vec<Wait>,
    /// What was looked at for those that start and for the first of each class that waits, if somebody keeps that.
    #[serde(skip)]
    pub looked: Vec<Looked>,
}

/// What a cycle looked at for a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Looked {
    pub job: JobId,
    /// Nodes that the pool has.
    pub nodes: u32,
    /// What stands first against how many of them; what stands against the job whatever the nodes, against all.
    pub against: BTreeMap<Reason, u32>,
    /// What the points of one that starts rest on.
    pub facts: Facts,
}

impl Reservation {
    /// Nodes it keeps, whole ones and parts.
    pub fn node_count(&self) -> u64 {
        self.kinds.iter().map(|(_, count)| u64::from(*count)).sum::<u64>() + self.shared.len() as u64
    }
}
