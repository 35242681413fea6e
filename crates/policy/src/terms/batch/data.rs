//! Factor 5, `data`: the part of the job's inputs that is near already.

use landfall_model::{Input, Warmth};

use crate::term::{Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

/// What counts while no size is known.
const UNKNOWN: f64 = 0.5;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "data",
    range: (0.0, Some(1.0)),
    description: "Prefers jobs whose inputs lie on fast storage of the pool already.",
    reads: Reads { inputs_total_bytes: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Batch, |_| Ok(Box::new(Data)))
};

struct Data;

/// Hot and all bytes of known size; `None` if no size is known.
fn bytes(view: &View<'_>) -> Option<(u64, u64)> {
    let inputs = view.spec.inputs.as_deref()?;
    if inputs.is_empty() {
        // An empty list declares that there is nothing to read, which is not the same as saying nothing.
        return Some((0, 0));
    }
    let all = view.pass.inputs_total_bytes(view.spec)?;
    let hot = |input: &&Input| input.tier == Warmth::Hot;
    let hot = inputs
        .iter()
        .filter(hot)
        .filter_map(|input| input.bytes)
        .fold(0u64, |sum, b| sum.saturating_add(b.get()));
    Some((hot, all.get()))
}

impl Term for Data {
    fn score(&self, view: &View<'_>) -> f64 {
        match bytes(view) {
            None => UNKNOWN,
            Some((_, 0)) => 1.0,
            Some((hot, all)) => hot as f64 / all as f64,
        }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        match bytes(view) {
            None => facts.note("input_bytes", Fact::word("unknown")),
            Some((hot, all)) => {
                facts.note("hot_input_bytes", Fact::Count(hot));
                facts.note("input_bytes", Fact::Count(all));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::INFO;
    use crate::terms::batch::testing::queue;

    fn of(inputs: &str) -> f64 {
        queue(
            &INFO,
            "",
            &format!(
                r#"nodes = [{{ id = "n" }}]
            jobs = [{{ id = "j"{inputs} }}]"#
            ),
        )
    }

    #[test]
    fn hot_bytes_over_all_known_bytes() {
        let hot = r#"{ digest = "a", bytes = 80, tier = "hot" }"#;
        let cold = r#"{ digest = "b", bytes = 20 }"#;
        let unknown = r#"{ digest = "c", tier = "hot" }"#;
        assert_eq!(of(&format!(", inputs = [{hot}, {cold}, {unknown}]")), 0.8);
        assert_eq!(of(&format!(", inputs = [{hot}]")), 1.0);
        assert_eq!(of(&format!(", inputs = [{cold}]")), 0.0);
    }

    #[test]
    fn nothing_known_and_nothing_to_read() {
        assert_eq!(of(""), 0.5, "not declared");
        assert_eq!(of(r#", inputs = [{ digest = "c" }]"#), 0.5, "no size known");
        assert_eq!(of(r#", inputs = [{ digest = "c", bytes = 0 }]"#), 1.0);
        assert_eq!(of(", inputs = []"), 1.0, "declared that there are none");
    }
}
