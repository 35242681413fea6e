//! What is kept of a decision: enough to say later why, small enough to keep with every placement.

use std::borrow::Cow;

use landfall_model::Name;
use landfall_policy::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// Points of one term.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Points {
    pub term: Cow<'static, str>,
    pub raw: f64,
    /// What it added to the total.
    pub points: f64,
}

/// Why something was chosen.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Breakdown {
    /// The total; `None` if nothing was scored.
    pub total: Option<f64>,
    /// What each term gave.
    pub terms: Vec<Points>,
    /// The next best, if there was one.
    pub runner_up: Option<Name>,
}

impl Breakdown {
    /// What is kept of a verdict.
    #[must_use]
    pub fn of(verdict: &Verdict, runner_up: Option<Name>) -> Self {
        let terms = verdict.terms.iter().chain(&verdict.multipliers);
        Self {
            total: verdict.total,
            terms: terms
                .map(|term| Points {
                    term: Cow::Borrowed(term.term),
                    raw: term.raw,
                    points: term.contribution,
                })
                .collect(),
            runner_up,
        }
    }
}
