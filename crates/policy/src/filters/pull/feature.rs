//! Filter `pull-feature`: the node has every feature that the build requires.

use landfall_model::{FeatureNeed, JobKind, Name};

use super::sent_capabilities;
use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pull-feature",
    description: "Admits builds all of whose required features the node lists.",
    reasons: &[Reason::Feature],
    about: About::Registration,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let has = |need: &FeatureNeed| view.node.features.get(&need.name).is_some_and(|have| *have >= need.count);
    let has_all = view.spec.features.iter().all(has);
    if has_all || view.spec.kind != JobKind::Build || !sent_capabilities(view.node) {
        return None;
    }
    let missing = view.spec.features.iter().filter(|need| view.explains && !has(need));
    let missing: Vec<Name> = missing.filter_map(|need| label(&need.name, need.count)).collect();
    let found = view
        .node
        .features
        .iter()
        .filter(|_| view.explains)
        .filter_map(|(name, count)| label(name, *count))
        .collect();
    let missing = Quantity::Names(missing);
    let remedy = view.say(|| format!("add a node with {missing}"));
    Some(
        Refusal::never(Reason::Feature, missing, Quantity::Names(found), Wake::RegistrationChange)
            .remedy(remedy),
    )
}

/// A feature as people read it, with its number where there is more than one.
fn label(name: &Name, count: u32) -> Option<Name> {
    if count == 1 { Some(name.clone()) } else { Name::new(&format!("{count} {name}")).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal, told};

    const NODE: &str = "features = ['kvm', { name = 'licence', count = 2 }]";

    #[test]
    fn p32_every_feature_is_needed() {
        assert!(admits(&INFO, "", NODE));
        assert!(admits(&INFO, "features = ['kvm']", NODE));
        let got = refusal(&INFO, "features = ['kvm', 'big-parallel']", NODE);
        assert_eq!(told(&got), "Feature Never RegistrationChange: big-parallel, not kvm, 2 licence");
    }

    #[test]
    fn features_are_counted() {
        assert!(admits(&INFO, "features = [{ name = 'licence', count = 2 }]", NODE));
        let got = refusal(&INFO, "features = [{ name = 'licence', count = 3 }]", NODE);
        assert_eq!(got.needed.to_string(), "3 licence");
    }

    #[test]
    fn a_node_that_never_sent_capabilities_is_not_asked() {
        assert!(admits(&INFO, "features = ['kvm']", ""));
        assert_eq!(
            refusal(&INFO, "features = ['kvm']", "architectures = ['x86_64']").found.to_string(),
            "none"
        );
    }

    #[test]
    fn evals_are_not_asked() {
        assert!(admits(&INFO, "kind = 'eval'\nfeatures = ['big-parallel']", NODE));
    }
}
