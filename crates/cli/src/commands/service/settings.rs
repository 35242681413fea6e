//! `landfall config`: what is set, and who said so.

use std::collections::BTreeMap;

use landfall_api::fleet::{PoolView, Settings, TenantView};
use serde::Serialize;

use super::agent::agent_config;
use super::listing;
use super::server::server_config;
use crate::answer::{Answer, Page};
use crate::config::{Config, Origin, SETTINGS, Setting};
use crate::error::{CliError, usage};
use crate::render::service::fleet::settings_from;
use crate::render::style::{DIM, GOOD};
use crate::render::table::{Cell, Table};
use crate::render::text::{clean, count};
use crate::reply::Reply;
use crate::service::{self, ConnectArgs};

/// Commands about settings.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Read the file with settings and the environment, and say what is wrong.
    #[command(after_help = "Example:\n  landfall config check")]
    Check(ConnectArgs),
    /// Show every setting in force, and where it came from.
    #[command(after_help = "Example:\n  landfall config show")]
    Show(ConnectArgs),
}

#[derive(Serialize)]
struct Row {
    key: &'static str,
    env: &'static str,
    value: Option<String>,
    from: &'static str,
    place: Option<String>,
    meaning: &'static str,
    #[serde(skip)]
    default: &'static str,
}

#[derive(Serialize)]
struct Shown {
    file: Option<String>,
    settings: Vec<Row>,
    pools: Vec<String>,
    tenants: Vec<String>,
    /// What is in force now of the pools and tenants that the file names, where the server answers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    in_force: BTreeMap<String, Settings>,
}

#[derive(Serialize)]
struct Checked {
    file: Option<String>,
    settings: usize,
    pools: usize,
    tenants: usize,
}

pub(crate) fn run(command: &Command) -> Result<Box<dyn Answer>, CliError> {
    Ok(match command {
        Command::Check(connect) => {
            let config = connect.load()?;
            let odd = startable(&config)?;
            let said = SETTINGS.iter().filter(|setting| config.origin(setting.key) != Origin::Default);
            let data = Checked {
                settings: said.count(),
                pools: config.declared.pools.len(),
                tenants: config.declared.tenants.len(),
                file: config.file,
            };
            let reply = Reply::new("landfall.config-check/1", data, checked);
            Box::new(odd.into_iter().fold(reply, Reply::warn))
        }
        Command::Show(connect) => {
            let config = connect.load()?;
            let settings = SETTINGS.iter().map(|setting| row(&config, setting)).collect();
            let declared = &config.declared;
            let named = !declared.pools.is_empty() || !declared.tenants.is_empty();
            let data = Shown {
                settings,
                in_force: if named { in_force(connect) } else { BTreeMap::new() },
                pools: declared.pools.iter().map(|pool| pool.pool.id.to_string()).collect(),
                tenants: declared.tenants.iter().map(|tenant| tenant.id.to_string()).collect(),
                file: config.file.clone(),
            };
            Reply::new("landfall.config/1", data, shown).boxed()
        }
    })
}

/// Checks what a server that starts with these settings would check, and says what is odd.
fn startable(config: &Config) -> Result<Vec<String>, CliError> {
    let server = server_config(config, None)?;
    // Most machines are for one of both; what is said of an agent is what one would start with.
    let of_agent = |setting: &&Setting| setting.key.starts_with("agent.");
    if SETTINGS.iter().filter(of_agent).any(|setting| config.origin(setting.key) != Origin::Default) {
        agent_config(config)?;
    }
    let of_client = ["client.server", "client.ca_file", "client.token_file"];
    if of_client.iter().any(|key| matches!(config.origin(key), Origin::File(_))) {
        service::client(config)?;
    }
    if server.data_dir.exists() && !server.data_dir.is_dir() {
        let message = format!("server.data_dir: {} is no directory", server.data_dir.display());
        return Err(usage(message, "name a directory, or one that can be made"));
    }
    let mut odd =
        service::block_on(async { landfall_server::check(&server).await.map_err(super::server::failed) })?;
    let shares: f64 = server.tenants.iter().map(|tenant| tenant.share).sum();
    let more = format!("the shares of the tenants add up to {shares:.2}, more than there is");
    odd.extend((shares > 1.0 + 1e-9).then_some(more));
    Ok(odd)
}

