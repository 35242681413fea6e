//! What a node says about itself in its heartbeat: the estimates shown to its owner.

use landfall_model::gpu_table::estimated_llm_tok_s;
use landfall_model::{Mib, Node};

use crate::rules::fit::Bandwidths;

/// The `performance_estimates` of a heartbeat.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimates {
    /// Bandwidth of the fastest GPU, if there is one.
    pub gpu_bandwidth_gb_s: Option<f64>,
    /// Tokens per second of a 7B model at 4 bits on it.
    pub estimated_llm_tok_s: Option<f64>,
    /// Containers that fit side by side.
    pub max_concurrent_containers: u64,
    /// Memory that WASM jobs may use.
    pub wasm_memory_limit: Mib,
}

impl Estimates {
    /// The estimates of a node.
    pub fn of(node: &Node) -> Self {
        const CORES_PER_CONTAINER: u64 = 2;
        const MIB_PER_CONTAINER: u64 = 2048;
        let bandwidths = Bandwidths::default();
        let fastest = node
            .gpus
            .iter()
            .map(|gpu| (bandwidths.of(gpu, node).0, gpu.vram))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let cores = node.cpu_total.get() / 1000;
        Self {
            gpu_bandwidth_gb_s: fastest.map(|(gb_s, _)| gb_s),
            estimated_llm_tok_s: fastest.map(|(gb_s, vram)| estimated_llm_tok_s(gb_s, vram)),
            max_concurrent_containers: (cores / CORES_PER_CONTAINER)
                .min(node.ram_total.get() / MIB_PER_CONTAINER)
                .max(1),
            wasm_memory_limit: Mib::new(node.ram_total.get() * 3 / 4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::{MilliCpu, NodeId};

    #[test]
    fn f32_machines_without_gpu() {
        for (cores, ram, containers, wasm) in [(8, 16_384, 4, 12_288), (1, 1024, 1, 768)] {
            let node = Node::new(NodeId::new("n").unwrap(), MilliCpu::cores(cores), Mib::new(ram));
            let estimates = Estimates::of(&node);
            assert_eq!((estimates.gpu_bandwidth_gb_s, estimates.estimated_llm_tok_s), (None, None));
            assert_eq!(estimates.max_concurrent_containers, containers);
            assert_eq!(estimates.wasm_memory_limit.get(), wasm);
        }
    }
}
