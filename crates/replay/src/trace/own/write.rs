//! Writing the own trace, line by line.

use std::io::{self, Write};

use landfall_engine::dag::{Edge, Join};
use landfall_model::scenario::Written;
use landfall_model::{Millis, Time};
use serde::Serialize;

use super::{Change, FORMAT, Header, NodeChange, Submission, VERSION};

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
    #[serde(skip_serializing_if = "Option::is_none")]
    run_ms: Option<Millis>,
    job: Written<'a>,
    #[serde(skip_serializing_if = "<[Edge]>::is_empty")]
    after: &'a [Edge],
    #[serde(skip_serializing_if = "Option::is_none")]
    join: Option<Join>,
}

#[derive(Serialize)]
struct ChangeLine<'a> {
    at_ms: Time,
    change: ChangeFields<'a>,
}

#[derive(Serialize)]
struct ChangeFields<'a> {
    node: &'a str,
    to: Change,
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

    /// Writes a submission; it reads back equal if the job was never queued before.
    pub fn submission(&mut self, submission: &Submission) -> io::Result<()> {
        let Submission { at, run, job, after, join } = submission;
        let join = Some(*join).filter(|join| *join != Join::All);
        self.line(&JobLine { at_ms: *at, run_ms: *run, job: Written(job), after, join })
    }

    /// Writes a change of a node.
    pub fn change(&mut self, change: &NodeChange) -> io::Result<()> {
        let change_fields = ChangeFields { node: change.node.as_str(), to: change.to };
        self.line(&ChangeLine { at_ms: change.at, change: change_fields })
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }
}
