//! Filter `pull-architecture`: the node runs the architecture of the build.

use landfall_model::JobKind;

use super::sent_capabilities;
use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pull-architecture",
    description: "Admits builds whose architecture the node lists; builtin ones run anywhere.",
    reasons: &[Reason::Architecture],
    about: About::Registration,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let wanted = &view.spec.architecture;
    if view.spec.kind != JobKind::Build || view.spec.is_builtin() || !sent_capabilities(view.node) {
        return None;
    }
    let listed = view.node.capabilities.as_ref().map(|can| &can.architectures);
    if listed.is_some_and(|listed| listed.contains(wanted)) {
        return None;
    }
    let found = listed.into_iter().flatten().filter(|_| view.explains).cloned().collect();
    let (needed, found) = (Quantity::Name(wanted.clone()), Quantity::Names(found));
    let refusal = Refusal::never(Reason::Architecture, needed, found, Wake::RegistrationChange);
    Some(refusal.remedy(view.say(|| format!("add a node of architecture {wanted}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal, told};

    const NODE: &str = "architectures = ['aarch64', 'x86_64']";

    #[test]
    fn p32_listed_and_builtin_architectures_are_admitted() {
        assert!(admits(&INFO, "architecture = 'x86_64'", NODE));
        assert!(admits(&INFO, "architecture = 'builtin'", NODE));
        let got = refusal(&INFO, "architecture = 'riscv64'", NODE);
        assert_eq!(told(&got), "Architecture Never RegistrationChange: riscv64, not aarch64, x86_64");
    }

    #[test]
    fn evals_have_no_architecture() {
        assert!(admits(&INFO, "kind = 'eval'\narchitecture = 'riscv64'", NODE));
    }

    #[test]
    fn a_node_that_never_sent_capabilities_is_not_asked() {
        assert!(admits(&INFO, "architecture = 'riscv64'", ""));
    }

    #[test]
    fn a_node_that_lists_none_runs_only_builtin_work() {
        for node in ["fetch = true", "architectures = []", "features = ['kvm']"] {
            assert_eq!(refusal(&INFO, "architecture = 'x86_64'", node).found.to_string(), "none");
            assert!(admits(&INFO, "architecture = 'builtin'", node));
        }
    }
}
