//! Pools and tenants in the file: the same fields as in a scenario, and `policy_file`.

use std::collections::BTreeMap;
use std::path::Path;

use landfall_model::scenario::{Format, ScenarioError, parse};
use landfall_model::{Block, Pool, Provider, Region, Tenant};
use landfall_policy::policy_file;

use crate::error::CliError;
use crate::input::Input;
use crate::selection;

/// Sections that a file shares with a scenario.
pub(super) const SECTIONS: [&str; 5] = ["pools", "tenants", "blocks", "providers", "regions"];

#[derive(Debug, Clone)]
pub(crate) struct DeclaredPool {
    pub(crate) pool: Pool,
    pub(crate) policy: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) pools: Vec<DeclaredPool>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) providers: Vec<Provider>,
    /// Further runtimes of the agent: names and commands.
    pub(crate) runtimes: BTreeMap<String, Vec<String>>,
}

pub(crate) fn declared(file: &Input, table: &mut toml::Table) -> Result<Declared, CliError> {
    let runtimes = runtimes(file, table)?;
    let mut rest = toml::Table::new();
    for name in SECTIONS {
        rest.extend(table.remove(name).map(|rows| (name.to_owned(), rows)));
    }
    if rest.is_empty() {
        return Ok(Declared { runtimes, ..Declared::default() });
    }
    let names_providers = rest.contains_key("providers");
    let mut files = Vec::new();
    if let Some(toml::Value::Array(pools)) = rest.get_mut("pools") {
        for row in pools.iter_mut().filter_map(toml::Value::as_table_mut) {
            let name = row.get("id").and_then(toml::Value::as_str).map(str::to_owned);
            if let Some(path) = row.remove("policy_file") {
                let path = path.as_str().map(str::to_owned).ok_or_else(|| {
                    file.invalid(
                        ScenarioError::at("pools", "policy_file should be a path").hint("write it in quotes"),
                    )
                })?;
                files.push((name, path));
            }
        }
    }
    if let Some(toml::Value::Array(tenants)) = rest.get_mut("tenants") {
        for row in tenants.iter_mut().filter_map(toml::Value::as_table_mut) {
            // In cores, as the flag of this name says it.
            if let Some(cores) = row.remove("max_cpus") {
                let text = cores.as_str().map_or_else(|| cores.to_string(), str::to_owned);
                let milli = super::cores(&text).map_err(|error| {
                    file.invalid(ScenarioError::at("tenants", format!("max_cpus: {error}")))
                })?;
                row.insert("max_cpu_milli".to_owned(), toml::Value::Integer(milli.get() as i64));
            }
        }
    }
    let text = toml::to_string(&rest)
        .map_err(|error| file.invalid(ScenarioError::at("pools", error.to_string())))?;
    let situation = parse(&text, Format::Toml).map_err(|error| {
        // The position is one of the text that was made here; the field finds it in the file.
        file.invalid(ScenarioError { position: None, ..error })
    })?;
    let beside = Path::new(&file.file).parent().map(Path::to_path_buf).unwrap_or_default();
    let mut pools = Vec::new();
    for pool in situation.world.pools.values() {
        let own = files.iter().find(|(name, _)| name.as_deref() == Some(pool.id.as_str()));
        let policy = match own {
            Some((_, path)) => policy_file::text(selection::load(&beside.join(path))?.spec()),
            None => None,
        };
        let mut pool = pool.clone();
        for (name, adjacent) in &situation.world.regions {
            pool.push.regions.entry(name.clone()).or_insert_with(|| Region { adjacent: adjacent.clone() });
        }
        pools.push(DeclaredPool { pool, policy });
    }
    let tenants = situation.world.tenants.values().cloned().collect();
    let blocks = situation.world.blocks.values().map(|block| Block::clone(block)).collect();
    // A situation that names no providers has the usual ones; a server has none then.
    let providers = if names_providers { situation.world.providers } else { Vec::new() };
    Ok(Declared { pools, tenants, blocks, providers, runtimes })
}

/// Takes the runtimes out of `[agent.runtimes.NAME]`.
fn runtimes(file: &Input, table: &mut toml::Table) -> Result<BTreeMap<String, Vec<String>>, CliError> {
    let agent = table.get_mut("agent").and_then(toml::Value::as_table_mut);
    let Some(rows) = agent.and_then(|agent| agent.remove("runtimes")) else { return Ok(BTreeMap::new()) };
    let wrong = |name: &str| {
        let field = format!("agent.runtimes.{name}");
        let error =
            ScenarioError::at(field.trim_end_matches('.'), "a runtime has a `command`, and nothing else");
        file.invalid(error.hint("write [agent.runtimes.NAME] and command = [\"program\", \"argument\"]"))
    };
    let toml::Value::Table(rows) = rows else { return Err(wrong("")) };
    let mut found = BTreeMap::new();
    for (name, row) in rows {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Runtime {
            command: Vec<String>,
        }
        let runtime: Runtime = row.try_into().map_err(|_| wrong(&name))?;
        found.insert(name, runtime.command);
    }
    Ok(found)
}
