//! `batch-gpu-memory`: enough devices have the memory that the job wants of each.

use landfall_model::{JobSpec, Mib, Node};

use super::gpu_model;
use crate::devices::model_allowed;
use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-gpu-memory",
    description: "Refuses nodes whose devices have less memory than the job wants of each, or do not say how much.",
    reasons: &[Reason::GpuMemory],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

/// Whether memory will do on as many devices as are wanted. Only devices of an accepted model count, since one device
/// must have both; too few of those is the business of `batch-gpu-model`.
fn admits(spec: &JobSpec, node: &Node) -> bool {
    if spec.vram_mib.is_zero() || spec.gpu_count == 0 {
        return true;
    }
    let large =
        node.gpus.iter().filter(|gpu| model_allowed(spec, gpu) && gpu.vram_total() >= spec.vram_mib).count();
    large >= gpu_model::matching(spec, node).min(spec.gpu_count as usize)
}

fn check(view: &View<'_>) -> Option<Refusal> {
    let (spec, node) = (view.spec, view.node);
    if admits(spec, node) {
        return None;
    }
    // What the last of the wanted devices has: so much could be asked of each.
    let mut sizes: Vec<Mib> =
        node.gpus.iter().filter(|gpu| model_allowed(spec, gpu)).map(|g| g.vram_total()).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let nth = sizes.len().min(spec.gpu_count as usize).saturating_sub(1);
    let found = match sizes.get(nth).filter(|size| !size.is_zero()) {
        Some(&size) => Quantity::Mib(size),
        None => Quantity::word("unknown"),
    };
    let remedy = "ask for less memory per GPU, or for fewer GPUs";
    let needed = Quantity::Mib(spec.vram_mib);
    Some(Refusal::never(Reason::GpuMemory, needed, found, Wake::RegistrationChange).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::check as check_pair;

    fn found(job: &str) -> Option<String> {
        let node = "gpus = [{ model = 'A', vram_mib = 80 }, { model = 'A', vram_mib = 40 }, \
                    { model = 'B', vram_mib = 90 }, { model = 'C' }]";
        check_pair(&INFO, "", job, node).map(|refusal| refusal.found.to_string())
    }

    #[test]
    fn each_device_needs_the_memory() {
        assert_eq!(found("gpu_count = 4"), None, "none asked");
        assert_eq!(found("gpu_count = 2\nvram_mib = 80"), None);
        assert_eq!(found("gpu_count = 3\nvram_mib = 80"), Some(Mib::new(40).to_string()));
        assert_eq!(found("gpu_count = 4\nvram_mib = 10").as_deref(), Some("unknown"));
    }

    #[test]
    fn memory_counts_on_accepted_models_only() {
        let job = |models: &str| format!("gpu_count = 2\nvram_mib = 80\ngpu_models = [{models}]");
        assert_eq!(found(&job(r#""A""#)), Some(Mib::new(40).to_string()));
        assert_eq!(found(&job(r#""A", "B""#)), None);
    }
}
