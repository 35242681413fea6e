//! `image-local`: whether the job's image is on the node already, so that jobs of one image can be kept together.
//!
//! Engines tell which images are there, not how many bytes of one that is not; so of its bytes all are there or none counts.

use crate::term::{Family, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

struct ImageLocal;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "image-local",
    range: (0.0, Some(1.0)),
    unit: "share",
    description: "1 if the image that the job runs in is on the node already, else 0.",
    ..TermInfo::of(Family::BinPack, |_| Ok(Box::new(ImageLocal)))
};

fn is_there(view: &View<'_>) -> Option<bool> {
    view.spec.image.as_ref().map(|image| view.node.images.contains(image))
}

impl Term for ImageLocal {
    fn score(&self, view: &View<'_>) -> f64 {
        if is_there(view) == Some(true) { 1.0 } else { 0.0 }
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        if let Some(there) = is_there(view) {
            facts.note("image_there", Fact::Flag(there));
        }
    }
}

#[cfg(test)]
mod tests {
    use landfall_model::scenario::{Format, parse};

    use crate::{Policy, builtin, policy_file};

    /// The winner, and what the term says of both nodes.
    fn ranked(image: &str, weight: &str) -> (String, Vec<f64>) {
        let scenario =
            format!("[[nodes]]\nid='a'\n[[nodes]]\nid='b'\nimages=['alpine']\n[[jobs]]\nid='j'\n{image}\n");
        let situation = parse(&scenario, Format::Toml).unwrap();
        let text = builtin::text("bin-pack").unwrap().replace("w_image = 0.0", weight);
        let policy = Policy::compile(policy_file::parse(&text).unwrap()).unwrap();
        let ranking = policy.rank_nodes(&situation, &situation.jobs()[0]);
        let raw = |node: &str| {
            let found = ranking.candidates.iter().find(|verdict| verdict.candidate.as_str() == node);
            found.unwrap().term("image-local").unwrap().raw
        };
        (ranking.candidates[0].candidate.to_string(), ["a", "b"].map(raw).to_vec())
    }

    #[test]
    fn an_image_that_is_there_counts_where_it_has_a_weight() {
        let full = "image='docker.io/library/alpine:latest'";
        assert_eq!(ranked(full, "w_image = 0.1"), ("b".to_owned(), vec![0.0, 1.0]));
        assert_eq!(ranked(full, "w_image = 0.0"), ("a".to_owned(), vec![0.0, 1.0]));
        assert_eq!(ranked("image='quay.io/other:1'", "w_image = 0.1"), ("a".to_owned(), vec![0.0, 0.0]));
        assert_eq!(ranked("", "w_image = 0.1"), ("a".to_owned(), vec![0.0, 0.0]), "no image is named");
    }
}
