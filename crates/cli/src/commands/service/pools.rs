//! `landfall pools`: the pools of a running server.

use std::path::PathBuf;

use landfall_api::answer::Acted;
use landfall_api::fleet::{PoolRequest, PoolView};
use landfall_client::segment;
use landfall_model::scenario::{closest, decode};
use landfall_model::{Dispatch, HistoryRow, PolicySetting, Pool, PoolId};
use landfall_policy::spec::PolicySpec;
use landfall_policy::{builtin, policy_file};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::listing::{self, delete};
use crate::answer::{Answer, Page};
use crate::error::{CliError, broken, usage};
use crate::input::Input;
use crate::render;
use crate::render::text::clean;
use crate::reply::Reply;
use crate::selection;
use crate::service::ConnectArgs;

/// Commands about pools.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// List pools with how many jobs wait and run.
    #[command(after_help = "Example:\n  landfall pools list")]
    List(ConnectArgs),
    /// Show a pool with all its settings.
    #[command(after_help = "Example:\n  landfall pools show default")]
    Show(ShowArgs),
    /// Show the policy of a pool as a file, with what was changed in it.
    #[command(after_help = "\
Examples:
  landfall pools policy gpu > mine.toml
  landfall plan --policy-file mine.toml --pool gpu
  landfall pools set gpu --policy-file mine.toml")]
    Policy(ShowArgs),
    /// Make a pool, or change one.
    #[command(after_help = "\
Settings that are not named stay as they are. --dispatch makes a pool that is not there, with the usual settings
(docs/reference/scenario.md). A pool that the settings file names is as the file says again when the server starts.

Examples:
  landfall pools set gpu --dispatch batch --policy balanced
  landfall pools set gpu --policy-file mine.toml
  landfall pools set gpu --weight wait=0.4
  landfall pools set gpu --set batch.cycle_ms=10000 --set batch.backfill=conservative")]
    Set(SetArgs),
    /// Give a pull pool finished runs from before, to predict memory and time from.
    #[command(after_help = "\
The file is a list in JSON, oldest first; docs/reference/openapi.json (HistoryRow) has the fields.

Examples:
  landfall pools history builds runs.json")]
    History(HistoryArgs),
    /// Delete a pool that is no longer needed.
    #[command(after_help = "\
It must have no jobs that wait or run (`landfall cancel`), no nodes (end their agents, `landfall remove`), and the settings file must not
name it. Jobs that ended there are still listed.

Examples:
  landfall pools delete old")]
    Delete(ShowArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct HistoryArgs {
    /// The pool.
    #[arg(value_name = "POOL")]
    pool: String,
    /// The runs.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct Added {
    pool: String,
    runs: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The pool.
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// The pool.
    #[arg(value_name = "POOL")]
    pool: String,
    /// Who asks, and what is ranked.
    #[arg(long, value_name = "HOW", value_parser = ["push", "pull", "batch", "negotiate"])]
    dispatch: Option<String>,
    /// A built-in policy (`landfall policy list`).
    #[arg(long, value_name = "NAME", conflicts_with = "policy_file")]
    policy: Option<String>,
    /// A policy of its own.
    #[arg(long, value_name = "FILE")]
    policy_file: Option<PathBuf>,
    /// Change the weight of a term of its policy, which is a copy of its own from then on; may be given several times.
    #[arg(long = "weight", value_name = "TERM=NUMBER", value_parser = weight)]
    weights: Vec<(String, f64)>,
    /// Any setting, such as `batch.cycle_ms=10000`; may be given several times.
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = setting)]
    settings: Vec<(String, Value)>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// `name=value`; a value that is no JSON is a word.
pub(crate) fn setting(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write it as FIELD=VALUE")?;
    let parsed = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.trim().to_owned(), parsed))
}

fn weight(text: &str) -> Result<(String, f64), String> {
    let (term, number) = text.split_once('=').ok_or("write it as TERM=NUMBER")?;
    let number = number.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    Ok((term.trim().to_owned(), number.ok_or("a weight is a number")?))
}

/// The policy of a pool as data.
fn spec_of(pool: &str, name: &str, own: Option<&str>) -> Result<PolicySpec, CliError> {
    let found = match own {
        Some(text) => Some(policy_file::parse(text).map_err(|error| error.to_string())),
        None => builtin::spec(name).map(|found| found.map_err(|error| error.to_string())),
    };
    let found = found.ok_or_else(|| selection::unknown(name))?;
    found.map_err(|error| broken(format!("the policy of pool {pool} cannot be read: {error}"), ""))
}

/// The policy of a pool that names none.
fn usual_policy(dispatch: &str) -> String {
    let dispatch = serde_json::from_value::<Dispatch>(json!(dispatch)).unwrap_or_default();
    let pool = PoolId::new("any").map(|id| Pool::new(id, dispatch));
    pool.map(|pool| pool.policy_name().to_owned()).unwrap_or_default()
}

/// A policy with other weights, as a file.
fn weighted(mut spec: PolicySpec, weights: &[(String, f64)]) -> Result<Option<String>, CliError> {
    let weights = weights.iter().cloned().collect();
    let changed = spec.apply(&PolicySetting { weights, ..PolicySetting::default() });
    changed.map_err(|message| usage(message, "`landfall pools policy POOL` shows its terms"))?;
    Ok(policy_file::text(&spec))
}

#[derive(Serialize)]
struct PolicyText {
    pool: String,
    name: String,
    /// Whether the pool has a copy of its own.
    own: bool,
    text: String,
}

