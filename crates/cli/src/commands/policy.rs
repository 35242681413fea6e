//! `landfall policy`: the built-in policies, files of your own, and the parts they are made of.

use std::io::Write;
use std::path::{Path, PathBuf};

use landfall_policy::filter::FilterInfo;
use landfall_policy::params::ParamInfo;
use landfall_policy::spec::PolicySpec;
use landfall_policy::term::{Class, TermInfo};
use landfall_policy::{CHOICE_PARAMS, Policy, builtin, catalogue, devices, policy_file};
use serde::Serialize;

use crate::answer::{Answer, Page, to_json};
use crate::error::CliError;
use crate::render;
use crate::selection::{load, unknown};

/// Commands about policies.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the built-in policies.
    List,
    /// Print a built-in policy as a policy file.
    #[command(after_help = "Example:\n  landfall policy show fit > mine.toml")]
    Show {
        /// The policy.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Check a policy file and sum up what it says.
    Check {
        /// The file; `-` reads standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// List the terms and filters that policies are made of, or show one in detail.
    Terms {
        /// One term or filter.
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
}

/// Answers `policy`.
pub(crate) fn run(command: Command) -> Result<Box<dyn Answer>, CliError> {
    Ok(match command {
        Command::List => Box::new(Listed { policies: builtin::ALL.iter().filter_map(listing).collect() }),
        Command::Show { name } => Box::new(show(&name)?),
        Command::Check { file } => Box::new(check(&file)?),
        Command::Terms { name: None } => Box::new(Catalogue::all()),
        Command::Terms { name: Some(name) } => Box::new(Part::find(&name)?),
    })
}

/// One built-in policy in the list.
#[derive(Serialize)]
pub(crate) struct Listing {
    /// Its name.
    pub(crate) name: String,
    /// What it is for.
    pub(crate) description: String,
    /// Its filters.
    pub(crate) filters: Vec<String>,
    /// Its terms.
    pub(crate) terms: Vec<String>,
}

/// The answer of `policy list`.
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

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        to_json(out, &serde_json::json!({ "schema": "landfall.policies/1", "policies": self.policies }))
    }
}

/// The answer of `policy show`.
struct Shown {
    text: &'static str,
    spec: PolicySpec,
}

#[derive(Serialize)]
struct ShownJson<'a> {
    schema: &'static str,
    #[serde(flatten)]
    spec: &'a PolicySpec,
}

fn show(name: &str) -> Result<Shown, CliError> {
    let text = builtin::text(name).ok_or_else(|| unknown(name))?;
    let spec = policy_file::parse(text)
        .map_err(|error| CliError::Invalid { file: format!("<built-in policy {name}>"), error })?;
    Ok(Shown { text, spec })
}

impl Answer for Shown {
    fn text(&self, _page: Page) -> String {
        self.text.to_owned()
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        to_json(out, &ShownJson { schema: "landfall.policy/1", spec: &self.spec })
    }
}

/// A term of a checked policy.
#[derive(Serialize)]
pub(crate) struct Weighted {
    /// The term.
    pub(crate) name: &'static str,
    /// Its weight in force.
    pub(crate) weight: f64,
    /// What it may do to a total.
    pub(crate) class: Class,
    /// Smallest and largest value.
    pub(crate) range: (f64, Option<f64>),
    /// The unit of the value.
    pub(crate) unit: &'static str,
}

/// The answer of `policy check`.
#[derive(Serialize)]
pub(crate) struct Checked {
    schema: &'static str,
    /// The file as given.
    pub(crate) file: String,
    /// The policy's name.
    pub(crate) name: String,
    /// What it is for.
    pub(crate) description: String,
    /// Its filters.
    pub(crate) filters: Vec<String>,
    /// Its enabled terms and multipliers.
    pub(crate) terms: Vec<Weighted>,
    /// Terms that are there but turned off.
    pub(crate) disabled: Vec<String>,
    /// What looked odd.
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
        schema: "landfall.policy-check/1",
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
        warnings,
    })
}

impl Answer for Checked {
    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn text(&self, page: Page) -> String {
        render::policy::checked(self, page)
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        to_json(out, self)
    }
}

/// The answer of `policy terms`.
#[derive(Serialize)]
pub(crate) struct Catalogue {
    schema: &'static str,
    /// All terms.
    pub(crate) terms: Vec<&'static TermInfo>,
    /// All filters.
    pub(crate) filters: Vec<&'static FilterInfo>,
    /// Parameters of the policy itself: how devices and candidates are chosen.
    pub(crate) params: Vec<ParamInfo>,
}

impl Catalogue {
    fn all() -> Self {
        Self {
            schema: "landfall.terms/1",
            terms: catalogue::terms().collect(),
            filters: catalogue::filters().collect(),
            params: CHOICE_PARAMS.into_iter().chain(devices::PARAMS).collect(),
        }
    }
}

impl Answer for Catalogue {
    fn text(&self, page: Page) -> String {
        render::catalogue::all(self, page)
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        to_json(out, self)
    }
}

/// The answer of `policy terms NAME`.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// A term.
    Term(&'static TermInfo),
    /// A filter.
    Filter(&'static FilterInfo),
}

#[derive(Serialize)]
struct PartJson<'a> {
    schema: &'static str,
    #[serde(flatten)]
    part: &'a Part,
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

impl Answer for Part {
    fn text(&self, page: Page) -> String {
        render::catalogue::one(self, page)
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        to_json(out, &PartJson { schema: "landfall.term/1", part: self })
    }
}
