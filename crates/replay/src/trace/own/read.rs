//! Reading the own trace, line by line or all at once.

use std::collections::BTreeSet;
use std::io::BufRead;

use landfall_engine::dag::{Edge, Join};
use landfall_model::scenario::{self, Format, JobRow, NodeRow, Position, Rows, ScenarioError};
use landfall_model::{JobId, Millis, NodeId, Time};
use serde::Deserialize;

use super::{Change, FORMAT, Header, NodeChange, Record, Submission, Trace, VERSION};
use crate::trace::error::TraceError;
use crate::trace::lines::Lines;

/// Latest instant, in milliseconds: far beyond any log, and sums with spans stay exact.
const AT_MS_MAX: i64 = 1 << 50;

/// The header, read leniently: a newer version may have fields that this program does not know.
#[derive(Deserialize)]
struct HeaderRow {
    format: Option<String>,
    version: Option<u32>,
    description: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    node: Option<Box<NodeRow>>,
    job: Option<Box<JobRow>>,
    change: Option<ChangeRow>,
    at_ms: Option<i64>,
    run_ms: Option<Millis>,
    #[serde(default)]
    after: Vec<Edge>,
    join: Option<Join>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeRow {
    node: NodeId,
    to: Change,
}

/// Reads records one after the other.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    header: Header,
    rows: Rows,
    line: usize,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// If reading fails, or the first line is no header of a version that is known.
    pub fn new(reader: R) -> Result<Self, TraceError> {
        let mut lines = Lines::new(reader);
        let Some((number, line)) = lines.next()? else {
            return Err(not_ours(1, "the file is empty").into());
        };
        let row: HeaderRow = decode(number, line)?;
        match (row.format.as_deref(), row.version) {
            (Some(FORMAT), Some(1..=VERSION)) => {}
            (Some(FORMAT), Some(newer)) => {
                let message =
                    format!("the trace has version {newer}, this program reads versions 1 to {VERSION}");
                return Err(TraceError::field(number, 1, "version", message)
                    .hint("use a newer landfall, or convert the trace with the one that wrote it")
                    .into());
            }
            (Some(FORMAT), None) => {
                return Err(TraceError::field(number, 1, "version", "the header has no version").into());
            }
            (Some(other), _) => return Err(not_ours(number, &format!("the format is `{other}`")).into()),
            (None, _) => return Err(not_ours(number, "the first line is no header").into()),
        }
        let header = Header { description: row.description };
        Ok(Self { lines, header, rows: Rows::default(), line: number })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The line of the last record.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The next record; `None` at the end.
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        while let Some((number, text)) = self.lines.next()? {
            self.line = number;
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let line: Line = decode(number, text)?;
            let record = record(line, &mut self.rows).map_err(|mut error| {
                let text = String::from_utf8_lossy(text);
                let column = error.clone().located(&text, Format::Json).position.map_or(1, |at| at.column);
                error.position = Some(Position { line: number, column });
                error
            })?;
            return Ok(Some(record));
        }
        Ok(None)
    }

    /// What is left of the stream.
    pub fn into_inner(self) -> R {
        self.lines.into_inner()
    }
}

fn not_ours(line: usize, found: &str) -> ScenarioError {
    TraceError::line(
        line,
        format!("{found}; a trace begins with {{\"format\":\"{FORMAT}\",\"version\":{VERSION}}}"),
    )
    .hint("see docs/reference/trace.md")
}

/// Decodes a line; errors carry the line of the file.
fn decode<T: serde::de::DeserializeOwned>(number: usize, line: &[u8]) -> Result<T, TraceError> {
    let text = std::str::from_utf8(line)
        .map_err(|_| TraceError::line(number, "the line is not UTF-8 text").hint("save the file as UTF-8"))?;
    scenario::decode(text, Format::Json).map_err(|mut error| {
        let column = error.position.map_or(1, |at| at.column);
        error.position = Some(Position { line: number, column });
        error.into()
    })
}

fn record(line: Line, rows: &mut Rows) -> Result<Record, ScenarioError> {
    let Line { node, job, change, at_ms, run_ms, after, join } = line;
    let without = |field: &str, given: bool| match given {
        true => Err(ScenarioError::at(field, format!("only a job has {field}"))),
        false => Ok(()),
    };
    match (node, job, change) {
        (None, Some(row), None) => {
            let at = instant(at_ms)?;
            let job = rows.job(*row, at, "job")?;
            Ok(Record::Submission(Box::new(Submission {
                at,
                run: run_ms,
                job,
                after,
                join: join.unwrap_or_default(),
            })))
        }
        (node, None, change) => {
            without("run_ms", run_ms.is_some())?;
            without("after", !after.is_empty())?;
            without("join", join.is_some())?;
            match (node, change) {
                (Some(row), None) if at_ms.is_none() => {
                    Ok(Record::Nodes(rows.nodes(*row, Time::ZERO, "node")?))
                }
                (Some(_), None) => Err(ScenarioError::at("at_ms", "nodes are there from the beginning")
                    .hint("write a change to `up` for a node that comes later")),
                (None, Some(row)) => {
                    Ok(Record::Change(NodeChange { at: instant(at_ms)?, node: row.node, to: row.to }))
                }
                _ => Err(one_of()),
            }
        }
        _ => Err(one_of()),
    }
}

fn one_of() -> ScenarioError {
    ScenarioError::at("", "a line has exactly one of `node`, `job` and `change`")
}

fn instant(at_ms: Option<i64>) -> Result<Time, ScenarioError> {
    match at_ms {
        Some(at) if (0..=AT_MS_MAX).contains(&at) => Ok(Time::from_millis(at)),
        Some(at) => Err(ScenarioError::at("at_ms", format!("{at} is out of range: 0 to {AT_MS_MAX}"))),
        None => {
            Err(ScenarioError::at("at_ms", "the line does not say when")
                .hint("add at_ms, milliseconds from 0"))
        }
    }
}

