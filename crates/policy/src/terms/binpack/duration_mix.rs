//! `duration-mix`: how many of the node's jobs are of the other length, so that short and long jobs can be kept apart.
//!
//! A node whose jobs end together becomes wholly free, which large jobs need; one long job among short ones prevents that.

use landfall_model::Millis;

use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo};
use crate::view::View;

rule! { Term DurationMix {
    short_job_ms: Millis = whole(900_000, "ms", "Longest job that counts as short."),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "duration-mix",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "The share of the node's jobs that are short if this one is long, or long if it is short; weighed negatively.",
    params: DurationMix::PARAMS,
    reads: Reads { placements: true, ..Reads::PAIR },
    ..TermInfo::of(Family::BinPack, DurationMix::build)
};

impl Term for DurationMix {
    fn score(&self, view: &View<'_>) -> f64 {
        let running = &view.node.placements;
        if running.is_empty() {
            return 0.0;
        }
        let is_short = view.spec.expected_duration_ms <= self.short_job_ms;
        let others =
            running.iter().filter(|job| (job.expected_duration <= self.short_job_ms) != is_short).count();
        others as f64 / running.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use landfall_model::scenario::{Format, parse};

    use crate::{Policy, builtin, policy_file};

    /// The value for a job of `secs` on a node that runs jobs of the given lengths.
    fn score(secs: u64, running: &[u64]) -> f64 {
        let placements: Vec<String> =
            (0..).zip(running).map(|(i, s)| format!("{{job='r{i}',expected_duration_ms='{s}s'}}")).collect();
        let scenario = format!(
            "[[nodes]]\nid='n'\nplacements=[{}]\n[[jobs]]\nid='j'\nexpected_duration_ms='{secs}s'\n",
            placements.join(",")
        );
        let situation = parse(&scenario, Format::Toml).unwrap();
        let policy =
            Policy::compile(policy_file::parse(builtin::text("bin-pack").unwrap()).unwrap()).unwrap();
        let ranking = policy.rank_nodes(&situation, &situation.jobs()[0]);
        ranking.candidates[0].term("duration-mix").unwrap().raw
    }

    #[test]
    fn the_share_of_the_other_length_counts() {
        assert_eq!(score(60, &[]), 0.0, "nothing runs");
        assert_eq!(score(60, &[60, 900]), 0.0, "all short, the limit included");
        assert_eq!(score(60, &[60, 901, 3600, 10]), 0.5);
        assert_eq!(score(901, &[60, 900]), 1.0, "a long job among short ones");
    }
}
