//! What a placement costs: the tier of the hardware, never part of a score.

use landfall_model::gpu_table::{HardwareTier, tier};
use landfall_model::{Money, Node};

use crate::rules::fit::Bandwidths;

pub use landfall_model::PriceBasis;

/// The tier that sets the price of a placement on the given devices (indices).
pub fn price_tier(node: &Node, devices: &[u16], basis: PriceBasis) -> HardwareTier {
    let bandwidths = Bandwidths::default();
    node.gpus
        .iter()
        .filter(|gpu| basis == PriceBasis::Node || devices.contains(&gpu.index))
        .map(|gpu| {
            let name = gpu.model.as_ref().map_or("", |model| model.name.as_str());
            tier(name, bandwidths.of(gpu, node).0)
        })
        .max()
        .unwrap_or(HardwareTier::CpuOnly)
}

/// Base price × multiplier of the tier × surge.
pub fn price(base: f64, tier: HardwareTier, surge: f64) -> f64 {
    base * tier.multiplier() * surge
}

/// The same as an amount that can be added up; at most what an amount can be.
pub fn charged(base: f64, tier: HardwareTier, surge: f64) -> Money {
    let micro = (price(base, tier, surge) * 1e6).round();
    Money::new((micro as u64).min(Money::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::gpu_table::GpuModel;
    use landfall_model::{Gpu, Mib, MilliCpu, Name, NodeId};

    #[test]
    fn f44_the_job_pays_for_what_it_holds() {
        let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::ZERO, Mib::ZERO);
        let model = GpuModel::new(Name::new("NVIDIA H100 80GB HBM3").unwrap());
        node.gpus = vec![Gpu::new(0, Some(model), Some(Mib::gib(80)))];
        let of = |basis| price(0.10, price_tier(&node, &[], basis), 1.0);
        assert!((of(PriceBasis::Placement) - 0.05).abs() < 1e-9);
        assert!((of(PriceBasis::Node) - 0.20).abs() < 1e-9);
        assert_eq!(price_tier(&node, &[0], PriceBasis::Placement), HardwareTier::Enterprise);
    }
}
