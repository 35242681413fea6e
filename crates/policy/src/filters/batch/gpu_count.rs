//! `batch-gpu-count`: the node has as many devices as the job wants.

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-gpu-count",
    description: "Refuses nodes with fewer devices than the job wants on each node.",
    reasons: &[Reason::GpuCount],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    if view.node.gpus.len() >= view.spec.gpu_count as usize {
        return None;
    }
    let needed = Quantity::Count(u64::from(view.spec.gpu_count));
    let found = Quantity::Count(view.node.gpus.len() as u64);
    let remedy = "ask for fewer GPUs per node and more nodes";
    Some(Refusal::never(Reason::GpuCount, needed, found, Wake::RegistrationChange).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal};

    #[test]
    fn devices_are_counted() {
        let node = "gpus = [{ count = 4 }]";
        assert!(admits(&INFO, "gpu_count = 0", node) && admits(&INFO, "gpu_count = 4", node));
        let refusal = refusal(&INFO, "gpu_count = 5", node);
        assert_eq!((refusal.needed, refusal.found), (Quantity::Count(5), Quantity::Count(4)));
    }
}
