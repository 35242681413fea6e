//! Price, delay and capacity of an offer in a negotiation.

use landfall_model::{Node, Peer};

use crate::params::{ParamError, ParamInfo, Params};

const BASE_PRICE: ParamInfo =
    ParamInfo::whole("base_price", 10, "credits/1000 fuel", "Price of an idle peer.");
const SURGE_ABOVE: ParamInfo =
    ParamInfo::whole("surge_above", 5, "jobs", "A longer queue raises the price by half.");

/// Parameters of every offer.
pub const PARAMS: [ParamInfo; 2] = [BASE_PRICE, SURGE_ABOVE];

/// Each queued job delays the start by this much.
const DELAY_PER_QUEUED_MS: u64 = 10_000;

/// How peers set prices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    base_price: u64,
    surge_above: u64,
}

impl Terms {
    pub(crate) fn build(params: &Params<'_>) -> Result<Self, ParamError> {
        Ok(Self {
            base_price: params.whole(&BASE_PRICE)? as u64,
            surge_above: params.whole(&SURGE_ABOVE)? as u64,
        })
    }

    /// Price in credits per 1000 fuel: what the peer says, or the usual one with half more under surge.
    pub(crate) fn cost(&self, node: &Node) -> u64 {
        let Some(peer) = &node.peer else { return self.base_price };
        peer.cost.unwrap_or(if peer.queued > self.surge_above {
            self.base_price * 3 / 2
        } else {
            self.base_price
        })
    }

    /// Delay until a new job would start.
    pub(crate) fn start_delay_ms(&self, node: &Node) -> u64 {
        let Some(peer) = &node.peer else { return 0 };
        peer.start_delay_ms.unwrap_or(peer.queued.saturating_mul(DELAY_PER_QUEUED_MS))
    }
}

/// Free amount of a peer: total less what is promised and what others use.
fn free(total: u64, committed: u64, measured: u64, own: u64) -> u64 {
    let foreign = measured.saturating_sub(own);
    total.saturating_sub(committed).saturating_sub(foreign)
}

/// Free CPU in milli-cores.
pub fn cpu_free(node: &Node) -> u64 {
    let (measured, own) =
        node.peer.as_deref().map_or((0, 0), |p: &Peer| (p.cpu_measured.get(), p.cpu_own.get()));
    free(node.cpu_total.get(), node.cpu_committed.get(), measured, own)
}

/// Free RAM in MiB.
pub fn ram_free(node: &Node) -> u64 {
    let (measured, own) =
        node.peer.as_deref().map_or((0, 0), |p: &Peer| (p.ram_measured.get(), p.ram_own.get()));
    free(node.ram_total.get(), node.ram_committed.get(), measured, own)
}

/// The scarcest free share of CPU, RAM and, if GPUs are asked for, devices; before the job's own needs.
pub fn capacity_ratio(node: &Node, wants_gpus: bool) -> f64 {
    let ratio = |free: u64, total: u64| if total == 0 { 0.0 } else { free as f64 / total as f64 };
    let cpu = ratio(cpu_free(node), node.cpu_total.get());
    let ram = ratio(ram_free(node), node.ram_total.get());
    let least = cpu.min(ram);
    if !wants_gpus {
        return least;
    }
    let free = node.gpus.iter().filter(|gpu| gpu.milli_free().get() == 1000).count() as u64;
    least.min(ratio(free, node.gpus.len() as u64))
}

/// Whether a device capability reaches the one asked for: `sm_XY` and `X.Y` as numbers, anything else as text.
pub fn capability_reaches(has: &str, needs: &str) -> bool {
    match (parse_capability(has), parse_capability(needs)) {
        (Some(has), Some(needs)) => has >= needs,
        _ => has == needs,
    }
}

fn parse_capability(text: &str) -> Option<(u32, u32)> {
    if let Some(digits) = text.strip_prefix("sm_") {
        let digits = digits.trim_end_matches(|c: char| c.is_ascii_lowercase());
        if digits.len() < 2 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let (major, minor) = digits.split_at(digits.len() - 1);
        return Some((major.parse().ok()?, minor.parse().ok()?));
    }
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::{Gpu, Mib, MilliCpu, NodeId};

    fn node(cpu: u64, ram: u64) -> Node {
        Node::new(NodeId::new("n").unwrap(), MilliCpu::new(cpu), Mib::new(ram))
    }

    #[test]
    fn n6_foreign_use_counts() {
        let mut node = node(8000, 1);
        node.cpu_committed = MilliCpu::new(3500);
        node.peer = Some(Box::new(Peer {
            cpu_measured: MilliCpu::new(3200),
            cpu_own: MilliCpu::new(2500),
            ..Peer::default()
        }));
        assert_eq!(cpu_free(&node), 3800);
        assert_eq!(capacity_ratio(&node, false), 0.475);
    }

    #[test]
    fn n7_the_scarcest_share() {
        let mut node = node(8000, 16_384);
        node.cpu_committed = MilliCpu::new(1000);
        node.ram_committed = Mib::new(4096);
        node.gpus = (0..4).map(|index| Gpu::new(index, None, None)).collect();
        for gpu in &mut node.gpus[1..] {
            gpu.milli_committed = landfall_model::MilliGpu::WHOLE;
        }
        assert_eq!(capacity_ratio(&node, true), 0.25);
        assert_eq!(capacity_ratio(&node, false), 0.75);
    }

    #[test]
    fn n8_capabilities() {
        for (has, want) in [("sm_100", true), ("7.5", false), ("8.6", true), ("sm_90a", true)] {
            assert_eq!(capability_reaches(has, "sm_80"), want, "{has}");
        }
        assert!(!capability_reaches("gfx942", "gfx90a"));
        assert!(capability_reaches("gfx90a", "gfx90a"));
    }

    #[test]
    fn n9_price_and_delay() {
        let terms = Terms { base_price: 10, surge_above: 5 };
        for (queued, cost, delay) in [(5, 10, 50_000), (6, 15, 60_000)] {
            let mut node = node(1, 1);
            node.peer = Some(Box::new(Peer { queued, ..Peer::default() }));
            assert_eq!((terms.cost(&node), terms.start_delay_ms(&node)), (cost, delay));
        }
    }
}
