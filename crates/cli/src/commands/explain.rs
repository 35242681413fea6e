//! `landfall explain`: why this candidate, why not that one, what would help.

use std::io::Write;
use std::path::PathBuf;

use landfall_model::{Dispatch, Name, Time};
use landfall_policy::verdict::{Decision, Direction, Margin, Ranking, ReasonCount, Verdict};
use serde::Serialize;

use super::question::{Asked, Scenario, Standing, Subject};
use crate::answer::{Answer, Page, to_json};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::findings::{Comparison, Group, Suggestion, compare, groups, suggestion};
use crate::render;
use crate::selection::{self, Origin};
use crate::service::ConnectArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
With JOB: why a job of the running server is where it is, or with --node, what stands between the two. Everything else is \
about a scenario. With --job alone: why the chosen node won, and where the job stands: its place in the queue, why it waits, when it \
starts once all that can start now has started. With --job and --node: why that node, or why not, and what would help. \
With --node alone: why the node would take the job it would take; add --job and --pull to ask about one job.

Examples:
  landfall explain 12
  landfall explain 12 --node gpu-2
  landfall explain 12 --at 2h            what stood in its way two hours ago
  landfall explain --scenario lab.toml --job train-7
  landfall explain --scenario lab.toml --job train-7 --node gpu-2
  landfall explain --scenario ci.toml --node builder-3 --job docs --pull")]
pub(crate) struct Args {
    /// A job of the running server.
    #[arg(value_name = "JOB", conflicts_with_all = ["scenario", "job", "pull", "policy", "policy_file", "params"])]
    pub(crate) live: Option<String>,
    /// The situation: a scenario file in TOML or JSON; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// The job of the scenario.
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// The node.
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<String>,
    /// With JOB: as it was then, such as 2h for two hours ago, 2026-11-17T12:30:00Z, or milliseconds since 1970.
    #[arg(long, value_name = "TIME", requires = "live")]
    pub(crate) at: Option<String>,
    /// With --job and --node: compare jobs for the node, not nodes for the job.
    #[arg(long, requires = "node")]
    pull: bool,
    #[command(flatten)]
    policy: selection::PolicyArgs,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// What became of the candidate that is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Chosen,
    /// It was admitted, but another was chosen or none.
    NotChosen,
    /// Filters refuse it.
    Refused,
    /// A limit kept it from being scored.
    LeftOut,
    /// There is none to explain: nothing can be chosen.
    Nothing,
}

pub(crate) struct Explained {
    /// The whole ranking.
    pub(crate) asked: Asked,
    /// The candidate that was asked about, if one was.
    pub(crate) focus: Option<Name>,
    /// What became of it, or of the question.
    pub(crate) outcome: Outcome,
    /// The winner and the runner-up, or the focus and the winner.
    pub(crate) comparison: Option<Comparison>,
    /// Refused candidates by reasons.
    pub(crate) groups: Vec<Group>,
    /// The smallest change that helps most, when nothing is admitted.
    pub(crate) suggestion: Option<Suggestion>,
    /// Where the job stands in the queue, if one was asked about.
    pub(crate) standing: Option<Standing>,
}

pub(crate) fn run(args: &Args) -> Result<Explained, CliError> {
    let Some(scenario) = &args.scenario else {
        let hint = "name a job, as in: landfall explain 12; --scenario FILE is about one of a file";
        return Err(usage("nothing to explain", hint));
    };
    let scenario = Scenario::read(scenario, &args.policy)?;
    let (subject, focus) = match (&args.job, &args.node) {
        (Some(job), Some(node)) if args.pull => (Subject::Node(node), Some(job)),
        (Some(job), node) => (Subject::Job(job), node.as_ref()),
        (None, Some(node)) => (Subject::Node(node), None),
        (None, None) => {
            return Err(usage("nothing to explain", "give --job, --node or both"));
        }
    };
    if let Some(focus) = focus {
        scenario.check_candidate(subject, focus)?;
    }
    let mut asked = scenario.rank(subject, &args.policy)?;
    let standing = match args.job.as_ref().map(|job| scenario.standing(job, &asked)) {
        Some(Ok(standing)) => Some(standing),
        Some(Err(why)) => {
            asked.warnings.push(format!("where the job stands cannot be told: {why}"));
            None
        }
        None => None,
    };
    Ok(Explained::new(asked, focus.and_then(|focus| Name::new(focus).ok()), standing))
}

