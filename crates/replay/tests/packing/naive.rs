//! Packing rules once more, over every node every time.

use landfall_replay::packing::Sequence;
use landfall_replay::trace::openb::{OpenbNode, OpenbPod};

#[derive(Clone)]
struct Host {
    cpu: i64,
    memory: i64,
    free: Vec<i64>,
    model: String,
    pods: usize,
    /// How many pods of each class it hosts: 0 for a share, else the number of GPUs.
    classes: std::collections::BTreeMap<u32, usize>,
}

struct Kind<'a> {
    pod: &'a OpenbPod,
    weight: f64,
}

impl Host {
    fn fits(&self, pod: &OpenbPod) -> bool {
        let allowed = pod.num_gpu == 0 || pod.gpu_spec.is_empty() || pod.gpu_spec.contains(&self.model);
        self.cpu >= pod.cpu_milli as i64 && allowed && self.devices(pod) >= pod.num_gpu as usize
    }

    fn devices(&self, pod: &OpenbPod) -> usize {
        self.free.iter().filter(|free| **free >= pod.gpu_milli as i64).count()
    }

    fn total(&self) -> i64 {
        self.free.iter().sum()
    }

    /// The devices a pod gets: lowest-numbered free ones, or for a share the tightest that fits.
    fn choice(&self, pod: &OpenbPod) -> Vec<usize> {
        let fitting: Vec<usize> =
            (0..self.free.len()).filter(|at| self.free[*at] >= pod.gpu_milli as i64).collect();
        if is_share(pod) {
            return fitting.into_iter().min_by_key(|at| (self.free[*at], *at)).into_iter().collect();
        }
        fitting.into_iter().take(pod.num_gpu as usize).collect()
    }

    fn with(&self, pod: &OpenbPod, devices: &[usize]) -> Self {
        let mut after = self.clone();
        after.cpu -= pod.cpu_milli as i64;
        after.memory -= pod.memory_mib as i64;
        after.pods += 1;
        for at in devices {
            after.free[*at] -= pod.gpu_milli as i64;
        }
        if pod.num_gpu > 0 {
            *after.classes.entry(class(pod)).or_default() += 1;
        }
        after
    }

    /// Fragmented GPU for the mix, summed by reason in the published order.
    fn fragmented(&self, mix: &[Kind<'_>]) -> f64 {
        let total = self.total() as f64;
        let mut sums = [0.0; 6];
        for kind in mix {
            let pod = kind.pod;
            let cpu = self.cpu >= pod.cpu_milli as i64;
            let (reason, amount) = if pod.num_gpu == 0 {
                (if cpu { 3 } else { 4 }, total)
            } else if !pod.gpu_spec.is_empty() && !pod.gpu_spec.contains(&self.model) {
                (5, total)
            } else {
                let small: i64 = self.free.iter().filter(|free| **free < pod.gpu_milli as i64).sum();
                match (cpu, self.devices(pod) >= pod.num_gpu as usize) {
                    (true, true) => (1, small as f64),
                    (true, false) => (1, total),
                    (false, true) => (2, total),
                    (false, false) => (0, total),
                }
            };
            sums[reason] += kind.weight * amount;
        }
        sums.iter().sum()
    }
}

fn is_share(pod: &OpenbPod) -> bool {
    pod.num_gpu == 1 && pod.gpu_milli < 1000
}

fn class(pod: &OpenbPod) -> u32 {
    if is_share(pod) { 0 } else { pod.num_gpu }
}

fn mix(pods: &[OpenbPod]) -> Vec<Kind<'_>> {
    let key = |pod: &OpenbPod| (pod.cpu_milli, pod.gpu_milli, pod.num_gpu, pod.gpu_spec.join("|"));
    let mut kinds: Vec<(usize, &OpenbPod)> = Vec::new();
    for pod in pods {
        match kinds.iter_mut().find(|(_, known)| key(known) == key(pod)) {
            Some((count, _)) => *count += 1,
            None => kinds.push((1, pod)),
        }
    }
    kinds.sort_by_key(|(count, pod)| std::cmp::Reverse((*count, key(pod))));
    let mut held = 0;
    let enough = kinds.iter().position(|(count, _)| {
        held += count;
        held * 100 >= pods.len() * 95
    });
    kinds.truncate(enough.map_or(kinds.len(), |last| last + 1));
    let kept: usize = kinds.iter().map(|(count, _)| count).sum();
    let all = pods.len() as f64;
    let weight = |count: usize| (count as f64 / all) / (kept as f64 / all);
    kinds.into_iter().map(|(count, pod)| Kind { pod, weight: weight(count) }).collect()
}

