//! Traces of GPU clusters become own traces.

use std::collections::BTreeSet;
use std::io::{self, Write};

use landfall_model::{Mib, MilliCpu, MilliGpu, Name};

use super::build::{Timing, exactly, submission};
use super::{Converted, Refused, Shape};
use crate::trace::muri::MuriJob;
use crate::trace::openb::{OpenbNode, OpenbPod};
use crate::trace::own::{GpuFacts, Header, NodeFacts, Writer};

/// Writes openb nodes and pods. A pod comes when it was created and runs from its scheduling to its deletion; one that
/// was never scheduled runs as long as it was there. Pods of lists without times all come at 0 and never end.
pub fn from_openb(
    nodes: &[OpenbNode],
    pods: &[OpenbPod],
    header: &Header,
    out: impl Write,
) -> io::Result<Converted> {
    let mut writer = Writer::new(out, header)?;
    let mut converted = Converted { nodes: nodes.len() as u64, ..Converted::default() };
    for node in nodes {
        let gpus = (node.gpus > 0)
            .then(|| GpuFacts { count: node.gpus, model: node.model.clone(), vram_mib: None })
            .into_iter()
            .collect();
        writer.node(&NodeFacts {
            id: node.name.clone(),
            count: None,
            cpu_milli: node.cpu_milli,
            ram_mib: node.memory_mib,
            gpus,
        })?;
    }
    let mut seen = BTreeSet::new();
    for pod in pods {
        let outcome = match seen.insert(&pod.name) {
            true => write_pod(pod, &mut writer),
            false => Err(Refused::Job("its name is used twice".to_owned())),
        };
        converted.estimates_defaulted += u64::from(outcome.is_ok() && pod.deleted.is_some());
        converted.count(outcome)?;
    }
    writer.into_inner().flush()?;
    Ok(converted)
}

fn write_pod<W: Write>(pod: &OpenbPod, writer: &mut Writer<W>) -> Result<(), Refused> {
    let began = pod.scheduled.or(pod.created);
    let run = began.zip(pod.deleted).map(|(from, until)| until.saturating_sub(from).max(0));
    let run_ms = run.map(|seconds| u64::try_from(seconds).unwrap_or(0).saturating_mul(1000));
    let timing = Timing { at_ms: pod.created.unwrap_or(0).saturating_mul(1000), run_ms, estimate_ms: None };
    let submission = submission(&pod.name, &timing, |spec| {
        spec.exclusive = false;
        spec.cpu_milli = MilliCpu::try_new(pod.cpu_milli).ok()?;
        spec.ram_mib = Mib::try_new(pod.memory_mib).ok()?;
        spec.gpu_count = pod.num_gpu;
        if pod.num_gpu > 0 {
            spec.gpu_milli = MilliGpu::try_new(pod.gpu_milli).ok()?;
        }
        spec.gpu_models = pod.gpu_spec.iter().map(|model| Name::new(model).ok()).collect::<Option<_>>()?;
        Some(())
    })?;
    Ok(writer.submission(&submission)?)
}

/// Writes Muri jobs; those with more GPUs than a node has become gangs over whole nodes.
pub fn from_muri(jobs: &[MuriJob], shape: Shape, header: &Header, out: impl Write) -> io::Result<Converted> {
    let mut writer = Writer::new(out, header)?;
    let mut converted = Converted { nodes: shape.nodes.unwrap_or(0), ..Converted::default() };
    if let Some(count) = shape.nodes {
        writer.node(&NodeFacts {
            id: "node".to_owned(),
            count: Some(count),
            cpu_milli: 0,
            ram_mib: 0,
            gpus: vec![GpuFacts { count: shape.gpus_per_node, model: None, vram_mib: None }],
        })?;
    }
    let mut seen = BTreeSet::new();
    for job in jobs {
        let outcome = match seen.insert(job.number) {
            true => write_muri(job, shape, &mut writer),
            false => Err(Refused::Job("its number is used twice".to_owned())),
        };
        converted.estimates_defaulted += u64::from(outcome.is_ok());
        converted.count(outcome)?;
    }
    writer.into_inner().flush()?;
    Ok(converted)
}

fn write_muri<W: Write>(job: &MuriJob, shape: Shape, writer: &mut Writer<W>) -> Result<(), Refused> {
    let timing = Timing {
        at_ms: i64::try_from(job.submit_ms).unwrap_or(i64::MAX),
        run_ms: Some(job.duration_ms),
        estimate_ms: None,
    };
    let submission = submission(&job.number.to_string(), &timing, |spec| {
        let nodes = job.num_gpu.div_ceil(shape.gpus_per_node.max(1)).max(1);
        spec.nodes = exactly(u64::from(nodes))?;
        spec.gpu_count = job.num_gpu.div_ceil(nodes);
        spec.exclusive = false;
        spec.priority = i32::try_from(job.priority).ok()?;
        Some(())
    })?;
    Ok(writer.submission(&submission)?)
}
