//! `landfall up`: a server and this machine's agent in one process, on loopback, with nothing to set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use landfall_api::job::{JobRequest, RunSpec, Submitted};
use landfall_api::node::{Limits, NodeView};
use landfall_api::peer::OwnPeer;
use landfall_client::{Client, Settings, segment};
use landfall_model::{Dispatch, MilliCpu, Needs};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::agent::{agent_config, failed};
use super::server::{broke, ended_early, log_to_stderr, server_config, start, told_to_end, url, write_ready};
use super::submit::{Manner, Target, wait};
use super::{board, explain, listing};
use crate::answer::{Answer, Page, to_json};
use crate::config::{Config, ConfigArgs};
use crate::error::{CliError, broken};
use crate::exit::Exit;
use crate::render;
use crate::render::style::{DIM, GOOD, STRONG};
use crate::render::text::clean;
use crate::reply::Said;
use crate::service::{self, Returning};

/// How long the agent may take to become a node that takes work.
const NODE_WAIT: Duration = Duration::from_secs(20);

/// How long each part may take to end.
const END_WAIT: Duration = Duration::from_secs(15);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Everything is kept in the data directory, the token with which you may do everything included; other commands of the same user \
find both by themselves. Ctrl-C ends server and agent; jobs that run go on, and the next `landfall up` takes them over, unless \
--stop-jobs is given.

Examples:
  landfall up
  landfall up --port 0 --data-dir /tmp/try --ready-file /tmp/try.url
  landfall up --dispatch batch --cpus 4
  landfall up --first-job                a job right away, to see how it looks
  landfall up --open                     with the board in your browser")]
