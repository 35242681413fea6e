//! Filter `maintenance`: the node stays in service for as long as the job may run.

use crate::filter::{About, FilterInfo};
use crate::filters::batch::block_end::stays;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "maintenance",
    description: "Refuses nodes that go out of service before the job would end. Push pools have it while a node has such an instant.",
    reasons: &[Reason::BlockEnd],
    clock: true,
    about: About::Moment,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let now = view.now();
    let at = view.node.maintenance_at.filter(|&at| !stays(view.spec, Some(at), now))?;
    let needed = Quantity::AtMs(now + view.spec.walltime_ms);
    let remedy =
        view.say(|| format!("ask for a walltime of at most {}, or move the maintenance", at.since(now)));
    let refusal = Refusal::not_now(Reason::BlockEnd, needed, Quantity::AtMs(at), Wake::RegistrationChange);
    Some(refusal.remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::batch::testing::refusal;

    #[test]
    fn what_would_run_into_it_is_refused() {
        let with = |node: &str, job: &str| {
            let text = format!("now_ms = 1000\nnodes = [{{ id = 'n'{node} }}]\njobs = [{{ id = 'j'{job} }}]");
            refusal(&INFO, &text)
        };
        assert_eq!(with("", ""), None);
        assert_eq!(with(", maintenance_at_ms = 61000", ", walltime_ms = 60000"), None, "both at one instant");
        let refused = with(", maintenance_at_ms = 61000", ", walltime_ms = 60001").unwrap();
        assert_eq!(
            (refused.reason, refused.needed),
            (Reason::BlockEnd, Quantity::AtMs(landfall_model::Time::from_millis(61_001)))
        );
    }
}
