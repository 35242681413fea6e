//! Filter `pull-capacity`: a worker takes no more builds than it said it can run at a time.

use landfall_model::JobKind;

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pull-capacity",
    description: "Admits builds while the node runs fewer jobs than it takes at a time; evals are limited by the node itself.",
    reasons: &[Reason::AtCapacity],
    about: About::Moment,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let (assigned, most) = (view.node.placements.len() as u64, u64::from(view.node.max_concurrent));
    if view.spec.kind == JobKind::Eval || assigned < most {
        return None;
    }
    let (needed, found) = (Quantity::Count(most.saturating_sub(1)), Quantity::Count(assigned));
    Some(
        Refusal::not_now(Reason::AtCapacity, needed, found, Wake::PlacementEnded)
            .remedy("wait until a job on the node ends, or raise its max_concurrent"),
    )
}

#[cfg(test)]
mod tests {
    use landfall_model::scenario::{Format, parse};

    use crate::builtin;

    /// Whether a node with a limit of 2 and so many jobs takes a job of a kind.
    fn takes(assigned: usize, kind: &str) -> bool {
        let placements: Vec<String> = (0..assigned).map(|i| format!("{{job='r{i}'}}")).collect();
        let scenario = format!(
            "[[nodes]]\nid='n'\nmax_concurrent=2\nplacements=[{}]\n[[jobs]]\nid='j'\nkind='{kind}'\n",
            placements.join(",")
        );
        let situation = parse(&scenario, Format::Toml).unwrap();
        let (policy, _) = builtin::pool_policy("simple");
        policy.rank_jobs(&situation, &situation.nodes()[0]).candidates[0].is_admitted()
    }

    #[test]
    fn p33_the_limit_is_strict_and_for_builds_only() {
        assert_eq!([0, 1, 2].map(|assigned| takes(assigned, "build")), [true, true, false]);
        assert!(takes(5, "eval"));
    }
}
