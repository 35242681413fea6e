//! `landfall policy`: the built-in policies, files of your own, and the parts they are made of.

use std::path::{Path, PathBuf};

use landfall_policy::filter::FilterInfo;
use landfall_policy::params::ParamInfo;
use landfall_policy::spec::{PolicySpec, When};
use landfall_policy::term::{TermInfo, TermKind};
use landfall_policy::{CHOICE_PARAMS, Policy, builtin, catalogue, devices, policy_file};
use serde::Serialize;

use crate::answer::{Answer, Page, to_json};
use crate::error::CliError;
use crate::render;
use crate::reply::Reply;
use crate::selection::{load, unknown};

/// Commands about policies.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// List the built-in policies.
    #[command(after_help = "Example:\n  landfall policy list")]
    List,
    /// Print a built-in policy as a policy file.
    #[command(after_help = "Example:\n  landfall policy show fit > mine.toml")]
    Show {
        /// The policy.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Check a policy file and sum up what it says.
    #[command(after_help = "Example:\n  landfall policy check mine.toml")]
    Check {
        /// The file; `-` reads standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// List the terms and filters that policies are made of, or show one in detail.
    #[command(after_help = "Example:\n  landfall policy terms gpu-packing")]
    Terms {
        /// One term or filter.
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
}

pub(crate) fn run(command: Command) -> Result<Box<dyn Answer>, CliError> {
    Ok(match command {
        Command::List => Box::new(Listed { policies: builtin::ALL.iter().filter_map(listing).collect() }),
        Command::Show { name } => {
            Reply::new("landfall.policy/1", show(&name)?, |shown, _| shown.text.to_owned()).boxed()
        }
        Command::Check { file } => {
            let checked = check(&file)?;
            let warnings = checked.warnings.clone();
            let reply = Reply::new("landfall.policy-check/1", checked, render::policy::checked);
            Box::new(reply.warn_all(warnings))
        }
        Command::Terms { name: None } => {
            Reply::new("landfall.terms/1", Catalogue::all(), render::catalogue::all).boxed()
        }
        Command::Terms { name: Some(name) } => {
            Reply::new("landfall.term/1", Part::find(&name)?, render::catalogue::one).boxed()
        }
    })
}

#[derive(Serialize)]
pub(crate) struct Listing {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) filters: Vec<String>,
    pub(crate) terms: Vec<String>,
}

struct Listed {
    policies: Vec<Listing>,
}

fn listing((_, text): &(&str, &str)) -> Option<Listing> {
    // A test of the policy crate reads every built-in policy, so none is left out here.
    let PolicySpec { name, description, filters, terms, multipliers, .. } = policy_file::parse(text).ok()?;
    Some(Listing {
        name,
        description,
        filters: filters.into_iter().map(|filter| filter.name).collect(),
        terms: terms.into_iter().chain(multipliers).map(|term| term.name).collect(),
    })
}

impl Answer for Listed {
    fn text(&self, page: Page) -> String {
        render::policy::list(&self.policies, page)
    }

    fn json(&self, out: &mut dyn std::io::Write) -> serde_json::Result<()> {
        to_json(out, &serde_json::json!({ "schema": "landfall.policies/1", "policies": self.policies }))
    }
}

/// The answer of `policy show`.
#[derive(Serialize)]
struct Shown {
    #[serde(skip)]
    text: &'static str,
    #[serde(flatten)]
    spec: PolicySpec,
}

fn show(name: &str) -> Result<Shown, CliError> {
    let text = builtin::text(name).ok_or_else(|| unknown(name))?;
    let spec = policy_file::parse(text)
        .map_err(|error| CliError::Invalid { file: format!("<built-in policy {name}>"), error })?;
    Ok(Shown { text, spec })
}

/// A term of a checked policy.
#[derive(Serialize)]
pub(crate) struct Weighted {
    pub(crate) name: &'static str,
    pub(crate) weight: f64,
    /// What it may do to a total.
    pub(crate) class: TermKind,
    /// Smallest and largest value.
    pub(crate) range: (f64, Option<f64>),
    pub(crate) unit: &'static str,
}

#[derive(Serialize)]
pub(crate) struct Checked {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) filters: Vec<String>,
    /// Its enabled terms and multipliers.
    pub(crate) terms: Vec<Weighted>,
    /// Terms that are there but turned off.
    pub(crate) disabled: Vec<String>,
    /// Weights that follow the state of the cluster, the first that holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) when: Vec<When>,
    pub(crate) warnings: Vec<String>,
}

fn check(path: &Path) -> Result<Checked, CliError> {
    let policy: Policy = load(path)?;
    let spec = policy.spec();
    let off = spec.terms.iter().chain(&spec.multipliers).filter(|term| !term.enabled);
    let mut warnings = policy.warnings().to_vec();
    if policy.term_weights().next().is_none() {
        warnings.push("the policy has no terms: every admitted candidate has the total 0".into());
    }
    Ok(Checked {
        file: path.display().to_string(),
        name: spec.name.clone(),
        description: spec.description.clone(),
        filters: spec.filters.iter().map(|filter| filter.name.clone()).collect(),
        terms: policy
            .term_weights()
            .map(|(info, weight)| Weighted {
                name: info.name,
                weight,
                class: info.class,
                range: info.range,
                unit: info.unit,
            })
            .collect(),
        disabled: off.map(|term| term.name.clone()).collect(),
        when: spec.when.clone(),
        warnings,
    })
}

/// The answer of `policy terms`.
#[derive(Serialize)]
pub(crate) struct Catalogue {
    pub(crate) terms: Vec<&'static TermInfo>,
    pub(crate) filters: Vec<&'static FilterInfo>,
    /// Parameters of the policy itself: how devices and candidates are chosen.
    pub(crate) params: Vec<ParamInfo>,
}

impl Catalogue {
    fn all() -> Self {
        Self {
            terms: catalogue::terms().collect(),
            filters: catalogue::filters().collect(),
            params: CHOICE_PARAMS.into_iter().chain(devices::PARAMS).collect(),
        }
    }
}

/// The answer of `policy terms NAME`.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Term(&'static TermInfo),
    Filter(&'static FilterInfo),
}

impl Part {
    fn find(name: &str) -> Result<Self, CliError> {
        let term = catalogue::term(name).map(Self::Term);
        term.or_else(|| catalogue::filter(name).map(Self::Filter)).ok_or_else(|| {
            let names =
                catalogue::terms().map(|info| info.name).chain(catalogue::filters().map(|info| info.name));
            CliError::no_such("term or filter", name, names).or_hint("`landfall policy terms` lists them all")
        })
    }
}
