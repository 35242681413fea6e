//! `batch-unified-memory`: a job that needs unified memory gets a node that has it.

use landfall_model::{JobSpec, Node};

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-unified-memory",
    description: "Refuses nodes without unified memory if the job needs it.",
    reasons: &[Reason::UnifiedMemory],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

/// Whether the node has it, or the job does not need it.
fn admits(spec: &JobSpec, node: &Node) -> bool {
    node.unified_memory || !spec.unified_memory
}

fn check(view: &View<'_>) -> Option<Refusal> {
    if admits(view.spec, view.node) {
        return None;
    }
    let (needed, found) = (Quantity::word("unified memory"), Quantity::word("none"));
    let remedy = "use a node with a unified domain";
    Some(Refusal::never(Reason::UnifiedMemory, needed, found, Wake::RegistrationChange).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::batch::testing::refusal;

    #[test]
    fn only_who_needs_it_is_refused() {
        let with = |has: bool, needs: bool| {
            refusal(
                &INFO,
                &format!(
                    r#"nodes = [{{ id = "n", unified_memory = {has} }}]
                jobs = [{{ id = "j", unified_memory = {needs} }}]"#
                ),
            )
        };
        assert_eq!([with(true, true), with(true, false), with(false, false)], [None, None, None]);
        assert_eq!(with(false, true).unwrap().reason, Reason::UnifiedMemory);
    }
}