impl Explained {
    fn new(asked: Asked, focus: Option<Name>, standing: Option<Standing>) -> Self {
        let ranking = &asked.ranking;
        let verdict = find(ranking, focus.as_ref().or(ranking.winner.as_ref()));
        let outcome = match verdict {
            None if focus.is_some() => Outcome::LeftOut,
            None => Outcome::Nothing,
            Some(verdict) if !verdict.is_admitted() => Outcome::Refused,
            Some(verdict) if Some(&verdict.candidate) == ranking.winner.as_ref() => Outcome::Chosen,
            Some(_) => Outcome::NotChosen,
        };
        let other = match outcome {
            Outcome::Chosen => find(ranking, ranking.margin.as_ref().map(|margin| &margin.runner_up)),
            Outcome::NotChosen => find(ranking, ranking.winner.as_ref()),
            Outcome::Refused | Outcome::LeftOut | Outcome::Nothing => None,
        };
        let comparison = verdict.zip(other).map(|(verdict, other)| compare(verdict, other));
        let groups = groups(ranking);
        let none_admitted = !ranking.candidates.iter().any(Verdict::is_admitted);
        let suggestion = if none_admitted { suggestion(ranking, &groups) } else { None };
        Self { focus, outcome, comparison, groups, suggestion, standing, asked }
    }

    /// Where a job of a batch pool stands, if the question is not about one node: sets of nodes are chosen there, so no
    /// ranking of single nodes says anything about it.
    pub(crate) fn planned(&self) -> Option<&Standing> {
        let batch = |standing: &&Standing| standing.explanation.dispatch == Dispatch::Batch;
        self.standing.as_ref().filter(|_| self.focus.is_none()).filter(batch)
    }

    pub(crate) fn verdict(&self) -> Option<&Verdict> {
        let ranking = &self.asked.ranking;
        find(ranking, self.focus.as_ref().or(ranking.winner.as_ref()))
    }
}

fn find<'r>(ranking: &'r Ranking, candidate: Option<&Name>) -> Option<&'r Verdict> {
    let candidate = candidate?;
    ranking.candidates.iter().find(|verdict| verdict.candidate == *candidate)
}

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    policy: &'a str,
    policy_from: Origin,
    direction: Direction,
    subject: &'a Name,
    now_ms: Time,
    decision: &'a Decision,
    winner: Option<&'a Name>,
    margin: Option<&'a Margin>,
    fallback: bool,
    focus: Option<&'a Name>,
    outcome: Outcome,
    verdict: Option<&'a Verdict>,
    comparison: Option<&'a Comparison>,
    reasons: &'a [ReasonCount],
    refused: &'a [Group],
    suggestion: Option<&'a Suggestion>,
    standing: Option<&'a Standing>,
    warnings: &'a [String],
}

impl Answer for Explained {
    fn exit(&self) -> Exit {
        if let Some(standing) = self.planned() {
            let placed = standing.explanation.placed.is_some();
            return if placed { Exit::Done } else { Exit::Nothing };
        }
        if self.asked.ranking.winner.is_some() { Exit::Done } else { Exit::Nothing }
    }

    fn warnings(&self) -> &[String] {
        &self.asked.warnings
    }

    fn text(&self, page: Page) -> String {
        render::explain::page(self, page)
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        let ranking = &self.asked.ranking;
        let json = Json {
            schema: "landfall.explain/1",
            policy: &ranking.policy,
            policy_from: self.asked.origin,
            direction: ranking.direction,
            subject: &ranking.subject,
            now_ms: ranking.now_ms,
            decision: &ranking.decision,
            winner: ranking.winner.as_ref(),
            margin: ranking.margin.as_ref(),
            fallback: ranking.fallback,
            focus: self.focus.as_ref(),
            outcome: self.outcome,
            verdict: self.verdict(),
            comparison: self.comparison.as_ref(),
            reasons: &ranking.reasons,
            refused: &self.groups,
            suggestion: self.suggestion.as_ref(),
            standing: self.standing.as_ref(),
            warnings: &self.asked.warnings,
        };
        to_json(out, &json)
    }
}
