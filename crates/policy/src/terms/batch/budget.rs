//! The multiplier `budget`: jobs of a tenant that runs out of budget sink, but never out of sight.

use std::f64::consts::PI;

use crate::params::{ParamError, ParamInfo, Params};
use crate::term::{Family, Term, TermInfo, TermKind};
use crate::verdict::{Fact, Facts};
use crate::view::View;

/// Up to this used fraction nothing happens.
const KNEE: f64 = 0.8;

/// What is left when the budget is well exceeded.
const FLOOR: f64 = 0.05;

const CURVE: ParamInfo = ParamInfo::word(
    "budget_curve",
    "cosine",
    &["cosine", "linear", "off"],
    "How scores fall from 80 % of a budget on: smoothly until 120 %, in a line until 100 %, or not at all.",
);

pub(crate) const INFO: TermInfo = TermInfo {
    name: "budget",
    class: TermKind::Multiplier,
    range: (FLOOR, Some(1.0)),
    description: "Lowers the scores of tenants that come to the end of their budget, or pass it.",
    params: &[CURVE],
    ..TermInfo::of(Family::Batch, build)
};

#[derive(Debug, Clone, Copy)]
enum Curve {
    Cosine,
    Linear,
    Off,
}

struct Budget {
    curve: Curve,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    let curve = match params.word(&CURVE)?.as_str() {
        "linear" => Curve::Linear,
        "off" => Curve::Off,
        _ => Curve::Cosine,
    };
    Ok(Box::new(Budget { curve }))
}

/// The used fraction of the tenant's budget; `None` without one.
fn used(view: &View<'_>) -> Option<f64> {
    view.pass.tenant(view.spec)?.budget.used_fraction()
}

impl Curve {
    fn at(self, used: f64) -> f64 {
        match self {
            Self::Off => 1.0,
            _ if used <= KNEE => 1.0,
            Self::Cosine if used <= 1.2 => {
                FLOOR + (1.0 - FLOOR) * (1.0 + libm::cos(PI * (used - KNEE) / 0.4)) / 2.0
            }
            Self::Linear if used <= 1.0 => 1.0 - 0.8 * (used - KNEE) / 0.2,
            Self::Cosine | Self::Linear => FLOOR,
        }
    }
}

impl Term for Budget {
    fn score(&self, view: &View<'_>) -> f64 {
        used(view).map_or(1.0, |used| self.curve.at(used))
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        match used(view) {
            None => facts.note("budget_used", Fact::word("no budget")),
            // A budget of zero is exhausted by any use; its fraction is no number that helps anybody.
            Some(f64::MAX) => facts.note("budget_used", Fact::word("exhausted")),
            Some(used) => facts.note("budget_used", Fact::Number(used)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::INFO;
    use crate::terms::batch::testing::{close, queue};

    fn of(budget: &str, params: &str) -> f64 {
        let scenario = format!(
            r#"tenants = [{{ id = "t", {budget} }}]
            nodes = [{{ id = "n" }}]
            jobs = [{{ id = "j", tenant = "t" }}]"#
        );
        queue(&INFO, params, &scenario)
    }

    fn used(percent: u32, params: &str) -> f64 {
        of(&format!("gpu_hours = 100, gpu_hours_used = {percent}"), params)
    }

    #[test]
    fn b12_curves() {
        for (percent, want) in [(0, 1.0), (80, 1.0), (90, 0.860_876), (100, 0.525), (120, 0.05), (150, 0.05)]
        {
            close(used(percent, ""), want);
        }
        for (percent, want) in [(80, 1.0), (90, 0.6), (100, 0.2), (101, 0.05)] {
            close(used(percent, r#"budget_curve = "linear""#), want);
        }
        close(used(150, r#"budget_curve = "off""#), 1.0);
    }

    #[test]
    fn no_budget_and_a_budget_of_nothing() {
        close(of("share = 0.5", ""), 1.0);
        close(of("gpu_hours = 0", ""), 0.05);
        close(
            of("gpu_hours = 1000, gpu_hours_used = 1, node_hours = 10, node_hours_used = 9", ""),
            0.860_876,
        );
        let unknown = r#"nodes = [{ id = "n" }]
            jobs = [{ id = "j", tenant = "nobody" }]"#;
        close(queue(&INFO, "", unknown), 1.0);
    }
}
