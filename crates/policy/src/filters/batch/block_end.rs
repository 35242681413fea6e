//! `batch-block-end`: the node's lease is in force and lasts as long as the job may run.

use landfall_model::{BlockStatus, JobSpec, Lifecycle, Node, Time};

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-block-end",
    description: "Refuses nodes whose block is not in force, or ends before the job would.",
    reasons: &[Reason::BlockEnd],
    clock: true,
    about: About::Plan,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

/// When the job would end if it began now; `None` if it has no end.
fn ends_at(spec: &JobSpec, now: Time) -> Option<Time> {
    (spec.lifecycle == Lifecycle::Bounded).then(|| now + spec.walltime_ms)
}

/// Whether the lease lasts. A job may end at the very instant at which the block does.
pub(crate) fn admits(spec: &JobSpec, node: &Node, now: Time) -> bool {
    let usable = node.block.as_ref().is_none_or(|block| block.usable_at(now));
    usable
        && stays(spec, node.maintenance_at, now)
        && stays(spec, node.block.as_ref().and_then(|b| b.ends_at()), now)
}

/// Whether a node that goes at `end` stays as long as the job.
pub(crate) fn stays(spec: &JobSpec, end: Option<Time>, now: Time) -> bool {
    end.is_none_or(|end| ends_at(spec, now).is_some_and(|job| job <= end))
}

fn check(view: &View<'_>) -> Option<Refusal> {
    let (spec, now) = (view.spec, view.now());
    if admits(spec, view.node, now) {
        return None;
    }
    let needed = ends_at(spec, now).map_or(Quantity::word("no end"), Quantity::AtMs);
    if let Some(at) = view.node.maintenance_at.filter(|&at| !stays(spec, Some(at), now)) {
        let remedy =
            view.say(|| format!("ask for a walltime of at most {}, or move the maintenance", at.since(now)));
        let refusal =
            Refusal::not_now(Reason::BlockEnd, needed, Quantity::AtMs(at), Wake::RegistrationChange);
        return Some(refusal.remedy(remedy));
    }
    let block = view.node.block.as_ref()?;
    if block.status != BlockStatus::Active {
        let (found, remedy, wake) = match block.status {
            BlockStatus::Pending => {
                ("pending", "wait for the provider to deliver the block", Wake::NodeAdded)
            }
            BlockStatus::Selling => ("selling", "use a node of another block", Wake::Nothing),
            BlockStatus::Active | BlockStatus::Sold => ("sold", "use a node of another block", Wake::Nothing),
        };
        return Some(Refusal::not_now(Reason::BlockEnd, needed, Quantity::word(found), wake).remedy(remedy));
    }
    if let Some(start) = block.start_at.filter(|&start| start > now) {
        let found = Quantity::AtMs(start);
        let refusal = Refusal::not_now(Reason::BlockEnd, needed, found, Wake::Timer).until(start);
        return Some(refusal.remedy("wait for the block to begin"));
    }
    let end = block.ends_at()?;
    let remedy = format!("extend the block, or ask for a walltime of at most {}", end.since(now));
    Some(Refusal::not_now(Reason::BlockEnd, needed, Quantity::AtMs(end), Wake::LeaseExtended).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::batch::testing::refusal;

    fn with(block: &str, job: &str) -> Option<Refusal> {
        let text = format!(
            r#"
            now_ms = 1000
            blocks = [{{ id = "b", {block} }}]
            nodes = [{{ id = "n", block = "b" }}]
            jobs = [{{ id = "j", {job} }}]"#
        );
        refusal(&INFO, &text)
    }

    #[test]
    fn the_lease_lasts_as_long_as_the_job() {
        assert_eq!(with("end_at_ms = 5000", "walltime_ms = 4000"), None, "both end at one instant");
        let refusal = with("end_at_ms = 5000", "walltime_ms = 4001").unwrap();
        assert_eq!((refusal.reason, refusal.wake), (Reason::BlockEnd, Wake::LeaseExtended));
        assert_eq!(refusal.needed, Quantity::AtMs(Time::from_millis(5001)));
        assert!(with("drain_deadline_ms = 4000", "walltime_ms = 4000").is_some(), "an announced end counts");
    }

    #[test]
    fn work_without_end_needs_a_block_without_end() {
        assert_eq!(with("start_at_ms = 0", r#"lifecycle = "unbounded""#), None);
        assert!(with("end_at_ms = 99000000", r#"lifecycle = "reactive""#).is_some());
    }

    #[test]
    fn a_block_that_is_not_in_force_carries_nothing() {
        assert_eq!(with("start_at_ms = 2000", "").unwrap().until_ms, Some(Time::from_millis(2000)));
        assert_eq!(with(r#"status = "pending""#, "").unwrap().wake, Wake::NodeAdded);
        assert!(with(r#"status = "selling""#, "").is_some());
    }
}
