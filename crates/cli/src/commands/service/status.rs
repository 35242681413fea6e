//! `landfall status`: whether the server is there, and how it does.

use landfall_api::answer::StatusView;
use serde::Serialize;

use crate::answer::Answer;
use crate::error::CliError;
use crate::render;
use crate::reply::Reply;
use crate::service::ConnectArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall status
  landfall status --server https://landfall.lab:7878 --token-file ~/lab.token")]
pub(crate) struct Args {
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Where the server stands.
#[derive(Serialize)]
pub(crate) struct Status {
    /// Where it is.
    pub(crate) server: String,
    #[serde(flatten)]
    pub(crate) status: StatusView,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let status = client.get("/status").await?;
        let data = Status { server: client.server().to_owned(), status };
        Ok(Reply::new("landfall.status/1", data, render::service::status::page).boxed())
    })
}