pub(crate) struct Args {
    /// The port on 127.0.0.1; 0 takes any free one [default: 7878].
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Where everything is kept [default: $XDG_DATA_HOME/landfall].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// How the pool `default` dispatches [default: push, or as it was].
    #[arg(long, value_name = "HOW", value_parser = ["push", "pull", "batch"])]
    dispatch: Option<String>,
    /// Be a peer: jobs are offered to other peers, and theirs may run here once they are trusted.
    #[arg(long, conflicts_with = "dispatch")]
    peer: bool,
    /// A peer to be in touch with: the invitation that its `landfall up --peer` prints, or an address.
    #[arg(long, value_name = "ADDR", requires = "peer")]
    bootstrap: Vec<String>,
    /// Where to listen for peers [default: any free port of 127.0.0.1]; beyond this machine only if you say so.
    #[arg(long, value_name = "HOST:PORT", requires = "peer")]
    peer_listen: Option<String>,
    /// Cores that the agent offers [default: all].
    #[arg(long, alias = "cpu", value_name = "CORES")]
    cpus: Option<String>,
    /// What the node is called [default: the name of the machine].
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// Only the server.
    #[arg(long)]
    no_agent: bool,
    /// Let simulated nodes join, on which nothing runs (`landfall hollow`).
    #[arg(long)]
    allow_hollow: bool,
    /// Ctrl-C stops running jobs, too.
    #[arg(long)]
    stop_jobs: bool,
    /// Write the server's address into this file once everything is ready.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Run a first job and show what becomes of it.
    #[arg(long, conflicts_with = "no_agent")]
    first_job: bool,
    /// Open the board in the browser.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// What runs where.
#[derive(Debug, Serialize)]
struct Running {
    schema: &'static str,
    url: String,
    /// Where the board is, with a code that signs one browser in; null if it is turned off.
    board: Option<String>,
    data_dir: String,
    token_file: String,
    pools: Vec<String>,
    node: Option<String>,
    /// Which limits of jobs bind on that node.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
    /// Who it is among peers, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<OwnPeer>,
}

/// Answers `up`: runs until Ctrl-C.
pub(crate) fn run(args: &Args, json: bool) -> Result<Box<dyn Answer>, CliError> {
    let flags = [
        ("server.data_dir", args.data_dir.as_ref().map(|dir| dir.display().to_string())),
        ("agent.cpus", args.cpus.clone()),
        ("agent.node", args.node.clone()),
        ("server.allow_hollow", args.allow_hollow.then(|| "true".to_owned())),
        ("agent.stop_jobs", args.stop_jobs.then(|| "true".to_owned())),
        ("peer.listen", args.peer_listen.clone()),
        ("peer.bootstrap", Some(args.bootstrap.join(",")).filter(|all| !all.is_empty())),
    ];
    let config = Config::load(&args.config, &flags)?;
    let dispatch = args.dispatch.as_deref().map(|how| match how {
        "pull" => Dispatch::Pull,
        "batch" => Dispatch::Batch,
        _ => Dispatch::Push,
    });
    let dispatch = dispatch.or(args.peer.then_some(Dispatch::Negotiate));
    let mut server = server_config(&config, dispatch)?;
    let port = args.port.unwrap_or(server.listen.port());
    server.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    server.tls = None;
    log_to_stderr(tracing::Level::WARN);
    service::block_on_all_cpus(async { up(args, &config, server, json).await })?;
    Ok(Box::new(Said(Exit::Done)))
}

async fn up(
    args: &Args,
    config: &Config,
    server: landfall_server::Config,
    json: bool,
) -> Result<(), CliError> {
    let (data_dir, has_board) = (server.data_dir.clone(), server.board);
    let (stop_server, stop_agent) = (CancellationToken::new(), CancellationToken::new());
    let (mut server, ready) = start(server, &stop_server).await?;
    let (url, token_file) = (url(&ready), ready.admin_token_file.clone());
    let secret = service::read_token(&token_file)?;
    let client = Client::new(&Settings::new(url.clone()).token(secret.clone()))?;
    let mut agent = None;
    let mut node = None;
    let mut limits = None;
    if !args.no_agent {
        let mut settings = agent_config(config)?;
        settings.server.clone_from(&url);
        settings.token = Some(secret);
        settings.ca_file = None;
        settings.data_dir = config.path("agent.data_dir").unwrap_or_else(|| data_dir.join("agent"));
        let id = settings.node_id.clone();
        let mut running = tokio::spawn(landfall_agent::run(settings, stop_agent.clone()));
        let joined = tokio::select! {
            ended = &mut running => Err(match ended.map_err(broke)? {
                Err(error) => failed(error),
                Ok(()) => broken("the agent ended at once", ""),
            }),
            joined = until_node(&client, &id) => joined,
        };
        let view = match joined {
            Ok(view) => view,
            Err(error) => {
                stop_agent.cancel();
                stop_server.cancel();
                let _ = tokio::time::timeout(END_WAIT, server).await;
                return Err(error);
            }
        };
        limits = view.limits;
        (agent, node) = (Some(running), Some(id));
    }
    let pools: Vec<landfall_api::fleet::PoolView> = listing::all(&client, "/pools", &[]).await?;
    let board = match has_board {
        true => Some(board::address(&client, &url).await?),
        false => None,
    };
    let running = Running {
        schema: "landfall.up/1",
        url: url.clone(),
        board: board.clone(),
        data_dir: data_dir.display().to_string(),
        token_file: token_file.display().to_string(),
        pools: pools.iter().map(|pool| format!("{} ({})", pool.id, pool.dispatch)).collect(),
        node,
        limits,
        peer: client.get("/peer").await.ok(),
    };
    tell(&running, args.stop_jobs, json)?;
    if let Some(path) = &args.ready_file {
        write_ready(path, &url)?;
    }
    if let Some(board) = board.filter(|_| args.open) {
        board::open(&board);
    }
    // Who has seen enough while the first job waits means all of it.
    let mut enough = false;
    if args.first_job {
        tokio::select! {
            // Whoever waits for the job hears it as well.
            biased;
            () = told_to_end() => enough = true,
            done = first_job(&client) => done?,
        }
    }
    tokio::select! {
        () = std::future::ready(()), if enough => {}
        ended = &mut server => {
            stop_agent.cancel();
            return ended_early(ended);
        }
        ended = ended(&mut agent) => {
            stop_server.cancel();
            let _ = tokio::time::timeout(END_WAIT, server).await;
            return Err(match ended.map_err(broke)? {
                Err(error) => failed(error),
                Ok(()) => broken("the agent ended by itself", ""),
            });
        }
        () = told_to_end() => {}
    }
    if !json {
        anstream::eprintln!("{DIM}ending …{DIM:#}");
    }
    let end = async {
        stop_agent.cancel();
        if let Some(agent) = agent {
            let _ = tokio::time::timeout(END_WAIT, agent).await;
        }
        stop_server.cancel();
        match tokio::time::timeout(END_WAIT, server).await {
            Ok(ended) => ended.map_err(broke)?.map_err(super::server::failed),
            Err(_) => Ok(()),
        }
    };
    // Whoever presses Ctrl-C twice means it.
    tokio::select! {
        ended = end => ended,
        () = told_to_end() => Ok(()),
    }
}

async fn ended(
    agent: &mut Option<tokio::task::JoinHandle<Result<(), landfall_agent::AgentError>>>,
) -> Result<Result<(), landfall_agent::AgentError>, tokio::task::JoinError> {
    match agent {
        Some(agent) => agent.await,
        None => std::future::pending().await,
    }
}

async fn until_node(client: &Client, id: &str) -> Result<NodeView, CliError> {
    let looks = async {
        loop {
            let node: Result<NodeView, _> = client.get(&format!("/nodes/{}", segment(id))).await;
            let is_up = |node: &NodeView| {
                node.connected && matches!(node.state.as_str(), "ready" | "degraded" | "drained" | "draining")
            };
            if let Some(node) = node.ok().filter(is_up) {
                return node;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(NODE_WAIT, looks).await.map_err(|_| {
        broken(
            format!("node {id} did not become ready within {} s", NODE_WAIT.as_secs()),
            "LANDFALL_LOG=info landfall up says more",
        )
    })
}

fn tell(running: &Running, stop_jobs: bool, json: bool) -> Result<(), CliError> {
    if json {
        let mut text = Vec::new();
        to_json(&mut text, running).map_err(|error| CliError::Output(error.into()))?;
        anstream::println!("{}", String::from_utf8_lossy(&text));
        return Ok(());
    }
    let mut text = format!("{GOOD}up{GOOD:#}: {STRONG}{}{STRONG:#}\n", clean(&running.url));
    let mut line = |label: &str, content: &str| text += &format!("  {label:<10} {}\n", clean(content));
    line("board", running.board.as_deref().unwrap_or("off: server.board = false"));
    line("pools", &running.pools.join(", "));
    line("node", running.node.as_deref().unwrap_or("none: landfall agent adds one"));
    if let Some(limits) = running.limits.as_ref().filter(|limits| !limits.memory || !limits.cpu) {
        line("ATTENTION", &limits.how);
    }
    line("data", &running.data_dir);
    line("token", &running.token_file);
    if let Some(peer) = &running.peer {
        line("peer", &peer.id);
        if let Some(invitation) = &peer.invitation {
            // Only a peer of this machine reaches this address, and it needs a place of its own.
            let near = invitation.starts_with("/ip4/127.") || invitation.starts_with("/ip6/::1/");
            let apart = format!("--port 0 --data-dir '{}-2' ", clean(&running.data_dir));
            let (place, more) = if near { ("terminal", apart.as_str()) } else { ("machine", "") };
            text += &format!("\n{DIM}another peer, in another {place}:{DIM:#}\n");
            text += &format!("  landfall up --peer {more}--bootstrap '{}'\n", clean(invitation));
            text += &format!("{DIM}then this one runs there:{DIM:#}\n");
            text += &format!("  landfall submit --wait --avoid {} -- echo hello\n", clean(&peer.id));
        }
    }
    text += &format!("\n{DIM}try, in another terminal:{DIM:#}\n");
    text += "  landfall submit --wait -- echo hello\n  landfall top\n\n";
    let jobs = if stop_jobs { "server, agent and jobs" } else { "server and agent; jobs that run go on" };
    text += &format!("{DIM}Ctrl-C ends {jobs}{DIM:#}\n");
    anstream::print!("{text}");
    Ok(())
}

/// Runs a job and shows what becomes of it.
async fn first_job(client: &Client) -> Result<(), CliError> {
    let needs = Needs { cpu_milli: Some(MilliCpu::new(100)), exclusive: Some(false), ..Needs::default() };
    let command = ["echo", "hello from landfall"].map(str::to_owned).to_vec();
    let run = RunSpec { command, ..RunSpec::default() };
    let job = JobRequest { name: Some("hello".into()), needs, run, ..JobRequest::default() };
    anstream::println!(
        "\n{STRONG}$ landfall submit --wait --name hello --cpu 100m -- echo 'hello from landfall'{STRONG:#}"
    );
    let submitted: Submitted = client.post("/jobs", &job).await?;
    let manner = Manner { output: true, progress: false, cancel_on_interrupt: false };
    wait(Returning::fixed(client.clone()), vec![Target::Job(submitted.id.clone())], manner).await?;
    anstream::println!("\n{STRONG}$ landfall explain {}{STRONG:#}", clean(&submitted.id));
    let found = explain::ask(client, &submitted.id).await?;
    anstream::print!("{}", render::service::explain::job(&found, Page::of_stdout()));
    Ok(())
}
