//! `batch-gpu-model`: enough of the node's devices are of a model that the job accepts.

use landfall_model::{JobSpec, Node};

use crate::devices::model_allowed;
use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-gpu-model",
    description: "Refuses nodes whose devices are of other or unknown models than those the job accepts.",
    reasons: &[Reason::GpuModel],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

/// Devices of a model that the job accepts.
pub(super) fn matching(spec: &JobSpec, node: &Node) -> usize {
    node.gpus.iter().filter(|gpu| model_allowed(spec, gpu)).count()
}

/// Whether the models will do. Having too few devices of any model is the business of `batch-gpu-count`.
fn admits(spec: &JobSpec, node: &Node) -> bool {
    matching(spec, node) >= node.gpus.len().min(spec.gpu_count as usize)
}

fn check(view: &View<'_>) -> Option<Refusal> {
    let (spec, node) = (view.spec, view.node);
    if admits(spec, node) {
        return None;
    }
    let gpus = node.gpus.iter().filter(|_| view.explains);
    let mut models: Vec<_> = gpus.filter_map(|gpu| Some(gpu.model.as_ref()?.name.clone())).collect();
    models.sort_unstable();
    models.dedup();
    let found = if models.is_empty() { Quantity::word("unknown") } else { Quantity::Names(models) };
    let remedy = view.say(|| {
        let would_do = matching(spec, node);
        format!("{would_do} of its devices would do; accept another model in gpu_models")
    });
    let needed = Quantity::Names(if view.explains { spec.gpu_models.clone() } else { Vec::new() });
    Some(Refusal::never(Reason::GpuModel, needed, found, Wake::RegistrationChange).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::check as check_pair;

    fn found(gpus: &str, job: &str) -> Option<String> {
        let node = format!("gpus = [{gpus}]");
        check_pair(&INFO, "", job, &node).map(|refusal| refusal.found.to_string())
    }

    #[test]
    fn exact_models_only() {
        let mixed = "{ model = 'A100', count = 2 }, { model = 'H100' }";
        let one_h100 = "gpu_count = 1\ngpu_models = ['H100']";
        assert_eq!(found(mixed, "gpu_count = 3"), None, "any model");
        assert_eq!(found(mixed, "gpu_count = 2\ngpu_models = ['A100']"), None);
        assert_eq!(found(mixed, "gpu_count = 2\ngpu_models = ['H100']").as_deref(), Some("A100, H100"));
        assert_eq!(found("{ count = 2 }", one_h100).as_deref(), Some("unknown"));
        assert_eq!(found("", one_h100), None, "no device at all is another reason");
    }
}
