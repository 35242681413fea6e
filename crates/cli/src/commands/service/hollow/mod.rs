//! `landfall hollow`: simulated nodes in one process, to try how a server does with a fleet before there is one.
//!
//! A hollow node is a node to the server in every respect: it registers, listens for commands, sends heartbeats and reports, comes
//! back after a break and names what it runs. Only there is no process: a job takes the time that it was told to and ends.
//!
//! ```text
//!  server ──commands──► session ──► node  (jobs, their ends, reports)
//!         ◄──heartbeats, reports──┘        one task a node, a connection for each thousand of them
//! ```
//!
//! What is drawn (how long a job takes, whether it fails, when a node vanishes) is drawn from one seed, for each node apart.

mod node;
mod session;

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::StreamExt as _;
use landfall_api::answer::Acted;
use landfall_api::node::{GpuFacts, Heartbeat, NODE_TAKEN, PerformanceEstimates, Registration};
use landfall_client::{Client, ClientError, Settings, segment};
use landfall_model::{Mib, Millis, gpu_table};
use landfall_replay::trace::random::Random;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::server::told_to_end;
use crate::answer::{Answer, Page, warn};
use crate::error::{CliError, usage};
use crate::reply::Reply;
use crate::service::{self, ConnectArgs};
use node::{Fate, Node};
use session::Session;

/// Nodes that share a connection.
const NODES_PER_CONNECTION: usize = 1000;
/// Registrations under way at once.
const TURNS: usize = 64;
/// How often progress is told.
const TOLD_EVERY: Duration = Duration::from_secs(5);
const NODES_MAX: usize = 200_000;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A hollow node is a node in every respect, but nothing runs on it: a job that is placed there takes the time it was told to and \
ends. So a server takes hollow nodes only if it is started with --allow-hollow; nobody fills a real cluster with ghosts by mistake. \
Ctrl-C takes them out again, if the token is an operator's.

Examples:
  export LANDFALL_DATA_DIR=/tmp/try              in two terminals, so that nothing real is touched
  landfall up --no-agent --allow-hollow          in the first
  landfall hollow --nodes 500 --cpus 64          in the second
  landfall hollow --nodes 200 --gpus 8:A100:80GiB --task-time 5min..2h
  landfall hollow --nodes 300 --fail 1% --vanish 0.1%/h --seed 7")]
pub(crate) struct Args {
    /// How many nodes.
    #[arg(long, value_name = "N", default_value_t = 100)]
    nodes: usize,
    /// Cores of each.
    #[arg(long, alias = "cpu", value_name = "CORES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    cpus: u32,
    /// Memory of each [default: 4GiB for each core].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<Mib>,
    /// GPUs of each, and what they are.
    #[arg(long, value_name = "COUNT:MODEL[:MEMORY]", value_parser = gpus)]
    gpus: Option<Gpus>,
    /// How long a job takes: a time, or from one to another.
    #[arg(long, value_name = "TIME[..TIME]", default_value = "1s", value_parser = takes)]
    task_time: (Duration, Duration),
    /// How many jobs fail, such as `1%`.
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share)]
    fail: f64,
    /// How many nodes vanish with all they run, such as `0.1%/h`.
    #[arg(long, value_name = "SHARE/h", default_value = "0%/h", value_parser = per_hour)]
    vanish: f64,
    /// How long a node stays away that vanished.
    #[arg(long, value_name = "TIME", default_value = "5min")]
    away: Millis,
    /// The pool they serve [default: the only one].
    #[arg(long, value_name = "ID")]
    pool: Option<String>,
    /// What they are called, with a number behind it.
    #[arg(long, value_name = "NAME", default_value = "hollow")]
    prefix: String,
    /// Seed of everything that is drawn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// End by itself after this time.
    #[arg(long = "for", value_name = "TIME")]
    lasts: Option<Millis>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Clone, PartialEq)]
struct Gpus {
    count: u16,
    model: String,
    memory: Option<Mib>,
}

