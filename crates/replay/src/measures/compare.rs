//! Several runs side by side: mean and spread over seeds, and the difference to a baseline.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::number::{self, rounded};
use super::{Better, CATALOGUE, Measure, Measures};

/// Why runs cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    #[error("there is no run to compare")]
    NoRuns,
    #[error("no run of the baseline `{baseline}` on `{trace}`; policies there: {have}")]
    NoBaseline { baseline: String, trace: String, have: String },
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PolicyRuns {
    pub policy: String,
    pub seeds: Vec<Option<u64>>,
}

/// Runs of several policies on one trace. As JSON: fixed order of keys, six decimals.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Comparison {
    pub trace: String,
    /// The policy that others are measured against.
    pub baseline: String,
    /// Policies, in the order in which their first runs came.
    pub policies: Vec<PolicyRuns>,
    /// One row per measure that at least one run has.
    pub measures: Vec<Row>,
}

/// One measure of all policies.
#[derive(Debug, Clone)]
pub struct Row {
    pub measure: &'static Measure,
    /// One cell per policy; nothing where its runs do not have the measure.
    pub cells: Vec<Option<Cell>>,
}

/// One measure of one policy.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Cell {
    pub runs: usize,
    #[serde(serialize_with = "number::six")]
    pub mean: f64,
    /// Their standard deviation (of a sample); nothing for a single run.
    #[serde(serialize_with = "number::six_or_null")]
    pub spread: Option<f64>,
    /// The difference to the baseline; nothing for the baseline itself, or if it lacks the measure.
    pub against: Option<Against>,
}

/// A difference to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Against {
    /// Mean less the baseline's mean.
    #[serde(serialize_with = "number::six")]
    pub absolute: f64,
    /// The same as a part of the baseline's mean; nothing if that is zero.
    #[serde(serialize_with = "number::six_or_null")]
    pub relative: Option<f64>,
    /// Whether it is better.
    pub verdict: Verdict,
    /// How much the difference varies: the standard deviation of the differences seed by seed where both policies ran
    /// the same seeds, else the larger of the two spreads; nothing for single runs.
    #[serde(serialize_with = "number::six_or_null")]
    pub spread: Option<f64>,
    /// Whether the difference is larger than that; nothing if there is no spread.
    pub beyond_spread: Option<bool>,
}

/// Better or worse than the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Better,
    Worse,
    /// Equal to six decimals.
    Same,
    /// Another value of a measure that is neither good nor bad.
    Other,
}

impl Comparison {
    /// Compares runs, one comparison per trace, in the order in which traces first appear. Without a baseline, the
    /// first policy of each trace is it.
    pub fn by_trace(runs: &[Measures], baseline: Option<&str>) -> Result<Vec<Self>, CompareError> {
        let mut traces: Vec<(&str, Vec<&Measures>)> = Vec::new();
        for run in runs {
            match traces.iter_mut().find(|(trace, _)| *trace == run.trace) {
                Some((_, found)) => found.push(run),
                None => traces.push((&run.trace, vec![run])),
            }
        }
        if traces.is_empty() {
            return Err(CompareError::NoRuns);
        }
        traces.into_iter().map(|(trace, runs)| Self::of_trace(trace, &runs, baseline)).collect()
    }

    fn of_trace(trace: &str, runs: &[&Measures], baseline: Option<&str>) -> Result<Self, CompareError> {
        let mut policies: Vec<(&str, Vec<&Measures>)> = Vec::new();
        for run in runs {
            match policies.iter_mut().find(|(policy, _)| *policy == run.policy) {
                Some((_, found)) => found.push(run),
                None => policies.push((&run.policy, vec![run])),
            }
        }
        let base = match baseline {
            None => 0,
            Some(name) => policies.iter().position(|(policy, _)| *policy == name).ok_or_else(|| {
                let have: Vec<&str> = policies.iter().map(|(policy, _)| *policy).collect();
                CompareError::NoBaseline {
                    baseline: name.to_owned(),
                    trace: trace.to_owned(),
                    have: have.join(", "),
                }
            })?,
        };
        let measures = CATALOGUE.iter().filter_map(|measure| Row::of(measure, &policies, base)).collect();
        Ok(Self {
            trace: trace.to_owned(),
            baseline: policies[base].0.to_owned(),
            policies: policies
                .into_iter()
                .map(|(policy, runs)| PolicyRuns {
                    policy: policy.to_owned(),
                    seeds: runs.iter().map(|run| run.seed).collect(),
                })
                .collect(),
            measures,
        })
    }

