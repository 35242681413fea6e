//! `landfall agent`: lets a server run jobs on this machine.

use std::path::PathBuf;

use landfall_agent::{Accepting, AgentError, Template};
use tokio_util::sync::CancellationToken;

use super::server::{log_to_stderr, make_private, told_to_end};
use crate::answer::Answer;
use crate::config::{Config, Origin};
use crate::error::{CliError, broken, usage};
use crate::exit::Exit;
use crate::reply::Said;
use crate::service::{self, ConnectArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The agent speaks first, so this machine needs no open port. When it ends, jobs go on and the next agent takes them over; \
--stop-jobs stops them. Everything can also be said in the file with settings (docs/reference/config.md), further runtimes only \
there.

Examples:
  landfall token create gpu-3 --role agent --node gpu-3 --out gpu-3.token       where you are admin
  landfall agent --server https://landfall.lab:7878 --token-file gpu-3.token --node gpu-3 --pool gpu
  landfall agent --cpus 4 --memory 8GiB                                         offer only a part of the machine")]
pub(crate) struct Args {
    /// What the node is called [default: the name of the machine].
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// The pool it serves [default: the only one].
    #[arg(long, value_name = "ID")]
    pool: Option<String>,
    /// Where it stands.
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// Cores it offers [default: all].
    #[arg(long, alias = "cpu", value_name = "CORES")]
    cpus: Option<String>,
    /// Memory it offers, such as `8GiB` [default: all].
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Jobs at once in a pull pool [default: one for each core].
    #[arg(long, value_name = "N")]
    max_concurrent: Option<u32>,
    /// Where it keeps jobs and what they wrote [default: `agent` in $XDG_DATA_HOME/landfall].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Stop jobs when the agent ends.
    #[arg(long)]
    stop_jobs: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl Args {
    /// What was given, as settings.
    pub(crate) fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let mut flags = self.connect.flags();
        flags.extend([
            ("agent.node", self.node.clone()),
            ("agent.pool", self.pool.clone()),
            ("agent.region", self.region.clone()),
            ("agent.cpus", self.cpus.clone()),
            ("agent.memory", self.memory.clone()),
            ("agent.max_concurrent", self.max_concurrent.map(|number| number.to_string())),
            ("agent.data_dir", self.data_dir.as_ref().map(|dir| dir.display().to_string())),
            ("agent.stop_jobs", self.stop_jobs.then(|| "true".to_owned())),
        ]);
        flags
    }
}

/// Answers `agent`: runs until it is told to end, or the server does not want it.
pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let config = Config::load(&args.connect.config, &args.flags())?;
    let agent = agent_config(&config)?;
    log_to_stderr(tracing::Level::INFO);
    make_private(&agent.data_dir)?;
    service::block_on(async {
        let shutdown = CancellationToken::new();
        let mut running = tokio::spawn(landfall_agent::run(agent, shutdown.clone()));
        tokio::select! {
            ended = &mut running => return ended.map_err(super::server::broke)?.map_err(failed),
            () = told_to_end() => {}
        }
        shutdown.cancel();
        running.await.map_err(super::server::broke)?.map_err(failed)
    })?;
    Ok(Box::new(Said(Exit::Done)))
}

