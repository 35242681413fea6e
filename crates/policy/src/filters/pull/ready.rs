//! Filter `pull-ready`: nothing holds the job back, and its back-off is over.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pull-ready",
    description: "Admits jobs that wait for nothing: dependencies met, no quota in the way, back-off over.",
    reasons: &[Reason::NotReady],
    clock: true,
    job_identity: true,
    about: About::Plan,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    // Time alone does not help a job that waits for something else too, so that is told first.
    if let Some(waits_for) = &view.job.waits_for {
        let (needed, found) = (Quantity::Name(waits_for.clone()), Quantity::word("unfinished"));
        return Some(
            Refusal::not_now(Reason::NotReady, needed, found, Wake::DependencyEnded)
                .remedy(view.say(|| format!("wait for {waits_for}"))),
        );
    }
    let retry_at = view.job.retry_at.filter(|&retry_at| view.now() < retry_at)?;
    let (needed, found) = (Quantity::AtMs(retry_at), Quantity::AtMs(view.now()));
    Some(
        Refusal::not_now(Reason::NotReady, needed, found, Wake::Timer)
            .remedy(view.say(|| format!("wait {} for the back-off to end", retry_at.since(view.now()))))
            .until(retry_at),
    )
}

#[cfg(test)]
mod tests {
    use landfall_model::Time;

    use super::*;
    use crate::filters::testing::{NOW_MS, admits, refusal, told};

    #[test]
    fn a_job_that_waits_for_nothing_is_ready() {
        assert!(admits(&INFO, "", ""));
    }

    #[test]
    fn dependencies_come_first() {
        let got = refusal(&INFO, &format!("waits_for = 'other'\nretry_at_ms = {}", NOW_MS + 1), "");
        assert_eq!(told(&got), "NotReady NotNow DependencyEnded: other, not unfinished");
        assert_eq!(got.until_ms, None, "time alone does not help");
    }

    #[test]
    fn a_back_off_ends_at_a_known_instant() {
        let got = refusal(&INFO, &format!("retry_at_ms = {}", NOW_MS + 1000), "");
        assert!(told(&got).starts_with("NotReady NotNow Timer: "));
        assert_eq!(got.until_ms, Some(Time::from_millis(NOW_MS + 1000)));
        assert_eq!(got.remedy, "wait 1 s for the back-off to end");
    }

    #[test]
    fn at_that_instant_the_job_is_ready() {
        assert!(admits(&INFO, &format!("retry_at_ms = {NOW_MS}"), ""));
        assert!(!admits(&INFO, &format!("retry_at_ms = {}", NOW_MS + 1), ""));
    }
}