fn gpus(text: &str) -> Result<Gpus, String> {
    let mut parts = text.splitn(3, ':');
    let count = parts.next().and_then(|count| count.parse().ok()).filter(|count| (1..=64).contains(count));
    let model = parts.next().filter(|model| !model.trim().is_empty());
    let (Some(count), Some(model)) = (count, model) else {
        return Err("write it as 8:A100 or 8:A100:80GiB, with 1 to 64 of them".to_owned());
    };
    let memory = parts.next().map(size);
    Ok(Gpus { count, model: model.to_owned(), memory: memory.transpose()? })
}

fn size(text: &str) -> Result<Mib, String> {
    let size = text.parse::<Mib>().map_err(|error| error.to_string())?;
    if size == Mib::ZERO { Err("give more than nothing, such as 80GiB".to_owned()) } else { Ok(size) }
}

fn span(text: &str) -> Result<Duration, String> {
    let span = text.parse::<Millis>().map_err(|error| error.to_string())?;
    Ok(Duration::from_millis(span.get()))
}

fn takes(text: &str) -> Result<(Duration, Duration), String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (span(least)?, span(most)?);
    if least > most {
        return Err("the first time must not be longer than the second".to_owned());
    }
    Ok((least, most))
}

fn percent(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%')?.trim().parse::<f64>().ok()?;
    Some(number / 100.0).filter(|share| share.is_finite() && *share >= 0.0)
}

fn share(text: &str) -> Result<f64, String> {
    let share = percent(text).filter(|share| *share <= 1.0);
    share.ok_or_else(|| "write it as 1% or 0.5%, up to 100%".to_owned())
}

fn per_hour(text: &str) -> Result<f64, String> {
    text.strip_suffix("/h").and_then(percent).ok_or_else(|| "write it as 0.1%/h".to_owned())
}

/// What happened so far.
#[derive(Debug, Default)]
struct Counts {
    joined: AtomicU64,
    /// How often a node joined, coming back included.
    joins: AtomicU64,
    began: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
    stopped: AtomicU64,
    vanished: AtomicU64,
}

/// What all hollow nodes share.
struct Fleet {
    /// What each says of itself.
    machine: Registration,
    vanish_per_hour: f64,
    away: Duration,
    turns: Semaphore,
    counts: Counts,
    /// Why nothing comes of it.
    refused: Mutex<Option<ClientError>>,
    /// The first thing that kept a node from joining, and passes perhaps.
    complaint: Mutex<Option<ClientError>>,
    over: CancellationToken,
}

impl Fleet {
    /// A node could not join. What the server will not forgive ends everything; the rest passes.
    fn complain(&self, node: &str, error: ClientError) {
        let taken = error.api().is_some_and(|api| api.code == NODE_TAKEN);
        if taken
            || matches!(
                error,
                ClientError::Forbidden { .. } | ClientError::Refused { status: 400 | 404 | 422, .. }
            )
        {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            return self.over.cancel();
        }
        let mut complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        if complaint.is_none() {
            say(&format!("{node} cannot join: {error}; it is tried again, and so with others"));
            *complaint = Some(error);
        }
    }
}

/// What came of it, for the end and for programs.
#[derive(Debug, Serialize)]
struct Summary {
    nodes: usize,
    joined_in_ms: Option<u64>,
    seconds: f64,
    began: u64,
    ended: u64,
    failed: u64,
    stopped: u64,
    vanished: u64,
    /// Whether the nodes were taken out again.
    taken_out: bool,
}

/// Answers `hollow`: runs until it is told to end.
pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    if !(1..=NODES_MAX).contains(&args.nodes) {
        return Err(usage(format!("--nodes: {} is not from 1 to {NODES_MAX}", args.nodes), ""));
    }
    let unknown = args.gpus.as_ref().filter(|gpus| gpu_table::lookup(&gpus.model).is_none());
    if let Some(Gpus { model, .. }) = unknown {
        let near: Vec<&str> = gpu_table::near(model, 3).iter().map(|row| row.key.as_ref()).collect();
        let near = near.join(", ");
        let near = if near.is_empty() { near } else { format!(" (near it: {near})") };
        warn(&format!(
            "--gpus: no GPU `{model}` is known, so nothing is known of its speed{near}; `landfall gpus` lists those that are"
        ));
    }
    let clients = clients(args)?;
    let summary = service::block_on_all_cpus(haunt(args, clients))?;
    let left = !summary.taken_out;
    let reply = Reply::new("landfall.hollow/1", summary, page);
    let warning =
        "the nodes are still known to the server, as lost; an operator takes them out with `landfall remove`";
    Ok(if left { reply.warn(warning) } else { reply }.boxed())
}

