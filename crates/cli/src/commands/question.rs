//! What `rank` and `explain` ask: a ranking for one job or one node of a scenario.

use std::io::IsTerminal;
use std::path::Path;

use landfall_engine::Engine;
use landfall_model::answer::{Estimate, Explanation};
use landfall_model::scenario::Format;
use landfall_model::{JobId, NodeId, Situation};
use landfall_policy::spec::PolicySpec;
use landfall_policy::verdict::{Direction, Ranking};
use serde::Serialize;

use crate::error::CliError;
use crate::input::Input;
use crate::selection::{self, Origin, select};
use crate::service::ConnectArgs;

/// A ranking and how it came about.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The answer of the policy.
    pub(crate) ranking: Ranking,
    /// Who named the policy.
    pub(crate) origin: Origin,
    /// Whether nearer regions come before points.
    pub(crate) by_region: bool,
    pub(crate) policy: PolicySpec,
    pub(crate) warnings: Vec<String>,
}

/// Where a job stands once everything that can start now has started.
#[derive(Debug, Serialize)]
pub(crate) struct Standing {
    /// Why it is where it is.
    pub(crate) explanation: Explanation,
    pub(crate) estimate: Option<Estimate>,
}

/// Who candidates are ranked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// Nodes for this job.
    Job(&'a str),
    /// Jobs for this node.
    Node(&'a str),
}

/// Files above this size and rankings above this length take about a second or more.
const LONG_TEXT: usize = 16 << 20;
const MANY_ROWS: usize = 200_000;

/// Tells somebody who watches a terminal what takes so long.
fn progress(is_long: bool, what: impl FnOnce() -> String) {
    if is_long && std::io::stderr().is_terminal() {
        anstream::eprintln!("{}", what());
    }
}

pub(crate) struct Scenario {
    input: Input,
    situation: Situation,
}

impl Scenario {
    /// Reads a scenario file.
    pub(crate) fn read(path: &Path, policy: &selection::PolicyArgs) -> Result<Self, CliError> {
        selection::check_stdin(policy, path)?;
        Self::of(Input::read(path)?)
    }

    /// What is now on a running server.
    pub(crate) fn of_server(connect: &ConnectArgs) -> Result<Self, CliError> {
        let text = connect.ask(async |client| Ok(super::scenario::live(client, None).await?.text))?;
        Self::of(Input { file: "<the server>".to_owned(), text, format: Format::Toml })
    }

    fn of(input: Input) -> Result<Self, CliError> {
        progress(input.text.len() > LONG_TEXT, || {
            format!("reading {} ({} MB) …", input.file, input.text.len() >> 20)
        });
        let situation = input.situation()?;
        let rows = situation.nodes().len().max(situation.jobs().len());
        progress(rows > MANY_ROWS, || format!("ranking {rows} candidates …"));
        Ok(Self { input, situation })
    }

    /// Ranks the candidates for a subject.
    pub(crate) fn rank(
        &self,
        subject: Subject<'_>,
        policy: &selection::PolicyArgs,
    ) -> Result<Asked, CliError> {
        let situation = &self.situation;
        let (selected, ranking) = match subject {
            Subject::Job(id) => {
                let job = situation.job(id).ok_or_else(|| self.no_job(id))?;
                let pool = job.spec.pool.as_ref();
                let selected = select(policy, &self.input, situation, Direction::NodesForJob, pool)?;
                let ranking = selected.policy.rank_nodes(situation, job);
                (selected, ranking)
            }
            Subject::Node(id) => {
                let node = situation.node(id).ok_or_else(|| self.no_node(id))?;
                let pool = node.pool.as_ref();
                let selected = select(policy, &self.input, situation, Direction::JobsForNode, pool)?;
                let ranking = selected.policy.rank_jobs(situation, node);
                (selected, ranking)
            }
        };
        let region_mode = selected.policy.spec().params.get("region_mode");
        let by_region = region_mode.and_then(|mode| mode.as_str()) == Some("tiered");
        let policy = selected.policy.spec().clone();
        Ok(Asked { ranking, origin: selected.origin, by_region, policy, warnings: selected.warnings })
    }

    /// Where a job stands in the queue; a text if that cannot be told.
    pub(crate) fn standing(&self, job: &str, asked: &Asked) -> Result<Standing, String> {
        let situation = &self.situation;
        if situation.nodes().len().max(situation.jobs().len()) > MANY_ROWS {
            return Err(format!("more than {MANY_ROWS} rows; the queue is not looked at"));
        }
        // A policy that was asked for stands before those of the pools.
        let given =
            situation.world.pools.is_empty() || matches!(asked.origin, Origin::File | Origin::Argument);
        let engine = Engine::from_situation_with(situation, given.then_some(&asked.policy));
        let engine = engine.map_err(|refused| format!("{refused}; {}", refused.hint))?.after_this_instant();
        let id = JobId::new(job).map_err(|error| error.to_string())?;
        let explanation = engine.explain(&id).ok_or_else(|| format!("there is no job {job}"))?;
        Ok(Standing { explanation, estimate: engine.estimate(&id) })
    }

    /// Checks that a candidate exists.
    pub(crate) fn check_candidate(&self, subject: Subject<'_>, candidate: &str) -> Result<(), CliError> {
        match subject {
            Subject::Job(_) if self.situation.node(candidate).is_none() => Err(self.no_node(candidate)),
            Subject::Node(_) if self.situation.job(candidate).is_none() => Err(self.no_job(candidate)),
            _ => Ok(()),
        }
    }

    fn no_job(&self, id: &str) -> CliError {
        let jobs = self.situation.jobs().iter().map(|job| &job.id).map(JobId::as_str);
        self.missing("job", id, jobs)
    }

    fn no_node(&self, id: &str) -> CliError {
        let nodes = self.situation.nodes().iter().map(|node| &node.id).map(NodeId::as_str);
        self.missing("node", id, nodes)
    }

    fn missing<'a>(&'a self, what: &'static str, id: &str, known: impl Iterator<Item = &'a str>) -> CliError {
        CliError::no_such(what, id, known).in_file(&self.input.file)
    }
}
