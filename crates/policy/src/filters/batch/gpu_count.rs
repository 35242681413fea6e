//! `batch-gpu-count`: the node has as many devices as the job wants.

use landfall_model::{JobSpec, Node};

use crate::filter::FilterInfo;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-gpu-count",
    description: "Refuses nodes with fewer devices than the job wants on each node.",
    reasons: &[Reason::GpuCount],
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

/// Whether there are enough devices.
fn admits(spec: &JobSpec, node: &Node) -> bool {
    node.gpus.len() >= spec.gpu_count as usize
}

fn check(view: &View<'_>) -> Option<Refusal> {
    if admits(view.spec, view.node) {
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
    use crate::terms::batch::testing::refusal;

    #[test]
    fn devices_are_counted() {
        let with = |asked: u32| {
            refusal(
                &INFO,
                &format!(
                    r#"nodes = [{{ id = "n", gpus = [{{ count = 4 }}] }}]
                jobs = [{{ id = "j", gpu_count = {asked} }}]"#
                ),
            )
        };
        assert_eq!((with(0), with(4)), (None, None));
        let refusal = with(5).unwrap();
        assert_eq!((refusal.needed, refusal.found), (Quantity::Count(5), Quantity::Count(4)));
    }
}
