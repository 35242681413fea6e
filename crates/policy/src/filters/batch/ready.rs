//! `batch-ready`: only jobs whose dependencies are met and whose time has come are in the queue.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-ready",
    description: "Admits jobs that wait for nothing and whose earliest time has come.",
    reasons: &[Reason::Dependency, Reason::NotBefore],
    clock: true,
    job_identity: true,
    about: About::Plan,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    if let Some(waits_for) = &view.job.waits_for {
        let needed = Quantity::Name(waits_for.clone());
        return Some(
            Refusal::not_now(Reason::Dependency, needed, Quantity::word("not ended"), Wake::DependencyEnded)
                .remedy(view.say(|| format!("wait for {waits_for}"))),
        );
    }
    let earliest = view.job.retry_at.filter(|&earliest| earliest > view.now())?;
    let (needed, found) = (Quantity::AtMs(earliest), Quantity::AtMs(view.now()));
    let refusal = Refusal::not_now(Reason::NotBefore, needed, found, Wake::Timer);
    Some(refusal.remedy(view.say(|| format!("wait {}", earliest.since(view.now())))).until(earliest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{NOW_MS, admits, refusal};

    #[test]
    fn a_job_that_waits_is_not_in_the_queue() {
        let retry_at = |ms: i64| format!("retry_at_ms = {ms}");
        assert!(admits(&INFO, "", "") && admits(&INFO, &retry_at(NOW_MS), ""));
        assert_eq!(refusal(&INFO, &retry_at(NOW_MS + 1), "").reason, Reason::NotBefore);
        assert_eq!(refusal(&INFO, "waits_for = 'x'", "").reason, Reason::Dependency);
    }
}
