//! `landfall providers`: who sells the blocks of capacity that nodes belong to, and how.

use landfall_client::segment;
use landfall_model::{Mib, MilliCpu, Provider};
use serde::Serialize;
use serde_json::{Map, Value};

use super::listing::{self, delete};
use super::pools::{set_field, setting};
use crate::answer::Answer;
use crate::config::cores;
use crate::error::CliError;
use crate::render;
use crate::reply::Reply;
use crate::service::ConnectArgs;

/// Commands about providers.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// List who sells blocks of capacity, and how.
    #[command(after_help = "Example:\n  landfall providers list")]
    List(ConnectArgs),
    /// Say how a provider sells, or change it.
    #[command(after_help = "\
Policies with `provider-affinity` then send large jobs to nodes of providers that sell whole nodes, small jobs to those of providers
that sell any number of GPUs. What is not named stays as it is; a new provider needs all of --class, --gpus, --vram, --cpus and --memory.

Examples:
  landfall providers set hall --class bulk --gpus 8 --vram 80GiB --cpus 64 --memory 512GiB
  landfall providers set hall --set enabled=false")]
    Set(SetArgs),
    /// Forget a provider.
    #[command(after_help = "\
The settings file must not name it. Nodes of its blocks stay; no term knows how it sells any more.

Examples:
  landfall providers delete hall")]
    Delete(DeleteArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeleteArgs {
    /// The provider.
    #[arg(value_name = "PROVIDER")]
    provider: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// The provider, as blocks name it.
    #[arg(value_name = "PROVIDER")]
    provider: String,
    /// Whole nodes only, or as many GPUs as are asked for.
    #[arg(long, value_name = "HOW", value_parser = ["bulk", "exact"])]
    class: Option<String>,
    /// GPUs of its largest node.
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
    /// Memory of each of them.
    #[arg(long, value_name = "SIZE")]
    vram: Option<Mib>,
    /// Cores of its largest node.
    #[arg(long, value_name = "CORES", value_parser = cores)]
    cpus: Option<MilliCpu>,
    /// Memory of its largest node.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Mib>,
    /// Any setting, such as `lease_max_ms=3600000`; may be given several times.
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = setting)]
    settings: Vec<(String, Value)>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    pub(crate) providers: Vec<Provider>,
}

pub(crate) fn run(command: &Command) -> Result<Box<dyn Answer>, CliError> {
    match command {
        Command::List(connect) => connect.ask(async |client| {
            let providers = listing::all(client, "/providers", &[]).await?;
            Ok(Reply::new("landfall.providers/1", Listed { providers }, render::service::fleet::providers)
                .boxed())
        }),
        Command::Set(args) => set(args),
        Command::Delete(args) => {
            delete(&args.connect, "/providers", &args.provider, "landfall.provider-deleted/1")
        }
    }
}

fn set(args: &SetArgs) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let mut provider = Map::new();
        let named = [
            ("class", args.class.clone().map(Value::from)),
            ("shape.gpus", args.gpus.map(Value::from)),
            ("shape.vram_mib", args.vram.map(|size| size.get().into())),
            ("shape.cpu_milli", args.cpus.map(|cores| cores.get().into())),
            ("shape.ram_mib", args.memory.map(|size| size.get().into())),
        ];
        let named = named.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?)));
        for (field, value) in named.chain(args.settings.iter().cloned()) {
            set_field(&mut provider, &field, value);
        }
        let path = format!("/providers/{}", segment(&args.provider));
        let providers = vec![client.put(&path, &provider).await?];
        Ok(Reply::new("landfall.providers/1", Listed { providers }, render::service::fleet::providers)
            .boxed())
    })
}
