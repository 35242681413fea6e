//! A policy made ready to use: every name resolved, every parameter checked, every oddity noted.

use std::collections::BTreeMap;

use landfall_model::scenario::closest;

use crate::catalogue;
use crate::choice::{CHOICE_PARAMS, Choice, position};
use crate::devices::{self, DeviceRule};
use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, ParamInfo, Params, check};
use crate::rules::capacity::Request;
use crate::spec::{Combine, Levels, Otherwise, Pick, PolicySpec, TermUse, Weight};
use crate::term::{Family, Reads, Term, TermInfo, TermKind};

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct PolicyError {
    /// Where in the policy file, such as `terms[2].weight`.
    pub field: String,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl PolicyError {
    pub(crate) fn at(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A filter with what the catalogue says about it.
pub(crate) type BoundFilter = (&'static FilterInfo, Box<dyn Filter>);

/// A term with its weight.
pub(crate) struct Bound {
    pub(crate) info: &'static TermInfo,
    pub(crate) term: Box<dyn Term>,
    pub(crate) weight: f64,
    by_runtime: Vec<(String, f64)>,
}

impl Bound {
    /// Whether a longer wait can only raise a total through it.
    fn favours_waiting(&self) -> bool {
        let mut weights = self.by_runtime.iter().map(|(_, weight)| *weight).chain([self.weight]);
        !self.info.reads.queue_wait || weights.all(|weight| weight >= 0.0)
    }

    /// Whether it can change a total or veto; a weight of 0 leaves only the veto.
    fn counts(&self) -> bool {
        self.weight != 0.0
            || self.by_runtime.iter().any(|(_, weight)| *weight != 0.0)
            || self.info.class != TermKind::Soft
    }

    /// The largest weight it has for any runtime.
    pub(crate) fn weight_max(&self) -> f64 {
        self.by_runtime.iter().map(|(_, weight)| *weight).fold(self.weight, f64::max)
    }

    /// The smallest weight it has for any runtime.
    pub(crate) fn weight_min(&self) -> f64 {
        self.by_runtime.iter().map(|(_, weight)| *weight).fold(self.weight, f64::min)
    }

    pub(crate) fn weight_for(&self, runtime: &str) -> f64 {
        self.by_runtime.iter().find(|(name, _)| name == runtime).map_or(self.weight, |(_, weight)| *weight)
    }
}

/// A policy ready to use.
///
/// ```
/// use landfall_model::scenario::{Format, parse};
/// use landfall_policy::builtin;
///
/// let situation = parse(
///     r#"
///     now_ms = 0
///     nodes = [
///         { id = "small", cpu_milli = 4000, ram_mib = "8GiB" },
///         { id = "large", cpu_milli = 4000, ram_mib = "64GiB" },
///     ]
///     jobs = [{ id = "build", ram_mib = "16GiB" }]
///     "#,
///     Format::Toml,
/// )?;
/// let policy = builtin::policy("fit").ok_or("there is no such policy")??;
/// let ranking = policy.rank_nodes(&situation, &situation.jobs()[0]);
/// assert_eq!(ranking.winner.as_ref().map(|winner| winner.as_str()), Some("large"));
/// // Those that were refused are there, too, each with all its reasons.
/// assert!(!ranking.candidates[1].is_admitted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Policy {
    spec: PolicySpec,
    pub(crate) filters: Vec<BoundFilter>,
    pub(crate) terms: Vec<Bound>,
    pub(crate) multipliers: Vec<Bound>,
    pub(crate) devices: DeviceRule,
    pub(crate) choice: Choice,
    pub(crate) request: Request,
    pub(crate) level_terms: Option<(usize, usize)>,
    reads: Reads,
    warnings: Vec<String>,
    /// The policy as each row of `when` weighs it.
    pub(crate) rows: Vec<Policy>,
    /// Which row of another policy it is.
    pub(crate) in_row: Option<usize>,
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Policy {
    /// Resolves and checks a policy.
    pub fn compile(spec: PolicySpec) -> Result<Self, PolicyError> {
        if spec.name.is_empty() || spec.name.len() > 100 || spec.name.chars().any(char::is_control) {
            return Err(PolicyError::at("name", "a policy's name has 1 to 100 printable characters"));
        }
        let mut known: Vec<&ParamInfo> = CHOICE_PARAMS.iter().chain(&devices::PARAMS).collect();
        known.extend(crate::rules::offer::PARAMS.iter());
        let mut weight_params = Vec::new();
        let filters = filters(&spec, &mut known)?;
        let terms = terms(&spec, "terms", &spec.terms, &mut known, &mut weight_params)?;
        let multipliers = terms_as_multipliers(&spec, &mut known, &mut weight_params)?;
        check_shared(&spec, &known, &weight_params)?;

        let none = BTreeMap::new();
        let params = Params { own: &none, shared: &spec.params };
        let at_params = |e: ParamError| PolicyError::at(format!("params.{}", e.name), e.message);
        let devices = DeviceRule::build(&params).map_err(at_params)?;
        let choice =
            Choice::build(&params, spec.node_ties.clone(), spec.job_ties.clone()).map_err(at_params)?;
        let request = Request::build(&params).map_err(at_params)?;
        let infos: Vec<&TermInfo> = terms.iter().map(|bound| bound.info).collect();
        let level_terms = match spec.levels {
            None => None,
            Some(Levels::Fit) => match (position(&infos, "fit"), position(&infos, "speed")) {
                (Some(fit), Some(speed)) => Some((fit, speed)),
                _ => {
                    return Err(PolicyError::at(
                        "levels",
                        "levels = \"fit\" needs the terms `fit` and `speed`",
                    ));
                }
            },
        };
        let counted = terms.iter().filter(|bound| bound.counts()).chain(&multipliers);
        let mut reads = counted.fold(Reads::default(), |all, bound| all.and(bound.info.reads));
        // A switch of filters and terms: only with it does what ran before count.
        reads.history |= spec.params.get("predict_durations").and_then(toml::Value::as_bool) == Some(true)
            || spec
                .filters
                .iter()
                .map(|used| &used.params)
                .chain(spec.terms.iter().map(|used| &used.params))
                .any(|own| own.get("predict_durations").and_then(toml::Value::as_bool) == Some(true));
        let mut policy = Self {
            filters,
            terms,
            multipliers,
            devices,
            choice,
            request,
            level_terms,
            reads,
            warnings: Vec::new(),
            rows: crate::following::rows(&spec)?,
            in_row: None,
            spec,
        };
        policy.check_weights()?;
        Ok(policy)
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The data it was made from.
    pub fn spec(&self) -> &PolicySpec {
        &self.spec
    }

    /// What looked odd but was accepted.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What its terms look at beyond the pair.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// Whether jobs that differ in nothing but their times keep the order of their queue times, whatever the clock says.
    pub fn keeps_queue_order(&self) -> bool {
        let scaled = self.multipliers.iter().any(|bound| bound.info.reads.queue_wait);
        let (reads, mut terms) = (self.reads, self.terms.iter());
        !(reads.ready_wait || reads.report || reads.identity || scaled) && terms.all(Bound::favours_waiting)
    }

    /// What the catalogue says about its enabled terms, with the weight of each.
    pub fn term_weights(&self) -> impl Iterator<Item = (&'static TermInfo, f64)> {
        self.terms.iter().chain(&self.multipliers).map(|bound| (bound.info, bound.weight))
    }

    /// The lowest total that may be chosen, if there is one.
    pub fn dispatch_floor(&self) -> Option<f64> {
        Some(self.choice.dispatch_floor).filter(|floor| floor.is_finite())
    }

    /// Whether capacity is asked for when no node is admitted.
    pub fn requests_capacity(&self) -> bool {
        self.spec.otherwise == Otherwise::RequestCapacity
    }

    /// Rounds after which the number of rounds a job has been pending no longer matters.
    /// Rounds after which a job is no longer held back for want of a report.
    pub fn rescore_rounds(&self) -> u32 {
        const DEFAULT: i64 = 4;
        let own = self.spec.terms.iter().map(|term| &term.params);
        let given =
            own.chain([&self.spec.params]).filter_map(|params| params.get("rescore_rounds")?.as_integer());
        u32::try_from(given.max().unwrap_or(DEFAULT)).unwrap_or(u32::MAX)
    }

    pub(crate) fn picks_uniformly(&self) -> bool {
        self.spec.pick == Pick::Uniform
    }

    pub(crate) fn takes_mean(&self) -> bool {
        self.spec.combine == Combine::Mean
    }

    /// Weights that sum oddly are a warning, never silently rescaled; what makes no sense is an error.
    fn check_weights(&mut self) -> Result<(), PolicyError> {
        let sum: f64 = self.terms.iter().map(|bound| bound.weight).sum();
        let all =
            |family| !self.terms.is_empty() && self.terms.iter().all(|bound| bound.info.family == family);
        let (is_profile, is_offer) = (all(Family::Batch), all(Family::Offer));
        if self.spec.normalize {
            if sum.is_nan() || sum <= 0.0 {
                return Err(PolicyError::at(
                    "normalize",
                    format!("weights that sum to {sum} cannot be normalised"),
                ));
            }
            if self.terms.iter().any(|bound| !bound.by_runtime.is_empty()) {
                return Err(PolicyError::at("normalize", "weights by runtime cannot be normalised")
                    .hint("use combine = \"mean\", which divides by the weights in force"));
            }
            self.terms.iter_mut().for_each(|bound| bound.weight /= sum);
        } else if is_profile {
            if (sum - 1.0).abs() > 1e-9 {
                self.warnings.push(format!(
                    "the weights of policy `{}` sum to {sum}, not 1; they are used as given (normalize = true rescales)",
                    self.spec.name
                ));
            }
        } else if is_offer {
            let reachable: f64 = self
                .terms
                .iter()
                .map(|bound| (bound.weight * bound.info.range.1.unwrap_or(1.0)).max(0.0))
                .sum();
            if reachable > self.choice.cap + 1e-9 {
                self.warnings.push(format!(
                    "the terms of policy `{}` can reach {reachable}; totals above the cap of {} are equal",
                    self.spec.name, self.choice.cap
                ));
            }
        }
        if self.takes_mean() || is_profile {
            let negative = self.terms.iter().position(|bound| {
                bound.info.class == TermKind::Soft
                    && (bound.weight < 0.0 || bound.by_runtime.iter().any(|(_, weight)| *weight < 0.0))
            });
            if let Some(at) = negative {
                let name = self.terms[at].info.name;
                return Err(PolicyError::at(
                    format!("terms[{at}].weight"),
                    format!("the weight of `{name}` must be 0 or more here"),
                ));
            }
        }
        if self.takes_mean() {
            let runtimes: Vec<&str> = self
                .terms
                .iter()
                .flat_map(|bound| bound.by_runtime.iter().map(|(name, _)| name.as_str()))
                .chain(["container"])
                .collect();
            for runtime in runtimes {
                let soft = self.terms.iter().filter(|bound| bound.info.class == TermKind::Soft);
                let sum: f64 = soft.map(|bound| bound.weight_for(runtime)).sum();
                if sum.is_nan() || sum <= 0.0 {
                    let message =
                        format!("the weights for runtime `{runtime}` must have a positive sum, not {sum}");
                    return Err(PolicyError::at("terms", message));
                }
            }
        }
        Ok(())
    }
}

fn unknown<'a>(
    field: String,
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> PolicyError {
    let error = PolicyError::at(field, format!("there is no {what} `{name}`"));
    match closest(name, known) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("`landfall policy terms` lists what there is ({what}s included)")),
    }
}

fn filters(spec: &PolicySpec, known: &mut Vec<&'static ParamInfo>) -> Result<Vec<BoundFilter>, PolicyError> {
    let mut filters = Vec::with_capacity(spec.filters.len());
    for (i, used) in spec.filters.iter().enumerate() {
        let field = format!("filters[{i}]");
        let info = catalogue::filter(&used.name).ok_or_else(|| {
            unknown(format!("{field}.name"), "filter", &used.name, catalogue::filters().map(|info| info.name))
        })?;
        if filters.iter().any(|(other, _): &(&FilterInfo, _)| other.name == info.name) {
            return Err(PolicyError::at(
                format!("{field}.name"),
                format!("filter `{}` is there twice", info.name),
            ));
        }
        check_own(&field, &used.params, info.params)?;
        known.extend(info.params);
        let params = Params { own: &used.params, shared: &spec.params };
        let filter = (info.build)(&params).map_err(|error| param_error(&field, &used.params, error))?;
        filters.push((info, filter));
    }
    Ok(filters)
}

fn terms_as_multipliers(
    spec: &PolicySpec,
    known: &mut Vec<&'static ParamInfo>,
    weight_params: &mut Vec<String>,
) -> Result<Vec<Bound>, PolicyError> {
    let found = terms(spec, "multipliers", &spec.multipliers, known, weight_params)?;
    match found.iter().position(|bound| bound.info.class != TermKind::Multiplier) {
        None => Ok(found),
        Some(at) => Err(PolicyError::at(
            format!("multipliers[{at}].name"),
            format!("`{}` is no multiplier; list it under [[terms]]", found[at].info.name),
        )),
    }
}

fn terms(
    spec: &PolicySpec,
    list: &str,
    uses: &[TermUse],
    known: &mut Vec<&'static ParamInfo>,
    weight_params: &mut Vec<String>,
) -> Result<Vec<Bound>, PolicyError> {
    let mut terms: Vec<Bound> = Vec::with_capacity(uses.len());
    for (i, used) in uses.iter().enumerate() {
        let field = format!("{list}[{i}]");
        let info = catalogue::term(&used.name).ok_or_else(|| {
            unknown(format!("{field}.name"), "term", &used.name, catalogue::terms().map(|info| info.name))
        })?;
        if uses[..i].iter().any(|other| other.name == used.name) {
            return Err(PolicyError::at(
                format!("{field}.name"),
                format!("term `{}` is there twice", info.name),
            ));
        }
        if list == "terms" && info.class == TermKind::Multiplier {
            let message = format!("`{}` multiplies the total; list it under [[multipliers]]", info.name);
            return Err(PolicyError::at(format!("{field}.name"), message));
        }
        check_own(&field, &used.params, info.params)?;
        known.extend(info.params);
        let params = Params { own: &used.params, shared: &spec.params };
        let term = (info.build)(&params).map_err(|error| param_error(&field, &used.params, error))?;
        let weight = weight(spec, used, &field, weight_params)?;
        for (runtime, weight) in &used.weight_by_runtime {
            finite(*weight, || format!("{field}.weight_by_runtime.{runtime}"))?;
        }
        if used.enabled {
            let by_runtime =
                used.weight_by_runtime.iter().map(|(name, weight)| (name.clone(), *weight)).collect();
            terms.push(Bound { info, term, weight, by_runtime });
        }
    }
    Ok(terms)
}

/// A wrong value stands in the part's own table or in the policy's.
fn param_error(field: &str, own: &BTreeMap<String, toml::Value>, error: ParamError) -> PolicyError {
    let table = if own.contains_key(&error.name) { format!("{field}.params") } else { "params".to_owned() };
    PolicyError::at(format!("{table}.{}", error.name), error.message)
}

fn weight(
    spec: &PolicySpec,
    used: &TermUse,
    field: &str,
    weight_params: &mut Vec<String>,
) -> Result<f64, PolicyError> {
    match &used.weight {
        Weight::Number(number) => finite(*number, || format!("{field}.weight")),
        Weight::Param(name) => {
            weight_params.push(name.clone());
            let value = spec.params.get(name).ok_or_else(|| {
                PolicyError::at(format!("{field}.weight"), format!("there is no parameter `{name}`"))
                    .hint(format!("add `{name} = 1.0` under [params], or write a number"))
            })?;
            let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
            finite(number.unwrap_or(f64::NAN), || format!("params.{name}"))
        }
    }
}

fn finite(value: f64, field: impl FnOnce() -> String) -> Result<f64, PolicyError> {
    const WEIGHT_MAX: f64 = 1e9;
    if value.is_finite() && value.abs() <= WEIGHT_MAX {
        return Ok(value);
    }
    Err(PolicyError::at(field(), format!("a weight must be a finite number within ±{WEIGHT_MAX:e}")))
}

fn check_own(
    field: &str,
    own: &BTreeMap<String, toml::Value>,
    infos: &[ParamInfo],
) -> Result<(), PolicyError> {
    for (name, value) in own {
        let info = infos.iter().find(|info| info.name == name).ok_or_else(|| {
            unknown(format!("{field}.params.{name}"), "parameter", name, infos.iter().map(|info| info.name))
        })?;
        check(info, value).map_err(|e| PolicyError::at(format!("{field}.params.{name}"), e.message))?;
    }
    Ok(())
}

fn check_shared(
    spec: &PolicySpec,
    known: &[&ParamInfo],
    weight_params: &[String],
) -> Result<(), PolicyError> {
    for (name, value) in &spec.params {
        if weight_params.contains(name) {
            continue;
        }
        let Some(info) = known.iter().find(|info| info.name == name) else {
            let names = known.iter().map(|info| info.name);
            return Err(unknown(format!("params.{name}"), "parameter", name, names));
        };
        check(info, value).map_err(|e| PolicyError::at(format!("params.{name}"), e.message))?;
    }
    Ok(())
}
