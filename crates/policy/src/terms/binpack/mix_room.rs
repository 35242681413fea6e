//! `mix-room`: how much of the node's GPUs the jobs still to come could no longer use with the job on it.

use super::before_and_after;
use crate::params::{ParamInfo, ParamKind, rule};
use crate::rules::room::{Demand, room};
use crate::term::{Family, Reads, Term, TermInfo, TermKind};
use crate::verdict::{Fact, Facts};
use crate::view::{Measure, View};

const OFFERS: ParamInfo = ParamInfo {
    kind: ParamKind::Whole { min: 1, max: 1000 },
    ..ParamInfo::whole(
        "mix_offers",
        5,
        "jobs",
        "Of how many jobs drawn from the mix the best is what a node is expected to be filled with.",
    )
};

rule! { Term MixRoom {
    offers: u32 = OFFERS,
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "mix-room",
    class: TermKind::Disqualifier,
    range: (-1e9, Some(0.0)),
    unit: "GPUs",
    description: "How many GPUs the expected job mix could no longer use with the job on the node, as a negative number; GPUs that parts of the mix depend on count for more.",
    params: MixRoom::PARAMS,
    reads: Reads { supply: true, ..Reads::PAIR },
    ..TermInfo::of(Family::BinPack, MixRoom::build)
};

impl MixRoom {
    /// Room on the node before and after placing the job, in GPUs.
    fn rooms(&self, view: &View<'_>) -> (f64, f64) {
        let demand =
            Demand { mix: &view.pass.world.mix, weights: view.pass.mix_weights(), offers: self.offers };
        let gpus = &view.node.gpus;
        before_and_after(view, Measure::Room, |free, cpu_free| room(free, cpu_free, gpus, demand) / 1000.0)
    }
}

impl Term for MixRoom {
    fn score(&self, view: &View<'_>) -> f64 {
        let (before, after) = self.rooms(view);
        // Less free is never more room; rounding may say otherwise in the last digit.
        (after - before).min(0.0)
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        let (before, after) = self.rooms(view);
        facts.note("room_gpus_before", Fact::Number(before));
        facts.note("room_gpus_after", Fact::Number(after));
    }
}

#[cfg(test)]
mod tests {
    use landfall_model::scenario::{Format, parse};

    use crate::verdict::{Ranking, Verdict};
    use crate::{Policy, builtin, policy_file};

    const MIX: &str = "[[mix]]\nshare=0.5\ngpu_count=1\ncpu_milli='8 cores'\n\
        [[mix]]\nshare=0.3\ngpu_count=1\ngpu_milli=500\ncpu_milli='4 cores'\n\
        [[mix]]\nshare=0.2\ngpu_count=2\ncpu_milli='16 cores'\n";
    const SHARED: &str = "[[jobs]]\nid='j'\ngpu_count=1\ngpu_milli=500\ncpu_milli='4 cores'\n";

    fn rank(scenario: &str) -> Ranking {
        let situation = parse(scenario, Format::Toml).unwrap();
        let mut spec = policy_file::parse(builtin::text("landfall-pack").unwrap()).unwrap();
        spec.apply(&situation.world.policy).unwrap();
        Policy::compile(spec).unwrap().rank_nodes(&situation, &situation.jobs()[0])
    }

    fn verdict(scenario: &str) -> Verdict {
        rank(scenario).candidates[0].clone()
    }

    #[track_caller]
    fn expect(scenario: &str, devices: &[u16], want: f64) {
        let verdict = verdict(scenario);
        assert_eq!(verdict.gpus, devices);
        let got = verdict.term("mix-room").unwrap().raw;
        assert!((got - want).abs() < 1e-9, "{got}, not {want}");
    }

    #[test]
    fn the_best_of_some_draws_fills_the_node() {
        let node = "[[nodes]]\nid='n'\ncpu_milli='32 cores'\ngpus=[{},{milli_committed=400}]\n";
        let with = |offers: u32| format!("{MIX}{node}{SHARED}[policy.params]\nmix_offers={offers}\n");
        // Filled with the first class 1 GPU would be in use, with the second 1.5, with the third none; on the started
        // device the job leaves 1 and 1, on the free one 0 and 1.
        expect(&with(1), &[1], (0.5 * 1.0 + 0.3 * 1.0) - (0.5 * 1.0 + 0.3 * 1.5));
        let (none, first) = (0.2f64.powi(5), 0.7f64.powi(5));
        expect(&with(5), &[1], (1.0 - none) - ((first - none) * 1.0 + (1.0 - first) * 1.5));
    }

    #[test]
    fn cpu_beside_the_devices_counts_in_fractions() {
        let scenario = "[[mix]]\nshare=1\ngpu_count=1\ncpu_milli='8 cores'\n\
            [[nodes]]\nid='n'\ncpu_milli='20 cores'\ngpus=[{count=4}]\n[[jobs]]\nid='j'\ncpu_milli='4 cores'\n";
        expect(scenario, &[], 16.0 / 8.0 - 20.0 / 8.0);
        // What is left is too little for one job: nothing can be used any more.
        expect(&scenario.replace("'4 cores'", "'13 cores'"), &[], -2.5);
    }

    #[test]
    fn a_job_without_gpu_goes_where_no_gpu_needs_the_cpu() {
        let scenario = "[[mix]]\nshare=1\ngpu_count=1\ncpu_milli='8 cores'\n\
            [[nodes]]\nid='a'\ncpu_milli='16 cores'\ngpus=[{count=2}]\n\
            [[nodes]]\nid='b'\ncpu_milli='16 cores'\ngpus=[{count=2}]\nplacements=[{job='x',gpus=[0,1]}]\n\
            [[jobs]]\nid='j'\ncpu_milli='8 cores'\n";
        assert_eq!(rank(scenario).winner.unwrap().as_str(), "b");
    }

    #[test]
    fn gpus_that_some_of_the_mix_depend_on_are_spared() {
        let scenario = |job: &str| {
            format!(
                "[[mix]]\nshare=0.9\ngpu_count=1\n[[mix]]\nshare=0.1\ngpu_count=1\ngpu_models=['T4']\n\
                 [[nodes]]\nid='a'\ngpus=[{{count=2,model='T4'}}]\n[[nodes]]\nid='b'\ngpus=[{{count=6,model='V100'}}]\n\
                 [[jobs]]\nid='j'\ngpu_count=1\n{job}"
            )
        };
        let any = rank(&scenario(""));
        assert_eq!(any.winner.unwrap().as_str(), "b");
        // Weights 0.9 and 0.1 over a quarter of the GPUs, made to sum to 1: both classes want the T4, one the V100.
        let raw = |id: &str| {
            any.candidates.iter().find(|v| v.candidate.as_str() == id).unwrap().term("mix-room").unwrap().raw
        };
        assert!((raw("a") + 1.0).abs() < 1e-9 && (raw("b") + 0.9 / 1.3).abs() < 1e-9);
        assert_eq!(rank(&scenario("gpu_models=['T4']\n")).winner.unwrap().as_str(), "a");
    }

    #[test]
    fn without_a_mix_or_gpus_it_costs_nothing() {
        let node = "[[nodes]]\nid='n'\ncpu_milli='32 cores'\ngpus=[{count=2}]\n";
        expect(&format!("{node}{SHARED}"), &[0], 0.0);
        let cpu_job = "[[jobs]]\nid='j'\ncpu_milli='4 cores'\n";
        expect(&format!("{MIX}[[nodes]]\nid='n'\ncpu_milli='32 cores'\n{cpu_job}"), &[], 0.0);
        // A partitioned device is no device of the node's own.
        let cut = "[[nodes]]\nid='n'\ncpu_milli='32 cores'\ngpus=[{slices={taken=[]}}]\n";
        expect(&format!("{MIX}{cut}{cpu_job}"), &[], 0.0);
    }
}