/// What an agent is told, from the settings in force.
pub(crate) fn agent_config(config: &Config) -> Result<landfall_agent::Config, CliError> {
    let of_agent = |own: &str, shared: &str| {
        // What is said on the command line is meant for this agent.
        let flag = config.origin(shared) == Origin::Flag;
        config.text(own).filter(|_| !flag).map(str::to_owned)
    };
    let server = of_agent("agent.server", "client.server").unwrap_or_else(|| service::server(config));
    let data_dir = match config.path("agent.data_dir") {
        Some(dir) => dir,
        None => config.data_dir()?.join("agent"),
    };
    let mut agent = landfall_agent::Config::new(server, data_dir);
    agent.token = match of_agent("agent.token_file", "client.token_file") {
        Some(path) => Some(service::read_token(&PathBuf::from(path))?),
        None => service::token(config)?,
    };
    let ca_file = of_agent("agent.ca_file", "client.ca_file").map(PathBuf::from);
    agent.ca_file = ca_file.or_else(|| config.path("client.ca_file"));
    if let Some(node) = config.text("agent.node") {
        agent.node_id = node.to_owned();
    }
    let text = |key: &str| config.text(key).map(str::to_owned);
    agent.pool = text("agent.pool");
    agent.region = text("agent.region");
    agent.block = text("agent.block");
    agent.group = text("agent.group");
    agent.tenants = config.list("agent.tenants");
    agent.features = config.list("agent.features");
    if config.text("agent.architectures").is_some() {
        agent.architectures = config.list("agent.architectures");
    }
    agent.eval = config.is_on("agent.eval");
    agent.fetch = config.is_on("agent.fetch");
    agent.platform = text("agent.platform");
    agent.accelerators = config.list("agent.accelerators");
    agent.sliced_gpus = sliced_gpus(config)?;
    agent.power_w = watts(config)?;
    agent.core_score = config.parsed("agent.core_score");
    agent.sysfs = config.path("agent.sysfs").unwrap_or(agent.sysfs);
    agent.procfs = config.path("agent.procfs").unwrap_or(agent.procfs);
    agent.pass_env = config.list("agent.pass_env");
    agent.cpus = config.cores("agent.cpus").map(|milli| milli as f64 / 1000.0);
    agent.ram_mib = config.mib("agent.memory");
    agent.max_concurrent = config.parsed("agent.max_concurrent").unwrap_or(agent.max_concurrent);
    agent.limits = config.text("agent.limits") != Some("false");
    if let Some(span) = config.parsed::<landfall_model::Millis>("agent.keep_files") {
        agent.keep_files = std::time::Duration::from_millis(span.get());
    }
    agent.stop_jobs = config.is_on("agent.stop_jobs");
    agent.accepting = Accepting {
        hours: config.list("agent.hours").iter().map(|text| hours(text)).collect::<Result<_, _>>()?,
        ram_free_mib_min: config.mib("agent.memory_free_min").unwrap_or(0),
        mains_only: config.is_on("agent.mains_only"),
    };
    for (name, command) in &config.declared.runtimes {
        agent.runtimes.insert(name.clone(), Template { command: command.clone() });
    }
    agent.check().map_err(failed)?;
    Ok(agent)
}

/// Idle and busy watts: both or neither.
fn watts(config: &Config) -> Result<Option<(u64, u64)>, CliError> {
    match (config.parsed("agent.power_idle"), config.parsed("agent.power_busy")) {
        (None, None) => Ok(None),
        (Some(idle), Some(busy)) => Ok(Some((idle, busy))),
        _ => Err(usage(
            "agent.power_idle and agent.power_busy belong together".to_owned(),
            "give both, or neither and let the machine be measured",
        )),
    }
}

/// Indices of GPUs that are given out in slices.
fn sliced_gpus(config: &Config) -> Result<Vec<u16>, CliError> {
    let index = |text: &String| {
        let message = format!("agent.sliced_gpus: `{text}` is no index of a GPU");
        text.trim().parse().map_err(|_| usage(message, "such as 0,1; `landfall node` shows them"))
    };
    config.list("agent.sliced_gpus").iter().map(index).collect()
}

/// Hours such as `22-6`.
fn hours(text: &str) -> Result<(u8, u8), CliError> {
    let parsed = text.split_once('-').and_then(|(from, to)| {
        let hour = |text: &str| text.trim().parse::<u8>().ok().filter(|hour| *hour <= 24);
        Some((hour(from)?, hour(to)?))
    });
    parsed.ok_or_else(|| {
        usage(
            format!("agent.hours: `{text}` is no range of hours"),
            "write it as 22-6; several are separated by commas",
        )
    })
}

/// Why an agent ends, in the words of the command line.
pub(crate) fn failed(error: AgentError) -> CliError {
    let hint = error.hint().unwrap_or_default();
    match error {
        AgentError::Config { field, message } => {
            let message = format!("agent: {field}: {message}");
            usage(message, "`landfall config show` says where it came from")
        }
        AgentError::Refused(error) | AgentError::Client(error) => CliError::Service(error),
        other => broken(other.to_string(), hint),
    }
}
