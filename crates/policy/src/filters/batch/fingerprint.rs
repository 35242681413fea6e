//! `batch-fingerprint`: sensitive jobs run on known, undrifted configurations only.

use landfall_model::{JobSpec, Name, Node, World};

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-fingerprint",
    description: "Refuses nodes of unknown, drifted or other configuration than the pool's baseline, for sensitive jobs.",
    reasons: &[Reason::Fingerprint],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

/// The fingerprint that the pool wants, if it says.
fn baseline<'a>(spec: &JobSpec, node: &Node, world: &'a World) -> Option<&'a Name> {
    let pool = node.pool.as_ref().or(spec.pool.as_ref())?;
    world.pools.get(pool)?.baseline.as_ref()
}

/// Whether the configuration will do.
fn admits(spec: &JobSpec, node: &Node, world: &World) -> bool {
    if !spec.sensitive {
        return true;
    }
    let Some(fingerprint) = &node.fingerprint else { return false };
    !node.drifted && baseline(spec, node, world).is_none_or(|baseline| baseline == fingerprint)
}

fn check(view: &View<'_>) -> Option<Refusal> {
    let (spec, node, world) = (view.spec, view.node, view.pass.world);
    if admits(spec, node, world) {
        return None;
    }
    let needed = match baseline(spec, node, world) {
        Some(baseline) => Quantity::Name(baseline.clone()),
        None => Quantity::word("a known, undrifted fingerprint"),
    };
    let (found, remedy) = match &node.fingerprint {
        None => (Quantity::word("unknown"), "let the node report all parts of its fingerprint"),
        Some(_) if node.drifted => {
            (Quantity::word("drifted"), "bring the node back to the baseline, or acknowledge it")
        }
        Some(other) => (Quantity::Name(other.clone()), "bring the node to the pool's baseline"),
    };
    Some(Refusal::not_now(Reason::Fingerprint, needed, found, Wake::RegistrationChange).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::batch::testing::refusal;

    fn found(node: &str, job: &str) -> Option<String> {
        let text = format!(
            r#"
            pools = [{{ id = "plain" }}, {{ id = "strict", baseline = "P" }}]
            nodes = [{{ id = "n", {node} }}]
            jobs = [{{ id = "j", {job} }}]"#
        );
        refusal(&INFO, &text).map(|refusal| refusal.found.to_string())
    }

    #[test]
    fn sensitive_jobs_want_a_known_undrifted_baseline() {
        let sensitive = "sensitive = true";
        assert_eq!(found("drifted = true", "sensitive = false"), None, "others do not mind");
        assert_eq!(found(r#"fingerprint = "Q""#, sensitive), None, "no pool, no baseline");
        assert_eq!(found(r#"fingerprint = "Q", pool = "plain""#, sensitive), None);
        assert_eq!(found(r#"fingerprint = "P", pool = "strict""#, sensitive), None);
        assert_eq!(found(r#"fingerprint = "Q", pool = "strict""#, sensitive).as_deref(), Some("Q"));
        assert_eq!(found(r#"fingerprint = "P", drifted = true"#, sensitive).as_deref(), Some("drifted"));
        assert_eq!(found(r#"pool = "plain""#, sensitive).as_deref(), Some("unknown"));
    }
}
