//! `landfall nodes`, `node`, `drain`, `return` and what else is said to nodes.

use std::time::Duration;

use landfall_api::answer::Acted;
use landfall_api::node::{DrainRequest, NodeView};
use landfall_api::workload::NodeWorkloads;
use landfall_client::{Client, segment};
use landfall_model::Block;
use serde::Serialize;

use super::listing;
use crate::answer::{Answer, Page};
use crate::error::CliError;
use crate::render;
use crate::render::codes;
use crate::render::style::DIM;
use crate::render::text::clean;
use crate::reply::Reply;
use crate::service::{self, ConnectArgs, later, now_ms};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall nodes
  landfall nodes --pool gpu --state ready
  landfall node gpu-3                    one of them, and what it is good for")]
pub(crate) struct Args {
    /// Only this pool.
    #[arg(long, value_name = "ID")]
    pool: Option<String>,
    /// Only this state: booting, ready, degraded, unknown, draining, drained, down.
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    /// The nodes, by id.
    pub(crate) nodes: Vec<NodeView>,
    pub(crate) now_ms: u64,
}

pub(crate) fn list(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let params =
            [("pool", args.pool.as_deref()), ("state", args.state.as_deref()), ("limit", Some("1000"))];
        let nodes = listing::all(client, "/nodes", &params).await?;
        let data = Listed { nodes, now_ms: now_ms() };
        Ok(Reply::new("landfall.nodes/1", data, render::service::nodes::list).boxed())
    })
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall node gpu-3
  landfall node gpu-3 --json | jq .gpus")]
pub(crate) struct OneArgs {
    /// The node.
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
pub(crate) struct One {
    #[serde(flatten)]
    pub(crate) node: NodeView,
    /// The block it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<Block>,
    /// What it could run.
    pub(crate) good_for: Option<NodeWorkloads>,
    pub(crate) now_ms: u64,
}

pub(crate) fn one(args: &OneArgs) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let path = format!("/nodes/{}", segment(&args.node));
        let node: NodeView = client.get(&path).await?;
        let lease = match &node.block {
            Some(id) => {
                let blocks: Vec<Block> = client.get("/blocks").await.unwrap_or_default();
                blocks.into_iter().find(|block| block.id.as_str() == id)
            }
            None => None,
        };
        let workloads = client.get(&format!("{path}/workloads")).await.ok();
        let data = One { node, lease, good_for: workloads, now_ms: now_ms() };
        Ok(Reply::new("landfall.node/1", data, render::service::nodes::one).boxed())
    })
}

#[derive(Debug, clap::Args)]
pub(crate) struct OrderArgs {
    /// The nodes.
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
What runs there ends in peace; nothing new starts.

Examples:
  landfall drain gpu-3 --wait --reason 'new kernel' && ssh gpu-3 reboot
  landfall drain gpu-3 --at +8h --reason 'new kernel'      tonight: takes only what ends before
  landfall return gpu-3                  lets it take work again, and forgets what was planned")]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    order: OrderArgs,
    /// Wait until nothing runs there any more.
    #[arg(long, short, conflicts_with = "at")]
    wait: bool,
    /// Why, for those who wonder: shown with the node and with jobs that wait.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Not now but from then on: `+8h`, a date such as `2026-11-17T22:00Z` (UTC), or milliseconds since 1970. Until then it takes only what would have ended.
    #[arg(long, value_name = "WHEN")]
    at: Option<String>,
}

/// What is asked of nodes: the word of its route, and what is said once it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    path: &'static str,
    done: &'static str,
}

impl Order {
    const fn drain(later: bool) -> Self {
        let now = "finishes what it has and takes nothing new";
        let then = "takes only what ends before, and nothing from then on";
        Self { path: "drain", done: if later { then } else { now } }
    }

    pub(crate) const RETURN: Self = Self { path: "return", done: "takes work again" };
    pub(crate) const LEAVE: Self = Self { path: "leave", done: "is taken out" };
    pub(crate) const APPROVE: Self = Self { path: "approve", done: "may take work" };
    pub(crate) const SUSPEND: Self = Self { path: "suspend", done: "may not take work" };
}

#[derive(Serialize)]
struct Done {
    order: &'static str,
    nodes: Vec<OneDone>,
    #[serde(skip)]
    words: &'static str,
}

#[derive(Serialize)]
struct OneDone {
    node: String,
    ignored: Option<String>,
}

pub(crate) fn order(args: &OrderArgs, order: Order) -> Result<Box<dyn Answer>, CliError> {
    let client = args.connect.client()?;
    service::block_on(async { give(&client, &args.nodes, order).await })
}

pub(crate) fn drain(args: &DrainArgs) -> Result<Box<dyn Answer>, CliError> {
    let at_ms = args.at.as_deref().map(|at| later("--at", at, || args.order.connect.now())).transpose()?;
    args.order.connect.ask(async |client| {
        let request = DrainRequest { why: args.reason.clone(), at_ms };
        let answer = give_with(client, &args.order.nodes, Order::drain(at_ms.is_some()), &request).await?;
        if args.wait {
            for node in &args.order.nodes {
                until_empty(client, node).await?;
            }
        }
        Ok(answer)
    })
}

async fn give(client: &Client, nodes: &[String], order: Order) -> Result<Box<dyn Answer>, CliError> {
    give_with(client, nodes, order, &serde_json::json!({})).await
}

async fn give_with(
    client: &Client,
    nodes: &[String],
    order: Order,
    request: &impl Serialize,
) -> Result<Box<dyn Answer>, CliError> {
    let mut done = Vec::new();
    for node in nodes {
        let path = format!("/nodes/{}/{}", segment(node), order.path);
        let Acted { ignored } = client.post(&path, request).await?;
        done.push(OneDone { node: node.clone(), ignored });
    }
    let data = Done { order: order.path, nodes: done, words: order.done };
    Ok(Reply::new("landfall.node-orders/1", data, page).boxed())
}

async fn until_empty(client: &Client, node: &str) -> Result<(), CliError> {
    let mut last = usize::MAX;
    loop {
        let view: NodeView = client.get(&format!("/nodes/{}", segment(node))).await?;
        if view.jobs.is_empty() {
            return Ok(());
        }
        if view.jobs.len() != last {
            last = view.jobs.len();
            let shown: Vec<&str> = view.jobs.iter().take(5).map(String::as_str).collect();
            anstream::eprintln!(
                "{DIM}{} still runs {}: {}{DIM:#}",
                clean(node),
                last,
                clean(&shown.join(", "))
            );
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn page(done: &Done, _: Page) -> String {
    let line = |one: &OneDone| {
        let node = clean(&one.node);
        match &one.ignored {
            None => format!("node {node} {}\n", done.words),
            Some(why) => {
                format!("node {node}: {DIM}nothing changed: {}{DIM:#}\n", clean(codes::ignored(why)))
            }
        }
    };
    done.nodes.iter().map(line).collect()
}