impl Trace {
    /// Reads a whole trace, and checks that ids are used once and that changes are about nodes that exist.
    pub fn read(reader: impl BufRead) -> Result<Self, TraceError> {
        let mut reader = Reader::new(reader)?;
        let mut trace = Self { header: reader.header.clone(), ..Self::default() };
        let mut nodes: BTreeSet<NodeId> = BTreeSet::new();
        let mut jobs: BTreeSet<JobId> = BTreeSet::new();
        let mut change_lines = Vec::new();
        let twice = |line, field: &str, id: &str| {
            TraceError::field(line, 1, field, format!("`{id}` is there already"))
                .hint("each id may be used once")
        };
        while let Some(record) = reader.next_record()? {
            let line = reader.line();
            match record {
                Record::Nodes(more) => {
                    for node in more {
                        if !nodes.insert(node.id.clone()) {
                            return Err(twice(line, "node.id", node.id.as_str()).into());
                        }
                        trace.nodes.push(node);
                    }
                }
                Record::Submission(submission) => {
                    if !jobs.insert(submission.job.id.clone()) {
                        return Err(twice(line, "job.id", submission.job.id.as_str()).into());
                    }
                    trace.submissions.push(*submission);
                }
                Record::Change(change) => {
                    change_lines.push(line);
                    trace.changes.push(change);
                }
            }
        }
        for (change, line) in trace.changes.iter().zip(change_lines) {
            // A trace without nodes runs on a cluster that is given apart.
            if !nodes.is_empty() && !nodes.contains(&change.node) {
                let message = format!("there is no node `{}` in the trace", change.node);
                return Err(TraceError::field(line, 1, "change.node", message).into());
            }
        }
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"format":"landfall.trace","version":1}"#;

    fn error(text: &str) -> ScenarioError {
        match Trace::read(text.as_bytes()) {
            Err(TraceError::Invalid(error)) => *error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nodes_jobs_and_changes() {
        let text = format!(
            "{HEADER}\n{}\n\n{}\n{}\n",
            r#"{"node":{"id":"n","count":2,"cpu_milli":4000,"gpus":[{"count":2,"model":"A100","vram_mib":81920}]}}"#,
            r#"{"job":{"id":"a","cpu_milli":1000,"walltime_ms":"1h"},"at_ms":5,"run_ms":"2min","after":[{"on":"b"}]}"#,
            r#"{"change":{"node":"n-1","to":"down"},"at_ms":9}"#
        );
        let trace = Trace::read(text.as_bytes()).unwrap();
        assert_eq!(trace.nodes.len(), 2);
        assert_eq!(trace.nodes[1].gpus.len(), 2);
        let submission = &trace.submissions[0];
        assert_eq!((submission.at.as_millis(), submission.run.map(Millis::get)), (5, Some(120_000)));
        assert_eq!(submission.after[0].on.as_str(), "b");
        assert_eq!(submission.job.submitted_at.as_millis(), 5);
        assert_eq!(trace.changes[0].to, Change::Down);
    }

    #[test]
    fn newer_versions_and_other_files_are_refused() {
        let newer = error(r#"{"format":"landfall.trace","version":2,"shiny":true}"#);
        assert_eq!(newer.message, "the trace has version 2, this program reads versions 1 to 1");
        for text in
            ["", "{}", r#"{"format":"x","version":1}"#, r#"{"format":"landfall.trace"}"#, "1 2 3", "["]
        {
            assert!(matches!(Trace::read(text.as_bytes()), Err(TraceError::Invalid(_))), "{text}");
        }
    }

    #[test]
    fn mistakes_name_line_field_and_hint() {
        let wrong = error(&format!("{HEADER}\n{}", r#"{"job":{"id":"a","cpu_mili":1},"at_ms":0}"#));
        assert_eq!(
            (wrong.field.as_str(), wrong.hint.as_deref()),
            ("job.cpu_mili", Some("did you mean `cpu_milli`?"))
        );
        assert_eq!(wrong.position.unwrap().line, 2);
        for (line, field) in [
            (r#"{"job":{"id":"a"}}"#, "at_ms"),
            (r#"{"job":{"id":"a"},"at_ms":-1}"#, "at_ms"),
            (r#"{"job":{"id":"a","walltime_ms":0},"at_ms":1}"#, "job.walltime_ms"),
            (r#"{"node":{"id":"a"},"run_ms":1}"#, "run_ms"),
            (r#"{"node":{"id":"a"},"at_ms":1}"#, "at_ms"),
            (r#"{"node":{"id":"a"},"job":{"id":"a"},"at_ms":1}"#, ""),
            (r#"{}"#, ""),
        ] {
            let wrong = error(&format!("{HEADER}\n\n{line}"));
            assert_eq!(
                (wrong.field.as_str(), wrong.position.map(|at| at.line)),
                (field, Some(3)),
                "{line}: {wrong}"
            );
        }
        let change = r#"{"change":{"node":"x","to":"up"},"at_ms":1}"#;
        let unknown = error(&format!("{HEADER}\n{{\"node\":{{\"id\":\"a\"}}}}\n{change}"));
        assert_eq!((unknown.field.as_str(), unknown.position.map(|at| at.line)), ("change.node", Some(3)));
        let twice = error(&format!("{HEADER}\n{0}\n{0}", r#"{"job":{"id":"a"},"at_ms":0}"#));
        assert_eq!((twice.field.as_str(), twice.position.map(|at| at.line)), ("job.id", Some(3)));
    }
}
