//! Factor 9, `conformance`: whether the nodes would be configured alike.

use super::stage;
use crate::params::{ParamError, ParamInfo, Params};
use crate::term::{Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

const IN_QUEUE: ParamInfo = ParamInfo::word(
    "queue_conformance",
    "on",
    &["on", "off"],
    "Whether conformance counts in the order of the queue, or only when nodes are chosen.",
);

pub(crate) const INFO: TermInfo = TermInfo {
    name: "conformance",
    range: (0.0, Some(1.0)),
    description: "Prefers jobs whose nodes can all have one configuration; one node always conforms.",
    params: &[IN_QUEUE],
    reads: Reads { fleet: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Batch, build)
};

struct Conformance {
    in_queue: bool,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    Ok(Box::new(Conformance { in_queue: params.word(&IN_QUEUE)? == "on" }))
}

impl Conformance {
    /// The largest conformance group a job could get, over the nodes it asks for.
    fn of_queue(&self, view: &View<'_>) -> f64 {
        if !self.in_queue {
            return 0.0;
        }
        if view.spec.nodes.min == 1 {
            return 1.0;
        }
        let seen = view.spec_view();
        (seen.largest_conformance as f64 / seen.nodes_asked as f64).min(1.0)
    }
}

impl Term for Conformance {
    fn score(&self, view: &View<'_>) -> f64 {
        if stage::is_node_set(view) { 1.0 } else { self.of_queue(view) }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        let in_queue = if self.in_queue { Fact::Number(self.of_queue(view)) } else { Fact::word("off") };
        facts.note("conformance_queue", in_queue);
        if stage::is_node_set(view) {
            facts.note("conformance_set", Fact::Number(1.0));
        }
        if view.spec.nodes.min > 1 {
            let largest = view.spec_view().largest_conformance;
            facts.note("largest_conformance_group", Fact::Count(largest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::INFO;
    use crate::terms::batch::testing::{close, node_set, queue};
    use crate::verdict::Fact;

    /// One node per fingerprint; `-` is unknown.
    fn pool(fingerprints: &[&str], nodes: u32) -> String {
        let mut text = format!("jobs = [{{ id = \"j\", nodes = {nodes} }}]");
        for (at, fingerprint) in fingerprints.iter().enumerate() {
            text += &format!("\n[[nodes]]\nid = \"n{at}\"");
            if *fingerprint != "-" {
                text += &format!("\nfingerprint = \"{fingerprint}\"");
            }
        }
        text
    }

    #[test]
    fn b11_largest_group_over_nodes_asked() {
        close(queue(&INFO, "", &pool(&["P", "P", "P"], 3)), 1.0);
        close(queue(&INFO, "", &pool(&["P", "P", "Q"], 3)), 0.666_667);
        close(queue(&INFO, "", &pool(&["-"], 1)), 1.0);
        close(queue(&INFO, "", &pool(&["P", "P", "P", "P"], 3)), 1.0);
    }

    #[test]
    fn an_unknown_fingerprint_is_a_group_of_one() {
        close(queue(&INFO, "", &pool(&["-", "-", "-"], 3)), 0.333_333);
        close(queue(&INFO, "", &pool(&["P"], 4)), 0.25);
        let none_ready = pool(&["P"], 2).replace("fingerprint", "state = \"down\"\nfingerprint");
        close(queue(&INFO, "", &none_ready), 0.0);
    }

    #[test]
    fn off_leaves_it_out_of_the_queue_score_only() {
        let off = r#"queue_conformance = "off""#;
        close(queue(&INFO, off, &pool(&["P", "P"], 2)), 0.0);
        close(queue(&INFO, off, &pool(&["P"], 1)), 0.0);
        let (value, facts) = node_set(&INFO, off, &pool(&["P"], 1));
        close(value, 1.0);
        assert_eq!(facts.get("conformance_queue"), Some(&Fact::word("off")));
        assert_eq!(facts.get("conformance_set"), Some(&Fact::Number(1.0)));
    }
}
