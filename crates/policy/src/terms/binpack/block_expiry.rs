//! `block-expiry`: how near the end of the lease is, compared with the job.

use crate::params::rule;
use crate::rules::capacity::PREDICT_DURATIONS;
use crate::term::{Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "block-expiry",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "Grows from 0 to 1 as the end of the node's lease comes nearer than twice the job; weighed negatively.",
    reads: Reads { clock: true, ..Reads::PAIR },
    params: BlockExpiry::PARAMS,
    ..TermInfo::of(Family::BinPack, BlockExpiry::build)
};

rule! { Term BlockExpiry {
    predict: bool = PREDICT_DURATIONS,
} }

impl Term for BlockExpiry {
    fn score(&self, view: &View<'_>) -> f64 {
        let Some(end) = view.node.block.as_ref().and_then(|block| block.ends_at()) else { return 0.0 };
        let (left, twice) = (end.since(view.now()), view.durations(self.predict).1 * 2);
        if left < twice { 1.0 - left.as_f64() / twice.as_f64() } else { 0.0 }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        if let Some(end) = view.node.block.as_ref().and_then(|block| block.ends_at()) {
            facts.note("lease_left_s", Fact::Number(end.since(view.now()).as_secs_f64()));
            if let Some(took) = view.predicted(self.predict) {
                facts.note("predicted_s", Fact::Number(took.as_secs_f64()));
            }
        }
    }
}
