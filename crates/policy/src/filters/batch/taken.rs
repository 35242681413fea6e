//! `batch-taken`: an exclusive job needs an empty node, a shared one enough that is left.
//!
//! Only what other work holds counts here: a node that would be too small even if idle is refused for that, by the
//! filters of each resource.

use landfall_model::{JobSpec, Name, Node};

use crate::devices::{MemoryView, model_allowed, qualifies};
use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::rules::snapshot::is_empty;
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "batch-taken",
    description: "Refuses nodes on which other work holds what the job needs; an exclusive job needs an empty node.",
    reasons: &[Reason::NodeTaken, Reason::Held],
    about: About::Plan,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

/// Whether nothing that the job needs is held by other work.
pub(crate) fn admits(spec: &JobSpec, node: &Node) -> bool {
    obstacle(spec, node).is_none()
}

/// What is in the way.
enum Obstacle {
    /// The job wants the node to itself, and there is something on it.
    NotEmpty,
    /// Another job has the node to itself.
    Exclusive,
    /// Too little CPU is left.
    Cpu,
    /// Too little memory is left.
    Memory,
    /// Too few devices are left.
    Devices,
}

fn obstacle(spec: &JobSpec, node: &Node) -> Option<Obstacle> {
    if spec.exclusive {
        return (!is_empty(node)).then_some(Obstacle::NotEmpty);
    }
    if node.placements.iter().any(|placement| placement.exclusive_node) {
        return Some(Obstacle::Exclusive);
    }
    if spec.cpu_milli > node.cpu_free() && spec.cpu_milli <= node.cpu_total {
        return Some(Obstacle::Cpu);
    }
    if spec.ram_mib > node.ram_free() && spec.ram_mib <= node.ram_total {
        return Some(Obstacle::Memory);
    }
    let asked = spec.gpu_count as usize;
    let idle =
        node.gpus.iter().filter(|gpu| model_allowed(spec, gpu) && gpu.vram_total() >= spec.vram_mib).count();
    (devices_left(spec, node) < asked && asked <= idle).then_some(Obstacle::Devices)
}

fn devices_left(spec: &JobSpec, node: &Node) -> usize {
    node.gpus.iter().filter(|gpu| qualifies(spec, gpu, MemoryView::Committed)).count()
}

/// Whether neither placements nor holds are on the node.
fn holders(node: &Node) -> Quantity {
    let names = node.placements.iter().filter_map(|placement| Name::new(placement.job.as_str()).ok());
    match names.collect::<Vec<_>>() {
        names if names.is_empty() => Quantity::word("held"),
        names => Quantity::Names(names),
    }
}

fn check(view: &View<'_>) -> Option<Refusal> {
    let (spec, node) = (view.spec, view.node);
    let devices = |count: usize| Quantity::Devices {
        count: count as u64,
        vram_mib: spec.vram_mib,
        gpu_milli: spec.gpu_milli,
    };
    let (needed, found) = match obstacle(spec, node)? {
        Obstacle::NotEmpty => (Quantity::word("an empty node"), holders(node)),
        Obstacle::Exclusive => (Quantity::word("a node open to sharing"), holders(node)),
        Obstacle::Cpu => (Quantity::CpuMilli(spec.cpu_milli), Quantity::CpuMilli(node.cpu_free())),
        Obstacle::Memory => (Quantity::Mib(spec.ram_mib), Quantity::Mib(node.ram_free())),
        Obstacle::Devices => (devices(spec.gpu_count as usize), devices(devices_left(spec, node))),
    };
    let remedy = if spec.exclusive {
        "wait for the work on it to end, or set exclusive = false"
    } else {
        "wait for work on it to end, or ask for less"
    };
    let only_holds = node.placements.is_empty() && node.has_holds();
    let reason = if only_holds { Reason::Held } else { Reason::NodeTaken };
    Some(Refusal::not_now(reason, needed, found, Wake::PlacementEnded).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::check as check_pair;

    fn with(placements: &str, job: &str) -> Option<String> {
        let node = format!(
            "cpu_milli = 8000\nram_mib = 1000\ngpus = [{{ count = 4, vram_mib = 100 }}]\nplacements = [{placements}]"
        );
        check_pair(&INFO, "", job, &node).map(|refusal| format!("{} {}", refusal.needed, refusal.found))
    }

    #[test]
    fn an_exclusive_job_needs_an_empty_node() {
        assert_eq!(with("", "gpu_count = 4"), None);
        let x = r#"{ job = "x", cpu_milli = 1 }"#;
        assert_eq!(with(x, "").as_deref(), Some("an empty node x"));
    }

    #[test]
    fn a_shared_job_needs_what_is_left() {
        let x = r#"{ job = "x", cpu_milli = 5000, ram_mib = 600, gpus = [0, 1] }"#;
        assert_eq!(with(x, "exclusive = false\ncpu_milli = 3000\nram_mib = 400\ngpu_count = 2"), None);
        assert!(with(x, "exclusive = false\ncpu_milli = 3001").is_some());
        assert!(with(x, "exclusive = false\nram_mib = 401").is_some());
        assert_eq!(with(x, "exclusive = false\ngpu_count = 3").as_deref(), Some("3 GPUs 2 GPUs"));
        let whole = r#"{ job = "x", exclusive = true }"#;
        assert_eq!(with(whole, "exclusive = false").as_deref(), Some("a node open to sharing x"));
    }

    #[test]
    fn an_idle_node_is_never_taken() {
        for job in ["cpu_milli = 9000", "ram_mib = 2000", "gpu_count = 5", "gpu_count = 1\nvram_mib = 200"] {
            assert_eq!(with("", &format!("exclusive = false\n{job}")), None, "{job}");
        }
    }
}
