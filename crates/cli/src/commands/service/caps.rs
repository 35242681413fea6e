//! `landfall caps`: what all pools together may draw and move.

use landfall_api::fleet::CapsView;
use landfall_model::Bytes;
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::error::{CliError, usage};
use crate::render;
use crate::reply::Reply;
use crate::service::ConnectArgs;

/// Commands about the caps of the cluster.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Show the caps of the cluster, and what is drawn and moved now.
    #[command(after_help = "Example:\n  landfall caps show")]
    Show(ConnectArgs),
    /// Cap what all pools together draw and move.
    #[command(after_help = "\
Jobs of batch pools then wait while they would exceed it, whatever their pool itself may draw (`power_cap_w`, `io_cap` of a pool); jobs of
other pools count and do not wait. A lower cap stops nothing that runs. It holds until it is set again, restarts included.

Examples:
  landfall caps set --power 40000
  landfall caps set --io 20GiB --power none")]
    Set(SetArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// Most watts, or `none`.
    #[arg(long, value_name = "WATTS", value_parser = watts)]
    power: Option<Value>,
    /// Most bytes per second to and from storage, or `none`.
    #[arg(long, value_name = "SIZE", value_parser = traffic)]
    io: Option<Value>,
    #[command(flatten)]
    connect: ConnectArgs,
}

fn watts(text: &str) -> Result<Value, String> {
    match text.trim() {
        "none" => Ok(Value::Null),
        number => {
            number.parse::<u64>().map(Value::from).map_err(|_| "a whole number of watts, or none".to_owned())
        }
    }
}

fn traffic(text: &str) -> Result<Value, String> {
    match text.trim() {
        "none" => Ok(Value::Null),
        size => size.parse::<Bytes>().map(|bytes| bytes.get().into()).map_err(|error| error.to_string()),
    }
}

pub(crate) fn run(command: &Command) -> Result<Box<dyn Answer>, CliError> {
    let (connect, said) = match command {
        Command::Show(connect) => (connect, None),
        Command::Set(args) => {
            let named = [("power_w", &args.power), ("io_bytes_s", &args.io)];
            let said: Map<String, Value> =
                named.into_iter().filter_map(|(name, cap)| Some((name.to_owned(), cap.clone()?))).collect();
            if said.is_empty() {
                return Err(usage("nothing to set", "say --power WATTS or --io SIZE, or `none` for no cap"));
            }
            (&args.connect, Some(said))
        }
    };
    connect.ask(async |client| {
        let caps: CapsView = match &said {
            Some(said) => client.put("/caps", said).await?,
            None => client.get("/caps").await?,
        };
        Ok(Reply::new("landfall.caps/1", caps, render::service::fleet::caps).boxed())
    })
}
