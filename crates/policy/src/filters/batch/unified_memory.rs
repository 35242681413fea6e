//! `batch-unified-memory`: a job that needs unified memory gets a node that has it.

use landfall_model::{JobSpec, Node};

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::view::View;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-unified-memory",
    description: "Refuses nodes without unified memory if the job needs it.",
    reasons: &["unified_memory"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct UnifiedMemory;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(UnifiedMemory))
}

/// Whether the node has it, or the job does not need it.
pub(super) fn admits(spec: &JobSpec, node: &Node) -> bool {
    node.unified_memory || !spec.unified_memory
}

impl Filter for UnifiedMemory {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        if admits(view.spec, view.node) {
            return None;
        }
        let (needed, found) = (Quantity::Word("unified memory"), Quantity::Word("none"));
        let remedy = "use a node with a unified domain";
        Some(Refusal::never("unified_memory", needed, found, Wake::RegistrationChange).remedy(remedy))
    }
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
        assert_eq!(with(false, true).unwrap().reason, "unified_memory");
    }
}
