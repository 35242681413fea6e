//! Factor 1, `priority`: the job's class.

use crate::term::{Family, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "priority",
    range: (0.0, Some(1.0)),
    description: "Prefers jobs of a higher class: class 10 gives 1, class 0 gives 0.",
    ..TermInfo::of(Family::Batch, |_| Ok(Box::new(Priority)))
};

struct Priority;

impl Term for Priority {
    fn score(&self, view: &View<'_>) -> f64 {
        f64::from(view.spec.class) / 10.0
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        facts.note("class", Fact::Count(u64::from(view.spec.class)));
    }
}

#[cfg(test)]
mod tests {
    use super::INFO;
    use crate::terms::batch::testing::queue;

    #[test]
    fn a_tenth_per_class() {
        let of = |job: &str| {
            queue(
                &INFO,
                "",
                &format!(
                    r#"nodes = [{{ id = "n" }}]
            jobs = [{{ id = "j", {job} }}]"#
                ),
            )
        };
        let values = ["class = 0", "class = 7", "class = 10", "", "sensitive = true"].map(of);
        assert_eq!(values, [0.0, 0.7, 1.0, 0.5, 1.0]);
    }
}