fn policy(args: &ShowArgs) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let view: PoolView = client.get(&format!("/pools/{}", segment(&args.pool))).await?;
        let text = match &view.policy_text {
            Some(text) => text.clone(),
            None => builtin::text(&view.policy_in_force).unwrap_or_default().to_owned(),
        };
        let own = view.policy_text.is_some();
        let data = PolicyText { pool: view.id, name: view.policy_in_force, own, text };
        Ok(Reply::new("landfall.pool-policy/1", data, |data, _| data.text.clone()).boxed())
    })
}

/// What to say where somebody changes what is not there: it may be a slip, and making things is for those who say so.
pub(crate) fn not_there<'a>(
    what: &str,
    id: &str,
    known: impl Iterator<Item = &'a str>,
    otherwise: &str,
) -> CliError {
    let near = closest(id, known).map(|near| format!("did you mean `{near}`? or ")).unwrap_or_default();
    usage(format!("there is no {what} `{id}`"), format!("{near}{otherwise}"))
}

/// Sets a field such as `batch.cycle_ms` in an object.
pub(crate) fn set_field(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = object.entry(first).or_insert_with(|| json!({}));
            if !inner.is_object() {
                *inner = json!({});
            }
            if let Some(inner) = inner.as_object_mut() {
                set_field(inner, rest, value);
            }
        }
    }
}

#[derive(Serialize)]
pub(crate) struct Listed {
    pub(crate) pools: Vec<PoolView>,
}

#[derive(Serialize)]
pub(crate) struct One {
    #[serde(flatten)]
    pub(crate) pool: PoolView,
}

pub(crate) fn run(command: &Command) -> Result<Box<dyn Answer>, CliError> {
    match command {
        Command::List(connect) => connect.ask(async |client| {
            let pools = listing::all(client, "/pools", &[]).await?;
            Ok(Reply::new("landfall.pools/1", Listed { pools }, render::service::fleet::pools).boxed())
        }),
        Command::Show(args) => args
            .connect
            .ask(async |client| Ok(shown(client.get(&format!("/pools/{}", segment(&args.pool))).await?))),
        Command::Policy(args) => policy(args),
        Command::Set(args) => set(args),
        Command::History(args) => history(args),
        Command::Delete(args) => delete(&args.connect, "/pools", &args.pool, "landfall.pool-deleted/1"),
    }
}

fn history(args: &HistoryArgs) -> Result<Box<dyn Answer>, CliError> {
    let input = Input::read(&args.file)?;
    let rows: Vec<HistoryRow> = decode(&input.text, input.format).map_err(|error| input.invalid(error))?;
    args.connect.ask(async |client| {
        let path = format!("/pools/{}/history", segment(&args.pool));
        let _: Acted = client.post(&path, &rows).await?;
        let data = Added { pool: args.pool.clone(), runs: rows.len() };
        let page =
            |added: &Added, _: Page| format!("pool {}: {} runs added\n", clean(&added.pool), added.runs);
        Ok(Reply::new("landfall.history/1", data, page).boxed())
    })
}

/// A pool with what is odd about it.
fn shown(pool: PoolView) -> Box<dyn Answer> {
    let warnings = pool.warnings.clone();
    let reply = Reply::new("landfall.pool/1", One { pool }, render::service::fleet::pool);
    Box::new(warnings.into_iter().fold(reply, Reply::warn))
}

fn set(args: &SetArgs) -> Result<Box<dyn Answer>, CliError> {
    let own = match &args.policy_file {
        Some(path) => policy_file::text(selection::load(path)?.spec()),
        None => None,
    };
    args.connect.ask(async |client| {
        let path = format!("/pools/{}", segment(&args.pool));
        let before: Option<PoolView> = match client.get(&path).await {
            Ok(view) => Some(view),
            Err(error) if error.status() == Some(404) => None,
            Err(error) => return Err(error.into()),
        };
        if before.is_none() && args.dispatch.is_none() {
            let known: Vec<PoolView> = listing::all(client, "/pools", &[]).await?;
            return Err(not_there(
                "pool",
                &args.pool,
                known.iter().map(|pool| pool.id.as_str()),
                "say --dispatch push, pull or batch to make it",
            ));
        }
        let mut pool = before.as_ref().and_then(|view| view.pool.as_object().cloned()).unwrap_or_default();
        pool.remove("id");
        let mut policy_text = before.and_then(|view| view.policy_text);
        if let Some(dispatch) = &args.dispatch {
            // A policy is made for one way to dispatch: with another way the usual policy of that way comes.
            if pool.get("dispatch").and_then(Value::as_str) != Some(dispatch) {
                pool.remove("policy");
                policy_text = None;
            }
            pool.insert("dispatch".into(), json!(dispatch));
        }
        if let Some(policy) = &args.policy {
            pool.insert("policy".into(), json!(policy));
            policy_text = None;
        }
        if own.is_some() {
            policy_text = own;
        }
        if !args.weights.is_empty() {
            let usual = usual_policy(pool.get("dispatch").and_then(Value::as_str).unwrap_or_default());
            let name = pool.get("policy").and_then(Value::as_str).unwrap_or(&usual);
            let spec = spec_of(&args.pool, name, policy_text.as_deref())?;
            policy_text = weighted(spec, &args.weights)?;
        }
        for (field, value) in &args.settings {
            set_field(&mut pool, field, value.clone());
        }
        Ok(shown(client.put(&path, &PoolRequest { pool, policy_text }).await?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_where_they_belong() {
        let mut object = Map::new();
        for text in ["batch.cycle_ms=10000", "dispatch=batch", "batch.backfill=strict"] {
            let (name, value) = setting(text).unwrap();
            set_field(&mut object, &name, value);
        }
        assert_eq!(
            Value::Object(object),
            json!({"batch": {"cycle_ms": 10000, "backfill": "strict"}, "dispatch": "batch"})
        );
        assert!(setting("x").is_err());
    }
}
