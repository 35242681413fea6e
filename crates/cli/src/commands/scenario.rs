//! `landfall scenario`: whether a scenario file is valid and what is in it; what is now, as one.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use landfall_api::answer::ScenarioView;
use landfall_client::{Client, ClientError, with_query};
use landfall_model::{Situation, Time};
use landfall_policy::builtin;
use serde::Serialize;

use crate::answer::{Answer, Page};
use crate::error::CliError;
use crate::input::Input;
use crate::render;
use crate::render::text::clean;
use crate::reply::Reply;
use crate::service::ConnectArgs;

/// Commands about scenario files.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Check a scenario file and count what is in it.
    #[command(after_help = "Example:\n  landfall scenario check lab.toml")]
    Check(CheckArgs),
    /// Write what is now on a running server as a scenario file.
    #[command(after_help = "\
Nodes, what runs on them, what waits, pools with their policies, tenants, and what policies read. `rank`, `explain` and `plan` give the \
same answers from the file as from the server at that instant, and nothing that is tried there touches the cluster.

Examples:
  landfall scenario export > lab.toml
  landfall scenario export --pool gpu --out gpu.toml
  landfall plan --scenario lab.toml --policy-file mine.toml --pool gpu")]
    Export(ExportArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Only this pool, with its nodes and jobs.
    #[arg(long, value_name = "ID")]
    pool: Option<String>,
    /// Write it into this file, which must not be there.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct Exported {
    #[serde(flatten)]
    scenario: ScenarioView,
    file: Option<String>,
}

/// Asks a running server for what is now.
pub(crate) async fn live(client: &Client, pool: Option<&str>) -> Result<ScenarioView, ClientError> {
    client.get(&with_query("/scenario", &[("pool", pool)])).await
}

pub(crate) fn export(args: &ExportArgs) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let scenario = live(client, args.pool.as_deref()).await?;
        if let Some(path) = &args.out {
            let failed = |source| CliError::Write { file: path.display().to_string(), source };
            let mut file = File::create_new(path).map_err(failed)?;
            file.write_all(scenario.text.as_bytes()).map_err(failed)?;
        }
        let left_out: Vec<String> =
            scenario.left_out.iter().map(|what| format!("not in the file: {what}")).collect();
        let data = Exported { scenario, file: args.out.as_ref().map(|path| path.display().to_string()) };
        let page = |data: &Exported, _: Page| match &data.file {
            Some(file) => format!("{}\n", clean(file)),
            None => data.scenario.text.clone(),
        };
        Ok(Reply::new("landfall.scenario-export/1", data, page).warn_all(left_out).boxed())
    })
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The file, in TOML or JSON; `-` reads standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Serialize)]
pub(crate) struct Checked {
    pub(crate) file: String,
    pub(crate) now_ms: Time,
    pub(crate) policy: Option<String>,
    /// How many there are of each thing.
    pub(crate) counts: Counts,
    pub(crate) warnings: Vec<String>,
}

/// How many there are of each thing.
#[derive(Serialize)]
pub(crate) struct Counts {
    pub(crate) nodes: usize,
    pub(crate) gpus: usize,
    pub(crate) placements: usize,
    pub(crate) jobs: usize,
    pub(crate) workloads: usize,
    pub(crate) pools: usize,
    pub(crate) tenants: usize,
    pub(crate) blocks: usize,
    pub(crate) providers: usize,
    pub(crate) regions: usize,
    pub(crate) history: usize,
    pub(crate) reports: usize,
    pub(crate) mix: usize,
}

pub(crate) fn check(args: &CheckArgs) -> Result<Box<dyn Answer>, CliError> {
    let input = Input::read(&args.file)?;
    let situation = input.situation()?;
    let warnings = warnings(&situation);
    let checked = Checked {
        file: input.file,
        now_ms: situation.now,
        policy: situation.world.policy.name.as_ref().map(ToString::to_string),
        counts: counts(&situation),
        warnings: warnings.clone(),
    };
    let reply = Reply::new("landfall.scenario/1", checked, |checked, _| render::scenario::page(checked));
    Ok(Box::new(reply.warn_all(warnings)))
}

fn counts(situation: &Situation) -> Counts {
    let world = &situation.world;
    Counts {
        nodes: situation.nodes().len(),
        gpus: situation.nodes().iter().map(|node| node.gpus.len()).sum(),
        placements: situation.nodes().iter().map(|node| node.placements.len()).sum(),
        jobs: situation.jobs().len(),
        workloads: world.workloads.len(),
        pools: world.pools.len(),
        tenants: world.tenants.len(),
        blocks: world.blocks.len(),
        providers: world.providers.len(),
        regions: world.regions.len(),
        history: world.history.values().map(std::collections::VecDeque::len).sum(),
        reports: world.reports.values().map(|nodes| nodes.len()).sum(),
        mix: world.mix.len(),
    }
}

/// A policy that is not built in may still come from a file, so its name is no error.
fn warnings(situation: &Situation) -> Vec<String> {
    let world = &situation.world;
    let of_scenario = world.policy.name.iter().map(|name| (name, "[policy] names".to_owned()));
    let of_pools = world
        .pools
        .values()
        .filter_map(|pool| pool.policy.as_ref().map(|name| (name, format!("pool `{}` names", pool.id))));
    let unknown = of_scenario.chain(of_pools).filter(|(name, _)| builtin::text(name.as_str()).is_none());
    let mut warnings: Vec<String> =
        unknown.map(|(name, who)| format!("{who} policy `{name}`, which is not built in")).collect();
    if situation.nodes().is_empty() {
        warnings.push("there are no nodes".into());
    }
    if situation.jobs().is_empty() {
        warnings.push("there are no jobs".into());
    }
    warnings
}
