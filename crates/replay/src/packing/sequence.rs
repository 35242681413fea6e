//! In which order pods come, and which node wins a tie.

use super::place::gpu_total;
use crate::trace::openb::{Arrival, OpenbNode, OpenbPod};
use crate::trace::random::Random;

/// How much GPU is asked for in all, as a multiple of what there is.
pub const RATIO: f64 = 1.3;

/// The order of pods and of nodes, as rows of their files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sequence {
    /// Pods as they arrive; a pod may come more than once.
    pub pods: Vec<u32>,
    /// Nodes, first one wins a tie.
    pub nodes: Vec<u32>,
}

fn shuffle(random: &mut Random, rows: &mut [u32]) {
    for last in (1..rows.len()).rev() {
        rows.swap(last, random.below(last as u64 + 1) as usize);
    }
}

impl From<Arrival> for Sequence {
    fn from(arrival: Arrival) -> Self {
        Self { pods: arrival.pods, nodes: arrival.nodes }
    }
}

impl Sequence {
    /// A sequence drawn from a seed: all pods shuffled, then random ones removed or appended until as much GPU is asked
    /// for as the ratio says. Appended pods come last.
    pub fn drawn(pods: &[OpenbPod], hosts: &[OpenbNode], seed: u64, ratio: f64) -> Self {
        let mut random = Random::new(seed);
        let capacity: u64 = hosts.iter().map(|host| u64::from(host.gpus) * 1000).sum();
        let most = (capacity as f64 * ratio) as u64;
        let mut by_name: Vec<u32> = (0..pods.len() as u32).collect();
        by_name.sort_by(|a, b| pods[*a as usize].name.cmp(&pods[*b as usize].name));
        let mut order = by_name.clone();
        shuffle(&mut random, &mut order);
        let asks = |pod: u32| gpu_total(&pods[pod as usize]);
        let mut asked: u64 = order.iter().map(|pod| asks(*pod)).sum();
        while asked > most && !order.is_empty() {
            let at = random.below(order.len() as u64) as usize;
            asked -= asks(order.remove(at));
        }
        // A trace that asks for no GPU at all could be appended to for ever.
        let endless = by_name.iter().all(|pod| asks(*pod) == 0);
        while !endless && order.len() >= by_name.len() {
            let next = by_name[random.below(by_name.len() as u64) as usize];
            // The published programs look at one device of the next pod only.
            if asked + pods[next as usize].gpu_milli > most {
                break;
            }
            asked += asks(next);
            order.push(next);
        }
        let mut nodes: Vec<u32> = (0..hosts.len() as u32).collect();
        shuffle(&mut random, &mut nodes);
        Self { pods: order, nodes }
    }
}
