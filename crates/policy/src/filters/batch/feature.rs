//! `batch-feature`: the node has every feature that the job names, as often as it wants.

use landfall_model::{FeatureNeed, JobSpec, Node};

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-feature",
    description: "Refuses nodes without every feature that the job names, each as often as it wants.",
    reasons: &[Reason::Feature],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn missing<'a>(spec: &'a JobSpec, node: &'a Node) -> impl Iterator<Item = &'a FeatureNeed> {
    spec.features.iter().filter(|need| held(node, need) < need.count.max(1))
}

fn held(node: &Node, need: &FeatureNeed) -> u32 {
    node.features.get(&need.name).copied().unwrap_or(0)
}

/// Whether nothing is missing.
fn admits(spec: &JobSpec, node: &Node) -> bool {
    missing(spec, node).next().is_none()
}

fn check(view: &View<'_>) -> Option<Refusal> {
    let (spec, node) = (view.spec, view.node);
    if admits(spec, node) {
        return None;
    }
    let told = || missing(spec, node).filter(|_| view.explains);
    let needed = Quantity::Names(told().map(|need| need.name.clone()).collect());
    let found = Quantity::Names(node.features.keys().filter(|_| view.explains).cloned().collect());
    let remedy = view.say(|| {
        let short = told().map(|need| format!("`{}` {} of {}", need.name, held(node, need), need.count));
        let short = short.collect::<Vec<_>>().join(", ");
        format!("it has {short}; use a node that has all, or drop the need")
    });
    Some(Refusal::never(Reason::Feature, needed, found, Wake::RegistrationChange).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal};

    const NODE: &str = "features = ['nvme', { name = 'nic', count = 2 }]";

    #[test]
    fn every_feature_as_often_as_wanted() {
        assert!(admits(&INFO, "", NODE));
        assert!(admits(&INFO, "features = ['nvme', { name = 'nic', count = 2 }]", NODE));
        let refusal = refusal(&INFO, "features = ['nvme', { name = 'nic', count = 3 }, 'fpga']", NODE);
        assert_eq!(refusal.needed.to_string(), "nic, fpga");
        assert!(refusal.remedy.contains("`nic` 2 of 3, `fpga` 0 of 1"), "{}", refusal.remedy);
    }
}
