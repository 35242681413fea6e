//! Filter `pull-capability`: the node can do the tasks of the eval.

use landfall_model::{JobKind, Name};

use super::sent_capabilities;
use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pull-capability",
    description: "Admits evals whose tasks the node can do: fetching, evaluating, or both.",
    reasons: &[Reason::Capability],
    about: About::Registration,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    if view.spec.kind != JobKind::Eval || !sent_capabilities(view.node) {
        return None;
    }
    let can = view.node.capabilities.as_ref().map_or((false, false), |can| (can.fetch, can.eval));
    let needs = (view.spec.fetch_task, view.spec.evaluate_task);
    if (!needs.0 || can.0) && (!needs.1 || can.1) {
        return None;
    }
    let [needed, found] = [needs, can].map(|(fetch, eval)| words(view, [fetch, eval]));
    let remedy = view.say(|| format!("add a node that can do {needed}"));
    Some(Refusal::never(Reason::Capability, needed, found, Wake::RegistrationChange).remedy(remedy))
}

fn words(view: &View<'_>, [fetch, eval]: [bool; 2]) -> Quantity {
    let words = [fetch.then_some("fetch"), eval.then_some("eval")].map(|word| word.filter(|_| view.explains));
    Quantity::Names(words.into_iter().flatten().filter_map(|word| Name::new(word).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal, told};

    fn eval(fetch: bool, evaluate: bool) -> String {
        format!("kind = 'eval'\nfetch_task = {fetch}\nevaluate_task = {evaluate}")
    }

    #[test]
    fn each_task_needs_its_capability() {
        for fetch_task in [false, true] {
            for evaluate_task in [false, true] {
                for fetch in [false, true] {
                    for can_eval in [false, true] {
                        let node = format!("fetch = {fetch}\neval = {can_eval}");
                        let want = (fetch || !fetch_task) && (can_eval || !evaluate_task);
                        let job = eval(fetch_task, evaluate_task);
                        assert_eq!(admits(&INFO, &job, &node), want, "{job}\n{node}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_refusal_names_what_is_needed_and_found() {
        let got = refusal(&INFO, &eval(true, true), "eval = true");
        assert_eq!(told(&got), "Capability Never RegistrationChange: fetch, eval, not eval");
    }

    #[test]
    fn builds_need_none() {
        assert!(admits(&INFO, "", "fetch = false"));
    }

    #[test]
    fn a_node_that_never_sent_capabilities_is_not_asked() {
        assert!(admits(&INFO, &eval(true, true), ""));
    }
}
