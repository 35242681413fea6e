//! Factor 8, `checkpoint`: how quickly the job can save its work.

use landfall_model::{Checkpoint as Kind, JobSpec, Minutes};

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

/// Minutes that one checkpoint takes: as said, or as usual for its kind; `None` if the job cannot save.
fn minutes(spec: &JobSpec) -> Option<f64> {
    let usual = match spec.checkpoint {
        Kind::None => return None,
        Kind::Auto => 5.0,
        Kind::Manual => 10.0,
    };
    Some(spec.checkpoint_minutes.map_or(usual, Minutes::as_f64))
}

impl Term for Checkpoint {
    fn score(&self, view: &View<'_>) -> f64 {
        minutes(view.spec).map_or(0.0, |minutes| 1.0 / (1.0 + minutes))
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        match minutes(view.spec) {
            Some(minutes) => facts.note("checkpoint_minutes", Fact::Number(minutes)),
            None => facts.note("checkpoint_minutes", Fact::word("cannot save")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::INFO;
    use crate::terms::batch::testing::{close, queue};

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
