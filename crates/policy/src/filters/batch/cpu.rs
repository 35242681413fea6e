//! `batch-cpu`: the node has the CPU that the job wants of each node.

use landfall_model::{JobSpec, Node};

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-cpu",
    description: "Refuses nodes with less CPU than the job wants on each node, even if nothing else ran.",
    reasons: &[Reason::Cpu],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

/// Whether the node is large enough.
fn admits(spec: &JobSpec, node: &Node) -> bool {
    node.cpu_total >= spec.cpu_milli
}

fn check(view: &View<'_>) -> Option<Refusal> {
    if admits(view.spec, view.node) {
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
    use crate::terms::batch::testing::refusal;

    #[test]
    fn the_whole_node_counts() {
        let with = |asked: u32| {
            refusal(
                &INFO,
                &format!(
                    r#"nodes = [{{ id = "n", cpu_milli = 8000, cpu_committed_milli = 8000 }}]
                jobs = [{{ id = "j", cpu_milli = {asked} }}]"#
                ),
            )
        };
        assert_eq!(with(8000), None);
        assert_eq!(with(8001).unwrap().reason, Reason::Cpu);
    }
}
