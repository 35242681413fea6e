//! `batch-memory`: the node has the memory that the job wants of each node.

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-memory",
    description: "Refuses nodes with less memory than the job wants on each node, even if nothing else ran.",
    reasons: &[Reason::Memory],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    if view.node.ram_total >= view.spec.ram_mib {
        return None;
    }
    let (needed, found) = (Quantity::Mib(view.spec.ram_mib), Quantity::Mib(view.node.ram_total));
    Some(
        Refusal::never(Reason::Memory, needed, found, Wake::RegistrationChange)
            .remedy("ask for less memory per node"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal};

    #[test]
    fn the_whole_node_counts() {
        let node = "ram_mib = 512\nram_committed_mib = 512";
        assert!(admits(&INFO, "ram_mib = 512", node));
        assert_eq!(refusal(&INFO, "ram_mib = 513", node).reason, Reason::Memory);
    }
}
