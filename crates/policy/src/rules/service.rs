//! What a node must be to take new work, whatever filters a policy lists. The ledger demands the same, so a policy that looked past it would
//! choose a node that is then refused, again and again.

use std::sync::Arc;

use landfall_model::{Approval, Block, BlockStatus, Node, NodeState, Time};

use crate::filter::FilterInfo;
use crate::filters::batch::{block_end, state};
use crate::filters::{binpack, fit, pull};
use crate::refusal::Refusal;
use crate::view::View;

/// One demand.
pub(crate) struct Demand {
    /// What stands in verdicts as the filter that refused.
    pub(crate) name: &'static str,
    check: fn(&View<'_>) -> Option<Refusal>,
    /// Filters that say the same.
    same: &'static [&'static FilterInfo],
}

impl Demand {
    /// What it says against a pair, unless a filter of the policy says so.
    pub(crate) fn against(&self, view: &View<'_>) -> Option<Refusal> {
        let same = |name: &str| self.same.iter().any(|same| same.name == name);
        (self.check)(view).filter(|_| !view.filters.iter().any(|(info, _)| same(info.name)))
    }
}

/// The node is in service.
const STATE: Demand =
    Demand { name: "state", check: state::out_of_service, same: &[&state::INFO, &pull::active::INFO] };

/// Its lease is in force.
const BLOCK: Demand =
    Demand { name: "block", check: binpack::block::check, same: &[&binpack::block::INFO, &block_end::INFO] };

/// Neither its owner nor an operator keeps it from taking work.
pub(crate) const OPEN: [Demand; 2] = [
    Demand { name: "accepting", check: paused, same: &[&fit::accepting::INFO] },
    Demand { name: "approved", check: suspended, same: &[&fit::approved::INFO] },
];

/// Of one that left for good only that is said: nobody can resume it.
fn paused(view: &View<'_>) -> Option<Refusal> {
    fit::accepting::check(view).filter(|_| !view.node.has_left())
}

/// One that nobody has looked at yet is for the policy to judge.
fn suspended(view: &View<'_>) -> Option<Refusal> {
    fit::approved::check(view).filter(|_| view.node.approval == Approval::Suspended)
}

/// Whether a filter is about the node itself, whatever the job: whether it is there and takes work at all.
pub fn is_about_node(filter: &str) -> bool {
    let same = |demand: &Demand| demand.name == filter || demand.same.iter().any(|info| info.name == filter);
    [&fit::online::INFO, &fit::cooldown::INFO].iter().any(|info| info.name == filter) || demands().any(same)
}

/// A node as it would be if it were there and took work.
#[must_use]
pub fn at_its_best(node: &Node, now: Time) -> Node {
    let mut node = node.clone();
    (node.state, node.accepting, node.approval) = (NodeState::Ready, true, Approval::Approved);
    (node.cooldown_until, node.heartbeat_at) = (None, Some(now));
    if let Some(block) = node.block.take() {
        let block = Block { status: BlockStatus::Active, start_at: None, ..(*block).clone() };
        node.block = Some(Arc::new(block));
    }
    node
}

/// All that is demanded.
pub(crate) fn demands() -> impl Iterator<Item = &'static Demand> {
    [&STATE].into_iter().chain(&OPEN).chain([&BLOCK])
}

#[cfg(test)]
mod tests {
    use landfall_model::scenario::{Format, parse};

    use crate::builtin;
    use crate::verdict::Direction;
    use crate::view::Pass;

    #[test]
    fn no_policy_looks_past_what_the_ledger_demands() {
        for (node, reasons) in [
            ("accepting = false", &["paused"][..]),
            ("approval = 'suspended'", &["not_approved"]),
            ("state = 'drained'", &["node_state", "draining"]),
            ("block = 'b'", &["block_inactive", "block_end"]),
        ] {
            let text = format!(
                "now_ms = 1000\nblocks = [{{ id = 'b', status = 'sold' }}]\nnodes = [{{ id = 'n', {node} }}]\njobs = [{{ id = 'j' }}]"
            );
            let situation = parse(&text, Format::Toml).unwrap();
            let (pass, job, node) = (Pass::new(&situation), &situation.jobs()[0], &situation.nodes()[0]);
            for (name, _) in builtin::ALL {
                let (policy, _) = builtin::pool_policy(name);
                let verdict = policy.pair_verdict(&pass, job, node, Direction::NodesForJob);
                let said =
                    verdict.refusals.iter().filter(|said| reasons.contains(&said.refusal.reason.name()));
                assert_eq!(said.count(), 1, "{name}: {:?}", verdict.refusals);
            }
        }
    }
}
