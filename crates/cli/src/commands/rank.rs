//! `landfall rank`: candidates best first, and why the others are out.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use landfall_policy::verdict::Ranking;
use serde::Serialize;

use super::question::{Asked, Scenario, Subject};
use crate::answer::{Answer, Page, to_json};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::findings::{Group, groups};
use crate::render;
use crate::selection::{self, Origin};
use crate::service::ConnectArgs;

/// Rows of a table unless somebody asks for more.
const ROWS: usize = 20;

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("subject").required(true).args(["job", "node"])))]
#[command(after_help = "\
The policy is the first of: --policy-file, --policy, the scenario's [policy] name, the policy of the job's or \
node's pool, and else `fit` for a job or `resource-aware` for a node. Changes in the scenario's [policy] apply to \
whichever it is.

Examples:
  landfall rank --job 17                                         on the running server, as it is now
  landfall rank --job 17 --policy-file mine.toml                 with another policy
  landfall rank --scenario lab.toml --job train-7
  landfall rank --scenario lab.toml --job train-7 --policy bin-pack --limit all
  landfall rank --scenario ci.toml --node builder-3 --json | jq .winner")]
pub(crate) struct Args {
    /// The situation: a scenario file in TOML or JSON; `-` reads standard input. Without it, that of the running server.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Rank nodes for this job.
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Rank jobs for this node.
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    #[command(flatten)]
    policy: selection::PolicyArgs,
    /// Rows to show: a number or `all` [default: 20 in tables, all in JSON].
    #[arg(long, value_name = "N", value_parser = limit)]
    limit: Option<Limit>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// How many candidates to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    All,
    Rows(NonZeroUsize),
}

impl Limit {
    fn rows(self) -> usize {
        match self {
            Self::All => usize::MAX,
            Self::Rows(rows) => rows.get(),
        }
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    if text == "all" {
        return Ok(Limit::All);
    }
    text.parse().map(Limit::Rows).map_err(|_| "give a whole number from 1 up, or `all`".to_owned())
}

pub(crate) struct Ranked {
    asked: Asked,
    groups: Vec<Group>,
    limit: Option<Limit>,
}

pub(crate) fn run(args: &Args) -> Result<Ranked, CliError> {
    let scenario = match &args.scenario {
        Some(path) => Scenario::read(path, &args.policy)?,
        None => Scenario::of_server(&args.connect)?,
    };
    let subject = match (&args.job, &args.node) {
        (Some(job), _) => Subject::Job(job),
        (None, Some(node)) => Subject::Node(node),
        (None, None) => {
            return Err(usage("nobody to rank for", "give --job or --node"));
        }
    };
    let asked = scenario.rank(subject, &args.policy)?;
    let groups = groups(&asked.ranking);
    Ok(Ranked { asked, groups, limit: args.limit })
}

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    policy_from: Origin,
    #[serde(flatten)]
    ranking: &'a Ranking,
    candidates_left_off: usize,
    refused: &'a [Group],
    warnings: &'a [String],
}

impl Answer for Ranked {
    fn exit(&self) -> Exit {
        if self.asked.ranking.winner.is_some() { Exit::Done } else { Exit::Nothing }
    }

    fn warnings(&self) -> &[String] {
        &self.asked.warnings
    }

    fn text(&self, page: Page) -> String {
        let rows = self.limit.map_or(ROWS, Limit::rows);
        render::rank::page(&self.asked, &self.groups, rows, page)
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        let full = &self.asked.ranking;
        let shown = full.candidates.len().min(self.limit.map_or(usize::MAX, Limit::rows));
        let short;
        let ranking = if shown < full.candidates.len() {
            short = Ranking { candidates: full.candidates[..shown].to_vec(), ..without_candidates(full) };
            &short
        } else {
            full
        };
        let json = Json {
            schema: "landfall.rank/1",
            policy_from: self.asked.origin,
            ranking,
            candidates_left_off: full.candidates.len() - shown,
            refused: &self.groups,
            warnings: &self.asked.warnings,
        };
        to_json(out, &json)
    }
}

/// A copy of everything but the candidates, of which there may be a million.
fn without_candidates(ranking: &Ranking) -> Ranking {
    Ranking {
        policy: ranking.policy.clone(),
        direction: ranking.direction,
        subject: ranking.subject.clone(),
        now_ms: ranking.now_ms,
        decision: ranking.decision.clone(),
        winner: ranking.winner.clone(),
        margin: ranking.margin.clone(),
        fallback: ranking.fallback,
        candidates: Vec::new(),
        reasons: ranking.reasons.clone(),
        candidates_skipped: ranking.candidates_skipped,
        lazy: ranking.lazy,
    }
}
