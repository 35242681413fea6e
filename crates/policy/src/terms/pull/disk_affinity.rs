//! `DiskAffinityRule`: sends disk-heavy jobs to nodes with fast disks.

use landfall_model::JobKind;

use super::arith::{fraction, usual};
use crate::params::rule;
use crate::term::{Family, Reads, Term, TermInfo};
use crate::view::View;

rule! { Term DiskAffinity {
    points_max: f64 = at_least(60.0, 0.0, "points", "Points of a disk of reference speed."),
    disk_reference_mb_s: f64 = at_least(500.0, 1e-3, "MB/s", "Speed from which a disk is fast."),
    fallback_disk_bytes: f64 = at_least(
        104_857_600.0, 0.0, "bytes",
        "The usual disk use of a job while none has been measured; a job that uses as much is disk-heavy.",
    ),
} }

pub(crate) const INFO: TermInfo = TermInfo {
    name: "DiskAffinityRule",
    range: (0.0, Some(60.0)),
    unit: "points",
    description: "Sends disk-heavy jobs to nodes with fast disks.",
    params: DiskAffinity::PARAMS,
    reads: Reads { history: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Pull, DiskAffinity::build)
};

impl Term for DiskAffinity {
    fn score(&self, view: &View<'_>) -> f64 {
        if view.spec.kind != JobKind::Build {
            return 0.0;
        }
        // Without a measured speed the history would be looked up for nothing.
        let Some(disk) = view.node.metrics.and_then(|metrics| metrics.disk_mb_s) else { return 0.0 };
        let history = view.pass.history(view.spec);
        let usual = usual(view.pass.world.instance.disk_bytes.h24, self.fallback_disk_bytes);
        let used = history.avg_disk_bytes;
        if history.samples == 0 || used.is_zero() || used.as_f64() < usual {
            return 0.0;
        }
        self.points_max * fraction(disk, self.disk_reference_mb_s)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, close};
    use super::INFO;

    fn disk(mb_s: f64, samples: u64, mib: u64) -> Case {
        Case::of(&INFO)
            .metrics(&format!("disk_mb_s = {mb_s:?}"))
            .prediction(&format!("samples = {samples}, avg_disk_bytes = {}", mib << 20))
    }

    #[test]
    fn p21_disk_heavy_jobs_like_fast_disks() {
        close(disk(500.0, 5, 500).score(), 60.0);
        close(disk(50.0, 5, 500).score(), 6.0);
        close(disk(500.0, 5, 1).score(), 0.0);
        close(disk(500.0, 0, 500).score(), 0.0);
    }

    #[test]
    fn both_ends_of_the_range() {
        close(disk(0.0, 5, 500).score(), 0.0);
        close(disk(1e9, 5, 500).score(), 60.0);
    }

    #[test]
    fn the_usual_amount_is_heavy_already() {
        close(disk(500.0, 5, 100).score(), 60.0);
        close(disk(500.0, 5, 99).score(), 0.0);
        close(disk(500.0, 5, 1).instance("disk_bytes.h24 = 1048576.0").score(), 60.0);
        close(disk(500.0, 5, 1).instance("disk_bytes = { m5 = 1.0, h1 = 1.0 }").score(), 0.0);
    }

    #[test]
    fn a_measured_zero_makes_every_use_heavy_but_none() {
        close(disk(500.0, 5, 1).instance("disk_bytes.h24 = 0.0").score(), 60.0);
        close(disk(500.0, 5, 0).instance("disk_bytes.h24 = 0.0").score(), 0.0);
    }

    #[test]
    fn without_a_measured_speed_nothing_is_given_or_looked_up() {
        close(disk(500.0, 5, 500).metrics("cpu_count = 1").score(), 0.0);
        assert_eq!(Case::of(&INFO).lazy_calls(), (0, 0));
        assert_eq!(Case::of(&INFO).metrics("disk_mb_s = 5.0").lazy_calls(), (1, 0));
    }

    #[test]
    fn evals_get_nothing() {
        close(disk(500.0, 5, 500).job("kind = 'eval'").score(), 0.0);
    }

    #[test]
    fn constants_can_be_changed() {
        let case =
            disk(10.0, 5, 1).params("points_max = 4\ndisk_reference_mb_s = 40\nfallback_disk_bytes = 1");
        close(case.score(), 1.0);
    }
}
