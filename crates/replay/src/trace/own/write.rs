//! Writing the own trace, line by line.

use std::io::{self, Write};

use landfall_engine::array::Shape;
use landfall_engine::dag::{Edge, Join};
use landfall_engine::heartbeat::Heartbeat;
use landfall_model::scenario::{Written, WrittenBlock, WrittenNode, WrittenTenant};
use landfall_model::{JobId, Node, NodeId, Pool, PoolId, Time};
use serde::Serialize;

use super::{Change, FORMAT, Header, JobOrder, NodeChange, Order, Record, Setting, Submission, VERSION};
use crate::work::{Attempt, Runs};

/// Cycles told in one line.
const CYCLES_A_LINE: usize = 1000;

/// Nodes as a trace tells them: so many alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeFacts {
    /// Their name, or what their names begin with.
    pub id: String,
    /// How many, if more than this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    pub cpu_milli: u64,
    pub ram_mib: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuFacts>,
}

/// Devices of a node: so many alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuFacts {
    pub count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vram_mib: Option<u64>,
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    format: &'a str,
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

#[derive(Serialize)]
struct NodeLine<'a> {
    node: &'a NodeFacts,
}

#[derive(Serialize)]
struct JobLine<'a> {
    at_ms: Time,
    #[serde(flatten)]
    last: &'a Attempt,
    #[serde(skip_serializing_if = "<[Attempt]>::is_empty")]
    retried: &'a [Attempt],
    job: Written<'a>,
    #[serde(skip_serializing_if = "<[Edge]>::is_empty")]
    after: &'a [Edge],
    #[serde(skip_serializing_if = "Option::is_none")]
    join: Option<Join>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before_ms: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<&'a Shape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    with: Option<&'a JobId>,
}

#[derive(Serialize)]
struct ElementLine<'a> {
    element: &'a JobId,
    #[serde(flatten)]
    last: &'a Attempt,
    #[serde(skip_serializing_if = "<[Attempt]>::is_empty")]
    retried: &'a [Attempt],
}

/// A line that may have an instant.
#[derive(Serialize)]
struct At<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    at_ms: Option<Time>,
    #[serde(flatten)]
    what: T,
}

/// What happens, by the name of its field.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum What<'a> {
    Pool(&'a Pool),
    Tenant(WrittenTenant<'a>),
    Block(WrittenBlock<'a>),
    Node(WrittenNode<'a>),
    Change(ChangeFields<'a>),
    Order { job: &'a JobId, to: Order },
    Cycles { pool: &'a PoolId, at_ms: &'a [Time] },
}

#[derive(Serialize)]
struct PoolLine<'a> {
    #[serde(flatten)]
    line: At<What<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_file: Option<&'a str>,
}

#[derive(Serialize)]
struct ChangeFields<'a> {
    node: &'a NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    says: Option<&'a Heartbeat>,
}

/// Writes records one after the other.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let mut writer = Self { out };
        writer.line(&HeaderLine {
            format: FORMAT,
            version: VERSION,
            description: header.description.as_deref(),
        })?;
        Ok(writer)
    }

    pub fn node(&mut self, node: &NodeFacts) -> io::Result<()> {
        self.line(&NodeLine { node })
    }

    /// Writes any record.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Setting(at, setting) => self.setting(*at, setting),
            Record::Nodes(at, nodes) => nodes.iter().try_for_each(|node| self.joins(*at, node)),
            Record::Submission(submission) => self.submission(submission),
            Record::Element(id, Runs { retried, last }) => {
                self.line(&ElementLine { element: id, last, retried })
            }
            Record::Change(change) => self.change(change),
            Record::Order(JobOrder { at, job, to }) => self.at(Some(*at), What::Order { job, to: *to }),
            Record::Cycles(pool, times) => {
                times.chunks(CYCLES_A_LINE).try_for_each(|at_ms| self.at(None, What::Cycles { pool, at_ms }))
            }
        }
    }

    fn at(&mut self, at_ms: Option<Time>, what: What<'_>) -> io::Result<()> {
        self.line(&At { at_ms, what })
    }

    /// Writes a pool, a tenant or a block; without an instant it is there from the beginning.
    pub fn setting(&mut self, at: Option<Time>, setting: &Setting) -> io::Result<()> {
        match setting {
            Setting::Pool { pool, policy } => {
                let line = At { at_ms: at, what: What::Pool(pool) };
                self.line(&PoolLine { line, policy_file: policy.as_deref() })
            }
            Setting::Tenant(tenant) => self.at(at, What::Tenant(WrittenTenant(tenant))),
            Setting::Block(block) => self.at(at, What::Block(WrittenBlock(block))),
        }
    }

    /// Writes a node that joins, with all that is known of it.
    pub fn joins(&mut self, at: Option<Time>, node: &Node) -> io::Result<()> {
        self.at(at, What::Node(WrittenNode(node)))
    }

    /// Writes a submission; it reads back equal if the job was never queued before.
    pub fn submission(&mut self, submission: &Submission) -> io::Result<()> {
        let Submission { at, runs, job, after, join, held, not_before, array, with } = submission;
        self.line(&JobLine {
            at_ms: *at,
            last: &runs.last,
            retried: &runs.retried,
            job: Written(job),
            after,
            join: Some(*join).filter(|join| *join != Join::All),
            held: held.then_some(true),
            not_before_ms: *not_before,
            array: array.as_ref(),
            with: with.as_ref(),
        })
    }

    /// Writes a change of a node.
    pub fn change(&mut self, change: &NodeChange) -> io::Result<()> {
        let NodeChange { at, node, to } = change;
        let fields = match to {
            Change::Says(heartbeat) => ChangeFields { node, to: None, says: Some(heartbeat) },
            to => ChangeFields { node, to: Some(to), says: None },
        };
        self.at(Some(*at), What::Change(fields))
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }
}
