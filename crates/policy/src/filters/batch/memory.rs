//! `batch-memory`: the node has the memory that the job wants of each node.

use landfall_model::{JobSpec, Node};

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-memory",
    description: "Refuses nodes with less memory than the job wants on each node, even if nothing else ran.",
    reasons: &[Reason::Memory],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

/// Whether the node is large enough.
fn admits(spec: &JobSpec, node: &Node) -> bool {
    node.ram_total >= spec.ram_mib
}

fn check(view: &View<'_>) -> Option<Refusal> {
    if admits(view.spec, view.node) {
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
    use crate::terms::batch::testing::refusal;

    #[test]
    fn the_whole_node_counts() {
        let with = |asked: u32| {
            refusal(
                &INFO,
                &format!(
                    r#"nodes = [{{ id = "n", ram_mib = 512, ram_committed_mib = 512 }}]
                jobs = [{{ id = "j", ram_mib = {asked} }}]"#
                ),
            )
        };
        assert_eq!(with(512), None);
        assert_eq!(with(513).unwrap().reason, Reason::Memory);
    }
}
