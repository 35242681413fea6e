//! What to do when no node is admitted: ask a provider for capacity, or say that none could ever do.

use landfall_model::{Gpu, JobSpec, Mib, MilliCpu, Millis, Name, Node, Provider, ProviderKind, Tier};

use crate::params::{ParamError, ParamInfo, ParamKind, Params};
use crate::policy::Policy;
use crate::refusal::Reason;
use crate::verdict::Decision;
use crate::view::Pass;
use landfall_model::Job;

/// Jobs with at least so many GPUs go to providers of whole nodes.
const LARGE_JOB_GPUS: u32 = 8;
/// The provider of a node without block.
const DEFAULT_PROVIDER: &str = "sfcompute";
/// Time kept free between the end of a job and the end of a lease.
const SAFETY_MARGIN: Millis = Millis::secs(300);

/// Jobs with at least so many GPUs go to providers of whole nodes.
pub(crate) const LARGE_JOB: ParamInfo = ParamInfo::whole(
    "large_job_gpus",
    LARGE_JOB_GPUS as i64,
    "GPUs",
    "Jobs with at least so many GPUs suit providers of whole nodes.",
);
/// Time kept free before the end of a lease.
pub(crate) const PREDICT_DURATIONS: ParamInfo = ParamInfo::switch(
    "predict_durations",
    false,
    "Whether leases are compared with how long runs of the workload took for the tenant, where five or more are known.",
);
pub(crate) const SAFETY_MARGIN_MS: ParamInfo = ParamInfo::whole(
    "safety_margin_ms",
    SAFETY_MARGIN.get() as i64,
    "ms",
    "Time kept free between the expected end of a job and the end of the lease.",
);
/// The provider of a node without block.
pub(crate) const DEFAULT_PROVIDER_PARAM: ParamInfo = ParamInfo {
    name: "default_provider",
    default: crate::params::Default::Word(DEFAULT_PROVIDER),
    kind: ParamKind::Text,
    unit: "",
    description: "The provider of a node that belongs to no block.",
};

/// What a request for capacity goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    large_job_gpus: u32,
    margin: Millis,
}

impl Request {
    pub(crate) fn build(params: &Params<'_>) -> Result<Self, ParamError> {
        Ok(Self {
            large_job_gpus: u32::try_from(params.whole(&LARGE_JOB)?).unwrap_or(u32::MAX),
            margin: Millis::new(params.whole(&SAFETY_MARGIN_MS)? as u64),
        })
    }
}

pub(crate) fn decide(policy: &Policy, pass: &Pass<'_>, job: &Job) -> Decision {
    if !policy.requests_capacity() {
        return Decision::Wait { reason: Reason::NoNode, detail: Reason::NoNode.said().into_owned() };
    }
    let spec = &job.spec;
    let request = &policy.request;
    let provider = recommend(spec, &pass.world.providers, request.large_job_gpus);
    let (reason, detail) = match nearest_miss(spec, pass, request.margin) {
        None => (
            Reason::NoCapacityNow,
            "a node of this shape exists or can be leased, but none is free now".to_owned(),
        ),
        Some(miss) => (Reason::Unsatisfiable, miss),
    };
    match spec.tier {
        Tier::Fast => Decision::RequestMoreCapacity { tier: "FAST".into(), provider, reason, detail },
        Tier::Flex => Decision::QueueForFlex { provider, reason, detail },
    }
}

impl Policy {
    /// Whether no node, as it is or as a provider could deliver it, would ever do.
    pub fn is_unsatisfiable(&self, pass: &Pass<'_>, job: &Job) -> bool {
        nearest_miss(&job.spec, pass, self.request.margin).is_some()
    }
}

/// Whom to ask: for small jobs a provider of exact sizes, for large ones a provider of whole nodes, by lowest name.
pub fn recommend(spec: &JobSpec, providers: &[Provider], large_job_gpus: u32) -> Option<Name> {
    if spec.provider.is_some() {
        return spec.provider.clone();
    }
    let wanted = if spec.gpu_count < large_job_gpus { ProviderKind::Exact } else { ProviderKind::Bulk };
    let enabled = || providers.iter().filter(|provider| provider.enabled);
    enabled()
        .filter(|provider| provider.class == wanted)
        .min_by(|a, b| a.name.cmp(&b.name))
        .or_else(|| enabled().min_by(|a, b| a.name.cmp(&b.name)))
        .map(|provider| provider.name.clone())
}

