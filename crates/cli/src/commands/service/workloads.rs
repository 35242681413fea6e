//! `landfall workloads`: named templates of jobs.

use landfall_api::workload::{Availability, WorkloadView};
use landfall_client::segment;
use serde::Serialize;
use serde_json::Value;

use super::listing::{self, delete};
use super::submit::args::JobArgs;
use super::submit::request::{Asked, asked};
use crate::answer::Answer;
use crate::error::{CliError, usage};
use crate::render;
use crate::reply::Reply;
use crate::service::ConnectArgs;

/// Commands about workloads.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// List workloads.
    #[command(after_help = "Example:\n  landfall workloads list")]
    List(ConnectArgs),
    /// Show a workload, and which nodes could run it now.
    #[command(after_help = "Example:\n  landfall workloads show train")]
    Show(OneArgs),
    /// Make a workload, or replace one: what would be submitted becomes the template.
    #[command(after_help = "\
Examples:
  landfall workloads set train --gpu 1:24GiB --memory 32GiB -- python train.py
  landfall workloads set train --file train.toml
  landfall submit --workload train")]
    Set(Box<SetArgs>),
    /// Remove a workload; jobs made from it stay.
    #[command(after_help = "Example:\n  landfall workloads delete train")]
    Delete(OneArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneArgs {
    /// The workload.
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// The workload.
    #[arg(value_name = "WORKLOAD_ID")]
    id: String,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Of so many workloads a list says which nodes could run them.
const LOOKED_AT_MAX: usize = 100;

#[derive(Serialize)]
pub(crate) struct Listed {
    pub(crate) workloads: Vec<One>,
}

#[derive(Serialize)]
pub(crate) struct One {
    #[serde(flatten)]
    pub(crate) workload: WorkloadView,
    /// Which nodes could run it now.
    pub(crate) availability: Option<Availability>,
}

pub(crate) fn run(command: &Command) -> Result<Box<dyn Answer>, CliError> {
    match command {
        Command::List(connect) => connect.ask(async |client| {
            let all: Vec<WorkloadView> = listing::all(client, "/workloads", &[]).await?;
            let mut data = Listed { workloads: Vec::with_capacity(all.len()) };
            for workload in all {
                // Every answer looks at all nodes.
                let availability = match data.workloads.len() < LOOKED_AT_MAX {
                    true => available(client, &workload.id).await,
                    false => None,
                };
                data.workloads.push(One { workload, availability });
            }
            Ok(Reply::new("landfall.workloads/1", data, render::service::workloads::list).boxed())
        }),
        Command::Show(args) => args.connect.ask(async |client| show(client, &args.workload).await),
        Command::Set(args) => {
            let Asked::One(mut template) = asked(&args.job, || args.connect.now())? else {
                return Err(usage("a workload is one job", "give a file with one job"));
            };
            // Whoever submits it stands somewhere else.
            template.run.submitted_from = None;
            args.connect.ask(async |client| {
                let _: Value = client.put(&format!("/workloads/{}", segment(&args.id)), &*template).await?;
                show(client, &args.id).await
            })
        }
        Command::Delete(args) => {
            delete(&args.connect, "/workloads", &args.workload, "landfall.workload-deleted/1")
        }
    }
}

async fn available(client: &landfall_client::Client, id: &str) -> Option<Availability> {
    client.get(&format!("/workloads/{}/availability", segment(id))).await.ok()
}

async fn show(client: &landfall_client::Client, id: &str) -> Result<Box<dyn Answer>, CliError> {
    let workload = client.get(&format!("/workloads/{}", segment(id))).await?;
    let availability = available(client, id).await;
    Ok(Reply::new("landfall.workload/1", One { workload, availability }, render::service::workloads::one)
        .boxed())
}
