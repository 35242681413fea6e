//! Pods through the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_engine::input::Submission;
use landfall_engine::{Engine, Input};
use landfall_model::gpu_table::GpuModel;
use landfall_model::{
    Gpu, Job, JobId, JobSpec, Mib, MilliCpu, MilliGpu, Name, Node, NodeId, Situation, Time, World,
};
use landfall_policy::rules::fragmentation::fragmentation;
use landfall_policy::spec::PolicySpec;

use super::{Curve, Sequence, expected_mix};
use crate::trace::openb::{OpenbNode, OpenbPod};

/// GPU that a pod asks for on all its devices, in thousandths.
pub(super) fn gpu_total(pod: &OpenbPod) -> u64 {
    u64::from(pod.num_gpu) * pod.gpu_milli
}

/// Why a packing run could not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackingError {
    #[error("`{0}` cannot be used as a name: {1}")]
    Name(String, String),
    #[error("the arrivals name {what} row {row}, but there are {rows}: they belong to other files")]
    Row {
        /// `pod` or `node`.
        what: &'static str,
        row: u32,
        rows: usize,
    },
    /// The engine did not take the cluster or the policy.
    #[error("{0}")]
    Refused(String),
}

/// What came of a packing run.
#[derive(Debug, Clone, Default)]
pub struct Packed {
    pub curve: Curve,
    /// For each pod of the sequence, the row of its node, if it was placed.
    pub placed: Vec<Option<u32>>,
    /// GPU given at the end, in thousandths.
    pub given: u64,
    /// GPU there is, in thousandths.
    pub capacity: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// A built-in policy as published packing programs run it: scores cut to whole numbers, so that ties are common.
pub fn published(mut policy: PolicySpec) -> PolicySpec {
    if policy.params.contains_key("gradient_scale") {
        policy.params.insert("gradient_scale".into(), "sigmoid100".into());
        policy.params.insert("truncate".into(), true.into());
    }
    policy
}

fn bad_name(name: &str) -> impl FnOnce(landfall_model::IdError) -> PackingError + '_ {
    move |error| PackingError::Name(name.to_owned(), error.to_string())
}

fn node_of(host: &OpenbNode, models: &mut BTreeMap<String, Arc<GpuModel>>) -> Result<Node, PackingError> {
    let id = NodeId::new(&host.name).map_err(bad_name(&host.name))?;
    let mut node = Node::new(id, MilliCpu::new(host.cpu_milli), Mib::new(host.memory_mib));
    let model = match &host.model {
        None => None,
        Some(model) => match models.get(model) {
            Some(known) => Some(known.clone()),
            None => {
                let name = Name::new(model).map_err(bad_name(model))?;
                Some(models.entry(model.clone()).or_insert(GpuModel::new(name)).clone())
            }
        },
    };
    node.gpus = (0..host.gpus as u16).map(|index| Gpu::new(index, model.clone(), None)).collect();
    Ok(node)
}

fn spec_of(pod: &OpenbPod) -> Result<JobSpec, PackingError> {
    let models: Result<Vec<Name>, _> =
        pod.gpu_spec.iter().map(|model| Name::new(model).map_err(bad_name(model))).collect();
    Ok(JobSpec {
        cpu_milli: MilliCpu::new(pod.cpu_milli),
        ram_mib: Mib::new(pod.memory_mib),
        gpu_count: pod.num_gpu,
        gpu_milli: MilliGpu::new(if pod.num_gpu == 0 { 1000 } else { pod.gpu_milli }),
        gpu_models: models?,
        exclusive: false,
        ..JobSpec::empty()
    })
}

/// Places pods in the given order. `progress` is told how many have arrived; `false` stops.
pub fn pack(
    hosts: &[OpenbNode],
    pods: &[OpenbPod],
    sequence: &Sequence,
    policy: &PolicySpec,
    progress: &mut dyn FnMut(usize) -> bool,
) -> Result<Packed, PackingError> {
    let within = |what, rows: usize, wanted: &[u32]| match wanted.iter().find(|row| **row as usize >= rows) {
        Some(row) => Err(PackingError::Row { what, row: *row, rows }),
        None => Ok(()),
    };
    within("pod", pods.len(), &sequence.pods)?;
    within("node", hosts.len(), &sequence.nodes)?;

    let mut models = BTreeMap::new();
    let nodes: Result<Vec<Node>, _> = hosts.iter().map(|host| node_of(host, &mut models)).collect();
    let nodes = nodes?;
    let rows: BTreeMap<NodeId, u32> = nodes.iter().map(|node| node.id.clone()).zip(0..).collect();
    let order: Vec<NodeId> = sequence.nodes.iter().map(|row| nodes[*row as usize].id.clone()).collect();
    let mix = expected_mix(pods);
    let mut fragmented: Vec<f64> = nodes.iter().map(|node| fragmentation(node, &mix)).collect();
    let world = World { mix: mix.clone(), ..World::default() };
    let situation = Situation::new(Time::ZERO, nodes, Vec::new(), &order, world)
        .map_err(|error| PackingError::Refused(error.to_string()))?;
    let mut engine = Engine::from_situation_with(&situation, Some(policy))
        .map_err(|refused| PackingError::Refused(refused.message))?;

    // Pods that ask for the same share one spec, so that the engine looks at their class once.
    let mut classes: BTreeMap<Arc<JobSpec>, Arc<JobSpec>> = BTreeMap::new();
    let mut specs: Vec<Arc<JobSpec>> = Vec::with_capacity(pods.len());
    for pod in pods {
        let spec = Arc::new(spec_of(pod)?);
        specs.push(classes.entry(spec.clone()).or_insert(spec).clone());
    }

    let capacity = hosts.iter().map(|host| u64::from(host.gpus) * 1000).sum();
    let mut packed = Packed { capacity, ..Packed::default() };
    let mut asked = 0;
    let mut lost: f64 = fragmented.iter().sum();
    for (number, row) in sequence.pods.iter().enumerate() {
        let pod = &pods[*row as usize];
        // A pod may come more than once, so its number makes the id.
        let id = JobId::new(&format!("{number:06}")).map_err(bad_name("job"))?;
        let job = Job::new(id.clone(), specs[*row as usize].clone(), Time::ZERO);
        engine.step(Time::ZERO, Input::Submit(vec![Submission::new(job)]));
        let node = engine
            .state()
            .job(&id)
            .and_then(|record| record.run.as_ref())
            .map(|run| run.nodes[0].node.clone());
        asked += gpu_total(pod);
        let placed = node.as_ref().and_then(|node| rows.get(node)).copied();
        if let (Some(place), Some((node, _))) =
            (placed, node.as_ref().and_then(|node| engine.state().node(node)))
        {
            packed.given += gpu_total(pod);
            let now = fragmentation(node, &mix);
            lost += now - std::mem::replace(&mut fragmented[place as usize], now);
        } else {
            engine.step(Time::ZERO, Input::Cancel(id));
        }
        packed.placed.push(placed);
        packed.curve.note(asked, packed.given, lost, capacity);
        if number % 256 == 255 && !progress(number + 1) {
            packed.stopped = true;
            break;
        }
    }
    Ok(packed)
}
