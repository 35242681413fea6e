//! Which policy answers: the one asked for, else the scenario's, else the pool's, else the default of the direction.

use std::path::{Path, PathBuf};

use landfall_model::scenario::{Format, ScenarioError, closest, decode};
use landfall_model::{PoolId, Situation};
use landfall_policy::spec::PolicySpec;
use landfall_policy::verdict::Direction;
use landfall_policy::{Policy, PolicyError, builtin};
use serde::Serialize;

use crate::error::{CliError, usage};
use crate::input::{Input, is_stdin};

/// The policy of a push question that names none.
const PUSH_DEFAULT: &str = "fit";

// Arguments that choose a policy.
#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    /// A built-in policy (`landfall policy list`), or a policy file.
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "policy_file")]
    pub(crate) policy: Option<String>,
    /// A policy file of your own.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy_file: Option<PathBuf>,
    /// Change a parameter of the policy, such as `device_choice=best-window`; may be given several times.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_param)]
    pub(crate) params: Vec<(String, toml::Value)>,
}

/// Reads `name=value`; a value that is no number, switch or list is a word.
fn parse_param(text: &str) -> Result<(String, toml::Value), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    let table = toml::from_str::<toml::Table>(&format!("value = {}", value.trim()));
    let value = table.ok().and_then(|mut table| table.remove("value"));
    let word = || toml::Value::String(text[name.len() + 1..].trim().to_owned());
    Ok((name.trim().to_owned(), value.unwrap_or_else(word)))
}

/// Who named the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// `--policy-file`.
    File,
    /// `--policy`.
    Argument,
    /// The scenario's `[policy]`.
    Scenario,
    /// The pool of the job or node.
    Pool,
    /// Nobody.
    Default,
    /// Nobody who named one that exists.
    Fallback,
}

impl Origin {
    /// For people, after the policy's name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::File => "from --policy-file",
            Self::Argument => "from --policy",
            Self::Scenario => "from the scenario",
            Self::Pool => "from the pool",
            Self::Default => "the default",
            Self::Fallback => "instead of an unknown one",
        }
    }
}

/// The file that somebody means who names a policy by one.
fn as_file(name: &str) -> Option<&Path> {
    let path = Path::new(name);
    (builtin::spec(name).is_none() && (path.extension().is_some() || path.exists())).then_some(path)
}

/// A policy ready to answer.
#[derive(Debug)]
pub(crate) struct Selected {
    pub(crate) policy: Policy,
    /// Who named it.
    pub(crate) origin: Origin,
    pub(crate) warnings: Vec<String>,
}

/// A policy's data with the text it came from, so that errors can point there.
struct Source {
    spec: PolicySpec,
    text: Input,
}

/// Chooses the policy for a question and applies the scenario's changes to it.
pub(crate) fn select(
    args: &PolicyArgs,
    scenario: &Input,
    situation: &Situation,
    direction: Direction,
    pool: Option<&PoolId>,
) -> Result<Selected, CliError> {
    let mut warnings = Vec::new();
    // Whoever names no pool belongs to the only one.
    let pool = pool.or_else(|| match situation.world.pools.len() {
        1 => situation.world.pools.keys().next(),
        _ => None,
    });
    let (origin, source) = match args.policy_file.as_deref().or(args.policy.as_deref().and_then(as_file)) {
        Some(path) => (Origin::File, from_file(path)?),
        None if args.policy.is_none() && own(situation, pool).is_some() => {
            let text = own(situation, pool).unwrap_or_default().to_owned();
            let file = format!("{}, the policy of pool {}", scenario.file, pool.map_or("", PoolId::as_str));
            (Origin::Pool, spec_of(Input { file, text, format: Format::Toml })?)
        }
        None => {
            let pool =
                pool.and_then(|id| situation.world.pools.get(id)).and_then(|pool| pool.policy.as_ref());
            let setting = situation.world.policy.name.as_ref();
            let named = args.policy.as_deref().map(|name| (Origin::Argument, name));
            let named = named.or(setting.map(|name| (Origin::Scenario, name.as_str())));
            let named = named.or(pool.map(|name| (Origin::Pool, name.as_str())));
            let (origin, name) = named.unwrap_or((Origin::Default, default_of(direction)));
            match built_in(name) {
                Ok(source) => (origin, source),
                // A worker that asks for work must not be turned away because of a slip in a setting.
                Err(error)
                    if direction == Direction::JobsForNode && error.exit() == crate::exit::Exit::NoSuch =>
                {
                    let near = closest(name, names()).map(|near| format!(" (did you mean `{near}`?)"));
                    warnings.push(format!(
                        "there is no policy `{name}`{}; using `{}`",
                        near.unwrap_or_default(),
                        builtin::FALLBACK
                    ));
                    (Origin::Fallback, built_in(builtin::FALLBACK)?)
                }
                Err(error) if matches!(origin, Origin::Scenario | Origin::Pool) => {
                    return Err(error.in_file(&scenario.file));
                }
                Err(error) => return Err(error),
            }
        }
    };
    let policy = adapted(source, scenario, situation, &args.params)?;
    warnings.extend_from_slice(policy.warnings());
    Ok(Selected { policy, origin, warnings })
}

