//! Factor 6, `backlog`: how much waits compared with what runs; the same for all jobs of a cycle.

use crate::rules::snapshot::Pressure;
use crate::term::{Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "backlog",
    range: (0.0, Some(1.0)),
    description: "Rises with the hours that wait over the hours that run, so that pools can be compared.",
    reads: Reads { fleet: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Batch, |_| Ok(Box::new(Backlog)))
};

struct Backlog;

impl Term for Backlog {
    fn score(&self, view: &View<'_>) -> f64 {
        let Pressure { queued, running } = view.pass.pressure();
        if running > 0.0 { (queued / running).min(1.0) } else { f64::from(u8::from(queued > 0.0)) }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        let Pressure { queued, running } = view.pass.pressure();
        facts.note("queued_hours", Fact::Number(queued));
        facts.note("running_hours", Fact::Number(running));
    }
}

#[cfg(test)]
mod tests {
    use super::INFO;
    use crate::terms::batch::testing::{close, queue};

    #[test]
    fn b9_waiting_over_running() {
        for (queued, running, want) in
            [(0, 100, 0.0), (200, 100, 1.0), (28, 96, 0.291_667), (5, 0, 1.0), (0, 0, 0.0)]
        {
            let scenario = format!(
                r#"nodes = [{{ id = "n" }}]
                jobs = [{{ id = "j" }}]
                backlog = {{ queued_gpu_hours = {queued}, running_gpu_hours = {running} }}"#
            );
            close(queue(&INFO, "", &scenario), want);
        }
    }

    #[test]
    fn without_given_hours_jobs_and_nodes_are_added_up() {
        let scenario = r#"
            jobs = [{ id = "j", nodes = 2, gpu_count = 4, walltime_ms = "30min" }]
            [[nodes]]
            id = "n"
            gpus = [{ count = 4 }]
            placements = [{ job = "x", gpus = [0, 1, 2, 3], walltime_ms = "2h" }]"#;
        close(queue(&INFO, "", scenario), 4.0 / 8.0);
    }
}
