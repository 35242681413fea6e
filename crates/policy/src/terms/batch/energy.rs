//! Factor 7, `energy`: how cheap energy is now.

use crate::params::{ParamError, ParamInfo, Params};
use crate::score::clamp01;
use crate::term::{Family, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

/// The price while none is known, and the value for jobs that prices do not concern.
const UNKNOWN: f64 = 0.5;

const SCOPE: ParamInfo = ParamInfo::word(
    "energy_scope",
    "all",
    &["all", "flexible"],
    "Whose score follows the price: that of all jobs, or of those that said they can wait for cheap energy.",
);

pub(crate) const INFO: TermInfo = TermInfo {
    name: "energy",
    range: (0.0, Some(1.0)),
    description: "Rises as energy gets cheaper, so that work starts when it costs little.",
    params: &[SCOPE],
    ..TermInfo::of(Family::Batch, build)
};

struct Energy {
    flexible_only: bool,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(Energy { flexible_only: params.word(&SCOPE)? == "flexible" }))
}

impl Term for Energy {
    fn score(&self, view: &View<'_>) -> f64 {
        if self.flexible_only && !view.spec.flexible {
            return UNKNOWN;
        }
        1.0 - clamp01(view.pass.world.energy_price.unwrap_or(UNKNOWN))
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        match view.pass.world.energy_price {
            Some(price) => facts.note("energy_price", Fact::Number(price)),
            None => facts.note("energy_price", Fact::word("unknown")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::INFO;
    use crate::terms::batch::testing::{close, queue};

    fn of(price: &str, flexible: bool, params: &str) -> f64 {
        let scenario = format!(
            r#"{price}
            nodes = [{{ id = "n" }}]
            jobs = [{{ id = "j", flexible = {flexible} }}]"#
        );
        queue(&INFO, params, &scenario)
    }

    #[test]
    fn b10_cheap_is_good() {
        close(of("energy_price = 0.1", false, ""), 0.9);
        close(of("energy_price = 1.4", false, ""), 0.0);
        close(of("energy_price = -0.4", false, ""), 1.0);
        close(of("", false, ""), 0.5);
    }

    #[test]
    fn the_price_may_concern_flexible_jobs_only() {
        let scope = r#"energy_scope = "flexible""#;
        close(of("energy_price = 0.1", true, scope), 0.9);
        close(of("energy_price = 0.1", false, scope), 0.5);
    }
}
