//! Factor 4, `topology`: how few groups hold the nodes, and how close everything is inside them.

use super::stage;
use crate::params::{ParamError, ParamInfo, Params};
use crate::rules::locality::{self, Picture, locality};
use crate::term::{Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

const FORMULA: ParamInfo = ParamInfo::word(
    "topology_formula",
    "published",
    &["published", "normalised"],
    "How a span becomes points: published gives 1 - span/groups, normalised 1 for one group and 0 for all.",
);

pub(crate) const INFO: TermInfo = TermInfo {
    name: "topology",
    range: (0.0, Some(1.0)),
    description: "Prefers jobs whose nodes lie in few groups, on nodes whose inside is close together.",
    params: &[FORMULA],
    reads: Reads { fleet: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Batch, build)
};

#[derive(Debug, Clone, Copy)]
enum Formula {
    Published,
    Normalised,
}

struct Topology {
    formula: Formula,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Term>, ParamError> {
    let formula = match params.word(&FORMULA)?.as_str() {
        "normalised" => Formula::Normalised,
        _ => Formula::Published,
    };
    Ok(Box::new(Topology { formula }))
}

impl Topology {
    /// The value for so many nodes in `span` of the pool's `groups`, with the mean locality `intra`.
    fn value(&self, nodes: u32, span: u64, groups: u64, intra: f64) -> f64 {
        let (span, groups) = (span as f64, groups as f64);
        let inter = match self.formula {
            Formula::Published => (1.0 - span / groups).max(0.0),
            Formula::Normalised => 1.0 - (span - 1.0) / (groups - 1.0).max(1.0),
        };
        // The inside matters most to a job of one node, the network to all others.
        let outside = if nodes == 1 { 0.3 } else { 0.7 };
        outside * inter + (1.0 - outside) * intra
    }

    /// What the nodes a job could get would give at best.
    fn of_queue(&self, view: &View<'_>) -> f64 {
        let seen = view.spec_view();
        let Some(span) = seen.fewest_groups else { return 0.0 };
        self.value(view.spec.nodes.min, span, view.pass.groups(), seen.mean_locality)
    }

    /// What this node alone gives.
    fn of_node(&self, view: &View<'_>) -> f64 {
        let intra = locality(view.spec, view.node, Picture::Now).unwrap_or(locality::UNKNOWN);
        self.value(1, 1, view.pass.groups(), intra)
    }
}

impl Term for Topology {
    fn score(&self, view: &View<'_>) -> f64 {
        if stage::is_node_set(view) { self.of_node(view) } else { self.of_queue(view) }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        let seen = view.spec_view();
        facts.note("topology_queue", Fact::Number(self.of_queue(view)));
        facts.note("groups", Fact::Count(view.pass.groups()));
        match seen.fewest_groups {
            Some(span) => facts.note("fewest_groups", Fact::Count(span)),
            None => facts.note("fewest_groups", Fact::word("too few nodes")),
        }
        facts.note("nodes_seen", Fact::Count(seen.nodes_seen));
        facts.note("as_if_idle", Fact::Flag(seen.as_if_idle));
        facts.note("mean_locality", Fact::Number(seen.mean_locality));
        if stage::is_node_set(view) {
            facts.note("topology_set", Fact::Number(self.of_node(view)));
            match locality(view.spec, view.node, Picture::Now) {
                Some(inside) => facts.note("locality", Fact::Number(inside)),
                None => facts.note("locality", Fact::word("unknown")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::INFO;
    use crate::terms::batch::testing::{close, node_set, queue};
    use crate::verdict::Fact;

    /// Groups a, b, ... with so many nodes each, of which so many are busy.
    fn pool(sizes: &[(usize, usize)], node: &str, job: &str) -> String {
        let mut text = format!("jobs = [{{ id = \"j\", {job} }}]");
        for (&(size, busy), group) in sizes.iter().zip('a'..) {
            for at in 0..size {
                let placements =
                    if at >= size - busy { r#"[{ job = "x", exclusive = true }]"# } else { "[]" };
                text += &format!(
                    "\n[[nodes]]\nid = \"{group}{at}\"\ngroup = \"{group}\"\nplacements = {placements}\n{node}"
                );
            }
        }
        text
    }

    #[test]
    fn b5_one_node() {
        let four = [(1, 0); 4];
        close(queue(&INFO, "", &pool(&four, "", "nodes = 1")), 0.575);
        let domains = "memory_domains = [{ cpus = 8 }, { cpus = 2 }]";
        close(queue(&INFO, "", &pool(&four, domains, "nodes = 1")), 0.785);
    }

    #[test]
    fn b6_b7_span_of_many_nodes() {
        let four = pool(&[(4, 0); 4], "", "nodes = 6");
        close(queue(&INFO, "", &four), 0.5);
        close(queue(&INFO, r#"topology_formula = "normalised""#, &four), 0.616_667);
        close(queue(&INFO, "", &pool(&[(4, 2), (4, 4)], "", "nodes = 4")), 0.5);
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!(queue(&INFO, "", &pool(&[(2, 0); 2], "", "nodes = 5")), 0.0, "too few nodes");
        let one = pool(&[(2, 0)], "memory_domains = [{ cpus = 8 }]", "nodes = 2");
        close(queue(&INFO, "", &one), 0.3);
        close(queue(&INFO, r#"topology_formula = "normalised""#, &one), 1.0);
        let all = pool(&[(2, 0); 2], "", "nodes = 4");
        close(queue(&INFO, r#"topology_formula = "normalised""#, &all), 0.15);
    }

    #[test]
    fn a_ranked_node_is_judged_by_its_own_inside() {
        let mut scenario = pool(&[(1, 0); 4], "", "nodes = 1");
        scenario = scenario.replacen("[]", "[]\nmemory_domains = [{ cpus = 8 }, { cpus = 2 }]", 1);
        let (value, facts) = node_set(&INFO, "", &scenario);
        close(value, 0.785);
        assert_eq!(facts.get("topology_set"), Some(&Fact::Number(value)));
        let Some(Fact::Number(in_queue)) = facts.get("topology_queue") else { panic!("{facts:?}") };
        close(*in_queue, 0.225 + 0.7 * (0.8 + 3.0 * 0.5) / 4.0);
        let (value, facts) = node_set(&INFO, "", &pool(&[(4, 0); 4], "", "nodes = 6"));
        close(value, 0.5);
        assert_eq!(facts.get("topology_set"), None, "the set of a gang is not known yet");
    }
}
