//! Weights that follow the state of the cluster.
//!
//! A policy may have rows: a condition on how full its tier is, and factors for weights. Each row is made into a policy of its own
//! beforehand, so whoever scores, plainly or with an index, scores with one policy whose weights stand still; a row is only another
//! policy. Which row is in force is asked when a cycle begins.

use landfall_model::{Node, NodeState, Tier};

use crate::catalogue;
use crate::policy::{Policy, PolicyError};
use crate::spec::{PolicySpec, Weight, When};
use crate::term::Family;

/// Most rows of a policy.
const ROWS_MAX: usize = 16;
/// Largest factor.
const FACTOR_MAX: f64 = 1e6;

/// How full the nodes of a tier are, 0 to 1: GPUs in use of all, or CPU where there are no GPUs.
pub fn tier_utilisation(nodes: &[Node], tier: Tier) -> f64 {
    let (mut gpus, mut used, mut cpu, mut cpu_used) = (0u64, 0u64, 0u64, 0u64);
    for node in nodes.iter().filter(|node| node.state != NodeState::Down && node.tier() == tier) {
        gpus += node.gpus.len() as u64;
        let taken = node.gpus.iter().filter(|gpu| gpu.is_closed() || !gpu.milli_committed.is_zero());
        used += taken.count() as u64;
        cpu += node.cpu_total.get();
        cpu_used += node.cpu_committed.get();
    }
    let (used, all) = if gpus > 0 { (used, gpus) } else { (cpu_used, cpu) };
    if all == 0 { 0.0 } else { used as f64 / all as f64 }
}

impl When {
    fn holds(&self, utilisation: f64) -> bool {
        utilisation >= self.utilisation_min && self.utilisation_below.is_none_or(|below| utilisation < below)
    }
}

/// The policies of the rows.
pub(crate) fn rows(spec: &PolicySpec) -> Result<Vec<Policy>, PolicyError> {
    if spec.when.len() > ROWS_MAX {
        return Err(PolicyError::at("when", format!("a policy has at most {ROWS_MAX} rows")));
    }
    if let Some(term) = spec.terms.iter().find(|term| !follows(&term.name)).filter(|_| !spec.when.is_empty())
    {
        let message =
            format!("weights follow the cluster in push pools alone, and `{}` is not for those", term.name);
        return Err(PolicyError::at("when", message).hint("leave `when` out"));
    }
    (0..).zip(&spec.when).map(|(at, when)| row(spec, at, when)).collect()
}

fn follows(term: &str) -> bool {
    catalogue::term(term)
        .is_none_or(|info| matches!(info.family, Family::Fit | Family::BinPack | Family::Packing))
}

fn row(spec: &PolicySpec, at: usize, when: &When) -> Result<Policy, PolicyError> {
    let share = |share: f64| (0.0..=1.0).contains(&share);
    if !share(when.utilisation_min) {
        let message = "a share is a number from 0 to 1";
        return Err(PolicyError::at(format!("when[{at}].utilisation_min"), message));
    }
    if when.utilisation_below.is_some_and(|below| below.is_nan() || below <= when.utilisation_min) {
        let message = "nothing is below this and at least utilisation_min";
        return Err(PolicyError::at(format!("when[{at}].utilisation_below"), message));
    }
    if when.factors.is_empty() {
        let error = PolicyError::at(format!("when[{at}].factors"), "the row changes no weight");
        return Err(error.hint("such as factors = { gpu-fragmentation = 2.0 }"));
    }
    let mut weighed = PolicySpec { when: Vec::new(), ..spec.clone() };
    for (name, factor) in &when.factors {
        let field = || format!("when[{at}].factors.{name}");
        if !factor.is_finite() || !(0.0..=FACTOR_MAX).contains(factor) {
            return Err(PolicyError::at(field(), format!("a factor is a number from 0 to {FACTOR_MAX:e}")));
        }
        if !weighed.multiply(name, *factor) {
            let terms = spec.terms.iter().map(|term| term.name.as_str());
            let hint = match landfall_model::scenario::closest(name, terms) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name a term of the policy, or the parameter that holds its weight".to_owned(),
            };
            return Err(PolicyError::at(field(), format!("the policy has no weight `{name}`")).hint(hint));
        }
    }
    let mut policy = Policy::compile(weighed).map_err(|error| PolicyError {
        field: format!("when[{at}]"),
        message: error.to_string(),
        ..error
    })?;
    policy.in_row = Some(at);
    Ok(policy)
}

impl PolicySpec {
    /// Multiplies the weight of a term, or a parameter that weights are; whether there is such a one.
    fn multiply(&mut self, name: &str, factor: f64) -> bool {
        let names = |weight: &Weight, param: &str| matches!(weight, Weight::Param(named) if named == param);
        if self.terms.iter().any(|term| names(&term.weight, name)) {
            let value = self.params.get_mut(name);
            let number = value.as_ref().and_then(|value| number(value));
            if let (Some(value), Some(number)) = (value, number) {
                *value = toml::Value::Float(number * factor);
            }
            return true;
        }
        let Some(term) = self.terms.iter_mut().find(|term| term.name == name) else { return false };
        term.weight_by_runtime.values_mut().for_each(|weight| *weight *= factor);
        match term.weight.clone() {
            Weight::Number(weight) => term.weight = Weight::Number(weight * factor),
            Weight::Param(param) => {
                let held = self.params.get(&param).and_then(number);
                term.weight = Weight::Number(held.unwrap_or(f64::NAN) * factor);
                // A parameter that nobody reads any more would be a mistake in a file.
                if !self.terms.iter().chain(&self.multipliers).any(|term| names(&term.weight, &param)) {
                    self.params.remove(&param);
                }
            }
        }
        true
    }
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

impl Policy {
    /// Whether its weights follow the state of the cluster.
    pub fn follows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// The row that is in force for jobs of a tier on these nodes, if one is.
    pub fn row(&self, nodes: &[Node], tier: Tier) -> Option<usize> {
        if !self.follows() {
            return None;
        }
        let utilisation = tier_utilisation(nodes, tier);
        self.spec().when.iter().position(|when| when.holds(utilisation))
    }