fn page(summary: &Summary, _: Page) -> String {
    let Summary { nodes, seconds, began, ended, failed, stopped, vanished, .. } = summary;
    let rate = *ended as f64 / seconds.max(0.001);
    format!(
        "{nodes} nodes for {seconds:.0} s: {began} jobs began, {ended} ended ({rate:.0} a second), {failed} of them failed; {stopped} stopped, {vanished} nodes vanished\n"
    )
}

/// A client for each thousand nodes.
fn clients(args: &Args) -> Result<Vec<Client>, CliError> {
    let config = args.connect.load()?;
    let mut settings = Settings::new(service::server(&config));
    settings.token = service::token(&config)?;
    settings.ca_file = config.path("client.ca_file");
    settings.multiplexed = true;
    let count = args.nodes.div_ceil(NODES_PER_CONNECTION);
    (0..count).map(|_| Client::new(&settings).map_err(CliError::from)).collect()
}

/// What each node says of itself.
fn machine(args: &Args) -> Registration {
    let memory = args.memory.unwrap_or(Mib::new(u64::from(args.cpus) * 4096));
    let gpus = args.gpus.iter().flat_map(|gpus| {
        (0..gpus.count).map(|index| GpuFacts {
            index,
            model: Some(gpus.model.clone()),
            vram_mib: gpus.memory.map(Mib::get),
            bandwidth_gb_s: gpu_table::lookup(&gpus.model).map(|found| found.gb_s_with(gpus.memory)),
            ..GpuFacts::default()
        })
    });
    Registration {
        pool: args.pool.clone(),
        max_concurrent: Some(args.cpus),
        hollow: true,
        architectures: vec!["x86_64".to_owned()],
        heartbeat: Heartbeat {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            platform: "desktop".to_owned(),
            cpu_milli: u64::from(args.cpus) * 1000,
            ram_mib: memory.get(),
            gpus: gpus.collect(),
            performance_estimates: PerformanceEstimates {
                supported_runtimes: ["process", "container", "wasm"].map(str::to_owned).to_vec(),
                max_concurrent_containers: u64::from(args.cpus),
                wasm_memory_limit_mb: memory.get(),
                ..PerformanceEstimates::default()
            },
            ..Heartbeat::default()
        },
        ..Registration::default()
    }
}

async fn haunt(args: &Args, clients: Vec<Client>) -> Result<Summary, CliError> {
    let fleet = Arc::new(Fleet {
        machine: machine(args),
        vanish_per_hour: args.vanish,
        away: Duration::from_millis(args.away.get()),
        turns: Semaphore::new(TURNS),
        counts: Counts::default(),
        refused: Mutex::new(None),
        complaint: Mutex::new(None),
        over: CancellationToken::new(),
    });
    let began = Instant::now();
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let seeds = Random::new(args.seed);
    let names: Vec<String> = (1..=args.nodes).map(|number| format!("{}-{number}", args.prefix)).collect();
    let mut sessions = tokio::task::JoinSet::new();
    for (index, name) in names.iter().enumerate() {
        let random = seeds.fork(index as u64);
        let session = Session {
            fleet: fleet.clone(),
            client: clients[index / NODES_PER_CONNECTION].clone(),
            name: name.clone(),
            node: Node::new(Fate { takes: args.task_time, fails: args.fail }, random.fork(1)),
            random,
            epoch,
            seq: 0,
            journal: String::new(),
            joined: false,
        };
        sessions.spawn(session.live());
    }
    let lasts = args.lasts.map(|span| Duration::from_millis(span.get()));
    let joined_in_ms = watch(&fleet, args.nodes, began, lasts).await;
    fleet.over.cancel();
    while sessions.join_next().await.is_some() {}
    if let Some(error) = fleet.refused.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(CliError::Service(error));
    }
    let complaint = fleet.complaint.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(error) = complaint.filter(|_| fleet.counts.joins.load(Ordering::Relaxed) == 0) {
        return Err(CliError::Service(error));
    }
    let seconds = began.elapsed().as_secs_f64();
    let taken_out = take_out(&clients, &names).await;
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let counts = &fleet.counts;
    Ok(Summary {
        nodes: args.nodes,
        joined_in_ms,
        seconds,
        began: read(&counts.began),
        ended: read(&counts.ended),
        failed: read(&counts.failed),
        stopped: read(&counts.stopped),
        vanished: read(&counts.vanished),
        taken_out,
    })
}

