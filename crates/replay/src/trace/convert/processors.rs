//! Jobs on alike processors: logs and made-up workloads become own traces or logs.

use std::collections::BTreeSet;
use std::io::{self, Write};

use landfall_model::{Mib, MilliCpu, MilliGpu};

use super::build::{Timing, exactly, submission, tenant};
use super::{Converted, Refused, Shape};
use crate::trace::batch::{BatchJob, Kept};
use crate::trace::generate::{Generated, Settings};
use crate::trace::own::{GpuFacts, Header, NodeFacts, Writer};
use crate::trace::swf::{Log, SwfJob};

/// Writes the jobs of a log that a machine of `procs` processors can run, and the nodes of that machine.
pub fn from_swf(
    log: &Log,
    procs: u64,
    shape: Shape,
    header: &Header,
    out: impl Write,
) -> io::Result<Converted> {
    let kept = Kept::of(log, procs);
    let mut converted = Converted { estimates_defaulted: kept.estimates_defaulted, ..Converted::default() };
    for (reason, count) in kept.dropped.by_reason() {
        if count > 0 {
            converted.dropped.insert(reason.to_owned(), count);
        }
    }
    let mut writer = Writer::new(out, header)?;
    converted.nodes = procs.div_ceil(shape.procs_per_node);
    writer.node(&NodeFacts {
        id: "node".to_owned(),
        count: Some(converted.nodes),
        cpu_milli: shape.procs_per_node.saturating_mul(1000).min(MilliCpu::MAX),
        ram_mib: 0,
        gpus: Vec::new(),
    })?;
    let mut seen = BTreeSet::new();
    for job in &kept.jobs {
        let outcome = match seen.insert(job.number) {
            true => write_batch_job(job, shape, &mut writer),
            false => Err(Refused::Job("its number is used twice".to_owned())),
        };
        converted.count(outcome)?;
    }
    writer.into_inner().flush()?;
    Ok(converted)
}

fn write_batch_job<W: Write>(job: &BatchJob, shape: Shape, writer: &mut Writer<W>) -> Result<(), Refused> {
    let timing = Timing {
        at_ms: job.submit.saturating_mul(1000),
        run_ms: Some(milliseconds(job.run)),
        estimate_ms: Some(milliseconds(job.estimate)),
    };
    let submission = submission(&job.number.to_string(), &timing, |spec| {
        spec.tenant = tenant(job.user);
        spec.nodes = exactly(job.procs.div_ceil(shape.procs_per_node))?;
        Some(())
    })?;
    Ok(writer.submission(&submission)?)
}

fn milliseconds(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)
}

/// A made-up workload as a log; GPUs cannot be said there and are left out.
pub fn generated_log(settings: &Settings, jobs: &[Generated]) -> Log {
    let comments = [
        " Version: 2.2".to_owned(),
        format!(
            " Note: made by landfall trace generate (jobs {}, load {}, seed {})",
            settings.jobs, settings.load, settings.seed
        ),
        format!(" MaxJobs: {}", jobs.len()),
        format!(" MaxRecords: {}", jobs.len()),
        format!(" MaxNodes: {}", settings.procs),
        format!(" MaxProcs: {}", settings.procs),
    ];
    let row = |job: &Generated| SwfJob {
        number: job.number,
        submit: job.submit,
        run: job.run,
        allocated: job.procs as i64,
        requested: job.procs as i64,
        estimate: job.estimate,
        requested_memory: job.memory_mib as i64 * 1024,
        // The format's own codes: 1 completed, 5 cancelled or killed.
        status: if job.killed { 5 } else { 1 },
        user: job.user,
        group: job.group,
        executable: job.executable,
        ..SwfJob::UNKNOWN
    };
    Log { comments: comments.into(), jobs: jobs.iter().map(row).collect() }
}

/// Writes a made-up workload and the nodes it was made for.
pub fn from_generated(
    settings: &Settings,
    jobs: &[Generated],
    shape: Shape,
    out: impl Write,
) -> io::Result<Converted> {
    let description = format!(
        "made by landfall trace generate (jobs {}, load {}, seed {})",
        settings.jobs, settings.load, settings.seed
    );
    let mut writer = Writer::new(out, &Header { description: Some(description) })?;
    let mut converted = Converted::default();
    let (nodes, gpus) = match settings.gpus {
        None => (settings.procs.div_ceil(shape.procs_per_node), Vec::new()),
        Some(gpus) => {
            let facts = GpuFacts { count: gpus.per_node, model: None, vram_mib: Some(gpus.vram_mib) };
            (gpus.total.div_ceil(u64::from(gpus.per_node)), vec![facts])
        }
    };
    // With GPUs the processors are spread over as many nodes as the GPUs need.
    let procs_per_node =
        if gpus.is_empty() { shape.procs_per_node } else { settings.procs.div_ceil(nodes).max(1) };
    let shape = Shape { procs_per_node, ..shape };
    converted.nodes = nodes;
    writer.node(&NodeFacts {
        id: "node".to_owned(),
        count: Some(nodes),
        cpu_milli: procs_per_node.saturating_mul(1000).min(MilliCpu::MAX),
        ram_mib: procs_per_node.saturating_mul(8 * 1024).min(Mib::MAX),
        gpus,
    })?;
    for job in jobs {
        let outcome = write_generated(settings, job, shape, &mut writer);
        converted.count(outcome)?;
    }
    writer.into_inner().flush()?;
    Ok(converted)
}

fn write_generated<W: Write>(
    settings: &Settings,
    job: &Generated,
    shape: Shape,
    writer: &mut Writer<W>,
) -> Result<(), Refused> {
    let timing = Timing {
        at_ms: job.submit.saturating_mul(1000),
        run_ms: Some(milliseconds(job.run)),
        estimate_ms: Some(milliseconds(job.estimate)),
    };
    let submission = submission(&job.number.to_string(), &timing, |spec| {
        spec.tenant = tenant(job.user);
        let nodes = match (job.gpus, settings.gpus) {
            (Some(need), Some(gpus)) => {
                let nodes = need.count.div_ceil(u64::from(gpus.per_node));
                spec.gpu_count = u32::try_from(need.count.div_ceil(nodes)).ok()?;
                spec.gpu_milli = MilliGpu::new(need.milli);
                spec.vram_mib = Mib::try_new(need.vram_mib).ok()?;
                nodes
            }
            _ => job.procs.div_ceil(shape.procs_per_node),
        };
        spec.nodes = exactly(nodes)?;
        if settings.gpus.is_some() {
            // Jobs of a GPU machine share nodes: each takes its devices and its part of the CPU.
            let procs = job.procs.div_ceil(nodes).min(shape.procs_per_node);
            spec.exclusive = false;
            spec.cpu_milli = MilliCpu::try_new(procs * 1000).ok()?;
            spec.ram_mib = Mib::try_new(procs * job.memory_mib.min(8 * 1024)).ok()?;
        }
        Some(())
    })?;
    Ok(writer.submission(&submission)?)
}
