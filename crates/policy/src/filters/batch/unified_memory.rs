//! `batch-unified-memory`: a job that needs unified memory gets a node that has it.

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-unified-memory",
    description: "Refuses nodes without unified memory if the job needs it.",
    reasons: &[Reason::UnifiedMemory],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    if view.node.unified_memory || !view.spec.unified_memory {
        return None;
    }
    let (needed, found) = (Quantity::word("unified memory"), Quantity::word("none"));
    let remedy = "use a node with a unified domain";
    Some(Refusal::never(Reason::UnifiedMemory, needed, found, Wake::RegistrationChange).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal};

    #[test]
    fn only_who_needs_it_is_refused() {
        let (yes, no) = ("unified_memory = true", "unified_memory = false");
        assert!([(yes, yes), (no, yes), (no, no)].iter().all(|(job, node)| admits(&INFO, job, node)));
        assert_eq!(refusal(&INFO, yes, no).reason, Reason::UnifiedMemory);
    }
}
