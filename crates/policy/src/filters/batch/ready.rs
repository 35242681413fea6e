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
    Some(
        Refusal::not_now(
            Reason::NotBefore,
            Quantity::AtMs(earliest),
            Quantity::AtMs(view.now()),
            Wake::Timer,
        )
        .remedy(view.say(|| format!("wait {}", earliest.since(view.now()))))
        .until(earliest),
    )
}

#[cfg(test)]
mod tests {
    use landfall_model::scenario::{Format, parse};

    use crate::builtin;

    fn reason(job: &str) -> Option<&'static str> {
        let scenario = format!("now_ms = 1000\n[[nodes]]\nid='n'\n[[jobs]]\nid='j'\n{job}\n");
        let situation = parse(&scenario, Format::Toml).unwrap();
        let policy = builtin::policy("balanced").unwrap().unwrap();
        let ranking = policy.rank_jobs(&situation, &situation.nodes()[0]);
        ranking.candidates[0].refusals.first().map(|refused| refused.refusal.reason.name())
    }

    #[test]
    fn a_job_that_waits_is_not_in_the_queue() {
        assert_eq!(reason(""), None);
        assert_eq!(reason("retry_at_ms = 1000"), None);
        assert_eq!(reason("retry_at_ms = 1001"), Some("not_before"));
        assert_eq!(reason("waits_for = 'x'"), Some("dependency"));
    }
}
