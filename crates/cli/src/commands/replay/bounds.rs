//! Bounds that fail a run: `utilisation<0.6`, or against the baseline `mean_wait_s>+10%`.

use landfall_replay::measures::{CATALOGUE, Comparison, Measure, Measures};

/// A bound that must not be broken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    measure: &'static Measure,
    above: bool,
    limit: Limit,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    Value(f64),
    /// A part of the baseline's value.
    Relative(f64),
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.above { '>' } else { '<' };
        match self.limit {
            Limit::Value(value) => write!(f, "{}{sign}{value}", self.measure.key),
            Limit::Relative(part) => write!(f, "{}{sign}{:+}%", self.measure.key, part * 100.0),
        }
    }
}

pub(crate) fn parse(text: &str) -> Result<Bound, String> {
    let place = text.find(['<', '>']).ok_or("write it as MEASURE>VALUE or MEASURE<VALUE")?;
    let (key, rest) = (text[..place].trim(), text[place + 1..].trim());
    let measure = Measure::named(key).ok_or_else(|| {
        let keys: Vec<&str> = CATALOGUE.iter().map(|measure| measure.key).collect();
        format!("there is no measure `{key}`; there are {}", keys.join(", "))
    })?;
    let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
    let limit = match rest.strip_suffix('%') {
        Some(part) if part.starts_with(['+', '-']) => {
            number(part).map(|percent| Limit::Relative(percent / 100.0))
        }
        Some(_) => {
            return Err(
                "a change against the baseline has a sign, such as +10%; shares are written as 0.9".into()
            );
        }
        None => number(rest).map(Limit::Value),
    };
    let limit = limit.ok_or("the bound is a number, or a change against the baseline such as +10%")?;
    Ok(Bound { measure, above: text[place..].starts_with('>'), limit })
}

impl Bound {
    /// Whether it is a change against a baseline.
    pub(crate) fn is_relative(&self) -> bool {
        matches!(self.limit, Limit::Relative(_))
    }

    /// What is said where a run does not have the measure: a bound on nothing must not pass.
    fn missing(&self) -> String {
        format!("{} was not measured, so its bound cannot hold", self.measure.key)
    }

    fn says(&self, value: f64, baseline: Option<f64>) -> Option<String> {
        let limit = match self.limit {
            Limit::Value(limit) => limit,
            Limit::Relative(part) => {
                let baseline = baseline?;
                baseline + part * baseline.abs()
            }
        };
        let broken = if self.above { value > limit } else { value < limit };
        let word = if self.above { "above" } else { "below" };
        // In the unit in which the bound was written.
        broken.then(|| {
            format!("{} is {}, {word} the bound of {}", self.measure.key, plain(value), plain(limit))
        })
    }

    /// What a single run breaks; bounds against a baseline need one.
    pub(crate) fn broken_by(&self, run: &Measures) -> Option<String> {
        match self.measure.of(run) {
            Some(value) => self.says(value, None),
            None => Some(self.missing()),
        }
    }

    /// What policies of a comparison break.
    pub(crate) fn broken_in(&self, comparison: &Comparison) -> Vec<String> {
        let Some(row) = comparison.row(self.measure.key) else { return vec![self.missing()] };
        let base = comparison.policies.iter().position(|runs| runs.policy == comparison.baseline);
        let mean = |place: usize| row.cells.get(place).copied().flatten().map(|cell| cell.mean);
        let baseline = base.and_then(mean);
        let policies = comparison.policies.iter().enumerate();
        policies
            .filter_map(|(place, runs)| {
                let said = self.says(mean(place)?, baseline)?;
                Some(format!("{} on {}: {said}", runs.policy, comparison.trace))
            })
            .collect()
    }
}

/// A number without more digits than anybody reads.
fn plain(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
