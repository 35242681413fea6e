//! Filter `pull-kind`: the job is of the kind that the node asked for.

use landfall_model::JobKind;

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, ParamInfo, Params};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

const REQUEST_KIND: ParamInfo = ParamInfo::word(
    "request_kind",
    "any",
    &["any", "build", "eval"],
    "The kind of job that the request asks for.",
);

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pull-kind",
    description: "Admits jobs of the kind that the node asked for.",
    reasons: &[Reason::Kind],
    params: &[REQUEST_KIND],
    ..FilterInfo::of(build)
};

struct KindFilter {
    asked: Option<JobKind>,
}

fn build(params: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    let asked = match params.word(&REQUEST_KIND)?.as_str() {
        "build" => Some(JobKind::Build),
        "eval" => Some(JobKind::Eval),
        _ => None,
    };
    Ok(Box::new(KindFilter { asked }))
}

impl Filter for KindFilter {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let asked = self.asked.filter(|asked| *asked != view.spec.kind)?;
        let (needed, found) = (word(view.spec.kind), word(asked));
        // The node asks per kind; its next heartbeat may bring the other request.
        Some(
            Refusal::not_now(Reason::Kind, Quantity::word(needed), Quantity::word(found), Wake::Heartbeat)
                .remedy(view.say(|| format!("wait until the node asks for a job of kind {needed}"))),
        )
    }
}

fn word(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Build => "build",
        JobKind::Eval => "eval",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{check, told};

    #[test]
    fn the_request_says_which_kind() {
        for (asked, build, eval) in [("any", true, true), ("build", true, false), ("eval", false, true)] {
            let params = format!("request_kind = '{asked}'");
            assert_eq!(check(&INFO, &params, "kind = 'build'", "").is_none(), build, "{asked}");
            assert_eq!(check(&INFO, &params, "kind = 'eval'", "").is_none(), eval, "{asked}");
        }
        assert!(check(&INFO, "", "kind = 'eval'", "").is_none());
    }

    #[test]
    fn the_other_kind_has_its_turn_later() {
        let got = check(&INFO, "request_kind = 'eval'", "", "").unwrap();
        assert_eq!(told(&got), "Kind NotNow Heartbeat: build, not eval");
    }
}
