//! Factor 8, `checkpoint`: how quickly the job can save its work.

use landfall_model::{Checkpoint as Kind, Job, Minutes};

use crate::term::{Family, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "checkpoint",
    range: (0.0, Some(1.0)),
    description: "Prefers jobs that can save their work quickly, since they can be moved at little cost.",
    ..TermInfo::of(Family::Batch, |_| Ok(Box::new(Checkpoint)))
};

struct Checkpoint;

/// Minutes that one checkpoint takes: as said, as last measured, or as usual for its kind; `None` if the job cannot save.
fn minutes(job: &Job) -> Option<f64> {
    let measured = job.checkpoint_took.map(Minutes::new);
    let usual = match job.spec.checkpoint {
        Kind::None => return None,
        Kind::Auto => 5.0,
        Kind::Manual => 10.0,
    };
    Some(job.spec.checkpoint_minutes.or(measured).map_or(usual, Minutes::as_f64))
}

impl Term for Checkpoint {
    fn score(&self, view: &View<'_>) -> f64 {
        minutes(view.job).map_or(0.0, |minutes| 1.0 / (1.0 + minutes))
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        match minutes(view.job) {
            Some(minutes) => facts.note("checkpoint_minutes", Fact::Number(minutes)),
            None => facts.note("checkpoint_minutes", Fact::word("cannot save")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use landfall_model::{JobId, JobSpec, Millis, Time};

    use super::*;
    use crate::terms::batch::testing::{close, queue};

    #[test]
    fn what_was_measured_stands_in_for_what_is_usual() {
        let said = Some(Minutes::new(Millis::secs(120)));
        for (checkpoint, checkpoint_minutes, measured, want) in [
            (Kind::Auto, None, Some(60), Some(1.0)),
            (Kind::Auto, said, Some(60), Some(2.0)),
            (Kind::Manual, None, None, Some(10.0)),
            (Kind::None, None, Some(60), None),
        ] {
            let spec = JobSpec { checkpoint, checkpoint_minutes, ..JobSpec::empty() };
            let mut job = Job::new(JobId::new("j").unwrap(), Arc::new(spec), Time::ZERO);
            job.checkpoint_took = measured.map(Millis::secs);
            assert_eq!(minutes(&job), want, "{checkpoint:?}, {measured:?}");
        }
    }

    #[test]
    fn b10_quick_is_good() {
        for (job, want) in [
            (r#"checkpoint = "auto""#, 0.166_667),
            (r#"checkpoint = "manual""#, 0.090_909),
            (r#"checkpoint = "none""#, 0.0),
            (r#"checkpoint = "auto", checkpoint_minutes = 0"#, 1.0),
            (r#"checkpoint = "auto", checkpoint_minutes = 2.5"#, 1.0 / 3.5),
            (r#"checkpoint = "manual", checkpoint_minutes = 1440"#, 1.0 / 1441.0),
        ] {
            close(
                queue(
                    &INFO,
                    "",
                    &format!(
                        r#"nodes = [{{ id = "n" }}]
                jobs = [{{ id = "j", {job} }}]"#
                    ),
                ),
                want,
            );
        }
    }
}
