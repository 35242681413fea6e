//! How close together the devices, CPUs and memory of one node are for a job.

use landfall_model::{JobSpec, LocalityBias, MemoryDomain, Node};
use smallvec::SmallVec;

use crate::devices::{MemoryView, link_bandwidth, qualifies};

/// What counts for a node whose inside is unknown.
pub const UNKNOWN: f64 = 0.5;

/// How much nearer everything is to a job that stays inside one memory domain.
const SAME_NUMA_FACTOR: f64 = 1.2;

/// Which devices of a node are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picture {
    /// Those that the job could get now.
    Now,
    /// All, as if nothing ran.
    Idle,
}

/// Locality of a node for a job, 0 to 1; `None` if neither links nor memory domains are known.
pub fn locality(spec: &JobSpec, node: &Node, picture: Picture) -> Option<f64> {
    match (link_part(spec, node, picture), memory_part(&node.memory_domains, spec.same_numa)) {
        (Some(link), Some(memory)) => {
            let bias = match spec.locality_bias {
                LocalityBias::Gpu => 0.7,
                LocalityBias::Even => 0.5,
                LocalityBias::Cpu => 0.3,
            };
            Some(bias * link + (1.0 - bias) * memory)
        }
        (link, memory) => link.or(memory),
    }
}

/// How fast the slowest link of the best devices is; `None` for fewer than two devices or without link data.
fn link_part(spec: &JobSpec, node: &Node, picture: Picture) -> Option<f64> {
    let links = node.links.as_ref().filter(|links| !links.is_empty() && spec.gpu_count >= 2)?;
    let all: SmallVec<[u16; 16]> = node.gpus.iter().map(|gpu| gpu.index).collect();
    // An exclusive job has all devices of the node to choose from; a shared one only those that are left.
    if spec.exclusive || picture == Picture::Idle {
        return link_bandwidth::ratio(&all, spec.gpu_count as usize, links);
    }
    let free = node.gpus.iter().filter(|gpu| qualifies(spec, gpu, MemoryView::Committed));
    let free: SmallVec<[u16; 16]> = free.map(|gpu| gpu.index).collect();
    link_bandwidth::ratio_of_free(&free, &all, spec.gpu_count as usize, links)
}

/// The largest part of a node's CPUs and GPUs that share one memory; `None` without a memory map.
pub fn memory_part(domains: &[MemoryDomain], same_numa: bool) -> Option<f64> {
    let size = |domain: &MemoryDomain| u64::from(domain.cpus) + u64::from(domain.gpus);
    let largest = domains.iter().map(size).max()?;
    let all: u64 = domains.iter().map(size).sum();
    if domains.len() == 1 || all == 0 {
        return Some(1.0);
    }
    let part = largest as f64 / all as f64;
    Some(if same_numa { (part * SAME_NUMA_FACTOR).min(1.0) } else { part })
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::{Gpu, Links, Mib, MilliCpu, NodeId};

    fn node() -> Node {
        let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::cores(64), Mib::gib(64));
        node.gpus = (0..4).map(|index| Gpu::new(index, None, None)).collect();
        let across = [(0, 2, 64), (0, 3, 64), (1, 2, 64), (1, 3, 64)];
        node.links = Some(Links::new([(0, 1, 900), (2, 3, 900)].into_iter().chain(across)));
        node
    }

    fn spec(gpu_count: u32) -> JobSpec {
        JobSpec { gpu_count, ..JobSpec::empty() }
    }

    #[test]
    fn b8_memory_part() {
        let domain = |cpus, gpus| MemoryDomain { cpus, gpus };
        let close =
            |got: Option<f64>, want: f64| assert!((got.unwrap() - want).abs() < 1e-6, "{got:?} {want}");
        close(memory_part(&[domain(2, 1), domain(2, 1)], false), 0.5);
        close(memory_part(&[domain(32, 4), domain(32, 0)], false), 0.529_412);
        close(memory_part(&[domain(32, 4), domain(32, 0)], true), 0.635_294);
        close(memory_part(&[domain(9, 0), domain(1, 0)], true), 1.0);
        close(memory_part(&[domain(64, 8)], false), 1.0);
        close(memory_part(&[domain(0, 0), domain(0, 0)], false), 1.0);
        assert_eq!(memory_part(&[], true), None);
    }

    #[test]
    fn links_count_from_two_devices_on() {
        let node = node();
        assert_eq!(locality(&spec(1), &node, Picture::Idle), None);
        assert_eq!(locality(&spec(2), &node, Picture::Idle), Some(1.0));
        assert!((locality(&spec(3), &node, Picture::Idle).unwrap() - 64.0 / 900.0).abs() < 1e-12);
    }

    #[test]
    fn a_shared_job_sees_the_devices_that_are_left() {
        let mut node = node();
        node.gpus[0].holder = Some(landfall_model::JobId::new("a").unwrap());
        node.gpus[2].holder = Some(landfall_model::JobId::new("a").unwrap());
        let shared = JobSpec { exclusive: false, ..spec(2) };
        assert!((locality(&shared, &node, Picture::Now).unwrap() - 64.0 / 900.0).abs() < 1e-12);
        assert_eq!(locality(&shared, &node, Picture::Idle), Some(1.0));
        assert_eq!(locality(&spec(2), &node, Picture::Now), Some(1.0));
    }

    #[test]
    fn the_bias_weighs_links_against_memory() {
        let mut node = node();
        node.memory_domains = vec![MemoryDomain { cpus: 2, gpus: 1 }; 2];
        for (locality_bias, want) in
            [(LocalityBias::Gpu, 0.85), (LocalityBias::Even, 0.75), (LocalityBias::Cpu, 0.65)]
        {
            let got = locality(&JobSpec { locality_bias, ..spec(2) }, &node, Picture::Idle).unwrap();
            assert!((got - want).abs() < 1e-12);
        }
        assert_eq!(locality(&spec(0), &node, Picture::Idle), Some(0.5), "one known part stands alone");
    }
}
