//! `landfall trace info`: what is in a trace.

use std::collections::BTreeMap;
use std::path::PathBuf;

use landfall_model::Millis;
use landfall_replay::trace::batch::Kept;
use landfall_replay::trace::own::{Contents, Submission, Trace};
use landfall_replay::trace::summary::{Summary, SummaryJob};
use landfall_replay::trace::swf::{BadLines, Log};
use landfall_replay::trace::{Kind, TraceError, muri, openb};
use landfall_replay::work::Runs;
use serde::Serialize;

use super::files::{self, Opened};
use crate::error::CliError;
use crate::render;
use crate::reply::Reply;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The kind of the file is told by what it says: swf, landfall, openb, openb-nodes, openb-arrivals or muri, plain or gzip.

Examples:
  landfall trace info KTH-SP2-1996-2.1-cln.swf.gz
  landfall trace info theta.swf.gz --procs 4392 --json
  landfall trace info broken.swf --lenient")]
pub(crate) struct Args {
    /// The trace.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Processors (or nodes, or GPUs) of the machine; without it, what the trace says.
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u64).range(1..))]
    procs: Option<u64>,
    /// What the file is, where its content does not tell.
    #[arg(long, value_name = "KIND", value_parser = files::kind)]
    from: Option<Kind>,
    /// Leave bad lines of a log out and count them, instead of stopping.
    #[arg(long)]
    lenient: bool,
}

/// The answer of `trace info`.
#[derive(Serialize)]
pub(crate) struct Info {
    pub(crate) file: String,
    pub(crate) kind: &'static str,
    /// SHA-256 of its bytes.
    pub(crate) sha256: String,
    /// What widths are counted in.
    pub(crate) unit: &'static str,
    /// Units of the machine, if known.
    pub(crate) capacity: Option<u64>,
    pub(crate) records: u64,
    pub(crate) nodes: u64,
    /// Changes of nodes in the file.
    pub(crate) changes: u64,
    /// What else there is in a trace of landfall's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) contents: Option<Contents>,
    pub(crate) jobs: Option<Summary>,
    /// Jobs that a replay leaves out, by reason.
    pub(crate) dropped: BTreeMap<String, u64>,
    /// Lines that are no jobs, by reason.
    pub(crate) bad_lines: BTreeMap<String, u64>,
    /// Jobs whose missing estimate would be their run time.
    pub(crate) estimates_defaulted: u64,
    pub(crate) runs_cut: u64,
    pub(crate) warnings: Vec<String>,
}

/// Answers `trace info`.
pub(crate) fn run(args: &Args) -> Result<Reply<Info>, CliError> {
    let mut opened = Opened::open(&args.file, args.from)?;
    let failed = opened.failed();
    let mut info = empty(&opened);
    info.capacity = args.procs;
    look(&mut opened, args, &mut info).map_err(&failed)?;
    info.sha256 = opened.source.finish().map_err(|error| failed(error.into()))?;
    if info.jobs.as_ref().is_some_and(|jobs| jobs.jobs == 0) {
        info.warnings.push("there are no jobs".into());
    }
    if info.jobs.is_some() && info.capacity.is_none() {
        info.warnings
            .push("the size of the machine is not known, so there is no load; --procs tells it".into());
    }
    let warnings = info.warnings.clone();
    Ok(Reply::new("landfall.trace-info/1", info, |info, _| render::trace::info(info)).warn_all(warnings))
}

fn empty(opened: &Opened) -> Info {
    Info {
        file: opened.file.clone(),
        kind: opened.kind.name(),
        sha256: String::new(),
        unit: "processors",
        capacity: None,
        records: 0,
        nodes: 0,
        changes: 0,
        contents: None,
        jobs: None,
        dropped: BTreeMap::new(),
        bad_lines: BTreeMap::new(),
        estimates_defaulted: 0,
        runs_cut: 0,
        warnings: Vec::new(),
    }
}

