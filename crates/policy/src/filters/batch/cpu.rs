//! `batch-cpu`: the node has the CPU that the job wants of each node.

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-cpu",
    description: "Refuses nodes with less CPU than the job wants on each node, even if nothing else ran.",
    reasons: &[Reason::Cpu],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    if view.node.cpu_total >= view.spec.cpu_milli {
        return None;
    }
    let (needed, found) = (Quantity::CpuMilli(view.spec.cpu_milli), Quantity::CpuMilli(view.node.cpu_total));
    Some(
        Refusal::never(Reason::Cpu, needed, found, Wake::RegistrationChange)
            .remedy("ask for less CPU per node"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal};

    #[test]
    fn the_whole_node_counts() {
        let node = "cpu_milli = 8000\ncpu_committed_milli = 8000";
        assert!(admits(&INFO, "cpu_milli = 8000", node));
        assert_eq!(refusal(&INFO, "cpu_milli = 8001", node).reason, Reason::Cpu);
    }
}
