//! Several runs side by side: mean and spread over seeds, and the difference to a baseline.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::number::{self, rounded};
use super::{Better, CATALOGUE, Measure, Measures};

/// Why runs cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// There are no runs.
    #[error("there is no run to compare")]
    NoRuns,
    /// The baseline is none of the policies.
    #[error("no run of the baseline `{baseline}` on `{trace}`; policies there: {have}")]
    NoBaseline {
        /// What was asked for.
        baseline: String,
        /// Where it is missing.
        trace: String,
        /// What there is.
        have: String,
    },
}

/// The runs of one policy.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PolicyRuns {
    /// The policy.
    pub policy: String,
    /// The seed of each run.
    pub seeds: Vec<Option<u64>>,
}

/// Runs of several policies on one trace. As JSON: fixed order of keys, six decimals.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Comparison {
    /// The trace.
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
    /// The measure.
    pub measure: &'static Measure,
    /// One cell per policy; nothing where its runs do not have the measure.
    pub cells: Vec<Option<Cell>>,
}

/// One measure of one policy.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Cell {
    /// Runs that have the measure.
    pub runs: usize,
    /// Mean over them.
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
    /// Whether the difference is larger than either spread; nothing if there is no spread.
    pub beyond_spread: Option<bool>,
}

/// Better or worse than the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is better.
    Better,
    /// It is worse.
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
    #[must_use]
    pub fn row(&self, key: &str) -> Option<&Row> {
        self.measures.iter().find(|row| row.measure.key == key)
    }
}

impl Row {
    fn of(measure: &'static Measure, policies: &[(&str, Vec<&Measures>)], base: usize) -> Option<Self> {
        let mut cells: Vec<Option<Cell>> = policies
            .iter()
            .map(|(_, runs)| Cell::of(&runs.iter().filter_map(|run| measure.of(run)).collect::<Vec<f64>>()))
            .collect();
        cells.iter().any(Option::is_some).then_some(())?;
        if let Some(baseline) = cells[base] {
            for (_, cell) in cells.iter_mut().enumerate().filter(|(place, _)| *place != base) {
                if let Some(cell) = cell {
                    cell.against = Some(Against::of(cell, &baseline, measure.better));
                }
            }
        }
        Some(Self { measure, cells })
    }
}

impl Cell {
    fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let spread = (values.len() > 1).then(|| libm::sqrt(squares / (count - 1.0)));
        Some(Self { runs: values.len(), mean, spread, against: None })
    }
}

impl Against {
    fn of(cell: &Cell, baseline: &Cell, better: Better) -> Self {
        let absolute = cell.mean - baseline.mean;
        let verdict = match better {
            _ if rounded(absolute) == 0.0 => Verdict::Same,
            Better::Neither => Verdict::Other,
            Better::Lower if absolute < 0.0 => Verdict::Better,
            Better::Higher if absolute > 0.0 => Verdict::Better,
            Better::Lower | Better::Higher => Verdict::Worse,
        };
        let spread = match (cell.spread, baseline.spread) {
            (Some(own), Some(other)) => Some(own.max(other)),
            (own, other) => own.or(other),
        };
        Self {
            absolute,
            relative: (baseline.mean != 0.0).then(|| absolute / baseline.mean.abs()),
            verdict,
            beyond_spread: spread.map(|spread| absolute.abs() > spread),
        }
    }
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