fn look(opened: &mut Opened, args: &Args, info: &mut Info) -> Result<(), TraceError> {
    let source = &mut opened.source;
    let sum_up = |info: &mut Info, jobs: &[SummaryJob]| {
        info.jobs = Some(Summary::of(jobs, info.capacity.map(|capacity| capacity as f64)));
    };
    match opened.kind {
        Kind::Swf => {
            let bad_lines = if args.lenient { BadLines::Drop } else { BadLines::Refuse };
            let (log, bad) = Log::read_with(source, bad_lines)?;
            (info.bad_lines, info.records) = (bad, log.jobs.len() as u64);
            info.capacity = info.capacity.or(log.processors());
            let jobs = of_log(&log, info);
            sum_up(info, &jobs);
        }
        Kind::Own => {
            let trace = Trace::read(source)?;
            let with_gpus = trace.submissions.iter().any(|submission| submission.job.spec.is_gpu_job());
            info.unit = if with_gpus { "GPUs" } else { "nodes" };
            let nodes = trace.latest_nodes();
            let gpus = || nodes.values().map(|node| node.gpus.len() as u64).sum();
            let units = if with_gpus { gpus() } else { nodes.len() as u64 };
            info.capacity = info.capacity.or(Some(units).filter(|&units| units > 0));
            info.records = trace.submissions.len() as u64;
            (info.nodes, info.changes) = (nodes.len() as u64, trace.changes.len() as u64);
            info.contents = Some(Contents::of(&trace));
            let jobs = of_own(&trace, with_gpus);
            sum_up(info, &jobs);
        }
        Kind::OpenbPods => {
            let pods = openb::read_pods(source)?;
            (info.unit, info.records) = ("GPUs", pods.len() as u64);
            let jobs: Vec<SummaryJob> = pods.iter().map(of_pod).collect();
            sum_up(info, &jobs);
        }
        Kind::Muri => {
            let rows = muri::read(source)?;
            (info.unit, info.records) = ("GPUs", rows.len() as u64);
            let seconds = |ms: u64| ms as f64 / 1000.0;
            let job = |row: &muri::MuriJob| SummaryJob {
                submit_s: seconds(row.submit_ms),
                run_s: Some(seconds(row.duration_ms)),
                width: f64::from(row.num_gpu),
                estimate_s: None,
                user: None,
            };
            let jobs: Vec<SummaryJob> = rows.iter().map(job).collect();
            sum_up(info, &jobs);
        }
        Kind::OpenbNodes => {
            let nodes = openb::read_nodes(source)?;
            (info.unit, info.records, info.nodes) = ("GPUs", nodes.len() as u64, nodes.len() as u64);
            info.capacity = Some(nodes.iter().map(|node| u64::from(node.gpus)).sum());
        }
        Kind::OpenbArrivals => info.records = openb::read_arrivals(source)?.len() as u64,
    }
    Ok(())
}

fn of_log(log: &Log, info: &mut Info) -> Vec<SummaryJob> {
    let kept = Kept::of(log, info.capacity.unwrap_or(u64::MAX));
    for (reason, count) in kept.dropped.by_reason() {
        if count > 0 {
            info.dropped.insert(reason.to_owned(), count);
        }
    }
    (info.estimates_defaulted, info.runs_cut) = (kept.estimates_defaulted, kept.runs_cut);
    let job = |job: &landfall_replay::trace::batch::BatchJob| SummaryJob {
        submit_s: job.submit as f64,
        run_s: Some(job.run as f64),
        width: job.procs as f64,
        estimate_s: (kept.estimates_defaulted == 0).then_some(job.estimate as f64),
        user: (job.user >= 0).then(|| job.user.to_string()),
    };
    kept.jobs.iter().map(job).collect()
}

fn of_own(trace: &Trace, with_gpus: bool) -> Vec<SummaryJob> {
    let seconds = |span: Millis| span.get() as f64 / 1000.0;
    let one = |submission: &Submission, runs: &Runs| {
        let spec = &submission.job.spec;
        let nodes = f64::from(spec.nodes.max);
        SummaryJob {
            submit_s: submission.at.as_millis() as f64 / 1000.0,
            run_s: runs.last.run.map(seconds),
            width: if with_gpus { nodes * spec.gpu_milli_total() as f64 / 1000.0 } else { nodes },
            estimate_s: Some(seconds(spec.walltime_ms)),
            user: spec.tenant.as_ref().map(ToString::to_string),
        }
    };
    let arrays: BTreeMap<&str, &Submission> = trace
        .submissions
        .iter()
        .filter(|submission| submission.array.is_some())
        .map(|submission| (submission.job.id.as_str(), submission))
        .collect();
    // Of an array those elements count whose run is told.
    let elements = trace.elements.iter().filter_map(|(id, runs)| {
        let (array, _) = id.as_str().rsplit_once('.')?;
        arrays.get(array).map(|submission| one(submission, runs))
    });
    let alone = trace.submissions.iter().filter(|submission| submission.array.is_none());
    alone.map(|submission| one(submission, &submission.runs)).chain(elements).collect()
}

fn of_pod(pod: &openb::OpenbPod) -> SummaryJob {
    let began = pod.scheduled.or(pod.created);
    SummaryJob {
        submit_s: pod.created.unwrap_or(0) as f64,
        run_s: began.zip(pod.deleted).map(|(from, until)| until.saturating_sub(from).max(0) as f64),
        width: f64::from(pod.num_gpu) * pod.gpu_milli as f64 / 1000.0,
        estimate_s: None,
        user: None,
    }
}