/// The text of the policy that a pool has of its own, unless the scenario names another for all.
fn own<'a>(situation: &'a Situation, pool: Option<&PoolId>) -> Option<&'a str> {
    let world = &situation.world;
    world.policies.get(pool?).filter(|_| world.policy.name.is_none()).map(|text| &**text)
}

fn default_of(direction: Direction) -> &'static str {
    match direction {
        Direction::NodesForJob => PUSH_DEFAULT,
        Direction::JobsForNode => builtin::FALLBACK,
    }
}

/// Names of the built-in policies.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    builtin::ALL.iter().map(|(name, _)| *name)
}

/// The error for a policy that does not exist.
pub(crate) fn unknown(name: &str) -> CliError {
    CliError::no_such("policy", name, names()).or_hint("`landfall policy list` names them all")
}

fn built_in(name: &str) -> Result<Source, CliError> {
    let text = builtin::text(name).ok_or_else(|| unknown(name))?.to_owned();
    spec_of(Input { file: format!("<built-in policy {name}>"), text, format: Format::Toml })
}

fn from_file(path: &Path) -> Result<Source, CliError> {
    spec_of(Input::read(path)?)
}

fn spec_of(text: Input) -> Result<Source, CliError> {
    let spec = decode(&text.text, text.format).map_err(|error| text.invalid(error))?;
    Ok(Source { spec, text })
}

/// Reads and resolves a policy file as it stands.
pub(crate) fn load(path: &Path) -> Result<Policy, CliError> {
    let Source { spec, text } = from_file(path)?;
    Policy::compile(spec).map_err(|error| text.invalid(as_file_error(error)))
}

/// Refuses to read two files from the one standard input.
pub(crate) fn check_stdin(args: &PolicyArgs, scenario: &Path) -> Result<(), CliError> {
    if is_stdin(scenario) && args.policy_file.as_deref().is_some_and(is_stdin) {
        return Err(usage(
            "scenario and policy cannot both be read from standard input",
            "give one of them as a file",
        ));
    }
    Ok(())
}

/// The policy with the scenario's changes; an error points at whichever file is at fault.
fn adapted(
    source: Source,
    scenario: &Input,
    situation: &Situation,
    params: &[(String, toml::Value)],
) -> Result<Policy, CliError> {
    let Source { mut spec, text } = source;
    let setting = &situation.world.policy;
    if let Err(message) = spec.apply(setting) {
        let known: Vec<&str> = spec.terms.iter().map(|term| term.name.as_str()).collect();
        let weights = setting.weights.keys().map(|name| ("weights", name));
        let mut named = weights.chain(setting.enabled.keys().map(|name| ("enabled", name)));
        let error = match named.find(|(_, name)| !known.contains(&name.as_str())) {
            None => ScenarioError::at("policy", message),
            Some((table, name)) => {
                ScenarioError::at(format!("policy.{table}.{name}"), message).did_you_mean(name, known)
            }
        };
        return Err(scenario.invalid(error));
    }
    spec.params.extend(params.iter().cloned());
    let terms: Vec<String> = spec.terms.iter().map(|term| term.name.clone()).collect();
    Policy::compile(spec).map_err(|error| {
        let index = error.field.strip_prefix("terms[").and_then(|rest| rest.strip_suffix("].weight"));
        let term = index.and_then(|index| index.parse::<usize>().ok()).and_then(|index| terms.get(index));
        let param = error.field.rsplit_once("params.").map(|(_, name)| name.to_owned());
        let field = match (term, param) {
            (_, Some(name)) if params.iter().any(|(given, _)| *given == name) => {
                let message = format!("--param {name}: {}", error.message);
                let hint = format!("`landfall policy show {}` lists its parameters", shown_name(&text));
                return usage(message, error.hint.unwrap_or(hint));
            }
            (Some(name), _) if setting.weights.contains_key(name) => format!("policy.weights.{name}"),
            (_, Some(name)) if setting.params.contains_key(&name) => format!("policy.params.{name}"),
            _ => return text.invalid(as_file_error(error)),
        };
        scenario.invalid(ScenarioError { field, ..as_file_error(error) })
    })
}

/// How people name the policy that a text came from.
fn shown_name(text: &Input) -> &str {
    text.file.strip_prefix("<built-in policy ").and_then(|rest| rest.strip_suffix('>')).unwrap_or("NAME")
}

fn as_file_error(error: PolicyError) -> ScenarioError {
    ScenarioError { field: error.field, message: error.message, hint: error.hint, position: None }
}