/// One shape that a job might fit: a node as it stands, or what a provider delivers.
struct Capacity {
    all_gpus: u64,
    /// Memory of its largest GPU.
    vram: Mib,
    /// GPUs with as much memory as the job asks for.
    gpus: u64,
    cpu: MilliCpu,
    ram: Mib,
    lease: Option<Millis>,
}

/// If no known shape could ever hold the job, says what is missing at the nearest one.
fn nearest_miss(spec: &JobSpec, pass: &Pass<'_>, margin: Millis) -> Option<String> {
    // A job that pins a provider gets nothing of others.
    let pinned = |name: &Name| spec.provider.as_ref().is_none_or(|wanted| wanted == name);
    let own =
        pass.nodes().iter().filter(|node| node.block.as_ref().is_none_or(|block| pinned(&block.provider)));
    let nodes = own.map(|node| of_node(spec, node, pass));
    let sold = pass.world.providers.iter().filter(|provider| provider.enabled && pinned(&provider.name));
    let shapes = sold.map(|provider| Capacity {
        all_gpus: u64::from(provider.shape.gpus),
        vram: provider.shape.vram_mib,
        gpus: if provider.shape.vram_mib >= spec.vram_mib { u64::from(provider.shape.gpus) } else { 0 },
        cpu: provider.shape.cpu_milli,
        ram: provider.shape.ram_mib,
        lease: Some(provider.lease_max_ms),
    });
    let shapes: Vec<Capacity> = nodes.chain(shapes).collect();
    let needed_lease = spec.expected_duration_ms + margin;
    let holds = |shape: &Capacity| {
        shape.gpus >= u64::from(spec.gpu_count)
            && shape.cpu >= spec.cpu_milli
            && shape.ram >= spec.ram_mib
            && shape.lease.is_none_or(|lease| lease >= needed_lease)
    };
    if shapes.iter().any(holds) {
        return None;
    }
    let largest = |of: &dyn Fn(&Capacity) -> u64| shapes.iter().map(of).max().unwrap_or(0);
    let gpus = largest(&|shape| shape.gpus);
    if gpus < u64::from(spec.gpu_count) {
        if gpus == 0 {
            let vram = Mib::new(largest(&|shape| shape.vram.get()));
            return Some(match largest(&|shape| shape.all_gpus) {
                0 => format!("no node has a GPU; {} asked", spec.gpu_count),
                _ => format!("the largest GPU has {vram}; {} asked", spec.vram_mib),
            });
        }
        let all = largest(&|shape| shape.all_gpus);
        let size = if all == gpus { String::new() } else { format!(" of {}", spec.vram_mib) };
        return Some(format!(
            "largest node has {gpus} GPUs{size}; {} asked; submit as a gang",
            spec.gpu_count
        ));
    }
    let cpu = MilliCpu::new(largest(&|shape| shape.cpu.get()));
    if cpu < spec.cpu_milli {
        return Some(format!("largest node has {cpu}; {} asked", spec.cpu_milli));
    }
    let ram = Mib::new(largest(&|shape| shape.ram.get()));
    if ram < spec.ram_mib {
        return Some(format!("largest node has {ram} RAM; {} asked", spec.ram_mib));
    }
    let lease = Millis::new(largest(&|shape| shape.lease.map_or(u64::MAX, Millis::get)));
    if lease < needed_lease {
        return Some(format!("longest lease is {lease}; {needed_lease} asked with the safety margin"));
    }
    Some("no single node or shape has all of the GPUs, CPU, RAM and lease asked for".into())
}

fn of_node(spec: &JobSpec, node: &Node, pass: &Pass<'_>) -> Capacity {
    Capacity {
        all_gpus: node.gpus.len() as u64,
        vram: node.gpus.iter().map(Gpu::vram_total).max().unwrap_or_default(),
        gpus: node.gpus.iter().filter(|gpu| gpu.vram_total() >= spec.vram_mib).count() as u64,
        cpu: node.cpu_total,
        ram: node.ram_total,
        lease: node.block.as_ref().and_then(|block| block.ends_at()).map(|end| end.since(pass.now)),
    }
}