    /// The policy as a row weighs it.
    pub fn in_row(&self, row: Option<usize>) -> &Self {
        row.and_then(|row| self.rows.get(row)).unwrap_or(self)
    }

    /// The policy as it weighs jobs of a tier on these nodes.
    pub fn in_force(&self, nodes: &[Node], tier: Tier) -> &Self {
        self.in_row(self.row(nodes, tier))
    }
}

#[cfg(test)]
mod tests {
    use landfall_model::scenario::{Format, parse};

    use super::*;
    use crate::{builtin, policy_file};

    fn with(rows: &str) -> String {
        format!("{}\n{rows}", builtin::text("bin-pack").unwrap())
    }

    /// The weight of a term for a job on four GPUs of which so many are taken.
    fn weight(rows: &str, taken: usize, term: &str) -> (f64, Option<u64>) {
        let run: Vec<String> = (0..taken).map(|at| format!("{{job='r{at}',gpus=[{at}]}}")).collect();
        let scenario = format!(
            "[[nodes]]\nid='n'\ngpus=[{{vram_mib='8GiB',count=4}}]\nplacements=[{}]\n[[jobs]]\nid='j'\n",
            run.join(",")
        );
        let situation = parse(&scenario, Format::Toml).unwrap();
        let policy = policy_file::load(&with(rows)).unwrap();
        let ranking = policy.rank_nodes(&situation, &situation.jobs()[0]);
        let verdict = &ranking.candidates[0];
        let row = verdict.facts.get("weights_row").and_then(|fact| match fact {
            crate::verdict::Fact::Count(row) => Some(*row),
            _ => None,
        });
        (verdict.term(term).unwrap().weight, row)
    }

    #[test]
    fn the_first_row_that_holds_is_in_force() {
        let rows = "[[when]]\nutilisation_min = 0.75\nfactors = { gpu-fragmentation = 2.0 }\n\
                    [[when]]\nutilisation_min = 0.5\nfactors = { w_utilisation = 0.0, w_expiry = 3 }\n";
        for (taken, want) in
            [(0, (-0.5, None)), (1, (-0.5, None)), (2, (-0.5, Some(2))), (3, (-1.0, Some(1)))]
        {
            assert_eq!(weight(rows, taken, "gpu-fragmentation"), want, "{taken}");
        }
        assert_eq!(weight(rows, 2, "gpu-utilisation").0, 0.0);
        assert_eq!(weight(rows, 2, "block-expiry").0, -0.3 * 3.0);
        let empty = "[[when]]\nutilisation_below = 0.5\nfactors = { gpu-utilisation = 4 }\n";
        assert_eq!(
            (weight(empty, 1, "gpu-utilisation").0, weight(empty, 2, "gpu-utilisation").0),
            (4.0, 1.0)
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        for (rows, field, word) in [
            (
                "[[when]]\nutilisation_min = 2\nfactors = { w_expiry = 1 }",
                "when[0].utilisation_min",
                "0 to 1",
            ),
            (
                "[[when]]\nutilisation_min = 0.5\nutilisation_below = 0.5\nfactors = { w_expiry = 1 }",
                "when[0].utilisation_below",
                "nothing",
            ),
            ("[[when]]\nutilisation_min = 0.5\n", "when[0].factors", "no weight"),
            (
                "[[when]]\nfactors = { gpu-fragmentatoin = 1 }",
                "when[0].factors.gpu-fragmentatoin",
                "no weight",
            ),
            ("[[when]]\nfactors = { w_expiry = -1 }", "when[0].factors.w_expiry", "factor"),
        ] {
            let error = policy_file::load(&with(rows)).err().unwrap_or_else(|| panic!("{rows} is accepted"));
            assert!(error.field == field && error.message.contains(word), "{error:?}");
        }
        let batch = format!("{}\n[[when]]\nfactors = {{ wait = 2 }}\n", builtin::text("balanced").unwrap());
        assert!(policy_file::load(&batch).is_err_and(|error| error.message.contains("push pools")));
    }

    #[test]
    fn rows_survive_being_written_and_have_the_filters_of_the_policy() {
        let rows = "[[when]]\nutilisation_min = 0.75\nfactors = { gpu-fragmentation = 2.0 }\n";
        let spec = policy_file::parse(&with(rows)).unwrap();
        assert_eq!(policy_file::parse(&policy_file::text(&spec).unwrap()).unwrap(), spec);
        let policy = Policy::compile(spec).unwrap().heeding_needs().heeding_maintenance();
        assert_eq!(policy.in_row(Some(0)).filters.len(), policy.filters.len());
    }
}