/// Score of a host and the devices that go with it.
fn score(host: &Host, pod: &OpenbPod, policy: &str, mix: &[Kind<'_>]) -> (f64, Vec<usize>) {
    let devices = host.choice(pod);
    let (cpu, gpu) = (host.cpu as f64, host.total() as f64);
    let (ask_cpu, ask_gpu) = (pod.cpu_milli as f64, (u64::from(pod.num_gpu) * pod.gpu_milli) as f64);
    let points = match policy {
        "first-fit" => 0.0,
        "best-fit" => 100.0 * (1.0 - 0.5 * (cpu - ask_cpu) / 128_000.0 - 0.5 * (gpu - ask_gpu) / 8000.0),
        "dot-product" => {
            100.0
                * (1.0 - 0.5 * (cpu * ask_cpu / (128_000.0 * 128_000.0) + gpu * ask_gpu / (8000.0 * 8000.0)))
        }
        "gpu-packing" if pod.num_gpu == 0 => 0.0,
        "gpu-packing" => {
            let n = host.free.len() as f64;
            if host.free.iter().all(|free| *free == 1000) {
                (33.0 - n).max(n)
            } else {
                let mut free: Vec<i64> =
                    host.free.iter().copied().filter(|free| *free >= pod.gpu_milli as i64).collect();
                free.sort_unstable();
                free.truncate(pod.num_gpu as usize);
                let whole = free.iter().filter(|free| **free == 1000).count() as f64;
                if whole > 0.0 {
                    (50.0 - whole).max(33.0)
                } else {
                    let percent: i64 = free.iter().map(|free| free / 10).sum();
                    (100.0 - (percent / 10) as f64).max(50.0)
                }
            }
        }
        "gpu-clustering" if pod.num_gpu == 0 => 0.0,
        "gpu-clustering" => {
            let base = (25.0 * (8000.0 - gpu) / 8000.0).trunc();
            let same = host.classes.contains_key(&class(pod));
            let others = host.classes.keys().any(|known| *known != class(pod));
            base + match (same, others) {
                (true, false) => 75.0,
                (true, true) => 50.0,
                (false, false) => 25.0,
                (false, true) => 0.0,
            }
        }
        _ => {
            let before = host.fragmented(mix);
            let points = |devices: &[usize]| {
                let after = host.with(pod, devices).fragmented(mix);
                (100.0 * (1.0 / (1.0 + libm::exp(-(before - after) / 1000.0)))).trunc()
            };
            if !is_share(pod) {
                return (points(&devices), devices);
            }
            let fitting = (0..host.free.len()).filter(|at| host.free[*at] >= pod.gpu_milli as i64);
            let mut best: Option<(f64, usize)> = None;
            for at in fitting {
                let found = points(&[at]);
                if best.is_none_or(|(most, _)| found > most) {
                    best = Some((found, at));
                }
            }
            return best.map_or((f64::MIN, Vec::new()), |(points, at)| (points, vec![at]));
        }
    };
    (points.trunc(), devices)
}

/// For each pod of the sequence, the row of its node, if it finds one.
pub(crate) fn pack(
    nodes: &[OpenbNode],
    pods: &[OpenbPod],
    sequence: &Sequence,
    policy: &str,
) -> Vec<Option<usize>> {
    let mut hosts: Vec<Host> = nodes
        .iter()
        .map(|node| Host {
            cpu: node.cpu_milli as i64,
            memory: node.memory_mib as i64,
            free: vec![1000; node.gpus as usize],
            model: node.model.clone().unwrap_or_default(),
            pods: 0,
            classes: Default::default(),
        })
        .collect();
    let mix = mix(pods);
    let mut placed = Vec::new();
    for row in &sequence.pods {
        let pod = &pods[*row as usize];
        let mut best: Option<(f64, usize, Vec<usize>)> = None;
        for at in sequence.nodes.iter().map(|row| *row as usize) {
            let host = &hosts[at];
            if !host.fits(pod) || host.memory < pod.memory_mib as i64 || host.pods >= 1001 {
                continue;
            }
            let (points, devices) = score(host, pod, policy, &mix);
            if best.as_ref().is_none_or(|(most, ..)| points > *most) {
                best = Some((points, at, devices));
            }
        }
        if let Some((_, at, devices)) = &best {
            hosts[*at] = hosts[*at].with(pod, devices);
        }
        placed.push(best.map(|(_, at, _)| at));
    }
    placed
}
