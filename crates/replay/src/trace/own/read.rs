//! Reading the own trace, line by line or all at once.

use std::io::BufRead;
use std::sync::Arc;

use landfall_engine::array::Shape;
use landfall_engine::dag::{Edge, Join};
use landfall_engine::heartbeat::Heartbeat;
use landfall_model::scenario::{
    self, BlockRow, Format, JobRow, NodeRow, Position, Rows, ScenarioError, TenantRow,
};
use landfall_model::{Indices, JobId, Millis, NodeId, Pool, PoolId, Time};
use landfall_policy::policy_file;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::check::Checks;
use super::{
    Change, FORMAT, Header, JobOrder, NodeChange, Order, Record, Setting, Submission, Trace, VERSION,
};
use crate::trace::error::TraceError;
use crate::trace::lines::Lines;
use crate::work::{Attempt, Runs};

/// Latest instant, in milliseconds: far beyond any log, and sums with spans stay exact.
const AT_MS_MAX: i64 = 1 << 50;

/// The header, read leniently: a newer version may have fields that this program does not know.
#[derive(Deserialize)]
struct HeaderRow {
    format: Option<String>,
    version: Option<u32>,
    description: Option<String>,
}

/// A line: one of the first nine fields says what it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    pool: Option<Box<Pool>>,
    tenant: Option<Box<TenantRow>>,
    block: Option<Box<BlockRow>>,
    node: Option<Box<NodeRow>>,
    job: Option<Box<JobRow>>,
    element: Option<JobId>,
    change: Option<ChangeRow>,
    order: Option<OrderRow>,
    cycles: Option<CyclesRow>,
    at_ms: Option<i64>,
    policy_file: Option<String>,
    run_ms: Option<Millis>,
    start_ms: Option<Millis>,
    stop_ms: Option<Millis>,
    exit: Option<i32>,
    #[serde(default)]
    retried: Vec<Attempt>,
    #[serde(default)]
    after: Vec<Edge>,
    join: Option<Join>,
    held: Option<bool>,
    not_before_ms: Option<i64>,
    array: Option<Indices>,
    with: Option<JobId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeRow {
    node: NodeId,
    to: Option<Change>,
    says: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderRow {
    job: JobId,
    to: Order,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CyclesRow {
    pool: PoolId,
    at_ms: Vec<i64>,
}

/// Reads records one after the other.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    header: Header,
    version: u32,
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
        let version = match (row.format.as_deref(), row.version) {
            (Some(FORMAT), Some(version @ 1..=VERSION)) => version,
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
        };
        let header = Header { description: row.description };
        Ok(Self { lines, header, version, rows: Rows::default(), line: number })
    }

    /// The version of the file.
    pub fn version(&self) -> u32 {
        self.version
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

/// What a line is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Pool,
    Setting,
    Node,
    Job,
    Element,
    Change,
    Order,
    Cycles,
}

impl Line {
    /// What it is about; an error unless that is one thing.
    fn what(&self) -> Result<What, ScenarioError> {
        let given = [
            (self.pool.is_some(), What::Pool),
            (self.tenant.is_some(), What::Setting),
            (self.block.is_some(), What::Setting),
            (self.node.is_some(), What::Node),
            (self.job.is_some(), What::Job),
            (self.element.is_some(), What::Element),
            (self.change.is_some(), What::Change),
            (self.order.is_some(), What::Order),
            (self.cycles.is_some(), What::Cycles),
        ];
        let mut given = given.into_iter().filter(|(given, _)| *given);
        match (given.next(), given.next()) {
            (Some((_, what)), None) => Ok(what),
            _ => Err(ScenarioError::at(
                "",
                "a line has exactly one of `pool`, `tenant`, `block`, `node`, `job`, `element`, `change`, `order` and `cycles`",
            )
            .hint("see docs/reference/trace.md")),
        }
    }

    /// Refuses fields that say nothing about what the line is about.
    fn check(&self, what: What) -> Result<(), ScenarioError> {
        let (job, runs) = (what == What::Job, matches!(what, What::Job | What::Element));
        let timed = !matches!(what, What::Element | What::Cycles);
        let fields = [
            ("at_ms", self.at_ms.is_some(), timed, "a line of this kind has no instant of its own"),
            ("policy_file", self.policy_file.is_some(), what == What::Pool, "only a pool has policy_file"),
            ("run_ms", self.run_ms.is_some(), runs, "only a job has run_ms"),
            ("start_ms", self.start_ms.is_some(), runs, "only a job has start_ms"),
            ("stop_ms", self.stop_ms.is_some(), runs, "only a job has stop_ms"),
            ("exit", self.exit.is_some(), runs, "only a job has exit"),
            ("retried", !self.retried.is_empty(), runs, "only a job has retried"),
            ("after", !self.after.is_empty(), job, "only a job has after"),
            ("join", self.join.is_some(), job, "only a job has join"),
            ("held", self.held.is_some(), job, "only a job has held"),
            ("not_before_ms", self.not_before_ms.is_some(), job, "only a job has not_before_ms"),
            ("array", self.array.is_some(), job, "only a job has array"),
            ("with", self.with.is_some(), job, "only a job has with"),
        ];
        match fields.into_iter().find(|(_, given, fits, _)| *given && !fits) {
            Some((field, _, _, message)) => Err(ScenarioError::at(field, message).hint("leave it out")),
            None => Ok(()),
        }
    }

    fn runs(&mut self) -> Runs {
        let last = Attempt {
            run: self.run_ms,
            start: self.start_ms.unwrap_or_default(),
            stop: self.stop_ms.unwrap_or_default(),
            exit: self.exit.unwrap_or_default(),
        };
        Runs { retried: std::mem::take(&mut self.retried), last }
    }
}

fn record(mut line: Line, rows: &mut Rows) -> Result<Record, ScenarioError> {
    let what = line.what()?;
    line.check(what)?;
    let beginning = line.at_ms.map(|at| instant(Some(at), "at_ms", -AT_MS_MAX)).transpose()?;
    let at = |line: &Line, earliest| instant(line.at_ms, "at_ms", earliest);
    if let Some(pool) = line.pool.take() {
        return Ok(Record::Setting(beginning, pool_setting(pool, line.policy_file.as_deref())?));
    }
    if let Some(row) = &line.tenant {
        let tenant = Box::new(rows.tenant(row, "tenant")?);
        return Ok(Record::Setting(beginning, Setting::Tenant(tenant)));
    }
    if let Some(row) = line.block.take() {
        let now = beginning.unwrap_or(Time::ZERO);
        return Ok(Record::Setting(beginning, Setting::Block(rows.block(*row, now, "block")?)));
    }
    if let Some(row) = line.node.take() {
        return Ok(Record::Nodes(beginning, rows.nodes(*row, beginning.unwrap_or(Time::ZERO), "node")?));
    }
    if let Some(id) = line.element.take() {
        return Ok(Record::Element(id, line.runs()));
    }
    if let Some(row) = line.change.take() {
        let at = at(&line, -AT_MS_MAX)?;
        return Ok(Record::Change(NodeChange { at, node: row.node, to: change(row.to, row.says)? }));
    }
    if let Some(OrderRow { job, to }) = line.order.take() {
        return Ok(Record::Order(JobOrder { at: at(&line, 0)?, job, to }));
    }
    if let Some(row) = line.cycles.take() {
        let times = row.at_ms.into_iter().map(|at| instant(Some(at), "cycles.at_ms", -AT_MS_MAX));
        return Ok(Record::Cycles(row.pool, times.collect::<Result<_, _>>()?));
    }
    submission(line, rows)
}

fn submission(mut line: Line, rows: &mut Rows) -> Result<Record, ScenarioError> {
    let at = instant(line.at_ms, "at_ms", 0)?;
    let Some(row) = line.job.take() else { return Err(ScenarioError::at("", "the line says nothing")) };
    let job = rows.job(*row, at, "job")?;
    let array = line.array.take().map(Shape::new).transpose();
    let array = array.map_err(|message| ScenarioError::at("array", message).hint("change the indices"))?;
    let not_before = line.not_before_ms.map(|at| instant(Some(at), "not_before_ms", 0)).transpose()?;
    Ok(Record::Submission(Box::new(Submission {
        runs: line.runs(),
        after: line.after,
        join: line.join.unwrap_or_default(),
        held: line.held.unwrap_or_default(),
        not_before,
        array,
        with: line.with,
        ..Submission::new(at, None, job)
    })))
}

/// A pool whose settings and policy can be used.
fn pool_setting(pool: Box<Pool>, policy: Option<&str>) -> Result<Setting, ScenarioError> {
    pool.validate().map_err(|error| ScenarioError::at(format!("pool.{}", error.field), error.message))?;
    if let Some(Err(error)) = policy.map(policy_file::load) {
        return Err(ScenarioError::at("policy_file", format!("the policy cannot be used: {error}"))
            .hint("correct the text, or leave it out and name a built-in policy in `pool.policy`"));
    }
    Ok(Setting::Pool { pool, policy: policy.map(Arc::from) })
}

fn change(to: Option<Change>, says: Option<Map<String, Value>>) -> Result<Change, ScenarioError> {
    match (to, says) {
        (Some(to), None) => Ok(to),
        (None, Some(fields)) => {
            let given: Vec<String> = fields.keys().cloned().collect();
            let read: Heartbeat = serde_json::from_value(Value::Object(fields))
                .map_err(|error| ScenarioError::at("change.says", error.to_string()))?;
            // What a program does not know, it must not pass over.
            let known = serde_json::to_value(&read).unwrap_or_default();
            if let Some(unknown) = given.into_iter().find(|name| known.get(name).is_none()) {
                let message = format!("`{unknown}` is unknown or says nothing");
                return Err(ScenarioError::at(format!("change.says.{unknown}"), message).hint("leave it out"));
            }
            Ok(Change::Says(Box::new(read)))
        }
        _ => Err(ScenarioError::at("change", "a change has exactly one of `to` and `says`")
            .hint("give what becomes of the node, or what it says about itself")),
    }
}

fn instant(at_ms: Option<i64>, field: &str, earliest: i64) -> Result<Time, ScenarioError> {
    match at_ms {
        Some(at) if (earliest..=AT_MS_MAX).contains(&at) => Ok(Time::from_millis(at)),
        Some(at) => Err(ScenarioError::at(field, format!("{at} is out of range: {earliest} to {AT_MS_MAX}"))),
        None => {
            Err(ScenarioError::at(field, "the line does not say when").hint("add at_ms, milliseconds from 0"))
        }
    }
}

impl Trace {
    /// Reads a whole trace, and checks that its lines go together: ids are used once, and what is named is there.
    pub fn read(reader: impl BufRead) -> Result<Self, TraceError> {
        let mut reader = Reader::new(reader)?;
        let mut trace = Self { header: reader.header.clone(), ..Self::default() };
        let mut checks = Checks::new(reader.version());
        while let Some(record) = reader.next_record()? {
            checks.note(reader.line(), &record)?;
            match record {
                Record::Setting(at, setting) => trace.settings.push((at, setting)),
                Record::Nodes(None, more) => trace.nodes.extend(more),
                Record::Nodes(Some(at), more) => {
                    trace.joins.extend(more.into_iter().map(|node| (at, node)));
                }
                Record::Submission(submission) => trace.submissions.push(*submission),
                Record::Element(id, runs) => drop(trace.elements.insert(id, runs)),
                Record::Change(change) => trace.changes.push(change),
                Record::Order(order) => trace.orders.push(order),
                Record::Cycles(pool, more) => trace.cycles.entry(pool).or_default().extend(more),
            }
        }
        trace.cycles.values_mut().for_each(|times| times.sort_unstable());
        checks.finish()?;
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
        assert_eq!((submission.at.as_millis(), submission.run().map(Millis::get)), (5, Some(120_000)));
        assert_eq!(submission.after[0].on.as_str(), "b");
        assert_eq!(submission.job.submitted_at.as_millis(), 5);
        assert_eq!(trace.changes[0].to, Change::Down);
    }

    #[test]
    fn newer_versions_and_other_files_are_refused() {
        let newer = error(r#"{"format":"landfall.trace","version":3,"shiny":true}"#);
        assert_eq!(newer.message, "the trace has version 3, this program reads versions 1 to 2");
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
            (r#"{"pool":{"id":"a"},"exit":1}"#, "exit"),
            (r#"{"pool":{"id":"a","dispatch":"batch","batch":{"depth":0}}}"#, "pool.batch.depth"),
            (r#"{"pool":{"id":"a"},"policy_file":"name = 7"}"#, "policy_file"),
            (r#"{"tenant":{"id":"a","share":2}}"#, "tenant.share"),
            (r#"{"node":{"id":"a","block":"b"}}"#, "node.block"),
            (r#"{"job":{"id":"a"},"at_ms":1,"array":{"first":2,"last":1}}"#, "array"),
            (r#"{"element":"a.1","at_ms":1}"#, "at_ms"),
            (r#"{"change":{"node":"a"},"at_ms":1}"#, "change"),
            (r#"{"change":{"node":"a","says":{"fingerprnt":"x"}},"at_ms":1}"#, "change.says.fingerprnt"),
            (r#"{"order":{"job":"a","to":"cancel"}}"#, "at_ms"),
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