/// Tells how it goes until it is over; gives back how long all nodes took to join.
async fn watch(fleet: &Fleet, nodes: usize, began: Instant, lasts: Option<Duration>) -> Option<u64> {
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    let mut joined_in = None;
    let (mut told, mut ended_then) = (Instant::now(), 0);
    let end = async {
        match lasts {
            Some(span) => tokio::time::sleep(span.saturating_sub(began.elapsed())).await,
            None => std::future::pending().await,
        }
    };
    let mut end = std::pin::pin!(async {
        tokio::select! {
            () = told_to_end() => {}
            () = end => {}
            () = fleet.over.cancelled() => {}
        }
    });
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            () = &mut end => return joined_in,
        }
        let joined = fleet.counts.joined.load(Ordering::Relaxed);
        if joined_in.is_none() && joined == nodes as u64 {
            joined_in = Some(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            say(&format!("{nodes} nodes joined in {:.1} s", began.elapsed().as_secs_f64()));
        }
        if told.elapsed() >= TOLD_EVERY {
            let ended = fleet.counts.ended.load(Ordering::Relaxed);
            let runs = fleet.counts.began.load(Ordering::Relaxed) - ended;
            let rate = (ended - ended_then) as f64 / told.elapsed().as_secs_f64();
            say(&format!(
                "{joined} of {nodes} nodes joined; {runs} jobs run, {ended} ended, {rate:.0} a second"
            ));
            (told, ended_then) = (Instant::now(), ended);
        }
    }
}

/// A line of progress; whoever does not read it misses nothing.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Takes the nodes out again, if that is allowed.
async fn take_out(clients: &[Client], names: &[String]) -> bool {
    let leave = |(index, name): (usize, &String)| {
        let client = clients[index / NODES_PER_CONNECTION].clone();
        let path = format!("/nodes/{}/leave", segment(name));
        async move {
            // The server may not have noticed yet that the line is closed.
            for _ in 0..20 {
                match client.order::<Acted>(&path).await {
                    Err(ClientError::Refused { status: 409, .. }) => {}
                    answer => return answer.is_ok(),
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            false
        }
    };
    let mut orders = futures::stream::iter(names.iter().enumerate().map(leave)).buffer_unordered(TURNS);
    while let Some(done) = orders.next().await {
        if !done {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_or_refused_with_how_to_write_it() {
        assert_eq!(gpus("8:A100"), Ok(Gpus { count: 8, model: "A100".into(), memory: None }));
        let with_memory = Gpus { count: 2, model: "RTX 4090".into(), memory: Some(Mib::new(24 << 10)) };
        assert_eq!(gpus("2:RTX 4090:24GiB"), Ok(with_memory));
        for wrong in ["", "8", "0:A100", "65:A100", "8:", "8:A100:much", "8:A100:0"] {
            assert!(gpus(wrong).is_err(), "{wrong}");
        }
        assert_eq!(takes("10ms"), Ok((Duration::from_millis(10), Duration::from_millis(10))));
        assert_eq!(takes("0s..2s"), Ok((Duration::ZERO, Duration::from_secs(2))));
        assert!(takes("2s..1s").is_err() && takes("soon").is_err());
        assert_eq!((share("1%"), share("0.5%"), per_hour("0.1%/h")), (Ok(0.01), Ok(0.005), Ok(0.001)));
        for wrong in ["1", "-1%", "101%", "nan%", "%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert_eq!(per_hour("36000%/h"), Ok(360.0), "every ten seconds");
        assert!(per_hour("1%").is_err() && per_hour("1%/d").is_err());
    }
}
