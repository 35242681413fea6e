//! A policy as data: what a TOML policy file says, for built-in policies and users' own alike.

use std::collections::BTreeMap;

use landfall_model::PolicySetting;
use serde::{Deserialize, Serialize};

/// How the terms of a pair become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// The weighted sum, in policy order, times the multipliers.
    #[default]
    Sum,
    /// The weighted mean of the soft terms plus all others, within 0..100.
    Mean,
}

/// How one candidate is picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    #[default]
    Best,
    /// Any admitted one, each with the same chance, drawn from `seed` and the job's id.
    Uniform,
}

/// Which levels the policy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Levels {
    /// `too_tight`, `marginal`, `good`, `perfect` from the terms `fit` and `speed`.
    Fit,
}

/// What decides between equal totals. Every list ends, said or unsaid, at the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tie {
    /// The nearer region.
    Region,
    /// The node where the workload is warm.
    Warm,
    /// The node with more karma.
    Karma,
    /// The cheaper offer.
    Cost,
    /// The offer that starts sooner.
    StartDelay,
    /// The job that was queued first.
    QueueTime,
}

/// What happens when no node is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Otherwise {
    #[default]
    Wait,
    /// Capacity is asked of a provider, or the job waits for cheap capacity.
    RequestCapacity,
}

/// A weight: a number, or the name of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Weight {
    Number(f64),
    /// The parameter that holds it.
    Param(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterUse {
    pub name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, toml::Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TermUse {
    pub name: String,
    #[serde(default = "one")]
    pub weight: Weight,
    /// Other weights for jobs of some runtimes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weight_by_runtime: BTreeMap<String, f64>,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub enabled: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, toml::Value>,
}

fn one() -> Weight {
    Weight::Number(1.0)
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

/// Other weights while the nodes of a job's tier are so full; the first row that holds counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// From this share in use on.
    #[serde(default)]
    pub utilisation_min: f64,
    /// Below this share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation_below: Option<f64>,
    /// What weights are multiplied by: by the name of a term, or of the parameter that holds weights.
    #[serde(default)]
    pub factors: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    pub name: String,
    /// What it is for, in a sentence or two.
    pub description: String,
    /// How the terms become one number.
    #[serde(default)]
    pub combine: Combine,
    /// Whether weights are divided by their sum.
    #[serde(default)]
    pub normalize: bool,
    /// How one candidate is picked.
    #[serde(default)]
    pub pick: Pick,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<Levels>,
    /// What decides between nodes of equal total.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_ties: Vec<Tie>,
    /// What decides between jobs of equal total.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub job_ties: Vec<Tie>,
    /// What happens when no node is admitted.
    #[serde(default)]
    pub otherwise: Otherwise,
    /// Parameters that any part may read.
    #[serde(default)]
    pub params: BTreeMap<String, toml::Value>,
    #[serde(default)]
    pub filters: Vec<FilterUse>,
    #[serde(default)]
    pub terms: Vec<TermUse>,
    /// Factors on the sum of the terms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multipliers: Vec<TermUse>,
    /// Weights that follow the state of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<When>,
}

impl PolicySpec {
    /// Applies a scenario's changes; names the field that does not exist.
    pub fn apply(&mut self, setting: &PolicySetting) -> Result<(), String> {
        for (name, weight) in &setting.weights {
            let term = self.terms.iter_mut().find(|term| term.name == *name);
            let term = term.ok_or_else(|| format!("policy `{}` has no term `{name}` to weigh", self.name))?;
            term.weight = Weight::Number(*weight);
            term.weight_by_runtime.clear();
        }
        for (name, enabled) in &setting.enabled {
            let term = self.terms.iter_mut().find(|term| term.name == *name);
            term.ok_or_else(|| format!("policy `{}` has no term `{name}` to switch", self.name))?.enabled =
                *enabled;
        }
        self.params.extend(setting.params.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok(())
    }
}
