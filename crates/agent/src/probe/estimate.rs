//! What the agent estimates of its machine.

use landfall_api::node::{GpuFacts, PerformanceEstimates};
use landfall_model::{Mib, gpu_table};

/// Bandwidth per GiB of memory, for models that no table knows.
const GB_S_PER_GIB: f64 = 40.0;
/// Bandwidth of a GPU of which nothing is known.
const GB_S_UNKNOWN: f64 = 200.0;

/// Memory bandwidth of a GPU: measured, by its name, or by the size of its memory.
pub fn bandwidth_gb_s(gpu: &GpuFacts) -> f64 {
    let measured = gpu.bandwidth_gb_s.filter(|gb_s| gb_s.is_finite() && *gb_s > 0.0);
    let vram = gpu.vram_mib.map(Mib::new);
    let known = || Some(gpu_table::lookup(gpu.model.as_deref()?)?.gb_s_with(vram));
    let sized = || gpu.vram_mib.filter(|mib| *mib > 0).map(|mib| mib as f64 / 1024.0 * GB_S_PER_GIB);
    measured.or_else(known).or_else(sized).unwrap_or(GB_S_UNKNOWN)
}

/// The estimates of a machine.
pub fn estimates(
    cpu_milli: u64,
    ram_mib: u64,
    gpus: &[GpuFacts],
    runtimes: Vec<String>,
) -> PerformanceEstimates {
    let fastest = gpus.iter().max_by(|a, b| bandwidth_gb_s(a).total_cmp(&bandwidth_gb_s(b)));
    let cores = cpu_milli / 1000;
    PerformanceEstimates {
        gpu_bandwidth_gb_s: fastest.map(bandwidth_gb_s),
        estimated_llm_tok_s: fastest
            .map(|gpu| gpu_table::estimated_llm_tok_s(bandwidth_gb_s(gpu), gpu.vram_mib.map(Mib::new))),
        max_concurrent_containers: (cores / 2).min(ram_mib / 2048).max(1),
        wasm_memory_limit_mb: ram_mib.saturating_mul(3) / 4,
        supported_runtimes: runtimes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(model: &str, vram_mib: Option<u64>) -> GpuFacts {
        GpuFacts { model: Some(model.to_owned()), vram_mib, ..GpuFacts::default() }
    }

    #[test]
    fn f32_machines_without_gpu() {
        let big = estimates(8000, 16_384, &[], Vec::new());
        assert_eq!((big.gpu_bandwidth_gb_s, big.estimated_llm_tok_s), (None, None));
        assert_eq!((big.max_concurrent_containers, big.wasm_memory_limit_mb), (4, 12_288));
        let small = estimates(1000, 1024, &[], Vec::new());
        assert_eq!((small.max_concurrent_containers, small.wasm_memory_limit_mb), (1, 768));
    }

    #[test]
    fn f33_tokens_per_second_of_known_gpus() {
        for (model, gib, tokens) in
            [("NVIDIA GeForce RTX 3090", 24, 114.0), ("NVIDIA GeForce RTX 3060", 12, 44.0)]
        {
            let found = estimates(8000, 16_384, &[gpu(model, Some(gib * 1024))], Vec::new());
            assert_eq!(found.estimated_llm_tok_s, Some(tokens), "{model}");
        }
    }

    #[test]
    fn bandwidth_of_unknown_models_follows_memory() {
        assert_eq!(bandwidth_gb_s(&gpu("Mystery 1", Some(8192))), 320.0);
        assert_eq!(bandwidth_gb_s(&gpu("Mystery 1", None)), 200.0);
        let measured = GpuFacts { bandwidth_gb_s: Some(1.5), ..gpu("RTX 3090", Some(8192)) };
        assert_eq!(bandwidth_gb_s(&measured), 1.5);
    }
}
