//! `landfall config`: what is set, and who said so.

use serde::Serialize;

use crate::answer::{Answer, Page};
use crate::config::{Config, Origin, SETTINGS, Setting};
use crate::error::CliError;
use crate::render::style::{DIM, GOOD};
use crate::render::table::{Cell, Table};
use crate::render::text::{clean, count};
use crate::reply::Reply;
use crate::service::{self, ConnectArgs};

/// Commands about settings.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Read the file with settings and the environment, and say what is wrong.
    Check(ConnectArgs),
    /// Show every setting in force, and where it came from.
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
            let said = SETTINGS.iter().filter(|setting| config.origin(setting.key) != Origin::Default);
            let data = Checked {
                settings: said.count(),
                pools: config.declared.pools.len(),
                tenants: config.declared.tenants.len(),
                file: config.file,
            };
            Reply::new("landfall.config-check/1", data, checked).boxed()
        }
        Command::Show(connect) => {
            let config = connect.load()?;
            let settings = SETTINGS.iter().map(|setting| row(&config, setting)).collect();
            let declared = &config.declared;
            let data = Shown {
                settings,
                pools: declared.pools.iter().map(|pool| pool.pool.id.to_string()).collect(),
                tenants: declared.tenants.iter().map(|tenant| tenant.id.to_string()).collect(),
                file: config.file.clone(),
            };
            Reply::new("landfall.config/1", data, shown).boxed()
        }
    })
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
    if !data.pools.is_empty() {
        text += &format!("\npools: {}\n", clean(&data.pools.join(", ")));
    }
    if !data.tenants.is_empty() {
        text += &format!("tenants: {}\n", clean(&data.tenants.join(", ")));
    }
    text
}
