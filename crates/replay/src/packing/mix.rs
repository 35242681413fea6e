//! The expected mix: the most common kinds of pods of a trace.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use landfall_model::{MilliCpu, MilliGpu, MixShare, Name};

use crate::trace::openb::OpenbPod;

/// Share of all pods that the kept kinds make up at least.
const KEPT: (usize, usize) = (95, 100);

/// The shortest list of kinds, most common first, that holds at least 95 % of the pods.
///
/// A kind is CPU, GPU share, GPU count and allowed models; memory does not enter. Equally common kinds come largest first.
pub fn typical_mix(pods: &[OpenbPod]) -> Vec<MixShare> {
    let mut mix = expected_mix(pods);
    mix.retain(|class| !class.rare);
    mix
}

/// The same with the kinds that are too rare to be part of it behind, marked as such.
pub fn expected_mix(pods: &[OpenbPod]) -> Vec<MixShare> {
    let mut counts: BTreeMap<(u64, u64, u32, &[String]), usize> = BTreeMap::new();
    for pod in pods {
        *counts.entry((pod.cpu_milli, pod.gpu_milli, pod.num_gpu, &*pod.gpu_spec)).or_default() += 1;
    }
    let mut kinds: Vec<_> = counts.into_iter().collect();
    kinds.sort_by_key(|(kind, count)| Reverse((*count, *kind)));
    let mut held = 0;
    let enough = pods.len() * KEPT.0;
    let kept = kinds.iter().take_while(|(_, count)| {
        let more = held * KEPT.1 < enough;
        held += count;
        more
    });
    let kept = kept.count();
    let total: usize = kinds[..kept].iter().map(|(_, count)| count).sum();
    // Shares of all pods, then of those kept: the published steps, which differ in the last bit from one division.
    let all = pods.len() as f64;
    let share = |count: usize| (count as f64 / all) / (total as f64 / all);
    type Counted<'a> = ((u64, u64, u32, &'a [String]), usize);
    let class = |(place, ((cpu, milli, gpus, models), count)): (usize, &Counted<'_>)| MixShare {
        share: share(*count),
        gpu_count: *gpus,
        gpu_milli: MilliGpu::new(*milli),
        cpu_milli: MilliCpu::new(*cpu),
        gpu_models: models.iter().filter_map(|model| Name::new(model).ok()).collect(),
        rare: place >= kept,
    };
    kinds.iter().enumerate().map(class).collect()
}
