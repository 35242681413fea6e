//! Makes a failing plan smaller: jobs, troubles and nodes are left out as long as it still fails.

use crate::plan::Plan;
use crate::run;

/// The smallest plan found that fails, and how.
pub fn shrink(plan: &Plan) -> (Plan, String) {
    let mut best = plan.clone();
    let mut wrong = run(&best).err().unwrap_or_default();
    loop {
        let before = (best.jobs.len(), best.troubles.len());
        for place in (0..best.troubles.len()).rev() {
            let mut less = best.clone();
            less.troubles.remove(place);
            keep(&mut best, &mut wrong, less);
        }
        for place in (0..best.jobs.len()).rev() {
            let mut less = best.clone();
            less.jobs.remove(place);
            keep(&mut best, &mut wrong, less);
        }
        if before == (best.jobs.len(), best.troubles.len()) {
            return (best, wrong);
        }
    }
}

fn keep(best: &mut Plan, wrong: &mut String, less: Plan) {
    if let Err(error) = run(&less) {
        (*best, *wrong) = (less, error);
    }
}
