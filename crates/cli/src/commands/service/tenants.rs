//! `landfall tenants`: shares, quotas and budgets of a running server.

use landfall_api::fleet::TenantView;
use landfall_client::segment;
use landfall_model::scenario::closest;
use landfall_model::{MilliCpu, Price};
use serde::Serialize;
use serde_json::Value;

use super::listing::{self, delete};
use super::pools::{not_there, set_field, setting};
use crate::answer::Answer;
use crate::config::cores;
use crate::error::CliError;
use crate::render;
use crate::reply::Reply;
use crate::service::ConnectArgs;

/// Commands about tenants.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// List tenants.
    #[command(after_help = "Example:\n  landfall tenants list")]
    List(ConnectArgs),
    /// Show a tenant: what it may use and what it uses.
    #[command(after_help = "Example:\n  landfall tenants show vision")]
    Show(ShowArgs),
    /// Make a tenant, or change one.
    #[command(after_help = "\
What is not named stays as it is.

Examples:
  landfall tenants set vision --share 0.5 --max-gpus 16
  landfall tenants set vision --budget 500
  landfall tenants set vision --set budget.gpu_hours=1000")]
    Set(SetArgs),
    /// Delete a tenant that is no longer needed.
    #[command(after_help = "\
It must have no jobs that wait or run (`landfall cancel`) and no tokens (`landfall token revoke`), and the settings file must not name it.
What its jobs used stays in `landfall usage`.

Examples:
  landfall tenants delete old")]
    Delete(ShowArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The tenant.
    #[arg(value_name = "TENANT")]
    tenant: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// The tenant.
    #[arg(value_name = "TENANT")]
    tenant: String,
    /// Its share of a pool, 0 to 1.
    #[arg(long, value_name = "SHARE")]
    share: Option<f64>,
    /// How far above its share it may go while the pool is idle, 1 or more.
    #[arg(long, value_name = "FACTOR")]
    burst: Option<f64>,
    /// Nodes it may hold at once.
    #[arg(long, value_name = "N")]
    max_nodes: Option<f64>,
    /// CPU cores that its jobs may ask for at once, such as `64` or `500m`.
    #[arg(long, value_name = "CORES", value_parser = cores)]
    max_cpus: Option<MilliCpu>,
    /// GPUs it may hold at once.
    #[arg(long, value_name = "N")]
    max_gpus: Option<u64>,
    /// Jobs it may have that have not ended.
    #[arg(long, value_name = "N")]
    max_jobs: Option<u64>,
    /// What its jobs may cost in 90 days, where pools have prices.
    #[arg(long, value_name = "AMOUNT", allow_hyphen_values = true)]
    budget: Option<Price>,
    /// Make it, though another one is called almost alike.
    #[arg(long)]
    new: bool,
    /// Any setting, such as `budget.gpu_hours=1000`; may be given several times.
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = setting)]
    settings: Vec<(String, Value)>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    pub(crate) tenants: Vec<TenantView>,
}

#[derive(Serialize)]
pub(crate) struct One {
    #[serde(flatten)]
    pub(crate) tenant: TenantView,
}

pub(crate) fn run(command: &Command) -> Result<Box<dyn Answer>, CliError> {
    match command {
        Command::List(connect) => connect.ask(async |client| {
            let tenants = listing::all(client, "/tenants", &[]).await?;
            let data = Listed { tenants };
            Ok(Reply::new("landfall.tenants/1", data, render::service::fleet::tenants).boxed())
        }),
        Command::Show(args) => args
            .connect
            .ask(async |client| Ok(shown(client.get(&format!("/tenants/{}", segment(&args.tenant))).await?))),
        Command::Set(args) => set(args),
        Command::Delete(args) => delete(&args.connect, "/tenants", &args.tenant, "landfall.tenant-deleted/1"),
    }
}

fn shown(tenant: TenantView) -> Box<dyn Answer> {
    let warnings = tenant.warnings.clone();
    let data = One { tenant };
    let reply = Reply::new("landfall.tenant/1", data, render::service::fleet::tenant);
    Box::new(warnings.into_iter().fold(reply, Reply::warn))
}

fn set(args: &SetArgs) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let path = format!("/tenants/{}", segment(&args.tenant));
        let before: Option<TenantView> = match client.get(&path).await {
            Ok(view) => Some(view),
            Err(error) if error.status() == Some(404) => None,
            Err(error) => return Err(error.into()),
        };
        let known: Vec<TenantView> = match before.is_none() && !args.new {
            true => listing::all(client, "/tenants", &[]).await?,
            false => Vec::new(),
        };
        let ids = || known.iter().map(|tenant| tenant.id.as_str());
        if closest(&args.tenant, ids()).is_some() {
            return Err(not_there("tenant", &args.tenant, ids(), "say --new to make it"));
        }
        let mut tenant = before.and_then(|view| view.tenant.as_object().cloned()).unwrap_or_default();
        tenant.remove("id");
        let named = [
            ("share", args.share.map(Value::from)),
            ("burst", args.burst.map(Value::from)),
            ("quota.max_nodes", args.max_nodes.map(Value::from)),
            ("quota.max_cpu_milli", args.max_cpus.map(|cores| cores.get().into())),
            ("quota.max_gpus", args.max_gpus.map(Value::from)),
            ("quota.max_jobs", args.max_jobs.map(Value::from)),
            ("budget.money", args.budget.map(|amount| amount.as_f64().into())),
        ];
        for (field, value) in named {
            if let Some(value) = value {
                set_field(&mut tenant, field, value);
            }
        }
        for (field, value) in &args.settings {
            set_field(&mut tenant, field, value.clone());
        }
        Ok(shown(client.put(&path, &tenant).await?))
    })
}