/// Whether pools and tenants are as the file says; nothing where no server answers.
fn in_force(connect: &ConnectArgs) -> BTreeMap<String, Settings> {
    let asked = connect.ask(async |client| {
        let pools: Vec<PoolView> = listing::all(client, "/pools", &[]).await?;
        let tenants: Vec<TenantView> = listing::all(client, "/tenants", &[]).await?;
        let pools = pools.into_iter().map(|pool| (format!("pool {}", pool.id), pool.settings_from));
        let tenants =
            tenants.into_iter().map(|tenant| (format!("tenant {}", tenant.id), tenant.settings_from));
        Ok(pools.chain(tenants).filter_map(|(what, from)| Some((what, from?))).collect())
    });
    asked.unwrap_or_default()
}

fn row(config: &Config, setting: &Setting) -> Row {
    let secret = setting.key == "client.token";
    let value =
        config.text(setting.key).map(|text| if secret { "(not shown)".to_owned() } else { text.to_owned() });
    let (from, place) = match config.origin(setting.key) {
        Origin::Flag => ("flag", None),
        Origin::Env(name) => ("env", Some(name.to_owned())),
        Origin::File(line) => {
            let file = config.file.clone().unwrap_or_default();
            ("file", Some(line.map_or(file.clone(), |line| format!("{file}:{line}"))))
        }
        Origin::Default => ("default", None),
    };
    // Where nobody says where the server is, its data directory does.
    if setting.key == "client.server"
        && from == "default"
        && let Some((url, file)) = service::found(config)
    {
        let (value, place) = (Some(url), Some(file.display().to_string()));
        return Row {
            key: setting.key,
            env: setting.env,
            value,
            from: "data_dir",
            place,
            meaning: setting.help,
            default: setting.default,
        };
    }
    Row {
        key: setting.key,
        env: setting.env,
        value,
        from,
        place,
        meaning: setting.help,
        default: setting.default,
    }
}

fn checked(data: &Checked, _: Page) -> String {
    let what = format!(
        "{}, {}, {}",
        count(data.settings, "setting"),
        count(data.pools, "pool"),
        count(data.tenants, "tenant")
    );
    match &data.file {
        Some(file) => format!("{GOOD}valid{GOOD:#}: {} and the environment: {what}\n", clean(file)),
        None => format!("{GOOD}valid{GOOD:#}: there is no file; the environment says {what}\n"),
    }
}

fn shown(data: &Shown, _: Page) -> String {
    let mut table = Table::of(&["setting", "value", "from"]);
    for row in &data.settings {
        let value = match &row.value {
            Some(value) => Cell::from(value),
            None => Cell::styled(row.default, DIM),
        };
        let from = match (row.from, &row.place) {
            ("flag", _) => "the command line".to_owned(),
            (_, Some(place)) => place.clone(),
            _ => String::new(),
        };
        table.row(vec![row.key.into(), value, Cell::styled(from, DIM)]);
    }
    let mut text = table.render();
    for (what, ids) in [("pool", &data.pools), ("tenant", &data.tenants)] {
        if ids.is_empty() {
            continue;
        }
        let shown = ids.iter().map(|id| match data.in_force.get(&format!("{what} {id}")) {
            Some(from) => format!("{id} ({})", settings_from(*from)),
            None => id.clone(),
        });
        text += &format!("\n{what}s: {}\n", clean(&shown.collect::<Vec<_>>().join(", ")));
    }
    if !data.pools.is_empty() || !data.tenants.is_empty() {
        text += &format!("{DIM}what the file names wins at every start of the server{DIM:#}\n");
    }
    text
}