    /// The row of a measure, if any run has it.
    pub fn row(&self, key: &str) -> Option<&Row> {
        self.measures.iter().find(|row| row.measure.key == key)
    }
}

/// Values of a measure with the seeds of their runs.
type Seeded = Vec<(Option<u64>, f64)>;

impl Row {
    fn of(measure: &'static Measure, policies: &[(&str, Vec<&Measures>)], base: usize) -> Option<Self> {
        let values: Vec<Seeded> = policies
            .iter()
            .map(|(_, runs)| runs.iter().filter_map(|run| Some((run.seed, measure.of(run)?))).collect())
            .collect();
        values.iter().any(|values| !values.is_empty()).then_some(())?;
        let baseline = &values[base];
        let cell = |(place, own): (usize, &Seeded)| {
            let mut cell = Cell::of(own)?;
            if place != base {
                cell.against = Against::of(own, baseline, measure.better);
            }
            Some(cell)
        };
        Some(Self { measure, cells: values.iter().enumerate().map(cell).collect() })
    }
}

impl Cell {
    fn of(values: &Seeded) -> Option<Self> {
        let (mean, spread) = mean_and_spread(values.iter().map(|(_, value)| *value))?;
        Some(Self { runs: values.len(), mean, spread, against: None })
    }
}

/// Mean and standard deviation (of a sample); no deviation for one value, nothing for none.
fn mean_and_spread(values: impl ExactSizeIterator<Item = f64> + Clone) -> Option<(f64, Option<f64>)> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    let mean = values.clone().sum::<f64>() / count as f64;
    let squares: f64 = values.map(|value| (value - mean) * (value - mean)).sum();
    Some((mean, (count > 1).then(|| libm::sqrt(squares / (count as f64 - 1.0)))))
}

impl Against {
    fn of(own: &Seeded, baseline: &Seeded, better: Better) -> Option<Self> {
        let (own_mean, own_spread) = mean_and_spread(own.iter().map(|(_, value)| *value))?;
        let (base_mean, base_spread) = mean_and_spread(baseline.iter().map(|(_, value)| *value))?;
        let absolute = own_mean - base_mean;
        let verdict = match better {
            _ if rounded(absolute) == 0.0 => Verdict::Same,
            Better::Neither => Verdict::Other,
            Better::Lower if absolute < 0.0 => Verdict::Better,
            Better::Higher if absolute > 0.0 => Verdict::Better,
            Better::Lower | Better::Higher => Verdict::Worse,
        };
        let spread = match paired(own, baseline) {
            Some(differences) => mean_and_spread(differences.into_iter())?.1,
            None => [own_spread, base_spread].into_iter().flatten().reduce(f64::max),
        };
        Some(Self {
            absolute,
            relative: (base_mean != 0.0).then(|| absolute / base_mean.abs()),
            verdict,
            spread,
            beyond_spread: spread.map(|spread| absolute.abs() > spread),
        })
    }
}

/// Differences seed by seed, if both ran the same seeds in the same order. Runs of one seed share their workload, so
/// these differences vary less than the values do.
fn paired(own: &Seeded, baseline: &Seeded) -> Option<Vec<f64>> {
    let same =
        own.len() == baseline.len() && own.iter().zip(baseline).all(|(a, b)| a.0 == b.0 && a.0.is_some());
    same.then(|| own.iter().zip(baseline).map(|(a, b)| a.1 - b.1).collect())
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut row = to.serialize_struct("Row", 5)?;
        row.serialize_field("measure", self.measure.key)?;
        row.serialize_field("title", self.measure.title)?;
        row.serialize_field("unit", self.measure.unit.name())?;
        row.serialize_field("better", self.measure.better.name())?;
        row.serialize_field("by_policy", &self.cells)?;
        row.end()
    }
}
